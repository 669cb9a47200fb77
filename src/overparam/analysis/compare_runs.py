"""All measurements of a comparison, cell by cell: kernels at a size and seed, searches and runs of networks at a size."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from overparam.analysis.compare_data import Ground, repeats
from overparam.analysis.compare_kernels import FAMILIES, Fit, best_family, fit_families, make_families
from overparam.analysis.compare_networks import NETWORKS, Setting, make_network, run_all, search
from overparam.analysis.compare_plan import ComparisonPlan
from overparam.core.progress import Progress
from overparam.training.workplace import Workplace

METHODS = (*FAMILIES, *NETWORKS)


@dataclass(frozen=True)
class Choice:
    """What was chosen for one method at one size, by what score, and the seconds it took, search included.

    score: the leave-one-out error of a kernel (mean over seeds), the validation error of a network.
    """

    method: str
    n: int
    words: str
    score: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Measured:
    """losses: (methods, sizes, seeds, test rows). best_kernel: (sizes, seeds) and best_network: (sizes,), as positions in
    the methods, chosen without the test rows."""

    losses: np.ndarray
    best_kernel: np.ndarray
    best_network: np.ndarray
    choices: tuple[Choice, ...]

    @property
    def kernel_losses(self) -> np.ndarray:
        """(sizes, seeds, rows) of the best kernel."""
        sizes, seeds = self.best_kernel.shape
        return self.losses[self.best_kernel, np.arange(sizes)[:, None], np.arange(seeds)[None, :]]

    @property
    def network_losses(self) -> np.ndarray:
        """(sizes, seeds, rows) of the best network."""
        return self.losses[self.best_network, np.arange(len(self.best_network))]


def measure_all(ground: Ground, plan: ComparisonPlan, work: Workplace) -> Measured:
    """Every cell, the small sizes first; those kept in the folder are read back."""
    told = _Told(plan, work.progress)
    subsets = [ground.subsets(plan.sizes, work.seed, draw) for draw in range(plan.seeds)]
    losses = np.empty((len(METHODS), len(plan.sizes), plan.seeds, len(ground.Z)))
    best_kernel = np.empty((len(plan.sizes), plan.seeds), dtype=np.int64)
    best_network = np.empty(len(plan.sizes), dtype=np.int64)
    choices: list[Choice] = []
    families = make_families(ground.X)
    below: list[dict[str, Fit] | None] = [None] * plan.seeds
    for at, size in enumerate(plan.sizes):
        fits = []
        for draw in range(plan.seeds):
            found, own = _kernels(ground, families, subsets[draw][size], below[draw], work, size, draw, told)
            losses[: len(FAMILIES), at, draw] = own
            best_kernel[at, draw] = FAMILIES.index(best_family(found))
            fits.append(found)
        below = fits
        choices += [_kernel_choice(family, size, [found[family] for found in fits], ground.k) for family in FAMILIES]
        scores = []
        for place, name in enumerate(NETWORKS):
            rows = [own[size] for own in subsets]
            chosen, own, choice = _network(ground, plan, name, rows, work, size, told)
            losses[len(FAMILIES) + place, at] = own
            scores.append((chosen.error, chosen.loss))
            choices.append(choice)
        best_network[at] = len(FAMILIES) + min(range(len(NETWORKS)), key=scores.__getitem__)
    told.end()
    return Measured(losses, best_kernel, best_network, tuple(choices))


def _kernels(
    ground: Ground, families: Any, rows: np.ndarray, below: dict[str, Fit] | None, work: Workplace, size: int,
    draw: int, told: _Told,
) -> tuple[dict[str, Fit], np.ndarray]:  # fmt: skip
    def make(_: Path | None) -> dict[str, Any]:
        progress = told.cell("kernels", size, f"kernels, n = {size:,}, seed {draw}")
        fits, own = fit_families(ground, families, rows, below, device=work.device, progress=progress)
        columns: dict[str, Any] = {
            name: [getattr(fits[f], name) for f in FAMILIES]
            for name in ("member", "ridge", "least_ridge", "left_out", "seconds")
        }
        columns["left_out_error"] = [
            np.nan if fits[f].left_out_error is None else fits[f].left_out_error for f in FAMILIES
        ]
        return columns | {"losses": own}

    kept = work.part(f"kernels n {size} seed {draw}", make)
    fits = {
        family: Fit(
            member=str(kept["member"][i]),
            ridge=float(kept["ridge"][i]),
            least_ridge=float(kept["least_ridge"][i]),
            left_out=float(kept["left_out"][i]),
            left_out_error=None if np.isnan(kept["left_out_error"][i]) else float(kept["left_out_error"][i]),
            seconds=float(kept["seconds"][i]),
        )
        for i, family in enumerate(FAMILIES)
    }
    told.done("kernels", size)
    return fits, kept["losses"]


def _network(
    ground: Ground, plan: ComparisonPlan, name: str, rows: Sequence[np.ndarray], work: Workplace, size: int, told: _Told
) -> tuple[Setting, np.ndarray, Choice]:
    network, times = make_network(name, plan.width, ground.k), repeats(plan.sizes, size)
    options: dict[str, Any] = {"seed": work.seed, "dtype": plan.dtype, "device": work.device}

    def searched(_: Path | None) -> dict[str, Any]:
        start = time.perf_counter()
        parts = [ground.validation(rows[draw], plan.sizes[0], work.seed + draw) for draw in range(plan.draws(size))]
        progress = told.cell("search", size, f"{name}, n = {size:,}: search")
        found = search(ground, network, _evened(parts, times), plan.steps, progress=progress, **options)
        seconds = time.perf_counter() - start
        return {**{key: getattr(found, key) for key in Setting.__dataclass_fields__}, "seconds": seconds}

    def ran(_: Path | None) -> dict[str, Any]:
        start = time.perf_counter()
        progress = told.cell("runs", size, f"{name}, n = {size:,}: {plan.seeds} runs")
        repeated = [np.tile(own, times) for own in rows]
        own, rate = run_all(ground, network, repeated, chosen, plan.steps, progress=progress, **options)
        return {"losses": own, "rate": rate, "seconds": time.perf_counter() - start}

    kept = work.part(f"search {name} n {size}", searched)
    chosen = Setting(
        rate=float(kept["rate"]),
        decay=float(kept["decay"]),
        steps=int(kept["steps"]),
        error=float(kept["error"]),
        loss=float(kept["loss"]),
    )
    told.done("search", size)
    made = work.part(f"runs {name} n {size}", ran)
    told.done("runs", size)
    words = f"rate {float(made['rate']):.2g}, decay {chosen.decay:g}, {chosen.steps:,} steps"
    if float(made["rate"]) < chosen.rate:
        words += f" (at the rate chosen, {chosen.rate:.2g}, training failed)"
    choice = Choice(name, size, words, chosen.error, float(kept["seconds"] + made["seconds"]))
    return chosen, made["losses"], choice


def _evened(parts: list[tuple[np.ndarray, np.ndarray]], times: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Parts of one size, so that they go as one program: rows that belong together may have made them uneven.

    Rows are repeated up to the largest size: a mean over them stays, and the program compiled once serves all sizes.
    """
    fit, held = (min(len(part[side]) for part in parts) for side in (0, 1))
    return [(np.tile(a[:fit], times), np.tile(b[:held], times)) for a, b in parts]


def _kernel_choice(family: str, size: int, fits: Sequence[Fit], outputs: int) -> Choice:
    members = [fit.member for fit in fits]
    common = max(dict.fromkeys(members), key=members.count)
    ridge = float(np.exp(np.mean([np.log(fit.ridge) for fit in fits if fit.ridge > 0] or [0.0])))
    words = f"{common}, ridge {ridge:.2g}"
    if len(set(members)) > 1:
        words += f" (so for {members.count(common)} of {len(members)} seeds)"
    scores = [fit.left_out / outputs if fit.left_out_error is None else fit.left_out_error for fit in fits]
    return Choice(family, size, words, float(np.mean(scores)), sum(fit.seconds for fit in fits))


class _Told:
    """Progress over all cells, each weighed by what the plan says it takes."""

    def __init__(self, plan: ComparisonPlan, progress: Progress) -> None:
        cubes = {n: float(n) ** 2.5 for n in plan.sizes}
        kernels = plan.kernel_seconds / plan.seeds / sum(cubes.values())
        settings = {n: 6.0 * plan.draws(n) + plan.seeds for n in plan.sizes}
        networks = plan.network_seconds / len(NETWORKS) / sum(settings.values())
        self.weights = {("kernels", n): kernels * cubes[n] for n in plan.sizes}
        self.weights |= {("search", n): networks * (settings[n] - plan.seeds) for n in plan.sizes}
        self.weights |= {("runs", n): networks * plan.seeds for n in plan.sizes}
        self.progress, self.total, self.so_far = progress, plan.seconds, 0.0

    def cell(self, kind: str, size: int, words: str) -> Progress:
        """The progress of one cell, as a part of the whole."""
        weight = self.weights[kind, size]

        def told(done: float, total: float | None, what: str) -> None:
            share = done / total if total else 0.0
            self.progress(min(self.so_far + share * weight, self.total), self.total, words)

        told(0.0, 1.0, words)
        return told

    def done(self, kind: str, size: int) -> None:
        """A cell is finished, or was read back."""
        self.so_far = min(self.so_far + self.weights[kind, size], self.total)

    def end(self) -> None:
        self.progress(self.total, self.total, "done")
