"""The page of an analysis as plain data: verdict, then what people ask first, then the theory, folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from overparam.analysis.data_controls import make_controls
from overparam.analysis.data_growth import growth_blocks
from overparam.analysis.data_kinds import kinds_blocks
from overparam.analysis.data_labels import worst_labels
from overparam.analysis.data_overview import in_percent, overview
from overparam.analysis.data_telling import cut, explained_words, sides
from overparam.analysis.data_thumbnails import show
from overparam.analysis.data_verdict import WAYS
from overparam.core.bracketed import Bracketed, Interval
from overparam.core.sections import Block, Figure, Line, Section, Table, Text, series
from overparam.core.words import between, count_of, measured, number, percent
from overparam.data import ColumnNote

if TYPE_CHECKING:
    from overparam.analysis.data_analysis import Analysis

MANY_CLASSES = 40
"""Classes whose recall the page lists."""
FAR = 3.0
"""Guessing is drawn where it is at most this many times the highest error."""
FADED = 1e-9
"""Share of the initial loss below which a curve is not drawn: the bracket is wider than the value there."""


def make_sections(a: Analysis) -> tuple[Section, ...]:
    """All sections, verdict first."""
    sections = [
        a.verdict.section,
        Section("How well will a model do here?", _expected(a)),
        Section("Is the data right?", _problems(a)),
        Section("Is more data worth it?", _growth(a)),
        Section("What happens when I train?", _training(a)),
        *_kinds(a),
        Section(f"Can a wide network learn these {_what(a)}?", _learn(a), folded=True),
        Section("How fast?", _fast(a), folded=True),
        Section("What the theory promises on new data", _new(a), folded=True),
        Section("When may this be believed?", _trust(a), folded=True),
    ]
    if a.noise is not None:
        sections.append(Section("What would noise in the labels do?", _noise(a), folded=True))
    sections.append(Section("What was done", _done(a), folded=True))
    return sections[0], overview(a, sections[1:]), *sections[1:]


def _growth(a: Analysis) -> tuple[Block, ...]:
    test = None if a.error.left_out is None else a.error.interval
    return _with_percent(growth_blocks(a.growth, a.task != "regression", test))


def _kinds(a: Analysis) -> tuple[Section, ...]:
    if a.kinds is None:
        return ()
    return (Section("Which kind of model?", _with_percent(kinds_blocks(a.kinds, a.task != "regression"))),)


def _with_percent(blocks: Sequence[Block]) -> tuple[Block, ...]:
    return tuple(in_percent(block) if isinstance(block, Figure) else block for block in blocks)


def _training(a: Analysis) -> tuple[Block, ...]:
    """What the theory of wide two-layer networks says, with dials, and where to ask about a model of one's own."""
    own = Text(
        "This is a two-layer network so wide that it trains like its linearisation, full batch, squared loss. For a model of your "
        "own, `op.foresee(model, data)` or `overparam foresee model.py:make table.csv` tells the rates it bears and its curve."
    )
    dials = () if a.controls is None else (make_controls(a.controls),)
    part = f"The theory's numbers are of {a.rows_of_theory:,} of the {a.n:,} rows, drawn with classes in proportion: they take factors, which cost n³."
    few = () if a.rows_of_theory == a.n else (Text(part),)
    return (*few, *(Text(line) for line in a.theory), *dials, own)


def _expected(a: Analysis) -> tuple[Block, ...]:
    """The error that leads, those beside it, a rival, guessing; then what stands behind it, class by class or target by target."""
    e = a.error
    found: list[tuple[str, Interval]] = []
    if e.test is not None:
        found.append((f"on {count_of(e.test_rows, 'test row')}" if e.test_rows else "on the test set", e.test))
    singly = "rows left out in five folds" if e.folds else "rows left out one at a time"
    told = e.leading not in ("the test set", singly)
    together = (
        e.leading if told else WAYS["in order"] if e.doubt("in order") else "equal and near rows left out together"
    )
    if e.together is not None:
        found.append((together, e.together))
    found.append((singly, e.alone))
    found += [
        (WAYS[one.kind], one.error) for one in e.doubts if one.kind in ("nearest", "folds") and one.error is not None
    ]
    measure = _measure(a)
    series_ = [
        series(
            "tuned kernel",
            [name for name, _ in found],
            [cut(each).value for _, each in found],
            lower=[cut(each).lower for _, each in found],
            upper=[cut(each).upper for _, each in found],
            mark="points",
            role="true",
        )
    ]
    rows: list[tuple[Any, ...]] = [
        (name, *sides(each), "leads" if each.value == e.value and each.upper == e.upper else "") for name, each in found
    ]
    if e.rival is not None:
        r = e.rival.error
        drawn = cut(r)
        series_.append(
            series(
                "random forest",
                ["random forest"],
                [drawn.value],
                lower=[drawn.lower],
                upper=[drawn.upper],
                mark="points",
                role="random",
            )
        )
        where = count_of(e.rival.folds, "fold") if e.rival.folds else "on the same test rows"
        rows.append(
            (
                f"random forest of {count_of(e.rival.trees, 'tree')}, {where}, grown on {count_of(e.rival.rows, 'row')}",
                *sides(r),
                "",
            )
        )
    guessing = "always naming the commonest class" if a.task != "regression" else "guessing the mean"
    rows.append((guessing, _error(a, e.guess), None, None, ""))
    highest = max(
        cut(each).upper or each.value for each in (*(each for _, each in found), *([e.rival.error] if e.rival else []))
    )
    near = e.guess <= FAR * highest  # else the line would press all points to the ground; the table has it
    lines = (Line("guessing", y=e.guess),) if near else ()
    figure = Figure(
        "Errors to expect on new rows",
        "Points with 95% intervals. Those of the tuned kernel include the choice of kernel and ridge.",
        "how it was found", measure, tuple(series_), lines=lines,
    )  # fmt: skip
    words = (
        f"The best of {count_of(e.kernels_tried, 'kernel')} and their ridges by the mean square on rows left out: {e.kernel}, ridge "
        f"{number(e.ridge, 2)}."
    )
    words += "".join(f" {note[0].upper()}{note[1:]}." for note in e.notes)
    untold = () if not e.cannot_tell else (Text(f"This cannot be told from these rows: {e.cannot_tell}.", "warning"),)
    blocks: list[Block] = [
        *untold,
        in_percent(figure),
        Table(("The error", measure, "from", "to", ""), tuple(rows), words),
    ]
    kinds = (
        ("balanced error: every class counted alike", "balanced", measured),
        ("AUC: a row of a class put before one of another", "auc", _plainly),
        ("R²: share of the variance explained" + _mean_of(len(e.targets)), "explained", explained_words),
        ("typical error in the target's own units", "residual", _in_digits),
    )
    sources = [e] if e.left_out is None else [e, e.left_out]
    beside = tuple(
        (name, *(None if (each := getattr(one, field)) is None else said(each) for one in sources))
        for name, field, said in kinds
        if any(getattr(one, field) is not None for one in sources) and not (e.cannot_tell and field == "residual")
    )
    heads = ("with its 95% interval",) if e.left_out is None else ("on the test rows", "on training rows left out")
    if beside:
        blocks.append(Table(("Beside it", *heads), beside))
    return (*blocks, *_parts(a))


def _plainly(found: Interval) -> str:
    return measured(found, share=False)


def _in_digits(found: Interval) -> str:
    """In units that may be large: with three digits."""
    return f"{number(found.value, 3)} ({' to '.join(_ends(found))})"


def _mean_of(targets: int) -> str:
    return f", the mean of {count_of(targets, 'target')}" if targets > 1 else ""


def _parts(a: Analysis) -> tuple[Block, ...]:
    """The recall of every class, or of several targets how well each is predicted; on the rows of the leading error."""
    e = a.error
    where = f"Of {'the test rows' if e.left_out is not None else 'rows left out'}, with 95% intervals."
    if e.recalls:
        known = [one for one in e.recalls if one.recall is not None]
        known.sort(key=lambda one: one.recall.value if one.recall is not None else 0.0)
        rows = tuple((one.name, one.rows, measured(one.recall)) for one in known[:MANY_CLASSES])
        more = f" The {MANY_CLASSES} of {len(known):,} that are found least." if len(known) > MANY_CLASSES else ""
        words = f"Recall: how many rows of a class are put into it. {where}{more}"
        return (Table(("Class", "rows", "found"), rows, words, has_samples=True),)
    if len(e.targets) < 2:
        return ()
    rows = tuple(
        (one.name, explained_words(one.explained), number(one.residual.value, 3), *_ends(one.residual))
        for one in e.targets
    )
    heads = ("Target", "R²", "typical error in its own units", "from", "to")
    return (Table(heads, rows, where, has_samples=True),)


def _ends(found: Interval) -> tuple[str, str]:
    return number(found.lower, 3), number(found.upper, 3)


def _what(a: Analysis) -> str:
    return "labels" if a.task != "regression" else "targets"


def _between(found: Bracketed) -> str:
    if found.lower is None or (found.upper is not None and not found.certified):
        return "not certified"
    return between(found.lower, found.upper, 6)


def _error(a: Analysis, share: float | None) -> str | None:
    """An error without an interval, as the sentences say it."""
    if share is None:
        return None
    return percent(share) if a.task != "regression" else f"{share:.0%}"


def _measure(a: Analysis) -> str:
    return "rows wrong" if a.task != "regression" else "variance unexplained"


def _learn(a: Analysis) -> tuple[Block, ...]:
    got = a.learnability
    raw = got.complexity.certified  # else a trifle of a ridge decides the numbers of other labels
    guess = "guessing the commonest class" if a.task != "regression" else "guessing the mean"
    shuffled = f"the same for shuffled {_what(a)}, mean of {count_of(len(got.shuffled_errors_end), 'draw')}"
    errors = Table(
        ("On rows left out", _measure(a)),
        (
            (f"the network's limit with the best ridge, {got.ridge:.2g}", _error(a, got.left_out_error)),
            ("the network's limit, trained to the end", _error(a, got.left_out_error_end)),
            (shuffled, _error(a, float(got.shuffled_errors_end.mean()))),
            *_unrepeated(a),
            (guess, _error(a, got.baseline_error)),
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
    return () if error is None else ((f"best ridge, the {count:,} rows that no other equals", _error(a, error)),)


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
        ("rows left out one at a time, best ridge", _error(a, got.left_out_error)),
        *_unrepeated(a),
    ]
    if got.test_rows:
        rows.append((f"{count_of(got.test_rows, 'test row')}, trained to the end", _error(a, got.test_error)))
        rows.append((f"{count_of(got.test_rows, 'test row')}, same ridge", _error(a, got.test_error_ridged)))
        rows.append(("test rows, mean |y − f| at the end", f"{got.test_mean_absolute:.4g}"))
    blocks: list[Block] = [Table(("The network's limit on", _measure(a)), tuple(rows))]
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


def _problems(a: Analysis) -> tuple[Block, ...]:
    p = a.problems
    c = p.counts
    near = "; ".join(f"{i} & {j} ({rho:.6f})" for i, j, rho in p.near_parallel[:6])
    leaked: tuple[tuple[int | None, str], ...] = ((None, "there is no test set"),) * 2
    if a.new_data.test_rows:
        alike = c.get("test_alike_by_chance", 0)
        chance = f"{alike:,} more that may be alike by chance: counted as new" if alike else ""
        equal, near_ = (
            "; ".join(f"train {i} {sign} test {j}" for i, j in pairs[:6])
            for pairs, sign in ((p.test_in_train, "="), (p.test_near_train, "≈"))
        )
        leaked = (c["test_in_train"], equal or chance), (c.get("test_near_train"), near_)
    checks = [
        ("equal rows with different labels", c["contradictions"], _groups(p.contradictions)),
        ("groups of repeated rows", c["duplicate_groups"], _groups(p.duplicate_rows)),
        ("rows that are copies of others", a.copies, _copied(a)),
        ("pairs almost parallel (|cos| > 0.9999)", c["near_parallel"], near),
        ("test rows equal to training rows", *leaked[0]),
        ("test rows nearly equal to training rows", *leaked[1]),
        ("constant features", c["constant_features"], ", ".join(p.constant_features[:8])),
    ]
    blocks: list[Block] = [
        Table(
            ("Looked for", "found", "where"),
            tuple((what, count, where or None) for what, count, where in checks),
            "Rows are numbered from 0 as in the source, the first few of each kind shown; result.json has more.",
        )
    ]
    if a.columns:
        heads = ("column", "what", "in words")
        blocks.append(Table(heads, _columns(a.columns), "Done to columns, or found in them.", has_samples=True))
    if p.scale_ratio is not None and p.scale_ratio > 100:
        words = f"The widest feature varies {p.scale_ratio:,.0f} times as much as the narrowest. Standardising is what "
        blocks.append(Text(f"{words}matters most for tables, and is done here unless you asked otherwise."))
    if p.smallest_class is not None:
        blocks.append(Text(f"The smallest class has {count_of(p.smallest_class[1], 'row')}."))
    blocks.append(worst_labels(a.labels, 10))
    if a.thumbnails is not None:
        blocks.append(show(a.thumbnails, a.labels))
    return tuple(blocks)


def _columns(notes: Sequence[ColumnNote]) -> tuple[tuple[str, str, str], ...]:
    """A line a note; what is said of many constant columns, such as the corners of images, is one line.

    >>> notes = [ColumnNote(name, "constant", f"{name} is 0") for name in ("p0", "p8", "p9")]
    >>> _columns([*notes, ColumnNote(None, "scaled", "rows scaled to norm 1")])
    (('p0, p8, p9', 'constant', '3 constant columns'), ('all', 'scaled', 'rows scaled to norm 1'))
    """
    names = [note.column for note in notes if note.kind == "constant" and note.column is not None]
    told = tuple((note.column or "all", note.kind, note.words) for note in notes)
    if len(names) < 2:
        return told
    others = tuple(
        line for note, line in zip(notes, told, strict=True) if note.column not in names or note.kind != "constant"
    )
    return (", ".join(names), "constant", count_of(len(names), "constant column")), *others


def _copied(a: Analysis) -> str:
    found = a.copy_groups
    words = {
        "none": "",
        "copies": "",
        "coincidences": "equal rows are coincidences of a few discrete columns",
        "unclear": "cannot be told apart from chance or clusters",
        "windows": f"{count_of(found.overlapping, 'row')} overlap others: windows of a series",
    }[found.verdict]
    listed = _groups(found.listed) if found.verdict == "copies" else ""
    return words or listed


def _groups(groups: tuple[tuple[int, ...], ...]) -> str:
    return "; ".join(" = ".join(str(i) for i in group) for group in groups[:6])


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


def _done(a: Analysis) -> tuple[Block, ...]:
    facts = (
        ("data", a.name),
        ("rows used", f"{a.n:,} of {a.total:,}" if a.total > a.n else a.n),
        ("rows of the theory's numbers", None if a.rows_of_theory == a.n else a.rows_of_theory),
        ("features", a.d),
        ("task", a.task),
        ("classes", len(a.classes) or None),
        ("kernel", "two-layer ReLU network, first layer trained, infinite width"),
        ("alignment of kernel and labels", a.learnability.alignment),
        ("effective dimension at the ridged complexity", a.learnability.effective_dimension),
    )
    known = Table(("fact", "here"), tuple(fact for fact in facts if fact[1] is not None))
    told = {note.words for note in a.columns}
    return (known, *data_notes([note for note in a.notes if note not in told], a.classes))


def data_notes(notes: Sequence[str], classes: Sequence[str]) -> tuple[Table, ...]:
    """The notes in order, those that quote the data apart, and the classes in the order of the outputs.

    >>> [table.has_samples for table in data_notes(["rows scaled to norm 1", "column 'age' left out"], [])]
    [False, True]
    """
    tables = []
    plain = tuple((note,) for note in notes if "'" not in note)
    quoting = tuple((note,) for note in notes if "'" in note)  # names a column, a category or a class
    if plain:
        tables.append(Table(("Done to the data, in order",), plain))
    if quoting:
        tables.append(Table(("Done to the columns",), quoting, has_samples=True))
    if classes:
        names = ", ".join(classes[:40]) + (" …" if len(classes) > 40 else "")
        tables.append(Table(("Classes, in the order of the outputs",), ((names,),), has_samples=True))
    return tuple(tables)
