"""A lower bound on the error of kernel regression on the cube, from the kernel's spectrum and the norm of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from scipy.optimize import minimize_scalar

from overparam.core import checks
from overparam.core.assumptions import Assumption, checked
from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.engines import AbstractGram, gram
from overparam.engines.cross import require_kernel
from overparam.kernels.spectra import DegreeSpectrum, spectrum_on_cube
from overparam.spectrum.bounds import smallest_bound
from overparam.spectrum.solve import factor
from overparam.theory.exact_error import unit_rows
from overparam.theory.learning_curves import powers_by_degree

REFERENCE = "beyond_kernels, Lemma E.2"


@final
@dataclass(frozen=True)
class SpectralCertificate:
    """E‖f − target‖² over the cube is at least `value`; rounding is counted, so the bound is one despite it."""

    value: float
    vacuous: bool
    """The bound is 0: it says nothing."""
    squared_norm: float
    """An upper bound on Σ_r ‖f_r‖² in the kernel's space; infinite where K is not known to be invertible."""
    covers: Literal["this ridge", "every ridge"]
    ridge: float | None
    multiplier: float
    """μ, at which the bound was taken."""
    variance: float
    """The target's mean square that was named: the bound where the norm is 0."""
    assumptions: tuple[Assumption, ...]
    reference: str = REFERENCE


def spectral_certificate(
    kernel: AbstractKernel,
    X: Any,
    y: Any,
    power: Mapping[int, float] | Any,
    *,
    ridge: float | None = None,
    get: str = "ntk",
    spectrum: DegreeSpectrum | None = None,
    H: AbstractGram | None = None,
) -> SpectralCertificate:
    """error ≥ max over μ ≥ 0 of μ (Σ_s v_s/(λ_s + μ) − B²), B² ≥ Σ_r ‖f_r‖², for x uniform on the cube.

    On the cube f_r = Σ_S √λ_S u_rS χ_S, χ_S the product of the coordinates in S, with Σ_S u_rS² = ‖f_r‖² (Prop. E.1).
    The target has mean square v_s in degree s, so the error is at least the least of Σ_s (√v_s − √λ_s b_s)² over
    Σ b_s² ≤ B²; its dual is the bound, valid at any μ. With one degree k it is (√v_k − √λ_k B)₊².

    With `ridge` None, B² = Σ_r y_rᵀK⁻¹y_r, which no ridge solution exceeds: the bound then covers every ridge ≥ 0. With
    a ridge, B² = Σ_r c_rᵀKc_r of its own coefficients c = (K + ridge)⁻¹y: smaller, and K need not be invertible.

    Ref: beyond_kernels, Lemma E.2, Thm 2

    Assumes: rows are corners of a cube around 0; a kernel of inner products; x uniform on those corners.

    Differs from the paper: all outputs and degrees at once, with the norm at hand instead of Lemma E.3's bound on it. The
    paper's λ_S is √λ_s here.

    Args:
        kernel: of inner products and norms; another one that is so in truth, with its `spectrum`.
        X: n training rows.
        y: the labels that were fitted, (n,) or (n, k), noise and all.
        power: degree → the target's mean square in that degree, summed over outputs, or less: degrees may be left out.
        ridge: the ridge of the regression, or None for all.
        get: "ntk" or "nngp".
        spectrum: of the kernel on this cube, where it is known already.
        H: the Gram matrix of X, where it is known already.

    One sample of y = 2 x_1 x_2 (degree 2) and the kernel (x·z)² on {±1/√2}², eigenvalues ½ in degrees 0 and 2, 1 on the
    diagonal: B² = 1, so the error is at least (1 − √½)².

    >>> from overparam.kernels import Polynomial
    >>> found = spectral_certificate(Polynomial(2), np.array([[1.0, 1.0]]) / np.sqrt(2), [1.0], {2: 1.0})
    >>> round(found.value, 6), round((1 - 0.5**0.5) ** 2, 6)
    (0.085786, 0.085786)
    """
    require_kernel(kernel)
    of_products = isinstance(kernel, AbstractInnerProductKernel)
    if not of_products and spectrum is None:
        raise ValueError(
            f"`kernel` is a {type(kernel).__name__}; expected one of inner products and norms, such as "
            "`op.kernels.FullyConnected()`, or its `spectrum`. `dimension_certificate` holds for any kernel"
        )
    if ridge is not None and not (isinstance(ridge, int | float | np.number) and 0 <= ridge < np.inf):
        raise ValueError(f"`ridge` is {ridge!r}; expected a finite number ≥ 0, or None for every ridge")
    X = kernel.inputs(X, "X")
    y = checks.targets(y, len(X))
    if spectrum is None:
        spectrum = spectrum_on_cube(kernel, X.shape[1], get=get, radius=float(np.linalg.norm(X[0])) or 1.0)
    elif spectrum.domain != "cube":
        raise ValueError(f"`spectrum` is of the {spectrum.domain}; expected one from `spectrum_on_cube`")
    unit_rows(X, spectrum)  # one line where rows are no corners
    H = gram(kernel, X, "dense", get=get, device="cpu") if H is None else H
    invertible: bool | None = None
    if ridge is None:
        norm, detail = _interpolation_norm(H, y)
        invertible = True if np.isfinite(norm) else None
    else:
        norm, detail = _ridge_norm(H, y, float(ridge)), ""
    value, multiplier, variance = lower_bound(spectrum, power, norm)
    assumptions = [
        Assumption("rows are corners of a cube around 0", "met", f"{len(X):,} rows"),
        Assumption("new points are uniform on those corners", "not checked", "the error is over all of them"),
        checked("the kernel is a function of inner products and norms", of_products or None),
        checked(
            "no eigenvalue of the kernel is negative", spectrum.positive, f"least {spectrum.eigenvalues.min():.3g}"
        ),
    ]
    if ridge is None:
        assumptions.append(checked("K is invertible", invertible, detail))
    return SpectralCertificate(
        value=value,
        vacuous=value <= 0,
        squared_norm=norm,
        covers="every ridge" if ridge is None else "this ridge",
        ridge=ridge,
        multiplier=multiplier,
        variance=variance,
        assumptions=tuple(assumptions),
    )


def lower_bound(
    spectrum: DegreeSpectrum, power: Mapping[int, float] | Any, squared_norm: float
) -> tuple[float, float, float]:
    """The bound for functions of at most this squared norm in the kernel's space; also μ and the target's mean square.

    It holds on the cube and on the sphere, for any function of that norm, fitted in whatever way.

    >>> from overparam.kernels import Polynomial, spectrum_on_cube
    >>> round(lower_bound(spectrum_on_cube(Polynomial(1), 4), {1: 1.0}, 1.0)[0], 9)  # (1 − √¼·1)²
    0.25
    """
    powers = powers_by_degree(power, spectrum)
    # an eigenvalue may be larger by its error, which lowers the bound
    values = np.maximum(spectrum.eigenvalues, 0.0) + spectrum.errors
    used = powers > 0
    powers, values = powers[used], values[used]
    variance = float(powers.sum())
    if not (0 <= squared_norm < np.inf) or variance == 0:
        return 0.0, 0.0, variance

    def bound(logarithm: float) -> float:
        mu = np.exp(logarithm)
        return float(np.sum(powers * (mu / (values + mu))) - mu * squared_norm)

    if squared_norm == 0:
        return variance, np.inf, variance
    # the best μ is where Σ vλ/(λ + μ)² = B², so below √(Σ vλ)/B; the bound is concave in μ
    high = 0.5 * (np.log(np.sum(powers * np.maximum(values, 1e-300))) - np.log(squared_norm))
    found: Any = minimize_scalar(
        lambda t: -bound(t), bounds=(high - 60, high), method="bounded", options={"xatol": 1e-10}
    )
    best = max((float(found.x), high), key=bound)
    value = bound(best) - 1e-13 * variance
    return max(0.0, value), float(np.exp(best)), variance


def _ridge_norm(H: AbstractGram, y: np.ndarray, ridge: float) -> float:
    """At least Σ_r c_rᵀKc_r of the computed coefficients, K the exact matrix."""
    c = factor(H, ridge).solve(y)
    return float(np.sum(c * (H @ c))) + _slack(H) * float(np.sum(c**2))


def _interpolation_norm(H: AbstractGram, y: np.ndarray) -> tuple[float, str]:
    """At least Σ_r y_rᵀK⁻¹y_r, and why; infinite where no a with 0 < a ≤ λ_min is known.

    For any c and ρ = y − Kc: yᵀK⁻¹y = 2cᵀy − cᵀKc + ρᵀK⁻¹ρ, and the last term is at most ‖ρ‖²/a.
    """
    below = smallest_bound(H, "auto")
    if not below.lower > 0:
        return np.inf, f"λ_min is not known to be above 0 ({below.lower_method})"
    try:
        c = factor(H, 0.0).solve(y)
    except ValueError:
        return np.inf, "no Cholesky factor to rounding"
    product, slack = H @ c, _slack(H)
    squares = float(np.sum(c**2))
    left = float(np.linalg.norm(y - product)) + slack * np.sqrt(squares)
    upper = 2 * float(np.sum(c * y)) - float(np.sum(c * product)) + slack * squares + left**2 / below.lower
    return upper * (1 + 1e-13), f"λ_min ≥ {below.lower:.3g}, by {below.lower_method}"


def _slack(H: AbstractGram) -> float:
    """Bounds |cᵀKc − computed|/‖c‖² and ‖Kc − computed‖/‖c‖: rounding of the entries, and of products with them."""
    return H.rounding + 4 * (H.n + 2) * float(np.finfo(float).eps) * float(H.diagonal().sum())
