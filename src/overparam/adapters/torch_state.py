"""A PyTorch module as it was: evaluation mode and our own weights inside, everything of the user's back in place after."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from overparam.core.machine import ran_out


@contextlib.contextmanager
def undisturbed(module: nn.Module) -> Iterator[None]:
    """Evaluation mode (batch norm uses its running averages, dropout is off), gradients on, autocast off.

    Embeddings that divide gradients by how often a token is in the batch do not: those are no derivatives. The flags are
    set one by one: a user's own `eval()` may do more than set them. Flags, random state and gradient mode are as before
    afterwards, also after an exception.
    """
    layers = list(module.modules())
    modes = [layer.training for layer in layers]
    dividing: list[Any] = [layer for layer in layers if getattr(layer, "scale_grad_by_freq", None) is True]
    device = next(module.parameters()).device
    cards = [device.index or 0] if device.type == "cuda" else []
    try:
        for layer in layers:
            layer.training = False
        for layer in dividing:
            layer.scale_grad_by_freq = False
        with (
            torch.random.fork_rng(cards),
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.autocast(device.type, enabled=False),
            sdpa_kernel(SDPBackend.MATH),  # the fused kernels of attention have no second derivative
        ):
            yield
    finally:
        for layer, mode in zip(layers, modes, strict=True):
            layer.training = mode
        for layer in dividing:
            layer.scale_grad_by_freq = True


def leaves_and_rest(
    module: nn.Module, given: Mapping[str, Any], dtype: torch.dtype | None
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Leaves of our own for the trained weights, and all else (weights that are not trained, buffers), by name.

    They share memory with the module's where nothing is changed, so that no weight is copied; their gradients do not.

    Args:
        module: whose weights.
        given: values that take the place of the module's own, by name.
        dtype: of the floating ones; None keeps each as it is.
    """
    # an embedding with `max_norm` shrinks its weights while it runs: it gets a copy
    copies = any(getattr(layer, "max_norm", None) is not None for layer in module.modules())
    leaves: dict[str, Tensor] = {}
    rest: dict[str, Tensor] = {}
    for name, own in module.named_parameters():
        value = _value(own, given.get(name), dtype)
        value = value.clone() if copies or value.is_inference() else value
        if own.requires_grad:
            leaves[name] = value.requires_grad_(True)
        else:
            rest[name] = value
    for name, own in module.named_buffers():
        rest[name] = _value(own, given.get(name), dtype).clone()  # a forward pass may write into its buffers
    return leaves, rest


def _value(own: Tensor, given: Any, dtype: torch.dtype | None) -> Tensor:
    value = own.detach()
    if given is not None:
        value = given.detach().clone() if isinstance(given, Tensor) else torch.tensor(np.asarray(given))
        value = value.to(device=own.device, dtype=own.dtype if dtype is None else None)
    if dtype is not None and value.is_floating_point():
        value = value.to(dtype)
    return value


@final
@dataclass(frozen=True, eq=False)
class Weighted:
    """A module with the weights it is evaluated at: `leaves` are trained, `rest` is not. `memory`: bytes for blocks."""

    module: nn.Module
    leaves: Mapping[str, Tensor]
    rest: Mapping[str, Tensor]
    memory: int

    @property
    def room(self) -> int:
        """Bytes for one intermediate array."""
        return max(1, self.memory // 8)

    @property
    def detached(self) -> dict[str, Tensor]:
        """The trained weights without their graph."""
        return {name: leaf.detach() for name, leaf in self.leaves.items()}

    def outputs(self, x: Tensor) -> Tensor:
        """(n, k) outputs of a batch."""
        return outputs_of(self.module, {**self.leaves, **self.rest}, x)


def outputs_of(module: nn.Module, weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """(n, k) outputs of the module with these weights; (n,) becomes (n, 1)."""
    out = outputs_as_given(module, weights, x)
    return out if out.ndim == 2 else out[:, None]


def outputs_as_given(module: nn.Module, weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """(n,) or (n, k) outputs, checked. Failures are one line."""
    try:
        out = functional_call(module, dict(weights), (x,))
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AssertionError, AttributeError) as e:
        if ran_out(e):
            raise MemoryError(first_line(e)) from e
        raise ValueError(
            f"the module fails on a batch of shape {tuple(x.shape)} and {x.dtype}, in evaluation mode: {first_line(e)}"
        ) from e
    if not isinstance(out, Tensor):
        raise ValueError(
            f"the module gives a {type(out).__name__}; expected one tensor of outputs, (n,) or (n, k): wrap the module "
            "in one that returns that tensor"
        )
    if out.ndim not in (1, 2) or out.shape[0] != len(x) or out.numel() == 0:
        raise ValueError(
            f"the module turned a batch of shape {tuple(x.shape)} into {tuple(out.shape)}; expected ({len(x)},) or "
            f"({len(x)}, k), one row a sample: flatten or pool in the module"
        )
    if not out.is_floating_point():
        raise ValueError(f"the module gives {out.dtype}; expected floating outputs, before any argmax")
    return out


def first_line(error: Exception) -> str:
    """What an error of PyTorch says, without the pages that follow."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
