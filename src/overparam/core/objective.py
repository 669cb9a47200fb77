"""What is minimised, as a function of all trained weights: its value, gradient and products with its Hessian."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from overparam.core.words import count_of

Mode = Literal["eval", "train"]
MODES: tuple[Mode, ...] = ("eval", "train")

Vector = Any
"""One number a trained weight, as one long array of the framework, on the device. Only objectives look inside."""


@dataclass(frozen=True)
class Batch:
    """Rows chosen by chance, without repetition: the same ones for the same key and step."""

    size: int
    key: int = 0
    step: int = 0


@dataclass(frozen=True)
class Layer:
    """One array of weights and its place in the long vector."""

    name: str
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def part(self) -> slice:
        return slice(self.start, self.start + self.size)


def require_averages(n: int, chunk: int) -> None:
    """Raise where batch norm would average over one row: it has no spread."""
    chunk = min(chunk, n)
    if 1 in (chunk, n % chunk):
        raise ValueError(
            f"mode 'train' averages over chunks of {chunk} of the {count_of(n, 'row')}, one of which has a single row; take another "
            "`chunk`, or mode 'eval'"
        )


class AbstractObjective(abc.ABC):
    """F(w) on n rows, computed in chunks of them; weights and directions are vectors that stay on the device.

    Attributes:
        layers: the trained arrays in their order in a vector.
        n: rows.
        chunk: rows that go through the network together. In mode "train" batch norm uses the averages of a chunk.
        mode: "eval" uses the running averages of batch norm, "train" those of the rows at hand. Dropout is off.
        mean: whether F is the mean over rows, or their sum.
        digits: decimal digits one product of numbers keeps.
        words: what is minimised, in words.
    """

    layers: tuple[Layer, ...]
    n: int
    chunk: int
    mode: Mode
    mean: bool
    digits: int
    words: str

    @property
    def size(self) -> int:
        """How many weights."""
        return self.layers[-1].start + self.layers[-1].size

    @property
    @abc.abstractmethod
    def start(self) -> Vector:
        """The weights it was made with."""

    @abc.abstractmethod
    def vector(self, weights: Any) -> Vector:
        """Weights or a direction as a vector: None (the start), arrays by name, a flat array, or what the network calls
        its weights. Checked."""

    @abc.abstractmethod
    def flat(self, vector: Vector) -> np.ndarray:
        """A vector as NumPy float64, (size,)."""

    def named(self, vector: Vector) -> dict[str, np.ndarray]:
        """A vector as NumPy float64 arrays by name."""
        flat = self.flat(vector)
        return {layer.name: flat[layer.part].reshape(layer.shape) for layer in self.layers}

    def joined(self, arrays: Mapping[str, Any]) -> np.ndarray:
        """Arrays by name as one flat float64 array; the inverse of `named`."""
        missing = [layer.name for layer in self.layers if layer.name not in arrays]
        if missing or len(arrays) != len(self.layers):
            odd = missing or [name for name in arrays if name not in {layer.name for layer in self.layers}]
            raise ValueError(
                f"the weights {'lack' if missing else 'have'} {odd[0]!r}; expected {', '.join(x.name for x in self.layers)}"
            )
        parts = []
        for layer in self.layers:
            array = np.asarray(arrays[layer.name], dtype=np.float64)
            if array.shape != layer.shape:
                raise ValueError(f"the weights have shape {array.shape} at {layer.name!r}; expected {layer.shape}")
            parts.append(array.ravel())
        return np.concatenate(parts)

    @abc.abstractmethod
    def value(self, w: Vector, batch: Batch | None = None) -> float:
        """F(w), on all rows or on a batch."""

    @abc.abstractmethod
    def gradient(self, w: Vector, batch: Batch | None = None) -> Vector:
        """The gradient ∇F(w), on all rows or on a batch."""

    @abc.abstractmethod
    def hessian_product(self, w: Vector, v: Vector, batch: Batch | None = None) -> Vector:
        """The product ∇²F(w) v of the Hessian with a vector, on all rows or on a batch."""

    @abc.abstractmethod
    def values(self, w: Vector, directions: Sequence[Vector], places: np.ndarray) -> np.ndarray:
        """F(w + Σ_i places[q, i] directions[i]) for every q, as float64 (q,): the points run as one program."""

    @abc.abstractmethod
    def walk(
        self,
        w: Vector,
        v: Vector,
        coefficients: np.ndarray,
        *,
        smoothing: float,
        batch: int | None,
        key: int,
        first: int = 0,
    ) -> tuple[Vector, np.ndarray, np.ndarray]:
        """Steps v ← a v − b H_t v − c v_before, scaled to norm 1, as one program, for rows (a, b, c) of `coefficients`.

        H_t = ∇²F(w + smoothing·ξ_t) with ξ_t ~ N(0, I) of its own for every step t = first, first + 1, …, on all rows or on
        a batch of its own. a = 1, c = 0 is Oja's method for the least eigenvalue; a = 0, b = −1, c = 0 power iteration; b = 0
        leaves v as it is.

        Returns:
            The last v, and for every step vᵀH_t v and ‖H_t v‖ of the unit v it began with.
        """

    @abc.abstractmethod
    def dot(self, a: Vector, b: Vector) -> float:
        """The inner product ⟨a, b⟩."""

    @abc.abstractmethod
    def combine(self, *terms: tuple[float, Vector]) -> Vector:
        """Σ factor · vector."""

    @abc.abstractmethod
    def normal(self, key: int) -> Vector:
        """Independent N(0, 1) numbers."""

    @abc.abstractmethod
    def only(self, v: Vector, layer: Layer) -> Vector:
        """v on one layer, 0 elsewhere."""

    @abc.abstractmethod
    def room(self, count: int) -> Any:
        """An array of that many rows of 0 on the device, each as long as a vector."""

    @abc.abstractmethod
    def placed(self, rows: Any, place: int, v: Vector) -> Any:
        """The rows with v at a place; those given are used up."""

    @abc.abstractmethod
    def without(self, v: Vector, rows: Any) -> Vector:
        """v less its part in the span of the rows, which are orthonormal or 0; done twice, for rounding."""

    @abc.abstractmethod
    def mixed(self, rows: Any, factors: np.ndarray) -> Vector:
        """Σ factors[i] · rows[i]."""

    def norm(self, v: Vector) -> float:
        """The length ‖v‖."""
        return float(np.sqrt(self.dot(v, v)))

    def unit(self, v: Vector) -> Vector:
        """v / ‖v‖; v itself where it is 0."""
        norm = self.norm(v)
        return self.combine((1 / norm, v)) if norm > 0 else v
