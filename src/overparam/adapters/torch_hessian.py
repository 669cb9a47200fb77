"""Quicker second derivatives of a PyTorch module: layers written out, chains of linear layers, planes of weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


_LOOKS = {"__get__", "__len__", "size", "dim", "numel", "is_floating_point"}
"""What may be asked of a tensor on the way: it computes nothing."""


Link = tuple[int, int | None, bool]
"""One linear layer: places of its weights and its bias among the trained arrays, and whether a ReLU follows."""


@final
class _Recorder(TorchFunctionMode):
    """Notes the linear layers and ReLUs that run inside; anything else that computes ends it."""

    def __init__(self, leaves: Sequence[Tensor]) -> None:
        super().__init__()
        self.places = {id(leaf): place for place, leaf in enumerate(leaves)}
        self.links: list[Link] = []
        self.first: Tensor | None = None
        self.last: Tensor | None = None
        self.plain = True

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        out = func(*args, **given)
        if func is F.linear and not given and self._is_next(*args):
            x, W, bias = (*args, None)[:3]
            self.first = x if self.first is None else self.first
            self.links.append((self.places[id(W)], None if bias is None else self.places[id(bias)], False))
            self.last = out
        elif func in RELUS and len(args) == 1 and not any(given.values()) and self._may_bend(args[0]):
            self.links[-1] = (*self.links[-1][:2], True)
            self.last = out
        elif func in (F.dropout, torch.flatten, Tensor.flatten):
            # dropout that is off gives its input back; samples may be flattened on their way to the first layer
            self.plain = self.plain and (out is args[0] or (func is not F.dropout and not self.links))
        elif getattr(func, "__name__", "") not in _LOOKS:
            self.plain = False
        return out

    def _is_next(self, x: Tensor, W: Tensor, b: Tensor | None = None) -> bool:
        fresh = x is self.last if self.links else not x.requires_grad
        return fresh and x.ndim == 2 and id(W) in self.places and (b is None or id(b) in self.places)

    def _may_bend(self, x: Tensor) -> bool:
        return bool(self.links) and x is self.last and not self.links[-1][2]


def find_chain(call: Callable[[Tensor], Tensor], leaves: Sequence[Tensor], x: Tensor) -> tuple[Link, ...]:
    """The links of a module, seen on a few rows; none where it is no such chain that ends in a linear layer, or where
    layers share weights.

    Args:
        call: the module with the leaves in the place of its weights.
        leaves: its trained arrays.
        x: rows.
    """
    with _Recorder(leaves) as seen:
        out = call(x)
    used = sorted(place for link in seen.links for place in link[:2] if place is not None)
    whole = seen.plain and out is seen.last and used == list(range(len(leaves)))
    if not whole or seen.first is None or seen.links[-1][2] or not torch.equal(seen.first, x.reshape(len(x), -1)):
        return ()
    return tuple(seen.links)


@final
class ChainProducts:
    """The products of one vector of weights and some rows.

    With x_ℓ the inputs of the layers and g_ℓ the gradients in their outputs, both derivatives along a direction V go
    through the layers once: Rz = x Vᵀ + (Rx) Wᵀ forwards, R(gᵀx) = (Rg)ᵀx + gᵀ(Rx) and R(g W) = (Rg) W + g V back.
    """

    def __init__(
        self, links: Sequence[Link], leaves: Sequence[Tensor], x: Tensor, loss: Callable[[Tensor], Tensor]
    ) -> None:
        self.links, self.sizes = links, [leaf.numel() for leaf in leaves]
        self.weights = [leaf.detach() for leaf in leaves]
        with torch.no_grad():
            inputs = [x.reshape(len(x), -1)]
            for weight, bias, relu in links:
                z = F.linear(inputs[-1], self.weights[weight], self._of(self.weights, bias))
                inputs.append(torch.relu_(z) if relu else z)
        self.outputs = inputs.pop().requires_grad_()
        self.inputs = inputs
        self.bend = torch.autograd.grad(loss(self.outputs), self.outputs, create_graph=True)[0]
        g = self.bend.detach()
        self.gradients = [g]
        for place in range(len(links) - 1, 0, -1):
            g = self._masked(place, g @ self.weights[links[place][0]])
            self.gradients.insert(0, g)

    def along(self, v: Tensor) -> Tensor:
        """∇² v, as one long tensor."""
        result = torch.empty_like(v)
        with torch.no_grad():
            V, out = ([part.view_as(w) for part, w in zip(whole.split(self.sizes), self.weights, strict=True)]
                      for whole in (v, result))  # fmt: skip
            moved: list[Tensor | None] = [None]
            for place, (weight, bias, _) in enumerate(self.links):
                Rz = F.linear(self.inputs[place], V[weight], self._of(V, bias))
                before = moved[-1]
                if before is not None:
                    Rz.addmm_(before, self.weights[weight].t())
                moved.append(self._masked(place + 1, Rz))
            Rg = self._bent(moved.pop())
            for place in range(len(self.links) - 1, -1, -1):
                (weight, bias, _), before, g = self.links[place], moved[place], self.gradients[place]
                torch.mm(Rg.t(), self.inputs[place], out=out[weight])
                if bias is not None:
                    torch.sum(Rg, 0, out=out[bias])
                if before is not None:
                    out[weight].addmm_(g.t(), before)
                    Rg = self._masked(place, (Rg @ self.weights[weight]).addmm_(g, V[weight]))
        return result

    def _of(self, arrays: Sequence[Tensor], bias: int | None) -> Tensor | None:
        return None if bias is None else arrays[bias]

    def _masked(self, place: int, g: Tensor) -> Tensor:
        """g where the ReLU before a layer lets it through; after the last layer there is none."""
        return torch.ops.aten.threshold_backward(g, self.inputs[place], 0) if self.links[place - 1][2] else g

    def _bent(self, Ru: Any) -> Tensor:
        """The derivative of the loss's gradient in the outputs along Ru."""
        if not self.bend.requires_grad:  # of a loss that does not curve
            return torch.zeros_like(Ru)
        with torch.enable_grad():
            found = torch.autograd.grad(
                self.bend, self.outputs, Ru, retain_graph=True, materialize_grads=True, allow_unused=True
            )
        return found[0]


MOST_BYTES = 2**28
"""Most memory for the outputs of first layers that are kept."""


@final
class FirstLayers(TorchFunctionMode):
    """Inside, x (W + Σ aᵢ Vᵢ)ᵀ is the sum of x Wᵀ and aᵢ x Vᵢᵀ, which are made once, for samples x.

    A module is run many times with weights on a plane; of all its layers only those that see the samples know the same
    inputs every time.

    Args:
        samples: all of them; what is passed to the module are parts of this tensor.
        pieces: the weights that move, by identity, as the module sees them.
        spans: for each of them, its value in the middle of the plane and along every direction.
    """

    def __init__(self, samples: Tensor, pieces: Sequence[Tensor], spans: Sequence[Sequence[Tensor]]) -> None:
        super().__init__()
        self._storage = samples.untyped_storage().data_ptr()
        self._spans = {id(piece): span for piece, span in zip(pieces, spans, strict=True)}
        self._made: dict[tuple[Any, ...], list[Tensor]] = {}
        self._left = MOST_BYTES
        self.place: Sequence[float] = ()
        """Where on the plane the weights are now."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func is F.linear and not given and self._is_first(args):
            made = self._outputs(*args)
            if made is not None:
                total = torch.add(made[0], made[1], alpha=self.place[0])
                for factor, along in zip(self.place[1:], made[2:], strict=True):
                    total.add_(along, alpha=factor)
                return total
        return func(*args, **given)

    def _is_first(self, args: tuple[Any, ...]) -> bool:
        x, weight, *bias = args
        moves = id(weight) in self._spans and all(b is None or id(b) in self._spans for b in bias)
        return moves and x.untyped_storage().data_ptr() == self._storage

    def _outputs(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> list[Tensor] | None:
        """Of the middle and of every direction; None where they would take too much memory."""
        name = (x.data_ptr(), tuple(x.shape), x.stride(), id(weight), id(bias))
        if name not in self._made:
            spans = self._spans[id(weight)]
            need = len(spans) * x.shape[:-1].numel() * weight.shape[0] * x.element_size()
            if need > self._left:
                return None
            self._left -= need
            biases = [None] * len(spans) if bias is None else self._spans[id(bias)]
            self._made[name] = [F.linear(x, W, b) for W, b in zip(spans, biases, strict=True)]
        return self._made[name]
