"""Kernels against the three-layer ResNet where the paper separates them: Theorem 2's data, and error against α."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from overparam.studies.beyond_kernels_theorem2_kernels import KERNELS, answers, least_errors, random_case
from overparam.studies.beyond_kernels_theorem2_networks import HELD_OUT, Cell, rows_key, target_of, trained
from overparam.studies.beyond_kernels_theorem2_numbers import Found
from overparam.studies.beyond_kernels_theorem2_page import findings
from overparam.studies.study import Findings, Study, Workplace

BIG = 1000
"""Rows beyond which kernels have one seed: a regression is one over the whole of them, and its error varies little."""


@dataclass(frozen=True)
class Settings:
    """What is learnt from how many samples, by which kernels and networks.

    Rates and decays are a grid around what did well on rows apart from these at d = 16 to 64, N = 200 to 2,000 and α = 0.03
    to 1 (rates 0.005 to 0.8, decays 0 to 0.01, widths 200 and 500); in each cell held-out rows choose among them.
    """

    dimensions: tuple[int, ...]
    samples: tuple[tuple[int, ...], ...]
    """N, for each d; all divide the largest and are multiples of 8."""
    most_for_kernels: int
    """Kernels are left out at larger N."""
    seeds: int
    kernels: tuple[str, ...]
    cases: int
    """Random cases in which certificate (i) is tried."""
    case_rows: int
    """N of a case is at most this."""
    span_dimension: int
    """d at which all S and all points are written out for certificate (ii)."""
    span_samples: tuple[int, ...]
    width: int
    steps: int
    rates: tuple[float, ...]
    decays: tuple[float, ...]
    alphas: tuple[float, ...]
    alpha_dimension: int
    alpha_samples: tuple[int, ...]
    alpha_seeds: int
    alpha_kernels: tuple[str, ...]
    online_samples: int
    online_rates: tuple[float, ...]
    alpha: float = 0.3
    k: int = 4
    test: int = 2000
    batch: int = 50
    momentum: float = 0.9

    def __post_init__(self) -> None:
        if len(self.samples) != len(self.dimensions):
            raise ValueError(f"`samples` has {len(self.samples)} lists; expected one for each of {self.dimensions}")
        for of_d in (*self.samples, self.alpha_samples):
            wrong = [N for N in of_d if N % HELD_OUT or max(of_d) % N]
            if wrong:
                raise ValueError(f"N = {wrong[0]}: expected a multiple of {HELD_OUT} that divides {max(of_d)}")

    @property
    def seeds_of(self) -> dict[tuple[int, int], int]:
        """How many seeds the kernels have at d and N."""
        pairs = ((d, N) for d, of_d in zip(self.dimensions, self.samples, strict=True) for N in of_d)
        return {(d, N): self.seeds if N <= BIG else 1 for d, N in pairs if self.most_for_kernels >= N}

    def d_power(self, d: int) -> float:
        """d^{k/2}, up to logarithms the number of samples of Theorem 2."""
        return d ** (self.k / 2)

    def cells(self, d: int) -> list[Cell]:
        """What the ResNet is trained on at d."""
        of_d = self.samples[self.dimensions.index(d)]
        return [(N, self.alpha, seed) for N in of_d for seed in range(self.seeds)]

    @property
    def alpha_cells(self) -> list[Cell]:
        """N, α and seed of the comparison over α."""
        return list(itertools.product(self.alpha_samples, self.alphas, range(self.alpha_seeds)))

    @property
    def online_cells(self) -> list[Cell]:
        """The same for the network that sees every row once."""
        return [(self.online_samples, alpha, seed) for alpha in self.alphas for seed in range(self.alpha_seeds)]


def run(settings: Settings, workplace: Workplace) -> Findings:
    """Every kernel and network on its rows, the certificates, and what they add up to."""
    kernels: dict[tuple[int, int, int], Mapping[str, np.ndarray]] = {}
    for (d, N), seeds in settings.seeds_of.items():
        for seed in range(seeds):
            kernels[d, N, seed] = _kernels(settings, workplace, d, N, settings.alpha, seed, settings.kernels)
    over_alpha = {
        (N, alpha, seed): _kernels(
            settings, workplace, settings.alpha_dimension, N, alpha, seed, settings.alpha_kernels, certified=False
        )
        for N, alpha, seed in settings.alpha_cells
    }
    found = Found(
        kernels=kernels,
        cases=workplace.part("random cases", lambda _: _cases(settings, workplace)),
        spans=workplace.part("spans", lambda _: _spans(settings, workplace)),
        networks={d: _networks(settings, workplace, d) for d in settings.dimensions},
        alpha_kernels=over_alpha,
        alpha_networks=_trained(settings, workplace, settings.alpha_dimension, settings.alpha_cells, "over alpha"),
        online=_online(settings, workplace),
    )
    return findings(settings, found)


def _kernels(
    settings: Settings,
    workplace: Workplace,
    d: int,
    N: int,
    alpha: float,
    seed: int,
    names: tuple[str, ...],
    certified: bool = True,
) -> dict[str, np.ndarray]:
    def make(_: Path | None) -> Mapping[str, Any]:
        target = target_of(d, settings.k, alpha, workplace.seed, seed)
        key = rows_key(d, workplace.seed, seed)
        return answers(names, target, N, settings.test, key, workplace.device, certified)

    workplace.progress(0, None, f"kernels, d = {d}, N = {N}")
    return workplace.part(f"kernels, d = {d}, N = {N}, alpha = {alpha:.6g}, seed {seed}, {'/'.join(names)}", make)


def _cases(settings: Settings, workplace: Workplace) -> Mapping[str, Any]:
    found = []
    for case in range(settings.cases):
        workplace.progress(case, settings.cases, "random cases")
        key = [workplace.seed, 3, case]
        found.append(
            random_case(settings.kernels, settings.dimensions, settings.case_rows, settings.k, key, workplace.device)
        )
    return {what: np.array([one[what] for one in found]) for what in found[0]}


def _spans(settings: Settings, workplace: Workplace) -> Mapping[str, Any]:
    pairs = list(itertools.product(settings.kernels, settings.span_samples))
    d, k, alpha = settings.span_dimension, settings.k, settings.alpha
    least = [least_errors(name, d, k, alpha, N, [workplace.seed, 4, N]) for name, N in pairs]
    return {
        "least": np.array(least),
        "kernel": np.array([name for name, _ in pairs]),
        "N": np.array([N for _, N in pairs]),
    }


def _networks(settings: Settings, workplace: Workplace, d: int) -> dict[str, np.ndarray]:
    return _trained(settings, workplace, d, settings.cells(d), f"d = {d}")


def _trained(
    settings: Settings, workplace: Workplace, d: int, cells: list[Cell], name: str, **other: Any
) -> dict[str, np.ndarray]:
    """The ResNet on cells; `other` options in place of those of the settings."""
    options: dict[str, Any] = {
        "k": settings.k,
        "width": settings.width,
        "rates": settings.rates,
        "decays": settings.decays,
        "steps": settings.steps,
        "batch": settings.batch,
        "momentum": settings.momentum,
        "test": settings.test,
        "base": workplace.seed,
        "device": workplace.device,
    }

    def progress(done: float, total: float | None, what: str) -> None:
        workplace.progress(done, total, f"ResNet, {name}")

    def make(kept: Path | None) -> Mapping[str, Any]:
        return trained(d, cells, checkpoint=kept, progress=progress, **options | other)

    return workplace.part(f"ResNet, {name}", make)


def _online(settings: Settings, workplace: Workplace) -> dict[str, np.ndarray]:
    """Algorithm 1: one row a step, no row twice, no momentum, no decay."""
    steps = settings.online_samples - settings.online_samples // HELD_OUT
    return _trained(
        settings, workplace, settings.alpha_dimension, settings.online_cells, "one pass", rates=settings.online_rates,
        decays=(0.0,), steps=steps, batch=1, momentum=0.0,
    )  # fmt: skip


def plan(settings: Settings) -> str:
    """How many regressions and runs, in words."""
    regressions = len(settings.kernels) * sum(settings.seeds_of.values()) + settings.cases
    regressions += len(settings.alpha_cells) * len(settings.alpha_kernels)
    each = len(settings.rates) * len(settings.decays)
    runs = each * (sum(len(settings.cells(d)) for d in settings.dimensions) + len(settings.alpha_cells))
    return (
        f"{regressions} kernel regressions of up to {max(N for _, N in settings.seeds_of)} rows, {runs} runs of "
        f"{settings.steps} steps at width {settings.width} in {len(settings.dimensions) + 1} programs, and "
        f"{len(settings.online_cells) * len(settings.online_rates)} of one pass over {settings.online_samples} rows."
    )


SMOKE = Settings(
    dimensions=(16,), samples=((64, 256),), most_for_kernels=256, seeds=2, kernels=("NTK, depth 2", "arc-cosine", "arcsine"), cases=12,
    case_rows=48, span_dimension=8, span_samples=(20,), width=48, steps=800, rates=(0.2, 0.4), decays=(1e-3,),
    alphas=(0.2, 1.0), alpha_dimension=16, alpha_samples=(256,), alpha_seeds=2,
    alpha_kernels=("NTK, depth 2", "arcsine"), online_samples=1024, online_rates=(0.05,), test=400,
)  # fmt: skip
SMALL = Settings(
    dimensions=(16, 24), samples=((32, 64, 128, 256, 512), (72, 144, 288, 576)), most_for_kernels=576, seeds=2,
    kernels=tuple(KERNELS),
    cases=200, case_rows=96, span_dimension=10, span_samples=(40, 100), width=200, steps=4000, rates=(0.2, 0.4),
    decays=(3e-4, 1e-3, 3e-3), alphas=(0.1, 0.18, 0.32, 0.56, 1.0), alpha_dimension=16, alpha_samples=(128, 512),
    alpha_seeds=3, alpha_kernels=("NTK, depth 2", "arc-cosine", "arcsine"), online_samples=8192,
    online_rates=(0.02, 0.05, 0.1),
)  # fmt: skip
FULL = Settings(
    dimensions=(16, 24, 32, 48, 64),
    samples=(
        (32, 64, 128, 256, 512, 1024, 4096),
        (72, 144, 288, 576, 1152),
        (128, 256, 512, 1024, 4096),
        (288, 576, 1152, 2304, 4608),
        (256, 512, 1024, 4096, 8192),
    ),
    most_for_kernels=4_608, seeds=3, kernels=tuple(KERNELS), cases=200, case_rows=384, span_dimension=12, span_samples=(50, 125, 250, 375),
    width=500, steps=10_000, rates=(0.2, 0.4, 0.8), decays=(3e-4, 1e-3, 3e-3),
    alphas=(0.1, 0.15, 0.22, 0.32, 0.46, 0.68, 1.0), alpha_dimension=32, alpha_samples=(256, 1024), alpha_seeds=4,
    alpha_kernels=("NTK, depth 2", "arcsine"), online_samples=8192, online_rates=(0.01, 0.02, 0.04, 0.08),
    test=4000,
)  # fmt: skip

STUDY = Study(
    name="beyond-kernels-theorem2",
    title="Where no kernel learns and a three-layer ResNet does",
    reference="beyond_kernels, Thm 1, Thm 2, Cor 7.1",
    settings={"smoke": SMOKE, "small": SMALL, "full": FULL},
    plan=plan,
    run=run,
)
