"""Where labels of reference lines go in a static figure: clear of each other, the edges and the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from overparam.report.axes import Canvas

CHARACTER, ROW = 6.6, 16
"""Width of a letter at 12 px, generously, and height of a row of text."""

Point = tuple[float, float]
Place = Callable[[float | str], float]


@dataclass(frozen=True)
class Label:
    """A label with its left end, its baseline or row, and the place of its line."""

    words: str
    left: float
    row: float
    at: float


def cut(words: str, most: int) -> str:
    """`words`, or their beginning and an ellipsis."""
    return words if len(words) <= most else words[: max(1, most - 1)].rstrip() + "…"


def above(lines: Iterable[tuple[float, str]], left: float, right: float) -> tuple[list[Label], int]:
    """Labels of vertical lines at (x, words) in rows above the plot, and how many rows.

    Taken from the right: a line further left then passes beside the labels already placed.
    """
    rows: list[list[tuple[float, float]]] = []
    labels = []
    for at, words in sorted(lines, reverse=True):
        words = cut(words, int((right - left) / CHARACTER))
        width = len(words) * CHARACTER + 8
        start = at + 3 if at + width < right else max(left, min(at, right) - width)
        fits = (r for r, row in enumerate(rows) if all(start > b or start + width < a for a, b in row))
        row = next(fits, len(rows))
        if row == len(rows):
            rows.append([])
        rows[row].append((min(start, at), max(start + width, at)))
        labels.append(Label(words, start, row, at))
    return labels, len(rows)


def beside(
    lines: Iterable[tuple[float, str]], box: tuple[float, float, float, float], dots: Sequence[Point]
) -> list[Label]:
    """Labels of horizontal lines at (y, words) in `box` (left, top, right, bottom), where they hide least.

    Each stands at one end of its line, above or below it; `row` is the baseline.
    """
    left, top, right, bottom = box
    taken: list[tuple[float, float, float]] = []
    labels = []
    for at, words in lines:
        words = cut(words, int(0.8 * (right - left) / CHARACTER))
        width = len(words) * CHARACTER
        best, least = (right - 4 - width, at - 5), float("inf")
        for start in (right - 4 - width, left + 6):
            for base in (at - 5, at + 14):
                cost = 1e6 * (base - 11 < top or base + 2 > bottom)
                cost += 1e4 * sum(abs(base - b) < 14 and start < r and l < start + width for l, r, b in taken)
                cost += sum(start < x < start + width and base - 12 < y < base + 3 for x, y in dots)
                if cost < least:
                    best, least = (start, base), cost
        taken.append((best[0], best[0] + width, best[1]))
        labels.append(Label(words, best[0], best[1], at))
    return labels


def obstacles(drawn: Canvas, x_at: Place, y_at: Place, width: float, low: float) -> list[Point]:
    """Where the data are, in the pixels of `x_at` and `y_at`: points, and for bars their whole body down to `low`."""
    dots: list[Point] = []
    for series in drawn.series:
        reach = 0.35 * width / max(1, len(series.x))
        for x, y in zip(series.x, series.y, strict=True):
            if y is None:
                continue
            left, top = x_at(x), y_at(y)
            dots.append((left, top))
            if series.mark == "bars":
                heights = [top + k * (low - top) / 40 for k in range(40)]
                dots += [(left + side, at) for at in heights for side in (-reach, 0.0, reach)]
    return dots
