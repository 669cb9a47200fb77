"""The page of a landscape and its verdict in plain words: surfaces, the fall along each direction, curvature, how it was done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overparam.core import sections
from overparam.core.sections import Block, Section, Verdict
from overparam.core.words import number, percent
from overparam.landscapes.curvature import still_falling

if TYPE_CHECKING:
    from overparam.landscapes.planes import View
    from overparam.landscapes.surveying import Landscape

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
        helps = "Negative curvature" if curves_down(view) else "Another direction than the gradient"
        tone, first = "warning", f"{helps} would help: {fall}."
    sentences.append(first)
    if several:
        pairs = ", ".join(
            f"{percent(one.decreases[0])} and {percent(one.decreases[1])} {moment(one)}" for one in found.views
        )
        down_everywhere = all(curves_down(one) for one in found.views)
        other = "negative curvature" if down_everywhere else "the direction of least curvature"
        sentences.append(f"Gone along the gradient and along {other}: {pairs}.")
    sentences.append(_curvature_words(found, view))
    return Verdict(tone, tuple(sentences))


def _curvature_words(found: Landscape, view: View) -> str:
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


NAMES = {
    "random": ("first random direction", "second random direction"),
    "trajectory": ("first direction of the run", "second direction of the run"),
}
LOG_FROM = 5.0
"""Heights are drawn on a log scale where the highest is so many times the lowest."""


def _names(found: Landscape, view: View) -> tuple[str, str]:
    """The two directions; the second is called what it is: without one that curves down it is that of least curvature."""
    if found.plane != "gradient-curvature":
        return NAMES[found.plane]
    return "gradient", "negative curvature" if curves_down(view) else "least curvature"


def make_landscape_sections(found: Landscape) -> tuple[Section, ...]:
    """All sections, verdict first."""
    parts = [
        found.verdict.section,
        Section("The surface", tuple(_surface(found, view) for view in found.views)),
        Section("How far it falls", _falls(found)),
        Section("Curvature", _curvature(found)),
        Section("How it was done", _done(found)),
    ]
    return tuple(part for part in parts if part.blocks)


def _surface(found: Landscape, view: View) -> sections.Surface:
    x_label, y_label = _names(found, view)
    if found.plane == "gradient-curvature":
        x_label, y_label = f"distance along the {x_label}", f"distance along {y_label}"
    scale = _scale(view.values)
    caption = f"F, the {found.objective}, {moment(view)}; the point is where the weights are."
    if found.plane == "gradient-curvature":
        caption += f" Both directions have norm 1; their cosine is {view.cosine:.3f}."
    elif found.plane == "random":
        caption += " 1 is as far as each filter of the weights is long."
    else:
        caption += " The line is the run, seen from above."
    return sections.surface(
        f"The objective {moment(view)}", caption, view.x, view.y, view.values, x_label=x_label, y_label=y_label, z_label="F",
        z_scale=scale, marked=(0.0, 0.0, view.here), path=view.path,
    )  # fmt: skip


def _scale(values: np.ndarray) -> sections.Scale:
    """Logarithmic where the heights differ much and all are positive."""
    there = values[np.isfinite(values)]
    return "log" if len(there) and there.min() > 0 and there.max() > LOG_FROM * there.min() else "linear"


def _falls(found: Landscape) -> tuple[Block, ...]:
    rows = []
    for view in found.views:
        for i, name in enumerate(_names(found, view)):
            rows.append((moment(view), name, view.here, float(view.least[i]), float(view.decreases[i]),
                         float(view.distance[i]), float(view.curvatures[i])))  # fmt: skip
    down = ", of the gradient downhill" if found.plane == "gradient-curvature" else ""
    falls = sections.Table(
        ("when", "direction", "F here", "least F along it", "share gone", "at distance", "curvature here"),
        tuple(rows),
        "Both ways along each direction, at distances from a hundred-thousandth of ‖w‖ to ‖w‖, evenly in their logarithm. "
        f"A negative distance is against the direction{down}. Curvature: uᵀ∇²F u, without smoothing.",
    )
    return (falls, *(_lines(found, view) for view in found.views))


def _lines(found: Landscape, view: View) -> sections.Figure:
    curves = []
    for i, name in enumerate(_names(found, view)):
        for sign, word in ((1, "forwards"), (-1, "backwards")):
            there = sign * view.distances[i] > 0
            order = np.argsort(np.abs(view.distances[i][there]))
            x, y = np.abs(view.distances[i][there])[order], view.lines[i][there][order]
            curves.append(
                sections.series(f"{name}, {word}", x, y, role="true" if i == 0 else "random", dashed=sign < 0)
            )
    return sections.Figure(
        f"Along each direction, {moment(view)}", "F against the distance walked.", "distance", "F", tuple(curves), "log",
        _scale(view.lines), (sections.Line("F here", y=view.here),),
    )  # fmt: skip


def _curvature(found: Landscape) -> tuple[Block, ...]:
    blocks: list[Block] = []
    curved = [view for view in found.views if view.smoothed is not None]
    if curved:
        columns = {
            "when": "when", "smoothed": "smoothed curvature", "smoothed_error": "standard error", "at": "at the point",
            "largest": "largest curvature in any draw", "gradient_norm": "‖∇F‖", "weights_norm": "‖w‖",
        }  # fmt: skip
        rows = ({**vars(v), "when": moment(v), "at": float(v.curvatures[1])} for v in curved)
        words = (
            f"Of the direction that Oja's method found: E vᵀ∇²F(w + σξ)v with σ = {found.smoothing:.3g} on fresh noise, and "
            "vᵀ∇²F(w)v. Derivatives are taken where they exist: the kinks of ReLUs themselves are not counted."
        )
        blocks.append(sections.table(columns, rows, words))
        curves = tuple(
            sections.series(moment(v), np.arange(1, len(v.history) + 1), v.history, role="accent")
            for v in curved
            if len(v.history)
        )
        words = "vᵀ∇²F(w + σξ)v at every step, each with noise of its own."
        blocks.append(
            sections.Figure(
                "Oja's method on its way", words, "step", "curvature", curves, lines=(sections.Line("0", y=0.0),)
            )
        )
    if found.layers:
        columns = {
            "name": "layer", "size": "weights", "smallest": "smallest eigenvalue", "smallest_error": "± ",
            "largest": "largest eigenvalue", "largest_error": "±",
        }  # fmt: skip
        words = (
            f"Each layer's own block of the Hessian {moment(found.last)}, by Lanczos; ±: an eigenvalue is that close."
        )
        blocks.append(sections.table(columns, map(vars, found.layers), words))
    return tuple(blocks)


def _done(found: Landscape) -> tuple[Block, ...]:
    norm = (
        "The function itself decides how batch norm averages and whether there is dropout; `mode` does not reach it. "
        if found.mode == "own"
        else "Batch norm, where there is one, takes running averages; dropout is off. "
        if found.mode == "eval"
        else f"Batch norm, where there is one, takes averages over chunks of {found.chunk:,} rows; dropout is off. "
    )
    words = (
        f"{found.network}, {found.weights:,} trained weights; F is the {found.objective}, without weight decay. Data: the first "
        f"{found.rows:,} rows of {found.data} for training, in the order they were given. {norm}"
        f"{found.points} × {found.points} points; numbers keep about {found.digits} digits. Seed {found.provenance.seed}."
    )
    if found.plane == "gradient-curvature":
        rows = "all rows" if found.batch is None else f"{found.batch:,} rows"
        words += (
            f" Direction of least curvature: {found.oja_steps} steps of Oja's method on {rows} a step, the first half with momentum, "
            f"noise of σ = {found.smoothing:.3g} for every weight."
        )
    elif found.plane == "random":
        words += (
            " Random directions are Gaussian and scaled filter by filter; biases and batch norm's own weights stay."
        )
    else:
        words += (
            f" Directions: the principal ones of {len(found.last.path):,} recorded weights, the last in the middle."
        )
    return (sections.Text(words),)
