"""The training objective of a JAX network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core.network import AbstractNetwork, Params
from overparam.core.objective import AbstractObjective, Batch, Layer, Mode, Vector
from overparam.core.trees import layer_names
from overparam.landscapes.programs import (
    Form,
    Rows,
    combine_program,
    dot_program,
    filled,
    gradient_program,
    joined,
    placed_program,
    product_program,
    value_program,
    values_program,
    walk_program,
    without_program,
)
from overparam.training.losses import AbstractLoss
from overparam.training.precision import DIGITS, cast, computing


@final
@dataclass(frozen=True, eq=False)
class NetworkObjective(AbstractObjective):
    """The training objective of a network of JAX. Made by `objective_of`."""

    form: Form
    rows: Rows
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
                vector = jnp.concatenate([jnp.asarray(leaf, kind).ravel() for leaf in self._leaves(array)])
            if not bool(jnp.isfinite(vector).all()):
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
        rows = Rows(jnp.asarray(X, kind), jnp.asarray(y, kind), params.fixed, params.state)
        return NetworkObjective(
            form=form, rows=rows, weights=joined(params.trained), dtype=dtype, device=device, layers=form.layers,
            n=len(X), chunk=chunk, mode=mode, mean=mean, digits=DIGITS[dtype], words=words,
        )  # fmt: skip
