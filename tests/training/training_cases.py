"""Small problems for the tests of training, and the two-layer network written out in NumPy."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from overparam.core.network import Params
from overparam.data import Dataset, load
from overparam.networks import ThreeLayer, TwoLayer
from overparam.training import gradient_descent, sgd, sweep

N, D, M = 12, 4, 16
RNG = np.random.default_rng(7)
X = RNG.standard_normal((N, D))
X /= np.linalg.norm(X, axis=1)[:, None]
SIGNS = np.where(RNG.standard_normal(N) > 0, 1.0, -1.0)
REAL = RNG.standard_normal(N)
NEW = RNG.standard_normal((5, D))
NET = TwoLayer(M)
THREE = ThreeLayer(5, 4, output_std=0.7)
SMOOTHED: dict[str, Any] = {
    "lr": 0.1, "steps": 30, "record": 10, "sigma_w": 0.1, "sigma_v": 0.1, "lambda_w": 1e-3, "lambda_v": 1e-3, "measures": (),
}  # fmt: skip
"""A run of Algorithm 2: the same shapes in every file, so that its programs are compiled once."""


def binary() -> Dataset:
    """Two classes with test rows."""
    return load({"X_train": X, "y_train": SIGNS, "X_test": NEW, "y_test": np.sign(NEW[:, 0])})


def regression() -> Dataset:
    return load((X, REAL), task="regression").replace(name="real")


def in_order(X: Any, y: Any, task: str | None = None) -> Dataset:
    """The rows as they are, in this order."""
    data = load((X, y), task=task)
    back = np.argsort(data.rows)
    return data.take(back)


def start(key: int = 0, net: TwoLayer = NET, d: int = D) -> Params:
    """The network's first weights, in float64."""
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, net.init(key, d))


def outputs(W: np.ndarray, a: np.ndarray, X: np.ndarray) -> np.ndarray:
    return np.maximum(X @ W.T, 0) @ a / np.sqrt(len(a))


def gradient(W: np.ndarray, a: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of ½ Σ (y − u)²: Eq. (5), row by row of W."""
    back = (outputs(W, a, X) - y)[:, None] * (X @ W.T > 0) * a / np.sqrt(len(a))
    return back.T @ X


def gram(W: np.ndarray, X: np.ndarray) -> np.ndarray:
    """H_ij = (x_i·x_j/m) #{r active on both}."""
    on = (X @ W.T > 0).astype(float)
    return (X @ X.T) * (on @ on.T) / len(W)


STEPS = 60


def go(mode: str, steps: int = STEPS, **options: Any) -> Any:
    """One of the runs that are killed and taken up again."""
    data = in_order(X, SIGNS)
    shared = {"measures": ("outputs", "movement", "flips"), "record": 10, **options}
    if mode == "descent":
        return gradient_descent(NET, data, lr=0.2, steps=steps, key=5, **shared)
    if mode == "momentum":
        return sgd(NET, data, lr=0.02, steps=steps, batch=5, momentum=0.9, nesterov=True, key=5, **shared)
    assert mode == "sweep"
    return sweep(NET, data, [0.01, 0.02], steps, keys=[5, 6], batch=5, momentum=0.9, keep_params=True, **shared)


def same_bits(found: Any, whole: Any) -> None:
    """Weights and records of two runs, bit by bit."""
    np.testing.assert_array_equal(found.steps, whole.steps)
    for a, b in zip(jax.tree.leaves(found.params), jax.tree.leaves(whole.params), strict=True):
        np.testing.assert_array_equal(a, b)
    assert found.records.keys() == whole.records.keys()
    for name, values in whole.records.items():
        np.testing.assert_array_equal(found.records[name], values, err_msg=name)
    assert found.stopped == whole.stopped
