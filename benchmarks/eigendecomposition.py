"""One Krylov sweep against scipy's eigendecomposition: same numbers, n = 5,000, d = 784, float64, one run."""

from __future__ import annotations

import os
import time

import numpy as np
import scipy.linalg
from record import interleaved_seconds, processor, save

import overparam as op

STEPS = np.unique(np.round(np.geomspace(1, 1e5, 60)))


def rows_and_labels() -> tuple[np.ndarray, np.ndarray, str]:
    if os.environ.get("OVERPARAM_DATA"):
        data = op.data.unit_rows(op.load("mnist", classes=(0, 1), train=5_000))
        return np.asarray(data.X), data.y, "MNIST 0/1"
    rng = np.random.default_rng(0)
    X = rng.random((5_000, 784))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return X, np.sign(X @ rng.standard_normal(784)), "random rows"


def by_eigendecomposition(X: np.ndarray, y: np.ndarray, lr: float) -> tuple[float, np.ndarray]:
    """What everybody does: the matrix, all eigenpairs, sums over them."""
    G = X @ X.T
    H = G * (np.pi - np.arccos(np.clip(G, -1, 1))) / (2 * np.pi)
    np.fill_diagonal(H, 0.5)
    values, vectors = scipy.linalg.eigh(H, overwrite_a=True, check_finite=False)
    weights = (vectors.T @ y) ** 2
    curve = 0.5 * np.array([np.sum(weights * (1 - lr * values) ** (2 * s)) for s in STEPS])
    return float(np.sqrt(2 * np.sum(weights / values) / len(y))), curve


def by_sweep(X: np.ndarray, y: np.ndarray, lr: float, bounds: str | None) -> tuple[float, np.ndarray]:
    q = op.quadrature(op.gram(op.kernels.TwoLayer(), X, device="cpu"), y, tol=2e-8, bounds=bounds)
    return float(np.sqrt(2 * q.bracket(op.Inverse()).value / len(y))), q.bracket(op.Loss(STEPS, lr)).value


def main() -> None:
    X, y, name = rows_and_labels()
    lr = 1.0 / op.eigenvalue_bounds(op.gram(op.kernels.TwoLayer(), X, device="cpu"), "none").upper
    start = time.perf_counter()
    complexity, curve = by_eigendecomposition(X, y, lr)
    eigen = time.perf_counter() - start
    times = interleaved_seconds(
        {"separation": lambda: by_sweep(X, y, lr, "separation"), "none": lambda: by_sweep(X, y, lr, None)}, repeats=5
    )
    start = time.perf_counter()
    by_eigendecomposition(X, y, lr)
    eigen = min(eigen, time.perf_counter() - start)
    rows = []
    for label, bounds in (("with λ bounds", "separation"), ("λ bounds skipped", None)):
        value, losses = by_sweep(X, y, lr, bounds)
        seconds = times[bounds or "none"]
        rows.append(
            {
                "what": f"{name}, {label}",
                "seconds": round(seconds, 2),
                "scipy eigh s": round(eigen, 2),
                "times faster": round(eigen / seconds, 1),
                "complexity differs by": f"{abs(value / complexity - 1):.1e}",
                "curve differs by": f"{np.abs(losses - curve).max() / (0.5 * y @ y):.1e}",
            }
        )
    save(
        "eigendecomposition", processor(), rows, "Gram matrix included on both sides; the faster of two runs of scipy."
    )


if __name__ == "__main__":
    main()
