"""The scripts in examples/ and the Python blocks of the pages named below run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [
    *(ROOT / "docs" / name for name in ("start.md", "training.md", "coming_from_neural_tangents.md")),
    ROOT / "README.md",
]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(script, folder):
    # One thread: those of small products in PyTorch wait for each other where other tests hold the cores.
    environment = {**os.environ, "PYTHONWARNINGS": "error::UserWarning", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_in_an_empty_folder(path, tmp_path):
    if "torch" in path.stem:
        pytest.importorskip("torch")
    done = run(path, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"


def test_every_example_is_on_the_page_of_examples():
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES if path.name not in page] == []
    named = set(re.findall(r"examples/(\w+\.py)", page))
    assert named == {path.name for path in EXAMPLES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_python_of_a_page_runs(page, tmp_path):
    blocks = FENCE.findall(page.read_text(encoding="utf-8"))
    if page.stem == "start":
        assert len(blocks) >= 5
    if not blocks:
        pytest.skip(f"{page.name} has no Python block")
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    folder = tmp_path / "empty"
    folder.mkdir()
    done = run(script, folder)
    assert done.returncode == 0, done.stderr


def test_every_path_the_pages_name_exists():
    """Files of the repository named in code on the hand-written pages are there."""
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "decisions").glob("*.md")]
    missing = []
    for page in pages:
        for name in re.findall(r"`(?:python )?((?:src|docs|tests|examples|benchmarks)/[\w./-]+)", page.read_text()):
            if not (ROOT / name).exists():
                missing.append(f"{page.name}: {name}")
    assert not missing
