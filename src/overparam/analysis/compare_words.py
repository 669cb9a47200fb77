"""The verdict of a comparison in plain words, with its uncertainty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overparam.analysis.compare_crossing import Crossing
from overparam.analysis.compare_verdict import CONFIDENCE, Answer, Gap, rows_to_decide
from overparam.core.verdict import Verdict

if TYPE_CHECKING:
    from overparam.analysis.compare_whole import Comparison

SURE = 0.8
"""The share of bootstrap draws from which a crossing is stated without a doubt."""


def percent(value: float) -> str:
    """A share in percent, with more digits where it is small.

    >>> percent(0.125), percent(0.00234)
    ('12.5%', '0.23%')
    """
    return f"{value:.1%}" if abs(value) >= 0.02 else f"{value:.2%}"


def points(value: float) -> str:
    """A difference of shares in points.

    >>> points(-0.0123)
    '1.2 points'
    """
    size = abs(100 * value)
    return f"{size:.1f} points" if size >= 1 else f"{size:.2f} points"


def give_words(c: Comparison) -> Verdict:
    """What to believe, first the answer."""
    gap = c.gaps[-1]
    sentences = [_answer(c, gap), _uncertainty(c, gap), _crossing(c, c.crossing)]
    if gap.kernel > 0.9 * c.guess and gap.network > 0.9 * c.guess:
        sentences.append(f"Neither says much: guessing alone has {_error(c, c.guess)}.")
    return Verdict("warning" if c.answer == "undecided" else "good", tuple(s for s in sentences if s))


def _error(c: Comparison, value: float) -> str:
    return f"{percent(value)} of the variance unexplained" if c.task == "regression" else f"{percent(value)} wrong"


def _named(c: Comparison) -> tuple[str, str]:
    kernel, network = c.best_kernels[-1], c.best_networks[-1]
    return f"the best kernel ({kernel})", f"the best network ({network})"


def _answer(c: Comparison, gap: Gap) -> str:
    kernel, network = _named(c)
    numbers = f"{kernel} has {_error(c, gap.kernel)}, {network} {percent(gap.network)}"
    lead, behind = points(gap.difference), gap.difference > 0
    answer: Answer = c.answer
    if answer == "network":
        return f"The network is ahead by {lead} at n = {gap.n:,}: {numbers}."
    if answer == "kernel":
        tail = f"the network is {lead} {'behind' if behind else 'ahead'}"
        tail += "" if behind else f", less than the {points(c.margin)} that would count"
        return f"A kernel is enough: at n = {gap.n:,} {numbers}; {tail}."
    return f"Undecided: at n = {gap.n:,} {numbers}. The network is {lead} {'behind' if behind else 'ahead'}, which may be chance."


def _uncertainty(c: Comparison, gap: Gap) -> str:
    ends = f"{signed(gap.lower)} to {signed(gap.upper)} points"
    words = (
        f"Network minus kernel is {signed(gap.difference)} points, {CONFIDENCE:.0%} interval {ends}, "
        f"from the same {c.test_rows:,} test rows"
    )
    words += f" and {c.seeds} seeds" if c.seeds > 1 else "; with one seed the chance of its draw is not counted"
    words += f"; a lead of {points(c.margin)} would count."
    if c.answer == "undecided":
        more = rows_to_decide(gap, c.margin, c.test_rows)
        if more is not None and more > c.test_rows:
            words += f" About {_round(more):,} test rows would decide, if the difference stays."
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
    around = f"n ≈ {_round(found.n):,}"
    if found.lower is not None and found.upper is not None:
        around += f" (80% of resamplings between {_round(found.lower):,} and {_round(found.upper):,})"
    if found.kind == "seen":
        if found.agree < SURE:
            return (
                f"The curves run too close to say where they cross: {found.agree:.0%} of resamplings agree on {around}."
            )
        return f"The {found.leader} overtakes at {around}."
    words = f"Straight trends would cross beyond the sizes tried, the {found.leader} overtaking at {around}"
    return f"{words}; {found.agree:.0%} of resamplings agree, and trends bend, so this is a guess."


def signed(value: float) -> str:
    """A difference of shares in points, with its sign.

    >>> signed(-0.0123), signed(0.0012)
    ('−1.2', '+0.12')
    """
    size = 100 * value
    digits = 1 if abs(size) >= 1 else 2
    return f"{size:+.{digits}f}".replace("-", "−")


def _round(n: float) -> int:
    """Two digits.

    >>> _round(1234)
    1200
    """
    return int(float(f"{n:.2g}"))
