"""A lower bound on the error of any kernel method on parities, by counting dimensions; and the paper's printed range."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb, exp, floor, inf, log
from typing import Any, final

import numpy as np

from overparam.core.assumptions import Assumption, checked


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
    counts = {"d": d, "k": k, "samples": samples, "kernels": kernels, "outputs": k if outputs is None else outputs}
    for name, value in counts.items():
        least = 0 if name == "samples" else 1
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ValueError(f"`{name}` is {value!r}; expected a whole number ≥ {least}")
    if k > d:
        raise ValueError(f"`k` is {k} and `d` {d}; a subset has at most d coordinates")
    _require_between("alpha", alpha, 0, inf)
    _require_between("share", share, 0, 1)
    _require_between("probability", probability, 0, 1)
    subsets, used = comb(int(d), int(k)), int(samples) * int(kernels)
    whole = counts["outputs"] * float(alpha) ** 2
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
        largest_samples=floor(allowed * left / int(kernels)),
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
    for name, value, least in (("d", d, 2), ("k", k, 2)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ValueError(f"`{name}` is {value!r}; expected a whole number ≥ {least}")
    largest = _printed(d, k)
    first = _first_dimension(k)
    if largest < 1:
        words = f"no number of samples: the range is empty for k = {k} below d = {first:,}"
    else:
        words = f"N ≤ {largest:,.6g}"
    alpha = 40 * exp(-k / 4 * log(d / 5))
    return PrintedRange(int(d), int(k), largest, largest < 1, alpha, first, words)


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


def _require_between(name: str, value: Any, low: float, high: float) -> None:
    if not (isinstance(value, int | float | np.number) and low < value < high):
        raise ValueError(
            f"`{name}` is {value!r}; expected a number above {low:g}" + ("" if high == inf else " and below 1")
        )
