"""The verdict reads true: on data whose answer is known, and only as sure as the rows allow."""

import numpy as np
import pytest
from analysis_cases import checked

import overparam as op
from overparam.core.words import measured


@pytest.fixture
def random():
    return np.random.default_rng(9)


def sentences(X, y, **options):
    result = op.analyze((X, y), kinds=False, **options)
    return result, " ".join((*result.verdict.sentences, *result.theory))


def test_a_smooth_rule_is_learned(random):
    X = random.normal(size=(200, 5))
    result, words = sentences(X, X[:, 0] + X[:, 1] > 0)
    assert result.verdict.tone == "good"
    assert words.startswith("These labels can be learned: expect")
    assert "times less complex than the same labels shuffled" in words
    assert "not random, though" not in words


def test_how_rows_were_prepared_is_one_line(random):
    X = random.integers(0, 9, size=(40, 2))
    table = np.column_stack([X.astype(object), random.choice(["red", "green", "blue"], 40)])
    scaled = "columns standardised; divided by √{}; constant feature 1 appended."
    assert (
        f"Prepared: words of 'column 3' as columns of 0 and 1; {scaled.format(5)}" in sentences(table, X[:, 0] > 4)[1]
    )
    words = sentences(X.astype(np.uint8), X[:, 0] > 4)[1]
    assert f"Prepared: {scaled.format(2)}" in words
    assert "converted" not in words


def test_coin_flips_are_not(random):
    X = random.normal(size=(200, 5))
    result, words = sentences(X, random.integers(2, size=200))
    assert result.verdict.tone == "bad"
    assert words.startswith("Little of these labels carries over to new rows")
    assert "times less complex" not in words
    assert "not random, though" not in words


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
    assert "the difference may be chance" in words
    assert result.verdict.tone != "good"
    assert "Classes are uneven (6 rows of" in words


def test_noise_in_labels_asks_to_stop_early(random):
    X = random.normal(size=(500, 4))
    y = (X[:, 0] > 0) ^ (random.random(500) < 0.15)
    result, words = sentences(X, y)
    assert "Stop early or use weight decay" in words
    assert result.labels.noise.upper > 0.12
    clean, calm = sentences(X, X[:, 0] > 0)
    assert "no need to stop early" in calm
    assert clean.labels.noise.upper < result.labels.noise.upper


def test_most_of_many_classes_is_not_all(random):
    centres = random.normal(size=(12, 4))
    codes = np.arange(360) % 12
    X = centres[codes] + 0.45 * random.normal(size=(360, 4))
    result, words = sentences(X, codes)
    assert 0.15 < result.learnability.left_out_error < 0.33
    assert words.startswith("These labels can be learned in part")
    assert result.verdict.tone == "warning"


@pytest.mark.parametrize(("noise", "tone"), [(0.05, "good"), (1.0, "warning"), (1e3, "bad")])
def test_regression_in_three_grades(random, noise, tone):
    X = random.normal(size=(150, 3))
    result, words = sentences(X, X[:, 0] + X[:, 1] ** 2 * 0.1 + noise * random.normal(size=150))
    assert result.verdict.tone == tone
    assert result.error.explained.value == pytest.approx(1 - result.error.value)
    assert f"expect R² = {measured(result.error.explained, share=False, level=True)}" in words


def test_numbers_in_the_sentences_are_those_of_the_result():
    found = checked("breast-cancer").found
    first = found.verdict.sentences[0]
    assert f"expect {measured(found.error.interval, level=True)} of new rows wrong, measured on 80 test rows" in first
    assert f"{found.learnability.baseline_error:.1%}" in first
    speed = next(line for line in found.theory if line.startswith("At rate"))
    steps = [t.value for t in found.speed.targets if t.labels == "true"][-1]
    assert f"{steps:,} steps" in speed
    assert f"{found.speed.rate * found.n:.3g} for a mean loss" in speed
    assert str(found).endswith(found.verdict.sentences[-1])
    assert repr(found).startswith("Analysis('breast-cancer', n=160, binary: These labels can be learned")


def test_an_end_that_is_out_of_reach_is_not_promised(random):
    """The label is the sign of a hair's breadth between columns: found in the end, millions of steps away."""
    level, hair = random.normal(size=(200, 1)), 3e-3 * random.normal(size=(200, 4))
    result, words = sentences(np.column_stack([level, level + hair]), hair[:, 0] > 0, preprocess="standardise")
    assert [t.value for t in result.speed.targets if t.labels == "true"][-1] > 1e6
    assert result.learnability.left_out_error < 0.25 < 0.4 < result.speed.early_errors.min()
    assert "So many steps are out of reach: within the first 100,000" in words
    assert "no need to stop early" not in words


def test_written_twice_a_coin_is_not_learned_and_both_errors_are_told(random):
    X, y = random.normal(size=(200, 5)), random.integers(2, size=200)
    result, words = sentences(np.vstack([X, X]), np.concatenate([y, y]))
    assert result.verdict.tone == "bad"
    assert (result.copies, result.error.leading) == (200, "copies left out together")
    assert result.error.alone.value + 0.05 < result.error.value > 0.35
    assert "200 rows are copies of others and leave together with them (one at a time" in words


def test_overlapping_windows_are_never_green_without_groups(random):
    """Two clean kinds of signal: every error is small, but windows answer for each other."""
    series = np.concatenate([random.normal(size=200), 50 + random.normal(size=200)])
    X = np.lib.stride_tricks.sliding_window_view(series, 12)[::2]
    X = X[np.ptp(X, axis=1) < 25]  # none across both
    y = X[:, 0] > 25
    result, words = sentences(X, y)
    assert (result.copy_groups.verdict, result.error.leading) == ("windows", "blocks of overlapping rows left out")
    assert (result.copies, result.verdict.tone) == (0, "warning")
    assert result.error.value < 0.05
    assert "windows of a series, each mostly moved by 2 columns" in words
    assert "`group=`" in words
    assert any("overlap others: windows of a series" in str(section) for section in result.sections())


def test_equal_rows_of_discrete_columns_are_rows_of_their_own(random):
    X = random.integers(3, size=(300, 3)).astype(float)
    y = random.random(300) < 1 / (1 + np.exp(3 - X.sum(axis=1)))
    result, words = sentences(X, y)
    assert (result.copies, result.copy_groups.verdict) == (0, "coincidences")
    assert result.error.leading == "rows left out one at a time"
    assert "as rows of a few discrete columns do" in words


def test_few_positives_are_judged_by_balance(random):
    X = random.normal(size=(400, 4))
    result, words = sentences(X, X[:, 0] + 0.8 * random.normal(size=400) > 1.9)
    assert result.error.value < 0.1
    assert result.verdict.tone != "good"
    assert result.error.balanced.value > 0.2
    assert "with every class counted alike" in words


def test_groups_of_the_users_own_leave_together(random):
    who = np.repeat(np.arange(30), 5)
    X = 3 * random.normal(size=(30, 4))[who] + 0.3 * random.normal(size=(150, 4))
    y = random.integers(2, size=30)[who]
    data = op.load((X, y)).replace(groups=who)
    found = op.analyze(data, kinds=False)
    assert found.error.leading == "your groups left out"
    unnamed = op.analyze(data.replace(groups=None), kinds=False)
    assert found.error.value > 0.25
    assert max(unnamed.error.value, *(one.error.value for one in unnamed.error.doubts)) > 0.25
    assert "good" not in (found.verdict.tone, unnamed.verdict.tone)


def test_a_forest_that_is_clearly_better_is_said_to_be(random):
    """A label cut along one axis of forty: trees see it at once, a function of distances does not."""
    X = random.uniform(size=(300, 40))
    found = op.analyze((X, np.abs(X[:, 0] - 0.5) < 0.25), kinds=False)
    assert found.error.rival.error.upper < found.error.value
    assert found.kinds is None
    assert "prefer trees here" in " ".join(found.verdict.sentences)


def test_copies_that_differ_in_one_column_are_found_by_their_labels(random):
    X, y = random.normal(size=(150, 5)), random.integers(2, size=150)
    moved = X.copy()
    moved[:, 0] += 1e-3 * random.normal(size=150)
    result, _ = sentences(np.vstack([X, moved]), np.concatenate([y, y]))
    assert result.copies == 150
    assert result.verdict.tone == "bad"
    clean, _ = sentences(X, X[:, 1] + X[:, 2] > 0)
    assert clean.copies == 0


def test_rare_positives_that_are_ranked_well_are_not_called_little(random):
    X = random.normal(size=(500, 4))
    result, words = sentences(X, X[:, 0] + 0.6 * random.normal(size=500) > 1.9)
    assert result.error.auc.lower > 0.6
    assert result.verdict.tone == "warning"
    assert "Little of these labels" not in words
    chance = result.error.lower < result.error.guess <= result.error.upper
    ranked = f"the difference may be chance, how rows are ranked is not: AUC {measured(result.error.auc, share=False)}."
    assert (ranked in result.verdict.sentences[0]) == chance


def test_several_targets_count_alike_whatever_their_units(random):
    X = random.normal(size=(150, 4))
    Y = np.column_stack([1000 * X[:, 0] + random.normal(size=150), random.normal(size=150)])
    result = op.analyze((X, Y), task="regression")
    assert result.error.explained.value == pytest.approx(0.5, abs=0.15)  # all of the first, nothing of the second
    assert result.verdict.tone != "good"


ASSUMED = "This takes rows to be independent"


def test_that_rows_are_taken_to_be_independent_is_said_once_where_nothing_else_says_it(random):
    X = random.normal(size=(120, 4))
    clean = op.load((X, X[:, 0] + X[:, 1] > 0))
    found = op.analyze(clean, kinds=False)
    assert found.verdict.tone == "good"
    assert found.verdict.sentences[1].startswith(ASSUMED)
    assert found.verdict.sentences[1].endswith("`group=`.")
    assert "chosen, encoded or computed with their help" in found.verdict.sentences[2]
    assert sum(ASSUMED in sentence for sentence in found.verdict.sentences) == 1
    named = op.analyze(clean.replace(groups=np.arange(120) // 4), kinds=False)
    coins = op.analyze((X, random.integers(2, size=120)), kinds=False)
    assert not any(ASSUMED in sentence for one in (named, coins) for sentence in one.verdict.sentences)
    assert "with their help" in " ".join(named.verdict.sentences), "groups say nothing of columns"


def test_where_rows_do_not_seem_independent_that_is_said_and_not_assumed(random):
    who = np.repeat(np.arange(60), 4)
    X, y = random.normal(size=(60, 8))[who] + 0.4 * random.normal(size=(240, 8)), random.integers(2, size=60)[who]
    found = op.analyze((X, y), kinds=False)
    words = " ".join(found.verdict.sentences)
    assert (ASSUMED in words, "Name what belongs together with `group=`" in words) == (False, True)
