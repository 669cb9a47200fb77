"""Which rows are copies that must not answer for each other: from the rows, and from how often their labels agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from scipy.stats import norm, rankdata

from overparam.analysis.data_answers import Copies, CopyVerdict
from overparam.core import checks
from overparam.core.words import count_of
from overparam.data.copies import AlikeRows, RowCopies, group_numbers

TOO_OFTEN = 3.0
"""Standard errors by which labels agree more often than by chance from which on equal rows are copies."""
MOSTLY = 0.5
"""Share of the way from chance to full agreement from which on labels do not speak against copies."""
SHARED = 0.5
"""Share of the variance of residuals that rows of a group have in common from which on they belong together: of a smooth rule up to a third."""
LISTED, LISTED_ROWS = 20, 8


def judge_copies(
    found: RowCopies,
    labels: Any,
    probabilities: Any = None,
    *,
    residuals: Any = None,
    rows: Any = None,
    features: Sequence[str] | None = None,
) -> tuple[Copies, np.ndarray]:
    """Which of the equal and near rows are copies, and (n,) the group of every row, which leaves together.

    Equal rows are copies where their columns leave no room for coincidence: rarely is there a row one step away.
    Where there is, they are copies if their labels agree more often (by three standard errors) than those of
    independent draws with the given probabilities. Every group counts as one pair: the labels of many equal rows tell
    more of what is usual there than probabilities from elsewhere, and would be held against them.
    Near rows are copies in three and more dimensions; in fewer nobody can tell: they leave together where their labels
    agree too often. Heaps, and rows that are equal but for a column or two, are copies if their labels mostly agree, as
    those of copies do; where heaps are as wide as clusters, or chance makes rows equal but for a column, if they agree too
    often. Where clusters are too few for that to tell, it is unclear. Groups far from all others
    leave together where labels agree too often: rows of one person, or of one recording. Windows of a series leave together in blocks, whatever their labels.

    Args:
        found: from `row_copies`.
        labels: (n,) class numbers from 0, or the targets of a regression.
        probabilities: (n, classes), given with each row's group (`found.candidates`) left out. Without them labels
            are compared with how often those of any two rows agree: for targets of a regression.
        residuals: of a regression, (n,) or (n, targets), with each row's group left out: what rows of one person share that others
            do not tell. Numbers seldom are equal; so groups that are no copies are judged by these.
        rows: (n,) what the rows are called in what is told; default: 0, 1, …
        features: the names of the columns.

    >>> from overparam.data import row_copies
    >>> X = np.random.default_rng(0).standard_normal((300, 5))
    >>> found = row_copies(np.concatenate([X, X[:100]]))
    >>> judged, groups = judge_copies(found, np.arange(400) % 2, np.full((400, 2), 0.5))
    >>> judged.verdict, judged.copied, int(groups[302])
    ('copies', 100, 2)
    """
    codes, chances = _chances(found.n, labels, probabilities)
    targets = None if probabilities is not None else np.asarray(labels, dtype=np.float64).reshape(found.n, -1)
    limit = float(norm.isf(norm.sf(TOO_OFTEN) / max(1, len(found.alike))))  # as rarely wrong as one comparison is
    z, near_z = agreement(found.equal, codes, chances), agreement(found.near, codes, chances)
    equal = bool(found.equal) and (not found.by_chance or _above(z))
    near = bool(found.near) and found.told_apart
    accepted: list[AlikeRows] = []
    dependent: list[AlikeRows] = []
    doubtful = bool(found.near) and not near
    for alike in found.alike:
        mostly = _mostly_agree(alike.groups, codes, chances, targets)
        too_often = _above(agreement(alike.groups, codes, chances), limit)
        if alike.why == "apart":
            if residuals is not None:
                share, z_shared = shared_residuals(alike.groups, residuals)
                too_often = share >= SHARED and z_shared > limit
            dependent += [alike] if too_often else []
        elif too_often or (alike.why in ("a column", "a heap") and mostly):
            accepted.append(alike)
        doubtful |= alike.why in ("a cluster", "apart") and mostly and alike not in (*accepted, *dependent)
    more = tuple(group for alike in accepted for group in alike.groups)
    sure = [*(found.equal if equal else ()), *more, *(found.near if near else ())]
    copies = group_numbers(found.n, sure)
    groups = tuple(group for alike in dependent for group in alike.groups)
    together = group_numbers(found.n, [*sure, *groups, *(found.near if _above(near_z) else ())])
    verdict: CopyVerdict = "none"
    if found.windows is not None:
        verdict, together = "windows", found.windows.blocks
    elif sure:
        verdict = "copies"
    elif groups:
        verdict = "dependent"
    elif doubtful:
        verdict = "unclear"
    elif found.equal:
        verdict = "coincidences"
    unsure = ("a cluster", "apart") if verdict == "unclear" else ()
    clusters = tuple(group for alike in found.alike if alike.why in unsure for group in alike.groups)
    others = (*more, *found.near, *groups, *clusters)
    kinds: tuple[Literal["equal", "near"], ...] = (*("equal" for _ in found.equal), *("near" for _ in others))
    names = np.arange(found.n) if rows is None else np.asarray(rows)
    columns = sorted({column for alike in accepted for column in alike.columns})
    told = Copies(
        verdict=verdict,
        copied=found.n - len(np.unique(copies)) if verdict == "copies" else 0,
        equal_rows=sum(len(group) for group in found.equal),
        near_rows=len(np.unique(np.concatenate(others))) if others else 0,
        z=z,
        near_z=near_z,
        dimension=found.dimension,
        groups=len(found.equal) + len(others),
        listed=tuple(tuple(int(i) for i in names[group[:LISTED_ROWS]]) for group in (*found.equal, *others)[:LISTED]),
        kinds=kinds[:LISTED],
        but_for=tuple(dict.fromkeys(f"column {i}" if features is None else _column(features[i]) for i in columns)),
        overlapping=0 if found.windows is None else found.windows.rows,
        shift=None if found.windows is None else found.windows.shift,
        dependent=len(np.unique(np.concatenate(groups))) if groups else 0,
        doubtful=doubtful,
    )
    return told, together


def _column(feature: str) -> str:
    """The column of a table that a feature was made of: indicators of its values are called colour=red."""
    return feature.partition("=")[0] or feature


def _mostly_agree(
    groups: Sequence[np.ndarray], codes: np.ndarray, chances: np.ndarray, targets: np.ndarray | None
) -> bool:
    """Whether labels within groups are as those of copies: at least half way from chance to equal, groups counted alike.

    Of the targets of a regression: whether they vary half as much within groups as among all rows, or less.
    """
    if targets is not None:
        within = np.mean([targets[rows].var(axis=0, ddof=1) for rows in groups], axis=0)
        return bool(np.all(within <= (1 - MOSTLY) * targets.var(axis=0, ddof=1)))
    agree, expected = np.array([_one_pair(rows, codes, chances) for rows in groups]).sum(axis=0)
    return bool(agree - expected >= MOSTLY * (len(groups) - expected))


def agreement(groups: Any, codes: np.ndarray, probabilities: np.ndarray) -> float | None:
    """By how many standard errors labels within groups agree more often than independent draws, a group one pair.

    None where nothing could be different: no groups, or probabilities of 0 and 1.

    >>> round(agreement([[0, 1], [2, 3]], np.array([0, 0, 1, 1]), np.full((4, 2), 0.5)), 3)
    1.414
    """
    excess = variance = 0.0
    for rows in groups:
        agree, expected = _one_pair(np.asarray(rows), codes, probabilities)
        excess += agree - expected
        variance += expected * (1 - expected)
    return excess / variance**0.5 if variance > 1e-12 else None


def shared_residuals(groups: Sequence[np.ndarray], residuals: Any) -> tuple[float, float]:
    """How much of the variance of residuals the rows of a group share, groups counted alike, and by how many standard errors.

    The share is the mean product of two rows' residuals, by ranks of variance 1: 0 of independent ones, 1 where all of a group are equal.

    >>> share, z = shared_residuals([np.array([0, 1]), np.array([2, 3])], [1.0, 2.0, 3.0, 4.0])
    >>> round(share, 3), round(z, 3)
    (0.6, 0.849)
    """
    found = np.asarray(residuals, dtype=np.float64)
    n = len(found)
    ranks = rankdata(found.reshape(n, -1), axis=0)
    scores = (ranks - (n + 1) / 2) / ((n * n - 1) / 12) ** 0.5
    pairs = np.array([len(rows) * (len(rows) - 1) for rows in groups])
    products = [((scores[rows].sum(axis=0) ** 2 - (scores[rows] ** 2).sum(axis=0)).mean()) for rows in groups]
    share = float(np.mean(products / pairs))
    return share, float(share * len(groups) / np.sqrt((2 / pairs).sum()))


def _one_pair(rows: np.ndarray, codes: np.ndarray, probabilities: np.ndarray) -> tuple[float, float]:
    """How often two rows of a group agree, and how often two independent draws would."""
    count = np.bincount(codes[rows])
    agree = float((count * (count - 1)).sum() / (len(rows) * (len(rows) - 1)))
    return agree, float((probabilities[rows].mean(axis=0) ** 2).sum())


def _above(z: float | None, limit: float = TOO_OFTEN) -> bool:
    return z is not None and z > limit


def _chances(n: int, labels: Any, probabilities: Any) -> tuple[np.ndarray, np.ndarray]:
    labels = np.asarray(labels)
    if len(labels) != n:
        raise ValueError(f"`labels` has {count_of(len(labels), 'row')}; the copies are of {n}")
    if probabilities is None:
        _, codes, counts = np.unique(labels, axis=0, return_inverse=True, return_counts=True)
        return codes.ravel(), np.broadcast_to(counts / n, (n, len(counts)))
    chances = checks.finite_matrix(probabilities, "probabilities")
    if len(chances) != n or chances.min() < 0 or not np.allclose(chances.sum(axis=1), 1.0, atol=1e-6):
        raise ValueError(
            f"`probabilities` has shape {chances.shape}; expected {count_of(n, 'row')} of numbers ≥ 0 that sum to 1"
        )
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= chances.shape[1]:
        raise ValueError(f"`labels` must be class numbers from 0 to {chances.shape[1] - 1}: `data.codes`")
    return labels, chances
