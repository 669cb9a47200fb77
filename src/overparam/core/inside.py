"""What a network is to an audit: on fixed samples, seen from inside, whatever framework it is written in; and its weights by name."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np

from overparam.core.network import Trace, Unseen

Gates = Sequence[np.ndarray]
Weights = Mapping[str, np.ndarray]


@final
class DeviceWeights(Mapping[str, np.ndarray]):
    """Weights in float64 that stay on the device that computes. Read by name they are NumPy arrays, not to be written.

    JAX would turn sums of such arrays into float32 outside `enable_x64`, so only `audits/perturbations.py` and
    networks touch `arrays`; whoever reads by name is right in any case, and slower.

    Args:
        arrays: JAX arrays by name.

    >>> import jax.numpy as jnp
    >>> W = DeviceWeights({"W": jnp.ones((2, 2))})
    >>> W["W"].tolist(), W.shapes
    ([[1.0, 1.0], [1.0, 1.0]], {'W': (2, 2)})
    """

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.arrays = dict(arrays)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """By name; nothing is moved for it."""
        return {name: array.shape for name, array in self.arrays.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(self.arrays[name])

    def __contains__(self, name: object) -> bool:
        """Without reading it, which would bring the array from the device."""
        return name in self.arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


def raw(weights: Weights) -> Mapping[str, Any]:
    """The arrays where they are."""
    return weights.arrays if isinstance(weights, DeviceWeights) else weights


def like(weights: Weights, arrays: Mapping[str, Any]) -> Weights:
    """Arrays made of those of `weights`, held as these are."""
    return DeviceWeights(arrays) if isinstance(weights, DeviceWeights) else dict(arrays)


def shapes_of(weights: Weights) -> dict[str, tuple[int, ...]]:
    """By name; nothing is moved for it."""
    return weights.shapes if isinstance(weights, DeviceWeights) else {name: np.shape(W) for name, W in weights.items()}


class AbstractInside(abc.ABC):
    """A network on n fixed samples: its ReLU layers, the maps between them, and derivatives by its weights.

    All arrays in and out are float64, read as NumPy's; an implementation may keep weights and gradients where it
    computes. ReLU layers are numbered 0 … count − 1 in the order of the forward pass, leaky ReLUs among them. Their units are flattened: g_ℓ, which goes in, and h_ℓ, which comes out, are (n, widths[ℓ]).
    `weights` is everywhere a dict of all trained weights by name, in the shapes the network has them.

    J_i stands for a derivative between layers at sample i: of g_end, or of the output where end = count, by h_start, or
    by the sample itself where start = −1. All ways from one to the other count, skips too. In the deep fully connected
    network it is the product W_b D_{b−1} ⋯ D_a W_a with start = a − 1, end = b.

    `gates` are the diagonals D_ℓ of all ReLU layers, each (n, widths[ℓ]), in place of the network's own, which are 1
    where g > 0 and the slope elsewhere. With them the network is the one with these signs, whatever its weights.

    An implementation sets the attributes once it has looked at its network.

    Ref: convergence, Def. 2.5
    """

    start: Weights
    """The trained weights at the start."""
    shapes: Mapping[str, tuple[int, ...]]
    """Of the trained weights, by name."""
    samples: int
    """n, how many samples."""
    inputs: int
    """Numbers of a sample."""
    outputs: int
    """k; 1 where the network gives (n,)."""
    widths: tuple[int, ...]
    """Units of each ReLU layer."""
    slopes: tuple[float, ...]
    """Of each ReLU below 0: 0, or that of a leaky one."""
    unseen: tuple[Unseen, ...]
    """What else bends the network, one a kind; empty where the ReLU layers are all of it."""

    @property
    def weights(self) -> Weights:
        """The trained weights at the start: copies, or placed ones, which cannot be written."""
        placed = isinstance(self.start, DeviceWeights)
        return self.start if placed else {name: W.copy() for name, W in self.start.items()}

    @property
    def exact(self) -> bool:
        """Whether the network is linear between its ReLU layers, so that nothing that bends it is missed."""
        return not self.unseen

    @property
    def count(self) -> int:
        """The number of ReLU layers."""
        return len(self.widths)

    @abc.abstractmethod
    def trace(self, weights: Weights, gates: Gates | None = None) -> Trace:
        """The output (n, k), all g_ℓ and all h_ℓ."""

    @abc.abstractmethod
    def push(self, weights: Weights, start: int, V: np.ndarray, end: int, gates: Gates | None = None) -> np.ndarray:
        """J_i v_i of every sample: (n, size of start) in, (n, size of end) out."""

    @abc.abstractmethod
    def pull(self, weights: Weights, end: int, U: np.ndarray, start: int, gates: Gates | None = None) -> np.ndarray:
        """J_iᵀ u_i of every sample: (n, size of end) in, (n, size of start) out."""

    @abc.abstractmethod
    def along(self, weights: Weights, direction: Weights, gates: Gates | None = None) -> Trace:
        """The derivative of everything in the trace along a direction in the weights; layers left out do not move."""

    @abc.abstractmethod
    def gradient(self, weights: Weights, cotangent: Trace, gates: Gates | None = None) -> Weights:
        """∂/∂weights of Σ (cotangent · trace), over all its arrays; each of them may be None, for 0.

        An empty tuple stands for None in all layers: `Trace(output, (), ())`.
        """

    @abc.abstractmethod
    def push_gradient(
        self, weights: Weights, start: int, V: np.ndarray, end: int, U: np.ndarray, gates: Gates | None = None
    ) -> Weights:
        """∂/∂weights of Σ_i u_iᵀ J_i(weights) v_i. The signs of the ReLUs do not move: they are piecewise constant."""

    def output(self, weights: Weights) -> np.ndarray:
        """The outputs (n, k) alone, where the layers are not wanted."""
        return self.trace(weights).output

    def output_along(self, weights: Weights, direction: Weights) -> np.ndarray:
        """The derivative of the outputs alone along a direction in the weights."""
        return self.along(weights, direction).output

    def gates(self, trace: Trace) -> tuple[np.ndarray, ...]:
        """The network's own D_ℓ in a trace: 1 where g > 0, else the slope."""
        return tuple(np.where(g > 0, 1.0, slope) for g, slope in zip(trace.pre_activations, self.slopes, strict=True))

    def size(self, place: int) -> int:
        """Numbers of a sample at a place: −1 the sample, 0 … count − 1 the ReLU layers, count the output."""
        return (self.inputs, *self.widths, self.outputs)[place + 1]

    def require_places(self, start: int, end: int) -> None:
        """Raise unless start comes before end and both are there."""
        if not -1 <= start < end <= self.count:
            raise ValueError(
                f"`start` is {start} and `end` {end}; expected −1 ≤ start < end ≤ {self.count}: −1 is the sample, "
                f"0 to {self.count - 1} the ReLU layers, {self.count} the output"
            )

    def require_weights(self, weights: Weights, name: str = "weights", all_of_them: bool = True) -> None:
        """Raise unless these are the trained weights by name, in their shapes."""
        shapes = self.shapes
        for key, shape in shapes_of(weights).items():
            if key not in shapes:
                raise ValueError(f"`{name}` has {key!r}; the trained weights are {', '.join(shapes)}")
            if shape != shapes[key]:
                raise ValueError(f"`{name}` has {key!r} of shape {shape}; expected {shapes[key]}")
        missing = [key for key in shapes if key not in weights]
        if all_of_them and missing:
            raise ValueError(f"`{name}` lacks {missing[0]!r}; expected all of {', '.join(shapes)}")

    def require_rows(self, values: np.ndarray, place: int, name: str) -> np.ndarray:
        """A float64 array with a row a sample, of the size of a place, or raise."""
        rows = np.asarray(values, dtype=np.float64)
        if rows.shape != (self.samples, self.size(place)):
            raise ValueError(f"`{name}` has shape {rows.shape}; expected {(self.samples, self.size(place))}")
        return rows

    def require_gates(self, gates: Gates) -> None:
        """Raise unless there is one array (n, width) a ReLU layer."""
        found = [np.shape(gate) for gate in gates]
        expected = [(self.samples, width) for width in self.widths]
        if found != expected:
            raise ValueError(f"`gates` have shapes {found}; expected {expected}, one a ReLU layer")

    def cotangents(self, cotangent: Trace) -> tuple[np.ndarray | None, ...]:
        """Those of the output, of g_0, …, and of h_0, …, each (n, size) or None, in one row."""
        layers: list[np.ndarray | None] = []
        for name in ("pre_activations", "activations"):
            arrays = getattr(cotangent, name) or (None,) * self.count
            if len(arrays) != self.count:
                raise ValueError(f"`{name}` of the cotangent are {len(arrays)}; expected {self.count}, or none")
            layers += [
                None if array is None else self.require_rows(array, place, f"{name}[{place}]")
                for place, array in enumerate(arrays)
            ]
        output = cotangent.output
        return (None if output is None else self.require_rows(output, self.count, "output"), *layers)


def of_output(U: np.ndarray) -> Trace:
    """The cotangent that sees the outputs alone: `gradient` of it is Σ_i Σ_r U_ir ∂f_r(x_i)/∂W."""
    return Trace(U, (), ())
