"""One weight array's share of the tangent kernel, from what a pass over rows leaves of it; gradients only in pieces."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from math import ceil
from typing import Any, final

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

PIECE_BYTES = 2**25
"""Most memory for gradients that a contraction forms by the way."""


class AbstractShare(abc.ABC):
    """What the gradients of n rows and c outputs by one weight array are made of."""

    @abc.abstractmethod
    def full(self, other: Any) -> Any:
        """Σ over weights of ∂f_a(x_i) ∂f_b(z_j): (n, c, p, c)."""

    @abc.abstractmethod
    def trace(self, other: Any) -> Any:
        """Σ over weights and outputs of ∂f_a(x_i) ∂f_a(z_j): (n, p)."""

    @abc.abstractmethod
    def pair_numbers(self, full: bool) -> int:
        """How many numbers a contraction holds a pair of rows."""

    @abc.abstractmethod
    def sizes(self) -> Any:
        """(n,): of every row, the smallest of the largest factors and of their product; 0 where a factor is 0."""


@final
@register_dataclass
@dataclass(frozen=True, eq=False)
class Outer(AbstractShare):
    """Gradients Σ_p h_p ⊗ b_p, position by position, in each of G independent groups.

    Inputs h of the layer, (n, G, P, D), and derivatives b of the outputs by what it gives, (n, c, G, P, O). Either the
    products of inputs weigh those of derivatives, ⟨h_p, h̃_q⟩⟨b_p, b̃_q⟩, or gradients are formed for a piece of the
    units at a time: whichever takes fewer multiplications.
    """

    h: Any
    b: Any

    def full(self, other: Outer) -> Any:
        """(n, c, p, c)."""
        if self._by_gradients(other, full=True):
            return self._over_units(other, _full_product)
        return _over_groups(self, other, _weighed_full)

    def trace(self, other: Outer) -> Any:
        """(n, p)."""
        if self._by_gradients(other, full=False):
            return self._over_units(other, _trace_product)
        return _over_groups(self, other, _weighed_trace)

    def pair_numbers(self, full: bool) -> int:
        """Products of inputs, and what they weigh."""
        _, c, _, P, O = self.b.shape
        if self._by_gradients(self, full):
            return c**2 if full else 1
        if P == 1:
            return 1 + c**2 if full else 2
        return P**2 + P * c * O + c**2 if full else 2 * P**2

    def sizes(self) -> Any:
        """From the largest of h and of b."""
        return _smallest(_largest(self.h), _largest(self.b))

    def _by_gradients(self, other: Outer, full: bool) -> bool:
        n, _, P, D = self.h.shape
        c, O = self.b.shape[1], self.b.shape[-1]
        pairs = c**2 if full else c
        forming = P * c * D * O * (1 / n + 1 / len(other.h))
        if P == 1:
            weighed = D + pairs * O
        else:
            weighed = P**2 * (D + c * O) + (c**2 * P * O if full else 0)
        return pairs * D * O + forming < weighed

    def _over_units(self, other: Outer, product: Any) -> Any:
        _, G, _, D = self.h.shape
        c, O = self.b.shape[1], self.b.shape[-1]
        bytes_a_unit = (len(self.h) + len(other.h)) * c * G * D * self.h.dtype.itemsize
        pieces = ceil(O / max(1, PIECE_BYTES // bytes_a_unit))
        if pieces == 1:
            return product(_gradients(self.h, self.b), _gradients(other.h, other.b))
        mine, theirs = _in_pieces(self.b, pieces), _in_pieces(other.b, pieces)

        def add(total: Any, b: Any) -> tuple[Any, None]:
            return total + product(_gradients(self.h, b[0]), _gradients(other.h, b[1])), None

        first = product(_gradients(self.h, mine[0]), _gradients(other.h, theirs[0]))
        return jax.lax.scan(add, first, (mine[1:], theirs[1:]))[0]


@final
@register_dataclass
@dataclass(frozen=True, eq=False)
class Lookup(AbstractShare):
    """Gradients of a table of which rows are looked up: position p of a sample takes row index[p].

    index (n, P), derivatives b by what was taken (n, c, P, E). ⟨h_p, h̃_q⟩ is 1 where both take the same row, times
    the factors `scale` (n, P).
    """

    index: Any
    scale: Any
    b: Any

    def full(self, other: Lookup) -> Any:
        """(n, c, p, c)."""
        return _weighed_full(self._weights(other), self.b, other.b)

    def trace(self, other: Lookup) -> Any:
        """(n, p)."""
        return _weighed_trace(self._weights(other), self.b, other.b)

    def pair_numbers(self, full: bool) -> int:
        """As for `Outer`."""
        _, c, P, E = self.b.shape
        return P**2 + P * c * E + c**2 if full else 2 * P**2

    def sizes(self) -> Any:
        """From the largest of b, the factor in it."""
        return _smallest(_largest(self.scale), _largest(self.b))

    def _weights(self, other: Lookup) -> Any:
        same = self.index[:, :, None, None] == other.index
        return same * self.scale[:, :, None, None] * other.scale


@final
@register_dataclass
@dataclass(frozen=True, eq=False)
class Whole(AbstractShare):
    """Gradients as they are, (n, c, size): of small arrays and of those that enter in other ways."""

    gradients: Any

    def full(self, other: Whole) -> Any:
        """(n, c, p, c)."""
        return _full_product(self.gradients, other.gradients)

    def trace(self, other: Whole) -> Any:
        """(n, p)."""
        return _trace_product(self.gradients, other.gradients)

    def pair_numbers(self, full: bool) -> int:
        """The products alone."""
        return self.gradients.shape[1] ** 2 if full else 1

    def sizes(self) -> Any:
        """From the largest of them."""
        return _largest(self.gradients)


def _gradients(h: Any, b: Any) -> Any:
    return jnp.einsum("ngpd,ncgpo->ncgdo", h, b)


def _in_pieces(b: Any, pieces: int) -> Any:
    """(n, …, O) to (pieces, n, …, O / pieces), with zeros where O does not divide."""
    width = ceil(b.shape[-1] / pieces)
    b = jnp.pad(b, [(0, 0)] * (b.ndim - 1) + [(0, pieces * width - b.shape[-1])])
    return jnp.moveaxis(b.reshape(*b.shape[:-1], pieces, width), -2, 0)


def _full_product(mine: Any, theirs: Any) -> Any:
    (n, c), (p, e) = mine.shape[:2], theirs.shape[:2]
    return (mine.reshape(n * c, -1) @ theirs.reshape(p * e, -1).T).reshape(n, c, p, e)


def _trace_product(mine: Any, theirs: Any) -> Any:
    return mine.reshape(len(mine), -1) @ theirs.reshape(len(theirs), -1).T


def _over_groups(mine: Outer, theirs: Outer, weighed: Any) -> Any:
    """Σ over groups of what `weighed` makes of ⟨h_p, h̃_q⟩ and the derivatives."""

    def one(h: Any, h_other: Any, b: Any, b_other: Any) -> Any:
        (n, P, D), (p, Q, _) = h.shape, h_other.shape
        inputs = (h.reshape(n * P, D) @ h_other.reshape(p * Q, D).T).reshape(n, P, p, Q)
        return weighed(inputs, b, b_other)

    if mine.h.shape[1] == 1:
        return one(mine.h[:, 0], theirs.h[:, 0], mine.b[:, :, 0], theirs.b[:, :, 0])
    groups = tuple(jnp.moveaxis(array, 1, 0) for array in (mine.h, theirs.h))
    groups += tuple(jnp.moveaxis(array, 2, 0) for array in (mine.b, theirs.b))
    first = one(*(array[0] for array in groups))
    rest = tuple(array[1:] for array in groups)
    return jax.lax.scan(lambda total, group: (total + one(*group), None), first, rest)[0]


def _weighed_full(inputs: Any, b: Any, b_other: Any) -> Any:
    """Σ_pq inputs_ipjq ⟨b_iap, b̃_jbq⟩: (n, c, p, c), from inputs (n, P, p, Q) and b (n, c, P, O)."""
    if inputs.shape[1] == inputs.shape[3] == 1:
        return inputs[:, :, :, 0, None] * _full_product(b, b_other)
    carried = jnp.einsum("ipjq,jbqo->ijbpo", inputs, b_other)
    return jnp.einsum("iapo,ijbpo->iajb", b, carried)


def _weighed_trace(inputs: Any, b: Any, b_other: Any) -> Any:
    """Σ_pq inputs_ipjq Σ_a ⟨b_iap, b̃_jaq⟩: (n, p)."""
    (n, c, P, O), (p, _, Q, _) = b.shape, b_other.shape
    mine, theirs = jnp.moveaxis(b, 1, 2).reshape(n * P, c * O), jnp.moveaxis(b_other, 1, 2).reshape(p * Q, c * O)
    return jnp.sum(inputs * (mine @ theirs.T).reshape(n, P, p, Q), axis=(1, 3))


def _largest(array: Any) -> Any:
    return jnp.max(jnp.abs(array), axis=tuple(range(1, array.ndim)), initial=0.0)


def _smallest(h: Any, b: Any) -> Any:
    return jnp.minimum(jnp.minimum(h, b), h * b)
