"""What the laws away from the start measure, against explicit matrices and JAX's own derivatives on tiny networks."""

import numpy as np
import pytest
from away_cases import by_hand, deep, flat, jacobian, moved, subject_of, unit_rows

from overparam.audits import convergence_8_backward as backward
from overparam.audits import convergence_8_forward as forward
from overparam.audits import convergence_9_10_gradients as gradients
from overparam.audits import convergence_11_smoothness as smoothness
from overparam.audits.convergence_11_smoothness import Bases, Start, fitted_constants
from overparam.audits.gradient_factors import kernel_by_layers, own_kernel
from overparam.audits.perturbations import added
from overparam.core.inside import of_output
from overparam.networks import Convolutional, FullyConnected, Residual


@pytest.fixture(scope="module")
def subject():
    return deep()


def test_sign_changes_and_movement(subject):
    W = moved(subject, 0.8)
    flips, carried, before, after = (np.zeros((4, 4)) for _ in range(4))
    for i, x in enumerate(subject.X):
        g, h, D, _, _ = by_hand(subject, W, x)
        g0, h0, D0, _, _ = by_hand(subject, subject.weights, x)
        for l in range(4):
            flips[i, l] = np.count_nonzero(D[l] - D0[l])
            carried[i, l] = np.linalg.norm((D[l] - D0[l]) @ g[l])
            before[i, l], after[i, l] = np.linalg.norm(g[l] - g0[l]), np.linalg.norm(h[l] - h0[l])
    found = forward.signs_measured(subject, W, 0.8)
    assert flips.max() > 1
    np.testing.assert_array_equal(found["sign changes"], flips.max(axis=0))
    np.testing.assert_allclose(found["signal of changed units"], carried.max(axis=0), rtol=1e-10)
    found = forward.movements(subject, W, 0.8)
    np.testing.assert_allclose(found["forward stability before the ReLU"], before.max(axis=0), rtol=1e-10)
    np.testing.assert_allclose(found["forward stability"], after.max(axis=0), rtol=1e-10)


def test_products_and_their_changes(subject, monkeypatch):
    W = moved(subject, 0.8)
    norms, changes = [], np.zeros((4, 3))
    for i, x in enumerate(subject.X):
        products = []
        for weights in (W, subject.weights):
            *_, D, _, (_, Ws, B) = by_hand(subject, weights, x)
            if weights is W:
                norms.append(np.linalg.norm(Ws[2] @ D[2] @ Ws[1] @ D[1] @ Ws[0], 2))
            products.append([B @ D[3] @ Ws[2] @ D[2] @ Ws[1] @ D[1], B @ D[3] @ Ws[2] @ D[2], B @ D[3]])
        changes[i] = [np.linalg.norm(a - b, 2) for a, b in zip(*products, strict=True)]
    assert np.isclose(backward.product_norms(subject, W, 0.8)["intermediate stability"], max(norms))
    for exact in (12, 0):  # row by row, and by Lanczos
        monkeypatch.setattr(backward, "EXACT_OUTPUTS", exact)
        found = backward.backward_changes(subject, W, 0.8)["backward stability"]
        np.testing.assert_allclose(found, changes.max(axis=0), rtol=1e-9)


def test_gradient_ratios(subject):
    W = moved(subject, 0.3)
    J = jacobian(subject, W)
    residual = np.array([by_hand(subject, W, x)[3] for x in subject.X]) - subject.y
    F = 0.5 * (residual**2).sum(axis=1)
    each = np.einsum("nk,nkp->np", residual, J).reshape(4, 3, 64)  # three layers of 64 weights
    found = gradients.measured(subject, W, 0.3)
    whole = each.sum(axis=0)
    np.testing.assert_allclose(found["gradient upper bound"], [(whole**2).sum() / F.sum()])
    np.testing.assert_allclose(found["gradient upper bound by layer"], (whole**2).sum(axis=1) / F.sum())
    expected = [max((each[i, layer] ** 2).sum() / F[i] for i in range(4)) for layer in range(3)]
    np.testing.assert_allclose(found["gradient upper bound by sample"], expected)
    np.testing.assert_allclose(found["gradient lower bound"], [(whole[2] ** 2).sum() / F.max()])


def test_bend_drift_and_kernel(subject):
    W = moved(subject, 0.3)
    J, J0 = jacobian(subject, W), jacobian(subject, subject.weights)
    change = flat(W, subject) - flat(subject.weights, subject)
    outputs = [np.array([by_hand(subject, weights, x)[3] for x in subject.X]) for weights in (W, subject.weights)]
    np.testing.assert_allclose(smoothness.bend(subject, W), outputs[0] - outputs[1] - J0 @ change, atol=1e-12)
    drift, kernel = Start(subject, 1).changes(W)
    a, b = J[:, 1], J0[:, 1]
    lengths = np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(drift, np.linalg.norm(a - b, axis=1) / lengths, rtol=1e-9)
    np.testing.assert_allclose(kernel, (np.abs(a @ a.T - b @ b.T) / np.outer(lengths, lengths)).max(axis=1), rtol=1e-9)
    flat_J = J.reshape(8, -1)
    np.testing.assert_allclose(own_kernel(subject, W), flat_J @ flat_J.T, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("net", "inputs", "by_layers"),
    [(Residual(width=5, depth=3, outputs=2, c=0.3), 3, True), (Convolutional(2, 3, (3, 3), outputs=2), 9, False)],
)
def test_own_kernel_by_layers_and_row_by_row(net, inputs, by_layers):
    subject = subject_of(net, unit_rows(3, inputs))
    assert (kernel_by_layers(subject, subject.weights) is not None) == by_layers
    K = own_kernel(subject, subject.weights)
    eye, h = np.eye(6), 1e-6
    rows = []
    for unit in eye:  # derivatives of one output by differences of the output along its own gradient
        slope = subject.inside.gradient(subject.weights, of_output(unit.reshape(3, 2)))
        ahead, back = (subject.inside.trace(added(subject.weights, slope, s)).output for s in (h, -h))
        rows.append(((ahead - back) / (2 * h)).ravel())
    np.testing.assert_allclose(K, rows, rtol=1e-6, atol=1e-7)


QUANTITIES = {
    "h": (lambda s, w: forward.movements(s, w, 0)["forward stability"].max() ** 2 / 2,
          forward.towards_movement),
    "carried": (lambda s, w: forward.signs_measured(s, w, 0)["signal of changed units"].max() ** 2 / 2,
                forward.towards_carried),
    "product": (lambda s, w: backward.product_norms(s, w, 0)["intermediate stability"].max() ** 2 / 2,
                backward.towards_long_product),
    "back": (lambda s, w: backward.longest_change(s, w, 0).max(), backward.towards_change),
    "gradient": (lambda s, w: gradients.gradient_ratio(s, w, 0)[0], gradients.towards_large_gradient),
    "sample": (lambda s, w: gradients.sample_ratio(s, w, 0).max(), gradients.towards_large_sample),
    "last": (lambda s, w: gradients.last_ratio(s, w, 0)[0], gradients.towards_large_last),
    "bend": (lambda s, w: np.abs(smoothness.bend(s, w)).max(), smoothness.towards_bend),
    "drift": (lambda s, w: Start(s, 0).changes(w)[0].max() ** 2 / 2 * _length(s, w),
              lambda s, w: Start(s, 0).towards_drift(w)),
}  # fmt: skip


def _length(subject, weights):
    """‖∇y⁰‖² of the sample that drifts most: the slope is of the drift itself, not of its share."""
    start = Start(subject, 0)
    return np.diag(start.kernel)[start.changes(weights)[0].argmax()]


@pytest.mark.parametrize("name", QUANTITIES)
def test_slopes_are_derivatives(subject, name, monkeypatch):
    monkeypatch.setattr(gradients, "SECANT", 1e-5)
    monkeypatch.setattr("overparam.audits.convergence_11_smoothness.SECANT", 1e-5)
    value, slope = QUANTITIES[name]
    W = moved(subject, 0.3, seed=6)
    direction = {name: np.random.default_rng(7).standard_normal(v.shape) for name, v in W.items()}
    found = sum(float(np.vdot(G, direction[name])) for name, G in slope(subject, W).items())
    h = 1e-6
    ahead, back = (value(subject, added(W, direction, s)) for s in (h, -h))
    assert abs(found) > 1e-6
    np.testing.assert_allclose(found, (ahead - back) / (2 * h), rtol=2e-4)


def test_the_remainder_is_exactly_quadratic_while_no_sign_flips():
    """One trained layer and held signs: the outputs are linear in it, so the remainder is ½ Σ ‖J W′‖²."""
    subject = subject_of(FullyConnected(width=8, depth=2, outputs=2), unit_rows(4, 3))
    step = {name: 1e-3 * W for name, W in subject.perturbation("random", 1.0).items()}
    moved_to = subject.moved(step)
    assert max(forward.signs_measured(subject, moved_to, 1e-3)["sign changes"]) == 0
    J = jacobian(subject, subject.weights)
    expected = 0.5 * ((J @ flat(step, subject)) ** 2).sum()
    np.testing.assert_allclose(Bases(subject, away=False).remainder(step, 1e-3), expected, rtol=1e-7)
    assert np.abs(smoothness.bend(subject, moved_to)).max() < 1e-14


def test_the_bend_is_quadratic_and_cubic_while_no_sign_flips():
    """Two trained layers, held signs: the outputs are bilinear, so the bend of 2W′ is four times that of W′."""
    subject = subject_of(FullyConnected(width=8, depth=3, outputs=2), unit_rows(4, 3))
    step = subject.perturbation("random", 1e-4)
    twice = subject.moved(step, 2.0)
    assert max(forward.signs_measured(subject, twice, 1e-3)["sign changes"]) == 0
    once = smoothness.bend(subject, subject.moved(step))
    np.testing.assert_allclose(smoothness.bend(subject, twice), 4 * once, rtol=1e-4, atol=1e-13)


def test_fitted_constants_of_noisy_terms():
    rng = np.random.default_rng(0)
    terms = np.column_stack([np.geomspace(1e-4, 1, 40), np.geomspace(1e-6, 10, 40)])
    values = (terms @ [0.3, 2.0]) * np.exp(0.05 * rng.standard_normal(40))
    c1, c2 = fitted_constants(terms, values)
    assert abs(c1 / 0.3 - 1) < 0.1
    assert abs(c2 / 2.0 - 1) < 0.1
    assert fitted_constants(terms, -values) == (0.0, 0.0)
