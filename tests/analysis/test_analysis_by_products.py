"""An analysis of more rows than factors are for: folds by products, the theory on part of the rows, and words that say so."""

from typing import Any

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

import overparam as op
from overparam.analysis import data_cost
from overparam.analysis.data_analysis import Analysis
from overparam.theory import tuning
from overparam.theory.left_out_folds import cut_into_folds

N, FEW = 120, 60
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, 3))
X[-1] = X[0]  # a copy
LABELS = np.digitize(X[:, 0] + 0.1 * RNG.standard_normal(N), [-0.4, 0.4])
LABELS[-1] = LABELS[0]


@pytest.fixture(scope="module")
def found() -> Analysis:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "BY_PRODUCTS", N - 1)
        patch.setattr(tuning, "COMPARED_ON", 80)
        patch.setattr(data_cost, "FACTOR_ROWS", FEW)
        return op.analyze((X, LABELS), kinds=False)


def test_the_error_is_that_of_refits_to_the_folds(found: Analysis) -> None:
    assert (found.n, found.theory_rows, found.error.folds) == (N, FEW, 5)
    assert found.error.leading == "copies left out together"
    rows = np.hstack([(X - X.mean(axis=0)) / X.std(axis=0) / np.sqrt(3), np.ones((N, 1))])
    kernel = tuning.default_candidates(rows)[found.error.kernel]
    K, y = kernel(rows), np.eye(3)[LABELS] - 1 / 3
    groups = np.where(np.arange(N) == N - 1, 0, np.arange(N))
    fold, wrong = cut_into_folds(groups, LABELS, 5), np.zeros(N)
    for out in range(5):
        kept, left = np.flatnonzero(fold != out), np.flatnonzero(fold == out)
        settings: dict[str, Any] = {"alpha": found.error.ridge, "kernel": "precomputed"}
        model = KernelRidge(**settings).fit(K[np.ix_(kept, kept)], y[kept])
        wrong[left] = model.predict(K[np.ix_(left, kept)]).argmax(axis=1) != LABELS[left]
    # one setting: the mean over draws of groups is the mean itself
    assert found.error.left_out_error.value == pytest.approx(wrong.mean(), abs=1e-12)


def test_what_rests_on_part_of_the_rows_says_so(found: Analysis) -> None:
    assert any("a fifth of all at once" in note for note in found.error.notes)
    assert len(found.learnability.margins) == FEW
    assert len(found.labels.rows) == N
    page = " ".join(str(section) for section in found.sections())
    assert f"of {FEW} of the {N} rows" in page
    assert "rows left out in five folds" in page
