"""Our kernels against numbers of the archived neural-tangents in float64, stored in tests/kernels/reference.

`benchmarks/rivals/reference.py` and `finite.py` made them; the note `format` of the .json says how to read them.
"""

import json
from math import pi
from pathlib import Path

import jax
import numpy as np
import pytest
from rounding import rounding

import overparam as op
from overparam.core.network import Params
from overparam.kernels import ArcCosine, Composed, FullyConnected, Residual, ResidualConvolutional
from overparam.kernels.convolutional import Convolutional
from overparam.kernels.empirical import Empirical
from overparam.layers import (
    Erf,
    Exponential,
    Flatten,
    Gelu,
    Identity,
    LayerNorm,
    LeakyRelu,
    Relu,
    Sine,
    standard,
)
from overparam.networks import Sequence
from overparam.theory import predict_loss_flow

FOLDER = Path(__file__).parent / "reference"
NOTES = json.loads((FOLDER / "neural_tangents.json").read_text(encoding="utf-8"))
with np.load(FOLDER / "neural_tangents.npz") as stored:
    ARRAYS = dict(stored)

TOLERANCE = 1e-12
KINK_TOLERANCE = 5e-8  # of theirs: on parallel inputs their ReLU angle comes from a rounded cosine

JOINS = {"Sum": standard.sum_of, "Product": standard.product_of, "Concatenate": standard.concatenated}
ACTIVATIONS = {
    "Identity": lambda: Identity(),
    "Relu": lambda: Relu(),
    "LeakyRelu": lambda alpha: LeakyRelu(alpha),
    "ABRelu": lambda a, b: LeakyRelu(a, b),
    "Abs": lambda: LeakyRelu(-1.0),
    "Erf": Erf,
    "Sigmoid_like": lambda: Erf(0.5, 1 / 2.4020563531719796, 0.5),
    "Gelu": lambda: Gelu(),
    "Sin": Sine,
    "Cos": lambda a=1.0, b=1.0, c=0.0: Sine(a, b, c + pi / 2),
    "Rbf": lambda gamma: Sine(2**0.5, (2 * gamma) ** 0.5, pi / 4),
    "Exp": Exponential,
}
HEADS = {
    "Flatten": Flatten,
    "GlobalAvgPool": standard.global_avg_pool,
    "GlobalSumPool": standard.global_sum_pool,
}
BY_THEIR_NAMES = {
    "Gaussian",
    "Gabor",
    "ExpNormalized",
    "Sign",
    "RectifiedMonomial",
    "Monomial",
    "Polynomial",
    "Hermite",
}
"""Nonlinearities of which numbers are compared through the names of theirs, in tests/neural_tangents; the page names them all."""


def names_of(layers):
    for name, arguments in layers:
        yield name
        for branch in arguments.get("branches", []):
            yield from names_of(branch)


CASES = [case for case in NOTES["cases"] if not BY_THEIR_NAMES & set(names_of(case["layers"]))]


def part(name, arguments):
    """A layer of ours from its description."""
    if name in JOINS:
        return JOINS[name](*[[part(*each) for each in branch] for branch in arguments["branches"]])
    if name in ACTIVATIONS:
        return ACTIVATIONS[name](**arguments)
    if name in HEADS:
        return HEADS[name]()
    if name == "LayerNorm":
        positions = tuple(axis - 1 for axis in arguments["axis"] if axis not in (-1, 3))
        return LayerNorm(positions, arguments.get("eps", 1e-12))
    if name == "AvgPool":
        edges = arguments.get("normalize_edges", False)
        return standard.avg_pool(
            arguments["window_shape"], arguments["strides"], arguments["padding"], normalise_edges=edges
        )
    if name == "SumPool":
        return standard.sum_pool(arguments["window_shape"], arguments["strides"], arguments["padding"])
    spread = {"W_std": arguments["W_std"], "b_std": arguments["b_std"]}
    if name == "Dense":
        spread["parameterisation"] = arguments.get("parameterization", "ntk")
        return standard.dense(arguments.get("out_dim", 1), **spread)
    assert name in ("Conv", "ConvLocal"), name
    where = [arguments[key] for key in ("filter_shape", "strides", "padding")]
    return standard.conv(arguments.get("out_chan", 1), *where, **spread, shared=name == "Conv")


def parts(layers):
    return [part(*layer) for layer in layers]


def reference(case):
    """X, Z, both kernels of X with X and Z, and where theirs has 8 digits for being parallel."""
    X, Z = (ARRAYS[f"inputs/{case['inputs']}/{side}"] for side in "XZ")
    loose = parallel(X, Z) if case["kinked"] else np.zeros((len(X), len(X) + len(Z)), bool)
    return X, Z, ARRAYS[case["name"]], loose


def parallel(X, Z):
    """Which pairs are parallel or opposite; of images also those with a black one, whose black regions are."""
    rows = [A.reshape(len(A), -1) for A in (X, np.concatenate([X, Z]))]
    one, other = (np.linalg.norm(A, axis=1) for A in rows)
    sizes = np.outer(one, other)
    zero = (sizes == 0) if X.ndim > 2 else np.add.outer(one, other) == 0
    return zero | ((sizes > 0) & (np.abs(rows[0] @ rows[1].T) >= (1 - 1e-9) * sizes))


def assert_equals_reference(kernel, case):
    """Relative to √(K(x, x) K(z, z)); entries that they give no number for are left out."""
    X, Z, both, parallel_pairs = reference(case)
    ntk, nngp = (np.hstack(pair) for pair in zip(kernel.both(X), kernel.both(X, Z), strict=True))
    for get, found, expected in zip(("nngp", "ntk"), (nngp, ntk), both, strict=True):
        assert np.isfinite(found).all()
        own = np.sqrt(kernel.diagonal(kernel.inputs(np.concatenate([X, Z])), get))
        scale = np.outer(own[: len(X)], own)
        error = np.abs(found - expected) / np.where(scale > 0, scale, 1.0)
        loose, known = parallel_pairs & (get == "ntk"), np.isfinite(expected)
        assert (known & ~loose).sum() >= 2
        assert error[known & ~loose].max() < TOLERANCE
        assert error[known & loose].max(initial=0.0) < KINK_TOLERANCE


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_composition_equals_the_reference(case):
    assert_equals_reference(Composed(parts(case["layers"])), case)


def named(*names):
    found = [case for case in NOTES["cases"] if case["name"] in names]
    assert len(found) == len(names)
    return found


def fully_connected(case):
    """`FullyConnected` where the case is one: equal activations between dense layers."""
    linear, between = case["layers"][::2], case["layers"][1::2]
    plain = all(name == "Dense" and "parameterization" not in arguments for name, arguments in linear)
    if not plain or not between or any(each != between[0] for each in between) or between[0][0] not in ACTIVATIONS:
        return None
    W_std, b_std = (tuple(arguments[key] or 0.0 for _, arguments in linear) for key in ("W_std", "b_std"))
    return FullyConnected(len(between), W_std, b_std, activation=part(*between[0]))


DEEP = [case for case in CASES if case["inputs"] == "rows" and fully_connected(case) is not None]


@pytest.mark.parametrize("case", DEEP, ids=lambda case: case["name"])
def test_the_fully_connected_kernel_equals_the_reference(case):
    assert_equals_reference(fully_connected(case), case)


def test_all_depths_of_the_fully_connected_kernel_are_covered():
    assert {fully_connected(case).depth for case in DEEP} == {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize("depth", range(1, 7))
def test_where_theirs_has_8_digits_ours_is_the_closed_form(depth):
    """ReLU with W_std² = 2 and no bias: K(x, x) = 2‖x‖²/d after every layer, and Θ(x, x) is depth + 1 times that."""
    (case,) = named(f"relu_depth{depth}")
    X, _, (_, theirs), _ = reference(case)
    exact = (depth + 1) * 2 * np.square(X).sum(axis=1) / X.shape[1]
    for kernel in (Composed(parts(case["layers"])), fully_connected(case)):
        np.testing.assert_allclose(np.diag(kernel(X)), exact, rtol=rounding(X.shape[1] + 20 * depth))
    np.testing.assert_allclose(np.diag(theirs), exact, rtol=KINK_TOLERANCE)


CONVOLUTIONAL = [case for case in CASES if case["name"].startswith(("conv_uniform", "conv_no_bias"))]


@pytest.mark.parametrize("case", CONVOLUTIONAL, ids=lambda case: case["name"])
def test_the_convolutional_kernel_equals_the_reference(case):
    *layers, (head, _), (_, last) = case["layers"]
    settings = [arguments for name, arguments in layers if name == "Conv"]
    kernel = Convolutional(
        len(settings),
        patch=settings[0]["filter_shape"][0],
        W_std=tuple(each["W_std"] for each in (*settings, last)),
        b_std=tuple(each["b_std"] or 0.0 for each in (*settings, last)),
        head="flatten" if head == "Flatten" else "pool",
        padding=settings[0]["padding"],
    )
    assert_equals_reference(kernel, case)


RESIDUAL = {
    "residual_uniform_block1": Residual(depth=3, W_std=1.4, b_std=0.1),
    "residual_uniform_block2": Residual(depth=5, W_std=1.4, b_std=0.1, per_block=2),
    "wide_resnet_uniform_gap": ResidualConvolutional(groups=2, blocks=2, W_std=1.4, b_std=0.1),
}


@pytest.mark.parametrize("case", named(*RESIDUAL), ids=lambda case: case["name"])
def test_the_residual_kernels_equal_the_reference(case):
    assert_equals_reference(RESIDUAL[case["name"]], case)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_arc_cosine_kernels_are_half_of_what_their_rectified_monomials_give(order):
    (case,) = named(f"rectified{order}_plain")
    X, Z, (nngp, _), _ = reference(case)
    expected = nngp[:, len(X) :]
    W_std = case["layers"][0][1]["W_std"]
    usable = np.linalg.norm(X, axis=1) > 0
    found = ArcCosine(order)(X[usable] * W_std / 2, Z * W_std / 2) / 2  # rows of 4 numbers: √fan-in is 2
    known = np.isfinite(expected[usable])
    assert known.sum() >= 8
    np.testing.assert_allclose(found[known], expected[usable][known], rtol=1e-10)


@pytest.mark.parametrize(
    "case", named("relu_unequal", "wide_resnet_gap", "norm_conv_all_flatten"), ids=lambda c: c["name"]
)
def test_a_network_has_the_kernel_of_its_layers(case):
    kernel = Sequence(parts(case["layers"])).kernel()
    assert_equals_reference(kernel, case)
    X, Z = (ARRAYS[f"inputs/{case['inputs']}/{side}"] for side in "XZ")
    for get, values in zip(("ntk", "nngp"), kernel.both(X, Z), strict=True):
        np.testing.assert_array_equal(kernel(X, Z, get=get), values)


FINITE = json.loads((FOLDER / "neural_tangents_finite.json").read_text(encoding="utf-8"))
with np.load(FOLDER / "neural_tangents_finite.npz") as stored:
    FINITE_ARRAYS = dict(stored)


@pytest.mark.parametrize("name", FINITE)
def test_a_finite_network_with_their_weights_has_their_outputs_and_tangent_kernel(name):
    """Weights have units first here and last there; biases have no axes of length 1."""
    X, outputs, full, trace = (FINITE_ARRAYS[f"{name}/{key}"] for key in ("X", "outputs", "full", "trace"))
    net = Sequence(parts(FINITE[name]))
    theirs = {key.split("/")[1]: array for key, array in FINITE_ARRAYS.items() if key.startswith(f"{name}/")}
    mine = {
        key: np.moveaxis(theirs[key], -1, 0) if key.endswith("W") else theirs[key].reshape(-1)
        for key in net.init(0, X.shape[1:]).trained
    }
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(lambda x: net.apply(Params(mine, {}), x))(X))
    np.testing.assert_allclose(found.reshape(outputs.shape), outputs, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(np.einsum("ijaa->ij", full) / full.shape[-1], trace, rtol=1e-10)  # as `outputs="trace"`
    if name != "conv_flatten":  # compiling takes seconds
        np.testing.assert_allclose(Empirical(net, Params(mine, {})).full(X), full, rtol=1e-10, atol=1e-12)


def test_predictions_equal_those_of_their_predict():
    """Their loss is ½ of the mean over rows and outputs; their ridge is a share of the mean diagonal."""
    told = NOTES["predictions"]
    X, Z, y, H, K = (ARRAYS[f"predictions/{name}"] for name in ("X", "Z", "y", "H", "K"))
    kernel = Composed(parts(told["layers"]))
    mean = {get: np.trace(kernel(X, get=get)) / len(X) for get in ("nngp", "ntk")}
    np.testing.assert_allclose(kernel(Z, X), K, rtol=1e-12)
    np.testing.assert_allclose(op.predict(H, y, K).values, ARRAYS["predictions/limit_new"], rtol=1e-9)
    for get, share in mean.items():
        found = op.predict(kernel(X, get=get), y, kernel(Z, X, get=get), ridge=told["diag_reg"] * share)
        np.testing.assert_allclose(found.values, ARRAYS[f"predictions/ridge_{get}"], rtol=1e-7)
    rate = op.max_learning_rate(H, loss="mean").value * y.shape[1]
    assert rate == pytest.approx(told["max_learning_rate"], rel=1e-9)
    times, eta = np.array(told["t"]), told["learning_rate"]
    curve = predict_loss_flow(op.quadrature(H, y), times * eta / y.shape[1], loss="mean")
    losses = ((ARRAYS["predictions/flow_train"] - y) ** 2).sum(axis=(1, 2)) / (2 * len(y))
    np.testing.assert_allclose(curve.values, losses, rtol=1e-9)
    steps = 4000
    for time, expected in zip(times, ARRAYS["predictions/flow_new"], strict=True):
        lr = eta * time / steps / y.shape[1]
        found = op.predict(H, y, K, steps=steps, lr=lr, loss="mean").values
        halved = op.predict(H, y, K, steps=2 * steps, lr=lr / 2, loss="mean").values
        np.testing.assert_allclose(2 * halved - found, expected, atol=2e-7)  # steps to flow: the error is linear in lr


def test_the_page_names_these_too():
    page = (Path(__file__).parents[2] / "docs" / "coming_from_neural_tangents.md").read_text(encoding="utf-8")
    assert {name for name in BY_THEIR_NAMES if f"`{name}" not in page} == set()
