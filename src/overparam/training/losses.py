"""What training minimises: losses of one output and one target, each with the class that decides how fast it can fall."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, final

import jax
import jax.numpy as jnp

from overparam.core.spec import TABLE, Spec, spec_of

Kind = Literal["gradient-dominant", "convex", "bounded non-convex"]
KINDS: tuple[Kind, ...] = ("gradient-dominant", "convex", "bounded non-convex")


class AbstractLoss(abc.ABC):
    """f(u, y) of one sample. Frozen and hashable: a loss is part of the compiled program.

    Attributes:
        name: in a word.
        kind: "gradient-dominant", "convex" or "bounded non-convex", which selects the law of iterations.
        dominance: σ of a gradient-dominant loss, ‖∇f‖² ≥ 2σ (f − min f); None for the other kinds.
        smoothness: a Lipschitz constant of ∇f in u; None where there is none. The theorem asks for at most 1.
        of_classes: whether targets must be classes: ±1, or one column a class.
    """

    name: str
    kind: Kind
    dominance: float | None = None
    smoothness: float | None = None
    of_classes: bool = False

    @abc.abstractmethod
    def each(self, outputs: Any, targets: Any) -> Any:
        """The loss of every sample, (n,), from outputs and targets (n,) or (n, k)."""

    @property
    def spec(self) -> Spec:
        """The loss as data; one of a class of the user's is recorded as a `GivenLoss`, with its declared properties."""
        own = spec_of(self)
        if own.name in TABLE["training"]:
            return own
        about = {"kind": self.kind, "dominance": self.dominance, "smoothness": self.smoothness, "name": self.name}
        return Spec("training", "GivenLoss", {"function": own.to_json(), **about})


def by_sample(values: Any) -> Any:
    """Sum over the outputs of each sample: (n, …) to (n,)."""
    return values.reshape(len(values), -1).sum(axis=1)


@final
@dataclass(frozen=True)
class Squared(AbstractLoss):
    """½‖y − u‖², summed over outputs. 1-gradient-dominant, smooth with constant 1.

    Ref: fine_grained, Eq. (2); convergence, Thm 6, App. A

    Differs from the paper: it asks ‖∇f‖² ≥ σ (f − min f); with the customary 2σ here, σ = 1 is tight for this loss.

    >>> Squared().each(jnp.array([1.0, 3.0]), jnp.array([0.0, 1.0])).tolist()
    [0.5, 2.0]
    """

    name: str = "squared"
    kind: Kind = "gradient-dominant"
    dominance: float | None = 1.0
    smoothness: float | None = 1.0

    def each(self, outputs: Any, targets: Any) -> Any:
        return 0.5 * by_sample((targets - outputs) ** 2)


@final
@dataclass(frozen=True)
class CrossEntropy(AbstractLoss):
    """log Σ_j exp(u_j) − u_c for class c; log(1 + exp(−y u)) for one output and labels ±1.

    Targets are those of a `Dataset`: ±1, or one column a class whose largest entry names it.

    Ref: convergence, Thm 6, App. A

    Differs from the paper: its text has f = p_c, the probability of the class; this is −log p_c.

    >>> bool(jnp.isclose(CrossEntropy().each(jnp.zeros(1), jnp.ones(1))[0], jnp.log(2.0)))
    True
    """

    name: str = "cross-entropy"
    kind: Kind = "convex"
    dominance: float | None = None
    smoothness: float | None = 0.5
    of_classes: bool = True

    def each(self, outputs: Any, targets: Any) -> Any:
        if outputs.ndim == 1:
            return jax.nn.softplus(-targets * outputs)
        # log(1 + Σ_{j≠c} exp(u_j − u_c)): the difference of two large numbers would lose the digits of a small loss.
        named = is_class(targets)
        own = jnp.where(named, outputs, 0).sum(axis=1, keepdims=True)
        return jax.nn.softplus(jax.nn.logsumexp(jnp.where(named, -jnp.inf, outputs - own), axis=1))


@final
@dataclass(frozen=True)
class Ramp(AbstractLoss):
    """1 for y u ≤ 0, 0 for y u ≥ 1, straight between: above the classification error, 1-Lipschitz, bounded.

    Ref: fine_grained, Cor 5.2

    Differs from the paper: with several outputs y u is the margin over the best other class.

    >>> Ramp().each(jnp.array([-2.0, 0.25, 3.0]), jnp.ones(3)).tolist()
    [1.0, 0.75, 0.0]
    """

    name: str = "ramp"
    kind: Kind = "bounded non-convex"
    dominance: float | None = None
    smoothness: float | None = None
    of_classes: bool = True

    def each(self, outputs: Any, targets: Any) -> Any:
        return jnp.clip(1 - margins(outputs, targets), 0, 1)


@final
@dataclass(frozen=True)
class SmoothAbsolute(AbstractLoss):
    """√(1 + ‖y − u‖²) − 1: convex, 1-Lipschitz, smooth; |y − u| from afar.

    Ref: beyond_two_layers, Sec. 2

    Differs from the paper: its loss is convex with values in [0, 1], which no convex function on the whole space has;
    this one is convex and Lipschitz, and the range assumption is not met.

    >>> SmoothAbsolute().each(jnp.array([0.0]), jnp.array([0.0])).tolist()
    [0.0]
    """

    name: str = "smooth-absolute"
    kind: Kind = "convex"
    dominance: float | None = None
    smoothness: float | None = 1.0

    def each(self, outputs: Any, targets: Any) -> Any:
        squares = by_sample((targets - outputs) ** 2)
        return squares / (jnp.sqrt(1 + squares) + 1)  # the same without cancellation near 0


@final
@dataclass(frozen=True)
class GivenLoss(AbstractLoss):
    """A loss of the user's: `function(u, y)` of one sample's output and target, with its class declared.

    Ref: convergence, Thm 6, App. A

    Args:
        function: written over jax.numpy; called with one sample at a time, vectorised here.
        kind: "gradient-dominant", "convex" or "bounded non-convex".
        dominance: σ, needed for "gradient-dominant".
        smoothness: a Lipschitz constant of its gradient in u.
        name: for the page.

    >>> huber = GivenLoss(lambda u, y: jnp.where(abs(u - y) < 1, (u - y) ** 2 / 2, abs(u - y) - 0.5), kind="convex")
    >>> huber.each(jnp.array([0.0, 3.0]), jnp.array([0.0, 0.0])).tolist()
    [0.0, 2.5]
    """

    function: Callable[[Any, Any], Any]
    kind: Kind = "convex"
    dominance: float | None = None
    smoothness: float | None = None
    name: str = "given"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(f"`function` is {self.function!r}; expected a function of (output, target)")
        if self.kind not in KINDS:
            raise ValueError(f"`kind` is {self.kind!r}; expected one of {', '.join(KINDS)}")
        if self.kind == "gradient-dominant" and not (self.dominance and self.dominance > 0):
            raise ValueError("a gradient-dominant loss needs `dominance`, the σ > 0 of ‖∇f‖² ≥ 2σ (f − min f)")

    def each(self, outputs: Any, targets: Any) -> Any:
        values = jax.vmap(self.function)(outputs, targets)
        if jnp.ndim(values) != 1:
            raise ValueError(
                f"the objective {self.name!r} gives an array of shape {values.shape[1:]} for one sample; expected one "
                "number: sum it over the outputs"
            )
        return values


NAMED: dict[str, AbstractLoss] = {loss.name: loss for loss in (Squared(), CrossEntropy(), Ramp(), SmoothAbsolute())}


def as_loss(loss: Any) -> AbstractLoss:
    """A loss from its name or itself.

    >>> as_loss("squared").kind
    'gradient-dominant'
    """
    if isinstance(loss, AbstractLoss):
        return loss
    if isinstance(loss, str) and loss in NAMED:
        return NAMED[loss]
    raise ValueError(
        f"`objective` is {loss!r}; expected one of {', '.join(NAMED)}, or a function wrapped in op.training.GivenLoss"
    )


def margins(outputs: Any, targets: Any) -> Any:
    """y u for one output and labels ±1; the named class's output less the best other one else.

    >>> margins(jnp.array([[2.0, 1.0]]), jnp.array([[0.5, -0.5]])).tolist()
    [1.0]
    """
    if outputs.ndim == 1:
        return outputs * targets
    named = is_class(targets)
    return jnp.where(named, outputs, 0).sum(axis=1) - jnp.where(named, -jnp.inf, outputs).max(axis=1)


def is_class(targets: Any) -> Any:
    """(n, k) of booleans: True in the column of the class, the largest target of the row."""
    return jnp.arange(targets.shape[1]) == targets.argmax(axis=1)[:, None]
