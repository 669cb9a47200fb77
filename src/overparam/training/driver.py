"""`train`: any algorithm on any network, recorded on the way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from overparam.core.checks import whole_number
from overparam.core.network import as_key
from overparam.core.progress import Progress, silent
from overparam.data import as_dataset
from overparam.training.algorithm import AbstractAlgorithm
from overparam.training.inputs import Trainee, as_network, initial, record_steps
from overparam.training.precision import checked_dtype, computing
from overparam.training.runner import Runner
from overparam.training.trajectory import Trajectory

KERNEL_ROWS = 1000
"""Rows on which the drift of the kernel is measured unless told."""


def train(
    network: Trainee,
    data: Any,
    algorithm: AbstractAlgorithm,
    steps: int,
    *,
    key: Any = 0,
    params: Any = None,
    record: int | Sequence[int] | None = None,
    measures: Sequence[str] | None = None,
    kernel_rows: int = KERNEL_ROWS,
    rows_at_once: int | None = None,
    dtype: str = "float64",
    device: str | None = None,
    stop_below: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
    progress: Progress | None = None,
) -> Trajectory:
    """Train a network with an algorithm and record what happens on the way.

    The steps between two records run as one compiled loop. A run with a `checkpoint` folder that is killed goes on
    when called again and ends in the same bits (same machine, versions and device); with more `steps` it goes on too.

    Args:
        network: a network of the house, or any function `apply(params, x)` with `params=`.
        data: a `Dataset` or (X, y); its test rows are recorded too.
        algorithm: `GradientDescent`, `SGD`, ….
        steps: how many.
        key: an int or a JAX key: of the initialisation and of all draws of the algorithm.
        params: where to start: a `Params`, or the pytree of trained weights; fresh ones from `key` if None.
        record: the steps to record, or every how many; about 40, evenly in log(step), if None.
        measures: out of "outputs", "movement", "spectral", "flips", "kernel", "gradient"; all of them if None
            (outputs only while they stay below 128 MiB). Loss and accuracy are always recorded. "weights" is recorded
            where it is named: all trained weights as one row, for `op.landscape`.
        kernel_rows: the drift of the kernel is measured on that many rows.
        rows_at_once: a record sends that many rows through the network together; as many as fit if None.
        dtype: "float64", "float32", or "tf32" (float32 with products rounded to 3 digits, on NVIDIA GPUs).
        device: "cpu", "gpu" or None for the one JAX prefers.
        stop_below: stop at the first record whose loss is at most this share of the first one.
        checkpoint: a folder in which the run is kept while it goes.
        checkpoint_seconds: how often.
        progress: called with the steps done.
    """
    checked_dtype(dtype, device)
    steps, data = whole_number(steps, "steps"), as_dataset(data)
    with computing(dtype, device) as kind:
        house, chosen_key = as_network(network, params), as_key(key)
        start = initial(house, data, params, chosen_key, kind)
        runner = Runner(house, algorithm, data, start, chosen_key, dtype, device)
        runner.prepare(record_steps(record, steps), measures, kernel_rows, rows_at_once)
        state, step, stopped = runner.go(steps, stop_below, checkpoint, checkpoint_seconds, progress or silent)
        return runner.trajectory(state, step, stopped)
