"""What the papers' statements ask of a network, its data and the radius ω, checked on the one at hand; constants are arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

import numpy as np

from overparam.audits.subject import Subject
from overparam.core.bracketed import Assumption, checked

CHANCE = 5.0
SINGULAR = 1e-12
"""A smallest eigenvalue that is this share of the largest one is rounding."""


def relu_only(subject: Subject) -> Assumption:
    """Every layer bends by a ReLU, and nothing else does."""
    leaky = [slope for slope in subject.inside.slopes if slope]
    words = list(map(str, subject.inside.unseen))
    if leaky:
        words.append(f"leaky ReLUs of slope {leaky[0]:g}")
    return checked("all activations are ReLUs", not words, "; ".join(words))


def unit_rows(subject: Subject) -> Assumption:
    """‖x_i‖ = 1, as Assumption 2.1 has it."""
    low, high = float(subject.norms.min()), float(subject.norms.max())
    return checked(
        "rows of norm 1", bool(abs(low - 1) < 1e-6 and abs(high - 1) < 1e-6), f"from {low:.4g} to {high:.4g}"
    )


def wide_for_products(subject: Subject, constant: float = 1.0) -> Assumption:
    """m ≥ constant · nL log(nL), what Lemmas 7.3 and 7.4 ask for."""
    nL = subject.samples * max(subject.depth, 1)
    needed = constant * nL * log(max(nL, 2))
    return checked("m ≥ nL log(nL)", subject.width >= needed, f"m = {subject.width:,}, {needed:,.0f} needed")


def drawn_as_stated(subject: Subject) -> Assumption:
    """Every matrix that goes into a ReLU layer of m units has entries of variance 2/m, and biases are 0.

    Ref: convergence, Def. 2.3

    A variance within `CHANCE` of its standard errors passes; the distribution is not looked at further.
    """
    inside, wrong = subject.inside, []
    for name, place in subject.places.items():
        W = np.asarray(subject.weights[name])
        if place >= inside.count:
            continue
        if W.ndim == 1:
            if W.any():
                wrong.append(f"{name} is not 0")
            continue
        share = float((W**2).mean()) * inside.size(place) / 2
        if W.ndim > 2 or abs(share - 1) > CHANCE * (2 / W.size) ** 0.5:
            wrong.append(f"{name} has {share:.2g} times that variance" if W.ndim == 2 else f"{name} is no matrix")
    shown = "; ".join(wrong[:2]) + (f" and {len(wrong) - 2} more" if len(wrong) > 2 else "")
    return checked("weights of variance 2/m and no biases at the start", not wrong, shown)


def of_network(subject: Subject) -> tuple[Assumption, ...]:
    """ReLUs, unit rows and, for a model of another framework, weights drawn as the paper draws them."""
    if subject.architecture != "other" or subject.moment != "start":
        return relu_only(subject), unit_rows(subject)
    return relu_only(subject), unit_rows(subject), drawn_as_stated(subject)


def within(omegas: Sequence[float], limit: float, statement: str) -> Assumption:
    """ω ≤ limit for every radius; unmet where one is larger.

    >>> within([0.1, 0.5], 0.2, "ω ≤ 1/5").detail
    'the limit is 0.2; 1 of 2 radii within'
    """
    inside = sum(omega <= limit for omega in omegas)
    detail = f"the limit is {limit:.3g}; {inside} of {len(omegas)} radii within"
    return checked(statement, inside == len(omegas), detail)


def beyond(omegas: Sequence[float], limit: float, statement: str) -> Assumption:
    """ω ≥ limit for every radius."""
    inside = sum(omega >= limit for omega in omegas)
    detail = f"the limit is {limit:.3g}; {inside} of {len(omegas)} radii within"
    return checked(statement, inside == len(omegas), detail)


def speaks(
    conditions: Callable[..., tuple[Assumption, ...]], subject: Subject, constant: float = 1.0
) -> Callable[[float], bool]:
    """Whether none of the conditions is unmet, by radius."""
    return lambda omega: all(one.status != "unmet" for one in conditions(subject.but(omegas=(omega,)), constant))


def hidden_alone(subject: Subject) -> Assumption:
    """What moves are the matrices W_1, …, W_L between ReLU layers: no bias, and neither the first layer nor the last.

    Ref: convergence, Sec. 2
    """
    count, shapes = subject.inside.count, subject.inside.shapes
    others = [name for name, place in subject.places.items() if not 0 < place < count or len(shapes[name]) < 2]
    shown = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
    return checked("weights between ReLU layers alone move", not others, f"{shown} move too" if others else "")


def of_forward(subject: Subject, constant: float = 1.0) -> tuple[Assumption, ...]:
    """ω ≤ C/(L^{9/2} log³ m), what Lemma 8.2 asks for.

    Ref: convergence, Lemma 8.2
    """
    L, m = sizes(subject)
    limit = constant / (L**4.5 * log(m) ** 3)
    return (*of_network(subject), hidden_alone(subject), within(subject.omegas, limit, "ω ≤ C/(L^{9/2} log³ m)"))


def of_signs(subject: Subject, constant: float = 1.0) -> tuple[Assumption, ...]:
    """Those of forward, and mω^{2/3}L ≥ C log n: the lemma holds with probability 1 − e^{−Ω(mω^{2/3}L)} for each of n samples.

    Ref: convergence, Lemma 8.2
    """
    L, m = sizes(subject)
    least = (max(log(subject.samples), 1.0) / (constant * m * L)) ** 1.5
    return (*of_forward(subject, constant), beyond(subject.omegas, least, "C m ω^{2/3} L ≥ log n"))


def of_products(subject: Subject, constant: float = 1.0) -> tuple[Assumption, ...]:
    """ω ≤ C/L^{3/2} and mω^{2/3}L ≤ Cm/(L³ log m), what Lemmas 8.6 and 8.7 ask for when signs change as they may.

    Ref: convergence, Lemma 8.6, Lemma 8.7
    """
    L, m = sizes(subject)
    return (
        *of_network(subject),
        hidden_alone(subject),
        within(subject.omegas, constant / L**1.5, "ω ≤ C/L^{3/2}"),
        within(subject.omegas, (constant / (L**4 * log(m))) ** 1.5, "as few sign changes as C m/(L³ log m)"),
    )


def of_backward(subject: Subject, constant: float = 1.0) -> tuple[Assumption, ...]:
    """Those of products, k ≤ Cm/(L log m), and as many sign changes as k/log m: ω ≥ (k/(C mL log m))^{3/2}.

    Ref: convergence, Lemma 8.7
    """
    L, m = sizes(subject)
    least = (subject.outputs / (constant * m * L * log(m))) ** 1.5
    most = constant * m / (L * log(m))
    few = checked("k ≤ C m/(L log m)", subject.outputs <= most, f"k = {subject.outputs}, at most {most:.3g}")
    return (*of_products(subject, constant), beyond(subject.omegas, least, "ω ≥ (k/(C mL log m))^{3/2}"), few)


def of_gradients(subject: Subject, constant: float = 1.0) -> tuple[Assumption, ...]:
    """ω ≤ C δ^{3/2}/(n^{9/2} L⁶ log³ m), and rows at distance δ > 0.

    Ref: convergence, Thm 3
    """
    L, m = sizes(subject)
    limit = constant * subject.separation**1.5 / (subject.samples**4.5 * L**6 * log(m) ** 3)
    apart = checked("no two rows are equal", subject.separation > 0, f"δ = {subject.separation:.3g}")
    near = within(subject.omegas, limit, "ω ≤ C δ^{3/2}/(n^{9/2} L⁶ log³ m)")
    return (*of_network(subject), hidden_alone(subject), apart, near)


def of_steps(subject: Subject, constant: float = 1.0) -> tuple[Assumption, ...]:
    """ω between k^{3/2}/(C (mL log m)^{3/2}) and C/(L^{9/2} log³ m), what Theorems 4 and 5 ask for.

    Ref: convergence, Thm 4, Thm 5
    """
    L, m = sizes(subject)
    least = subject.outputs**1.5 / (constant * (m * L * log(m)) ** 1.5)
    return (*of_forward(subject, constant), beyond(subject.omegas, least, "ω ≥ k^{3/2}/(C (mL log m)^{3/2})"))


def of_kernel(subject: Subject, constant: float = 1.0) -> tuple[Assumption, ...]:
    """Those of steps, and ω ≤ C/(L⁹ log^{3/2} m), what Theorem 5c asks for.

    Ref: convergence, Thm 5
    """
    L, m = sizes(subject)
    limit = constant / (L**9 * log(m) ** 1.5)
    return (*of_steps(subject, constant), within(subject.omegas, limit, "ω ≤ C/(L⁹ log^{3/2} m)"))


def sizes(subject: Subject) -> tuple[int, int]:
    """L and m, at least 1 and 2: bounds with L = 0 or log m = 0 would say nothing."""
    return max(subject.depth, 1), max(subject.width, 2)
