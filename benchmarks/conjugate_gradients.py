"""Conjugate gradients against a Cholesky factor: the same predictions, and what each takes.

python benchmarks/conjugate_gradients.py [ROWS]
"""

from __future__ import annotations

import sys
import time
from typing import Any, Literal

import numpy as np
from record import processor, save

import overparam as op
from overparam.data import preprocess

SHARE = 1e-4
"""The ridge over the diagonal."""
NEW = 1_000


def main(rows: int = 20_000) -> None:
    data = preprocess(op.load("mnist", train=rows, test=NEW), "auto")
    assert data.test is not None
    start = time.perf_counter()
    H = op.gram(op.kernels.TwoLayer(), np.asarray(data.X, dtype=np.float64), device="cpu")
    matrix = time.perf_counter() - start
    ridge = SHARE * float(H.diagonal().mean())
    new = H.kernel.block(np.asarray(data.test.X, dtype=np.float64), H.X, "ntk")  # type: ignore[union-attr, arg-type]
    found: list[dict[str, Any]] = []
    outputs: dict[str, np.ndarray] = {}
    ways: tuple[Literal["conjugate gradients", "Cholesky"], ...] = ("conjugate gradients", "Cholesky")
    for method in ways:
        start = time.perf_counter()
        solved = op.solve(H, data.y, ridge, method=method, tol=1e-11)
        seconds = time.perf_counter() - start
        outputs[method] = new @ solved.values
        plan = solved.plan
        assert plan.setup_seconds is not None
        assert plan.product_seconds is not None
        found.append(
            {
                "rows": rows,
                "method": method,
                "seconds": round(seconds, 1),
                "planned": round(plan.setup_seconds + solved.products * plan.product_seconds, 1),
                "products": solved.products,
                "columns": plan.columns,
                "residual": float(f"{solved.residuals.max():.2g}"),
                "relative width": float(f"{solved.bracket.width / solved.bracket.value:.2g}"),
                "matrix seconds": round(matrix, 1),
            }
        )
        print(found[-1], flush=True)
    one, other = outputs.values()
    apart = float(np.abs(one - other).max() / np.abs(other).max())
    wrong = [float(np.mean(each.argmax(axis=1) != data.test.codes)) for each in (one, other)]
    for row, error in zip(found, wrong, strict=True):
        row |= {"largest difference of predictions": float(f"{apart:.2g}"), "test error": error}
    save("conjugate_gradients", processor(), found, f"ridge {SHARE:g} of the diagonal, ten classes, {NEW:,} test rows")


if __name__ == "__main__":
    main(*(int(value) for value in sys.argv[1:]))
