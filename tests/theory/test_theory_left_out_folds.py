"""Folds left out by products, against the closed form of groups and against refits."""

from typing import Any

import numpy as np
import pytest

from overparam.engines import gram
from overparam.kernels import TwoLayer
from overparam.spectrum import leave_groups_out
from overparam.theory import leave_folds_out

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 5))
X[11] = X[10]  # a pair that leaves together
FOLDS = np.arange(90) % 5
FOLDS[11] = FOLDS[10]
Y = RNG.standard_normal((90, 3))


@pytest.mark.parametrize(("engine", "device"), [("dense", "cpu"), ("matrix_free", "jax")])
def test_all_folds_at_once_are_the_closed_form_and_the_refits(engine: Any, device: str) -> None:
    H, ridge = gram(TwoLayer(), X, engine=engine, device=device), 1e-2
    found = leave_folds_out(H, Y, FOLDS, ridge, columns=25)
    assert found.converged
    assert found.within.max() <= 1e-5
    K = TwoLayer()(X)
    refits = np.empty_like(Y)
    for name in range(5):
        out, kept = name == FOLDS, name != FOLDS
        A = K[np.ix_(kept, kept)] + ridge * np.eye(kept.sum())
        refits[out] = K[np.ix_(out, kept)] @ np.linalg.solve(A, Y[kept])
    closed = leave_groups_out(gram(TwoLayer(), X, device="cpu"), Y, FOLDS, ridge)
    room = 100 * 90 * np.finfo(float).eps * (np.linalg.norm(K, 2) / ridge) * np.abs(Y).max()  # of numpy's own solves
    for other in (refits, closed):
        assert np.all(np.abs(found.outputs - other) <= found.within + room)
    # few products leave more, and the bound says so
    rough = leave_folds_out(H, Y, FOLDS, ridge, columns=25, max_products=6)
    assert not rough.converged
    assert np.all(np.abs(rough.outputs - refits) <= rough.within + room)
    assert np.abs(rough.outputs - refits).max() > 1e-6


def test_steps_in_single_precision_end_at_the_same_certified_numbers() -> None:
    H, ridge = gram(TwoLayer(), X, "matrix_free", device="cpu"), 1e-2
    rough = gram(TwoLayer(), X, "half", dtype="float32", device="cpu")
    exact = leave_folds_out(H, Y, FOLDS, ridge, columns=25, all_rows=True)
    found = leave_folds_out(H, Y, FOLDS, ridge, columns=25, all_rows=True, rough=rough, tol=1e-7)
    assert found.converged  # residuals are those of H, and start again from it until they are as small as asked
    assert found.residual <= 1e-7
    assert np.all(np.abs(found.outputs - exact.outputs) <= found.within + exact.within)
    assert found.bracket is not None
    assert exact.bracket is not None
    assert found.bracket.lower <= exact.bracket.upper
    assert exact.bracket.lower <= found.bracket.upper
    assert found.bracket.width <= 1e-6 * found.bracket.value


def test_one_output_and_folds_by_name() -> None:
    H = gram(TwoLayer(), X, device="cpu")
    names = np.array(list("abcde"))[FOLDS]
    one = leave_folds_out(H, Y[:, 0], names, 0.1)
    assert one.outputs.shape == one.within.shape == (90,)
    np.testing.assert_allclose(one.outputs, leave_folds_out(H, Y, FOLDS, 0.1).outputs[:, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ridge": 0.0}, "`ridge` is 0"),
        ({"folds": [0, 0, 0]}, "two folds or more"),
        ({"folds": [0, 1]}, "expected one a row"),
        ({"ridge": 1e-30}, "rounding of H hides"),
        ({"columns": 9}, "`columns` is 9; expected 1 to 3"),
    ],
)
def test_wrong_requests(options: dict[str, Any], words: str) -> None:
    given = {"folds": [0, 1, 1], "ridge": 1.0, **options}
    with pytest.raises(ValueError, match=words):
        leave_folds_out(np.eye(3), [1.0, 2.0, 3.0], **given)
