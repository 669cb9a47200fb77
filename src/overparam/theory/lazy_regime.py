"""Whether a run is in the regime of the theory: laziness, sign flips, and the width or scale that make a run lazy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from overparam.core import checks
from overparam.core.bracketed import INFINITE_WIDTH, AbstractBracketed, Assumption, Bracketed
from overparam.data.draws import generator
from overparam.spectrum.brackets import Quadrature
from overparam.theory.movement import movement_limit, predict_movement

ALIGNMENT = 1 / 3
"""How much of a neuron's movement lies along a row, when the data are not looked at: fitted to measured image runs."""
LAZY, BORDERLINE = 0.1, 1.0
"""Laziness up to which a run is called lazy, and borderline: flips of about 1% and 10%."""

Regime = Literal["lazy", "borderline", "not lazy"]


@final
@dataclass(frozen=True, eq=False)
class Laziness(AbstractBracketed):
    """‖W(s) − W(0)‖_F/(√m κ): the movement of a neuron over the standard deviation of its pre-activation (unit rows).

    `flips` is the expected share of ReLU signs that change; `neuron_movement` the root-mean-square ‖w_r(s) − w_r(0)‖.
    Arrays where `steps` is one; steps None is the end of training.
    """

    bracketed: Bracketed
    movement: Any
    flips: Any
    steps: Any
    width: int
    kappa: float

    @property
    def neuron_movement(self) -> Any:
        return self.movement / float(np.sqrt(self.width))

    @property
    def regime(self) -> Regime:
        """Of the largest value: lazy up to 0.1, borderline up to 1."""
        top = float(np.max(self.value))
        return "lazy" if top <= LAZY else "borderline" if top <= BORDERLINE else "not lazy"


def laziness(
    q: Quadrature,
    steps: Any = None,
    lr: float | None = None,
    *,
    width: int,
    kappa: float,
    loss: str = "sum",
    alignment: float = ALIGNMENT,
) -> Laziness:
    """How far a network of this width and scale will leave its linearisation, known before training.

        laziness = ‖W(s) − W(0)‖_F / (√m κ)

    Ref: fine_grained, Lemma 5.3, Eq. (17)

    Assumes: the movement of the infinitely wide network; once laziness nears 1 the prediction itself is no longer to be
    trusted, which is what it says.

    Differs from the paper: a number, where the paper has a condition m ≥ κ⁻² poly(n, 1/λ_0, 1/δ).

    Args:
        q: the quadrature of y − u(0) under H.
        steps: a whole number or many; None for the end of training.
        lr: the rate, of the loss named by `loss`; needed with `steps`.
        width: m.
        kappa: the standard deviation of the initial weights.
        loss: "sum", "mean" or "mse".
        alignment: c of `expected_flips`.

    >>> from overparam.spectrum import quadrature
    >>> q = quadrature(np.eye(4), [1.0, 1.0, 1.0, 1.0])
    >>> laziness(q, width=100, kappa=1.0).value  # √4 / √100
    0.2
    """
    found = _movement(q, steps, lr, loss)
    scale = float(np.sqrt(checks.positive(width, "width"))) * checks.positive(kappa, "kappa")
    value = found.through(
        lambda movement: movement / scale,
        reference="fine_grained, Lemma 5.3, Eq. (17)",
        assumptions=(INFINITE_WIDTH, _flip_model(alignment)),
    )
    return Laziness(value, found.value, expected_flips(value.value, alignment), steps, int(width), float(kappa))


def expected_flips(laziness: Any, alignment: float = ALIGNMENT) -> Any:
    """The expected share of ReLU signs that differ from initialisation: (1/π) arctan(c · laziness).

    Ref: fine_grained, Eq. (17)

    Assumes: a pre-activation N(0, κ²‖x‖²) and its change are independent Gaussians, the change of standard deviation
    c κ‖x‖ · laziness, where c is the root-mean-square cosine between a neuron's movement and a row. c = ⅓ was
    fitted to digit images; `sample_flips` computes the share, and c, from the data.

    Differs from the paper: (17) bounds the share by 2R/(√(2π) κ) with R the largest movement of a neuron.

    >>> round(expected_flips(3.0), 9)  # c · laziness = 1: a quarter
    0.25
    """
    share = np.arctan(alignment * np.asarray(laziness, dtype=np.float64)) / np.pi
    return share.item() if share.ndim == 0 else share


@final
@dataclass(frozen=True)
class Flips:
    """The share of flipped signs of the linearised network, by sampled neurons: `share` ± `standard_error`.

    `alignment` is the root-mean-square cosine between a neuron's movement and a row; `neuron_movement` the
    root-mean-square movement.
    """

    share: float
    standard_error: float
    alignment: float
    neuron_movement: float
    neurons: int
    reference: str = "fine_grained, Eq. (5), (17)"
    assumptions: tuple[Assumption, ...] = (INFINITE_WIDTH,)


def sample_flips(X: Any, coefficients: Any, width: int, kappa: float, *, neurons: int = 1000, key: Any = 0) -> Flips:
    """The share of ReLU signs that flip when every neuron moves as its linearisation says.

        w_r(s) − w_r(0) = (a_r/√m) Σ_i c_i 1{w_r(0)·x_i ≥ 0} x_i,   c = A_s(H)(y − u(0))

    Neurons are drawn as at initialisation and moved; no training. For small laziness this is the share itself.

    Ref: fine_grained, Eq. (5), (34)

    Assumes: signs that flip do not feed back into the movement.

    Args:
        X: the training rows, (n, d).
        coefficients: c, (n,) or (n, k), the `values` of `dual_coefficients`.
        width: m of the network meant; it scales the movement.
        kappa: the standard deviation of the initial weights.
        neurons: how many are drawn.
        key: an int or a JAX key.

    >>> sample_flips([[1.0, 0.0]], [0.0], width=100, kappa=1.0).share  # nothing moves
    0.0
    """
    X = checks.finite_matrix(X)
    c = checks.targets(coefficients, len(X), "coefficients").reshape(len(X), -1)
    scale = 1 / np.sqrt(checks.positive(width, "width"))
    kappa = checks.positive(kappa, "kappa")
    if neurons < 2:
        raise ValueError(f"`neurons` is {neurons}; expected 2 or more, for a standard error")
    random = generator(key)
    norms = checks.row_norms(X)
    shares, along, lengths = (np.zeros(neurons) for _ in range(3))
    block = int(max(1, min(neurons, 2**24 // len(X))))
    for start in range(0, neurons, block):
        count = min(block, neurons - start)
        W = kappa * random.standard_normal((count, X.shape[1]))
        signs = random.choice([-1.0, 1.0], size=(count, c.shape[1]))
        before = W @ X.T
        step = scale * (((signs @ c.T) * (before >= 0)) @ X)
        change = step @ X.T
        size = np.linalg.norm(step, axis=1)
        part = slice(start, start + count)
        shares[part] = np.mean((before >= 0) != (before + change >= 0), axis=1)
        lengths[part] = size**2
        along[part] = np.mean((change / np.where(norms > 0, norms, 1.0)) ** 2, axis=1)
    total = float(lengths.mean())
    return Flips(
        share=float(shares.mean()),
        standard_error=float(shares.std(ddof=1) / np.sqrt(neurons)),
        alignment=float(np.sqrt(along.mean() / total)) if total > 0 else 0.0,
        neuron_movement=float(np.sqrt(total)),
        neurons=int(neurons),
    )


def width_for_laziness(
    q: Quadrature,
    steps: Any = None,
    lr: float | None = None,
    *,
    kappa: float,
    target: float = LAZY,
    loss: str = "sum",
) -> Bracketed:
    """The smallest width at which a run has the laziness asked for: m = (‖W(s) − W(0)‖_F / (κ · target))², rounded up.

    The value is from the upper side of the predicted movement where that is certified.

    Ref: fine_grained, Lemma 5.3

    >>> from overparam.spectrum import quadrature
    >>> q = quadrature(np.eye(4), [1.0, 1.0, 1.0, 1.0])
    >>> width_for_laziness(q, kappa=1.0, target=0.5).value  # (2 / 0.5)²
    16
    """
    target, kappa = checks.positive(target, "target"), checks.positive(kappa, "kappa")

    def width(movement: float) -> float:
        needed = (movement / (kappa * target)) ** 2
        # a hair below a whole number is that number: the movement is a root of a rounded sum
        return int(np.ceil(needed * (1 - 1e-12))) if np.isfinite(needed) else needed

    return _farthest(q, steps, lr, loss).through(width)


def kappa_for_laziness(
    q: Quadrature,
    steps: Any = None,
    lr: float | None = None,
    *,
    width: int,
    target: float = LAZY,
    loss: str = "sum",
) -> Bracketed:
    """The smallest scale at which a run has the laziness asked for: κ = ‖W(s) − W(0)‖_F / (√m · target).

    The value is from the upper side of the predicted movement where that is certified.

    Ref: fine_grained, Lemma 5.3

    Differs from the paper: there κ ≤ 1 and small, so that u(0) is; a large κ wants paired initialisation.

    >>> from overparam.spectrum import quadrature
    >>> q = quadrature(np.eye(4), [1.0, 1.0, 1.0, 1.0])
    >>> round(kappa_for_laziness(q, width=16, target=0.5).value, 9)
    1.0
    """
    scale = float(np.sqrt(checks.positive(width, "width"))) * checks.positive(target, "target")
    return _farthest(q, steps, lr, loss).through(lambda movement: movement / scale)


def _movement(q: Quadrature, steps: Any, lr: float | None, loss: str) -> Bracketed:
    if steps is None:
        return movement_limit(q)
    if lr is None:
        raise ValueError("`lr` is missing; give the rate with `steps`, or neither for the end of training")
    return predict_movement(q, steps, lr, loss).bracketed


def _farthest(q: Quadrature, steps: Any, lr: float | None, loss: str) -> Bracketed:
    """The largest movement of the steps named; its upper side where all are certified."""
    found = _movement(q, steps, lr, loss)
    sure = bool(np.all(found.certified))
    value, lower = float(np.max(found.upper if sure else found.value)), float(np.max(found.lower))
    return q.held(
        value,
        lower,
        value if sure else None,
        sense=None if sure else "none",
        reason=found.reason,
        reference="fine_grained, Lemma 5.3",
        assumptions=(INFINITE_WIDTH,),
    )


def _flip_model(alignment: float) -> Assumption:
    return Assumption(
        "a pre-activation and its change are independent Gaussians",
        "not checked",
        f"with c = {alignment:.3g} the cosine between movement and row; `sample_flips` computes both from the data",
    )
