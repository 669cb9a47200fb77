"""Certified bounds of the spectrum: 0 ≤ a ≤ λ_min and λ_max ≤ b."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from overparam.core import checks
from overparam.core.kernel import AbstractAngularKernel
from overparam.core.machine import available_memory
from overparam.engines.matrix import AbstractGram, as_gram
from overparam.spectrum.rules import EPS
from overparam.spectrum.separation import EigenvalueBounds, separation_bound

Method = Literal["auto", "separation", "cholesky", "none"]

CHOLESKY_FITS = 6_000
"""Rows up to which two Cholesky factorisations take seconds on two cores."""


def eigenvalue_bounds(H: AbstractGram, method: Method = "auto", ritz: np.ndarray | None = None) -> EigenvalueBounds:
    """Bounds that hold for the exact kernel matrix, its rounding included.

    Args:
        H: a Gram matrix, or a symmetric matrix of numbers.
        method: for λ_min. "separation" needs only the angles between rows, and a kernel of the angle
            whose power series is known; "cholesky" factors H − a I, which is tight and takes n³/3
            operations twice; "auto" takes separation where it can and falls back to Cholesky where that
            gives 0 and n is moderate, and else to 0, which holds for every kernel; "none" gives 0.
        ritz: Ritz values of any Lanczos run on H, which sharpen the upper bound.

    >>> bounds = eigenvalue_bounds(np.diag([1.0, 2.0]))
    >>> bounds.lower <= 1.0, bounds.upper >= 2.0
    (True, True)
    """
    H = as_gram(H)
    below = smallest_bound(H, method)
    upper, upper_method = largest_bound(H, ritz, sharpen=method != "none")
    return replace(below, upper=max(upper, below.lower), upper_method=upper_method)


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
    return EigenvalueBounds(lower, float("inf"), lower_method, closest=closest, closest_cosine=cosine)


def largest_bound(H: AbstractGram, ritz: np.ndarray | None = None, *, sharpen: bool = True) -> tuple[float, str]:
    """b ≥ λ_max from ‖H‖_F² = Σ λ_i²: by interlacing the i-th Ritz value is at most the i-th eigenvalue.

    So λ_max² ≤ ‖H‖_F² − Σ_{i≥2} θ_i², which is tight once the large eigenvalues are found; no sign
    of the entries matters, unlike for row sums. Without Ritz values a short Lanczos run finds some.
    On a flat spectrum that bound is loose; with `sharpen` a Cholesky factorisation of b I − H, where
    it fits, proves one within a few percent of the largest Ritz value.
    """
    if ritz is None:
        ritz = _ritz_values(H)
    ritz = np.sort(np.maximum(ritz, 0.0))[::-1]
    squares = H.square_sum()
    found = float(np.sum(ritz[1:] ** 2))
    left = max(squares - found, float(ritz[0] ** 2)) + 64 * EPS * squares
    bound, how = float(np.sqrt(left)) + H.rounding, f"Frobenius norm less {len(ritz) - 1} Ritz values"
    if sharpen and bound > 1.05 * ritz[0] > 0 and _cholesky_fits(H):
        for share in (1.01, 1.03, 1.06, 1.1, 1.2, 1.3):
            if share * ritz[0] < bound and (proved := _cholesky_upper(H, share * float(ritz[0]))) is not None:
                return min(bound, proved), "Cholesky of b I − H"
    return bound, how


def _cholesky_fits(H: AbstractGram) -> bool:
    return H.xp is np and H.n <= CHOLESKY_FITS and 20 * H.n**2 < available_memory()


def _cholesky_upper(H: AbstractGram, b: float) -> float | None:
    """b with its rounding where b I − H has a Cholesky factor."""
    from overparam.spectrum.cholesky import factor_values

    slack = 2 * (H.n + 2) * EPS * (H.n * b + float(H.diagonal().sum()))
    return None if factor_values(H, b, sign=-1.0) is None else b + slack + H.rounding


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
