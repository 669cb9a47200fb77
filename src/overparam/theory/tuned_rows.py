"""Rows and labels on which kernels are tried with ridges, and the fit that was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, final

import numpy as np
from scipy.linalg import eigh

from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.core.machine import available_memory, blas_threads
from overparam.core.progress import Progress
from overparam.data.scaling import column_deviations, column_means
from overparam.engines import AbstractGram, cross_matrix, gram
from overparam.engines.cross import require_alike
from overparam.engines.matrix import chosen_device
from overparam.kernels import RandomFeatures
from overparam.spectrum import left_out_groups
from overparam.spectrum.cholesky import factor
from overparam.spectrum.left_out import class_margins
from overparam.spectrum.left_out_groups import GroupsLeftOut, equal_rows, left_out_without
from overparam.spectrum.rules import EPS
from overparam.theory.integrands import growth
from overparam.theory.left_out_folds import FoldsLeftOut, cut_into_folds, leave_folds_out
from overparam.theory.left_out_sets import ONE_THREAD, SetsLeftOut

LEAST_RIDGE, MOST_RIDGE, RIDGES = 1e-7, 30.0, 16
"""Ridges tried, times the mean diagonal, and how many; the largest is n/10 where that is more."""
STEP = 3.0
"""Where a ridge is guessed, one this much larger is tried, and one more beyond the better of the two."""
NEW_ROWS, PAIRS_ON_DEVICE = 4_096, 30_000_000
"""New rows at once; and new rows times known ones from which on an accelerator makes their kernel."""
FOLDS = 5
"""That leave in turn where rows are fitted by products."""
SINGLE_RIDGE = 1e-3
"""Ridges, times the mean diagonal, from which on steps are made in float32: rounding moves eigenvalues by 1e-5 or less."""
ROUGH_BYTES, ROUGH_SHARE = 2.2, 0.8
"""Bytes an entry of half a matrix in float32, with a tenth to spare, and the share of the free memory that it may take."""
RESIDUAL, MOST_PRODUCTS = 3e-4, 200
"""‖r‖/‖y‖ at which conjugate gradients stop: predictions are then off by about as much of the labels; and their most products."""


@final
@dataclass(frozen=True)
class Setting:
    """A kernel with a ridge that was tried, and how it did on rows left out."""

    name: str
    ridge: float
    mean_square: float
    """Of the residuals, summed over outputs; for regression each over the variance of its target."""
    error: float | None
    """The share of rows put into a wrong class; None for regression."""
    rows: int
    """How many rows it was tried on."""
    steps: int | None = None
    """Of gradient descent, where it is stopped in place of a ridge."""
    lr: float | None = None


@final
@dataclass(frozen=True, eq=False)
class AtRidges:
    """One kernel at its ridges: scores, and predictions for rows left out, (ridges, n, outputs)."""

    settings: list[Setting]
    outputs: np.ndarray
    alone: np.ndarray | None
    """Those where rows leave alone, of the best ridge; None where they do anyway."""
    coefficients: np.ndarray
    """Of the best ridge."""
    solved: FoldsLeftOut | None = None
    """How, where rows left with their fold, by products."""


@final
class FittedRows:
    """Rows and labels with what is known of them before any kernel: equal rows, groups, the units of the targets."""

    def __init__(
        self, X: np.ndarray, y: np.ndarray, groups: np.ndarray, task: Literal["classes", "regression"],
        kernels: Mapping[str, tuple[AbstractKernel, str]], device: str | None, units: np.ndarray | None = None,
        cluster: Any = None, weights: np.ndarray | None = None, ridge: float | None = None,
    ) -> None:  # fmt: skip
        self.X, self.y, self.groups, self.kernels, self.device, self.cluster = X, y, groups, kernels, device, cluster
        self.task: Literal["classes", "regression"] = task
        self.weights, self.ridge = weights, ridge
        self.first, self.same = equal_rows(X)
        columns = y.reshape(len(y), -1)
        self.shift = np.zeros(columns.shape[1]) if task == "classes" else column_means(columns, weights)
        spread = np.ones(columns.shape[1]) if task == "classes" else column_deviations(columns, weights)
        self.units = np.where(spread > 0, spread, 1.0) if units is None else units
        self.scaled = (columns - self.shift) / self.units

    def part(self, rows: int, random: np.random.Generator) -> FittedRows:
        """About so many rows, whole groups of them, at least two groups."""
        order = random.permutation(self.groups.max() + 1)
        sizes = np.bincount(self.groups)[order]
        count = max(2, int(np.searchsorted(np.cumsum(sizes), rows)) + 1)
        return self.of(np.flatnonzero(np.isin(self.groups, order[:count])))

    def of(self, chosen: np.ndarray) -> FittedRows:
        """Some rows, in the units of all."""
        groups = np.unique(self.groups[chosen], return_inverse=True)[1]
        weights = None if self.weights is None else self.weights[chosen]
        return FittedRows(
            self.X[chosen], self.y[chosen], groups, self.task, self.kernels, self.device, self.units, self.cluster,
            weights, self.ridge,
        )  # fmt: skip

    def mean(self, losses: np.ndarray) -> float:
        """Of the losses of all rows."""
        return float(np.average(losses, weights=self.weights))

    def at_ridges(self, name: str, guess: float | None = None) -> AtRidges:
        """One kernel with all ridges of the grid; or with a guess, and two around it, each costing a factor."""
        H = self.matrix(name)
        path = GroupsLeftOut(H, self.scaled, self.same, self.weights, several=guess is None and self.ridge is None)
        leaving, singles = path.leaving(self.groups), path.leaving()
        singled = int(self.groups.max()) + 1 == len(self.y)
        settings, outputs = [], []
        best: tuple[float, np.ndarray | None, np.ndarray] | None = None

        def attempt(ridge: float) -> None:
            nonlocal best
            found = path.outputs(ridge, leaving)
            score = self.mean(np.sum((self.scaled - found) ** 2, axis=1))
            settings.append(Setting(name, ridge, score, self.error(found), len(found)))
            outputs.append(found)
            if best is None or score < best[0]:
                best = score, None if singled else path.outputs(ridge, singles), path.coefficients(ridge)

        for ridge in self.grid(H) if guess is None else [guess]:
            attempt(ridge)
        if guess is not None and self.ridge is None:
            attempt(guess * STEP)
            first, second = settings
            if second.mean_square < first.mean_square:
                attempt(guess * STEP**2)
            elif guess / STEP >= self.grid(H)[0] * (1 - EPS):  # below, rounding is all that is left of a factor
                attempt(guess / STEP)
        assert best is not None
        return AtRidges(settings, np.stack(outputs), best[1], best[2])

    def by_steps(self, name: str, steps: Sequence[int], lr: float | None, key: int) -> AtRidges:
        """One kernel with gradient descent stopped after numbers of steps, its coefficients exact: rows leave with their fold,
        a fifth of all and whole groups of them, and rows alone with folds of single rows.

        lr: of ½ Σ w (y − f)²; None is 1/λ_max of the fit to all rows.
        """
        K = self.matrix(name).dense()
        K = K if len(K) == len(self.y) else K[np.ix_(self.same, self.same)]
        roots = np.sqrt(np.ones(len(K)) if self.weights is None else self.weights)[:, None]
        M, Y = roots * K * roots.T, roots * self.scaled
        largest = float(eigh(M, eigvals_only=True, subset_by_index=[len(M) - 1, len(M) - 1])[0])
        lr = 1 / largest if lr is None else lr
        if not 0 < lr * largest < 2:
            raise ValueError(
                f"`lr` is {lr:g}, with which gradient descent diverges; use a smaller `lr`, below {2 / largest:.3g} here"
            )
        every = np.arange(len(M))

        def fitted(rows: np.ndarray) -> np.ndarray:
            """Coefficients after each number of steps."""
            values, vectors = eigh(M[np.ix_(rows, rows)], driver="evd")
            grown = growth(np.maximum(values, 0.0), np.asarray(steps), lr)
            return roots[rows] * (vectors @ (grown[:, :, None] * (vectors.T @ Y[rows])))

        def left_out(fold: np.ndarray) -> np.ndarray:
            found = np.empty((len(steps), *Y.shape))
            for own in np.unique(fold):
                held, kept = every[fold == own], every[fold != own]
                found[:, held] = K[np.ix_(held, kept)] @ fitted(kept)
            return found

        ways = self.folds(key)
        outputs = left_out(ways[0])
        settings = [
            Setting(
                name,
                0.0,
                self.mean(np.sum((self.scaled - found) ** 2, axis=1)),
                self.error(found),
                len(found),
                count,
                lr,
            )
            for count, found in zip(steps, outputs, strict=True)
        ]
        best = int(np.argmin([one.mean_square for one in settings]))
        sums = np.stack([np.bincount(self.same, column) for column in fitted(every)[best].T], axis=1)
        return AtRidges(settings, outputs, left_out(ways[1])[best] if len(ways) > 1 else None, sums)

    def folds(self, key: int) -> list[np.ndarray]:
        """(n,) the fold of every row with whole groups in each, classes in proportion; and of rows alone where there are groups."""
        codes = (self.y > 0).astype(int) if self.y.ndim == 1 else self.y.argmax(axis=1)
        strata = codes if self.task == "classes" else np.zeros(len(self.y), dtype=int)
        singles = np.arange(len(self.y))
        ways = [self.groups] if int(self.groups.max()) + 1 == len(self.y) else [self.groups, singles]
        return [cut_into_folds(each, strata, min(FOLDS, int(each.max()) + 1), key=key) for each in ways]

    def by_products(self, name: str, ridge: float, key: int, progress: Progress) -> AtRidges:
        """One kernel with one ridge by products alone: rows leave with their fold, which has whole groups of them.

        Where there are groups, folds of single rows stand for leaving alone. All folds and the fit to all rows are one block of
        columns. Equal rows stay apart: the ridge is all that conjugate gradients need.
        """
        ways = self.folds(key)
        singled = len(ways) == 1
        progress(0.0, 1.0, f"{name}, matrix")
        H, rough = self._matrices(name, ridge)
        solved = leave_folds_out(
            H, self.scaled, np.stack(ways, axis=1), ridge, tol=RESIDUAL, all_rows=True, max_products=MOST_PRODUCTS,
            key=key, rough=rough, progress=lambda done, _, what: progress(1 - 0.9 ** (done / 4), 1.0, f"{name}, {what}"),
        )  # fmt: skip
        assert solved.coefficients is not None
        found = solved.outputs
        score = self.mean(np.sum((self.scaled - found[0]) ** 2, axis=1))
        setting = Setting(name, ridge, score, self.error(found[0]), len(self.y))
        sums = np.stack([np.bincount(self.same, column) for column in solved.coefficients.T], axis=1)
        return AtRidges([setting], found[:1], None if singled else found[1], sums, solved)

    def sampled(self, names: Sequence[str], count: int, key: int) -> FittedRows:
        """The same rows with random features in place of these kernels."""
        kernels = {
            f"{count:,} random features of {name}": (RandomFeatures(self.kernels[name][0], count, key), "ntk")
            for name in names
        }
        return FittedRows(
            self.X, self.y, self.groups, self.task, kernels, self.device, self.units, self.cluster, self.weights, self.ridge
        )  # fmt: skip

    def by_features(self, name: str, key: int, progress: Progress) -> AtRidges:
        """One kernel of random features with all ridges, from the matrix of features by features alone, at any number of rows.

        With Φ the features and h = φᵀ(ΦᵀΦ + ridge)⁻¹φ a row alone has the residual (y − f)/(1 − h); groups leave with their fold,
        which is fitted again.
        """
        kernel = self.kernels[name][0]
        assert isinstance(kernel, RandomFeatures)
        roots = np.sqrt(np.ones(len(self.y)) if self.weights is None else self.weights)[:, None]
        Y = roots * self.scaled
        mean = float(np.mean(kernel.diagonal(self.X[:NEW_ROWS]))) or 1.0
        ridges = np.asarray(self.ridges(mean))

        def panels(rows: np.ndarray | slice, done: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
            every = np.arange(len(Y))[rows]
            for start in range(0, len(every), NEW_ROWS):
                progress(done, 1.0, f"{name}, row {start:,}")
                piece = every[start : start + NEW_ROWS]
                yield piece, roots[piece] * kernel.features(self.X[piece])

        def sums(rows: np.ndarray | slice, done: float) -> tuple[Any, Any]:
            gram_, right = 0.0, 0.0
            for piece, F in panels(rows, done):
                gram_, right = gram_ + F.T @ F, right + F.T @ Y[piece]
            return gram_, right

        def solved(gram_: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            values, vectors = eigh(gram_, driver="evd", check_finite=False)
            shares = 1 / (np.maximum(values, 0.0)[:, None] + ridges)
            return vectors, shares, shares.T[:, :, None] * (vectors.T @ right)  # the weights of every ridge, rotated

        whole = sums(slice(None), 0.0)
        vectors, shares, weights = solved(*whole)
        left_out = np.empty((len(ridges), *Y.shape))
        for piece, F in panels(slice(None), 0.3):
            F = F @ vectors
            left_out[:, piece] = Y[piece] - (Y[piece] - F @ weights) / (1 - (F**2 @ shares).T[:, :, None])
        alone, singled = left_out, int(self.groups.max()) + 1 == len(self.y)
        if not singled:
            fold, left_out = self.folds(key)[0], np.empty_like(alone)
            for own in np.unique(fold):
                part = sums(np.flatnonzero(fold == own), 0.6)
                turned, _, without = solved(whole[0] - part[0], whole[1] - part[1])
                for piece, F in panels(np.flatnonzero(fold == own), 0.8):
                    left_out[:, piece] = (F @ turned) @ without
        left_out = left_out / roots
        scores = [self.mean(np.sum((self.scaled - found) ** 2, axis=1)) for found in left_out]
        settings = [
            Setting(name, float(ridge), score, self.error(found), len(found))
            for ridge, score, found in zip(ridges, scores, left_out, strict=True)
        ]
        best = int(np.argmin(scores))
        fitted = np.concatenate([F @ (vectors @ weights[best]) for _, F in panels(slice(None), 0.9)])
        dual = roots * (Y - fitted) / ridges[best]
        coefficients = np.stack([np.bincount(self.same, column) for column in dual.T], axis=1)
        return AtRidges(settings, left_out, None if singled else alone[best] / roots, coefficients)

    def _matrices(self, name: str, ridge: float) -> tuple[AbstractGram, AbstractGram | None]:
        """Of all rows: that of residuals, and on a CPU half of it in float32 for the steps, which takes a quarter of the memory
        and half the time; the ridge has to be well above what that rounds away."""
        kernel, get = self.kernels[name]
        if self.cluster is not None:
            return gram(kernel, self.X, "dask", get=get, cluster=self.cluster), None
        where = chosen_device(self.device)
        fits = rough_fits(len(self.X)) and isinstance(kernel, AbstractInnerProductKernel)
        if where == "cpu" and fits and ridge >= SINGLE_RIDGE * float(np.mean(kernel.diagonal(self.X, get))):
            rough = gram(kernel, self.X, "half", get=get, dtype="float32", device=where)
            return gram(kernel, self.X, "matrix_free", get=get, device=where), rough
        return gram(kernel, self.X, get=get, device=where), None

    def matrix(self, name: str) -> AbstractGram:
        """Of the distinct rows."""
        kernel, get = self.kernels[name]
        rows = self.X[self.first]
        few = len(rows) <= left_out_groups.EIGEN_ROWS
        return gram(kernel, rows, "dense", get=get, device="cpu" if few else chosen_device(self.device))

    def grid(self, H: AbstractGram) -> list[float]:
        """Rising ridges, evenly on a logarithmic scale; with weights they grow as these do."""
        return self.ridges(float(H.diagonal().mean()) or 1.0)

    def ridges(self, mean: float) -> list[float]:
        """Those tried with a kernel of this mean diagonal."""
        if self.ridge is not None:
            return [self.ridge]
        shares = np.geomspace(LEAST_RIDGE, max(MOST_RIDGE, len(self.y) / 10), RIDGES)
        return [mean * self.mean_weight * float(share) for share in shares]

    @property
    def mean_weight(self) -> float:
        return 1.0 if self.weights is None else float(self.weights.mean())

    def error(self, scaled: np.ndarray) -> float | None:
        return share_wrong(self.y, scaled.reshape(self.y.shape), self.weights) if self.task == "classes" else None


@final
class ChosenFit:
    """The chosen kernel and ridge on all rows."""

    def __init__(self, rows: FittedRows, setting: Setting, coefficients: np.ndarray) -> None:
        self.rows, self._setting, self.coefficients = rows, setting, coefficients
        self.kernel, self.get = rows.kernels[setting.name]
        self.known = rows.X[rows.first]
        """The distinct rows."""

    @cached_property
    def _features(self) -> np.ndarray:
        """Weights of the features, where the kernel is of random ones: new rows then cost no more with more rows fitted."""
        assert isinstance(self.kernel, RandomFeatures)
        parts = (slice(i, i + NEW_ROWS) for i in range(0, len(self.known), NEW_ROWS))
        return np.sum([self.kernel.features(self.known[part]).T @ self.coefficients[part] for part in parts], axis=0)

    def predict(self, Z: Any) -> np.ndarray:
        """As `TunedFit.predict`."""
        if isinstance(self.kernel, RandomFeatures):
            Z = self.kernel.inputs(Z, "Z")
            require_alike(Z, self.known, "Z")
            pieces = range(0, len(Z), NEW_ROWS)
            return self.in_units(
                np.concatenate([self.kernel.features(Z[i : i + NEW_ROWS]) @ self._features for i in pieces])
            )
        if self._on_device(len(Z)):
            H = gram(self.kernel, self.known, "matrix_free", get=self.get, device=self.rows.device)
            return self.in_units(H.cross_product(Z, self.coefficients))
        return self.in_units(np.concatenate([K @ self.coefficients for _, K in self._new(Z)]))

    def _on_device(self, new: int) -> bool:
        """Whether an accelerator makes the kernel with so many new rows: of few pairs the host does it sooner than they travel."""
        some = new * len(self.known) >= PAIRS_ON_DEVICE and isinstance(self.kernel, AbstractInnerProductKernel)
        return some and chosen_device(self.rows.device) != "cpu"

    def deviations(self, Z: Any) -> np.ndarray:
        """As `TunedFit.deviations`."""
        rows, ridge = self.rows, self._setting.ridge
        if ridge <= 0:
            raise ValueError("deviations are of a fit with a ridge > 0; leave `steps` out, or give a ridge")
        H = rows.matrix(self._setting.name)
        weights = np.ones(len(rows.y)) if rows.weights is None else rows.weights
        path = GroupsLeftOut(H, rows.scaled, rows.same, rows.weights, several=False)
        left = (rows.scaled - path.outputs(ridge, path.leaving(rows.same))) if len(rows.first) > 1 else rows.scaled
        open_ = path.variances(ridge)[rows.same] + ridge / weights
        size = np.average(
            left**2 / open_[:, None], axis=0, weights=weights
        )  # of the prior: as residuals left out have it
        roots = np.sqrt(np.bincount(rows.same, weights))[:, None]
        made, found = factor(roots * H.dense() * roots.T, ridge), []
        for piece, K in self._new(Z):
            right = roots * K.T
            prior = self.kernel.diagonal(piece, self.get)
            found.append(np.maximum(prior - np.sum(right * made.solve(right), axis=0), 0.0) + ridge / rows.mean_weight)
        spread = np.sqrt(np.concatenate(found)[:, None] * size) * rows.units
        return spread.reshape(len(spread), *rows.y.shape[1:])

    def _new(self, Z: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """New rows and their kernel with those fitted, some at a time."""
        Z, known = self.kernel.inputs(Z, "Z"), self.kernel.inputs(self.known, "X")  # rows may be images
        require_alike(Z, known, "Z")
        for start in range(0, len(Z), NEW_ROWS):
            piece = Z[start : start + NEW_ROWS]
            yield piece, cross_matrix(self.kernel, piece, known, get=self.get)

    def without(
        self, rows: np.ndarray, groups: np.ndarray, blocks: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """As `TunedFit.without`; for gradient descent after s steps stands the ridge 1/(lr s), whose shrinkage is closest."""
        known, best = self.rows, self._setting
        ridge = 1 / (best.lr * best.steps) if best.steps and best.lr else best.ridge
        K = cross_matrix(self.kernel, known.X[rows], known.X[rows], get=self.get)
        roots = np.sqrt(np.ones(len(K)) if known.weights is None else known.weights[rows])[:, None]
        K = roots * ((K + K.T) / 2) * roots.T
        with blas_threads(1 if len(K) <= ONE_THREAD else None):
            for kept, found in left_out_without(K, roots * known.scaled[rows], groups, ridge, blocks):
                yield rows[kept], self.in_units(found / roots[kept])

    def over_folds(
        self, rows: np.ndarray, folds: Sequence[tuple[np.ndarray, np.ndarray]], chosen: Sequence[Setting]
    ) -> np.ndarray:
        """As `TunedFit.over_folds`, with the setting of each fold."""
        known = self.rows
        roots = np.sqrt(np.ones(len(rows)) if known.weights is None else known.weights[rows])[:, None]
        Y = roots * known.scaled[rows]
        found = np.empty_like(Y)
        for name in dict.fromkeys(one.name for one in chosen):  # one matrix at a time
            kernel, get = known.kernels[name]
            K = roots * gram(kernel, known.X[rows], "dense", get=get, device="cpu").dense() * roots.T
            for (fitted, held), one in zip(folds, chosen, strict=True):
                if one.name == name:
                    solved = factor(K[np.ix_(fitted, fitted)], one.ridge).solve(Y[fitted])
                    found[held] = K[np.ix_(held, fitted)] @ solved
        return self.in_units(found / roots)

    def among(self, rows: np.ndarray) -> SetsLeftOut:
        """As `TunedFit.among`."""
        known = self.rows
        roots = np.sqrt(np.ones(len(rows)) if known.weights is None else known.weights[rows])[:, None]
        K = roots * gram(self.kernel, known.X[rows], "dense", get=self.get, device="cpu").dense() * roots.T
        return SetsLeftOut(
            K, roots * known.scaled[rows], self._setting.ridge, lambda found: self.in_units(found / roots)
        )

    def in_units(self, scaled: np.ndarray) -> np.ndarray:
        """In the shape and units of y."""
        rows = self.rows
        return (scaled * rows.units + rows.shift).reshape(len(scaled), *rows.y.shape[1:])


def rough_fits(n: int) -> bool:
    """Whether half a matrix in float32 fits in memory."""
    return ROUGH_BYTES * n**2 < ROUGH_SHARE * available_memory()


def share_wrong(y: np.ndarray, outputs: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The share of rows put into a wrong class."""
    margins = class_margins(y, outputs)
    assert margins is not None
    return float(np.average(margins <= 0, weights=weights))
