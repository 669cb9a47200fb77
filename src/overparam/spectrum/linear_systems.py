"""`solve`: (H + ridge)⁻¹ y at any size, with what one product certifies of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from overparam.core import checks
from overparam.core.bracketed import Bracketed, checked, rounding_within
from overparam.core.progress import Progress, silent
from overparam.core.words import byte_size, duration
from overparam.engines.matrix import AbstractGram, as_gram
from overparam.engines.plan import EnginePlan
from overparam.spectrum.bounds import CHOLESKY_FITS, smallest_bound
from overparam.spectrum.cholesky import factor, negligible
from overparam.spectrum.conjugate_gradients import ConjugateGradients
from overparam.spectrum.preconditioner import column_count
from overparam.spectrum.rules import EPS
from overparam.spectrum.separation import EigenvalueBounds

Solver = Literal["auto", "Cholesky", "conjugate gradients"]
CERTIFICATE = "yᵀA⁻¹y = yᵀz + zᵀr + rᵀA⁻¹r for A = H + ridge and r = y − Az"


@final
@dataclass(frozen=True)
class SolvePlan:
    """How a system will be solved and what it costs; `print(plan)` shows it."""

    method: str
    reason: str
    n: int
    outputs: int
    columns: int
    """Of H in the preconditioner; 0 for a factor."""
    memory: int
    engine: EnginePlan | None

    @property
    def setup_seconds(self) -> float | None:
        """The factor, or the preconditioner; None where the matrix came without a plan."""
        if self.engine is None:
            return None
        rates, n, r = self.engine.measure(), self.n, self.columns
        if self.method == "Cholesky":
            return n**3 / 3 / rates.flops
        return (2.0 * n * r * self.engine.multiplied + 3.0 * n * r * r) / rates.flops + n * r / rates.entries

    @property
    def product_seconds(self) -> float | None:
        """One product with all outputs; the certificate takes one, each step of conjugate gradients another."""
        if self.engine is None:
            return None
        more = 4.0 * self.n**2 * (self.outputs - 1) / self.engine.measure().flops
        return self.engine.product_seconds + more

    def __str__(self) -> str:
        lines = [f"{self.method} for {self.n:,} rows, {self.outputs} at once: {self.reason}"]
        lines.append(f"  memory   {byte_size(self.memory)} beside the matrix")
        if self.setup_seconds is not None and self.product_seconds is not None:
            what = "factor " if self.method == "Cholesky" else f"{self.columns:,} columns"
            lines.append(f"  {what}  {duration(self.setup_seconds, rough=True)}")
            lines.append(f"  product  {duration(self.product_seconds, rough=True)} each")
        return "\n".join(lines)


@final
@dataclass(frozen=True, eq=False)
class Solution:
    """z near (H + ridge)⁻¹ y, and what is known of it.

    `bracket` is of yᵀ(H + ridge)⁻¹y, summed over outputs, `bracket.per_output` of each. `error` bounds
    ‖z − (H + ridge)⁻¹y‖/‖z‖, rounding included; infinite where no positive bound below the eigenvalues is known.
    """

    values: np.ndarray
    ridge: float
    bracket: Bracketed
    residuals: np.ndarray
    """‖y − (H + ridge)z‖/‖y‖ of every output, as computed."""
    error: float
    products: int
    converged: bool
    reason: str
    """Why the accuracy asked for was not reached; empty where it was."""
    plan: SolvePlan

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def method(self) -> str:
        return self.plan.method


def solve(
    H: Any,
    y: Any,
    ridge: float = 0.0,
    *,
    tol: float = 1e-10,
    gap: float | None = None,
    method: Solver = "auto",
    columns: int | None = None,
    bounds: EigenvalueBounds | str | None = "auto",
    max_products: int | None = None,
    key: Any = 0,
    place: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Solution:
    """z = (H + ridge)⁻¹ y, with a bracket of yᵀ(H + ridge)⁻¹y that costs one product whatever z is.

    Up to 6,000 rows by a Cholesky factor, beyond by conjugate gradients with a preconditioner from columns of H, which
    needs nothing but products and stores n × `columns` numbers. With A = H + ridge and r = y − Az

        yᵀz + zᵀr ≤ yᵀA⁻¹y ≤ yᵀz + zᵀr + ‖r‖²/(ridge + λ_min),

    both sides moved outwards by what rounding did to H, to the product and to the sums. Without a ridge the upper side needs
    a positive bound below λ_min; where there is none it is absent, and `bracket.certified` is False.

    Args:
        H: a Gram matrix, or a symmetric positive semi-definite matrix of numbers.
        y: one right-hand side (n,) or several (n, k), which share the products.
        ridge: ≥ 0.
        tol: ‖r‖/‖y‖ of every output at which conjugate gradients stop.
        gap: relative width of the bracket at which they stop already; None for `tol` alone.
        method: "Cholesky" or "conjugate gradients"; "auto" decides by size.
        columns: of H in the preconditioner; None takes 6√n, or what fits in memory. They are drawn with `key`.
        bounds: of the eigenvalues: an `EigenvalueBounds`, or how to find λ_min, as in `eigenvalue_bounds`; "auto" looks for it
            only without a ridge, None never.
        max_products: most products with H.
        key: an int or a JAX key.
        place: a folder from which conjugate gradients go on after a stop.
        progress: called with the products done.

    >>> solved = solve(np.diag([1.0, 3.0]), [2.0, 2.0], ridge=1.0)
    >>> solved.values, round(solved.bracket.value, 12), solved.bracket.certified  # 2·1 + 2·½
    (array([1. , 0.5]), 3.0, True)
    """
    H = as_gram(H)
    y = checks.targets(y, H.n)
    ridge, tol = checks.positive(ridge, "ridge", zero=True), checks.share(tol, "tol")
    gap = None if gap is None else checks.share(gap, "gap")
    most = H.n if max_products is None else checks.whole_number(max_products, "max_products", least=2)
    plan = solve_plan(H, y, method=method, columns=columns)
    Y = y.reshape(H.n, -1)
    size = float(np.abs(y).max())
    if size and not 1e-140 < size < 1e140:
        raise ValueError(f"`y` has entries up to {size:.1e}, whose squares pass float64; scale it to about 1 first")
    tell = progress or silent
    unit = (
        2.0 ** np.round(np.log2(size)) if size else 1.0
    )  # a power of two: no bit changes, and no square passes float64
    Y = Y / unit
    if plan.method == "Cholesky":
        known = bounds.lower if isinstance(bounds, EigenvalueBounds) else 0.0
        factored = factor(H, ridge, least=known)
        Z, least = factored.solve(Y), max(factored.smallest, ridge)
        with H.arithmetic():
            on, right = H.to_device(Z), H.to_device(Y)
            R = H.to_host(right - (H.product(on, tell) + ridge * on))
        return _solution(H, y, *_times(unit, Z, R), ridge, least, tol, gap, 1, plan, "")
    least = ridge + _smallest(H, ridge, bounds)
    gradients = ConjugateGradients(H, Y, ridge, plan.columns, key, place, tell)
    why = gradients.run(least, tol, gap, most)
    Z, R = _times(unit, H.to_host(gradients.Z), H.to_host(gradients.R))
    return _solution(H, y, Z, R, ridge, least, tol, gap, gradients.products, plan, why)


def solve_plan(H: Any, y: Any, *, method: Solver = "auto", columns: int | None = None) -> SolvePlan:
    """What `solve` will do and what it costs, before anything is computed.

    >>> solve_plan(np.eye(3), np.ones((3, 2))).method
    'Cholesky'
    """
    H = as_gram(H)
    checks.one_of(method, "method", ("auto", "Cholesky", "conjugate gradients"))
    outputs = checks.targets(y, H.n).size // H.n
    if columns is not None and not 1 <= checks.whole_number(columns, "columns") <= H.n:
        raise ValueError(f"`columns` is {columns}; expected 1 to {H.n}")
    reason = "asked for"
    if method == "auto":
        stored = H.xp is np or getattr(H, "values", None) is not None
        fits = H.n <= CHOLESKY_FITS and stored
        method = "Cholesky" if fits else "conjugate gradients"
        limit = f"a factor is cheap up to {CHOLESKY_FITS:,} rows of a stored matrix"
        reason = limit if fits else f"{limit}; beyond, products alone are needed"
    if method == "Cholesky":
        return SolvePlan(method, reason, H.n, outputs, 0, 8 * H.n**2, H.plan)
    taken = column_count(H) if columns is None else int(columns)
    return SolvePlan(method, reason, H.n, outputs, taken, 8 * (H.n * taken + 8 * H.n * outputs + 3 * taken**2), H.plan)


def certificate(
    H: AbstractGram, Y: np.ndarray, Z: np.ndarray, R: np.ndarray, ridge: float, least: float
) -> tuple[Bracketed, float]:
    """The bracket of YᵀA⁻¹Y, A = H + ridge, from any Z and R = Y − AZ as computed; and the bound on ‖Z − A⁻¹Y‖.

    `least` is a bound below λ_min(A), 0 where none is known. The computed residual is within e of the exact one:

        ‖e‖ ≤ (rounding of H + rounding of its product) ‖z‖ + ε (ridge ‖z‖ + 2 (‖y‖ + ‖r‖)),

    which costs ‖z‖‖e‖ on both sides, and turns ‖r‖ into ‖r‖ + ‖e‖; sums of n terms are within n ε of the sum of sizes.
    """
    more = 1 + 4 * H.n * EPS  # of norms, which are rounded too
    with np.errstate(all="ignore"):  # what passes float64 has no upper side
        y, z, r = (_lengths(part) * more for part in (Y, Z, R))
        e = (H.rounding + H.product_rounding) * z + EPS * (ridge * z + 2 * (y + r))
        each = np.einsum("ij,ij->j", Y, Z) + np.einsum("ij,ij->j", Z, R)
        sums = H.n * EPS * (y * z + z * r)
        slack = (z * e + sums) * more
        beyond = np.where(r + e > 0, (r + e) ** 2 / least if least > 0 else np.inf, 0.0) * more
        known = np.isfinite(each) & np.isfinite(slack)
        lower = np.where(known, np.maximum(each - slack, 0.0), 0.0)
        upper = np.where(known, each + slack + beyond, np.inf)
        each = np.where(known, np.maximum(each, lower), np.inf)
    reason = "" if least > 0 else "no positive bound below λ_min(H + ridge) is known: there is no upper side"
    semi_definite = True if H.kernel is not None else None
    words = "every kernel gives such a matrix" if semi_definite else "taken as given, since the matrix came as numbers"
    assumptions = (checked("H is positive semi-definite", semi_definite, words), *rounding_within(H.rounding))
    outputs = Bracketed(each, lower, upper, "rounding included", reason, CERTIFICATE, assumptions)
    grown = 1 + len(each) * EPS
    total = Bracketed(
        float(each.sum()),
        float(lower.sum() / grown),
        float(upper.sum() * grown),
        "rounding included",
        reason,
        CERTIFICATE,
        assumptions,
        per_output=outputs,
    )
    wrong = float(_lengths((r + e)[:, None])[0])
    return total, (wrong / least if least > 0 else np.inf) if wrong else 0.0


def _times(unit: float, Z: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both of them; entries that pass float64 are infinite."""
    with np.errstate(over="ignore"):
        return unit * Z, unit * R


def _lengths(part: np.ndarray) -> np.ndarray:
    """The norms of the columns, also of entries whose squares pass float64."""
    largest = np.abs(part).max(axis=0)
    usual = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
    return usual * np.linalg.norm(part / usual, axis=0)


def _smallest(H: AbstractGram, ridge: float, bounds: EigenvalueBounds | str | None) -> float:
    """A bound below λ_min(H), looked for where it is asked for, or where there is no ridge to take its place."""
    if isinstance(bounds, EigenvalueBounds):
        return bounds.lower
    if bounds is None or (bounds == "auto" and ridge > negligible(H)):
        return 0.0
    return smallest_bound(H, bounds).lower


def _solution(
    H: AbstractGram,
    y: np.ndarray,
    Z: np.ndarray,
    R: np.ndarray,
    ridge: float,
    least: float,
    tol: float,
    gap: float | None,
    products: int,
    plan: SolvePlan,
    why: str,
) -> Solution:
    Y = y.reshape(H.n, -1)
    bracket, wrong = certificate(H, Y, Z, R, ridge, least)
    sizes, left = _lengths(Y), _lengths(R)
    residuals = left / np.where(sizes > 0, sizes, 1.0)
    size = float(_lengths(Z.reshape(-1, 1))[0])
    tight = gap is not None and bracket.certified and bracket.width <= gap * bracket.lower
    converged = bool((residuals <= tol).all() or tight)
    if not converged and not why:
        why = f"rounding leaves a residual of {residuals.max():.1g}; more products do not lower it"
    return Solution(
        values=Z.reshape(y.shape),
        ridge=ridge,
        bracket=bracket,
        residuals=residuals,
        error=wrong / size if size else 0.0,
        products=products,
        converged=converged,
        reason="" if converged else why,
        plan=plan,
    )
