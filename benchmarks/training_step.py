"""One step of gradient descent on the two-layer network: ours with recording on, against plain JAX, and PyTorch on a CPU.

On a GPU n = m = 10,000, d = 784 in float32, tf32 and float64; on a CPU n = m = 3,000 in both precisions. Writes
training_step_gpu.json or training_step_cpu.json into the folder given, or benchmarks/results.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from record import interleaved_seconds, processor, save

from overparam.networks import TwoLayer
from overparam.training import gradient_descent


def problem(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(rng.random(n) < 0.5, -1.0, 1.0)


def plain_steps(n: int, m: int, d: int, dtype: str, steps: int) -> Any:
    """The same step as a few lines of JAX, in one compiled loop, nothing recorded."""
    X, y = problem(n, d)
    rng = np.random.default_rng(1)
    kind = np.float64 if dtype == "float64" else np.float32
    with jax.enable_x64(True):
        X, y = jnp.asarray(X.astype(kind)), jnp.asarray(y.astype(kind))
        W = jnp.asarray(rng.standard_normal((m, d)).astype(kind))
        a = jnp.asarray(np.where(rng.random(m) < 0.5, -1.0, 1.0).astype(kind))

    def loss(W: Any, X: Any, y: Any, a: Any) -> Any:
        return 0.5 * jnp.sum((y - jax.nn.relu(X @ W.T) @ a / m**0.5) ** 2)

    @jax.jit
    def loop(W: Any, X: Any, y: Any, a: Any) -> Any:
        return jax.lax.fori_loop(0, steps, lambda _, W: W - 1e-3 * jax.grad(loss)(W, X, y, a), W)

    def run() -> None:
        with (
            jax.enable_x64(dtype == "float64"),
            jax.default_matmul_precision("tensorfloat32" if dtype == "tf32" else "highest"),
        ):
            jax.block_until_ready(loop(W, X, y, a))

    return run


def torch_step(n: int, m: int, d: int, dtype: str) -> Any:
    import torch

    X, y = problem(n, d)
    kind = torch.float64 if dtype == "float64" else torch.float32
    torch.manual_seed(0)
    x, t = torch.tensor(X, dtype=kind), torch.tensor(y, dtype=kind)
    W = torch.randn(m, d, dtype=kind, requires_grad=True)
    a = torch.sign(torch.randn(m, dtype=kind))

    def step() -> None:
        loss = 0.5 * ((t - torch.relu(x @ W.T) @ a / m**0.5) ** 2).sum()
        (gradient,) = torch.autograd.grad(loss, W)
        with torch.no_grad():
            W.sub_(1e-3 * gradient)

    return step


def on_gpu(folder: Path | None) -> None:
    device = jax.devices()[0]
    n = m = 10_000
    d, steps = 784, 2_000
    rows: list[dict[str, Any]] = []
    for dtype in ("float32", "tf32", "float64"):
        plain = plain_steps(n, m, d, dtype, 100)
        plain()
        start = time.perf_counter()
        plain()
        reference = (time.perf_counter() - start) / 100
        data = problem(n, d)
        options: dict[str, Any] = {"lr": 1e-3, "key": 0, "dtype": dtype}
        gradient_descent(TwoLayer(m), data, steps=2, **options)
        start = time.perf_counter()
        run = gradient_descent(TwoLayer(m), data, steps=steps, **options)
        whole = (time.perf_counter() - start) / steps
        rows.append(
            {
                "what": f"n = m = {n:,}, d = {d}, {dtype}, {steps} steps, {len(run.steps)} records",
                "ms a step": round(1e3 * run.seconds_per_step, 3),
                "ms, all included": round(1e3 * whole, 3),
                "plain JAX ms": round(1e3 * reference, 3),
                "ratio": round(whole / reference, 3),
                "TFLOP/s": round(4 * n * m * d / run.seconds_per_step / 1e12, 1),
            }
        )
    note = "All included: the call from NumPy to NumPy over its steps, set-up and every measure of the records with it."
    save("training_step_gpu", f"{device.device_kind}, jax {jax.__version__}", rows, note, folder)


def on_cpu(folder: Path | None) -> None:
    n = m = 3_000
    d, steps = 784, 20
    rows: list[dict[str, Any]] = []
    for dtype in ("float32", "float64"):
        data = problem(n, d)
        step, ours = torch_step(n, m, d, dtype), []

        def train(dtype: str = dtype, data: Any = data, ours: list[float] = ours) -> None:
            run = gradient_descent(
                TwoLayer(m), data, lr=1e-3, steps=steps, key=0, dtype=dtype, record=[0, steps], measures=()
            )
            ours.append(run.seconds_per_step)

        def rival(step: Any = step) -> None:
            for _ in range(steps):
                step()

        times = interleaved_seconds({"ours": train, "PyTorch": rival}, 5)
        mine = sorted(ours[1:])[len(ours) // 2]
        rows.append(
            {
                "what": f"n = m = {n:,}, d = {d}, {dtype}",
                "ms a step": round(1e3 * mine, 1),
                "PyTorch ms": round(1e3 * times["PyTorch"] / steps, 1),
                "ratio": round(mine * steps / times["PyTorch"], 2),
            }
        )
    save(
        "training_step_cpu", processor(), rows, "Interleaved in one run; PyTorch with as many threads as cores.", folder
    )


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if jax.default_backend() == "cpu":
        on_cpu(where)
    else:
        on_gpu(where)
