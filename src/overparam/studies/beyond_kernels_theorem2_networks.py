"""The network's side of `beyond-kernels-theorem2`: the three-layer ResNet trained by SGD on Theorem 2's data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from overparam.data import Dataset, ParityTarget
from overparam.networks import ThreeLayerResNet
from overparam.training import StepDecay, side_by_side

HELD_OUT = 8
"""One row of so many chooses rate and decay, and is not trained on."""

Cell = tuple[int, float, int]
"""N, α and the seed of rows and first weights."""


def target_of(d: int, k: int, alpha: float, base: int, seed: int) -> ParityTarget:
    """Theorem 2's target of a seed: the same S for every N and α."""
    return ParityTarget.theorem2(d, k, alpha=alpha, key=[base, seed, d, 1])


def rows_key(d: int, base: int, seed: int) -> list[int]:
    """Of the rows of a seed: kernels and networks see the same ones, fewer samples are the first of more."""
    return [base, seed, d, 2]


def rows(target: ParityTarget, N: int, most: int, test: int, key: Any) -> Dataset:
    """7N/8 training rows, repeated to 7/8 of `most`; as test rows N/8 that choose, repeated too, then new ones.

    Inputs are scaled by √d to ±1, as F(x) = √d x_i asks. Repeated rows change no mean and no chance of being drawn; one
    compiled program then serves every N.
    """
    data = target.sample(N, key=key, test=test)
    assert data.test is not None
    times, held = most // N, N // HELD_OUT
    X, new = data.X * target.d**0.5, data.test.X * target.d**0.5
    judged = np.concatenate([np.tile(X[N - held :], (times, 1)), new])
    right = np.concatenate([np.tile(data.y[N - held :], (times, 1)), data.test.y])
    after = Dataset(judged, right, labels=right, task="regression")
    y = np.tile(data.y[: N - held], (times, 1))
    return Dataset(np.tile(X[: N - held], (times, 1)), y, labels=y, task="regression", test=after)


def trained(
    d: int,
    cells: Sequence[Cell],
    *,
    k: int,
    width: int,
    rates: Sequence[float],
    decays: Sequence[float],
    steps: int,
    batch: int,
    momentum: float,
    test: int,
    base: int,
    device: str | None,
    checkpoint: Path | None,
    progress: Any,
) -> dict[str, np.ndarray]:
    """Every cell with every rate and decay as one program: errors E‖H − out‖² of shape (cells, rates, decays).

    `fit` is on the rows trained on, `held` on those held out, `error` on new ones with its standard error `spread`.
    The rate is divided by 10 after half of the steps.
    """
    most = max(N for N, _, _ in cells)
    sets, settings = [], []
    for N, alpha, seed in cells:
        data = rows(target_of(d, k, alpha, base, seed), N, most, test, rows_key(d, base, seed))
        for rate in rates:
            for decay in decays:
                sets.append(data)
                settings.append((rate, decay, 1000 * base + seed))
    found = side_by_side(
        ThreeLayerResNet(width, outputs=k), sets, settings, steps, batch=batch, momentum=momentum, loss="mean",
        schedule=StepDecay((steps // 2,)), record=steps, measures=("outputs",), dtype="float32", device=device,
        place=checkpoint, progress=progress,
    )  # fmt: skip
    held = most // HELD_OUT
    shape = (len(cells), len(rates), len(decays))
    targets = np.stack([one.test.y for one in sets if one.test is not None])
    with np.errstate(over="ignore", invalid="ignore"):  # runs that diverged
        squares = ((found.final("test_outputs") - targets) ** 2).sum(axis=2)
        new = squares[:, held:]
        return {
            "fit": 2 * found.final("loss").reshape(shape),  # the objective has a factor ½
            "held": squares[:, :held].mean(axis=1).reshape(shape),
            "error": new.mean(axis=1).reshape(shape),
            "spread": (new.std(axis=1, ddof=1) / np.sqrt(test)).reshape(shape),
            "seconds_per_step": np.array(found.seconds_per_step),
        }


def chosen(run: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """For every cell: what the held-out rows choose, and what the new rows themselves would (`least`, flattered).

    Settings that diverged do not count; a cell where all did has infinite errors.
    """
    cells = len(run["held"])
    flat = {what: run[what].reshape(cells, -1) for what in ("held", "error", "spread", "fit")}
    held = np.where(np.isfinite(flat["held"]), flat["held"], np.inf)
    best, place = held.argmin(axis=1), np.arange(cells)
    error = np.where(np.isfinite(flat["error"]), flat["error"], np.inf)
    found = {what: flat[what][place, best] for what in ("spread", "fit", "held")}
    decays = run["held"].shape[2]
    return found | {
        "error": error[place, best],
        "least": error.min(axis=1),
        "rate": best // decays,
        "decay": best % decays,
    }
