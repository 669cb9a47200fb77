"""Kernel regression on a million deformed digits, certified: rows made on the device, products exact, solves by products.

    python benchmarks/million_rows.py --n 999424 --folds 5 --curve 24 --out results
    python benchmarks/million_rows.py --table --n 1246064 --gap 1e-2 --out results

MNIST is read from OVERPARAM_DATA. Rows are its training digits turned, sheared and shifted a little, 8 bits a pixel; the
digits themselves come first. With --table they are 94 real columns with heavy tails (Student's t of 3 degrees of freedom),
of norm 1, and a nonlinear target with noise. Prints what every step took and found, and writes million_rows_N.json, or
million_table_N.json, into --out.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.ndimage import map_coordinates

import overparam as op
from overparam.engines.integer_rows import IntegerRows
from overparam.engines.integers_on_device import DeviceIntegerGram

SIDE = 28
BATCH = 4096


@partial(jax.jit, static_argnames=("count",))
def deformed(images: Any, key: Any, first: Any, count: int) -> Any:
    """`count` digits from number `first` on, in the order of the file again and again, deformed from the second round on."""
    numbers = first + jnp.arange(count)
    sources = images[numbers % len(images)].reshape(count, SIDE, SIDE).astype(jnp.float32)
    draws = jax.vmap(lambda i: jax.random.uniform(jax.random.fold_in(key, i), (5,), minval=-1.0, maxval=1.0))(numbers)
    draws = jnp.where((numbers < len(images))[:, None], 0.0, draws)
    middle = (SIDE - 1) / 2
    grid = jnp.arange(SIDE, dtype=jnp.float32) - middle

    def one(image: Any, draw: Any) -> Any:
        turn, lean, stretch = 0.2 * draw[0], 0.15 * draw[1], 1 + 0.1 * draw[2]
        x, y = grid[None, :], grid[:, None]
        across = stretch * (jnp.cos(turn) * x - jnp.sin(turn) * y) + lean * y + 1.5 * draw[3] + middle
        down = stretch * (jnp.sin(turn) * x + jnp.cos(turn) * y) + 1.5 * draw[4] + middle
        return map_coordinates(image, [down, across], order=1, mode="constant")

    return jnp.clip(jnp.round(jax.vmap(one)(sources, draws)), 0, 255).astype(jnp.uint8).reshape(count, SIDE * SIDE)


def made_rows(images: np.ndarray, n: int, seed: int) -> Any:
    on, key = jnp.asarray(images), jax.random.key(seed)
    batch = min(BATCH, n)
    parts = [deformed(on, key, start, batch) for start in range(0, n, batch)]
    return jnp.concatenate(parts)[:n]


def timed(work: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = jax.block_until_ready(work())
    return time.perf_counter() - start, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--ridge", type=float, default=1e-6, help="times n")
    parser.add_argument("--gap", type=float, default=1e-3, help="relative width of the bracket")
    parser.add_argument("--columns", type=int, default=None, help="of the preconditioner; 6√n unless told")
    parser.add_argument("--multiplied", default=None, choices=["bfloat16", "int8", "float32", "float64"])
    parser.add_argument("--folds", type=int, default=0, help="left out in turn, all deformations of a digit together")
    parser.add_argument("--curve", type=int, nargs="*", default=[], help="products to try for the loss curve")
    parser.add_argument("--table", action="store_true", help="real columns with heavy tails in place of digits")
    parser.add_argument("--repeats", type=int, default=2, help="products timed")
    parser.add_argument("--products-only", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("."))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"n": asked.n, "ridge": asked.ridge * asked.n, "jax": jax.__version__, "seconds": {}}
    seconds = found["seconds"]

    def say(name: str, taken: float | None = None, **more: Any) -> None:
        if taken is not None:
            seconds[name] = round(taken, 3)
        found.update(more)
        words = ", ".join(f"{key} {value}" for key, value in more.items())
        print(f"{name:28s} {'' if taken is None else f'{taken:9.3f} s'}  {words}", flush=True)
        (asked.out / f"million_{'table' if asked.table else 'rows'}_{asked.n}.json").write_text(
            json.dumps(found, indent=1)
        )

    device = jax.devices()[0]
    say("machine", device=device.device_kind, platform=device.platform)
    n, ridge = asked.n, asked.ridge * asked.n
    kernel = op.kernels.TwoLayer()
    if asked.table:
        taken, (rows, y) = timed(lambda: made_table(n, asked.seed))
        say("rows", taken)
        start_of_all = time.perf_counter()
        taken, H = timed(lambda: op.gram(kernel, rows, "matrix_free", device="jax"))
        say("matrix", taken, columns_of_rows=rows.shape[1])
        V = H.to_device(y)
        say("product, compiled", timed(lambda: H.product(V))[0], repaired=H.repaired)
    else:
        data = op.load("mnist")
        images, test = (np.rint(part.X).astype(np.uint8) for part in (data, data.test))
        say("rows", timed(lambda: made_rows(images, n, asked.seed))[0])
        taken, X = timed(lambda: made_rows(images, n, asked.seed))
        say("rows again", taken)
        y = np.asarray(data.y)[np.arange(n) % len(images)]
        start_of_all = time.perf_counter()
        taken, H = timed(lambda: made_matrix(kernel, X, asked.multiplied))
        say("matrix", taken, multiplied=H.multiplied, mean_diagonal=float(H.diagonal().mean()))
        V = H.to_device(np.random.default_rng(1).standard_normal(y.shape))
        say("product, compiled", timed(lambda: H.product(V))[0])
    for index in range(asked.repeats):
        say(f"product {index + 1}", timed(lambda: H.product(V))[0], vectors=y.shape[1])
    if asked.products_only:
        check_entries(H, kernel, rows if asked.table else np.asarray(X), V, say)
        return

    marks: list[tuple[float, int, str]] = []

    def progress(done: float, total: float | None, what: str) -> None:
        if not marks or marks[-1][1:] != (int(done), what):
            marks.append((time.perf_counter(), int(done), what))
        else:
            return
        if what != "preconditioner" or done == total:
            print(f"  {what} {done:g}, {time.perf_counter() - start_of_all:.1f} s", flush=True)

    def solved() -> Any:
        return op.solve(
            H,
            y,
            ridge,
            gap=asked.gap,
            method="conjugate gradients",
            columns=asked.columns,
            progress=progress,
        )

    taken, z = timed(solved)
    first = next(at for at, _, what in marks if what == "products with H")
    bracket = z.bracket
    say("preconditioner", first - marks[0][0], columns=z.plan.columns)
    say(
        "solve in all",
        taken,
        products=z.products,
        converged=z.converged,
        lower=bracket.lower,
        upper=bracket.upper,
        relative_gap=bracket.width / bracket.lower,
        certified=bracket.certified,
        sense=bracket.sense,
        complexity=[float(np.sqrt(2 * side / n)) for side in (bracket.lower, bracket.upper)],
        largest_residual=float(z.residuals.max()),
    )
    say("from rows to certificate", time.perf_counter() - start_of_all)
    if not asked.table:
        taken, outputs = timed(lambda: H.cross_product(unit_rows(test), z.values))
        classes = np.unique(data.labels)
        wrong = float(np.mean(classes[outputs.argmax(axis=1)] != np.asarray(data.test.labels)))
        say("test", taken, test_error=wrong)
        if asked.folds:
            fold = np.arange(n) % len(images) % asked.folds

            def left_out() -> Any:
                return op.theory.leave_folds_out(
                    H, y, fold, ridge, tol=1e-2, columns=asked.columns, max_products=12, progress=progress
                )

            taken, out = timed(left_out)
            digits = np.asarray(data.labels)[np.arange(n) % len(images)]
            wrong = float(np.mean(classes[out.outputs.argmax(axis=1)] != digits))
            say(
                f"{asked.folds} folds",
                taken,
                fold_error=wrong,
                fold_products=out.products,
                fold_within=float(out.within.max()),
            )
    for products in asked.curve:
        curve(H, y, products, say)
    say("everything", time.perf_counter() - start_of_all)


def curve(H: Any, y: np.ndarray, products: int, say: Any) -> None:
    """The loss to step 1,000 at the rate 1/λ_max, all columns in one block, with its bracket as a share of the first loss."""
    steps = [0, 1, 10, 100, 300, 1000]
    start = time.perf_counter()
    q = op.quadrature(H, y, products, bounds="none")
    loss = op.predict_loss(q, steps=steps, lr=1 / q.bounds.upper)
    width = float((loss.upper - loss.lower).max() / loss.values[0])
    told = {"curve_steps": steps, "curve_products": q.products, "curve_width": width, "curve_rate": 1 / q.bounds.upper}
    sides = {f"curve_{name}": [float(v) for v in getattr(loss, name)] for name in ("lower", "values", "upper")}
    say("loss curve", time.perf_counter() - start, **told, **sides, curve_certified=bool(np.all(loss.certified)))


def check_entries(H: Any, kernel: Any, X: np.ndarray, V: Any, say: Any) -> None:
    """Entries against NumPy's, and some rows of a product against one made in another way."""
    some = np.random.default_rng(0).choice(H.n, size=256, replace=False)
    unit = X if X.dtype == np.float64 else unit_rows(X[some])
    away = np.abs(H.block(some, some) - kernel(X[some] if unit is X else unit)).max()
    say("entries against NumPy's", largest_difference=float(away))
    few, W = some[:8], H.to_host(V)
    left = X[few] if unit is X else unit[:8]
    parts = [
        kernel(left, X[i : i + 8192] if unit is X else unit_rows(X[i : i + 8192])) @ W[i : i + 8192]
        for i in range(0, H.n, 8192)
    ]
    true = np.sum(parts, axis=0)
    away = np.abs(H.to_host(H.product(V))[few] - true).max() / np.abs(true).max()
    say("product against NumPy's", relative_difference=float(away))


def made_table(n: int, seed: int, d: int = 94) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm 1 from columns with heavy tails, and a target of ±1 with a tenth of the signs turned."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, size=(n, d))
    mixed = X @ rng.standard_normal((d, 2)) / np.sqrt(d)
    y = np.sign(np.sin(mixed[:, 0]) + mixed[:, 1]) * np.where(rng.random(n) < 0.1, -1.0, 1.0)
    return X / np.linalg.norm(X, axis=1)[:, None], y[:, None]


def made_matrix(kernel: Any, X: Any, multiplied: str | None) -> DeviceIntegerGram:
    """As `op.gram(kernel, unit_rows(X))` would be, without the rows in float64; and multiplied as asked."""
    rows = IntegerRows.of(X)
    assert rows is not None
    return DeviceIntegerGram(kernel, X, IntegerRows(rows.pixels, None), "ntk", None, "jax", multiplied)


def unit_rows(X: np.ndarray) -> np.ndarray:
    X = X.astype(np.float64)
    return X / np.linalg.norm(X, axis=1)[:, None]


if __name__ == "__main__":
    main()
