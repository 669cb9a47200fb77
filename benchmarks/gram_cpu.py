"""The dense Gram matrix against `X @ X.T` of numpy in the same run, its memory, and n = 20,000 both ways."""

from __future__ import annotations

import numpy as np
from record import interleaved_seconds, peak_megabytes, processor, save

from overparam.engines import gram
from overparam.kernels import TwoLayer

MAKE = """
import numpy as np, time
from overparam.engines import gram
from overparam.kernels import TwoLayer
def prepare():
    X = np.random.default_rng(0).random(({n}, 784))
    X /= np.linalg.norm(X, axis=1)[:, None]
    gram(TwoLayer(), X[:300], "{engine}", device="cpu") @ np.ones(300)
    return X
def work(X):
    H = gram(TwoLayer(), X, "{engine}", device="cpu")
    v = H @ np.ones({n})
    assert np.isfinite(v).all()
    return H
"""


def main() -> None:
    n, d = 5_000, 784
    X = np.random.default_rng(0).random((n, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    times = interleaved_seconds(
        {"product": lambda: X @ X.T, "gram": lambda: gram(TwoLayer(), X, "dense", device="cpu")}, repeats=9
    )
    rows = [
        {
            "what": f"Gram of H, n = {n:,}, d = {d}, float64",
            "seconds": round(times["gram"], 3),
            "numpy X @ X.T": round(times["product"], 3),
            "ratio": round(times["gram"] / times["product"], 2),
        }
    ]
    for size, engine in ((5_000, "dense"), (20_000, "dense"), (20_000, "matrix_free")):
        before, peak = peak_megabytes(MAKE.format(n=size, engine=engine))
        matrix = 8 * size**2 / 2**20
        rows.append(
            {
                "what": f"{engine}, n = {size:,}, with one product",
                "matrix MiB": round(matrix),
                "added MiB": round(peak - before),
                "added / matrix": round((peak - before) / matrix, 2),
                "process peak MiB": round(peak),
            }
        )
    save("gram_cpu", processor(), rows, "Peaks are resident sizes of a fresh process, X and Python included.")


if __name__ == "__main__":
    main()
