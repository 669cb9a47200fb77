"""The verdict as a function of losses alone: intervals against scipy and by simulation, decisions, crossings."""

import numpy as np
import pytest
from scipy import stats

from overparam.analysis.comparison_verdict import (
    Gap,
    decide,
    error_bar,
    find_crossing,
    margin_of,
    paired_gap,
    rows_to_decide,
)


def drawn(rng, seeds, rows, difference, by_seed, by_row, residual):
    """Losses of two methods whose true difference is known: effects of seeds and of rows, and what is left."""
    effect = by_seed * rng.standard_normal((seeds, 1)) + by_row * rng.standard_normal((1, rows))
    shared = rng.standard_normal((1, rows))
    return shared, shared + difference + effect + residual * rng.standard_normal((seeds, rows))


def test_with_one_seed_the_interval_is_that_of_a_paired_t_test():
    rng = np.random.default_rng(0)
    kernel, network = rng.random((1, 30)), rng.random((1, 30))
    gap = paired_gap(100, kernel, network, classes=False)
    known = stats.ttest_rel(network[0], kernel[0]).confidence_interval(0.95)
    np.testing.assert_allclose([gap.lower, gap.upper], [known.low, known.high], rtol=1e-12)
    assert gap.by_seeds is None


def test_the_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(1)
    sizes = [(3, 200, 0.05, 0.3, 0.3), (3, 200, 0.0, 0.5, 0.0), (5, 50, 0.1, 0.1, 0.5)]
    for seeds, rows, by_seed, by_row, residual in sizes:
        hits = 0
        for _ in range(600):
            kernel, network = drawn(rng, seeds, rows, -0.1, by_seed, by_row, residual)
            gap = paired_gap(1, np.broadcast_to(kernel, network.shape), network, classes=False)
            hits += gap.lower <= -0.1 <= gap.upper
        standard = np.sqrt(0.95 * 0.05 / 600)
        assert hits / 600 > 0.95 - 4 * standard  # never too narrow
    # With nothing left over, effects are counted once each: the interval is not too wide either.
    hits = 0
    for _ in range(600):
        kernel, network = drawn(rng, 8, 400, 0.0, 0.05, 0.5, 0.0)
        gap = paired_gap(1, np.broadcast_to(kernel, network.shape), network, classes=False)
        hits += gap.lower <= 0 <= gap.upper
    assert abs(hits / 600 - 0.95) < 4 * standard


def test_both_right_everywhere_is_a_draw_only_with_enough_rows():
    few, many = (paired_gap(1, np.zeros((2, rows)), np.zeros((2, rows)), classes=True) for rows in (100, 2_000))
    margin = margin_of(0.0, classes=True)
    assert decide(few, margin) == "undecided"
    assert decide(many, margin) == "kernel"


@pytest.mark.parametrize(
    ("lower", "upper", "margin", "answer"),
    [
        (-0.10, -0.06, 0.02, "network"),
        (-0.10, 0.01, 0.02, "undecided"),
        (-0.01, 0.05, 0.02, "kernel"),
        (0.03, 0.05, 0.02, "kernel"),
        (-0.015, -0.005, 0.02, "kernel"),  # ahead for sure, by less than counts
        (-0.03, -0.005, 0.02, "network"),
    ],
)
def test_what_the_interval_decides(lower, upper, margin, answer):
    middle = (lower + upper) / 2
    assert decide(Gap(10, 0.2, 0.2 + middle, middle, lower, upper, None, 0.01), margin) == answer


def test_as_many_rows_as_it_says_do_decide():
    rng = np.random.default_rng(2)
    kernel, network = drawn(rng, 1, 300, -0.05, 0.0, 0.8, 0.0)
    gap = paired_gap(1, kernel, network, classes=False)
    assert decide(gap, 0.01) == "undecided"
    more = rows_to_decide(gap, 0.01, 300)
    assert more is not None
    assert more > 300
    times = -(-more // 300)
    again = paired_gap(1, np.tile(kernel, times), np.tile(network, times), classes=False)
    assert decide(again, 0.01) != "undecided"
    assert rows_to_decide(Gap(1, 0.2, 0.2, -0.01, -0.11, 0.09, 0.05, 0.001), 0.02, 300) is None  # seeds decide


def test_the_bar_of_one_method_is_the_spread_of_its_mean():
    rng = np.random.default_rng(3)
    bars, means = [], []
    for _ in range(400):
        losses = rng.random((1, 40)) + 0.2 * rng.standard_normal((4, 1))
        bars.append(error_bar(losses) ** 2)
        means.append(losses.mean())
    truth = 1 / 12 / 40 + 0.04 / 4
    assert abs(np.mean(bars) - truth) < 4 * np.std(bars) / 20
    assert abs(np.var(means) - truth) < 4 * truth * np.sqrt(2 / 400)


def curves(sizes, kernel, network, *, seeds=3, rows=4_000, seed=0):
    """Losses 0 and 1 with these shares."""
    rng = np.random.default_rng(seed)
    made = []
    for law in (kernel, network):
        shares = np.array([law(n) for n in sizes])[:, None, None]
        made.append((rng.random((len(sizes), seeds, rows)) < shares).astype(float))
    return made


def test_power_laws_that_cross_between_sizes_are_found_where_they_cross():
    sizes = (100, 200, 400, 800)
    kernel, network = curves(sizes, lambda n: 2 * n**-0.5, lambda n: 40 * n**-1.1)
    found = find_crossing(sizes, kernel, network)
    truth = 20 ** (1 / 0.6)
    assert (found.kind, found.leader) == ("seen", "network")
    assert found.lower < truth < found.upper
    assert found.upper / found.lower < 1.5
    assert found.agree > 0.95
    assert abs(found.kernel_slope[0] - 0.5) < 4 * found.kernel_slope[1]
    assert abs(found.network_slope[0] - 1.1) < 4 * found.network_slope[1]


def test_a_crossing_beyond_the_sizes_is_followed_only_so_far():
    sizes = (100, 200, 400)
    kernel, network = curves(sizes, lambda n: n**-0.3, lambda n: 1_000**0.45 * n**-0.75, rows=20_000)
    found = find_crossing(sizes, kernel, network)
    assert (found.kind, found.leader) == ("ahead", "network")
    assert found.lower < 1_000 < found.upper
    kernel, network = curves(sizes, lambda n: 0.5 * n**-0.3, lambda n: n**-0.3)
    found = find_crossing(sizes, kernel, network)
    assert (found.kind, found.n, found.leader) == ("none", None, "kernel")


def test_curves_that_run_together_are_not_said_to_cross_for_sure():
    sizes = (100, 200, 400)
    kernel, network = curves(sizes, lambda n: n**-0.4, lambda n: n**-0.4, rows=500)
    assert find_crossing(sizes, kernel, network).agree < 0.8


def test_one_size_and_errors_of_zero_are_no_failure():
    zero = np.zeros((1, 2, 50))
    found = find_crossing((100,), zero, zero)
    assert (found.kind, found.kernel_slope) == ("none", None)
    zero = np.zeros((2, 2, 50))
    assert find_crossing((100, 200), zero, zero).kernel_slope[0] == pytest.approx(0)
