"""Lanczos with full reorthogonalisation: k recursions that share their products with H, and functions of H from them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import numpy as np

from overparam.core import checks, progress
from overparam.core.progress import Progress, silent
from overparam.engines.matrix import AbstractGram, as_gram
from overparam.frame.keeping import Keeping, Kept, State, fingerprint
from overparam.spectrum.rules import EPS, gauss_vectors

CHUNK = 32
"""The basis grows by this many vectors at a time, so that compiled steps see few shapes."""


@final
class Interrupted(progress.Interrupted):
    """Ctrl-C in the middle of a sweep: `partial` is the quadrature of the products done, valid as it is.

    Pass `sweep` back as `op.quadrature(..., resume=error.sweep)` to go on where it stopped.
    """

    def __init__(self, partial: Any, sweep: Lanczos, where: str) -> None:
        super().__init__(partial, f"stopped after {sweep.products} products; none is lost: {where}")
        self.sweep = sweep


@final
class Lanczos:
    """The state of k recursions. `step` makes one product with H and extends all of them.

    A recursion whose residual vanishes has found everything its right-hand side contains:
    it is complete and takes no further part.
    """

    def __init__(self, H: AbstractGram, Y: np.ndarray) -> None:
        self.n, self.k = Y.shape
        self._start = Y.copy()
        norms = np.linalg.norm(Y, axis=0)
        self.masses = norms**2
        self.complete = norms == 0
        self.lengths = np.zeros(self.k, dtype=np.int64)
        self.alphas = np.zeros((self.k, 0))
        self.betas = np.zeros((self.k, 0))
        self._gram = H
        self._basis: list[Any] = []  # blocks of CHUNK vectors, each (k, CHUNK, n)
        self._current = H.to_device(Y / np.where(norms > 0, norms, 1.0))
        self._saved = 0

    @functools.cached_property
    def fingerprint(self) -> str:
        """What tells this sweep from another: read only where one is kept or taken up again."""
        H = self._gram
        # of computed entries only six digits of some, which tell functions apart that differ in what they reach: the last bits differ
        # between engines and thread counts
        few = H.diagonal()[np.unique(np.linspace(0, H.n - 1, 3).astype(int))]
        return fingerprint(H.described, self._start, [f"{value:.6e}" for value in few])

    @property
    def products(self) -> int:
        return self.alphas.shape[1]

    def step(self, progress: Progress | None = None) -> None:
        """One product, one more coefficient in every recursion that is not complete."""
        done = self.products
        self._remember(self._current, done)
        W = self._gram.product(self._current, progress)
        alpha, beta, following = _extend(self._gram.xp, self._basis, self._current, W)
        alpha, beta = self._gram.to_host(alpha).copy(), self._gram.to_host(beta).copy()
        live = ~self.complete
        lengths = np.where(live, done + 1, self.lengths)
        alphas = np.column_stack([self.alphas, np.where(live, alpha, 0.0)])
        betas = np.column_stack([self.betas, np.where(live, beta, 0.0)])
        # at rounding level the next vector is noise: the Krylov space is the whole of what y contains
        scale = np.abs(alphas).max(axis=1) + 2 * betas.max(axis=1, initial=0.0)
        ended = live & ((beta <= 16 * EPS * np.sqrt(self.n) * scale) | (done + 1 >= self.n))
        complete = self.complete | ended
        if complete.any():
            following = following * self._gram.to_device(np.where(complete, 0.0, 1.0)[None, :])
        # all at once: ctrl-C before this line loses the product, never the agreement of the parts
        self.lengths, self.complete, self._current = lengths, complete, following
        self.alphas, self.betas = alphas, betas

    def combine(self, coefficients: list[np.ndarray]) -> list[np.ndarray]:
        """Σ_i c_ji q_ji of every recursion j, as (n, k), for each (k, products) given; each basis vector is read once."""
        stacked = np.stack(coefficients, axis=1)  # (k, functions, products)
        total = np.zeros((self.k, len(coefficients), self.n))
        for index, block in enumerate(self._basis):
            part = stacked[:, :, index * CHUNK : (index + 1) * CHUNK]
            total += part @ self._gram.to_host(block)[:, : part.shape[2]]
        return [np.ascontiguousarray(total[:, i].T) for i in range(len(coefficients))]

    def _remember(self, V: Any, index: int) -> None:
        place = index % CHUNK
        grow = len(self._basis) == index // CHUNK  # not where a product that ctrl-C stopped is made again
        if self._gram.xp is np:
            if grow:
                self._basis.append(np.zeros((self.k, CHUNK, self.n)))
            self._basis[-1][:, place] = V.T
            return
        from overparam.spectrum import on_device

        if grow:
            self._basis.append(on_device.empty_block(CHUNK, self.n, self.k))
        self._basis[-1] = on_device.put(self._basis[-1], V, place)

    def save(self, place: str | os.PathLike[str]) -> None:
        """Keep what is new since the last save: a part a vector, which never changes, then the state."""
        keeping = Keeping(place)
        for index in range(self._saved, self.products):
            vector = self._gram.to_host(self._basis[index // CHUNK][:, index % CHUNK])
            keeping.keep(f"vector-{index:05d}", self.fingerprint, Kept({"vectors": vector}))
        arrays = {
            "alphas": self.alphas,
            "betas": self.betas,
            "current": self._gram.to_host(self._current),
            "lengths": self.lengths,
            "complete": self.complete,
        }
        State(place, "sweep", self.fingerprint).save(Kept(arrays))
        self._saved = self.products

    @classmethod
    def load(cls, place: str | os.PathLike[str], H: AbstractGram, Y: np.ndarray) -> Lanczos | None:
        """The sweep kept in `place` for this matrix and these labels; None where there is none yet."""
        sweep = cls(H, Y)
        state = State(place, "sweep", sweep.fingerprint).load()
        if state is None:
            return None
        keeping, arrays = Keeping(place), state.arrays
        for index in range(arrays["alphas"].shape[1]):
            kept = keeping.find(f"vector-{index:05d}", sweep.fingerprint)
            if kept is None:
                raise ValueError(
                    f"{os.fspath(place)} lacks vector {index} of its sweep, or it is damaged; delete the folder to start again"
                )
            sweep._remember(H.to_device(kept.arrays["vectors"].T), index)
        sweep._current = H.to_device(arrays["current"])
        sweep.alphas, sweep.betas = arrays["alphas"], arrays["betas"]
        sweep.lengths, sweep.complete = arrays["lengths"], arrays["complete"]
        sweep._saved = sweep.products
        return sweep


def _extend(xp: ModuleType, basis: list[Any], V: Any, W: Any) -> tuple[Any, Any, Any]:
    """α, β and the next vectors from the product W = H V, made orthogonal to the whole basis twice."""
    if xp is not np:
        from overparam.spectrum import on_device

        return on_device.extend(basis, V, W)
    alpha = np.einsum("nk,nk->k", V, W)
    residual = np.ascontiguousarray(W.T)
    for _ in range(2):
        for block in basis:
            for vectors, w in zip(block, residual, strict=True):
                w -= (vectors @ w) @ vectors
    beta = np.linalg.norm(residual, axis=1)
    return alpha, beta, np.ascontiguousarray((residual / np.where(beta > 0, beta, 1.0)[:, None]).T)


@final
@dataclass(frozen=True, eq=False)
class MatrixFunction:
    """`values[i]` is f_i(H) y in the shape of y; `change[i]` how much the last products still moved it (estimate)."""

    values: tuple[np.ndarray, ...]
    change: tuple[float, ...]
    products: int
    converged: bool


def matrix_function(
    H: Any,
    y: Any,
    functions: Sequence[Callable[[np.ndarray], np.ndarray]],
    *,
    tol: float = 1e-11,
    max_products: int | None = None,
    progress: Progress | None = None,
) -> MatrixFunction:
    """f(H) y ≈ ‖y‖ Q f(T) e₁ for every f given, Q and T from Lanczos on (H, y).

    Stops when eight or more further products move no f(H) y by more than `tol` of its own norm. Exact once the
    Krylov space holds all of y; not certified before: `change` is an estimate of the error.

    >>> result = matrix_function(np.diag([1.0, 4.0]), [1.0, 1.0], [np.sqrt])
    >>> np.round(result.values[0], 9)
    array([1., 2.])
    """
    H = as_gram(H)
    y = checks.targets(y, H.n)
    if not functions:
        raise ValueError("`functions` is empty; give at least one function of the eigenvalues")
    sweep = Lanczos(H, y.reshape(H.n, -1))
    most = min(max_products or H.n, H.n)
    tell = progress or silent
    previous: list[np.ndarray] | None = None
    change = np.full(len(functions), np.inf)
    next_look = 8
    while True:
        sweep.step()
        tell(sweep.products, None, "products with H")
        ended = sweep.products >= most or bool(sweep.complete.all())
        if sweep.products < next_look and not ended:
            continue
        next_look = max(sweep.products + 8, sweep.products * 3 // 2)
        coefficients = _coefficients(sweep, functions)
        if previous is not None:
            change = np.array([_moved(new, old) for new, old in zip(coefficients, previous, strict=True)])
        if ended or np.all(change <= tol):
            break
        previous = coefficients
    converged = bool(sweep.complete.all() or np.all(change <= tol))
    values = tuple(combined.reshape(y.shape) for combined in sweep.combine(coefficients))
    if sweep.complete.all():
        change = np.zeros(len(functions))
    return MatrixFunction(values, tuple(float(c) for c in change), sweep.products, converged)


def _coefficients(sweep: Lanczos, functions: Sequence[Callable[[np.ndarray], np.ndarray]]) -> list[np.ndarray]:
    """‖y‖ f(T) e₁ of every recursion, (k, q), one array a function; T is decomposed once for all of them."""
    tables = [np.zeros((sweep.k, sweep.products)) for _ in functions]
    for j in range(sweep.k):
        q = sweep.lengths[j]
        if sweep.masses[j] == 0:
            continue
        nodes, vectors = gauss_vectors(sweep.alphas[j, :q], sweep.betas[j, :q])
        size = np.sqrt(sweep.masses[j])
        for table, function in zip(tables, functions, strict=True):
            table[j, :q] = size * (vectors @ (function(nodes) * vectors[0]))
    return tables


def _moved(new: np.ndarray, old: np.ndarray) -> float:
    # the basis is orthonormal: the norm of the coefficients is that of the vectors
    padded = np.zeros_like(new)
    padded[:, : old.shape[1]] = old
    size = np.linalg.norm(new)
    return float(np.linalg.norm(new - padded) / size) if size > 0 else 0.0
