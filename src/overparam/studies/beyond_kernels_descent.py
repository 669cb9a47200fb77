"""Study `beyond-kernels-descent`: Lemmas D.2 and D.3, Claims D.5 to D.7 and the sum (D.4) along Algorithm 1, over width and α."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overparam.audits import beyond_kernels_d_descent
from overparam.audits.beyond_kernels import resnet_case
from overparam.audits.beyond_kernels_run import algorithm_1, built, fitted, truth_on
from overparam.audits.laws import Finding
from overparam.core.sections import Figure, Section, Text, series, table
from overparam.core.words import number, with_error
from overparam.data import whole_cube
from overparam.frame import Part, Work
from overparam.networks import ThreeLayerResNet
from overparam.studies import measured_laws
from overparam.studies.beyond_kernels_theorem1 import Theorem1Settings
from overparam.studies.convergence_laws import constants, law_figure, rows_in, tables
from overparam.studies.measured_laws import Cell, Row, star
from overparam.studies.study import Arrays, Found, Study, Values, planned

AXES = ("m", "alpha")
LABELS = {"m": "m, width", "alpha": "α"}
DRAWN = (
    beyond_kernels_d_descent.ERR.name,
    beyond_kernels_d_descent.DIAMONDS.name,
    beyond_kernels_d_descent.SPADES.name,
    beyond_kernels_d_descent.CLUBS.name,
)
"""Err and its three parts, in the order of their curves."""
PARTS = ("err", "diamonds", "spades", "clubs")
STARS = ("built", "fitted")
"""What W* and V* are: built as the lemmas do, and the least that fit."""


@dataclass(frozen=True)
class DescentSettings:
    """A star: one of m and α at a time goes through its values, the other stays at the base; targets and rates as in Theorem 1's study.

    constant: C* of the complexities in α̃ and in the norms of W* and V*.
    """

    d: int
    base: tuple[int, float]
    """m and α."""
    widths: tuple[int, ...]
    alphas: tuple[float, ...]
    most: int
    """Steps are cut here."""
    factors: tuple[float, float]
    """c_w and c_v: η_w = c_w α⁴ and η_v = c_v η_w/d."""
    seeds: int
    k: int = 4
    constant: float = 1.0

    def cells(self) -> tuple[Cell, ...]:
        """Every (m, α), each once, with the axes it belongs to."""
        base = {"L": 0, "n": 2**self.d, **dict(zip(AXES, self.base, strict=True))}
        return star(("m", self.widths, base), ("alpha", self.alphas, base))

    def runs(self) -> dict[str, tuple[Cell, int]]:
        """Every run, a network and a seed, by the name of its part."""
        return measured_laws.each_seed(self.cells(), AXES, self.seeds)

    def theorem(self, cell: Cell) -> Theorem1Settings:
        """Theorem 1 at this width and α: its target, steps, rates and initial weights."""
        return Theorem1Settings(self.d, cell.m, (cell.alpha,), self.most, (self.factors,), self.seeds, self.k)


@dataclass(frozen=True, eq=False)
class AlongARun:
    """What one run gave.

    steps: (p,), those recorded. error, gap: (p,) E‖H − out‖² and E‖F − out₁‖². parts: (2, 4, p), of W* and V* built and fitted, E‖Err‖² and those of ♢, ♠ and ♣. norms: (2, 2), ‖W*‖_F and ‖V*‖_F of both.
    moved: (2,), the largest ‖W_t‖_F and ‖V_t‖_F. mean: of ‖H(x_t) − out(x_t)‖² over all steps. errs: (2,) of ‖Err_t‖². right: (2, 3) the parts of the right side of (D.4) at the end.
    defect: how far the telescoped identity is from holding, as a share of its terms. heart: the largest ♡_t/‖H(x_t) − out(x_t)‖².
    """

    findings: tuple[Finding, ...]
    steps: np.ndarray
    error: np.ndarray
    gap: np.ndarray
    parts: np.ndarray
    norms: np.ndarray
    moved: np.ndarray
    mean: float
    errs: np.ndarray
    right: np.ndarray
    defect: float
    heart: float


def parts(settings: DescentSettings, key: int, device: str | None) -> list[Part]:
    """One for every network and seed."""
    found = []
    for name, (cell, seed) in settings.runs().items():
        own, weights = settings.theorem(cell), cell.m * (settings.d + settings.k + 2)
        steps = own.steps(cell.alpha)
        seconds = planned(60.0 * weights * steps, steps, "cpu")
        found.append(Part(name, one_run, (own, settings.constant, seed, key), seconds=seconds, gives=AlongARun))
    return found


def one_run(work: Work, own: Theorem1Settings, constant: float, seed: int, key: int) -> AlongARun:
    """Algorithm 1 in float64, with W* and V* built and fitted beside it; expectations are over the whole cube."""
    (alpha,) = own.alphas
    target = own.target(alpha, key, seed).general()
    network = ThreeLayerResNet(own.width, outputs=own.k, scaling="theory", sigma_v=own.sigma_v(alpha))
    cube = whole_cube(own.d, size=own.d**-0.5)
    case = resnet_case(network, network.init(1000 * key + seed, own.d), cube)
    stars = (built(case, target), fitted(case, truth_on(target, cube)))
    samples = target.inputs(own.steps(alpha), key=[key, seed, own.d, 3])
    run = algorithm_1(case, target, samples, own.rates(alpha)[0], stars)
    complexity = target.complexity(C=constant)
    findings = beyond_kernels_d_descent.run_laws(run) + [
        one for star in stars for one in beyond_kernels_d_descent.star_laws(run, star, complexity)
    ]
    seen = [run.seen[star.name] for star in stars]
    return AlongARun(
        findings=tuple(findings),
        steps=run.steps,
        error=seen[0]["error"],
        gap=seen[0]["base_gap"],
        parts=np.array([[one[name] for name in PARTS] for one in seen]),
        norms=np.array([[np.linalg.norm(star.W), np.linalg.norm(star.V)] for star in stars]),
        moved=np.array([run.moved_w.max(), run.moved_v.max()]),
        mean=float(run.squares.mean()),
        errs=np.array([run.errs[star.name].mean() for star in stars]),
        right=np.array([beyond_kernels_d_descent.regret_sides(run, star)[1][-1] for star in stars]),
        defect=float(max(run.defect(star.name).max() for star in stars)),
        heart=float((run.hearts / np.maximum(run.squares, np.finfo(float).tiny)).max()),
    )


def conclude(settings: DescentSettings, found: Found) -> tuple[Values, Arrays]:
    """Fits along both axes, a row a law; and for every network the means over seeds of what the sum (D.4) is made of."""
    runs = settings.runs()
    measured = measured_laws.measured_in(found, runs)
    rows = measured_laws.summarise(measured, AXES)
    cells, arrays = [], measured_laws.arrays_of(rows, AXES)
    for cell in settings.cells():
        own = [found[name] for name, (of, _) in runs.items() if of == cell]
        told: dict[str, Any] = {"m": cell.m, "alpha": cell.alpha, "steps": settings.theorem(cell).steps(cell.alpha)}
        told |= {"mean": _mean(one.mean for one in own), "last": _mean(one.error[-1] for one in own)}
        told |= {"moved_w": max(float(one.moved[0]) for one in own), "moved_v": max(float(one.moved[1]) for one in own)}
        told |= {"heart": max(one.heart for one in own), "defect": max(one.defect for one in own)}
        for i, kind in enumerate(STARS):
            told[f"errs_{kind}"] = _mean(one.errs[i] for one in own)
            told[f"norm_w_{kind}"], told[f"norm_v_{kind}"] = (_mean(one.norms[i, j] for one in own) for j in (0, 1))
            told[f"right_{kind}"] = _mean(one.right[i].sum() for one in own)
            told[f"way_{kind}"] = _mean(one.right[i, :2].sum() for one in own)
            for j, part in enumerate(PARTS):
                told[f"{part}_{kind}"] = _mean(one.parts[i, j].max() for one in own)
        cells.append(told)
        name = f"m={cell.m},alpha={cell.alpha:g}"
        arrays[f"{name}/steps"] = own[0].steps
        arrays[f"{name}/error"], arrays[f"{name}/gap"] = (
            np.mean([getattr(one, what) for one in own], axis=0) for what in ("error", "gap")
        )
        arrays[f"{name}/parts"] = np.mean([one.parts for one in own], axis=0)
    values = {
        "rows": [row.to_json() for row in rows],
        "cells": cells,
        "curves": measured_laws.curves_of(measured, AXES),
    }
    return values, arrays


def _mean(values: Any) -> float:
    return float(np.mean(list(values)))


def claims(settings: DescentSettings, values: Values) -> list[Text]:
    """How many findings hold, how good W* and V* are, what Err is made of, what the sum promises, and where the run goes."""
    rows, cells = rows_in(values["rows"]), values["cells"]
    failing = [f"{_short(row)} ({row.holds} of {row.audits})" for row in rows if row.holds < row.audits]
    allowed = ": with the law's own constant, or with one of at most 10."
    allowed += f" Not everywhere: {', '.join(failing)}." if failing else ""
    wide = max(values["cells"], key=lambda own: own["m"])
    first, second = (
        _named(rows, law.name, "built") for law in (beyond_kernels_d_descent.FIRST, beyond_kernels_d_descent.SECOND)
    )
    rest, err = (
        _named(rows, law.name, "fitted") for law in (beyond_kernels_d_descent.REST, beyond_kernels_d_descent.ERR)
    )
    most = max(own["defect"] for own in cells)
    exact = (
        f"Fact D.4 and the telescoped identity hold to {number(most, 2)} of their terms at every recorded step of every run. A step's ♡ is at most "
        f"{number(max(own['heart'] for own in cells), 2)} of ‖H − out‖², where the proof asks for 0.1."
    )
    stars = (
        f"Lemma D.2: E‖A D_W⁰ W*(x, 1) − F‖² of the W* that is built falls as m to the power {_power(first, 'm')}, the error of V* as {_power(second, 'm')}; "
        f"the lemma's α̃⁴ and α̃² are smaller by {number(first.constant, 2)} and {number(second.constant, 2)} where that is most, C* = {settings.constant:g}. At m = {wide['m']:,} "
        f"‖W*‖_F is {wide['norm_w_built']:.3g} and ‖V*‖_F {wide['norm_v_built']:.3g}; the least that fit have {wide['norm_w_fitted']:.3g} and {wide['norm_v_fitted']:.3g}."
    )
    parts_of = (
        f"Claim D.6 at m = {wide['m']:,}, α = {wide['alpha']:g}: E‖Err‖² is at most {wide['err_built']:.3g} (fitted {wide['err_fitted']:.3g}) along the run, beside α⁴ = {wide['alpha'] ** 4:.3g}; of its parts ♢, what the first weights "
        f"give, has {wide['diamonds_built']:.3g}, ♠, W* and V* as F and αG, {wide['spades_built']:.3g} ({wide['spades_fitted']:.3g}), ♣ {wide['clubs_built']:.3g} ({wide['clubs_fitted']:.3g}). Err (fitted) goes as m to the power {_power(err, 'm')} and as α to {_power(err, 'alpha')}, where α⁴ asks for 4; "
        f"what W leaves of Lemma D.3 (c) as {_power(rest, 'm')}, where its bound has −1/4."
    )
    promised = (
        f"The sum (D.4) at m = {wide['m']:,}: the mean of ‖H − out‖² over all steps is {wide['mean']:.3g}; four times the right side promises {4 * wide['right_built']:.3g} (fitted "
        f"{4 * wide['right_fitted']:.3g}), of which the way to W* and V* makes {4 * wide['way_built']:.3g} ({4 * wide['way_fitted']:.3g})."
    )
    moved_w, moved_v = (max(own[f"moved_{name}"] for own in cells) for name in "wv")
    shares = [max(own[f"moved_{of}"] / own[f"norm_{of}_fitted"] for own in cells) for of in "wv"]
    region = f"The region (D.3): W moves by at most {moved_w:.3g} and V by {moved_v:.3g}, {shares[0]:.2g} and {shares[1]:.2g} times the norms of the W* and V* that fit best; the proof allows 10."
    about = (
        f"d = {settings.d}, k = {settings.k}, {settings.seeds} seeds, η_w = {settings.factors[0]:g}·α⁴ and η_v = {settings.factors[1]:g}·η_w/d, up to {settings.most:,} samples, each once. τ_w and τ_v are the least that contain run, W* and V*; "
        "beyond Lemma D.2 its errors as they are stand for α̃²; 𝔏_G is the largest slope of G seen; expectations are over all corners of the cube."
    )
    return [
        measured_laws.how_many_hold(rows, after=allowed),
        *(Text(words) for words in (exact, stars, parts_of, promised, region, about)),
    ]


def _named(rows: Sequence[Row], law: str, star: str) -> Row:
    return next(row for row in rows if row.law == f"{law}, W* and V* {star}")


def _short(row: Row) -> str:
    return row.law.removeprefix(beyond_kernels_d_descent.PREFIX)


def _power(row: Row, axis: str) -> str:
    """The measured power of m or α with its standard error."""
    power = row.exponents.get(axis)
    return "–" if power is None else with_error(power, row.errors.get(axis))


def page(settings: DescentSettings, values: Values, arrays: Arrays) -> tuple[Section, ...]:
    """The claims, the networks, Err along runs and against m and α, exponents and constants."""
    rows = rows_in(values["rows"])
    columns = {
        "m": "m", "alpha": "α", "steps": "samples", "mean": "mean ‖H − out‖²", "last": "last", "errs_built": "mean ‖Err_t‖², built", "errs_fitted": "fitted",
        "right_built": "right side of (D.4), built", "right_fitted": "fitted", "moved_w": "‖W_t‖_F", "moved_v": "‖V_t‖_F", "heart": "♡ share",
    }  # fmt: skip
    return (
        Section("What was found", tuple(claims(settings, values))),
        Section("Every width and α", (table(columns, values["cells"]), *_along(settings, arrays))),
        *(Section(f"Err against {LABELS[axis]}", _against(values["curves"], axis)) for axis in AXES),
        Section("Exponents and constants", (*tables(rows, AXES), constants(rows))),
    )


def _along(settings: DescentSettings, arrays: Arrays) -> tuple[Figure, ...]:
    """E‖Err‖² and its parts along the run of the widest network, for both W* and V*."""
    m, alpha = max(settings.widths), settings.base[1]
    name, drawn = f"m={m},alpha={alpha:g}", []
    steps = arrays[f"{name}/steps"]
    for i, kind in enumerate(STARS):
        shown = [
            series(label, steps[1:], curve[1:])
            for label, curve in zip(("Err", "♢", "♠", "♣"), arrays[f"{name}/parts"][i], strict=True)
        ]
        shown.append(series("H − out", steps[1:], arrays[f"{name}/error"][1:], dashed=True))
        words = f"m = {m:,}, α = {alpha:g}; means over the cube and over seeds."
        drawn.append(law_figure(f"Err along a run, W* and V* {kind}", words, "step", "mean square", shown))
    return tuple(drawn)


def _against(found: Sequence[Mapping[str, Any]], axis: str) -> tuple[Figure, ...]:
    """The largest of a run, mean over seeds: Err and its parts."""
    drawn = []
    for kind in STARS:
        shown = [
            series(name.removeprefix(beyond_kernels_d_descent.PREFIX), curve["sizes"], curve["values"])
            for name in DRAWN
            for curve in found
            if (curve["law"], curve["axis"]) == (f"{name}, W* and V* {kind}", axis)
        ]
        if shown:
            title = f"Err against {measured_laws.SHOWN.get(axis, axis)}, W* and V* {kind}"
            drawn.append(
                law_figure(title, "The largest along a run, mean over seeds.", LABELS[axis], "mean square", shown)
            )
    return tuple(drawn)


def outline(settings: DescentSettings) -> str:
    """The runs, in words."""
    steps = max(settings.theorem(cell).steps(cell.alpha) for cell in settings.cells())
    return (
        f"{len(settings.cells())} networks, {settings.seeds} seeds each: d = {settings.d}, m up to {max(settings.widths):,}, α from {min(settings.alphas):g} "
        f"to {max(settings.alphas):g}, up to {steps:,} samples once"
    )


STUDY = Study(
    name="beyond-kernels-descent",
    title="The proof of the three-layer ResNet's theorem, step by step along Algorithm 1",
    reference="beyond_kernels, Alg. 1, Lemma D.2, Lemma D.3, Claim D.5, Claim D.6, Claim D.7, Eq. (D.3), Eq. (D.4)",
    settings={
        "smoke": DescentSettings(4, (32, 0.7), (32, 128), (0.7, 0.8), 40, (3.0, 1.0), 2, k=2),
        "small": DescentSettings(
            6, (1024, 0.42), (64, 256, 1024, 4096, 16_384), (0.32, 0.42, 0.55, 0.72), 2**16, (3.0, 1.0), 3
        ),
        "full": DescentSettings(
            8, (4096, 0.36), (256, 1024, 4096, 16_384, 65_536), (0.3, 0.36, 0.42, 0.5, 0.6), 2**18, (3.0, 1.0), 3
        ),
    },
    outline=outline, parts=parts, conclude=conclude, claims=claims, page=page,
)  # fmt: skip
