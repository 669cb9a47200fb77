"""How a kernel spends itself: alignment with labels, and how many directions a ridge leaves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.linalg import eigvalsh

from overparam.core import checks
from overparam.data.draws import generator
from overparam.engines.matrix import as_gram
from overparam.spectrum.brackets import Quadrature
from overparam.spectrum.integrands import Inverse
from overparam.spectrum.sweep import quadrature

EIGEN_FITS = 2_000
"""Rows up to which all eigenvalues are computed instead of estimated."""


@final
@dataclass(frozen=True)
class Alignment:
    """Cosine of H and Y Yᵀ as matrices, in [0, 1]: `value` as they are, `centred` with the mean taken out of both."""

    value: float
    centred: float | None
    reference: str = "kernel–target alignment (Cristianini et al. 2001; centred: Cortes et al. 2012)"


def kernel_target_alignment(H: Any, y: Any) -> Alignment:
    """⟨H, Y Yᵀ⟩_F / (‖H‖_F ‖Y Yᵀ‖_F): 1 where the kernel is the labels' own, near 0 where it knows nothing of them.

    `centred` uses C H C and C Y with C = I − 11ᵀ/n, which the mean of the kernel does not dominate; None where
    the labels or the kernel are constant.

    Args:
        H: a Gram matrix, or a symmetric matrix of numbers.
        y: labels, (n,) or (n, k).

    >>> kernel_target_alignment(np.outer([1.0, -1.0], [1.0, -1.0]), [1.0, -1.0]).value
    1.0
    """
    H = as_gram(H)
    Y = checks.targets(y, H.n).reshape(H.n, -1)
    product, ones = H @ Y, H @ np.ones(H.n)
    squares = H.square_sum()
    value = _cosine(float(np.sum(Y * product)), squares, Y)
    centred_Y = Y - Y.mean(axis=0)
    # ‖C H C‖² = ‖H‖² − (2/n)‖H1‖² + (1ᵀH1)²/n²
    left = squares - 2 / H.n * float(ones @ ones) + float(ones.sum()) ** 2 / H.n**2
    worth = left > 1e-12 * squares and np.sum(centred_Y**2) > 1e-24 * max(float(np.sum(Y**2)), 1e-300)
    centred = _cosine(float(np.sum(centred_Y * (H @ centred_Y))), left, centred_Y) if worth else None
    return Alignment(value, centred)


def _cosine(form: float, squares: float, Y: np.ndarray) -> float:
    size = float(np.sqrt(squares) * np.linalg.norm(Y.T @ Y))
    return form / size if size > 0 else 0.0


@final
@dataclass(frozen=True)
class EffectiveDimension:
    """tr H(H + ridge)⁻¹. By eigenvalues `standard_error` is 0; by probes the sampling error is in it, and
    [lower, upper] brackets the mean over the probes drawn, not the trace."""

    value: float
    standard_error: float
    lower: float
    upper: float
    ridge: float
    method: str
    certified: bool
    reference: str = "degrees of freedom of kernel ridge regression (Hastie, Tibshirani; Caponnetto, De Vito 2007)"


def effective_dimension(
    H: Any, ridge: float, *, probes: int = 16, key: Any = 0, exact: bool | None = None
) -> EffectiveDimension:
    """tr H(H + ridge)⁻¹ = Σ_i λ_i/(λ_i + ridge): how many directions kernel ridge regression uses.

    Up to 2,000 rows from all eigenvalues; beyond, n − ridge · mean of zᵀ(H + ridge)⁻¹z over random
    signs z (Hutchinson).

    Args:
        H: a Gram matrix or a symmetric matrix of numbers; or a `Quadrature` whose columns are independent random
            signs, such as random labels, two or more.
        ridge: > 0.
        probes: random sign vectors, where they are used.
        key: of those, an int or a JAX key.
        exact: force eigenvalues (True) or probes (False).

    >>> effective_dimension(np.diag([1.0, 3.0]), ridge=1.0).value  # ½ + ¾
    1.25
    """
    if not (isinstance(ridge, int | float | np.number) and np.isfinite(ridge) and ridge > 0):
        raise ValueError(f"`ridge` is {ridge!r}; expected a positive number (with ridge 0 it is the rank)")
    if isinstance(H, Quadrature):
        return _by_probes(H, float(ridge))
    H = as_gram(H)
    if exact or (exact is None and H.n <= EIGEN_FITS):
        values = np.maximum(eigvalsh(H.dense(), check_finite=False), 0.0)
        total = float(np.sum(values / (values + ridge)))
        # each term moves by at most (rounding of an eigenvalue) / ridge
        slack = H.n * 2 * H.rounding / ridge + 1e-14 * H.n
        return EffectiveDimension(total, 0.0, total - slack, total + slack, float(ridge), "eigenvalues", True)
    signs = generator(key).choice([-1.0, 1.0], size=(H.n, probes))
    return _by_probes(quadrature(H, signs, ridge=float(ridge), tol=1e-4, bounds="none"), float(ridge))


def _by_probes(q: Quadrature, ridge: float) -> EffectiveDimension:
    if q.outputs < 2 or not np.allclose(q.masses, q.n):
        raise ValueError("an effective dimension from a quadrature needs 2 or more columns of random signs ±1; pass H")
    form = q.bracket(Inverse(ridge)).per_output
    assert form is not None
    dimensions = q.n - ridge * np.asarray(form.value)
    error = float(dimensions.std(ddof=1) / np.sqrt(q.outputs))
    lower = float(np.mean(q.n - ridge * np.asarray(form.upper)))
    upper = float(np.mean(q.n - ridge * np.asarray(form.lower)))
    method = f"{q.outputs} random sign vectors"
    return EffectiveDimension(
        float(dimensions.mean()), error, lower, upper, ridge, method, bool(np.all(form.certified))
    )
