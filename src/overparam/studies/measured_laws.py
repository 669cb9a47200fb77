"""What the studies of laws share: one audit as a part, and exponents over networks of many sizes.

An exponent has one point a network, and a standard error from the scatter over draws.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from overparam.audits import Audit, Effort, audit
from overparam.audits.laws import Finding, mean_exponent
from overparam.core.sections import Text
from overparam.data import Dataset, load
from overparam.frame import Work
from overparam.studies.study import Found

AXES = ("m", "L", "n")
SHOWN = {"omega": "ω", "kappa": "κ", "alpha": "α"}
AT = 1e-2
"""The radius at which values are drawn against m, L and n."""


@dataclass(frozen=True)
class Cell:
    """One network: width, the paper's L, samples, the axes of the star it lies on, and the scale of its first weights and the α of its
    target where those are axes."""

    m: int
    L: int
    n: int
    axes: tuple[str, ...]
    kappa: float = 1.0
    alpha: float = 1.0

    def where(self, axes: Sequence[str]) -> str:
        """Its sizes in words.

        >>> Cell(1000, 2, 5, ("m",)).where(AXES), Cell(8, 0, 5, ("m",), 0.1).where(("m", "kappa"))
        ('m = 1,000, L = 2, n = 5', 'm = 8, κ = 0.1')
        """
        return ", ".join(f"{SHOWN.get(axis, axis)} = {getattr(self, axis):,}" for axis in axes)


def star(*along: tuple[str, Sequence[float], Mapping[Any, float]]) -> tuple[Cell, ...]:
    """Every network once, with the axes it lies on, from each axis, its sizes and what the other sizes are along it.

    >>> [(c.m, c.n, c.axes) for c in star(("m", (8, 16), {"L": 2, "n": 5}), ("n", (5,), {"m": 8, "L": 2}))]
    [(8, 5, ('m', 'n')), (16, 5, ('m',))]
    """
    found: dict[Cell, list[str]] = {}
    for axis, sizes, others in along:
        for size in sizes:
            sized: dict[str, Any] = {**others, axis: size}
            found.setdefault(Cell(**sized, axes=()), []).append(axis)
    return tuple(replace(cell, axes=tuple(axes)) for cell, axes in found.items())


def each_seed(cells: Sequence[Cell], axes: Sequence[str], seeds: int) -> dict[str, tuple[Cell, int]]:
    """Every audit, a network and a seed, by the name of its part.

    >>> list(each_seed([Cell(1000, 2, 5, ("m",), 0.1)], ("m", "kappa"), 2))
    ['m = 1000, κ = 0.1, seed 0', 'm = 1000, κ = 0.1, seed 1']
    """
    named = {", ".join(f"{SHOWN.get(axis, axis)} = {getattr(cell, axis):g}" for axis in axes): cell for cell in cells}
    return {f"{name}, seed {seed}": (cell, seed) for name, cell in named.items() for seed in range(seeds)}


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
    rows: int | None = None
    """Samples it was measured on, where told: costly laws look at fewer than n."""


@dataclass(frozen=True)
class Row:
    """One law and moment over the whole star. exponents, errors: by "omega", "m", "L", "n", "kappa", with standard
    errors; that in ω is the mean over networks. None where the size did not change what was measured. stated: the law's own; that of the bound where
    the law names none, hides it in a sparsity that grows with m, or is a lower one, whose δ falls as n grows. constant: the hardest of all
    audits; where: at which m, L, n. holds, audits: in how many of them it held. between: the smallest and largest exponent in ω of a network.
    gain: the median over audits of the constant over that of random perturbations of the same network."""

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
    between: tuple[float, float] | None = None
    gain: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The row as plain values, which `rows_in` reads back."""
        return asdict(self)


def audited(
    work: Work, network: Any, rows: Dataset, key: int, omegas: Sequence[float] | None, effort: Effort,
    laws: Sequence[str] | None,
) -> Audit:  # fmt: skip
    """One audit as a part."""
    spent = replace(effort, rows=max(effort.rows, rows.n))  # or n would be that of the effort in most laws
    return audit(
        network, rows, key=key, omegas=omegas, max_rows=rows.n, laws=laws, effort=spent, device=work.device,
        place=work.place, progress=work.progress,
    )  # fmt: skip


def findings_of(findings: Sequence[Finding], cell: Cell, seed: int) -> list[Measured]:
    """What was found on one network, without the radii at which it is no number."""
    found = []
    for f in findings:
        there = np.isfinite(f.values)
        about = {name: getattr(f.law, name) for name in ("reference", "statement", "side", "exponents", "explicit")}
        about |= {name: getattr(f, name) for name in ("moment", "exponent", "verdict")}
        about |= {name: getattr(f, name)[there] for name in ("values", "bounds", "omegas")}
        constant = f.constant if np.isfinite(f.constant) else None
        found.append(Measured(cell, seed, f.law.name, constant=constant, rows=f.rows or cell.n, **about))
    return found


def measured_in(found: Found, audits: Mapping[str, tuple[Cell, int]]) -> list[Measured]:
    """What the audits found, a part a network and seed."""
    return [one for part, (cell, seed) in audits.items() for one in findings_of(found[part].findings, cell, seed)]


def load_rows(name: str, count: int) -> Dataset:
    """A data set of which so many rows are needed: the large ones are not read whole."""
    return load(name, train=count) if name in ("mnist", "fashion-mnist") else load(name)


def rows_of(data: Dataset, n: int, seed: int, first: int) -> Dataset:
    """n rows of a seed's own; where there are too few for that, a draw of them."""
    if data.n >= n * (seed + 1):
        return data.take(slice(n * seed, n * (seed + 1)))
    if data.n < n:
        raise ValueError(f"{data.name} has {data.n:,} rows and the study needs {n:,}; name smaller samples")
    return data.take(np.sort(np.random.default_rng([first, seed]).permutation(data.n)[:n]))


def summarise(measured: Sequence[Measured], axes: Sequence[str] = AXES) -> list[Row]:
    """One row a law and moment, in the order of the audits, with exponents along these axes."""
    groups: dict[tuple[str, str], list[Measured]] = {}
    for one in measured:
        groups.setdefault((one.law, one.moment), []).append(one)
    return [
        _row(own, groups.get((law, "random"), []), axes)
        for (law, _), own in groups.items()
        if any(len(one.values) for one in own) and any(one.constant is not None for one in own)
    ]


def how_many_hold(rows: Sequence[Row], before: str = "", after: str = ".") -> Text:
    """How many findings hold, between other words: a warning where some do not."""
    held, audits = sum(row.holds for row in rows), sum(row.audits for row in rows)
    return Text(f"{before}{held:,} of {audits:,} findings hold{after}", "good" if held == audits else "warning")


def arrays_of(rows: Sequence[Row], axes: Sequence[str] = AXES) -> dict[str, np.ndarray]:
    """The rows as columns: law, moment, constant, and by axis what was measured, its error and the law's."""
    found = {name: np.array([getattr(row, name) for row in rows]) for name in ("law", "moment", "constant")}
    for axis in ("omega", *axes):
        for what in ("exponents", "errors", "stated"):
            kept = [getattr(row, what).get(axis) for row in rows]
            found[f"{axis}.{what}"] = np.array([np.nan if value is None else value for value in kept], float)
    return found


def curves_of(measured: Sequence[Measured], axes: Sequence[str] = AXES) -> list[dict[str, Any]]:
    """For every law, axis and moment with several sizes: the means over seeds of what was measured at one radius, and of
    the bound."""
    found = []
    laws, moments = ({getattr(one, name): None for one in measured} for name in ("law", "moment"))
    for law, axis, moment in itertools.product(laws, axes, moments):
        own = [one for one in measured if (one.law, one.moment) == (law, moment) and axis in one.cell.axes]
        own = [one for one in own if len(one.values)]
        sizes = sorted({getattr(one.cell, axis) for one in own})
        if len(sizes) > 1:
            about = {"law": law, "statement": own[0].statement, "reference": own[0].reference}
            means = {
                of: [float(np.mean([_at(one, of) for one in own if getattr(one.cell, axis) == size])) for size in sizes]
                for of in ("values", "bounds")
            }
            found.append(about | {"axis": axis, "moment": moment, "sizes": sizes} | means)
    return found


def _at(one: Measured, of: str) -> float:
    numbers = getattr(one, of)
    if one.moment in ("random", "training", "adversarial"):
        return float(numbers[int(np.argmin(np.abs(np.log(one.omegas / AT))))])
    return float(numbers.min() if one.side == "lower" and of == "values" else numbers.max())


def exponent_in_omega(
    measured: Sequence[Measured],
) -> tuple[float | None, float | None, tuple[float, float] | None]:
    """The mean over networks of the exponents in ω, its standard error, and the smallest and largest of a network.

    Audits are not draws of one number: networks of other sizes have other exponents, and audits of one seed share rows. So a network counts once, however
    many seeds it has, and the error is that of the mean over seeds, each the mean of the networks that all seeds have, or what the
    scatter of seeds within a network gives where that is larger: of two or three seeds one alone may be small by luck. None for one seed.

    >>> cells = [Cell(m, 2, 5, ("m",)) for m in (8, 16)]
    >>> found = [Measured(c, seed, "", "", "", "upper", {}, None, "random", 1.0, p, "holds", np.ones(1), np.ones(1), np.ones(1))
    ...          for c, own in zip(cells, [(0.4, 0.6), (0.8, 1.0)]) for seed, p in enumerate(own)]
    >>> mean, error, between = exponent_in_omega(found)
    >>> round(mean, 12), round(error, 12), between
    (0.7, 0.1, (0.5, 0.9))
    """
    by_cell: dict[tuple[float, ...], dict[int, float]] = {}
    for one in measured:
        if one.exponent is not None:
            by_cell.setdefault((one.cell.m, one.cell.L, one.cell.n, one.cell.kappa), {})[one.seed] = one.exponent
    if not by_cell:
        return None, None, None
    means = [float(np.mean(list(own.values()))) for own in by_cell.values()]
    seeds = sorted({seed for own in by_cell.values() for seed in own})
    shared = np.array([[own[seed] for seed in seeds] for own in by_cell.values() if len(own) == len(seeds)])
    error = None
    if len(seeds) > 1 and len(shared):
        within = shared.var(axis=1, ddof=1).mean() / shared.size
        error = max(mean_exponent(shared.mean(axis=0))[1] or 0.0, float(np.sqrt(within)))
    return float(np.mean(means)), error, (min(means), max(means))


def slope_along(measured: Sequence[Measured], axis: str, of: str = "values") -> tuple[float | None, float | None]:
    """The power of m, L or n and its standard error: one point a network, the mean of log values over the radii.

    One slope for all seeds, and a level for each: networks of one seed share their rows, and along n their weights, and so
    are high or low together. What is left around the lines is how another draw would be. Radii at which a value is 0 are left out for all.

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
    usable = np.atleast_1d(((table > 0) & np.isfinite(table)).all(axis=0))  # a bound may be ∞: it allows anything
    if not usable.any():
        return None, None
    y = np.log(table[:, usable]).mean(axis=1)
    if perturbed:
        y -= _from_radii(own, usable, of)
    x = np.log(np.array([getattr(one.cell, axis) for one in own], float))
    seeds = np.array([one.seed for one in own])
    for seed in set(seeds.tolist()):
        x[seeds == seed] -= x[seeds == seed].mean()
        y[seeds == seed] -= y[seeds == seed].mean()
    spread, free = float(x @ x), len(x) - len(set(seeds.tolist())) - 1
    if not spread > 1e-12:
        return None, None
    slope = float(x @ y) / spread
    rest = y - slope * x
    return slope, float(np.sqrt(rest @ rest / free / spread)) if free > 0 else None


def _from_radii(own: Sequence[Measured], usable: np.ndarray, of: str) -> np.ndarray:
    """What each audit gains by its radii being larger than the mean one's: 0 where all have the same radii.

    By its measured power of ω, or the law's own for its bound. Radii of couplings are shares of what their lemmas ask for, and so
    change with m.
    """
    radii = np.array([np.log(one.omegas[: len(usable)][usable]).mean() for one in own])
    powers = [one.exponent if of == "values" else one.exponents.get("omega") for one in own]
    return np.array([power or 0.0 for power in powers]) * (radii - radii.mean())


def _worst(one: Measured, numbers: np.ndarray) -> float:
    return float(numbers.min() if one.side == "lower" and numbers is one.values else numbers.max())


def _stated(own: list[Measured], axis: str) -> float | None:
    """The law's own power. Of a lower law the bound's: its δ is that of the rows at hand, and so falls with n."""
    first = own[0]
    plain = first.exponents.get(axis) if "s" not in first.exponents and first.side != "lower" else None
    if plain is not None:
        return plain
    bound = slope_along(own, axis, "bounds")[0]
    return None if bound is None else round(bound, 9)


def _same_rows(own: list[Measured], axis: str) -> bool:
    """Whether n went through its values while the rows that were looked at stayed as many: then it says nothing of n."""
    along = [one for one in own if axis in one.cell.axes and len(one.values)]
    if axis != "n" or len({one.cell.n for one in along}) < 2:
        return False
    told = {one.rows for one in along}
    if None not in told:
        return len(told) == 1
    bound = slope_along(own, axis, "bounds")[0]
    return own[0].side == "upper" and bool(own[0].exponents.get(axis)) and bound is not None and abs(bound) < 1e-9


def _gain(own: list[Measured], random: list[Measured]) -> float | None:
    """The median of the constant over the random one's, network by network."""
    by = {(one.cell, one.seed): one.constant for one in random}
    pairs = [(one.constant, by.get((one.cell, one.seed))) for one in own]
    ratios = [high / low for high, low in pairs if high is not None and low is not None and low > 0]
    return float(np.median(ratios)) if ratios and own[0].moment != "random" else None


def _row(own: list[Measured], random: list[Measured], axes: Sequence[str]) -> Row:
    first = own[0]
    *in_omega, between = exponent_in_omega(own)
    found = {axis: (None, None) if _same_rows(own, axis) else slope_along(own, axis) for axis in axes}
    exponents, errors = ({"omega": in_omega[i]} | {axis: found[axis][i] for axis in axes} for i in (0, 1))
    stated = {"omega": first.exponents.get("omega")} | {axis: _stated(own, axis) for axis in axes}
    known = [one for one in own if one.constant is not None]
    worst = (min if first.side == "lower" else max)(known, key=lambda one: one.constant or 0.0)
    where = worst.cell.where(axes)
    holds = sum(one.verdict.startswith("holds") for one in known)
    about = (first.law, first.reference, first.statement, first.side, first.moment, exponents, errors, stated)
    return Row(*about, float(worst.constant or 0.0), where, holds, len(known), between, _gain(own, random))
