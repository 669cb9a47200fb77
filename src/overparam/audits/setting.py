"""What every measurement gets: the network from inside, the targets, radii, perturbations, and how much to spend."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, final

import numpy as np

from overparam.audits.law import Moment
from overparam.audits.perturbations import climb, descent_displacement, radius, random_direction, to_unit
from overparam.audits.vectors import added, moving, scaled
from overparam.core.device_weights import Weights
from overparam.core.inside import AbstractInside
from overparam.core.network import Trace
from overparam.core.progress import Progress, silent
from overparam.data.duplicates import smallest_distance

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


@final
@dataclass(frozen=True, eq=False)
class Setting:
    """A network on n samples with everything a measurement asks for.

    inside: the network. y: (n, k) targets. X: (n, …) samples. depth: the paper's L, ReLU layers less one. width: m, the
    smallest of the hidden layers' where they differ. separation: the smallest ‖x_i − x_j‖. omegas: radii. key: seed of every draw. stacked:
    names of weights that hold one matrix a position. remake: the network from inside on other samples.
    network, params: as the user gave them; for laws of one architecture. displacement: W − W⁰ of a run, where there is
    one; else the training direction is that of a short descent. run: that `Trajectory`. moment, at: what the laws of the
    start are measured at: W⁰, or the last weights of a run and its last step.
    """

    inside: AbstractInside
    y: np.ndarray
    X: np.ndarray
    depth: int
    width: int
    separation: float
    omegas: tuple[float, ...]
    key: int = 0
    effort: Effort = EFFORTS["usual"]
    architecture: Architecture = "other"
    network: Any = None
    params: Any = None
    stacked: frozenset[str] = frozenset()
    remake: Callable[[np.ndarray], AbstractInside] | None = None
    displacement: Weights | None = None
    run: Any = None
    moment: Moment = "start"
    at: float = 0.0
    progress: Progress = silent
    _whole: Setting | None = field(default=None, repr=False)
    _kept: dict[Any, Any] = field(default_factory=dict, repr=False)
    _shared: dict[str, Weights] = field(default_factory=dict, repr=False)

    @property
    def samples(self) -> int:
        """n."""
        return self.inside.samples

    @property
    def outputs(self) -> int:
        """k."""
        return self.inside.outputs

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

        Found by derivatives, once for this setting and those on fewer rows: in the paper's network W_ℓ has place ℓ, A 0
        and B L + 1.
        """
        if self._whole is not None:
            return self._whole.places
        if "places" not in self._kept:
            self._kept["places"] = self._found_places()
        return self._kept["places"]

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

    def perturbation(self, kind: Kind, omega: float, ascent: Weights | None = None) -> Weights:
        """W′ of radius ω: Gaussian with every ‖W′_ℓ‖₂ = ω, along training, or the direction an `ascent` found, scaled.

        The training direction is the displacement itself, scaled as a whole: layers keep their shares of it.
        """
        if kind == "adversarial":
            if ascent is None:
                raise ValueError("an adversarial perturbation needs `ascent`, the direction that was found")
            unit = to_unit(ascent, self.stacked)
        elif kind in ("random", "training"):
            unit = self._unit(kind)
        else:
            raise ValueError(f"`kind` is {kind!r}; expected one of {', '.join(KINDS)}")
        return scaled(omega, unit)

    def moved(self, direction: Weights, times: float = 1.0) -> Weights:
        """The weights W⁰ + times · W′."""
        return added(self.weights, direction, times)

    def on_rows(self, count: int) -> Setting:
        """The same setting on `count` of the samples, drawn with the seed; itself where there are no more.

        The training direction stays that of all samples.
        """
        if count >= self.samples or self.remake is None:
            return self
        if count not in self._kept:
            rows = np.sort(self.rng(7).permutation(self.samples)[:count])
            smaller = replace(
                self,
                inside=self.remake(self.X[rows]),
                X=self.X[rows],
                y=self.y[rows],
                separation=smallest_distance(self.X[rows]),
                _whole=self,
                _kept={},
            )
            self._kept[count] = smaller
        return self._kept[count]

    def note_on(self, few: Setting) -> str:
        """A sentence that says on how many of the samples something was measured; nothing where on all."""
        return "" if few.samples == self.samples else f"On {few.samples} of {self.samples:,} rows."

    @functools.cached_property
    def training_displacement(self) -> Weights:
        """W − W⁰ of the run, or of a short descent on all samples."""
        if self.displacement is not None:
            return self.displacement
        if self._whole is not None:
            return self._whole.training_displacement
        return descent_displacement(self.inside, self.y, self.effort.training_steps)

    def _unit(self, kind: str) -> Weights:
        """The direction of a kind, made once for this setting and those on fewer rows."""
        if kind not in self._shared:
            if kind == "random":
                self._shared[kind] = random_direction(self.weights, self.rng(1), self.stacked)
            else:
                moved = self.training_displacement
                size = radius(moved, self.stacked)
                self._shared[kind] = scaled(1 / size if size > 0 else 0.0, moved)
        return self._shared[kind]


def ascend(
    setting: Setting,
    omega: float,
    gradient: Callable[[Weights], Weights],
    start: Weights | None = None,
    *,
    value: Callable[[Weights], float] | None = None,
    center: Weights | None = None,
    steps: int | None = None,
) -> Weights:
    """The weights W⁰ + W′ that ascent on a quantity finds within ‖W′_ℓ‖₂ ≤ ω for every layer.

    Args:
        gradient: of the quantity, at weights.
        start: the perturbation W′ to begin with; None takes the random one. A quantity that is zero at W⁰ has no
            gradient there, so 0 is no place to begin.
        value: of the quantity, at weights; with it the ascent never falls, so it ends no lower than it began.
        center: what is perturbed; None is W⁰.
        steps: None takes those of the effort.
    """
    base = setting.weights if center is None else center
    first = setting.perturbation("random", omega) if start is None else start
    found = climb(
        base,
        omega,
        gradient,
        start=first,
        steps=setting.effort.ascent_steps if steps is None else steps,
        rank=setting.effort.rank,
        value=value,
        stacked=setting.stacked,
    )
    return added(base, found)
