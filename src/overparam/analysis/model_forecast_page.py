"""A forecast in words and as a page: which rates, how fast, until when to believe it, and how it was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overparam.core.sections import Block, Figure, Line, Section, Series, Table, Text, Tone, Verdict, series
from overparam.core.words import count_of, number

if TYPE_CHECKING:
    from overparam.analysis.model_forecast import Forecast

FEW = 10
"""A law that holds for fewer steps than this says little of training."""
UNLIKE = 100.0
"""So many times as wide, columns want scaling before anything else."""
HALF = ("float16", "bfloat16")
"""Precisions in which a step of plain descent is often too small to be kept."""
SHOWN = 1e-6
"""Losses below this share of the first one are not drawn."""


def give_forecast_words(f: Forecast) -> Verdict:
    """The verdict: what rate to take, then how fast, then how far that is to be believed."""
    doubts = [*_squashed(f), *_unlike(f)]
    if f.objective == "cross_entropy" or f.batch_norm:
        tone = _tone_without_law(f)
        tone = "warning" if doubts and tone == "good" else tone
        return Verdict(tone, (*_without_law(f), *doubts, *_kept_off(f)))
    tone: Tone = "good"
    told = f.diverges
    assert told is not None
    assert f.followed is not None
    early = told.upper is not None and told.upper < f.limit.value
    if early or doubts or f.followed.until < FEW or f.rate > told.lower:
        tone = "warning"
    if told.upper is not None and f.rate >= told.upper:
        tone = "bad"
    speed = () if f.rate > f.limit.value else (_speed(f), _believed(f))
    return Verdict(tone, (*_too_high(f), _stable(f), _diverging(f), *speed, *doubts, *_kept_off(f)))


def _too_high(f: Forecast) -> list[str]:
    """Said first where the rate that was asked for leaves the start: what it will do, and what to take instead."""
    told = f.diverges
    assert told is not None
    if told.upper is not None and f.rate >= told.upper:
        what = "is too high: training diverges"
    elif told.upper is not None and f.rate > told.lower:
        what = "may be too high: training may diverge"
    elif f.rate > f.limit.value:
        what = "is above the stable one: the loss shoots up at once and then settles elsewhere"
    else:
        return []
    curve = ", and no curve can be foretold" if f.rate > f.limit.value else ""
    return [f"The rate {_rate(f.rate)} {what}{curve}. Take {_rate(f.safe_rate)} or less."]


def _stable(f: Forecast) -> str:
    """The rate to begin with, and what the curvature allows."""
    with_momentum = f" with momentum {f.momentum:g}" if f.momentum else ""
    begin = f"Begin with a rate of {_rate(f.rate)}{with_momentum}: r" if f.rate_by else "R"
    if f.diverges is not None and f.diverges.exact:
        return f"{begin}ates up to {_rate(f.limit.value)} are stable ({_formula(f)}; full batches, the mean squared error over rows and outputs)."
    return (
        f"{begin}ates up to {_rate(f.limit.value)} are stable while the model stays near its start ({_formula(f)} of its own tangent "
        "kernel; full batches, the mean squared error over rows and outputs)."
    )


def _diverging(f: Forecast) -> str:
    told = f.diverges
    assert told is not None
    how = (
        f"measured: {count_of(len(f.runs.rates), 'run')} of {count_of(f.runs.losses.shape[1] - 1, 'step')}, {f.runs.by}"
        if f.runs is not None
        else "usual multiples, not measured on this model: `probe=True` measures it"
    )
    if told.exact:
        between = "" if _rate(told.lower) == _rate(told.upper or 0.0) else f", which lies from {_rate(told.lower)} on"
        why = "this model is linear in its weights, so that nothing else decides"
        return f"Training diverges above {_rate(f.limit.value)}{between}: {why}."
    if told.upper is None:
        return f"No rate up to {_rate(told.lower)} diverged ({how})."
    dead = _dead(f)
    between = f"between {_rate(told.lower)} and {_rate(told.upper)}"
    if told.lower >= f.limit.value:
        return (
            f"Training diverges above some rate {between} ({how}). From {_rate(f.limit.value)} up to that rate the loss first "
            f"shoots up and then settles.{dead}"
        )
    if told.upper > f.limit.value:
        return f"Training diverges above some rate {between} ({how}).{dead}"
    return f"Yet training diverges above some rate {between} already ({how}): the curvature grows while this model trains.{dead}"


def _dead(f: Forecast) -> str:
    """Said where runs did not diverge and yet ended no better than a constant."""
    if f.runs is None or not f.runs.learns.any():
        return ""
    largest = int(np.flatnonzero(f.runs.learns)[-1])
    if largest + 1 >= len(f.runs.rates) or f.runs.diverged[largest + 1]:
        return ""
    return f" Above {_rate(float(f.runs.rates[largest]))} it settles no better than a constant."


def _speed(f: Forecast) -> str:
    by = f" ({f.rate_by})" if f.rate_by else ""
    there = [
        f"to {r.share:.0%}{' of it' * (i == 0)} after {count_of(r.steps, 'step')}"
        for i, r in enumerate(f.reached)
        if r.steps is not None
    ]
    falls = ", ".join(there) or f"to {number(float(f.curve[-1]), 3)} after {count_of(int(f.curve_steps[-1]), 'step')}"
    return f"At the rate {_rate(f.rate)}{by} the foretold loss falls from {number(f.first_loss, 3)} {falls}."


def _believed(f: Forecast) -> str:
    followed = f.followed
    assert followed is not None
    if followed.open:
        return (
            f"Believe that curve for all {count_of(followed.until, 'step')} looked at: the model's own loss stays within "
            f"{followed.tolerance:.0%} of it."
        )
    if followed.until == 0:
        return (
            f"Do not believe that curve: the model leaves it at the first step, by more than {followed.tolerance:.0%} of the loss. Ask "
            f"for a lower rate, such as {_rate(f.rate / 10)}, or for a wider model; what short runs measured holds all the same."
        )
    later = [r for r in f.reached if r.steps is not None and r.steps > followed.until]
    alone = "; what is said of later steps is of the linear law alone" if later else ""
    return (
        f"Believe that curve until step {followed.until:,}: then the model's own loss is more than {followed.tolerance:.0%} away, since "
        f"at {count_of(f.weights, 'weight')} its kernel changes{alone}."
    )


def _squashed(f: Forecast) -> list[str]:
    """Said where the outputs went through a softmax or a sigmoid, which the loss does not expect."""
    if not f.squashed:
        return []
    seen = "are probabilities that sum to 1" if f.squashed == "softmax" else "all lie between 0 and 1"
    take = f"take the {f.squashed} off its end" if f.squashed == "softmax" else "if a sigmoid ends it, take that off"
    if f.objective == "squared":
        return [
            f"The model's outputs {seen}, and the targets do not ({f.targets}), so that the loss cannot come near 0: {take}."
        ]
    loss = "CrossEntropyLoss" if f.outputs > 1 else "BCEWithLogitsLoss"
    return [
        f"The model's outputs {seen}, and the cross-entropy (torch.nn.{loss}) applies a {f.squashed} of its own, so that "
        f"gradients are small and the loss stays high: {take}."
    ]


def _unlike(f: Forecast) -> list[str]:
    """Said where rates are small because one column is so much wider than the others."""
    if f.scales is None or f.scales <= UNLIKE:
        return []
    return [
        f"The widest column varies {number(f.scales, 2)} times as much as the narrowest, and rows were taken as they are: the model sees little "
        "but that one, and rates are as small as it asks for. Scale the columns (preprocess standardise) and ask again."
    ]


def _tone_without_law(f: Forecast) -> Tone:
    if f.runs is None:
        return "warning"
    return "good" if f.runs.falls.any() else "bad"


def _without_law(f: Forecast) -> list[str]:
    """Cross-entropy and batch norm: what the curvature is, what it does not say, and what was measured."""
    why = (
        "for the cross-entropy true thresholds were 0.8 to 63 times that, so it says little about divergence"
        if f.objective == "cross_entropy"
        else "batch norm averages over the batch in training and has its running averages here, so it says little"
    )
    curvature = f"The curvature at the start gives a rate of {_rate(f.limit.value)} ({_formula(f)}, {f.loss}); {why}"
    if f.runs is None:
        return [f"{curvature}: ask with `probe=True`, which measures the rates that train this model."]
    runs = f.runs
    head = f"Measured, {count_of(len(runs.rates), 'run')} of {count_of(runs.losses.shape[1] - 1, 'step')}, {runs.by}"
    if not runs.falls.any():
        return [
            f"{head}: at every rate from {_rate(float(runs.rates[0]))} to {_rate(float(runs.rates[-1]))} the loss rose.",
            f"{curvature}.",
        ]
    best, largest = runs.best, float(runs.rates[runs.falls][-1])
    least = float(runs.losses[np.argmin(runs.losses[:, -1]), -1])
    told = f"{head}: the loss fell at rates up to {_rate(largest)}"
    lost = runs.rates[runs.diverged]
    told += f" and went to infinity at {_rate(float(lost[0]))}" if len(lost) else ""
    high = (
        [f"The rate {_rate(f.rate)} is above all at which the loss fell: take {_rate(best or 0.0)}."]
        if f.rate > largest
        else []
    )
    return [
        *high,
        f"{told}; lowest at the end at a rate of {_rate(best or 0.0)}, from {number(f.first_loss, 3)} to {number(least, 3)}.",
        f"{curvature}.",
    ]


def _kept_off(f: Forecast) -> list[str]:
    """What was switched off and what was left out, where there is something."""
    said = []
    if f.dropout:
        said.append("Dropout was off throughout: with it the loss is higher and noisier than all of this.")
    if f.training and (f.dropout or f.batch_norm):
        said.append(
            "The model came in training mode and was looked at in evaluation mode; its own mode was left as it is."
        )
    if f.precision in HALF:
        said.append(
            f"Its weights are {f.precision}: short runs are in that, all else in float64. Small steps are lost in its rounding; "
            "train in float32, or under autocast."
        )
    if f.rows < f.source_rows:
        said.append(
            f"From {f.rows:,} of {count_of(f.source_rows, 'row')}: full batches of all of them behave much alike."
        )
    return said


def _formula(f: Forecast) -> str:
    return "2(1 + μ)/λ_max" if f.momentum else "2/λ_max"


def _rate(value: float) -> str:
    return number(float(value), 3)


def make_forecast_sections(f: Forecast) -> tuple[Section, ...]:
    """All sections, verdict first; what was not computed is left out."""
    sections = [f.verdict.section, Section("Which rates?", _rates(f))]
    if f.followed is not None and f.rate <= f.limit.value:
        sections.append(Section("How fast, and until when to believe it?", _curve(f)))
    if f.runs is not None:
        sections.append(Section("The short runs", _short_runs(f)))
    sections.append(Section("What was done", _done(f)))
    return tuple(sections)


def _rates(f: Forecast) -> tuple[Block, ...]:
    certain = "rounding included" if f.limit.certified else f.limit.reason
    rows: list[tuple[str | float | int | None, ...]] = [
        (
            f"largest stable near the start, {_formula(f)}",
            _rate(f.limit.value),
            f"λ_max = {number(f.lambda_max, 4)}; {certain}",
        )
    ]
    if f.diverges is not None and f.diverges.exact:
        sides = (_rate(f.diverges.lower), _rate(f.diverges.upper or 0.0))
        value = sides[0] if sides[0] == sides[1] else f"{sides[0]} to {sides[1]}"
        rows.append(("training diverges above", value, "the stable rate itself: the model is linear in its weights"))
    elif f.diverges is not None:
        upper = "…" if f.diverges.upper is None else _rate(f.diverges.upper)
        how = "from short runs of this model" if f.diverges.measured else "usual multiples, not measured here"
        rows.append(("training begins to diverge within", f"{_rate(f.diverges.lower)} to {upper}", how))
    rows.append(("of the curve", _rate(f.rate), f.rate_by or "as asked"))
    return (
        Table(
            ("Rate", "value", "how it is known"),
            tuple(rows),
            f"Every rate is for the {f.loss}; another scaling of the loss divides or multiplies them. Full batches"
            + (f", momentum {f.momentum:g}." if f.momentum else "."),
        ),
    )


def _curve(f: Forecast) -> tuple[Block, ...]:
    followed = f.followed
    assert followed is not None
    drawn = (f.curve_steps > 0) & (f.curve > SHOWN * f.first_loss) & (f.curve < 1e3 * max(f.first_loss, 1e-300))
    # jumps follow the law, and say nothing of the model where it has left that
    own = (followed.steps > 0) & (followed.steps <= max(followed.until, followed.exact))
    curves: list[Series] = [
        series("the law of its kernel at the start", f.curve_steps[drawn], f.curve[drawn], role="true"),
        series("the model itself", followed.steps[own], followed.losses[own], mark="points", role="observed"),
    ]
    lines = (
        ()
        if followed.open
        else (
            Line(
                f"believe until {followed.until:,}" if followed.until else "left at once",
                x=float(max(followed.until, 1)),
            ),
        )
    )
    figure = Figure(
        "Training loss, foretold",
        f"The loss after each step at the rate {_rate(f.rate)}. Points are the model's own steps: the first {followed.exact} one "
        "by one, then jumps that follow the law from the weights reached, as far as the model does.",
        "step", "loss", tuple(curves), x_scale="log", y_scale="log", lines=lines,
    )  # fmt: skip
    table = Table(
        ("Loss falls to", "that is", "after steps", "to be believed"),
        tuple(
            (f"{r.share:.0%}", r.loss, r.steps, "–" if r.believed is None else "yes" if r.believed else "no")
            for r in f.reached
        ),
        "By the law; a dash: not within ten million steps.",
    )
    return figure, table


def _short_runs(f: Forecast) -> tuple[Block, ...]:
    runs = f.runs
    assert runs is not None
    steps = np.arange(runs.losses.shape[1])
    most = len(runs.rates)
    shown = np.unique(np.linspace(0, most - 1, min(most, 8)).round().astype(int))
    figure = Figure(
        "Measured: loss of short runs",
        f"A full-batch run of {count_of(steps[-1], 'step')} at each rate, by {runs.by}; a line that ends has diverged.",
        "step", "loss",
        tuple(series(f"rate {_rate(float(runs.rates[i]))}", steps, runs.losses[i], role="muted" if runs.diverged[i] else "accent") for i in shown),
        y_scale="log",
    )  # fmt: skip
    words = [
        "diverged" if lost else "above its start" if not fell else "settled" if learnt else "no better than a constant"
        for lost, fell, learnt in zip(runs.diverged, runs.falls, runs.learns, strict=True)
    ]
    averages = (
        ", batch norm averaging over the batch"
        if f.framework == "PyTorch"
        else ", batch norm with its running averages"
    )
    averages = averages if f.batch_norm else ""
    highest = np.where(np.isfinite(runs.losses), runs.losses, np.nan)
    table = Table(
        ("Rate", "over the stable rate", "highest loss", "loss at the end", "ended"),
        tuple(
            (_rate(rate), round(float(rate / f.limit.value), 3), float(np.nanmax(top)), None if lost else float(own[-1]), word)
            for rate, top, own, lost, word in zip(runs.rates, highest, runs.losses, runs.diverged, words, strict=True)
        ),
        f"Measured on this model, dropout off{averages}.",
    )  # fmt: skip
    return figure, table


def _done(f: Forecast) -> tuple[Block, ...]:
    matrix = (
        f"its matrix of {count_of(f.rows * f.outputs, 'row')} and outputs, decomposed"
        if not f.products
        else f"{count_of(f.products, 'product')} with Jacobians, since the matrix would have {count_of(f.rows * f.outputs, 'row')}"
    )
    mode = "in evaluation mode: dropout off, batch norm with its running averages"
    text = (
        f"{f.model} ({f.framework}, {count_of(f.weights, 'trained weight')}) on {count_of(f.rows, 'row')} of {f.data}, "
        f"{count_of(f.features, 'feature')}; targets {f.targets}. The tangent kernel by {matrix}; the model {mode}. Nothing of "
        "the model was changed."
    )
    return (Text(text), *(Text(note) for note in f.notes))
