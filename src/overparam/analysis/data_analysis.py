"""`analyze`: from a data set to every answer, in one call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, final

from overparam.analysis.data_answers import (
    Copies,
    ErrorEstimate,
    Learnability,
    NewData,
    NoiseSweep,
    Problems,
    Rival,
    SeenRows,
    Spectrum,
    Speed,
    Trust,
)
from overparam.analysis.data_controls import ControlNumbers, live_numbers
from overparam.analysis.data_cost import (
    classes_memory,
    classes_seconds,
    error_seconds,
    factor_limit,
    fit_memory,
    fit_seconds,
    forest_seconds,
    growth_seconds,
    labels_seconds,
    pace,
    row_limit,
    seen_seconds,
)
from overparam.analysis.data_doubts import find_problems, noise_sweep, trust
from overparam.analysis.data_estimate import error_estimate
from overparam.analysis.data_fit import fit_rows, told_copies
from overparam.analysis.data_growth import Growth, growth
from overparam.analysis.data_held import held_rows
from overparam.analysis.data_kinds import Kinds, compare_kinds, kinds_seconds
from overparam.analysis.data_labels import FILE, ScoredLabels, scored_labels
from overparam.analysis.data_learning import learnability, make_sweeps, new_data, spectrum, speed
from overparam.analysis.data_page import make_sections
from overparam.analysis.data_rival import forest, rival
from overparam.analysis.data_rows import PreparedRows, make_trial, prepare_rows
from overparam.analysis.data_seen import seen_rows
from overparam.analysis.data_theory import theory_says
from overparam.analysis.data_thumbnails import Thumbnails, thumbnails
from overparam.analysis.data_verdict import give_verdict, leaks
from overparam.analysis.label_decisions import csv_bytes
from overparam.core.bracketed import Bracketed
from overparam.core.checks import one_of, whole_number
from overparam.core.deprecated import accepts_old
from overparam.core.progress import Progress
from overparam.core.provenance import Provenance
from overparam.core.sections import Section, Verdict
from overparam.core.words import count_of
from overparam.data import as_dataset
from overparam.data.column_notes import ColumnNote
from overparam.engines import AbstractGram, gram
from overparam.engines.matrix import chosen_device
from overparam.engines.plan import make_plan
from overparam.frame import AbstractAnswer, Job, Part, Plan, Work, verb
from overparam.kernels import TwoLayer

LEAST_ROWS = 4
SHARES = {"sweeps": 0.57, "learnability": 0.09, "speed": 0.26, "new data": 0.03, "trust": 0.01, "noise": 0.04}
"""Of the theory's time beyond the matrix itself, which parts take how much; the others take nearly none."""


@final
@dataclass(frozen=True, eq=False)
class Analysis(AbstractAnswer):
    """What a wide two-layer ReLU network will do with a data set; `save(folder)`, `verdict`, `complexity`, …

    Every field is data; `op.read(folder)` gives the object back.
    """

    kind: ClassVar[str] = "analysis"

    name: str
    n: int
    d: int
    task: str
    classes: tuple[str, ...]
    notes: tuple[str, ...]
    verdict: Verdict
    theory: tuple[str, ...]
    """What the theory of wide networks adds, in sentences."""
    error: ErrorEstimate
    copies: int
    """Rows that are copies of others."""
    copy_groups: Copies
    leak: tuple[str, ...]
    """Columns that give the target away."""
    columns: tuple[ColumnNote, ...]
    """What was done to columns, or found in them."""
    growth: Growth
    """Whether more rows would help."""
    labels: ScoredLabels
    """Every label scored, worst first; `save` writes them as labels.csv."""
    thumbnails: Thumbnails | None
    """Of the worst labels, where rows are images."""
    learnability: Learnability
    speed: Speed
    new_data: NewData
    problems: Problems
    trust: Trust
    noise: NoiseSweep | None
    spectrum: Spectrum
    controls: ControlNumbers | None
    provenance: Provenance
    kinds: Kinds | None = None
    """Which kind of model does best; None where it was left out, or there are too few rows."""
    total: int = 0
    """Rows there were; `n` of them were used."""
    theory_rows: int = 0
    """Rows that the theory's numbers are of (everything from `learnability` to `controls`); 0: all `n`."""

    def tables(self) -> Mapping[str, bytes]:
        return {FILE: csv_bytes(self.labels)}

    @property
    def rows_of_theory(self) -> int:
        """How many rows the theory's numbers are of."""
        return self.theory_rows or self.n

    @property
    def complexity(self) -> Bracketed:
        """√(2 yᵀH⁻¹y / n) with its bracket."""
        return self.learnability.complexity

    @property
    def title(self) -> str:
        return f"{self.name}: what a model will do with it"

    @property
    def done(self) -> str:
        return f"{self.n:,} of {count_of(self.total, 'row')}" if self.total > self.n else count_of(self.n, "row")

    def sections(self) -> tuple[Section, ...]:
        """The page as plain data."""
        return make_sections(self)

    def __repr__(self) -> str:
        return f"Analysis({self.name!r}, n={self.n:,}, {self.task}: {self.verdict.sentences[0]})"


def prepare_analyze(
    data: Any,
    y: Any = None,
    *,
    preprocess: str = "auto",
    max_rows: int | None = None,
    kinds: bool = True,
    key: int = 0,
    dtype: str = "float64",
    device: str | None = None,
    threads: int | None = None,
    place: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **reading: Any,
) -> Job[Analysis]:
    """Everything the two-layer theory says of a data set, with a verdict in plain words.

    Ref: fine_grained, Thm 4.1, Thm 5.1, Eq. (10)

    Args:
        data, y: a name or path that `op.load` knows, a `Dataset`, `X` and `y`, `(X, y)`, or a frame.
        preprocess: "auto" scales image rows to norm 1, and standardises tables, divides by √d and appends 1;
            "none", "unit", "standardise", … as `op.data.preprocess`.
        max_rows: most training rows to use; more are subsampled with classes in proportion. None takes
            on a CPU what two cores analyse in about a quarter of an hour (70,000 images in ten classes; fewer where half of
            their matrix in float32 does not fit in memory), and on an accelerator as many as their matrix and two factors fit.
            Above 12,000 rows the error is that of five folds, by products with the matrix alone; above 10,000 on a CPU, and
            above what fits on an accelerator, the numbers of the theory are of so many of the rows.
        kinds: whether to compare kinds of model (a kernel, a network, trees, a linear model) in five folds.
        key: seed of subsampling, random labels and held-out rows.
        dtype: "float64" alone.
        device: "cpu", "gpu", "jax", "all" or None for the best there is.
        threads: BLAS threads on the CPU; None leaves the setting in force.
        place: a folder in which finished parts are kept, so that a stopped analysis goes on.
        progress: called with the seconds of the plan that are done.
        reading: label, group, classes, train, test, task, missing: as in `op.load`.

    >>> result = analyze(([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]] * 3, [1, 1, -1, -1] * 3))
    >>> result.n, result.task
    (12, 'binary')
    """
    one_of(dtype, "dtype", ("float64",), "an analysis computes in float64 only")
    source = as_dataset(data, y, key=key, **reading)
    if source.n < LEAST_ROWS:
        raise ValueError(f"the data set has {count_of(source.n, 'row')}; an analysis needs at least {LEAST_ROWS}")
    limit = (
        row_limit(device, source.d, source.k)
        if max_rows is None
        else whole_number(max_rows, "max_rows", least=LEAST_ROWS)
    )
    rows = prepare_rows(source, preprocess, limit, key)
    where = chosen_device(device)
    few = rows if where in ("jax", "all") else rows.some(max(LEAST_ROWS, factor_limit(device)))
    cost = make_plan(TwoLayer(), few.n, few.data.d, engine="dense", device=where, threads=None, memory=None)
    used = f"{rows.n:,} of {count_of(source.n, 'row')}" if rows.n < source.n else count_of(rows.n, "row")
    about = {"data": source.name, "preprocess": preprocess, "max_rows": max_rows, "kernel": "TwoLayer"}
    outputs = rows.y.size // rows.n
    if rows.classes and outputs > rows.n:
        raise ValueError(
            f"{outputs:,} classes and {count_of(rows.n, 'row')} of {source.name} are too much to tell apart: every class needs rows; "
            "raise `max_rows`, or keep fewer `classes`"
        )

    def timed() -> Mapping[str, float]:
        flops = 2.0 * few.n**2 * few.data.d / max(cost.gram_seconds, 1e-9) if few.n > 500 else 2e10
        beyond = 1.5 + 600 * cost.product_seconds + 4 * (2 / 3) * float(few.n) ** 3 / flops
        n, d, tested = rows.n, rows.data.d, 0 if rows.data.test is None else rows.data.test.n
        many = classes_seconds(n, outputs)
        own = {
            "fit": fit_seconds(n, d, outputs, device) + 0.3 * many,
            "forest": forest_seconds(n) + 0.5 * many,
            "folds": pace() * (0.1 + 1.2e-10 * min(n, 3_000) ** 3),
            "kinds": pace() * kinds_seconds(min(n, 3_000), d) if kinds else 0.0,
            "labels": labels_seconds(n, d, device),
            "error": error_seconds(n, d, tested) + 0.2 * many,
            "seen": seen_seconds(n, tested, device),
            "growth": growth_seconds(n),
        }
        return {"matrix": cost.gram_seconds} | {name: share * beyond for name, share in SHARES.items()} | own

    return Job(
        "analyze",
        _parts(rows, few, threads, where, kinds),
        partial(_conclude, rows, few, int(source.X.shape[1])),
        plan=Plan(
            f"{source.name}: {used} of {count_of(source.d, 'feature')}",
            memory=max(cost.memory, fit_memory(rows.n, rows.data.d, device) if few is not rows else 0)
            + classes_memory(rows.n, outputs),
            free_memory=cost.free_memory,
            engine=cost.engine,
            device=where,
            details={"rows": rows.n},
        ),
        provenance=Provenance(about, seed=key, device=where),
        timed=timed,
        device=device,
        place=place,
        progress=progress,
    )


analyze = accepts_old("analyze")(verb(prepare_analyze))


def _parts(rows: PreparedRows, few: PreparedRows, threads: int | None, where: str, kinds: bool) -> list[Part]:
    """The matrix and what costs are made once and serve the answers, which are kept; the theory's are of `few` rows."""
    of, some = (rows,), (few,)
    compared = [Part("kinds", compare_kinds, of, ("fit", "folds", "forest"), 1.0, Kinds)] if kinds else []
    return [
        Part("fit", fit_rows, of, seconds=2.0, kept=False),
        Part("copies", told_copies, of, ("fit",), gives=Copies),
        Part("seen", seen_rows, of, ("fit",), gives=SeenRows),
        Part("folds", held_rows, of, ("fit",), 0.5, kept=False),
        Part("forest", forest, of, ("fit", "folds"), 1.0, kept=False),
        Part("rival", rival, of, ("fit", "folds", "forest", "seen"), gives=Rival),
        *compared,
        Part("error", error_estimate, of, ("fit", "folds", "seen", "rival"), gives=ErrorEstimate),
        Part("growth", growth, of, ("fit",), 0.5, Growth),
        Part("labels", scored_labels, of, ("fit",), 1.0, ScoredLabels),
        Part("thumbnails", thumbnails, of, ("labels",), gives=Thumbnails),
        Part("matrix", _matrix, (few, where), seconds=0.1, kept=False, beside={"threads": threads}),
        Part("sweeps", make_sweeps, some, ("matrix",), seconds=SHARES["sweeps"], kept=False),
        Part("trial", make_trial, some, ("matrix",), kept=False),
        Part("learnability", learnability, some, ("sweeps",), SHARES["learnability"], Learnability),
        Part("speed", speed, some, ("sweeps", "trial"), SHARES["speed"], Speed),
        Part("new data", new_data, some, ("sweeps", "learnability"), SHARES["new data"], NewData),
        Part("problems", find_problems, (rows, few), ("sweeps", "seen"), gives=Problems),
        Part("trust", trust, some, ("sweeps", "speed", "problems"), SHARES["trust"], Trust),
        Part("noise", noise_sweep, some, ("sweeps", "trial"), SHARES["noise"], NoiseSweep),
        Part("spectrum", spectrum, some, ("sweeps",), gives=Spectrum),
        Part("controls", live_numbers, some, ("sweeps", "speed", "trust"), gives=ControlNumbers),
    ]


def _matrix(work: Work, rows: PreparedRows, where: str, *, threads: int | None) -> AbstractGram:
    """`where` names the part: what a GPU leaves out (held-out rows) is not taken for an answer of the CPU."""
    return gram(TwoLayer(), rows.X, "dense", device=work.device, threads=threads)


def _conclude(
    rows: PreparedRows, few: PreparedRows, features: int, found: Mapping[str, Any], made: Provenance
) -> Analysis:
    learn, fast, new = (found[name] for name in ("learnability", "speed", "new data"))
    growing, kinds = found["growth"], found.get("kinds")
    if found["error"].cannot_tell:  # rows that cannot tell the error cannot tell what follows from it
        growing = replace(growing, verdict="cannot tell")
        kinds = None if kinds is None else replace(kinds, best="cannot tell")
    elif found["error"].left_out_error.value <= 0:  # what is right already does not get better
        growing = replace(growing, verdict="hardly helps")
    return Analysis(
        name=rows.source.name,
        n=rows.n,
        d=features,
        task=rows.source.task,
        classes=tuple(str(c) for c in rows.source.classes),
        notes=rows.notes,
        verdict=give_verdict(
            rows,
            found["error"],
            found["copies"],
            found["problems"],
            found["labels"],
            growing,
            kinds,
        ),
        theory=theory_says(rows.classes, few.n, learn, fast, new, found["problems"], found["trust"]),
        error=found["error"],
        copies=found["copies"].copied,
        copy_groups=found["copies"],
        leak=leaks(rows),
        columns=rows.data.column_notes,
        growth=growing,
        kinds=kinds,
        labels=found["labels"],
        thumbnails=found["thumbnails"],
        learnability=learn,
        speed=fast,
        new_data=new,
        problems=found["problems"],
        trust=found["trust"],
        noise=found["noise"],
        spectrum=found["spectrum"],
        controls=found["controls"],
        provenance=made,
        total=rows.total,
        theory_rows=few.n if few.n < rows.n else 0,
    )
