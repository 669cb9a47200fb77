"""How one column becomes features, and which part each column of a table has: chosen once, used on every table alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from overparam.data.labels import as_labels, whole_numbers
from overparam.data.readers.tables import Column


@final
@dataclass(frozen=True)
class Encoder:
    """How one column becomes features. fill: for missing numbers; categories: of text; gap: the one that stands for missing."""

    column: str
    kind: str
    fill: float = 0.0
    categories: tuple[str, ...] = ()
    gap: str | None = None

    @property
    def shown(self) -> tuple[str, ...]:
        """The categories that have a column: all, or the second of two."""
        return self.categories if len(self.categories) != 2 else self.categories[1:]

    @property
    def features(self) -> list[str]:
        """The names of its features."""
        return [f"{self.column}={value}" for value in self.shown] if self.kind == "text" else [self.column]

    def block(self, values: np.ndarray, holes: np.ndarray) -> np.ndarray:
        """The features of these values. A category not met before is 0 in all columns, and between the two in the one of two."""
        if self.kind != "text":
            return (np.where(holes, self.fill, values) if holes.any() else values)[:, None]
        block = np.empty((len(values), len(self.shown)))
        for j, category in enumerate(self.shown):
            block[:, j] = np.where(holes, category == self.gap, values == category)
        if len(self.categories) == 2:
            first = self.categories[0]
            block[(block[:, 0] == 0) & ~np.where(holes, first == self.gap, values == first)] = 0.5
        return block


class Chosen(NamedTuple):
    """The columns of a table by their part in it."""

    labels: list[Column]
    group: Column | None
    features: list[Column]


def given_labels(y: Any, n: int) -> Column:
    """Labels that came beside a table as a column of it."""
    labels = as_labels(y, n)
    kind = {"U": "text", "b": "boolean"}.get(labels.dtype.kind, "number")
    values = labels if kind == "text" else labels.astype(np.float64)
    return Column("y", values, np.zeros(len(labels), dtype=bool), kind=kind)


def values_as(column: Column, kind: str) -> np.ndarray:
    """The values of a column; numbers as text where the training table has text."""
    if kind != "text" or column.is_text:
        return column.values
    plain = whole_numbers(np.nan_to_num(column.values, nan=0.0))
    return np.array([str(value) for value in plain.tolist()], dtype=str)
