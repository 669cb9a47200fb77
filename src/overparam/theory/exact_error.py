"""The exact error of a kernel's answer over the whole cube or sphere, in closed form: nothing is sampled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.kernels.spectra import DegreeSpectrum, krawtchouk

PANEL = 512
"""Rows at once: the iterated kernel is never stored whole."""


@final
@dataclass(frozen=True)
class ExactError:
    """E_x‖f(x) − target(x)‖² over all points, for f(x) = Σ_j K(x, x_j) c_j."""

    value: float
    rounding: float
    """How far `value` may be off: rounding, errors of the spectrum, and degrees beyond it."""
    variance: float
    """The target's mean square: the error of the answer 0."""
    by_degree: Mapping[int, float]
    """The error in the degrees where the target has a part."""
    elsewhere: float
    """The mean square of f in all other degrees, where the target has nothing."""


def exact_error(
    spectrum: DegreeSpectrum, X: Any, coefficients: Any, target: Mapping[int, tuple[Any, float]]
) -> ExactError:
    """E‖f − H‖² = Σ_s [v_s − 2 λ_s Σ_j c_j·H_s(x_j)] + Σ_ij c_i·c_j K₂(x_i, x_j), with x uniform on the cube or sphere.

    f(x) = Σ_j K(x, x_j) c_j, H = Σ_s H_s the target by degree, v_s = E‖H_s‖². K₂ has the eigenvalues λ_s², so it is
    E_w[K(x, w) K(w, z)]. Exact for every N, every row set (repeated rows too) and every coefficients: a learning curve
    of kernel regression needs draws of the training rows alone.

    Args:
        spectrum: of the kernel, from `spectrum_on_cube` or `spectrum_on_sphere` with the `radius` of the rows.
        X: the n training rows, all of one norm, corners of a cube around 0 where the spectrum is of the cube.
        coefficients: c, (n,) or (n, k); `tuned_regression(...).coefficients` for instance.
        target: degree s → (H_s on X, (n,) or (n, k); v_s summed over outputs).

    The kernel x·z on {±1/√2}²: f(x) = x·(1, 1)/√2 has coefficient ½ on each of √2 x_1 and √2 x_2. The target √2 x_1 is
    missed by ½ in the one and ½ in the other.

    >>> from overparam.kernels import Polynomial, spectrum_on_cube
    >>> X = np.array([[1.0, 1.0]]) / np.sqrt(2)
    >>> found = exact_error(spectrum_on_cube(Polynomial(1), 2), X, [1.0], {1: ([1.0], 1.0)})
    >>> round(found.value, 12)
    0.5
    """
    rows = unit_rows(X, spectrum)
    n = len(rows)
    c = checks.targets(coefficients, n, "coefficients")
    if not isinstance(target, Mapping) or not target:
        raise ValueError("`target` is empty; expected degree → (values on X, mean square), such as {1: (y, 1.0)}")
    values = np.maximum(spectrum.eigenvalues, 0.0)
    C = c.reshape(n, -1)
    parts = {degree: _part(degree, given, c.shape, spectrum) for degree, given in target.items()}
    functions = {degree: _zonal(spectrum, degree) for degree in parts}
    whole = _iterated(spectrum)
    total, of_degree = 0.0, dict.fromkeys(parts, 0.0)
    for start in range(0, n, PANEL):
        cosines = np.clip(rows[start : start + PANEL] @ rows.T, -1.0, 1.0)
        inner = C[start : start + PANEL] @ C.T
        total += float(np.sum(inner * whole(cosines)))
        for degree, zonal in functions.items():
            of_degree[degree] += float(np.sum(inner * zonal(cosines)))
    by_degree = {}
    for degree, (on_rows, power) in parts.items():
        met = 2 * float(values[degree] * np.sum(c * on_rows))
        by_degree[int(degree)] = power - met + of_degree[degree]
    variance = sum(power for _, power in parts.values())
    elsewhere = total - sum(of_degree.values())
    size = float(np.abs(C).sum(axis=0) @ np.abs(C).sum(axis=0))
    unseen = spectrum.largest_left_out * max(0.0, spectrum.left_out) * spectrum.trace
    spread = float(np.sum(2 * spectrum.errors * spectrum.shares * spectrum.trace)) + unseen
    rounding = size * float(spread + 16 * np.finfo(float).eps * spectrum.trace * float(values.max())) + 1e-14 * variance
    return ExactError(sum(by_degree.values()) + elsewhere, rounding, variance, by_degree, elsewhere)


def unit_rows(X: Any, spectrum: DegreeSpectrum) -> np.ndarray:
    """Rows over their norm, after checking that they lie where the spectrum is taken."""
    rows = checks.finite_matrix(X, "X")
    d = spectrum.dimension
    if rows.shape[1] != d:
        raise ValueError(f"`X` has {rows.shape[1]} columns and the spectrum {d} dimensions; they must agree")
    norms = checks.usable_norms(rows)
    if norms.max() - norms.min() > 1e-9 * norms.max():
        raise ValueError(
            f"`X` has rows of norm {norms.min():.6g} to {norms.max():.6g}; the spectrum is of rows of one norm"
        )
    rows = rows / norms[:, None]
    if spectrum.domain == "cube":
        off = np.abs(np.abs(rows) * np.sqrt(d) - 1).max(axis=1)
        if off.max() > 1e-9:
            raise ValueError(f"`X` has rows that are no corners of a cube around 0 (first: row {int(off.argmax())})")
    return rows


def _part(degree: Any, given: Any, shape: tuple[int, ...], spectrum: DegreeSpectrum) -> tuple[np.ndarray, float]:
    if not (isinstance(degree, int | np.integer) and 0 <= degree < len(spectrum.degrees)):
        raise ValueError(f"`target` names degree {degree!r}; the spectrum has degrees 0 to {len(spectrum.degrees) - 1}")
    try:
        on_rows, power = given
    except (TypeError, ValueError):
        raise ValueError(f"`target` at degree {degree} is {given!r}; expected (values on X, mean square)") from None
    on_rows = checks.targets(on_rows, shape[0], f"target[{degree}][0]")
    if on_rows.shape != shape:
        raise ValueError(f"`target[{degree}][0]` has shape {on_rows.shape}; expected that of `coefficients`, {shape}")
    if not (isinstance(power, int | float | np.number) and 0 <= power < np.inf):
        raise ValueError(f"`target[{degree}][1]` is {power!r}; expected the mean square, a finite number ≥ 0")
    return on_rows, float(power)


def _iterated(spectrum: DegreeSpectrum) -> Any:
    """Σ_s λ_s² Σ_i φ_si(x) φ_si(z) as a function of cosines."""
    values = np.maximum(spectrum.eigenvalues, 0.0)
    if spectrum.domain == "sphere":
        return _Legendre(spectrum.dimension, values * spectrum.shares * spectrum.trace)
    # λ (λ K): the counts K alone may be far larger than float64 has room for once multiplied by less than λ
    return _OfDistance([_sum(values, row) for row in krawtchouk(spectrum.dimension)])


def _zonal(spectrum: DegreeSpectrum, degree: int) -> Any:
    """λ_s² Σ_i φ_si(x) φ_si(z) of one degree."""
    only = np.where(spectrum.degrees == degree, np.maximum(spectrum.eigenvalues, 0.0), 0.0)
    if spectrum.domain == "sphere":
        return _Legendre(spectrum.dimension, only * spectrum.shares * spectrum.trace)
    return _OfDistance([_sum(only, row) for row in krawtchouk(spectrum.dimension)])


def _sum(values: np.ndarray, row: list[int]) -> float:
    return float(np.sum([value * (value * count) for value, count in zip(values.tolist(), row, strict=True) if value]))


@final
class _OfDistance:
    """A function on the cube from its values at 0, 1, … d differing coordinates."""

    def __init__(self, table: list[float]) -> None:
        self._table = np.array(table)

    def __call__(self, cosines: np.ndarray) -> np.ndarray:
        d = len(self._table) - 1
        return self._table[np.rint((1 - cosines) * (d / 2)).astype(np.intp)]


@final
class _Legendre:
    """Σ_l w_l P_l(t), P_l the Legendre polynomials of the sphere in D dimensions, P_l(1) = 1."""

    def __init__(self, dimension: int, weights: np.ndarray) -> None:
        self._dimension, self._weights = dimension, weights

    def __call__(self, cosines: np.ndarray) -> np.ndarray:
        D, last = self._dimension, int(np.max(np.flatnonzero(self._weights), initial=0))
        before, now = np.zeros_like(cosines), np.ones_like(cosines)
        result = np.full_like(cosines, self._weights[0])
        for l in range(last):
            if D + l == 2:  # the circle, first step: P_1 = t
                before, now = now, cosines.copy()
            else:
                before, now = now, ((2 * l + D - 2) * cosines * now - l * before) / (l + D - 2)
            result += self._weights[l + 1] * now
        return result
