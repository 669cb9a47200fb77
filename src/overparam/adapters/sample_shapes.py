"""The shape in which a model takes its samples: found by trying, without computing anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp

from overparam.adapters.equinox_model import EquinoxNetwork
from overparam.adapters.flax_model import FlaxNetwork
from overparam.core.network import AbstractNetwork, Params, Trace

Shape = tuple[int, ...]
Arrangement = tuple[Shape, Shape]
"""The shape in which a flat row is read, and the order in which its axes are handed on."""


@final
@dataclass(frozen=True)
class Arranged(AbstractNetwork):
    """The same network for flat rows, which it sees as images. Made by `fitted`.

    stored: the image in a row. axes: their order for the network, so that channels may be moved.
    """

    network: AbstractNetwork
    stored: Shape
    axes: Shape

    def init(self, key: Any, inputs: int | Shape = ()) -> Params:
        """The network's own."""
        return self.network.init(key, inputs)

    def apply(self, params: Params, x: Any) -> Any:
        """What the network gives for the images."""
        return self.network.apply(params, self._images(x))

    def apply_train(self, params: Params, x: Any) -> tuple[Any, Any]:
        """What the network gives in training."""
        return self.network.apply_train(params, self._images(x))

    def trace(
        self, params: Params, x: Any, shifts: Sequence[Any] | None = None, gates: Sequence[Any] | None = None
    ) -> Trace:
        """What the network gives, seen from inside."""
        return self.network.trace(params, self._images(x), shifts, gates)

    def _images(self, x: Any) -> Any:
        x = jnp.asarray(x)
        images = x.reshape(x.shape[0], *self.stored)
        return images.transpose(0, *(axis + 1 for axis in self.axes))


def fitted(network: AbstractNetwork, params: Params, d: int, image_shape: Shape | None, dtype: Any) -> AbstractNetwork:
    """The network as one of flat rows (n, d), read in the first shape that it takes; one line where it takes none.

    Models of Flax and Equinox are tried on images first, in the shape given and with channels last and first. Functions
    are tried on flat rows first, which is how they are trained.

    Args:
        network: a model of another framework or a function.
        params: its weights, in `dtype`.
        d, image_shape: numbers in a row, and the image they are, where they are one.
        dtype: of the samples.

    >>> from overparam.networks import Given
    >>> rows = Given(lambda w, x: x @ w, jnp.ones(4))
    >>> fitted(rows, rows.init(0), 4, (2, 2), jnp.float32) is rows
    True
    >>> images = Given(lambda w, x: x[:, 0, 1] * w, jnp.ones(()))
    >>> fitted(images, images.init(0), 4, (2, 2), jnp.float32).apply(images.init(0), jnp.arange(4.0)[None]).tolist()
    [1.0]
    """
    flat: Arrangement = ((d,), (0,))
    images = () if image_shape is None else _arrangements(tuple(image_shape))
    model = isinstance(network, EquinoxNetwork | FlaxNetwork)
    tried, why = (*images, flat) if model else (flat, *images), ""
    for stored, axes in tried:
        made = network if len(stored) == 1 else Arranged(network, stored, axes)
        try:
            seen = jax.eval_shape(made.apply, params, jax.ShapeDtypeStruct((2, d), dtype))
        except MemoryError:
            raise
        except Exception as error:  # each framework has its own for samples that do not fit
            why = why or " ".join(str(error).split())
            continue
        shape: Any = getattr(seen, "shape", ())
        if len(shape) in (1, 2) and shape[0] == 2:
            return made
        why = why or f"it gives {shape} for 2 samples"
    shapes = ", ".join(str(tuple(stored[axis] for axis in axes)) for stored, axes in tried)
    more = "" if images else "; give images as X of shape (n, height, width) or with channels"
    raise ValueError(f"the network does not take samples of shape {shapes}: {why[:240]}{more}")


def _arrangements(shape: Shape) -> tuple[Arrangement, ...]:
    """The image as it is, then with its channel last or first, then without one."""
    own = (shape, tuple(range(len(shape))))
    if len(shape) == 2:
        return own, ((*shape, 1), (0, 1, 2)), ((1, *shape), (0, 1, 2))
    if len(shape) != 3:
        return (own,)
    first = shape[0] <= shape[2]  # there are fewer channels than columns
    moved = (shape, (1, 2, 0) if first else (2, 0, 1))
    channels, plain = (shape[0], shape[1:]) if first else (shape[2], shape[:2])
    return (own, moved, (plain, (0, 1))) if channels == 1 else (own, moved)
