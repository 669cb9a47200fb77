"""Linear layers, convolutions and ReLUs whose second derivative is written out: it takes fewer passes than PyTorch's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.grad import conv2d_input, conv2d_weight
from torch.overrides import TorchFunctionMode


class _Linear(Function):
    """x Wᵀ + b."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, W: Tensor, b: Tensor | None) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(x, W)
        ctx.biased = b is not None
        return F.linear(x, W, b)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, W = ctx.saved_tensors
        return _LinearGradient.apply(g, x, W, ctx.needs_input_grad[0], ctx.biased)


class _LinearGradient(Function):
    """(g W, gᵀ x, Σ g), and its derivative along (cx, cW, cb)."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor, W: Tensor, inner: bool, biased: bool) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(g, x, W)
        ctx.inner = inner
        return (g @ W if inner else None), g.t() @ x, (g.sum(0) if biased else None)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cx: Any, cW: Tensor, cb: Tensor | None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        g, x, W = ctx.saved_tensors
        dg = F.linear(x, cW, cb)
        if not ctx.inner:  # the samples themselves are not differentiated
            return dg, None, None, None, None
        return dg.addmm_(cx, W.t()), g @ cW, g.t() @ cx, None, None


class _Relu(Function):
    """max(x, 0). PyTorch's own adds zeros to the gradient of its outputs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        y = torch.relu(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _ReluGradient.apply(g, ctx.saved_tensors[0])


class _ReluGradient(Function):
    """g where y > 0, else 0."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, y: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(y)
        return torch.ops.aten.threshold_backward(g, y, 0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, c: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return torch.ops.aten.threshold_backward(c, ctx.saved_tensors[0], 0), None


class _Convolution(Function):
    """W ∗ x + b; `form`: stride, padding, dilation, groups."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, W: Tensor, b: Tensor | None, form: tuple[Any, ...]) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(x, W)
        ctx.biased, ctx.form = b is not None, form
        return F.conv2d(x, W, b, *form)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, W = ctx.saved_tensors
        inner = ctx.needs_input_grad[0]
        gx, gW = _ConvolutionGradient.apply(g, x, W, ctx.form, inner)  # pyright: ignore[reportGeneralTypeIssues]
        return gx, gW, g.sum((0, 2, 3)) if ctx.biased else None, None


class _ConvolutionGradient(Function):
    """The gradients of a convolution in x and W, and their derivative along (cx, cW)."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor, W: Tensor, form: tuple[Any, ...], inner: bool) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(g, x, W)
        ctx.form, ctx.inner = form, inner
        gx = conv2d_input(x.shape, W, g, *form) if inner else None
        return gx, conv2d_weight(x, W.shape, g, *form)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cx: Tensor, cW: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        g, x, W = ctx.saved_tensors
        dg = F.conv2d(x, cW, None, *ctx.form)
        if not ctx.inner:
            return dg, None, None, None, None
        dg = dg.add_(F.conv2d(cx, W, None, *ctx.form))
        return dg, conv2d_input(x.shape, cW, g, *ctx.form), conv2d_weight(cx, W.shape, g, *ctx.form), None, None


RELUS = (F.relu, torch.relu, Tensor.relu)


@final
class SecondOrder(TorchFunctionMode):
    """Inside, a module's linear layers, two-dimensional convolutions and ReLUs are those above; all else is PyTorch's."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if not kwargs and func is F.linear and args[0].ndim == 2:
            x, W, b = (*args, None)[:3]
            return _Linear.apply(x, W, b)
        if not kwargs and func is F.conv2d and len(args) == 7 and args[0].ndim == 4 and not isinstance(args[4], str):
            x, W, b, *form = args
            return _Convolution.apply(x, W, b, tuple(form))
        if func in RELUS and len(args) == 1 and not any((kwargs or {}).values()):  # one in place is left alone
            return _Relu.apply(args[0])
        return func(*args, **(kwargs or {}))
