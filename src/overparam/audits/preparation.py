"""What the user gave, made the subject of an audit: network, weights and samples checked and brought together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from overparam.adapters.jax_models import fitted
from overparam.adapters.torch_module import TorchModule
from overparam.audits.perturbations import radius
from overparam.audits.subject import EFFORTS, Architecture, Effort, Subject, inside_of
from overparam.core.checks import one_of, require_memory, whole_number
from overparam.core.machine import available_memory
from overparam.core.network import AbstractNetwork, Params, as_key
from overparam.core.spec import Spec, spec_of
from overparam.data import Dataset, as_dataset
from overparam.data.scaling import pad_beyond_two_layers, pad_convergence, unit_rows
from overparam.networks.composed import AbstractComposed
from overparam.training.arguments import require_weights_of
from overparam.training.precision import DIGITS, cast
from overparam.training.trajectory import (
    Trajectory,
    compares,
    require_loss_of,
    require_network_of,
    require_rows_of,
)

COPIES = 8
"""How many times the activations of all rows, and the weights, are held at once."""
ROWS = 1_000
"""Most samples used unless told."""
PREPARATIONS = ("auto", "paper", "none")
ARCHITECTURES: dict[str, Architecture] = {
    "FullyConnected": "fully connected",
    "Residual": "residual",
    "Convolutional": "convolutional",
    "TwoLayer": "two-layer",
    "BiasedTwoLayer": "biased two-layer",
    "ThreeLayer": "three-layer",
    "ThreeLayerResNet": "three-layer resnet",
}
SMALLEST, LARGEST = 1e-3, 1.0
"""Radii of the perturbations unless told: a share of the spectral norms of the weights, which are about 2 to 3."""


def prepare_subject(
    network: Any,
    data: Any,
    *,
    params: Any = None,
    key: int = 0,
    omegas: Sequence[float] | None = None,
    max_rows: int | None = None,
    run: Any = None,
    effort: str | Effort = "usual",
    preprocess: str = "auto",
    dtype: str = "float64",
) -> tuple[Subject, Dataset, tuple[str, ...]]:
    """What `audit` with these arguments looks at, the rows it takes as they were before the network's own shape, and what
    was done to them; one line where something does not fit."""
    one_of(preprocess, "preprocess", PREPARATIONS)
    if isinstance(key, bool) or not isinstance(key, int | np.integer) or key < 0:
        raise ValueError(f"`key` is {key!r}; expected a whole number ≥ 0")
    if run is not None and not isinstance(run, Trajectory):
        raise ValueError(f"`run` is a {type(run).__name__}; expected the `Trajectory` of a training run")
    if not isinstance(network, AbstractNetwork | TorchModule):
        raise ValueError(
            f"`network` is a {type(network).__name__}; expected one of op.networks, or what `op.from_torch`, "
            "`op.from_equinox` or `op.from_flax` gives"
        )
    if run is not None and not isinstance(network, TorchModule):
        require_network_of(run, network)
    given = as_dataset(data)
    if run is not None and max_rows is None:
        require_rows_of(run, given.n, given.name)
    few = given.subset(min(whole_number(ROWS if max_rows is None else max_rows, "max_rows", least=1), given.n))
    notes = [] if few.n == given.n else [f"{few.n:,} of {given.n:,} rows"]
    architecture = ARCHITECTURES.get(type(network).__name__, "other")
    ready = _prepared(few, network, architecture, params, run, preprocess)
    if ready.notes != few.notes:
        notes += [note for note in ready.notes if note not in few.notes]
    name = str(spec_of_network(network))
    network, X, weights = _matched(network, ready, params, int(key), run, dtype)
    spent = checked_effort(effort)
    subject = Subject(network, weights, X, np.zeros((len(X), 0)), (), int(key), spent, architecture, dtype, run)
    inside = subject.inside
    if not inside.count:
        why = f" ({'; '.join(map(str, inside.unseen))})" if inside.unseen else ""
        raise ValueError(f"{name} has no ReLU layer that can be seen{why}; the laws are about ReLU layers")
    targets, note = _targets(ready, inside.outputs)
    if run is not None and few.n == given.n == run.n:
        _require_loss_of(run, network, X, ready.y, dtype)
    subject = subject.but(y=targets, omegas=_radii(omegas, subject))
    return subject, ready, (*notes, *note)


def require_dtype(dtype: str) -> None:
    """Refuse precisions of too few digits in one line."""
    if dtype not in ("float64", "float32"):
        why = ", whose three digits are too few for an audit" if dtype == "tf32" else ""
        raise ValueError(f"`dtype` is {dtype!r}{why}; audits take 'float64' or 'float32'")


def checked_effort(effort: str | Effort) -> Effort:
    """By name, or one line; one of one's own as it is."""
    if isinstance(effort, Effort):
        return effort
    if effort not in EFFORTS:
        raise ValueError(f"`effort` is {effort!r}; expected one of {', '.join(EFFORTS)}")
    return EFFORTS[effort]


def _radii(omegas: Sequence[float] | None, subject: Subject) -> tuple[float, ...]:
    """The radii in rising order; that of the run among them where there is one."""
    if omegas is None:
        found = np.geomspace(SMALLEST, LARGEST, subject.effort.radii).tolist()
    else:
        try:
            found = [float(omega) for omega in omegas]
        except (TypeError, ValueError):
            raise ValueError(f"`omegas` is {omegas!r}; expected radii such as [0.001, 0.01, 0.1]") from None
    wrong = [omega for omega in found if not (omega > 0 and np.isfinite(omega))]
    if wrong or not found:
        raise ValueError(f"`omegas` has {wrong[0] if wrong else 'no radius'}; expected positive numbers")
    if subject.run is not None:
        moved = radius(subject.training_displacement, subject.stacked)
        if moved > 0:
            found.append(moved)
    return tuple(sorted({float(f"{omega:.12g}") for omega in found}))


def spec_of_network(network: Any) -> Spec:
    """The network as a result names it; of a PyTorch module its own name."""
    return spec_of(network.module if isinstance(network, TorchModule) else network)


def _prepared(data: Dataset, network: Any, architecture: str, params: Any, run: Any, preprocess: str) -> Dataset:
    """The data as the papers want it, where the network's inputs may be chosen."""
    if preprocess == "none" or architecture == "other":
        return data
    ready = _of_paper(data, architecture)
    if preprocess == "paper" or (params is None and run is None):
        return ready
    start = params if run is None else run.params
    fits = not isinstance(start, Params) or _fits(network, start, data.d)
    return data if fits else ready  # weights that are there already tell what they take


def _of_paper(data: Dataset, architecture: str) -> Dataset:
    if architecture in ("fully connected", "residual"):
        return pad_convergence(data)
    if architecture in ("biased two-layer", "three-layer"):
        return pad_beyond_two_layers(data)
    return unit_rows(data)


def _fits(network: AbstractComposed, params: Params, d: int) -> bool:
    try:
        with jax.enable_x64(True):
            require_weights_of(network, d, params)
    except ValueError:
        return False
    return True


def _matched(
    network: Any, data: Dataset, params: Any, key: int, run: Trajectory | None, dtype: str
) -> tuple[Any, np.ndarray, Any]:
    """The network, the samples in the shape it takes, and its weights at the start."""
    X = np.asarray(data.X, dtype=np.float64)
    if isinstance(network, TorchModule):
        if run is not None:
            raise ValueError("`run` is for networks that `op.training` trains; for PyTorch pass `params`, or none")
        shape = network.shape[1:]
        if int(np.prod(shape)) != data.d:
            raise ValueError(f"rows have {data.d} numbers and the module's example {shape}; pass samples of that shape")
        return network, X.reshape(len(X), *shape), params
    _require_room(network, data.d, params)
    if isinstance(network, AbstractComposed):
        return network, X, _weights(network, data, params, key, run)
    if params is not None and not isinstance(params, Params):
        raise ValueError(f"`params` is a {type(params).__name__}; expected those of `net.init(key, {data.d})`")
    with jax.enable_x64(True):
        # Some frameworks take samples of the dtype of their weights alone.
        start = cast(params if params is not None else network.init(key, data.d), np.dtype(dtype))
        return fitted(network, start, data.d, data.image_shape, np.dtype(dtype)), X, start


def _require_room(network: AbstractNetwork, d: int, params: Any) -> None:
    """Raise before weights are drawn that do not fit: XLA would end the process."""
    if params is None:
        with jax.enable_x64(True):
            params = jax.eval_shape(lambda: network.init(as_key(0), d))
    size = sum(int(np.prod(np.shape(leaf))) for leaf in jax.tree.leaves(params))
    require_memory(8 * COPIES * size, available_memory(), "the audit", "take a smaller width or depth")


def _weights(network: AbstractComposed, data: Dataset, params: Any, key: int, run: Trajectory | None) -> Params:
    with jax.enable_x64(True):
        if params is not None and not isinstance(params, Params):
            raise ValueError(f"`params` is a {type(params).__name__}; expected those of `net.init(key, {data.d})`")
        if params is None:
            seed = key if run is None or run.provenance.seed is None else run.provenance.seed
            params = network.init(as_key(seed), data.d)
        else:
            require_weights_of(network, data.d, params)
        if run is not None:
            require_weights_of(network, data.d, run.params)
            _require_start_of(run, params)
    return params


def _require_start_of(run: Trajectory, params: Params) -> None:
    """Raise where the run's own record of its movement says that it began elsewhere."""
    if "movement" not in run.records:
        return
    pairs = zip(jax.tree.leaves(run.params.trained), jax.tree.leaves(params.trained), strict=True)
    moved = np.array([np.linalg.norm(np.asarray(end, float) - np.asarray(start, float)) for end, start in pairs])
    told = np.asarray(run.movement[-1], float)
    if not np.allclose(moved, told, rtol=1e-3, atol=1e-5 * (1 + np.linalg.norm(told))):
        raise ValueError(
            f"the run recorded a movement of {np.linalg.norm(told):.4g} and its last weights are {np.linalg.norm(moved):.4g} "
            "from these first ones; pass `params`, the weights it began with"
        )


def _require_loss_of(run: Trajectory, network: Any, X: np.ndarray, y: np.ndarray, dtype: str) -> None:
    """Raise where the squared loss at the last weights is not the one the run recorded: its rows were others."""
    if run.objective != "squared" or not compares(run):
        return
    end = inside_of(network, run.params, X, dtype)
    outputs = end.output(end.weights)
    if outputs.size == y.size:
        each = 0.5 * np.square(outputs - y.reshape(outputs.shape)).sum(axis=1)
        require_loss_of(run, float(each.mean()), y, DIGITS[dtype])


def _targets(data: Dataset, outputs: int) -> tuple[np.ndarray, tuple[str, ...]]:
    y = np.asarray(data.y, float).reshape(data.n, -1)
    if y.shape[1] == outputs:
        return y, ()
    if data.task == "binary" and outputs == 2:
        return np.column_stack([y[:, 0], -y[:, 0]]) / 2, ("two outputs: targets ½ and −½",)
    raise ValueError(
        f"the network has {outputs} outputs and the data {y.shape[1]} targets a row; give the network `outputs={y.shape[1]}`"
    )
