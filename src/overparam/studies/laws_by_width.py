"""Study `laws-by-width`: the laws of residual and convolutional networks and the couplings of two and three layers, over widths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from overparam.audits import EFFORTS
from overparam.core.sections import Figure, Section, Text, series
from overparam.data import Dataset
from overparam.networks import BiasedTwoLayer, Convolutional, Residual, ThreeLayer, ThreeLayerResNet
from overparam.studies.audits_kept import audited, findings_of, load_rows, rows_of
from overparam.studies.convergence_laws_fits import Cell, Measured, Row, arrays_of, summarise
from overparam.studies.convergence_laws_page import MOMENTS, constants, frank, sorted_by_gap, tables
from overparam.studies.study import Findings, Study, Workplace


@dataclass(frozen=True)
class Kind:
    """One architecture. make: the network of a width for data. laws: those about it alone, all if None. L: the paper's."""

    make: Callable[[int, Dataset], Any]
    laws: tuple[str, ...] | None
    L: int


def _convolutional(m: int, data: Dataset) -> Convolutional:
    if data.image_shape is None:
        raise ValueError(f"{data.name} has no images of rows and columns; the convolutional network needs them")
    return Convolutional(m, 3, (data.image_shape[-2], data.image_shape[-1]), outputs=data.k)


KINDS: Mapping[str, Kind] = {
    "residual": Kind(lambda m, data: Residual(m, 4, outputs=data.k), ("residual network", "residual stability"), 3),
    "convolutional": Kind(_convolutional, ("convolutional network", "convolutional stability"), 2),
    "two layers": Kind(lambda m, data: BiasedTwoLayer(m, outputs=data.k), None, 0),
    "three layers": Kind(lambda m, data: ThreeLayer(m, outputs=data.k), None, 1),
    "three-layer ResNet": Kind(lambda m, data: ThreeLayerResNet(m, outputs=data.k), None, 1),
}


@dataclass(frozen=True)
class Settings:
    """Which networks, and at which widths each. A seed draws weights and rows."""

    data: str
    n: int
    widths: tuple[tuple[str, tuple[int, ...]], ...]
    omegas: tuple[float, ...]
    """Radii of the residual and convolutional laws; those of the couplings are shares of what their lemmas ask for."""
    seeds: int
    effort: str


def run(settings: Settings, workplace: Workplace) -> Findings:
    """Audit every network at every width, for every seed, and fit."""
    data = load_rows(settings.data, settings.n * settings.seeds)
    work = [(name, m, seed) for name, widths in settings.widths for m in widths for seed in range(settings.seeds)]
    measured: dict[str, list[Measured]] = {name: [] for name, _ in settings.widths}
    for place, (name, m, seed) in enumerate(work):
        workplace.progress(place, len(work), f"{name}, m = {m}")
        cell = Cell(m, KINDS[name].L, settings.n, ("m",))
        measured[name] += findings_of(_part(settings, workplace, data, name, m, seed), cell, seed)
    workplace.progress(len(work), len(work), "fits")
    found = {name: summarise(own) for name, own in measured.items()}
    rows = [row for own in found.values() for row in own]
    arrays = arrays_of(rows, ("m",)) | {"network": np.array([name for name, own in found.items() for _ in own])}
    values = {"rows": {name: [row.to_json() for row in own] for name, own in found.items()}}
    return Findings(values, arrays, _sections(settings, found, measured))


def _part(
    settings: Settings, workplace: Workplace, data: Dataset, name: str, m: int, seed: int
) -> Mapping[str, np.ndarray]:
    kind = KINDS[name]

    def make(_: Any) -> Mapping[str, Any]:
        rows = rows_of(data, settings.n, seed, workplace.seed)
        own = kind.make(m, rows)
        return audited(own, rows, workplace, seed, omegas=settings.omegas, effort=settings.effort, laws=kind.laws)

    of = (settings.data, settings.n, settings.omegas, EFFORTS[settings.effort])
    return workplace.part(f"{name}, m = {m}, seed {seed}", make, of)


def _sections(
    settings: Settings, found: Mapping[str, list[Row]], measured: Mapping[str, list[Measured]]
) -> tuple[Section, ...]:
    opening = Text(
        f"{settings.data}, n = {settings.n}, {settings.seeds} seeds, each with weights and rows of its own, {settings.effort} effort. An exponent "
        "in m is one slope over the widths, with a level for each seed; where the radii of a coupling change with the width, what they "
        "add by the measured power of ω is taken off, so that it is the power of m at one radius. Its standard error comes from "
        "the scatter around these lines. After the bar: the law's."
    )
    parts = [Section("What was found", (*(_sentence(name, own) for name, own in found.items()), opening))]
    for name, widths in settings.widths:
        shown = ", ".join(f"{m:,}" for m in widths)
        parts.append(
            Section(
                f"{name[:1].upper()}{name[1:]}, m = {shown}",
                (*frank(found[name]), *tables(found[name], ("m",)), *_figures(measured[name]), constants(found[name])),
            )
        )
    return tuple(parts)


def _sentence(name: str, rows: list[Row]) -> Text:
    """How many findings hold, and how the powers of m stand to those of the laws."""
    held, audits = sum(row.holds for row in rows), sum(row.audits for row in rows)
    hardest = [row for row in rows if row.side == "upper" and row.moment in ("adversarial", "start")]
    looser, alike, beyond, rough = map(len, sorted_by_gap(hardest, "m"))
    return Text(
        f"{name[:1].upper()}{name[1:]}: {held:,} of {audits:,} findings hold. Of the powers of m, {alike} are those of the law, {looser} smaller, "
        f"{beyond} larger over these widths" + (f", {rough} too rough to tell." if rough else "."),
        "good" if held == audits else "warning",
    )


def _figures(measured: list[Measured]) -> tuple[Figure, ...]:
    """For every law: what was measured over its bound, against the width; level where the law has the right power of m."""
    drawn = []
    for law in dict.fromkeys(one.law for one in measured):
        curves, own = [], [one for one in measured if one.law == law and one.constant is not None]
        for moment, (name, role) in MOMENTS.items():
            here = [one for one in own if one.moment == moment]
            sizes = sorted({one.cell.m for one in here})
            means = [float(np.mean([one.constant or 0.0 for one in here if one.cell.m == m])) for m in sizes]
            if len(sizes) > 1 and any(mean > 0 for mean in means):
                curves.append(series(name, sizes, [mean if mean > 0 else np.nan for mean in means], role=role))
        if curves:
            statement = f"{own[0].statement} ({own[0].reference})"
            drawn.append(
                Figure(f"{law[:1].upper()}{law[1:]}", f"{statement}. Mean over seeds.", "m, width", "measured over bound",
                       tuple(curves), "log", "log", small=True)
            )  # fmt: skip
    return tuple(drawn)


def _plan(settings: Settings) -> str:
    told = "; ".join(f"{name}, m = {', '.join(f'{m:,}' for m in widths)}" for name, widths in settings.widths)
    return f"{settings.seeds} seeds each, n = {settings.n}, {settings.effort} effort, on {settings.data}: {told}"


SMALL_OMEGAS = (1e-3, 10**-2.5, 1e-2, 10**-1.5, 1e-1)

STUDY = Study(
    name="laws-by-width",
    title="The laws of the other networks, measured: exponents in ω and m",
    reference="convergence, App. B, App. C; beyond_two_layers, Lemma 5.5, Lemma 5.7, Lemma 5.8, Lemma G.3; beyond_kernels, Lemma D.1",
    settings={
        "smoke": Settings("digits", 8, (("residual", (8, 16)), ("two layers", (16, 32, 64))), (1e-2, 1e-1), 2, "quick"),
        "small": Settings(
            "digits", 40,
            (("residual", (64, 128, 256, 512)), ("convolutional", (2, 4, 8, 16)), ("two layers", (128, 256, 512, 1024, 2048)),
             ("three layers", (64, 128, 256, 512)), ("three-layer ResNet", (64, 128, 256, 512, 1024))),
            SMALL_OMEGAS, 3, "quick",
        ),
        "full": Settings(
            "mnist", 100,
            (("residual", (128, 256, 512, 1024, 2048)), ("convolutional", (2, 4, 8, 16)),
             ("two layers", (256, 512, 1024, 2048, 4096, 8192)), ("three layers", (128, 256, 512, 1024, 2048)),
             ("three-layer ResNet", (128, 256, 512, 1024, 2048))),
            SMALL_OMEGAS, 3, "usual",
        ),
    },
    plan=_plan,
    run=run,
)  # fmt: skip
