"""Kernels read from the layers: against closed forms, 50 digits, and finite networks."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from overparam import kernels, networks
from overparam.core.network import Params
from overparam.networks.composed import AbstractComposed


def some_rows(n=6, d=5, seed=0, unit=False):
    X = np.random.default_rng(seed).standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True) if unit else X


def with_close_rows(X):
    """Rows beside X: nearly, exactly and oppositely parallel, and of another norm."""
    noise = np.random.default_rng(9).standard_normal(X.shape)
    return np.concatenate([X, X + 1e-5 * noise, X + 1e-11 * noise, -X + 1e-9 * noise, -X, 3 * X])


@pytest.mark.parametrize("paired", [False, True])
def test_two_layer_is_the_kernel_of_its_paper(paired):
    X = with_close_rows(some_rows())
    kernel, known = networks.TwoLayer(8, kappa=0.5, paired=paired).kernel(), kernels.TwoLayer()
    scale = np.linalg.norm(X, axis=1)
    size = scale[:, None] * scale
    assert np.abs((kernel(X) - known(X)) / size).max() <= 1e-14
    assert np.abs((kernel(X, get="nngp") / 0.25 - known(X, get="nngp")) / size).max() <= 1e-14


def fully_connected_ntk(rho, L):
    """K of the science sheet for unit rows: Σ_ℓ q_{ℓ−1} ½ arccos0(ρ_L) Π_{j=ℓ}^{L−1} arccos0(ρ_j)."""

    def arccos0(r):
        return (np.pi - np.arccos(r)) / np.pi

    def arccos1(r):
        return (np.sqrt((1 - r) * (1 + r)) + r * (np.pi - np.arccos(r))) / np.pi

    q = {-1: rho}
    for l in range(L):
        q[l] = arccos1(q[l - 1])
    terms = [
        q[l - 1] * 0.5 * arccos0(q[L - 1]) * np.prod([arccos0(q[j - 1]) for j in range(l, L)], axis=0)
        for l in range(1, L + 1)
    ]
    return np.sum(terms, axis=0)


@pytest.mark.parametrize("L", [1, 2, 5])
def test_fully_connected_ntk_is_the_closed_form(L):
    X, (m, k) = some_rows(n=8, unit=True), (30, 4)
    kernel = networks.FullyConnected(m, depth=L + 1, outputs=k).kernel()
    inner = X @ X.T
    np.fill_diagonal(inner, 0.0)  # arccos of a rounded 1 keeps 8 digits only
    closed = fully_connected_ntk(inner, L)
    np.fill_diagonal(closed, L / 2)
    np.testing.assert_allclose(kernel(X) * k / m, closed, rtol=0, atol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(X) * k / m, L / 2, rtol=1e-13)
    np.testing.assert_allclose(kernel(3 * X), 9 * kernel(X), rtol=1e-13)  # of degree 1 in each row


def test_deep_kernels_keep_their_digits_next_to_parallel():
    """FullyConnected against 50 digits, from the angle of the rows as they are stored."""
    net, L, m = networks.FullyConnected(10, depth=5), 4, 10
    rng = np.random.default_rng(3)
    for gap in (0.5, 1e-2, 1e-4, 1e-8, 1e-12, 0.0):
        x = rng.standard_normal(4)
        for z in (x + gap * rng.standard_normal(4), -x + gap * rng.standard_normal(4)):
            with mpmath.workdps(50):
                xs, zs = [mpmath.mpf(float(t)) for t in x], [mpmath.mpf(float(t)) for t in z]
                nx, nz = mpmath.sqrt(sum(t * t for t in xs)), mpmath.sqrt(sum(t * t for t in zs))
                q = [sum(s * t for s, t in zip(xs, zs, strict=True)) / nx / nz]
                for _ in range(L):
                    angle = mpmath.acos(min(max(q[-1], -1), 1))
                    q.append((mpmath.sin(angle) + q[-1] * (mpmath.pi - angle)) / mpmath.pi)
                half = [
                    (mpmath.pi - mpmath.acos(min(max(r, -1), 1))) / mpmath.pi for r in q
                ]  # half[l] of ρ_l = q_{l−1}
                ntk = sum(q[l] * half[L] / 2 * mpmath.fprod(half[l:L]) for l in range(1, L + 1)) * nx * nz * m
                angle = mpmath.acos(min(max(q[L], -1), 1))  # h_L itself is one more dual
                nngp = (mpmath.sin(angle) + q[L] * (mpmath.pi - angle)) / mpmath.pi * nx * nz
            assert abs(net.kernel().evaluate(x, z) / float(ntk) - 1) <= 2e-14, gap
            assert abs(net.kernel().evaluate(x, z, get="nngp") / float(nngp) - 1) <= 2e-14, gap


def test_biases_drawn_from_a_mixture_are_averaged_over():
    """Half the neurons see x·z, half x·z + 2: two kernels of rows with and without a coordinate √2."""
    X, net = some_rows(), networks.BiasedTwoLayer(30, output_std=0.3)
    longer, H = np.column_stack([X, np.full(len(X), 2**0.5)]), kernels.TwoLayer()
    active = [H(rows) / (rows @ rows.T) for rows in (X, longer)]
    np.testing.assert_allclose(
        net.kernel()(X), 30 * 0.09 * (X @ X.T) * (active[0] + active[1]) / 2, rtol=1e-10, atol=1e-13
    )
    nngp = (H(X, get="nngp") + H(longer, get="nngp")) / 2
    np.testing.assert_allclose(net.kernel()(X, get="nngp"), 0.09 * nngp, rtol=1e-13)


def test_shared_weights_have_the_same_kernel_without_pooling():
    X, options = some_rows(d=12), {"depth": 4, "positions": (3, 4), "patch": 3, "separation": 5.0}
    alone = networks.Convolutional(3, **options).kernel()
    shared = networks.Convolutional(3, shared=True, **options).kernel()
    np.testing.assert_array_equal(alone(X), shared(X))


def convolutional_ntk(net, x, z):
    """Position by position on a line, at 50 digits: (Σ, Θ) of h_ℓ at j from those around j at ℓ − 1."""
    m, P, q, L = net.width, net.positions, net.patch, net.depth - 1

    def duals(xx, zz, xz):
        size = mpmath.sqrt(xx * zz)
        angle = mpmath.acos(min(max(xz / size, -1), 1))
        return (size * mpmath.sin(angle) + xz * (mpmath.pi - angle)) / (2 * mpmath.pi), (mpmath.pi - angle) / (
            2 * mpmath.pi
        )

    def around(values):
        return [sum(values[(j + o) % P] for o in range(-((q - 1) // 2), q // 2 + 1)) for j in range(P)]

    with mpmath.workdps(50):
        x, z = [mpmath.mpf(float(t)) for t in x], [mpmath.mpf(float(t)) for t in z]
        moments = [[a * b for a, b in zip(u, v, strict=True)] for u, v in ((x, x), (z, z), (x, z))]
        theta = [mpmath.mpf(0)] * P
        for l in range(L):
            bias, inner, below = mpmath.mpf(net.tau) ** 2 if l else 0, around(moments[2]), around(theta)
            pre = [[(value + bias) * 2 / (q * m) for value in around(values)] for values in moments]
            out = [duals(*three) for three in zip(*pre, strict=True)]
            theta = [slope * (inner[j] * (l > 0) + 2 * below[j] / q) for j, (_, slope) in enumerate(out)]
            moments = [[m * v / 2 for v in pre[0]], [m * v / 2 for v in pre[1]], [m * moment for moment, _ in out]]
        sums = [sum(values) for values in moments]
        _, slope = duals(*(2 * value / (P * m) for value in sums))
        return float(mpmath.mpf(P * m) / net.outputs * slope * (sums[2] + 2 * sum(theta) / P))


@pytest.mark.parametrize("gap", [1.0, 1e-3, 1e-6, 1e-9, 1e-13, 0.0])
def test_convolutional_is_the_recursion_position_by_position(gap):
    net = networks.Convolutional(3, depth=4, positions=5, patch=3, outputs=2, separation=8.0)
    x, noise = some_rows(n=2)
    for z in (x + gap * noise, 2 * x + gap * noise, -x + gap * noise):
        size = np.sqrt(np.prod([net.kernel().evaluate(row, row) for row in (x, z)]))
        assert abs(net.kernel().evaluate(x, z) - convolutional_ntk(net, x, z)) <= 1e-14 * size


def test_a_patch_of_everything_is_fully_connected_in_the_first_layers():
    """Where every position sees all others they have one covariance, P times over: a fully connected network."""
    X = some_rows(d=5)
    wide = networks.Convolutional(3, depth=3, positions=5, patch=5, separation=0.0).kernel()
    plain = networks.FullyConnected(15, depth=3).kernel()
    np.testing.assert_allclose(wide(X, get="nngp"), plain(X, get="nngp"), rtol=1e-13, atol=1e-14)


FINITE: dict[str, AbstractComposed] = {
    "two_layer": networks.TwoLayer(400, kappa=0.5),
    "biased": networks.BiasedTwoLayer(400, output_std=0.5),
    "biased, all": networks.BiasedTwoLayer(400, trained="all"),
    "three_layer": networks.ThreeLayer(300, 400),
    "three_layer, last": networks.ThreeLayer(300, trained="last"),
    "2layer": networks.Plain(400),
    "3layer, all": networks.Plain(300, depth=2, trained="all"),
    "fully_connected": networks.FullyConnected(300, depth=3),
    "fully_connected, all": networks.FullyConnected(300, depth=3, trained="all"),
    "fully_connected, last": networks.FullyConnected(300, depth=3, trained="last"),
    "residual of depth 2": networks.Residual(300, depth=2),
    "convolutional": networks.Convolutional(60, depth=3, positions=4, patch=3, separation=8.0),
    "convolutional, shared": networks.Convolutional(
        60, 4, 4, 2, separation=8.0, shared=True, last_width=200, trained="all"
    ),
}


def finite_ntk(net, X, keys):
    """⟨∇f(x), ∇f(z)⟩ at several draws, (draws, n, n)."""

    def one(key):
        params = net.init(key, X.shape[1])
        jacobian = jax.jacrev(lambda trained: net.apply(Params(trained, params.fixed), X))(params.trained)
        rows = [leaf.reshape(len(X), -1) for leaf in jax.tree.leaves(jacobian)]
        return sum(J @ J.T for J in rows)

    with jax.enable_x64(True):
        return np.asarray(jax.jit(lambda keys: jax.lax.map(one, keys))(keys))


@pytest.mark.parametrize("name", sorted(FINITE))
def test_finite_networks_have_this_kernel_within_three_standard_errors(name):
    net = FINITE[name]
    X = some_rows(n=3, d=4, seed=2)
    draws = finite_ntk(net, X, jax.random.split(jax.random.key(11), 25))
    mean, error = draws.mean(axis=0), draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    expected = net.kernel()(X)
    assert np.all(np.abs(mean - expected) <= 3 * error), (mean - expected) / error
    assert np.all(error <= 0.1 * np.sqrt(np.outer(expected.diagonal(), expected.diagonal())))  # and that is sharp


@pytest.mark.parametrize("name", ["three_layer", "fully_connected", "convolutional", "2layer"])
def test_nngp_is_the_variance_of_output_weights_times_the_last_features(name):
    net = FINITE[name]
    last = type(net)(**{**vars(net), "trained": "last"})
    X = some_rows(n=3, d=4)
    output = net.composition(4).weights()[-1]
    np.testing.assert_allclose(net.kernel()(X, get="nngp"), output.law.variance * last.kernel()(X), rtol=1e-13)


@pytest.mark.parametrize("name", sorted(FINITE))
def test_call_evaluate_block_and_diagonal_agree(name):
    kernel, X, Z = FINITE[name].kernel(), some_rows(d=4), some_rows(n=3, d=4, seed=8)
    for get in ("ntk", "nngp"):
        one_by_one = np.array([[kernel.evaluate(x, z, get) for z in Z] for x in X])
        np.testing.assert_allclose(kernel(X, Z, get=get), one_by_one, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(kernel.block(X, X, get).diagonal(), kernel.diagonal(X, get), rtol=1e-12)
        values = kernel(X, get=get)
        np.testing.assert_allclose(values, values.T, rtol=1e-12, atol=1e-14)
        assert np.linalg.eigvalsh((values + values.T) / 2).min() >= -1e-12 * values.max()


def test_blocks_larger_than_a_panel():
    kernel, X = networks.FullyConnected(4, depth=2).kernel(), some_rows(n=700)
    np.testing.assert_allclose(kernel(X)[600:], kernel(X[600:], X), rtol=1e-13, atol=1e-13)


def test_zero_rows_and_zero_pixels_have_kernel_zero():
    """As finite networks do, whose ReLU has slope 0 at 0."""
    X = np.array([[0.0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 2, -1], [1, 0, 0, 0, 0, 0]])
    assert np.all(networks.FullyConnected(4, depth=3).kernel()(X)[0] == 0)
    net = networks.Convolutional(40, depth=3, positions=6, patch=3, separation=0.0, last_width=50, trained="all")
    draws = finite_ntk(net, X, jax.random.split(jax.random.key(0), 25))
    mean, error = draws.mean(axis=0), draws.std(axis=0, ddof=1) / 5
    assert np.all(np.abs(mean - net.kernel()(X)) <= 3 * error)
    assert np.all(net.kernel()(X)[0] == 0)
    assert np.all(np.isfinite(net.kernel()(X)))


def test_networks_without_a_kernel_say_why():
    X = some_rows()
    with pytest.raises(ValueError, match="`A` are used twice") as caught:
        networks.ThreeLayerResNet(4).kernel()(X)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="activated") as caught:
        networks.Residual(4, depth=3).kernel()(X)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="'ntk' or 'nngp'"):
        networks.TwoLayer(4).kernel()(X, get="cnn")
    with pytest.raises(ValueError, match="needs 6"):
        networks.Convolutional(4, 3, positions=6).kernel()(X)


def test_two_layer_gradient_is_two_matrix_products():
    """What a step of gradient descent costs: x Wᵀ once, its transpose's once; nothing else of that size."""
    net, n, d = networks.TwoLayer(width=40), 30, 20
    params, x = net.init(0, d), jnp.ones((n, d))
    gradient = jax.grad(lambda W: jnp.sum(net.apply(Params({"W": W}, params.fixed), x) ** 2))
    text = jax.jit(gradient).lower(params.trained["W"]).as_text()
    products = [line for line in text.splitlines() if "dot_general" in line]
    large = [line for line in products if f"tensor<{n}x{d}x" in line]
    assert len(large) == 2, products
    assert len(products) <= 4, products  # and h a, and the outer product with a


@pytest.mark.parametrize(
    "net",
    [
        pytest.param(networks.BiasedTwoLayer(4, biases="all"), id="two"),
        pytest.param(networks.ThreeLayer(4, biases="all"), id="three", marks=pytest.mark.slow),
    ],
)
def test_biases_that_are_all_drawn_have_the_kernel_of_wide_networks(net):
    """The covariance of an output over many draws, within its standard error; with half of the biases it is another."""
    x = np.array([[0.6, 0.8], [1.0, 0.0]])
    wide = type(net)(200, biases="all")
    with jax.enable_x64(True):
        outputs = np.asarray(
            jax.vmap(lambda key: wide.apply(wide.init(key, 2), x))(jax.random.split(jax.random.key(0), 4000))
        )
    products = outputs[:, :, None] * outputs[:, None, :]
    found, error = products.mean(axis=0), products.std(axis=0) / 4000**0.5
    wanted = wide.kernel()(x, get="nngp")
    assert np.all(np.abs(found - wanted) <= 5 * error)
    assert np.all(np.abs(found - type(net)(200).kernel()(x, get="nngp")) > 5 * error)
    with pytest.raises(ValueError, match="`biases` is 'none'"):
        type(net)(4, biases="none")
