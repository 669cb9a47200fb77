"""`Kernel`: what layers of the archived library hand on, and how the house's pairs become it and come out of it.

Covariances in `Kernel` lose digits of near-parallel inputs. So a kernel carries the pairs it was made from as long as nobody changes
its arrays or takes it through a JAX transformation; then pairs are made from its covariances. Its arrays are read from the pairs when
somebody asks for them: layers one after the other do not.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core.traced import floats, smooth
from overparam.layers import Composition, GlobalPool, Pairs
from overparam.layers.kernel_pairs import corrected, mapped, one_case
from overparam.layers.layer import Chain, zero_where
from overparam.neural_tangents.arithmetic import FEW, changed, in_numpy, known, numbers, of_jax
from overparam.neural_tangents.covariances import Covariances

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

    def __getattr__(self, name: str) -> Any:
        """A covariance that nobody has asked for yet."""
        if name in _ARRAYS and "covariances" in self.__dict__:
            return self.__dict__["covariances"].read(name)
        if name not in _ARRAYS or self.__dict__.get("pairs") is None:
            raise AttributeError(f"`Kernel` has no {name!r}")
        return _read(self, name)

    def replace(self, **changes: Any) -> Kernel:
        """A copy with other fields."""
        if set(changes) & set(_ARRAYS) or not set(changes) <= set(_FIELDS):
            return dataclasses.replace(self, **changes)
        return _like(self, changes)

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


_FIELDS = tuple(each.name for each in dataclasses.fields(Kernel))
_DATA = ("nngp", "ntk", "cov1", "cov2", "x1_is_x2", "mask1", "mask2")
jax.tree_util.register_dataclass(Kernel, _DATA, [name for name in _FIELDS if name not in _DATA])


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
    move = np.moveaxis if isinstance(x, np.ndarray) else jnp.moveaxis
    return move(x, (batch_axis % x.ndim, channel_axis % x.ndim), (0, -1))


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
    alone = x2 is None
    if alone:
        x2, mask2 = x1, mask1
    few = known(x1, x2) and _few(x1.shape, x2.shape, batch_axis, channel_axis, not diagonal_spatial)
    xp: Any = np if few else jnp
    x1, x2 = (np.asarray(x, np.float64) if few else floats(x) for x in (x1, x2))
    if mask1 is not None:
        mask1, mask2 = (np.asarray(mask) if few else mask for mask in (mask1, mask2))
    if channel_axis is None:  # the first layer flattens
        x1, x2, mask1, mask2 = (
            x if x is None else xp.moveaxis(x, batch_axis, 0).reshape(x.shape[batch_axis], -1)
            for x in (x1, x2, mask1, mask2)
        )
        batch_axis, channel_axis, diagonal_spatial = 0, 1, False
    x, z = (samples_first(each, batch_axis, channel_axis) for each in (x1, x2))
    *grid, channels = x.shape[1:]
    chain = () if diagonal_spatial or not grid else (GlobalPool(),)  # pooling needs all pairs of positions
    composition = Composition(chain, x[0].size, tuple(grid) or None, channels)
    with np.errstate(all="ignore"):
        pairs = (composition.pairs if few else composition.traced_pairs)(x, z)
    pairs = replace(pairs.scaled(1 / channels), units=channels)
    if pairs.own is not None:
        own = [replace(each.scaled(1 / channels), units=channels) for each in pairs.own]
        pairs = replace(pairs, own=(own[0], own[1]))
    masks = None
    if mask1 is not None:
        masks = tuple(samples_first(each, batch_axis, channel_axis) for each in (mask1, mask2))
    alike = x1.shape == x2.shape
    same = xp.all(x1 == x2) if alike and not alone else np.asarray(alike)
    empty = Kernel(
        None, 0.0 if compute_ntk else None, None, None if alone else 0.0, jnp.asarray(same), False, False, True, True, diagonal_spatial,
        x1.shape, x2.shape, batch_axis % x1.ndim, channel_axis % x1.ndim,
    )  # fmt: skip
    return kernel_of_pairs(empty, _known(xp, pairs, masks, _same(xp, len(x), len(z), same)))


def _few(
    shape1: tuple[int, ...], shape2: tuple[int, ...], batch_axis: int, channel_axis: int | None, across: bool
) -> bool:
    if channel_axis is None:
        return shape1[batch_axis] * shape2[batch_axis] <= FEW
    return numbers(shape1, shape2, batch_axis, channel_axis, across) <= FEW


def parted(x: Any, mask_constant: float | None) -> tuple[Any, Any]:
    """The array with 0 where it is `mask_constant`, and where that is; None where nothing is masked."""
    if isinstance(x, MaskedArray):
        return (x.masked_value, None) if x.mask is None else (zero_where(x.mask, x.masked_value), x.mask)
    if x is None or mask_constant is None or not hasattr(x, "ndim"):
        return x, None
    x = jnp.asarray(x)
    mask = (x == mask_constant) | (jnp.isnan(x) & jnp.isnan(mask_constant))
    return zero_where(mask, x), mask


def _same(xp: Any, n1: int, n2: int, x1_is_x2: Any) -> Any:
    return xp.eye(n1, n2, dtype=bool) & x1_is_x2


def _known(xp: Any, pairs: Pairs, masks: Any, same: Any) -> Pairs:
    """Pairs that know what is masked and which of them are one input."""
    if pairs.own is None:
        return replace(pairs, masks=masks, same=same)
    alone = [(mask, mask) for mask in masks] if masks else (None, None)
    own = [
        replace(each, masks=mask, same=xp.ones(each.apart.shape[1], dtype=bool))
        for each, mask in zip(pairs.own, alone, strict=True)
    ]
    return replace(pairs, masks=masks, same=same, own=(own[0], own[1]))


def kernel_of_pairs(kernel: Kernel, pairs: Pairs, **changes: Any) -> Kernel:
    """`kernel` with the covariances of `pairs`, and other fields."""
    made = _unread(kernel, changes)
    masks = (None, None) if pairs.masks is None else pairs.masks
    places = (made.batch_axis, made.channel_axis)
    mask1, mask2 = (None if mask is None else jnp.moveaxis(mask, (0, -1), places) for mask in masks)
    made.__dict__.update(
        pairs=pairs,
        wide=jnp.result_type(float) == jnp.float64,
        mask1=mask1,
        mask2=mask2,
        is_gaussian=pairs.gaussian,
        diagonal_spatial=bool(pairs.grid) and not pairs.across,
    )
    return made


def _like(kernel: Kernel, changes: dict[str, Any]) -> Kernel:
    """A copy with other fields, arrays that nobody has asked for left so."""
    made = object.__new__(Kernel)
    made.__dict__.update(kernel.__dict__, **changes)
    return made


def _unread(kernel: Kernel, changes: dict[str, Any]) -> Kernel:
    """A copy with other fields and without its arrays, but for those that are None."""
    made = _like(kernel, changes)
    for name in _ARRAYS:
        if name not in ("ntk", "cov2") or made.__dict__.get(name, 0.0) is not None:
            made.__dict__.pop(name, None)
    for name in ("pairs", "covariances", "later"):
        made.__dict__.pop(name, None)
    return made


def passed_as_covariances(kernel: Kernel, chain: Chain, change: Any, **changes: Any) -> Kernel | None:
    """After those layers, of a kernel that carries no pairs in the midst of a transformation; None where that needs angles.

    change: what makes its pairs, should another layer ask for them.
    """
    before = kernel.__dict__.get("covariances")
    if before is None:
        if kernel.__dict__.get("pairs") is not None or len(kernel.shape1 or ()) != 2 or not kernel.diagonal_batch:
            return None
        if kernel.mask1 is not None or known(kernel.nngp, kernel.cov1):
            return None
        cov2 = kernel.cov1 if kernel.cov2 is None else kernel.cov2
        before = Covariances(
            kernel.nngp,
            kernel.ntk,
            kernel.cov1[:, None],
            cov2[None],
            _same(jnp, kernel.nngp.shape[0], kernel.nngp.shape[1], kernel.x1_is_x2),
            (kernel.shape1 or ())[kernel.channel_axis],
            kernel.is_gaussian,
        )
    after = before.passed(chain)
    if after is None:
        return None
    made = _unread(kernel, changes)
    made.__dict__.update(covariances=after, later=(kernel, change), is_gaussian=after.gaussian, diagonal_spatial=False)
    return made


def _read(kernel: Kernel, name: str) -> Any:
    """A covariance from the pairs; kept where it is a number and not in the midst of a transformation."""
    pairs, (n1, n2) = kernel.__dict__["pairs"], _batches(kernel)
    quick = in_numpy(pairs)
    with np.errstate(all="ignore"):
        found = _covariance(np if quick else smooth, pairs, name, n1, n2)
    if quick:
        found = of_jax(found, kernel.__dict__["wide"])
    if known(found):
        kernel.__dict__[name] = found
    return found


def _batches(kernel: Kernel) -> tuple[int, int]:
    shape1, shape2 = kernel.shape1 or (), kernel.shape2 or ()
    return shape1[kernel.batch_axis], shape2[kernel.batch_axis]


def _covariance(xp: Any, pairs: Pairs, name: str, n1: int, n2: int) -> Any:
    """One of the arrays of a `Kernel`."""
    merged = one_case(xp, pairs)
    positions = (
        merged.apart.shape[merged.apart.ndim - merged.grid * (2 if merged.across else 1) :] if merged.grid else ()
    )

    def between(array: Any, lead: tuple[int, ...]) -> Any:
        full = xp.broadcast_to(array, (*lead, *positions))
        return _interleaved(full, merged.grid) if merged.across else full

    if name == "nngp":
        return between(merged.second_moment(xp)[0], (n1, n2))
    if name == "ntk":
        return between(merged.ntk[0], (n1, n2))
    place = int(name == "cov2")
    if merged.own is not None:
        return between(one_case(xp, merged.own[place]).second_moment(xp)[0], ((n1, n2)[place],))
    squares = merged.zz[0, 0] if place else merged.xx[0, :, 0]
    return between(squares, ((n1, n2)[place],))


def pairs_of_kernel(kernel: Kernel) -> Pairs:
    """The pairs it carries, or those of its covariances."""
    carried = kernel.__dict__.get("pairs")
    if carried is not None:
        return carried
    if "later" in kernel.__dict__:
        before, change = kernel.__dict__["later"]
        return changed(change, pairs_of_kernel(before))
    arrays = [each for each in (kernel.nngp, kernel.ntk, kernel.cov1, kernel.cov2) if each is not None]
    if not known(*arrays, jnp.asarray(kernel.x1_is_x2)) or kernel.nngp.size > FEW:
        return _pairs_of_covariances(smooth, kernel)
    few = jax.tree.map(lambda each: np.asarray(each, None if each.dtype == bool else np.float64), kernel)
    with np.errstate(all="ignore"):
        return _pairs_of_covariances(np, few)


def _pairs_of_covariances(xp: Any, kernel: Kernel) -> Pairs:
    cov1, cov2 = kernel.cov1, kernel.cov1 if kernel.cov2 is None else kernel.cov2
    if not kernel.diagonal_batch:
        cov1, cov2 = (xp.moveaxis(xp.diagonal(each, axis1=0, axis2=1), -1, 0) for each in (cov1, cov2))
    masks = None
    if kernel.mask1 is not None:
        both = kernel.mask1, kernel.mask1 if kernel.mask2 is None else kernel.mask2
        masks = tuple(samples_first(mask, kernel.batch_axis, kernel.channel_axis) for mask in both)
    shape = kernel.shape1 or ()
    grid, units = len(shape) - 2, shape[kernel.channel_axis]
    across = grid > 0 and not kernel.diagonal_spatial

    def of(array: Any) -> Any:
        return _parted(array, grid)[None] if across else array[None]

    def pairs(moment: Any, ntk: Any, xx: Any, zz: Any, equal: Any) -> Pairs:
        size = xp.sqrt(xx) * xp.sqrt(zz)
        rho = moment / xp.where(size > 0, size, 1)
        rho = xp.where(size > 0, corrected(xp, rho, xp.clip(rho, -1, 1)), 0)
        apart, together = xp.where(equal, 0, 1 - rho), xp.where(equal, 2, 1 + rho)
        gaussian = kernel.is_gaussian
        return Pairs(xx, zz, apart, together, ntk, units, gaussian, gaussian, grid, across)

    moment = of(kernel.nngp)
    ntk = xp.zeros_like(moment) if kernel.ntk is None else xp.broadcast_to(of(kernel.ntk), moment.shape)
    n1, n2 = moment.shape[1:3]
    same = _same(xp, n1, n2, kernel.x1_is_x2)
    same_sample = same.reshape(1, n1, n2, *(1,) * (moment.ndim - 3))
    if not across:
        return _known(xp, pairs(moment, ntk, of(cov1)[:, :, None], of(cov2)[:, None], same_sample), masks, same)
    own = [of(cov1), of(cov2)]
    positions = moment.shape[3 : 3 + grid]
    ones, same_position = (1,) * grid, xp.eye(_size(positions), dtype=bool).reshape(*positions, *positions)
    letters = "ijklm"[:grid]
    squares = [xp.einsum(f"...{letters}{letters}->...{letters}", o) for o in own]
    of_x = squares[0].reshape(*squares[0].shape, *ones)
    of_z = squares[1].reshape(*squares[1].shape[:2], *ones, *positions)
    both = [
        pairs(
            o, xp.zeros_like(o), s.reshape(*s.shape, *ones), s.reshape(*s.shape[:2], *ones, *positions), same_position
        )
        for o, s in zip(own, squares, strict=True)
    ]
    across_pairs = pairs(moment, ntk, of_x[:, :, None], of_z[:, None], same_sample & same_position)
    return _known(xp, replace(across_pairs, own=(both[0], both[1])), masks, same)


def independent(kernel: Kernel) -> Kernel:
    """As a branch of its own sees it: no linear layer belongs to it yet."""
    return _like(
        kernel, {"pairs": replace(pairs_of_kernel(kernel), fresh=False), "wide": jnp.result_type(float) == jnp.float64}
    )


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
