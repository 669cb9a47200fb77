"""Every question is planned, told of, stopped, taken up again and refused in one way."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_cases import VERBS, answer, rows

import overparam as op
from overparam.cli import run
from overparam.core.progress import Interrupted
from overparam.frame import AbstractAnswer, Job, Plan

every = pytest.mark.parametrize("name", list(VERBS))
with_data = pytest.mark.parametrize("name", [name for name, verb in VERBS.items() if verb.data is not None])


def same(one: AbstractAnswer, other: AbstractAnswer) -> None:
    """The same numbers to the last bit, times aside."""
    a, b = one.parts(), other.parts()
    assert set(a.arrays) == set(b.arrays)
    for name, array in a.arrays.items():
        if "seconds" not in name:
            np.testing.assert_array_equal(array, b.arrays[name])
    assert one.verdict == other.verdict


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
    told: list[tuple[float, float | None, str]] = []
    VERBS[name].job(progress=lambda *step: told.append(step)).run()
    shares = [done / total for done, total, _ in told if total]
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(shares))
    assert told[-1][0] == told[-1][1]


@every
def test_stopped_it_goes_on_and_ends_in_the_same_numbers(name: str, tmp_path: Path) -> None:
    job = VERBS[name].job(place=tmp_path)
    last = [part.name for part in job.parts if part.kept][-1]

    def stop(done: float, total: float | None, what: str) -> None:
        if what == last:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="finished parts are kept"):
        VERBS[name].job(place=tmp_path, progress=stop).run()
    kept = [path for path in (tmp_path / "parts").iterdir() if path.is_file()]
    again = VERBS[name].job(place=tmp_path)
    assert again.plan.kept
    assert last not in again.plan.kept
    same(again.run(), answer(name))
    assert kept
    again.forget()
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
def test_a_damaged_part_is_made_again(name: str, tmp_path: Path) -> None:
    VERBS[name].job(place=tmp_path).run()
    for path in (tmp_path / "parts").rglob("*.kept"):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(bytes(content))
    same(VERBS[name].job(place=tmp_path).run(), answer(name))


@with_data
def test_data_comes_in_all_its_forms(name: str) -> None:
    import pandas as pd

    verb = VERBS[name]
    assert verb.data is not None
    X, y = verb.data
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(churn=y)
    same(verb.prepare(*verb.before, X, y, **verb.options).run(), answer(name))
    framed = verb.prepare(*verb.before, frame, label="churn", **verb.options)  # rows of tables are shuffled
    assert framed.plan.what.replace("frame", "arrays") == verb.job().plan.what


BAD: dict[str, tuple[Any, str]] = {
    "NaN": ((np.full((64, 2), np.nan), rows(64)[1]), "NaN"),
    "one class": ((rows(64)[0], np.ones(64)), "class|nothing to learn|every"),
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
        verb.prepare(*verb.before, data, **verb.options).run()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "how"), [(name, how) for name, verb in VERBS.items() for how in verb.wrong])
def test_bad_options_are_one_line(name: str, how: str) -> None:
    options, words = VERBS[name].wrong[how]
    with pytest.raises(ValueError, match=words) as caught:
        VERBS[name].job(**options)
    assert "\n" not in str(caught.value)


@with_data
def test_the_command_line_asks_the_same_question(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    verb = VERBS[name]
    assert verb.data is not None
    monkeypatch.chdir(tmp_path)
    np.savez("table.npz", X=verb.data[0], y=verb.data[1])
    first = [word for word in verb.command[:1] if not word.startswith("--")]  # a network
    question = [name, *first, "table.npz", *verb.command[len(first) :]]
    assert run([*question, "--plan", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) >= {"seconds", "memory", "device", "kept"}
    assert [path.name for path in tmp_path.iterdir()] == ["table.npz"]
    assert run([*question, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    (place,) = (tmp_path / "overparam-out").iterdir()
    assert place.name.endswith("-table")
    assert json.loads(out) == json.loads((place / "result.json").read_text())
    assert sorted(path.name for path in place.iterdir()) == ["arrays.npz", "report.html", "result.json"]
