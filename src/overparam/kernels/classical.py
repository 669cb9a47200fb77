"""What classical kernels share: closed forms of two norms and an angle, with no network behind them."""

from __future__ import annotations

import abc
from numbers import Real
from types import ModuleType
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.kernel import AbstractInnerProductKernel
from overparam.core.words import count_of


class AbstractClassicalKernel(AbstractInnerProductKernel):
    """A closed form of ‖x‖, ‖z‖ and the angle between them.

    No network is behind it, so that "ntk" and "nngp" both name the kernel itself.
    """

    @abc.abstractmethod
    def formula(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any) -> Any:
        """The kernel from 1 − cos θ and 1 + cos θ, with no more rounding than they have, elementwise."""

    @abc.abstractmethod
    def quick(self, xp: ModuleType, rho: Any, size: Any, other: Any) -> Any:
        """The kernel from cos θ, in few and fast passes; right to rounding where |cos θ| ≤ 1 − 1e-3."""

    def from_cosines(self, xp: ModuleType, rho: Any, size: Any, other: Any, get: str = "ntk") -> Any:
        """The quick way."""
        self._known(get)
        return self.quick(xp, rho, size, other)

    def from_gaps(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any, get: str = "ntk") -> Any:
        """The formula."""
        self._known(get)
        return self.formula(xp, apart, together, size, other)

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        """The kernel of every row with itself."""
        self._known(get)
        norms = checks.usable_norms(X, "X", zero=self.zero_rows)
        return self.formula(np, np.zeros_like(norms), np.full_like(norms, 2.0), norms, norms)

    @property
    def any_digits(self) -> bool:
        """A formula is a formula."""
        return True

    def _known(self, get: str) -> None:
        if get not in ("ntk", "nngp"):
            raise ValueError(f"`get` is {get!r}; {type(self).__name__} has 'ntk' and 'nngp', which are the same")


class AbstractExpectedKernel(AbstractClassicalKernel):
    """A kernel that is a mean over random weights, k(x, z) = E_w φ_w(x)·φ_w(z): `RandomFeatures` samples it."""

    @abc.abstractmethod
    def draw(self, generator: np.random.Generator, d: int, count: int) -> np.ndarray:
        """`count` weights w as rows, of d numbers or, with a bias as the last, d + 1."""

    @abc.abstractmethod
    def features(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """φ_w(x) of every row of `X` for every weight, a column or two a weight."""


class AbstractDistanceKernel(AbstractExpectedKernel):
    """A kernel of ‖x − z‖ over a bandwidth, with the Fourier features of its random frequencies."""

    bandwidth: float

    def __post_init__(self) -> None:
        positive(self.bandwidth, "bandwidth")

    def quick(self, xp: ModuleType, rho: Any, size: Any, other: Any) -> Any:
        """The formula from cos θ: a distance loses nothing where |cos θ| is not close to 1."""
        return self.formula(xp, 1 - rho, None, size, other)

    def features(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """cos(w·x), then sin(w·x)."""
        phases = X @ W.T
        return np.hstack([np.cos(phases), np.sin(phases)])

    @property
    def entry_rounding(self) -> float:
        """More than of most kernels, since rows may be many bandwidths long."""
        return DISTANCE_ROUNDING

    @property
    def zero_rows(self) -> bool:
        """A row of zeros is a point like any other."""
        return True

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        """Rows that are not too many bandwidths from the origin."""
        return near_enough(X, self.bandwidth, name)


def squared_distance(apart: Any, size: Any, other: Any) -> Any:
    """‖x − z‖² = (‖x‖ − ‖z‖)² + 2‖x‖‖z‖(1 − cos θ): two terms that are ≥ 0.

    >>> float(squared_distance(1.0, 3.0, 4.0))
    25.0
    """
    return (size - other) ** 2 + 2 * size * other * apart


def positive(value: Any, name: str, *, zero: bool = False) -> None:
    """Check that a setting of a kernel is a finite number above 0, or from 0 on."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    if not (0 < number < np.inf or (zero and number == 0)):
        raise ValueError(f"`{name}` is {value!r}; expected a finite number {'from 0 on' if zero else 'above 0'}")


LARGEST_RATIO = 1e4
"""Rows longer than this many bandwidths are refused: the kernel of two that are close would be off by more than 1e-12."""
DISTANCE_ROUNDING = 5e-13
"""Half of what a kernel of distances may be off at `LARGEST_RATIO`; rows of a few bandwidths lose some 1e-14."""


def near_enough(X: Any, bandwidth: float, name: str) -> np.ndarray:
    """`X` checked for a kernel of distances: rows not longer than `LARGEST_RATIO` bandwidths."""
    X = checks.finite_matrix(X, name)
    norms = checks.row_norms(X)
    far = np.flatnonzero(norms > LARGEST_RATIO * bandwidth)
    if len(far):
        raise ValueError(
            f"`{name}` has {count_of(len(far), 'row')} of more than {LARGEST_RATIO:.0e} bandwidths (first: row "
            f"{far[0]} of norm {norms[far[0]]:.1e}, bandwidth {bandwidth:g}); subtract the mean of the rows, or take a "
            "larger bandwidth such as `op.kernels.median_distance(X)`"
        )
    return X
