"""The numbers behind the live controls of a page, and the block that shows them: curves a reader redraws without training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overparam.analysis.data_answers import Speed, Trust
from overparam.analysis.data_learning import Sweeps
from overparam.analysis.data_rows import PreparedRows
from overparam.core.bracketed import Bracketed
from overparam.core.sections import Controls, Dial, Measure, Table
from overparam.core.words import number
from overparam.frame import Work
from overparam.spectrum import Quadrature
from overparam.spectrum.integrands import Loss
from overparam.theory import max_learning_rate, steps_to_loss
from overparam.theory.integrands import moved
from overparam.theory.lazy_regime import ALIGNMENT
from overparam.theory.rates import loss_scale

LOSS = "mean"
"""Rates are of the papers' loss over n, so that they mean the same whatever the number of rows."""
WIDTH, KAPPA, NOISE = 1_000, 1.0, 0.2
"""Where the dials start."""
STILL = (10, 100, 1_000, 10_000, 100_000)
"""Steps in the table of a page without scripts."""


@dataclass(frozen=True, eq=False)
class ControlNumbers:
    """The Gauss rules of the labels (all outputs) and of random labels of the same size, and what bounds their use."""

    nodes: np.ndarray
    masses: np.ndarray
    random_nodes: np.ndarray
    random_masses: np.ndarray
    n: int
    perturbation: float
    largest_rate: Bracketed
    """Of the summed loss."""
    rate: float
    """Of the summed loss, where the dial starts."""
    steps: int
    """Where the dial starts: a tenth of the loss is left."""
    alignment: float
    noisy: bool
    """Whether labels can be drawn anew, which those of regression cannot."""


def live_numbers(work: Work, s: PreparedRows, w: Sweeps, fast: Speed, trust: Trust) -> ControlNumbers | None:
    """The numbers of an analysis: its sweeps, its rate, and the alignment its laziness was told with."""
    return control_numbers(w.true, w.random, rate=fast.rate, alignment=trust.alignment, noisy=bool(s.classes))


def control_numbers(
    labels: Quadrature, random: Quadrature, *, rate: float, alignment: float = ALIGNMENT, noisy: bool = True
) -> ControlNumbers | None:
    """What the controls need of two sweeps of one matrix; None where nothing moves, so that there is nothing to set.

    Ref: fine_grained, Thm 4.1, Eq. (8), Fig. 2

    Args:
        labels: the quadrature of y − u(0), every output.
        random: of random signs under the same matrix.
        rate: of the summed loss, where the dial starts.
        alignment: the cosine between a neuron's movement and a row (`sample_flips`).
        noisy: whether the labels are classes.

    >>> from overparam.spectrum import quadrature
    >>> H = np.diag([1.0, 4.0])
    >>> found = control_numbers(quadrature(H, [1.0, 2.0]), quadrature(H, [1.0, -1.0]), rate=0.25)
    >>> np.round(found.nodes, 9), np.round(found.masses, 9), round(float(found.random_masses.sum()), 9)
    (array([1., 4.]), array([1., 4.]), 5.0)
    """
    limit = max_learning_rate(random) if np.any(random.masses > 0) else None
    if limit is None or not np.isfinite(limit.upper) or not np.any(labels.masses > 0):
        return None
    nodes, weights = _rule(labels)
    random_nodes, random_masses = _rule(random)
    found = steps_to_loss(labels, 0.1, rate)
    return ControlNumbers(
        nodes=nodes,
        masses=weights,
        random_nodes=random_nodes,
        random_masses=random_masses * (weights.sum() / random_masses.sum()),
        n=labels.n,
        perturbation=float(max(labels.perturbation, random.perturbation)),
        largest_rate=limit.alone(),
        rate=float(rate),
        steps=int(min(found.value or 1_000, 10**7)),
        alignment=float(alignment),
        noisy=noisy,
    )


def _rule(q: Quadrature) -> tuple[np.ndarray, np.ndarray]:
    """The Gauss rules of all outputs, one after the other: forms add over outputs."""
    rules = [q.gauss(output) for output in range(q.outputs) if q.masses[output] > 0]
    return np.concatenate([rule.nodes for rule in rules]), np.concatenate([rule.weights for rule in rules])


def make_controls(numbers: ControlNumbers) -> Controls:
    """The block of a page."""
    scale = loss_scale(LOSS, numbers.n)
    limit, rate = numbers.largest_rate, numbers.rate / scale
    largest = (float(limit.value) / scale, float(limit.lower) / scale, float(limit.upper) / scale)
    return Controls(
        "Set it yourself",
        "Computed in this page, for the network of the theory (infinite width, one hidden ReLU layer trained, output 0 at the "
        "start). Laziness is how far a neuron moves, over the size of its pre-activation, at the width and scale set: below 0.1 a "
        "real network follows the curve to a few percent, above 1 it has left it. Noise is the mean over draws.",
        labels=_measure(numbers.nodes, numbers.masses),
        random=_measure(numbers.random_nodes, numbers.random_masses),
        loss="mean loss, ½Σ(y−u)²/n",
        scale=scale,
        largest_rate=largest,
        perturbation=numbers.perturbation,
        alignment=numbers.alignment,
        rate=Dial(rate, 1e-3 * largest[1], 1.2 * largest[2]),
        steps=Dial(float(numbers.steps), 1.0, 1e7),
        width=Dial(float(WIDTH), 10.0, 1e7),
        kappa=Dial(KAPPA, 1e-3, 10.0),
        noise=Dial(NOISE, 0.0, 1.0) if numbers.noisy else None,
        still=_still(numbers),
    )


def _measure(nodes: np.ndarray, weights: np.ndarray) -> Measure:
    return Measure(tuple(nodes.tolist()), tuple(weights.tolist()))


def _still(numbers: ControlNumbers) -> Table:
    """A few values of the curves at the rate the dial starts at."""
    steps, mass = np.array(STILL, dtype=np.float64), numbers.masses.sum()
    curve, within = Loss(steps, numbers.rate).within(numbers.perturbation)[0], numbers.nodes > numbers.perturbation
    loss = 2 * curve(numbers.nodes) @ numbers.masses / mass
    noise = 2 * curve(numbers.random_nodes) @ numbers.random_masses / mass
    kept = (1 - NOISE) ** 2
    nodes = numbers.nodes[within]
    lazy = np.sqrt(moved(nodes, steps, numbers.rate) @ numbers.masses[within]) / (np.sqrt(WIDTH) * KAPPA)
    heads = ["steps", "loss of these labels"]
    rows = [steps.astype(int).tolist(), loss.tolist()]
    if numbers.noisy:
        heads.append(f"with {NOISE:.0%} of the labels drawn at random")
        rows.append((kept * loss + (1 - kept) * noise).tolist())
    heads.append(f"laziness at width {WIDTH:,}, κ = {KAPPA:g}")
    rows.append(lazy.tolist())
    scale = loss_scale(LOSS, numbers.n)
    return Table(
        tuple(heads),
        tuple(zip(*rows, strict=True)),
        f"Training loss over its start after so many steps of rate {number(numbers.rate / scale, 3)} (mean loss); the largest "
        f"stable rate is {number(float(numbers.largest_rate.value) / scale, 3)}.",
    )
