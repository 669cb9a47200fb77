"""Ridge regression on features: the numbers of the kernel φ(x)·φ(z), and scikit-learn's."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from overparam.kernels import Polynomial
from overparam.theory import linear_regression, tuned_regression


@pytest.mark.parametrize("outputs", [None, 3])
def test_it_is_the_regression_with_the_linear_kernel(outputs):
    rng = np.random.default_rng(0)
    Phi, Z = rng.standard_normal((40, 6)), rng.standard_normal((5, 6))
    y = np.tanh(Phi @ rng.standard_normal((6, outputs or 1))) + 0.3 * rng.standard_normal((40, outputs or 1))
    y = y[:, 0] if outputs is None else y
    mine, other = linear_regression(Phi, y, Z), tuned_regression(Polynomial(1), Phi, y, Z)
    assert mine.ridge == pytest.approx(other.ridge)
    assert mine.left_out == pytest.approx(other.left_out, rel=1e-9)
    np.testing.assert_allclose(mine.outputs, other.outputs, rtol=1e-8)
    np.testing.assert_allclose(mine.coefficients, other.coefficients, rtol=1e-6, atol=1e-9)
    theirs = Ridge(alpha=mine.ridge, fit_intercept=False)
    left_out = cross_val_predict(theirs, Phi, y, cv=LeaveOneOut())
    assert mine.left_out == pytest.approx(float(np.sum((y - left_out) ** 2) / 40), rel=1e-9)
    np.testing.assert_allclose(mine.outputs, theirs.fit(Phi, y).predict(Z), rtol=1e-8)


@pytest.mark.parametrize(
    ("features", "y", "new", "word"),
    [
        ([[0.0], [0.0]], [1.0, 2.0], [[1.0]], "all 0"),
        ([[1.0], [2.0]], [1.0, 2.0], [[1.0, 2.0]], "`new` has 2 features"),
        ([[1.0]], [1.0], [[1.0]], "at least 2 rows"),
    ],
)
def test_what_cannot_be_fitted_gets_one_line(features, y, new, word):
    with pytest.raises(ValueError, match=word) as caught:
        linear_regression(features, y, new)
    assert "\n" not in str(caught.value)


def test_classes_have_their_error_left_out():
    rng = np.random.default_rng(1)
    Phi = rng.standard_normal((30, 4))
    y = np.sign(Phi[:, 0] + rng.standard_normal(30))
    mine, other = linear_regression(Phi, y, Phi[:2]), tuned_regression(Polynomial(1), Phi, y, Phi[:2])
    assert mine.left_out_error is not None
    assert 0 < mine.left_out_error < 1
    assert mine.left_out_error == other.left_out_error
    guessed = cross_val_predict(Ridge(alpha=mine.ridge, fit_intercept=False), Phi, y, cv=LeaveOneOut())
    assert mine.left_out_error == np.mean(y * guessed <= 0)
