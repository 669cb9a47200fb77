"""PyTorch modules seen from inside, in evaluation mode: their ReLUs, caught as they run, and derivatives between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from overparam.adapters.torch_module import TorchModule
from overparam.adapters.torch_state import first_line, leaves_and_rest, outputs_of, undisturbed
from overparam.core.inside import AbstractInside, Gates, Weights, shapes_of
from overparam.core.network import Params, ReluRecorder, Trace

RELUS = (F.relu, F.relu_, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_)
LEAKY = (F.leaky_relu, F.leaky_relu_)
THRESHOLDS = (F.threshold, F.threshold_, torch.threshold)  # pyright: ignore[reportAttributeAccessIssue]
CLAMPS = (torch.clamp, torch.clamp_, Tensor.clamp, Tensor.clamp_, torch.clip, torch.clip_, Tensor.clip, Tensor.clip_)
LOWER_CLAMPS = (torch.clamp_min, torch.clamp_min_, Tensor.clamp_min, Tensor.clamp_min_)
LINEAR = frozenset(
    """__add__ __radd__ __iadd__ add add_ sub sub_ __sub__ __rsub__ __isub__ rsub neg __neg__ positive __pos__ __get__
    view reshape flatten ravel permute transpose swapaxes movedim moveaxis t squeeze unsqueeze expand repeat contiguous
    clone to float double type type_as cat concat concatenate stack hstack vstack chunk split unbind tensor_split narrow
    select index_select __getitem__ gather sum mean nansum cumsum roll flip pad _pad unfold fold unflatten tile
    broadcast_to view_as reshape_as expand_as requires_grad_ retain_grad diagonal tril triu pixel_shuffle
    batch_norm avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    dropout dropout_ dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout""".split()  # noqa: SIM905
)
"""Functions linear in all that depends on the sample, in evaluation mode; batch norm uses its running averages there."""
LINEAR_IN_ONE = frozenset(
    """linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d matmul __matmul__ __rmatmul__ mm mv
    bmm dot inner addmm baddbmm einsum tensordot mul mul_ __mul__ __rmul__ __imul__ multiply bilinear""".split()  # noqa: SIM905
)
"""Linear where one factor alone depends on the sample."""
LINEAR_IN_FIRST = frozenset({"div", "div_", "true_divide", "__truediv__", "__itruediv__"})


@final
class Reached(BaseException):
    """Ends a forward pass where all that was asked for is known. Not an error: modules that catch those let it pass."""


@final
class Tapping(TorchFunctionMode):
    """While it is on, every ReLU of `samples` rows goes through `recorder`.

    Args:
        recorder: takes what goes in and what comes out, and may change it.
        samples: n, the length of the first axis of a ReLU's input.
        stop: the place of a ReLU before which the pass ends by `Reached`; None runs to the end.
        look: whether to name what else bends the outputs. It is told by what depends on tensors that require a
            gradient, so that in such a pass the samples do and the weights do not.
    """

    def __init__(self, recorder: ReluRecorder, samples: int, stop: int | None = None, look: bool = False) -> None:
        super().__init__()
        self.recorder, self._samples, self._stop, self._look = recorder, samples, stop, look
        self.count, self.numbers, self.last = 0, 0, None

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        """What `func` gives, or for a ReLU what `recorder` makes of it."""
        kwargs = kwargs or {}
        call = _relu(func, args, kwargs)
        if call is not None and call[0].ndim > 1 and len(call[0]) == self._samples:
            return self._tapped(*call)
        factors = sum(tensor.requires_grad for tensor in _tensors((args, kwargs))) if self._look else 0
        before = _tensors(args[1:]) if self._look else iter(())
        divided = any(tensor.requires_grad for tensor in before)
        out = func(*args, **kwargs)
        if self._look:
            self._name(_name_of(func, args, kwargs), out, factors, divided, call is not None)
        return out

    def _tapped(self, given: Tensor, slope: float, in_place: bool) -> Tensor:
        if slope == 1.0:
            return given
        g = given.clone() if in_place else given
        if self._stop == self.count:
            self.last = g
            raise Reached
        self.count += 1
        self.numbers += g.numel()
        h = torch.relu(g) if slope == 0 else F.leaky_relu(g, slope)
        h = self.recorder.record(g, h, slope)
        return given.copy_(h) if in_place else h

    def _name(self, name: str, out: Any, factors: int, divided: bool, relu: bool) -> None:
        if not any(tensor.requires_grad for tensor in _tensors(out)):
            return
        self.numbers += sum(tensor.numel() for tensor in _tensors(out))
        if relu:
            self.recorder.note("other axis")
        elif "max_pool" in name or name in ("max", "amax", "maximum"):
            self.recorder.note("maximum", "max pooling")
        elif name in LINEAR or (name in LINEAR_IN_ONE and factors == 1) or (name in LINEAR_IN_FIRST and not divided):
            return
        elif name in LINEAR_IN_ONE:
            self.recorder.note("product", "values that depend on the sample")
        else:
            self.recorder.note("other", name.strip("_"))


def _name_of(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """The function by name; `nn.ReLU6` runs as a hard tanh from 0 to 6."""
    name = getattr(func, "__name__", str(func))
    if name.strip("_") == "hardtanh":
        low = args[1] if len(args) > 1 else kwargs.get("min_val", -1)
        high = args[2] if len(args) > 2 else kwargs.get("max_val", 1)
        return "relu6" if (low, high) == (0, 6) else name
    return name


def _relu(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Tensor, float, bool] | None:
    """What goes into a ReLU, its slope below 0, and whether it writes there; None where the function is no ReLU."""
    kind = next((kind for kind in (RELUS, LEAKY, THRESHOLDS, CLAMPS, LOWER_CLAMPS) if func in kind), None)
    if kind is None:
        return None
    values = list(args)

    def given(place: int, name: str, default: Any) -> Any:
        return values[place] if len(values) > place else kwargs.get(name, default)

    x = given(0, "input", None)
    if kind is RELUS:
        slope, in_place = 0.0, given(1, "inplace", False)
    elif kind is LEAKY:
        slope, in_place = float(given(1, "negative_slope", 0.01)), given(2, "inplace", False)
    elif kind is THRESHOLDS:
        if given(1, "threshold", None) != 0 or given(2, "value", None) != 0:
            return None
        slope, in_place = 0.0, given(3, "inplace", False)
    else:
        low, high = given(1, "min", None), None if kind is LOWER_CLAMPS else given(2, "max", None)
        if high is not None or isinstance(low, Tensor) or low != 0:
            return None
        slope, in_place = 0.0, False
    written = getattr(func, "__name__", "").endswith("_") or bool(in_place)
    return (x, slope, written) if isinstance(x, Tensor) and x.is_floating_point() else None


def _tensors(values: Any) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, dict):
        yield from _tensors(tuple(values.values()))
    elif isinstance(values, tuple | list):
        for value in values:
            yield from _tensors(value)


MEMORY = 2**30
"""Bytes that the values of one batch of rows may take, with what derivatives keep of them."""
COPIES = 4


@final
@dataclass(frozen=True, eq=False)
class _Between:
    """What lies between two places of one batch: `there` as a function of `shift`, `back` = Jᵀu as one of u, with graphs.

    arrays: the weights and gates it was made at.
    """

    places: tuple[int, int]
    arrays: tuple[np.ndarray, ...]
    shift: Tensor
    there: Tensor
    u: Tensor
    back: Tensor

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
        seen = tapping.recorder.trace(output)
        widths = tuple(g[0].numel() for g in seen.pre_activations)
        self.start, self.shapes, self.samples = start, shapes_of(start), len(X)
        self.inputs, self.outputs, self.widths = prod(shape), output.shape[1], widths
        self.slopes, self.unseen = seen.slopes, seen.unseen
        row = tapping.numbers / min(2, len(X)) * self._kind.itemsize * COPIES
        pieces = max(1, ceil(self.samples * row / memory))
        self._rows = ceil(self.samples / pieces)
        self._kept: list[_Between] = []
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
        tapping = Tapping(ReluRecorder(), len(X), look=True)
        x = self._place(X).requires_grad_(True)
        placed = {name: self._place(value) for name, value in start.items()}
        with tapping:
            output = outputs_of(self._module, {**placed, **self._rest}, x)
        if any(isinstance(layer, torch.jit.ScriptModule) for layer in self._module.modules()):
            tapping.recorder.note("scripted")
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
        tapping = Tapping(ReluRecorder(shifts, held), len(x), stop)
        output = None
        rest = {name: value.clone() for name, value in self._rest.items()}  # a forward pass may write into buffers
        try:
            with tapping:
                output = outputs_of(self._module, {**placed, **rest}, x)
        except Reached:
            pass
        return tapping, tapping.recorder.trace(output)

    def _links(self, weights: Weights, start: int, end: int, gates: Gates | None) -> Iterator[_Between]:
        """Batch by batch. Of one batch the last two are kept: products at the same weights then run no forward pass."""
        arrays = [*(weights[name] for name in self.start if name in weights), *(gates or ())]
        for kept in self._kept:
            if kept.is_of((start, end), arrays):
                yield kept
                return
        copies = tuple(np.array(array) for array in arrays) if len(self._X) == 1 else ()  # callers may change theirs
        placed = self._weights(weights)
        for place, x in enumerate(self._X):
            with undisturbed(self._module):
                shift, there = self._between(placed, x, gates, place, start, end)
                u = torch.zeros_like(there, requires_grad=True)
                (back,) = self._derivative(there, [shift], u, again=True)
            link = _Between((start, end), copies, shift, there, u, back)
            if len(self._X) == 1:
                self._kept = [link, *self._kept[:1]]
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
