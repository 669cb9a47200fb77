"""Theorem 2's study: the smoke scale whole, exact errors against the whole cube, certificates, exponents, and its words."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from study_cases import check, concluded, texts

from overparam.core import sections
from overparam.data import whole_cube
from overparam.studies import STUDIES, reproduce
from overparam.studies import beyond_kernels_theorem2 as study
from overparam.studies.beyond_kernels_theorem2 import CASES, ONE_PASS, OVER_ALPHA, SPANS, chosen, exponent, network_name
from overparam.studies.beyond_kernels_theorem2_page import OF_KERNELS, sampling
from overparam.theory import tuned_regression

STUDY = STUDIES["beyond-kernels-theorem2"]
SMOKE = STUDY.settings["smoke"]


@pytest.fixture(scope="module")
def result(place):
    return reproduce(STUDY, place=place)


def test_the_smoke_study_runs_and_what_it_says_is_computed_from_its_runs(result):
    arrays, values = result.arrays, result.values
    for row in values["curves"]:
        runs = [
            {what: arrays[f"kernels d=16 N={row['N']} seed={s}/{what}"] for what in ("error", "left_out")}
            for s in (0, 1)
        ]
        chosen = [run["error"][run["left_out"].argmin()] for run in runs]
        assert row["kernel_error"] == pytest.approx(np.mean(chosen))
        assert row["least_kernel"] == min(run["error"].min() for run in runs)
    said = " ".join(text.body for text in texts(result.sections()))
    least = min(row["least_kernel"] for row in values["curves"])
    assert f"is {least:.3g}" in said
    assert "never above the exact error in 12 random cases" in said
    for row in values["exponents"]:
        assert f"{row['slope']:.2f} ± {row['spread']:.2f} at N = {row['N']}" in said
    kinds = [type(block) for section in result.sections() for block in section.blocks]
    assert kinds.count(sections.Figure) == 3
    assert kinds.count(sections.Table) == 6


def test_the_resnet_learns_what_the_kernels_do_not(result):
    row = result.values["curves"][-1]
    whole = 4 * SMOKE.alpha**2
    assert row["network"] < whole / 4
    assert row["least_kernel"] > whole


def test_no_certificate_is_above_an_error(result):
    assert result.values["certificates"]["violated"] == result.values["certificates"]["curve_violated"] == 0
    assert result.values["certificates"]["ratio"]["most"] > 0.5  # and it says something
    for (d, N), seeds in SMOKE.seeds_of.items():
        for seed in range(seeds):
            run = {
                w: result.arrays[f"kernels d={d} N={N} seed={seed}/{w}"]
                for w in ("spectral", "sampled", "sampled_error")
            }
            assert np.all(run["spectral"] <= run["sampled"] + 4 * run["sampled_error"])
    assert all(row["kept"] for row in result.values["spans"])


def test_errors_exact_to_rounding_are_not_measured_in_standard_errors():
    """The second kernel learns to 1e-12 with rounding 1e-11: 300 of its standard errors are rounding."""
    run = {
        "error": np.array([0.5, 1e-12]), "sampled": np.array([0.52, 4e-12]), "sampled_error": np.array([0.01, 1e-14]),
        "rounding": np.array([1e-13, 1e-11]), "predicted": np.array([0.5, 1e-12]),
    }  # fmt: skip
    found = sampling({(12, 50, 0): run})
    assert (found["compared"], found["rounded"]) == (1, 1)
    assert found["largest"] == found["root_mean_square"] == pytest.approx(2.0)


def test_it_keeps_to_what_a_study_is(result, place):
    check(STUDY, result, place)


@pytest.mark.parametrize("name", study.KERNELS)
def test_the_error_is_that_over_the_whole_cube_and_above_its_certificates(name):
    """Every kernel at d = 9, where all 512 points can be written out."""
    target = study.target_of(9, 4, 0.7, 0, 3)
    cube = whole_cube(9, size=1 / 3)
    data = target.sample(40, key=1)
    found = study.answer(name, target, (data.X, data.y), (cube, target(cube)), "cpu", [0.03])
    kernel, get = study.KERNELS[name]
    by_hand = kernel(cube, data.X, get=get) @ np.linalg.solve(kernel(data.X, get=get) + 0.03 * np.eye(40), data.y)
    right = np.mean(np.sum((by_hand - target(cube)) ** 2, axis=1))
    assert found["error"] == pytest.approx(right, rel=1e-9)
    assert found["sampled"] == pytest.approx(right, rel=1e-9)
    product = (cube[:, target.hidden] * 3).prod(axis=1)
    missed = 0.7 - by_hand.T @ product / len(cube)  # the answer's coefficient on the product of S, output by output
    others = sum(
        np.sum((by_hand.T @ (cube[:, S] * 3).prod(axis=1) / len(cube)) ** 2)
        for S in itertools.combinations(range(9), 4)
        if target.hidden != S
    )
    assert found["missed"] == pytest.approx((np.sum(missed**2) + others) / (4 * 0.49), rel=1e-8)
    assert 0 < found["of_degree"] <= found["spectral"] * (1 + 1e-9)
    assert found["spectral"] <= right


def test_the_least_error_in_a_span_is_what_least_squares_finds():
    least = study.least_errors("polynomial", 7, 3, 0.5, 12, 5)
    cube = whole_cube(7, size=7**-0.5)
    X = cube[np.random.default_rng([5]).choice(128, size=12, replace=False)]
    sections_of = study.KERNELS["polynomial"][0](cube, X)
    subsets = list(itertools.combinations(range(7), 3))
    for place in (0, 17, 34):
        signs = cube[:, subsets[place]] * 7**0.5
        H = signs + 0.5 * signs.prod(axis=1, keepdims=True)
        left = H - sections_of @ np.linalg.lstsq(sections_of, H, rcond=None)[0]
        assert least[place] == pytest.approx(np.mean(np.sum(left**2, axis=1)), rel=1e-8)
    assert len(least) == 35
    assert least.mean() >= 3 * 0.25 * (1 - 12 / 35)


def test_random_cases_never_pass_a_certificate():
    names = tuple(study.KERNELS)
    for case in range(40):
        found = study.random_case(names, (8, 12, 16), 40, 4, [11, case], "cpu")
        assert max(found["spectral"], found["every_ridge"]) <= found["error"] + found["rounding"]
        assert found["of_degree"] <= found["spectral"] * (1 + 1e-9)
        assert found["tuned"] or found["every_ridge"] <= found["spectral"] * (1 + 1e-6)


def test_the_exponent_of_a_power_law_and_its_standard_error():
    alphas = np.geomspace(0.1, 1, 7)
    slope, spread, at_one = exponent(alphas, 3 * alphas[None] ** 4)
    assert slope == pytest.approx(4)
    assert spread == pytest.approx(0, abs=1e-12)
    assert at_one == pytest.approx(3)
    noise = np.random.default_rng(0).standard_normal((200, 5, 7)) * 0.3
    fits = [exponent(alphas, alphas**2 * np.exp(one)) for one in noise]
    slopes = np.array([fit[0] for fit in fits])
    x = np.log(alphas)
    true = 0.3 / np.sqrt(np.sum((x - x.mean()) ** 2) * 5)  # least squares, five seeds
    assert abs(slopes.mean() - 2) < 4 * true / np.sqrt(200)
    assert slopes.std(ddof=1) == pytest.approx(true, rel=4 / np.sqrt(400))
    assert np.mean([fit[1] ** 2 for fit in fits]) == pytest.approx(true**2, rel=4 * np.sqrt(2 / (4 * 200)))
    one_seed = [exponent(alphas, alphas**2 * np.exp(one[0])) for one in noise]
    assert np.mean([fit[1] ** 2 for fit in one_seed]) == pytest.approx(5 * true**2, rel=4 * np.sqrt(2 / (5 * 200)))


def test_rows_are_those_of_the_kernels_scaled_repeated_and_held_out():
    target = study.target_of(16, 4, 0.3, 0, 0)
    few, many = (study.rows(target, N, 64, 10, [0, 1]) for N in (16, 64))
    sample = target.sample(16, key=[0, 1], test=10)
    assert few.X.shape == many.X.shape == (56, 16)
    assert few.test.X.shape == many.test.X.shape == (18, 16)
    assert np.array_equal(few.X[:14], sample.X[:14] * 4)
    assert np.array_equal(few.X[14:28], few.X[:14])
    assert np.array_equal(few.test.X[:2], sample.X[14:] * 4)
    assert np.array_equal(few.test.y[8:], sample.test.y)
    assert np.array_equal(few.test.y[8:], many.test.y[8:])
    F = few.X[:, list(np.concatenate(target.sets))]
    assert np.allclose(few.y, F + 0.3 * F.prod(axis=1, keepdims=True))


def test_held_out_rows_choose_and_what_diverged_does_not_count():
    held = np.array([[[np.nan, 0.5], [0.2, 0.3]], [[np.inf, np.nan], [np.nan, np.nan]]])
    error = np.array([[[0.01, 0.4], [0.3, 0.1]], [[np.nan, np.nan], [np.inf, np.nan]]])
    found = chosen({"held": held, "error": error, "spread": error, "fit": error})
    assert found["error"].tolist() == [0.3, np.inf]
    assert found["least"].tolist() == [0.01, np.inf]
    assert (found["rate"][0], found["decay"][0]) == (1, 0)


def test_words_and_colours_follow_the_numbers(result):
    """A broken certificate, a kernel that learns and a network that diverged are said, and nothing is NaN."""
    found = parts_of(result)
    wrong = found | {CASES: found[CASES] | {"spectral": found[CASES]["error"] * 1.01}}
    broken = concluded(STUDY, SMOKE, wrong)
    assert broken.values["certificates"]["violated"] == 12
    told = texts(broken.sections())
    assert any(text.tone == "bad" and "12 times above the exact error" in text.body for text in told)
    learned = {name: found[name] | {"error": found[name]["error"] * 0 + 0.01} for name in SMOKE.regressions}
    told = texts(concluded(STUDY, SMOKE, found | learned).sections())
    assert any(text.tone == "bad" and text.body.startswith("Theorem 2") for text in told)
    lost = {
        name: {what: value * np.nan for what, value in found[name].items()} for name in (network_name(16), OVER_ALPHA)
    }
    diverged = concluded(STUDY, SMOKE, found | lost)
    json.dumps([diverged.values[what] for what in ("curves", "exponents", "over_alpha")], allow_nan=False)
    assert any("d = 16: never" in text.body and text.tone == "bad" for text in texts(diverged.sections()))


def test_where_there_are_too_many_rows_for_kernels_the_page_speaks_of_the_others(result):
    """Kernels up to N = 64 alone: the ResNet has its error at 256, and no kernel is said to be behind it there."""
    fewer = replace(SMOKE, most_for_kernels=64)
    page = concluded(STUDY, fewer, parts_of(result))
    before, after = result.values["curves"], page.values["curves"]
    assert after[0] == before[0]
    assert {key for key in after[1] if after[1][key] != before[1][key]} == set(OF_KERNELS)
    assert all(after[1][key] is None for key in OF_KERNELS)
    assert {row["N"] for row in page.values["kernels"]} == {64}
    assert (
        before[1]["network"] < SMOKE.alpha**2 / 4 < before[0]["network"]
    )  # first at 256, where kernels were not tried
    (said,) = [text for text in texts(page.sections()) if text.body.startswith("Cor. 7.1")]
    assert "a kernel not by N = 64" in said.body
    assert said.tone == "bad"
    (whole,) = [text for text in texts(result.sections()) if text.body.startswith("Cor. 7.1")]
    assert whole.tone == "good"


def parts_of(result):
    """What was run, read from the arrays of a result."""

    def run(name):
        return {key.removeprefix(f"{name}/"): v for key, v in result.arrays.items() if key.startswith(f"{name}/")}

    found = {name: run(f"kernels d={d} N={N} seed={s}") for name, (d, N, s) in SMOKE.regressions.items()}
    found |= {name: run(f"kernels alpha={a:g} N={N} seed={s}") for name, (N, a, s) in SMOKE.alpha_regressions.items()}
    found |= {CASES: run("cases"), SPANS: run("spans"), network_name(16): run("networks d=16")}
    return found | {OVER_ALPHA: run("networks over alpha"), ONE_PASS: run("one pass")}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"samples": ((60, 256),)}, "multiple of 8"),
        ({"samples": ((64, 96),)}, "divides 96"),
        ({"samples": ()}, "one for each"),
    ],
)
def test_numbers_of_samples_that_do_not_fit_are_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        replace(SMOKE, **wrong)


@pytest.mark.parametrize("scale", ["smoke", "small", "full"])
def test_every_scale_says_what_it_costs(scale):
    settings = STUDY.settings[scale]
    assert f"{settings.steps} steps at width {settings.width}" in STUDY.outline(settings)
    assert set(settings.kernels) <= set(study.KERNELS)
    assert set(settings.alpha_kernels) <= set(settings.kernels)


def test_a_ridge_by_leave_one_out_is_the_one_that_is_certified():
    target = study.target_of(12, 4, 0.3, 0, 0)
    data = target.sample(30, key=0, test=5)
    kernel, get = study.KERNELS["Laplace"]
    tuned = tuned_regression(kernel, data.X, data.y, data.test.X, get=get)
    found = study.answer("Laplace", target, (data.X, data.y), (data.test.X, data.test.y), None)
    assert found["ridge"] == tuned.ridge
    assert found["left_out"] == tuned.left_out
