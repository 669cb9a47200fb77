"""Which kind of model: each kind against a plain fit of its own, and a verdict only as sure as the rows allow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from analysis_cases import checked, same
from scipy.stats import binom

import overparam as op
from overparam.analysis import data_kinds
from overparam.analysis.data_estimate import group_interval
from overparam.analysis.data_fit import fit_rows
from overparam.analysis.data_held import held_rows
from overparam.analysis.data_kinds import SAID, chosen_of, compare_kinds, judge_kinds, kinds_sentence, network_size
from overparam.analysis.data_rival import forest
from overparam.analysis.data_rows import prepare_rows
from overparam.analysis.folds import folds_of
from overparam.analysis.host_networks import MOMENTUM, descend, largest_curvature, train_on_folds
from overparam.frame import Work
from overparam.theory import tuned_fit

WHAT = dict.fromkeys(SAID, "")


@pytest.fixture(autouse=True)
def _networks_of_full_length(monkeypatch):
    monkeypatch.setattr(data_kinds, "LEAST_STEPS", 400)
    monkeypatch.setattr(data_kinds, "EPOCHS", 40)


def test_networks_take_the_steps_of_automatic_derivatives():
    random = np.random.default_rng(0)
    rows, Y = random.normal(size=(12, 4)), random.normal(size=(12, 2))
    W, A = random.normal(size=(4, 5)), random.normal(size=(5, 2))
    batches = [np.array([[0, 1, 2], [5, 6, 7]]), np.array([[3, 4, 3], [8, 9, 11]]), np.array([[1, 2, 2], [9, 8, 7]])]
    settings = [(0.1, 0.0, False), (0.02, 0.3, True)]
    *_, found = ([part.copy() for part in now] for now in descend(rows, Y, W, A, settings, iter(batches), falls=2))
    with jax.enable_x64(True):

        def loss(weights, picked, decay):
            first, second, straight = weights
            residuals = jax.nn.relu(rows[picked] @ first) @ second + rows[picked] @ straight - Y[picked]
            held = decay * (jnp.sum(first**2) + jnp.sum(second**2)) / 2
            return jnp.sum(residuals**2) / 2 / len(picked) + held

        for fold in range(2):
            for place, (rate, decay, path) in enumerate(settings):
                now = [jnp.asarray(W), jnp.asarray(A), jnp.zeros((4, 2))]
                velocity = [0.0, 0.0, 0.0]
                for step, picked in enumerate(batches):
                    slopes = jax.grad(loss)(now, picked[fold], decay)
                    slopes[2] = slopes[2] * path
                    velocity = [MOMENTUM * speed + slope for speed, slope in zip(velocity, slopes, strict=True)]
                    fast = rate if step < 2 else rate / 10
                    now = [weights - fast * speed for weights, speed in zip(now, velocity, strict=True)]
                for part, weights in zip(found, now, strict=True):
                    # rates and decays are in single precision: 6e-8 of them, over steps whose sizes are those of the weights
                    bound = 1e-5 * max(1.0, float(np.abs(weights).max()))
                    np.testing.assert_allclose(part[fold, place], weights, rtol=0, atol=bound)


def test_the_largest_curvature_is_that_of_the_derivatives_of_the_outputs():
    random = np.random.default_rng(1)
    rows, W, A = random.normal(size=(30, 4)) + 1.0, random.normal(size=(4, 6)), random.normal(size=(6, 2))
    J = np.einsum("ni,nm,mk->nkim", rows, (rows @ W > 0).astype(float), A).reshape(60, -1)
    beside = [np.kron(part, np.eye(2)) for part in (np.maximum(rows @ W, 0), rows)]
    exact = np.linalg.norm(np.hstack([J, *beside]), 2) ** 2 / 30
    rows, W, A = (array.astype(np.float32) for array in (rows, W, A))
    found = largest_curvature(rows, W, A, random)
    assert 0.7 * exact < found < exact * (1 + 1e-5)  # power iteration comes from below


def test_a_network_is_no_straw_man_on_linear_targets():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 20))
    y = X @ random.normal(size=20) / 20**0.5 + 0.5 * random.normal(size=300)
    folds = folds_of(np.zeros(300, dtype=int), None, 0, classes=False)
    linear, straight = np.empty(300), np.column_stack([X, np.ones(300)])
    for fitted, held in folds:
        linear[held] = straight[held] @ np.linalg.lstsq(straight[fitted], y[fitted])[0]
    forms, width, steps = network_size(*X.shape)
    network = chosen_of(y, train_on_folds(X, y, folds, width=width, steps=steps, forms=forms), folds)
    found = group_interval((y - network) ** 2, np.arange(300), 0)
    assert found.lower <= np.mean((y - linear) ** 2)


@pytest.mark.parametrize("task", ["classes", "regression"])
def test_kernels_over_folds_are_plain_fits_that_the_other_folds_chose(task):
    random = np.random.default_rng(2)
    X = np.column_stack([random.normal(size=(60, 3)), np.ones(60)])
    y = np.sign(X[:, 0] + X[:, 1] ** 2 - 0.7) if task == "classes" else 5.0 + 3 * X[:, 0] + random.normal(size=60)
    kernels = {"ntk": op.kernels.TwoLayer(), "gaussian": op.kernels.Gaussian(2.0)}
    fit = tuned_fit(X, y, candidates=kernels, task=task)
    rows = np.sort(random.permutation(60)[:40])
    folds = folds_of(np.zeros(40, dtype=int), None, 0, classes=False)
    found = fit.over_folds(rows, folds)
    shift = 0.0 if task == "classes" else y.mean()
    for fitted, held in folds:
        scores = [np.sum((y[rows[fitted]] - outputs[rows[fitted]]) ** 2) for outputs in fit.left_out]
        setting = fit.settings[int(np.argmin(scores))]
        K = np.asarray(op.gram(kernels[setting.name], X[rows], "dense").dense())
        c = np.linalg.solve(K[np.ix_(fitted, fitted)] + setting.ridge * np.eye(len(fitted)), y[rows[fitted]] - shift)
        scale = np.linalg.cond(K + setting.ridge * np.eye(40)) * 2.3e-16 * 40 * np.abs(y).max()
        np.testing.assert_allclose(found[held], K[np.ix_(held, fitted)] @ c + shift, rtol=0, atol=scale)


def test_a_lead_by_chance_is_rarely_called_one():
    """All kinds alike: whoever leads is told the best in no more than 5% of draws, their own chance allowed for."""
    wrong, draws, n = 0, 60, 40
    for seed in range(draws):
        coins = np.random.default_rng([3, seed]).random((4, n)) < 0.3
        losses = dict(zip(SAID, coins.astype(float), strict=True))
        found = judge_kinds(losses, WHAT, np.arange(n), 0.9, classes=True, seed=seed)
        assert found.best in (*SAID, "cannot tell")
        wrong += found.best != "cannot tell"
        if not seed:
            nothing = judge_kinds(losses, WHAT, np.arange(n), 0.3, classes=True, seed=seed)
            assert nothing.best == "none"
            assert "none of 4 gets clearly fewer rows wrong than guessing" in kinds_sentence(nothing, True)
    assert wrong <= binom.ppf(0.999, draws, 0.05)


def test_copies_count_once():
    """Thirty rows, each ten times: no more is known than from thirty."""
    few = {"kernel": np.zeros(30), "trees": (np.arange(30) < 4).astype(float)}
    once = judge_kinds(few, WHAT, np.arange(30), 0.9, classes=True, seed=0)
    many = {name: np.repeat(row, 10) for name, row in few.items()}
    grouped = judge_kinds(many, WHAT, np.repeat(np.arange(30), 10), 0.9, classes=True, seed=0)
    alone = judge_kinds(many, WHAT, np.arange(300), 0.9, classes=True, seed=0)
    assert (once.best, grouped.best, alone.best) == ("cannot tell", "cannot tell", "kernel")
    assert alone.difference.width < 0.5 * grouped.difference.width


@pytest.mark.parametrize("name", ["digits", "diabetes"])
def test_what_an_analysis_says_of_kinds_is_what_it_found(name, tmp_path):
    found = checked(name).found
    kinds, classes = found.kinds, found.task != "regression"
    assert {one.name for one in kinds.tried} == set(SAID)
    assert [one.error.value for one in kinds.tried] == sorted(one.error.value for one in kinds.tried)
    assert found.error.rival.folds == 0  # the forest beside the leading error is measured on the test rows
    assert kinds.difference.value == pytest.approx(
        kinds.of(kinds.next).error.value - kinds.of(kinds.leading).error.value
    )
    assert (kinds.best == "cannot tell") == (kinds.difference.lower <= 0)
    said = kinds_sentence(kinds, classes)
    assert said in found.verdict.sentences
    assert "Which kind of model?" in [section.title for section in found.sections()]
    same(op.read(found.save(tmp_path)).kinds, kinds)


def test_trees_are_the_best_kind_for_stripes_and_nobody_for_coins():
    random = np.random.default_rng(4)
    X = random.uniform(size=(200, 8))
    for y, best in ((np.floor(6 * X[:, 0]) % 2, "trees"), (random.integers(2, size=200), "none")):
        rows, work = prepare_rows(op.data.as_dataset((X, y.astype(int))), "auto", 200, 0), Work()
        fitted = fit_rows(work, rows)
        held = held_rows(work, rows, fitted)
        found = compare_kinds(work, rows, fitted, held, forest(work, rows, fitted, held))
        assert found is not None
        assert found.best == best


def test_two_rows_a_class_raise_no_warning_of_others(recwarn):
    X = np.random.default_rng(0).normal(size=(24, 3))
    op.analyze(X, [f"class {i}" for i in np.repeat(np.arange(12), 2)])
    assert [str(w.message) for w in recwarn] == []
