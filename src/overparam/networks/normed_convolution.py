"""A convolution followed by batch norm, as image networks have it, and what these networks ask of images."""

from __future__ import annotations

from math import prod

from overparam.layers import AbstractLayer, BatchNorm, Convolution, Normal
from overparam.layers.arguments import require_count


def normed(name: str, units: int, channels: int, patch: int = 3, strides: int = 1) -> tuple[AbstractLayer, ...]:
    """The weights "name.W" ~ N(0, 2/(patch² · channels)), without biases, and the batch norm "name.bn".

    Windows stand around positions 0, s, 2s, …, s the stride, as PyTorch has them.
    """
    law = Normal((2 / (patch**2 * channels)) ** 0.5)
    convolution = Convolution(f"{name}.W", units, patch, law, trained=True, strides=strides, padding="CENTRED")
    return convolution, BatchNorm(f"{name}.bn")


def require_image(image: tuple[int, int, int]) -> None:
    """Raise unless it is (rows, columns, channels)."""
    if not isinstance(image, tuple) or len(image) != 3:
        raise ValueError(f"`image` is {image!r}; expected (rows, columns, channels), such as (32, 32, 3)")
    for size in image:
        require_count(size, "image")


def require_inputs(inputs: int, image: tuple[int, int, int]) -> None:
    """Raise unless rows hold such images."""
    if inputs != prod(image):
        raise ValueError(
            f"rows have {inputs} numbers and `image`={image} needs {prod(image)}; set `image` to (rows, columns, "
            "channels) of the images"
        )
