"""The blocked factor of accelerators, on JAX's CPU device, against numpy's solve and inverse."""

import numpy as np
import pytest

from overparam.engines import gram
from overparam.kernels import TwoLayer
from overparam.spectrum import factor, on_device


@pytest.mark.parametrize(("n", "blocks"), [(60, 1), (61, 4), (130, 7)])
def test_solves_and_inverse_diagonal_in_blocks(n: int, blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_device, "SMALL", 10 if blocks > 1 else 3_000)
    monkeypatch.setattr(on_device, "BLOCKS", blocks)
    monkeypatch.setattr(on_device, "COLUMNS", 4)
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 12))
    Y = rng.standard_normal((n, 6))
    H = gram(TwoLayer(), X, device="jax")
    A = H.dense() + 0.3 * np.eye(n)
    found = factor(H, 0.3)
    condition = np.linalg.cond(A)
    tolerance = 50 * n * np.finfo(float).eps * condition
    solved = np.linalg.solve(A, Y)
    assert np.abs(found.solve(Y) - solved).max() <= tolerance * np.abs(solved).max()
    np.testing.assert_allclose(found.solve(Y[:, 0]), found.solve(Y)[:, 0], rtol=1e-12)
    inverse = np.linalg.inv(A).diagonal()
    assert np.abs(found.inverse_diagonal() - inverse).max() <= tolerance * inverse.max()


def test_a_singular_matrix_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_device, "SMALL", 10)
    X = np.random.default_rng(0).standard_normal((40, 3))
    X[7] = 2 * X[30]
    with pytest.raises(ValueError, match="not positive definite to rounding"):
        factor(gram(TwoLayer(), X - 0.0, device="jax"), 0.0)


def test_a_matrix_that_is_not_stored_is_one_clear_line() -> None:
    H = gram(TwoLayer(), np.eye(4), engine="matrix_free", device="jax")
    with pytest.raises(ValueError, match="engine='dense'"):
        factor(H, 1.0)
