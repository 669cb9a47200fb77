"""Study `laws-by-width`: the laws of residual and convolutional networks and the couplings of two and three layers, over widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overparam.audits import EFFORTS, Audit
from overparam.core.sections import Figure, Section, Text
from overparam.data import Dataset
from overparam.frame import Part
from overparam.networks import BiasedTwoLayer, Convolutional, Residual, ThreeLayer, ThreeLayerResNet
from overparam.studies import convergence_laws, measured_laws
from overparam.studies.measured_laws import Cell, Measured, Row
from overparam.studies.study import Arrays, Found, Study, Values

KINDS: Mapping[str, tuple[int, tuple[str, ...] | None]] = {
    "residual": (3, ("residual network", "residual stability")),
    "convolutional": (2, ("convolutional network", "convolutional stability")),
    "two layers": (0, ("coupling of two layers",)),
    "three layers": (
        1,
        (
            "coupling of three layers",
            "smoothed pseudo network",
            "coupling under random signs",
            "descent test of three layers",
        ),
    ),
    "three-layer ResNet": (1, None),
}
"""Of each architecture the paper's L, and the measurements of this study; all about it if None."""


def network(name: str, m: int, data: Dataset) -> Any:
    """The architecture of that name and width, for data."""
    if name == "residual":
        return Residual(m, 4, outputs=data.k)
    if name == "convolutional":
        if data.image_shape is None:
            raise ValueError(f"{data.name} has no images of rows and columns; the convolutional network needs them")
        return Convolutional(m, 3, (data.image_shape[-2], data.image_shape[-1]), outputs=data.k)
    kinds = {"two layers": BiasedTwoLayer, "three layers": ThreeLayer, "three-layer ResNet": ThreeLayerResNet}
    return kinds[name](m, outputs=data.k)


@dataclass(frozen=True)
class WidthSettings:
    """Which networks, and at which widths each. A seed draws weights and rows."""

    data: str
    n: int
    widths: tuple[tuple[str, tuple[int, ...]], ...]
    omegas: tuple[float, ...]
    """Radii of the residual and convolutional laws; those of the couplings are shares of what their lemmas ask for."""
    seeds: int
    effort: str

    def audits(self, name: str) -> dict[str, tuple[Cell, int]]:
        """Sizes and seed of every audit of a network, by the name of its part."""
        cells = measured_laws.star(("m", dict(self.widths)[name], {"L": KINDS[name][0], "n": self.n}))
        return {f"{name}, {part}": own for part, own in measured_laws.each_seed(cells, ("m",), self.seeds).items()}


def parts(settings: WidthSettings, key: int, device: str | None) -> list[Part]:
    """The audit of every network at every width, for every seed."""
    data = measured_laws.load_rows(settings.data, settings.n * settings.seeds)
    found = []
    for name, _ in settings.widths:
        for part, (cell, seed) in settings.audits(name).items():
            rows = measured_laws.rows_of(data, settings.n, seed, key)
            of = (
                network(name, cell.m, rows),
                rows,
                key + seed,
                settings.omegas,
                EFFORTS[settings.effort],
                KINDS[name][1],
            )
            found.append(Part(part, measured_laws.audited, of, seconds=3 + cell.m / 200, gives=Audit))
    return found


def conclude(settings: WidthSettings, found: Found) -> tuple[Values, Arrays]:
    """Fits over the widths of each network."""
    measured = {name: measured_laws.measured_in(found, settings.audits(name)) for name, _ in settings.widths}
    rows = {name: measured_laws.summarise(own) for name, own in measured.items()}
    arrays = measured_laws.arrays_of([row for own in rows.values() for row in own], ("m",))
    values = {
        "rows": {name: [row.to_json() for row in own] for name, own in rows.items()},
        "curves": {name: _constants_by_width(own) for name, own in measured.items()},
    }
    return values, arrays | {"network": np.array([name for name, own in rows.items() for _ in own])}


def _constants_by_width(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """For every law and moment: what was measured over its bound, the mean over seeds, at every width."""
    found = []
    for law in dict.fromkeys(one.law for one in measured):
        own = [one for one in measured if one.law == law and one.constant is not None]
        for moment in convergence_laws.MOMENTS:
            here = [one for one in own if one.moment == moment]
            sizes = sorted({one.cell.m for one in here})
            means = [float(np.mean([one.constant or 0.0 for one in here if one.cell.m == m])) for m in sizes]
            if len(sizes) > 1 and any(mean > 0 for mean in means):
                about = {"law": law, "moment": moment, "statement": own[0].statement, "reference": own[0].reference}
                found.append(about | {"sizes": sizes, "means": means})
    return found


def claims(settings: WidthSettings, values: Values) -> list[Text]:
    """How many findings hold for each network, and what was run."""
    opening = Text(
        f"{settings.data}, n = {settings.n}, {settings.seeds} seeds, each with weights and rows of its own, {settings.effort} effort. An exponent "
        "in m is one slope over the widths, with a level for each seed; where the radii of a coupling change with the width, what they "
        "add by the measured power of ω is taken off, so that it is the power of m at one radius. Its standard error comes from "
        "the scatter around these lines. After the bar: the law's."
    )
    return [*(_sentence(name, convergence_laws.rows_in(own)) for name, own in values["rows"].items()), opening]


def page(settings: WidthSettings, values: Values, arrays: Arrays) -> tuple[Section, ...]:
    """The claims, and a section a network."""
    told = [Section("What was found", tuple(claims(settings, values)))]
    for name, widths in settings.widths:
        rows, shown = convergence_laws.rows_in(values["rows"][name]), ", ".join(f"{m:,}" for m in widths)
        blocks = (
            *convergence_laws.frank(rows),
            *convergence_laws.tables(rows, ("m",)),
            *_figures(values["curves"][name]),
            convergence_laws.constants(rows),
        )
        told.append(Section(f"{name[:1].upper()}{name[1:]}, m = {shown}", blocks))
    return tuple(told)


def _sentence(name: str, rows: list[Row]) -> Text:
    """How many findings hold, and how the powers of m stand to those of the laws."""
    hardest = [row for row in rows if row.side == "upper" and row.moment in ("adversarial", "start")]
    looser, alike, beyond, rough = map(len, convergence_laws.sorted_by_gap(hardest, "m"))
    after = (
        f". Of the powers of m, {alike} are those of the law, {looser} smaller, {beyond} larger over these widths"
        + (f", {rough} too rough to tell." if rough else ".")
    )
    return measured_laws.how_many_hold(rows, f"{name[:1].upper()}{name[1:]}: ", after)


def _figures(found: Sequence[Mapping[str, Any]]) -> tuple[Figure, ...]:
    """For every law: what was measured over its bound, against the width; level where the law has the right power of m."""
    drawn = []
    for law in dict.fromkeys(curve["law"] for curve in found):
        shown, last = convergence_laws.by_moment([curve for curve in found if curve["law"] == law], "means")
        words = f"{last['statement']} ({last['reference']}). Mean over seeds."
        drawn.append(convergence_laws.law_figure(law, words, "m, width", "measured over bound", shown))
    return tuple(drawn)


def outline(settings: WidthSettings) -> str:
    """The networks and their widths, in words."""
    told = "; ".join(f"{name}, m = {', '.join(f'{m:,}' for m in widths)}" for name, widths in settings.widths)
    return f"{settings.seeds} seeds each, n = {settings.n}, {settings.effort} effort, on {settings.data}: {told}"


STUDY = Study(
    name="laws-by-width",
    title="The laws of the other networks, measured: exponents in ω and m",
    reference="convergence, App. B, App. C; beyond_two_layers, Lemma 5.5, Lemma 5.7, Lemma 5.8, Lemma G.3; beyond_kernels, Lemma D.1",
    settings={
        "smoke": WidthSettings("digits", 8, (("residual", (8, 16)), ("two layers", (16, 32, 64))), (1e-2, 1e-1), 2, "quick"),
        "small": WidthSettings(
            "digits", 40,
            (("residual", (64, 128, 256, 512)), ("convolutional", (2, 4, 8, 16)), ("two layers", (128, 256, 512, 1024, 2048)),
             ("three layers", (64, 128, 256, 512)), ("three-layer ResNet", (64, 128, 256, 512, 1024))),
            convergence_laws.SMALL_OMEGAS, 3, "quick",
        ),
        "full": WidthSettings(
            "mnist", 100,
            (("residual", (128, 256, 512, 1024, 2048)), ("convolutional", (2, 4, 8, 16)),
             ("two layers", (256, 512, 1024, 2048, 4096, 8192)), ("three layers", (128, 256, 512, 1024, 2048)),
             ("three-layer ResNet", (128, 256, 512, 1024, 2048))),
            convergence_laws.SMALL_OMEGAS, 3, "usual",
        ),
    },
    outline=outline, parts=parts, conclude=conclude, claims=claims, page=page,
)  # fmt: skip
