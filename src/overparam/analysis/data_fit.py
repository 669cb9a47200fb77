"""The tuned fit of an analysis: copies that must not answer for each other leave together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from overparam.analysis.data_answers import Copies
from overparam.analysis.data_copies import judge_copies
from overparam.analysis.data_rows import PreparedRows
from overparam.data import RowCopies, row_copies
from overparam.data.dependent_rows import enough, not_whole_classes
from overparam.data.interpolated import interpolated_rows
from overparam.engines.matrix import chosen_device
from overparam.frame import Work
from overparam.theory import TunedFit, tuned_fit

CROSSING = 0.05
"""Share of overlapping neighbours in different groups of the user's up to which those keep series together."""
MOST_ROWS, MOST_ON_DEVICE = 70_000, 1_000_000
"""Rows fitted: every pair of them is looked at for copies."""
PAIRS_ON_DEVICE = 5_000
"""Rows from which on an accelerator looks at their pairs; of fewer it would take longer to compile for."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """The tuned fit with the groups that count, and that with every group that may count."""

    rows: PreparedRows
    """Those fitted: all, or some of very many."""
    copies: Copies
    groups: np.ndarray
    """(n,) rows that leave together: copies, and the user's own groups."""
    fit: TunedFit
    cautious: TunedFit
    """With all equal and near rows leaving together: the same fit where they are copies."""
    made_up: np.ndarray
    """Positions of rows between two others of their class, as oversampling makes them."""


def fit_rows(work: Work, s: PreparedRows) -> Fitted:
    """One fit in which whatever may be a copy leaves together decides what is one; another where that is not all."""
    s = s.some(most_fitted(work.device))
    found = row_copies(s.source, s.repeats[0], device=device_of_pairs(work.device, s.n))
    own = s.data.groups
    task = "classes" if s.classes else "regression"

    def fitted(groups: np.ndarray, start: float, stop: float, which: str = "") -> TunedFit:
        return tuned_fit(
            s.X,
            s.y,
            groups=groups,
            task=task,
            key=s.seed,
            device=work.device,
            cluster=work.cluster,
            progress=lambda done, total, what: work.progress(
                start + (stop - start) * done / (total or 1.0), 1.0, what + which
            ),
        )

    if own is not None and found.windows is not None:  # groups of the user's own are to be those of the series
        kept = found.windows if found.windows.crossing(own) > CROSSING else None
        found = replace(found, windows=None if kept is None else replace(kept, blocks=np.arange(s.n)))
    if own is None and found.windows is None:
        found = _without_whole_classes(s, found)
    wide = _several(joined(found.candidates, own), found.candidates)
    some = len(np.unique(wide)) < s.n
    cautious = fitted(wide, 0.0, 0.5 if some else 1.0)
    chances = in_order_of_classes(cautious, cautious.outputs) if s.classes else None
    labels = s.data.codes if s.classes else s.y
    residuals = None if s.classes else s.y - cautious.outputs
    judged, together = judge_copies(
        found, labels, chances, residuals=residuals, rows=s.source_rows, features=s.source.features
    )
    groups = _several(joined(together, own), together)
    same = np.array_equal(np.unique(groups, return_inverse=True)[1], np.unique(wide, return_inverse=True)[1])
    made_up = np.zeros(0, dtype=np.int64)
    if s.classes and s.source.kind == "table":
        made_up = interpolated_rows(np.asarray(s.source.X, dtype=np.float64), s.data.codes)
    last = cautious if same else fitted(groups, 0.5, 1.0, ", once more")
    return Fitted(s, judged, groups, last, cautious, made_up)


def _several(*groups: np.ndarray) -> np.ndarray:
    """The first that are more than one group, of which some can be left out: those of the user may all hang together by copies; else rows alone."""
    return next((one for one in groups if len(np.unique(one)) > 1), np.arange(len(groups[0])))


def _without_whole_classes(s: PreparedRows, found: RowCopies) -> RowCopies:
    """Without groups far from all others that are whole classes."""
    alike = []
    for one in found.alike:
        groups = one.groups
        if one.why == "apart":
            groups = tuple(enough(not_whole_classes(groups, s.data.codes) if s.classes else groups, s.n))
        alike += [replace(one, groups=groups)] if groups else []
    return replace(found, alike=tuple(alike))


def most_fitted(device: str | None) -> int:
    """Rows that the fit takes where it computes."""
    return MOST_ROWS if chosen_device(device) == "cpu" else MOST_ON_DEVICE


def device_of_pairs(device: str | None, n: int) -> Any:
    """The JAX device that looks at all pairs of so many rows; None for the host."""
    if not pairs_on_device(device, n):
        return None
    from overparam.engines.device_gram import pick

    return pick(chosen_device(device))


def pairs_on_device(device: str | None, n: int) -> bool:
    """Whether an accelerator looks at all pairs of so many rows."""
    return n >= PAIRS_ON_DEVICE and chosen_device(device) != "cpu"


def joined(one: np.ndarray, other: np.ndarray | None) -> np.ndarray:
    """Groups in which rows are together that are together in either.

    >>> joined(np.array([0, 0, 2, 3]), np.array(["a", "b", "b", "c"]))
    array([0, 0, 0, 1], dtype=int32)
    """
    if other is None:
        return one
    n = len(one)
    links = [np.unique(side, return_inverse=True)[1].reshape(n) for side in (one, other)]
    sizes = [int(link.max()) + 1 for link in links]
    rows = np.concatenate([np.arange(n), np.arange(n)])
    heads = np.concatenate([n + links[0], n + sizes[0] + links[1]])
    total = n + sum(sizes)
    return connected_components(coo_array((np.ones(2 * n), (rows, heads)), (total, total)), directed=False)[1][:n]


def in_order_of_classes(fit: TunedFit, outputs: np.ndarray) -> np.ndarray:
    """Probabilities with the columns in the order of `classes`: of two, the first is +1."""
    chances = fit.probabilities(outputs)
    return chances[:, ::-1] if outputs.ndim == 1 else chances


def told_copies(work: Work, s: PreparedRows, fitted: Fitted) -> Copies:
    """What was found of copies."""
    return fitted.copies
