"""Where rows repeat: solves give the limit of gradient descent and say so, or refuse; nothing singular is certified.

The truth is found without an eigenvalue: equal rows are one row with the mean of their labels, multiples c_i x of a row one
with Σ c_i y_i/Σ c_i² (homogeneous kernels), and gradient descent itself is run, a step at a time.
"""

import numpy as np
import pytest

import overparam as op
from overparam.engines import gram
from overparam.kernels import (
    ArcCosine,
    Arcsine,
    Composed,
    FullyConnected,
    Gaussian,
    Laplace,
    Polynomial,
    Recursive,
    Residual,
    TwoLayer,
)
from overparam.layers import Erf, standard
from overparam.spectrum import factor, leave_one_out
from overparam.spectrum.integrands import Inverse
from overparam.theory import (
    best_learning_rate,
    coupled_regression,
    dual_coefficients,
    label_complexity,
    laziness,
    max_learning_rate,
    predict,
    predict_loss,
    predict_loss_flow,
    predict_movement,
    steps_to_loss,
)

HOMOGENEOUS = {
    "two layers": TwoLayer(),
    "deep": FullyConnected(3),
    "residual": Residual(2),
    "arc-cosine": ArcCosine(1),
}
KERNELS = {
    **HOMOGENEOUS,
    "erf": Arcsine(),
    "gaussian": Gaussian(1.5),
    "laplace": Laplace(1.5),
    "recursive": Recursive(2, "exponential"),
    "composed": Composed([standard.dense(8), Erf(), standard.dense(1)]),
    "polynomial": Polynomial(6, 1.0),
}


def rows(random, count, d=6):
    """Rows of norm 1 in general position."""
    X = random.standard_normal((count, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def repeated(random, n):
    """n rows of which some are written twice or more, which group each is of, and labels ±1."""
    groups = np.sort(np.concatenate([np.arange((n + 1) // 2), random.integers((n + 1) // 2, size=n - (n + 1) // 2)]))
    order = random.permutation(n)
    return rows(random, (n + 1) // 2), groups[order], random.choice([-1.0, 1.0], size=n)


def tolerance(K, n):
    """What rounding may do to a solve with K: its condition times n units of the last place, on either side."""
    return 64 * n * np.finfo(float).eps * np.linalg.cond(K)


@pytest.mark.parametrize("engine", ["dense", "matrix_free"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_repeated_rows_end_at_the_mean_of_their_labels(kernel, engine):
    random = np.random.default_rng(3)
    for n in (2, 3, 7, 40):
        unique, groups, y = repeated(random, n)
        means = np.array([y[groups == g].mean() for g in range(len(unique))])
        H = gram(kernel, unique[groups], engine, device="cpu")
        new = rows(random, 5)
        K = kernel(unique, unique)
        found = predict(H, y, kernel(new, unique[groups]))
        assert found.method == "minimum-norm least squares"
        assert not found.certified
        assert any(line.status == "unmet" for line in found.assumptions)
        truth = kernel(new, unique) @ np.linalg.solve(K, means)
        size = np.linalg.norm(kernel(new, unique)) * np.linalg.norm(np.linalg.solve(K, means))
        assert np.max(np.abs(found.values - truth)) <= tolerance(K, n) * size
        with pytest.raises(ValueError, match="ridge"):
            leave_one_out(H, y, ridge=0.0)
        with pytest.raises(ValueError, match="ridge"):
            factor(H)


@pytest.mark.parametrize("kernel", HOMOGENEOUS.values(), ids=HOMOGENEOUS)
def test_multiples_of_a_row_end_at_their_weighted_mean(kernel):
    random = np.random.default_rng(4)
    unique = rows(random, 4)
    groups, factors = np.array([0, 1, 2, 3, 0, 0, 2]), np.array([1.0, 1.0, 1.0, 1.0, 2.0, 0.25, 3.0])
    y = random.standard_normal(len(groups))
    sums = np.bincount(groups, factors * y) / np.bincount(groups, factors**2)
    X = factors[:, None] * unique[groups]
    new, K = rows(random, 3), kernel(unique, unique)
    found = predict(gram(kernel, X, device="cpu"), y, kernel(new, X))
    truth = kernel(new, unique) @ np.linalg.solve(K, sums)
    assert not found.certified
    size = np.linalg.norm(kernel(new, unique)) * np.linalg.norm(np.linalg.solve(K, sums))
    assert np.max(np.abs(found.values - truth)) <= 16 * tolerance(K, len(y)) * size


def test_distinct_rows_that_are_singular():
    """Three antipodal pairs in the plane: the kernel has rank 5 of 6."""
    angles = np.array([0.1, 1.2, 2.3])
    half = np.column_stack([np.cos(angles), np.sin(angles)])
    X, y = np.vstack([half, -half]), np.array([1.0, -1.0, 1.0, 1.0, 1.0, -1.0])
    H = gram(TwoLayer(), X, device="cpu")
    assert np.linalg.matrix_rank(H.dense(), 1e-10) == 5
    found = predict(H, y, H.dense())
    assert not found.certified
    assert found.method == "minimum-norm least squares"
    assert np.allclose(found.values, H.dense() @ np.linalg.pinv(H.dense(), 1e-10) @ y, rtol=0, atol=1e-11)


def test_a_draw_of_last_pivots():
    """Whether a Cholesky factorisation breaks down on equal rows is chance; what is answered is not."""
    random = np.random.default_rng(5)
    for _ in range(60):
        X = rows(random, 20, 3)
        X, y = np.vstack([X, X[:1]]), np.append(np.ones(20), -1.0)
        H = gram(TwoLayer(), X, device="cpu")
        found = predict(H, y, H.dense())
        truth = np.append(np.append(0.0, np.ones(19)), 0.0)
        assert not found.certified
        assert np.max(np.abs(found.values - truth)) <= tolerance(TwoLayer()(X[:20], X[:20]), 21) * 21


def nearby(q, truth, slack):
    """What is said of yᵀH⁻¹y: not certified, and where there are sides they are of a nearby matrix and hold the truth there."""
    found = label_complexity(q)
    assert not found.certified
    assert found.sense == "of a nearby matrix"
    assert found.sense == found.per_output.sense
    assert "within" in found.reason
    lower, upper = (q.n / 2 * side**2 for side in (found.lower, found.upper))
    assert lower <= truth * (1 + slack)
    assert upper >= truth * (1 - slack)
    assert upper - lower <= 1e-6 * truth
    assert not label_complexity(op.quadrature(np.ones((2, 2)), [1.0, -1.0])).certified


@pytest.mark.parametrize("engine", ["dense", "matrix_free"])
def test_labels_in_the_range_have_the_bracket_of_a_nearby_matrix(engine):
    """Equal rows with equal labels, multiples with multiples of a label: yᵀH⁺y is that of the rows written once."""
    random = np.random.default_rng(7)
    for n in (2, 3, 7, 40):
        for multiples in (False, True):
            unique, groups, _ = repeated(random, n)
            factors = 2.0 ** random.integers(-2, 3, size=n) if multiples else np.ones(n)
            labels = random.choice([-1.0, 1.0], size=len(unique))
            X, y = factors[:, None] * unique[groups], factors * labels[groups]
            K = TwoLayer()(unique, unique)
            if len(set(groups)) == n:
                continue
            q = op.quadrature(gram(TwoLayer(), X, engine, device="cpu"), y, tol=1e-12)
            nearby(q, labels @ np.linalg.solve(K, labels), tolerance(K, n))
            other = y.copy()
            other[np.flatnonzero(groups == np.bincount(groups).argmax())[0]] *= -1  # equal rows, opposite labels
            found = label_complexity(op.quadrature(gram(TwoLayer(), X, engine, device="cpu"), other))
            assert not found.certified
            assert found.sense == "rounding included"
            assert not np.isfinite(found.upper)


def test_integers_in_the_range_of_a_singular_matrix():
    """H = BBᵀ and y = Hz in whole numbers: yᵀH⁺y = zᵀHz exactly. Antipodal pairs in the plane: the same with H of numbers."""
    random, seen = np.random.default_rng(8), 0
    for _ in range(60):
        n = int(random.integers(2, 41))
        B = random.integers(-3, 4, size=(n, int(random.integers(1, n)))).astype(float)
        H, z = B @ B.T, random.integers(-3, 4, size=n).astype(float)
        q = op.quadrature(H, H @ z, tol=1e-12) if (H @ z).any() else None
        found = label_complexity(q) if q is not None else None
        assert found is None or not found.certified
        if found is not None and found.sense == "of a nearby matrix":
            nearby(q, z @ H @ z, 1e-14)
            seen += 1
    assert seen > 40
    angles = np.array([0.1, 1.2, 2.3])
    half = np.column_stack([np.cos(angles), np.sin(angles)])
    H = gram(TwoLayer(), np.vstack([half, -half]), device="cpu").dense()
    z = np.array([1.0, 2.0, -1.0, 0.5, 0.25, 3.0])
    nearby(op.quadrature(H, H @ z, tol=1e-12), z @ H @ z, 1e-12)


@pytest.mark.parametrize("steps", [1, 50, 3000])
@pytest.mark.parametrize("name", ["two layers", "gaussian"])
def test_finite_steps_are_those_of_gradient_descent(name, steps):
    kernel, random = KERNELS[name], np.random.default_rng(6)
    unique, groups, y = repeated(random, 9)
    X, new = unique[groups], rows(random, 4)
    H, K_new = kernel(X, X), kernel(new, X)
    lr = 1 / np.linalg.eigvalsh(H)[-1]
    c = np.zeros(len(y))
    for _ in range(steps):
        c = c + lr * (y - H @ c)
    found = predict(gram(kernel, X, device="cpu"), y, K_new, steps, lr)
    # every step adds rounding of the size of H c to c, and H times it to the outputs
    room = (
        (steps + 100) * 4 * len(y) * np.finfo(float).eps * np.abs(K_new).sum(axis=1).max() * max(1.0, np.abs(c).max())
    )
    assert np.max(np.abs(found.values - K_new @ c)) <= room
    assert not found.certified


def test_very_many_steps_end_where_gradient_descent_does():
    random = np.random.default_rng(7)
    unique, groups, y = repeated(random, 9)
    X, new = unique[groups], rows(random, 4)
    H = gram(TwoLayer(), X, device="cpu")
    at_end, late = (predict(H, y, TwoLayer()(new, X), *how) for how in ((), (10**17, 0.01)))
    assert np.allclose(at_end.values, late.values, rtol=0, atol=1e-9)


def test_what_is_certified_is_right_and_well_conditioned_solves_are():
    random = np.random.default_rng(8)
    for n in (2, 5, 40):
        X, y = rows(random, n), random.choice([-1.0, 1.0], size=n)
        H = gram(TwoLayer(), X, device="cpu")
        found = predict(H, y, H.dense())
        assert found.certified
        assert found.change < 1e-8
        assert np.max(np.abs(found.values - y)) <= 4 * found.change * np.linalg.norm(H.dense()) * np.sqrt(n)
        assert leave_one_out(H, y, ridge=0.0).outputs.shape == y.shape
        known = factor(H, 0.0, least=np.linalg.eigvalsh(H.dense())[0] / 2)
        assert 0 < known.smallest <= factor(H).smallest * 1.1
        assert factor(H).smallest <= np.linalg.eigvalsh(H.dense())[0]


def test_a_ridge_is_certified_where_rows_repeat():
    random = np.random.default_rng(9)
    unique, groups, y = repeated(random, 12)
    H = gram(TwoLayer(), unique[groups], device="cpu")
    found = predict(H, y, H.dense(), ridge=0.1)
    assert found.certified
    assert np.allclose(found.values, H.dense() @ np.linalg.solve(H.dense() + 0.1 * np.eye(12), y), rtol=0, atol=1e-12)
    q = op.quadrature(H, y)
    assert label_complexity(q, ridge=0.1).sense == "rounding included"
    assert predict_loss(q, [10], 0.05).bracketed.sense == "rounding included"


def test_equal_rows_with_equal_labels_have_no_certified_inverse():
    random = np.random.default_rng(10)
    X = rows(random, 5, 3)
    H = gram(TwoLayer(), np.vstack([X, X[:1]]), device="cpu")
    q = op.quadrature(H, np.ones(6))
    # the group of two weighs double: y = 1 is fitted, and yᵀH⁺y = ȳᵀK⁻¹ȳ over the five rows
    truth = np.sqrt(2 / 6 * np.ones(5) @ np.linalg.solve(TwoLayer()(X, X), np.ones(5)))
    for ridge in (0.0, 1e-300, 1e-20):
        found = label_complexity(q, ridge=ridge)
        assert not found.certified
        assert "ridge" in found.reason
        assert found.value == pytest.approx(truth, rel=1e-9)
        assert found.lower <= truth
    assert not label_complexity(op.quadrature(H, [1.0, 1, 1, 1, 1, -1])).certified
    assert q.bracket(Inverse(0.5)).certified


def test_rows_that_rounding_cannot_tell_apart_are_not_certified_by_a_ridge_that_is_none():
    """Two numbers 1e-13 apart: the form is 7.7e8 in sixty digits, and 4e4 of the matrix that rounding leaves."""
    x = np.array([[0.345584192064786], [0.3455841920648682], [0.33043707618338714]])
    q = op.quadrature(gram(Gaussian(1.5), x, "matrix_free", device="cpu"), [1.0, 1.0, -1.0])
    for ridge in (1e-300, 1e-22, 1e-18):
        assert not label_complexity(q, ridge=ridge).certified
    assert label_complexity(q, ridge=1e-3).certified


def test_labels_in_the_null_space_are_never_learned():
    q = op.quadrature(np.ones((2, 2)), [1.0, -1.0])
    assert np.allclose(predict_loss(q, [0, 10, 10**6], 0.5).values, 1.0, rtol=1e-8)  # 10⁶ steps of rounding each
    for rate in (max_learning_rate(q), best_learning_rate(q)):
        assert 0 < rate.value < np.inf
        assert rate.upper == np.inf
        assert rate.reason
        assert rate.lower <= 1.0  # λ_max = 2
    assert steps_to_loss(q).status == "out of range"
    assert predict_movement(q, [5], 0.5).values[0] == pytest.approx(0.0, abs=1e-7)
    assert np.allclose(dual_coefficients(np.ones((2, 2)), [1.0, -1.0]).values, 0.0)
    nothing = op.quadrature(np.zeros((2, 2)), [1.0, -1.0])
    assert max_learning_rate(nothing).lower == np.inf  # no rate moves anything


LATE = [10**k for k in range(3, 19, 3)]


@pytest.mark.parametrize("kernel", [TwoLayer(), Laplace(1.5)], ids=["two layers", "laplace"])
def test_after_ever_so_many_steps_null_directions_have_not_moved(kernel):
    """The loss that is left is that of the null space; brackets hold at every number of steps, however large."""
    random = np.random.default_rng(12)
    for n in (3, 8):
        unique, groups, y = repeated(random, n)
        X = unique[groups]
        q = op.quadrature(gram(kernel, X, device="cpu"), y)
        values, vectors = np.linalg.eigh(kernel(unique, unique) * np.sqrt(np.outer(*[np.bincount(groups)] * 2)))
        weights = np.sqrt(np.bincount(groups))
        means = np.bincount(groups, y) / np.bincount(groups)
        left = 0.5 * np.sum((y - means[groups]) ** 2)
        rate = 0.3 / values[-1]
        parts = vectors.T @ (weights * means)
        shrunk = [np.array([(1 - rate * values) ** (2 * s) for s in LATE]), np.exp(-2 * rate * np.outer(LATE, values))]
        for found, shares in zip(
            (predict_loss(q, LATE, rate), predict_loss_flow(q, np.array(LATE) * rate)), shrunk, strict=True
        ):
            truth = left + 0.5 * shares @ parts**2
            assert np.all(found.lower <= truth * (1 + 1e-9) + 1e-12)
            assert np.all(truth <= found.upper * (1 + 1e-9) + 1e-12)
            assert np.all(found.upper <= 0.5 * np.sum(y**2) * (1 + 1e-6))
        far = np.sqrt([np.sum((1 - (1 - rate * values) ** s) ** 2 / values * parts**2) for s in LATE])
        moved = predict_movement(q, LATE, rate)
        assert np.all(moved.lower <= far * (1 + 1e-9) + 1e-9)
        assert np.all(far <= moved.upper * (1 + 1e-9) + 1e-9)
        end = np.sqrt(np.sum(parts**2 / values))
        assert moved.limit.value == pytest.approx(end, rel=1e-6)
        assert moved.values[-1] == pytest.approx(end, rel=1e-6)


def test_a_matrix_of_zeros_moves_nothing():
    q = op.quadrature(np.zeros((2, 2)), [1.0, 1.0])
    assert predict_movement(q, 3, 0.5).value == 0
    assert laziness(q, 3, 0.5, width=10, kappa=1.0).value == 0
    assert steps_to_loss(q, 0.5).status == "out of range"


@pytest.mark.parametrize("share", [0.5, 1.0, 1.3, 1.9])
def test_the_movement_is_bracketed_at_every_stable_rate(share):
    random = np.random.default_rng(11)
    X, y = rows(random, 30, 5), random.choice([-1.0, 1.0], size=30)
    H = gram(TwoLayer(), X, device="cpu")
    values, vectors = np.linalg.eigh(H.dense())
    q = op.quadrature(H, y, max_products=8)  # so that late steps are beyond the products
    rate = share / values[-1]
    for steps in (0, 1, 7, 100, 10**6):
        truth = np.sqrt(np.sum((1 - (1 - rate * values) ** steps) ** 2 / values * (vectors.T @ y) ** 2))
        found = laziness(q, steps, rate, width=100, kappa=1.0)
        assert found.certified
        assert found.lower * 10 <= truth * (1 + 1e-10)
        assert truth <= found.upper * 10 * (1 + 1e-10)


def test_coupled_outputs_refuse_no_ridge_where_rows_repeat():
    import jax.numpy as jnp

    from overparam.kernels import Empirical

    kernel = Empirical(lambda w, x: jnp.stack([x @ w, x @ w**2], axis=1), np.array([1.0, 2.0]))
    X = np.array([[1.0, 0.5], [0.2, 1.0], [1.0, 0.5]])
    with pytest.raises(ValueError, match="singular"):
        coupled_regression(kernel, X, np.ones((3, 2)), X, ridges=[0.0])
