"""A `Trajectory`: what a run went through at the recorded steps, and the weights it ended with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import numpy as np

from overparam.core import sections
from overparam.core.network import Params
from overparam.core.provenance import Provenance
from overparam.core.verdict import Verdict
from overparam.core.words import count_of
from overparam.frame import AbstractAnswer

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


@final
@dataclass(frozen=True, eq=False)
class Trajectory(AbstractAnswer):
    """What happened at `steps`; every record has the step as its first axis, in NumPy float64.

    records: by name, see `WORDS`; each is an attribute too (`run.loss`, `run.movement`).
    layers: names of the trained layers, the columns of the movements. params: the weights at the end, in the precision
    of the run. network, algorithm: in words. loss_convention: "sum" or "mean". seconds_per_step: without compilation
    and recording. stopped: why it ended. digits: decimal digits one product of the run keeps. objective,
    objective_kind, dominance: what was minimised, its class and its σ, see `AbstractLoss`. kernel_rows, flip_rows: on
    how many rows those were measured.
    """

    steps: np.ndarray
    records: Mapping[str, np.ndarray]
    layers: tuple[str, ...]
    params: Params
    network: str
    algorithm: str
    loss_convention: str
    n: int
    stopped: str
    seconds_per_step: float
    digits: int
    objective: str = "squared"
    objective_kind: str = "gradient-dominant"
    dominance: float | None = 1.0
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
        return f"Trajectory({self.network}, {self.algorithm}: {int(self.steps[-1])} steps{last})"

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
        """The page of the run: what fell, what moved."""
        blocks: list[sections.Block] = [
            sections.Text(
                f"{self.network}, {self.algorithm}; {self.stopped}. {self.seconds_per_step * 1e3:.3g} ms a step."
            )
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
