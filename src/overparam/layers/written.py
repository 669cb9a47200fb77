"""A composition from layers as they are written, without names, and the shape of a sample."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from overparam.layers.chain import output_of
from overparam.layers.composition import Composition
from overparam.layers.layer import Shape
from overparam.layers.standard import Part, named


def composition_from(parts: Iterable[Part], shape: Shape, image: Shape | None = None) -> Composition:
    """Layers with names, for samples of that shape.

    Args:
        parts: first to last.
        shape: of a sample: (d,), (positions, channels) or (rows, columns, channels).
        image: (positions, channels) or (rows, columns, channels) of samples that come as rows.
    """
    shape = tuple(int(size) for size in shape)
    if image is not None:
        if len(image) not in (2, 3) or any(size < 1 for size in image):
            raise ValueError(f"`image` is {image}; expected (rows, columns, channels) or (positions, channels)")
        if prod(shape) != prod(image):
            raise ValueError(
                f"samples of shape {shape} have {prod(shape)} numbers and `image`={image} needs {prod(image)}; "
                "set `image` to (rows, columns, channels) of the images"
            )
        shape = tuple(int(size) for size in image)
    if len(shape) not in (1, 2, 3):
        raise ValueError(
            f"samples have shape {shape}; expected (d,), (positions, channels) or (rows, columns, channels)"
        )
    layers = named(parts, shape)
    out = output_of(layers, shape)
    if len(out) > 1:
        raise ValueError(
            f"the last layer gives {out}, positions and channels; end with `Flatten()` or a global pooling, and a "
            "dense layer"
        )
    if len(shape) == 1:
        return Composition(layers, shape[0])
    return Composition(layers, prod(shape), shape[:-1], shape[-1])
