"""Targets and columns of extreme size are analysed like any others, without a warning."""

import numpy as np
import pytest

import overparam as op


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e200, 1e-200, 1e150])
def test_targets_of_any_size(size: float) -> None:
    X = np.random.default_rng(0).standard_normal((60, 4))
    plain, scaled = op.analyze((X, X[:, 0])), op.analyze((X, X[:, 0] * size))
    assert scaled.learnability.left_out_error == pytest.approx(plain.learnability.left_out_error, rel=1e-9)


@pytest.mark.filterwarnings("error")
def test_columns_of_very_different_size() -> None:
    X = np.random.default_rng(1).standard_normal((60, 4))
    labels = np.sign(X[:, 2])
    X[:, 0] *= 1e200
    X[:, 1] *= 1e-200
    found = op.analyze((X, labels))
    assert found.problems.scale_ratio > 1e300
