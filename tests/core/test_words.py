"""Numbers, durations, sizes and formulas in words; the doctests of the module have the usual cases."""

from __future__ import annotations

import numpy as np
import pytest

from overparam.core.words import between, byte_size, count_of, duration, in_one_line, listed, notation, number, percent


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1.235e-05, "1.235 × 10⁻⁵"),
        (1.2346e-4, "0.0001235"),
        (123456.7, "1.235 × 10⁵"),
        (9999.96, "1 × 10⁴"),
        (1234.56, "1,235"),
        (0.5, "0.5"),
        (-2.0, "−2"),
        (60000, "60,000"),
        (60000.0, "60,000"),
        (-1e-9, "−1 × 10⁻⁹"),
        (10**400, "1.000 × 10⁴⁰⁰"),
        (0.0, "0"),
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "∞"),
        (True, "yes"),
        (np.int64(1_000_000_000), "1,000,000,000"),
        (np.bool_(False), "no"),
        ("word", "word"),
    ],
)
def test_numbers_read_well(value, words):
    assert number(value) == words


def test_durations_and_sizes():
    assert [duration(s) for s in (0.0, 5.0, 59.96, 3600, None)] == ["0 ms", "5 s", "1 min", "1 h", "–"]
    assert [duration(s, rough=True) for s in (0.19, 59.96, 1e6)] == ["190 ms", "1 min", "277 h 46 min"]
    assert [byte_size(s) for s in (5, 1500, 2.5e6, 1e12)] == ["5 B", "1.5 kB", "2.5 MB", "1 TB"]
    assert [count_of(c, "row") for c in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]


def test_what_is_missing_is_said():
    assert (percent(None), percent(float("nan")), between(None, None), listed([])) == ("–", "–", "–", "")


def test_formulas_are_read_once_for_pages_and_terminals():
    words = "λ ≥ L^{9/2} ω^−0.5, a^2 and W_{a+1}"
    assert [piece for piece in notation(words) if piece[1]] == [
        ("9/2", "raised"),
        ("−0.5", "raised"),
        ("a+1", "lowered"),
    ]
    assert in_one_line(words) == "λ ≥ L^(9/2) ω^−0.5, a^2 and W_(a+1)"
