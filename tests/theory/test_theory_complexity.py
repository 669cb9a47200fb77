"""Complexity of true, random and worst labels, alignment and effective dimension against LAPACK."""

import numpy as np
import pytest
from theory_cases import NAMES, case

import overparam as op
from overparam.engines import gram
from overparam.kernels import TwoLayer
from overparam.spectrum import quadrature
from overparam.theory import (
    effective_dimension,
    kernel_target_alignment,
    label_complexity,
    predict_loss,
    random_label_complexity,
    worst_case_labels,
)


@pytest.mark.parametrize("name", NAMES)
def test_complexity_raw_and_ridged(name):
    c = case(name)
    q = quadrature(gram(TwoLayer(), c.X, device="cpu"), c.y, tol=1e-9)
    ridge = 0.1 * np.mean(np.diag(c.H))
    found = label_complexity(q, ridge)
    exact = np.sqrt(2 * c.form(ridge) / c.n)
    assert found.certified
    assert found.lower <= exact * (1 + 1e-12)
    assert exact <= found.upper * (1 + 1e-12)
    assert found.value == pytest.approx(exact, rel=1e-8)
    each = np.sqrt(2 / c.n * np.sum((c.V.T @ c.Y) ** 2 / (c.lam + ridge)[:, None], axis=0))
    assert np.allclose(found.per_output.value, each, rtol=1e-8)
    raw = label_complexity(q)
    if c.lam[0] > 1e-10 * c.lam[-1]:
        exact = np.sqrt(2 * c.form(0.0) / c.n)
        assert raw.certified
        assert raw.lower <= exact * (1 + 1e-9)
        assert exact <= raw.upper * (1 + 1e-9)
        assert raw.upper - raw.lower <= 1e-4 * exact
    else:
        assert not raw.certified
        assert np.isinf(raw.upper)
        assert "ridge" in raw.reason
        assert raw.assumptions[0].status == "not checked"


@pytest.mark.parametrize("name", ["digits", "sphere", "ten rows"])
def test_worst_labels_are_the_most_complex_and_slowest(name):
    c = case(name)
    worst = worst_case_labels(c.H)
    assert np.linalg.norm(worst) == pytest.approx(np.sqrt(c.n))
    assert worst @ c.H @ worst / c.n == pytest.approx(c.lam[0], rel=1e-8)
    top = label_complexity(quadrature(c.H, worst))
    assert top.value == pytest.approx(np.sqrt(2 / c.lam[0]), rel=1e-6)
    labels = np.random.default_rng(0).choice([-1.0, 1.0], (c.n, 20))
    each = label_complexity(quadrature(c.H, labels)).per_output.value
    assert np.all(each <= top.value)
    lr = 2 / (c.lam[-1] + c.lam[0])
    slow = predict_loss(quadrature(c.H, worst), [100], lr).values
    assert np.all(predict_loss(quadrature(c.H, labels), [100], lr).per_output.value <= slow * (1 + 1e-9))


def test_random_labels_have_the_mean_the_trace_says():
    c = case("sphere")
    draws = 200
    found = random_label_complexity(c.H, draws, key=0)
    squares = found.values**2
    expected = 2 / c.n * np.sum(1 / c.lam)  # E yᵀH⁻¹y = tr H⁻¹
    assert abs(squares.mean() - expected) < 4 * squares.std(ddof=1) / np.sqrt(draws)
    assert found.certified
    assert np.all(found.lower <= found.values)
    assert np.all(found.values <= found.upper)
    assert found.spread == pytest.approx(found.values.std(ddof=1))
    assert found.kind == "fair signs"
    again = random_label_complexity(c.H, draws, key=0)
    assert np.array_equal(found.values, again.values)
    assert not np.array_equal(found.values, random_label_complexity(c.H, draws, key=1).values)


def test_random_labels_imitate_the_labels():
    c = case("digits ten classes")
    found = random_label_complexity(c.H, 4, key=0, like=c.y, ridge=0.05)
    assert found.kind == "uniform among 10 classes"
    assert found.mean > label_complexity(quadrature(c.H, c.y), 0.05).value
    d = case("diabetes")
    assert random_label_complexity(d.H, 3, key=0, like=d.y).kind == "the labels shuffled"
    one = random_label_complexity(d.H, 3, key=0, like=d.y, ridge=0.1)
    with_numpy = [
        np.sqrt(2 / d.n * y @ np.linalg.solve(d.H + 0.1 * np.eye(d.n), y))
        for random in [np.random.default_rng([0])]
        for y in [d.y[random.permutation(d.n)] for _ in range(3)]
    ]
    assert np.allclose(one.values, with_numpy, rtol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_alignment_is_the_cosine_of_two_matrices(name):
    c = case(name)
    found = kernel_target_alignment(c.H, c.y)
    T = c.Y @ c.Y.T
    C = np.eye(c.n) - 1 / c.n

    def cosine(A, B):
        return np.sum(A * B) / np.linalg.norm(A) / np.linalg.norm(B)

    assert found.value == pytest.approx(cosine(c.H, T), rel=1e-10)
    assert found.centred == pytest.approx(cosine(C @ c.H @ C, C @ T @ C), rel=1e-8)


def test_alignment_of_constants_has_no_centred_part():
    assert kernel_target_alignment(np.eye(3), [1.0, 1.0, 1.0]).centred is None


@pytest.mark.parametrize("name", ["digits", "iris", "sphere"])
def test_effective_dimension(name):
    c = case(name)
    for ridge in (1e-3, 0.1, 10.0):
        exact = float(np.sum(np.maximum(c.lam, 0) / (np.maximum(c.lam, 0) + ridge)))
        found = effective_dimension(c.H, ridge)
        assert found.value == pytest.approx(exact, rel=1e-9)
        assert found.lower <= exact <= found.upper
        assert found.standard_error == 0
        drawn = effective_dimension(c.H, ridge, exact=False, probes=64, key=1)
        assert abs(drawn.value - exact) < 4.5 * drawn.standard_error + 1e-6
        assert found.certified
        assert not drawn.certified  # its sides are of the mean over the draws
        assert "64 random sign vectors" in drawn.bracketed.reason
    signs = np.random.default_rng(2).choice([-1.0, 1.0], (c.n, 8))
    q = quadrature(c.H, signs)
    again = effective_dimension(q, 0.1)
    exact = n_minus = c.n - 0.1 * np.mean([z @ np.linalg.solve(c.H + 0.1 * np.eye(c.n), z) for z in signs.T])
    assert again.lower - 1e-9 <= n_minus <= again.upper + 1e-9
    assert again.value == pytest.approx(exact, rel=1e-5)


def test_effective_dimension_of_a_singular_matrix_of_numbers_holds():
    """Its zero eigenvalues come out at rounding level: a small ridge would count them."""
    rng = np.random.default_rng(0)
    for exponent in range(-16, 1):
        B = rng.integers(-4, 5, (12, 4)).astype(float)
        ridge = 10.0**exponent
        true = 4 - ridge * np.trace(np.linalg.inv(B.T @ B + ridge * np.eye(4)))  # of the rank, which is 4
        assert np.linalg.matrix_rank(B) == 4
        found = effective_dimension(B @ B.T, ridge)
        assert found.lower <= true * (1 + 1e-15)
        assert found.upper >= true * (1 - 1e-15)
        assert found.upper - found.lower < max(1e-6, 8 * min(1.0, 1e-11 / ridge))


@pytest.mark.parametrize(
    "call",
    [
        lambda: label_complexity(quadrature(np.eye(2), [1.0, 1.0]), -1.0),
        lambda: random_label_complexity(np.eye(3), 1, key=0),
        lambda: effective_dimension(np.eye(3), 0.0),
        lambda: effective_dimension(quadrature(np.eye(3), [1.0, 2.0, 3.0]), 1.0),
    ],
)
def test_wrong_arguments_are_named(call):
    with pytest.raises(ValueError, match=r"expected|needs"):
        call()


def test_a_solution_gives_the_complexity_of_its_ridge() -> None:
    rng = np.random.default_rng(5)
    H, y = op.gram(op.kernels.TwoLayer(), rng.standard_normal((40, 4)), device="cpu"), rng.standard_normal((40, 2))
    solved = op.solve(H, y, 0.1)
    found, swept = op.label_complexity(solved), op.label_complexity(op.quadrature(H, y, ridge=0.1), 0.1)
    assert found.certified
    assert found.lower <= swept.upper
    assert swept.lower <= found.upper
    assert found.value == pytest.approx(np.sqrt(2 * np.sum(y * solved.values) / 40), rel=1e-9)
    assert np.shape(found.per_output.value) == (2,)
    with pytest.raises(ValueError, match="leave it out, or solve again"):
        op.label_complexity(solved, 0.2)
