"""The bound before training, the certificate after it, and what the theorems ask, against formulas written out here."""

from dataclasses import replace

import numpy as np
import pytest
from theory_cases import case

from overparam.engines import gram
from overparam.kernels import TwoLayer
from overparam.spectrum import quadrature
from overparam.theory import (
    Assumption,
    certificate,
    convergence_conditions,
    deep_conditions,
    generalization_bound,
    generalization_conditions,
    movement_limit,
    residual_conditions,
    trajectory_conditions,
)


def test_every_term_of_the_bound():
    c = case("digits")
    q = quadrature(gram(TwoLayer(), c.X, device="cpu"), c.y, tol=1e-8)
    bound = generalization_bound(q, delta=0.03, lambda_min=0.01)
    form, n = c.y @ np.linalg.solve(c.H, c.y), c.n
    grid = int(np.ceil(np.sqrt(n / 0.01))) + 1
    written = [
        1 / np.sqrt(n),
        np.sqrt(2 * form / n),
        2 / np.sqrt(2 * n),
        3 * np.sqrt(np.log(2 * grid / 0.01) / (2 * n)),
    ]
    assert np.allclose([term.value for term in bound.terms], written, rtol=1e-6)
    assert bound.total == pytest.approx(sum(written), rel=1e-6)
    assert bound.total >= sum(written) * (1 - 1e-12)  # from the upper side of the bracket
    assert bound.grid == grid
    assert bound.certified
    assert bound.vacuous == (bound.total >= 1)
    assert "κ" in bound.note
    status = {a.statement: a.status for a in bound.assumptions}
    assert status["λ_0 > 0"] == "met"
    assert status["one output"] == "met"
    assert status["rows have norm 1"] == "not checked"
    known = generalization_bound(q, unit_rows=True, labels_bounded=False).assumptions
    assert {a.statement: a.status for a in known}["labels lie in [−1, 1]"] == "unmet"


def test_finite_width_terms_vanish_with_width():
    c = case("digits")
    q = quadrature(c.H, c.y)
    plain = generalization_bound(q)
    some, more = (generalization_bound(q, width=m, kappa=1e-3) for m in (10**6, 10**40))
    assert some.total > more.total > plain.total
    assert more.total == pytest.approx(plain.total, rel=1e-3)
    R = c.n / np.sqrt(10**6 * 0.05) / q.bounds.lower
    assert some.terms[-2].value == pytest.approx(2 * 2 * R**2 * 1e3 / 1e-3)


def test_outputs_are_bounded_each_with_a_share_of_delta():
    c = case("digits ten classes")
    q = quadrature(c.H, c.y)
    bound = generalization_bound(q, delta=0.1)
    assert bound.terms[1].formula == "√(2 yᵣᵀH⁻¹yᵣ/n), the largest of one output r"  # not that of all together
    alone = [generalization_bound(quadrature(c.H, y), delta=0.01, lambda_min=q.bounds.lower).total for y in c.y.T]
    assert np.allclose(bound.per_output, alone, rtol=1e-5)
    assert bound.total == max(bound.per_output)


def test_what_the_bound_takes_of_rounding_and_of_chance_is_among_its_assumptions():
    X = np.random.default_rng(0).standard_normal((40, 3))
    q = quadrature(gram(TwoLayer(), X), np.sign(X[:, 0]))
    said = {assumption.statement: assumption.detail for assumption in generalization_bound(q).assumptions}
    assert "statistical" in said["rounding moves the matrix by no more than is allowed for"]
    assert "the bound on λ_max holds" not in said
    likely = replace(q, bounds=replace(q.bounds, probability=1 - 1e-12))
    said = {assumption.statement: assumption.detail for assumption in generalization_bound(likely).assumptions}
    assert "1e-12" in said["the bound on λ_max holds"]


def test_no_lower_bound_on_the_spectrum_gives_no_bound():
    c = case("repeated rows")
    bound = generalization_bound(quadrature(c.H, c.y))
    assert bound.vacuous
    assert not bound.certified
    assert bound.grid is None


def network(m, n, d, kappa, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    half = kappa * random.standard_normal((m // 2, d))
    a = np.concatenate([np.ones(m // 2), -np.ones(m // 2)])
    return X, np.vstack([half, half]), a


@pytest.mark.parametrize(("B", "R", "expected"), [(2.0, 0.02, 0.11), (10.0, 0.1, 1.8)])
def test_the_certificate_at_ten_thousand_neurons(B, R, expected):
    m, n = 10_000, 1000
    X, W0, _ = network(m, n, 20, 1.0)
    moved = np.zeros_like(W0)
    moved[:, 0] = B / np.sqrt(m)
    moved[0, 0] = R
    found = certificate(W0, W0 + moved, X, grid=1e-3)
    assert pytest.approx(R) == found.R
    assert pytest.approx(B, rel=1e-3) == found.B
    assert found.rademacher == pytest.approx(expected, rel=0.03)


def test_the_certificate_is_the_formula_for_any_norms_and_weights():
    random = np.random.default_rng(4)
    m, n, d = 30, 12, 5
    X, W0 = random.standard_normal((n, d)), random.standard_normal((m, d))
    W, a = W0 + 0.05 * random.standard_normal((m, d)), random.standard_normal(m)
    y = random.choice([-1.0, 1.0], n)
    found = certificate(W0, W, X, y, a=a, delta=0.02, grid=0.5)
    B, R = np.linalg.norm(W - W0), np.linalg.norm(W - W0, axis=1).max()
    i, j = int(np.ceil(B / 0.5)), int(np.ceil(R * np.sqrt(m) / 0.5))
    B_i, R_j = i * 0.5, j * 0.5 / np.sqrt(m)
    norms = np.linalg.norm(X, axis=1)
    Z, flips = 0.0, 0.0
    for r in range(m):
        for k in range(n):
            z = W0[r] @ X[k]
            Z += a[r] ** 2 * (z >= 0) * norms[k] ** 2 / m
            flips += abs(a[r]) * norms[k] * (abs(z) <= R_j * norms[k])
    rademacher = B_i / n * np.sqrt(Z) + 2 * R_j / (n * np.sqrt(m)) * flips
    outputs = np.maximum(X @ W.T, 0) @ a / np.sqrt(m)
    training = np.mean(np.clip(1 - outputs * y, 0, 1))
    sampling = 3 * np.sqrt(np.log(2 * i * (i + 1) * j * (j + 1) / 0.02) / (2 * n))
    assert found.rademacher == pytest.approx(rademacher)
    assert found.training_loss == pytest.approx(training)
    assert found.total == pytest.approx(training + 2 * rademacher + sampling)
    assert found.gap == pytest.approx(2 * rademacher + sampling)
    assert found.vacuous
    assert sum(term.value for term in found.terms) == pytest.approx(found.total)
    given = certificate(W0, W, X, y, outputs, delta=0.02, grid=0.5)
    assert given.training_loss == pytest.approx(training)
    assert certificate(W0, W, X, 0.3 * y, outputs).loss == "l1"


def test_the_bound_on_the_rademacher_complexity_holds():
    """The supremum over linearised networks has a closed form; sampled signs must not exceed the bound."""
    m, n = 400, 40
    X, W0, a = network(m, n, 6, 1.0, seed=1)
    B = 1.5
    random = np.random.default_rng(2)
    active = X @ W0.T >= 0
    Z = ((a[:, None] / np.sqrt(m)) * active.T)[:, :, None] * X[None]  # (m, n, d)
    W = W0.copy()
    W[:, 0] += B / np.sqrt(m)
    found = certificate(W0, W, X, grid=1e-4)
    sups = []
    for _ in range(300):
        signs = random.choice([-1.0, 1.0], n)
        sups.append(B / n * np.linalg.norm(np.einsum("mnd,n->md", Z, signs)))
    assert np.mean(sups) - 4 * np.std(sups) / np.sqrt(300) <= found.rademacher


def test_a_large_sample_and_small_movement_is_not_vacuous():
    m, n = 200, 20_000
    X, W0, a = network(m, n, 3, 1.0)
    W = W0 + 1e-3
    y = np.sign(X[:, 0])
    found = certificate(W0, W, X, y, a=a, outputs=y)
    assert not found.vacuous
    assert found.total < 0.5
    assert certificate(W0, W, X).total is None


def test_conditions_of_the_theorems_written_out():
    n, lam, kappa, delta, eps = 50, 0.02, 1e-3, 0.1, 0.2
    first = convergence_conditions(n, lam, kappa, delta, width_constant=2.0, rate_constant=3.0, width=10, lr=1e-9)
    assert first.needed("width") == pytest.approx(2 * n**6 / (lam**4 * kappa**2 * delta**3))
    assert first.needed("lr") == pytest.approx(3 * lam / n**2)
    assert [r.met for r in first.requirements] == [False, True]
    assert first.met is False
    second = trajectory_conditions(n, lam, kappa, eps, delta)
    assert second.needed("kappa") == pytest.approx(eps * delta / np.sqrt(n))
    assert second.needed("width") == pytest.approx(n**7 / (lam**4 * kappa**2 * delta**4 * eps**2))
    assert second.met is None
    third = generalization_conditions(n, lam, kappa, delta, lr=1e-6, steps=10**9)
    assert third.needed("kappa") == pytest.approx(lam * delta / n)
    assert third.needed("width") == pytest.approx(n**8 / (lam**6 * kappa**2 * delta**4))
    assert third.needed("steps") == pytest.approx(np.log(n / delta) / (1e-6 * lam))
    assert all(isinstance(a, Assumption) for a in third.assumptions)
    with pytest.raises(ValueError, match="asks nothing"):
        first.needed("kappa")
    enough = convergence_conditions(n, lam, kappa, delta, width=10**40, lr=1e-12)
    assert enough.met
    assert enough.assumptions[0].status == "met"


@pytest.mark.parametrize(
    "call",
    [
        lambda q: generalization_bound(q, delta=0.0),
        lambda q: generalization_bound(q, width=10),
        lambda q: certificate(np.eye(2), np.eye(3), np.eye(2)),
        lambda q: certificate(np.eye(2), np.eye(2), np.eye(2), [1.0, 1.0]),
        lambda q: certificate(np.eye(2), np.eye(2), np.eye(2), [1.0, 0.5], [1.0, 1.0], loss="ramp"),
        lambda q: certificate(np.eye(2), np.eye(2), np.eye(2), delta=2.0),
        lambda q: certificate(np.eye(2), np.eye(2), np.eye(2), loss="hinge"),
        lambda q: certificate(np.eye(2), np.eye(2), np.eye(2), np.eye(2)),
        lambda q: convergence_conditions(10, 0.0, 1.0),
        lambda q: trajectory_conditions(10, 0.1, 1.0, epsilon=0.0),
    ],
)
def test_wrong_arguments_are_named(call):
    with pytest.raises(ValueError, match=r"expected|belong|needs|ramp|one output"):
        call(quadrature(np.eye(2), [1.0, 1.0]))


def test_a_bound_is_about_the_movement():
    c = case("sphere")
    q = quadrature(c.H, c.y)
    assert generalization_bound(q).terms[1].value == pytest.approx(np.sqrt(2 / c.n) * movement_limit(q).value, rel=1e-5)


@pytest.mark.parametrize(("b", "n"), [(1, 3), (2, 4), (5, 5)])
def test_what_deep_networks_need_is_one_formula_for_both_algorithms(b, n):
    """By the chain of the proof: the radius of (13.1) must be within the one that Theorems 3 and 4 allow."""
    L, delta, k = 2, 0.5, 3
    found = deep_conditions(n, L, delta, k, batch=b, epsilon=0.1)
    m = found.needed("width")
    logs = np.log(m)
    moved = n**3.5 * np.sqrt(k) * logs / (delta * np.sqrt(b * m))
    allowed = delta**3 / (n**9 * L**6 * logs**1.5)
    assert moved == pytest.approx(allowed, rel=1e-9)
    assert found.needed("lr") == pytest.approx(b * k * delta / (n**5 * L**2 * m * logs**2))
    assert found.needed("steps") == pytest.approx(n**7 * L**2 * logs**2 / (b * delta**2) * np.log(n * logs / 0.1))
    whole = deep_conditions(n, L, delta, k, epsilon=0.1)
    assert whole.needed("width") <= m * (1 + 1e-12)  # with fewer samples a step, more width
    assert (whole.needed("width") == m) == (b == n)
    judged = deep_conditions(n, L, delta, k, batch=b, width=10**4, lr=1.0, steps=5)
    assert judged.met is False
    assert judged.needed("width") == pytest.approx(n**25 * L**12 * k * np.log(1e4) ** 5 / (b * delta**8))
    with pytest.raises(ValueError, match="batch of at most"):
        deep_conditions(n, L, delta, k, batch=n + 1)


@pytest.mark.parametrize(("b", "n"), [(1, 3), (2, 4), (5, 5)])
def test_residual_networks_need_the_steps_of_theorem_8(b, n):
    L, delta, m = 3, 0.5, 1000
    whole = residual_conditions(n, L, delta, epsilon=0.1, constant=2.0)
    assert whole.needed("steps") == pytest.approx(n**6 * L**2 / (2 * delta**2) * np.log(10))
    few = residual_conditions(n, L, delta, batch=b, width=m, epsilon=0.1, steps=5)
    assert few.needed("steps") == pytest.approx(n**7 * L**2 * np.log(m) ** 2 / (b * delta**2) * np.log(10))
    assert few.met is False
    with pytest.raises(ValueError, match="pass `width`"):
        residual_conditions(n, L, delta, batch=b)
    with pytest.raises(ValueError, match="batch of at most"):
        residual_conditions(n, L, delta, batch=n + 1, width=m)
    with pytest.raises(ValueError, match="separation = 0"):
        residual_conditions(n, L, 0)
