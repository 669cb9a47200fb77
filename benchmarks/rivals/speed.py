"""Times and memory of the archived neural-tangents on this machine, each in a fresh process, best of several runs.

Run in the environment of README.md: `python benchmarks/rivals/speed.py [NAME ...]`. It writes
benchmarks/results/neural_tangents.json. numpy's `X @ X.T` is timed beside the dense kernels, so that ratios carry over
to other machines.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results" / "neural_tangents.json"

DENSE = {f"dense_depth{depth}_{bits}": (depth, bits) for depth in (2, 3, 5) for bits in ("float32", "float64")}
PIXELS = {f"conv_{head}_{bits}": (head, bits) for head in ("flatten", "gap") for bits in ("float32", "float64")}
METHODS = {
    "empirical_jacobian": "JACOBIAN_CONTRACTION",
    "empirical_vector_products": "NTK_VECTOR_PRODUCTS",
    "empirical_structured": "STRUCTURED_DERIVATIVES",
}
NAMES = [*DENSE, *PIXELS, *METHODS]


def main() -> None:
    """Every measurement named, or all of them."""
    chosen = sys.argv[1:] or NAMES
    if chosen[0] == "--one":
        print(json.dumps(measure(chosen[1])))
        return
    rows = {row["what"]: row for row in json.loads(RESULTS.read_text())["rows"]} if RESULTS.exists() else {}
    for name in chosen:
        load = os.getloadavg()[0]
        done = subprocess.run([sys.executable, __file__, "--one", name], capture_output=True, text=True, check=False)
        if done.returncode:
            row = {"what": name, "failed": done.stderr.strip().splitlines()[-1][:200]}
        else:
            row = json.loads(done.stdout.splitlines()[-1])
        row |= {"load before": round(load, 1)}
        print(row, flush=True)
        if name not in rows or fastest(row) <= fastest(rows[name]):  # that the machine was busy says nothing of a rival
            rows[name] = row
        note = (
            "The fastest run after compiling, of all times it was run here; `added MiB` is the peak of a first run over "
            "what was there before. The machine was shared: see `load before`."
        )
        document = {"machine": machine(), "note": note, "rows": [rows[each] for each in NAMES if each in rows]}
        RESULTS.write_text(json.dumps(document, indent=1) + "\n")


def fastest(row: dict[str, Any]) -> float:
    """Seconds, or infinity where it failed."""
    return row.get("seconds", row.get("seconds a pair", float("inf")))


def measure(name: str) -> dict[str, Any]:
    """One row of the table, in this process."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["JAX_ENABLE_X64"] = "1" if name.endswith("float64") else "0"
    if name in DENSE:
        return measure_dense(name, *DENSE[name])
    if name in PIXELS:
        return measure_pixels(name, *PIXELS[name])
    return measure_empirical(name, METHODS[name])


def measure_dense(name: str, depth: int, bits: str, n: int = 5_000, d: int = 784) -> dict[str, Any]:
    """The tangent kernel of a fully connected ReLU network on unit rows, all n² entries as it computes them."""
    import jax
    import numpy as np
    from archived import stax

    X = np.random.default_rng(0).random((n, d))
    X = (X / np.linalg.norm(X, axis=1)[:, None]).astype(bits)
    kernel_fn = stax.serial(*[stax.Dense(1, 2**0.5), stax.Relu()] * depth, stax.Dense(1, 2**0.5))[2]
    on_device = jax.device_put(X)
    compiled = jax.jit(lambda x: kernel_fn(x, None, get="ntk")).lower(on_device).compile()
    seconds, added = best(lambda: compiled(on_device).block_until_ready(), repeats=1)
    product = seconds
    for _ in range(12):  # in turn, so that a busy moment hits both
        seconds = min(seconds, best(lambda: compiled(on_device).block_until_ready(), repeats=1)[0])
        product = min(product, best(lambda: X @ X.T, repeats=1)[0])
    return {
        "what": name,
        "n": n,
        "d": d,
        "seconds": round(seconds, 3),
        "numpy X @ X.T": round(product, 3),
        "ratio": round(seconds / product, 2),
        "added MiB": round(added),
    }


def measure_pixels(name: str, head: str, bits: str, size: int = 32) -> dict[str, Any]:
    """The tangent kernel of three 3 × 3 ReLU layers on 32 × 32 images: seconds a pair of images."""
    import jax
    import numpy as np
    from archived import stax

    pairs_a_side = 16 if head == "flatten" else 1
    X, Z = np.random.default_rng(0).random((2, pairs_a_side, size, size, 3)).astype(bits)
    layers = [stax.Conv(1, (3, 3), padding="SAME", W_std=2**0.5), stax.Relu()] * 3
    last = stax.Flatten() if head == "flatten" else stax.GlobalAvgPool()
    kernel_fn = stax.serial(*layers, last, stax.Dense(1))[2]
    X, Z = jax.device_put(X), jax.device_put(Z)
    compiled = jax.jit(lambda x, z: kernel_fn(x, z, get="ntk")).lower(X, Z).compile()
    seconds, added = best(lambda: compiled(X, Z).block_until_ready(), repeats=15)
    pairs = pairs_a_side**2
    return {"what": name, "pairs": pairs, "seconds a pair": float(f"{seconds / pairs:.3g}"), "added MiB": round(added)}


def measure_empirical(name: str, method: str, n: int = 200) -> dict[str, Any]:
    """The full n × n × 10 × 10 tangent kernel of a network 784-512-512-10 at its initial weights, float32."""
    import jax
    import numpy as np
    from archived import nt, stax

    X = jax.device_put(np.random.default_rng(0).random((n, 784)).astype("float32"))
    layers = [stax.Dense(512), stax.Relu(), stax.Dense(512), stax.Relu(), stax.Dense(10)]
    init_fn, apply_fn, _ = stax.serial(*layers)
    params = init_fn(jax.random.PRNGKey(0), X.shape)[1]
    implementation = getattr(nt.NtkImplementation, method)
    ntk_fn = nt.empirical_ntk_fn(apply_fn, trace_axes=(), vmap_axes=0, implementation=implementation)
    compiled = jax.jit(lambda x, p: ntk_fn(x, None, p)).lower(X, params).compile()
    slow = method == "JACOBIAN_CONTRACTION"
    seconds, added = best(lambda: compiled(X, params).block_until_ready(), repeats=2 if slow else 5)
    return {"what": name, "n": n, "seconds": float(f"{seconds:.3g}"), "added MiB": round(added)}


def best(work: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Least seconds of several runs, and MiB that the first added at its peak (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    times = []
    added = 0.0
    for run in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
        if run == 0:
            added = resident("VmHWM") - before
    return min(times), added


def resident(field: str) -> float:
    """MiB of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def machine() -> str:
    """The CPU's name and cores."""
    names = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]  # fmt: skip
    return f"{names[0]}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
