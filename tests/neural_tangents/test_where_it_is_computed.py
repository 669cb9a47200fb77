"""Known numbers in NumPy, many or unknown ones by JAX: the same kernels, and nothing compiled that need not be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import overparam.neural_tangents as nt
from overparam.neural_tangents import arithmetic, layer, predict, stax

RNG = np.random.default_rng(0)
ROWS, OTHERS = RNG.standard_normal((5, 4)), RNG.standard_normal((3, 4))
IMAGES, MORE = RNG.standard_normal((3, 5, 4, 2)), RNG.standard_normal((2, 5, 4, 2))


def dense(*activations):
    layers = [part for each in activations for part in (stax.Dense(8, 1.3, 0.2), each)]
    return stax.serial(*layers, stax.Dense(1, 1.3, 0.2))


NETWORKS = {
    "relu": (dense(stax.Relu(), stax.Relu()), ROWS, OTHERS),
    "erf": (dense(stax.Erf(), stax.Gelu()), ROWS, OTHERS),
    "quadrature": (dense(stax.ElementwiseNumerical(jnp.tanh, 12)), ROWS, OTHERS),
    "formula": (dense(stax.Elementwise(nngp_fn=lambda q, xx, zz: jnp.exp(q / 4))), ROWS, OTHERS),
    "repeated": (stax.serial(stax.Dense(8), stax.repeat(stax.serial(stax.Relu(), stax.Dense(8)), 4)), ROWS, OTHERS),
    "branches": (
        stax.serial(
            stax.Dense(8),
            stax.FanOut(2),
            stax.parallel(stax.Identity(), stax.serial(stax.Relu(), stax.Dense(8))),
            stax.FanInSum(),
        ),
        ROWS,
        OTHERS,
    ),
    "flattened": (
        stax.serial(stax.Conv(8, (3, 3), b_std=0.1), stax.Relu(), stax.Flatten(), stax.Dense(1)),
        IMAGES,
        MORE,
    ),
    "pooled": (
        stax.serial(stax.Conv(8, (3, 3), padding="SAME"), stax.Relu(), stax.GlobalAvgPool(), stax.Dense(1)),
        IMAGES,
        MORE,
    ),
    "attention": (stax.serial(stax.GlobalSelfAttention(8, 8, 8, 2), stax.GlobalAvgPool()), IMAGES, MORE),
}


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("name", NETWORKS)
def test_numpy_and_jax_give_the_same(name, wide):
    (_, _, kernel_fn), x, z = NETWORKS[name]
    with jax.enable_x64(wide):
        for other in (z, None):
            known, compiled = kernel_fn(x, other), jax.jit(kernel_fn)(x, other)
            assert jax.tree.structure(known) == jax.tree.structure(compiled)
            for field in ("nngp", "ntk", "cov1", "cov2"):
                a, b = getattr(known, field), getattr(compiled, field)
                if a is None:
                    assert b is None
                    continue
                assert isinstance(a, jax.Array)
                assert (a.dtype, a.shape) == (b.dtype, b.shape)
                assert a.dtype == (jnp.float64 if wide else jnp.float32)
                assert np.allclose(a, b, rtol=0, atol=(1e-12 if wide else 2e-5) * np.abs(b).max())
            assert np.array_equal(known.x1_is_x2, compiled.x1_is_x2)


@pytest.mark.parametrize("name", ["relu", "flattened", "pooled", "attention"])
def test_many_numbers_are_compiled_as_a_whole(name, monkeypatch):
    (_, _, kernel_fn), x, z = NETWORKS[name]
    with jax.enable_x64(True):
        few, later = kernel_fn(x, z), stax.Dense(1)[2](kernel_fn(x, z))
        for module in (arithmetic, layer):
            monkeypatch.setattr(module, "FEW", 1)
        monkeypatch.setattr("overparam.neural_tangents.kernel.FEW", 1)
        many = kernel_fn(x, z)
        assert isinstance(many.__dict__["pairs"].apart, jax.Array)
        assert isinstance(few.__dict__["pairs"].apart, np.ndarray)
        for one, two in ((many, few), (stax.Dense(1)[2](many), later)):
            assert np.allclose(one.ntk, two.ntk, rtol=0, atol=1e-12 * np.abs(two.ntk).max())
        assert np.allclose(kernel_fn(x, z, "ntk"), few.ntk, rtol=0, atol=1e-12 * np.abs(few.ntk).max())


def compiled(caplog):
    """Programs, but for copies to the device."""
    said = [record.getMessage() for record in caplog.records]
    return [each for each in said if "Finished XLA compilation" in each and "jit(stage)" not in each]


def test_nothing_is_compiled_for_few_numbers(caplog):
    kernel_fn = dense(stax.Relu(), stax.Erf())[2]
    y = RNG.standard_normal((5, 1))
    fit = predict.gradient_descent_mse_ensemble(jax.jit(kernel_fn, static_argnums=2), ROWS, y, diag_reg=1e-3)
    with jax.log_compiles(True):
        kernel_fn(ROWS, OTHERS, ("nngp", "ntk"))
        fit(x_test=OTHERS, compute_cov=True)
        fit(2.0, OTHERS, "ntk")
        named = compiled(caplog)
        jax.jit(lambda x: x * 3.7)(y)
        last = compiled(caplog)
    assert len(last) == len(named) + 1  # it would have been seen
    assert not named, named


def test_derivatives_of_what_nobody_compiled_are_one_program(caplog):
    kernel_fn = dense(stax.Erf())[2]
    with jax.log_compiles(True):
        slope = jax.jacobian(lambda x: kernel_fn(x, OTHERS, "ntk"))(jnp.asarray(ROWS))
        assert len([each for each in compiled(caplog) if "jit(compiled)" in each]) == 2  # forth and back
        assert len(compiled(caplog)) < 15  # the rest is JAX's own preparation
    whole = jax.jit(jax.jacobian(lambda x: kernel_fn(x, OTHERS, "ntk")))(jnp.asarray(ROWS))
    assert np.allclose(slope, whole, rtol=0, atol=1e-5 * np.abs(whole).max())


def test_blocks_on_and_off_the_diagonal_are_one_program(caplog, monkeypatch):
    kernel_fn = NETWORKS["pooled"][0][2]
    whole = kernel_fn(IMAGES[[0, 1, 2, 0]], None, "ntk")
    monkeypatch.setattr(layer, "FEW", 1)
    with jax.log_compiles(True):
        blocks = nt.batch(kernel_fn, 2)(IMAGES[[0, 1, 2, 0]], None, "ntk")
        assert len([each for each in compiled(caplog) if "jit(compiled)" in each]) == 1
    assert np.allclose(blocks, whole, rtol=0, atol=1e-5 * np.abs(whole).max())


def test_a_hyper_parameter_may_be_differentiated_though_inputs_are_known():
    def of(W_std, b_std):
        return jnp.sum(
            stax.serial(stax.Dense(4, W_std, b_std), stax.Erf(), stax.Dense(1, W_std))[2](ROWS, OTHERS, "ntk")
        )

    with jax.enable_x64(True):
        slopes, step = jax.jit(jax.grad(of, (0, 1)))(1.3, 0.2), 1e-5
        numeric = [
            (of(1.3 + step * (1 - b), 0.2 + step * b) - of(1.3 - step * (1 - b), 0.2 - step * b)) / (2 * step)
            for b in (0, 1)
        ]
        assert np.allclose(slopes, numeric, rtol=1e-8)
        arrays = of(jnp.asarray(1.3), jnp.asarray(0.2))
        assert np.allclose(arrays, of(1.3, 0.2), rtol=1e-14)
        mapped = jax.jit(jax.vmap(lambda W: of(W, 0.2)))(jnp.array([1.3, 1.7]))
        assert np.allclose(mapped, [of(1.3, 0.2), of(1.7, 0.2)], rtol=1e-12)


def test_arrays_are_read_when_asked_for_in_the_precision_of_then():
    kernel_fn = dense(stax.Relu())[2]
    with jax.enable_x64(True):
        made = kernel_fn(ROWS, OTHERS)
    assert made.ntk.dtype == jnp.float64
    other = kernel_fn(ROWS, OTHERS)
    inside = jax.jit(lambda scale: scale * other.nngp)(2.0)
    assert np.allclose(inside, 2 * other.nngp, rtol=1e-6)  # nothing of the inside was kept
    with pytest.raises(AttributeError, match="no 'ntkk'"):
        _ = made.ntkk


@pytest.mark.parametrize("activation", [stax.Erf(), stax.Relu(), stax.Gelu(), stax.Sin(), stax.Identity()])
def test_covariances_in_the_midst_of_a_transformation(activation):
    """A textbook's formulas for one nonlinearity, angles for two; a carried kernel has angles always."""
    with jax.enable_x64(True):
        came = stax.Dense(8, 1.4, 0.3)[2](ROWS, OTHERS)
        bare = came.replace(nngp=came.nngp)
        for layers in (1, 2):
            parts = [part for _ in range(layers) for part in (stax.Dense(8, 1.3, 0.2), activation)]
            kernel_fn = stax.serial(*parts, stax.Dense(1, 1.1, 0.1))[2]
            right, quick = kernel_fn(came), jax.jit(kernel_fn)(bare)
            for name in ("nngp", "ntk", "cov1", "cov2"):
                assert np.allclose(getattr(quick, name), getattr(right, name), rtol=1e-12)
            assert (quick.shape1, quick.is_gaussian) == (right.shape1, right.is_gaussian)
        two = stax.serial(
            stax.Dense(8), stax.FanOut(2), stax.parallel(*[stax.serial(activation, stax.Dense(8))] * 2), stax.FanInSum()
        )
        assert np.allclose(jax.jit(two[2])(bare).ntk, two[2](came).ntk, rtol=1e-12)


@pytest.mark.parametrize("traced", [(-1,), ()])
def test_empirical_kernels_sample_by_sample_are_those_of_jacobians(traced):
    init_fn, f, _ = stax.serial(
        stax.Conv(6, (2, 2), b_std=0.3),
        stax.Relu(),
        stax.Flatten(),
        stax.Dense(5, b_std=0.2),
        stax.Erf(),
        stax.Dense(3),
    )
    with jax.enable_x64(True):
        params = init_fn(jax.random.PRNGKey(0), IMAGES.shape)[1]
        quick, slow = (nt.empirical_ntk_fn(f, traced, vmap_axes=axes) for axes in (0, None))
        for other in (MORE, None):
            a, b, c = quick(IMAGES, other, params), slow(IMAGES, other, params), jax.jit(quick)(IMAGES, other, params)
            assert a.shape == b.shape == (3, 3 if other is None else 2, *(() if traced else (3, 3)))
            assert np.allclose(a, b, rtol=0, atol=1e-12 * np.abs(b).max())
            assert np.allclose(a, c, rtol=0, atol=1e-12 * np.abs(b).max())

    def looks(params, x):  # at numbers, as nothing that is compiled can
        return x @ params if float(x[0, 0]) != 7.0 else x @ params + 1

    assert np.allclose(nt.empirical_ntk_fn(looks)(ROWS, None, jnp.ones((4, 1))), ROWS @ ROWS.T, rtol=1e-5)


def test_a_layer_that_looks_at_numbers_is_not_compiled(monkeypatch):
    @stax.layer
    def Doubled():
        def kernel_fn(k, **options):
            assert float(k.nngp[0, 0]) > 0
            return 2 * k

        return lambda key, shape: (shape, ()), lambda params, x, **options: 2 * x, kernel_fn

    kernel_fn = stax.serial(stax.Dense(4), Doubled())[2]
    few = kernel_fn(ROWS, None, "nngp")
    monkeypatch.setattr(layer, "FEW", 1)
    assert np.allclose(kernel_fn(ROWS, None, "nngp"), few)
    assert np.allclose(few, ROWS @ ROWS.T, rtol=1e-5)
