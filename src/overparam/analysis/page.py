"""The page of an analysis as plain data: verdict, then one section a question, in the order people ask them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overparam.analysis.answers import Range
from overparam.core.sections import Block, Figure, Line, Section, Table, Text, series

if TYPE_CHECKING:
    from overparam.analysis.analyze import Analysis

FADED = 1e-9
"""Share of the initial loss below which a curve is not drawn: the bracket is wider than the value there."""


def make_sections(a: Analysis) -> tuple[Section, ...]:
    """All sections, verdict first."""
    sections = [
        Section(
            "Verdict",
            tuple(Text(line, a.verdict.tone if i == 0 else "plain") for i, line in enumerate(a.verdict.sentences)),
        ),
        Section("Can a wide network learn these labels?", _learn(a)),
        Section("How fast?", _fast(a)),
        Section("How well on new data?", _new(a)),
        Section("Is anything wrong with the data?", _problems(a)),
        Section("When may this be believed?", _trust(a)),
    ]
    if a.noise is not None:
        sections.append(Section("What would noise in the labels do?", _noise(a)))
    sections.append(Section("What was done", _done(a)))
    return tuple(sections)


def _between(found: Range, digits: int = 4) -> str:
    if found.lower is None or not found.certified or found.upper is None:
        return "no certified upper side" if found.upper is None else "not certified"
    return f"{found.lower:.{digits + 2}g} to {found.upper:.{digits + 2}g}"


def _error(a: Analysis, share: float | None) -> str | None:
    if share is None:
        return None
    return f"{share:.2%}" if a.task != "regression" else f"{share:.3g} of the variance"


def _learn(a: Analysis) -> tuple[Block, ...]:
    got = a.learnability
    spread = float(got.random_complexities.std(ddof=1))
    guess = "guessing the commonest class" if a.task != "regression" else "guessing the mean"
    errors = Table(
        ("Error on rows left out", "value"),
        (
            (f"kernel limit, ridge {got.ridge:.2g} (as early stopping would)", _error(a, got.left_out_error)),
            ("kernel limit, trained to the end", _error(a, got.left_out_error_end)),
            (guess, _error(a, got.baseline_error)),
        ),
        "Each row is predicted by a fit to all the others, in closed form.",
    )
    complexity = Table(
        ("Labels", "complexity √(2yᵀH⁻¹y/n)", "certified between", f"with ridge {got.ridged_by:.2g}"),
        (
            ("true", got.complexity.value, _between(got.complexity), got.ridged_complexity.value),
            (
                f"random, {len(got.random_complexities)} draws",
                float(got.random_complexities.mean()),
                f"± {spread:.2g} over draws",
                float(got.random_ridged_complexities.mean()),
            ),
            ("worst case", got.worst_complexity.value, _between(got.worst_complexity), None),
        ),
        "The smaller, the faster the labels are learned and the better they carry over. The raw number explodes on "
        "repeated rows; the ridged one does not.",
    )
    seen = a.spectrum
    index = np.arange(1, len(seen.eigenvalues) + 1)
    keep = _thinned(len(index))
    eigenvalues = Figure(
        "Eigenvalues of the Gram matrix",
        ("All" if seen.whole else f"The largest {len(index)}")
        + " eigenvalues of H. Directions with large ones are learned first; the fall of this curve sets the pace.",
        "index",
        "eigenvalue",
        (series("λ", index[keep], _positive(seen.eigenvalues[keep]), role="accent"),),
        x_scale="log",
        y_scale="log",
    )
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
        "index of the eigenvector",
        "share of the labels",
        tuple(shares),
        x_scale="log",
        y_scale="log",
    )
    blocks: list[Block] = [errors, complexity, eigenvalues, projections]
    if len(got.margins):
        counts, edges = np.histogram(got.margins, bins=40)
        middle = 0.5 * (edges[:-1] + edges[1:])
        blocks.append(
            Figure(
                "Margins of rows left out",
                "How far the right class is ahead when a row is predicted from the others. Left of 0 the row is got wrong.",
                "margin",
                "rows",
                (series("rows", middle, counts, mark="bars", role="true"),),
                lines=(Line("wrong | right", x=0.0),),
            )
        )
    return tuple(blocks)


def _positive(values: np.ndarray) -> np.ndarray:
    return np.where(values > 1e-18, values, np.nan)


def _thinned(count: int, most: int = 900) -> np.ndarray:
    """All indices where few; evenly in the logarithm where many."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.round(np.geomspace(1, count, most)).astype(int)) - 1


def _fast(a: Analysis) -> tuple[Block, ...]:
    s, n = a.speed, a.n
    rates = Table(
        ("Learning rate", "summed loss ½Σ(y−u)²", "mean loss (the same over n)", "certified between (summed)"),
        (
            ("largest stable, 2/λ_max", s.largest_rate.value, s.largest_rate.value * n, _between(s.largest_rate)),
            ("best single, 2/(λ_max + λ_min)", s.best_rate.value, s.best_rate.value * n, _between(s.best_rate)),
            ("used here", s.rate, s.rate * n, "half the certified limit"),
        ),
        f"λ_max = {s.lambda_max.value:.5g}, λ_min ≥ {s.lambda_min.lower or 0:.3g}. Above the largest stable rate the "
        "linear prediction diverges; PyTorch's MSELoss has no ½, so its rate is half the mean one"
        + (f" times the {len(a.classes)} outputs." if len(a.classes) > 2 else "."),
    )
    words = {"true": "true", "random": "random", "worst": "worst case"}
    targets = Table(
        ("Training loss falls to", "labels", "steps", "at least", "at most"),
        tuple((f"{t.target:.0%}", words[t.labels], t.value, t.lower, t.upper) for t in s.targets),
        "Steps of gradient descent at the rate used here, with certified sides; a dash where none is known.",
    )
    still = np.flatnonzero(np.nanmax([s.true[0], s.random[0], s.worst[2]], axis=0) > FADED)
    shown = (s.steps > 0) & (s.steps <= s.steps[min(still[-1] + 1, len(s.steps) - 1)])
    curves = Figure(
        "Predicted training loss",
        "The loss over its start after each step, before any training. Bands are certified brackets; where none is "
        "visible it is thinner than the line.",
        "step",
        "loss / loss at start",
        (
            _curve("true labels", s.steps[shown], s.true[:, shown], "true"),
            _curve("random labels", s.steps[shown], s.random[:, shown], "random"),
            _curve("worst-case labels", s.steps[shown], s.worst[:, shown], "worst"),
        ),
        x_scale="log",
        y_scale="log",
    )
    blocks: list[Block] = [rates, targets, curves]
    if len(s.early_steps):
        name = "error" if a.task != "regression" else "unexplained variance"
        best = int(s.early_errors.argmin())
        blocks.append(
            Figure(
                "What early stopping would give",
                f"The {name} on {s.early_on} after each number of steps. The least is {s.early_errors[best]:.3g}, at step "
                f"{s.early_steps[best]:,.0f}; at the last step shown it is {s.early_errors[-1]:.3g}.",
                "step",
                name,
                (series(name, s.early_steps, s.early_errors, role="true"),),
                x_scale="log",
                lines=(Line("least", x=float(s.early_steps[best])),),
            )
        )
    return tuple(blocks)


def _curve(name: str, steps: np.ndarray, band: np.ndarray, role: Any) -> Any:
    value = np.where(band[0] > FADED, band[0], np.nan)
    lower, upper = np.maximum(band[1], FADED), np.where(band[2] > FADED, band[2], np.nan)
    return series(name, steps, value, lower=lower, upper=upper, role=role)


def _new(a: Analysis) -> tuple[Block, ...]:
    got = a.new_data
    rows: list[tuple[Any, ...]] = [("rows left out, best ridge", _error(a, got.left_out_error))]
    if got.test_rows:
        rows.append((f"{got.test_rows:,} test rows, trained to the end", _error(a, got.test_error)))
        rows.append((f"{got.test_rows:,} test rows, same ridge", _error(a, got.test_error_ridged)))
        rows.append(("test rows, mean |y − f| at the end", got.test_mean_absolute))
    blocks: list[Block] = [Table(("Error of the kernel limit on", "value"), tuple(rows))]
    if got.noise_rate is not None:
        blocks.append(
            Text(
                f"{got.noise_rate:.1%} of the labels are clearly contradicted by the other rows. That counts wrong labels "
                "and the natural overlap of the classes together."
            )
        )
    terms = tuple((t.name, t.value, t.formula) for t in got.bound_terms)
    total = "none: no positive bound on λ_min" if got.bound is None else f"{got.bound:.4g}"
    vacuous = got.bound is None or got.bound_vacuous
    blocks.append(
        Table(
            ("Term of the bound", "value", "formula"),
            (*terms, ("in all", got.bound, "at least 1: says nothing" if vacuous else "holds with probability 95%")),
            f"Theorem 5.1 with every constant shown: the expected loss on new data is at most {total}. "
            "Terms that vanish as the width grows and κ shrinks are left out.",
        )
    )
    if vacuous:
        blocks.append(Text("The bound is vacuous here. Leave-one-out above is the number to use.", "warning"))
    return tuple(blocks)


def _problems(a: Analysis) -> tuple[Block, ...]:
    p = a.problems
    c = p.counts
    checks = [
        ("equal rows with different labels", c["contradictions"], _groups(p.contradictions)),
        ("groups of repeated rows", c["duplicate_groups"], _groups(p.duplicate_rows)),
        (
            "pairs almost parallel (|cos| > 0.9999)",
            c["near_parallel"],
            "; ".join(f"{i} & {j} ({rho:.6f})" for i, j, rho in p.near_parallel[:6]),
        ),
        (
            "test rows that are training rows",
            c["test_in_train"],
            "; ".join(f"train {i} = test {j}" for i, j in p.test_in_train[:6]),
        ),
        ("constant features", c["constant_features"], ", ".join(p.constant_features[:8])),
    ]
    blocks: list[Block] = [Table(("Looked for", "found", "rows (numbers in the source)"), tuple(checks))]
    if p.scale_ratio is not None and p.scale_ratio > 100:
        blocks.append(
            Text(
                f"The widest feature varies {p.scale_ratio:,.0f} times as much as the narrowest. Standardising is what "
                "matters most for tables, and is done here unless you asked otherwise.",
            )
        )
    if p.smallest_class is not None:
        blocks.append(Text(f"The smallest class is {p.smallest_class[0]}, with {p.smallest_class[1]:,} rows."))
    if p.suspects:
        blocks.append(
            Table(
                ("row", "label", "the other rows suggest", "margin"),
                p.suspects,
                "Labels to look at first: those that the rest of the data contradicts most clearly.",
                has_samples=True,
            )
        )
    return tuple(blocks)


def _groups(groups: tuple[tuple[int, ...], ...]) -> str:
    return "; ".join(" = ".join(str(i) for i in group) for group in groups[:6])


def _trust(a: Analysis) -> tuple[Block, ...]:
    t, s = a.trust, a.speed
    assumptions = Table(
        ("The theory assumes", "here", "detail"), tuple((x.statement, x.status, x.detail) for x in t.assumptions)
    )
    moved = Figure(
        "Predicted movement of the weights",
        "‖W(s) − W(0)‖ of all weights together. Divided by √width times the initial scale κ it is the laziness number.",
        "step",
        "distance moved",
        (_band("movement", s.steps[1:], t.movement[:, 1:]),),
        x_scale="log",
    )
    lazy = Figure(
        "Laziness at the end of training",
        "How far a neuron moves over the size of its pre-activation. Below 0.1 the prediction is good to a few "
        "percent; above 1 the network has left the regime of the theory.",
        "width",
        "laziness",
        tuple(
            series(f"κ = {kappa:g}", t.widths, row, role=role)
            for kappa, row, role in zip(t.kappas, t.laziness, ("worst", "random", "true"), strict=True)
        ),
        x_scale="log",
        y_scale="log",
        lines=(Line("lazy below", y=0.1), Line("not lazy above", y=1.0)),
    )
    table = Table(
        ("width", *(f"κ = {kappa:g}" for kappa in t.kappas)),
        tuple(
            (f"{int(m):,}", *(f"{t.laziness[i, j]:.3g} ({t.flips[i, j]:.1%} flip)" for i in range(len(t.kappas))))
            for j, m in enumerate(t.widths)
        ),
        "Laziness, and the share of ReLU signs expected to flip.",
    )
    words = []
    if t.width_for_lazy is not None:
        words.append(f"At κ = 1 the whole run is lazy from width {t.width_for_lazy:,.0f} on.")
    if t.theorem_width is not None:
        words.append(f"Theorem 3.1 itself asks for width {t.theorem_width:.1e} (its constant taken as 1).")
    return (assumptions, table, lazy, moved, *(Text(word) for word in words))


def _band(name: str, x: np.ndarray, band: np.ndarray) -> Any:
    return series(name, x, band[0], lower=band[1], upper=band[2], role="true")


def _noise(a: Analysis) -> tuple[Block, ...]:
    assert a.noise is not None
    z = a.noise
    complexity = Figure(
        "Complexity against label noise",
        "As labels are redrawn at random, the complexity of all of them together climbs towards that of random labels.",
        "share of labels redrawn",
        "complexity",
        (series("complexity", z.rates, z.complexity, role="accent"),),
    )
    errors = Figure(
        "Loss and error against label noise",
        f"The kernel limit {z.rows}, whose labels are redrawn at the same rate.",
        "share of labels redrawn",
        "on new rows",
        (
            series("mean |y − f|", z.rates, z.mean_absolute, role="random"),
            series("error", z.rates, z.error, role="true"),
        ),
    )
    table = Table(
        ("share redrawn", "complexity", "mean |y − f|", "error"),
        tuple(zip(z.rates.tolist(), z.complexity.tolist(), z.mean_absolute.tolist(), z.error.tolist(), strict=True)),
        "Trained to the end" + (f" with ridge {z.ridge:.1e}, since rows repeat." if z.ridge else "."),
    )
    return complexity, errors, table


def _done(a: Analysis) -> tuple[Block, ...]:
    facts = Table(
        ("fact", "here"),
        (
            ("data", a.name),
            ("rows used", a.n),
            ("features", a.d),
            ("task", a.task),
            *((("classes", ", ".join(a.classes[:12]) + (" …" if len(a.classes) > 12 else "")),) if a.classes else ()),
            ("kernel", "two-layer ReLU network, first layer trained, infinite width"),
            ("alignment of kernel and labels", a.learnability.alignment),
            *(
                (("effective dimension at the ridged complexity", a.learnability.effective_dimension),)
                if a.learnability.effective_dimension is not None
                else ()
            ),
        ),
    )
    notes = Table(("Done to the data, in order",), tuple((note,) for note in a.notes))
    return (facts, notes) if a.notes else (facts,)
