"""Ground truths of two and three layers: the formula by hand, the assumptions, the law of the inputs, samples."""

import re

import numpy as np
import pytest

from overparam.data import SmoothFunction, ThreeLayerTarget, TwoLayerTarget, padded_inputs


def test_the_formula_written_out_with_loops():
    rng = np.random.default_rng(0)

    def unit(*shape):
        rows = rng.standard_normal(shape)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    W1, W2, V1, V2, a = unit(2, 5), unit(2, 5), unit(3, 2), unit(3, 2), rng.uniform(-1, 1, (4, 3))
    outer, first, second = (np.sin, np.tanh, np.exp), (np.cos, np.square), (np.sin, lambda z: 2 + z)
    target = ThreeLayerTarget(W1, W2, V1, V2, a, outer, first, second, scale=1.7)
    assert (target.d, target.p1, target.p2, target.outputs) == (5, 3, 2, 4)
    X = rng.standard_normal((6, 5))
    found = target(X)
    for n, x in enumerate(X):
        for r in range(4):
            total = 0.0
            for i in range(3):
                inside = sum(V1[i, j] * first[j](W1[j] @ x) for j in range(2))
                factor = sum(V2[i, j] * second[j](W2[j] @ x) for j in range(2))
                total += a[r, i] * outer[i](inside) * factor
            assert found[n, r] == pytest.approx(1.7 * total)


def test_the_general_form_and_two_layers_written_out_with_loops():
    rng = np.random.default_rng(1)
    target = ThreeLayerTarget.draw(
        5, p1=2, p2=3, outputs=2, outer=(np.sin, np.exp), first="cos", general=True, variance=1.3, key=4
    )
    X = rng.standard_normal((5, 5))
    found = target(X)
    for n, x in enumerate(X):
        for r in range(2):
            total = 0.0
            for i, outer in enumerate((np.sin, np.exp)):
                first = sum(target.V1[i, j] * np.cos(target.W1[j] @ x) * (target.W3[j] @ x) for j in range(3))
                second = sum(target.V2[i, j] * np.cos(target.W2[j] @ x) * (target.W4[j] @ x) for j in range(3))
                total += target.a[r, i] * outer(first) * second
            assert found[n, r] == pytest.approx(target.scale * total)
    two = TwoLayerTarget.draw(5, p=3, outputs=2, functions=(np.exp, "sin", "square"), key=2)
    found = two(X)
    for n, x in enumerate(X):
        for r in range(2):
            phi = (np.exp, np.sin, np.square)
            total = sum(two.a[r, i] * phi[i](two.W1[i] @ x) * (two.W2[i] @ x) for i in range(3))
            assert found[n, r] == pytest.approx(total)


def test_last_coordinates_give_half_a_plain_two_layer_network():
    rows = TwoLayerTarget.draw(6, p=2, functions="tanh", key=0)
    plain = TwoLayerTarget(rows.W1, np.eye(6)[[5, 5]], rows.a, "tanh")
    X = plain.inputs(20, key=1)
    np.testing.assert_allclose(2 * plain(X), np.tanh(X @ rows.W1.T) @ rows.a[0])


def test_several_outputs_are_sampled_together():
    target = TwoLayerTarget.draw(6, outputs=3, key=0, variance=1.0)
    data = target.sample(4000, key=1, noise=0.5, test=20)
    assert (data.task, data.y.shape, data.test.y.shape) == ("regression", (4000, 3), (20, 3))
    squares = ((data.y - target(data.X)) ** 2).sum(axis=1)
    assert target.opt(noise=0.5) == pytest.approx(3 * 0.25 / 2)  # half the mean square, summed over outputs
    assert abs(squares.mean() / 2 - target.opt(noise=0.5)) < 3 * squares.std() / 2 / np.sqrt(4000)
    found = target.measure_variance(key=5)
    assert abs(found.value - 3.0) < 4 * found.standard_error  # the variance asked for is that of the mean output
    noisy = target.sample(5, key=1, test=2000, test_noise=0.2).test
    errors = noisy.y - target(noisy.X)
    assert abs(errors.var() - 0.04) < 4 * 0.04 * np.sqrt(2 / 6000)


def test_drawn_weights_meet_the_assumptions_and_follow_the_key():
    target = ThreeLayerTarget.draw(7, p1=3, p2=2, outputs=2, key=5)
    for rows in (target.W1, target.W2, target.V1, target.V2):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)
    assert set(np.unique(target.a)) <= {-1.0, 1.0}
    again, other = ThreeLayerTarget.draw(7, p1=3, p2=2, outputs=2, key=5), ThreeLayerTarget.draw(7, p1=3, p2=2, key=6)
    assert np.array_equal(target.W1, again.W1)
    assert not np.array_equal(target.W1, other.W1)


def test_the_named_example_of_two_fast_cosines():
    fast = SmoothFunction("cos", 100.0)
    target = ThreeLayerTarget.draw(6, p1=1, p2=1, outer="identity", first=fast, second=fast, key=1)
    X = padded_inputs(50, 6, key=2)
    sign = target.a[0, 0] * target.V1[0, 0] * target.V2[0, 0]
    wanted = sign * np.cos(100 * X @ target.W1[0]) * np.cos(100 * X @ target.W2[0])
    np.testing.assert_allclose(target(X), wanted)
    assert "cos(100z)" in repr(target)


def test_a_constant_second_factor_is_a_plain_three_layer_network():
    target = ThreeLayerTarget.draw(6, p1=2, p2=2, outer="tanh", first="sin", second="one", key=3)
    X = padded_inputs(20, 6, key=4)
    a = target.a[0] * target.V2.sum(axis=1)
    np.testing.assert_allclose(target(X), np.tanh(np.sin(X @ target.W1.T) @ target.V1.T) @ a)


def test_the_variance_asked_for_is_that_of_new_inputs():
    target = ThreeLayerTarget.draw(8, outer="tanh", first=SmoothFunction("sin", 4), variance=2.0, key=0)
    y = target(padded_inputs(20_000, 8, key=9))
    kurtosis = np.mean((y - y.mean()) ** 4) / y.var() ** 2
    error = 2.0 * np.sqrt((kurtosis - 1) * (1 / 20_000 + 1 / 2**15))  # of both samples
    assert abs(y.var() - 2.0) < 4 * error


def test_inputs_are_uniform_on_what_the_padding_can_give():
    X = padded_inputs(20_000, 6, key=0)
    np.testing.assert_allclose((X**2).sum(axis=1), 1)
    assert (X[:, -1] == 0.5).all()
    assert (X[:, -2] >= 0).all()
    body = X[:, :-1] / np.sqrt(0.75)  # a half sphere in five dimensions: E u_i² = 1/5, Var u_i² = 3/35 − 1/25
    error = np.sqrt((3 / 35 - 1 / 25) / 20_000)
    assert np.abs((body**2).mean(axis=0) - 0.2).max() < 4 * error
    assert np.abs(body[:, :-1].mean(axis=0)).max() < 4 * np.sqrt(0.2 / 20_000)


def test_samples_are_nested_and_noise_is_on_training_labels_alone():
    target = ThreeLayerTarget.draw(5, key=0)
    few, many = target.sample(10, key=3, noise=0.5), target.sample(4000, key=3, noise=0.5, test=30)
    assert np.array_equal(few.X, many.X[:10])
    assert np.array_equal(few.y, many.y[:10])
    errors = many.y - target(many.X)
    assert abs(errors.var() - 0.25) < 4 * 0.25 * np.sqrt(2 / 4000)
    assert np.array_equal(many.test.y, target(many.test.X))
    assert not np.isin(many.test.X[:, 0], many.X[:, 0]).any()
    assert (many.task, many.y.shape) == ("regression", (4000,))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ThreeLayerTarget.draw(2), "`d` is 2; expected a whole number ≥ 3"),
        (lambda: ThreeLayerTarget.draw(5, p1=0), "`p1` is 0"),
        (lambda: ThreeLayerTarget.draw(5, first="relu"), "'relu' is no series of ours"),
        (lambda: ThreeLayerTarget.draw(5, outer=("sin",) * 3), "`outer` has 3 functions; expected one, or 2"),
        (lambda: ThreeLayerTarget.draw(5, second=(1.0, 2.0)), "`second` has 1.0"),
        (lambda: ThreeLayerTarget.draw(5, first="one", second="one", variance=1.0), "the target is constant"),
        (lambda: ThreeLayerTarget.draw(5, variance=-1.0), "`variance` is -1.0"),
        (lambda: ThreeLayerTarget.draw(5)(np.zeros((3, 4))), "`X` has 4 columns; the target takes 5"),
        (lambda: ThreeLayerTarget.draw(5).sample(3, key=0, test=-1), "`test` is -1; expected a whole number ≥ 0"),
        (lambda: ThreeLayerTarget.draw(5).sample(3, key=0, flips=0.1), "`flips` is for targets with values ±1"),
        (lambda: ThreeLayerTarget(*[np.ones((1, 1))] * 5, W3=np.ones((1, 1))), "`W3` and `W4` go together"),
        (
            lambda: ThreeLayerTarget(*[np.ones((1, 1))] * 5, W3=[[1.0]], W4=[[0.5]]),
            "`W4` has a row whose norm is not 1",
        ),
        (lambda: TwoLayerTarget.draw(2), "`d` is 2; expected a whole number ≥ 3"),
        (lambda: TwoLayerTarget.draw(5, p=0), "`p` is 0"),
        (lambda: TwoLayerTarget([[1.0]], [[2.0]], [[1.0]]), "`W2` has a row whose norm is not 1"),
        (lambda: TwoLayerTarget([[1.0]], [[1.0]], [[1.0, 1.0]]), "`W1` has shape (1, 1); expected (2, 1)"),
        (lambda: TwoLayerTarget([[1.0]], [[1.0]], [[-3.0]]), "`a` has an entry of size 3"),
        (lambda: TwoLayerTarget.draw(5, functions="relu"), "'relu' is no series of ours"),
        (lambda: ThreeLayerTarget.draw(5).sample(0, key=0), "`n` is 0"),
        (lambda: ThreeLayerTarget.draw(5).sample(3, key=0, noise=-1.0), "`noise` is -1.0"),
        (lambda: ThreeLayerTarget(*[np.full((1, 1), 2.0)] * 5), "`W1` has a row whose norm is not 1"),
        (lambda: ThreeLayerTarget(*[np.ones((1, 1))] * 4, [[1.5]]), "`a` has an entry of size 1.5"),
        (lambda: ThreeLayerTarget(*[np.ones((1, 1))] * 4, [[1.0, 1.0]]), "`V1` has shape (1, 1); expected (2, 1)"),
    ],
)
def test_bad_arguments_are_one_line(make, said):
    with pytest.raises(ValueError, match=re.escape(said)) as raised:
        make()
    assert "\n" not in str(raised.value)
