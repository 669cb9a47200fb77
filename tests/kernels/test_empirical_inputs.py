"""What the tangent kernel of a finite network takes, and the one line it gives otherwise."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from empirical_cases import CASES, cnn, embedding, mlp

from overparam import networks
from overparam.kernels.empirical import Empirical

MLP, CNN, TEXT = CASES["mlp"], CASES["cnn"], CASES["embedding"]
KERNEL = Empirical(mlp, MLP.params)


def line(function, *arguments, **options) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the text is checked by the caller
        function(*arguments, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_arguments():
    assert "network" in line(Empirical, 3, MLP.params)
    assert "params" in line(Empirical, mlp)
    assert "params" in line(Empirical, networks.TwoLayer(4))
    assert "outputs" in line(Empirical, mlp, MLP.params, outputs="all")
    assert "outputs" in line(Empirical, mlp, MLP.params, outputs=-1)
    assert "float16" in line(Empirical, mlp, MLP.params, dtype="float16")
    assert "memory" in line(Empirical, mlp, MLP.params, memory="much")
    assert "'nngp'" in line(KERNEL, MLP.X, get="nngp")
    assert "0 to 2" in line(Empirical(mlp, MLP.params, outputs=3), MLP.X)
    assert "Params" in line(Empirical(networks.TwoLayer(4), {"W": np.ones((4, 4))}), MLP.X)
    assert "no array" in line(Empirical(lambda p, x: x, {"steps": 3}), MLP.X)
    assert "does not depend" in line(Empirical(lambda p, x: x[:, 0], np.ones(2)), MLP.X)


def test_samples():
    bad = MLP.X.copy()
    bad[2, 1] = np.nan
    assert "row 2, column 1" in line(KERNEL, bad)
    assert "shape (0, 4)" in line(KERNEL, np.zeros((0, 4)))
    assert "(3,)" in line(KERNEL.full, MLP.X, MLP.X[:, :3])
    assert "whole numbers" in line(KERNEL.full, MLP.X, np.ones((2, 4), int))
    assert "(5,)" in line(KERNEL.full, np.ones((2, 5)))  # the function's own error
    assert "V" in line(KERNEL.product, MLP.X, np.ones((7, 2)))
    assert "(5,)" in line(KERNEL.product, MLP.X, np.ones(6))


def test_one_sample_and_constant_samples():
    one = KERNEL.full(MLP.X[:1])
    assert one.shape == (1, 1, 3, 3)
    np.testing.assert_allclose(one, KERNEL.full(MLP.X)[:1, :1], rtol=1e-13)
    assert np.isfinite(KERNEL(np.zeros((2, 4)))).all()


def test_whole_numbers():
    images = np.random.default_rng(0).integers(0, 255, CNN.X.shape).astype(np.uint8)
    assert "floats" in line(Empirical(cnn, CNN.params), images)  # convolutions mix no kinds of numbers
    tokens = Empirical(embedding, TEXT.params)
    np.testing.assert_array_equal(tokens(TEXT.X.astype(np.int8)), tokens(TEXT.X))
    rows = np.random.default_rng(0).integers(0, 9, (3, 4))
    np.testing.assert_allclose(KERNEL(rows), KERNEL(rows.astype(float)), rtol=1e-13)


def test_batches_are_seen_through():
    def batch_norm(params, x):
        h = x @ params
        return (h - h.mean(axis=0)) / jnp.sqrt(h.var(axis=0) + 0.1)

    assert "evaluation mode" in line(Empirical(batch_norm, np.eye(4)), MLP.X)
    assert "jax.vmap" in line(Empirical(lambda w, x: (x @ w).sum(), np.ones(4)), MLP.X)


@pytest.mark.parametrize("size", [1e-60, 1e-20, 1e20, 1e100])
def test_sizes_of_samples(size):
    """A linear layer and a ReLU: the kernel of c·x is c² times that of x."""

    def apply(params, x):
        return jax.nn.relu(x @ params[0]) @ params[1]

    params = [np.random.default_rng(0).standard_normal(shape) for shape in ((4, 5), (5,))]
    kernel = Empirical(apply, params)
    np.testing.assert_allclose(kernel(size * MLP.X) / size / size, kernel(MLP.X), rtol=1e-12)


@pytest.mark.parametrize(
    ("size", "dtype"),
    [(1e160, "float64"), (1e-160, "float64"), (1e-25, "float32"), (1e30, "float32"), (1e-60, "float32")],
)
def test_sizes_that_are_lost_are_said(size, dtype):
    kernel = Empirical(line_through_zero, np.ones(4), dtype=dtype)
    assert dtype in line(kernel, size * MLP.X)
    if dtype == "float64":
        assert dtype in line(kernel.product, size * MLP.X, np.ones(len(MLP.X)))
    else:
        assert dtype in line(Empirical(line_through_zero, np.full(4, 1e-60), dtype=dtype), MLP.X)


def line_through_zero(w, x):
    return x @ w


def test_products_of_small_numbers():
    """x·z of 1e-140 is right, in the product as in the kernel."""
    V = np.array([1.0, -2.0, 1e-3, 0.0, 5.0])[: len(MLP.X)]
    X = MLP.X[: len(V)]
    found = Empirical(line_through_zero, np.ones(4)).product(1e-140 * X, 1e-10 * V)
    np.testing.assert_allclose(found / 1e-290, X @ (X.T @ V), rtol=1e-12)


def test_functions_that_fix_their_precision():
    def recurrent(w, x):
        start = jnp.zeros(len(x), jnp.float32)
        return jax.lax.scan(lambda carry, t: (jnp.tanh(carry + t * w[0]), None), start, x.T)[0]

    assert "dtype='float32'" in line(Empirical(recurrent, np.ones(1)), MLP.X)
    assert np.isfinite(Empirical(recurrent, np.ones(1), dtype="float32")(MLP.X)).all()
    loop = Empirical(lambda w, x: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c + w, x), np.ones(4))
    assert "float32" not in line(loop, MLP.X)


@dataclasses.dataclass
class Unhashable:
    """A callable with a value of its own."""

    power: int = 1

    def __call__(self, w, x):
        return x @ w


def test_what_is_no_function():
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.Linear(4, 2, key=jax.random.key(0))
    assert "op.from_equinox" in line(Empirical, model)
    assert Empirical(eqx.filter_jit(line_through_zero), np.ones(4)).network is not None
    assert "hashed" in line(Empirical, Unhashable(), np.ones(4))
    assert "set" in line(Empirical(lambda p, x: x @ p["w"], {"w": np.ones(4), "names": {1}}), MLP.X)
    alone = Empirical(lambda w, x: x.reshape(1, 4) @ w, np.ones(4))
    for call in (alone, lambda X: alone.product(X, np.ones(len(X)))):
        assert "jax.vmap" in line(call, MLP.X)
    assert "tuple of 2" in line(KERNEL, (MLP.X, MLP.X))


def test_tensors():
    torch = pytest.importorskip("torch")
    assert "op.from_torch" in line(Empirical, torch.nn.Linear(4, 2))
    wanted = KERNEL(MLP.X)
    np.testing.assert_array_equal(KERNEL(torch.tensor(MLP.X, requires_grad=True)), wanted)
    coarse = torch.tensor(MLP.X).bfloat16()
    np.testing.assert_array_equal(KERNEL(coarse), KERNEL(coarse.double().numpy()))


def test_nothing_global_is_changed():
    before = jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision
    KERNEL(MLP.X)
    assert (jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision) == before
    assert jnp.ones(2).dtype == jnp.float32
