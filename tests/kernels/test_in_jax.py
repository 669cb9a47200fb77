"""Kernels inside JAX: their values are NumPy's, their gradients those of differences, at equal and opposite inputs too."""

import jax
import numpy as np
import pytest

from overparam.kernels import (
    ArcCosine,
    Composed,
    Convolutional,
    FullyConnected,
    Gaussian,
    Laplace,
    Polynomial,
    RandomFeatures,
    TwoLayer,
    normalised,
)
from overparam.layers import Erf, Flatten, LayerNorm, Relu, Sine
from overparam.layers.standard import avg_pool, conv, dense, global_avg_pool

ROWS = np.array([[0.6, -0.4, 0.3], [0.1, 0.7, -0.5], [0.3, 0.2, 0.9]])
OTHERS = np.array([[0.6, -0.4, 0.3], [-0.2, -1.4, 1.0], [0.5, -0.1, 0.2]])  # one equal, one opposite and twice as long
KERNELS = {
    "two layers": TwoLayer(),
    "biases": FullyConnected(2, 1.3, 0.2),
    "erf": FullyConnected(1, 1.3, 0.2, "erf"),
    "abs": FullyConnected(2, 1.1, 0.0, "abs"),
    "gelu": FullyConnected(1, 1.3, 0.0, "gelu"),
    "algebra": normalised(0.5 * Laplace(2.0) + Gaussian(1.0) * ArcCosine(2)) + Polynomial(2),
    "composed": Composed([dense(8, 1.2, 0.1), LayerNorm(), Relu(), dense(1)]),
}


@pytest.fixture(scope="module")
def made():
    """Values and gradients of the sum of all entries, of all kernels, from one compilation."""

    def of(X, Z):
        found = {}
        for name, kernel in KERNELS.items():
            total, back = jax.vjp(kernel.jax, X, Z)
            found[name] = total, back(jax.numpy.ones_like(total))
        return found

    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(of)(ROWS, OTHERS))


def by_differences(function, X, step=1e-6):
    """Central ones: the tip of a cone counts as 0, within `step` times a curvature near 1; rounding is 1e-16 / step."""
    gradient = np.empty(X.shape)
    for place in np.ndindex(X.shape):
        shift = np.zeros(X.shape)
        shift[place] = step
        gradient[place] = (function(X + shift) - function(X - shift)) / (2 * step)
    return gradient


@pytest.mark.parametrize("name", KERNELS)
def test_values_are_those_of_numpy(made, name):
    kernel = KERNELS[name]
    size = np.sqrt(np.outer(kernel.diagonal(ROWS), kernel.diagonal(OTHERS)))
    assert np.all(np.abs(made[name][0] - kernel(ROWS, OTHERS)) <= 2 * (kernel.entry_rounding + 1e-14) * size)


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_in_inputs_are_those_of_differences(made, name):
    kernel = KERNELS[name]
    first, second = made[name][1]
    assert np.allclose(first, by_differences(lambda X: kernel(X, OTHERS).sum(), ROWS), rtol=0, atol=2e-5)
    assert np.allclose(second, by_differences(lambda Z: kernel(ROWS, Z).sum(), OTHERS), rtol=0, atol=2e-5)


def images(seed, n):
    x = np.random.default_rng(seed).standard_normal((n, 5, 1))
    x[0, 1:4] = 0.0  # black pixels, and black patches
    return x


PADDED = {
    "pooled, then rectified": lambda W_std, b_std: [
        conv(8, 2, 1, "SAME", W_std, b_std),
        avg_pool(2),
        Relu(),
        global_avg_pool(),
        dense(1, W_std),
    ],
    "flat": lambda W_std, b_std: [conv(8, 2, 1, "VALID", W_std, b_std), Relu(), Flatten(), dense(1, W_std, b_std)],
}


@pytest.mark.parametrize("name", PADDED)
def test_images_and_their_hyper_parameters(name):
    x, z = images(0, 2), images(1, 2)
    z[0] = x[0]

    def numpy(x, W_std=1.2, b_std=0.3):
        return Composed(PADDED[name](float(W_std), float(b_std)))(x, z).sum()

    def of(x, W_std, b_std):
        return Composed(PADDED[name](W_std, b_std)).jax(x, z).sum()

    with jax.enable_x64(True):
        made = jax.jit(jax.value_and_grad(of, (0, 1, 2)))(x, 1.2, 0.3)
    value, (by_x, by_W, by_b) = jax.tree.map(np.asarray, made)
    assert abs(value - numpy(x)) <= 1e-12 * numpy(x)
    assert np.allclose(by_x, by_differences(numpy, x), rtol=0, atol=2e-5)
    assert np.allclose(by_W, by_differences(lambda s: numpy(x, s), np.array(1.2)), rtol=0, atol=2e-5)
    assert np.allclose(by_b, by_differences(lambda b: numpy(x, 1.2, b), np.array(0.3)), rtol=0, atol=2e-5)


CURVED = {
    "erf": [dense(8, 1.2, 0.1), Erf(), dense(1, 1.2)],
    "sine": [dense(8, 1.2, 0.1), Sine(), dense(1, 1.2)],
    "pooled": [conv(8, 2, 1, "SAME", 1.2, 0.3), global_avg_pool(), Erf(), dense(1)],
}


@pytest.mark.parametrize("name", CURVED)
def test_second_derivatives_of_equal_inputs(name):
    """∂²K/∂x∂z at x = z, where bounds of rounding are reached and would have half of a derivative."""
    x = np.random.default_rng(3).standard_normal((3, 1) if name == "pooled" else 3)

    def gradient(x, z):
        return jax.grad(lambda x: Composed(CURVED[name]).jax(x[None], z[None], get="nngp")[0, 0])(x)

    @jax.jit
    def along(z, v):
        return jax.jvp(lambda z: gradient(x, z), (z,), (v,))

    with jax.enable_x64(True):
        step = 1e-5
        for place in np.ndindex(x.shape):
            shift = np.zeros(x.shape)
            shift[place] = 1
            _, made = along(x, shift)
            right, left = (along(x + way * step * shift, shift)[0] for way in (1, -1))
            assert np.allclose(made, np.asarray(right - left) / (2 * step), rtol=0, atol=1e-7)


def test_hyper_parameters_of_rows():
    def of(W_std, b_std):
        return FullyConnected(2, W_std, b_std).jax(ROWS, OTHERS).sum()

    with jax.enable_x64(True):
        by_W, by_b = (float(each) for each in jax.jit(jax.grad(of, (0, 1)))(1.3, 0.2))
    assert (
        abs(by_W - by_differences(lambda s: FullyConnected(2, float(s), 0.2)(ROWS, OTHERS).sum(), np.array(1.3))) < 1e-7
    )
    assert (
        abs(by_b - by_differences(lambda b: FullyConnected(2, 1.3, float(b))(ROWS, OTHERS).sum(), np.array(0.2))) < 1e-7
    )


def test_convolutional_is_its_composition():
    kernel = Convolutional(2, 2, 1.3, 0.1, "flatten", trained="hidden")
    x = np.random.default_rng(2).standard_normal((2, 2, 3, 1))
    with jax.enable_x64(True):
        assert np.allclose(np.asarray(jax.jit(kernel.jax)(x)), kernel(x), rtol=1e-12)


def test_float32_stays_and_mapping_is_a_loop():
    X = ROWS.astype(np.float32)
    one = jax.vmap(lambda x: TwoLayer().jax(x[None], OTHERS)[0])(X)
    assert one.dtype == np.float32
    assert np.allclose(one, TwoLayer()(X, OTHERS), rtol=0, atol=1e-6)


def test_what_has_no_reading_in_jax_says_so():
    with pytest.raises(ValueError, match="RandomFeatures cannot be made inside JAX"):
        RandomFeatures(Gaussian(1.0), 10, key=0).jax(ROWS)
