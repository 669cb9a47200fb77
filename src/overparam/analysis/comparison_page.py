"""The page of a comparison as plain data: verdict, errors against n, crossing, what was chosen, what was done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from overparam.analysis.comparison_data import SEVERAL_BELOW
from overparam.analysis.comparison_methods import (
    ALL_MEMBERS,
    AROUND,
    DECAYS,
    FAMILIES,
    RATES,
    RECORDS,
    WIDTHS,
)
from overparam.analysis.comparison_verdict import CONFIDENCE, FINE, one_kernel
from overparam.analysis.data_page import data_notes
from overparam.analysis.host_networks import BATCH, MOMENTUM
from overparam.core.sections import Block, Figure, Line, Mark, Scale, Section, Series, Table, Text, series
from overparam.core.words import count_of, duration, percent, points

if TYPE_CHECKING:
    from overparam.analysis.comparison import Comparison


def make_comparison_sections(c: Comparison) -> tuple[Section, ...]:
    """All sections, verdict first."""
    return (
        c.verdict.section,
        Section("Error against the number of rows", _errors(c)),
        Section("The best of each side", _best(c)),
        Section("What was chosen", _chosen(c)),
        Section("How it was done", _done(c)),
        Section("What this does not say", _caveats(c)),
    )


def _measure(c: Comparison) -> str:
    return "variance unexplained" if c.task == "regression" else "share wrong"


def _with_bars(
    name: str, x: Sequence[Any], values: np.ndarray, bars: np.ndarray, kernel: bool, mark: Mark = "line"
) -> Series:
    """Errors of one side with their standard errors, which do not go below 0."""
    lower, upper = np.maximum(values - bars, 0.0), values + bars
    return series(name, x, values, lower=lower, upper=upper, mark=mark, role="true" if kernel else "random")


def _scale(values: np.ndarray) -> Scale:
    """Logarithmic where errors differ much and none is 0."""
    return "log" if float(values.min()) > 0 and float(values.max() / values.min()) > 4 else "linear"


def _errors(c: Comparison) -> tuple[Block, ...]:
    curves: list[Series] = []
    for i, method in enumerate(c.methods):
        kernel = method in FAMILIES
        name = f"{method} kernel" if kernel else f"{method} network"
        curves.append(series(name, c.sizes, c.errors[i], role="true" if kernel else "random"))
    figure = Figure(
        "Kernels and networks, new rows",
        f"The {_measure(c)} on {count_of(c.test_rows, 'test row')}, mean over {_seeds(c)}. Blue: kernels, each with its ridge by "
        "leave-one-out. Orange: networks, each with rate, decay and length by validation. Error bars are in the next figure "
        "and, for the best of each side, below.",
        "training rows", _measure(c), tuple(curves), "log", _scale(c.errors),
        (Line("guessing", y=c.guess),) if c.guess < 1.5 * float(c.errors.max()) else (),
    )  # fmt: skip
    sides = []
    for name, kernels in (("kernels", True), ("networks", False)):
        own = [i for i, method in enumerate(c.methods) if (method in FAMILIES) == kernels]
        methods = [c.methods[i] for i in own]
        sides.append(_with_bars(name, methods, c.errors[own, -1], c.bars[own, -1], kernels, mark="points"))
    words = (
        f"Bars: one standard error, from {_seeds(c)} and the draw of test rows. The latter is shared by all, so differences "
        "are surer than the bars look."
    )
    largest = Figure(f"All of them at n = {c.sizes[-1]:,}", words, "method", _measure(c), tuple(sides))
    order = np.argsort(c.errors[:, -1], kind="stable")
    chosen = {c.best_kernels[-1], c.best_networks[-1]}
    rows = tuple(
        (
            c.methods[i],
            "kernel" if c.methods[i] in FAMILIES else "network",
            percent(c.errors[i, -1], FINE),
            f"± {percent(c.bars[i, -1], FINE)}",
            "yes" if c.methods[i] in chosen else "",
            next(choice.words for choice in c.choices if (choice.method, choice.n) == (c.methods[i], c.sizes[-1])),
        )
        for i in order
    )
    table = Table(
        (f"At n = {c.sizes[-1]:,}", "", _measure(c), "standard error", "stands for its side", "chosen"),
        rows,
        "Sorted by the error on test rows, which chose nothing: a side is represented by the one that folds or "
        "validation preferred, not by the lucky one; kernels seed by seed, so that it is named by the one of most seeds.",
    )
    return figure, largest, table


def _seeds(c: Comparison) -> str:
    return count_of(c.seeds, "seed") if c.seeds > 1 else "one seed (whose chance is not counted)"


def _best(c: Comparison) -> tuple[Block, ...]:
    kernel, network = np.array([(gap.kernel, gap.network) for gap in c.gaps]).T
    curves = (
        _with_bars("best kernel", c.sizes, kernel, c.best_bars[0], True),
        _with_bars("best network", c.sizes, network, c.best_bars[1], False),
    )
    crossing = c.crossing
    shown = crossing.n is not None and crossing.kind == "seen"
    figure = Figure(
        "The best kernel and the best network",
        "The one that five folds preferred, for every seed, and the one that validation preferred, at every size. Bands: one standard "
        "error.",
        "training rows", _measure(c), curves, "log", _scale(np.concatenate([kernel, network])),
        (Line("estimated crossing", x=crossing.n),) if shown else (),
    )  # fmt: skip
    table = Table(
        ("n", "best kernel", "error", "best network", "error", "network − kernel, points", f"{CONFIDENCE:.0%} interval"),
        tuple(
            (gap.n, c.best_kernels[i] if one_kernel(c, i) else f"most often {c.best_kernels[i]}", percent(gap.kernel, FINE),
             c.best_networks[i], percent(gap.network, FINE), points(gap.difference), f"{points(gap.lower)} to {points(gap.upper)}")
            for i, gap in enumerate(c.gaps)
        ),
        "Differences are taken row by row over the same test rows. Below 0 the network is better. Where seeds preferred different kernels, "
        "each counts with its own, and the name is that of most of them.",
    )  # fmt: skip
    blocks: list[Block] = [figure, table]
    if crossing.kernel_slope is not None and crossing.network_slope is not None:
        fits = " and ".join(
            f"{who} n^−{b:.2f} (± {s:.2f})"
            for who, (b, s) in (("kernel", crossing.kernel_slope), ("network", crossing.network_slope))
        )
        blocks.append(Text(f"Power laws through all sizes: {fits}, standard deviations over resamplings."))
    return tuple(blocks)


def _chosen(c: Comparison) -> tuple[Block, ...]:
    rows = tuple(
        (choice.method, choice.n, choice.words, percent(choice.score, FINE), f"{choice.seconds:.1f}")
        for choice in c.choices
    )
    words = (
        "The score that chose: of a kernel the error over five folds, of a network the error on validation rows; both "
        f"are the {_measure(c)}, and slightly flattered by the choice. Seconds are those of all {_seeds(c)} with "
        "the search."
    )
    return (Table(("method", "n", "chosen", "its score", "seconds"), rows, words),)


def _done(c: Comparison) -> tuple[Block, ...]:
    p = c.design
    several = f"; below {SEVERAL_BELOW:,} rows one part of every seed" if p.seeds > 1 else ""
    facts = (
        ("split", f"{c.split}; the same test rows for all, and they choose nothing"),
        (
            "training rows",
            f"{c.pool:,} to draw from; every seed draws its own, classes in proportion, each size inside the next"
            + ("; at the largest size all seeds have nearly the same rows" if c.shared and c.seeds > 1 else ""),
        ),
        (
            "kernels",
            "NTK of depth 1, 2, 3; conjugate kernel of depth 1, 2; Laplace and Gaussian with "
            f"{', '.join(f'{w:g}' for w in WIDTHS)} times the median distance. Ridge by exact leave-one-out over a grid; a support-vector machine on the best member of each family, where five folds prefer it (above 1,500 rows, where they did on the size below). "
            f"Above {ALL_MEMBERS:,} rows each family keeps the member and the neighbourhood of the ridge "
            f"({len(AROUND)} values) that were best on the size below",
        ),
        (
            "networks",
            f"two layers, three layers, three-layer ResNet; width {p.width}, hidden layers trained, squared loss, SGD with "
            f"momentum {MOMENTUM:g}, batches of {BATCH}, {count_of(p.steps, 'step')}, a tenth of the rate after half; {p.dtype}",
        ),
        (
            "search",
            f"{len(RATES)} rates ({', '.join(f'{r:g}' for r in RATES)} over the largest curvature at the start), "
            f"{len(DECAYS)} decays ({', '.join(f'{v:g}' for v in DECAYS)}), {RECORDS} lengths, on a quarter of the training rows"
            f"{several}; then trained again on all rows",
        ),
        (
            "planned and used",
            f"{duration(p.seconds, rough=True)} planned, {duration(c.provenance.seconds, rough=True)} used",
        ),
    )
    return Table(("What", "how"), facts), *data_notes(c.notes, c.classes)


def _caveats(c: Comparison) -> tuple[Block, ...]:
    lines = [
        "Networks here are small and trained for minutes. A larger one, trained longer or of an architecture made for the "
        "data (convolutions for images), may do better; so may a kernel made for it. The verdict is about what was tried.",
        "The interval counts the draw of training rows and initial weights and the draw of test rows. It does not count "
        "what another grid of rates, decays or bandwidths would have chosen.",
        "Features are scaled by all training rows drawn from, at every size; labels and test rows play no part in it.",
    ]
    if c.shared and c.seeds > 1:
        lines.append(
            "At the largest size every seed has nearly all rows, so the interval there holds for these training rows: what "
            "others would give is not counted."
        )
    if c.seeds == 1:
        lines.append("With one seed nothing is known of the chance in training rows and initial weights.")
    return tuple(Text(line) for line in lines)
