"""Classical kernels, closed forms of two norms and an angle: polynomial, Gaussian, Laplace, recursive."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, final

import numpy as np

from overparam.core import checks
from overparam.core.checks import require_counts
from overparam.core.kernel import KINDS, AbstractInnerProductKernel, AbstractKernel
from overparam.core.kernel_algebra import whole_power
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
        """By `quick`: right to rounding where rows are not near-parallel."""
        checks.one_of(get, "get", KINDS)
        return self.quick(xp, rho, size, other)

    def from_gaps(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any, get: str = "ntk") -> Any:
        """By `formula`, with all digits."""
        checks.one_of(get, "get", KINDS)
        return self.formula(xp, apart, together, size, other)

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        """The kernel of every row with itself."""
        checks.one_of(get, "get", KINDS)
        norms = checks.usable_norms(X, "X", zero=self.zero_rows)
        return self.formula(np, np.zeros_like(norms), np.full_like(norms, 2.0), norms, norms)

    @property
    def any_digits(self) -> bool:
        """A formula is a formula."""
        return True


class AbstractExpectedKernel(AbstractKernel):
    """A kernel that is a mean over random weights, k(x, z) = E_w φ_w(x)·φ_w(z): `RandomFeatures` samples it."""

    @abc.abstractmethod
    def draw(self, generator: np.random.Generator, d: int, count: int) -> np.ndarray:
        """`count` weights w as rows, of d numbers or, with a bias as the last, d + 1."""

    @abc.abstractmethod
    def features(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """φ_w(x) of every row of `X` for every weight, a column or two a weight."""


def fourier_features(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    """cos(w·x) of every weight, then sin(w·x): their products have the mean of cos(w·(x − z)), a kernel of x − z."""
    phases = X @ W.T
    return np.hstack([np.cos(phases), np.sin(phases)])


@dataclass(frozen=True)
class AbstractDistanceKernel(AbstractExpectedKernel, AbstractClassicalKernel):
    """A kernel of ‖x − z‖ over a bandwidth, with the Fourier features of its random frequencies."""

    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        checks.positive(self.bandwidth, "bandwidth")

    def quick(self, xp: ModuleType, rho: Any, size: Any, other: Any) -> Any:
        """The formula from cos θ: a distance loses nothing where |cos θ| is not close to 1."""
        return self.formula(xp, 1 - rho, None, size, other)

    def features(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """cos(w·x), then sin(w·x)."""
        return fourier_features(X, W)

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


@final
@dataclass(frozen=True)
class Polynomial(AbstractClassicalKernel):
    """k(x, z) = (scale · x·z + constant)^degree.

    `Polynomial(1, constant=0)` is the linear kernel x·z.

    Args:
        degree: a whole number from 1 on.
        constant: ≥ 0; above 0 all lower degrees are in too.
        scale: > 0.

    (1·2 + 1)² of the numbers 1 and 2:

    >>> Polynomial(degree=2, constant=1.0)([[1.0]], [[2.0]])
    array([[9.]])
    """

    degree: int = 2
    constant: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        require_counts(self, "degree")
        checks.positive(self.constant, "constant", zero=True)
        checks.positive(self.scale, "scale")

    def formula(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any) -> Any:
        """(scale ‖x‖‖z‖ cos θ + constant)^degree."""
        return self.quick(xp, (together - apart) * 0.5, size, other)

    def quick(self, xp: ModuleType, rho: Any, size: Any, other: Any) -> Any:
        """The same from cos θ."""
        inner = rho * (size * self.scale) * other
        return whole_power(inner + self.constant if self.constant else inner, int(self.degree))

    @property
    def entry_rounding(self) -> float:
        """A power multiplies the rounding of an inner product."""
        return max(1e-14, 5e-16 * self.degree)

    @property
    def zero_rows(self) -> bool:
        """A row of zeros is a point like any other."""
        return True

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        """Rows whose powers are in range."""
        X = checks.finite_matrix(X, name)
        norms = checks.usable_norms(X, name, zero=True)
        with np.errstate(over="ignore", under="ignore"):
            checks.usable_values((self.scale * norms**2 + self.constant) ** int(self.degree), norms, name)
        return X


@final
class Gaussian(AbstractDistanceKernel):
    """k(x, z) = exp(−‖x − z‖² / (2 s²)), s the bandwidth.

    The mean of cos(w·x) cos(w·z) + sin(w·x) sin(w·z) over w ~ N(0, I/s²). Distances come from norms and angles, so an
    error of about 1e-16 ‖x‖/s is to be expected: data far from the origin should be centred first.

    Args:
        bandwidth: s. `Gaussian.from_gamma(g)` writes the kernel exp(−g ‖x − z‖²).

    Two rows at distance √2:

    >>> Gaussian(bandwidth=1.0)([[1.0, 0.0], [0.0, 1.0]]).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    @classmethod
    def from_gamma(cls, gamma: float) -> Gaussian:
        """exp(−gamma ‖x − z‖²), as scikit-learn writes it: the bandwidth is 1/√(2 gamma).

        >>> Gaussian.from_gamma(0.5)
        Gaussian(bandwidth=1.0)
        """
        checks.positive(gamma, "gamma")
        return cls(float(1 / np.sqrt(2 * gamma)))

    def formula(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any) -> Any:
        """exp(−((‖x‖ − ‖z‖)² + 2‖x‖‖z‖(1 − cos θ)) / (2 s²))."""
        return xp.exp(squared_distance(apart, size / self.bandwidth, other / self.bandwidth) * -0.5)

    def draw(self, generator: np.random.Generator, d: int, count: int) -> np.ndarray:
        """w ~ N(0, I/s²)."""
        return generator.standard_normal((count, d)) / self.bandwidth


def median_distance(X: Any, *, rows: int = 1000, key: int = 0, columnwise: bool = False) -> float:
    """The median of the distances between two rows of `X`, a common choice of bandwidth.

    Args:
        X: rows of finite numbers, at least two of them different.
        rows: how many rows to look at, drawn without return where `X` has more.
        key: the draw.
        columnwise: whether distances are Σ_j |x_j − z_j|, those of `ProductLaplace`, and not Euclidean.

    Of three points on a line the distances are 1, 2 and 3:

    >>> median_distance([[0.0], [1.0], [3.0]])
    2.0
    """
    from scipy.spatial.distance import pdist

    X = checks.finite_matrix(X, "X")
    if len(X) < 2:
        raise ValueError("`X` has 1 row; distances need at least 2")
    if rows < 2:
        raise ValueError(f"`rows` is {rows}; expected at least 2")
    if len(X) > rows:
        X = X[np.random.default_rng(key).choice(len(X), size=rows, replace=False)]
    scale = float(np.abs(X).max()) or 1.0
    found = scale * float(np.median(pdist(X / scale, "cityblock" if columnwise else "euclidean")))
    if not found > 0:
        raise ValueError(
            "`X` has more than half of its pairs of rows equal: their median distance is 0; drop duplicates"
        )
    return found


@final
class Laplace(AbstractDistanceKernel):
    """k(x, z) = exp(−‖x − z‖ / s), s the bandwidth and ‖·‖ the Euclidean norm.

    The mean of cos(w·x) cos(w·z) + sin(w·x) sin(w·z) over w from a Cauchy law in d dimensions. Distances come from
    norms and angles, so an error of about 1e-16 ‖x‖/s is to be expected: data far from the origin should be centred
    first. scikit-learn's `laplacian_kernel`, of the sum of absolute differences, is `ProductLaplace`.

    Args:
        bandwidth: s.

    Two rows at distance 5:

    >>> Laplace(bandwidth=5.0)([[3.0, 0.0], [0.0, 4.0]]).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    def formula(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any) -> Any:
        """exp(−√((‖x‖ − ‖z‖)² + 2‖x‖‖z‖(1 − cos θ)) / s)."""
        return xp.exp(-xp.sqrt(squared_distance(apart, size / self.bandwidth, other / self.bandwidth)))

    def draw(self, generator: np.random.Generator, d: int, count: int) -> np.ndarray:
        """w = g/(s|h|), g ~ N(0, I), h ~ N(0, 1): the Fourier transform of exp(−‖x‖/s)."""
        heavy = np.abs(generator.standard_normal((count, 1)))
        return generator.standard_normal((count, d)) / heavy / self.bandwidth


@final
@dataclass(frozen=True)
class Recursive(AbstractClassicalKernel):
    """k_l = f(k_{l−1}) with k_0 = x·z, `depth` times.

    A kernel as long as f is a power series with coefficients ≥ 0. The kernel of the paper has f(k) = 1/(2 − k) for rows
    of norm at most 1; then 1 − k_l = g/(1 + l g) with g = 1 − x·z.

    Args:
        depth: how often f is applied, from 1 on.
        function: "inverse" is 1/(2 − k), "exponential" exp(k − 1); or a function of arrays whose power series has
            coefficients ≥ 0, for which no one but you can vouch.

    Two orthogonal rows: 0 → 1/2 → 2/3:

    >>> Recursive(depth=2).evaluate([1.0, 0.0], [0.0, 1.0])
    0.6666666666666667
    """

    depth: int = 1
    function: Literal["inverse", "exponential"] | Callable[[Any], Any] = "inverse"

    def __post_init__(self) -> None:
        require_counts(self, "depth")
        if self.function not in ("inverse", "exponential") and not callable(self.function):
            raise ValueError(f"`function` is {self.function!r}; expected 'inverse', 'exponential' or a function")

    def formula(self, xp: ModuleType, apart: Any, together: Any, size: Any, other: Any) -> Any:
        """From 1 − x·z = (1 − ‖x‖‖z‖) + ‖x‖‖z‖(1 − cos θ), which keeps its digits where it is small."""
        length = size * other
        gap = (1 - length) + length * apart
        if self.function == "inverse":
            return 1 - gap / (1 + self.depth * gap)
        if not callable(self.function):
            for _ in range(self.depth):
                gap = -xp.expm1(-gap)
            return 1 - gap
        value = length * (together - apart) * 0.5
        for _ in range(self.depth):
            value = self.function(value)
        return value

    def quick(self, xp: ModuleType, rho: Any, size: Any, other: Any) -> Any:
        """The same from cos θ."""
        return self.formula(xp, 1 - rho, 1 + rho, size, other)

    @property
    def zero_rows(self) -> bool:
        """A row of zeros is a point like any other."""
        return True

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        """Rows of norm at most 1 for 1/(2 − k), which has a pole at 2; otherwise rows whose kernel is in range."""
        X = checks.finite_matrix(X, name)
        norms = checks.usable_norms(X, name, zero=True)
        long = np.flatnonzero(norms > 1 + 1e-12)
        if self.function == "inverse" and len(long):
            raise ValueError(
                f"`{name}` has {count_of(len(long), 'row')} of norm above 1 (first: row {long[0]} of norm "
                f"{norms[long[0]]:.4g}); 1/(2 − x·z) is a kernel only up to norm 1: divide by the largest norm"
            )
        with np.errstate(all="ignore"):
            values = np.broadcast_to(self.formula(np, 0.0 * norms, 2 + 0.0 * norms, norms, norms), norms.shape)
        checks.usable_values(values, np.zeros_like(norms), name)
        return X
