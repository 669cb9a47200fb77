"""What the papers' statements ask of a network and its data, checked on the one at hand."""

from __future__ import annotations

from math import log

from overparam.audits.setting import Setting
from overparam.core.assumptions import Assumption, checked


def relu_only(setting: Setting) -> Assumption:
    """Every layer bends by a ReLU, and nothing else does."""
    leaky = [slope for slope in setting.inside.slopes if slope]
    words = list(setting.inside.unseen)
    if leaky:
        words.append(f"leaky ReLUs of slope {leaky[0]:g}")
    return checked("all activations are ReLUs", not words, "; ".join(words))


def unit_rows(setting: Setting) -> Assumption:
    """‖x_i‖ = 1, as Assumption 2.1 has it."""
    low, high = float(setting.norms.min()), float(setting.norms.max())
    return checked(
        "rows of norm 1", bool(abs(low - 1) < 1e-6 and abs(high - 1) < 1e-6), f"from {low:.4g} to {high:.4g}"
    )


def wide_for_products(setting: Setting, constant: float = 1.0) -> Assumption:
    """m ≥ constant · nL log(nL), what Lemmas 7.3 and 7.4 ask for."""
    nL = setting.samples * max(setting.depth, 1)
    needed = constant * nL * log(max(nL, 2))
    return checked("m ≥ nL log(nL)", setting.width >= needed, f"m = {setting.width:,}, {needed:,.0f} needed")


def of_network(setting: Setting) -> tuple[Assumption, ...]:
    """ReLUs and unit rows."""
    return relu_only(setting), unit_rows(setting)
