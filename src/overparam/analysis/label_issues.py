"""`find_label_issues`: which labels of a data set are wrong, every row scored, and a table to decide on them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from overparam.analysis.data_copies import CopyGroups, judge_copies
from overparam.analysis.data_labels import (
    ScoredLabels,
    combined_probabilities,
    forest_probabilities,
    score_labels,
    score_targets,
)
from overparam.analysis.data_rows import PreparedRows, prepare_rows
from overparam.analysis.label_decisions import FILE, csv_bytes, label_table
from overparam.core import files
from overparam.core.checks import one_of, whole_number
from overparam.core.progress import Progress
from overparam.core.provenance import Provenance
from overparam.core.sections import Figure, Section, Table, Text, Verdict, series
from overparam.core.words import count_of, decimal, percent
from overparam.data import RowCopies, as_dataset, row_copies
from overparam.frame import AbstractAnswer, Job, Part, Plan, Work, verb
from overparam.theory.tuning import TunedFit, tuned_fit

CPU_ROWS = 10_000
"""More rows than this are not scored unless asked for: the factors cost n³."""
LEAST_ROWS = 4
SHOWN = 20


@final
@dataclass(frozen=True, eq=False)
class LabelIssues(AbstractAnswer):
    """Every label scored, worst first: `to_frame()`, `to_csv(path)`; `save(folder)` writes labels.csv too.

    scored.rows, .given, .suggested, .margin, .wrong, .same, .other: one entry a row; see `ScoredLabels`.
    """

    kind: ClassVar[str] = "label-issues"

    name: str
    n: int
    task: str
    issues: int
    """How many labels are rather wrong than right."""
    copies: int
    """How many rows repeat another; copies did not answer for each other."""
    scored: ScoredLabels
    notes: tuple[str, ...]
    verdict: Verdict
    provenance: Provenance

    @property
    def title(self) -> str:
        return f"{self.name}: which labels are wrong"

    @property
    def done(self) -> str:
        return f"{count_of(self.n, 'row')} scored"

    def to_frame(self) -> Any:
        """A pandas frame with a line for every row, worst first."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError(
                "`to_frame` needs pandas: install 'overparam[pandas]'; `to_csv` and `.scored` do without"
            ) from None
        return pd.DataFrame(label_table(self.scored)).astype({"nearest_same": "Int64", "nearest_other": "Int64"})

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the table as CSV; `apply_decisions` reads it back once its column `decision` is filled."""
        files.write_whole(Path(path), csv_bytes(self.scored))
        return Path(path)

    def tables(self) -> Mapping[str, bytes]:
        return {FILE: csv_bytes(self.scored)}

    def sections(self) -> tuple[Section, ...]:
        found = [self.verdict.section, Section("The worst rows", (_worst(self.scored),))]
        found.append(Section("All rows", (_margins(self.scored), Text(_HOW if self.scored.classes else _HOW_TARGETS))))
        if self.notes:
            found.append(Section("What was done", tuple(map(Text, self.notes))))
        return tuple(found)

    def __repr__(self) -> str:
        return f"LabelIssues({self.name!r}, n={self.n:,}: {self.verdict.sentences[0]})"


_HOW = (
    "Every row is judged by models that did not see it, nor its copies: a kernel machine with the row left out in closed "
    "form, and the trees of a forest that were grown without it. Their probabilities are averaged. The margin is the "
    "probability of the given label less that of the likeliest other one."
)
_HOW_TARGETS = (
    "Every row is predicted by a kernel machine that did not see it, nor its copies. The margin is minus the size of "
    "the residual in standard deviations, estimated so that outliers do not count."
)


def prepare_find_label_issues(
    data: Any,
    y: Any = None,
    *,
    preprocess: str = "auto",
    max_rows: int | None = None,
    key: int = 0,
    dtype: str = "float64",
    device: str | None = None,
    place: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **reading: Any,
) -> Job[LabelIssues]:
    """Every label scored by models that did not see its row: which are wrong, what they should be, and how many.

    For classes the probability of the given label is the mean of two: the calibrated one of the best kernel and ridge
    with the row left out in closed form, and that of the trees of a forest grown without it. Copies of a row leave
    with it. For a regression it is the left-out residual in robust standard deviations.

    Args:
        data, y: a name or path that `op.load` knows, a `Dataset`, `X` and `y`, `(X, y)`, or a frame.
        preprocess: as in `op.analyze`.
        max_rows: most rows to score; more are subsampled with classes in proportion. None takes 10,000.
        key: seed of subsampling and of the forest.
        dtype: "float64" alone.
        device: "cpu", "gpu", "jax" or None for the best there is, for more than 4,000 rows.
        place: a folder in which finished parts are kept, so that a stopped search goes on.
        progress: called with the seconds of the plan that are done.
        reading: label, group, classes, train, test, task, missing: as in `op.load`.

    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> y = np.where(X[:, 0] > 0, "up", "down")
    >>> y[3] = "up"
    >>> found = find_label_issues(X, y)
    >>> int(found.scored.rows[0]), found.scored.label(found.scored.suggested[0])
    (3, 'down')
    """
    one_of(dtype, "dtype", ("float64",), "labels are scored in float64 only")
    source = as_dataset(data, y, key=key, **reading)
    if source.n < LEAST_ROWS:
        raise ValueError(f"the data set has {count_of(source.n, 'row')}; scoring labels needs at least {LEAST_ROWS}")
    limit = CPU_ROWS if max_rows is None else whole_number(max_rows, "max_rows", least=LEAST_ROWS)
    rows = prepare_rows(source, preprocess, limit, key)
    used = f"{rows.n:,} of {source.n:,} rows" if rows.n < source.n else count_of(rows.n, "row")
    of = (rows,)
    fitting = 1.5 + 2e-10 * float(rows.n) ** 3 + 2e-7 * rows.n**2
    parts = [
        Part("copies", _copies, of, seconds=0.1 + 3e-11 * float(rows.n) ** 2 * rows.data.d, kept=False),
        Part("fit", _fit, of, ("copies",), seconds=fitting, kept=False),
        Part(
            "probabilities", _probabilities, of, ("copies", "fit"), seconds=0.5 + 5e-6 * rows.n * rows.data.d**0.5 * 20
        ),
        Part("scores", _scores, of, ("probabilities",), seconds=0.1, gives=ScoredLabels),
    ]
    about = {"data": source.name, "preprocess": preprocess, "max_rows": max_rows}
    return Job(
        "find_label_issues",
        parts,
        partial(_conclude, rows),
        plan=Plan(
            f"{source.name}: the labels of {used} of {count_of(source.d, 'feature')}",
            memory=8 * rows.n * (6 * rows.n + 4 * rows.data.d),
            engine="dense",
            details={"rows": rows.n},
        ),
        provenance=Provenance(about, seed=key, device="cpu"),
        device=device,
        place=place,
        progress=progress,
    )


find_label_issues = verb(prepare_find_label_issues)


def _copies(work: Work, rows: PreparedRows) -> RowCopies:
    return row_copies(rows.source)


def _fit(work: Work, rows: PreparedRows, copies: RowCopies) -> tuple[TunedFit, CopyGroups]:
    """The best kernel and ridge with copies leaving together; once more where equal rows turn out to be none."""
    source = rows.source
    groups = joined(copies.candidates, source.groups)
    fit = _tuned(work, rows, source.y, groups)
    if rows.classes:
        judged = judge_copies(copies, source.codes, class_probabilities(fit, fit.outputs))
    else:
        judged = judge_copies(copies, source.labels)
    settled = joined(judged.groups, source.groups)
    if not rows.classes:  # once more without what stands out, which would bend the predictions around it
        return _tuned(work, rows, _clipped(source.y, fit.outputs), settled), judged
    return (fit if np.array_equal(settled, groups) else _tuned(work, rows, source.y, settled)), judged


def _tuned(work: Work, rows: PreparedRows, y: np.ndarray, groups: np.ndarray) -> TunedFit:
    return tuned_fit(rows.X, y, groups=groups, key=rows.seed, device=work.device, progress=work.progress)


def _clipped(y: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Targets no further from what is predicted than three robust standard deviations."""
    residuals = y - outputs
    most = 3 * 1.4826 * np.median(np.abs(residuals), axis=0)
    return outputs + np.clip(residuals, -most, most) if np.all(most > 0) else y


def _probabilities(
    work: Work, rows: PreparedRows, copies: RowCopies, fitted: tuple[TunedFit, CopyGroups]
) -> Mapping[str, Any]:
    """What is predicted for every row without it: probabilities of the classes, or targets."""
    fit, judged = fitted
    if not rows.classes:
        return {"outputs": fit.outputs, "copied": judged.copied}
    source = rows.source
    kernel = class_probabilities(fit, fit.outputs)
    groups = joined(judged.groups, source.groups)
    forest = forest_probabilities(
        source.X, source.codes, groups, len(source.classes), key=rows.seed, progress=work.progress
    )
    return {"outputs": combined_probabilities(source.codes, kernel, forest), "copied": judged.copied}


def _scores(work: Work, rows: PreparedRows, found: Mapping[str, np.ndarray]) -> ScoredLabels:
    if rows.classes:
        return score_labels(rows.source, found["outputs"])
    return score_targets(rows.source, found["outputs"])


def class_probabilities(fit: TunedFit, outputs: np.ndarray) -> np.ndarray:
    """(rows, classes) in the order of `Dataset.classes`, whose first of two is the +1 that comes last in a fit."""
    found = fit.probabilities(outputs)
    return found[:, ::-1] if outputs.ndim == 1 else found


def joined(groups: np.ndarray, others: np.ndarray | None) -> np.ndarray:
    """Groups of rows that either of two groupings keeps together, directly or through others.

    >>> joined(np.array([0, 0, 2, 3]), np.array(["a", "b", "b", "c"]))
    array([0, 0, 0, 1])
    """
    if others is None:
        return groups
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    left, right = (np.unique(names, return_inverse=True)[1] for names in (groups, others))
    size = int(left.max()) + 1
    graph = coo_matrix((np.ones(len(left)), (left, size + right)), shape=(size + int(right.max()) + 1,) * 2)
    return connected_components(graph, directed=False)[1][left].astype(np.int64)


def _conclude(rows: PreparedRows, found: Mapping[str, Any], made: Provenance) -> LabelIssues:
    scored: ScoredLabels = found["scores"]
    copied = int(found["probabilities"]["copied"])
    return LabelIssues(
        name=rows.source.name,
        n=rows.n,
        task=rows.source.task,
        issues=scored.issues,
        copies=copied,
        scored=scored,
        notes=rows.notes,
        verdict=_verdict(scored, copied),
        provenance=made,
    )


def _verdict(scored: ScoredLabels, copied: int) -> Verdict:
    noise, issues, n = scored.noise, scored.issues, len(scored.rows)
    lines = []
    if noise is None:
        lines.append(
            f"{count_of(issues, 'target')} of {n:,} {'is' if issues == 1 else 'are'} far from what the other rows predict."
            if issues
            else "No target is further from what the other rows predict than chance allows."
        )
    elif noise.kind == "rate":
        lines.append(
            f"About {percent(noise.rate)} of the labels are wrong ({percent(noise.lower)} to {percent(noise.upper)})."
            if noise.lower > 0
            else f"No sign of wrong labels: at most {percent(noise.upper)} of them are."
        )
    else:
        lines.append(
            f"At most {percent(noise.upper)} of the labels are wrong: noise or overlap of the classes, which these data "
            "cannot tell apart."
        )
    if issues:
        first = scored.rows[0], scored.label(scored.given[0]), scored.label(scored.suggested[0])
        what = "row that is rather wrong than right" if issues == 1 else "rows that are rather wrong than right"
        lines.append(
            f"{FILE} lists {issues:,} {what}, row {first[0]} first (given {first[1]}, rather {first[2]}): fill its "
            "column `decision` with keep, drop or a label."
        )
    if copied:
        lines.append(f"{count_of(copied, 'row')} repeat others; copies did not answer for each other.")
    clean = issues == 0 or (noise is not None and noise.kind == "rate" and noise.lower <= 0)
    return Verdict("good" if clean else "warning", tuple(lines))


def _worst(scored: ScoredLabels) -> Table:
    columns = ("row", "given", "suggested", "margin", "wrong with probability", "nearest alike", "nearest other")

    def place(row: int) -> int | None:
        return int(row) if row >= 0 else None

    rows = tuple(
        (
            int(scored.rows[i]),
            scored.label(scored.given[i]),
            scored.label(scored.suggested[i]),
            decimal(float(scored.margin[i])),
            decimal(float(scored.wrong[i])),
            place(scored.same[i]),
            place(scored.other[i]),
        )
        for i in range(min(SHOWN, len(scored.rows)))
    )
    return Table(columns, rows, f"The first {len(rows)} of {len(scored.rows):,}; {FILE} has all.", has_samples=True)


def _margins(scored: ScoredLabels) -> Figure:
    counts, edges = np.histogram(scored.margin, bins=40)
    middles = (edges[:-1] + edges[1:]) / 2
    what = "probability of the given label less that of the likeliest other" if scored.classes else "minus the residual"
    return Figure(
        "How far the other rows agree with each label",
        "Labels to the left are contradicted; two heaps mean that wrong labels stand apart.",
        what,
        "rows",
        (series("rows", middles, counts, mark="bars"),),
    )
