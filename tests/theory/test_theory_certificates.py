"""Lower bounds on kernels' errors on the cube: never above the error by enumeration of all corners, and how near."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from cube_cases import KERNELS, corners, matrix, parity, spectrum, theorem_2

from overparam.core.machine import blas_threads
from overparam.kernels import Gaussian, RandomFeatures, Residual, TwoLayer, spectrum_on_sphere
from overparam.theory import dimension_certificate, printed_range, spectral_certificate
from overparam.theory.kernel_certificates import lower_bound


def random_case(seed: int):
    """A kernel, a cube, Theorem 2's target, N corners without repeats, and the error over all corners of any ridge."""
    rng = np.random.default_rng([17, seed])
    name, d = list(KERNELS)[seed % len(KERNELS)], int(rng.integers(6, 10))
    k = int(rng.integers(2, 5))
    alpha = float(rng.choice([0.1, 0.3, 1.0]))
    N = int(np.exp(rng.uniform(0, np.log(min(2**d, 300)))))
    subset = rng.choice(d, size=k, replace=False)
    F, G = theorem_2(d, subset, alpha)
    rows, K = rng.permutation(2**d)[:N], matrix(name, d)

    def error(ridge: float) -> float:
        c = np.linalg.solve(K[np.ix_(rows, rows)] + ridge * np.eye(N), (F + G)[rows])
        return float(np.mean(np.sum((F + G - K[:, rows] @ c) ** 2, axis=1)))

    power = {1: float(k), k: k * alpha**2}
    return name, d, corners(d)[rows], (F + G)[rows], power, error


def test_never_above_the_error_in_many_random_cases_and_often_near():
    every, own = np.array([tightness(seed) for seed in range(120)]).T
    # a bound that says nothing is not one: most do, and half of those of one ridge are within a third of the error
    assert np.mean(every > 0) > 0.8
    assert np.quantile(every, 0.75) > 0.4
    assert np.mean(own > 0) > 0.9
    assert np.median(own) > 0.6


def tightness(seed: int) -> tuple[float, float]:
    """Bound over error of one random case, by the bound of every ridge and by that of one ridge."""
    with blas_threads(1):  # small matrices, and other tests on the same cores
        name, d, X, y, power, error = random_case(seed)
        kernel, get = KERNELS[name]
        every = spectral_certificate(kernel, X, y, power, get=get, spectrum=spectrum(name, d))
        ridge = (1e-3, 1e-1, 1.0)[seed % 3] * len(X) ** 0.5 * matrix(name, d)[0, 0]
        own = spectral_certificate(kernel, X, y, power, ridge=ridge, get=get, spectrum=spectrum(name, d))
        small, true = error(1e-9 * matrix(name, d)[0, 0]), error(ridge)
    for error_there in (small, true):
        assert every.value <= error_there * (1 + 1e-9), (seed, name)
    assert own.value <= true * (1 + 1e-9), (seed, name, ridge)
    assert own.value >= every.value - 1e-9 * own.variance  # its own norm is smaller
    assert own.squared_norm <= every.squared_norm * (1 + 1e-6)
    return every.value / small, own.value / true


def test_one_degree_is_the_formula_of_the_sheet():
    """(√k·α − √λ_k √(Σ_r y_rᵀK⁻¹y_r))₊², the norm by NumPy."""
    d, k, alpha = 8, 4, 0.5
    rng = np.random.default_rng(0)
    F, G = theorem_2(d, (0, 2, 5, 7), alpha)
    for name in ("deep", "gaussian", "arcsine"):
        kernel, get = KERNELS[name]
        rows = rng.permutation(2**d)[:20]
        y = (F + G)[rows]
        norm = np.sum(y * np.linalg.solve(matrix(name, d)[np.ix_(rows, rows)], y))
        lam = spectrum(name, d).eigenvalues[k]
        expected = max(0.0, np.sqrt(k) * alpha - np.sqrt(lam * norm)) ** 2
        found = spectral_certificate(kernel, corners(d)[rows], y, {k: k * alpha**2}, get=get)
        assert found.value == pytest.approx(expected, rel=1e-6)
        assert found.squared_norm == pytest.approx(norm, rel=1e-8)
        assert found.squared_norm >= norm * (1 - 1e-12)
        assert found.covers == "every ridge"
        assert not found.vacuous
        states = {one.statement: one.status for one in found.assumptions}
        assert states["K is invertible"] == "met"
        assert states["new points are uniform on those corners"] == "not checked"


def test_the_bound_is_attained_by_the_function_that_minimises():
    """Any function of the norm is allowed: that with u_s = √v_s √λ_s/(λ_s + μ) has the bound for its error."""
    spec = spectrum("deep", 7)
    power = {1: 2.0, 2: 0.5, 5: 0.3}
    mu, v, lam = 0.02, np.array([2.0, 0.5, 0.3]), spec.eigenvalues[[1, 2, 5]]
    norm, error = np.sum(v * lam / (lam + mu) ** 2), np.sum(v * (mu / (lam + mu)) ** 2)
    value, multiplier, variance = lower_bound(spec, power, float(norm))
    assert value == pytest.approx(error, rel=1e-9)
    assert multiplier == pytest.approx(mu, rel=1e-4)
    assert variance == pytest.approx(2.8)
    assert lower_bound(spec, power, 0.0)[0] == pytest.approx(2.8)
    assert lower_bound(spec, power, 1e9)[0] == 0.0
    assert lower_bound(spec, power, np.inf)[0] == 0.0


def test_repeated_rows_leave_the_bound_of_a_ridge_alone():
    d, rows = 6, [3, 3, 9, 20]
    F, G = theorem_2(d, (0, 1, 2, 3), 1.0)
    kernel, X, y = KERNELS["deep"][0], corners(d)[rows], (F + G)[rows]
    every = spectral_certificate(kernel, X, y, {4: 4.0})
    assert every.vacuous
    assert every.value == 0.0
    assert {one.statement: one.status for one in every.assumptions}["K is invertible"] == "not checked"
    one = spectral_certificate(kernel, X, y, {4: 4.0}, ridge=0.5)
    assert one.value > 1.0
    K = matrix("deep", d)
    c = np.linalg.solve(K[np.ix_(rows, rows)] + 0.5 * np.eye(4), y)
    assert one.value <= np.mean(np.sum((F + G - K[:, rows] @ c) ** 2, axis=1))


def test_the_dimension_count_holds_for_every_span_by_enumeration_of_subsets():
    """The least error in the span, by least squares on all corners, over all subsets: mean and count."""
    rng = np.random.default_rng(5)
    ratios = []
    for seed, (d, k) in enumerate([(6, 2), (6, 3), (7, 4), (7, 3), (8, 4), (8, 2)] * 2):
        alpha = (0.3, 1.0)[seed % 2]
        name = list(KERNELS)[seed % len(KERNELS)]
        N = int(rng.integers(1, comb(d, k)))
        basis, _ = np.linalg.qr(matrix(name, d)[:, rng.permutation(2**d)[:N]])
        errors = []
        for subset in combinations(range(d), k):
            H = sum(theorem_2(d, subset, alpha))
            errors.append(np.mean(np.sum((H - basis @ (basis.T @ H)) ** 2, axis=1)))
        found = dimension_certificate(d, k, N, alpha)
        assert found.subsets == len(errors)
        assert np.mean(errors) >= found.mean * (1 - 1e-9)
        for share in (0.25, 0.5, 0.9):
            said = dimension_certificate(d, k, N, alpha, share=share)
            assert np.mean(np.array(errors) >= said.level) >= said.probability - 1e-12
        ratios.append(found.mean / np.mean(errors))
    assert max(ratios) > 0.5  # F is in no span here, so that the count of G alone is well below


def test_the_dimension_count_is_attained():
    """A span of N products of k coordinates learns just those: equality in the mean and in the count."""
    d, k, N = 6, 3, 7
    subsets = list(combinations(range(d), k))
    basis = np.stack([parity(d, s) for s in subsets[:N]] + [parity(d, (i,)) for i in range(d)], axis=1) / 2 ** (d / 2)
    errors = []
    for subset in subsets:
        H = sum(theorem_2(d, subset, 0.5))
        errors.append(np.mean(np.sum((H - basis @ (basis.T @ H)) ** 2, axis=1)))
    found = dimension_certificate(d, k, N, 0.5)
    assert np.mean(errors) == pytest.approx(found.mean)  # with the d linear functions for nothing
    assert np.sum(np.array(errors) < 1e-9) == N
    nearly = dimension_certificate(d, k, N, 0.5, share=1e-9)
    assert nearly.probability == pytest.approx(1 - N / len(subsets))


def test_kernels_samples_and_probabilities_count_as_the_sheet_says():
    found = dimension_certificate(64, 4, 4096, 0.3)
    assert found.subsets == 635_376
    assert found.mean == pytest.approx(4 * 0.09 * (1 - 4096 / 635_376))
    assert found.level == pytest.approx(0.09)
    assert found.probability >= 1 - 4 * 4096 / 3 / 635_376
    assert found.largest_samples == pytest.approx(0.0075 * 635_376, abs=1.0)
    at = dimension_certificate(64, 4, found.largest_samples, 0.3)
    assert at.probability >= 0.99
    assert dimension_certificate(64, 4, found.largest_samples + 2, 0.3).probability < 0.99
    assert dimension_certificate(64, 4, 1024, 0.3, kernels=4).mean == found.mean
    assert dimension_certificate(8, 4, 70, 1.0).vacuous
    assert dimension_certificate(8, 4, 0, 1.0).mean == 4.0


def test_the_printed_range_is_empty_below_the_dimension_it_names():
    for k in (2, 4, 6):
        first = printed_range(64, k).smallest_dimension
        assert printed_range(first, k).largest_samples >= 1
        assert printed_range(first - 1, k).empty
    small, large = printed_range(64, 4), printed_range(10**6, 4)
    assert small.empty
    assert "empty" in small.holds_for
    assert large.largest_samples == pytest.approx((10**6 / (320 * np.log(10**6) ** 2)) ** 2)
    assert printed_range(1280, 4).smallest_alpha == pytest.approx(40 / 256)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kernel": RandomFeatures(Gaussian(1.0), count=10)}, "one of inner products and norms"),
        ({"kernel": 3}, "`kernel`"),
        ({"X": np.array([[1.0, 0.5], [1.0, 1.0]])}, "one norm"),
        ({"X": np.array([[1.0, 0.0], [0.0, 1.0]])}, "no corners"),
        ({"X": np.array([[np.nan, 1.0], [1.0, 1.0]])}, "`X` has 1 NaN"),
        ({"power": {3: 1.0}}, "degrees 0 to 2"),
        ({"power": {1: -1.0}}, r"`power\[[0-9]\]` is -1.0"),
        ({"power": {}}, "`power` is empty"),
        ({"ridge": -1.0}, "`ridge`"),
        ({"y": [1.0]}, "`y` has shape"),
        ({"spectrum": spectrum_on_sphere(TwoLayer(), 3)}, "of the sphere"),
    ],
)
def test_wrong_input_gets_one_line(change, said):
    given = {
        "kernel": TwoLayer(),
        "X": np.array([[1.0, 1.0], [1.0, -1.0]]),
        "y": [1.0, 2.0],
        "power": {1: 1.0},
        **change,
    }
    with pytest.raises(ValueError, match=said) as caught:
        spectral_certificate(given.pop("kernel"), given.pop("X"), given.pop("y"), given.pop("power"), **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [{"d": 0}, {"k": 9}, {"samples": -1}, {"alpha": 0.0}, {"kernels": 0}, {"share": 1.0}, {"probability": 2.0}],
)
def test_wrong_counts_get_one_line(change):
    given = {"d": 8, "k": 4, "samples": 5, "alpha": 0.5, **change}
    with pytest.raises(ValueError, match=f"`{next(iter(change))}`"):
        dimension_certificate(given.pop("d"), given.pop("k"), given.pop("samples"), given.pop("alpha"), **given)
    with pytest.raises(ValueError, match="`k`"):
        printed_range(64, 1)


def test_a_kernel_of_layers_is_taken_with_its_spectrum():
    """`Residual` is a function of inner products that the house has as a composition; its spectrum from its values."""
    from overparam.kernels import spectrum_on_cube

    d, kernel = 6, Residual(depth=2)
    first = np.ones((1, d)) / np.sqrt(d)

    def of_cosines(rho):
        flipped = np.rint((1 - np.asarray(rho, dtype=float)) * d / 2).astype(int)
        rows = np.where(np.arange(d) < flipped[:, None], -1.0, 1.0) / np.sqrt(d)
        return kernel(first, rows)[0]

    spec = spectrum_on_cube(of_cosines, d)
    F, G = theorem_2(d, (0, 1, 2, 3), 0.5)
    rows = np.random.default_rng(1).permutation(2**d)[:6]
    found = spectral_certificate(kernel, corners(d)[rows], (F + G)[rows], {1: 4.0, 4: 1.0}, ridge=0.3, spectrum=spec)
    assert found.assumptions[2].status == "not checked"
    K = kernel(corners(d))
    c = np.linalg.solve(K[np.ix_(rows, rows)] + 0.3 * np.eye(6), (F + G)[rows])
    true = np.mean(np.sum((F + G - K[:, rows] @ c) ** 2, axis=1))
    assert 0.3 * true < found.value <= true


def test_counts_beyond_float64_are_counted():
    found = dimension_certificate(2000, 1000, 10, 0.3)
    assert found.probability == 1.0
    # (1 − p) of the subsets may be bad, and one short of N/(1 − t) are
    assert found.largest_samples == (comb(2000, 1000) // 100 + 1) * 3 // 4
    assert printed_range(10**12, 1000).largest_samples == np.inf
