"""What every renderer needs before drawing: points that fit the axes, ranges, ticks, thinning, bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Real

from overparam.core.sections import Figure, Line, Series
from overparam.core.words import MISSING, number, power_of_ten

Number = float | None
BAND_DECADES = 1.0
"""How far a band may push a log axis beyond its curves: a bracket down to 1e-300 would flatten them."""


@dataclass(frozen=True)
class Canvas:
    """A figure ready to draw: values a log axis cannot show are gaps, `x_range` and `y_range` are axis units.

    Axis units are log10 of the value on a log axis, the value itself on a linear one and the
    index of the category where x has words.
    """

    figure: Figure
    series: tuple[Series, ...]
    lines: tuple[Line, ...]
    categories: tuple[str, ...]
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    left_out: tuple[tuple[str, int, int], ...]
    """Name, points drawn and points there are, of each series that was thinned."""

    @property
    def x_log(self) -> bool:
        return self.figure.x_scale == "log" and not self.categories

    @property
    def y_log(self) -> bool:
        return self.figure.y_scale == "log"

    @property
    def floor(self) -> float:
        """The lowest value of y that the axis shows; positive on a log axis."""
        return max(10.0 ** max(self.y_range[0], -307.0), 1e-307) if self.y_log else self.y_range[0]


def canvas(figure: Figure, limit: int = 4000) -> Canvas:
    """`figure` with at most about `limit` points a series and the ranges that show all of it."""
    categories = _categories(figure.series)
    x_log = figure.x_scale == "log" and not categories
    y_log = figure.y_scale == "log"
    cleaned = [_clean(s, categories, x_log, y_log) for s in figure.series]
    thinned = [_thin(s, limit, x_log) if not categories else s for s in cleaned]
    left_out = tuple(
        (old.name, len(new.x), len(old.x)) for old, new in zip(cleaned, thinned, strict=True) if len(new.x) < len(old.x)
    )
    lines = tuple(line for line in figure.lines if _shown(line, x_log, y_log))
    x_range = _x_range(thinned, lines, categories, x_log)
    y_range = _y_range(thinned, lines, y_log)
    return Canvas(figure, tuple(thinned), lines, categories, x_range, y_range, left_out)


def unit(value: float, log: bool) -> float:
    """A value in axis units."""
    return math.log10(value) if log else value


def _categories(series: Sequence[Series]) -> tuple[str, ...]:
    if not any(isinstance(value, str) for s in series for value in s.x):
        return ()
    return tuple(dict.fromkeys(category(value) for s in series for value in s.x))


def category(value: float | str | None) -> str:
    return value if isinstance(value, str) else MISSING if value is None else f"{value:g}"


def _clean(series: Series, categories: Sequence[str], x_log: bool, y_log: bool) -> Series:
    """Drops points without a place on x; a y without a place is a gap, a bracket below a log axis is 0."""
    keep = [
        i
        for i, x in enumerate(series.x[: len(series.y)])
        if categories or (_is_number(x) and (not x_log or x > 0))  # type: ignore[operator]
    ]

    def take(values: Sequence[Number] | None) -> tuple[Number, ...] | None:
        if values is None:
            return None
        return tuple(values[i] if i < len(values) and _is_number(values[i]) else None for i in keep)

    y = take(series.y) or ()
    return replace(
        series,
        x=tuple(category(series.x[i]) if categories else float(series.x[i]) for i in keep),
        y=tuple(None if v is None or (y_log and v <= 0) else v for v in y),
        lower=take(series.lower),
        upper=take(series.upper),
    )


def _is_number(value: object) -> bool:
    if type(value) is float:  # nearly always, and ten times faster than asking about Real
        return math.isfinite(value)
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _thin(series: Series, limit: int, x_log: bool) -> Series:
    """Fewer points that look the same, chosen by slices of the x axis as it is drawn.

    A curve keeps the lowest and highest point of each narrow slice; a cloud keeps up to eight
    points of each, evenly in their order, so that sparse parts stay whole and dense ones dense.
    """
    if len(series.x) <= limit:
        return series
    places = [unit(x, x_log) for x in series.x]  # type: ignore[arg-type]
    first, width = min(places), (max(places) - min(places)) or 1.0
    cloud = series.mark == "points"
    count = max(1, limit // (8 if cloud else 2) - 1)
    slices: dict[int, list[int]] = {}
    for i, place in enumerate(places):
        slices.setdefault(int((place - first) / width * count), []).append(i)
    keep: set[int] = set()
    for members in slices.values():
        drawn = [i for i in members if series.y[i] is not None]
        if cloud:
            keep.update(drawn[k * len(drawn) // 8] for k in range(8) if drawn)
        elif drawn:
            keep.add(min(drawn, key=lambda i: series.y[i]))  # type: ignore[arg-type, return-value]
            keep.add(max(drawn, key=lambda i: series.y[i]))  # type: ignore[arg-type, return-value]
        if not cloud and len(drawn) < len(members):
            keep.add(next(i for i in members if series.y[i] is None))
    order = sorted(keep)

    def take(values: Sequence | None) -> tuple | None:
        return None if values is None else tuple(values[i] for i in order)

    return replace(series, x=take(series.x), y=take(series.y), lower=take(series.lower), upper=take(series.upper))


def _shown(line: Line, x_log: bool, y_log: bool) -> bool:
    if line.x is not None:
        return _is_number(line.x) and (not x_log or line.x > 0)
    return line.y is not None and _is_number(line.y) and (not y_log or line.y > 0)


def _x_range(series: Sequence[Series], lines: Sequence[Line], categories: Sequence[str], log: bool):
    if categories:
        return -0.6, len(categories) - 0.4
    places = [unit(x, log) for s in series for x in s.x]  # type: ignore[arg-type]
    places += [unit(line.x, log) for line in lines if line.x is not None]
    low, high = _spread(places, log)
    bars = [s for s in series if s.mark == "bars" and len(s.x) > 1]
    pad = 0.025 * (high - low)
    if bars:  # half a bar stands beyond the outermost x
        steps = sorted({unit(x, log) for s in bars for x in s.x})  # type: ignore[arg-type]
        pad = max(pad, 0.6 * min((b - a for a, b in pairwise(steps)), default=pad))
    return low - pad, high + pad


def _y_range(series: Sequence[Series], lines: Sequence[Line], log: bool):
    places = [unit(y, log) for s in series for y in s.y if y is not None]
    places += [unit(line.y, log) for line in lines if line.y is not None and line.x is None]
    low, high = _spread(places, log)
    for s in series:
        for bound in (*(s.lower or ()), *(s.upper or ())):
            if bound is not None and (not log or bound > 0):
                place = unit(bound, log)
                if log:
                    place = min(
                        max(place, min(places, default=0.0) - BAND_DECADES),
                        max(places, default=0.0) + BAND_DECADES,
                    )
                low, high = min(low, place), max(high, place)
    pad = 0.05 * (high - low)
    if not log and any(s.mark == "bars" for s in series):
        low, high = min(low, 0.0), max(high, 0.0)
        return (low - pad if low < 0 else 0.0), (high + pad if high > 0 else 0.0)
    if not log and 0 <= low < 0.1 * (high - low):  # an axis that almost reaches 0 starts there
        return (-0.5 * pad if low < 0.2 * pad else 0.0), high + pad
    return low - pad, high + pad


def _spread(places: Sequence[float], log: bool) -> tuple[float, float]:
    if not places:
        return 0.0, 1.0
    low, high = min(places), max(places)
    if high > low:
        return low, high
    reach = 0.5 if log else abs(high) * 0.1 or 0.5
    return low - reach, high + reach


def band(series: Series, y_log: bool, floor: float) -> list[list[tuple[float | str, float, float]]]:
    """The unbroken stretches of a band as (x, lower, upper); on a log axis it ends at `floor`, never at 0."""
    if series.lower is None or series.upper is None:
        return []
    stretches: list[list[tuple[float | str, float, float]]] = [[]]
    for x, low, high in zip(series.x, series.lower, series.upper, strict=True):
        if low is None or high is None or (y_log and high <= 0):
            stretches.append([])
            continue
        if y_log:
            low, high = max(low, floor), max(high, floor)
        stretches[-1].append((x, low, high))
    return [stretch for stretch in stretches if stretch]


def ticks(low: float, high: float, log: bool, most: int = 7) -> list[float]:
    """Round values between two ends in axis units; values, not axis units, come back.

    >>> ticks(0.0, 1.0, log=False, most=6)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    >>> ticks(-3.2, 0.1, log=True)
    [0.001, 0.01, 0.1, 1.0]
    """
    if log:
        first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
        if last - first >= 2:
            step = max(1, math.ceil((last - first + 1) / most))
            start = math.ceil(first / step) * step
            return [10.0**k for k in range(start, last + 1, step)]
        digits = (1, 2, 5) if high - low > 0.5 else (1, 1.5, 2, 3, 4, 5, 6, 7, 8)
        found = [d * 10.0**k for k in range(math.floor(low), math.ceil(high) + 1) for d in digits]
        return [v for v in found if low - 1e-9 <= math.log10(v) <= high + 1e-9]
    rough = (high - low) / max(1, most - 1)
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_words(values: Sequence[float], log: bool) -> list[tuple[float, str]]:
    """Ticks with their words; a log axis that needs a power of ten writes all of them so.

    >>> [words for _, words in tick_words([1e-4, 1e-2, 1.0], log=True)]
    ['10⁻⁴', '10⁻²', '1']
    """
    powers = [round(math.log10(value)) if log and value > 0 else 0 for value in values]
    exact = all(math.isclose(value, 10.0**power, rel_tol=1e-9) for value, power in zip(values, powers, strict=True))
    if log and exact and any(not -3 < power < 5 for power in powers):
        words = ["1" if p == 0 else "10" if p == 1 else power_of_ten(p) for p in powers]
    else:
        words = [number(value) for value in values]
    return list(zip(values, words, strict=True))
