"""Any network the house understands, seen from inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from overparam.adapters.torch_module import TorchModule
from overparam.audits.jax_inside import JaxInside
from overparam.core import checks
from overparam.core.inside import AbstractInside
from overparam.core.network import AbstractNetwork, Params


def inside_of(network: Any, params: Any, X: Any, dtype: str = "float64") -> AbstractInside:
    """A network on the rows of X, as audits see it.

    Args:
        network: of the house, or what `from_equinox`, `from_flax` or `from_torch` give.
        params: of the network; None for a PyTorch module, which carries its own.
        X: samples (n, …), finite.
        dtype: "float64" or "float32", in which it computes.

    >>> from overparam.networks import FullyConnected
    >>> net = FullyConnected(width=4, depth=3)
    >>> seen = inside_of(net, net.init(0, 2), np.eye(2))
    >>> seen.widths, seen.outputs, sorted(seen.weights)
    ((4, 4, 4), 1, ['W1', 'W2'])
    """
    X = np.asarray(X)
    if X.ndim < 2 or 0 in X.shape or X.dtype.kind not in "fiub":
        raise ValueError(f"`X` is {X.dtype} of shape {X.shape}; expected samples (n, …) of numbers")
    if not np.all(np.isfinite(X)):
        first = int(np.argwhere(~np.isfinite(X.reshape(len(X), -1)).all(axis=1))[0, 0])
        raise ValueError(f"`X` has a number that is not finite (first: row {first}); drop or fill such rows")
    checks.one_of(dtype, "dtype", ("float64", "float32"))
    if isinstance(network, AbstractNetwork):
        if not isinstance(params, Params):
            raise ValueError(f"`params` is a {type(params).__name__}; expected the network's, such as `net.init(0, d)`")
        return JaxInside(network, params, X, dtype)
    if isinstance(network, TorchModule):
        from overparam.adapters.torch_inside import TorchInside

        return TorchInside(network, params, X, dtype)
    raise ValueError(
        f"`network` is a {type(network).__name__}; expected a network of the house, or what `from_equinox`, "
        "`from_flax` or `from_torch` gives"
    )


def evaluation_notes(network: Any) -> tuple[str, ...]:
    """How layers that do otherwise while a PyTorch module trains were looked at; nothing where there are none.

    >>> import torch
    >>> from overparam.adapters.torch_module import from_torch
    >>> layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Dropout())
    >>> evaluation_notes(from_torch(layers, [[1.0, 2.0]]))
    ('the module in evaluation mode: batch norm with its running averages, dropout off',)
    """
    if not isinstance(network, TorchModule):
        return ()
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.modules.dropout import _DropoutNd

    layers = list(network.module.modules())
    norms = [layer for layer in layers if isinstance(layer, _BatchNorm)]
    kept = [layer for layer in norms if layer.running_mean is not None]
    words = ["batch norm with its running averages"] if kept else []
    if len(kept) < len(norms):
        words.append("batch norm that keeps no averages with those of the rows it is given")
    if any(isinstance(layer, _DropoutNd) for layer in layers):
        words.append("dropout off")
    return (f"the module in evaluation mode: {', '.join(words)}",) if words else ()
