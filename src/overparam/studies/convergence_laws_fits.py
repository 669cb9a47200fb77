"""Exponents over networks of many sizes, one point a network, with standard errors from the scatter over draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from overparam.audits.fits import fit_powers, mean_exponent

AXES = ("m", "L", "n")


@dataclass(frozen=True)
class Cell:
    """One network: width, the paper's L, samples, and the axes of the star it lies on."""

    m: int
    L: int
    n: int
    axes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Measured:
    """What one audit found for one law and moment; the fields of `Finding` and its `Law` that the study needs."""

    cell: Cell
    seed: int
    law: str
    reference: str
    statement: str
    side: str
    exponents: Mapping[str, float]
    explicit: float | None
    moment: str
    constant: float | None
    exponent: float | None
    verdict: str
    values: np.ndarray
    bounds: np.ndarray
    omegas: np.ndarray


@dataclass(frozen=True)
class Row:
    """One law and moment over the whole star. exponents, errors: by "omega", "m", "L", "n", with standard
    errors; that in ω is the mean over all audits. stated: the law's own; where it names none, or hides it in a sparsity that grows with m, that of the
    bound. constant: the hardest of all audits; where: at which m, L, n. holds, audits: in how many of them it held."""

    law: str
    reference: str
    statement: str
    side: str
    moment: str
    exponents: Mapping[str, float | None]
    errors: Mapping[str, float | None]
    stated: Mapping[str, float | None]
    constant: float
    where: str
    holds: int
    audits: int

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def summarise(measured: Sequence[Measured]) -> list[Row]:
    """One row a law and moment, in the order of the audits."""
    groups: dict[tuple[str, str], list[Measured]] = {}
    for one in measured:
        groups.setdefault((one.law, one.moment), []).append(one)
    return [_row(own) for own in groups.values() if any(len(one.values) for one in own)]


def slope_along(measured: Sequence[Measured], axis: str, of: str = "values") -> tuple[float | None, float | None]:
    """The power of m, L or n and its standard error: one point a network, the mean of log values over the radii.

    Networks of one axis differ in the draw of their weights, so that the scatter around the line says how another draw
    would be. Radii at which a value is 0 are left out for all of them.

    >>> cells = [Cell(m, 2, 5, ("m",)) for m in (8, 16, 32)]
    >>> found = [Measured(c, 0, "law", "", "", "upper", {}, None, "random", 1.0, None, "holds",
    ...                   c.m**0.5 * np.array([1.0, 7.0]), np.ones(2), np.array([0.1, 1.0])) for c in cells]
    >>> exponent, error = slope_along(found, "m")
    >>> round(exponent, 12), error < 1e-9
    (0.5, True)
    """
    own = [one for one in measured if axis in one.cell.axes and len(one.values)]
    if not own:
        return None, None
    perturbed = all(one.moment in ("random", "training", "adversarial") for one in own)
    shortest = min(len(one.values) for one in own)
    # Over sparsities, layers and steps of a run only the worst number is like another network's.
    table = np.array([getattr(one, of)[:shortest] if perturbed else [_worst(one, getattr(one, of))] for one in own])
    usable = (table > 0).all(axis=0)
    if not usable.any():
        return None, None
    means = np.exp(np.log(table[:, usable]).mean(axis=1))
    fit = fit_powers({axis: np.array([getattr(one.cell, axis) for one in own], float)}, means)
    return (None, None) if fit is None else (fit.exponents[axis], fit.errors[axis])


def _worst(one: Measured, numbers: np.ndarray) -> float:
    return float(numbers.min() if one.side == "lower" and numbers is one.values else numbers.max())


def _row(own: list[Measured]) -> Row:
    first = own[0]
    exponents: dict[str, float | None] = {}
    errors: dict[str, float | None] = {}
    stated: dict[str, float | None] = {}
    fitted = [one.exponent for one in own if one.exponent is not None]
    exponents["omega"], errors["omega"] = mean_exponent(np.array(fitted))
    stated["omega"] = first.exponents.get("omega")
    for axis in AXES:
        exponents[axis], errors[axis] = slope_along(own, axis)
        plain = first.exponents.get(axis) if "s" not in first.exponents else None
        stated[axis] = plain if plain is not None else slope_along(own, axis, "bounds")[0]
    known = [one for one in own if one.constant is not None]
    worst = (min if first.side == "lower" else max)(known, key=lambda one: one.constant or 0.0)
    return Row(
        law=first.law,
        reference=first.reference,
        statement=first.statement,
        side=first.side,
        moment=first.moment,
        exponents=exponents,
        errors=errors,
        stated=stated,
        constant=float(worst.constant or 0.0),
        where=f"m = {worst.cell.m:,}, L = {worst.cell.L}, n = {worst.cell.n:,}",
        holds=sum(one.verdict.startswith("holds") for one in known),
        audits=len(known),
    )
