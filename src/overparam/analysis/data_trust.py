"""When may the prediction be believed, and what noise in the labels would do: laziness, assumptions, the noise sweep."""

from __future__ import annotations

import numpy as np

from overparam.analysis.data_answers import NoiseSweep, Problems, Speed, Trust
from overparam.analysis.data_learning import RIDGE_SHARE, Sweeps, has_unit_rows
from overparam.analysis.data_rows import Rows, Trial, columns
from overparam.core.bracketed import INFINITE_WIDTH
from overparam.data import generator
from overparam.frame import Work
from overparam.spectrum import factor
from overparam.theory import (
    Assumption,
    convergence_conditions,
    laziness,
    predict_movement,
    sample_flips,
    width_for_laziness,
)

WIDTHS = (100, 1_000, 10_000, 100_000)
KAPPAS = (0.01, 0.1, 1.0)
NOISE = tuple(np.round(np.linspace(0, 1, 11), 2))


def trust(work: Work, s: Rows, w: Sweeps, fast: Speed, problems: Problems) -> Trust:
    """Each assumption met, unmet or not checked; movement, and laziness at common widths."""
    moved = predict_movement(w.true, fast.steps, fast.rate)
    along = sample_flips(np.asarray(s.data.X), w.factor.solve(s.y), WIDTHS[-1], 1.0, neurons=200, key=s.seed).alignment
    # what a singular H cannot fit would move the weights for ever, by rounding alone
    steps, rate = (None, None) if w.smallest > 0 else (int(fast.steps[-1]), fast.rate)
    table = [[laziness(w.true, steps, rate, width=m, kappa=kappa, alignment=along) for m in WIDTHS] for kappa in KAPPAS]
    lazy = width_for_laziness(w.true, steps, rate, kappa=1.0)
    theorem = convergence_conditions(s.n, w.bounds.lower, 1.0).needed("width") if w.bounds.lower > 0 else None
    return Trust(
        assumptions=_assumptions(s, w, fast, problems.counts["duplicate_rows"], problems.counts["near_parallel"]),
        movement=np.stack([moved.values, moved.lower, moved.upper]),
        widths=np.array(WIDTHS, dtype=np.float64),
        kappas=np.array(KAPPAS),
        laziness=np.array([[float(cell.value) for cell in row] for row in table]),
        flips=np.array([[float(cell.flips) for cell in row] for row in table]),
        lazy_steps=steps,
        width_for_lazy=float(lazy.value) if lazy.value < 1e15 else None,
        theorem_width=theorem,
    )


def _assumptions(s: Rows, w: Sweeps, fast: Speed, duplicates: int, near: int) -> tuple[Assumption, ...]:
    norms, unit = np.sqrt(2 * w.H.diagonal()), has_unit_rows(w.H)
    bounded = bool(np.abs(s.y).max() <= 1)
    positive = w.bounds.lower > 0
    lines = [
        Assumption(
            "rows have norm 1",
            "met" if unit else "unmet",
            ""
            if unit
            else f"norms from {norms.min():.3g} to {norms.max():.3g}; the kernel is right for any norm, "
            "the bound of Theorem 5.1 is stated for norm 1",
        ),
        Assumption(
            "no two rows are parallel",
            "met" if positive and not duplicates else "unmet" if duplicates else "not checked",
            f"{duplicates} repeated rows, {near} almost parallel pairs",
        ),
        Assumption(
            "λ_min(H) > 0",
            "met" if positive else "not checked" if w.smallest > 0 else "unmet",
            f"λ_min ≥ {w.bounds.lower:.3g} ({w.bounds.lower_method})"
            if positive
            else f"no positive lower bound found; λ_min ≤ {w.smallest:.3g}"
            if w.smallest > 0
            else "λ_min is 0 to rounding",
        ),
        Assumption(
            "labels lie in [−1, 1]", "met" if bounded else "unmet", f"largest |y| {float(np.abs(s.y).max()):.3g}"
        ),
        Assumption(
            "the rate is stable",
            "met",
            f"{fast.rate:.3g} is half the certified limit {fast.largest_rate.lower:.3g} (summed loss)",
        ),
        Assumption("rows are independent draws of one distribution", "not checked", "only you can know"),
        INFINITE_WIDTH,
        Assumption("the network starts at output 0", "not checked", "paired initialisation makes it so"),
    ]
    return tuple(lines)


def noise_sweep(work: Work, s: Rows, w: Sweeps, trial: Trial | None) -> NoiseSweep | None:
    """A share of all labels redrawn, training and new rows alike; the kernel limit fitted to each.

    Ref: fine_grained, Fig. 2
    """
    if trial is None or not s.classes:
        return None
    fitted = w.factor if trial.new_rows is None else factor(trial.H, w.floor, least=w.bounds.lower)
    k = 2 if s.y.ndim == 1 else s.y.shape[1]
    labels = [_redrawn(trial.y, rate, k, s.seed, index, 0) for index, rate in enumerate(NOISE)]
    fresh = [_redrawn(trial.y_new, rate, k, s.seed, index, 1) for index, rate in enumerate(NOISE)]
    Y = np.column_stack([columns(y) for y in labels])
    solved = fitted.solve(Y)
    steady = RIDGE_SHARE * w.true.mean_diagonal if w.floor else 0.0
    weighed = factor(trial.H, steady).solve(Y) if steady else solved
    forms = np.einsum("nk,nk->k", Y, weighed).reshape(len(NOISE), -1).sum(axis=1)
    outputs = trial.predict(solved).reshape(len(trial.y_new), len(NOISE), -1)
    shape = trial.y_new.shape
    each = [outputs[:, i].reshape(shape) for i in range(len(NOISE))]
    return NoiseSweep(
        rates=np.array(NOISE),
        complexity=np.sqrt(2 * np.maximum(forms, 0.0) / len(trial.y)),
        complexity_ridge=steady,
        mean_absolute=np.array([float(np.mean(np.abs(y - f))) for y, f in zip(fresh, each, strict=True)]),
        error=np.array([s.error(y, f) for y, f in zip(fresh, each, strict=True)]),
        ridge=w.floor,
        rows=f"fitted to {len(trial.y):,} rows, measured on {trial.what}",
    )


def _redrawn(y: np.ndarray, rate: float, k: int, seed: int, index: int, part: int) -> np.ndarray:
    """Each label redrawn uniformly with probability `rate`; a redrawn label may keep its value."""
    random = generator(seed, 23, index, part)
    chosen = random.random(len(y)) < rate
    drawn = random.integers(k, size=len(y))
    if y.ndim == 1:
        return np.where(chosen, np.where(drawn == 0, 1.0, -1.0), y)
    return np.where(chosen[:, None], np.eye(k)[drawn] - 1 / k, y)
