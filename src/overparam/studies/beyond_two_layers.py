"""Algorithm 2 on a three-layer ground truth: that it learns, what width does, and how many samples each variant needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from overparam.data import Dataset, SmoothFunction, ThreeLayerTarget, generator
from overparam.frame import Part, Work
from overparam.networks import BiasedTwoLayer, ThreeLayer
from overparam.studies.study import Arrays, Found, Scale, Values, mean_and_error, planned
from overparam.training import sgd, sgd_one_sample, smoothed_sgd

Cell = tuple[str, int, int, int]
"""Learner, m, N, seed."""
Runs = Mapping[Cell, Mapping[str, np.ndarray]]

LEARNERS = ("L1", "L2", "SGD", "two layers")
"""Algorithm 2 with either objective, plain SGD on the same network, Algorithm 1 on the two-layer learner."""

STEADY = 1.5
"""Errors whose largest is at most this many times the smallest are said to hardly move."""

APART = 1_000
"""The seed of the rows, network and noise by which rates are chosen."""

PRODUCTS = 2
"""p₁ = p₂ of the target."""

LEVELS = (1 / 4, 1 / 8)
"""Errors whose N is asked for, as shares of the best constant's."""
KEPT = ("steps", "fit_path", "error_path", "error", "risk", "fit", "scale", "tried", "seconds_per_step", "lr")


@dataclass(frozen=True)
class TwoLayersSettings:
    """What is learnt, by which networks, with which parameters.

    The parameters are not those of the proof, which cannot be used at these sizes. How they were chosen, always on rows
    drawn apart from those used here: the rate of every learner at every m from one list, by the loss on noisy validation
    rows after as many steps, with one seed; these runs are parts of the study. λ_w, λ_v and the batch on validation rows
    at m = 316 with one seed. σ_v, ε_a, ε and the decay constant were set once and not searched.
    """

    widths: tuple[int, ...]
    seeds: tuple[int, ...]
    """How many seeds each width has; a seed draws the rows, the network and all noise."""
    samples: int
    """N while the width changes."""
    curve_widths: tuple[int, ...]
    curve_samples: tuple[int, ...]
    """N for the curves of error against samples, at each of `curve_widths`."""
    curve_seeds: tuple[int, ...]
    """How many seeds each of these curves has; with none, rates are tried at that width and nothing more."""
    steps: int
    test: int
    dtype: str
    two_layer_seeds: int = 1
    """At most that many of two layers, whose steps are one point each and many."""
    batch: int = 8
    draws: int = 100
    d: int = 10
    stretch: float = 4.0
    noise: float = 0.5
    target_key: int = 7
    output_std: float = 0.3
    epsilon: float = 0.1
    decay_constant: float = 3.0
    sigma_v: float = 0.1
    """Times m^(−½); σ_w is the paper's m^(−0.99)."""
    sigma_n: float = 0.0
    """Times 1/m. 0 draws no gradient noise: at m = 10⁴ it would be most of a step's time."""
    lambda_w: float = 3e-6
    """Times m."""
    lambda_v: float = 1e-3
    rates: tuple[float, ...] = (2.0, 6.0, 20.0, 60.0, 200.0, 600.0)
    """Over m: what every learner may choose from at every m, below 1, as λ_t asks for."""

    def __post_init__(self) -> None:
        for N in (self.samples, *self.curve_samples):
            if self.most % N:
                raise ValueError(f"N = {N} does not divide {self.most}, the largest N; choose numbers that do")

    @property
    def most(self) -> int:
        """The largest N."""
        return max(self.samples, *self.curve_samples)

    @property
    def cells(self) -> list[Cell]:
        """Every learner at every width with N fixed, then both objectives at several N."""
        wanted = [
            (learner, m, self.samples, seed)
            for m, seeds in zip(self.widths, self.seeds, strict=True)
            for learner in LEARNERS
            for seed in range(min(seeds, self.two_layer_seeds) if learner == "two layers" else seeds)
        ]
        wanted += [
            (learner, m, N, seed)
            for m, seeds in zip(self.curve_widths, self.curve_seeds, strict=True)
            for N in self.curve_samples
            for learner in ("L1", "L2")
            for seed in range(seeds)
        ]
        return list(dict.fromkeys(wanted))

    def tried(self, m: int) -> list[float]:
        """The rates tried at a width, times m."""
        return [c for c in self.rates if c < m]

    @property
    def tuned(self) -> list[tuple[str, int]]:
        """Every learner and width whose rate is chosen."""
        return [(learner, m) for m in sorted({*self.widths, *self.curve_widths}) for learner in LEARNERS]

    @property
    def curves(self) -> list[int]:
        """The widths that have curves of error against samples."""
        return [m for m, seeds in zip(self.curve_widths, self.curve_seeds, strict=True) if seeds]


def ground_truth(settings: TwoLayersSettings) -> ThreeLayerTarget:
    """f = s Σ_{i≤2} ± tanh(Σ_{j≤2} v_ij sin(4 w_j·x)) (Σ_{j≤2} v′_ij sin(4 w′_j·x)), of variance 1.

    Ref: beyond_two_layers, Eq. (6)
    """
    wave = SmoothFunction("sin", settings.stretch)
    return ThreeLayerTarget.draw(
        settings.d, p1=PRODUCTS, p2=PRODUCTS, outer="tanh", first=wave, second=wave, variance=1.0,
        key=settings.target_key,
    )  # fmt: skip


def mean_loss(outputs: np.ndarray, y: np.ndarray) -> float:
    """The mean of √(1 + (u − y)²) − 1, in float64.

    >>> mean_loss(np.array([0.0]), np.array([0.75]))
    0.25
    """
    squares = (outputs - y) ** 2
    return float(np.mean(squares / (np.sqrt(1 + squares) + 1)))


def rows(settings: TwoLayersSettings, target: ThreeLayerTarget, N: int, seed: int, base: int) -> Dataset:
    """N noisy training rows (the first N of one endless list a seed) and noise-free test rows, the same for all N.

    The rows are repeated to the number of the largest N. A uniform draw from them, and a mean over them, are those of
    the N rows, and one compiled program serves every N.
    """
    test = target.sample(settings.test, key=[base, seed, 1])
    train = target.sample(N, key=[base, seed, 0], noise=settings.noise)
    return train.take(np.tile(np.arange(N), settings.most // N)).replace(test=test)


def trained(
    settings: TwoLayersSettings, learner: str, m: int, rate: float, data: Dataset, options: dict[str, Any]
) -> dict[str, Any]:
    """One learner trained on its rows: the trajectory, its outputs on the test rows, its training loss, and λ_T."""
    assert data.test is not None
    steps, batch = settings.steps, settings.batch
    network = ThreeLayer(m, output_std=settings.output_std)
    if learner in ("L1", "L2"):
        done = smoothed_sgd(
            network, data, lr=rate, steps=steps, variant=learner, batch=batch, sigma_w=m**-0.99,
            sigma_v=settings.sigma_v / m**0.5, sigma_n=settings.sigma_n / m, lambda_w=settings.lambda_w * m,
            lambda_v=settings.lambda_v, epsilon=settings.epsilon, decay_constant=settings.decay_constant,
            draws=settings.draws, record=record_at(steps), **options,
        )  # fmt: skip
        found = {"outputs": done.predict(data.test.X), "fit": done.training_loss, "scale": done.scale}
        return found | {"run": done.trajectory, "tried": done.draw_losses}
    if learner == "SGD":
        run = sgd(
            network, data, rate, steps, batch=batch, objective="smooth-absolute", loss="mean",
            record=record_at(steps), **options,
        )  # fmt: skip
    else:
        network, steps = BiasedTwoLayer(m, output_std=settings.output_std), steps * batch  # as many sampled points
        run = sgd_one_sample(network, data, rate, steps, record=record_at(steps), **options)
    return {"outputs": run.test_outputs[-1], "fit": float(run.loss[-1]), "scale": 1.0, "run": run, "tried": ()}


def parts(settings: TwoLayersSettings, key: int, device: str | None) -> list[Part]:
    """The choice of every learner's rate at every m, then every learner at every m and N, seed by seed."""
    own = replace(settings, widths=(), seeds=(), curve_widths=(), curve_seeds=())  # a run does not know of the others
    tries = [
        Part(_try(learner, m, c), tried_rate, (own, learner, m, c / m, key), seconds=_seconds(settings, (learner, m, 0, 0), device))
        for learner, m in settings.tuned
        for c in settings.tried(m)
    ]  # fmt: skip
    return tries + [
        Part(
            _name(cell), one_run, (own, *cell, key), seconds=_seconds(settings, cell, device),
            needs=tuple(_try(cell[0], cell[1], c) for c in settings.tried(cell[1])),
        )
        for cell in settings.cells
    ]  # fmt: skip


def _name(cell: Cell) -> str:
    learner, m, N, seed = cell
    return f"{learner}, m = {m}, N = {N}, seed {seed}"


def _try(learner: str, m: int, c: float) -> str:
    return f"{learner}, m = {m}, tried at {c:g}/m"


def _seconds(settings: TwoLayersSettings, cell: Cell, device: str | None) -> float:
    """Of one run: three products of every weight with every sampled point; two layers see one point a step."""
    learner, m, _, _ = cell
    if learner == "two layers":
        return planned(6.0 * settings.steps * settings.batch * m * settings.d, settings.steps * settings.batch, device)
    return planned(6.0 * settings.steps * settings.batch * m**2, settings.steps, device)


def tried_rate(work: Work, settings: TwoLayersSettings, learner: str, m: int, rate: float, key: int) -> dict[str, Any]:
    """The loss of one learner at one rate on noisy validation rows; all rows are drawn apart from those of the study."""
    return {"rate": rate, "risk": _measured(work, settings, learner, m, rate, settings.samples, APART, key)["risk"]}


def one_run(
    work: Work,
    settings: TwoLayersSettings,
    learner: str,
    m: int,
    N: int,
    seed: int,
    key: int,
    *tries: Mapping[str, Any],
) -> dict[str, Any]:
    """One learner trained once, at the best of the rates tried."""
    best = min(tries, key=lambda one: np.nan_to_num(float(one["risk"]), nan=np.inf))
    return _measured(work, settings, learner, m, float(best["rate"]), N, seed, key)


def _measured(
    work: Work, settings: TwoLayersSettings, learner: str, m: int, rate: float, N: int, seed: int, key: int
) -> dict[str, Any]:
    """One learner trained once.

    Gives its rate, its path, and at the end `error` (loss against the ground truth on new inputs), `risk` (against new noisy
    labels), `fit` (on the training set), λ_T and the losses of the noises tried.
    """
    data = rows(settings, ground_truth(settings), N, seed, key)
    assert data.test is not None
    options = {"key": 1000 * key + seed, "measures": ("outputs", "movement"), "dtype": settings.dtype}
    options |= {"device": work.device, "place": work.place, "progress": work.progress}
    found = trained(settings, learner, m, rate, data, options)
    run, outputs, y = found["run"], found["outputs"], data.test.y
    noisy = y + settings.noise * generator([key, seed, 2]).standard_normal(len(y))
    return {
        "steps": run.steps, "fit_path": run.loss, "error_path": run.test_loss, "movement": run.movement[-1],
        "error": mean_loss(outputs, y), "risk": mean_loss(outputs, noisy), "floor": mean_loss(y, noisy),
        "constant": best_constant(y), "fit": found["fit"], "scale": found["scale"], "tried": found["tried"],
        "seconds_per_step": run.seconds_per_step, "lr": rate,
    }  # fmt: skip


def record_at(steps: int) -> list[int]:
    """Sixteen steps, evenly in their logarithm."""
    return np.unique(np.geomspace(1, steps, 16).round().astype(int)).tolist()


def best_constant(y: np.ndarray) -> float:
    """The least mean loss of a constant prediction.

    >>> best_constant(np.array([1.0, 1.0]))
    0.0
    """
    found = minimize_scalar(
        lambda c: mean_loss(np.full_like(y, c), y), bounds=(y.min() - 1, y.max() + 1), method="bounded"
    )
    return round(float(found.fun), 9)  # type: ignore[attr-defined]


def conclude(settings: TwoLayersSettings, found: Found) -> tuple[Values, Arrays]:
    """Means over seeds, trends in the width, samples needed; and the paths of all runs."""
    runs = {cell: found[_name(cell)] for cell in settings.cells}
    arrays = {f"{_stored(cell)}/{key}": np.asarray(run[key]) for cell, run in runs.items() for key in KEPT}
    tries = [
        {"learner": learner, "m": m, "rate": c, "risk": float(found[_try(learner, m, c)]["risk"])}
        for learner, m in settings.tuned
        for c in settings.tried(m)
    ]
    return all_values(settings, runs) | {"tries": tries}, arrays


def runs_in(settings: TwoLayersSettings, arrays: Arrays) -> Runs:
    """What `conclude` stored of every run."""
    return {cell: {key: arrays[f"{_stored(cell)}/{key}"] for key in KEPT} for cell in settings.cells}


def _stored(cell: Cell) -> str:
    learner, m, N, seed = cell
    return f"{learner} m={m} N={N} seed={seed}"


def all_values(settings: TwoLayersSettings, runs: Runs) -> dict[str, Any]:
    """Every number of the page, from all runs."""
    constant = float(np.mean([r["constant"] for r in runs.values()]))
    return {
        "best_constant": constant,
        "label_noise_loss": float(np.mean([r["floor"] for r in runs.values()])),
        "widths": [summary(settings, runs, v, m, settings.samples) for m in settings.widths for v in LEARNERS],
        "samples": [
            summary(settings, runs, v, m, N)
            for m in settings.curves
            for N in settings.curve_samples
            for v in ("L1", "L2")
        ],
        "trends": {v: width_trend(settings, runs, v) for v in LEARNERS},
        "reached": [reached(settings, runs, m, s, s * constant) for m in settings.curves for s in LEVELS],
    }


def over_seeds(runs: Runs, learner: str, m: int, N: int, what: str = "error") -> tuple[float, float, int]:
    """Mean, standard error (NaN of one seed) and number of seeds of one number; a run that diverged counts as infinite."""
    own = [run for cell, run in runs.items() if cell[:3] == (learner, m, N)]
    values = np.array([float(r["risk"] - r["fit"]) if what == "gap" else float(r[what]) for r in own])
    mean, error = mean_and_error(np.where(np.isnan(values), np.inf, values)) if len(values) else (np.nan, None)
    return mean, float("nan") if error is None else error, len(values)


def samples_to_reach(samples: np.ndarray, errors: np.ndarray, level: float) -> float | None:
    """The first N at which a curve of errors reaches a level, straight between its points in logarithms; None if never.

    >>> round(samples_to_reach(np.array([100.0, 400.0]), np.array([0.4, 0.1]), 0.2), 9)
    200.0
    """
    if errors[0] <= level:
        return float(samples[0])
    for i in range(1, len(samples)):
        if errors[i] <= level:
            share = np.log(errors[i - 1] / level) / np.log(errors[i - 1] / errors[i])
            return float(np.exp((1 - share) * np.log(samples[i - 1]) + share * np.log(samples[i])))
    return None


def summary(settings: TwoLayersSettings, runs: Runs, learner: str, m: int, N: int) -> dict[str, Any]:
    """One learner at one m and N, over its seeds."""
    error, spread, seeds = over_seeds(runs, learner, m, N)
    row: dict[str, Any] = {"learner": learner, "m": m, "N": N, "seeds": seeds, "error": error}
    row |= {"standard_error": spread}
    row |= {key: over_seeds(runs, learner, m, N, key)[0] for key in ("risk", "fit", "gap", "scale", "lr")}
    return row | {"milliseconds": 1e3 * over_seeds(runs, learner, m, N, "seconds_per_step")[0]}


def width_trend(settings: TwoLayersSettings, runs: Runs, learner: str) -> dict[str, Any]:
    """How the error at fixed N moves with the width: ends, the ratio of extremes, the slope of log error in log m."""
    means = np.array([over_seeds(runs, learner, m, settings.samples)[0] for m in settings.widths])
    if not np.isfinite(means).all():
        nothing = dict.fromkeys(("first", "last", "ratio", "slope", "slope_error"))
        return {"said": "is not finite at some width"} | nothing
    cells = [cell for cell in runs if cell[0] == learner and cell[2] == settings.samples and cell[1] in settings.widths]
    x, y = np.log([cell[1] for cell in cells]), np.log([float(runs[cell]["error"]) for cell in cells])
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    residual = y - y.mean() - slope * centred
    spread = float(np.sqrt(residual @ residual / max(1, len(x) - 2) / (centred @ centred)))
    ratio = float(means.max() / means.min())
    said = "hardly moves" if ratio <= STEADY else "falls" if means[-1] < means[0] else "grows"
    ends = {"first": float(means[0]), "last": float(means[-1])}
    return {"said": said, "ratio": ratio, "slope": slope, "slope_error": spread if len(x) > 2 else None} | ends


def reached(settings: TwoLayersSettings, runs: Runs, m: int, share: float, level: float) -> dict[str, Any]:
    """N at which either variant reaches an error at a width, with N for errors one standard error lower and higher.

    None stands for never; `order_is_clear` says whether the two ranges leave the order open.
    """
    samples = np.array(settings.curve_samples, dtype=float)
    found: dict[str, Any] = {"m": m, "share": share, "level": level}
    ranges = []
    for learner in ("L1", "L2"):
        cells = [over_seeds(runs, learner, m, N) for N in settings.curve_samples]
        errors = np.array([error for error, _, _ in cells])
        spread = np.nan_to_num([spread for _, spread, _ in cells])
        ends = [samples_to_reach(samples, errors + side * spread, level) for side in (-1, 1)]
        found |= {learner: samples_to_reach(samples, errors, level), f"{learner}_range": ends}
        ranges.append([np.inf if end is None else end for end in ends])
    (low1, high1), (low2, high2) = ranges
    return found | {"order_is_clear": bool(high1 < low2 or high2 < low1)}


def outline(settings: TwoLayersSettings) -> str:
    """The runs and their size, in words."""
    by_width = 3 * sum(settings.seeds) + sum(min(s, settings.two_layer_seeds) for s in settings.seeds)
    by_samples = 2 * len(settings.curve_samples) * sum(settings.curve_seeds)
    return (
        f"at most {by_width + by_samples} runs of {settings.steps} steps of {settings.batch} sampled points, m up to "
        f"{max(settings.widths)}, N up to {settings.most}"
    )


SETTINGS: dict[Scale, TwoLayersSettings] = {
    "smoke": TwoLayersSettings(
        widths=(16, 48), seeds=(1, 1), samples=100, curve_widths=(48,), curve_samples=(50, 100), curve_seeds=(1,),
        steps=400, test=200, dtype="float32", batch=4, draws=5, sigma_n=0.1, rates=(3.0, 10.0),
    ),
    "small": TwoLayersSettings(
        widths=(100, 316, 1_000), seeds=(2, 2, 1), samples=800, curve_widths=(316,), curve_samples=(100, 200, 400, 800, 1_600),
        curve_seeds=(2,), steps=6_000, test=2_000, dtype="float32", draws=25, rates=(6.0, 20.0, 60.0),
    ),
    "full": TwoLayersSettings(
        widths=(100, 316, 1_000, 3_162, 10_000), seeds=(3, 3, 3, 2, 1), samples=800, curve_widths=(1_000, 3_162),
        curve_samples=(100, 200, 400, 800, 1_600, 6_400), curve_seeds=(2, 1), steps=10_000, test=4_000,
        dtype="float32",
    ),
}  # fmt: skip
