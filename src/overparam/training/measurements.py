"""What is recorded along a run: loss, accuracy, outputs, movement, sign flips, kernel drift, gradient, PL ratio."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass

from overparam.core.network import AbstractNetwork, Params
from overparam.training.algorithm import AbstractAlgorithm, Problem
from overparam.training.kernel_drift import finite_gram, limit_gram, rows_that_fit
from overparam.training.spectral import spectral_norms

MEASURES = ("outputs", "movement", "spectral", "flips", "kernel", "gradient")
"""What may be left out; loss and accuracy, on training and test rows, are always recorded."""

ON_REQUEST = ("weights",)
"""What is recorded only where it is named: it may be large."""

SIGN_BYTES = 2**30
"""Most memory for the signs at the start; beyond it, flips are counted on the first rows that fit."""

PIECE_BYTES = 2**31
"""Most memory for the pre-activations of the rows looked at together; beyond it, a record goes through them in pieces."""


@register_dataclass
@dataclass(frozen=True, eq=False)
class Reference:
    """What later states are compared with: the weights, signs and kernel at the start, the kernel of infinite width."""

    trained: Any
    signs: tuple[Any, ...] = ()
    kernel_rows: Any = ()
    kernel: Any = ()
    limit: Any = ()


@final
@dataclass(frozen=True)
class Recorder:
    """Which measures to take, and on how many rows: part of the compiled program.

    Args:
        measures: names out of `MEASURES` and `ON_REQUEST`.
        classes: whether an accuracy makes sense.
        flip_rows: flips are counted on that many rows; 0 for none.
        kernel_rows: H(s) is compared on that many rows, spread evenly; 0 for none.
        has_limit: whether the kernel of infinite width is known.
        piece: how many rows go through the network together; 0 for all.
    """

    measures: tuple[str, ...] = MEASURES
    classes: bool = False
    flip_rows: int = 0
    kernel_rows: int = 0
    has_limit: bool = False
    piece: int = 0

    def measure(
        self, network: AbstractNetwork, algorithm: AbstractAlgorithm, state: Any, reference: Reference, problem: Problem
    ) -> dict[str, Any]:
        """All measures of one state, as arrays on the device."""
        params, scale = algorithm.current(state), algorithm.scale(state)
        flips_here = self.flip_rows == problem.n
        share = 1.0 if algorithm.loss == "sum" else 1.0 / problem.n

        def value(trained: Any) -> tuple[Any, tuple[Any, Any]]:
            now = replace(params, trained=trained)
            outputs, changed = self._look(network, now, problem.X, reference.signs if flips_here else ())
            outputs = scale * outputs
            return share * algorithm.objective.each(outputs, problem.y).sum(), (outputs, changed)

        if "gradient" in self.measures:
            (loss, (outputs, changed)), gradient = jax.value_and_grad(value, has_aux=True)(params.trained)
            in_outputs = jax.grad(lambda u: algorithm.objective.each(u, problem.y).sum())(outputs)
            size = sum(jnp.sum(jnp.square(g)) for g in jax.tree.leaves(gradient))
            record = {"loss": loss, "gradient_norm": jnp.sqrt(size), "pl_ratio": size / (2 * loss)}
            record["output_gradient_norm"] = jnp.linalg.norm(in_outputs.ravel())
        else:
            loss, (outputs, changed) = value(params.trained)
            record = {"loss": loss}
        record |= self._fit("", outputs, problem.y)
        if self.flip_rows:
            if not flips_here:
                _, changed = self._look(network, params, problem.X[: self.flip_rows], reference.signs)
            record["flips"] = changed / np.array([signs.size for signs in reference.signs], dtype=np.float64)
        if isinstance(problem.test_X, jax.Array):
            new = scale * self._look(network, params, problem.test_X, ())[0]
            record["test_loss"] = algorithm.objective.each(new, problem.test_y).mean()
            record |= self._fit("test_", new, problem.test_y)
        record |= self._movement(params, reference)
        record |= self._drift(network, params, reference)
        return record

    def _look(self, network: AbstractNetwork, params: Params, X: Any, then: tuple[Any, ...]) -> tuple[Any, Any]:
        """The outputs and, ReLU layer by ReLU layer, how many signs are not what they were `then`."""

        def together(X: Any, then: tuple[Any, ...]) -> tuple[Any, Any]:
            if not then:
                return network.apply(params, X), jnp.zeros(1, int)
            trace = network.trace(params, X)
            changed = [jnp.sum(now != before) for now, before in zip(trace.signs, then, strict=True)]
            return trace.output, jnp.stack(changed)

        def row(given: tuple[Any, tuple[Any, ...]]) -> tuple[Any, Any]:
            output, changed = together(*jax.tree.map(lambda a: a[None], given))
            return output[0], changed

        if not self.piece or X.shape[0] <= self.piece:
            return together(X, then)
        # Without `checkpoint` the gradient would keep what every piece had inside.
        outputs, changed = jax.lax.map(jax.checkpoint(row), (X, then), batch_size=self.piece)
        return outputs, changed.sum(axis=0)

    def _fit(self, prefix: str, outputs: Any, targets: Any) -> dict[str, Any]:
        record = {}
        if "outputs" in self.measures:
            record[f"{prefix}outputs"] = outputs
        if self.classes:
            record[f"{prefix}accuracy"] = jnp.mean(right(outputs, targets), dtype=np.float64)
        return record

    def _movement(self, params: Params, reference: Reference) -> dict[str, Any]:
        moves = jax.tree.leaves(jax.tree.map(jnp.subtract, params.trained, reference.trained))
        record = {}
        if "weights" in self.measures:
            record["weights"] = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(params.trained)])
        if "movement" in self.measures:
            record["movement"] = jnp.stack([jnp.linalg.norm(move.ravel()) for move in moves])
        if "spectral" in self.measures:
            record["movement_spectral"] = spectral_norms(moves)
        return record

    def _drift(self, network: AbstractNetwork, params: Params, reference: Reference) -> dict[str, Any]:
        if not self.kernel_rows:
            return {}
        H = finite_gram(network, params, reference.kernel_rows)
        record = {"kernel_from_start": relative_distance(H, reference.kernel)}
        if self.has_limit:
            record["kernel_from_limit"] = relative_distance(H, reference.limit)
        return record


def prepare(
    network: AbstractNetwork,
    params: Params,
    problem: Problem,
    measures: tuple[str, ...],
    *,
    classes: bool,
    kernel_rows: int,
    runs: int = 1,
    rows_at_once: int | None = None,
    limit: Any = None,
) -> tuple[Recorder, Reference]:
    """The recorder that fits the network and the memory, and what it compares with.

    `runs` share the memory. `limit` is the kernel of infinite width where another run has computed it already.
    """
    inside = jax.eval_shape(network.trace, params, problem.X[:1]).pre_activations
    signs_a_row = sum(g.size for g in inside)
    bytes_a_row = sum(g.size * g.dtype.itemsize for g in inside)
    piece = rows_at_once or (max(1, PIECE_BYTES // runs // bytes_a_row) if bytes_a_row else 0)
    piece = 0 if piece >= problem.n else piece
    signs: tuple[Any, ...] = ()
    flip_rows = 0
    if "flips" in measures and signs_a_row:
        flip_rows = max(1, min(problem.n, SIGN_BYTES // runs // signs_a_row))
        signs = _signs(network, params, problem.X[:flip_rows], piece)
    count, rows, kernel = 0, (), ()
    if "kernel" in measures:
        count = min(kernel_rows, problem.n, rows_that_fit(network, params, problem.X))
    if count:
        rows = problem.X[np.linspace(0, problem.n - 1, count).round().astype(int)]
        kernel = _gram(network, params, rows)
        limit = limit_gram(network, np.asarray(rows, dtype=np.float64)) if limit is None else limit
    limit = () if limit is None or isinstance(limit, tuple) else jnp.asarray(limit, problem.X.dtype)
    recorder = Recorder(measures, classes, flip_rows, count, not isinstance(limit, tuple), piece)
    return recorder, Reference(params.trained, signs, rows, kernel, limit)


_gram = jax.jit(finite_gram, static_argnums=0)


@partial(jax.jit, static_argnames=("network", "piece"))
def _signs(network: AbstractNetwork, params: Params, X: Any, piece: int) -> tuple[Any, ...]:
    if not piece or X.shape[0] <= piece:
        return network.trace(params, X).signs
    signs = jax.lax.map(lambda x: network.trace(params, x[None]).signs, X, batch_size=piece)
    return jax.tree.map(lambda s: s.reshape(s.shape[0], *s.shape[2:]), signs)


def right(outputs: Any, targets: Any) -> Any:
    """Which samples get their class: the sign of one output, the largest of several.

    >>> right(jnp.array([0.5, -0.1]), jnp.array([1.0, 1.0])).tolist()
    [True, False]
    """
    if outputs.ndim == 1:
        return outputs * targets > 0
    return outputs.argmax(axis=1) == targets.argmax(axis=1)


def relative_distance(H: Any, other: Any) -> Any:
    """‖H − other‖_F / ‖other‖_F."""
    return jnp.linalg.norm(H - other) / jnp.linalg.norm(other)
