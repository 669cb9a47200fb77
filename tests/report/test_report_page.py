"""The page and the fragment as text: escaping, size, nothing loaded, what is left out."""

import base64
import hashlib
import itertools
import json
import lzma
import re
import struct
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from plotly.offline import get_plotlyjs

from overparam.core import folder
from overparam.core.folder import Parts
from overparam.core.sections import Figure, Section, Table, Text, from_json, picture, series, to_json
from overparam.report import interactive, render_fragment, render_page, write_page
from overparam.report.interactive import embedded, points_a_series

LIMIT, USUAL = 3_000_000, 2_000_000
"""Bytes of a page: of the largest results, and of any usual one."""


class Elements(HTMLParser):
    """Start tags with their attributes, and the text of scripts."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.scripts: list[tuple[dict, str]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script" and self.scripts:
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)

    def handle_endtag(self, tag):
        self.tags.append(("/" + tag, {}))


@pytest.fixture(scope="module")
def page(example) -> str:
    return render_page(example)


def assert_nothing_loaded(elements: Elements):
    for tag, attributes in elements.tags:
        assert tag not in {"link", "iframe", "object", "embed", "base", "form", "source"}
        assert "src" not in attributes or (tag == "img" and attributes["src"].startswith("data:image/png;base64,"))
        for name, value in attributes.items():
            assert not name.startswith("on"), f"{tag} has {name}"
            if name in {"href", "xlink:href", "action", "poster", "srcset"}:
                assert value.startswith("#")
            if name == "style":
                assert "url(" not in value


def test_the_page_loads_nothing_and_is_small(page):
    assert len(page.encode()) < USUAL
    assert_nothing_loaded(Elements(page))
    style = re.search(r"<style>(.*?)</style>", page, re.S)[1]
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_names_every_script_that_runs_and_no_other(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert "script-src 'unsafe" not in policy
    assert "unsafe-eval" not in policy
    hashes = set(re.findall(r"'sha256-([^']+)'", policy))
    scripts = [*re.findall(r"<script>(.*?)</script>", page, re.S), get_plotlyjs()]
    assert {base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts} == hashes
    assert page.index("Content-Security-Policy") < page.index("<script")


def test_plotly_is_packed_as_anyone_can_unpack_it(page):
    size, text = re.search(r'id="plotly" data-size="(\d+)">([^<]*)</script>', page).groups()
    codes = np.frombuffer(text.encode("ascii"), dtype=np.uint8).astype(int)
    digits = (codes - 35 - (codes > ord("<"))).reshape(-1, 2)
    bits = (digits @ [91, 1])[:, None] >> np.arange(12, -1, -1) & 1
    packed = np.packbits(bits.astype(np.uint8).ravel()[: bits.size // 8 * 8]).tobytes()
    unpacked = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[interactive.FILTER]).decompress(packed)
    assert int(size) == len(unpacked)
    assert unpacked.decode() == get_plotlyjs()
    again = lzma.compress(unpacked, lzma.FORMAT_RAW, filters=[interactive.FILTER])
    assert interactive.as_text(again) == text


def test_headings_are_in_order(page):
    body = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    levels = [int(level) for level in re.findall(r"<h([1-6])>", body)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    assert levels.count(2) == 6  # five sections and how it was made


def test_figures_have_names_captions_and_a_still_image(page, example):
    count = sum(isinstance(b, Figure) for s in example.sections for b in s.blocks)
    assert page.count('class="plot" data-figure=') == count
    assert page.count('class="still"><svg') == count
    assert 'role="img" aria-label="Predicted training loss. Bands are certified brackets."' in page


def test_the_foot_says_how_it_was_made(page):
    foot = page[page.index("<footer") : page.index("</footer>")]
    for words in ("Seed</dt><dd>7<", "float64", "12.3 s", "1.07 GB", "depth = 1", "data</dt><dd>digits<"):
        assert words in foot


@pytest.mark.parametrize("render", [render_page, render_fragment])
def test_hostile_words_stay_words(render, hostile):
    text = render(hostile)
    elements = Elements(text)
    assert_nothing_loaded(elements)
    assert "b" not in [tag for tag, _ in elements.tags]
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    images = [attributes for tag, attributes in elements.tags if tag == "img"]
    assert len(images) == 3
    assert all(set(image) == {"class", "alt", "src"} for image in images)
    if render is render_page:
        assert len(elements.scripts) == 7  # theme, figures, plotly as text, unpack, places, page, tables
        figures = next(body for attributes, body in elements.scripts if attributes.get("id") == "figures")
        assert "<" not in figures
        specs = json.loads(figures)
        assert specs[0]["data"][0]["name"].startswith("&lt;/script&gt;")
        assert specs[0]["lines"][0]["label"].startswith("&lt;/script&gt;")


def test_embedded_json_cannot_end_its_element():
    text = embedded({"a": "</script><!--\u2028&"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!--\u2028&"}


def test_samples_are_left_out_when_asked(example):
    assert "seven-of-the-user" in render_page(example)
    for render in (render_page, render_fragment):
        text = render(example, samples=False)
        assert "seven-of-the-user" not in text
        assert "1,234,567" not in text
        assert "data:image" not in text
        assert text.count(" left out.<") == 3


def test_sections_come_back_from_json_and_old_ones_without_the_new_fields(example):
    told = json.loads(json.dumps(to_json(example.sections)))
    assert from_json(told) == example.sections
    assert [section.get("folded") for section in told] == [None, None, None, None, True]
    tables = [block for section in told for block in section["blocks"] if block["kind"] == "table"]
    assert [set(table) & {"sortable", "file"} for table in tables] == [set(), set(), set(), {"sortable", "file"}]


@pytest.mark.parametrize("shape", [(5, 3), (4, 7, 3), (1, 1), (6, 5, 1)])
def test_a_picture_is_the_file_others_read(shape, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    pixels = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    (tmp_path / "a.png").write_bytes(base64.b64decode(picture(pixels, "a").png))
    seen = np.round(255 * image.imread(tmp_path / "a.png")).astype(int)
    assert np.array_equal(
        seen[..., :3] if seen.ndim == 3 else seen, pixels.squeeze(2) if shape[-1] == 1 < len(shape) - 1 else pixels
    )


def test_pictures_are_stretched_and_small():
    size = struct.unpack(">II", base64.b64decode(picture(np.arange(200.0 * 100).reshape(200, 100), "a").png)[16:24])
    assert size == (25, 50)  # a quarter
    assert picture([[0.0, 5.0]], "a") == picture([[-1.0, 1.0]], "a") == picture(np.uint8([[0, 255]]), "a")
    assert picture([[np.nan, 1.0]], "a") == picture([[0.0, 1.0]], "a")
    with pytest.raises(ValueError, match=r"`pixels` has shape \(4,\); expected \(height, width\)"):
        picture(np.zeros(4), "a")


def test_a_folded_section_is_a_heading_to_open(page):
    fold = page[page.index('<section id="s4" class="part folded">') :]
    assert fold.startswith('<section id="s4" class="part folded"><details><summary><h2>Theory</h2></summary>')
    assert page.count("<details>") == 1


def test_cells_keep_their_digits_where_a_file_is_offered(page):
    assert 'data-file="labels.csv"' in page
    assert 'data-value="-1.25e-09"' in page
    assert 'data-value="=one, or &quot;two&quot;"' in page
    assert page.count("data-value=") == 12


def test_the_page_is_written_from_the_folder_without_computing(example, tmp_path):
    folder.write(example, tmp_path)
    target = write_page(tmp_path)
    assert target == tmp_path / "report.html"
    assert target.read_text(encoding="utf-8") == render_page(folder.read(tmp_path))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["arrays.npz", "report.html", "result.json"]


def test_the_fragment_is_small_and_has_no_script(example):
    text = render_fragment(example)
    assert len(text) < 150_000
    assert "<script" not in text
    assert "A wide network learns these labels" in text
    assert text.count("<svg viewBox") == 5
    assert text.count("<details>") == len(example.sections) - 1


def test_a_page_without_figures_needs_no_plotly(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    parts = Parts("k", "t", {}, {}, (Section("Verdict", (Text("Fine."),)),))
    assert len(render_page(parts)) < 60_000


def test_without_plotly_one_line_names_the_install(monkeypatch, example):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ImportError, match="pip install plotly") as caught:
        render_page(example)
    assert "\n" not in str(caught.value)
    assert render_fragment(example)  # notebooks do not need it


def test_a_python_without_lzma_says_so_when_a_page_is_asked_for(monkeypatch, example):
    interactive._packed.cache_clear()
    monkeypatch.setitem(sys.modules, "lzma", None)
    with pytest.raises(ImportError, match="needs Python's lzma module"):
        render_page(example)


def test_large_results_still_fit():
    x = np.arange(1, 60_001)
    cloud = tuple(
        series(f"cloud {i}", x, np.random.default_rng(i).random(60_000), mark="points", lower=x * 0.0, upper=x)
        for i in range(4)
    )
    figures = tuple(Figure("Big", "c.", "x", "y", cloud, "log") for _ in range(3))
    table = Table(("row", "words"), tuple((i, "word " * 200) for i in range(5000)), "Many rows.")
    parts = Parts("k", "t", {}, {}, (Section("Verdict", (Text("x"), *figures, table)),))
    text = render_page(parts)
    assert len(text.encode()) < LIMIT
    assert "of 60,000 points drawn" in text
    assert "The first 500 of 5,000 rows" in text
    assert points_a_series(figures) < 4000


def test_no_section_at_all():
    assert "<h1>t</h1>" in render_page(Parts("k", "t", {}, {}, ()))
    assert "t</p>" in render_fragment(Parts("k", "t", {}, {}, ()))
