"""Two-layer networks of small norm for a product of coordinates: trained on the whole cube, and the smallest, by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.data import ParityTarget, whole_cube
from overparam.networks import TwoLayer
from overparam.training import StepDecay, sweep

TOGETHER = 2**25
"""Activations of the points that go through a network together, at most: 256 MiB."""


@final
@dataclass(frozen=True, eq=False)
class Existing:
    """F(x) = (1/√m) Σ_j s_j σ(w_j·x), s_j = ±1, for inputs in {±1/√d}^d; the target is the product of the coordinates `seen`.

    Ref: beyond_kernels, App. A.1

    >>> net = smallest(6).widened(256).padded(40)
    >>> net.error < 1e-28, round(net.norm, 3)
    (True, 13.064)
    """

    W: np.ndarray
    signs: np.ndarray
    seen: tuple[int, ...]

    @property
    def width(self) -> int:
        return self.W.shape[0]

    @property
    def d(self) -> int:
        return self.W.shape[1]

    @property
    def norm(self) -> float:
        """‖W‖_F/√d, which padding and copying do not change."""
        return float(np.linalg.norm(self.W) / math.sqrt(self.d))

    def outputs(self, X: np.ndarray) -> np.ndarray:
        """F at the rows of X, in pieces: a wide network on many rows would not fit the memory."""
        rows = max(1, TOGETHER // self.width)
        pieces = (np.maximum(X[i : i + rows] @ self.W.T, 0) @ self.signs for i in range(0, len(X), rows))
        return np.concatenate(list(pieces)) / math.sqrt(self.width)

    @property
    def error(self) -> float:
        """E (F − y)², exact: F sees `seen` alone, so that a mean over their 2^k patterns is all there is."""
        rest = np.delete(self.W, self.seen, axis=1)
        if rest.any():
            raise ValueError("this network sees coordinates beyond those of the target; sample its error instead")
        X = whole_cube(len(self.seen), size=self.d**-0.5)
        F = np.maximum(X @ self.W[:, self.seen].T, 0) @ self.signs / math.sqrt(self.width)
        return float(np.mean((F - np.sign(X).prod(axis=1)) ** 2))

    def padded(self, d: int, seen: Sequence[int] | None = None) -> Existing:
        """The same function of d inputs: columns scaled by √(d/d′) at the places `seen`, zeros elsewhere."""
        places = tuple(range(len(self.seen))) if seen is None else tuple(seen)
        if d < self.d or len(set(places)) != self.d or max(places) >= d:
            raise ValueError(
                f"a network of {self.d} inputs goes to {self.d} different places below d, not {places} of {d}"
            )
        W = np.zeros((self.width, d))
        W[:, places] = self.W * math.sqrt(d / self.d)
        return Existing(W, self.signs, places)

    def widened(self, m: int) -> Existing:
        """The same function with m neurons: a neuron copied c_j times has weights √(m/m′) w_j/c_j.

        With m = c·m′ that is W/√c and the norm stays. Else some are copied once more than others, as many positive as
        negative ones, and the norm grows by a few per cent at most: ‖W‖² becomes (m/m′) Σ_j ‖w_j‖²/c_j.
        """
        if m < self.width or m % 2:
            raise ValueError(f"`m` is {m}; expected an even width of at least {self.width}")
        copies, more = np.full(self.width, m // self.width), m % self.width
        for sign in (-1, 1):
            copies[np.flatnonzero(self.signs == sign)[: more // 2]] += 1
        W = np.repeat(self.W * (math.sqrt(m / self.width) / copies)[:, None], copies, axis=0)
        return Existing(W, np.repeat(self.signs, copies), self.seen)


def smallest(degree: int = 6, error: float = 0.0) -> Existing:
    """The network of least norm with that error for a product of `degree` coordinates, at d = `degree`, degree even.

    One neuron for every pattern s ∈ {±1}^k, w_s = c·s, with the product of s as its sign. The sum is equivariant under
    sign changes of the inputs, so F = t·y with t = 1 − √error.

    Nothing of this form, whatever its width, has less: by convex duality ‖W‖_F ≥ (1 − √error) / max_u |E y σ(u·x)|
    over unit vectors u, and the largest u found by search, with further coordinates or without, is that of w_s.

    >>> bool(np.isclose(smallest(2).norm, 8**0.5)), smallest(2).error < 1e-28, round(smallest(6, error=0.25).error, 12)
    (True, True, 0.25)
    """
    if degree < 2 or degree % 2:
        raise ValueError(f"`degree` is {degree}; expected an even number: this sum of ReLUs is 0 for odd products")
    if not 0 <= error <= 1:
        raise ValueError(f"`error` is {error}; expected from 0 (exact) to 1 (the network that is 0)")
    patterns = whole_cube(degree)
    signs = patterns.prod(axis=1)
    correlation = float(np.maximum(patterns.sum(axis=1), 0) @ signs) / math.sqrt(degree * len(signs))
    signs = signs * math.copysign(1.0, correlation)
    return Existing((1 - math.sqrt(error)) / abs(correlation) * patterns, signs, tuple(range(degree)))


def least_norm(error: Any, degree: int = 6) -> Any:
    """‖W‖_F/√d of the smallest network with that error: (1 − √error)·‖W*‖_F/√d, 0 from error 1 on.

    >>> bool(np.isclose(least_norm(0.25), smallest(6).norm / 2)), float(least_norm(1.0))
    (True, 0.0)
    """
    return np.maximum(0.0, 1 - np.sqrt(error)) * smallest(degree).norm


def least_objective(decay: float, d: int, degree: int = 6) -> float:
    """min_W E (F − y)² + ½·decay·‖W‖_F² over networks F = t·y: with ν = ‖W*‖_F, t = 1/(1 + ½·decay·ν²).

    On such a network every training set has the error of the whole distribution.

    >>> round(least_objective(2 / (6 * smallest(6).norm ** 2), 6), 12)  # ½·decay·ν² = 1: t = ½, ¼ + ¼
    0.5
    """
    price = 0.5 * decay * d * smallest(degree).norm ** 2
    return price / (1 + price)


def rademacher(norm: float, d: int, N: int) -> float:
    """2‖W‖_F/√N, the bound on the Rademacher complexity, from ‖W‖_F/√d.

    Ref: beyond_kernels, App. A.1

    >>> rademacher(10.0, d=25, N=10_000)
    1.0
    """
    return 2 * norm * math.sqrt(d / N)


def trained_on_the_cube(
    decays: Sequence[float], *, width: int, degree: int, steps: int, rate: float, seeds: int, seed: int, options: Any
) -> list[Existing]:
    """For each decay the network of least objective E (F − y)² + ½·decay·‖W‖² among those trained on all 2^k points.

    Ref: beyond_kernels, App. A.1
    """
    cube = whole_cube(degree, size=degree**-0.5)
    data = (cube, ParityTarget.product(degree, degree)(cube))
    found = sweep(
        TwoLayer(width, balanced=True), data, [2 * rate], steps, weight_decay=[decay / 2 for decay in decays],
        keys=[1000 * seed + i for i in range(seeds)], momentum=0.9, loss="mean", schedule=StepDecay((steps * 3 // 4,)),
        record=[0, steps], measures=(), keep_params=True, **options,
    )  # fmt: skip
    assert found.params is not None
    chosen = []
    for decay in decays:
        nets = [
            Existing(
                np.asarray(found.params.trained["W"][i], dtype=np.float64),
                np.asarray(found.params.fixed["a"][i], dtype=np.float64).ravel(),
                tuple(range(degree)),
            )
            for i in np.flatnonzero(found.weight_decay == decay / 2)
        ]
        chosen.append(min(nets, key=lambda net: net.error + 0.5 * decay * degree * net.norm**2))
    return chosen
