"""Kernels inside JAX: `jax.numpy` with finite derivatives where angles and norms vanish, and the angles between rows, differentiable.

A cone has no derivative at its tip: the angle between x and z at x = z, a norm at 0. Here it counts as 0 there, the mean over all
directions, so that what multiplies it (the smooth part of a kernel) has its right derivative.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from overparam.core.angles import NEAR_PARALLEL


def floats(X: Any) -> Any:
    """An array of JAX's floating-point numbers: float32, or float64 where the user has enabled it."""
    return jnp.asarray(X, dtype=jnp.result_type(float))


@contextlib.contextmanager
def whole_products() -> Iterator[None]:
    """Matrix products with all digits of their arrays, unless the user has said how many: a GPU keeps three of float32 by itself."""
    if getattr(jax.config, "jax_default_matmul_precision", None) is not None:
        yield
        return
    with jax.default_matmul_precision("highest"):
        yield


@jax.custom_jvp
def sqrt(x: Any) -> Any:
    """√x, with the derivative 0 at 0."""
    return jnp.sqrt(x)


@sqrt.defjvp
def _sqrt_jvp(primals: Any, tangents: Any) -> Any:
    root = sqrt(primals[0])
    return root, tangents[0] * jnp.where(root > 0, 0.5 / jnp.where(root > 0, root, 1), 0)


def gap_root(gap: Any) -> Any:
    """√ of 1 − cos θ or 1 + cos θ. Below rounding, where two directions are one, θ counts as 0 and so does its derivative."""
    gap = jnp.asarray(gap)
    return sqrt(jnp.where(gap > 32 * jnp.finfo(gap.dtype).eps ** 2, gap, 0))


@jax.custom_jvp
def arccos(x: Any) -> Any:
    """arccos x, with the derivative 0 at ±1."""
    return jnp.arccos(x)


@arccos.defjvp
def _arccos_jvp(primals: Any, tangents: Any) -> Any:
    return arccos(primals[0]), -tangents[0] * _slope_of_arcsin(primals[0])


@jax.custom_jvp
def arcsin(x: Any) -> Any:
    """arcsin x, with the derivative 0 at ±1."""
    return jnp.arcsin(x)


@arcsin.defjvp
def _arcsin_jvp(primals: Any, tangents: Any) -> Any:
    return arcsin(primals[0]), tangents[0] * _slope_of_arcsin(primals[0])


def _slope_of_arcsin(x: Any) -> Any:
    square = (1 - x) * (1 + x)
    return jnp.where(square > 0, jax.lax.rsqrt(jnp.where(square > 0, square, 1)), 0)


@jax.custom_jvp
def arctan2(y: Any, x: Any) -> Any:
    """The angle of (x, y), with the derivative 0 at the origin."""
    return jnp.arctan2(y, x)


@arctan2.defjvp
def _arctan2_jvp(primals: Any, tangents: Any) -> Any:
    (y, x), (dy, dx) = primals, tangents
    square = x * x + y * y
    safe = jnp.where(square > 0, square, 1)
    return arctan2(y, x), jnp.where(square > 0, x * dy - y * dx, 0) / safe


@jax.custom_jvp
def corrected(value: Any, right: Any) -> Any:
    """`right`, which is `value` but for rounding, with the derivative of `value`: a bound that is reached has half of one."""
    return right


@corrected.defjvp
def _corrected_jvp(primals: Any, tangents: Any) -> Any:
    return corrected(*primals), tangents[0]


def _as_arrays(function: Any) -> Any:
    """Numbers too, as `jax.numpy` takes them."""

    def of(*values: Any) -> Any:
        return function(
            *jnp.broadcast_arrays(*(jnp.asarray(value, jnp.result_type(float, *values)) for value in values))
        )

    return of


def is_alive(square: Any) -> Any:
    """Whether a second moment is more than that of a row of zeros, which `directions` makes tiny."""
    return square > (1e-16 if jnp.result_type(square) == jnp.float32 else 1e-110)


def _namespace() -> ModuleType:
    module = ModuleType("smooth")
    vars(module).update({name: value for name, value in vars(jnp).items() if not name.startswith("_")})
    for function in (sqrt, arccos, arcsin, arctan2, corrected):
        setattr(module, function.__name__, _as_arrays(function))
    vars(module).update(gap_root=_as_arrays(gap_root), is_alive=is_alive)
    return module


smooth = _namespace()
"""`jax.numpy`, but for square roots and angles: what epilogues written over an array namespace get."""


def directions(X: Any) -> tuple[Any, Any]:
    """Rows over their norms, and the norms, along the last axis.

    A row of zeros stands as one of tiny equal numbers: so a kernel that is smooth there, as a bias makes it, has its derivative.
    """
    tiny = 3e-9 if X.dtype == jnp.float32 else 1e-60  # its fourth power is a number, and it is below rounding
    X = jnp.where(jnp.any(X != 0, axis=-1, keepdims=True), X, X + tiny)
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(X), axis=-1, keepdims=True))
    scaled = X / largest
    norms = jnp.sqrt(jnp.sum(jnp.square(scaled), axis=-1, keepdims=True))
    return scaled / norms, (largest * norms)[..., 0]


@jax.custom_jvp
def gaps(U: Any, V: Any) -> tuple[Any, Any]:
    """1 − cos θ and 1 + cos θ of all pairs of unit rows, (…, n, d) with (…, p, d), each to full relative accuracy.

    From one product of matrices, and where a pair is nearly parallel from differences and sums of rows. Rows that differ by no more
    than rounding are equal.
    """
    rho = jnp.clip(jnp.matmul(U, V.swapaxes(-1, -2), precision="highest"), -1, 1)
    near = jnp.abs(rho) > 1 - NEAR_PARALLEL

    def exactly() -> tuple[Any, ...]:
        def of(u: Any) -> tuple[Any, ...]:
            return tuple(jnp.sum(jnp.square(both), -1) / 2 for both in (u[..., None, :] - V, u[..., None, :] + V))

        return tuple(jnp.moveaxis(gap, 0, -2) for gap in jax.lax.map(of, jnp.moveaxis(U, -2, 0)))

    exact = jax.lax.cond(jnp.any(near), exactly, lambda: (1 - rho, 1 + rho))
    least = 32 * jnp.finfo(rho.dtype).eps ** 2
    apart, together = (jnp.where(near, each, quick) for each, quick in zip(exact, (1 - rho, 1 + rho), strict=True))
    return jnp.where(apart > least, apart, 0), jnp.where(together > least, together, 0)


@gaps.defjvp
def _gaps_jvp(primals: Any, tangents: Any) -> Any:
    (U, V), (dU, dV) = primals, tangents
    change = jnp.matmul(dU, V.swapaxes(-1, -2), precision="highest")
    change = change + jnp.matmul(U, dV.swapaxes(-1, -2), precision="highest")
    return gaps(U, V), (-change, change)
