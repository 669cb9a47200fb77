"""How fast a loss falls when it falls by a constant factor a step: the rate, fitted, with its standard error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np


@final
@dataclass(frozen=True)
class LinearRate:
    """log F(s) ≈ log F₀ − rate·s, by least squares over the recorded steps.

    rate: a step, natural logarithm. standard_error: of the rate, as if the scatter of the records about the line were
    independent; None for two records. r_squared: the share of the variation of log F on the line. first, last: the steps
    it was fitted over.
    """

    rate: float
    standard_error: float | None
    intercept: float
    r_squared: float
    first: int
    last: int
    reference: str = "convergence, Thm 1, Thm 2"

    @property
    def factor(self) -> float:
        """F(s + 1)/F(s) on the line."""
        return float(np.exp(-self.rate))

    def at(self, steps: Any) -> np.ndarray:
        """The line, as a loss."""
        return np.exp(self.intercept - self.rate * np.asarray(steps, dtype=np.float64))


def linear_rate(run: Any, *, since: int = 0, until: int | None = None, floor: float | None = None) -> LinearRate:
    """The rate of a run whose loss falls by a factor 1 − Ω(ηδm/(kn²)) at every step, fitted.

    The theorems say that such a rate exists for GD and for SGD, not its constant. A loss that falls along many
    eigenvalues falls fast first and slowly last: `since` leaves the first part out.

    Ref: convergence, Thm 1, Thm 2, Eq. (12.2)

    Args:
        run: a `Trajectory`, or (steps, losses).
        since, until: fit over the records of these steps alone.
        floor: records at or below this are rounding and are left out; by the run's digits if None.

    >>> round(linear_rate(([0, 1, 2], [8.0, 4.0, 2.0])).factor, 12)
    0.5
    """
    steps, loss = steps_and_losses(run)
    last = steps[-1] if until is None else until
    lowest = rounding_floor(run, loss[0]) if floor is None else float(floor)
    used = (steps >= since) & (steps <= last) & np.isfinite(loss) & (loss > max(lowest, 0.0))
    if used.sum() < 2 or steps[used][0] == steps[used][-1]:
        raise ValueError(f"{int(used.sum())} records from step {since} on have a loss above rounding; a rate needs two")
    slope, intercept, error, r_squared = straight_line(steps[used].astype(np.float64), np.log(loss[used]))
    return LinearRate(-slope, error, intercept, r_squared, int(steps[used][0]), int(steps[used][-1]))


def rounding_floor(run: Any, first: float) -> float:
    """A loss this small is the rounding of its residuals: about 1e-26 of the first one in float64."""
    return float(first) * 10.0 ** (-2 * (getattr(run, "digits", 15) - 2)) if np.isfinite(first) else 0.0


def steps_and_losses(run: Any) -> tuple[np.ndarray, np.ndarray]:
    """Steps and losses of a `Trajectory` or of a pair, in the order of the steps."""
    pair = (run.steps, run.loss) if hasattr(run, "records") else run
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"`run` is a {type(run).__name__}; expected a Trajectory or (steps, losses)")
    steps, loss = np.asarray(pair[0], dtype=np.int64), np.asarray(pair[1], dtype=np.float64)
    if steps.ndim != 1 or steps.shape != loss.shape or not len(steps) or (np.diff(steps) <= 0).any() or steps[0] < 0:
        raise ValueError(
            f"steps have shape {steps.shape} and losses {loss.shape}; expected one loss a step, steps ≥ 0 and rising"
        )
    return steps, loss


def straight_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float | None, float]:
    """Slope, intercept, the slope's standard error (None for two points) and R² of the least-squares line.

    >>> straight_line(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0]))
    (2.0, 1.0, 0.0, 1.0)
    """
    from_mean = x - x.mean()
    spread = float(from_mean @ from_mean)
    slope = float(from_mean @ y) / spread
    intercept = float(y.mean() - slope * x.mean())
    residuals = y - intercept - slope * x
    around = y - y.mean()
    total, left = float(around @ around), float(residuals @ residuals)
    error = None if len(x) < 3 else float(np.sqrt(left / (len(x) - 2) / spread))
    return slope, intercept, error, 1.0 - left / total if total > 0 else 1.0
