"""Cases at the edge of the theorems: planted near-parallel rows, labels that miss the top eigenvector, rates above the limit."""

import mpmath
import numpy as np
import pytest

import overparam as op
from overparam.spectrum.separation import separation_bound


def test_two_rows_at_any_angle() -> None:
    """λ_min of two unit rows is H_11 − |H_12|, known in closed form to 40 digits."""
    for exponent in (-1, -2, -3, -4, -5, -6, -7, -8):
        angle = 10.0**exponent
        X = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
        with mpmath.workdps(40):
            theta = mpmath.atan2(mpmath.mpf(float(X[1, 1])), mpmath.mpf(float(X[1, 0])))
            norm = mpmath.sqrt(mpmath.mpf(float(X[1, 0])) ** 2 + mpmath.mpf(float(X[1, 1])) ** 2)
            off = norm * mpmath.cos(theta) * (mpmath.pi - theta) / (2 * mpmath.pi)
            a, c = mpmath.mpf(1) / 2, norm**2 / 2
            true = float((a + c) / 2 - mpmath.sqrt(((a - c) / 2) ** 2 + off**2))
        bound = separation_bound(op.gram(op.kernels.TwoLayer(), X, device="cpu")).lower
        assert 0 <= bound <= true


def test_planted_near_pairs_never_lift_the_bound() -> None:
    rng = np.random.default_rng(8)
    for _ in range(8):
        n, d = int(rng.integers(3, 90)), int(rng.choice([3, 20, 300]))
        X = rng.standard_normal((n, d))
        for _ in range(int(rng.integers(1, 4))):
            i, j = rng.choice(n, 2, replace=False)
            X[i] = X[j] + 10 ** rng.uniform(-7, -1) * rng.standard_normal(d)
        X /= np.linalg.norm(X, axis=1)[:, None]
        H = op.gram(op.kernels.TwoLayer(), X, device="cpu")
        smallest = np.linalg.eigvalsh(H.dense())[0]
        assert separation_bound(H).lower <= smallest + 1e-14 * n


@pytest.mark.filterwarnings("error")
def test_labels_that_miss_the_top_eigenvector_at_an_unstable_rate() -> None:
    """Alternating signs on a circle: rounding alone brings λ_max in, and it grows."""
    angles = 2 * np.pi * np.arange(24) / 24
    X = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    y = np.where(np.arange(24) % 2 == 0, 1.0, -1.0)
    H = op.gram(op.kernels.TwoLayer(), X, device="cpu")
    q = op.quadrature(H, y)
    lr = 2.2 / np.linalg.eigvalsh(H.dense())[-1]
    u, steps, losses = np.zeros(24), [10, 300, 1000], []
    for step in range(1001):
        if step in steps:
            losses.append(0.5 * np.sum((y - u) ** 2))
        u = u + lr * (H.dense() @ (y - u))
    found = q.bracket(op.Loss(steps, lr))
    assert np.all(np.asarray(found.upper) >= np.array(losses))
    rate = op.max_learning_rate(q)
    assert rate.lower <= rate.value <= 1.2 * rate.lower  # the safe side, since the labels do not show the limit
    curve = op.predict_loss(q, steps, 4.2 / np.linalg.eigvalsh(H.dense())[-1], momentum=0.9)
    assert not np.any(curve.certified)


def test_a_rate_near_the_limit_keeps_its_value_finite() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 150))
    X /= np.linalg.norm(X, axis=1)[:, None]
    H = op.gram(op.kernels.TwoLayer(), X, device="cpu")
    y = rng.choice([-1.0, 1.0], 300)
    values, vectors = np.linalg.eigh(H.dense())
    lr, steps = 1.9 / values[-1], [10, 100, 1000, 10_000]
    exact = [0.5 * np.sum((1 - lr * values) ** (2 * s) * (vectors.T @ y) ** 2) for s in steps]
    curve = op.predict_loss(op.quadrature(H, y), steps, lr)
    assert np.all(np.isfinite(curve.values))
    assert np.all(np.diff(curve.values) <= 0)
    assert np.all(curve.lower <= np.array(exact) + 1e-12)


def test_a_vector_from_the_left() -> None:
    H = op.gram(op.kernels.TwoLayer(), np.eye(3))
    np.testing.assert_allclose(np.ones(3) @ H, H @ np.ones(3))


def test_a_data_set_where_numbers_belong() -> None:
    data = op.load("iris")
    with pytest.raises(ValueError, match=r"data\.X"):
        op.gram(op.kernels.TwoLayer(), data)
