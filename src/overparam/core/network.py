"""What a network is: parameters that are trained, fixed or running, a forward map, what is recorded of its inside; or, of a model
of another framework, the tangent kernel that it makes itself."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.tree_util import register_dataclass

ByRelu = Sequence[Any] | None
"""One array a ReLU layer, first layer first, None for a layer left alone; or None for all of them."""


@register_dataclass
@dataclass(frozen=True, eq=False)
class Params:
    """A network's parameters: pytrees of arrays, what an algorithm changes apart from what it leaves alone.

    trained: what gradient descent moves, each leaf a layer's weights, named by its path in the tree.
    fixed: drawn once and kept (output signs, untrained layers, biases).
    state: what `apply_train` changes without a gradient (running averages); empty for most networks.
    """

    trained: Any = field(metadata={"tree": True})
    fixed: Any = field(default=(), metadata={"tree": True})
    state: Any = field(default=(), metadata={"tree": True})


Kind = Literal["other", "maximum", "norm", "product", "other axis", "scripted"]
"""What bends a network beside the ReLUs that are recorded: see `Unseen`."""

_SAID: dict[Kind, str] = {
    "other": "{} (not of the ReLU kind)",
    "maximum": "{} (linear in pieces): which of its inputs is the largest",
    "norm": "{}: divides by a size that depends on the sample",
    "product": "product of {}: not linear between the ReLUs",
    "other axis": "a ReLU whose first axis is not the samples",
    "scripted": "a scripted part: what is inside",
}


@final
@dataclass(frozen=True)
class Unseen:
    """What bends a network and is not among the ReLU layers of its trace: its kind, and the names of what is of it.

    >>> str(Unseen("other", ("gelu", "tanh")))
    'gelu, tanh (not of the ReLU kind)'
    """

    kind: Kind
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return _SAID[self.kind].format(", ".join(self.names))


@register_dataclass
@dataclass(frozen=True, eq=False)
class Trace:
    """One forward pass seen from inside: the output and, ReLU layer by ReLU layer, what goes in and comes out.

    slopes: of each ReLU below 0, where they are known: 0, or that of a leaky one.
    unseen: what else bends the network, one a kind.
    """

    output: Any
    pre_activations: tuple[Any, ...]
    activations: tuple[Any, ...]
    slopes: tuple[float, ...] = field(default=(), metadata={"static": True})
    unseen: tuple[Unseen, ...] = field(default=(), metadata={"static": True})

    @property
    def signs(self) -> tuple[Any, ...]:
        """Which neurons are on: 1{g ≥ 0}, one array of booleans a ReLU layer, as the papers count them."""
        return tuple(g >= 0 for g in self.pre_activations)


@final
class ReluRecorder:
    """Collects what goes into and comes out of every ReLU, in the order of the forward pass.

    Args:
        shifts: added to the activations, ReLU by ReLU; None adds nothing, to one of them or to all. A shift has the
            shape of the activation, or (n, units).
        gates: factors h/g of the units in place of their own, which are 1 above 0 and the slope below: the network
            with its signs held.

    >>> import numpy as np
    >>> recorder = ReluRecorder(shifts=[np.array([[0.5, 0.5]])])
    >>> g = np.array([[-2.0, 3.0]])
    >>> recorder.record(g, np.maximum(g, 0), 0.0)
    array([[0.5, 3.5]])
    """

    def __init__(self, shifts: ByRelu = None, gates: ByRelu = None) -> None:
        self._shifts, self._gates = shifts, gates
        self._before: list[Any] = []
        self._after: list[Any] = []
        self._slopes: list[float] = []
        self._unseen: dict[Kind, list[str]] = {}

    def record(self, g: Any, h: Any, slope: float | None, name: str = "activation") -> Any:
        """What goes on: h of g, changed where that was asked for.

        Args:
            g: what goes in.
            h: what comes out.
            slope: of the function below 0, its slope above 0 being 1; None for functions that are not of this kind,
                which are left alone and named in `unseen`. A slope of 1 bends nothing and is passed over.
            name: of the function.
        """
        if slope is None:
            self.note("other", name)
        if slope is None or slope == 1.0:
            return h
        place = len(self._before)
        if self._gates is not None and self._gates[place] is not None:
            h = g * self._gates[place].reshape(g.shape)
        if self._shifts is not None and self._shifts[place] is not None:
            h = h + self._shifts[place].reshape(h.shape)
        self._before.append(g)
        self._after.append(h)
        self._slopes.append(float(slope))
        return h

    def note(self, kind: Kind, *names: str) -> None:
        """Note once what bends the network and is not a ReLU that is recorded."""
        noted = self._unseen.setdefault(kind, [])
        noted.extend(name for name in names if name not in noted)

    def trace(self, output: Any) -> Trace:
        """All of it, with the output."""
        unseen = tuple(Unseen(kind, tuple(names)) for kind, names in self._unseen.items())
        return Trace(output, tuple(self._before), tuple(self._after), tuple(self._slopes), unseen)


class AbstractNetwork(abc.ABC):
    """A network with its paper's initialisation. Implementations are frozen, hashable and hold no arrays.

    Weights are drawn in float64, so that a key means one start everywhere; outputs take JAX's precision in force.
    """

    @abc.abstractmethod
    def init(self, key: Any, inputs: int | tuple[int, ...]) -> Params:
        """Fresh parameters for inputs of that shape, from an int or a JAX key."""

    @abc.abstractmethod
    def apply(self, params: Params, x: Any) -> Any:
        """Outputs of a batch (n, …): (n,) or (n, k)."""

    def apply_train(self, params: Params, x: Any) -> tuple[Any, Any]:
        """Outputs as in training and the new `state`; the same as `apply` where there is none."""
        return self.apply(params, x), params.state

    @abc.abstractmethod
    def trace(self, params: Params, x: Any, shifts: ByRelu = None, gates: ByRelu = None) -> Trace:
        """The output with every ReLU's pre-activations and activations, leaky ReLUs among them.

        Args:
            params: of the network.
            x: a batch (n, …).
            shifts: added to the activations, ReLU by ReLU: derivatives by an activation are those by its shift.
            gates: factors of the units in place of the slopes of their ReLUs: the network with signs held.
        """


Outputs = Literal["full", "trace"] | int
"""Which outputs of a tangent kernel: all k × k pairs, the trace over equal ones divided by k, or one output's own."""


class AbstractTangents(abc.ABC):
    """A model that makes its own tangent kernel: Σ over trained weights w of ∂f_a(x)/∂w · ∂f_b(z)/∂w."""

    @property
    @abc.abstractmethod
    def entry_rounding(self) -> float:
        """Computed entries are within about twice this times √(Θ(x, x) Θ(z, z)) of the tangent kernel."""

    @property
    @abc.abstractmethod
    def output_count(self) -> int:
        """k, the outputs of a sample: 1 where the model gives (n,)."""

    @abc.abstractmethod
    def contraction(self, params: Any, X: np.ndarray, Z: np.ndarray | None, outputs: Outputs) -> np.ndarray:
        """(n, p, k, k) for "full", else (n, p), in float64; Z=None takes X against itself, each pair once."""

    @abc.abstractmethod
    def diagonal(self, params: Any, X: np.ndarray, outputs: Literal["trace"] | int) -> np.ndarray:
        """(n,) in float64: what `contraction` gives of every sample with itself, without the other pairs."""

    @abc.abstractmethod
    def product(self, params: Any, X: np.ndarray, Z: np.ndarray | None, V: np.ndarray) -> np.ndarray:
        """Σ_j Θ(x_i, z_j) v_j for V of shape (p, k) or (p,): of the shape of the outputs on X; Θ is never formed."""


def as_key(key: Any) -> Any:
    """A JAX key from an int or a JAX key, of the new style (`jax.random.key`) or the old (`PRNGKey`).

    >>> bool(as_key(3) == as_key(as_key(3))), bool(as_key(3) == as_key(jax.random.PRNGKey(3)))
    (True, True)
    """
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        if not 0 <= key < 2**32:  # others give one key in 32 bits and another one in 64
            raise ValueError(f"`key` is {key}; expected an int from 0 to {2**32 - 1}, or a JAX key")
        return jax.random.key(int(key))
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    if dtype is not None and shape == () and jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return key
    if dtype == np.uint32 and shape == jax.random.key_data(jax.random.key(0)).shape:
        return jax.random.wrap_key_data(jnp.asarray(key))
    raise ValueError(f"`key` is {key!r}; expected an int or a JAX key")


def drawn_in_float64(key: Any, draw: Callable[[Any], Params]) -> Params:
    """Weights as `draw` draws them in float64, whatever JAX's setting.

    Where that has no float64 they come as NumPy arrays, which keep their digits, in the order of their names; shapes
    alone (`jax.eval_shape`) come as the float32 that JAX would make of them.
    """
    double = jax.dtypes.canonicalize_dtype(np.float64) == np.float64
    if isinstance(key, Tracer) and not double:
        raise ValueError("`init` of a traced key draws in float64; call it outside of the transformation, or all of it "
                         "inside `jax.enable_x64(True)`")  # fmt: skip
    with jax.enable_x64(True):
        found = draw(as_key(key))
    if double:
        return found
    return replace(found, trained=_held(found.trained), fixed=_held(found.fixed), state=_held(found.state))


def _held(tree: Any) -> Any:
    """The arrays of a pytree for where JAX has no float64; a mapping keeps its order, which JAX would sort."""
    if isinstance(tree, dict):
        return {name: _held(part) for name, part in tree.items()}
    leaves, shape = jax.tree.flatten(tree)
    if any(isinstance(leaf, Tracer) for leaf in leaves):
        leaves = [leaf.astype(np.float32) if leaf.dtype == np.float64 else leaf for leaf in leaves]
    else:
        leaves = [np.asarray(leaf) for leaf in leaves]
    return jax.tree.unflatten(shape, leaves)
