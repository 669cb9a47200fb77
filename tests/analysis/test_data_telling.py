"""What cannot be told from a few rows is said so alike in words, on the page and in result.json."""

import re

import numpy as np
import pytest

import overparam as op
from overparam.analysis.data_telling import deciding_rows, heavy_tailed

ROWS = np.random.default_rng(1).normal(size=(120, 3))
SLIP = np.where(np.arange(120) == 7, 1e6, ROWS[:, 0])


@pytest.mark.parametrize(
    ("y", "what"),
    [(np.exp(6 * ROWS[:, 0]), "its logarithm is what to predict"), (SLIP, "Look there")],
    ids=["heavy tail", "slip"],
)
def test_a_target_that_a_few_rows_decide(y, what, tmp_path):
    found = op.analyze((ROWS, y), kinds=False)
    first, text = found.verdict.sentences[0], " ".join(found.verdict.sentences)
    assert found.verdict.tone == "warning"
    assert first.startswith("Whether these targets can be learned cannot be told from these rows: half of the variance")
    assert what in first
    assert f"row {np.argmax(y)} of 120" in found.error.cannot_tell
    assert "Nor can it be told what more data would bring" in text
    assert found.growth.verdict == "cannot tell"
    back = op.read(found.save(tmp_path))
    assert found.error.cannot_tell == back.error.cannot_tell
    page = (tmp_path / "report.html").read_text()
    assert f"This cannot be told from these rows: {found.error.cannot_tell}" in page
    for words in (text, str(found.sections())):
        assert not re.search(r"\d{2},\d{3},\d{3}|\b\d,?\d{3}%", words), "no digits of an interval that says nothing"


def test_a_heavy_tail_is_no_list_of_wrong_rows():
    assert op.find_label_issues((ROWS, np.exp(6 * ROWS[:, 0]))).issues == 0
    assert op.find_label_issues((ROWS, SLIP)).issues == 1


def test_few_rows_of_classes_tell_nothing():
    found = op.analyze((ROWS[:8, :2], np.where(ROWS[:8, 0] > 0, "a", "b")), kinds=False)
    assert found.error.cannot_tell == "8 rows are too few"
    assert found.verdict.sentences[0].startswith("Whether these labels can be learned cannot be told from these rows")
    assert "carries over" not in str(found.verdict)


def test_deciding_rows_by_counting():
    squares = np.random.default_rng(0).exponential(size=(30, 1)) ** 3
    few = deciding_rows(squares)
    assert squares[few].sum() >= squares.sum() / 2 > squares[few[:-1]].sum()
    assert np.delete(squares, few, axis=0).max() <= squares[few].min()
    assert not heavy_tailed(np.zeros(200)), "a constant has no tail"
    assert not heavy_tailed(np.random.default_rng(0).normal(size=300) * 1e200)
