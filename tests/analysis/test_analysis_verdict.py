"""The verdict reads true: on data whose answer is known, and only as sure as the rows allow."""

import numpy as np
import pytest
from analysis_cases import checked

import overparam as op


@pytest.fixture
def random():
    return np.random.default_rng(9)


def sentences(X, y, **options):
    result = op.analyze((X, y), **options)
    return result, " ".join(result.verdict.sentences)


def test_a_smooth_rule_is_learned(random):
    X = random.normal(size=(200, 3))
    result, words = sentences(X, X[:, 0] > 0)
    assert result.verdict.tone == "good"
    assert words.startswith("A wide network can learn these labels:")
    assert "times less complex than the same labels shuffled" in words
    assert "not random, though" not in words


def test_coin_flips_are_not(random):
    X = random.normal(size=(200, 5))
    result, words = sentences(X, random.integers(2, size=200))
    assert result.verdict.tone == "bad"
    assert words.startswith("A wide network learns little")
    assert "times less complex" not in words
    assert "contradict" not in words  # no label is doubtful where none can be learned
    assert "not random, though" not in words
    assert "no need to stop early" not in words


def test_imbalance_alone_does_not_make_labels_simple(random):
    X = random.normal(size=(300, 5))
    y = np.arange(300) % 12 == 0
    result, words = sentences(X, y)
    assert result.learnability.simpler_than_random > 1.3  # fair coins are more complex than a rare class
    assert result.learnability.simpler_than_shuffled == pytest.approx(1, abs=0.1)
    assert result.verdict.tone == "bad"
    assert "times less complex" not in words


def test_parity_is_called_structure_and_not_noise():
    bits = np.array([[(i >> j) & 1 for j in range(8)] for i in range(256)], dtype=float)
    result, words = sentences(bits, bits.sum(axis=1) % 2)
    assert result.verdict.tone == "bad"
    assert result.learnability.left_out_error_end > 0.9
    assert "The labels are not random, though" in words


def test_nearly_orthogonal_rows_are_not_taken_for_parity(random):
    """Balanced classes in high dimension: every left-out row is got wrong for shuffled labels too."""
    X = random.normal(size=(40, 3000))
    result, words = sentences(X, np.arange(40) % 2)
    assert result.learnability.left_out_error_end > 0.6
    assert "not random, though" not in words


def test_a_difference_that_may_be_chance_is_said_to(random):
    X = random.normal(size=(40, 2))
    y = np.zeros(40, dtype=int)
    y[:6] = 1
    X[:3] += 6
    result, words = sentences(X, y)
    assert result.learnability.left_out_error < 0.85 * result.learnability.baseline_error
    assert "on 40 rows that difference may be chance" in words
    assert words.startswith("A wide network may learn these labels in part")
    assert result.verdict.tone == "warning"


def test_noise_in_labels_asks_to_stop_early(random):
    X = random.normal(size=(500, 4))
    y = (X[:, 0] > 0) ^ (random.random(500) < 0.15)
    result, words = sentences(X, y)
    assert "Stop early or use weight decay" in words
    assert result.new_data.noise_rate == pytest.approx(0.15, abs=0.05)
    assert "that the other rows clearly contradict (wrong labels, or classes that overlap)" in words
    clean, calm = sentences(X, X[:, 0] > 0)
    assert "no need to stop early" in calm
    assert clean.new_data.noise_rate < 0.02


def test_most_of_many_classes_is_not_all(random):
    centres = random.normal(size=(12, 4))
    codes = np.arange(360) % 12
    X = centres[codes] + 0.45 * random.normal(size=(360, 4))
    result, words = sentences(X, codes)
    assert 0.15 < result.learnability.left_out_error < 0.33
    assert words.startswith("A wide network can learn most of these labels")
    assert result.verdict.tone == "warning"


@pytest.mark.parametrize(("noise", "tone"), [(0.05, "good"), (1.0, "warning"), (1e3, "bad")])
def test_regression_in_three_grades(random, noise, tone):
    X = random.normal(size=(150, 3))
    result, words = sentences(X, X[:, 0] + X[:, 1] ** 2 * 0.1 + noise * random.normal(size=150))
    assert result.verdict.tone == tone
    assert ("explains" in words) == (result.learnability.left_out_error < 0.995)


def test_numbers_in_the_sentences_are_those_of_the_result():
    found = checked("breast-cancer").found
    first = found.verdict.sentences[0]
    assert f"{found.learnability.left_out_error:.2%}" in first
    assert f"{found.learnability.baseline_error:.1%}" in first
    speed = next(line for line in found.verdict.sentences if line.startswith("At rate"))
    steps = [t.value for t in found.speed.targets if t.labels == "true"][-1]
    assert f"{steps:,} steps" in speed
    assert f"{found.speed.rate * found.n:.3g} for a mean loss" in speed
    assert str(found).endswith(found.verdict.sentences[-1])
    assert repr(found).startswith("Analysis('breast-cancer', n=160, binary: A wide network")


def test_an_end_that_is_out_of_reach_is_not_promised(random):
    """The label is the sign of a hair's breadth between columns: found in the end, millions of steps away."""
    level, hair = random.normal(size=(200, 1)), 3e-3 * random.normal(size=(200, 4))
    result, words = sentences(np.column_stack([level, level + hair]), hair[:, 0] > 0, preprocess="standardise")
    assert [t.value for t in result.speed.targets if t.labels == "true"][-1] > 1e6
    assert result.learnability.left_out_error < 0.25 < 0.4 < result.speed.early_errors.min()
    assert "So many steps are out of reach: within the first 100,000" in words
    assert "no need to stop early" not in words
    assert result.verdict.tone == "warning"
