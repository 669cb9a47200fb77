"""What kernel ridge regression predicts for the rows of a group when the whole group is left out, in closed form."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any, final

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotri, dpotrs, dtrtri  # pyright: ignore[reportAttributeAccessIssue]

from overparam.core import checks
from overparam.core.machine import available_memory
from overparam.data.duplicates import duplicate_groups
from overparam.engines.matrix import AbstractGram, AbstractHostGram, as_gram
from overparam.spectrum.cholesky import factor, factor_values, negligible, not_definite
from overparam.spectrum.rules import EPS

EIGEN_ROWS = 4_000
"""Rows up to which one eigendecomposition serves all ridges; above, every ridge has an inverse of its own."""
PIECE = 2**23
"""Numbers of the eigenvectors of a batch of groups that are held at a time."""


def leave_groups_out(H: Any, y: Any, groups: Any, ridge: float) -> np.ndarray:
    """f₋G(x_i) for every row i, G the group of i: the regression is fitted without the whole group. In the shape of y.

    With A = (H + ridge)⁻¹: y_G − f₋G(x_G) = [A_GG]⁻¹ [A y]_G, so that one factor serves all groups.

    Args:
        H: a Gram matrix, or a symmetric matrix of numbers.
        y: labels, (n,) or (n, k).
        groups: (n,) names of groups, two of them at least.
        ridge: ≥ 0.

    Rows that are equal (known from `H.X`; of a matrix of numbers, rows whose entries are) are fitted as one row with a
    weight, so that nothing is lost on them at small ridges. The error is then about ε λ_max/(λ_min + ridge) of the size
    of the labels, λ of the matrix of the distinct rows: what rounding does to any refit.

    Two equal rows leave together: what is left knows nothing of them.

    >>> leave_groups_out([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [2.0, 4.0, 1.0], [0, 0, 1], 0.0)
    array([0., 0., 0.])

    They leave alone: the other is left.

    >>> leave_groups_out([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [2.0, 4.0, 1.0], [0, 1, 2], 0.0)
    array([4., 2., 0.])
    """
    H = as_gram(H)
    y = checks.targets(y, H.n)
    ridge = checks.positive(ridge, "ridge", zero=True)
    first, same = equal_rows(H.dense() if H.X is None else H.X)
    distinct = H if len(first) == H.n else as_gram(H.block(first, first))
    path = GroupsLeftOut(distinct, y, same)
    return path.outputs(ridge, path.leaving(groups))


def equal_rows(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of the first row of each set of equal rows, rising, and for every row which of these it is equal to.

    >>> equal_rows(np.array([[2.0], [1.0], [2.0]]))
    (array([0, 1]), array([0, 1, 0]))
    """
    leads = np.arange(len(X))
    for rows in duplicate_groups(X.reshape(len(X), -1)):
        leads[rows] = rows[0]
    return np.unique(leads, return_inverse=True)


def group_numbers(groups: Any, n: int) -> np.ndarray:
    """Names of groups as 0, 1, …, or one line where they are not one a row or all the same.

    >>> group_numbers(["b", "a", "b"], 3)
    array([1, 0, 1])
    """
    if groups is None:
        return np.arange(n)
    names = np.asarray(groups)
    if names.shape != (n,):
        raise ValueError(f"`groups` has shape {names.shape}; expected ({n},), the group of every row")
    _, numbers = np.unique(names, return_inverse=True)
    if n > 1 and not numbers.any():
        raise ValueError("`groups` puts all rows into one group: nothing is left to fit; give two groups or more")
    return numbers


@final
class Leaving:
    """Which rows leave together, as shares of the distinct rows that leave with each group.

    A part is one distinct row in one group: `share` of its weight leaves, with the mean label `label`.
    """

    def __init__(
        self, groups: np.ndarray, same: np.ndarray, weights: np.ndarray, Y: np.ndarray, of: np.ndarray
    ) -> None:
        pairs = groups * len(weights) + same
        parts, self.part = np.unique(pairs, return_inverse=True)
        group, self.row = np.divmod(parts, len(weights))
        leaves = np.bincount(self.part, of)
        whole = np.bincount(self.part) == np.bincount(same)[self.row]  # sums of weights may differ by rounding
        self.share = np.where(whole, 1.0, leaves / weights[self.row])
        self.stays = np.where(whole, 0.0, (weights[self.row] - leaves) / weights[self.row])
        self.label = _means(self.part, Y, of)
        sizes = np.bincount(group)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.batches = [starts[sizes == size][:, None] + np.arange(size) for size in np.unique(sizes)[::-1]]
        """(groups, parts) of every size of group, falling: these are solved at once."""


@final
class GroupsLeftOut:
    """Predictions for groups left out, and the fit to all rows, for one ridge after another.

    Equal rows are one row with a weight: with m_u copies of mean label ȳ_u, M = √m K √m and A = (M + ridge)⁻¹, the
    labels √m ȳ are fitted. If the shares s of some rows U leave, with mean labels z, what is predicted for these rows
    without them is z − g/√m,

        (1 − s + ridge A_UU s) g = √m (z − ȳ) + ridge [A √m ȳ]_U,

    which divided by the ridge is the formula of `leave_groups_out` where all copies leave (s = 1, z = ȳ).

    Args:
        K: the matrix of the distinct rows.
        y: labels of all rows, (n,) or (n, k).
        same: (n,) which of the distinct rows every row is; None: all are distinct.
        weights: (n,) > 0: a row of weight w is w equal rows that leave together; None: 1.
        several: whether more than one ridge will be asked for, so that an eigendecomposition is worth it.

    >>> path = GroupsLeftOut(np.diag([1.0, 3.0]), np.array([2.0, 2.0]))
    >>> path.coefficients(1.0), path.outputs(1.0, path.leaving())
    (array([1. , 0.5]), array([0., 0.]))
    """

    def __init__(
        self,
        K: Any,
        y: np.ndarray,
        same: np.ndarray | None = None,
        weights: np.ndarray | None = None,
        *,
        several: bool = True,
    ) -> None:
        H = as_gram(K)
        self._shape, self._Y = y.shape, y.reshape(len(y), -1)
        self._same = np.arange(H.n) if same is None else same
        self._of_rows = np.ones(len(y)) if weights is None else weights
        self._weights = np.bincount(self._same, self._of_rows, minlength=H.n)
        self._roots = np.sqrt(self._weights)[:, None]
        self._means = _means(self._same, self._Y, self._of_rows)
        if not np.all(self._weights == 1):
            H = as_gram(H.dense() * (self._roots * self._roots.T))
        labels = self._roots * self._means
        small = H.n <= EIGEN_ROWS and (several or not isinstance(H, AbstractHostGram))
        self._inverse = EigenInverse(H, labels) if small else FactorInverse(H, labels)

    def leaving(self, groups: Any = None) -> Leaving:
        """The plan for these groups; None: every row is one."""
        return Leaving(group_numbers(groups, len(self._Y)), self._same, self._weights, self._Y, self._of_rows)

    def coefficients(self, ridge: float) -> np.ndarray:
        """c with f(z) = K(z, distinct rows) c, of the fit to all rows, (distinct rows,) or (distinct rows, k)."""
        found = self._roots * self._inverse.solved(ridge)
        return found.reshape(len(found), *self._shape[1:])

    def variances(self, ridge: float) -> np.ndarray:
        """(distinct rows,) what the fit without a distinct row leaves open of its value, by the prior of covariance K:
        K_uu − K_uR (K_RR + ridge/weights)⁻¹ K_Ru = (1/A_uu − ridge)/weight."""
        inverse = self._inverse.blocks(ridge, np.arange(len(self._weights))[:, None])[:, 0, 0]
        return np.maximum(1 / inverse - ridge, 0.0) / self._weights

    def outputs(self, ridge: float, leaving: Leaving) -> np.ndarray:
        """What is predicted for every row without its group, in the shape of y."""
        solved = self._inverse.solved(ridge)
        found = np.empty_like(leaving.label)
        for parts in leaving.batches:
            rows, share, stays = leaving.row[parts], leaving.share[parts], leaving.stays[parts]
            blocks = self._inverse.blocks(ridge, rows)
            whole = (stays == 0)[..., None]
            roots, moved = self._roots[rows], leaving.label[parts] - self._means[rows]
            right = np.where(whole, solved[rows], roots * moved + ridge * solved[rows])
            left = np.where(whole, 1.0, ridge) * blocks * share[:, None, :]
            size = np.arange(parts.shape[1])
            left[:, size, size] += stays
            scale = left[:, size, size][..., None]  # rows of which some copies stay are of another size
            residuals = right / scale if len(size) == 1 else np.linalg.solve(left / scale, right / scale)
            found[parts] = leaving.label[parts] - residuals / roots
        return found[leaving.part].reshape(self._shape)


def left_out_without(
    K: np.ndarray, y: np.ndarray, groups: np.ndarray, ridge: float, blocks: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Predictions for groups left out where a block of groups is gone altogether, for one block after another.

    Yields the rows that are there and their predictions. With R these rows and B those of the block, the inverse without
    the block is A_RR − A_RB A_BB⁻¹ A_BR; on equal rows digits are lost as if they were distinct, about ε/ridge.

    Args:
        K: the matrix of all rows.
        y: labels, (n,) or (n, k).
        groups: (n,) numbers of groups.
        ridge: > 0.
        blocks: (n,) the block of every row, the same for all rows of a group.

    Three orthogonal rows say nothing of each other:

    >>> [(rows, found + 0.0) for rows, found in left_out_without(np.eye(3), np.ones(3), np.arange(3), 1.0, np.array([0, 0, 1]))]
    [(array([2]), array([0.])), (array([0, 1]), array([0., 0.]))]
    """
    n, Y = len(y), y.reshape(len(y), -1)
    H = as_gram(K)
    L = factor_values(H, ridge)
    if L is None:
        raise not_definite(H, ridge)
    solved, _ = dpotrs(L, Y, lower=1)
    A, _ = dpotri(L, lower=1, overwrite_c=1)
    A = np.tril(A) + np.tril(A, -1).T
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    batches = [order[starts[sizes == size][:, None] + np.arange(size)] for size in np.unique(sizes[sizes > 0])]
    for block in np.unique(blocks):
        gone = blocks == block
        columns = A[:, gone]
        through = np.linalg.solve(A[np.ix_(gone, gone)], np.hstack([columns.T, solved[gone]]))
        rest = solved - columns @ through[:, n:]
        outputs = np.empty_like(Y)
        for rows in batches:
            rows = rows[~gone[rows[:, 0]]]
            corners = A[rows[:, :, None], rows[:, None, :]] - np.matmul(
                columns[rows], through[:, :n].T[rows].transpose(0, 2, 1)
            )
            outputs[rows] = Y[rows] - np.linalg.solve(corners, rest[rows])
        kept = np.flatnonzero(~gone)
        yield kept, outputs[kept].reshape(len(kept), *y.shape[1:])


class AbstractInverse(abc.ABC):
    """A = (M + ridge)⁻¹: applied to the labels, and its blocks on the diagonal."""

    @abc.abstractmethod
    def solved(self, ridge: float) -> np.ndarray:
        """A Y."""

    @abc.abstractmethod
    def blocks(self, ridge: float, rows: np.ndarray) -> np.ndarray:
        """A[rows[i]][:, rows[i]] for every i, (groups, size, size)."""


@final
class EigenInverse(AbstractInverse):
    """By one eigendecomposition, which serves all ridges."""

    def __init__(self, H: AbstractGram, Y: np.ndarray) -> None:
        checks.require_memory(
            4 * 8 * H.n**2, available_memory(), f"the eigenvectors of {H.n:,} rows", "use fewer rows", part=0.9
        )
        values, self._vectors = eigh(H.dense(), check_finite=False, driver="evd")
        self._H, self._values = H, np.maximum(values, 0.0)
        self._rotated, self._squares = self._vectors.T @ Y, self._vectors**2

    def solved(self, ridge: float) -> np.ndarray:
        return self._vectors @ (self._rotated * self._inverted(ridge)[:, None])

    def blocks(self, ridge: float, rows: np.ndarray) -> np.ndarray:
        inverted = self._inverted(ridge)
        if rows.shape[1] == 1:
            return (self._squares @ inverted)[rows][..., None]
        piece = max(1, PIECE // (rows.shape[1] * len(inverted)))
        made = []
        for start in range(0, len(rows), piece):
            vectors = self._vectors[rows[start : start + piece]]
            made.append(np.matmul(vectors * inverted, vectors.transpose(0, 2, 1)))
        return np.concatenate(made)

    def _inverted(self, ridge: float) -> np.ndarray:
        shifted = self._values + ridge
        if not shifted[0] > max(4, len(shifted) if not ridge else 0) * EPS * shifted[-1]:
            raise not_definite(self._H, ridge)
        return 1 / shifted


@final
class FactorInverse(AbstractInverse):
    """By a factor a ridge. Single rows need the diagonal of the inverse alone; for groups it is made whole on the host, and
    on a device in the columns that are asked for."""

    def __init__(self, H: AbstractGram, Y: np.ndarray) -> None:
        self._H, self._Y = H, Y
        self._at, self._solved = -1.0, Y
        self._factor: Any = None
        self._diagonal: Any = None
        self._whole: Any = None
        """Of the inverse: its diagonal, its lower triangle."""

    def solved(self, ridge: float) -> np.ndarray:
        self._go_to(ridge)
        return self._solved

    def blocks(self, ridge: float, rows: np.ndarray) -> np.ndarray:
        self._go_to(ridge)
        host = self._H.xp is np
        if rows.shape[1] == 1 and self._whole is None:
            if self._diagonal is None:
                self._diagonal = self._made_diagonal() if host else self._factor.inverse_diagonal()
            return self._diagonal[rows][..., None]
        if not host:
            return self._columns(rows)
        if self._whole is None:
            self._whole, _ = dpotri(self._taken(), lower=1, overwrite_c=1)
        one, other = rows[:, :, None], rows[:, None, :]
        return self._whole[np.maximum(one, other), np.minimum(one, other)]

    def _columns(self, rows: np.ndarray) -> np.ndarray:
        piece = max(1, PIECE // (rows.shape[1] * self._H.n))
        made = []
        for start in range(0, len(rows), piece):
            part = rows[start : start + piece]
            unit = np.zeros((self._H.n, part.size))
            unit[part.ravel(), np.arange(part.size)] = 1.0
            columns = self._factor.solve(unit).reshape(self._H.n, *part.shape)
            made.append(columns[part[:, :, None], np.arange(len(part))[:, None, None], np.arange(part.shape[1])])
        return np.concatenate(made)

    def _made_diagonal(self) -> np.ndarray:
        """The squared columns of L⁻¹."""
        inverse, _ = dtrtri(self._taken(), lower=1, overwrite_c=1)
        return np.concatenate(
            [np.sum(np.tril(inverse[i:, i : i + 512]) ** 2, axis=0) for i in range(0, len(inverse), 512)]
        )

    def _taken(self) -> np.ndarray:
        """The factor, to be overwritten: it is as large as the matrix. Made again where it was taken before."""
        taken: Any = factor_values(self._H, self._at) if self._factor is None else self._factor
        self._factor = None
        return taken

    def _go_to(self, ridge: float) -> None:
        if self._at == ridge:
            return
        self._factor = self._diagonal = self._whole = None
        if self._H.xp is np:
            if ridge <= negligible(self._H):
                factor(self._H, ridge)  # whether it can be inverted at all
            self._factor = factor_values(self._H, ridge)
            if self._factor is None:
                raise not_definite(self._H, ridge)
            self._solved, _ = dpotrs(self._factor, self._Y, lower=1)
        else:
            self._factor = factor(self._H, ridge)
            self._solved = self._factor.solve(self._Y)
        self._at = ridge


def _means(of: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weighted mean row of Y in every class of `of`; itself, to the last bit, where it is alone."""
    count = int(of.max()) + 1
    if count == len(Y):
        found = np.empty_like(Y)
        found[of] = Y
        return found
    sums = np.stack([np.bincount(of, weights * column) for column in Y.T], axis=1)
    return sums / np.bincount(of, weights)[:, None]
