"""Gradient flow of any loss, with or without momentum, in the space of outputs: an ODE, solved inside JAX.

The house's `predict_flow` and the archived library's `gradient_descent` read the same integrator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.core.bracketed import INFINITE_WIDTH, Assumption
from overparam.engines.matrix import as_gram
from overparam.theory.rates import checked_rate, loss_scale

MOST_STEPS = 100_000
"""Of the integrator between two times; a stiffer problem ends in NaN."""
STAGES = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
"""Of Dormand and Prince (1980), order 5; the last stage is the new state, whose slope the next step begins with."""
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
"""Times the slopes: the difference to the embedded order 4."""


def integrate(
    slope: Callable[[Any], Any], state: Any, times: Any, tol: float, target: Callable[[Any], Any] | None = None
) -> tuple[Any, Any]:
    """States of ẋ = slope(x) at rising `times` (first axis), from x(0) = `state`, and the times reached; pure JAX, any pytree.

    Steps adapt so that the error of each, in the mean square of entries, is at most `tol` (1 + |x|). A time ∞ is reached where
    twice the time has changed the state by no more than 10 `tol`. A `target` that falls to 0 stops it: later states are that one, and the
    time it was reached stands in place of those asked for.

    >>> import jax.numpy as jnp
    >>> states, _ = integrate(lambda x: -x, jnp.ones(1), jnp.array([0.0, jnp.log(2.0), jnp.inf]), 1e-6)
    >>> jnp.round(states[:, 0], 4).tolist()
    [1.0, 0.5, 0.0]
    """
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    x0, back = ravel_pytree(state)
    eps = jnp.finfo(x0.dtype).eps
    tol = max(float(tol), 16 * float(eps))

    def f(x: Any) -> Any:
        return ravel_pytree(slope(back(x)))[0].astype(x.dtype)

    def size(v: Any, x: Any) -> Any:
        return jnp.sqrt(jnp.mean(jnp.square(v / (1 + jnp.abs(x)))))

    def left(x: Any) -> Any:
        return jnp.ones((), x.dtype) if target is None else target(back(x))

    def unfinished(carry: Any) -> Any:
        t, _, _, _, _, end, count, stopped, rests = carry
        return (t < end) & ~rests & ~stopped & (count < MOST_STEPS)

    def step(carry: Any) -> Any:
        t, x, k, h, (marked, x_marked), end, count, _, _ = carry
        last = h >= end - t
        h = jnp.where(last, jnp.where(jnp.isinf(end), h, end - t), h)
        slopes = [k]
        new = x
        for row in STAGES[1:]:
            change = sum(a * s for a, s in zip(row, slopes, strict=True) if a)
            new = x + h * change
            slopes.append(f(new))
        error = size(h * sum(e * s for e, s in zip(ERROR, slopes, strict=True) if e), x) / tol
        smallest = h <= 16 * eps * t
        passed = left(new) <= 0
        good = (error <= 1) | (smallest & jnp.isfinite(error))
        again = good & passed & (h > tol * t) & ~smallest  # the crossing is closed in on, by halves
        good = good & ~again
        factor = jnp.clip(0.9 * jnp.where(error > 0, error, 1e-10) ** -0.2, 0.2, 10.0)
        factor = jnp.where(jnp.isfinite(error), factor, 0.2)
        t_new = jnp.where(good, jnp.where(last & ~jnp.isinf(end), end, t + h), t)
        doubled = good & (t_new >= 2 * marked)
        rests = doubled & (marked > 0) & jnp.isinf(end) & (size(new - x_marked, new) <= 10 * tol)
        return (
            t_new,
            jnp.where(good, new, x),
            jnp.where(good, slopes[-1], k),
            jnp.where(again, h / 2, h * factor),
            (jnp.where(doubled, t_new, marked), jnp.where(doubled, new, x_marked)),
            end,
            count + 1,
            good & passed,
            rests,
        )

    def through(carry: Any, end: Any) -> Any:
        *now, stopped = carry
        begin = (*now, end, jnp.zeros((), jnp.int32), stopped, jnp.zeros((), bool))
        t, x, k, h, mark, _, count, stopped, _ = jax.lax.while_loop(unfinished, step, begin)
        x = jnp.where(count >= MOST_STEPS, jnp.nan, x)
        return (t, x, k, h, mark, stopped), (x, t)

    k0 = f(x0)
    scale = size(k0, x0)
    h0 = jnp.where(scale > 0, 0.01 / jnp.where(scale > 0, scale, 1), 1e-3).astype(x0.dtype)
    zero = jnp.zeros((), x0.dtype)
    begin = (zero, x0, k0, h0, (zero, x0), left(x0) <= 0)
    _, (states, reached) = jax.lax.scan(through, begin, jnp.asarray(times, x0.dtype))
    return jax.vmap(back)(states), reached


def output_slope(
    gradient: Callable[[Any], Any], push: Callable[[Any], tuple[Any, Any]], friction: Any = None
) -> Callable[[Any], Any]:
    """ẋ of the outputs of a linear model, x = (f, f_new, q, q_new), for `integrate`.

        ḟ = −K ∇L(f),   or with momentum   ḟ = q,  q̇ = −K ∇L(f) − friction · q

    and the same with K(x, X) for new points, which nothing else depends on. f_new, and without friction q, may be None.

    Args:
        gradient: ∇L, of the outputs on the training rows.
        push: g ↦ (K g, K_new g), K_new g None where there are no new points.
        friction: None without momentum; (1 − β)/√η in the time √η s of s steps of heavy ball.
    """

    def slope(state: Any) -> Any:
        f, f_new, q, q_new = state
        K_g, K_new_g = push(gradient(f))
        if friction is None:
            return -K_g, None if f_new is None else -K_new_g, None, None
        return q, q_new, -K_g - friction * q, None if q_new is None else -K_new_g - friction * q_new

    return slope


@final
@dataclass(frozen=True, eq=False)
class LossFlow:
    """Outputs along gradient flow.

    Attributes:
        times: asked for, in steps.
        outputs: on the training rows, (times, n) or (times, n, k).
        new: on new points, (times, p) or (times, p, k); None where there are none.
        losses: the loss at those times.
        reached: the time at which the loss fell to `until`; None where it did not, or nothing was asked. Outputs later are those of then.
    """

    times: np.ndarray
    outputs: np.ndarray
    new: np.ndarray | None
    losses: np.ndarray
    reached: float | None
    assumptions: tuple[Assumption, ...] = (INFINITE_WIDTH,)


def predict_flow(
    H: Any,
    y: Any,
    times: Any,
    lr: float,
    *,
    objective: Any = "squared",
    loss: str = "sum",
    momentum: float = 0.0,
    K_new: Any = None,
    initial: Any = None,
    initial_new: Any = None,
    until: float | None = None,
    tol: float = 1e-8,
) -> LossFlow:
    """Outputs of an infinitely wide network under gradient flow of any loss: small steps, taken together.

        df/ds = −η H ∇L(f),   df(x)/ds = −η K(x, X) ∇L(f);   with momentum β  d²f/ds² = −η H ∇L(f) − (1 − β) df/ds

    s counts steps of rate η, L is the sum over rows or its mean. For the squared loss without momentum `predict` is exact, and of real
    steps; here a step is small beside 1/(η λ_max).

    Ref: fine_grained, Eq. (7)

    Assumes: infinite width.

    Differs from the paper: any loss, continuous time; outputs may start anywhere.

    Args:
        H: the Gram matrix of the training rows; all of it is taken into memory.
        y: labels, (n,) or (n, k); for a loss of classes ±1, or one column a class.
        times: rising numbers of steps; `np.inf` for where it comes to rest.
        lr: η, of the loss named by `loss`.
        objective: "squared", "cross-entropy", "smooth-absolute", "ramp" or an `AbstractLoss`.
        loss: "sum" or "mean".
        momentum: β of heavy ball.
        K_new: the kernel of new points with training rows, (p, n).
        initial, initial_new: outputs before training; None for 0.
        until: stop where L is this small.
        tol: of each step of the integrator, of outputs of size 1.

    >>> flow = predict_flow([[2.0]], [1.0], [1.0, np.inf], lr=0.5, K_new=[[1.0]])  # 1 − e^{−½·2·1}, and half of it
    >>> np.round(flow.outputs[:, 0], 6), np.round(flow.new[:, 0], 6)
    (array([0.632121, 1.      ]), array([0.31606, 0.5    ]))
    """
    import jax
    import jax.numpy as jnp

    from overparam.training.arguments import require_classes
    from overparam.training.losses import as_loss

    H = as_gram(H)
    y = checks.targets(y, H.n)
    times = np.asarray(times, dtype=np.float64).reshape(-1)
    if not len(times) or np.isnan(times).any() or times[0] < 0 or (np.diff(times) <= 0).any():
        raise ValueError(f"`times` is {times.tolist()}; expected rising numbers of steps ≥ 0")
    objective = as_loss(objective)
    require_classes(objective, y)
    scale = loss_scale(checks.one_of(loss, "loss", ("sum", "mean")), H.n)
    rate, beta = checked_rate(lr), checks.share(momentum, "momentum", zero=True)
    f = np.zeros_like(y) if initial is None else checks.targets(initial, H.n, "initial")
    new = None
    if K_new is not None:
        K_new = checks.finite_matrix(K_new, "K_new")
        new = np.zeros((len(K_new), *y.shape[1:]))
        if initial_new is not None:
            new = checks.targets(initial_new, len(K_new), "initial_new")
    if f.shape != y.shape or (new is not None and new.shape[1:] != y.shape[1:]):
        raise ValueError(
            f"outputs before training have another shape than `y`, {y.shape}; expected one number an output"
        )
    with jax.enable_x64(True):
        K, K_rows = jnp.asarray(H.dense()), None if K_new is None else jnp.asarray(K_new)
        targets = jnp.asarray(y)

        def total(u: Any) -> Any:
            return scale * jnp.sum(objective.each(u, targets))

        friction, unit = (None, rate) if beta == 0 else ((1 - beta) / rate**0.5, rate**0.5)
        slope = output_slope(jax.grad(total), lambda g: (K @ g, None if K_rows is None else K_rows @ g), friction)
        still = (None, None) if friction is None else (np.zeros_like(f), None if new is None else np.zeros_like(new))
        target = None if until is None else lambda state: total(state[0]) - checks.positive(until, "until", zero=True)
        state = jax.tree.map(jnp.asarray, (f, new, *still))
        states, reached = jax.jit(lambda at: integrate(slope, at, times * unit, tol, target))(state)
        losses = np.asarray(jax.vmap(total)(states[0]))
        ended = np.asarray(reached) / unit
    outputs, of_new = np.asarray(states[0]), None if new is None else np.asarray(states[1])
    if np.isnan(outputs).any():
        raise ValueError(
            f"the flow needs more than {MOST_STEPS:,} steps between two times, or left the numbers; take shorter times or a larger `tol`"
        )
    stopped = until is not None and losses[-1] <= until
    return LossFlow(times, outputs, of_new, losses, float(ended[-1]) if stopped else None)
