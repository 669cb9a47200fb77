"""Gradients of single samples in factors, as Fact 2.6 has them: ∂(uᵀf(x_i))/∂W_ℓ = (D_{i,ℓ} Back_{i,ℓ+1}ᵀ u) h_{i,ℓ−1}ᵀ, never formed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from overparam.audits.subject import Subject
from overparam.audits.vectors import squares
from overparam.core.device_weights import Weights
from overparam.core.inside import of_output

AGREES = 1e-3
"""Of what is made from factors and by derivatives, relative: far above rounding in float32, far below a wrong formula."""


@final
@dataclass(frozen=True, eq=False)
class Factors:
    """Of one weight: its gradient for the cotangent u at sample i is back[u][i] below[i]ᵀ."""

    name: str
    back: tuple[np.ndarray, ...]
    below: np.ndarray

    def squares(self, cotangent: int = 0) -> np.ndarray:
        """‖·‖² of that gradient, by sample."""
        return (self.back[cotangent] ** 2).sum(axis=1) * (self.below**2).sum(axis=1)


def layer_factors(subject: Subject, weights: Weights, cotangents: Sequence[np.ndarray]) -> list[Factors] | None:
    """The factors of every trained weight for cotangents (n, k) of the outputs.

    None where a weight is neither a matrix that maps one layer to the next nor a bias. What multiplies a weight, such as τ
    of the residual network, is read from the derivative of one sample. A weight may still be used otherwise, so what is
    made of factors is compared with another derivative before it is believed.

    Ref: convergence, Fact 2.6
    """
    inside = subject.inside
    trace = inside.trace(weights)
    gates = inside.gates(trace)
    pulled: dict[int, tuple[np.ndarray, ...]] = {}
    found = []
    for name, place in subject.places.items():
        above, under = inside.size(place), inside.size(place - 1)
        if inside.shapes[name] in ((above, under), (under, above)):
            flat = np.asarray(subject.X, float).reshape(subject.samples, -1)
            below = flat if place == 0 else trace.activations[place - 1]
        elif inside.shapes[name] == (above,):
            below = np.ones((subject.samples, 1))
        else:
            return None
        if place not in pulled:
            pulled[place] = tuple(
                U if place == inside.count else gates[place] * inside.pull(weights, inside.count, U, place)
                for U in cotangents
            )
        found.append(Factors(name, pulled[place], below))
    row = _largest_row(cotangents[0])
    true = _squares_of(subject, weights, cotangents[0], row)
    return [_scaled(one, own, float(one.squares()[row])) for one, own in zip(found, true, strict=True)]


def sample_squares(subject: Subject, weights: Weights, U: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """‖∂(u_iᵀ f(x_i))/∂W_ℓ‖² of samples one by one, and which samples: (weights, samples looked at), (samples looked at,).

    All samples where gradients come in factors; else the `most` with the largest u_i, each by a derivative of its own.

    Ref: convergence, Fact 2.6
    """
    order = np.argsort(-(U**2).sum(axis=1), kind="stable")
    factors = layer_factors(subject, weights, [U])
    if factors is not None:
        quick = np.array([one.squares() for one in factors])
        other = int(order[1 % len(order)])  # the first one gave the multiples
        true = _squares_of(subject, weights, U, other)
        if (np.abs(quick[:, other] - true) <= AGREES * true).all():
            return quick, np.arange(subject.samples)
    rows = order[:most]
    return np.stack([_squares_of(subject, weights, U, int(row)) for row in rows], axis=1), rows


def alone(U: np.ndarray, row: int) -> np.ndarray:
    """0 in all rows but one.

    >>> alone(np.array([[1.0], [2.0]]), 1).tolist()
    [[0.0], [2.0]]
    """
    kept = np.zeros_like(U)
    kept[row] = U[row]
    return kept


def _largest_row(U: np.ndarray) -> int:
    return int((U**2).sum(axis=1).argmax())


def _scaled(one: Factors, true: float, found: float) -> Factors:
    """Times what brings the square of one sample's gradient from `found` to `true`."""
    if not found > 0 or abs(true / found - 1) <= AGREES:  # 1, but for rounding
        return one
    return Factors(one.name, tuple((true / found) ** 0.5 * back for back in one.back), one.below)


def _squares_of(subject: Subject, weights: Weights, U: np.ndarray, row: int) -> np.ndarray:
    slope = subject.inside.gradient(weights, of_output(alone(U, row)))
    by_name = squares(slope)
    return np.array([by_name[name] for name in subject.places])
