"""Rows made up between two others of their class, as oversampling does: each lies on the line from one to the other."""

from __future__ import annotations

import numpy as np

from overparam.data.draws import generator
from overparam.data.neighbours import nearest_rows

LOOKED = 40
"""Nearest rows of the same class between which a row is looked for."""
LEAST_ROWS, LEAST_SHARE = 10, 0.05
"""Rows of a class between two others from which on they are no chance."""
LEAST_COLUMNS = 3
"""Columns in which a row differs from those beside it at least: in fewer, rows are in line by chance."""
STRAIGHT, MOST_BENT = 1e-6, 0.01
"""Angle, beyond what rounded columns explain, up to which three rows are in line; where they explain more than the second, nothing can
be told."""
FIRST = 300
"""Rows of a class looked at first."""
PIECE = 200
MOST_DIGITS = 9


def interpolated_rows(X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Positions of rows that lie on a line between two near rows of their class, where a class has more of them than chance makes.

    Of independent rows in three dimensions or more hardly any is in line with two others to six digits. Rows on a grid are: but
    at halves and thirds of the way, where rows that were made up are at ways of their own.

    Args:
        X: (n, d) rows of a table.
        codes: (n,) classes.

    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(60, 4))
    >>> one, other = random.integers(30, size=(2, 40))
    >>> made = X[one] + random.uniform(size=(40, 1)) * (X[other] - X[one])
    >>> found = interpolated_rows(np.vstack([X, made]), np.repeat([0, 1, 0], [30, 30, 40]))
    >>> bool(np.all(found >= 60)), len(found) > 20
    (True, True)
    """
    sizes = np.abs(X).max(axis=0, initial=0.0)
    sizes = np.where(sizes > 0, sizes, 1.0)  # so that squares of numbers of any size stay within float64
    spread = sizes * (X / sizes).std(axis=0)
    varies = spread > 0
    if np.count_nonzero(varies) < LEAST_COLUMNS:
        return np.zeros(0, dtype=np.int64)
    scaled = (X / sizes)[:, varies]
    Z = (scaled - scaled.mean(axis=0)) / (spread / sizes)[varies]
    rounded = float(np.linalg.norm(np.minimum(_steps(X[:, varies]) / spread[varies], 1.0)))
    found = [_of_class(Z[rows], rows, rounded) for rows in (np.flatnonzero(codes == code) for code in np.unique(codes))]
    return np.sort(np.concatenate(found))


def _of_class(Z: np.ndarray, names: np.ndarray, rounded: float) -> np.ndarray:
    """Those of one class."""
    nothing = np.zeros(0, dtype=np.int64)
    distinct = np.unique(Z, axis=0, return_index=True)[1]
    if len(distinct) < 2 * LEAST_ROWS:
        return nothing
    Z, names = Z[distinct], names[distinct]
    first = np.sort(generator(0, 59).permutation(len(Z))[:FIRST])
    if not _many(_ways(Z, first, rounded)):
        return nothing
    ways = _ways(Z, np.arange(len(Z)), rounded) if len(first) < len(Z) else _ways(Z, first, rounded)
    return names[np.isfinite(ways)] if _many(ways) else nothing


def _many(ways: np.ndarray) -> bool:
    """Whether many rows are in line with others, and at ways of their own."""
    found = ways[np.isfinite(ways)]
    own = len(np.unique(np.round(found, 4)))
    return LEAST_ROWS <= len(found) >= LEAST_SHARE * len(ways) and own >= len(found) / 2


def _ways(Z: np.ndarray, rows: np.ndarray, rounded: float) -> np.ndarray:
    """How far each row is on the way between two others, from 0 to 1; NaN where it is not."""
    k = min(LOOKED, len(Z) - 1)
    nearest, distances = nearest_rows(Z, k, rows)
    found = np.full(len(rows), np.nan)
    for start in range(0, len(rows), PIECE):
        piece = slice(start, start + PIECE)
        apart = Z[nearest[piece]] - Z[rows[piece], None]
        far = distances[piece]
        differ = np.count_nonzero(apart, axis=2) >= LEAST_COLUMNS
        directions = apart / np.where(far > 0, far, 1.0)[:, :, None]
        # |u + v| is the angle by which two directions miss to be opposite, for small ones: to all digits, unlike the cosine
        cosines = np.matmul(directions, directions.transpose(0, 2, 1))
        allowed = STRAIGHT + 2 * rounded * (1 / far[:, :, None] + 1 / far[:, None, :])
        likely = (cosines < -1 + MOST_BENT**2) & (allowed < MOST_BENT) & differ[:, :, None] & differ[:, None, :]
        for row, one, other in zip(*np.nonzero(np.triu(likely, 1)), strict=True):
            if np.linalg.norm(directions[row, one] + directions[row, other]) <= allowed[row, one, other]:
                found[start + row] = far[row, one] / (far[row, one] + far[row, other])
    return found


def _steps(X: np.ndarray) -> np.ndarray:
    """(d,) half of the unit of the last digit that the numbers of a column have; 0 where they have more than nine."""
    found = np.zeros(X.shape[1])
    for j, column in enumerate(X.T):
        for digits in range(MOST_DIGITS + 1):
            with np.errstate(over="ignore"):
                scaled = column * 10.0**digits
            if np.abs(scaled).max() < 2**50 and np.allclose(scaled, np.round(scaled), rtol=0, atol=1e-6):
                found[j] = 0.5 * 10.0**-digits
                break
    return found
