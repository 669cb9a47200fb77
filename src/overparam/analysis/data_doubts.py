"""What to doubt: what is wrong with the data, when the prediction may be believed, and what noise in the labels would do.

Rows and features are named as they are in the source.
"""

from __future__ import annotations

import numpy as np

from overparam.analysis.data_answers import NoiseSweep, Problems, SeenRows, Speed, Trust
from overparam.analysis.data_learning import RIDGE_SHARE, Sweeps, has_unit_rows
from overparam.analysis.data_rows import PreparedRows, Trial, columns
from overparam.core.bracketed import INFINITE_WIDTH
from overparam.core.words import count_of
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

NEARLY_PARALLEL = 0.9999
SHOWN = 20
WIDTHS = (100, 1_000, 10_000, 100_000)
KAPPAS = (0.01, 0.1, 1.0)
NOISE = tuple(np.round(np.linspace(0, 1, 11), 2))


def find_problems(work: Work, s: PreparedRows, part: PreparedRows, w: Sweeps, seen: SeenRows | None) -> Problems:
    """Everything that would mislead a fit or its evaluation.

    part: the rows that were swept, all or some: among them near-parallel pairs are looked for, and errors without repeats.
    """
    outputs, source, rows, swept = w.best.outputs, s.source, s.source_rows, part.source_rows
    X = np.asarray(source.X)
    groups = s.repeats[0]
    leaked, near, alike = _seen(s, seen)
    clashing = [group for group in groups if len(np.unique(source.labels[group])) > 1]
    pairs = _near_parallel(w, part.repeats[0])
    alone = np.ones(part.n, dtype=bool)
    for group in part.repeats[0]:
        alone[group] = False
    unrepeated = part.error(part.y[alone], outputs[alone]) if part.repeats[0] and alone.any() else None
    constant = _constant(s)
    smallest = None
    if s.classes:
        counts = np.bincount(source.codes, minlength=len(source.classes))
        smallest = (str(source.classes[int(counts.argmin())]), int(counts.min()))
    return Problems(
        duplicate_rows=tuple(_named(group, rows) for group in groups[:SHOWN]),
        contradictions=tuple(_named(group, rows) for group in clashing[:SHOWN]),
        near_parallel=tuple((int(swept[i]), int(swept[j]), float(rho)) for i, j, rho in pairs[:SHOWN]),
        test_in_train=tuple(leaked[:SHOWN]),
        constant_features=constant[:SHOWN],
        scale_ratio=scale_ratio(X) if source.kind == "table" else None,
        smallest_class=smallest,
        counts={
            "duplicate_groups": len(groups),
            "duplicate_rows": int(sum(len(group) for group in groups)),
            "contradictions": len(clashing),
            "near_parallel": len(pairs),
            "test_in_train": len(leaked),
            "test_near_train": len(near),
            "test_alike_by_chance": alike,
            "constant_features": len(constant),
            "unrepeated_rows": int(alone.sum()),
        },
        left_out_error_unrepeated=unrepeated,
        test_near_train=tuple(near[:SHOWN]),
    )


def _seen(s: PreparedRows, seen: SeenRows | None) -> tuple[list[tuple[int, int]], list[tuple[int, int]], int]:
    """(training row, test row) that are equal, and nearly equal, as copies are; and how many more may be alike by chance."""
    if seen is None or s.source.test is None:
        return [], [], 0
    test = s.source.test.rows
    assert test is not None
    found: tuple[list[tuple[int, int]], list[tuple[int, int]]] = [], []
    for i, j, near, copied in zip(seen.train, seen.test, seen.near, seen.copies, strict=True):
        if copied:
            found[int(near)].append((int(i), int(test[j])))
    return *found, int(np.sum(~seen.copies))


def _named(group: np.ndarray, rows: np.ndarray) -> tuple[int, ...]:
    return tuple(int(rows[i]) for i in group[:8])


def _near_parallel(w: Sweeps, groups: list[np.ndarray]) -> list[tuple[int, int, float]]:
    """Pairs of prepared rows almost parallel or opposite, exact repeats of a row left out."""
    if w.bounds.closest_cosine is not None and abs(w.bounds.closest_cosine) < NEARLY_PARALLEL:
        return []  # the bound from separation has looked at every pair
    found = w.H.close_pairs(NEARLY_PARALLEL, 1, most=2_000_000)
    if found is None:
        return []
    group_of = {int(i): index for index, group in enumerate(groups) for i in group}
    pairs = [
        (int(j), int(i), float(rho))
        for i, j, rho in zip(*found[:3], strict=True)
        if group_of.get(int(i), -1) != group_of.get(int(j), -2)
    ]
    return sorted(pairs, key=lambda pair: -abs(pair[2]))


def _constant(s: PreparedRows) -> tuple[str, ...]:
    if s.source.kind == "image":
        return ()  # a border pixel that is always 0 is no problem
    X = np.asarray(s.source.X)
    names = s.source.features or tuple(f"column {j}" for j in range(X.shape[1]))
    still = np.flatnonzero(np.ptp(X, axis=0) == 0)
    return tuple(str(names[j]) for j in still)


def scale_ratio(X: np.ndarray) -> float | None:
    """How many times as much the widest column varies as the narrowest that varies; None where fewer than two do."""
    tops = np.abs(X).max(axis=0)
    varies = np.ptp(X, axis=0) > 0
    if varies.sum() < 2:
        return None
    # each column to size 1 first, and the ratio in logarithms: columns of 1e200 and 1e-200 neither over- nor underflow
    spread = np.log(tops[varies]) + np.log(np.maximum((X[:, varies] / tops[varies]).std(axis=0), 1e-300))
    return float(np.exp(min(spread.max() - spread.min(), 700.0)))


def trust(work: Work, s: PreparedRows, w: Sweeps, fast: Speed, problems: Problems) -> Trust:
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
        alignment=along,
    )


def _assumptions(s: PreparedRows, w: Sweeps, fast: Speed, duplicates: int, near: int) -> tuple[Assumption, ...]:
    norms, unit = np.sqrt(2 * w.H.diagonal()), has_unit_rows(w.H)
    bounded = bool(np.abs(s.y).max() <= 1)
    positive = w.bounds.lower > 0
    scaled = f"norms from {norms.min():.3g} to {norms.max():.3g}; the kernel is right for any norm, the bound of Theorem 5.1 is stated for norm 1"
    apart = "unmet" if duplicates else "met" if positive else "not checked"
    if positive:
        invertible = "met", f"λ_min ≥ {w.bounds.lower:.3g} ({w.bounds.lower_method})"
    elif w.smallest > 0:
        invertible = "not checked", f"no positive lower bound found; λ_min ≤ {w.smallest:.3g}"
    else:
        invertible = "unmet", "λ_min is 0 to rounding"
    stable = f"{fast.rate:.3g} is half the certified limit {fast.largest_rate.lower:.3g} (summed loss)"
    return (
        Assumption("rows have norm 1", "met" if unit else "unmet", "" if unit else scaled),
        Assumption(
            "no two rows are parallel",
            apart,
            f"{count_of(duplicates, 'repeated row')}, {count_of(near, 'almost parallel pair')}",
        ),
        Assumption("λ_min(H) > 0", *invertible),
        Assumption(
            "labels lie in [−1, 1]", "met" if bounded else "unmet", f"largest |y| {float(np.abs(s.y).max()):.3g}"
        ),
        Assumption("the rate is stable", "met", stable),
        Assumption("rows are independent draws of one distribution", "not checked", "only you can know"),
        INFINITE_WIDTH,
        Assumption("the network starts at output 0", "not checked", "paired initialisation makes it so"),
    )


def noise_sweep(work: Work, s: PreparedRows, w: Sweeps, trial: Trial | None) -> NoiseSweep | None:
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
        rows=f"fitted to {count_of(len(trial.y), 'row')}, measured on {trial.what}",
    )


def _redrawn(y: np.ndarray, rate: float, k: int, seed: int, index: int, part: int) -> np.ndarray:
    """Each label redrawn uniformly with probability `rate`; a redrawn label may keep its value."""
    random = generator(seed, 23, index, part)
    chosen = random.random(len(y)) < rate
    drawn = random.integers(k, size=len(y))
    if y.ndim == 1:
        return np.where(chosen, np.where(drawn == 0, 1.0, -1.0), y)
    return np.where(chosen[:, None], np.eye(k)[drawn] - 1 / k, y)
