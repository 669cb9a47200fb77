"""Pages with hostile names, labels, paths and JSON, in Chromium: under the page's policy and with it taken out, nothing of theirs may run.

Of a committed result of every kind some words are replaced or lengthened by markup that would run, load or lead to a script wherever
an escape is missing; the page is drawn from that folder. A part of the cases goes the whole way: a table with hostile columns,
classes, groups, file name and words is asked every question as it is typed, into a folder with such a name, and shown. What would run
leaves a mark on `window`; what the policy holds back is an error on the console; and no element of theirs may be there at all.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import json
import re
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from tests.attack.works import MODEL

import overparam as op
from overparam.cli import run
from overparam.core import folder
from overparam.report import write_page

SAVED = sorted(
    path for schema in ("schema1", "schema2") for path in (Path(__file__).parents[1] / "frame" / schema).iterdir()
)
WHOLE_WAY_EVERY = 6
"""Every so many cases a table goes the whole way, by each question in turn."""
SMALL = ("--width", "8")
QUESTIONS: tuple[tuple[str, ...], ...] = (
    ("analyze", "TABLE", "--no-kinds"), ("train", "TABLE", *SMALL, "--steps", "20"), ("diff", "OTHER", "TABLE"), ("gram", "TABLE", "--engine", "dense"),
    ("audit", "fully-connected", "TABLE", *SMALL, "--depth", "2", "--max-rows", "6", "--effort", "quick", "--laws", "forward norms"),
    ("landscape", "fully-connected", "TABLE", *SMALL, "--depth", "2", "--max-rows", "16"), ("labels",),
    ("compare", "TABLE", "--sizes", "40", "--seeds", "1", *SMALL, "--steps", "10"), ("foresee", "MODEL", "TABLE", "--no-probe"),
)  # fmt: skip
"""As they are typed; `labels` is asked in Python alone."""
RUN = "window.ran=1"
PAYLOADS = (
    f"<script>{RUN}</script>", f"</script><script>{RUN}</script>", f"<img src=x onerror={RUN}>", f"\"><svg onload={RUN}>", f"' onmouseover='{RUN}' x='",
    f"\" autofocus onfocus=\"{RUN}\" x=\"", f"</style><script>{RUN}</script>", f"<!--<script>{RUN}</script>-->", f"]]><script>{RUN}</script>",
    f"<a href=\"javascript:{RUN}\">x</a>", f"<a href='java\tscript:{RUN}'>x</a>", f"javascript:{RUN}", f"<iframe srcdoc=\"<script>parent.{RUN}</script>\">",
    f"</title><script>{RUN}</script>", f"</textarea></noscript><script>{RUN}</script>", f"<math><mtext></table></math><img src onerror={RUN}>",
    f"\u2028</script><script>{RUN}//", f"\\\";{RUN}//", f"${{{RUN}}}", "%{x}<extra></extra>", "$\\href{javascript:window.ran=1}{x}$", f"<svg><a xlink:href=\"javascript:{RUN}\"><text>x</text></a></svg>",
    "<link rel=stylesheet href=//example.invalid/a.css>", "<meta http-equiv=refresh content=\"0;url=//example.invalid\">", "@import '//example.invalid/a.css';",
    "<base href=//example.invalid/>", f"<object data=\"data:text/html,<script>{RUN}</script>\">", "\u202e\u0000\ud800</td></table></main>", "__proto__", "constructor",
    "\u2029<img src onerror=window.ran=1>", f"\u202e\u2066<svg/onload={RUN}>\u2069", f"\u0000<scr\u0000ipt>{RUN}</scr\u0000ipt>", f"{{{{constructor.constructor('{RUN}')()}}}}",
    f"<%= {RUN} %>", f"#{{{RUN}}}", f"&lt;script&gt;{RUN}&lt;/script&gt;", f"&#60;img src=x onerror={RUN}&#62;", f"\\u003cscript\\u003e{RUN}\\u003c/script\\u003e",
    f"x{{}}</style><svg onload={RUN}>", f"red;background:url(javascript:{RUN})", "url(//example.invalid/a.png)", f"<video><source onerror={RUN}>", f"<details open ontoggle={RUN}>",
    f"<body onpageshow={RUN}>", f"<input onfocus={RUN} autofocus>", f"<template><script>{RUN}</script></template>", f"<svg><script>{RUN}</script></svg>", f"<svg><style><img src=x onerror={RUN}></style></svg>",
    f"<a href='https://example.invalid' target=_blank onclick='{RUN}'>x</a>", f"`;{RUN};`", f"'-({RUN})-'", f"*/{RUN}/*", f"<img src=\"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' onload='{RUN}'/>\" onload={RUN}>",
    "<script src=//example.invalid/a.js></script>", f"<embed src=\"javascript:{RUN}\">", f"=cmd|'/c {RUN}'!A1", f"{'ä' * 3000}<script>{RUN}</script>", f"{'<b>' * 400}<img src=x onerror={RUN}>",
    f"<style>@keyframes x{{}}*{{animation:x}}</style><b style=\"animation-name:x\" onanimationstart=\"{RUN}\">", f"<form action=javascript:{RUN}><button autofocus>",
)  # fmt: skip
OURS = ("kind", "mark", "role", "tone", "x_scale", "y_scale", "version", "picture", "png", "data")
"""Fields whose words are names of ours, without which the page is refused: rarely replaced."""
LEADS = """() => [...document.querySelectorAll("*")].filter(e => [...e.attributes].some(a =>
  /^on/i.test(a.name) || /^\\s*(java\\s*script|vbscript|data:text)/i.test(a.value.replace(/[\\u0000-\\u0020]/g, "")) &&
  /^(xlink:)?(href|src|action|formaction|data)$/i.test(a.name)) ||
  e.matches("iframe, object, embed, base, link, form, video, audio, template, frame, marquee, meta[http-equiv=refresh i], " +
    "script[src], svg script, img:not([src^='data:image/png']):not([src^='blob:'])")).map(e => e.outerHTML.slice(0, 120))"""
"""Elements with a handler or an address that runs, or that load something: the page has none of its own."""


def case(seed: int, index: int) -> dict[str, Any]:
    """One hostile page, opened twice."""
    if _browser() is None:
        return {"tally": ["no Chromium"]}
    rng = np.random.default_rng([seed, index, 19])
    with tempfile.TemporaryDirectory() as place:
        turn, left = divmod(index, WHOLE_WAY_EVERY)
        try:
            whole_way = left == WHOLE_WAY_EVERY - 1
            what = (
                _asked(rng, Path(place), QUESTIONS[turn % len(QUESTIONS)])
                if whole_way
                else _replaced(rng, Path(place), index)
            )
        except (ValueError, FileNotFoundError) as error:
            words = str(error)
            return {
                "tally": [f"refused: {_kind_of_refusal(words)}"],
                "failed": [f"not one line: {words[:300]!r}"] if "\n" in words else [],
            }
        page = (Path(place) / "report.html").read_text(encoding="utf-8")
        bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page, count=1)
        failed = [] if bare != page else ["the page has no policy"]
        failed += [f"with the policy, {what}: {found}" for found in _opened(page, Path(place))]
        failed += [f"without the policy, {what}: {found}" for found in _opened(bare, Path(place))]
    return {"tally": [f"{what} | shown"], "failed": failed}


def _replaced(rng: np.random.Generator, place: Path, index: int) -> str:
    """A committed result, of each kind in turn, with hostile words in its document."""
    source = SAVED[index % len(SAVED)]
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


def _asked(rng: np.random.Generator, place: Path, question: tuple[str, ...]) -> str:
    """A table whose columns, classes, groups, words and file are hostile, through a question into a folder with such a name."""
    from overparam.analysis import data_labels, data_rival

    data_rival.TREES, data_labels.TREES = 10, 10  # what trees say is not asked here
    n = 60
    X = rng.standard_normal((n, 3))
    names, classes = [f"{_plain(rng)} {i}" for i in range(5)], [f"{_plain(rng)} {i}" for i in range(2)]
    words, groups = ([f"{_plain(rng)} {i}" for i in range(3)] for _ in range(2))
    grouped = bool(rng.integers(2)) and question[0] in ("analyze", "labels")
    heads = [*names[:3], names[3], *([names[4]] if grouped else []), "y"]
    rows = [
        [
            *map(repr, X[i].tolist()),
            words[i % 3],
            *([f"{groups[i % 3]} {i // 6}"] if grouped else []),
            classes[int(X[i, 0] > 0)],
        ]
        for i in range(n)
    ]
    quoted = lambda cells: ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)  # noqa: E731
    table, other = (place / f"{_name(rng)} {i}.csv" for i in range(2))
    table.write_text("\n".join(map(quoted, [heads, *rows])), encoding="utf-8")
    other.write_text("\n".join(map(quoted, [heads, *rows[2:], rows[0]])), encoding="utf-8")
    (place / "model.py").write_text(MODEL)
    out = place / f"{_name(rng)} out"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if question[0] == "labels":
            op.find_label_issues(table, label="y", group=names[4] if grouped else None).save(out)
        else:
            given = {"TABLE": str(table), "OTHER": str(other), "MODEL": f"{place / 'model.py'}:make"}
            more = ["--label", "y", *(["--group", names[4]] if grouped else [])]
            said = io.StringIO()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
                code = run([*(given.get(word, word) for word in question), *more, "--out", str(out)])
            if code:
                raise ValueError(said.getvalue().strip())
    (place / "report.html").write_bytes((out / "report.html").read_bytes())
    return f"{question[0]}, the whole way"


def _kind_of_refusal(words: str) -> str:
    """A line of ours without what is in it of theirs."""
    return (
        "its document does not fit together" if "do not fit together" in words or "damaged" in words else "another line"
    )


def _word(rng: np.random.Generator) -> str:
    return str(PAYLOADS[int(rng.integers(len(PAYLOADS)))])


def _plain(rng: np.random.Generator) -> str:
    """A payload that a file of UTF-8 can hold in one line."""
    return re.sub("[\ud800\u0000\u2028\n]", "", _word(rng))


def _name(rng: np.random.Generator) -> str:
    """A payload that a file may be called."""
    return re.sub("[/\\x00]", "", _plain(rng))[:60]


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
        visit.on("pageerror", lambda error: found.append(f"an error: {str(error)[:120]}"))
        visit.on(
            "console",
            lambda said: said.type == "error" and found.append(f"the console: {said.text[:160]}"),
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
