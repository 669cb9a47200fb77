"""Fig. 3: two-layer networks of small norm exist for a product of six coordinates; what SGD finds, over many settings."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core.words import duration
from overparam.data import Dataset, ParityTarget
from overparam.networks import TwoLayer
from overparam.studies.beyond_kernels_fig3_existence import Existing, trained_on_the_cube
from overparam.studies.beyond_kernels_fig3_numbers import on_grid
from overparam.studies.beyond_kernels_fig3_page import findings
from overparam.studies.study import Findings, Study, Workplace
from overparam.training import StepDecay, side_by_side
from overparam.training.precision import computing

DEGREE = 6
RECORDS = 16
KEPT_WEIGHTS = 2_000_000
"""Runs of more weights than that, all together, keep nothing while they go: writing it would take longer."""


@dataclass(frozen=True)
class Cell:
    """Runs of one width on one training set, trained as one program: every rate with every decay, initial scale and seed.

    Rates and decays are those of PyTorch's SGD on the mean of (F − y)²: W ← W − rate·v, v ← 0.9 v + ∇ + decay·W.
    """

    m: int
    epochs: tuple[int, int]
    """At the rate, then at a tenth of it."""
    rates: tuple[float, ...]
    decays: tuple[float, ...]
    scales: tuple[float, ...] = (1.0,)
    """κ: initial weights are N(0, κ²)."""
    seeds: int = 1
    d: int = 40
    N: int = 5_000
    batch: int = 50
    dtype: str = "float32"

    @property
    def runs(self) -> list[tuple[float, float, float, int]]:
        """(rate, decay, scale, seed) of every run."""
        return list(itertools.product(self.rates, self.decays, self.scales, range(self.seeds)))

    @property
    def steps(self) -> int:
        return sum(self.epochs) * (self.N // self.batch)

    @property
    def name(self) -> str:
        first, second = self.epochs
        return (
            f"d = {self.d}, N = {self.N}, m = {self.m}, {first} + {second} epochs, {len(self.runs)} runs, {self.dtype}"
        )

    @property
    def flops(self) -> float:
        """Of all steps: two products of b × d × m a run."""
        return 4.0 * self.steps * len(self.runs) * self.batch * self.d * self.m

    @property
    def seconds(self) -> float:
        """A guess for one H200: 90 µs to start a step, 50 TFLOP/s, 3.5 TB/s through weights and activations, 6 s to compile."""
        bytes_a_step = 4.0 * len(self.runs) * self.m * (6 * self.d + 3 * self.batch)
        return 6 + self.steps * (9e-5 + bytes_a_step / 3.5e12) + self.flops / 5e13


@dataclass(frozen=True)
class Settings:
    """The runs, and how the networks that exist are found."""

    cells: tuple[Cell, ...]
    test: int
    """Test rows, by which the best run of a cell is chosen; its error is then measured on as many fresh ones."""
    cube_steps: int
    cube_seeds: int
    cube_width: int = 200
    cube_rate: float = 20.0
    cube_decays: tuple[float, ...] = (1e-3, 5e-4, 2e-4)
    shown: tuple[tuple[int, int], ...] = ((40, 200), (40, 100_000), (100, 50_000))
    """(d, m) to which the networks that exist are padded and copied, to be tried on sampled points."""


def rows(cell: Cell, seed: int, test: int) -> tuple[Dataset, Dataset]:
    """N training rows with test rows, and as many fresh ones: y = d³ x₁…x₆ on {±1/√d}^d, the same for all cells.

    Ref: beyond_kernels, App. A.1, Fig. 3
    """
    target = ParityTarget.product(cell.d, DEGREE)
    return target.sample(cell.N, key=2 * seed, test=test), target.sample(test, key=2 * seed + 1)


def trained(cell: Cell, seed: int, test: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """All runs of a cell: errors E (F − y)² on training and test rows as they went, ‖W‖_F/√d at the end, and the error on
    fresh rows, with its standard error, of the best run by test error and of the best one on the paper's grid.
    """
    data, fresh = rows(cell, seed, test)
    keys = [1000 * seed + 1 + run for *_, run in cell.runs]
    with computing(cell.dtype, options["device"]):
        networks = {scale: TwoLayer(cell.m, kappa=scale, balanced=True) for scale in cell.scales}
        starts = {(s, key): networks[s].init(key, cell.d) for s in cell.scales for key in dict.fromkeys(keys)}
    batches = cell.N // cell.batch
    found = side_by_side(
        TwoLayer(cell.m, balanced=True), data,
        [(2 * rate, decay / 2, key) for (rate, decay, _, _), key in zip(cell.runs, keys, strict=True)], cell.steps,
        params=[starts[scale, key] for (_, _, scale, _), key in zip(cell.runs, keys, strict=True)],
        batch=cell.batch, momentum=0.9, loss="mean", schedule=StepDecay((cell.epochs[0] * batches,)),
        record=batches * max(1, sum(cell.epochs) // RECORDS), measures=(), keep_params=True, dtype=cell.dtype, **options,
    )  # fmt: skip
    assert found.params is not None
    W, a = found.params.trained["W"], found.params.fixed["a"]
    with np.errstate(over="ignore", invalid="ignore"):  # runs that diverged
        norms = np.array([np.linalg.norm(one.astype(np.float64)) for one in W]) / np.sqrt(cell.d)
    train, test_path = 2 * found.records["loss"], 2 * found.records["test_loss"]
    end = np.where(np.isfinite(test_path[:, -1]), test_path[:, -1], np.inf)
    allowed = {
        "best": np.ones(len(end), bool),
        "grid": np.array([on_grid(rate, decay) for rate, decay, *_ in cell.runs]),
    }
    chosen = {name: int(np.argmin(np.where(which, end, np.inf))) for name, which in allowed.items() if which.any()}
    kept = {"runs": np.array(cell.runs), "epochs": found.steps / batches, "train": train, "test": test_path}
    kept |= {"norm": norms, "seconds_per_step": found.seconds_per_step}
    for name, i in chosen.items():
        network = Existing(W[i].astype(np.float64), a[i].astype(np.float64).ravel(), ())
        kept |= {name: i} | {f"{name}_{key}": value for key, value in tried(network, fresh).items()}
    return kept


def tried(network: Existing, fresh: Dataset) -> dict[str, float]:
    """The error of a network on sampled rows, and its standard error."""
    squares = (network.outputs(fresh.X) - fresh.y) ** 2
    return {"fresh": float(squares.mean()), "standard_error": float(squares.std(ddof=1) / np.sqrt(len(squares)))}


def existing(settings: Settings, workplace: Workplace) -> dict[str, np.ndarray]:
    """Networks trained on the whole cube at d = 6, one a decay, as a part of the study."""

    def make(kept: Path | None) -> Mapping[str, Any]:
        options = {"dtype": "float64", "device": workplace.device, "progress": _told(workplace, "networks that exist")}
        nets = trained_on_the_cube(
            settings.cube_decays, width=settings.cube_width, degree=DEGREE, steps=settings.cube_steps,
            rate=settings.cube_rate, seeds=settings.cube_seeds, seed=workplace.seed, options=options,
        )  # fmt: skip
        return {"W": np.stack([net.W for net in nets]), "signs": np.stack([net.signs for net in nets])}

    return workplace.part("networks that exist", make)


def one_cell(settings: Settings, workplace: Workplace, cell: Cell) -> dict[str, np.ndarray]:
    """A cell as a part of the study."""

    def make(kept: Path | None) -> Mapping[str, Any]:
        small = len(cell.runs) * cell.m * cell.d <= KEPT_WEIGHTS
        options = {"device": workplace.device, "place": kept if small else None}
        return trained(cell, workplace.seed, settings.test, options | {"progress": _told(workplace, cell.name)})

    return workplace.part(cell.name, make)


def _told(workplace: Workplace, name: str) -> Any:
    return lambda done, total, what: workplace.progress(done, total, name)


def run(settings: Settings, workplace: Workplace) -> Findings:
    """Networks that exist, tried where they are copied to; every cell; the claims beside what was found."""
    made = existing(settings, workplace)
    nets = [Existing(W, signs, tuple(range(DEGREE))) for W, signs in zip(made["W"], made["signs"], strict=True)]
    copies = []
    for (d, m), (i, net) in itertools.product(settings.shown, enumerate(nets)):
        wide = net.widened(m).padded(d)
        fresh = ParityTarget.product(d, DEGREE).sample(settings.test, key=2 * workplace.seed + 1)
        copies.append({"from": i, "d": d, "m": m, "norm": wide.norm, "error": wide.error} | tried(wide, fresh))
    done = {cell: one_cell(settings, workplace, cell) for cell in settings.cells}
    return findings(settings, nets, copies, done)


def _plan(settings: Settings) -> str:
    cells = settings.cells
    flops, seconds = sum(cell.flops for cell in cells), sum(cell.seconds for cell in cells)
    return (
        f"{sum(len(cell.runs) for cell in cells)} runs in {len(cells)} programs, m up to {max(cell.m for cell in cells):,}; "
        f"{flops / 1e12:.3g} TFLOP: about {duration(seconds, rough=True)} on one H200, {duration(flops / 1.5e10, rough=True)} on two cores"
    )


GRID: dict[str, Any] = {
    "rates": (2.0, 5.0, 7.0, 10.0), "decays": (0.0, 1e-5, 2e-5, 3e-5, 5e-5, 1e-4, 1e-3), "scales": (0.1, 1.0)
}  # fmt: skip
WIDE: dict[str, Any] = {"rates": (5.0, 7.0), "decays": (0.0, 2e-5, 5e-5), "scales": (0.1, 1.0), "dtype": "tf32"}
LONG: dict[str, Any] = {"rates": (5.0, 7.0, 10.0), "decays": (1e-5, 2e-5, 3e-5, 5e-5), "seeds": 3}
CIFAR: dict[str, Any] = {"d": 100, "N": 50_000, "batch": 100}

STUDY = Study(
    name="beyond-kernels-fig3",
    title="Two-layer networks of small norm for a product of six coordinates, and what SGD finds instead",
    reference="beyond_kernels, App. A.1, Fig. 3",
    settings={
        "smoke": Settings(
            cells=(
                Cell(32, (6, 2), (2.0, 100.0), (0.0, 1e-4), (0.1, 1.0), d=10, N=400),
                Cell(64, (24, 8), (2.0, 5.0), (1e-4, 1e-3), seeds=2, d=10, N=400),
            ),
            test=500, cube_steps=400, cube_seeds=1, cube_width=64, cube_decays=(1e-3, 2e-4), shown=((10, 64), (16, 200)),
        ),
        "small": Settings(
            cells=(
                *(Cell(m, (100, 60), (5.0,), (0.0, 2e-5, 5e-5, 1e-4), (0.1, 1.0)) for m in (200, 500, 1_000)),
                Cell(2_000, (60, 20), (5.0,), (2e-5, 5e-5)),
                Cell(200, (1_120, 160), (5.0, 7.0), (3e-5, 5e-5)),
                Cell(200, (12, 4), (5.0,), (0.0, 2e-5), **CIFAR),
            ),
            test=5_000, cube_steps=4_000, cube_seeds=3, shown=((40, 200), (40, 2_000), (100, 500)),
        ),
        "full": Settings(
            cells=(
                *(Cell(m, (400, 400), **GRID) for m in (200, 500, 1_000, 2_000)),
                Cell(5_000, (240, 160), **GRID),
                Cell(10_000, (160, 80), **GRID),
                *(Cell(m, (160, 80), **WIDE) for m in (20_000, 50_000, 100_000)),
                *(Cell(m, (2_080, 320), **LONG) for m in (200, 1_000)),
                Cell(200, (100, 60), **GRID, **CIFAR),
                Cell(2_000, (60, 36), **GRID, **CIFAR),
                Cell(10_000, (40, 24), **WIDE, **CIFAR),
                Cell(50_000, (16, 16), **WIDE, **CIFAR),
            ),
            test=10_000, cube_steps=20_000, cube_seeds=5,
        ),
    },
    plan=_plan,
    run=run,
)  # fmt: skip
