"""Products of per-sample gradients, weight by weight: inputs times cotangents, never the Jacobian of the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import final

import torch
from torch import Tensor, nn

from overparam.adapters.torch_capture import Captured, MatrixUse, feature_count, features

PANEL_ROWS = 256
"""Rows of a panel of a symmetric product: small enough to skip most of the lower triangle, large enough to be fast."""

PASS = 16
"""Multiplications that take as long as one number read, multiplied and summed from memory."""

Uses = tuple[MatrixUse, ...]
Products = tuple[Tensor, Tensor, Tensor]
"""Inner products (n, p) of inputs, and the cotangents (n, k, …) and (p, k, …) whose products they multiply."""


@final
class Sums:
    """Accumulates Σ ⟨∂f_a(x_i), ∂f_b(z_j)⟩ in float64, s outputs a side, in panels of rows.

    Where it is symmetric only the panels' upper parts are summed, and `finish` turns them over.
    """

    def __init__(self, n: int, p: int, sides: int, symmetric: bool, device: torch.device) -> None:
        self.result = torch.zeros((n, p, sides, sides), dtype=torch.float64, device=device)
        self.sides, self.symmetric = sides, symmetric
        step = max(1, PANEL_ROWS // sides)
        self.panels = [(start, min(n, start + step)) for start in range(0, n, step)]

    def columns(self, start: int) -> int:
        """The first column a panel of rows needs."""
        return start if self.symmetric else 0

    def rows(self, values: Tensor) -> Tensor:
        """(n, k, …) as (n, s, size): with one side all outputs join the size, which makes the sum the trace."""
        return values.reshape(len(values), self.sides, -1)

    def add_gradients(self, left: Tensor, right: Tensor) -> None:
        """Per-sample gradients (n, k, size) and (p, k, size)."""
        left, right = self.rows(left), self.rows(right)
        for start, stop in self.panels:
            self.add(start, stop, _inner(left[start:stop], right[self.columns(start) :]))

    def add_products(self, terms: Sequence[Products]) -> None:
        """Σ over terms of inner (n, p) times the products of cotangents (n, k, size) and (p, k, size)."""
        terms = [(inner, self.rows(left), self.rows(right)) for inner, left, right in terms]
        for start, stop in self.panels if terms else ():
            first = self.columns(start)
            total: Tensor | None = None  # of one panel, which stays in the processor's cache
            for inner, left, right in terms:
                part = _inner(left[start:stop], right[first:]).view(stop - start, self.sides, -1, self.sides)
                part *= inner[start:stop, None, first:, None]
                total = part if total is None else total.add_(part)
            assert total is not None
            self.add(start, stop, total)

    def add(self, start: int, stop: int, part: Tensor) -> None:
        """Sums (rows, s, columns, s) of a panel of rows, from its first column on."""
        here = self.result[start:stop, self.columns(start) :].permute(0, 2, 1, 3)
        here += part.view(here.shape)

    def finish(self) -> Tensor:
        """(n, p, s, s); where symmetric the lower triangle is exactly the upper one turned over."""
        for start, stop in self.panels if self.symmetric else ():
            square = self.result[start:stop, start:stop]
            square.copy_((square + square.permute(1, 0, 3, 2)) / 2)
            self.result[stop:, start:stop] = self.result[start:stop, stop:].permute(1, 0, 3, 2)
        return self.result


def add_captured(sums: Sums, left: Captured, right: Captured, room: int) -> None:
    """Add all structured weights. `room`: bytes that pieces of per-sample gradients may take."""
    names = [name for name in left.small if name in right.small]
    if names:
        rows = torch.cat([left.small[name] for name in names], 2)
        columns = rows if right is left else torch.cat([right.small[name] for name in names], 2)
        sums.add_gradients(rows, columns)
    terms: list[Products] = []
    for name, uses in left.matrices.items():
        others = right.matrices.get(name)
        if others is None:
            continue
        if _positions(uses) == _positions(others) == 1 and uses[0].cotangents.shape[1] == 1:
            h, b = _flat(uses)
            g, c = (h, b) if right is left else _flat(others)
            terms.append((_likeness(uses)(h, g), b, c))
        else:
            _add_matrix(sums, uses, others, room)
    sums.add_products(terms)


def own_squares(captured: Captured, device: torch.device, room: int) -> Tensor:
    """(n,) in float64: the squared norms of each sample's gradients of all structured weights, summed over outputs."""
    total = torch.zeros(captured.n, dtype=torch.float64, device=device)
    for values in captured.small.values():
        total += values.square().sum((1, 2))
    for uses in captured.matrices.values():
        total += _own_squares_of_matrix(uses, room)
    return total


def _own_squares_of_matrix(uses: Uses, room: int) -> Tensor:
    """By positions, Σ_pq ⟨h_p, h_q⟩ ⟨b_p, b_q⟩ with all outputs in b, or by gradients, whichever is less work."""
    layer, P = uses[0].layer, _positions(uses)
    n, groups, k, channels, _ = uses[0].cotangents.shape
    tokens = isinstance(layer, nn.Embedding)
    f = 0 if tokens else feature_count(layer, uses[0].x)
    if tokens or (groups == 1 and P * (f + k * channels) < k * channels * f):
        step = max(1, room // (P * (2 * P + f) * uses[0].cotangents.element_size()))
        return torch.cat([_own_squares_by_positions(_rows(uses, i, i + step)) for i in range(0, n, step)])
    total = uses[0].cotangents.new_zeros(n)
    for part in _pieces(groups, channels, n * k * f * total.element_size(), room):
        total += gradients(uses, part, None, room).square().sum((1, 2))
    return total


def _rows(uses: Uses, start: int, stop: int) -> Uses:
    return tuple(replace(use, x=use.x[start:stop], cotangents=use.cotangents[start:stop]) for use in uses)


def _own_squares_by_positions(uses: Uses) -> Tensor:
    h, b = _flat(uses)  # inputs (n, P, f) or tokens (n, P)
    b = b.flatten(1, 2)
    likeness = h[:, :, None] == h[:, None] if h.ndim == 2 else h @ h.transpose(1, 2)
    return (b.transpose(1, 2) @ b).mul_(likeness).sum((1, 2))


def _positions(uses: Uses) -> int:
    return sum(use.cotangents.shape[-1] for use in uses)


def _add_matrix(sums: Sums, left: Uses, right: Uses, room: int) -> None:
    """By positions, Σ_pq ⟨h_ip, h_jq⟩ ⟨b_iap, b_jbq⟩, or by gradients G_ia = Σ_p b_iap h_ip, whichever is less work."""
    layer = left[0].layer
    n, groups, k, channels, _ = left[0].cotangents.shape
    p, sides = len(right[0].cotangents), sums.sides
    P, Q = _positions(left), _positions(right)
    pairs = n * p * sides * k  # products of cotangents a pair of positions needs
    if isinstance(layer, nn.Embedding):
        vocabulary = torch.unique(torch.cat([use.x.reshape(-1) for use in (*left, *right)]))
        f, inner, forming = len(vocabulary), 1, 0
    else:
        vocabulary, f = None, feature_count(layer, left[0].x)
        inner, forming = f, k * (n * P + p * Q)
    by_positions = P * Q * (n * p * inner + pairs * channels + PASS * n * p * sides**2)
    by_gradients = groups * channels * f * (pairs + forming)
    if groups == 1 and by_positions < by_gradients:
        _add_by_positions(sums, left, right, room)
        return
    for part in _pieces(groups, channels, max(n, p) * k * f * left[0].cotangents.element_size(), room):
        rows = gradients(left, part, vocabulary, room)
        sums.add_gradients(rows, rows if right is left else gradients(right, part, vocabulary, room))


def _pieces(groups: int, channels: int, bytes_each: int, room: int) -> Iterator[tuple[slice, slice]]:
    """Slices of groups and of channels, so that the gradients of one piece take `room` bytes or are of one channel."""
    count = max(1, room // max(1, bytes_each))
    if groups > 1:
        step = max(1, count // channels)
        yield from ((slice(g, g + step), slice(None)) for g in range(0, groups, step))
    else:
        yield from ((slice(None), slice(c, c + count)) for c in range(0, channels, count))


def gradients(uses: Uses, part: tuple[slice, slice], vocabulary: Tensor | None, room: int) -> Tensor:
    """(n, k, size): per-sample gradients of these groups and channels, summed over positions and uses."""
    sums = [_gradients_of_use(use, part, vocabulary, room) for use in uses]
    total = sums[0]
    for other in sums[1:]:
        total += other
    return total.transpose(1, 2).reshape(len(total), total.shape[2], -1)


def _gradients_of_use(use: MatrixUse, part: tuple[slice, slice], vocabulary: Tensor | None, room: int) -> Tensor:
    b = use.cotangents[:, part[0], :, part[1]]
    n, groups, k, channels, positions = b.shape
    if vocabulary is not None:
        place = torch.searchsorted(vocabulary, use.x.reshape(n, 1, 1, 1, positions)).expand(b.shape)
        return b.new_zeros((n, groups, k, channels, len(vocabulary))).scatter_add_(-1, place, b)
    f = feature_count(use.layer, use.x)
    total = b.new_empty((n, groups, k, channels, f))
    patches = use.cotangents.shape[1] * positions * f * b.element_size()
    step = max(1, room // max(1, patches))
    for start in range(0, n, step):  # patches repeat the input many times over: a few samples at once
        rows = slice(start, start + step)
        left = b[rows].reshape(-1, k * channels, positions)
        right = features(use.layer, use.x[rows])[:, part[0]].reshape(-1, positions, f)
        torch.bmm(left, right, out=total[rows].view(-1, k * channels, f))
    return total


def _add_by_positions(sums: Sums, left: Uses, right: Uses, room: int) -> None:
    h, b = _flat(left)
    g, c = (h, b) if right is left else _flat(right)
    P, (p, Q) = h.shape[1], g.shape[:2]
    sides, likeness = sums.sides, _likeness(left)
    b, c = (_sided(values, sides) for values in (b, c))
    for start, stop in sums.panels:
        first = sums.columns(start)
        total = b.new_empty((stop - start, sides, p - first, sides))
        pairs = max(1, room // (2 * b.element_size() * sides**2 * P * Q))
        width = min(p - first, pairs)
        height = max(1, pairs // width)
        for i in range(start, stop, height):
            rows = slice(i, min(stop, i + height))
            for j in range(first, p, width):
                columns = slice(j, min(p, j + width))
                part = _inner(b[rows].flatten(1, 2), c[columns].flatten(1, 2)).view(
                    -1, sides, P, len(c[columns]), sides, Q
                )
                part *= likeness(h[rows], g[columns]).view(-1, 1, P, len(c[columns]), 1, Q)
                total[i - start : i - start + height, :, j - first : j - first + width] = part.sum((2, 5))
        sums.add(start, stop, total)


def _flat(uses: Uses) -> tuple[Tensor, Tensor]:
    """Inputs (n, P, f) or tokens (n, P), and cotangents (n, k, C, P), all uses side by side: a sum over uses."""
    if isinstance(uses[0].layer, nn.Embedding):
        inputs = [use.x.reshape(len(use.x), -1) for use in uses]
    else:
        inputs = [features(use.layer, use.x)[:, 0] for use in uses]
    cotangents = [use.cotangents[:, 0] for use in uses]
    if len(uses) == 1:
        return inputs[0], cotangents[0]
    return torch.cat(inputs, 1), torch.cat(cotangents, 3)


def _sided(b: Tensor, sides: int) -> Tensor:
    """(n, k, C, P) as (n, s, P, channels): for one side the outputs join the channels."""
    if sides == 1:
        return b.permute(0, 3, 1, 2).flatten(2)[:, None]
    return b.transpose(2, 3).contiguous()


def _inner(h: Tensor, g: Tensor) -> Tensor:
    """Inner products of all rows (n, P, f) with all rows (p, Q, f): (n P, p Q)."""
    return h.flatten(0, 1) @ g.flatten(0, 1).T


def _equal(h: Tensor, g: Tensor) -> Tensor:
    """Whether tokens (n, P) and (p, Q) are the same: inner products of one-hot vectors that are never made."""
    return h.reshape(-1, 1) == g.reshape(1, -1)


def _likeness(uses: Uses) -> Callable[[Tensor, Tensor], Tensor]:
    return _equal if isinstance(uses[0].layer, nn.Embedding) else _inner
