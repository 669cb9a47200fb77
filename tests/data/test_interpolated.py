"""Rows between two others of their class are found where oversampling made them, and nowhere else."""

import numpy as np
import pytest

from overparam.data.interpolated import interpolated_rows
from overparam.data.neighbours import nearest_rows


def oversampled(columns, seed=0, digits=None):
    """300 rows, of which a few are of the second class, and 200 more of these between one of them and one of its five nearest."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(300, columns)) * 10.0 ** random.integers(-1, 2, size=columns)
    few = X[:40]
    one = random.integers(40, size=200)
    other = nearest_rows(few, 5)[0][one, random.integers(5, size=200)]
    made = few[one] + random.uniform(size=(200, 1)) * (few[other] - few[one])
    X = np.vstack([X, made])
    return X if digits is None else X.round(digits), np.repeat([1, 0, 1], [40, 260, 200])


@pytest.mark.parametrize(("columns", "digits"), [(3, None), (20, None), (6, 6)])
def test_rows_that_oversampling_made_are_found(columns, digits):
    X, codes = oversampled(columns, digits=digits)
    found = interpolated_rows(X, codes)
    assert len(found) > 130
    assert found.min() >= 300


@pytest.mark.parametrize("kind", ["normal", "grid", "rounded", "curve", "few columns"])
def test_other_rows_are_not(kind):
    for seed in range(5):
        random = np.random.default_rng(seed)
        X = {
            "normal": random.normal(size=(200, 3)),
            "grid": random.integers(6, size=(200, 4)).astype(float),
            "rounded": random.normal(size=(200, 3)).round(2),
            "curve": np.stack([f(np.sort(6 * random.uniform(size=200))) for f in (np.sin, np.cos, np.exp)], axis=1),
            "few columns": random.normal(size=(200, 2)),
        }[kind]
        assert len(interpolated_rows(X, random.integers(2, size=200))) == 0
