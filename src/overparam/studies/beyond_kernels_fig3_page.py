"""The page of the study `beyond-kernels-fig3`: what the paper says of existence and of SGD, and beside it what we found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from overparam.core import sections
from overparam.studies import beyond_kernels_fig3 as study
from overparam.studies.beyond_kernels_fig3 import Done, NormSettings
from overparam.studies.study import Arrays, Study, Values

SHOWN = 2.0
"""Errors above it are not drawn."""


def page(settings: NormSettings, values: Values, arrays: Arrays) -> tuple[sections.Section, ...]:
    """The claims, the networks that exist, and SGD for every d."""
    told = [
        sections.Section("What the paper says and what we found", claims(settings, values)),
        _existence(settings, values),
    ]
    done = study.done_in(settings, arrays)
    for d in values["inputs"]:
        told.append(_sgd(values, {cell: found for cell, found in done.items() if cell.d == d}, d))
    return tuple(told)


def claims(settings: NormSettings, values: Values) -> tuple[sections.Text, ...]:
    """What the paper says of existence and of SGD, and what we found."""
    pairs = "; ".join(f"{norm:g}√d with error {error:g}" for norm, error in study.PAPER_PAIRS)
    ours = "; ".join(f"{row['norm']:.3g}√d with error {row['error']:.2g}" for row in values["existing"])
    worst = max(abs(copy["fresh"] - copy["error"]) / max(copy["standard_error"], 1e-12) for copy in values["copies"])
    above = max(row["norm"] / row["least_norm"] for row in values["existing"])
    blocks: list[sections.Text] = [
        sections.Text(_headline(values)),
        sections.Text(
            "y = d³ x₁…x₆ on {±1/√d}^d, F(x) = Σ_j a_j σ(w_j·x), a_j = ±1/√m, half of each, W alone trained. An error is "
            "E (F − y)²: 0 is perfect, the network that is 0 has 1."
        ),
        sections.Text(
            f"The paper says that for every m ≥ 200 and d ≥ 6 there are W* with ‖W*‖_F ≈ {pairs}. We found, training "
            f"m = {values['existing_width']} neurons on all 64 points at d = 6: {ours}. Padded to other d and copied to other m "
            f"the function is the same; on sampled points the error is off by at most {worst:.1f} standard errors.",
            "good" if above < study.NEAR and worst < 4 else "warning",
        ),
        sections.Text(
            f"By hand we found less: 64 neurons give F = y with ‖W*‖_F = {values['smallest_norm']:.4g}√d and error 0, and "
            f"F = t·y with t times that norm and error (1 − t)². By convex duality no network of this form has less at any "
            f"width, as far as a search over directions can tell. The paper's {study.PAPER_PAIRS[0][0]}√d could have error "
            f"{(1 - study.PAPER_PAIRS[0][0] / values['smallest_norm']) ** 2:.2g}."
        ),
    ]
    for d in values["inputs"]:
        most = max(sum(cell["epochs"]) for cell in values["cells"] if cell["d"] == d)
        blocks += _claims_at(values["by_inputs"][str(d)], d, most)
    blocks.append(_edge(settings, values))
    blocks.append(
        sections.Text(
            "App. A.1 does not say how long it trains, how large initial weights are, nor of which multiple of the squared error its "
            "rates are. We took the schedule of Fig. 2 (momentum 0.9, then a tenth of the rate), fewer epochs for wide networks, "
            "several initial scales κ, and the mean of (F − y)² as PyTorch has it; not every rate and decay of its "
            "grid, but some near those that did well. The best run is chosen by its test error, as in the paper, and its error "
            "then measured on fresh rows; ± is what these leave open, not how other first weights would end.",
            "warning",
        )
    )
    return tuple(blocks)


def _headline(values: Values) -> str:
    told = []
    for d in values["inputs"]:
        best, longer = (values["by_inputs"][str(d)][name] for name in ("best", "best_longer"))
        words = [] if best is None else [f"{best['fresh']:.3f} in {sum(best['epochs'])} epochs{_spread(best)}"]
        words += [] if longer is None else [f"{longer['fresh']:.3f} in {sum(longer['epochs'])}{_spread(longer)}"]
        if words:
            told.append(f"at d = {d} {', '.join(words)}")
    return "Networks of small norm exist; the best run of SGD has test error " + "; ".join(told) + "."


def _spread(cell: Mapping[str, Any]) -> str:
    return f" ({_ends(cell)} from other starts)" if cell["others"] else ""


def _ends(cell: Mapping[str, Any]) -> str:
    return ", ".join("diverged" if value is None else f"{value:.3f}" for value in cell["others"])


def _edge(settings: NormSettings, values: Values) -> sections.Text:
    """At how many widths a rate beyond those tried might do better."""
    pairs = list(zip(settings.cells, values["cells"], strict=True))
    ends = sum(row["rate"] in (min(cell.rates), max(cell.rates)) for cell, row in pairs)
    return sections.Text(
        f"The best rate is the smallest or largest that was tried in {ends} of {len(pairs)} programs: rates beyond them might do better, "
        "so the errors are upper bounds on what SGD can find.",
        "warning" if ends else "plain",
    )


def _claims_at(told: Mapping[str, Any], d: int, most: int) -> list[sections.Text]:
    """What was found at d, where no run had more epochs than `most`."""
    blocks, paper, best, anywhere = [], study.PAPER_BEST.get(d), told["best_on_grid"], told["best"]
    short = f" No run had more than {most} epochs: too few to confirm it." if most < study.PAPER_EPOCHS else ""
    if best is not None:
        said = "" if paper is None else f"The paper says SGD finds no test error better than {paper}. "
        clear = paper is not None and best["fresh"] < paper - 2 * best["standard_error"]
        agreed = "" if paper is None else " That is better." if clear else short or " That agrees."
        more = _others(best)
        if told["grid_better"] is not None:
            more += f" Of {told['grid_runs']} runs at its rates and decays, all widths, {told['grid_better']} end below {paper}."
        if anywhere is not None and anywhere["fresh"] < best["fresh"]:
            more += f" Off its grid of rates and decays, {{1, 2, 5}}·10^k: {_run(anywhere)}."
        if min(one["fresh"] + 2 * one["standard_error"] for one in (best, anywhere or best)) >= 1:
            more += " The network that is 0, with error 1, is as good."
        blocks.append(
            sections.Text(
                f"d = {d}, N = {told['N']}, within {study.PAPER_EPOCHS} epochs. {said}We found at best {_run(best)}.{agreed}{more}",
                "plain" if paper is None else "bad" if clear else "warning" if short else "good",
            )
        )
    longer = told["best_longer"]
    if longer is not None:
        learns = longer["fresh"] < 0.5
        blocks.append(
            sections.Text(
                f"d = {d}, trained longer. We found at best {_run(longer)}.{_others(longer)} "
                + (
                    "So SGD does find a network that generalises, given time."
                    if learns
                    else "More time does not do it."
                ),
                "warning" if learns else "good",
            )
        )
    blocks.append(_norms(told, d, short))
    return blocks


def _others(cell: Mapping[str, Any]) -> str:
    """What became of the runs with other first weights at the same width, rate and decay: whether a best run was luck."""
    if not cell["others"]:
        return " No other start was tried at that width, rate and decay."
    return f" Test errors from other starts at that width, rate and decay: {_ends(cell)}."


def _norms(told: Mapping[str, Any], d: int, short: str) -> sections.Text:
    own, anywhere, missed = (
        told[name] for name in ("least_norm_that_fits_on_grid", "least_norm_that_fits", "objective_missed")
    )
    small = [fit is not None and fit["norm"] <= study.NEAR * study.PAPER_PAIRS[-1][0] for fit in (own, anywhere)]
    if own is None:
        found = f"no run has a training error of at most {study.FITTED}"
    else:
        found = f"of {told['fits_on_grid']} runs with a training error of at most {study.FITTED} the least norm is {_fit(own)}"
    more = ""
    if anywhere is not None and anywhere != own:
        more = (
            f" Of {told['fits']} such runs with those trained longer and those of other rates and decays, the least norm is "
            f"{_fit(anywhere)}."
        )
    if missed is not None:
        more += (
            " With a decay SGD lowers training error + ½·decay·‖W‖². Of what the network made by hand gains there over the "
            f"network that is 0, the best run misses {missed[0]:.0%} and the median one {missed[1]:.0%}."
        )
    return sections.Text(
        f"d = {d}. The paper says SGD finds no small training error with a small norm. We found that at its rates and decays within "
        f"{study.PAPER_EPOCHS} epochs {found}.{more}{short}",
        "bad" if small[0] else "warning" if small[1] or short else "good",
    )


def _fit(fit: Mapping[str, Any]) -> str:
    return (
        f"{fit['norm']:.3g}√d (m = {fit['m']}, rate {fit['rate']:g}, decay {fit['decay']:g}, {fit['epochs'][0]} + "
        f"{fit['epochs'][1]} epochs, training error {fit['train']:.2g}, test error {fit['test']:.2g}), "
        f"{fit['norm'] / float(study.least_norm(fit['train'])):.3g} times the least there is at that error"
    )


def _run(cell: Mapping[str, Any]) -> str:
    return (
        f"{cell['fresh']:.3f} ± {cell['standard_error']:.2g} (training error {cell['train']:.2g}, ‖W‖_F = {cell['norm']:.3g}√d) at "
        f"m = {cell['m']}, rate {cell['rate']:g}, decay {cell['decay']:g}, κ = {cell['scale']:g}, {cell['epochs'][0]} + "
        f"{cell['epochs'][1]} epochs"
    )


def _existence(settings: NormSettings, values: Values) -> sections.Section:
    rows = [
        ("the paper", None, norm, error, float(study.least_norm(error)), *_bounds(norm))
        for norm, error in study.PAPER_PAIRS
    ]
    rows += [
        ("trained at d = 6", row["decay"], row["norm"], row["error"], row["least_norm"], *_bounds(row["norm"]))
        for row in values["existing"]
    ]
    least = values["smallest_norm"]
    rows.append(("by hand", None, least, 0.0, least, *_bounds(least)))
    bounds = (f"2‖W‖_F/√N, d = {d}, N = {N}" for d, N in SIZES)
    table = sections.Table(
        ("network", "decay", "‖W‖_F/√d", "error", "least ‖W‖_F/√d at that error", *bounds), tuple(rows),
        "Networks that exist. The last columns are the bound on the Rademacher complexity.",
    )  # fmt: skip
    columns = {
        "from": "from decay", "d": "d", "m": "m", "norm": "‖W‖_F/√d", "error": "error, all 64 patterns",
        "fresh": "error on samples", "standard_error": "± one s.e.",
    }  # fmt: skip
    copied = [copy | {"from": settings.cube_decays[copy["from"]]} for copy in values["copies"]]
    words = f"The same networks padded with zero columns and copied; {settings.test} sampled points."
    copies = sections.table(columns, copied, words)
    return sections.Section("Networks that exist", (table, copies))


SIZES = ((40, 5_000), (100, 50_000))


def _bounds(norm: float) -> tuple[float, ...]:
    return tuple(study.rademacher(norm, d, N) for d, N in SIZES)


def _sgd(values: Values, done: Done, d: int) -> sections.Section:
    cells = [cell for cell in values["cells"] if cell["d"] == d]
    columns = {
        "m": "m", "epochs": "epochs", "runs": "runs", "diverged": "not finite", "rate": "rate", "decay": "decay", "scale": "κ",
        "train": "training error", "fresh": "test error", "standard_error": "± one s.e.", "norm": "‖W‖_F/√d",
    }  # fmt: skip
    rows = [cell | {"epochs": " + ".join(map(str, cell["epochs"]))} for cell in cells]
    words = "The best run of each program, chosen by test error; its test error here is on fresh rows."
    table = sections.table(columns, rows, words)
    title = f"SGD, d = {d}, N = {cells[0]['N']}"
    return sections.Section(title, (_scatter(values, done, d), _widths(cells, d), _paths(done, d), table))


def _scatter(values: Values, done: Done, d: int) -> sections.Figure:
    runs = [(found["norm"], found["train"][:, -1], found["test"][:, -1]) for found in done.values()]
    norm, train, test = map(np.concatenate, zip(*runs, strict=True))
    shown = np.isfinite(norm) & (test <= SHOWN) & (train <= SHOWN)
    errors = np.linspace(0, 0.9, 60) ** 2  # from norm 0.1 of the least on: a logarithm has no 0
    made = values["existing"]
    return sections.Figure(
        f"Norm and error, d = {d}",
        f"Every run at its end ({int(shown.sum())} of {len(norm)}; the others diverged or have an error above {SHOWN:g}), and the "
        "networks that exist.",
        "‖W‖_F/√d", "E (F − y)²",
        (
            sections.series("training error of SGD", norm[shown], train[shown], mark="points", role="muted"),
            sections.series("test error of SGD", norm[shown], test[shown], mark="points", role="observed"),
            sections.series("least norm at that error", study.least_norm(errors), errors, role="true", dashed=True),
            sections.series("W*, ours", [r["norm"] for r in made], [r["error"] for r in made], mark="points", role="true"),
            sections.series("W*, the paper's", *zip(*study.PAPER_PAIRS, strict=True), mark="points", role="accent"),
        ),
        x_scale="log",
    )  # fmt: skip


def _widths(cells: Sequence[Mapping[str, Any]], d: int) -> sections.Figure:
    drawn = []
    for name, longer in ((f"up to {study.PAPER_EPOCHS} epochs", False), ("longer", True)):
        own = sorted((c for c in cells if c["longer"] == longer and c["fresh"] is not None), key=lambda c: c["m"])
        if own:
            x, mean, spread = ([c[key] for c in own] for key in ("m", "fresh", "standard_error"))
            mark = "points" if len(x) == 1 else "line"
            drawn.append(sections.series(name, x, mean, spread=spread, role=_role(longer), mark=mark))
    lines = (
        (sections.Line(f"the paper's best, {study.PAPER_BEST[d]}", y=study.PAPER_BEST[d]),)
        if d in study.PAPER_BEST
        else ()
    )
    title, words = (
        f"Best test error against width, d = {d}",
        "Of the best run of each width, on fresh rows; bands: one standard error.",
    )
    return sections.Figure(title, words, "m", "test error", tuple(drawn), "log", lines=lines)


def _role(longer: bool) -> sections.Role:
    return "accent" if longer else "observed"


def _paths(done: Done, d: int) -> sections.Figure:
    """How the best run of each program went: the one of the least error within the paper's epochs, and beyond."""
    drawn = []
    for longer in (False, True):
        own = [
            (f["test"][study.best_of(f["test"]), -1], c, f)
            for c, f in done.items()
            if (sum(c.epochs) > study.PAPER_EPOCHS) == longer
        ]
        own = [entry for entry in own if np.isfinite(entry[0])]
        if not own:
            continue
        _, cell, found = min(own, key=lambda entry: float(entry[0]))
        best, role = study.best_of(found["test"]), _role(longer)
        for key in ("train", "test"):
            y = np.where(found[key][best] <= 2 * SHOWN, found[key][best], np.nan)
            name = f"{'training' if key == 'train' else 'test'} error, m = {cell.m}, {sum(cell.epochs)} epochs"
            drawn.append(sections.series(name, found["epochs"], y, role=role, dashed=key == "train"))
    return sections.Figure(
        f"How the best runs went, d = {d}",
        "Errors by epoch of the best run within the paper's epochs, and of the best longer one; the rate falls to a tenth near the "
        "end.",
        "epoch", "E (F − y)²", tuple(drawn),
    )  # fmt: skip


STUDY = Study(
    "beyond-kernels-fig3", "Two-layer networks of small norm for a product of six coordinates, and what SGD finds instead",
    "beyond_kernels, App. A.1, Fig. 3", study.SETTINGS, study.outline, study.parts, study.conclude, claims, page,
)  # fmt: skip
