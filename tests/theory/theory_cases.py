"""Ten small data sets of different kind, each with its Gram matrix, labels and eigenvalues from LAPACK."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.linalg import eigh
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from overparam.engines import gram
from overparam.kernels import TwoLayer


@dataclass(frozen=True, eq=False)
class Case:
    """Rows, labels, Gram matrix, new rows; eigenpairs of the matrix by LAPACK."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    H: np.ndarray
    lam: np.ndarray
    V: np.ndarray

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def Y(self) -> np.ndarray:
        return self.y.reshape(self.n, -1)

    @property
    def weights(self) -> np.ndarray:
        """Σ_r (v_iᵀy_r)² of every eigenvector."""
        return np.sum((self.V.T @ self.Y) ** 2, axis=1)

    def loss(self, steps: np.ndarray, lr: float) -> np.ndarray:
        return 0.5 * np.array([np.sum(np.abs(1 - lr * self.lam) ** (2 * s) * self.weights) for s in steps])

    def movement(self, steps: np.ndarray, lr: float) -> np.ndarray:
        lam = np.where(np.abs(self.lam) < 1e-12, 1.0, self.lam)
        shares = [np.where(np.abs(self.lam) < 1e-12, 0.0, (1 - (1 - lr * lam) ** s) ** 2 / lam) for s in steps]
        return np.sqrt([np.sum(share * self.weights) for share in shares])

    def form(self, ridge: float) -> float:
        return float(np.sum(self.weights / (self.lam + ridge)))


def _unit(X: np.ndarray) -> np.ndarray:
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def _table(X: np.ndarray) -> np.ndarray:
    scaled = StandardScaler().fit_transform(X) / np.sqrt(X.shape[1])
    return np.hstack([scaled, np.ones((len(X), 1))])


def _classes(labels: np.ndarray) -> np.ndarray:
    k = len(np.unique(labels))
    return np.eye(k)[labels] - 1 / k


def _rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(7)
    if name == "digits":
        X, t = load_digits(return_X_y=True)
        keep = t < 2
        return _unit(X[keep][:200]), np.where(t[keep][:200] == 0, 1.0, -1.0)
    if name == "digits ten classes":
        X, t = load_digits(return_X_y=True)
        return _unit(X[:150]), _classes(t[:150])
    if name == "wine":
        X, t = load_wine(return_X_y=True)
        return _table(X), _classes(t)
    if name == "breast cancer":
        X, t = load_breast_cancer(return_X_y=True)
        return _table(X[:200]), np.where(t[:200] == 1, 1.0, -1.0)
    if name == "iris":  # has repeated rows
        X, t = load_iris(return_X_y=True)
        return _table(X), _classes(t)
    if name == "diabetes":
        X, t = load_diabetes(return_X_y=True)
        return _table(X[:180]), (t[:180] - t[:180].mean()) / t[:180].std()
    if name == "sphere":
        return _unit(random.standard_normal((120, 10))), random.choice([-1.0, 1.0], 120)
    if name == "repeated rows":
        X = _unit(random.standard_normal((40, 6)))
        X = np.vstack([X, X[:15], -X[:5]])
        return X, np.concatenate([np.sign(X[:40, 0]), np.sign(X[:15, 0]), np.sign(-X[:5, 0])])
    if name == "regression":
        X = random.standard_normal((90, 5)) * [1, 2, 3, 0.1, 5]
        return X, np.sin(X[:, 0]) + 0.1 * X[:, 4]
    assert name == "ten rows"
    return _unit(random.standard_normal((10, 3))), random.standard_normal(10)


NAMES = (
    "digits",
    "digits ten classes",
    "wine",
    "breast cancer",
    "iris",
    "diabetes",
    "sphere",
    "repeated rows",
    "regression",
    "ten rows",
)


@cache
def case(name: str) -> Case:
    X, y = _rows(name)
    random = np.random.default_rng(11)
    X_new = X[random.permutation(len(X))[:8]] + 0.1 * random.standard_normal((8, X.shape[1]))
    H = gram(TwoLayer(), X, engine="dense", device="cpu").dense()
    lam, V = eigh(H)
    return Case(name, X, y, X_new, H, lam, V)
