"""Rows left out by random probes, against the exact leave-one-out within the standard errors that are stated."""

from typing import Any

import numpy as np
import pytest

from overparam.engines import gram
from overparam.kernels import TwoLayer
from overparam.spectrum import leave_one_out
from overparam.theory import leave_one_out_by_probes

RNG = np.random.default_rng(0)
N = 150
X = RNG.standard_normal((N, 5))
CODES = np.digitize(X[:, 0] + 0.5 * RNG.standard_normal(N), [-0.5, 0.5])
LABELS = {"classes": np.eye(3)[CODES] - 1 / 3, "signs": np.sign(X[:, 1] + X[:, 2]), "numbers": X[:, 0] * X[:, 1]}


@pytest.mark.parametrize("kind", list(LABELS))
def test_probes_are_as_near_to_the_exact_as_they_say(kind: str) -> None:
    H, y, ridge = gram(TwoLayer(), X, device="cpu"), LABELS[kind], 0.05
    exact = leave_one_out(H, y, ridge)
    found = leave_one_out_by_probes(H, y, ridge, probes=24, columns=20, key=1)
    assert found.converged
    # (value − exact)/standard error is Student's t of 23 degrees of freedom: mean square 23/21, variance of the square below 3;
    # rows share their signs, so that 150 rows are worth no fewer than 24 of their own
    away = ((found.outputs - exact.outputs) / found.standard_errors).reshape(N, -1)[:, 0]
    assert abs(np.mean(away**2) - 23 / 21) < 5 * np.sqrt(3 / 24)
    assert abs(found.mean_square - exact.mean_square) < 4 * found.mean_square_standard_error
    assert found.mean_square_standard_error < 0.1 * exact.mean_square
    if exact.error is None:
        assert found.error is found.error_standard_error is None
    else:
        assert found.error is not None
        assert found.error_standard_error is not None
        assert abs(found.error - exact.error) < 4 * found.error_standard_error + 1 / N
    more = leave_one_out_by_probes(H, y, ridge, probes=240, columns=20, key=2)
    ratio = np.median(found.standard_errors / more.standard_errors)
    assert ratio == pytest.approx(np.sqrt(10), rel=0.25)
    # columns that see more of H leave less to the signs
    led = leave_one_out_by_probes(H, y, ridge, probes=24, columns=120, key=1)
    assert np.median(led.standard_errors) < np.median(found.standard_errors)


def test_on_a_device_it_is_the_same() -> None:
    host, device = (
        leave_one_out_by_probes(gram(TwoLayer(), X, device=where), LABELS["signs"], 0.1, probes=4, columns=10)
        for where in ("cpu", "jax")
    )
    np.testing.assert_allclose(device.outputs, host.outputs, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ridge": 0.0}, "`ridge` is 0"),
        ({"ridge": 1e-30}, "rounding of H hides"),
        ({"probes": 2}, "`probes` is 2"),
        ({"columns": 9}, "`columns` is 9; expected 1 to 3"),
    ],
)
def test_wrong_requests(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        leave_one_out_by_probes(np.eye(3), [1.0, 2.0, 3.0], **{"ridge": 1.0, **options})
