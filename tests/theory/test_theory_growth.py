"""The error against the number of rows: parts refitted by hand, a known learning curve, laws with known parameters."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from overparam.data import generator
from overparam.kernels import FullyConnected, Laplace, Polynomial
from overparam.theory import growth_curve, growth_curves, growth_law, growth_laws, tuned_fit
from overparam.theory.growth_curves import RIDGES, Parts

RNG = np.random.default_rng(3)
N = 72
X = RNG.standard_normal((N, 3))
X[60:63] = X[5]  # equal rows
CODES = np.digitize(X[:, 0] + 0.3 * RNG.standard_normal(N), [-0.5, 0.5])
GROUPS = np.concatenate([np.arange(60) // 2, np.arange(60, N)])
LABELS = {
    "error": np.eye(3)[CODES] - 1 / 3,
    "mean_square": np.column_stack([100 + 20 * X[:, 0], X[:, 1] * X[:, 2] + 0.1 * RNG.standard_normal(N)]),
}
KERNEL, RIDGE = Laplace(2.0), 0.1


def parts_of(measure):
    y = LABELS[measure]
    return y, Parts(KERNEL, X, y, GROUPS, measure == "error", measure, "ntk", generator(0))


def losses_by_refits(y, measure, part):
    """Of all rows, by scikit-learn: the groups of the part left out one after another, the others predicted."""
    classes = measure == "error"
    shift, units = (0.0, 1.0) if classes else (y[part].mean(axis=0), y.std(axis=0))
    scaled = (y - shift) / units
    K = KERNEL(X, X)

    def predicted(rows, new, ridge):
        model = KernelRidge(alpha=ridge, kernel="precomputed").fit(K[np.ix_(rows, rows)], scaled[rows])
        return model.predict(K[np.ix_(new, rows)])

    best = None
    for ridge in RIDGE * np.array(RIDGES):
        left = np.empty((len(part), y.shape[1]))
        for group in np.unique(GROUPS[part]):
            out = GROUPS[part] == group
            left[out] = predicted(part[~out], part[out], ridge)
        square = np.sum((left - scaled[part]) ** 2)
        if best is None or square < best[0]:
            best = square, ridge, left
    outputs = predicted(part, np.arange(N), best[1])
    outputs[part] = best[2]
    if classes:
        return (outputs.argmax(axis=1) != CODES).astype(float), best[1]
    return np.mean((scaled - outputs) ** 2, axis=1), best[1]


@pytest.mark.parametrize("measure", list(LABELS))
def test_parts_are_refits(measure):
    y, parts = parts_of(measure)
    part = parts.cut(np.arange(N), 4)[1]
    found, ridge = parts.fitted(part, RIDGE)
    expected, its = losses_by_refits(y, measure, part)
    assert ridge == pytest.approx(its)
    # Systems of condition at most n/ridge, twice: those of the package and of scikit-learn.
    allowed = 100 * np.finfo(float).eps * (N / (RIDGE * RIDGES[0])) ** 2
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=allowed)


def test_parts_hold_whole_groups_and_every_class_in_proportion():
    _, parts = parts_of("error")
    for into in (2, 4, 4.5):
        made = parts.cut(np.arange(N), into)
        rows = np.concatenate(made)
        assert len(made) == int(into)
        assert len(np.unique(rows)) == len(rows)
        assert into != int(into) or len(rows) == N
        for part in made:
            assert not set(GROUPS[part]) & set(GROUPS[np.setdiff1d(np.arange(N), part)])
            assert abs(len(part) - N / into) <= 2  # the largest group
    codes = CODES[:, None] == np.arange(3)
    single = Parts(KERNEL, X, LABELS["error"], np.arange(N), True, "error", "ntk", generator(0))
    for part in single.cut(np.arange(N), 4):
        assert np.all(np.abs(codes[part].sum(axis=0) - codes.sum(axis=0) / 4) <= 1)


def test_errors_are_means_over_parts_and_rows():
    y = LABELS["mean_square"]
    curve = growth_curve(KERNEL, X, y, ridge=RIDGE, groups=GROUPS, task="regression")
    parts = Parts(KERNEL, X, y, GROUPS, False, "mean_square", "ntk", generator(0, 41))
    expected = [
        np.mean([parts.fitted(part, RIDGE)[0] for part in parts.cut(np.arange(N), N / size)]) for size in (18, 36)
    ]
    np.testing.assert_allclose(curve.errors[:2], expected, rtol=1e-12)
    assert curve.errors[2] == pytest.approx(parts.fitted(np.arange(N), RIDGE)[0].mean(), rel=1e-12)
    assert curve.sizes.tolist() == [18, 36, 72]
    assert curve.parts.tolist() == [4, 2, 1]
    assert np.all((curve.lower < curve.errors) & (curve.errors < curve.upper))


def test_given_outputs_are_those_of_the_fit():
    fit = tuned_fit(X, LABELS["error"], groups=GROUPS, candidates={"conjugate": (FullyConnected(2), "nngp")})
    assert isinstance(fit.kernel, FullyConnected)
    assert fit.get == "nngp"
    curve = growth_curve(
        fit.kernel, X, LABELS["error"], ridge=fit.ridge, outputs=fit.outputs, groups=GROUPS, get=fit.get
    )
    assert curve.errors[-1] == pytest.approx(fit.error)
    assert curve.measure == "error"
    assert curve.ridges[-1] == fit.ridge


def test_many_rows_are_judged_on_some(monkeypatch):
    monkeypatch.setattr(growth_curves, "LARGEST", 20)
    monkeypatch.setattr(growth_curves, "MOST_ROWS", 40)
    y = LABELS["error"]
    with pytest.raises(ValueError, match=r"72 rows and no `outputs`"):
        growth_curve(KERNEL, X, y, ridge=RIDGE)
    curve = growth_curve(KERNEL, X, y, ridge=RIDGE, outputs=y)
    assert curve.sizes.tolist() == [20, 72]
    assert curve.errors[-1] == 0.0 < curve.errors[0]
    assert curve.law is None
    assert curve.verdict == "cannot tell"


def test_the_learning_curve_of_ridge_regression_on_gaussian_rows(monkeypatch):
    """With the ridge σ²d/‖w‖², rows N(0, I) and d/n = γ: σ² + σ² γ m(−z), m of Marchenko and Pastur at z = ridge/n."""
    monkeypatch.setattr(growth_curves, "RIDGES", (1.0,))
    n, d, noise = 512, 40, 0.5
    rng = np.random.default_rng(7)
    rows, w = rng.standard_normal((n, d)), rng.standard_normal(d)
    w /= np.linalg.norm(w)
    y = rows @ w + noise * rng.standard_normal(n)
    ridge = noise**2 * d
    curve = growth_curve(Polynomial(1), rows, y, ridge=ridge)
    sizes = np.array([*curve.sizes, 4 * n])
    shape, z = d / sizes, ridge / sizes
    middle = 1 - shape + z
    risk = noise**2 + noise**2 * (np.sqrt(middle**2 + 4 * shape * z) - middle) / (2 * z)
    expected = risk[:-1]
    # Four standard errors of each, and finite d: 1/d of what is above the noise.
    found = curve.errors * y.var()
    assert np.all(
        np.abs(found - expected) < 4 * np.sqrt(np.diag(curve.covariance)) * y.var() + (expected - noise**2) / d
    )
    at = curve.at_four_times
    assert at is not None
    assert at.lower < risk[-1] / y.var() < at.upper


@pytest.mark.parametrize(("power", "floor"), [(8, 0), (20, 15), (26, 6)])
def test_an_exact_law_is_found(power, floor):
    c, share = growth_laws.POWERS[power], growth_laws.FLOORS[floor]
    sizes = np.array([125, 250, 500, 1000, 2000])

    def error(m):
        return 0.1 * (share + (1 - share) * (np.asarray(m) / 2000) ** -c)

    law = growth_law(sizes, error(sizes), np.zeros((5, 5)), departs=0.0)
    # The law is one of those tried, and errors are taken for known to a millionth.
    np.testing.assert_allclose(law.power, c)
    np.testing.assert_allclose(law.floor, 0.1 * share, atol=1e-6)
    np.testing.assert_allclose(law.at([4000, 8000]).value, error([4000, 8000]), rtol=1e-5)
    assert law.ratio(2).value == pytest.approx(error(4000) / 0.1, rel=1e-9)


def test_intervals_hold_as_often_as_they_say():
    """Laws drawn as they were taken to be before measuring, errors drawn around them: a binomial count is inside."""
    rng, times, level, inside = np.random.default_rng(1), 48, 0.8, 0
    sizes = np.array([250, 500, 1000])
    covariance = 4e-5 * (np.full((3, 3), 0.5) + 0.5 * np.eye(3))
    prior = -0.5 * (np.log(growth_laws.POWERS / growth_laws.MIDDLE_POWER) / growth_laws.SPREAD) ** 2
    chances = np.exp(prior) / np.exp(prior).sum()
    floors = np.exp(-growth_laws.LOW_FLOORS * growth_laws.FLOORS)
    for _ in range(times):
        c, share = rng.choice(growth_laws.POWERS, p=chances), rng.choice(growth_laws.FLOORS, p=floors / floors.sum())
        true = 0.2 * (share + (1 - share) * (np.array([*sizes, 4000]) / 1000) ** -c)
        law = growth_law(sizes, rng.multivariate_normal(true[:3], covariance), covariance, departs=0.0)
        at = law.at(4000, level)
        inside += at.lower <= true[3] <= at.upper
    assert abs(inside - level * times) <= 4 * np.sqrt(times * level * (1 - level))


def test_the_verdict_needs_an_interval_to_act_on():
    sizes, known = [125, 250, 500, 1000], 1e-6 * np.eye(4)
    falling = 0.1 * (np.array(sizes) / 1000) ** -0.5
    assert growth_law(sizes, falling, known).verdict == "helps"
    assert growth_law(sizes, np.full(4, 0.1), known).verdict == "hardly helps"
    assert growth_law(sizes, falling, 1e-2 * np.eye(4)).verdict == "cannot tell"
    wide, narrow = (growth_law(sizes, falling, scale * np.eye(4)).at(4000) for scale in (1e-4, 1e-6))
    assert wide.width > narrow.width > growth_law(sizes, falling, known, departs=0.0).at(4000).width


def test_few_rows_are_not_continued():
    few = slice(0, 60)
    curve = growth_curve(KERNEL, X[few], LABELS["error"][few], ridge=RIDGE)
    assert (curve.law, curve.at_twice, curve.at_four_times, curve.verdict) == (None, None, None, "cannot tell")
    assert curve.sizes[-1] == 60


@pytest.mark.parametrize("y", [np.ones(N), np.full(N, 5.0)], ids=["one class", "one number"])
def test_without_an_error_nothing_is_left_to_improve(y):
    curve = growth_curve(KERNEL, X, y, ridge=RIDGE)
    assert not curve.errors.any()
    assert curve.verdict == "hardly helps"
    assert curve.at_four_times is not None
    assert 0 <= curve.at_four_times.lower <= curve.at_four_times.upper < 4 / N


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ridge": 0.0}, "`ridge` is 0.0"),
        ({"outputs": np.ones(3)}, r"`outputs` has shape \(3,\)"),
        ({"measure": "auc"}, "`measure` is 'auc'"),
        ({"y": np.arange(N, dtype=float), "measure": "error"}, "`y` is neither"),
        ({"groups": np.zeros(N)}, "all rows into one group"),
    ],
)
def test_bad_input_is_said_in_one_line(change, words):
    given = {"y": np.sign(X[:, 0]), "ridge": RIDGE} | change
    with pytest.raises(ValueError, match=words) as caught:
        growth_curve(KERNEL, X, given.pop("y"), **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (([2, 1], [0.1, 0.2], np.eye(2)), "`sizes` is"),
        (([1, 2], [0.1, -0.2], np.eye(2)), "`errors` is"),
        (([1, 2], [0.1, 0.2], np.eye(3)), r"`covariance` has shape \(3, 3\)"),
    ],
)
def test_a_law_needs_rising_sizes(given, words):
    with pytest.raises(ValueError, match=words):
        growth_law(*given)
