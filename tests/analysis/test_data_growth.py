"""What an analysis says of more rows: numbers of the curve, a sentence for every verdict, and a figure."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import overparam as op
from overparam.analysis.data_growth import Growth, growth, growth_blocks, growth_sentence
from overparam.analysis.data_rows import prepare_rows
from overparam.core.bracketed import Interval
from overparam.core.records import put_together, take_apart
from overparam.core.sections import Section, from_json, to_json
from overparam.frame import Work
from overparam.kernels import Laplace
from overparam.theory import growth_curve, tuned_fit

NOW = Interval(0.12, 0.09, 0.15, 0.95)


def grown(n, y=None):
    X = np.random.default_rng(0).uniform(-1, 1, (n, 2))
    labels = np.sign(np.sum(X**2, axis=1) - 0.6) if y is None else y(X)
    rows = prepare_rows(op.data.as_dataset((X, labels)), "auto", n, 0)
    fit = tuned_fit(rows.X, rows.y, candidates={"Laplace": Laplace(1.0)})
    return rows, fit, growth(Work(), rows, SimpleNamespace(rows=rows, fit=fit))


@pytest.fixture(scope="module")
def circle():
    return grown(128)


def test_the_part_is_the_curve_of_the_tuned_fit(circle):
    rows, fit, found = circle
    curve = growth_curve(fit.kernel, rows.X, rows.y, ridge=fit.ridge, outputs=fit.outputs)
    np.testing.assert_array_equal(found.errors, curve.errors)
    assert found.errors[-1] == fit.error
    assert found.rows == 128
    assert found.verdict == curve.verdict
    assert found.curve_sizes[-1] == pytest.approx(4 * 128)
    assert found.at_four_times is not None
    assert found.curve[-1] == pytest.approx(found.at_four_times.value)
    assert np.all((found.curve_lower <= found.curve) & (found.curve <= found.curve_upper))


def test_it_is_kept_and_read_back(circle):
    found = circle[2]
    values, arrays = take_apart(found)
    again = put_together(Growth, json.loads(json.dumps(values)), arrays)
    np.testing.assert_array_equal(again.curve, found.curve)
    assert (again.at_twice.value, again.verdict) == (found.at_twice.value, found.verdict)


def told(verdict, value=0.1, lower=0.09, upper=0.11, errors=(0.2, 0.16, 0.125)):
    four = Interval(0.8 * value, 0.8 * lower, 0.9 * upper, 0.95)
    some = np.array([10.0, 20.0])
    return Growth(
        np.array([250, 500, 1000]), np.array(errors), np.array(errors), np.array(errors), some, some, some, some,
        Interval(value, lower, upper, 0.95), four, verdict,
    )  # fmt: skip


@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize(
    ("verdict", "begins"),
    [
        ("helps", "More data should help: with twice as many rows (2,000)"),
        ("hardly helps", "More data of this kind hardly helps"),
        ("cannot tell", "Whether more data is worth it cannot be told"),
    ],
)
def test_a_sentence_says_the_verdict_and_its_numbers(verdict, begins, classes):
    sentence = growth_sentence(told(verdict), classes, NOW)
    assert sentence.startswith(begins)
    assert sentence.endswith(".")
    assert ("9.0% to 11.0%" if classes else "0.890 to 0.910") in sentence  # as many digits as 2 points support
    assert ("the error on rows left out, now 12%," if classes else "R² on rows left out, now 0.88,") in sentence


def test_where_a_test_set_leads_the_words_say_which_error_is_meant():
    """0.125 on rows left out becomes 0.1: what was 0.2 on the test set would be 0.16 by the same factor."""
    test = Interval(0.2, 0.15, 0.26, 0.95)
    sentence = growth_sentence(told("helps"), True, NOW, test)
    assert "the error on training rows left out, now 12%, should be about 10.0%" in sentence
    assert sentence.endswith("; by the same factor the test set's error, now 20%, would become 16%.")
    assert "the test set's R², now 0.80, would become 0.84" in growth_sentence(told("hardly helps"), False, NOW, test)
    assert "test set" not in growth_sentence(told("cannot tell"), True, NOW, test)
    none = growth_sentence(told("hardly helps", 0.0, 0.0, 0.001, (0.0, 0.0, 0.0)), True, NOW, test)
    assert none.endswith("of what is wrong on the test set they tell nothing.")
    assert [line.y for line in growth_blocks(told("helps"), True, test)[0].lines] == [None, None, 0.2]


def test_rows_that_were_not_used_come_first():
    assert growth_sentence(told("helps"), True, NOW, None, 4000).endswith(
        "; 3,000 of the 4,000 rows there are were not used: add those first."
    )
    assert "not used" not in growth_sentence(told("helps"), True, NOW, None, 1000)


def test_where_nothing_is_wrong_nothing_can_improve():
    sentence = growth_sentence(told("hardly helps", 0.0, 0.0, 0.001, (0.0, 0.0, 0.0)), True, NOW)
    assert (
        sentence
        == "There is nothing more rows could improve: the error on rows left out is 0 already with 250 of them."
    )


def test_few_rows_say_so():
    _, _, found = grown(40)
    assert found.at_twice is None
    assert found.verdict == "cannot tell"
    assert growth_sentence(found, True, NOW) == "With 40 rows there is no telling what more of them would bring."
    (figure,) = growth_blocks(found, True)
    assert len(figure.series) == 1
    assert not figure.lines


def test_the_figure_has_points_curve_and_band(circle):
    found = circle[2]
    blocks = growth_blocks(found, True)
    points, curve = blocks[0].series
    assert points.y == tuple(found.errors)
    assert points.mark == "points"
    assert curve.x[-1] == pytest.approx(512)
    assert len(curve.lower) == len(curve.y)
    assert [line.x for line in blocks[0].lines] == [128, 256]
    assert from_json(json.loads(json.dumps(to_json([Section("", blocks)]))))[0].blocks == blocks


def test_a_regression_is_told_in_r2():
    rows, fit, found = grown(64, lambda X: 10 + 5 * np.sin(3 * X[:, 0]))
    assert found.errors[-1] == pytest.approx(fit.mean_square / rows.y.var())
    assert "R² on rows left out, now 0.88, should be" in growth_sentence(replace(found, verdict="helps"), False, NOW)
