"""Any network of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp

from overparam.core.network import AbstractNetwork, Params, Trace, as_key
from overparam.core.program_relus import traced


@final
@dataclass(frozen=True, eq=False)
class Given(AbstractNetwork):
    """A function of (params, x), x a batch, with `params` a pytree of arrays, all of them trained.

    What is not to be trained stays in the function's closure. Two of these are equal only where they are the same
    object, so that one which holds arrays can be a static argument of `jax.jit`.

    With Equinox: `trained, rest = eqx.partition(model, eqx.is_inexact_array)`, then
    `Given(lambda trained, x: jax.vmap(eqx.combine(trained, rest))(x), trained)`.

    Args:
        function: (params, x) to outputs: (n, …) in, (n,) or (n, k) out.
        params: where training starts.
        draw: instead of `params`, a function of a JAX key that gives them.

    >>> line = Given(lambda params, x: x @ params["w"], {"w": jnp.array([1.0, 2.0])})
    >>> line.apply(line.init(0), jnp.array([[3.0, 4.0]]))
    Array([11.], dtype=float32)
    """

    function: Callable[[Any, Any], Any]
    params: Any = None
    draw: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(f"`function` is a {type(self.function).__name__}; expected a function of (params, x)")
        if (self.params is None) == (self.draw is None):
            raise ValueError(
                "give one of `params` (a pytree of arrays) and `draw` (a function of a key), not both or none"
            )

    def init(self, key: Any, inputs: int | tuple[int, ...] = ()) -> Params:
        """The parameters given, or fresh ones from the key; `inputs` is not needed."""
        return Params(self.params if self.draw is None else self.draw(as_key(key)))

    def apply(self, params: Params, x: Any) -> Any:
        """What the function gives, its shape checked."""
        x = jnp.asarray(x)
        out = self.function(params.trained, x)
        if not hasattr(out, "shape"):
            raise ValueError(
                f"the given function gives a {type(out).__name__}; expected one array of outputs, (n,) or (n, k)"
            )
        if jnp.ndim(out) not in (1, 2) or jnp.shape(out)[0] != x.shape[0]:
            raise ValueError(
                f"the given function turned {x.shape} into {jnp.shape(out)}; expected ({x.shape[0]},) or "
                f"({x.shape[0]}, k): it takes a batch, so wrap one that takes a sample in `jax.vmap`"
            )
        return out

    def trace(
        self, params: Params, x: Any, shifts: Sequence[Any] | None = None, gates: Sequence[Any] | None = None
    ) -> Trace:
        """The output and every ReLU that is found in the steps of its program, units flat: (n, units)."""
        return traced(self.apply, params, x, shifts, gates)
