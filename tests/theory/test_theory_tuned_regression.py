"""Tuned kernel regression against scikit-learn: leave-one-out by refits, its ridge, its outputs."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, LeaveOneOut

from overparam.kernels import FullyConnected, Gaussian, Laplace, TwoLayer
from overparam.spectrum import left_out
from overparam.theory import best_regression, tuned_regression

RNG = np.random.default_rng(3)
X, Z = RNG.standard_normal((24, 4)), RNG.standard_normal((7, 4))
ONE = np.sin(2 * X[:, 0]) + 0.2 * RNG.standard_normal(24)
SEVERAL = np.column_stack([ONE, X[:, 1] * X[:, 2]])
SIGNS = np.sign(X[:, 0] + 0.3 * RNG.standard_normal(24))
CLASSES = np.eye(3)[RNG.integers(3, size=24)] - 1 / 3
LABELS = {"one": ONE, "several": SEVERAL, "signs": SIGNS, "classes": CLASSES}


@pytest.fixture(params=["eigen", "factor"])
def way(request, monkeypatch):
    monkeypatch.setattr(left_out, "EIGEN_FITS", 2_500 if request.param == "eigen" else 0)
    return "cpu"


@pytest.mark.parametrize(
    ("kind", "path"), [*((kind, path) for kind in LABELS for path in ("eigen", "factor")), ("several", "jax")]
)
def test_ridge_score_and_outputs_are_those_of_scikit_learn(kind, path, monkeypatch):
    monkeypatch.setattr(left_out, "EIGEN_FITS", 2_500 if path == "eigen" else 0)
    y, way = LABELS[kind], "jax" if path == "jax" else "cpu"
    kernel = TwoLayer()
    found = tuned_regression(kernel, X, y, Z, ridges=[1e-3, 1e-2, 1e-1, 1.0, 10.0], device=way)
    grid = {"alpha": [ridge for ridge, _ in found.tried]}
    search = GridSearchCV(KernelRidge(kernel="precomputed"), grid, cv=LeaveOneOut(), scoring="neg_mean_squared_error")
    search.fit(kernel(X), y)
    assert found.ridge == search.best_params_["alpha"]
    outputs = 1 if y.ndim == 1 else y.shape[1]  # scikit-learn averages over outputs
    assert found.left_out == pytest.approx(-search.best_score_ * outputs, rel=1e-8)
    np.testing.assert_allclose([s for _, s in found.tried], -search.cv_results_["mean_test_score"] * outputs, rtol=1e-8)
    np.testing.assert_allclose(found.outputs, search.predict(kernel(Z, X)), rtol=1e-7, atol=1e-9)
    c = search.best_estimator_.dual_coef_
    assert found.squared_norm == pytest.approx(np.sum(c * (kernel(X) @ c)), rel=1e-7)
    assert (found.left_out_error is None) == (kind in ("one", "several"))
    assert found.at_end is None or found.ridge in (1e-3, 10.0)


def test_the_default_grid_finds_the_least_of_a_fine_search(way):
    """Half decades: no ridge in between is better by more than two per cent here."""
    found = tuned_regression(Gaussian(1.0), X, ONE, Z, device=way)
    fine = np.geomspace(found.tried[0][0], found.tried[-1][0], 150)
    best = tuned_regression(Gaussian(1.0), X, ONE, Z, ridges=fine, device="cpu")
    assert best.left_out <= found.left_out * (1 + 1e-9)
    assert found.left_out <= 1.02 * best.left_out
    assert found.at_end is None
    ridges = np.array([ridge for ridge, _ in found.tried])
    assert np.all(np.diff(ridges) > 0)
    assert ridges[0] < 1e-7
    assert ridges[-1] > 24


def test_gaussian_kernel_is_scikit_learns(way):
    found = tuned_regression(Gaussian(0.7), X, ONE, Z, ridges=[0.1], device=way)
    model = KernelRidge(kernel=RBF(0.7), alpha=0.1).fit(X, ONE)
    np.testing.assert_allclose(found.outputs, model.predict(Z), rtol=1e-6, atol=1e-9)
    assert found.at_end is None  # one ridge has no ends


def test_an_end_of_the_grid_is_told(way):
    noise = np.random.default_rng(0).choice([-1.0, 1.0], size=24)
    learned = tuned_regression(Laplace(1.0), X, X @ np.ones(4), X, device=way)
    assert learned.at_end in (None, "smallest")
    shuffled = tuned_regression(
        FullyConnected(depth=2), np.vstack([X, X + 1e-3]), np.append(noise, -noise), Z, device=way
    )
    assert shuffled.at_end == "largest"
    assert np.abs(shuffled.outputs).max() < 0.05


def test_the_best_kernel_has_the_least_leave_one_out(way):
    y = X @ np.array([1.0, -2.0, 0.5, 0.0])
    kernels = {"deep": FullyConnected(depth=3), "conjugate": (FullyConnected(depth=1), "nngp"), "laplace": Laplace(0.1)}
    found = best_regression(kernels, X, y, Z, device=way)
    assert found.best is found.all[found.name]
    assert found.best.left_out == min(one.left_out for one in found.all.values())
    assert found.all["conjugate"].get == "nngp"
    one = tuned_regression(FullyConnected(depth=1), X, y, Z, get="nngp", device=way)
    np.testing.assert_allclose(one.outputs, found.all["conjugate"].outputs)
    by_error = best_regression(kernels, X, SIGNS, Z, by="error", device=way)
    assert by_error.best.left_out_error == min(one.left_out_error for one in by_error.all.values())


def test_new_rows_play_no_part_in_the_choice():
    few, many = (tuned_regression(TwoLayer(), X, SEVERAL, rows) for rows in (Z[:1], np.vstack([Z, 5 * Z])))
    assert (few.ridge, few.left_out) == (many.ridge, many.left_out)
    np.testing.assert_allclose(few.outputs, many.outputs[:1])


def test_progress_rises_to_one():
    told = []
    best_regression(
        {"a": TwoLayer(), "b": Laplace(1.0)}, X, ONE, Z, progress=lambda done, total, what: told.append(done)
    )
    assert np.all(np.diff(told) >= 0)
    assert told[-1] == 1.0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kernel": "ntk"}, "`kernel`"),
        ({"X": np.full((24, 4), np.nan)}, "`X` has 96 NaN"),
        ({"Z": Z[:, :2]}, "`Z` has samples of shape"),
        ({"y": ONE[:-1]}, "`y` has shape"),
        ({"X": X[:1], "y": ONE[:1]}, "at least 2 rows"),
        ({"ridges": []}, "`ridges`"),
        ({"ridges": 0.1}, "`ridges`"),
        ({"ridges": [-1.0]}, "`ridges`"),
        ({"ridges": "auto"}, "`ridges`"),
        ({"device": "tpu7"}, "`device`"),
    ],
)
def test_wrong_input_gets_one_line(change, said):
    given = {"kernel": TwoLayer(), "X": X, "y": ONE, "Z": Z, **change}
    with pytest.raises(ValueError, match=said) as caught:
        tuned_regression(given.pop("kernel"), given.pop("X"), given.pop("y"), given.pop("Z"), **given)
    assert "\n" not in str(caught.value)


def test_ridges_that_cannot_be_inverted_are_passed_over(way):
    rows, y = np.vstack([X, X[:4]]), np.append(ONE, ONE[:4] + 1.0)
    found = tuned_regression(TwoLayer(), rows, y, Z, ridges=[0.0, 0.1], device=way)
    assert [ridge for ridge, _ in found.tried] == [0.1]
    with pytest.raises(ValueError, match="not positive definite"):
        tuned_regression(TwoLayer(), rows, y, Z, ridges=[0.0], device=way)


def test_the_best_of_nothing_and_the_error_of_numbers_get_one_line():
    with pytest.raises(ValueError, match="`kernels` is empty"):
        best_regression({}, X, ONE, Z)
    with pytest.raises(ValueError, match="no classes"):
        best_regression({"a": TwoLayer()}, X, ONE, Z, by="error")
