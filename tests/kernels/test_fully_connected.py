"""Deep fully connected kernels: many digits, closed forms, finite networks, and the papers' conventions."""

import json
from pathlib import Path
from runpy import run_path

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from mpmath import mpf
from rounding import rounding

from overparam import networks
from overparam.kernels import FullyConnected, Gaussian, TwoLayer
from overparam.layers import AbstractActivation, Erf, Exponential, Gelu, Identity, LeakyRelu, Relu, Sine
from overparam.layers.activation import activated

CASES = run_path(str(Path(__file__).parents[1] / "layers" / "activation_cases.py"))["CASES"]
"""Activations and the textbook formulas of their second moments."""

STEADY = {"sine", "sine_abc", "cosine", "exponential"}
"""Activations whose second moments change with b² times the variance: rows of moderate size."""


def exact(kernel, dual, x, z):
    """Θ and Σ of the last layer by the recursion of the class, for one pair of rows, with all digits of mpmath."""
    alone = x is z
    x, z = [mpf(float(v)) for v in x], [mpf(float(v)) for v in z]
    d = len(x) if kernel.input_scaling else 1
    weights, biases = ([mpf(float(v)) for v in each] for each in (kernel._W_std, kernel._b_std))
    q, xx, zz = (sum(a * b for a, b in zip(u, v, strict=True)) / d for u, v in ((x, z), (x, x), (z, z)))
    theta = mpf(0)
    for layer, (W, b, trained) in enumerate(zip(weights, biases, kernel._trained, strict=True)):
        if layer:
            q, slope = dual(q, xx, zz)
            xx, zz = (q, q) if alone else (dual(xx, xx, xx)[0], dual(zz, zz, zz)[0])
            theta *= slope
        q, xx, zz = (W**2 * value + b**2 for value in (q, xx, zz))
        theta = W**2 * theta + (q if trained else 0)
    return theta, q


def hard_pairs(rng, d, sizes):
    """Random, near-parallel, scaled, opposite and orthogonal rows."""
    x = rng.standard_normal(d)
    x /= np.linalg.norm(x)
    noise = rng.standard_normal(d)
    noise -= noise @ x * x
    noise /= np.linalg.norm(noise)
    others = [rng.standard_normal(d), noise, x, -x, 2 * x, -x + 1e-9 * noise]
    others += [x + angle * noise for angle in (1e-3, 1e-6, 1e-9, 1e-12)]
    others += [1.5 * x + 1e-7 * noise, (1 + 1e-8) * x + 1e-8 * noise]
    for z in others:
        size, other = rng.choice(sizes, 2) if rng.random() < 0.5 else [rng.choice(sizes)] * 2
        yield x * size, z * other


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("b_std", [0.0, 0.3])
def test_forty_digits_and_more(name, b_std):
    """Entries within 1e-12 of √(K(x, x) K(z, z)), depths 1 to 6, one pair at a time and in blocks."""
    rng = np.random.default_rng(7)
    act, dual = CASES[name]
    W_std = 0.9 if name == "exponential" else 1.4
    sizes = [0.3, 1.0, 2.0] if name in STEADY else [1e-20, 1e-6, 0.5, 1.0, 40.0, 1e5, 1e60]
    depths = (2, 6) if b_std else (1, 4)
    if name == "exponential":
        depths = (2,) if b_std else (1, 3)  # e^{e^{e^…}} soon overflows
    worst = 0.0
    for depth in depths:
        kernel = FullyConnected(depth, W_std, b_std, act, "hidden" if depth == 4 else "all")
        for x, z in hard_pairs(rng, 5, sizes):
            with mpmath.workdps(170):  # norms of 1e-20 beside biases: 1 − ρ is 1e-40, and its square root is needed
                known = exact(kernel, dual, x, z)
                own, other = exact(kernel, dual, x, x), exact(kernel, dual, z, z)
                for place, get in enumerate(("ntk", "nngp")):
                    size = mpmath.sqrt(own[place] * other[place])
                    for found in (kernel.evaluate(x, z, get), kernel(x[None], z[None], get=get)[0, 0]):
                        error = float(abs(mpf(float(found)) - known[place]) / size)
                        assert error <= 1e-12, (depth, get, error, x, z)
                        worst = max(worst, error)
                    row = float(abs(mpf(float(kernel.diagonal(x[None], get)[0])) - own[place]) / own[place])
                    assert row <= 1e-12
    assert worst > 0 or name == "identity"  # the comparison is with numbers that are not ours


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("b_std", [0.0, 0.3])
@pytest.mark.parametrize(("depth", "trained"), [(3, "all"), (2, (1, 3)), (12, "hidden")])
def test_quick_equals_careful(name, b_std, depth, trained):
    """On cosines up to 1 − 1e-3 and norms of all sizes that the activation takes."""
    rng = np.random.default_rng(1)
    rho = np.concatenate([rng.uniform(-0.999, 0.999, 400), [0.999, -0.999, 0.0]])[None]
    W_std = 0.2 if name == "exponential" else 0.9
    kernel = FullyConnected(depth, W_std, b_std, CASES[name][0], trained).for_features(7)
    for power in (0,) if name in STEADY else (-20, -8, -3, 0, 1, 3, 8, 20):
        size, other = 10.0**power * rng.uniform(0.5, 3, (1, 1)), 10.0**power * rng.uniform(0.5, 3, rho.shape[1])
        for get in ("ntk", "nngp"):
            own = [kernel.from_gaps(np, 0 * s, 0 * s + 2, s, s, get) for s in (size[0], other)]
            scale, before = np.sqrt(own[0] * own[1]), rho.copy()
            quick = kernel.from_cosines(np, rho, size, other, get)
            careful = kernel.from_gaps(np, 1 - rho, 1 + rho, size, other, get)
            np.testing.assert_array_equal(rho, before)
            assert np.abs((quick - careful) / scale).max() <= 2 * kernel.entry_rounding, (power, get)


@pytest.mark.parametrize("name", ["relu", "two_slopes", "erf_abc"])
def test_quick_is_the_same_over_jax(name):
    rng = np.random.default_rng(2)
    rho, size, other = rng.uniform(-0.99, 0.99, (3, 4)), rng.uniform(0.5, 2, (3, 1)), rng.uniform(0.5, 2, 4)
    for b_std in (0.0, 0.2):
        kernel = FullyConnected(2, 1.3, b_std, CASES[name][0]).for_features(3)
        known = kernel.from_cosines(np, rho, size, other)
        with jax.enable_x64(True):
            found = jax.jit(lambda *a, k=kernel: k.from_cosines(jnp, *a))(*(jnp.asarray(a) for a in (rho, size, other)))
        np.testing.assert_allclose(found, known, rtol=1e-12)
        np.testing.assert_allclose(
            kernel.from_cosines(np, rho, 1.0, 1.0), kernel.from_gaps(np, 1 - rho, 1 + rho, 1.0, 1.0)
        )


def some_rows(n=6, d=5, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, d))
    noise = np.random.default_rng(seed + 1).standard_normal((n, d))
    return np.concatenate([X, X + 1e-6 * noise, X + 1e-11 * noise, -X, 3 * X, np.zeros((1, d))])


@pytest.mark.parametrize(
    "activation", ["relu", "leaky_relu", "abs", "erf", "gelu", "sine", "cosine", "exponential", "identity"]
)
def test_the_kernel_is_that_of_its_composition(activation):
    """Read from `composition(inputs, width)`, whatever the width; `both` is the two matrices, and zero rows are rows."""
    X = some_rows()
    W_std = (0.2, 0.3, 0.4) if activation == "exponential" else (0.7, 0.8, 0.9)
    kernel = FullyConnected(2, W_std, (0.1, 0.0, 0.3), activation, trained=(1, 2))
    composition = kernel.composition(5, 13)
    out = composition.kernel(np, composition.pairs(X, X))
    ntk, nngp = kernel.both(X)
    for found, known, get in ((ntk, out.ntk[0], "ntk"), (nngp, out.second_moment(np)[0], "nngp")):
        size = np.sqrt(np.outer(found.diagonal(), found.diagonal()))
        assert np.abs((found - known) / size).max() <= 1e-13
        np.testing.assert_array_equal(found, kernel(X, get=get))
        np.testing.assert_array_equal(kernel.both(X[:3], X[3:9])[get == "nngp"], kernel(X[:3], X[3:9], get=get))
        np.testing.assert_allclose(kernel.evaluate(X[0], X[-1], get), found[0, -1], rtol=1e-13)
        assert np.linalg.eigvalsh(found).min() >= -1e-13 * found.diagonal().sum()


def test_which_layers_are_trained():
    """Θ is the sum of the parts of its layers; the last one's is Σ itself."""
    X = some_rows()
    parts = [FullyConnected(3, 1.3, 0.2, "erf", trained=(number,))(X) for number in (1, 2, 3, 4)]
    for trained, numbers in (("all", (1, 2, 3, 4)), ("hidden", (2, 3)), ("last", (4,)), ((1, 4), (1, 4))):
        kernel = FullyConnected(3, 1.3, 0.2, "erf", trained=trained)
        np.testing.assert_allclose(kernel(X), sum(parts[number - 1] for number in numbers), rtol=0, atol=1e-12)
    last = FullyConnected(3, 1.3, 0.2, trained="last")
    np.testing.assert_allclose(last(X), last(X, get="nngp"), rtol=0, atol=1e-13)


def test_two_layer_is_a_special_case():
    """TwoLayer = d · FullyConnected(depth=1, W_std=1, trained=(1,)), both kernels; or without the 1/√d."""
    X = some_rows()[:-1]
    size = np.linalg.norm(X, axis=1)
    for get in ("ntk", "nngp"):
        known = TwoLayer()(X, get=get)
        scaled = 5 * FullyConnected(1, 1.0, trained=(1,))(X, get=get)
        for found in (scaled, FullyConnected.of_fine_grained()(X, get=get)):
            assert np.abs((found - known) / np.outer(size, size)).max() <= 2 * rounding(30, functions=2)


@pytest.mark.parametrize("depth", [2, 3, 6])
def test_the_kernel_of_convergence(depth):
    """Σ_ℓ q_{ℓ−1} ½ arccos0(ρ_L) Π_{j=ℓ}^{L−1} arccos0(ρ_j) on unit rows; d/4 times the plain convention."""
    X = np.random.default_rng(0).standard_normal((7, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    L, rho = depth - 1, np.clip(X @ X.T, -1, 1)
    np.fill_diagonal(rho, 0.0)

    def arccos0(r):
        return 1 - np.arccos(r) / np.pi

    q = [rho]
    for _ in range(L):
        q.append(np.sqrt(1 - q[-1] ** 2) / np.pi + q[-1] * arccos0(q[-1]))
    known = sum(
        q[l] * arccos0(q[L]) / 2 * np.prod([arccos0(q[j]) for j in range(l, L)], axis=0) for l in range(1, L + 1)
    )
    np.fill_diagonal(known, L / 2)
    np.testing.assert_allclose(FullyConnected.of_convergence(depth)(X), known, rtol=0, atol=1e-14 * depth)
    np.testing.assert_allclose(FullyConnected(depth, trained="hidden")(X) * 5 / 4, known, rtol=0, atol=1e-14 * depth)
    network = networks.FullyConnected(width=30, depth=depth, outputs=6)
    np.testing.assert_allclose(network.kernel()(X) * 6 / 30, known, rtol=0, atol=1e-14 * depth)


def finite(kernel, X, width, draws):
    """Θ of finite networks, layers and laws of weights from the composition, by reverse differentiation."""
    composition, rng = kernel.composition(X.shape[1], width), np.random.default_rng(width)

    @jax.jit
    def tangents(trained, fixed):
        _, back = jax.vjp(lambda t: composition.apply({**fixed, **t}, jnp.asarray(X)), trained)
        gradients = jax.vmap(lambda row: back(row)[0])(jnp.eye(len(X)))
        return sum(g.reshape(len(X), -1) @ g.reshape(len(X), -1).T for g in jax.tree.leaves(gradients))

    def drawn(trained):
        chosen = [weight for weight in composition.weights() if weight.trained == trained]
        return {weight.name: weight.law.variance**0.5 * rng.standard_normal(weight.shape) for weight in chosen}

    with jax.enable_x64(True):
        return np.stack([tangents(drawn(True), drawn(False)) for _ in range(draws)])


@pytest.mark.parametrize(
    "kernel",
    [FullyConnected(2, 1.4, 0.3), FullyConnected(2, 1.4, 0.3, Erf(1.0, 1.3, 0.2), trained="last")],
    ids=["relu", "erf"],
)
def test_finite_networks_within_three_standard_errors(kernel):
    """The last layer's tangent kernel has Σ for its limit: where it alone is trained, "nngp" is tested."""
    X = np.random.default_rng(5).standard_normal((3, 3))
    limit = kernel(X, get="nngp" if kernel.trained == "last" else "ntk")
    upper = np.triu_indices(3)
    for width, draws in ((256, 40), (1024, 12)):
        values = finite(kernel, X, width, draws)
        error = values.std(axis=0, ddof=1) / draws**0.5
        assert np.all(np.abs(values.mean(axis=0) - limit)[upper] <= 3 * error[upper])
        assert np.all(error <= 0.06 * np.sqrt(np.outer(limit.diagonal(), limit.diagonal())))


def test_the_error_of_finite_networks_falls_like_one_over_root_m():
    """The slope of log error over log m, fitted with the standard errors of the means."""
    X = np.random.default_rng(6).standard_normal((3, 3))
    kernel = FullyConnected(2, 2**0.5, 0.1)
    limit, points = kernel(X), []
    for width, draws in ((32, 200), (128, 100), (512, 50)):
        errors = np.linalg.norm(finite(kernel, X, width, draws) - limit, axis=(1, 2))
        points.append((np.log(width), np.log(errors.mean()), errors.std(ddof=1) / errors.mean() / draws**0.5))
    m, error, uncertain = np.array(points).T
    fit, covariance = np.polyfit(m, error, 1, w=1 / uncertain, cov="unscaled")
    assert abs(fit[0] + 0.5) <= 3 * covariance[0, 0] ** 0.5
    assert covariance[0, 0] ** 0.5 <= 0.04


@pytest.mark.parametrize("activation", ["relu", "erf", "gelu", "leaky_relu"])
def test_fifty_layers_stay_finite_and_positive(activation):
    X = np.random.default_rng(0).standard_normal((30, 8))
    for b_std in (0.0, 0.1):
        ntk, nngp = FullyConnected(50, 2**0.5, b_std, activation).both(X)
        for matrix in (ntk, nngp):
            assert np.isfinite(matrix).all()
            assert np.linalg.eigvalsh(matrix).min() >= -1e-13 * matrix.diagonal().sum()
    ntk, nngp = FullyConnected(50).both(X)
    norms = 2 * np.square(X).sum(axis=1) / 8
    np.testing.assert_allclose(nngp.diagonal(), norms, rtol=1e-13)  # √2 keeps the variance of ReLU units
    np.testing.assert_allclose(ntk.diagonal(), 51 * norms, rtol=1e-13)


def archived():
    """The cases of the archived neural-tangents that are fully connected with one of our activations."""
    folder = Path(__file__).parent / "reference"
    layers = {
        "Relu": lambda: Relu(),
        "LeakyRelu": lambda alpha: LeakyRelu(alpha),
        "ABRelu": lambda a, b: LeakyRelu(a, b),
        "Abs": lambda: LeakyRelu(-1.0),
        "Erf": Erf,
        "Sigmoid_like": lambda: Erf(0.5, 1 / 2.4020563531719796, 0.5),
        "Gelu": Gelu,
        "Sin": Sine,
        "Cos": lambda a=1.0, b=1.0, c=0.0: Sine(a, b, c + np.pi / 2),
        "Rbf": lambda gamma: Sine(2**0.5, (2 * gamma) ** 0.5, np.pi / 4),
        "Exp": Exponential,
        "Identity": Identity,
    }
    for case in json.loads((folder / "neural_tangents.json").read_text())["cases"]:
        dense, between = case["layers"][::2], case["layers"][1::2]
        plain = all(each[0] == "Dense" and "parameterization" not in each[1] for each in dense)
        if plain and between and len(dense) == len(between) + 1 and between.count(between[0]) == len(between):
            name, settings = between[0]
            if name in layers:
                stds = [tuple(each[1][key] or 0.0 for each in dense) for key in ("W_std", "b_std")]
                kernel = FullyConnected(len(between), *stds, layers[name](**settings))
                yield pytest.param(case, kernel, id=case["name"] + str(dense[0][1]["W_std"]))


@pytest.mark.parametrize(("case", "kernel"), list(archived()))
def test_the_numbers_of_the_archived_neural_tangents(case, kernel):
    """To 1e-10; its angles of parallel rows have half the digits, where the activation has a kink."""
    with np.load(Path(__file__).parent / "reference" / "neural_tangents.npz") as stored:
        X, Z, (nngp, ntk) = stored["inputs/rows/X"], stored["inputs/rows/Z"], stored[case["name"]]
    for known, get in ((nngp, "nngp"), (ntk, "ntk")):
        found = np.hstack([kernel(X, get=get), kernel(X, Z, get=get)])
        own = np.concatenate([kernel.diagonal(X, get), kernel.diagonal(Z, get)])
        scale = np.sqrt(np.outer(own[: len(X)], own))
        cosines = np.abs(X @ np.concatenate([X, Z]).T)
        size = np.linalg.norm(np.concatenate([X, Z]), axis=1)
        parallel = cosines >= (1 - 1e-9) * np.outer(size[: len(X)], size)
        loose = np.where(case["kinked"] & parallel, 1e-7, 1e-10)
        assert np.all(np.abs(found - known) <= loose * scale + 1e-15)


def test_sizes_that_float64_cannot_hold_are_one_line():
    for X, kernel, words in (
        ([[1e-80, 0.0]], FullyConnected(), "too small"),
        ([[1e80, 0.0]], FullyConnected(b_std=1.0), "too large"),
        ([[1e70, 0.0]], FullyConnected(40, 10.0), "too large for float64"),
        ([[40.0, 0.0]], FullyConnected(1, 1.0, activation="exponential"), "too large for float64"),
        ([[1.0, 0.0]], FullyConnected(4, 1.0, activation="exponential"), "too large for float64"),
        ([[1e9, 0.0]], FullyConnected(1, activation="sine"), "turns too often"),
    ):
        for call in (
            lambda k=kernel, X=X: k(X),
            lambda k=kernel, X=X: k.both(X),
            lambda k=kernel, X=X: k([[1.0, 1.0]], X),
        ):
            with pytest.raises(ValueError, match=words) as caught:
                call()
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"depth": 0}, "`depth` is 0"),
        ({"depth": 2.0}, "`depth` is 2.0"),
        ({"W_std": -1.0}, "`W_std` is -1.0"),
        ({"W_std": (1.0, 1.0)}, "`W_std` has 2 numbers"),
        ({"b_std": np.nan}, "`b_std` is nan"),
        ({"activation": "tanh"}, "expected one of relu"),
        ({"activation": np.tanh}, "or a layer"),
        ({"trained": "none"}, "`trained` is 'none'"),
        ({"trained": (0,)}, "from 1 to 4"),
        ({"trained": ()}, "numbers of layers from 1 to"),
        ({"depth": 1, "trained": "hidden"}, "numbers of layers from 1 to"),
        ({"features": 0}, "`features` is 0"),
    ],
)
def test_bad_settings_are_one_line(settings, words):
    with pytest.raises(ValueError, match="`") as caught:
        FullyConnected(**settings)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_calls_are_one_line():
    kernel = FullyConnected()
    with pytest.raises(ValueError, match="'ntk' or 'nngp'"):
        kernel([[1.0]], get="both")
    with pytest.raises(ValueError, match="same features"):
        kernel.both([[1.0]], [[1.0, 2.0]])
    with pytest.raises(ValueError, match="for_features"):
        kernel.from_cosines(np, np.zeros((1, 1)), 1.0, 1.0)
    with pytest.raises(ValueError, match="rows of 3 numbers"):
        kernel.for_features(3)([[1.0]])
    with pytest.raises(ValueError, match="whole number ≥ 2"):
        FullyConnected.of_convergence(1)
    with pytest.raises(ValueError, match="1 NaN"):
        kernel([[np.nan]])


def test_other_activations_and_other_kernels():
    """A layer of one's own goes the careful way; sums with other kernels see the number of features too."""

    class Square(AbstractActivation):
        homogeneous = False

        def function(self, x):
            return x * x

        def square(self, xp, xx):
            return 3 * xx**2

        def dual(self, xp, q, xx, zz):
            return xx * zz + 2 * q**2, 4 * q

        def kernel(self, xp, pairs):
            q = pairs.second_moment(xp)
            xx, zz = 3 * pairs.xx**2, 3 * pairs.zz**2
            apart = 2 / 3 * pairs.apart * pairs.together
            return activated(xp, pairs, xx, zz, apart, 2 - apart, 4 * q)

    X = np.random.default_rng(0).standard_normal((4, 3))
    q = X @ X.T / 3
    own = q.diagonal()
    np.testing.assert_allclose(
        FullyConnected(1, 1.0, activation=Square())(X, get="nngp"), np.outer(own, own) + 2 * q**2, rtol=1e-13
    )
    one, two = FullyConnected(2, activation=LeakyRelu(0.2)), Gaussian(1.0)
    np.testing.assert_allclose((one + 2 * two)(X), one(X) + 2 * two(X), rtol=1e-13)


@pytest.mark.parametrize("b_std", [0.0, 0.2])
def test_engines_take_it(b_std):
    from overparam.engines import gram

    X = some_rows(n=20)
    kernel = FullyConnected(3, b_std=b_std)
    for engine in ("dense", "matrix_free"):
        H = gram(kernel, X, engine=engine, device="cpu")
        known = kernel(X)
        assert np.abs(H.dense() - known).max() <= 1e-13 * known.max()
