"""What the papers' statements ask of a network and its data, checked on the one at hand."""

from __future__ import annotations

from math import log

import numpy as np

from overparam.audits.subject import Subject
from overparam.core.assumptions import Assumption, checked

CHANCE = 5.0


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
