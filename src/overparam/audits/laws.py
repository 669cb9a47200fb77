"""What a statement of a paper says, what was measured for it, and the verdict: the currency of every audit, with fitted powers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, final

import numpy as np

from overparam.core.bracketed import Assumption
from overparam.core.words import number


@dataclass(frozen=True)
class PowerFit:
    """values ≈ factor · Π variable^exponent: by name the exponents and their standard errors.

    points: how many values were fitted; those that are not positive and finite have no logarithm and were left out.
    """

    exponents: Mapping[str, float]
    errors: Mapping[str, float | None]
    factor: float
    points: int


def fit_powers(variables: Mapping[str, np.ndarray], values: np.ndarray) -> PowerFit | None:
    """Least squares in logarithms; None where the points do not determine the exponents.

    Standard errors come from the scatter around the fit, so they need more points than exponents; else they are None.
    They take points as independent; points that share a network are not, and there they are too small.

    >>> m, L = np.array([1.0, 2.0, 1.0, 2.0, 4.0]), np.array([1.0, 1.0, 3.0, 3.0, 9.0])
    >>> fit = fit_powers({"m": m, "L": L}, 5 * m**0.5 * L**2)
    >>> round(fit.exponents["m"], 12), round(fit.exponents["L"], 12), round(fit.factor, 12)
    (0.5, 2.0, 5.0)
    """
    names = list(variables)
    columns = np.array([np.asarray(variables[name], float) for name in names]).reshape(len(names), -1)
    values = np.asarray(values, float)
    usable = np.isfinite(values) & (values > 0) & np.all(np.isfinite(columns) & (columns > 0), axis=0)
    y = np.log(values[usable])
    design = np.column_stack([np.log(columns[:, usable]).T, np.ones(len(y))])
    count = design.shape[1]
    if len(y) < count or np.linalg.matrix_rank(design) < count:
        return None
    found = np.linalg.lstsq(design, y, rcond=None)[0]
    errors: list[float | None] = [None] * len(names)
    if len(y) > count:
        rest = y - design @ found
        spread = float(rest @ rest) / (len(y) - count)
        errors = np.sqrt(spread * np.diag(np.linalg.inv(design.T @ design)))[:-1].tolist()
    exponents = {name: float(found[i]) for i, name in enumerate(names)}
    return PowerFit(exponents, dict(zip(names, errors, strict=True)), float(np.exp(found[-1])), len(y))


ROUNDING = 1e-12
"""A value that is this share of the largest one is rounding: no law here falls that far over the radii of one audit."""


def fit_exponent(x: np.ndarray, values: np.ndarray, least: int = 3) -> tuple[float | None, float | None]:
    """p with its standard error in values ≈ c · x^p; (None, None) for fewer than `least` values above rounding.

    >>> x = np.array([1.0, 10.0, 100.0])
    >>> exponent, error = fit_exponent(x, 3 * x**0.5)
    >>> round(exponent, 12), error < 1e-12
    (0.5, True)
    """
    x, values = np.asarray(x, float), np.asarray(values, float)
    usable = (x > 0) & (values > 0) & np.isfinite(values)
    usable &= values > ROUNDING * values[usable].max(initial=0.0)
    if np.count_nonzero(usable) < least:
        return None, None
    fit = fit_powers({"x": x[usable]}, values[usable])
    return (None, None) if fit is None else (fit.exponents["x"], fit.errors["x"])


def mean_exponent(exponents: np.ndarray) -> tuple[float | None, float | None]:
    """Mean of one exponent fitted once a seed, and the standard error of that mean: right however points within a seed hang together.

    >>> mean_exponent(np.array([0.9, 1.1]))
    (1.0, 0.1)
    """
    found = np.asarray(exponents, float)
    found = found[np.isfinite(found)]
    if not len(found):
        return None, None
    error = None if len(found) < 2 else round(float(found.std(ddof=1) / len(found) ** 0.5), 15)
    return float(found.mean()), error


Side = Literal["upper", "lower", "both"]
Moment = Literal["start", "random", "training", "adversarial", "trajectory"]
Finished = Literal["holds", "holds with constant", "fails", "out of range", "not measured"]

LARGEST_CONSTANT = 10.0
"""A big-O hides some constant. One beyond this is taken for a violation; an argument of `made`."""

MOMENTS: Mapping[str, str] = {
    "start": "at the start",
    "random": "for random perturbations",
    "training": "along the direction of training",
    "adversarial": "for adversarial perturbations",
    "trajectory": "along the run",
}

PERTURBED = ("random", "training", "adversarial")
"""Moments that are measured by radius."""


@final
@dataclass(frozen=True)
class Law:
    """What a statement of a paper says.

    name: "forward stability". reference: "convergence, Lemma 8.2", registered in core/references.py.
    statement: one plain line with the formula. side: which side the statement bounds; "both" is an order of magnitude.
    exponents: of the right side, by "omega", "L", "m", "n"; one that is missing is not stated.
    explicit: the constant where the statement has one, 2.0 for "≤ 2‖v‖"; None where it hides in a big-O.
    quantity: what is measured, for the axis of a figure: "‖h − h⁰‖".
    """

    name: str
    reference: str
    statement: str
    side: Side
    exponents: Mapping[str, float] = field(default_factory=dict)
    explicit: float | None = None
    quantity: str = ""


@final
@dataclass(frozen=True, eq=False)
class Finding:
    """What was measured for one law, one kind of perturbation, one moment.

    omegas: (p,) radii of the perturbations, or steps for "trajectory"; one 0.0 at the start. values: (p,) the measured
    quantity, the worst over samples and layers. bounds: (p,) the law's right side with constant 1. constant: the largest
    of values / bounds; for a lower law the smallest, for "both" the factor furthest from 1. exponent, exponent_error:
    fitted in ω, where there are several radii. range: what the statement asks for. detail: by layer and so on, for the page.
    rows: how many samples were looked at; None for all. reason: why it was not measured, where it was not.
    """

    law: Law
    moment: Moment
    omegas: np.ndarray
    values: np.ndarray
    bounds: np.ndarray
    constant: float
    exponent: float | None
    exponent_error: float | None
    range: tuple[Assumption, ...]
    verdict: Finished
    words: str
    detail: Mapping[str, np.ndarray] = field(default_factory=dict)
    rows: int | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if self.constant is None:  # how a number that is not finite comes back from result.json
            object.__setattr__(self, "constant", float("nan"))

    @property
    def in_range(self) -> bool:
        """Whether no condition of the statement is known to be unmet."""
        return all(condition.status != "unmet" for condition in self.range)


def made(
    law: Law,
    moment: Moment,
    omegas: Sequence[float] | np.ndarray,
    values: Sequence[float] | np.ndarray,
    bounds: Sequence[float] | np.ndarray,
    range: Sequence[Assumption] = (),
    detail: Mapping[str, np.ndarray] | None = None,
    *,
    note: str = "",
    largest: float = LARGEST_CONSTANT,
    bounded: bool = False,
    spoken: Sequence[bool] | None = None,
    rows: int | None = None,
) -> Finding:
    """The finding these numbers give: exponent, constant, verdict, words.

    A law with an explicit constant holds or not. One with a hidden constant holds with the constant measured, if that is
    at most `largest` (at least 1/`largest` for a lower law) and does not grow without end as ω falls. A law that does
    not hold although all that the statement asks for is met, or not known, fails; so does one that breaks at a radius at
    which the statement speaks, whatever the others are. One that does not hold where a condition is unmet is out of
    range: the statement says nothing there. One that holds in spite of an unmet condition holds, and `words` says so.

    Args:
        omegas: radii; `[0.0]` at the start.
        values, bounds: one a radius.
        range: the conditions of the statement.
        detail: more arrays for the page.
        note: a sentence added to the words, such as which rows were used.
        largest: the constant that counts as a violation of a big-O.
        bounded: the statement is for radii within bounds, which were covered: nothing is concluded for ω → 0.
        spoken: for each radius, whether the statement speaks there; None where that does not depend on the radius.
        rows: how many samples were looked at; None for all.

    >>> law = Law("products", "convergence, Lemma 7.3", "‖W_b … W_a v‖ ≤ 2‖v‖", "upper", {}, explicit=2.0)
    >>> made(law, "start", [0.0], [1.4], [1.0]).verdict, made(law, "start", [0.0], [2.4], [1.0]).verdict
    ('holds', 'fails')
    """
    x, v, b = (np.atleast_1d(np.asarray(a, float)) for a in (omegas, values, bounds))
    if not len(x) == len(v) == len(b):
        raise ValueError(f"{law.name}: {len(x)} radii, {len(v)} values and {len(b)} bounds; expected as many of each")
    if not len(x) or not np.isfinite(v).all():
        return not_measured(law, moment, "a number that was measured is not finite", range)
    ratios = _ratios(v, b)
    constant = _constant(law.side, ratios)
    exponent, error = fit_exponent(x, v) if moment != "trajectory" else (None, None)
    runaway = law.explicit is None and not bounded and _runs_away(law, x, ratios, exponent, error)
    holds = _within(law, constant, largest) and not runaway
    unmet = [condition for condition in range if condition.status == "unmet"]
    if holds:
        verdict: Finished = "holds" if law.explicit is not None else "holds with constant"
    else:
        broken = spoken is not None and _broken(law, ratios[np.asarray(spoken, bool)], largest)
        verdict = "out of range" if unmet and not broken else "fails"
    reach = None if holds or moment not in PERTURBED else _reach(law, x, ratios, largest)
    words = _words(law, moment, verdict, constant, exponent, error, unmet, runaway, reach, largest)
    return Finding(law, moment, x, v, b, constant, exponent, error, tuple(range), verdict,
                   f"{words} {note}".strip(), dict(detail or {}), rows)  # fmt: skip


def reach_of(finding: Finding, largest: float = LARGEST_CONSTANT) -> float | None:
    """The largest radius up to which the law holds at every radius measured; None where it does at none.

    >>> law = Law("change", "convergence, Lemma 8.2", "≤ O(ω)", "upper", {"omega": 1.0})
    >>> reach_of(made(law, "random", [0.1, 0.2, 0.4], [0.1, 0.2, 9.0], [0.1, 0.2, 0.4]))
    0.2
    """
    if finding.moment not in PERTURBED or not len(finding.values):
        return None
    return _reach(finding.law, finding.omegas, _ratios(finding.values, finding.bounds), largest)


def looseness(law: Law, constant: float) -> float | None:
    """By what factor a law that hides its constant could be sharpened here; None where it has a constant of its own.

    >>> lower = Law("gradient", "convergence, Thm 3", "≥ Ω(1)", "lower")
    >>> looseness(lower, 814_000.0), looseness(Law("products", "convergence, Lemma 7.3", "≤ O(1)", "upper"), 0.05)
    (814000.0, 20.0)
    """
    if law.explicit is not None or law.side == "both" or not 0 < constant < np.inf:
        return None
    return constant if law.side == "lower" else 1 / constant


def not_measured(law: Law, moment: Moment, why: str, range: Sequence[Assumption] = ()) -> Finding:
    """The finding of a law that could not be measured on this network, and why."""
    nothing, constant, words = np.zeros(0), float("nan"), f"Not measured: {why}."
    return Finding(
        law, moment, nothing, nothing, nothing, constant, None, None, tuple(range), "not measured", words, reason=why
    )


def _ratios(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Values over bounds, finite also where a bound is 0."""
    with np.errstate(over="ignore"):
        return np.minimum(values / np.where(bounds > 0, bounds, np.finfo(float).tiny), np.finfo(float).max)


def _reach(law: Law, x: np.ndarray, ratios: np.ndarray, largest: float) -> float | None:
    found = None
    for place in np.argsort(x):
        if not _within(law, _constant(law.side, ratios[place : place + 1]), largest):
            break
        found = float(x[place])
    return found


def _constant(side: Side, ratios: np.ndarray) -> float:
    if side == "upper":
        return float(ratios.max())
    if side == "lower":
        return float(ratios.min())
    with np.errstate(divide="ignore"):
        away = np.maximum(ratios, 1 / np.abs(ratios))
    return float(away.max())


def _broken(law: Law, ratios: np.ndarray, largest: float) -> bool:
    """Whether the law does not hold at the radii it speaks of, if there are any."""
    return bool(len(ratios)) and not _within(law, _constant(law.side, ratios), largest)


def _within(law: Law, constant: float, largest: float) -> bool:
    allowed, slack = law.explicit, 1e-9
    if law.side == "lower":
        least = 1 / largest if allowed is None else allowed
        return constant >= least * (1 - slack) and constant > 0
    return constant <= (largest if allowed is None else allowed) * (1 + slack)


def _runs_away(law: Law, x: np.ndarray, ratios: np.ndarray, exponent: float | None, error: float | None) -> bool:
    """Whether the constant keeps growing (upper) or falling (lower) as ω → 0, so that no constant is enough."""
    stated = law.exponents.get("omega")
    if stated is None or exponent is None or error is None or law.side == "both":
        return False
    gap = (stated - exponent) if law.side == "upper" else (exponent - stated)
    order = np.argsort(x)
    least = order[(x[order] > 0) & (ratios[order] > 0)][:3]
    if len(least) < 3:
        return False
    sign = 1 if law.side == "upper" else -1
    growth = -sign * np.diff(np.log(ratios[least])) / np.diff(np.log(x[least]))  # of the constant, as a power of 1/ω
    beyond = sign * np.log(ratios[least[0]]) > 0  # a bound not reached with constant 1 is not broken where measured
    return bool(gap > max(3 * error, 0.1) and beyond and (growth > 0.1).all())


def _words(
    law: Law, moment: Moment, verdict: Finished, constant: float, exponent: float | None, error: float | None,
    unmet: list[Assumption], runaway: bool, reach: float | None, largest: float,
) -> str:  # fmt: skip
    where, measured = MOMENTS[moment], number(constant, 3)
    verb = "asks for" if law.side == "lower" else "allows"
    stated = "" if law.explicit is None else f" where the law {verb} {law.explicit:g}"
    if verdict == "holds":
        text = f"Holds {where}: measured {measured}{stated}."
    elif verdict == "holds with constant":
        text = f"Holds {where} with constant {measured}."
        loose = looseness(law, constant)
        if loose is not None and loose > largest:
            factor = number(loose, 3)
            text = (
                f"Holds {where}, and is loose by {factor}: what was measured is {factor} times the bound."
                if law.side == "lower"
                else f"Holds {where}, and is loose by {factor}: what was measured is {measured} of the bound."
            )
    else:
        hidden = " with a constant of order 1" if law.explicit is None else ""
        text = f"Does not hold {where}{hidden}: measured {measured}{stated}."
    if reach is not None and not runaway:
        text += f" It holds up to ω = {reach:.3g}."
    if runaway:
        text += " The constant keeps growing as ω falls." if law.side == "upper" else " The constant falls with ω."
    power = law.exponents.get("omega")
    if exponent is not None and power is not None:
        bar = "" if error is None else f" ± {error:.2g}"
        text += f" Exponent in ω {exponent:.2f}{bar}, the law's is {power:.3g}."
    if unmet and verdict == "out of range":
        text += f" But the statement asks for more: {unmet[0].statement}."
    elif unmet and verdict == "fails":
        text += " It fails at a radius of which the statement speaks."
    elif unmet:
        text += f" It need not: {unmet[0].statement} is unmet."
    return text
