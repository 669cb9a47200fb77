"""Theorem 1 in its own form: Algorithm 1 with Table 1's parameters, and the error averaged over all iterates against α⁴."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from overparam.core import sections
from overparam.data import Dataset, HierarchicalTarget, ParityTarget, whole_cube
from overparam.frame import Part, Work
from overparam.functions import hidden_product_scales
from overparam.networks import ThreeLayerResNet
from overparam.studies.study import Arrays, Found, Study, Values, mean_and_error, or_none, planned
from overparam.training import side_by_side
from overparam.training.trajectory import mean_over_steps

LONG, CHUNKS = 8192, 16
"""Longer runs draw their samples in so many parts, for every record goes through all rows at hand."""
RECORDS = 128
"""Iterates whose error over the whole cube is taken, evenly spaced; the first part of a long run has eight times as many."""


@dataclass(frozen=True)
class Theorem1Settings:
    """The target, the learner, and what the theorem hides.

    Cor. 7.1 says η_w = Θ̃(α⁴), η_v = η_w Θ̃(1/d) and N = Θ̃(d/α⁸). `factors` are the two hidden factors of the rates, the
    same at every α; those of N, of τ_v and of σ_v are 1.
    """

    d: int
    width: int
    alphas: tuple[float, ...]
    most: int
    """Steps are cut here: α whose d/α⁸ is larger is marked as short of samples."""
    factors: tuple[tuple[float, float], ...]
    """(c_w, c_v): η_w = c_w α⁴ and η_v = c_v η_w/d."""
    seeds: int
    k: int = 4
    dtype: str = "float32"

    def needed(self, alpha: float) -> int:
        """d/α⁸."""
        return round(_of(self, alpha, "N"))

    def steps(self, alpha: float) -> int:
        """One fresh sample each: d/α⁸ of them, or the most, up to an eighth fewer in long runs, so that records are even."""
        steps = min(self.needed(alpha), self.most)
        return steps - steps % (2**14 if steps > 2**17 else 2**10) if steps > LONG else steps

    def rates(self, alpha: float) -> list[dict[str, float]]:
        """η_w and η_v, for each pair of factors."""
        pairs = [(c_w * _of(self, alpha, "η_w"), c_v) for c_w, c_v in self.factors]
        return [{"W": rate, "V": c_v * rate / self.d} for rate, c_v in pairs]

    def sigma_v(self, alpha: float) -> float:
        """1/τ_v², or the most that the theorem allows at this width, m^{0.37}."""
        return min(_of(self, alpha, "σ_v"), self.width**0.37)

    def target(self, alpha: float, key: int, seed: int) -> HierarchicalTarget:
        """H = F + αG(F) with ‖x‖ = ‖F(x)‖ = ‖G(F(x))‖ = 1: Theorem 2's, in the form of Concept 1; OPT = 0."""
        return ParityTarget.theorem2(self.d, self.k, alpha=alpha, key=[key, seed, self.d, 1]).concept()


def _of(settings: Theorem1Settings, alpha: float, quantity: str) -> float:
    value = hidden_product_scales(settings.d, alpha, width=settings.width, k=settings.k).of(quantity).log_value
    assert value is not None
    return math.exp(value)


def part_name(alpha: float) -> str:
    """Of the part with all runs at α."""
    return f"α = {alpha:g}"


def parts(settings: Theorem1Settings, key: int, device: str | None) -> list[Part]:
    """One for each α: their numbers of steps differ."""
    found = []
    for alpha in settings.alphas:
        steps, runs = settings.steps(alpha), len(settings.factors) * settings.seeds
        weights = settings.width * (settings.d + 1 + 2 * settings.k + 1)
        operations = 6.0 * runs * weights * 9 * steps
        seconds = planned(operations, steps * (runs if device != "gpu" else 1), device)
        found.append(Part(part_name(alpha), one_pass, (settings, alpha, key), seconds=seconds))
    return found


def records(steps: int) -> list[list[int]]:
    """The iterates that are recorded in each part of a run, counted from the part's beginning.

    >>> records(4), [len(part) for part in records(102_400)][:3]
    ([[0, 1, 2, 3, 4]], [65, 9, 9])
    """
    if steps <= LONG:
        return [sorted({*range(0, steps, max(1, steps // RECORDS)), steps})]
    rows, each = steps // CHUNKS, RECORDS // CHUNKS
    every = [rows // (8 * each), *[rows // each] * (CHUNKS - 1)]
    return [list(range(0, rows + 1, stride)) for stride in every]


def one_pass(work: Work, settings: Theorem1Settings, alpha: float, key: int) -> dict[str, np.ndarray]:
    """Algorithm 1 from W⁰, V⁰ of Table 1, every pair of factors with every seed: `error` has shape (factors, seeds, records).

    Each step sees one sample that no other step sees; errors E‖H − out‖² are over all 2^d corners, so exact.
    """
    network = ThreeLayerResNet(settings.width, outputs=settings.k, scaling="theory", sigma_v=settings.sigma_v(alpha))
    runs = [(rates, seed) for rates in settings.rates(alpha) for seed in range(settings.seeds)]
    first = [network.init(1000 * key + seed, settings.d) for _, seed in runs]
    now, seconds, at, begun = first, 0.0, [np.zeros(1)], 0
    errors: list[np.ndarray] = []
    moved = np.zeros((len(runs), 2))
    parts = records(settings.steps(alpha))
    for place, recorded in enumerate(parts):
        work.progress(place, len(parts), part_name(alpha))
        rows = [_fresh(settings, alpha, key, seed, place, recorded[-1]) for seed in range(settings.seeds)]
        found = side_by_side(
            network, [rows[seed] for _, seed in runs], [(rates, 0.0, 1000 * key + seed) for rates, seed in runs],
            recorded[-1], params=now, batch=1, loss="mean", record=recorded, measures=(), dtype=settings.dtype,
            device=work.device, keep_params=True,
        )  # fmt: skip
        ends = found.params
        assert ends is not None
        now = [jax.tree.map(lambda leaf, i=i: leaf[i], ends) for i in range(len(runs))]
        for i, (start, end) in enumerate(zip(first, now, strict=True)):
            sizes = [np.linalg.norm(np.asarray(end.trained[name]) - np.asarray(start.trained[name])) for name in "WV"]
            moved[i] = np.maximum(moved[i], sizes)
        new = slice(1, None) if place else slice(None)  # a part begins where the one before it ended
        errors.append(2 * found.records["test_loss"][:, new])  # the objective has a factor ½
        at.append(begun + found.steps[1:])
        begun, seconds = begun + recorded[-1], seconds + found.seconds_per_step / len(parts)
    steps, error = np.concatenate(at).astype(np.int64), np.concatenate(errors, axis=1)
    shape = (len(settings.factors), settings.seeds)
    return {
        "steps": steps,
        "error": error.reshape(*shape, -1),
        "average": mean_over_steps(steps, error.T).reshape(shape),
        "movement": moved.reshape(*shape, 2),
        "seconds_per_step": np.array(seconds),
    }


def _fresh(settings: Theorem1Settings, alpha: float, key: int, seed: int, place: int, count: int) -> Dataset:
    """Samples that no other part has; as test rows all corners of the cube."""
    target, cube = settings.target(alpha, key, seed), whole_cube(settings.d, size=settings.d**-0.5)
    X = target.inputs(count, key=[key, seed, settings.d, 2, place])
    y, truth = target(X), target(cube)
    test = Dataset(cube, truth, labels=truth, task="regression")
    return Dataset(X, y, labels=y, task="regression", name="hidden product", test=test)


def conclude(settings: Theorem1Settings, found: Found) -> tuple[Values, Arrays]:
    """A row for each α and pair of factors, and the exponent in α of each pair."""
    rows: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {}
    for alpha in settings.alphas:
        done, needed = found[part_name(alpha)], settings.needed(alpha)
        arrays |= {f"alpha={alpha:g}/{what}": done[what] for what in ("steps", "error", "average")}
        for i, ((c_w, c_v), rates) in enumerate(zip(settings.factors, settings.rates(alpha), strict=True)):
            average, spread = mean_and_error(done["average"][i])
            rows.append(
                {
                    "alpha": alpha, "c_w": c_w, "c_v": c_v, "rate_w": rates["W"], "rate_v": rates["V"],
                    "sigma_v": settings.sigma_v(alpha), "sigma_v_cut": settings.sigma_v(alpha) < _of(settings, alpha, "σ_v"),
                    "needed": needed, "samples": settings.steps(alpha), "short": settings.steps(alpha) < 0.98 * needed,
                    "marked": f"short by {needed / settings.steps(alpha):.3g}" if settings.steps(alpha) < 0.98 * needed else "",
                    "average": or_none(average), "spread": spread, "over_alpha_4": or_none(average / alpha**4),
                    "last_over_alpha_4": or_none(float(done["error"][i, :, -1].mean()) / alpha**4),
                    "of_F_alone": or_none(average / alpha**2),
                    "moved_w": or_none(done["movement"][i, :, 0].max()), "moved_v": or_none(done["movement"][i, :, 1].max()),
                    "tau_w": _of(settings, alpha, "τ_w"), "tau_v": _of(settings, alpha, "τ_v"),
                }
            )  # fmt: skip
    laws = [_law(rows, c_w, c_v) for c_w, c_v in settings.factors]
    whole = [law for law in laws if law["most"] is not None]
    best = min(whole, key=lambda law: law["most"]) if whole else None
    return {"rows": rows, "laws": laws, "best": best}, arrays


def _law(rows: Sequence[Mapping[str, Any]], c_w: float, c_v: float) -> dict[str, Any]:
    """Of one pair of factors, over the α with all their samples: the range of average/α⁴, and its exponent in α."""
    own = [row for row in rows if (row["c_w"], row["c_v"]) == (c_w, c_v) and not row["short"]]
    ratios = [row["over_alpha_4"] for row in own]
    if not own or None in ratios:
        return {"c_w": c_w, "c_v": c_v, "least": None, "most": None, "slope": None, "alphas": len(own)}
    slope = None
    if len(own) > 1:
        slope = float(np.polyfit(np.log([r["alpha"] for r in own]), np.log([r["average"] for r in own]), 1)[0])
    found = {"c_w": c_w, "c_v": c_v, "least": min(ratios), "most": max(ratios)}
    return {**found, "slope": slope, "alphas": len(own)}


def claims(settings: Theorem1Settings, values: Values) -> list[sections.Text]:
    """The theorem, what the average over iterates was, and where samples fell short."""
    rows, best = values["rows"], values["best"]
    said = (
        "The theorem: for T = Θ̃(d/α⁸) fresh samples, one a step, η_w = Θ̃(α⁴) and η_v = η_w Θ̃(1/d), the mean over all iterates of "
        "E‖H − out‖² is at most O(OPT) + Θ̃(α⁴); here OPT = 0, and learning F alone leaves α²."
    )
    found = []
    if best is None:
        found.append(sections.Text("No run had all samples that the theorem asks for, or all diverged.", "warning"))
    else:
        own = [r for r in rows if (r["c_w"], r["c_v"]) == (best["c_w"], best["c_v"]) and not r["short"]]
        below = sum(r["of_F_alone"] < 1 for r in own)
        slope = "" if best["slope"] is None else f", exponent {best['slope']:.2f} in α (4 in the theorem)"
        words = (
            f"With η_w = {best['c_w']:g}·α⁴ and η_v = {best['c_v']:g}·η_w/d the average over all iterates is "
            f"{_between(best['least'], best['most'])} times α⁴ at {_over(own)}{slope}; it is below α² at {below} of {len(own)}."
        )
        others = [law for law in values["laws"] if law != best and law["most"] is not None]
        if others:
            told = (
                f"{_between(law['least'], law['most'])} with {law['c_w']:g} and {law['c_v']:g}"
                + ("" if law["slope"] is None else f" (exponent {law['slope']:.2f})")
                for law in others
            )
            words += f" With other factors of the two rates: {'; '.join(told)}."
        held = best["slope"] is not None and best["slope"] >= 3.5
        found.append(sections.Text(words, "good" if held else "warning"))
    short = {r["alpha"]: r for r in rows if r["short"]}
    for alpha, row in short.items():
        own = [r["over_alpha_4"] for r in rows if r["alpha"] == alpha and r["over_alpha_4"] is not None]
        tried = f"{_between(min(own), max(own))} times α⁴" if own else "not finite"
        found.append(
            sections.Text(
                f"At α = {alpha:g} the theorem asks for {row['needed']:,} samples and {row['samples']:,} were given: short by a "
                f"factor of {row['needed'] / row['samples']:.3g}. There the average is {tried}.",
                "warning",
            )
        )  # fmt: skip
    return [*found, sections.Text(said), sections.Text(_how(settings, rows))]


def _between(least: float, most: float) -> str:
    """Two numbers in words; one where they are shown alike.

    >>> _between(1.0, 2.5), _between(3.0, 3.0)
    ('1 to 2.5', '3')
    """
    return f"{least:.3g}" if f"{least:.3g}" == f"{most:.3g}" else f"{least:.3g} to {most:.3g}"


def _over(rows: Sequence[Mapping[str, Any]]) -> str:
    alphas = sorted(row["alpha"] for row in rows)
    return (
        f"α = {alphas[0]:g}" if len(alphas) == 1 else f"{len(alphas)} values of α from {alphas[0]:g} to {alphas[-1]:g}"
    )


def _how(settings: Theorem1Settings, rows: Sequence[Mapping[str, Any]]) -> str:
    cut = sorted({row["alpha"] for row in rows if row["sigma_v_cut"]})
    words = (
        f"d = {settings.d}, k = {settings.k}, m = {settings.width}, {settings.seeds} seeds; ‖x‖ = ‖F(x)‖ = ‖G(F(x))‖ = 1, "
        f"σ_w = m^(−1/8), σ_v = 1/τ_v² with τ_v = α"
    )
    if cut:
        words += f", cut to m^0.37 = {settings.width**0.37:.3g} at α = {', '.join(f'{alpha:g}' for alpha in cut)}"
    moved = [(r["moved_w"], r["moved_v"]) for r in rows if r["moved_w"] is not None and r["moved_v"] is not None]
    if moved:
        most_w, most_v = (max(pair[i] for pair in moved) for i in (0, 1))
        words += f". W moved by at most {most_w:.3g} (τ_w = √d = {settings.d**0.5:.3g} up to factors) and V by {most_v:.3g} (τ_v = α)"
    return (
        words + ". Errors are over all corners of the cube; the average is by straight lines between recorded iterates."
    )


def page(settings: Theorem1Settings, values: Values, arrays: Arrays) -> tuple[sections.Section, ...]:
    """The claims, every row, averages against α, and the course of the errors."""
    rows = values["rows"]
    columns = {
        "alpha": "α", "c_w": "c_w", "c_v": "c_v", "rate_w": "η_w", "rate_v": "η_v", "sigma_v": "σ_v", "needed": "d/α⁸",
        "samples": "samples", "marked": "of d/α⁸", "average": "average error", "spread": "standard error", "over_alpha_4": "average/α⁴",
        "last_over_alpha_4": "last/α⁴", "of_F_alone": "average/α²", "moved_w": "‖W‖_F", "moved_v": "‖V‖_F",
    }  # fmt: skip
    laws = {
        "c_w": "c_w",
        "c_v": "c_v",
        "alphas": "α with all samples",
        "least": "least average/α⁴",
        "most": "largest",
        "slope": "exponent",
    }
    alphas = sorted({row["alpha"] for row in rows})
    drawn = [
        sections.series(
            f"c_w = {c_w:g}, c_v = {c_v:g}",
            [r["alpha"] for r in own],
            [r["average"] for r in own],
            mark="points",
        )
        for c_w, c_v in settings.factors
        if (own := [r for r in rows if (r["c_w"], r["c_v"]) == (c_w, c_v) and r["average"] is not None])
    ]
    drawn += [
        sections.series("α⁴", alphas, [a**4 for a in alphas], dashed=True, role="true"),
        sections.series("α², F alone", alphas, [a**2 for a in alphas], dashed=True, role="muted"),
    ]
    against = sections.Figure(
        "Average error against α", "The error over the cube, averaged over all iterates, at each pair of hidden factors.",
        "α", "average of E‖H − out‖²", tuple(drawn), x_scale="log", y_scale="log",
    )  # fmt: skip
    courses = []
    for alpha in settings.alphas:
        steps, error = arrays[f"alpha={alpha:g}/steps"], arrays[f"alpha={alpha:g}/error"].mean(axis=1)
        shown = tuple(
            sections.series(f"c_w = {c_w:g}, c_v = {c_v:g}", steps[1:], np.where(np.isfinite(own), own, np.nan)[1:])
            for (c_w, c_v), own in zip(settings.factors, error, strict=True)
        )
        lines = (sections.Line("α⁴", y=alpha**4), sections.Line("α²", y=alpha**2))
        courses.append(
            sections.Figure(
                f"Error of the iterates, α = {alpha:g}", "Mean over seeds; the theorem is about the mean along the curve.",
                "samples", "E‖H − out‖²", shown, x_scale="log", y_scale="log", lines=lines, small=True,
            )
        )  # fmt: skip
    return (
        sections.Section("Theorem 1 in its own form", tuple(claims(settings, values))),
        sections.Section(
            "Every α and pair of factors",
            (sections.table(columns, rows), sections.table(laws, values["laws"]), against, *courses),
        ),
    )


def outline(settings: Theorem1Settings) -> str:
    """The runs, in words."""
    runs = len(settings.factors) * settings.seeds
    longest = max(settings.steps(alpha) for alpha in settings.alphas)
    return f"{runs} runs at each of {len(settings.alphas)} α, d = {settings.d}, m = {settings.width}, up to {longest:,} samples once"


STUDY = Study(
    name="beyond-kernels-theorem1",
    title="The three-layer ResNet's average error against α⁴",
    reference="beyond_kernels, Thm 1, Alg. 1, Table 1, Cor 7.1",
    settings={
        "smoke": Theorem1Settings(5, 32, (0.5, 0.8), 400, ((3.0, 5.0),), 2, k=2),
        "small": Theorem1Settings(6, 128, (0.1, 0.21, 0.3, 0.42, 0.63), 2**21, ((3.0, 1.0), (3.0, 6.0)), 2),
        "full": Theorem1Settings(16, 2000, (0.2, 0.25, 0.3, 0.36, 0.42, 0.5, 0.6), 2**22,
                                 ((1.0, 1.0), (1.0, 16.0), (3.0, 1.0), (3.0, 16.0)), 3),
    },
    outline=outline, parts=parts, conclude=conclude, claims=claims, page=page,
)  # fmt: skip
