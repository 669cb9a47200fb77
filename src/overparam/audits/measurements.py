"""The table of measurements: which laws there are, on which architectures each is about, what it costs.

A new measurement is a function `measure(subject) -> list[Finding]` in a file of its own and a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from overparam.audits import (
    convolutional_laws,
    coupling_descent,
    coupling_resnet,
    coupling_smoothing,
    coupling_three_layers,
    coupling_two_layers,
    residual_laws,
)
from overparam.audits.backward_norms import backward_norms
from overparam.audits.backward_stability import backward_stability, intermediate_stability
from overparam.audits.descent import descent, of_run
from overparam.audits.forward_norms import forward_norms
from overparam.audits.forward_stability import forward_stability
from overparam.audits.free_signs import free_signs
from overparam.audits.gradients import gradient_bounds
from overparam.audits.law import Finding
from overparam.audits.layer_separation import separation_in_layers
from overparam.audits.linearisation import linearisation
from overparam.audits.products import products_of_layers
from overparam.audits.semi_smoothness import semi_smoothness
from overparam.audits.sign_changes import sign_changes
from overparam.audits.start_gradients import gradients_at_start
from overparam.audits.subject import Architecture, Subject
from overparam.audits.tangent_drift import tangent_drift

Measure = Callable[[Subject], list[Finding]]
PLAIN: tuple[Architecture, ...] = ("fully connected", "other")
"""Layers one after the other, as in the body of `convergence`; a model of another framework is taken for one."""
DEEP: tuple[Architecture, ...] = ("fully connected", "residual", "convolutional", "other")
"""What Theorems 1 to 8 are about."""


def descent_or_run(subject: Subject) -> list[Finding]:
    """The laws of descent on the run there is, else on short ones made here."""
    return descent(subject) if subject.run is None else of_run(subject, subject.run)


@final
@dataclass(frozen=True)
class Measurement:
    """measure: the function. architectures: what its laws are about. at_end: whether it also looks at the last weights of
    a run. passes: what it costs, in passes forward of all rows and of `effort.rows` rows, at the usual effort."""

    measure: Measure
    architectures: tuple[str, ...]
    at_end: bool = False
    passes: tuple[float, float] = (10.0, 100.0)


MEASUREMENTS: dict[str, Measurement] = {
    "forward norms": Measurement(forward_norms, PLAIN, True, (1, 0)),
    "products of layers": Measurement(products_of_layers, PLAIN, True, (0, 450)),
    "backward norms": Measurement(backward_norms, PLAIN, True, (0, 120)),
    "separation": Measurement(separation_in_layers, PLAIN, True, (3, 0)),
    "gradients at the start": Measurement(gradients_at_start, DEEP, True, (4, 10)),
    "sign changes": Measurement(sign_changes, PLAIN, passes=(100, 400)),
    "forward stability": Measurement(forward_stability, PLAIN, passes=(25, 150)),
    "intermediate stability": Measurement(intermediate_stability, PLAIN, passes=(0, 800)),
    "backward stability": Measurement(backward_stability, PLAIN, passes=(0, 900)),
    "free signs": Measurement(free_signs, PLAIN, passes=(0, 600)),
    "gradient bounds": Measurement(gradient_bounds, DEEP, passes=(60, 450)),
    "semi-smoothness": Measurement(semi_smoothness, DEEP, passes=(60, 900)),
    "tangent drift": Measurement(tangent_drift, DEEP, passes=(0, 700)),
    "linearisation": Measurement(linearisation, DEEP, passes=(40, 350)),
    "descent": Measurement(descent_or_run, DEEP, passes=(0, 300)),
}
for module in (
    residual_laws,
    convolutional_laws,
    coupling_two_layers,
    coupling_three_layers,
    coupling_smoothing,
    coupling_descent,
    coupling_resnet,
):
    MEASUREMENTS |= {name: Measurement(measure, about) for name, (measure, about) in module.MEASUREMENTS.items()}


def chosen(laws: Sequence[str] | str | None, architecture: str) -> dict[str, Measurement]:
    """The measurements by name, in the order of the table; those about this architecture where none are named.

    >>> list(chosen(["separation", "forward norms"], "fully connected"))
    ['forward norms', 'separation']
    """
    if laws is None:
        return {name: row for name, row in MEASUREMENTS.items() if architecture in row.architectures}
    names = [laws] if isinstance(laws, str) else list(laws)
    if not names:
        raise ValueError("`laws` names none; name some, such as 'forward norms', or leave it out for all")
    for name in names:
        if name not in MEASUREMENTS:
            raise ValueError(f"`laws` has {name!r}; expected names out of {', '.join(MEASUREMENTS)}")
        if architecture not in MEASUREMENTS[name].architectures:
            about = ", ".join(MEASUREMENTS[name].architectures)
            raise ValueError(f"{name!r} is about networks that are {about}; this one is {architecture}")
    return {name: row for name, row in MEASUREMENTS.items() if name in names}
