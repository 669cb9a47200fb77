"""A training run set beside its prediction, as frozen data: what was trained, what was foretold, what came out."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from overparam.core.bracketed import Bracketed


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
