"""Certificate (i) of Theorem 2 for any kernel on the cube, from the couplings of the target's products of coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.bracketed import Assumption, checked
from overparam.core.progress import Progress
from overparam.core.words import count_of
from overparam.engines import AbstractGram, gram
from overparam.theory.cube_subsets import (
    SPREAD,
    KernelLike,
    Subset,
    SubsetSpectrum,
    as_kernel,
    checked_subset,
    named_subsets,
    subset_spectrum,
)
from overparam.theory.kernel_certificates import (
    SpectralCertificate,
    best_multiplier,
    certificate_from,
    invertibility,
    squared_norm,
)


def subset_certificate(
    kernel: KernelLike,
    X: Any,
    y: Any,
    parities: Sequence[Mapping[Subset, float]] | Mapping[Subset, float],
    *,
    ridge: float | None = None,
    get: str = "ntk",
    spectrum: SubsetSpectrum | None = None,
    H: AbstractGram | None = None,
    centres: int | None = None,
    key: Any = 0,
    progress: Progress | None = None,
) -> SpectralCertificate:
    """error ≥ max over μ ≥ 0 of μ (Σ_r c_rᵀ(M + μ)⁻¹c_r − B²), B² ≥ Σ_r ‖f_r‖²: certificate (i) for any kernel.

    The target has coefficient c_rS of χ_S in output r, and M_ST = E χ_S(x) K(x, y) χ_T(y) on its subsets. In the kernel's
    space the coefficients of f_r on them are (⟨f_r, E χ_S(x) K(x, ·)⟩)_S, which fill the ellipsoid of M of radius ‖f_r‖;
    the bound is the dual of the least distance to it, valid at any μ. With one subset it is (|c_S| − √λ_S B)₊². For
    several the λ_S alone do not do: where the χ_S are coupled, one function may have them all at the price of one.

    Ref: beyond_kernels, Lemma E.2, Thm 2

    Assumes: rows are corners of a cube around 0; x uniform on those corners; K positive semi-definite.

    Differs from the paper: any kernel, not correlation kernels alone; otherwise as `spectral_certificate`, which is for
    kernels of inner products in any dimension.

    Args:
        kernel: any kernel of the house, or a positive semi-definite function of two blocks of rows.
        X: n training rows.
        y: the labels that were fitted, (n,) or (n, k).
        parities: for each output its subsets with their coefficients, as `ParityTarget.parities` has them; some may be
            left out.
        ridge: the ridge of the regression, or None for all.
        get: "ntk" or "nngp".
        spectrum: of these subsets on this cube, where it is known already.
        H: the Gram matrix of X, where it is known already.
        centres, key, progress: see `subset_spectrum`. With drawn corners M is taken four standard errors larger, and the
            bound is probable, not certain.

    One sample of y = 2 x_1 x_2 and the kernel (x·z)² on {±1/√2}²: B² = 1, λ = ½, so the error is at least (1 − √½)².

    >>> found = subset_certificate(lambda X, Z: (X @ Z.T) ** 2, np.array([[1.0, 1.0]]) / 2**0.5, [1.0], {(0, 1): 1.0})
    >>> round(found.value, 6)
    0.085786
    """
    own = as_kernel(kernel)
    if ridge is not None:
        checks.positive(ridge, "ridge", zero=True, fix="or None for every ridge")
    X = checks.finite_matrix(X, "X")
    y = checks.targets(y, len(X))
    radius = _radius(X)
    subsets, C = _coefficients(parities, y, X.shape[1])
    if spectrum is None:
        spectrum = subset_spectrum(
            kernel, X.shape[1], subsets, centres=centres, get=get, radius=radius, key=key, progress=progress
        )
    elif spectrum.dimension != X.shape[1] or not np.isclose(spectrum.radius, radius, rtol=1e-9):
        raise ValueError(
            f"`spectrum` is of corners of norm {spectrum.radius:.6g} in {count_of(spectrum.dimension, 'dimension')}; `X` has norm "
            f"{radius:.6g} in {X.shape[1]}"
        )
    H = gram(own, X, "dense", get=get, device="cpu") if H is None else H
    norm, invertible, detail = squared_norm(H, y, ridge)
    M = spectrum.part(subsets)
    off = spectrum.matrix_error * (1.0 if spectrum.exact else SPREAD)
    axes, Q = np.linalg.eigh(M)
    off += 16 * len(M) * float(np.finfo(float).eps) * float(np.abs(M).max())  # of the eigenvalues
    variance = float(np.sum(C**2))
    value, multiplier = best_multiplier(np.sum((Q.T @ C) ** 2, axis=1), np.maximum(axes, 0.0) + off, norm)
    averaged = f"{spectrum.corners:,} of {count_of(2**spectrum.dimension, 'corner')}, {spectrum.cost.evaluations:,} evaluations"
    assumptions = [
        Assumption("rows are corners of a cube around 0", "met", f"{len(X):,} rows"),
        Assumption("new points are uniform on those corners", "not checked", "the error is over all of them"),
        Assumption("K is positive semi-definite", "not checked", "on the subsets of the target: "
                   + ("yes" if axes.min() >= -off else f"no, {axes.min():.3g}")),
        checked("λ_S are averages over all corners", True if spectrum.exact else None, averaged),
    ]  # fmt: skip
    return certificate_from(
        (value, multiplier, variance), norm, ridge, (*assumptions, *invertibility(ridge, invertible, detail))
    )


def _coefficients(parities: Any, y: np.ndarray, dimension: int) -> tuple[tuple[Subset, ...], np.ndarray]:
    """The subsets of the target, and their coefficients, (subsets, outputs)."""
    every = [parities] if isinstance(parities, Mapping) else list(parities)
    outputs = 1 if y.ndim == 1 else y.shape[1]
    if len(every) != outputs or not all(isinstance(one, Mapping) for one in every):
        raise ValueError(
            f"`parities` has {count_of(len(every), 'output')} and `y` {outputs}; expected a mapping from subsets each"
        )
    subsets = named_subsets([S for one in every for S in one], dimension)
    C = np.zeros((len(subsets), outputs))
    for r, one in enumerate(every):
        for S, c in one.items():
            C[subsets.index(checked_subset(S, dimension)), r] += checks.finite_number(c, "parities")
    return subsets, C


def _radius(X: np.ndarray) -> float:
    """The norm of rows that are corners of one cube around 0."""
    sizes = np.abs(X)
    largest = float(sizes.max())
    off = np.abs(sizes - largest).max(axis=1)
    if not largest > 0 or off.max() > 1e-9 * largest:
        raise ValueError(f"`X` has rows that are no corners of one cube around 0 (first: row {int(off.argmax())})")
    return largest * sizes.shape[1] ** 0.5
