"""Activations: forward maps, second moments against integrals, and gaps against many digits."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from activation_cases import CASES, largest_variance
from mpmath import mpf
from rounding import rounding
from scipy import special

from overparam.core.network import ReluRecorder
from overparam.kernels.composed import Composed
from overparam.layers import (
    Bias,
    Composition,
    Dense,
    Erf,
    Exponential,
    Gaussian,
    Gelu,
    Identity,
    LeakyRelu,
    Normal,
    Relu,
    Sine,
    ZeroOrNormal,
    standard,
)
from overparam.layers.kernel_pairs import Pairs, one_case

NONLINEAR = sorted(set(CASES) - {"identity"})
POINTS = np.linspace(-3, 3, 41)
FUNCTIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky": lambda x: np.where(x > 0, x, 0.1 * x),
    "two_slopes": lambda x: np.where(x > 0, 1.7 * x, -0.5 * x),
    "abs": np.abs,
    "erf": special.erf,
    "erf_abc": lambda x: 1.2 * special.erf(0.7 * x) + 0.3,
    "gelu": lambda x: x * special.ndtr(x),
    "sine": np.sin,
    "sine_abc": lambda x: 1.2 * np.sin(0.7 * x + 0.3),
    "cosine": np.cos,
    "exponential": lambda x: 0.8 * np.exp(0.5 * x),
    "gaussian": lambda x: 1.1 * np.exp(-0.3 * x**2),
    "gabor": lambda x: np.exp(-(x**2)) * np.sin(x),
    "identity": lambda x: x,
}
SLOPES = {
    "relu": lambda x: np.where(x > 0, 1.0, 0.0),
    "leaky": lambda x: np.where(x > 0, 1.0, 0.1),
    "two_slopes": lambda x: np.where(x > 0, 1.7, -0.5),
    "abs": np.sign,
    "erf": lambda x: 2 / np.sqrt(np.pi) * np.exp(-(x**2)),
    "erf_abc": lambda x: 1.2 * 0.7 * 2 / np.sqrt(np.pi) * np.exp(-((0.7 * x) ** 2)),
    "gelu": lambda x: special.ndtr(x) + x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi),
    "sine": np.cos,
    "sine_abc": lambda x: 1.2 * 0.7 * np.cos(0.7 * x + 0.3),
    "cosine": lambda x: -np.sin(x),
    "exponential": lambda x: 0.4 * np.exp(0.5 * x),
    "gaussian": lambda x: -0.66 * x * np.exp(-0.3 * x**2),
    "gabor": lambda x: np.exp(-(x**2)) * (np.cos(x) - 2 * x * np.sin(x)),
    "identity": np.ones_like,
}


def gaussian(xx, zz, apart, together):
    arrays = [np.atleast_1d(np.asarray(a, dtype=float))[None] for a in (xx, zz, apart, together)]
    return Pairs(*arrays, np.ones(np.broadcast_shapes(*(a.shape for a in arrays))), gaussian=True)


@pytest.mark.parametrize("name", sorted(CASES))
def test_forward_maps(name):
    with jax.enable_x64(True):
        found = CASES[name][0].apply({}, jnp.asarray(POINTS), seen := ReluRecorder())
    np.testing.assert_allclose(
        found, FUNCTIONS[name](POINTS), rtol=rounding(60, functions=4), atol=rounding(10, functions=2)
    )
    trace = seen.trace(found)  # ReLUs are traced, all others but a line are named
    slope = {"relu": (0.0,), "leaky": (0.1,), "abs": (-1.0,)}.get(name, ())
    assert trace.slopes == slope
    assert len(trace.unseen) == (not slope and name != "identity")


def integral(name, xx, zz, q):
    """E[φφ] and E[φ′φ′] by quadrature over the plane: in polar coordinates where φ has a kink, else Gauss–Hermite."""
    L = np.linalg.cholesky(np.array([[xx, q], [q, zz]]))
    value, slope = FUNCTIONS[name], SLOPES[name]
    if CASES[name][0].homogeneous:
        # r³ e^{−r²/2} and r e^{−r²/2} integrate to 2 and 1; the angle is split where u or v change sign
        jumps = [np.pi / 2, np.arctan2(-L[1, 0], L[1, 1]) % np.pi]
        edges = np.sort(np.concatenate([[0, 2 * np.pi], jumps, np.add(jumps, np.pi)]))
        nodes, weights = np.polynomial.legendre.leggauss(40)
        t = np.concatenate([(a + b) / 2 + (b - a) / 2 * nodes for a, b in pairwise(edges)])
        w = np.concatenate([(b - a) / 2 * weights for a, b in pairwise(edges)]) / (2 * np.pi)
        u, v = L @ np.stack([np.cos(t), np.sin(t)])
        return (2 * w * value(u) * value(v)).sum(), (w * slope(u) * slope(v)).sum()
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    a, b = np.meshgrid(nodes, nodes)
    w = np.outer(weights, weights).ravel() / (2 * np.pi)
    u, v = L @ np.stack([a.ravel(), b.ravel()])
    return (w * value(u) * value(v)).sum(), (w * slope(u) * slope(v)).sum()


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize(("xx", "zz", "rho"), [(0.6, 0.9, 0.7), (0.3, 1.1, -0.8), (0.8, 0.8, 0.0)])
def test_second_moments_are_the_integrals(name, xx, zz, rho):
    act, textbook = CASES[name]
    q = rho * np.sqrt(xx * zz)
    known = integral(name, xx, zz, q)
    for found in (act.dual(np, q, xx, zz), [float(value) for value in textbook(mpf(q), mpf(xx), mpf(zz))]):
        np.testing.assert_allclose(found, known, rtol=1e-12, atol=1e-12)
    out = act.kernel(np, gaussian(xx, zz, 1 - rho, 1 + rho))
    np.testing.assert_allclose([out.second_moment(np)[0, 0], out.ntk[0, 0]], known, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(act.square(np, xx), act.dual(np, xx, xx, xx)[0], rtol=rounding(60, functions=8))


def hard_pairs(name):
    """Variances of all sizes, equal, nearly so and far apart; angles from 0 to π."""
    sizes = [1e-40, 1e-20, 1e-8, 1e-3, 0.04, 0.3, 1.0, 2.2, 30.0, 1e3, 1e6, 1e12, 1e30]
    ratios = [1.0, 1 + 1e-10, 1 + 1e-5, 1.2, 3.9, 4.2, 1e3, 1e15]
    angles = [0.0, 1e-12, 1e-7, 1e-3, 0.4, np.pi / 2, 2.5]
    rng, pairs = np.random.default_rng(3), []
    for xx in sizes:
        for ratio in ratios:
            if xx * ratio > largest_variance(name):
                continue
            for angle in rng.choice(angles, 3, replace=False):
                small, large = 2 * np.sin(angle / 2) ** 2, 2 * np.cos(angle / 2) ** 2
                pairs.append((xx, xx * ratio, *((small, large) if rng.random() < 0.7 else (large, small))))
    return np.array(pairs).T


@pytest.mark.parametrize("name", NONLINEAR)
def test_gaps_keep_the_angle_to_all_digits(name):
    """√(1 ∓ ρ), which is the angle next to 0 and π, and the slope; from the textbook formula at 200 digits."""
    act, textbook = CASES[name]
    pairs = hard_pairs(name)
    out = act.kernel(np, gaussian(*pairs))
    # the sine has e^{−b²(√xx − √zz)²/2}: rounding of a variance counts b²·xx times
    sensitive = 1e-16 * pairs[:2].max(axis=0) if largest_variance(name) < 1e60 else np.zeros(pairs.shape[1])
    with mpmath.workdps(200):
        for i, (xx, zz, apart, together) in enumerate(pairs.T):
            xx, zz, apart, together = (mpf(float(value)) for value in (xx, zz, apart, together))
            rho = 1 - apart if apart < together else together - 1
            moment, slope = textbook(rho * mpmath.sqrt(xx * zz), xx, zz)
            (own, steep), (other, steep_z) = textbook(xx, xx, xx), textbook(zz, zz, zz)
            size = mpmath.sqrt(own * other)
            tolerance = rounding(80, functions=12) + sensitive[i]
            assert abs(mpmath.sqrt(abs(1 - moment / size)) - mpmath.sqrt(float(out.apart[0, i]))) <= tolerance, pairs[
                :, i
            ]
            assert abs(mpmath.sqrt(abs(1 + moment / size)) - mpmath.sqrt(float(out.together[0, i]))) <= tolerance
            assert abs(slope - float(out.ntk[0, i])) <= (tolerance + rounding(40, functions=6)) * mpmath.sqrt(
                steep * steep_z
            )
            assert abs(own - float(out.xx[0, i])) <= rounding(20, functions=3) * own
            assert abs(other - float(out.zz[0, i])) <= rounding(20, functions=3) * other


@pytest.mark.parametrize("name", sorted(CASES))
def test_quick_equals_careful_away_from_parallel(name):
    rng = np.random.default_rng(0)
    xx, zz, rho = rng.exponential(size=500), rng.exponential(size=500), rng.uniform(-0.99, 0.99, 500)
    act = CASES[name][0]
    out = act.kernel(np, gaussian(xx, zz, 1 - rho, 1 + rho))
    moment, slope = act.dual(np, rho * np.sqrt(xx * zz), xx, zz)
    np.testing.assert_allclose(
        out.second_moment(np)[0], moment, rtol=0, atol=2 * rounding(60, functions=6) * out.xx.max()
    )
    np.testing.assert_allclose(
        out.ntk[0], slope * np.ones(500), rtol=0, atol=8 * rounding(60, functions=6)
    )  # 1/√(1 − ρ²) is 7


@pytest.mark.parametrize("name", ["relu", "two_slopes", "erf_abc", "gelu", "sine_abc", "exponential"])
def test_arrays_broadcast_and_jax_gives_the_same(name):
    rng = np.random.default_rng(1)
    xx, zz = rng.exponential(size=(1, 3, 1)), rng.exponential(size=(1, 1, 4))
    rho = rng.uniform(-1, 1, (1, 3, 4))
    rho[0, 0, 0], rho[0, 1, 1] = 1.0, -1.0
    act = CASES[name][0]
    pairs = Pairs(xx, zz, 1 - rho, 1 + rho, np.ones((1, 3, 4)), gaussian=True)
    out = act.kernel(np, pairs)
    full = [np.ascontiguousarray(np.broadcast_to(a, (1, 3, 4))) for a in (xx, zz, pairs.apart, pairs.together)]
    whole = act.kernel(np, Pairs(*full, pairs.ntk, gaussian=True))
    assert out.xx.shape == (1, 3, 1)
    assert out.zz.shape == (1, 1, 4)
    with jax.enable_x64(True):
        traced = jax.jit(lambda a, b, c, d, e: _arrays(act.kernel(jnp, Pairs(a, b, c, d, e, gaussian=True)), jnp))(
            *(jnp.asarray(a) for a in (xx, zz, pairs.apart, pairs.together, pairs.ntk))
        )
    for a, b, c in zip(_arrays(out, np), _arrays(whole, np), traced, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15, atol=1e-16)
        np.testing.assert_allclose(a, c, rtol=1e-12, atol=1e-14)


def _arrays(pairs, xp):
    return pairs.second_moment(xp), pairs.apart, pairs.together, pairs.ntk * xp.ones_like(pairs.apart)


@pytest.mark.parametrize("name", sorted(CASES))
def test_units_that_are_always_zero(name):
    """A zero input without bias: moments of φ(0), no NaN, and an angle only where φ(0) is not 0."""
    act = CASES[name][0]
    out = act.kernel(np, gaussian([0.0, 0.0], [0.0, 2.0], [1.0, 1.0], [1.0, 1.0]))
    start = float(FUNCTIONS[name](np.array(0.0)))
    np.testing.assert_allclose(out.xx[0], start**2, atol=rounding(10, functions=2))
    if start == 0:
        np.testing.assert_array_equal(out.second_moment(np)[0], 0)
        np.testing.assert_array_equal(out.apart, 1)
    else:
        np.testing.assert_allclose(out.apart[0, 0], 0, atol=rounding(10, functions=2))
    assert np.all(np.isfinite(out.ntk))


def test_cases_of_a_mixture_are_averaged():
    """Biases that are 0 with probability ½: the kernel after an erf with a constant is the mean of the two."""
    layers = (Dense("W", 4, Normal(1.0), trained=True), Bias("b", ZeroOrNormal(1.3)), Erf(1.1, 0.9, 0.2))
    composition = Composition(layers, 2)
    X = np.random.default_rng(0).standard_normal((3, 2))
    mixed = composition.kernel(np, composition.pairs(X, X))
    expected = 0
    for variance in (0.0, 1.3**2):
        norms = np.square(X).sum(axis=1) + variance
        q = X @ X.T + variance
        expected = expected + Erf(1.1, 0.9, 0.2).dual(np, q, norms[:, None], norms)[0] / 2
    np.testing.assert_allclose(mixed.second_moment(np)[0], expected, rtol=1e-13)
    assert mixed.shares == (1.0,)
    assert one_case(np, mixed) is mixed


@pytest.mark.parametrize("name", NONLINEAR)
def test_gaussian_units_are_required(name):
    pairs = Pairs(*np.ones((5, 1, 1)))
    with pytest.raises(ValueError, match="closed form") as caught:
        CASES[name][0].kernel(np, pairs)
    assert "\n" not in str(caught.value)
    assert Identity().kernel(np, pairs) is pairs


@pytest.mark.parametrize("act", [Exponential(), Sine()])
def test_variances_beyond_float64_are_one_line(act):
    with pytest.raises(ValueError, match="float64") as caught:
        act.kernel(np, gaussian(1e9, 1.0, 0.5, 1.5))
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="float64"):
        act.dual(np, 0.0, np.array([1e9]), np.array([1.0]))


@pytest.mark.parametrize("kind", [LeakyRelu, Erf, Sine, Exponential])
@pytest.mark.parametrize("settings", [(np.nan,), (0.1, np.inf), ("a",)])
def test_settings_are_finite_numbers(kind, settings):
    with pytest.raises(ValueError, match="expected a finite number"):
        kind(*settings)
    with pytest.raises(ValueError, match="both 0"):
        LeakyRelu(0, 0)


def test_special_cases_are_one_another():
    pairs = gaussian([0.3, 2.0, 5.0], [1.0, 2.0, 1e-9], [0.3, 1e-13, 1.9], [1.7, 2 - 1e-13, 0.1])
    relu, leaky = Relu().kernel(np, pairs), LeakyRelu(0.0).kernel(np, pairs)
    line, same = LeakyRelu(1.0).kernel(np, pairs), pairs
    for one, two in ((relu, leaky), (line, same)):
        for a, b in zip(_arrays(one, np), _arrays(two, np), strict=True):
            np.testing.assert_allclose(a, b, rtol=rounding(60, functions=8))
    # √2 sin(√(2γ) x + π/4): E[φφ] = exp(−γ E[(u − v)²])
    gamma = 0.6
    q = pairs.second_moment(np)
    moment = Sine(2**0.5, (2 * gamma) ** 0.5, np.pi / 4).dual(np, q, pairs.xx, pairs.zz)[0]
    np.testing.assert_allclose(
        moment, np.exp(-gamma * (pairs.xx + pairs.zz - 2 * q)), rtol=2 * rounding(60, functions=8)
    )
    # for large variances a GELU is a ReLU
    big = gaussian(1e30, 4e30, 0.3, 1.7)
    a, b = Gelu().kernel(np, big), Relu().kernel(np, big)
    np.testing.assert_allclose(
        [a.apart, a.together, a.ntk], [b.apart, b.together, b.ntk], rtol=rounding(60, functions=8)
    )


def test_a_gaussian_that_grows_has_its_moments_while_they_are_finite():
    """Against a quadrature of the two units, b > 0 and 4b xx < 1; where the second moment is infinite one line says so."""
    layers = (standard.dense(8, 1.0, 0.2), Gaussian(1.1, 0.1), standard.dense(1))
    X = np.array([[0.6, -0.4], [-0.6, 0.4], [1.2, 1.0], [0.6, -0.4 + 1e-9]])
    moments = X @ X.T / 2 + 0.04
    t, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    found = Composed(layers)(X, get="nngp")
    for i, j in np.ndindex(found.shape):
        xx, zz, q = moments[i, i], moments[j, j], moments[i, j]
        u = np.sqrt(xx) * t[:, None]
        v = q / np.sqrt(xx) * t[:, None] + np.sqrt(max(zz - q * q / xx, 0.0)) * t
        expected = weights @ (1.1**2 * np.exp(0.1 * (u * u + v * v))) @ weights
        assert abs(found[i, j] - expected) <= 1e-12 * expected
    with pytest.raises(ValueError, match="have no second moment through"):
        Composed(layers)(4 * X)
