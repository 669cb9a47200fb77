"""The two sides of a comparison: families of kernels, whose members and ridges exact leave-one-out chooses, and networks,
whose rates, decays and lengths are searched on validation rows before they are trained on all."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam.analysis.comparison_data import Choice, SplitRows, repeats
from overparam.analysis.comparison_machines import COSTS, best_machine, machine_outputs, ridge_error
from overparam.analysis.folds import Folds
from overparam.analysis.host_networks import BATCH, CURVATURE_ROWS, CURVATURE_STEPS, MOMENTUM
from overparam.core.network import AbstractNetwork
from overparam.core.progress import Progress
from overparam.core.words import count_of
from overparam.data import Dataset
from overparam.engines import cross_matrix, gram
from overparam.engines.matrix import chosen_device
from overparam.frame import Work
from overparam.kernels import FullyConnected, Gaussian, Laplace, median_distance
from overparam.networks import Plain, ThreeLayerResNet
from overparam.theory.regression import tuned_on
from overparam.training import StepDecay, Sweep, side_by_side
from overparam.training.precision import computing

FAMILIES = ("NTK", "conjugate", "Laplace", "Gaussian")
DEPTHS = {"NTK": (1, 2, 3), "conjugate": (1, 2)}
WIDTHS = (0.5, 1.0, 2.0, 4.0)
"""Bandwidths tried, times the median distance of two rows."""
ALL_MEMBERS = 1_500
"""Rows up to which every member of a family is tried; above, the one that was best on the size below."""
AROUND = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Ridges tried there, times the best of the size below."""
DISTANCE_ROWS = 1_000
NETWORKS = ("two-layer", "three-layer", "residual")
RATES = (2.0, 0.7, 0.2)
"""Rates tried, over the largest curvature of the mean loss at the start."""
DECAYS = (1e-3, 1e-2)
"""Weight decays tried."""
RECORDS = 20
"""Lengths of training that the validation rows may choose from; the rate falls to a tenth after half the steps."""
LOWERINGS, LOWERED_BY = 3, 3.0
"""How often, and by what, a rate is lowered at which training fails."""
FAILED_BY, FAILED_SHARE = 3.0, 0.1
"""Training has failed where its loss ends above this many times the loss on validation rows and this share of its start."""
TIMED_STEPS = 40
"""Steps of a run that is only timed."""
TIMES = 3
SEARCH_KEY = 1_000
"""First key of the search, apart from those of the runs."""


Families = Mapping[str, Mapping[str, tuple[Any, str]]]
"""family → member → (kernel, which of its kernels)."""
Fits = Mapping[str, np.ndarray]
"""Of the best member of every family on some rows, in columns: its name `member`, its `ridge` and the `least_ridge` that makes
sense (below it rounding decides), what leave-one-out gave (`left_out`, and `left_out_error`, NaN for regression), `cost`, C of
the support-vector machine on it where that is better over the folds and 0 where ridge regression is, the error `folds` of the
better one there, the `seconds` of the family, and its `losses` on the test rows, (families, rows)."""


def make_families(work: Work, ground: SplitRows) -> Families:
    """All kernels that are tried; bandwidths are shares of the median distance of two rows."""
    X = ground.X
    distinct = np.unique(X[:: max(1, len(X) // DISTANCE_ROWS)], axis=0)
    median = median_distance(distinct, rows=DISTANCE_ROWS) if len(distinct) > 1 else 1.0
    families: dict[str, dict[str, tuple[Any, str]]] = {}
    for family, get in (("NTK", "ntk"), ("conjugate", "nngp")):
        families[family] = {f"depth {depth}": (FullyConnected(depth), get) for depth in DEPTHS[family]}
    for family, kind in (("Laplace", Laplace), ("Gaussian", Gaussian)):
        families[family] = {
            f"bandwidth {share * median:.3g}, {share:g} × the median distance": (kind(share * median), "ntk")
            for share in WIDTHS
        }
    return families


def fit_families(
    ground: SplitRows,
    families: Families,
    rows: np.ndarray,
    below: Fits | None,
    *,
    seed: int,
    device: str | None,
    progress: Progress,
) -> Fits:
    """The best member of every family on these rows, by ridge regression or a support-vector machine.

    below: what was best on the next smaller size, if there was one. seed: of the folds.
    """
    found: list[dict[str, Any]] = []
    X, y = ground.X[rows], ground.y[rows]
    folds = ground.folds(rows, seed)
    for place, (family, members) in enumerate(families.items()):
        progress(place, len(families), f"{family}, {count_of(len(rows), 'row')}")
        start = time.perf_counter()
        best: dict[str, Any] = {}
        matrix: Any = None
        names, ridges, floor, costs = list(members), None, None, COSTS
        if below is not None and len(rows) > ALL_MEMBERS:  # a few ridges around what was best on fewer rows
            names, floor = [str(below["member"][place])], float(below["least_ridge"][place])
            ridges = sorted({max(float(below["ridge"][place]) * share, floor) for share in AROUND})
            near = float(below["cost"][place])
            costs = tuple(cost for cost in COSTS if near / 10 <= cost <= 10 * near)
        for name in names:
            kernel, get = members[name]
            H = gram(kernel, X, "dense", get=get, device=chosen_device(device))
            fit = tuned_on(H, kernel, y, ground.Z, ridges=ridges)
            error = np.nan if fit.left_out_error is None else fit.left_out_error
            own = {"member": name, "ridge": fit.ridge, "least_ridge": fit.tried[0][0] if floor is None else floor}
            own |= {"left_out": fit.left_out, "left_out_error": error, "losses": ground.losses(fit.outputs)}
            if not best or _score(own) < _score(best):
                best, matrix = own, H
        best |= _machine(ground, members[best["member"]], matrix.dense(), rows, best["ridge"], folds, costs)
        found.append(best | {"seconds": time.perf_counter() - start})
    progress(len(families), len(families), "kernels")
    return {name: np.array([fit[name] for fit in found]) for name in found[0]}


def _machine(
    ground: SplitRows,
    member: tuple[Any, str],
    K: np.ndarray,
    rows: np.ndarray,
    ridge: float,
    folds: Folds,
    costs: Sequence[float],
) -> dict[str, Any]:
    """`cost` and `folds`; also `losses` on the test rows, where a support-vector machine is better than the ridge. K: of the rows."""
    y, strata, (kernel, get) = ground.y[rows], ground.strata[rows], member
    by_ridge = ridge_error(ground, K, y, ridge, folds)
    by_machine, cost = best_machine(ground, K, y, strata, folds, costs) if costs else (np.inf, 0.0)
    if by_machine >= by_ridge:
        return {"cost": 0.0, "folds": by_ridge}
    outputs = machine_outputs(ground, K, y, strata, cross_matrix(kernel, ground.Z, ground.X[rows], get=get), cost)
    return {"cost": cost, "folds": by_machine, "losses": ground.losses(outputs)}


def _score(fit: Mapping[str, Any]) -> tuple[float, float]:
    """What members are chosen by: the share of wrong classes, then the mean square; for regression the latter."""
    return float(np.nan_to_num(fit["left_out_error"])), float(fit["left_out"])


def best_family(fits: Fits) -> int:
    """The place of the family with the least error over the folds, which all families share; ties go to leave-one-out."""
    return min(
        range(len(fits["member"])),
        key=lambda i: (float(fits["folds"][i]), *_score({name: own[i] for name, own in fits.items()})),
    )


def kernels_part(
    work: Work, ground: SplitRows, sizes: tuple[int, ...], key: int, size: int, draw: int, families: Families,
    below: Fits | None = None,
) -> Fits:  # fmt: skip
    """The kernels of one size and seed as a part."""
    rows = ground.subsets(sizes, key, draw)[size]
    return fit_families(ground, families, rows, below, seed=key + draw, device=work.device, progress=work.progress)


def kernel_choice(family: str, size: int, parts: Sequence[Fits], outputs: int) -> Choice:
    """What a family chose at one size over the seeds."""
    place = FAMILIES.index(family)
    fits = [{name: own[place] for name, own in part.items()} for part in parts]
    members = [str(fit["member"]) for fit in fits]
    common = max(dict.fromkeys(members), key=members.count)
    ridge = float(np.exp(np.mean([np.log(fit["ridge"]) for fit in fits if fit["ridge"] > 0] or [0.0])))
    words = f"{common}, ridge {ridge:.2g}"
    if machines := sorted(float(fit["cost"]) for fit in fits if fit["cost"] > 0):
        tried = " or ".join(f"{cost:g}" for cost in dict.fromkeys(machines))
        words += f"; for {len(machines)} of {count_of(len(fits), 'seed')} a support-vector machine with C = {tried}"
    if len(set(members)) > 1:
        words += f" (so for {members.count(common)} of {count_of(len(members), 'seed')})"
    scores = [float(fit["folds"]) / (outputs if np.isnan(fit["left_out_error"]) else 1) for fit in fits]
    return Choice(family, size, words, float(np.mean(scores)), sum(float(fit["seconds"]) for fit in fits))


@dataclass(frozen=True)
class Trained:
    """What the validation rows chose: a rate, a decay and how many steps, with the validation error and loss."""

    rate: float
    decay: float
    steps: int
    error: float
    loss: float
    seconds: float = 0.0
    """How long the search took."""


def make_network(name: str, width: int, outputs: int) -> AbstractNetwork:
    """A network by name, hidden layers trained and the output layer fixed, as in the paper's experiments."""
    if name == "residual":
        return ThreeLayerResNet(width, outputs)
    return Plain(width, 1 if name == "two-layer" else 2, outputs)


def settings_tried(curvature: float) -> list[tuple[float, float]]:
    """(rate, decay) of every run of a search."""
    return [(share / curvature, decay) for share in RATES for decay in DECAYS]


def search(
    ground: SplitRows,
    network: AbstractNetwork,
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    steps: int,
    *,
    seed: int,
    dtype: str,
    device: str | None,
    progress: Progress,
) -> Trained:
    """The rate, decay and length with the least validation error, its mean over `parts`: (rows to fit, rows to judge).

    All runs go as one program. A run that is not finite counts as the worst.
    """
    sets = [ground.dataset(fit, held) for fit, held in parts]
    curvature = largest_curvature(network, sets[0].X, seed, dtype, device)
    tried = settings_tried(curvature)
    runs = [(rate, decay, SEARCH_KEY + seed + part) for rate, decay in tried for part in range(len(sets))]
    several = [sets[i % len(sets)] for i in range(len(runs))] if len(sets) > 1 else sets[0]  # one is not copied
    found = _train(
        network, several, runs, steps, steps,
        record=range(0, steps + 1, max(1, steps // RECORDS)), dtype=dtype, device=device, progress=progress,
    )  # fmt: skip
    return choose(found, tried, len(sets), ground.k)


def choose(found: Sweep, tried: Sequence[tuple[float, float]], draws: int, outputs: int) -> Trained:
    """The best setting and step of a sweep whose runs are `draws` for each of the settings tried."""
    losses = _over_draws(found.records["test_loss"], draws)
    errors = 2 * losses / outputs  # the loss is half the square, and targets have variance 1 an output
    if "test_accuracy" in found.records:
        errors = 1 - _over_draws(found.records["test_accuracy"], draws)
    bad = ~np.isfinite(losses)
    errors, losses = np.where(bad, np.inf, errors), np.where(bad, np.inf, losses)
    errors[:, 0] = losses[:, 0] = np.inf  # not trained at all
    if np.isinf(losses).all():
        raise ValueError("every run of a search diverged; scale the features, or use `preprocess='auto'`")
    run, place = min(np.ndindex(errors.shape), key=lambda at: (errors[at], losses[at]))
    rate, decay = tried[run]
    return Trained(rate, decay, int(found.steps[place]), float(errors[run, place]), float(losses[run, place]))


def run_all(
    ground: SplitRows,
    network: AbstractNetwork,
    subsets: Sequence[np.ndarray],
    chosen: Trained,
    steps: int,
    *,
    seed: int,
    dtype: str,
    device: str | None,
    progress: Progress,
) -> tuple[np.ndarray, float]:
    """Losses on the test rows, (subsets, rows), of a network trained on all of each subset, and the rate that was used.

    The chosen rate is lowered while the training loss of a run says that it failed: it is above its start, or still near
    it and far above what validation rows had. The search saw other rows and other initial weights, and at the edge of
    stability that is enough to diverge, or to leave all neurons dead.
    """
    sets = [ground.dataset(rows) for rows in subsets]
    rate = chosen.rate
    for left in range(LOWERINGS, -1, -1):
        found = _train(
            network, sets, [(rate, chosen.decay, seed + draw) for draw in range(len(sets))], chosen.steps, steps,
            record=(0, chosen.steps), measures=("outputs",), dtype=dtype, device=device, progress=progress,
        )  # fmt: skip
        first, last = found.records["loss"][:, 0], found.final("loss")
        stuck = (last > FAILED_BY * chosen.loss) & (last > FAILED_SHARE * first)
        if not (found.diverged | stuck).any() or not left:
            return np.stack([ground.losses(outputs) for outputs in found.records["test_outputs"][:, -1]]), rate
        rate /= LOWERED_BY
    raise AssertionError("the last try returns")


def _train(
    network: AbstractNetwork,
    sets: Dataset | list[Dataset],
    runs: list[tuple[float, float, int]],
    steps: int,
    whole: int,
    **options: Any,
) -> Sweep:
    """Heavy-ball SGD on the mean squared loss; the rate falls after half of `whole`, however long this run is."""
    options.setdefault("measures", ())
    first = sets if isinstance(sets, Dataset) else sets[0]
    return side_by_side(
        network, sets, runs, steps, batch=min(BATCH, first.n), momentum=MOMENTUM,
        schedule=StepDecay((whole // 2,)), loss="mean", **options,
    )  # fmt: skip


def largest_curvature(network: AbstractNetwork, X: np.ndarray, seed: int, dtype: str, device: str | None) -> float:
    """The largest eigenvalue of JᵀJ/n, J the derivative of the outputs in the weights at their start, to some percent.

    The mean loss ½Σ‖u − y‖²/n has it as its curvature where the fit is good.
    """
    with computing(dtype, device) as kind:
        rows = jnp.asarray(X[:: max(1, len(X) // CURVATURE_ROWS)][:CURVATURE_ROWS], kind)
        params = jax.tree.map(lambda leaf: leaf.astype(kind), network.init(SEARCH_KEY + seed, X.shape[1]))
        return float(_curvature(network, params, rows))


@partial(jax.jit, static_argnums=0)
def _curvature(network: AbstractNetwork, params: Any, rows: Any) -> Any:
    def outputs(trained: Any) -> Any:
        return network.apply(replace(params, trained=trained), rows)

    start, pull = jax.vjp(outputs, params.trained)

    def product(_: Any, v: Any) -> Any:
        pushed = jax.jvp(outputs, (params.trained,), pull(v / jnp.linalg.norm(v)))[1]
        return pushed / rows.shape[0]

    v = jax.random.normal(jax.random.key(0), start.shape, start.dtype)
    return jnp.linalg.norm(jax.lax.fori_loop(0, CURVATURE_STEPS, product, v))


def _over_draws(values: np.ndarray, draws: int) -> np.ndarray:
    """(settings, records): the mean over the draws of each setting."""
    return values.reshape(-1, draws, values.shape[1]).mean(axis=1)


def step_seconds(
    ground: SplitRows, network: AbstractNetwork, size: int, runs: int, own: bool, dtype: str, device: str | None
) -> float:
    """Seconds of one step of that many runs side by side, each with rows of its own where asked, after compiling; the best of
    three, so that what else the machine does for a moment is not planned for."""
    rows = np.arange(min(size, ground.n))
    data, settings = ground.dataset(rows, rows[:1]), [(1e-6, 0.0, SEARCH_KEY)] * runs
    options: Any = {"record": (0, TIMED_STEPS), "dtype": dtype, "device": device}
    sets = [data] * runs if own else data
    return min(
        _train(network, sets, settings, TIMED_STEPS, TIMED_STEPS, **options).seconds_per_step for _ in range(TIMES)
    )


def search_part(
    work: Work, ground: SplitRows, sizes: tuple[int, ...], key: int, size: int, draws: int, name: str, width: int,
    steps: int, dtype: str,
) -> Trained:  # fmt: skip
    """The search of one network at one size as a part: it goes over the validation parts of `draws` seeds."""
    start = time.perf_counter()
    rows = [ground.subsets(sizes, key, draw)[size] for draw in range(draws)]
    parts = [ground.validation(own, sizes[0], key + draw) for draw, own in enumerate(rows)]
    evened = _evened(parts, repeats(sizes, size))
    network = make_network(name, width, ground.k)
    found = search(ground, network, evened, steps, seed=key, dtype=dtype, device=work.device, progress=work.progress)
    return replace(found, seconds=time.perf_counter() - start)


def runs_part(
    work: Work, ground: SplitRows, sizes: tuple[int, ...], key: int, size: int, seeds: int, name: str, width: int,
    steps: int, dtype: str, chosen: Trained,
) -> dict[str, Any]:  # fmt: skip
    """The runs of one network at one size as a part, one a seed: losses on the test rows, and the rate that was used."""
    start, times = time.perf_counter(), repeats(sizes, size)
    rows = [np.tile(ground.subsets(sizes, key, draw)[size], times) for draw in range(seeds)]
    network = make_network(name, width, ground.k)
    losses, rate = run_all(
        ground, network, rows, chosen, steps, seed=key, dtype=dtype, device=work.device, progress=work.progress
    )
    return {"losses": losses, "rate": rate, "seconds": time.perf_counter() - start}


def network_choice(name: str, size: int, chosen: Trained, rate: float, seconds: float) -> Choice:
    """What was chosen for a network at one size."""
    words = f"rate {rate:.2g}, decay {chosen.decay:g}, {count_of(chosen.steps, 'step')}"
    if rate < chosen.rate:
        words += f" (at the rate chosen, {chosen.rate:.2g}, training failed)"
    return Choice(name, size, words, chosen.error, seconds)


def _evened(parts: list[tuple[np.ndarray, np.ndarray]], times: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Parts of one size, so that they go as one program: rows that belong together may have made them uneven.

    Rows are repeated up to the largest size: a mean over them stays, and the program compiled once serves all sizes.
    """
    fit, held = (min(len(part[side]) for part in parts) for side in (0, 1))
    return [(np.tile(a[:fit], times), np.tile(b[:held], times)) for a, b in parts]
