"""Convolutional kernels on one CPU core: ms a pair of 32 × 32 × 3 images, and the digits float32 keeps on CIFAR-10."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
from record import processor, save

from overparam.data import load
from overparam.kernels.convolutional import Convolutional


def cifar(n: int) -> np.ndarray:
    """The first images, scaled to norm 1."""
    X = np.asarray(load("cifar10", train=n).X, np.float64)[:n]
    return X / np.linalg.norm(X, axis=1)[:, None]


def pair_milliseconds(kernel: Convolutional, X: np.ndarray, Z: np.ndarray, repeats: int) -> tuple[float, float]:
    """Best wall and processor time of several runs: the second tells what a busy machine hides."""
    kernel.block(X, Z)
    wall, busy = [], []
    for _ in range(repeats):
        start, work = time.perf_counter(), time.thread_time()
        kernel.block(X, Z)
        wall.append(time.perf_counter() - start)
        busy.append(time.thread_time() - work)
    return tuple(round(1e3 * min(times) / (len(X) * len(Z)), 4) for times in (wall, busy))


def main() -> None:
    X = cifar(24)
    rows: list[dict[str, Any]] = []
    for head, depth, pairs, repeats in (("pool", 3, (1, 8), 9), ("pool", 21, (1, 4), 3), ("flatten", 3, (24, 24), 9)):
        for dtype in ("float32", "float64"):
            start = time.perf_counter()
            kernel = Convolutional(depth, head=head, dtype=dtype, device="cpu", threads=1)
            kernel.block(X[:1], X[1:2])
            first = time.perf_counter() - start
            wall, busy = pair_milliseconds(kernel, X[: pairs[0]], X[-pairs[1] :], repeats)
            rows.append(
                {
                    "what": f"{head}, depth {depth}, {dtype}, one thread",
                    "ms a pair": wall,
                    "processor ms a pair": busy,
                    "first call s": round(first, 1),
                }
            )
    two = Convolutional(3, dtype="float32", device="cpu", threads=2)
    wall, _ = pair_milliseconds(two, X[:4], X[-8:], 5)
    rows.append({"what": "pool, depth 3, float32, two threads", "ms a pair": wall})
    for depth in (3, 21):
        full, short = (Convolutional(depth, dtype=dtype, device="cpu") for dtype in ("float64", "float32"))
        A, B = X[:4], X[-4:]
        for get in ("nngp", "ntk"):
            sizes = np.sqrt(np.outer(full.diagonal(A, get), full.diagonal(B, get)))
            gap = np.abs(short(A, B, get) - full(A, B, get)) / sizes
            same = abs(short.block(A[:1], A[:1].copy(), get)[0, 0] / full.diagonal(A[:1], get)[0] - 1)
            rows.append(
                {
                    "what": f"float32 against float64, pool, depth {depth}, {get}",
                    "largest error of 16 pairs": f"{gap.max():.1e}",
                    "of an image and its copy": f"{same:.1e}",
                }
            )
    note = f"Errors relative to √(K(x,x)K(z,z)). Load of the machine at the end: {os.getloadavg()[0]:.1f}."
    save("convolutional_cpu", processor(), rows, note)


if __name__ == "__main__":
    main()
