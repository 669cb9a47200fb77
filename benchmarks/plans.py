"""What plans foretell against what happens, in seconds of the processor with one thread, so that other programs do not count.

python benchmarks/plans.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from record import processor, save

CASES = [
    *(("gram", n) for n in (1_000, 5_000, 20_000)),
    ("stored", 5_000),
    ("quadrature", 5_000),
    ("solve", 10_000),
    ("analyze", 1_000),
]


def rows(n: int) -> np.ndarray:
    import overparam as op

    X = np.asarray(op.load("mnist", train=n).X, dtype=np.float64)
    return X / np.linalg.norm(X, axis=1)[:, None]


def one(kind: str, n: int) -> tuple[float, float]:
    """Planned, and taken; calibration counts seconds of the processor too, and is made before anything else."""
    import overparam as op
    from overparam.engines import gram
    from overparam.engines.plan import make_plan

    time.perf_counter = time.process_time  # in this process alone: what plans are calibrated with, and measured by
    if kind == "analyze":
        from overparam.analysis.data_analysis import prepare_analyze

        job = prepare_analyze("mnist", max_rows=n, device="cpu", threads=1)
        planned = job.plan.seconds
        return planned, taken(job.run)
    X, kernel = rows(n), op.kernels.TwoLayer()
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    if kind == "stored":
        with tempfile.TemporaryDirectory() as place:
            from overparam.engines.stored import disk_need

            asked: Mapping[str, Any] = {"engine": "stored", "device": "cpu", "threads": 1, "memory": None}
            plan = make_plan(kernel, *X.shape, **asked, disk=disk_need(kernel, X, "ntk", place, "float64"))
            planned = plan.gram_seconds
            return planned, taken(lambda: gram(kernel, X, "stored", place=place, threads=1))
    plan = make_plan(kernel, *X.shape, engine="dense", device="cpu", threads=1, memory=None)
    planned = plan.gram_seconds
    if kind == "gram":
        return planned, taken(lambda: gram(kernel, X, "dense", device="cpu", threads=1))
    H = gram(kernel, X, "dense", device="cpu", threads=1)
    if kind == "quadrature":
        before = time.process_time()
        products = op.quadrature(H, y, 100, tol=1e-14, bounds=None).products
        return products * plan.product_seconds, time.process_time() - before
    from overparam.spectrum.linear_systems import solve_plan

    plan_of_solve = solve_plan(H, y, method="conjugate gradients")
    before = time.process_time()
    solved = op.solve(H, y, 1e-4 * n, method="conjugate gradients", gap=1e-3)
    setup, product = plan_of_solve.setup_seconds, plan_of_solve.product_seconds
    assert setup is not None
    assert product is not None
    return setup + solved.products * product, time.process_time() - before


def taken(work: Callable[[], Any]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def main() -> None:
    found = []
    for kind, n in CASES:
        done = subprocess.run([sys.executable, __file__, kind, str(n)], capture_output=True, text=True, check=True)
        planned, spent = (float(value) for value in done.stdout.split()[-2:])
        found.append(
            {
                "what": f"{kind}, n = {n:,}",
                "planned s": round(planned, 2),
                "taken s": round(spent, 2),
                "planned / taken": round(planned / spent, 2),
            }
        )
        print(found[-1], flush=True)
        save(
            "plans",
            processor(),
            found,
            "Digits of MNIST; seconds of the processor, one thread, each in a process of its own.",
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(*one(sys.argv[1], int(sys.argv[2])))
    else:
        main()
