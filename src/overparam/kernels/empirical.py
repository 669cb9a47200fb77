"""The tangent kernel of a finite network at its present weights."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, final

import jax
import numpy as np

from overparam.core import checks
from overparam.core.kernel import AbstractKernel
from overparam.core.network import AbstractNetwork, AbstractTangents, Outputs
from overparam.kernels.empirical_blocks import SMALLEST, Derivatives, checked_output
from overparam.kernels.empirical_rows import cast_leaf, hashable, taken_apart


@final
@dataclass(frozen=True, eq=False)
class Empirical(AbstractKernel):
    """Θ(x, z) = Σ over trained weights w of ∂f(x)/∂w · ∂f(z)/∂w, of any function f(params, x), at these params.

    The function is read before it is differentiated. Where a weight array enters a dense product or a convolution,
    Θ is a sum over positions of ⟨h, h̃⟩⟨b, b̃⟩, inputs of the layer times derivatives by its outputs, and no gradient
    is formed, or gradients are formed for a piece of the units at a time; tables are compared by the rows looked up;
    gradients by the rest (scales, scans, weights used in two ways) are taken array by array, for as many rows at once
    as fit. The Jacobian of the whole is never stored, and a pair of blocks of rows is visited once.

    Compiled code is kept by the network or function: the same one with other weights is not compiled again. Models of
    Equinox and Flax of one structure count as the same.

    Args:
        network: a network of the house (`params.trained` is differentiated), a function of (params, x) with x a batch
            (all leaves with floating point numbers are), or a model from `adapters`.
        params: the weights; None where the model carries its own.
        outputs: for k outputs, "trace" is the mean of the k kernels of one output, and a number is that output's.
        dtype: "float64" computes in it whatever the weights have, and keeps the digits that the function keeps;
            "float32" is faster and keeps about 6. Not for models of PyTorch: `from_torch` has its own.
        memory: most bytes for derivatives, such as "256 MiB". The result and the program itself come on top. Not for
            models of PyTorch: `from_torch` has its own.

    For f(x) = w·x the kernel is x·z:

    >>> kernel = Empirical(lambda w, x: x @ w, np.array([1.0, 1.0]))
    >>> kernel(np.array([[1.0, 2.0], [3.0, 0.0]]))
    array([[5., 3.],
           [3., 9.]])
    """

    network: AbstractNetwork | AbstractTangents | Callable[[Any, Any], Any]
    params: Any = None
    outputs: Literal["trace"] | int = "trace"
    dtype: Literal["float64", "float32"] = "float64"
    memory: int | float | str = "256 MiB"

    def __post_init__(self) -> None:
        _require_wrapped(self.network)
        if not callable(self.network) and not isinstance(self.network, AbstractNetwork | AbstractTangents):
            raise ValueError(
                f"`network` is a {type(self.network).__name__}; expected a network, a function of (params, x), or a "
                "model from `op.adapters`"
            )
        number = isinstance(self.outputs, int | np.integer) and not isinstance(self.outputs, bool)
        if self.outputs != "trace" and not (number and int(self.outputs) >= 0):
            raise ValueError(f"`outputs` is {self.outputs!r}; expected 'trace' or the number of an output from 0 on")
        checks.one_of(self.dtype, "dtype", tuple(SMALLEST))
        checks.byte_count(self.memory)
        if isinstance(self.network, AbstractTangents):
            if (self.dtype, self.memory) != (Empirical.dtype, Empirical.memory):
                raise ValueError("`dtype` and `memory` are not for models of PyTorch; give them to `op.from_torch`")
        elif not hashable(self.network):
            raise ValueError(
                f"`network` is a {type(self.network).__name__} that cannot be hashed, and compiled code is kept by it; give "
                "a plain function, or make its class `@dataclass(frozen=True, eq=False)`"
            )
        carries = isinstance(self.network, AbstractTangents) or getattr(self.network, "params", None) is not None
        if self.params is None and not carries:
            raise ValueError("`params` is missing; give the weights, for instance `network.init(key, inputs)`")

    @property
    def entry_rounding(self) -> float:
        """1e-12 in float64, 1e-5 in float32, 4 eps of what is coarser; a model of another framework says its own.

        It is that of the coarsest numbers the function goes through, which are known once it was read with samples:
        after the first matrix. Before, it is that of `dtype`.
        """
        if isinstance(self.network, AbstractTangents):
            return self.network.entry_rounding
        met = self._rows.met if "_rows" in vars(self) else set()
        eps = max(met | {float(np.finfo(self.dtype).eps)})
        known = {float(np.finfo(name).eps): rounding for name, rounding in (("float64", 1e-12), ("float32", 1e-5))}
        return known.get(eps, 4 * eps)

    @property
    def exact_diagonal(self) -> bool:
        """A sample with itself is a pair like any other."""
        return True

    def evaluate(self, x: Any, z: Any, get: str = "ntk") -> float:
        """Of one pair of samples."""
        x, z = self.inputs(np.asarray(_on_host(x))[None], "x"), self.inputs(np.asarray(_on_host(z))[None], "z")
        return float(self.block(x, z, get)[0, 0])

    def block(self, X: np.ndarray, Z: np.ndarray, get: str = "ntk") -> np.ndarray:
        """Of all pairs of a sample of `X` with one of `Z`."""
        _known(get)
        return self._contraction(X, None if Z is X else Z, self.outputs)

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        """Of every sample with itself."""
        _known(get)
        if isinstance(self.network, AbstractTangents):
            return self.network.diagonal(self.params, X, self.outputs)
        with self._computing() as rows:
            return _finite(rows.diagonal(X, self.outputs), self.dtype)

    def full(self, X: Any, Z: Any = None) -> np.ndarray:
        """(n, p, k, k): ∂f_a(x_i) · ∂f_b(z_j) for all pairs of outputs; several axes of outputs count as one."""
        X = self.inputs(X, "X")
        return self._contraction(X, None if Z is None else self.inputs(Z, "Z"), "full")

    def product(self, X: Any, V: Any, Z: Any = None) -> np.ndarray:
        """Σ_j Θ(x_i, z_j) v_j, z = x where `Z` is left out; Θ is never formed: one backward and one forward pass.

        On accelerators JAX takes float64 through max pooling with fewer digits in the forward pass, and warns.

        Args:
            X: n samples.
            V: (p, k), a number a sample and output: gives (n, k). Or (p,): gives (n,), the product with the kernel
                that `outputs` names, "trace" with k backward and forward passes.
            Z: p samples.

        >>> kernel = Empirical(lambda w, x: x @ w, np.array([1.0, 1.0]))
        >>> kernel.product(np.array([[1.0, 2.0], [3.0, 0.0]]), [1.0, 1.0])
        array([ 8., 12.])
        """
        X = self.inputs(X, "X")
        Z = X if Z is None else self.inputs(Z, "Z")
        _same_samples(X, Z)
        V = checks.targets(V, len(Z), "V")
        k = self._output_count(X)
        if V.ndim == 2 and V.shape[1] != k:
            raise ValueError(f"`V` has shape {V.shape}; expected ({len(Z)}, {k}), a number an output, or ({len(Z)},)")
        if V.ndim == 2 or k == 1:
            return self._product(X, V.reshape(len(Z), k), Z).reshape(len(X), *V.shape[1:])
        chosen = range(k) if self.outputs == "trace" else [checked_output(int(self.outputs), k)]
        columns = [self._product(X, V[:, None] * np.eye(k)[a], Z)[:, a] for a in chosen]
        return np.sum(columns, axis=0) / len(columns)

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        """Samples along the first axis, of any shape: whole numbers (tokens, images) stay so, others are float64."""
        if isinstance(X, tuple) and any(np.ndim(part) > 0 and hasattr(part, "shape") for part in X):
            raise ValueError(
                f"`{name}` is a tuple of {len(X)} arrays; give one array with samples along its first axis, and take it "
                "apart in the function"
            )
        array = checks.as_numbers(_on_host(X), name)
        if array.ndim == 0 or 0 in array.shape:
            raise ValueError(f"`{name}` has shape {array.shape}; it needs samples along its first axis, at least one")
        if array.dtype.kind == "f":
            array = np.asarray(array, dtype=np.float64)
        checks.require_finite(array, name)
        return array

    def _contraction(self, X: np.ndarray, Z: np.ndarray | None, outputs: Outputs) -> np.ndarray:
        if Z is not None:
            _same_samples(X, Z)
        if isinstance(self.network, AbstractTangents):
            return self.network.contraction(self.params, X, Z, outputs)
        with self._computing() as rows:
            return _finite(rows.contraction(X, Z, outputs), self.dtype)

    def _product(self, X: np.ndarray, V: np.ndarray, Z: np.ndarray) -> np.ndarray:
        if isinstance(self.network, AbstractTangents):
            return np.reshape(self.network.product(self.params, X, Z, V), (len(X), -1))
        with self._computing() as rows:
            return _finite(rows.product(X, V, Z), self.dtype)

    def _output_count(self, X: np.ndarray) -> int:
        if isinstance(self.network, AbstractTangents):
            return self.network.output_count
        with self._computing() as rows:
            return rows.plan(X, 0).outputs

    @contextlib.contextmanager
    def _computing(self) -> Iterator[Derivatives]:
        """The function and its weights, in the precision asked for."""
        with jax.enable_x64(self.dtype == "float64"), jax.default_matmul_precision("highest"):
            yield self._rows

    @cached_property
    def _rows(self) -> Derivatives:
        params = self.params
        if params is None:  # the model's own
            params = self.network.init(0, ())  # pyright: ignore[reportAttributeAccessIssue, reportFunctionMemberAccess]
        forward, trained, others = taken_apart(self.network, params)
        trained, others = ([cast_leaf(leaf, self.dtype) for leaf in leaves] for leaves in (trained, others))
        return Derivatives(forward, trained, others, self.dtype, checks.byte_count(self.memory))


def _require_wrapped(network: Any) -> None:
    """One line for models of other frameworks as they are."""
    origins = {cls.__module__.split(".")[0] for cls in type(network).__mro__}
    for name in ("torch", "flax", "equinox"):
        # Equinox' wrappers of functions are modules too, without arrays.
        if name in origins and (name != "equinox" or any(hasattr(leaf, "dtype") for leaf in jax.tree.leaves(network))):
            raise ValueError(
                f"`network` is a {type(network).__name__}; wrap the model: `Empirical(op.from_{name}(model, ...))`"
            )


def _on_host(X: Any) -> Any:
    """Tensors of PyTorch as arrays: without their graph, on any device, in kinds of numbers that NumPy has not."""
    if not hasattr(X, "detach"):
        return X
    tensor = X.detach().cpu()
    return (tensor.double() if tensor.is_floating_point() else tensor).numpy()


def _known(get: str) -> None:
    if get != "ntk":
        raise ValueError(f"`get` is {get!r}; a finite network has 'ntk' alone")


def _same_samples(X: np.ndarray, Z: np.ndarray) -> None:
    if X.shape[1:] != Z.shape[1:]:
        raise ValueError(f"`X` has samples of shape {X.shape[1:]} and `Z` of {Z.shape[1:]}; they need the same shape")
    if (X.dtype.kind == "f") != (Z.dtype.kind == "f"):
        raise ValueError(f"`X` has {X.dtype} and `Z` {Z.dtype}; give both as whole numbers or both as floats")


def _finite(values: np.ndarray, dtype: str) -> np.ndarray:
    if not np.isfinite(values).all():
        first = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise ValueError(f"the kernel is not finite at {first}: derivatives overflow in {dtype}; scale the samples")
    return values
