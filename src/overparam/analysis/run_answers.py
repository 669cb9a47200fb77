"""A training run set beside its prediction, as frozen data: what was trained, what was foretold, what came out."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from overparam.core.bracketed import Bracketed
from overparam.theory.dynamics import GROWN
from overparam.theory.iteration_laws import rounding_floor
from overparam.theory.lazy_regime import BORDERLINE, LAZY
from overparam.training import Trajectory


@dataclass(frozen=True)
class RunSetting:
    """What was trained on what, and how."""

    data: str
    n: int
    d: int
    outputs: int
    test_rows: int
    task: str
    classes: tuple[str, ...]
    notes: tuple[str, ...]
    network: str
    algorithm: str
    objective: str
    width: int | None
    """Neurons of a layer; None where a layer has positions too, or is not known."""
    kappa: float | None
    paired: bool
    starts_at_zero: bool
    """Whether every training row has output 0 before the first step."""
    lr: float
    loss: str
    """What the rate refers to: "sum" or "mean"."""
    momentum: float
    limit: Bracketed | None
    """The largest stable rate; None where no kernel gives one."""
    rate_by: str
    """How the rate was chosen; empty where it was given."""
    lazy_scale: float | None
    """√m κ, what a movement is divided by to give its laziness; √(Σ_ℓ m_ℓ σ_ℓ²) for networks of dense layers."""
    dtype: str
    output_layer: str = ""
    """The trained layer after the last ReLU, whose movement laziness leaves out; empty where there is none."""
    linear: bool = False
    """Whether nothing else is trained."""

    def neurons_moved(self, run: Any) -> np.ndarray:
        """How far all trained layers below the output layer moved together, at every record of a `Trajectory`."""
        hidden = [place for place, name in enumerate(run.layers) if name != self.output_layer]
        return np.sqrt((run.records["movement"][:, hidden] ** 2).sum(axis=1))


@dataclass(frozen=True, eq=False)
class Predicted:
    """What was known before the first step, at `steps`.

    values, lower, upper: the training loss and its bracket, a theorem for the infinitely wide network where `certified`.
    status: of the rate, "stable", "unstable" or "undecided"; an unstable one has infinite values from where the loss
    has grown 1,000-fold. kernel: whose, that of "infinite width" or, for networks without one, of the drawn network at
    its "start". movement: ‖W(s) − W(0)‖_F, rows are value, lower, upper. laziness: movement/(√m κ).
    flips: the expected share of ReLU signs that differ from the start. linearised: the loss of the drawn network
    linearised at its start, which has its own kernel H(0) in place of the limit. test_error, test_loss: on new rows.
    None where there is no law or nothing to predict on.
    """

    steps: np.ndarray
    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    certified: np.ndarray
    status: str
    reason: str
    kernel: str
    movement: np.ndarray
    movement_certified: np.ndarray
    laziness: np.ndarray | None
    flips: np.ndarray | None
    linearised: np.ndarray | None
    test_error: np.ndarray | None
    test_loss: np.ndarray | None
    products: int

    def at(self, steps: Any) -> Predicted:
        """The same at those of its steps that are among `steps`."""
        keep = np.isin(self.steps, steps)
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{k: v[..., keep] for k, v in arrays.items() if isinstance(v, np.ndarray)})


@dataclass(frozen=True)
class RunNumbers:
    """The comparison in single numbers, at the last step where nothing else is said; None where there is none.

    Errors of the loss are observed/predicted − 1, relative to the prediction. `error_of_draw` is
    linearised/predicted − 1, what the draw of finitely many neurons adds; `error_of_movement` is
    observed/linearised − 1, what the movement of the weights adds. `largest_distance` is |observed − predicted| over
    the first loss, the sense in which Thm 4.1 bounds the error. All four are the largest in size over the steps.
    """

    last_step: int
    first_loss: float
    last_loss: float | None
    predicted_last_loss: float | None
    largest_error: float | None
    largest_error_step: int | None
    largest_distance: float | None
    error_of_draw: float | None
    error_of_movement: float | None
    movement: float | None
    predicted_movement: float | None
    laziness: float | None
    predicted_laziness: float | None
    regime: str | None
    flips: float | None
    predicted_flips: float | None
    train_error: float | None
    test_error: float | None
    predicted_test_error: float | None
    kernel_from_limit: float | None
    """‖H(0) − H∞‖_F / ‖H∞‖_F at the start."""
    kernel_from_start: float | None
    """‖H(s) − H(0)‖_F / ‖H(0)‖_F at the end."""
    diverged: bool
    """Whether the observed loss grew 1,000-fold or out of all numbers."""
    lazy_width: float | None
    """The width from which the same run would be lazy, at the same κ."""
    lazy_kappa: float | None
    """The κ from which the same run would be lazy, at the same width."""
    milliseconds_a_step: float


def relative_error(observed: np.ndarray, predicted: np.ndarray, floor: float = 0.0) -> np.ndarray:
    """observed/predicted − 1, NaN where there is no finite prediction above `floor`, the rounding of the run.

    >>> relative_error(np.array([1.1, 2.0, 1e-30]), np.array([1.0, np.inf, 1e-33]), 1e-26).round(3)
    array([0.1, nan, nan])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        error = observed / predicted - 1
    return np.where(np.isfinite(predicted) & (predicted > floor), error, np.nan)


def largest(errors: np.ndarray) -> tuple[float | None, int | None]:
    """The error that is largest in size, with its sign, and its place; None where none is a number.

    >>> largest(np.array([0.1, -0.3, np.nan]))
    (-0.3, 1)
    """
    if not np.isfinite(errors).any():
        return None, None
    place = int(np.nanargmax(np.where(np.isfinite(errors), np.abs(errors), np.nan)))
    return float(errors[place]), place


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
