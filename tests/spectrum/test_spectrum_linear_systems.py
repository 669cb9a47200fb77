"""`solve` and its certificate, against exact rational arithmetic, numpy's dense solves and a Cholesky factor."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import overparam as op
from overparam.engines import as_gram, gram
from overparam.kernels import TwoLayer
from overparam.spectrum import eigenvalue_bounds, solve, solve_plan
from overparam.spectrum.linear_systems import certificate

ENGINES = [("dense", "cpu"), ("matrix_free", "cpu"), ("dense", "jax"), ("matrix_free", "jax")]
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((150, 5))
ROWS[7], ROWS[9] = ROWS[3], -2 * ROWS[4]
LABELS = RNG.standard_normal((150, 3))


def exact_form(H: np.ndarray, y: np.ndarray, ridge: float) -> Fraction:
    """yᵀ(H + ridge)⁻¹y of these very floats, by elimination over fractions."""
    n = len(H)
    A = [[Fraction(float(H[i, j])) + (Fraction(ridge) if i == j else 0) for j in range(n)] for i in range(n)]
    b = [Fraction(float(value)) for value in y]
    x = list(b)
    for i in range(n):
        for row in range(i + 1, n):
            share = A[row][i] / A[i][i]
            A[row] = [a - share * c for a, c in zip(A[row], A[i], strict=True)]
            x[row] -= share * x[i]
    for i in reversed(range(n)):
        x[i] = (x[i] - sum(A[i][j] * x[j] for j in range(i + 1, n))) / A[i][i]
    return sum((left * right for left, right in zip(b, x, strict=True)), Fraction(0))


@pytest.mark.parametrize("ridge", [1e-9, 1e-3, 10.0])
def test_the_certificate_holds_for_any_z(ridge: float) -> None:
    """Rows of whole numbers, so that the matrix of their inner products is exact, of rank 4 among 9."""
    X = RNG.integers(-3, 4, size=(9, 4)).astype(float)
    H = as_gram(X @ X.T)
    Y = RNG.standard_normal((9, 2))
    true = [exact_form(H.dense(), y, ridge) for y in Y.T]
    best = np.linalg.solve(H.dense() + ridge * np.eye(9), Y)
    for spoiled in (0.0, 1e-12, 1e-6, 1e-2, 1.0):
        Z = best + spoiled * RNG.standard_normal(Y.shape)
        bracket, _ = certificate(H, Y, Z, Y - (H @ Z + ridge * Z), ridge, ridge)
        each = bracket.per_output
        assert each is not None
        assert bracket.certified
        for lower, upper, exact in zip(each.lower, each.upper, true, strict=True):
            assert lower <= exact <= upper
        assert bracket.lower <= sum(true) <= bracket.upper
    tight = solve(H, Y, ridge)
    assert tight.bracket.lower <= sum(true) <= tight.bracket.upper
    if ridge >= 1e-3:
        assert tight.bracket.width <= 1e-6 * tight.bracket.value


@pytest.mark.parametrize(("engine", "device"), ENGINES)
def test_conjugate_gradients_solve_as_numpy_does(engine: Any, device: str) -> None:
    """Repeated and opposite rows among 150, three columns and one of zeros."""
    Y = np.column_stack([LABELS, np.zeros(150)])
    H = gram(TwoLayer(), ROWS, engine=engine, device=device)
    ridge = 1e-3
    A = H.dense() + ridge * np.eye(150)
    true = np.linalg.solve(A, Y)
    found = solve(H, Y, ridge, method="conjugate gradients", columns=40)
    assert found.converged
    assert found.method == "conjugate gradients"
    assert found.plan.columns == 40
    assert np.all(found.residuals <= 1e-10)
    assert found.residuals[3] == 0
    assert found.error <= 1e-6
    # numpy's own error is within a few n ε cond(A) of its size
    room = found.error + 10 * 150 * np.finfo(float).eps * np.linalg.cond(A)
    assert np.linalg.norm(found.values - true) <= room * np.linalg.norm(true)
    each = found.bracket.per_output
    assert each is not None
    form = np.einsum("ij,ij->j", Y, true)
    slack = 10 * 150 * np.finfo(float).eps * np.linalg.cond(A) * form
    assert np.all(each.lower - slack <= form)
    assert np.all(form <= each.upper + slack)
    assert found.bracket.width <= 1e-6 * found.bracket.value


def test_one_vector_has_its_own_shape_and_a_gap_stops_earlier() -> None:
    H = gram(TwoLayer(), ROWS, device="cpu")
    whole = solve(H, LABELS[:, 0], 1e-2, method="conjugate gradients", columns=30)
    loose = solve(H, LABELS[:, 0], 1e-2, method="conjugate gradients", columns=30, gap=1e-3)
    assert whole.values.shape == (150,)
    assert loose.products < whole.products
    assert loose.converged
    assert 1e-9 < loose.bracket.width / loose.bracket.lower <= 1e-3
    assert loose.bracket.lower <= whole.bracket.upper
    assert whole.bracket.lower <= loose.bracket.upper


def test_predictions_are_those_of_a_factor() -> None:
    """At ridge 1e-4 of the diagonal, to 1e-8 of their largest."""
    X = RNG.standard_normal((700, 12))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = np.sign(X @ RNG.standard_normal((12, 2)))
    H = gram(TwoLayer(), X, device="cpu")
    new = TwoLayer()(RNG.standard_normal((50, 12)), X)
    direct, iterated = (solve(H, y, 0.5e-4, method=method) for method in ("Cholesky", "conjugate gradients"))
    one, two = new @ direct.values, new @ iterated.values
    assert np.abs(one - two).max() <= 1e-8 * np.abs(one).max()
    assert direct.products == 1
    assert iterated.products > 1
    assert direct.bracket.lower <= iterated.bracket.upper
    assert iterated.bracket.lower <= direct.bracket.upper


def test_without_a_ridge_a_bound_on_the_smallest_eigenvalue_takes_its_place() -> None:
    apart = np.delete(ROWS, [7, 9], axis=0)
    H = gram(TwoLayer(), apart, device="cpu")
    y = LABELS[: len(apart), 0]
    least = eigenvalue_bounds(H, "cholesky")
    for bounds in ("auto", least):
        found = solve(H, y, method="conjugate gradients", bounds=bounds)
        form = float(y @ np.linalg.solve(H.dense(), y))
        assert found.bracket.certified
        assert found.bracket.lower <= form * (1 + 1e-9)
        assert form <= found.bracket.upper * (1 + 1e-9)
    unknown = solve(H, y, method="conjugate gradients", bounds=None)
    assert not unknown.bracket.certified
    assert "no upper side" in unknown.bracket.reason
    assert unknown.error == np.inf
    with pytest.raises(ValueError, match="not positive definite to rounding"):
        solve(gram(TwoLayer(), ROWS, device="cpu"), LABELS)


def test_many_rows_without_a_ridge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the size of a factor: certified where angles between rows bound λ_min, else it says that it is not."""
    for where in ("spectrum.bounds", "spectrum.linear_systems", "theory.predictions"):
        monkeypatch.setattr(f"overparam.{where}.CHOLESKY_FITS", 60)
    X = np.random.default_rng(5).standard_normal((90, 40))
    y = np.sign(X[:, 0])
    H = gram(TwoLayer(), X, "half", device="cpu")
    found = solve(H, y, columns=20)
    true = np.linalg.solve(H.dense(), y)
    assert found.method == "conjugate gradients"
    assert found.bracket.certified
    assert found.bracket.lower <= y @ true * (1 + 1e-12)
    assert y @ true <= found.bracket.upper * (1 + 1e-12)
    assert found.bracket.width <= 1e-8 * found.bracket.value
    assert op.label_complexity(found).certified
    assert np.linalg.norm(found.values - true) <= found.error * np.linalg.norm(found.values) * (1 + 1e-6)
    new = op.predict(H, y, H.dense()[:5])
    assert new.method == "conjugate gradients"
    assert new.certified
    np.testing.assert_allclose(new.values, y[:5], atol=1e-9)
    other = solve(gram(op.kernels.Gaussian(3.0), X, device="cpu"), y, columns=20)
    assert not other.bracket.certified
    assert "no upper side" in other.bracket.reason


@pytest.mark.parametrize("device", ["cpu", "jax"])
def test_a_solve_goes_on_after_a_stop_to_the_same_bits(device: str, tmp_path: Path) -> None:
    H = gram(TwoLayer(), ROWS, engine="matrix_free", device=device)
    options: dict[str, Any] = {"method": "conjugate gradients", "columns": 20}
    whole = solve(H, LABELS, 1e-2, **options)

    def stop(done: float, total: float | None, what: str) -> None:
        if what == "products with H" and done >= 5:
            raise KeyboardInterrupt

    with pytest.raises(op.Interrupted, match="call again with the same `place`"):
        solve(H, LABELS, 1e-2, **options, place=tmp_path, progress=stop)
    resumed = solve(H, LABELS, 1e-2, **options, place=tmp_path)
    assert resumed.products == whole.products
    np.testing.assert_array_equal(resumed.values, whole.values)
    again = solve(H, LABELS, 1e-2, **options, place=tmp_path)
    assert again.products == whole.products
    np.testing.assert_array_equal(again.values, whole.values)
    with pytest.raises(ValueError, match="other work"):
        solve(H, LABELS, 2e-2, **options, place=tmp_path)


def test_what_cannot_be_reached_is_said() -> None:
    H = gram(TwoLayer(), ROWS, device="cpu")
    few = solve(H, LABELS, 1e-3, method="conjugate gradients", columns=5, max_products=4)
    assert not few.converged
    assert "stopped at 4 products" in few.reason
    assert few.products == 4
    assert few.bracket.certified
    with pytest.raises(ValueError, match="not positive definite: conjugate gradients met"):
        solve(np.diag([1.0, -2.0, 1.0]), [1.0, 1.0, 1.0], 0.5, method="conjugate gradients", columns=1)


@pytest.mark.parametrize("method", ["Cholesky", "conjugate gradients"])
def test_a_matrix_of_zeros_is_its_ridge_and_nothing_without(method: Any) -> None:
    for H in (np.zeros((3, 3)), op.gram(op.kernels.Polynomial(1), np.zeros((3, 2)), device="jax")):
        solved = op.solve(H, [1.0, 2.0, 3.0], ridge=2.0, method=method)
        np.testing.assert_allclose(solved.values, [0.5, 1.0, 1.5], rtol=8 * np.finfo(float).eps)
        assert solved.bracket.lower <= 7.0 <= solved.bracket.upper
        with pytest.raises(ValueError, match="all of it is 0; use a ridge above 0"):
            op.solve(H, [1.0, 2.0, 3.0], method=method)
    some = np.diag([0.0, 0.0, 1.0])  # the one column that is drawn may be of zeros
    found = [
        op.solve(some, np.ones(3), 1.0, method="conjugate gradients", columns=1, key=key).values for key in range(4)
    ]
    np.testing.assert_allclose(found, [[1.0, 1.0, 0.5]] * 4, rtol=1e-12)


def test_the_plan_says_how() -> None:
    small = solve_plan(np.eye(3), np.ones(3))
    assert small.method == "Cholesky"
    assert small.setup_seconds is None
    assert "a factor is cheap" in str(small)
    H = gram(TwoLayer(), ROWS, engine="matrix_free", device="cpu")
    plan = solve_plan(H, LABELS, method="conjugate gradients", columns=12)
    assert plan.outputs == 3
    assert plan.columns == 12
    assert plan.product_seconds is not None
    assert "each" in str(plan)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ridge": -1.0}, "`ridge` is -1"),
        ({"tol": 0.0}, "`tol` is 0"),
        ({"gap": 2.0}, "`gap` is 2"),
        ({"method": "qr"}, "`method` is 'qr'"),
        ({"columns": 4}, "`columns` is 4; expected 1 to 3"),
        ({"max_products": 1}, "`max_products` is 1"),
        ({"y": [1e200, 0.0, 0.0]}, "scale it to about 1"),
    ],
)
def test_wrong_requests(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        solve(np.eye(3), **{"y": [1.0, 2.0, 3.0], "ridge": 1.0, **options})


@pytest.mark.parametrize("size", [1e-138, 1e-120])
@pytest.mark.parametrize("method", ["Cholesky", "conjugate gradients"])
def test_solutions_whose_squares_pass_float64_have_no_warning(size: float, method: Any) -> None:
    """Where yᵀH⁻¹y itself is no float64 there is no upper side; elsewhere the bracket holds what it is."""
    H, y = size * np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([1.0, -1.0])
    for scale, exact in ((1.0, 2 / size), (1e60, 2e120 / size if size > 1e-130 else 2e258), (1e100, np.inf)):
        found = solve(H, scale * y, 0.0, method=method).bracket
        assert found.lower <= exact * (1 + 1e-14)
        assert found.upper is None or found.upper >= exact * (1 - 1e-14)
        assert not np.isnan([found.value, found.lower, found.upper]).any()
    assert solve(H, y, 0.0, method=method).bracket.lower == pytest.approx(2 / size, rel=1e-4)  # of two products
