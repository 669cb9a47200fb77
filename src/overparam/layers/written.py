"""A composition from layers as they are written, without names, and the shape of a sample."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from overparam.layers.chain import output_of
from overparam.layers.composition import Composition
from overparam.layers.layer import Shape
from overparam.layers.one_output import OneOutput
from overparam.layers.standard import Part, named


def as_parts(layers: Any) -> tuple[Part, ...]:
    """Layers as they are written, in a tuple."""
    if not isinstance(layers, Iterable):
        raise ValueError(f"`layers` is one {type(layers).__name__}; expected a list of layers, such as [dense(1)]")
    return tuple(layers)


def composition_from(parts: Iterable[Part], shape: Shape, image: Shape | None = None) -> Composition:
    """Layers with names, for samples of that shape.

    Args:
        parts: first to last.
        shape: of a sample: (d,), (positions, channels) or (rows, columns, channels).
        image: (positions, channels) or (rows, columns, channels) of samples that come as rows.
    """
    shape, parts = tuple(int(size) for size in shape), tuple(parts)
    if not [part for part in parts if not isinstance(part, OneOutput)]:
        raise ValueError("`layers` is empty; give at least one, such as `dense(1)`")
    if image is not None:
        if len(image) not in (2, 3) or any(size < 1 for size in image):
            raise ValueError(f"`image` is {image}; expected (rows, columns, channels) or (positions, channels)")
        if prod(shape) != prod(image):
            raise ValueError(
                f"samples of shape {shape} have {prod(shape)} numbers and `image`={image} needs {prod(image)}; "
                "set `image` to (rows, columns, channels) of the images"
            )
        image = tuple(int(size) for size in image)
        if len(shape) > 1 and shape not in (image, (image[-1], *image[:-1])):
            raise ValueError(
                f"samples have shape {shape} and `image` is {image}; expected {image}, rows of {prod(image)} numbers, or "
                f"channels first, {(image[-1], *image[:-1])}"
            )
        shape = image
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
