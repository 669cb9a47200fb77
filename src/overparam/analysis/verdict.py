"""The answer in plain words: what a person who reads one paragraph should take away."""

from __future__ import annotations

from overparam.analysis.answers import Learnability, NewData, Problems, Speed, Tone, Trust, Verdict
from overparam.analysis.setting import Setting


def give_verdict(
    s: Setting, learn: Learnability, fast: Speed, new: NewData, problems: Problems, believed: Trust
) -> Verdict:
    """Learnability first, then simplicity, speed, doubts and how far to trust all of it."""
    tone, first = _learnable(s, learn)
    sentences = [first, _simplicity(learn), _speed(fast, s.n), *_stopping(s, fast), *_doubts(problems, new)]
    sentences.append(_belief(believed))
    if tone == "good" and (problems.counts["contradictions"] or problems.counts["test_in_train"]):
        tone = "warning"
    return Verdict(tone, tuple(sentences))


def _learnable(s: Setting, learn: Learnability) -> tuple[Tone, str]:
    error, guess = learn.left_out_error, learn.baseline_error
    if not s.classes:
        if error < 0.35:
            tone, opening = "good", "A wide network can learn these targets"
        elif error < 0.95:
            tone, opening = "warning", "A wide network can learn part of these targets"
        else:
            tone, opening = "bad", "A wide network learns nothing of these targets that carries over to new rows"
        return tone, f"{opening}: on rows left out, its limit explains {max(0.0, 1 - error):.0%} of the variance."
    share = error / guess if guess > 0 else 1.0
    if share < 0.35:
        tone, opening = "good", "A wide network can learn these labels"
    elif share < 0.85:
        tone, opening = "warning", "A wide network can learn these labels in part"
    else:
        tone, opening = "bad", "A wide network learns little of these labels that carries over to new rows"
    ahead = "" if share < 0.98 else "; that is no better than guessing"
    return tone, (
        f"{opening}: on rows left out, its limit is wrong {_percent(error)} of the time, "
        f"and always guessing the commonest class {_percent(guess)}{ahead}."
    )


def _simplicity(learn: Learnability) -> str:
    ratio = learn.simpler_than_random
    which = "" if learn.complexity.certified else " (ridged, since repeated rows leave the raw complexity unbounded)"
    if ratio >= 1.15:
        return f"The labels are {ratio:.3g} times less complex than random labels on the same rows{which}."
    return f"The labels are about as complex as random labels on the same rows ({ratio:.2g} times){which}."


def _speed(fast: Speed, n: int) -> str:
    found = [t for t in fast.targets if t.labels == "true" and t.value is not None]
    rates = f"At rate {fast.rate:.3g} ({fast.rate * n:.3g} for a mean loss), half the largest stable one,"
    if not found:
        return f"{rates} the training loss does not fall to half within 10¹² steps."
    last = found[-1]
    return f"{rates} the training loss falls to {last.target:.0%} of its start in {_steps(last.value)} steps."


def _stopping(s: Setting, fast: Speed) -> list[str]:
    if not len(fast.early_errors):
        return []
    best, end = float(fast.early_errors.min()), float(fast.early_errors[-1])
    step = fast.early_steps[int(fast.early_errors.argmin())]
    gain = end - best
    if gain <= (0.01 if s.classes else 0.02 * max(end, 1e-12)):
        return ["Training longer does not hurt: stopping early gains nothing measurable."]
    if s.classes:
        return [
            f"Stop early: after about {_steps(step)} steps the error on {fast.early_on} is {_percent(best)}, "
            f"after {_steps(fast.early_steps[-1])} it is {_percent(end)}."
        ]
    return [
        f"Stop early: after about {_steps(step)} steps the unexplained variance on {fast.early_on} is {best:.2g}, "
        f"after {_steps(fast.early_steps[-1])} it is {end:.2g}."
    ]


def _doubts(problems: Problems, new: NewData) -> list[str]:
    counts, found = problems.counts, []
    if counts["contradictions"]:
        found.append(f"{_count(counts['contradictions'], 'group')} of equal rows with different labels")
    elif counts["duplicate_groups"]:
        found.append(f"{_count(counts['duplicate_groups'], 'group')} of repeated rows")
    if counts["test_in_train"]:
        found.append(f"{_count(counts['test_in_train'], 'test row')} that are training rows too")
    if counts["constant_features"]:
        found.append(_count(counts["constant_features"], "constant feature"))
    if new.noise_rate is not None and new.noise_rate > 0.02:
        found.append(f"about {new.noise_rate:.0%} of labels that the other rows contradict")
    if problems.smallest_class is not None and problems.smallest_class[1] < 5:
        name, size = problems.smallest_class
        found.append(f"a class ({name}) of {_count(size, 'row')}")
    if not found:
        return ["Nothing looks wrong with the data."]
    return ["Look at the data: " + "; ".join(found) + "."]


def _belief(believed: Trust) -> str:
    width = believed.width_for_lazy
    if width is None:
        return "How wide a network must be for this to hold is not certified: rows repeat or nearly do."
    return (
        f"This describes very wide networks: at initial weights of standard deviation 1, width {_steps(width)} or more "
        "stays close to it to the end of training."
    )


def _percent(share: float) -> str:
    return f"{share:.2%}" if share < 0.0995 else f"{share:.1%}"


def _steps(count: float | None) -> str:
    if count is None:
        return "more than 10¹²"
    return f"{count:,.0f}" if count < 1e7 else f"{count:.2g}"


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
