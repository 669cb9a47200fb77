"""Self-attention over all positions of a sample, as of Hron et al. (2020), and the embeddings that tell positions apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from types import ModuleType
from typing import Any, Literal, final, get_args

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core.checks import require_count
from overparam.layers.distributions import Normal
from overparam.layers.kernel_pairs import Pairs, add, corrected, mapped, one_case, silenced
from overparam.layers.layer import AbstractLayer, ReluRecorder, Shape, Weight
from overparam.layers.pooling import of_moments
from overparam.layers.windows import grid_lengths, grid_of

Mechanism = Literal["softmax", "identity", "abs", "relu"]
"""What becomes of the products of keys and queries: the share of each position, or a function of each."""

_FAR = -1e20
"""Below it a softmax has nothing, and is still a number where all positions are masked."""


@final
@dataclass(frozen=True)
class SelfAttention(AbstractLayer):
    """g_i = (s/√(H d_v C)) Σ_h Σ_a ζ(G^h)_{ia} h_a V^h O^h, heads h = 1, …, H, with G^h_{ia} = (t/C) (h_i Q^h)·(h_a K^h)/d_k^κ.

    All weights are N(0, 1), t = W_query_std · W_key_std, s = W_value_std · W_out_std, C channels come in, and d_k, d_v are `keys`, `values`.

    - `scaling="linear"`: κ = 1 and Q^h = K^h. As d_k grows, G becomes the number t E[h_i h_a]. Kernel, in the limit of many heads: with
      Z(x) = ζ(tΣ(x, x)), Σ the covariance of positions, covariances are s² Z(x) Σ(x, z) Z(z)ᵀ and tangent kernels
      s² Z(x) Θ(x, z) Z(z)ᵀ and twice the covariance.
    - `scaling="root"`: κ = ½ and Q, K apart. A kernel is known for ζ the identity: with c = Σ_ab Σ_ab², covariances are s²t² c Σ_ik and
      tangent kernels s²t² (cΘ_ik + 2 (Σ_ab Σ_ab Θ_ab) Σ_ik + 4cΣ_ik).

    Embeddings E of positions, W_position_std times N(0, 1) with the covariance R_ik, trained too, are added to h or stand beside its
    channels where keys and queries are made: Σ is then Σ + W_position_std² R, or the mean of both by channels. R is the identity,
    or `decay` of the distance Σ_axes |i − k|^`norm`. A position that is masked gives nothing and has no embedding.

    Args:
        name: of its weights, "name.Q", "name.K", "name.V", "name.O" and "name.E".
        units: channels that go out.
        keys, values: channels of keys and queries, of values, a head.
        heads: how many.
        scaling, mechanism: as above; ζ is a softmax over a, the identity, the absolute value or the ReLU.
        position: "none", "sum" or "concatenate".
        position_channels: of embeddings that stand beside; None for as many as come in.
        position_in_values: whether values have embeddings as well.
        decay: a function of arrays; None for R the identity.
        norm: of the distance.
        W_key_std, W_query_std, W_value_std, W_out_std, W_position_std: standard deviations.
        channels: C; None for the units of the layer before, which inputs have none of.

    One position attends to itself alone: the softmax is 1 and what remains is linear.

    >>> from overparam.layers.kernel_pairs import positions_against
    >>> x = np.ones((1, 1, 1, 1))  # a pair, one position of x, one of z, one channel
    >>> pairs = positions_against(np, x, 2 * x, grid=1, across=True)
    >>> SelfAttention("a", 1, 1, 1, 1, W_value_std=3.0).kernel(np, pairs).second_moment(np).ravel()
    array([18.])
    """

    name: str
    units: int
    keys: int
    values: int
    heads: int
    scaling: Literal["linear", "root"] = "linear"
    mechanism: Mechanism = "softmax"
    position: Literal["none", "sum", "concatenate"] = "none"
    position_channels: int | None = None
    position_in_values: bool = False
    decay: Callable[[Any], Any] | None = None
    norm: float = 2.0
    W_key_std: float = 1.0
    W_query_std: float = 1.0
    W_value_std: float = 1.0
    W_out_std: float = 1.0
    W_position_std: float = 1.0
    channels: int | None = None

    def __post_init__(self) -> None:
        for name in ("units", "keys", "values", "heads"):
            require_count(getattr(self, name), name)
        for name, of in (
            ("scaling", ("linear", "root")),
            ("mechanism", get_args(Mechanism)),
            ("position", ("none", "sum", "concatenate")),
        ):
            if getattr(self, name) not in of:
                raise ValueError(f"`{name}` is {getattr(self, name)!r}; expected {', '.join(map(repr, of))}")

    @property
    def pools(self) -> bool:
        """Positions gather from all others."""
        return True

    def output(self, shape: Shape) -> Shape:
        """As many positions."""
        return (*grid_of(shape, f"the layer `{self.name}`"), self.units)

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """Matrices of every head, (heads, inputs, outputs); O has the heads of a value next to each other."""
        channels, embedded = shape[-1], self._embedding(shape[-1])
        joined = self.position == "concatenate"
        wide = channels + embedded * joined
        whose: dict[str, Shape] = {"Q": (self.heads, wide, self.keys)} if self.scaling == "root" else {}
        whose["K"] = (self.heads, wide, self.keys)
        whose["V"] = (self.heads, wide if self.position_in_values else channels, self.values)
        whose["O"] = (self.values * self.heads, self.units)
        if self.position != "none":
            whose["E"] = (*shape[:-1], embedded)
        return tuple(Weight(f"{self.name}.{key}", size, Normal(1.0), trained=True) for key, size in whose.items())

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """Head by head, in one product each."""
        return self._gathered(weights, x, None, recorder)

    def masked(self, xp: ModuleType, mask: Any, shape: Shape) -> Any:
        """Where all channels are."""
        return xp.all(mask, axis=-1, keepdims=True)

    def apply_masked(
        self, weights: Mapping[str, Any], x: Any, mask: Any, recorder: ReluRecorder | None
    ) -> tuple[Any, Any]:
        """Nothing is gathered from masked positions."""
        mask = self.masked(jnp, mask, x.shape[1:])
        return self._gathered(weights, x, mask, recorder), mask

    def _gathered(self, weights: Mapping[str, Any], x: Any, mask: Any, recorder: ReluRecorder | None) -> Any:
        if recorder is not None:
            recorder.note("product", "attention")
        grid = x.shape[1:-1]
        seen, valued = self._with_embedding(weights, x, mask), x
        if self.position_in_values:
            valued = seen
        seen, valued = (each.reshape(len(x), -1, each.shape[-1]) for each in (seen, valued))
        keys, values = (
            jnp.einsum("nac,hcd->hnad", each, weights[f"{self.name}.{key}"])
            for each, key in ((seen, "K"), (valued, "V"))
        )
        queries = keys if self.scaling == "linear" else jnp.einsum("nac,hcd->hnad", seen, weights[f"{self.name}.Q"])
        power = 1.0 if self.scaling == "linear" else 0.5
        G = jnp.einsum("hnid,hnad->hnia", queries, keys) * (
            self.W_query_std * self.W_key_std / (seen.shape[-1] * self.keys**power)
        )
        heads = jnp.einsum(
            "hnia,hnad->nidh", self._shares(jnp, G, None if mask is None else mask.reshape(len(x), 1, -1)), values
        )
        scale = self.W_value_std * self.W_out_std / (self.values * self.heads * valued.shape[-1]) ** 0.5
        g = heads.reshape(*heads.shape[:2], -1) @ weights[f"{self.name}.O"]
        return (g * scale).reshape(len(x), *grid, self.units)

    def _shares(self, xp: ModuleType, G: Any, mask: Any) -> Any:
        """ζ(G), and nothing where the position that gives is masked, as far as `mask` broadcasts."""
        if self.mechanism == "softmax":
            G = G if mask is None else xp.where(mask, _FAR, G)
            G = xp.exp(G - xp.max(G, axis=-1, keepdims=True))
            return G / xp.sum(G, axis=-1, keepdims=True)
        G = {"identity": lambda G: G, "abs": xp.abs, "relu": lambda G: xp.maximum(G, 0.0)}[self.mechanism](G)
        return G if mask is None else xp.where(mask, 0.0, G)

    def _embedding(self, channels: int) -> int:
        """How many channels an embedding has."""
        if self.position == "none":
            return 0
        chosen = channels if self.position_channels is None else self.position_channels
        if self.position == "sum" and chosen != channels:
            raise ValueError(
                f"`position_channels` is {chosen} and {channels} come in; embeddings that are added have as many"
            )
        return chosen

    def _with_embedding(self, weights: Mapping[str, Any], x: Any, mask: Any) -> Any:
        if self.position == "none":
            return x
        E, grid = weights[f"{self.name}.E"], x.shape[1:-1]
        if self.decay is not None:
            root = np.linalg.cholesky(np.asarray(self._covariance(grid), dtype=np.float64)).astype(x.dtype)
            E = (root @ E.reshape(prod(grid), -1)).reshape(E.shape)
        E = jnp.broadcast_to(self.W_position_std * E, (*x.shape[:-1], E.shape[-1])).astype(x.dtype)
        E = E if mask is None else jnp.where(mask, 0.0, E)
        return x + E if self.position == "sum" else jnp.concatenate([x, E], axis=-1)

    def _covariance(self, grid: Shape) -> np.ndarray:
        """R, of all positions in one row."""
        if self.decay is None:
            return np.eye(prod(grid))
        places = np.stack([axis.ravel() for axis in np.meshgrid(*map(np.arange, grid), indexing="ij")])
        distance = np.sum(np.abs(places[:, :, None] - places[:, None]) ** self.norm, axis=0)
        with jax.ensure_compile_time_eval():
            return np.asarray(self.decay(distance))

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Of all pairs of positions."""
        if not pairs.across:
            raise ValueError("attention needs all pairs of positions, and these pairs hold equal positions alone")
        if self.scaling == "root" and self.mechanism != "identity":
            raise ValueError(
                f"attention with scaling='root' and mechanism={self.mechanism!r} has no kernel in closed form; take "
                "scaling='linear', mechanism='identity', or the kernel of a finite network"
            )
        flat = self._averaged(_in_one_row(one_case(xp, pairs)))
        masks = [None, None] if flat.masks is None else [xp.all(mask, axis=-1)[:, None] for mask in flat.masks]
        out = self._kernel(xp, flat, self._with_covariance(xp, flat, grid_lengths(pairs)), masks)
        return _back(out, grid_lengths(pairs), pairs)

    def _averaged(self, pairs: Pairs) -> Pairs:
        """Inner products over the number of channels, which they are where the layer before has as many units."""
        if self.channels is None or self.channels == pairs.units:
            return pairs
        own = None if pairs.own is None else (self._averaged(pairs.own[0]), self._averaged(pairs.own[1]))
        return replace(pairs.scaled(pairs.units / self.channels), units=self.channels, own=own)

    def _kernel(self, xp: ModuleType, pairs: Pairs, seen: Pairs, masks: list[Any]) -> Pairs:
        """With positions in one row; `seen`: with the embeddings."""
        valued = seen if self.position_in_values else pairs
        own = seen.own or (seen, seen)
        if self.scaling == "root":
            moment, ntk = self._by_products(xp, seen, valued)
            done = (
                None
                if pairs.own is None
                else [
                    self._kernel(xp, one, two, [mask, mask])
                    for one, two, mask in zip(pairs.own, own, masks, strict=True)
                ]
            )
            return of_moments(xp, pairs, moment, ntk, None if done is None else (done[0], done[1]))
        shares = [
            self._shares(xp, self.W_query_std * self.W_key_std * each.second_moment(xp), mask)
            for each, mask in zip(own, masks, strict=True)
        ]
        if pairs.own is None:
            return self._gathered_pairs(xp, valued, shares[0], shares[0], None)
        whole = valued.own or (valued, valued)
        done = [self._gathered_pairs(xp, each, share, share, None) for each, share in zip(whole, shares, strict=True)]
        return self._gathered_pairs(xp, valued, shares[0][:, :, None], shares[1][:, None], (done[0], done[1]))

    def _gathered_pairs(self, xp: ModuleType, pairs: Pairs, of_x: Any, of_z: Any, own: Any) -> Pairs:
        """Z(x) Σ Z(z)ᵀ, and how small 1 ∓ ρ of equal positions can be: as for pooling, ‖Σ_a u_a h_a ∓ v_a h′_a‖ is at most the sum."""
        squared = (self.W_value_std * self.W_out_std) ** 2
        moment, ntk = (
            squared * (of_x @ each @ xp.swapaxes(of_z, -1, -2)) for each in (pairs.second_moment(xp), pairs.ntk)
        )
        out = of_moments(xp, pairs, moment, ntk + 2 * moment, own)
        u, v = (
            squared**0.5 * share * xp.swapaxes(xp.sqrt(size), -1, -2) / xp.where(whole > 0, xp.sqrt(whole), 1.0)
            for share, size, whole in (
                (of_x, pairs.xx, out.xx),
                (of_z, xp.swapaxes(pairs.zz, -1, -2), xp.swapaxes(out.zz, -1, -2)),
            )
        )
        same, bounds = np.eye(u.shape[-1], dtype=bool), []
        for gap in (pairs.apart, pairs.together):
            equal = xp.einsum("...aa->...a", gap)[..., None, :]
            terms = xp.sqrt(xp.maximum(xp.square(u - v) + 2 * u * v * equal, 0.0))
            bounds.append(xp.where(same, xp.square(xp.sum(terms, axis=-1))[..., None] / 2, 2.0))
        alive = (out.xx > 0) & (out.zz > 0)
        apart, together = (
            xp.where(alive, corrected(xp, gap, xp.minimum(gap, bound)), 1.0)
            for gap, bound in zip((out.apart, out.together), bounds, strict=True)
        )
        return replace(out, apart=apart, together=together, units=self.units, gaussian=True, fresh=True)

    def _by_products(self, xp: ModuleType, seen: Pairs, valued: Pairs) -> tuple[Any, Any]:
        """s²t² c Σ, and what each of the four matrices and each way to the inputs gives."""
        K, V = seen.second_moment(xp), valued.second_moment(xp)
        c, of_keys, of_values = (
            xp.sum(one * two, axis=(-2, -1), keepdims=True) for one, two in ((K, V), (seen.ntk, V), (K, valued.ntk))
        )
        squared = (self.W_query_std * self.W_key_std * self.W_value_std * self.W_out_std) ** 2
        return squared * c * K, squared * (c * seen.ntk + (of_keys + of_values) * K + 4 * c * K)

    def _with_covariance(self, xp: ModuleType, pairs: Pairs, grid: Shape) -> Pairs:
        """Σ with the covariance of embeddings, and Θ with their tangent kernel, of positions in one row."""
        if self.position == "none":
            return pairs
        R, embedded = self._covariance(grid), self._embedding(pairs.units)
        inputs, share = 1.0, self.W_position_std**2
        if self.position == "concatenate":
            inputs, share = pairs.units / (pairs.units + embedded), share * embedded / (pairs.units + embedded)
        size = np.diag(R)
        rho = R / np.sqrt(np.outer(size, size))

        def with_R(each: Pairs) -> Pairs:
            e = Pairs(size[:, None], size[None], 1 - rho, 1 + rho, R).scaled(share)
            out = add(xp, each.scaled(inputs), e)
            return out if each.masks is None else silenced(xp, out, each.masks)

        own = None if pairs.own is None else (with_R(pairs.own[0]), with_R(pairs.own[1]))
        return replace(with_R(replace(pairs, own=None)), own=own)


def _in_one_row(pairs: Pairs) -> Pairs:
    """All positions on one axis of x and one of z."""
    grid = pairs.grid

    def row(array: Any) -> Any:
        end = array.ndim - 2 * grid
        return array.reshape(*array.shape[:end], prod(array.shape[end : end + grid]), prod(array.shape[end + grid :]))

    own = None if pairs.own is None else (_in_one_row(pairs.own[0]), _in_one_row(pairs.own[1]))
    masks = None if pairs.masks is None else tuple(mask.reshape(len(mask), -1, mask.shape[-1]) for mask in pairs.masks)
    return replace(mapped(pairs, row), grid=1, own=own, masks=masks)


def _back(pairs: Pairs, grid: Shape, as_were: Pairs) -> Pairs:
    """Positions on their axes again."""
    ones = (1,) * len(grid)

    def axes(array: Any) -> Any:
        of_x, of_z = (grid if size > 1 else ones for size in array.shape[-2:])
        return array.reshape(*array.shape[:-2], *of_x, *of_z)

    if prod(grid) == 1:
        grid = ones
    own = None
    if pairs.own is not None and as_were.own is not None:
        own = tuple(_back(one, grid, two) for one, two in zip(pairs.own, as_were.own, strict=True))
    return replace(mapped(pairs, axes), grid=len(grid), own=own, masks=as_were.masks)
