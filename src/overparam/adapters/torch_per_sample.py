"""Gradients of any PyTorch module sample by sample, and products with its tangent kernel, for all that has no closed form."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, jvp, vmap

from overparam.adapters.torch_state import outputs_of

_FAILURES = (RuntimeError, NotImplementedError, ValueError, TypeError)
"""What `torch.func` raises for a module it cannot transform (numbers read from tensors, kernels without a rule)."""


def jacobian(
    module: nn.Module,
    leaves: Mapping[str, Tensor],
    rest: Mapping[str, Tensor],
    x: Tensor,
    names: Sequence[str],
    outputs: Sequence[int],
    at_once: int,
) -> Tensor:
    """(n, len(outputs), size): the gradients of these outputs by these weights, a few samples at once.

    By `torch.func` where it can, else one sample after the other.
    """
    detached = {name: leaf.detach() for name, leaf in leaves.items()}
    chosen = {name: detached[name] for name in names}
    columns = torch.as_tensor(outputs, device=x.device)

    def one(weights: dict[str, Tensor], row: Tensor) -> Tensor:
        out = functional_call(module, {**detached, **rest, **weights}, (row[None],))
        return out.reshape(-1)[columns]

    try:
        with warnings.catch_warnings():  # a kernel without a rule of its own is done one by one, only slower
            warnings.filterwarnings("ignore", message="There is a performance drop")
            found = vmap(jacrev(one), (None, 0), chunk_size=at_once)(chosen, x)
    except _FAILURES:
        return torch.stack([_of_one(module, leaves, rest, row, names, outputs) for row in x])
    return torch.cat([found[name].detach().reshape(len(x), len(outputs), -1) for name in names], 2)


def _of_one(
    module: nn.Module,
    leaves: Mapping[str, Tensor],
    rest: Mapping[str, Tensor],
    row: Tensor,
    names: Sequence[str],
    outputs: Sequence[int],
) -> Tensor:
    out = outputs_of(module, {**leaves, **rest}, row[None])[0]
    chosen = [leaves[name] for name in names]
    lines = []
    for output in outputs:
        parts = torch.autograd.grad(out[output], chosen, retain_graph=True, allow_unused=True)
        zeros = zip(parts, chosen, strict=True)
        lines.append(torch.cat([(torch.zeros_like(w) if g is None else g).reshape(-1) for g, w in zeros]))
    return torch.stack(lines)


def pulled_back(
    module: nn.Module,
    leaves: Mapping[str, Tensor],
    rest: Mapping[str, Tensor],
    batches: Iterator[tuple[Tensor, Tensor]],
) -> dict[str, Tensor]:
    """Σ_j J(z_j)ᵀ v_j by name, over batches of (z, v)."""
    total = {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    for z, v in batches:
        out = outputs_of(module, {**leaves, **rest}, z)
        for name, part in zip(
            leaves, torch.autograd.grad(out, list(leaves.values()), v, allow_unused=True), strict=True
        ):
            if part is not None:
                total[name] += part
    return total


def pushed_forward(
    module: nn.Module, leaves: Mapping[str, Tensor], rest: Mapping[str, Tensor], x: Tensor, u: Mapping[str, Tensor]
) -> Tensor:
    """J(x) u of shape (n, k): forward differentiation, or where a layer has none the derivative of Jᵀw by w."""
    detached = {name: leaf.detach() for name, leaf in leaves.items()}

    def function(weights: dict[str, Tensor]) -> Tensor:
        return outputs_of(module, {**weights, **rest}, x)

    try:
        return jvp(function, (detached,), (dict(u),))[1].detach()
    except _FAILURES:
        return _by_two_backward_passes(function, leaves, u)


def _by_two_backward_passes(
    function: Callable[[dict[str, Tensor]], Tensor], leaves: Mapping[str, Tensor], u: Mapping[str, Tensor]
) -> Tensor:
    out = function(dict(leaves))
    w = torch.zeros_like(out, requires_grad=True)
    back = torch.autograd.grad(out, list(leaves.values()), w, create_graph=True, allow_unused=True)
    pairs = [(part, u[name]) for name, part in zip(leaves, back, strict=True) if part is not None]
    total = sum((part * v).sum() for part, v in pairs)
    if not isinstance(total, Tensor):
        return torch.zeros_like(out)
    return torch.autograd.grad(total, w)[0].detach()
