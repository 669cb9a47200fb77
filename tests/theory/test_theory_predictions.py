"""Predictions on new points against eigendecompositions and explicit gradient descent."""

import numpy as np
import pytest
from theory_cases import NAMES, case

import overparam as op
from overparam.engines import gram
from overparam.kernels import TwoLayer
from overparam.theory import dual_coefficients, predict
from overparam.theory.integrands import growth


def by_eigenpairs(c, K_new, r, function):
    with np.errstate(divide="ignore", invalid="ignore"):
        values = function(c.lam)
    return K_new @ (c.V @ (values[:, None] * (c.V.T @ r.reshape(c.n, -1)))).reshape(r.shape)


@pytest.mark.parametrize("name", NAMES)
def test_predictions_at_steps_and_at_the_end(name):
    c = case(name)
    H = gram(TwoLayer(), c.X, device="cpu")
    K_new = TwoLayer()(c.X_new, c.X)
    for share in (0.3, 0.97):
        lr = share * 2 / c.lam[-1]
        for steps in (0, 1, 10, 1000, 100_000):
            exact = by_eigenpairs(c, K_new, c.y, lambda x, s=steps, lr=lr: growth(x, s, lr))
            found = predict(H, c.y, K_new, steps, lr)
            assert found.status == "stable"
            assert np.max(np.abs(found.values - exact)) <= 1e-8 * np.abs(c.y).max()
    singular = c.lam[0] < 1e-10 * c.lam[-1]
    ridge = 0.1 * np.mean(np.diag(c.H)) if singular else 0.0
    exact = by_eigenpairs(c, K_new, c.y, lambda x: 1 / (x + ridge))
    assert np.max(np.abs(predict(H, c.y, K_new, ridge=ridge).values - exact)) <= 1e-8 * np.abs(c.y).max()


def test_growth_against_many_digits():
    import mpmath

    mpmath.mp.dps = 350
    for z in (0.0, 1e-300, 1e-18, 1e-9, 0.3, 1.0, 1.4, 1.999999):
        for steps in (0, 1, 2, 7, 1000, 10**9):
            x, eta = mpmath.mpf(z), mpmath.mpf(1)
            exact = eta * steps if x == 0 else (1 - (1 - eta * x) ** steps) / x
            found = float(growth(np.array([z]), steps, 1.0)[0])
            assert found == pytest.approx(float(exact), rel=1e-9 if steps > 1e6 else 1e-11, abs=1e-300)


def test_an_explicit_loop_with_outputs_before_training_and_ridge():
    c = case("ten rows")
    random = np.random.default_rng(1)
    K_new = TwoLayer()(c.X_new, c.X)
    u0, f0 = random.standard_normal(c.n), random.standard_normal(len(K_new))
    lr, ridge = 0.4 / c.lam[-1], 0.05
    coefficients = np.zeros(c.n)  # W − W(0) = Z(0) c, regularised by ½ ridge ‖W − W(0)‖²
    for _ in range(25):
        residual = c.y - (u0 + c.H @ coefficients)
        coefficients = coefficients + lr * (residual - ridge * coefficients)
    found = predict(c.H, c.y, K_new, 25, lr, ridge, initial=u0, initial_new=f0)
    assert np.allclose(found.values, f0 + K_new @ coefficients, rtol=1e-9, atol=1e-10)
    mean = predict(c.H, c.y, K_new, 25, lr * c.n, ridge, initial=u0, initial_new=f0, loss="mean")
    assert np.allclose(mean, found)


def test_at_the_training_rows_the_end_is_the_labels():
    c = case("digits")
    found = predict(c.H, c.y, c.H)
    assert np.allclose(found, c.y, atol=1e-8)
    assert found.certified
    assert found.method == "Cholesky"


def test_it_stands_for_its_array():
    found = predict(np.eye(3), [1.0, -2.0, 0.5], np.eye(3))
    assert (found - 1).tolist() == [0.0, -3.0, -0.5]
    assert (found > 0).tolist() == [True, False, True]
    assert np.abs(found).max() == 2
    assert len(found) == 3
    assert found.shape == (3,)
    assert found[1] == -2
    assert np.asarray(found).dtype == np.float64


def test_an_unstable_rate_is_said():
    c = case("digits")
    K_new = TwoLayer()(c.X_new, c.X)
    found = predict(c.H, c.y, K_new, 10_000, 5 / c.lam[-1])
    assert found.status == "unstable"
    assert np.all(np.isnan(found.values))
    assert found.assumptions[-1].status == "unmet"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"K_new": np.eye(3)}, "one column a training row"),
        ({"steps": 3}, "belong together"),
        ({"steps": -1, "lr": 0.1}, "whole number"),
        ({"ridge": -1.0}, "ridge"),
        ({"initial": [[1.0], [1.0]]}, "shape"),
        ({"initial_new": [[1.0], [1.0]]}, "initial_new"),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    given = {"K_new": np.eye(2), **arguments}
    with pytest.raises(ValueError, match=words):
        predict(np.eye(2), [1.0, 1.0], **given)


def test_coefficients_carry_how_they_were_found():
    found = dual_coefficients(np.diag([1.0, 2.0]), [1.0, 1.0], 2, 0.5)
    assert np.allclose(found.values, [0.75, 0.5])
    assert found.converged
    assert found.largest == pytest.approx(2.0)


def test_beyond_a_factor_predictions_come_from_conjugate_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same predictions, with their residual and bracket; on the CPU and on a device, where nothing is stored."""
    from overparam.theory import predictions

    rng = np.random.default_rng(4)
    X, new = rng.standard_normal((120, 5)), rng.standard_normal((7, 5))
    y = rng.standard_normal((120, 2))
    kernel = op.kernels.TwoLayer()
    K, ridge = kernel(new, X), 1e-2
    direct = op.predict(op.gram(kernel, X, device="cpu"), y, K, ridge=ridge)
    true = K @ np.linalg.solve(kernel(X) + ridge * np.eye(120), y)
    assert direct.method == "Cholesky"
    monkeypatch.setattr(predictions, "CHOLESKY_FITS", 100)
    for device in ("cpu", "jax"):
        found = op.predict(op.gram(kernel, X, "matrix_free", device=device), y, K, ridge=ridge)
        assert found.method == "conjugate gradients"
        assert found.certified
        assert found.products > 2
        # ‖K(x, X) A⁻¹ r‖ ≤ ‖K(x, X)‖ ‖r‖/ridge
        room = np.linalg.norm(K) * found.residual * np.linalg.norm(y) / ridge + direct.change * np.abs(true).max()
        assert np.abs(found - true).max() <= 2 * room
        assert np.abs(found - direct.values).max() <= 1e-8 * np.abs(true).max()
        for one, two in ((found, direct), (direct, found)):
            assert one.bracket.lower <= two.bracket.upper
    assert op.predict(op.gram(kernel, X, device="cpu"), y, K, steps=5, lr=1e-3).bracket is None
