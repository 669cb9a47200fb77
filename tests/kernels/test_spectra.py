"""Spectra on the sphere and the cube against eigenvalues of whole matrices, closed forms and mpmath."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from rounding import rounding
from scipy.special import eval_legendre, roots_legendre

from overparam.kernels import (
    ArcCosine,
    Arcsine,
    Gaussian,
    Laplace,
    Polynomial,
    RandomFeatures,
    Recursive,
    TwoLayer,
    normalised,
    spectrum_on_cube,
    spectrum_on_sphere,
)
from overparam.kernels.fully_connected import FullyConnected
from overparam.kernels.spectra import krawtchouk, multiplicity

KERNELS = [
    TwoLayer(),
    Gaussian(0.8),
    Laplace(1.1),
    ArcCosine(0),
    ArcCosine(2),
    Arcsine(1.5, 0.5),
    Recursive(3),
    2 * TwoLayer() + Gaussian(1.0) * Laplace(2.0),
    normalised(Polynomial(3, constant=0.5)),
    FullyConnected(depth=3, b_std=0.2),
    FullyConnected(depth=2, activation="erf"),
]


def relative(found: np.ndarray, true: list) -> float:
    """The largest relative difference from numbers of mpmath; what float64 cannot hold is left out."""
    pairs = [(mpmath.mpf(float(a)), b) for a, b in zip(found, true, strict=True) if abs(b) > 1e-290]
    assert len(pairs) > 1
    return float(max(abs(a / b - 1) for a, b in pairs))


# The cube


def corners(d: int, radius: float = 1.0) -> np.ndarray:
    return np.array(list(itertools.product([1.0, -1.0], repeat=d))) * (radius / math.sqrt(d))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize(("d", "radius"), [(1, 1.0), (5, 0.9), (7, 1.0)])
def test_eigenvalues_of_the_whole_cube(kernel, d: int, radius: float) -> None:
    X = corners(d, radius)
    true = np.linalg.eigvalsh(kernel(X)) / len(X)
    found = spectrum_on_cube(kernel, d, radius=radius)
    repeated = np.repeat(found.eigenvalues, found.multiplicities)
    np.testing.assert_allclose(
        np.sort(repeated), true, rtol=0, atol=(1e-14 + rounding(2 * len(X))) * true[-1] * len(X) ** 0.5
    )
    assert found.positive
    assert found.left_out == 0
    assert np.sum(found.shares) == pytest.approx(1, abs=rounding(4 * 8 * 8))


def test_every_product_of_coordinates_is_an_eigenvector() -> None:
    d, kernel = 7, TwoLayer()
    X = corners(d, math.sqrt(d))
    found = spectrum_on_cube(kernel, d, radius=math.sqrt(d))
    H = kernel(X) / len(X)
    for subset in ((), (0,), (2, 5), (0, 1, 2), (1, 3, 4, 6), tuple(range(7))):
        product = X[:, list(subset)].prod(axis=1)
        off = (1e-14 + rounding(len(X))) * H.diagonal().max() * len(X)  # entries as stated, and a sum of so many
        np.testing.assert_allclose(H @ product, found.eigenvalues[len(subset)] * product, rtol=0, atol=off)


@pytest.mark.parametrize("d", [1, 10, 64, 101])
def test_the_exponential_on_the_cube(d: int) -> None:
    """exp(x·z) is a product over coordinates: λ_s = cosh(1/d)^{d−s} sinh(1/d)^s; at d = 64 down to 1e-116."""
    found = spectrum_on_cube(np.exp, d)
    with mpmath.workdps(60):
        one = mpmath.mpf(1) / d
        true = [mpmath.cosh(one) ** (d - s) * mpmath.sinh(one) ** s for s in range(d + 1)]
        assert relative(found.eigenvalues, true) <= 4e-16
        gaussian = spectrum_on_cube(Gaussian(1.0), d)
        assert relative(gaussian.eigenvalues, [value / mpmath.e for value in true]) <= 1e-15
    assert found.digits >= 60


@pytest.mark.parametrize("kernel", [TwoLayer(), Laplace(0.7), ArcCosine(2), Arcsine(1.0, 0.3)], ids=repr)
def test_sixty_four_dimensions_to_sixty_digits(kernel) -> None:
    """The sum of the definition in mpmath, with 150 digits and binomials of its own."""
    d = 64
    found = spectrum_on_cube(kernel, d)
    with mpmath.workdps(150):
        pi, one = mpmath.pi, mpmath.mpf(1)
        if isinstance(kernel, TwoLayer):
            g = lambda t: t * (pi - mpmath.acos(t)) / (2 * pi)  # noqa: E731
        elif isinstance(kernel, Laplace):
            g = lambda t: mpmath.exp(-mpmath.sqrt(2 - 2 * t) / mpmath.mpf(0.7))  # noqa: E731
        elif isinstance(kernel, ArcCosine):
            g = lambda t: (3 * mpmath.sqrt(1 - t**2) * t + (pi - mpmath.acos(t)) * (1 + 2 * t**2)) / pi  # noqa: E731
        else:
            b = mpmath.mpf(0.3) ** 2
            g = lambda t: 2 / pi * mpmath.asin(2 * (b + t) / (3 + 2 * b))  # noqa: E731
        values = [g(one - mpmath.mpf(2 * j) / d) for j in range(d + 1)]
        for s in (0, 1, 2, 3, 17, 32, 50, 63, 64):
            counts = [
                sum(
                    (-1) ** i * math.comb(s, i) * math.comb(d - s, j - i)
                    for i in range(max(0, j + s - d), min(s, j) + 1)
                )
                for j in range(d + 1)
            ]
            true = mpmath.fsum(v * c for v, c in zip(values, counts, strict=True)) / mpmath.mpf(2) ** d
            error = abs(mpmath.mpf(float(found.eigenvalues[s])) - true)
            assert error <= found.errors[s] + mpmath.mpf(10) ** -140
            assert found.errors[s] <= 1e-12 * abs(true) + 1e-45
    assert found.positive


def test_krawtchouk_polynomials() -> None:
    d = 12
    table = np.array(list(krawtchouk(d)), dtype=object)
    assert (table[0] == [math.comb(d, j) for j in range(d + 1)]).all()
    counts = np.array([math.comb(d, j) for j in range(d + 1)], dtype=object)
    assert (table.dot(table) == np.eye(d + 1, dtype=int) * 2**d).all()  # it is its own inverse, up to 2^d
    assert ((counts[:, None] * table) == (counts[:, None] * table).T).all()


def test_a_function_of_floats_alone_says_how_little_it_knows() -> None:
    rough = spectrum_on_cube(lambda t: np.array([math.exp(value) for value in t]), 30)
    fine = spectrum_on_cube(np.exp, 30)
    assert rough.digits == 16
    assert fine.digits > 16
    assert np.all(np.abs(rough.eigenvalues - fine.eigenvalues) <= rough.errors + fine.errors)
    assert rough.errors[15] > 100 * fine.errors[15]
    assert np.all(rough.errors[:5] <= 1e-8 * rough.eigenvalues[:5])


# The sphere


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_legendre_on_the_sphere_of_three_dimensions(kernel) -> None:
    """½ ∫ g(t) P_l(t) dt, as an integral over the angle by a Gauss rule of another kind."""
    nodes, weights = roots_legendre(200)
    theta = (nodes + 1) * (np.pi / 2)
    x = np.array([[1.0, 0.0, 0.0]])
    Z = np.stack([np.cos(theta), np.sin(theta), np.zeros_like(theta)], axis=1)
    g = kernel(x, Z)[0]
    found = spectrum_on_sphere(kernel, 3, 12)
    for l in range(13):
        true = np.sum(weights * g * eval_legendre(l, np.cos(theta)) * np.sin(theta)) * np.pi / 4
        assert found.eigenvalues[l] == pytest.approx(true, rel=1e-10, abs=1e-15 * found.trace)
        assert abs(found.eigenvalues[l] - true) <= found.errors[l] + 1e-14 * found.trace
    assert found.multiplicities == tuple(2 * l + 1 for l in range(13))
    assert found.positive


@pytest.mark.parametrize("d", [2, 3, 10, 64, 784])
def test_the_exponential_on_the_sphere(d: int) -> None:
    """λ_l = Γ(d/2) 2^{d/2−1} I_{l+d/2−1}(1); the Gaussian has the same over e."""
    found, gaussian = spectrum_on_sphere(np.exp, d), spectrum_on_sphere(Gaussian(1.0), d)
    with mpmath.workdps(60):
        order = mpmath.mpf(d) / 2 - 1
        factor = mpmath.gamma(order + 1) * mpmath.mpf(2) ** order
        true = [factor * mpmath.besseli(l + order, 1) for l in range(21)]
        assert relative(found.eigenvalues, true) <= 4e-16
        assert relative(gaussian.eigenvalues, [value / mpmath.e for value in true]) <= 1e-15
        for value, error, exact in zip(found.eigenvalues, found.errors, true, strict=True):
            assert abs(mpmath.mpf(float(value)) - exact) <= error <= 1e-13 * exact


@pytest.mark.parametrize("d", [2, 3, 7, 40])
def test_powers_on_the_sphere(d: int) -> None:
    """∫ t^p P_l dμ is a rational number, here from the recursion of P_l and E t^{2k} = Π (2i − 1)/(d + 2i − 2)."""
    p = 6
    moments = [Fraction(0)] * 30
    moments[0] = Fraction(1)
    for k in range(2, 30, 2):
        moments[k] = moments[k - 2] * (k - 1) / (d + k - 2)
    before, now = [Fraction(0)] * 10, [Fraction(1)] + [Fraction(0)] * 9
    found = spectrum_on_sphere(Polynomial(p), d, degrees=8)
    for l in range(9):
        true = sum((c * moments[k + p] for k, c in enumerate(now)), Fraction(0))
        assert found.eigenvalues[l] == pytest.approx(float(true), rel=1e-14, abs=0)
        shifted = [Fraction(0), *now[:-1]]
        if l == 0:
            before, now = now, shifted
        else:
            a, b = Fraction(2 * l + d - 2, l + d - 2), Fraction(l, l + d - 2)
            before, now = now, [a * s - b * q for s, q in zip(shifted, before, strict=True)]
    assert found.left_out == 0
    assert np.sum(found.shares) == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("d", [3, 10])
def test_two_layers_have_no_odd_degrees_above_one(d: int) -> None:
    found = spectrum_on_sphere(TwoLayer(), d, degrees=24)
    assert np.all(found.eigenvalues[3::2] == 0)
    assert np.all(found.errors[3::2] < 1e-40)
    assert found.eigenvalues[1] == pytest.approx(1 / (4 * d), rel=1e-15)  # the odd part of H is x·z/4
    assert np.all(found.eigenvalues[::2] > 0)
    # λ_l falls like l^{−d}, by the kink of H at θ = 0 and θ = π
    l = np.arange(12, 25, 2)
    slope = np.polyfit(np.log(l + (d - 2) / 2), np.log(found.eigenvalues[12::2]), 1)[0]
    assert slope == pytest.approx(-d, abs=0.35)


def test_a_random_sample_has_these_eigenvalues() -> None:
    d, n, kernel = 3, 200, TwoLayer()
    found = spectrum_on_sphere(kernel, d, degrees=4)
    tops = []
    for seed in range(20):
        X = np.random.default_rng(seed).standard_normal((n, d))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        tops.append(np.sort(np.linalg.eigvalsh(kernel(X)))[::-1][:9] / n)
    # degree 1 (three times), 0, 2 (five times), as means over a group of eigenvalues
    for part, l in ((slice(0, 3), 1), (slice(3, 4), 0), (slice(4, 9), 2)):
        means = np.array([top[part].mean() for top in tops])
        error = means.std(ddof=1) / np.sqrt(len(means))
        assert error < 0.02 * found.eigenvalues[l]
        assert abs(means.mean() - found.eigenvalues[l]) <= 3.5 * error + found.trace / n  # their bias is of order 1/n


def test_what_is_left_out_bounds_the_rest() -> None:
    for kernel, d in ((TwoLayer(), 3), (Laplace(1.0), 5), (Arcsine(), 4)):
        few, many = spectrum_on_sphere(kernel, d, 6), spectrum_on_sphere(kernel, d, 40)
        np.testing.assert_allclose(few.eigenvalues, many.eigenvalues[:7], rtol=1e-15)
        rest = float(np.sum(many.shares[7:])) + many.left_out
        assert few.left_out == pytest.approx(rest, rel=1e-12)
        assert np.all(many.eigenvalues[7:] <= few.largest_left_out)
        assert few.largest_left_out <= 1e3 * many.eigenvalues[7:].max()


def test_radius_and_parts() -> None:
    found = spectrum_on_sphere(TwoLayer(), 4, 6, get="nngp")
    longer = spectrum_on_sphere(TwoLayer(), 4, 6, get="nngp", radius=3.0)
    np.testing.assert_allclose(longer.eigenvalues, 9 * found.eigenvalues, rtol=1e-14)
    np.testing.assert_allclose(2 * found.eigenvalues, spectrum_on_sphere(ArcCosine(1), 4, 6).eigenvalues, rtol=1e-14)
    wide = spectrum_on_cube(Gaussian(2.0), 6, radius=2.0)
    np.testing.assert_allclose(wide.eigenvalues, spectrum_on_cube(Gaussian(1.0), 6).eigenvalues, rtol=1e-14)
    d = 5
    deep, X = FullyConnected(depth=2), np.eye(d)[:1]
    assert spectrum_on_sphere(deep, d, 2).trace == pytest.approx(deep(X)[0, 0], rel=1e-14)


def test_a_function_that_is_no_kernel_is_found_out() -> None:
    assert not spectrum_on_sphere(lambda t: t**2 - 0.5 * t, 5, 4).positive
    assert not spectrum_on_cube(lambda t: 1 - t**2 + t**3, 5).positive
    assert spectrum_on_sphere(lambda t: 1.0, 5, 4).eigenvalues.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_a_kink_inside_is_said_by_the_errors() -> None:
    """max(t, 0) in 3 dimensions has λ_0 = ¼, λ_1 = 1/6, λ_2 = 1/16: the rule is not made for its kink."""
    found = spectrum_on_sphere(lambda t: np.maximum(t, 0), 3, 2)
    true = np.array([1 / 4, 1 / 6, 1 / 16])
    assert np.all(np.abs(found.eigenvalues - true) <= 2 * found.errors + 1e-15)
    assert found.errors[0] > 1e-9


def test_multiplicities_are_exact() -> None:
    assert [multiplicity("sphere", 2, l) for l in range(4)] == [1, 2, 2, 2]
    assert [multiplicity("sphere", 4, l) for l in range(5)] == [(l + 1) ** 2 for l in range(5)]
    assert multiplicity("cube", 64, 32) == 1832624140942590534
    total = sum(multiplicity("sphere", 64, l) for l in range(21))  # polynomials of degree ≤ 20 on the sphere
    assert total == math.comb(63 + 20, 20) + math.comb(63 + 19, 19)


def test_section_for_a_page() -> None:
    from overparam.core import sections

    section = spectrum_on_sphere(TwoLayer(), 64, 6).section()
    assert section.title == "Spectrum on the sphere in 64 dimensions"
    assert sections.from_json(sections.to_json([section]))[0] == section
    assert len(section.blocks[0].series[0].x) == 5  # degrees 0, 1, 2, 4, 6


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: spectrum_on_sphere(TwoLayer(), 1), "`dimension` is 1"),
        (lambda: spectrum_on_sphere(TwoLayer(), 3, -1), "`degrees` is -1"),
        (lambda: spectrum_on_sphere(TwoLayer(), 3.0), "`dimension` is 3.0"),  # type: ignore[arg-type]
        (lambda: spectrum_on_sphere(TwoLayer(), 3, get="cnn"), "`get` is 'cnn'"),
        (lambda: spectrum_on_sphere(RandomFeatures(Gaussian(), 5), 3), "kernel of inner products"),
        (lambda: spectrum_on_sphere(3, 3), "or a function of the cosine"),
        (lambda: spectrum_on_sphere(Gaussian(), 3, radius=0.0), "`radius` is 0.0"),
        (lambda: spectrum_on_sphere(Recursive(1), 3, radius=2.0), "norm above 1"),
        (lambda: spectrum_on_sphere(lambda t: -t, 3), "expected a number above 0"),
        (lambda: spectrum_on_sphere(lambda t: np.where(t > 0, np.nan, t), 3), "NaN"),
        (lambda: spectrum_on_cube(TwoLayer(), 0), "`dimension` is 0"),
        (lambda: spectrum_on_cube(TwoLayer(), 5000), "from 1 to 1,000"),
    ],
)
def test_one_clear_line(make, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        make()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
