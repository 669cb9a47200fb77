"""Laws of convergence: exact curves give exact constants, bounds bound, and small real runs stand as they should."""

import json

import numpy as np
import pytest

from overparam.core import folder, sections
from overparam.data import load
from overparam.networks import TwoLayer
from overparam.theory import iteration_law, iterations_needed, linear_rate
from overparam.theory.descent_laws import DescentLaw
from overparam.theory.iteration_laws import straight_line
from overparam.training import GivenLoss, gradient_descent, sgd

STEPS = np.array([0, 1, 2, 5, 10, 30, 100, 300])
LAWS = [DescentLaw("gradient-dominant"), DescentLaw("gradient-dominant", 3.0), DescentLaw("convex")]
RNG = np.random.default_rng(0)


def objective_of(law):
    if law.sigma != 1:
        return GivenLoss(abs, kind="gradient-dominant", dominance=law.sigma, name="own")
    return law.kind


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("constant", [0.7, 90.0])
def test_an_exact_curve_gives_its_constant(law, constant):
    steps = STEPS[:4] if constant < 1 else STEPS
    values = law.curve(steps, 4.0, constant)
    found = iteration_law((steps, values), objective_of(law))
    assert found.constant == pytest.approx(constant, rel=1e-12)
    assert found.needed == pytest.approx(constant, rel=1e-12)
    assert found.standard_error == pytest.approx(0, abs=1e-9 * constant)
    assert found.exponent == pytest.approx(1, abs=1e-12)
    assert found.r_squared == pytest.approx(1)
    assert found.largest_ratio == pytest.approx(1, rel=1e-9)
    assert found.below
    assert found.pace == "as the law"
    np.testing.assert_allclose(found.predicted, values, rtol=1e-9)
    assert found.steps_to(float(values[3])) == pytest.approx(steps[3], rel=1e-9)
    assert found.steps_to(5.0) == 0


def test_the_non_convex_law_is_of_the_smallest_gradient_so_far():
    steps = STEPS
    smallest = np.r_[9.0, np.sqrt(7.0 / steps[1:])]
    noisy = smallest.copy()
    noisy[4] = 8.0  # a gradient that rises again does not undo the point found before
    found = iteration_law((steps, smallest), "bounded non-convex")
    assert found.constant == pytest.approx(7.0, rel=1e-12)
    assert found.pace == "as the law"
    assert found.predicted[0] == np.inf  # nothing is claimed of the start
    assert found.below
    assert found.steps_to(0.1) == pytest.approx(700, rel=1e-12)
    np.testing.assert_array_equal(
        iteration_law((steps, noisy), "bounded non-convex").observed, np.minimum.accumulate(noisy)
    )


@pytest.mark.parametrize(("power", "pace"), [(0.5, "slower"), (1.0, "as the law"), (2.0, "faster")])
@pytest.mark.parametrize("kind", ["gradient-dominant", "convex", "bounded non-convex"])
def test_pace(kind, power, pace):
    """Runs whose progress grows like a power of T other than 1."""
    steps = np.array([0, 1, 2, 4, 8, 16, 32])
    progress = 0.02 * steps.astype(float) ** power
    values = {
        "gradient-dominant": 3 * np.exp(-progress),
        "convex": 1 / (1 / 3 + progress),
        "bounded non-convex": 1 / np.sqrt(np.maximum(progress, 1e-4)),
    }[kind]
    found = iteration_law((steps, values), kind)
    assert found.exponent == pytest.approx(power, abs=1e-9)
    assert found.pace == pace
    assert found.below == (power == 1)
    assert found.r_squared == pytest.approx(1) if power == 1 else found.r_squared < 0.98
    # the constant that bounds: at the end for a slow run, at the first step for a fast one
    assert found.needed == pytest.approx(50 * 32 ** (1 - power) if power < 1 else 50, rel=1e-9)
    bounding = iteration_law((steps, values), kind, constant=found.needed * (1 + 1e-12))
    assert bounding.below
    assert bounding.standard_error is None
    assert bounding.largest_ratio == pytest.approx(1, rel=1e-9)  # and no smaller one does
    assert not iteration_law((steps, values), kind, constant=found.needed * 0.99).below


@pytest.mark.parametrize("kind", ["gradient-dominant", "convex"])
def test_the_standard_error_is_that_of_the_scatter(kind):
    """Over many noisy draws of one law the fitted constants scatter as their standard errors say."""
    steps = np.r_[0, np.unique(np.geomspace(1, 1000, 40).round()).astype(int)]
    fitted = []
    for _ in range(300):
        noise = RNG.standard_normal(len(steps) - 1)
        if kind == "convex":
            values = 1 / (1 / 5 + steps[1:] / 60.0 * np.exp(0.2 * noise))
        else:
            values = 5 * np.exp(-steps[1:] / 60.0 - 0.005 * noise)  # below the first value at step 1 too
        found = iteration_law((steps, np.r_[5.0, values]), kind)
        fitted.append((found.constant, found.standard_error, found.exponent, found.exponent_error))
    constants, errors, exponents, exponent_errors = np.array(fitted).T
    assert constants.mean() == pytest.approx(60, rel=0.01)
    assert np.std(constants) == pytest.approx(errors.mean(), rel=0.2)
    if kind == "convex":
        assert exponents.mean() == pytest.approx(1, abs=0.01)
        assert np.std(exponents) == pytest.approx(exponent_errors.mean(), rel=0.2)


def test_a_run_that_rises_is_above_every_law():
    found = iteration_law(([0, 1, 2], [1.0, 1.5, 0.5]), "squared")
    assert found.needed == np.inf
    assert not found.below
    assert {a.statement: a.status for a in found.assumptions}[
        "a rate small enough: the bounded quantity never rises"
    ] == "unmet"
    lost = iteration_law(([0, 1, 2, 3], [1.0, 0.5, 0.4, np.nan]), "squared")
    assert lost.largest_ratio == np.inf
    assert lost.needed == np.inf
    json.dumps(folder.plain(sections.to_json(lost.sections())), allow_nan=False)


def test_rounding_at_the_bottom_is_left_out():
    steps = np.arange(0, 200, 10)
    values = np.maximum(2.0**-steps, 1e-31)  # a loss that has reached the rounding of its residuals
    found = iteration_law((steps, values), "squared")
    assert found.constant == pytest.approx(1 / np.log(2), rel=1e-9)
    assert found.below
    assert iteration_law((steps, values), "squared", floor=0.0).constant > 1.15 / np.log(2)
    assert found.rate.rate == pytest.approx(np.log(2), rel=1e-9)


def test_minimum_is_subtracted():
    values = 3.0 + 2.0 * 0.5 ** STEPS[:5]
    assert iteration_law((STEPS[:5], values), "squared", minimum=3.0).constant == pytest.approx(1 / np.log(2))


def test_linear_rate_is_least_squares():
    steps = np.array([0, 3, 7, 20, 50])
    loss = 5 * 0.9**steps * np.exp(0.1 * RNG.standard_normal(5))
    found = linear_rate((steps, loss))
    A = np.column_stack([np.ones(5), steps])
    (intercept, slope), residual, *_ = np.linalg.lstsq(A, np.log(loss))
    variance = residual[0] / 3 * np.linalg.inv(A.T @ A)[1, 1]
    assert found.rate == pytest.approx(-slope, rel=1e-10)
    assert found.standard_error == pytest.approx(np.sqrt(variance), rel=1e-9)
    assert found.intercept == pytest.approx(intercept, rel=1e-10)
    assert found.r_squared == pytest.approx(np.corrcoef(steps, np.log(loss))[0, 1] ** 2, rel=1e-10)
    np.testing.assert_allclose(found.at([0, 10]), np.exp(intercept + slope * np.array([0, 10])), rtol=1e-10)
    exact = linear_rate((steps, 5 * 0.9**steps), since=3, until=20)
    assert (exact.first, exact.last) == (3, 20)
    assert exact.factor == pytest.approx(0.9, rel=1e-12)
    assert linear_rate(([0, 1], [2.0, 1.0])).standard_error is None
    assert straight_line(np.array([0.0, 1.0]), np.array([2.0, 2.0]))[3] == 1.0


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((14, 5))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return load((X, np.where(rng.standard_normal(14) > 0, 1, -1)))


def test_a_wide_network_follows_the_linear_law_with_lambda_min(data):
    """ℓ2 on a wide network: F(s) ≤ F(0) exp(−σs/c) with 1/c near 2ηλ_min.

    Near, and no theorem: of a ReLU network a percent of the signs flips to and fro at every late step, which costs some
    of the descent that H(s) promises.
    """
    run = gradient_descent(TwoLayer(2048, paired=True), data, lr=0.2, steps=3000, measures=())
    found = iteration_law(run)
    assert (found.objective, found.kind) == ("squared", "gradient-dominant")
    assert {a.status for a in found.assumptions[:4]} == {"met"}
    assert found.assumptions[-1].status == "not checked"
    assert found.pace == "slower"  # small eigenvalues are left for last
    assert not found.below
    assert iteration_law(run, constant=found.needed * 1.001).below
    on = (data.X @ run.params.trained["W"].T > 0).astype(float)
    smallest = np.linalg.eigvalsh((data.X @ data.X.T) * (on @ on.T) / 2048)[0]
    slowest = -2 * np.log(1 - 0.2 * smallest)
    assert 0.8 * slowest < 1 / found.needed < 2 * slowest
    tail = linear_rate(run, since=400)
    assert run.loss[-1] < 1e-26 * run.loss[0]  # the last records are rounding, and are not fitted
    assert tail.last < 3000
    assert tail.rate == pytest.approx(slowest, rel=0.15)
    assert tail.standard_error < 0.02 * tail.rate
    assert tail.r_squared > 0.999


def test_cross_entropy_gets_every_label_right(data):
    """The convex law, its unmet assumption, and 100% accuracy once the summed loss is below ¼."""
    run = gradient_descent(TwoLayer(256), data, lr=0.5, steps=1000, objective="cross-entropy", measures=())
    found = iteration_law(run)
    assert found.kind == "convex"
    assert "unmet" in {a.status for a in found.assumptions if "minimiser" in a.statement}
    accuracy = found.accuracy
    assert accuracy.holds is True
    assert accuracy.all_right is not None
    assert accuracy.loss_below is not None
    assert accuracy.all_right <= accuracy.loss_below
    assert run.loss[run.steps == accuracy.loss_below][0] <= 0.25
    assert run.accuracy[run.steps == accuracy.all_right][0] == 1
    assert accuracy.predicted == pytest.approx(found.constant * (4 - 1 / run.loss[0]))
    mean = gradient_descent(
        TwoLayer(256), data, lr=7.0, steps=1000, objective="cross-entropy", loss="mean", measures=()
    )
    same = iteration_law(mean)  # the law is of the sum, whatever the rate referred to
    np.testing.assert_allclose(same.observed, found.observed, rtol=1e-6)
    assert same.constant == pytest.approx(found.constant, rel=1e-6)


def test_the_ramp_and_sgd(data):
    run = sgd(TwoLayer(256), data, lr=0.05, steps=200, batch=5, objective="ramp", measures=("gradient",))
    found = iteration_law(run)
    assert found.kind == "bounded non-convex"
    statuses = {a.statement: a.status for a in found.assumptions}
    assert statuses["the gradient of f is 1-Lipschitz in the outputs"] == "unmet"
    assert statuses["full-batch gradient descent"] == "unmet"
    assert statuses["f is bounded"] == "met"
    np.testing.assert_array_equal(found.observed, np.minimum.accumulate(run.output_gradient_norm))
    without = sgd(TwoLayer(256), data, lr=0.05, steps=2, batch=5, objective="ramp", measures=())
    with pytest.raises(ValueError, match="train with measures="):
        iteration_law(without)


def test_a_page_of_it(data):
    run = gradient_descent(TwoLayer(64), data, lr=0.5, steps=50, objective="cross-entropy", measures=())
    found = iteration_law(run)
    (section,) = found.sections()
    assert section.title == "The law of convergence"
    text = json.dumps(folder.plain(sections.to_json((section,))), allow_nan=False)
    assert sections.from_json(json.loads(text))[0].blocks[1].title == "The run and its law"
    assert found.summary().startswith("For a convex loss the loss falls like 1/T")
    assert "first record with every label right" in text
    assert "convergence, Thm 6, App. A" in text


def test_a_loss_of_ones_own_is_not_checked(data):
    own = GivenLoss(lambda u, y: (u - y) ** 2, kind="gradient-dominant", dominance=2.0, smoothness=2.0)
    run = gradient_descent(TwoLayer(64), data, lr=0.05, steps=20, objective=own, measures=())
    assert (run.objective, run.objective_kind, run.dominance) == ("given", "gradient-dominant", 2.0)
    found = iteration_law(run)
    assert found.sigma == 2.0
    assert {a.status for a in found.assumptions[:2]} == {"not checked"}
    same = gradient_descent(TwoLayer(64), data, lr=0.1, steps=20, measures=())  # half the loss at twice the rate
    assert found.constant == pytest.approx(2 * iteration_law(same).constant, rel=1e-9)


def test_iterations_needed_with_the_polynomial_spelled_out():
    base = {"n": 3, "depth": 5, "separation": 0.1}  # n⁶L²/δ² = 729·16·100
    assert iterations_needed("all labels right", 0.1, **base) == pytest.approx(729 * 16 * 100)
    assert iterations_needed("gradient-dominant", 1 / np.e, sigma=2, **base) == pytest.approx(729 * 16 * 50)
    assert iterations_needed("convex", 0.5, diameter=3, **base) == pytest.approx(729 * 16 * 100 * 3 * 9 * 2)
    assert iterations_needed("bounded non-convex", 0.5, constant=10, **base) == pytest.approx(729 * 16 * 100 * 40)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: iteration_law(([0, 1], [1.0, 0.5])), "`objective` is needed with"),
        (lambda: iteration_law(([0, 1], [1.0, 0.5]), "hinge"), "`objective` is 'hinge'"),
        (
            lambda: iteration_law(([1, 2], [1.0, 0.5]), "squared"),
            "the first record is of step 1; the law starts at step 0",
        ),
        (lambda: iteration_law(([0, 1], [1.0, 2.0]), "squared"), "no record after step 0 is below the first"),
        (lambda: iteration_law(([0, 1], [np.nan, 2.0]), "squared"), "the first loss is nan"),
        (lambda: iteration_law(([0, 1], [1.0, 0.5]), "squared", constant=-1), "`constant` is -1"),
        (lambda: iteration_law(([0, 1], [1.0]), "squared"), r"steps have shape \(2,\) and losses \(1,\)"),
        (lambda: iteration_law(3, "squared"), "`run` is a int; expected a Trajectory or"),
        (lambda: iteration_law(([0, 1], [1.0, 0.5]), "squared").steps_to(0), "`epsilon` is 0; expected a number > 0"),
        (
            lambda: linear_rate(([0, 1], [1.0, 0.0])),
            "a rate needs two records with a loss above rounding from step 0 on, got 1",
        ),
        (lambda: linear_rate(([1, 0], [1.0, 2.0])), "steps ≥ 0 and rising"),
        (lambda: DescentLaw("concave"), "`kind` is 'concave'"),
        (lambda: iterations_needed("concave", 0.1, n=3, depth=3, separation=1.0), "`kind` is 'concave'"),
        (lambda: iterations_needed("convex", 0.1, n=3, depth=1, separation=1.0), "expected positive numbers"),
    ],
)
def test_what_cannot_be_is_one_line(make, said):
    with pytest.raises(ValueError, match=said) as caught:
        make()
    assert "\n" not in str(caught.value)
