"""Rows that are small integers, as 8-bit images are: recognised, scaled or centred or of norm 1, so that products are exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

LEVELS = 256
SAMPLED = 4096
"""Entries that are looked at first: rows of real numbers are told apart by them alone."""
LARGEST = 2.0**63
"""Products of two squared norms stay below this."""
ROUNDING = 4 * float(np.finfo(np.float64).eps)


@final
@dataclass(frozen=True, eq=False)
class IntegerRows:
    """x = unit (factor · pixel + offset): pixels int8; factor (1 or 2) and offset integers; unit a float, or 1/norm of each row.

    Inner products of the rows are unit² times integers, exactly: factor² p·p′ + factor offset (Σp + Σp′) + offset² d.
    """

    pixels: Any
    """(n, d) int8, NumPy's or JAX's."""
    unit: float | None
    """None where every row is divided by its norm."""
    factor: int = 1
    offset: int = 128

    @property
    def largest(self) -> int:
        """A bound on the square of an integer row's norm."""
        reach = 128 * self.factor
        return self.pixels.shape[1] * max(abs(self.offset - reach), abs(self.offset + reach)) ** 2

    @classmethod
    def of(cls, X: Any) -> IntegerRows | None:
        """The rows of `X`, or None where they are no such integers, or too long for products of their norms in 64 bits.

        >>> rows = IntegerRows.of(np.array([[0.0, 1.0], [0.2, 0.6]]))
        >>> rows.pixels.tolist(), rows.factor, rows.offset, rows.unit
        ([[-128, -123], [-127, -125]], 1, 128, 0.2)
        >>> IntegerRows.of(np.array([[3, 4], [5, 12]]) / [[5], [13]]).unit is None  # rows of norm 1
        True
        """
        if len(X.shape) != 2 or not X.size:
            return None
        if X.dtype == np.uint8:
            made = cls((X ^ np.uint8(128)).view(np.int8), 1.0)
        elif X.dtype == np.int8:
            made = cls(X, 1.0, offset=0)
        else:
            X = np.asarray(X, dtype=np.float64)
            grid = _grid(X)
            made = _directions(X) if grid is None else _on_grid(X, *grid)
        return made if made is not None and made.largest**2 < LARGEST else None

    def like(self, X: np.ndarray) -> IntegerRows | None:
        """New rows with the same unit, factor and offset; None where they are not."""
        if X.ndim != 2 or X.shape[1] != self.pixels.shape[1] or not X.size:
            return None
        if X.dtype == np.uint8 and (self.unit, self.factor, self.offset) == (1.0, 1, 128):
            return IntegerRows.of(X)
        X = np.asarray(X, dtype=np.float64)
        return _directions(X) if self.unit is None else _on_grid(X, self.unit, self.factor, self.offset)


def _on_grid(X: np.ndarray, unit: float, factor: int, offset: int) -> IntegerRows | None:
    """Rows of the given unit, factor and offset; None where one entry is not."""
    pixels = np.empty(X.shape, dtype=np.int8)
    height = max(1, 2**20 // X.shape[1])
    for start in range(0, len(X), height):
        part = X[start : start + height]
        nearest = np.rint((part / unit - offset) / factor)
        if not (nearest.min() >= -128 and nearest.max() <= 127):
            return None
        away = np.abs((factor * nearest + offset) * unit - part).max(axis=1)
        if np.any(away > ROUNDING * np.abs(part).max(axis=1)):  # of its own row: small rows may stand beside large ones
            return None
        pixels[start : start + height] = nearest
    return IntegerRows(pixels, unit, factor, offset)


def _grid(X: np.ndarray) -> tuple[float, int, int] | None:
    """unit, factor and offset that some entries and the smallest and largest of all are on; whether all are is seen later."""
    some = X.ravel()[:: max(1, X.size // SAMPLED)]
    levels = np.unique(np.concatenate([some[:SAMPLED], X[0].ravel()]))
    if len(levels) > 2 * LEVELS:  # twice: rounding may tell one level from itself
        return None
    levels = np.unique(np.concatenate([levels, [X.min(), X.max()]]))
    if not np.isfinite(levels).all():
        return None
    apart = np.diff(levels)
    apart = apart[apart > 1e-9 * float(np.abs(levels).max())]
    if not len(apart):
        return None
    span = float(np.rint((levels[-1] - levels[0]) / apart.min()))
    if not 1 <= span < LEVELS:
        return None
    step = _round_step(float(levels[-1] - levels[0]) / span)
    doubled = round(2 * float(levels[0]) / step)
    if abs(2 * float(levels[0]) / step - doubled) > 1e-9 * LEVELS or abs(doubled) > 2**20:
        return None
    if doubled % 2:  # half a step off: integers of twice the size, in units of half a step
        return step / 2, 2, doubled + 256
    return step, 1, doubled // 2 + 128


def _round_step(step: float) -> float:
    """A whole number, or 1 over a whole or half one such as 255, where that is what it is to rounding."""
    if round(step) > 0 and abs(step - round(step)) <= 1e-13 * step:
        return float(round(step))
    inverse = round(2 / step) / 2
    return 1 / inverse if inverse and abs(step * inverse - 1) <= 1e-13 else step


def _directions(X: np.ndarray) -> IntegerRows | None:
    """Rows of norm 1 that are integers from 0 to 255 over their own norm, as images scaled to norm 1 are; else None.

    The largest entry of such a row is k over its norm for a k that is looked for from 255 down: the first for which all entries are
    integers is it, or a multiple of it, which has the same direction.
    """
    pixels = np.empty(X.shape, dtype=np.int8)
    height = max(1, 2**20 // X.shape[1])
    for start in [0, *range(8, len(X), height)]:  # eight rows first: most tables are told apart by them
        part = X[start : start + (8 if start == 0 else height)]
        if not (part.min() >= 0 and np.abs(np.square(part).sum(axis=1) - 1).max() <= 1e-13):
            return None
        largest = part.max(axis=1, keepdims=True)
        left = np.arange(len(part))
        for level in range(LEVELS - 1, 0, -1):
            # a few entries tell most levels apart
            trial = level * (part[left][:, :: max(1, part.shape[1] // 64)] / largest[left])
            likely = left[np.abs(trial - np.rint(trial)).max(axis=1) <= 1e-11]
            if not len(likely):
                continue
            whole = level * (part[likely] / largest[likely])
            fits = np.abs(whole - np.rint(whole)).max(axis=1) <= 1e-11
            pixels[start + likely[fits]] = np.rint(whole[fits]) - 128
            left = np.setdiff1d(left, likely[fits], assume_unique=True)
            if not len(left):
                break
        if len(left):
            return None
    return IntegerRows(pixels, None)
