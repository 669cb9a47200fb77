"""Whether the stated rounding is kept: proofs by Cholesky factor against numpy's eigenvalues."""

import numpy as np
import pytest
from kernels_for_tests import Bell, Images
from sklearn.datasets import load_digits

from overparam.engines import Definiteness, as_gram, gram
from overparam.engines import matrix as module
from overparam.kernels import TwoLayer

RNG = np.random.default_rng(0)


def singular_rows() -> np.ndarray:
    X = RNG.standard_normal((120, 3))
    X[60:] = X[:60] * RNG.uniform(0.5, 2, (60, 1))
    return X


@pytest.mark.parametrize(
    "H",
    [
        gram(TwoLayer(), load_digits().data[:300], device="cpu"),
        gram(TwoLayer(), singular_rows(), device="cpu"),
        gram(TwoLayer(), singular_rows(), "matrix_free", device="cpu"),
        gram(TwoLayer(), singular_rows(), device="jax"),
        gram(Bell(), singular_rows(), device="cpu"),
        gram(Images(), RNG.standard_normal((40, 2, 2))),
        gram(TwoLayer(), [[3.0]], device="cpu"),
        as_gram(np.zeros((4, 4))),
        as_gram(np.diag([0.0, 1.0])),
    ],
    ids=lambda H: repr(H)[:40],
)
def test_kernel_matrices_hold(H) -> None:
    found = H.definiteness()
    smallest = float(np.linalg.eigvalsh(H.dense())[0])
    trace = float(H.diagonal().sum())
    assert found.holds is True
    assert found.lower <= smallest + 1e-15 * trace  # a bound ...
    assert found.lower >= -H.rounding - 1e-14 * H.n * trace - 1e-280  # ... close to what is stated
    assert found.shift >= H.rounding


@pytest.mark.parametrize("share", [1e-6, 1e-11])
def test_a_matrix_with_a_negative_eigenvalue_is_refuted(share: float) -> None:
    Q, _ = np.linalg.qr(RNG.standard_normal((50, 50)))
    values = np.linspace(0.0, 1.0, 50)
    values[7] = -share * values.sum()
    S = (Q * values) @ Q.T
    found = as_gram((S + S.T) / 2).definiteness()
    assert found.holds is False
    assert "has no Cholesky factor" in found.reason
    assert found.lower == -np.inf
    assert as_gram(np.array([[0.0, 1e-9], [1e-9, 0.0]])).definiteness().holds is False


def test_what_does_not_fit_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available_memory", lambda: 1000)
    found = as_gram(np.eye(20)).definiteness()
    assert found == Definiteness(None, -np.inf, 0.0, found.reason)
    assert "6.4 kB" in found.reason
