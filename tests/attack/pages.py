"""Pages with hostile names, labels, paths and JSON, in Chromium: under the page's policy and with it taken out, nothing of theirs may run.

Of a committed result of every kind some words are replaced or lengthened by markup that would run, load or lead to a script wherever
an escape is missing; the page is drawn from that folder. A part of the cases goes the whole way: a table with hostile columns,
classes, file name and words is read, analysed and shown. What would run leaves a mark on `window`.
"""

from __future__ import annotations

import atexit
import functools
import json
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import overparam as op
from overparam.core import folder
from overparam.report import write_page

SAVED = sorted(
    path for schema in ("schema1", "schema2") for path in (Path(__file__).parents[1] / "frame" / schema).iterdir()
)
WHOLE_WAY_EVERY = 20
"""Every so many cases a table is analysed."""
RUN = "window.ran=1"
PAYLOADS = (
    f"<script>{RUN}</script>", f"</script><script>{RUN}</script>", f"<img src=x onerror={RUN}>", f"\"><svg onload={RUN}>", f"' onmouseover='{RUN}' x='",
    f"\" autofocus onfocus=\"{RUN}\" x=\"", f"</style><script>{RUN}</script>", f"<!--<script>{RUN}</script>-->", f"]]><script>{RUN}</script>",
    f"<a href=\"javascript:{RUN}\">x</a>", f"<a href='java\tscript:{RUN}'>x</a>", f"javascript:{RUN}", f"<iframe srcdoc=\"<script>parent.{RUN}</script>\">",
    f"</title><script>{RUN}</script>", f"</textarea></noscript><script>{RUN}</script>", f"<math><mtext></table></math><img src onerror={RUN}>",
    f"\u2028</script><script>{RUN}//", f"\\\";{RUN}//", f"${{{RUN}}}", "%{x}<extra></extra>", "$\\href{javascript:window.ran=1}{x}$", f"<svg><a xlink:href=\"javascript:{RUN}\"><text>x</text></a></svg>",
    "<link rel=stylesheet href=//example.invalid/a.css>", "<meta http-equiv=refresh content=\"0;url=//example.invalid\">", "@import '//example.invalid/a.css';",
    "<base href=//example.invalid/>", f"<object data=\"data:text/html,<script>{RUN}</script>\">", "\u202e\u0000\ud800</td></table></main>", "__proto__", "constructor",
    f"<style>@keyframes x{{}}*{{animation:x}}</style><b style=\"animation-name:x\" onanimationstart=\"{RUN}\">", f"<form action=javascript:{RUN}><button autofocus>",
)  # fmt: skip
OURS = ("kind", "mark", "role", "tone", "x_scale", "y_scale", "version", "picture", "png", "data")
"""Fields whose words are names of ours, without which the page is refused: rarely replaced."""
LEADS = """() => [...document.querySelectorAll("*")].filter(e => [...e.attributes].some(a =>
  /^on/i.test(a.name) || /^\\s*(java\\s*script|vbscript|data:text)/i.test(a.value.replace(/[\\u0000-\\u0020]/g, "")) &&
  /^(xlink:)?(href|src|action|formaction|data)$/i.test(a.name))).map(e => e.outerHTML.slice(0, 120))"""
"""Elements with a handler or an address that runs: the page has none of its own."""


def case(seed: int, index: int) -> dict[str, Any]:
    """One hostile page, opened twice."""
    if _browser() is None:
        return {"tally": ["no Chromium"]}
    rng = np.random.default_rng([seed, index, 19])
    with tempfile.TemporaryDirectory() as place:
        make: Callable[..., str] = _analysed if index % WHOLE_WAY_EVERY == WHOLE_WAY_EVERY - 1 else _replaced
        try:
            what = make(rng, Path(place))
        except (ValueError, FileNotFoundError) as error:
            words = str(error)
            return {"tally": ["refused"], "failed": [f"not one line: {words[:300]!r}"] if "\n" in words else []}
        page = (Path(place) / "report.html").read_text(encoding="utf-8")
        bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page, count=1)
        failed = [] if bare != page else ["the page has no policy"]
        failed += [f"with the policy, {what}: {found}" for found in _opened(page, Path(place))]
        failed += [f"without the policy, {what}: {found}" for found in _opened(bare, Path(place))]
    return {"tally": [f"{what} | shown"], "failed": failed}


def _replaced(rng: np.random.Generator, place: Path) -> str:
    """A committed result with hostile words in its document."""
    source = SAVED[int(rng.integers(len(SAVED)))]
    document = json.loads((source / folder.RESULT).read_text(encoding="utf-8"))
    document.pop("sha256", None)
    share = float(rng.choice([0.02, 0.2, 1.0]))

    def hostile(value: Any, key: str = "", named: float = 0.0) -> Any:
        if isinstance(value, dict):
            renamed = {(_word(rng) if rng.random() < named * share else name): name for name in value}
            return {new: hostile(value[old], old, named) for new, old in renamed.items()}
        if isinstance(value, list):
            return [hostile(part, key, named) for part in value]
        often = 0.002 if key in OURS or key.endswith("sha256") else share
        if not isinstance(value, str) or rng.random() >= often:
            return value
        return (value if rng.random() < 0.5 else "") + _word(rng)

    document["title"] = hostile(document["title"])
    document["sections"] = hostile(document["sections"])
    document["values"] = hostile(document["values"], named=0.02)
    document["provenance"] = hostile(document["provenance"], named=0.2)
    (place / folder.RESULT).write_text(json.dumps(document), encoding="utf-8")
    shutil.copy(source / folder.ARRAYS, place / folder.ARRAYS)
    write_page(place)
    return f"{source.parent.name} {source.name}"


def _analysed(rng: np.random.Generator, place: Path) -> str:
    """A table whose columns, classes, words and file are hostile, through `analyze` and `save`."""
    from overparam.analysis import data_labels, data_rival

    data_rival.TREES, data_labels.TREES = 10, 10  # what trees say is not asked here
    n = 30
    X = rng.standard_normal((n, 3))
    names, classes = [f"{_plain(rng)} {i}" for i in range(3)], [f"{_plain(rng)} {i}" for i in range(2)]
    words = [_plain(rng) for _ in range(3)]
    rows = [[*map(repr, X[i].tolist()), words[i % 3], classes[int(X[i, 0] > 0)]] for i in range(n)]
    quoted = lambda cells: ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)  # noqa: E731
    path = place / (re.sub("[/\\x00]", "", _plain(rng))[:60] + ".csv")
    path.write_text("\n".join(map(quoted, [[*names, "words", "y"], *rows])), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        op.analyze(path, label="y", kinds=False).save(place)
    return "a table, analysed"


def _word(rng: np.random.Generator) -> str:
    return str(PAYLOADS[int(rng.integers(len(PAYLOADS)))])


def _plain(rng: np.random.Generator) -> str:
    """A payload that a file of UTF-8 can hold in one line."""
    return re.sub("[\ud800\u0000\u2028\n]", "", _word(rng))


@functools.cache
def _browser() -> Any:
    """Chromium for all cases of a process; None where there is none."""
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if binary is None:
        return None
    driver = sync_playwright().start()
    flags = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
    ]
    started = driver.chromium.launch(executable_path=binary, args=flags)
    atexit.register(driver.stop)
    atexit.register(started.close)
    return started


def _opened(page: str, place: Path) -> list[str]:
    """What a visit finds: a mark, a dialog, a request, a handler or an address that runs."""
    path = place / "opened.html"
    path.write_bytes(page.encode("utf-8", errors="replace"))
    found: list[str] = []
    context = _browser().new_context(viewport={"width": 1000, "height": 800})
    try:
        visit = context.new_page()
        visit.on("dialog", lambda dialog: (found.append(f"a dialog: {dialog.message[:80]}"), dialog.dismiss()))
        visit.on(
            "request",
            lambda asked: (
                asked.url.startswith(("file:", "data:", "blob:")) or found.append(f"asks for {asked.url[:80]}")
            ),
        )
        visit.on(
            "framenavigated",
            lambda frame: frame.url.startswith(("file:", "about:blank")) or found.append(f"goes to {frame.url[:80]}"),
        )
        visit.goto(path.as_uri())
        visit.evaluate("() => document.querySelectorAll('details').forEach(d => { d.open = true })")
        visit.wait_for_timeout(300)
        for sight in visit.locator(".js-plotly-plot, th, a, summary, button").all()[:6]:
            if sight.is_visible():
                sight.hover(timeout=2000, force=True)
        visit.wait_for_timeout(100)
        found += [f"an element that runs: {words}" for words in visit.evaluate(LEADS)]
        found += ["a script ran"] if visit.evaluate("window.ran === 1") else []
        found += ["Object.prototype was changed"] if visit.evaluate("Object.keys(Object.prototype).length > 0") else []
    finally:
        context.close()
    return found
