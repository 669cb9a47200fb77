"""Is anything wrong with the data? Rows and features to look at, named as they are in the source."""

from __future__ import annotations

import numpy as np

from overparam.analysis.data_answers import Learnability, Problems
from overparam.analysis.data_learning import Sweeps
from overparam.analysis.data_rows import Rows
from overparam.data import duplicate_groups
from overparam.frame import Work

NEARLY_PARALLEL = 0.9999
SHOWN = 20


def find_problems(work: Work, s: Rows, w: Sweeps, learn: Learnability) -> Problems:
    """Everything that would mislead a fit or its evaluation."""
    margins, outputs = learn.margins, w.best.outputs
    source = s.source
    rows = source.rows if source.rows is not None else np.arange(source.n)
    X = np.asarray(source.X)
    groups, leaked = _repeated(s)
    clashing = [group for group in groups if len(np.unique(source.labels[group])) > 1]
    pairs = _near_parallel(w, groups)
    alone = np.ones(source.n, dtype=bool)
    for group in groups:
        alone[group] = False
    unrepeated = s.error(s.y[alone], outputs[alone]) if groups and alone.any() else None
    constant = _constant(s)
    wrong = _suspects(s, margins, outputs, rows)
    smallest = None
    if s.classes:
        counts = np.bincount(source.codes, minlength=len(source.classes))
        smallest = (str(source.classes[int(counts.argmin())]), int(counts.min()))
    return Problems(
        duplicate_rows=tuple(_named(group, rows) for group in groups[:SHOWN]),
        contradictions=tuple(_named(group, rows) for group in clashing[:SHOWN]),
        near_parallel=tuple((int(rows[i]), int(rows[j]), float(rho)) for i, j, rho in pairs[:SHOWN]),
        test_in_train=tuple(leaked[:SHOWN]),
        constant_features=constant[:SHOWN],
        scale_ratio=_scale_ratio(X) if source.kind == "table" else None,
        smallest_class=smallest,
        suspects=wrong,
        counts={
            "duplicate_groups": len(groups),
            "duplicate_rows": int(sum(len(group) for group in groups)),
            "contradictions": len(clashing),
            "near_parallel": len(pairs),
            "test_in_train": len(leaked),
            "constant_features": len(constant),
            "unrepeated_rows": int(alone.sum()),
        },
        left_out_error_unrepeated=unrepeated,
    )


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


def _repeated(s: Rows) -> tuple[list[np.ndarray], list[tuple[int, int]]]:
    """Groups of equal training rows, and (training row, test row) that are the same; both from one pass."""
    n, test = s.source.n, s.source.test
    X = np.asarray(s.source.X, dtype=np.float64)
    if test is None:
        return duplicate_groups(X), []
    train_rows = s.source.rows if s.source.rows is not None else np.arange(n)
    test_rows = test.rows if test.rows is not None else np.arange(test.n)
    groups, leaked = [], []
    for group in duplicate_groups(np.concatenate([X, np.asarray(test.X, dtype=np.float64)])):
        left, right = group[group < n], group[group >= n] - n
        if len(left) > 1:
            groups.append(left)
        leaked.extend((int(train_rows[left[0]]), int(test_rows[j])) for j in right if len(left))
    return groups, leaked


def _constant(s: Rows) -> tuple[str, ...]:
    if s.source.kind == "image":
        return ()  # a border pixel that is always 0 is no problem
    X = np.asarray(s.source.X)
    names = s.source.features or tuple(f"column {j}" for j in range(X.shape[1]))
    still = np.flatnonzero(np.ptp(X, axis=0) == 0)
    return tuple(str(names[j]) for j in still)


def _scale_ratio(X: np.ndarray) -> float | None:
    tops = np.abs(X).max(axis=0)
    varies = np.ptp(X, axis=0) > 0
    if varies.sum() < 2:
        return None
    # each column to size 1 first, and the ratio in logarithms: columns of 1e200 and 1e-200 neither over- nor underflow
    spread = np.log(tops[varies]) + np.log(np.maximum((X[:, varies] / tops[varies]).std(axis=0), 1e-300))
    return float(np.exp(min(spread.max() - spread.min(), 700.0)))


def _suspects(
    s: Rows, margins: np.ndarray, outputs: np.ndarray, rows: np.ndarray
) -> tuple[tuple[int, str, str, float], ...]:
    """Rows whose label the other rows contradict most clearly."""
    if not len(margins):
        return ()
    order = np.argsort(margins)[:SHOWN]
    codes = s.source.codes
    found = []
    for i in order:
        if margins[i] >= 0:
            break
        if outputs.ndim == 1:
            suggested = 0 if outputs[i] > 0 else 1
        else:
            suggested = int(outputs[i].argmax())
        found.append((int(rows[i]), s.label(int(codes[i])), s.label(suggested), float(margins[i])))
    return tuple(found)
