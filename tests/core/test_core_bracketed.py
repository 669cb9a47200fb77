"""Brackets say what they certify, go through records and rising functions, and read what version 0.1 wrote."""

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from overparam.core.bracketed import Assumption, Bracketed, Interval
from overparam.core.folder import plain
from overparam.core.records import put_together, take_apart


@dataclass(frozen=True, eq=False)
class Held:
    scalar: Bracketed
    curve: Bracketed
    none: Bracketed | None
    interval: Interval


def test_a_bracket_is_certified_where_both_sides_are_there_and_hold():
    assert Bracketed(1.0, 0.5, 2.0, "rounding included").certified is True
    assert Bracketed(1.0, 0.5, 2.0, "with probability p", probability=0.9).certified is True
    assert Bracketed(1.0, 0.5, 2.0).certified is False
    assert Bracketed(1.0, 0.5, None, "rounding included").certified is False
    assert Bracketed(1.0, -np.inf, 2.0, "rounding included").certified is False
    assert Bracketed(None, None, None, "rounding included").certified is False
    curve = Bracketed(np.ones(3), np.zeros(3), np.array([1.0, np.inf, np.nan]), "rounding included")
    assert curve.certified.tolist() == [True, False, False]
    assert Bracketed(np.ones(3), None, np.ones(3), "rounding included").certified.tolist() == [False] * 3


def test_the_width_of_an_open_bracket_is_infinite():
    assert Bracketed(1.0, 0.5, 2.0).width == 1.5
    assert Bracketed(1.0, 0.5).width == np.inf
    assert Bracketed(np.ones(2), None, np.ones(2)).width.tolist() == [np.inf, np.inf]


def test_a_rising_function_takes_all_sides_and_outputs_along():
    each = Bracketed(np.array([1.0, 3.0]), np.array([0.0, 1.0]), np.array([1.0, np.inf]), "rounding included")
    rooted = Bracketed(4.0, 1.0, None, "rounding included", per_output=each).through(np.sqrt, reference="there")
    assert (rooted.value, rooted.lower, rooted.upper, rooted.reference) == (2.0, 1.0, None, "there")
    assert type(rooted.value) is float
    assert rooted.per_output is not None
    assert rooted.per_output.lower.tolist() == [0.0, 1.0]
    assert rooted.per_output.upper.tolist() == [1.0, np.inf]
    assert rooted.per_output.reference == "there"


def test_brackets_go_apart_and_come_back():
    whole = Held(
        Bracketed(1.0, 0.5, np.inf, "rounding included", "why", "where", (Assumption("it holds", "met", "5 > 4"),)),
        Bracketed(np.ones(2), np.zeros(2), None, per_output=Bracketed(np.ones((1, 2)), None, np.ones((1, 2)))),
        None,
        Interval(0.5, 0.4, 0.6, 0.95),
    )
    values, arrays = take_apart(whole)
    back = put_together(Held, plain(values), arrays)
    assert back.none is None
    assert (back.scalar.value, back.scalar.lower, back.scalar.upper) == (1.0, 0.5, None)  # an absent side either way
    assert back.scalar.certified == whole.scalar.certified
    assert (back.scalar.sense, back.scalar.reason, back.scalar.reference) == ("rounding included", "why", "where")
    assert back.scalar.assumptions == whole.scalar.assumptions
    assert np.array_equal(back.curve.value, np.ones(2))
    assert back.curve.upper is None
    assert back.curve.per_output is not None
    assert np.array_equal(back.curve.per_output.upper, np.ones((1, 2)))
    assert (back.interval.lower, back.interval.level) == (0.4, 0.95)


def test_senses_and_levels_that_mean_nothing_are_refused():
    with pytest.raises(ValueError, match="`sense` is 'sure'"):
        Bracketed(1.0, sense="sure")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="belong together"):
        Bracketed(1.0, 0.0, 2.0, "with probability p")
    with pytest.raises(ValueError, match="belong together"):
        Bracketed(1.0, 0.0, 2.0, "rounding included", probability=0.9)
    with pytest.raises(ValueError, match="`level` is 95"):
        Interval(1.0, 0.0, 2.0, 95)


def test_brackets_do_without_jax():
    code = "import sys; import overparam.core.bracketed; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
