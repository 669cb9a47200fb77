"""`nt.predict` against the matrix exponential of scipy, the house's posterior, and an explicit ODE."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import overparam.neural_tangents as nt
from overparam.neural_tangents import predict, stax
from overparam.theory import posterior

RNG = np.random.default_rng(0)
X, X_NEW, Y = RNG.standard_normal((5, 3)), RNG.standard_normal((2, 3)), RNG.standard_normal((5, 2))
F, F_NEW = RNG.standard_normal((5, 2)), RNG.standard_normal((2, 2))
KERNEL_FN = stax.serial(stax.Dense(1, 1.5, 0.3), stax.Erf(), stax.Dense(1, 1.5, 0.3))[2]


@pytest.fixture(scope="module")
def kernels():
    with jax.enable_x64(True):
        return jax.tree.map(
            np.asarray,
            (KERNEL_FN(X, None, ("nngp", "ntk")), KERNEL_FN(X_NEW, X, ("nngp", "ntk")), KERNEL_FN(X_NEW, None, "nngp")),
        )


@pytest.fixture(autouse=True)
def in_float64():
    with jax.enable_x64(True):
        yield


def exact(K, t, lr=1.0, size=Y.size):
    """e^{−Kηt/N} and A(K)."""
    left = expm(-K * lr * t / size)
    return left, np.linalg.solve(K, np.eye(len(K)) - left)


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_squares_are_the_matrix_exponential(kernels, absolute, compiled):
    dd, td, _ = kernels
    reg, lr = 0.01, 2.0
    K = dd.ntk + reg * (1 if absolute else np.trace(dd.ntk) / 5) * np.eye(5)
    fit = predict.gradient_descent_mse(jnp.array(dd.ntk), jnp.array(Y), lr, reg, absolute)
    fit = jax.jit(fit) if compiled else fit
    times = jnp.array([[0.0, 1.0, 30.0]])
    on_train, on_new = fit(times, F, F_NEW, td.ntk)
    assert on_train.shape == (1, 3, 5, 2)
    for place, t in enumerate(times[0]):
        left, A = exact(K, float(t), lr)
        assert np.allclose(on_train[0, place], Y + left @ (F - Y), rtol=0, atol=1e-12)
        assert np.allclose(on_new[0, place], F_NEW + td.ntk @ A @ (Y - F), rtol=0, atol=1e-12)
    assert np.allclose(fit(None, F, F_NEW, td.ntk)[1], F_NEW + td.ntk @ np.linalg.solve(K, Y - F), rtol=0, atol=1e-11)
    assert np.allclose(fit(jnp.inf, F, F_NEW, td.ntk)[1], fit(None, F, F_NEW, td.ntk)[1], rtol=0, atol=1e-10)
    assert np.array_equal(fit(None), Y)
    assert fit(1.0, None, F_NEW, td.ntk).shape == (2, 2)
    with pytest.raises(ValueError, match="without `k_test_train`"):
        fit(1.0, F, F_NEW)


def test_a_kernel_of_outputs_too():
    """Two axes for each axis of the outputs, or for the samples alone, or for none."""
    J = RNG.standard_normal((7, 2, 11))
    K = np.einsum("aip,bjp->abij", J, J)
    dd, td = K[:5, :5], K[5:, :5]
    flat = dd.transpose(0, 2, 1, 3).reshape(10, 10)
    left, A = exact(flat, 3.0)
    on_train, on_new = predict.gradient_descent_mse(jnp.array(dd), jnp.array(Y), trace_axes=())(
        3.0, F, F_NEW, jnp.array(td)
    )
    assert np.allclose(on_train.ravel(), Y.ravel() + left @ (F - Y).ravel(), rtol=0, atol=1e-11)
    moved = td.transpose(0, 2, 1, 3).reshape(4, 10) @ A @ (Y - F).ravel()
    assert np.allclose(on_new.ravel(), F_NEW.ravel() + moved, rtol=0, atol=1e-11)
    among = np.einsum("aip,ajp->ij", J[:5], J[:5]) / 5
    traced = predict.gradient_descent_mse(jnp.array(among), jnp.array(Y), trace_axes=(0,))(3.0, F)
    assert np.allclose(traced, Y + (F - Y) @ exact(among, 3.0)[0].T, rtol=0, atol=1e-11)


@pytest.mark.parametrize("momentum", [None, 0.8])
def test_any_loss_is_the_ode(kernels, momentum):
    dd, td, _ = kernels
    lr = 0.3
    labels = np.eye(2)[RNG.integers(0, 2, 5)]

    def loss(f, y):
        return -jnp.mean(jax.nn.log_softmax(f) * y)

    def gradient(f):
        p = np.exp(f) / np.exp(f).sum(1, keepdims=True)
        return (p - labels) / labels.size  # the mean over all numbers of cross-entropy

    both = np.vstack([dd.ntk, td.ntk])

    def slope(_, z):
        f, q = z[:14].reshape(7, 2), z[14:].reshape(7, 2)
        pull = -both @ gradient(f[:5])
        if momentum is None:
            return np.concatenate([pull.ravel(), 0 * q.ravel()])
        return np.concatenate([q.ravel(), (pull - (1 - momentum) / lr**0.5 * q).ravel()])

    times = np.array([0.0, 2.0, 40.0])
    unit = lr if momentum is None else lr**0.5
    start = np.concatenate([F.ravel(), F_NEW.ravel(), np.zeros(14)])
    theirs = solve_ivp(slope, (0, 40 * unit), start, t_eval=times * unit, rtol=1e-11, atol=1e-12, method="DOP853").y.T
    fit = predict.gradient_descent(loss, jnp.array(dd.ntk), jnp.array(labels), lr, momentum)
    on_train, on_new = jax.jit(fit)(jnp.array(times), F, F_NEW, jnp.array(td.ntk))
    assert np.allclose(on_train, theirs[:, :10].reshape(3, 5, 2), rtol=0, atol=1e-6)
    assert np.allclose(on_new, theirs[:, 10:14].reshape(3, 2, 2), rtol=0, atol=1e-6)
    if momentum is None:
        with pytest.raises(ValueError, match="pass `momentum`"):
            fit(1.0, predict.ODEState(F, None, F))
        return
    half = fit(15.0, predict.ODEState(F, F_NEW), None, jnp.array(td.ntk))
    whole = fit(25.0, half, None, jnp.array(td.ntk))
    assert np.allclose(whole.fx_test, on_new[2], rtol=0, atol=1e-6)
    assert np.allclose(whole.qx_train, theirs[2, 14:24].reshape(5, 2), rtol=0, atol=1e-6)


@pytest.mark.parametrize("get", ["nngp", "ntk"])
def test_ensembles_are_the_houses_posterior(kernels, get):
    dd, td, tt = kernels
    K, K_new = getattr(dd, get), getattr(td, get)
    other = {} if get == "nngp" else {"start": dd.nngp, "start_new": td.nngp}
    ridge = 0.01 * np.trace(K) / 5
    fit = predict.gradient_descent_mse_ensemble(KERNEL_FN, jnp.array(X), jnp.array(Y), diag_reg=0.01)
    for_ever, late = fit(None, X_NEW, get, compute_cov=True), fit(7.0, X_NEW, get, True)
    expected = posterior(K, Y, K_new, tt, ridge=ridge, **other)
    assert np.allclose(for_ever.mean, expected.mean, rtol=0, atol=1e-10)
    assert np.allclose(for_ever.covariance, expected.covariance, rtol=0, atol=1e-10)
    steps = 200_000
    expected = posterior(K, Y, K_new, tt, steps, 7.0 / Y.size / steps, ridge, **other)
    assert np.allclose(late.mean, expected.mean, rtol=0, atol=1e-4)
    assert np.allclose(late.covariance, expected.covariance, rtol=0, atol=1e-4)
    inferred = predict.gp_inference(dd, jnp.array(Y), 0.01)(get, td, tt)
    assert np.allclose(inferred.covariance, for_ever.covariance, rtol=0, atol=1e-12)
    left = exact(K + ridge * np.eye(5), 7.0)[0]
    on_train = fit(7.0, None, get, True)
    C = dd.nngp + (ridge * np.eye(5) if get == "nngp" else 0)
    assert np.allclose(on_train.mean, Y - left @ Y, rtol=0, atol=1e-11)
    assert np.allclose(on_train.covariance, left @ C @ left, rtol=0, atol=1e-11)
    assert np.array_equal(fit(None, None, get, True).covariance, np.zeros((5, 5)))


def test_what_was_asked_comes_back_by_name(kernels):
    dd, td, tt = kernels
    fit = predict.gradient_descent_mse_ensemble(KERNEL_FN, jnp.array(X), jnp.array(Y), diag_reg=1e-3)
    both = fit(jnp.array([1.0, 2.0]), X_NEW, ("NTK", "NNGP"), compute_cov=True)
    assert both._fields == ("ntk", "nngp")
    assert isinstance(both.ntk, predict.Gaussian)
    assert both.ntk.covariance.shape == (2, 2, 2)
    infer = predict.gp_inference(dd, jnp.array(Y), 1e-3)
    assert infer(None, td)._fields == ("nngp", "ntk")
    swapped = predict.gp_inference(dd.ntk, jnp.array(Y), 1e-3)("nngp", td.ntk, jnp.array(KERNEL_FN(X_NEW, None, "ntk")))
    assert np.allclose(
        infer("ntkgp", td, KERNEL_FN(X_NEW, None, ("nngp", "ntk"))).covariance, swapped.covariance, atol=1e-12
    )
    with pytest.raises(ValueError, match="make both"):
        predict.gp_inference(dd.ntk, jnp.array(Y))("ntk", td.ntk, tt)
    with pytest.raises(ValueError, match="`get`"):
        infer("other", td)
    with pytest.raises(ValueError, match="for the test points alone"):
        fit(None, X_NEW, "ntk", mask_constant=1.0)


def test_arguments_of_the_kernel_go_to_their_side():
    def kernel_fn(x1, x2, get, scale, params):
        rows, columns = (scale[0], scale[1]) if x2 is not None else (scale[0], scale[0])
        x2 = x1 if x2 is None else x2
        made = params * (x1 * rows[:, None]) @ (x2 * columns[:, None]).T
        return made if isinstance(get, str) else nt.empirical._Kernels(made, made)

    one, two = jnp.arange(1.0, 6.0), jnp.array([2.0, 7.0])
    fit = predict.gradient_descent_mse_ensemble(
        kernel_fn, jnp.array(X), jnp.array(Y), diag_reg=0.1, scale=(one, one), params=jnp.array(1.5)
    )
    found = fit(None, jnp.array(X_NEW), "nngp", True, scale=(two, two), params=jnp.array(1.5))
    scaled, scaled_new = X * np.arange(1.0, 6.0)[:, None], X_NEW * np.array([[2.0], [7.0]])
    K = 1.5 * scaled @ scaled.T
    expected = posterior(
        K, Y, 1.5 * scaled_new @ scaled.T, 1.5 * scaled_new @ scaled_new.T, ridge=0.1 * np.trace(K) / 5
    )
    assert np.allclose(found.mean, expected.mean, rtol=0, atol=1e-10)
    assert np.allclose(found.covariance, expected.covariance, rtol=0, atol=1e-9)


def test_it_works_in_float32_and_inside_transformations(kernels):
    dd, td, _ = kernels
    with jax.enable_x64(False):
        K, K_new, y = (jnp.array(each, jnp.float32) for each in (dd.ntk, td.ntk, Y))

        def outputs(s):
            return predict.gradient_descent_mse(s * K, y)(2.0, 0.0, 0.0, s * K_new)[1]

        found = jax.jit(jax.vmap(outputs))(jnp.array([1.0, 2.0]))
        assert found.dtype == jnp.float32
        assert np.allclose(found[1], 2 * td.ntk @ exact(2 * dd.ntk, 2.0)[1] @ Y, rtol=0, atol=1e-4)
        slope = jax.jit(jax.grad(lambda s: outputs(s)[0, 0]))(1.0)
        near = [1.01 * td.ntk @ exact(1.01 * dd.ntk, 2.0)[1] @ Y, 0.99 * td.ntk @ exact(0.99 * dd.ntk, 2.0)[1] @ Y]
        assert float(slope) == pytest.approx((near[0] - near[1])[0, 0] / 0.02, abs=1e-3)


def test_the_largest_rate():
    K = np.diag([1.0, 4.0])
    assert float(predict.max_learning_rate(jnp.array(K), 6, 0.5)) == pytest.approx(2 * 1.5 * 6 / 4, rel=1e-9)
    assert float(predict.max_learning_rate(jnp.array(K).reshape(1, 1, 2, 2))) == pytest.approx(1.0, rel=1e-9)
