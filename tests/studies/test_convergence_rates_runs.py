"""The runs of the study of convergence on networks whose kernel does not change, and what is made of planted runs."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from overparam.data import as_dataset
from overparam.frame import Work
from overparam.networks import FullyConnected
from overparam.studies import convergence_rates as study
from overparam.studies import convergence_rates_numbers as numbers
from overparam.studies.convergence_rates import (
    SMOKE,
    as_seen,
    at_start,
    close_pairs,
    count_iterations,
    count_name,
    run_cell,
    run_classes,
)
from overparam.theory.descent_laws import PERFECT

LINEAR = FullyConnected(16, 2, trained="last")
"""Only the output layer is trained: H(0) is H for ever, and every loss curve has a closed form."""
KEYS = (3, 4)


@pytest.fixture(scope="module")
def sets():
    return [close_pairs(6, 0.5, 8, [0, seed]) for seed in range(2)]


@pytest.fixture(scope="module")
def start(sets):
    return at_start(LINEAR, sets, KEYS, None)


def residuals(sets, start):
    return [data.y - u for data, u in zip(sets, start["u"], strict=True)]


def test_a_cell_is_gradient_descent_at_one_over_the_largest_eigenvalue(sets, start):
    found = run_cell(Work(), LINEAR, sets, KEYS, "squared", None, 4.0, 200, start)
    for seed, r in enumerate(residuals(sets, start)):
        values, vectors = np.linalg.eigh(start["H"][seed])
        assert found["lr"][seed] == pytest.approx(1 / values[-1], rel=1e-12)
        left = (1 - values[:, None] / values[-1]) ** found["steps"]
        # Rounding is 1e-16 a step of numbers of the size of the first loss.
        np.testing.assert_allclose(
            found["loss"][seed], 0.5 * (vectors.T @ r) ** 2 @ left**2, atol=1e-12 * (r @ r), rtol=1e-9
        )
    np.testing.assert_allclose(found["H_end"], start["H"], rtol=1e-12)
    assert found["steps"][-1] >= min(200, 4 * np.log(10) / 2 * values[-1] / values[0])


def test_iterations_are_counted_until_the_share_that_the_fixed_kernel_says(sets, start):
    found = count_iterations(Work(), LINEAR, sets, KEYS, 0.05)
    for seed, r in enumerate(residuals(sets, start)):
        values, vectors = np.linalg.eigh(start["H"][seed])
        assert (found["smallest"][seed], found["largest"][seed]) == pytest.approx((values[0], values[-1]), rel=1e-12)

        def left(steps, values=values, projections=(vectors.T @ r) ** 2):
            return (1 - values / values[-1]) ** (2 * steps) @ projections / projections.sum()

        assert left(found["expected"][seed]) == pytest.approx(0.05, rel=1e-6)
        steps = numbers.steps_to_share(found["steps"], found["loss"][seed], 0.05)
        between = np.diff(found["steps"]).max()
        assert abs(steps - found["expected"][seed]) <= between
        distances = np.linalg.norm(sets[seed].X[:, None] - sets[seed].X[None], axis=2) + 9 * np.eye(6)
        assert found["separation"][seed] == pytest.approx(distances.min(), rel=1e-9)


def test_ten_classes_are_trained_at_the_largest_safe_rate_until_the_loss_is_well_below_a_quarter(monkeypatch):
    rng, n, k = np.random.default_rng(0), 12, 3
    X = rng.standard_normal((n, 9))
    data = as_dataset((X / np.linalg.norm(X, axis=1, keepdims=True), np.arange(n) % k))
    network, asked = replace(LINEAR, outputs=k), {}

    def training(network, sets, runs, steps, **options):
        asked.update(options, runs=runs, steps=steps)
        return SimpleNamespace(steps=[0], seconds_per_step=0.0, records={"loss": np.zeros((2, 1)), "accuracy": None})

    monkeypatch.setattr(study, "side_by_side", training)
    found = run_classes(Work(), network, [data, data], 5, None, 40)
    with jax.enable_x64(True):
        params = jax.tree.map(np.asarray, network.init(5, 9))
    h = np.maximum(np.maximum(data.X @ params.fixed["A"].T, 0) @ params.fixed["W1"].T, 0)
    # The kernel of a trained output layer is h·h′ in every output, and the Hessian of a row's loss is at most ½.
    assert found["lr"] == pytest.approx(2 / (0.5 * n * (h**2).sum(axis=1).max()), rel=1e-12)
    assert asked["runs"] == [(found["lr"], 0.0, 5)] * 2
    assert (asked["objective"].kind, asked["batch"]) == ("convex", None)
    assert n * np.log(10) * asked["stop_below"] == pytest.approx(
        0.1
    )  # Σ of the rows, where log 10 is the first of each
    assert asked["steps"] >= 40


# --- what is made of runs


def planted(steps, exponent=2.0):
    """Runs whose loss falls by e^{−s/x^exponent}, for x = n of the smoke settings."""
    found = {}
    for point in SMOKE.points("n"):
        loss = np.exp(-steps / point[0] ** exponent)
        found[count_name("residual", point)] = {
            "steps": steps, "loss": np.stack([loss, 3 * loss]), "lr": np.array([0.1, 0.1]), "expected": np.array([8.0, 16.0]),
            "smallest": np.array([1.0, 2.0]), "largest": np.array([4.0, 4.0]), "separation": np.array([0.3, 0.3]),
        }  # fmt: skip
    return found


def test_iterations_grow_by_the_planted_exponent():
    row = numbers.iteration_row(SMOKE, planted(np.arange(0, 401, 4)), "residual", "n")
    assert row["steps"] == pytest.approx(2.0, abs=1e-9)
    assert row["time"] == pytest.approx(2.0, abs=1e-9)  # η m is the same throughout
    assert row["expected"] == pytest.approx(0.0, abs=1e-9)
    assert (row["missing"], row["steps_theorem"], row["time_theorem"]) == (0, 6.0, 2.0)
    first = row["points"][0]
    reached = np.log(1 / SMOKE.share) * SMOKE.n[0] ** 2
    assert first["steps"] == pytest.approx(reached)
    assert first["time"] == pytest.approx(reached * 0.1 * SMOKE.base[2])
    assert [point["condition"] for point in row["points"][:2]] == [4.0, 2.0]
    assert row["slower"][0] == pytest.approx(np.mean([reached / 8, reached / 16]))
    short = numbers.iteration_row(SMOKE, planted(np.arange(0, 101, 4)), "residual", "n")
    assert short["missing"] == 2  # of n = 8, which need 295 steps


def test_rows_of_classes_tell_when_all_are_right_and_whether_a_low_loss_was_enough():
    low = PERFECT / 2
    run = {
        "steps": np.array([0, 5, 10]), "lr": 0.2,
        "loss": np.array([[2.0, 1.0, low], [2.0, low, low]]),
        "accuracy": np.array([[0.5, 1.0, 1.0], [0.1, 0.9, 0.95]]),
    }  # fmt: skip
    real, drawn = numbers.class_rows(("residual", "GD"), run)
    assert (real["labels"], real["all_right"], real["loss_there"], real["below"], real["holds"]) == (
        "real", 5, 1.0, 10, True,
    )  # fmt: skip
    assert (drawn["labels"], drawn["all_right"], drawn["loss_there"], drawn["below"], drawn["holds"]) == (
        "random", None, None, 5, False,
    )  # fmt: skip


def test_the_width_that_theorem_1_asks_for_is_its_formula():
    starts = {"convolutional": {"separation": np.array([9.0])}, "residual": {"separation": np.array([0.1, 0.2, 0.7])}}
    found = numbers.width_asked(SMOKE, starts)
    n, L = SMOKE.samples, SMOKE.layers
    m = 10 ** found["log10_m"]
    assert m == pytest.approx(n**24 * L**12 * np.log(m) ** 5 / 0.2**8, rel=1e-9)
    assert (found["n"], found["L"], found["m"], found["separation"]) == (n, L, SMOKE.width, 0.2)
    assert numbers.width_asked(SMOKE, {"convolutional": starts["convolutional"]}) is None


def test_rows_are_seen_as_the_theorem_of_the_network_wants_them():
    X = np.random.default_rng(1).standard_normal((6, 4)) + 3
    data, centred = as_dataset((X, np.arange(6) % 2)), X - X.mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    np.testing.assert_allclose(as_seen("convolutional", data).X, unit, atol=1e-14)
    dense = as_seen("residual", data).X
    np.testing.assert_allclose(np.linalg.norm(dense, axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(dense[:, -1], np.sqrt(0.5), rtol=1e-14)
    # What is between keeps the directions and the ratios of the lengths.
    shares = np.linalg.norm(dense[:, :4], axis=1) / np.linalg.norm(centred, axis=1)
    np.testing.assert_allclose(dense[:, :4] / shares[:, None], centred, atol=1e-13)
    np.testing.assert_allclose(shares, shares[0], rtol=1e-13)
