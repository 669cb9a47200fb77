"""A training run held against the law of its loss's class, and the rate at which it falls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from overparam.core import sections
from overparam.core.bracketed import Assumption, checked
from overparam.theory.descent_laws import WORDS, AccuracyLaw, DescentLaw, accuracy_law, fit_constant, share_explained

Pace = Literal["faster", "as the law", "slower"]

REFERENCE = "convergence, Thm 6, App. A"


@final
@dataclass(frozen=True, eq=False)
class IterationLaw:
    """A run beside the law of its loss's class; everything is at `steps`.

    observed: what the law bounds: the excess loss (summed over samples), or the smallest ‖loss‖ so far. predicted: the
    law with `constant`. standard_error: of the fitted constant, None where it was given or from one record. needed: the
    smallest constant with which no record lies above the law; inf where none has. exponent: how the run's own progress
    grows with T; the law says 1. r_squared: of the law with `constant`, in the coordinates it is fitted in.
    largest_ratio: of observed to predicted.
    """

    objective: str
    kind: str
    law: str
    quantity: str
    steps: np.ndarray
    observed: np.ndarray
    predicted: np.ndarray
    constant: float
    standard_error: float | None
    needed: float
    exponent: float | None
    exponent_error: float | None
    r_squared: float | None
    largest_ratio: float
    rate: LinearRate | None
    accuracy: AccuracyLaw | None
    assumptions: tuple[Assumption, ...]
    sigma: float = 1.0
    reference: str = REFERENCE

    @property
    def below(self) -> bool:
        """Whether no record lies above the law with `constant`."""
        return bool(self.largest_ratio <= 1 + 1e-9)

    @property
    def pace(self) -> Pace:
        """Whether the run gains on the law as T grows, by more than twice the exponent's standard error."""
        if self.exponent is None:
            return "as the law"
        margin = max(1e-9, 2 * (self.exponent_error or 0.0))
        return "faster" if self.exponent > 1 + margin else "slower" if self.exponent < 1 - margin else "as the law"

    def steps_to(self, epsilon: float) -> float:
        """The law's T with `constant`; 0 where the run starts below ε."""
        return DescentLaw(self.kind, self.sigma).steps_to(epsilon, float(self.observed[0]), self.constant)

    def sections(self) -> tuple[sections.Section, ...]:
        """What the page of a run shows of it."""
        numbers: list[tuple[str, float | str | None]] = [
            ("constant c", self.constant),
            ("its standard error", self.standard_error),
            ("smallest c with no record above the law", self.needed if np.isfinite(self.needed) else "none"),
            ("exponent of the run (the law: 1)", self.exponent),
            ("its standard error", self.exponent_error),
            ("R² of the law", self.r_squared),
            ("largest observed/law", self.largest_ratio if np.isfinite(self.largest_ratio) else None),
        ]
        if self.rate is not None:
            numbers += [("fitted rate a step", self.rate.rate), ("its standard error", self.rate.standard_error)]
        if self.accuracy is not None:
            numbers.append((f"step of summed loss ≤ {self.accuracy.threshold:g}, by the law", self.accuracy.predicted))
            numbers.append(("the same, observed", self.accuracy.loss_below))
            numbers.append(("first record with every label right", self.accuracy.all_right))
        curves = [
            sections.series("observed", self.steps, _positive(self.observed), mark="points", role="observed"),
            sections.series("the law, fitted", self.steps, _positive(self.predicted), role="muted", dashed=True),
        ]
        caption = f"{self.quantity}, and the law with c = {self.constant:.4g}"
        if np.isfinite(self.needed) and self.needed > 0:
            bound = DescentLaw(self.kind, self.sigma).curve(self.steps, float(self.observed[0]), self.needed)
            curves.append(sections.series("the law, above every record", self.steps, _positive(bound), role="accent"))
            caption += f"; with c = {self.needed:.4g} it bounds every record"
        blocks: tuple[sections.Block, ...] = (
            sections.Text(self.summary()),
            sections.Figure("The run and its law", f"{caption}.", "step", self.quantity, tuple(curves), y_scale="log"),
            sections.Table(("of the fit", "value"), tuple(numbers)),
            sections.Table(
                ("the theorem asks", "here", ""),
                tuple((a.statement, a.status, a.detail) for a in self.assumptions),
                caption=self.reference,
            ),
        )
        return (sections.Section("The law of convergence", blocks),)

    def summary(self) -> str:
        """Two sentences: the law, and how the run stands to it."""
        whole = (
            "no record lies above it" if self.below else f"records lie up to {self.largest_ratio:.3g} times above it"
        )
        how = {"faster": "gains on it", "as the law": "keeps its pace", "slower": "falls behind it"}[self.pace]
        kind = "the fitted constant" if self.standard_error is not None else "the constant"
        bound = f"; with c = {self.needed:.3g} it bounds every record" if np.isfinite(self.needed) else ""
        return (
            f"For a {self.kind} loss {self.law}. With {kind} c = {self.constant:.3g} {whole}{bound}, and the run "
            f"{how} as T grows."
        )


def iteration_law(
    run: Any,
    objective: Any = None,
    *,
    constant: float | None = None,
    minimum: float = 0.0,
    floor: float | None = None,
) -> IterationLaw:
    """The law of convergence of a loss's class beside a run.

        gradient-dominant    F(T) ≤ F(0) exp(−σT/c)          T = (c/σ) log(F(0)/ε)
        convex               1/F(T) ≥ 1/F(0) + T/c           T = c (1/ε − 1/F(0))
        bounded non-convex   min_{t≤T} ‖loss(t)‖² ≤ c/T      T = c/ε²

    c is the theorem's poly(n, L)/δ², given or fitted by least squares: of log F against T for the first law, of the
    logarithms of both sides of T = c·progress for the others. `loss` is the gradient in the outputs, all samples
    together.

    Ref: convergence, Thm 6, App. A, footnote 16

    Assumes: a Lipschitz-smooth loss, gradient descent with a small enough rate, a network as wide as the theorem asks.

    Differs from the paper: it bounds; a fit is no bound, so `needed` is the constant that bounds every record. The
    convex law needs a minimiser of bounded norm, which cross-entropy does not have: marked unmet.

    Args:
        run: a `Trajectory`, or (steps, values): the summed loss, or ‖loss‖ for a bounded non-convex objective.
        objective: a loss, its name or its class; the run's own if None.
        constant: c, where it should not be fitted.
        minimum: of the summed objective, subtracted from the losses.
        floor: records at or below this are rounding and are left out of the fit; by the run's digits if None.

    F(T) = 2^(−T) is the linear law with c = 1/log 2:

    >>> law = iteration_law(([0, 1, 2, 3], [1.0, 0.5, 0.25, 0.125]), "squared")
    >>> round(law.constant * float(np.log(2)), 12), law.below, law.pace, round(law.steps_to(1 / 1024), 9)
    (1.0, True, 'as the law', 10.0)
    """
    name, kind, sigma, smoothness = _class_of_loss(run, objective)
    steps, observed, quantity = _bounded(run, kind, minimum)
    law, first = DescentLaw(kind, sigma), float(observed[0])
    if not (np.isfinite(first) and first > 0):
        raise ValueError(f"the first {quantity} is {first:g}; a law needs a finite number > 0 to start from")
    progress = law.progress(observed, first)
    lowest = rounding_floor(run, first) if floor is None else float(floor)
    used = (steps > 0) & np.isfinite(progress) & (progress > 0) & (observed > lowest)
    if constant is None and not used.any():
        raise ValueError("no record after step 0 is below the first; there is no law to fit")
    T, gone = steps[used].astype(np.float64), progress[used]
    fitted, error = fit_constant(law, T, gone) if len(T) else (None, None)
    if constant is None:
        assert fitted is not None
        constant, standard_error = fitted, error
    elif constant > 0 and np.isfinite(constant):
        constant, standard_error = float(constant), None
    else:
        raise ValueError(f"`constant` is {constant!r}; expected a number > 0")
    exponent = exponent_error = None
    if len(T) > 1:
        exponent, _, exponent_error, _ = straight_line(np.log(T), np.log(gone))
    predicted = law.curve(steps, first, constant)
    seen = (steps > 0) & ~(observed <= lowest)  # what is not a number is seen, and above every law
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(observed[seen] / predicted[seen], nan=np.inf, posinf=np.inf)
        needed = np.where(progress[seen] > 0, steps[seen] / progress[seen], np.inf)
    return IterationLaw(
        objective=name,
        kind=kind,
        law=law.words,
        quantity=quantity,
        steps=steps,
        observed=observed,
        predicted=predicted,
        constant=constant,
        standard_error=standard_error,
        needed=float(np.max(needed, initial=0.0)),
        exponent=exponent,
        exponent_error=exponent_error,
        r_squared=share_explained(law, T, gone, constant),
        largest_ratio=float(np.max(ratios, initial=0.0)),
        rate=_rate(kind, observed, steps, lowest),
        accuracy=accuracy_law(run, name, constant, steps, observed),
        assumptions=_assumptions(run, name, kind, sigma, smoothness, observed),
        sigma=sigma,
    )


def _class_of_loss(run: Any, objective: Any) -> tuple[str, str, float, float | None]:
    """Name, class, σ and smoothness of the objective: as given, else the run's own."""
    from overparam.training.losses import as_loss

    if objective is None:
        if not hasattr(run, "algorithm"):
            raise ValueError(
                f"`objective` is needed with (steps, losses): a loss, its name, or one of {', '.join(WORDS)}"
            )
        own = run.algorithm["objective"]
        return own["name"], own["kind"], own["dominance"] or 1.0, own["smoothness"]
    if isinstance(objective, str) and objective in WORDS:
        return f"a {objective} loss", objective, 1.0, None
    loss = as_loss(objective)
    return loss.name, loss.kind, loss.dominance or 1.0, loss.smoothness


def _bounded(run: Any, kind: str, minimum: float) -> tuple[np.ndarray, np.ndarray, str]:
    """Steps, and what the law bounds at them."""
    steps, values = steps_and_losses(run)
    if steps[0] != 0:
        raise ValueError(f"the first record is of step {steps[0]}; the law starts at step 0")
    of_run = hasattr(run, "records")
    if kind == "bounded non-convex":
        if of_run and "output_gradient_norm" not in run.records:
            raise ValueError("this run has no gradient in the outputs; train with measures=(…, 'gradient')")
        return steps, np.fmin.accumulate(run.output_gradient_norm if of_run else values), "smallest ‖loss‖ so far"
    if of_run and run.loss_convention == "mean":
        values = values * run.n
    return steps, values - minimum, "loss" if minimum == 0 else "loss − minimum"


def _rate(kind: str, observed: np.ndarray, steps: np.ndarray, floor: float) -> LinearRate | None:
    used = np.isfinite(observed) & (observed > floor)
    if kind != "gradient-dominant" or used.sum() < 2:
        return None
    return linear_rate((steps[used], observed[used]), floor=floor)


def _assumptions(
    run: Any, name: str, kind: str, sigma: float, smoothness: float | None, observed: np.ndarray
) -> tuple[Assumption, ...]:
    known = name in ("squared", "cross-entropy", "smooth-absolute", "ramp")
    declared = "" if known else "as declared"
    algorithm = getattr(run, "algorithm", None)
    of_kind = {
        "gradient-dominant": (f"‖∇f‖² ≥ 2σ (f − min f), σ = {sigma:g}", True if known else None, declared),
        "convex": (
            "f is convex with a minimiser of bounded norm",
            name != "cross-entropy" if known else None,
            "its infimum lies at infinity" if name == "cross-entropy" else declared,
        ),
        "bounded non-convex": ("f is bounded", True if known else None, declared),
    }[kind]
    smooth = None if not known else smoothness is not None and smoothness <= 1
    falls = bool(np.isfinite(observed).all() and (np.diff(observed) <= 0).all())
    return (
        checked("the gradient of f is 1-Lipschitz in the outputs", smooth, "" if smooth is None else f"of {name}"),
        checked(*of_kind),
        checked(
            "full-batch gradient descent",
            None if algorithm is None else algorithm.name == "GradientDescent",
            str(algorithm or ""),
        ),
        checked("a rate small enough: the bounded quantity never rises", falls, "at the recorded steps"),
        checked("rows at distance δ or more, width at least poly(n, L, 1/δ)", None),
    )


def _positive(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, np.nan)


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
        raise ValueError(
            f"a rate needs two records with a loss above rounding from step {since} on, got {int(used.sum())}"
        )
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
