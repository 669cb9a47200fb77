"""The dask engine: two workers of one thread each against one, in turn, and what a product costs as rows grow.

python benchmarks/dask_engine.py
python benchmarks/dask_engine.py --sizes 1000,2000,4000 --speedup 8000
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from typing import Any

import numpy as np
from record import processor, save

from overparam.engines import gram
from overparam.kernels import TwoLayer

FEATURES = 784


def rows(n: int) -> np.ndarray:
    X = np.random.default_rng(0).random((n, FEATURES))
    return X / np.linalg.norm(X, axis=1)[:, None]


def started(workers: int, stack: contextlib.ExitStack) -> Any:
    """A cluster of processes of one thread each."""
    from distributed import Client, LocalCluster

    cluster = stack.enter_context(
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
        )
    )
    return stack.enter_context(Client(cluster, set_as_default=False))


def seconds(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="The dask engine: two workers against one, and cost against rows.")
    parser.add_argument("--sizes", default="1000,2000,4000,8000,16000,32000")
    parser.add_argument("--speedup", type=int, default=16_000)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    found = []
    with contextlib.ExitStack() as stack:
        one, two = started(1, stack), started(2, stack)
        X = rows(asked.speedup)
        v = np.random.default_rng(1).standard_normal(len(X))
        engines = {"one worker": gram(TwoLayer(), X, cluster=one), "two workers": gram(TwoLayer(), X, cluster=two)}
        engines["matrix_free, one thread"] = gram(TwoLayer(), X, "matrix_free", device="cpu", threads=1)
        products = {name: H @ v for name, H in engines.items()}  # rows are sent with the first product
        times: dict[str, list[float]] = {name: [] for name in engines}
        loads = []
        for _ in range(asked.repeats):
            for name, H in engines.items():
                loads.append(os.getloadavg()[0])
                times[name].append(seconds(lambda H=H: H @ v))
        best = {name: min(taken) for name, taken in times.items()}
        found.append(
            {
                "what": f"a product, n = {asked.speedup:,}, d = {FEATURES}",
                **{name: round(taken, 2) for name, taken in best.items()},
                "one / two": round(best["one worker"] / best["two workers"], 2),
                "same bits": bool(np.array_equal(products["one worker"], products["two workers"])),
                "load": f"{min(loads):.1f}–{max(loads):.1f}",
            }
        )
        print(found[-1], flush=True)
        engines.clear()
        sizes = [int(size) for size in asked.sizes.split(",")]
        taken, planned = [], []
        for n in sizes:
            H = gram(TwoLayer(), rows(n), cluster=two)
            v = np.ones(n)
            sent = seconds(lambda H=H, v=v: H @ v)
            taken.append(min(seconds(lambda H=H, v=v: H @ v) for _ in range(2)))
            assert H.plan is not None
            planned.append(H.plan.product_seconds)
            found.append(
                {
                    "what": f"two workers, n = {n:,}",
                    "first product, rows sent": round(sent, 3),
                    "product": round(taken[-1], 3),
                    "planned": round(planned[-1], 3),
                    "load": f"{os.getloadavg()[0]:.1f}",
                }
            )
            print(found[-1], flush=True)
        large = [i for i, n in enumerate(sizes) if n >= 4000]
        if len(large) > 1:
            slope = np.polyfit(np.log([sizes[i] for i in large]), np.log([taken[i] for i in large]), 1)[0]
            found.append(
                {"what": "exponent of the product's seconds in n, from 4,000 rows on", "product": round(slope, 2)}
            )
            print(found[-1], flush=True)
    save("dask_engine", processor(), found, "The shorter of several products each; load: of the machine, 1 minute.")


if __name__ == "__main__":
    main()
