"""What weights are drawn from: each law draws an array and says the variance of an entry."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from overparam.core.trees import placed

SHARED = 2**18
"""Entries up to which lengths are shared: more are drawn as they are."""


class AbstractLaw(abc.ABC):
    """A law of centred, uncorrelated entries. Implementations are frozen and hashable."""

    @abc.abstractmethod
    def draw(self, key: Any, shape: tuple[int, ...]) -> Any:
        """An array of entries, in JAX's precision in force."""

    @property
    @abc.abstractmethod
    def cases(self) -> tuple[tuple[float, float], ...]:
        """(probability, variance) of the centred Gaussians the law is a mixture of, as a kernel sees it."""

    @property
    def variance(self) -> float:
        """Of one entry."""
        return sum(probability * variance for probability, variance in self.cases)


@final
@dataclass(frozen=True)
class Normal(AbstractLaw):
    """N(0, std²).

    >>> Normal(0.5).variance
    0.25
    """

    std: float

    def draw(self, key: Any, shape: tuple[int, ...]) -> Any:
        """Independent Gaussian entries."""
        return placed(self.std * _entries(jax.random.normal, key, shape))

    @property
    def cases(self) -> tuple[tuple[float, float], ...]:
        """One centred Gaussian of variance std²."""
        return ((1.0, self.std**2),)


@final
@dataclass(frozen=True)
class Signs(AbstractLaw):
    """±1 with equal chances. In a wide layer their sums are Gaussian: a kernel sees N(0, 1)."""

    def draw(self, key: Any, shape: tuple[int, ...]) -> Any:
        """Independent entries +1 and −1."""
        kind = jnp.result_type(float)
        return placed(_entries(partial(jax.random.rademacher, dtype=kind), key, shape))

    @property
    def cases(self) -> tuple[tuple[float, float], ...]:
        """As one Gaussian of variance 1, which sums of signs tend to."""
        return ((1.0, 1.0),)


@final
@dataclass(frozen=True)
class ZeroOrNormal(AbstractLaw):
    """0 with probability ½, else N(0, std²): the biases of the learners of `beyond_two_layers`.

    Ref: beyond_two_layers, Eq. (5)

    >>> ZeroOrNormal(2.0).variance
    2.0
    """

    std: float

    def draw(self, key: Any, shape: tuple[int, ...]) -> Any:
        """Independent entries, about half of them 0."""
        coin, size = jax.random.split(key)
        normal = self.std * _entries(jax.random.normal, size, shape)
        kept = _entries(lambda key, shape: jax.random.bernoulli(key, 0.5, shape), coin, shape)
        return placed((jnp if isinstance(kept, Tracer) else np).where(kept, normal, normal.dtype.type(0)))

    @property
    def cases(self) -> tuple[tuple[float, float], ...]:
        """Two Gaussians, one of variance 0."""
        return ((0.5, 0.0), (0.5, self.std**2))


@final
@dataclass(frozen=True)
class Constant(AbstractLaw):
    """Every entry is `value`: scales, shifts and averages at their start.

    >>> Constant(2.0).draw(None, (2,)).tolist()
    [2.0, 2.0]
    """

    value: float

    def draw(self, key: Any, shape: tuple[int, ...]) -> Any:
        """An array of the one value; the key is not needed."""
        return jnp.full(shape, self.value, dtype=jnp.result_type(float))

    @property
    def cases(self) -> tuple[tuple[float, float], ...]:
        """About 0: variance value²."""
        return ((1.0, self.value**2),)


@final
@dataclass(frozen=True)
class Twinned(AbstractLaw):
    """Entries 2i and 2i + 1 of the first axis are equal, or of opposite sign; the pairs follow `law`."""

    law: AbstractLaw
    opposite: bool = False

    def draw(self, key: Any, shape: tuple[int, ...]) -> Any:
        """Half the rows drawn, each followed by its twin."""
        half = self.law.draw(key, (shape[0] // 2, *shape[1:]))
        xp = jnp if isinstance(half, Tracer) else np
        return placed(xp.stack([half, -half if self.opposite else half], axis=1).reshape(shape))

    @property
    def cases(self) -> tuple[tuple[float, float], ...]:
        """Those of one entry."""
        return self.law.cases


def _entries(draw: Callable[[Any, tuple[int, ...]], Any], key: Any, shape: tuple[int, ...]) -> Any:
    """`draw(key, shape)`, by few programs: compiling one for every shape takes longer than most draws.

    They are drawn flat, in lengths that are powers of two, and cut off: an entry is a function of the key and its place, so
    these are the same numbers. NumPy's, but inside a transformation and where there are many.
    """
    size = prod(shape)
    if isinstance(key, Tracer) or size > SHARED:
        return draw(key, (size,)).reshape(shape)
    return np.asarray(draw(key, (2 ** max(8, (size - 1).bit_length()),)))[:size].reshape(shape)
