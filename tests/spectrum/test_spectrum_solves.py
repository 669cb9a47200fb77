"""Eigenpairs, power iteration, Cholesky solves and functions of a matrix, against numpy and scipy."""

import numpy as np
import pytest
import scipy.linalg

from overparam.engines import gram
from overparam.kernels import TwoLayer
from overparam.spectrum import eigenpairs, factor, matrix_function, power_iteration

ENGINES = [("dense", "cpu"), ("matrix_free", "cpu"), ("dense", "jax"), ("matrix_free", "jax")]
RNG = np.random.default_rng(0)
SMALL, LARGE = RNG.standard_normal((50, 4)), RNG.standard_normal((430, 8))


def check_pairs(H: np.ndarray, pairs: object, true: np.ndarray, slack: float) -> None:
    np.testing.assert_allclose(pairs.values, true, atol=slack)
    assert np.all(np.diff(pairs.values) <= 0)
    np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(len(true)), atol=1e-8)
    residuals = np.linalg.norm(H @ pairs.vectors - pairs.vectors * pairs.values, axis=0)
    np.testing.assert_allclose(pairs.residuals, residuals, atol=1e-10 * np.abs(H).max())
    distance = np.abs(pairs.values[:, None] - np.linalg.eigvalsh(H)).min(axis=1)
    assert np.all(distance <= pairs.residuals + 1e-12 * np.linalg.norm(H, 2))


@pytest.mark.parametrize(("engine", "device"), ENGINES)
def test_all_eigenpairs(engine: str, device: str) -> None:
    H = gram(TwoLayer(), SMALL, engine=engine, device=device)
    values = H.dense()
    true = np.linalg.eigvalsh(values)[::-1]
    check_pairs(values, eigenpairs(H), true, 1e-12)
    check_pairs(values, eigenpairs(H, 3), true[:3], 1e-12)
    check_pairs(values, eigenpairs(H, 4, "smallest"), true[-4:], 1e-12)


@pytest.mark.parametrize("engine", ["dense", "matrix_free"])
def test_a_few_by_krylov(engine: str) -> None:
    H = gram(TwoLayer(), LARGE, engine=engine, device="cpu")
    values = H.dense()
    true = np.linalg.eigvalsh(values)[::-1]
    check_pairs(values, eigenpairs(H, 5), true[:5], 1e-10 * true[0])
    check_pairs(values, eigenpairs(H, 3, "smallest"), true[-3:], 1e-11 * true[0])


def test_smallest_of_a_singular_matrix() -> None:
    rows = LARGE.copy()
    rows[1] = rows[0]
    pairs = eigenpairs(gram(TwoLayer(), rows, device="cpu"), 2, "smallest")
    assert abs(pairs.values[-1]) <= 1e-9
    np.testing.assert_allclose(np.abs(pairs.vectors[:2, -1]), np.sqrt(0.5), atol=1e-5)


@pytest.mark.parametrize(
    ("count", "which", "words"),
    [(0, "largest", "`count` is 0"), (4, "largest", "expected 1 to 3"), (1, "middle", "`which` is 'middle'")],
)
def test_wrong_requests(count: int, which: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        eigenpairs(np.eye(3), count, which)


def test_power_iteration_is_a_lower_bound_that_converges() -> None:
    H = gram(TwoLayer(), SMALL, device="cpu")
    true = float(np.linalg.eigvalsh(H.dense())[-1])
    for steps in (1, 5, 200):
        value, vector = power_iteration(H, steps, tol=1e-14)
        assert value <= true * (1 + 1e-14)
        assert np.linalg.norm(vector) == pytest.approx(1.0)
    assert value == pytest.approx(true, rel=1e-9)
    assert np.linalg.norm(H @ vector - true * vector) <= 1e-4 * true
    assert power_iteration(np.zeros((3, 3)))[0] == 0
    assert power_iteration(H, key=1)[0] == pytest.approx(power_iteration(H, key=2)[0], rel=1e-6)
    with pytest.raises(ValueError, match="`steps` is 0"):
        power_iteration(H, 0)


@pytest.mark.parametrize("device", ["cpu", "jax"])
def test_factor_solves_and_gives_the_inverse_diagonal(device: str) -> None:
    rng = np.random.default_rng(1)
    for n in (1, 2, 50, 600) if device == "cpu" else (2, 600):
        rows = rng.standard_normal((n, 5))
        H = gram(TwoLayer(), rows, engine="dense", device=device)
        for ridge in (0.0, 0.3) if n <= 50 else (0.3,):
            A = H.dense() + ridge * np.eye(n)
            inverse = np.linalg.inv(A)
            made = factor(H, ridge)
            for y in (rng.standard_normal(n), rng.standard_normal((n, 3)), np.arange(n)):
                np.testing.assert_allclose(made.solve(y), np.linalg.solve(A, y), rtol=1e-7, atol=1e-9)
                assert made.solve(y).shape == np.shape(y)
            np.testing.assert_allclose(made.inverse_diagonal(), inverse.diagonal(), rtol=1e-8)
            np.testing.assert_allclose(made.inverse_diagonal(), inverse.diagonal(), rtol=1e-8)  # L is not used up


@pytest.mark.parametrize("device", ["cpu", "jax"])
def test_singular_matrix_is_one_clear_line(device: str) -> None:
    rows = np.vstack([SMALL, SMALL[:5], 2 * SMALL[:5]])
    H = gram(TwoLayer(), rows, engine="dense", device=device)
    with pytest.raises(ValueError, match="not positive definite") as caught:
        factor(H)
    line = str(caught.value)
    assert "\n" not in line
    assert "ridge" in line
    suggested = 1e-10 * float(H.diagonal().mean())
    assert np.isfinite(factor(H, suggested).solve(np.ones(60))).all()  # the fix it names works
    for ridge in (-1.0, np.nan):
        with pytest.raises(ValueError, match="`ridge`"):
            factor(H, ridge)


def test_wrong_right_hand_sides() -> None:
    made = factor(np.eye(3))
    for y in (np.ones(2), np.ones((2, 3)), [1.0, np.nan, 2.0]):
        with pytest.raises(ValueError, match="`y`"):
            made.solve(y)


@pytest.mark.parametrize(("engine", "device"), ENGINES)
def test_matrix_functions_against_scipy(engine: str, device: str) -> None:
    H = gram(TwoLayer(), SMALL, engine=engine, device=device)
    A = H.dense()
    rng = np.random.default_rng(2)
    functions = (lambda x: np.exp(-x), np.sqrt, lambda x: 1 / (x + 0.1))
    matrices = scipy.linalg.expm(-A), np.real(scipy.linalg.sqrtm(A)), np.linalg.inv(A + 0.1 * np.eye(50))
    for y in (rng.standard_normal(50), rng.standard_normal((50, 3))):
        found = matrix_function(H, y, functions)
        assert found.converged
        for value, M in zip(found.values, matrices, strict=True):
            assert value.shape == y.shape
            np.testing.assert_allclose(value, M @ y, atol=1e-7 * np.linalg.norm(M @ y))
        np.testing.assert_allclose(found.values[0], matrices[0] @ y, atol=1e-10 * np.linalg.norm(y))


def test_matrix_function_tells_how_far_it_is() -> None:
    H = gram(TwoLayer(), LARGE, device="cpu")
    y = np.random.default_rng(3).standard_normal(430)
    true = np.linalg.solve(H.dense() + 0.01 * np.eye(430), y)
    few = matrix_function(H, y, [lambda x: 1 / (x + 0.01)], max_products=24)
    assert few.products == 24
    assert not few.converged
    error = np.linalg.norm(few.values[0] - true) / np.linalg.norm(true)
    assert 0.1 * error <= few.change[0]  # an estimate of the error, of its size
    more = matrix_function(H, y, [lambda x: 1 / (x + 0.01)])
    assert more.converged
    np.testing.assert_allclose(more.values[0], true, atol=1e-9 * np.linalg.norm(true))
    low_rank = matrix_function(np.diag([1.0, 1.0, 4.0, 4.0]), np.ones(4), [np.sqrt])
    assert low_rank.products == 2
    assert low_rank.change == (0.0,)
    zero = matrix_function(np.eye(3), np.zeros(3), [np.exp])
    np.testing.assert_array_equal(zero.values[0], np.zeros(3))
    with pytest.raises(ValueError, match="`functions` is empty"):
        matrix_function(np.eye(3), np.ones(3), [])
