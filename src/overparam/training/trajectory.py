"""A `Trajectory`: what a run went through at the recorded steps, and the weights it ended with; whether it is a run of the
network and the rows it is given with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite, sqrt
from typing import Any, ClassVar, Literal, final

import numpy as np

from overparam.core import sections
from overparam.core.network import AbstractNetwork, Params
from overparam.core.provenance import Provenance
from overparam.core.sections import Verdict
from overparam.core.spec import Spec, spec_of
from overparam.core.words import count_of
from overparam.frame import AbstractAnswer, fingerprint

WORDS = {
    "loss": "training loss",
    "accuracy": "training accuracy",
    "outputs": "outputs on training rows",
    "movement": "‖W(s) − W(0)‖_F, a layer a column",
    "movement_spectral": "‖W(s) − W(0)‖₂, a layer a column",
    "flips": "share of ReLU signs flipped since the start, a layer a column",
    "gradient_norm": "‖∇Φ‖",
    "output_gradient_norm": "‖loss‖, the gradient in the outputs, of the sum",
    "pl_ratio": "‖∇Φ‖² / (2Φ)",
    "kernel_from_start": "‖H(s) − H(0)‖_F / ‖H(0)‖_F",
    "kernel_from_limit": "‖H(s) − H∞‖_F / ‖H∞‖_F",
    "test_loss": "mean test loss",
    "test_accuracy": "test accuracy",
    "test_outputs": "outputs on test rows",
    "weights": "all trained weights as one row, layer after layer",
}

FIGURES: tuple[tuple[str, sections.Scale, tuple[str, ...]], ...] = (
    ("Loss", "log", ("loss", "test_loss")),
    ("Accuracy", "linear", ("accuracy", "test_accuracy")),
    ("Gradient", "log", ("gradient_norm", "output_gradient_norm", "pl_ratio")),
    ("Drift of the kernel", "log", ("kernel_from_start", "kernel_from_limit")),
)

CLOSE = 1e-3
"""How far the loss may be from the recorded one, as a share of it."""
LOST = 10.0
"""Times the digits that one product keeps: what the outputs of a deep network lose."""


@final
@dataclass(frozen=True)
class Stop:
    """Why a run ended, and after how many steps; `str(stop)` is the words.

    reason: "done" (all steps), "below" (the loss is at most `share` of its start), "not finite" (the loss), "by hand".
    """

    reason: Literal["done", "below", "not finite", "by hand"]
    step: int
    share: float | None = None

    def __str__(self) -> str:
        if self.reason == "done":
            return f"all {count_of(self.step, 'step')} done"
        if self.reason == "below":
            return f"the loss is at most {self.share:g} of its start at step {self.step}"
        if self.reason == "by hand":
            return f"stopped by hand at step {self.step}"
        why = "the rate is too large" if self.step else "the first weights, the network or the objective give that"
        return f"the loss is not finite at step {self.step}: {why}"


def mean_over_steps(steps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(1/T) Σ_{t<T} of values recorded at some `steps` from 0 to T, the first axis; straight lines between them.

    Exact where every step was recorded, or where a value moves in straight lines between its records.

    >>> mean_over_steps(np.array([0, 1, 2]), np.array([4.0, 2.0, 9.0]))  # of steps 0 and 1
    np.float64(3.0)
    >>> mean_over_steps(np.array([0, 4]), np.array([4.0, 0.0]))  # 4, 3, 2, 1
    np.float64(2.5)
    """
    if len(steps) < 2:
        raise ValueError(f"an average over iterates needs a run of one step or more; here it has {int(steps[-1])}")
    first, last = values[:-1], values[1:]
    gaps = np.diff(steps).reshape(-1, *(1,) * (values.ndim - 1))
    return ((gaps * (first + last) - (last - first)) / 2).sum(axis=0) / (steps[-1] - steps[0])


@final
@dataclass(frozen=True, eq=False)
class Trajectory(AbstractAnswer):
    """What happened at `steps`; every record has the step as its first axis, in NumPy float64.

    records: by name, see `WORDS`; each is an attribute too (`run.loss`, `run.movement`).
    layers: names of the trained layers, the columns of the movements. params: the weights at the end, in the precision
    of the run. network, algorithm: as Specs; `run.network.make()` is the network. n: training rows. stopped: why it
    ended. seconds_per_step: without compilation and recording. digits: decimal digits one product of the run keeps.
    kernel_rows, flip_rows: on how many rows those were measured.
    """

    steps: np.ndarray
    records: Mapping[str, np.ndarray]
    layers: tuple[str, ...]
    params: Params
    network: Spec
    algorithm: Spec
    n: int
    stopped: Stop
    seconds_per_step: float
    digits: int
    kernel_rows: int = 0
    flip_rows: int = 0
    provenance: Provenance = field(default_factory=Provenance)

    kind: ClassVar[str] = "trajectory"

    def __getattr__(self, name: str) -> np.ndarray:
        records = self.__dict__.get("records", {})
        if name in records:
            return records[name]
        raise AttributeError(
            f"this trajectory has no {name!r}; it recorded {', '.join(records)} (see `measures` of `train`)"
        )

    def __repr__(self) -> str:
        last = f", loss {self.loss[0]:.4g} → {self.loss[-1]:.4g}" if len(self.steps) else ""
        return f"Trajectory({self.network}, {self.algorithm}: {count_of(int(self.steps[-1]), 'step')}{last})"

    def averaged(self, name: str = "loss") -> np.ndarray:
        """The mean of a record over the iterates 0 … T − 1, as theorems on SGD state it; see `mean_over_steps`."""
        return mean_over_steps(self.steps, getattr(self, name))

    @property
    def loss_convention(self) -> str:
        """Whether a rate and the recorded loss are of the "sum" or the "mean" over rows."""
        return self.algorithm["loss"]

    @property
    def objective(self) -> str:
        """What was minimised, by its name."""
        return self.algorithm["objective"]["name"]

    @property
    def objective_kind(self) -> str:
        """The class of what was minimised, see `AbstractLoss`."""
        return self.algorithm["objective"]["kind"]

    @property
    def dominance(self) -> float | None:
        """σ of a gradient-dominant objective, see `AbstractLoss`."""
        return self.algorithm["objective"]["dominance"]

    @cached_property
    def digest(self) -> str:
        """Of what was trained and what happened, times aside."""
        return fingerprint(self.network, self.algorithm, self.n, self.steps, self.records, self.params)

    @property
    def total_movement(self) -> np.ndarray:
        """‖W(s) − W(0)‖_F over all layers."""
        return np.sqrt((self.movement**2).sum(axis=1))

    def at(self, step: int) -> dict[str, np.ndarray]:
        """All records of one recorded step."""
        places = np.flatnonzero(self.steps == step)
        if not len(places):
            raise ValueError(f"step {step} was not recorded; recorded: {_shown(self.steps)}")
        return {name: values[places[0]] for name, values in self.records.items()}

    def without_weights(self) -> Trajectory:
        """The run without the weights it ended with and those it recorded."""
        records = {name: values for name, values in self.records.items() if name != "weights"}
        return replace(self, params=Params(()), records=records)

    @property
    def title(self) -> str:
        return f"Training of {self.network}"

    @property
    def verdict(self) -> Verdict:
        """Whether the loss fell, in a sentence."""
        first, last = (float(self.records["loss"][place]) for place in (0, -1))
        fell = last < first
        how = f"fell from {first:.4g} to {last:.4g}" if fell else f"went from {first:.4g} to {last:.4g}"
        sentence = f"The training loss {how} in {count_of(int(self.steps[-1]), 'step')}; {self.stopped}."
        return Verdict("good" if fell else "warning", (sentence,))

    def sections(self) -> tuple[sections.Section, ...]:
        """The page of the run: its verdict, what fell, what moved."""
        blocks: list[sections.Block] = [
            *self.verdict.section.blocks,
            sections.Text(
                f"{self.network}, {self.algorithm}; {self.stopped}. {self.seconds_per_step * 1e3:.3g} ms a step."
            ),
        ]
        for title, scale, names in FIGURES:
            found = [name for name in names if name in self.records]
            if found:
                blocks.append(self._figure(title, [(WORDS[name], self.records[name]) for name in found], scale))
        for name, title in (("movement", "Movement of the weights"), ("flips", "Signs flipped")):
            if name in self.records:
                values = self.records[name]
                labels = self.layers if name == "movement" else [f"ReLU layer {i + 1}" for i in range(values.shape[1])]
                blocks.append(self._figure(title, list(zip(labels, values.T, strict=True)), "linear"))
        return (sections.Section("The run", tuple(blocks)),)

    def _figure(self, title: str, curves: list[tuple[str, np.ndarray]], scale: sections.Scale) -> sections.Figure:
        roles: tuple[sections.Role, ...] = ("observed", "accent", "true", "random", "worst", "muted")
        drawn = tuple(
            sections.series(name, self.steps, np.where(values > 0, values, np.nan) if scale == "log" else values,
                            role=roles[i % len(roles)])
            for i, (name, values) in enumerate(curves)
        )  # fmt: skip
        words = "; ".join(name for name, _ in curves)
        return sections.Figure(title, f"{words}, by step.", "step", title.lower(), drawn, y_scale=scale)


def _shown(steps: np.ndarray) -> str:
    words = [str(int(s)) for s in steps]
    return ", ".join(words if len(words) <= 8 else [*words[:4], "…", *words[-3:]])


def require_network_of(run: Trajectory, network: Any) -> None:
    """Raise where the run trained a network of another class.

    Args:
        run: a `Trajectory`.
        network: what is looked at; a function is trained as `Given`.
    """
    of_house = isinstance(network, AbstractNetwork) or not callable(network)
    own = spec_of(network).name if of_house else "Given"
    if run.network.name != own:
        raise ValueError(f"the run trained a {run.network} and `network` is a {own}; pass the one it trained")


def require_rows_of(run: Trajectory, n: int, name: str) -> None:
    """Raise where the run had another number of rows."""
    if n != run.n:
        raise ValueError(
            f"the run was trained on {count_of(run.n, 'row')} and {name} has {n:,}; pass the rows it had, and `rows` to "
            "look at fewer of them"
        )


def compares(run: Trajectory) -> bool:
    """Whether the last recorded loss is the plain one at the last weights."""
    by_hand = run.stopped.reason == "by hand"  # after the last record
    scaled = run.algorithm.name == "SmoothedSGD"  # outputs are multiplied on the way
    return len(run.steps) > 0 and not by_hand and not scaled and isfinite(run.records["loss"][-1])


def require_loss_of(run: Trajectory, mean: float, y: np.ndarray, digits: int) -> None:
    """Raise where the loss at the run's last weights is not what the run recorded last.

    Args:
        run: a `Trajectory`.
        mean: the loss of the run's objective on the rows given, their mean.
        y: their targets.
        digits: decimal digits that one product kept here.
    """
    told = float(run.records["loss"][-1]) / (run.n if run.loss_convention == "sum" else 1)
    lost = LOST * 10.0 ** -min(digits, run.digits) * sqrt(float(np.mean(np.square(y).reshape(len(y), -1).sum(axis=1))))
    if abs(mean - told) <= CLOSE * abs(told) + sqrt(2 * abs(told)) * lost + lost**2:
        return
    raise ValueError(
        f"the run ended at a mean loss of {told:.6g} and its last weights have {mean:.6g} on these rows: the data are not "
        "those of the run; pass its rows as it had them: `train_and_compare` scales them by `op.data.preprocess(data)`"
    )
