"""Losses against SciPy, scikit-learn and finite differences, on targets as a `Dataset` encodes them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import sklearn.metrics
from training_cases import in_order

from overparam.training import CrossEntropy, GivenLoss, Ramp, SmoothAbsolute, Squared
from overparam.training.losses import NAMED, as_loss, margins

RNG = np.random.default_rng(3)
K = 4
U, V = RNG.standard_normal((30, K)) * 3, RNG.standard_normal(30) * 3
CLASSES = np.r_[np.arange(K), RNG.integers(0, K, 26)]
HOT = in_order(RNG.standard_normal((30, 2)), CLASSES).y
SIGNS = in_order(RNG.standard_normal((30, 2)), np.where(V + RNG.standard_normal(30) > 0, 1, -1)).y
HUBER = GivenLoss(lambda u, y: jnp.where(abs(u - y) < 1, (u - y) ** 2 / 2, abs(u - y) - 0.5), kind="convex")


@partial(jax.jit, static_argnums=0)
def _each(loss, outputs, targets):
    return loss.each(outputs, targets)


@partial(jax.jit, static_argnums=0)
def _derivatives(loss, outputs, targets):
    def one(u, y):
        return loss.each(u[None], y[None])[0]

    return jax.vmap(jax.grad(one))(outputs, targets), jax.vmap(jax.hessian(one))(outputs, targets)


def each(loss, outputs, targets):
    with jax.enable_x64(True):
        return np.asarray(_each(loss, outputs, targets))


def derivatives(loss, outputs, targets):
    """The gradient and the Hessian of every sample's loss in its outputs."""
    with jax.enable_x64(True):
        gradients, curves = _derivatives(loss, outputs, targets)
    return np.asarray(gradients), np.asarray(curves)


def test_targets_of_a_dataset_name_their_class():
    np.testing.assert_array_equal(HOT.argmax(axis=1), CLASSES)
    np.testing.assert_allclose(HOT.max(axis=1), 1 - 1 / K)
    assert set(SIGNS) == {-1.0, 1.0}


def test_cross_entropy_of_several_classes():
    found = each(CrossEntropy(), U, HOT)
    chances = scipy.special.softmax(U, axis=1)
    assert found.mean() == pytest.approx(sklearn.metrics.log_loss(CLASSES, chances), rel=1e-13)
    np.testing.assert_allclose(found, -scipy.special.log_softmax(U, axis=1)[np.arange(30), CLASSES], rtol=1e-13)


def test_cross_entropy_of_two_classes():
    found = each(CrossEntropy(), V, SIGNS)
    chance = scipy.special.expit(V)
    assert found.mean() == pytest.approx(sklearn.metrics.log_loss(SIGNS > 0, chance), rel=1e-12)
    two = each(CrossEntropy(), np.column_stack([V, 0 * V]), np.column_stack([SIGNS, -SIGNS]) / 2)
    np.testing.assert_allclose(found, two, rtol=1e-13)  # one output is two with the other at 0


def test_cross_entropy_of_large_outputs_is_finite():
    assert each(CrossEntropy(), np.array([1e4, -1e4]), np.array([1.0, 1.0])).tolist() == [0.0, 1e4]
    assert each(CrossEntropy(), np.array([[1e4, 0.0]]), np.array([[-0.5, 0.5]])).tolist() == [1e4]


def test_huber_and_squared():
    np.testing.assert_allclose(each(HUBER, V, SIGNS), scipy.special.huber(1.0, V - SIGNS), rtol=1e-14)
    np.testing.assert_allclose(each(Squared(), U, HOT), ((U - HOT) ** 2).sum(axis=1) / 2, rtol=1e-14)
    assert 2 * each(Squared(), V, SIGNS).mean() == pytest.approx(sklearn.metrics.mean_squared_error(SIGNS, V))


def test_smooth_absolute_keeps_small_residuals():
    r = np.array([0.0, 1e-9, 0.3, 1e8])
    found = each(SmoothAbsolute(), r, 0 * r)
    np.testing.assert_allclose(found, [0, 5e-19, np.sqrt(1.09) - 1, 1e8], rtol=1e-8)


def test_ramp_is_above_the_error_and_bounded():
    for outputs, targets in ((V, SIGNS), (U, HOT)):
        found = each(Ramp(), outputs, targets)
        wrong = outputs * targets <= 0 if outputs.ndim == 1 else outputs.argmax(axis=1) != targets.argmax(axis=1)
        assert (found >= wrong).all()
        assert found.min() == 0
        assert found.max() == 1
    own = U[np.arange(30), CLASSES]
    others = np.where(np.arange(K) == CLASSES[:, None], -np.inf, U).max(axis=1)
    with jax.enable_x64(True):
        found = np.asarray(margins(jnp.asarray(U), jnp.asarray(HOT)))
    np.testing.assert_allclose(found, own - others, rtol=1e-12)


@pytest.mark.parametrize("loss", [*NAMED.values(), HUBER], ids=lambda loss: loss.name)
@pytest.mark.parametrize("several", [False, True])
def test_gradients_are_finite_differences_and_the_constants_hold(loss, several):
    if several and loss is HUBER:
        pytest.skip("of one output")
    outputs, targets = (U, HOT) if several else (V, SIGNS)

    def total(u):
        return each(loss, u, targets).sum()

    found, curves = derivatives(loss, outputs, targets)
    for place in ((0,), (7,), (29,)) if outputs.ndim == 1 else ((0, 1), (7, 3), (29, 0)):
        step = np.zeros_like(outputs)
        step[place] = 1e-5
        assert found[place] == pytest.approx((total(outputs + step) - total(outputs - step)) / 2e-5, abs=1e-8)
    values = each(loss, outputs, targets)
    sizes = (found.reshape(len(values), -1) ** 2).sum(axis=1)
    if loss.dominance is not None:
        assert (sizes >= 2 * loss.dominance * values * (1 - 1e-12)).all()
    if loss.smoothness is not None:
        largest = max(np.linalg.norm(np.atleast_2d(curve), 2) for curve in curves)
        assert largest <= loss.smoothness * (1 + 1e-12)
    if loss.kind == "bounded non-convex":
        assert values.max() <= 1


def test_smoothness_of_cross_entropy_is_tight():
    _, curves = derivatives(CrossEntropy(), np.zeros((1, 2)), np.array([[0.5, -0.5]]))
    assert np.linalg.norm(curves[0], 2) == pytest.approx(CrossEntropy().smoothness)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: as_loss("hinge"), "'hinge'; expected one of squared, cross-entropy, ramp, smooth-absolute"),
        (lambda: as_loss(lambda u, y: u), "wrapped in op.training.GivenLoss"),
        (lambda: GivenLoss(3), "`function` is 3"),
        (lambda: GivenLoss(abs, kind="concave"), "`kind` is 'concave'; expected one of gradient-dominant, convex"),
        (lambda: GivenLoss(abs, kind="gradient-dominant"), "needs `dominance`"),
        (
            lambda: each(GivenLoss(lambda u, y: (u - y) ** 2), U, HOT),
            r"shape \(4,\) for one sample; expected one number",
        ),
    ],
)
def test_a_wrong_loss_is_one_line(make, said):
    with pytest.raises(ValueError, match=said) as caught:
        make()
    assert "\n" not in str(caught.value)
