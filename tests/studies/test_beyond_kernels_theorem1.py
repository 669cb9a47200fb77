"""Theorem 1's study: Algorithm 1 written out in NumPy, the smoke scale whole, what is short of samples, and its words."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from study_cases import check, concluded, texts

from overparam.core.network import as_key
from overparam.data import whole_cube
from overparam.frame import Work
from overparam.networks import ThreeLayerResNet
from overparam.studies import STUDIES, reproduce
from overparam.studies import beyond_kernels_theorem1 as study
from overparam.studies.beyond_kernels_theorem1 import one_pass, part_name, records
from overparam.training.mini_batch import STREAM

STUDY = STUDIES["beyond-kernels-theorem1"]
SMOKE = STUDY.settings["smoke"]


@pytest.fixture(scope="module")
def result(place):
    return reproduce(STUDY, place=place)


def outputs(W, V, A, X):
    first = np.maximum(X @ W.T, 0) @ A.T
    return first + np.maximum(np.column_stack([first, np.ones(len(X))]) @ V.T, 0) @ A.T


def test_a_run_is_algorithm_1_written_out():
    """One fresh sample a step at rates η_w ≠ η_v, in NumPy; every error over the cube, 30 steps, and their mean."""
    settings, alpha, seed = replace(SMOKE, dtype="float64", seeds=1, factors=((3.0, 1.0),)), 0.8, 0
    steps, found = settings.steps(alpha), one_pass(Work(), settings, alpha, 0)
    with jax.enable_x64(True):
        network = ThreeLayerResNet(settings.width, outputs=2, scaling="theory", sigma_v=alpha**-2)
        params = network.init(seed, settings.d)
        draws = jax.random.fold_in(as_key(seed), STREAM)
        order = np.asarray(jax.random.permutation(jax.random.fold_in(draws, 0), steps))
    W, V, A = (np.array(array) for array in (params.trained["W"], params.trained["V"], params.fixed["A"]))
    assert W.std() == pytest.approx(32**-0.125, rel=5 / np.sqrt(2 * W.size))  # within five standard errors
    assert V.std() == pytest.approx(alpha**-2 / 32**0.5, rel=5 / np.sqrt(2 * V.size))
    target = settings.target(alpha, 0, seed)
    X, cube = target.inputs(steps, key=[0, seed, 5, 2, 0]), whole_cube(5, size=5**-0.5)
    y, corners = target(X), np.column_stack([cube, np.ones(32)])
    assert np.allclose(np.linalg.norm(target.base(cube), axis=1), 1)  # Concept 1's scales
    assert sorted(order) == list(range(steps))  # each sample once
    (rates,) = settings.rates(alpha)
    assert rates == pytest.approx({"W": 3 * alpha**4, "V": 3 * alpha**4 / 5})
    errors = []
    for row in order:
        errors.append(np.sum((outputs(W, V, A, corners) - target(cube)) ** 2, axis=1).mean())
        x = np.append(X[row], 1.0)
        g = W @ x
        z = np.append(A @ np.maximum(g, 0), 1.0)
        h = V @ z
        left = z[:-1] + A @ np.maximum(h, 0) - y[row]
        back = (A.T @ left) * (h > 0)
        dW = np.outer((A.T @ (left + V[:, :-1].T @ back)) * (g > 0), x)
        W, V = W - rates["W"] * dW, V - rates["V"] * np.outer(back, z)
    errors.append(np.sum((outputs(W, V, A, corners) - target(cube)) ** 2, axis=1).mean())
    assert found["steps"].tolist() == list(range(steps + 1))
    np.testing.assert_allclose(found["error"][0, 0], errors, rtol=1e-9)
    assert found["average"][0, 0] == pytest.approx(np.mean(errors[:-1]), rel=1e-9)


def test_the_smoke_study_runs_and_says_where_samples_are_short(result, place):
    short, whole = result.values["rows"]
    assert (short["alpha"], short["needed"], short["samples"], short["short"]) == (0.5, 1280, 400, True)
    assert (whole["alpha"], whole["needed"], whole["samples"], whole["short"]) == (0.8, 30, 30, False)
    for row in (short, whole):
        own = result.arrays[f"alpha={row['alpha']:g}/average"]
        assert row["average"] == pytest.approx(own.mean())
        assert row["over_alpha_4"] == pytest.approx(own.mean() / row["alpha"] ** 4)
    said = " ".join(text.body for text in texts(result.sections()))
    assert "short by a factor of 3.2" in said
    assert f"is {whole['over_alpha_4']:.3g} times α⁴ at α = 0.8" in said
    check(STUDY, result, place)


def test_the_exponent_is_of_the_alphas_with_all_samples():
    """Made errors of exactly 7α⁴, and far more at the α that is short."""
    settings = replace(SMOKE, alphas=(0.4, 0.6, 0.8), most=1000)
    found = {}
    for alpha in settings.alphas:
        (at,) = records(settings.steps(alpha))
        value = 7 * alpha**4 * (100 if alpha == 0.4 else 1)
        found[part_name(alpha)] = {
            "steps": np.array(at),
            "error": np.full((1, 2, len(at)), value),
            "average": np.full((1, 2), value),
            "movement": np.ones((1, 2, 2)),
        }
    made = concluded(STUDY, settings, found)
    assert made.values["best"]["slope"] == pytest.approx(4.0)
    assert made.values["best"]["alphas"] == 2
    assert "is 7 times α⁴ at 2 values of α from 0.6 to 0.8, exponent 4.00 in α" in made.verdict.sentences[0]
    found[part_name(0.6)]["average"] = np.full((1, 2), np.inf)
    assert concluded(STUDY, settings, found).values["best"] is None  # a run that diverged is no average


@pytest.mark.parametrize("steps", [1, 30, 400, 8192, 2**17])
def test_records_hold_both_ends_of_every_part(steps):
    parts = records(steps)
    assert sum(part[-1] for part in parts) == steps
    assert all(part[0] == 0 for part in parts)
    assert len(parts) == (16 if steps > 8192 else 1)


def test_a_run_in_parts_goes_on_where_it_was(monkeypatch):
    """Sixteen parts with samples of their own: what one part cannot do alone, all do together."""
    monkeypatch.setattr(study, "LONG", 255)
    monkeypatch.setattr(study, "RECORDS", 16)
    settings = replace(SMOKE, seeds=1, alphas=(0.5,), most=1024)
    found = one_pass(Work(), settings, 0.5, 0)
    assert found["steps"][-1] == 1024
    assert len(found["steps"]) == found["error"].shape[-1] == 8 + 15 + 1
    error = found["error"][0, 0]
    assert error[-1] < 0.1 * error[0] < error[8]  # place 8 is the end of the first part
    assert found["movement"].min() > 0.5
