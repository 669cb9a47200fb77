"""Brackets of loss, flow, movement and steps on random spectra: few products, clusters, wide ranges, loose bounds."""

import numpy as np
import pytest

from overparam.spectrum import EigenvalueBounds, quadrature
from overparam.theory import predict_loss, predict_loss_flow, predict_movement, steps_to_loss

STEPS = np.array([0, 1, 2, 5, 13, 100, 10_000, 10_000_000])
TIMES = np.array([0.0, 0.1, 1.0, 10.0, 1000.0])


def spectrum(random):
    n = int(random.integers(3, 40))
    kinds = (
        lambda: random.uniform(0.001, 1, n),
        lambda: 10.0 ** random.uniform(-6, 1, n),
        lambda: np.repeat(random.uniform(0.1, 1, (n + 2) // 3), 3)[:n],
        lambda: random.exponential(1, n) ** 3 + 1e-9,
    )
    lam = kinds[int(random.integers(4))]()
    w = random.standard_normal(n) * (random.random(n) < 0.8)
    w[0] = 1.0
    Q = np.linalg.qr(random.standard_normal((n, n)))[0]
    H = (Q * lam) @ Q.T
    bounds = EigenvalueBounds(
        lam.min() * random.choice([0.999, 0.5, 0.0]), lam.max() * random.choice([1.0001, 1.3]), "given", "given"
    )
    return lam, w**2, quadrature((H + H.T) / 2, Q @ w, max_products=int(random.integers(1, 8)), bounds=bounds)


def inside(curve, exact, slack):
    return np.all(curve.lower <= exact + slack) and np.all(exact <= curve.upper + slack)


@pytest.mark.parametrize("seed", range(6))
def test_every_bracket_holds_on_random_spectra(seed):
    random = np.random.default_rng(seed)
    for _ in range(40):
        lam, weights, q = spectrum(random)
        b, initial = q.bounds.upper, 0.5 * weights.sum()
        flow = np.array([0.5 * np.sum(weights * np.exp(-2 * lam * t)) for t in TIMES])
        assert inside(predict_loss_flow(q, TIMES), flow, 1e-12 * initial)
        lr = random.choice([0.1, 0.7, 1.0]) / b
        shrunk = [-np.expm1(s * np.log1p(-lr * lam)) for s in STEPS]
        movement = np.sqrt([np.sum(weights * share**2 / lam) for share in shrunk])
        curve = predict_movement(q, STEPS, lr)
        assert np.all(curve.certified)
        assert inside(curve, movement, 1e-9 * movement.max())
        for share in (0.5, 1.7):
            lr = share / b
            ratio = np.abs(1 - lr * lam)
            loss = np.array([0.5 * np.sum(weights * ratio ** (2.0 * s)) for s in STEPS])
            assert inside(predict_loss(q, STEPS, lr), loss, 1e-12 * initial)
            found = steps_to_loss(q, 0.05, lr)
            if found.upper is not None:
                assert 0.5 * np.sum(weights * ratio ** (2.0 * found.upper)) <= 0.05 * initial * (1 + 1e-9)
            if found.lower:
                assert 0.5 * np.sum(weights * ratio ** (2.0 * (found.lower - 1))) > 0.05 * initial * (1 - 1e-9)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_unstable_rates_never_print_a_number_past_meaning(momentum):
    random = np.random.default_rng(9)
    for _ in range(40):
        lam, weights, q = spectrum(random)
        curve = predict_loss(q, STEPS, 5 / lam.max(), momentum=momentum)
        assert curve.status in ("unstable", "undecided")
        finite = np.isfinite(curve.values)
        assert np.all(np.asarray(curve.values)[finite] <= 1e3 * curve.initial)
        assert np.all(np.isfinite(curve.lower))
        assert not np.any(np.asarray(curve.certified)[~finite])
        assert not np.any(np.isnan(predict_movement(q, STEPS, 5 / lam.max()).values))
        assert weights.sum() > 0
