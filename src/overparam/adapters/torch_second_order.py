"""Linear layers and convolutions whose second derivative is written out: it takes fewer passes than PyTorch's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

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
        gx, gW = _LinearGradient.apply(g, x, W, ctx.needs_input_grad[0])  # pyright: ignore[reportGeneralTypeIssues]
        return gx, gW, g.sum(0) if ctx.biased else None


class _LinearGradient(Function):
    """(g W, gᵀ x), and its derivative along (cx, cW)."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor, W: Tensor, inner: bool) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(g, x, W)
        ctx.inner = inner
        return (g @ W if inner else None), g.t() @ x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cx: Tensor, cW: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        g, x, W = ctx.saved_tensors
        dg = x @ cW.t()
        if not ctx.inner:  # the samples themselves are not differentiated
            return dg, None, None, None
        return dg.addmm_(cx, W.t()), g @ cW, g.t() @ cx, None


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


@final
class SecondOrder(TorchFunctionMode):
    """Inside, a module's linear layers and two-dimensional convolutions are those above; all else is PyTorch's."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if not kwargs and func is F.linear and args[0].ndim == 2:
            x, W, b = (*args, None)[:3]
            return _Linear.apply(x, W, b)
        if not kwargs and func is F.conv2d and len(args) == 7 and args[0].ndim == 4 and not isinstance(args[4], str):
            x, W, b, *form = args
            return _Convolution.apply(x, W, b, tuple(form))
        return func(*args, **(kwargs or {}))
