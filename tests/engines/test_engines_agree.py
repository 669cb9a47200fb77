"""Five engines, one matrix: every entry against `evaluate` on the pair and against 80-bit arithmetic."""

import numpy as np
import pytest

from overparam.engines import AbstractGram, gram, on_device, panels
from overparam.kernels import TwoLayer

ENGINES = [("dense", "cpu"), ("half", "cpu"), ("matrix_free", "cpu"), ("dense", "jax"), ("matrix_free", "jax")]
SIZES = {"cpu": [1, 2, 255, 256, 257, 600], "jax": [1, 128, 150]}
"""On the device each size is compiled anew: one row, two whole tiles, and three of which the last is padded."""


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """One size of tiles and mostly one of rows, (150, 7): what is compiled serves many tests."""
    monkeypatch.setattr(on_device, "TILE", 64)


def hard_rows(n: int, d: int = 7, seed: int = 0) -> np.ndarray:
    """Norms from 1e-60 to 1e60; every few rows one is repeated, opposite, near-parallel or scaled."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10 ** rng.uniform(-60, 60, (n, 1))
    for i in range(1, n):
        other = X[rng.integers(i)]
        noise = rng.standard_normal(d) * np.linalg.norm(other)
        kind = i % 12
        if kind == 1:
            X[i] = other
        elif kind == 3:
            X[i] = -other
        elif kind == 5:
            X[i] = other + 10 ** rng.uniform(-16, -2) * noise
        elif kind == 7:
            X[i] = -other + 10 ** rng.uniform(-16, -2) * noise
        elif kind == 9:
            X[i] = other * 10 ** rng.uniform(-5, 5)
        elif kind == 11:  # |cos| about 1 − 1e-3: both sides of where entries are repaired
            X[i] = other + np.sqrt(2 * 10 ** rng.uniform(-3.5, -2.5)) * noise / np.sqrt(d)
    return X


def in_eighty_bits(X: np.ndarray, get: str = "ntk") -> tuple[np.ndarray, np.ndarray]:
    """H and ‖x‖‖z‖ in long double, the angle by Kahan's formula: no line of it is the package's."""
    L = X.astype(np.longdouble)
    norms = np.sqrt((L * L).sum(axis=1))
    U = L / norms[:, None]
    apart = np.sqrt(((U[:, None] - U[None]) ** 2).sum(axis=2))
    together = np.sqrt(((U[:, None] + U[None]) ** 2).sum(axis=2))
    theta, opening = 2 * np.arctan2(apart, together), 2 * np.arctan2(together, apart)
    size = norms[:, None] * norms[None]
    k = np.cos(theta) * opening if get == "ntk" else np.sin(theta) + np.cos(theta) * opening
    two_pi = 8 * np.arctan(np.longdouble(1))
    return (size * k / two_pi), size.astype(np.float64)


@pytest.mark.parametrize(
    ("n", "engine", "device"),
    [(n, engine, device) for engine, device in ENGINES for n in SIZES[device]],
)
def test_every_entry(n: int, engine: str, device: str) -> None:
    kernel, X = TwoLayer(), hard_rows(n)
    H = gram(kernel, X, engine=engine, device=device)
    assert (type(H).__name__.startswith("Device"), "MatrixFree" in type(H).__name__) == (
        device == "jax",
        engine == "matrix_free",
    )
    true, size = in_eighty_bits(X)
    columns = np.unique(np.linspace(0, n - 1, 64).astype(int))
    by_products = H @ np.eye(n)[:, columns]
    assert np.all(np.abs(by_products - true[:, columns]) <= 1e-14 * size[:, columns])
    stored = H.dense()
    assert np.all(np.abs(stored - true) <= 1e-14 * size)
    if device == "cpu":
        np.testing.assert_array_equal(stored, stored.T)
    assert np.all(np.abs(stored - stored.T) <= 4e-16 * size)
    np.testing.assert_array_equal(stored.diagonal(), H.diagonal())
    rng = np.random.default_rng(n)
    for i, j in rng.integers(n, size=(60, 2)):
        assert abs(stored[i, j] - kernel.evaluate(X[i], X[j])) <= 1e-14 * size[i, j]


@pytest.mark.parametrize(("engine", "device"), ENGINES)
def test_conjugate_kernel(engine: str, device: str) -> None:
    X = hard_rows(150, seed=3)
    H = gram(TwoLayer(), X, engine=engine, device=device, get="nngp")
    true, size = in_eighty_bits(X, "nngp")
    assert np.all(np.abs(H @ np.eye(150) - true) <= 1e-14 * size)
    assert np.all(np.abs(H.dense() - true) <= 1e-14 * size)


@pytest.mark.parametrize(("engine", "device"), ENGINES)
def test_near_parallel_entries_are_right_relatively(engine: str, device: str) -> None:
    """The repair: an arccos of the rounded cosine would be off by 1e-8 here."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((50, 7))
    X = np.vstack([x, x + rng.standard_normal((50, 7)) * 10 ** rng.uniform(-15, -3, (50, 1)), 3 * x])
    X = X[rng.permutation(len(X))]
    true, size = in_eighty_bits(X)
    H = gram(TwoLayer(), X, engine=engine, device=device)
    near = true > 0.49 * size
    assert near.sum() >= 150 + 6 * 50
    values = H @ np.eye(len(X))
    assert np.all(np.abs(values - true)[near] <= 1e-14 * true[near])
    assert H.repaired == (near.sum() - len(X)) // 2


def test_all_rows_parallel() -> None:
    """Every pair is repaired: one feature, so that cos = ±1 everywhere."""
    X = np.array([[1.0], [2.0], [-3.0], [1e-30], [-1e30]])
    true, size = in_eighty_bits(X)
    for engine, device in ENGINES:
        values = gram(TwoLayer(), X, engine=engine, device=device) @ np.eye(5)
        assert np.all(np.abs(values - true) <= 1e-14 * size), (engine, device)
        opposite = np.ix_([0, 1, 3], [2, 4])  # they share no active unit
        assert np.all(np.abs(values[opposite]) <= 1e-15 * size[opposite])


@pytest.mark.parametrize("engine", ["dense", "matrix_free"])
def test_small_panels_and_pieces(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels and cache pieces that do not divide n: each boundary falls elsewhere."""
    monkeypatch.setattr(panels, "PIECE", 37)
    monkeypatch.setattr(panels, "panel_height", lambda n: 13)
    X = hard_rows(101, seed=9)
    true, size = in_eighty_bits(X)
    H = gram(TwoLayer(), X, engine=engine, device="cpu")
    assert np.all(np.abs(H @ np.eye(101) - true) <= 1e-14 * size)
    assert np.all(np.abs(H.dense() - true) <= 1e-14 * size)


@pytest.mark.parametrize(("engine", "device"), ENGINES)
def test_square_sum_diagonal_and_rounding(engine: str, device: str) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((150, 7)) * 10 ** rng.uniform(-2, 2, (150, 1))
    X[7], X[70] = X[3], -X[60]
    true, size = in_eighty_bits(X)
    H = gram(TwoLayer(), X, engine=engine, device=device)
    assert H.square_sum() == pytest.approx(float((true**2).sum()), rel=1e-13)
    assert H.square_sum() == pytest.approx(float((true**2).sum()), rel=1e-13)  # asked again, after products
    np.testing.assert_allclose(H.diagonal(), (X**2).sum(axis=1) / 2, rtol=2e-15)
    moved = np.linalg.norm((H @ np.eye(150) - true).astype(np.float64), 2)
    assert moved <= H.rounding  # a bound ...
    assert H.rounding == pytest.approx(1e-14 * (X**2).sum())  # ... and the one that follows from the entries'
    assert 1e-14 * np.linalg.norm(size, 2) <= H.rounding * (1 + 1e-12)


@pytest.mark.parametrize(("engine", "device"), ENGINES)
def test_close_pairs_against_all_pairs(engine: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "PIECE", 300)
    rng = np.random.default_rng(4)
    X = rng.standard_normal((150, 7))
    X[50], X[99] = X[20], -2 * X[30]
    U = X / np.linalg.norm(X, axis=1)[:, None]
    rho = U @ U.T
    np.fill_diagonal(rho, 0.0)
    H = gram(TwoLayer(), X, engine=engine, device=device)
    for threshold, moment in ((0.5, 2), (0.9, 8), (0.7, 1))[: 3 if device == "cpu" else 1]:
        found = H.close_pairs(threshold, moment, most=10**6)
        assert found is not None
        rows, columns, cosines, moments = found
        assert np.all(rows > columns)
        close = np.abs(rho) > threshold
        assert {(int(i), int(j)) for i, j in zip(rows, columns, strict=True)} == {
            (int(i), int(j)) for i, j in np.argwhere(close) if i > j
        }
        np.testing.assert_allclose(cosines, rho[rows, columns], atol=1e-15)
        np.testing.assert_allclose(moments, (np.where(close, 0.0, rho) ** (2 * moment)).sum(axis=1), rtol=1e-11)
    assert H.close_pairs(0.5, 2, most=10) is None
    picked = np.array([0, 50, 149])
    np.testing.assert_allclose(H.sampled_cosines(picked), rho[picked], atol=1e-15)


def test_no_close_pair_gives_empty_arrays() -> None:
    for engine, device in ENGINES:
        found = gram(TwoLayer(), np.eye(5), engine=engine, device=device).close_pairs(0.5, 2, most=10)
        assert found is not None
        assert [len(part) for part in found] == [0, 0, 0, 5]
        assert not found[3].any()


def products_of(H: AbstractGram, V: np.ndarray) -> np.ndarray:
    return H.to_host(H.product(H.to_device(V)))


@pytest.mark.parametrize(("engine", "device"), ENGINES)
def test_products_with_one_two_and_many_vectors_agree(engine: str, device: str) -> None:
    """One and two columns go through symv, more through gemm: the same numbers to rounding."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((150, 7))
    true, size = in_eighty_bits(X)
    H = gram(TwoLayer(), X, engine=engine, device=device)
    V = rng.standard_normal((150, 5))
    slack = 2e-14 * size @ np.abs(V)
    for k in (1, 2, 3, 5):
        assert np.all(np.abs(products_of(H, V[:, :k]) - true @ V[:, :k]) <= slack[:, :k])
