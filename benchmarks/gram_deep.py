"""Gram matrices of deep ReLU kernels against the matrix product they contain: time, memory, and entries checked apart.

`python benchmarks/gram_deep.py` times the CPU against numpy's `X @ X.T` in the same run; `--device gpu` one accelerator,
n = 60,000. Writes gram_deep_cpu.json or gram_deep_gpu.json into benchmarks/results, or the folder given by `--out`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from record import peak_megabytes, processor, save

from overparam.core.kernel import AbstractInnerProductKernel
from overparam.engines import gram
from overparam.kernels import FullyConnected, TwoLayer

CASES: dict[str, tuple[AbstractInnerProductKernel, str]] = {
    "two layers": (TwoLayer(), "ntk"),
    "depth 2": (FullyConnected(2), "ntk"),
    "depth 3": (FullyConnected(3), "ntk"),
    "depth 5": (FullyConnected(5), "ntk"),
    "depth 5, conjugate": (FullyConnected(5), "nngp"),
    "depth 5, biases": (FullyConnected(5, b_std=0.1), "ntk"),
}
NEAR = 50
MEMORY = """
import numpy as np
from overparam.engines import gram
from overparam.kernels import FullyConnected
def prepare():
    X = np.random.default_rng(0).random(({n}, {d}))
    X /= np.linalg.norm(X, axis=1)[:, None]
    gram(FullyConnected(5), X[:600], "dense", device="cpu")
    return X
def work(X):
    return gram(FullyConnected(5), X, "dense", device="cpu")
"""


def unit_rows(n: int, d: int, near: int = 0) -> np.ndarray:
    """Random rows of norm 1; each of the first `near` has a partner in the second half at an angle of 1e-5 to 1e-2."""
    rng = np.random.default_rng(0)
    X = rng.random((n, d))
    angles = 10 ** rng.uniform(-5, -2, (near, 1))
    noise = rng.standard_normal((near, d)) / np.sqrt(d)
    X[n // 2 : n // 2 + near] = X[:near] + angles * noise * np.linalg.norm(X[:near], axis=1)[:, None]
    X /= np.linalg.norm(X, axis=1)[:, None]
    return X


def by_hand(X: np.ndarray, Z: np.ndarray, depth: int) -> np.ndarray:
    """The ReLU NTK of W_std = √2 without biases, layer by layer in 80 bits, from the angle between two rows."""
    x, z = X.astype(np.longdouble), Z.astype(np.longdouble)
    x /= np.sqrt((x * x).sum(axis=1))[:, None]
    z /= np.sqrt((z * z).sum(axis=1))[:, None]
    theta = 2 * np.arctan2(np.sqrt(((x - z) ** 2).sum(axis=1)), np.sqrt(((x + z) ** 2).sum(axis=1)))
    pi = 4 * np.arctan(np.longdouble(1))
    ntk = np.cos(theta)
    for _ in range(depth):
        share = (pi - theta) / pi
        covariance = np.sin(theta) / pi + share * np.cos(theta)
        ntk = covariance + share * ntk
        theta = np.arccos(np.minimum(covariance, 1.0))
    return ntk * 2 / X.shape[1]


def largest_errors(entries: Callable[[np.ndarray, np.ndarray], np.ndarray], X: np.ndarray) -> dict[str, str]:
    """Of the depth-5 NTK on 200 random pairs and on the near-parallel ones, relative to K(x, x)."""
    rng = np.random.default_rng(1)
    n, whole = len(X), 2 * 6 / X.shape[1]
    random = rng.integers(n, size=(2, 200))
    near = np.stack([np.arange(NEAR), n // 2 + np.arange(NEAR)])
    found = {}
    for name, (i, j) in (("error, 200 random pairs", random), (f"error, {NEAR} near-parallel pairs", near)):
        found[name] = f"{np.abs(entries(i, j) - by_hand(X[i], X[j], 5)).max() / whole:.1e}"
    return found


def best_seconds(works: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """The best of several runs of each, taken in turn: other programs only ever make a run slower."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(repeats + 1):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def on_cpu(n: int, d: int, repeats: int, folder: Path | None) -> None:
    """Against numpy's own product, and the memory of the deepest."""
    X = unit_rows(n, d)
    works: dict[str, Callable[[], Any]] = {"product": lambda: X @ X.T}
    for name, (kernel, get) in CASES.items():
        works[name] = lambda kernel=kernel, get=get: gram(kernel, X, "dense", device="cpu", get=get)
    times = best_seconds(works, repeats)
    rows: list[dict[str, Any]] = [
        {
            "what": f"{name}, n = {n:,}, d = {d}, float64",
            "seconds": round(times[name], 3),
            "numpy X @ X.T": round(times["product"], 3),
            "ratio": round(times[name] / times["product"], 2),
        }
        for name in CASES
    ]
    near = unit_rows(n, d, NEAR)
    H = gram(FullyConnected(5), near, "dense", device="cpu").dense()
    rows.append({"what": "depth 5, entries", **largest_errors(lambda i, j: H[i, j], near)})
    before, peak = peak_megabytes(MEMORY.format(n=n, d=d))
    matrix = 8 * n**2 / 2**20
    rows.append(
        {
            "what": f"depth 5, memory, n = {n:,}",
            "matrix MiB": round(matrix),
            "added MiB": round(peak - before),
            "added / matrix": round((peak - before) / matrix, 2),
        }
    )
    note = f"The best of {repeats + 1} runs of each, in turn. Errors relative to K(x, x), against 80 bits."
    save("gram_deep_cpu", processor(), rows, note, folder)


def on_gpu(n: int, d: int, repeats: int, folder: Path | None) -> None:
    """From rows that lie on the device, against the product of all of them."""
    import jax
    import jax.numpy as jnp

    device = jax.devices()[0]
    X = unit_rows(n, d)
    with jax.enable_x64(True):
        on = jnp.asarray(X)
        multiply = jax.jit(lambda a: jnp.matmul(a, a.T, precision=jax.lax.Precision.HIGHEST))
        product = best_seconds({"": lambda: jax.block_until_ready(multiply(on))}, repeats)[""]
        on = None
    rows: list[dict[str, Any]] = []
    for name, (kernel, get) in CASES.items():
        start = time.perf_counter()
        H: Any = gram(kernel, X, "dense", device="gpu", get=get)
        first = time.perf_counter() - start
        seconds = rebuilt(H, repeats)
        rows.append(
            {
                "what": f"{name}, n = {n:,}, d = {d}, float64, from rows on the device",
                "seconds": round(seconds, 3),
                "matrix product s": round(product, 3),
                "ratio": round(seconds / product, 2),
                "first call s": round(first, 1),
            }
        )
        H = None
    near = unit_rows(n, d, NEAR)
    H = gram(FullyConnected(5), near, "dense", device="gpu")
    seconds = rebuilt(H, 1)

    def entries(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(H.values[jnp.asarray(i), jnp.asarray(j)])

    rows.append(
        {
            "what": f"depth 5 with {H.repaired} near-parallel pairs",
            "seconds": round(seconds, 3),
            "matrix product s": round(product, 3),
            "ratio": round(seconds / product, 2),
            **largest_errors(entries, near),
        }
    )
    H = None
    free = gram(FullyConnected(5), X, "matrix_free", device="gpu")
    v = free.to_device(np.ones((n, 1)))
    times = best_seconds({"": lambda: jax.block_until_ready(free.product(v))}, 2)
    rows.append({"what": f"depth 5, matrix-free product, n = {n:,}", "seconds": round(times[""], 3)})
    peak = (device.memory_stats() or {}).get("peak_bytes_in_use")
    if peak:
        rows.append(
            {"what": "most memory on the device", "GB": round(peak / 1e9, 1), "matrix GB": round(8 * n**2 / 1e9, 1)}
        )
    machine = f"{device.device_kind}, jax {jax.__version__}, Python {sys.version.split()[0]}"
    note = f"The best of {repeats + 1} runs after compilation. Errors relative to K(x, x), against 80 bits."
    save("gram_deep_gpu", machine, rows, note, folder)


def rebuilt(H: Any, repeats: int) -> float:
    """Seconds to fill the matrix again."""
    import jax

    def build() -> None:
        H.values = None
        H.build()
        jax.block_until_ready(H.values)

    return best_seconds({"": build}, repeats)[""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--n", type=int)
    parser.add_argument("--d", type=int, default=784)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    if chosen.device == "cpu":
        on_cpu(chosen.n or 5_000, chosen.d, chosen.repeats or 8, chosen.out)
    else:
        on_gpu(chosen.n or 60_000, chosen.d, chosen.repeats or 4, chosen.out)


if __name__ == "__main__":
    main()
