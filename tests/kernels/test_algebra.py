"""Sums, products, powers, scalings and normalisations of kernels."""

from dataclasses import dataclass
from typing import final

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from overparam.core.kernel import AbstractAngularKernel, AbstractInnerProductKernel, AbstractKernel
from overparam.engines import gram
from overparam.kernels import ArcCosine, Gaussian, Laplace, Polynomial, RandomFeatures, TwoLayer, normalised
from overparam.spectrum import eigenvalue_bounds

G, L, T = Gaussian(1.3), Laplace(0.8), TwoLayer()
F = RandomFeatures(ArcCosine(1), 40)


def rows(n: int = 30, d: int = 4) -> np.ndarray:
    X = np.random.default_rng(0).standard_normal((n, d))
    X[1] = X[0] * (1 + 1e-10)  # near-parallel pairs take another path
    X[2] = -X[0]
    return X


CASES = [
    (G + L, lambda X: G(X) + L(X)),
    (2 * G, lambda X: 2 * G(X)),
    (G * 0.5 + 3 * T + 0.25, lambda X: G(X) / 2 + 3 * T(X) + 0.25),
    (G * L, lambda X: G(X) * L(X)),
    (T**3, lambda X: T(X) ** 3),
    ((G + T) ** 2 * L, lambda X: (G(X) + T(X)) ** 2 * L(X)),
    (G + F, lambda X: G(X) + F(X)),
    (0.5 * F * G, lambda X: F(X) * G(X) / 2),
    (F**2 + 1, lambda X: F(X) ** 2 + 1),
    (T + 2 * T, lambda X: 3 * T(X)),
    (np.float64(2) * G, lambda X: 2 * G(X)),
    (sum([G, L, T]), lambda X: G(X) + L(X) + T(X)),
    (normalised(T), lambda X: T(X) / np.sqrt(np.outer(T.diagonal(X), T.diagonal(X)))),
    (normalised(F), lambda X: F(X) / np.sqrt(np.outer(F.diagonal(X), F.diagonal(X)))),
    (normalised(Polynomial(1)), cosine_similarity),
]


@pytest.mark.parametrize(("kernel", "matrix"), CASES, ids=[repr(case[0]) for case in CASES])
def test_equals_the_same_algebra_of_matrices(kernel, matrix) -> None:
    X = rows()
    true = matrix(X)
    assert isinstance(kernel, AbstractKernel)
    np.testing.assert_allclose(kernel(X), true, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel(X[:7], X[5:]), true[:7, 5:], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(true), rtol=1e-12)
    pairs = np.array([[kernel.evaluate(x, z) for z in X[:4]] for x in X[:4]])
    np.testing.assert_allclose(pairs, true[:4, :4], rtol=1e-12, atol=1e-12)
    values = np.linalg.eigvalsh(true)
    assert values[0] >= -1e-13 * len(X) * values[-1]


def test_fast_kernels_stay_fast() -> None:
    for kernel in (G + L, 2 * G, G * T, T**2, normalised(T), T + 1):
        assert isinstance(kernel, AbstractInnerProductKernel), kernel
    for kernel in (2 * T, T + T, 0.5 * T + 3 * (T + T)):
        assert isinstance(kernel, AbstractAngularKernel), kernel
    for kernel in (G + F, 2 * F, normalised(F)):
        assert not isinstance(kernel, AbstractInnerProductKernel), kernel


def test_a_sum_of_angular_kernels_keeps_its_certificates() -> None:
    X = np.random.default_rng(1).standard_normal((40, 5))
    one, two = gram(T, X), gram(2 * T, X)
    np.testing.assert_allclose(two.dense(), 2 * one.dense(), rtol=1e-14)
    bound, true = eigenvalue_bounds(two), np.linalg.eigvalsh(two.dense())
    assert 0 < bound.lower <= true[0]
    assert true[-1] <= bound.upper
    assert bound.lower == pytest.approx(2 * eigenvalue_bounds(one).lower, rel=1e-6)
    np.testing.assert_allclose((2 * T).even_series(5), 2 * T.even_series(5))


def test_parts_are_passed_on() -> None:
    X = rows()
    np.testing.assert_allclose((G + T)(X, get="nngp"), G(X) + T(X, get="nngp"), rtol=1e-13)
    with pytest.raises(ValueError, match="'ntk' or 'nngp'"):
        (G + T)(X, get="cnn")


def test_zero_rows_where_all_parts_allow_them() -> None:
    X = np.array([[0.0, 0.0], [1.0, 2.0]])
    assert (G * L)(X)[0, 0] == 1
    with pytest.raises(ValueError, match="norm 0"):
        (G + T)(X)
    with pytest.raises(ValueError, match="norm 0"):
        normalised(Polynomial(2))(X)


def test_what_is_no_kernel_is_refused_in_one_line() -> None:
    for make, words in (
        (lambda: -1 * G, "factor of a kernel is -1"),
        (lambda: G * np.nan, "factor of a kernel is nan"),
        (lambda: G + (-0.5), "constant added to a kernel is -0.5"),
        (lambda: G**0, "power of a kernel is 0"),
        (lambda: G**0.5, "power of a kernel is 0.5"),
        (lambda: normalised(3), "expected a kernel"),
        (lambda: (Polynomial(3) ** 4)([[1e10]]), "too large for float64"),
        (lambda: (Polynomial(3) ** 4)([[1e-10]]), "too small for float64"),
        (lambda: (1e300 * F**2)([[1e10]]), "too large for float64"),
        (lambda: normalised(F)([[0.0, 0.0]]), "k(x, x) = 0"),
    ):
        with pytest.raises(ValueError, match=r".") as caught:
            make()
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)
    for make in (lambda: G - L, lambda: G + "1", lambda: [1.0] * G):
        with pytest.raises(TypeError):
            make()


def test_nothing_times_a_kernel_is_a_kernel_of_zeros() -> None:
    assert np.all((0 * G)(rows()) == 0)
    assert (0 * G + L)(rows())[0, 0] == 1


def test_combinations_compare_hash_and_read() -> None:
    assert 2 * Gaussian(1.3) + Laplace(0.8) == 2 * G + L
    assert len({G + L, G + L, G * L}) == 2
    assert repr(2 * G + L * G) == ("(2 * Gaussian(bandwidth=1.3) + Laplace(bandwidth=0.8) * Gaussian(bandwidth=1.3))")
    assert 1 * G is G
    assert G + 0 is G
    assert G**1 is G


@final
@dataclass(frozen=True)
class Lookup(AbstractKernel):
    """A kernel of a user's own that knows nothing of inner products."""

    def evaluate(self, x, z, get: str = "ntk") -> float:
        return float(np.array_equal(x, z))

    def block(self, X, Z, get: str = "ntk") -> np.ndarray:
        return np.array([[self.evaluate(x, z) for z in Z] for x in X])

    def diagonal(self, X, get: str = "ntk") -> np.ndarray:
        return np.ones(len(X))


def test_kernels_of_users_join_in() -> None:
    X = np.eye(3)
    np.testing.assert_array_equal((G + 2 * Lookup())(X), G(X) + 2 * np.eye(3))
