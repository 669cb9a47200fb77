"""What every target function has: its law of inputs, its values, samples with noise, and what the noise costs."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import numpy as np

from overparam.core import checks
from overparam.data.dataset import Dataset
from overparam.data.input_laws import positive, whole_number
from overparam.data.keys import generator

DRAWS = 2**15
"""Points on which the variance of a target is measured where one is asked for."""


class Estimate(NamedTuple):
    """A mean over drawn points, and its standard error."""

    value: float
    standard_error: float


class AbstractTarget(abc.ABC):
    """A function of d inputs with `outputs` values and a law of its inputs.

    What follows has three methods of its own: `inputs`, `values` and `complexity`.
    """

    d: int
    outputs: int

    @abc.abstractmethod
    def inputs(self, n: int, *, key: Any) -> np.ndarray:
        """`n` points of the law, shape (n, d); the first of many are the same for every n."""

    @abc.abstractmethod
    def values(self, X: np.ndarray) -> np.ndarray:
        """Values at checked rows, always of shape (n, outputs)."""

    @abc.abstractmethod
    def complexity(self, epsilon: Any = None, C: float = 1e4) -> Any:
        """What the theorems ask of its parts, in natural logarithms."""

    def __call__(self, X: Any) -> np.ndarray:
        """Values at the rows of X: (n,), or (n, k) for k > 1."""
        X = checks.finite_matrix(X)
        if X.shape[1] != self.d:
            raise ValueError(f"`X` has {X.shape[1]} columns; the target takes {self.d}")
        values = self.values(X)
        return values[:, 0] if self.outputs == 1 else values

    def sample(
        self, n: int, *, key: Any, noise: float = 0.0, flips: float = 0.0, test: int = 0, test_noise: float = 0.0
    ) -> Dataset:
        """`n` inputs of the law with y = H(x) + noise · N(0, 1), and `test` more, drawn on their own, as test rows.

        Test labels are exact unless `test_noise` says otherwise, so that an error on them estimates E‖H − f‖². All
        draws are independent: on a small cube a test point can be a training point too.

        Args:
            key: an int or a JAX key. The first rows of a sample do not depend on n, nor on `test`.
            noise: standard deviation, of every output; `opt` gives what it costs the best function.
            flips: chance that a row's values change sign, for targets whose values are ±1.
        """
        test = whole_number(test, "test")
        for name, value in (("noise", noise), ("test_noise", test_noise)):
            _standard_deviation(value, name)
        _chance(flips)
        rng = generator(key, 1)
        inside, outside, errors = (int(word) for word in rng.integers(2**62, size=3))
        X = self.inputs(n, key=inside)
        y = self(X)
        note = ()
        if noise or flips:
            note = (f"y = H(x) with {_words(noise, flips)}: OPT = {self.opt(noise=noise, flips=flips):.6g}",)
        if flips:
            self._require_signs(y)
            signs = np.where(generator(errors, 1).random(len(y)) < flips, -1.0, 1.0)
            y = y * (signs if y.ndim == 1 else signs[:, None])
        y = y + noise * generator(errors).standard_normal(y.shape)
        new = None
        if test:
            there = self.inputs(test, key=outside)
            exact = self(there)
            seen = exact if not test_noise else exact + test_noise * generator(errors, 2).standard_normal(exact.shape)
            new = self._dataset(there, seen, None, ())
        return self._dataset(X, y, new, note)

    def opt(self, *, noise: float = 0.0, flips: float = 0.0) -> float:
        """OPT = E ½‖H(x) − y‖² of labels with that noise: k (noise² + 4 flips)/2, summed over the k outputs.

        The error E‖H − y‖² without the ½, which is what tests and figures show, is 2·OPT.

        Ref: beyond_kernels, Sec. 5
        """
        return self.outputs * (_standard_deviation(noise, "noise") ** 2 + 4 * _chance(flips)) / 2

    def measure_variance(self, n: int = 2**14, *, key: Any = 0) -> Estimate:
        """E‖H − E H‖² over `n` drawn inputs, summed over outputs."""
        values = self.values(self.inputs(whole_number(n, "n", 2), key=key))
        return mean_square(values - values.mean(axis=0), lost=1)

    def _dataset(self, X: np.ndarray, y: np.ndarray, test: Dataset | None, notes: tuple[str, ...]) -> Dataset:
        return Dataset(X, y, labels=y, task="regression", name=repr(self), test=test, notes=notes)

    def _require_signs(self, y: np.ndarray) -> None:
        odd = np.flatnonzero(np.abs(y) != 1)
        if len(odd):
            raise ValueError(
                f"`flips` is for targets with values ±1; this one gives {y.ravel()[odd[0]]:g}: pass `noise` instead"
            )


def scale_for_variance(target: AbstractTarget, variance: float, *, key: Any) -> float:
    """The s for which s·f has that variance, averaged over outputs, on `DRAWS` inputs of the law."""
    positive(variance, "variance")
    there = float(np.var(target.values(target.inputs(DRAWS, key=key)), axis=0).mean())
    if there < 1e-24:
        raise ValueError("the target is constant on the inputs and cannot be given a variance; change its functions")
    return float(np.sqrt(variance / there))


def mean_square(residuals: np.ndarray, *, lost: int = 0) -> Estimate:
    """E‖r‖² over the rows of (n, k) residuals; `lost` degrees of freedom went into them.

    >>> mean_square(np.array([[1.0, 1.0], [2.0, 0.0]]))
    Estimate(value=3.0, standard_error=1.0)
    """
    squares = (residuals**2).sum(axis=1)
    n = len(squares)
    scale = n / (n - lost)
    return Estimate(float(scale * squares.mean()), float(scale * squares.std(ddof=1) / np.sqrt(n)))


def _standard_deviation(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value < np.inf:
        raise ValueError(f"`{name}` is {value!r}; expected a standard deviation ≥ 0")
    return float(value)


def _chance(flips: Any) -> float:
    if isinstance(flips, bool) or not isinstance(flips, int | float | np.number) or not 0 <= flips <= 1:
        raise ValueError(f"`flips` is {flips!r}; expected a chance from 0 to 1")
    return float(flips)


def _words(noise: float, flips: float) -> str:
    parts = [f"Gaussian noise of standard deviation {noise:g}"] if noise else []
    return " and ".join([*parts, *([f"sign flips of chance {flips:g}"] if flips else [])])
