"""The page in Chromium: phone and desk, light and dark, paper, without storage, without scripts."""

import csv
import itertools

import pytest
from tests.pages import wait_until

from overparam.report import render_page

pytestmark = pytest.mark.browser

READY = "document.documentElement.dataset.ready === 'true'"

# Contrast of each visible text against the nearest opaque ground behind it (WCAG 2).
CONTRAST = """() => {
  const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const [r, g, b, a = 1] = parse(getComputedStyle(e).backgroundColor);
      if (a > 0.99) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const low = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || e.closest("script, style, noscript")) continue;
    if (!e.getClientRects().length || getComputedStyle(e).visibility === "hidden") continue;
    const style = getComputedStyle(e);
    const ink = parse(e.namespaceURI.endsWith("svg") ? style.fill : style.color);
    const [a, b] = [light(ink), light(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    seen += 1;
    if (ratio < 4.5) low.push([ratio, walk.currentNode.data.trim().slice(0, 40)]);
  }
  return { seen, low };
}"""

# Texts of a figure that stick out of it, and pairs of reference-line labels that overlap.
LABELS = """() => {
  const faults = [];
  for (const plot of document.querySelectorAll(".js-plotly-plot")) {
    const box = plot.getBoundingClientRect();
    for (const text of plot.querySelectorAll("text")) {
      const r = text.getBoundingClientRect();
      const out = r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1;
      if (r.width && out) faults.push(["clipped", text.textContent]);
    }
    const notes = [...plot.querySelectorAll(".annotation-text")].map((t) => [t.getBoundingClientRect(), t.textContent]);
    notes.forEach(([a, one], i) => notes.slice(i + 1).forEach(([b, two]) => {
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
        faults.push(["overlap", one, two]);
    }));
  }
  return faults;
}"""


@pytest.fixture(scope="module")
def address(example, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_page(example), encoding="utf-8")
    return path.as_uri()


class Visit:
    """One page in its own context; collects everything the console says and every request."""

    def __init__(self, browser, address, width=1400, scheme="light", scripts=True, setup=""):
        self.context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            java_script_enabled=scripts,
            accept_downloads=True,
        )
        self.page = self.context.new_page()
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        if setup:
            self.page.add_init_script(setup)
        self.page.goto(address)
        if scripts:
            wait_until(self.page, READY)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(375, "dark"), (1400, "light")])
def test_the_page_is_whole(browser, address, example, width, scheme):
    with Visit(browser, address, width, scheme) as visit:
        check_whole(visit, example, scheme)
        assert visit.page.locator(".scatterlayer path").count() > 3000


@pytest.fixture(scope="module")
def analysed(tmp_path_factory):
    """The page of the main job, as the command line writes it, and what it was drawn from."""
    import overparam as op

    result = op.analyze("digits", max_rows=300)
    folder = result.save(tmp_path_factory.mktemp("analysed"))
    assert (folder / "report.html").stat().st_size < 2_000_000
    return (folder / "report.html").as_uri(), result.parts()


@pytest.mark.parametrize(("width", "scheme"), [(375, "light"), (1400, "dark")])
def test_the_page_of_an_analysis_is_whole(browser, analysed, width, scheme):
    address, parts = analysed
    with Visit(browser, address, width, scheme) as visit:
        check_whole(visit, parts, scheme)


def check_whole(visit, parts, scheme):
    """Every figure drawn, nothing said or fetched, headings in order, text readable and inside its figure."""
    page = visit.page
    figures = sum(type(b).__name__ == "Figure" for s in parts.sections for b in s.blocks)
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    wait_until(page, f"document.querySelectorAll('.drawn .js-plotly-plot').length === {figures}")
    assert visit.said == []
    assert [url for url in visit.asked if not url.startswith(("file:", "data:"))] == []
    assert page.locator(".js-plotly-plot").count() == figures
    assert page.evaluate(
        "[...document.querySelectorAll('.plot')].every(p => p.querySelector('.main-svg')?.clientHeight > 200)"
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    hidden = "[...document.querySelectorAll('.scroll')].filter(s => s.scrollWidth > s.clientWidth).length"
    assert page.evaluate("innerWidth") > 600 or page.evaluate(hidden) == 0  # no column beyond the edge of a phone
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    contrast = page.evaluate(CONTRAST)
    assert contrast["seen"] > 150
    assert contrast["low"] == []
    assert page.evaluate(LABELS) == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
    assert dark == (scheme == "dark")


def test_the_theme_button_recolours_and_is_remembered(browser, address):
    with Visit(browser, address) as visit:
        colour = "getComputedStyle(document.querySelectorAll('.scatterlayer .lines path')[0]).stroke"
        before = visit.page.evaluate(colour)
        visit.page.click("#theme")
        wait_until(visit.page, f"{colour} !== '{before}'")
        assert visit.page.evaluate(CONTRAST)["low"] == []
        visit.page.reload()
        wait_until(visit.page, READY)
        assert visit.page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert visit.said == []


def test_without_storage_the_button_still_works(browser, address):
    forbid = (
        "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } })"
    )
    with Visit(browser, address, setup=forbid) as visit:
        visit.page.click("#theme")
        assert visit.page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert visit.said == []


def test_legend_zoom_reset_and_download(browser, address):
    with Visit(browser, address) as visit:
        page = visit.page
        button = page.locator(".legend button").first
        traces = page.locator(".plot[data-figure='1'] .scatterlayer .trace")
        count = traces.count()
        page.locator("figure:has(.plot[data-figure='1']) .legend button").first.click()
        wait_until(
            page, f"document.querySelectorAll(\".plot[data-figure='1'] .scatterlayer .trace\").length === {count - 1}"
        )
        assert button.get_attribute("aria-pressed") in {"true", "false"}
        plot = page.locator(".plot[data-figure='1']")
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        page.mouse.move(box["x"] + 200, box["y"] + 100)
        page.mouse.down()
        page.mouse.move(box["x"] + 400, box["y"] + 300, steps=5)
        page.mouse.up()
        page.wait_for_timeout(300)
        zoomed = page.evaluate("document.querySelector(\".plot[data-figure='1']\").layout.xaxis.range")
        home = page.evaluate("JSON.parse(document.getElementById('figures').textContent)[1].layout.xaxis.range")
        assert zoomed[1] - zoomed[0] < 0.5 * (home[1] - home[0])
        with page.expect_download() as download:
            plot.hover()
            page.locator(".plot[data-figure='1'] .modebar-btn").first.click()
        assert download.value.suggested_filename.endswith(".svg")
        page.locator(".plot[data-figure='1'] .modebar-btn").nth(1).click()
        page.wait_for_timeout(300)
        back = page.evaluate("document.querySelector(\".plot[data-figure='1']\").layout.xaxis.range")
        assert back == pytest.approx(home)
        assert visit.said == []


def test_figures_follow_the_width(browser, address):
    with Visit(browser, address, 1400) as visit:
        visit.page.set_viewport_size({"width": 375, "height": 800})
        wait_until(
            visit.page,
            "[...document.querySelectorAll('.plot .main-svg')]"
            ".every(s => s.getBoundingClientRect().right <= innerWidth)",
        )
        assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert visit.page.evaluate(LABELS) == []


def test_on_paper_the_page_is_light_and_still(browser, address):
    with Visit(browser, address, scheme="dark") as visit:
        visit.page.emulate_media(media="print", color_scheme="dark")
        assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not visit.page.locator(".plot").first.is_visible()
        assert visit.page.locator(".still svg").first.is_visible()
        assert visit.page.locator("#s4 .thumbnail").first.is_visible()  # folds are open, scripts or not
        assert visit.page.evaluate(CONTRAST)["low"] == []
        assert len(visit.page.pdf(format="A4")) > 20_000
        # a long verdict is cut between its sentences, and does not leave the first page to the title
        broken = visit.page.eval_on_selector(".verdict", "box => getComputedStyle(box).breakInside")
        whole = visit.page.eval_on_selector(".verdict p", "words => getComputedStyle(words).breakInside")
        assert (broken, whole) == ("auto", "avoid")


def test_without_scripts_the_figures_are_there(browser, address):
    with Visit(browser, address, 375, scripts=False) as visit:
        assert visit.page.locator(".still svg").first.is_visible()


def test_a_program_that_was_tampered_with_does_not_run(browser, example, tmp_path):
    before, start, text = render_page(example).partition('<script type="text/plain" id="plotly"')
    at = text.index(">") + 1000
    other = "a" if text[at] != "a" else "b"
    path = tmp_path / "changed.html"
    path.write_text(before + start + text[:at] + other + text[at + 1 :], encoding="utf-8")
    with Visit(browser, path.as_uri()) as visit:
        assert visit.page.evaluate("typeof Plotly") == "undefined"
        assert visit.page.locator(".still svg").first.is_visible()
        assert any("Content Security Policy" in words for words in visit.said)
        visit.page.click("#theme")
        assert visit.page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_hostile_words_do_nothing(browser, hostile, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(render_page(hostile), encoding="utf-8")
    with Visit(browser, path.as_uri(), 375) as visit:
        assert visit.said == []
        assert visit.page.locator("img").count() == 3
        assert visit.page.evaluate("[...document.images].every(image => image.naturalWidth === 2)")
        assert visit.page.locator(".js-plotly-plot").count() == 1  # the other is folded
        assert "<script>alert(1)" in visit.page.locator(".plot .xtitle").first.text_content()
        assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_fold_opens_by_keyboard_by_a_link_and_on_paper(browser, address):
    with Visit(browser, address) as visit:
        page = visit.page
        is_open = "document.querySelector('#s4 details').open"
        assert not page.evaluate(is_open)
        assert page.locator("#s4 .js-plotly-plot").count() == 0
        page.locator("#s4 summary").focus()
        page.keyboard.press("Enter")
        assert page.evaluate(is_open)
        wait_until(page, "document.querySelectorAll('#s4 .drawn').length === 1")
        page.keyboard.press("Enter")
        page.locator("nav a[href='#s4']").click()
        wait_until(page, is_open)
        wait_until(page, "Math.abs(document.querySelector('#s4').getBoundingClientRect().top) < 400")
        page.evaluate("document.querySelector('#s4 details').open = false")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate(is_open)
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert not page.evaluate(is_open)
    with Visit(browser, f"{address}#s4") as visit:
        assert visit.page.evaluate(is_open)


def test_a_table_is_sorted_by_its_heads_and_downloaded(browser, address):
    with Visit(browser, f"{address}#s4") as visit:
        page = visit.page
        rows = "[...document.querySelectorAll('.sortable tbody tr')].map(row => row.cells[0].textContent)"
        assert page.evaluate(rows) == ["7", "23", "1,201"]
        margin = page.locator(".sortable thead th").nth(2)
        margin.locator("button").click()
        assert page.evaluate(rows) == ["23", "7", "1,201"]  # what is missing comes last
        margin.locator("button").click()
        assert page.evaluate(rows) == ["7", "23", "1,201"]
        assert margin.get_attribute("aria-sort") == "descending"
        page.locator(".sortable thead button").first.focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        assert page.evaluate(rows) == ["1,201", "23", "7"]
        with page.expect_download() as download:
            page.locator(".download").click()
        assert download.value.suggested_filename == "labels.csv"
        with open(download.value.path(), newline="", encoding="utf-8") as file:
            read = list(csv.reader(file))
        assert read == [
            ["row", "the other rows suggest", "margin", "picture"],
            ["1201", "three", "", "row 1201"],
            ["23", '=one, or "two"', "-1.25e-09", "row 23"],
            ["7", "seven", "0.5", "row 7"],
        ]
        assert visit.said == []


def test_hover_names_the_series_in_readable_colours(browser, address):
    with Visit(browser, address, scheme="dark") as visit:
        plot = visit.page.locator(".plot[data-figure='3']")
        plot.scroll_into_view_if_needed()
        mark = visit.page.locator(".plot[data-figure='3'] .points path").nth(5).bounding_box()
        visit.page.mouse.move(mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2)
        label = visit.page.locator(".plot[data-figure='3'] .hovertext")
        label.wait_for()
        assert any(name in label.text_content() for name in ("complexity", "test loss", "with gaps"))
        ground = label.locator("path").first.evaluate("e => getComputedStyle(e).fill")
        assert ground == "rgb(28, 32, 39)"  # the panel, not the colour of the curve
        assert visit.said == []
