"""In which precision and on which device a run computes; entered and left, nothing global is set."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from overparam.core import checks
from overparam.core.trees import placed

DTYPES = ("float64", "float32", "tf32")
DIGITS = {"float64": 15, "float32": 6, "tf32": 3}
"""Decimal digits that one product keeps."""


def checked_dtype(dtype: str, device: str | None = None) -> str:
    """The precision by name, or one line."""
    checks.one_of(dtype, "dtype", DTYPES)
    if dtype == "tf32" and chosen_device(device).platform == "cpu":
        raise ValueError("`dtype` is 'tf32', which only NVIDIA GPUs have; use 'float32' on a CPU")
    return dtype


def chosen_device(device: str | None) -> Any:
    """A JAX device from "cpu", "gpu" or None (the one JAX prefers)."""
    if device in (None, "jax"):
        return jax.devices()[0]
    try:
        return jax.devices(str(device))[0]
    except RuntimeError:
        kinds = sorted({d.platform for d in jax.devices()})
        raise ValueError(
            f"`device` is {device!r} and JAX finds {', '.join(kinds)} here; leave it out or name one"
        ) from None


def device_name(device: str | None) -> str:
    """The device in words: "cpu", or what the accelerator calls itself."""
    place = chosen_device(device)
    return place.platform if place.platform == "cpu" else place.device_kind


@contextlib.contextmanager
def computing(dtype: str, device: str | None) -> Iterator[Any]:
    """Compute inside in that precision on that device; gives the dtype of arrays. A lack of memory is one line."""
    place = chosen_device(device)
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.enable_x64(True))
        stack.enter_context(jax.default_device(place))
        stack.enter_context(jax.default_matmul_precision("tensorfloat32" if dtype == "tf32" else "highest"))
        try:
            yield jnp.float64 if dtype == "float64" else jnp.float32
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error) and "Out of memory" not in str(error):
                raise
            raise ValueError(
                f"the memory of the {place.platform} is not enough; take a smaller width, fewer rows, `sgd` with a "
                "smaller batch, a smaller `rows_at_once`, or dtype='float32'"
            ) from None


def cast(tree: Any, dtype: Any) -> Any:
    """A pytree with its floats in `dtype`; whole numbers, booleans and keys stay."""

    tree = jax.tree.map(placed, tree)
    leaves, structure = jax.tree.flatten(tree)
    others = [i for i, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.dtype != dtype]
    for i, leaf in zip(others, _in_dtype([leaves[i] for i in others], dtype) if others else (), strict=True):
        leaves[i] = leaf
    return jax.tree.unflatten(structure, leaves)


@partial(jax.jit, static_argnums=1)
def _in_dtype(leaves: list[Any], dtype: Any) -> list[Any]:
    """All in one program."""
    return [leaf.astype(dtype) for leaf in leaves]
