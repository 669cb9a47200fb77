"""Surfaces: as JSON, as SVG, as files, on the page; hostile words stay words."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from tests.pages import HOSTILE, wait_until

from overparam.core import sections
from overparam.core.folder import Parts
from overparam.core.provenance import Provenance
from overparam.core.sections import Section, Text
from overparam.report import export_figures, render_fragment, render_page, save_figure
from overparam.report.interactive import surface_json
from overparam.report.surface_drawing import MOST_ACROSS, contour, mixed, render_surface_svg, shape_of, thinned

X = np.linspace(-1, 1, 9)
Y = np.linspace(-2, 2, 7)
Z = 2 + X[None, :] ** 2 - 0.2 * Y[:, None] ** 2


def saddle(title="A saddle", words="along", **options):
    names = {"x_label": words, "y_label": words, "z_label": words}
    return sections.surface(title, words, X, Y, Z, **names, **({"marked": (0.0, 0.0, 2.0)} | options))


def page_of(*surfaces):
    return Parts("landscape", "Title", {}, {}, (Section("Verdict", (Text("Words.", "good"), *surfaces)),), Provenance())


def test_a_surface_comes_back_from_json():
    made = saddle(path=[(0.0, 1.0), (0.5, 0.0)], z_scale="log")
    text = json.dumps(sections.to_json([Section("s", (made,))]))
    assert sections.from_json(json.loads(text)) == (Section("s", (made,)),)
    with pytest.raises(ValueError, match=r"`z` has shape \(7, 9\); expected \(9, 7\)"):
        sections.surface("", "", Y, X, Z, x_label="", y_label="", z_label="")


def test_the_drawing_is_well_formed_and_shows_the_heights():
    svg = render_surface_svg(saddle(path=[(-0.5, -1.0), (0.0, 0.0)]))
    tree = ET.fromstring(svg)
    fills = [node.get("fill") for node in tree.iter("path")]
    assert sum(fill not in (None, "none") for fill in fills) >= 8 * 6  # a cell each in space
    texts = [node.text for node in tree.iter("text")]
    assert texts.count("along") == 5  # three axes in space, two from above
    assert len(list(tree.iter("circle"))) == 4  # the point twice, the path
    flat = ET.fromstring(render_surface_svg(sections.surface("", "", X, Y, 0 * Z, x_label="", y_label="", z_label="")))
    assert len(list(flat.iter("path"))) > 8 * 6
    gaps = Z.copy()
    gaps[0, 0] = np.nan
    holed = render_surface_svg(sections.surface("", "", X, Y, gaps, x_label="", y_label="", z_label=""))
    assert holed.count("<path") < svg.count("<path") + 1
    assert "nan" not in holed


def test_contours_lie_where_the_height_is():
    for (ax, ay), (bx, by) in contour(X, Y, Z, 2.3):
        for x, y in ((ax, ay), (bx, by)):
            assert 2 + x**2 - 0.2 * y**2 == pytest.approx(2.3, abs=0.1)  # straight within a cell
    assert contour(X, Y, Z, 99.0) == []
    shape = shape_of(saddle())
    assert (shape.low, shape.high) == (pytest.approx(1.2), 3.0)
    assert shape.colour(shape.low) == mixed(0.0)


def test_a_log_scale_and_a_fine_grid():
    spec = surface_json(saddle(z_scale="log"))
    assert spec["log"]
    assert spec["range"] == [pytest.approx(np.log10(1.2), abs=1e-5), pytest.approx(np.log10(3), abs=1e-5)]
    assert spec["words"][3][4] == "2"  # the height itself
    fine = np.linspace(0, 1, 200)
    large = sections.surface("", "", fine, fine, np.add.outer(fine, fine), x_label="", y_label="", z_label="")
    small = thinned(large)
    assert len(small.x) == len(small.y) == MOST_ACROSS
    assert (small.x[0], small.x[-1], small.z[-1][-1]) == (0.0, 1.0, 2.0)


def test_hostile_words_stay_words():
    page = render_page(page_of(saddle(HOSTILE, HOSTILE)))
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "<img" not in render_fragment(page_of(saddle(HOSTILE, HOSTILE)))
    assert page.count("<script") == 8  # theme, two kinds of JSON, plotly as text, unpack, places, page, surfaces


def test_files_are_the_same_bytes_twice(tmp_path):
    pytest.importorskip("matplotlib")
    for kind in ("svg", "pdf"):
        one, two = (save_figure(saddle(), tmp_path / f"{name}.{kind}").read_bytes() for name in "ab")
        assert one == two
    assert save_figure(saddle("$x$", "$y$_", z_scale="log"), tmp_path / "c.png").stat().st_size > 10_000
    written = export_figures(page_of(saddle(), saddle("Another")), tmp_path / "all", kind="svg")
    assert [path.name for path in written] == ["01-a-saddle.svg", "02-another.svg"]


@pytest.mark.browser
def test_the_page_draws_what_is_in_view_and_follows_the_theme(browser, tmp_path):
    place = tmp_path / "page.html"
    place.write_text(render_page(page_of(*(saddle(f"Surface {i}") for i in range(8)))))
    context = browser.new_context(viewport={"width": 1100, "height": 700})
    page = context.new_page()
    faults = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(place.as_uri())
    wait_until(page, "document.documentElement.dataset.surfaces === 'true'")
    drawn = page.locator(".reliefs.drawn").count()
    assert 1 <= drawn < 6  # only those near the view
    assert page.locator(".reliefs").count() == 8
    assert page.locator(".reliefs .still svg").count() == 8
    page.click("#theme")
    ink = "getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()"
    wait_until(page, f"document.querySelector('.relief').layout.font.color === {ink}")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    wait_until(page, "document.querySelectorAll('.reliefs')[7].classList.contains('drawn')")
    assert not page.evaluate("document.querySelectorAll('.reliefs')[0].classList.contains('drawn')")
    assert faults == []
    context.close()
