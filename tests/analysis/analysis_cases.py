"""Sets to analyse, and the same answers by plain NumPy: own preprocessing, own kernel, solves and eigendecompositions."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from functools import cache

import numpy as np
from scipy.linalg import eigh
from threadpoolctl import threadpool_limits

import overparam as op


def kernel(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """x·z (π − θ)/(2π), written out; the angle by the half-angle formula, which is exact for equal rows."""
    a, b = (M / np.linalg.norm(M, axis=1, keepdims=True) for M in (X, Z))
    near = np.linalg.norm(a[:, None] - b[None], axis=2)
    far = np.linalg.norm(a[:, None] + b[None], axis=2)
    return (X @ Z.T) * (np.pi - 2 * np.arctan2(near, far)) / (2 * np.pi)


def prepared(data: op.Dataset, X: np.ndarray) -> np.ndarray:
    """What preprocess="auto" promises, for rows X of the set."""
    X, train = np.asarray(X, dtype=np.float64), np.asarray(data.X, dtype=np.float64)
    if data.kind == "image":
        return X / np.linalg.norm(X, axis=1, keepdims=True)
    spread = train.std(axis=0)
    varies = spread > 0
    Z = (X - train.mean(axis=0))[:, varies] / spread[varies] / np.sqrt(varies.sum())
    return np.column_stack([Z, np.ones(len(X))])


@dataclass(frozen=True, eq=False)
class Checked:
    """An analysis beside what it is checked against."""

    data: op.Dataset
    found: op.Analysis
    H: np.ndarray
    K_test: np.ndarray | None
    y: np.ndarray
    y_test: np.ndarray | None
    lam: np.ndarray
    V: np.ndarray

    @property
    def Y(self) -> np.ndarray:
        return self.y.reshape(len(self.y), -1)

    @property
    def floor(self) -> float:
        """The ridge "trained to the end" means: none, or a trifle where rows repeat."""
        mean = float(np.diag(self.H).mean())
        return 0.0 if self.found.speed.lambda_min.lower > 1e-9 * mean else 1e-6 * mean

    def error(self, y: np.ndarray, outputs: np.ndarray) -> float:
        if self.data.task == "regression":
            return float(np.mean((y - outputs) ** 2))
        if y.ndim == 1:
            return float(np.mean(y * outputs <= 0))
        return float(np.mean(y.argmax(axis=1) != outputs.argmax(axis=1)))

    def refitted(self, ridge: float) -> np.ndarray:
        """Each row predicted by a fit to all the others, one solve a row."""
        n = len(self.y)
        outputs = np.empty_like(self.y)
        with threadpool_limits(1):
            for i in range(n):
                rest = np.delete(np.arange(n), i)
                c = np.linalg.solve(self.H[np.ix_(rest, rest)] + ridge * np.eye(n - 1), self.y[rest])
                outputs[i] = self.H[i, rest] @ c
        return outputs


SETS = {
    "digits": lambda: op.load("digits", train=140, test=60),
    "wine": lambda: op.load("wine", test=0.2),
    "iris": lambda: op.load("iris"),
    "diabetes": lambda: op.load("diabetes", train=150, test=50),
    "breast-cancer": lambda: op.load("breast-cancer", train=160, test=80),
}


@cache
def checked(name: str) -> Checked:
    data = SETS[name]().in_source_order()
    X = prepared(data, data.X)
    y, y_test = np.asarray(data.y), None if data.test is None else np.asarray(data.test.y)
    if data.task == "regression":
        middle, spread = y.mean(), y.std()
        y, y_test = (y - middle) / spread, None if y_test is None else (y_test - middle) / spread
    H = kernel(X, X)
    lam, V = eigh(H)
    K = None if data.test is None else kernel(prepared(data, data.test.X), X)
    return Checked(data, op.analyze(data, device="cpu"), H, K, y, y_test, lam, V)


def same(a: object, b: object, where: str = "") -> None:
    """Equal in every field, arrays to the last bit."""
    assert type(a) is type(b), where
    if is_dataclass(a):
        for field in fields(a):
            same(getattr(a, field.name), getattr(b, field.name), f"{where}.{field.name}")
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype, where
        assert np.array_equal(a, b, equal_nan=True), where
    elif isinstance(a, tuple):
        assert len(a) == len(b), where
        for i, (x, z) in enumerate(zip(a, b, strict=True)):
            same(x, z, f"{where}[{i}]")
    else:
        assert a == b, where
