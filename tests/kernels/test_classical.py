"""Classical kernels against mpmath, scikit-learn, finite networks, and rows that are hard."""

import math

import mpmath
import numpy as np
import pytest
from rounding import rounding
from sklearn.metrics.pairwise import euclidean_distances, laplacian_kernel, polynomial_kernel, rbf_kernel

import overparam as op
from overparam.core.kernel import AbstractInnerProductKernel
from overparam.core.spec import spec_of
from overparam.kernels import (
    ArcCosine,
    Arcsine,
    Gaussian,
    Laplace,
    Polynomial,
    ProductLaplace,
    RandomFeatures,
    Recursive,
    TwoLayer,
    median_distance,
)

SIGNS = Arcsine(math.inf, 0.0)
KERNELS = [
    Gaussian(0.7),
    Laplace(0.9),
    ArcCosine(0),
    ArcCosine(1),
    ArcCosine(2),
    Arcsine(1.3, 0.6),
    Arcsine(0.5, 1e4),
    SIGNS,
    Recursive(1),
    Recursive(4),
    Recursive(2, "exponential"),
    Recursive(2, lambda k: 0.5 * k**2 + 0.25 * k),
    Polynomial(1),
    Polynomial(5, constant=0.3, scale=0.8),
]


def exact(kernel, x, z):
    """The kernel to 40 digits, from its definition in the literature rather than from our form of it."""
    with mpmath.workdps(60):
        xs, zs = [mpmath.mpf(float(v)) for v in x], [mpmath.mpf(float(v)) for v in z]
        dot = mpmath.fsum(a * b for a, b in zip(xs, zs, strict=True))
        nx, nz = (mpmath.sqrt(mpmath.fsum(a * a for a in v)) for v in (xs, zs))
        distance = mpmath.sqrt(mpmath.fsum((a - b) ** 2 for a, b in zip(xs, zs, strict=True)))
        cosine = max(min(dot / (nx * nz), mpmath.mpf(1)), mpmath.mpf(-1))
        theta = mpmath.acos(cosine)
        match kernel:
            case Gaussian(s):
                return mpmath.exp(-(distance**2) / (2 * mpmath.mpf(s) ** 2))
            case Laplace(s):
                return mpmath.exp(-distance / mpmath.mpf(s))
            case ArcCosine(0):
                return 1 - theta / mpmath.pi
            case ArcCosine(1):
                return nx * nz * (mpmath.sin(theta) + (mpmath.pi - theta) * cosine) / mpmath.pi
            case ArcCosine(2):
                angular = 3 * mpmath.sin(theta) * cosine + (mpmath.pi - theta) * (1 + 2 * cosine**2)
                return (nx * nz) ** 2 * angular / mpmath.pi
            case Arcsine(s, t) if s == math.inf:
                return 2 / mpmath.pi * mpmath.asin(cosine)
            case Arcsine(s, t):
                v, b = mpmath.mpf(s) ** 2, mpmath.mpf(t) ** 2
                root = mpmath.sqrt((1 + 2 * b + 2 * v * nx**2) * (1 + 2 * b + 2 * v * nz**2))
                return 2 / mpmath.pi * mpmath.asin(2 * (b + v * dot) / root)
            case Recursive(depth, function):
                value = dot
                for _ in range(depth):
                    if function == "inverse":
                        value = 1 / (2 - value)
                    else:
                        value = mpmath.exp(value - 1) if function == "exponential" else function(value)
                return value
            case Polynomial(degree, constant, scale):
                return (mpmath.mpf(scale) * dot + mpmath.mpf(constant)) ** degree
    raise AssertionError(kernel)


def hard_pairs(largest: float, count: int = 120):
    """Near, equal, scaled, opposite, orthogonal, at the repair threshold, of norms up to `largest`."""
    rng = np.random.default_rng(11)
    for index in range(count):
        d = int(rng.choice([1, 2, 3, 10, 100]))
        x = rng.standard_normal(d)
        x *= largest * 10 ** rng.uniform(-3, 0) / np.linalg.norm(x) * 0.99
        noise = rng.standard_normal(d) / np.sqrt(d) * np.linalg.norm(x)
        kind = ("near", "equal", "scaled", "opposite", "threshold", "any")[index % 6]
        if kind == "near":
            z = x + 10 ** rng.uniform(-16, -2) * noise
        elif kind == "equal":
            z = x.copy()
        elif kind == "scaled":
            z = x * 10 ** rng.uniform(-3, 0)
        elif kind == "opposite":
            z = -x + 10 ** rng.uniform(-16, -2) * noise
        elif kind == "threshold":
            z = x + rng.choice([-1, 1]) * np.sqrt(2 * 10 ** rng.uniform(-4, -2)) * noise
        else:
            z = noise
        z *= min(1.0, largest * 0.999 / np.linalg.norm(z))
        yield kind, x, z


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: str(spec_of(kernel)))
def test_forty_digits_on_hard_pairs(kernel) -> None:
    worst = 0.0
    for kind, x, z in hard_pairs(1.0 if isinstance(kernel, Recursive) else 20.0):
        true = exact(kernel, x, z)
        size = math.sqrt(abs(float(exact(kernel, x, x))) * abs(float(exact(kernel, z, z))))
        for value in (kernel.evaluate(x, z), kernel(x[None], z[None])[0, 0]):
            error = abs(float(mpmath.mpf(float(value)) - true)) / size
            assert error <= 2e-13, (kind, len(x), error)
            worst = max(worst, error)
    assert worst > 0  # the comparison is with numbers that are not ours


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplace(1.0)], ids=lambda kernel: str(spec_of(kernel)))
def test_distances_of_long_rows_are_as_good_as_the_docstring_says(kernel) -> None:
    for kind, x, z in hard_pairs(1e4):
        error = abs(float(mpmath.mpf(kernel.evaluate(x, z)) - exact(kernel, x, z)))
        assert error <= rounding(20, functions=2) * (1 + np.linalg.norm(x)), (kind, error)


def test_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((40, 7)), rng.standard_normal((30, 7))
    np.testing.assert_allclose(Gaussian.from_gamma(0.3)(X, Z), rbf_kernel(X, Z, gamma=0.3), rtol=1e-12)
    np.testing.assert_allclose(
        Polynomial(3, constant=0.5, scale=0.2)(X, Z), polynomial_kernel(X, Z, 3, gamma=0.2, coef0=0.5), rtol=1e-11
    )
    np.testing.assert_allclose(ProductLaplace(1.7)(X, Z), laplacian_kernel(X, Z, gamma=1 / 1.7), rtol=1e-12)
    # scikit-learn's Laplacian kernel has the sum of absolute differences; this is its Euclidean distance
    np.testing.assert_allclose(Laplace(1.7)(X, Z), np.exp(-euclidean_distances(X, Z) / 1.7), rtol=1e-12)


def test_a_product_over_columns_is_the_product_of_their_kernels_and_keeps_the_digits_of_close_rows() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 5))
    X[7] = X[3] + 1e-12
    kernel = ProductLaplace(0.8)
    columns = [Laplace(0.8)(X[:, [j]] - X[0, j]) for j in range(5)]
    np.testing.assert_allclose(kernel(X), np.prod(columns, axis=0), rtol=1e-9)
    assert 1 - kernel.evaluate(X[3], X[7]) == pytest.approx(np.abs(X[3] - X[7]).sum() / 0.8, rel=1e-3)
    np.testing.assert_array_equal(op.gram(kernel, X, "dense").dense(), kernel(X))
    assert median_distance([[0.0, 0.0], [1.0, 1.0]], columnwise=True) == 2.0


def test_arc_cosine_of_order_one_is_twice_the_conjugate_kernel() -> None:
    X = np.random.default_rng(1).standard_normal((20, 5))
    np.testing.assert_allclose(ArcCosine(1)(X), 2 * TwoLayer()(X, get="nngp"), rtol=1e-13, atol=1e-14)


def test_arcsine_of_large_weights_tends_to_signs() -> None:
    X = np.random.default_rng(2).standard_normal((10, 5))
    np.testing.assert_allclose(Arcsine(1e9, 0.0)(X), SIGNS(X), atol=1e-8)
    np.testing.assert_allclose(SIGNS(X), 2 * ArcCosine(0)(X) - 1, atol=1e-14)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: str(spec_of(kernel)))
def test_positive_semidefinite_and_symmetric_with_duplicates(kernel) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 4))
    X = np.concatenate([X, X[:10], X[:10] * (1 + 1e-9), X[:10] + 1e-10])
    X /= 1.01 * np.linalg.norm(X, axis=1).max()
    H = kernel(X)
    np.testing.assert_allclose(H, H.T, rtol=0, atol=1e-14 * H.max())
    values = np.linalg.eigvalsh((H + H.T) / 2)
    assert values[0] >= -1e-14 * len(X) * values[-1]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: str(spec_of(kernel)))
def test_jax_and_numpy_say_the_same(kernel) -> None:
    import jax
    import jax.numpy as jnp

    assert isinstance(kernel, AbstractInnerProductKernel)
    rng = np.random.default_rng(4)
    rho, size, other = rng.uniform(-1, 1, (5, 4)), rng.uniform(0.1, 1, (5, 1)), rng.uniform(0.1, 1, 4)
    with jax.enable_x64(True):
        fast = np.asarray(kernel.from_cosines(jnp, jnp.asarray(rho), size, other))
        unit = np.asarray(kernel.from_cosines(jnp, jnp.asarray(rho), 1.0, 1.0))
    np.testing.assert_allclose(fast, kernel.from_cosines(np, rho, size, other), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(unit, kernel.from_gaps(np, 1 - rho, 1 + rho, 1.0, 1.0), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: str(spec_of(kernel)))
def test_rows_of_zeros(kernel) -> None:
    X = np.array([[0.0, 0.0], [0.6, 0.0]])
    if not kernel.zero_rows:
        with pytest.raises(ValueError, match="norm 0"):
            kernel(X)
        return
    H = kernel(X)
    tiny = np.array([[1e-18, 0.0], [0.6, 0.0]])  # continuous, from either side
    np.testing.assert_allclose(H, kernel(tiny), atol=1e-12)
    assert kernel.evaluate(X[0], X[1]) == pytest.approx(H[0, 1], abs=rounding(20, functions=2))


def test_both_parts_are_the_kernel_and_others_are_refused() -> None:
    X = np.random.default_rng(5).standard_normal((4, 3)) * 0.1
    for kernel in [*KERNELS, RandomFeatures(Gaussian(), 7)]:
        np.testing.assert_array_equal(kernel(X, get="ntk"), kernel(X, get="nngp"))
        with pytest.raises(ValueError, match="expected 'ntk' or 'nngp'"):
            kernel(X, get="cnn")


# Random features


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(1.2),
        Laplace(0.8),
        ProductLaplace(1.4),
        ArcCosine(0),
        ArcCosine(1),
        ArcCosine(2),
        Arcsine(0.9, 0.7),
        SIGNS,
    ],
    ids=lambda kernel: str(spec_of(kernel)),
)
def test_random_features_have_the_kernel_as_their_mean(kernel) -> None:
    X = np.random.default_rng(6).standard_normal((6, 3))
    m = 40_000
    sampled = RandomFeatures(kernel, count=m, key=2)
    F = sampled.features(X) * np.sqrt(m)
    terms = F.reshape(6, -1, m)  # Fourier features come in two
    products = np.einsum("icr,jcr->ijr", terms, terms)
    error = products.std(axis=2) / np.sqrt(m)
    assert np.all(np.abs(products.mean(axis=2) - kernel(X)) <= 3.5 * error + 1e-14)
    np.testing.assert_allclose(sampled(X), products.mean(axis=2), rtol=1e-12, atol=1e-14)


def test_error_of_random_features_falls_like_the_root_of_their_number() -> None:
    X = np.random.default_rng(7).standard_normal((20, 4))
    kernel, counts = ArcCosine(1), np.array([100, 400, 1600, 6400, 25600])
    errors = [
        np.mean([np.linalg.norm(RandomFeatures(kernel, int(m), key)(X) - kernel(X)) for key in range(8)])
        for m in counts
    ]
    fit, covariance = np.polyfit(np.log(counts), np.log(errors), 1, cov=True)
    assert abs(fit[0] + 0.5) <= 3 * np.sqrt(covariance[0, 0]) + 0.02


def test_any_function_of_gaussian_weights() -> None:
    """E cos(w·x) cos(w·z) = (exp(−‖x − z‖²/2) + exp(−‖x + z‖²/2)) / 2."""
    X = np.random.default_rng(8).standard_normal((5, 3)) * 0.7
    m = 40_000
    sampled = RandomFeatures(np.cos, m)
    F = sampled.features(X) * np.sqrt(m)
    products = F[:, None] * F[None]
    true = (Gaussian(1.0)(X, X) + Gaussian(1.0)(X, -X)) / 2
    assert np.all(np.abs(products.mean(axis=2) - true) <= 3.5 * products.std(axis=2) / np.sqrt(m))


def test_random_features_are_one_draw() -> None:
    X, Z = np.random.default_rng(9).standard_normal((2, 300, 3))
    sampled = RandomFeatures(Gaussian(), 50, key=4)
    off = 2 * rounding(100 + 3, functions=1) * 10  # a hundred terms of phases up to 10, the features of length 1
    np.testing.assert_allclose(sampled(X, Z), sampled.features(X) @ sampled.features(Z).T, rtol=0, atol=off)
    np.testing.assert_allclose(sampled(X)[:3, :3], sampled(X[:3]), rtol=0, atol=off)
    assert sampled.evaluate(X[0], Z[1]) == pytest.approx(sampled(X, Z)[0, 1], abs=off)
    assert np.abs(sampled(X) - RandomFeatures(Gaussian(), 50, key=5)(X)).max() > 0.01
    import jax

    assert RandomFeatures(Gaussian(), 50, key=jax.random.key(7)) == RandomFeatures(Gaussian(), 50, key=7)
    np.testing.assert_array_equal(
        RandomFeatures(Gaussian(), 5, jax.random.PRNGKey(1))(X), RandomFeatures(Gaussian(), 5, jax.random.key(1))(X)
    )
    assert np.linalg.matrix_rank(RandomFeatures(ArcCosine(1), 20)(X[:40])) <= 20


def test_median_distance() -> None:
    X = np.random.default_rng(10).standard_normal((50, 6))
    pairs = euclidean_distances(X)[np.triu_indices(50, 1)]
    assert median_distance(X) == pytest.approx(np.median(pairs), rel=1e-12)
    assert median_distance(X * 1e200) == pytest.approx(np.median(pairs) * 1e200, rel=1e-12)
    big = np.random.default_rng(11).standard_normal((5000, 6))
    assert median_distance(big) == pytest.approx(math.sqrt(2 * 6) * 0.945, rel=0.05)  # χ with 6 degrees, times √2
    assert median_distance(big, key=1) != median_distance(big)
    for bad, words in (([[1.0]], "1 row"), ([[1.0], [1.0], [1.0]], "is 0"), ([[np.nan], [1.0]], "NaN")):
        with pytest.raises(ValueError, match=words):
            median_distance(bad)


# What is refused


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Gaussian(0.0), "`bandwidth` is 0.0"),
        (lambda: Gaussian(-1.0), "expected a finite number > 0"),
        (lambda: Gaussian("median"), "`bandwidth` is 'median'"),  # type: ignore[arg-type]
        (lambda: Gaussian.from_gamma(np.nan), "`gamma` is nan"),
        (lambda: Laplace(np.inf), "`bandwidth` is inf"),
        (lambda: ArcCosine(3), "0, 1 or 2"),
        (lambda: Arcsine(-1.0), "`weight_std`"),
        (lambda: Arcsine(math.inf, 1.0), "bias_std=0.0"),
        (lambda: Polynomial(0), "`degree` is 0"),
        (lambda: Polynomial(2.5), "`degree` is 2.5"),  # type: ignore[arg-type]
        (lambda: Polynomial(2, constant=-1.0), "expected a finite number ≥ 0"),
        (lambda: Recursive(0), "`depth` is 0"),
        (lambda: Recursive(1, "cosine"), "`function` is 'cosine'"),  # type: ignore[arg-type]
        (lambda: RandomFeatures(TwoLayer(), 10), "no random features"),  # type: ignore[arg-type]
        (lambda: RandomFeatures("relu", 10), "`kernel` is 'relu'"),  # type: ignore[arg-type]
        (lambda: RandomFeatures(Gaussian(), 0), "`count` is 0"),
        (lambda: RandomFeatures(Gaussian(), 1, key=-1), "`key` is -1"),
        (lambda: Recursive(1)([[1.0, 0.5]]), "norm above 1 (first: row 0"),
        (lambda: Recursive(1, lambda k: k**4)([[1e40]]), "too large for float64"),
        (lambda: Gaussian(1e-3)([[1e4]]), "subtract the mean"),
        (lambda: Gaussian(1.0)([[1e160]]), "bandwidths"),
        (lambda: Polynomial(8)([[1e20]]), "too large for float64"),
        (lambda: Polynomial(8)([[1e-20]]), "too small for float64"),
        (lambda: ArcCosine(2)([[1e60]]), "too large"),
        (lambda: ArcCosine(2)([[1e-60]]), "too small"),
        (lambda: ArcCosine(1)([[1e160]]), "too large"),
        (lambda: Arcsine(1e60, 0.0)([[1e60]]), "too large"),
        (lambda: Gaussian()([[np.nan]]), "1 NaN"),
        (lambda: Gaussian().evaluate([1e9], [1e9]), "bandwidths"),  # type: ignore[arg-type]
    ],
)
def test_one_clear_line(make, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        make()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_compare_and_hash() -> None:
    assert Gaussian(2.0) == Gaussian(2.0) != Gaussian(1.0)
    assert len({Gaussian(2.0), Gaussian(2.0), Laplace(2.0), RandomFeatures(Gaussian(2.0), 5)}) == 3


# With the engines


@pytest.mark.parametrize(
    "kernel",
    [*KERNELS, 2 * Gaussian(1.0) + ArcCosine(1), RandomFeatures(Laplace(), 30)],
    ids=lambda kernel: str(spec_of(kernel)),
)
def test_matrices_of_the_engines(kernel) -> None:
    from overparam.engines import gram

    rng = np.random.default_rng(12)
    X = rng.standard_normal((40, 3))
    X[1], X[2] = X[0], X[0] * (1 + 1e-9)
    X /= 1.1 * np.linalg.norm(X, axis=1).max()
    true = kernel(X)
    for engine in ("dense", "matrix_free"):
        H = gram(kernel, X, engine=engine, device="cpu")
        np.testing.assert_allclose(H @ np.eye(40), true, rtol=0, atol=4e-14 * true.max())
        np.testing.assert_allclose(H.block([0, 1], [2, 3]), true[:2, 2:4], rtol=0, atol=2e-14 * true.max())


def test_leave_one_out_is_that_of_forty_fits() -> None:
    from overparam.engines import gram
    from overparam.spectrum import leave_one_out

    rng = np.random.default_rng(13)
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    for kernel in (Gaussian(1.5), Laplace(2.0), Arcsine(), Polynomial(2, 1.0) + Laplace()):
        K = kernel(X)
        outputs = []
        for i in range(40):
            rest = np.delete(np.arange(40), i)
            weights = np.linalg.solve(K[np.ix_(rest, rest)] + 0.1 * np.eye(39), y[rest])
            outputs.append(K[i, rest] @ weights)
        found = leave_one_out(gram(kernel, X, device="cpu"), y, ridge=0.1)
        np.testing.assert_allclose(np.ravel(found.outputs), outputs, rtol=1e-8, atol=1e-9)
