"""Tangent kernels of PyTorch modules on the CPU: time, memory, and the ratio to a Jacobian by torch.func.

An MLP 784-512-512-10 on 200 samples (all 10 × 10 outputs), and a network of ResNet-18's size on 50 images of 32 × 32.
The rival contracts torch.func's Jacobian of all weights, on 50 samples in the same run. Memory is that of a fresh
process, above what it held before the call. Writes empirical_ntk_torch_cpu.json into the folder given, or
benchmarks/results.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from record import interleaved_seconds, peak_megabytes, processor, save
from torch import nn
from torch.func import functional_call, jacrev, vmap

from overparam.adapters.torch_module import from_torch


class Block(nn.Module):
    """Two convolutions with batch norm, and a way around them."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outer), nn.BatchNorm2d(outer)
        self.around: nn.Module = nn.Identity()
        if stride != 1 or inner != outer:
            self.around = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(h)) + self.around(x))


def resnet18() -> nn.Sequential:
    """Eleven million weights: a 3 × 3 stem at full resolution, eight blocks, average pooling, ten outputs."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    inner = 64
    for outer, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(inner, outer, stride), Block(outer, outer, 1)]
        inner = outer
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MLP 784-512-512-10": (mlp, (784,)),
    "ResNet-18, 32 x 32": (resnet18, (3, 32, 32)),
}


def problem(name: str, n: int) -> tuple[nn.Module, np.ndarray]:
    make, shape = MODELS[name]
    torch.manual_seed(0)
    return make(), np.random.default_rng(0).standard_normal((n, *shape)).astype(np.float32)


def whole_jacobian(module: nn.Module, X: np.ndarray) -> Callable[[], np.ndarray]:
    """The rival: torch.func's Jacobian of all weights for all samples, then one contraction a weight."""
    module.eval()
    weights = {name: weight.detach() for name, weight in module.named_parameters()}
    x = torch.tensor(X)

    def one(weights: Any, row: torch.Tensor) -> torch.Tensor:
        return functional_call(module, weights, (row[None],))[0]

    def run() -> np.ndarray:
        found = vmap(jacrev(one), (None, 0))(weights, x)
        parts = (part.flatten(2) for part in found.values())
        return sum(torch.einsum("iac,jbc->ijab", part, part) for part in parts).numpy()  # type: ignore[union-attr]

    return run


def extra_megabytes(name: str, n: int, outputs: str) -> float:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from empirical_ntk_torch import from_torch, problem
def prepare():
    module, X = problem({name!r}, {n})
    network = from_torch(module, X[:2])
    network.apply(None, X[:2])
    return network, X
def work(prepared):
    network, X = prepared
    return network.contraction(None, X, None, {outputs!r})
"""
    before, peak = peak_megabytes(code)
    return peak - before


def best_seconds(work: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """The best of several runs by the clock, and in seconds of processor time, which other work does not lengthen much."""
    clock, processor_time = [], []
    for _ in range(repeats):
        starts = time.perf_counter(), time.process_time()
        work()
        clock.append(time.perf_counter() - starts[0])
        processor_time.append(time.process_time() - starts[1])
    return min(clock), min(processor_time)


def row(name: str, n: int, outputs: str, repeats: int) -> dict[str, Any]:
    module, X = problem(name, n)
    network = from_torch(module, X[:2])
    network.contraction(None, X[:2], None, outputs)
    clock, processor_time = best_seconds(lambda: network.contraction(None, X, None, outputs), repeats)
    return {
        "what": f"{name}, n = {n}, {outputs}",
        "threads": torch.get_num_threads(),
        "seconds": round(clock, 3),
        "processor seconds": round(processor_time, 3),
        "extra MiB": round(extra_megabytes(name, n, outputs)),
    }


def row_against_rival(name: str, n: int) -> dict[str, Any]:
    module, X = problem(name, n)
    network, rival = from_torch(module, X[:2]), whole_jacobian(module, X)
    ours = network.contraction(None, X, None, "full")
    apart = float(np.abs(ours - rival()).max() / np.abs(ours).max())
    times = interleaved_seconds({"ours": lambda: network.contraction(None, X, None, "full"), "torch.func": rival}, 2)
    return {
        "what": f"{name}, n = {n}, full, against torch.func's whole Jacobian",
        "threads": torch.get_num_threads(),
        "seconds": round(times["ours"], 4),
        "torch.func seconds": round(times["torch.func"], 3),
        "ratio": round(times["torch.func"] / times["ours"], 1),
        "relative difference": float(f"{apart:.1e}"),
    }


def main(folder: Path | None) -> None:
    dense, residual = MODELS
    cores = torch.get_num_threads()
    rows: list[dict[str, Any]] = []
    for threads in sorted({1, cores}):
        torch.set_num_threads(threads)
        rows += [row(dense, 200, outputs, 12) for outputs in ("full", "trace")]
        if threads == 1:
            rows.append(row_against_rival(dense, 50))
    rows += [row(residual, 50, outputs, 1) for outputs in ("trace", "full")]
    note = (
        f"float32, torch {torch.__version__.split('+')[0]}. Seconds: best of several, by the clock and of the processor; against the rival, medians "
        "interleaved in one run. Extra MiB: peak above the resident memory before the first call, in a fresh process "
        f"with all threads. Load average at the end: {os.getloadavg()[0]:.1f}."
    )
    save("empirical_ntk_torch_cpu", processor(), rows, note, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
