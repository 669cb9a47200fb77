"""Lemmas D.2 and D.3, Claims D.5 to D.7 and the sum (D.4) of `beyond_kernels`, as laws along a run of Algorithm 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from overparam.audits.beyond_kernels_run import Comparator, ResNetRun
from overparam.audits.laws import Finding, Law, Moment, made
from overparam.core.bracketed import Assumption, checked
from overparam.data import HierarchicalComplexity

PREFIX = "Algorithm 1: "


def _law(name: str, where: str, statement: str, quantity: str, explicit: float | None = None) -> Law:
    return Law(f"{PREFIX}{name}", where, statement, "upper", {}, explicit, quantity)


NORM_W = _law("norm of W*", "beyond_kernels, Lemma D.2", "‖W*‖_F ≤ Õ(k p_F C_s(F))", "‖W*‖_F")
NORM_V = _law("norm of V*", "beyond_kernels, Lemma D.2", "‖V*‖_F ≤ Õ(α k p_G C_s(G))", "‖V*‖_F")
FIRST = _law(
    "F by the first signs", "beyond_kernels, Lemma D.2", "E‖A D_W⁰ W*(x, 1) − F‖² ≤ α̃⁴", "E‖A D_W⁰ W*(x, 1) − F‖²", 1.0
)
SECOND = _law(
    "αG by the first signs", "beyond_kernels, Lemma D.2", "‖A D_{V⁰,W} V*(out₁, 1) − αG(out₁)‖ ≤ α̃² ‖(out₁, 1)‖",
    "‖A D_{V⁰,W} V*(out₁, 1) − αG(out₁)‖/‖(out₁, 1)‖", 1.0,
)  # fmt: skip
FIRST_NOW = _law(
    "F by the signs of the run", "beyond_kernels, Lemma D.3", "E‖A D_W W*(x, 1) − F‖² ≤ O(ε₁² + (τ_w (τ_w/σ_w)^{1/3} m^{−1/6})²)", "E‖A D_W W*(x, 1) − F‖²"
)  # fmt: skip
FIRST_TURNED = _law(
    "what turned neurons take from W*", "beyond_kernels, Lemma D.3", "√E‖A(D_W − D_W⁰)W*(x, 1)‖² ≤ O(τ_w (τ_w/σ_w)^{1/3} m^{−1/6})", "√E‖A(D_W − D_W⁰)W*(x, 1)‖²"
)  # fmt: skip
SECOND_NOW = _law(
    "αG by the signs of the run", "beyond_kernels, Lemma D.3", "‖A D_{V,W} V*(out₁, 1) − αG(out₁)‖ ≤ (ε₂ + O(τ_v (τ_v/σ_v)^{1/3})) ‖(out₁, 1)‖",
    "‖A D_{V,W} V*(out₁, 1) − αG(out₁)‖/‖(out₁, 1)‖",
)  # fmt: skip
SECOND_TURNED = _law(
    "what turned neurons take from V*", "beyond_kernels, Lemma D.3", "‖A(D_{V,W} − D_{V⁰,W})V*(out₁, 1)‖ ≤ O(τ_v (τ_v/σ_v)^{1/3}) ‖(out₁, 1)‖",
    "‖A(D_{V,W} − D_{V⁰,W})V*(out₁, 1)‖/‖(out₁, 1)‖",
)  # fmt: skip
REST = _law(
    "what is left for W", "beyond_kernels, Lemma D.3", "E‖A D_W (W* − W)(x, 1) − (F − out₁)‖² ≤ O(ε₁² + ((τ_w^{4/3} + √k) m^{−1/8})²)",
    "E‖A D_W (W* − W)(x, 1) − (F − out₁)‖²",
)  # fmt: skip
GRADIENT_W = _law(
    "gradient of W", "beyond_kernels, Claim D.5", "‖∇_W Obj‖_F ≤ ‖y − out‖ O(σ_v + 1)", "‖∇_W Obj‖_F/‖y − out‖"
)
GRADIENT_V = _law(
    "gradient of V", "beyond_kernels, Claim D.5", "‖∇_V Obj‖_F ≤ ‖y − out‖ O(τ_w + 1)", "‖∇_V Obj‖_F/‖y − out‖"
)
MATRIX = _law(
    "the matrix A D V⁰ along the run",
    "beyond_kernels, Lemma D.1",
    "‖A D_{V,W} V⁰‖₂ ≤ Õ(τ_v (τ_v/σ_v)^{1/3})",
    "‖A D_{V,W} V⁰‖₂",
)
CLUBS = _law("Err by the second layer (♣)", "beyond_kernels, Claim D.6", "E‖♣‖² ≤ O(τ_v²)(E‖F − out₁‖² + ε₁²)", "E‖♣‖²")
SPADES = _law(
    "Err by W* and V* (♠)", "beyond_kernels, Claim D.6", "E‖♠ − H‖² ≤ O(ε + τ_v (τ_v/σ_v)^{1/3})² E(‖out₁‖ + 1)² + O(α𝔏_G)² E‖F − out₁‖²", "E‖♠ − H‖²"
)  # fmt: skip
DIAMONDS = _law(
    "Err by W and V (♢)",
    "beyond_kernels, Claim D.6",
    "E‖♢ − out‖² ≤ O(τ_v (τ_v/σ_v)^{1/3})² E(‖out₁‖ + 1)²",
    "E‖♢ − out‖²",
)
ERR = _law(
    "Err",
    "beyond_kernels, Claim D.6",
    "E‖Err‖² ≤ O(τ_v + α𝔏_G)² E‖H − out‖² + O(ε + τ_v²(1 + 𝔅_F) + ατ_v𝔏_G(𝔅_F + 1))²",
    "E‖Err‖²",
)
ERR_MOST = _law("Err of any row", "beyond_kernels, Claim D.6", "‖Err‖ ≤ O(τ_w)", "largest ‖Err‖")
EXCESS = _law(
    "out₁ near F where out is near H", "beyond_kernels, Claim D.7", "‖out₁ − F‖ − 2‖out − H‖ ≤ O(τ_v(𝔅_F + 1) + α𝔅_{F∘G})", "largest ‖out₁ − F‖ − 2‖out − H‖"
)  # fmt: skip
REGION_W = _law("region of W", "beyond_kernels, Eq. (D.3)", "‖W_t‖_F ≤ τ_w = 10‖W*‖_F", "‖W_t‖_F", 1.0)
REGION_V = _law("region of V", "beyond_kernels, Eq. (D.3)", "‖V_t‖_F ≤ τ_v = 10‖V*‖_F", "‖V_t‖_F", 1.0)
HEART = _law(
    "size of a step (♡)",
    "beyond_kernels, Eq. (D.4)",
    "♡_t ≤ O(η_w + η_v τ_w²) ‖y_t − out(x_t)‖²",
    "largest ♡_t/‖y_t − out(x_t)‖²",
)
REGRET = _law(
    "telescoped sum", "beyond_kernels, Eq. (D.4)",
    "‖W_T − W*‖²/(2η_w T) + ‖V_T − V*‖²/(2η_v T) + (1/4T) Σ_t ‖H − out‖² ≤ ‖W*‖²/(2η_w T) + ‖V*‖²/(2η_v T) + (2/T) Σ_t ‖Err_t‖²",
    "left side", 1.0,
)  # fmt: skip
STAR_LAWS = (
    NORM_W, NORM_V, FIRST, SECOND, FIRST_NOW, FIRST_TURNED, SECOND_NOW, SECOND_TURNED, REST, CLUBS, SPADES, DIAMONDS, ERR, ERR_MOST,
    REGION_W, REGION_V, REGRET,
)  # fmt: skip
RUN_LAWS = (GRADIENT_W, GRADIENT_V, MATRIX, EXCESS, HEART)


@final
@dataclass(frozen=True)
class Radii:
    """τ_w and τ_v, the least that contain the run and, where there is one, W* and V*; σ_w, σ_v, m and k.

    `small`: τ_v (τ_v/σ_v)^{1/3}, the rate of Lemma D.1.
    """

    tau_w: float
    tau_v: float
    sigma_w: float
    sigma_v: float
    m: int
    k: int

    @property
    def small(self) -> float:
        return self.tau_v * (self.tau_v / self.sigma_v) ** (1 / 3)

    def conditions(self) -> tuple[Assumption, ...]:
        """What Table 1 asks of them; τ_v ≤ 1/polylog(m) is unmet where τ_v is above 1."""
        low = self.sigma_v * (self.k / self.m) ** 0.375
        return (
            checked("1 ≤ τ_w < √m σ_w", 1 <= self.tau_w < self.m**0.5 * self.sigma_w, f"τ_w = {self.tau_w:.3g}, √m σ_w = {self.m**0.5 * self.sigma_w:.3g}"),
            checked("σ_v (k/m)^{3/8} ≤ τ_v ≤ σ_v", low <= self.tau_v <= self.sigma_v, f"τ_v = {self.tau_v:.3g}, from {low:.3g} to {self.sigma_v:.3g}"),
            checked("τ_v ≤ 1/polylog(m)", None if self.tau_v <= 1 else False, f"τ_v = {self.tau_v:.3g}"),
        )  # fmt: skip


def radii_of(run: ResNetRun, star: Comparator | None = None) -> Radii:
    """Of a run, and of a comparator with it.

    Ref: beyond_kernels, Table 1
    """
    tau_w, tau_v = float(run.moved_w.max()), float(run.moved_v.max())
    if star is not None:
        tau_w, tau_v = max(tau_w, float(np.linalg.norm(star.W))), max(tau_v, float(np.linalg.norm(star.V)))
    return Radii(tau_w, tau_v, run.case.sigma_w, run.case.sigma_v, run.m, len(run.case.A))


def small_alpha(complexity: HierarchicalComplexity) -> float:
    """α̃ = α/(k (p_F C_s(F) + p_G C_s(G))), C* as in the complexity.

    Ref: beyond_kernels, Lemma D.2
    """
    sizes = (own.p * math.exp(own.log_s) for own in (complexity.F, complexity.G))
    return complexity.alpha / (complexity.outputs * sum(sizes))


def star_laws(run: ResNetRun, star: Comparator, complexity: HierarchicalComplexity) -> list[Finding]:
    """What the proof says of W* and V* along a run: Lemmas D.2 and D.3, Claim D.6, the region (D.3) and the sum (D.4).

    τ_w and τ_v are the least that contain both the run and W* and V*: smaller ones make every bound harder. Beyond Lemma D.2, ε₁ and ε₂, what that
    lemma's errors are here, stand where the paper has α̃²: at widths within reach α̃ says nothing. 𝔅_F, 𝔅_{F∘G} and 𝔏_G
    are the largest norms over the rows and the largest slope of G seen between out₁ and F.

    Ref: beyond_kernels, Lemma D.2, Lemma D.3, Claim D.6, Eq. (D.3), Eq. (D.4)

    Differs from the paper: ‖V*‖ is printed with α̃ for α, and D.3 (b) with α̃G; V* is αG, so that both are α's. The sum has ¼ and 2 as
    its line before has, where (D.4) prints ½ and O(1).
    """
    seen, of, truth = run.seen[star.name], radii_of(run, star), run.truth
    tilde, k, alpha = small_alpha(complexity), of.k, truth.alpha
    F, G = (own.p * math.exp(own.log_s) for own in (complexity.F, complexity.G))
    first, second = seen["first"][:1], seen["second_most"]
    eps1, eps2 = math.sqrt(first[0]), float(second.max())
    bound_F, slope = float(np.linalg.norm(truth.F, axis=1).max()), float(seen["slope_most"].max())
    turned = of.tau_w * (of.tau_w / of.sigma_w) ** (1 / 3) * of.m ** (-1 / 6)
    rest = (of.tau_w ** (4 / 3) + k**0.5) * of.m**-0.125
    gap, error, size = seen["base_gap"], seen["error"], seen["size"]
    floor = max(eps1, eps2) + of.tau_v**2 * (1 + bound_F) + alpha * of.tau_v * slope * (bound_F + 1)
    W, V = float(np.linalg.norm(star.W)), float(np.linalg.norm(star.V))
    steps, ones, asked = run.steps, np.ones(len(run.steps)), of.conditions()
    wide = _wide_enough(of.m, first[0] / tilde**4)

    def along(law: Law, values: np.ndarray, bounds: np.ndarray, conditions: Sequence[Assumption] = asked) -> Finding:
        return _found(law, star, "trajectory", steps, values, bounds, conditions)

    return [
        _found(NORM_W, star, "start", [0.0], [W], [k * F], ()),
        _found(NORM_V, star, "start", [0.0], [V], [alpha * k * G], ()),
        _found(FIRST, star, "start", [0.0], first, [tilde**4], wide),
        along(SECOND, second, tilde**2 * ones, _wide_enough(of.m, (eps2 / tilde**2) ** 2)),
        along(FIRST_NOW, seen["first_now"], (eps1**2 + turned**2) * ones),
        along(FIRST_TURNED, np.sqrt(seen["first_turned"]), turned * ones),
        along(SECOND_NOW, seen["second_now_most"], (eps2 + of.small) * ones),
        along(SECOND_TURNED, seen["second_turned_most"], of.small * ones),
        along(REST, seen["rest"], (eps1**2 + rest**2) * ones),
        along(CLUBS, seen["clubs"], of.tau_v**2 * (gap + eps1**2)),
        along(SPADES, seen["spades"], (max(eps1, eps2) + of.small) ** 2 * size + (alpha * slope) ** 2 * gap),
        along(DIAMONDS, seen["diamonds"], of.small**2 * size),
        along(ERR, seen["err"], (of.tau_v + alpha * slope) ** 2 * error + floor**2),
        along(ERR_MOST, seen["err_most"], of.tau_w * ones),
        along(REGION_W, run.moved_w, 10 * W * ones, ()),
        along(REGION_V, run.moved_v, 10 * V * ones, ()),
        _regret(run, star),
    ]  # fmt: skip


def run_laws(run: ResNetRun) -> list[Finding]:
    """What the proof says of the run alone: Claims D.5 and D.7, the size of a step, and Lemma D.1 (f) where Claim D.6 uses it.

    Ref: beyond_kernels, Claim D.5, Claim D.7, Lemma D.1, Eq. (D.4)

    Differs from the paper: by Claim D.5 a step is O(η_w (σ_v + 1)² + η_v (τ_w + 1)²), which at σ_v = 1/τ_v² and η_w = Θ̃(α⁴) is not small; it
    prints η_w alone. With Lemma D.1 (f), even at the power 2/3 that adversaries leave of it, ‖A D V⁰‖₂ is O(1) there, and the print is right.
    """
    of, truth = radii_of(run), run.truth
    seen = run.seen[run.stars[0].name]
    bound_F, bound_GF = (float(np.linalg.norm(rows, axis=1).max()) for rows in (truth.F, truth.GF))
    steps, ones, asked = run.steps, np.ones(len(run.steps)), of.conditions()
    reached = np.maximum(run.moved_v, of.sigma_v * (of.k / of.m) ** 0.375)
    shares = run.hearts / np.maximum(run.squares, np.finfo(float).tiny)
    so_far = np.maximum.accumulate(shares)[steps[1:] - 1]
    step = run.rates["W"] + run.rates["V"] * of.tau_w**2
    parts = (
        (GRADIENT_W, steps, seen["gradient_w_most"], (of.sigma_v + 1) * ones, asked),
        (GRADIENT_V, steps, seen["gradient_v_most"], (of.tau_w + 1) * ones, asked),
        (MATRIX, steps, seen["matrix_most"], reached * (reached / of.sigma_v) ** (1 / 3), asked[:2]),
        (EXCESS, steps, seen["excess_most"], (of.tau_v * (bound_F + 1) + truth.alpha * bound_GF) * ones, asked),
        (HEART, steps[1:], so_far, step * ones[1:], asked),
    )
    return [_found(law, None, "trajectory", at, values, bounds, why) for law, at, values, bounds, why in parts]


def regret_sides(run: ResNetRun, star: Comparator) -> tuple[np.ndarray, np.ndarray]:
    """Both sides of (D.4) after each recorded number of steps but none, as rows: the parts of W, of V, and the sum over steps.

    Ref: beyond_kernels, Eq. (D.4)
    """
    T = run.steps[1:].astype(float)
    halves = 0.5 / np.array([run.rates["W"], run.rates["V"]])
    far = run.distances[star.name] * halves
    errors, errs = (np.cumsum(every)[run.steps[1:] - 1] / T for every in (run.squares, run.errs[star.name]))
    left = np.column_stack([far[1:] / T[:, None], errors / 4])
    return left, np.column_stack([far[:1] / T[:, None], 2 * errs])


def _regret(run: ResNetRun, star: Comparator) -> Finding:
    left, right = (side.sum(axis=1) for side in regret_sides(run, star))
    most = float((run.hearts / np.maximum(run.squares, np.finfo(float).tiny)).max())
    asked = checked("♡_t ≤ 0.1 ‖y_t − out(x_t)‖²", most <= 0.1, f"largest share {most:.3g}")
    return _found(REGRET, star, "trajectory", run.steps[1:], left, right, (asked,))


def _wide_enough(m: int, ratio: float) -> tuple[Assumption, ...]:
    """m ≥ M, M a polynomial that is not written out: errors fall as 1/√m, so that M is at least m times the squared ratio."""
    return (
        checked("m ≥ M", False if ratio > 1 else None, f"M is at least {m * ratio:.2g} where the error falls as 1/√m"),
    )


def _found(
    law: Law, star: Comparator | None, moment: Moment, at: Sequence[float] | np.ndarray, values: Sequence[float] | np.ndarray,
    bounds: Sequence[float] | np.ndarray, conditions: Sequence[Assumption],
) -> Finding:  # fmt: skip
    named = law if star is None else replace(law, name=f"{law.name}, W* and V* {star.name}")
    return made(named, moment, at, values, bounds, conditions)
