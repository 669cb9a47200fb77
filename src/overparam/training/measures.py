"""What is recorded along a run: loss, accuracy, outputs, movement and its spectral norm, sign flips, kernel drift, gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core.network import AbstractNetwork, Params
from overparam.kernels.empirical_rows import tangent_gram
from overparam.networks import TwoLayer
from overparam.training.algorithm import AbstractAlgorithm, Problem

MEASURES = ("outputs", "movement", "spectral", "flips", "kernel", "gradient")
"""What may be left out; loss and accuracy, on training and test rows, are always recorded."""

ON_REQUEST = ("weights",)
"""What is recorded only where it is named: it may be large."""

SIGN_BYTES = 2**30
"""Most memory for the signs at the start; beyond it, flips are counted on the first rows that fit."""

PIECE_BYTES = 2**31
"""Most memory for the pre-activations of the rows looked at together; beyond it, a record goes through them in pieces."""


JACOBIAN_BYTES = 2**28
"""Most memory for the derivatives of one layer; it limits the rows on which H(s) of a deep network is compared."""

PRODUCTS = 32
"""Of the recursion for a spectral norm."""


class Reference(NamedTuple):
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
    one = jax.ShapeDtypeStruct((1, *problem.X.shape[1:]), problem.X.dtype)
    inside = jax.eval_shape(network.trace, params, one).pre_activations
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
        rows = jnp.take(problem.X, np.linspace(0, problem.n - 1, count).round().astype(int), axis=0)
        kernel = _gram(network, params, rows)
        limit = limit_gram(network, np.asarray(rows, dtype=np.float64)) if limit is None else limit
    limit = () if limit is None or isinstance(limit, tuple) else jnp.asarray(limit, problem.X.dtype)
    recorder = Recorder(measures, classes, flip_rows, count, not isinstance(limit, tuple), piece)
    return recorder, Reference(params.trained, signs, rows, kernel, limit)


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


def finite_gram(network: AbstractNetwork, params: Params, X: Any) -> Any:
    """H_ij = Σ over trained weights of ∂u_i ∂u_j; the mean over outputs where there are several.

    For the two-layer network H_ij = (x_i·x_j / m) Σ_r 1_{r,i} 1_{r,j}, from whole counts, which are exact in float32.

    Ref: fine_grained, Sec. 3.4, Lemma C.2, Lemma C.3
    """
    if isinstance(network, TwoLayer):
        on = network.trace(params, X).pre_activations[0] > 0
        # Counts up to 2²⁴ are exact in float32 sums, and 0 and 1 in bfloat16, which GPUs multiply ten times faster.
        kind = jnp.float32 if jax.default_backend() == "cpu" else jnp.bfloat16
        marks = on.astype(kind)
        counts = jnp.matmul(marks, marks.T, preferred_element_type=jnp.float32)
        return (X @ X.T) * counts.astype(X.dtype) / on.shape[1]
    return tangent_gram(network, params, X)


_gram = jax.jit(finite_gram, static_argnums=0)


def rows_that_fit(network: AbstractNetwork, params: Params, X: Any) -> int:
    """On how many rows the derivatives of the largest layer fit in `JACOBIAN_BYTES`."""
    if isinstance(network, TwoLayer):
        return X.shape[0]
    outputs = int(np.prod(jax.eval_shape(network.apply, params, X[:1]).shape))
    largest = max((leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params.trained)), default=1)
    return int(JACOBIAN_BYTES // max(1, largest * outputs))


def limit_gram(network: AbstractNetwork, X: np.ndarray) -> Any:
    """The Gram matrix of infinite width where the network knows its kernel on these rows, else ().

    Training needs no kernel: a network without one in closed form, or rows of norm 0, are no reason to stop.
    """
    kernel = getattr(network, "kernel", None)
    if kernel is None:
        return ()
    try:
        return kernel()(X)
    except ValueError:
        return ()


def spectral_norms(arrays: Sequence[Any]) -> Any:
    """`spectral_norm` of each; those of one shape go through one program, or a deep network would compile for minutes.

    >>> spectral_norms([jnp.eye(2), 3 * jnp.eye(2)]).round(5).tolist()
    [1.0, 3.0]
    """
    matrices = [as_tall_matrix(array) for array in arrays]
    places: dict[tuple[int, int], list[int]] = {}
    for place, matrix in enumerate(matrices):
        places.setdefault(matrix.shape, []).append(place)
    found: list[Any] = [None] * len(matrices)
    for own in places.values():
        norms = jax.vmap(spectral_norm)(jnp.stack([matrices[place] for place in own]))
        for i, place in enumerate(own):
            found[place] = norms[i]
    return jnp.stack(found)


def as_tall_matrix(array: Any) -> Any:
    """The first axis as rows, the others as columns, turned so that there are no more columns than rows."""
    array = jnp.atleast_1d(array)
    array = array.reshape(array.shape[0], -1)
    return array.T if array.shape[0] < array.shape[1] else array


def spectral_norm(matrix: Any) -> Any:
    """‖M‖₂ by the Lanczos recursion on MᵀM from a fixed random vector, with full reorthogonalisation.

    A lower bound, exact up to rounding from as many products on as M has rows or columns. With 32 it was short by 1e-5
    of itself on a Gaussian 1000 × 784 matrix, whose largest singular values lie close together. Arrays of more axes are
    matrices with their first axis as rows; of a vector it is the length.

    >>> round(float(spectral_norm(jnp.diag(jnp.array([3.0, 1.0])))), 5)
    3.0
    """
    matrix = as_tall_matrix(matrix)
    size = matrix.shape[1]
    largest = jnp.max(jnp.abs(matrix), initial=0.0)
    unit = matrix / jnp.where(largest > 0, largest, 1)  # squares of its entries neither vanish nor overflow
    count = min(PRODUCTS, size)
    start = np.random.default_rng(0).standard_normal(size)
    first = jnp.asarray(start / np.linalg.norm(start), matrix.dtype)
    basis = jnp.zeros((count + 1, size), matrix.dtype).at[0].set(first)

    def extended(step: Any, carried: tuple[Any, Any]) -> tuple[Any, Any]:
        basis, T = carried
        w = unit.T @ (unit @ basis[step])
        coefficients = (basis * w).sum(axis=1)
        w = w - (basis.T * coefficients).sum(axis=1)
        again = (basis * w).sum(axis=1)  # what rounding left of the earlier vectors
        w = w - (basis.T * again).sum(axis=1)
        beta = jnp.linalg.norm(w)
        # Once the space is exhausted what is left is rounding, and must not be taken for a direction.
        live = beta > 4 * size * jnp.finfo(matrix.dtype).eps * jnp.linalg.norm(coefficients)
        basis = basis.at[step + 1].set(jnp.where(live, w / jnp.where(live, beta, 1), 0))
        return basis, T.at[step].set(coefficients[:count])

    T = jax.lax.fori_loop(0, count, extended, (basis, jnp.zeros((count, count), matrix.dtype)))[1]
    T = jnp.tril(T) + jnp.tril(T, -1).T  # a row knows the vectors before it
    return largest * jnp.sqrt(_largest_eigenvalue(T))


def _largest_eigenvalue(T: Any) -> Any:
    """Of a small positive semi-definite matrix, by squaring it 50 times; LAPACK in its place doubles the compile time."""

    def squared(_: Any, P: Any) -> Any:
        P = P @ P
        size = jnp.max(jnp.abs(P))
        return P / jnp.where(size > 0, size, 1)

    size = jnp.max(jnp.abs(T))
    P = jax.lax.fori_loop(0, 50, squared, T / jnp.where(size > 0, size, 1))
    v = P[:, jnp.argmax(jnp.diagonal(P))]  # all columns are multiples of the eigenvector by now
    length = v @ v
    return jnp.where(length > 0, jnp.maximum(v @ (T @ v), 0) / jnp.where(length > 0, length, 1), 0 * size)
