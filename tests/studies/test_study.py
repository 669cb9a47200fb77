"""What a study is, on a small one of our own: parts that are kept and taken up again, a stop, other settings, its folder."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from study_cases import check

from overparam.core.progress import Interrupted
from overparam.core.sections import Section, Text
from overparam.frame import Part, Work
from overparam.studies import SCALES, STUDIES, Study, prepare_reproduce, reproduce

MADE: list[str] = []
STOP: list[str] = []


@dataclass(frozen=True)
class Settings:
    count: int
    power: int = 1
    words: str = "sums"
    dtype: str = "float32"


def numbers(work: Work, count: int, key: int) -> dict[str, Any]:
    MADE.append("numbers")
    time.sleep(0.05)
    return {"x": np.arange(count) + key}


def total(work: Work, power: int, found: dict[str, np.ndarray]) -> dict[str, Any]:
    MADE.append("total")
    work.progress(1, 2, "half way")
    if STOP:
        raise KeyboardInterrupt
    return {"total": np.sum(found["x"] ** power)}


def parts(settings: Settings, key: int, device: str | None) -> list[Part]:
    first = Part("numbers", numbers, (settings.count, key), seconds=1.0)
    return [first, Part("total", total, (settings.power,), ("numbers",), 3.0)]


def claims(settings: Settings, values: Any) -> list[Text]:
    return [Text("Sums are sums."), Text(f"It is {values['total']:g}.", "good" if values["total"] < 100 else "bad")]


def page(settings: Settings, values: Any, arrays: Any) -> list[Section]:
    return [Section(settings.words, tuple(claims(settings, values)))]


STUDY = Study(
    name="sums",
    title="Sums of small numbers",
    reference="fine_grained, Fig. 1",
    settings={"smoke": Settings(3), "small": Settings(4), "full": Settings(50)},
    outline=lambda settings: f"{settings.count} numbers",
    parts=parts,
    conclude=lambda settings, found: ({"total": float(found["total"]["total"])}, dict(found["numbers"])),
    claims=claims,
    page=page,
)


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    MADE.clear()
    STOP.clear()


def test_it_keeps_to_what_a_study_is(tmp_path: Path) -> None:
    result = reproduce(STUDY, key=0, place=tmp_path)
    assert (result.values, result.scale, result.done) == ({"total": 3.0}, "smoke", "smoke scale")
    assert (result.provenance.dtype, result.provenance.seed) == ("float32", 0)
    check(STUDY, result, tmp_path)
    assert MADE == ["numbers", "total"]


def test_the_verdict_has_the_worst_tone_and_all_words() -> None:
    assert reproduce(STUDY).verdict.tone == "good"
    bad = reproduce(STUDY, "full").verdict
    assert (bad.tone, bad.sentences) == ("bad", ("Sums are sums.", "It is 1225."))


def test_a_part_outlives_a_change_of_settings_it_does_not_depend_on(tmp_path: Path) -> None:
    reproduce(STUDY, place=tmp_path)
    for settings, made in (
        (Settings(3, words="other words"), []),
        (Settings(3, power=2), ["total"]),
        (Settings(4), ["numbers", "total"]),
        (Settings(3), []),
    ):
        MADE.clear()
        reproduce(STUDY, settings=settings, place=tmp_path)
        assert made == MADE


def test_another_key_study_or_version_has_parts_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reproduce(STUDY, place=tmp_path)
    for other in (
        prepare_reproduce(STUDY, key=1, place=tmp_path),
        prepare_reproduce(replace(STUDY, name="other"), place=tmp_path),
    ):
        assert other.plan.kept == ()
    monkeypatch.setattr("overparam.frame.keeping.__version__", "0.0")
    assert prepare_reproduce(STUDY, place=tmp_path).plan.kept == ()


def test_stopped_it_goes_on_with_what_is_finished_and_tells_all_that_it_took(tmp_path: Path) -> None:
    STOP.append("now")
    with pytest.raises(Interrupted, match="finished parts are kept"):
        reproduce(STUDY, place=tmp_path)
    STOP.clear()
    job = prepare_reproduce(STUDY, place=tmp_path)
    assert (job.plan.kept, job.plan.seconds) == (("numbers",), 3.0)
    result = job.run()
    assert result.values == {"total": 3.0}
    assert result.provenance.seconds >= 0.05  # with that of the part that was read back
    assert MADE == ["numbers", "total", "total"]
    job.forget()
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_part_is_made_again(tmp_path: Path) -> None:
    reproduce(STUDY, place=tmp_path)
    for file in (tmp_path / "parts").glob("total*"):
        file.write_bytes(b"not a part")
    assert reproduce(STUDY, place=tmp_path).values == {"total": 3.0}
    assert MADE == ["numbers", "total", "total"]


def test_progress_is_in_planned_seconds(tmp_path: Path) -> None:
    told: list[tuple[float, float | None, str]] = []
    reproduce(STUDY, progress=lambda done, of, what: told.append((done, of, what)))
    assert told == [(0.0, 4.0, "numbers"), (1.0, 4.0, "total"), (2.5, 4.0, "half way"), (4.0, 4.0, "done")]


def test_one_part_may_be_made_alone_by_any_process(tmp_path: Path) -> None:
    assert prepare_reproduce(STUDY, place=tmp_path).make("total")["total"] == 3
    assert reproduce(STUDY, place=tmp_path).values == {"total": 3.0}
    assert MADE == ["numbers", "total"]


def test_an_unknown_scale_or_key_is_one_line() -> None:
    with pytest.raises(ValueError, match="expected 'smoke', 'small' or 'full'"):
        reproduce(STUDY, "huge")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`key`"):
        reproduce(STUDY, key="a")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_three_scales_and_a_plan_at_the_smallest(name: str) -> None:
    study = STUDIES[name]
    assert study.name == name
    assert study.title
    for scale in SCALES:
        assert study.outline(study.settings[scale])
    job = prepare_reproduce(study)
    assert study.outline(study.settings["smoke"]) in job.plan.what
    assert 1 < job.plan.seconds < 300
    assert all(part.seconds > 0 for part in job.parts if part.name != "data sets that are not here")
