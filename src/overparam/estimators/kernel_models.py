"""The strongest kernel model of a table in one line: NTKClassifier and NTKRegressor, tuned by rows left out, without a refit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import _safe_indexing, assert_all_finite, check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_array, check_is_fitted, column_or_1d

from overparam.core import checks
from overparam.core.bracketed import Interval
from overparam.core.kernel import AbstractKernel
from overparam.core.machine import has_accelerator
from overparam.core.provenance import Provenance, Stopwatch
from overparam.data.labels import encode_codes
from overparam.data.prepared_columns import PreparedColumns, prepare_columns
from overparam.engines.matrix import chosen_device
from overparam.estimators.rows import as_numbers, collected, require_as_given
from overparam.theory.error_intervals import scores_left_out
from overparam.theory.tuned_rows import rough_fits
from overparam.theory.tuning import BY_PRODUCTS, Candidates, TunedFit, default_candidates, tuned_fit

BY_CHANCE = 0.01
"""Share of the distinct rows with more than one label from which equal rows are no copies: few values repeat by chance."""
ALL_IN_FULL = 400
"""Rows up to which every kernel is fitted to all of them: above, a fit would take longer than a forest and a grid of support vectors."""
MOST_SPREAD = 4_000
"""Rows to which weights are spread where equal rows are no copies: each of them leaves for itself."""
LARGEST = 1e150
"""Targets and weights beyond have squares that float64 does not hold."""
IMAGES = ("none", "unit")
"""Preparations that leave images as they are laid out."""
FAMILIES = {"laplace": "Laplace", "gaussian": "Gaussian"}


class AbstractTuned(BaseEstimator):
    """What every estimator here has once it is fitted: prepared columns, a tuned fit, what rows left out say, and folders."""

    fit_: TunedFit
    classes_: np.ndarray
    columns_: PreparedColumns
    _seed: int
    _counted: np.ndarray
    """(rows fitted,) how many equal rows each was."""
    _notes: list[str]
    _provenance: Provenance
    """Without the configuration."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags

    @property
    def loo_error_(self) -> Interval:
        """The share of wrong classes on new rows, or the mean square error, mean over targets: by rows left out, corrected for
        the choice, with an interval of 95%. Of a network it is that of its limit."""
        check_is_fitted(self)
        scores = scores_left_out(self.fit_, weights=self._counted, key=self._seed)
        if self.fit_.task == "classes":
            return scores.interval("error")
        found, targets = scores.interval("mean_square"), self.fit_.y[:1].size
        if int(self.fit_.groups.max()) < 2:  # two squares may agree by luck: what others would be cannot be told
            return Interval(found.value / targets, 0.0, np.inf, found.level)
        return Interval(found.value / targets, found.lower / targets, found.upper / targets, found.level)

    @property
    def notes_(self) -> tuple[str, ...]:
        """What was done to columns, and what was not done on all rows, in words."""
        check_is_fitted(self)
        return (*self._notes, *self.fit_.notes)

    def _rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.columns_.rows(as_numbers(self, X, self.columns_.encoders)[0])

    def save(self, place: str | os.PathLike[str]) -> Path:
        """Write the fitted model into a folder, without pickle: `op.read(place).estimator` is it again."""
        from overparam.estimators.fitted_model import fitted_model

        check_is_fitted(self)
        return fitted_model(self).save(place)


class AbstractKernelModel(AbstractTuned):
    """What both kernel models share: kernels tried, rows left out.

    Args: as in `NTKClassifier`.
    """

    def __init__(
        self,
        *,
        kernel: Any = "auto",
        depth: int | Sequence[int] | None = None,
        trained: Any = "all",
        ridge: float | str = "auto",
        steps: int | None = None,
        lr: float | None = None,
        preprocess: str = "auto",
        random_features: int | str | None = "auto",
        random_state: Any = 0,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> None:
        self.kernel, self.depth, self.trained, self.ridge = kernel, depth, trained, ridge
        self.steps, self.lr, self.preprocess, self.random_features = steps, lr, preprocess, random_features
        self.random_state, self.n_jobs, self.device = random_state, n_jobs, device

    @property
    def chosen_(self) -> Mapping[str, Any]:
        """The kernel that was chosen, by name, and what it was chosen with."""
        check_is_fitted(self)
        best = self.fit_.settings[0]
        stop = {"steps": best.steps, "lr": best.lr} if best.steps else {"ridge": best.ridge}
        return {"kernel": best.name, **stop, "preprocess": self.preprocess}

    @property
    def alpha_(self) -> float:
        """The ridge that was chosen; 0 where gradient descent was stopped instead."""
        check_is_fitted(self)
        return self.fit_.ridge

    def _outputs(self, X: Any) -> np.ndarray:
        rows = self._rows(X)  # says first where nothing is fitted
        return self.fit_.predict(rows)

    def _fit(
        self, X: Any, targets: Any, sample_weight: Any, groups: Any, task: Literal["classes", "regression"]
    ) -> None:
        """Fit to rows and to `targets`, which of how many rows, those that are there and their weights gives targets and further weights.

        Rows of weight 0 are taken away before anything is made of the others.
        """
        watch = Stopwatch()
        self._check_options()
        X = collected(X)
        for values, name in ((X, "X"), (sample_weight, "sample_weight"), (groups, "groups")):
            checks.require_unmasked(values, name)
        given = None if sample_weight is None else _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True
        )  # fmt: skip
        there = None if given is None or np.all(given > 0) else np.flatnonzero(given > 0)
        if given is not None and not np.all((given == 0) | ((given > 1 / LARGEST) & (given < LARGEST))):
            raise ValueError(
                f"`sample_weight` goes from {given.min():.1g} to {given.max():.1g}; give weights of about 1, of which float64 holds squares"
            )
        if there is not None and len(there) < 2:
            raise ValueError(f"there is {len(there)} sample of a weight above 0; leaving rows out needs at least 2")
        A, encoders, self._notes = as_numbers(self, X if there is None else _safe_indexing(X, there))
        n = len(A) if given is None else len(given)
        there = np.arange(n) if there is None else there
        counted = np.ones(n)[there] if given is None else given[there]
        y, more = targets(n, there, counted)
        names = None if groups is None else np.asarray(groups)
        if names is not None and names.shape != (n,):
            raise ValueError(f"`groups` has shape {names.shape}; expected ({n},), the group of every row")
        if names is not None:
            checks.require_one_kind(names := names[there], "groups")
        more = np.ones(len(A)) if more is None else more
        leads, same, together, weights = _sets(A, y, names, task, counted, self._notes)
        fitted = weights * more[leads]  # rows of a set have one label
        plain = bool(np.all(fitted == 1))
        self.columns_ = prepare_columns(
            A[leads], None if plain else fitted, self.preprocess, encoders, codes=task == "classes"
        )
        rows = self.columns_.rows(A[leads])
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        ridge = None if isinstance(self.ridge, str) and self.ridge == "auto" else checks.positive(
            self.ridge, "ridge", fix="or 'auto'"
        )  # fmt: skip
        self.fit_ = tuned_fit(
            rows, y[leads], groups=together, weights=None if plain else fitted,
            candidates=self._candidates(rows, seed, not plain),
            ridge=ridge, steps=self.steps, lr=self.lr, task=task, key=seed, jobs=self.n_jobs, device=self.device,
            all_in_full=ALL_IN_FULL, random_features=self.random_features,  # type: ignore[arg-type]
        )  # fmt: skip
        self._seed, self._counted = seed, weights
        self._left_out = np.empty((n, *self.fit_.outputs.shape[1:]))
        self._left_out[there] = self.fit_.outputs[same]
        if len(there) < n:  # the others took no part
            absent = np.setdiff1d(np.arange(n), there)
            self._left_out[absent] = self._outputs(_safe_indexing(X, absent))
        self._provenance = watch.provenance({}, seed=seed)

    def _check_options(self) -> None:
        """One line for an option that no table could mend."""
        jobs = self.n_jobs
        if jobs is not None and (not isinstance(jobs, int | np.integer) or isinstance(jobs, bool) or jobs == 0):
            raise ValueError(f"`n_jobs` is {jobs!r}; expected how many at once, −1 for one a core, or None for one")
        if chosen_device(self.device) == "gpu" and not has_accelerator():
            raise ValueError(f"`device` is {self.device!r} and there is no accelerator here; leave it out")
        if isinstance(self.kernel, Mapping) and not self.kernel:
            raise ValueError("`kernel` is empty; give at least one by name, such as {'ntk': op.kernels.TwoLayer()}")
        given = isinstance(self.kernel, AbstractKernel | Mapping)
        if given and (self.depth is not None or not _is_all(self.trained)):
            raise ValueError("`kernel` has a depth and trained layers of its own; leave out `depth` and `trained`")

    def _candidates(self, rows: np.ndarray, seed: int, weighted: bool) -> Candidates:
        kernel = self.kernel
        if isinstance(kernel, AbstractKernel | Mapping):
            from overparam.kernels import Convolutional

            several = kernel if isinstance(kernel, Mapping) else {type(kernel).__name__: kernel}
            made = [one[0] if isinstance(one, tuple) else one for one in several.values()]
            if self.preprocess not in IMAGES and any(isinstance(one, Convolutional) for one in made):
                raise ValueError(
                    f"`preprocess` is {self.preprocess!r}, after which rows are no images, and the kernel is of images; use "
                    "preprocess='none', or 'unit'"
                )
            return several
        checks.one_of(
            kernel, "kernel", ("auto", "ntk", "nngp", *FAMILIES), "or a kernel of `op.kernels`, or several by name"
        )
        if self.depth is None and _is_all(self.trained) and kernel != "nngp":
            # Products over columns are no functions of inner products, and their products with vectors are dear.
            matrix = self.random_features is None or (self.random_features == "auto" and rough_fits(len(rows)))
            dear = len(rows) > BY_PRODUCTS and not weighted and matrix
            every = default_candidates(rows, key=seed, table=self.preprocess not in IMAGES and not dear)
            start = {"auto": "", "ntk": "tangent"}.get(kernel) if kernel not in FAMILIES else FAMILIES[kernel]
            return {name: one for name, one in every.items() if name.startswith(str(start))}
        if kernel in FAMILIES:
            raise ValueError(f"`kernel` is {kernel!r}, which has no `depth` and no `trained` layers; leave them out")
        from overparam.kernels import FullyConnected

        given = range(1, 6) if self.depth is None else self.depth
        several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
        depths = [checks.whole_number(one, "depth", least=1) for one in (given if several else [given])]  # type: ignore[union-attr]
        if not depths:
            raise ValueError("`depth` is empty; give one number of hidden layers or several, or leave it out")
        get = "nngp" if kernel == "nngp" else "ntk"
        return {f"{get}, depth {depth}": (FullyConnected(depth, trained=self.trained), get) for depth in depths}


@final
class NTKClassifier(ClassifierMixin, AbstractKernelModel):
    """Kernel ridge regression on classes, with the kernel and the ridge that rows left out choose: nothing is fitted twice.

    Tangent kernels of wide networks, of one to five hidden layers, Laplace and Gaussian kernels, and of a table products over its
    columns of Laplace kernels, are tried with sixteen ridges each; the least mean square of rows left out is taken. `loo_error_` is the error with an interval, from which what
    choosing flatters is taken away; `loo_predictions_` and `loo_probabilities_` are of every row by the model without it. Probabilities are
    those under which the labels of rows left out are likeliest. Equal rows leave together, unless more than one in a hundred
    distinct rows has several labels: such tables repeat by chance, and a row of a whole weight w leaves as w rows do.

    Args:
        kernel: "auto"; "ntk", "nngp", "laplace" or "gaussian" for one family; a kernel of `op.kernels`, or several by name.
        depth: hidden layers of the tangent kernels tried, one number or several; None for one to five.
        trained: their trained layers, as in `op.kernels.FullyConnected`.
        ridge: "auto", or the one that is taken.
        steps, lr: gradient descent stopped after so many steps in place of a ridge; rows are then left out by fifths.
        preprocess: "auto" puts standardised columns beside their quantiles, and beside both, for classes, of columns of three to ten
            whole numbers, which may be codes, one for each; "standardise", "quantiles", "unit" (rows of norm 1, as for images), or "none".
        random_features: how many weights stand for a kernel and its matrix, such as 2_000, or None for never; "auto": above 12,000 rows
            conjugate gradients solve with the matrix, and 1,000 features stand for one that does not fit in memory. `notes_` says so.
        random_state: draws the rows on which kernels are compared where there are more than 400.
        n_jobs: kernels tried at once, in threads.
        device: as in `op.gram`, for more than 4,000 rows; fewer are decomposed on the CPU.
        class_weight: "balanced", by the weights of the rows, or a weight > 0 a class, as in scikit-learn.

    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
    >>> model = NTKClassifier(kernel="laplace").fit(X, ["a", "a", "a", "b", "b", "b"])
    >>> model.predict([[0.05], [1.3]]), model.loo_error_.value
    (array(['a', 'b'], dtype='<U1'), 0.0)
    """

    def __init__(
        self,
        *,
        kernel: Any = "auto",
        depth: int | Sequence[int] | None = None,
        trained: Any = "all",
        ridge: float | str = "auto",
        steps: int | None = None,
        lr: float | None = None,
        preprocess: str = "auto",
        random_features: int | str | None = "auto",
        random_state: Any = 0,
        n_jobs: int | None = None,
        device: str | None = None,
        class_weight: Any = None,
    ) -> None:
        super().__init__(
            kernel=kernel, depth=depth, trained=trained, ridge=ridge, steps=steps, lr=lr, preprocess=preprocess,
            random_features=random_features, random_state=random_state, n_jobs=n_jobs, device=device,
        )  # fmt: skip
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> NTKClassifier:
        """Fit to rows and their classes.

        Args:
            X: (n, d) numbers, NaN where one is missing; sparse; a pandas, polars or Arrow frame, whose text becomes columns.
            y: (n,) classes.
            sample_weight: (n,) a row of weight w is w equal rows that leave together; 0 is absent.
            groups: (n,) rows of a group leave together.
        """

        def targets(n: int, there: np.ndarray, counted: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
            self.classes_, codes = checked_labels(y, n, there)
            signs = 2.0 * codes - 1.0  # scikit-learn's sign: the second class is positive
            more = _class_weights(self.class_weight, self.classes_, np.bincount(codes, counted))
            return (signs if len(self.classes_) == 2 else encode_codes(codes, len(self.classes_))), more[codes]

        self._fit(X, targets, sample_weight, groups, "classes")
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """The outputs of the network's limit, (n,) of two classes, positive for the second; (n, classes) of more."""
        return self._outputs(X)

    def predict(self, X: Any) -> np.ndarray:
        """The class of the largest output."""
        return self._decided(self._outputs(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, classes) probabilities, calibrated by rows left out; the likeliest class is the one of `predict`."""
        outputs = self._outputs(X)
        return self.fit_.probabilities(outputs)

    @property
    def loo_predictions_(self) -> np.ndarray:
        """(n,) the class of every training row by the model without it, and without its copies."""
        check_is_fitted(self)
        return self._decided(self._left_out)

    @property
    def loo_probabilities_(self) -> np.ndarray:
        """(n, classes) likewise."""
        check_is_fitted(self)
        return self.fit_.probabilities(self._left_out)

    def _decided(self, outputs: np.ndarray) -> np.ndarray:
        return self.classes_[(outputs > 0).astype(int) if outputs.ndim == 1 else outputs.argmax(axis=1)]


@final
class NTKRegressor(RegressorMixin, AbstractKernelModel):
    """Kernel ridge regression on one target or several, with the kernel and the ridge that rows left out choose.

    As `NTKClassifier`, but equal rows always leave together; targets are centred and scaled each by its own deviation.

    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = NTKRegressor(kernel="gaussian").fit(X, X[:, 0] ** 2)
    >>> model.predict([[0.5]]).round(2), model.loo_error_.value < 1e-3
    (array([0.25]), True)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> NTKRegressor:
        """Fit to rows and their targets, (n,) or (n, targets); else as `NTKClassifier.fit`."""
        self._fit(
            X, lambda n, there, counted: (checked_numbers(y, n, there), None), sample_weight, groups, "regression"
        )
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The targets of new rows; with `return_std` also the standard deviation of a new target at each.

        That is of the Gaussian process whose mean this is, as large as residuals of rows left out say. Numbers far outside those
        fitted count as at 1,000 deviations, quantiles as at the ends, and it grows no more there. With `steps` there is none.
        """
        rows = self._rows(X)
        outputs = self.fit_.predict(rows)
        return (outputs, self.fit_.deviations(rows)) if return_std else outputs

    @property
    def loo_predictions_(self) -> np.ndarray:
        """In the shape of y: every training row by the model without it, and without its copies. Only the mean and the deviation
        by which targets are centred and scaled are those of all rows."""
        check_is_fitted(self)
        return self._left_out


def _class_weights(weight: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(classes,) as scikit-learn has them, a row of weight w counted as w rows."""
    if weight is None:
        return np.ones(len(classes))
    if not isinstance(weight, Mapping):
        checks.one_of(weight, "class_weight", ("balanced",), "or a weight a class, by name")
        return counts.sum() / (len(classes) * counts)
    for name, own in weight.items():
        checks.positive(own, f"class_weight[{name!r}]", fix="leave out the rows of a class that is not to count")
    return np.asarray(compute_class_weight(weight, classes=classes, y=classes))


def checked_labels(y: Any, n: int, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes of the rows that are there, sorted, and which of them each has, as scikit-learn checks them."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    checks.require_unmasked(y, "y")
    labels = column_or_1d(y, warn=True)
    if len(labels) != n:
        raise ValueError(f"`y` has {len(labels)} labels and `X` {n} rows; expected one a row")
    checks.require_one_kind(labels := labels[there], "y")
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"every row is of the class {classes.tolist()[0]!r}; two classes or more are needed")
    return classes, codes


def checked_numbers(y: Any, n: int, there: np.ndarray) -> np.ndarray:
    """Targets of the rows that are there, (n,) or (n, targets)."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    require_as_given(y, "y")
    kind: Any = getattr(y, "dtype", None) or np.asarray(y).dtype
    if getattr(kind, "kind", "") in ("m", "M"):
        raise ValueError(f"`y` has dates ({kind}); a regression needs numbers: pass days or seconds since one of them")
    try:
        numbers = np.asarray(check_array(y, ensure_2d=False, dtype="float64", input_name="y", ensure_all_finite=False))
    except (TypeError, ValueError) as error:
        if not str(error).startswith(("could not convert string", "float() argument")):
            raise
        raise ValueError(
            f"`y` is not of numbers ({error}), which a regression needs; classes need a classifier"
        ) from None
    if numbers.ndim > 2 or len(numbers) != n:
        raise ValueError(f"`y` has shape {numbers.shape}; expected ({n},) or ({n}, targets), one row for each of `X`")
    numbers = np.asarray(check_array(numbers[there], ensure_2d=False, input_name="y"))
    if (largest := float(np.abs(numbers).max())) > LARGEST:
        raise ValueError(f"`y` has numbers up to {largest:.1g}, whose squares pass float64; divide it by {largest:.1g}")
    return numbers


def _sets(
    A: np.ndarray, y: np.ndarray, groups: np.ndarray | None, task: str, counted: np.ndarray, notes: list[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The first row of each set that is fitted as one weighted row, which set every row is in, and the groups and weights of the sets.

    Every row leaves by a name: that of its group; without groups that of all rows equal to it, unless their labels show that rows
    repeat by chance: then its own, and a row that counts as several is so many. Targets of a regression show nothing, as
    replicates differ by noise. Rows that are equal in name, numbers and label are a set. Sets and groups are numbered in an order
    of their own, so that the order of the rows and the names of the groups change no bit.
    """
    rows, own = np.arange(len(A)), np.ones(len(A))
    names = equal_rows(A) if groups is None else np.unique(groups, return_inverse=True)[1]
    if groups is None and _by_chance(names, y, task):
        if np.array_equal(counted, np.round(counted)) and counted.sum() <= MOST_SPREAD:
            own = counted
            rows = np.repeat(rows, own.astype(int))
        elif np.any(counted != 1):
            notes.append("weights are no small whole numbers: a row leaves with all of its weight")
        names = np.arange(len(rows))
    leads, member = np.unique(_bytes(np.column_stack([A, y])[rows], names), return_index=True, return_inverse=True)[1:]
    member = member.ravel()
    first, number = np.unique(names[leads], return_index=True, return_inverse=True)[1:]
    weights = np.bincount(member, counted[rows] / own[rows])
    return rows[leads], member[np.unique(rows, return_index=True)[1]], np.argsort(np.argsort(first))[number], weights


def _by_chance(names: np.ndarray, y: np.ndarray, task: str) -> bool:
    """Whether equal rows are no copies: of classes, where too many of them have several; of one row alone always."""
    pairs = np.unique(np.column_stack([names, y]), axis=0)
    several = np.bincount(pairs[:, 0].astype(int)) > 1
    return (task == "classes" and float(several.mean()) > BY_CHANCE) or len(several) < 2


def _is_all(trained: Any) -> bool:
    return isinstance(trained, str) and trained == "all"


def equal_rows(A: np.ndarray) -> np.ndarray:
    """(n,) which rows are equal, NaN equal to NaN."""
    return np.unique(_bytes(A), return_inverse=True)[1].ravel()


def _bytes(A: np.ndarray, names: np.ndarray | None = None) -> np.ndarray:
    rows = np.where(np.isnan(A), np.nan, A) + 0.0  # one NaN, no −0
    rows = np.ascontiguousarray(rows if names is None else np.column_stack([rows, names]))
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
