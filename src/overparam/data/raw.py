"""What a reader hands to the front door: features and labels as in the source, before any row is chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Raw:
    """Features and labels as read.

    X is (n, d) of any number type: bytes stay bytes until the rows are chosen, so that a whole
    image set need not be in memory as float64. `shuffle` marks sources that are often sorted by class.
    """

    X: np.ndarray
    labels: np.ndarray
    name: str
    kind: str = "table"
    features: tuple[str, ...] | None = None
    image_shape: tuple[int, ...] | None = None
    groups: np.ndarray | None = None
    rows: np.ndarray | None = None
    test: Raw | None = None
    notes: tuple[str, ...] = ()
    shuffle: bool = False
    task: str | None = None
