"""What a kernel's regression predicts for each row without a set of rows that may overlap others' sets, or from part of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import final

import numpy as np

from overparam.core.machine import blas_threads
from overparam.spectrum.cholesky import factor

ONE_THREAD = 2_500
"""Rows up to which one thread is used: several gain little there, and lose much where other programs run beside."""


@final
class SetsLeftOut:
    """The regression on n rows with one matrix and one ridge.

    With A = (K + ρI)⁻¹ and the set S of row i, which holds it: y_i − f₋S(x_i) = ([A_SS]⁻¹ [A y]_S)_i.
    """

    def __init__(
        self, K: np.ndarray, Y: np.ndarray, ridge: float, in_units: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        self._K, self._Y, self._ridge, self._in_units = K, Y, ridge, in_units
        self._threads = 1 if len(K) <= ONE_THREAD else None

    @cached_property
    def _inverse(self) -> np.ndarray:
        return np.asarray(factor(self._K, self._ridge).solve(np.eye(len(self._K))))

    def without(self, sets: Sequence[np.ndarray]) -> np.ndarray:
        """Predictions for every row by the fit without its set, in the units of y.

        sets: of each row, in their order, the places of those that leave, its own first.
        """
        found = self._Y.copy()
        with blas_threads(self._threads):
            inverse = self._inverse
            solved = inverse @ self._Y
            for one in sets:
                found[one[0]] -= np.linalg.solve(inverse[np.ix_(one, one)], solved[one])[0]
        return self._in_units(found)

    def by_part(self, part: np.ndarray) -> np.ndarray:
        """Predictions for every row by the fit to those at some places alone: for those themselves it has seen them."""
        with blas_threads(self._threads):
            solved = factor(self._K[np.ix_(part, part)], self._ridge).solve(self._Y[part])
            return self._in_units(self._K[:, part] @ solved)
