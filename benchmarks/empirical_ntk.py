"""The tangent kernel of finite networks: time of the first and of later calls, and peak memory in a fresh process.

An MLP 784-512-512-10 as a plain JAX function and as an Equinox model, n = 200, all 10 x 10 pairs of outputs; a small
convolutional network; a product with a vector. Writes benchmarks/results/empirical_ntk_cpu.json.
"""

from __future__ import annotations

import os
import time
from typing import Any

from record import peak_megabytes, processor, save

MODELS = """
import jax, numpy as np
import jax.numpy as jnp
from overparam.kernels.empirical import Empirical

def mlp(params, x):
    for W, b in params[:-1]:
        x = jax.nn.relu(x @ W + b)
    W, b = params[-1]
    return x @ W + b

def weights(*sizes):
    rng = np.random.default_rng(0)
    return [(rng.standard_normal(size, np.float32) / size[0] ** 0.5, np.zeros(size[1], np.float32))
            for size in zip(sizes, sizes[1:])]

def cnn(params, x):
    for W in params[:-1]:
        x = jax.nn.relu(jax.lax.conv_general_dilated(x, W, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
    return x.reshape(len(x), -1) @ params[-1]

def plain(dtype):
    return Empirical(mlp, weights(784, 512, 512, 10), dtype=dtype)

def equinox(dtype):
    from overparam.adapters import from_equinox
    import equinox as eqx
    return Empirical(from_equinox(eqx.nn.MLP(784, 10, 512, 2, key=jax.random.key(0))), dtype=dtype)

def convolutional(dtype):
    rng = np.random.default_rng(0)
    shapes = [(3, 3, 3, 32), (3, 3, 32, 64), (8 * 8 * 64, 10)]
    params = [rng.standard_normal(shape, np.float32) / np.prod(shape[:-1]) ** 0.5 for shape in shapes]
    return Empirical(cnn, params, dtype=dtype)

def rows(n, *shape):
    X = np.random.default_rng(1).standard_normal((n, *shape))
    return X / np.linalg.norm(X.reshape(n, -1), axis=1).reshape(n, *[1] * len(shape))
"""

CASES: dict[str, tuple[str, str, str]] = {
    "MLP 784-512-512-10, JAX function, n = 200, full": ("plain", "rows(200, 784)", "kernel.full(X)"),
    "MLP 784-512-512-10, Equinox, n = 200, full": ("equinox", "rows(200, 784)", "kernel.full(X)"),
    "MLP 784-512-512-10, JAX function, n = 2000, trace": ("plain", "rows(2000, 784)", "kernel.block(X, X)"),
    "MLP 784-512-512-10, JAX function, n = 2000, one product": (
        "plain",
        "rows(2000, 784)",
        "kernel.product(X, np.ones((2000, 10)))",
    ),
    "CNN 32x32x3, 32 and 64 channels, n = 50, full": ("convolutional", "rows(50, 32, 32, 3)", "kernel.full(X)"),
}


def measure(model: str, inputs: str, call: str, dtype: str, repeats: int) -> dict[str, Any]:
    """Seconds in this process, memory in a fresh one."""
    room: dict[str, Any] = {}
    exec(f"{MODELS}\nkernel = {model}('{dtype}'); X = {inputs}", room)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        eval(call, room)
        times.append(time.perf_counter() - start)
    later = sorted(times[1:])
    prepare = (
        f"{MODELS}\ndef prepare():\n    jax.numpy.ones(2).block_until_ready()\n    return {model}('{dtype}'), {inputs}"
    )
    before, peak = peak_megabytes(f"{prepare}\ndef work(p):\n    kernel, X = p\n    return {call}")
    return {
        "first s": round(times[0], 2),
        "best s": round(later[0], 3),
        "median s": round(later[len(later) // 2], 3),
        "extra peak MB": round((peak - before) * 1.048576),
    }


def main() -> None:
    rows, before = [], os.getloadavg()[0]
    for name, case in CASES.items():
        for dtype in ("float32", "float64"):
            rows.append({"what": name, "dtype": dtype, **measure(*case, dtype, 30 if "200," in name else 4)})
    note = (
        "First: compilation included. Extra peak: resident memory of a fresh process over that before the first call. "
        f"Load of the machine at the start and end: {before:.1f}, {os.getloadavg()[0]:.1f}."
    )
    save("empirical_ntk_cpu", processor(), rows, note)


if __name__ == "__main__":
    main()
