"""The training objective of a JAX network, with its compiled programs: its weights are one long vector, its rows come in chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass

from overparam.core.network import AbstractNetwork, Params
from overparam.core.objective import AbstractObjective, Batch, Layer, Mode, Vector
from overparam.core.trees import layer_names
from overparam.training.loop import SAME_BITS
from overparam.training.losses import AbstractLoss
from overparam.training.precision import DIGITS, cast, computing


@dataclass(frozen=True)
class Form:
    """What shapes the compiled programs: equal forms share them, whatever the rows and the weights."""

    network: AbstractNetwork
    loss: AbstractLoss
    mode: Mode
    mean: bool
    chunk: int
    tree: Any
    layers: tuple[Layer, ...]

    def weights(self, w: Any) -> Any:
        """The tree that a vector stands for."""
        return jax.tree.unflatten(self.tree, [w[layer.part].reshape(layer.shape) for layer in self.layers])


@register_dataclass
@dataclass(frozen=True, eq=False)
class FittedRows:
    """What is fitted, and what of the network is not trained."""

    X: Any
    y: Any
    fixed: Any
    state: Any

    def chosen(self, places: Any) -> FittedRows:
        return FittedRows(self.X[places], self.y[places], self.fixed, self.state)


def joined(tree: Any) -> Any:
    return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(tree)])


joined_program = jax.jit(joined)
"""The same where nothing is traced."""


def _over_chunks(form: Form, rows: FittedRows, one: Any, zero: Any) -> Any:
    """Σ one(X, y) over chunks of rows; the last may be shorter. `zero` says what it gives."""
    n = rows.X.shape[0]
    whole = n // form.chunk
    total = zero
    if whole == 1:
        total = one(rows.X[: form.chunk], rows.y[: form.chunk])
    elif whole:
        pairs = tuple(
            array[: whole * form.chunk].reshape(whole, form.chunk, *array.shape[1:]) for array in (rows.X, rows.y)
        )

        def add(total: Any, pair: Any) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, one(*pair)), None

        total = jax.lax.scan(add, zero, pairs)[0]
    if n % form.chunk:
        rest = one(rows.X[whole * form.chunk :], rows.y[whole * form.chunk :])
        total = jax.tree.map(jnp.add, total, rest) if whole else rest
    return total


def _losses(form: Form, rows: FittedRows, trained: Any, X: Any, y: Any) -> Any:
    """Sum of the losses of some rows, in float64: the digits of a sum of many float32 numbers."""
    params = Params(trained, rows.fixed, rows.state)
    if form.mode == "train":
        outputs, _ = form.network.apply_train(params, X)
    else:
        outputs = form.network.apply(params, X)
    return form.loss.each(outputs, y).sum(dtype=jnp.float64)


def _share(form: Form, rows: FittedRows, n: int) -> float:
    """What the sum over `rows` is multiplied by to stand for all n."""
    return (1 if form.mean else n) / rows.X.shape[0]


def _value(form: Form, rows: FittedRows, n: int, w: Any) -> Any:
    trained = form.weights(w)
    total = _over_chunks(form, rows, partial(_losses, form, rows, trained), jnp.zeros((), jnp.float64))
    return _share(form, rows, n) * total


def _gradient(form: Form, rows: FittedRows, n: int, w: Any, v: Any = None) -> Any:
    """∇F, or its derivative along v, ∇²F v: forward over reverse."""
    trained, along = form.weights(w), None if v is None else form.weights(v)

    def one(X: Any, y: Any) -> Any:
        gradient = jax.grad(lambda weights: _losses(form, rows, weights, X, y))
        return gradient(trained) if along is None else jax.jvp(gradient, (trained,), (along,))[1]

    total = _over_chunks(form, rows, one, jax.tree.map(jnp.zeros_like, trained))
    return jnp.asarray(_share(form, rows, n), w.dtype) * joined(total)


def _dot(a: Any, b: Any) -> Any:
    return jnp.sum(a * b, dtype=jnp.float64)


def _drawn(rows: FittedRows, size: int, key: Any, step: Any) -> FittedRows:
    if not size:
        return rows
    own = jax.random.fold_in(jax.random.fold_in(key, 1), step)
    return rows.chosen(jax.random.choice(own, rows.X.shape[0], (size,), replace=False))


TOGETHER = 256
"""Programs over several points or steps are compiled for multiples of this, so that they are few."""

_compiled = partial(jax.jit, compiler_options=SAME_BITS)


@_compiled(static_argnames=("form", "size"))
def value_program(form: Form, rows: FittedRows, w: Any, size: int, key: Any, step: Any) -> Any:
    return _value(form, _drawn(rows, size, key, step), rows.X.shape[0], w)


@_compiled(static_argnames=("form", "size"))
def gradient_program(form: Form, rows: FittedRows, w: Any, size: int, key: Any, step: Any) -> Any:
    return _gradient(form, _drawn(rows, size, key, step), rows.X.shape[0], w)


@_compiled(static_argnames=("form", "size"))
def product_program(form: Form, rows: FittedRows, w: Any, v: Any, size: int, key: Any, step: Any) -> Any:
    return _gradient(form, _drawn(rows, size, key, step), rows.X.shape[0], w, v)


@_compiled(static_argnames=("form",))
def values_program(form: Form, rows: FittedRows, w: Any, directions: tuple[Any, ...], places: Any, count: Any) -> Any:
    """F at the first `count` places; the others are there so that other counts run the same program."""

    def one(q: Any, found: Any) -> Any:
        at = w
        for i, direction in enumerate(directions):
            at = at + places[q, i].astype(w.dtype) * direction
        return found.at[q].set(_value(form, rows, rows.X.shape[0], at))

    return jax.lax.fori_loop(0, count, one, jnp.zeros(places.shape[0], jnp.float64))


@_compiled(static_argnames=("form", "size"))
def walk_program(
    form: Form,
    rows: FittedRows,
    w: Any,
    v: Any,
    steps: Any,
    count: Any,
    smoothing: Any,
    size: int,
    key: Any,
    first: Any,
) -> Any:
    """The first `count` steps; the others are there so that other counts run the same program."""
    n, kind = rows.X.shape[0], w.dtype

    def one(t: Any, carry: Any) -> Any:
        v, before, quotients, lengths = carry
        a, b, c = (steps[t, i].astype(kind) for i in range(3))
        noise = jax.random.normal(jax.random.fold_in(jax.random.fold_in(key, 0), first + t), w.shape, kind)
        Hv = _gradient(form, _drawn(rows, size, key, first + t), n, w + smoothing.astype(kind) * noise, v)
        new = a * v - b * Hv - c * before
        length = jnp.sqrt(_dot(new, new))
        scale = jnp.where(length > 0, 1 / length, 1.0).astype(kind)  # of a function that does not curve, Hv is 0
        return scale * new, scale * v, quotients.at[t].set(_dot(v, Hv)), lengths.at[t].set(jnp.sqrt(_dot(Hv, Hv)))

    nothing = jnp.zeros(steps.shape[0], jnp.float64)
    v, _, quotients, lengths = jax.lax.fori_loop(0, count, one, (v, jnp.zeros_like(v), nothing, nothing))
    return v, quotients, lengths


def filled(rows: np.ndarray) -> Any:
    """With rows of 0 up to a multiple of `TOGETHER`."""
    extra = -len(rows) % TOGETHER
    return jnp.asarray(np.concatenate([rows, np.zeros((extra, rows.shape[1]))]), jnp.float64)


dot_program = jax.jit(_dot)


@jax.jit
def combine_program(factors: tuple[Any, ...], vectors: tuple[Any, ...]) -> Any:
    total = jnp.asarray(factors[0], vectors[0].dtype) * vectors[0]
    for factor, vector in zip(factors[1:], vectors[1:], strict=True):
        total = total + jnp.asarray(factor, vector.dtype) * vector
    return total


@partial(jax.jit, donate_argnums=0)
def placed_program(rows: Any, place: Any, v: Any) -> Any:
    return rows.at[place].set(v)


@jax.jit
def without_program(v: Any, rows: Any) -> Any:
    for _ in range(2):
        v = v - (rows @ v) @ rows
    return v


@final
@dataclass(frozen=True, eq=False)
class NetworkObjective(AbstractObjective):
    """The training objective of a network of JAX. Made by `objective_of`."""

    form: Form
    rows: FittedRows
    weights: Any
    dtype: str
    device: str | None
    layers: tuple[Layer, ...]
    n: int
    chunk: int
    mode: Mode
    mean: bool
    digits: int
    words: str

    @property
    def start(self) -> Vector:
        return self.weights

    def _inside(self) -> Any:
        return computing(self.dtype, self.device)

    def vector(self, weights: Any) -> Vector:
        if weights is None:
            return self.weights
        if isinstance(weights, Params):
            weights = weights.trained
        if isinstance(weights, list | tuple) and all(isinstance(value, int | float) for value in weights):
            weights = np.asarray(weights, dtype=np.float64)
        array: Any = weights
        with self._inside() as kind:
            if hasattr(array, "shape"):
                if array.shape not in (
                    (self.size,),
                    *(layer.shape for layer in self.layers if len(self.layers) == 1),
                ):
                    raise ValueError(
                        f"the weights have shape {array.shape}; expected ({self.size},), arrays by name, or a tree"
                    )
                vector = jnp.asarray(array, kind).ravel()
            else:
                vector = joined_program([jnp.asarray(leaf, kind) for leaf in self._leaves(array)])
            if not np.isfinite(np.asarray(vector)).all():
                raise ValueError("the weights have NaN or infinite numbers; take finite ones")
            return vector

    def _leaves(self, weights: Any) -> list[Any]:
        """The arrays of a tree, or of a dict by name, in order."""
        if isinstance(weights, Mapping) and set(weights) == {layer.name for layer in self.layers}:
            leaves = [weights[layer.name] for layer in self.layers]
        else:
            leaves, tree = jax.tree.flatten(weights)
            if tree != self.form.tree:
                raise ValueError(f"the weights are {tree}; expected {self.form.tree}")
        for leaf, layer in zip(leaves, self.layers, strict=True):
            if np.shape(leaf) != layer.shape:
                raise ValueError(f"the weights have shape {np.shape(leaf)} at {layer.name!r}; expected {layer.shape}")
        return leaves

    def flat(self, vector: Vector) -> np.ndarray:
        return np.asarray(vector, dtype=np.float64)

    def value(self, w: Vector, batch: Batch | None = None) -> float:
        with self._inside():
            return float(value_program(self.form, self.rows, w, *self._batch(batch)))

    def gradient(self, w: Vector, batch: Batch | None = None) -> Vector:
        with self._inside():
            return gradient_program(self.form, self.rows, w, *self._batch(batch))

    def hessian_product(self, w: Vector, v: Vector, batch: Batch | None = None) -> Vector:
        with self._inside():
            return product_program(self.form, self.rows, w, v, *self._batch(batch))

    def values(self, w: Vector, directions: Sequence[Vector], places: np.ndarray) -> np.ndarray:
        with self._inside():
            found = values_program(self.form, self.rows, w, tuple(directions), filled(places), len(places))
            return np.asarray(found, dtype=np.float64)[: len(places)]

    def walk(
        self,
        w: Vector,
        v: Vector,
        coefficients: np.ndarray,
        *,
        smoothing: float,
        batch: int | None,
        key: int,
        first: int = 0,
    ) -> tuple[Vector, np.ndarray, np.ndarray]:
        with self._inside():
            v, *found = walk_program(
                self.form, self.rows, w, v, filled(coefficients), len(coefficients), jnp.asarray(smoothing, jnp.float64),
                self._size(batch), jax.random.key(key), first,
            )  # fmt: skip
            quotients, lengths = (np.asarray(values, dtype=np.float64)[: len(coefficients)] for values in found)
            return v, quotients, lengths

    def _size(self, batch: int | None) -> int:
        return 0 if batch is None or batch >= self.n else batch

    def _batch(self, batch: Batch | None) -> tuple[int, Any, int]:
        batch = Batch(self.n) if batch is None else batch
        return self._size(batch.size), jax.random.key(batch.key), batch.step

    def dot(self, a: Vector, b: Vector) -> float:
        with self._inside():
            return float(dot_program(a, b))

    def combine(self, *terms: tuple[float, Vector]) -> Vector:
        with self._inside():
            return combine_program(tuple(float(factor) for factor, _ in terms), tuple(vector for _, vector in terms))

    def normal(self, key: int) -> Vector:
        with self._inside() as kind:
            return jax.random.normal(jax.random.key(key), (self.size,), kind)

    def only(self, v: Vector, layer: Layer) -> Vector:
        with self._inside():
            return jnp.zeros_like(v).at[layer.part].set(v[layer.part])

    def room(self, count: int) -> Any:
        with self._inside() as kind:
            return jnp.zeros((count, self.size), kind)

    def placed(self, rows: Any, place: int, v: Vector) -> Any:
        with self._inside():
            return placed_program(rows, place, v)

    def without(self, v: Vector, rows: Any) -> Vector:
        with self._inside():
            return without_program(v, rows)

    def mixed(self, rows: Any, factors: np.ndarray) -> Vector:
        with self._inside() as kind:
            return jnp.asarray(factors, kind) @ rows


def network_objective(
    network: AbstractNetwork,
    X: np.ndarray,
    y: np.ndarray,
    params: Params,
    loss: AbstractLoss,
    *,
    mode: Mode,
    mean: bool,
    chunk: int,
    dtype: str,
    device: str | None,
    words: str,
) -> NetworkObjective:
    """A `NetworkObjective` from what was checked."""
    with computing(dtype, device) as kind:
        params = cast(params, kind)
        leaves, tree = jax.tree.flatten(params.trained)
        layers, place = [], 0
        for name, leaf in zip(layer_names(params.trained), leaves, strict=True):
            layers.append(Layer(name, tuple(leaf.shape), place))
            place += leaf.size
        form = Form(network, loss, mode, mean, chunk, tree, tuple(layers))
        rows = FittedRows(jnp.asarray(X, kind), jnp.asarray(y, kind), params.fixed, params.state)
        return NetworkObjective(
            form=form, rows=rows, weights=joined_program(params.trained), dtype=dtype, device=device, layers=form.layers,
            n=len(X), chunk=chunk, mode=mode, mean=mean, digits=DIGITS[dtype], words=words,
        )  # fmt: skip
