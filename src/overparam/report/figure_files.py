"""Figures as files for papers and slides: the drawing of the page as SVG, or inked by matplotlib as PNG and PDF."""

from __future__ import annotations

import io
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.files import make_folder, write_whole
from overparam.core.folder import Parts
from overparam.core.reading import place_of
from overparam.core.sections import Figure, Surface
from overparam.core.words import RAISED
from overparam.report import style, surface_drawing
from overparam.report.drawing import HEIGHT, ROW, WIDTH, render_svg
from overparam.report.surface_drawing import render_surface_svg, thinned

FORMATS = ("png", "svg", "pdf")
PIXELS = 100
"""Of a drawing to an inch, so that its letters are 8.6 points high."""
_NOT_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
_POINT = 72 / PIXELS
_LETTERS = 0.9
"""The letters of DejaVu Sans, which matplotlib brings, are wider than those a drawing counts on."""


def save_figure(
    figure: Figure | Surface, path: str | os.PathLike[str], *, size: tuple[float, float] | None = None
) -> Path:
    """Write one figure or surface; the end of the name says the format (png, svg or pdf), `size` is in inches."""
    target = place_of(path)
    kind = target.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise ValueError(f"{target.name!r} ends in {target.suffix!r}; expected .png, .svg or .pdf")
    if isinstance(figure, Surface):
        image = render_surface_svg(thinned(figure))
        wide, high = size or (surface_drawing.WIDTH / PIXELS, surface_drawing.HEIGHT / PIXELS)
    else:
        wide, high = size or (WIDTH / PIXELS, (HEIGHT + 2 * ROW) / PIXELS)
        image = render_svg(figure, 4000, size=(PIXELS * wide, PIXELS * high), with_legend=True)
    image = _NOT_XML.sub("", image)
    if kind == "svg":
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}in" height="{high:g}in"'
        ground = f'<rect width="100%" height="100%" fill="{style.LIGHT["page"]}"/>'
        alone = image.replace("<svg", head, 1).replace(">", f">{ground}", 1)
        write_whole(target, f"{alone}\n".encode())
    else:
        inked = io.BytesIO()
        sheet = _sheet(ET.fromstring(image), (wide, high))
        sheet.savefig(inked, format=kind, dpi=200, metadata=_no_date(kind))
        write_whole(target, inked.getbuffer())
    return target


def export_figures(parts: Parts, folder: str | os.PathLike[str], *, kind: str = "pdf") -> list[Path]:
    """Write every figure and surface of a result into `folder`, numbered in the order of the page."""
    checks.one_of(kind, "kind", FORMATS)
    figures = [block for section in parts.sections for block in section.blocks if isinstance(block, Figure | Surface)]
    where = make_folder(place_of(folder), "the figures")
    return [
        save_figure(figure, where / f"{turn:02d}-{_slug(figure.title)}.{kind}")
        for turn, figure in enumerate(figures, start=1)
    ]


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:50] or "figure"


def _no_date(kind: str) -> dict[str, None]:
    """The same figure gives the same bytes."""
    return {"CreationDate": None} if kind == "pdf" else {}


def _sheet(image: ET.Element, size: tuple[float, float]) -> Any:
    """A drawing on a sheet of matplotlib: its paths, boxes, circles and words, one after the other."""
    try:
        from matplotlib import patches
        from matplotlib.figure import Figure as Paper
    except ImportError:
        raise ImportError(
            "figures as PNG and PDF need matplotlib; `pip install 'overparam[figures]'`, or write SVG"
        ) from None
    _, _, wide, high = map(float, image.attrib["viewBox"].split())
    paper = Paper(figsize=size)
    axes = paper.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, wide), ylim=(high, 0), aspect="equal")
    axes.set_axis_off()
    scale = min(size[0] * PIXELS / wide, size[1] * PIXELS / high) * _POINT
    for node, halo in _nodes(image):
        a = node.attrib
        if node.tag == "text":
            _write(axes, node, float(a.get("font-size", image.attrib["font-size"])) * scale * _LETTERS, halo)
            continue
        number = {key: float(value) for key, value in a.items() if re.fullmatch(r"[-\d.e]+", value)}
        look: dict[str, Any] = {
            "facecolor": _colour(a.get("fill", "none"), number.get("fill-opacity", 1.0)),
            "edgecolor": _colour(a.get("stroke", "none"), number.get("stroke-opacity", 1.0)),
            "linewidth": number.get("stroke-width", 1.0) * scale,
            "joinstyle": "round" if "stroke-linejoin" in a else "miter",
            "capstyle": "butt",
        }
        if "stroke-dasharray" in a:
            look["linestyle"] = (0, [float(dash) * scale / look["linewidth"] for dash in a["stroke-dasharray"].split()])
        if node.tag == "rect":
            patch = patches.Rectangle((number["x"], number["y"]), number["width"], number["height"], **look)
        elif node.tag == "circle":
            patch = patches.Circle((number["cx"], number["cy"]), number["r"], **look)
        elif a["d"]:
            patch = patches.PathPatch(_path(a["d"]), **look)
        else:
            continue
        axes.add_artist(patch)
    return paper


def _nodes(parent: ET.Element, halo: bool = False) -> Iterator[tuple[ET.Element, bool]]:
    """What is to be drawn, in order, and whether it stands in a group that has a halo."""
    for node in parent:
        if node.tag == "g":
            yield from _nodes(node, True)
        else:
            yield node, halo


def _colour(name: str, opacity: float) -> Any:
    return "none" if name == "none" else (name, opacity)


def _write(axes: Any, node: ET.Element, points: float, halo: bool) -> None:
    from matplotlib.patheffects import withStroke

    raised = "".join((part.text or "").replace("−", "-").translate(RAISED) + (part.tail or "") for part in node)
    turned = 90 if "transform" in node.attrib else 0
    anchor = {"start": "left", "middle": "center", "end": "right"}[node.attrib["text-anchor"]]
    axes.text(
        float(node.attrib["x"]), float(node.attrib["y"]), (node.text or "") + raised, color=node.attrib["fill"],
        fontsize=points, ha=anchor, va="baseline", rotation=turned, rotation_mode="anchor", family="DejaVu Sans",
        parse_math=False,
        path_effects=[withStroke(linewidth=3 * _POINT, foreground=style.LIGHT["page"])] if halo else None,
    )  # fmt: skip


def _path(words: str) -> Any:
    """The path of a drawing, which knows straight pieces and half circles."""
    from matplotlib.path import Path as Outline

    points: list[tuple[float, float]] = []
    codes: list[int] = []
    x = y = 0.0
    for command, rest in re.findall(r"([MLHVhvlaZz])([^MLHVhvlaZz]*)", words):
        n = [float(value) for value in rest.split()]
        if command in "Zz":
            points.append((x, y))
            codes.append(int(Outline.CLOSEPOLY))
            continue
        if command == "a":  # half a circle around the middle of its ends
            centre, radius = x + n[5] / 2, n[5] / 2
            half = Outline.arc(180, 360)
            ends, kinds = np.asarray(half.vertices)[1:].tolist(), np.asarray(half.codes)[1:].tolist()
            points += [(centre + radius * u, y - radius * v) for u, v in ends]
            codes += kinds
            x += n[5]
            continue
        x = {"H": n[0], "V": x, "v": x}.get(command, x + n[0] if command in "hl" else n[0])
        y = {"H": y, "h": y, "V": n[0]}.get(command, y + n[-1] if command in "vl" else n[-1])
        points.append((x, y))
        codes.append(int(Outline.MOVETO if command == "M" else Outline.LINETO))
    return Outline(points, codes)
