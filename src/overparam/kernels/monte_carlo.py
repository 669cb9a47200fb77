"""The kernel of a network whose limit is not known: the mean over random weights, with its standard error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np

from overparam.core import checks
from overparam.core.kernel import KINDS
from overparam.core.network import AbstractNetwork, as_key
from overparam.kernels.empirical import Empirical


@final
@dataclass(frozen=True, eq=False)
class SampledKernel:
    """`mean` of the kernel over `draws` of the weights, and the standard `error` of each entry.

    Both entries of a pair come from the same draws: errors of entries are not independent. At finite width the mean is off the limit
    by O(1/width), which no number of draws takes away.
    """

    mean: np.ndarray
    error: np.ndarray
    draws: int


def monte_carlo_kernel(
    network: AbstractNetwork | Callable[[Any, Any], Any],
    X: Any,
    Z: Any = None,
    get: str = "ntk",
    *,
    draws: int = 32,
    key: Any = 0,
    init: Callable[[Any], Any] | None = None,
) -> SampledKernel:
    """Θ ≈ mean over draws w of Σ ∂f(x)/∂w · ∂f(z)/∂w, or of f(x)·f(z), over k outputs divided by k.

    Ref: fine_grained, Eq. (3)

    Differs from the paper: it takes a mean over infinitely many units; here over draws of whole networks of any kind.

    Args:
        network: of the house, or f(params, x) of a batch x.
        X, Z: samples; Z is X where it is left out.
        get: "ntk", or "nngp": products of outputs.
        draws: of the weights, at least 2.
        key: an int or a JAX key.
        init: init(key) gives weights, where `network` is a function.

    >>> def drawn(key):
    ...     return jax.random.normal(key, (2,))
    >>> found = monte_carlo_kernel(lambda w, x: x @ w, np.eye(2), init=drawn, draws=5)
    >>> found.mean.tolist(), bool(found.error.max() < 1e-12)  # of a linear function it is the same in every draw
    ([[1.0, 0.0], [0.0, 1.0]], True)
    """
    checks.one_of(get, "get", KINDS)
    draws = checks.whole_number(draws, "draws", least=2)
    if init is None and not isinstance(network, AbstractNetwork):
        raise ValueError(
            "`network` is a function, whose weights are not known; pass `init`, a function of a key that draws them"
        )
    X = np.asarray(X, dtype=np.float64)
    Z = None if Z is None else np.asarray(Z, dtype=np.float64)
    shape = X.shape[1:] if X.ndim > 2 else X.shape[1]
    total = squares = 0.0
    with jax.enable_x64(True):
        for own in jax.random.split(as_key(key), draws):
            params = init(own) if init is not None else network.init(own, shape)  # pyright: ignore[reportAttributeAccessIssue, reportFunctionMemberAccess]
            drawn = Empirical(network, params)(X, Z) if get == "ntk" else _of_outputs(network, params, X, Z)
            total, squares = total + drawn, squares + drawn**2
    mean = total / draws
    spread = np.maximum(squares / draws - mean**2, 0.0) * draws / (draws - 1)
    return SampledKernel(np.asarray(mean), np.sqrt(spread / draws), draws)


def _of_outputs(network: Any, params: Any, X: np.ndarray, Z: np.ndarray | None) -> np.ndarray:
    apply = network.apply if isinstance(network, AbstractNetwork) else network
    one, two = (np.asarray(apply(params, rows)).reshape(len(rows), -1) for rows in (X, X if Z is None else Z))
    return one @ two.T / one.shape[1]
