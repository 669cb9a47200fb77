"""A Job plans, makes, keeps, takes up again and tells in one way, whatever its parts are."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from overparam.core.progress import Interrupted
from overparam.core.provenance import Provenance
from overparam.core.sections import Section, Text, Verdict
from overparam.frame import AbstractAnswer, Job, Kept, Part, Plan, State, Work, verb

CALLS: list[str] = []
VERSION = ["new"]
"""What an unfinished state depends on and a part's name does not say."""


@dataclass(frozen=True, eq=False)
class Sums(AbstractAnswer):
    kind: ClassVar[str] = "sums"
    total: float
    squares: np.ndarray
    verdict: Verdict
    provenance: Provenance

    @property
    def title(self) -> str:
        return "Sums"

    def sections(self) -> tuple[Section, ...]:
        return (Section("All", (Text(f"{self.total}"),)),)


@dataclass(frozen=True, eq=False)
class Squares:
    values: np.ndarray
    words: str


def matrix(work: Work, n: int) -> np.ndarray:
    CALLS.append("matrix")
    return np.arange(float(n))


def squares(work: Work, power: int, rows: np.ndarray) -> Squares:
    CALLS.append("squares")
    work.progress(1, 2, "half way")
    return Squares(rows**power, "done")


def total(work: Work, stop: bool, found: Squares) -> dict[str, Any]:
    CALLS.append("total")
    if work.place is not None:
        state = State(work.place, "adding", VERSION[0])
        if state.load() is None:
            state.save(Kept({}))
    if stop:
        raise KeyboardInterrupt
    return {"total": found.values.sum()}


def prepare_sums(
    n: int, *, power: int = 2, stop: bool = False, place: Any = None, progress: Any = None, memory: int = 0
) -> Job[Sums]:
    """Sum powers.

    Args: n, power.
    """

    def conclude(found: Mapping[str, Any], made: Provenance) -> Sums:
        return Sums(float(found["total"]["total"]), found["squares"].values, Verdict("good", ("Done.",)), made)

    parts = (
        Part("matrix", matrix, (n,), seconds=1.0, kept=False),
        Part("squares", squares, (power,), ("matrix",), seconds=2.0, gives=Squares),
        Part("total", total, (stop,), ("squares",), seconds=3.0),
    )
    plan = Plan("sums", memory=memory, free_memory=100)
    return Job(
        "sums", parts, conclude, plan=plan, provenance=Provenance({"n": n}, seed=1), place=place, progress=progress
    )


sums = verb(prepare_sums)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()


def test_a_verb_has_the_signature_and_words_of_its_prepare() -> None:
    assert sums(4).total == 14.0
    assert sums.__name__ == "sums"
    assert "Sum powers" in (sums.__doc__ or "")
    assert "Job" in (prepare_sums.__doc__ or "")
    with pytest.raises(TypeError):
        sums(4, nothing=1)  # pyright: ignore[reportCallIssue]


def test_parts_that_are_kept_are_taken_up_again(tmp_path: Path) -> None:
    first = prepare_sums(5, place=tmp_path).run()
    assert CALLS == ["matrix", "squares", "total"]
    CALLS.clear()
    again = prepare_sums(5, place=tmp_path)
    assert set(again.plan.kept) == {"matrix", "squares", "total"}
    assert again.plan.seconds == 0
    second = again.run()
    assert CALLS == []
    assert second.total == first.total
    np.testing.assert_array_equal(second.squares, first.squares)
    assert second.provenance.seconds > 0
    other = prepare_sums(5, power=3, place=tmp_path)
    other.run()
    assert CALLS == ["matrix", "squares", "total"]  # other settings are other parts
    again.forget()
    CALLS.clear()
    prepare_sums(5, power=3, place=tmp_path).run()
    assert CALLS == []  # which stay
    other.forget()
    assert not list(tmp_path.iterdir())


def test_a_matrix_is_made_only_for_parts_that_are_still_to_be_made(tmp_path: Path) -> None:
    with pytest.raises(Interrupted, match="finished parts are kept"):
        prepare_sums(5, stop=True, place=tmp_path).run()
    CALLS.clear()
    prepare_sums(5, place=tmp_path).run()
    assert CALLS == ["total"]


def test_a_damaged_part_is_made_again(tmp_path: Path) -> None:
    prepare_sums(5, place=tmp_path).run()
    CALLS.clear()
    (path,) = (p for p in (tmp_path / "parts").iterdir() if p.name.startswith("squares"))
    path.write_bytes(path.read_bytes()[:-3] + b"???")
    assert prepare_sums(5, place=tmp_path).run().total == 30.0
    assert CALLS == ["matrix", "squares"]


@pytest.mark.parametrize("damaged", [False, True])
def test_an_unfinished_state_of_other_versions_is_started_over(tmp_path: Path, damaged: bool) -> None:
    VERSION[0] = "old"
    with pytest.raises(Interrupted):
        prepare_sums(5, stop=True, place=tmp_path).run()
    (state,) = tmp_path.rglob("adding.state*")
    if damaged:
        state.write_bytes(state.read_bytes()[:-3])
    VERSION[0] = "old" if damaged else "new"
    CALLS.clear()
    with pytest.raises(Interrupted):
        prepare_sums(5, stop=True, place=tmp_path).run()
    assert CALLS == ["total", "total"]


def test_progress_goes_through_the_planned_seconds() -> None:
    told: list[tuple[float, float | None, str]] = []
    prepare_sums(4, progress=lambda *step: told.append(step)).run()
    assert [step[0] for step in told] == [0.0, 1.0, 2.0, 3.0, 6.0]
    assert {step[1] for step in told} == {6.0}
    assert [step[2] for step in told] == ["matrix", "squares", "half way", "total", "done"]


def test_a_job_that_does_not_fit_is_refused_before_any_part() -> None:
    with pytest.raises(ValueError, match="fewer rows"):
        prepare_sums(4, memory=1000).run()
    assert CALLS == []


def test_the_plan_is_numbers_and_words() -> None:
    plan = prepare_sums(4).plan
    assert plan.seconds == 6.0
    assert plan.to_json()["seconds_by"] == {"matrix": 1.0, "squares": 2.0, "total": 3.0}
    assert "6 s" in str(plan)


def test_an_interruption_without_a_place_says_how_to_keep() -> None:
    with pytest.raises(Interrupted, match="`place`"):
        prepare_sums(4, stop=True).run()


def test_parts_come_after_what_they_need() -> None:
    wrong = (Part("total", total, (False,), ("squares",)), Part("squares", squares, (2,)))
    with pytest.raises(ValueError, match="does not come before"):
        Job("sums", wrong, lambda found, made: None, plan=Plan("sums"), provenance=Provenance())
    twice = (Part("matrix", matrix, (1,)), Part("matrix", matrix, (2,)))
    with pytest.raises(ValueError, match="two parts"):
        Job("sums", twice, lambda found, made: None, plan=Plan("sums"), provenance=Provenance())
