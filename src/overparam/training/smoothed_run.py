"""A `SmoothedRun`: what Algorithm 2 gives back, saved and read again, with its predictor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core import checks, sections
from overparam.core.network import Params
from overparam.core.provenance import Provenance
from overparam.core.verdict import Verdict
from overparam.core.words import count_of
from overparam.frame import AbstractAnswer
from overparam.networks import ThreeLayer
from overparam.training.precision import computing
from overparam.training.trajectory import Trajectory


@final
@dataclass(frozen=True, eq=False)
class SmoothedRun(AbstractAnswer):
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

    kind: ClassVar[str] = "smoothed-run"

    @property
    def training_loss(self) -> float:
        """The mean training loss of the predictor."""
        return float(self.draw_losses[self.draw])

    def predict(self, X: Any) -> np.ndarray:
        """λ_T F(x; W^(out), V^(out)) of every row, in float64."""
        if not jax.tree.leaves(self.params.trained):
            raise ValueError("this run was saved without its weights and cannot predict; save it with `weights=True`")
        X = checks.finite_matrix(X)
        kind = self.params.trained["W"].dtype
        with computing(str(kind), None):
            outputs = self.network.apply(jax.tree.map(jnp.asarray, self.params), jnp.asarray(X, kind))
            return self.scale * np.asarray(outputs, dtype=np.float64)

    def __repr__(self) -> str:
        last = f"loss {self.training_loss:.4g}, λ_T {self.scale:.3g}"
        return f"SmoothedRun({self.variant}, {self.trajectory.network}: {int(self.trajectory.steps[-1])} steps, {last})"

    def without_weights(self) -> SmoothedRun:
        """The run without any weights, which cannot predict."""
        return replace(self, trajectory=self.trajectory.without_weights(), params=Params(()))

    @property
    def title(self) -> str:
        return f"Algorithm 2 on {self.trajectory.network}"

    @property
    def verdict(self) -> Verdict:
        """That of its trajectory."""
        return self.trajectory.verdict

    @property
    def provenance(self) -> Provenance:
        """That of its trajectory."""
        return self.trajectory.provenance

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
