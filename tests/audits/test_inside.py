"""Networks of the house seen from inside, against explicit products of matrices and finite differences."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from overparam import networks
from overparam.audits.gradient_factors import gradients_by_fact
from overparam.audits.jax_inside import JaxInside
from overparam.audits.subject import inside_of
from overparam.core.network import Params, Trace, Unseen
from overparam.layers import Flatten, Gelu, LayerNorm, LeakyRelu, Relu, standard
from overparam.networks import Frozen, FullyConnected, Given, Residual, Sequence, ThreeLayerResNet, TwoLayer

RNG = np.random.default_rng(0)
IMAGE = (
    standard.conv(3, 3, 1, "SAME", 1.4, 0.3), LeakyRelu(0.1), standard.avg_pool(2, 2), standard.conv(2, 2, b_std=0.2),
    Relu(), Flatten(), standard.dense(3, 1.4, 0.1),
)  # fmt: skip
NETS = {
    "fully connected": (FullyConnected(width=6, depth=4, outputs=2), 5),
    "all trained": (FullyConnected(width=6, depth=3, outputs=2, trained="all"), 5),
    "residual": (Residual(width=6, depth=4, outputs=2, c=0.2), 5),
    "three-layer ResNet": (ThreeLayerResNet(width=7, outputs=3), 4),
    "positions": (networks.Convolutional(width=2, depth=2, positions=(3, 3), patch=2, outputs=2, separation=1.0), 9),
    "image": (Sequence(IMAGE, image=(5, 5, 1)), 25),
    "two layers": (TwoLayer(width=8), 4),
    "frozen": (Frozen(FullyConnected(width=6, depth=3), ("W2",)), 5),
}


def some_params(net, inputs):
    """Weights of the size of the network's own, drawn by NumPy: JAX would compile a program for every shape."""
    rng, shapes = np.random.default_rng(1), jax.eval_shape(lambda: net.init(1, inputs))
    return jax.tree.map(lambda leaf: rng.standard_normal(leaf.shape) * (2 / max(leaf.shape[-1], 2)) ** 0.5, shapes)


def drawn(name, n=3):
    net, inputs = NETS[name]
    X = np.random.default_rng(len(name)).standard_normal((n, inputs))
    return net, some_params(net, inputs), X / np.linalg.norm(X, axis=1, keepdims=True)


def seen(name, n=3):
    return inside_of(*drawn(name, n))


def normal(*shape):
    return RNG.standard_normal(shape)


def places(inside):
    return [(start, end) for end in range(inside.count + 1) for start in range(-1, end)]


def jacobians(inside, weights, start, end, gates=None):
    """(n, size of end, size of start), by pushing every unit vector."""
    units = np.eye(inside.size(start))
    columns = [inside.push(weights, start, np.tile(e, (inside.samples, 1)), end, gates) for e in units]
    return np.stack(columns, axis=2)


def close(found, expected, rtol=1e-12):
    assert found.shape == expected.shape
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * max(1.0, np.abs(expected).max()))


def test_products_of_the_fully_connected_network():
    """push is W_b D_{b−1} ⋯ D_a W_a and with end = count the backward matrix of Def. 2.5, formed here by hand."""
    net, params, X = drawn("fully connected")
    inside = inside_of(net, params, X)
    A, B, W = np.asarray(params.fixed["A"]), np.asarray(params.fixed["B"]), inside.weights
    maps = [A, W["W1"], W["W2"], W["W3"], B]
    for given in (None, tuple(normal(3, 6) for _ in range(4))):
        h, gates = X, []
        for place in range(4):
            g = h @ maps[place].T
            gates.append((g > 0).astype(float) if given is None else given[place])
            h = g * gates[-1]
        close(inside.trace(W, given).output, h @ B.T)
        for start, end in places(inside):
            product = np.tile(maps[start + 1], (3, 1, 1))
            for place in range(start + 1, end):
                product = maps[place + 1] @ (gates[place][:, :, None] * product)
            close(jacobians(inside, W, start, end, given), product)


def test_products_with_skips():
    """h_ℓ = σ((1 + τW_ℓ) h_{ℓ−1}); and out = A h_0 + A σ(V (A h_0, 1)), whose output sees h_0 in two ways."""
    inside, (net, params, _) = seen("residual"), drawn("residual")
    W, gates = inside.weights, inside.gates(inside.trace(inside.weights))
    first = np.eye(6) + net.tau * W["W1"]
    second = np.eye(6) + net.tau * W["W2"]
    close(jacobians(inside, W, 0, 2), second @ (gates[1][:, :, None] * first))
    close(jacobians(inside, W, 1, 3), W["W3"] @ (gates[2][:, :, None] * second))

    inside, (_, params, _) = seen("three-layer ResNet"), drawn("three-layer ResNet")
    W, A = inside.weights, np.asarray(params.fixed["A"])
    on = inside.gates(inside.trace(W))[1]
    V = W["V"][:, :-1]
    close(jacobians(inside, W, 0, 1), np.tile(V @ A, (3, 1, 1)))
    close(jacobians(inside, W, 0, 2), A + A @ (on[:, :, None] * (V @ A)))


@pytest.mark.parametrize("name", NETS)
def test_derivatives_are_those_of_finite_differences(name):
    """Steps of 1e-6 change no sign here, so that differences are exact up to rounding over the step."""
    net, params, X = drawn(name)
    inside, step = inside_of(net, params, X), 1e-6
    W, n = inside.weights, len(X)
    trace = inside.trace(W)
    assert min(np.abs(g).min() for g in trace.pre_activations) > 10 * step
    v = normal(*X.shape)
    ahead, behind = (inside_of(net, params, X + s * v).trace(W) for s in (step, -step))
    for end in range(inside.count + 1):
        a, b = (t.output if end == inside.count else t.pre_activations[end] for t in (ahead, behind))
        close(inside.push(W, -1, v, end), (a - b) / (2 * step), 1e-8)

    direction = {key: normal(*shape) for key, shape in inside.shapes.items()}
    there, back = ({key: W[key] + s * direction[key] for key in W} for s in (step, -step))
    moved, ahead, behind = inside.along(W, direction), inside.trace(there), inside.trace(back)
    change = jax.tree.map(lambda a, b: (a - b) / (2 * step), ahead, behind)
    jax.tree.map(lambda a, b: close(a, b, 1e-8), moved, change)

    start, end = inside.count - 1 if inside.count == 1 else 0, inside.count
    V, U = normal(n, inside.size(start)), normal(n, inside.size(end))
    gates = inside.gates(trace)
    value = [np.sum(U * inside.push(w, start, V, end, gates)) for w in (there, back)]
    slope = inside.push_gradient(W, start, V, end, U)
    total = sum(np.sum(slope[key] * direction[key]) for key in W)
    assert total == pytest.approx((value[0] - value[1]) / (2 * step), abs=1e-7)


@pytest.mark.parametrize("name", NETS)
def test_backward_maps_are_the_transposes_of_the_forward_ones(name):
    inside = seen(name)
    W = {key: array + 0.1 * normal(*array.shape) for key, array in inside.weights.items()}
    for start, end in places(inside):
        V, U = normal(3, inside.size(start)), normal(3, inside.size(end))
        pushed, pulled = inside.push(W, start, V, end), inside.pull(W, end, U, start)
        close(np.sum(pushed * U, axis=1), np.sum(pulled * V, axis=1))
    direction = {key: normal(*array.shape) for key, array in W.items()}
    layers = [tuple(normal(3, width) for width in inside.widths) for _ in range(2)]
    cotangent = Trace(normal(3, inside.outputs), (None, *layers[0][1:]), layers[1])
    slope, moved = inside.gradient(W, cotangent), inside.along(W, direction)
    forward = np.sum(cotangent.output * moved.output) + sum(
        np.sum(a * b) for a, b in zip(layers[1], moved.activations, strict=True)
    )
    forward += sum(np.sum(a * b) for a, b in zip(layers[0][1:], moved.pre_activations[1:], strict=True))
    assert sum(np.sum(slope[key] * direction[key]) for key in W) == pytest.approx(forward, rel=1e-11)


@pytest.mark.parametrize("name", ["fully connected", "all trained", "two layers"])
def test_gradients_by_the_fact_are_the_automatic_ones(name):
    """Fact 2.6 and the gradient of JAX through the whole network, at weights that are not the first ones."""
    net, params, X = drawn(name, n=5)
    inside = inside_of(net, params, X)
    W = {key: array + 0.3 * normal(*array.shape) for key, array in inside.weights.items()}
    losses = normal(5, inside.outputs)
    layers = {"fully connected": {"W1": 1, "W2": 2, "W3": 3}, "all trained": {"W1": 1, "W2": 2, "B": 3}}.get(name, {})
    found = gradients_by_fact(inside, W, losses, layers)
    with jax.enable_x64(True):
        slope = jax.jit(
            jax.grad(lambda trained: (net.apply(replace(params, trained=trained), X).reshape(5, -1) * losses).sum())
        )(W)
    for key in layers:
        close(found[key], np.asarray(slope[key]))
    for key, array in inside.gradient(W, Trace(losses, (), ())).items():
        close(array, np.asarray(slope[key]))
    with pytest.raises(ValueError, match="expected a matrix from one ReLU layer to the next"):
        gradients_by_fact(inside, W, losses, {next(iter(W)): 0})


def test_batches_of_rows_change_nothing():
    """Seven rows in batches of three: the last one is filled up."""
    net, params, X = drawn("three-layer ResNet", n=7)
    whole, parts = JaxInside(net, params, X), JaxInside(net, params, X, memory=2_500)
    assert len(whole._X) == 1
    assert len(parts._X) > 2
    assert 7 % len(parts._X[0])
    W, count = whole.weights, whole.count
    V, U, gates = normal(7, whole.widths[0]), normal(7, 3), tuple(normal(7, width) for width in whole.widths)
    cotangent = Trace(U, (None, normal(7, whole.widths[1])), ())
    jax.tree.map(close, parts.trace(W), whole.trace(W))
    jax.tree.map(close, parts.along(W, W, gates), whole.along(W, W, gates))
    jax.tree.map(close, *(dict(own.gradient(W, cotangent)) for own in (parts, whole)))
    close(parts.push(W, 0, V, count), whole.push(W, 0, V, count))
    close(parts.pull(W, count, U, 0, gates), whole.pull(W, count, U, 0, gates))
    pair = (dict(part.push_gradient(W, 0, V, count, U, gates)) for part in (parts, whole))
    jax.tree.map(close, *pair)


def test_weights_changed_in_place_are_not_taken_for_the_old_ones():
    inside = seen("fully connected")
    W, V = {name: array.copy() for name, array in inside.weights.items()}, normal(3, 6)
    before = inside.push(W, 0, V, 4)
    W["W1"] *= 2
    close(inside.push(W, 0, V, 4), 2 * before)
    W["W1"] *= -1
    assert not np.allclose(inside.push(W, 0, V, 4), -2 * before)  # the signs after W1 are others now
    W["W1"] /= -2
    close(inside.push(W, 0, V, 4), before)
    with pytest.raises(ValueError, match="read-only"):
        inside.weights["W1"][:] = 0


def aligned(array):
    """A copy that begins where JAX takes an array as it lies, instead of copying it."""
    room = np.empty(8 * array.size + 64, np.uint8)
    first = -room.ctypes.data % 64
    made = room[first : first + 8 * array.size].view(np.float64).reshape(array.shape)
    made[...] = array
    return made


def test_weights_of_numpy_are_copied():
    net, params, X = drawn("fully connected", n=3)
    own, fixed = ({name: aligned(array) for name, array in part.items()} for part in (params.trained, params.fixed))
    inside = JaxInside(net, Params(own, fixed), X)
    before = inside.trace(inside.weights).output
    for array in (*own.values(), *fixed.values()):
        array[:] = 0
    close(inside.trace(inside.weights).output, before)


def test_what_a_network_is_told_of_it():
    inside = seen("image")
    assert inside.widths == (75, 2)
    assert (inside.slopes, inside.unseen, inside.exact) == ((0.1, 0.0), (), True)
    assert (inside.samples, inside.inputs, inside.outputs, inside.count) == (3, 25, 3, 2)
    layers = [standard.dense(4), LayerNorm(), Gelu(), standard.dense(4), Relu(), standard.dense(1)]
    net = Sequence(layers)
    params = some_params(net, 3)
    inside = inside_of(net, params, normal(2, 3))
    assert inside.widths == (4,)
    assert not inside.exact
    assert inside.unseen == (Unseen("norm", ("layer norm",)), Unseen("other", ("Gelu",)))
    close(inside.push(inside.weights, 0, np.eye(4)[:2], 1), np.asarray(params.trained["5.W"])[:, :2].T / 2)


def test_float32_keeps_its_digits():
    net, params, X = drawn("fully connected")
    short, long = inside_of(net, params, X, "float32"), inside_of(net, params, X)
    V = normal(3, 6)
    found, exact = (inside.push(inside.weights, 0, V, 4) for inside in (short, long))
    assert 0 < np.abs(found - exact).max() < 1e-5 * np.abs(exact).max()


@pytest.mark.parametrize("name", ["fully connected", "residual", "three-layer ResNet", "positions", "image"])
def test_relus_found_in_the_steps_are_those_of_the_layers(name):
    """The same function as one that is merely given: its ReLUs are found in its program."""
    net, params, X = drawn(name)
    given = Given(lambda trained, x: net.apply(Params(trained, params.fixed), x), params.trained)
    own, found = inside_of(net, params, X), inside_of(given, given.init(0), X)
    W, end = own.weights, own.count
    assert (found.widths, found.slopes, found.unseen) == (own.widths, own.slopes, own.unseen)
    jax.tree.map(close, found.trace(W), own.trace(W))
    V, U = normal(3, own.widths[0]), normal(3, own.outputs)
    close(found.push(W, 0, V, end), own.push(W, 0, V, end))
    close(found.pull(W, end, U, 0), own.pull(W, end, U, 0))
    jax.tree.map(close, *(dict(one.push_gradient(W, 0, V, end, U)) for one in (found, own)))


def test_bad_arguments_are_one_line():
    net, params, X = drawn("fully connected")
    inside = inside_of(net, params, X)
    W, V = inside.weights, normal(3, 6)
    cases = [
        (lambda: inside.push(W, 2, V, 2), "−1 ≤ start < end ≤ 4"),
        (lambda: inside.push(W, 0, V[:2], 2), r"`V` has shape \(2, 6\); expected \(3, 6\)"),
        (lambda: inside.push(W, 0, V, 2, gates=(V,)), "`gates` have shapes"),
        (lambda: inside.trace({**W, "A": V}), "`weights` has 'A'; the trained weights are W1, W2, W3"),
        (lambda: inside.trace({"W1": W["W1"]}), "`weights` lacks 'W2'"),
        (lambda: inside.along(W, {"W1": V}), r"`direction` has 'W1' of shape \(3, 6\); expected \(6, 6\)"),
        (lambda: inside.gradient(W, Trace(None, (V,), ())), "`pre_activations` of the cotangent are 1; expected 4"),
        (lambda: inside_of(net, params, X[0]), "expected samples"),
        (lambda: inside_of(net, params, X[:0]), "expected samples"),
        (
            lambda: inside_of(net, params, np.where(np.arange(15).reshape(3, 5) == 6, np.nan, X)),
            "not finite .first: row 1",
        ),
        (lambda: inside_of(net, None, X), "`params` is a NoneType"),
        (lambda: inside_of(net, params, X, "float16"), "`dtype` is 'float16'"),
        (lambda: inside_of("net", params, X), "`network` is a str"),
    ]
    for call, words in cases:
        with pytest.raises(ValueError, match=words):
            call()
