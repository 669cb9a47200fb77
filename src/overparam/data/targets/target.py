"""What every target function has: laws of its inputs, its values, samples with noise, and what the noise costs."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from overparam.core import checks
from overparam.core.checks import positive, whole_number
from overparam.core.words import count_of
from overparam.data.dataset import Dataset
from overparam.data.draws import generator
from overparam.data.scaling import pad_beyond_two_layers

LARGEST_CUBE = 24
"""The largest d for which all 2^d points are written out: 3 GiB."""


def cube_inputs(n: int, d: int, *, key: Any, size: float = 1.0) -> np.ndarray:
    """`n` points uniform on {±size}^d; size = 1/√d gives rows of norm 1.

    >>> X = cube_inputs(3, 4, key=0, size=0.5)
    >>> X.shape, bool((np.abs(X) == 0.5).all())
    ((3, 4), True)
    """
    n, d = whole_number(n, "n", 1), whole_number(d, "d", 1)
    positive(size, "size")
    return np.where(generator(key).random((n, d)) < 0.5, -float(size), float(size))


def sphere_inputs(n: int, d: int, *, key: Any) -> np.ndarray:
    """`n` points uniform on the unit sphere of R^d.

    >>> np.allclose((sphere_inputs(3, 5, key=0) ** 2).sum(axis=1), 1)
    True
    """
    rows = generator(key).standard_normal((whole_number(n, "n", 1), whole_number(d, "d", 1)))
    return rows / checks.row_norms(rows)[:, None]


def gaussian_inputs(n: int, d: int, *, key: Any) -> np.ndarray:
    """`n` points of N(0, I/d), of norm about 1.

    >>> gaussian_inputs(2, 3, key=0).shape
    (2, 3)
    """
    n, d = whole_number(n, "n", 1), whole_number(d, "d", 1)
    return generator(key).standard_normal((n, d)) / np.sqrt(d)


def padded_inputs(n: int, d: int, *, key: Any) -> np.ndarray:
    """`n` points uniform on all that the padding can give: ‖x‖ = 1, x_d = ½, x_{d−1} ≥ 0.

    They are the first d − 2 coordinates of a uniform point of the unit sphere in d − 1 dimensions, padded.

    Ref: beyond_two_layers, footnote 1

    >>> X = padded_inputs(3, 6, key=0)
    >>> np.allclose((X**2).sum(axis=1), 1), X[:, -1].tolist(), bool((X[:, -2] >= 0).all())
    (True, [0.5, 0.5, 0.5], True)
    """
    n, d = whole_number(n, "n", 1), whole_number(d, "d", 1)
    if d < 3:
        raise ValueError(f"`d` is {d!r}; expected at least 3: one coordinate of the data and the two padded ones")
    sphere = generator(key).standard_normal((n, d - 1))
    sphere /= checks.row_norms(sphere)[:, None]
    return pad_beyond_two_layers(sphere[:, : d - 2], longest=1.0)


LAWS: dict[str, Callable[..., np.ndarray]] = {
    "sphere": sphere_inputs,
    "cube": cube_inputs,
    "unit cube": lambda n, d, *, key: cube_inputs(n, d, key=key, size=whole_number(d, "d", 1) ** -0.5),
    "gaussian": gaussian_inputs,
    "padded": padded_inputs,
}
"""Laws by name. "cube" is {±1}^d, "unit cube" is {±1/√d}^d."""


def whole_cube(d: int, *, size: float = 1.0) -> np.ndarray:
    """All 2^d points of {±size}^d, for means that are exact.

    >>> whole_cube(2)
    array([[-1., -1.],
           [-1.,  1.],
           [ 1., -1.],
           [ 1.,  1.]])
    """
    d = whole_number(d, "d", 1)
    positive(size, "size")
    if d > LARGEST_CUBE:
        raise ValueError(f"`d` is {d}; 2^{d} points are too many to write out: draw some by `cube_inputs`")
    bits = np.arange(2**d, dtype=np.int64)[:, None] >> np.arange(d - 1, -1, -1) & 1
    return np.where(bits == 1, float(size), -float(size))


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
            raise ValueError(f"`X` has {count_of(X.shape[1], 'column')}; the target takes {self.d}")
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
        cost = self.opt(noise=noise, flips=flips)
        positive(test_noise, "test_noise", zero=True)
        rng = generator(key, 1)
        inside, outside, errors = (int(word) for word in rng.integers(2**62, size=3))
        X = self.inputs(n, key=inside)
        y = self(X)
        note = ()
        if noise or flips:
            note = (f"y = H(x) with {_words(noise, flips)}: OPT = {cost:.6g}",)
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
        noise, flips = positive(noise, "noise", zero=True), checks.share(flips, "flips", zero=True, one=True)
        return self.outputs * (noise**2 + 4 * flips) / 2

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


def _words(noise: float, flips: float) -> str:
    parts = [f"Gaussian noise of standard deviation {noise:g}"] if noise else []
    return " and ".join([*parts, *([f"sign flips of chance {flips:g}"] if flips else [])])
