"""The laws of convergence by the class of the loss: how many steps bring a run how far, and when every label is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

WORDS = {
    "gradient-dominant": "the loss falls at a linear rate: T = (c/σ) log(F(0)/ε) steps bring it to ε",
    "convex": "the loss falls like 1/T: T = c (1/ε − 1/F(0)) steps bring it to ε",
    "bounded non-convex": "the smallest gradient in the outputs falls like T^(−1/2): T = c/ε² steps bring it to ε",
}


@final
@dataclass(frozen=True)
class DescentLaw:
    """T = c · progress, where progress tells how far a run has come from its first value F(0) to F.

        gradient-dominant    log(F(0)/F)/σ    so F(T) = F(0) exp(−σT/c)
        convex               1/F − 1/F(0)     so F(T) = 1/(1/F(0) + T/c)
        bounded non-convex   1/F²             so F(T) = √(c/T), F the smallest ‖loss‖ so far

    Ref: convergence, Thm 6, App. A

    >>> DescentLaw("convex").steps_to(0.1, 1.0, constant=2.0)  # 2 (10 − 1)
    18.0
    """

    kind: str
    sigma: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in WORDS:
            raise ValueError(f"`kind` is {self.kind!r}; expected one of {', '.join(WORDS)}")

    @property
    def words(self) -> str:
        return WORDS[self.kind]

    @property
    def in_logarithms(self) -> bool:
        """Whether progress spans magnitudes, so that the law is fitted in logarithms; of the first it is one already."""
        return self.kind != "gradient-dominant"

    def progress(self, values: np.ndarray, first: float) -> np.ndarray:
        """How far each value is from the first one; the law says at least T/c."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.kind == "gradient-dominant":
                return np.log(first / values) / self.sigma
            return 1 / values - 1 / first if self.kind == "convex" else 1 / values**2

    def curve(self, steps: np.ndarray, first: float, constant: float) -> np.ndarray:
        """The largest value the law allows after each number of steps; inf where it claims nothing."""
        with np.errstate(divide="ignore", under="ignore"):
            if self.kind == "gradient-dominant":
                return first * np.exp(-self.sigma * steps / constant)
            return 1 / (1 / first + steps / constant) if self.kind == "convex" else np.sqrt(constant / steps)

    def steps_to(self, epsilon: float, first: float, constant: float) -> float:
        """T at which the curve is at ε; 0 where it starts below."""
        if not epsilon > 0:
            raise ValueError(f"`epsilon` is {epsilon!r}; expected a number > 0")
        return float(constant * max(0.0, float(self.progress(np.array(epsilon), first))))


def fit_constant(law: DescentLaw, T: np.ndarray, progress: np.ndarray) -> tuple[float, float | None]:
    """c of T = c·progress by least squares, and its standard error as if the records scattered independently.

    >>> fit_constant(DescentLaw("gradient-dominant"), np.array([1.0, 2.0]), np.array([0.5, 1.0]))
    (2.0, 0.0)
    """
    count = len(T)
    if law.in_logarithms:
        logs = np.log(T / progress)
        constant = float(np.exp(logs.mean()))
        return constant, None if count < 2 else float(constant * logs.std(ddof=1) / np.sqrt(count))
    slope = float(T @ progress / (T @ T))
    left = progress - slope * T
    spread = None if count < 2 else float(np.sqrt(left @ left / (count - 1) / (T @ T)))
    return 1 / slope, None if spread is None else spread / slope**2


def share_explained(law: DescentLaw, T: np.ndarray, progress: np.ndarray, constant: float) -> float | None:
    """R² of T = c·progress in the coordinates it is fitted in; None for fewer than two records."""
    y, line = (np.log(progress), np.log(T / constant)) if law.in_logarithms else (progress, T / constant)
    around, left = y - y.mean() if len(y) else y, y - line
    return float(1 - left @ left / (around @ around)) if len(y) > 1 and around @ around > 0 else None


def iterations_needed(
    kind: str,
    epsilon: float,
    *,
    n: int,
    depth: int,
    separation: float,
    sigma: float = 1.0,
    diameter: float = 1.0,
    constant: float = 1.0,
) -> float:
    """T of the theorem with its polynomial spelled out and the constant it hides as an argument.

        gradient-dominant: C n⁶L²/(δ²σ) log(1/ε)   convex: C n⁷L²D²/(δ²ε)   bounded non-convex: C n⁶L²/(δ²ε²)

    Ref: convergence, Thm 6, App. A

    Args:
        kind: the class of the loss, or "all labels right" for cross-entropy: C n⁶L²/δ², without ε.
        epsilon: the loss, or ‖loss‖ for a bounded non-convex one.
        n: samples.
        depth: ReLU layers, L + 1.
        separation: δ, the smallest distance of two rows.
        sigma: σ of a gradient-dominant loss.
        diameter: D, how far outputs are from the minimiser of a convex loss.
        constant: C.

    >>> iterations_needed("bounded non-convex", 0.5, n=2, depth=3, separation=0.5)  # 2⁶·2²·4·4
    4096.0
    """
    if not (epsilon > 0 and n >= 1 and depth >= 2 and separation > 0 and sigma > 0 and diameter > 0 and constant > 0):
        raise ValueError("expected positive numbers, n ≥ 1 and depth ≥ 2")
    base = constant * float(n) ** 6 * (depth - 1) ** 2 / separation**2
    by_kind = {
        "gradient-dominant": base / sigma * max(0.0, float(np.log(1 / epsilon))),
        "convex": base * n * diameter**2 / epsilon,
        "bounded non-convex": base / epsilon**2,
        "all labels right": base,
    }
    if kind not in by_kind:
        raise ValueError(f"`kind` is {kind!r}; expected one of {', '.join(by_kind)}")
    return float(by_kind[kind])


PERFECT = 0.25
"""A summed cross-entropy this small leaves every sample with more than half of the probability on its class."""


@final
@dataclass(frozen=True)
class AccuracyLaw:
    """When every training label is right. Steps are None where the run, or the law, does not get there.

    predicted: the law's step at which the summed loss is `threshold`. loss_below: the first recorded step where it is.
    all_right: the first recorded step with accuracy 1. holds: whether no record has a loss below the threshold and a
    label wrong; None where no accuracy was recorded.
    """

    threshold: float
    predicted: float | None
    loss_below: int | None
    all_right: int | None
    holds: bool | None
    reference: str = "convergence, Thm 6, footnote 16"


def accuracy_law(run: Any, name: str, constant: float, steps: np.ndarray, observed: np.ndarray) -> AccuracyLaw | None:
    """Of a run with cross-entropy whose summed loss was `observed` at `steps`; None for other objectives.

    Ref: convergence, Thm 6, footnote 16

    Args:
        run: a `Trajectory`, for its accuracies, or anything else.
        name: of the objective.
        constant: c of the convex law.

    1/¼ − 1/1 = 3 steps at c = 1:

    >>> accuracy_law(None, "cross-entropy", 1.0, np.array([0, 9]), np.array([1.0, 0.2]))
    AccuracyLaw(threshold=0.25, predicted=3.0, loss_below=9, all_right=None, holds=None, reference='convergence, Thm 6, footnote 16')
    """
    if name != "cross-entropy":
        return None
    low = observed <= PERFECT
    right = run.records["accuracy"] >= 1 if "accuracy" in getattr(run, "records", {}) else None
    return AccuracyLaw(
        threshold=PERFECT,
        predicted=float(constant * max(0.0, 1 / PERFECT - 1 / observed[0])),
        loss_below=int(steps[low][0]) if low.any() else None,
        all_right=int(steps[right][0]) if right is not None and right.any() else None,
        holds=None if right is None else not bool((low & ~right).any()),
    )
