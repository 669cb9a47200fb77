"""What the laws away from the start measure, against explicit matrices and JAX's own derivatives on tiny networks."""

import numpy as np
import pytest
from away_cases import by_hand, deep, flat, jacobian, moved, setting_of, unit_rows

from overparam.audits import backward_stability, forward_stability, gradients, linearisation, sign_changes
from overparam.audits.own_kernel import kernel_by_layers, own_kernel
from overparam.audits.perturbations import added
from overparam.audits.semi_smoothness import Bases, fitted_constants
from overparam.audits.tangent_drift import Start
from overparam.core.inside import of_output
from overparam.networks import Convolutional, FullyConnected, Residual


@pytest.fixture(scope="module")
def setting():
    return deep()


def test_sign_changes_and_movement(setting):
    W = moved(setting, 0.8)
    flips, carried, before, after = (np.zeros((4, 4)) for _ in range(4))
    for i, x in enumerate(setting.X):
        g, h, D, _, _ = by_hand(setting, W, x)
        g0, h0, D0, _, _ = by_hand(setting, setting.weights, x)
        for l in range(4):
            flips[i, l] = np.count_nonzero(D[l] - D0[l])
            carried[i, l] = np.linalg.norm((D[l] - D0[l]) @ g[l])
            before[i, l], after[i, l] = np.linalg.norm(g[l] - g0[l]), np.linalg.norm(h[l] - h0[l])
    found = sign_changes.measured(setting, W, 0.8)
    assert flips.max() > 1
    np.testing.assert_array_equal(found["sign changes"], flips.max(axis=0))
    np.testing.assert_allclose(found["signal of changed units"], carried.max(axis=0), rtol=1e-10)
    found = forward_stability.measured(setting, W, 0.8)
    np.testing.assert_allclose(found["forward stability before the ReLU"], before.max(axis=0), rtol=1e-10)
    np.testing.assert_allclose(found["forward stability"], after.max(axis=0), rtol=1e-10)


def test_products_and_their_changes(setting, monkeypatch):
    W = moved(setting, 0.8)
    norms, changes = [], np.zeros((4, 3))
    for i, x in enumerate(setting.X):
        products = []
        for weights in (W, setting.weights):
            *_, D, _, (_, Ws, B) = by_hand(setting, weights, x)
            if weights is W:
                norms.append(np.linalg.norm(Ws[2] @ D[2] @ Ws[1] @ D[1] @ Ws[0], 2))
            products.append([B @ D[3] @ Ws[2] @ D[2] @ Ws[1] @ D[1], B @ D[3] @ Ws[2] @ D[2], B @ D[3]])
        changes[i] = [np.linalg.norm(a - b, 2) for a, b in zip(*products, strict=True)]
    assert np.isclose(backward_stability.product_norms(setting, W, 0.8)["intermediate stability"], max(norms))
    for exact in (12, 0):  # row by row, and by Lanczos
        monkeypatch.setattr(backward_stability, "EXACT_OUTPUTS", exact)
        found = backward_stability.backward_changes(setting, W, 0.8)["backward stability"]
        np.testing.assert_allclose(found, changes.max(axis=0), rtol=1e-9)


def test_gradient_ratios(setting):
    W = moved(setting, 0.3)
    J = jacobian(setting, W)
    residual = np.array([by_hand(setting, W, x)[3] for x in setting.X]) - setting.y
    F = 0.5 * (residual**2).sum(axis=1)
    each = np.einsum("nk,nkp->np", residual, J).reshape(4, 3, 64)  # three layers of 64 weights
    found = gradients.measured(setting, W, 0.3)
    whole = each.sum(axis=0)
    np.testing.assert_allclose(found["gradient upper bound"], [(whole**2).sum() / F.sum()])
    np.testing.assert_allclose(found["gradient upper bound by layer"], (whole**2).sum(axis=1) / F.sum())
    expected = [max((each[i, layer] ** 2).sum() / F[i] for i in range(4)) for layer in range(3)]
    np.testing.assert_allclose(found["gradient upper bound by sample"], expected)
    np.testing.assert_allclose(found["gradient lower bound"], [(whole[2] ** 2).sum() / F.max()])


def test_bend_drift_and_kernel(setting):
    W = moved(setting, 0.3)
    J, J0 = jacobian(setting, W), jacobian(setting, setting.weights)
    change = flat(W, setting) - flat(setting.weights, setting)
    outputs = [np.array([by_hand(setting, weights, x)[3] for x in setting.X]) for weights in (W, setting.weights)]
    np.testing.assert_allclose(linearisation.bend(setting, W), outputs[0] - outputs[1] - J0 @ change, atol=1e-12)
    drift, kernel = Start(setting, 1).changes(W)
    a, b = J[:, 1], J0[:, 1]
    lengths = np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(drift, np.linalg.norm(a - b, axis=1) / lengths, rtol=1e-9)
    np.testing.assert_allclose(kernel, (np.abs(a @ a.T - b @ b.T) / np.outer(lengths, lengths)).max(axis=1), rtol=1e-9)
    flat_J = J.reshape(8, -1)
    np.testing.assert_allclose(own_kernel(setting, W), flat_J @ flat_J.T, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("net", "inputs", "by_layers"),
    [(Residual(width=5, depth=3, outputs=2, c=0.3), 3, True), (Convolutional(2, 3, (3, 3), outputs=2), 9, False)],
)
def test_own_kernel_by_layers_and_row_by_row(net, inputs, by_layers):
    setting = setting_of(net, unit_rows(3, inputs))
    assert (kernel_by_layers(setting, setting.weights) is not None) == by_layers
    K = own_kernel(setting, setting.weights)
    eye, h = np.eye(6), 1e-6
    rows = []
    for unit in eye:  # derivatives of one output by differences of the output along its own gradient
        slope = setting.inside.gradient(setting.weights, of_output(unit.reshape(3, 2)))
        ahead, back = (setting.inside.trace(added(setting.weights, slope, s)).output for s in (h, -h))
        rows.append(((ahead - back) / (2 * h)).ravel())
    np.testing.assert_allclose(K, rows, rtol=1e-6, atol=1e-7)


QUANTITIES = {
    "h": (lambda s, w: forward_stability.measured(s, w, 0)["forward stability"].max() ** 2 / 2,
          forward_stability.towards_movement),
    "carried": (lambda s, w: sign_changes.measured(s, w, 0)["signal of changed units"].max() ** 2 / 2,
                sign_changes.towards_carried),
    "product": (lambda s, w: backward_stability.product_norms(s, w, 0)["intermediate stability"].max() ** 2 / 2,
                backward_stability.towards_long_product),
    "back": (lambda s, w: backward_stability.longest_change(s, w, 0).max(), backward_stability.towards_change),
    "gradient": (lambda s, w: gradients.gradient_ratio(s, w, 0)[0], gradients.towards_large_gradient),
    "sample": (lambda s, w: gradients.sample_ratio(s, w, 0).max(), gradients.towards_large_sample),
    "last": (lambda s, w: gradients.last_ratio(s, w, 0)[0], gradients.towards_large_last),
    "bend": (lambda s, w: np.abs(linearisation.bend(s, w)).max(), linearisation.towards_bend),
    "drift": (lambda s, w: Start(s, 0).changes(w)[0].max() ** 2 / 2 * _length(s, w),
              lambda s, w: Start(s, 0).towards_drift(w)),
}  # fmt: skip


def _length(setting, weights):
    """‖∇y⁰‖² of the sample that drifts most: the slope is of the drift itself, not of its share."""
    start = Start(setting, 0)
    return np.diag(start.kernel)[start.changes(weights)[0].argmax()]


@pytest.mark.parametrize("name", QUANTITIES)
def test_slopes_are_derivatives(setting, name, monkeypatch):
    monkeypatch.setattr(gradients, "SECANT", 1e-5)
    monkeypatch.setattr("overparam.audits.tangent_drift.SECANT", 1e-5)
    value, slope = QUANTITIES[name]
    W = moved(setting, 0.3, seed=6)
    direction = {name: np.random.default_rng(7).standard_normal(v.shape) for name, v in W.items()}
    found = sum(float(np.vdot(G, direction[name])) for name, G in slope(setting, W).items())
    h = 1e-6
    ahead, back = (value(setting, added(W, direction, s)) for s in (h, -h))
    assert abs(found) > 1e-6
    np.testing.assert_allclose(found, (ahead - back) / (2 * h), rtol=2e-4)


def test_the_remainder_is_exactly_quadratic_while_no_sign_flips():
    """One trained layer and held signs: the outputs are linear in it, so the remainder is ½ Σ ‖J W′‖²."""
    setting = setting_of(FullyConnected(width=8, depth=2, outputs=2), unit_rows(4, 3))
    step = {name: 1e-3 * W for name, W in setting.perturbation("random", 1.0).items()}
    moved_to = setting.moved(step)
    assert max(sign_changes.measured(setting, moved_to, 1e-3)["sign changes"]) == 0
    J = jacobian(setting, setting.weights)
    expected = 0.5 * ((J @ flat(step, setting)) ** 2).sum()
    np.testing.assert_allclose(Bases(setting, away=False).remainder(step, 1e-3), expected, rtol=1e-7)
    assert np.abs(linearisation.bend(setting, moved_to)).max() < 1e-14


def test_the_bend_is_quadratic_and_cubic_while_no_sign_flips():
    """Two trained layers, held signs: the outputs are bilinear, so the bend of 2W′ is four times that of W′."""
    setting = setting_of(FullyConnected(width=8, depth=3, outputs=2), unit_rows(4, 3))
    step = setting.perturbation("random", 1e-4)
    twice = setting.moved(step, 2.0)
    assert max(sign_changes.measured(setting, twice, 1e-3)["sign changes"]) == 0
    once = linearisation.bend(setting, setting.moved(step))
    np.testing.assert_allclose(linearisation.bend(setting, twice), 4 * once, rtol=1e-4, atol=1e-13)


def test_fitted_constants_of_noisy_terms():
    rng = np.random.default_rng(0)
    terms = np.column_stack([np.geomspace(1e-4, 1, 40), np.geomspace(1e-6, 10, 40)])
    values = (terms @ [0.3, 2.0]) * np.exp(0.05 * rng.standard_normal(40))
    c1, c2 = fitted_constants(terms, values)
    assert abs(c1 / 0.3 - 1) < 0.1
    assert abs(c2 / 2.0 - 1) < 0.1
    assert fitted_constants(terms, -values) == (0.0, 0.0)
