"""What kernel ridge regression predicts for rows left out, fold by fold, at any size: by products, all folds sharing them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.core.bracketed import Bracketed
from overparam.core.progress import Progress, silent
from overparam.core.words import count_of
from overparam.data import generator
from overparam.engines.matrix import AbstractGram, as_gram
from overparam.spectrum.cholesky import negligible
from overparam.spectrum.conjugate_gradients import ConjugateGradients
from overparam.spectrum.linear_systems import certificate
from overparam.spectrum.preconditioner import column_count
from overparam.spectrum.rules import EPS


@final
@dataclass(frozen=True, eq=False)
class FoldsLeftOut:
    """`outputs`, in the shape of y, are of the regression without the fold of each row; they are within `within` of exact ones.

    Where the rows were cut into folds in several ways, the ways come first: (ways, n) or (ways, n, k).
    """

    outputs: np.ndarray
    within: np.ndarray
    """A bound on what is left of the solve and on rounding, for every output of every row."""
    ridge: float
    products: int
    columns: int
    converged: bool
    residual: float
    """‖r‖/‖y‖, the largest over systems."""
    coefficients: np.ndarray | None = None
    """(H + ridge)⁻¹y of the regression on all rows, where it was asked for."""
    bracket: Bracketed | None = None
    """Of yᵀ(H + ridge)⁻¹y, from its residual."""


def leave_folds_out(
    H: Any,
    y: Any,
    folds: Any,
    ridge: float,
    *,
    tol: float = 1e-8,
    all_rows: bool = False,
    columns: int | None = None,
    max_products: int | None = None,
    key: Any = 0,
    rough: AbstractGram | None = None,
    place: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> FoldsLeftOut:
    """f₋F(x_i) for every row i, F its fold: the regression is fitted without that fold, by conjugate gradients.

    With m the rows that are kept, z solves (m H m + ridge) z = m y and f₋F(x_i) = (H z)_i for the rows left out. The systems of
    all folds and outputs are one block of columns, so that a step of all of them is one product with H. With r the residual,

        |f₋F(x_i) − (H z)_i| ≤ √(H_ii/ridge) ‖r‖,

    since the Gram matrix of the rows kept and x_i is positive semi-definite.

    Args:
        H: a Gram matrix, or a symmetric positive semi-definite matrix of numbers.
        y: labels, (n,) or (n, k).
        folds: (n,) names of folds, two of them at least; rows that belong together carry one name. (n, w) cuts the rows in w
            ways, which share the products too.
        ridge: > 0.
        tol: ‖r‖/‖y‖ of every system at which it stops.
        all_rows: whether the regression on all rows is solved as well, in the same products.
        columns: of H in the preconditioner; None takes 6√n, or what fits in memory. They are drawn with `key`.
        max_products: most products with H.
        key: an int or a JAX key.
        rough: a matrix near H whose products are cheaper, such as `gram(kernel, X, "half", dtype="float32")`: steps are made
            with it, and the residuals that decide, and bound what is left, with H.
        place: a folder from which it goes on after a stop.
        progress: called with the products done.

    Without its fold a row of the identity has nothing like it:

    >>> leave_folds_out(np.eye(4), [1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1], 0.5).outputs
    array([0., 0., 0., 0.])
    """
    H = as_gram(H)
    y = checks.targets(y, H.n)
    ridge = checks.positive(ridge, "ridge", fix="`op.leave_one_out` takes 0 where a factor fits")
    tol = checks.share(tol, "tol")
    if not ridge > negligible(H):
        raise ValueError(f"`ridge` is {ridge:g}, which rounding of H hides; use {10 * negligible(H):.1e} or more")
    cuts = np.asarray(folds).reshape(len(folds), -1) if np.ndim(folds) else np.zeros((1, 1))
    ways = [np.unique(cut, return_inverse=True)[1] for cut in cuts.T]
    fewest = min((int(way.max()) + 1 for way in ways), default=0) if cuts.size else 0
    if len(cuts) != H.n or fewest < 2:
        raise ValueError(
            f"`folds` has {count_of(len(cuts), 'name')} of {count_of(fewest, 'fold')}; expected one a row ({H.n}), two folds or more"
        )
    if columns is not None and not 1 <= checks.whole_number(columns, "columns") <= H.n:
        raise ValueError(f"`columns` is {columns}; expected 1 to {H.n}")
    most = H.n if max_products is None else checks.whole_number(max_products, "max_products", least=2)
    taken = column_count(H) if columns is None else int(columns)
    kept = np.hstack([way[:, None] != np.arange(way.max() + 1) for way in ways]).astype(np.float64)
    if all_rows:
        kept = np.hstack([kept, np.ones((H.n, 1))])
    labels = y.reshape(H.n, -1)
    k = labels.shape[1]
    Y = (kept[:, :, None] * labels[:, None, :]).reshape(H.n, -1)
    gradients = ConjugateGradients(H, Y, ridge, taken, key, place, progress or silent, kept, rough)
    gradients.run(ridge, tol, None, most)
    Z, R = H.to_host(gradients.Z), H.to_host(gradients.R)
    sizes, left, z = (np.linalg.norm(part, axis=0) for part in (Y, R, Z))
    spoiled = (H.rounding + H.product_rounding) * z
    wrong = left + spoiled + EPS * (ridge * z + 2 * (sizes + left))
    image = H.to_host(H.product(gradients.Z) if gradients.image is None else gradients.image)
    reach, outputs, within, before = np.sqrt(H.diagonal() / ridge)[:, None], [], [], 0
    for way in ways:
        own = (before + way)[:, None] * k + np.arange(k)
        outputs.append(np.take_along_axis(image, own, axis=1).reshape(y.shape))
        within.append((reach * wrong[own] + spoiled[own]).reshape(y.shape) * (1 + 4 * H.n * EPS))
        before += int(way.max()) + 1
    worst = float(np.max(left / np.where(sizes > 0, sizes, 1.0)))
    one = np.ndim(folds) == 1
    return FoldsLeftOut(
        outputs=outputs[0] if one else np.stack(outputs),
        within=within[0] if one else np.stack(within),
        ridge=ridge,
        products=gradients.products,
        columns=taken,
        converged=worst <= tol,
        residual=worst,
        coefficients=Z[:, -k:].reshape(y.shape) if all_rows else None,
        bracket=certificate(H, labels, Z[:, -k:], R[:, -k:], ridge, ridge)[0] if all_rows else None,
    )


def cut_into_folds(groups: np.ndarray, strata: np.ndarray, folds: int, *, key: Any = 0) -> np.ndarray:
    """(n,) the fold of every row: whole groups, of every stratum about as many rows in each.

    Groups are dealt in random order, one stratum (that of a group's first row) after the other and large ones first, each to
    the fold that has the fewest rows of the stratum, and of those the fewest rows.

    >>> np.bincount(cut_into_folds(np.arange(10), np.arange(10) % 2, 5)).tolist()
    [2, 2, 2, 2, 2]
    """
    _, first, member, sizes = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    order = generator(key, 47).permutation(len(first))
    order = order[np.lexsort((-sizes[order], strata[first][order]))]
    rows, of, own, last = np.zeros(folds), np.empty(len(first), dtype=np.int64), np.zeros(folds), None
    for group in order:
        if strata[first[group]] != last:
            own, last = np.zeros(folds), strata[first[group]]
        of[group] = np.lexsort((rows, own))[0]
        own[of[group]] += sizes[group]
        rows[of[group]] += sizes[group]
    return of[member]
