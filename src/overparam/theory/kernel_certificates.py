"""Lower bounds on the error of kernel methods on the cube: by counting dimensions, and from a kernel's spectrum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import comb, exp, floor, inf, log
from typing import Any, Literal, final

import numpy as np
from scipy.optimize import minimize_scalar

from overparam.core import checks
from overparam.core.bracketed import Assumption, checked
from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.engines import AbstractGram, gram
from overparam.engines.cross import require_kernel
from overparam.kernels.spectra import DegreeSpectrum, spectrum_on_cube
from overparam.spectrum.bounds import smallest_bound
from overparam.spectrum.cholesky import factor
from overparam.theory.learning_curves import powers_by_degree, unit_rows


@final
@dataclass(frozen=True)
class DimensionCertificate:
    """What no kernel fixed before S is drawn can do with N samples of F_S + α χ_S in k outputs."""

    mean: float
    """E_S[least error in the span] ≥ this: kα²(1 − JN/binom(d, k))₊."""
    level: float
    """An error: `probability` says how likely one at least as large is."""
    probability: float
    """Over S, the error is at least `level` with at least this probability; 0 says nothing."""
    subsets: int
    """binom(d, k)."""
    largest_samples: int
    """The largest N at which the error is at least `level` with the probability asked for."""
    vacuous: bool
    """Both statements are empty: JN ≥ binom(d, k)."""
    assumptions: tuple[Assumption, ...]
    reference: str = "beyond_kernels, Thm 2"


@final
@dataclass(frozen=True)
class PrintedRange:
    """The numbers of samples that Theorem 2's proof covers with the constants it prints."""

    dimension: int
    k: int
    largest_samples: float
    """(d/(20 k² log² d))^{k/2}; below 1 the range is empty."""
    empty: bool
    smallest_alpha: float
    """40/(d/5)^{k/4}: below it the proof's last step fails."""
    smallest_dimension: int
    """The first d at which one sample is allowed."""
    holds_for: str
    reference: str = "beyond_kernels, Lemma E.3"


def dimension_certificate(
    d: int,
    k: int,
    samples: int,
    alpha: float,
    *,
    outputs: int | None = None,
    kernels: int = 1,
    share: float = 0.25,
    probability: float = 0.99,
) -> DimensionCertificate:
    """E_S[min over the span of E_x‖H_S − f‖²] ≥ kα²(1 − JN/binom(d, k)), S uniform among the subsets of size k.

    H_S = F_S + α χ_S in each of k outputs, χ_S the product of the coordinates in S, F_S without parts of degree k. Every
    answer of a kernel with N samples lies in the span of its N sections, a space V fixed before S is drawn. The sum over
    all S and outputs of squared distances to V is at least the sum of all but the N largest eigenvalues of
    A = Σ_S Σ_r h_Sr h_Srᵀ. Compressed to the span of the χ_S, A is kα² times the identity, and eigenvalues of a
    compression are at most those of A, in order: binom(d, k) of A's are at least kα². Over any M subsets alone the same
    gives (M − N)kα², so fewer than N/(1 − t) subsets have error below t·kα². Choosing among J kernels after seeing the
    labels, N becomes JN; the ridge is free, for the answer stays in the span. Kernels that couple k outputs have spans
    of kN dimensions: give `samples` as kN.

    Ref: beyond_kernels, Thm 2

    Differs from the paper: any kernel, any d and N, and no constants left open; the paper speaks of one solution, this of
    the best in its span.

    Args:
        d: dimension of the cube.
        k: size of S.
        samples: N.
        alpha: α.
        outputs: copies of the target; None for k, Theorem 2's.
        kernels: J.
        share: t, of kα², for the statement with probability.
        probability: for `largest_samples`.

    Of the 6 pairs of 4 coordinates, 3 samples leave half of the weight on average, and less than a quarter in fewer than
    4 of them.

    >>> found = dimension_certificate(4, 2, 3, 1.0)
    >>> found.mean, round(found.probability, 6)
    (1.0, 0.5)
    """
    d, k, kernels = (checks.whole_number(v, name, 1) for name, v in (("d", d), ("k", k), ("kernels", kernels)))
    samples = checks.whole_number(samples, "samples")
    outputs = checks.whole_number(k if outputs is None else outputs, "outputs", 1)
    if k > d:
        raise ValueError(f"`k` is {k} and `d` {d}; a subset has at most d coordinates")
    share, probability = checks.share(share, "share"), checks.share(probability, "probability")
    subsets, used = comb(d, k), samples * kernels
    whole = outputs * checks.positive(alpha, "alpha") ** 2
    left = 1 - _fraction(share)
    below = used / left  # fewer subsets than this; in fractions, for counts beyond float64
    bad = max(0, -floor(-below) - 1)  # so at most this many
    chance = max(0.0, 1 - bad / subsets)
    # bad ≤ (1 − p) subsets wherever JN/(1 − t) ≤ ⌊(1 − p) subsets⌋ + 1
    allowed = floor((1 - _fraction(probability)) * subsets) + 1
    return DimensionCertificate(
        mean=whole * max(0.0, 1 - used / subsets),
        level=share * whole,
        probability=chance,
        subsets=subsets,
        largest_samples=floor(allowed * left / kernels),
        vacuous=used >= subsets,
        assumptions=(
            Assumption("the kernel and X are fixed before S is drawn", "not checked", "so trained kernels are outside"),
            Assumption("new points are uniform on the cube", "not checked", "products of coordinates are orthonormal"),
            Assumption("F_S has no part of degree k", "not checked", "true of Theorem 2's F, which is linear"),
            checked("fewer samples than subsets", used < subsets, f"{used:,} of {subsets:,}"),
        ),
    )


def printed_range(d: int, k: int) -> PrintedRange:
    """N ≤ (d/(20 k² log² d))^{k/2}, log natural: the range of Lemma E.3, on which Theorem 2 rests, as printed.

    For k = 4 it has no sample in it below d = 35,041. `dimension_certificate` and `spectral_certificate` need no such
    constants.

    Ref: beyond_kernels, Lemma E.3

    Differs from the paper: its last step prints α ≤ 40/(d/5)^{k/4}; it needs ≥.

    >>> printed_range(64, 4).empty
    True
    """
    d, k = checks.whole_number(d, "d", 2), checks.whole_number(k, "k", 2)
    largest = _printed(d, k)
    first = _first_dimension(k)
    if largest < 1:
        words = f"no number of samples: the range is empty for k = {k} below d = {first:,}"
    else:
        words = f"N ≤ {largest:,.6g}"
    alpha = 40 * exp(-k / 4 * log(d / 5))
    return PrintedRange(d, k, largest, largest < 1, alpha, first, words)


def _printed(d: Any, k: int) -> float:
    power = k / 2 * log(d / (20 * k**2 * log(d) ** 2))
    return exp(power) if power < 709 else inf


def _first_dimension(k: int) -> int:
    """d/log² d rises from d = e² on, and is below its value there up to the answer."""
    low, high = 8, 16
    while _printed(high, k) < 1:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _printed(middle, k) >= 1 else (middle, high)
    return high


def _fraction(number: float) -> Fraction:
    """The decimal fraction that was written: .99 is 99/100."""
    return Fraction(str(float(number)))


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
            "`op.kernels.FullyConnected()`, or its `spectrum`. `subset_certificate` takes any kernel"
        )
    if ridge is not None:
        checks.positive(ridge, "ridge", zero=True, fix="or None for every ridge")
    X = kernel.inputs(X, "X")
    y = checks.targets(y, len(X))
    if spectrum is None:
        spectrum = spectrum_on_cube(kernel, X.shape[1], get=get, radius=float(np.linalg.norm(X[0])) or 1.0)
    elif spectrum.domain != "cube":
        raise ValueError(f"`spectrum` is of the {spectrum.domain}; expected one from `spectrum_on_cube`")
    unit_rows(X, spectrum)  # one line where rows are no corners
    H = gram(kernel, X, "dense", get=get, device="cpu") if H is None else H
    norm, invertible, detail = squared_norm(H, y, ridge)
    value, multiplier, variance = lower_bound(spectrum, power, norm)
    assumptions = [
        Assumption("rows are corners of a cube around 0", "met", f"{len(X):,} rows"),
        Assumption("new points are uniform on those corners", "not checked", "the error is over all of them"),
        checked("the kernel is a function of inner products and norms", of_products or None),
        checked(
            "no eigenvalue of the kernel is negative", spectrum.positive, f"least {spectrum.eigenvalues.min():.3g}"
        ),
    ]
    return certificate_from(
        (value, multiplier, variance), norm, ridge, (*assumptions, *invertibility(ridge, invertible, detail))
    )


def invertibility(ridge: float | None, invertible: bool | None, detail: str) -> tuple[Assumption, ...]:
    """What a certificate for every ridge assumes of K, from what `squared_norm` found; nothing where one ridge is meant."""
    return (checked("K is invertible", invertible, detail),) if ridge is None else ()


def certificate_from(
    found: tuple[float, float, float], norm: float, ridge: float | None, assumptions: tuple[Assumption, ...]
) -> SpectralCertificate:
    """The certificate of (bound, μ, the target's mean square), as `lower_bound` gives them, for functions of that norm."""
    value, multiplier, variance = found
    return SpectralCertificate(
        value=value,
        vacuous=value <= 0,
        squared_norm=norm,
        covers="every ridge" if ridge is None else "this ridge",
        ridge=ridge,
        multiplier=multiplier,
        variance=variance,
        assumptions=assumptions,
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
    value, multiplier = best_multiplier(powers, values, squared_norm)
    return value, multiplier, float(powers.sum())


def best_multiplier(powers: np.ndarray, values: np.ndarray, squared_norm: float) -> tuple[float, float]:
    """max over μ ≥ 0 of μ (Σ_j v_j/(λ_j + μ) − B²), v the target's squares along axes of strength λ; and the best μ.

    >>> value, _ = best_multiplier(np.array([1.0]), np.array([0.25]), 1.0)
    >>> round(value, 9)  # (1 − √¼·1)²
    0.25
    """
    variance = float(powers.sum())
    if not (0 <= squared_norm < np.inf) or variance == 0:
        return 0.0, 0.0

    def bound(logarithm: float) -> float:
        mu = np.exp(logarithm)
        return float(np.sum(powers * (mu / (values + mu))) - mu * squared_norm)

    if squared_norm == 0:
        return variance, np.inf
    # the best μ is where Σ vλ/(λ + μ)² = B², so below √(Σ vλ)/B; the bound is concave in μ
    high = 0.5 * (np.log(np.sum(powers * np.maximum(values, 1e-300))) - np.log(squared_norm))
    found: Any = minimize_scalar(
        lambda t: -bound(t), bounds=(high - 60, high), method="bounded", options={"xatol": 1e-10}
    )
    best = max((float(found.x), high), key=bound)
    value = bound(best) - 1e-13 * variance
    return max(0.0, value), float(np.exp(best))


def squared_norm(H: AbstractGram, y: np.ndarray, ridge: float | None) -> tuple[float, bool | None, str]:
    """At least Σ_r ‖f_r‖² of the regression, of every ridge if None; whether K is known to be invertible, and why."""
    if ridge is not None:
        return _ridge_norm(H, y, float(ridge)), None, ""
    norm, detail = _interpolation_norm(H, y)
    return norm, True if np.isfinite(norm) else None, detail


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
        c = factor(H, 0.0, least=below.lower).solve(y)
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
