"""What `fine_grained` asks of a two-layer network, its kernel and how far a neuron may move, written out."""

from dataclasses import replace

import numpy as np
import pytest
from coupling_cases import rows, subject_of

from overparam.audits.fine_grained_c_dynamics import DELTA, neuron_bound, of_descent, of_setting
from overparam.audits.fine_grained_run import limit_kernel, two_layer_run
from overparam.networks import TwoLayer

N, M, D, KAPPA = 4, 6, 3, 0.3


@pytest.fixture(scope="module")
def small():
    return subject_of(TwoLayer(M, kappa=KAPPA), rows(N, D, seed=3))


@pytest.fixture(scope="module")
def run(small):
    return two_layer_run(small, 7)


def status(found, part):
    (one,) = [a.status for a in found if part in a.statement]
    return one


def test_the_limit_kernel_is_that_of_the_angles(small):
    X = np.asarray(small.X)
    products, lengths = X @ X.T, np.outer(small.norms, small.norms)
    angles = np.arccos(np.clip(products / lengths, -1, 1))
    np.fill_diagonal(angles, 0.0)
    found = limit_kernel(small)
    by_hand = products * (np.pi - angles) / (2 * np.pi)
    np.testing.assert_allclose(found.matrix, by_hand, atol=1e-14 * lengths.max())
    np.testing.assert_allclose(found.vectors * found.values @ found.vectors.T, by_hand, atol=1e-13 * lengths.max())


def test_a_neuron_may_move_as_far_as_lemma_c_1_says(run):
    smallest = np.linalg.eigvalsh(run.limit.matrix)[0]
    residual = np.linalg.norm(run.y - run.outputs[0])
    assert neuron_bound(run) == pytest.approx(4 * np.sqrt(N) * residual / (np.sqrt(M) * smallest), rel=1e-9)


def test_the_setting_is_unit_rows_labels_of_at_most_1_and_weights_of_variance_kappa_squared(small):
    drawn = of_setting(small)
    assert [status(drawn, part) for part in ("norm 1", "labels", "variance κ²")] == ["met"] * 3
    assert status(of_setting(small.but(y=1.1 * small.y)), "labels") == "unmet"
    larger = replace(small.params, trained={"W": 10 * np.asarray(small.params.trained["W"])})
    assert status(of_setting(small.but(params=larger)), "variance κ²") == "unmet"


@pytest.mark.parametrize("C", [1.0, 7.0])
def test_theorem_3_1_asks_for_the_rate_and_the_width_of_its_statement(small, run, C):
    limit = C * run.smallest / N**2
    asked = [of_descent(small, replace(run, rate=share * limit), constant=C) for share in (0.999, 1.001)]
    assert [status(found, "lr") for found in asked] == ["met", "unmet"]
    width = N**6 / (run.smallest**4 * KAPPA**2 * DELTA**3)
    asked = [of_descent(small, run, constant=share * M / width) for share in (0.999, 1.001)]
    assert [status(found, "width") for found in asked] == ["met", "unmet"]
