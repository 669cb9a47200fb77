"""A run and its prediction in single numbers, for verdicts, tables and result.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from overparam.analysis.run_answers import Predicted, RunNumbers, RunSetting, largest, relative_error
from overparam.theory.dynamics import GROWN
from overparam.theory.iteration_laws import rounding_floor
from overparam.theory.lazy_regime import BORDERLINE, LAZY
from overparam.training import Trajectory


def measure_run(
    setting: RunSetting, predicted: Predicted | None, run: Trajectory, lazy: tuple[float | None, float | None]
) -> RunNumbers:
    """The comparison at the last step, and the largest errors on the way; `lazy` as in `forecast.lazy_choices`."""
    loss = run.loss
    grown = ~(loss <= GROWN * loss[0])  # NaN too
    lost = bool(grown[-1])  # and with the loss all that was measured
    moved = float(run.total_movement[-1]) if "movement" in run.records and not lost else None
    observed_lazy = None
    if moved is not None and setting.lazy_scale is not None:
        observed_lazy = float(setting.neurons_moved(run)[-1]) / setting.lazy_scale
    worst, where, draw, movement, distance = None, None, None, None, None
    expected_lazy = None
    if predicted is not None:
        floor = rounding_floor(run, loss[0])
        seen = np.where(grown, np.nan, loss)[np.isin(run.steps, predicted.steps)]
        worst, where = largest(relative_error(seen, predicted.values, floor))
        with np.errstate(invalid="ignore"):
            distance = _finite(largest(np.abs(seen - predicted.values) / loss[0])[0]) if loss[0] > 0 else None
        if predicted.linearised is not None:
            draw = largest(relative_error(predicted.linearised, predicted.values, floor))[0]
            movement = largest(relative_error(seen, predicted.linearised, floor))[0]
        expected_lazy = None if predicted.laziness is None else _finite(predicted.laziness[-1])
    sizes = [value for value in (observed_lazy, expected_lazy) if value is not None and np.isfinite(value)]
    return RunNumbers(
        last_step=int(run.steps[-1]),
        first_loss=float(loss[0]),
        last_loss=None if lost else float(loss[-1]),
        predicted_last_loss=None if predicted is None else _finite(predicted.values[-1]),
        largest_error=worst,
        largest_error_step=None if where is None or predicted is None else int(predicted.steps[where]),
        largest_distance=distance,
        error_of_draw=draw,
        error_of_movement=movement,
        movement=_finite(moved),
        predicted_movement=None if predicted is None else _finite(predicted.movement[0, -1]),
        laziness=_finite(observed_lazy),
        predicted_laziness=expected_lazy,
        regime=_regime(max(sizes)) if sizes else None,
        flips=float(run.flips[-1].mean()) if "flips" in run.records and not lost else None,
        predicted_flips=None if predicted is None or predicted.flips is None else _finite(predicted.flips[-1]),
        train_error=None if lost else _error(setting, run, ""),
        test_error=None if lost else _error(setting, run, "test_"),
        predicted_test_error=None
        if predicted is None or predicted.test_error is None
        else _finite(predicted.test_error[-1]),
        kernel_from_limit=_end(run, "kernel_from_limit", 0),
        kernel_from_start=None if lost else _end(run, "kernel_from_start", -1),
        diverged=bool(grown.any()),
        lazy_width=lazy[0],
        lazy_kappa=lazy[1],
        milliseconds_a_step=1e3 * run.seconds_per_step,
    )


def _regime(laziness: float) -> str:
    return "lazy" if laziness <= LAZY else "borderline" if laziness <= BORDERLINE else "not lazy"


def _finite(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def _end(run: Trajectory, name: str, place: int) -> float | None:
    return _finite(run.records[name][place]) if name in run.records else None


def _error(setting: RunSetting, run: Trajectory, part: str) -> float | None:
    """At the end, on training rows ("") or new ones ("test_")."""
    if setting.task != "regression":
        return _finite(1 - run.records[f"{part}accuracy"][-1]) if f"{part}accuracy" in run.records else None
    if part:
        return _finite(2 * run.records["test_loss"][-1]) if "test_loss" in run.records else None
    share = 2 / setting.n if setting.loss == "sum" else 2.0
    return _finite(share * run.loss[-1])
