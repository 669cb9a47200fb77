"""A run and its prediction in plain words: did it go as predicted, could that be trusted, and why."""

from __future__ import annotations

import numpy as np

from overparam.analysis.run_answers import Predicted, RunNumbers, RunSetting
from overparam.core.sections import Tone, Verdict
from overparam.core.words import count_of, number, percent, rounded_up
from overparam.theory.lazy_regime import BORDERLINE, LAZY

CLOSE, ROUGH = 0.1, 0.3
"""Largest relative errors of the loss up to which a run went as predicted, and roughly so."""
NEAR = 0.02
"""A run that was never farther from its prediction than this share of the first loss went roughly so too."""


def give_run_verdict(
    setting: RunSetting, predicted: Predicted | None, numbers: RunNumbers, reason: str, stopped: str, law: str = ""
) -> Verdict:
    """Agreement first, then whether it was to be expected, what the error is made of, the rate, and new rows.

    law: the class of the loss, where the page has its law of convergence.
    """
    if predicted is None:
        tone: Tone = "bad" if numbers.diverged else "warning"
        sentences = [f"There is no prediction for this run: {reason}.", _course(numbers, stopped), *_moved(numbers)]
        if law:
            sentences.insert(2, f"The law of convergence of {law} losses is shown below, beside the run.")
    elif predicted.status == "unstable":
        tone, sentences = "bad", [*_unstable(setting, numbers, stopped)]
    elif numbers.diverged:
        tone = "bad"
        sentences = [
            f"The run diverged where a stable one was predicted: {_how(stopped)}.",
            _trust(setting, numbers),
        ]
    else:
        tone, first = _agreement(setting, numbers)
        sentences = [first, *_source(predicted, reason)]
        if numbers.last_step:
            sentences += [_trust(setting, numbers), *_why(setting, predicted, numbers), *_advice(setting, numbers)]
    sentences += [*_rate(setting, predicted), *_new_rows(setting, numbers)]
    return Verdict(tone, tuple(sentences))


def _agreement(setting: RunSetting, numbers: RunNumbers) -> tuple[Tone, str]:
    error = numbers.largest_error
    if error is None or numbers.last_loss is None or not numbers.last_step:
        return "warning", f"The run took {count_of(numbers.last_step, 'step')}: there is nothing to compare."
    where = f"at step {numbers.largest_error_step:,}" if numbers.largest_error_step is not None else ""
    within = f"the training loss stayed within {percent(abs(error))} of the prediction at every recorded step"
    off = f"the training loss was {_off(error)} the prediction {where}"
    fell = f", while it {_fell(numbers)}"
    if abs(error) <= CLOSE:
        tone: Tone = "warning" if numbers.regime == "not lazy" else "good"
        return tone, f"The run went as predicted: {within}{fell}."
    if abs(error) <= ROUGH:
        return "warning", f"The run went roughly as predicted: {within}{fell}."
    expected = ""
    if numbers.predicted_last_loss is not None:
        expected = f", {percent(numbers.predicted_last_loss / numbers.first_loss)} predicted"
    end = f"it {_fell(numbers)}{expected}"
    if numbers.largest_distance is not None and numbers.largest_distance <= NEAR:
        near = f"the training loss was never farther from the prediction than {percent(numbers.largest_distance)} of its start"
        return (
            "warning",
            f"The run went roughly as predicted: {near}, but it was {_off(error)} the prediction {where}; {end}.",
        )
    return "bad", f"The run did not go as predicted: {off}, where the error was largest; {end}."


def _off(error: float) -> str:
    """How far from the prediction; a factor where a percentage would be hard to read."""
    if error > 1:
        return f"{number(1 + error, 2)} times"
    return f"{percent(abs(error))} {'above' if error > 0 else 'below'}"


def _size(error: float) -> str:
    return f"a factor of {number(1 + error, 2)}" if error > 1 else f"{percent(abs(error))} of error"


def _fell(numbers: RunNumbers) -> str:
    if numbers.last_loss is None or numbers.first_loss <= 0:
        return "had nothing to fall from"
    share = numbers.last_loss / numbers.first_loss
    verb = "fell" if share < 1 else "rose"
    return f"{verb} to {percent(share)} of its start"


def _course(numbers: RunNumbers, stopped: str) -> str:
    if numbers.diverged:
        return f"The run diverged: {_how(stopped)}."
    return f"In {count_of(numbers.last_step, 'step')} the training loss {_fell(numbers)}."


def _how(stopped: str) -> str:
    return stopped if "finite" in stopped else "its loss grew more than 1,000-fold"


def _unstable(setting: RunSetting, numbers: RunNumbers, stopped: str) -> list[str]:
    limit = setting.limit
    above = "" if limit is None else f": it is {number(setting.lr / limit.value, 2)} times the largest stable one"
    first = (
        f"The rate {_rate_words(setting)} is unstable{above}, so the linear dynamics grow without bound and there is no curve "
        "to compare with."
    )
    if numbers.diverged:
        second = f"The run diverged too: {_how(stopped)}."
    else:
        second = (
            f"The network itself did not diverge (its loss {_fell(numbers)}): it left the linear dynamics instead, "
            "which no prediction here covers."
        )
    return [first, second, *_moved(numbers)]


def _trust(setting: RunSetting, numbers: RunNumbers) -> str:
    """Whether the prediction could be trusted, from what was known before; then what came."""
    if setting.linear:
        return (
            "The prediction could be trusted: only the output layer is trained, so the network is linear in its trained "
            "weights however far they move."
        )
    before, after = numbers.predicted_laziness, numbers.laziness
    if before is None:
        return "How lazy this network would be was not known before, so neither was how far to trust the prediction."
    if before <= LAZY:
        opening = "The prediction could be trusted: the run was expected to be lazy"
    elif before <= BORDERLINE:
        opening = "The prediction was a guide, not a promise: the run was expected to be between lazy and not"
    else:
        opening = "The prediction was not to be trusted, and said so: this run is outside the regime of the theory"
    flips = "" if numbers.flips is None else f", with {percent(numbers.flips)} of ReLU signs flipped"
    if flips and numbers.predicted_flips is not None:
        flips += f" ({percent(numbers.predicted_flips)} predicted)"
    came = "" if after is None else f"; it came to {number(after, 3)}{flips}"
    return (
        f"{opening}, neurons moving {number(before, 3)} times the size of their pre-activations "
        f"(lazy up to {LAZY:g}, not lazy above {BORDERLINE:g}){came}."
    )


def _moved(numbers: RunNumbers) -> list[str]:
    if numbers.laziness is None:
        return []
    flips = "" if numbers.flips is None else f", and {percent(numbers.flips)} of ReLU signs flipped"
    return [f"Neurons moved {number(numbers.laziness, 3)} times the size of their pre-activations{flips}."]


def _source(predicted: Predicted, reason: str) -> list[str]:
    if predicted.kernel != "start":
        return []
    return [f"The prediction is that of the drawn network linearised at its start: {reason}."]


def _why(setting: RunSetting, predicted: Predicted, numbers: RunNumbers) -> list[str]:
    """What the error is made of: the draw of finitely many neurons, and their movement."""
    draw, moved = numbers.error_of_draw, numbers.error_of_movement
    width = "" if setting.width is None else f" of width {setting.width:,}"
    if draw is not None and moved is not None:
        return [
            f"Drawing a network{width} instead of an infinite one accounts for up to {_size(draw)}, which falls like "
            f"1/√width; the movement of its weights accounts for up to {_size(moved)}."
        ]
    if setting.width is None or predicted.kernel == "start":
        return []
    share = percent(1 / np.sqrt(setting.width))
    return [f"A network{width} is off by about 1/√width = {share}, and more far down the curve, however lazy it is."]


def _advice(setting: RunSetting, numbers: RunNumbers) -> list[str]:
    if numbers.regime in (None, "lazy") or numbers.lazy_width is None or numbers.lazy_kappa is None:
        return []
    start = "" if setting.paired else " and paired neurons"
    return [
        f"The same steps would be lazy from width {rounded_up(numbers.lazy_width)} on at κ = {setting.kappa:g}, "
        f"or from κ = {number(numbers.lazy_kappa, 2)} on at this width{start}."
    ]


def _rate(setting: RunSetting, predicted: Predicted | None) -> list[str]:
    if predicted is not None and predicted.status == "unstable":
        limit = setting.limit
        return [] if limit is None else [f"Take a rate of at most {number(limit.lower or limit.value, 3)}."]
    if setting.rate_by:
        return [f"The rate, {_rate_words(setting)}, was chosen here: {setting.rate_by}."]
    if setting.limit is None:
        return []
    doubt = " (it lies within the bracket of that limit)" if predicted and predicted.status == "undecided" else ""
    share = setting.lr / setting.limit.value
    return [f"The rate, {_rate_words(setting)}, is {share:.2g} times the largest stable one{doubt}."]


def _new_rows(setting: RunSetting, numbers: RunNumbers) -> list[str]:
    found, expected = numbers.test_error, numbers.predicted_test_error
    if found is None:
        return []
    if setting.task == "regression":
        came = "" if expected is None else f" ({percent(expected)} predicted)"
        return [
            f"On {count_of(setting.test_rows, 'new row')} {percent(found)} of the variance is left unexplained{came}."
        ]
    came = "" if expected is None else f", {percent(expected)} predicted"
    return [f"On {count_of(setting.test_rows, 'new row')} the network is wrong {percent(found)} of the time{came}."]


def _rate_words(setting: RunSetting) -> str:
    return f"{number(setting.lr, 3)} for the {'summed' if setting.loss == 'sum' else 'mean'} loss"
