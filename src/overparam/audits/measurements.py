"""The table of measurements: which laws there are, on which architectures each is about, what it costs.

A new measurement is a function `measure(subject) -> list[Finding]` in the file of its chapter and a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from overparam.audits.beyond_kernels import coupling_of_resnet
from overparam.audits.beyond_two_layers_convergence import convergence_of_three_layers, convergence_of_two_layers
from overparam.audits.beyond_two_layers_rademacher import rademacher_of_three_layers, rademacher_of_two_layers
from overparam.audits.beyond_two_layers_smoothing import coupling_under_signs, smoothed_pseudo_network
from overparam.audits.beyond_two_layers_three import coupling_of_three_layers, descent_test
from overparam.audits.beyond_two_layers_two import coupling_of_two_layers
from overparam.audits.convergence_7_initialisation import (
    backward_norms,
    forward_norms,
    products_of_layers,
    separation_in_layers,
)
from overparam.audits.convergence_8_backward import backward_stability, free_signs, intermediate_stability
from overparam.audits.convergence_8_forward import forward_stability, sign_changes
from overparam.audits.convergence_9_10_gradients import gradient_bounds, gradients_at_start
from overparam.audits.convergence_11_smoothness import linearisation, semi_smoothness, tangent_drift
from overparam.audits.convergence_12_13_descent import descent, of_run
from overparam.audits.convergence_b_convolutional import convolutional_stability, convolutional_start
from overparam.audits.convergence_c_residual import residual_stability, residual_start
from overparam.audits.fine_grained_d_movement import two_layer_descent, two_layer_rademacher, two_layer_start
from overparam.audits.laws import Finding
from overparam.audits.subject import Architecture, Subject

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
    "sign changes": Measurement(sign_changes, PLAIN, passes=(250, 1000)),
    "forward stability": Measurement(forward_stability, PLAIN, passes=(75, 500)),
    "intermediate stability": Measurement(intermediate_stability, PLAIN, passes=(0, 2000)),
    "backward stability": Measurement(backward_stability, PLAIN, passes=(0, 2700)),
    "free signs": Measurement(free_signs, PLAIN, passes=(0, 1200)),
    "gradient bounds": Measurement(gradient_bounds, DEEP, passes=(60, 1900)),
    "semi-smoothness": Measurement(semi_smoothness, DEEP, passes=(60, 2700)),
    "tangent drift": Measurement(tangent_drift, DEEP, passes=(0, 3500)),
    "linearisation": Measurement(linearisation, DEEP, passes=(40, 1000)),
    "descent": Measurement(descent_or_run, DEEP, passes=(0, 300)),
    "residual network": Measurement(residual_start, ("residual",)),
    "residual stability": Measurement(residual_stability, ("residual",), passes=(30, 300)),
    "convolutional network": Measurement(convolutional_start, ("convolutional",)),
    "convolutional stability": Measurement(convolutional_stability, ("convolutional",), passes=(30, 300)),
    "coupling of two layers": Measurement(coupling_of_two_layers, ("biased two-layer", "two-layer")),
    "start of two layers": Measurement(two_layer_start, ("two-layer",), passes=(10, 0)),
    "descent of two layers": Measurement(two_layer_descent, ("two-layer",), passes=(0, 500)),
    "Rademacher complexity of two layers": Measurement(two_layer_rademacher, ("two-layer",), passes=(0, 700)),
    "coupling of three layers": Measurement(coupling_of_three_layers, ("three-layer",)),
    "smoothed pseudo network": Measurement(smoothed_pseudo_network, ("three-layer",)),
    "coupling under random signs": Measurement(coupling_under_signs, ("three-layer",)),
    "descent test of three layers": Measurement(descent_test, ("three-layer",)),
    "Rademacher complexity of the two-layer learner": Measurement(rademacher_of_two_layers, ("biased two-layer",)),
    "Rademacher complexity of three layers": Measurement(rademacher_of_three_layers, ("three-layer",)),
    "convergence of two layers": Measurement(convergence_of_two_layers, ("biased two-layer",)),
    "convergence of three layers": Measurement(convergence_of_three_layers, ("three-layer",)),
    "coupling of the three-layer ResNet": Measurement(coupling_of_resnet, ("three-layer resnet",)),
}


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
