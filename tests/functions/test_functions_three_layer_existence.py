"""W* and V* of three layers, built: against explicit matrices, the target, and the variance computed by hand."""

import math

import numpy as np
import pytest

from overparam.audits.beyond_two_layers_two import ThreeLayerLearner
from overparam.functions import (
    SmoothProduct,
    polynomial,
    product_error_against_width,
    product_plan,
    series,
    three_layer_existence,
    three_layer_outputs,
)
from overparam.functions.three_layer_existence import _carriers, _seen

E = np.eye(4)
X = np.array([[0.6, -0.3, math.sqrt(0.3), 0.5], [-0.7, 0.1, 0.5, 0.5], [0.2, math.sqrt(0.7), 0.1, 0.5]])
TARGET = SmoothProduct(
    series("identity"), polynomial([1.0, 0.05]), polynomial([1.0, 0.5]), E[:1], E[1:2], [1.0], [1.0], 0.8
)
PLAN = product_plan(TARGET, tau=0.5)


def start(rng, m1, m2, d=4, scale=1.0):
    W = rng.standard_normal((m1, d)) / math.sqrt(m1)
    V = rng.standard_normal((m2, m1)) / math.sqrt(m2)
    b1, b2 = (math.sqrt(2 / m) * rng.standard_normal(m) * (rng.random(m) < 0.5) for m in (m1, m2))
    return W, b1, V, b2, scale * rng.standard_normal(m2)


def test_the_target_is_the_formula():
    target = SmoothProduct(
        series("square"), [series("sin"), series("exp")], series("cos"), E[:2], E[1:3], [0.6, 0.8], [0.0, 1.0], -0.5
    )
    x = X[0]
    inner = 0.6 * math.sin(x[0]) + 0.8 * math.exp(x[1])
    assert target(X)[0] == pytest.approx(-0.5 * inner**2 * math.cos(x[2]))


def test_the_network_is_the_pseudo_network_of_explicit_matrices():
    """a D_v V* D_w W* x, written out by the learner of the audits, is (1/m₂) Σ a²h_Φ 1{…} times (1/m₁) Σ h_φ2 1{…}; its
    norms are those of the matrices."""
    rng, scale = np.random.default_rng(0), 0.3
    W, b1, V, b2, a = start(rng, 40, 60, scale=scale)
    signs = rng.choice([-1.0, 1.0], 40)
    made = three_layer_existence(PLAN, W, b1, V, b2, a, output_scale=scale, split=1e-3, signs=signs)
    learner = ThreeLayerLearner(W, b1, V, b2, a[None])
    found = learner.pseudo_network(X, made.W, made.V, learner.signs(X, W, V), "none")[:, 0]
    factor = PLAN.factor[0](W[:, 1] * math.sqrt(40), b1 * math.sqrt(40))
    values = _carriers(PLAN, W, b1)
    outer = PLAN.outer(_seen(PLAN, values, W, V * math.sqrt(60), 1), b2 * math.sqrt(60))
    on_w, on_v = learner.signs(X, W, V)
    expected = 0.8 * (on_v @ ((a / scale) ** 2 * outer) / 60) * (on_w @ factor / 40)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    rows, columns = np.linalg.norm(made.W, axis=1), np.linalg.norm(made.V, axis=1)
    assert made.norms["W row"] == pytest.approx(rows.max())
    assert made.norms["V row"] == pytest.approx(columns.max())
    assert made.norms["W 2,4"] == pytest.approx(np.sum(rows**4) ** 0.25)
    assert made.norms["V F"] == pytest.approx(np.linalg.norm(made.V))


def test_the_mean_is_the_target_and_the_variance_the_one_by_hand():
    """20 starts: the mean within four standard errors, and m₂E[error²] near 3·½E[h²] a²φ2², as E[a⁴] = 3 and h² is
    even."""
    rng, m1, m2, starts = np.random.default_rng(1), 96, 2048, 20
    outputs = []
    for _ in range(starts):
        W, b1, V, b2, a = start(rng, m1, m2)
        made = three_layer_existence(PLAN, W, b1, V, b2, a, output_scale=1.0)
        on_w, on_v = X @ W.T + b1 >= 0, np.maximum(X @ W.T + b1, 0) @ V.T + b2 >= 0
        outputs.append((on_v @ (a * made.column)) * (on_w @ made.row) * 0.5)
    outputs = np.array(outputs)
    errors = outputs.std(axis=0, ddof=1) / math.sqrt(starts)
    assert np.all(np.abs(outputs.mean(axis=0) - TARGET(X)) <= 4 * errors)
    assert np.all(errors < 0.25)  # a factor of two in W* would be seen
    squares = m2 * np.mean((outputs - TARGET(X)) ** 2, axis=1)
    expected = np.mean(1.5 * PLAN.outer.mean_square * 0.64 * (1 + 0.5 * X[:, 1]) ** 2)
    assert 0.4 * expected < squares.mean() < 2.5 * expected  # clipped h, few starts


OTHER = product_plan(
    SmoothProduct(
        series("identity"), polynomial([0.0, 1.0]), polynomial([0.0, 1.0]), E[2:3], E[:1], [1.0], [1.0], -0.6
    ),
    tau=0.5,
)


def outputs_of(rng, m1, m2, plans=((PLAN, OTHER), (OTHER,))):
    """(n, k) of the pseudo network with W*, V* for two outputs, the first of two terms, at a start drawn here."""
    W, b1, V, b2, _ = start(rng, m1, m2)
    A = rng.standard_normal((2, m2))
    learner = ThreeLayerLearner(W, b1, V, b2, A)
    built, above = three_layer_outputs(plans, W, b1, V, b2, A, output_scale=1.0, key=int(rng.integers(2**31)))
    assert (built.shape, above.shape) == ((m1, 4), (m2, m1))
    return learner.pseudo_network(X, built, above, learner.signs(X, W, V), "none")


def test_several_outputs_of_several_terms_have_their_targets_as_means():
    """Every output within four standard errors of its own sum of terms, and errors that fall like the root of the widths."""
    rng = np.random.default_rng(9)
    truth = np.column_stack([TARGET(X) + OTHER.target(X), OTHER.target(X)])
    spreads = []
    for m1, m2, starts in ((128, 256, 60), (512, 1024, 110)):
        found = np.array([outputs_of(rng, m1, m2) for _ in range(starts)])
        errors = found.std(axis=0, ddof=1) / math.sqrt(starts)
        assert np.all(np.abs(found.mean(axis=0) - truth) <= 4 * errors)
        spreads.append(np.sqrt(np.mean((found - truth) ** 2)))
    assert np.abs(truth[:, 0] - truth[:, 1]).max() > 5 * errors.max()  # outputs that are mixed up would be seen
    assert 0.35 < spreads[1] / spreads[0] < 0.7  # four times the widths: a half


def test_one_output_of_one_term_is_the_construction_itself():
    W, b1, V, b2, a = start(np.random.default_rng(3), 40, 60)
    built, above = three_layer_outputs([[PLAN]], W, b1, V, b2, a[None], output_scale=0.3, key=5)
    signs = np.random.default_rng(5).choice([-1.0, 1.0], size=40)
    alone = three_layer_existence(PLAN, W, b1, V, b2, a, output_scale=0.3, signs=signs)
    np.testing.assert_array_equal(built, alone.W)
    np.testing.assert_array_equal(above, alone.V)
    with pytest.raises(ValueError, match="expected a row and at least one term"):
        three_layer_outputs([[PLAN], []], W, b1, V, b2, np.stack([a, a]), output_scale=0.3, key=5)


def test_several_functions_and_pieces_give_gaussians_of_variance_one():
    target = SmoothProduct(
        series("identity"),
        [series("identity"), polynomial([1.0])],
        series("cos"),
        E[:2],
        E[1:3],
        [0.6, 0.8],
        [0.6, 0.8],
    )
    plan, rng = product_plan(target, tau=0.4), np.random.default_rng(2)
    assert plan.stretch == pytest.approx(plan.constant * math.sqrt(2 / 0.4))
    found = []
    for _ in range(30):
        W, b1, V, _, _ = start(rng, 240, 50)
        found.append(np.mean(_seen(plan, _carriers(plan, W, b1), W, V * math.sqrt(50), 3) ** 2))
    assert abs(np.mean(found) - 1) <= 4 * np.std(found, ddof=1) / math.sqrt(30)


def test_error_falls_like_one_over_the_root_of_the_width():
    found = product_error_against_width(PLAN, [(64, 64), (128, 256), (256, 1024)], X, key=5, repeats=10)
    assert abs(found.slope + 0.5) <= 3.5 * found.slope_error
    assert found.slope_error < 0.12
    ratios = {name: norm[-1] / norm[0] for name, norm in found.norms.items()}
    assert ratios["W row"] == pytest.approx(1 / 4, rel=0.3)  # 1/m₁: its largest values are clipped
    assert ratios["V F"] == pytest.approx(0.5, rel=0.2)  # √(m₁/m₂)
    assert np.all(np.abs(found.noisy / found.errors - 1) < 0.5)


@pytest.mark.parametrize(("power", "holds"), [(8, True), (16, False)])
def test_the_norms_of_40_hold_with_the_split_at_the_eighth_power_and_not_at_the_printed_sixteenth(power, holds):
    """(40) with ε_a = ε, C_0 four times the largest h: rows of W* at most C_0²/(ε¹¹m₁), of V* at most ε⁸√m₁/m₂."""
    epsilon, (m1, m2) = 0.1, (64, 96)
    W, b1, V, b2, a = start(np.random.default_rng(4), m1, m2, scale=epsilon)
    large = 4 * math.exp(max(h.log_bound for h in (PLAN.outer, *PLAN.factor)))
    norms = three_layer_existence(
        PLAN, W, b1, V, b2, a, output_scale=epsilon, split=epsilon**power / large
    ).norms  # fmt: skip
    assert norms["V row"] <= epsilon**8 * math.sqrt(m1) / m2
    assert (norms["W row"] <= large**2 / (epsilon**11 * m1)) == holds


def test_bad_input_in_one_line():
    W, b1, V, b2, a = start(np.random.default_rng(0), 20, 8)
    cases = {
        "put it into φ1": lambda: SmoothProduct(
            series("sin"), series("sin"), series("sin"), E[3:], E[:1], [1.0], [1.0]
        ),
        "norm that is not 1": lambda: SmoothProduct(
            series("sin"), series("sin"), series("sin"), 2 * E[:1], E[:1], [1.0], [1.0]
        ),
        "expected at most 1": lambda: SmoothProduct(
            series("sin"), series("sin"), series("sin"), E[:1], E[:1], [1.0], [1.0], 2.0
        ),
        "3 chunks": lambda: three_layer_existence(PLAN, W, b1, V, b2, a, output_scale=1.0, pieces=3),
        "expected two or more": lambda: product_error_against_width(PLAN, [(8, 8)], X, key=0),
    }
    for words, call in cases.items():
        with pytest.raises(ValueError, match=words) as caught:
            call()
        assert "\n" not in str(caught.value)
