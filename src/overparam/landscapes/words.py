"""What a landscape says in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overparam.core.verdict import Verdict
from overparam.core.words import number, percent
from overparam.landscapes.curvature import still_falling

if TYPE_CHECKING:
    from overparam.landscapes.surveying import Landscape
    from overparam.landscapes.views import View

SURE = 2.0
"""Standard errors below 0 from which a curvature counts as negative."""
NOTHING = 1e-3
"""A share of F that counts as no fall."""


def curves_down(view: View) -> bool:
    """Whether the smoothed objective curves down along the direction found, beyond its standard error."""
    return view.smoothed is not None and view.smoothed < -SURE * (view.smoothed_error or 0.0)


def moment(view: View) -> str:
    """When a view was taken."""
    return "at these weights" if view.step is None else f"at step {view.step:,}"


def give_words(found: Landscape) -> Verdict:
    """The verdict, the answer first."""
    of = {"gradient-curvature": _of_gradient, "random": _of_random, "trajectory": _of_trajectory}[found.plane]
    said = of(found)
    holes = [one for one in found.views if not np.isfinite(one.values).all()]
    if not holes:
        return said
    where = ", ".join(f"{percent(float((~np.isfinite(one.values)).mean()))} {moment(one)}" for one in holes)
    return Verdict(
        said.tone,
        (*said.sentences, f"F is no finite number on a part of the points drawn, which are left open: {where}."),
    )


def _of_gradient(found: Landscape) -> Verdict:
    view, several = found.last, len(found.views) > 1
    down, curved = view.decreases
    named = "the most negative curvature" if curves_down(view) else "the direction of least curvature"
    fall = (
        f"{moment(view)} F = {number(view.here)} falls to {number(view.least[0])} along the gradient ({percent(down)} gone) and to "
        f"{number(view.least[1])} along {named} ({percent(curved)})"
    )
    sentences = []
    ahead = [one.decreases[0] >= one.decreases[1] for one in found.views]
    if max(down, curved) < NOTHING and not several:
        tone, first = "good", f"Nothing to gain along either direction: {fall}."
    elif all(ahead):
        tone, first = "good", f"The gradient is enough: {fall}."
    elif several and any(ahead):
        tone, first = "warning", f"The gradient is ahead at {sum(ahead)} of {len(ahead)} moments: {fall}."
    else:
        tone, first = "warning", f"Negative curvature would help: {fall}."
    sentences.append(first)
    if several:
        pairs = ", ".join(
            f"{percent(one.decreases[0])} and {percent(one.decreases[1])} {moment(one)}" for one in found.views
        )
        sentences.append(f"Gone along the gradient and along negative curvature: {pairs}.")
    sentences.append(_curvature(found, view))
    return Verdict(tone, tuple(sentences))


def _curvature(found: Landscape, view: View) -> str:
    assert view.smoothed is not None
    value = f"{number(view.smoothed)} ± {number(view.smoothed_error)}"
    least = (
        f"the least curvature of the smoothed objective that {found.oja_steps} steps of Oja's method found is {value} (standard "
        "error over draws of the noise)"
    )
    more = " Its steps were still going down: more `oja_steps` find less." if still_falling(view.history) else ""
    if not curves_down(view):
        return f"No direction that curves down was found: {least}; the largest curvature in any draw is {number(view.largest)}.{more}"
    return (
        f"F does curve down: {least}, against {number(view.largest)}, the largest in any draw; along the gradient the "
        f"curvature is {number(view.curvatures[0])}.{more}"
    )


def _of_random(found: Landscape) -> Verdict:
    view = found.last
    drawn = np.where(np.isnan(view.values), np.inf, view.values)  # where F is no number it is not low
    below = float((drawn < view.here - 1e-9 * abs(view.here)).mean())
    edge = np.concatenate([drawn[0], drawn[-1], drawn[1:-1, 0], drawn[1:-1, -1]])
    first = (
        f"{moment(view).capitalize()} F = {number(view.here)}; on the edge of the plane its median is "
        f"{number(float(np.median(edge)))}, its maximum {number(float(edge.max()))}."
    )
    second = (
        "No point of the plane is lower."
        if below == 0
        else f"{percent(below)} of the points are lower, down to {number(float(drawn.min()))}."
    )
    return Verdict("good" if below == 0 else "warning", (first, second))


def _of_trajectory(found: Landscape) -> Verdict:
    view = found.last
    held = float(view.shares.sum())
    first = (
        f"The plane holds {percent(held)} of the squared distances of the weights from the end of the run, "
        f"{percent(float(view.shares[0]))} along its first axis."
    )
    lowest = float(np.where(np.isfinite(view.values), view.values, view.here).min())
    second = f"At the end F = {number(view.here)}; the lowest point of the plane has {number(lowest)}."
    return Verdict("good" if held > 0.5 else "warning", (first, second))
