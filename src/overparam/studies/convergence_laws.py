"""Study `convergence-laws`: the exponents of every law of `convergence` in ω, m, L and n, measured on fully connected networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from overparam.audits import EFFORTS
from overparam.audits.measurements import chosen
from overparam.data import Dataset
from overparam.networks import FullyConnected
from overparam.studies.audits_kept import audited, findings_of, load_rows, rows_of
from overparam.studies.convergence_laws_fits import Cell, Measured, arrays_of, summarise
from overparam.studies.convergence_laws_page import make_sections
from overparam.studies.study import Findings, Study, Workplace


@dataclass(frozen=True)
class Settings:
    """A star: one of m, L and n at a time goes through its values, the two others stay at the base.

    L is the paper's: a network has L + 1 ReLU layers. A seed draws weights and rows.
    """

    data: str
    base: tuple[int, int, int]
    """m, L, n."""
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    samples: tuple[int, ...]
    omegas: tuple[float, ...]
    seeds: int
    effort: str
    laws: tuple[str, ...] | None = None
    """Names of measurements; all if None."""
    base_of_widths: tuple[int, int, int] | None = None
    """L and n beside the widths where they are not those of the base: the widest networks are costly."""

    def cells(self) -> tuple[Cell, ...]:
        """Every (m, L, n), each once, with the axes it belongs to."""
        m, L, n = self.base
        _, wide_L, wide_n = self.base_of_widths or self.base
        found: dict[tuple[int, int, int], list[str]] = {}
        for width in self.widths:
            found.setdefault((width, wide_L, wide_n), []).append("m")
        for depth in self.depths:
            found.setdefault((m, depth, n), []).append("L")
        for rows in self.samples:
            found.setdefault((m, L, rows), []).append("n")
        return tuple(Cell(*sizes, tuple(axes)) for sizes, axes in found.items())

    def work(self) -> list[tuple[Cell, int]]:
        """Every audit: a network and a seed."""
        return [(cell, seed) for cell in self.cells() for seed in range(self.seeds)]


def run(settings: Settings, workplace: Workplace) -> Findings:
    """Audit every network of the star, for every seed, and fit."""
    cells, data = settings.cells(), load_data(settings)
    measured: list[Measured] = []
    work = settings.work()
    costs = np.cumsum([0, *(cost(cell) for cell, _ in work)])
    for place, (cell, seed) in enumerate(work):
        workplace.progress(float(costs[place]), float(costs[-1]), f"m = {cell.m}, L = {cell.L}, n = {cell.n}")
        measured += findings_of(make_part(settings, workplace, data, cell, seed), cell, seed)
    workplace.progress(float(costs[-1]), float(costs[-1]), "fits")
    rows = summarise(measured)
    arrays = arrays_of(rows)
    values = {"rows": [row.to_json() for row in rows], "cells": [[cell.m, cell.L, cell.n] for cell in cells]}
    return Findings(values, arrays, make_sections(settings, rows, measured))


def load_data(settings: Settings) -> Dataset:
    """Enough rows for every seed to have its own, where there are as many."""
    return load_rows(settings.data, max(cell.n for cell in settings.cells()) * settings.seeds)


def cost(cell: Cell) -> float:
    """Of one audit, in units of its own; the second part is what any audit takes."""
    return cell.m**2 * cell.L * (cell.n + 200) + 1e9


def make_part(
    settings: Settings, workplace: Workplace, data: Dataset, cell: Cell, seed: int
) -> Mapping[str, np.ndarray]:
    """The audit of one network for one seed, kept in the workplace: parts may be made in any order, by any process."""
    name = f"m = {cell.m}, L = {cell.L}, n = {cell.n}, seed {seed}"
    of = (settings.data, settings.omegas, EFFORTS[settings.effort], settings.laws)

    def make(_: Any) -> Mapping[str, Any]:
        rows = rows_of(data, cell.n, seed, workplace.seed)
        net = FullyConnected(cell.m, cell.L + 1, outputs=rows.k)
        return audited(net, rows, workplace, seed, omegas=settings.omegas, effort=settings.effort, laws=settings.laws)

    return workplace.part(name, make, of)


def _plan(settings: Settings) -> str:
    cells = settings.cells()
    most = max(cells, key=lambda cell: cell.m**2 * cell.L * cell.n)
    return (
        f"{len(cells)} networks, {settings.seeds} seeds each, {settings.effort} effort, on {settings.data}: m up to "
        f"{max(settings.widths):,}, L up to {max(settings.depths)}, n up to {max(settings.samples):,}; the largest is m = {most.m:,}, "
        f"L = {most.L}, n = {most.n:,}"
    )


LAWS = tuple(name for name in chosen(None, "fully connected") if name != "free signs")
"""All that are about fully connected networks but one: a search over signs in every layer, which takes as long as all the
others together in a deep network and is out of its lemma's range at most of these radii."""
SMALL_OMEGAS = (1e-3, 10**-2.5, 1e-2, 10**-1.5, 1e-1)

STUDY = Study(
    name="convergence-laws",
    title="Every law of the convergence theory, measured: exponents in ω, m, L and n",
    reference="convergence, Lemma 7.1, Lemma 8.2, Thm 3, Thm 4, Thm 5",
    settings={
        "smoke": Settings("digits", (32, 2, 16), (16, 32, 64), (2, 3, 4), (8, 16, 32), (1e-3, 1e-2, 1e-1), 2, "quick",
                          ("forward norms", "separation", "forward stability", "linearisation")),
        "small": Settings("mnist", (128, 3, 50), (64, 128, 256), (2, 3, 5), (25, 50, 100), SMALL_OMEGAS, 2, "quick", LAWS),
        "full": Settings("mnist", (512, 4, 100), (128, 256, 512, 1024, 2048, 4096), (2, 4, 8, 16), (50, 100, 200, 400),
                         SMALL_OMEGAS, 3, "usual", LAWS, (512, 2, 100)),
    },
    plan=_plan,
    run=run,
)  # fmt: skip
