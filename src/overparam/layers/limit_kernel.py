"""The kernel of a composition of layers in the limit of infinite width."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from math import isqrt
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core import checks
from overparam.core.kernel import KINDS, AbstractKernel
from overparam.core.traced import floats, smooth, whole_products
from overparam.layers.composition import Composition
from overparam.layers.kernel_pairs import Pairs
from overparam.layers.layer import Shape
from overparam.layers.standard import activates_after_pooling

_CELLS = 2**18
"""Pairs times positions a piece holds: a layer keeps some thirty arrays of them, 70 MB."""
_CELLS_ON_DEVICE = 2**25
"""The same inside JAX on an accelerator, which small pieces would leave waiting: 4 GB in float32."""


class AbstractCompositionKernel(AbstractKernel):
    """The kernel of a composition, read from its layers, in float64 NumPy.

    Inputs are rows (n, d), or samples (n, positions, channels), (n, rows, columns, channels) and (n, rows, columns, slices,
    channels) where the composition has positions. Rows of images hold one channel after the other. Zero rows are allowed. `get="ntk"` is the tangent
    kernel of the trained weights, `get="nngp"` the covariance of an output over the initial weights.

    Entries are within about 1e-14 · √(K(x, x) K(z, z)), near-parallel and opposite inputs included. One exception: where a
    ReLU comes after a pooling, "ntk" of inputs that are nearly but not exactly parallel has about 9 digits.

    Memory beyond the result: about 70 MB; where one pair of images needs more, 40 numbers a pair of their positions
    (330 MB for 32 by 32).
    """

    @abc.abstractmethod
    def composition(self, shape: Shape) -> Composition:
        """The layers for samples of that shape."""

    @property
    def written(self) -> tuple[Any, ...]:
        """The layers before a shape is known, where they may pool; () otherwise."""
        return ()

    @property
    def entry_rounding(self) -> float:
        """An activation after a pooling costs digits of near-parallel inputs."""
        return 2e-9 if activates_after_pooling(self.written) else 1e-14

    def inputs(self, X: Any, name: str = "X") -> np.ndarray:
        """Checked rows, or samples with axes of positions and channels."""
        array = checks.as_numbers(X, name)
        if array.ndim <= 2:
            array = checks.finite_matrix(array, name)
        else:
            if 0 in array.shape:
                raise ValueError(
                    f"`{name}` has shape {array.shape}; it needs at least one sample and one number in each"
                )
            if self.composition(array.shape[1:]).shape != array.shape[1:]:
                raise ValueError(
                    f"`{name}` has shape {array.shape}; flatten each sample: `{name}.reshape(len({name}), -1)`"
                )
            array = np.asarray(array, dtype=np.float64)
            checks.require_finite(array, name)
        checks.usable_norms(array.reshape(len(array), -1), name, zero=True)
        return array

    def evaluate(self, x: np.ndarray, z: np.ndarray, get: str = "ntk") -> float:
        """Of one pair of inputs."""
        x, z = (self.inputs(np.asarray(each)[None], name) for each, name in ((x, "x"), (z, "z")))
        checks.require_alike(x, z, ("x", "z"))
        return float(self.block(x, z, get)[0, 0])

    def block(self, X: np.ndarray, Z: np.ndarray, get: str = "ntk") -> np.ndarray:
        """Of all pairs of a row of `X` with a row of `Z`; of `X` with itself each pair once."""
        checks.one_of(get, "get", KINDS)
        values = np.empty((len(X), len(Z)))
        for rows, columns, out in self._pieces(X, Z, get):
            values[rows, columns] = _read(out, get)
        if X is Z:
            _mirror(values)
        return values

    def diagonal(self, X: np.ndarray, get: str = "ntk") -> np.ndarray:
        """Of every row with itself."""
        checks.one_of(get, "get", KINDS)
        composition = self._read_from(X, get)
        step = max(1, _CELLS // composition.cells)
        parts = []
        for start in range(0, len(X), step):
            rows = X[start : start + step]
            with np.errstate(all="ignore"):
                out = composition.kernel(np, composition.equal_pairs(rows))
            _require_range(out, rows, rows, composition)
            parts.append(_read(out, get))
        return np.concatenate(parts)

    def both(self, X: Any, Z: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """The tangent kernel and the covariance of outputs, "ntk" and "nngp", from one pass."""
        X = self.inputs(X, "X")
        other = X if Z is None else self.inputs(Z, "Z")
        checks.require_alike(X, other)
        ntk, nngp = np.empty((2, len(X), len(other)))
        for rows, columns, out in self._pieces(X, other, "ntk"):
            for values, get in ((ntk, "ntk"), (nngp, "nngp")):
                values[rows, columns] = _read(out, get)
        if X is other:
            for values, get in ((ntk, "ntk"), (nngp, "nngp")):
                _mirror(values)
                np.fill_diagonal(values, self.diagonal(X, get))
        return ntk, nngp

    def jax(self, X: Any, Z: Any = None, get: str = "ntk") -> Any:
        """By the layers' kernel maps over JAX arrays; see `AbstractKernel.jax`.

        Samples with many positions go through the layers one pair after the other, so that memory is that of one pair.
        """
        checks.one_of(get, "get", KINDS)
        X = floats(X)
        Z = X if Z is None else floats(Z)
        composition = self._read_from(X, get)

        @whole_products()
        def of(X: Any, Z: Any) -> Any:
            out = composition.kernel(smooth, composition.traced_pairs(X, Z, composition.asks_for_angles))
            return jnp.broadcast_to(_read(out, get, smooth), (len(X), len(Z)))

        most = _CELLS if jax.default_backend() == "cpu" else _CELLS_ON_DEVICE
        if composition.cells * len(X) * len(Z) <= most:
            return of(X, Z)
        one = jax.checkpoint(lambda x, z: of(x[None], z[None])[0, 0])
        if composition.cells * len(Z) <= most:
            one_row = jax.checkpoint(lambda x: of(x[None], Z)[0])
            return jax.lax.map(one_row, X, batch_size=max(1, most // (composition.cells * len(Z))))
        return jax.lax.map(lambda x: jax.lax.map(lambda z: one(x, z), Z), X)

    def _read_from(self, X: np.ndarray, get: str) -> Composition:
        """The composition, where it has what is asked for."""
        composition = self.composition(X.shape[1:])
        if get == "ntk" and not any(weight.trained for weight in composition.weights()):
            raise ValueError("no weight of this network is trained, so that its tangent kernel is 0; pass get='nngp'")
        return composition

    def _pieces(self, X: np.ndarray, Z: np.ndarray, get: str) -> Iterator[tuple[slice, slice, Pairs]]:
        """What comes out of the last layer, piece by piece; of X with itself on and above the diagonal."""
        composition = self._read_from(X, get)
        pairs = max(1, _CELLS // composition.cells)
        width = min(len(Z), pairs if composition.grid is None else isqrt(pairs))
        height = max(1, pairs // width)
        for top in range(0, len(X), height):
            for left in range(top if X is Z else 0, len(Z), width):
                rows, columns = slice(top, min(top + height, len(X))), slice(left, min(left + width, len(Z)))
                with np.errstate(all="ignore"):
                    out = composition.kernel(np, composition.pairs(X[rows], Z[columns], composition.asks_for_angles))
                _require_range(out, X[rows], Z[columns], composition)
                yield rows, columns, out


def _read(out: Pairs, get: str, xp: ModuleType = np) -> Any:
    return (out.ntk if get == "ntk" else out.second_moment(xp))[0]


def _require_range(out: Pairs, X: np.ndarray, Z: np.ndarray, composition: Composition) -> None:
    """Raise where layers made second moments or the tangent kernel too large or too small for float64.

    A sample of an image may have none at all where strides and paddings pass by its pixels; a row may not.
    """
    for squares, samples in ((out.xx, X), (out.zz, Z)):
        size = np.ravel(squares[0])
        alive = np.any(composition.unmasked(samples).reshape(len(samples), -1) != 0, axis=1)
        lost = composition.grid is None and bool(np.any((size < checks.SMALLEST_NORM**2) & alive))
        if lost or not np.all(size <= checks.LARGEST_NORM**2):
            word = "small" if lost else "large"
            raise ValueError(
                f"the kernel of a sample with itself is too {word} for float64 (about {size.min() if lost else size.max():.1e}) after "
                "these layers; scale the samples to about 1, and W_std so that a layer keeps their size (√2 with ReLUs)"
            )
    if not np.isfinite(out.ntk).all():
        raise ValueError("the tangent kernel is too large for float64 after these layers; take a smaller W_std")


def _mirror(values: np.ndarray) -> None:
    """What is above the diagonal also below it."""
    for row in range(len(values)):
        values[row + 1 :, row] = values[row, row + 1 :]
