"""`compare`: is a kernel enough for this data, or is a trained network ahead?"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, final

import numpy as np

from overparam._version import __version__
from overparam.analysis.comparison_data import (
    LEAST_ROWS,
    SEVERAL_BELOW,
    Choice,
    SplitRows,
    checked_sizes,
    default_sizes,
    split_data,
)
from overparam.analysis.comparison_machines import COSTS
from overparam.analysis.comparison_methods import (
    ALL_MEMBERS,
    AROUND,
    DECAYS,
    DEPTHS,
    FAMILIES,
    NETWORKS,
    RATES,
    RECORDS,
    WIDTHS,
    Trained,
    best_family,
    kernel_choice,
    kernels_part,
    make_families,
    make_network,
    network_choice,
    runs_part,
    search_part,
    step_seconds,
)
from overparam.analysis.comparison_page import make_comparison_sections
from overparam.analysis.comparison_verdict import (
    Crossing,
    Gap,
    decide,
    error_bar,
    find_crossing,
    give_words,
    margin_of,
    paired_gap,
)
from overparam.analysis.data_cost import pace
from overparam.analysis.folds import FOLDS
from overparam.analysis.host_networks import BATCH
from overparam.core.checks import positive, whole_number
from overparam.core.deprecated import accepts_old
from overparam.core.machine import free_memory
from overparam.core.progress import Progress
from overparam.core.provenance import Provenance
from overparam.core.records import put_together, take_apart
from overparam.core.sections import Section, Verdict
from overparam.core.words import count_of
from overparam.data import as_dataset
from overparam.frame import AbstractAnswer, Job, Keeping, Kept, Part, Plan, fingerprint, verb
from overparam.spectrum.left_out import EIGEN_FITS
from overparam.training.precision import checked_dtype, chosen_device, device_name

METHODS = (*FAMILIES, *NETWORKS)
SECONDS = 420.0
"""Time a comparison is made to fit where none is given: seven minutes."""
WIDTHS_TRIED = (200, 100)
"""Neurons of a hidden layer: the first if a thousand steps fit, else the next."""
LEAST_STEPS, MOST_STEPS = 1_000, 6_000
STARTING, RUNS_STARTING = 3.5, 1.5
"""Seconds to compile the programs of a search, which those of the smallest size serve the others with; and of the runs, whose
length a search chooses, so that most sizes have one of their own."""
KERNELS_STARTING = 0.2
"""Seconds of the kernels of one size and seed beside what grows with the rows."""
RUN_LENGTH = 0.6
"""About the share of all steps that a search chooses."""
KERNEL_SHARE = 0.6
"""Where kernels would take more of the time than this, the sizes that nobody named are halved."""
NETWORK_SHARE = 0.4
"""Networks get at least this share of the time, whatever the kernels take."""
MEMBERS = sum(map(len, DEPTHS.values())) + (len(FAMILIES) - len(DEPTHS)) * len(WIDTHS)
MACHINE = {"classes": 2.5e-8, "regression": 1.1e-7}
"""Seconds of a support-vector machine over the square of its rows: its solver is one thread's."""
USUAL = 4e10
"""Operations a second, of kernels and of steps, of the core that `pace` is measured by: of a machine that was not timed."""


@final
@dataclass(frozen=True)
class Design:
    """What is compared: numbers of training rows, seeds, features and outputs, the size and length of networks, and what
    each side will take.

    timed: whether steps were timed on this machine.
    """

    sizes: tuple[int, ...]
    seeds: int
    features: int
    outputs: int
    width: int
    steps: int
    dtype: str
    kernel_seconds: float
    network_seconds: float
    timed: bool
    kernels_by: tuple[float, ...] = ()
    """Seconds of the kernels of one seed, a size."""
    step_by: tuple[float, ...] = ()
    """Seconds of one step of one run, a network."""

    def network_parts(self, name: str, size: int) -> tuple[float, float]:
        """Seconds of the search and of the runs of a network at a size."""
        one = self.step_by[NETWORKS.index(name)]
        return _network_seconds(one, self.sizes, self.seeds, self.steps, size)

    @property
    def seconds(self) -> float:
        """Of both sides together."""
        return self.kernel_seconds + self.network_seconds

    def draws(self, size: int) -> int:
        """How many validation parts a search goes over."""
        return self.seeds if size < SEVERAL_BELOW else 1


@final
@dataclass(frozen=True, eq=False)
class Comparison(AbstractAnswer):
    """Tuned kernels against trained networks on growing parts of a data set; `save(folder)`, `verdict`, `answer`, …

    answer: "kernel" (enough), "network" (ahead) or "undecided", at the largest size. gaps: network minus kernel at every
    size, the best of each side, which were chosen without the test rows. errors, bars: (methods, sizes) mean error and
    its standard error; seed_errors: (methods, sizes, seeds). An error is the share of test rows wrong, or for regression
    the mean square over the variance of the test targets. best_kernels, best_networks: by name, one a size;
    kernels are chosen for every seed, and the name is that of most seeds.
    """

    kind: ClassVar[str] = "comparison"

    name: str
    task: str
    classes: tuple[str, ...]
    notes: tuple[str, ...]
    split: str
    design: Design
    test_rows: int
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
        return self.design.sizes

    @property
    def seeds(self) -> int:
        return self.design.seeds

    @property
    def shared(self) -> bool:
        """Whether the seeds have nearly the same training rows at the largest size, for lack of others."""
        return self.sizes[-1] > 0.8 * self.pool

    @property
    def done(self) -> str:
        return f"n up to {self.sizes[-1]:,}, {count_of(self.seeds, 'seed')}, {count_of(self.test_rows, 'test row')}"

    def sections(self) -> tuple[Section, ...]:
        """The page as plain data."""
        return make_comparison_sections(self)

    def __repr__(self) -> str:
        return f"Comparison({self.name!r}, {self.answer}: {self.verdict.sentences[0]})"


def prepare_compare(
    data: Any,
    y: Any = None,
    *,
    sizes: Sequence[int] | None = None,
    seeds: int = 3,
    seconds: float | None = None,
    width: int | None = None,
    steps: int | None = None,
    preprocess: str = "auto",
    max_rows: int | None = None,
    max_test: int | None = None,
    key: int = 0,
    dtype: str = "float32",
    device: str | None = None,
    place: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **reading: Any,
) -> Job[Comparison]:
    """Is a kernel enough for this data? Tuned kernels against trained networks, on growing numbers of rows.

    Kernels: NTK of depth 1 to 3, conjugate kernel, Laplace, Gaussian, each with its ridge by exact leave-one-out, and a
    support-vector machine on the best member of each family, where five folds say that it is better (above 1,500 rows only
    where they did on the size below); the best over those folds stands for them. Networks: two layers, three layers and the three-layer ResNet, hidden layers trained
    by SGD, with rate, weight decay and length chosen on a validation part of the training rows, then trained again on
    all of them; the best on validation rows stands for them. Test rows are the same for all and choose nothing. The
    verdict is a comparison in pairs over test rows, at the largest size.

    Args:
        data, y: a name or path that `op.load` knows, a `Dataset`, `X` and `y`, `(X, y)`, or a frame; a quarter is held
            out where it has no test rows.
        sizes: numbers of training rows; None takes m, 2m, 4m, 8m up to all rows or 4,000, or half as many where kernels
            alone would take most of the time.
        seeds: draws of training rows and of initial weights.
        seconds: time to fit, by fewer or more steps of training; 7 minutes if None.
        width: neurons of a hidden layer; None takes 200, or 100 where steps are slow.
        steps: of training; None takes what fits the time, from 1,000 to 6,000. With `width` and `steps` given the
            result does not depend on the speed of the machine.
        preprocess: as in `analyze`.
        max_rows, max_test: most training and test rows used; 4,000 and 2,000 if None.
        key: seed of every draw.
        dtype: of training: "float32" or "float64". Kernels are float64.
        device: "cpu", "gpu" or None.
        place: a folder in which finished parts are kept, so that a stopped comparison goes on.
        progress: called with the seconds of the plan that are done.
        reading: label, group, classes, train, test, task, missing: as in `op.load`.

    Labels that are a linear threshold are learned by both sides; nothing else can be said of so few rows:

    >>> X = np.random.default_rng(0).standard_normal((80, 2))
    >>> found = compare((X, np.sign(X[:, 0])), seeds=1, width=8, steps=40)
    >>> found.sizes, len(found.methods)
    ((60,), 7)
    """
    checked_dtype(dtype, device)
    source = as_dataset(data, y, key=key, **reading)
    ground = split_data(source, preprocess=preprocess, max_rows=max_rows, max_test=max_test, seed=key)
    chosen = checked_sizes(sizes, ground, max_rows)
    here = device_name(device)
    mark = fingerprint("design", __version__, here, ground, sizes, max_rows, seeds, seconds, width, steps, dtype)
    design = _kept_design(Keeping(place), mark) or make_design(
        ground, chosen, sizes is None, seeds, seconds, width, steps, dtype, device
    )
    n = design.sizes[-1]
    parts = _parts(ground, design, key)

    def timed() -> Mapping[str, float]:
        """Where the design is of no machine, the plan is still of this one."""
        slower = 1.0 if design.timed else pace()
        return {part.name: slower * part.seconds for part in parts}

    told = {"sizes": design.sizes, "seeds": design.seeds, "width": design.width, "steps": design.steps}
    about = {"data": ground.name} | told
    plan = Plan(
        f"{ground.name}: {len(FAMILIES)} families of kernels against {len(NETWORKS)} networks",
        memory=8 * (5 * n * n + 3 * n * (ground.X.shape[1] + ground.inputs.shape[1])),
        free_memory=int(free_memory(chosen_device(device))),
        device=here,
        dtype=dtype,
        details=told | {
            "sizes": list(design.sizes), "test_rows": len(ground.Z), "batch": BATCH, "settings": len(RATES) * len(DECAYS),
            "timed": design.timed,
        },
        fix="name smaller `sizes`",
    )  # fmt: skip
    return Job(
        "compare",
        parts,
        partial(_conclude, ground, design, key),
        plan=plan,
        provenance=Provenance(about | {"preprocess": preprocess, "training": dtype}, seed=key, device=here),
        timed=timed,
        device=device,
        place=place,
        progress=progress,
        also=[("design", mark, Kept({}, {"values": take_apart(design)[0]}))],
    )


compare = accepts_old("compare")(verb(prepare_compare))


def _kept_design(keeping: Keeping, mark: str) -> Design | None:
    """The design that work which was stopped had: it goes on with its width and steps."""
    kept = keeping.find("design", mark)
    return None if kept is None else put_together(Design, kept.about["values"], kept.arrays)


def make_design(
    ground: SplitRows,
    sizes: tuple[int, ...],
    free: bool,
    seeds: int,
    seconds: float | None,
    width: int | None,
    steps: int | None,
    dtype: str,
    device: str | None,
) -> Design:
    """What fits the time; `free` sizes may be made smaller. Nothing is timed where width and steps are given."""
    timed = width is None or steps is None
    seeds = whole_number(seeds, "seeds", least=1)
    budget = SECONDS if seconds is None else positive(seconds, "seconds")
    width = None if width is None else whole_number(width, "width", least=1)
    steps = None if steps is None else whole_number(steps, "steps", least=RECORDS)
    speed = _speed() if timed else USUAL
    kernels = _kernel_seconds(ground, sizes, speed)
    while free and timed and seeds * sum(kernels) > KERNEL_SHARE * budget and sizes[-1] // 2 >= 8 * LEAST_ROWS:
        sizes = default_sizes(sizes[-1] // 2)
        kernels = _kernel_seconds(ground, sizes, speed)
    room = max(NETWORK_SHARE * budget, budget - seeds * sum(kernels))
    ones: tuple[float, ...] = ()
    m = width or WIDTHS_TRIED[0]

    def trained(steps: int) -> float:
        return sum(sum(_network_seconds(one, sizes, seeds, steps, n)) for one in ones for n in sizes)

    for m in (width,) if width is not None else WIDTHS_TRIED:
        ones = _seconds_a_step(ground, sizes, seeds, m, dtype, device, timed)
        if trained(LEAST_STEPS) <= room or steps is not None:
            break
    if steps is None:
        steps = int(np.clip((room - trained(0)) / (trained(1) - trained(0)), LEAST_STEPS, MOST_STEPS))
        steps -= steps % RECORDS
    return Design(
        sizes=sizes, seeds=seeds, features=ground.X.shape[1], outputs=ground.k, width=m, steps=steps, dtype=dtype,
        kernel_seconds=seeds * sum(kernels), network_seconds=trained(steps), timed=timed, kernels_by=kernels, step_by=ones,
    )  # fmt: skip


def _seconds_a_step(
    ground: SplitRows, sizes: Sequence[int], seeds: int, width: int, dtype: str, device: str | None, timed: bool
) -> tuple[float, ...]:
    """One step of one run of every network."""
    settings, found = len(RATES) * len(DECAYS), []
    for name in NETWORKS:
        if timed:
            own = seeds > 1 and sizes[0] < SEVERAL_BELOW
            network = make_network(name, width, ground.k)
            found.append(step_seconds(ground, network, sizes[-1], settings, own, dtype, device) / settings)
        else:
            weights = width * (ground.inputs.shape[1] + (width if name == "three-layer" else 2 * ground.k))
            found.append(6.0 * BATCH * weights / USUAL)
    return tuple(found)


def _network_seconds(one: float, sizes: Sequence[int], seeds: int, steps: int, size: int) -> tuple[float, float]:
    """The search and the runs of a network at a size, from the seconds of one step of one run.

    A search also looks at all rows when it records; that takes about a third of training on them.
    """
    starting = STARTING if size == sizes[0] else 0.0
    searched = len(RATES) * len(DECAYS) * (seeds if size < SEVERAL_BELOW else 1)
    looks = RECORDS * sizes[-1] / (3 * BATCH)
    return starting + one * searched * (steps + looks), RUNS_STARTING + one * seeds * RUN_LENGTH * steps


def _kernel_seconds(ground: SplitRows, sizes: Sequence[int], speed: float) -> tuple[float, ...]:
    """For one seed, a size: decompositions or factors of every family, the matrices themselves, and the machines."""
    d, found = ground.X.shape[1], []
    machine = MACHINE["regression" if ground.task == "regression" else "classes"]
    for place, n in enumerate(sizes):
        few = place > 0 and n > ALL_MEMBERS
        fits = len(FAMILIES) if few else MEMBERS
        ridges = len(AROUND) if few else 14
        work = 10.0 * n**3 if n <= EIGEN_FITS else 1.5 * ridges * n**3
        fitted = fits * (work + 2.0 * n * (n + len(ground.Z)) * (2.0 * d + 200)) / speed
        folded = len(FAMILIES) * FOLDS * ((3 if few else len(COSTS)) * machine * n**2 + 0.2 * n**3 / speed)
        found.append(KERNELS_STARTING + fitted + folded)
    return tuple(found)


def _speed(n: int = 500) -> float:
    """Operations a second of products of matrices, the best of three."""
    A = np.random.default_rng(0).standard_normal((n, n))
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        np.matmul(A, A)
        best = min(best, time.perf_counter() - start)
    return 2.0 * n**3 / best


def _parts(ground: SplitRows, design: Design, key: int) -> list[Part]:
    """Every cell, the small sizes first, each weighed by what the design says it takes."""
    shared = (ground, design.sizes, key)
    parts = [Part("families", make_families, (ground,), kept=False)]
    for place, n in enumerate(design.sizes):
        for draw in range(design.seeds):
            below = (_kernels_name(design.sizes[place - 1], draw),) if place else ()
            needs = ("families", *below)
            parts.append(
                Part(_kernels_name(n, draw), kernels_part, (*shared, n, draw), needs, design.kernels_by[place])
            )
        for name in NETWORKS:
            how = (name, design.width, design.steps, design.dtype)
            searched, ran = _network_names(name, n)
            search, runs = design.network_parts(name, n)
            parts += [
                Part(searched, search_part, (*shared, n, design.draws(n), *how), seconds=search, gives=Trained),
                Part(ran, runs_part, (*shared, n, design.seeds, *how), (searched,), runs),
            ]
    return parts


def _kernels_name(n: int, draw: int) -> str:
    return f"kernels, n = {n:,}, seed {draw}"


def _network_names(name: str, n: int) -> tuple[str, str]:
    return f"{name}, n = {n:,}: search", f"{name}, n = {n:,}: runs"


def measured(
    ground: SplitRows, design: Design, found: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[Choice, ...]]:
    """The parts put together: losses, (methods, sizes, seeds, test rows); the best kernels, (sizes, seeds), and networks, (sizes,),
    as positions in the methods, chosen without the test rows; and what was chosen for every method."""
    losses = np.empty((len(METHODS), len(design.sizes), design.seeds, len(ground.Z)))
    best_kernel = np.empty((len(design.sizes), design.seeds), dtype=np.int64)
    best_network = np.empty(len(design.sizes), dtype=np.int64)
    choices: list[Choice] = []
    for at, n in enumerate(design.sizes):
        parts = [found[_kernels_name(n, draw)] for draw in range(design.seeds)]
        for draw, part in enumerate(parts):
            losses[: len(FAMILIES), at, draw] = part["losses"]
            best_kernel[at, draw] = best_family(part)
        choices += [kernel_choice(family, n, parts, ground.k) for family in FAMILIES]
        scores = []
        for place, name in enumerate(NETWORKS):
            searched, ran = (found[part] for part in _network_names(name, n))
            losses[len(FAMILIES) + place, at] = ran["losses"]
            scores.append((searched.error, searched.loss))
            took = searched.seconds + float(ran["seconds"])
            choices.append(network_choice(name, n, searched, float(ran["rate"]), took))
        best_network[at] = len(FAMILIES) + min(range(len(NETWORKS)), key=scores.__getitem__)
    return losses, best_kernel, best_network, tuple(choices)


def _conclude(ground: SplitRows, design: Design, key: int, parts: Mapping[str, Any], made: Provenance) -> Comparison:
    """The result that the parts give."""
    losses, best_kernel, best_network, choices = measured(ground, design, parts)
    classes, places = ground.task != "regression", np.arange(len(design.sizes))
    kernel, network = losses[best_kernel, places[:, None], np.arange(design.seeds)], losses[best_network, places]
    gaps = tuple(paired_gap(n, kernel[i], network[i], classes=classes) for i, n in enumerate(design.sizes))
    margin = margin_of(gaps[-1].kernel, classes=classes)
    result = Comparison(
        name=ground.name,
        task=ground.task,
        classes=ground.classes,
        notes=ground.notes,
        split=ground.split,
        design=design,
        test_rows=len(ground.Z),
        methods=METHODS,
        errors=losses.mean(axis=(2, 3)),
        bars=np.array([[error_bar(cell) for cell in row] for row in losses]),
        seed_errors=losses.mean(axis=3),
        best_kernels=tuple(METHODS[Counter(row.tolist()).most_common(1)[0][0]] for row in best_kernel),
        best_networks=tuple(METHODS[i] for i in best_network),
        best_bars=np.array([[error_bar(cell) for cell in side] for side in (kernel, network)]),
        gaps=gaps,
        margin=margin,
        answer=decide(gaps[-1], margin),
        crossing=find_crossing(design.sizes, kernel, network, seed=key),
        choices=choices,
        guess=ground.guess,
        pool=ground.n,
        verdict=Verdict("good", ()),
        provenance=made,
    )
    return replace(result, verdict=give_words(result))
