"""Layers held fixed: the same function and start, gradients in the other layers alone, and names that do not exist."""

import jax
import numpy as np
import pytest

from overparam.data import Dataset
from overparam.networks import Frozen, Given, Plain, ThreeLayerResNet
from overparam.training import sgd

X = np.random.default_rng(0).choice([-1.0, 1.0], (6, 4))
NET = ThreeLayerResNet(width=8, outputs=2)


def test_the_function_and_the_start_are_the_networks():
    held = Frozen(NET, ("W",))
    params, own = held.init(3, 4), NET.init(3, 4)
    assert (sorted(params.trained), sorted(params.fixed)) == (["V"], ["A", "W"])
    np.testing.assert_array_equal(held.apply(params, X), NET.apply(own, X))
    for a, b in zip(held.trace(params, X).activations, NET.trace(own, X).activations, strict=True):
        np.testing.assert_array_equal(a, b)
    again = held.thaw(params)
    assert jax.tree.structure(again) == jax.tree.structure(own)
    assert {held, Frozen(NET, ("W",)), Frozen(NET, ["W"])} == {held}  # one compiled program for equal ones


def test_training_moves_the_other_layers_as_it_would_and_these_not_at_all():
    y = np.stack([X[:, 0] * X[:, 1], X[:, 2]], axis=1)
    data = Dataset(X, y, labels=y, task="regression")
    one = {"lr": 0.1, "steps": 1, "batch": None, "loss": "mean", "key": 3, "measures": ()}
    whole, held = sgd(NET, data, **one), sgd(Frozen(NET, ("W",)), data, **one)
    np.testing.assert_allclose(held.params.trained["V"], whole.params.trained["V"], rtol=1e-12)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(held.params.fixed["W"], NET.init(3, 4).trained["W"])
    assert not np.array_equal(whole.params.trained["W"], held.params.fixed["W"])


@pytest.mark.parametrize(
    ("net", "layers", "said"),
    [
        (NET, "W", r"`layers` is 'W'; expected a tuple of names, such as \('W',\)"),
        (NET, ("U",), "`layers` has 'U'; the trained layers are W, V"),
        (Plain(4), ("W",), "`layers` names all of W; leave at least one to be trained"),
        (Given(lambda w, x: x @ w, np.ones(4)), ("w",), "Given has no layers by name"),
    ],
)
def test_layers_that_cannot_be_held_are_one_line(net, layers, said):
    with pytest.raises(ValueError, match=said) as caught:
        Frozen(net, layers).init(0, 4)
    assert "\n" not in str(caught.value)
