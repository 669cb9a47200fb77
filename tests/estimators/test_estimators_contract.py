"""scikit-learn's contract: its own checks in full, pipelines, searches, copies, feature names, and the same bits again."""

import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_regression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import overparam as op

IRIS = load_iris(return_X_y=True)
MODELS = {
    "NTKClassifier": (op.NTKClassifier(kernel="laplace"), IRIS),
    "NTKRegressor": (op.NTKRegressor(kernel="laplace"), make_regression(60, 4, noise=3.0, random_state=0)),
}
NETWORKS = (op.WideNetClassifier(width=64, steps=30), op.WideNetRegressor(width=64, steps=30))
SOME = (
    "check_estimator_sparse_array",
    "check_estimators_nan_inf",
    "check_fit_idempotent",
    "check_estimators_unfitted",
    "check_n_features_in",
)
"""Of the networks, which are compiled anew for every number of rows; all of them are run with `-m slow`."""
CHECKS = [check for model, _ in MODELS.values() for check in estimator_checks_generator(clone(model))]
either = pytest.mark.parametrize("name", MODELS)


@pytest.mark.parametrize(
    ("model", "check"), CHECKS, ids=[f"{type(model).__name__}-{check.func.__name__}" for model, check in CHECKS]
)
@pytest.mark.filterwarnings("ignore")
def test_every_check_of_scikit_learn(model, check):
    check(model)


NETWORK_CHECKS = [
    pytest.param(model, check, id=f"{type(model).__name__}-{name}", marks=() if name in SOME else pytest.mark.slow)
    for network in NETWORKS
    for model, check in estimator_checks_generator(network)
    if (name := check.func.__name__)
]


@pytest.mark.parametrize(("model", "check"), NETWORK_CHECKS)
@pytest.mark.filterwarnings("ignore")
def test_every_check_of_scikit_learn_on_networks(model, check):
    check(model)


@either
def test_every_check_passes_with_all_kernels(name):
    checks = ("check_sample_weight_equivalence_on_dense_data", "check_fit_idempotent", "check_dtype_object")
    for model, check in estimator_checks_generator(getattr(op, name)()):
        if check.func.__name__ in checks:
            check(model)


@either
def test_pipelines_searches_and_clones(name):
    model, (X, y) = MODELS[name]
    search = GridSearchCV(
        make_pipeline(StandardScaler(), clone(model)), {f"{name.lower()}__ridge": ["auto", 1e-3, 1e3]}, cv=3
    )
    search.fit(X, y)
    assert search.best_params_[f"{name.lower()}__ridge"] != 1e3
    assert search.best_score_ > 0.9
    assert clone(model).get_params() == model.get_params()
    frame = pd.DataFrame(X, columns=list("abcd"))
    named = make_pipeline(StandardScaler(), clone(model)).set_output(transform="pandas").fit(frame, y)
    assert list(named[-1].feature_names_in_) == list("abcd")
    assert (
        np.mean(named.predict(frame) == make_pipeline(StandardScaler(), clone(model)).fit(frame, y).predict(frame)) == 1
    )
    assert cross_val_score(model, X, y, cv=3).mean() > 0.9


@either
def test_copies_predict_the_same_bits(name, tmp_path):
    model, (X, y) = MODELS[name]
    fitted = clone(model).fit(X, y)
    expected = fitted.predict(X)
    assert np.array_equal(clone(model).fit(X, y).predict(X), expected)
    assert np.array_equal(clone(model).set_params(n_jobs=2).fit(X, y).predict(X), expected)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), expected)
    joblib.dump(fitted, tmp_path / "model.joblib")
    assert np.array_equal(joblib.load(tmp_path / "model.joblib").predict(X), expected)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(
        clone(model).fit(X[order], y[order]).loo_error_.value, fitted.loo_error_.value, rtol=1e-6, atol=1e-6
    )


@either
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_feature_names_are_kept_and_checked(name, frame):
    model, (X, y) = MODELS[name]
    columns = {letter: X[:, i] for i, letter in enumerate("abcd")}
    fitted = clone(model).fit(frame(columns), y)
    assert list(fitted.feature_names_in_) == list("abcd")
    assert fitted.n_features_in_ == 4
    assert np.array_equal(fitted.predict(frame(columns)), clone(model).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame({letter: columns[letter] for letter in "bacd"}))


def test_nothing_is_imported_before_it_is_asked_for():
    import subprocess
    import sys

    code = "import sys, overparam as op; assert 'sklearn' not in sys.modules; op.NTKClassifier; assert 'sklearn' in sys.modules; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
