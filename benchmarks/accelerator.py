"""The device engine on one GPU: Gram against its matrix product, ten-class brackets end to end, matrix-free products.

Reads MNIST from OVERPARAM_DATA. Writes accelerator.json into the folder given, or benchmarks/results.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from record import median_seconds, save

import overparam as op
from overparam.engines import device_gram, gram

TwoLayer = op.kernels.TwoLayer


def timed(work: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def main(folder: str | None = None) -> None:
    device = jax.devices()[0]
    machine = f"{device.device_kind}, jax {jax.__version__}, Python {sys.version.split()[0]}"
    rows: list[dict[str, Any]] = []
    data = op.data.unit_rows(op.load("mnist"))
    X, y = np.asarray(data.X), data.y
    n, d = X.shape
    with jax.enable_x64(True):
        on = jnp.asarray(X)
        multiply = jax.jit(lambda a: jnp.matmul(a, a.T, precision=jax.lax.Precision.HIGHEST))
        product = median_seconds(lambda: jax.block_until_ready(multiply(on)), 5)
        on = None
    first, H = timed(lambda: gram(TwoLayer(), X, "dense", device="gpu"))

    def rebuild() -> None:
        H.values = None
        H.build()
        jax.block_until_ready(H.values)

    build = median_seconds(rebuild, 5)
    rows.append(
        {
            "what": f"Gram of H, MNIST, n = {n:,}, d = {d}, float64, from rows on the device",
            "seconds": round(build, 3),
            "matrix product s": round(product, 3),
            "ratio": round(build / product, 2),
            "near-parallel pairs repaired": H.repaired,
            "first call s": round(first, 1),
        }
    )
    V = H.to_device(np.ones((n, 10)))
    rows.append(
        {
            "what": "product with 10 vectors, stored",
            "seconds": round(median_seconds(lambda: jax.block_until_ready(H.product(V)), 5), 4),
        }
    )
    H = V = None

    stages: dict[str, float] = {}

    def whole() -> Any:
        stages["Gram s"], H = timed(lambda: gram(TwoLayer(), X, device="gpu"))
        stages["λ bounds and sweep s"], q = timed(lambda: op.quadrature(H, y, tol=1e-6, bounds="separation"))
        form = q.bracket(op.Inverse())
        curve = q.bracket(op.Loss(np.unique(np.round(np.geomspace(1, 1e6, 50))), 1 / q.bounds.upper))
        return q, form, curve

    cold, _ = timed(whole)
    warm, (q, form, curve) = timed(whole)
    each = form.per_output
    rows.append(
        {
            "what": f"MNIST ten classes, n = {n:,}: Gram, λ bounds, brackets, from NumPy arrays",
            "seconds": round(warm, 2),
            **{name: round(seconds, 2) for name, seconds in stages.items()},
            "with compilation s": round(cold, 1),
            "products": q.products,
            "widest relative bracket": f"{np.max((each.upper - each.lower) / each.value):.1e}",
            "curve width": f"{np.max(curve.width) / curve.value[0]:.1e}",
            "bound on λ_min": f"{q.bounds.lower:.5f}",
            "λ bounds from": f"{q.bounds.lower_method}; {q.bounds.upper_method}",
        }
    )
    # nothing stored: a million rows of 784 features
    big = np.random.default_rng(0).random((250_000, d))
    big /= np.linalg.norm(big, axis=1)[:, None]
    free = gram(TwoLayer(), big, "matrix_free", device="gpu")
    v = free.to_device(np.ones((len(big), 1)))
    jax.block_until_ready(free.product(v))
    seconds, _ = timed(lambda: jax.block_until_ready(free.product(v)))
    rows.append(
        {
            "what": f"matrix-free product, n = {len(big):,}, d = {d}, float64",
            "seconds": round(seconds, 2),
            "tile": device_gram.TILE,
        }
    )
    save(
        "accelerator",
        machine,
        rows,
        "Float64 throughout. Times after compilation unless said.",
        Path(folder) if folder else None,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
