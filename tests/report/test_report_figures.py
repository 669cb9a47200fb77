"""Figures as plotly JSON, as SVG and as files: gaps, bands, categories, log axes, odd data."""

import errno
import json
import math
import os
import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from overparam.core.sections import Figure, Line, Series, series
from overparam.report import export_figures, save_figure, style
from overparam.report.axes import canvas, ticks
from overparam.report.drawing import above, beside, render_svg
from overparam.report.interactive import plotly_of

ODD = {
    "no series": (),
    "empty": (Series("a", (), ()),),
    "one point": (series("a", [3.0], [2.0]),),
    "constant": (series("a", [1, 2], [5.0, 5.0]),),
    "all gaps": (series("a", [1, 2], [np.nan, np.nan]),),
    "zeros": (series("a", [0, 0], [0.0, 0.0], lower=[0, 0], upper=[0, 0]),),
    "negative": (series("a", [-1, 2], [-3.0, 4.0], lower=[-9.0, -9.0], upper=[-5.0, 9.0], mark="bars"),),
    "extreme": (series("a", [1e-300, 1e300], [1e300, 1e-300], lower=[0, 0], upper=[1e305, 1e-290]),),
    "tiny": (series("a", [5e-324, 1.0], [5e-324, 1e-323]),),
    "no x": (Series("a", (None, 1.0), (1.0, 2.0)),),  # type: ignore[arg-type]
    "short bracket": (Series("a", (1.0, 2.0), (1.0, 2.0), (0.5,), (2.0,)),),
    "words": (series("a", ["x", "y"], [1.0, None], mark="bars"), series("b", ["y", "z"], [2.0, 3.0])),
    "words and numbers": (series("a", ["x"], [1.0]), series("b", [1.0], [2.0], mark="points")),
    "points with a bracket": (series("a", [1, 2], [1.0, 2.0], lower=[0.5, None], upper=[2, None], mark="points"),),
    "role unknown": (Series("a", (1.0,), (1.0,), role="other"),),  # type: ignore[arg-type]
}
LINES = (Line("v", x=2.0), Line("h", y=1.0), Line("nowhere"), Line("zero", x=0.0), Line("minus", y=-1.0))


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_odd_data_draw_everywhere(name, scale, tmp_path):
    figure = Figure("t", "c", "x", "y", ODD[name], scale, scale, LINES)
    text = json.dumps(plotly_of(canvas(figure)), allow_nan=False)
    assert json.loads(text)["layout"]["yaxis"]["type"] == scale
    image = render_svg(figure)
    ET.fromstring(image)
    assert "nan" not in image
    assert "inf" not in image.replace("inform", "")
    if "extreme" not in name and "tiny" not in name:
        pytest.importorskip("matplotlib")
        assert save_figure(figure, tmp_path / "a.png").stat().st_size > 1000


def test_a_log_axis_drops_what_it_cannot_show_and_clips_bands():
    figure = Figure(
        "t", "c", "x", "y",
        (series("a", [0, 1, 10, 100], [1.0, 0.1, 0.0, 0.01], lower=[0, 0, 0, 1e-200], upper=[1, 1, 1, 1]),),
        "log", "log",
    )  # fmt: skip
    drawn = canvas(figure)
    assert drawn.series[0].x == (1.0, 10.0, 100.0)
    assert drawn.series[0].y == (0.1, None, 0.01)
    assert -3.3 < drawn.y_range[0] < -2.9  # one decade below the curve, not two hundred
    band, curve = plotly_of(canvas(figure))["data"]
    assert band["fill"] == "toself"
    assert min(band["y"]) > 0
    assert curve["y"] == [0.1, None, 0.01]


def test_a_band_breaks_where_its_bracket_does():
    figure = Figure("t", "c", "x", "y", (series("a", range(5), [1] * 5, lower=[0, 0, None, 0, 0], upper=[2] * 5),))
    band = plotly_of(canvas(figure))["data"][0]
    assert band["y"] == [2, 2, 0, 0, None, 2, 2, 0, 0]


def test_the_first_series_lies_on_top_and_bars_keep_their_order():
    def names(mark):
        figure = Figure("t", "c", "x", "y", tuple(series(n, [1, 2], [1, 2], mark=mark) for n in "abc"))
        return [trace["name"] for trace in plotly_of(canvas(figure))["data"]]

    assert names("line") == ["c", "b", "a"]
    assert names("bars") == ["a", "b", "c"]


def test_series_of_a_figure_look_different():
    for role in ("accent", "true", "random"):
        looks = style.looks([series(str(i), [1], [1], role=role) for i in range(4)])
        assert len(set(looks)) == 4
    assert style.looks([series("a", [1], [1], role="true")])[0][0] == "true"


@pytest.mark.parametrize("theme", [style.LIGHT, style.DARK])
def test_every_colour_can_be_read_on_its_page(theme):
    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    def contrast(a, b):
        low, high = sorted((luminance(a), luminance(b)))
        return (high + 0.05) / (low + 0.05)

    for name in (*style.INKS, "ink", "soft", "link", "good", "warning", "bad"):
        assert contrast(theme[name], theme["page"]) >= 4.5, name
        assert contrast(theme[name], theme["panel"]) >= 4.5, name


def test_thinning_keeps_extremes_gaps_and_sparse_parts():
    y = np.sin(np.arange(20_000) / 500.0)
    y[7_777], y[3_000:3_500] = 5.0, np.nan
    (curve,) = canvas(Figure("t", "c", "x", "y", (series("a", np.arange(20_000), y),)), 1000).series
    assert len(curve.x) <= 1500
    assert max(v for v in curve.y if v is not None) == 5.0
    assert None in curve.y
    x = np.arange(1, 60_001)
    cloud = canvas(Figure("t", "c", "x", "y", (series("a", x, 1.0 / x, mark="points"),), "log", "log"), 1000)
    assert set(range(1, 11)) <= set(cloud.series[0].x)  # the largest eigenvalues are all there
    assert cloud.left_out == (("a", len(cloud.series[0].x), 60_000),)


def test_labels_of_lines_do_not_meet():
    lines = [(x, "a label of some length") for x in (10.0, 20.0, 300.0, 310.0, 590.0)]
    labels, rows = above(lines, 0, 600)
    boxes = [(left, left + len(words) * 6.6, row) for words, left, row, _ in labels]
    for i, (a, b, row) in enumerate(boxes):
        assert a >= 0
        assert b <= 610
        assert all(row != r or b <= c or d <= a for c, d, r in boxes[:i])
    assert rows <= 4
    placed = beside([(50.0, "one"), (52.0, "two"), (54.0, "three"), (2.0, "top")], (0, 0, 600, 300), [])
    assert len({(left > 300, round(base / 14)) for _, left, base, _ in placed}) == 4
    assert placed[-1][2] - 11 >= 0


def test_ticks_are_round():
    assert ticks(-0.02, 1.31, log=False) == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]
    assert ticks(-12.5, 0.1, log=True) == [1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0]
    assert ticks(math.log10(0.25), math.log10(45), log=True) == [0.5, 1, 2, 5, 10, 20]
    assert len(ticks(math.log10(3.0), math.log10(3.9), log=True)) >= 1


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_figures_are_exported_the_same_each_time(example, tmp_path, kind):
    if kind != "svg":
        pytest.importorskip("matplotlib")
    some = replace(example, sections=(example.sections[1],))
    first = export_figures(some, tmp_path / "a", kind=kind)
    again = export_figures(some, tmp_path / "b", kind=kind)
    names = ["complexity-of-three-label-vectors", "where-the-labels-lie-in-the-spectrum"]
    assert [p.name for p in first] == [f"0{i}-{name}.{kind}" for i, name in enumerate(names, 1)]
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in again]


def test_hostile_names_in_files(hostile, tmp_path):
    (first, *_) = export_figures(hostile, tmp_path, kind="svg")
    assert "<script>" not in first.read_text(encoding="utf-8")
    ET.fromstring(first.read_text(encoding="utf-8"))
    odd = Figure("bell \a", "", "x", "y", (series("a \0", [1, 2], [1, 2]), series("b", [1, 2], [2, 1])))
    assert "bell" in ET.parse(save_figure(odd, tmp_path / "odd.svg")).getroot().attrib["aria-label"]
    assert re.fullmatch(r"01-[a-z0-9-]+\.svg", first.name)


def test_a_file_says_what_its_curves_are_and_keeps_its_size(tmp_path):
    curves = tuple(series(f"curve {i}", range(20), np.arange(20) * i, role="accent") for i in range(9))
    tree = ET.parse(save_figure(Figure("t", "c", "x", "y", curves), tmp_path / "a.svg", size=(5, 3))).getroot()
    words = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert [f"curve {i}" for i in range(9)] == [word for word in words if word and word.startswith("curve")]
    assert (tree.attrib["width"], tree.attrib["viewBox"]) == ("5in", "0 0 500 300")
    image = pytest.importorskip("matplotlib.image")
    png = save_figure(Figure("t", "c", "x", "y", curves), tmp_path / "a.png", size=(5, 3))
    assert image.imread(png).shape[:2] == (600, 1000)


def test_png_shows_what_svg_does(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    points = (series("a", [1, 2], [1.0, 2.0], mark="points", role="true"), series("b", [1, 2], [2.0, 1.0], mark="bars"))
    pixels = image.imread(save_figure(Figure("t", "c", "x", "y", points), tmp_path / "a.png"))[..., :3]
    for ink in ("true", "accent"):
        colour = [int(style.LIGHT[ink][i : i + 2], 16) / 255 for i in (1, 3, 5)]
        assert np.all(np.abs(pixels - colour) < 0.02, axis=-1).sum() > 100, ink


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_a_figure_is_there_whole_and_not_through_a_link(example, tmp_path, monkeypatch, kind):
    if kind != "svg":
        pytest.importorskip("matplotlib")
    figure = next(b for s in example.sections for b in s.blocks if isinstance(b, Figure))
    (tmp_path / "victim").write_text("safe")
    (tmp_path / f"a.{kind}").symlink_to(tmp_path / "victim")
    whole = save_figure(figure, tmp_path / f"a.{kind}").read_bytes()
    assert (tmp_path / "victim").read_text() == "safe"

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ValueError, match="No space left on device"):
        save_figure(figure, tmp_path / f"a.{kind}", size=(3, 3))
    assert (tmp_path / f"a.{kind}").read_bytes() == whole
    assert {path.name for path in tmp_path.iterdir()} == {"victim", f"a.{kind}"}


def test_errors_of_the_export(example, tmp_path, monkeypatch):
    figure = next(b for s in example.sections for b in s.blocks if isinstance(b, Figure))
    with pytest.raises(ValueError, match=r"ends in '.gif'; expected .png, .svg or .pdf"):
        save_figure(figure, tmp_path / "a.gif")
    with pytest.raises(ValueError, match="`kind` is 'gif'"):
        export_figures(example, tmp_path, kind="gif")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="name a folder for the figures"):
        export_figures(example, tmp_path / "file", kind="svg")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"overparam\[figures\]"):
        save_figure(figure, tmp_path / "a.png")
