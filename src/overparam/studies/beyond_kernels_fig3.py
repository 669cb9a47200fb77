"""Fig. 3: two-layer networks of small norm exist for a product of six coordinates, trained on the whole cube and by hand; what SGD finds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core.words import duration
from overparam.data import Dataset, ParityTarget, whole_cube
from overparam.frame import Part, Work
from overparam.networks import TwoLayer
from overparam.studies.study import Arrays, Found, Scale, Values, or_none, planned
from overparam.training import StepDecay, side_by_side, sweep
from overparam.training.precision import chosen_device, computing

DEGREE = 6
RECORDS = 16
KEPT_WEIGHTS = 12_000_000
"""Runs of more weights than that, all together, keep nothing while they go: writing it would take longer."""
EXISTING, COPIES = "networks that exist", "networks that exist, padded and copied"
KEPT = ("runs", "epochs", "train", "test", "norm")
PAPER_PAIRS = ((9.7, 0.12), (12.5, 0.037), (13.8, 0.011))
"""(‖W*‖_F/√d, error) of the paper's networks."""
PAPER_BEST = {40: 0.69, 100: 0.98}
"""No test error of the paper's runs is better, by d."""
PAPER_EPOCHS = 800
"""Of the paper's Fig. 2: App. A.1 does not say how long it trains."""
NEAR = 1.5
"""A norm within that factor of a network that exists is called comparable."""
FITTED = 0.12
"""A training error that counts as small: the largest error of the paper's networks of small norm."""
TOGETHER = 2**25
"""Activations of the points that go through a network together, at most: 256 MiB."""
Done = Mapping["Cell", Arrays]
"""What became of every cell."""


@final
@dataclass(frozen=True, eq=False)
class Existing:
    """F(x) = (1/√m) Σ_j s_j σ(w_j·x), s_j = ±1, for inputs in {±1/√d}^d; the target is the product of the coordinates `seen`.

    Ref: beyond_kernels, App. A.1

    >>> net = smallest(6).widened(256).padded(40)
    >>> net.error < 1e-28, round(net.norm, 3)
    (True, 13.064)
    """

    W: np.ndarray
    signs: np.ndarray
    seen: tuple[int, ...]

    @property
    def width(self) -> int:
        return self.W.shape[0]

    @property
    def d(self) -> int:
        return self.W.shape[1]

    @property
    def norm(self) -> float:
        """‖W‖_F/√d, which padding and copying do not change."""
        return float(np.linalg.norm(self.W) / math.sqrt(self.d))

    def outputs(self, X: np.ndarray) -> np.ndarray:
        """F at the rows of X, in pieces: a wide network on many rows would not fit the memory."""
        rows = max(1, TOGETHER // self.width)
        pieces = (np.maximum(X[i : i + rows] @ self.W.T, 0) @ self.signs for i in range(0, len(X), rows))
        return np.concatenate(list(pieces)) / math.sqrt(self.width)

    @property
    def error(self) -> float:
        """E (F − y)², exact: F sees `seen` alone, so that a mean over their 2^k patterns is all there is."""
        rest = np.delete(self.W, self.seen, axis=1)
        if rest.any():
            raise ValueError("this network sees coordinates beyond those of the target; sample its error instead")
        X = whole_cube(len(self.seen), size=self.d**-0.5)
        F = np.maximum(X @ self.W[:, self.seen].T, 0) @ self.signs / math.sqrt(self.width)
        return float(np.mean((F - np.sign(X).prod(axis=1)) ** 2))

    def padded(self, d: int, seen: Sequence[int] | None = None) -> Existing:
        """The same function of d inputs: columns scaled by √(d/d′) at the places `seen`, zeros elsewhere."""
        places = tuple(range(len(self.seen))) if seen is None else tuple(seen)
        if d < self.d or len(set(places)) != self.d or max(places) >= d:
            raise ValueError(
                f"a network of {self.d} inputs goes to {self.d} different places below d, not {places} of {d}"
            )
        W = np.zeros((self.width, d))
        W[:, places] = self.W * math.sqrt(d / self.d)
        return Existing(W, self.signs, places)

    def widened(self, m: int) -> Existing:
        """The same function with m neurons: a neuron copied c_j times has weights √(m/m′) w_j/c_j.

        With m = c·m′ that is W/√c and the norm stays. Else some are copied once more than others, as many positive as
        negative ones, and the norm grows by a few per cent at most: ‖W‖² becomes (m/m′) Σ_j ‖w_j‖²/c_j.
        """
        if m < self.width or m % 2:
            raise ValueError(f"`m` is {m}; expected an even width of at least {self.width}")
        copies, more = np.full(self.width, m // self.width), m % self.width
        for sign in (-1, 1):
            copies[np.flatnonzero(self.signs == sign)[: more // 2]] += 1
        W = np.repeat(self.W * (math.sqrt(m / self.width) / copies)[:, None], copies, axis=0)
        return Existing(W, np.repeat(self.signs, copies), self.seen)


def smallest(degree: int = 6, error: float = 0.0) -> Existing:
    """The network of least norm with that error for a product of `degree` coordinates, at d = `degree`, degree even.

    One neuron for every pattern s ∈ {±1}^k, w_s = c·s, with the product of s as its sign. The sum is equivariant under
    sign changes of the inputs, so F = t·y with t = 1 − √error.

    Nothing of this form, whatever its width, has less: by convex duality ‖W‖_F ≥ (1 − √error) / max_u |E y σ(u·x)|
    over unit vectors u, and the largest u found by search, with further coordinates or without, is that of w_s.

    >>> bool(np.isclose(smallest(2).norm, 8**0.5)), smallest(2).error < 1e-28, round(smallest(6, error=0.25).error, 12)
    (True, True, 0.25)
    """
    if degree < 2 or degree % 2:
        raise ValueError(f"`degree` is {degree}; expected an even number: this sum of ReLUs is 0 for odd products")
    if not 0 <= error <= 1:
        raise ValueError(f"`error` is {error}; expected from 0 (exact) to 1 (the network that is 0)")
    patterns = whole_cube(degree)
    signs = patterns.prod(axis=1)
    correlation = float(np.maximum(patterns.sum(axis=1), 0) @ signs) / math.sqrt(degree * len(signs))
    signs = signs * math.copysign(1.0, correlation)
    return Existing((1 - math.sqrt(error)) / abs(correlation) * patterns, signs, tuple(range(degree)))


def least_norm(error: Any, degree: int = 6) -> Any:
    """‖W‖_F/√d of the smallest network with that error: (1 − √error)·‖W*‖_F/√d, 0 from error 1 on.

    >>> bool(np.isclose(least_norm(0.25), smallest(6).norm / 2)), float(least_norm(1.0))
    (True, 0.0)
    """
    return np.maximum(0.0, 1 - np.sqrt(error)) * smallest(degree).norm


def least_objective(decay: float, d: int, degree: int = 6) -> float:
    """min_W E (F − y)² + ½·decay·‖W‖_F² over networks F = t·y: with ν = ‖W*‖_F, t = 1/(1 + ½·decay·ν²).

    On such a network every training set has the error of the whole distribution.

    >>> round(least_objective(2 / (6 * smallest(6).norm ** 2), 6), 12)  # ½·decay·ν² = 1: t = ½, ¼ + ¼
    0.5
    """
    price = 0.5 * decay * d * smallest(degree).norm ** 2
    return price / (1 + price)


def rademacher(norm: float, d: int, N: int) -> float:
    """2‖W‖_F/√N, the bound on the Rademacher complexity, from ‖W‖_F/√d.

    Ref: beyond_kernels, App. A.1

    >>> rademacher(10.0, d=25, N=10_000)
    1.0
    """
    return 2 * norm * math.sqrt(d / N)


def trained_on_the_cube(
    decays: Sequence[float], *, width: int, degree: int, steps: int, rate: float, seeds: int, seed: int, options: Any
) -> list[Existing]:
    """For each decay the network of least objective E (F − y)² + ½·decay·‖W‖² among those trained on all 2^k points.

    Ref: beyond_kernels, App. A.1
    """
    cube = whole_cube(degree, size=degree**-0.5)
    data = (cube, ParityTarget.product(degree, degree)(cube))
    found = sweep(
        TwoLayer(width, balanced=True), data, [2 * rate], steps, weight_decay=[decay / 2 for decay in decays],
        keys=[1000 * seed + i for i in range(seeds)], momentum=0.9, loss="mean", schedule=StepDecay((steps * 3 // 4,)),
        record=[0, steps], measures=(), keep_params=True, **options,
    )  # fmt: skip
    assert found.params is not None
    chosen = []
    for decay in decays:
        nets = [
            Existing(
                np.asarray(found.params.trained["W"][i], dtype=np.float64),
                np.asarray(found.params.fixed["a"][i], dtype=np.float64).ravel(),
                tuple(range(degree)),
            )
            for i in np.flatnonzero(found.weight_decay == decay / 2)
        ]
        chosen.append(min(nets, key=lambda net: net.error + 0.5 * decay * degree * net.norm**2))
    return chosen


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

    def seconds(self, device: str | None = "gpu") -> float:
        """A guess for one H200: 90 µs to start a step, 50 TFLOP/s, 3.5 TB/s through weights and activations, 6 s to compile."""
        if device != "gpu" and chosen_device(device).platform == "cpu":
            return 4 + planned(self.flops, self.steps, device)
        bytes_a_step = 4.0 * len(self.runs) * self.m * (6 * self.d + 3 * self.batch)
        return 6 + self.steps * (9e-5 + bytes_a_step / 3.5e12) + self.flops / 5e13


@dataclass(frozen=True)
class NormSettings:
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


def parts(settings: NormSettings, key: int, device: str | None) -> list[Part]:
    """Networks that exist, tried where they are copied to; then every cell."""
    cube = (
        settings.cube_decays, settings.cube_width, settings.cube_steps, settings.cube_rate, settings.cube_seeds, key
    )  # fmt: skip
    runs = len(settings.cube_decays) * settings.cube_seeds
    seconds = planned(
        4.0 * settings.cube_steps * runs * 2**DEGREE * DEGREE * settings.cube_width, settings.cube_steps, device
    )
    copied = planned(2.0 * len(settings.cube_decays) * settings.test * sum(d * m for d, m in settings.shown), 0, "cpu")
    return [
        Part(EXISTING, existing, cube, seconds=seconds),
        Part(COPIES, copied_and_tried, (settings.shown, settings.test, key), (EXISTING,), copied),
        *(Part(c.name, trained, (c, settings.test, key), seconds=c.seconds(device)) for c in settings.cells),
    ]


def existing(
    work: Work, decays: Sequence[float], width: int, steps: int, rate: float, seeds: int, key: int
) -> dict[str, Any]:
    """Networks trained on the whole cube at d = 6, one a decay."""
    options = {"dtype": "float64", "device": work.device, "progress": work.progress}
    nets = trained_on_the_cube(
        decays, width=width, degree=DEGREE, steps=steps, rate=rate, seeds=seeds, seed=key, options=options
    )
    return {"W": np.stack([net.W for net in nets]), "signs": np.stack([net.signs for net in nets])}


def copied_and_tried(
    work: Work, shown: Sequence[tuple[int, int]], test: int, key: int, found: Arrays
) -> dict[str, Any]:
    """The networks that exist at other d and m, on sampled points."""
    copies = []
    for (d, m), (i, net) in itertools.product(shown, enumerate(networks_in(found))):
        wide = net.widened(m).padded(d)
        fresh = ParityTarget.product(d, DEGREE).sample(test, key=2 * key + 1)
        copies.append({"from": i, "d": d, "m": m, "norm": wide.norm, "error": wide.error} | tried(wide, fresh))
    return {what: np.array([copy[what] for copy in copies]) for what in copies[0]}


def networks_in(found: Arrays) -> list[Existing]:
    """What `existing` gave."""
    return [Existing(W, signs, tuple(range(DEGREE))) for W, signs in zip(found["W"], found["signs"], strict=True)]


def trained(work: Work, cell: Cell, test: int, key: int) -> dict[str, Any]:
    """All runs of a cell: errors E (F − y)² on training and test rows as they went, ‖W‖_F/√d at the end, and the error on
    fresh rows, with its standard error, of the best run by test error and of the best one on the paper's grid.
    """
    data, fresh = rows(cell, key, test)
    keys = [1000 * key + 1 + run for *_, run in cell.runs]
    with computing(cell.dtype, work.device):
        networks = {scale: TwoLayer(cell.m, kappa=scale, balanced=True) for scale in cell.scales}
        starts = {(s, own): networks[s].init(own, cell.d) for s in cell.scales for own in dict.fromkeys(keys)}
    batches, small = cell.N // cell.batch, len(cell.runs) * cell.m * cell.d <= KEPT_WEIGHTS
    found = side_by_side(
        TwoLayer(cell.m, balanced=True), data,
        [(2 * rate, decay / 2, own) for (rate, decay, _, _), own in zip(cell.runs, keys, strict=True)], cell.steps,
        params=[starts[scale, own] for (_, _, scale, _), own in zip(cell.runs, keys, strict=True)],
        batch=cell.batch, momentum=0.9, loss="mean", schedule=StepDecay((cell.epochs[0] * batches,)),
        record=batches * max(1, sum(cell.epochs) // RECORDS), measures=(), keep_params=True, dtype=cell.dtype, device=work.device,
        place=work.place if small else None, progress=work.progress,
    )  # fmt: skip
    assert found.params is not None
    W, a = found.params.trained["W"], found.params.fixed["a"]
    with np.errstate(over="ignore", invalid="ignore"):  # runs that diverged
        norms = np.array([np.linalg.norm(one.astype(np.float64)) for one in W]) / np.sqrt(cell.d)
    train, test_path = 2 * found.records["loss"], 2 * found.records["test_loss"]
    chosen, grid = {"best": best_of(test_path)}, np.array([on_grid(rate, decay) for rate, decay, *_ in cell.runs])
    if grid.any():
        chosen["grid"] = best_of(np.where(grid[:, None], test_path, np.inf))
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


def conclude(settings: NormSettings, found: Found) -> tuple[Values, Arrays]:
    """Every number the page shows, and what it draws of every cell."""
    nets, done = networks_in(found[EXISTING]), {cell: found[cell.name] for cell in settings.cells}
    columns = {what: own.tolist() for what, own in found[COPIES].items()}
    copies = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    arrays = {f"{cell.name}/{key}": np.asarray(own[key]) for cell, own in done.items() for key in KEPT}
    arrays |= {f"existing/{what}": found[EXISTING][what] for what in ("W", "signs")}
    return all_values(settings, nets, copies, done), arrays


def done_in(settings: NormSettings, arrays: Arrays) -> Done:
    """What `conclude` stored of every cell."""
    return {cell: {key: arrays[f"{cell.name}/{key}"] for key in KEPT} for cell in settings.cells}


def best_of(test: np.ndarray) -> int:
    """The run with the least error at its end."""
    return int(np.argmin(np.where(np.isfinite(test[:, -1]), test[:, -1], np.inf)))


def all_values(
    settings: NormSettings, nets: Sequence[Existing], copies: Sequence[Mapping[str, Any]], done: Done
) -> dict[str, Any]:
    """Every number the page shows."""
    exists = [
        {
            "decay": decay, "norm": net.norm, "error": net.error, "least_norm": float(least_norm(net.error)),
            "objective": net.error + 0.5 * decay * net.d * net.norm**2, "least_objective": least_objective(decay, net.d),
        }
        for decay, net in zip(settings.cube_decays, nets, strict=True)
    ]  # fmt: skip
    cells = [cell_values(cell, found) for cell, found in done.items()]
    inputs = list(dict.fromkeys(cell["d"] for cell in cells))
    return {
        "existing": exists,
        "existing_width": nets[0].width,
        "copies": [dict(copy) for copy in copies],
        "smallest_norm": smallest(6).norm,
        "paper_pairs": [list(pair) for pair in PAPER_PAIRS],
        "cells": cells,
        "inputs": inputs,
        "by_inputs": {str(d): over_cells([cell for cell in cells if cell["d"] == d], done, d) for d in inputs},
    }


def on_grid(rate: float, decay: float) -> bool:
    """Whether both are of the paper's {1, 2, 5}·10^k, or 0.

    >>> on_grid(5.0, 2e-5), on_grid(7.0, 2e-5), on_grid(0.1, 0.0)
    (True, False, True)
    """
    return all(f"{value:.6e}"[:8] in ("0.000000", "1.000000", "2.000000", "5.000000") for value in (rate, decay))


def cell_values(cell: Cell, found: Arrays) -> dict[str, Any]:
    """One cell: how many runs diverged, its best run by test error, and the best one on the paper's grid."""
    end = found["test"][:, -1]
    shared = {"d": cell.d, "N": cell.N, "m": cell.m, "epochs": list(cell.epochs)}
    about = {"longer": sum(cell.epochs) > PAPER_EPOCHS, "runs": len(end), "diverged": int((~np.isfinite(end)).sum())}
    about |= {"dtype": cell.dtype, "milliseconds": 1e3 * float(found["seconds_per_step"])}
    grid = shared | _one(found, "grid") if "grid" in found else None
    return shared | about | _one(found, "best") | {"grid": grid}


def _one(found: Arrays, name: str) -> dict[str, Any]:
    """The run chosen; `others`: test errors of the runs that differ from it in their first weights and batches alone."""
    i = int(found[name])
    rate, decay, scale, seed = (float(value) for value in found["runs"][i])
    ends = {"train": found["train"][i, -1], "test": found["test"][i, -1], "norm": found["norm"][i]}
    ends |= {key: found[f"{name}_{key}"] for key in ("fresh", "standard_error")}
    alike = (found["runs"][:, :2] == found["runs"][i, :2]).all(axis=1) & (np.arange(len(found["runs"])) != i)
    settings = {"rate": rate, "decay": decay, "scale": scale, "seed": int(seed)}
    others = [or_none(value) for value in found["test"][alike, -1]]
    return settings | {key: or_none(value) for key, value in ends.items()} | {"others": others}


def over_cells(cells: Sequence[Mapping[str, Any]], done: Done, d: int) -> dict[str, Any]:
    """Of one d: the best by test error within the paper's epochs and beyond, the least norm that fits, and what of the
    objective is missed; "grid" is the paper's rates and decays within its epochs.

    The objective is what a run with a decay lowers, training error + ½·decay·‖W‖². The network F = t·y made by hand has the
    least one, and the network that is 0 has 1: `objective_missed` is the share of that difference that a run does not gain.
    """
    told: dict[str, Any] = {"N": cells[0]["N"]}
    within = [cell for cell in cells if not cell["longer"]]
    groups = {"best": within, "best_on_grid": [cell["grid"] for cell in within if cell["grid"]]}
    for name, group in (groups | {"best_longer": [cell for cell in cells if cell["longer"]]}).items():
        own = [cell for cell in group if cell["fresh"] is not None]
        told[name] = min(own, key=lambda cell: cell["test"]) if own else None
    missed, fits, grid = [], [], []
    for cell, found in done.items():
        if cell.d != d:
            continue
        for (rate, decay, _, _), train, test, norm in zip(
            found["runs"], found["train"][:, -1], found["test"][:, -1], found["norm"], strict=True
        ):
            papers = on_grid(rate, decay) and sum(cell.epochs) <= PAPER_EPOCHS
            grid += [float(test)] if papers else []
            if not np.isfinite([train, test, norm]).all():
                continue
            if decay:
                least = least_objective(float(decay), d)
                missed.append((train + 0.5 * decay * d * norm**2 - least) / (1 - least))
            if train <= FITTED:
                about = {"norm": norm, "train": train, "test": test, "rate": rate, "decay": decay}
                fits.append({name: float(value) for name, value in about.items()} | _sizes(cell, papers))
    on = [fit for fit in fits if fit["on_grid"]]
    for name, own in (("", fits), ("_on_grid", on)):
        told[f"fits{name}"] = len(own)
        told[f"least_norm_that_fits{name}"] = min(own, key=lambda fit: fit["norm"]) if own else None
    told["objective_missed"] = [min(missed), float(np.median(missed))] if missed else None
    told["grid_runs"], better = len(grid), PAPER_BEST.get(d)
    told["grid_better"] = None if better is None else sum(test < better for test in grid)
    return told


def _sizes(cell: Cell, papers: bool) -> dict[str, Any]:
    return {"m": cell.m, "epochs": list(cell.epochs), "on_grid": papers}


def outline(settings: NormSettings) -> str:
    """The runs, and what they cost where, in words."""
    cells = settings.cells
    flops, seconds = sum(cell.flops for cell in cells), sum(cell.seconds() for cell in cells)
    return (
        f"{sum(len(cell.runs) for cell in cells)} runs in {len(cells)} programs, m up to {max(cell.m for cell in cells):,}; "
        f"{flops / 1e12:.3g} TFLOP: about {duration(seconds, rough=True)} on one H200, {duration(flops / 1.5e10, rough=True)} on two cores"
    )


GRID: dict[str, Any] = {
    "rates": (2.0, 5.0, 7.0, 10.0, 14.0, 20.0, 30.0), "decays": (0.0, 1e-5, 2e-5, 3e-5, 5e-5, 1e-4, 1e-3), "scales": (0.1, 1.0)
}  # fmt: skip
WIDE: dict[str, Any] = {
    "rates": (5.0, 7.0, 10.0, 14.0, 20.0),
    "decays": (0.0, 2e-5, 5e-5),
    "scales": (0.1, 1.0),
    "dtype": "tf32",
}
LONG: dict[str, Any] = {"rates": (5.0, 7.0, 10.0, 14.0, 20.0, 30.0), "decays": (1e-5, 2e-5, 3e-5, 5e-5), "seeds": 3}
SHORT: dict[str, Any] = {"rates": (5.0, 7.0), "decays": (0.0, 2e-5, 5e-5), "scales": (0.1, 1.0), "dtype": "tf32"}
CIFAR: dict[str, Any] = {"d": 100, "N": 50_000, "batch": 100}

SETTINGS: dict[Scale, NormSettings] = {
    "smoke": NormSettings(
        cells=(
            Cell(32, (6, 2), (2.0, 100.0), (0.0, 1e-4), (0.1, 1.0), d=10, N=400),
            Cell(64, (24, 8), (2.0, 5.0), (1e-4, 1e-3), seeds=2, d=10, N=400),
        ),
        test=500, cube_steps=400, cube_seeds=1, cube_width=64, cube_decays=(1e-3, 2e-4), shown=((10, 64), (16, 200)),
    ),
    "small": NormSettings(
        cells=(
            *(Cell(m, (100, 60), (5.0,), (0.0, 2e-5, 5e-5, 1e-4), (0.1, 1.0)) for m in (200, 500, 1_000)),
            Cell(2_000, (60, 20), (5.0,), (2e-5, 5e-5)),
            Cell(200, (1_120, 160), (5.0, 7.0), (3e-5, 5e-5)),
            Cell(200, (12, 4), (5.0,), (0.0, 2e-5), **CIFAR),
        ),
        test=5_000, cube_steps=4_000, cube_seeds=3, shown=((40, 200), (40, 2_000), (100, 500)),
    ),
    "full": NormSettings(
        cells=(
            *(Cell(m, (400, 400), **GRID) for m in (200, 500, 1_000, 2_000)),
            Cell(5_000, (240, 160), **GRID),
            Cell(10_000, (160, 80), **GRID),
            *(Cell(m, (160, 80), **WIDE) for m in (20_000, 50_000, 100_000)),
            *(Cell(m, (2_080, 320), **LONG) for m in (200, 1_000)),
            Cell(200, (100, 60), **GRID, **CIFAR),
            Cell(2_000, (60, 36), **GRID, **CIFAR),
            Cell(10_000, (40, 24), **SHORT, **CIFAR),
            Cell(50_000, (16, 16), **SHORT, **CIFAR),
            Cell(200, (2_080, 320), (5.0, 7.0, 10.0, 14.0, 20.0, 30.0), (1e-5, 2e-5, 3e-5, 5e-5), **CIFAR),
            Cell(2_000, (2_080, 320), (5.0, 10.0, 20.0), (1e-5, 3e-5), **CIFAR),
            Cell(10_000, (2_080, 320), (5.0, 10.0, 20.0), (3e-5,), **CIFAR, dtype="tf32"),
            Cell(20_000, (2_080, 320), (5.0, 10.0), (3e-5,), **CIFAR, dtype="tf32"),
            Cell(50_000, (2_080, 320), (5.0,), (3e-5,), **CIFAR, dtype="tf32"),
        ),
        test=10_000, cube_steps=20_000, cube_seeds=5,
    ),
}  # fmt: skip
