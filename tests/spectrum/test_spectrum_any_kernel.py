"""What spectra give for kernels that are no function of the angle: against scikit-learn, refits and plain linear algebra."""

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

sys.path.insert(0, str(Path(__file__).parents[1] / "engines"))
from kernels_for_tests import Bell, Images

import overparam as op
from overparam.engines import cross_matrix
from overparam.spectrum import bounds as bounds_module
from overparam.spectrum.separation import separation_bound

RNG = np.random.default_rng(0)
ROWS = {"inner products": (Bell(), RNG.standard_normal((40, 5))), "blocks": (Images(), RNG.standard_normal((40, 3, 2)))}
Y = np.sign(RNG.standard_normal(40))


@pytest.fixture(params=[(name, engine) for name in ROWS for engine in ("dense", "matrix_free")], ids="-".join)
def case(request: pytest.FixtureRequest):
    name, engine = request.param
    kernel, X = ROWS[name]
    return kernel, X, op.gram(kernel, X, engine, device="cpu")


def test_leave_one_out_is_every_refit(case) -> None:
    kernel, X, H = case
    K = kernel(X)
    found = op.leave_one_out(H, Y, ridge=0.1)
    for i in range(0, 40, 7):
        others = np.delete(np.arange(40), i)
        explicit = K[i, others] @ np.linalg.solve(K[np.ix_(others, others)] + 0.1 * np.eye(39), Y[others])
        ridge = KernelRidge(alpha=0.1, kernel="precomputed").fit(K[np.ix_(others, others)], Y[others])
        assert found.outputs[i] == pytest.approx(explicit, abs=1e-12)
        assert found.outputs[i] == pytest.approx(ridge.predict(K[i : i + 1, others])[0], abs=1e-12)
    assert op.leave_one_out(H, Y).mean_square <= min(square for _, square in op.leave_one_out(H, Y).tried) + 1e-15


def test_quadrature_complexity_and_prediction(case) -> None:
    kernel, X, H = case
    K = kernel(X)
    q = op.quadrature(H, Y, tol=1e-9)
    assert q.bounds.lower_method == "Cholesky of H − a I"
    eigenvalues = np.linalg.eigvalsh(K)
    assert 0.9 * eigenvalues[0] <= q.bounds.lower <= eigenvalues[0]
    assert eigenvalues[-1] <= q.bounds.upper <= 1.2 * eigenvalues[-1]
    form = Y @ np.linalg.solve(K, Y)
    complexity = op.label_complexity(q)
    assert complexity.lower <= np.sqrt(2 * form / 40) * (1 + 1e-12)
    assert complexity.upper >= np.sqrt(2 * form / 40) * (1 - 1e-12)
    assert complexity.value == pytest.approx(np.sqrt(2 * form / 40), rel=1e-8)
    new = X[:3] + 0.3
    ridge = KernelRidge(alpha=0.5, kernel="precomputed").fit(K, Y)
    predicted = op.predict(H, Y, cross_matrix(kernel, new, X), ridge=0.5)
    np.testing.assert_allclose(predicted.values, ridge.predict(kernel(new, X)), atol=1e-9)


def test_the_bound_from_below_says_why_it_is_0(case, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, _, H = case
    monkeypatch.setattr(bounds_module, "CHOLESKY_FITS", 10)
    found = op.eigenvalue_bounds(H)
    assert found.lower == 0
    assert "no power series of the kernel, and no Cholesky factor of 40 rows" in found.lower_method
    with pytest.raises(ValueError, match=rf"{type(kernel).__name__} is none; use method='cholesky'"):
        separation_bound(H)
