"""The kernel of convolutional ReLU networks, with a pooled or a flattened head."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, Literal, final

import numpy as np

from overparam.core import checks
from overparam.core.checks import per_layer, require_counts, set_tuples, trained_layers
from overparam.core.kernel import KINDS, AbstractKernel
from overparam.core.machine import has_accelerator
from overparam.core.provenance import usable_cores
from overparam.kernels.composed import Composed
from overparam.kernels.convolution_images import Images, Patches
from overparam.layers import Flatten, GlobalPool, Relu
from overparam.layers.standard import Part, conv, dense

SMALLEST = {"float32": 1e-15, "float64": 1e-70}
"""Standard deviations below this, relative to the largest of their layer, count as 0: inverses and squares stay in range."""


@final
@dataclass(frozen=True)
class Convolutional(AbstractKernel):
    """The kernel of `depth` convolutions, each with a ReLU after it, and a linear head, as the channels grow.

    A convolution is h → (W_std/(patch·√channels)) W * h + b_std b with entries of W and b from N(0, 1), at stride 1; padded
    zeros count in the patch. With S(i, k) the mean product of channels at position i of x and k of z, layer by layer

        Q(i, k) = W_std² mean_o S(i + o, k + o) + b_std²    (o over the patch),
        S ← E[σ(u)σ(v)],    T ← (W_std² mean_o T(i + o, k + o) + Q [layer trained]) E[σ′(u)σ′(v)],

    (u, v) Gaussian with covariance Q. The head takes the mean over all i, k ("pool": global average pooling) or over i = k
    ("flatten"), then a fully connected layer: nngp = W_std² mean S + b_std², ntk = nngp [trained] + W_std² mean T.

    In float64 an entry is within 1e-13 of √(K(x, x) K(z, z)), parallel patches included (black, uniform, repeated ones).
    float32 is about four times as fast; on photographs its entries keep six digits. The diagonal is
    always made in float64.

    Other activations, strides, local weights, layer norms and pooling between layers: `op.networks.Sequence([...]).kernel()`.

    Args:
        depth: how many convolutions, each with its ReLU.
        patch: side of the square patches.
        W_std, b_std: of the weights and the biases of all layers, or one number a layer, depth + 1 with the head's.
        head: "pool" or "flatten".
        activation: "relu".
        padding: "SAME" (zeros), "CIRCULAR", or "VALID", which loses patch − 1 rows and columns a layer.
        trained: "all", "hidden" (all layers but the first and the head), "last" (the head alone: ntk = nngp), or the
            numbers of the trained layers, 1 the first and depth + 1 the head.
        image: (rows, columns, channels) of images that come as rows of numbers, one channel after the other as data
            sets store them. None takes images (n, rows, columns, channels) as they come, and rows as square ones of one
            or three channels.
        dtype: "float64" or "float32", of the work; results are float64.
        device: "cpu" (compiled by numba), "gpu", "jax" (JAX on its default device), None for what there is: an
            accelerator, else numba, else JAX on the CPU, 10 times slower.
        threads: on the CPU; None takes the cores this process may use.

    Images of one pixel, x·z = 0 and ‖x‖²/2 = ½: Q(x, x) = 1, S = 1/(2π), nngp = 2S:

    >>> x, z = np.array([[1.0, 0.0], [0.0, 1.0]]).reshape(2, 1, 1, 1, 2)
    >>> Convolutional(1, patch=1)(x, z, get="nngp") * np.pi
    array([[1.]])
    """

    depth: int
    patch: int = 3
    W_std: float | tuple[float, ...] = 2**0.5
    b_std: float | tuple[float, ...] | None = 0.0
    head: Literal["pool", "flatten"] = "pool"
    activation: str = "relu"
    padding: Literal["SAME", "CIRCULAR", "VALID"] = "SAME"
    trained: Literal["all", "hidden", "last"] | tuple[int, ...] = "all"
    image: tuple[int, int, int] | None = None
    dtype: Literal["float64", "float32"] = "float64"
    device: Literal["cpu", "gpu", "jax"] | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.b_std is None:  # as neural-tangents writes it
            object.__setattr__(self, "b_std", 0.0)
        set_tuples(self, "W_std", "b_std", "trained", "image")
        require_counts(self, "depth", "patch", *(() if self.threads is None else ("threads",)))
        for setting in (self._each("W_std"), self._each("b_std"), self._trained):  # checked by looking
            assert len(setting) == self.depth + 1
        choices = {
            "head": ("pool", "flatten"),
            "padding": ("SAME", "CIRCULAR", "VALID"),
            "dtype": ("float64", "float32"),
            "device": ("cpu", "gpu", "jax", None),
        }
        for name, allowed in choices.items():
            checks.one_of(getattr(self, name), name, allowed)
        if self.activation != "relu":
            raise ValueError(
                f"`activation` is {self.activation!r}; this kernel has 'relu', others come with `op.networks.Sequence`"
            )
        sizes = self.image or (1, 1, 1)
        if len(sizes) != 3 or not all(isinstance(size, int | np.integer) and size > 0 for size in sizes):
            raise ValueError(f"`image` is {self.image!r}; expected (rows, columns, channels)")

    @property
    def entry_rounding(self) -> float:
        """As measured on photographs of 32 × 32 at depth 21, copies of an image included; most entries keep 6 digits."""
        return 1e-13 if self.dtype == "float64" else 5e-5

    @property
    def exact_diagonal(self) -> bool:
        """`block` of images with themselves puts the diagonal of float64 in its place."""
        return True

    @property
    def way(self) -> str:
        """How entries will be made here: "numba", "jax on cpu" or "jax on gpu"."""
        if self.device in ("gpu", "jax"):
            return f"jax on {_backend()}" if self.device == "jax" else "jax on gpu"
        if self.device is None and has_accelerator() and _backend() != "cpu":
            return "jax on gpu"
        if importlib.util.find_spec("numba") is not None:
            return "numba"
        if self.device == "cpu":
            raise ValueError(
                "device='cpu' needs numba: install overparam[convolution], or pass device=None for JAX, 10 times slower"
            )
        return "jax on cpu"

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        """Images (n, rows, columns, channels) of finite float64; zero images are allowed."""
        array = checks.as_numbers(X, name)
        if array.ndim == 2:
            array = checks.finite_matrix(array, name)
            rows, columns, channels = self.image or _square(array.shape[1], name)
            if rows * columns * channels != array.shape[1]:
                raise ValueError(
                    f"`{name}` has rows of {array.shape[1]} numbers and `image` is {self.image}, which makes "
                    f"{rows * columns * channels}; pass images of that size or change `image`"
                )
            array = np.moveaxis(array.reshape(-1, channels, rows, columns), 1, -1)
        elif array.ndim != 4 or 0 in array.shape:
            raise ValueError(
                f"`{name}` has shape {array.shape}; expected images (n, rows, columns, channels), or rows (n, numbers)"
            )
        else:
            if self.image not in (None, array.shape[1:]):
                raise ValueError(f"`{name}` has images of shape {array.shape[1:]} and `image` is {self.image}")
            array = np.asarray(array, np.float64)
            checks.require_finite(array, name)
        lost = self.depth * (self.patch - 1) if self.padding == "VALID" else self.patch - 1
        if min(array.shape[1:3]) <= lost:
            raise ValueError(
                f"`{name}` has images of {array.shape[1]} × {array.shape[2]}; {self.depth} layers with `patch` {self.patch} and "
                f"padding {self.padding!r} need {lost + 1} or more each way"
            )
        checks.usable_norms(array.reshape(len(array), -1), name, zero=True)
        return array

    def evaluate(self, x: np.ndarray, z: np.ndarray, get: str = "ntk") -> float:
        """Of one pair of images."""
        x, z = (self.inputs(np.asarray(each)[None], name) for each, name in ((x, "x"), (z, "z")))
        return float(self.block(x, z, get)[0, 0])

    def block(self, X: np.ndarray, Z: np.ndarray, get: str = "ntk") -> np.ndarray:
        """Of all pairs; of `X` with itself (the same array) each pair once."""
        return self._matrices(X, Z)[KINDS.index(checks.one_of(get, "get", KINDS))]

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        """Of every image with itself, always in float64: all its patches are parallel to themselves."""
        return self._own(self.inputs(X))[KINDS.index(checks.one_of(get, "get", KINDS))]

    def jax(self, X: Any, Z: Any = None, get: str = "ntk") -> Any:
        """By the layers one after the other; see `AbstractKernel.jax`."""
        return self.composed().jax(X, Z, get)

    def composed(self) -> Composed:
        """The same network as layers."""
        each = list(zip(self._each("W_std"), self._each("b_std"), self._trained, strict=True))
        parts: list[Part] = []
        for W_std, b_std, trained in each[:-1]:
            parts += [conv(1, self.patch, 1, self.padding, W_std, b_std, trained=trained), Relu()]
        W_std, b_std, trained = each[-1]
        head = GlobalPool() if self.head == "pool" else Flatten()
        return Composed((*parts, head, dense(1, W_std, b_std, trained=trained)), self.image)

    def _own(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kernel, parts = replace(self, dtype="float64"), []
        for start in range(0, len(X), 64):
            images = kernel._images(X[start : start + 64], "X", start)
            every = np.arange(len(images.scale))
            parts.append(kernel._values(kernel._some(images, images, every, every), images.scale**2))
        ntk, nngp = (np.concatenate(values) for values in zip(*parts, strict=True))
        return ntk, nngp

    def both(self, X: Any, Z: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """The tangent kernel and the conjugate kernel, "ntk" and "nngp", from one pass."""
        X = self.inputs(X, "X")
        return self._matrices(X, X if Z is None else self.inputs(Z, "Z"))

    def _matrices(self, X: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        same = X is Z
        X = self.inputs(X, "X")
        Z = X if same else self.inputs(Z, "Z")
        if X.shape[1:] != Z.shape[1:]:
            raise ValueError(f"`X` has images of shape {X.shape[1:]} and `Z` {Z.shape[1:]}; they need the same shape")
        ntk, nngp = np.empty((2, len(X), len(Z)))
        tile = (16 if self.head == "pool" else 64) if self.way == "numba" else 256
        for top in range(0, len(X), tile):
            images = self._images(X[top : top + tile], "X", top)
            for left in range(top if same else 0, len(Z), tile):
                mirrored = same and left == top
                others = images if mirrored else self._images(Z[left : left + tile], "Z", left)
                here = np.ones((len(images.scale), len(others.scale)), bool)
                i, j = np.nonzero(np.triu(here, 1) if mirrored else here)
                if not len(i):
                    continue
                made = self._values(self._some(images, others, i, j), images.scale[i] * others.scale[j])
                for matrix, values in zip((ntk, nngp), made, strict=True):
                    matrix[top + i, left + j] = values
                    if same:
                        matrix[left + j, top + i] = values
        if same:
            for matrix, values in zip((ntk, nngp), self._own(X), strict=True):
                np.fill_diagonal(matrix, values)
        return ntk, nngp

    def _some(self, images: Images, others: Images, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """(pairs, 2): means over positions for the pairs (i, j), i ascending and each with a run of j."""
        patches, pooled = self._patches(images.pixels.shape[2:]), self.head == "pool"
        taught, positions = np.array(self._trained[:-1], np.float64), patches.positions ** (2 if pooled else 1)
        if self.way != "numba":
            from overparam.kernels.convolution_device import OnDevice

            place = "cpu" if self.way == "jax on cpu" else "gpu"
            return OnDevice(images, others, self.dtype, place).sums(i, j, patches, pooled, taught) / positions
        from overparam.kernels.convolution_cpu import Planes

        x = Planes(images, self.dtype)
        z = x if others is images else Planes(others, self.dtype)

        def row(run: slice) -> np.ndarray:
            return x.row(int(i[run.start]), z, slice(j[run.start], j[run.stop - 1] + 1), patches, pooled, taught)

        return np.concatenate(list(_in_threads(row, list(_runs(i)), self.threads or usable_cores()))) / positions

    def _values(self, means: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The head: tangent and conjugate kernel from means over positions."""
        kernel, tangent = (self._each("W_std")[-1] ** 2 * scale) * means.T
        nngp = kernel + self._each("b_std")[-1] ** 2
        return tangent + nngp * self._trained[-1], nngp

    def _images(self, X: np.ndarray, name: str, first: int = 0) -> Images:
        images = Images.of(
            X, self._patches(X.shape[1:3]), self._each("W_std"), self._each("b_std"), SMALLEST[self.dtype]
        )
        norms = checks.row_norms(X.reshape(len(X), -1))
        with np.errstate(over="ignore", under="ignore"):
            size = (self.depth + 1) * (self._each("W_std")[-1] * images.scale) ** 2 + self._each("b_std")[-1] ** 2
        checks.usable_values(size, norms, name if not first else f"{name}[{first}:]")
        return images

    def _patches(self, shape: tuple[int, ...]) -> Patches:
        return Patches(self.patch, self.padding, self.depth, *shape)

    def _each(self, name: str) -> tuple[float, ...]:
        return per_layer(getattr(self, name), self.depth, name, zero=name == "b_std")

    @property
    def _trained(self) -> tuple[bool, ...]:
        return trained_layers(self.trained, self.depth)


def _square(numbers: int, name: str) -> tuple[int, int, int]:
    """Rows of numbers as square images of one or three channels; s² = 3 t² has no solution, so one of them at most fits."""
    for channels in (1, 3):
        side = isqrt(numbers // channels)
        if side * side * channels == numbers:
            return side, side, channels
    raise ValueError(
        f"`{name}` has rows of {numbers} numbers, no square image of one or three channels; pass image=(rows, columns, channels)"
    )


def _runs(i: np.ndarray) -> Iterator[slice]:
    """Where equal numbers stand together."""
    edges = np.flatnonzero(np.diff(i)) + 1
    for start, stop in zip([0, *edges], [*edges, len(i)], strict=True):
        yield slice(int(start), int(stop))


def _in_threads(work: Any, pieces: list[Any], threads: int) -> Iterator[Any]:
    """The results in order; the compiled loops let other threads run."""
    if threads == 1 or len(pieces) == 1:
        yield from map(work, pieces)
        return
    with ThreadPoolExecutor(min(threads, len(pieces))) as pool:
        yield from pool.map(work, pieces)


def _backend() -> str:
    import jax

    return jax.default_backend()
