"""Every question is planned, told of, stopped, taken up again and refused in one way."""

from __future__ import annotations

import functools
import itertools
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_cases import VERBS, Step, answer, asked, rows

import overparam as op
from overparam.cli import run
from overparam.core.progress import Interrupted
from overparam.frame import AbstractAnswer, Job, Plan

every = pytest.mark.parametrize("name", list(VERBS))
with_data = pytest.mark.parametrize("name", [name for name, verb in VERBS.items() if verb.data is not None])

commanded = pytest.mark.parametrize("name", [n for n, verb in VERBS.items() if verb.data and verb.command is not None])


def same(one: AbstractAnswer, other: AbstractAnswer) -> None:
    """The same numbers to the last bit, times aside."""
    a, b = one.parts(), other.parts()
    assert set(a.arrays) == set(b.arrays)
    for name, array in a.arrays.items():
        if "seconds" not in name:
            np.testing.assert_array_equal(array, b.arrays[name])
    assert one.verdict == other.verdict


def test_every_question_is_in_the_table() -> None:
    """Those of the package's own source: `x = verb(prepare_x)`."""
    source = Path(op.__file__).parent.glob("*/*.py")
    asked = {name for path in source for name in re.findall(r"^\w+ = .*\bverb\((\w+)\)", path.read_text("utf-8"), re.M)}
    assert asked == {verb.prepare.__name__ for verb in VERBS.values()}


@every
def test_the_plan_is_numbers_and_words(name: str) -> None:
    job = VERBS[name].job()
    plan = job.plan
    assert isinstance(plan, Plan)
    assert list(plan.seconds_by) == [part.name for part in job.parts]
    assert plan.seconds > 0
    assert plan.kept == ()
    assert json.loads(json.dumps(plan.to_json()))["seconds"] == plan.seconds
    assert str(plan).startswith(plan.what)
    assert plan.memory < plan.free_memory


@every
def test_progress_rises_to_its_end(name: str) -> None:
    told = asked(name)[1]
    assert told[-1][0] == told[-1][1], "it does not come to its end"
    shares = [done / total for done, total, _ in told if total]
    assert all(a <= b for a, b in itertools.pairwise(shares))
    assert len(set(shares)) > 2, "it stands still"
    assert shares[0] < 0.5


@dataclass(frozen=True)
class TakenUp:
    """A question that was stopped at its last part and asked again, and the place that then holds all its parts."""

    place: Path
    last: str
    before: tuple[str, ...]
    """Parts that the plan of the second time calls finished."""
    told: tuple[str, ...]
    """What the second time told of."""
    answer: AbstractAnswer


@pytest.fixture(scope="module")
def taken_up(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], TakenUp]:
    """By verb; made once for all tests."""

    @functools.cache
    def make(name: str) -> TakenUp:
        place = tmp_path_factory.mktemp("place")
        last = [part.name for part in VERBS[name].job().parts if part.kept][-1]

        def stop(done: float, total: float | None, what: str) -> None:
            if what == last:
                raise KeyboardInterrupt

        with pytest.raises(Interrupted, match="finished parts are kept"):
            VERBS[name].job(place=place, progress=stop).run()
        told: list[Step] = []
        again = VERBS[name].job(place=place, progress=lambda *step: told.append(step))
        before, found = again.plan.kept, again.run()
        return TakenUp(place, last, before, tuple(what for _, _, what in told), found)

    return make


@every
def test_stopped_it_goes_on_and_ends_in_the_same_numbers(
    name: str, taken_up: Callable[[str], TakenUp], tmp_path: Path
) -> None:
    found = taken_up(name)
    made = {part.name for part in VERBS[name].job().parts if part.kept}
    assert made & set(found.before) == made - {found.last}, "all but the last part are kept"
    assert found.last in found.told
    assert not set(found.before) & set(found.told), "what is kept is not made again"
    same(found.answer, answer(name))
    shutil.copytree(found.place, tmp_path, dirs_exist_ok=True)
    VERBS[name].job(place=tmp_path).forget()
    assert not (tmp_path / "parts").exists(), list((tmp_path / "parts").iterdir())


def other_functions() -> list[tuple[Job[Any], Job[Any]]]:
    """Pairs of questions that differ in a function alone."""
    data, w = rows(), {"w": np.ones(3)}
    deep = op.networks.FullyConnected(8, 2)
    losses = [op.training.GivenLoss(f, "convex") for f in (lambda u, y: (u - y) ** 2, lambda u, y: (u - y) ** 4)]
    train, survey = VERBS["train"].prepare, VERBS["landscape"].prepare
    return [
        (
            train(lambda p, x: x @ p["w"], data, params=w, place="p"),
            train(lambda p, x: (2 * x) @ p["w"], data, params=w, place="p"),
        ),
        (
            survey(deep, data, objective=losses[0], points=3, place="p"),
            survey(deep, data, objective=losses[1], points=3, place="p"),
        ),
    ]


def test_questions_that_differ_in_a_function_share_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for one, other in other_functions():
        assert not set(one.marks.values()) & set(other.marks.values())


@every
def test_a_damaged_part_is_made_again(name: str, taken_up: Callable[[str], TakenUp], tmp_path: Path) -> None:
    found = taken_up(name)
    shutil.copytree(found.place, tmp_path, dirs_exist_ok=True)
    told: list[str] = []
    job = VERBS[name].job(place=tmp_path, progress=lambda done, total, what: told.append(what))
    path = job.keeping._path(found.last, job.marks[found.last])
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    same(job.run(), answer(name))
    assert found.last in told
    assert path.read_bytes() != bytes(content)


@with_data
def test_data_comes_in_all_its_forms(name: str) -> None:
    import pandas as pd

    verb = VERBS[name]
    assert verb.data is not None
    X, y = verb.data
    assert verb.prepare(*verb.before, X, y, **verb.options).marks == verb.job().marks
    frame = pd.DataFrame({"churn": y, **{f"x{j}": column for j, column in enumerate(X.T)}})
    framed = verb.prepare(*verb.before, frame, label="churn", **verb.options)
    assert framed.plan.what.replace("frame", "arrays") == verb.job().plan.what
    table = op.load(frame, label="churn")
    assert framed.marks == verb.prepare(*verb.before, table, **verb.options).marks
    order = np.argsort(table.rows)  # rows of tables are shuffled
    np.testing.assert_array_equal(table.X[order], X)
    np.testing.assert_array_equal(table.labels[order], y)


BAD: dict[str, tuple[Any, str]] = {
    "NaN": ((np.full((64, 2), np.nan), rows(64)[1]), "NaN"),
    "one class": ((rows(64)[0], np.ones(64)), "every training row has the label"),
    "labels of another length": ((rows(64)[0], rows(60)[1]), "64|60"),
    "no rows": ((np.empty((0, 2)), np.empty(0)), "row"),
    "words": ("no-such-data", "no-such-data"),
}


@with_data
@pytest.mark.parametrize("how", list(BAD))
def test_bad_data_is_one_line(name: str, how: str) -> None:
    verb = VERBS[name]
    data, words = BAD[how]
    with pytest.raises((ValueError, FileNotFoundError), match=words) as caught:
        verb.prepare(*verb.before, data, **verb.options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "how"), [(name, how) for name, verb in VERBS.items() for how in verb.wrong])
def test_bad_options_are_one_line(name: str, how: str) -> None:
    options, words = VERBS[name].wrong[how]
    with pytest.raises(ValueError, match=words) as caught:
        VERBS[name].job(**options)
    assert "\n" not in str(caught.value)


@commanded
def test_the_command_line_asks_the_same_question(
    name: str,
    taken_up: Callable[[str], TakenUp],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verb = VERBS[name]
    assert verb.data is not None
    assert verb.command is not None
    monkeypatch.chdir(tmp_path)
    np.savez("table.npz", X=verb.data[0], y=verb.data[1])
    first = [word for word in verb.command[:1] if not word.startswith("--")]  # a network
    question = [name, *first, "table.npz", *verb.command[len(first) :]]
    assert run([*question, "--plan", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) >= {"seconds", "memory", "device", "kept"}
    assert [path.name for path in tmp_path.iterdir()] == ["table.npz"]
    place = tmp_path / "overparam-out" / f"{name}-table"
    shutil.copytree(taken_up(name).place, place)  # parts of the same question, which are not made again
    assert run([*question, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == json.loads((place / "result.json").read_text())
    assert sorted(path.name for path in place.iterdir()) == sorted(
        ["arrays.npz", "report.html", "result.json", *answer(name).tables()]
    )
    same(op.read(place), answer(name))
