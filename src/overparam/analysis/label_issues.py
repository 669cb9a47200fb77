"""`find_label_issues`: which labels of a data set are wrong, every row scored, and a table to decide on them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from overparam.analysis.data_answers import Copies
from overparam.analysis.data_cost import fit_memory, fit_seconds, labels_seconds, row_limit
from overparam.analysis.data_fit import fit_rows, most_fitted, told_copies
from overparam.analysis.data_labels import FILE, ScoredLabels, labels_say, scored_labels, worst_labels
from overparam.analysis.data_rows import PreparedRows, prepare_rows
from overparam.analysis.label_decisions import csv_bytes, label_table
from overparam.core import files
from overparam.core.checks import one_of, whole_number
from overparam.core.progress import Progress
from overparam.core.provenance import Provenance
from overparam.core.reading import place_of
from overparam.core.sections import Figure, Section, Text, Verdict, series
from overparam.core.words import count_of
from overparam.data import as_dataset
from overparam.frame import AbstractAnswer, Job, Part, Plan, verb
from overparam.theory.tuning import BY_PRODUCTS

LEAST_ROWS = 4


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
        target = place_of(path)
        files.write_whole(target, csv_bytes(self.scored))
        return target

    def tables(self) -> Mapping[str, bytes]:
        return {FILE: csv_bytes(self.scored)}

    def sections(self) -> tuple[Section, ...]:
        found = [self.verdict.section, Section("The worst rows", (worst_labels(self.scored),))]
        found.append(Section("All rows", (_margins(self.scored), Text(_how(self)))))
        if self.notes:
            found.append(Section("What was done", tuple(map(Text, self.notes))))
        return tuple(found)

    def __repr__(self) -> str:
        return f"LabelIssues({self.name!r}, n={self.n:,}: {self.verdict.sentences[0]})"


_HOW = (
    "Every row is judged by models that did not see it, nor its copies: a kernel machine with the row left out{how}, "
    "and the trees of a forest that were grown without it. Their probabilities are averaged. The margin is the "
    "probability of the given label less that of the likeliest other one."
)
_HOW_TARGETS = (
    "Every row is predicted by a kernel machine that did not see it, nor its copies. The margin is minus the size of "
    "the residual in standard deviations, estimated so that outliers do not count."
)


def _how(found: LabelIssues) -> str:
    by_folds = found.n > BY_PRODUCTS
    if not found.scored.classes:
        return _HOW_TARGETS
    return _HOW.format(how=", a fifth of all at once" if by_folds else " in closed form")


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
    with the row left out in closed form (above 12,000 rows with a fifth of them at once, by products with the matrix), and
    that of the trees of a forest grown without it. Copies of a row leave with it. For a regression it is the left-out residual in robust standard deviations.

    Args:
        data, y: a name or path that `op.load` knows, a `Dataset`, `X` and `y`, `(X, y)`, or a frame.
        preprocess: as in `op.analyze`.
        max_rows: most rows to score; more are subsampled with classes in proportion. None takes
            as many as `op.analyze` does.
        key: seed of subsampling and of the forest.
        dtype: "float64" alone.
        device: "cpu", "gpu", "jax", "all" or None for the best there is, for more than 4,000 rows.
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
    most = min(row_limit(device, source.d, source.k), most_fitted(device))
    limit = most if max_rows is None else whole_number(max_rows, "max_rows", least=LEAST_ROWS)
    rows = prepare_rows(source, preprocess, limit, key)
    used = f"{rows.n:,} of {count_of(source.n, 'row')}" if rows.n < source.n else count_of(rows.n, "row")
    of = (rows,)
    fitting = 1.5 + 2e-10 * float(rows.n) ** 3 + 2e-7 * rows.n**2
    parts = [
        Part("fit", fit_rows, of, seconds=fitting, kept=False),
        Part("copies", told_copies, of, ("fit",), gives=Copies),
        Part("scores", scored_labels, of, ("fit",), 0.5 + 1e-4 * rows.n * rows.data.d**0.5, ScoredLabels),
    ]
    about = {"data": source.name, "preprocess": preprocess, "max_rows": max_rows}

    def timed() -> Mapping[str, float]:
        if rows.n <= BY_PRODUCTS:
            return {}
        fit = fit_seconds(rows.n, rows.data.d, rows.y.size // rows.n, device)
        return {"fit": fit, "scores": labels_seconds(rows.n, rows.data.d, device)}

    return Job(
        "find_label_issues",
        parts,
        partial(_conclude, rows),
        plan=Plan(
            f"{source.name}: the labels of {used} of {count_of(source.d, 'feature')}",
            memory=fit_memory(rows.n, rows.data.d, device),
            engine="dense",
            details={"rows": rows.n},
        ),
        provenance=Provenance(about, seed=key, device="cpu"),
        timed=timed,
        device=device,
        place=place,
        progress=progress,
    )


find_label_issues = verb(prepare_find_label_issues)


def _conclude(rows: PreparedRows, found: Mapping[str, Any], made: Provenance) -> LabelIssues:
    scored: ScoredLabels = found["scores"]
    copied = found["copies"].copied
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
    noise, issues = scored.noise, scored.issues
    lines = labels_say(scored)
    if copied:
        lines.append(
            f"{count_of(copied, 'row')} repeat{'s another' if copied == 1 else ' others'}; copies did not answer for each other."
        )
    clean = issues == 0 or (noise is not None and noise.kind == "rate" and noise.lower <= 0)
    return Verdict("good" if clean else "warning", tuple(lines))


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
