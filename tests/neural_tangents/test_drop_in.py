"""The archived library's names: its stored numbers, its weights and their layout, its `Kernel`, what is refused."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import overparam.neural_tangents as nt
from overparam.neural_tangents import stax

FOLDER = Path(__file__).parents[1] / "kernels" / "reference"
NOTES = json.loads((FOLDER / "neural_tangents.json").read_text(encoding="utf-8"))
JOINS = {"Sum": stax.FanInSum, "Product": stax.FanInProd, "Concatenate": stax.FanInConcat}
QUICK = {
    "relu_bias_depth2",
    "standard_bias",
    "erf_abc_depth1",
    "polynomial_depth1",
    "sign_plain",
    "rectified2_depth1",
    "expnormalized_depth2",
    "gaussian_depth1",
    "product_then_dense",
    "concatenate",
    "conv1d_valid_stride1_flatten",
}


WORSE = {"sign_depth2", "sign_depth3"}
"""Theirs of parallel inputs takes the angle of an angle that is off by 1e-8: 4 right digits, then 2."""


def part(name, arguments):
    """A layer from its description; see the note `format` of the stored numbers."""
    if name in JOINS:
        branches = [stax.serial(*(part(*each) for each in branch)) for branch in arguments["branches"]]
        return stax.serial(stax.FanOut(len(branches)), stax.parallel(*branches), JOINS[name]())
    width = {"Dense": {"out_dim": 1}, "Conv": {"out_chan": 1}, "ConvLocal": {"out_chan": 1}}.get(name, {})
    return getattr(stax, name)(**(width | arguments))


def offered(layers):
    return all(name in JOINS or name in set(stax.__all__) - {"Hermite"} for name, _ in layers) and all(
        offered(branch) for _, arguments in layers for branch in arguments.get("branches", [])
    )


CASES = [
    pytest.param(case, id=case["name"], marks=() if case["name"] in QUICK else pytest.mark.slow)
    for case in NOTES["cases"]
    if offered(case["layers"]) and case["name"] not in WORSE
]


@pytest.mark.parametrize("case", CASES)
def test_its_stored_numbers(case):
    with np.load(FOLDER / "neural_tangents.npz") as stored:
        X, Z = (stored[f"inputs/{case['inputs']}/{side}"] for side in "XZ")
        expected = stored[case["name"]]
    kernel_fn = stax.serial(*(part(*each) for each in case["layers"]))[2]
    with jax.enable_x64(True):
        among, between = jax.tree.map(np.asarray, (kernel_fn(X), kernel_fn(X, Z)))
    for get, theirs in zip(("nngp", "ntk"), expected, strict=True):
        size = np.sqrt(np.abs(np.diag(getattr(among, get))))
        known, entries = np.isfinite(theirs), np.hstack([getattr(among, get), getattr(between, get)])
        by_angle = case["name"].startswith(("sign", "rectified0")) or (case["kinked"] and get == "ntk")
        bound = 5e-8 if by_angle else 1e-12  # theirs has 8 digits of an angle that is 0
        scale = np.outer(size, np.append(size, [size.max()] * len(Z)))
        scale = np.where(scale > 1e-50, scale, 1)  # a row of zeros stands as one of 1e-60
        assert np.all(np.abs(entries - theirs)[known] <= (bound * scale)[known])


def test_weights_are_drawn_and_laid_out_as_there():
    """Keys split in the order of the layers, matrices (inputs, units), biases (1, units): the draws written out."""
    init_fn, apply_fn, _ = stax.serial(stax.Dense(5, 1.5, 0.1), stax.Relu(), stax.Dense(2))
    key = jax.random.PRNGKey(3)
    shape, params = init_fn(key, (7, 3))
    assert shape == (7, 2)
    assert isinstance(params, list)
    rest, first = jax.random.split(key)
    for_W, for_b = jax.random.split(first)
    (W, b), nothing, (V, none) = params
    assert np.array_equal(W, jax.random.normal(for_W, (3, 5)))
    assert np.array_equal(b, jax.random.normal(for_b, (1, 5)))
    _, third = jax.random.split(jax.random.split(rest)[0])
    assert np.array_equal(V, jax.random.normal(jax.random.split(third)[0], (5, 2)))
    assert (nothing, none) == ((), None)
    x = np.linspace(-1, 1, 21, dtype=np.float32).reshape(7, 3)
    by_hand = np.maximum(x @ W * (1.5 / 3**0.5) + 0.1 * b, 0) @ V / 5**0.5
    assert np.allclose(apply_fn(params, x), by_hand, rtol=0, atol=1e-6)


@pytest.mark.parametrize("local", [False, True])
def test_convolutions_with_any_axes_are_those_of_jax(local):
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 4)).astype(np.float32)
    numbers = ("NCHW", "WHIO", "CNWH")
    layer = (stax.ConvLocal if local else stax.Conv)(6, (3, 2), (2, 1), "SAME", 1.2, 0.3, numbers)
    shape, (W, b) = layer[0](jax.random.PRNGKey(0), x.shape)
    if local:
        g = jax.lax.conv_general_dilated_local(x, W, (2, 1), "SAME", (3, 2), dimension_numbers=numbers)
    else:
        g = jax.lax.conv_general_dilated(x, W, (2, 1), "SAME", dimension_numbers=numbers)
    out = layer[1]((W, b), x)
    assert out.shape == shape
    assert np.allclose(out, g * (1.2 / 18**0.5) + 0.3 * b, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    "layer", [stax.Dense(6, b_std=0.3), stax.Conv(6, (2,), b_std=0.3), stax.ConvLocal(6, (2,), b_std=0.3)]
)
def test_one_number_may_be_the_bias(layer):
    x = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
    _, (W, b) = layer[0](jax.random.PRNGKey(0), x.shape)
    one, every, none = (layer[1]((W, bias), x) for bias in (0.5, jnp.full_like(b, 0.5), 0 * b))
    assert np.array_equal(one, every)
    assert np.allclose(one - none, 0.15, rtol=0, atol=1e-6)


def test_a_kernel_is_a_pytree_that_layers_hand_on():
    x1, x2 = (np.random.default_rng(seed).standard_normal((n, 4)).astype(np.float32) for seed, n in ((0, 3), (1, 2)))
    dense, relu = stax.Dense(8, 1.5, 0.1)[2], stax.Relu()[2]
    whole = jax.jit(stax.serial(stax.Dense(8, 1.5, 0.1), stax.Relu())[2])(x1, x2)
    by_steps = relu(jax.jit(dense)(x1, x2))  # angles go through covariances: float32 keeps half of its digits
    assert isinstance(whole, nt.Kernel)
    assert whole.nngp.dtype == jnp.float32
    assert (whole.shape1, whole.shape2, whole.is_gaussian, whole.cov2.shape) == ((3, 8), (2, 8), False, (2,))
    for name in ("nngp", "ntk", "cov1", "cov2"):
        assert np.allclose(getattr(whole, name), getattr(by_steps, name), rtol=0, atol=3e-3)
    chosen = stax.serial(stax.Dense(8, 1.5, 0.1), stax.Relu())[2](x1, x2, ("ntk", "nngp"))
    assert chosen._fields == ("ntk", "nngp")
    assert np.allclose(chosen.ntk, whole.ntk, rtol=0, atol=1e-6)
    assert (2 * whole).nngp[0, 0] == 4 * whole.nngp[0, 0]


@pytest.mark.parametrize(
    ("layer", "slope", "bound"),
    [
        (stax.Erf(), lambda v: 4 / np.pi / np.sqrt(1 + 4 * v), 1e-12),
        (stax.Relu(), lambda v: 0.5, 1e-8),  # an angle from a covariance has half of its digits
        (stax.Sin(), lambda v: (1 + np.exp(-2 * v)) / 2, 1e-12),
        (stax.Elementwise(nngp_fn=lambda q, xx, zz: q**3), lambda v: 3 * v**2, 1e-12),
    ],
)
def test_derivatives_by_a_correlation_of_1(layer, slope, bound):
    """Of what a layer gives, by the covariance of two equal inputs in a `Kernel`: W² E[φ′²] of their variance, as phase diagrams ask."""
    W_std, b_std, q = 1.3, 0.4, 0.7
    kernel_fn = stax.serial(stax.Dense(8, W_std, b_std), layer)[2]

    def of(c):
        K = q * jnp.array([[1.0, c], [c, 1.0]])
        made = nt.Kernel(
            nngp=K, ntk=None, cov1=jnp.diag(K), cov2=None, x1_is_x2=jnp.array(True), is_gaussian=True, is_reversed=False,
            is_input=True, diagonal_batch=True, diagonal_spatial=False, shape1=(2, 8), shape2=(2, 8), batch_axis=0, channel_axis=1,
        )  # fmt: skip
        return kernel_fn(made).nngp[1, 0]

    with jax.enable_x64(True):
        found = float(jax.jit(jax.grad(of))(1.0))
    assert abs(found - q * W_std**2 * slope(W_std**2 * q + b_std**2)) <= bound


@pytest.mark.parametrize(
    "layer", [stax.Identity(), stax.Dropout(0.5, "test"), stax.repeat(stax.Dense(3), 0), stax.serial()]
)
def test_layers_that_do_nothing_give_the_kernel_that_came(layer):
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    made = layer[2](x)
    assert (made.is_input, made.shape1) == (True, (3, 4))
    assert np.allclose(made.nngp, x @ x.T / 4, rtol=0, atol=1e-6)
    after = layer[2](stax.Dense(8)[2](x))
    assert (after.is_input, after.is_gaussian) == (False, True)


def test_positions_stay_where_nothing_flattens():
    x = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
    conv, relu = stax.Conv(4, (2,), b_std=0.1), stax.Relu()
    open_end = stax.serial(conv, relu)[2](x)
    flat = stax.serial(conv, relu, stax.Flatten())[2](x)
    assert (open_end.nngp.shape, open_end.cov1.shape, open_end.diagonal_spatial) == ((2, 2, 4, 4), (2, 4, 4), False)
    trace = np.einsum("xyii->xy", np.asarray(open_end.nngp)) / 4
    assert np.allclose(flat.nngp, trace, rtol=0, atol=1e-6)
    assert flat.shape1 == (2, 16)


def test_batches_are_the_whole():
    x1, x2 = (np.random.default_rng(seed).standard_normal((n, 4)) for seed, n in ((0, 4), (1, 2)))
    kernel_fn = stax.serial(stax.Dense(8), stax.Identity())[2]
    for other in (x2, None):
        whole, batched = kernel_fn(x1, other), nt.batch(kernel_fn, 2)(x1, other)
        for name in ("nngp", "ntk", "cov1"):
            assert np.allclose(getattr(whole, name), getattr(batched, name), rtol=0, atol=1e-6)
        assert (batched.cov2 is None, batched.shape1, batched.shape2) == (other is None, whole.shape1, whole.shape2)


def test_a_kernel_in_batches_is_the_whole():
    """Blocks off the diagonal are of different inputs, though x1 is x2."""
    dense, relu = stax.Dense(8)[2], stax.Relu()[2]
    kernel = dense(np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32))
    whole, batched = relu(kernel.replace(nngp=kernel.nngp)), nt.batch(relu, 2)(kernel)
    for name in ("nngp", "ntk", "cov1"):
        assert np.allclose(getattr(whole, name), getattr(batched, name), rtol=0, atol=1e-5)


def test_the_diagonal_algebra_is_associative():
    every = [stax.Diagonal(one, two) for one in stax.Bool for two in stax.Bool]
    assert all((a >> b) >> c == a >> (b >> c) for a in every for b in every for c in every)


def test_several_devices_are_refused_in_one_line():
    kernel_fn = stax.Dense(1)[2]
    with pytest.raises(
        NotImplementedError, match=r"`device_count=2` is not offered.*op\.gram\(kernel, X, device='all'\)"
    ):
        nt.batch(kernel_fn, 2, device_count=2)
    with pytest.raises(NotImplementedError, match="not offered"):
        nt.monte_carlo_kernel_fn(*stax.Dense(1)[:2], jax.random.PRNGKey(0), 2, batch_size=1, device_count=2)
    assert all(
        nt.batch(kernel_fn, 2, device_count=count)(np.eye(3), None, "nngp").shape == (3, 3) for count in (-1, 0, 1)
    )


@pytest.mark.parametrize(
    "name", ["stax.Aggregate", "stax.DotGeneral", "stax.ImageResize", "stax.Index", "nt.experimental"]
)
def test_what_is_not_offered_says_what_to_write(name):
    room, _, last = name.rpartition(".")
    module = {"stax": stax, "nt": nt}[room]
    assert not hasattr(module, last)  # scripts ask
    with pytest.raises(NotImplementedError, match=rf"`{name}` is not offered.*; instead: "):
        getattr(module, last)
