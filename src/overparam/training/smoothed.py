"""Algorithm 2 whole: noisy smoothed SGD on the three-layer learner, a last sign matrix, the best of many noises; its result."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core import checks, sections
from overparam.core.deprecated import accepts_old
from overparam.core.network import Params
from overparam.core.provenance import Provenance
from overparam.core.sections import Verdict
from overparam.core.words import count_of
from overparam.frame import AbstractAnswer
from overparam.networks import ThreeLayer
from overparam.training.arguments import options_of, taken
from overparam.training.loop import Runner, started
from overparam.training.losses import AbstractLoss
from overparam.training.precision import computing
from overparam.training.smoothing import SmoothedSGD, SmoothedState, checked_three_layer, make_smoothed, normals
from overparam.training.trajectory import Trajectory

LAST_SIGNS, LAST_DRAWS = 2**32 - 1, 2**32 - 2
"""Folded into the key of the algorithm for what is drawn after the last step."""


@final
@dataclass(frozen=True, eq=False)
class SmoothedRun(AbstractAnswer):
    """What Algorithm 2 gives back.

    trajectory: the run, without noise (its `params` are W⁰ + W_T, V⁰ + V_T). params: W^(out), V^(out), with the last Σ
    and the chosen noise. scale: λ_T. draw: which noise was chosen, j*. draw_losses: the mean training loss with each.
    signs: the diagonal of the last Σ, None for "L1".
    """

    trajectory: Trajectory
    params: Params
    scale: float
    draw: int
    draw_losses: np.ndarray
    signs: np.ndarray | None = None

    kind: ClassVar[str] = "smoothed-run"

    @property
    def network(self) -> ThreeLayer:
        """The network that was trained."""
        return self.trajectory.network.make()

    @property
    def variant(self) -> str:
        """Of the loss: "L1" or "L2"."""
        return self.trajectory.algorithm["variant"]

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
        return f"SmoothedRun({self.variant}, {self.trajectory.network}: {count_of(int(self.trajectory.steps[-1]), 'step')}, {last})"

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


@accepts_old("training.smoothed_sgd")
@options_of(make_smoothed, Runner.run)
def smoothed_sgd(
    network: ThreeLayer,
    data: Any,
    *,
    steps: int,
    epsilon: float = 0.1,
    draws: int | None = None,
    key: Any = 0,
    params: Any = None,
    dtype: str = "float64",
    device: str | None = None,
    **options: Any,
) -> SmoothedRun:
    """Algorithm 2: SGD with smoothing noise, regularisers and a shrinking output on the three-layer learner.

    From W = V = 0, λ_1 = 1, t₀ = 1, with W^ρ, V^ρ, ξ (and for "L2" random signs Σ) drawn at every step:

        W ← W − η ∂L_R/∂W + η ξ_w,  V ← V − η ∂L_R/∂V + η ξ_v
        L_1 = L(λ_t F(x; W⁰ + W^ρ + W, V⁰ + V^ρ + V), y) + λ_w ‖W‖_{2,4}⁴ + λ_v ‖V‖_F²
        L_2 = the same with ΣW and VΣ in place of W and V inside F
        at t = t₀: λ_{t+1} = (1 − η) λ_t, the next t₀ uniform on [t + T_w, t + 2 T_w], T_w = c η T / log(1/ε)

    At the end "L2" draws a last Σ; then `draws` noises are tried on the training set and the best is kept. The
    predictor is λ_T F(x; W^(out), V^(out)).

    Ref: beyond_two_layers, Alg. 2, Eq. (13), (14), Thm 4.2, Thm 4.3

    Assumes: inputs of norm 1 with last coordinate ½ (`pad_beyond_two_layers`), a loss with values in [0, 1]
    (`SmoothAbsolute` is convex and Lipschitz, and not bounded). Neither is needed to run.

    Differs from the paper: with `batch` > 1 a step averages that many independent copies of the stochastic gradient.
    The parameters of the proof (`smoothing_choices`) are of no use at sizes that can be run: λ_v ≥ 2/(ε′)^Θ(1) alone
    holds V at 0 with any rate that gets anywhere. Choose λ_w, λ_v so that both terms end near ε², which is what the
    proof wants of them, and η by trying, near 1/(m ε_a²).

    Args:
        network: `ThreeLayer`; its `output_std` is ε_a.
        data: a `Dataset` or (X, y).
        lr: η < 1, of one sample's loss.
        steps: T.
        sigma_w, sigma_v: standard deviations of the smoothing noise W^ρ and V^ρ.
        lambda_w, lambda_v: of ‖W‖_{2,4}⁴ and ‖V‖_F².
        alpha: of ‖W‖_{2,2+α}^{2+α} in place of ‖W‖_{2,4}⁴, any number above 0.
        sigma_n: of the gradient noise ξ; 0 draws none, which at great widths is most of a step's time.
        variant: "L1" or "L2".
        objective: a loss by name or an `AbstractLoss`.
        epsilon: ε, in T_w and in the number of draws.
        decay_constant: c in T_w.
        draws: noises tried at the end; ⌈1/ε²⌉ if None.
        batch: points a step, 1 in the paper.
        key: an int or a JAX key, of the initialisation and all draws.
        params, dtype, device, options: see `train`.

    Two steps of the smallest network, whose λ decays once, after step 1:

    >>> run = smoothed_sgd(ThreeLayer(2), ([[0.6, 0.8], [0.8, 0.6]], [1.0, 0.0]), lr=0.5, steps=2, sigma_w=0.1, sigma_v=0.1,
    ...                    lambda_w=0.1, lambda_v=0.1, draws=3, measures=())
    >>> run.scale, run.draw == int(run.draw_losses.argmin()), run.predict([[0.6, 0.8]]).shape
    (0.5, True, (1,))
    """
    checked_three_layer(network)
    steps = checks.whole_number(steps, "steps")
    algorithm = make_smoothed(steps=steps, epsilon=epsilon, **taken(options, make_smoothed))
    tried = math.ceil(1 / epsilon**2) if draws is None else checks.whole_number(draws, "draws", least=1)
    with started(network, data, algorithm, key, params, dtype, device) as runner:
        state, stopped = runner.run(steps, **options)
        out, best, losses = last_choice(network, algorithm, state, runner.problem.X, runner.problem.y, tried)
        return SmoothedRun(
            trajectory=runner.trajectory(state, stopped),
            params=jax.tree.map(np.asarray, out),
            scale=float(state.scale),
            draw=best,
            draw_losses=losses,
            signs=None if (signs := last_signs(algorithm, state)) is None else np.asarray(signs),
        )


def last_choice(
    network: ThreeLayer, algorithm: SmoothedSGD, state: SmoothedState, X: Any, y: Any, draws: int
) -> tuple[Params, int, np.ndarray]:
    """Lines 14 to 16: a last Σ for "L2", `draws` noises tried on the training set with λ_T, the best one's network."""
    signed = with_last_signs(algorithm, state)
    base = algorithm.current(signed)
    sigmas = jnp.asarray(algorithm.sigma_w, state.W.dtype), jnp.asarray(algorithm.sigma_v, state.W.dtype)
    keys = jax.random.split(jax.random.fold_in(state.key, LAST_DRAWS), draws)
    losses = np.asarray(_losses(network, algorithm.objective, base, *sigmas, state.scale, X, y, keys), dtype=np.float64)
    # A loss that is not a number loses to every other one; where none is a number the first draw stands.
    best = int(np.argmin(np.where(np.isnan(losses), np.inf, losses)))
    return smoothed(base, *sigmas, keys[best]), best, losses


def last_signs(algorithm: SmoothedSGD, state: SmoothedState) -> Any:
    """The diagonal of the last Σ, None for "L1"."""
    if algorithm.variant == "L1":
        return None
    return jax.random.rademacher(jax.random.fold_in(state.key, LAST_SIGNS), (state.W.shape[0],), state.W.dtype)


def with_last_signs(algorithm: SmoothedSGD, state: SmoothedState) -> SmoothedState:
    """The state with ΣW and VΣ for a Σ drawn once, for "L2"; the same state for "L1"."""
    signs = last_signs(algorithm, state)
    return state if signs is None else state._replace(W=signs[:, None] * state.W, V=state.V * signs)


def smoothed(params: Params, sigma_w: Any, sigma_v: Any, key: Any) -> Params:
    """The network with Gaussian noise added to W and V."""
    W, V = params.trained["W"], params.trained["V"]
    for_W, for_V = normals(key, (W.shape, V.shape), W.dtype)
    return replace(params, trained={"W": W + sigma_w * for_W, "V": V + sigma_v * for_V})


@partial(jax.jit, static_argnames=("network", "objective"))
def _losses(
    network: ThreeLayer,
    objective: AbstractLoss,
    base: Params,
    sigma_w: Any,
    sigma_v: Any,
    scale: Any,
    X: Any,
    y: Any,
    keys: Any,
) -> Any:
    def one(key: Any) -> Any:
        return objective.each(scale * network.apply(smoothed(base, sigma_w, sigma_v, key), X), y).mean()

    return jax.lax.map(one, keys)  # one after the other: a noise has as many entries as the network has weights
