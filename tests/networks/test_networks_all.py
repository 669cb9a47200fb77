"""What every network has to do: its papers' initialisation, its forward pass, its gradient, its trace."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from networks_cases import CASES
from rounding import rounding

from overparam.core.network import Params
from overparam.networks import Given, TwoLayer
from overparam.training import gradient_descent


@pytest.fixture(params=sorted(CASES), scope="module")
def case(request):
    return CASES[request.param]


def rows(case, n=7, seed=0):
    return np.random.default_rng(seed).standard_normal((n, case.inputs))


_DRAWN = {}


def drawn(case, key=0, double=False):
    """Parameters and the same as NumPy arrays, drawn once a case."""
    known = (case.net, key, double)
    if known not in _DRAWN:
        with jax.enable_x64(double):
            params = case.net.init(key, inputs=case.inputs)
        _DRAWN[known] = params, {name: np.asarray(array) for name, array in {**params.fixed, **params.trained}.items()}
    return _DRAWN[known]


def test_forward_and_gradient_are_the_papers_formulas(case):
    """To the rounding of both: no number is made by sums of more terms than there are weights, forward and back, and the same
    formulas of |weights| and |rows| add up the sizes of all terms, for no gate is off there."""
    with jax.enable_x64(True):
        x = rows(case)
        params, weights = drawn(case, double=True)
        out = jax.jit(case.net.apply)(params, x)
        v = np.random.default_rng(1).standard_normal((len(x), 1 if out.ndim == 1 else out.shape[1]))
        expected, gradients = case.by_hand(case.net, weights, x, v)
        all_on = {name: np.abs(array) for name, array in weights.items()}
        sizes, slopes = case.by_hand(case.net, all_on, np.abs(x), np.abs(v))
        share = 2 * rounding(2 * sum(array.size for array in weights.values()) + len(x), functions=4)
        assert np.all(np.abs(out.reshape(expected.shape) - expected) <= share * sizes)

        def weighted(trained):
            return jnp.sum(case.net.apply(Params(trained, params.fixed), x).reshape(v.shape) * v)

        for name, gradient in jax.jit(jax.grad(weighted))(params.trained).items():
            assert gradient.dtype == np.float64
            assert np.all(np.abs(gradient - gradients[name]) <= share * slopes[name]), name
            assert np.any(gradients[name] != 0)


def test_which_weights_are_trained(case):
    params, weights = drawn(case)
    assert set(params.trained) == case.trained
    assert set(weights) == set(case.variances)
    assert not params.state


def test_initialisation_has_the_moments_of_its_paper(case):
    """Moments over many draws, within 4 standard errors of the law: those of x² and x⁴ are √2 and √96 Gaussian ones."""
    draws = [drawn(case, key)[1] for key in range(60)]
    for name, variance in case.variances.items():
        values = np.stack([draw[name] for draw in draws]).astype(np.float64)
        if getattr(case.net, "paired", False):
            values = values[:, ::2]  # the twins are copies, not draws
        if name in case.signs:
            assert set(np.unique(values)) == {-1.0, 1.0}
            assert abs(values.mean()) <= 4 / np.sqrt(values.size)
            continue
        if name in case.mixtures:
            zeros = np.mean(values == 0)
            assert abs(zeros - 0.5) <= 4 * 0.5 / np.sqrt(values.size)
            values = values[values != 0]
        assert abs(values.mean()) <= 4 * np.sqrt(variance / values.size), name
        assert abs(np.mean(values**2) - variance) <= 4 * variance * np.sqrt(2 / values.size), name
        assert abs(np.mean(values**4) - 3 * variance**2) <= 4 * variance**2 * np.sqrt(96 / values.size), name


def test_trace_shows_what_apply_does(case):
    params, _ = drawn(case)
    x = rows(case)
    seen = case.net.trace(params, x)
    np.testing.assert_array_equal(seen.output, case.net.apply(params, x))
    np.testing.assert_array_equal(seen.output, case.net.apply(params, x.reshape(len(x), -1, 1)))  # samples of any shape
    assert len(seen.pre_activations) == len(seen.activations) == len(seen.signs) >= 1
    for g, h, on in zip(seen.pre_activations, seen.activations, seen.signs, strict=True):
        assert len(g) == len(x)
        np.testing.assert_array_equal(h, np.maximum(g, 0))
        np.testing.assert_array_equal(on, np.asarray(g) >= 0)


def test_a_key_names_one_draw(case):
    """Whatever JAX's precision in force, in which other numbers would be drawn."""
    _, first = drawn(case, key=3)
    with jax.enable_x64(True):
        double = case.net.init(3, case.inputs)
    for name, array in {**double.fixed, **double.trained}.items():
        np.testing.assert_array_equal(first[name], array)
    again = case.net.init(jax.random.key(3), (case.inputs, 1))
    again = {**again.fixed, **again.trained}
    _, other = drawn(case, key=5)
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
        assert np.any(first[name] != other[name])
        assert first[name].dtype == np.float64


def test_networks_are_hashable_and_hold_no_arrays(case):
    assert hash(case.net) == hash(type(case.net)(**vars(case.net)))
    assert case.net == type(case.net)(**vars(case.net))
    params, _ = drawn(case)
    x = rows(case)
    run = jax.jit(lambda net, params, x: net.apply(params, x), static_argnums=0)
    np.testing.assert_allclose(run(case.net, params, x), case.net.apply(params, x), rtol=2e-5, atol=1e-6)


def test_one_sample_and_wrong_size_are_one_line(case):
    params, _ = drawn(case)
    with pytest.raises(ValueError, match="batch") as caught:
        case.net.apply(params, np.zeros(case.inputs))
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=str(case.inputs + 1)) as caught:
        case.net.apply(params, np.zeros((2, case.inputs + 1)))
    assert "\n" not in str(caught.value)


def test_given_functions_draw_one_start_too():
    net = Given(lambda p, x: x @ p["w"], draw=lambda key: {"w": jax.random.normal(key, (4,))})
    with jax.enable_x64(True):
        double = np.asarray(net.init(3).trained["w"])
    assert np.array_equal(net.init(3).trained["w"], double)
    run = gradient_descent(net, (np.eye(4), [1.0, -1.0, 1.0, -1.0]), lr=1e-300, steps=1, key=3)
    assert np.array_equal(run.params.trained["w"], double)


def test_a_traced_key_without_float64_is_one_line():
    net = TwoLayer(4)
    for transformed in (jax.jit, jax.vmap):
        with pytest.raises(ValueError, match="enable_x64"):
            transformed(lambda key: net.init(key, 3))(
                jax.random.split(jax.random.key(0), 2) if transformed is jax.vmap else jax.random.key(0)
            )
    with jax.enable_x64(True):
        assert jax.jit(lambda key: net.init(key, 3))(jax.random.key(0)).trained["W"].shape == (4, 3)
    assert jax.eval_shape(lambda: net.init(0, 3)).trained["W"].dtype == np.float32
