"""Every number of an analysis against plain NumPy: refits, solves, eigendecompositions."""

import numpy as np
import pytest
from analysis_cases import SETS, checked

NAMES = tuple(SETS)
TESTED = tuple(name for name in NAMES if name != "iris")


@pytest.mark.parametrize("name", NAMES)
def test_leave_one_out_is_that_of_explicit_refits(name):
    c = checked(name)
    got = c.found.learnability
    for ridge, error, margins in (
        (got.ridge, got.left_out_error, got.margins),
        (c.floor, got.left_out_error_end, got.margins_end),
    ):
        outputs = c.refitted(ridge)
        tolerance = 1e-8 if ridge == 0 or ridge > 1e-4 else 1e-5  # solves lose digits where rows repeat
        if c.data.task == "regression":
            assert error == pytest.approx(np.mean((c.y - outputs) ** 2), rel=tolerance)
            assert len(margins) == 0
            continue
        right = c.y.argmax(axis=1) if c.y.ndim == 2 else None
        if right is None:
            expected = c.y * outputs
        else:
            rows = np.arange(len(right))
            others = outputs.copy()
            others[rows, right] = -np.inf
            expected = outputs[rows, right] - others.max(axis=1)
        assert np.max(np.abs(margins - expected)) < tolerance
        assert error == np.mean(margins <= 0)
        assert error == c.error(c.y, outputs)


@pytest.mark.parametrize("name", NAMES)
def test_the_best_ridge_is_no_worse_than_none(name):
    got = checked(name).found.learnability
    tried = got.ridges_tried
    assert got.ridge == tried[tried[:, 1].argmin(), 0]
    outputs = checked(name).refitted(checked(name).floor)
    at_end = np.sum((checked(name).y - outputs) ** 2) / len(outputs)
    assert tried[:, 1].min() <= at_end * (1 + 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_complexity_is_a_solve(name):
    c = checked(name)
    got, n = c.found.learnability, len(c.y)

    def by_solve(ridge):
        return np.sqrt(2 / n * np.sum(c.Y * np.linalg.solve(c.H + ridge * np.eye(n), c.Y)))

    assert got.ridged_by == pytest.approx(0.1 * np.diag(c.H).mean(), rel=1e-12)
    assert got.ridged_complexity.value == pytest.approx(by_solve(got.ridged_by), rel=1e-6)
    if name == "iris":  # repeated rows: nothing bounds the raw one from above
        assert got.complexity.upper is None
        assert not got.complexity.certified
        assert got.worst_complexity is None
        return
    exact = by_solve(0.0)
    assert got.complexity.lower * (1 - 1e-9) <= exact <= got.complexity.upper * (1 + 1e-9)
    assert got.complexity.value == pytest.approx(exact, rel=1e-6)
    assert c.found.complexity is got.complexity
    worst = np.sqrt(2 * np.sum(c.Y**2) / n / c.lam[0])
    assert got.worst_complexity.value == pytest.approx(worst, rel=1e-8)
    assert worst <= got.worst_complexity.upper
    assert got.effective_dimension == pytest.approx(np.sum(c.lam / (c.lam + got.ridged_by)), rel=1e-8)
    size = np.linalg.norm(c.H) * np.linalg.norm(c.Y @ c.Y.T)
    assert got.alignment == pytest.approx(np.sum(c.H * (c.Y @ c.Y.T)) / size, rel=1e-9)


@pytest.mark.parametrize("name", ["digits", "wine", "diabetes", "breast-cancer"])
def test_random_and_shuffled_labels_are_as_complex_as_they_must_be(name):
    """E yᵀH⁻¹y is the trace of H⁻¹ times the variance of a label, and the mean's own part for shuffled ones."""
    c = checked(name)
    got, n = c.found.learnability, len(c.y)
    inverse = np.linalg.inv(c.H)
    k = c.Y.shape[1]
    variance = {"regression": 1.0, "binary": 1.0}.get(c.data.task, (1 - 1 / k) / k)
    drawn = n / 2 * got.random_complexities**2
    if c.data.task != "regression":
        assert drawn.mean() == pytest.approx(
            k * variance * np.trace(inverse), abs=5 * drawn.std() / np.sqrt(len(drawn))
        )
    middle = c.Y.mean(axis=0)
    spread = c.Y.var(axis=0).sum() * n / (n - 1)
    total = np.ones(n) @ inverse @ np.ones(n)
    expected = spread * (np.trace(inverse) - total / n) + np.sum(middle**2) * total
    shuffled = n / 2 * got.shuffled_complexities**2
    assert shuffled.mean() == pytest.approx(expected, abs=5 * shuffled.std() / np.sqrt(len(shuffled)))
    assert got.simpler_than_shuffled == pytest.approx(got.shuffled_complexities.mean() / got.complexity.value)
    assert len(got.random_complexities) == len(got.shuffled_errors_end) == 10


@pytest.mark.parametrize("name", NAMES)
def test_eigenvalues_rates_and_spectrum(name):
    c = checked(name)
    s = c.found.speed
    top, bottom = c.lam[-1], max(c.lam[0], 0.0)
    assert s.lambda_max.value == pytest.approx(top, rel=1e-8)
    assert s.lambda_max.lower <= top * (1 + 1e-12)
    assert top <= s.lambda_max.upper * (1 + 1e-12)
    assert s.lambda_min.lower <= bottom + 1e-13
    assert s.lambda_min.upper == pytest.approx(0.0 if name == "iris" else bottom, rel=1e-8)
    assert s.largest_rate.lower <= 2 / top <= s.largest_rate.upper * (1 + 1e-12)
    assert s.rate == s.largest_rate.lower / 2
    assert s.best_rate.lower <= 2 / (top + bottom) * (1 + 1e-9)
    seen = c.found.spectrum
    assert seen.whole
    assert np.max(np.abs(seen.eigenvalues - np.maximum(c.lam[::-1], 0))) < 1e-11 * top
    assert seen.true.sum() == pytest.approx(1.0)
    assert seen.random.sum() == pytest.approx(1.0)
    shares = np.sum((c.V.T @ c.Y) ** 2, axis=1)[::-1] / np.sum(c.Y**2)
    assert np.max(np.abs(seen.true[:5] - shares[:5])) < 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_curve_and_movement_are_those_of_the_eigendecomposition(name):
    c = checked(name)
    s, weights = c.found.speed, np.sum((c.V.T @ c.Y) ** 2, axis=1)
    lam = np.maximum(c.lam, 0.0)
    decay = np.exp(np.outer(s.steps, np.log1p(-s.rate * lam)))
    curve = (decay**2 @ weights) / weights.sum()
    assert np.max(np.abs(s.true[0] - curve)) < 1e-8
    assert np.all(s.true[1] <= curve + 1e-12)
    assert np.all(curve <= s.true[2] + 1e-12)
    assert np.all(s.certified)
    safe = np.where(lam > 1e-12, lam, 1.0)
    shares = np.where(lam > 1e-12, (1 - decay) ** 2 / safe, 0.0)
    moved = np.sqrt(shares @ weights)
    value, lower, upper = c.found.trust.movement
    # where rows repeat the sweep stops on its ridged bracket, which the last decades of steps feel
    assert np.max(np.abs(value - moved)) < (1e-7 if name == "iris" else 1e-8) * moved.max()
    assert np.all(lower <= moved * (1 + 1e-8) + 1e-9)
    assert np.all(moved <= np.where(np.isfinite(upper), upper, np.inf) * (1 + 1e-8) + 1e-9)
    end = moved[-1] if c.found.trust.lazy_steps else np.sqrt(np.sum(weights / lam))
    for i, kappa in enumerate(c.found.trust.kappas):
        for j, width in enumerate(c.found.trust.widths):
            assert c.found.trust.laziness[i, j] == pytest.approx(end / (np.sqrt(width) * kappa), rel=1e-6)
    needed = (end / 0.1) ** 2
    assert needed * (1 - 1e-6) <= c.found.trust.width_for_lazy <= needed * 1.001 + 1  # from the certified side


@pytest.mark.parametrize("name", NAMES)
def test_steps_to_targets_by_search_in_the_exact_curve(name):
    c = checked(name)
    s, weights = c.found.speed, np.sum((c.V.T @ c.Y) ** 2, axis=1)
    logs = np.log1p(-s.rate * np.maximum(c.lam, 0.0))
    for target in s.targets:
        if target.labels != "true" or target.status != "reached":
            continue

        def share(steps):
            return float(np.exp(2 * steps * logs) @ weights / weights.sum())

        assert share(target.value) <= target.relative_target * (1 + 1e-6)
        assert share(target.value - 1) > target.relative_target * (1 - 1e-6)
        assert target.lower <= target.value <= target.upper


@pytest.mark.parametrize("name", TESTED)
def test_the_test_set_by_a_solve(name):
    c = checked(name)
    got, n = c.found.new_data, len(c.y)
    assert got.test_rows == len(c.y_test)
    at_end = c.K_test @ np.linalg.solve(c.H + c.floor * np.eye(n), c.y)
    ridged = c.K_test @ np.linalg.solve(c.H + c.found.learnability.ridge * np.eye(n), c.y)
    exactly = {"rel": 1e-8} if c.data.task == "regression" else {"abs": 1e-12}
    assert got.test_error == pytest.approx(c.error(c.y_test, at_end), **exactly)
    assert got.test_error_ridged == pytest.approx(c.error(c.y_test, ridged), **exactly)
    assert got.test_mean_absolute == pytest.approx(np.mean(np.abs(c.y_test - at_end)), rel=1e-8)


@pytest.mark.parametrize("name", TESTED)
def test_early_stopping_on_the_test_set(name):
    c = checked(name)
    s = c.found.speed
    assert s.early_on == f"the {len(c.y_test)} test rows"
    assert s.early_rows == len(c.y_test)
    for i, step in enumerate(s.early_steps):
        grown = -np.expm1(step * np.log1p(-s.rate * c.lam)) / c.lam
        outputs = c.K_test @ (c.V @ (grown[:, None] * (c.V.T @ c.Y)))
        square = np.sum((c.y_test.reshape(outputs.shape) - outputs) ** 2) / len(outputs)
        assert s.early_mean_squares[i] == pytest.approx(square, rel=1e-4)
        assert s.early_errors[i] == pytest.approx(
            c.error(c.y_test, outputs.reshape(c.y_test.shape)), rel=1e-4, abs=0.02
        )


@pytest.mark.parametrize("name", ["digits", "wine", "breast-cancer"])
def test_the_noise_sweep_begins_at_the_clean_fit_and_ends_at_random(name):
    c = checked(name)
    z, got = c.found.noise, c.found.learnability
    assert z.rates.tolist() == np.round(np.arange(11) / 10, 2).tolist()
    assert z.ridge == c.floor
    assert z.complexity[0] == pytest.approx(got.complexity.value, rel=1e-6)
    assert z.error[0] == c.found.new_data.test_error
    assert z.mean_absolute[0] == pytest.approx(c.found.new_data.test_mean_absolute, rel=1e-9)
    spread = got.random_complexities.std(ddof=1)
    assert abs(z.complexity[-1] - got.random_complexities.mean()) < 5 * spread
    guess = 1 - 1 / len(c.data.classes)
    assert abs(z.error[-1] - guess) < 4 * np.sqrt(guess * (1 - guess) / len(c.y_test))
    assert np.corrcoef(z.rates, z.complexity)[0, 1] > 0.7


def test_the_noise_sweep_without_a_test_set_fits_four_fifths():
    c = checked("iris")
    z = c.found.noise
    assert z.rows == "fitted to 120 rows, measured on 30 rows held out"
    assert z.ridge == pytest.approx(c.floor, rel=1e-12)
    assert z.ridge > 0
    assert z.complexity_ridge == pytest.approx(0.1 * np.diag(c.H).mean())
    assert z.complexity.max() < 3 * c.found.learnability.random_ridged_complexities.mean()
    assert checked("wine").found.noise.complexity_ridge == 0
    assert checked("diabetes").found.noise is None
