"""Powers above 0, the sign, any function by quadrature, kernels by a formula: moments against integrals, gaps against many digits."""

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from mpmath import mpf

from overparam.layers import Elementwise, ExpNormalized, KernelFormula, RectifiedMonomial, Sign
from overparam.layers.kernel_pairs import Pairs

VARIANCES = (0.6, 1.7)


def around(theta, function):
    """The mean over t of function(cos t, cos(t − θ)), split where a sign changes."""
    edges = sorted(
        {
            mpf(0),
            2 * mpmath.pi,
            *((theta * k + mpmath.pi / 2 + mpmath.pi * j) % (2 * mpmath.pi) for k in (0, 1) for j in (0, 1)),
        }
    )
    return mpmath.quad(lambda t: function(mpmath.cos(t), mpmath.cos(t - theta)), edges) / (2 * mpmath.pi)


def power(n):
    """E[φφ] of units of variance 1 at the angle θ: the radius has E[r^{2n}] = 2ⁿ n!."""
    return lambda theta: (
        2**n * mpmath.factorial(n) * around(theta, lambda u, v: (u * v) ** n if u > 0 and v > 0 else mpf(0))
    )


STEP, SQUARE = power(0), power(2)
KNOWN = {
    "step": (RectifiedMonomial(0), 0, STEP, lambda theta: mpf(0)),
    "square": (RectifiedMonomial(2), 2, SQUARE, lambda theta: 4 * power(1)(theta)),
    "cube": (RectifiedMonomial(3), 3, power(3), lambda theta: 9 * power(2)(theta)),
    "seventh": (RectifiedMonomial(7), 7, power(7), lambda theta: 49 * power(6)(theta)),
    "sign": (Sign(), 0, lambda theta: around(theta, lambda u, v: mpmath.sign(u * v)), lambda theta: mpf(0)),
}


def pairs_at(theta, xx, zz):
    apart, together = 2 * np.sin(theta / 2) ** 2, 2 * np.cos(theta / 2) ** 2
    return Pairs(*(np.full((1, 1), value) for value in (xx, zz, apart, together, 1.0)), gaussian=True)


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("theta", [1e-9, 0.3, 1.4, 2.9])
def test_powers_are_their_integrals_to_all_digits_of_the_gap(name, theta):
    act, n, moment, slope = KNOWN[name]
    xx, zz = VARIANCES
    out = act.kernel(np, pairs_at(theta, xx, zz))
    with mpmath.workdps(40):
        own, between = moment(mpf(0)), moment(mpf(theta))
        gap = 1 - between / own
        size = mpf(xx * zz) ** (mpf(n) / 2)
        assert abs(out.apart[0, 0] - gap) <= 1e-14 * gap
        assert abs(out.second_moment(np)[0, 0] - size * between) <= 1e-14 * size * own
        size = mpf(xx * zz) ** (mpf(max(n - 1, 0)) / 2)
        assert abs(out.ntk[0, 0] - size * slope(mpf(theta))) <= 1e-13 * size * max(slope(mpf(0)), 1)
    q = np.cos(theta) * np.sqrt(xx * zz)
    if theta > 0.1:
        assert np.allclose(
            act.dual(np, np.array(q), np.array(xx), np.array(zz))[0], out.second_moment(np)[0], rtol=1e-13
        )


def test_any_function_by_quadrature_is_exact_for_polynomials_and_keeps_small_angles():
    """x³: E[φφ] = 6q³ + 9q xx zz, slope 9(2q² + xx zz); near θ = 0, 1 − ρ′ = 1 − (6ρ³ + 9ρ)/15 ≈ (27/15)(1 − ρ)."""
    cube, (xx, zz) = Elementwise(lambda x: x**3, 5), VARIANCES
    for q in (0.7, -0.2):
        moment, slope = cube.dual(np, np.array(q), np.array(xx), np.array(zz))
        assert np.allclose([moment, slope], [6 * q**3 + 9 * q * xx * zz, 9 * (2 * q**2 + xx * zz)], rtol=1e-13)
    near = pairs_at(1e-9, 1.0, 1.0)
    assert np.allclose(cube.kernel(np, near).apart, near.apart * 27 / 15, rtol=1e-6)


def test_the_stated_error_of_a_quadrature_is_one():
    """Of tanh with 6 nodes, against 200."""
    few, many = Elementwise(jnp.tanh, 6), Elementwise(jnp.tanh, 60)
    xx = np.array(2.0)
    true = abs(few.dual(np, xx, xx, xx)[0] / many.dual(np, xx, xx, xx)[0] - 1)
    assert 0.3 * true < few.error(2.0) < 30 * max(true, 1e-3)


def test_kernels_without_a_function():
    """exp(ρ − 1) written as a formula is `ExpNormalized`, its slope derived."""
    xx, zz = np.array([0.6]), np.array([1.7])
    by_formula = KernelFormula(lambda q, xx, zz: jnp.sqrt(xx * zz) * jnp.exp(q / jnp.sqrt(xx * zz) - 1))
    for q in (0.5, -0.9):
        assert np.allclose(
            by_formula.dual(np, np.array([q]), xx, zz), ExpNormalized().dual(np, np.array([q]), xx, zz), rtol=1e-13
        )
    for act in (by_formula, ExpNormalized()):
        with pytest.raises(ValueError, match="no finite layer"):
            act.function(1.0)


@pytest.mark.parametrize(
    ("make", "said"), [(lambda: RectifiedMonomial(3.5), "degree"), (lambda: Elementwise(3.5), "formula")]
)
def test_what_they_cannot_be_is_one_line(make, said):
    with pytest.raises(ValueError, match=f"`{said}` is 3.5; expected"):
        make()
