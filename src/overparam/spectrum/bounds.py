"""Certified bounds of the spectrum: 0 ≤ a ≤ λ_min and λ_max ≤ b."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from overparam.core import checks
from overparam.core.bracketed import rounding_within
from overparam.core.kernel import AbstractAngularKernel
from overparam.core.machine import available_memory
from overparam.data.draws import generator
from overparam.engines.matrix import AbstractGram, as_gram
from overparam.spectrum.rules import EPS
from overparam.spectrum.separation import EigenvalueBounds, separation_bound

Method = Literal["auto", "separation", "cholesky", "none"]

Upper = Literal["auto", "norms", "cholesky", "random"]

CHOLESKY_FITS = 6_000
"""Rows up to which two Cholesky factorisations take seconds on two cores."""
DEVICE_FITS = 20_000
"""The same on a device that holds the matrix."""
MISSED = 1e-12
"""Probability that a bound from random vectors does not hold."""
VECTORS, STEPS = 4, 32
"""Random vectors that share the products, and the most products."""
LOOSE = 1.05
"""A bound above this many times the largest Ritz value is looked for again."""


def eigenvalue_bounds(
    H: AbstractGram, method: Method = "auto", ritz: np.ndarray | None = None, *, upper: Upper = "auto", key: Any = 0
) -> EigenvalueBounds:
    """Bounds that hold for the exact kernel matrix, its rounding included.

    Args:
        H: a Gram matrix, or a symmetric matrix of numbers.
        method: for λ_min. "separation" needs only the angles between rows, and a kernel of the angle
            whose power series is known; "cholesky" factors H − a I, which is tight and takes n³/3
            operations twice; "auto" takes separation where it can and falls back to Cholesky where that
            gives 0 and n is moderate, and else to 0, which holds for every kernel; "none" gives 0.
        ritz: Ritz values of any Lanczos run on H, which sharpen the upper bound.
        upper: for λ_max. "norms" is the Frobenius norm less those Ritz values; "cholesky" factors b I − H, which needs the
            matrix in memory; "random" takes random vectors, and holds but for a probability of 1e-12; "auto" takes "norms"
            where that is tight, a factor where one takes seconds, and else random vectors. `probability` says which it was.
        key: of the random vectors, an int or a JAX key.

    >>> bounds = eigenvalue_bounds(np.diag([1.0, 2.0]))
    >>> bounds.lower <= 1.0, bounds.upper >= 2.0
    (True, True)
    """
    H = as_gram(H)
    checks.one_of(upper, "upper", get_args(Upper))
    below = smallest_bound(H, method)
    upper = "norms" if method == "none" and upper == "auto" else upper
    return with_largest(below, *largest_bound(H, ritz, upper, key=key))


def with_largest(below: EigenvalueBounds, upper: float, method: str, probability: float | None) -> EigenvalueBounds:
    """Both sides: the upper one as `largest_bound` gives it."""
    return replace(below, upper=max(upper, below.lower), upper_method=method, probability=probability)


def smallest_bound(H: AbstractGram, method: str) -> EigenvalueBounds:
    """The lower side alone; the upper one is left infinite."""
    checks.one_of(method, "method", ("auto", "separation", "cholesky", "none"))
    closest, cosine = None, None
    lower, lower_method = 0.0, "not asked for"
    rows_known = isinstance(H.kernel, AbstractAngularKernel)
    if method == "separation" or (method == "auto" and rows_known):
        found = separation_bound(H)
        lower, lower_method = found.lower, found.lower_method
        closest, cosine = found.closest, found.closest_cosine
    if method == "cholesky" or (method == "auto" and lower == 0 and _cholesky_fits(H)):
        lower, lower_method = cholesky_bound(H), "Cholesky of H − a I"
    elif method == "auto" and not rows_known:
        why = "on a device" if H.xp is not np else f"of {H.n:,} rows"
        lower_method = f"0, which holds always: no power series of the kernel, and no Cholesky factor {why}"
    taken = rounding_within(H.rounding)
    return EigenvalueBounds(lower, float("inf"), lower_method, "not asked for", closest, cosine, None, taken)


def largest_bound(
    H: AbstractGram, ritz: np.ndarray | None = None, upper: Upper = "auto", *, steps: int = STEPS, key: Any = 0
) -> tuple[float, str, float | None]:
    """b ≥ λ_max, how it was found, and the probability with which it holds where that is not always.

    From ‖H‖_F² = Σ λ_i²: by interlacing the i-th Ritz value is at most the i-th eigenvalue, so
    λ_max² ≤ ‖H‖_F² − Σ_{i≥2} θ_i², which is tight once the large eigenvalues are found; no sign
    of the entries matters, unlike for row sums. Without Ritz values a short Lanczos run finds some.
    On a flat spectrum that bound is loose: a Cholesky factorisation of b I − H, where it takes seconds, proves one within a
    few percent of the largest Ritz value, and `random_bound` with at most `steps` products comes as near with a probability.
    """
    if ritz is None:
        ritz = _ritz_values(H)
    ritz = np.sort(np.maximum(ritz, 0.0))[::-1]
    squares = H.square_sum()
    found = float(np.sum(ritz[1:] ** 2))
    left = max(squares - found, float(ritz[0] ** 2)) + 64 * EPS * squares
    bound, how = float(np.sqrt(left)) + H.rounding, f"Frobenius norm less {len(ritz) - 1} Ritz values"
    if upper == "norms" or (upper == "auto" and not bound > LOOSE * ritz[0] > 0):
        return bound, how, None
    if upper == "cholesky" or (upper == "auto" and _cholesky_fits(H)):
        for share in (1.01, 1.03, 1.06, 1.1, 1.2, 1.3):
            if share * ritz[0] < bound and (proved := _cholesky_upper(H, share * float(ritz[0]))) is not None:
                return min(bound, proved), "Cholesky of b I − H", None
        return bound, how, None
    likely = random_bound(H, steps, key)
    if likely < bound:
        return likely, f"Lanczos from {VECTORS} random vectors", 1 - MISSED
    return bound, how, None


def random_bound(H: AbstractGram, steps: int = STEPS, key: Any = 0) -> float:
    """b that is ≥ λ_max but with the probability `MISSED`, from Lanczos on `VECTORS` random directions.

    Let v be a random direction, u the top eigenvector, and p_0, p_1, … the polynomials that are orthonormal in Σ_i (u_iᵀv)² δ(λ_i),
    of which Lanczos gives the coefficients. Then Σ_{j ≤ k} p_j(λ_max)² ≤ 1/(uᵀv)², since no polynomial with Σ c_j² = 1 has more
    of its mass at λ_max than it has in all. The sum rises above the Ritz values, and (uᵀv)² < δ has the probability of a beta
    distribution; so where it reaches 1/δ is a bound, and the largest of those of several independent directions fails only
    where all of them have less than δ.
    """
    from scipy.stats import beta

    from overparam.spectrum.lanczos import Lanczos

    if H.n == 1:
        return float(H.diagonal()[0]) + H.rounding
    sweep = Lanczos(H, generator(key, 29).standard_normal((H.n, VECTORS)))
    least = float(beta.ppf(MISSED ** (1 / VECTORS), 0.5, 0.5 * (H.n - 1)))
    bound = np.inf
    while sweep.products < min(steps, H.n) and not sweep.complete.all():
        sweep.step()
        if sweep.products % 4 == 0 or sweep.complete.all() or sweep.products == min(steps, H.n):
            runs = zip(sweep.alphas, sweep.betas, sweep.lengths, strict=True)
            found = [_christoffel(alphas[:q], betas[:q], 1 / least) for alphas, betas, q in runs]
            bound = min(bound, max(b for b, _ in found))
            if bound <= LOOSE * max(top for _, top in found):
                break
    stray = (
        4 * H.product_epsilon * bound * (16 + np.sqrt(H.n))
        + H.product_rounding
        + float(sweep.betas[:, -1][sweep.complete].max(initial=0.0))
    )
    return bound + stray + H.rounding


def _christoffel(alphas: np.ndarray, betas: np.ndarray, reach: float) -> tuple[float, float]:
    """Where Σ_j p_j(x)² passes `reach` above the largest Ritz value, from above; and that value."""
    from overparam.spectrum.rules import gauss

    top = float(gauss(alphas, betas, 1.0).nodes[-1])
    scale = max(abs(top), float(np.abs(betas).max(initial=0.0)), 1e-300)

    def passes(x: float) -> bool:
        # p_(j+1)/p_j = pivot/β: of a matrix below x all pivots are positive, and no digits are lost
        total, log_square, pivot = 1.0, 0.0, x - alphas[0]
        for j, b in enumerate(betas):
            if not pivot > 0:
                return False
            log_square += 2 * (np.log(pivot) - np.log(max(b, 1e-300)))
            if log_square > 600 or (total := total + float(np.exp(log_square))) > reach:
                return True
            if j + 1 < len(alphas):
                pivot = x - alphas[j + 1] - b * b / pivot
        return False

    above = 1e-12
    while not passes(top + above * scale):
        above *= 2.0
        if above > 1e30:
            return np.inf, top
    low, high = above / 2, above
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if passes(top + middle * scale) else (middle, high)
    return top + high * scale * (1 + 1e-9), top


def _cholesky_fits(H: AbstractGram) -> bool:
    if H.xp is np:
        return H.n <= CHOLESKY_FITS and 20 * H.n**2 < available_memory()
    return H.n <= DEVICE_FITS and getattr(H, "values", None) is not None


def _cholesky_upper(H: AbstractGram, b: float) -> float | None:
    """b with its rounding where b I − H has a Cholesky factor.

    One that runs to its end proves b I − H ⪰ −c, c = (n + 1) ε tr(b I − H)/(1 − (n + 1) ε), in whatever order blocks are taken
    (Rump 2006); b is raised by it, and by the rounding of H.
    """
    from overparam.spectrum.cholesky import definite

    slack = 2 * (H.n + 2) * EPS * (H.n * b + float(H.diagonal().sum()))
    return b + slack + H.rounding if definite(H, b, sign=-1.0) else None


def _ritz_values(H: AbstractGram, steps: int = 24) -> np.ndarray:
    from overparam.spectrum.lanczos import Lanczos
    from overparam.spectrum.rules import gauss

    start = 1.0 + 0.1 * np.random.default_rng(0).standard_normal((H.n, 1))
    sweep = Lanczos(H, start)
    while sweep.products < min(steps, H.n) and not sweep.complete.all():
        sweep.step()
    q = sweep.lengths[0]
    return gauss(sweep.alphas[0, :q], sweep.betas[0, :q], 1.0).nodes


def cholesky_bound(H: AbstractGram, tightness: float = 0.98) -> float:
    """a ≤ λ_min: an estimate from inverse iteration, certified by a Cholesky factorisation of H − a I."""
    from overparam.spectrum.cholesky import certified_smallest, plain_factor, smallest_estimate

    made = plain_factor(H, 0.0)
    if made is None:
        return 0.0
    estimate = smallest_estimate(made)
    del made
    return certified_smallest(H, 0.0, estimate, tightness)
