"""Which side is ahead, where the two curves meet, and both in plain words with how sure they are.

The gap is a difference on the same test rows, with the chance of seeds and of test rows counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.stats import t as student

from overparam.core.sections import Verdict
from overparam.core.words import count_of, number, percent, points

if TYPE_CHECKING:
    from overparam.analysis.comparison import Comparison

CONFIDENCE = 0.95
SHARE, LEAST = 0.1, {"classes": 0.005, "regression": 0.01}
"""A lead counts where it is more than this share of the kernel's error, and more than this many rows or this much
variance: half a point of rows, one point of variance."""

DRAWS = 400
"""Bootstrap draws, of seeds and of test rows."""
FAR = 100.0
"""A crossing further than this many times the largest size is not believed."""
INNER = (0.1, 0.9)
"""Quantiles of the draws that are reported."""
FINE = 0.02
"""Errors have two places in percent below this: a few hundred test rows tell no more."""
SURE = 0.8
"""The share of bootstrap draws from which a crossing is stated without a doubt."""

Answer = Literal["kernel", "network", "undecided"]
Kind = Literal["seen", "ahead", "none"]


@dataclass(frozen=True)
class Gap:
    """Network minus kernel at one size: below 0 the network is better.

    lower, upper: the interval of `CONFIDENCE`. by_seeds, by_rows: standard errors from the draws of training rows and
    initial weights, and from the draw of test rows; by_seeds is None with one seed.
    """

    n: int
    kernel: float
    network: float
    difference: float
    lower: float
    upper: float
    by_seeds: float | None
    by_rows: float

    @property
    def standard_error(self) -> float:
        return float(np.hypot(self.by_seeds or 0.0, self.by_rows))


def paired_gap(n: int, kernel: np.ndarray, network: np.ndarray, *, classes: bool) -> Gap:
    """The mean of network − kernel over seeds and test rows with its interval.

        variance = var over seeds of the mean over rows / seeds + var over rows of the mean over seeds / rows

    with Welch and Satterthwaite's degrees of freedom. What is left after both is counted twice: the interval is rather
    too wide than too narrow. Of classes, one more row is taken to have gone each way: where no row differs, a
    variance of 0 would claim too much.

    Args:
        n: training rows.
        kernel, network: losses, (seeds, test rows), of the same rows.
        classes: whether losses are 0 and 1.

    Ten rows, of which the network gets two more right:

    >>> wrong = np.zeros((1, 10)); wrong[0, :3] = 1.0
    >>> less = wrong.copy(); less[0, :2] = 0.0
    >>> gap = paired_gap(100, wrong, less, classes=True)
    >>> round(gap.difference, 12), gap.by_seeds
    (-0.2, None)
    """
    D = np.asarray(network, dtype=np.float64) - np.asarray(kernel, dtype=np.float64)
    seeds, rows = D.shape
    each = D.mean(axis=0)
    spread = float(each.var(ddof=1)) + (2 / rows if classes else 0.0)
    by_rows = spread / rows
    by_seeds = float(D.mean(axis=1).var(ddof=1)) / seeds if seeds > 1 else 0.0
    total = by_rows + by_seeds
    parts = by_rows**2 / (rows - 1) + (by_seeds**2 / (seeds - 1) if seeds > 1 else 0.0)
    freedom = total**2 / parts if parts > 0 else np.inf
    half = float(student.ppf(0.5 + CONFIDENCE / 2, freedom)) * float(np.sqrt(total))
    mean = float(D.mean())
    return Gap(
        n=n,
        kernel=float(np.mean(kernel)),
        network=float(np.mean(network)),
        difference=mean,
        lower=mean - half,
        upper=mean + half,
        by_seeds=float(np.sqrt(by_seeds)) if seeds > 1 else None,
        by_rows=float(np.sqrt(by_rows)),
    )


def error_bar(losses: np.ndarray) -> float:
    """The standard error of one method's mean loss over (seeds, rows), both draws counted."""
    seeds, rows = losses.shape
    by_rows = float(losses.mean(axis=0).var(ddof=1)) / rows
    by_seeds = float(losses.mean(axis=1).var(ddof=1)) / seeds if seeds > 1 else 0.0
    return float(np.sqrt(by_rows + by_seeds))


def margin_of(kernel_error: float, *, classes: bool) -> float:
    """The lead a network needs to be worth having: a tenth of the kernel's error, and no less than a trifle.

    >>> margin_of(0.2, classes=True), margin_of(0.01, classes=True)
    (0.020000000000000004, 0.005)
    """
    return max(SHARE * kernel_error, LEAST["classes" if classes else "regression"])


def decide(gap: Gap, margin: float) -> Answer:
    """ "kernel" where the interval rules out a lead of the network above the margin, "network" where it rules out that
    the network is not ahead, else "undecided".

    >>> decide(Gap(100, 0.10, 0.04, -0.06, -0.08, -0.04, 0.01, 0.01), margin=0.01)
    'network'
    >>> decide(Gap(100, 0.10, 0.10, 0.0, -0.005, 0.005, 0.001, 0.002), margin=0.01)
    'kernel'
    >>> decide(Gap(100, 0.10, 0.09, -0.01, -0.03, 0.01, 0.01, 0.01), margin=0.01)
    'undecided'
    """
    if gap.lower > -margin:
        return "kernel"
    return "network" if gap.upper < 0 else "undecided"


def rows_to_decide(gap: Gap, margin: float, rows: int) -> int | None:
    """About how many test rows would decide, if more of them were all that was lacking; None where they would not.

    The half-width has to fall to the distance between the difference and the nearer of 0 and −margin.
    """
    half = (gap.upper - gap.lower) / 2
    room = max(-gap.difference, gap.difference + margin)
    if half <= 0 or room <= 0:
        return None
    wanted = (room / half * gap.standard_error) ** 2 - (gap.by_seeds or 0.0) ** 2
    return int(np.ceil(rows * gap.by_rows**2 / wanted)) if wanted > 0 else None


@dataclass(frozen=True)
class Crossing:
    """The n at which the curves meet, and who is ahead beyond it.

    kind: "seen" between two of the sizes, "ahead" beyond the largest one, by straight lines in log n and log error, or
    "none". n, lower, upper: the estimate and the 10% and 90% quantiles of the draws that agree in kind; None where there
    is none. agree: the share of draws that agree in kind and in who is ahead beyond. leader: who that is.
    kernel_slope, network_slope: b of error ≈ a n^−b with its standard deviation over the draws; None for one size.
    """

    kind: Kind
    n: float | None
    lower: float | None
    upper: float | None
    agree: float
    leader: Literal["kernel", "network"]
    kernel_slope: tuple[float, float] | None
    network_slope: tuple[float, float] | None


def find_crossing(
    sizes: Sequence[int], kernel: np.ndarray, network: np.ndarray, *, seed: int = 0, draws: int = DRAWS
) -> Crossing:
    """The crossing of two curves, resampled over seeds and test rows.

    Between sizes, the logarithm of the ratio of the errors is taken as linear in log n; the last change of its sign
    counts. Beyond the largest size the least-squares line through all sizes is followed, up to 100 times as far.

    Args:
        sizes: rising.
        kernel, network: losses, (sizes, seeds, test rows), of the same rows.
        seed: of the draws.

    Errors 0.4 and 0.1 for the kernel, 0.8 and 0.05 for the network: log₂ of the ratio goes from 1 to −1.

    >>> flat = np.ones((2, 1, 100))
    >>> found = find_crossing([100, 400], flat * [[[0.4]], [[0.1]]], flat * [[[0.8]], [[0.05]]])
    >>> found.kind, round(found.n), found.leader
    ('seen', 200, 'network')
    """
    rng = np.random.default_rng(seed)
    least = 0.5 / kernel.shape[2]
    kind, n, leader = _meet(sizes, kernel.mean(axis=(1, 2)), network.mean(axis=(1, 2)), least)
    seeds, rows = kernel.shape[1:]
    meetings: list[float] = []
    agree = 0
    slopes = []
    for _ in range(draws):
        chosen = rng.integers(seeds, size=seeds)
        weight = rng.multinomial(rows, np.full(rows, 1 / rows)) / rows
        k, w = ((losses[:, chosen] @ weight).mean(axis=1) for losses in (kernel, network))
        slopes.append((_slope(sizes, k, least), _slope(sizes, w, least)))
        other, place, ahead = _meet(sizes, k, w, least)
        if other == kind and ahead == leader:
            agree += 1
            if place is not None:
                meetings.append(place)
    ends = np.quantile(meetings, INNER) if meetings and n is not None else (None, None)
    spread = np.std(slopes, axis=0) if len(sizes) > 1 else (np.nan, np.nan)
    own = [_slope(sizes, losses.mean(axis=(1, 2)), least) for losses in (kernel, network)]
    kernel_slope, network_slope = (
        (float(b), float(s)) if len(sizes) > 1 else None for b, s in zip(own, spread, strict=True)
    )
    return Crossing(
        kind=kind,
        n=n,
        lower=None if ends[0] is None else float(ends[0]),
        upper=None if ends[1] is None else float(ends[1]),
        agree=agree / draws if draws else 0.0,
        leader=leader,
        kernel_slope=kernel_slope,
        network_slope=network_slope,
    )


def _meet(
    sizes: Sequence[int], kernel: np.ndarray, network: np.ndarray, least: float
) -> tuple[Kind, float | None, Literal["kernel", "network"]]:
    """Kind, place and who is ahead beyond it, of two curves without noise."""
    x = np.log(np.asarray(sizes, dtype=np.float64))
    ratio = np.log(np.maximum(network, least)) - np.log(np.maximum(kernel, least))
    now = "network" if ratio[-1] < 0 else "kernel"
    other = np.flatnonzero((ratio < 0) != (ratio[-1] < 0))
    if len(other):
        i = int(other[-1])
        share = ratio[i] / (ratio[i] - ratio[i + 1])
        return "seen", float(np.exp(x[i] + share * (x[i + 1] - x[i]))), now
    if len(sizes) > 1:
        slope, level = np.polyfit(x, ratio, 1)
        meets = -level / slope if slope else -np.inf
        if x[-1] < meets < x[-1] + np.log(FAR):
            return "ahead", float(np.exp(meets)), "kernel" if now == "network" else "network"
    return "none", None, now


def _slope(sizes: Sequence[int], errors: np.ndarray, least: float) -> float:
    """b of the line log error = log a − b log n."""
    if len(sizes) < 2:
        return np.nan
    return -float(np.polyfit(np.log(np.asarray(sizes, dtype=np.float64)), np.log(np.maximum(errors, least)), 1)[0])


def give_words(c: Comparison) -> Verdict:
    """What to believe, first the answer."""
    gap = c.gaps[-1]
    sentences = [_answer(c, gap), _uncertainty(c, gap), _crossing(c, c.crossing)]
    if gap.kernel > 0.9 * c.guess and gap.network > 0.9 * c.guess:
        sentences.append(f"Neither says much: guessing alone has {_error(c, c.guess)}.")
    return Verdict("warning" if c.answer == "undecided" else "good", tuple(s for s in sentences if s))


def _error(c: Comparison, value: float) -> str:
    return (
        f"{percent(value, FINE)} of the variance unexplained"
        if c.task == "regression"
        else f"{percent(value, FINE)} wrong"
    )


def one_kernel(c: Comparison, at: int) -> bool:
    """Whether the error of the best kernel at a size is that of one kernel: every seed has the best of its own rows."""
    own = c.errors[c.methods.index(c.best_kernels[at]), at]
    return bool(np.isclose(own, c.gaps[at].kernel, rtol=1e-9, atol=0))


def _named(c: Comparison) -> tuple[str, str]:
    kernel, network = c.best_kernels[-1], c.best_networks[-1]
    best = f"the best kernel ({kernel})" if one_kernel(c, -1) else f"the best kernel of each seed (most often {kernel})"
    return best, f"the best network ({network})"


def _answer(c: Comparison, gap: Gap) -> str:
    kernel, network = _named(c)
    numbers = f"{kernel} has {_error(c, gap.kernel)}, {network} {percent(gap.network, FINE)}"
    lead, behind = f"{points(gap.difference, sign=False)} points", gap.difference > 0
    answer: Answer = c.answer
    if answer == "network":
        return f"The network is ahead by {lead} at n = {gap.n:,}: {numbers}."
    if answer == "kernel":
        tail = f"the network is {lead} {'behind' if behind else 'ahead'}"
        tail += "" if behind else f", less than the {points(c.margin, sign=False)} points that would count"
        return f"A kernel is enough: at n = {gap.n:,} {numbers}; {tail}."
    return f"Undecided: at n = {gap.n:,} {numbers}. The network is {lead} {'behind' if behind else 'ahead'}, which may be chance."


def _uncertainty(c: Comparison, gap: Gap) -> str:
    ends = f"{points(gap.lower)} to {points(gap.upper)} points"
    words = (
        f"Network minus kernel is {points(gap.difference)} points, {CONFIDENCE:.0%} interval {ends}, "
        f"from the same {count_of(c.test_rows, 'test row')}"
    )
    words += (
        f" and {count_of(c.seeds, 'seed')}" if c.seeds > 1 else "; with one seed the chance of its draw is not counted"
    )
    words += f"; a lead of {points(c.margin, sign=False)} points would count."
    if c.answer == "undecided":
        more = rows_to_decide(gap, c.margin, c.test_rows)
        if more is not None and more > c.test_rows:
            words += f" About {number(more, 2)} test rows would decide, if the difference stays."
        elif more is None and c.seeds > 1:
            words += " More test rows alone would not decide: the seeds differ too much."
    return words


def _crossing(c: Comparison, found: Crossing) -> str:
    if len(c.sizes) < 2:
        return ""
    sizes = f"n = {c.sizes[0]:,} and {c.sizes[-1]:,}"
    if found.kind == "none":
        who = "network" if c.gaps[-1].difference < 0 else "kernel"
        if found.agree < SURE:
            after = f"their trends leave open what comes after ({found.agree:.0%} of resamplings have no crossing)"
            return f"The curves do not cross between {sizes}: the {who} stays ahead; {after}."
        words = f"The curves do not cross between {sizes}, nor do their trends soon after: the {who} stays ahead"
        return f"{words} ({found.agree:.0%} of resamplings agree)."
    assert found.n is not None
    around = f"n ≈ {number(found.n, 2)}"
    if found.lower is not None and found.upper is not None:
        around += f" (80% of resamplings between {number(found.lower, 2)} and {number(found.upper, 2)})"
    if found.kind == "seen":
        if found.agree < SURE:
            return (
                f"The curves run too close to say where they cross: {found.agree:.0%} of resamplings agree on {around}."
            )
        return f"The {found.leader} overtakes at {around}."
    words = f"Straight trends would cross beyond the sizes tried, the {found.leader} overtaking at {around}"
    return f"{words}; {found.agree:.0%} of resamplings agree, and trends bend, so this is a guess."
