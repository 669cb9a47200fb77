"""Study `beyond-two-layers-lemmas`: the lemmas inside the theorems of `beyond_two_layers`, built and measured over
widths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overparam import functions
from overparam.audits import EFFORTS, Audit
from overparam.audits.beyond_two_layers_convergence import STEPS, algorithm_1_with_terms, fitted
from overparam.audits.beyond_two_layers_convergence import TERMS as CHAIN_TERMS
from overparam.audits.beyond_two_layers_three import GAMMA
from overparam.audits.beyond_two_layers_two import TwoLayerLearner
from overparam.core.sections import Figure, Section, Text, series, table
from overparam.core.words import number, with_error
from overparam.data import Dataset, TwoLayerTarget, as_dataset, padded_inputs
from overparam.frame import Part, Work
from overparam.functions import series as power_series
from overparam.functions.existence import fitted_slope
from overparam.networks import BiasedTwoLayer, ThreeLayer
from overparam.studies import measured_laws
from overparam.studies.convergence_laws import constants, rows_in, tables
from overparam.studies.measured_laws import Cell
from overparam.studies.study import Arrays, Found, Study, Values, mean_and_error

D = 4
"""Inputs of the constructions, with both padded coordinates."""
CLIP = 1.0
"""Constant of the B_i at which h is clipped, 100 in the paper: C is in proportion to it."""
EPSILON = 0.01
DIRECTIONS = {"across": (1.0, 0.0, 0.0, 0.0), "tilted": (0.8, 0.0, 0.0, 0.6)}
"""w* with w*_d = 0, and one with another w*_d."""
AXES = ("m", "n")
LAWS = {
    "two layers": ("Rademacher complexity of the two-layer learner", "convergence of two layers"),
    "three layers": ("Rademacher complexity of three layers", "convergence of three layers"),
}
COMPARATORS = ("built", "fitted")


@dataclass(frozen=True)
class LemmaSettings:
    """What is built and audited, at which widths."""

    carriers: tuple[int, ...]
    """m₁ of Lemma 5.2, with `neurons` second-layer neurons and `starts` starts each."""
    neurons: int
    starts: int
    products: tuple[tuple[float, tuple[tuple[int, int], ...]], ...]
    """(τ, widths (m₁, m₂)) of Lemma 5.6, `repeats` starts each."""
    repeats: int
    built: tuple[int, ...]
    """m of the runs of Algorithm 1 with the W̃ of Lemma G.1."""
    widths: tuple[tuple[str, tuple[int, ...]], ...]
    samples: tuple[int, ...]
    """Of the audits: widths at the first of `samples`, and samples at the first of the widths, Rademacher complexities
    alone."""
    seeds: int
    effort: str

    def audits(self, name: str) -> dict[str, tuple[Cell, int]]:
        """Sizes and seed of every audit of a network, by the name of its part."""
        n = self.samples[0]
        cells = measured_laws.star(
            ("m", dict(self.widths)[name], {"L": 0, "n": n}),
            ("n", self.samples, {"m": dict(self.widths)[name][0], "L": 0}),
        )
        return {f"{name}, {part}": own for part, own in measured_laws.each_seed(cells, AXES, self.seeds).items()}


def rows_of_target(n: int, key: int, seed: int) -> Dataset:
    """n rows of six numbers, labelled by a two-layer ground truth of variance 1."""
    target = TwoLayerTarget.draw(8, variance=1.0, key=[key, seed, 0])
    X = padded_inputs(n, 8, key=[key, seed, 1])
    return as_dataset(X[:, :6], target(X), task="regression")


def parts(settings: LemmaSettings, key: int, device: str | None) -> list[Part]:
    """Lemma 5.2 at every m₁; Lemma 5.6 at every τ; runs with W̃ built; and the audits."""
    found = []
    for m1 in settings.carriers:
        seconds = 1 + settings.starts * settings.neurons * m1 / 1e7
        found.append(Part(f"information, m₁ = {m1}", information, (settings, m1, key), seconds=seconds))
    for tau, widths in settings.products:
        seconds = 1 + settings.repeats * sum(m1 * m2 for m1, m2 in widths) / 3e7
        found.append(Part(f"existence, τ = {tau:g}", existence, (settings, tau, widths, key), seconds=seconds))
    found += [Part(f"run, m = {m}", run_with_built, (settings, m, key), seconds=1 + m / 5e3) for m in settings.built]
    networks: Mapping[str, Any] = {"two layers": BiasedTwoLayer, "three layers": ThreeLayer}
    for name, _ in settings.widths:
        for part, (cell, seed) in settings.audits(name).items():
            laws = LAWS[name] if "m" in cell.axes else LAWS[name][:1]
            rows = rows_of_target(cell.n, key, seed)
            of = (networks[name](cell.m), rows, key + seed, (0.03, 0.1, 0.3), EFFORTS[settings.effort], laws)
            found.append(Part(part, measured_laws.audited, of, seconds=8.0 if "m" in cell.axes else 1.0, gives=Audit))
    return found


def intervals() -> dict[str, float]:
    """Constants of Lemma A.4 at τ = 1/100 over y in [−1, 1], and how far its printed signs are off."""
    tau, y = 0.01, np.linspace(-1, 1, 4001)
    sets = functions.interval_partition(y, tau)
    moved = 2 * (np.abs(np.diff(sets.low)) + np.abs(np.diff(sets.high)))
    near = y[(y >= 0) & (sets.low == 0)]
    return {
        "longest": float((sets.high - sets.low).max() / tau),
        "slope": float(moved.max() / (y[1] - y[0])),
        "span": 2 * float(sets.high.max()),
        "printed": max(float(one) - functions.printed_mean(float(one), tau) for one in near) / tau,
    }


def information(work: Work, settings: LemmaSettings, m1: int, key: int) -> dict[str, np.ndarray]:
    """Lemma 5.2 for φ(z) = z at every start, in both directions: what R is made of, times √(m₁m₂), and the moments of ρ
    and B."""
    h = functions.indicator_function(power_series("identity"), EPSILON, constant=CLIP)
    X, m2 = padded_inputs(16, D, key=[key, 7]), settings.neurons
    found: dict[str, np.ndarray] = {}
    for place, (name, direction) in enumerate(DIRECTIONS.items()):
        squares, moments = [], []
        for start in range(settings.starts):
            rng = np.random.default_rng([key, m1, place, start])
            W = rng.standard_normal((m1, D)) / math.sqrt(m1)
            b = _biases(rng, m1)
            V = rng.standard_normal((m2, m1)) / math.sqrt(m2)
            one = functions.information_out_of_randomness(h, direction, W, b, V, X)
            every = np.concatenate([one.remainders, one.remainder[None]]) * math.sqrt(m1 * m2)
            squares.append((every**2).mean(axis=(1, 2)))
            z, B = one.rho / one.deviation, one.rest * math.sqrt(m2)
            together = ((z**2 - 1) * B**2).mean()
            moments.append([(z**2).mean(), (z**4).mean(), (z * B).mean(), together, (z * one.remainder).mean()])
            found["constant"], found["deviation"] = np.array(one.constant), np.array(one.deviation * math.sqrt(m2))
        found |= {f"{name}.squares": np.array(squares), f"{name}.moments": np.array(moments)}
    return found


def existence(
    work: Work, settings: LemmaSettings, tau: float, widths: Sequence[tuple[int, int]], key: int
) -> dict[str, np.ndarray]:
    """Lemma 5.6 for (w1·x)(1 + ½ w2·x): errors and norms of W*, V* at every pair of widths."""
    E = np.eye(D)
    line, factor, one = power_series("identity"), functions.polynomial([1.0, 0.5]), np.ones(1)
    target = functions.SmoothProduct(line, line, factor, E[:1], E[1:2], one, one)
    plan = functions.product_plan(target, tau=tau, epsilon=EPSILON, clip=CLIP)
    curve = functions.product_error_against_width(
        plan, widths, padded_inputs(32, D, key=[key, 8]), key=key, repeats=settings.repeats
    )
    square = functions.SmoothProduct(functions.polynomial([0.0, 0.0, 1.0]), line, factor, E[:1], E[1:2], one, one)
    squared = functions.product_plan(square, tau=tau, epsilon=EPSILON, clip=CLIP)
    found = {
        "errors": curve.errors, "standard_errors": curve.standard_errors, "means": curve.means, "noisy": curve.noisy,
        "size": np.array(curve.size), "slope": np.array([curve.slope, curve.slope_error]),
        "stretch": np.array(plan.stretch), "weight": np.array(math.sqrt(plan.outer.mean_square)),
        "square_weight": np.array(math.sqrt(squared.outer.mean_square)),
    }  # fmt: skip
    return found | {f"norm {name}": values for name, values in curve.norms.items()}


def run_with_built(work: Work, settings: LemmaSettings, m: int, key: int) -> dict[str, np.ndarray]:
    """Algorithm 1 on 16 rows of (w1·x)(w2·x), ε_a = 0.1: the terms of (431) with W̃ of Lemma G.1 and with a fitted one,
    a row a start."""
    E, scale = np.eye(D), 0.1
    target = functions.SmoothTarget([power_series("identity")], E[:1], E[1:2], np.ones((1, 1)))
    rows: dict[str, list[list[float]]] = {name: [] for name in COMPARATORS}
    for start in range(settings.starts):
        rng = np.random.default_rng([key, m, start, 9])
        X = padded_inputs(16, D, key=[key, start, 9])
        learner = TwoLayerLearner(
            rng.standard_normal((m, D)) / math.sqrt(m), _biases(rng, m), scale * rng.standard_normal((1, m)), m**-0.5
        )
        y, rate = target(X), 1 / (m * scale**2)
        built = functions.existence_weights(
            target, learner.W, learner.a, b0=learner.b, output_scale=scale, epsilon=EPSILON
        ).W
        for name, comparator in zip(COMPARATORS, (built, fitted(learner, X, y)), strict=True):
            run = algorithm_1_with_terms(learner, X, y, comparator, rate, STEPS, np.random.default_rng([key, start]))
            rows[name].append([run.held.mean(), *run.mean_bounds(STEPS).values(), run.real.min(), run.apart[-1]])
    return {name: np.array(table) for name, table in rows.items()}


TERMS = ("L_G", "W̃", "coupling", "distance", "gradients", "samples", "least L_F", "apart")


def _biases(rng: np.random.Generator, m: int) -> np.ndarray:
    return math.sqrt(2 / m) * rng.standard_normal(m) * (rng.random(m) < 0.5)


def conclude(settings: LemmaSettings, found: Found) -> tuple[Values, Arrays]:
    """Exponents in the widths, a row a lemma and width."""
    carried = [_carried(found[f"information, m₁ = {m1}"], m1) for m1 in settings.carriers]
    built = [_built(found[f"existence, τ = {tau:g}"], tau, widths) for tau, widths in settings.products]
    runs = [
        {"m": m, "comparator": name} | dict(zip(TERMS, found[f"run, m = {m}"][name].mean(axis=0).tolist(), strict=True))
        for m in settings.built
        for name in COMPARATORS
    ]
    rows = {
        name: measured_laws.summarise(measured_laws.measured_in(found, settings.audits(name)), AXES)
        for name, _ in settings.widths
    }
    values = {
        "intervals": intervals(),
        "information": [row for one in carried for row in one],
        "remainder": {name: _slope(carried, place, "R") for place, name in enumerate(DIRECTIONS)},
        "existence": built,
        "runs": runs,
        "run_powers": {
            f"{name}, {term}": _power(runs, name, term) for name in COMPARATORS for term in ("coupling", "apart")
        },
        "chain": _chain(settings, found),
        "rows": {name: [row.to_json() for row in own] for name, own in rows.items()},
    }
    arrays = measured_laws.arrays_of([row for own in rows.values() for row in own], AXES)
    kept = {f"{part}/{name}": array for part in found if part.startswith(("information", "existence", "run"))
            for name, array in found[part].items()}  # fmt: skip
    return values, arrays | kept


CHAIN = ("coupling", "cross terms", "bend", "fall by the signed step", "fall by a smaller λ", "curvature")


def _chain(settings: LemmaSettings, found: Found) -> list[dict[str, float]]:
    """For every width of three layers: means over seeds and recorded steps of the terms of Lemma 5.4, and at how many
    of these L′ falls by γ/4 or more."""
    told = []
    for m in dict(settings.widths).get("three layers", ()):
        details = [
            finding.detail
            for part, (cell, _) in settings.audits("three layers").items()
            if cell.m == m and "m" in cell.axes
            for finding in found[part].findings
            if finding.law.name == CHAIN_TERMS.name and len(finding.values)
        ]
        every = {name: np.concatenate([detail[name] for detail in details]) for name in CHAIN}
        fell = np.maximum(every[CHAIN[3]], every[CHAIN[4]]) >= GAMMA / 4
        told.append(
            {"m": m}
            | {name: float(own.mean()) for name, own in every.items()}
            | {"fell": int(fell.sum()), "of": len(fell)}
        )
    return told


def _carried(part: Mapping[str, np.ndarray], m1: int) -> list[dict[str, Any]]:
    rows = []
    for name in DIRECTIONS:
        squares, moments = part[f"{name}.squares"], part[f"{name}.moments"]
        means, starts = squares.mean(axis=0), len(squares)
        errors = squares.std(axis=0, ddof=1) / math.sqrt(starts) / means.clip(1e-300) / 2  # relative, of the root
        about = [mean_and_error(column) for column in moments.T]
        told = dict(zip(("R1", "R2", "R3", "R4", "R"), np.sqrt(means).tolist(), strict=True))
        rows.append(
            {"m1": m1, "direction": name} | told | {"R_share": float(errors[4])}
            | {f"{what}{side}": value for what, pair in zip(("z2", "z4", "zB", "z2B2", "zR"), about, strict=True)
               for side, value in zip(("", "_error"), pair, strict=True)}
            | {"constant": float(part["constant"]), "deviation": float(part["deviation"])}
        )  # fmt: skip
    return rows


def _slope(carried: Sequence[Sequence[Mapping[str, Any]]], place: int, what: str) -> list[float]:
    """The power of m₁ of R√(m₁m₂) and its standard error."""
    own = [one[place] for one in carried]
    sizes, values = np.log([row["m1"] for row in own]), np.log([row[what] for row in own])
    return list(fitted_slope(sizes, values, float(np.sqrt(np.mean([row["R_share"] ** 2 for row in own])))))


def _built(part: Mapping[str, np.ndarray], tau: float, widths: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Of one τ: the power of m₂ of the error, the norms, and the m₂ at which the error is a tenth of the target's
    size."""
    size, weight = float(part["size"]), float(part["weight"])
    rows = [
        {"tau": tau, "m1": m1, "m2": m2, "error": float(part["errors"][i]), "standard_error": float(part["standard_errors"][i]),
         "mean": float(part["means"][i]), "noisy": float(part["noisy"][i]),
         "W_row": float(part["norm W row"][i]) * m1, "V_row": float(part["norm V row"][i]) * m2 / math.sqrt(m1)}
        for i, (m1, m2) in enumerate(widths)
    ]  # fmt: skip
    asked = {
        "needed": 1.5 * (weight / (0.1 * size)) ** 2,
        "needed_square": 1.5 * (float(part["square_weight"]) / (0.1 * size)) ** 2,
    }
    slope, error = part["slope"].tolist()
    return {
        "tau": tau,
        "rows": rows,
        "slope": slope,
        "slope_error": error,
        "size": size,
        "stretch": float(part["stretch"]),
    } | asked


def _power(runs: Sequence[Mapping[str, Any]], name: str, term: str) -> float:
    own = [run for run in runs if run["comparator"] == name]
    return float(np.polyfit(np.log([run["m"] for run in own]), np.log([max(run[term], 1e-300) for run in own]), 1)[0])


def claims(settings: LemmaSettings, values: Values) -> list[Text]:
    """A paragraph a lemma."""
    gaps, across, tilted = values["intervals"], *(values["remainder"][name] for name in DIRECTIONS)
    last = values["information"][-2]
    found = [
        Text(
            f"Lemma A.4 at τ = 1/100: I(y) is made of pieces of at most {gaps['longest']:.3g} τ and moves {gaps['slope']:.3g} times as fast as y. As printed, "
            f"max I − min I ≤ 10τ fails (it is up to {gaps['span']:.3g}), and the signs near 0 have a mean that is off by up to {gaps['printed']:.3g} τ; both are put right here.",
            "warning",
        ),
        Text(
            f"Lemma 5.2 for φ(z) = z, C = {last['constant']:.3g}: with w*_d = 0, R√(m₁m₂) stays, as m₁ to the power {with_error(*across)}; at m₁ = {last['m1']:,} it is {last['R']:.3g}. "
            f"E[ρ²] over its τ/(C²m₂) is {with_error(last['z2'], last['z2_error'])}, E[ρB] in deviations {with_error(last['zB'], last['zB_error'])}. With w*_d = {DIRECTIONS['tilted'][-1]:g} "
            f"R√(m₁m₂) grows as m₁ to the power {with_error(*tilted)}: the bound of the lemma fails there.",
            "good" if abs(across[0]) <= max(0.1, 2 * across[1]) else "warning",
        ),
    ]  # fmt: skip
    for one in values["existence"]:
        end = one["rows"][-1]
        found.append(
            Text(
                f"Lemma 5.6 for (w1·x)(1 + ½ w2·x), τ = {one['tau']:g}, C′ = {one['stretch']:.3g}: the error of the network that was built falls as m₂ to the power "
                f"{with_error(one['slope'], one['slope_error'])}; at m₁ = {end['m1']:,}, m₂ = {end['m2']:,} it is {end['error']:.3g}, where the target is {one['size']:.3g}. A tenth of that "
                f"asks for m₂ of {number(one['needed'], 2)}, and with Φ(z) = z² of {number(one['needed_square'], 2)}.",
                "good" if abs(one["slope"] + 0.5) <= max(0.1, 2 * one["slope_error"]) else "warning",
            )
        )  # fmt: skip
    for name, stored in values["rows"].items():
        found.append(measured_laws.how_many_hold(rows_in(stored), f"{name[:1].upper()}{name[1:]}: "))
    widest = [run for run in values["runs"] if run["m"] == max(settings.built)]
    told = "; ".join(
        f"W̃ {run['comparator']}: {run['L_G']:.3g} ≤ "
        + " + ".join(f"{run[term]:.3g} ({term})" for term in TERMS[1:6]).replace("+ -", "− ")
        for run in widest
    )
    found.append(Text(f"Lemma G.4, the mean of L_G over {STEPS} steps at m = {max(settings.built):,}, {told}."))
    return found


def page(settings: LemmaSettings, values: Values, arrays: Arrays) -> tuple[Section, ...]:
    """The claims, and a section a lemma."""
    drawn = {"R1": "R₁", "R2": "R₂", "R3": "R₃", "R4": "R₄", "R": "R"}
    moments = {
        "z2": "E[ρ²]",
        "z2_error": "±",
        "z4": "E[ρ⁴]",
        "z4_error": "± ",
        "zB": "E[ρB]",
        "zB_error": "±  ",
        "zR": "E[ρR]",
    }
    parts = {"m1": "m₁", "direction": "w*", **drawn, **moments}
    built = {"tau": "τ", "m1": "m₁", "m2": "m₂", "error": "error", "standard_error": "±", "mean": "E|f − g|", "noisy": "error with noise",
             "W_row": "‖W*‖_{2,∞} m₁", "V_row": "‖V*‖_{2,∞} m₂/√m₁"}  # fmt: skip
    curves = [
        series(f"τ = {one['tau']:g}", [row["m2"] for row in one["rows"]], [row["error"] for row in one["rows"]], mark="points")
        for one in values["existence"]
    ]  # fmt: skip
    falls = Figure(
        "Error of the network that was built", "Root mean square over rows and starts.", "m₂", "error", tuple(curves), "log", "log"
    )  # fmt: skip
    remainders = Figure(
        "What is left over in Lemma 5.2", "R√(m₁m₂): level where the lemma has the right power.", "m₁", "R√(m₁m₂)",
        tuple(
            series(f"w* {name}", *zip(*[(row["m1"], row["R"]) for row in values["information"] if row["direction"] == name], strict=True))
            for name in DIRECTIONS
        ), "log", "log",
    )  # fmt: skip
    chain = {"m": "m", "fell": "L′ falls by γ/4 at", "of": "of steps"} | {name: name for name in CHAIN}
    runs = {"m": "m", "comparator": "W̃ is"} | {term: term for term in TERMS}
    audits = [
        Section(f"{name[:1].upper()}{name[1:]}", (*tables(rows_in(rows), AXES), constants(rows_in(rows))))
        for name, rows in values["rows"].items()
    ]
    return (
        Section("What was found", tuple(claims(settings, values))),
        Section("Information out of randomness", (remainders, table(parts, values["information"], "R in units of 1/√(m₁m₂), ρ in its deviation, B in 1/√m₂."))),
        Section("Three layers, built", (falls, table(built, [row for one in values["existence"] for row in one["rows"]]))),
        Section("Algorithm 1 with W̃ built and fitted", (table(runs, values["runs"], f"Means over {STEPS} steps and starts."),)),
        Section("Algorithm 2, term by term", (table(chain, values["chain"], "Means over seeds and recorded steps; terms over η, falls over ηL′."),)),
        *audits,
    )  # fmt: skip


def outline(settings: LemmaSettings) -> str:
    """What is built and audited, in words."""
    largest = max(m1 * m2 for _, widths in settings.products for m1, m2 in widths)
    return (
        f"m₁ up to {max(settings.carriers):,} of Lemma 5.2, m₁m₂ up to {largest:,} of Lemma 5.6, "
        f"{sum(len(settings.audits(name)) for name, _ in settings.widths)} audits, {settings.seeds} seeds"
    )


STUDY = Study(
    name="beyond-two-layers-lemmas",
    title="The lemmas of learning beyond two layers, built and measured",
    reference="beyond_two_layers, Lemma 5.2, Lemma 5.4, Lemma 5.6, Lemma 5.9, Lemma A.4, Lemma G.4, Lemma G.5",
    settings={
        "smoke": LemmaSettings((100, 400), 4, 3, ((0.5, ((32, 32), (64, 64))),), 2, (32, 64),
                               (("two layers", (16, 32)), ("three layers", (8, 16))), (6, 12), 2, "quick"),
        "small": LemmaSettings(
            (1_000, 4_000, 16_000, 64_000), 40, 12,
            ((0.5, ((256, 256), (512, 512), (1024, 1024), (2048, 2048), (4096, 4096))),
             (0.01, ((1024, 1024), (1024, 4096), (1024, 16384)))), 16, (256, 1024, 4096, 16384),
            (("two layers", (128, 256, 512, 1024, 2048)), ("three layers", (64, 128, 256, 512))), (40, 80, 160, 320), 3, "quick",
        ),
        "full": LemmaSettings(
            (1_000, 4_000, 16_000, 64_000, 256_000), 100, 16,
            ((0.5, ((512, 512), (2048, 2048), (8192, 8192), (32768, 32768))), (0.01, ((4096, 4096), (4096, 65536), (4096, 262144)))),
            16, (1024, 8192, 65536),
            (("two layers", (256, 1024, 4096)), ("three layers", (128, 256, 512, 1024))), (100, 200, 400, 800), 5, "usual",
        ),
    },
    outline=outline, parts=parts, conclude=conclude, claims=claims, page=page,
)  # fmt: skip
