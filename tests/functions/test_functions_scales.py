"""What theorems ask for: the parts they name as numbers, the rest in words."""

import math
from decimal import Decimal

import pytest

from overparam.functions import (
    hidden_product_scales,
    polynomial,
    power,
    resnet_scales,
    series,
    three_layer_scales,
    two_layer_scales,
)


def status(found, opening):
    return next(a.status for a in found.assumptions if a.statement.startswith(opening))


def test_two_layers():
    found = two_layer_scales([series("sin"), series("exp")], 0.01, p=4, k=2)
    N = found.of("N")
    assert dict(N.parts)["C(φ, √log(p/ε))"] == pytest.approx(1e4 * math.sqrt(math.log(400)))  # exp is the larger
    assert dict(N.parts)["1/ε"] == pytest.approx(math.log(100))
    assert N.log_value is None  # a poly of unknown degree has no number
    assert "log m" in str(N)
    assert "\n" not in str(N)
    assert status(found, "ε <") == "met"
    assert status(two_layer_scales(series("sin"), 0.2, p=4, k=2), "ε <") == "unmet"
    assert status(two_layer_scales(series("tanh"), 0.01, p=4), "the complexities") == "unmet"
    assert "infinite" in str(two_layer_scales(series("tanh"), 0.01, p=4))


def test_three_layers():
    eps, far = 0.01, math.sqrt(math.log(100))
    first, second = three_layer_scales(power(2), series("exp"), eps, p1=1, p2=4, width=100, C=10.0)
    inner = 10 * far
    outer = 2 * (math.log(10) + inner + math.log(2) + math.log(far))  # (C R₂)², R₂ = √4 e^{10 far} far
    for found in (first, second):
        parts = dict(found.of("N").parts)
        assert parts["C(φ, √log(1/ε))"] == pytest.approx(inner)
        assert parts["C(Φ, R₂)"] == pytest.approx(outer, rel=1e-12)
        assert status(found, "the complexities") == "met"
    assert dict(first.of("N").parts)["m²"] == pytest.approx(2 * math.log(100))
    assert "m²" in first.of("N").formula
    assert "m²" not in second.of("N").formula


def test_towers_of_exponentials_are_shown_and_not_infinite():
    _, found = three_layer_scales(series("exp"), series("sin"), 0.01, p1=1, p2=1)
    value = dict(found.of("M").parts)["C(Φ, R₂)"]
    assert isinstance(value, Decimal)
    log10 = (
        1e4 * math.sqrt(math.log(100)) - math.log(2) + math.log(1e4) + math.log(math.sqrt(math.log(100)))
    ) / math.log(10)
    assert value.adjusted() == int(log10)
    assert f"e^(10^{int(log10)})" in str(found)
    _, diverging = three_layer_scales(series("tanh"), series("sin"), 0.01, p1=1, p2=1)
    assert dict(diverging.of("M").parts)["C(Φ, R₂)"] == math.inf
    assert status(diverging, "the complexities") == "unmet"


def test_resnet_by_hand():
    """C* = 1, F = z/2 and G = z²/4: C_s = 2·½ = 1 and 3/4."""
    F, G, alpha = polynomial([0.0, 0.5]), polynomial([0.0, 0.0, 0.25]), 0.1
    found = resnet_scales(F, G, alpha, k=2, p_F=3, p_G=1, opt=1e-4, B_F=1.0, C=1.0)
    delta = 1e-4 + alpha**4 * (2 * 0.75) ** 4 * 4
    assert math.exp(found.of("δ").log_value) == pytest.approx(delta)
    assert math.exp(found.of("N").log_value) == pytest.approx((2 * 3 * 1.0) ** 2 / delta**2)
    assert math.exp(found.of("η_w").log_value) == pytest.approx(delta)
    assert math.exp(found.of("η_v").log_value) == pytest.approx(delta * (0.75 / 3) ** 2)
    assert math.exp(dict(found.of("M").parts)["C_α(F)"]) == pytest.approx(0.5 * (1 + math.sqrt(math.log(10))))
    assert status(found, "α ≤") == "met"  # α k p_G C_s(G) = 0.15
    assert status(resnet_scales(F, G, 0.9, k=8, p_F=1, p_G=1), "α ≤") == "not checked"
    none = resnet_scales(F, G, alpha, k=2, p_F=3, p_G=1, C=1.0)
    assert math.exp(none.of("δ").log_value) == pytest.approx(delta - 1e-4)


def test_hidden_product():
    found = hidden_product_scales(30, 0.3)
    assert math.exp(found.of("N").log_value) == pytest.approx(30 / 0.3**8)
    assert math.exp(found.of("error").log_value) == pytest.approx(0.3**4)
    with pytest.raises(ValueError, match="says nothing of 'T'"):
        found.of("T")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (lambda: two_layer_scales(series("sin"), 0.0, p=1), "`epsilon` is 0.0"),
        (lambda: two_layer_scales(series("sin"), 0.1, p=0), "`p` is 0"),
        (lambda: two_layer_scales([], 0.1, p=1), "expected a PowerSeries"),
        (lambda: resnet_scales(series("sin"), series("sin"), 2.0, k=1, p_F=1, p_G=1), "`alpha` is 2.0"),
        (
            lambda: resnet_scales(series("sin"), series("sin"), 0.1, k=1, p_F=1, p_G=1, opt=-1.0),
            "`opt` is -1.0; expected a finite number ≥ 0",
        ),
        (lambda: hidden_product_scales(3, math.nan), "`alpha` is nan"),
    ],
)
def test_bad_input_is_one_line(bad, said):
    with pytest.raises(ValueError, match=said):
        bad()


@pytest.mark.parametrize("p", ["a", math.nan, 1.5, True])
def test_counts_that_are_no_counts_get_one_line(p):
    with pytest.raises(ValueError, match=r"`p` is .*; expected a whole number ≥ 1"):
        two_layer_scales(series("exp"), 0.01, p=p)
