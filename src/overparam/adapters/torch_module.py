"""PyTorch modules as networks of the house: outputs, weights by name, and the tangent kernel, made on the module's device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from overparam.core.checks import as_numbers, byte_count, require_finite, row_norms
from overparam.core.machine import ran_out
from overparam.core.network import AbstractTangents, Outputs, Params
from overparam.core.words import count_of

_RANGE = {"float32": (1e-15, 1e15), "float64": (1e-140, 1e140)}
"""Norms of samples whose squares, times a network's factors, stay within the precision."""

_ROUNDING = {"float64": 1e-12, "float32": 1e-5}
"""Of entries, by the precision of the weights; 1e-2 for all others."""


@final
@dataclass(frozen=True, eq=False)
class TorchModule(AbstractTangents):
    """A PyTorch module seen from the house; made by `from_torch`.

    Where `params` is None the module's weights of the moment are used, so that it may be trained between calls.

    module: the user's; never changed.
    shape: of the example, samples on the first axis.
    integer: whether inputs are integers (tokens).
    outputs: () where the module gives (n,), (k,) where it gives (n, k).
    dtype: "float32", "float64", or None for the module's own.
    memory: bytes that the blocks of a tangent kernel may take, beside the result.
    """

    module: Any
    shape: tuple[int, ...]
    integer: bool
    outputs: tuple[int, ...]
    dtype: str | None
    memory: int

    @property
    def entry_rounding(self) -> float:
        """1e-12 where the work is done in float64, 1e-5 in float32, 1e-2 with weights of half precision."""
        words = {str(weight.dtype) for weight in self.module.parameters() if weight.is_floating_point()}
        words = {word.removeprefix("torch.") for word in words} if self.dtype is None else {self.dtype}
        return max(_ROUNDING.get(word, 1e-2) for word in words)

    @property
    def output_count(self) -> int:
        """k where the module gives (n, k), 1 where it gives (n,)."""
        return self.outputs[0] if self.outputs else 1

    def init(self, key: Any = None, inputs: Any = None) -> Params:
        """The module's weights of the moment as NumPy arrays by name; `key` and `inputs` are not needed.

        trained: parameters with `requires_grad`; fixed: the others; state: buffers.
        """
        named = list(self.module.named_parameters())
        return Params(
            {name: _to_numpy(weight) for name, weight in named if weight.requires_grad},
            {name: _to_numpy(weight) for name, weight in named if not weight.requires_grad},
            {name: _to_numpy(buffer) for name, buffer in self.module.named_buffers()},
        )

    def apply(self, params: Params | None, x: Any) -> np.ndarray:
        """Outputs in evaluation mode as float64: (n,) or (n, k)."""
        import torch

        from overparam.adapters.torch_state import outputs_as_given, undisturbed

        with undisturbed(self.module), torch.no_grad():
            model = self._model(params)
            batch = self._batch(model, x, "x")
            weights = {**model.leaves, **model.rest}
            parts = [outputs_as_given(self.module, weights, rows) for rows in batch.split(256)]
            return torch.cat(parts).double().cpu().numpy()

    def contraction(self, params: Params | None, X: Any, Z: Any, outputs: Outputs) -> np.ndarray:
        """Σ_w ∂f_a(x_i)/∂w ∂f_b(z_j)/∂w over trained weights w, in float64, never with a Jacobian of all weights.

        Layers known in closed form (linear, convolution, embedding, batch, layer and group norm) are done from their
        inputs and cotangents; a weight used in another way by per-sample gradients, a few samples at once. float32
        modules keep about five digits, relative to √(Θ(x, x) Θ(z, z)); `from_torch(dtype="float64")` keeps twelve.

        Args:
            params: from `init`, or None for the module's weights of the moment.
            X, Z: samples on the first axis; Z=None takes X against itself.
            outputs: "full" gives (n, p, k, k); "trace" (n, p), the mean over equal outputs; an int that output's (n, p).
        """
        from overparam.adapters import torch_tangents

        chosen = _chosen(outputs, self.output_count)
        with self._differentiated(params) as model:
            x = self._batch(model, X, "X")
            z = None if Z is None else self._batch(model, Z, "Z")
            found = torch_tangents.contraction(model, x, z, chosen, outputs == "trace").numpy()
        return found if outputs == "full" else found[:, :, 0, 0]

    def diagonal(self, params: Params | None, X: Any, outputs: Literal["trace"] | int) -> np.ndarray:
        """(n,) in float64: Σ_w (∂f_a(x_i)/∂w)², the mean over outputs a for "trace", of one output for its number.

        Args:
            params: from `init`, or None for the module's weights of the moment.
            X: samples on the first axis.
            outputs: "trace" or the number of an output.
        """
        from overparam.adapters import torch_tangents

        if outputs == "full":
            raise ValueError("`outputs` is 'full'; a diagonal has 'trace' or the number of an output")
        chosen = _chosen(outputs, self.output_count)
        with self._differentiated(params) as model:
            return torch_tangents.diagonal(model, self._batch(model, X, "X"), chosen).numpy()

    def product(self, params: Params | None, X: Any, Z: Any, V: Any) -> np.ndarray:
        """Σ_j Θ(x_i, z_j) v_j, of the shape of the outputs on X: one backward and one forward derivative, no Θ.

        Args:
            params: from `init`, or None for the module's weights of the moment.
            X, Z: samples on the first axis; Z=None takes X.
            V: (p, k), or (p,) for one output.
        """
        import torch

        from overparam.adapters import torch_tangents

        k = self.output_count
        v = np.asarray(as_numbers(V, "V"), dtype=np.float64)
        require_finite(v, "V")
        with self._differentiated(params) as model:
            x = self._batch(model, X, "X")
            z = x if Z is None else self._batch(model, Z, "Z")
            if v.shape != (len(z), k) and (k > 1 or v.shape != (len(z),)):
                raise ValueError(f"`V` has shape {v.shape}; expected ({len(z)}, {k}), the shape of the outputs on `Z`")
            dtype = next(iter(model.leaves.values())).dtype
            seeds = torch.tensor(v.reshape(len(z), k), dtype=dtype, device=x.device)
            found = torch_tangents.product(model, x, z, seeds).cpu().numpy()
        return found.reshape(len(x), *self.outputs)

    @contextlib.contextmanager
    def _differentiated(self, params: Params | None) -> Iterator[Any]:
        """The module with its weights, in evaluation mode; what PyTorch cannot differentiate is one line."""
        from overparam.adapters.torch_state import undisturbed

        with undisturbed(self.module):
            model = self._model(params)
            try:
                yield model
            except RuntimeError as error:
                raise _not_differentiable(error) from error

    def _model(self, params: Params | None) -> Any:
        import torch

        from overparam.adapters.torch_state import Weighted, leaves_and_rest

        given: dict[str, Any] = {}
        if params is not None:
            given = _by_name(self.module, params)
        kind = None if self.dtype is None else getattr(torch, self.dtype)
        leaves, rest = leaves_and_rest(self.module, given, kind)
        return Weighted(self.module, leaves, rest, self.memory)

    def _batch(self, model: Any, X: Any, name: str) -> Any:
        """The samples as a tensor of the module's precision on its device, or one line on what is wrong with them."""
        import torch

        array = _samples(X, name)
        if array.ndim != len(self.shape) or len(array) == 0:
            raise ValueError(
                f"`{name}` has shape {array.shape}; expected (n, {', '.join(map(str, self.shape[1:]))}) like `example`, "
                "with n at least 1"
            )
        if (array.dtype.kind in "biu") != self.integer:
            raise ValueError(
                f"`{name}` holds {array.dtype} where `example` held {'integers' if self.integer else 'floating numbers'}; "
                + (
                    f"pass `{name}.astype(np.int64)`"
                    if self.integer
                    else f"pass `{name}.astype(float)`, scaled as in training"
                )
            )
        first = next(iter(model.leaves.values()))
        if self.integer:
            return torch.tensor(array.astype(np.int64), device=first.device)
        require_finite(array, name)
        word = str(first.dtype).removeprefix("torch.")
        low, high = _RANGE.get(word, (1e-3, 1e3))
        norms = row_norms(array.reshape(len(array), -1).astype(np.float64))
        odd = np.flatnonzero((norms > high) | ((norms < low) & (norms > 0)))
        if len(odd):
            raise ValueError(
                f"`{name}` has {count_of(len(odd), 'sample')} out of the range of {word} (first: {odd[0]}, of norm "
                f"{norms[odd[0]]:.1e}); scale them"
                + ("" if word == "float64" else ", or pass dtype='float64' to `from_torch`")
            )
        return torch.tensor(np.ascontiguousarray(array), dtype=first.dtype, device=first.device)


def from_torch(
    module: Any, example: Any, *, dtype: str | None = None, memory: int | float | str = "2 GiB"
) -> TorchModule:
    """A PyTorch module as a network of the house: `apply`, `init`, and its tangent kernel by `contraction`, `product`.

    It is evaluated as in `module.eval()`: batch norm with its running averages, dropout off. The module is never
    changed: its mode, gradients, hooks and the random state are as before after every call. Weights with
    `requires_grad=False` are not trained.

    Args:
        module: takes a batch (n, …) and gives (n,) or (n, k).
        example: a batch of inputs, one or more samples; it says what inputs look like.
        dtype: "float64" computes in double precision; None in the module's own.
        memory: bytes, or text such as "2 GiB", for the blocks of a tangent kernel, beside its result.

    >>> import torch
    >>> line = torch.nn.Linear(2, 1, bias=False)  # f = ⟨w, x⟩: its tangent kernel is ⟨x, z⟩
    >>> from_torch(line, [[1.0, 2.0]]).contraction(None, [[1.0, 2.0]], [[3.0, 4.0]], "trace")
    array([[11.]])
    """
    try:
        import torch
    except ImportError:
        raise ValueError("models of PyTorch need torch; install it: pip install 'overparam[torch]'") from None
    from overparam.adapters.torch_state import outputs_as_given, undisturbed

    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"`module` is a {type(module).__name__}; expected a torch.nn.Module")
    if dtype not in (None, "float32", "float64"):
        raise ValueError(f"`dtype` is {dtype!r}; expected 'float64', 'float32', or None for the module's own")
    module = getattr(module, "_orig_mod", module)  # what `torch.compile` wraps
    _require_weights(module)
    array = _samples(example, "example")
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"`example` has shape {array.shape}; expected a batch of at least one sample")
    integer = array.dtype.kind in "biu"
    network = TorchModule(module, array.shape, integer, (), dtype, byte_count(memory))
    with undisturbed(module), torch.no_grad():
        model = network._model(None)
        batch = network._batch(model, example, "example")
        out = outputs_as_given(module, {**model.leaves, **model.rest}, batch)
    if not bool(torch.isfinite(out).all()):
        raise ValueError("the module gives NaN or infinite outputs on `example`; look at its weights")
    return TorchModule(module, array.shape, integer, tuple(out.shape[1:]), dtype, network.memory)


def _require_weights(module: Any) -> None:
    import torch

    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_meta:
            raise ValueError(
                f"the module's {name!r} is on the device 'meta' and has no numbers; load its weights first"
            )
    for name, weight in module.named_parameters():
        if isinstance(weight, torch.nn.parameter.UninitializedParameter):
            raise ValueError(f"the module's weight {name!r} has no shape yet; run the module once on a batch first")
        if not weight.is_floating_point() and weight.requires_grad:
            raise ValueError(f"the module's weight {name!r} is {weight.dtype}; trained weights need to be real numbers")
    if not any(weight.requires_grad for weight in module.parameters()):
        raise ValueError("the module has no trained weights; set `requires_grad_(True)` on those that are trained")


def _samples(X: Any, name: str) -> np.ndarray:
    if isinstance(X, tuple | dict):
        raise ValueError(f"`{name}` is a {type(X).__name__}; expected one array: wrap the module in one of one input")
    if hasattr(X, "detach"):
        X = _to_numpy(X)
    return as_numbers(X, name)


def _to_numpy(tensor: Any) -> np.ndarray:
    """A copy as NumPy; bfloat16, which NumPy lacks, as float32."""
    tensor = tensor.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":
        tensor = tensor.float()
    return tensor.numpy().copy()


def _by_name(module: Any, params: Any) -> dict[str, Any]:
    """The weights given, each with the name and shape of one of the module's."""
    if not isinstance(params, Params):
        raise ValueError(f"`params` is a {type(params).__name__}; expected what `init()` gives, or None")
    given: dict[str, Any] = {}
    for part in (params.trained, params.fixed, params.state):
        given.update(part if isinstance(part, dict) else {})
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name, value in given.items():
        shape = tuple(np.shape(value))
        if name not in own or shape != tuple(own[name].shape):
            expected = tuple(own[name].shape) if name in own else "no such weight"
            raise ValueError(f"`params` has {name!r} of shape {shape}; the module has {expected}")
    missing = [name for name, weight in module.named_parameters() if weight.requires_grad and name not in given]
    if missing:
        raise ValueError(f"`params` lacks {missing[0]!r}; give all trained weights, as `init()` does")
    for name, value in given.items():
        require_finite(np.atleast_1d(_to_numpy(value) if hasattr(value, "detach") else value), f"params {name}")
    return given


def _not_differentiable(error: RuntimeError) -> ValueError | MemoryError:
    from overparam.adapters.torch_state import first_line

    if ran_out(error):
        return MemoryError(first_line(error))
    return ValueError(f"PyTorch cannot differentiate the module as it would in training: {first_line(error)}")


def _chosen(outputs: Any, k: int) -> int | None:
    if outputs in ("full", "trace"):
        return None
    if isinstance(outputs, int | np.integer) and not isinstance(outputs, bool) and 0 <= outputs < k:
        return int(outputs)
    raise ValueError(f"`outputs` is {outputs!r}; expected 'full', 'trace' or an output from 0 to {k - 1}")
