"""Kernels against the three-layer ResNet where the paper separates them: Theorem 2's data, and error against α."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overparam import kernels as house
from overparam.core.kernel import AbstractInnerProductKernel
from overparam.data import Dataset, ParityTarget, generator, whole_cube
from overparam.engines import gram
from overparam.engines.matrix import chosen_device
from overparam.frame import Part, Work
from overparam.kernels import DegreeSpectrum, spectrum_on_cube
from overparam.networks import ThreeLayerResNet
from overparam.studies.study import Arrays, Scale, planned
from overparam.theory import tuned_regression
from overparam.theory.kernel_certificates import dimension_certificate, lower_bound, spectral_certificate
from overparam.theory.learning_curves import exact_error, learning_curve
from overparam.training import StepDecay, side_by_side

KERNELS: dict[str, tuple[AbstractInnerProductKernel, str]] = {
    "NTK, depth 2": (house.FullyConnected(depth=2), "ntk"),
    "NTK, depth 3": (house.FullyConnected(depth=3), "ntk"),
    "conjugate, depth 2": (house.FullyConnected(depth=2), "nngp"),
    "Gaussian": (house.Gaussian(1.0), "ntk"),
    "Laplace": (house.Laplace(1.0), "ntk"),
    "arc-cosine": (house.ArcCosine(1), "ntk"),
    "arcsine": (house.Arcsine(math.inf, 0.0), "ntk"),
    "recursive": (house.Recursive(2), "ntk"),
    "polynomial": (house.Polynomial(4, constant=1.0), "ntk"),
}
"""For rows of norm 1; all are functions of inner products, so correlation kernels."""

RIDGES = (1e-6, 10.0)
"""Between these, times the mean diagonal, the ridges of the random cases are drawn."""
HELD_OUT = 8
"""One row of so many chooses rate and decay, and is not trained on."""
BIG = 1000
"""Rows beyond which kernels have one seed: a regression is one over the whole of them, and its error varies little."""
CASES, SPANS, OVER_ALPHA, ONE_PASS = "random cases", "spans", "ResNet, over alpha", "ResNet, one pass"

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

Cell = tuple[int, float, int]
"""N, α and the seed of rows and first weights."""


@dataclass(frozen=True)
class SeparationSettings:
    """What is learnt from how many samples, by which kernels and networks.

    Rates and decays are a grid around what did well on rows apart from these at d = 16 to 64, N = 200 to 2,000 and α = 0.03
    to 1 (rates 0.005 to 0.8, decays 0 to 0.01, widths 200 and 500); in each cell held-out rows choose among them.
    """

    dimensions: tuple[int, ...]
    samples: tuple[tuple[int, ...], ...]
    """N, for each d; all divide the largest and are multiples of 8."""
    most_for_kernels: int
    """Kernels are left out at larger N."""
    seeds: int
    kernels: tuple[str, ...]
    cases: int
    """Random cases in which certificate (i) is tried."""
    case_rows: int
    """N of a case is at most this."""
    span_dimension: int
    """d at which all S and all points are written out for certificate (ii)."""
    span_samples: tuple[int, ...]
    width: int
    steps: int
    rates: tuple[float, ...]
    decays: tuple[float, ...]
    alphas: tuple[float, ...]
    alpha_dimension: int
    alpha_samples: tuple[int, ...]
    alpha_seeds: int
    alpha_kernels: tuple[str, ...]
    online_samples: int
    online_rates: tuple[float, ...]
    alpha: float = 0.3
    k: int = 4
    test: int = 2000
    batch: int = 50
    momentum: float = 0.9

    def __post_init__(self) -> None:
        if len(self.samples) != len(self.dimensions):
            raise ValueError(f"`samples` has {len(self.samples)} lists; expected one for each of {self.dimensions}")
        for of_d in (*self.samples, self.alpha_samples):
            wrong = [N for N in of_d if N % HELD_OUT or max(of_d) % N]
            if wrong:
                raise ValueError(f"N = {wrong[0]}: expected a multiple of {HELD_OUT} that divides {max(of_d)}")

    @property
    def seeds_of(self) -> dict[tuple[int, int], int]:
        """How many seeds the kernels have at d and N."""
        pairs = ((d, N) for d, of_d in zip(self.dimensions, self.samples, strict=True) for N in of_d)
        return {(d, N): self.seeds if N <= BIG else 1 for d, N in pairs if self.most_for_kernels >= N}

    @property
    def regressions(self) -> dict[str, tuple[int, int, int]]:
        """d, N and seed of the kernels' side of the curves, by the name of their part."""
        cells = [(d, N, seed) for (d, N), seeds in self.seeds_of.items() for seed in range(seeds)]
        return {f"kernels, d = {d}, N = {N}, seed {seed}": (d, N, seed) for d, N, seed in cells}

    @property
    def alpha_regressions(self) -> dict[str, Cell]:
        """N, α and seed of the kernels' side of the comparison over α, by the name of their part."""
        return {
            f"kernels, alpha = {alpha:.6g}, N = {N}, seed {seed}": (N, alpha, seed)
            for N, alpha, seed in self.alpha_cells
        }

    def d_power(self, d: int) -> float:
        """d^{k/2}, up to logarithms the number of samples of Theorem 2."""
        return d ** (self.k / 2)

    def cells(self, d: int) -> list[Cell]:
        """What the ResNet is trained on at d."""
        of_d = self.samples[self.dimensions.index(d)]
        return [(N, self.alpha, seed) for N in of_d for seed in range(self.seeds)]

    @property
    def alpha_cells(self) -> list[Cell]:
        """N, α and seed of the comparison over α."""
        return list(itertools.product(self.alpha_samples, self.alphas, range(self.alpha_seeds)))

    @property
    def online_cells(self) -> list[Cell]:
        """The same for the network that sees every row once."""
        return [(self.online_samples, alpha, seed) for alpha in self.alphas for seed in range(self.alpha_seeds)]


def network_name(d: int) -> str:
    """Of the part in which the ResNet is trained at d."""
    return f"ResNet, d = {d}"


def parts(settings: SeparationSettings, key: int, device: str | None) -> list[Part]:
    """Every kernel on its rows, the certificates, and the ResNet."""
    k, test = settings.k, settings.test

    def regression(N: int, names: Sequence[str], certified: bool) -> float:
        return len(names) * planned((20.0 if certified else 10.0) * N**3 + 100.0 * N * test, 0, device)

    found = []
    for name, (d, N, seed) in settings.regressions.items():
        of = (d, k, settings.alpha, seed, key, N, test, settings.kernels, True)
        found.append(Part(name, regressions, of, seconds=regression(N, settings.kernels, True)))
    for name, (N, alpha, seed) in settings.alpha_regressions.items():
        of = (settings.alpha_dimension, k, alpha, seed, key, N, test, settings.alpha_kernels, False)
        found.append(Part(name, regressions, of, seconds=regression(N, settings.alpha_kernels, False)))
    of = (settings.kernels, settings.dimensions, settings.case_rows, k, settings.cases, key)
    found.append(Part(CASES, random_cases, of, seconds=settings.cases * (0.05 + settings.case_rows**3 / 1e9)))
    of = (settings.kernels, settings.span_samples, settings.span_dimension, k, settings.alpha, key)
    points = 2.0**settings.span_dimension
    seconds = planned(len(settings.kernels) * points * sum(4.0 * N**2 for N in settings.span_samples), 0, "cpu")
    found.append(Part(SPANS, spans_written_out, of, seconds=seconds))

    def resnet(name: str, d: int, cells: Sequence[Cell], **other: Any) -> Part:
        how = {
            what: getattr(settings, what)
            for what in ("k", "width", "rates", "decays", "steps", "batch", "momentum", "test")
        }
        how |= other
        runs = len(cells) * len(how["rates"]) * len(how["decays"])
        weights = settings.width * (settings.width + d)
        seconds = planned(6.0 * how["steps"] * how["batch"] * runs * weights, how["steps"], device)
        return Part(name, trained, (d, tuple(cells), how, key), seconds=seconds)

    found += [resnet(network_name(d), d, settings.cells(d)) for d in settings.dimensions]
    found.append(resnet(OVER_ALPHA, settings.alpha_dimension, settings.alpha_cells))
    # Algorithm 1: one row a step, no row twice, no momentum, no decay
    steps = settings.online_samples - settings.online_samples // HELD_OUT
    once = {"rates": settings.online_rates, "decays": (0.0,), "steps": steps, "batch": 1, "momentum": 0.0}
    found.append(resnet(ONE_PASS, settings.alpha_dimension, settings.online_cells, **once))
    return found


@functools.lru_cache(maxsize=64)
def spectrum(name: str, d: int) -> DegreeSpectrum:
    """Of a named kernel on {±1/√d}^d."""
    kernel, get = KERNELS[name]
    return spectrum_on_cube(kernel, d, get=get)


def by_degree(target: ParityTarget, X: np.ndarray) -> dict[int, tuple[np.ndarray, float]]:
    """The target's two parts on the rows, F of degree 1 and αG(F) of degree k, with their mean squares k and kα²."""
    k = target.outputs
    return {1: (target.base(X), float(k)), k: (target.alpha * target.composite(X), k * target.alpha**2)}


def answer(
    name: str,
    target: ParityTarget,
    rows: tuple[np.ndarray, np.ndarray],
    new: tuple[np.ndarray, np.ndarray],
    device: str | None,
    ridges: list[float] | None = None,
    certified: bool = True,
) -> dict[str, float]:
    """Ridge regression with one kernel: its error over the whole cube, on new rows, and what was known of it before.

    `error` is exact up to `rounding`; `sampled` ± `sampled_error` estimates it from the new rows and shares no formula
    with it. `missed` is the error in degree k over kα²: 1 where nothing of G was learned. `spectral` is certificate (i)
    at this ridge, `of_degree` the same from degree k alone, `predicted` the learning curve at this ridge.
    """
    (X, y), (Z, exact), k = rows, new, target.outputs
    kernel, get = KERNELS[name]
    found, own = tuned_regression(kernel, X, y, Z, get=get, ridges=ridges, device=device), spectrum(name, target.d)
    parts = by_degree(target, X)
    error = exact_error(own, X, found.coefficients, parts)
    power = {degree: square for degree, (_, square) in parts.items()}
    squares = ((found.outputs - exact) ** 2).sum(axis=1)
    result = {
        "error": error.value,
        "rounding": error.rounding,
        "missed": error.by_degree[k] / power[k],
        "sampled": float(squares.mean()),
        "sampled_error": float(squares.std(ddof=1) / np.sqrt(len(squares))),
        "left_out": found.left_out,
        "ridge": found.ridge,
        "predicted": float(learning_curve(own, power, [len(X)], ridge=found.ridge).error[0]),
    }
    if certified:
        H = gram(kernel, X, "dense", get=get, device=chosen_device(device))
        try:
            bound = spectral_certificate(kernel, X, y, power, ridge=found.ridge, get=get, spectrum=own, H=H)
            values = bound.value, lower_bound(own, {k: power[k]}, bound.squared_norm)[0]
        except ValueError:  # K + ridge has no factor to rounding: nothing is certified, and 0 always holds
            values = 0.0, 0.0
        result["spectral"], result["of_degree"] = values
    return result


def regressions(
    work: Work,
    d: int,
    k: int,
    alpha: float,
    seed: int,
    key: int,
    N: int,
    test: int,
    names: Sequence[str],
    certified: bool,
) -> dict[str, np.ndarray]:
    """`answer` of every kernel on N rows of a seed, one number a kernel under each name, and certificate (ii)."""
    target = target_of(d, k, alpha, key, seed)
    data = target.sample(N, key=rows_key(d, key, seed), test=test)
    assert data.test is not None
    rows, new = (data.X, data.y), (data.test.X, data.test.y)
    found = []
    for place, name in enumerate(names):
        work.progress(place, len(names), f"{name}, d = {d}, N = {N}")
        found.append(answer(name, target, rows, new, work.device, certified=certified))
    result = {what: np.array([one[what] for one in found]) for what in found[0]}
    counted = {J: dimension_certificate(d, k, N, alpha, kernels=J) for J in (1, len(names))}
    result["dimension"] = np.array(counted[1].mean)
    result["dimension_chosen"] = np.array(counted[len(names)].mean)
    result["probability"] = np.array(counted[1].probability)
    return result


def random_cases(
    work: Work, names: Sequence[str], dimensions: Sequence[int], most: int, k: int, cases: int, key: int
) -> dict[str, np.ndarray]:
    """Certificate (i) in cases drawn from everything."""
    found = []
    for case in range(cases):
        work.progress(case, cases, CASES)
        found.append(random_case(names, dimensions, most, k, [key, 3, case], work.device))
    return {what: np.array([one[what] for one in found]) for what in found[0]}


def random_case(
    names: Sequence[str], dimensions: Sequence[int], most: int, k: int, key: Any, device: str | None
) -> dict[str, Any]:
    """One case drawn from everything: d, N, α, S, rows, kernel; the ridge tuned, or drawn, by the toss of a coin.

    `every_ridge` is certificate (i) without knowing the ridge, 0 where K is not known to be invertible.
    """
    rng = generator(key)
    d, name = int(rng.choice(dimensions)), str(rng.choice(names))
    N = int(np.exp(rng.uniform(np.log(d / 2), np.log(most))))
    alpha = float(np.exp(rng.uniform(np.log(0.05), 0.0)))
    target = ParityTarget.theorem2(d, k, alpha=alpha, key=int(rng.integers(2**62)))
    data = target.sample(N, key=int(rng.integers(2**62)), test=2)
    assert data.test is not None
    kernel, get = KERNELS[name]
    diagonal = float(kernel(data.X[:1], get=get)[0, 0])
    share = float(np.exp(rng.uniform(*np.log(RIDGES))))
    ridges = None if rng.random() < 0.5 else [share * diagonal]
    found = answer(name, target, (data.X, data.y), (data.test.X, data.test.y), device, ridges)
    power = {1: float(k), k: k * alpha**2}
    every = spectral_certificate(kernel, data.X, data.y, power, get=get, spectrum=spectrum(name, d))
    kept = {what: found[what] for what in ("error", "rounding", "spectral", "of_degree", "ridge")}
    counted = dimension_certificate(d, k, N, alpha)
    about = {"d": d, "N": N, "alpha": alpha, "kernel": name, "tuned": ridges is None, "every_ridge": every.value}
    return kept | about | {"dimension": counted.mean}


def spans_written_out(
    work: Work, names: Sequence[str], samples: Sequence[int], d: int, k: int, alpha: float, key: int
) -> dict[str, np.ndarray]:
    """Certificate (ii) against the least errors of all S, for every kernel and N."""
    pairs = list(itertools.product(names, samples))
    least = [least_errors(name, d, k, alpha, N, [key, 4, N]) for name, N in pairs]
    return {
        "least": np.array(least),
        "kernel": np.array([name for name, _ in pairs]),
        "N": np.array([N for _, N in pairs]),
    }


def least_errors(name: str, d: int, k: int, alpha: float, N: int, key: Any) -> np.ndarray:
    """For one kernel and N rows, and every S of k coordinates: the least error of any function in the kernel's span.

    All 2^d points are written out and the target projected, Σ_{i∈S} (1 + α² − ‖Qᵀ(χ_i + αχ_S)‖²), Q an orthonormal basis
    of the N sections. Nothing of the certificates' proof is used.
    """
    kernel, get = KERNELS[name]
    cube = whole_cube(d, size=d**-0.5)
    X = cube[generator(key).choice(len(cube), size=N, replace=False)]
    Q = np.linalg.qr(kernel(cube, X, get=get))[0]
    signs = cube * d**0.5 / np.sqrt(len(cube))  # of mean square 1 under Q's inner product
    subsets = list(itertools.combinations(range(d), k))
    products = np.stack([(cube[:, S] * d**0.5).prod(axis=1) for S in subsets], axis=1) / np.sqrt(len(cube))
    linear, composed = Q.T @ signs, Q.T @ products
    seen = [np.sum((linear[:, list(S)] + alpha * composed[:, [s]]) ** 2) for s, S in enumerate(subsets)]
    return k * (1 + alpha**2) - np.array(seen)


def target_of(d: int, k: int, alpha: float, base: int, seed: int) -> ParityTarget:
    """Theorem 2's target of a seed: the same S for every N and α."""
    return ParityTarget.theorem2(d, k, alpha=alpha, key=[base, seed, d, 1])


def rows_key(d: int, base: int, seed: int) -> list[int]:
    """Of the rows of a seed: kernels and networks see the same ones, fewer samples are the first of more."""
    return [base, seed, d, 2]


def rows(target: ParityTarget, N: int, most: int, test: int, key: Any) -> Dataset:
    """7N/8 training rows, repeated to 7/8 of `most`; as test rows N/8 that choose, repeated too, then new ones.

    Inputs are scaled by √d to ±1, as F(x) = √d x_i asks. Repeated rows change no mean and no chance of being drawn; one
    compiled program then serves every N.
    """
    data = target.sample(N, key=key, test=test)
    assert data.test is not None
    times, held = most // N, N // HELD_OUT
    X, new = data.X * target.d**0.5, data.test.X * target.d**0.5
    judged = np.concatenate([np.tile(X[N - held :], (times, 1)), new])
    right = np.concatenate([np.tile(data.y[N - held :], (times, 1)), data.test.y])
    after = Dataset(judged, right, labels=right, task="regression")
    y = np.tile(data.y[: N - held], (times, 1))
    return Dataset(np.tile(X[: N - held], (times, 1)), y, labels=y, task="regression", test=after)


def trained(work: Work, d: int, cells: Sequence[Cell], how: Mapping[str, Any], key: int) -> dict[str, np.ndarray]:
    """Every cell with every rate and decay as one program: errors E‖H − out‖² of shape (cells, rates, decays).

    `fit` is on the rows trained on, `held` on those held out, `error` on new ones with its standard error `spread`.
    The rate is divided by 10 after half of the steps.
    """
    most, steps, test = max(N for N, _, _ in cells), how["steps"], how["test"]
    sets, settings = [], []
    for N, alpha, seed in cells:
        data = rows(target_of(d, how["k"], alpha, key, seed), N, most, test, rows_key(d, key, seed))
        for rate in how["rates"]:
            for decay in how["decays"]:
                sets.append(data)
                settings.append((rate, decay, 1000 * key + seed))
    found = side_by_side(
        ThreeLayerResNet(how["width"], outputs=how["k"]), sets, settings, steps, batch=how["batch"],
        momentum=how["momentum"], loss="mean", schedule=StepDecay((steps // 2,)), record=steps, measures=("outputs",),
        dtype="float32", device=work.device, place=work.place, progress=work.progress,
    )  # fmt: skip
    held = most // HELD_OUT
    shape = (len(cells), len(how["rates"]), len(how["decays"]))
    targets = np.stack([one.test.y for one in sets if one.test is not None])
    with np.errstate(over="ignore", invalid="ignore"):  # runs that diverged
        squares = ((found.final("test_outputs") - targets) ** 2).sum(axis=2)
        new = squares[:, held:]
        return {
            "fit": 2 * found.final("loss").reshape(shape),  # the objective has a factor ½
            "held": squares[:, :held].mean(axis=1).reshape(shape),
            "error": new.mean(axis=1).reshape(shape),
            "spread": (new.std(axis=1, ddof=1) / np.sqrt(test)).reshape(shape),
            "seconds_per_step": np.array(found.seconds_per_step),
        }


def chosen(run: Arrays) -> dict[str, np.ndarray]:
    """For every cell: what the held-out rows choose, and what the new rows themselves would (`least`, flattered).

    Settings that diverged do not count; a cell where all did has infinite errors.
    """
    cells = len(run["held"])
    flat = {what: run[what].reshape(cells, -1) for what in ("held", "error", "spread", "fit")}
    held = np.where(np.isfinite(flat["held"]), flat["held"], np.inf)
    best, place = held.argmin(axis=1), np.arange(cells)
    error = np.where(np.isfinite(flat["error"]), flat["error"], np.inf)
    found = {what: flat[what][place, best] for what in ("spread", "fit", "held")}
    decays = run["held"].shape[2]
    return found | {
        "error": error[place, best],
        "least": error.min(axis=1),
        "rate": best // decays,
        "decay": best % decays,
    }


def alpha_errors(
    settings: SeparationSettings, kernels: Mapping[Cell, Arrays], networks: Arrays, online: Arrays
) -> dict[tuple[str, int], np.ndarray]:
    """(learner, N) → errors of (seeds, α): the best kernel by leave-one-out, the ResNet, and the ResNet in one pass."""
    shape = (len(settings.alphas), settings.alpha_seeds)
    result: dict[tuple[str, int], np.ndarray] = {}
    picked = chosen(networks)["error"].reshape(len(settings.alpha_samples), *shape)
    for i, N in enumerate(settings.alpha_samples):
        best = np.empty(shape)
        for place, (alpha, seed) in enumerate((a, s) for a in settings.alphas for s in range(settings.alpha_seeds)):
            run = kernels[N, alpha, seed]
            best.flat[place] = run["error"][run["left_out"].argmin()]
        result["kernel", N], result["network", N] = best.T, picked[i].T
    result["one pass", settings.online_samples] = chosen(online)["error"].reshape(shape).T
    return result


def exponent(alphas: Any, errors: Any) -> tuple[float, float | None, float]:
    """Slope of log error in log α, its standard error and the error at α = 1 on the fitted line.

    A line is fitted for each row of `errors` (seeds, α); the slopes' mean and its standard error over seeds are given. One
    row gives the standard error of its own residuals.

    >>> slope, spread, at_one = exponent([0.1, 1.0], [[0.03, 3.0], [0.05, 5.0]])
    >>> round(slope, 9), round(spread, 9), round(at_one, 6)
    (2.0, 0.0, 3.872983)
    """
    x, y = np.log(np.asarray(alphas, dtype=float)), np.log(np.atleast_2d(np.asarray(errors, dtype=float)))
    centred = x - x.mean()
    slopes = y @ centred / (centred @ centred)
    at_one = float(np.exp(np.mean(y.mean(axis=1) - slopes * x.mean())))
    if len(slopes) > 1:
        return float(slopes.mean()), float(slopes.std(ddof=1) / np.sqrt(len(slopes))), at_one
    left = y[0] - y[0].mean() - slopes[0] * centred
    spread = float(np.sqrt(left @ left / (len(x) - 2) / (centred @ centred))) if len(x) > 2 else None
    return float(slopes[0]), spread, at_one


def quantiles(values: Any) -> dict[str, float]:
    """5%, 25%, 50%, 75% and 95%, and the ends.

    >>> quantiles([1.0, 2.0, 3.0])["50%"]
    2.0
    """
    values = np.asarray(values, dtype=float)
    named = {f"{q:.0%}": float(np.quantile(values, q)) for q in QUANTILES}
    return {"least": float(values.min())} | named | {"most": float(values.max())}


def outline(settings: SeparationSettings) -> str:
    """How many regressions and runs, in words."""
    regressions = len(settings.kernels) * sum(settings.seeds_of.values()) + settings.cases
    regressions += len(settings.alpha_cells) * len(settings.alpha_kernels)
    each = len(settings.rates) * len(settings.decays)
    runs = each * (sum(len(settings.cells(d)) for d in settings.dimensions) + len(settings.alpha_cells))
    return (
        f"{regressions} kernel regressions of up to {max(N for _, N in settings.seeds_of)} rows, {runs} runs of "
        f"{settings.steps} steps at width {settings.width} in {len(settings.dimensions) + 1} programs, and "
        f"{len(settings.online_cells) * len(settings.online_rates)} of one pass over {settings.online_samples} rows."
    )


SMOKE = SeparationSettings(
    dimensions=(16,), samples=((64, 256),), most_for_kernels=256, seeds=2, kernels=("NTK, depth 2", "arc-cosine", "arcsine"), cases=12,
    case_rows=48, span_dimension=8, span_samples=(20,), width=48, steps=800, rates=(0.2, 0.4), decays=(1e-3,),
    alphas=(0.2, 1.0), alpha_dimension=16, alpha_samples=(256,), alpha_seeds=2,
    alpha_kernels=("NTK, depth 2", "arcsine"), online_samples=1024, online_rates=(0.05,), test=400,
)  # fmt: skip
SMALL = SeparationSettings(
    dimensions=(16, 24), samples=((32, 64, 128, 256, 512), (72, 144, 288, 576)), most_for_kernels=576, seeds=2,
    kernels=tuple(KERNELS),
    cases=200, case_rows=96, span_dimension=10, span_samples=(40, 100), width=200, steps=4000, rates=(0.2, 0.4),
    decays=(3e-4, 1e-3, 3e-3), alphas=(0.1, 0.18, 0.32, 0.56, 1.0), alpha_dimension=16, alpha_samples=(128, 512),
    alpha_seeds=3, alpha_kernels=("NTK, depth 2", "arc-cosine", "arcsine"), online_samples=8192,
    online_rates=(0.02, 0.05, 0.1),
)  # fmt: skip
FULL = SeparationSettings(
    dimensions=(16, 24, 32, 48, 64),
    samples=(
        (32, 64, 128, 256, 512, 1024, 4096),
        (72, 144, 288, 576, 1152),
        (128, 256, 512, 1024, 4096),
        (288, 576, 1152, 2304, 4608),
        (256, 512, 1024, 4096, 8192),
    ),
    most_for_kernels=4_608, seeds=3, kernels=tuple(KERNELS), cases=200, case_rows=384, span_dimension=12, span_samples=(50, 125, 250, 375),
    width=500, steps=10_000, rates=(0.2, 0.4, 0.8), decays=(3e-4, 1e-3, 3e-3),
    alphas=(0.1, 0.15, 0.22, 0.32, 0.46, 0.68, 1.0), alpha_dimension=32, alpha_samples=(256, 1024), alpha_seeds=4,
    alpha_kernels=("NTK, depth 2", "arcsine"), online_samples=8192, online_rates=(0.01, 0.02, 0.04, 0.08),
    test=4000,
)  # fmt: skip
SETTINGS: dict[Scale, SeparationSettings] = {"smoke": SMOKE, "small": SMALL, "full": FULL}
