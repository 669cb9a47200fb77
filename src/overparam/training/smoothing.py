"""The smoothed SGD of Algorithm 2, step by step: a sampled point, noise drawn without its matrices, two regularisers, a
shrinking scale; and the parameters that its proof asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, final

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from overparam.core import checks
from overparam.core.network import AbstractNetwork, Params
from overparam.networks import ThreeLayer
from overparam.training.algorithm import AbstractAlgorithm, Problem
from overparam.training.losses import AbstractLoss, SmoothAbsolute, as_loss

Variant = Literal["L1", "L2"]
VARIANTS: tuple[Variant, ...] = ("L1", "L2")

FUSED_ROWS = 16
"""Up to that many sampled points the gradient of V is written as rank-one terms, beyond as a product of matrices."""

STREAM = 1811_04918
"""Folded into the key of a run, so that no draw of the algorithm meets one of the initialisation."""


class SmoothedState(NamedTuple):
    """The initial network, the increments W and V, λ_t, the next time t₀ at which λ shrinks, the key of all draws."""

    start: Params
    W: Any
    V: Any
    scale: Any
    decay_at: Any
    key: Any


class StepNoise(NamedTuple):
    """What one step draws, a row for each sampled point: Gaussian z₀ (b, m₁), z₁ (b, m₂), z₂ (b, m₁), signs (b, m₁).

    `signs` are the diagonals of Σ, () for the variant without.
    """

    z0: Any
    z1: Any
    z2: Any
    signs: Any = ()


def smoothed_gradient(
    params: Params,
    W: Any,
    V: Any,
    X: Any,
    y: Any,
    noise: StepNoise,
    sigma_w: Any,
    sigma_v: Any,
    scale: Any,
    objective: AbstractLoss,
) -> tuple[Any, Any]:
    """∂/∂W and ∂/∂V of the mean of L(λ F(x; W⁰ + ΣW + W^ρ, V⁰ + VΣ + V^ρ), y) over the sampled points.

    No noise matrix is formed. With h = σ((W⁰ + ΣW + W^ρ)x + b₁), ĥ = h/‖h‖ and g the gradient at the second layer,

        W^ρ x = σ_w ‖x‖ z₀,   V^ρ h = σ_v ‖h‖ z₁,   V^ρᵀ g = σ_v [ĥ (g·z₁) + ‖g‖ (I − ĥĥᵀ) z₂].

    This is the exact law: V^ρ = (V^ρĥ)ĥᵀ + V^ρ(I − ĥĥᵀ) has independent parts, and g depends on the first alone.

    Ref: beyond_two_layers, Eq. (13), (14)
    """
    W0, V0 = params.trained["W"], params.trained["V"]
    a, b1, b2 = params.fixed["a"], params.fixed["b1"], params.fixed["b2"]

    def flipped(rows: Any) -> Any:
        return rows if isinstance(noise.signs, tuple) else noise.signs * rows

    first = X @ W0.T + flipped(X @ W.T) + sigma_w * _lengths(X) * noise.z0 + b1
    h = jnp.maximum(first, 0)
    size = _lengths(h)
    second = h @ V0.T + flipped(h) @ V.T + sigma_v * size * noise.z1 + b2
    outputs = jnp.maximum(second, 0) @ a.T

    def loss(outputs: Any) -> Any:
        shaped = scale * (outputs[:, 0] if y.ndim == 1 else outputs)
        return objective.each(shaped, y).mean()

    g = (jax.grad(loss)(outputs) @ a) * (second >= 0)
    unit = h / jnp.where(size > 0, size, 1)
    along = (g * noise.z1).sum(axis=1, keepdims=True)
    across = noise.z2 - unit * (unit * noise.z2).sum(axis=1, keepdims=True)
    back = g @ V0 + flipped(g @ V) + sigma_v * (unit * along + _lengths(g) * across)
    back = back * (first >= 0)
    return flipped(back).T @ X, _outer(g, flipped(h))


def _outer(left: Any, right: Any) -> Any:
    """Σ_i left_i right_iᵀ. Few rows are added up one by one: that fuses into the update of V and is never stored."""
    if left.shape[0] > FUSED_ROWS:
        return left.T @ right
    return sum(left[i][:, None] * right[i][None, :] for i in range(left.shape[0]))


def normals(key: Any, shapes: Sequence[tuple[int, ...]], kind: Any) -> list[Any]:
    """Independent Gaussian arrays from one draw: a program with one generator compiles and starts faster than with three.

    >>> [z.shape for z in normals(jax.random.key(0), ((2, 3), (4,)), jnp.float32)]
    [(2, 3), (4,)]
    """
    sizes = [math.prod(shape) for shape in shapes]
    drawn = jax.random.normal(key, (sum(sizes),), kind)
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [drawn[i : i + n].reshape(shape) for i, n, shape in zip(starts, sizes, shapes, strict=True)]


def _lengths(rows: Any) -> Any:
    return jnp.sqrt((rows * rows).sum(axis=1, keepdims=True))


@final
@register_dataclass
@dataclass(frozen=True)
class SmoothedSGD(AbstractAlgorithm):
    """Algorithm 2 as a step; `smoothed_sgd` runs it whole, with the choice of a last noise.

        W ← W − η ∂/∂W [L(λ_t F(x; W⁰ + W^ρ + ΣW, V⁰ + V^ρ + VΣ), y) + λ_w ‖W‖_{2,4}⁴ + λ_v ‖V‖_F²] + η ξ_w

    and V likewise; Σ = I for "L1". At t = t₀, first 1, λ_{t+1} = (1 − η) λ_t and the next t₀ is uniform on the whole
    numbers from t + wait to t + 2 wait. `current` gives W⁰ + W, V⁰ + V, without noise; `scale` gives λ_t.

    For "L2" `current` stands for a network with a drawn Σ: the law of (W, V) given the initial network does not change
    when (ΣW, VΣ) takes its place, because every step draws its Σ afresh.

    With `batch` > 1 a step averages that many copies of the stochastic gradient: every sampled point has its own
    W^ρ, V^ρ and Σ (one shared draw would leave their noise unaveraged).

    Ref: beyond_two_layers, Alg. 2, Eq. (13), (14)

    Differs from the paper: `batch`. As there σ′(0) = 1, while JAX differentiates its ReLU with σ′(0) = 0.
    """

    lr: Any
    sigma_w: Any
    sigma_v: Any
    lambda_w: Any
    lambda_v: Any
    wait: Any
    sigma_n: Any = 0.0
    noisy: bool = field(default=False, metadata={"static": True})
    """Whether ξ is drawn at all: it costs as many draws as there are weights."""
    variant: Variant = field(default="L1", metadata={"static": True})
    batch: int = field(default=1, metadata={"static": True})
    objective: AbstractLoss = field(default=SmoothAbsolute(), metadata={"static": True})
    loss: str = field(default="mean", metadata={"static": True})
    alpha: float = field(default=2.0, metadata={"static": True})
    """α > 0 of the regulariser ‖W‖_{2,2+α}^{2+α}: 2 in the proofs, any constant in the paper's remark."""

    def begin(self, network: AbstractNetwork, params: Params, problem: Problem, key: Any) -> SmoothedState:
        W, V = params.trained["W"], params.trained["V"]
        one = jnp.ones((), W.dtype)
        zeros = jnp.zeros_like(W), jnp.zeros_like(V)
        return SmoothedState(params, *zeros, one, jnp.ones((), jnp.int32), jax.random.fold_in(key, STREAM))

    def step(self, network: AbstractNetwork, state: SmoothedState, problem: Problem, step: Any) -> SmoothedState:
        kind = state.W.dtype
        choose, draw, kick, later = jax.random.split(jax.random.fold_in(state.key, step), 4)
        lr, sigma_w, sigma_v, lambda_w, lambda_v, sigma_n = (
            jnp.asarray(value, kind)
            for value in (self.lr, self.sigma_w, self.sigma_v, self.lambda_w, self.lambda_v, self.sigma_n)
        )
        scale, decay_at = self.shrunk(state, step, later, lr)
        rows = jax.random.randint(choose, (self.batch,), 0, problem.n)
        noise = self.noise(draw, state)
        W, V = state.W, state.V
        grad_W, grad_V = smoothed_gradient(
            state.start, W, V, problem.X[rows], problem.y[rows], noise, sigma_w, sigma_v, scale, self.objective
        )
        W_new = W - lr * (grad_W + (2 + self.alpha) * lambda_w * self._pull(W) * W)
        V_new = V - lr * (grad_V + 2 * lambda_v * V)
        if self.noisy:
            for_W, for_V = normals(kick, (W.shape, V.shape), kind)
            W_new, V_new = W_new + lr * sigma_n * for_W, V_new + lr * sigma_n * for_V
        return state._replace(W=W_new, V=V_new, scale=scale, decay_at=decay_at)

    def _pull(self, W: Any) -> Any:
        """‖w_i‖^α of every row; the square is taken as it is, without a root that has no derivative at 0."""
        squares = (W * W).sum(axis=1, keepdims=True)
        return squares if self.alpha == 2 else squares ** (self.alpha / 2)

    def shrunk(self, state: SmoothedState, step: Any, key: Any, lr: Any) -> tuple[Any, Any]:
        """λ_t and t₀ as step t = `step` + 1 sees them: the decay of step t − 1 is done first, so that the last is λ_T."""
        before = jnp.asarray(step, jnp.int32)
        wait = jnp.asarray(self.wait, jnp.int32)
        due = before == state.decay_at
        following = jax.random.randint(key, (), before + wait, before + 2 * wait + 1, jnp.int32)
        return jnp.where(due, (1 - lr) * state.scale, state.scale), jnp.where(due, following, state.decay_at)

    def noise(self, key: Any, state: SmoothedState) -> StepNoise:
        """The noise of one step."""
        (m2, m1), kind, b = state.V.shape, state.V.dtype, self.batch
        gaussian, coins = jax.random.split(key)
        z0, z1, z2 = normals(gaussian, ((b, m1), (b, m2), (b, m1)), kind)
        return StepNoise(z0, z1, z2, jax.random.rademacher(coins, (b, m1), kind) if self.variant == "L2" else ())

    def rows_a_step(self, n: int) -> int:
        return self.batch

    def current(self, state: SmoothedState) -> Params:
        return replace(
            state.start, trained={"W": state.start.trained["W"] + state.W, "V": state.start.trained["V"] + state.V}
        )

    def scale(self, state: SmoothedState) -> Any:
        return state.scale


def decay_wait(lr: float, steps: int, epsilon: float, constant: float = 1.0) -> int:
    """T_w = c η T / log(1/ε), a whole number ≥ 1: from T_w to 2 T_w steps pass between two decays of λ.

    About T/(1.5 T_w) decays by 1 − η leave λ_T ≈ ε^{1/(1.5 c)}, or exp(−ηT/1.5) where T_w would be below 1.

    Ref: beyond_two_layers, Alg. 2

    >>> decay_wait(lr=0.1, steps=1000, epsilon=math.exp(-2.0))
    50
    """
    return max(1, round(constant * lr * steps / math.log(1 / epsilon)))


def make_smoothed(
    *,
    lr: float,
    steps: int,
    sigma_w: float,
    sigma_v: float,
    lambda_w: float,
    lambda_v: float,
    sigma_n: float = 0.0,
    epsilon: float = 0.1,
    decay_constant: float = 1.0,
    variant: str = "L1",
    batch: int = 1,
    objective: Any = "smooth-absolute",
    alpha: float = 2.0,
) -> SmoothedSGD:
    """A `SmoothedSGD` with every argument checked and T_w computed."""
    rate = checks.positive(lr, "lr")
    if rate >= 1:
        raise ValueError(f"`lr` is {lr!r}; expected a number below 1: λ is multiplied by 1 − lr")
    checks.one_of(variant, "variant", VARIANTS)
    sizes = {"sigma_w": sigma_w, "sigma_v": sigma_v, "lambda_w": lambda_w, "lambda_v": lambda_v, "sigma_n": sigma_n}
    *others, noise = (checks.positive(value, name, zero=True) for name, value in sizes.items())
    wait = decay_wait(rate, steps, checks.share(epsilon, "epsilon"), checks.positive(decay_constant, "decay_constant"))
    batch = checks.whole_number(batch, "batch", least=1)
    alpha = checks.positive(alpha, "alpha")
    return SmoothedSGD(rate, *others, wait, noise, noise > 0, variant, batch, as_loss(objective), alpha=alpha)  # type: ignore[arg-type]


def checked_three_layer(network: Any) -> ThreeLayer:
    """The network Algorithm 2 is written for."""
    if not isinstance(network, ThreeLayer) or network.trained != "hidden":
        raise ValueError(f"`network` is {network!r}; Algorithm 2 trains op.networks.ThreeLayer with trained='hidden'")
    return network


@final
@dataclass(frozen=True)
class SmoothingChoices:
    """Radii τ_v, τ′_w, τ_w of the increments, weights λ_w, λ_v of the regularisers, noises σ_w, σ_v, and ε′, ε_a.

    conditions: what the coupling lemma asks of them, and whether it is so.
    """

    tau_v: float
    tau_w_prime: float
    tau_w: float
    lambda_w: float
    lambda_v: float
    sigma_w: float
    sigma_v: float
    epsilon_prime: float
    epsilon_a: float
    conditions: tuple[tuple[str, bool], ...]


def smoothing_choices(
    m1: int,
    m2: int,
    epsilon: float,
    *,
    complexity: float,
    tau_v_exponent: float = 1.0,
    tau_w_exponent: float = 1.0,
    sigma_v_exponent: float = 1.0,
    sigma_w_exponent: float = 0.99,
) -> SmoothingChoices:
    """The parameters of Lemma 5.3:

        ε′ = ε/C₁,  ε_a = ε,
        τ_v = (ε′)^p √(m₁/m₂),  τ′_w = 1/((ε′)^q m₁^{3/4}),  λ_w = 2/(τ′_w)⁴,  λ_v = 2/τ_v²,
        σ_v = (ε′)^s / √m₂,  σ_w = m₁^{−0.99},  τ_w = σ_w m₁^{1/4}.

    They prove, they do not train. λ_v ≥ 2 keeps V within τ_v ≤ ε′ of 0, and ε′ is ε over a polynomial of function
    complexities that start at 10⁴: at any width that fits a computer the increments allowed cannot change the outputs
    by as much as ε. `smoothed_sgd` takes its parameters as they are given.

    Ref: beyond_two_layers, Lemma 5.3, Eq. (25), (26), (27), Lemma 5.5

    Differs from the paper: p, q, s are each a Θ(1) there, fixed by γ; C₁ is a polynomial that is not written out.

    Args:
        m1, m2: the widths, equal in the theorem.
        epsilon: ε.
        complexity: C₁ ≥ 1.
        tau_v_exponent, tau_w_exponent, sigma_v_exponent: p, q, s > 0.
        sigma_w_exponent: 99/100 in the paper.

    With m₁ = m₂ = 16, ε = ½, C₁ = 1: τ′_w = 1/(½ · 8) and λ_w = 2 · 4⁴:

    >>> c = smoothing_choices(16, 16, 0.5, complexity=1.0)
    >>> c.tau_v, c.tau_w_prime, c.lambda_w, c.lambda_v, c.sigma_v
    (0.5, 0.25, 512.0, 8.0, 0.125)
    """
    m1, m2 = checks.whole_number(m1, "m1", least=1), checks.whole_number(m2, "m2", least=1)
    epsilon = checks.share(epsilon, "epsilon")
    if not 1 <= complexity < math.inf:
        raise ValueError(f"`complexity` is {complexity!r}; expected C₁, a number ≥ 1")
    tau_v_exponent = checks.positive(tau_v_exponent, "tau_v_exponent")
    tau_w_exponent = checks.positive(tau_w_exponent, "tau_w_exponent")
    sigma_v_exponent = checks.positive(sigma_v_exponent, "sigma_v_exponent")
    sigma_w_exponent = checks.positive(sigma_w_exponent, "sigma_w_exponent")
    small = epsilon / complexity
    tau_v = small**tau_v_exponent * math.sqrt(m1 / m2)
    tau_w_prime = 1 / (small**tau_w_exponent * m1**0.75)
    sigma_w = m1**-sigma_w_exponent
    sigma_v = small**sigma_v_exponent / math.sqrt(m2)
    tau_w = sigma_w * m1**0.25
    conditions = (
        ("1/√m₂ ≤ τ_v ≤ √(m₁/m₂)", m2**-0.5 <= tau_v <= math.sqrt(m1 / m2)),
        ("m₁^(−3/4) ≤ τ_w ≤ m₁^(−1/2)", m1**-0.75 <= tau_w <= m1**-0.5),
        ("σ_w ≤ τ_w / m₁^(1/4)", sigma_w <= tau_w / m1**0.25 * (1 + 1e-12)),
        ("σ_v ≤ 1/(4√m₂)", sigma_v <= 0.25 / math.sqrt(m2)),
        ("τ′_w ≤ τ_w", tau_w_prime <= tau_w),
        ("m₂ = m₁", m1 == m2),
    )
    return SmoothingChoices(
        tau_v, tau_w_prime, tau_w, 2 / tau_w_prime**4, 2 / tau_v**2, sigma_w, sigma_v, small, epsilon, conditions
    )
