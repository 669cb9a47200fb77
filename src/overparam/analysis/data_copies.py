"""Which rows are copies that must not answer for each other: from the rows, and from how often their labels agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from overparam.core import checks
from overparam.data.copies import RowCopies, group_numbers

TOO_OFTEN = 3.0
"""Standard errors by which labels agree more often than by chance from which on equal rows are copies."""
Verdict = Literal["none", "copies", "coincidences", "unclear"]


@final
@dataclass(frozen=True, eq=False)
class CopyGroups:
    """Copies as they count for an error.

    verdict: "none"; "copies"; "coincidences": rows of a few discrete columns happen to be equal, and are no copies;
    "unclear": rows are near one another in fewer than three dimensions, where copies cannot be told from chance.
    groups: (n,) the group of every row, which leaves together: copies, and where that is unclear near rows whose labels agree
    more often than chance would have it.
    rows: the groups of more than one row, equal ones first; kinds: "equal" or "near", of each.
    copied: how many rows are there beyond the first of each copied one; 0 where the verdict is not "copies".
    equal_rows: how many rows equal another. near_rows: how many are near another.
    z: by how many standard errors labels of equal rows agree more often than expected; None without equal rows, or
    where the rest of the data leaves no doubt about their labels. near_z: the same of rows near one another.
    dimension, steps: as in `RowCopies`.
    """

    verdict: Verdict
    groups: np.ndarray
    rows: tuple[np.ndarray, ...]
    kinds: tuple[Literal["equal", "near"], ...]
    copied: int
    equal_rows: int
    near_rows: int
    z: float | None
    near_z: float | None
    dimension: float | None
    steps: float | None


def judge_copies(found: RowCopies, labels: Any, probabilities: Any = None) -> CopyGroups:
    """Which of the equal and near rows are copies.

    Equal rows are copies where their columns leave no room for coincidence: rarely is there a row one step away.
    Where there is, they are copies if their labels agree more often (by three standard errors) than those of
    independent draws with the given probabilities. Every group counts as one pair: the labels of many equal rows tell
    more of what is usual there than probabilities from elsewhere, and would be held against them.
    Near rows are copies in three and more dimensions; in fewer nobody can tell. Rows that differ in one or two columns
    are copies where their labels agree too often.

    Args:
        found: from `row_copies`.
        labels: (n,) class numbers from 0, or the targets of a regression.
        probabilities: (n, classes), given with each row's group (`found.candidates`) left out. Without them labels
            are compared with how often those of any two rows agree: for targets of a regression.

    >>> from overparam.data import row_copies
    >>> X = np.random.default_rng(0).standard_normal((300, 5))
    >>> found = row_copies(np.concatenate([X, X[:100]]))
    >>> judged = judge_copies(found, np.arange(400) % 2, np.full((400, 2), 0.5))
    >>> judged.verdict, judged.copied, int(judged.groups[302])
    ('copies', 100, 2)
    """
    codes, chances = _chances(found.n, labels, probabilities)
    z, near_z = agreement(found.equal, codes, chances), agreement(found.near, codes, chances)
    equal = bool(found.equal) and (not found.by_chance or _above(z))
    near = bool(found.near) and found.told_apart
    thin = found.thin if _above(agreement(found.thin, codes, chances)) else ()
    unclear = bool(found.near) and not near
    counted = [*(found.equal if equal else ()), *thin, *(found.near if near or (unclear and _above(near_z)) else ())]
    groups = group_numbers(found.n, counted)
    copies = group_numbers(found.n, [*(found.equal if equal else ()), *thin, *(found.near if near else ())])
    verdict: Verdict = "none"
    if equal or near or thin:
        verdict = "copies"
    elif unclear:
        verdict = "unclear"
    elif found.equal:
        verdict = "coincidences"
    return CopyGroups(
        verdict=verdict,
        groups=groups,
        rows=(*found.equal, *thin, *found.near),
        kinds=("equal",) * len(found.equal) + ("near",) * (len(thin) + len(found.near)),
        copied=found.n - len(np.unique(copies)),
        equal_rows=sum(len(rows) for rows in found.equal),
        near_rows=sum(len(rows) for rows in (*thin, *found.near)),
        z=z,
        near_z=near_z,
        dimension=found.dimension,
        steps=found.steps,
    )


def agreement(groups: Any, codes: np.ndarray, probabilities: np.ndarray) -> float | None:
    """By how many standard errors labels within groups agree more often than independent draws, a group one pair.

    None where nothing could be different: no groups, or probabilities of 0 and 1.

    >>> round(agreement([[0, 1], [2, 3]], np.array([0, 0, 1, 1]), np.full((4, 2), 0.5)), 3)
    1.414
    """
    excess = variance = 0.0
    for rows in groups:
        rows = np.asarray(rows)
        count = np.bincount(codes[rows])
        agree = float((count * (count - 1)).sum() / (len(rows) * (len(rows) - 1)))
        expected = float((probabilities[rows].mean(axis=0) ** 2).sum())
        excess += agree - expected
        variance += expected * (1 - expected)
    return excess / variance**0.5 if variance > 1e-12 else None


def _above(z: float | None) -> bool:
    return z is not None and z > TOO_OFTEN


def _chances(n: int, labels: Any, probabilities: Any) -> tuple[np.ndarray, np.ndarray]:
    labels = np.asarray(labels)
    if len(labels) != n:
        raise ValueError(f"`labels` has {len(labels)} rows; the copies are of {n}")
    if probabilities is None:
        _, codes, counts = np.unique(labels, axis=0, return_inverse=True, return_counts=True)
        return codes.ravel(), np.broadcast_to(counts / n, (n, len(counts)))
    chances = checks.finite_matrix(probabilities, "probabilities")
    if len(chances) != n or chances.min() < 0 or not np.allclose(chances.sum(axis=1), 1.0, atol=1e-6):
        raise ValueError(f"`probabilities` has shape {chances.shape}; expected {n} rows of numbers ≥ 0 that sum to 1")
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= chances.shape[1]:
        raise ValueError(f"`labels` must be class numbers from 0 to {chances.shape[1] - 1}: `data.codes`")
    return labels, chances
