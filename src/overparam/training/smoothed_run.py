"""A `SmoothedRun`: what Algorithm 2 gives back, saved and read again, with its predictor."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core import checks, folder, sections
from overparam.core.network import Params
from overparam.core.words import count_of
from overparam.networks import ThreeLayer
from overparam.training.precision import computing
from overparam.training.trajectory import PARTS, Trajectory
from overparam.training.trees import put_tree_together, take_tree_apart

OF_THE_RUN = "trajectory."
"""Before the names of the trajectory's arrays."""


@final
@dataclass(frozen=True, eq=False)
class SmoothedRun:
    """What Algorithm 2 gives back.

    trajectory: the run, without noise (its `params` are W⁰ + W_T, V⁰ + V_T). params: W^(out), V^(out), with the last Σ
    and the chosen noise. scale: λ_T. draw: which noise was chosen, j*. draw_losses: the mean training loss with each.
    signs: the diagonal of the last Σ, None for "L1".
    """

    trajectory: Trajectory
    network: ThreeLayer
    params: Params
    scale: float
    variant: str
    draw: int
    draw_losses: np.ndarray
    signs: np.ndarray | None = None

    kind = "smoothed-run"

    @property
    def training_loss(self) -> float:
        """The mean training loss of the predictor."""
        return float(self.draw_losses[self.draw])

    def predict(self, X: Any) -> np.ndarray:
        """λ_T F(x; W^(out), V^(out)) of every row, in float64."""
        if not jax.tree.leaves(self.params.trained):
            raise ValueError("this run was saved without its weights and cannot predict; save it with `params=True`")
        X = checks.finite_matrix(X)
        kind = self.params.trained["W"].dtype
        with computing(str(kind), None):
            outputs = self.network.apply(jax.tree.map(jnp.asarray, self.params), jnp.asarray(X, kind))
            return self.scale * np.asarray(outputs, dtype=np.float64)

    def __repr__(self) -> str:
        last = f"loss {self.training_loss:.4g}, λ_T {self.scale:.3g}"
        return f"SmoothedRun({self.variant}, {self.trajectory.network}: {int(self.trajectory.steps[-1])} steps, {last})"

    def save(self, place: str | os.PathLike[str], *, params: bool = True) -> Path:
        """Write result.json and arrays.npz into a folder; without any weights where `params` is False."""
        return folder.write(self.parts(params=params), place)

    def parts(self, *, params: bool = True) -> folder.Parts:
        """The run taken apart, its trajectory inside, with the sections of its page."""
        run = self.trajectory.parts(params=params)
        arrays = {f"{OF_THE_RUN}{name}": array for name, array in run.arrays.items()}
        arrays["draw_losses"] = self.draw_losses
        if self.signs is not None:
            arrays["signs"] = self.signs
        values: dict[str, Any] = {name: getattr(self, name) for name in ("scale", "variant", "draw")}
        values |= {"network": asdict(self.network), "trajectory": run.values}
        if params:
            outlines = values["params"] = {}
            for part in PARTS:
                outlines[part], own = take_tree_apart(getattr(self.params, part), f"params.{part}")
                arrays |= own
        title = f"Algorithm 2 on {self.trajectory.network}"
        return folder.Parts(self.kind, title, values, arrays, self.sections(), run.provenance)

    @classmethod
    def from_parts(cls, parts: folder.Parts) -> SmoothedRun:
        """The run that `parts` took apart; weights that were not saved come back empty."""
        values = dict(parts.values)
        outlines, size = values.pop("params", {}), len(OF_THE_RUN)
        of_the_run = {name[size:]: array for name, array in parts.arrays.items() if name.startswith(OF_THE_RUN)}
        return cls(
            trajectory=Trajectory.from_parts(replace(parts, values=values.pop("trajectory"), arrays=of_the_run)),
            network=ThreeLayer(**values.pop("network")),
            params=Params(*(put_tree_together(outlines.get(part, {"tuple": []}), parts.arrays) for part in PARTS)),
            draw_losses=parts.arrays["draw_losses"],
            signs=parts.arrays.get("signs"),
            **values,
        )

    def sections(self) -> tuple[sections.Section, ...]:
        """The page of the run, then the noises tried at its end."""
        tried = np.sort(self.draw_losses)
        text = (
            f"Variant {self.variant}, λ_T = {self.scale:.4g}. Of {count_of(len(tried), 'noise')} tried at the end, "
            f"number {self.draw} has the least training loss, {self.training_loss:.4g}, and is in the predictor."
        )
        drawn = (sections.series("training loss", np.arange(1, len(tried) + 1), tried, mark="points"),)
        figure = sections.Figure(
            "Noises tried", "Mean training loss with each noise tried, sorted.", "rank", "training loss", drawn
        )
        return (*self.trajectory.sections(), sections.Section("The predictor", (sections.Text(text), figure)))
