"""The runs of the study `convergence-rates`, each a part that is kept: kernels at the start, rates, iterations, ten classes."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, log
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam.data import Dataset
from overparam.data.duplicates import smallest_distance
from overparam.studies.convergence_rates_data import (
    close_pairs,
    image_pairs,
    side_of,
    ten_classes,
)
from overparam.studies.convergence_rates_fits import linear_steps
from overparam.studies.convergence_rates_losses import LOSSES
from overparam.studies.convergence_rates_settings import IMAGES, Cell, Point, Settings, build
from overparam.studies.study import Workplace
from overparam.training import side_by_side
from overparam.training.measures import finite_gram, limit_gram
from overparam.training.precision import computing

RECORDS = 200
BLOCK = 50
"""Records that many steps apart, or a multiple of it, let steps run in blocks, which a GPU is faster at."""
MOST = 8
"""Iterations are counted up to that many times what the kernel at the start says."""
RATE_ROWS = 64
"""Rows of ten classes from which the largest entry of the kernel, and with it the rate, is taken."""

Part = Mapping[str, np.ndarray]

_gram = jax.jit(finite_gram, static_argnums=0)
_trace = jax.jit(lambda network, params, X: network.trace(params, X), static_argnums=0)


def keys_of(workplace: Workplace, seeds: int) -> list[int]:
    """Of the networks, one a seed."""
    return [1000 * workplace.seed + seed for seed in range(seeds)]


def recorded(steps: float) -> tuple[int, int]:
    """How many steps, at least `steps`, and every how many a record is taken: about `RECORDS` of them.

    >>> recorded(1_999), recorded(20_001)
    ((2000, 10), (20100, 100))
    """
    steps = max(1, ceil(steps))
    every = ceil(steps / RECORDS)
    if every >= BLOCK:
        every = BLOCK * round(every / BLOCK)
    return every * ceil(steps / every), every


def at_start(network: Any, sets: list[Dataset], keys: list[int], device: str | None) -> dict[str, np.ndarray]:
    """H(0) and u(0) of the very networks that a run with these keys starts from, an entry a seed."""
    grams, outputs = [], []
    with computing("float64", device) as kind:
        for data, key in zip(sets, keys, strict=True):
            params, X = network.init(key, data.d), jnp.asarray(data.X, kind)
            grams.append(np.asarray(_gram(network, params, X)))
            outputs.append(np.asarray(_trace(network, params, X).output))
    return {"H": np.stack(grams), "u": np.stack(outputs)}


def kernels(settings: Settings, workplace: Workplace, name: str) -> dict[str, np.ndarray]:
    """Of one network on the rows of every seed: H(0), the kernel of infinite width where there is one, and δ."""
    sets = image_pairs(settings, name, workplace.seed)
    network = _network(settings, name)

    def make(_: Path | None) -> Mapping[str, Any]:
        found: dict[str, Any] = at_start(network, sets, keys_of(workplace, settings.seeds), workplace.device)
        limits = [limit_gram(network, data.X) for data in sets]
        if not any(isinstance(limit, tuple) for limit in limits):
            found["limit"] = np.stack(limits)
        return found | {"separation": [smallest_distance(data.X) for data in sets]}

    return workplace.part(f"kernels, {name}", make, settings.of_runs)


def rates_of(H: np.ndarray, algorithm: str, smoothness: float) -> np.ndarray:
    """η of every seed: 1/λ_max of H(0) for GD, 1/(n max H_ii) for SGD, stable for every batch; over the loss's smoothness."""
    if algorithm == "GD":
        largest = np.linalg.eigvalsh(H)[:, -1]
    else:
        largest = H.shape[1] * np.diagonal(H, axis1=1, axis2=2).max(axis=1)
    return 1 / (smoothness * largest)


def run_cell(settings: Settings, workplace: Workplace, cell: Cell, start: Part) -> dict[str, np.ndarray]:
    """One network, loss and algorithm, all seeds side by side: the losses on the way and the kernel at the end.

    Ref: convergence, Thm 1, Thm 2, Thm 6, Thm 7, Thm 8
    """
    name, loss, algorithm = cell
    objective, network = LOSSES[loss], _network(settings, name)
    lr = rates_of(start["H"], algorithm, objective.smoothness or 1.0)
    slowest = rates_of(start["H"], algorithm, 1.0) * np.linalg.eigvalsh(start["H"])[:, 0]
    steps, every = recorded(min(settings.most_steps, settings.decades * log(10) / (2 * float(slowest.min()))))

    def make(kept: Path | None) -> Mapping[str, Any]:
        sets = image_pairs(settings, name, workplace.seed)
        keys = keys_of(workplace, settings.seeds)
        done = side_by_side(
            network, sets, [(float(rate), 0.0, key) for rate, key in zip(lr, keys, strict=True)], steps, record=every,
            measures=("movement", "gradient"), batch=None if algorithm == "GD" else settings.batch,
            sampling="independent", objective=objective, device=workplace.device, place=kept, keep_params=True,
            progress=lambda done, total, what: workplace.progress(done, total, ", ".join(cell)),
        )  # fmt: skip
        kept_records = {key: done.records[key] for key in ("loss", "output_gradient_norm", "pl_ratio", "accuracy")}
        moved = np.linalg.norm(done.records["movement"][:, -1], axis=-1)
        about = {"steps": done.steps, "lr": lr, "movement": moved, "seconds_per_step": done.seconds_per_step}
        return kept_records | about | _at_end(network, done.params, sets, workplace.device)

    return workplace.part(", ".join(cell), make, settings.of_runs)


def _at_end(network: Any, params: Any, sets: list[Dataset], device: str | None) -> dict[str, np.ndarray]:
    """H at the last weights of every seed, and how near to 0 the nearest pre-activation behind a trained layer is."""
    grams, nearest = [], []
    with computing("float64", device) as kind:
        for seed, data in enumerate(sets):
            own = jax.tree.map(lambda leaf, seed=seed: jnp.asarray(leaf[seed], kind), params)
            X = jnp.asarray(data.X, kind)
            grams.append(np.asarray(_gram(network, own, X)))
            nearest.append(min(float(jnp.abs(g).min()) for g in _trace(network, own, X).pre_activations[1:]))
    return {"H_end": np.stack(grams), "nearest_kink": np.array(nearest)}


def count_iterations(settings: Settings, workplace: Workplace, name: str, point: Point) -> dict[str, np.ndarray]:
    """GD on ½‖r‖² at η = 1/λ_max from n, L, m, δ until the loss is at the share asked for, all seeds side by side.

    Ref: convergence, Thm 1, Thm 8
    """
    n, L, m, separation = point
    words = f"iterations, {name}, n = {n}, L = {L}, m = {m}, δ = {separation:g}"

    def make(kept: Path | None) -> Mapping[str, Any]:
        network, seeds = build(name, L, m), settings.counted_seeds
        keys = keys_of(workplace, seeds)
        sets = [close_pairs(n, separation, settings.dimension, [workplace.seed, 2, seed]) for seed in range(seeds)]
        start = at_start(network, sets, keys, workplace.device)
        lr = rates_of(start["H"], "GD", 1.0)
        expected = [
            linear_steps(H, data.y - u, float(rate), settings.share)
            for H, u, data, rate in zip(start["H"], start["u"], sets, lr, strict=True)
        ]
        steps, every = recorded(MOST * max(expected) + 10)
        done = side_by_side(
            network, sets, [(float(rate), 0.0, key) for rate, key in zip(lr, keys, strict=True)], steps, record=every,
            measures=(), batch=None, device=workplace.device, place=kept, stop_below=settings.share,
            progress=lambda done, total, what: workplace.progress(done, total, words),
        )  # fmt: skip
        values = np.linalg.eigvalsh(start["H"])
        return {
            "steps": done.steps, "loss": done.records["loss"], "lr": lr, "expected": expected,
            "smallest": values[:, 0], "largest": values[:, -1],
            "separation": [smallest_distance(data.X) for data in sets],
        }  # fmt: skip

    return workplace.part(words, make, settings.of_counts)


def run_classes(settings: Settings, workplace: Workplace, name: str, algorithm: str) -> dict[str, np.ndarray]:
    """Ten classes under cross-entropy until its sum is well below ¼, real and random labels side by side.

    Ref: convergence, Thm 6, footnote 16
    """

    def make(kept: Path | None) -> Mapping[str, Any]:
        sets = ten_classes(settings, name, workplace.seed)
        network = _network(settings, name, outputs=len(sets[0].classes))
        few = sets[0].take(np.arange(min(RATE_ROWS, sets[0].n)))
        H = at_start(network, [few], [keys_of(workplace, 1)[0]], workplace.device)["H"]
        objective = LOSSES["cross-entropy"]
        lr = float(2 / ((objective.smoothness or 1.0) * settings.class_samples * H[0].diagonal().max()))
        steps, every = recorded(settings.steps_of(name))
        done = side_by_side(
            network, sets, [(lr, 0.0, keys_of(workplace, 1)[0])] * 2, steps, record=every, measures=("movement",),
            batch=None if algorithm == "GD" else settings.class_batch, sampling="independent", objective=objective,
            device=workplace.device, place=kept, stop_below=0.1 / (settings.class_samples * log(10)),
            progress=lambda done, total, what: workplace.progress(done, total, f"ten classes, {name}, {algorithm}"),
        )  # fmt: skip
        delta = smallest_distance(sets[0].X)
        about = {"steps": done.steps, "lr": lr, "separation": delta, "seconds_per_step": done.seconds_per_step}
        return {"loss": done.records["loss"], "accuracy": done.records["accuracy"]} | about

    return workplace.part(f"ten classes, {name}, {algorithm}", make, settings.of_classes(name))


def _network(settings: Settings, name: str, outputs: int = 1) -> Any:
    m = settings.channels if name in IMAGES else settings.width
    return build(name, settings.layers, m, side_of(settings), outputs)
