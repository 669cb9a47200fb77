"""A linear layer on the samples themselves, on a plane of weights: it is linear in them, and need not be multiplied again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

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
