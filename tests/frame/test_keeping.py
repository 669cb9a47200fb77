"""What is kept comes back whole or not at all: every byte is checked, other settings are other files, kills leave no trace."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from overparam.core import files
from overparam.frame import Keeping, Kept, State, fingerprint


def kept() -> Kept:
    return Kept({"x": np.arange(5.0), "names": np.array(["a", "ü"])}, {"seconds": 1.5, "values": {"n": 3}})


def test_a_part_comes_back_with_its_arrays_and_values(tmp_path: Path) -> None:
    Keeping(tmp_path).keep("a part, m = 3", "mark", kept())
    found = Keeping(tmp_path).find("a part, m = 3", "mark")
    assert found is not None
    np.testing.assert_array_equal(found.arrays["x"], np.arange(5.0))
    assert found.arrays["names"].tolist() == ["a", "ü"]
    assert found.about == {"seconds": 1.5, "values": {"n": 3}}
    assert Keeping(tmp_path).find("a part, m = 3", "another mark") is None
    assert Keeping(tmp_path).find("a part, m = 4", "mark") is None


def test_what_another_version_kept_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a Job and what engines keep alike: both go through here."""
    keeping = Keeping(tmp_path)
    keeping.keep("tiles", "mark", Kept({"x": np.arange(3.0)}))
    assert keeping.holds("tiles", "mark")
    monkeypatch.setattr("overparam.frame.keeping.__version__", "0.0")
    assert not keeping.holds("tiles", "mark")
    assert keeping.find("tiles", "mark") is None
    keeping.forget([("tiles", "mark")])
    monkeypatch.undo()
    assert keeping.holds("tiles", "mark")  # what is another version's stays


def test_every_changed_byte_is_found(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path)
    keeping.keep("part", "mark", kept())
    (path,) = (tmp_path / "parts").iterdir()
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert keeping.find("part", "mark") is None, place
    for length in (0, 10, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert keeping.find("part", "mark") is None
    path.write_bytes(whole)
    assert keeping.find("part", "mark") is not None


def test_a_state_is_replaced_and_refused_to_other_work(tmp_path: Path) -> None:
    state = State(tmp_path, "training", "mine")
    assert state.load() is None
    state.save(Kept({"w": np.zeros(2)}, {"step": 1}))
    state.save(Kept({"w": np.ones(2)}, {"step": 2}))
    found = State(tmp_path, "training", "mine").load()
    assert found is not None
    assert found.about["step"] == 2
    np.testing.assert_array_equal(found.arrays["w"], np.ones(2))
    with pytest.raises(ValueError, match="of other work"):
        State(tmp_path, "training", "yours").load()
    state.path.write_bytes(state.path.read_bytes()[:-1] + b"?")
    with pytest.raises(ValueError, match="damaged"):
        state.load()
    state.forget()
    assert not tmp_path.exists()


def test_forgetting_takes_ones_own_parts_and_leaves_the_others(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path)
    for name in ("mine", "another question's"):
        keeping.keep(name, "mark", kept())
    unfinished = keeping.unfinished("mine", "mark")
    assert unfinished is not None
    State(unfinished, "training", "m").save(Kept({}))
    (tmp_path / "parts" / "notes.txt").write_text("mine")
    keeping.forget([("mine", "mark")])
    assert keeping.find("another question's", "mark") is not None
    assert len(list((tmp_path / "parts").iterdir())) == 2
    keeping.forget([("another question's", "mark")])
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["notes.txt"]


def test_nothing_is_kept_without_a_place() -> None:
    keeping = Keeping(None)
    keeping.keep("part", "mark", kept())
    assert keeping.find("part", "mark") is None
    assert keeping.unfinished("part", "mark") is None


def test_what_a_killed_process_left_is_removed_and_what_a_running_one_writes_is_not(tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    words = [sys.executable, "-c", "import os; print(os.getpid())"]
    dead = int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    left = parts / f".overparam-{files.HERE}-{dead}-{'0' * 16}.part"
    before_us = parts / f".overparam-{files.HERE}-{os.getpid()}-{'0' * 16}.part"  # of a process that had our number
    running = parts / f".overparam-{files.HERE}-{os.getppid()}-{'0' * 16}.part"
    elsewhere = parts / f".overparam-{'0' * 8}-{dead}-{'0' * 16}.part"
    other = parts / ".overparam-notes.part"
    for path in (left, before_us, running, elsewhere, other):
        path.write_text("half")
    Keeping(tmp_path)
    assert not left.exists()
    assert not before_us.exists()
    assert all(path.exists() for path in (running, elsewhere, other))
    for path in (elsewhere, running):  # nothing is written for a day: its number is another's by now
        os.utime(path, (0, 0))
    Keeping(tmp_path)
    assert [path.name for path in parts.iterdir()] == [other.name]


def test_whoever_writes_removes_what_was_left_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever that is: figures and tables lie in folders that no part or state is kept in."""
    words = [sys.executable, "-c", "import os; print(os.getpid())"]
    dead = int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    (tmp_path / f".overparam-{files.HERE}-{dead}-{'0' * 16}.part").write_text("half")
    write = files._write_new

    def looked_at(path: Path, content: bytes) -> None:
        write(path, content)
        files.remove_leftovers(tmp_path)  # as another thread of this process may, meanwhile

    monkeypatch.setattr(files, "_write_new", looked_at)
    files.write_whole(tmp_path / "figure.svg", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"figure.svg": b"new"}


def test_one_that_cannot_be_removed_does_not_keep_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process removes some of them at the same time, and some are of another user."""
    words = [sys.executable, "-c", "import os; print(os.getpid())"]
    dead = int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    left = [tmp_path / f".overparam-{files.HERE}-{dead}-{i:016}.part" for i in range(6)]
    for path in left:
        path.write_text("half")
    unlink, tried = Path.unlink, []

    def refused(path: Path, **options: bool) -> None:
        tried.append(path)
        if len(tried) == 1:
            raise PermissionError
        unlink(path, **options)

    monkeypatch.setattr(Path, "unlink", refused)
    files.remove_leftovers(tmp_path)
    assert sorted(tried) == left
    assert list(tmp_path.iterdir()) == tried[:1]


def test_a_link_in_the_place_of_a_temporary_file_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    guessed = tmp_path / ".overparam-guess.part"
    guessed.symlink_to(victim)
    monkeypatch.setattr(files, "temporary", lambda folder: guessed)
    with pytest.raises(ValueError, match="cannot write"):
        files.write_whole(tmp_path / "result", b"new")
    assert victim.read_text() == "mine"


@dataclass(frozen=True)
class Setting:
    n: int
    rates: tuple[float, ...] = (0.1,)


class Foreign:
    pass


def test_fingerprints_tell_apart_what_differs() -> None:
    from overparam.networks import TwoLayer

    different = [
        1, 1.0, True, "1", None, (1,), [1, 2], {"a": 1}, {"a": 2}, np.zeros(2), np.zeros((1, 2)), np.zeros(2, np.float32),
        Setting(1), Setting(2), Setting(1, (0.2,)), TwoLayer(8), TwoLayer(8, paired=True), b"1",
    ]  # fmt: skip
    marks = [fingerprint(thing) for thing in different]
    assert len(set(marks)) == len(different)
    assert [fingerprint(thing) for thing in different] == marks
    assert fingerprint((1, 2)) == fingerprint([1, 2])
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    large = np.arange(6_000_000, dtype=np.float64)
    changed = large.copy()
    changed[-1] += 1
    assert fingerprint(large) != fingerprint(changed)


def adding(step: float) -> Callable[[float], float]:
    return lambda x: x + step


class Model:
    def __init__(self, size: int) -> None:
        self.size, self.itself = size, self


def test_functions_are_told_apart_by_what_they_do() -> None:
    different = [
        lambda x: x,
        lambda x: -x,
        lambda x, y=1: x,
        adding(1.0),
        adding(2.0),
        partial(max, 1),
        partial(max, 2),
        partial(min, 1),
        Model(1),
        Model(2),
        Model,
    ]
    assert len({fingerprint(thing) for thing in different}) == len(different)
    assert fingerprint(adding(1.0)) == fingerprint(adding(1.0))
    assert fingerprint(Model(1)) == fingerprint(Model(1))


def test_models_of_pytorch_are_told_apart_by_structure_and_weights() -> None:
    torch = pytest.importorskip("torch")

    def model(bend: type, seed: int = 0) -> object:
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(2, 3), bend(), torch.nn.Linear(3, 1))

    relu, tanh = torch.nn.ReLU, torch.nn.Tanh
    assert fingerprint(model(relu)) == fingerprint(model(relu))
    assert len({fingerprint(m) for m in (model(relu), model(tanh), model(relu, 1))}) == 3


def test_a_state_is_kept_where_another_process_has_deleted_its_folder(tmp_path, monkeypatch):
    """As the one does that finishes the same work first: before a write, or in the middle of it."""
    state = State(tmp_path / "unfinished", "work", "mark")
    shutil.rmtree(tmp_path / "unfinished")
    state.save(Kept({"x": np.arange(3.0)}))
    replace, times = os.replace, []

    def late(source, target):
        if len(times) < 2:
            times.append(shutil.rmtree(tmp_path / "unfinished"))
        replace(source, target)

    monkeypatch.setattr(os, "replace", late)
    state.save(Kept({"x": np.arange(4.0)}))
    np.testing.assert_array_equal(state.load().arrays["x"], np.arange(4.0))
    assert len(times) == 2
    assert [path.name for path in (tmp_path / "unfinished").iterdir()] == [state.path.name]
