"""The scripts in examples/ and the Python blocks of the pages named below run as they stand; what pages name is there."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import overparam as op
from overparam.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [
    *(ROOT / "docs" / name for name in ("start.md", "data.md", "training.md", "coming_from_neural_tangents.md")),
    ROOT / "README.md",
]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(script, folder, monkeypatch):
    """The script as `python SCRIPT` in that folder, in this process: JAX is imported and programs are compiled once."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_in_an_empty_folder(path, tmp_path, monkeypatch, capsys):
    if "torch" in path.stem:
        pytest.importorskip("torch")
    run(path, tmp_path, monkeypatch)
    assert capsys.readouterr().out.strip()
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"


def test_every_example_is_on_the_page_of_examples():
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES if path.name not in page] == []
    named = set(re.findall(r"examples/(\w+\.py)", page))
    assert named == {path.name for path in EXAMPLES}


def blocks_of(page, folder):
    """The Python blocks of a page as one script, and an empty folder beside it."""
    blocks = FENCE.findall(page.read_text(encoding="utf-8"))
    assert len(blocks) >= 2, f"{page.name} has hardly a Python block"
    script, empty = folder / "page.py", folder / "empty"
    script.write_text("\n".join(blocks), encoding="utf-8")
    empty.mkdir()
    return script, empty


@pytest.mark.parametrize("page", PAGES[:-1], ids=lambda page: page.stem)
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    run(*blocks_of(page, tmp_path), monkeypatch)


def test_the_python_of_the_readme_runs_in_a_new_process(tmp_path):
    script, empty = blocks_of(PAGES[-1], tmp_path)
    environment = {**os.environ, "PYTHONWARNINGS": "error::UserWarning"}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=empty, env=environment, capture_output=True, text=True, timeout=120)
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


WRITTEN = [page for page in (ROOT / "docs").glob("*.md") if page.stem != "paper_index"]
WRITTEN += [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
ADDED = {"kernels.Cauchy", "layers.Square"}
"""What docs/adding.md adds."""


def test_every_name_the_pages_type_exists():
    """`op.…`, files of the package, and options of commands."""
    missing = []
    commands = typer.main.get_command(app).commands
    for page in WRITTEN:
        text = page.read_text(encoding="utf-8")
        for name in set(re.findall(r"\bop\.([A-Za-z_][\w.]*)", text)) - ADDED:
            thing = op
            for word in name.rstrip(".").split("."):
                if not hasattr(thing, word):
                    missing.append(f"{page.name}: op.{name}")
                    break
                thing = getattr(thing, word)
        for path in set(re.findall(r"`([a-z]+/[\w/]+\.(?:py|js|css))`", text)):
            if not any((place / path).exists() for place in (ROOT, ROOT / "src" / "overparam")):
                missing.append(f"{page.name}: {path}")
        for command, rest in re.findall(r"\boverparam (\w+)([^\n`#]*)", text):
            known = (
                {word for option in commands[command].params for word in (*option.opts, *option.secondary_opts)}
                if command in commands
                else set()
            )
            missing += [
                f"{page.name}: {command} {option}"
                for option in re.findall(r"--[a-z-]+", rest)
                if option not in known | {"--help"}
            ]
    assert not missing
