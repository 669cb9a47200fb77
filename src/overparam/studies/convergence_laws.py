"""Study `convergence-laws`: the exponents of every law of `convergence` in ω, m, L and n, measured on fully connected networks."""

from __future__ import annotations

from dataclasses import dataclass

from overparam.audits import EFFORTS
from overparam.audits.measurements import chosen
from overparam.frame import Part
from overparam.networks import FullyConnected
from overparam.studies.measured_laws import (
    Cell,
    arrays_of,
    audited,
    curves_of,
    findings_of,
    load_rows,
    rows_of,
    summarise,
)
from overparam.studies.study import Arrays, Found, Scale, Values


@dataclass(frozen=True)
class LawsSettings:
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

    def audits(self) -> dict[str, tuple[Cell, int]]:
        """Every audit, a network and a seed, by the name of its part."""
        pairs = [(cell, seed) for cell in self.cells() for seed in range(self.seeds)]
        return {f"m = {c.m}, L = {c.L}, n = {c.n}, seed {seed}": (c, seed) for c, seed in pairs}


def parts(settings: LawsSettings, key: int, device: str | None) -> list[Part]:
    """The audit of every network for every seed, on rows of the seed's own where there are as many."""
    data = load_rows(settings.data, max(cell.n for cell in settings.cells()) * settings.seeds)
    found = []
    for name, (cell, seed) in settings.audits().items():
        rows = rows_of(data, cell.n, seed, key)
        network = FullyConnected(cell.m, cell.L + 1, outputs=rows.k)
        of = (network, rows, key + seed, settings.omegas, EFFORTS[settings.effort], settings.laws)
        found.append(Part(name, audited, of, seconds=seconds(cell)))
    return found


def seconds(cell: Cell) -> float:
    """Of one audit, roughly, whatever the device: most of a small one is compiling."""
    return 2 + cell.m**2 * cell.L * (cell.n + 200) / 1e7


def conclude(settings: LawsSettings, found: Found) -> tuple[Values, Arrays]:
    """Fits over the networks of each axis, a row a law and moment."""
    audits = settings.audits().items()
    measured = [one for name, (cell, seed) in audits for one in findings_of(found[name], cell, seed)]
    rows = summarise(measured)
    cells = [[cell.m, cell.L, cell.n] for cell in settings.cells()]
    values = {"rows": [row.to_json() for row in rows], "cells": cells, "curves": curves_of(measured)}
    return values, arrays_of(rows)


def outline(settings: LawsSettings) -> str:
    """The networks and their sizes, in words."""
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

SETTINGS: dict[Scale, LawsSettings] = {
    "smoke": LawsSettings("digits", (32, 2, 16), (16, 32, 64), (2, 3, 4), (8, 16, 32), (1e-3, 1e-2, 1e-1), 2, "quick",
                      ("forward norms", "separation", "forward stability", "linearisation")),
    "small": LawsSettings("mnist", (128, 3, 50), (64, 128, 256), (2, 3, 5), (25, 50, 100), SMALL_OMEGAS, 2, "quick", LAWS),
    "full": LawsSettings("mnist", (512, 4, 100), (128, 256, 512, 1024, 2048, 4096), (2, 4, 8, 16), (50, 100, 200, 400),
                     SMALL_OMEGAS, 3, "usual", LAWS, (512, 2, 100)),
}  # fmt: skip
