"""What the theory of wide networks adds to an analysis: its sentences, and its sections, which are folded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overparam.analysis.data_answers import Learnability, NewData, Problems, Speed, Trust
from overparam.core.bracketed import Bracketed
from overparam.core.sections import Block, Figure, Line, Section, Table, Text, series
from overparam.core.words import between, count_of, number, percent, rounded_up

if TYPE_CHECKING:
    from overparam.analysis.data_analysis import Analysis

CLEAR = 2.0
"""Standard errors from which a difference is not put down to chance."""
PATIENCE = 1e6
"""Steps of full gradient descent beyond which the end of training is not what anyone will see."""
FADED = 1e-9
"""Share of the initial loss below which a curve is not drawn: the bracket is wider than the value there."""


def theory_says(
    classes: bool, n: int, learn: Learnability, fast: Speed, new: NewData, problems: Problems, believed: Trust
) -> tuple[str, ...]:
    """What the theory of wide two-layer networks adds, for those who want it."""
    sentences = [*_backwards(classes, learn), _simplicity(classes, learn)]
    out_of_reach = _out_of_reach(classes, learn, fast)
    sentences += [_speed(fast, n, problems), *out_of_reach]
    if not out_of_reach:
        sentences += _stopping(classes, learn, fast)
    return (*sentences, _belief(believed))


def _standard_errors(right: np.ndarray, other: np.ndarray) -> float:
    """(b − c)/√(b + c): b rows got right by the first alone, c by the other alone."""
    gained, lost = int(np.sum(right & ~other)), int(np.sum(other & ~right))
    return (gained - lost) / float(np.sqrt(max(1, gained + lost)))


def _backwards(classes: bool, learn: Learnability) -> list[str]:
    """Far more rows wrong than for shuffled labels: a rule under which similar rows have different labels."""
    if not classes:
        return []
    error, chance = learn.left_out_error_end, learn.shuffled_errors_end
    if error < chance.max() + 0.05 or error < chance.mean() + 5 * chance.std(ddof=1):
        return []
    return [
        f"The labels are not random, though: trained to the end it is wrong {percent(error)} of the time, where shuffled "
        f"labels give {percent(float(chance.mean()))}. Similar rows have different labels more often than chance would "
        "have it, as when a label depends on a count or a parity; another kind of model may learn them."
    ]


def _simplicity(classes: bool, learn: Learnability) -> str:
    ratio, what = learn.simpler_than_shuffled, "labels" if classes else "targets"
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
    return f"{rates} the training loss falls to {last.relative_target:.0%} of its start in {_steps(last.value)}{why}."


def _out_of_reach(classes: bool, learn: Learnability, fast: Speed) -> list[str]:
    """Where the good error comes after more steps than anyone takes, what there is before."""
    last = [t for t in fast.targets if t.labels == "true"][-1]
    if not len(fast.early_steps) or last.value is None or last.value <= PATIENCE:
        return []
    found = float(fast.early_errors.min())
    chance = CLEAR * float(np.sqrt(found * (1 - found) / fast.early_rows)) if classes else 0.1
    if found - learn.left_out_error < max(0.05, chance):
        return []
    words = f"wrong {percent(found)} of the time" if classes else f"at {found:.0%} of the variance unexplained"
    return [
        f"So many steps are out of reach: within the first {_steps(fast.early_steps[-1])} it is {words} at best, "
        f"on {fast.early_on}."
    ]


def _stopping(classes: bool, learn: Learnability, fast: Speed) -> list[str]:
    """Whether leave-one-out, which uses every row, prefers a ridge; when to stop, from the rows held out."""
    best, end = learn.left_out_error, learn.left_out_error_end
    if classes:
        gains = end - best >= 0.01 and _standard_errors(learn.margins > 0, learn.margins_end > 0) >= CLEAR
        compared = f"the limit is wrong {percent(end)} of the time when trained to the end, {percent(best)} with the best ridge"
    else:
        gains = end - best > 0.02 * max(end, 1e-12)
        compared = f"the limit leaves {end:.0%} of the variance unexplained when trained to the end, {best:.0%} with the best ridge"
    if not gains:
        return ["Training to the end costs nothing measurable on rows left out: there is no need to stop early."]
    when = ""
    if len(fast.early_steps):
        step = fast.early_steps[int(fast.early_mean_squares.argmin())]
        when = f"; the mean square on {fast.early_on} is least after about {count_of(int(step), 'step')}"
    return [f"Stop early or use weight decay: on rows left out {compared}{when}."]


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
        return "more than 10¹² steps"
    return f"{number(round(count), None if count < 1e7 else 2)} {'step' if round(count) == 1 else 'steps'}"


def theory_sections(a: Analysis) -> tuple[Section, ...]:
    """Those of the page."""
    sections = [
        Section(f"Can a wide network learn these {_what(a)}?", _learn(a), folded=True),
        Section("How fast?", _fast(a), folded=True),
        Section("What the theory promises on new data", _new(a), folded=True),
        Section("When may this be believed?", _trust(a), folded=True),
    ]
    if a.noise is not None:
        sections.append(Section("What would noise in the labels do?", _noise(a), folded=True))
    return tuple(sections)


def _learn(a: Analysis) -> tuple[Block, ...]:
    got = a.learnability
    raw = got.complexity.certified  # else a trifle of a ridge decides the numbers of other labels
    guess = "guessing the commonest class" if a.task != "regression" else "guessing the mean"
    shuffled = f"the same for shuffled {_what(a)}, mean of {count_of(len(got.shuffled_errors_end), 'draw')}"
    errors = Table(
        ("On rows left out", measure_words(a)),
        (
            (f"the network's limit with the best ridge, {got.ridge:.2g}", error_words(a, got.left_out_error)),
            ("the network's limit, trained to the end", error_words(a, got.left_out_error_end)),
            (shuffled, error_words(a, float(got.shuffled_errors_end.mean()))),
            *_unrepeated(a),
            (guess, error_words(a, got.baseline_error)),
        ),
        "Each row is predicted by a fit to all the others, in closed form. The limit is the network of infinite width; a "
        "ridge holds its fit back, much as stopping early or weight decay does.",
    )
    rows = [
        ("true", got.complexity.value, _between(got.complexity), got.ridged_complexity.value),
        _drawn("true, shuffled", got.shuffled_complexities, got.shuffled_ridged_complexities, raw),
    ]
    kept = "values of the targets."
    if a.task != "regression":
        rows.append(_drawn("random", got.random_complexities, got.random_ridged_complexities, raw))
        kept = "sizes of the classes; random ones make them equal."
    worst = got.worst_complexity
    sides = (None, "unbounded: H is singular") if worst is None else (worst.value, _between(worst))
    words = f"The smaller, the faster the labels are learned and the better they carry over. Shuffled labels keep the {kept}"
    if not raw:
        words += " Rows repeat or nearly do, so the number without a ridge says little; compare those with it."
    heads = (_what(a).capitalize(), "complexity √(2yᵀH⁻¹y/n)", "certified between", f"with ridge {got.ridged_by:.2g}")
    complexity = Table(heads, (*rows, ("worst case", *sides, None)), words)
    seen = a.spectrum
    index = np.arange(1, len(seen.eigenvalues) + 1)
    keep = _thinned(len(index))
    rounding = a.rows_of_theory * np.finfo(float).eps * float(seen.eigenvalues.max())
    zeros = int(np.sum(seen.eigenvalues <= rounding))
    words = "All" if seen.whole else f"The largest {len(index)}"
    words += " eigenvalues of H. Directions with large ones are learned first; the fall of this curve sets the pace."
    if zeros:
        words += f" The last {zeros:,} are 0 to rounding and not drawn: rows repeat or are opposite."
    curve = series("λ", index[keep], _positive(seen.eigenvalues[keep], rounding), role="accent")
    eigenvalues = Figure("Eigenvalues of the Gram matrix", words, "index", "eigenvalue", (curve,), "log", "log")
    shares = [
        series("true labels", index[keep], _positive(seen.true[keep]), mark="points", role="true"),
        series("random labels", index[keep], _positive(seen.random[keep]), mark="points", role="random"),
    ]
    if seen.whole:
        shares.append(series("worst-case labels", [len(index)], [1.0], mark="points", role="worst"))
    projections = Figure(
        "Where the labels lie in the spectrum",
        "The share of each labelling on each eigenvector. True labels that sit on the first eigenvectors are easy; random "
        "ones spread evenly; the worst case sits on the last one alone.",
        "index of the eigenvector", "share of the labels", tuple(shares), "log", "log",
    )  # fmt: skip
    blocks: list[Block] = [errors, complexity, eigenvalues, projections]
    if len(got.margins):
        counts, edges = np.histogram(got.margins, bins=40)
        bars = series("rows", 0.5 * (edges[:-1] + edges[1:]), counts, mark="bars", role="true")
        words = (
            "How far the right class is ahead when a row is predicted from the others, with the best ridge. Left of 0 "
            "the row is got wrong."
        )
        line = Line("wrong | right", x=0.0)
        blocks.append(Figure("Margins of rows left out", words, "margin", "rows", (bars,), lines=(line,)))
    return tuple(blocks)


def _unrepeated(a: Analysis) -> tuple[tuple[Any, ...], ...]:
    """The error where no other row gives the answer away."""
    error, count = a.problems.left_out_error_unrepeated, a.problems.counts["unrepeated_rows"]
    return () if error is None else ((f"best ridge, the {count:,} rows that no other equals", error_words(a, error)),)


def _drawn(name: str, values: np.ndarray, ridged: np.ndarray, raw: bool) -> tuple[Any, ...]:
    spread = f"± {values.std(ddof=1):.2g} over {count_of(len(values), 'draw')}" if raw else "–"
    return name, float(values.mean()) if raw else None, spread, float(ridged.mean())


def _positive(values: np.ndarray, least: float = 1e-18) -> np.ndarray:
    return np.where(values > least, values, np.nan)


def _thinned(count: int, most: int = 900) -> np.ndarray:
    """All indices where few; evenly in the logarithm where many."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.round(np.geomspace(1, count, most)).astype(int)) - 1


def _fast(a: Analysis) -> tuple[Block, ...]:
    s = a.speed
    least = f"≥ {s.lambda_min.lower:.3g}" if s.lambda_min.lower else "is 0 to rounding"
    if s.lambda_min.upper and not s.lambda_min.lower:
        least = f"≤ {number(s.lambda_min.upper)}"
    rates = Table(
        ("Learning rate", "summed loss ½Σ(y−u)²", "mean loss, that over n", "certified (summed)"),
        (
            ("largest stable, 2/λ_max", *_rates(a, s.largest_rate.value), _between(s.largest_rate)),
            ("best single, 2/(λ_max + λ_min)", *_rates(a, s.best_rate.value), _between(s.best_rate)),
            ("used here", *_rates(a, s.rate), "half the certified limit"),
        ),
        f"λ_max = {s.lambda_max.value:.5g}, λ_min {least}. Above the largest stable rate the linear prediction diverges. Rates are for the network of the theory, "
        "f(x) = Σ a σ(w·x)/√m with only w trained; for a model of your own, such as one of PyTorch, `op.foresee(model, data)` gives those.",
    )
    words = {"true": "true", "random": "random", "worst": "worst case"}
    targets = Table(
        ("Training loss falls to", "labels", "steps", "at least", "at most"),
        tuple((f"{t.relative_target:.0%}", words[t.labels], t.value, t.lower, t.upper) for t in s.targets),
        "Steps of gradient descent at the rate used here, with certified sides; a dash: never, or not known.",
    )
    still = np.flatnonzero(np.nanmax([s.true[0], s.random[0], s.worst[2]], axis=0) > FADED)
    shown = (s.steps > 0) & (s.steps <= s.steps[min(still[-1] + 1, len(s.steps) - 1)])
    curves = Figure(
        "Predicted training loss",
        "The loss over its start after each step, before any training. Bands are certified brackets; where none is "
        "visible it is thinner than the line.",
        "step", "loss / loss at start",
        (
            _curve("true labels", s.steps[shown], s.true[:, shown], "true"),
            _curve("random labels", s.steps[shown], s.random[:, shown], "random"),
            _curve("worst-case labels", s.steps[shown], s.worst[:, shown], "worst"),
        ),
        "log", "log",
    )  # fmt: skip
    blocks: list[Block] = [rates, targets, curves]
    if len(s.early_steps):
        name = "share of rows wrong" if a.task != "regression" else "unexplained variance"
        best = int(s.early_errors.argmin())
        words = (
            f"The {name} on {s.early_on} after each number of steps. The least is {s.early_errors[best]:.3g}, at step "
            f"{s.early_steps[best]:,.0f}; at the last step shown it is {s.early_errors[-1]:.3g}."
        )
        curve, line = (
            series(name, s.early_steps, s.early_errors, role="true"),
            Line("least", x=float(s.early_steps[best])),
        )
        blocks.append(Figure("What early stopping would give", words, "step", name, (curve,), "log", lines=(line,)))
    return tuple(blocks)


def _rates(a: Analysis, rate: float) -> tuple[float, float]:
    """The same rate for the summed loss and for its mean over rows."""
    return rate, rate * a.rows_of_theory


def _curve(name: str, steps: np.ndarray, band: np.ndarray, role: Any) -> Any:
    value = np.where(band[0] > FADED, band[0], np.nan)
    lower, upper = np.maximum(band[1], FADED), np.where(band[2] > FADED, band[2], np.nan)
    return series(name, steps, value, lower=lower, upper=upper, role=role)


def _new(a: Analysis) -> tuple[Block, ...]:
    got = a.new_data
    rows: list[tuple[Any, ...]] = [
        ("rows left out one at a time, best ridge", error_words(a, got.left_out_error)),
        *_unrepeated(a),
    ]
    if got.test_rows:
        rows.append((f"{count_of(got.test_rows, 'test row')}, trained to the end", error_words(a, got.test_error)))
        rows.append((f"{count_of(got.test_rows, 'test row')}, same ridge", error_words(a, got.test_error_ridged)))
        rows.append(("test rows, mean |y − f| at the end", f"{got.test_mean_absolute:.4g}"))
    blocks: list[Block] = [Table(("The network's limit on", measure_words(a)), tuple(rows))]
    vacuous = got.bound is None or got.bound_vacuous
    rows = [(t.name, t.value, t.formula) for t in got.bound_terms]
    rows.append(("in all", got.bound, "says nothing" if vacuous else "holds with probability 95%"))
    missing = ", and without a positive lower bound on λ_min there is none" if got.bound is None else ""
    words = (
        "Theorem 5.1 with every constant shown. It bounds the expected loss on new data, for a loss between 0 and 1; "
        f"from 1 on it says nothing{missing}. Terms that vanish as the width grows and κ shrinks are left out."
    )
    blocks.append(Table(("Term of the bound", "value", "formula"), tuple(rows), words))
    if vacuous:
        blocks.append(Text("The bound is vacuous here. Leave-one-out above is the number to use.", "warning"))
    return tuple(blocks)


def _trust(a: Analysis) -> tuple[Block, ...]:
    t, s = a.trust, a.speed
    assumptions = Table(
        ("The theory assumes", "here", "detail"), tuple((x.statement, x.status, x.detail) for x in t.assumptions)
    )
    when = "at the end of training" if t.lazy_steps is None else f"after {count_of(t.lazy_steps, 'step')}"
    value, lower, upper = t.movement[:, 1:]
    curve = series("movement", s.steps[1:], value, lower=lower, upper=upper, role="true")
    words = (
        "‖W(s) − W(0)‖ of all weights together. Divided by √width times the initial scale κ it is the laziness number."
    )
    moved = Figure("Predicted movement of the weights", words, "step", "distance moved", (curve,), "log")
    lazy = Figure(
        f"Laziness {when}",
        "How far a neuron moves, over the size of its pre-activation; κ is the standard deviation of the initial "
        "weights. Below 0.1 the predicted curves are good to a few percent; above 1 the network has left the regime of "
        "the theory.",
        "width", "laziness",
        tuple(
            series(f"κ = {kappa:g}", t.widths, row, role=role)
            for kappa, row, role in zip(t.kappas, t.laziness, ("worst", "random", "true"), strict=True)
        ),
        "log", "log", (Line("lazy below", y=0.1), Line("not lazy above", y=1.0)),
    )  # fmt: skip
    table = Table(
        ("width", *(f"κ = {kappa:g}" for kappa in t.kappas)),
        tuple(
            (f"{int(m):,}", *(f"{number(lazy, 3)} ({flip:.1%} flip)" for lazy, flip in zip(*columns, strict=True)))
            for m, *columns in zip(t.widths, t.laziness.T, t.flips.T, strict=True)
        ),
        f"Laziness {when}, and the share of ReLU signs expected to flip, by width and initial scale κ (the standard "
        "deviation of the weights).",
    )
    words = []
    if t.width_for_lazy is not None:
        words.append(f"At κ = 1 the whole run is lazy from width {t.width_for_lazy:,.0f} on.")
    if t.theorem_width is not None:
        words.append(f"Theorem 3.1 itself asks for width {number(t.theorem_width, 2)} (its constant taken as 1).")
    return (assumptions, table, lazy, moved, *(Text(word) for word in words))


def _noise(a: Analysis) -> tuple[Block, ...]:
    assert a.noise is not None
    z = a.noise
    words = (
        "As labels are redrawn at random, the complexity of all of them together climbs towards that of random labels."
    )
    if z.complexity_ridge:
        words += f" With ridge {z.complexity_ridge:.2g}, since rows repeat or nearly do."
    curve, share = series("complexity", z.rates, z.complexity, role="accent"), "share of labels redrawn"
    complexity = Figure("Complexity against label noise", words, share, "complexity", (curve,))
    words = f"The network's limit, {z.rows}, whose labels are redrawn at the same rate."
    curves = (
        series("mean |y − f|", z.rates, z.mean_absolute, role="random"),
        series("share of rows wrong", z.rates, z.error, role="true"),
    )
    errors = Figure("Loss and error against label noise", words, share, "on new rows", curves)
    table = Table(
        ("share redrawn", "complexity", "mean |y − f|", "share of rows wrong"),
        tuple(zip(z.rates.tolist(), z.complexity.tolist(), z.mean_absolute.tolist(), z.error.tolist(), strict=True)),
        "Trained to the end" + (f", with ridge {number(z.ridge)} since rows repeat or nearly do." if z.ridge else "."),
    )
    return complexity, errors, table


def _what(a: Analysis) -> str:
    return "labels" if a.task != "regression" else "targets"


def _between(found: Bracketed) -> str:
    if found.lower is None or (found.upper is not None and not found.certified):
        return "not certified"
    return between(found.lower, found.upper, 6)


def error_words(a: Analysis, share: float | None) -> str | None:
    """An error without an interval, as the sentences say it."""
    if share is None:
        return None
    return percent(share) if a.task != "regression" else f"{share:.0%}"


def measure_words(a: Analysis) -> str:
    return "rows wrong" if a.task != "regression" else "variance unexplained"
