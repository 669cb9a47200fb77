"""Any kernel on the cube: λ_S against its definition, certificate (i) never above the error, and a short cut that is wrong."""

from itertools import combinations

import numpy as np
import pytest
from cube_cases import corners, parity, theorem_2

from overparam.core.machine import blas_threads
from overparam.engines.dense import DenseGram
from overparam.kernels import Convolutional, FullyConnected, Gaussian, RandomFeatures, spectrum_on_cube
from overparam.theory import spectral_certificate, subset_certificate, subset_cost, subset_spectrum

D = 6
SUBSETS = [S for size in range(D + 1) for S in combinations(range(D), size)]
PIXELS = (2, 3, 1)
A = np.random.default_rng(3).standard_normal((D, D))


def bent(X, Z):
    """A Gaussian kernel of x + the square of a linear map of it: of no form at all in the coordinates."""
    left, right = (np.hstack([rows, (rows @ A[: rows.shape[1]]) ** 2]) for rows in (X, Z))
    return np.exp(-((left[:, None] - right[None]) ** 2).sum(axis=2) / 2)


KERNELS = {
    "convolutional": Convolutional(1, patch=2, head="flatten", image=PIXELS, b_std=0.3, device="cpu"),
    "pooled": Convolutional(1, patch=2, head="pool", padding="CIRCULAR", image=PIXELS, b_std=0.5, device="cpu"),
    "Fourier": RandomFeatures(Gaussian(0.7), count=40, key=2),
    "function": bent,
}


@pytest.fixture(scope="module")
def known():
    """By name: the kernel, its matrix of all corners, and its spectrum with all couplings."""
    found = {}
    for name, kernel in KERNELS.items():
        found[name] = kernel, np.asarray(kernel(corners(D), corners(D))), subset_spectrum(kernel, D, SUBSETS)
    return found


P = np.stack([parity(D, S) for S in SUBSETS], axis=1)


@pytest.mark.parametrize("name", list(KERNELS))
def test_the_averages_are_their_definition(name, known):
    """χ_SᵀKχ_T/4^d, written out; both are within the stated error of the truth, as are all 2^d by one transform."""
    kernel, K, spectrum = known[name]
    direct = P.T @ K @ P / 4**D
    assert np.abs(spectrum.matrix - direct).max() <= 2 * spectrum.errors[0]
    every = subset_spectrum(kernel, D)
    assert every.subsets == tuple(SUBSETS)
    assert np.abs(every.values - np.diag(direct)).max() <= 2 * every.errors.max()
    assert every.exact
    assert every.positive
    assert every.errors.max() < 1e-12
    assert every.of((4, 1)) == every.values[SUBSETS.index((1, 4))]
    assert every.values.sum() == pytest.approx(np.diag(K).mean(), rel=1e-10)  # the trace


def test_the_short_cut_by_one_row_is_wrong_but_for_products_of_coordinates(known):
    """The transform of K(1, ·) is λ_S of a kernel of x∘y, such as a convolutional one that compares equal places alone.

    Of pooled ones, of random features and of a plain function it is another number.
    """
    last = len(corners(D)) - 1  # the corner (1, …, 1)
    off = {name: np.abs(P.T @ K[last] / 2**D - own.values).max() for name, (_, K, own) in known.items()}
    assert off.pop("convolutional") <= 2 * known["convolutional"][2].errors.max()
    assert {name for name, size in off.items() if size > 0.05 * known[name][2].values.max()} == {*off}
    kernel = FullyConnected(depth=2, b_std=0.3)
    short = P.T @ kernel(corners(D))[last] / 2**D
    found = subset_spectrum(kernel, D)
    np.testing.assert_allclose(short, found.values, rtol=0, atol=2 * found.errors.max())
    by_degree = spectrum_on_cube(kernel, D).eigenvalues
    for degree, (least, _, most) in found.by_degree().items():
        assert abs(least - by_degree[degree]) <= 2 * found.errors.max()
        assert abs(most - by_degree[degree]) <= 2 * found.errors.max()


def draws(known, name, count):
    """Random fits: one product, or Theorem 2's F and G; S, α, corners and ridge. The error over all corners, the
    certificate, and for one product what it would be from K(1, ·) alone."""
    kernel, K, spectrum = known[name]
    rng = np.random.default_rng([5, list(KERNELS).index(name)])
    short = np.maximum(P.T @ K[-1] / 2**D, 0)
    for case in range(count):
        k, alpha = int(rng.integers(2, 5)), float(rng.choice([0.3, 1.0, 3.0]))
        S = tuple(sorted(rng.choice(D, size=k, replace=False).tolist()))
        F, G = theorem_2(D, S, alpha)
        parities = [{(i,): 1.0, S: alpha} for i in S]
        if case % 2:
            F, G, parities = F[:, 0] * 0, parity(D, S), {S: 1.0}
        rows = rng.permutation(2**D)[: int(rng.integers(1, 60))]
        own, ridge = K[np.ix_(rows, rows)], float(10 ** rng.uniform(-3, 1))
        c = np.linalg.solve(own + ridge * np.eye(len(rows)), (F + G)[rows])
        error = float(np.mean(np.square(F + G - K[:, rows] @ c).reshape(2**D, -1).sum(axis=1)))
        found = subset_certificate(
            kernel, corners(D)[rows], (F + G)[rows], parities, ridge=ridge, spectrum=spectrum, H=DenseGram(own)
        )
        wrong = max(0.0, 1 - np.sqrt(short[SUBSETS.index(S)] * float(np.sum(c * (own @ c))))) ** 2 if case % 2 else 0.0
        yield error, found.value, found.variance, wrong


@pytest.mark.parametrize("name", list(KERNELS))
def test_the_certificate_is_not_violated_and_says_something(name, known):
    with blas_threads(1):
        errors, values, variances, wrong = np.array(list(draws(known, name, 400))).T
    slack = 1e-9 * variances  # of the error: the systems have condition numbers below 1e5
    assert np.all(values <= errors + slack)
    assert np.mean(values > 0.1 * errors) > 0.5  # a bound of 0 would pass too
    if name == "Fourier":  # where the short cut would have been believed, it is above the error at times
        assert np.any(wrong > errors + slack)


def test_couplings_count():
    """K(x, y) = (x_1 + x_2)(y_1 + y_2): f = x_1 + x_2 costs what x_1 would alone. Its error is 0, and λ_S would deny it."""

    def both(X, Z):
        return np.outer(X[:, 0] + X[:, 1], Z[:, 0] + Z[:, 1])

    X = np.array([[1.0, 1.0, 1.0]])
    found = subset_certificate(both, X, [2.0], {(0,): 1.0, (1,): 1.0}, ridge=0.0)
    assert found.squared_norm == pytest.approx(1.0, rel=1e-9)  # f = 1·(x_1 + x_2)
    assert found.value <= 1e-9
    alone = subset_certificate(both, X, [2.0], {(0,): 1.0}, ridge=0.5)
    assert alone.value == pytest.approx((1 - 2 / 4.5 * 2) ** 2, rel=1e-6)  # c = 2/4.5, ‖f‖ = 2c, λ = 1


def test_every_ridge_and_kernels_of_inner_products_agree_with_degrees():
    kernel, S = FullyConnected(depth=2, b_std=0.3), (0, 2, 3, 5)
    F, G = theorem_2(D, S, 0.5)
    rows = np.random.default_rng(0).permutation(2**D)[:10]
    X, y = corners(D)[rows], (F + G)[rows]
    found = subset_certificate(kernel, X, y, [{(i,): 1.0, S: 0.5} for i in S])
    by_degree = spectral_certificate(kernel, X, y, {1: 4.0, 4: 1.0})
    assert found.covers == "every ridge"
    assert found.squared_norm == by_degree.squared_norm
    assert found.value == pytest.approx(by_degree.value, rel=1e-6)
    assert {one.status for one in found.assumptions} == {"met", "not checked"}


def test_drawn_corners_have_standard_errors(known):
    """|mean − truth| over its standard error has mean square 1 − n/2^d without repetition; none is beyond five."""
    kernel, K, spectrum = known["function"]
    direct, scores = np.diag(P.T @ K @ P) / 4**D, []
    for key in range(20):
        found = subset_spectrum(kernel, D, centres=16, key=key)
        assert not found.exact
        assert found.corners == 16
        scores.append((found.values - direct) / found.errors)
    spread = np.sqrt(np.mean(np.square(scores)))
    assert 0.6 < spread < 1.2  # √(1 − 16/64) = 0.87, estimated 20 × 64 times, which are not independent
    named = subset_spectrum(kernel, D, [(0,), (1, 2)], centres=16, key=0)
    whole = subset_spectrum(kernel, D, centres=16, key=0)
    assert named.of((1, 2)) == pytest.approx(whole.of((1, 2)), abs=1e-12)
    same = subset_spectrum(FullyConnected(depth=2), D, centres=2)
    assert same.errors.max() < 1e-12  # every corner sees the same
    X, y = corners(D)[:3], parity(D, (0, 1))[:3]
    drawn = subset_certificate(kernel, X, y, {(0, 1): 1.0}, ridge=1.0, centres=16)
    exact = subset_certificate(kernel, X, y, {(0, 1): 1.0}, ridge=1.0, spectrum=spectrum)
    assert 0 < drawn.value <= exact.value  # four standard errors larger
    assert "λ_S are averages over all corners" in {a.statement for a in drawn.assumptions if a.status == "not checked"}


def test_the_cost_is_told_before_and_work_out_of_reach_is_refused():
    told = []
    found = subset_spectrum(bent, 4, radius=4.0, progress=lambda done, total, what: told.append((done, total, what)))
    assert told[0][:2] == (0, 256)
    assert told[0][2].startswith("subset spectrum: 256 kernel evaluations, about ")
    assert told[-1][:2] == (256, 256)
    assert found.cost.evaluations == 256
    features = subset_cost(RandomFeatures(Gaussian(1.0), count=10), 16)
    assert (features.evaluations, features.of_features) == (2**16, True)
    for change, said in [
        ({"dimension": 16}, "4,294,967,296 kernel evaluations, and 268,435,456 are the most made here; pass `centres`"),
        ({"dimension": 30}, r"2\^30 corners are too many to write out: at most 20"),
        ({"dimension": 3, "centres": 9}, r"`centres` is 9; the cube has 2\^3 = 8 corners"),
        ({"dimension": 3, "subsets": [(0, 3)]}, "expected different coordinates from 0 to 2"),
        ({"dimension": 3, "subsets": []}, "`subsets` is empty"),
        ({"kernel": 3, "dimension": 3}, "`kernel` is 3; expected a kernel, or a function of two blocks"),
        ({"kernel": lambda X, Z: X, "dimension": 3}, "`kernel` gave shape"),
    ]:
        with pytest.raises(ValueError, match=said) as caught:
            subset_spectrum(**{"kernel": bent, **change})
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="no corners of one cube"):
        subset_certificate(bent, np.ones((2, 6)) * [1, 1, 1, 1, 1, 2], [1.0, 1.0], {(0,): 1.0})
    with pytest.raises(ValueError, match="`parities` has 1 output and `y` 2"):
        subset_certificate(bent, np.ones((2, 6)), np.ones((2, 2)), [{(0,): 1.0}])
    with pytest.raises(ValueError, match="λ_S alone; name the `subsets`"):
        subset_certificate(bent, corners(D)[:2], [1.0, 1.0], {(0,): 1.0}, ridge=1.0, spectrum=subset_spectrum(bent, D))
