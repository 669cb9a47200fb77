"""PyTorch modules seen from inside, in evaluation mode: their ReLU layers and the derivatives between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from overparam.adapters.torch_module import TorchModule
from overparam.adapters.torch_relus import Reached, Tapping
from overparam.adapters.torch_state import first_line, leaves_and_rest, outputs_of, undisturbed
from overparam.core.inside import AbstractInside, Form, Gates
from overparam.core.network import Params, Trace
from overparam.core.placed import Weights, shapes_of
from overparam.core.seen import Seen

MEMORY = 2**30
"""Bytes that the values of one batch of rows may take, with what derivatives keep of them."""
COPIES = 4


@final
@dataclass(frozen=True, eq=False)
class _Link:
    """`there` as a function of `shift`, and `back` = Jᵀu as one of u, both with their graphs."""

    shift: Tensor
    there: Tensor
    u: Tensor
    back: Tensor


@final
@dataclass(frozen=True, eq=False)
class _Kept:
    """A link with the weights and gates it was made at."""

    places: tuple[int, int]
    arrays: tuple[np.ndarray, ...]
    link: _Link

    def is_of(self, places: tuple[int, int], arrays: Sequence[np.ndarray]) -> bool:
        """Whether it is for these places, weights and gates."""
        same = self.places == places and len(self.arrays) == len(arrays)
        return same and all(np.array_equal(a, b) for a, b in zip(self.arrays, arrays, strict=True))


@final
class TorchInside(AbstractInside):
    """A PyTorch module on n samples, in evaluation mode: dropout off, batch norm affine with its running averages.

    ReLUs are caught as the module runs: `nn.ReLU`, `nn.LeakyReLU`, `F.relu`, `torch.relu`, `clamp(min=0)` and their
    kin, also in place. Samples are on the first axis. The module is never changed.

    Args:
        network: from `from_torch`.
        params: from its `init`, or None for the module's weights of the moment.
        X: samples (n, …); rows are given the shape of the example where the numbers fit.
        dtype: "float64" or "float32", in which it computes.
        memory: bytes of one batch of rows.
    """

    def __init__(
        self, network: TorchModule, params: Params | None, X: Any, dtype: str = "float64", memory: int = MEMORY
    ) -> None:
        if network.integer:
            raise ValueError(
                "the module takes integers (tokens); an audit needs samples of real numbers: audit the part of the "
                "module after its embedding"
            )
        X = np.asarray(X, dtype=np.float64)
        shape = network.shape[1:]
        if X.shape[1:] != shape:
            if prod(X.shape[1:]) != prod(shape):
                raise ValueError(f"`X` has shape {X.shape}; expected (n, {', '.join(map(str, shape))}) like `example`")
            X = X.reshape(len(X), *shape)
        self._module, self._kind = network.module, getattr(torch, dtype)
        own = network.init() if params is None else params
        start = {name: np.array(value, np.float64) for name, value in own.trained.items()}
        given = {**own.fixed, **own.state}
        with undisturbed(self._module):
            leaves, self._rest = leaves_and_rest(self._module, {**given, **own.trained}, self._kind)
            self._device = next(iter(leaves.values())).device
            tapping, output = self._looked(start, X[:2])
        seen = tapping.seen.trace(output)
        widths = tuple(g[0].numel() for g in seen.pre_activations)
        self.form = Form(
            start, shapes_of(start), len(X), prod(shape), output.shape[1], widths, seen.slopes, seen.unseen
        )
        row = tapping.numbers / min(2, len(X)) * self._kind.itemsize * COPIES
        pieces = max(1, ceil(self.samples * row / memory))
        self._rows = ceil(self.samples / pieces)
        self._kept: list[_Kept] = []
        self._X = [self._place(X[first : first + self._rows]) for first in range(0, len(X), self._rows)]

    def trace(self, weights: Weights, gates: Gates | None = None) -> Trace:
        """The output (n, k), all g_ℓ and all h_ℓ."""
        with undisturbed(self._module), torch.no_grad():
            placed = self._weights(weights)
            return self._whole([self._run(placed, x, gates, place)[1] for place, x in enumerate(self._X)])

    def push(self, weights: Weights, start: int, V: np.ndarray, end: int, gates: Gates | None = None) -> np.ndarray:
        """J_i v_i of every sample: the derivative of Jᵀu by u."""
        self.require_places(start, end)
        V = self.require_rows(V, start, "V")
        links = enumerate(self._links(weights, start, end, gates))
        return _joined([self._derivative(link.back, [link.u], self._piece(V, place))[0] for place, link in links])

    def pull(self, weights: Weights, end: int, U: np.ndarray, start: int, gates: Gates | None = None) -> np.ndarray:
        """J_iᵀ u_i of every sample."""
        self.require_places(start, end)
        U = self.require_rows(U, end, "U")
        links = enumerate(self._links(weights, start, end, gates))
        return _joined([self._derivative(link.there, [link.shift], self._piece(U, place))[0] for place, link in links])

    def push_gradient(
        self, weights: Weights, start: int, V: np.ndarray, end: int, U: np.ndarray, gates: Gates | None = None
    ) -> dict[str, np.ndarray]:
        """∂/∂weights of Σ_i u_iᵀ J_i v_i, signs held, by two backward passes."""
        self.require_places(start, end)
        V, U = self.require_rows(V, start, "V"), self.require_rows(U, end, "U")
        total = {name: np.zeros(shape) for name, shape in self.shapes.items()}
        with undisturbed(self._module):
            placed = self._weights(weights, trained=True)
            for place, x in enumerate(self._X):
                shift, there = self._between(placed, x, gates, place, start, end)
                (back,) = self._derivative(there, [shift], self._piece(U, place), again=True)
                self._add(total, placed, back, self._piece(V, place))
        return total

    def along(self, weights: Weights, direction: Weights, gates: Gates | None = None) -> Trace:
        """The derivative of everything in the trace along a direction in the weights, by forward differentiation."""
        self.require_weights(direction, "direction", all_of_them=False)
        pieces = []
        with undisturbed(self._module), torch.no_grad():
            placed = self._weights(weights)
            towards = {name: self._place(value) for name, value in direction.items()}
            for place, x in enumerate(self._X):
                with forward_ad.dual_level():
                    dual = {
                        name: forward_ad.make_dual(value, towards[name]) if name in towards else value
                        for name, value in placed.items()
                    }
                    seen = self._run(dual, x, gates, place)[1]
                    g, h = (tuple(map(_tangent, part)) for part in (seen.pre_activations, seen.activations))
                    pieces.append(Trace(_tangent(seen.output), g, h))
        return self._whole(pieces)

    def gradient(self, weights: Weights, cotangent: Trace, gates: Gates | None = None) -> dict[str, np.ndarray]:
        """∂/∂weights of Σ (cotangent · trace)."""
        parts = self.cotangents(cotangent)
        total = {name: np.zeros(shape) for name, shape in self.shapes.items()}
        if all(part is None for part in parts):
            return total
        with undisturbed(self._module):
            placed = self._weights(weights, trained=True)
            for place, x in enumerate(self._X):
                seen = self._run(placed, x, gates, place)[1]
                arrays = (seen.output, *seen.pre_activations, *seen.activations)
                pairs = [(a, self._piece(b, place)) for a, b in zip(arrays, parts, strict=True) if b is not None]
                value = sum((torch.sum(a.reshape(len(x), -1) * b) for a, b in pairs), torch.zeros((), dtype=self._kind))
                self._add(total, placed, value, None)
        return total

    def _looked(self, start: Weights, X: np.ndarray) -> tuple[Tapping, Tensor]:
        """A first pass that finds the ReLUs and names what else bends."""
        tapping = Tapping(Seen(), len(X), look=True)
        x = self._place(X).requires_grad_(True)
        placed = {name: self._place(value) for name, value in start.items()}
        with tapping:
            output = outputs_of(self._module, {**placed, **self._rest}, x)
        if any(isinstance(layer, torch.jit.ScriptModule) for layer in self._module.modules()):
            tapping.seen.say("a scripted part: what is inside is not seen")
        return tapping, output

    def _run(
        self,
        placed: Mapping[str, Tensor],
        x: Tensor,
        gates: Gates | None,
        place: int,
        shifts: Sequence[Tensor | None] | None = None,
        stop: int | None = None,
    ) -> tuple[Tapping, Trace]:
        """One batch of rows, up to what goes into ReLU layer `stop` or to the end."""
        held = None if gates is None else [self._piece(gate, place) for gate in self._checked(gates)]
        tapping = Tapping(Seen(shifts, held), len(x), stop)
        output = None
        rest = {name: value.clone() for name, value in self._rest.items()}  # a forward pass may write into buffers
        try:
            with tapping:
                output = outputs_of(self._module, {**placed, **rest}, x)
        except Reached:
            pass
        return tapping, tapping.seen.trace(output)

    def _links(self, weights: Weights, start: int, end: int, gates: Gates | None) -> Iterator[_Link]:
        """Batch by batch. Of one batch the last two are kept: products at the same weights then run no forward pass."""
        arrays = [*(weights[name] for name in self.form.start if name in weights), *(gates or ())]
        for kept in self._kept:
            if kept.is_of((start, end), arrays):
                yield kept.link
                return
        placed = self._weights(weights)
        for place, x in enumerate(self._X):
            with undisturbed(self._module):
                shift, there = self._between(placed, x, gates, place, start, end)
                u = torch.zeros_like(there, requires_grad=True)
                (back,) = self._derivative(there, [shift], u, again=True)
            link = _Link(shift, there, u, back)
            if len(self._X) == 1:
                copies = tuple(np.array(array) for array in arrays)  # callers may change theirs
                self._kept = [_Kept((start, end), copies, link), *self._kept[:1]]
            yield link

    def _between(
        self, placed: Mapping[str, Tensor], x: Tensor, gates: Gates | None, place: int, start: int, end: int
    ) -> tuple[Tensor, Tensor]:
        """What is added to h_start or to the sample of one batch of rows, a variable, and g_end or the output."""
        shift = torch.zeros(len(x), self.size(start), dtype=self._kind, device=self._device, requires_grad=True)
        shifts = None if start < 0 else [shift if layer == start else None for layer in range(self.count)]
        x = x + shift.reshape(x.shape) if start < 0 else x
        tapping, seen = self._run(placed, x, gates, place, shifts, None if end == self.count else end)
        there = seen.output if end == self.count else tapping.last
        if there is None:
            raise ValueError(f"the module did not come to its ReLU layer {end}: its path depends on the weights")
        return shift, there.reshape(len(x), -1)

    def _derivative(self, value: Tensor, by: list[Tensor], U: Tensor | None, again: bool = False) -> tuple[Tensor, ...]:
        if not value.requires_grad:
            return tuple(torch.zeros_like(tensor) for tensor in by)
        try:
            with torch.inference_mode(False):
                return torch.autograd.grad(
                    value, by, U, retain_graph=True, create_graph=again, allow_unused=True, materialize_grads=True
                )
        except RuntimeError as error:
            raise ValueError(f"PyTorch cannot differentiate the module: {first_line(error)}") from error

    def _add(self, total: dict[str, np.ndarray], placed: Mapping[str, Tensor], value: Tensor, U: Tensor | None) -> None:
        found = self._derivative(value, [placed[name] for name in total], U)
        for name, slope in zip(total, found, strict=True):
            total[name] += slope.detach().double().cpu().numpy()

    def _weights(self, weights: Weights, trained: bool = False) -> dict[str, Tensor]:
        self.require_weights(weights)
        return {name: self._place(value).requires_grad_(trained) for name, value in weights.items()}

    def _checked(self, gates: Gates) -> Gates:
        self.require_gates(gates)
        return gates

    def _place(self, array: Any) -> Tensor:
        with torch.inference_mode(False):
            return torch.tensor(np.asarray(array), dtype=self._kind, device=self._device)

    def _piece(self, rows: np.ndarray, place: int) -> Tensor:
        return self._place(rows[place * self._rows : (place + 1) * self._rows])

    def _whole(self, pieces: list[Trace]) -> Trace:
        def layers(name: str) -> tuple[np.ndarray, ...]:
            return tuple(_joined([getattr(piece, name)[layer] for piece in pieces]) for layer in range(self.count))

        output = _joined([piece.output for piece in pieces])
        return Trace(output, layers("pre_activations"), layers("activations"), self.slopes, self.unseen)


def _tangent(dual: Tensor) -> Tensor:
    primal, tangent = forward_ad.unpack_dual(dual)
    return torch.zeros_like(primal) if tangent is None else tangent


def _joined(pieces: Sequence[Tensor]) -> np.ndarray:
    rows = torch.cat([piece.detach().reshape(len(piece), -1) for piece in pieces])
    return rows.double().cpu().numpy()
