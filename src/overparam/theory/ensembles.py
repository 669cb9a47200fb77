"""What wide networks answer, as a distribution over their random weights: Bayesian ones, and ensembles of trained ones.

The formulas stand over an array namespace (`numpy` or `jax.numpy`); `posterior` reads them for a Gram matrix of any size.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.core.bracketed import INFINITE_WIDTH, Assumption, Interval, checked
from overparam.engines.matrix import as_gram
from overparam.theory.predictions import Prediction, dual_coefficients, predict
from overparam.theory.rates import loss_scale

ROUNDED = 1e-6
"""A variance may be below 0 by this share of what it was before the labels were seen: that is rounding."""


def flowed(xp: ModuleType, h: Any, t: Any) -> Any:
    """A_t(h) = (1 − e^{−ht})/h: what gradient flow has learned of a residual in a direction of eigenvalue h by the time t.

    t where h is 0; where an eigenvalue is not positive (rounding) nothing is learned for ever.

    >>> flowed(np, np.array([0.0, 2.0]), np.array(3.0)), flowed(np, np.array([0.0, 2.0]), np.inf)
    (array([3.        , 0.49876062]), array([0. , 0.5]))
    """
    h, t = xp.broadcast_arrays(xp.maximum(h, 0), t)
    moves = h > 0
    safe = xp.where(moves, h, 1)
    return xp.where(moves, -xp.expm1(-safe * xp.where(moves, t, 1)) / safe, xp.where(xp.isfinite(t), t, 0))


def kept(xp: ModuleType, h: Any, t: Any) -> Any:
    """e^{−ht}, what is left by then; 1 where an eigenvalue is not positive."""
    h, t = xp.broadcast_arrays(xp.maximum(h, 0), t)
    return xp.where(h > 0, xp.exp(-h * xp.where(h > 0, t, 1)), 1)


def in_eigenbasis(xp: ModuleType, U: Any, values: Any, B: Any) -> Any:
    """U diag(values) Uᵀ B, of every leading index of `values`."""
    return U @ (values[..., None] * (U.T @ B))


def spread(xp: ModuleType, at_new: Any, cross: Any, moved: Any, start: Any) -> Any:
    """The covariance of f(x) = f₀(x) + K(x, X) A (y − f₀(X)) over draws of f₀ from a Gaussian of covariance C.

        C(x, x′) − T − Tᵀ + (A K(X, x))ᵀ C(X, X) (A K(X, x′)),   T = C(x, X) A K(X, x′)

    With A = K⁻¹ it is that of an ensemble of wide networks trained to the end (Lee et al. 2019), K the tangent kernel and C the
    covariance of outputs before training. With K = C and noise of variance r on the labels, C(X, X) + r in the last
    term, it is the Bayesian posterior.

    Args:
        at_new: C of new points, (p, p), or its diagonal (p,), which gives variances.
        cross: C of new points with training rows, (p, n).
        moved: A K(X, x), (…, n, p).
        start: C of training rows, with the noise of the labels, (n, n).

    >>> spread(np, np.ones((1, 1)), np.array([[0.5]]), np.array([[0.5]]), np.ones((1, 1)))  # one row: 1 − 2·¼ + ¼
    array([[0.75]])
    """
    if at_new.ndim == 1:
        far = xp.einsum("pn,...np->...p", cross, moved)
        return at_new - 2 * far + xp.einsum("...np,nm,...mp->...p", moved, start, moved)
    far = cross @ moved
    both = xp.swapaxes(moved, -1, -2) @ (start @ moved)
    whole = both - far - xp.swapaxes(far, -1, -2)
    return xp.broadcast_to(at_new, whole.shape) + (whole + xp.swapaxes(whole, -1, -2)) / 2


@final
@dataclass(frozen=True, eq=False)
class Posterior:
    """Outputs on new points as a Gaussian: `mean` is that of the outputs, every output has the same covariance, independently.

    Attributes:
        mean: (p,), or (p, k).
        covariance: (p, p), or the variances alone, (p,), as `posterior` was asked.
        prior: the variances before any label was seen.
        prediction: the mean with the steps, rate and ridge it is of, and the error of the solve behind both.
    """

    mean: np.ndarray
    covariance: np.ndarray
    prior: np.ndarray
    prediction: Prediction
    assumptions: tuple[Assumption, ...] = (INFINITE_WIDTH,)

    @property
    def variance(self) -> np.ndarray:
        """Of every new point, (p,)."""
        own = self.covariance if self.covariance.ndim == 1 else np.diagonal(self.covariance)
        return np.maximum(own, 0.0)

    def interval(self, level: float = 0.95, noise: float = 0.0) -> Interval:
        """Where an output of one draw lies with probability `level`; with the `noise` variance of a label, where a label lies."""
        from scipy.special import ndtri

        reach = ndtri((1 + checks.share(level, "level")) / 2) * np.sqrt(self.variance + noise)
        reach = reach if self.mean.ndim == 1 else reach[:, None]
        return Interval(self.mean, self.mean - reach, self.mean + reach, level)

    def sample(self, count: int = 1, *, key: int = 0) -> np.ndarray:
        """Draws of the outputs on all new points together, (count, p) or (count, p, k), by the eigenvectors of the covariance.

        >>> fitted = posterior(np.eye(2), [1.0, 2.0], np.eye(2), np.eye(2), ridge=1.0)
        >>> fitted.mean.round(9), fitted.variance.round(9)  # K (K + 1)⁻¹ y, and K − K (K + 1)⁻¹ K
        (array([0.5, 1. ]), array([0.5, 0.5]))
        >>> fitted.sample(3).shape
        (3, 2)
        """
        count = checks.whole_number(count, "count", least=1)
        if self.covariance.ndim == 1:
            raise ValueError("draws need the covariance between points; pass `at_new=kernel(X_new, get=...)`, (p, p)")
        values, U = np.linalg.eigh(self.covariance)
        normal = np.random.default_rng(key).standard_normal((count, *self.mean.shape))
        return self.mean + np.einsum("pi,ci...->cp...", U * np.sqrt(np.maximum(values, 0.0)), normal)


def posterior(
    H: Any,
    y: Any,
    K_new: Any,
    at_new: Any,
    steps: int | None = None,
    lr: float | None = None,
    ridge: float = 0.0,
    *,
    start: Any = None,
    start_new: Any = None,
    loss: str = "sum",
    tol: float = 1e-12,
) -> Posterior:
    """Mean and covariance of what wide networks answer on new points: the Bayesian posterior, or an ensemble of trained networks.

        f_s(x) = f₀(x) + K(x, X) A_s(H) (y + ε − f₀(X)),   A_s(h) = (1 − (1 − η(h + ridge))^s)/(h + ridge)

    The Bayesian one, by default: H is the covariance of outputs itself (`get="nngp"`; or the tangent kernel, whose Gaussian process
    is another kind of ensemble, He et al. 2020), the labels have noise ε of variance `ridge`, and at the end of training the mean
    is K(H + ridge)⁻¹y, the covariance K(x, x′) − K(x, X)(H + ridge)⁻¹K(X, x′). The ensemble: H is the tangent kernel, which
    training follows, `start` the covariance of outputs before it (`get="nngp"`), and labels have no noise.

    Ref: fine_grained, Thm 4.1, Eq. (7)

    Assumes: infinite width; the squared loss.

    Differs from the paper: it starts near 0 and follows one network; here f₀ is random and not small.

    Args:
        H: a Gram matrix of the training rows.
        y: labels, (n,) or (n, k).
        K_new: the kernel of H between new points and training rows, (p, n).
        at_new: the covariance of outputs on new points before training: (p, p), or its diagonal (p,), `kernel.diagonal(X_new, get="nngp")`,
            where variances are enough.
        steps, lr, ridge, loss, tol: as in `predict`.
        start: the covariance of outputs on training rows before training, (n, n); None for H itself.
        start_new: the same between new points and training rows, (p, n); with `start`.

    >>> one = posterior([[2.0]], [3.0], [[1.0]], [2.0], start=[[1.0]], start_new=[[0.5]])  # 2 − 2·½·½ + ½·1·½
    >>> one.mean, one.variance
    (array([1.5]), array([1.75]))
    """
    H = as_gram(H)
    K_new = checks.finite_matrix(K_new, "K_new")
    at_new = np.asarray(at_new, dtype=np.float64)
    checks.require_finite(at_new, "at_new")
    p = len(K_new)
    if at_new.shape not in ((p,), (p, p)):
        raise ValueError(f"`at_new` has shape {at_new.shape}; expected ({p}, {p}), or ({p},) for variances alone")
    if (start is None) != (start_new is None):
        raise ValueError("`start` and `start_new` belong together: the covariances of outputs before training")
    found = predict(H, y, K_new, steps, lr, ridge, loss=loss, tol=tol)
    rate = None if lr is None else lr * loss_scale(loss, H.n, found.values.size // p)  # of the sum: of any columns
    if start is None:
        twice = None if steps is None else 2 * steps
        moved = dual_coefficients(H, K_new.T, twice, rate, ridge, tol=tol).values  # A_2s: noise and draws together
        known = np.einsum("pn,np->p", K_new, moved) if at_new.ndim == 1 else K_new @ moved
        covariance = at_new - (known if at_new.ndim == 1 else (known + known.T) / 2)
    else:
        start = as_gram(start)
        cross = checks.finite_matrix(start_new, "start_new")
        if start.n != H.n or cross.shape != K_new.shape:
            raise ValueError(
                f"`start` has {start.n} rows and `start_new` shape {cross.shape}; expected {H.n} rows and {K_new.shape}, as of H and `K_new`"
            )
        moved = dual_coefficients(H, K_new.T, steps, rate, ridge, tol=tol).values
        covariance = spread(np, at_new, cross, moved, start.dense())
    prior = at_new if at_new.ndim == 1 else np.diagonal(at_new).copy()
    own = covariance if at_new.ndim == 1 else np.diagonal(covariance)
    below = own < -ROUNDED * prior
    if found.status == "stable" and found.method != "Krylov" and below.any():
        place = int(np.flatnonzero(below)[0])
        raise ValueError(
            f"the variance of new point {place} is {own[place]:.3g}, below 0: `at_new`, `K_new` and `H` are not of one kernel; "
            "make all of them with the same `get`"
        )
    words = "labels have independent Gaussian noise of variance `ridge`" if start is None else "labels have no noise"
    return Posterior(
        found.values, covariance, prior, found, (*found.assumptions, checked(words, None, "so the formula counts"))
    )
