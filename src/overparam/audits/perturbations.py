"""Perturbations of weights: directions whose every matrix has spectral norm 1, ascent within balls of spectral radius ω, sums and inner products.

A weight of two axes is a matrix, one of more axes a matrix with its first axis as rows, a vector a matrix of one
column. Weights named in `stacked` hold one matrix a position: their last two axes. Arithmetic is done where the weights
are, on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse.linalg import LinearOperator, svds

from overparam.core.inside import AbstractInside, DeviceWeights, Weights, like, of_output, raw
from overparam.core.svd import thin_svd


def combined(a: float, first: Weights, b: float, second: Weights) -> Weights:
    """a · first + b · second, layer by layer."""
    if not (isinstance(first, DeviceWeights) or isinstance(second, DeviceWeights)):
        return {name: a * W + b * second[name] for name, W in first.items()}
    others = raw(second)
    with jax.enable_x64(True):
        own = raw(first)
        made = _combined(a, list(own.values()), b, [others[name] for name in own])
        return DeviceWeights(dict(zip(own, made, strict=True)))


def added(weights: Weights, direction: Weights, times: float = 1.0) -> Weights:
    """W + times · W′.

    >>> added({"a": np.array([1.0])}, {"a": np.array([2.0])}, 3.0)
    {'a': array([7.])}
    """
    return combined(1.0, weights, times, direction)


def minus(first: Weights, second: Weights) -> Weights:
    """The difference.

    >>> minus({"a": np.array([3.0])}, {"a": np.array([1.0])})
    {'a': array([2.])}
    """
    return combined(1.0, first, -1.0, second)


def scaled(number: float, weights: Weights) -> Weights:
    """A multiple.

    >>> scaled(2.0, {"a": np.array([3.0])})
    {'a': array([6.])}
    """
    if not isinstance(weights, DeviceWeights):
        return {name: number * W for name, W in weights.items()}
    with jax.enable_x64(True):
        return DeviceWeights(dict(zip(weights, _multiple(number, list(weights.arrays.values())), strict=True)))


def only(weights: Weights, names: Collection[str]) -> Weights:
    """Zero in all layers but these.

    >>> only({"a": np.array([3.0]), "b": np.array([2.0])}, ["b"])
    {'a': array([0.]), 'b': array([2.])}
    """
    with jax.enable_x64(True):
        return like(weights, {name: W if name in names else 0 * W for name, W in raw(weights).items()})


def products(first: Weights, second: Weights) -> dict[str, float]:
    """⟨·, ·⟩ of each layer.

    Not by BLAS for NumPy arrays: the threads of a short product cost more than it does on a busy machine.

    >>> products({"a": np.array([1.0, 2.0])}, {"a": np.array([3.0, 1.0])})
    {'a': 5.0}
    """
    if not (isinstance(first, DeviceWeights) or isinstance(second, DeviceWeights)):
        return {name: float(np.einsum("i,i->", np.ravel(W), np.ravel(second[name]))) for name, W in first.items()}
    others = raw(second)
    with jax.enable_x64(True):
        own = raw(first)
        found = _products(list(own.values()), [others[name] for name in own])
        return dict(zip(own, np.asarray(found).tolist(), strict=True))


def inner(first: Weights, second: Weights) -> float:
    """⟨·, ·⟩ over all layers.

    >>> inner({"a": np.array([1.0, 2.0])}, {"a": np.array([3.0, 1.0])})
    5.0
    """
    return sum(products(first, second).values())


def squares(weights: Weights) -> dict[str, float]:
    """‖·‖_F² of each layer."""
    return products(weights, weights)


def length(weights: Weights) -> float:
    """‖·‖_F over all layers.

    >>> length({"a": np.array([3.0]), "b": np.array([4.0])})
    5.0
    """
    return float(np.sqrt(inner(weights, weights)))


def moving(weights: Weights) -> list[str]:
    """The layers that are not 0 throughout.

    >>> moving({"a": np.zeros(2), "b": np.array([0.0, 1e-300])})
    ['b']
    """
    with jax.enable_x64(True):
        own = raw(weights)
        there = (
            np.asarray(_moved(list(own.values()))) if isinstance(weights, DeviceWeights) else map(np.any, own.values())
        )
        return [name for name, moved in zip(own, there, strict=True) if moved]


# One program for all layers, and one array back: a device is waited for once.
_combined = jax.jit(lambda a, W, b, V: [a * own + b * other for own, other in zip(W, V, strict=True)])
_multiple = jax.jit(lambda number, W: [number * own for own in W])
_products = jax.jit(lambda W, V: jnp.stack([jnp.sum(own * other) for own, other in zip(W, V, strict=True)]))
_moved = jax.jit(lambda W: jnp.stack([jnp.any(own != 0) for own in W]))


LEAST_SHARE, MOST_LAYERS = 2.0**-10, 3
"""Of a step of an ascent: how short it may be, and how many layers are tried one by one."""
MEMORY, LATE = 0.8, 4
"""Of a sweep: the share of the average that stays, and how late its steps get short: 1, 4/5, 4/6, …"""
MORE, FEW, GROWING, SHIFT, LOST = 4, 32, 32, 1e-15, 1e-12
"""Of a polar factor on a device: columns beyond its rank; how many of them eigenvectors are asked for; steps that grow small
singular values; what Gram matrices get beside them; and squares of singular values that are lost beside the largest."""
DENSE = 48
"""Up to this many rows or columns singular values come from LAPACK, beyond from Lanczos. LAPACK's threads wait for each
other on a busy machine: 128 by 128 then takes seconds."""


def as_matrices(array: Any, *, stacked: bool = False) -> Any:
    """(count, rows, columns): the matrices a weight holds.

    >>> as_matrices(np.zeros((2, 3, 4))).shape, as_matrices(np.zeros((2, 3, 4)), stacked=True).shape
    ((1, 2, 12), (2, 3, 4))
    """
    array = array if isinstance(array, jax.Array) else np.asarray(array, float)
    if stacked:
        return array.reshape(-1, *array.shape[-2:])
    return array.reshape(1, array.shape[0] if array.ndim else 1, -1)


def spectral_norms(array: Any, *, stacked: bool = False) -> np.ndarray:
    """Largest singular value of each matrix, up to rounding.

    >>> spectral_norms(np.diag([3.0, 4.0]))
    array([4.])
    """
    with jax.enable_x64(True):
        return np.array([_largest_singular_value(matrix) for matrix in as_matrices(array, stacked=stacked)])


def radius(direction: Weights, stacked: Collection[str] = ()) -> float:
    """‖W′‖₂ = max over layers of ‖W′_ℓ‖₂, as the paper measures a perturbation.

    >>> radius({"W1": np.eye(2), "W2": 3 * np.eye(2)})
    3.0
    """
    return max(float(spectral_norms(W, stacked=name in stacked).max()) for name, W in raw(direction).items())


def to_unit(direction: Weights, stacked: Collection[str] = ()) -> Weights:
    """Every matrix divided by its spectral norm; one that is zero stays so.

    >>> to_unit({"W": np.diag([0.0, 4.0])})["W"].tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """
    found = {}
    with jax.enable_x64(True):
        for name, W in raw(direction).items():
            matrices = as_matrices(W, stacked=name in stacked)
            norms = np.array([_largest_singular_value(matrix) for matrix in matrices])
            found[name] = (matrices / np.where(norms > 0, norms, 1.0)[:, None, None]).reshape(W.shape)
    return like(direction, found)


def random_direction(weights: Weights, rng: np.random.Generator, stacked: Collection[str] = ()) -> Weights:
    """Gaussian matrices of spectral norm 1."""
    with jax.enable_x64(True):
        drawn = {name: rng.standard_normal(W.shape) for name, W in raw(weights).items()}
        if raw(weights) is not weights:
            drawn = {name: jnp.asarray(W) for name, W in drawn.items()}
    return to_unit(like(weights, drawn), stacked)


def steepest(gradient: Weights, rank: int, stacked: Collection[str] = ()) -> Weights:
    """What maximises ⟨G, W′⟩ over ‖W′_ℓ‖₂ ≤ 1: U Vᵀ of each matrix, of its `rank` largest singular values.

    The gradient of one sample has rank 1 in every layer, so a few are enough where the worst sample counts.

    >>> steepest({"W": np.diag([5.0, -2.0])}, rank=2)["W"].round(12).tolist()
    [[1.0, 0.0], [0.0, -1.0]]
    """
    found: dict[str, Any] = {}
    with jax.enable_x64(True):
        own, large = raw(gradient), {}
        for name, G in own.items():
            matrices = as_matrices(G, stacked=name in stacked)
            if _away(G) and min(matrices.shape[1:]) > max(DENSE, 2 * rank):
                large.setdefault(matrices.shape, {})[name] = matrices
            else:
                found[name] = _stack(G)([_polar(matrix, rank) for matrix in matrices]).reshape(G.shape)
        for alike in large.values():
            polars = _placed_polars(list(alike.values()), rank, np.uint32(0))
            found |= {name: U.reshape(own[name].shape) for name, U in zip(alike, polars, strict=True)}
        return like(gradient, {name: found[name] for name in own})


def climb(
    center: Weights,
    omega: float,
    gradient: Callable[[Weights], Weights],
    value: Callable[[Weights], float],
    *,
    start: Weights,
    steps: int,
    rank: int,
    stacked: Collection[str] = (),
    sweeps: int = 0,
) -> Weights:
    """Ascent in the product of spectral balls around `center`: W′ ← (1 − γ) W′ + γ ω·(U Vᵀ of the gradient).

    These are the steps of Frank and Wolfe: mixtures of points of the ball stay in it, so nothing is projected. γ is halved
    until the quantity climbs, from four times the last one, and the climb ends where none above `LEAST_SHARE` does. A quantity
    with many hills stops such a climb at the first one: `sweeps` steps before it go on whatever the quantity does, along a
    running average of the gradients, and the climb begins at the best place they passed.

    Args:
        gradient: at weights (not at the perturbation), of the quantity to be made large.
        value: of the quantity, at weights.
        start: the perturbation W′ to begin with.
        sweeps: how many steps of lengths 1, 4/5, 4/6, … come first.

    Gives the perturbation W′.

    ⟨G, W⟩ is largest at ω times the polar factor of G:

    >>> G = {"W": np.diag([5.0, -2.0])}
    >>> found = climb({"W": np.zeros((2, 2))}, 0.5, lambda w: G, lambda w: inner(w, G), start={"W": np.eye(2) / 2}, steps=1, rank=2)
    >>> found["W"].round(12).tolist()
    [[0.5, 0.0], [0.0, -0.5]]
    """
    here, share = start, 1.0
    moved = added(center, here)  # the same weights for value and gradient: what these share is made once
    height = value(moved)
    if sweeps:
        here, moved, height = _swept(center, omega, gradient, value, (here, moved, height), sweeps, rank, stacked)
    for _ in range(steps):
        slope = gradient(moved)
        if not moving(slope):
            break
        target = scaled(omega, steepest(slope, rank, stacked))
        for there, part in _towards(here, target, slope, min(1.0, 4 * share)):
            weights = added(center, there)
            reached = value(weights)
            if reached > height + 1e-9 * abs(height):
                here, moved, height, share = there, weights, reached, part
                break
        else:
            break
    return here


def _swept(
    center: Weights,
    omega: float,
    gradient: Callable[[Weights], Weights],
    value: Callable[[Weights], float],
    begun: tuple[Weights, Weights, float],
    steps: int,
    rank: int,
    stacked: Collection[str],
) -> tuple[Weights, Weights, float]:
    """The highest place that steps of fixed lengths pass, the weights there, and its height: the gradient at a kink says little,
    their average more."""
    best, (here, moved, _), average = begun, begun, None
    for step in range(steps):
        slope = gradient(moved)
        if not moving(slope):
            break
        slope = scaled(1 / length(slope), slope)
        average = slope if average is None else combined(MEMORY, average, 1 - MEMORY, slope)
        here = _between(here, scaled(omega, steepest(average, rank, stacked)), LATE / (LATE + step))
        moved = added(center, here)
        reached = value(moved)
        if reached > best[2]:
            best = here, moved, reached
    return best


def _halves(share: float) -> Iterator[float]:
    while share >= LEAST_SHARE:
        yield share
        share /= 2


def _towards(here: Weights, target: Weights, slope: Weights, share: float) -> Iterator[tuple[Weights, float]]:
    """Where a step may end, with its share: towards the target in all layers; in one layer all the way, those with most to
    gain at first order first, which keeps what the others have; and ever shorter steps in all."""
    yield _between(here, target, share), share
    there, been = products(slope, target), products(slope, here)
    layers = sorted(there, key=lambda name: been[name] - there[name])
    for name in layers[:MOST_LAYERS] if len(layers) > 1 else ():
        yield added(only(target, [name]), only(here, [other for other in layers if other != name])), share
    for part in _halves(share / 2):
        yield _between(here, target, part), part


def descent_displacement(inside: AbstractInside, y: np.ndarray, steps: int) -> Weights:
    """W(steps) − W(0) of gradient descent on ½ Σ_i ‖f(x_i) − y_i‖², the direction training takes from here.

    The rate of a step is half of what is best for the network made linear there, ‖∇F‖²/‖J∇F‖².
    """
    here = start = inside.weights
    for _ in range(steps):
        residual = inside.output(here) - y
        slope = inside.gradient(here, of_output(residual))
        change = inside.output_along(here, slope)
        size, curvature = inner(slope, slope), float(np.vdot(change, change))
        if not size > 0 or not curvature > 0:
            break
        here = added(here, slope, -0.5 * size / curvature)
    return minus(here, start)


def _between(here: Weights, there: Weights, share: float) -> Weights:
    return combined(1 - share, here, share, there)


def _largest_singular_value(matrix: Any) -> float:
    if min(matrix.shape) <= DENSE:
        matrix = np.asarray(matrix)
        return float(np.linalg.norm(matrix) if min(matrix.shape) == 1 else np.linalg.norm(matrix, 2))
    largest = _largest_entry(matrix)
    if largest == 0:
        return 0.0
    unit: Any = matrix / largest
    start = np.random.default_rng(0).standard_normal(min(matrix.shape))
    if isinstance(matrix, jax.Array):  # products on the device, vectors here
        onto, back = partial(_onto, unit), partial(_back, unit)
        operator: Any = LinearOperator
        unit = operator(
            matrix.shape, matvec=lambda v: np.asarray(onto(v)), rmatvec=lambda u: np.asarray(back(u)), dtype=np.float64
        )
    found: Any = svds(unit, k=1, v0=start, return_singular_vectors=False)
    return largest * float(found[0])


def _away(array: Any) -> bool:
    """On a device of its own, from which every number has to be fetched, and where LAPACK's steps are slow."""
    return isinstance(array, jax.Array) and any(device.platform != "cpu" for device in array.devices())


def _stack(array: Any) -> Any:
    return jnp.stack if isinstance(array, jax.Array) else np.stack


def _polar(matrix: Any, rank: int) -> Any:
    """U Vᵀ of the leading singular vectors, by a randomised range and a power step where the matrix is large."""
    size = _largest_entry(matrix)
    if not size > 0:
        return 0 * matrix
    G = np.asarray(
        matrix if 1e-100 < size < 1e100 else matrix / size
    )  # squares of its entries neither vanish nor overflow
    if min(G.shape) <= max(DENSE, 2 * rank):
        U, s, Vt = thin_svd(G)
    else:
        sample = G @ np.random.default_rng(0).standard_normal((G.shape[1], rank + MORE))
        Q = np.linalg.qr(G @ (G.T @ np.linalg.qr(sample)[0]))[0]
        U, s, Vt = thin_svd((G.T @ Q).T)
        U = Q @ U
    kept = np.flatnonzero(s > 1e-10 * s[0])[:rank]
    U, Vt = U[:, kept], Vt[kept]
    return jnp.matmul(U, Vt) if isinstance(matrix, jax.Array) else U @ Vt


@partial(jax.jit, static_argnums=1)
def _placed_polars(stacks: list[Any], rank: int, seed: Any) -> list[Any]:
    """The same of large matrices of one shape, on the device: one program of products, for all of them side by side."""
    counts = np.cumsum([len(stack) for stack in stacks])[:-1]
    polars = jax.vmap(partial(_placed_polar, rank=rank, key=jax.random.key(seed)))(jnp.concatenate(stacks))
    return jnp.split(polars, counts)


def _placed_polar(matrix: Any, rank: int, key: Any) -> Any:
    """Q (CCᵀ)^{−1/2} C for C = QᵀG, Q an orthonormal basis of the range.

    Gram matrices lose singular values below about 1e-5 of the largest, and what these add to ⟨G, W′⟩ is nothing. The last steps,
    of Newton and Schulz, make every singular value of both factors at most 1, and those that are near it 1 to rounding, so
    that the product is in the ball.
    """
    size = jnp.max(jnp.abs(matrix))
    G = matrix / jnp.where(size > 0, size, 1.0)
    sample = G @ jax.random.normal(key, (G.shape[1], rank + MORE), G.dtype)
    Q = _orthonormal(G @ (G.T @ _orthonormal(sample, 2)), 3)
    thin = Q.T @ G
    root = _leading_root(thin @ thin.T, rank) if rank + MORE <= FEW else _root(thin @ thin.T)
    return Q @ _contracted((root @ thin).T, 2).T


def _orthonormal(Y: Any, rounds: int) -> Any:
    """Columns that span what those of Y do, by Cholesky factors, again and again: once leaves what is short too short.

    A little is added to the Gram matrix, without which it would have no factor where columns depend on each other.
    """
    for _ in range(rounds):
        gram = Y.T @ Y
        extra = SHIFT * jnp.trace(gram) + jnp.finfo(Y.dtype).tiny
        factor = jnp.linalg.cholesky(gram + extra * jnp.eye(len(gram), dtype=Y.dtype))
        Y = jax.scipy.linalg.solve_triangular(factor, Y.T, lower=True).T
    return _contracted(Y, 1)


def _leading_root(gram: Any, rank: int) -> Any:
    """Σ v vᵀ/√λ over the `rank` largest eigenvalues."""
    squares, vectors = jnp.linalg.eigh(gram)
    kept = (squares > LOST * squares[-1]) & (jnp.arange(len(squares)) >= len(squares) - rank)
    return vectors * jnp.where(kept, 1 / jnp.sqrt(jnp.where(kept, squares, 1.0)), 0.0) @ vectors.T


def _root(gram: Any) -> Any:
    """Nearly the inverse root of all but the least eigenvalues, by products alone: eigenvectors take a device long.

    Newton and Schulz in two sequences, A → gram^{1/2} and Z → gram^{−1/2}, without which rounding grows: each step makes a singular value
    s of what the Gram matrix belongs to s (3 − s²)/2, a small one half as large again, none above 1.
    """
    size = jnp.trace(gram)
    eye = jnp.eye(len(gram), dtype=gram.dtype)

    def step(_: Any, both: Any) -> Any:
        A, Z = both
        T = 1.5 * eye - 0.5 * Z @ A
        return A @ T, T @ Z

    Z = jax.lax.fori_loop(0, GROWING, step, (gram / jnp.where(size > 0, size, 1.0), eye))[1]
    return Z / jnp.sqrt(jnp.where(size > 0, size, 1.0))


def _contracted(Y: Any, steps: int) -> Any:
    """Singular values s below √3 to s (3 − s²)/2: at most 1 whatever they were, and nearer to it."""
    for _ in range(steps):
        Y = 1.5 * Y - 0.5 * Y @ (Y.T @ Y)
    return Y


def _largest_entry(matrix: Any) -> float:
    return float(_largest_size(matrix) if isinstance(matrix, jax.Array) else max(matrix.max(), -matrix.min()))


_largest_size = jax.jit(lambda M: jnp.abs(M).max())
_onto = jax.jit(lambda M, v: M @ v)
_back = jax.jit(lambda M, u: M.T @ u)
