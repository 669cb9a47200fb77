"""What brackets must contain, computed in 100 digits from the same numbers: python-flint's balls, or mpmath where that is not there.

Nothing here knows of the package: formulas of the papers, repeated squaring, exact factorisations. With balls a comparison
is decided only where it is certain, so that neither a violation nor a containment is an accident of rounding; without them
what agrees to 60 of the 100 digits is not decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np

try:
    import flint
except ImportError:
    flint = None

DIGITS = 100
WITH_BALLS = flint is not None
DECIDED = mpmath.mpf(10) ** -60
"""Without balls, the share of two numbers by which they must differ: rounding may have made less."""
mpmath.mp.dps = DIGITS
if flint is not None:
    flint.ctx.dps = DIGITS


def number(value: float) -> Any:
    return mpmath.mpf(float(value)) if flint is None else flint.arb(float(value))


def matrix(rows: Sequence[Sequence[Any]]) -> Any:
    """A matrix of exact numbers, from floats or from numbers made here."""
    plain = [[number(x) if isinstance(x, int | float | np.number) else x for x in row] for row in rows]
    return mpmath.matrix(plain) if flint is None else flint.arb_mat(plain)


def column(values: Sequence[Any]) -> Any:
    return matrix([[value] for value in values])


def identity(n: int) -> Any:
    return matrix([[float(i == j) for j in range(n)] for i in range(n)])


def times(A: Any, factor: float | Any) -> Any:
    return A * (number(factor) if isinstance(factor, int | float) else factor)


def solve(A: Any, B: Any) -> Any:
    """A⁻¹B; a ZeroDivisionError where that cannot be told."""
    if flint is not None:
        return A.solve(B)
    if definite(A, A.rows) is None:  # of a singular matrix mpmath's pivots are rounding, and its solution 1e70
        raise ZeroDivisionError("singular to the digits computed")
    return mpmath.lu_solve(A, B)


def below(a: Any, b: Any) -> bool:
    """Whether a < b for certain."""
    return bool(a < b if flint is not None else b - a > DECIDED * max(abs(a), abs(b)))


def dot(a: Any, b: Any) -> Any:
    rows = a.rows if flint is None else a.nrows()
    return sum((a[i, 0] * b[i, 0] for i in range(rows)), number(0.0))


def power(A: Any, exponent: int, n: int) -> Any:
    """A to a whole power by repeated squaring."""
    result, square = identity(n), A
    while exponent:
        if exponent & 1:
            result = result * square
        exponent >>= 1
        if exponent:
            square = square * square
    return result


def rising_sum(A: Any, terms: int, n: int) -> Any:
    """I + A + … + A^(terms − 1), by doubling: S_2m = S_m + A^m S_m, S_(m+1) = I + A S_m."""
    one = identity(n)
    total, high = times(one, 0.0), one  # S_0 and A^0
    for bit in bin(terms)[2:] if terms else "":
        total, high = total + high * total, high * high
        if bit == "1":
            total, high = one + A * total, high * A
    return total


def two_layer(X: np.ndarray) -> Any:
    """The kernel of `fine_grained`, Eq. (3): x·z (π − θ)/(2π), of the rows as they are."""
    n = len(X)
    rows = [[number(x) for x in row] for row in X]
    products = [[sum((a * b for a, b in zip(x, z, strict=True)), number(0.0)) for z in rows] for x in rows]
    pi = mpmath.pi() if flint is None else flint.arb.pi()
    made = [[number(0.0)] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            made[i][j] = made[j][i] = products[i][j] * (pi - _angle(products, rows, i, j, pi)) / (2 * pi)
    return matrix(made)


def _angle(products: list[list[Any]], rows: list[list[Any]], i: int, j: int, pi: Any) -> Any:
    """atan2 of the area between two rows and their product: right for parallel rows too, where arccos leaves [−1, 1]."""
    if i == j:
        return number(0.0)
    area = number(0.0)  # Lagrange: ‖x‖²‖z‖² − (x·z)² = Σ_{a<b} (x_a z_b − x_b z_a)²
    x, z = rows[i], rows[j]
    for a in range(len(x)):
        for b in range(a):
            area += (x[a] * z[b] - x[b] * z[a]) ** 2
    if not area > 0:  # exactly parallel: its terms are differences of equal numbers
        return number(0.0) if products[i][j] > 0 else pi
    root = mpmath.sqrt(area) if flint is None else area.sqrt()
    return mpmath.atan2(root, products[i][j]) if flint is None else flint.arb.atan2(root, products[i][j])


def loss(H: Any, Y: Sequence[Any], steps: int, lr: float, momentum: float, n: int) -> Any:
    """½ Σ_r ‖r(s)‖² of r(s + 1) = r(s) − ηHr(s) + β(r(s) − r(s − 1)), r(−1) = r(0) = y_r."""
    one = identity(n)
    if not momentum:
        moved = power(one - times(H, lr), steps, n)
        ends = [moved * y for y in Y]
        return sum((dot(end, end) for end in ends), number(0.0)) / 2
    total = number(0.0)
    for y in Y:
        before, now = y, y
        for _ in range(steps):
            before, now = now, now - times(H * now, lr) + times(now - before, momentum)
        total += dot(now, now)
    return total / 2


def squared_movement(H: Any, Y: Sequence[Any], steps: int, lr: float, n: int) -> Any:
    """Σ_r (A_s r)ᵀ H (A_s r), A_s = η Σ_{j<s} (I − ηH)^j: no inverse, so that H may be singular."""
    A = times(rising_sum(identity(n) - times(H, lr), steps, n), lr)
    moved = [A * y for y in Y]
    return sum((dot(v, H * v) for v in moved), number(0.0))


def inverse_form(H: Any, Y: Sequence[Any], ridge: float, n: int) -> Any:
    """Σ_r y_rᵀ(H + ridge)⁻¹y_r."""
    A = H + times(identity(n), ridge)
    return sum((dot(y, solve(A, y)) for y in Y), number(0.0))


def definite(A: Any, n: int) -> bool | None:
    """Whether A is positive definite, by the pivots of its factorisation; None where that cannot be told."""
    a = [[A[i, j] for j in range(n)] for i in range(n)]
    for k in range(n):
        least = 0 if flint is not None else DECIDED * abs(A[k, k])  # rows of any scale
        if a[k][k] < -least:
            return False
        if not a[k][k] > least:
            return None
        for i in range(k + 1, n):
            share = a[i][k] / a[k][k]
            for j in range(k + 1, i + 1):
                a[i][j] -= share * a[j][k]
    return True
