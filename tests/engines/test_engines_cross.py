"""K(X_new, X) C without storing K, against the kernel of every pair."""

import numpy as np
import pytest

from overparam.engines import as_gram, gram
from overparam.kernels import TwoLayer


@pytest.mark.parametrize("get", ["ntk", "nngp"])
@pytest.mark.parametrize(("engine", "device"), [("dense", "cpu"), ("dense", "jax"), ("matrix_free", "jax")])
def test_cross_product_of_easy_and_hard_rows(engine: str, device: str, get: str) -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((90, 5)) * 10 ** rng.uniform(-3, 3, (90, 1))
    fresh = rng.standard_normal((17, 5))
    hard = np.stack([X[3], -X[8], 2 * X[11] * (1 + 1e-9), X[20] + 1e-10, -3 * X[40] - 1e-9])
    at_edge = X[50] + 0.0447 * np.linalg.norm(X[50]) * _orthogonal(X[50], rng)  # |cos| about 1 − 1e-3
    new = np.vstack([fresh, hard, at_edge])
    C = rng.standard_normal((90, 3))
    kernel = TwoLayer()
    K = np.array([[kernel.evaluate(x, z, get) for z in X] for x in new])
    size = np.outer(np.linalg.norm(new, axis=1), np.linalg.norm(X, axis=1))
    found = gram(kernel, X, engine=engine, device=device, get=get).cross_product(new, C)
    assert np.all(np.abs(found - K @ C) <= 2e-14 * (size @ np.abs(C)))
    single = gram(kernel, X, engine=engine, device=device, get=get).cross_product(new, C[:, 0])
    np.testing.assert_allclose(single, found[:, 0], rtol=1e-12, atol=1e-12 * np.abs(found).max())


def _orthogonal(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    z = rng.standard_normal(len(x))
    z -= (z @ x) / (x @ x) * x
    return z / np.linalg.norm(z)


def test_a_matrix_of_numbers_has_no_rows() -> None:
    with pytest.raises(ValueError, match="no rows"):
        as_gram(np.eye(3)).cross_product(np.ones((1, 2)), np.ones(3))
