"""A few cases of every attack; all by `python -m tests.attack`. What the first attacks found stands here by name."""

import ast
import contextlib
import decimal
import io
import json
import os
import signal
import subprocess
import sys
import time
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.attack import containment, disturbed, guided, malformed, pages, soak, truth, works, writes
from tests.attack.__main__ import KINDS

import overparam as op
from overparam.core import files, folder

FEW = {
    containment.case: 40, malformed.case: 200, guided.case: 70, disturbed.kills: works.QUICK, disturbed.stops: 1, disturbed.two: 4, writes.full_disk: 25,
    writes.killed_writes: 20, pages.case: 3, soak.case: 2,
}  # fmt: skip
ALONE = (disturbed, writes, pages)
"""Their cases run in a process of their own: JAX has no threads in it, and no other test holds a browser."""


def test_every_kind_has_a_few_cases_here() -> None:
    assert {(case.__module__.rpartition(".")[2], case.__name__) for case in FEW} == {
        kind[:2] for kind in KINDS.values()
    }


@pytest.mark.parametrize("case", FEW, ids=lambda case: f"{case.__module__.rpartition('.')[2]}-{case.__name__}")
def test_nothing_is_found(case) -> None:
    for index, found in enumerate(_found(case, FEW[case])):
        assert not found.get("failed"), f"case {index}: {found['failed']}"


def _found(case, count: int) -> list[dict]:
    """What the first cases see."""
    if case.__module__ not in {module.__name__ for module in ALONE}:
        return [case(5, index) for index in range(count)]
    kind = next(name for name, each in KINDS.items() if each[:2] == (case.__module__.rpartition(".")[2], case.__name__))
    words = [sys.executable, "-m", "tests.attack", "--child", "--kind", kind, "--seed", "5", "--count", str(count)]
    told = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=600, check=True)
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    assert len(rows) == count
    return rows


def test_a_command_is_done_whatever_write_was_killed_or_found_the_disk_full() -> None:
    """Every write of one verb, in an empty folder and over its own result: of all verbs by `python -m tests.attack`."""
    program = """
from tests.attack import writes
for start in (0, 1):
    for sites, judged in ((writes.killed_sites, writes.killed_at), (writes.full_sites, writes.full_at)):
        for at in sites("gram", start)[:: 1 if judged is writes.killed_at else 3]:
            print(judged("gram", start, at))
"""
    words = [sys.executable, "-c", program]
    told = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=600, check=True)
    rows = [ast.literal_eval(line) for line in told.stdout.splitlines()]
    assert [row for row in rows if row["failed"]] == []
    seen = " ".join(name for row in rows for name in row["tally"])
    assert all(
        words in seen
        for words in ("killed in a write", "killed before a move", "an empty place | open", "a finished one | move")
    )


def test_a_file_that_stays_would_be_found() -> None:
    """What removes the files of killed processes does nothing here."""
    program = """
from overparam.core import files
from tests.attack import writes
files.remove_leftovers = lambda folder: None
print([bool(writes.killed_at("parts", 0, at)["failed"]) for at in writes.killed_sites("parts", 0)[:2]])
"""
    words = [sys.executable, "-c", program]
    told = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=600, check=True)
    assert told.stdout == "[True, True]\n"


def test_a_wrong_bracket_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = op.predict_loss

    def wrong(*given, **more):
        curve = right(*given, **more)
        object.__setattr__(curve.bracketed, "upper", curve.bracketed.lower * (1 - 1e-6) - 1e-300)
        object.__setattr__(curve.bracketed, "lower", -np.inf)
        return curve

    monkeypatch.setattr(op, "predict_loss", wrong)
    assert any(containment.case(5, index)["failed"] for index in range(20))


def test_what_cannot_be_told_without_balls_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """mpmath solves singular systems without a word, to 1e70; and its rounding decides what is equal."""
    monkeypatch.setattr(truth, "flint", None)
    B = np.random.default_rng(0).integers(-4, 5, (5, 3)).astype(float)
    singular, regular = truth.matrix((B @ B.T).tolist()), truth.matrix((B @ B.T + 2.0**-40 * np.eye(5)).tolist())
    y = truth.column([1.0, -1.0, 2.0, 0.5, 1.0])
    assert truth.definite(singular, 5) is None
    with pytest.raises(ZeroDivisionError):
        truth.inverse_form(singular, [y], 0.0, 5)
    assert truth.definite(regular, 5) is True
    found = truth.inverse_form(regular, [y], 0.0, 5)
    assert float(found) == pytest.approx(float(np.sum(np.ravel(truth_by_svd(B, y)))), rel=1e-3)
    assert truth.below(truth.number(1.0), truth.number(1.0 + 2**-52))
    third = truth.number(1.0) / 3
    assert not truth.below(third, (third * 3 + truth.number(2.0)) / 9)  # equal but for rounding
    for case in range(8):
        assert not containment.case(77, case, balls=False)["failed"]


def truth_by_svd(B: np.ndarray, y: Any) -> np.ndarray:
    """yᵀ(BBᵀ + 2⁻⁴⁰)⁻¹y by the singular values of B: nearly all of it lies in the null space."""
    U, s, _ = np.linalg.svd(B)
    c = U.T @ np.array([float(y[i, 0]) for i in range(len(B))])
    return c**2 / (np.append(s**2, np.zeros(len(B) - len(s))) + 2.0**-40)


def test_a_page_that_runs_what_it_is_given_would_be_found(tmp_path: Path) -> None:
    """Each way in which a page could run something of theirs is seen."""
    program = """
import sys
from pathlib import Path
from tests.attack import pages
if pages._browser() is None:
    print("no Chromium")
    sys.exit()
for body in ("<p>words</p>", "<script>window.ran=1</script>", "<img src=x onerror=window.ran=1>", "<a href='javascript:window.ran=1'>x</a>",
             "<script>alert(1)</script>", "<link rel=stylesheet href=https://example.invalid/a.css>"):
    print(int(bool(pages._opened("<!doctype html><body>" + body, Path(sys.argv[1])))))
"""
    words = [sys.executable, "-c", program, str(tmp_path)]
    told = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=300, check=True)
    if "no Chromium" in told.stdout:
        pytest.skip("no Chromium on this machine")
    assert told.stdout.split() == ["0", "1", "1", "1", "1", "1"]


def test_a_long_field_takes_a_small_multiple_of_its_file(tmp_path: Path) -> None:
    rows = [f"{i % 7},{'x' * 130_000 if i == 5 else f'w{i % 3}'},{i % 2}" for i in range(3000)]
    (tmp_path / "a.csv").write_text("a,b,y\n" + "\n".join(rows))
    held = op.load(tmp_path / "a.csv")
    assert held.X.nbytes < 10 * (tmp_path / "a.csv").stat().st_size
    with pytest.raises(ValueError, match=r"130,000 characters"):
        op.load(tmp_path / "a.csv", label="b")


def test_numbers_that_float64_does_not_hold_are_not_rounded(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,y\n1,9007199254740993\n2,9007199254740992\n3,9007199254740993\n")
    assert set(op.load(tmp_path / "a.csv").labels) == {"9007199254740993", "9007199254740992"}
    long = [2**100 + 1, 2**100, 1]
    decimals = [decimal.Decimal(str(value)) for value in long]
    for frame in (
        pd.DataFrame({"y": decimals, "a": [1, 2, 3]}),
        pl.DataFrame({"y": decimals, "a": [1, 2, 3]}),
        pl.DataFrame({"y": pl.Series(long, dtype=getattr(pl, "Int128", pl.Object)), "a": [1, 2, 3]}),
        pa.table({"y": pa.array(decimals, pa.decimal128(38, 0)), "a": [1, 2, 3]}),
    ):
        assert set(op.load(frame, label="y").labels) == set(map(str, long))
    for X, y in (
        (np.array([[2**63 - 1], [1]]), [0, 1]),
        (np.eye(2), np.array([2**64 - 1, 1], dtype=np.uint64)),
        (np.eye(2), np.ma.array([0, 1], mask=[1, 0])),
        (np.ma.array(np.eye(2), mask=np.eye(2) > 0), [0, 1]),
        (np.eye(3), [2**63 + 1, 2**63 + 3, 1]),  # NumPy makes floats of them, and one label of two
        (np.eye(3), [2**53 + 1, 2**53, 0.5]),
        ([[2**53 + 1, 0.5], [2**53, 1]], [0, 1]),
        ([[2**63 + 1, 1], [2**63, 1]], [0, 1]),
        (np.array([[2**53 + 1, 1], [2**53, 1]], dtype=object), [0, 1]),
    ):
        with pytest.raises(ValueError, match=r"float64|above|masked|NaN"):
            op.load((X, y))


@pytest.mark.parametrize("no_number", ["NaN", "sNaN"])
def test_decimals_that_are_no_numbers_are_missing_values(no_number: str) -> None:
    values = [decimal.Decimal(word) for word in ("1.5", no_number, "2.5", "4")]
    for frame in (
        pd.DataFrame({"a": values, "y": [*"uvuv"]}),
        pl.DataFrame({"a": pl.Series(values, dtype=pl.Object), "y": [*"uvuv"]}),
    ):
        with pytest.raises(ValueError, match=r"1 missing value: 'a' 1 \(first: row 1\)"):
            op.load(frame, label="y")


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="a pipe or a device"):
        op.load(tmp_path / "a.csv")


def test_an_archive_that_claims_more_than_it_has_takes_no_memory(tmp_path: Path) -> None:
    head = io.BytesIO()
    np.save(head, np.zeros((2, 2)))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", head.getvalue().replace(b"(2, 2)", b"(9, 9)"))
        archive.writestr("y.npy", head.getvalue())
    with pytest.raises(ValueError, match="corrupt or cut short"):
        op.load(tmp_path / "a.npz")


def test_another_question_s_folder_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from overparam.cli import run

    op.read(works.SAVED / "schema1" / "audit").save(tmp_path)
    (tmp_path / "mine.txt").write_text("mine")
    whole = (tmp_path / folder.RESULT).read_bytes()
    assert run(["gram", "wine", "--rows", "20", "--out", str(tmp_path)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert (tmp_path / folder.RESULT).read_bytes() == whole
    (tmp_path / folder.RESULT).write_bytes(whole[:-9])
    assert run(["gram", "wine", "--rows", "20", "--out", str(tmp_path)]) == 2  # damaged: somebody may still want it
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """Names of temporary files cannot be guessed; a link in the place of the target is replaced, not followed."""
    (tmp_path / "victim").write_text("safe")
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    files.write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "victim").read_text() == "safe"
    assert len({files.temporary(tmp_path) for _ in range(100)}) == 100


def test_more_classes_than_rows_are_refused_before_anything_is_paid() -> None:
    X, y = np.random.default_rng(0).standard_normal((400, 3)), [f"c{i // 2}" for i in range(400)]
    with pytest.raises(ValueError, match=r"200 classes and 60 rows .* too much"):
        op.analysis.prepare_analyze((X, y), max_rows=60)


def test_the_plan_counts_what_many_classes_take() -> None:
    X = np.random.default_rng(0).standard_normal((3000, 3))
    few, many = (op.analysis.prepare_analyze((X, [f"c{i % k}" for i in range(3000)])).plan for k in (2, 1500))
    assert many.memory > few.memory + 1500 * 3000 * 8
    assert many.seconds > 2 * few.seconds
    with pytest.raises(ValueError, match=r"needs .* is free"):
        replace(many, free_memory=2**31).require_memory()


def test_a_stop_while_arrays_are_packed_is_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """zipfile tells it as an archive that cannot be closed."""

    def stopped(file, *given, **more):
        file.write(b"some")
        raise KeyboardInterrupt

    monkeypatch.setattr(np.lib.format, "write_array", stopped)
    with pytest.raises(KeyboardInterrupt):
        folder.npz({"x": np.zeros(3)})


@pytest.mark.parametrize("lr", [1e-300, 1e100, 1e160, 1e300])
@pytest.mark.parametrize("size", [1e-140, 1.0, 1e140])
def test_rates_and_sizes_of_any_size_are_infinite_and_no_warning(lr: float, size: float) -> None:
    """What passes float64 has no upper side; numbers whose squares pass it are refused before anything is asked."""
    H, y = size * np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, -2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q = op.quadrature(H, y)
        few = [0, 1, 7, 10**9]
        asked = (
            op.predict_loss(q, few, lr),
            op.predict_loss(q, [0, 5], lr, momentum=0.9),
            op.predict_movement(q, few, lr),
        )
        for found in asked:
            lower, upper = np.asarray(found.bracketed.lower), np.asarray(found.bracketed.upper)
            assert np.all(lower <= upper)  # no NaN
            assert np.all(np.isfinite(lower))
        assert op.max_learning_rate(q).certified
        op.steps_to_loss(q, target=0.1, lr=lr)
        for odd in (1e200, 1e-200):
            with pytest.raises(ValueError, match="whose squares pass float64"):
                op.quadrature(H / size * odd, y)
            with pytest.raises(ValueError, match="whose squares pass float64"):
                op.quadrature(H, y * odd)


def test_a_checksum_is_no_path(tmp_path: Path) -> None:
    op.read(works.SAVED / "schema1" / "audit").save(tmp_path)
    document = json.loads((tmp_path / folder.RESULT).read_text())
    del document["sha256"]
    for odd in ("../../etc/passwd", {"a": 1}, "0" * 63):
        (tmp_path / folder.RESULT).write_text(json.dumps({**document, "arrays_sha256": odd}))
        with pytest.raises(ValueError, match="no checksum of its arrays"):
            op.read(tmp_path)


@pytest.mark.parametrize("saved", malformed.SAVED, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_a_verdict_that_is_none_is_one_line(saved: Path, tmp_path: Path) -> None:
    """Of every kind and both schemas: what is no words is not shown later as if it were."""
    (tmp_path / folder.ARRAYS).write_bytes(saved.with_name(folder.ARRAYS).read_bytes())
    document = json.loads(saved.read_text())
    document.pop("sha256", None)
    kept = "verdict" in document["values"]
    for odd in (1.5, {"tone": "good"}, {"tone": "good", "sentences": [{"a": 1}]}, {"tone": "x", "sentences": ["a"]}):
        document["values"]["verdict"] = odd
        (tmp_path / folder.RESULT).write_text(json.dumps(document))
        said = ""
        with contextlib.suppress(ValueError):
            said = str(op.read(tmp_path))
        assert not said or saved.parts[-2] != "study" or not kept  # others have theirs of their numbers


def test_names_with_line_breaks_are_on_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('"a\nb","c\rd",y\n1,x,0\n2,z,1\n')
    np.savez(tmp_path / "a.npz", **{"X\n": np.eye(2), "y": np.arange(2)})
    for ask in (
        lambda: op.load(tmp_path / "a.csv", label="none"), lambda: op.load(tmp_path / "a.npz"),
        lambda: op.load({"X": np.eye(2), "y": [0, 1], "\nz": 1}, group="none"), lambda: op.load({"X": np.eye(2), "y": [0, 1], "\nz": 1}, label="none"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"column|array") as caught:
            ask()
        assert len(str(caught.value).splitlines()) == 1


def test_a_bracket_has_numbers() -> None:
    for odd in ([], "1", True, {"a": 1}):
        with pytest.raises(ValueError, match="expected a number or an array"):
            op.theory.Bracketed(1.0, odd, 2.0)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after", [0.6, 1.5, 3.0, 6.0])
def test_a_stop_is_one_line_and_130(number: int, after: float, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "overparam", "compare", "wine", "--out", str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        time.sleep(after)
        child.send_signal(number)
        _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    assert said.splitlines()[-1].startswith("overparam: ")
    assert "Traceback" not in said


def test_works_hear_ctrl_c_where_a_shell_has_it_ignored() -> None:
    """As for what runs in its background: kills by it would be none."""
    program = """
import os, signal, time
from pathlib import Path
from tests.attack import disturbed, works
signal.signal(signal.SIGINT, signal.SIG_IGN)
works.WORKS["long"] = lambda place: time.sleep(30) or b""
child = disturbed._forked("long", Path("."))
os.kill(child, signal.SIGINT)
print(disturbed._ended(child))
"""
    words = [sys.executable, "-c", program]
    told = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=100, check=True)
    assert told.stdout == "130\n"


def test_a_stop_that_was_swallowed_comes_again() -> None:
    """As callbacks of libraries do: the exception is lost in a destructor, and the work would go on."""
    program = """
import os, signal, time
from overparam.cli import signals
signals.listen()
class Deaf:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
try:
    Deaf()
    time.sleep(20)
except KeyboardInterrupt:
    print("heard")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr) == ("heard\n", "")
