"""How many samples and neurons the theorems on networks beyond kernels ask for; what they hide stays in words.

A theorem that says N ≥ Ω̃(poly(x, 1/ε)) does not say a number. A `Scale` therefore has the parts it does name, as natural
logarithms, and in words what it hides: the degree and coefficients of poly, and powers of log m.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import final

import numpy as np

from overparam.core import checks
from overparam.core.bracketed import Assumption, checked
from overparam.core.words import power_of_e
from overparam.functions.complexity import (
    CONSTANT,
    Complexity,
    complexity_eps,
    complexity_of,
    complexity_s,
    largest,
    second_layer,
)
from overparam.functions.power_series import PowerSeries

LOG_M = "powers of log m"
POLY = "poly's degree and coefficients"


@final
@dataclass(frozen=True)
class Scale:
    """One quantity of a theorem.

    Args:
        quantity: N, M (the least width), the error, a rate.
        relation: how the theorem says it, such as "≥ Ω̃".
        formula: the paper's.
        parts: what the formula names, and the natural logarithm of each; a Decimal where that leaves float64.
        log_value: the logarithm of the formula where it is explicit; None inside a poly.
        hidden: what the theorem does not say.
    """

    quantity: str
    relation: str
    formula: str
    parts: tuple[tuple[str, float | Decimal], ...]
    log_value: float | Decimal | None
    hidden: tuple[str, ...]

    def __str__(self) -> str:
        named = ", ".join(f"{name} = {power_of_e(value)}" for name, value in self.parts)
        value = "" if self.log_value is None else f" = {power_of_e(self.log_value)}"
        hidden = f"  [hidden: {'; '.join(self.hidden)}]" if self.hidden else ""
        said = self.formula if self.relation == "=" else f"({self.formula})"
        space = " " if self.relation == "=" else ""
        return f"{self.quantity} {self.relation}{space}{said}{value}, {named}{hidden}"


@final
@dataclass(frozen=True)
class TheoremScales:
    """What one theorem asks for, what it assumes, and what it then says."""

    theorem: str
    scales: tuple[Scale, ...]
    assumptions: tuple[Assumption, ...]
    conclusion: str
    reference: str

    def of(self, quantity: str) -> Scale:
        """The scale of one quantity."""
        for scale in self.scales:
            if scale.quantity == quantity:
                return scale
        raise ValueError(
            f"{self.theorem} says nothing of {quantity!r}; it has {', '.join(s.quantity for s in self.scales)}"
        )

    def __str__(self) -> str:
        lines = [f"{self.theorem}: {self.conclusion}"]
        lines += [f"  {scale}" for scale in self.scales]
        lines += [f"  {a.status}: {a.statement}" + (f" ({a.detail})" if a.detail else "") for a in self.assumptions]
        return "\n".join(lines)


def two_layer_scales(
    functions: PowerSeries | Sequence[PowerSeries], epsilon: float, *, p: int, k: int = 1, C: float = CONSTANT
) -> TheoremScales:
    """M = poly(C(φ, √log(p/ε)), 1/ε), and N ≥ Ω̃(M) samples for every width m ≥ M.

    Ref: beyond_two_layers, Thm 4.1

    Args:
        functions: φ_i; the largest complexity counts.
        epsilon: how much worse than the ground truth the network may be.
        p: neurons of the ground truth. k: its outputs.
        C: the constant inside the complexity.

    >>> from overparam.functions import series
    >>> print(two_layer_scales(series("exp"), 0.01, p=4, C=10.0).of("N"))
    N ≥ Ω̃(poly(C(φ, √log(p/ε)), 1/ε)), C(φ, √log(p/ε)) = e^24.4775, 1/ε = e^4.60517  [hidden: poly's degree and coefficients; powers of log m]
    """
    checks.share(epsilon, "epsilon")
    _require_counts(p=p, k=k)
    found = largest([complexity_of(f, math.sqrt(math.log(p / epsilon)), C) for f in _many(functions)])
    parts = (("C(φ, √log(p/ε))", found.log_upper), ("1/ε", -math.log(epsilon)))
    formula = "poly(C(φ, √log(p/ε)), 1/ε)"
    return TheoremScales(
        "Theorem 4.1 (two layers)",
        (
            Scale("M", "=", formula, parts, None, (POLY,)),
            Scale("N", "≥ Ω̃", formula, parts, None, (POLY, LOG_M)),
        ),
        (
            checked("ε < 1/(pk)", epsilon < 1 / (p * k), f"ε = {epsilon:g}, 1/(pk) = {1 / (p * k):g}"),
            _finite(found),
            *_UNIT_ROWS,
        ),
        "for every m ≥ M, SGD reaches the error of the ground truth + ε",
        "beyond_two_layers, Thm 4.1",
    )


def three_layer_scales(
    outer: PowerSeries | Sequence[PowerSeries],
    inner: PowerSeries | Sequence[PowerSeries],
    epsilon: float,
    *,
    p1: int,
    p2: int,
    k: int = 1,
    width: int | None = None,
    C: float = CONSTANT,
) -> tuple[TheoremScales, TheoremScales]:
    """M = poly(C(Φ, √p₂ C(φ, √log(1/ε)) √log(1/ε)), 1/ε); N ≥ Ω̃(M m²) with objective L₁, N ≥ Ω̃(M) with L₂.

    Ref: beyond_two_layers, Thm 4.2, Thm 4.3, Lemma 5.3

    Differs from the paper: Thm 4.2 as printed leaves out the second √log(1/ε), which Lemma 5.3 has; it is kept here, as in
    `second_layer`.

    Args:
        outer, inner: Φ_i and φ_j; the largest complexities count.
        width: m, for the m² of Thm 4.2; symbolic where None.

    Returns: those of Thm 4.2 and of Thm 4.3.

    Where Φ is the identity the complexity is hardly more than that of φ:

    >>> from overparam.functions import series
    >>> first, second = three_layer_scales(series("identity"), series("cos", 100.0), 0.01, p1=1, p2=1)
    >>> second.of("N").parts[1][0], round(float(second.of("N").parts[1][1]) / 2.146e6, 3)
    ('C(Φ, R₂)', 1.0)
    """
    checks.share(epsilon, "epsilon")
    _require_counts(p1=p1, p2=p2, k=k)
    far = math.sqrt(math.log(1 / epsilon))
    first = largest([complexity_of(f, far, C) for f in _many(inner)])
    _, second = second_layer(first.log_upper, _many(outer), p2=p2, epsilon=epsilon, C=C)
    diverges = not second.is_finite()
    why = "C·R₂ is outside the convergence of Φ" if diverges and not first.reason else first.reason
    parts = (
        ("C(φ, √log(1/ε))", first.log_upper),
        ("C(Φ, R₂)", _small(second)),
        ("1/ε", -math.log(epsilon)),
    )
    squared = parts if width is None else (*parts, ("m²", 2 * math.log(width)))
    common = (
        checked("ε < 1/(p₁p₂k)", epsilon < 1 / (p1 * p2 * k), f"ε = {epsilon:g}, 1/(p₁p₂k) = {1 / (p1 * p2 * k):g}"),
        checked("the complexities are finite", not diverges and math.isfinite(first.log_upper), why),
        *_UNIT_ROWS,
    )
    formula = "poly(C(Φ, R₂), 1/ε)"
    M = Scale("M", "=", f"{formula}, R₂ = √p₂·C(φ, √log(1/ε))·√log(1/ε)", parts, None, (POLY,))
    hidden = (POLY, LOG_M)
    said = "for every m₁ = m₂ ≥ M, Algorithm 2 reaches (1 + γ) times the error of the ground truth, + ε"
    return (
        TheoremScales(
            "Theorem 4.2 (three layers, L₁)",
            (M, Scale("N", "≥ Ω̃", f"{formula}·m²", squared, None, hidden)),
            common,
            said,
            "beyond_two_layers, Thm 4.2",
        ),
        TheoremScales(
            "Theorem 4.3 (three layers, L₂)",
            (M, Scale("N", "≥ Ω̃", formula, parts, None, hidden)),
            common,
            said,
            "beyond_two_layers, Thm 4.3",
        ),
    )


def resnet_scales(
    F: PowerSeries | Sequence[PowerSeries],
    G: PowerSeries | Sequence[PowerSeries],
    alpha: float,
    *,
    k: int,
    p_F: int,
    p_G: int,
    opt: float = 0.0,
    B_F: float = 1.0,
    width: int | None = None,
    C: float = CONSTANT,
) -> TheoremScales:
    """For H = F + αG(F): the error δ, N = T samples, rates, initial weights and the least width of the three-layer ResNet.

        δ = OPT + Θ̃(α⁴ (k p_G C_s(G))⁴ (1 + B_F)²),   N = Θ̃((k p_F C_s(F))²/min{1, δ²}),
        η_w = Θ̃(min{1, δ}),   η_v = η_w Θ̃((p_G C_s(G)/(p_F C_s(F)))²),   M = poly(C_α(F), C_α(G), p_F, 1/α),
        τ_w = Õ(k p_F C_s(F)),   τ_v = Õ(α k p_G C_s(G)),   σ_w = m^{−1/8},   σ_v = 1/τ_v²

    Ref: beyond_kernels, Thm 1, Table 1, Eq. (6.2)

    Args:
        F, G: the smooth functions of one number that F and G are sums of; the largest complexities count.
        k: outputs. p_F, p_G: functions an output.
        opt: the error of the target itself.
        B_F: a bound on ‖F(x)‖.
        width: m, for σ_w and for what Table 1 asks of it; symbolic where None.
        C: C* of the complexities.

    With C = 1 and linear F and G (C_s = 2) the error is (2α)⁴·2²:

    >>> from overparam.functions import series
    >>> linear = series("identity")
    >>> found = resnet_scales(linear, linear, 0.1, k=1, p_F=1, p_G=1, C=1.0)
    >>> round(math.exp(found.of("δ").log_value) / (0.2**4 * 4), 9)
    1.0
    """
    checks.share(alpha, "alpha")
    checks.positive(opt, "opt", zero=True)
    checks.positive(B_F, "B_F", zero=True)
    _require_counts(k=k, p_F=p_F, p_G=p_G)
    s_F, s_G = (largest([complexity_s(f, C) for f in _many(fs)]) for fs in (F, G))
    e_F, e_G = (largest([complexity_eps(f, alpha, C) for f in _many(fs)]) for fs in (F, G))
    size_F, size_G = math.log(k * p_F) + s_F.log_upper, math.log(k * p_G) + s_G.log_upper
    log_error = 4 * math.log(alpha) + 4 * size_G + 2 * math.log1p(B_F)
    log_delta = log_error if opt == 0 else float(np.logaddexp(log_error, math.log(opt)))
    small = min(0.0, log_delta)
    names = (("C_s(F)", s_F.log_upper), ("C_s(G)", s_G.log_upper), ("1/α", -math.log(alpha)))
    ratio = 2 * (math.log(p_G / p_F) + s_G.log_upper - s_F.log_upper)
    formulas = ("k p_F C_s(F)", "α k p_G C_s(G)")
    table, ranges = _table_1(formulas, size_F, math.log(alpha) + size_G, names, k, width, (LOG_M,))
    return TheoremScales(
        "Theorem 1 (three-layer ResNet)",
        (
            Scale("δ", "= OPT + Θ̃", "α⁴(k p_G C_s(G))⁴(1 + B_F)²", names, log_delta, (LOG_M,)),
            Scale("N", "= Θ̃", "(k p_F C_s(F))²/min{1, δ²}", names, 2 * size_F - 2 * small, (LOG_M,)),
            Scale("η_w", "= Θ̃", "min{1, δ}", names, small, (LOG_M,)),
            Scale("η_v", "= Θ̃", "η_w (p_G C_s(G)/(p_F C_s(F)))²", names, small + ratio, (LOG_M,)),
            *table,
            Scale(
                "M",
                "=",
                "poly(C_α(F), C_α(G), p_F, 1/α)",
                (("C_α(F)", e_F.log_upper), ("C_α(G)", e_G.log_upper), ("1/α", -math.log(alpha))),
                None,
                (POLY,),
            ),
        ),
        (
            checked(
                "α ≤ Θ̃(1/(k p_G C_s(G)))",
                True if math.log(alpha) <= -size_G else None,
                f"α·k p_G C_s(G) = {power_of_e(math.log(alpha) + size_G)}"
                + ("" if math.log(alpha) <= -size_G else "; above 1, met only if the hidden factor allows it"),
            ),
            _finite(largest([e_F, e_G])),
            *ranges,
            Assumption("C* is sufficiently large", "not checked", f"C* = {C:g}"),
        ),
        "the average error over T = N steps of SGD is O(δ)",
        "beyond_kernels, Thm 1",
    )


def hidden_product_scales(d: int, alpha: float, *, width: int | None = None, k: int = 4) -> TheoremScales:
    """F = √d (x_{i1} … x_{ik})/√k and G their product: Õ(α⁴) error from N = Θ̃(d/α⁸) samples.

    Theorem 1 and Table 1 with C_s(F) = O(√d), C_s(G) = O(1) and k a constant: η_w = Θ̃(α⁴), η_v = η_w Θ̃(1/d), τ_w = Õ(√d),
    τ_v = Õ(α), σ_w = m^{−1/8}, σ_v = 1/τ_v².

    Ref: beyond_kernels, Cor 7.1, Thm 1, Table 1

    Args:
        d, alpha: of the target.
        width: m, for σ_w and for what Table 1 asks of it; symbolic where None.
        k: coordinates, for the same.

    >>> round(math.exp(hidden_product_scales(64, 0.5).of("N").log_value), 6)  # 64 · 2⁸
    16384.0
    """
    checks.share(alpha, "alpha")
    _require_counts(d=d, k=k)
    log_a, log_d = math.log(alpha), math.log(d)
    parts = (("d", log_d), ("1/α", -log_a))
    hidden = (LOG_M, "factors of k, a constant")
    table, ranges = _table_1(("√d", "α"), log_d / 2, log_a, parts, k, width, hidden)
    return TheoremScales(
        "Corollary 7.1 (three-layer ResNet)",
        (
            Scale("error", "≤ Õ", "α⁴", parts[1:], 4 * log_a, hidden),
            Scale("N", "= Θ̃", "d/α⁸", parts, log_d - 8 * log_a, hidden),
            Scale("η_w", "= Θ̃", "α⁴", parts[1:], 4 * log_a, hidden),
            Scale("η_v", "= Θ̃", "η_w/d", parts, 4 * log_a - log_d, hidden),
            *table,
            Scale("M", "=", "poly(d, 1/α)", parts, None, (POLY,)),
        ),
        (Assumption("α < 1/Θ(1), a constant that depends on k", "not checked", f"α = {alpha:g}"), *ranges),
        "with probability .99 SGD finds weights of that error",
        "beyond_kernels, Cor 7.1",
    )


def _table_1(
    formulas: tuple[str, str],
    log_w: float,
    log_v: float,
    parts: tuple[tuple[str, float], ...],
    k: int,
    width: int | None,
    hidden: tuple[str, ...],
) -> tuple[tuple[Scale, ...], tuple[Assumption, ...]]:
    """τ_w, τ_v, σ_w, σ_v, and the ranges that they should be in; hidden factors may decide those, so none is unmet."""
    scales = (
        Scale("τ_w", "= Õ", formulas[0], parts, log_w, hidden),
        Scale("τ_v", "= Õ", formulas[1], parts, log_v, hidden),
        Scale("σ_v", "=", "1/τ_v²", parts, -2 * log_v, hidden),
    )
    if width is None:
        return (*scales, Scale("σ_w", "=", "m^{−1/8}", parts, None, ())), ()
    _require_counts(width=width)
    log_m = math.log(width)
    weights = Scale("σ_w", "=", "m^{−1/8}", (("m", log_m),), -log_m / 8, ())

    def asked(statement: str, holds: bool) -> Assumption:
        return checked(statement, True if holds else None, "" if holds else "met only if the hidden factors allow it")

    return (*scales, weights), (
        asked("1 ≤ τ_w < √m σ_w", 0 <= log_w < 0.375 * log_m),
        asked(
            "σ_v (k/m)^{3/8} ≤ τ_v ≤ σ_v/polylog(m)", -2 * log_v + 0.375 * (math.log(k) - log_m) <= log_v <= -2 * log_v
        ),
        asked("σ_v ≤ m^{0.37}", -2 * log_v <= 0.37 * log_m),
    )


_UNIT_ROWS = (
    Assumption("rows of norm 1 with last coordinate ½", "not checked", "`pad_beyond_two_layers` makes them"),
    Assumption("a convex, 1-Lipschitz, 1-smooth loss with values in [0, 1]", "unmet", "no convex loss on R^k has them"),
)


def _many(functions: PowerSeries | Sequence[PowerSeries]) -> list[PowerSeries]:
    found = [functions] if isinstance(functions, PowerSeries) else list(functions)
    if not found or not all(isinstance(f, PowerSeries) for f in found):
        raise ValueError("expected a PowerSeries, such as series('sin'), or several in a list")
    return found


def _finite(found: Complexity) -> Assumption:
    return checked("the complexities are finite", math.isfinite(found.log_upper), found.reason)


def _small(value: Decimal) -> float | Decimal:
    """A float where it fits."""
    return value if value.is_finite() and math.isinf(float(value)) else float(value)


def _require_counts(**counts: int) -> None:
    for name, value in counts.items():
        checks.whole_number(value, name, least=1)
