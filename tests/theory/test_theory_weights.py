"""Weights, a given ridge, stopped gradient descent and deviations of the tuned fit, against scikit-learn and plain loops."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge

from overparam.kernels import Gaussian, Laplace
from overparam.theory import error_interval, tuned_fit, tuning
from overparam.theory.left_out_folds import cut_into_folds

RNG = np.random.default_rng(3)
N = 24
X = RNG.standard_normal((N, 3))
X[20:22] = X[4]  # equal rows of other labels
Z = RNG.standard_normal((5, 3))
COUNTS = RNG.integers(1, 5, N)
REPEATED = np.repeat(np.arange(N), COUNTS)
SIGNS = np.sign(X[:, 0] + 0.4 * RNG.standard_normal(N))
NUMBERS = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(N)
SEVERAL = np.column_stack([NUMBERS, X[:, 1] * X[:, 2]])
CLASSES = np.eye(3)[RNG.integers(0, 3, N)] - 1 / 3
KERNELS = {"Laplace": Laplace(2.0), "Gaussian": Gaussian(1.5)}
EPS = np.finfo(float).eps
targets = pytest.mark.parametrize("y", [SIGNS, CLASSES, NUMBERS, SEVERAL], ids=["two", "three", "number", "several"])


@targets
def test_a_weight_is_so_many_equal_rows_that_leave_together(y):
    weighted = tuned_fit(X, y, weights=COUNTS, candidates=KERNELS, ridge=0.03)
    repeated = tuned_fit(X[REPEATED], y[REPEATED], groups=REPEATED, candidates=KERNELS, ridge=0.03)
    close = {"rtol": 1e-9, "atol": 1e-9}  # 1e6 ε of the matrix over the ridge
    assert weighted.chosen == repeated.chosen
    np.testing.assert_allclose(weighted.mean_square, repeated.mean_square, **close)
    np.testing.assert_allclose(weighted.outputs[REPEATED], repeated.outputs, **close)
    np.testing.assert_allclose(weighted.predict(Z), repeated.predict(Z), **close)
    only = {"candidates": {weighted.chosen: KERNELS[weighted.chosen]}, "ridge": 0.03}
    sevens = tuned_fit(X, y, weights=COUNTS, groups=np.arange(N) % 7, **only)
    repeated_sevens = tuned_fit(X[REPEATED], y[REPEATED], groups=REPEATED % 7, **only)
    np.testing.assert_allclose(sevens.outputs[REPEATED], repeated_sevens.outputs, **close)
    if weighted.task == "classes":
        assert weighted.error == pytest.approx(repeated.error)
        assert weighted.sharpness == pytest.approx(repeated.sharpness, rel=0.2)  # one more row of every class a row


def test_weighted_rows_left_out_are_refits_by_scikit_learn():
    weights = RNG.uniform(0.2, 3.0, N)
    fit = tuned_fit(X, NUMBERS, weights=weights, candidates=KERNELS)
    shift = np.average(NUMBERS, weights=weights)
    spread = np.sqrt(np.average((NUMBERS - shift) ** 2, weights=weights))
    scaled = (NUMBERS - shift) / spread
    assert len(fit.tried) == 2 * 16
    for one, outputs in list(zip(fit.settings, fit.left_out, strict=True))[::5]:
        K = KERNELS[one.name](X)
        expected = np.empty(N)
        for i in range(N):
            kept = np.arange(N) != i
            model = KernelRidge(alpha=one.ridge, kernel="precomputed").fit(
                K[np.ix_(kept, kept)], scaled[kept], sample_weight=weights[kept]
            )
            expected[i] = model.predict(K[i : i + 1, kept])[0]
        allowed = 1e-9 + 100 * N * EPS * np.linalg.eigvalsh(K)[-1] * weights.max() / one.ridge
        np.testing.assert_allclose(outputs, expected * spread + shift, rtol=0, atol=allowed * 10)
        assert one.mean_square == pytest.approx(
            np.average((scaled - expected) ** 2, weights=weights), rel=1e-6 + allowed
        )


def test_the_size_of_all_weights_changes_nothing_but_the_ridge():
    weights = RNG.uniform(0.2, 3.0, N)
    one, other = (tuned_fit(X, SIGNS, weights=weights * scale, candidates=KERNELS) for scale in (1.0, 1e-3))
    assert other.ridge == pytest.approx(1e-3 * one.ridge)
    np.testing.assert_allclose(other.predict(Z), one.predict(Z), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(error_interval(other).upper, error_interval(one).upper, rtol=1e-9)


@pytest.mark.parametrize("measure", ["error", "mean_square"])
def test_intervals_count_weights_as_rows_of_a_group(measure):
    weighted = tuned_fit(X, SIGNS, weights=COUNTS, candidates=KERNELS, ridge=0.1)
    repeated = tuned_fit(X[REPEATED], SIGNS[REPEATED], groups=REPEATED, candidates=KERNELS, ridge=0.1)
    one, other = (error_interval(fit, measure=measure, draws=50) for fit in (weighted, repeated))
    assert one.value == pytest.approx(other.value, rel=1e-9)
    assert (one.lower, one.upper) == pytest.approx(
        (other.lower, other.upper), rel=0.1, abs=0.02
    )  # rows enter Wilson's form in other numbers


@targets
def test_steps_of_gradient_descent_are_those_of_a_loop(y):
    steps, groups = 7, np.arange(N) // 2
    weights = RNG.uniform(0.5, 2.0, N)
    fit = tuned_fit(
        X, y, weights=weights, groups=groups, candidates={"Laplace": KERNELS["Laplace"]}, steps=steps, key=2
    )
    numbers = fit.task == "regression"
    shift = np.average(y, axis=0, weights=weights) if numbers else 0.0
    K, target = KERNELS["Laplace"](X), (y - shift).reshape(N, -1)
    lr = fit.settings[0].lr
    assert lr == pytest.approx(1 / np.linalg.eigvalsh(np.sqrt(weights)[:, None] * K * np.sqrt(weights))[-1])

    def descended(rows):
        c = np.zeros((len(rows), target.shape[1]))
        for _ in range(steps):
            c += lr * weights[rows, None] * (target[rows] - K[np.ix_(rows, rows)] @ c)
        return c

    every = np.arange(N)
    new = KERNELS["Laplace"](Z, X) @ descended(every)
    np.testing.assert_allclose(fit.predict(Z), new.reshape(5, *y.shape[1:]) + shift, rtol=1e-10, atol=1e-10)
    codes = np.zeros(N, dtype=int) if numbers else (y > 0).astype(int) if y.ndim == 1 else y.argmax(axis=1)
    for own, outputs in ((groups, fit.outputs), (every, fit.alone)):
        fold = cut_into_folds(own, codes, 5, key=2)
        for one in range(5):
            kept, held = every[fold != one], every[fold == one]
            expected = K[np.ix_(held, kept)] @ descended(kept)
            np.testing.assert_allclose(
                outputs[held], expected.reshape(-1, *y.shape[1:]) + shift, rtol=1e-10, atol=1e-10
            )


def test_of_several_numbers_of_steps_the_best_is_taken():
    fit = tuned_fit(X, SEVERAL, candidates=KERNELS, steps=(1, 5, 50, 5_000))
    alone = [tuned_fit(X, SEVERAL, candidates=KERNELS, steps=steps) for steps in (1, 5, 50, 5_000)]
    best = min(alone, key=lambda one: one.settings[0].mean_square)
    assert fit.settings[0] == best.settings[0]
    assert len(fit.tried) == 8
    np.testing.assert_allclose(fit.predict(Z), best.predict(Z), rtol=1e-12)


def test_deviations_are_those_of_scikit_learns_gaussian_process():
    weights = RNG.uniform(0.5, 2.0, N)
    fit = tuned_fit(X, SEVERAL, weights=weights, candidates={"Gaussian": Gaussian(1.5)}, ridge=0.2)
    model = GaussianProcessRegressor(RBF(1.5), alpha=0.2 / weights, optimizer=None)
    shift = np.average(SEVERAL, axis=0, weights=weights)
    spread = np.sqrt(np.average((SEVERAL - shift) ** 2, axis=0, weights=weights))
    scaled = (SEVERAL - shift) / spread
    left, open_ = np.empty((N, 2)), np.empty(N)
    for i in range(N):
        kept = np.any(X[i] != X, axis=1)
        model.set_params(alpha=0.2 / weights[kept]).fit(X[kept], scaled[kept])
        mean, deviation = model.predict(X[i : i + 1], return_std=True)
        left[i], open_[i] = scaled[i] - mean[0], deviation.ravel()[0] ** 2 + 0.2 / weights[i]
    size = np.average(left**2 / open_[:, None], axis=0, weights=weights)
    deviation = model.set_params(alpha=0.2 / weights).fit(X, scaled).predict(Z, return_std=True)[1].reshape(5, -1)[:, 0]
    expected = np.sqrt((deviation**2 + 0.2 / weights.mean())[:, None] * size) * spread
    np.testing.assert_allclose(fit.deviations(Z), expected, rtol=1e-8)


def test_new_targets_lie_within_two_deviations_as_often_as_they_should():
    def drawn(n):
        rows = RNG.uniform(-2, 2, (n, 2))
        return rows, np.sin(rows[:, 0]) + rows[:, 1] ** 2 / 3 + 0.3 * RNG.standard_normal(n)

    (rows, y), (new, told) = drawn(150), drawn(3_000)
    fit = tuned_fit(np.column_stack([rows, np.ones(150)]), y, candidates={"Gaussian": Gaussian(1.5)})
    new = np.column_stack([new, np.ones(3_000)])
    away = np.abs(told - fit.predict(new)) / fit.deviations(new)
    # 95.4% of a normal; four standard errors of 3,000 rows, and of the size of 150 residuals (6% of it, 1.2 points)
    assert abs(np.mean(away < 2) - 0.954) < 4 * np.sqrt(0.954 * 0.046 / 3_000) + 2 * 0.012


def test_many_weighted_rows_have_a_factor(monkeypatch):
    monkeypatch.setattr(tuning, "BY_PRODUCTS", N - 1)
    monkeypatch.setattr(tuning, "COMPARED_ON", 20)
    fit = tuned_fit(X, SIGNS, weights=COUNTS, candidates=KERNELS, device="cpu")
    assert fit.folds is None
    one = fit.settings[0]
    expected = KernelRidge(alpha=one.ridge, kernel="precomputed").fit(KERNELS[one.name](X), SIGNS, sample_weight=COUNTS)
    np.testing.assert_allclose(fit.predict(Z), expected.predict(KERNELS[one.name](Z, X)), rtol=1e-6, atol=1e-8)
    folds = [(np.arange(12), np.arange(12, N)), (np.arange(12, N), np.arange(12))]
    found = fit.over_folds(np.arange(N), folds)
    assert np.isfinite(found).all()
    gone = list(fit.without(np.arange(N), np.arange(N) // 8))
    K = KERNELS[one.name](X)
    kept, outputs = gone[0]
    assert np.array_equal(kept, np.arange(8, N))
    again = tuned_fit(X[8:], SIGNS[8:], weights=COUNTS[8:], candidates={one.name: KERNELS[one.name]}, ridge=one.ridge)
    np.testing.assert_allclose(outputs, again.outputs, rtol=1e-5, atol=1e-6 * np.abs(K).max())


def test_several_jobs_give_the_same_bits():
    one, other = (tuned_fit(X, SIGNS, candidates=KERNELS, jobs=jobs) for jobs in (None, 2))
    assert np.array_equal(one.left_out, other.left_out)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"weights": np.zeros(N)}, "leave out rows of weight 0"),
        ({"weights": np.ones(3)}, r"`weights` has shape \(3,\)"),
        ({"ridge": 0.0}, "`ridge` is 0"),
        ({"lr": 0.1}, "there are no `steps`"),
        ({"steps": 3, "ridge": 1.0}, "a ridge is given too"),
        ({"steps": 0}, "`steps` is 0"),
        ({"steps": 2, "lr": 10.0}, "diverges; use a smaller `lr`"),
    ],
)
def test_bad_input_is_said(given, said):
    with pytest.raises(ValueError, match=said):
        tuned_fit(X, SIGNS, candidates=KERNELS, **given)
    with pytest.raises(ValueError, match="deviations are of a fit with a ridge"):
        tuned_fit(X, SIGNS, candidates={"Laplace": Laplace(2.0)}, steps=2).deviations(Z)
