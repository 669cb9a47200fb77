"""The comparison of two editions finds what changed, and only that."""

import copy

import pytest

from . import comparing, condensing, covered_lines, explained, recording
from .cases import CASES, STUDIES, table

RECORD = recording.HERE / "first_edition.json.xz"


def a_record(**changes):
    """A record of one case with a value, an array, a table and a figure, with parts of the case replaced."""
    figure = {
        "kind": "figure",
        "title": "Loss",
        "series": [{"name": "λ", "x": {"numbers": condensing.array([1.0, 2.0])}}],
    }
    rows = [["true", 0.25, "0.25 to 0.26"], ["random", 3.5, "none"]]
    case = {
        "line": "analyze",
        "seconds": 1.0,
        "values": {"values.speed.rate": 0.015587349939448991, "values.n": 178, "provenance.seconds": 2.5},
        "arrays": {"speed.true": condensing.array([[1.0, 0.5], [0.25, 0.125]])},
        "sections": [{"title": "One", "blocks": [{"kind": "table", "columns": ["a", "b", "c"], "rows": rows}, figure]}],
        "printed": ["error 2.5% of rows"],
    }
    return {"cases": {"analyze": copy.deepcopy({**case, **changes})}}


def test_the_same_record_has_no_differences():
    found = comparing.compare(a_record(), a_record())
    assert found.differences == []
    assert found.equal == {"values": 2, "arrays": 2, "texts": 1, "cells": 6, "points and labels": 3, "lines": 1}
    assert found.ignored == {"time": 1}


@pytest.mark.parametrize(
    ("changes", "place", "sort"),
    [
        ({"values": {"speed.rate": 0.015587349939448993, "n": 178}}, "value speed.rate", "number"),
        ({"values": {"speed.rate": 0.015587349939448991}}, "value n", "missing"),
        ({"arrays": {"speed.true": condensing.array([[1.0, 0.5], [0.25, 0.13]])}}, "array speed.true", "number"),
        ({"arrays": {"speed.true": condensing.array([1.0, 0.5])}}, "array speed.true", "words"),
        ({"arrays": {}}, "array speed.true", "missing"),
        ({"printed": ["error 2.6% of rows"]}, "printed error 2.5% of rows", "number"),
        ({"printed": ["mistakes 2.5% of rows"]}, "printed error 2.5% of rows", "words"),
        ({"failed": "exit 1: no"}, "case", "missing"),
    ],
)
def test_a_change_is_found_where_it_is(changes, place, sort):
    found = comparing.compare(a_record(), a_record(**changes))
    assert [(d.place, d.sort) for d in found.unexplained if "provenance" not in d.place] == [(place, sort)]


def test_changes_of_a_cell_a_point_and_a_heading_are_found():
    second = a_record()
    section = second["cases"]["analyze"]["sections"][0]
    section["blocks"][0]["rows"][0][1] = 0.26
    section["blocks"][1]["series"][0]["x"] = {"numbers": condensing.array([1.0, 2.5])}
    section["blocks"][1]["title"] = "Losses"
    found = comparing.compare(a_record(), second)
    assert sorted((d.sort, round(d.relative or 0, 3)) for d in found.differences) == [
        ("number", 0.038),
        ("number", 0.2),
        ("words", 0),
    ]


def test_what_moved_with_all_its_digits_is_no_difference():
    values = {"answer.fields.largest.value": 0.015587349939448991, "settings.n": 178, "provenance.seconds": 1.0}
    arrays = {"curves.true_labels": a_record()["cases"]["analyze"]["arrays"]["speed.true"]}
    found = comparing.compare(a_record(), a_record(values=values, arrays=arrays))
    assert found.differences == []
    assert found.moved == {"values": 2, "arrays": 1}


def test_an_explanation_holds_for_its_place_and_up_to_its_size(monkeypatch):
    second = a_record(values={"speed.rate": 0.0155873499394490, "n": 179, "provenance.seconds": 1.0})
    entry = explained.Explained("ana*", "value speed.*", "summed in another order", within=1e-12)
    monkeypatch.setattr(explained, "EXPLAINED", (entry,))
    found = comparing.compare(a_record(), second)
    assert [d.place for d in found.unexplained] == ["value n"]
    assert "summed in another order: 1 differences" in comparing.report(found)


def test_a_large_array_keeps_a_sample_in_which_differences_are_measured():
    values = [float(k) for k in range(1000)]
    other = [*values[:-1], 1000.0]
    first, second = (a_record(arrays={"big": condensing.array(x)}) for x in (values, other))
    found = comparing.compare(first, second)
    assert [d.relative for d in found.differences] == [pytest.approx(0.001)]
    assert len(condensing.array(values)["sample"]) == condensing.SAMPLE


def test_coverage_is_compared_by_room_and_fails_by_its_total():
    before, after = {"core": [9, 10], "total": [9, 10]}, {"core": [8, 10], "total": [8, 10]}
    assert covered_lines.compare(before, before)[1] is False
    words, fell = covered_lines.compare(before, after)
    assert fell
    assert "90.00% of 10" in words


def test_the_record_of_the_first_edition_has_every_case():
    kept = recording.read(RECORD)
    assert kept["made_with"]["versions"]["overparam"] == "0.1.0"
    assert {case.name for case in CASES} >= kept["cases"].keys()
    assert {f"study-{name}" for name in STUDIES} <= kept["cases"].keys()
    assert [name for name, case in kept["cases"].items() if "failed" in case] == []
    some = {"cases": {name: kept["cases"][name] for name in ("analyze", "page-start", "study-laziness")}}
    assert comparing.compare(some, some).differences == []


def test_the_table_has_a_header_and_240_rows():
    lines = table().splitlines()
    assert len(lines) == 241
    assert {line.count(",") for line in lines} == {5}
