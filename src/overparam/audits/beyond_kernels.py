"""Lemma D.1 of beyond_kernels: the three-layer ResNet near its initial weights, parts (a) to (g).

W and V move by spectral norms τ_w and τ_v; the initial weights have deviations σ_w and σ_v/√m. Everything is measured in
units of σ: radii are τ_w/σ_w and τ_v/σ_v, and norms are divided by σ_w or σ_v, so that both scalings of the network
meet the same laws.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, final

import numpy as np

from overparam.audits.beyond_two_layers_two import size_in, to_radius
from overparam.audits.laws import Finding, Law, Moment, made
from overparam.audits.one_layer_moves import cheapest, most_valuable
from overparam.audits.subject import KINDS, Subject
from overparam.core.bracketed import Assumption, checked
from overparam.core.network import Params
from overparam.networks import ThreeLayerResNet
from overparam.training import sgd_one_sample

REFERENCE = "beyond_kernels, Lemma D.1"


def _law(part: str, name: str, statement: str, exponents: dict[str, float], quantity: str) -> Law:
    return Law(f"ResNet coupling ({part}): {name}", REFERENCE, statement, "upper", exponents, quantity=quantity)


A_SIGNS = _law(
    "a", "signs of the first layer", "‖D_W⁰ − D_W‖₀ ≤ O((τ_w/σ_w)^{2/3} m^{2/3})",
    {"omega": 2 / 3, "m": 2 / 3}, "‖D_W⁰ − D_W‖₀",
)  # fmt: skip
B_WHOLE = _law(
    "b", "what W⁰ gives", "‖A D_W W⁰(x, 1)‖/σ_w ≤ Õ((τ_w/σ_w)^{4/3} m^{−1/6} + √k)", {}, "‖A D_W W⁰(x, 1)‖/σ_w"
)
B_TURNED = _law(
    "b", "what turned neurons of W⁰ give", "‖A(D_W − D_W⁰)W⁰(x, 1)‖/σ_w ≤ Õ((τ_w/σ_w)^{4/3} m^{−1/6})",
    {"omega": 4 / 3, "m": -1 / 6}, "‖A(D_W − D_W⁰)W⁰(x, 1)‖/σ_w",
)  # fmt: skip
C_OUT1 = _law("c", "out₁", "‖out₁(x)‖/σ_w ≤ O(τ_w/σ_w)", {"omega": 1.0, "m": 0.0}, "‖out₁‖/σ_w")
D_SIGNS = _law(
    "d", "signs of the second layer", "‖D_{V⁰,W} − D_{V,W}‖₀ ≤ O((τ_v/σ_v)^{2/3} m)",
    {"omega": 2 / 3, "m": 1.0}, "‖D_{V⁰,W} − D_{V,W}‖₀",
)  # fmt: skip
E_WHOLE = _law(
    "e", "what V⁰ gives", "‖A D_{V,W} V⁰(out₁, 1)‖ ≤ Õ(σ_v (τ_v/σ_v)^{4/3}) (‖out₁‖ + 1)",
    {"omega": 4 / 3, "m": 0.0}, "‖A D_{V,W} V⁰(out₁, 1)‖ / (σ_v (‖out₁‖ + 1))",
)  # fmt: skip
E_TURNED = _law(
    "e", "what turned neurons of V⁰ give", "‖A(D_{V,W} − D_{V⁰,W})V⁰(out₁, 1)‖ ≤ Õ(σ_v (τ_v/σ_v)^{4/3}) (‖out₁‖ + 1)",
    {"omega": 4 / 3, "m": 0.0}, "‖A(D_{V,W} − D_{V⁰,W})V⁰(out₁, 1)‖ / (σ_v (‖out₁‖ + 1))",
)  # fmt: skip
F_MATRIX = _law(
    "f", "the matrix A D V⁰", "‖A D_{V,W} V⁰‖₂ ≤ Õ(σ_v (τ_v/σ_v)^{4/3})",
    {"omega": 4 / 3, "m": 0.0}, "‖A D_{V,W} V⁰‖₂/σ_v",
)  # fmt: skip
F_TURNED = _law(
    "f", "the matrix of turned neurons", "‖A(D_{V,W} − D_{V⁰,W})V⁰‖₂ ≤ Õ(σ_v (τ_v/σ_v)^{4/3})",
    {"omega": 4 / 3, "m": 0.0}, "‖A(D_{V,W} − D_{V⁰,W})V⁰‖₂/σ_v",
)  # fmt: skip
F_OTHERS = _law(
    "f, ours", "the matrix of turned neurons on other vectors", "‖A(D_{V,W} − D_{V⁰,W})V⁰‖₂ ≤ Õ(σ_v (τ_v/σ_v)^{2/3})",
    {"omega": 2 / 3, "m": 0.0}, "‖A(D_{V,W} − D_{V⁰,W})V⁰‖₂/σ_v",
)  # fmt: skip
G_SECOND = _law(
    "g", "the second layer's output", "‖A D_{V,W}(V⁰ + V)(out₁, 1)‖ ≤ Õ(τ_v (‖out₁‖ + 1))",
    {"omega": 1.0, "m": 0.0}, "‖A D_{V,W}(V⁰ + V)(out₁, 1)‖ / (σ_v (‖out₁‖ + 1))",
)  # fmt: skip
FIRST_LAWS, SECOND_LAWS = (A_SIGNS, B_WHOLE, B_TURNED, C_OUT1), (
    D_SIGNS, E_WHOLE, E_TURNED, F_MATRIX, F_TURNED, F_OTHERS, G_SECOND,
)  # fmt: skip
NOTES = {
    F_TURNED.name: "The lemma's proof is for the vector that decides which neurons turn; on others the power is 2/3.",
}
STEPS, CHUNK, RATE = (16, 64, 256), 16, 0.1
"""Steps of SGD at which a run is looked at, made so many at a time, and their rate."""


@final
@dataclass(frozen=True, eq=False)
class ResNetCase:
    """The ResNet's arrays on some rows: X1 = (x, 1), (n, d + 1); W (m, d + 1), V (m, k + 1), A (k, m)."""

    X1: np.ndarray
    W: np.ndarray
    V: np.ndarray
    A: np.ndarray
    sigma_w: float
    sigma_v: float

    def first(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(W⁰)(x, 1), (W⁰ + W)(x, 1) and (out₁, 1)."""
        g0 = self.X1 @ self.W.T
        g = g0 + self.X1 @ W.T
        out1 = np.maximum(g, 0) @ self.A.T
        return g0, g, np.column_stack([out1, np.ones(len(out1))])


def resnet_case(network: Any, params: Params, X: np.ndarray) -> ResNetCase:
    """The arrays of a `ThreeLayerResNet`; σ_w = 1/√d and σ_v = 1 in the scaling of the experiments."""
    if not isinstance(network, ThreeLayerResNet):
        raise ValueError(f"`network` is a {type(network).__name__}; expected a ThreeLayerResNet")
    every = {name: np.asarray(array, float) for name, array in {**params.fixed, **params.trained}.items()}
    theory, d = network.scaling == "theory", X.shape[1]
    return ResNetCase(
        np.column_stack([np.asarray(X, float), np.ones(len(X))]),
        every["W"],
        every["V"],
        np.atleast_2d(every["A"]),
        network.spread_w if theory else d**-0.5,
        network.spread_v if theory else 1.0,
    )


def coupling_of_resnet(subject: Subject) -> list[Finding]:
    """Lemma D.1 (a) to (g), for random, training and adversarial W and V, and along SGD.

    τ_w goes from 1 to √m σ_w and τ_v from σ_v (k/m)^{3/8} to σ_v, the lemma's range. For one row any movement of the
    pre-activations of norm τ_w ‖(x, 1)‖ is within reach of some W of rank 1, and likewise for V. So the most signs that
    turn in (a) and (d) are exact: the neurons nearest to 0. In (b), (e), (f) a neuron that turns adds a known vector (or
    matrix) at a known cost, and the best for its cost are taken, in the direction that this makes longest; in (c) and (g)
    the movement climbs along the gradient. These are lower estimates of the worst case, exact to one neuron for one
    output. Second-layer parts are measured at a W that moved too.

    Values are the worst over rows; (e) and (g) are divided by ‖out₁‖ + 1. Bounds on numbers of neurons allow log(nm)
    more, the price of all rows at once.

    Ref: beyond_kernels, Lemma D.1

    Differs from the paper: (b) ends with √k σ_w, as in its proof, where the statement drops √k. Its (f) is called a
    byproduct of the proof of (e). That proof bounds ‖A D V⁰z‖ for the z that decides which neurons turn: they have small
    ⟨v⁰_i, z⟩. On other vectors they have not, and m(τ_v/σ_v)^{2/3} of them give ‖A(D − D⁰)V⁰‖₂ of order σ_v (τ_v/σ_v)^{2/3},
    which an adversary attains. Both exponents are measured. The proof of Theorem 1 uses (f), in Claim D.6.
    """
    small = subject.on_rows(subject.effort.rows)
    case = resnet_case(subject.network, subject.params, small.X)
    (k, m), count = case.A.shape, max(subject.effort.radii, 3)
    top = m**0.5
    bottom = 1 / case.sigma_w if 1 / case.sigma_w < top / 2 else top / 10
    radii_w, radii_v = np.geomspace(bottom, 0.9 * top, count), np.geomspace((k / m) ** 0.375, 1.0, count)
    found: list[Finding] = []
    for kind in KINDS:
        pairs = [_measured(subject, case, kind, w, v) for w, v in zip(radii_w, radii_v, strict=True)]
        first, second = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
        found += _findings(case, kind, radii_w, radii_v, radii_w, radii_v, first, second)
    return found + _along_a_run(subject, case)


def most_turned(g: np.ndarray, reach: np.ndarray) -> int:
    """The most signs of g, (n, m), that a movement of norm `reach`, (n,), turns: the worst over rows, exact.

    >>> most_turned(np.array([[1.0, -2.0, 3.0]]), np.array([2.5]))  # 1² + 2² ≤ 2.5² < 1² + 2² + 3²
    2
    """
    return int(cheapest(g**2, reach**2).sum(axis=1).max())


def longest_from_turning(
    A: np.ndarray, g: np.ndarray, reach: np.ndarray, base: np.ndarray, rounds: int = 8
) -> np.ndarray:
    """The largest ‖base − Σ_{i turned} A_i |g_i|‖ found, (n,), where turning costs g_i² of reach².

    A neuron that turns adds −A_i |g_i| to A D g, whether it was on or off. For a direction u the best neurons are those
    with the largest −(u·A_i)/|g_i|; then u is the direction of what they give. One output has two directions only.

    >>> longest_from_turning(np.array([[1.0, -1.0]]), np.array([[1.0, 1.0]]), np.array([1.0]), np.zeros((1, 1)))
    array([1.])
    """
    size, best = np.abs(g), np.linalg.norm(base, axis=1)
    starts = [sign * np.eye(len(A))[r] for r in range(min(len(A), 3)) for sign in (1.0, -1.0)]
    for start in starts:
        u = np.broadcast_to(start, base.shape).copy()
        for _ in range(1 if len(A) == 1 else rounds):
            taken = most_valuable(-(u @ A) * size, size**2, reach**2)
            total = base - (taken * size) @ A.T
            lengths = np.linalg.norm(total, axis=1)
            best = np.maximum(best, lengths)
            u = total / np.maximum(lengths, np.finfo(float).tiny)[:, None]
    return best


def longest_output(A: np.ndarray, g: np.ndarray, reach: np.ndarray, rounds: int = 12) -> np.ndarray:
    """The largest ‖A σ(g + δ)‖ found over ‖δ‖ ≤ reach, (n,): δ climbs along the gradient of the neurons that are on.

    One neuron at 1 moved by 2:

    >>> longest_output(np.array([[1.0]]), np.array([[1.0]]), np.array([2.0]))
    array([3.])
    """
    best = np.linalg.norm(np.maximum(g, 0) @ A.T, axis=1)
    for start in [sign * np.eye(len(A))[r] for r in range(min(len(A), 3)) for sign in (1.0, -1.0)]:
        u, on = np.broadcast_to(start, (len(g), len(A))), np.ones(g.shape, bool)
        for _ in range(rounds):
            slope = (u @ A) * on
            lengths = np.linalg.norm(slope, axis=1)
            step = slope * np.divide(reach, lengths, out=np.zeros_like(reach), where=lengths > 0)[:, None]
            out = np.maximum(g + step, 0) @ A.T
            best, on = np.maximum(best, np.linalg.norm(out, axis=1)), g + step >= 0
            u = out / np.maximum(np.linalg.norm(out, axis=1), np.finfo(float).tiny)[:, None]
    return best


def largest_matrices(
    A: np.ndarray, V: np.ndarray, g: np.ndarray, reach: np.ndarray, rounds: int = 6
) -> tuple[np.ndarray, np.ndarray]:
    """The largest ‖A D V‖₂ and ‖A(D − 1{g ≥ 0})V‖₂ found, (n,) each, where neurons turn at a cost of g_i² of reach².

    A neuron that turns adds ±A_i v_iᵀ; for given singular vectors the best for their cost are taken, from several starts.
    """
    on, k = g >= 0, len(A)
    flips, whole, turned = np.where(on, -1.0, 1.0), np.zeros(len(g)), np.zeros(len(g))
    for row, column, sign in product(range(min(k, 2)), range(min(V.shape[1], 3)), (1.0, -1.0)):
        u, w = np.tile(sign * np.eye(k)[row], (len(g), 1)), np.tile(np.eye(V.shape[1])[column], (len(g), 1))
        for _ in range(rounds):
            added = flips * most_valuable(flips * (u @ A) * (w @ V.T), g**2, reach**2)
            matrices = np.einsum("km,nm,mj->nkj", A, added, V, optimize=True)
            U, sizes, Wt = np.linalg.svd(matrices)
            turned = np.maximum(turned, sizes[:, 0])
            u, w = U[:, :, 0], Wt[:, 0]
            complete = np.einsum("km,nm,mj->nkj", A, on + added, V, optimize=True)
            whole = np.maximum(whole, np.linalg.norm(complete, ord=2, axis=(1, 2)))
    return whole, turned


def _measured(
    subject: Subject, case: ResNetCase, kind: str, radius_w: float, radius_v: float
) -> tuple[list[float], list[float]]:
    rng, tau_w, tau_v = subject.rng(35), radius_w * case.sigma_w, radius_v * case.sigma_v
    if kind == "training":
        W, V = (np.asarray(subject.training_displacement[name], float) for name in ("W", "V"))
    else:
        W, V = rng.standard_normal(case.W.shape), rng.standard_normal(case.V.shape)
    W, V = to_radius(W, "spectral", tau_w), to_radius(V, "spectral", tau_v)
    if kind != "adversarial":
        return _at(case, W, V)
    g0, _, z = case.first(W)
    first = _worst(case.A, g0, tau_w * np.linalg.norm(case.X1, axis=1), case.sigma_w)
    lengths, h0 = np.linalg.norm(z, axis=1), z @ case.V.T
    count, *rest = _worst(case.A, h0, tau_v * lengths, case.sigma_v, 1 + np.linalg.norm(z[:, :-1], axis=1))
    whole, turned = (float(size.max()) / case.sigma_v for size in largest_matrices(case.A, case.V, h0, tau_v * lengths))
    return first, [count, rest[0], rest[1], whole, turned, turned, rest[2]]


def _worst(
    A: np.ndarray, g: np.ndarray, reach: np.ndarray, sigma: float, scale: np.ndarray | float = 1.0
) -> list[float]:
    """Turned neurons; ‖A D g‖, that of turned neurons alone, and ‖A σ(g + δ)‖, each over σ·scale: the worst over rows."""
    base = np.maximum(g, 0) @ A.T
    whole, alone = longest_from_turning(A, g, reach, base), longest_from_turning(A, g, reach, np.zeros_like(base))
    lengths = [whole, alone, longest_output(A, g, reach)]
    return [most_turned(g, reach), *(float((length / scale).max()) / sigma for length in lengths)]


def _at(case: ResNetCase, W: np.ndarray, V: np.ndarray) -> tuple[list[float], list[float]]:
    """All parts for one W and V, the worst over rows."""
    g0, g, z = case.first(W)
    h0 = z @ case.V.T
    h = h0 + z @ V.T
    scale = 1 + np.linalg.norm(z[:, :-1], axis=1)
    count, *rest = _there(case.A, h0, h, case.sigma_v, scale)
    now, before = (h >= 0).astype(float), (h0 >= 0).astype(float)
    whole, turned = (_matrix_norm(case, gates) / case.sigma_v for gates in (now, now - before))
    return _there(case.A, g0, g, case.sigma_w), [count, rest[0], rest[1], whole, turned, turned, rest[2]]


def _matrix_norm(case: ResNetCase, gates: np.ndarray) -> float:
    """‖A D V⁰‖₂, the worst over rows."""
    matrices = np.einsum("km,nm,mj->nkj", case.A, gates, case.V, optimize=True)
    return float(np.linalg.norm(matrices, ord=2, axis=(1, 2)).max())


def _there(A: np.ndarray, before: np.ndarray, after: np.ndarray, sigma: float, scale: Any = 1.0) -> list[float]:
    on, now = before >= 0, after >= 0
    parts = [np.where(now, before, 0), np.where(now, before, 0) - np.where(on, before, 0), np.maximum(after, 0)]
    lengths = [np.linalg.norm(part @ A.T, axis=1) / scale for part in parts]
    return [int((on != now).sum(axis=1).max()), *(float(length.max()) / sigma for length in lengths)]


def _findings(
    case: ResNetCase,
    moment: Moment,
    at_w: np.ndarray,
    at_v: np.ndarray,
    radii_w: np.ndarray,
    radii_v: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> list[Finding]:
    k, m = case.A.shape
    slack, conditions = float(np.log(len(case.X1) * m)), _conditions(case, radii_w, radii_v)
    small_w, small_v = radii_w ** (4 / 3) * m ** (-1 / 6), radii_v ** (4 / 3)
    bounds_w = ((radii_w * m) ** (2 / 3) + slack, small_w + k**0.5, small_w, radii_w)
    bounds_v = (radii_v ** (2 / 3) * m + slack, small_v, small_v, small_v, small_v, radii_v ** (2 / 3), radii_v)
    return [
        made(law, moment, at, values, bounds, conditions, bounded=law is not F_TURNED, note=NOTES.get(law.name, ""))
        for laws, at, rows, all_bounds in ((FIRST_LAWS, at_w, first, bounds_w), (SECOND_LAWS, at_v, second, bounds_v))
        for law, values, bounds in zip(laws, rows.T, all_bounds, strict=True)
    ]


def _conditions(case: ResNetCase, radii_w: np.ndarray, radii_v: np.ndarray) -> tuple[Assumption, ...]:
    (k, m), norms = case.A.shape, np.linalg.norm(case.X1[:, :-1], axis=1)
    tau_w = radii_w * case.sigma_w
    return (
        checked("unit rows", bool(np.allclose(norms, 1, atol=1e-6)), f"norms {norms.min():.3g} to {norms.max():.3g}"),
        checked("σ_w = m^{−1/8}", bool(np.isclose(case.sigma_w, m**-0.125)), f"σ_w = {case.sigma_w:.3g}, m^(−1/8) = {m**-0.125:.3g}"),
        checked("1 ≤ τ_w < √m σ_w", bool(tau_w.min() >= 1 - 1e-9 and tau_w.max() < m**0.5 * case.sigma_w), f"τ_w from {tau_w.min():.3g} to {tau_w.max():.3g}"),
        checked("σ_v (k/m)^{3/8} ≤ τ_v ≤ σ_v", bool(radii_v.min() >= (k / m) ** 0.375 * (1 - 1e-9) and radii_v.max() <= 1 + 1e-9), f"τ_v/σ_v from {radii_v.min():.3g} to {radii_v.max():.3g}"),
    )  # fmt: skip


def _along_a_run(subject: Subject, case: ResNetCase) -> list[Finding]:
    """SGD on the squared loss, one sampled point a step; radii are the spectral norms reached."""
    data = (np.asarray(subject.X, float), subject.y[:, 0] if subject.outputs == 1 else subject.y)
    params, sizes, parts = subject.params, [], []
    for step in range(CHUNK, STEPS[-1] + 1, CHUNK):
        run = sgd_one_sample(
            subject.network, data, RATE, CHUNK, objective="squared", key=subject.key + step, params=params,
            record=CHUNK, measures=(),
        )  # fmt: skip
        params = run.params
        if step in STEPS:
            W = np.asarray(params.trained["W"], float) - case.W
            V = np.asarray(params.trained["V"], float) - case.V
            sizes.append((size_in(W, "spectral") / case.sigma_w, size_in(V, "spectral") / case.sigma_v))
            parts.append(_at(case, W, V))
    steps, (radii_w, radii_v) = np.array(STEPS, float), np.array(sizes).T
    first, second = np.array([p[0] for p in parts]), np.array([p[1] for p in parts])
    return _findings(case, "trajectory", steps, steps, radii_w, radii_v, first, second)
