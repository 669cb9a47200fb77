"""Whether the loss falls at a linear rate along gradient descent and SGD, and how that rate stands to the network's kernel.

‖∇F‖² = rᵀKr for loss vectors r and the tangent kernel K at the present weights, so ‖∇F‖²/(2F) ≥ λ_min(K): where K hardly
changes, the loss falls at least as fast as (1 − ηλ_min)^{2t}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np

from overparam.audits.conditions import SINGULAR, of_network, sizes
from overparam.audits.convergence_9_10_gradients import NOT_APART, objective
from overparam.audits.gradient_factors import kernel_by_layers, own_kernel
from overparam.audits.laws import Finding, Law, made, not_measured
from overparam.audits.perturbations import added, inner
from overparam.audits.subject import Subject
from overparam.core.bracketed import Assumption, checked
from overparam.core.inside import of_output
from overparam.theory.iteration_laws import LinearRate, linear_rate, rounding_floor
from overparam.theory.width import deep_conditions

Algorithm = Literal["gradient descent", "SGD"]
THEOREMS: dict[Algorithm, str] = {"gradient descent": "convergence, Thm 1", "SGD": "convergence, Thm 2"}
FALLS: dict[Algorithm, str] = {"gradient descent": "Eq. (12.2)", "SGD": "Eq. (13.2)"}
WINDOWS = 8
"""Stretches of the run between which the fall of the loss is taken."""
STEPS_PER_TRAINING_STEP = 8
MOST, MOST_OF_RUN = 1_000, 3_000
"""Rows of a kernel whose eigenvalues are taken, n k: of samples chosen here, and of those of a run, which are given."""
COSTLY = 64
"""Rows of a kernel that is made gradient by gradient."""
EPSILON = 0.01
"""The loss that the theorems are asked how many steps lead to."""
BATCH_SHARE = 4
"""SGD takes one sample of four at a step."""


def ratio_law(algorithm: Algorithm) -> Law:
    """The gradient is large as long as the loss is."""
    return Law(
        f"gradient along {algorithm}",
        f"{THEOREMS[algorithm]}, Thm 3",
        "‖∇F‖² ≥ Ω(F · δ m/(k n²)) at every step",
        "lower",
        {"m": 1.0, "n": -2.0},
        quantity="‖∇F‖²/F",
    )


def fall_law(algorithm: Algorithm) -> Law:
    """The loss falls by a constant factor a step."""
    return Law(
        f"linear convergence of {algorithm}",
        f"{THEOREMS[algorithm]}, {FALLS[algorithm]}",
        "F(t + 1) ≤ (1 − Ω(η δ m/(k n²))) F(t)" + (", from the start on" if algorithm == "SGD" else ""),
        "lower",
        {"m": 1.0, "n": -2.0},
        quantity="log(F(t)/F(t + 1))/η",
    )


def kernel_law(algorithm: Algorithm) -> Law:
    """The factor is that of the smallest eigenvalue of the network's own kernel, where the kernel does not change."""
    return Law(
        f"rate of {algorithm} against the kernel",
        "convergence, Fact 2.6, Thm 5",
        "F falls at least like exp(−2ηλ_min t), λ_min of the network's kernel at the start",
        "lower",
        {},
        quantity="log(F(t)/F(t + 1))/(2η)",
    )


@final
@dataclass(frozen=True, eq=False)
class Descent:
    """What a run went through, on n samples. rate: η of the summed loss. ratios: ‖∇F‖²/F at the steps. smallest, largest: eigenvalues
    of the kernel at the start, None where they are not known."""

    algorithm: Algorithm
    n: int
    steps: np.ndarray
    losses: np.ndarray
    ratios: np.ndarray
    rate: float | None
    batch: int
    smallest: float | None = None
    largest: float | None = None

    def fitted(self) -> LinearRate | None:
        """log F ≈ log F₀ − rate·t over all steps; None where the loss is at rounding from the start."""
        try:
            return linear_rate((self.steps, self.losses))
        except ValueError:
            return None


def descent(subject: Subject, constant: float = 1.0) -> list[Finding]:
    """Gradient descent and SGD on a few samples: PL ratio, fall of the loss, and both against the network's kernel.

    The rate is 1/λ_max of the kernel at the start; SGD takes a quarter of the samples a step and a quarter of that rate.

    Ref: convergence, Thm 1, Thm 2, Eq. (12.2), Eq. (13.2)

    Assumes: the squared loss of the sum.

    Args:
        subject: the network and what to spend.
        constant: C of the width and the rate that the theorems ask for.
    """
    few = subject.on_rows(min(subject.effort.rows, max(2, MOST // subject.outputs)))
    K = kernel_by_layers(few, few.weights)
    if K is None:  # every row of the kernel costs a gradient
        few = subject.on_rows(min(subject.effort.rows, max(4, COSTLY // few.outputs)))
        K = own_kernel(few, few.weights)
    eigenvalues = np.linalg.eigvalsh(K)
    smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    note = subject.note_on(few)
    if not largest > 0:
        laws = (ratio_law("gradient descent"), fall_law("gradient descent"), kernel_law("gradient descent"))
        return [not_measured(law, "trajectory", "the outputs do not depend on the weights") for law in laws]
    found = []
    for algorithm in THEOREMS:
        run = descend(few, algorithm, 1 / largest, few.effort.training_steps * STEPS_PER_TRAINING_STEP)
        found += of_descent(few, replace(run, smallest=smallest, largest=largest), constant, note)
    return found


def descend(subject: Subject, algorithm: Algorithm, rate: float, steps: int) -> Descent:
    """A run of W ← W − η ∇F, or of η (n/b) Σ over a random batch of ∇F_i, from W⁰ on ½ Σ_i ‖f(x_i) − y_i‖²."""
    inside, n = subject.inside, subject.samples
    batch = n if algorithm == "gradient descent" else max(1, n // BATCH_SHARE)
    rate *= batch / n
    recorded = set(np.unique(np.linspace(0, steps, min(steps, 2 * WINDOWS) + 1).round().astype(int)).tolist())
    rng, here = subject.rng(61), subject.weights
    times, losses, ratios = [], [], []
    for step in range(steps + 1):
        with np.errstate(over="ignore", invalid="ignore"):  # a run that diverges is a finding
            each, residual = objective(subject, here)
            F = float(each.sum())
        whole = None
        if step in recorded:
            whole = inside.gradient(here, of_output(residual))
            times.append(step)
            losses.append(F)
            ratios.append(inner(whole, whole) / max(F, np.finfo(float).tiny))
        if step == steps or not np.isfinite(F) or rounding_floor(None, losses[0]) > F:
            break
        if batch == n:
            slope = whole if whole is not None else inside.gradient(here, of_output(residual))
        else:
            chosen = np.zeros((n, 1))
            chosen[rng.permutation(n)[:batch]] = n / batch
            slope = inside.gradient(here, of_output(chosen * residual))
        here = added(here, slope, -rate)
    return Descent(algorithm, n, np.array(times), np.array(losses), np.array(ratios), rate, batch)


def of_descent(subject: Subject, run: Descent, constant: float = 1.0, note: str = "") -> list[Finding]:
    """What a run says of the laws, on the samples of this subject.

    Args:
        subject: the network on the samples of the run.
        run: what it went through.
        constant: C of the width and the rate that the theorems ask for.
        note: a sentence for the words.
    """
    _, m = sizes(subject)
    n, k = run.n, subject.outputs
    asked = asked_of(subject, run, constant)
    L, _ = sizes(subject)
    expected = min(subject.separation, 1 / L) * m / (k * n**2)  # with constant 1; δ ≤ 1/L is all the theorem takes
    fit = run.fitted()
    detail = {"loss": run.losses, "steps": run.steps}
    if fit is not None:
        detail["fitted rate"] = np.array([fit.rate, np.nan if fit.standard_error is None else fit.standard_error])
    ratio, fall, kernel = ratio_law(run.algorithm), fall_law(run.algorithm), kernel_law(run.algorithm)
    apart = 0 < subject.separation < np.inf
    found = []
    if not apart:
        found.append(not_measured(ratio, "trajectory", NOT_APART, asked))
    elif np.isfinite(run.ratios).all() and len(run.ratios):
        bounds = np.full(len(run.steps), expected)
        found.append(made(ratio, "trajectory", run.steps, run.ratios, bounds, asked, detail, note=note, rows=n))
    else:
        found.append(not_measured(ratio, "trajectory", "the gradient was not recorded, or is not finite", asked))
    times, falls = falls_of(run.steps, run.losses, since_start=run.algorithm == "SGD")
    if run.rate is None or not len(times):
        why = "the rate of the run is not known" if run.rate is None else "the loss is at rounding from the start"
        return [*found, *(not_measured(law, "trajectory", why, asked) for law in (fall, kernel))]
    words = f"{note} {_fitted_words(run, fit)}".strip()
    if apart:
        bounds = np.full(len(times), expected)
        found.append(made(fall, "trajectory", times, falls / run.rate, bounds, asked, detail, note=words, rows=n))
    else:
        found.append(not_measured(fall, "trajectory", NOT_APART, asked))
    if run.smallest is None:
        found.append(not_measured(kernel, "trajectory", "the kernel at the start is not known for all samples", asked))
    elif not run.smallest > SINGULAR * (run.largest or 0.0):
        found.append(not_measured(kernel, "trajectory", "the kernel at the start is singular", asked))
    else:
        values, bounds = falls / (2 * run.rate), np.full(len(times), run.smallest)
        found.append(made(kernel, "trajectory", times, values, bounds, asked, detail, note=words, rows=n))
    return found


def of_run(subject: Subject, run: Any, *, lr: float | None = None, constant: float = 1.0) -> list[Finding]:
    """The same laws on a recorded `Trajectory`.

    Args:
        subject: the network on the samples it was trained on.
        run: the trajectory; its gradients, where they were recorded.
        lr: the rate of the run, in its own convention; that of `run.algorithm` if None.
        constant: C of the width and the rate that the theorems ask for.
    """
    share = 1.0 if run.loss_convention == "sum" else float(run.n)
    rate = lr if lr is not None else run.algorithm.get("lr")
    batch = run.algorithm.get("batch")
    ratios = 2 * share * run.records["pl_ratio"] if "pl_ratio" in run.records else np.zeros(0)
    full = run.algorithm.name == "GradientDescent"
    why = ""
    if isinstance(rate, Mapping):
        why, rate = "the run has a rate a layer, and the law is about one for all", None
    if run.objective != "squared":
        why = f"the run minimised the {run.objective} loss, and the law is about the squared one"
    if why:
        algorithm: Algorithm = "gradient descent" if full else "SGD"
        return [not_measured(law(algorithm), "trajectory", why) for law in (ratio_law, fall_law, kernel_law)]
    seen = Descent(
        "gradient descent" if full else "SGD",
        run.n,
        np.asarray(run.steps, float),
        share * np.asarray(run.loss, float),
        ratios,
        None if rate is None else rate / share,
        run.n if full or batch is None else batch,
        *_extremes(subject, run.n),
    )
    return of_descent(subject, seen, constant)


def _extremes(subject: Subject, n: int) -> tuple[float | None, float | None]:
    """The smallest and the largest eigenvalue of the kernel at the start; None where it is not that of the run's samples,
    or costs too much."""
    if subject.samples != n or n * subject.outputs > MOST_OF_RUN:
        return None, None
    K = kernel_by_layers(subject, subject.weights)
    if K is None:
        return None, None
    eigenvalues = np.linalg.eigvalsh(K)
    return float(eigenvalues[0]), float(eigenvalues[-1])


def falls_of(
    steps: Sequence[int] | np.ndarray, losses: np.ndarray, *, since_start: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """log(F(t)/F(t′))/(t′ − t) between at most `WINDOWS` + 1 records above rounding, and the middles of the stretches.

    With `since_start` every t is 0 and the places are the t′: a step of SGD may raise the loss, and the theorem is about
    where many of them lead.

    >>> falls_of([0, 1, 2], np.array([8.0, 4.0, 2.0]))[1].round(12).tolist()
    [0.69314718056, 0.69314718056]
    """
    x = np.asarray(steps, float)
    used = np.isfinite(losses) & (losses > rounding_floor(None, float(losses[0])))
    x, F = x[used], losses[used]
    if len(x) < 2:
        return np.zeros(0), np.zeros(0)
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), WINDOWS + 1)).round().astype(int))
    x, F = x[kept], F[kept]
    if since_start:
        return x[1:], np.log(F[0] / F[1:]) / (x[1:] - x[0])
    return (x[1:] + x[:-1]) / 2, -np.diff(np.log(F)) / np.diff(x)


def asked_of(subject: Subject, run: Descent, constant: float = 1.0) -> tuple[Assumption, ...]:
    """What Theorem 1, or with SGD Theorem 2, asks of width, rate and steps: `theory.deep_conditions`.

    Ref: convergence, Thm 1, Thm 2
    """
    L, m = sizes(subject)
    if not 0 < subject.separation < np.inf:
        return (*of_network(subject), checked("no two rows are equal", False, "δ = 0"))
    batch = run.batch if run.algorithm == "SGD" else None
    steps = int(run.steps[-1]) if len(run.steps) else None
    conditions = deep_conditions(
        run.n, L, subject.separation, subject.outputs,
        batch=batch, width=m, lr=run.rate, steps=steps, epsilon=EPSILON, constant=constant,
    )  # fmt: skip
    return (*of_network(subject), *conditions.assumptions)


def _fitted_words(run: Descent, fit: LinearRate | None) -> str:
    if fit is None or run.rate is None:
        return ""
    bar = "" if fit.standard_error is None else f" ± {fit.standard_error:.2g}"
    text = f"Fitted rate {fit.rate:.3g}{bar} a step (R² {fit.r_squared:.2f})"
    if run.smallest is None:
        return f"{text}."
    return f"{text}; 2ηλ_min = {2 * run.rate * run.smallest:.3g}, 2ηλ_max = {2 * run.rate * (run.largest or 0):.3g}."
