"""Networks and data that the tests of landscapes share: small enough for dense Hessians."""

import jax
import numpy as np

from overparam.networks import Given

ROWS, INPUTS, HIDDEN, CLASSES = 24, 5, 6, 3


def layers(params, x):
    """Two hidden ReLU layers, all weights trained, three outputs."""
    h = jax.nn.relu(x @ params["W0"] + params["b0"])
    h = jax.nn.relu(h @ params["W1"])
    return h @ params["W2"]


def weights(seed=0):
    draws = np.random.default_rng(seed)
    return {
        "W0": draws.standard_normal((INPUTS, HIDDEN)) * (2 / INPUTS) ** 0.5,
        "b0": 0.1 * draws.standard_normal(HIDDEN),
        "W1": draws.standard_normal((HIDDEN, HIDDEN)) * (2 / HIDDEN) ** 0.5,
        "W2": draws.standard_normal((HIDDEN, CLASSES)) * (2 / HIDDEN) ** 0.5,
    }


NET = Given(layers, weights())
"""One object, so that its compiled programs are shared."""


def rows(seed=1):
    draws = np.random.default_rng(seed)
    return draws.standard_normal((ROWS, INPUTS)), np.arange(ROWS) % CLASSES


def dense(objective, w=None):
    """The whole Hessian, a column a product."""
    w = objective.vector(w)
    return np.column_stack(
        [objective.flat(objective.hessian_product(w, e)) for e in map(objective.vector, np.eye(objective.size))]
    )
