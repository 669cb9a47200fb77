"""`batch`: a kernel function by blocks of inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core import checks
from overparam.neural_tangents.arithmetic import known
from overparam.neural_tangents.kernel import Kernel

SEVERAL_DEVICES = "leave it out for one device, or share rows out by `op.gram(kernel, X, device='all')`"
"""What to write in place of pmap."""


def batch(
    kernel_fn: Callable[..., Any], batch_size: int, device_count: int = -1, store_on_device: bool = True
) -> Callable[..., Any]:
    """The same function, made block by block of at most `batch_size` inputs a side, so that memory is that of one block.

    Args:
        kernel_fn: kernel_fn(x1, x2, get, …), of arrays or one `Kernel`.
        batch_size: inputs a block; the last may be smaller. 0 makes all at once.
        device_count: −1, 0 or 1, all alike: blocks are made one after the other. More, which pmap shared out, is refused.
        store_on_device: False keeps finished blocks in the host's memory.
    """
    checks.require_count(batch_size, "batch_size", least=0)
    if device_count > 1:
        raise NotImplementedError(f"`device_count={device_count}` is not offered; {SEVERAL_DEVICES}")
    if batch_size == 0:
        return kernel_fn

    def batched(x1_or_kernel: Any, x2: Any = None, *args: Any, **options: Any) -> Any:
        leaves = jax.tree.leaves(x1_or_kernel, is_leaf=_is_kernel)
        of_kernels = _is_kernel(leaves[0])
        same = not jax.tree.leaves(x2)
        if of_kernels:
            rows, columns = leaves[0].nngp.shape[:2]
        else:
            x2 = x1_or_kernel if same else jax.tree.map(_first_of, x2, x1_or_kernel, is_leaf=_is_none)
            rows, columns = len(leaves[0]), len(jax.tree.leaves(x2)[0])

        def block(r: slice, c: slice) -> Any:
            if of_kernels:
                sliced = jax.tree.map(lambda kernel: kernel.slice(r, c), x1_or_kernel, is_leaf=_is_kernel)
                made = kernel_fn(sliced, *args, **options)
            else:
                x, z = (jax.tree.map(lambda a, s=s: _rows(a, s), each) for each, s in ((x1_or_kernel, r), (x2, c)))
                made = kernel_fn(x, None if same and r == c else z, *args, **options)
            return made if store_on_device else jax.device_get(made)

        if max(rows, columns) <= batch_size:
            given = () if of_kernels else (None if same else x2,)
            made = kernel_fn(x1_or_kernel, *given, *args, **options)
            return made if store_on_device else jax.device_get(made)
        blocks = [[block(r, c) for c in _cut(columns, batch_size)] for r in _cut(rows, batch_size)]
        if of_kernels:
            return _together(blocks, leaves[0].x1_is_x2, leaves[0].cov2 is None)
        return _together(blocks, same, same)

    return batched


def _is_kernel(value: Any) -> bool:
    return isinstance(value, Kernel)


def _is_none(value: Any) -> bool:
    return value is None


def _first_of(value: Any, other: Any) -> Any:
    return other if value is None else value


def _near(array: Any) -> bool:
    """Whether it is known and in the memory of the host, where NumPy cuts and joins without compiling."""
    return known(array) and isinstance(array, jax.Array) and {each.platform for each in array.devices()} == {"cpu"}


def _rows(array: Any, rows: slice) -> Any:
    return jnp.asarray(np.asarray(array)[rows]) if _near(array) else array[rows]


def _cut(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _together(blocks: list[list[Any]], same: Any, one_batch: bool) -> Any:
    """The whole from its blocks: arrays, named tuples or kernels."""
    first = blocks[0][0]
    if isinstance(first, Kernel):

        def by_name(name: str) -> Any:
            return [[getattr(block, name) for block in row] for row in blocks]

        rows = [row[0].cov1 for row in blocks]
        cov2 = None if one_batch else _joined([b.cov1 if b.cov2 is None else b.cov2 for b in blocks[0]])
        nngp = _matrix(by_name("nngp"))
        sizes = nngp.shape[:2]
        shapes = [
            None if shape is None else (*shape[: first.batch_axis], size, *shape[first.batch_axis + 1 :])
            for shape, size in zip((first.shape1, first.shape2), sizes, strict=True)
        ]
        ntk = None if first.ntk is None else _matrix(by_name("ntk"))
        return first.replace(
            nngp=nngp,
            ntk=ntk,
            cov1=_joined(rows),
            cov2=cov2,
            x1_is_x2=jnp.asarray(same),
            shape1=shapes[0],
            shape2=shapes[1],
        )
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        parts = {}
        for name in first._fields:  # pyright: ignore[reportAttributeAccessIssue]
            several = [[getattr(block, name) for block in row] for row in blocks]
            if name in ("nngp", "ntk"):
                parts[name] = _matrix(several)
            elif name in ("cov1", "cov2"):
                ones = [row[0] for row in several] if name == "cov1" else several[0]
                parts[name] = None if ones[0] is None or (name == "cov2" and one_batch) else _joined(ones)
            else:
                parts[name] = several[0][0]
        return type(first)(**parts)
    if isinstance(first, list | tuple):
        return type(first)(
            _together([[block[i] for block in row] for row in blocks], same, one_batch) for i in range(len(first))
        )
    if isinstance(first, dict):
        return {name: _together([[block[name] for block in row] for row in blocks], same, one_batch) for name in first}
    return _matrix(blocks)


def _matrix(blocks: list[list[Any]]) -> Any:
    return _joined([_joined(row, axis=1) for row in blocks])


def _joined(parts: list[Any], axis: int = 0) -> Any:
    """Where the parts are: on the device, or in the host's memory."""
    if all(map(_near, parts)):
        return jnp.asarray(np.concatenate([np.asarray(part) for part in parts], axis=axis))
    return (np if isinstance(parts[0], np.ndarray) else jnp).concatenate(parts, axis=axis)
