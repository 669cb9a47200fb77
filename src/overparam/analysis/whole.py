"""`analyze`: from a data set to every answer, in one call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from overparam.analysis import learning, trust
from overparam.analysis.answers import Learnability, NewData, NoiseSweep, Problems, Spectrum, Speed, Trust
from overparam.analysis.page import make_sections
from overparam.analysis.problems import find_problems
from overparam.analysis.setting import Setting, make_trial, standardised_targets
from overparam.analysis.verdict import give_verdict
from overparam.core.bracketed import Bracketed
from overparam.core.machine import available_memory
from overparam.core.progress import Progress, silent
from overparam.core.provenance import Provenance, Stopwatch
from overparam.core.sections import Section
from overparam.core.verdict import Verdict
from overparam.core.words import count_of, duration
from overparam.data import Dataset, as_dataset, preprocess
from overparam.engines import gram
from overparam.engines.plan import Plan, make_plan
from overparam.frame import AbstractAnswer
from overparam.kernels import TwoLayer

CPU_ROWS = 10_000
"""More rows than this are subsampled on a CPU unless asked for: the factors cost n³."""


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
    learnability: Learnability
    speed: Speed
    new_data: NewData
    problems: Problems
    trust: Trust
    noise: NoiseSweep | None
    spectrum: Spectrum
    provenance: Provenance

    @property
    def complexity(self) -> Bracketed:
        """√(2 yᵀH⁻¹y / n) with its bracket."""
        return self.learnability.complexity

    @property
    def title(self) -> str:
        return f"{self.name}: what a wide network will do with it"

    @property
    def done(self) -> str:
        return count_of(self.n, "row")

    def sections(self) -> tuple[Section, ...]:
        """The page as plain data."""
        return make_sections(self)

    def __repr__(self) -> str:
        return f"Analysis({self.name!r}, n={self.n:,}, {self.task}: {self.verdict.sentences[0]})"


def analyze(
    data: Any,
    *,
    preprocess: str = "auto",
    max_rows: int | None = None,
    seed: int = 0,
    device: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Analysis:
    """Everything the two-layer theory says of a data set, with a verdict in plain words.

    Ref: fine_grained, Thm 4.1, Thm 5.1, Eq. (10)

    Args:
        data: a name or path that `op.load` knows, a `Dataset`, `(X, y)`, or a frame.
        preprocess: "auto" scales image rows to norm 1, and standardises tables, divides by √d and appends 1;
            "none", "unit", "standardise", … as `op.data.preprocess`.
        max_rows: most training rows to use; more are subsampled with classes in proportion. None takes
            10,000 on a CPU and what fits in memory on an accelerator.
        seed: of subsampling, random labels and held-out rows.
        device: "cpu", "gpu", "jax" or None for the best there is.
        threads: BLAS threads on the CPU; None leaves the setting in force.
        progress: called with the share done.

    >>> result = analyze(([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]] * 3, [1, 1, -1, -1] * 3))
    >>> result.n, result.task
    (12, 'binary')
    """
    watch = Stopwatch()
    tell = progress or silent
    tell(0.0, 1.0, "reading")
    source = as_dataset(data)
    if source.n < 4:
        raise ValueError(f"the data set has {source.n} rows; an analysis needs at least 4")
    setting = _prepare(source, preprocess, max_rows, seed, device, threads, tell)
    sweeps = learning.make_sweeps(setting)
    trial = make_trial(setting)
    learn = learning.learnability(setting, sweeps)
    fast = learning.speed(setting, sweeps, trial)
    new = learning.new_data(setting, sweeps, learn)
    problems = find_problems(setting, learn.margins, sweeps.best.outputs, sweeps.bounds)
    believed = trust.trust(setting, sweeps, fast, problems.counts["duplicate_rows"], problems.counts["near_parallel"])
    noise = trust.noise_sweep(setting, sweeps, trial)
    seen = learning.spectrum(setting, sweeps)
    tell(1.0, 1.0, "done")
    configuration = {"data": source.name, "preprocess": preprocess, "max_rows": max_rows, "kernel": "TwoLayer"}
    return Analysis(
        name=source.name,
        n=setting.n,
        d=int(source.X.shape[1]),
        task=source.task,
        classes=tuple(str(c) for c in source.classes),
        notes=setting.notes,
        verdict=give_verdict(setting, learn, fast, new, problems, believed),
        learnability=learn,
        speed=fast,
        new_data=new,
        problems=problems,
        trust=believed,
        noise=noise,
        spectrum=seen,
        provenance=watch.provenance(configuration, seed=seed, device=setting.H.device),
    )


def _prepare(
    source: Dataset,
    how: str,
    max_rows: int | None,
    seed: int,
    device: str | None,
    threads: int | None,
    tell: Progress,
) -> Setting:
    notes = list(source.notes)
    limit = row_limit(source, device) if max_rows is None else _at_least_four(max_rows)
    if source.n > limit:
        which = "the first in file order" if source.kind == "image" else "classes in proportion"
        notes.append(f"{limit:,} of {source.n:,} rows were used, {which}; `max_rows` sets how many")
        source = source.subset(limit, key=seed)
    data = preprocess(source, how)
    notes.extend(note for note in data.notes if note not in notes)
    y, y_test = data.y, None if data.test is None else data.test.y
    if data.task == "regression":
        if float(np.ptp(y)) == 0:
            raise ValueError(f"{data.name}: every training target is {y[0]:g}; there is nothing to learn")
        notes.append("targets were centred and scaled to variance 1")
        y_test = None if y_test is None else standardised_targets(y_test, data.y)
        y = standardised_targets(y, data.y)
    tell(0.05, 1.0, "Gram matrix")
    kernel = TwoLayer()
    X = np.asarray(data.X, dtype=np.float64)
    H = gram(kernel, X, "dense", device=device, threads=threads)
    return Setting(source, data, y, y_test, kernel, H, seed, tuple(notes), tell)


def _at_least_four(max_rows: int) -> int:
    if max_rows < 4:
        raise ValueError(f"`max_rows` is {max_rows}; expected at least 4")
    return int(max_rows)


def row_limit(source: Dataset, device: str | None) -> int:
    """Rows that fit: 10,000 on a CPU; on an accelerator what leaves room for the matrix and two factors."""
    from overparam.engines.matrix import chosen_device

    place = chosen_device(device)
    if place == "gpu":
        from overparam.engines.on_device import free_memory

        return int(np.sqrt(free_memory(place) / 8 / 3.3))
    return int(min(CPU_ROWS, np.sqrt(available_memory() / 8 / 4)))


def plan_analysis(data: Any, *, max_rows: int | None = None, device: str | None = None) -> tuple[Plan, float, str]:
    """The plan of the matrix, seconds for the whole analysis, and both in words."""
    from overparam.engines.matrix import chosen_device

    source = as_dataset(data)
    n = min(source.n, row_limit(source, device) if max_rows is None else _at_least_four(max_rows))
    place = chosen_device(device)
    plan = make_plan(TwoLayer(), n, source.d, engine="dense", device=place, threads=None, memory=None)
    plan = replace(plan, reason="stored, since leave-one-out factors it")
    flops = 2.0 * n * n * source.d / max(plan.gram_seconds, 1e-9) if n > 500 else 2e10
    factors = 4 * (2 / 3) * float(n) ** 3 / flops
    seconds = 1.5 + plan.seconds(600) + factors
    note = "" if n == source.n else f" ({n:,} of {source.n:,} rows)"
    return plan, seconds, f"{plan}\n  analysis about {duration(seconds, rough=True)} in all{note}"
