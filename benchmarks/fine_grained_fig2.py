"""True against random labels, and the noise sweep of `fine_grained` Fig. 2, on three image pairs (needs OVERPARAM_DATA).

From the kernel limit: no network is trained. Labels of training and test rows are redrawn at the same rate.
"""

from __future__ import annotations

import time
from typing import Any

from record import processor, save

import overparam as op


def main() -> None:
    rows: list[dict[str, Any]] = []
    summary: list[dict[str, Any]] = []
    for name in ("mnist", "fashion-mnist", "cifar10"):
        start = time.perf_counter()
        found = op.analyze(op.load(name, classes=(0, 1), train=10_000, test=2_000), max_rows=10_000)
        seconds = time.perf_counter() - start
        learn, noise = found.learnability, found.noise
        assert noise is not None
        summary.append(
            {
                "data": f"{name} 0/1",
                "n": found.n,
                "complexity, true": round(learn.complexity.value, 4),
                "random (mean)": round(float(learn.random_complexities.mean()), 3),
                "times simpler": round(learn.simpler_than_random, 1),
                "left-out error": f"{learn.left_out_error:.2%}",
                "test error, end": f"{found.new_data.test_error or 0:.2%}",
                "bound (9)": "none" if found.new_data.bound is None else round(found.new_data.bound, 3),
                "seconds": round(seconds),
            }
        )
        for i, rate in enumerate(noise.rates):
            rows.append(
                {
                    "data": f"{name} 0/1",
                    "share redrawn": float(rate),
                    "complexity": round(float(noise.complexity[i]), 4),
                    "test ℓ1 loss": round(float(noise.mean_absolute[i]), 4),
                    "test error": round(float(noise.error[i]), 4),
                }
            )
    save(
        "fine_grained_fig2",
        processor(),
        summary + rows,
        "Random labels: mean of ten draws. Test labels are redrawn too.",
    )


if __name__ == "__main__":
    main()
