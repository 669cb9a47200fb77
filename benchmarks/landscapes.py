"""Hessian products and surfaces of PyTorch models on the CPU, beside PyHessian and loss-landscapes in the same run.

The rivals need an environment with torch and overparam in it:

    pip install --no-deps "pyhessian==0.1" "loss-landscapes==3.0.6"

Every pair is run in turn and its ratio is the median over the turns. Times are of the processor, with one thread, so that
other work on the machine counts little. What they find is compared first. Writes landscapes_cpu.json into the folder given,
or benchmarks/results.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from record import processor, save
from torch import nn

import overparam as op
from overparam.landscapes import hessian_extremes, objective_of, surface

warnings.filterwarnings("ignore", message="Using backward")  # PyHessian's way
LANCZOS = 10
"""Products of Lanczos, about as exact as PyHessian's power iteration with its own tolerance of 1e-3."""
PACE = 0.35
"""Seconds a turn takes at least: quick work is repeated within it."""


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def convolutional() -> nn.Sequential:
    """Six convolutions with batch norm, 32 × 32 images."""
    layers: list[nn.Module] = []
    for inner, outer, stride in ((3, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)):
        layers += [nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int, int]] = {
    "MLP 784-512-512-10, 1,000 rows": (mlp, (784,), 1000, 250),
    "CNN of 6 layers, 128 images": (convolutional, (3, 32, 32), 128, 32),
}


def paired(ours: Callable[[], Any], theirs: Callable[[], Any], turns: int) -> tuple[float, float, float]:
    """Best seconds of each, and the median over turns of theirs/ours."""
    repeats = []
    for work in (ours, theirs):
        work()
        begin = time.process_time()
        work()
        repeats.append(max(1, round(PACE / (time.process_time() - begin))))
    count = min(repeats)
    best, ratios = [float("inf")] * 2, []
    for _ in range(turns):
        seconds = []
        for work in (ours, theirs):
            begin = time.process_time()
            for _ in range(count):
                work()
            seconds.append((time.process_time() - begin) / count)
        best = [min(a, b) for a, b in zip(best, seconds, strict=True)]
        ratios.append(seconds[1] / seconds[0])
    return best[0], best[1], statistics.median(ratios)


def rows_of(name: str, turns: int) -> list[dict[str, Any]]:
    """All comparisons of one model."""
    from loss_landscapes.main import random_plane
    from loss_landscapes.metrics.sl_metrics import Loss
    from pyhessian import hessian
    from pyhessian.utils import hessian_vector_product

    make, shape, n, chunk = MODELS[name]
    torch.manual_seed(0)
    model = make().eval()
    draws = np.random.default_rng(0)
    X = draws.standard_normal((n, *shape)).astype(np.float32)
    labels = draws.integers(0, 10, n)
    labels[:10] = np.arange(10)  # every class is there, in order of its number
    criterion, x, y = nn.CrossEntropyLoss(), torch.tensor(X), torch.tensor(labels)
    network = op.from_torch(model, X)
    data = (X, labels)
    whole = objective_of(network, data, objective="cross-entropy")
    w, v = whole.start, whole.unit(whole.normal(0))
    own = list(torch.split(v, [layer.size for layer in whole.layers]))
    own = [part.view(layer.shape) for part, layer in zip(own, whole.layers, strict=True)]
    rows = []

    def add(what: str, rival: str, found: tuple[float, float, float], digits: str) -> None:
        rows.append({
            "model": name, "what": what, "overparam ms": round(1e3 * found[0], 2), "rival": rival,
            "rival ms": round(1e3 * found[1], 2), "rival / overparam": round(found[2], 2), "agree": digits,
        })  # fmt: skip
        print(rows[-1], flush=True)

    one = hessian(model, criterion, data=(x, y), cuda=False)
    theirs = torch.cat([part.reshape(-1) for part in hessian_vector_product(one.gradsH, one.params, own)])
    gap = float((whole.hessian_product(w, v) - theirs).norm() / theirs.norm())
    add("Hessian product, one batch", "PyHessian", paired(
        lambda: whole.hessian_product(w, v), lambda: hessian_vector_product(one.gradsH, one.params, own), turns
    ), f"{gap:.0e}")  # fmt: skip

    loader = list(zip(x.split(chunk), y.split(chunk), strict=True))
    many = hessian(model, criterion, dataloader=loader, cuda=False)
    theirs = torch.cat([part.reshape(-1) for part in many.dataloader_hv_product(own)[1]])
    gap = float((whole.hessian_product(w, v) - theirs).norm() / theirs.norm())
    add(f"Hessian product, {len(loader)} batches", "PyHessian", paired(
        lambda: whole.hessian_product(w, v), lambda: many.dataloader_hv_product(own), turns
    ), f"{gap:.0e}")  # fmt: skip

    exact = hessian_extremes(whole, steps=40).largest
    torch.manual_seed(1)
    errors = [abs(top / exact - 1) for top in (hessian_extremes(whole, steps=LANCZOS).largest, one.eigenvalues()[0][0])]
    add(f"largest and smallest eigenvalue, {LANCZOS} products", "PyHessian, the largest alone", paired(
        lambda: hessian_extremes(whole, steps=LANCZOS), one.eigenvalues, 3
    ), f"off by {errors[0]:.0e} and {errors[1]:.0e}")  # fmt: skip

    side = 8
    metric = Loss(criterion, x, y)
    model.zero_grad()
    u = whole.unit(whole.normal(1))
    add(f"surface of {side} × {side} points", "loss-landscapes", paired(
        lambda: surface(whole, None, (u, v), extent=1.0, points=side),
        lambda: random_plane(model, metric, distance=10, steps=side, normalization="model", deepcopy_model=True),
        turns,
    ), "other directions")  # fmt: skip
    return rows


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 11
    rows = [row for name in MODELS for row in rows_of(name, turns)]
    note = f"torch {torch.__version__}, float32, one thread; ratios are medians of pairs run in turn; loss-landscapes without filters, which fail on batch norm"
    save("landscapes_cpu", processor(), rows, note, folder)


if __name__ == "__main__":
    main()
