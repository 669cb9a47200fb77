"""Laws of the residual network: products against dense matrices, planted violations, layers that add up."""

from functools import cache

import numpy as np
import pytest
from coupling_cases import by_name, rows, subject_of

from overparam.audits import convergence_c_residual as laws
from overparam.audits.convergence_c_residual import residual_stability, residual_start
from overparam.audits.subject import Subject
from overparam.networks import Residual


@cache
def subject(c=100.0, depth=5, width=24) -> Subject:
    return subject_of(Residual(width, depth, c=c), rows(8, 5), omegas=(0.01, 0.1, 1.0))


def dense_products(case):
    """All (I + τW_a) D_{a−1} ⋯ D_b (I + τW_b), and all W_L D ⋯ (I + τW_a), of every sample."""
    tau, weights, gates = case.network.tau, case.weights, case.inside.gates(case.start)
    L, m = case.depth, case.width
    links = [np.eye(m) + tau * weights[f"W{layer}"] for layer in range(1, L)]
    inner, outer = [], []
    for row in range(case.samples):
        for b in range(1, L):
            product = links[b - 1]
            inner.append(np.linalg.norm(product, 2))
            for a in range(b + 1, L):
                product = links[a - 1] @ (gates[a - 1][row][:, None] * product)
                inner.append(np.linalg.norm(product, 2))
            last = weights[f"W{L}"] @ (gates[L - 1][row][:, None] * product)
            outer.append(np.linalg.norm(gates[L][row][:, None] * last, 2))
        outer.append(np.linalg.norm(gates[L][row][:, None] * weights[f"W{L}"], 2))
    return max(inner), max(outer)


def test_products_are_those_of_dense_matrices():
    case = subject()
    found = residual_start(case)
    inner, outer = dense_products(case)
    products = by_name(found, laws.PRODUCTS.name, "start")
    assert products.values[0] <= inner * (1 + 1e-9)
    assert products.values[0] == pytest.approx(inner, rel=2e-3)  # Lanczos with a few steps, from below
    assert products.verdict == "holds"
    assert by_name(found, laws.TO_LAST.name, "start").values[0] == pytest.approx(outer, rel=0.02)


def test_norms_separation_and_gradients_are_those_of_the_trace():
    case = subject()
    found = residual_start(case)
    norms = np.array([np.linalg.norm(h, axis=1) for h in case.start.activations])
    assert by_name(found, laws.ABOVE.name, "start").values[0] == pytest.approx(norms.max())
    assert by_name(found, laws.BELOW.name, "start").values[0] == pytest.approx(norms.min())
    h = case.start.activations[case.depth - 1]
    apart = min(np.linalg.norm(h[i] - h[j]) for i in range(8) for j in range(i))
    assert by_name(found, laws.APART.name, "start").values[0] == pytest.approx(apart)
    step = 1e-6 * case.rng(99).standard_normal((case.width, case.width))
    moved = [{**case.weights, "W1": case.weights["W1"] + sign * step} for sign in (1, -1)]
    losses = [0.5 * ((case.inside.trace(w).output - case.y) ** 2).sum() for w in moved]
    slope = case.inside.gradient(case.weights, laws.of_output(case.residuals))["W1"]
    assert (losses[0] - losses[1]) / 2 == pytest.approx(float((slope * step).sum()), rel=1e-4)
    gradients = by_name(found, laws.SLOPE.name, "start")
    assert gradients.detail["by layer"][0] == pytest.approx((slope**2).sum() / (0.5 * (case.residuals**2).sum()))


def test_a_large_tau_breaks_c1_and_is_out_of_its_range():
    case = subject(c=1.0)
    found = residual_start(case)
    products = by_name(found, laws.PRODUCTS.name, "start")
    assert products.constant > 1.01
    assert products.verdict == "out of range"
    assert [condition.status for condition in products.range] == ["unmet"]
    for law in (laws.ABOVE, laws.BELOW, laws.APART):  # whose constants are those of (C.1)
        finding = by_name(found, law.name, "start")
        unmet = [condition.statement for condition in finding.range if condition.status == "unmet"]
        assert "τ ≤ 1/(100 L log m)" in unmet
        assert finding.verdict in ("holds", "out of range")


def test_two_relu_layers_have_no_skip_and_say_so():
    found = residual_start(subject(depth=2))
    for law in (laws.PRODUCTS, laws.APART, laws.SLOPE):
        finding = by_name(found, law.name, "start")
        assert finding.verdict == "not measured"
        assert "no skip" in finding.words


def test_layers_add_up_and_signs_turn_like_the_law():
    case = subject()
    found = residual_stability(case)
    tau, hidden = case.network.tau, case.depth - 1
    printed = by_name(found, laws.HIDDEN.name, "adversarial")
    # Perturbations that agree give ℓτω after ℓ layers: more than τω, which is printed, and no more than ℓτω (1 + …).
    assert 0.7 * hidden < printed.constant < 1.2 * hidden
    summed = by_name(found, laws.SUMMED.name, "adversarial")
    assert 0.7 < summed.constant < 1.2
    assert summed.exponent == pytest.approx(1.0, abs=0.02)
    # By hand: W′_ℓ = ω h hᵀ/‖h‖², along what the layer sees, adds τω‖h‖ in the direction it goes anyway.
    h = case.start.activations[0][0]
    moved = dict(case.weights)
    for layer in range(1, case.depth):
        moved[f"W{layer}"] = moved[f"W{layer}"] + 0.1 * np.outer(h, h) / (h @ h)
    change = case.inside.trace(moved).pre_activations[hidden][0] - case.start.pre_activations[hidden][0]
    assert np.linalg.norm(change) == pytest.approx(hidden * tau * 0.1 * np.linalg.norm(h), rel=0.05)
    assert np.linalg.norm(change) <= printed.values[1] * (1 + 1e-2)
    last = by_name(found, laws.LAST.name, "adversarial")
    assert last.verdict == "holds with constant"
    assert last.exponent == pytest.approx(1.0, abs=0.02)
    for law in (laws.FLIPS, laws.LAST, laws.BACK):
        worst = by_name(found, law.name, "adversarial").values
        assert (by_name(found, law.name, "random").values <= worst + 1e-12).all()
        assert by_name(found, law.name, "adversarial").verdict == "holds with constant"
