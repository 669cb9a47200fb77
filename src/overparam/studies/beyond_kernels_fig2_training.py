"""The trained side of `beyond-kernels-fig2`: the search, the seeds at the best settings, and layer-wise training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core.network import AbstractNetwork, Params
from overparam.networks import Frozen, Plain
from overparam.studies.beyond_kernels_fig2_settings import (
    BATCH,
    MOMENTUM,
    OUTPUTS,
    Settings,
    at_width,
    judges,
    mean_square,
    network,
    rows,
)
from overparam.studies.study import Workplace
from overparam.training import StepDecay, side_by_side
from overparam.training.precision import computing

Cell = tuple[float, float, float, int]
"""β, rate, decay and seed of a run. Seed 0 is the search's."""
Table = dict[str, np.ndarray]
"""Of all runs of a part: beta, lr, decay, seed, validation and test error, fit (the error on the training rows)."""


def trained(
    settings: Settings,
    workplace: Workplace,
    net: AbstractNetwork,
    N: int,
    most: int,
    cells: Sequence[Cell],
    told: str,
    starts: list[Params] | None = None,
) -> tuple[Table, Params]:
    """Every cell trained on its N rows, all as one program, and what each gives on new rows; the weights too."""
    base, steps = workplace.seed, settings.steps(N)
    drawn = dict.fromkeys((beta, seed) for beta, _, _, seed in cells)
    sets = {(beta, seed): rows(settings.target(beta), N, most, [base, seed + 1]) for beta, seed in drawn}
    found = side_by_side(
        net, [sets[beta, seed] for beta, _, _, seed in cells], [(lr, decay, 1000 * base + seed) for _, lr, decay, seed in cells], steps, params=starts,
        batch=BATCH, momentum=MOMENTUM, loss="mean", schedule=StepDecay((steps // 2,)), record=[steps // 2],
        measures=(), dtype=settings.dtype_of(net), device=workplace.device, keep_params=True,
        progress=lambda done, total, what: workplace.progress(done, total, told),
    )  # fmt: skip
    assert found.params is not None
    X = judges(settings, base)
    truths = {beta: settings.target(beta)(X) for beta in dict.fromkeys(cell[0] for cell in cells)}
    judged, cut = [], settings.validation
    with computing("float32", workplace.device) as kind:
        for i, cell in enumerate(cells):
            own = jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), found.params)
            outputs = np.asarray(_outputs(net, own, jnp.asarray(X, kind)))
            truth = truths[cell[0]]
            judged.append((mean_square(outputs[:cut], truth[:cut]), mean_square(outputs[cut:], truth[cut:])))
    table = {name: np.array([cell[i] for cell in cells]) for i, name in enumerate(("beta", "lr", "decay", "seed"))}
    fit = np.where(np.isfinite(found.final("loss")), 2 * found.final("loss"), np.inf)
    table |= {"validation": np.array([v for v, _ in judged]), "test": np.array([t for _, t in judged]), "fit": fit}
    return table | {"seconds_per_step": np.array(found.seconds_per_step)}, found.params


@partial(jax.jit, static_argnums=0)
def _outputs(net: AbstractNetwork, params: Params, X: Any) -> Any:
    return net.apply(params, X)


def searched(settings: Settings, workplace: Workplace, name: str, N: int, betas: Sequence[float], most: int) -> Table:
    """Every rate with every decay, one seed, at the first width."""
    m = settings.widths[0]
    cells = [(beta, lr, decay, 0) for beta in betas for lr, decay in settings.grid(name)]
    told = f"search, {name}, m = {m}, N = {N}{_of(betas)}"

    def make(_: Path | None) -> Mapping[str, Any]:
        return trained(settings, workplace, network(name, m), N, most, cells, told)[0]

    return workplace.part(told, make)


def best_settings(found: Table, beta: float, count: int) -> list[tuple[float, float]]:
    """The (rate, decay) with the least validation error in a search, best first, not all of one rate if several.

    A rate at the edge of stability may do best with the search's seed and kill the network with another one.
    """
    own = np.flatnonzero((found["beta"] == beta) & np.isfinite(found["validation"]))
    order = [int(i) for i in own[np.argsort(found["validation"][own], kind="stable")]]
    if not order:
        raise ValueError(f"every run of the search at β = {beta:g} diverged; search smaller rates")
    best = order[:count]
    if count > 1 and len({float(found["lr"][i]) for i in best}) == 1:
        best[count - 1 :] = [i for i in order[count:] if found["lr"][i] != found["lr"][best[0]]][:1] or best[
            count - 1 :
        ]
    return [(float(found["lr"][i]), float(found["decay"][i])) for i in best]


def repeated(
    settings: Settings,
    workplace: Workplace,
    name: str,
    m: int,
    N: int,
    chosen: Mapping[float, Sequence[tuple[float, float]]],
    most: int,
) -> Table:
    """The settings chosen at each β, each with every seed, at a width."""
    ratio = m / settings.widths[0]
    cells = [
        (beta, *at_width(name, lr, decay, ratio), seed)
        for beta, pairs in chosen.items()
        for lr, decay in pairs
        for seed in range(1, settings.seeds + 1)
    ]
    told = f"seeds, {name}, m = {m}, N = {N}{_of(tuple(chosen))}"

    def make(_: Path | None) -> Mapping[str, Any]:
        return trained(settings, workplace, network(name, m), N, most, cells, told)[0]

    return workplace.part(f"{told} {cells}", make)


def layer_wise(
    settings: Settings, workplace: Workplace, N: int, first: tuple[float, float], both: Sequence[tuple[float, float]]
) -> Table:
    """The ResNet one layer after the other: W, with out₁ alone against H, then V with W held fixed.

    Args:
        N: how many rows.
        first: rate and decay of W's training: the best of `2layer`, which out₁ is.
        both: (rate, decay) tried for V: the search's grid of the ResNet.

    Each layer gets all epochs. Gives the runs of V, and `first_test`, the error of out₁ of the same seed.
    """
    m, most = settings.widths[0], max(settings.layer_wise_samples)
    told = f"layer by layer, 3resnet, m = {m}, N = {N}"
    whole = network("3resnet", m)
    second = Frozen(whole, ("W",))

    def make(_: Path | None) -> Mapping[str, Any]:
        seeds = range(1, settings.seeds + 1)
        with computing("float64", workplace.device):
            drawn = [jax.tree.map(np.asarray, whole.init(1000 * workplace.seed + seed, 30)) for seed in seeds]
        starts = [Params({"W": own.trained["W"]}, own.fixed) for own in drawn]
        cells = [(1.0, *first, seed) for seed in seeds]
        alone = Plain(m, outputs=OUTPUTS)
        inner, ends = trained(settings, workplace, alone, N, most, cells, f"{told}: W", starts)
        halfway = [
            second.freeze(Params({**own.trained, "W": ends.trained["W"][i]}, own.fixed)) for i, own in enumerate(drawn)
        ]
        cells = [(1.0, lr, decay, seed) for lr, decay in both for seed in seeds]
        starts = [halfway[cell[3] - 1] for cell in cells]
        outer = trained(settings, workplace, second, N, most, cells, f"{told}: V", starts)[0]
        return outer | {"first_test": inner["test"][[cell[3] - 1 for cell in cells]]}

    return workplace.part(f"{told} {first}", make)


def _of(betas: Sequence[float]) -> str:
    return "" if tuple(betas) == (1.0,) else f", {len(betas)} β"
