"""The laws of the start against explicit matrices on tiny networks, and planted violations."""

from dataclasses import replace
from itertools import combinations

import jax
import numpy as np
import pytest
from away_cases import TINY, subject_of, unit_rows

from overparam.audits.convergence_7_initialisation import (
    FAILURE,
    allowed_logs,
    backward_norms,
    forward_norms,
    products_of_layers,
    separation_in_layers,
    smallest_across,
)
from overparam.audits.convergence_9_10_gradients import gradients_at_start
from overparam.audits.subject import EFFORTS, Effort, Subject
from overparam.data.duplicates import smallest_distance
from overparam.networks import FullyConnected

EXACT = Effort("thorough", 99, 50, 40, 4, 8, 3, 3, 100)
M, DEPTH, K, N, D = 8, 4, 2, 5, 3
NET = FullyConnected(width=M, depth=DEPTH, outputs=K)


def rows(n=N, d=D, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def made_subject(net, X, change=None, effort=EXACT, key=0):
    with jax.enable_x64(True):
        params = net.init(key, X.shape[1])
        params = params if change is None else change(params)
        params = jax.tree.map(np.asarray, params)
    y = np.random.default_rng(1).standard_normal((len(X), net.outputs))
    return Subject(net, params, X, y, (0.1,), effort=effort, architecture="fully connected")


@pytest.fixture(scope="module")
def subject():
    return made_subject(NET, rows())


@pytest.fixture(scope="module")
def matrices(subject):
    """A, W1 … WL, B, and for every sample the products between layers and the activations, by NumPy alone."""
    params = subject.params
    A, B = np.asarray(params.fixed["A"]), np.asarray(params.fixed["B"])
    W = [np.asarray(params.trained[f"W{l}"]) for l in range(1, DEPTH)]
    h, D0 = [], []
    for x in subject.X:
        own, signs = [np.maximum(A @ x, 0)], [np.diag((A @ x >= 0) * 1.0)]
        for matrix in W:
            g = matrix @ own[-1]
            own.append(np.maximum(g, 0))
            signs.append(np.diag((g >= 0) * 1.0))
        h.append(own)
        D0.append(signs)
    return A, W, B, h, D0


def product(matrices, i, a, b):
    """W_b D_{b−1} … D_a W_a of sample i."""
    _, W, _, _, D0 = matrices
    found = W[a - 1]
    for layer in range(a + 1, b + 1):
        found = W[layer - 1] @ D0[i][layer - 1] @ found
    return found


def back(matrices, i, a):
    """B D_L W_L … D_a W_a of sample i."""
    _, _, B, _, D0 = matrices
    L = DEPTH - 1
    if a == L + 1:
        return B
    return B @ D0[i][L] @ product(matrices, i, a, L)


def test_products_of_layers_against_dense_matrices_and_all_sparse_vectors(subject, matrices):
    whole, inner, outer, both = products_of_layers(subject, sparsity=1.0)
    pairs = list(zip(whole.detail["a"], whole.detail["b"], strict=True))
    assert pairs == [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)]
    dense = [max(np.linalg.norm(product(matrices, i, a, b), 2) for i in range(N)) for a, b in pairs]
    assert whole.detail["by pair"] == pytest.approx(dense, rel=1e-8)
    assert whole.constant == pytest.approx(max(dense) / (DEPTH - 1) ** 0.5)
    few = list(zip(inner.detail["a"], inner.detail["b"], strict=True))
    for place, s in enumerate(inner.detail["sparsity"].astype(int)):
        columns = [
            np.linalg.norm(product(matrices, i, a, b)[:, list(where)], 2)
            for a, b in few for i in range(N) for where in combinations(range(M), s)
        ]  # fmt: skip
        lines = [
            np.linalg.norm(product(matrices, i, a, b)[list(where)], 2)
            for a, b in few for i in range(N) for where in combinations(range(M), s)
        ]  # fmt: skip
        found = inner.detail["all sizes"][place]
        assert found <= max(columns) * (1 + 1e-9)  # never more than there is
        assert found > 0.9 * max(columns)  # and nearly all of it
        assert 0.9 * max(lines) < outer.values[place] <= max(lines) * (1 + 1e-9)
        forms = [
            np.linalg.norm(product(matrices, i, a, b)[np.ix_(list(r), list(c))], 2)
            for a, b in few for i in range(N)
            for r in combinations(range(M), s) for c in combinations(range(M), s)
        ]  # fmt: skip
        assert 0.8 * max(forms) < both.values[place] <= max(forms) * (1 + 1e-9)


def test_backward_norms_against_dense_matrices_and_all_sparse_vectors(subject, matrices):
    sparse, whole = backward_norms(subject, sparsity=2.0)
    dense = [max(np.linalg.norm(back(matrices, i, a), 2) for i in range(N)) for a in range(1, DEPTH + 1)]
    assert whole.detail["by layer"] == pytest.approx(dense, rel=1e-10)
    assert whole.values == pytest.approx([max(dense[:-1])])
    assert whole.constant == pytest.approx(max(dense[:-1]) / (M / K) ** 0.5)
    for place, s in enumerate(sparse.detail["sparsity"].astype(int)):
        best = max(
            np.linalg.norm(back(matrices, i, a)[:, list(where)], 2)
            for a in range(1, DEPTH + 1) for i in range(N) for where in combinations(range(M), s)
        )  # fmt: skip
        assert 0.9 * best < sparse.values[place] <= best * (1 + 1e-9)


def test_separation_against_projections(subject, matrices):
    h = matrices[3]
    smallest = [
        min(
            np.linalg.norm((np.eye(M) - np.outer(h[i][l], h[i][l]) / (h[i][l] @ h[i][l])) @ h[j][l])
            for i in range(N) for j in range(N) if i != j and h[i][l].any()
        )
        for l in range(DEPTH)
    ]  # fmt: skip
    (found,) = separation_in_layers(subject, C=2.0)
    assert found.detail["by layer"] == pytest.approx(smallest, rel=1e-7)
    delta = min(smallest_distance(subject.X), 1 / (2 * (DEPTH - 1)))
    assert found.constant == pytest.approx(min(smallest) / (delta / 2))
    many = np.random.default_rng(0).standard_normal((600, 4))  # several panels
    gram = many @ many.T
    rest = np.diag(gram)[None, :] - gram**2 / np.diag(gram)[:, None]
    assert smallest_across(many) == pytest.approx(np.sqrt(rest[~np.eye(600, dtype=bool)].min()), rel=1e-6)


def test_gradients_of_fixed_loss_vectors_against_the_formula(subject, matrices):
    _, _, _, h, D0 = matrices
    each, whole, last = gradients_at_start(subject)
    v = subject.rng(4).standard_normal((N, K)) / K**0.5

    def gradient(i, l, own):
        return np.outer(D0[i][l] @ back(matrices, i, l + 1).T @ own, h[i][l - 1])

    sizes = [np.sum(sum(gradient(i, l, v[i]) for i in range(N)) ** 2) for l in range(1, DEPTH)]
    assert whole.detail["by weight"] == pytest.approx(sizes, rel=1e-9)
    assert last.values == pytest.approx([sizes[-1]])
    delta = smallest_distance(subject.X)
    assert last.bounds == pytest.approx([(v**2).sum(axis=1).max() * min(delta, 1) * M / (K * N)])
    single = [max(np.sum(gradient(i, l, v[i]) ** 2) for l in range(1, DEPTH)) / (v[i] @ v[i]) for i in range(N)]
    assert each.detail["by sample"] == pytest.approx(single, rel=1e-9)


def test_forward_norms_have_the_standard_deviation_of_the_lemma():
    """Norms over many draws: the spread the bound is made of, and no more failures than it allows."""
    m, depth, draws = 48, 3, 150
    net, X = FullyConnected(width=m, depth=depth), rows(2)
    norms, verdicts = [], []
    for key in range(draws):
        (found,) = forward_norms(made_subject(net, X, key=key))
        verdicts.append(found.verdict)
        norms.append(found.detail["smallest norm by layer"] if key % 2 else found.detail["largest norm by layer"])
    told = found.detail["one standard deviation by layer"]
    assert told == pytest.approx(np.sqrt(5 * np.arange(1, depth + 1) / (4 * m)))
    # The largest and the smallest of two samples in turn have together the spread of one sample, up to their correlation.
    spread = np.std(norms, axis=0)
    assert spread == pytest.approx(told, rel=5 / np.sqrt(2 * draws))
    assert verdicts.count("holds") >= draws - 4  # allowed to fail with probability 0.01


def scaled(factor):
    return lambda params: replace(params, trained={name: factor * W for name, W in params.trained.items()})


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "holds"), (2.0, "fails"), (0.5, "fails")])
def test_a_network_of_another_scale_fails_forward_norms(factor, verdict):
    net = FullyConnected(width=100, depth=4)
    (found,) = forward_norms(made_subject(net, rows(4), scaled(factor)))
    assert found.verdict == verdict


def test_a_network_of_another_scale_fails_products_and_backward_norms():
    net, X = FullyConnected(width=60, depth=4), rows(3)
    quick = EFFORTS["quick"]
    for factor, verdict in ((1.0, "holds with constant"), (4.0, "fails")):
        subject = made_subject(net, X, scaled(factor), quick)
        assert products_of_layers(subject)[0].verdict == verdict
        assert backward_norms(subject)[1].verdict == verdict


def test_layers_of_rank_one_lose_the_separation():
    def flat(params):
        W = np.outer(np.ones(30), np.abs(np.random.default_rng(0).standard_normal(30))) / 30
        return replace(params, trained=dict.fromkeys(params.trained, W))

    (found,) = separation_in_layers(made_subject(FullyConnected(width=30, depth=3), rows(4), flat))
    assert found.detail["by layer"][0] > 0.1
    assert found.detail["by layer"][1:].max() < 1e-6
    assert found.verdict == "out of range"  # m ≥ L log(nL)/δ⁶ is never met


def test_equal_rows_and_one_row_are_said():
    twice = np.vstack([rows(3), rows(3)[:1]])
    assert smallest_distance(twice) == 0
    subject = made_subject(FullyConnected(width=10, depth=3), twice)
    assert separation_in_layers(subject)[0].verdict == "not measured"
    assert gradients_at_start(subject)[2].verdict == "not measured"
    one = made_subject(FullyConnected(width=10, depth=3), rows(1))
    assert "one sample" in separation_in_layers(one)[0].words


def test_rows_that_are_not_unit_are_named_and_leave_norms_to_ratios():
    net, X = FullyConnected(width=100, depth=3), rows(4)
    (unit,), (long,) = forward_norms(made_subject(net, X)), forward_norms(made_subject(net, 3 * X))
    assert long.constant == pytest.approx(unit.constant)
    assert [c.status for c in long.range] == ["met", "unmet"]
    assert [c.status for c in unit.range] == ["met", "met"]


def test_conditions_count_the_rows_that_were_looked_at():
    subject = subject_of(FullyConnected(width=256, depth=3), unit_rows(200, 5), effort=replace(TINY, rows=8))
    for finding in (products_of_layers(subject)[0], backward_norms(subject)[1]):
        assert "8 of 200 rows" in finding.words
        (wide,) = [c for c in finding.range if "nL log(nL)" in c.statement]
        assert wide.status == "met"  # 8 · 2 · log 16 = 44


def test_vectors_of_one_entry_are_not_all_sparse_vectors():
    base = subject_of(FullyConnected(width=256, depth=2), unit_rows(4, 5), effort=replace(TINY, rows=4))
    params = replace(base.params, trained={name: 1.2 * W for name, W in base.params.trained.items()})
    subject = replace(
        base,
        params=params,
        architecture="fully connected",  # weights of a model of another kind would be said to be of another variance
        _kept={},
        _shared={},
    )
    sparse = products_of_layers(subject)[1]
    sizes, gains = sparse.detail["sparsity"], sparse.detail["all sizes"]
    assert gains[0] < 2 < gains[sizes * 10 >= sizes[-1]].min()
    assert sparse.verdict == "fails"


@pytest.mark.parametrize(("m", "depth", "samples"), [(16, 3, 40), (48, 3, 40), (48, 17, 40), (512, 5, 200)])
def test_norms_of_the_papers_own_network_break_their_limits_as_seldom_as_they_say(m, depth, samples):
    """‖h_ℓ‖²/‖h_{ℓ−1}‖² drawn as 2χ²/m of Binomial(m, ½) degrees, samples independent, which is the worst that they can be."""
    rng, runs = np.random.default_rng(0), 1000
    low, high = allowed_logs((m,) * depth, samples)
    ratios = 2 * rng.chisquare(np.maximum(rng.binomial(m, 0.5, (runs, samples, depth)), 1e-9)) / m
    logs = 0.5 * np.cumsum(np.log(np.maximum(ratios, 1e-300)), axis=2)
    share = ((logs < -low) | (logs > high)).any(axis=(1, 2)).mean()
    assert share <= FAILURE + 3 * np.sqrt(FAILURE / runs)
    z, spread = np.sqrt(2 * np.log(2 * samples * depth / FAILURE)), np.sqrt(5 * np.arange(1, depth + 1) / (4 * m))
    if m > 100:
        np.testing.assert_allclose(low, z * spread, rtol=0.25)
        np.testing.assert_allclose(high, z * spread, rtol=0.25)


def test_weights_that_are_not_trained_have_no_gradient_from_below():
    torch = pytest.importorskip("torch")
    import overparam as op

    module = torch.nn.Sequential(*(layer for i in (5, 20, 20) for layer in (torch.nn.Linear(i, 20), torch.nn.ReLU())))
    module.append(torch.nn.Linear(20, 1))
    module[4].requires_grad_(False)
    X = unit_rows(8, 5)
    found = op.audit(
        op.from_torch(module, torch.zeros(1, 5)), (X, np.sign(X[:, 0])), laws="gradients at the start", effort="quick"
    )
    (last,) = found.find("gradient from below, fixed loss vectors")
    assert last.verdict == "not measured"
