"""Finite networks as estimators: the training of a plain loop, the theory's predictions, where they stop, and folders."""

import numpy as np
import pytest

import overparam as op
from overparam.core.network import Params
from overparam.estimators.network_models import STEPS

RNG = np.random.default_rng(4)
N = 40
X = RNG.standard_normal((N, 3))
LABELS = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
NUMBERS = 50 + 9 * np.sin(2 * X[:, 0]) + RNG.standard_normal(N)
NEW = RNG.standard_normal((7, 3))


def test_it_is_gradient_descent_on_the_first_layer():
    model = op.WideNetRegressor(width=32, steps=20, lr=0.05, random_state=3).fit(X, NUMBERS)
    start: Params = op.networks.TwoLayer(32, 1.0, paired=True).init(model._seed, 7)
    W, a = np.array(start.trained["W"], dtype=np.float64), np.array(start.fixed["a"], dtype=np.float64)
    rows, y = model.columns_.rows(X), (NUMBERS - NUMBERS.mean()) / NUMBERS.std()
    for _ in range(20):
        active = rows @ W.T > 0
        away = (np.maximum(rows @ W.T, 0) @ a) / np.sqrt(32) - y
        W = W - 0.05 * ((away[:, None] * active * a).T @ rows) / np.sqrt(32)
    expected = (np.maximum(model.columns_.rows(NEW) @ W.T, 0) @ a) / np.sqrt(32) * NUMBERS.std() + NUMBERS.mean()
    np.testing.assert_allclose(model.predict(NEW), expected, rtol=1e-9)
    np.testing.assert_allclose(model.weights_["0.W"], W, rtol=1e-8, atol=1e-10)


def test_wide_ones_predict_what_the_theory_predicts():
    away = []
    for width in (64, 4_096):
        model = op.WideNetRegressor(width=width, steps=30).fit(X, NUMBERS)
        limit = model.fit_.predict(model.columns_.rows(NEW))
        away.append(np.sqrt(np.mean((model.predict(NEW) - limit) ** 2)) / NUMBERS.std())
    assert away[1] < 0.1 < model.score(X, NUMBERS)
    assert away[1] < away[0] / 2  # 1/√64 in theory


def test_width_rate_and_steps_are_those_of_the_theory():
    model = op.WideNetClassifier(width="auto").fit(X, LABELS)
    H = op.kernels.TwoLayer()(model.columns_.rows(X))
    assert model.lr_ == pytest.approx(1 / np.linalg.eigvalsh(H)[-1])
    assert model.steps_ in STEPS
    assert model.steps_ == min(model.fit_.settings, key=lambda one: one.mean_square).steps
    c = model.fit_.coefficients[:, 0]
    assert model.laziness_ == pytest.approx(np.sqrt(c @ H @ c / model.width_))
    assert model.width_ in (256, 4_096) or model.laziness_ == pytest.approx(0.1, rel=0.01)
    chances = model.predict_proba(NEW)
    assert np.array_equal(model.classes_[chances.argmax(axis=1)], model.predict(NEW))
    assert 0 <= model.loo_error_.lower < model.loo_error_.upper <= 1


def test_held_rows_stop_it_and_folders_give_it_back(tmp_path):
    three = np.digitize(X[:, 0], [-0.5, 0.5])
    model = op.WideNetClassifier(width=64, steps="held-out").fit(X, three)
    assert model.steps_ in STEPS
    place = model.save(tmp_path / "network")
    again = op.read(place).estimator
    assert np.array_equal(again.predict_proba(NEW), model.predict_proba(NEW))
    assert again.learned_ == model.learned_
    assert np.mean(model.predict(X) == three) > 0.8


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": "early"}, "`steps` is 'early'"),
        ({"width": 1}, "`width` is 1"),
        ({"lr": "fast"}, "`lr` is 'fast'"),
        ({"lr": 1e6, "steps": 200}, "use a smaller `lr`"),
    ],
)
def test_bad_options_are_one_line(options, said):
    with pytest.raises(ValueError, match=said) as caught:
        op.WideNetClassifier(**{"width": 16, **options}).fit(X, LABELS)
    assert "\n" not in str(caught.value)
