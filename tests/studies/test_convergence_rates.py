"""The study of convergence: fits against planted rates, losses against their constants, the smoke scale, and its words."""

import copy
import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import linregress
from study_cases import check, texts

from overparam.core import sections
from overparam.data import as_dataset
from overparam.data.duplicates import smallest_distance
from overparam.studies import STUDIES, prepare_reproduce, reproduce
from overparam.studies import convergence_rates as study
from overparam.studies import convergence_rates_numbers as numbers
from overparam.studies.convergence_rates import LOSSES, SIGMA, SMALL, SMOKE, build, rippled, saturated
from overparam.theory.iteration_laws import linear_rate

STUDY = STUDIES["convergence-rates"]

# --- the losses


def on_a_grid(loss):
    """r, f, f′, f″ by automatic differentiation, out to where both losses are in their tails."""
    with jax.enable_x64(True):
        r = jnp.linspace(1e-3, 40.0, 200_001)
        one = lambda x: loss(x, jnp.zeros(()))  # noqa: E731
        return tuple(np.asarray(jax.vmap(f)(r)) for f in (lambda x: x, one, jax.grad(one), jax.grad(jax.grad(one))))


def test_the_rippled_loss_has_the_constant_it_claims_and_is_not_convex():
    r, f, slope, curve = on_a_grid(rippled)
    ratio = slope**2 / (2 * f)
    assert SIGMA <= ratio.min() < 1.5 * SIGMA
    assert ratio.min() == pytest.approx(0.0842, abs=1e-4)
    assert np.abs(curve).max() <= 1 + 1e-12
    assert curve[0] == pytest.approx(1, abs=1e-5)
    assert curve.min() == pytest.approx(-1 / 3, abs=1e-6)
    assert np.array_equal(curve < -1e-9, np.cos(2 * r) < -0.5 - 1.5e-9)


def test_the_saturated_loss_is_bounded_smooth_and_not_gradient_dominant():
    _, f, slope, curve = on_a_grid(saturated)
    assert f.max() < 0.5
    assert np.abs(curve).max() <= 1 + 1e-12
    assert curve.min() == pytest.approx(-0.25, abs=1e-6)
    assert (slope**2 / (2 * f)).min() < 1e-6


def test_losses_of_several_outputs_are_sums():
    u, y = jnp.array([[0.5, -1.0], [2.0, 0.0]]), jnp.array([[0.0, 0.0], [0.0, 3.0]])
    for name in ("rippled", "saturated"):
        alone = LOSSES[name].each(u.ravel(), y.ravel()).reshape(2, 2).sum(axis=1)
        assert np.allclose(LOSSES[name].each(u, y), alone)


# --- fits


def test_a_planted_rate_is_found_before_rounding_sets_in():
    steps = np.arange(0, 4000, 10)
    loss = 3.0 * np.exp(-0.02 * steps) + np.exp(-0.5 * steps) + 1e-29
    rate, error, (first, last) = numbers.tail_rate(steps, loss)
    assert rate == pytest.approx(0.02, rel=1e-4)
    assert error < 1e-5
    assert loss[steps == last] > numbers.ROUNDING * loss[0]
    assert first < last < 3000
    assert numbers.tail_rate(np.array([0, 1]), np.array([1.0, 0.5]))[0] is None
    assert numbers.tail_rate(steps, np.full(len(steps), np.nan))[0] is None


def test_the_error_of_a_rate_is_right_for_a_random_walk_where_that_of_a_line_is_not():
    rng = np.random.default_rng(0)
    steps, drift = np.arange(241), 0.05
    scores, of_line = [], []
    for _ in range(300):
        walk = np.exp(-np.concatenate([[0.0], np.cumsum(drift + 0.1 * rng.standard_normal(240))]))
        rate, error, (first, _) = numbers.tail_rate(steps, walk)
        scores.append((rate - drift) / error)
        line = linear_rate((steps, walk), since=first)
        of_line.append((line.rate - drift) / line.standard_error)
    # Seven degrees of freedom: the scores have standard deviation √(7/5) = 1.18, known within 10% from 300 of them.
    assert abs(np.mean(scores)) < 4 * 1.18 / np.sqrt(300)
    assert 0.95 < np.std(scores) < 1.5
    assert np.std(of_line) > 3


def test_the_rate_of_the_mean_loss_under_sgd_is_that_of_all_batches_written_out():
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((4, 6))
    H = Z @ Z.T
    lr = 0.5 / (4 * H.diagonal().max())
    for b in (1, 2, 3):
        whole = np.zeros((16, 16))
        batches = list(itertools.combinations(range(4), b))
        for batch in batches:
            M = np.eye(4)
            M[:, list(batch)] -= lr * 4 / b * H[:, list(batch)]
            whole += np.kron(M, M) / len(batches)
        factor = np.abs(np.linalg.eigvals(whole)).max()
        assert numbers.mean_rate(H, lr, b) == pytest.approx(-np.log(factor), rel=1e-6)
    smallest = np.linalg.eigvalsh(H)[0]
    assert numbers.mean_rate(H, lr, 4) == numbers.mean_rate(H, lr) == pytest.approx(-2 * np.log(1 - lr * smallest))
    assert numbers.mean_rate(H, lr, 1) < numbers.mean_rate(H, lr)


def test_steps_of_a_fixed_kernel_are_those_of_running_it():
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((5, 7))
    H, r = Z @ Z.T, rng.standard_normal(5)
    lr = 1 / np.linalg.eigvalsh(H)[-1]
    losses = [r @ r]
    now = r
    while losses[-1] > 1e-3 * losses[0]:
        now = now - lr * H @ now
        losses.append(now @ now)
    expected = study.linear_steps(H, r, lr, 1e-3)
    assert len(losses) - 2 < expected <= len(losses) - 1
    # Within a step log F is straight up to the spread of the eigenvalues.
    assert numbers.steps_to_share(np.arange(len(losses)), np.array(losses), 1e-3) == pytest.approx(expected, abs=0.01)
    assert study.linear_steps(np.zeros((2, 2)), np.ones(2), 1.0, 0.1) == float("inf")
    assert numbers.steps_to_share(np.arange(3), np.array([1.0, 0.9, 0.8]), 0.5) is None


def test_exponents_are_those_of_scipy_and_of_planted_laws():
    rng = np.random.default_rng(3)
    x = np.repeat([1.0, 2.0, 4.0, 8.0], 3)
    y = 5 * x**-1.7 * np.exp(0.1 * rng.standard_normal(12))
    peer = linregress(np.log(x), np.log(y))
    assert numbers.exponent(x, y) == (pytest.approx(peer.slope), pytest.approx(peer.stderr))
    assert numbers.exponent([1, 1], [2.0, 3.0]) == (None, None)
    assert numbers.exponent([1, 2, 4], [1.0, None, 4.0])[0] == pytest.approx(1.0)
    steps = np.arange(0, 4001, 20)
    T = np.maximum(steps, 1.0)
    assert numbers.late_exponent(steps, T**-1.0) == pytest.approx(1)
    assert numbers.late_exponent(steps, T**-0.5) == pytest.approx(2)
    assert numbers.late_exponent(steps, np.exp(-0.005 * T)) < 0.15


# --- rows


def test_close_pairs_are_as_far_apart_as_asked_and_everything_else_farther():
    data = study.close_pairs(16, 0.2, 16, [0, 1])
    distances = np.linalg.norm(data.X[:, None] - data.X[None], axis=-1)
    pairs = distances[np.arange(0, 16, 2), np.arange(1, 16, 2)]
    assert np.allclose(pairs, 0.2)
    distances[np.arange(16), np.arange(16) ^ 1] = np.inf
    np.fill_diagonal(distances, np.inf)
    assert distances.min() > 0.4
    assert np.allclose(np.linalg.norm(data.X, axis=1), 1)
    assert np.allclose(data.X[:, -1], np.sqrt(0.5))
    assert np.array_equal(data.y[::2], -data.y[1::2])
    assert smallest_distance(data.X) == pytest.approx(0.2)
    with pytest.raises(ValueError, match="n is 5; rows come in pairs"):
        study.close_pairs(5, 0.2, 8, [0])


def test_images_are_averaged_and_seeds_share_no_row():
    images = np.random.default_rng(0).standard_normal((2, 8, 8))
    data = as_dataset((images.reshape(2, 64), [1.0, -1.0])).replace(image_shape=(8, 8))
    mean = study.pooled(data, 4).X.reshape(2, 2, 2)
    assert mean[1, 1, 0] == pytest.approx(images[1, 4:, :4].mean())
    with pytest.raises(ValueError, match="cannot be averaged over squares of side 3"):
        study.pooled(data, 3)
    padded, images = study.image_pairs(SMOKE, "residual", 0), study.image_pairs(SMOKE, "convolutional", 0)
    assert padded[0].d == images[0].d + 2 == 66
    assert np.allclose(np.linalg.norm(images[1].X, axis=1), 1)
    assert np.allclose(padded[1].X[:, -1], np.sqrt(0.5))
    both = np.concatenate([part.X[:, :64] / np.linalg.norm(part.X[:, :64], axis=1)[:, None] for part in padded])
    assert len(np.unique(both.round(9), axis=0)) == 2 * SMOKE.samples
    real, drawn = study.ten_classes(SMOKE, "residual", 0)
    assert np.array_equal(real.X, drawn.X)
    assert np.mean(real.codes == drawn.codes) < 0.4  # a tenth is expected, with standard deviation 0.05


@pytest.mark.parametrize("name", ["fully connected", "locally connected", "convolutional", "residual"])
def test_networks_train_only_their_hidden_layers(name):
    params = jax.eval_shape(lambda: build(name, 2, 4, 8).init(0, 64))
    assert sorted(params.trained) == ["W1", "W2"]
    assert {"A", "B"} <= set(params.fixed)


def test_records_are_about_two_hundred_and_steps_enough():
    for asked in (1, 7, 1_999, 12_345, 40_000):
        steps, every = study.recorded(asked)
        assert asked <= steps <= 1.5 * asked
        assert steps % every == 0
        assert steps // every <= 300


# --- the study


@pytest.fixture(scope="module")
def result(place):
    return reproduce(STUDY, place=place)


def test_it_keeps_to_what_a_study_is(result, place):
    check(STUDY, result, place)
    job = prepare_reproduce(STUDY, settings=replace(SMOKE, decades=7), place=place)
    assert {part.name for part in job.parts} - set(job.plan.kept) == {", ".join(cell) for cell in SMOKE.cells}


def test_the_rate_is_that_of_the_networks_own_kernel_at_the_end(result):
    found = result.values["rates"]
    assert {(r["network"], r["loss"], r["algorithm"]) for r in found} == {
        ("fully connected", "squared", "GD"), ("fully connected", "squared", "SGD"),
        ("fully connected", "rippled", "GD"),
    }  # fmt: skip
    for row in found:
        if row["algorithm"] == "GD":
            assert row["rate"] == pytest.approx(row["from_end"], rel=0.1)
        else:  # one walk; its own standard error, and a tenth for the kernel that still moves
            assert abs(row["rate"] - row["from_end"]) < 4 * row["rate_error"] + 0.1 * row["from_end"]
        assert row["pl"] > 0.5
    moved = [abs(row["rate"] / row["from_start"] - 1) for row in found if row["algorithm"] == "GD"]
    assert np.median(moved) > 0.05  # at m = 64 the kernel moves, and the start does not give the rate
    assert result.values["least_constant"] > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["locally connected", "convolutional", "residual"])
def test_so_it_is_of_the_other_networks(name):
    cell = (name, "squared", "GD")
    job = prepare_reproduce(STUDY, settings=replace(SMOKE, cells=(cell,)))
    start, run = job.make(f"kernels, {name}"), job.make(", ".join(cell))
    assert ("limit" in start) == (name != "residual")
    for row in numbers.rate_rows(SMOKE, cell, start, run):
        assert row["rate"] == pytest.approx(
            row["from_end"], rel=0.2
        )  # with two channels one kink moves λ_min by a tenth
        assert (row["constant"] is None) == (name != "residual")


def test_runs_start_from_the_networks_whose_kernels_were_taken(result, place):
    start = prepare_reproduce(STUDY, place=place).make("kernels, fully connected")
    sets = study.image_pairs(SMOKE, "fully connected", 0)
    for seed, data in enumerate(sets):
        first = result.arrays["fully connected, squared, GD/loss"][seed, 0]
        assert first == pytest.approx(0.5 * np.sum((data.y - start["u"][seed]) ** 2), rel=1e-9)
    assert np.allclose(start["H"], result.arrays["fully connected/H"])


def test_iterations_classes_and_laws_are_computed_from_the_runs(result):
    values = result.values
    by = {row["variable"]: row for row in values["iterations"]}
    assert set(by) == {"n", "L", "m", "δ"}
    for row in by.values():
        assert row["missing"] == 0
        x, y = [p["x"] for p in row["points"]], [p["steps"] for p in row["points"]]
        assert row["steps"] == pytest.approx(linregress(np.log(x), np.log(y)).slope)
    assert by["δ"]["steps"] < -0.5  # nearer pairs take longer
    assert by["n"]["steps"] < 6 - 2 * by["n"]["steps_error"]
    for row in values["classes"]:
        accuracy = result.arrays["ten classes, fully connected, GD/accuracy"][("real", "random").index(row["labels"])]
        steps = result.arrays["ten classes, fully connected, GD/steps"]
        assert row["all_right"] == steps[accuracy >= 1][0]
        assert row["holds"]
    real, drawn = values["classes"]
    assert real["all_right"] < drawn["all_right"]
    laws = {row["loss"]: row for row in values["laws"] if row["network"] == "fully connected"}
    assert 0.6 < laws["cross-entropy"]["exponent"] < 1.3
    assert laws["saturated"]["exponent"] < 1
    assert laws["rippled"]["straight"] > 0.9
    assert values["width_asked"]["log10_m"] > 20


def test_the_page_has_every_part(result):
    kinds = [type(block) for section in result.sections() for block in section.blocks]
    assert kinds.count(sections.Figure) == 3 + 2 + 4 + 1 + 2
    assert kinds.count(sections.Table) == 4
    said = " ".join(text.body for text in texts(result.sections()))
    assert all(f"{name} say" in said for name in ("Thm 1, 7 and 8", "Thm 2, 7 and 8", "Thm 1", "Thm 6", "(12.2)"))
    assert not {"nan", "inf"} & set(said.replace(";", " ").replace(",", " ").split())


def tone_of(words, part):
    (found,) = [text.tone for text in words if part in text.body.replace("\u00a0", " ")]
    return found


def test_the_words_follow_the_numbers(result):
    values = copy.deepcopy(dict(result.values))
    told = STUDY.claims(SMOKE, values)
    assert tone_of(told, "under GD, and not at which") == "good"
    for row in values["rates"]:
        row["rate"] = 2 * row["from_end"]
    told = STUDY.claims(SMOKE, values)
    assert tone_of(told, "under GD, and not at which") == "warning"
    assert "The rate is not that of the network's own kernel" in " ".join(t.body for t in told)

    row = next(r for r in values["iterations"] if r["variable"] == "δ")
    row["steps"], row["steps_error"] = -3.0, 0.1
    assert tone_of(STUDY.claims(SMOKE, values), "In δ it is worse than the theorem's bound") == "warning"
    row["steps"], row["time"], row["time_error"] = -1.0, -1.8, 0.1
    assert tone_of(STUDY.claims(SMOKE, values), "goes like δ^(−1.80 ± 0.10): steeper than 1/δ") == "warning"
    row["time"], row["missing"] = -0.9, 2
    assert tone_of(STUDY.claims(SMOKE, values), "2 runs did not get there") == "warning"

    values["classes"][1] |= {"all_right": None, "loss_there": None}
    assert tone_of(STUDY.claims(SMOKE, values), "0 of 1 runs with random labels") == "warning"
    values["classes"][0]["holds"] = False
    assert tone_of(STUDY.claims(SMOKE, values), "1 runs had a loss below ¼ and a label wrong") == "bad"

    law = next(r for r in values["laws"] if r["kind"] == "convex")
    law["exponent"] = 1.5
    assert tone_of(STUDY.claims(SMOKE, values), "Thm 6 says T = O(1/ε) for a convex loss") == "warning"


def test_a_run_that_diverged_is_counted_and_still_has_a_row():
    run = {
        "steps": np.arange(4), "loss": np.array([[1.0, 0.5, 0.25, 0.125], [1.0, 9.0, np.inf, np.nan]]),
        "output_gradient_norm": np.ones((2, 4)),
    }  # fmt: skip
    row = numbers.law_row(("residual", "squared", "GD"), run)
    assert (row["runs"], row["diverged"]) == (1, 1)
    assert numbers._predicted(np.full((2, 2), np.nan), 0.1, None) is None
    assert numbers._predicted(np.diag([1.0, 100.0]), 0.1, None) is None  # unstable: no rate


def test_settings_vary_one_thing_at_a_time():
    for place, variable in enumerate(("n", "L", "m", "δ")):
        points = SMALL.points(variable)
        assert SMALL.base in points
        assert all(p[:place] + p[place + 1 :] == SMALL.base[:place] + SMALL.base[place + 1 :] for p in points)
