"""Leave-one-out against n refits, each really without its row."""

import numpy as np
import pytest

from overparam.engines import gram
from overparam.kernels import TwoLayer
from overparam.spectrum import leave_one_out, left_out

RNG = np.random.default_rng(0)
N = 25
X = RNG.standard_normal((N, 4))
BINARY = np.sign(X[:, 0] + 0.5 * RNG.standard_normal(N))
CLASSES = np.eye(3)[RNG.integers(3, size=N)] - 1 / 3
NUMBERS = RNG.standard_normal(N) * 7 + 3
LABELS = {"binary": BINARY, "classes": CLASSES, "numbers": NUMBERS, "columns": np.column_stack([NUMBERS, BINARY])}


def refits(K: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    outputs = np.empty_like(y)
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        solved = np.linalg.solve(K[np.ix_(rest, rest)] + ridge * np.eye(len(rest)), y[rest])
        outputs[i] = K[i, rest] @ solved
    return outputs


@pytest.fixture(params=["eigen", "factor", "jax", "matrix_free", "numbers"])
def H(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(left_out, "EIGEN_FITS", 2_500 if request.param == "eigen" else 0)
    if request.param == "numbers":
        return TwoLayer()(X)
    return gram(
        TwoLayer(),
        X,
        engine="matrix_free" if request.param == "matrix_free" else "dense",
        device="jax" if request.param == "jax" else "cpu",
    )


@pytest.mark.parametrize("kind", list(LABELS))
@pytest.mark.parametrize("ridge", [0.0, 0.05, 2, "auto"])
def test_is_the_refit_without_each_row(H, kind: str, ridge: float | str) -> None:
    y, K = LABELS[kind], TwoLayer()(X)
    found = leave_one_out(H, y, ridge)
    true = refits(K, y, found.ridge)
    np.testing.assert_allclose(found.outputs, true, rtol=1e-7, atol=1e-8 * np.abs(y).max())
    np.testing.assert_allclose(found.residuals, y - true, rtol=1e-6, atol=1e-7 * np.abs(y).max())
    assert found.mean_square == pytest.approx(np.sum((y - true) ** 2) / N, rel=1e-6)
    if ridge == "auto":
        for tried, score in found.tried:
            assert score == pytest.approx(np.sum((y - refits(K, y, tried)) ** 2) / N, rel=1e-5)
        assert found.mean_square == pytest.approx(min(score for _, score in found.tried))
        assert found.ridge in [tried for tried, _ in found.tried]
    else:
        assert found.ridge == ridge
    if kind == "binary":
        np.testing.assert_allclose(found.margins, y * true, rtol=1e-6, atol=1e-8)
        assert found.error == np.mean(np.sign(true) != y)
    elif kind == "classes":
        right = y.argmax(axis=1)
        margins = [true[i, right[i]] - np.delete(true[i], right[i]).max() for i in range(N)]
        np.testing.assert_allclose(found.margins, margins, rtol=1e-6, atol=1e-8)
        assert found.error == np.mean(true.argmax(axis=1) != right)
    else:
        assert found.margins is None
        assert found.error is None


def test_the_best_of_several_ridges_is_taken(H) -> None:
    ridges = [3.0, 0.01, 0.3]
    found = leave_one_out(H, NUMBERS, ridges)
    scores = [leave_one_out(H, NUMBERS, ridge).mean_square for ridge in ridges]
    assert [ridge for ridge, _ in found.tried] == ridges
    np.testing.assert_allclose([score for _, score in found.tried], scores, rtol=1e-6)
    assert found.ridge == ridges[int(np.argmin(scores))]
    np.testing.assert_allclose(found.outputs, leave_one_out(H, NUMBERS, found.ridge).outputs, rtol=1e-6)
    assert leave_one_out(H, NUMBERS, np.array(ridges)).ridge == found.ridge
    for wrong in ([], [0.1, -1.0], [0.1, "a"]):
        with pytest.raises(ValueError, match="`ridge`"):
            leave_one_out(H, NUMBERS, wrong)


def test_task_is_the_users_word() -> None:
    K = TwoLayer()(X)
    assert leave_one_out(K, BINARY, 0.1, task="regression").margins is None
    with pytest.raises(ValueError, match="neither ±1 nor one-hot"):
        leave_one_out(K, NUMBERS, 0.1, task="classes")


def test_wrong_input_gets_one_line() -> None:
    K = TwoLayer()(X)
    for ridge in (-1.0, np.nan, "best", None):
        with pytest.raises(ValueError, match="`ridge`"):
            leave_one_out(K, BINARY, ridge)
    with pytest.raises(ValueError, match="at least 2 rows"):
        leave_one_out(np.eye(1), [1.0])
    with pytest.raises(ValueError, match="`y` has shape"):
        leave_one_out(K, BINARY[:-1])
    with pytest.raises(ValueError, match="matrix stored"):
        leave_one_out(gram(TwoLayer(), X, engine="matrix_free", device="jax"), BINARY, 0.1)


@pytest.mark.parametrize("device", ["cpu", "jax"])
def test_repeated_rows_without_ridge_are_one_line_and_auto_survives(device: str) -> None:
    rows, y = np.vstack([X, X[:4]]), np.append(BINARY, -BINARY[:4])
    H = gram(TwoLayer(), rows, engine="dense", device=device)
    with pytest.raises(ValueError, match="not positive definite") as caught:
        leave_one_out(H, y, 0.0)
    assert "\n" not in str(caught.value)
    found = leave_one_out(H, y)
    np.testing.assert_allclose(found.outputs, refits(TwoLayer()(rows), y, found.ridge), rtol=1e-5, atol=1e-7)


def test_numpy_scalars_are_numbers() -> None:
    K = TwoLayer()(X)
    for ridge in (np.float64(0.5), np.float32(0.5), np.int64(1)):
        assert leave_one_out(K, BINARY, ridge).ridge == float(ridge)
