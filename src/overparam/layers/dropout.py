"""Dropout: units set to 0 at random in training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, final

import jax
import jax.numpy as jnp

from overparam.layers.distributions import Normal
from overparam.layers.kernel_pairs import Pairs, one_case
from overparam.layers.layer import AbstractLayer, InTraining, ReluRecorder, Shape, Weight
from overparam.layers.windows import at_equal_positions


@final
@dataclass(frozen=True)
class Dropout(AbstractLayer):
    """h b/p in training, b one of 0 and 1 for every unit of every sample, 1 with probability p; h itself outside of training.

    Kernel of a network in training: b is another one for every sample and position, so that covariances of different ones stay
    and E[h²] becomes E[h²]/p; the tangent kernel likewise. An input and an equal one are the same input.

    What is drawn follows from a running number "name.draws", which grows by 1 with every batch.

    Args:
        name: of the running number.
        keep: p, above 0 and at most 1.

    >>> import numpy as np
    >>> from overparam.layers.kernel_pairs import Pairs
    >>> a, b, one = (np.full((1, 2), value) for value in (3.0, 0.0, 1.0))
    >>> pairs = Pairs(a, a, b, 2 * one, one, same=np.array([True, False]))  # an input with itself, and with one that is parallel
    >>> out = Dropout("drop", 0.5).kernel(np, pairs)
    >>> out.second_moment(np), out.ntk
    (array([[6., 3.]]), array([[2., 1.]]))
    """

    name: str
    keep: float

    def __post_init__(self) -> None:
        if not isinstance(self.keep, int | float) or not 0 < self.keep <= 1:
            raise ValueError(f"`keep` is {self.keep!r}; expected the share of units that stays, above 0 and at most 1")

    @property
    def drops(self) -> bool:
        """For every input."""
        return True

    def weights(self, shape: Shape) -> tuple[Weight, ...]:
        """The number of the draw."""
        return (Weight(f"{self.name}.draws", (), Normal(2.0**20), trained=False, running=True),)

    def apply(self, weights: Mapping[str, Any], x: Any, recorder: ReluRecorder | None) -> Any:
        """Every unit for itself."""
        if not isinstance(weights, InTraining):
            return x
        draws = weights[f"{self.name}.draws"]
        weights.new[f"{self.name}.draws"] = draws + 1
        key = jax.random.fold_in(jax.random.PRNGKey(0), jnp.asarray(draws).astype(jnp.int32))
        return dropped(key, x, self.keep)

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """Sizes grow, and angles with them but for an input with itself."""
        pairs = one_case(xp, pairs)
        p, same = self.keep, False
        if pairs.same is not None:
            lead = pairs.same.ndim
            same = pairs.same.reshape(*pairs.same.shape, *(1,) * (pairs.apart.ndim - 1 - lead))
            same = same & at_equal_positions(pairs)
        return replace(
            pairs,
            xx=pairs.xx / p,
            zz=pairs.zz / p,
            apart=xp.where(same, pairs.apart, (1 - p) + p * pairs.apart),
            together=xp.where(same, pairs.together, (1 - p) + p * pairs.together),
            ntk=xp.where(same, pairs.ntk / p, pairs.ntk),
            gaussian=False,
        )


def dropped(key: Any, x: Any, keep: float) -> Any:
    """x over `keep` where a draw of that probability says so, 0 elsewhere."""
    return jnp.where(jax.random.bernoulli(key, keep, x.shape), x / keep, 0.0)
