"""What every study has to keep to, checked on a result that its test has at hand."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from overparam.core import folder
from overparam.core.records import put_together
from overparam.core.sections import Section, Text, Verdict, to_json
from overparam.studies import Study, StudyResult, prepare_reproduce
from overparam.studies.two_layer_runs import ABSENT


def check(study: Study, result: StudyResult, place: Path, settings: object = None) -> None:
    """All parts are kept, another key has its own, and page and verdict come from what is stored alone."""
    job = prepare_reproduce(study, settings=settings, place=place)
    assert job.plan.kept == tuple(part.name for part in job.parts)
    assert job.plan.seconds == 0 < sum(part.seconds for part in job.parts)
    other = prepare_reproduce(study, settings=settings, place=place, key=1)
    assert set(other.plan.kept) <= {ABSENT}
    again = job.run()
    assert folder.plain(again.values) == folder.plain(result.values)
    assert again.sections() == result.sections()
    back = StudyResult.from_parts(folder.read(result.save(place / "saved")))
    assert (back.name, back.values, back.verdict) == (study.name, folder.plain(result.values), result.verdict)
    kind = type(study.settings["smoke"])
    own = put_together(kind, back.provenance.configuration["settings"], {})
    assert own == (study.settings["smoke"] if settings is None else settings)
    assert tuple(study.page(own, back.values, back.arrays)) == back.sections() == result.sections()
    claims = tuple(study.claims(own, back.values))
    assert tuple(claim.body for claim in claims) == back.verdict.sentences
    assert all(claim in texts(back.sections()[:1]) for claim in claims)


def texts(sections: tuple[Section, ...]) -> list[Text]:
    """All paragraphs."""
    return [block for section in sections for block in section.blocks if isinstance(block, Text)]


def tones(sections: tuple[Section, ...], part: str) -> list[str]:
    """Of the paragraphs of the first section in which some words are."""
    return [claim.tone for claim in texts(sections[:1]) if part in claim.body]


def concluded(study: Study, settings: object, found: Mapping[str, Mapping[str, np.ndarray]]) -> StudyResult:
    """What a study makes of parts that are given; its page holds nothing that JSON does not have."""
    values, arrays = study.conclude(settings, found)
    values = folder.plain(values)
    page = tuple(study.page(settings, values, arrays))
    json.dumps(to_json(page), allow_nan=False)
    words = tuple(claim.body for claim in study.claims(settings, values))
    return StudyResult(study.name, study.title, "smoke", values, arrays, page, Verdict("good", words))
