"""Groups left out against refits that are really without them."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict

from overparam.engines import gram
from overparam.kernels import Laplace
from overparam.spectrum import Factor, leave_groups_out, leave_one_out, left_out_groups

RNG = np.random.default_rng(0)
FEW = RNG.standard_normal((14, 3))
COPIES = np.array([0, 0, 0, 1, 1, 2, *range(2, 14), 5, 5])
X = FEW[COPIES]
N = len(X)
Y = {"one": X[:, 0] + RNG.standard_normal(N), "several": RNG.standard_normal((N, 3))}
GROUPS = {
    "copies": COPIES,
    "alone": np.arange(N),
    "mixed": np.arange(N) % 6,  # copies of a row in several groups
    "uneven": np.where(np.arange(N) < 9, 0, np.arange(N)),
}
KERNEL = Laplace(2.0)
EPS = np.finfo(float).eps


def refits(y, groups, ridge):
    """Without each group, equal rows that remain as one row with a weight, so that small ridges are exact too."""
    outputs = np.empty_like(y)
    for group in np.unique(groups):
        out = groups == group
        kept, of = np.unique(COPIES[~out], return_inverse=True)
        weights = np.bincount(of)
        means = np.stack([y[~out][of == i].mean(axis=0) for i in range(len(kept))])
        solved = np.linalg.solve(KERNEL(FEW[kept]) + np.diag(ridge / weights), means)
        outputs[out] = KERNEL(X[out], FEW[kept]) @ solved
    return outputs


@pytest.mark.parametrize("kind", list(Y))
@pytest.mark.parametrize("how", list(GROUPS))
@pytest.mark.parametrize("path", ["eigen", "factor", "numbers"])
def test_is_the_refit_without_each_group(kind, how, path, monkeypatch):
    monkeypatch.setattr(left_out_groups, "EIGEN_ROWS", 0 if path == "factor" else 4_000)
    H = KERNEL(X) if path == "numbers" else gram(KERNEL, X, "dense", device="cpu")
    condition = np.linalg.cond(KERNEL(FEW))
    for ridge in (0.5, 1e-3, 1e-9, 1e-13):
        found = leave_groups_out(H, Y[kind], GROUPS[how], ridge)
        allowed = 100 * N * EPS * condition * np.abs(Y[kind]).max()  # of solves with the matrix of distinct rows
        np.testing.assert_allclose(found, refits(Y[kind], GROUPS[how], ridge), rtol=0, atol=allowed)


def test_is_what_scikit_learn_predicts():
    ridge, groups = 0.05, GROUPS["mixed"]
    model = KernelRidge(kernel="precomputed").set_params(alpha=ridge)
    expected = np.asarray(cross_val_predict(model, KERNEL(X), Y["several"], groups=groups, cv=LeaveOneGroupOut()))
    found = leave_groups_out(KERNEL(X), Y["several"], groups, ridge)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e3 * N * EPS * 10 / ridge)


def test_alone_is_leave_one_out():
    distinct = KERNEL(FEW)
    found = leave_groups_out(distinct, Y["one"][:14], [f"row {i}" for i in range(14)], 0.1)
    np.testing.assert_allclose(found, leave_one_out(distinct, Y["one"][:14], 0.1).outputs, rtol=1e-11, atol=1e-12)


def test_jittered_copies_lose_no_more_than_is_stated():
    """Rows 1e-7 apart leave together at the least ridge that is tried."""
    near = np.concatenate([FEW, FEW + 1e-7 * RNG.standard_normal(FEW.shape)])
    y, K, ridge = RNG.standard_normal(28), KERNEL(near), 1e-6
    groups = np.arange(28) % 14
    expected = np.empty(28)
    for group in range(14):
        out = groups == group
        expected[out] = K[np.ix_(out, ~out)] @ np.linalg.solve(K[np.ix_(~out, ~out)] + ridge * np.eye(26), y[~out])
    largest = np.linalg.eigvalsh(K)[-1]
    np.testing.assert_allclose(leave_groups_out(K, y, groups, ridge), expected, atol=28 * EPS * largest / ridge * 10)


@pytest.mark.parametrize("ways", ["eigen", "factor"])
def test_equal_rows_leave_a_singular_matrix_of_distinct_rows(ways, monkeypatch):
    """Opposite rows of a linear kernel: no ridge, no fit."""
    monkeypatch.setattr(left_out_groups, "EIGEN_ROWS", 0 if ways == "factor" else 4_000)
    with pytest.raises(ValueError, match="not positive definite"):
        leave_groups_out([[1.0, -1.0], [-1.0, 1.0]], [1.0, 0.0], [0, 1], 0.0)


@pytest.mark.parametrize(
    ("groups", "ridge", "said"),
    [([0, 1], 1.0, r"`groups` has shape \(2,\)"), ([3, 3, 3], 1.0, "one group"), ([0, 1, 2], -1.0, "`ridge`")],
)
def test_bad_input_is_said(groups, ridge, said):
    with pytest.raises(ValueError, match=said):
        leave_groups_out(np.eye(3), np.ones(3), groups, ridge)


def test_on_a_device_columns_of_the_inverse_are_made(monkeypatch):
    """A factor there solves and has the diagonal of the inverse, no more: here the host's stands for it."""
    y, groups = RNG.standard_normal((14, 2)), np.array([0, 0, 0, 1, 1, 2, 2, *range(3, 10)])
    H = gram(KERNEL, FEW, "dense", device="cpu")
    expected = leave_groups_out(H, y, groups, 1e-3)
    made = Factor(np.asfortranarray(np.linalg.cholesky(KERNEL(FEW) + 1e-3 * np.eye(14))), 1e-3)
    monkeypatch.setattr(left_out_groups, "EIGEN_ROWS", 0)
    monkeypatch.setattr(left_out_groups, "factor", lambda H, ridge: made)
    monkeypatch.setattr(type(H), "xp", property(lambda _: None))
    allowed = 100 * 14 * EPS * np.linalg.cond(KERNEL(FEW)) * np.abs(y).max()
    np.testing.assert_allclose(leave_groups_out(H, y, groups, 1e-3), expected, rtol=0, atol=allowed)


@pytest.mark.parametrize("how", ["alone", "uneven"])
def test_blocks_gone_are_refits_without_them(how):
    groups, y, ridge = np.unique(GROUPS[how], return_inverse=True)[1], Y["several"], 1e-3
    blocks = groups % 4
    seen = 0
    for kept, found in left_out_groups.left_out_without(KERNEL(X), y, groups, ridge, blocks):
        assert len(set(blocks[np.setdiff1d(np.arange(N), kept)])) == 1
        expected = leave_groups_out(KERNEL(X[kept]), y[kept], groups[kept], ridge)
        np.testing.assert_allclose(found, expected, rtol=0, atol=100 * N * EPS * 10 / ridge * np.abs(y).max())
        seen += 1
    assert seen == 4
