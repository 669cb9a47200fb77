"""What is foretold of a run, against the eigenvalues of the kernel written out."""

import jax
import numpy as np
import pytest

from overparam.analysis.run_forecast import begin, foretell, limit_law, own_law
from overparam.core.progress import silent
from overparam.data import load
from overparam.kernels import TwoLayer as Kernel
from overparam.networks import TwoLayer
from overparam.training import SGD

N, D, M, KAPPA = 10, 4, 16, 0.5
STEPS = np.array([0, 1, 7, 50])


@pytest.fixture(scope="module")
def start():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N + 5, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    data = load({"X_train": X[:N], "y_train": y[:N], "X_test": X[N:], "y_test": y[N:]})
    network = TwoLayer(M, KAPPA)
    with jax.enable_x64(True):
        params = network.init(2, D)
    return begin(network, data, params, "float64", None)


def test_a_forecast_is_the_linear_dynamics_of_the_kernel(start):
    data, W, a = start.data, np.asarray(start.params.trained["W"]), np.asarray(start.params.fixed["a"])
    np.testing.assert_allclose(start.outputs, np.maximum(data.X @ W.T, 0) @ a / np.sqrt(M), atol=1e-14)
    law, why = limit_law(start, silent)
    own = own_law(start, silent)
    assert (law.source, own.source, why) == ("infinite width", "start", "")
    values, vectors = np.linalg.eigh(Kernel()(data.X))
    lr = 1 / values[-1]
    found = foretell(start, law, own, STEPS, lr, SGD(lr), key=0, progress=silent)

    projections = vectors.T @ start.residual
    left = (1 - lr * values[:, None]) ** STEPS
    # Rounding of the sweep, and what is divided by λ once more for the movement and twice for its square.
    rounding = 1e3 * np.finfo(float).eps * (projections**2).sum()
    np.testing.assert_allclose(found.values, 0.5 * projections**2 @ left**2, atol=rounding)
    moved = projections**2 / values @ (1 - left) ** 2
    np.testing.assert_allclose(found.movement[0] ** 2, moved, atol=rounding * values[-1] / values[0] ** 2)
    np.testing.assert_allclose(found.laziness, found.movement[0] / (np.sqrt(M) * KAPPA), rtol=1e-14)
    assert found.flips[0] == 0
    assert (np.diff(found.flips) > 0).all()

    on = (data.X @ W.T > 0).astype(float)
    values, vectors = np.linalg.eigh((data.X @ data.X.T) * (on @ on.T) / M)
    linearised = 0.5 * (vectors.T @ start.residual) ** 2 @ (1 - lr * values[:, None]) ** (2 * STEPS)
    np.testing.assert_allclose(found.linearised, linearised, atol=rounding)


def test_new_rows_are_foretold_by_the_kernel_between_them_and_the_old(start):
    data, test = start.data, start.data.test
    law, _ = limit_law(start, silent)
    found = foretell(start, law, None, STEPS, 0.2, SGD(0.2), key=0, progress=silent)
    H, across = Kernel()(data.X), Kernel()(test.X, data.X)
    outputs, u = start.new_outputs, start.outputs
    for step in range(STEPS[-1] + 1):  # u(s + 1) = u(s) − ηH(u(s) − y), row by row
        if step in STEPS:
            place = list(STEPS).index(step)
            assert found.test_loss[place] == pytest.approx(0.5 * np.mean((test.y - outputs) ** 2), rel=1e-6)
            assert found.test_error[place] == np.mean(outputs * test.y <= 0)
        outputs, u = outputs - 0.2 * across @ (u - data.y), u - 0.2 * H @ (u - data.y)
    assert found.linearised is None
