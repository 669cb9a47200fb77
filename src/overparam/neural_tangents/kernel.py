"""`Kernel`: what layers of the archived library hand on, and how the house's pairs become it and come out of it.

Covariances in `Kernel` lose digits of near-parallel inputs. So a kernel carries the pairs it was made from as long as nobody changes
its arrays or takes it through a JAX transformation; then pairs are made from its covariances.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp

from overparam.core.traced import floats, smooth
from overparam.layers import Composition, GlobalPool, Pairs
from overparam.layers.kernel_pairs import corrected, mapped, one_case
from overparam.layers.layer import zero_where

_ARRAYS = ("nngp", "ntk", "cov1", "cov2")


def _static(**options: Any) -> Any:
    return field(metadata={"pytree_node": False}, **options)


@dataclass(frozen=True, eq=False)
class Kernel:
    """Covariances of the units of a layer for a batch x1 and a batch x2, as the archived library names them; a pytree.

    nngp, ntk: between x1 and x2, (n1, n2) and then, of every axis of positions, one axis (`diagonal_spatial`) or two, of x1 and of x2.
    cov1, cov2: of each input with itself; cov2 is None where x2 is x1.
    """

    nngp: Any
    ntk: Any
    cov1: Any
    cov2: Any
    x1_is_x2: Any
    is_gaussian: bool = _static()
    is_reversed: bool = _static()
    is_input: bool = _static()
    diagonal_batch: bool = _static()
    diagonal_spatial: bool = _static()
    shape1: tuple[int, ...] | None = _static()
    shape2: tuple[int, ...] | None = _static()
    batch_axis: int = _static()
    channel_axis: int = _static()
    mask1: Any = None
    mask2: Any = None

    def replace(self, **changes: Any) -> Kernel:
        """A copy with other fields."""
        new = dataclasses.replace(self, **changes)
        return new if set(changes) & set(_ARRAYS) else _carrying(new, self.__dict__.get("pairs"))

    def asdict(self) -> dict[str, Any]:
        """Fields by name."""
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}

    def astuple(self) -> tuple[Any, ...]:
        """Fields in their order."""
        return tuple(self.asdict().values())

    def slice(self, n1_slice: slice, n2_slice: slice) -> Kernel:
        """Some inputs of x1 against some of x2."""
        cov1 = self.cov1[n1_slice]
        cov2 = (self.cov1 if self.cov2 is None else self.cov2)[n2_slice]
        return self.replace(
            nngp=self.nngp[n1_slice, n2_slice],
            ntk=None if self.ntk is None else self.ntk[n1_slice, n2_slice],
            cov1=cov1,
            cov2=cov2,
            mask1=_rows(self.mask1, self.batch_axis, n1_slice),
            mask2=_rows(self.mask2, self.batch_axis, n2_slice),
            x1_is_x2=self.x1_is_x2 if n1_slice == n2_slice else jnp.array(False),
            shape1=with_batch(self.shape1, self.batch_axis, len(cov1)),
            shape2=with_batch(self.shape2, self.batch_axis, len(cov2)),
        )

    def __mul__(self, other: float) -> Kernel:
        """Of units times a number."""
        return self._each(lambda array: other**2 * array)

    __rmul__ = __mul__

    def __truediv__(self, other: float) -> Kernel:
        """Of units over a number."""
        return self * (1 / other)

    def __add__(self, other: float) -> Kernel:
        """Of centred units plus a number; the tangent kernel stays."""
        return self._each(lambda array: array + other**2).replace(ntk=self.ntk)

    __sub__ = __add__

    def __neg__(self) -> Kernel:
        return self

    def _each(self, change: Any) -> Kernel:
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        return self.replace(**{name: None if array is None else change(array) for name, array in arrays.items()})


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class MaskedArray:
    """An array of which some numbers count for nothing, and which these are; what `apply_fn` gives where there is a `mask_constant`."""

    masked_value: Any
    mask: Any


_DATA = ("nngp", "ntk", "cov1", "cov2", "x1_is_x2", "mask1", "mask2")
jax.tree_util.register_dataclass(
    Kernel, _DATA, [each.name for each in dataclasses.fields(Kernel) if each.name not in _DATA]
)


def _rows(mask: Any, axis: int, rows: slice) -> Any:
    return None if mask is None else mask[(slice(None),) * axis + (rows,)]


def with_batch(shape: tuple[int, ...] | None, axis: int, size: int) -> tuple[int, ...] | None:
    """The shape with another number of samples."""
    return None if shape is None else (*shape[:axis], size, *shape[axis + 1 :])


def sample_shape(shape: tuple[int, ...], batch_axis: int, channel_axis: int) -> tuple[int, ...]:
    """Of one sample, channels last."""
    batch, channel = batch_axis % len(shape), channel_axis % len(shape)
    return (*(size for axis, size in enumerate(shape) if axis not in (batch, channel)), shape[channel])


def samples_first(x: Any, batch_axis: int, channel_axis: int) -> Any:
    """(samples, *positions, channels)."""
    return jnp.moveaxis(x, (batch_axis % x.ndim, channel_axis % x.ndim), (0, -1))


def kernel_of_inputs(
    x1: Any,
    x2: Any,
    *,
    batch_axis: int,
    channel_axis: int | None,
    diagonal_spatial: bool,
    compute_ntk: bool,
    mask_constant: float | None = None,
) -> Kernel:
    """Of inputs, which are the first layer's units: products of channels over their number."""
    (x1, mask1), (x2, mask2) = (parted(x, mask_constant) for x in (x1, x2))
    for name, x in (("x1", x1), ("x2", x2)):
        if x is not None and (not hasattr(x, "ndim") or x.ndim < 2):
            raise ValueError(
                f"`{name}` is {getattr(x, 'shape', x)!r}; expected an array with an axis of samples and one of channels"
            )
    if channel_axis is None:  # the first layer flattens
        x1, x2, mask1, mask2 = (
            x if x is None else jnp.moveaxis(x, batch_axis, 0).reshape(x.shape[batch_axis], -1)
            for x in (x1, x2, mask1, mask2)
        )
        batch_axis, channel_axis, diagonal_spatial = 0, 1, False
    x1, x2 = floats(x1), None if x2 is None else floats(x2)
    x, z = (samples_first(each, batch_axis, channel_axis) for each in (x1, x1 if x2 is None else x2))
    *grid, channels = x.shape[1:]
    chain = () if diagonal_spatial or not grid else (GlobalPool(),)  # pooling needs all pairs of positions
    pairs = Composition(chain, x[0].size, tuple(grid) or None, channels).traced_pairs(x, z)
    pairs = replace(pairs.scaled(1 / channels), units=channels)
    if pairs.own is not None:
        own = [replace(each.scaled(1 / channels), units=channels) for each in pairs.own]
        pairs = replace(pairs, own=(own[0], own[1]))
    masks = None
    if mask1 is not None:
        masks = tuple(samples_first(each, batch_axis, channel_axis) for each in (mask1, mask1 if x2 is None else mask2))
    alike = x2 is None or x1.shape == x2.shape
    same = jnp.all(x1 == x2) if alike and x2 is not None else jnp.array(alike)
    empty = Kernel(
        None, 0.0 if compute_ntk else None, None, None if x2 is None else 0.0, same, False, False, True, True, diagonal_spatial,
        x1.shape, (x1 if x2 is None else x2).shape, batch_axis % x1.ndim, channel_axis % x1.ndim,
    )  # fmt: skip
    return kernel_of_pairs(empty, _known(pairs, masks, _same(len(x), len(z), same)))


def parted(x: Any, mask_constant: float | None) -> tuple[Any, Any]:
    """The array with 0 where it is `mask_constant`, and where that is; None where nothing is masked."""
    if isinstance(x, MaskedArray):
        return (x.masked_value, None) if x.mask is None else (zero_where(x.mask, x.masked_value), x.mask)
    if x is None or mask_constant is None or not hasattr(x, "ndim"):
        return x, None
    x = jnp.asarray(x)
    mask = (x == mask_constant) | (jnp.isnan(x) & jnp.isnan(mask_constant))
    return zero_where(mask, x), mask


def _same(n1: int, n2: int, x1_is_x2: Any) -> Any:
    return jnp.eye(n1, n2, dtype=bool) & x1_is_x2


def _known(pairs: Pairs, masks: Any, same: Any) -> Pairs:
    """Pairs that know what is masked and which of them are one input."""
    if pairs.own is None:
        return replace(pairs, masks=masks, same=same)
    alone = [(mask, mask) for mask in masks] if masks else (None, None)
    own = [
        replace(each, masks=mask, same=jnp.ones(each.apart.shape[1], dtype=bool))
        for each, mask in zip(pairs.own, alone, strict=True)
    ]
    return replace(pairs, masks=masks, same=same, own=(own[0], own[1]))


def kernel_of_pairs(kernel: Kernel, pairs: Pairs, **changes: Any) -> Kernel:
    """`kernel` with the covariances of `pairs`, and other fields."""
    made = dataclasses.replace(kernel, **changes)
    merged = one_case(smooth, pairs)
    n1, n2 = made.shape1[made.batch_axis], made.shape2[made.batch_axis]  # pyright: ignore[reportOptionalSubscript]
    positions = (
        merged.apart.shape[merged.apart.ndim - merged.grid * (2 if merged.across else 1) :] if merged.grid else ()
    )

    def between(array: Any, lead: tuple[int, ...]) -> Any:
        full = jnp.broadcast_to(array, (*lead, *positions))
        return _interleaved(full, merged.grid) if merged.across else full

    def own(place: int) -> Any:
        if merged.own is not None:
            return between(one_case(smooth, merged.own[place]).second_moment(smooth)[0], ((n1, n2)[place],))
        squares = merged.xx[0, :, 0] if place == 0 else merged.zz[0, 0]
        return between(squares, ((n1, n2)[place],))

    masks = (None, None) if pairs.masks is None else pairs.masks
    places = (made.batch_axis, made.channel_axis)
    made = dataclasses.replace(
        made,
        mask1=None if masks[0] is None else jnp.moveaxis(masks[0], (0, -1), places),
        mask2=None if masks[1] is None else jnp.moveaxis(masks[1], (0, -1), places),
        nngp=between(merged.second_moment(smooth)[0], (n1, n2)),
        ntk=None if kernel.ntk is None else between(merged.ntk[0], (n1, n2)),
        cov1=own(0),
        cov2=None if kernel.cov2 is None else own(1),
        is_gaussian=pairs.gaussian,
        diagonal_spatial=bool(pairs.grid) and not pairs.across,
    )
    return _carrying(made, pairs)


def pairs_of_kernel(kernel: Kernel) -> Pairs:
    """The pairs it carries, or those of its covariances."""
    carried = kernel.__dict__.get("pairs")
    if carried is not None:
        return carried
    if not kernel.diagonal_batch:
        diagonal = {
            name: None if array is None else jnp.moveaxis(jnp.diagonal(array, axis1=0, axis2=1), -1, 0)
            for name, array in (("cov1", kernel.cov1), ("cov2", kernel.cov2))
        }
        return pairs_of_kernel(dataclasses.replace(kernel, diagonal_batch=True, **diagonal))
    masks = None
    if kernel.mask1 is not None:
        both = kernel.mask1, kernel.mask1 if kernel.mask2 is None else kernel.mask2
        masks = tuple(samples_first(mask, kernel.batch_axis, kernel.channel_axis) for mask in both)
    shape = kernel.shape1 or ()
    grid, units = len(shape) - 2, shape[kernel.channel_axis]
    across = grid > 0 and not kernel.diagonal_spatial
    cov2 = kernel.cov1 if kernel.cov2 is None else kernel.cov2

    def of(array: Any) -> Any:
        return _parted(array, grid)[None] if across else array[None]

    def pairs(moment: Any, ntk: Any, xx: Any, zz: Any, equal: Any) -> Pairs:
        size = smooth.sqrt(xx) * smooth.sqrt(zz)
        rho = moment / jnp.where(size > 0, size, 1)
        rho = jnp.where(size > 0, corrected(smooth, rho, jnp.clip(rho, -1, 1)), 0)
        apart, together = jnp.where(equal, 0, 1 - rho), jnp.where(equal, 2, 1 + rho)
        gaussian = kernel.is_gaussian
        return Pairs(xx, zz, apart, together, ntk, units, gaussian, gaussian, grid, across)

    moment = of(kernel.nngp)
    ntk = jnp.zeros_like(moment) if kernel.ntk is None else jnp.broadcast_to(of(kernel.ntk), moment.shape)
    n1, n2 = moment.shape[1:3]
    same = _same(n1, n2, kernel.x1_is_x2)
    same_sample = same.reshape(1, n1, n2, *(1,) * (moment.ndim - 3))
    if not across:
        return _known(pairs(moment, ntk, of(kernel.cov1)[:, :, None], of(cov2)[:, None], same_sample), masks, same)
    own = [of(kernel.cov1), of(cov2)]
    positions = moment.shape[3 : 3 + grid]
    ones, same_position = (1,) * grid, jnp.eye(_size(positions), dtype=bool).reshape(*positions, *positions)
    letters = "ijklm"[:grid]
    squares = [jnp.einsum(f"...{letters}{letters}->...{letters}", o) for o in own]
    of_x = squares[0].reshape(*squares[0].shape, *ones)
    of_z = squares[1].reshape(*squares[1].shape[:2], *ones, *positions)
    both = [
        pairs(
            o, jnp.zeros_like(o), s.reshape(*s.shape, *ones), s.reshape(*s.shape[:2], *ones, *positions), same_position
        )
        for o, s in zip(own, squares, strict=True)
    ]
    across_pairs = pairs(moment, ntk, of_x[:, :, None], of_z[:, None], same_sample & same_position)
    return _known(replace(across_pairs, own=(both[0], both[1])), masks, same)


def independent(kernel: Kernel) -> Kernel:
    """As a branch of its own sees it: no linear layer belongs to it yet."""
    return _carrying(dataclasses.replace(kernel), replace(pairs_of_kernel(kernel), fresh=False))


def transposed(pairs: Pairs, order: tuple[int, ...]) -> Pairs:
    """Axes of positions in another order."""
    grid = pairs.grid

    def of(array: Any) -> Any:
        lead = array.ndim - grid * (2 if pairs.across else 1)
        halves = [lead + place for place in order] + ([lead + grid + place for place in order] if pairs.across else [])
        return array.transpose(*range(lead), *halves)

    own = None if pairs.own is None else (transposed(pairs.own[0], order), transposed(pairs.own[1], order))
    masks = pairs.masks
    if masks is not None:
        masks = tuple(mask.transpose(0, *(1 + place for place in order), mask.ndim - 1) for mask in masks)
    return replace(mapped(pairs, of), own=own, masks=masks)


def _carrying(kernel: Kernel, pairs: Pairs | None) -> Kernel:
    kernel.__dict__["pairs"] = pairs
    return kernel


def _interleaved(array: Any, grid: int) -> Any:
    lead = array.ndim - 2 * grid
    order = [axis for place in range(grid) for axis in (lead + place, lead + grid + place)]
    return array.transpose(*range(lead), *order)


def _parted(array: Any, grid: int) -> Any:
    lead = array.ndim - 2 * grid
    return array.transpose(*range(lead), *range(lead, array.ndim, 2), *range(lead + 1, array.ndim, 2))


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for each in shape:
        size *= each
    return size
