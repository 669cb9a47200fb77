"""The site builds strictly without a network, and what it serves fetches nothing from elsewhere."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
needs_mkdocs = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None,
    reason="the site needs the extra `docs`",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    blocked = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **blocked}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@needs_mkdocs
def test_pages_load_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    loads = re.compile(
        r"<(?:script|img|iframe|source)[^>]*\ssrc=\"?(https?:)?//|<link[^>]*rel=\"?stylesheet[^>]*https?://"
    )
    for page in pages:
        assert not loads.search(page.read_text(encoding="utf-8")), page.name


@needs_mkdocs
def test_every_room_has_its_page_and_doctests_are_code(site):
    rooms = [path.parent.name for path in (ROOT / "src" / "overparam").glob("*/__init__.py")]
    assert (site / "commands.html").exists()
    for room in set(rooms) - {"cli"}:
        assert (site / "api" / f"{room}.html").exists(), room
    page = (site / "api" / "theory.html").read_text(encoding="utf-8")
    assert '<span class="gp">' in page  # a prompt that was highlighted
    assert "&gt;&gt;&gt; " not in re.sub(r"<code>.*?</code>", "", page, flags=re.DOTALL)
    assert "<blockquote>" not in page


def test_pages_have_no_absolute_paths_or_registry_addresses():
    for page in (ROOT / "docs").rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"(?<![\w.])/(?:home|root|usr|tmp|work|opt|var)/", text), page.name
        assert not re.search(r"pypi\.org|files\.pythonhosted|--index-url", text), page.name
