"""Convolutional kernels of ReLU networks on an accelerator, in plain JAX: layer after layer over batches of pairs.

Arrays have axes (pairs, rows of x, columns of x, rows of z, columns of z), or (pairs, rows, columns) where equal positions
are enough. Sums over neighbourhoods are shifts along both images at once, one axis after the other. XLA makes one
fused loop of a layer. What is kept of a pair of positions is as in `convolution_cpu`: q in float32, √(xx·zz) − q in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from overparam.core.trees import placed
from overparam.kernels.convolution_images import ANGLE, SHORT_ANGLE, SHORT_SINE_LESS, SINE_LESS, Images, Patches


class Layer(NamedTuple):
    """What one layer needs of an image, leading axes in front: standard deviations, their inverses, gain and bias."""

    size: Any
    inverse: Any
    near: Any
    gain: Any
    bias: Any


class Side(NamedTuple):
    """Images as arrays on a device: pixels (n, channels, rows, columns), their norms, and every layer (n, depth, …)."""

    pixels: Any
    norms: Any
    inverse: Any
    layers: Layer


def side_of(images: Images, dtype: str) -> Side:
    """Images in the precision asked for; `near` holds standard deviations as they enter the sums of a layer."""
    size, inverse = images.deviations, images.inverses
    layers = Layer(size[:, 1:], inverse[:, 1:], images.near, images.gain, images.bias)
    return jax.tree.map(lambda array: placed(array, dtype), Side(images.pixels, size[:, 0], inverse[:, 0], layers))


def _shifted(S: Any, offset: int, axes: tuple[int, ...], wraps: bool) -> Any:
    """The neighbour `offset` further along all of `axes`, 0 beyond the border."""
    if offset == 0:
        return S
    if wraps:
        return jnp.roll(S, [-offset] * len(axes), axes)
    config = [(-offset, offset, 0) if axis in axes else (0, 0, 0) for axis in range(S.ndim)]
    return lax.pad(S, jnp.zeros((), S.dtype), config)


def _sums(S: Any, patches: Patches, pooled: bool) -> Any:
    """Over the neighbourhood of both positions at once."""
    for axes in ((1, 3), (2, 4)) if pooled else ((1,), (2,)):
        near = [_shifted(S, o, axes, patches.wraps) for o in range(-patches.before, patches.after + 1)]
        S = sum(near[1:], near[0])
    return S


def _polynomial(coefficients: np.ndarray, m: Any) -> Any:
    value = jnp.full_like(m, coefficients[0])
    for c in coefficients[1:]:
        value = value * m + jnp.asarray(c, m.dtype)
    return value


def _relu_short(q: Any, tangent: Any, n: Any, inverse: Any, signed: bool) -> tuple[Any, Any]:
    """E[σσ] and the tangent kernel after a ReLU, in float32; only the first sees cosines below 0."""
    rho = q * inverse
    m = jnp.clip(1 - (jnp.abs(rho) if signed else rho), 0, 1)
    root = jnp.sqrt(m)
    share = root * _polynomial(SHORT_ANGLE, m) * (0.5 / math.pi)
    less = root * m * _polynomial(SHORT_SINE_LESS, m) * (0.5 / math.pi)
    if signed:
        S = n * (0.5 * jnp.clip(rho, 0, 1) + less)
        share = jnp.where(rho < 0, share, 0.5 - share)
    else:
        S, share = n * (0.5 - 0.5 * m + less), 0.5 - share
    return S, jnp.where(inverse > 0, tangent * share, 0)


def _relu_full(less_q: Any, plus_q: Any, tangent: Any, n: Any, inverse: Any) -> tuple[Any, Any]:
    """√(xx·zz) − E[σσ] and the tangent kernel after a ReLU, in float64; `plus_q` None where q is 0 or more."""
    ahead = True if plus_q is None else less_q <= plus_q
    m = jnp.minimum(less_q if plus_q is None else jnp.minimum(less_q, plus_q), n) * inverse
    root = jnp.sqrt(m)
    share, less = root * _polynomial(ANGLE, m) * (0.5 / math.pi), root * m * _polynomial(SINE_LESS, m) / math.pi
    S = 0.5 * n * (jnp.where(ahead, m, 1.0) - less)
    return S, jnp.where(inverse > 0, tangent * jnp.where(ahead, 0.5 - share, share), 0)


def _spread(x: Any, z: Any, pooled: bool) -> tuple[Any, Any]:
    """Images (pairs, rows, columns), or numbers (pairs,), with axes that meet: every position of x with every one of z."""
    if x.ndim == 1:
        ones = (1, 1, 1, 1) if pooled else (1, 1)
        return x.reshape(-1, *ones), z.reshape(-1, *ones)
    return (x[:, :, :, None, None], z[:, None, None]) if pooled else (x, z)


def _gaps(x: Layer, z: Layer, patches: Patches, pooled: bool) -> Any:
    """√(xx·zz) less the sum of the neighbours' (and the bias'), as a sum of squares: see `convolution_cpu`."""
    size, other = _spread(x.size, z.size, pooled)
    inverse, opposite = _spread(x.inverse, z.inverse, pooled)
    bias, another = _spread(x.bias, z.bias, pooled)
    ratio = size * opposite
    squares = jnp.square(bias - ratio * another)
    offsets = range(-patches.before, patches.after + 1)
    for down in offsets:
        for right in offsets:
            near = [
                _shifted(_shifted(h, down, (1,), patches.wraps), right, (2,), patches.wraps) for h in (x.near, z.near)
            ]
            one, two = _spread(near[0], near[1], pooled)
            squares = squares + jnp.square(one - ratio * two)
    return squares * (0.5 * other * inverse)


def _layer(
    x: Layer, z: Layer, taught: Any, S: Any, T: Any, patches: Patches, pooled: bool, first: bool
) -> tuple[Any, Any]:
    """One convolution and its ReLU. In the first layer T is None in float32, √(xx·zz) + q in float64."""
    (size, other), (inverse, opposite) = _spread(x.size, z.size, pooled), _spread(x.inverse, z.inverse, pooled)
    n, inverse = size * other, inverse * opposite
    (gain,), (bias,) = (_spread(a * b, a, pooled)[:1] for a, b in ((x.gain, z.gain), (x.bias, z.bias)))
    summed = gain * _sums(S, patches, pooled)
    if S.dtype == jnp.float32:
        q = summed + bias
        tangent = taught * q if first else gain * _sums(T, patches, pooled) + taught * q
        return _relu_short(q, tangent, n, inverse, signed=first)
    gaps, far = _gaps(x, z, patches, pooled), gain * _sums(T, patches, pooled)
    less_q = summed + gaps
    if first:
        plus_q = far + gaps + 2 * bias
        return _relu_full(less_q, plus_q, taught * (plus_q - less_q) / 2, n, inverse)
    return _relu_full(less_q, None, far + taught * (n - jnp.minimum(less_q, n)), n, inverse)


def _pixels(x: Side, z: Side, pooled: bool) -> tuple[Any, Any]:
    """Covariances of the pixels: q alone in float32, √(xx·zz) ∓ q in float64."""
    channels = [_spread(x.pixels[:, c], z.pixels[:, c], pooled) for c in range(x.pixels.shape[1])]
    if x.pixels.dtype == jnp.float32:
        return sum(a * b for a, b in channels), None
    (norms, others), (inverse, opposite) = _spread(x.norms, z.norms, pooled), _spread(x.inverse, z.inverse, pooled)
    ratio, weight = norms * opposite, 0.5 * others * inverse
    less, plus = (sum(jnp.square(a + sign * ratio * b) for a, b in channels) for sign in (-1, 1))
    return weight * less, weight * plus


def _pairs(x: Side, z: Side, taught: Any, patches: Patches, pooled: bool) -> Any:
    """(pairs, 2): sums over positions of q and of the tangent kernel, for images paired one by one."""
    S, T = _pixels(x, z, pooled)
    one, two = (jax.tree.map(lambda array: jnp.moveaxis(array, 1, 0), side.layers) for side in (x, z))
    layers = (one, two, taught)
    start, rest = (jax.tree.map(lambda array, part=part: array[part], layers) for part in (0, slice(1, None)))
    S, T = _layer(start[0], start[1], start[2], S, T, patches, pooled, first=True)

    def later(ST: tuple[Any, Any], layer: tuple[Layer, Layer, Any]) -> tuple[tuple[Any, Any], None]:
        return _layer(layer[0], layer[1], layer[2], ST[0], ST[1], patches, pooled, first=False), None

    (S, T), _ = lax.scan(later, (S, T), rest)
    axes = tuple(range(1, S.ndim))
    if S.dtype == jnp.float64:
        size, other = _spread(x.layers.size[:, -1], z.layers.size[:, -1], pooled)
        S = 0.5 * size * other - S
    return jnp.stack([S.sum(axes), T.sum(axes)], axis=1)


@partial(jax.jit, static_argnames=("patches", "pooled", "batch", "fused"))
def pairs_in_batches(
    x: Side, z: Side, i: Any, j: Any, taught: Any, *, patches: Patches, pooled: bool, batch: int, fused: bool = False
) -> Any:
    """(pairs, 2) for pairs (x[i], z[j]), `batch` of them at a time; their number is a multiple of it."""

    def some(indices: tuple[Any, Any]) -> Any:
        xs, zs = (jax.tree.map(lambda array, at=at: array[at], side) for side, at in zip((x, z), indices, strict=True))
        if not fused:
            return _pairs(xs, zs, taught, patches, pooled)
        from overparam.kernels.convolution_fused import fused_pairs  # Pallas is slow to import, and not everywhere

        return fused_pairs(xs, zs, taught, patches)

    return lax.map(some, (i.reshape(-1, batch), j.reshape(-1, batch))).reshape(-1, 2)


@final
class OnDevice:
    """Images on a device, in one precision; what `Planes` is on the CPU."""

    def __init__(self, images: Images, others: Images, dtype: str, device: str) -> None:
        self._x64, self._place = dtype == "float64", _found(device)
        with self._setting():
            self._x = side_of(images, dtype)
            self._z = self._x if others is images else side_of(others, dtype)

    def sums(
        self,
        i: np.ndarray,
        j: np.ndarray,
        patches: Patches,
        pooled: bool,
        taught: np.ndarray,
        fused: bool | None = None,
    ) -> np.ndarray:
        """(pairs, 2): sums over positions of q and of the tangent kernel, for the pairs (images[i], others[j]).

        Args:
            fused: one launch for all layers (`convolution_fused`); None: for pooled float32 on a GPU where `fused_works`.
        """
        with self._setting():
            if fused is None:
                fused = bool(pooled and not self._x64 and self._place.platform == "gpu" and fused_works(patches))
            learned = jnp.asarray(taught, self._x.pixels.dtype)
            # few lengths, since each is compiled: powers of 2, then eight batches at a time
            batch = min(2 ** math.ceil(math.log2(len(i))), 256 if fused else self._batch(patches, pooled))
            step = batch if len(i) <= batch else 8 * batch
            made = []
            for start in range(0, len(i), step):
                some = (index[start : start + step].astype(np.int32) for index in (i, j))
                one, two = (np.pad(index, (0, step - len(index))) for index in some)
                made.append(
                    pairs_in_batches(
                        self._x, self._z, one, two, learned,
                        patches=patches, pooled=pooled, batch=batch, fused=fused,
                    )
                )  # fmt: skip
            return np.concatenate([np.asarray(part, np.float64) for part in made])[: len(i)]

    def _batch(self, patches: Patches, pooled: bool) -> int:
        """Pairs whose arrays fit the cache of a CPU, or some 1 GB each on an accelerator."""
        cells = (patches.rows * patches.columns) ** (2 if pooled else 1)
        return max(1, (2**21 if self._place.platform == "cpu" else 2**28) // cells)

    @contextmanager
    def _setting(self) -> Iterator[None]:
        with jax.enable_x64(self._x64), jax.default_device(self._place):
            yield


@lru_cache(maxsize=8)
def fused_works(patches: Patches) -> bool:
    """Whether this machine compiles the fused launch, and it gives the numbers of the plain way."""
    if max(patches.rows, patches.columns) > 64:
        return False  # a plane would not fit in registers
    rng = np.random.default_rng(0)
    stds = (1.5,) * (patches.depth + 1)
    images = Images.of(rng.random((4, patches.rows, patches.columns, 3)), patches, stds, stds, 1e-15)
    side, every = side_of(images, "float32"), np.arange(4)
    try:
        one, two = (
            pairs_in_batches(
                side, side, every, every[::-1], np.ones(patches.depth, np.float32),
                patches=patches, pooled=True, batch=4, fused=fused,
            )
            for fused in (False, True)
        )  # fmt: skip
        return bool(np.allclose(one, two, rtol=1e-4))
    except Exception:  # whatever Triton or a driver says: the plain way is there
        return False


def _found(device: str) -> Any:
    if device == "cpu":
        return jax.devices("cpu")[0]
    found = jax.devices()[0]
    if device == "gpu" and found.platform == "cpu":
        raise ValueError(
            "`device` is 'gpu' and jax finds none; pass device='cpu', or install jax for this machine's GPU"
        )
    return found
