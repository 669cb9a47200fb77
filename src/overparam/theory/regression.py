"""Kernel ridge regression tuned by exact leave-one-out on the training rows alone: one kernel, the best of several, features, coupled outputs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
from scipy.linalg import eigh

from overparam.core import checks
from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.core.machine import available_memory
from overparam.core.progress import Progress, silent
from overparam.core.spec import spec_of
from overparam.core.svd import thin_svd
from overparam.core.words import count_of
from overparam.engines import AbstractGram, cross_matrix, gram
from overparam.engines.cross import require_alike, require_kernel
from overparam.engines.dense import DenseGram
from overparam.engines.matrix import chosen_device
from overparam.spectrum.left_out import RidgePath, checked_ridges, class_margins, least
from overparam.spectrum.rules import EPS

if TYPE_CHECKING:
    from overparam.kernels import Empirical

SMALLEST_SHARE = 1e-8
"""The least ridge of the grid over the mean diagonal: below it rounding of the matrix is felt."""
LARGEST_SHARE = 100.0
"""The largest over n times the mean diagonal, which no eigenvalue exceeds: the outputs are then all but 0."""
A_DECADE = 2
"""Ridges of the grid between 1 and 10."""
NEW_ROWS = 4096
"""New rows at once, where a kernel is made in tiles."""


@final
@dataclass(frozen=True, eq=False)
class TunedRegression:
    """Kernel ridge regression f(z) = K(z, X) (K + ridge)⁻¹ y with the ridge that leave-one-out chose.

    `outputs` is f on the new rows, in the shape of y; `left_out` the mean squared leave-one-out residual, summed over
    outputs; `left_out_error` the share of rows put into a wrong class when left out, None where `y` are no classes.
    """

    outputs: np.ndarray
    ridge: float
    left_out: float
    left_out_error: float | None
    at_end: Literal["smallest", "largest"] | None
    """Whether the chosen ridge is the smallest or largest tried: a better one may lie beyond. At the largest ridge of
    the default grid nothing was learned and the outputs are about 0; at its smallest the ridge hardly matters."""
    tried: tuple[tuple[float, float], ...]
    """(ridge, mean square left out) of every ridge tried, by rising ridge."""
    coefficients: np.ndarray
    """(K + ridge)⁻¹ y."""
    squared_norm: float
    """Σ_r c_rᵀ K c_r: the squared norm of f in the kernel's space, summed over outputs."""
    kernel: str
    """The kernel, as `str` of its Spec."""
    get: str
    device: str


@final
@dataclass(frozen=True, eq=False)
class BestRegression:
    """Regressions with several kernels and the name of the one with the least leave-one-out error."""

    name: str
    all: Mapping[str, TunedRegression]
    by: Literal["mean_square", "error"]

    @property
    def best(self) -> TunedRegression:
        """The one chosen; its own leave-one-out error is slightly flattered by the choice."""
        return self.all[self.name]


def tuned_regression(
    kernel: AbstractKernel,
    X: Any,
    y: Any,
    Z: Any,
    *,
    get: str = "ntk",
    ridges: Sequence[float] | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> TunedRegression:
    """f(z) = K(z, X) (K + ridge)⁻¹ y on new rows, its ridge chosen by exact leave-one-out mean square.

    The default grid has two ridges a decade, from 1e-8 times the mean diagonal of K to 100 n times it. Up to 12,000 rows
    on the host, 2,500 on a device, all are tried with one eigendecomposition; above, one a decade by a factor each, then
    the two neighbours of the best.
    New rows play no part in the choice.

    The papers' objective is the average of squares plus λ‖f‖²: that is ridge = nλ here.

    Ref: beyond_kernels, Eq. (3.1)

    Args:
        kernel: any kernel.
        X: n training rows, at least 2.
        y: labels, (n,) or (n, k).
        Z: new rows.
        get: "ntk" or "nngp".
        ridges: those to try, ≥ 0, instead of the grid; all are tried.
        device: as in `gram`; None takes an accelerator where there is one, for every kernel.
        progress: called with the work done.

    The kernel x·z with ridge 1: the coefficients are (2, 0)/(1 + 1), and f(z) = 1 z_1.

    >>> from overparam.kernels import Polynomial
    >>> found = tuned_regression(Polynomial(1), np.eye(2), [2.0, 0.0], [[3.0, 1.0]], ridges=[1.0])
    >>> np.round(found.outputs, 9)
    array([3.])
    """
    tell = progress or silent
    require_kernel(kernel)
    X, Z = kernel.inputs(X, "X"), kernel.inputs(Z, "Z")
    require_alike(Z, X, "Z")
    y = checks.targets(y, len(X))
    if len(X) < 2:
        raise ValueError("leave-one-out needs at least 2 rows; there is 1")
    given = None if ridges is None else checked_ridges(ridges, "ridges")
    H = gram(kernel, X, "dense", get=get, device=chosen_device(device), progress=_part(tell, 0.0, 0.4))
    return tuned_on(H, kernel, y, Z, ridges=given, progress=tell)


def tuned_on(
    H: AbstractGram,
    kernel: AbstractKernel,
    y: np.ndarray,
    Z: np.ndarray,
    *,
    ridges: Sequence[float] | None = None,
    progress: Progress = silent,
) -> TunedRegression:
    """`tuned_regression` where the dense matrix of a kernel is there, from arguments that were checked."""
    tell, given = progress, ridges
    grid = default_ridges(H) if given is None else given
    path = RidgePath(H, y, several=len(grid))
    tell(0.6, 1.0, "leave-one-out")
    if given is None:
        ridge, tried = _over_grid(path, grid, _part(tell, 0.6, 0.85))
    else:
        ridge, tried = least(path, grid)
    tried = sorted(set(tried))
    residuals, coefficients = path.residuals(ridge), path.coefficients(ridge)
    outputs = _outputs(kernel, H, Z, coefficients)
    tell(1.0, 1.0, "outputs")
    return tuned(
        y, residuals, coefficients, outputs, ridge, tried, kernel=str(spec_of(kernel)), get=H.get, device=H.device
    )


def tuned(
    y: np.ndarray,
    residuals: np.ndarray,
    coefficients: np.ndarray,
    outputs: np.ndarray,
    ridge: float,
    tried: Sequence[tuple[float, float]],
    *,
    kernel: str,
    get: str = "ntk",
    device: str = "cpu",
) -> TunedRegression:
    """What follows from the leave-one-out residuals and the coefficients of the chosen ridge; arrays in the shape of y."""
    margins = class_margins(y, y - residuals)
    return TunedRegression(
        outputs=outputs,
        ridge=ridge,
        left_out=float(np.sum(residuals**2) / len(residuals)),
        left_out_error=None if margins is None else float(np.mean(margins <= 0)),
        at_end=end_of(ridge, tried),
        tried=tuple(tried),
        coefficients=coefficients,
        squared_norm=max(0.0, float(np.sum(coefficients * (y - ridge * coefficients)))),
        kernel=kernel,
        get=get,
        device=device,
    )


def best_regression(
    kernels: Mapping[str, AbstractKernel | tuple[AbstractKernel, str]],
    X: Any,
    y: Any,
    Z: Any,
    *,
    by: Literal["mean_square", "error"] = "mean_square",
    ridges: Sequence[float] | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> BestRegression:
    """`tuned_regression` with every kernel, and which of them has the least leave-one-out error.

    The choice sees the training rows alone, so the error of the best on the new rows is an honest one.

    Args:
        kernels: name → kernel, or (kernel, "ntk" or "nngp").
        X: n training rows.
        y: labels, (n,) or (n, k).
        Z: new rows.
        by: choose by "mean_square" left out, or by the "error" of classes (ties go to the mean square).
        ridges, device, progress: as in `tuned_regression`.

    Labels linear in the row: the kernel x·z predicts a row that is left out, the squared one does not.

    >>> from overparam.kernels import Polynomial
    >>> X = np.array([[1.0], [2.0], [-1.0]])
    >>> best_regression({"linear": Polynomial(1), "square": Polynomial(2)}, X, X[:, 0], X).name
    'linear'
    """
    if not kernels:
        raise ValueError("`kernels` is empty; give at least one, such as {'ntk': op.kernels.TwoLayer()}")
    checks.one_of(by, "by", ("mean_square", "error"))
    tell = progress or silent
    found: dict[str, TunedRegression] = {}
    for index, (name, given) in enumerate(kernels.items()):
        kernel, get = given if isinstance(given, tuple) else (given, "ntk")
        part = _part(tell, index / len(kernels), (index + 1) / len(kernels), name)
        found[name] = tuned_regression(kernel, X, y, Z, get=get, ridges=ridges, device=device, progress=part)
    if by == "error" and any(one.left_out_error is None for one in found.values()):
        raise ValueError("`by` is 'error' and `y` are no classes (±1, or one-hot less 1/k); use by='mean_square'")
    scores = {name: (one.left_out_error if by == "error" else 0.0, one.left_out) for name, one in found.items()}
    return BestRegression(min(scores, key=lambda name: scores[name]), found, by)


def default_ridges(H: AbstractGram) -> list[float]:
    """The grid of `tuned_regression`, rising.

    >>> from overparam.engines import as_gram
    >>> grid = default_ridges(as_gram(np.eye(10)))
    >>> len(grid), f"{grid[0]:.0e}", f"{grid[-1]:.0e}"
    (23, '1e-08', '1e+03')
    """
    mean = float(H.diagonal().mean())
    if not mean > 0:
        raise ValueError(f"the kernel has mean diagonal {mean:g} on `X`; expected a number above 0")
    return ridge_grid(mean, H.n)


def ridge_grid(mean: float, n: int) -> list[float]:
    """The same from the mean diagonal and the number of rows."""
    low, high = np.log10(SMALLEST_SHARE), np.log10(LARGEST_SHARE * n)
    count = int(np.ceil((high - low) * A_DECADE)) + 1
    return [mean * 10 ** (low + i / A_DECADE) for i in range(count)]


def end_of(ridge: float, tried: Sequence[tuple[float, float]]) -> Literal["smallest", "largest"] | None:
    """Whether a ridge is at an end of those tried; None where only one was."""
    if len(tried) > 1 and ridge == tried[0][0]:
        return "smallest"
    return "largest" if len(tried) > 1 and ridge == tried[-1][0] else None


def _outputs(kernel: AbstractKernel, H: AbstractGram, Z: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """K(Z, X) c, a part of the new rows at a time."""
    if isinstance(kernel, AbstractInnerProductKernel):
        return H.cross_product(Z, coefficients)
    parts = [
        cross_matrix(kernel, Z[i : i + NEW_ROWS], H.X, get=H.get) @ coefficients for i in range(0, len(Z), NEW_ROWS)
    ]
    return np.concatenate(parts)


def _over_grid(path: RidgePath, grid: Sequence[float], tell: Progress) -> tuple[float, list[tuple[float, float]]]:
    if path.cheap:
        return least(path, grid)
    coarse = sorted({*range(0, len(grid), A_DECADE), len(grid) - 1})
    tried: list[tuple[float, float]] = []
    for done, index in enumerate(reversed(coarse)):  # from the largest: the smallest may be no ridge at all to rounding
        tell(done / (len(coarse) + 2), 1.0, "leave-one-out")
        try:
            tried += least(path, [grid[index]])[1]
        except ValueError:
            if not tried:
                raise
            break
    place = grid.index(min(tried, key=lambda pair: pair[1])[0])
    for index in (place - 1, place + 1):
        if 0 <= index < len(grid) and index not in coarse:
            with contextlib.suppress(ValueError):  # not positive definite
                tried += least(path, [grid[index]])[1]
    return min(tried, key=lambda pair: pair[1])[0], tried


def _part(tell: Progress, start: float, stop: float, name: str = "") -> Progress:
    """Progress from `start` to `stop` of a longer work."""

    def told(done: float, total: float | None, what: str) -> None:
        share = done / total if total else 0.0
        tell(start + (stop - start) * share, 1.0, f"{name}: {what}" if name else what)

    return told


def linear_regression(features: Any, y: Any, new: Any) -> TunedRegression:
    """f(z) = φ(z)·w, w = (ΦᵀΦ + ridge)⁻¹ Φᵀy, its ridge chosen by exact leave-one-out mean square.

    The same function, and the same choice, as `tuned_regression` with the kernel φ(x)·φ(z), at the cost of n p² for p
    features where that one costs n³. With Φ = U S Vᵀ the inverse of ΦΦᵀ + r is U (1/(S² + r) − 1/r) Uᵀ + 1/r.

    Args:
        features: Φ, (n, p), n ≥ 2.
        y: labels, (n,) or (n, k).
        new: features of new rows, (new rows, p).

    One feature, by hand: w = Σ φ y/(Σ φ² + ridge).

    >>> found = linear_regression([[1.0], [1.0]], [3.0, 3.0], [[1.0]])
    >>> bool(abs(found.outputs[0] - 6 / (2 + found.ridge)) < 1e-9)
    True
    """
    Phi, Z = checks.finite_matrix(features, "features"), checks.finite_matrix(new, "new")
    y = checks.targets(y, len(Phi))
    if len(Phi) < 2:
        raise ValueError("leave-one-out needs at least 2 rows; there is 1")
    if Z.shape[1] != Phi.shape[1]:
        raise ValueError(f"`new` has {count_of(Z.shape[1], 'feature')}; `features` has {Phi.shape[1]}")
    mean = float(np.mean(np.sum(Phi**2, axis=1)))
    if mean == 0:
        raise ValueError("`features` are all 0; nothing can be learned from them")
    U, s, Vt = thin_svd(Phi)
    Y = y.reshape(len(y), -1)
    rotated, squares = U.T @ Y, U**2
    tried, best = [], None
    for ridge in ridge_grid(mean, len(Phi)):
        inside = 1 / (s**2 + ridge) - 1 / ridge
        coefficients = U @ (inside[:, None] * rotated) + Y / ridge
        residuals = coefficients / (squares @ inside + 1 / ridge)[:, None]
        score = float(np.sum(residuals**2) / len(Y))
        tried.append((ridge, score))
        if best is None or score < best[1]:
            best = ridge, score, coefficients, residuals
    assert best is not None
    ridge, _, coefficients, residuals = best
    outputs = Z @ (Vt.T @ ((s / (s**2 + ridge))[:, None] * rotated))
    left, c, new = (array.reshape(len(array), *y.shape[1:]) for array in (residuals, coefficients, outputs))
    return tuned(y, left, c, new, ridge, tried, kernel=f"linear in {count_of(Phi.shape[1], 'feature')}")


MOST_COUPLED = 6_000
"""Rows times outputs up to which the whole kernel is decomposed: a minute or two on two cores."""
COUPLED_ROWS = 256
"""New rows at once, where a kernel has a block of outputs a pair."""


def coupled_regression(
    kernel: Empirical,
    X: Any,
    y: Any,
    Z: Any,
    *,
    ridges: Sequence[float] | None = None,
    progress: Progress | None = None,
) -> TunedRegression:
    """f(z) = Θ(z, X) (Θ + ridge)⁻¹ y with Θ the whole (nk × nk) kernel ∂f_a(x)·∂f_b(z) of k outputs.

    This is what ridge regression on all weights of the linearised network gives: an output's weights are shared with the
    others, so its labels teach them too. `tuned_regression(Empirical(net, params), ...)` takes the mean of the k kernels
    of one output for each instead. Which is right:

    - last layer trained, outputs with weights of their own: Θ_ab = δ_ab K, and the two agree exactly;
    - hidden layers trained, output weights random: Θ_ab for a ≠ b is of order 1/√width of Θ_aa, and the kernels of single
      outputs differ by as much; the two agree as the width grows. At finite width this one is the network's, and that of
      one kernel flatters it: on 250 rows of parities of parities in 30 dimensions (k = 8, width 500) the test errors were
      7.56 here and 6.56 there, 7.63 and 6.69 for the three-layer ResNet;
    - one weight array used in several places, such as A of the three-layer ResNet: this one.

    Leave-one-out leaves out a sample with all its outputs: y_i − f₋ᵢ(x_i) = ([(Θ + ridge)⁻¹]_ii)⁻¹ [(Θ + ridge)⁻¹y]_i,
    with k × k blocks. A network that does not start at 0 is fitted to the labels less its outputs; add them again.

    Args:
        kernel: of a finite network, at its weights.
        X: n training samples, n·k at most 6,000.
        y: labels, (n, k); (n,) for one output.
        Z: new samples.
        ridges: those to try; None for the grid of `tuned_regression`.
        progress: called with the work done.

    f(x) = (w·x, w·x) has Θ_ab = x·z for all a, b. With x = 1 and y = (1, 3) the weight is Σ y/(2 + ridge) = 4/3:

    >>> import jax.numpy as jnp
    >>> from overparam.kernels import Empirical
    >>> kernel = Empirical(lambda w, x: jnp.stack([x @ w, x @ w], axis=1), np.array([1.0]))
    >>> X, y = np.array([[1.0], [0.0]]), np.array([[1.0, 3.0], [0.0, 0.0]])
    >>> np.round(coupled_regression(kernel, X, y, [[1.0]], ridges=[1.0]).outputs, 9)
    array([[1.33333333, 1.33333333]])
    """
    from overparam.kernels import Empirical  # it imports jax

    if not isinstance(kernel, Empirical):
        raise ValueError(f"`kernel` is a {type(kernel).__name__}; expected `op.kernels.Empirical(network, params)`")
    X, Z = kernel.inputs(X, "X"), kernel.inputs(Z, "Z")
    require_alike(Z, X, "Z")
    y = checks.targets(y, len(X))
    given = None if ridges is None else checked_ridges(ridges, "ridges")
    tell = progress or silent
    n, k = len(X), y.size // len(X)
    if n < 2:
        raise ValueError("leave-one-out needs at least 2 rows; there is 1")
    _require_room(n, k)
    blocks = kernel.full(X)
    if blocks.shape[2] != k:
        raise ValueError(
            f"`y` has {count_of(k, 'column')} and the network {count_of(blocks.shape[2], 'output')}; they must agree"
        )
    H = _matrix(blocks)
    tell(0.4, 1.0, "eigenvalues")
    path = _BlockPath(H, y.reshape(n * k), n, k)
    tell(0.8, 1.0, "leave-one-out")
    rising = default_ridges(DenseGram(H)) if given is None else sorted(given)
    tried = [(ridge, path.mean_square(ridge)) for ridge in rising if path.definite(ridge)]
    if not tried:
        raise ValueError("the kernel is singular to rounding at every ridge; add a larger one to `ridges`")
    ridge = min(tried, key=lambda pair: pair[1])[0]
    c, residuals = path.at(ridge)
    outputs = [
        np.einsum("ijab,jb->ia", kernel.full(Z[i : i + COUPLED_ROWS], X), c.reshape(n, k))
        for i in range(0, len(Z), COUPLED_ROWS)
    ]
    tell(1.0, 1.0, "outputs")
    new = np.concatenate(outputs).reshape(len(Z), *y.shape[1:])
    return tuned(y, residuals.reshape(y.shape), c.reshape(y.shape), new, ridge, tried, kernel=str(spec_of(kernel)))


class _BlockPath:
    """Coefficients and leave-one-out residuals for one ridge after another, from one eigendecomposition."""

    def __init__(self, H: np.ndarray, y: np.ndarray, n: int, k: int) -> None:
        values, self._vectors = eigh(H, check_finite=False, driver="evd", overwrite_a=False)
        self._values, self._rotated, self._shape = np.maximum(values, 0.0), self._vectors.T @ y, (n, k)

    def definite(self, ridge: float) -> bool:
        """Whether Θ + ridge can be inverted: a ridge below the rounding of eigenvalues counts for nothing."""
        shifted, lost = self._values + ridge, len(self._values) * EPS * self._values[-1]
        return bool(shifted[0] > (4 * EPS * shifted[-1] if ridge > lost else 2 * lost))

    def at(self, ridge: float) -> tuple[np.ndarray, np.ndarray]:
        """(Θ + ridge)⁻¹y and the residuals, (nk,) both."""
        n, k = self._shape
        inverse = 1 / (self._values + ridge)
        c = self._vectors @ (inverse * self._rotated)
        rows = self._vectors.reshape(n, k, -1)
        corners = np.matmul(rows * inverse, rows.transpose(0, 2, 1))
        return c, np.linalg.solve(corners, c.reshape(n, k, 1)).reshape(n * k)

    def mean_square(self, ridge: float) -> float:
        return float(np.sum(self.at(ridge)[1] ** 2) / self._shape[0])


def _matrix(blocks: np.ndarray) -> np.ndarray:
    """(n, n, k, k) as (nk, nk), sample by sample, symmetric to the last bit."""
    n, k = blocks.shape[0], blocks.shape[2]
    H = blocks.transpose(0, 2, 1, 3).reshape(n * k, n * k)
    return (H + H.T) / 2


def _require_room(n: int, k: int) -> None:
    size = n * k
    if size > MOST_COUPLED:
        raise ValueError(
            f"the kernel of {count_of(n, 'sample')} with {count_of(k, 'output')} has {count_of(size, 'row')}, more than {MOST_COUPLED:,}; use fewer samples, or "
            "`tuned_regression`, which takes one kernel for all outputs"
        )
    what = f"the kernel of {count_of(size, 'row')}"
    checks.require_memory(5 * 8 * size**2, available_memory(), what, "use fewer samples", part=0.9)
