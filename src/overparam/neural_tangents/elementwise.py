"""Nonlinearities by the archived library's names: activations of `layers`, wherever samples and channels are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import pi
from typing import Any

import jax.numpy as jnp
import numpy as np

from overparam import layers as house
from overparam.core.checks import is_nothing, is_traced
from overparam.neural_tangents.layer import Layer, adapted, calls_itself


def _elementwise(activation: Any) -> Layer:
    return adapted(lambda shape: (activation,), any_axes=True)


@calls_itself
def Identity() -> Layer:
    """Nothing is done."""
    return adapted(lambda shape: (), any_axes=True)


@calls_itself
def Erf(a: float = 1.0, b: float = 1.0, c: float = 0.0) -> Layer:
    """a erf(bx) + c."""
    return _elementwise(house.Erf(a, b, c))


@calls_itself
def Sigmoid_like() -> Layer:
    """A step as high and as steep as the logistic function's, of the error function."""
    return Erf(0.5, 1 / 2.4020563531719796, 0.5)


@calls_itself
def Gelu(approximate: bool = False) -> Layer:
    """x Φ(x)."""
    if approximate:
        raise NotImplementedError("`Gelu(approximate=True)` is not offered; take `Gelu()`, within 0.003 of it")
    return _elementwise(house.Gelu())


@calls_itself
def Sin(a: float = 1.0, b: float = 1.0, c: float = 0.0) -> Layer:
    """a sin(bx + c)."""
    return _elementwise(house.Sine(a, b, c))


@calls_itself
def Cos(a: float = 1.0, b: float = 1.0, c: float = 0.0) -> Layer:
    """a cos(bx + c)."""
    return Sin(a, b, c + pi / 2)


@calls_itself
def Rbf(gamma: float = 1.0) -> Layer:
    """√2 sin(√(2γ) x + π/4), whose covariance is exp(−γ E(u − v)²)."""
    return Sin(2**0.5, (2 * gamma) ** 0.5, pi / 4)


@calls_itself
def Exp(a: float = 1.0, b: float = 1.0) -> Layer:
    """a e^{bx}."""
    return _elementwise(house.Exponential(a, b))


@calls_itself
def ABRelu(a: float, b: float, do_stabilize: bool = False) -> Layer:
    """a x below 0 and b x above; `do_stabilize` is not needed here, sizes are kept apart from angles."""
    if is_nothing(a) and is_nothing(b):
        return Polynomial([0.0])
    if is_nothing(a) and not is_traced(b) and b == 1:
        return _elementwise(house.Relu())
    return _elementwise(house.LeakyRelu(a, b))


@calls_itself
def Relu(do_stabilize: bool = False) -> Layer:
    """max(x, 0)."""
    return ABRelu(0.0, 1.0)


@calls_itself
def LeakyRelu(alpha: float, do_stabilize: bool = False) -> Layer:
    """α x below 0, x above."""
    return ABRelu(alpha, 1.0)


@calls_itself
def Abs(do_stabilize: bool = False) -> Layer:
    """|x|."""
    return ABRelu(-1.0, 1.0)


@calls_itself
def ElementwiseNumerical(fn: Callable[[Any], Any], deg: int, df: Callable[[Any], Any] | None = None) -> Layer:
    """Any function of one variable, by a quadrature of `deg` nodes a variable; `df` is not needed, JAX has the derivative."""
    return _elementwise(house.Elementwise(fn, deg))


@calls_itself
def Elementwise(
    fn: Callable[[Any], Any] | None = None,
    nngp_fn: Callable[[Any, Any, Any], Any] | None = None,
    d_nngp_fn: Callable[[Any, Any, Any], Any] | None = None,
) -> Layer:
    """A function `fn` of units, a formula `nngp_fn` of covariances, or both; `d_nngp_fn` is not needed, JAX has the derivative.

    Without `nngp_fn` the kernel is that of `ElementwiseNumerical(fn, 40)`.
    """
    if fn is None and nngp_fn is None:
        raise ValueError("give `fn`, a function of units, or `nngp_fn`, a formula of their covariances")
    if nngp_fn is None:
        return _elementwise(house.Elementwise(fn, 40))  # pyright: ignore[reportArgumentType]
    init_fn, apply_fn, kernel_fn = _elementwise(house.KernelFormula(nngp_fn))
    return init_fn, apply_fn if fn is None else _elementwise(house.Elementwise(fn, 40))[1], kernel_fn


@calls_itself
def Gaussian(a: float = 1.0, b: float = -1.0) -> Layer:
    """a exp(bx²)."""
    return _elementwise(house.Gaussian(a, b))


@calls_itself
def Sign() -> Layer:
    """The sign, through which no gradient passes."""
    return _elementwise(house.Sign())


@calls_itself
def Gabor() -> Layer:
    """exp(−x²) sin x."""
    return _elementwise(house.Gabor())


@calls_itself
def RectifiedMonomial(degree: int) -> Layer:
    """x^degree above 0."""
    return _elementwise(house.RectifiedMonomial(degree))


@calls_itself
def ExpNormalized(gamma: float = 1.0, shift: float = -1.0, do_clip: bool = False) -> Layer:
    """exp(γ(cos θ + shift)) times the sizes, a kernel alone; `do_clip` is not needed, cosines stay within ±1."""
    return _elementwise(house.ExpNormalized(gamma, shift))


@calls_itself
def Polynomial(coef: Sequence[float]) -> Layer:
    """Σ_k coef[k] x^k; its quadrature is exact."""
    numbers = tuple(float(c) for c in coef) or (0.0,)
    return _elementwise(house.Elementwise(functools.partial(_polynomial, coef=numbers), len(numbers)))


def _polynomial(x: Any, coef: tuple[float, ...]) -> Any:
    value = coef[-1] * jnp.ones_like(x)
    for c in coef[-2::-1]:
        value = value * x + c
    return value


@calls_itself
def Monomial(degree: int) -> Layer:
    """x^degree."""
    return Polynomial([0.0] * degree + [1.0])


@calls_itself
def Hermite(degree: int) -> Layer:
    """The normalised Hermite polynomial He_degree/√(degree!), its kernel right for units of any variance."""
    coefficients = np.polynomial.hermite_e.herme2poly([0.0] * degree + [1.0])
    return Polynomial([float(c) for c in coefficients / np.prod(np.sqrt(np.arange(1.0, degree + 1)))])
