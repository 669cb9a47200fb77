"""A model on its rows as a function of one long vector of weights: outputs, and products with its Jacobian from both sides."""

from __future__ import annotations

import abc

import numpy as np


class AbstractModelSteps(abc.ABC):
    """What descent by hand needs of a model. NumPy float64 goes in and comes out; the model is never changed.

    Outputs are (n, k), also for one output; a vector of weights is (weights,), in an order of its own.
    """

    @property
    @abc.abstractmethod
    def start(self) -> np.ndarray:
        """The trained weights as they are."""

    @abc.abstractmethod
    def outputs(self, w: np.ndarray) -> np.ndarray:
        """The outputs (n, k) at these weights."""

    @abc.abstractmethod
    def pull(self, w: np.ndarray, c: np.ndarray) -> np.ndarray:
        """J(w)ᵀ c for c (n, k): a vector of weights."""

    @abc.abstractmethod
    def push(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """J(w) v for a vector of weights: (n, k)."""
