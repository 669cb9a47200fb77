"""Every kind of kernel becomes the same matrix in every engine: against scikit-learn's kernels and entry by entry."""

import numpy as np
import pytest
from kernels_for_tests import Bell, Images
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from overparam.core.kernel import AbstractKernel
from overparam.engines import cross_matrix, gram, on_device, panels, tiles
from overparam.kernels import FullyConnected, TwoLayer

ENGINES = [("dense", "cpu"), ("half", "cpu"), ("matrix_free", "cpu"), ("dense", "jax"), ("matrix_free", "jax")]
RNG = np.random.default_rng(0)


def rows(n: int, d: int = 4) -> np.ndarray:
    X = RNG.standard_normal((n, d)) * RNG.uniform(0.2, 2.0, (n, 1))
    X[3], X[5], X[7], X[9] = 0.0, X[2], -X[4], X[8] * (1 + 1e-9)
    return X


@pytest.mark.parametrize(("engine", "device"), ENGINES)
@pytest.mark.parametrize("get", ["ntk", "nngp"])
def test_a_kernel_of_distances(engine: str, device: str, get: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Norms matter, a row is zero, some pairs are parallel: scikit-learn's Gaussian says the same."""
    monkeypatch.setattr(on_device, "TILE", 24)
    monkeypatch.setattr(panels, "PIECE", 90)
    X = rows(61)
    true = rbf_kernel(X, gamma=0.5) * (1 if get == "ntk" else 2)
    H = gram(Bell(), X, engine=engine, device=device, get=get)
    np.testing.assert_allclose(H @ np.eye(61), true, rtol=1e-13)
    np.testing.assert_allclose(H.dense(), true, rtol=1e-13)
    np.testing.assert_array_equal(H.dense().diagonal(), true.diagonal())
    assert H.square_sum() == pytest.approx((true**2).sum(), rel=1e-13)
    new = np.vstack([RNG.standard_normal((5, 4)), X[20], -X[21], np.zeros(4)])
    C = RNG.standard_normal((61, 2))
    between = rbf_kernel(new, X, gamma=0.5) * (1 if get == "ntk" else 2)
    np.testing.assert_allclose(H.cross_product(new, C), between @ C, atol=1e-13 * 61)
    np.testing.assert_allclose(cross_matrix(Bell(), new, X, get=get), between, rtol=1e-13)
    with pytest.raises(ValueError, match=r"`X_new` has samples of shape \(3,\) and `X` of \(4,\)"):
        H.cross_product(np.ones((2, 3)), C)


def test_near_parallel_pairs_keep_their_distance() -> None:
    """1 − cos θ of rows 1e-9 apart is lost in a cosine; with rows of norm 1e6 the distance is 1e-3 of the bandwidth."""
    x = RNG.standard_normal((20, 6)) * 1e6
    X = np.vstack([x, x + RNG.standard_normal((20, 6)) * 10 ** RNG.uniform(-4, 0, (20, 1))])
    true = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    near = np.arange(20), np.arange(20, 40)
    for engine, device in ENGINES:
        values = gram(Bell(), X, engine=engine, device=device) @ np.eye(40)
        assert np.abs(values - true)[near].max() < 1e-9, (engine, device)  # u and v are rounded: 1e6 · 1e-16 each


@pytest.mark.parametrize("engine", ["dense", "matrix_free"])
@pytest.mark.parametrize("device", [None, "cpu", "jax"])
@pytest.mark.parametrize("n", [1, 7, 8, 9, 30])
def test_a_kernel_that_knows_blocks_alone(engine: str, device: str | None, n: int, monkeypatch) -> None:
    monkeypatch.setattr(tiles, "SIZES", (8,))
    X = RNG.standard_normal((n, 3, 2))
    true = 1.5 * laplacian_kernel(X.reshape(n, 6), gamma=0.25)
    kernel = Images(1.5)
    H = gram(kernel, X, engine=engine, device=device)
    assert H.shape == (n, n)
    for values in (H @ np.eye(n), H.dense()):
        np.testing.assert_allclose(values, true, rtol=1e-14)
    stored = H.dense()
    np.testing.assert_array_equal(stored, stored.T)
    np.testing.assert_array_equal(stored.diagonal(), kernel.diagonal(X))
    assert H.square_sum() == pytest.approx((true**2).sum(), rel=1e-13)
    np.testing.assert_allclose(H.block(slice(0, 3), [0]), true[:3, :1], rtol=1e-14)
    assert H.block([], slice(None)).shape == (0, n)
    v = RNG.standard_normal((n, 18))
    np.testing.assert_allclose(H @ v, true @ v, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(H.cross_product(X[:2] + 1, v), kernel.block(X[:2] + 1, X) @ v, atol=1e-13)
    assert "Images" in repr(H)
    assert 0 < H.plan.product_seconds < 10
    assert str(H.plan).startswith(f"{engine} engine")
    with pytest.raises(ValueError, match="not made from cosines"):
        H.close_pairs(0.5, 1, 10)


def test_only_half_of_the_blocks_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "SIZES", (8,))
    monkeypatch.setattr(tiles, "entry_seconds", lambda *_, **__: 1e-9)
    kernel, told = Images(), []
    gram(kernel, RNG.standard_normal((32, 2, 2)), progress=lambda *a: told.append(a))
    assert kernel.made == [(8, 8)] * 10  # of 16
    assert [done for done, _, _ in told] == pytest.approx(np.arange(1, 11) / 10)
    kernel.made.clear()
    gram(kernel, RNG.standard_normal((33, 2, 2)))
    assert set(kernel.made) <= {(7, 7), (5, 7), (5, 5)}  # parts as equal as they can be


def test_dear_entries_get_small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    X = RNG.standard_normal((2000, 1, 1))
    for each, size in ((1e-9, 512), (1e-3, 128), (0.02, 32), (10.0, 32)):
        monkeypatch.setattr(tiles, "entry_seconds", lambda *_, each=each, **__: each)
        assert tiles.tile_size(Images(), X, None, "ntk") == size
    assert tiles.tile_size(Images(), X[:32], None, "ntk") == 32


@pytest.mark.parametrize("kernel", [TwoLayer(), Bell()])
def test_threads_change_nothing_but_rounding(kernel: AbstractKernel) -> None:
    """600 rows are enough for threads to be used; near-parallel rows among them."""
    X = RNG.standard_normal((600, 5))
    X[100:200] = X[:100] * (1 + 1e-7 * RNG.standard_normal((100, 5)))
    one, three = (gram(kernel, X, "dense", device="cpu", threads=t) for t in (1, 3))
    # BLAS itself may sum in another order with more threads
    np.testing.assert_allclose(three.dense(), one.dense(), rtol=1e-13, atol=1e-15)
    assert one.repaired == three.repaired >= 100
    blocks = kernel(X)
    np.testing.assert_allclose(one.dense(), blocks, rtol=1e-13, atol=1e-15)
    free = gram(kernel, X, "matrix_free", device="cpu", threads=3)
    np.testing.assert_allclose(free @ np.ones(600), blocks.sum(axis=1), rtol=1e-12)


def deep_relu_in_eighty_bits(X: np.ndarray, depth: int, get: str) -> np.ndarray:
    """Σ and Θ of W_std = √2 without biases, layer by layer in long double from 1 − cos θ; no line is the package's."""
    L = X.astype(np.longdouble)
    norms = np.sqrt((L * L).sum(axis=1))
    U = L / norms[:, None]
    apart, together = (((U[:, None] + sign * U[None]) ** 2).sum(axis=2) / 2 for sign in (-1, 1))
    theta, opening = (2 * np.arctan2(np.sqrt(a), np.sqrt(b)) for a, b in ((apart, together), (together, apart)))
    pi = 4 * np.arctan(np.longdouble(1))
    ntk = 1 - apart
    for _ in range(depth):
        apart = apart - (np.sin(theta) - theta * (1 - apart)) / pi
        ntk = (1 - apart) + opening / pi * ntk
        theta = 2 * np.arcsin(np.sqrt(apart / 2))  # from here on θ ≤ π/2
        opening = pi - theta
    return (ntk if get == "ntk" else 1 - apart) * np.outer(norms, norms) * 2 / X.shape[1]


@pytest.mark.parametrize(("engine", "device"), ENGINES)
@pytest.mark.parametrize("get", ["ntk", "nngp"])
def test_deep_kernels_against_eighty_bits(engine: str, device: str, get: str, monkeypatch) -> None:
    monkeypatch.setattr(on_device, "TILE", 48)
    rng = np.random.default_rng(3)
    X = rng.standard_normal((70, 6)) * 10 ** rng.uniform(-20, 20, (70, 1))
    for i in range(20):  # angles of 1e-9 to 1e-2, both sides of where entries are repaired, and opposite rows
        X[40 + i] = X[i] + 10 ** rng.uniform(-9, -1.2) * np.linalg.norm(X[i]) * rng.standard_normal(6)
        X[60 + i % 10] = -X[i]
    true = deep_relu_in_eighty_bits(X, 5, get)
    scale = np.sqrt(np.outer(true.diagonal(), true.diagonal())).astype(np.float64)
    H = gram(FullyConnected(5), X, engine=engine, device=device, get=get)
    found = H @ np.eye(70)
    assert np.all(np.abs(found - true) <= 2 * FullyConnected(5).entry_rounding * scale)
    assert np.all(np.abs(H.dense() - true) <= 2 * FullyConnected(5).entry_rounding * scale)
    assert H.definiteness().holds


class Broken(AbstractKernel):
    """Gives what it is told to."""

    def __init__(self, value: object) -> None:
        self.value = value

    def evaluate(self, x: np.ndarray, z: np.ndarray, get: str = "ntk") -> float:
        return 0.0

    def block(self, X: np.ndarray, Z: np.ndarray, get: str = "ntk") -> np.ndarray:
        return np.full((len(X), len(Z)), self.value) if np.ndim(self.value) == 0 else np.asarray(self.value)

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        return np.ones(len(X))


@pytest.mark.parametrize(
    ("kernel", "X", "words"),
    [
        (Broken(np.nan), np.ones((3, 2)), "rows 0 and 0 is not finite"),
        (Broken(np.ones((2, 1))), np.ones((3, 2)), "gave shape (2, 1); expected (3, 3)"),
        (Broken(1.0), [[1.0, np.nan]], "NaN"),
        (Broken(1.0), np.ones(3), "one axis"),
        (Images(), np.ones((3, 2)), "expected images"),
        (Bell(), np.full((2, 2), np.inf), "infinite"),
        (TwoLayer(), np.zeros((2, 2)), "norm 0"),
        (np.eye(2), np.ones((2, 2)), "expected a kernel such as"),
    ],
)
def test_bad_input_gets_one_line(kernel, X, words: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        gram(kernel, X)
    assert words in str(caught.value)
    if not isinstance(kernel, np.ndarray):
        assert "\n" not in str(caught.value)


def test_cross_matrices_of_other_shapes() -> None:
    with pytest.raises(ValueError, match="same features"):
        cross_matrix(TwoLayer(), np.ones((1, 2)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="expected a kernel"):
        cross_matrix(lambda x: x, np.ones((1, 2)), np.ones((2, 2)))
    x, z = RNG.standard_normal((5, 2, 2)), RNG.standard_normal((40, 2, 2))
    told: list[float] = []
    made = cross_matrix(Images(), x, z, progress=lambda done, *_: told.append(done))
    np.testing.assert_allclose(made, laplacian_kernel(x.reshape(5, 4), z.reshape(40, 4), gamma=0.25), rtol=1e-14)
    assert told[-1] == 1.0
