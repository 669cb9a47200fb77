"""Layers one after the other: the finite network and its infinitely wide kernel are two readings of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from types import ModuleType
from typing import Any, final
from zlib import crc32

import jax
import jax.numpy as jnp
import numpy as np

from overparam.layers.kernel_pairs import (
    Pairs,
    mapped,
    positions_against,
    rows_against,
    rows_with_themselves,
    traced_rows_against,
)
from overparam.layers.layer import (
    AbstractLayer,
    InTraining,
    ReluRecorder,
    Shape,
    Weight,
    any_drops,
    any_pools,
    applied,
    applied_masked,
    passed,
    weights_of,
)
from overparam.layers.linear import Bias, Dense, OneOutput
from overparam.layers.pooling import Flatten, GlobalPool, Pool
from overparam.layers.relu import Identity
from overparam.layers.windows import equal_positions

_LINEAR = (Pool, GlobalPool, Flatten, Dense, Bias, Identity, OneOutput)


@final
@dataclass(frozen=True)
class Composition:
    """Layers and how a row of `inputs` numbers enters them.

    grid: None takes rows as they are; (positions,) or (rows, columns) lays them out, with `channels` numbers a
        position, channel by channel as images of `Dataset` are stored: (3, 32, 32) for grid (32, 32). Samples that come
        with the axes (*grid, channels) are taken as they are, channels last.
    masked: a number; wherever an input has it, nothing is: positions of which all channels have it are left out of every
        average, attention and norm, and stay 0.

    >>> from overparam.layers import Dense, Relu, Normal
    >>> layers = (Dense("W", 4, Normal(1.0), trained=True), Relu(), Dense("a", None, Normal(0.5)))
    >>> {weight.name: weight.shape for weight in Composition(layers, inputs=3).weights()}
    {'W': (4, 3), 'a': (4,)}
    """

    layers: tuple[AbstractLayer, ...]
    inputs: int
    grid: tuple[int, ...] | None = None
    channels: int = 1
    masked: float | None = None

    @property
    def shape(self) -> Shape:
        """Of a sample as the first layer sees it."""
        return (self.inputs,) if self.grid is None else (*self.grid, self.channels)

    def weights(self) -> tuple[Weight, ...]:
        """All weights in the order of the forward pass; a shared one comes once."""
        found: dict[str, Weight] = {}
        for weight in weights_of(self.layers, self.shape):
            if found.setdefault(weight.name, weight) != weight:
                raise ValueError(f"two layers share the weights `{weight.name}` but not their shape, law or training")
        return tuple(found.values())

    def draw(self, key: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Trained, fixed and running weights by name, each from a key of its own: adding a layer changes no other's."""
        trained, fixed, running = {}, {}, {}
        for weight in self.weights():
            own = jax.random.fold_in(key, crc32(weight.name.encode()))
            place = trained if weight.trained else running if weight.running else fixed
            place[weight.name] = weight.law.draw(own, weight.shape)
        return trained, fixed, running

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None = None) -> Any:
        """Outputs of a batch (n, …)."""
        x = self.arranged(x)
        if self.masked is None:
            return applied(self.layers, weights, x, recorder)
        return applied_masked(self.layers, weights, x, x == self.masked, recorder)[0]

    def apply_train(self, weights: Mapping[str, Any], x: Any) -> tuple[Any, dict[str, Any]]:
        """Outputs of a batch in training, and what the running weights become."""
        within = InTraining(weights)
        return self.apply(within, x), within.new

    def arranged(self, x: Any) -> Any:
        """(n, …) to (n, features), or to (n, *grid, channels), which is taken as it is."""
        if self.grid is not None and x.shape[1:] == self.shape:
            return x
        rows = x.reshape(x.shape[0], -1)
        if self.grid is None:
            return rows
        if rows.shape[1] != prod(self.shape):
            raise ValueError(
                f"rows have {rows.shape[1]} numbers and the network {prod(self.shape)}: positions {self.grid} "
                f"of {self.channels} channel(s); pass images of that size or change `positions` and `channels`"
            )
        images = rows.reshape(len(rows), self.channels, prod(self.grid)).swapaxes(1, 2)
        return images.reshape(len(rows), *self.shape)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """What comes out for pairs that went in, as every layer but the last becomes infinitely wide."""
        names = [weight.name for weight in weights_of(self.layers, self.shape)]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(
                f"the weights `{min(twice)}` are used twice, and the kernel in closed form takes all layers as "
                "independent; take the kernel of a finite network instead"
            )
        last = max((place for place, layer in enumerate(self.layers, 1) if layer.pools), default=0)
        pairs = equal_positions(xp, passed(self.layers[:last], xp, pairs)) if last else pairs
        return passed(self.layers[last:], xp, pairs)

    @property
    def cells(self) -> int:
        """Positions, or pairs of positions, that are kept for one pair of inputs."""
        if self.grid is None:
            return 1
        return prod(self.grid) ** (2 if any_pools(self.layers) else 1)

    @property
    def asks_for_angles(self) -> bool:
        """Whether how large a pooled unit is matters to a later layer: not where only linear ones come after."""
        first = next((place for place, layer in enumerate(self.layers) if layer.pools), len(self.layers))
        return not all(isinstance(layer, _LINEAR) for layer in self.layers[first:])

    def pairs(self, X: np.ndarray, Z: np.ndarray, angles: bool = True) -> Pairs:
        """All pairs of a row of X with a row of Z, as they enter the first layer; see `asks_for_angles`."""
        if any_drops(self.layers):
            same = np.stack([np.all(row == Z, axis=tuple(range(1, Z.ndim))) for row in X])
            return self._with_same(self._pairs(X, Z, angles), same)
        return self._pairs(X, Z, angles)

    def _with_same(self, pairs: Pairs, same: Any) -> Pairs:
        """Which pairs are one input; each of `own` is."""
        if pairs.own is None:
            return replace(pairs, same=same)
        own = [replace(each, same=np.ones(each.apart.shape[1], dtype=bool)) for each in pairs.own]
        return replace(pairs, same=same, own=(own[0], own[1]))

    def unmasked(self, X: Any) -> Any:
        """X with 0 where it is masked."""
        return X if self.masked is None else (self.masked != X) * X

    def _with_masks(self, pairs: Pairs, X: Any, Z: Any) -> Pairs:
        if self.masked is None:
            return pairs
        x, z = (self.arranged(each) == self.masked for each in (X, Z))
        own = None
        if pairs.own is not None:
            own = replace(pairs.own[0], masks=(x, x)), replace(pairs.own[1], masks=(z, z))
        return replace(pairs, masks=(x, z), own=own)

    def _pairs(self, X: np.ndarray, Z: np.ndarray, angles: bool) -> Pairs:
        if self.masked is not None:
            bare = replace(self, masked=None)
            return self._with_masks(bare._pairs(self.unmasked(X), self.unmasked(Z), angles), X, Z)
        if self.grid is None:
            return rows_against(X, Z)
        x, z = self.arranged(X), self.arranged(Z)
        if not any_pools(self.layers):
            return positions_against(np, x[:, None], z[None], len(self.grid))
        pairs = self._across(x[:, None], z[None])
        if not angles:
            return replace(pairs, angles=False)
        return replace(pairs, own=(self._across(x, x), self._across(z, z)))

    def traced_pairs(self, X: Any, Z: Any, angles: bool = True) -> Pairs:
        """`pairs` of JAX arrays, differentiable."""
        if any_drops(self.layers):
            same = jnp.all(X[:, None] == Z[None], axis=tuple(range(2, X.ndim + 1)))
            return self._with_same(self._traced_pairs(X, Z, angles), same)
        return self._traced_pairs(X, Z, angles)

    def _traced_pairs(self, X: Any, Z: Any, angles: bool) -> Pairs:
        if self.masked is not None:
            bare = replace(self, masked=None)
            return self._with_masks(bare._traced_pairs(self.unmasked(X), self.unmasked(Z), angles), X, Z)
        if self.grid is None:
            return traced_rows_against(X.reshape(len(X), -1), Z.reshape(len(Z), -1))
        x, z = self.arranged(X), self.arranged(Z)
        if not any_pools(self.layers):
            by_position = [jnp.moveaxis(each, 0, -2) for each in (x, z)]  # (*grid, n, channels)
            pairs = mapped(traced_rows_against(*by_position), lambda array: jnp.moveaxis(array, (-2, -1), (1, 2)))
            return replace(pairs, grid=len(self.grid))
        pairs = self._traced_across(x.reshape(1, -1, self.channels), z.reshape(1, -1, self.channels), len(x), len(z))
        if not angles:
            return replace(pairs, angles=False)
        rows = [each.reshape(len(each), -1, self.channels) for each in (x, z)]
        ones = [mapped(self._traced_across(each, each, 1, 1), lambda array: array.squeeze(2)) for each in rows]
        return replace(pairs, own=(ones[0], ones[1]))

    def _traced_across(self, x: Any, z: Any, n: int, p: int) -> Pairs:
        """(groups, samples · positions, channels): all pairs of positions, the axes (groups · n, p, *positions, *positions)."""
        grid = self.grid or ()
        axes, ones = len(grid), (1,) * len(grid)

        def arranged(array: Any) -> Any:
            of_x = (n, *grid) if array.shape[2] == n * prod(grid) else (1, *ones)
            of_z = (p, *grid) if array.shape[3] == p * prod(grid) else (1, *ones)
            array = jnp.moveaxis(array.reshape(1, len(x), *of_x, *of_z), 3 + axes, 3)
            return array.reshape(1, len(x) * of_x[0], of_z[0], *array.shape[4:])

        return replace(mapped(traced_rows_against(x, z), arranged), grid=axes, across=True)

    def equal_pairs(self, X: np.ndarray) -> Pairs:
        """Every row of X with itself."""
        pairs = self._equal_pairs(X)
        return replace(pairs, same=np.ones(len(X), dtype=bool)) if any_drops(self.layers) else pairs

    def _equal_pairs(self, X: np.ndarray) -> Pairs:
        if self.masked is not None:
            return self._with_masks(replace(self, masked=None)._equal_pairs(self.unmasked(X)), X, X)
        if self.grid is None:
            return rows_with_themselves(X)
        images = self.arranged(X)
        if any_pools(self.layers):
            return self._across(images, images)
        return positions_against(np, images, images, len(self.grid))

    def _across(self, x: np.ndarray, z: np.ndarray) -> Pairs:
        """All pairs of positions."""
        axes = len(self.grid or ())
        after, before = tuple(range(-1 - axes, -1)), tuple(range(-1 - 2 * axes, -1 - axes))
        return positions_against(np, np.expand_dims(x, after), np.expand_dims(z, before), axes, across=True)
