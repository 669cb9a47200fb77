"""The study of Fig. 3: networks that exist, checked by enumeration and by scipy; SGD step by step; the smoke scale whole."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy.optimize import linprog, minimize_scalar
from study_cases import check, concluded, texts, tones

from overparam.core import sections
from overparam.core.network import Params
from overparam.data import ParityTarget, whole_cube
from overparam.frame import Work
from overparam.networks import TwoLayer
from overparam.studies import STUDIES, reproduce
from overparam.studies import beyond_kernels_fig3 as study
from overparam.studies import beyond_kernels_fig3_page as page
from overparam.studies.beyond_kernels_fig3 import (
    COPIES,
    EXISTING,
    PAPER_PAIRS,
    Existing,
    cell_values,
    least_norm,
    least_objective,
    over_cells,
    smallest,
    trained_on_the_cube,
)

STUDY = STUDIES["beyond-kernels-fig3"]
SMOKE = STUDY.settings["smoke"]


@pytest.fixture(scope="module")
def result(place):
    return reproduce(STUDY, place=place)


def drawn(m=10, k=6, seed=0):
    rng = np.random.default_rng(seed)
    return Existing(rng.standard_normal((m, k)), rng.permutation(np.repeat([-1.0, 1.0], m // 2)), tuple(range(k)))


def by_the_network(net, X):
    """Outputs of the house's own network with the same weights."""
    with jax.enable_x64(True):
        params = Params({"W": net.W}, {"a": net.signs})
        return np.asarray(TwoLayer(net.width, balanced=True).apply(params, X))


@pytest.mark.parametrize("m", [10, 40, 14, 64])
def test_padding_and_copying_leave_the_function_as_it_was(m):
    net = drawn()
    places = (7, 0, 3, 9, 5, 2)
    wide = net.widened(m).padded(10, places)
    assert (wide.width, wide.d, wide.signs.sum()) == (m, 10, 0)
    X = whole_cube(10, size=10**-0.5)
    before = net.outputs(np.sign(X[:, places]) / np.sqrt(6))
    np.testing.assert_allclose(wide.outputs(X), before, atol=1e-13)
    np.testing.assert_allclose(by_the_network(wide, X), before, atol=1e-13)
    # the exact error, from 2^6 patterns, is the mean over all 2^10 points
    y = np.sign(X[:, places]).prod(axis=1)
    assert wide.error == pytest.approx(np.mean((before - y) ** 2), rel=1e-12)
    assert wide.error == pytest.approx(net.error, rel=1e-12)
    copies = np.array([np.sum(wide.W[:, places] @ w > 0.999 * np.linalg.norm(wide.W[:, places], axis=1) * np.linalg.norm(w)) for w in net.W])  # fmt: skip
    assert copies.sum() == m
    squares = (net.W**2).sum(axis=1)
    assert wide.norm**2 == pytest.approx(m / 10 * np.sum(squares / copies) / 6, rel=1e-12)
    if m % 10 == 0:
        assert wide.norm == pytest.approx(net.norm, rel=1e-13)


def test_the_error_on_samples_is_the_exact_one_within_its_standard_error():
    net = smallest(6, error=0.09).widened(400)
    net = Existing(net.W + 0.02 * np.random.default_rng(1).standard_normal(net.W.shape), net.signs, net.seen)
    wide = net.padded(100)
    found = study.tried(wide, ParityTarget.product(100, 6).sample(20_000, key=3))
    assert 0 < found["standard_error"] < 0.01
    assert abs(found["fresh"] - wide.error) < 4 * found["standard_error"]
    assert wide.error != pytest.approx(0.09, abs=1e-6)


@pytest.mark.parametrize(("k", "d"), [(2, 2), (4, 4), (6, 6), (2, 4), (4, 6), (6, 7)])
def test_the_network_made_by_hand_has_the_least_norm_that_scipy_finds(k, d):
    """min Σ|c_j| with Σ c_j σ(u_j·x) = y on the whole cube, over many unit directions u_j, is the least norm."""
    cube, rng = whole_cube(d, size=d**-0.5), np.random.default_rng(k)
    y = np.sign(cube[:, :k]).prod(axis=1)
    patterns = np.zeros((2**k, d))
    patterns[:, :k] = whole_cube(k)
    u = np.concatenate([patterns, patterns + 0.1 * rng.standard_normal(patterns.shape), rng.standard_normal((400, d))])
    features = np.maximum(cube @ (u / np.linalg.norm(u, axis=1, keepdims=True)).T, 0)
    found = linprog(np.ones(2 * len(u)), A_eq=np.hstack([features, -features]), b_eq=y, bounds=(0, None))
    assert found.status == 0
    net = smallest(k).padded(d)
    assert np.linalg.norm(net.W) == pytest.approx(found.fun, rel=1e-7)
    assert net.norm == pytest.approx(np.linalg.norm(net.W) / np.sqrt(d))
    assert net.error < 1e-28
    assert net.signs.sum() == 0


def test_errors_norms_and_objectives_of_the_network_made_by_hand():
    for _, error in PAPER_PAIRS:
        net = smallest(6, error)
        assert net.error == pytest.approx(error, rel=1e-12)
        assert net.norm == pytest.approx(float(least_norm(error)), rel=1e-12)
    decay, d = 5e-5, 40
    best = minimize_scalar(lambda t: (1 - t) ** 2 + 0.5 * decay * d * (t * smallest(6).norm) ** 2, bounds=(0, 1))
    assert least_objective(decay, d) == pytest.approx(best.fun, rel=1e-8)


def test_bad_requests_are_one_line():
    with pytest.raises(ValueError, match="even width of at least 10"):
        drawn().widened(13)
    with pytest.raises(ValueError, match="different places"):
        drawn().padded(10, (0, 0, 1, 2, 3, 4))
    with pytest.raises(ValueError, match="beyond those of the target"):
        _ = replace(drawn(k=7), seen=tuple(range(6))).error
    with pytest.raises(ValueError, match="`degree` is 3"):
        smallest(3)
    with pytest.raises(ValueError, match=r"`error` is 1\.5"):
        smallest(6, 1.5)


def test_networks_trained_on_the_cube_come_near_the_least_objective():
    decays = (2e-3, 5e-4)
    options = {"dtype": "float64", "device": "cpu"}
    nets = trained_on_the_cube(decays, width=20, degree=2, steps=2000, rate=2.0, seeds=2, seed=0, options=options)
    for net, decay in zip(nets, decays, strict=True):
        assert (net.signs.sum(), net.W.shape) == (0, (20, 2))
        objective = net.error + 0.5 * decay * 2 * net.norm**2
        assert least_objective(decay, 2, degree=2) <= objective * (1 + 1e-12)
        assert objective == pytest.approx(least_objective(decay, 2, degree=2), rel=0.05)


def test_rates_and_decays_are_those_of_sgd_on_the_mean_of_squares():
    """Three steps on all rows, written out with NumPy."""
    cell = study.Cell(8, (2, 1), (0.7, 2.0), (0.0, 0.1), (0.3, 1.0), d=7, N=20, batch=20, dtype="float64")
    found = study.trained(Work(), cell, 30, 0)
    data, fresh = study.rows(cell, 0, 30)
    assert not np.array_equal(data.test.X, fresh.X)
    for i, (rate, decay, scale, _) in enumerate(cell.runs):
        with jax.enable_x64(True):
            start = TwoLayer(8, kappa=scale, balanced=True).init(1, 7)
        W, a = np.array(start.trained["W"]), np.array(start.fixed["a"]).ravel() / np.sqrt(8)
        assert np.linalg.norm(W) < 20 * scale
        v, errors = np.zeros_like(W), []
        for step in range(4):
            before = data.X @ W.T
            residual = np.maximum(before, 0) @ a - data.y
            errors.append(np.mean(residual**2))
            gradient = 2 / 20 * ((residual[:, None] * a) * (before > 0)).T @ data.X
            if step < 3:
                v = 0.9 * v + gradient + decay * W
                W = W - rate * (1 if step < 2 else 0.1) * v
        np.testing.assert_allclose(found["train"][i], errors, rtol=1e-10)
        assert found["norm"][i] == pytest.approx(np.linalg.norm(W) / np.sqrt(7), rel=1e-10)
        new = np.maximum(data.test.X @ W.T, 0) @ a - data.test.y
        assert found["test"][i, -1] == pytest.approx(np.mean(new**2), rel=1e-10)
        squares = (np.maximum(fresh.X @ W.T, 0) @ a - fresh.y) ** 2
        for name in ("best", "grid"):
            if i == found[name]:
                assert found[f"{name}_fresh"] == pytest.approx(squares.mean(), rel=1e-10)
                assert found[f"{name}_standard_error"] == pytest.approx(squares.std(ddof=1) / 30**0.5, rel=1e-10)
    end, on_grid = found["test"][:, -1], [rate == 2 for rate, *_ in cell.runs]
    assert (found["best"], found["grid"]) == (np.argmin(end), np.argmin(np.where(on_grid, end, np.inf)))
    assert found["best"] != found["grid"]


def test_the_smoke_study_runs_and_what_it_says_is_computed_from_its_runs(result):
    arrays, values = result.arrays, result.values
    for cell, row in zip(SMOKE.cells, values["cells"], strict=True):
        end = arrays[f"{cell.name}/test"][:, -1]
        assert row["test"] == pytest.approx(np.nanmin(np.where(np.isfinite(end), end, np.nan)))
        assert abs(row["fresh"] - row["test"]) < 5 * 2**0.5 * row["standard_error"]
        assert row["runs"] == len(cell.runs) == len(end)
    assert values["cells"][0]["diverged"] == 4  # those of rate 100
    assert values["cells"][1]["test"] < 0.5  # d = 10 is learnt
    for copy in values["copies"]:
        assert copy["error"] == pytest.approx(values["existing"][copy["from"]]["error"], rel=1e-10)
    said = " ".join(text.body for text in texts(result.sections()))
    assert f"{values['by_inputs']['10']['best']['fresh']:.3f}" in said
    kinds = [type(block) for section in result.sections() for block in section.blocks]
    assert (kinds.count(sections.Figure), kinds.count(sections.Table)) == (3, 3)


def test_it_keeps_to_what_a_study_is(result, place):
    check(STUDY, result, place)


def test_the_plan_knows_the_work():
    cell = study.Cell(100, (3, 1), (1.0, 2.0), (0.0,), d=10, N=50, batch=5)
    assert (cell.steps, cell.flops) == (40, 4 * 40 * 2 * 5 * 10 * 100)
    assert "1078 runs in 20 programs, m up to 100,000" in STUDY.outline(STUDY.settings["full"])
    widths = {cell.m for cell in STUDY.settings["full"].cells if cell.d == 40}
    assert widths == {200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000}


SHORT, LONG = (study.Cell(200, epochs, (5.0,), (0.0, 5e-5)) for epochs in ((400, 400), (2000, 400)))


def fake(fresh, longer, norm, train=0.05, worse=0.0, cells=(SHORT, LONG)):
    """Findings of two programs at d = 40 with given errors on fresh rows and norms; one run each diverged."""
    done = {
        cell: {
            "runs": np.array(cell.runs), "epochs": np.array([0.0, 1.0]), "train": np.array([[1.0, np.nan], [1.0, train]]),
            "test": np.array([[1.0, np.nan], [1.0, error]]), "norm": np.array([np.inf, norm]), "best": np.array(1),
            "seconds_per_step": np.array(1e-3), "best_fresh": np.array(error), "best_standard_error": np.array(0.01),
            "grid": np.array(1), "grid_fresh": np.array(error + worse), "grid_standard_error": np.array(0.01),
        }
        for cell, error in zip(cells, (fresh, longer), strict=True)
    }  # fmt: skip
    net = smallest(6, 0.1)
    copies = {"from": 0, "d": 40, "m": 200, "norm": 1.0, "error": 0.1, "fresh": 0.1, "standard_error": 0.01}
    found = {cell.name: own for cell, own in done.items()} | {EXISTING: {"W": net.W[None], "signs": net.signs[None]}}
    found[COPIES] = {what: np.array([value]) for what, value in copies.items()}
    return concluded(STUDY, replace(SMOKE, cells=tuple(cells), cube_decays=(1e-3,)), found)


def tone(found, part):
    (own,) = tones(found.sections(), part)
    return own


def test_the_words_follow_the_numbers(tmp_path):
    agrees = fake(0.7, 0.69, norm=40.0)
    assert tone(agrees, "no test error better than 0.69. We found at best 0.700 ± 0.01") == "good"
    assert tone(agrees, "More time does not do it") == "good"
    assert tone(agrees, "the least norm is 40√d") == "good"
    told = agrees.values["by_inputs"]["40"]
    least = least_objective(5e-5, 40)
    missed = (0.05 + 0.5 * 5e-5 * 40 * 40**2 - least) / (1 - least)
    assert told["objective_missed"] == [pytest.approx(missed), pytest.approx(missed)]
    assert (told["grid_runs"], told["grid_better"], told["fits"], told["fits_on_grid"]) == (2, 0, 2, 1)

    better = fake(0.5, 0.1, norm=20.0)
    assert tone(better, "That is better") == "bad"
    assert tone(better, "does find a network that generalises") == "warning"
    assert tone(better, "the least norm is 20√d") == "bad"
    assert tone(fake(0.675, 0.7, norm=20.0, train=0.5), "That agrees") == "good"
    assert tone(fake(0.675, 0.7, norm=20.0, train=0.5), "no run has a training error") == "good"
    off = fake(0.5, 0.7, norm=40.0, worse=0.3)
    assert tone(off, "at best 0.800 ± 0.01") == "good"
    assert tone(off, "Off its grid of rates and decays, {1, 2, 5}·10^k: 0.500 ± 0.01") == "good"
    better.save(tmp_path)


def test_short_runs_confirm_nothing_and_a_rate_at_the_edge_is_named():
    short = fake(0.99, 0.98, norm=40.0, cells=(replace(SHORT, epochs=(100, 60)), replace(SHORT, epochs=(60, 36))))
    assert tone(short, "We found at best 0.980 ± 0.01") == "warning"
    assert tone(short, "the least norm is 40√d") == "warning"
    assert tones(short.sections(), "No run had more than 160 epochs: too few to confirm it") == ["warning"] * 2
    assert not tones(short.sections(), "That agrees")
    assert tone(short, "the smallest or largest that was tried in 2 of 2 programs") == "warning"
    inside = replace(SMOKE, cells=(replace(SHORT, rates=(2.0, 5.0, 7.0)),))
    assert page._edge(inside, {"cells": [{"rate": 5.0}]}).tone == "plain"


def test_a_norm_that_only_longer_or_other_runs_reach_is_said_to_be_theirs():
    short, long = replace(SHORT, rates=(7.0,)), replace(LONG, rates=(7.0,))
    found = fake(0.7, 0.1, norm=20.0, cells=(short, long))
    assert tone(found, "within 800 epochs no run has a training error of at most 0.12") == "warning"
    assert tone(found, "the least norm is 20√d (m = 200, rate 7, decay 5e-05, 400 + 400 epochs") == "warning"
    told = found.values["by_inputs"]["40"]
    assert (told["grid_runs"], told["fits"], told["fits_on_grid"]) == (0, 2, 0)


def test_a_network_that_is_nearly_0_gains_nothing():
    """Its objective is 1 whatever the decay, close to the least where the decay is large: no success of SGD."""
    heavy = tuple(replace(cell, decays=(0.0, 1e-3)) for cell in (SHORT, LONG))
    told = fake(1.0, 1.0, norm=1e-6, train=1.0, cells=heavy).values["by_inputs"]["40"]
    assert 1 / least_objective(1e-3, 40) < 1.3
    assert told["objective_missed"] == [pytest.approx(1.0), pytest.approx(1.0)]


def test_test_rows_choose_and_fresh_ones_only_measure():
    """Of two programs the one of less test error is told, though the other has less error on fresh rows."""
    cells = (SHORT, replace(SHORT, m=500))
    found = fake(0.4, 0.5, norm=40.0, cells=cells)
    done = {
        cell: {"fresh": fresh, "test": test} for cell, fresh, test in zip(cells, (0.45, 0.44), (0.4, 0.5), strict=True)
    }
    rows = [
        row | done[cell] | {"grid": row["grid"] | done[cell]}
        for row, cell in zip(found.values["cells"], cells, strict=True)
    ]
    told = over_cells(rows, {}, 40)
    assert (told["best"]["m"], told["best"]["fresh"]) == (told["best_on_grid"]["m"], 0.45) == (200, 0.45)


def test_runs_from_other_starts_are_told_beside_the_best():
    cell = replace(SHORT, decays=(5e-5,), scales=(0.1, 1.0), seeds=2)
    found = {
        "runs": np.array(cell.runs), "train": np.full((4, 1), 0.1), "test": np.array([[1.2], [0.1], [np.nan], [0.9]]),
        "norm": np.ones(4), "best": np.array(1), "best_fresh": np.array(0.1), "best_standard_error": np.array(0.01),
        "seconds_per_step": np.array(1e-3),
    }  # fmt: skip
    assert cell_values(cell, found)["others"] == [1.2, None, 0.9]
