"""A module that is linear layers with ReLUs between: products with its Hessian written out, forward and back once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from overparam.adapters.torch_second_order import RELUS

_LOOKS = {"__get__", "__len__", "size", "dim", "numel", "is_floating_point"}
"""What may be asked of a tensor on the way: it computes nothing."""


@dataclass(frozen=True)
class Link:
    """One linear layer: places of its weights and its bias among the trained arrays, and whether a ReLU follows."""

    weight: int
    bias: int | None
    relu: bool


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
            self.links.append(Link(self.places[id(W)], None if bias is None else self.places[id(bias)], False))
            self.last = out
        elif func in RELUS and len(args) == 1 and not any(given.values()) and self._may_bend(args[0]):
            self.links[-1] = Link(self.links[-1].weight, self.links[-1].bias, True)
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
        return bool(self.links) and x is self.last and not self.links[-1].relu


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
    used = sorted(place for link in seen.links for place in (link.weight, link.bias) if place is not None)
    whole = seen.plain and out is seen.last and used == list(range(len(leaves)))
    if not whole or seen.first is None or seen.links[-1].relu or not torch.equal(seen.first, x.reshape(len(x), -1)):
        return ()
    return tuple(seen.links)


@final
class Chain:
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
            for link in links:
                z = F.linear(inputs[-1], self.weights[link.weight], self._of(self.weights, link))
                inputs.append(torch.relu_(z) if link.relu else z)
        self.outputs = inputs.pop().requires_grad_()
        self.inputs = inputs
        self.bend = torch.autograd.grad(loss(self.outputs), self.outputs, create_graph=True)[0]
        g = self.bend.detach()
        self.gradients = [g]
        for place in range(len(links) - 1, 0, -1):
            g = self._masked(place, g @ self.weights[links[place].weight])
            self.gradients.insert(0, g)

    def along(self, v: Tensor) -> Tensor:
        """∇² v, as one long tensor."""
        result = torch.empty_like(v)
        with torch.no_grad():
            V, out = ([part.view_as(w) for part, w in zip(whole.split(self.sizes), self.weights, strict=True)]
                      for whole in (v, result))  # fmt: skip
            moved: list[Tensor | None] = [None]
            for place, link in enumerate(self.links):
                Rz = F.linear(self.inputs[place], V[link.weight], self._of(V, link))
                before = moved[-1]
                if before is not None:
                    Rz.addmm_(before, self.weights[link.weight].t())
                moved.append(self._masked(place + 1, Rz))
            Rg = self._bent(moved.pop())
            for place in range(len(self.links) - 1, -1, -1):
                link, before, g = self.links[place], moved[place], self.gradients[place]
                torch.mm(Rg.t(), self.inputs[place], out=out[link.weight])
                if link.bias is not None:
                    torch.sum(Rg, 0, out=out[link.bias])
                if before is not None:
                    out[link.weight].addmm_(g.t(), before)
                    Rg = self._masked(place, (Rg @ self.weights[link.weight]).addmm_(g, V[link.weight]))
        return result

    def _of(self, arrays: Sequence[Tensor], link: Link) -> Tensor | None:
        return None if link.bias is None else arrays[link.bias]

    def _masked(self, place: int, g: Tensor) -> Tensor:
        """g where the ReLU before a layer lets it through; after the last layer there is none."""
        return torch.ops.aten.threshold_backward(g, self.inputs[place], 0) if self.links[place - 1].relu else g

    def _bent(self, Ru: Any) -> Tensor:
        """The derivative of the loss's gradient in the outputs along Ru."""
        if not self.bend.requires_grad:  # of a loss that does not curve
            return torch.zeros_like(Ru)
        with torch.enable_grad():
            found = torch.autograd.grad(
                self.bend, self.outputs, Ru, retain_graph=True, materialize_grads=True, allow_unused=True
            )
        return found[0]
