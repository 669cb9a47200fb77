"""Weights as vectors: kept on the device or as NumPy arrays, the numbers are the same, and float64 in both."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from overparam.audits import perturbations
from overparam.audits.perturbations import random_direction, spectral_norms, steepest, to_unit
from overparam.core.inside import DeviceWeights


def drawn(seed):
    rng = np.random.default_rng(seed)
    return {"A": rng.standard_normal((60, 70)), "W": rng.standard_normal((5, 4)), "b": rng.standard_normal(3)}


def placed(weights):
    with jax.enable_x64(True):
        return DeviceWeights({name: jnp.array(W) for name, W in weights.items()})


def same(found, expected):
    assert list(found) == list(expected)
    for name, W in expected.items():
        assert found[name].dtype == np.float64
        np.testing.assert_allclose(found[name], W, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "made",
    [
        lambda W, V: perturbations.added(W, V, 1 / 3),
        lambda W, V: perturbations.minus(W, V),
        lambda W, V: perturbations.scaled(1 / 3, W),
        lambda W, V: perturbations.combined(1 / 3, W, 1 / 7, V),
        lambda W, V: perturbations.only(W, ["W"]),
        lambda W, V: to_unit(W),
        lambda W, V: steepest(W, 4),
        lambda W, V: random_direction(W, np.random.default_rng(3)),
    ],
)
def test_placed_weights_give_what_numpy_gives(made):
    """Outside `enable_x64`, where JAX by itself would fall to float32."""
    W, V = drawn(0), drawn(1)
    found = made(placed(W), placed(V))
    assert isinstance(found, DeviceWeights)
    same(found, made(W, V))


def test_placed_and_plain_weights_mix():
    W, V = drawn(0), drawn(1)
    expected = {name: W[name] + 2 * V[name] for name in W}
    same(perturbations.added(placed(W), V, 2.0), expected)
    same(perturbations.added(W, placed(V), 2.0), expected)
    assert perturbations.inner(placed(W), V) == pytest.approx(sum(np.vdot(W[n], V[n]) for n in W), rel=1e-13)


def test_lengths_are_those_of_lapack():
    W = drawn(0)
    for own in (W, placed(W)):
        assert perturbations.length(own) == pytest.approx(
            np.linalg.norm(np.concatenate([a.ravel() for a in W.values()]))
        )
    with jax.enable_x64(True):
        found = spectral_norms(jnp.array(W["A"]))
    np.testing.assert_allclose(found, np.linalg.svd(W["A"], compute_uv=False)[:1], rtol=1e-12)


def test_layers_that_do_not_move_are_told():
    W = {"a": np.zeros((2, 2)), "b": np.array([0.0, 1e-300])}
    assert perturbations.moving(W) == perturbations.moving(placed(W)) == ["b"]


def test_placed_weights_cannot_be_written():
    with pytest.raises(ValueError, match="read-only"):
        placed(drawn(0))["W"][:] = 0
