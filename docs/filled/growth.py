"""The page on what more rows bring: errors foretold from a quarter of the rows beside those measured."""

from __future__ import annotations

from typing import Any

import numpy as np

from filled.committed import Result, fixed, percent, table, whole

GROUPS = (
    ("set aside", "tables", True, "uci/"),
    ("set aside", "image pairs", True, ""),
    ("set aside", "all", True, None),
    ("development", "tables", False, "uci/"),
    ("development", "image pairs", False, ""),
    ("development", "all", False, None),
)


def growth(result: Result) -> dict[str, str]:
    """Tables and image pairs, those set aside first."""
    rows = result.values["rows"]
    aside = [row for row in rows if row["aside"]]
    tables = [row for row in rows if row["name"].startswith("uci/")]
    return {
        "sets": str(len(rows)),
        "tables": str(len(tables)),
        "pairs": str(len(rows) - len(tables)),
        "aside": str(len(aside)),
        "development": str(len(rows) - len(aside)),
        "median4": percent(_median([_off(row["error"], 4) for row in rows])),
        "aside4": percent(_median([_off(row["error"], 4) for row in aside])),
        "aside-same4": percent(_median([_off(row["error"], 4, same=True) for row in aside])),
        "aside2": percent(_median([_off(row["error"], 2) for row in aside])),
        "square4": percent(_median([_off(row["mean_square"], 4) for row in aside])),
        "now": percent(_median([_off(row["error"], 1) for row in aside])),
        "cover": percent(_covered(aside), 0),
        "cover-of": str(4 * len(aside)),
        "cover-all": percent(_covered(rows), 0),
        "minutes": fixed(result.minutes, 0),
        "error": _accuracy(rows, "error"),
        "square": _accuracy(rows, "mean_square"),
        "verdicts": _verdicts(rows),
        "each": _each(rows),
    }


def _median(values: list[float]) -> float:
    return float(np.nanmedian(values))


def _off(own: dict[str, Any], times: int, *, same: bool = False) -> float:
    """How far the error foretold is from the one measured, over the latter; `same`: that with the rows at hand is told."""
    true = own[f"truth{times}"][0]
    told = own["errors"][-1] if same or times == 1 else own[f"told{times}"][0]
    return abs(told - true) / true if true else np.nan


def _inside(own: dict[str, Any], times: int) -> bool:
    """Whether the interval holds what was measured, whose own noise widens it."""
    true, noise = own[f"truth{times}"]
    value, lower, upper = own[f"told{times}"]
    return value - np.hypot(value - lower, 1.96 * noise) <= true <= value + np.hypot(upper - value, 1.96 * noise)


def _covered(rows: list[dict[str, Any]]) -> float:
    """Over both measures, at twice and four times the rows."""
    return float(
        np.mean([_inside(row[measure], t) for row in rows for measure in ("error", "mean_square") for t in (2, 4)])
    )


def _accuracy(rows: list[dict[str, Any]], measure: str) -> str:
    lines = []
    for side, kind, aside, start in GROUPS:
        chosen = [
            row[measure]
            for row in rows
            if row["aside"] == aside and (start is None or row["name"].startswith("uci/") == bool(start))
        ]
        cells = [side, kind, str(len(chosen))]
        for times in (2, 4):
            cells += [
                percent(_median([_off(own, times) for own in chosen])),
                percent(_median([_off(own, times, same=True) for own in chosen])),
                f"{sum(_inside(own, times) for own in chosen)} of {len(chosen)}",
            ]
        lines.append(cells)
    header = ["", "", "sets"]
    for times in ("2n", "4n"):
        header += [f"off at {times}", "no change", "inside"]
    return table(header, lines)


def _verdicts(rows: list[dict[str, Any]]) -> str:
    lines = []
    for measure, name in (("error", "error"), ("mean_square", "mean square")):
        for verdict in ("helps", "hardly helps", "cannot tell"):
            own = [row[measure] for row in rows if row[measure]["verdict"] == verdict]
            ratios = [one["truth2"][0] / one["truth1"][0] for one in own if one["truth1"][0]]
            middle, ends = np.median(ratios), np.quantile(ratios, [0.1, 0.9])
            lines.append([name, verdict, str(len(own)), fixed(middle), f"{fixed(ends[0])} to {fixed(ends[1])}"])
    return table(["", "verdict", "sets", "error at 2n over that at n, median", "eight in ten"], lines)


def _share(value: float) -> str:
    return percent(value, 1 if value >= 0.01 else 2)


def _each(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in sorted(rows, key=lambda row: (not row["aside"], row["name"])):
        own = row["error"]
        told = ["{} ({} to {})".format(*map(_share, own[f"told{times}"])) for times in (2, 4)]
        true = [_share(own[f"truth{times}"][0]) for times in (2, 4)]
        lines.append(
            [row["name"].removeprefix("uci/"), "aside" if row["aside"] else "", whole(row["n"]), _share(own["errors"][-1]),
             told[0], true[0], told[1], true[1], own["verdict"]]
        )  # fmt: skip
    return table(["set", "", "n", "error at n", "told at 2n", "measured", "told at 4n", "measured", "verdict"], lines)
