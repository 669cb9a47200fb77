"""PyTorch layers whose weight gradients are known in closed form, and passes that keep what these are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from overparam.adapters.torch_state import Weighted

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


@final
@dataclass(frozen=True, eq=False)
class Call:
    """One call of a known layer: its input, the place of its output in the graph, the names of its trained weights."""

    layer: nn.Module
    x: Tensor
    version: int
    averages: tuple[Tensor, Tensor] | None
    edge: GradientEdge
    shape: tuple[int, ...]
    names: Mapping[str, str]  # "weight" or "bias" to the name in the whole module
    uses: frozenset[tuple[Node, int]]  # where its node takes those weights


@final
@dataclass(frozen=True, eq=False)
class Pass:
    """Outputs (n, k) with their graph, the calls of known layers, and the weights that only a general method can do."""

    outputs: Tensor
    calls: tuple[Call, ...]
    structured: frozenset[str]
    general: frozenset[str]


@final
@dataclass(frozen=True, eq=False)
class MatrixUse:
    """One use of a weight matrix: a layer's input and its cotangents (n, groups, k, channels, positions)."""

    layer: nn.Module
    x: Tensor
    cotangents: Tensor


@final
@dataclass(frozen=True, eq=False)
class Captured:
    """What a block of n samples needs for its tangent kernel: uses of matrices by name, and small gradients (n, k, size)."""

    n: int
    matrices: Mapping[str, tuple[MatrixUse, ...]]
    small: Mapping[str, Tensor]


def forward(model: Weighted, x: Tensor, skip: Iterable[str] = ()) -> Pass:
    """Run the module on a batch and sort its trained weights.

    A weight is structured when every place of the graph that takes it is a call of a known layer with the samples on
    the first axis. Others, and those in `skip`, are general. Weights the outputs do not depend on are neither.
    """
    names = {id(leaf): name for name, leaf in model.leaves.items()}
    calls: list[Call] = []

    def keep(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        inputs = [*args, *kwargs.values()]
        if not isinstance(out, Tensor) or not out.requires_grad or len(inputs) != 1:
            return
        value = inputs[0]
        if not takes_batches(layer, value, len(x)) or out.grad_fn is None:
            return
        own = {which: names[id(w)] for which, w in layer.named_parameters(recurse=False) if id(w) in names}
        averages: Any = (layer.running_mean, layer.running_var) if isinstance(layer, BATCH_NORMS) else None
        uses = _uses([out.grad_fn], names, stop=value.grad_fn)
        taken = frozenset(use for places in uses.values() for use in places)
        calls.append(
            Call(layer, value.detach(), value._version, averages, get_gradient_edge(out), tuple(out.shape), own, taken)
        )

    hooks = [m.register_forward_hook(keep, with_kwargs=True) for m in model.module.modules() if is_known(m)]
    try:
        outputs = model.outputs(x)
    finally:
        for hook in hooks:
            hook.remove()
    if outputs.grad_fn is None:
        raise ValueError("the module's outputs depend on no trained weight; its tangent kernel is zero everywhere")
    known = frozenset().union(*(call.uses for call in calls))
    changed = {name for call in calls if call.x._version != call.version for name in call.names.values()}
    kinds: dict[str, set[tuple[Any, ...]]] = {}  # uses of different kinds have gradients of different layouts
    for call in calls:
        for which, name in call.names.items():
            kind = (type(call.layer), which, getattr(call.layer, "groups", 1))
            kinds.setdefault(name, set()).add(kind)
    uses = _uses([outputs.grad_fn], names)
    structured = {
        name
        for name, places in uses.items()
        if places <= known and name not in changed and len(kinds.get(name, ())) == 1 and name not in set(skip)
    }
    return Pass(outputs, tuple(calls), frozenset(structured), frozenset(uses) - structured)


def _uses(
    roots: Iterable[Node], names: Mapping[int, str], stop: Node | None = None
) -> dict[str, set[tuple[Node, int]]]:
    """Every place of the graph below `roots` that takes a leaf: the leaf's name to (node, number of its input)."""
    found: dict[str, set[tuple[Node, int]]] = {}
    seen, open_ = set(roots), list(roots)
    while open_:
        node = open_.pop()
        for place, (child, _) in enumerate(node.next_functions):
            if child is None or child is stop:
                continue
            leaf = getattr(child, "variable", None)
            if leaf is not None:
                if id(leaf) in names:
                    found.setdefault(names[id(leaf)], set()).add((node, place))
            elif child not in seen:
                seen.add(child)
                open_.append(child)
    return found


def weights_with_bias(model: Weighted) -> dict[str, str]:
    """Weights of linear layers to their biases where no other layer has either.

    Their inputs get a column of ones, so that one product does both.
    """
    names = {id(weight): name for name, weight in model.module.named_parameters()}
    counts = Counter(id(w) for layer in model.module.modules() for _, w in layer.named_parameters(recurse=False))
    pairs: dict[str, str] = {}
    for layer in model.module.modules():
        own = {which: names[id(w)] for which, w in layer.named_parameters(recurse=False) if counts[id(w)] == 1}
        if type(layer) is nn.Linear and own.keys() == {"weight", "bias"} and model.leaves.keys() >= set(own.values()):
            pairs[own["weight"]] = own["bias"]
    return pairs


def backward(passed: Pass, seeds: Tensor, wanted: Iterable[str], with_bias: Mapping[str, str]) -> Captured:
    """Cotangents of every call for each seed: `seeds` is (s, n, k), one backward pass of the whole batch a seed.

    Samples do not see each other, so one pass gives each sample its own cotangents. Normalisations and biases are
    summed at once; the cotangents of matrices are kept for the contraction. Where `with_bias` names a weight's bias
    the input gets a column of ones in its place.
    """
    wanted = set(wanted)
    joined = {weight: bias for weight, bias in with_bias.items() if {weight, bias} <= wanted}
    wanted -= set(joined.values())
    calls = [call for call in passed.calls if wanted.intersection(call.names.values())]
    n, count = len(passed.outputs), len(seeds)
    if not calls:
        return Captured(n, {}, {})
    dtype = torch.promote_types(passed.outputs.dtype, torch.float32)  # halves are contracted in float32
    kept: list[Tensor | None] = [None] * len(calls)
    small: dict[str, Tensor] = {}
    fixed = [_normalised(call, wanted, dtype) for call in calls]
    for number, seed in enumerate(seeds):
        cotangents = torch.autograd.grad(
            passed.outputs, [call.edge for call in calls], seed, retain_graph=number + 1 < count, allow_unused=True
        )
        for place, (call, cotangent) in enumerate(zip(calls, cotangents, strict=True)):
            if cotangent is None:  # called, and not part of the outputs
                continue
            cotangent = cotangent.to(dtype)
            for which, name in call.names.items():
                if name not in wanted:
                    continue
                if which == "weight" and isinstance(call.layer, MATRICES):
                    rows = by_position(call.layer, cotangent)
                    stack = kept[place]
                    if stack is None:
                        stack = kept[place] = rows.new_zeros((n, rows.shape[1], count, *rows.shape[2:]))
                    stack[:, :, number] = rows
                else:
                    part = small_gradient(call.layer, fixed[place] if which == "weight" else None, cotangent)
                    if name not in small:
                        small[name] = part.new_zeros((n, count, part.shape[1]))
                    small[name][:, number] += part
    matrices: dict[str, tuple[MatrixUse, ...]] = {}
    for call, stack in zip(calls, kept, strict=True):
        if stack is None:
            continue
        name, x = call.names["weight"], call.x
        if isinstance(call.layer, nn.Embedding):
            if call.layer.padding_idx is not None:  # that row is not trained
                skipped = x.reshape(n, -1) == call.layer.padding_idx
                stack.masked_fill_(skipped[:, None, None, None], 0)
        else:
            x = x.to(dtype)
            if name in joined:
                x = torch.cat([x, x.new_ones((*x.shape[:-1], 1))], -1)
        matrices[name] = (*matrices.get(name, ()), MatrixUse(call.layer, x, stack))
    return Captured(n, matrices, small)


def _normalised(call: Call, wanted: set[str], dtype: torch.dtype) -> Tensor | None:
    if isinstance(call.layer, MATRICES) or call.names.get("weight") not in wanted:
        return None
    averages = call.averages
    pair = None if averages is None else (averages[0].to(dtype), averages[1].to(dtype))
    return normalised(call.layer, call.x.to(dtype), pair)
