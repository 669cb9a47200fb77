"""Verdicts on planted numbers: what holds, what fails, what is out of range."""

import numpy as np
import pytest

from overparam.audits.conditions import within
from overparam.audits.laws import Law, made, not_measured
from overparam.audits.page import _laws
from overparam.core.bracketed import checked

OMEGAS = np.geomspace(1e-4, 1, 6)
HIDDEN = Law("law", "convergence, Lemma 8.2", "≤ O(ω)", "upper", {"omega": 1.0})
EXPLICIT = Law("law", "convergence, Lemma 7.3", "≤ 2", "upper", {}, explicit=2.0)
LOWER = Law("law", "convergence, Thm 3", "≥ Ω(1)", "lower", {"omega": 0.0})
ORDER = Law("law", "convergence, Lemma 7.1", "about 1", "both", {}, explicit=1.5)
UNMET = (checked("ω small", False, "it is large"),)


@pytest.mark.parametrize(
    ("law", "values", "bounds", "verdict", "constant"),
    [
        (HIDDEN, 3 * OMEGAS, OMEGAS, "holds with constant", 3.0),
        (HIDDEN, 30 * OMEGAS, OMEGAS, "fails", 30.0),
        (HIDDEN, 3 * OMEGAS**0.9, OMEGAS, "holds with constant", 3 * 1e-4**-0.1),
        (HIDDEN, 0.05 * OMEGAS**0.5, OMEGAS, "fails", 0.05 * 1e-4**-0.5),  # no constant is enough as ω falls
        (HIDDEN, 3 * OMEGAS**2, OMEGAS, "holds with constant", 3.0),
        (EXPLICIT, 1.9 * np.ones(6), np.ones(6), "holds", 1.9),
        (EXPLICIT, [1, 1, 1, 1, 1, 2.1], np.ones(6), "fails", 2.1),
        (LOWER, 0.5 * np.ones(6), np.ones(6), "holds with constant", 0.5),
        (LOWER, 500 * np.ones(6), np.ones(6), "holds with constant", 500.0),
        (LOWER, [0.5, 0.5, 0.5, 0.5, 0.5, 0.01], np.ones(6), "fails", 0.01),
        (LOWER, np.zeros(6), np.ones(6), "fails", 0.0),
        (LOWER, 0.5 * OMEGAS**0.5, np.ones(6), "fails", 0.005),
        (ORDER, [1, 1.4, 1, 1, 1, 1 / 1.4], np.ones(6), "holds", 1.4),
        (ORDER, [1, 1, 1, 1, 1, 0.5], np.ones(6), "fails", 2.0),
    ],
)
def test_planted_numbers_get_their_verdict(law, values, bounds, verdict, constant):
    found = made(law, "random", OMEGAS, values, bounds)
    assert found.verdict == verdict
    assert found.constant == pytest.approx(constant)
    beyond = made(law, "random", OMEGAS, values, bounds, UNMET)
    assert beyond.verdict == ("out of range" if verdict == "fails" else verdict)
    assert "ω small" in beyond.words  # whichever way, the condition is named


def test_the_exponent_and_its_error_are_in_the_finding_and_the_words():
    found = made(HIDDEN, "adversarial", OMEGAS, 3 * OMEGAS**1.25, OMEGAS)
    assert found.exponent == pytest.approx(1.25)
    assert found.exponent_error == pytest.approx(0, abs=1e-9)
    assert "Exponent in ω 1.25" in found.words
    assert "the law's is 1" in found.words


def test_how_far_a_law_holds_is_said():
    values = OMEGAS * np.array([1, 1, 1, 1, 50, 50])
    found = made(HIDDEN, "random", OMEGAS, values, OMEGAS, UNMET)
    assert found.verdict == "out of range"
    assert f"holds up to ω = {OMEGAS[3]:.3g}" in found.words


def test_the_largest_constant_is_an_argument():
    assert made(HIDDEN, "random", OMEGAS, 30 * OMEGAS, OMEGAS, largest=50).verdict == "holds with constant"


def test_what_is_not_finite_or_does_not_match_is_said():
    assert made(HIDDEN, "random", [1.0], [np.nan], [1.0]).verdict == "not measured"
    assert not_measured(HIDDEN, "random", "no ReLU").words == "Not measured: no ReLU."
    with pytest.raises(ValueError, match="2 radii, 1 values and 1 bounds"):
        made(HIDDEN, "random", [0.1, 1.0], [1.0], [1.0])


@pytest.mark.parametrize(("times", "verdict"), [([50, 1, 1, 1], "fails"), ([1, 1, 50, 50], "out of range")])
def test_a_law_that_breaks_where_its_statement_speaks_fails(times, verdict):
    radii = np.array([1e-3, 1e-2, 1e-1, 1.0])
    asked = (within(radii, 0.05, "ω ≤ 0.05"),)
    found = made(HIDDEN, "random", radii, np.array(times) * radii, radii, asked, spoken=radii <= 0.05)
    assert found.verdict == verdict


def test_a_loose_law_says_by_how_much():
    found = made(LOWER, "start", [0.0], [814_321.0], [1.0])
    assert "loose by 814,000" in found.words
    assert "loose by 20" in made(HIDDEN, "random", OMEGAS, 0.05 * OMEGAS, OMEGAS).words
    assert "loose" not in made(HIDDEN, "random", OMEGAS, 2 * OMEGAS, OMEGAS).words
    (row,) = _laws({"law": [found]}).rows
    assert row[1].startswith("holds, loose by")
