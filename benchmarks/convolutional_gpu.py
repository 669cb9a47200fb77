"""Pooled convolutional kernels on an accelerator: ms an entry of the plain and the fused way; CIFAR-10 with `--cifar`.

python benchmarks/convolutional_gpu.py                         # about a minute: speed and numbers
python benchmarks/convolutional_gpu.py --cifar FOLDER          # kernels of 1,000 + 1,000 images, kept tile by tile
    --depth 21 --train 1000 --test 1000 --seconds 500          # stops in time and is taken up again by the next run
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from record import processor, save

from overparam.engines import gram
from overparam.engines.cross import cross_matrix
from overparam.kernels.convolution_device import OnDevice, fused_works, pairs_in_batches, side_of
from overparam.kernels.convolution_images import Images, Patches
from overparam.kernels.convolutional import Convolutional
from overparam.kernels.fully_connected import FullyConnected


def photographs(n: int, side: int = 32) -> np.ndarray:
    """Pieces of two photographs that come with scikit-learn, scaled to norm 1; waves where they cannot be read."""
    from sklearn.datasets import load_sample_images

    rng = np.random.default_rng(0)
    try:
        images = load_sample_images().images
    except ImportError:  # no package that reads pictures
        t = np.linspace(0, 9, 400)
        images = [128 + 60 * np.sin(t[:, None, None] * (k + 1) + t[:, None] * np.arange(1, 4)) for k in range(2)]
    pieces = []
    for k in range(n):
        image = images[k % 2][::4, ::4]
        i, j = rng.integers(0, np.array(image.shape[:2]) - side)
        pieces.append(image[i : i + side, j : j + side])
    X = np.stack(pieces).astype(np.float64)
    return X / np.linalg.norm(X.reshape(n, -1), axis=1)[:, None, None, None]


def best_of(work: Any, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def speed(depth: int, side: int, seconds: float, where: str) -> list[dict[str, Any]]:
    """ms an entry for batch sizes, both ways, and how far 4 pairs are from float64."""
    end = time.perf_counter() + seconds
    X = photographs(16, side)
    X[3] = X[0]
    X[4] = X[1] + 1e-4 * np.abs(X[1]).mean() * np.random.default_rng(1).standard_normal(X[1].shape)
    patches = Patches(3, "SAME", depth, side, side)
    stds = (2**0.5,) * (depth + 1), (0.0,) * (depth + 1)
    images = Images.of(X, patches, *stds, 1e-15)
    taught = np.ones(depth)
    i, j = np.array([0, 1, 0, 1]), np.array([2, 2, 3, 4])  # two pairs of strangers, then copies
    start = time.perf_counter()
    exact = OnDevice(*[Images.of(X, patches, *stds, 1e-70)] * 2, "float64", where).sums(i, j, patches, True, taught)
    rows: list[dict[str, Any]] = [
        {"what": "float64, plain, 4 entries", "first call s": round(time.perf_counter() - start, 1)}
    ]
    device = OnDevice(images, images, "float32", where)
    with device._setting():
        works = device._place.platform == "gpu" and fused_works(Patches(3, "SAME", 2, side, side))
    rows.append({"what": "the fused launch compiles and agrees", "answer": bool(works)})
    if where != "cpu" and not works:
        try:
            made = device.sums(i, j, patches, True, taught, fused=True)
            rows[-1]["why"] = f"largest error {np.abs(made / exact - 1).max():.1e}"
        except Exception as problem:
            rows[-1]["why"] = f"{type(problem).__name__}: {problem}"[:600]
    sides = side_of(images, "float32")
    sizes = {"plain": (1, 16, 64, 256), "fused": (16, 64, 256)} if where != "cpu" else {"plain": (1, 2)}
    for way, batches in sizes.items():
        if way == "fused" and not works:
            continue
        made = device.sums(i, j, patches, True, taught, fused=way == "fused")
        error = np.abs(made / exact - 1)
        for pairs, part in (("two photographs", error[:2]), ("an image and its copy", error[2:])):
            nngp, ntk = part.max(axis=0)
            rows.append({"what": f"{way}: error against float64, {pairs}", "nngp": f"{nngp:.1e}", "ntk": f"{ntk:.1e}"})
        for batch in batches:
            if time.perf_counter() > end:
                break
            pairs = batch * max(1, 256 // batch) if where != "cpu" else batch
            one, two = np.arange(pairs, dtype=np.int32) % 16, np.arange(pairs, dtype=np.int32) // 16 % 16

            def work(way: str = way, one: Any = one, two: Any = two, batch: int = batch) -> None:
                pairs_in_batches(
                    sides, sides, one, two, taught.astype(np.float32),
                    patches=patches, pooled=True, batch=batch, fused=way == "fused",
                ).block_until_ready()  # fmt: skip

            start = time.perf_counter()
            work()
            first = time.perf_counter() - start
            taken = best_of(work, 3)
            row = {
                "what": f"{way}, batch {batch}",
                "ms an entry": round(1e3 * taken / pairs, 4),
                "first call s": round(first, 1),
            }
            rows.append(row)
            print(row, flush=True)
    return rows


def warps(depth: int, side: int, seconds: float) -> list[dict[str, Any]]:
    """The fused launch with more or fewer threads a plane."""
    from functools import partial

    from overparam.kernels.convolution_fused import fused_pairs

    end = time.perf_counter() + seconds
    patches = Patches(3, "SAME", depth, side, side)
    stds = (2**0.5,) * (depth + 1), (0.0,) * (depth + 1)
    sides = side_of(Images.of(photographs(64, side), patches, *stds, 1e-15), "float32")
    other = jax.tree.map(lambda array: array[::-1], sides)
    rows = []
    for count in (1, 2, 4, 8):
        if time.perf_counter() > end:
            break
        work = jax.jit(partial(fused_pairs, patches=patches, warps=count))
        taught = np.ones(depth, np.float32)
        try:
            work(sides, other, taught).block_until_ready()
            taken = best_of(lambda work=work, taught=taught: work(sides, other, taught).block_until_ready(), 3)
        except Exception as problem:
            rows.append({"what": f"fused, {count} warps", "failed": str(problem)[:200]})
            continue
        rows.append({"what": f"fused, {count} warps", "ms an entry": round(1e3 * taken / 64, 4)})
        print(rows[-1], flush=True)
    return rows


class TimeIsUp(Exception):
    """Raised between two tiles, when the time of this run is over."""


def until(end: float) -> Any:
    """A progress that stops the work at `end`; tiles made so far are on disk."""

    def tell(done: float, total: float | None, what: str) -> None:
        if time.perf_counter() > end and done < (total or 1.0):
            raise TimeIsUp(f"{done / (total or 1.0):.0%} of the {what}")

    return tell


def accuracy(H: np.ndarray, cross: np.ndarray, y: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Of kernel ridge regression on one-hot labels, its ridge by leave-one-out on the training images."""
    w, V = np.linalg.eigh(H)
    targets = np.eye(10)[y] - 0.1
    rotated, best = V.T @ targets, (-1.0, 0.0)
    for ridge in np.trace(H) / len(H) * 10.0 ** np.arange(-8, 1):
        inverse = 1 / (np.maximum(w, 0) + ridge)
        alpha, own = V @ (inverse[:, None] * rotated), (V**2) @ inverse
        left_out = targets - alpha / own[:, None]
        score = float(np.mean(left_out.argmax(1) == y))
        if score > best[0]:
            best = (score, ridge)
    inverse = 1 / (np.maximum(w, 0) + best[1])
    return best[0], float(np.mean((cross @ (V @ (inverse[:, None] * rotated))).argmax(1) == labels))


def cifar(folder: Path, depth: int, train: int, test: int, seconds: float, where: str) -> list[dict[str, Any]]:
    """Accuracy of the pooled, the flattened and the fully connected kernel on CIFAR-10."""
    from overparam.data import load

    data = load("cifar10", train=train, test=test)
    sets = []
    for part in (data, data.test):
        X = np.asarray(part.X, np.float64).reshape(-1, 3, 32, 32)
        sets.append(
            (np.moveaxis(X / np.linalg.norm(X.reshape(len(X), -1), axis=1)[:, None, None, None], 1, -1), part.labels)
        )
    (X, y), (Z, labels) = sets
    names = sorted(set(map(str, y)))
    y, labels = (np.array([names.index(str(label)) for label in some]) for some in (y, labels))
    kernels = {
        "fully connected": FullyConnected(depth),
        "flattened": Convolutional(depth, head="flatten", dtype="float32", device=where),
        "pooled": Convolutional(depth, dtype="float32", device=where),
    }
    rows, end = [], time.perf_counter() + seconds
    for name, kernel in kernels.items():
        start, flat = time.perf_counter(), name == "fully connected"
        place = folder / f"{name.replace(' ', '_')}-{depth}-{train}-{test}"
        A, B = (V.reshape(len(V), -1) if flat else V for V in (X, Z))
        try:
            H = gram(kernel, A, "dense", place=None if flat else place / "train", progress=until(end)).dense()
            cross = cross_matrix(kernel, B, A, place=None if flat else place / "test", progress=until(end))
        except TimeIsUp as state:
            rows.append({"what": f"{name}, depth {depth}", "state": f"{state} made; run again to go on"})
            print(rows[-1], flush=True)
            continue
        left_out, tested = accuracy(H, cross, y, labels)
        rows.append(
            {
                "what": f"{name}, depth {depth}, {train} training and {test} test images",
                "leave-one-out accuracy": round(left_out, 4),
                "test accuracy": round(tested, 4),
                "seconds of this run": round(time.perf_counter() - start, 1),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cifar", type=Path, help="folder for the tiles")
    parser.add_argument("--depth", type=int, default=21)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--train", type=int, default=1000)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--device", default="gpu", choices=["gpu", "cpu"])
    parser.add_argument("--out", type=Path, help="where results go; benchmarks/results unless named")
    chosen = parser.parse_args()
    place = jax.devices()[0].device_kind if chosen.device == "gpu" else processor()
    machine = f"{place}, jax {jax.__version__}"
    if chosen.cifar:
        where = "gpu" if chosen.device == "gpu" else None
        rows = cifar(chosen.cifar, chosen.depth, chosen.train, chosen.test, chosen.seconds, where)
        save("convolutional_cifar", machine, rows, "Images scaled to norm 1; ridge by leave-one-out.", chosen.out)
        return
    rows = speed(chosen.depth, chosen.side, chosen.seconds, chosen.device)
    if any(row.get("answer") for row in rows):
        rows += warps(chosen.depth, chosen.side, chosen.seconds / 4)
    title = (
        f"{chosen.depth} layers, {chosen.side} × {chosen.side} × 3, pooled, float32; pieces of photographs of norm 1."
    )
    save("convolutional_gpu", machine, rows, title, chosen.out)


if __name__ == "__main__":
    main()
