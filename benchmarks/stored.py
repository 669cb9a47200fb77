"""Cost and memory of the CPU's engines against n, and a product from disk against reading its tiles alone.

    python benchmarks/stored.py                             1,000 to 20,000 rows
    python benchmarks/stored.py --sizes 60000 --raw FILE    others; a file of what was measured goes on growing

Every engine and size is a process of its own with one thread of BLAS; the matrix is written under $TMPDIR. Seconds are those
of the processor, which other work on the machine does not change. Exponents are least squares of logarithms over all
sizes from 2,000 on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from record import processor, save

SIZES = (1_000, 2_000, 5_000, 10_000, 20_000)
ENGINES = {
    "dense": {},
    "half": {},
    "matrix_free": {},
    "stored": {},
    "stored, int32": {"dtype": "int32"},
}
MOST = {"dense": 20_000, "half": 30_000, "stored": 20_000}
"""Rows above which an engine is left out here."""
VECTORS = 10

MEASURE = """
import json, sys, time
import numpy as np
from overparam.engines import gram
from overparam.kernels import TwoLayer
n, engine, options, place, vectors = json.loads(sys.argv[1])
def resident(field):
    line = next(line for line in open("/proc/self/status") if line.startswith(field))
    return int(line.split()[1]) / 1024
def best(work, repeats):
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)
X = np.random.default_rng(0).random((n, 784))
X /= np.linalg.norm(X, axis=1)[:, None]
V = np.random.default_rng(1).standard_normal((n, vectors))
more = dict(options, place=place) if engine == "stored" else options
gram(TwoLayer(), X[:300], "matrix_free", device="cpu") @ V[:300]
open("/proc/self/clear_refs", "w").write("5")  # the peak is counted from here on
before = resident("VmRSS")
start = time.process_time()
H = gram(TwoLayer(), X, engine, device="cpu", **more)
found = {"build": time.process_time() - start}
repeats = 1 if n > 2_000 and engine == "matrix_free" else 3
found["product"] = best(lambda: H @ V, repeats)
found["memory"] = resident("VmHWM") - before
if n <= 20_000 or engine == "stored":
    found["one"] = best(lambda: H @ V[:, :1], repeats)
if engine == "stored":
    folder, buffer = H.folder, H.folder.buffer()
    places = [(i, j) for i in range(folder.count) for j in range(i + 1)]
    found["read"] = best(lambda: [folder.read(i, j, buffer) for i, j in places], 3)
    found["disk"] = folder.nbytes / 2**20
print(json.dumps(found))
"""


def measured(n: int, name: str) -> dict[str, float]:
    """Seconds and MiB of one engine at one size."""
    with tempfile.TemporaryDirectory() as place:
        given = json.dumps([n, name.split(",")[0], ENGINES[name], place, VECTORS])
        one = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        words = [sys.executable, "-c", MEASURE, given]
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=one)
    return json.loads(done.stdout)


def exponent(sizes: list[int], values: list[float]) -> float:
    """Of a power law."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description="Engines of the CPU against n.")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--engines", default=";".join(ENGINES))
    parser.add_argument("--raw", type=Path, help="a JSON file that keeps what was measured, between runs too")
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []
    raw = json.loads(asked.raw.read_text()) if asked.raw is not None and asked.raw.exists() else {}
    for name in asked.engines.split(";"):  # one after the other
        for n in (int(size) for size in asked.sizes.split(",")):
            if n <= MOST.get(name, n) and f"{name} {n}" not in raw:
                raw[f"{name} {n}"] = measured(n, name)
                if asked.raw is not None:
                    asked.raw.write_text(json.dumps(raw))
    sizes = sorted({int(key.rpartition(" ")[2]) for key in raw})
    found = {name: {n: raw[f"{name} {n}"] for n in sizes if f"{name} {n}" in raw} for name in ENGINES}
    for name, by_size in found.items():
        for n, one in by_size.items():
            rows.append(
                {
                    "engine": name,
                    "n": n,
                    "matrix s": round(one["build"], 3),
                    f"product s ({VECTORS} vectors)": round(one["product"], 4),
                    "one vector s": round(one["one"], 4) if "one" in one else "–",
                    "added MiB": round(one["memory"]),
                }
            )
    for name, by_size in found.items():
        large = [n for n in by_size if n >= 2_000]
        if len(large) > 1:
            rows.append(
                {"engine": name, "sizes": f"{large[0]:,} to {large[-1]:,}"}
                | {
                    f"exponent of the {what}": round(exponent(large, [max(by_size[n][key], 1e-9) for n in large]), 2)
                    for what, key in (("matrix", "build"), ("product", "product"), ("memory", "memory"))
                    if what != "matrix" or name != "matrix_free"
                }
            )
    for name in ("stored", "stored, int32"):
        for n, one in found.get(name, {}).items():
            rows.append(
                {
                    "tiles": name,
                    "n": n,
                    "MiB": round(one["disk"]),
                    "reading alone s": round(one["read"], 4),
                    "product / reading": round(one["product"] / one["read"], 2),
                    "product / dense": round(one["product"] / found["dense"][n]["product"], 2)
                    if n in found.get("dense", {})
                    else "–",
                }
            )
    note = (
        "Rows of 784 numbers, one thread, seconds of the processor; tiles are in the memory of the system when they are read. Added MiB: the resident peak of matrix "
        "and products beyond rows and Python."
    )
    save("stored", processor(), rows, note)


if __name__ == "__main__":
    main()
