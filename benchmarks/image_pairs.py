"""Complexity brackets and λ_min bounds of the three image pairs at 10,000 rows, from files (needs OVERPARAM_DATA)."""

from __future__ import annotations

import time

from record import processor, save

import overparam as op
from overparam.core.provenance import peak_memory
from overparam.data import unit_rows


def main() -> None:
    rows = []
    for name in ("mnist", "fashion-mnist", "cifar10"):
        data = unit_rows(op.load(name, classes=(0, 1), train=10_000))
        start = time.perf_counter()
        H = op.gram(op.kernels.TwoLayer(), data.X)
        made = time.perf_counter()
        bounds = op.eigenvalue_bounds(H, "separation")
        bounded = time.perf_counter()
        q = op.quadrature(H, data.y, bounds=bounds)
        swept = time.perf_counter()
        form = q.bracket(op.Inverse())
        smallest = op.eigenpairs(H, 1, "smallest")
        rows.append(
            {
                "data": f"{name} 0/1",
                "n": data.n,
                "complexity": round((2 * form.value / data.n) ** 0.5, 6),
                "relative width": f"{form.width / form.value:.1e}",
                "products": q.products,
                "bound on λ_min": f"{bounds.lower:.5f}",
                "λ_min": f"{smallest.values[0]:.5f}",
                "λ_max / bound": f"{max(q.nodes[0]) / q.bounds.upper:.6f}",
                "Gram s": round(made - start, 1),
                "bounds s": round(bounded - made, 1),
                "sweep s": round(swept - bounded, 1),
                "process peak MB": round((peak_memory() or 0) / 1e6),
            }
        )
    save("image_pairs", processor(), rows, "λ_min by inverse iteration, for comparison; the peak includes its factor.")


if __name__ == "__main__":
    main()
