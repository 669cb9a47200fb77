"""One of a thing is not several: what is said of tiny data, in the terminal, on the page and in messages."""

import re
from dataclasses import replace

import numpy as np
import pytest

import overparam as op
from overparam.analysis.data_kinds import judge_kinds, kinds_sentence
from overparam.core.bracketed import Interval

ONE = re.compile(r"(?<![\d.,/=^−-])\b1 (?!is\b|was\b|has\b|does\b|less\b|plus\b|times\b|class\b)[a-z]+s\b")


def told(answer):
    return " ".join([answer.title, answer.done, *answer.verdict.sentences, str(answer.sections())])


def tiny(case):
    X = np.random.default_rng(0).normal(size=(6, 1 if case == "one column" else 2))
    y = np.array(["a", "b", "a", "b", "a", "c" if case == "a class of one" else "b"])
    if case == "one copy":
        X[5], y[5] = X[0], y[0]
    if case == "one contradiction":
        X[5], y[5] = X[0], "b"
    if case == "one outlier":
        y = np.array([1.0, 2.0, 1.5, 2.5, 1.2, 1e6])
    return (X, y)


CASES = ("one column", "a class of one", "one copy", "one contradiction", "one outlier")


@pytest.mark.parametrize("case", CASES)
def test_of_a_tiny_table(case):
    words = told(op.analyze(tiny(case)))
    assert ONE.findall(words) == []


def test_of_one_label_that_changed_and_one_row_that_is_new():
    X, y = tiny("one column")
    other = np.where(np.arange(6) == 3, "a", y)
    found = op.diff((X[:5], y[:5]), (X, other))
    assert ONE.findall(told(found)) == []
    assert "1 label changed." in found.verdict.sentences
    assert ONE.findall(told(op.find_label_issues((X, y)))) == []


@pytest.mark.parametrize(
    ("ask", "line"),
    [
        (lambda: op.analyze(([[1.0]], [1])), "1 row;"),
        (lambda: op.load(([[1.0]] * 4, [0, 1, 0, 1])).replace(features=("a", "b")), "has 1 column"),
        (lambda: op.load("wine", train=1, test=10**6), "row"),
    ],
)
def test_of_messages(ask, line):
    with pytest.raises(ValueError, match=line) as caught:
        ask()
    assert ONE.findall(str(caught.value)) == []


def test_of_a_lead_of_one_point_and_of_trees():
    groups, rows = np.arange(60), np.zeros(60)
    apart = {"trees": rows + (groups % 3 == 0), "kernel": rows + (groups % 3 == 1) + (groups == 0)}
    found = judge_kinds(apart, {"trees": "", "kernel": ""}, groups, 0.9, classes=True, seed=0)
    words = kinds_sentence(replace(found, difference=Interval(0.01, -0.2, 0.2, 0.95)), True)
    assert "trees have 33% wrong" in words
    assert "1 point more" in words
