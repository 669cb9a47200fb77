"""Kernel ridge regression with the k × k kernel of a network of k outputs, its ridge chosen by leave-one-out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import eigh

from overparam.core import checks
from overparam.core.machine import available_memory
from overparam.core.progress import Progress, silent
from overparam.core.words import byte_size
from overparam.engines.cross import require_alike
from overparam.engines.dense import DenseGram
from overparam.spectrum.left_out import checked_ridges
from overparam.theory.tuned_regression import TunedRegression, default_ridges, tuned

if TYPE_CHECKING:
    from overparam.kernels import Empirical

LARGEST = 6_000
"""Rows times outputs up to which the whole kernel is decomposed: a minute or two on two cores."""
NEW_ROWS = 256
"""New rows at once."""


def coupled_regression(
    kernel: Empirical,
    X: Any,
    y: Any,
    Z: Any,
    *,
    ridges: Sequence[float] | None = None,
    progress: Progress | None = None,
) -> TunedRegression:
    """f(z) = Θ(z, X) (Θ + ridge)⁻¹ y with Θ the whole (nk × nk) kernel ∂f_a(x)·∂f_b(z) of k outputs.

    This is what ridge regression on all weights of the linearised network gives: an output's weights are shared with the
    others, so its labels teach them too. `tuned_regression(Empirical(net, params), ...)` takes the mean of the k kernels
    of one output for each instead. Which is right:

    - last layer trained, outputs with weights of their own: Θ_ab = δ_ab K, and the two agree exactly;
    - hidden layers trained, output weights random: Θ_ab for a ≠ b is of order 1/√width of Θ_aa, and the kernels of single
      outputs differ by as much; the two agree as the width grows. At finite width this one is the network's, and that of
      one kernel flatters it: on 250 rows of parities of parities in 30 dimensions (k = 8, width 500) the test errors were
      7.56 here and 6.56 there, 7.63 and 6.69 for the three-layer ResNet;
    - one weight array used in several places, such as A of the three-layer ResNet: this one.

    Leave-one-out leaves out a sample with all its outputs: y_i − f₋ᵢ(x_i) = ([(Θ + ridge)⁻¹]_ii)⁻¹ [(Θ + ridge)⁻¹y]_i,
    with k × k blocks. A network that does not start at 0 is fitted to the labels less its outputs; add them again.

    Args:
        kernel: of a finite network, at its weights.
        X: n training samples, n·k at most 6,000.
        y: labels, (n, k); (n,) for one output.
        Z: new samples.
        ridges: those to try; None for the grid of `tuned_regression`.
        progress: called with the work done.

    f(x) = (w·x, w·x) has Θ_ab = x·z for all a, b. With x = 1 and y = (1, 3) the weight is Σ y/(2 + ridge) = 4/3:

    >>> import jax.numpy as jnp
    >>> from overparam.kernels import Empirical
    >>> kernel = Empirical(lambda w, x: jnp.stack([x @ w, x @ w], axis=1), np.array([1.0]))
    >>> X, y = np.array([[1.0], [0.0]]), np.array([[1.0, 3.0], [0.0, 0.0]])
    >>> np.round(coupled_regression(kernel, X, y, [[1.0]], ridges=[1.0]).outputs, 9)
    array([[1.33333333, 1.33333333]])
    """
    from overparam.kernels import Empirical  # it imports jax

    if not isinstance(kernel, Empirical):
        raise ValueError(f"`kernel` is a {type(kernel).__name__}; expected `op.kernels.Empirical(network, params)`")
    X, Z = kernel.inputs(X, "X"), kernel.inputs(Z, "Z")
    require_alike(Z, X, "Z")
    y = checks.targets(y, len(X))
    given = None if ridges is None else checked_ridges(ridges, "ridges")
    tell = progress or silent
    n, k = len(X), y.size // len(X)
    if n < 2:
        raise ValueError("leave-one-out needs at least 2 rows; there is 1")
    _require_room(n, k)
    blocks = kernel.full(X)
    if blocks.shape[2] != k:
        raise ValueError(f"`y` has {k} columns and the network {blocks.shape[2]} outputs; they must agree")
    H = _matrix(blocks)
    tell(0.4, 1.0, "eigenvalues")
    path = _BlockPath(H, y.reshape(n * k), n, k)
    tell(0.8, 1.0, "leave-one-out")
    rising = default_ridges(DenseGram(H)) if given is None else sorted(given)
    tried = [(ridge, path.mean_square(ridge)) for ridge in rising if path.definite(ridge)]
    if not tried:
        raise ValueError("the kernel is singular to rounding at every ridge; add a larger one to `ridges`")
    ridge = min(tried, key=lambda pair: pair[1])[0]
    c, residuals = path.at(ridge)
    outputs = [
        np.einsum("ijab,jb->ia", kernel.full(Z[i : i + NEW_ROWS], X), c.reshape(n, k))
        for i in range(0, len(Z), NEW_ROWS)
    ]
    tell(1.0, 1.0, "outputs")
    new = np.concatenate(outputs).reshape(len(Z), *y.shape[1:])
    return tuned(y, residuals.reshape(y.shape), c.reshape(y.shape), new, ridge, tried, kernel=kernel.settings)


class _BlockPath:
    """Coefficients and leave-one-out residuals for one ridge after another, from one eigendecomposition."""

    def __init__(self, H: np.ndarray, y: np.ndarray, n: int, k: int) -> None:
        values, self._vectors = eigh(H, check_finite=False, driver="evd", overwrite_a=False)
        self._values, self._rotated, self._shape = np.maximum(values, 0.0), self._vectors.T @ y, (n, k)

    def definite(self, ridge: float) -> bool:
        shifted = self._values + ridge
        return bool(shifted[0] > 4 * np.finfo(float).eps * shifted[-1])

    def at(self, ridge: float) -> tuple[np.ndarray, np.ndarray]:
        """(Θ + ridge)⁻¹y and the residuals, (nk,) both."""
        n, k = self._shape
        inverse = 1 / (self._values + ridge)
        c = self._vectors @ (inverse * self._rotated)
        rows = self._vectors.reshape(n, k, -1)
        corners = np.matmul(rows * inverse, rows.transpose(0, 2, 1))
        return c, np.linalg.solve(corners, c.reshape(n, k, 1)).reshape(n * k)

    def mean_square(self, ridge: float) -> float:
        return float(np.sum(self.at(ridge)[1] ** 2) / self._shape[0])


def _matrix(blocks: np.ndarray) -> np.ndarray:
    """(n, n, k, k) as (nk, nk), sample by sample, symmetric to the last bit."""
    n, k = blocks.shape[0], blocks.shape[2]
    H = blocks.transpose(0, 2, 1, 3).reshape(n * k, n * k)
    return (H + H.T) / 2


def _require_room(n: int, k: int) -> None:
    size = n * k
    if size > LARGEST:
        raise ValueError(
            f"the kernel of {n:,} samples with {k} outputs has {size:,} rows, more than {LARGEST:,}; use fewer samples, or "
            "`tuned_regression`, which takes one kernel for all outputs"
        )
    need, free = 5 * 8 * size**2, available_memory()
    if need > 0.9 * free:
        raise ValueError(f"the kernel of {size:,} rows takes {byte_size(need)} and {byte_size(free)} is free")
