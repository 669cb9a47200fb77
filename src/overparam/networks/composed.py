"""Networks that are compositions of layers, and their kernels."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from math import isfinite, prod
from typing import Any, Literal, final

import jax.numpy as jnp
import numpy as np

from overparam.core import checks
from overparam.core.kernel import AbstractKernel
from overparam.core.network import AbstractNetwork, Params, Trace, as_key
from overparam.layers.composition import Composition
from overparam.layers.layer import Seen

Trained = Literal["hidden", "all", "last"]
"""Which weights are trained: the hidden layers' (as the papers do), all, or the output layer's alone."""


class AbstractComposed(AbstractNetwork):
    """A network given by its layers: they draw its weights, run it, and give its kernel."""

    @abc.abstractmethod
    def composition(self, inputs: int) -> Composition:
        """The layers for rows of `inputs` numbers."""

    def init(self, key: Any, inputs: int | tuple[int, ...]) -> Params:
        """Fresh weights for rows of `inputs` numbers, or samples of that shape, from an int or a JAX key."""
        trained, fixed = self.composition(_features(inputs)).draw(as_key(key))
        return Params(trained, fixed)

    def apply(self, params: Params, x: Any) -> Any:
        """(n,) for one output, else (n, k), of a batch (n, …)."""
        return self._run(params, x, None)

    def trace(self, params: Params, x: Any) -> Trace:
        """The output with what goes into and comes out of every ReLU, first layer first."""
        seen: Seen = []
        output = self._run(params, x, seen)
        return Trace(output, tuple(g for g, _ in seen), tuple(h for _, h in seen))

    def kernel(self) -> AbstractKernel:
        """Of one output as the width grows, in this network's own scale: `get="ntk"` is the tangent kernel of the
        trained weights, `get="nngp"` the covariance of an output over the initial weights.

        Factors of the width stay in it where the parameterisation has them.
        """
        return CompositionKernel(self)

    def _run(self, params: Params, x: Any, seen: Seen | None) -> Any:
        x = jnp.asarray(x)
        if x.ndim < 2:
            raise ValueError(f"`x` has shape {x.shape}; expected a batch (n, …), such as `x[None]` for one sample")
        weights = {**params.fixed, **params.trained}
        return self.composition(prod(x.shape[1:])).apply(weights, x, seen)


@final
@dataclass(frozen=True)
class CompositionKernel(AbstractKernel):
    """The kernel of a network in the limit of infinite width, read from its layers, in float64 NumPy.

    Entries are within about 1e-14 · √(K(x, x) K(z, z)) of it, near-parallel and opposite rows included. Zero rows are
    allowed. `op.gram` takes kernels of the angle alone so far: call this one, `kernel(X)`.
    """

    network: AbstractComposed

    def evaluate(self, x: np.ndarray, z: np.ndarray, get: str = "ntk") -> float:
        """Of one pair of rows."""
        x = checks.finite_matrix(np.reshape(x, (1, -1)), "x")
        z = checks.finite_matrix(np.reshape(z, (1, -1)), "z")
        return float(self.block(x, z, get)[0, 0])

    def block(self, X: np.ndarray, Z: np.ndarray, get: str = "ntk") -> np.ndarray:
        """Of all pairs of a row of `X` with a row of `Z`."""
        composition = self.network.composition(X.shape[1])
        values = np.empty((len(X), len(Z)))
        cells = 2**18 // (1 if composition.grid is None else prod(composition.shape))
        step = max(1, cells // len(Z))  # panels: a layer keeps some twenty arrays of a number a pair and position
        for start in range(0, len(X), step):
            pairs = composition.pairs(X[start : start + step], Z)
            values[start : start + step] = self._read(composition, pairs, get)
        return values

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        """Of every row with itself."""
        composition = self.network.composition(X.shape[1])
        return self._read(composition, composition.equal_pairs(X), get)

    def _read(self, composition: Composition, pairs: Any, get: str) -> np.ndarray:
        if get not in ("ntk", "nngp"):
            raise ValueError(f"`get` is {get!r}; the kernel of a network has 'ntk' and 'nngp'")
        out = composition.kernel(np, pairs)
        return (out.ntk if get == "ntk" else out.second_moment(np))[0]


def trains(trained: Trained, role: Literal["input", "hidden", "output"]) -> bool:
    """Whether a layer with that role is trained.

    >>> [trains("hidden", role) for role in ("input", "hidden", "output")]
    [False, True, False]
    """
    if trained not in ("hidden", "all", "last"):
        raise ValueError(f"`trained` is {trained!r}; expected 'hidden', 'all' or 'last'")
    return trained == "all" or (trained == "hidden" and role == "hidden") or (trained == "last" and role == "output")


def require_count(value: int, name: str, least: int = 1) -> None:
    """Raise unless `value` is a whole number, `least` or more."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"`{name}` is {value!r}; expected a whole number, {least} or more")


def require_scale(value: float, name: str) -> None:
    """Raise unless `value` is a finite number ≥ 0."""
    if not isinstance(value, int | float | np.number) or not isfinite(value) or value < 0:
        raise ValueError(f"`{name}` is {value!r}; expected a finite number, 0 or more")


def _features(inputs: int | tuple[int, ...]) -> int:
    shape = inputs if isinstance(inputs, tuple) else (inputs,)
    for size in shape:
        require_count(size, "inputs")
    return prod(int(size) for size in shape)
