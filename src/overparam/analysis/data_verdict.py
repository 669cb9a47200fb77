"""The answer in plain words: what a person who reads one paragraph should take away."""

from __future__ import annotations

import numpy as np

from overparam.analysis.data_answers import Learnability, NewData, Problems, Speed, Trust
from overparam.analysis.data_rows import PreparedRows
from overparam.core.sections import Tone, Verdict
from overparam.core.words import count_of, number, percent, rounded_up

CLEAR = 2.0
"""Standard errors from which a difference is not put down to chance."""

PATIENCE = 1e6
"""Steps of full gradient descent beyond which the end of training is not what anyone will see."""
FEW = 30
"""Rows below which the verdict says that it is a rough guess."""


def give_verdict(
    s: PreparedRows, learn: Learnability, fast: Speed, new: NewData, problems: Problems, believed: Trust
) -> Verdict:
    """Learnability first, then simplicity, speed, doubts and how far to trust all of it."""
    tone, first = _learnable(s, learn, problems)
    sentences = [first, *_repeats(s, learn, problems), *_backwards(s, learn), _simplicity(s, learn)]
    out_of_reach = _out_of_reach(s, learn, fast)
    sentences += [_speed(fast, s.n, problems), *out_of_reach]
    if not out_of_reach:
        sentences += _stopping(s, learn, fast, tone)
    sentences += [_doubts(problems, new, tone), _belief(believed)]
    if s.n < FEW:
        sentences.insert(1, f"With {s.n} rows all of this is a rough guess.")
    if tone == "good" and (out_of_reach or problems.counts["contradictions"] or problems.counts["test_in_train"]):
        tone = "warning"
    return Verdict(tone, tuple(sentences))


def _learnable(s: PreparedRows, learn: Learnability, problems: Problems) -> tuple[Tone, str]:
    guess = learn.baseline_error
    flattered = _flattered(s, learn, problems)
    error = learn.left_out_error if flattered is None else flattered
    which = (
        "each row"
        if flattered is None
        else f"each of the {problems.counts['unrepeated_rows']:,} rows that no other equals"
    )
    how = f"predicting {which} from all the others, its limit"
    if not s.classes:
        if error < 0.35:
            tone, opening = "good", "A wide network can learn these targets"
        elif error < 0.95:
            tone, opening = "warning", "A wide network can learn part of these targets"
        else:
            tone, opening = "bad", "A wide network learns nothing of these targets that carries over to new rows"
        explained = f"explains {1 - error:.0%} of the variance" if error < 0.995 else "is no better than the mean"
        return tone, f"{opening}: {how} {explained}."
    share = error / guess if guess > 0 else 1.0
    ahead = _ahead(s, learn) if flattered is None else _ahead_of_few(error, guess, problems)
    if share < 0.35 and error < 0.15 and ahead >= CLEAR:
        tone, opening = "good", "A wide network can learn these labels"
    elif share < 0.35 and ahead >= CLEAR:
        tone, opening = "warning", "A wide network can learn most of these labels"
    elif share < 0.85:
        able = "can" if ahead >= CLEAR else "may"
        tone, opening = "warning", f"A wide network {able} learn these labels in part"
    else:
        tone, opening = "bad", "A wide network learns little of these labels that carries over to new rows"
    remark = ""
    if share >= 1.02:
        remark = "; that is worse than guessing"
    elif share >= 0.98:
        remark = "; that is no better than guessing"
    elif ahead < CLEAR:
        remark = f"; on {s.n:,} rows that difference may be chance"
    return tone, (
        f"{opening}: {how} is wrong {percent(error)} of the time; "
        f"always guessing the commonest class is wrong {percent(guess)} of the time{remark}."
    )


def _flattered(s: PreparedRows, learn: Learnability, problems: Problems) -> float | None:
    """The error on rows that no other equals, where it is clearly larger: leave-one-out looks the others up."""
    error, alone = problems.left_out_error_unrepeated, problems.counts["unrepeated_rows"]
    if error is None or alone < FEW:
        return None
    chance = CLEAR * float(np.sqrt(error * (1 - error) / alone)) if s.classes else 0.1 * learn.left_out_error
    return error if error - learn.left_out_error > max(0.02, chance) else None


def _ahead(s: PreparedRows, learn: Learnability) -> float:
    """By how many standard errors fewer rows are got wrong than by guessing the commonest class (McNemar)."""
    codes = s.data.codes
    return _standard_errors(learn.margins > 0, codes == np.bincount(codes).argmax())


def _ahead_of_few(error: float, guess: float, problems: Problems) -> float:
    """The same for the rows that do not repeat, at its least."""
    return (guess - error) * float(np.sqrt(problems.counts["unrepeated_rows"] / max(guess + error, 1e-12)))


def _standard_errors(right: np.ndarray, other: np.ndarray) -> float:
    """(b − c)/√(b + c): b rows got right by the first alone, c by the other alone."""
    gained, lost = int(np.sum(right & ~other)), int(np.sum(other & ~right))
    return (gained - lost) / float(np.sqrt(max(1, gained + lost)))


def _repeats(s: PreparedRows, learn: Learnability, problems: Problems) -> list[str]:
    if _flattered(s, learn, problems) is None:
        return []
    error, count = learn.left_out_error, problems.counts["duplicate_rows"]
    words = f"{percent(error)} wrong" if s.classes else f"{error:.0%} of the variance unexplained"
    return [
        f"The other {count:,} rows repeat one another, which makes leave-one-out look better than it is: "
        f"{words} over all rows."
    ]


def _backwards(s: PreparedRows, learn: Learnability) -> list[str]:
    """Far more rows wrong than for shuffled labels: a rule under which similar rows have different labels."""
    if not s.classes:
        return []
    error, chance = learn.left_out_error_end, learn.shuffled_errors_end
    if error < chance.max() + 0.05 or error < chance.mean() + 5 * chance.std(ddof=1):
        return []
    return [
        f"The labels are not random, though: trained to the end it is wrong {percent(error)} of the time, where shuffled "
        f"labels give {percent(float(chance.mean()))}. Similar rows have different labels more often than chance would "
        "have it, as when a label depends on a count or a parity; another kind of model may learn them."
    ]


def _simplicity(s: PreparedRows, learn: Learnability) -> str:
    ratio, what = learn.simpler_than_shuffled, "labels" if s.classes else "targets"
    which = "" if learn.complexity.certified else ", measured with a ridge since rows repeat or nearly do"
    drawn = learn.shuffled_complexities if learn.complexity.certified else learn.shuffled_ridged_complexities
    chance = max(0.05, 3 * float(drawn.std(ddof=1) / drawn.mean()))
    if ratio >= 1.3 and ratio > 1 + chance:
        return f"The {what} are {ratio:.3g} times less complex than the same {what} shuffled{which}."
    if ratio > 1 + chance:
        return f"The {what} are only {ratio:.3g} times less complex than the same {what} shuffled{which}."
    words = "about as complex as" if ratio >= 1 - chance else "more complex than"
    return f"The {what} are {words} the same {what} shuffled (ratio {ratio:.2g}){which}."


def _speed(fast: Speed, n: int, problems: Problems) -> str:
    found = [t for t in fast.targets if t.labels == "true" and t.value is not None]
    rates = f"At rate {fast.rate:.3g} ({fast.rate * n:.3g} for a mean loss), half the largest stable one,"
    clash = problems.counts["contradictions"]
    if not found:
        why = ": equal rows with different labels cannot all be fitted" if clash else ""
        return f"{rates} the training loss is not known to fall to half of its start{why}."
    last = found[-1]
    why = "; equal rows with different labels keep it from 1%" if clash and last.relative_target > 0.01 else ""
    return f"{rates} the training loss falls to {last.relative_target:.0%} of its start in {_steps(last.value)} steps{why}."


def _out_of_reach(s: PreparedRows, learn: Learnability, fast: Speed) -> list[str]:
    """Where the good error comes after more steps than anyone takes, what there is before."""
    last = [t for t in fast.targets if t.labels == "true"][-1]
    if not len(fast.early_steps) or last.value is None or last.value <= PATIENCE:
        return []
    found = float(fast.early_errors.min())
    chance = CLEAR * float(np.sqrt(found * (1 - found) / fast.early_rows)) if s.classes else 0.1
    if found - learn.left_out_error < max(0.05, chance):
        return []
    words = f"wrong {percent(found)} of the time" if s.classes else f"at {found:.0%} of the variance unexplained"
    return [
        f"So many steps are out of reach: within the first {_steps(fast.early_steps[-1])} it is {words} at best, "
        f"on {fast.early_on}."
    ]


def _stopping(s: PreparedRows, learn: Learnability, fast: Speed, tone: Tone) -> list[str]:
    """Whether leave-one-out, which uses every row, prefers a ridge; when to stop, from the rows held out."""
    best, end = learn.left_out_error, learn.left_out_error_end
    if s.classes:
        gains = end - best >= 0.01 and _standard_errors(learn.margins > 0, learn.margins_end > 0) >= CLEAR
        compared = f"the limit is wrong {percent(end)} of the time when trained to the end, {percent(best)} with the best ridge"
    else:
        gains = end - best > 0.02 * max(end, 1e-12)
        compared = f"the limit leaves {end:.0%} of the variance unexplained when trained to the end, {best:.0%} with the best ridge"
    if tone == "bad":
        return []
    if not gains:
        return ["Training to the end costs nothing measurable on rows left out: there is no need to stop early."]
    when = ""
    if len(fast.early_steps):
        step = fast.early_steps[int(fast.early_mean_squares.argmin())]
        when = f"; the mean square on {fast.early_on} is least after about {count_of(int(step), 'step')}"
    return [f"Stop early or use weight decay: on rows left out {compared}{when}."]


def _doubts(problems: Problems, new: NewData, tone: Tone) -> str:
    counts, found = problems.counts, []
    if counts["contradictions"]:
        found.append(f"{count_of(counts['contradictions'], 'group')} of equal rows with different labels")
    elif counts["duplicate_groups"]:
        found.append(f"{count_of(counts['duplicate_groups'], 'group')} of repeated rows")
    if counts["test_in_train"]:
        found.append(f"{count_of(counts['test_in_train'], 'test row')} that are training rows too")
    if counts["constant_features"]:
        found.append(count_of(counts["constant_features"], "constant feature"))
    if tone != "bad" and new.noise_rate is not None and new.noise_rate > 0.02:
        found.append(
            f"about {new.noise_rate:.0%} of labels that the other rows clearly contradict (wrong labels, or classes that overlap)"
        )
    if problems.smallest_class is not None and problems.smallest_class[1] < 5:
        found.append(f"a class of only {count_of(problems.smallest_class[1], 'row')}")
    if not found:
        return "The checks of the data found nothing wrong."
    return "Look at the data: " + "; ".join(found) + "."


def _belief(believed: Trust) -> str:
    width = believed.width_for_lazy
    if width is None:
        return "How wide a network must be for this to hold is not known: rows repeat or nearly do."
    return (
        f"This describes very wide networks: at initial weights of standard deviation 1, width {rounded_up(width)} or more "
        "stays close to it to the end of training."
    )


def _steps(count: float | None) -> str:
    if count is None:
        return "more than 10¹²"
    return number(round(count), None if count < 1e7 else 2)
