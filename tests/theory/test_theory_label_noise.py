"""Redrawn labels against draws of them: the mean over draws, for signs and for classes."""

import numpy as np
import pytest

from overparam.spectrum import quadrature
from overparam.theory import laziness, predict_loss, redrawn_labels

N, SHARE, STEPS, RATE = 24, 0.3, np.array([0, 1, 7, 200]), 0.05


@pytest.fixture(scope="module")
def matrix():
    rows = np.random.default_rng(0).standard_normal((N, 40))
    return rows @ rows.T / 40


def left(H, Y):
    """½Σ rᵀ(I − ηH)^{2s} r of each row of Y (draws, n, k), by eigenvectors."""
    values, vectors = np.linalg.eigh(H)
    shares = np.sum((vectors.T @ Y) ** 2, axis=2)
    return 0.5 * shares @ (1 - RATE * values[:, None]) ** (2 * STEPS)


@pytest.mark.parametrize("k", [2, 3])
def test_the_curve_is_the_mean_over_draws(matrix, k):
    random = np.random.default_rng(k)
    codes = random.integers(k, size=N)
    coded = np.array([[1.0], [-1.0]]) if k == 2 else np.eye(k) - 1 / k
    drawn = np.where(random.random((4000, N)) < SHARE, random.integers(k, size=(4000, N)), codes)
    each = left(matrix, coded[drawn])
    mixed = redrawn_labels(quadrature(matrix, coded[codes]), quadrature(matrix, np.eye(N)), SHARE)
    found = predict_loss(mixed, STEPS, RATE)
    error = each.std(axis=0) / np.sqrt(len(each)) + 1e-12 * each[:, 0].mean()
    assert np.all(np.abs(found.values - each.mean(axis=0)) < 5 * error)
    assert found.values[0] == pytest.approx(left(matrix, coded[codes][None])[0, 0])  # noise keeps the loss at the start


def test_the_ends_are_the_labels_and_the_random_ones(matrix):
    y, signs = np.ones(N), np.random.default_rng(1).choice([-1.0, 1.0], size=N)
    labels, random = (quadrature(matrix, of, tol=1e-12) for of in (y, signs))  # complete: nothing is bracketed
    for share, alone in ((0.0, labels), (1.0, random)):
        mixed = redrawn_labels(labels, random, share)
        assert np.array_equal(predict_loss(mixed, STEPS, RATE).values, predict_loss(alone, STEPS, RATE).values)
        assert (
            laziness(mixed, 9, RATE, width=10, kappa=1.0).value == laziness(alone, 9, RATE, width=10, kappa=1.0).value
        )


def test_what_does_not_fit_is_said(matrix):
    labels = quadrature(matrix, np.ones(N))
    with pytest.raises(ValueError, match=r"`share` is 1.5; expected a number in \[0, 1\]"):
        redrawn_labels(labels, labels, 1.5)
    with pytest.raises(ValueError, match="the random signs have 2 rows, the labels 24"):
        redrawn_labels(labels, quadrature(np.eye(2), [1.0, 1.0]), 0.5)
