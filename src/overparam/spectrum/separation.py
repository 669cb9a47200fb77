"""A lower bound on λ_min from the separation of the rows alone.

k(ρ) is a power series with coefficients ≥ 0, and Hadamard powers of a Gram matrix are
positive semi-definite, so dropping terms only lowers λ_min: with T the even terms from
ρ^{2·cut} on, λ_min(H) ≥ min‖x‖² · (T(1) − ‖B‖), B the off-diagonal part of T(ρ). B has no
negative entry, so ‖B‖ ≤ max_i (Bv)_i / v_i for every v > 0; a few power steps find a good v.

Only the pairs close to parallel are kept; the rest is bounded by a moment of its row. So one pass
over the cosines serves every cut and every power step.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import numpy as np
from scipy.sparse import coo_array

from overparam.core.bracketed import Assumption
from overparam.core.kernel import AbstractAngularKernel
from overparam.engines.matrix import AbstractGram

CUTS = (
    1, 2, 3, 4, 6, 8, 12, 16, 22, 30, 40, 50, 62, 78, 98, 124, 160, 210, 300, 450, 700, 1_100, 1_800, 3_000, 5_000, 8_000,
    13_000, 22_000, 36_000, 60_000, 100_000,
)  # fmt: skip
KEPT_CUTS = 3
NEGLIGIBLE = 1e-18
RAISED = 1e-14
"""Added to every |ρ|: more than its rounding, so that T is never too small."""


@final
@dataclass(frozen=True)
class EigenvalueBounds:
    """lower ≤ λ_min and λ_max ≤ upper, how each was found, and the two rows that hold the lower one down.

    `probability` is that with which the upper one holds, None where it does in any case. Of a kernel's matrix both rest on the
    rounding of its entries, whose constant is statistical: `assumptions` says so.
    """

    lower: float
    upper: float
    lower_method: str
    upper_method: str = "not asked for"
    closest: tuple[int, int] | None = None
    closest_cosine: float | None = None
    probability: float | None = None
    assumptions: tuple[Assumption, ...] = ()


def separation_bound(H: AbstractGram, power_steps: int = 6) -> EigenvalueBounds:
    """A certified λ_min(H) ≥ bound ≥ 0 from the cosines of the rows; 0 where two rows are parallel.

    The upper side is left infinite; `closest` are the two rows that are closest to parallel (or opposite).

    Ref: fine_grained, App. E

    Assumes: nothing of the rows. Near-parallel rows lower the bound; they are named in the result.
    """
    kernel = H.kernel
    if not isinstance(kernel, AbstractAngularKernel):
        if kernel is None:
            raise ValueError("the bound from separation needs the rows; this matrix was given as numbers")
        raise ValueError(
            f"the bound from separation needs a kernel of the angle with a known power series, and "
            f"{type(kernel).__name__} is none; use method='cholesky'"
        )
    scale = float(H.diagonal().min()) / kernel_at_one(kernel, H.get)  # the smallest ‖x‖²
    if H.n == 1:
        return EigenvalueBounds(float(H.diagonal()[0]), np.inf, _method(0), closest_cosine=0.0)
    bound, cut, closest, cosine = _from_pairs(H, kernel, power_steps)
    rounding = 4e-16 * H.n * kernel_at_one(kernel, H.get)
    lower = max(0.0, scale * (bound - rounding) - H.rounding)
    return EigenvalueBounds(lower, np.inf, _method(cut), closest=closest, closest_cosine=cosine)


def _method(cut: int) -> str:
    return f"separation of the rows, powers from {2 * cut}"


def kernel_at_one(kernel: AbstractAngularKernel, get: str) -> float:
    """k(1), the kernel of a unit row with itself."""
    return float(kernel.from_angle(np, np.zeros(1), np.full(1, np.pi), get)[0])


def even_at_one(kernel: AbstractAngularKernel, get: str) -> float:
    """The sum of all even coefficients, (k(1) + k(−1))/2."""
    opposite = float(kernel.from_angle(np, np.full(1, np.pi), np.zeros(1), get)[0])
    return 0.5 * (kernel_at_one(kernel, get) + opposite)


def series_tail(xp: ModuleType, kernel: AbstractAngularKernel, get: str, coefficients: np.ndarray, rho: Any) -> Any:
    """T(|ρ|) rounded up: the even part of k less the given first even terms."""
    raised = xp.minimum(xp.abs(rho) + RAISED, 1.0)
    even = 0.5 * (kernel.from_cosine(xp, raised, get) + kernel.from_cosine(xp, -raised, get))
    square = raised * raised
    head = xp.zeros_like(square)
    for c in coefficients[::-1]:
        head = head * square + c
    return xp.maximum(even - head, 0.0)


def _from_pairs(
    H: AbstractGram, kernel: AbstractAngularKernel, power_steps: int
) -> tuple[float, int, tuple[int, int] | None, float]:
    crowded = _crowding(H)
    threshold = float(np.clip(crowded, 0.5, 0.995))
    # the highest moment that still bounds the tail from the cut such rows want: T(ρ)/ρ^{2m} grows only for m ≤ cut
    moment = next((m for edge, m in ((0.35, 1), (0.65, 2), (0.8, 4), (0.9, 8)) if crowded < edge), 16)
    pairs = H.close_pairs(threshold, moment, most=500 * H.n + 10**6)
    if pairs is None:  # most rows have hundreds of near-parallel partners: no cut would give a positive bound
        return 0.0, 0, None, 1.0
    rows, columns, cosines, moments = pairs
    order = np.argsort(-np.abs(cosines), kind="stable")  # closest first: high powers concern ever fewer of them
    rows, columns, cosines = rows[order], columns[order], cosines[order]
    closest, cosine = None, 0.0
    if len(cosines):
        closest, cosine = (int(columns[0]), int(rows[0])), float(cosines[0])
        if abs(cosine) + RAISED >= 1:  # parallel to rounding: no power tells them apart
            return 0.0, 0, closest, cosine
    coefficients = kernel.even_series(CUTS[-1], H.get)
    whole = even_at_one(kernel, H.get)
    # the last one is the threshold itself: T there bounds T of every pair left out
    tail = _Tail(kernel, H.get, coefficients, np.append(cosines, threshold))
    seen: list[tuple[float, int, np.ndarray, np.ndarray, float]] = []
    best = -np.inf
    for cut in (c for c in CUTS if c >= moment):
        at_one = whole - float(coefficients[:cut].sum()) - 1e-14
        values, edge = tail.from_cut(cut)
        # T(ρ)/ρ^{2·moment} grows with ρ, so each pair left out is at most this share of its moment
        rest = edge / threshold ** (2 * moment) * moments + H.n * NEGLIGIBLE
        count = len(values)
        sums = np.bincount(rows[:count], values, H.n) + np.bincount(columns[:count], values, H.n) + rest
        by_sums = at_one - float(sums.max())
        seen.append((by_sums, cut, values, rest, at_one))
        if by_sums > best:
            best = by_sums
        elif best > 0 and by_sums < 0.8 * best:
            break
        seen = seen[-KEPT_CUTS:] if best == by_sums else seen
    # row sums choose the cut; power steps, which favour slightly lower ones, then sharpen the best few
    found = (-np.inf, CUTS[0])
    for _, cut, values, rest, at_one in sorted(seen, key=lambda item: -item[0])[:KEPT_CUTS]:
        count = len(values)
        bound = at_one - _radius(H.n, rows[:count], columns[:count], values, rest, power_steps)
        found = max(found, (bound, cut))
    return found[0], found[1], closest, cosine


class _Tail:
    """T(|ρ|) for growing cuts, of cosines that fall: each call takes the further terms off, in pieces that fit the cache.

    Pairs whose power has become negligible drop out, from the end: T(ρ) ≤ T(1) ρ^{2·cut}.
    """

    def __init__(self, kernel: AbstractAngularKernel, get: str, coefficients: np.ndarray, cosines: np.ndarray) -> None:
        self._coefficients = coefficients
        self._values = series_tail(np, kernel, get, coefficients[:0], cosines)
        self._squares = np.minimum(np.abs(cosines) + RAISED, 1.0) ** 2
        self._power = np.ones_like(self._squares)
        self._cut = 0
        self._edge_counts = True

    def from_cut(self, cut: int, piece: int = 2**14) -> tuple[np.ndarray, float]:
        """T of the pairs that still count, and of the last cosine."""
        for start in range(0, len(self._values), piece):
            part = slice(start, start + piece)
            values, squares, power = self._values[part], self._squares[part], self._power[part]
            for c in self._coefficients[self._cut : cut]:
                values -= c * power
                power *= squares
        self._cut = cut
        count = int(np.count_nonzero(self._power > NEGLIGIBLE))
        found = np.maximum(self._values[:count], 0.0) + 1e-16 * np.sqrt(cut)
        if self._edge_counts and count == len(self._values):
            return found[:-1], float(found[-1])
        self._edge_counts = False  # the last cosine has dropped out, and with it its place at the end
        self._values, self._squares, self._power = (
            a[:count].copy() for a in (self._values, self._squares, self._power)
        )
        return found, NEGLIGIBLE


def _radius(
    n: int, rows: np.ndarray, columns: np.ndarray, tail: np.ndarray, rest: np.ndarray, power_steps: int
) -> float:
    """max_i (Bv)_i / v_i for a v from power steps, B = the kept pairs plus at most `rest` in each row."""
    B = coo_array((tail, (rows, columns)), shape=(n, n)).tocsr()
    v = np.ones(n)
    best = np.inf
    for _ in range(power_steps + 1):
        product = B @ v + B.T @ v + rest * v.max()
        best = min(best, float((product / v).max()))
        if best == 0:  # every row is orthogonal to the others
            return 0.0
        v = product / product.max() + 1e-2  # the floor keeps the share of the pairs left out small
    return best * (1 + 1e-12)


def _crowding(H: AbstractGram, kept: int = 50, sample: int = 48) -> float:
    """|ρ| above which a row has about `kept` others, from a few rows."""
    kept = kept if H.n <= 20_000 else 20
    picked = np.unique(np.linspace(0, H.n - 1, min(sample, H.n)).astype(int))
    cosines = np.abs(H.sampled_cosines(picked))
    share = min(1.0, kept / H.n)
    return float(np.quantile(cosines, 1 - share))
