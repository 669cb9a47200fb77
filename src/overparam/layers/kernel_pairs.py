"""What infinitely wide layers hand on about pairs of inputs: second moments, angles and tangent kernels.

1 − ρ and 1 + ρ are kept apart, ρ the cosine between two representations: arccos of one rounded cosine
loses half the digits of near-parallel and near-opposite pairs, and the loss would grow layer by layer.
Sums (biases, neighbourhoods, skips) add inner products; how the cosine changes is written without cancellation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core.angles import gaps_of_pairs, near_parallel
from overparam.core.checks import row_norms
from overparam.core.traced import directions, gaps


def corrected(xp: ModuleType, value: Any, right: Any) -> Any:
    """`right`, which is `value` but for rounding; a namespace that differentiates takes the derivative of `value`."""
    return xp.corrected(value, right) if hasattr(xp, "corrected") else right


@dataclass(frozen=True, eq=False)
class Pairs:
    """The representations h(x), h(z) of many pairs (x, z) in a wide layer, as seen by one of its units.

    Arrays have axes (cases, *pairs, *positions) and broadcast: `cases` are the Gaussians of a mixture (several only
    between a bias drawn from one and the next ReLU). The positions of a convolutional layer come in two forms:

    - `across=False`: equal positions of x and z alone, one set of `grid` axes. Enough for everything that ends in a
      fully connected layer without pooling.
    - `across=True`: every position i of x with every position k of z, two sets of `grid` axes, those of x first;
      `xx` has length 1 along those of z, and `zz` along those of x. Pooling needs it.

    xx, zz: second moments E[h(x)²], E[h(z)²] of a unit.
    apart, together: 1 − ρ and 1 + ρ, ρ = E[h(x)h(z)] / √(xx·zz); both 1 where a second moment is 0.
    ntk: ⟨∇h(x), ∇h(z)⟩ of a unit, over the weights trained so far.
    units: how many units the layer has a position; h(x)·h(z) is `units` times the second moment.
    gaussian: whether a unit is Gaussian (in each case), as after a linear layer, so that a ReLU may follow.
    fresh: whether the last linear layer belongs to the branch of the network we are in. Then a Gaussian unit is
        uncorrelated with all that the other branches give.
    grid: how many axes positions have, 0 for none.
    shares: the probability of each case.
    own: with `across=True`, x with itself and z with itself at all pairs of positions, which say how large a pooled
        unit is; None where x and z are the same input. With it, the axes of pairs are (rows of X, rows of Z).
    angles: False where nobody asks for angles after a pooling: then `own` is left out, and what pooling gives has right second moments
        between x and z, of units of any size.
    masks: of the rows of X and of Z, which of their numbers do not count: booleans (rows, *positions, channels or 1); None
        where all do. What is masked at all channels is 0.
    same: booleans of the axes of pairs, whether x and z are one input, whose units drop out together; None where nobody asks.
    """

    xx: Any
    zz: Any
    apart: Any
    together: Any
    ntk: Any
    units: int = 1
    gaussian: bool = False
    fresh: bool = False
    grid: int = 0
    across: bool = False
    shares: tuple[float, ...] = (1.0,)
    own: tuple[Pairs, Pairs] | None = None
    masks: tuple[Any, Any] | None = None
    same: Any = None
    angles: bool = True

    def second_moment(self, xp: ModuleType) -> Any:
        """E[h(x)h(z)] of a unit."""
        return xp.sqrt(self.xx) * xp.sqrt(self.zz) * ((self.together - self.apart) / 2)

    def scaled(self, factor: float) -> Pairs:
        """Of h multiplied by √factor; the tangent kernel too."""
        return replace(self, xx=self.xx * factor, zz=self.zz * factor, ntk=self.ntk * factor)


jax.tree_util.register_dataclass(
    Pairs,
    ["xx", "zz", "apart", "together", "ntk", "own", "masks", "same"],
    ["units", "gaussian", "fresh", "grid", "across", "shares", "angles"],
)


def rows_against(X: np.ndarray, Z: np.ndarray) -> Pairs:
    """All pairs of a row of X (n, d) with a row of Z (p, d): near-parallel ones from sums and differences of rows.

    >>> rows_against(np.array([[3.0, 4.0]]), np.array([[0.0, 2.0]])).second_moment(np)
    array([[[8.]]])
    """
    size, other = row_norms(X), row_norms(Z)
    U = X / np.where(size > 0, size, 1.0)[:, None]
    V = Z / np.where(other > 0, other, 1.0)[:, None]
    rho = np.clip(U @ V.T, -1.0, 1.0)
    apart, together = 1 - rho, 1 + rho
    rows, columns = near_parallel(rho)
    apart[rows, columns], together[rows, columns] = gaps_of_pairs(U, V, rows, columns)
    return Pairs(
        np.square(size)[None, :, None],
        np.square(other)[None, None, :],
        apart[None],
        together[None],
        np.zeros((1, *rho.shape)),
    )


def traced_rows_against(X: Any, Z: Any) -> Pairs:
    """The same of JAX arrays, differentiable: rows (…, n, d) and (…, p, d), axes of pairs (…, n, p)."""
    (U, size), (V, other) = directions(X), directions(Z)
    apart, together = gaps(U, V)
    squares = jnp.square(size)[None, ..., :, None], jnp.square(other)[None, ..., None, :]
    return Pairs(*squares, apart[None], together[None], jnp.zeros_like(apart)[None])


def rows_with_themselves(X: np.ndarray) -> Pairs:
    """Every row of X (n, d) with itself."""
    squares = np.square(row_norms(X))[None]
    zero = squares == 0
    return Pairs(squares, squares, np.where(zero, 1.0, 0.0), np.where(zero, 1.0, 2.0), np.zeros(squares.shape))


def positions_against(xp: ModuleType, x: Any, z: Any, grid: int, across: bool = False) -> Pairs:
    """Pairs of inputs that broadcast, with axes of positions and a last one of channels.

    With u, v the channels over their norms, 1 ∓ ρ = ‖u ∓ v‖²/2, channel by channel.

    Args:
        x, z: (*pairs, *positions, channels), `grid` axes of positions; with `across=True` twice as many, x of length 1
            along the second half and z along the first.

    >>> x, z = np.array([[[3.0, 4.0]]]), np.array([[[0.0, 2.0]]])
    >>> positions_against(np, x, z, grid=1).second_moment(np)
    array([[[8.]]])
    """
    squares = [xp.sum(xp.square(each), axis=-1) for each in (x, z)]
    u, v = (
        each / xp.where(square > 0, xp.sqrt(square), 1.0)[..., None]
        for each, square in zip((x, z), squares, strict=True)
    )
    apart = together = 0.0
    for channel in range(u.shape[-1]):
        one, two = u[..., channel], v[..., channel]
        apart, together = apart + xp.square(one - two), together + xp.square(one + two)
    alive = (squares[0] > 0) & (squares[1] > 0)
    apart, together = (xp.where(alive, gap / 2, 1.0)[None] for gap in (apart, together))
    xx, zz = (square[None] for square in squares)
    return Pairs(xx, zz, apart, together, xp.zeros_like(apart), grid=grid, across=across)


def add(xp: ModuleType, one: Pairs, two: Pairs) -> Pairs:
    """Inner products added: h and h' side by side, or the sum of two that are uncorrelated.

    With n_i = √(xx_i zz_i), n = √(xx zz) of the sum and w_i = n_i/n, the new 1 ∓ ρ is
    (1 − w₁ − w₂) + w₁(1 ∓ ρ₁) + w₂(1 ∓ ρ₂), where 1 − w₁ − w₂ = ((√(xx₁zz₂) − √(xx₂zz₁))/n)² / (1 + w₁ + w₂).
    What else `one` says stays; `own` is its own.
    """
    xx, zz = one.xx + two.xx, one.zz + two.zz
    (x1, z1), (x2, z2) = ((xp.sqrt(each.xx), xp.sqrt(each.zz)) for each in (one, two))
    both = xp.sqrt(xx) * xp.sqrt(zz)
    safe = xp.where(both > 0, both, 1.0)
    first, second = x1 * z1 / safe, x2 * z2 / safe
    gap = xp.square((x1 * z2 - x2 * z1) / safe) / (1 + first + second)
    apart = gap + first * one.apart + second * two.apart
    together = gap + first * one.together + second * two.together
    return replace(
        one,
        xx=xx,
        zz=zz,
        apart=xp.where(both > 0, apart, 1.0),
        together=xp.where(both > 0, together, 1.0),
        ntk=one.ntk + two.ntk,
    )


def level(xp: ModuleType, pairs: Pairs, square: float, ntk: float = 0.0) -> Pairs:
    """A unit that is the same number for every input, of the given mean square: to add to `pairs`."""
    return replace(
        pairs,
        xx=xp.full_like(pairs.xx, square),
        zz=xp.full_like(pairs.zz, square),
        apart=xp.zeros_like(pairs.apart),
        together=xp.full_like(pairs.together, 2.0),
        ntk=xp.full_like(pairs.ntk, ntk),
    )


def total(xp: ModuleType, pairs: Pairs, axis: int) -> Pairs:
    """Inner products added along an axis of every array, which goes: halves are added to halves.

    >>> two = Pairs(*np.array([[[9.0, 16.0]], [[1.0, 4.0]], [[0.0, 2.0]], [[2.0, 0.0]], [[0.0, 0.0]]]))
    >>> total(np, two, axis=-1).second_moment(np)  # 3 · 1 − 4 · 2
    array([-5.])
    """
    length = pairs.xx.shape[axis]
    while length > 1:
        half = length // 2
        added = add(xp, _along(pairs, axis, 0, half), _along(pairs, axis, half, 2 * half))
        if length % 2:
            added = _joined(xp, [added, _along(pairs, axis, 2 * half, length)], axis)
        pairs, length = added, half + length % 2
    return mapped(pairs, lambda array: array.squeeze(axis))


def one_case(xp: ModuleType, pairs: Pairs) -> Pairs:
    """Second moments averaged over the cases of a mixture, which makes one case of them."""
    if len(pairs.shares) == 1:
        return pairs
    shares = xp.reshape(xp.asarray(pairs.shares), (-1,) + (1,) * (pairs.xx.ndim - 1))
    weighted = replace(pairs, xx=pairs.xx * shares, zz=pairs.zz * shares, ntk=pairs.ntk * shares)
    merged = mapped(total(xp, weighted, axis=0), lambda array: array[None])
    return replace(merged, shares=(1.0,), gaussian=False)


def cases(xp: ModuleType, several: list[Pairs], shares: tuple[float, ...]) -> Pairs:
    """A mixture of the given ones, each with its probability."""
    joined = _joined(xp, several, 0)
    return replace(joined, shares=tuple(p * q for p, each in zip(shares, several, strict=True) for q in each.shares))


def laid_out(pairs: Pairs, x: Any, z: Any) -> tuple[Any, Any]:
    """Numbers of the rows of X and of Z at their positions, (rows, *positions), as `xx` and `zz` lie, but for the cases."""
    grid, ones = pairs.grid, (None,) * pairs.grid
    lead = pairs.apart.ndim - 1 - grid * (1 + pairs.across)
    if pairs.across:
        x, z = x[(..., *ones)], z[(slice(None), *ones)]
    return (x[:, None], z[None]) if lead == 2 else (x, z)  # rows of X with rows of Z, or each with itself


def silenced(xp: ModuleType, pairs: Pairs, masks: tuple[Any, Any]) -> Pairs:
    """With those masks, and 0 where one of them covers all channels."""
    x, z = laid_out(pairs, *(xp.all(mask, axis=-1) for mask in masks))
    either = x | z
    arrays = {"apart": 1.0, "together": 1.0, "ntk": 0.0}
    out = replace(
        pairs,
        xx=xp.where(x, 0.0, pairs.xx),
        zz=xp.where(z, 0.0, pairs.zz),
        **{name: xp.where(either, value, getattr(pairs, name)) for name, value in arrays.items()},
        masks=masks,
    )
    if pairs.own is None:
        return out
    own = [silenced(xp, each, (mask, mask)) for each, mask in zip(pairs.own, masks, strict=True)]
    return replace(out, own=(own[0], own[1]))


def mapped(pairs: Pairs, change: Any) -> Pairs:
    """The same change made to every array."""
    arrays = {name: change(getattr(pairs, name)) for name in ("xx", "zz", "apart", "together", "ntk")}
    return replace(pairs, **arrays)


def _along(pairs: Pairs, axis: int, start: int, stop: int) -> Pairs:
    return mapped(pairs, lambda array: array[(slice(None),) * (axis % array.ndim) + (slice(start, stop),)])


def _joined(xp: ModuleType, several: list[Pairs], axis: int) -> Pairs:
    arrays = {
        name: xp.concatenate([getattr(each, name) for each in several], axis)
        for name in ("xx", "zz", "apart", "together", "ntk")
    }
    return replace(several[0], **arrays)
