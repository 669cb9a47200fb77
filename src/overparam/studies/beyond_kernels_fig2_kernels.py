"""The kernel side of `beyond-kernels-fig2`: finite widths and the house's own kernels, by exact tuned ridge regression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from overparam.core.kernel import AbstractKernel
from overparam.core.network import AbstractNetwork, Params
from overparam.kernels import Arcsine, Empirical, FullyConnected, Gaussian, Laplace, Polynomial, Recursive
from overparam.networks import Plain
from overparam.studies.beyond_kernels_fig2_settings import (
    NETWORKS,
    Settings,
    judges,
    mean_square,
    network,
    rows,
)
from overparam.studies.study import Workplace
from overparam.theory import coupled_regression, linear_regression, tuned_regression

SMALL = 2_500
"""N up to which every seed has its kernels."""


def finite_kernels(m: int, key: int, X: np.ndarray) -> Iterator[tuple[str, AbstractKernel, Any]]:
    """(name, kernel, map of inputs) of every network at its first weights: (last) and (NTK).

    (last) trains A alone on fixed features: σ(W(x, 1)) of `2layer`, the second layer's of `3layer`, and of `3resnet` the
    sum of both layers', with the A inside V(out₁, 1) kept as it was. (NTK) is the mean of the tangent kernels of the 8
    outputs, in W and V.
    """
    for name in NETWORKS:
        net = network(name, m)
        with jax.enable_x64(True):
            params = jax.tree.map(np.asarray, net.init(key, X.shape[1]))
        yield f"{name} (last)", Polynomial(1), lambda Z, net=net, params=params: features(net, params, Z)
        yield f"{name} (NTK)", Empirical(net, params), np.asarray


def features(net: AbstractNetwork, params: Params, X: np.ndarray) -> np.ndarray:
    """What A multiplies: the sum of both layers' activations with a skip, else the last layer's."""
    with jax.enable_x64(True):
        layers = net.trace(params, X).activations
        return np.asarray(layers[-1] if isinstance(net, Plain) else sum(layers))


def house_kernels() -> dict[str, list[AbstractKernel]]:
    """Kernels of infinite width, on x, and classical ones, on x/√d; of several, leave-one-out chooses."""
    return {
        "Gaussian": [Gaussian(1.4), Gaussian(2.8)],
        "Laplace": [Laplace(2.8)],
        "arcsine": [Arcsine()],
        "recursive": [Recursive(1)],
        "polynomial": [Polynomial(2, constant=1.0)],
        "NTK of 2 layers": [Plain(1).kernel()],
        "NTK of 3 layers": [FullyConnected(depth=2), FullyConnected(depth=3)],
    }


def kernel_errors(
    settings: Settings, workplace: Workplace, N: int, m: int | None, beta: float = 1.0
) -> dict[str, np.ndarray]:
    """Test errors by kernel, (seeds,); of the finite networks of width m, or of the house where m is None."""
    seeds = range(1, settings.kernel_seeds[N > SMALL] + 1)
    told = f"kernels, {'the house' if m is None else f'm = {m}'}, N = {N}, β = {beta:g}"

    def make(_: Path | None) -> Mapping[str, Any]:
        found: dict[str, list[float]] = {}
        target, new = settings.target(beta), judges(settings, workplace.seed)[settings.validation :]
        for seed in seeds:
            data = rows(target, N, N, [workplace.seed, seed + 1])
            for name, kernel, mapped in _kernels(m, 1000 * workplace.seed + seed, data.X):
                workplace.progress(seed - 1, len(seeds), f"{told}: {name}")
                error, left_out = _error(kernel, mapped, data, new, target(new), workplace.device)
                best = found.setdefault(name, [])
                if len(best) < 2 * seed:
                    best += [error, left_out]
                elif left_out < best[-1]:
                    best[-2:] = [error, left_out]
        return {name: np.array(values[::2]) for name, values in found.items()}

    return workplace.part(told, make)


def _kernels(m: int | None, key: int, X: np.ndarray) -> Iterator[tuple[str, AbstractKernel, Any]]:
    if m is not None:
        yield from finite_kernels(m, key, X)
        return
    for name, several in house_kernels().items():
        for kernel in several:
            yield name, kernel, np.asarray if name.startswith("NTK") else _unit_rows


def _unit_rows(X: np.ndarray) -> np.ndarray:
    return X / np.sqrt(X.shape[1])


def _error(
    kernel: AbstractKernel, mapped: Any, data: Any, new: np.ndarray, truth: np.ndarray, device: str | None
) -> tuple[float, float]:
    """Mean of ‖H − f‖² on new rows, and left out, of the ridge that leave-one-out chose."""
    X, Z = mapped(data.X), mapped(new)
    if kernel == Polynomial(1) and X.shape[1] < data.n:
        found = linear_regression(X, data.y, Z)  # the same numbers for less
    else:
        found = tuned_regression(kernel, X, data.y, Z, device=device)
    return mean_square(found.outputs, truth), found.left_out


def coupling(settings: Settings, workplace: Workplace) -> dict[str, np.ndarray]:
    """(NTK) with the whole kernel of 8 outputs beside the shared one: errors, and how large the other blocks are."""
    m, N = settings.widths[0], settings.coupled_samples
    told = f"kernels of 8 outputs, m = {m}, N = {N}"

    def make(_: Path | None) -> Mapping[str, Any]:
        target, new = settings.target(), judges(settings, workplace.seed)[settings.validation :]
        data = rows(target, N, N, [workplace.seed, 2])
        made: dict[str, Any] = {}
        for name, kernel, _ in finite_kernels(m, 1000 * workplace.seed + 1, data.X):
            if isinstance(kernel, Empirical) and name.split()[0] in settings.coupled:
                workplace.progress(len(made), len(settings.coupled), f"{told}: {name}")
                whole = coupled_regression(kernel, data.X, data.y, new)
                shared = tuned_regression(kernel, data.X, data.y, new, device=workplace.device)
                errors = [mean_square(one.outputs, target(new)) for one in (whole, shared)]
                blocks = kernel.full(data.X[:50])
                off = blocks * (1 - np.eye(blocks.shape[2]))
                made[name] = np.array([*errors, np.sqrt((off**2).sum() / (blocks**2).sum())])
        return made

    return workplace.part(told, make)
