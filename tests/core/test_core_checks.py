"""Checks: every failure is one line that says what came, where, and the fix; what is right passes unchanged."""

import numpy as np
import pytest

from overparam.core import checks


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: checks.finite_matrix([1.0, 2.0]), ("one axis of length 2", "reshape(-1, 1)")),
        (lambda: checks.finite_matrix(np.ones((2, 3, 4))), ("(2, 3, 4)", "flatten")),
        (lambda: checks.finite_matrix(3.0), ("shape ()", "at least one row")),
        (lambda: checks.finite_matrix(np.ones((0, 4))), ("(0, 4)", "at least one row")),
        (lambda: checks.finite_matrix(np.ones((4, 0))), ("(4, 0)", "one column")),
        (
            lambda: checks.finite_matrix([[1.0, np.nan], [np.inf, 1.0]]),
            ("1 NaN and 1 infinite", "row 0, column 1", "drop or fill"),
        ),
        (lambda: checks.finite_matrix([[1.0, 2.0], [3.0]]), ("different lengths", "same features")),
        (lambda: checks.finite_matrix([[1.0, "red"]], "Z"), ("`Z`", "'red' at row 0, column 1", "encode or drop")),
        (lambda: checks.finite_matrix([[1.0, None]]), ("1 NaN (first: row 0, column 1)",)),
        (lambda: checks.finite_matrix([[object()]]), ("<object object", "text where a number belongs")),
        (lambda: checks.finite_matrix([["a" * 100]]), ("aaa...",)),
        (lambda: checks.finite_matrix([[1j]]), ("complex", "np.abs")),
        (
            lambda: checks.finite_matrix(np.array([["2020-01-01"]], dtype="datetime64[D]")),
            ("datetime64", "needs numbers"),
        ),
        (
            lambda: checks.usable_norms(np.array([[1.0], [0.0], [0.0]])),
            ("2 rows of norm 0 (first: row 1)", "drop them"),
        ),
        (lambda: checks.usable_norms(np.array([[1e-200]])), ("1 row too small", "norm 1.0e-200", "scale the rows")),
        (lambda: checks.usable_norms(np.array([[1.0], [1e200]])), ("too large", "first: row 1", "scale the rows")),
        (lambda: checks.targets([1.0, 2.0], 3), ("(2,)", "expected (3,) or (3, k)")),
        (lambda: checks.targets(np.ones((3, 0)), 3), ("(3, 0)",)),
        (lambda: checks.targets(1.0, 1), ("shape ()",)),
        (lambda: checks.targets([1.0, np.nan], 2), ("1 NaN (first: row 1)",)),
        (lambda: checks.byte_count("much"), ("'much'", "'2 GiB'")),
        (lambda: checks.byte_count("1.2.3 GB"), ("'1.2.3 GB'", "'2 GiB'")),
        (lambda: checks.byte_count("5 XB"), ("'5 XB'",)),
        (lambda: checks.byte_count(0), ("`memory` is 0", "more than 0")),
        (lambda: checks.byte_count(-1), ("-1",)),
        (lambda: checks.byte_count(float("nan")), ("nan",)),
        (lambda: checks.byte_count(float("inf")), ("inf", "finitely")),
        (lambda: checks.whole_number(2.5, "n"), ("`n` is 2.5", "whole number ≥ 0")),
        (lambda: checks.whole_number(0, "n", 1), ("whole number ≥ 1",)),
        (lambda: checks.whole_number(True, "n"), ("`n` is True",)),
        (lambda: checks.whole_number("many", "n"), ("'many'",)),
        (lambda: checks.whole_number(float("inf"), "n"), ("inf",)),
        (lambda: checks.finite_number(float("nan"), "c"), ("finite number",)),
        (lambda: checks.positive(0, "lr", fix="take 0.1"), ("number > 0", "take 0.1")),
        (lambda: checks.positive(-1, "ridge", zero=True), ("number ≥ 0",)),
        (lambda: checks.positive(float("inf"), "lr"), ("inf",)),
        (lambda: checks.positive("1", "lr"), ("'1'",)),
        (lambda: checks.positive(None, "lr"), ("None",)),
        (lambda: checks.share(0, "delta"), ("between 0 and 1",)),
        (lambda: checks.share(1, "momentum", zero=True), ("[0, 1)",)),
        (lambda: checks.share(2, "rate", one=True), ("(0, 1]",)),
        (lambda: checks.one_of("x", "engine", ("a", "b", "c"), "or none"), ("'a', 'b' or 'c'", "or none")),
        (
            lambda: checks.require_memory(2e9, 2e9, "the audit", "take less", part=0.9),
            ("2 GB and 2 GB is free; take less",),
        ),
        (lambda: checks.parse_names(" ,", "--laws", "names"), ("--laws is ' ,'; expected names",)),
        (lambda: checks.parse_numbers("1,x", "--omegas", "radii"), ("'1,x'; expected radii",)),
        (lambda: checks.parse_numbers("1,-2", "--at", "steps", int), ("'1,-2'; expected steps",)),
    ],
)
def test_one_line_with_where_and_the_fix(call: object, words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"`|--|is free") as caught:
        call()
    line = str(caught.value)
    assert "\n" not in line
    for word in words:
        assert word in line, line


def test_what_is_right_passes() -> None:
    X = np.arange(6.0).reshape(2, 3)
    assert checks.finite_matrix(X) is X  # float64 is not copied
    for given in (X.astype(np.float32), X.astype(int), X.tolist(), X.astype(object), X.astype(str), X > 2):
        found = checks.finite_matrix(given)
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, np.asarray(given, dtype=np.float64))
    assert checks.targets([1, 2], 2).dtype == np.float64
    assert checks.targets([[1], [2]], 2).shape == (2, 1)


def test_first_bad_value_far_down_is_found_in_pieces() -> None:
    X = np.ones((3000, 2000))
    X[2999, 1999] = np.nan
    with pytest.raises(ValueError, match=r"1 NaN \(first: row 2999, column 1999\)"):
        checks.require_finite(X)


def test_row_norms_at_every_size() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    scales = 10.0 ** rng.integers(-290, 290, 200)
    true = np.linalg.norm(X, axis=1) * scales
    np.testing.assert_allclose(checks.row_norms(X * scales[:, None]), true, rtol=1e-14)
    assert checks.row_norms(np.zeros((2, 3))).tolist() == [0, 0]
    assert checks.row_norms(np.array([[5e-324, 0.0]]))[0] == 5e-324


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2 GiB", 2 * 2**30),
        ("1MB", 10**6),
        (" 1.5 kb ", 1500),
        ("7", 7),
        ("100 b", 100),
        (".5 MiB", 2**19),
        (12, 12),
        (1e9, 10**9),
    ],
)
def test_sizes_in_words(text: object, size: int) -> None:
    assert checks.byte_count(text) == size


def test_right_arguments_come_back_in_one_type() -> None:
    assert checks.whole_number(np.float64(3.0), "n") == 3
    assert checks.share(1, "rate", one=True) == 1.0
    assert checks.positive(np.float32(2), "lr") == 2.0
    assert checks.one_of(None, "x", (None, "a")) is None
    assert checks.finite_number(np.int64(-2), "c") == -2.0
    checks.require_memory(1, 1, "nothing", "")
    assert checks.parse_numbers("0.5, 2", "--omegas", "radii") == (0.5, 2.0)
