"""Any kernel on the cube: λ_S, how much of each product of coordinates is in its space, and what couples them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.core.kernel import AbstractKernel
from overparam.core.progress import Progress, silent
from overparam.core.words import count_of, duration
from overparam.data import generator, whole_cube
from overparam.kernels import RandomFeatures

MOST_EVALUATIONS = 2**28
"""Kernel evaluations that are made at most: every pair of corners up to d = 14."""
LARGEST_DIMENSION = 20
"""All corners are written out, 2^d rows of d numbers."""
PANEL = 2**20
"""Kernel values held at once."""
SPREAD = 4.0
"""Standard errors by which a drawn average may be off in a certificate."""

Subset = tuple[int, ...]
KernelLike = AbstractKernel | Callable[[np.ndarray, np.ndarray], Any]


@final
@dataclass(frozen=True)
class SubsetCost:
    """What a subset spectrum will cost, before it is paid; `print(cost)` says it."""

    evaluations: int
    """Kernel values, or rows of features where the map is explicit."""
    seconds: float
    of_features: bool

    def __str__(self) -> str:
        what = "rows of features" if self.of_features else "kernel evaluations"
        return f"{self.evaluations:,} {what}, about {duration(self.seconds, rough=True)}"


@final
@dataclass(frozen=True, eq=False)
class SubsetSpectrum:
    """λ_S = E_{x,y} χ_S(x) K(x, y) χ_S(y) for x, y uniform on the corners of a cube, χ_S the product of the signs in S.

    Any function f in the kernel's space has E[f χ_S]² ≤ λ_S ‖f‖². Where K depends on the products x_i y_i alone, λ_S are
    the kernel's eigenvalues; for other kernels the χ_S are no eigenfunctions, and `matrix` has what couples them.
    """

    dimension: int
    radius: float
    """The norm of the corners."""
    subsets: tuple[Subset, ...]
    values: np.ndarray
    """λ_S, one a subset."""
    errors: np.ndarray
    """How far each may be off: a bound of rounding, or the standard error where corners were drawn."""
    matrix: np.ndarray | None
    """E χ_S(x) K(x, y) χ_T(y) for the subsets that were named; None where all 2^d were taken."""
    matrix_error: float
    """The same error of the matrix, in the spectral norm."""
    corners: int
    """How many x were averaged over; every y was."""
    exact: bool
    """Whether these are all corners."""
    cost: SubsetCost
    """Planned evaluations, and the seconds that were foreseen."""
    seconds: float
    """What it took."""

    @property
    def positive(self) -> bool:
        """Whether no λ_S is below 0 by more than its error (four standard errors where corners were drawn)."""
        return bool(np.all(self.values >= -(1.0 if self.exact else SPREAD) * self.errors))

    def of(self, subset: Sequence[int]) -> float:
        """λ_S of one subset."""
        return float(self.values[self._place(subset)])

    def by_degree(self) -> dict[int, tuple[float, float, float]]:
        """Degree → the least, the mean and the largest λ_S of the subsets of that size: all equal for inner products."""
        sizes = np.array([len(S) for S in self.subsets])
        found = {int(size): self.values[sizes == size] for size in np.unique(sizes)}
        return {size: (float(own.min()), float(own.mean()), float(own.max())) for size, own in found.items()}

    def part(self, subsets: Sequence[Subset]) -> np.ndarray:
        """The matrix of some of the named subsets."""
        if self.matrix is None:
            raise ValueError("this spectrum has λ_S alone; name the `subsets` of the target for what couples them")
        places = [self._place(S) for S in subsets]
        return self.matrix[np.ix_(places, places)]

    def _place(self, subset: Sequence[int]) -> int:
        wanted = checked_subset(subset, self.dimension)
        if wanted not in self.subsets:
            raise ValueError(f"the spectrum has no {wanted}; it was taken of {len(self.subsets)} other subsets")
        return self.subsets.index(wanted)


def subset_cost(
    kernel: KernelLike, dimension: int, *, centres: int | None = None, get: str = "ntk", radius: float = 1.0
) -> SubsetCost:
    """The evaluations and seconds that `subset_spectrum` will take, from one small block; refused as that would be.

    >>> from overparam.kernels import Polynomial
    >>> subset_cost(Polynomial(2), 10).evaluations
    1048576
    """
    own = as_kernel(kernel)
    dimension = checks.whole_number(dimension, "dimension", 1)
    explicit = isinstance(own, RandomFeatures) and centres is None
    if dimension > LARGEST_DIMENSION:
        raise ValueError(
            f"`dimension` is {dimension}; 2^{dimension} corners are too many to write out: at most {LARGEST_DIMENSION} "
            "(`spectrum_on_cube` takes kernels of inner products to 1,000)"
        )
    if centres is not None and not checks.whole_number(centres, "centres", 2) <= 2**dimension:
        raise ValueError(f"`centres` is {centres}; the cube has 2^{dimension} = {count_of(2**dimension, 'corner')}")
    rows = 2**dimension if centres is None else centres
    evaluations = 2**dimension if explicit else rows * 2**dimension
    if evaluations > MOST_EVALUATIONS:
        most = MOST_EVALUATIONS // 2**dimension
        raise ValueError(
            f"`dimension` is {dimension}: that is {evaluations:,} kernel evaluations, and {MOST_EVALUATIONS:,} are the "
            f"most made here; pass `centres`, at most {count_of(most, 'drawn corner')}, for means with standard errors"
        )
    few = whole_cube(dimension, size=_size(radius, dimension))[: 2 ** min(dimension, 9)]
    own.inputs(few[:1], "corners")  # one line where the kernel takes no such rows
    started = time.perf_counter()
    if explicit:
        assert isinstance(own, RandomFeatures)
        tried, _ = len(few), own.features(few)
    else:
        part = few[: max(1, len(few) // 8)]
        tried = _block(own, part, few, get).size
    return SubsetCost(evaluations, (time.perf_counter() - started) * evaluations / tried, explicit)


def subset_spectrum(
    kernel: KernelLike,
    dimension: int,
    subsets: Sequence[Sequence[int]] | None = None,
    *,
    centres: int | None = None,
    get: str = "ntk",
    radius: float = 1.0,
    key: Any = 0,
    progress: Progress | None = None,
) -> SubsetSpectrum:
    """λ_S = E_{x,y} χ_S(x) K(x, y) χ_S(y) of any positive semi-definite kernel, x and y uniform on the corners of a cube.

    Averaged over every pair of corners, 4^d of them. With y = x∘z it is the Walsh–Hadamard transform of
    h(z) = E_x K(x, x∘z), so that all 2^d subsets cost one transform. Only where K depends on x∘y alone is h(z) = K(1, z):
    kernels of inner products do, and convolutional ones with a flattened head; pooled ones and random features do not.
    For random features λ_S = ‖E χ_S φ‖², from 2^d rows. A function's values are taken to be right to 2e-14.

    Beyond d = 14, `centres` corners x are drawn, without repetition, and the mean over them has a standard error (every y
    is still summed over, so that a kernel of inner products has none).

    Ref: beyond_kernels, Prop. E.1

    Differs from the paper: any kernel, not correlation kernels alone. The paper's λ_S is √λ_S here.

    Args:
        kernel: any kernel of the house, or a positive semi-definite function of two blocks of rows, (p, d) and (q, d) to
            (p, q).
        dimension: d, at most 20.
        subsets: sets of coordinates from 0 on; all 2^d if None. For named ones `matrix` has their couplings.
        centres: how many corners x to draw; None for all.
        get: "ntk" or "nngp".
        radius: the norm of the corners: 1 for {±1/√d}^d, √d for {±1}^d.
        key: of the drawn corners.
        progress: called first with what it will cost, then with the work done. `subset_cost` says it beforehand.

    K(x, y) = x_1 y_1 on {±1}²: 1 for S = {1}, nothing else.

    >>> found = subset_spectrum(lambda X, Z: np.outer(X[:, 0], Z[:, 0]), 2, radius=2**0.5)
    >>> dict(zip(found.subsets, found.values.round(12).tolist()))
    {(): 0.0, (0,): 1.0, (1,): 0.0, (0, 1): 0.0}
    """
    own, tell = as_kernel(kernel), progress or silent
    cost = subset_cost(kernel, dimension, centres=centres, get=get, radius=radius)
    named = None if subsets is None else named_subsets(subsets, dimension)
    tell(0, cost.evaluations, f"subset spectrum: {cost}")
    started = time.perf_counter()
    cube = whole_cube(dimension, size=_size(radius, dimension))
    scale = float(np.max(own.diagonal(own.inputs(cube, "corners"), get)))
    if cost.of_features:
        found = _by_features(own, cube, named, scale)
    else:
        rows = np.arange(len(cube))
        if centres is not None:
            rows = np.sort(generator(key).choice(len(cube), size=centres, replace=False))
        every = _Panels(own, cube, rows, get, tell)
        found = _all_subsets(every, scale) if named is None else _couplings(every, named, scale)
    values, errors, matrix, matrix_error = found
    order = tuple(_all(dimension)) if named is None else named
    if named is None:
        places = [sum(1 << (dimension - 1 - i) for i in S) for S in order]
        values, errors = values[places], errors[places]
    corners = 2**dimension if centres is None else centres
    return SubsetSpectrum(
        dimension, float(radius), order, values, errors, matrix, matrix_error, corners, corners == 2**dimension, cost,
        time.perf_counter() - started,
    )  # fmt: skip


@final
@dataclass(frozen=True)
class _Given(AbstractKernel):
    """A kernel given as a function of two blocks of rows."""

    function: Callable[[np.ndarray, np.ndarray], Any]

    def evaluate(self, x: np.ndarray, z: np.ndarray, get: str = "ntk") -> float:
        return float(self.block(np.reshape(x, (1, -1)), np.reshape(z, (1, -1)), get)[0, 0])

    def block(self, X: np.ndarray, Z: np.ndarray, get: str = "ntk") -> np.ndarray:
        values = np.asarray(self.function(X, Z), dtype=np.float64)
        if values.shape != (len(X), len(Z)):
            raise ValueError(f"`kernel` gave shape {values.shape} for {len(X)} and {len(Z)} rows; expected one a pair")
        checks.require_finite(values, "kernel")
        return values

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        return np.array([self.evaluate(x, x, get) for x in X])


def as_kernel(kernel: Any) -> AbstractKernel:
    """A kernel of the house, or a function of two blocks of rows as one."""
    if isinstance(kernel, AbstractKernel):
        return kernel
    if callable(kernel):
        return _Given(kernel)
    raise ValueError(f"`kernel` is {kernel!r}; expected a kernel, or a function of two blocks of rows")


class _Panels:
    """K(x, ·) for the chosen corners x, some at a time: (their places, the values)."""

    def __init__(self, kernel: AbstractKernel, cube: np.ndarray, rows: np.ndarray, get: str, tell: Progress) -> None:
        self.kernel, self.cube, self.rows, self.get, self.tell = kernel, cube, rows, get, tell

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        height = max(1, PANEL // len(self.cube))
        for start in range(0, len(self.rows), height):
            places = self.rows[start : start + height]
            yield places, _block(self.kernel, self.cube[places], self.cube, self.get)
            done = min(start + height, len(self.rows)) * len(self.cube)
            self.tell(done, len(self.rows) * len(self.cube), "subset spectrum")


Averages = tuple[np.ndarray, np.ndarray, np.ndarray | None, float]
"""λ_S, their errors, the matrix where subsets were named, and its error."""


def _all_subsets(panels: _Panels, scale: float) -> Averages:
    """h(z) = mean over x of K(x, x∘z), transformed; with drawn x, each row transformed for the spread over them."""
    corners = np.arange(len(panels.cube))
    d, last, n = panels.cube.shape[1], len(corners) - 1, len(panels.rows)
    total, squares = np.zeros(len(corners)), np.zeros(len(corners))
    for places, values in panels:
        # the signs of x∘z agree where the bits of x and z do
        turned = np.take_along_axis(values, (last ^ places)[:, None] ^ corners, axis=1)
        if n < len(corners):
            turned = _transformed(turned, d)
            squares += (turned**2).sum(axis=0)
        total += turned.sum(axis=0)
    mean = total / n
    if n == len(corners):
        return _transformed(mean[None], d)[0], np.full(n, _rounding(panels, scale)), None, 0.0
    spread = np.sqrt(np.maximum(squares / n - mean**2, 0.0) / (n - 1))
    return mean, spread + _rounding(panels, scale), None, 0.0


def _couplings(panels: _Panels, subsets: tuple[Subset, ...], scale: float) -> Averages:
    """Mean over x of χ_S(x) E_y K(x, y) χ_T(y), and its spread over drawn x."""
    P = _products(panels.cube, subsets)
    n, total, squares = len(panels.rows), np.zeros((len(subsets),) * 2), np.zeros((len(subsets),) * 2)
    for places, values in panels:
        seen = values @ P / len(P)
        own = P[places][:, :, None] * seen[:, None, :]
        own = (own + own.transpose(0, 2, 1)) / 2
        total += own.sum(axis=0)
        squares += (own**2).sum(axis=0)
    M, rounding = total / n, _rounding(panels, scale)
    spread = np.zeros_like(M) if n == len(P) else np.sqrt(np.maximum(squares / n - M**2, 0.0) / (n - 1))
    errors = spread + rounding
    return np.diag(M).copy(), np.diag(errors).copy(), M, float(np.linalg.norm(errors))


def _by_features(kernel: Any, cube: np.ndarray, subsets: tuple[Subset, ...] | None, scale: float) -> Averages:
    """λ_S = ‖E χ_S φ‖², M_ST = ⟨E χ_S φ, E χ_T φ⟩."""
    features, (n, d) = kernel.features(cube), cube.shape
    error = (2 * kernel.entry_rounding + (n + features.shape[1] + 2 * d + 8) * float(np.finfo(float).eps)) * scale
    if subsets is None:
        width = max(1, PANEL // n)
        parts = (features[:, start : start + width].T for start in range(0, features.shape[1], width))
        values = sum((_transformed(part, d) ** 2).sum(axis=0) for part in parts)
        return np.asarray(values), np.full(n, error), None, 0.0
    seen = _products(cube, subsets).T @ features / n
    M = seen @ seen.T
    return np.diag(M).copy(), np.full(len(M), error), M, error * len(M)


def _transformed(rows: np.ndarray, d: int) -> np.ndarray:
    """E_z f(z) χ_S(z) of each row of values on the cube; bit d − 1 − i of a place is coordinate i, of z and of S alike.

    >>> _transformed(np.array([[1.0, -1.0, -1.0, 1.0]]), 2)  # x_1 x_2 on (−,−), (−,+), (+,−), (+,+)
    array([[0., 0., 0., 1.]])
    """
    values = np.array(rows, dtype=np.float64)
    for axis in range(d):
        pairs = values.reshape(len(values), 2**axis, 2, -1)
        low, high = pairs[:, :, 0].copy(), pairs[:, :, 1].copy()
        pairs[:, :, 0], pairs[:, :, 1] = (high + low) / 2, (high - low) / 2
    return values


def _rounding(panels: _Panels, scale: float) -> float:
    """|K| ≤ scale: what entries may be off by, and sums of n and then 2^d of them, whose terms are added one by one."""
    terms = len(panels.rows) + len(panels.cube) + 8
    return (2 * panels.kernel.entry_rounding + terms * float(np.finfo(float).eps)) * scale


def _block(kernel: AbstractKernel, X: np.ndarray, Z: np.ndarray, get: str) -> np.ndarray:
    return kernel.block(kernel.inputs(X, "corners"), kernel.inputs(Z, "corners"), get)


def _products(cube: np.ndarray, subsets: Sequence[Subset]) -> np.ndarray:
    """χ_S on all corners, a column a subset."""
    signs = np.sign(cube)
    return np.stack([signs[:, list(S)].prod(axis=1) for S in subsets], axis=1)


def _all(dimension: int) -> Iterator[Subset]:
    """Every subset, by size."""
    for size in range(dimension + 1):
        yield from combinations(range(dimension), size)


def named_subsets(subsets: Sequence[Sequence[int]], dimension: int) -> tuple[Subset, ...]:
    """Subsets in order of their coordinates, each once."""
    found = tuple(dict.fromkeys(checked_subset(S, dimension) for S in subsets))
    if not found:
        raise ValueError("`subsets` is empty; expected sets of coordinates such as [(0,), (0, 1)], or None for all")
    return found


def checked_subset(subset: Any, dimension: int) -> Subset:
    """Its coordinates in order, or one line."""
    if isinstance(subset, str) or not isinstance(subset, Sequence | np.ndarray):
        raise ValueError(f"a subset is {subset!r}; expected coordinates from 0 to {dimension - 1}, such as (0, 1)")
    found = tuple(sorted(checks.whole_number(i, "subsets") for i in subset))
    if len(set(found)) < len(found) or (found and found[-1] >= dimension):
        raise ValueError(f"a subset is {tuple(subset)}; expected different coordinates from 0 to {dimension - 1}")
    return found


def _size(radius: float, dimension: int) -> float:
    return checks.positive(radius, "radius") / dimension**0.5
