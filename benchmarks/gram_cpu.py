"""The dense Gram matrix against `X @ X.T` of numpy in the same run, here and as on a processor with AVX2 alone; its memory.

What AVX2 alone would give is a run of its own, in which NumPy and OpenBLAS are told to leave AVX-512 out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

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


def ratio(where: str) -> dict[str, object]:
    """Of this process."""
    n, d = 5_000, 784
    X = np.random.default_rng(0).random((n, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    times = interleaved_seconds(
        {"product": lambda: X @ X.T, "gram": lambda: gram(TwoLayer(), X, "dense", device="cpu")}, repeats=9
    )
    return {
        "what": f"Gram of H, n = {n:,}, d = {d}, float64, {where}",
        "seconds": round(times["gram"], 3),
        "numpy X @ X.T": round(times["product"], 3),
        "ratio": round(times["gram"] / times["product"], 2),
    }


def with_avx2() -> dict[str, object]:
    """The same in a process whose NumPy and OpenBLAS do without AVX-512."""
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])  # pyright: ignore
    without = " ".join(name for name in found if "512" in name or name == "X86_V4")
    told = {"NPY_DISABLE_CPU_FEATURES": without, "OPENBLAS_CORETYPE": "Haswell"}
    asked = [sys.executable, __file__, "--one", "AVX2 alone"]
    said = subprocess.run(asked, env={**os.environ, **told}, capture_output=True, text=True, check=True).stdout
    return json.loads(said.splitlines()[-1])


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(ratio(sys.argv[2])))
        return
    rows: list[dict[str, object]] = [ratio("this processor"), with_avx2()]
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
