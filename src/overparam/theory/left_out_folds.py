"""What kernel ridge regression predicts for rows left out, fold by fold, at any size: by products, all folds sharing them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.core.progress import Progress, silent
from overparam.engines.matrix import as_gram
from overparam.spectrum.cholesky import negligible
from overparam.spectrum.conjugate_gradients import ConjugateGradients
from overparam.spectrum.preconditioner import column_count
from overparam.spectrum.rules import EPS


@final
@dataclass(frozen=True, eq=False)
class FoldsLeftOut:
    """`outputs`, in the shape of y, are of the regression without the fold of each row; they are within `within` of exact ones."""

    outputs: np.ndarray
    within: np.ndarray
    """A bound on what is left of the solve and on rounding, for every output of every row."""
    ridge: float
    products: int
    columns: int
    converged: bool


def leave_folds_out(
    H: Any,
    y: Any,
    folds: Any,
    ridge: float,
    *,
    tol: float = 1e-8,
    columns: int | None = None,
    max_products: int | None = None,
    key: Any = 0,
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
        folds: (n,) names of folds, two of them at least; rows that belong together carry one name.
        ridge: > 0.
        tol: ‖r‖/‖y‖ of every system at which it stops.
        columns: of H in the preconditioner; None takes 6√n, or what fits in memory. They are drawn with `key`.
        max_products: most products with H.
        key: an int or a JAX key.
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
    names, fold = np.unique(np.asarray(folds), return_inverse=True)
    if fold.shape != (H.n,) or len(names) < 2:
        raise ValueError(
            f"`folds` has {fold.size} names of {len(names)} folds; expected one a row ({H.n}), two folds or more"
        )
    if columns is not None and not 1 <= checks.whole_number(columns, "columns") <= H.n:
        raise ValueError(f"`columns` is {columns}; expected 1 to {H.n}")
    most = H.n if max_products is None else checks.whole_number(max_products, "max_products", least=2)
    taken = column_count(H) if columns is None else int(columns)
    kept = (fold[:, None] != np.arange(len(names))).astype(np.float64)
    labels = y.reshape(H.n, -1)
    k = labels.shape[1]
    Y = (kept[:, :, None] * labels[:, None, :]).reshape(H.n, -1)
    gradients = ConjugateGradients(H, Y, ridge, taken, key, place, progress or silent, kept)
    gradients.run(ridge, tol, None, most)
    sizes, left, z = (np.linalg.norm(part, axis=0) for part in (Y, H.to_host(gradients.R), H.to_host(gradients.Z)))
    spoiled = (H.rounding + H.product_rounding) * z
    wrong = left + spoiled + EPS * (ridge * z + 2 * (sizes + left))
    image = H.to_host(H.product(gradients.Z) if gradients.image is None else gradients.image)
    own = fold[:, None] * k + np.arange(k)
    within = np.sqrt(H.diagonal() / ridge)[:, None] * wrong[own] + spoiled[own]
    return FoldsLeftOut(
        outputs=np.take_along_axis(image, own, axis=1).reshape(y.shape),
        within=within.reshape(y.shape) * (1 + 4 * H.n * EPS),
        ridge=ridge,
        products=gradients.products,
        columns=taken,
        converged=bool(np.all(left <= tol * np.where(sizes > 0, sizes, 1.0))),
    )
