"""The page of a run beside its prediction as plain data: verdict, then loss, weights, new rows, kernel, facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from overparam.analysis.data_page import data_notes
from overparam.analysis.run_answers import RunNumbers, relative_error
from overparam.core.sections import Block, Figure, Line, Section, Series, Table, Text, series
from overparam.core.words import count_of, percent
from overparam.theory.dynamics import GROWN
from overparam.theory.iteration_laws import IterationLaw, iteration_law
from overparam.theory.lazy_regime import BORDERLINE, LAZY
from overparam.training import Trajectory

if TYPE_CHECKING:
    from overparam.analysis.run_comparison import RunComparison

SHOWN_ROWS = 9


def make_run_sections(c: RunComparison) -> tuple[Section, ...]:
    """All sections, verdict first; what was not measured or not predicted is left out."""
    asked = "Did the loss fall as predicted?" if c.predicted is not None else "How did the loss fall?"
    sections = [
        c.verdict.section,
        Section(asked, _loss(c)),
        Section("How far did the weights move?", _weights(c)),
        Section("How well on new rows?", _new_rows(c)),
        Section("How constant was the kernel?", _kernel(c)),
        *law_sections(c.run, c.run.loss <= GROWN * c.run.loss[0]),
        Section("What was done", _done(c)),
    ]
    drawn = [Section(s.title, tuple(b for b in s.blocks if not isinstance(b, Figure) or _says(b))) for s in sections]
    return tuple(section for section in drawn if section.blocks)


def _says(figure: Figure) -> bool:
    """Whether two points or more were observed: a run that diverged at once leaves nothing to draw."""
    return any(s.role == "observed" and sum(y is not None for y in s.y[1:]) > 1 for s in figure.series)


def _shown(c: RunComparison, values: np.ndarray) -> np.ndarray:
    """What was observed, with gaps where the loss has grown out of meaning and all else with it."""
    return np.where(c.loss <= GROWN * c.loss[0], values, np.nan)


def _by_step(c: RunComparison, title: str, words: str, label: str, curves: Sequence[Series], **options: Any) -> Figure:
    """A figure over the steps, on a log scale where there are many."""
    scale: Any = "log" if c.steps[-1] > 30 else "linear"
    return Figure(title, words, "step", label, tuple(curves), x_scale=scale, **options)


def _loss(c: RunComparison) -> tuple[Block, ...]:
    curves: list[Series] = []
    p = c.predicted
    if p is not None:
        value = np.where(np.isfinite(p.values), p.values, np.nan)
        lower, upper = (np.where(p.certified, side, np.nan) for side in (p.lower, p.upper))
        curves.append(series("predicted", c.steps, value, lower=lower, upper=upper, role="true"))
        if p.linearised is not None and p.status != "unstable":
            curves.append(series("linearised at its start", c.steps, p.linearised, role="accent", dashed=True))
    curves.append(series("observed", c.steps, _shown(c, c.loss), mark="points", role="observed"))
    words = f"The {c.setting.objective} loss, {'summed' if c.setting.loss == 'sum' else 'a mean'} over rows, by step. "
    if p is not None:
        whose = "of infinite width" if p.kernel != "start" else "of the drawn network"
        band = "its band is a certified bracket; where none is visible it is thinner than the line. "
        words += f"The prediction was made before the first step from the kernel {whose}, the labels and the outputs at the start"
        words += f"; {band}" if p.certified.any() else ". "
        if p.linearised is not None and p.status != "unstable":
            words += "Linearised: the drawn network with its own kernel, held fixed."
    title = "Training loss" if p is None else "Training loss, predicted and observed"
    blocks: list[Block] = [_by_step(c, title, words.strip(), "training loss", curves, y_scale="log")]
    if p is not None and p.status == "unstable":
        words = "The rate is unstable: the predicted loss is drawn only until it has grown 1,000-fold."
        blocks.insert(0, Text(words, "bad"))
    error = c.relative_error
    if error is not None and p is not None and p.status != "unstable" and np.isfinite(error).any():
        blocks.append(_errors(c, error))
    blocks.append(_table(c, error))
    return tuple(blocks)


def _errors(c: RunComparison, error: np.ndarray) -> Figure:
    """Relative errors; as a ratio on a log scale where some are so large that the others would lie flat."""
    assert c.predicted is not None
    wide = bool(np.nanmax(np.abs(error)) > 1)
    shift, sign = (1.0, "") if wide else (0.0, " − 1")
    drawn = [series(f"observed / predicted{sign}", c.steps, error + shift, mark="points", role="observed")]
    words = "How far the observed loss lies above (+) or below (−) the predicted one, relative to the prediction."
    if wide:
        words = "The observed loss over the predicted one, on a log scale."
    own = c.predicted.linearised
    if own is not None:
        share = relative_error(own, c.predicted.values, c.floor) + shift
        drawn.insert(0, series(f"linearised / predicted{sign}", c.steps, share, role="accent", dashed=True))
        words += (
            " The dashed line is what the draw of finitely many neurons does; the distance of the points from it is what "
            "the movement of the weights does."
        )
    title = "Observed over predicted loss" if wide else "Relative error of the predicted loss"
    label = "observed / predicted" if wide else "relative error"
    options: dict[str, Any] = {"lines": (Line("as predicted", y=shift),), "y_scale": "log" if wide else "linear"}
    return _by_step(c, title, words, label, drawn, **options)


def _table(c: RunComparison, error: np.ndarray | None) -> Table:
    places = np.unique(np.linspace(0, len(c.steps) - 1, min(SHOWN_ROWS, len(c.steps))).round().astype(int))
    seen = _shown(c, c.loss)
    p = c.predicted
    if p is None or error is None:
        return Table(("step", "training loss"), tuple((int(c.steps[i]), _cell(seen[i])) for i in places))
    lower, upper = (np.where(p.certified, side, np.nan) for side in (p.lower, p.upper))
    rows = tuple(
        (int(c.steps[i]), *(_cell(values[i]) for values in (p.values, lower, upper, seen)), _signed(error[i]))
        for i in places
    )
    return Table(
        ("step", "predicted", "at least", "at most", "observed", "error"),
        rows,
        "The training loss. Errors are relative to the prediction; the two sides of the bracket hold for the infinitely wide "
        "network. A dash: not certified, grown out of meaning, or fallen below rounding.",
    )


def _cell(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _signed(share: Any) -> str | None:
    if not np.isfinite(share):
        return None
    if abs(share) < 1e-6:  # rounding
        return "0%"
    if share > 10:
        return f"× {float(1 + share):.3g}"
    return f"{'+' if share >= 0 else '−'}{percent(abs(float(share)))}"


def _weights(c: RunComparison) -> tuple[Block, ...]:
    p, moved, flips = c.predicted, c.observed("movement"), c.observed("flips")
    blocks: list[Block] = []
    if moved is not None:
        curves = [series("observed", c.steps, _shown(c, moved), mark="points", role="observed")]
        if p is not None:
            lower, upper = (np.where(p.movement_certified, side, np.nan) for side in p.movement[1:])
            value = np.where(np.isfinite(p.movement[0]), p.movement[0], np.nan)
            curves.insert(0, series("predicted", c.steps, value, lower=lower, upper=upper, role="true"))
        words = "‖W(s) − W(0)‖ of all trained weights together."
        blocks.append(_by_step(c, "Movement of the weights", words, "distance moved", curves))
    if flips is not None:
        curves = [series("observed", c.steps, _shown(c, flips), mark="points", role="observed")]
        words = "The share of ReLU signs, over neurons and rows, that differ from the start."
        if p is not None and p.flips is not None:
            curves.insert(0, series("expected", c.steps, p.flips, role="true"))
            words += " Expected: (1/π) arctan(c · laziness), c from the data; an estimate."
        blocks.append(_by_step(c, "Signs flipped", words, "share of signs flipped", curves))
    lazy = c.laziness
    if lazy is not None:
        blocks.append(_laziness(c, lazy))
    rows = _movement_rows(c.numbers)
    if rows and c.predicted is None:
        blocks.insert(0, Table(("At the end", "observed"), tuple((row[0], row[2]) for row in rows), _regime_words(c)))
    elif rows:
        blocks.insert(0, Table(("At the end", "predicted", "observed"), rows, _regime_words(c)))
    return tuple(blocks)


def _movement_rows(x: RunNumbers) -> tuple[tuple[Any, ...], ...]:
    found = (
        ("distance moved", x.predicted_movement, x.movement),
        ("laziness", x.predicted_laziness, x.laziness),
        ("ReLU signs flipped", _percent(x.predicted_flips), _percent(x.flips)),
    )
    return tuple(row for row in found if row[2] is not None)


def _regime_words(c: RunComparison) -> str:
    if c.numbers.regime is None:
        return ""
    return (
        "Laziness is how far a neuron moved over the standard deviation of its pre-activation at the start. Up to "
        f"{LAZY:g} a run is lazy and follows its kernel; above {BORDERLINE:g} it has left the theory. This run: {c.numbers.regime}."
    )


def _percent(share: float | None) -> str | None:
    return None if share is None else percent(share)


def _laziness(c: RunComparison, lazy: np.ndarray) -> Figure:
    drawn = [series("observed", c.steps, _shown(c, lazy), mark="points", role="observed")]
    if c.predicted is not None and c.predicted.laziness is not None:
        drawn.insert(0, series("predicted", c.steps, c.predicted.laziness, role="true"))
    words = "The movement over √width times κ, on a log scale, with the borders of the lazy regime."
    if c.setting.output_layer:
        words += f" The output layer, {c.setting.output_layer}, is left out: no ReLU comes after it."
    borders = (Line("lazy below", y=LAZY), Line("not lazy above", y=BORDERLINE))
    return _by_step(c, "Laziness", words, "laziness", drawn, y_scale="log", lines=borders)


def _new_rows(c: RunComparison) -> tuple[Block, ...]:
    error = c.test_error
    if error is None:
        return ()
    p, regression = c.predicted, c.setting.task == "regression"
    measure = "variance unexplained" if regression else "share of rows wrong"
    curves = [series("observed", c.steps, _shown(c, error), mark="points", role="observed")]
    if p is not None and p.test_error is not None:
        curves.insert(0, series("predicted", c.steps, p.test_error, role="true"))
    words = f"{measure.capitalize()} of the {count_of(c.setting.test_rows, 'test row')}, which training never sees."
    blocks: list[Block] = [_by_step(c, "Error on new rows", words, measure, curves)]
    losses = c.observed("test_loss")
    if losses is not None and not regression:
        ends = None if p is None or p.test_loss is None else float(p.test_loss[-1])
        rows = (
            ("rows wrong", _percent(c.numbers.predicted_test_error), _percent(c.numbers.test_error)),
            ("mean loss", ends, _cell(_shown(c, losses)[-1])),
        )
        words = f"One row of {c.setting.test_rows:,} is {percent(1 / c.setting.test_rows)}."
        blocks.append(Table(("At the end, on new rows", "predicted", "observed"), rows, words))
    return tuple(blocks)


def _kernel(c: RunComparison) -> tuple[Block, ...]:
    start, limit = c.observed("kernel_from_start"), c.observed("kernel_from_limit")
    if start is None:
        return ()
    drawn = [series("from its start, ‖H(s) − H(0)‖/‖H(0)‖", c.steps, _shown(c, start), mark="points", role="observed")]
    words = (
        "The theory holds the kernel of the network fixed. Its distance from where it started is what training changed"
    )
    if limit is not None:
        drawn.append(series("from infinite width, ‖H(s) − H∞‖/‖H∞‖", c.steps, _shown(c, limit), role="accent"))
        words += "; its distance from the kernel of infinite width is at first what the draw of the weights did"
    few = "" if c.run.kernel_rows >= c.setting.n else f", on {c.run.kernel_rows:,} of the rows"
    return (_by_step(c, "Drift of the kernel", f"{words}. Frobenius norms{few}.", "relative distance", drawn),)


def _done(c: RunComparison) -> tuple[Block, ...]:
    s, x = c.setting, c.numbers
    limit = s.limit
    rate = f"{s.lr:.4g}" + ("" if limit is None else f" (largest stable: {limit.value:.4g})")
    rows: list[tuple[str, Any]] = [
        ("data", s.data),
        ("rows", s.n),
        ("features", s.d),
        ("test rows", s.test_rows or None),
        ("task", s.task),
        ("network", s.network),
        ("outputs before training", "0 on every row" if s.starts_at_zero else "not 0; they enter the prediction"),
        ("algorithm", s.algorithm),
        (f"rate, of the {'summed' if s.loss == 'sum' else 'mean'} loss", rate),
        ("steps", x.last_step),
        ("ended because", str(c.run.stopped)),
        ("time a step", f"{x.milliseconds_a_step:.3g} ms"),
        ("precision", f"{s.dtype}: one product keeps {count_of(c.run.digits, 'digit')}"),
    ]
    if c.predicted is not None:
        rows.append(("products with H for the prediction", c.predicted.products))
        if c.predicted.reason:
            rows.append(("the prediction", c.predicted.reason))
    return (Table(("fact", "here"), tuple(rows)), *data_notes(s.notes, s.classes))


def law_of_run(run: Trajectory) -> IterationLaw | None:
    """The law of convergence of the objective's class beside the run; None where the run is too short to fit one."""
    try:
        return iteration_law(run)
    except ValueError:
        return None


def law_kind(run: Trajectory) -> str:
    """The class of the loss whose law the page shows; empty where it shows none."""
    law = law_of_run(run)
    return "" if law is None else law.kind


def law_sections(run: Trajectory, shown: np.ndarray) -> tuple[Section, ...]:
    """The law and the gradient, at the records of the run where `shown`."""
    law, blocks = law_of_run(run), _gradient(run, shown)
    if law is None:
        return (Section("How large was the gradient?", blocks),) if blocks else ()
    first, *others = law.sections()
    return (Section(first.title, (*first.blocks, *blocks)), *others)


def _gradient(run: Trajectory, shown: np.ndarray) -> tuple[Block, ...]:
    figures, scale = [], "log" if run.steps[-1] > 30 else "linear"
    ratio = (
        "‖∇L‖²/(2L): while it stays above μ, a step at a small rate η takes off about a share 2ημ of the loss or more."
    )
    for name, title, label, words in (
        ("gradient_norm", "Size of the gradient", "‖∇L‖", "‖∇L‖ of the training loss in all trained weights."),
        ("pl_ratio", "PL ratio", "‖∇L‖²/(2L)", ratio),
    ):
        if name in run.records:
            values = np.asarray(run.records[name], dtype=np.float64)
            values = np.where(shown & (values > 0), values, np.nan)
            curve = series("observed", run.steps, values, mark="points", role="observed")
            figures.append(Figure(title, words, "step", label, (curve,), scale, "log"))
    return tuple(figures)
