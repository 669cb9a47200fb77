"""Fact 2.6 of `convergence`: gradients of single samples in factors, never formed, and the tangent kernel made of them.

∂(uᵀf(x_i))/∂W_ℓ = (D_{i,ℓ} Back_{i,ℓ+1}ᵀ u) h_{i,ℓ−1}ᵀ, from signs, backward matrices and what came in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from overparam.audits.perturbations import squares
from overparam.audits.subject import Subject
from overparam.core.inside import AbstractInside, Weights, of_output

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


def own_kernel(subject: Subject, weights: Weights) -> np.ndarray:
    """K[(i, r), (j, s)] = ⟨∇y_r(x_i), ∇y_s(x_j)⟩ over all trained weights, sample by sample, output by output.

    By layers where that is possible, else every row is a gradient and a product.

    Ref: convergence, Fact 2.6

    Args:
        subject: the network on its samples.
        weights: where.
    """
    quick = kernel_by_layers(subject, weights)
    if quick is not None:
        return quick
    K = np.stack([kernel_product(subject, weights, unit) for unit in np.eye(subject.samples * subject.outputs)])
    return 0.5 * (K + K.T)


def kernel_by_layers(subject: Subject, weights: Weights) -> np.ndarray | None:
    """K = Σ_ℓ ⟨δ, δ̃⟩⟨h, h̃⟩, δ = D_ℓ Back_{ℓ+1}ᵀ e_r: no gradient is formed.

    It holds where every weight is a matrix that maps one layer to the next, or a bias. A product with it is compared with one by
    derivatives; None where they do not agree.

    Ref: convergence, Fact 2.6
    """
    quick = _by_layers(subject, weights)
    if quick is None:
        return None
    v = subject.rng(51).standard_normal(len(quick))
    true = kernel_product(subject, weights, v)
    return quick if np.linalg.norm(quick @ v - true) <= AGREES * np.linalg.norm(true) else None


def kernel_product(subject: Subject, weights: Weights, v: np.ndarray) -> np.ndarray:
    """K v = J Jᵀ v: a gradient, and the derivative of the outputs along it."""
    slope = subject.inside.gradient(weights, of_output(v.reshape(subject.samples, subject.outputs)))
    return subject.inside.output_along(weights, slope).ravel()


def _by_layers(subject: Subject, weights: Weights) -> np.ndarray | None:
    """The sum over layers; None where gradients do not come in factors."""
    n, k = subject.samples, subject.outputs
    factors = layer_factors(subject, weights, [np.tile(unit, (n, 1)) for unit in np.eye(k)])
    if factors is None:
        return None
    K = np.zeros((n * k, n * k))
    for one in factors:
        back = np.stack(one.back, axis=1).reshape(n * k, -1)
        K += (back @ back.T) * np.kron(one.below @ one.below.T, np.ones((k, k)))
    return K


def gradients_by_fact(
    inside: AbstractInside, weights: Weights, losses: np.ndarray, places: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """∇_{W_ℓ} = Σ_i D_{i,ℓ} (Back_{i,ℓ+1}ᵀ loss_i) h_{i,ℓ−1}ᵀ for the layers named; D of the output is the identity.

    It holds where g_ℓ = W_ℓ h_{ℓ−1}, as in the deep fully connected network, and W_ℓ is used nowhere else.

    Ref: convergence, Fact 2.6

    Args:
        inside: the network on its samples.
        weights: where the gradient is taken.
        losses: (n, k) loss vectors: derivatives of every sample's loss by its outputs.
        places: for each layer by name its ℓ, from 1; the number of ReLU layers for the output layer.

    >>> from overparam.audits.subject import inside_of
    >>> from overparam.core.network import Trace
    >>> from overparam.networks import FullyConnected
    >>> net = FullyConnected(width=4, depth=2)
    >>> seen = inside_of(net, net.init(0, 2), np.eye(2))
    >>> losses = np.array([[1.0], [-2.0]])
    >>> found = gradients_by_fact(seen, seen.weights, losses, {"W1": 1})["W1"]
    >>> bool(np.allclose(found, seen.gradient(seen.weights, Trace(losses, (), ()))["W1"]))
    True
    """
    losses = inside.require_rows(losses, inside.count, "losses")
    trace = inside.trace(weights)
    gates = inside.gates(trace)
    found = {}
    for name, place in places.items():
        expected = (inside.size(place), inside.size(place - 1)) if 1 <= place <= inside.count else None
        if inside.shapes.get(name) != expected or expected is None:
            raise ValueError(
                f"`places` puts {name!r} of shape {inside.shapes.get(name)} at {place}; expected a matrix from one ReLU "
                f"layer to the next, of shape {expected}, at a place from 1 to {inside.count}"
            )
        at_layer = losses
        if place < inside.count:
            at_layer = gates[place] * inside.pull(weights, inside.count, losses, place)
        found[name] = at_layer.T @ trace.activations[place - 1]
    return found
