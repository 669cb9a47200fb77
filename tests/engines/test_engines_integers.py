"""Rows of small integers: recognised, multiplied exactly, their kernel right whatever the angle."""

from typing import Any

import numpy as np
import pytest
from tests.rounding import rounding

from overparam.engines import gram, integers_on_device
from overparam.engines.integer_rows import IntegerRows
from overparam.engines.integers_on_device import DeviceDenseIntegerGram, DeviceIntegerGram, _integer_products
from overparam.kernels import ArcCosine, FullyConnected, TwoLayer
from overparam.spectrum import eigenvalue_bounds, solve

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, size=(70, 12))
PIXELS[3], PIXELS[5], PIXELS[7] = PIXELS[2], PIXELS[4], np.minimum(2 * (PIXELS[6] // 2), 255)
PIXELS[8], PIXELS[9] = PIXELS[6] // 2, PIXELS[10]
PIXELS[9, 0] ^= 1  # a pair that differs in one bit
FORMS = {
    "8 bits": PIXELS.astype(np.uint8),
    "numbers": PIXELS.astype(float),
    "over 255": PIXELS / 255,
    "centred": PIXELS / 127.5 - 1,
    "signed": PIXELS.astype(float) - 100,
    "norm 1": PIXELS / np.linalg.norm(PIXELS, axis=1)[:, None],
}


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integers_on_device, "CPU_TILE", 32)


@pytest.mark.parametrize("form", FORMS)
def test_integers_are_recognised(form: str) -> None:
    X = FORMS[form]
    rows = IntegerRows.of(X)
    assert rows is not None
    whole = rows.factor * rows.pixels.astype(float) + rows.offset
    unit = 1 / np.linalg.norm(whole, axis=1)[:, None] if rows.unit is None else rows.unit
    np.testing.assert_allclose(unit * whole, X, rtol=0, atol=rounding(24) * np.abs(X).max())
    np.testing.assert_array_equal(rows.like(X).pixels, rows.pixels)


@pytest.mark.parametrize(
    "X",
    [
        RNG.standard_normal((20, 5)),
        PIXELS / 255 + 1e-9 * RNG.standard_normal(PIXELS.shape),
        np.zeros((3, 3)),
        np.array([[0.0, 300.0], [1.0, 2.0]]),
        (PIXELS / np.linalg.norm(PIXELS, axis=1)[:, None])[::-1] * [[1.0]] + np.eye(70, 12) * 1e-9,
    ],
)
def test_other_numbers_are_not(X: np.ndarray) -> None:
    assert IntegerRows.of(X) is None


@pytest.mark.parametrize("way", ["bfloat16", "int8", "float32", "float64"])
@pytest.mark.parametrize("d", [1023, 1500])
def test_products_are_exact_integers(way: Any, d: int) -> None:
    """The largest sums of all signs, an odd number of columns, and more than one chunk of them."""
    import jax

    rows = np.concatenate([np.full((2, d), 127), np.full((1, d), -128), RNG.choice([-128, 127], size=(3, d))])
    with jax.enable_x64(True):
        made = np.asarray(_integer_products(*(jax.numpy.asarray(rows, dtype="int8"),) * 2, way))
    np.testing.assert_array_equal(made, rows @ rows.T)


def exact_kernel(whole: np.ndarray) -> np.ndarray:
    """x·z (π − θ)/(2π) of integer rows over their norms, in long double, θ from the exact gap q q′ − g² in Python integers."""
    n = len(whole)
    rows = [[int(value) for value in row] for row in whole]
    values = np.empty((n, n), dtype=np.longdouble)
    pi = 4 * np.arctan(np.longdouble(1))
    for i, one in enumerate(rows):
        for j, two in enumerate(rows[: i + 1]):
            g = sum(a * b for a, b in zip(one, two, strict=True))
            size = sum(a * a for a in one) * sum(b * b for b in two)
            theta = np.arctan2(np.sqrt(np.longdouble(size - g * g)), np.longdouble(g))
            values[i, j] = values[j, i] = np.longdouble(g) / np.sqrt(np.longdouble(size)) * (pi - theta) / (2 * pi)
    return values


ENGINES: dict[Any, type] = {"matrix_free": DeviceIntegerGram, "dense": DeviceDenseIntegerGram}


@pytest.mark.parametrize("engine", ENGINES)
def test_entries_are_right_whatever_the_angle(engine: Any) -> None:
    """Equal rows, x and 2x, one bit apart: all to a few units in the last place."""
    H = gram(TwoLayer(), FORMS["norm 1"], engine, device="jax")
    assert isinstance(H, ENGINES[engine])
    away = np.abs(H.dense() - exact_kernel(PIXELS)).max()
    assert away <= 0.5 * rounding(20, 2)
    V = RNG.standard_normal((70, 3))
    product = (exact_kernel(PIXELS) @ V).astype(float)
    assert np.abs(H @ V - product).max() <= rounding(100, 2) * 0.5 * np.abs(V).sum(axis=0).max()
    assert H.square_sum() == pytest.approx(float((exact_kernel(PIXELS) ** 2).sum()), rel=rounding(5000))


@pytest.mark.parametrize("kernel", [TwoLayer(), FullyConnected(depth=2), ArcCosine(1)])
def test_a_stored_matrix_has_the_same_entries_from_tiles_that_overlap(
    kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """70 rows in tiles of 24: the last tile is moved back to end with them."""
    monkeypatch.setattr("overparam.engines.integers_on_device.CPU_TILE", 24)
    made, stored = (gram(kernel, PIXELS.astype(np.uint8), engine, device="jax") for engine in ENGINES)
    np.testing.assert_array_equal(stored.dense(), stored.dense().T)
    room = 4 * kernel.entry_rounding * np.sqrt(np.outer(made.diagonal(), made.diagonal()))
    assert np.all(np.abs(stored.dense() - made.dense()) <= room)
    np.testing.assert_array_equal(stored.block([3, 5], slice(4)), stored.dense()[[3, 5]][:, :4])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kernel", [TwoLayer(), FullyConnected(depth=2), ArcCosine(1)])
def test_the_matrix_is_that_of_the_other_engines(form: str, kernel: Any) -> None:
    X = FORMS[form]
    H = gram(kernel, X, "matrix_free", device="jax")
    assert isinstance(H, DeviceIntegerGram)
    other = gram(kernel, X.astype(float), "dense", device="cpu")
    scale = np.sqrt(np.outer(other.diagonal(), other.diagonal()))
    assert np.all(np.abs(H.dense() - other.dense()) <= 4 * kernel.entry_rounding * scale)
    V = RNG.standard_normal((70, 2))
    room = 4 * (H.rounding + H.product_rounding) * np.linalg.norm(V)
    assert np.abs(H @ V - other @ V).max() <= room
    new = X[:9]
    assert np.abs(H.cross_product(new, V) - (other @ V)[:9]).max() <= room
    unlike = X[:4].astype(float) * np.pi + 0.1
    assert np.abs(H.cross_product(unlike, V) - kernel(unlike, X.astype(float)) @ V).max() <= 8 * np.pi * room


def test_what_is_built_on_products_works() -> None:
    H = gram(TwoLayer(), FORMS["norm 1"], "matrix_free", device="jax")
    other = gram(TwoLayer(), FORMS["norm 1"], "dense", device="cpu")
    mine, theirs = eigenvalue_bounds(H), eigenvalue_bounds(other, "separation")
    assert mine.lower == pytest.approx(theirs.lower, abs=1e-12)
    assert mine.upper >= np.linalg.eigvalsh(other.dense())[-1]
    y = RNG.standard_normal(70)
    found = solve(H, y, 1e-2, method="conjugate gradients", columns=10)
    form = y @ np.linalg.solve(other.dense() + 1e-2 * np.eye(70), y)
    assert found.bracket.lower <= form * (1 + 1e-10)
    assert form <= found.bracket.upper * (1 + 1e-10)


def test_rows_of_zeros() -> None:
    X = PIXELS.astype(np.uint8)
    X[4] = 0
    with pytest.raises(ValueError, match="1 row of norm 0"):
        gram(TwoLayer(), X, "matrix_free", device="jax")
    H = gram(ArcCosine(1), X, "matrix_free", device="jax").dense()
    assert not H[4].any()
    assert np.isfinite(H).all()
