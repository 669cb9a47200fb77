"""Algorithm 2 on a three-layer ground truth: that it learns, what width does, and how many samples each variant needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from overparam.data import Dataset, SmoothFunction, ThreeLayerTarget, generator
from overparam.networks import BiasedTwoLayer, ThreeLayer
from overparam.studies.beyond_two_layers_numbers import LEARNERS
from overparam.studies.beyond_two_layers_page import findings
from overparam.studies.study import Findings, Study, Workplace
from overparam.training import sgd, sgd_one_sample, smoothed_sgd


@dataclass(frozen=True)
class Settings:
    """What is learnt, by which networks, with which parameters.

    The parameters are not those of the proof, which cannot be used at these sizes. How they were chosen, always on rows
    drawn apart from those used here: the rates by the loss on 2,000 noisy validation rows at m = 100, 316 (two seeds)
    and 1,000 (one), N = 800, 10,000 steps, as the best mean over widths among 3, 5, 10, 20 over m for plain SGD and L1
    and among ½, 1, 2, 4 over √m for L2; two layers took 5, between the best two of 1, 3, 10. λ_w, λ_v and the batch on
    validation rows at m = 316 with one seed. σ_v, ε_a, ε and the decay constant were set once and not searched.
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
    rates: tuple[float, float, float, float] = (10.0, 1.0, 5.0, 5.0)
    """Of L1 (over m), L2 (over √m), plain SGD (over m), two layers (over m)."""

    def __post_init__(self) -> None:
        for N in (self.samples, *self.curve_samples):
            if self.most % N:
                raise ValueError(f"N = {N} does not divide {self.most}, the largest N; choose numbers that do")

    @property
    def most(self) -> int:
        """The largest N."""
        return max(self.samples, *self.curve_samples)

    def rate(self, learner: str, m: int) -> float:
        """η of a learner at a width."""
        return self.rates[LEARNERS.index(learner)] / (m**0.5 if learner == "L2" else m)


def ground_truth(settings: Settings) -> ThreeLayerTarget:
    """f = s Σ_{i≤2} ± tanh(Σ_{j≤2} v_ij sin(4 w_j·x)) (Σ_{j≤2} v′_ij sin(4 w′_j·x)), of variance 1.

    Ref: beyond_two_layers, Eq. (6)
    """
    wave = SmoothFunction("sin", settings.stretch)
    return ThreeLayerTarget.draw(
        settings.d, p1=2, p2=2, outer="tanh", first=wave, second=wave, variance=1.0, key=settings.target_key
    )


def mean_loss(outputs: np.ndarray, y: np.ndarray) -> float:
    """The mean of √(1 + (u − y)²) − 1, in float64.

    >>> mean_loss(np.array([0.0]), np.array([0.75]))
    0.25
    """
    squares = (outputs - y) ** 2
    return float(np.mean(squares / (np.sqrt(1 + squares) + 1)))


def rows(settings: Settings, target: ThreeLayerTarget, N: int, seed: int, base: int) -> Dataset:
    """N noisy training rows (the first N of one endless list a seed) and noise-free test rows, the same for all N.

    The rows are repeated to the number of the largest N. A uniform draw from them, and a mean over them, are those of
    the N rows, and one compiled program serves every N.
    """
    test = target.sample(settings.test, key=[base, seed, 1])
    train = target.sample(N, key=[base, seed, 0], noise=settings.noise)
    return train.take(np.tile(np.arange(N), settings.most // N)).replace(test=test)


def trained(settings: Settings, learner: str, m: int, data: Dataset, options: dict[str, Any]) -> dict[str, Any]:
    """One learner trained on its rows: the trajectory, its outputs on the test rows, its training loss, and λ_T."""
    assert data.test is not None
    rate, steps, batch = settings.rate(learner, m), settings.steps, settings.batch
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


def one_run(
    settings: Settings, workplace: Workplace, target: ThreeLayerTarget, learner: str, m: int, N: int, seed: int
) -> dict[str, np.ndarray]:
    """One learner trained once, as a part of the study.

    Gives its path, and at the end `error` (loss against the ground truth on new inputs), `risk` (against new noisy
    labels), `fit` (on the training set), λ_T and the losses of the noises tried.
    """
    name = f"{learner}, m = {m}, N = {N}, seed {seed}"

    def make(kept: Path | None) -> Mapping[str, Any]:
        data = rows(settings, target, N, seed, workplace.seed)
        assert data.test is not None
        options = {
            "key": 1000 * workplace.seed + seed,
            "measures": ("outputs", "movement"),
            "dtype": settings.dtype,
            "device": workplace.device,
            "place": kept,
            "progress": lambda done, total, what: workplace.progress(done, total, name),
        }
        found = trained(settings, learner, m, data, options)
        run, outputs, y = found["run"], found["outputs"], data.test.y
        noisy = y + settings.noise * generator([workplace.seed, seed, 2]).standard_normal(len(y))
        return {
            "steps": run.steps, "fit_path": run.loss, "error_path": run.test_loss, "movement": run.movement[-1],
            "error": mean_loss(outputs, y), "risk": mean_loss(outputs, noisy), "floor": mean_loss(y, noisy),
            "constant": best_constant(y), "fit": found["fit"], "scale": found["scale"], "tried": found["tried"],
            "seconds_per_step": run.seconds_per_step,
        }  # fmt: skip

    return workplace.part(name, make)


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


def run(settings: Settings, workplace: Workplace) -> Findings:
    """Every learner at every width with N fixed, then both objectives at several N; the claims beside what was found."""
    target = ground_truth(settings)
    wanted = [
        (learner, m, settings.samples, seed)
        for m, seeds in zip(settings.widths, settings.seeds, strict=True)
        for learner in LEARNERS
        for seed in range(min(seeds, settings.two_layer_seeds) if learner == "two layers" else seeds)
    ]
    wanted += [
        (learner, m, N, seed)
        for m, seeds in zip(settings.curve_widths, settings.curve_seeds, strict=True)
        for N in settings.curve_samples
        for learner in ("L1", "L2")
        for seed in range(seeds)
    ]
    done = {cell: one_run(settings, workplace, target, *cell) for cell in dict.fromkeys(wanted)}
    return findings(settings, done)


def _plan(settings: Settings) -> str:
    by_width = 3 * sum(settings.seeds) + sum(min(s, settings.two_layer_seeds) for s in settings.seeds)
    by_samples = 2 * len(settings.curve_samples) * sum(settings.curve_seeds)
    return (
        f"at most {by_width + by_samples} runs of {settings.steps} steps of {settings.batch} sampled points, m up to "
        f"{max(settings.widths)}, N up to {settings.most}"
    )


STUDY = Study(
    name="beyond-two-layers",
    title="Smoothed SGD on a three-layer ground truth: width, samples, and the two objectives",
    reference="beyond_two_layers, Thm 4.1, Thm 4.2, Thm 4.3",
    settings={
        "smoke": Settings(
            widths=(16, 48), seeds=(1, 1), samples=100, curve_widths=(48,), curve_samples=(50, 100), curve_seeds=(1,),
            steps=400, test=200, dtype="float32", batch=4, draws=5, sigma_n=0.1,
        ),
        "small": Settings(
            widths=(100, 316, 1_000), seeds=(2, 2, 1), samples=800, curve_widths=(316,), curve_samples=(100, 200, 400, 800, 1_600),
            curve_seeds=(2,), steps=6_000, test=2_000, dtype="float32", draws=25,
        ),
        "full": Settings(
            widths=(100, 316, 1_000, 3_162, 10_000), seeds=(3, 3, 3, 2, 1), samples=800, curve_widths=(1_000, 3_162),
            curve_samples=(100, 200, 400, 800, 1_600, 6_400), curve_seeds=(2, 1), steps=10_000, test=4_000,
            dtype="float32",
        ),
    },
    plan=_plan,
    run=run,
)  # fmt: skip
