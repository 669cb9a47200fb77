"""`compare`: is a kernel enough for this data, or is a trained network ahead?"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

import numpy as np

from overparam.analysis.compare_crossing import Crossing, find_crossing
from overparam.analysis.compare_data import Ground, make_ground
from overparam.analysis.compare_page import make_comparison_sections
from overparam.analysis.compare_plan import ComparisonPlan, settle_plan
from overparam.analysis.compare_runs import METHODS, Choice, Measured, measure_all
from overparam.analysis.compare_verdict import Gap, decide, error_bar, margin_of, paired_gap
from overparam.analysis.compare_words import give_words
from overparam.core.progress import Progress, silent
from overparam.core.provenance import Provenance, Stopwatch
from overparam.core.sections import Section
from overparam.core.verdict import Verdict
from overparam.frame import AbstractAnswer
from overparam.training.workplace import Workplace


@final
@dataclass(frozen=True, eq=False)
class Comparison(AbstractAnswer):
    """Tuned kernels against trained networks on growing parts of a data set; `save(folder)`, `verdict`, `answer`, …

    answer: "kernel" (enough), "network" (ahead) or "undecided", at the largest size. gaps: network minus kernel at every
    size, the best of each side, which were chosen without the test rows. errors, bars: (methods, sizes) mean error and
    its standard error; seed_errors: (methods, sizes, seeds). An error is the share of test rows wrong, or for regression
    the mean square over the variance of the test targets. best_kernels, best_networks: by name, one a size.
    """

    kind: ClassVar[str] = "comparison"

    name: str
    task: str
    classes: tuple[str, ...]
    notes: tuple[str, ...]
    split: str
    plan: ComparisonPlan
    methods: tuple[str, ...]
    errors: np.ndarray
    bars: np.ndarray
    seed_errors: np.ndarray
    best_kernels: tuple[str, ...]
    best_networks: tuple[str, ...]
    best_bars: np.ndarray
    gaps: tuple[Gap, ...]
    margin: float
    answer: Literal["kernel", "network", "undecided"]
    crossing: Crossing
    choices: tuple[Choice, ...]
    guess: float
    pool: int
    verdict: Verdict
    provenance: Provenance

    @property
    def title(self) -> str:
        return f"{self.name}: is a kernel enough?"

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.plan.sizes

    @property
    def seeds(self) -> int:
        return self.plan.seeds

    @property
    def test_rows(self) -> int:
        return self.plan.test_rows

    @property
    def shared(self) -> bool:
        """Whether the seeds have nearly the same training rows at the largest size, for lack of others."""
        return self.sizes[-1] > 0.8 * self.pool

    def sections(self) -> tuple[Section, ...]:
        """The page as plain data."""
        return make_comparison_sections(self)

    def __repr__(self) -> str:
        return f"Comparison({self.name!r}, {self.answer}: {self.verdict.sentences[0]})"


def compare(
    data: Any,
    *,
    sizes: Sequence[int] | None = None,
    seeds: int = 3,
    seconds: float | None = None,
    width: int | None = None,
    steps: int | None = None,
    preprocess: str = "auto",
    max_rows: int | None = None,
    max_test: int | None = None,
    seed: int = 0,
    dtype: str = "float32",
    device: str | None = None,
    place: str | os.PathLike[str] | None = None,
    plan: ComparisonPlan | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Is a kernel enough for this data? Tuned kernels against trained networks, on growing numbers of rows.

    Kernels: NTK of depth 1 to 3, conjugate kernel, Laplace, Gaussian, each with its ridge by exact leave-one-out; the best
    by leave-one-out stands for them. Networks: two layers, three layers and the three-layer ResNet, hidden layers trained
    by SGD, with rate, weight decay and length chosen on a validation part of the training rows, then trained again on
    all of them; the best on validation rows stands for them. Test rows are the same for all and choose nothing. The
    verdict is a comparison in pairs over test rows, at the largest size.

    Args:
        data: a name or path that `op.load` knows, a `Dataset`, `(X, y)`, or a frame; a quarter is held out where it
            has no test rows.
        sizes: numbers of training rows; None takes m, 2m, 4m, 8m up to all rows or 4,000, or half as many where kernels
            alone would take most of the time.
        seeds: draws of training rows and of initial weights.
        seconds: time to fit, by fewer or more steps of training; 7 minutes if None.
        width: neurons of a hidden layer; None takes 200, or 100 where steps are slow.
        steps: of training; None takes what fits the time, from 1,000 to 6,000. With `width` and `steps` given the
            result does not depend on the speed of the machine.
        preprocess: as in `analyze`.
        max_rows, max_test: most training and test rows used; 4,000 and 2,000 if None.
        seed: of every draw.
        dtype: of training: "float32" or "float64". Kernels are float64.
        device: "cpu", "gpu" or None.
        place: a folder in which finished parts are kept, so that a stopped comparison goes on.
        plan: of `plan_comparison` with the same arguments, where it was made already.
        progress: called with the seconds of the plan that are done.

    Labels that are a linear threshold are learned by both sides; nothing else can be said of so few rows:

    >>> X = np.random.default_rng(0).standard_normal((80, 2))
    >>> found = compare((X, np.sign(X[:, 0])), seeds=1, width=8, steps=40)
    >>> found.sizes, len(found.methods)
    ((60,), 7)
    """
    watch, tell = Stopwatch(), progress or silent
    tell(0.0, None, "reading")
    ground = make_ground(data, preprocess=preprocess, max_rows=max_rows, max_test=max_test, seed=seed)
    if plan is None:
        timed = width is None or steps is None
        plan = settle_plan(ground, sizes, max_rows, seeds, seconds, width, steps, dtype, device, timed, place)
    plan.require_memory()
    mark = ground.fingerprint(plan.sizes, plan.seeds, plan.width, plan.steps, plan.dtype, seed)
    work = Workplace(place, device=device, seed=seed, progress=tell, fingerprint=mark)
    found = measure_all(ground, plan, work)
    about = {"data": ground.name, "sizes": plan.sizes, "seeds": plan.seeds, "width": plan.width, "steps": plan.steps}
    about |= {"preprocess": preprocess, "training": plan.dtype}
    made = watch.provenance(about, seed=seed, device=", ".join(work.devices) or plan.device)
    return conclude(ground, plan, found, replace(made, seconds=made.seconds + work.before), seed)


def conclude(ground: Ground, plan: ComparisonPlan, found: Measured, made: Provenance, seed: int) -> Comparison:
    """The result that the measurements give."""
    classes = ground.task != "regression"
    kernel, network = found.kernel_losses, found.network_losses
    gaps = tuple(paired_gap(n, kernel[i], network[i], classes=classes) for i, n in enumerate(plan.sizes))
    margin = margin_of(gaps[-1].kernel, classes=classes)
    result = Comparison(
        name=ground.name,
        task=ground.task,
        classes=ground.classes,
        notes=ground.notes,
        split=ground.split,
        plan=plan,
        methods=METHODS,
        errors=found.losses.mean(axis=(2, 3)),
        bars=np.array([[error_bar(cell) for cell in row] for row in found.losses]),
        seed_errors=found.losses.mean(axis=3),
        best_kernels=tuple(METHODS[Counter(row.tolist()).most_common(1)[0][0]] for row in found.best_kernel),
        best_networks=tuple(METHODS[i] for i in found.best_network),
        best_bars=np.array([[error_bar(cell) for cell in side] for side in (kernel, network)]),
        gaps=gaps,
        margin=margin,
        answer=decide(gaps[-1], margin),
        crossing=find_crossing(plan.sizes, kernel, network, seed=seed),
        choices=found.choices,
        guess=ground.guess,
        pool=ground.n,
        verdict=Verdict("good", ()),
        provenance=made,
    )
    return replace(result, verdict=give_words(result))
