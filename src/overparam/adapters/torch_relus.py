"""The ReLUs of a PyTorch module, caught as it runs: what goes in, what comes out, and a way to change it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from overparam.core.seen import Seen

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
@dataclass(frozen=True, eq=False)
class Call:
    """A call of a ReLU: what goes in, its slope below 0, and whether it is to write into what went in."""

    g: Tensor
    slope: float
    in_place: bool


@final
class Tapping(TorchFunctionMode):
    """While it is on, every ReLU of `samples` rows goes through `seen`.

    Args:
        seen: takes what goes in and what comes out, and may change it.
        samples: n, the length of the first axis of a ReLU's input.
        stop: the place of a ReLU before which the pass ends by `Reached`; None runs to the end.
        look: whether to name what else bends the outputs. It is told by what depends on tensors that require a
            gradient, so that in such a pass the samples do and the weights do not.
    """

    def __init__(self, seen: Seen, samples: int, stop: int | None = None, look: bool = False) -> None:
        super().__init__()
        self.seen, self._samples, self._stop, self._look = seen, samples, stop, look
        self.count, self.numbers, self.last = 0, 0, None

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        """What `func` gives, or for a ReLU what `seen` makes of it."""
        kwargs = kwargs or {}
        call = _relu(func, args, kwargs)
        if call is not None and call.g.ndim > 1 and len(call.g) == self._samples:
            return self._tapped(call)
        factors = sum(tensor.requires_grad for tensor in _tensors((args, kwargs))) if self._look else 0
        before = _tensors(args[1:]) if self._look else iter(())
        divided = any(tensor.requires_grad for tensor in before)
        out = func(*args, **kwargs)
        if self._look:
            self._name(_name_of(func, args, kwargs), out, factors, divided, call is not None)
        return out

    def _tapped(self, call: Call) -> Tensor:
        if call.slope == 1.0:
            return call.g
        g = call.g.clone() if call.in_place else call.g
        if self._stop == self.count:
            self.last = g
            raise Reached
        self.count += 1
        self.numbers += g.numel()
        h = torch.relu(g) if call.slope == 0 else F.leaky_relu(g, call.slope)
        h = self.seen.tap(g, h, call.slope)
        return call.g.copy_(h) if call.in_place else h

    def _name(self, name: str, out: Any, factors: int, divided: bool, relu: bool) -> None:
        if not any(tensor.requires_grad for tensor in _tensors(out)):
            return
        self.numbers += sum(tensor.numel() for tensor in _tensors(out))
        if relu:
            self.seen.say("a ReLU whose first axis is not the samples: not seen")
        elif "max_pool" in name or name in ("max", "amax", "maximum"):
            self.seen.say("max pool: linear in pieces, but which of its inputs is the largest is not seen")
        elif name in LINEAR or (name in LINEAR_IN_ONE and factors == 1) or (name in LINEAR_IN_FIRST and not divided):
            return
        elif name in LINEAR_IN_ONE:
            self.seen.say("not of the ReLU kind and not seen: product of values that depend on the sample")
        else:
            self.seen.say(f"not of the ReLU kind and not seen: {name.strip('_')}")


def _name_of(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """The function by name; `nn.ReLU6` runs as a hard tanh from 0 to 6."""
    name = getattr(func, "__name__", str(func))
    if name.strip("_") == "hardtanh":
        low = args[1] if len(args) > 1 else kwargs.get("min_val", -1)
        high = args[2] if len(args) > 2 else kwargs.get("max_val", 1)
        return "relu6" if (low, high) == (0, 6) else name
    return name


def _relu(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Call | None:
    """The call, where the function is the identity above 0 and a line below."""
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
    return Call(x, slope, written) if isinstance(x, Tensor) and x.is_floating_point() else None


def _tensors(values: Any) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, dict):
        yield from _tensors(tuple(values.values()))
    elif isinstance(values, tuple | list):
        for value in values:
            yield from _tensors(value)
