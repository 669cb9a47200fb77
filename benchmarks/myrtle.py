"""Myrtle kernels of images: entries a second, and how well they tell classes apart, on a processor or a GPU.

python benchmarks/myrtle.py --data digits --train 100 --test 100           a minute on one core: 8 x 8 images
python benchmarks/myrtle.py --data cifar10 --train 1000 --test 1000 --jax   a GPU: kernel.jax, compiled, tile by tile
python benchmarks/myrtle.py --data cifar10 --train 5000 --test 1000 --depth 10 --jax

Every run adds its row to benchmarks/results/myrtle.json, in place of one of the same data, depth and sizes. Images have norm 1; classes are
told by ridge regression on the tangent kernel, the ridge 1e-4 of the mean of its diagonal, chosen before any run.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
from record import RESULTS, processor, save

import overparam as op

TILE = 25
"""Rows and columns of pairs that are compiled together."""


def images(name: str, train: int, test: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images (n, rows, columns, channels) of norm 1 and their classes, and test ones."""
    if name == "digits":
        from sklearn.datasets import load_digits

        found: Any = load_digits()
        order = np.random.default_rng(0).permutation(len(found.target))[: train + test]
        X, y = found.images[order][..., None], found.target[order]
        sets = X[:train], y[:train], X[train:], y[train:]
    else:
        data = op.load(name, train=train, test=test)
        both = [(np.asarray(part.X, np.float64).reshape(-1, 3, 32, 32), part.labels) for part in (data, data.test)]
        names = sorted(set(map(str, both[0][1])))
        sets = [
            each for X, y in both for each in (np.moveaxis(X, 1, -1), np.array([names.index(str(one)) for one in y]))
        ]
    X, y, Z, labels = sets
    X, Z = (each / np.linalg.norm(each.reshape(len(each), -1), axis=1)[:, None, None, None] for each in (X, Z))
    return X, y, Z, labels


def matrix_of(kernel: Any, X: np.ndarray, Z: np.ndarray, compiled: bool) -> np.ndarray:
    """The kernel of all pairs; of `X` with itself (the same array) each pair once."""
    if not compiled:
        return kernel.block(X, Z)
    import jax

    tile = jax.jit(kernel.jax)
    side = min(TILE, len(X), len(Z))
    K = np.empty((len(X), len(Z)))
    known = jax.device_put(Z.astype(np.float32))
    for row in starts(len(X), side):
        rows = jax.device_put(X[row : row + side].astype(np.float32))
        for column in starts(len(Z), side):
            if X is Z and column > row:
                break
            K[row : row + side, column : column + side] = tile(rows, known[column : column + side])
            if X is Z:
                K[column : column + side, row : row + side] = K[row : row + side, column : column + side].T
    return K


def starts(n: int, side: int) -> list[int]:
    """Of tiles of one shape, the last of which may overlap the one before."""
    return [*range(0, n - side, side), n - side]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=("digits", "cifar10"), default="digits")
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--train", type=int, default=100)
    parser.add_argument("--test", type=int, default=100)
    parser.add_argument("--jax", action="store_true", help="kernel.jax, on JAX's default device")
    given = parser.parse_args()
    X, y, Z, labels = images(given.data, given.train, given.test)
    kernel = op.kernels.Myrtle(given.depth)
    clock = time.perf_counter if given.jax else time.process_time
    start = clock()
    H, cross = matrix_of(kernel, X, X, given.jax), matrix_of(kernel, Z, X, given.jax)
    seconds = clock() - start
    entries = len(X) * (len(X) + 1) // 2 + len(Z) * len(X)
    ridge = 1e-4 * np.diag(H).mean()
    scores = cross @ np.linalg.solve(H + ridge * np.eye(len(X)), np.eye(10)[y] - 0.1)
    row = {
        "data": given.data,
        "depth": given.depth,
        "train": len(X),
        "test": len(Z),
        "how": "kernel.jax" if given.jax else "NumPy, seconds of the processor",
        "accuracy": round(float(np.mean(scores.argmax(axis=1) == labels)), 4),
        "seconds": round(seconds, 2),
        "entries a second": round(entries / seconds, 1),
    }
    if given.jax:  # against float64 by NumPy, of a few pairs
        exact = kernel.block(X[:2], X[:2])
        row["largest error of a few entries"] = float(f"{np.abs(H[:2, :2] / exact - 1).max():.1e}")
    where = RESULTS / "myrtle.json"
    known = json.loads(where.read_text(encoding="utf-8"))["rows"] if where.exists() else []
    same = ("data", "depth", "train", "test", "how")
    known = [one for one in known if any(one[key] != row[key] for key in same)]
    save("myrtle", processor(), [*known, row], "Images of norm 1; ridge regression on the tangent kernel.")


if __name__ == "__main__":
    main()
