"""The first screen: one small figure for every question, whose answers are those of the result; percent as the words have them."""

import numpy as np
import pytest

import overparam as op
from overparam.core.sections import Figure

QUESTIONS = (
    "How well will a model do here?",
    "Is the data right?",
    "Is more data worth it?",
    "What happens when I train?",
    "Which kind of model?",
)


@pytest.mark.parametrize("task", ["classes", "regression"])
def test_every_question_has_one_small_figure(task):
    random = np.random.default_rng(0)
    X = random.normal(size=(70, 3))
    y = np.where(X[:, 0] > 0, "a", "b") if task == "classes" else X[:, 0] + 0.1 * random.normal(size=70)
    found = op.analyze((X, y))
    first = found.sections()[1]
    assert tuple(block.title for block in first.blocks) == QUESTIONS
    assert all(isinstance(block, Figure) and block.small and block.caption for block in first.blocks)
    how, labels, *_ = first.blocks
    assert how.y_label.endswith(", %")
    assert how.series[0].y[0] == pytest.approx(100 * found.error.value, rel=1e-12)
    assert sum(labels.series[0].y) == 70
