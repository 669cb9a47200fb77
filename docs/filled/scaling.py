"""The page on sizes: what benchmarks/million_rows.py measured, and what larger sizes would take at those rates."""

from __future__ import annotations

import json
from typing import Any

from filled.committed import Result, digits, fixed, percent, table, whole

PRICE = 4.0
"""Dollars an hour of one such accelerator, rented: an assumption, said on the page."""
DEVICE_BYTES = 120e9
"""Of one, for columns of the preconditioner."""


def scaling(result: Result) -> dict[str, str]:
    """A million digits, a table of a million rows, and a plan on paper up to 10⁸ rows."""

    def read(name: str) -> dict[str, Any]:
        return json.loads((result.folder / f"{name}.json").read_text(encoding="utf-8"))

    small, large, some, rows = (
        read(name) for name in ("million_rows_98304", "million_rows_999424", "million_table_98304", "million_table_1246064")
    )  # fmt: skip
    lines = [
        ["rows", *(whole(one["n"]) for one in (small, large, some, rows))],
        ["one product, s", *(fixed(one["seconds"]["product 1"], 2) for one in (small, large, some, rows))],
        ["columns of the preconditioner", *(whole(one["columns"]) for one in (small, large, some, rows))],
        ["products to the certificate", *(str(one["products"]) for one in (small, large, some, rows))],
        ["relative gap of yᵀ(H + ρ)⁻¹y", *(digits(one["relative_gap"], 2) for one in (small, large, some, rows))],
        ["from rows to certificate, s", *(fixed(one["seconds"]["from rows to certificate"], 0) for one in (small, large, some, rows))],
        ["test error", *(percent(one["test_error"], 2) for one in (small, large)), "–", "–"],
        ["five folds: error, s", *(f"{percent(one['fold_error'], 2)}, {fixed(one['seconds']['5 folds'], 0)}" for one in (small, large)), "–", "–"],
        ["loss to step 1,000: products, s", *(f"{one['curve_products']}, {fixed(one['seconds']['loss curve'], 0)}" for one in (small, large)), "–", "–"],
        ["its bracket, of the first loss", *(digits(one["curve_width"], 2) for one in (small, large)), "–", "–"],
    ]  # fmt: skip
    header = ["", "digits", "digits", "table", "table"]
    return {
        "million": table(header, lines),
        "plan": table(
            ["rows", "additions and multiplications a product", "one product, one H200", "H200s", "one product", "solve", "columns, all H200s", "money"],
            [_planned(n, count, large) for n, count in ((1e6, 1), (1e7, 8), (1e8, 64), (1e8, 512))],
        ),
        "price": f"{PRICE:g}",
        "laptop": _analysis(read("large_analysis_60000")),
        "repaired": whole(rows["repaired"]),
    }  # fmt: skip


def _analysis(measured: dict[str, Any]) -> str:
    """What an analysis of many rows took on a CPU: the whole, its longest parts, what was found."""
    all_of_it, *parts = measured["rows"]
    longest = sorted(parts, key=lambda part: -part["seconds"])[:5]
    lines = [
        [all_of_it["what"], fixed(all_of_it["seconds"], 0), fixed(all_of_it["planned"], 0)],
        *([part["what"], fixed(part["seconds"], 0), fixed(part["planned"], 0)] for part in longest),
    ]
    said = (
        f"{measured['machine']}: {percent(all_of_it['error in five folds'][0], 2)} wrong in five folds, "
        f"{percent(all_of_it['test error'], 2)} of the test set; {fixed(all_of_it['peak GB'], 1)} GB at most; {whole(all_of_it['labels scored'])} labels scored."
    )
    return table(["", "seconds", "planned"], lines) + f"\n\n{said}"


def _planned(n: float, count: int, measured: dict[str, Any]) -> list[str]:
    """At the measured rate, which is quadratic in n; as many products as the million took, and one for the certificate."""
    one = measured["seconds"]["product 1"] * (n / measured["n"]) ** 2
    each, products = one / count, measured["products"]
    columns = min(6 * n**0.5, DEVICE_BYTES * count / (8 * n))
    seconds = products * each
    return [
        f"{n:.0e}".replace("e+0", " × 10^").replace("1 × ", ""),
        digits(n * n / 2 * (2 * 784 + 60 + 4 * 10), 2),
        _time(one),
        str(count),
        _time(each),
        _time(seconds),
        whole(round(columns, -2)),
        f"{whole(max(1, round(PRICE * count * seconds / 3600)))} $",
    ]


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{fixed(seconds, 0)} s"
    if seconds < 6000:
        return f"{fixed(seconds / 60, 0)} min"
    return f"{fixed(seconds / 3600, 0)} h"
