"""The cost of a comparison before it is paid, and the width and steps of networks that fit the time there is."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from overparam.analysis.compare_data import LEAST_ROWS, Ground, checked_sizes, default_sizes, make_ground
from overparam.analysis.compare_kernels import ALL_MEMBERS, AROUND, DEPTHS, FAMILIES, WIDTHS
from overparam.analysis.compare_networks import BATCH, DECAYS, NETWORKS, RATES, RECORDS, make_network, step_seconds
from overparam.core.machine import available_memory
from overparam.core.words import byte_size, duration
from overparam.spectrum.left_out import EIGEN_FITS
from overparam.training.inputs import whole_number
from overparam.training.precision import checked_dtype, chosen_device, device_name
from overparam.training.workplace import Workplace

SECONDS = 420.0
"""Time a comparison is made to fit where none is given: seven minutes."""
WIDTHS_TRIED = (200, 100)
"""Neurons of a hidden layer: the first if a thousand steps fit, else the next."""
LEAST_STEPS, MOST_STEPS = 1_000, 6_000
STARTING = 3.0
"""Seconds to compile one program of training."""
KERNEL_SHARE = 0.6
"""Where kernels would take more of the time than this, the sizes that nobody named are halved."""
NETWORK_SHARE = 0.4
"""Networks get at least this share of the time, whatever the kernels take."""
SEVERAL_BELOW = 1_000
"""Below so many rows one validation part says little: the search goes over one of every seed."""
MEMBERS = sum(map(len, DEPTHS.values())) + (len(FAMILIES) - len(DEPTHS)) * len(WIDTHS)
SLOW = 1e10
"""Operations a second of a machine that was not timed."""


@dataclass(frozen=True)
class ComparisonPlan:
    """What a comparison will do and cost; `print(plan)` shows it. `timed` says whether steps were timed on this machine."""

    data: str
    task: str
    sizes: tuple[int, ...]
    seeds: int
    test_rows: int
    features: int
    outputs: int
    width: int
    steps: int
    kernel_seconds: float
    network_seconds: float
    memory: int
    free_memory: int
    device: str
    dtype: str
    timed: bool

    @property
    def seconds(self) -> float:
        """In all."""
        return self.kernel_seconds + self.network_seconds

    def draws(self, size: int) -> int:
        """How many validation parts a search goes over."""
        return self.seeds if size < SEVERAL_BELOW else 1

    def __str__(self) -> str:
        runs = len(RATES) * len(DECAYS)
        return (
            f"{self.data}: {len(FAMILIES)} families of kernels against {len(NETWORKS)} networks, "
            f"n = {', '.join(f'{n:,}' for n in self.sizes)}, {self.seeds} seeds, {self.test_rows:,} test rows, "
            f"on the {self.device}\n"
            f"  kernels   {duration(self.kernel_seconds, rough=True)}\n"
            f"  networks  {duration(self.network_seconds, rough=True)}: width {self.width}, {self.steps:,} steps of {BATCH} rows, "
            f"{runs} settings searched, {self.dtype}\n"
            f"  memory    {byte_size(self.memory)} of {byte_size(self.free_memory)} free\n"
            f"  about {duration(self.seconds, rough=True)} in all"
            + ("" if self.timed else " on a slow machine (not timed)")
        )

    def require_memory(self) -> None:
        """Raise where the matrices would not fit."""
        if self.memory > self.free_memory:
            raise ValueError(
                f"the kernel matrix of {self.sizes[-1]:,} rows needs about {byte_size(self.memory)} and "
                f"{byte_size(self.free_memory)} are free; name smaller `sizes`"
            )


def plan_comparison(
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
    timed: bool = True,
) -> ComparisonPlan:
    """What `compare` with the same arguments will do; they are checked as it does.

    Args:
        data, sizes, seeds, seconds, width, steps, preprocess, max_rows, max_test, seed, dtype, device, place: as in
            `compare`; a plan kept in the place is the one given.
        timed: time a few steps and a small decomposition on this machine; else count operations.

    >>> X = [[float(i % 7), float(i % 5)] for i in range(200)]
    >>> plan = plan_comparison((X, [1, -1] * 100), width=10, steps=40, timed=False)
    >>> plan.sizes[-1] + plan.test_rows, plan.steps
    (200, 40)
    """
    ground = make_ground(data, preprocess=preprocess, max_rows=max_rows, max_test=max_test, seed=seed)
    return settle_plan(ground, sizes, max_rows, seeds, seconds, width, steps, dtype, device, timed, place)


def settle_plan(
    ground: Ground, sizes: Sequence[int] | None, max_rows: int | None, seeds: int, seconds: float | None, width: int | None,
    steps: int | None, dtype: str, device: str | None, timed: bool, place: str | os.PathLike[str] | None,
) -> ComparisonPlan:  # fmt: skip
    """The plan, or the one kept in the place: work that was stopped goes on with the width and steps it had."""
    given = (None if sizes is None else tuple(sizes), max_rows, seeds, seconds, width, steps, dtype)
    work = Workplace(place, device=device, fingerprint=ground.fingerprint(*given))

    def make(_: Path | None) -> dict[str, Any]:
        return asdict(make_plan(ground, sizes, max_rows, seeds, seconds, width, steps, dtype, device, timed))

    kept: dict[str, Any] = {name: value.tolist() for name, value in work.part("plan", make).items()}
    kept["sizes"] = tuple(kept["sizes"])
    return ComparisonPlan(**kept)


def make_plan(
    ground: Ground,
    sizes: Sequence[int] | None,
    max_rows: int | None,
    seeds: int,
    seconds: float | None,
    width: int | None,
    steps: int | None,
    dtype: str,
    device: str | None,
    timed: bool,
) -> ComparisonPlan:
    """The plan of a comparison on data that is ready."""
    checked_dtype(dtype, device)
    chosen = checked_sizes(sizes, ground, max_rows)
    seeds = whole_number(seeds, "seeds", least=1)
    budget = SECONDS if seconds is None else float(seconds)
    if not 0 < budget < np.inf:
        raise ValueError(f"`seconds` is {seconds!r}; expected a number > 0")
    width = None if width is None else whole_number(width, "width", least=1)
    steps = None if steps is None else whole_number(steps, "steps", least=RECORDS)
    speed = _speed() if timed else SLOW
    kernels = seeds * _kernel_seconds(ground, chosen, speed)
    while sizes is None and timed and kernels > KERNEL_SHARE * budget and chosen[-1] // 2 >= 8 * LEAST_ROWS:
        chosen = default_sizes(chosen[-1] // 2)
        kernels = seeds * _kernel_seconds(ground, chosen, speed)
    starting = STARTING * len(NETWORKS) * 3
    room = max(NETWORK_SHARE * budget, budget - kernels - starting)
    per_step, m = 0.0, width or WIDTHS_TRIED[0]
    for m in (width,) if width is not None else WIDTHS_TRIED:
        per_step = _seconds_a_step(ground, chosen, seeds, m, dtype, device, timed)
        if room / per_step >= LEAST_STEPS or steps is not None:
            break
    if steps is None:
        steps = int(np.clip(room / per_step, LEAST_STEPS, MOST_STEPS))
        steps -= steps % RECORDS
    n = chosen[-1]
    return ComparisonPlan(
        data=ground.name,
        task=ground.task,
        sizes=chosen,
        seeds=seeds,
        test_rows=len(ground.Z),
        features=ground.X.shape[1],
        outputs=ground.k,
        width=m,
        steps=steps,
        kernel_seconds=kernels,
        network_seconds=starting + per_step * steps,
        memory=8 * (5 * n * n + 3 * n * (ground.X.shape[1] + ground.inputs.shape[1])),
        free_memory=_free(device),
        device=device_name(device),
        dtype=dtype,
        timed=timed,
    )


def _seconds_a_step(
    ground: Ground, sizes: Sequence[int], seeds: int, width: int, dtype: str, device: str | None, timed: bool
) -> float:
    """One step of every search and every run of the whole comparison."""
    settings = len(RATES) * len(DECAYS)
    searches = sum(settings * (seeds if n < SEVERAL_BELOW else 1) + seeds for n in sizes)
    total = 0.0
    for name in NETWORKS:
        network = make_network(name, width, ground.k)
        if timed:
            own = seeds > 1 and sizes[0] < SEVERAL_BELOW
            one = step_seconds(ground, network, sizes[-1], settings, own, dtype, device) / settings
        else:
            weights = width * (ground.inputs.shape[1] + (width if name == "three-layer" else 2 * ground.k))
            one = 6.0 * BATCH * weights / SLOW
        total += one * searches
    return total


def _kernel_seconds(ground: Ground, sizes: Sequence[int], speed: float) -> float:
    """For one seed: decompositions or factors of every family at every size, and the matrices themselves."""
    d, total = ground.X.shape[1], 0.0
    for place, n in enumerate(sizes):
        few = place > 0 and n > ALL_MEMBERS
        fits = len(FAMILIES) if few else MEMBERS
        ridges = len(AROUND) if few else 14
        work = 20.0 * n**3 if n <= EIGEN_FITS else 1.5 * ridges * n**3
        total += fits * (work + n * (n + len(ground.Z)) * (2.0 * d + 200)) / speed
    return total


def _speed(n: int = 500) -> float:
    """Operations a second of products of matrices, the best of three."""
    A = np.random.default_rng(0).standard_normal((n, n))
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        np.matmul(A, A)
        best = min(best, time.perf_counter() - start)
    return 2.0 * n**3 / best


def _free(device: str | None) -> int:
    place = chosen_device(device)
    if place.platform == "cpu":
        return available_memory()
    stats = place.memory_stats() or {}
    return int(stats.get("bytes_limit", available_memory())) - int(stats.get("bytes_in_use", 0))
