"""Iterations of SGD over n, L, m, δ and b, counted on a CPU: `python benchmarks/sgd_iterations.py OUT`.

Pairs of rows δ apart with opposite labels, fully connected networks, batches drawn independently, the gradient scaled by n/b, at
η = 1/(λ_max + (n/b) max_i H_ii), which the kernel at the start bears for every b: steps until the loss is at 1% of the first one, as
a power of each size with the others fixed. Finished runs are kept in OUT and taken up again. Results go to benchmarks/results/sgd_iterations.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from record import processor, save

from overparam.audits.laws import fit_powers
from overparam.studies.convergence_rates import at_start, build, close_pairs, keys_of, recorded
from overparam.studies.convergence_rates_numbers import steps_to_share
from overparam.training.sweeps import side_by_side

BASE = {"n": 8, "L": 2, "m": 256, "delta": 0.4, "b": 2}
SIZES: dict[str, tuple[float, ...]] = {
    "n": (4, 8, 16, 32), "L": (1, 2, 4), "m": (64, 128, 256, 512), "delta": (0.2, 0.4, 0.8), "b": (1, 2, 4, 8),
}  # fmt: skip
SEEDS, SHARE, DIMENSION, MOST = 3, 0.01, 16, 6.0


def count(n: int, L: int, m: int, delta: float, b: int) -> list[dict[str, Any]]:
    """Steps of every seed, None where the loss did not get there, and what the kernel at the start says of the mean."""
    network, keys = build("fully connected", L, m), keys_of(0, SEEDS)
    sets = [close_pairs(n, delta, DIMENSION, [0, 2, seed]) for seed in range(SEEDS)]
    H = at_start(network, sets, keys, "cpu")["H"]
    values = np.linalg.eigvalsh(H)
    rates = 1 / (values[:, -1] + n / b * np.diagonal(H, axis1=1, axis2=2).max(axis=1))
    slowest = np.log(1 / SHARE) / (2 * rates * values[:, 0])
    steps, every = recorded(MOST * float(slowest.max()))
    done = side_by_side(
        network, sets, [(float(rate), 0.0, key) for rate, key in zip(rates, keys, strict=True)], steps, record=every,
        measures=(), batch=b, sampling="independent", device="cpu", stop_below=SHARE,
    )  # fmt: skip
    found = []
    for seed in range(SEEDS):
        reached = steps_to_share(done.steps, done.records["loss"][seed], SHARE)
        taken = None if reached is None or not np.isfinite(reached) else float(reached)
        found.append({"steps": taken, "slowest": float(slowest[seed])})
    return found


def powers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each size, fitted through the runs that got there."""
    found = []
    for name, sizes in SIZES.items():
        others = {key: value for key, value in BASE.items() if key != name}
        own = [row for row in rows if all(row[key] == value for key, value in others.items()) and row["steps"]]
        fit = fit_powers({name: np.array([row[name] for row in own])}, np.array([row["steps"] for row in own]))
        found.append({"size": name, "least": min(sizes), "largest": max(sizes), "runs": len(own),
                      "power": fit and fit.exponents[name], "error": fit and fit.errors[name]})  # fmt: skip
    return found


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    points = list({tuple({**BASE, name: value}.values()) for name, values in SIZES.items() for value in values})
    rows = []
    for point in sorted(points, key=lambda one: (one[2] * one[2] * one[1], one[0] / one[3])):
        named = dict(zip(BASE, point, strict=True))
        kept = out / ("-".join(map(str, point)) + ".json")
        if not kept.is_file():
            kept.write_text(json.dumps([{**named, "seed": seed, **one} for seed, one in enumerate(count(**named))]))
        rows += json.loads(kept.read_text())
        print(rows[-SEEDS:], flush=True)
    save("sgd_iterations", processor(), [*powers(rows), *rows], f"{SEEDS} seeds")
