"""Layers of mean 0 and variance 1: of every sample (layer norm), or of every channel over the batch (batch norm)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, final

import jax
import jax.numpy as jnp

from overparam.core import checks
from overparam.layers.distributions import Constant
from overparam.layers.kernel_pairs import Pairs, laid_out
from overparam.layers.layer import AbstractLayer, InTraining, ReluRecorder, Shape, Weight


@final
@dataclass(frozen=True)
class LayerNorm(AbstractLayer):
    """(h − mean) / √(variance + ε), mean and variance over the channels and the axes of positions named.

    Kernel: in a wide Gaussian layer the mean is 0 and the variance the second moment, averaged over the positions named.
    So second moments and the tangent kernel are divided by √((v(x) + ε)(v(z) + ε)); cosines stay.

    Args:
        axes: of positions, 0 and 1 for rows and columns of images; () for each position alone.
        epsilon: ε, more than 0.
    """

    axes: tuple[int, ...] = ()
    epsilon: float = 1e-12

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(self.axes))
        checks.positive(self.epsilon, "epsilon")

    def output(self, shape: Shape) -> Shape:
        """As it came in, where the axes are there."""
        if any(axis not in range(len(shape) - 1) for axis in self.axes) or len(set(self.axes)) < len(self.axes):
            raise ValueError(
                f"`axes` of a layer norm are {self.axes} and its inputs have shape {shape}; positions have axes "
                f"{tuple(range(len(shape) - 1))}, and channels are always normalised over"
            )
        return shape

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """Sample by sample."""
        if recorder is not None:
            recorder.note("norm", "layer norm")
        return self._over(x, None)

    def apply_masked(
        self, weights: Mapping[str, Any], x: Any, mask: Any, recorder: ReluRecorder | None
    ) -> tuple[Any, Any]:
        """Mean and variance are those of what is not masked."""
        if recorder is not None:
            recorder.note("norm", "layer norm")
        return self._over(x, mask), mask

    def _over(self, x: Any, mask: Any) -> Any:
        axes = (*(axis + 1 for axis in self.axes), x.ndim - 1)
        mean, share, kept = jnp.mean(x, axis=axes, keepdims=True), 1.0, 1.0
        if mask is not None:
            kept = jnp.where(jnp.broadcast_to(mask, x.shape), 0.0, jnp.ones_like(x))
            share = jnp.mean(kept, axis=axes, keepdims=True)
            share = jnp.where(share > 0, share, 1.0)
        centred = kept * (x - mean / share)
        variance = jnp.mean(jnp.square(centred), axis=axes, keepdims=True) / share
        return centred * jax.lax.rsqrt(variance + self.epsilon)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Sizes alone change."""
        if not pairs.gaussian:
            raise ValueError(
                "a layer norm has a kernel in closed form only right after a linear layer, whose units have mean 0; "
                "put it before the activation, or take the kernel of a finite network"
            )
        shares = xp.reshape(xp.asarray(pairs.shares), (-1,) + (1,) * (pairs.xx.ndim - 1))

        def counted(mask: Any) -> Any:
            axes = tuple(1 + axis for axis in self.axes)
            left = xp.mean(xp.where(xp.all(mask, -1), 0.0, 1.0), axis=axes, keepdims=True)
            return xp.where(left > 0, left, 1.0)

        shares_of = (1.0, 1.0) if pairs.masks is None else laid_out(pairs, *(counted(mask) for mask in pairs.masks))

        def variance(square: Any, first: int, left: Any) -> Any:
            average = xp.sum(square * shares, axis=0, keepdims=True)
            for axis in self.axes:
                average = xp.mean(average, axis=first + axis, keepdims=True)
            return average / left + self.epsilon

        x = variance(pairs.xx, -2 * pairs.grid if pairs.across else -pairs.grid, shares_of[0])
        z = variance(pairs.zz, -pairs.grid, shares_of[1])
        return replace(pairs, xx=pairs.xx / x, zz=pairs.zz / z, ntk=pairs.ntk / (xp.sqrt(x) * xp.sqrt(z)))


@final
@dataclass(frozen=True)
class BatchNorm(AbstractLayer):
    """scale · (h − μ)/√(v + ε) + shift, channel by channel.

    In training (`apply_train` of a network) μ and v are the mean and the variance over the batch and all positions, and
    the running ones move a share towards them: μ̄ ← (1 − share) μ̄ + share μ, and v̄ likewise with v · N/(N − 1), N the
    numbers a channel. Elsewhere (`apply`) μ̄ and v̄ are taken: the layer is then affine. As PyTorch has it.

    Kernel: none in closed form.

    Args:
        name: its weights are "name.scale" (at first 1) and "name.shift" (0), trained; "name.mean" (0) and
            "name.variance" (1), running.
        share: of a new batch in the running averages.
        epsilon: ε.

    A batch of 1 and 3 has mean 2 and variance 1:

    >>> weights = {"bn.scale": jnp.array([2.0]), "bn.shift": jnp.array([5.0]), "bn.mean": jnp.zeros(1), "bn.variance": jnp.ones(1)}
    >>> BatchNorm("bn", epsilon=1e-12).apply(InTraining(weights), jnp.array([[1.0], [3.0]]), None)[:, 0]
    Array([3., 7.], dtype=float32)
    """

    name: str
    share: float = 0.1
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        checks.positive(self.epsilon, "epsilon")
        checks.share(self.share, "share", one=True)

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """One number a channel each."""
        channels, zero, one = shape[-1:], Constant(0.0), Constant(1.0)
        return (
            Weight(f"{self.name}.scale", channels, one, trained=True),
            Weight(f"{self.name}.shift", channels, zero, trained=True),
            Weight(f"{self.name}.mean", channels, zero, trained=False, running=True),
            Weight(f"{self.name}.variance", channels, one, trained=False, running=True),
        )

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """By the batch's own moments in training, else by the running ones."""
        if f"{self.name}.mean" not in weights:
            raise ValueError(
                f"the batch norm `{self.name}` has no running averages; give `Params` with the `state` that `init` or a "
                "training gave"
            )
        mean, variance = weights[f"{self.name}.mean"], weights[f"{self.name}.variance"]
        if isinstance(weights, InTraining):
            count = x.size // x.shape[-1]
            if count < 2:
                raise ValueError(
                    f"the batch norm `{self.name}` gets one number a channel in training, which has no variance; take "
                    "batches of two samples or more"
                )
            axes = tuple(range(x.ndim - 1))
            old, old_variance = mean, variance
            mean = jnp.mean(x, axis=axes)
            variance = jnp.mean(jnp.square(x - mean), axis=axes)
            weights.new[f"{self.name}.mean"] = self._moved(old, mean)
            weights.new[f"{self.name}.variance"] = self._moved(old_variance, variance * (count / (count - 1)))
        factor = weights[f"{self.name}.scale"] * jax.lax.rsqrt(variance + self.epsilon)
        return (x - mean) * factor + weights[f"{self.name}.shift"]

    def _moved(self, old: Any, new: Any) -> Any:
        """The running average; it carries no derivative."""
        old = jnp.asarray(old)
        return (old + self.share * (jax.lax.stop_gradient(new) - old)).astype(old.dtype)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """There is none."""
        raise ValueError(
            "batch norm has no kernel in closed form: its units depend on the whole batch; take the kernel of a finite "
            "network (`kernels.Empirical`), or `LayerNorm` in its place"
        )
