"""PyTorch layers whose weight gradients are known in closed form: what goes in and what comes back gives them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
MATRICES = (nn.Linear, nn.Embedding, *CONVOLUTIONS)
KNOWN = (*MATRICES, *BATCH_NORMS, nn.LayerNorm, nn.GroupNorm)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_known(layer: nn.Module) -> bool:
    """Whether this is one of the layers here and nothing else: no subclass, no hook, no forward of its own."""
    if type(layer) not in KNOWN or "forward" in vars(layer) or any(getattr(layer, hooks, None) for hooks in _HOOKS):
        return False
    if isinstance(layer, nn.Embedding):
        return layer.max_norm is None
    return not isinstance(layer, BATCH_NORMS) or layer.running_mean is not None


def takes_batches(layer: nn.Module, x: Any, n: int) -> bool:
    """Whether this input of the layer has its samples, n of them, on the first axis."""
    if not isinstance(x, Tensor) or x.ndim == 0 or x.shape[0] != n:
        return False
    if isinstance(layer, CONVOLUTIONS):
        return x.ndim == len(layer.kernel_size) + 2
    if isinstance(layer, nn.Embedding):
        return True
    return x.ndim > (len(layer.normalized_shape) if isinstance(layer, nn.LayerNorm) else 1)


def by_position(layer: nn.Module, cotangent: Tensor) -> Tensor:
    """A cotangent of the layer's output as (n, groups, channels of a group, positions)."""
    n = len(cotangent)
    if isinstance(layer, CONVOLUTIONS):
        return cotangent.reshape(n, layer.groups, layer.out_channels // layer.groups, -1)
    return cotangent.reshape(n, 1, -1, cotangent.shape[-1]).transpose(2, 3)


def features(layer: nn.Module, x: Tensor) -> Tensor:
    """(n, groups, positions, f): what each weight of a row meets; the gradient is by_position @ features.

    f is the width of a linear layer's input, or the patch of a convolution in the order of its weights.
    """
    if not isinstance(layer, CONVOLUTIONS):
        return x.reshape(len(x), 1, -1, x.shape[-1])
    axes = len(layer.kernel_size)
    x = _padded(layer, x)
    for axis in range(axes):
        reach = layer.dilation[axis] * (layer.kernel_size[axis] - 1) + 1
        x = x.unfold(2 + axis, reach, layer.stride[axis])[..., :: layer.dilation[axis]]
    n, channels = x.shape[:2]
    x = x.unflatten(1, (layer.groups, channels // layer.groups))  # (n, g, c, positions…, patch…)
    places, patch = range(3, 3 + axes), range(3 + axes, 3 + 2 * axes)
    x = x.permute(0, 1, *places, 2, *patch)
    count = 1
    for size in x.shape[2 : 2 + axes]:
        count *= size
    return x.reshape(n, layer.groups, count, -1)


def _padded(layer: Any, x: Tensor) -> Tensor:
    sides: list[int] = []
    for axis in reversed(range(len(layer.kernel_size))):  # F.pad counts from the last axis
        if layer.padding == "same":
            total = layer.dilation[axis] * (layer.kernel_size[axis] - 1)
            sides += [total // 2, total - total // 2]
        elif layer.padding == "valid":
            sides += [0, 0]
        else:
            sides += [layer.padding[axis]] * 2
    if not any(sides):
        return x
    return F.pad(x, sides, mode="constant" if layer.padding_mode == "zeros" else layer.padding_mode)


def feature_count(layer: nn.Module, x: Tensor) -> int:
    """f of `features` of that input, known without making them."""
    if isinstance(layer, CONVOLUTIONS):
        return layer.weight[0].numel()
    return x.shape[-1]


def small_gradient(layer: nn.Module, normalised: Tensor | None, cotangent: Tensor) -> Tensor:
    """(n, size): every sample's gradient of a bias, or of the weight of a normalisation.

    A bias sums the cotangents over positions; a normalisation's weight sums them times the normalised input.
    """
    n = len(cotangent)
    if normalised is not None:
        cotangent = cotangent * normalised
    if isinstance(layer, nn.LayerNorm):
        return cotangent.reshape(n, -1, *layer.normalized_shape).sum(1).flatten(1)
    if isinstance(layer, nn.Linear):
        return cotangent.reshape(n, -1, cotangent.shape[-1]).sum(1)
    return cotangent.reshape(n, cotangent.shape[1], -1).sum(2)


def normalised(layer: nn.Module, x: Tensor, averages: tuple[Tensor, Tensor] | None) -> Tensor:
    """The input of a normalisation after it, before weight and bias; `averages` are a batch norm's mean and variance."""
    if isinstance(layer, nn.LayerNorm):
        return F.layer_norm(x, layer.normalized_shape, eps=layer.eps)
    if isinstance(layer, nn.GroupNorm):
        return F.group_norm(x, layer.num_groups, eps=layer.eps)
    if averages is None or not isinstance(layer, BATCH_NORMS):
        raise TypeError(f"{type(layer).__name__} is no normalisation with fixed averages")
    shape = (1, -1) + (1,) * (x.ndim - 2)
    mean, variance = averages
    return (x - mean.view(shape)) * torch.rsqrt(variance + layer.eps).view(shape)
