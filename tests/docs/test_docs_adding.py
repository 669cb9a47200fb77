"""docs/adding.md followed to the letter: its blocks go into a copy of the package, and what they add works there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r'^```(python|diff) title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SECTIONS = re.split(r"^## ", (ROOT / "docs" / "adding.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
TABLES = {
    "tests/test_tried.py": "worked",
    "tests/kernels/test_classical.py": "Cauchy",
    "tests/kernels/test_specs_of_networks_and_kernels.py": "Cauchy or tried",
    "tests/data/test_readers.py": "read_json or every_reader",
    "tests/layers/test_activations.py": "square",
    "tests/audits/test_start_laws.py": "active",
    "tests/studies/test_random_labels.py": "random_labels",
    "tests/contract/test_verbs.py": "nearest",
}
"""Tables of tests with a new row, and which of their tests are about it."""
TRIED = """
import json
from pathlib import Path

import numpy as np

import overparam as op


def test_they_worked_where_users_call_them(tmp_path):
    assert Path(op.__file__).is_relative_to(Path(__file__).parents[1])
    X = np.random.default_rng(0).standard_normal((40, 3))
    H = op.gram(op.kernels.Cauchy(2.0), X)
    square = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(H.dense(), 1 / (1 + square / 4), rtol=1e-13)
    (tmp_path / "table.json").write_text(json.dumps({"X": X.tolist(), "y": (X[:, 0] > 0).tolist()}))
    data = op.load(tmp_path / "table.json")
    np.testing.assert_array_equal(data.X, X)
    assert (data.name, data.task) == ("table", "binary")
    found = op.nearest(data)
    assert op.read(found.save(tmp_path / "out")).distance == found.distance
    from overparam.cli import run

    assert run(["nearest", str(tmp_path / "table.json"), "--out", str(tmp_path / "o"), "--dtype", "float64"]) == 0
    assert op.read(tmp_path / "o").distance == found.distance
    assert run(["reproduce", "random-labels", "--plan"]) == 0
"""


def with_hunk(text, hunk):
    """`text` with one hunk of a diff: the lines around it must be there, once."""
    lines = hunk.rstrip("\n").split("\n")
    assert all(line == "" or line[0] in " +-" for line in lines), hunk
    old, new = ("".join(f"{line[1:]}\n" for line in lines if not line.startswith(sign)) for sign in "+-")
    assert f"\n{text}".count(f"\n{old}") == 1, f"{text.count(old)} times in the file:\n{old}"
    return f"\n{text}".replace(f"\n{old}", f"\n{new}")[1:]


def put_into(copy, section):
    """The blocks of a section, in a copy of the repository."""
    for language, path, body in BLOCK.findall(section):
        file = copy / path
        if language == "python":
            assert not file.exists(), f"{path} is there already"
            compile(body, path, "exec")
            file.write_text(body, encoding="utf-8")
            continue
        text = file.read_text(encoding="utf-8")
        for hunk in body.split("@@\n"):
            text = with_hunk(text, hunk)
        file.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The package and the tables of tests, with all that the page adds."""
    folder = tmp_path_factory.mktemp("copy")
    without = shutil.ignore_patterns("__pycache__", "first_edition*", "schema1")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=without)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for section in SECTIONS:
        put_into(folder, section)
    return folder


def test_what_the_page_adds_passes_its_tests_and_works_where_users_call_it(copy):
    (copy / "tests" / "test_tried.py").write_text(TRIED, encoding="utf-8")
    new = [path for section in SECTIONS for language, path, _ in BLOCK.findall(section) if language == "python"]
    doctests = [path for path in new if ">>> " in (copy / path).read_text(encoding="utf-8")]
    chosen = " or ".join([*TABLES.values(), *(f"{Path(path).stem}." for path in doctests)])
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--doctest-modules", "-vk", chosen]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    done = subprocess.run(
        [*command, *TABLES, *doctests], cwd=copy, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for path in (*TABLES, *doctests):
        assert re.search(rf"^{re.escape(path)}\S* .*PASSED", done.stdout, re.MULTILINE), f"{path}: {done.stdout}"
