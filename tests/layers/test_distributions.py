"""Laws of weights: the numbers that JAX draws for a shape, whatever the lengths they are drawn in."""

import jax
import jax.numpy as jnp
import numpy as np

from overparam.layers.distributions import SHARED, Normal, Signs, Twinned, ZeroOrNormal

SHAPES = ((7,), (30, 40))
"""Few: JAX compiles a program for each."""


def test_draws_are_those_of_the_shape():
    with jax.enable_x64(True):
        key = jax.random.key(5)
        kind = jnp.result_type(float)
        for shape in SHAPES:
            normal = 0.7 * np.asarray(jax.random.normal(key, shape))
            found = Normal(0.7).draw(key, shape)
            assert found.dtype == kind
            np.testing.assert_array_equal(found, normal)
            np.testing.assert_array_equal(Signs().draw(key, shape), jax.random.rademacher(key, shape, kind))
            coin, size = jax.random.split(key)
            some = np.where(jax.random.bernoulli(coin, 0.5, shape), 0.7 * np.asarray(jax.random.normal(size, shape)), 0)
            np.testing.assert_array_equal(ZeroOrNormal(0.7).draw(key, shape), some)
        pairs = np.asarray(Twinned(Normal(1.0), opposite=True).draw(key, (6, 2)))
        np.testing.assert_array_equal(pairs[::2], -pairs[1::2])


def test_many_entries_are_drawn_as_they_are():
    with jax.enable_x64(True):
        key = jax.random.key(1)
        found = Normal(2.0).draw(key, (SHARED + 1,))
        np.testing.assert_array_equal(found, 2.0 * np.asarray(jax.random.normal(key, (SHARED + 1,))))
        np.testing.assert_array_equal(found[:100], Normal(2.0).draw(key, (100,)))


def test_inside_a_transformation_too():
    keys = jax.random.split(jax.random.key(0), 3)
    for law in (Normal(1.0), Signs(), ZeroOrNormal(1.0), Twinned(Signs())):
        many = jax.vmap(lambda key, law=law: law.draw(key, (4, 2)))(keys)
        for key, one in zip(keys, many, strict=True):
            np.testing.assert_allclose(one, law.draw(key, (4, 2)), rtol=1e-5)  # fused products, in float32
