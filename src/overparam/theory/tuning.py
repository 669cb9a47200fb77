"""The best of several kernels and ridges by exact predictions for rows left out: what a wide network's limit can do on these data."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, final

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import minimize_scalar

from overparam.core import checks
from overparam.core.kernel import AbstractKernel
from overparam.core.machine import blas_threads
from overparam.core.progress import Progress, silent
from overparam.core.words import count_of
from overparam.data import generator
from overparam.engines.cross import require_kernel
from overparam.engines.matrix import chosen_device
from overparam.kernels import RandomFeatures
from overparam.kernels.classical import AbstractExpectedKernel
from overparam.spectrum import left_out_groups
from overparam.spectrum.left_out import class_margins
from overparam.spectrum.left_out_groups import group_numbers
from overparam.theory.left_out_folds import FoldsLeftOut
from overparam.theory.left_out_sets import ONE_THREAD, SetsLeftOut
from overparam.theory.tuned_rows import AtRidges, ChosenFit, FittedRows, Setting, rough_fits, share_wrong

DEPTHS = ((1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (1, 1), (3, 2), (5, 3))
"""Tangent kernels tried: how many hidden layers, and how many of the first layers stay as they are at the start."""
WIDTHS = (0.5, 1.0, 2.0, 4.0)
"""Bandwidths tried, times the median distance of two rows."""
ALL_IN_FULL = 1_200
"""Rows up to which every kernel is fitted to all rows."""
SCREENED_ON, COMPARED_ON = 700, 2_000
"""Rows on which kernels are screened; rows on which the best three are compared where only one can be fitted to all."""
IN_FULL, IN_FULL_OF_FEW = 3, 6
"""Kernels that are then fitted to all rows, up to EIGEN_ROWS of them; and up to ALL_IN_FULL."""
BY_PRODUCTS = 12_000
"""Rows above which factors, which cost n³, give way to products: the setting that was best there is fitted, in folds."""
RANDOM_FEATURES = 1_000
"""Weights drawn where features stand for a matrix that does not fit: two columns each."""
ALIKE = 1.005
"""There, of ridges whose mean square is less than this many times the least the largest is taken: the fewest products."""
KEPT = 96
"""Settings, the best ones, whose predictions are kept: others are never chosen when rows are drawn again."""
Candidates = Mapping[str, AbstractKernel | tuple[AbstractKernel, str]]
"""name → kernel, or (kernel, "ntk" or "nngp")."""


@final
@dataclass(frozen=True, eq=False)
class TunedFit:
    """Kernel ridge regression with the kernel and the ridge that rows left out chose.

    `outputs` are the predictions for every row without its group, `alone` without the row itself; both in the shape
    and units of y. `left_out[j]` are those of `settings[j]`; the first of them is the one chosen. Above 12,000 rows
    (`folds`) a fifth of the rows leaves at once, whole groups of them, or single rows.
    """

    y: np.ndarray
    groups: np.ndarray
    """(n,) numbers of groups."""
    outputs: np.ndarray
    alone: np.ndarray
    left_out: np.ndarray
    settings: tuple[Setting, ...]
    """The best on all rows, rising mean square."""
    tried: tuple[Setting, ...]
    """All of them, those on part of the rows too."""
    task: Literal["classes", "regression"]
    units: np.ndarray
    """(outputs,) what residuals are divided by before they are squared: 1 for classes."""
    notes: tuple[str, ...]
    """What was not done on all rows, in words."""
    _final: Any = field(default=None, metadata={"stored": False})
    """A `ChosenFit`, which `put_back` makes again where data alone were kept."""
    weights: np.ndarray | None = None
    """(n,) of the rows; None: 1."""
    folds: FoldsLeftOut | None = None
    """How folds were left out by products, with the certificate of the fit to all rows; None where rows leave in closed form."""

    @property
    def chosen(self) -> str:
        """The name of the kernel."""
        return self.settings[0].name

    @property
    def ridge(self) -> float:
        return self.settings[0].ridge

    @property
    def kernel(self) -> AbstractKernel:
        """The one chosen."""
        return self._final.kernel

    @property
    def get(self) -> str:
        """Which of its matrices was fitted, "ntk" or "nngp"."""
        return self._final.get

    @property
    def mean_square(self) -> float:
        """Of y − outputs, summed over outputs, in the units of y; flattered a little by the choice."""
        squares = (self.y - self.outputs).reshape(len(self.y), -1) ** 2
        return float(np.average(squares.sum(axis=1), weights=self.weights))

    @property
    def error(self) -> float | None:
        """The share of rows put into a wrong class without their group; None for regression; flattered a little by the choice."""
        return share_wrong(self.y, self.outputs, self.weights) if self.task == "classes" else None

    @property
    def error_alone(self) -> float | None:
        """The same where every row leaves alone."""
        return share_wrong(self.y, self.alone, self.weights) if self.task == "classes" else None

    def without(self, rows: np.ndarray, blocks: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Predictions of the chosen setting for some rows left out, where a block of groups is gone altogether.

        rows: those that are fitted, whole groups. blocks: the block of each of them, the same for all rows of a group.
        Yields rows and predictions, block by block.
        """
        return self._final.without(rows, self.groups[rows], blocks)

    def over_folds(self, rows: np.ndarray, folds: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Predictions for some rows by fits to the other folds of them, in the order of `rows` and the units of y.

        Each fold has the kernel and the ridge that the rows of the others, left out, prefer: its own rows choose nothing.

        Args:
            rows: positions of those that take part; copies of a row should be in one fold.
            folds: (fitted, held out) places among `rows`, each held out once.
        """
        residuals = (self.y - self.left_out)[:, rows].reshape(len(self.left_out), len(rows), -1)
        squares = np.sum((residuals / self.units) ** 2, axis=2)
        chosen = [self.settings[int(squares[:, fitted].sum(axis=1).argmin())] for fitted, _ in folds]
        with blas_threads(1 if len(rows) <= ONE_THREAD else None):
            return self._final.over_folds(rows, folds, chosen)

    def among(self, rows: np.ndarray) -> SetsLeftOut:
        """The chosen setting on some rows alone, any sets of which can leave: positions of them. Costs one inverse."""
        return self._final.among(rows)

    def predict(self, Z: Any) -> np.ndarray:
        """Outputs for new rows, prepared as those that were fitted."""
        return self._final.predict(Z)

    @property
    def coefficients(self) -> np.ndarray:
        """c of f(z) = K(z, distinct rows) c, in units of the targets."""
        return self._final.coefficients

    @property
    def distinct(self) -> np.ndarray:
        """One of every set of equal rows."""
        return self._final.known

    @property
    def rows(self) -> np.ndarray:
        """X."""
        return self._final.rows.X

    def put_back(self, X: np.ndarray, kernel: AbstractKernel, get: str, coefficients: np.ndarray) -> TunedFit:
        """With its rows, kernel and coefficients again, so that it predicts."""
        kernels = {self.chosen: (kernel, get)}
        rows = FittedRows(X, self.y, self.groups, self.task, kernels, None, self.units, weights=self.weights)
        return replace(self, _final=ChosenFit(rows, self.settings[0], coefficients))

    def deviations(self, Z: Any) -> np.ndarray:
        """The standard deviation of a new target at each new row, in the shape and units of `predict`.

        That of the Gaussian process whose mean is the fit: s²(K(z, z) − K(z, X)(K + ridge/w)⁻¹K(X, z) + ridge), where s² makes the
        residuals of rows left out as large as it says. Costs one factor and its inverse's diagonal.
        """
        if self.folds is not None or (len(self.y) > BY_PRODUCTS and isinstance(self.kernel, RandomFeatures)):
            raise ValueError(f"deviations need a factor, and {len(self.y):,} rows were fitted without; use fewer rows")
        return self._final.deviations(Z)

    def probabilities(self, outputs: Any) -> np.ndarray:
        """The probabilities of the classes, (rows, classes), from outputs: those of rows left out, or of `predict`.

        Two classes (−1 and 1, in this order): 1/(1 + e^{−t f}); more: e^{t f} over its sum. t is the one under which the
        labels are likeliest given the predictions for rows left out, with one more row of every class that agrees with
        none; so the likeliest class is that of the largest output.
        """
        if self.task != "classes":
            raise ValueError("probabilities are of classes and these targets are numbers")
        outputs = np.asarray(outputs, dtype=np.float64)
        if outputs.shape[1:] != self.y.shape[1:]:
            raise ValueError(
                f"`outputs` has shape {outputs.shape}; expected (rows, {', '.join(map(str, self.y.shape[1:]))})"
            )
        return _softmax(self.sharpness * _scores(outputs))

    @cached_property
    def sharpness(self) -> float:
        """t of `probabilities`."""
        scores, right = _scores(self.outputs), _codes(self.y)
        n, k = scores.shape
        targets = np.full((n, k), 1 / (n + k))
        targets[np.arange(n), right] += n / (n + k)
        shares = np.full(n, 1 / n) if self.weights is None else self.weights / self.weights.sum()
        size = float(np.abs(scores).max()) or 1.0

        def surprise(logarithm: float) -> float:
            sharp = np.exp(logarithm) / size * scores
            top = sharp.max(axis=1, keepdims=True)
            total = top[:, 0] + np.log(np.sum(np.exp(sharp - top), axis=1))
            return float(shares @ (total - np.sum(targets * sharp, axis=1)))

        found: Any = minimize_scalar(surprise, bounds=(-7.0, 7.0), method="bounded", options={"xatol": 1e-4})
        return float(np.exp(found.x) / size)


def default_candidates(X: np.ndarray, *, key: int = 0, table: bool = False) -> dict[str, AbstractKernel]:
    """The kernels tried where none are named: tangent kernels of one to five hidden layers, Laplace, Gaussian.

    table: whether products over columns of Laplace kernels are tried too, which suit columns that mean something each.

    >>> list(default_candidates(np.array([[0.0], [2.0]])))[7:10]
    ['tangent kernel, depth 5, first 3 layers fixed', 'Laplace, bandwidth 1', 'Laplace, bandwidth 2']
    """
    from overparam.kernels import FullyConnected, Gaussian, Laplace, ProductLaplace, median_distance

    made: dict[str, AbstractKernel] = {}
    for depth, fixed in DEPTHS:
        words = "" if not fixed else f", first {count_of(fixed, 'layer')} fixed" if fixed > 1 else ", first layer fixed"
        trained = "all" if not fixed else tuple(range(fixed + 1, depth + 2))
        made[f"tangent kernel, depth {depth}{words}"] = FullyConnected(depth, trained=trained)
    rows = X if len(X) <= 1_000 else X[generator(key, 1).choice(len(X), 1_000, replace=False)]
    flat = np.asarray(rows, dtype=np.float64).reshape(len(rows), -1)
    distinct = np.unique(flat, axis=0)
    families: list[tuple[str, Any]] = [("Laplace", Laplace), ("Gaussian", Gaussian)]
    for name, kind in [*families, *([("product of Laplace", ProductLaplace)] if table else [])]:
        median = median_distance(distinct, columnwise=kind is ProductLaplace) if len(distinct) > 1 else 1.0
        made |= {f"{name}, bandwidth {share * median:.3g}": kind(share * median) for share in WIDTHS}
    return made


def tuned_fit(
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    weights: Any = None,
    candidates: Candidates | None = None,
    ridge: float | None = None,
    steps: int | Sequence[int] | None = None,
    lr: float | None = None,
    task: Literal["auto", "classes", "regression"] = "auto",
    key: int = 0,
    jobs: int | None = None,
    device: str | None = None,
    cluster: Any = None,
    all_in_full: int | None = None,
    random_features: int | Literal["auto"] | None = None,
    progress: Progress | None = None,
) -> TunedFit:
    """The kernel and ridge with the least mean square on rows left out, fitted to all rows.

    Up to 1,200 rows every kernel is tried with sixteen ridges on all of them. Above, they are tried on 700 of the rows, and the
    three best on all, each with three ridges around the one that was best for it; above 4,000 rows these three on 2,000, and the
    best of them on all. Above 12,000 rows, where factors are dear, that one is fitted by products with the matrix, and rows leave
    with their fold, a fifth of all; by random features, with exact predictions for rows left out alone, where its matrix does not
    fit in memory. `notes` says so.

    Args:
        X: n rows, prepared: tables standardised, divided by √d and a 1 appended, images of norm 1, do well.
        y: as `Dataset.y` has it: (n,) of ±1, (n, k) one-hot less 1/k, numbers, (n, t) several targets.
        groups: (n,) names of groups that leave together, such as copies of a row; None: every row leaves alone.
        weights: (n,) > 0: a row of weight w is w equal rows that leave together; None: 1. Ridges that are tried grow as they do.
        candidates: name → kernel, or (kernel, "ntk" or "nngp"); None for `default_candidates`.
        ridge: the only one tried; None for sixteen of every size.
        steps, lr: gradient descent on ½ Σ w (y − f)² from 0, stopped after so many steps, or the best of several numbers, in place of
            a ridge; rows then leave with their fold. lr None is 1/λ_max. Up to 4,000 rows: it takes eigenvectors.
        task: whether `y` are classes; "auto" looks at them.
        key: of the rows that are drawn where there are many.
        jobs: kernels tried at once, in threads; −1 is one a core, None is 1. The numbers are the same.
        device: as in `gram`, for more than 4,000 rows.
        cluster: as in `gram`, for the products with more than 12,000 rows.
        all_in_full: in place of 1,200; of fewer, as many rows are those that kernels are first tried on, and six are then fitted to
            all rows up to 1,200. A whole decomposition costs as much as a dozen factors.
        random_features: how many weights stand for a kernel in place of its matrix, at any number of rows; "auto" for 1,000 above
            12,000 rows, where there are weights or half of the matrix does not fit in memory; None for never. Kernels tried are then
            those of `op.kernels.RandomFeatures`.
        progress: called with the work done.

    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> found = tuned_fit(np.hstack([X, np.ones((20, 1))]), np.sign(X[:, 0]))
    >>> found.error, found.predict([[0.5, 1.0], [-0.5, 1.0]]).round()
    (0.0, array([ 1., -1.]))
    """
    tell = progress or silent
    checks.one_of(task, "task", ("auto", "classes", "regression"))
    X = checks.finite_matrix(X) if candidates is None else np.asarray(X)
    y = checks.targets(y, len(X))
    if len(X) < 2:
        raise ValueError("leaving rows out needs at least 2 rows; there is 1")
    numbers = group_numbers(groups, len(X))
    classes = task != "regression" and class_margins(y, y) is not None
    if task == "classes" and not classes:
        raise ValueError("`y` is neither ±1 nor one-hot less 1/k; use `data.y` of a Dataset, or task='regression'")
    if candidates is not None and not candidates:
        raise ValueError("`candidates` is empty; give at least one, such as {'ntk': op.kernels.TwoLayer()}")
    kernels: Candidates = default_candidates(X, key=key) if candidates is None else candidates
    named = {name: given if isinstance(given, tuple) else (given, "ntk") for name, given in kernels.items()}
    for kernel, _ in named.values():
        require_kernel(kernel)
    fitter = FittedRows(
        X, y, numbers, "classes" if classes else "regression", named, device, cluster=cluster, weights=_weights(weights, y),
        ridge=None if ridge is None else checks.positive(ridge, "ridge"),
    )  # fmt: skip
    n, sampled = len(X), _features_for(fitter, random_features)
    if sampled:
        fitter.kernels = {name: one for name, one in named.items() if isinstance(one[0], AbstractExpectedKernel)}
        if not fitter.kernels:
            raise ValueError(
                "none of the kernels has random features; take Laplace, Gaussian, ProductLaplace or ArcCosine, or leave out `random_features`"
            )
        if steps is not None:
            raise ValueError("`steps` are of a kernel's matrix and not of random features; leave one of them out")
    counts = list(steps) if isinstance(steps, Collection) and not isinstance(steps, str) else [steps]
    if not counts:
        raise ValueError("`steps` is empty; give one number or several, or leave it out")
    lr = None if lr is None else checks.positive(lr, "lr", fix="leave it out for 1/λ_max")
    stopped = None if steps is None else ([checks.whole_number(one, "steps", least=1) for one in counts], lr)
    if steps is None and lr is not None:
        raise ValueError(f"`lr` is {lr!r} and there are no `steps`; give both, or steps alone")
    if stopped is not None and (ridge is not None or n > left_out_groups.EIGEN_ROWS):
        why = (
            "a ridge is given too"
            if ridge is not None
            else f"there are {n:,} rows and {left_out_groups.EIGEN_ROWS:,} have eigenvectors"
        )
        raise ValueError(f"`steps` is {steps} and {why}; leave `steps` out, or `ridge`, or use fewer rows")
    alone = n <= ONE_THREAD or (jobs or 1) != 1
    with blas_threads(1 if alone else None):
        return _search(fitter, n, key, stopped, jobs, all_in_full or ALL_IN_FULL, sampled, tell)


def _features_for(rows: FittedRows, asked: int | Literal["auto"] | None) -> int:
    """How many random features stand for the kernel; 0 for none."""
    if asked is None:
        return 0
    if not isinstance(asked, str):
        return checks.whole_number(asked, "random_features", least=1)
    checks.one_of(asked, "random_features", ("auto",), "a number, or None")
    few = len(rows.y) <= BY_PRODUCTS or rows.cluster is not None or chosen_device(rows.device) != "cpu"
    some = any(isinstance(kernel, AbstractExpectedKernel) for kernel, _ in rows.kernels.values())
    return 0 if few or not some or (rows.weights is None and rough_fits(len(rows.y))) else RANDOM_FEATURES


def _weights(weights: Any, y: np.ndarray) -> np.ndarray | None:
    if weights is None:
        return None
    found = np.asarray(weights, dtype=np.float64)
    if found.shape != (len(y),) or not np.all(np.isfinite(found)) or not np.all(found > 0):
        raise ValueError(
            f"`weights` has shape {found.shape}; expected ({len(y)},) finite numbers > 0: leave out rows of weight 0"
        )
    return found


def _search(
    fitter: FittedRows,
    n: int,
    key: int,
    stopped: tuple[list[int], float | None] | None,
    jobs: int | None,
    all_in_full: int,
    sampled: int,
    tell: Progress,
) -> TunedFit:
    def attempts(
        rows: FittedRows, names: Sequence[str], start: float, stop: float, guesses: Mapping[str, float] | None = None
    ) -> list[AtRidges]:
        def attempt(place: int, name: str) -> AtRidges:
            tell(start + (stop - start) * place / len(names), 1.0, f"{name}, {count_of(len(rows.y), 'row')}")
            if stopped is not None:
                return rows.by_steps(name, *stopped, key)
            if sampled and rows is fitter:
                return rows.by_features(name, key, tell)
            return rows.at_ridges(name, None if guesses is None else guesses[name])

        every = enumerate(names)
        if (jobs or 1) == 1 or len(names) == 1:
            return [attempt(place, name) for place, name in every]
        return Parallel(n_jobs=jobs, prefer="threads")(delayed(attempt)(place, name) for place, name in every)  # type: ignore[return-value]

    names, notes, screened = list(fitter.kernels), [], []
    guesses: dict[str, float] | None = None
    most = IN_FULL if n > ALL_IN_FULL else IN_FULL_OF_FEW
    if n > all_in_full and len(names) > (most if n <= left_out_groups.EIGEN_ROWS else 1):
        few = fitter.part(min(SCREENED_ON, all_in_full), generator(key, 2))
        with blas_threads(1):
            screened += [one for fit in attempts(few, names, 0.0, 0.2) for one in fit.settings]
        guesses = _best_ridges(screened)
        names = list(guesses)[:most]
        notes.append(f"{len(fitter.kernels)} kernels were screened on {len(few.y):,} of {count_of(n, 'row')}")
    if n > min(left_out_groups.EIGEN_ROWS, BY_PRODUCTS):
        some = fitter.part(COMPARED_ON, generator(key, 3))
        compared = [one for fit in attempts(some, names, 0.2, 0.4, guesses) for one in fit.settings]
        best = min(compared, key=lambda one: one.mean_square)
        names, screened, guesses = [best.name], screened + compared, {best.name: best.ridge}
        notes.append(f"the kernel and the ridges were chosen on {len(some.y):,} of {count_of(n, 'row')}")
        if n > BY_PRODUCTS and fitter.weights is None and not sampled:
            alike = [
                one.ridge for one in compared if one.name == names[0] and one.mean_square <= ALIKE * best.mean_square
            ]
            fit = fitter.by_products(names[0], max(alike), key, lambda done, _, what: tell(0.4 + 0.6 * done, 1.0, what))
            tell(1.0, 1.0, "kernels")
            return _concluded(fitter, [fit], screened, (*notes, folds_say(fit.solved)))
    if sampled:
        fitter = fitter.sampled(names, sampled, key)
        names = list(fitter.kernels)
        notes.append(
            f"{count_of(sampled, 'random feature')} stand for the kernel, whose matrix of {count_of(n, 'row')} is not made"
        )
    fits = attempts(fitter, names, 0.4, 1.0, guesses)
    if stopped is not None:
        notes.append(
            "rows left out are a fifth of all at once: what gradient descent finds after some steps has no closed form without a row"
        )
    tell(1.0, 1.0, "kernels")
    return _concluded(fitter, fits, screened, tuple(notes))


def _concluded(
    rows: FittedRows, fits: Sequence[AtRidges], screened: Sequence[Setting], notes: tuple[str, ...]
) -> TunedFit:
    settings = [one for fit in fits for one in fit.settings]
    order = np.argsort([one.mean_square for one in settings], kind="stable")[:KEPT]
    best = settings[order[0]]
    fit = next(fit for fit in fits if best in fit.settings)
    final = ChosenFit(rows, best, fit.coefficients)
    left_out = np.stack([final.in_units(one) for one in np.concatenate([fit.outputs for fit in fits])[order]])
    return TunedFit(
        y=rows.y,
        groups=rows.groups,
        outputs=left_out[0],
        alone=left_out[0] if fit.alone is None else final.in_units(fit.alone),
        left_out=left_out,
        settings=tuple(settings[i] for i in order),
        tried=(*screened, *settings),
        task=rows.task,
        units=rows.units,
        notes=notes,
        _final=final,
        weights=rows.weights,
        folds=fit.solved,
    )


def folds_say(solved: FoldsLeftOut | None) -> str:
    """How rows left by products, in words."""
    assert solved is not None
    short, bound = "" if solved.converged else ", where they were stopped", float(solved.within.max())
    sure = (
        f", and no prediction is further than {bound:.1g} from the exact one"
        if bound < 1
        else ", from which no bound on single predictions follows: the ridge is too small for one"
    )
    return (
        "rows left out are a fifth of all at once, the fits of all folds and outputs made together in "
        f"{count_of(solved.products, 'product')} with the matrix{short}: residuals are {solved.residual:.1g} of the "
        f"labels{sure}"
    )


def _best_ridges(settings: Sequence[Setting]) -> dict[str, float]:
    """The ridge with the least mean square of every kernel, the best kernels first."""
    best: dict[str, float] = {}
    for one in sorted(settings, key=lambda one: one.mean_square):
        best.setdefault(one.name, one.ridge)
    return best


def _scores(outputs: np.ndarray) -> np.ndarray:
    """(rows, classes) whose softmax has the same order: of two classes 0 and f."""
    return np.stack([np.zeros(len(outputs)), outputs], axis=1) if outputs.ndim == 1 else outputs


def _codes(y: np.ndarray) -> np.ndarray:
    return (y > 0).astype(int) if y.ndim == 1 else y.argmax(axis=1)


def _softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)
