"""TwoLayer against 40 digits, Monte Carlo networks and its own special cases."""

import mpmath
import numpy as np
import pytest
from rounding import rounding

from overparam.kernels import TwoLayer


def exact(x: np.ndarray, z: np.ndarray) -> tuple[mpmath.mpf, mpmath.mpf]:
    """H(x, z) and ‖x‖‖z‖ at 40 digits; the angle by atan2 of exact sums, so no digit is lost."""
    with mpmath.workdps(60):
        xs, zs = [mpmath.mpf(float(v)) for v in x], [mpmath.mpf(float(v)) for v in z]
        nx, nz = mpmath.sqrt(sum(v * v for v in xs)), mpmath.sqrt(sum(v * v for v in zs))
        apart = mpmath.sqrt(sum((a / nx - b / nz) ** 2 for a, b in zip(xs, zs, strict=True)))
        together = mpmath.sqrt(sum((a / nx + b / nz) ** 2 for a, b in zip(xs, zs, strict=True)))
        theta = 2 * mpmath.atan2(apart, together)
        dot = sum(a * b for a, b in zip(xs, zs, strict=True))
        return dot * (mpmath.pi - theta) / (2 * mpmath.pi), nx * nz


def hard_pairs(count: int) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Near-parallel, equal, scaled, opposite, orthogonal and at the repair threshold, of many sizes and norms."""
    rng = np.random.default_rng(7)
    pairs = []
    for index in range(count):
        d = int(rng.choice([1, 2, 3, 10, 100, 784]))
        x = rng.standard_normal(d) * 10 ** rng.uniform(-60, 60)
        size = np.linalg.norm(x)
        kind = ("near", "equal", "scaled", "opposite", "orthogonal", "threshold", "any", "near_opposite")[index % 8]
        noise = rng.standard_normal(d) / np.sqrt(d) * size
        if kind == "near":
            z = x + 10 ** rng.uniform(-16, -2) * noise
        elif kind == "equal":
            z = x.copy()
        elif kind == "scaled":
            z = x * 10 ** rng.uniform(-10, 10)
        elif kind == "opposite":
            z = -x
        elif kind == "near_opposite":
            z = -x + 10 ** rng.uniform(-16, -2) * noise
        elif kind == "orthogonal":
            z = noise - (noise @ x) / (x @ x) * x if d > 1 else x.copy()
            z = z if np.linalg.norm(z) > 0 else x.copy()
        elif kind == "threshold":  # |cos| about 1 − 1e-3, on both sides of the repair
            z = x + rng.choice([-1, 1]) * np.sqrt(2 * 10 ** rng.uniform(-4, -2)) * noise
        else:
            z = rng.standard_normal(d) * 10 ** rng.uniform(-5, 5) * size
        pairs.append((kind, x, z))
    return pairs


@pytest.fixture(scope="module")
def hard() -> list[tuple[str, np.ndarray, np.ndarray, tuple]]:
    """500 of them, each with what it should give."""
    return [(kind, x, z, exact(x, z)) for kind, x, z in hard_pairs(500)]


@pytest.mark.parametrize("path", ["evaluate", "block", "gram"])
def test_forty_digits(path: str, hard) -> None:
    from overparam.engines import gram

    kernel = TwoLayer()
    worst = 0.0
    for kind, x, z, (true, size) in hard:
        if path == "evaluate":
            value = kernel.evaluate(x, z)
        elif path == "block":
            value = kernel.block(x[None], z[None])[0, 0]
        else:
            value = gram(kernel, np.stack([x, z]), engine="dense", device="cpu").dense()[1, 0]
        error = float(abs(mpmath.mpf(float(value)) - true) / size)
        assert error <= 1e-14, (kind, len(x))
        if kind in ("near", "equal", "scaled") and true > 0:
            assert float(abs(mpmath.mpf(float(value)) - true) / true) <= 1e-14, (kind, len(x))
        worst = max(worst, error)
    assert worst > 0  # the comparison is with numbers that are not ours


def test_matches_finite_networks_within_three_standard_errors() -> None:
    """H_ij = E[x_i·x_j 1{w·x_i ≥ 0} 1{w·x_j ≥ 0}] and the conjugate kernel E[σσ], over many w."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((6, 4))
    m = 400_000
    W = rng.standard_normal((m, 4))
    pre = W @ X.T
    kernel = TwoLayer()
    for get, features, inner in (("ntk", (pre >= 0).astype(float), X @ X.T), ("nngp", np.maximum(pre, 0), 1.0)):
        mean = features.T @ features / m * inner
        second = (features**2).T @ (features**2) / m * np.square(inner)
        error = np.sqrt(np.maximum(second - mean**2, 0) / m)
        assert np.all(np.abs(mean - kernel(X, get=get)) <= 3.5 * error + 1e-15), get


def test_slope_of_the_monte_carlo_error_is_minus_half() -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((20, 5))
    H, inner = TwoLayer()(X), X @ X.T
    widths = np.array([500, 2_000, 8_000, 32_000, 128_000])
    errors = []
    for m in widths:
        draws = []
        for _ in range(6):
            active = (rng.standard_normal((m, 5)) @ X.T >= 0).astype(float)
            draws.append(np.linalg.norm(active.T @ active / m * inner - H))
        errors.append(np.mean(draws))
    fit, covariance = np.polyfit(np.log(widths), np.log(errors), 1, cov=True)
    assert abs(fit[0] + 0.5) <= 3 * np.sqrt(covariance[0, 0]) + 0.02


def test_call_evaluate_and_block_agree() -> None:
    rng = np.random.default_rng(3)
    X, Z = rng.standard_normal((7, 3)), rng.standard_normal((5, 3))
    kernel = TwoLayer()
    for get in ("ntk", "nngp"):
        pairs = np.array([[kernel.evaluate(x, z, get) for z in Z] for x in X])
        np.testing.assert_allclose(kernel(X, Z, get=get), pairs, rtol=0, atol=1e-14 * 20)
        np.testing.assert_allclose(kernel(X, get=get).diagonal(), kernel.diagonal(X, get), rtol=rounding(10))


@pytest.mark.parametrize("get", ["ntk", "nngp"])
def test_even_series_sums_to_the_even_part(get: str) -> None:
    kernel = TwoLayer()
    rho = np.array([0.0, 0.3, 0.7, 0.9])
    coefficients = kernel.even_series(400, get)
    even = 0.5 * (kernel.from_cosine(np, rho, get) + kernel.from_cosine(np, -rho, get))
    np.testing.assert_allclose(
        np.polynomial.polynomial.polyval(rho**2, coefficients), even, atol=rounding(2 * 400) * 0.25
    )  # their sum
    assert np.all(coefficients >= 0)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ([[1.0, np.nan]], "1 NaN (first: row 0, column 1)"),
        ([[1.0, np.inf], [2.0, 1.0]], "1 infinite values"),
        ([[0.0, 0.0], [1.0, 0.0]], "1 row of norm 0 (first: row 0)"),
        ([[1e200, 1e200]], "too large to multiply"),
        ([[1e-200, 1e-200]], "too small to multiply"),
        ([1.0, 2.0], "reshape"),
        ([["a", 1.0]], "text where a number belongs"),
        ([[1.0], [1.0, 2.0]], "different lengths"),
        (np.ones((2, 2, 2)), "flatten"),
        (np.ones((0, 3)), "at least one row"),
        ([[1 + 2j]], "complex"),
    ],
)
def test_bad_input_is_one_clear_line(X: object, words: str) -> None:
    with pytest.raises(ValueError, match="X") as caught:
        TwoLayer()(X)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wrong_part_and_wrong_features() -> None:
    with pytest.raises(ValueError, match="'ntk' or 'nngp'"):
        TwoLayer()([[1.0]], get="cnn")
    with pytest.raises(ValueError, match="same features"):
        TwoLayer()([[1.0]], [[1.0, 2.0]])


def test_integer_images_do_not_overflow() -> None:
    X = np.array([[200, 100], [50, 250]], dtype=np.uint8)
    np.testing.assert_array_equal(TwoLayer()(X), TwoLayer()(X.astype(float)))
