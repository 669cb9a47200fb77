"""The two- and three-layer learners in NumPy, and their pseudo networks: the same weights with signs held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from overparam.core.network import Params
from overparam.networks import BiasedTwoLayer, ThreeLayer, TwoLayer


@final
@dataclass(frozen=True, eq=False)
class TwoLayerLearner:
    """f_r(x) = Σ_i a_{r,i} σ(w_i·x + b_i), around its initial weights.

    W: (m, d) initial weights. b: (m,). a: (k, m). spread: the standard deviation of an entry of W.
    """

    W: np.ndarray
    b: np.ndarray
    a: np.ndarray
    spread: float

    def before(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """w_i·x + b_i, (n, m)."""
        return X @ W.T + self.b

    def network(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """The real network at weights W, (n, k)."""
        return np.maximum(self.before(X, W), 0) @ self.a.T

    def pseudo_network(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """g_r(x; W) = Σ_i a_{r,i} (w_i·x + b_i) 1{w⁰_i·x + b_i ≥ 0}, (n, k): linear in W.

        Ref: beyond_two_layers, Eq. (403)

        One neuron that is on at the start stays on, though −2 + 1 < 0:

        >>> one = TwoLayerLearner(W=np.ones((1, 1)), b=np.ones(1), a=np.ones((1, 1)), spread=1.0)
        >>> one.network(np.ones((1, 1)), np.array([[-2.0]])).tolist()
        [[0.0]]
        >>> one.pseudo_network(np.ones((1, 1)), np.array([[-2.0]])).tolist()
        [[-1.0]]
        """
        return np.where(self.before(X, self.W) >= 0, self.before(X, W), 0.0) @ self.a.T


@final
@dataclass(frozen=True, eq=False)
class ThreeLayerLearner:
    """f_r(x) = a_r σ(V σ(Wx + b_1) + b_2), around its initial weights.

    W: (m₁, d), V: (m₂, m₁) initial weights. b1, b2, a: (k, m₂) as they stay.
    """

    W: np.ndarray
    b1: np.ndarray
    V: np.ndarray
    b2: np.ndarray
    a: np.ndarray

    @property
    def widths(self) -> tuple[int, int]:
        """m₁, m₂."""
        return self.V.shape[1], self.V.shape[0]

    def layers(self, X: np.ndarray, W: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What goes into the first ReLU, what comes out of it, what goes into the second."""
        first = X @ W.T + self.b1
        z = np.maximum(first, 0)
        return first, z, z @ V.T + self.b2

    def signs(self, X: np.ndarray, W: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The diagonals of D_{w,x} and D_{v,x} at these weights, (n, m₁) and (n, m₂) of booleans: 1{· ≥ 0}."""
        first, _, second = self.layers(X, W, V)
        return first >= 0, second >= 0

    def network(self, X: np.ndarray, W: np.ndarray, V: np.ndarray) -> np.ndarray:
        """The real network at weights W, V: (n, k)."""
        return np.maximum(self.layers(X, W, V)[2], 0) @ self.a.T

    def pseudo_network(
        self,
        X: np.ndarray,
        W: np.ndarray,
        V: np.ndarray,
        signs: tuple[np.ndarray, np.ndarray],
        biases: Literal["both", "first", "none"] = "both",
    ) -> np.ndarray:
        """g_r = a_r D_v (V D_w (Wx + b_1) + b_2), g_r^{(b)} without b_2, g_r^{(b,b)} without both: (n, k).

        Ref: beyond_two_layers, Eq. (33), (34), (35)

        Args:
            W, V: the weights; not those that `signs` were taken at, else it is the real network.
            signs: the diagonals of D_w and D_v, see `signs`.
            biases: "both" for g, "first" for g^{(b)}, "none" for g^{(b,b)}.

        >>> one = ThreeLayerLearner(np.eye(1), np.ones(1), np.eye(1), np.ones(1), np.eye(1))
        >>> x, on = np.ones((1, 1)), (np.ones((1, 1), bool), np.ones((1, 1), bool))
        >>> [float(one.pseudo_network(x, 2 * one.W, 3 * one.V, on, b)[0, 0]) for b in ("both", "first", "none")]
        [10.0, 9.0, 6.0]
        """
        first = X @ W.T + (0.0 if biases == "none" else self.b1)
        second = np.where(signs[0], first, 0.0) @ V.T + (self.b2 if biases == "both" else 0.0)
        return np.where(signs[1], second, 0.0) @ self.a.T


def two_layer_learner(network: Any, params: Params) -> TwoLayerLearner:
    """The arrays of a `BiasedTwoLayer` or a `TwoLayer`, whose a are ±1/√m and whose biases are 0."""
    if not isinstance(network, BiasedTwoLayer | TwoLayer):
        raise ValueError(f"`network` is a {type(network).__name__}; expected a BiasedTwoLayer or a TwoLayer")
    every = {name: np.asarray(array, float) for name, array in {**params.fixed, **params.trained}.items()}
    W, a, root = every["W"], np.atleast_2d(every["a"]), network.width**-0.5
    if isinstance(network, BiasedTwoLayer):
        return TwoLayerLearner(W, every["b"], a, root)
    return TwoLayerLearner(W, np.zeros(len(W)), a * root, network.kappa)


def three_layer_learner(network: Any, params: Params) -> ThreeLayerLearner:
    """The arrays of a `ThreeLayer`."""
    if not isinstance(network, ThreeLayer):
        raise ValueError(f"`network` is a {type(network).__name__}; expected a ThreeLayer")
    every = {name: np.asarray(array, float) for name, array in {**params.fixed, **params.trained}.items()}
    return ThreeLayerLearner(every["W"], every["b1"], every["V"], every["b2"], np.atleast_2d(every["a"]))
