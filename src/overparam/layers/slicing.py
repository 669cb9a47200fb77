"""Some positions of a sample, as NumPy indexes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, final

from overparam.layers.kernel_pairs import Pairs, mapped
from overparam.layers.layer import AbstractLayer, ReluRecorder, Shape
from overparam.layers.windows import grid_of


@final
@dataclass(frozen=True)
class Slice(AbstractLayer):
    """h[…] along the first axes of positions: a slice keeps an axis, a number removes it. Kernel: the pairs of those positions.

    Args:
        index: slices, as such or as (start, stop, step), and whole numbers; axes of positions without one stay.

    >>> import jax.numpy as jnp
    >>> Slice((slice(1, None), -1)).apply({}, jnp.arange(6.0).reshape(1, 3, 2, 1), None)[0].tolist()
    [[3.0], [5.0]]
    """

    index: tuple[Any, ...]

    def __post_init__(self) -> None:
        parts = []
        for part in self.index if isinstance(self.index, tuple | list) else (self.index,):
            if isinstance(part, slice):
                part = (part.start, part.stop, part.step)  # a slice has no hash before Python 3.12
            known = isinstance(part, int) or (isinstance(part, tuple | list) and len(part) == 3)
            if not known or isinstance(part, bool):
                raise ValueError(f"`index` has {part!r}; expected slices and whole numbers, one an axis of positions")
            parts.append(tuple(part) if isinstance(part, list) else part)
        object.__setattr__(self, "index", tuple(parts))

    def output(self, shape: Shape) -> Shape:
        """The positions that stay, and all channels."""
        grid = grid_of(shape, "a slice")
        if len(self.index) > len(grid):
            raise ValueError(
                f"`index` has {len(self.index)} axes and the positions {len(grid)}; channels cannot be chosen"
            )
        out = []
        for part, length in zip(self._parts(len(grid)), grid, strict=True):
            if isinstance(part, int):
                if not -length <= part < length:
                    raise ValueError(f"`index` has position {part} and the axis has {length}")
            else:
                out.append(len(range(*part.indices(length))))
        if 0 in out:
            raise ValueError(f"`index` {self.index} leaves no position of {grid}")
        return (*out, shape[-1])

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """Of every sample."""
        return x[(slice(None), *self._parts(x.ndim - 2))]

    def masked(self, xp: ModuleType, mask: Any, shape: Shape) -> Any:
        """Of every mask."""
        return mask[(slice(None), *self._parts(mask.ndim - 2))]

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The same positions of x and of z."""
        self.output((*pairs.apart.shape[pairs.apart.ndim - pairs.grid :], 1))
        parts = self._parts(pairs.grid)
        whole = [0 if isinstance(part, int) else slice(None) for part in parts]
        lead, grid = (..., *parts), sum(isinstance(part, slice) for part in parts)
        if not pairs.across:
            return replace(mapped(pairs, lambda array: array[lead]), grid=grid)
        arrays = {name: getattr(pairs, name)[(..., *parts, *parts)] for name in ("apart", "together", "ntk")}
        xx, zz = pairs.xx[(..., *parts, *whole)], pairs.zz[(..., *whole, *parts)]
        out = replace(pairs, xx=xx, zz=zz, **arrays, grid=grid)
        return out if grid else replace(out, across=False, own=None)

    def _parts(self, grid: int) -> list[Any]:
        parts = [part if isinstance(part, int) else slice(*part) for part in self.index]
        return parts + [slice(None)] * (grid - len(parts))
