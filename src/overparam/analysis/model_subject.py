"""The user's model on the user's rows, whatever framework it comes from: what `foresee` asks its questions of."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import jax
import numpy as np

from overparam.adapters import EquinoxNetwork, FlaxNetwork, TorchModule, from_equinox, from_flax, from_torch
from overparam.adapters.jax_models import fitted
from overparam.core.machine import ran_out
from overparam.core.model_steps import AbstractModelSteps
from overparam.core.network import AbstractNetwork, Params, as_key
from overparam.core.spec import Spec, spec_of
from overparam.core.words import count_of
from overparam.data import Dataset
from overparam.frame import fingerprint
from overparam.kernels import Empirical
from overparam.networks.composed import AbstractComposed
from overparam.training.arguments import as_network, first_weights
from overparam.training.precision import computing

GROWN = 1e6
"""A run whose loss passes this many times its first one has diverged."""


@final
@dataclass(frozen=True, eq=False)
class Criterion:
    """What is minimised, as PyTorch's own functions average it: a function of outputs (n, k).

    targets: (n, k), numbers of the squared loss, the mean over rows and outputs of (u − y)² (`torch.nn.MSELoss()`).
    classes: class numbers of the cross-entropy, the mean over rows (`CrossEntropyLoss()`; with one output that is to be
    positive for class 0, `BCEWithLogitsLoss()`); None for the squared loss.
    """

    targets: np.ndarray
    classes: np.ndarray | None = None

    @property
    def words(self) -> str:
        """Which loss the rates are for."""
        if self.classes is None:
            return "squared loss, the mean over rows and outputs of (u − y)², as torch.nn.MSELoss() has it"
        own = "BCEWithLogitsLoss" if self.targets.shape[1] == 1 else "CrossEntropyLoss"
        return f"cross-entropy, the mean over rows, as torch.nn.{own}() has it"

    @property
    def constant(self) -> float:
        """The least loss of outputs that are the same for every row."""
        if self.classes is None:
            return self.value(np.broadcast_to(self.targets.mean(axis=0), self.targets.shape))
        shares = np.bincount(self.classes) / len(self.classes)
        return float(-np.sum(shares[shares > 0] * np.log(shares[shares > 0])))

    def value(self, u: np.ndarray) -> float:
        """The loss."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.classes is None:
                return float(np.mean((u - self.targets) ** 2))
            logits = self._logits(u)
            top = logits.max(axis=1)
            total = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
            return float(np.mean(total - logits[np.arange(len(u)), self.classes]))

    def slope(self, u: np.ndarray) -> np.ndarray:
        """The derivative by the outputs, (n, k)."""
        if self.classes is None:
            return 2 * (u - self.targets) / u.size
        p = self._shares(u)
        p[np.arange(len(u)), self.classes] -= 1
        return (p if u.shape[1] > 1 else p[:, :1]) / len(u)

    def root(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """B v, where Bᵀ B is the second derivative by the outputs at u: all (n, k).

        Of the cross-entropy diag(p) − ppᵀ a row, with B = (I − qqᵀ) diag(q), q = √p.
        """
        return self._scaled(u, v, lambda q, v: _without(q, q * v))

    def root_transposed(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Bᵀ v; see `root`."""
        return self._scaled(u, v, lambda q, v: q * _without(q, v))

    def _scaled(self, u: np.ndarray, v: np.ndarray, own: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        if self.classes is None:
            return v * math.sqrt(2 / u.size)
        p = self._shares(u)
        found = own(np.sqrt(p), v) if u.shape[1] > 1 else np.sqrt(p[:, :1] * p[:, 1:]) * v
        return found / math.sqrt(len(u))

    def _logits(self, u: np.ndarray) -> np.ndarray:
        """One output is the first of two logits, the other of which is 0."""
        return u if u.shape[1] > 1 else np.concatenate([u, np.zeros_like(u)], axis=1)

    def _shares(self, u: np.ndarray) -> np.ndarray:
        logits = self._logits(u)
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)


def _without(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """v less its part along the unit vectors q, row by row."""
    return v - q * (q * v).sum(axis=1, keepdims=True)


LINEAR = 1e-9
"""Share of the outputs up to which a second difference of them is rounding: that of sums of up to a million weights is less."""


@final
@dataclass(frozen=True, eq=False)
class Subject:
    """A model with rows as it takes them.

    framework: "PyTorch", "Flax", "Equinox", "overparam" or "function". kernel: its tangent kernel, in float64.
    steps: as a function of its weights. batch_norm: whether it averages over the batch in training. dropout: None where
    that cannot be seen. training: whether it came in training mode. precision: of its weights, as the user has them.
    """

    spec: Spec
    framework: str
    kernel: Empirical
    samples: np.ndarray
    steps: AbstractModelSteps
    batch_norm: bool
    dropout: bool | None
    training: bool
    precision: str
    marked: tuple[Any, ...] = field(repr=False)
    """What tells this model at these weights from any other."""
    module: Any = None
    """The user's own, of PyTorch."""

    @cached_property
    def digest(self) -> str:
        """Of the model, its weights and its rows: parts that depend on them are named by it."""
        return fingerprint(*self.marked, self.samples)

    @cached_property
    def weights(self) -> int:
        """How many are trained."""
        return len(self.steps.start)

    @cached_property
    def outputs(self) -> np.ndarray:
        """(n, k) before the first step."""
        u = self.steps.outputs(self.steps.start)
        if not np.isfinite(u).all():
            row = int(np.flatnonzero(~np.isfinite(u).all(axis=1))[0])
            raise ValueError(
                f"the model's output for row {row} is NaN or infinite; look at its weights and at that row"
            )
        return u

    @cached_property
    def linear(self) -> bool:
        """Whether the outputs are linear in the weights that are trained: second differences along far moves are rounding."""
        w, u = self.steps.start, self.outputs
        for move in np.random.default_rng(0).standard_normal((2, len(w))) * (1 + np.abs(w).max()):
            ahead, behind, far = (self.steps.outputs(w + share * move) for share in (1.0, -1.0, 8.0))
            size = LINEAR * max(float(np.abs(each).max()) for each in (u, ahead, behind, far))
            if not (
                np.abs(ahead + behind - 2 * u).max() <= size and np.abs(far - u - 8 * (ahead - u)).max() <= 8 * size
            ):
                return False
        return True

    def run(self, criterion: Criterion, rate: float, momentum: float, steps: int) -> np.ndarray:
        """The losses of a short run: a copy of a module by `torch.optim.SGD`, all else by the house's own steps."""
        if self.module is not None:
            from overparam.adapters.torch_steps import torch_run

            return torch_run(
                self.module, self.samples, criterion.targets, criterion.classes, lr=rate, momentum=momentum, steps=steps,
                grown=has_grown,
            )  # fmt: skip
        losses = np.full(steps + 1, np.inf)
        w, velocity = self.steps.start, 0.0
        for step in range(steps + 1):
            u = self.steps.outputs(w)
            losses[step] = criterion.value(u)
            if not np.isfinite(losses[step]) or has_grown(losses[0], losses[step]):
                losses[step:] = np.inf
                break
            if step < steps:
                velocity = momentum * velocity - rate * self.steps.pull(w, criterion.slope(u))
                w = w + velocity
        return losses


def has_grown(first: float, loss: float) -> bool:
    """Whether a loss is so far above the first one that it will not come back."""
    return loss > GROWN * max(first, 1e-300)


def squashed_by(outputs: np.ndarray) -> str:
    """ "softmax" where the outputs of every row are a distribution, "sigmoid" where all of a single one are in (0, 1).

    >>> squashed_by(np.array([[0.25, 0.75], [0.5, 0.5]])), squashed_by(np.array([[0.2], [0.7]])), squashed_by(np.eye(2) - 1)
    ('softmax', 'sigmoid', '')
    """
    if outputs.min() < 0 or outputs.max() > 1:
        return ""
    if outputs.shape[1] == 1:
        return "sigmoid"
    return (
        "softmax" if np.allclose(outputs.sum(axis=1), 1, rtol=0, atol=1e-3) else ""
    )  # half precision has three digits


@contextlib.contextmanager
def within_memory(rows: int) -> Iterator[None]:
    """One line with the fix where the model does not fit in memory inside, whichever framework says so and how."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not ran_out(error):
            raise
        raise ValueError(
            f"the model on {count_of(rows, 'row')} at once does not fit in memory; take fewer rows, such as `max_rows={max(rows // 4, 1)}`, "
            "or a smaller model"
        ) from error


def subject_of(model: Any, data: Dataset, params: Any, key: int, device: str | None) -> Subject:
    """The model, ready to be asked: every form a user may have it in, or one line.

    Args:
        model: a `torch.nn.Module`, an `eqx.Module`, an `nnx.Module`, what `op.from_torch`, `op.from_flax` or
            `op.from_equinox` give, a network of the house, or a function of (params, x).
        data: rows; images are tried in the shapes they may have.
        params: weights of a network of the house or of a function; fresh ones from `key` if None.
        key, device: of fresh weights; where JAX computes.
    """
    origins = {cls.__module__.partition(".")[0] for cls in type(model).__mro__}
    if isinstance(model, TorchModule) or "torch" in origins:
        if params is not None:
            raise ValueError("`params` are given with a PyTorch module, which carries its own; leave them out")
        return _of_torch(model, data)
    if "flax" in origins and not isinstance(model, AbstractNetwork):
        model = _of_flax(model)
    elif "equinox" in origins and not isinstance(model, AbstractNetwork):
        model = from_equinox(model)
    return _of_jax(model, data, params, key, device)


def _of_flax(model: Any) -> FlaxNetwork:
    from flax import linen

    if isinstance(model, linen.Module):
        raise ValueError("a `linen.Module` does not carry its weights; pass `op.from_flax(module, variables)`")
    return from_flax(model)


def _of_torch(model: Any, data: Dataset) -> Subject:
    network, samples = (model, _shaped(model, data)) if isinstance(model, TorchModule) else _fitted_module(model, data)
    from overparam.adapters.torch_steps import TorchSteps, has_batch_norm, has_dropout, precision_of

    module = network.module
    return Subject(
        spec=spec_of(module), framework="PyTorch", kernel=Empirical(network), samples=samples,
        steps=TorchSteps(network, samples), batch_norm=has_batch_norm(module), dropout=has_dropout(module),
        training=module.training, precision=precision_of(module), marked=(module,), module=module,
    )  # fmt: skip


def _shaped(network: TorchModule, data: Dataset) -> np.ndarray:
    shape = network.shape[1:]
    if math.prod(shape) != data.d:
        raise ValueError(
            f"the module takes samples of shape {shape} and {data.name} has {count_of(data.d, 'number')} a row"
        )
    samples = np.asarray(data.X).reshape(data.n, *shape)
    return samples.astype(np.int64) if network.integer else samples


def _fitted_module(module: Any, data: Dataset) -> tuple[TorchModule, np.ndarray]:
    """The module with the first shape of rows that it takes: images with their channels, then flat rows."""
    shape = data.image_shape
    shapes = [(data.d,)] if shape is None else [*([(1, *shape)] if len(shape) == 2 else []), shape, (data.d,)]
    X, why = np.asarray(data.X, dtype=np.float64), ""
    device = getattr(next(iter(getattr(module, "parameters", lambda: iter(()))()), None), "device", None)
    precision = None if getattr(device, "type", "") == "mps" else "float64"  # Apple's GPUs have no float64
    whole = bool(np.all(np.rint(X) == X))  # tokens, for modules that begin with an embedding
    for one, kind in [(one, np.float64) for one in shapes] + [(one, np.int64) for one in shapes if whole]:
        samples = X.reshape(data.n, *one).astype(kind)
        try:
            return from_torch(module, samples[:2], dtype=precision), samples
        except ValueError as error:
            if "fails on a batch" not in str(error) and "turned a batch" not in str(error):
                raise
            why = why or str(error)
    from overparam.adapters.torch_steps import has_embedding

    tokens = not whole and has_embedding(module)
    fix = "; a module that begins with an embedding needs whole numbers, and rows that are not scaled" if tokens else ""
    raise ValueError(f"{why}; the rows of {data.name} have {count_of(data.d, 'number')}{fix}")


def _of_jax(model: Any, data: Dataset, params: Any, key: int, device: str | None) -> Subject:
    framework = {FlaxNetwork: "Flax", EquinoxNetwork: "Equinox"}.get(type(model))
    framework = framework or ("overparam" if isinstance(model, AbstractNetwork) else "function")
    with computing("float64", device) as kind:
        house = as_network(model, params)
        start = first_weights(house, data, params, as_key(key), kind)
        if not isinstance(house, AbstractComposed):
            house = fitted(house, start, data.d, data.image_shape, kind)
        start = jax.tree.map(np.asarray, start)
    state = bool(jax.tree.leaves(start.state)) or _has_averages(start.fixed)
    return Subject(
        spec=spec_of(model), framework=framework, kernel=Empirical(house, start), samples=np.asarray(data.X, np.float64),
        steps=JaxSteps(house, start, np.asarray(data.X, np.float64), device), batch_norm=state, dropout=None,
        training=False, precision="float64", marked=(model, start),
    )  # fmt: skip


def _has_averages(fixed: Any) -> bool:
    """Whether what is not trained holds running averages: Flax calls them so."""
    if isinstance(fixed, dict) and "batch_stats" in fixed:
        return True
    return any(
        type(leaf).__name__ == "BatchStat" for leaf in jax.tree.leaves(fixed, is_leaf=lambda x: hasattr(x, "value"))
    )


@final
class JaxSteps(AbstractModelSteps):
    """A network of JAX with these weights on rows X, computed in float64."""

    def __init__(self, network: AbstractNetwork, params: Params, X: np.ndarray, device: str | None) -> None:
        self.network, self.params, self.X, self.device = network, params, X, device
        leaves, self.tree = jax.tree.flatten(params.trained)
        self.shapes = [leaf.shape for leaf in leaves]
        self._start = np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in leaves])

        def function(w: Any, X: Any) -> Any:
            return network.apply(replace(params, trained=self._tree(w)), X).reshape(len(X), -1)

        self._outputs = jax.jit(function)
        self._pull = jax.jit(lambda w, c, X: jax.vjp(lambda w: function(w, X), w)[1](c)[0])
        self._push = jax.jit(lambda w, v, X: jax.jvp(lambda w: function(w, X), (w,), (v,))[1])

    @property
    def start(self) -> np.ndarray:
        return self._start

    def outputs(self, w: np.ndarray) -> np.ndarray:
        return self._made(self._outputs, w)

    def pull(self, w: np.ndarray, c: np.ndarray) -> np.ndarray:
        return self._made(self._pull, w, c)

    def push(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self._made(self._push, w, v)

    def _made(self, program: Any, *arrays: np.ndarray) -> np.ndarray:
        with computing("float64", self.device):
            return np.asarray(program(*arrays, self.X))

    def _tree(self, w: Any) -> Any:
        parts, place = [], 0
        for shape in self.shapes:
            size = math.prod(shape)
            parts.append(w[place : place + size].reshape(shape))
            place += size
        return jax.tree.unflatten(self.tree, parts)
