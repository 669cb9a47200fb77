"""Can it be learned, how fast, how well on new data: the numbers behind the first three answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from overparam.analysis.data_answers import Learnability, NewData, Spectrum, Speed
from overparam.analysis.data_rows import PreparedRows, Trial, columns
from overparam.core.bracketed import Bracketed
from overparam.data import generator
from overparam.engines import AbstractGram, as_gram
from overparam.frame import Work
from overparam.spectrum import (
    Eigenpairs,
    EigenvalueBounds,
    Factor,
    LeaveOneOut,
    Quadrature,
    eigenpairs,
    factor,
    leave_one_out,
    matrix_function,
    quadrature,
)
from overparam.spectrum.left_out import EIGEN_FITS, from_residuals
from overparam.theory import (
    StepsToLoss,
    best_learning_rate,
    effective_dimension,
    generalization_bound,
    kernel_target_alignment,
    label_complexity,
    max_learning_rate,
    predict_loss,
    steps_to_loss,
)
from overparam.theory.integrands import growth

RANDOM_DRAWS = 10
RIDGE_SHARE = 0.1
"""Times the mean diagonal: the ridged complexity shown beside the raw one."""
TARGETS = (0.5, 0.1, 0.01)
MANY = 20_000
"""Rows from which a factor takes so long that one must do: ridges that matter little count as none."""
SHOWN_EIGENVALUES = 100
"""Of larger matrices, where all of them would take minutes."""


@dataclass(frozen=True, eq=False)
class Sweeps:
    """Everything that costs: the quadratures, the factor, leave-one-out."""

    H: AbstractGram
    true: Quadrature
    random: Quadrature
    bounds: EigenvalueBounds
    factor: Any
    floor: float
    """The ridge inside `factor`: 0 where λ_min is known to be positive."""
    inverse_diagonal: np.ndarray
    end: LeaveOneOut
    best: LeaveOneOut
    pairs: Eigenpairs
    """All eigenpairs where they are few, else the largest."""
    smallest: float
    """An upper bound on λ_min: itself where all eigenvalues are known, else the least Ritz value; 0: H is
    singular to rounding."""


def make_sweeps(work: Work, s: PreparedRows, H: AbstractGram) -> Sweeps:
    """One sweep of true and random labels together, one Cholesky factor, leave-one-out twice."""
    signs = generator(s.seed, 11).choice([-1.0, 1.0], size=s.n)
    Y = np.column_stack([columns(s.y), signs])
    both = quadrature(H, Y, tol=1e-8)
    bounds = both.bounds
    true, random = _part(both, slice(0, -1)), _part(both, slice(-1, None))
    work.progress(0.4, 1.0, "leave-one-out")
    mean = true.mean_diagonal
    floor = 0.0 if bounds.lower > 1e-9 * mean else 1e-6 * mean
    factored = factor(H, floor, least=bounds.lower)
    diagonal = factored.inverse_diagonal()
    residuals = factored.solve(s.y) / _shaped(diagonal, s.y)
    end = from_residuals(s.y, residuals, floor)
    if s.n <= EIGEN_FITS:
        best = leave_one_out(H, s.y, "auto", task="classes" if s.classes else "regression")
    else:
        rows = np.sort(np.random.default_rng([s.seed, 3]).permutation(s.n)[:2000])
        few = H.block(rows, rows)
        chosen = leave_one_out(as_gram((few + few.T) / 2), s.y[rows], "auto")
        if s.n > MANY and chosen.ridge <= 1e-2 * mean:
            best = replace(end, tried=((end.ridge, end.mean_square), *chosen.tried))
        else:
            ridged = factor(H, chosen.ridge)
            residuals = ridged.solve(s.y) / _shaped(ridged.inverse_diagonal(), s.y)
            best = from_residuals(s.y, residuals, chosen.ridge, chosen.tried)
            del ridged  # two factors beside the matrix are more than an accelerator may hold
    if end.mean_square < best.mean_square:  # the grid of ridges does not go down to none
        best = replace(end, tried=((end.ridge, end.mean_square), *best.tried))
    work.progress(0.8, 1.0, "eigenvalues")
    pairs = eigenpairs(H, None if s.n <= EIGEN_FITS else SHOWN_EIGENVALUES if s.n <= MANY else 40)
    smallest = float(random.nodes[random.weights > 0].min())
    if s.n <= EIGEN_FITS:
        smallest = min(smallest, max(float(pairs.values[-1]), bounds.lower))
    if bounds.lower <= 0 and smallest <= s.n * np.finfo(float).eps * bounds.upper:
        smallest = 0.0
    return Sweeps(H, true, random, bounds, factored, floor, diagonal, end, best, pairs, smallest)


def _part(q: Quadrature, outputs: slice) -> Quadrature:
    """The quadrature of some of the outputs of a shared sweep."""
    return replace(
        q,
        alphas=q.alphas[outputs],
        betas=q.betas[outputs],
        lengths=q.lengths[outputs],
        complete=q.complete[outputs],
        masses=q.masses[outputs],
    )


def _shaped(diagonal: np.ndarray, y: np.ndarray) -> np.ndarray:
    return diagonal[:, None] if y.ndim == 2 else diagonal


def learnability(work: Work, s: PreparedRows, w: Sweeps) -> Learnability:
    """Leave-one-out, complexity against random and worst labels, alignment."""
    share = RIDGE_SHARE * w.true.mean_diagonal
    drawn, shuffled = _random_labels(s), _shuffled_labels(s)
    ridged_random, ridged_shuffled = _ridged_complexities(s, w, share, drawn, shuffled)
    raw = label_complexity(w.true)
    floor, ceiling = w.bounds.lower, w.smallest
    mass = 2 * float(np.sum(s.y**2)) / s.n
    worst = None
    if ceiling > 0:
        least = float(np.sqrt(mass / ceiling))
        worst = _sure(w.true, least, least, float(np.sqrt(mass / floor)) if floor > 0 else None, floor > 0)
    dimension = effective_dimension(w.H, share).value if s.n <= 2_000 else None
    classes = s.classes
    return Learnability(
        baseline_error=_baseline(s),
        left_out_error=float(w.best.error) if classes and w.best.error is not None else w.best.mean_square,
        left_out_error_end=float(w.end.error) if classes and w.end.error is not None else w.end.mean_square,
        ridge=w.best.ridge,
        ridges_tried=np.array(w.best.tried),
        margins=_margins(s, w.best),
        margins_end=_margins(s, w.end),
        shuffled_errors_end=_errors_of(shuffled, w, s),
        complexity=raw.alone(),
        ridged_complexity=label_complexity(w.true, share).alone(),
        ridged_by=share,
        random_complexities=_complexities(drawn, w.factor, s),
        random_ridged_complexities=ridged_random,
        shuffled_complexities=_complexities(shuffled, w.factor, s),
        shuffled_ridged_complexities=ridged_shuffled,
        worst_complexity=worst,
        alignment=kernel_target_alignment(w.H, s.y).value,
        effective_dimension=dimension,
    )


def _ridged_complexities(
    s: PreparedRows, w: Sweeps, share: float, drawn: list[np.ndarray], shuffled: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Of random and shuffled labels; of many rows, where a factor costs, that of one draw of signs of their norm."""
    if s.n > MANY:
        size = float(np.sqrt(np.sum(s.y**2) / s.n))
        one = np.array([size * label_complexity(w.random, share).value])
        return one, one
    ridged = factor(w.H, share)
    return _complexities(drawn, ridged, s), _complexities(shuffled, ridged, s)


def _baseline(s: PreparedRows) -> float:
    if not s.classes:
        return 1.0
    counts = np.bincount(s.data.codes, minlength=len(s.data.classes))
    return float(1 - counts.max() / counts.sum())


def _draws(s: PreparedRows) -> int:
    return RANDOM_DRAWS if s.n <= MANY else 3  # the spread between draws falls as rows are added


def _random_labels(s: PreparedRows) -> list[np.ndarray]:
    """Labellings like the true ones: fair signs, uniform classes, shuffled targets."""
    random = generator(s.seed, 7)
    if not s.classes:
        return [random.permutation(s.y) for _ in range(_draws(s))]
    if s.y.ndim == 1:
        return [random.choice([-1.0, 1.0], size=s.n) for _ in range(_draws(s))]
    k = s.y.shape[1]
    return [np.eye(k)[random.integers(k, size=s.n)] - 1 / k for _ in range(_draws(s))]


def _shuffled_labels(s: PreparedRows) -> list[np.ndarray]:
    """The labels themselves in random order."""
    random = generator(s.seed, 13)
    return [random.permutation(s.y) for _ in range(_draws(s))]


def _margins(s: PreparedRows, found: LeaveOneOut) -> np.ndarray:
    return found.margins if s.classes and found.margins is not None else np.empty(0)


def _errors_of(labels: list[np.ndarray], w: Sweeps, s: PreparedRows) -> np.ndarray:
    """The leave-one-out error of each labelling, trained to the end."""
    solved = w.factor.solve(np.column_stack([columns(y) for y in labels])).reshape(s.n, len(labels), -1)
    solved /= w.inverse_diagonal[:, None, None]
    found = [from_residuals(y, solved[:, i].reshape(y.shape), w.floor) for i, y in enumerate(labels)]
    return np.array([x.error if s.classes and x.error is not None else x.mean_square for x in found])


def _complexities(labels: list[np.ndarray], factored: Factor | Any, s: PreparedRows) -> np.ndarray:
    """√(2 Σ yᵀ(H + ridge)⁻¹y / n) of each labelling, all in one solve."""
    Y = np.column_stack([columns(y) for y in labels])
    forms = np.einsum("nk,nk->k", Y, factored.solve(Y))
    return np.sqrt(2 / s.n * np.maximum(forms.reshape(len(labels), -1).sum(axis=1), 0.0))


def speed(work: Work, s: PreparedRows, w: Sweeps, trial: Trial | None) -> Speed:
    """Rates, predicted curves of true, random and worst-case labels, steps to targets, early stopping."""
    limit = max_learning_rate(w.random)
    rate = limit.lower / 2
    steps = np.unique(np.concatenate([[0], np.round(np.geomspace(1, 1e7, 120))]))
    curve, noise = predict_loss(w.true, steps, rate), predict_loss(w.random, steps, rate)
    floor, ceiling = w.bounds.lower, w.smallest
    with np.errstate(under="ignore"):
        slow, fast = (np.exp(2 * steps * np.log1p(-rate * v)) for v in (floor, ceiling))
    worst = np.stack([fast, fast, slow])
    targets = []
    for target in TARGETS:
        for labels, q in (("true", w.true), ("random", w.random)):
            found = steps_to_loss(q, target, rate)
            value = None if found.upper is None else found.value  # else rounding may have decided it
            steps_to = replace(found.bracketed, value=value)
            targets.append(replace(found, bracketed=steps_to, relative_target=target, limit=None, labels=labels))
        targets.append(_worst_steps(w.true, target, rate, floor, ceiling))
    early = _early_stopping(s, trial, rate)
    return Speed(
        largest_rate=limit.alone(),
        best_rate=best_learning_rate(w.random).alone(),
        rate=rate,
        lambda_max=_sure(w.true, 2 / limit.value, 2 / limit.upper, w.true.bounds.upper),
        lambda_min=_sure(w.true, ceiling, floor, ceiling, floor > 0),
        steps=steps,
        true=np.stack([curve.values, curve.lower, curve.upper]) / curve.initial,
        random=np.stack([noise.values, noise.lower, noise.upper]) / noise.initial,
        worst=worst,
        certified=np.asarray(curve.certified),
        targets=tuple(targets),
        early_steps=early[0],
        early_errors=early[1],
        early_mean_squares=early[2],
        early_rows=0 if trial is None else len(trial.y_new),
        early_on=trial.what if trial is not None else "",
    )


def _worst_steps(q: Quadrature, target: float, rate: float, floor: float, ceiling: float) -> StepsToLoss:
    """The worst-case labels lie on λ_min alone, which is between `floor` and `ceiling`."""

    def needed(value: float) -> int | None:
        return int(np.ceil(np.log(target) / (2 * np.log1p(-rate * value)))) if value > 0 else None

    lower, upper = needed(ceiling), needed(floor)
    found = _sure(q, None if upper is None else lower, lower, upper, floor > 0)
    return StepsToLoss(found, "reached" if floor > 0 else "open", target, None, rate, labels="worst")


def _sure(
    q: Quadrature, value: float | None, lower: float | None, upper: float | None, known: bool = True
) -> Bracketed:
    return q.held(value, lower, upper, sense=None if known else "none")


def _early_stopping(s: PreparedRows, trial: Trial | None, rate: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Error and mean square on new rows after each number of steps, from one sweep."""
    if trial is None:
        return np.empty(0), np.empty(0), np.empty(0)
    steps = np.unique(np.round(np.geomspace(1, 1e5, 16)))
    functions = [lambda x, step=step: growth(np.maximum(x, 0.0), step, rate) for step in steps]
    found = matrix_function(trial.H, trial.y, functions, tol=1e-5, max_products=400 if s.n <= MANY else 120)
    stacked = np.column_stack([columns(values) for values in found.values])
    outputs = trial.predict(stacked).reshape(len(trial.y_new), len(steps), -1)
    shape = trial.y_new.shape
    errors = [s.error(trial.y_new, outputs[:, i].reshape(shape)) for i in range(len(steps))]
    squares = [float(np.sum((trial.y_new - outputs[:, i].reshape(shape)) ** 2) / shape[0]) for i in range(len(steps))]
    return steps, np.array(errors), np.array(squares)


def new_data(work: Work, s: PreparedRows, w: Sweeps, learn: Learnability) -> NewData:
    """Leave-one-out, the bound with its terms, and the test set where there is one."""
    bound = generalization_bound(w.true, labels_bounded=bool(np.abs(s.y).max() <= 1), unit_rows=has_unit_rows(w.H))
    terms = tuple(t if np.isfinite(t.value) else replace(t, value=None) for t in bound.terms)
    test_error = test_ridged = absolute = None
    count = 0
    if s.y_test is not None:
        trial = Trial(w.H, s.y, s.y_test, None, None, "", s, w.H)
        ridged = w.factor if learn.ridge == w.floor else factor(w.H, learn.ridge)
        both = np.column_stack([columns(w.factor.solve(s.y)), columns(ridged.solve(s.y))])
        outputs = trial.predict(both)
        width = both.shape[1] // 2
        shape, count = s.y_test.shape, len(s.y_test)
        at_end = outputs[:, :width].reshape(shape)
        test_error = s.error(s.y_test, at_end)
        test_ridged = s.error(s.y_test, outputs[:, width:].reshape(shape))
        absolute = float(np.mean(np.abs(s.y_test - at_end)))
    return NewData(
        left_out_error=learn.left_out_error,
        test_error=test_error,
        test_error_ridged=test_ridged,
        test_mean_absolute=absolute,
        test_rows=count,
        bound=bound.total if np.isfinite(bound.total) else None,
        bound_vacuous=bound.vacuous,
        bound_terms=terms,
        bound_note=bound.note,
    )


def has_unit_rows(H: AbstractGram) -> bool:
    """Whether all rows have norm 1: the diagonal of H is half their squares."""
    return bool(np.abs(np.sqrt(2 * H.diagonal()) - 1).max() < 1e-9)


def spectrum(work: Work, s: PreparedRows, w: Sweeps) -> Spectrum:
    """Eigenvalues and the share of the labels on each eigenvector."""
    pairs, whole = w.pairs, len(w.pairs.values) == s.n
    signs = generator(s.seed, 11).choice([-1.0, 1.0], size=s.n)
    mass = float(np.sum(s.y**2))
    true = np.sum((pairs.vectors.T @ columns(s.y)) ** 2, axis=1) / (mass if mass > 0 else 1.0)
    return Spectrum(np.maximum(pairs.values, 0.0), true, (pairs.vectors.T @ signs) ** 2 / s.n, whole)
