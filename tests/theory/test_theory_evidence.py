"""The evidence against scikit-learn's and finite differences; by probes within their standard errors; fits that scikit-learn does not beat."""

import functools

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import overparam as op
from overparam.theory import evidence, fit_evidence

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
Y = np.sin(2 * X[:, 0]) + 0.2 * RNG.standard_normal(40)
SQUARES = ((X[:, None] - X[None]) ** 2).sum(-1)


def theirs(scale, bandwidth, noise):
    return ConstantKernel(scale) * RBF(bandwidth) + WhiteKernel(noise)


def ours(scale, bandwidth, noise, y=Y, **options):
    H = scale * np.exp(-SQUARES / (2 * bandwidth**2))
    return evidence(H, y, noise, derivatives={"scale": H / scale, "bandwidth": H * SQUARES / bandwidth**3}, **options)


@pytest.mark.parametrize("values", [(1.7, 1.3, 0.05), (0.4, 0.5, 1.0)])
def test_value_and_gradient_are_those_of_scikit_learn(values):
    fixed = GaussianProcessRegressor(theirs(*values), alpha=1e-18, optimizer=None).fit(X, Y)
    value, slope = fixed.log_marginal_likelihood(fixed.kernel_.theta, eval_gradient=True)
    found = ours(*values)
    by_logs = [found.gradient[name] * at for name, at in zip(("scale", "bandwidth", "ridge"), values, strict=True)]
    assert found.value == pytest.approx(value, rel=1e-10)
    assert np.allclose(by_logs, slope, rtol=1e-8, atol=1e-9)
    assert (found.method, found.error) == ("Cholesky", 0.0)
    twice = ours(*values, y=np.column_stack([Y, Y[::-1]]))
    assert twice.value == pytest.approx(found.value + ours(*values, y=Y[::-1]).value, rel=1e-12)


def test_by_probes_it_is_within_its_standard_errors():
    """Over 30 keys: means within 4 errors of the mean, and errors of the size of what they estimate."""
    exact = ours(1.7, 1.3, 0.05)
    draws = [ours(1.7, 1.3, 0.05, method="Lanczos", probes=8, key=key) for key in range(30)]
    for of in (
        lambda e: (e.value, e.error),
        *(lambda e, n=n: (e.gradient[n], e.gradient_error[n]) for n in exact.gradient),
    ):
        values, errors = np.array([of(draw) for draw in draws]).T
        assert abs(values.mean() - of(exact)[0]) < 4 * values.std(ddof=1) / 30**0.5
        assert 0.5 < np.sqrt(np.mean(errors**2)) / values.std(ddof=1) < 2  # 29 degrees of freedom: ±13%
    assert draws[0].fit == pytest.approx(exact.fit, rel=1e-6)


def test_a_fit_is_where_scikit_learn_ends():
    begun = GaussianProcessRegressor(theirs(1.0, 1.0, 0.1), n_restarts_optimizer=0).fit(X, Y)
    fitted = fit_evidence(op.kernels.Gaussian, X, Y, {"bandwidth": 1.0}, ridge=0.1)
    assert fitted.converged
    assert fitted.evidence.value == pytest.approx(begun.log_marginal_likelihood_value_, abs=1e-4)
    assert fitted.evidence.value > fitted.before.value + 1
    found = np.log([fitted.scale, fitted.parameters["bandwidth"], fitted.ridge])
    assert np.allclose(found, begun.kernel_.theta, rtol=0, atol=0.02)


def test_a_networks_weights_are_fitted_by_right_derivatives():
    make = functools.partial(op.kernels.FullyConnected, depth=2, activation="erf")
    fitted = fit_evidence(make, X, Y, {"W_std": 1.0, "b_std": 0.5}, most=3)
    assert fitted.evidence.value > fitted.before.value
    assert fitted.kernel.W_std == pytest.approx(fitted.parameters["W_std"])

    def value(**parameters):
        return evidence(fitted.scale * make(**parameters)(X, get="nngp"), Y, fitted.ridge).value

    for name, at in fitted.parameters.items():
        h = 1e-5
        up, down = (value(**(fitted.parameters | {name: at + side * h})) for side in (1, -1))
        assert fitted.evidence.gradient[name] == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-4)


def test_what_cannot_be_is_one_line():
    with pytest.raises(ValueError, match="positive definite"):
        evidence(np.ones((3, 3)), [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="positive definite"):
        evidence(np.diag([1.0, 0.0, 2.0]), [1.0, 2.0, 3.0], method="Lanczos")
    with pytest.raises(ValueError, match=r"the derivative 'a' has shape \(2, 2\)"):
        evidence(np.eye(3), np.ones(3), derivatives={"a": np.eye(2)})
    with pytest.raises(ValueError, match="`b_std` is 0"):
        fit_evidence(op.kernels.FullyConnected, X, Y, {"b_std": 0.0})
