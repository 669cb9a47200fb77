"""`objective_of`: what a network is trained to minimise on given data, as a function of its weights."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from overparam.adapters import TorchModule
from overparam.adapters.jax_models import fitted
from overparam.core.checks import require_memory, whole_number
from overparam.core.deprecated import accepts_old
from overparam.core.machine import free_memory
from overparam.core.network import AbstractNetwork, Params, as_key
from overparam.core.objective import MODES, AbstractObjective, Mode, require_averages
from overparam.data import Dataset, as_dataset
from overparam.landscapes.network_objective import network_objective
from overparam.networks import Given
from overparam.networks.composed import AbstractComposed, Frozen
from overparam.training.algorithm import checked_convention
from overparam.training.arguments import as_network, first_weights, initial, require_classes
from overparam.training.losses import as_loss
from overparam.training.precision import checked_dtype, chosen_device, computing

COPIES = 8
"""How many times the weights are held at once: directions, gradients, noise, products."""
CHUNK_BYTES = {"cpu": 2**28, "gpu": 2**32}
"""Memory for what a network holds of the rows that go through it together, for a product with the Hessian."""
TRAIN_CHUNK = 500
"""Rows of a chunk in mode "train", where it decides what is computed, unless told."""


@accepts_old("landscapes.objective_of")
def objective_of(
    network: Any,
    data: Any,
    params: Any = None,
    *,
    objective: Any = "squared",
    loss: str = "mean",
    mode: Mode = "eval",
    max_rows: int | None = None,
    chunk: int | None = None,
    dtype: str = "float64",
    device: str | None = None,
    key: int = 0,
) -> AbstractObjective:
    """The training objective F(w) of a network on data, with its derivatives; without weight decay.

    Args:
        network: a network of the house, a function `apply(params, x)`, an Equinox model (`op.from_equinox`) or a PyTorch
            one (`op.from_torch`).
        data: a `Dataset` or (X, y).
        params: the weights; fresh ones from `key` if None, or the model's own.
        objective: "squared", "cross-entropy", "ramp", "smooth-absolute" or an `AbstractLoss`; for PyTorch the first two, or
            a function (outputs, targets) of its own that gives the mean over rows.
        loss: "mean" over rows, or their "sum".
        mode: "eval" takes the running averages of batch norm, "train" those of each chunk. Dropout is off in both. Only
            networks of the house and PyTorch modules have "train"; a function decides for itself.
        max_rows: the first so many rows; all if None, or where there are no more. Rows of a `Dataset` of images are in file order.
        chunk: rows that go through the network together; what fits the memory if None, and in mode "train" 500.
        dtype: "float64", "float32", or "tf32" on NVIDIA GPUs. PyTorch: see `op.from_torch`.
        device: "cpu", "gpu" or None for the one JAX prefers. PyTorch: where the module is.
        key: of fresh weights.

    >>> import jax.numpy as jnp
    >>> bowl = objective_of(lambda w, x: x @ w, ([[1.0], [2.0]], [0.5, -0.5]), jnp.ones(1))
    >>> bowl.value(bowl.start)  # (½·0.5² + ½·2.5²) / 2
    1.625
    """
    data = _first(as_dataset(data), max_rows)
    mean = checked_convention(loss) == "mean"
    if mode not in MODES:
        raise ValueError(f"`mode` is {mode!r}; expected 'eval' or 'train', how batch norm averages")
    chunk = None if chunk is None else whole_number(chunk, "chunk", least=1)
    if isinstance(network, TorchModule):
        from overparam.adapters.torch_objective import TorchObjective

        return TorchObjective(
            network, _samples(network, data), data.y, params, objective, mode=mode, mean=mean, chunk=chunk
        )
    checked_dtype(dtype, device)
    chosen = as_loss(objective)
    require_classes(chosen, data.y)
    with computing(dtype, device) as kind:
        house = as_network(network, params)
        if mode == "train" and not trains(house):
            raise ValueError(
                f"mode 'train' has no effect on {_kind_of(house)}; leave `mode` out, or take a network of the house or of "
                "PyTorch"
            )
        sizes = jax.eval_shape(lambda: house.init(as_key(0), data.d)) if params is None else params
        need = COPIES * np.dtype(kind).itemsize * sum(int(np.prod(np.shape(leaf))) for leaf in jax.tree.leaves(sizes))
        require_memory(need, free_memory(chosen_device(device)), "the landscape", "take a smaller width or depth")
        if not isinstance(house, AbstractComposed):
            params = first_weights(house, data, params, as_key(key), kind)  # some frameworks do not mix precisions
            house = fitted(house, params, data.d, data.image_shape, kind)
        start = initial(house, data, params, as_key(key), kind)
        if chunk is None:
            chunk = _chunk(house, start, data, mode, kind, chosen_device(device).platform)
        if mode == "train" and jax.tree.leaves(start.state):
            require_averages(data.n, chunk)
    words = f"{chosen.name} loss, {'mean' if mean else 'sum'} over {data.n:,} rows"
    return network_objective(
        house, data.X, data.y, start, chosen, mode=mode, mean=mean, chunk=min(chunk, data.n), dtype=dtype, device=device,
        words=words,
    )  # fmt: skip


def trains(network: Any) -> bool:
    """Whether the mode "train" does anything: networks of the house have it, models in evaluation and functions do not."""
    while isinstance(network, Frozen):
        network = network.network
    return isinstance(network, TorchModule) or getattr(type(network), "apply_train", None) not in (
        None,
        AbstractNetwork.apply_train,
    )


def _kind_of(network: Any) -> str:
    if isinstance(network, Given):
        return "a function, which decides itself how its batch norm averages"
    return f"a {type(network).__name__}, which is in evaluation"


def _first(data: Dataset, rows: int | None) -> Dataset:
    if rows is None:
        return data
    return data.take(slice(whole_number(rows, "max_rows", least=1))).replace(test=None)


def _samples(network: TorchModule, data: Dataset) -> np.ndarray:
    """The rows in the shape the module takes: rows of images are stored channel by channel."""
    shape = network.shape[1:]
    if math.prod(shape) != data.X.shape[1]:
        raise ValueError(f"the module takes samples of shape {shape} and the data has {data.X.shape[1]} numbers a row")
    return data.X.reshape(data.n, *shape)


def _chunk(network: AbstractNetwork, start: Params, data: Dataset, mode: Mode, kind: Any, platform: str) -> int:
    """Rows that fit `CHUNK_BYTES`, counting every intermediate of the forward pass four times."""
    if mode == "train":
        return min(TRAIN_CHUNK, data.n)
    row = jax.ShapeDtypeStruct((1, *data.X.shape[1:]), kind)
    inside = jax.make_jaxpr(network.apply)(start, row).jaxpr.eqns
    bytes_a_row = 4 * sum(
        math.prod(v.aval.shape) * 8 for eqn in inside for v in eqn.outvars if getattr(v.aval, "shape", ())[:1] == (1,)
    )
    room = CHUNK_BYTES.get(platform, CHUNK_BYTES["gpu"])
    return int(np.clip(room // max(bytes_a_row, 1), 1, data.n))
