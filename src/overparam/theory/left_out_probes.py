"""What is predicted for every row left out alone, at any size: the diagonal of the inverse from random signs, by products."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.core.progress import Progress, silent
from overparam.data.draws import generator
from overparam.engines.matrix import as_gram
from overparam.spectrum.cholesky import negligible
from overparam.spectrum.conjugate_gradients import ConjugateGradients
from overparam.spectrum.left_out import class_margins
from overparam.spectrum.preconditioner import column_count


@final
@dataclass(frozen=True, eq=False)
class LeftOutByProbes:
    """`outputs`, in the shape of y, are of the regression without each row; `standard_errors` of them are those of the draw."""

    outputs: np.ndarray
    standard_errors: np.ndarray
    mean_square: float
    """Of the residuals, summed over outputs, what the draw adds to it on average taken off."""
    mean_square_standard_error: float
    error: float | None
    """The share of rows put into a wrong class; None where `y` are no classes."""
    error_standard_error: float | None
    inverse_diagonal: np.ndarray
    """(n,) of (H + ridge)⁻¹, as estimated."""
    ridge: float
    probes: int
    products: int
    columns: int
    converged: bool


def leave_one_out_by_probes(
    H: Any,
    y: Any,
    ridge: float,
    *,
    probes: int = 32,
    tol: float = 1e-8,
    columns: int | None = None,
    max_products: int | None = None,
    key: Any = 0,
    place: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> LeftOutByProbes:
    """y_i − f₋ᵢ(x_i) = [A⁻¹y]_i/[A⁻¹]_ii with A = H + ridge, the diagonal estimated from random signs z (Bekas et al. 2007).

    The labels and the signs are one block of columns, so that a step of conjugate gradients is one product. What leads them,
    M from columns of H, has a diagonal of its inverse that is known: signs are asked for the difference alone,

        [A⁻¹]_ii = [M⁻¹]_ii + E z_i [(A⁻¹ − M⁻¹)z]_i,

    cut to where it must lie, from 1/(H_ii + ridge) to 1/ridge. Standard errors are those of the mean over signs; of the mean
    square and of the share of wrong rows by leaving out the signs in turn (jackknife), which also removes the bias of the
    mean square. `leave_folds_out` beside it has no such error, and leaves out a fold at a time.

    Args:
        H: a Gram matrix, or a symmetric positive semi-definite matrix of numbers.
        y: labels, (n,) or (n, k).
        ridge: > 0.
        probes: vectors of random signs, 4 or more; errors fall as one over their root.
        tol: ‖r‖/‖y‖ of every system at which it stops; what that leaves should be far below the standard errors.
        columns: of H in M; None takes 6√n, or what fits in memory. They are drawn with `key`.
        max_products: most products with H.
        key: an int or a JAX key.
        place: a folder from which it goes on after a stop.
        progress: called with the products done.

    Of a diagonal matrix the inverse is diagonal, and signs tell it exactly:

    >>> leave_one_out_by_probes(np.eye(4), [1.0, 2.0, 3.0, 4.0], 0.5).outputs.round(12) + 0.0
    array([0., 0., 0., 0.])
    """
    H = as_gram(H)
    y = checks.targets(y, H.n)
    ridge = checks.positive(ridge, "ridge", fix="`op.leave_one_out` takes 0 where a factor fits")
    tol, probes = checks.share(tol, "tol"), checks.whole_number(probes, "probes", least=4)
    if not ridge > negligible(H):
        raise ValueError(f"`ridge` is {ridge:g}, which rounding of H hides; use {10 * negligible(H):.1e} or more")
    if columns is not None and not 1 <= checks.whole_number(columns, "columns") <= H.n:
        raise ValueError(f"`columns` is {columns}; expected 1 to {H.n}")
    most = H.n if max_products is None else checks.whole_number(max_products, "max_products", least=2)
    taken = column_count(H) if columns is None else int(columns)
    signs = generator(key, 53).choice([-1.0, 1.0], size=(H.n, probes))
    labels = y.reshape(H.n, -1)
    Y = np.hstack([labels, signs])
    gradients = ConjugateGradients(H, Y, ridge, taken, key, place, progress or silent)
    gradients.run(ridge, tol, None, most)
    Z, R = H.to_host(gradients.Z), H.to_host(gradients.R)
    k = labels.shape[1]
    with H.arithmetic():
        led = H.to_host(gradients.near.solve(H.to_device(signs)))
        known = H.to_host(gradients.near.inverse_diagonal())
    drawn = signs * (Z[:, k:] - led)
    lower, upper = 1 / (H.diagonal() + ridge), 1 / ridge
    total = drawn.sum(axis=1)

    def residuals(mean: np.ndarray) -> np.ndarray:
        return Z[:, :k] / np.clip(known + mean, lower, upper)[:, None]

    found = residuals(total / probes)
    diagonal = np.clip(known + total / probes, lower, upper)
    spread = drawn.std(axis=1, ddof=1) / np.sqrt(probes)
    without = [residuals((total - one) / (probes - 1)) for one in drawn.T]
    square, squares = (np.array([np.sum(each**2) / H.n for each in some]) for some in ([found], without))
    error = wrong = None
    if class_margins(y, y) is not None:
        share = [_share_wrong(y, y - each.reshape(y.shape)) for each in (found, *without)]
        error, wrong = share[0], _jackknife(np.array(share[1:]))
    sizes, left = np.linalg.norm(Y, axis=0), np.linalg.norm(R, axis=0)
    return LeftOutByProbes(
        outputs=y - found.reshape(y.shape),
        standard_errors=(np.abs(found) * (spread / diagonal)[:, None]).reshape(y.shape),
        mean_square=float(probes * square[0] - (probes - 1) * squares.mean()),
        mean_square_standard_error=_jackknife(squares),
        error=error,
        error_standard_error=wrong,
        inverse_diagonal=diagonal,
        ridge=ridge,
        probes=probes,
        products=gradients.products,
        columns=taken,
        converged=bool(np.all(left <= tol * np.where(sizes > 0, sizes, 1.0))),
    )


def _jackknife(without: np.ndarray) -> float:
    """The standard error of a number from its values without each probe."""
    m = len(without)
    return float(np.sqrt((m - 1) / m * np.sum((without - without.mean()) ** 2)))


def _share_wrong(y: np.ndarray, outputs: np.ndarray) -> float:
    margins = class_margins(y, outputs)
    assert margins is not None
    return float(np.mean(margins <= 0))
