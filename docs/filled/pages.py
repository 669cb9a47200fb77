"""The pages on `overparam audit`, `compare` and `foresee`: what their own commands and benchmarks gave."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from filled.committed import Result, all_of, digits, fixed, only, percent, spread, table, whole

AUDITED = (
    ("forward norms", "start"),
    ("products of layers", "start"),
    ("sign changes", "adversarial"),
    ("forward stability", "adversarial"),
    ("backward stability", "adversarial"),
    ("intermediate stability, any few signs", "adversarial"),
    ("gradient upper bound", "adversarial"),
    ("gradient lower bound", "adversarial"),
    ("semi-smoothness", "adversarial"),
    ("kernel drift", "adversarial"),
    ("linearisation", "adversarial"),
)


def audit(result: Result) -> dict[str, str]:
    """Three ReLU layers on digits."""
    findings = [finding | {"name": finding["law"]["name"]} for finding in result.values["findings"]]
    lines = []
    for name, moment in AUDITED:
        own = only(findings, name=name, moment=moment)
        stated = own["law"]["exponents"].get("omega")
        power = (
            ""
            if own["exponent"] is None
            else f"{spread(own['exponent'], own['exponent_error'], 2)} ({round(stated, 2):g})"
        )
        where = own["law"]["reference"].removeprefix("convergence, ")
        lines.append(
            [name, where, moment, own["verdict"].removesuffix(" with constant"), digits(own["constant"], 2), power]
        )
    laws = {finding["name"] for finding in findings}
    holding = laws - {finding["name"] for finding in findings if not finding["verdict"].startswith("holds")}
    return {
        "findings": table(["law", "statement", "moment", "verdict", "constant", "power of ω"], lines),
        "laws": str(len(laws)),
        "hold": str(len(holding)),
        "out": str(len({finding["name"] for finding in all_of(findings, verdict="out of range")})),
        "fail": str(len({finding["name"] for finding in all_of(findings, verdict="fails")})),
        "findings_of": str(len(findings)),
    }


def shares(result: Result) -> dict[str, str]:
    """What adversaries reach of the known worst, and the gradient of one wider network beside plain Frank–Wolfe steps."""
    document = json.loads((result.folder / "adversary_shares.json").read_text(encoding="utf-8"))
    rows, wide = ([row for row in document["rows"] if ("case" in row) == small] for small in (True, False))
    lines = []
    for row in rows:
        bound = "two" in row["case"] and row["law"] not in EXACT
        known = [
            percent(row[key], 0) if key in row else "" for key in ("least", "median", "found, least", "found, median")
        ]
        lines.append([row["case"], row["law"], *known[:2], "bound" if bound else "exact", *known[2:]])
    named = {}
    for row in wide:
        name = "one" if row["outputs"] == 1 else "ten"
        named |= {f"{name}_{kind}": digits(row[kind], 2) for kind in ("random", "plain", "usual")}
    return {
        "laws": table(
            ["network", "law", "least", "median", "the optimum", "of what a search finds: least", "median"], lines
        ),
        "found_median": percent(min(row["found, median"] for row in rows if "found, median" in row), 0),
        "found_least": percent(min(row["found, least"] for row in rows if "found, least" in row), 0),
        "draws": document["note"].split()[0],
        "radius": document["note"].split()[-1],
        "n": str(wide[0]["n"]),
        "width": str(wide[0]["width"]),
        "omega": str(wide[0]["omega"]),
        "plain_steps": str(wide[0]["plain steps"]),
        "plain_starts": str(wide[0]["plain starts"]),
        **named,
    }


EXACT = ("gradient upper bound by sample", "residual forward stability", "residual forward stability, layers summed")
"""Known exactly for two samples, or two layers, as well."""

COMPARED = (("parity", "parity"), ("digits", "digits"), ("abalone", "uci/abalone"))


def compare(result: Result) -> dict[str, str]:
    """Four sets at a small size."""
    lines = []
    for folder, name in COMPARED:
        own = Result(result.folder / folder)
        values, gap = own.values, own.values["gaps"][-1]
        alone = own.arrays["errors"][values["methods"].index(values["best_kernels"][-1]), -1]
        if abs(alone - gap["kernel"]) > 1e-9:
            raise ValueError(
                f"{name}: expected one kernel for all seeds, got several; name the error as that of each seed's best"
            )
        kernel, network = (f"{values[f'best_{kind}s'][-1]} {percent(gap[kind])}" for kind in ("kernel", "network"))
        difference = f"{_points(gap['difference'])} ({_points(gap['lower'])} to {_points(gap['upper'])})"
        counts = fixed(100 * values["margin"], 1)
        lines.append([name, kernel, network, difference, counts, values["answer"]])
    header = ["data", "best kernel", "best network", "network − kernel, 95%", "counts from", "verdict"]
    sizes = Result(result.folder / "parity").values["design"]
    return {
        "verdicts": table(header, lines),
        "n": whole(sizes["sizes"][-1]),
        "seeds": str(sizes["seeds"]),
        "width": str(sizes["width"]),
        "steps": whole(sizes["steps"]),
    }


def _points(difference: float) -> str:
    text = fixed(100 * difference, 1)
    return text if text.startswith("−") else f"+{text}"


def foresee(result: Result) -> dict[str, str]:
    """Ranges of divergence and steps to be believed against PyTorch, by model and momentum."""
    rows = json.loads((result.folder / "foresee.json").read_text(encoding="utf-8"))["rows"]
    kinds = list(
        dict.fromkeys((row["model"], row["momentum"]) for row in sorted(rows, key=lambda row: row["momentum"]))
    )
    ranges, belief = [], []
    for model, momentum in kinds:
        own = all_of(rows, model=model, momentum=momentum)
        name = f"{model}{f', momentum {momentum:g}' if momentum else ''}"
        ratios = [row["true threshold"] / row["stable rate"] for row in own]
        counts = [_inside(all_of(own, half=half)) for half in ("chosen on", "set aside")]
        ranges.append([name, *counts, f"{fixed(min(ratios))} to {fixed(max(ratios))}"])
        named, true = ([row[word] for row in own] for word in ("believe until", "true until"))
        shares = [_kept(row) for row in own]
        belief.append(
            [name, f"{whole(min(named))} to {whole(max(named))}", whole(np.median(named)), whole(np.median(true)),
             fixed(float(np.median(shares)))]
        )  # fmt: skip
    ratios = [row["true threshold"] / row["stable rate"] for row in rows]
    shares = [_kept(row) for row in rows]
    heads = ["model", "in the range, chosen on", "in the range, set aside", "true threshold over the stable rate"]
    return {
        "ranges": table(heads, ranges),
        "belief": table(["model", "step named", "its median", "median of the true", "named over true, median"], belief),
        "cases": whole(len(rows)),
        "inside": whole(sum(row["inside"] for row in rows)),
        "multiples": whole(sum(row["inside multiples"] for row in rows)),
        "least": fixed(min(ratios)),
        "most": fixed(max(ratios), 1),
        "past": percent(max(0.0, max(shares) - 1), 0),
        "share": fixed(float(np.median(shares))),
    }


def _inside(rows: list[Any]) -> str:
    return f"{sum(row['inside'] for row in rows)} of {len(rows)}"


def _kept(row: Any) -> float:
    """The step named over the true one; 1 where both go beyond what was looked at, and where both are 0."""
    most = 2_000
    return (min(row["believe until"], most) + 1) / (row["true until"] + 1)
