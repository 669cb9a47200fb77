"""What is audited: a network with weights on samples, seen from inside, and everything a measurement asks for."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, final

import numpy as np

from overparam.adapters.torch_module import TorchModule
from overparam.audits.jax_inside import JaxInside
from overparam.audits.laws import Moment
from overparam.audits.perturbations import (
    added,
    descent_displacement,
    minus,
    moving,
    radius,
    random_direction,
    scaled,
)
from overparam.core.checks import one_of
from overparam.core.inside import AbstractInside, Weights
from overparam.core.network import AbstractNetwork, Params, Trace
from overparam.data.duplicates import smallest_distance
from overparam.frame import fingerprint


def inside_of(network: Any, params: Any, X: Any, dtype: str = "float64") -> AbstractInside:
    """A network on the rows of X, as audits see it.

    Args:
        network: of the house, or what `from_equinox`, `from_flax` or `from_torch` give.
        params: of the network; None for a PyTorch module, which carries its own.
        X: samples (n, …), finite.
        dtype: "float64" or "float32", in which it computes.

    >>> from overparam.networks import FullyConnected
    >>> net = FullyConnected(width=4, depth=3)
    >>> seen = inside_of(net, net.init(0, 2), np.eye(2))
    >>> seen.widths, seen.outputs, sorted(seen.weights)
    ((4, 4, 4), 1, ['W1', 'W2'])
    """
    X = np.asarray(X)
    if X.ndim < 2 or 0 in X.shape or X.dtype.kind not in "fiub":
        raise ValueError(f"`X` is {X.dtype} of shape {X.shape}; expected samples (n, …) of numbers")
    if not np.all(np.isfinite(X)):
        first = int(np.argwhere(~np.isfinite(X.reshape(len(X), -1)).all(axis=1))[0, 0])
        raise ValueError(f"`X` has a number that is not finite (first: row {first}); drop or fill such rows")
    one_of(dtype, "dtype", ("float64", "float32"))
    if isinstance(network, AbstractNetwork):
        if not isinstance(params, Params):
            raise ValueError(f"`params` is a {type(params).__name__}; expected the network's, such as `net.init(0, d)`")
        return JaxInside(network, params, X, dtype)
    if isinstance(network, TorchModule):
        from overparam.adapters.torch_inside import TorchInside

        return TorchInside(network, params, X, dtype)
    raise ValueError(
        f"`network` is a {type(network).__name__}; expected a network of the house, or what `from_equinox`, "
        "`from_flax` or `from_torch` gives"
    )


def evaluation_notes(network: Any) -> tuple[str, ...]:
    """How layers that do otherwise while a PyTorch module trains were looked at; nothing where there are none.

    >>> import torch
    >>> from overparam.adapters.torch_module import from_torch
    >>> layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Dropout())
    >>> evaluation_notes(from_torch(layers, [[1.0, 2.0]]))
    ('the module in evaluation mode: batch norm with its running averages, dropout off',)
    """
    if not isinstance(network, TorchModule):
        return ()
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.modules.dropout import _DropoutNd

    layers = list(network.module.modules())
    norms = [layer for layer in layers if isinstance(layer, _BatchNorm)]
    kept = [layer for layer in norms if layer.running_mean is not None]
    words = ["batch norm with its running averages"] if kept else []
    if len(kept) < len(norms):
        words.append("batch norm that keeps no averages with those of the rows it is given")
    if any(isinstance(layer, _DropoutNd) for layer in layers):
        words.append("dropout off")
    return (f"the module in evaluation mode: {', '.join(words)}",) if words else ()


Kind = Literal["random", "training", "adversarial"]
KINDS: tuple[Kind, ...] = ("random", "training", "adversarial")
Architecture = Literal[
    "fully connected", "residual", "convolutional", "two-layer", "biased two-layer", "three-layer", "three-layer resnet",
    "other",
]  # fmt: skip


@final
@dataclass(frozen=True)
class Effort:
    """How much is spent. rows: samples used by laws that cost much a sample. power_steps: of power iterations.
    ascent_steps, starts: of an adversary. rank: of its steps. training_steps: of the descent that gives the training
    direction. radii: how many ω where none are named. pairs: pairs of samples looked at one by one.
    """

    name: str
    rows: int
    power_steps: int
    ascent_steps: int
    starts: int
    rank: int
    training_steps: int
    radii: int
    pairs: int


EFFORTS: Mapping[str, Effort] = {
    effort.name: effort
    for effort in (
        Effort("quick", 16, 8, 4, 2, 4, 4, 4, 1_000),
        Effort("usual", 48, 16, 8, 2, 8, 6, 5, 10_000),
        Effort("thorough", 200, 50, 25, 4, 32, 20, 7, 100_000),
    )
}


def efforts_up_to(effort: Effort) -> list[Effort]:
    """The efforts that one includes: all of ours with fewer steps, the least first, and itself.

    >>> [each.name for each in efforts_up_to(EFFORTS["usual"])]
    ['quick', 'usual']
    """
    return [*(less for less in EFFORTS.values() if less.ascent_steps < effort.ascent_steps), effort]


@final
@dataclass(frozen=True, eq=False)
class Subject:
    """What is audited: a network with weights on n samples, and everything a measurement asks for.

    network: of the house or of another framework. params: its weights W⁰; None for a PyTorch module, which has its own.
    X: (n, …) samples. y: (n, k) targets. omegas: radii. key: seed of every draw. architecture: whose laws are measured.
    dtype: in which the network computes. run: a `Trajectory` that began at `params`, where there is one. moment, at: what
    the laws of the start are measured at: W⁰, or the last weights of a run and its last step.
    """

    network: Any
    params: Any
    X: np.ndarray
    y: np.ndarray
    omegas: tuple[float, ...]
    key: int = 0
    effort: Effort = EFFORTS["usual"]
    architecture: Architecture = "other"
    dtype: str = "float64"
    run: Any = None
    moment: Moment = "start"
    at: float = 0.0
    _whole: Subject | None = field(default=None, repr=False)
    _kept: dict[Any, Any] = field(default_factory=dict, repr=False)
    _shared: dict[Any, Any] = field(default_factory=dict, repr=False)

    @functools.cached_property
    def digest(self) -> str:
        """A mark of all that findings depend on, weights and rows by their bytes."""
        asked = (self.omegas, self.key, self.effort, self.architecture, self.dtype, self.moment, self.at)
        return fingerprint(self.network, self.params, self.X, self.y, self.run, *asked)

    @functools.cached_property
    def inside(self) -> AbstractInside:
        """The network on these samples, seen from inside."""
        return inside_of(self.network, self.params, self.X, self.dtype)

    @property
    def samples(self) -> int:
        """n."""
        return len(self.X)

    @property
    def outputs(self) -> int:
        """k."""
        return self.inside.outputs

    @property
    def depth(self) -> int:
        """The paper's L: ReLU layers less one."""
        return self.inside.count - 1

    @property
    def width(self) -> int:
        """m, the smallest of the ReLU layers' where they differ."""
        return min(self.inside.widths)

    @functools.cached_property
    def separation(self) -> float:
        """The smallest ‖x_i − x_j‖."""
        return smallest_distance(self.X)

    @functools.cached_property
    def stacked(self) -> frozenset[str]:
        """Weights that hold one matrix a position: those of the paper's convolutional network, but for its last."""
        if self.architecture != "convolutional" or self.network.shared:
            return frozenset()
        return frozenset(name for name, shape in self.inside.shapes.items() if len(shape) > 2)

    @functools.cached_property
    def weights(self) -> Weights:
        """W⁰, to be read and not written."""
        return self.inside.weights

    @functools.cached_property
    def norms(self) -> np.ndarray:
        """‖x_i‖."""
        return np.linalg.norm(np.asarray(self.X, float).reshape(self.samples, -1), axis=1)

    @functools.cached_property
    def start(self) -> Trace:
        """The trace at W⁰."""
        return self.inside.trace(self.weights)

    @functools.cached_property
    def residuals(self) -> np.ndarray:
        """(n, k) loss vectors f(x_i) − y_i at the start."""
        return self.start.output - self.y

    @property
    def places(self) -> dict[str, int]:
        """The first ReLU layer that each weight goes into; the number of ReLU layers for those of the output alone.

        Found by derivatives, once for this subject and those on fewer rows: in the paper's network W_ℓ has place ℓ, A 0
        and B L + 1.
        """
        if "places" not in self._shared:
            self._shared["places"] = self._found_places() if self._whole is None else self._whole.places
        return self._shared["places"]

    def _found_places(self) -> dict[str, int]:
        few = self.on_rows(min(4, self.samples)).inside
        found: dict[str, int] = {}
        for place, width in enumerate(few.widths):
            seen = [np.zeros((few.samples, size)) for size in few.widths]  # not None: one program does for all layers
            seen[place] = self.rng(8, place).standard_normal((few.samples, width))
            slope = few.gradient(self.weights, Trace(None, tuple(seen), ()))
            for name in moving(slope):
                found.setdefault(name, place)
        return {name: found.get(name, few.count) for name in self.weights}

    def rng(self, *labels: int) -> np.random.Generator:
        """A generator of its own for each use: the same labels give the same draws."""
        return np.random.default_rng([self.key, *labels])

    def perturbation(self, kind: Kind, omega: float) -> Weights:
        """W′ of radius ω: Gaussian with every ‖W′_ℓ‖₂ = ω ("random"), or along training ("training").

        The training direction is the displacement itself, scaled as a whole: layers keep their shares of it.
        """
        return scaled(omega, self._unit(one_of(kind, "kind", ("random", "training"))))

    def moved(self, direction: Weights, times: float = 1.0) -> Weights:
        """The weights W⁰ + times · W′."""
        return added(self.weights, direction, times)

    def on_rows(self, count: int) -> Subject:
        """The same subject on `count` of the samples, drawn with the seed; itself where there are no more.

        The training direction stays that of all samples.
        """
        if count >= self.samples:
            return self
        if count not in self._kept:
            rows = np.sort(self.rng(7).permutation(self.samples)[:count])
            self._kept[count] = replace(self, X=self.X[rows], y=self.y[rows], _whole=self, _kept={})
        return self._kept[count]

    def with_effort(self, effort: Effort) -> Subject:
        """The same subject at another effort, made once; itself at its own."""
        if effort == self.effort:
            return self
        if effort not in self._kept:
            self._kept[effort] = self.but(effort=effort)
        return self._kept[effort]

    def but(self, **changes: Any) -> Subject:
        """The same subject with other radii, targets or effort; the network's inside and the rest are shared."""
        other = copy.copy(self)
        for name, value in {"_kept": {}, **changes}.items():
            object.__setattr__(other, name, value)
        other.__dict__.pop("digest", None)
        if "effort" in changes and self.run is None:  # how many steps the training direction takes
            other.__dict__.pop("training_displacement", None)
        return other

    def at_end(self) -> Subject:
        """At the last weights of the run in the place of the first, without the run."""
        step = float(self.run.steps[-1])
        return replace(
            self, params=self.run.params, run=None, moment="trajectory", at=step, _whole=None, _kept={}, _shared={}
        )

    def note_on(self, few: Subject) -> str:
        """A sentence that says on how many of the samples something was measured; nothing where on all."""
        return "" if few.samples == self.samples else f"On {few.samples} of {self.samples:,} rows."

    @functools.cached_property
    def training_displacement(self) -> Weights:
        """W − W⁰ of the run, or of a short descent on all samples."""
        if self._whole is not None:
            return self._whole.with_effort(self.effort).training_displacement
        if self.run is not None:
            return minus(self.at_end().weights, self.weights)
        return descent_displacement(self.inside, self.y, self.effort.training_steps)

    def _unit(self, kind: str) -> Weights:
        """The direction of a kind, made once for this subject and those on fewer rows."""
        name = (kind, self.effort.training_steps) if kind == "training" else kind
        if name not in self._shared:
            if kind == "random":
                self._shared[name] = random_direction(self.weights, self.rng(1), self.stacked)
            else:
                moved = self.training_displacement
                size = radius(moved, self.stacked)
                self._shared[name] = scaled(1 / size if size > 0 else 0.0, moved)
        return self._shared[name]
