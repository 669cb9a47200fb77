"""Largest singular values of products that are never formed, against dense ones and explicit search."""

from itertools import combinations

import numpy as np
import pytest

from overparam.audits.product_norms import (
    column_lengths,
    keep_largest,
    largest_gains,
    largest_sparse_forms,
    largest_sparse_gains,
)

RNG = np.random.default_rng(0)
J = RNG.standard_normal((6, 5, 8))  # one matrix a sample


def push(V):
    return np.einsum("nqp,np->nq", J, V)


def pull(U):
    return np.einsum("nqp,nq->np", J, U)


def test_all_steps_give_the_exact_norm_and_its_vector():
    gains, v = largest_gains(push, pull, 6, 8, 8, np.random.default_rng(1))
    dense = np.linalg.norm(J, 2, axis=(1, 2))
    assert gains == pytest.approx(dense, rel=1e-10)
    assert np.linalg.norm(v, axis=1) == pytest.approx(np.ones(6))
    assert np.linalg.norm(push(v), axis=1) == pytest.approx(dense, rel=1e-8)


def test_few_steps_are_lower_bounds_that_rise():
    big = RNG.standard_normal((3, 80, 80))
    dense = np.linalg.norm(big, 2, axis=(1, 2))
    before = np.zeros(3)
    for steps in (2, 5, 12, 30):
        gains, _ = largest_gains(
            lambda V: np.einsum("nqp,np->nq", big, V), lambda U: np.einsum("nqp,nq->np", big, U), 3, 80, steps,
            np.random.default_rng(2),
        )  # fmt: skip
        assert np.all(gains <= dense * (1 + 1e-12))
        assert np.all(gains >= before - 1e-9)
        before = gains
    assert before == pytest.approx(dense, rel=1e-3)


def test_a_product_that_is_zero_or_of_rank_one_breaks_nothing():
    zeros, _ = largest_gains(lambda V: 0 * V, lambda U: 0 * U, 2, 4, 4, np.random.default_rng(0))
    assert zeros.tolist() == [0, 0]
    u, v = RNG.standard_normal(4), RNG.standard_normal(4)
    one, _ = largest_gains(
        lambda V: np.outer(V @ v, u), lambda U: np.outer(U @ u, v), 2, 4, 4, np.random.default_rng(0)
    )
    assert one == pytest.approx(np.full(2, np.linalg.norm(u) * np.linalg.norm(v)))


def brute_gain(matrix, s):
    return max(np.linalg.norm(matrix[:, list(where)], 2) for where in combinations(range(matrix.shape[1]), s))


def brute_form(matrix, s):
    return max(
        np.linalg.norm(matrix[np.ix_(list(rows), list(columns))], 2)
        for rows in combinations(range(matrix.shape[0]), s)
        for columns in combinations(range(matrix.shape[1]), s)
    )


@pytest.mark.parametrize("s", [1, 2, 3])
def test_sparse_searches_against_all_supports(s):
    gain, form = np.zeros(6), np.zeros(6)
    starts = [np.random.default_rng(seed).standard_normal((6, 8)) for seed in range(12)]
    starts.append(column_lengths(pull, 6, 5, 500, np.random.default_rng(0)))
    for start in starts:
        found, v = largest_sparse_gains(push, pull, start, s, 20)
        assert np.all(np.count_nonzero(v, axis=1) <= s)
        assert np.linalg.norm(push(v), axis=1) == pytest.approx(found)
        gain = np.maximum(gain, found)
        found, u, v = largest_sparse_forms(push, pull, start, s, 20, s)
        assert np.all(np.count_nonzero(v, axis=1) <= s)
        assert np.all(np.count_nonzero(u, axis=1) <= s)
        form = np.maximum(form, found)
    assert gain == pytest.approx([brute_gain(matrix, s) for matrix in J], rel=1e-6)
    assert form == pytest.approx([brute_form(matrix, s) for matrix in J], rel=1e-6)


def test_with_all_entries_a_sparse_search_climbs_to_the_dense_norm():
    found, _ = largest_sparse_gains(push, pull, RNG.standard_normal((6, 8)), 8, 500)
    assert found == pytest.approx(np.linalg.norm(J, 2, axis=(1, 2)), rel=1e-4)


def test_the_largest_entries_are_kept():
    V = RNG.standard_normal((4, 9))
    kept = keep_largest(V, 3)
    for row, short in zip(V, kept, strict=True):
        assert set(np.flatnonzero(short)) == set(np.argsort(-np.abs(row))[:3])
        assert np.linalg.norm(short) == pytest.approx(1)


def test_lengths_of_columns_within_their_standard_errors():
    probes = 4000
    found = column_lengths(pull, 6, 5, probes, np.random.default_rng(3))
    squares = (J**2).sum(axis=1)
    spread = np.sqrt(2 * (squares**2 - (J**4).sum(axis=1)) / probes)  # of (Jᵀz)², z of random signs
    assert np.all(np.abs(found**2 - squares) < 5 * spread)
