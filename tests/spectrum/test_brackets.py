"""Brackets contain the exact value, rounding included, on hard random spectra; Gauss is exact below q."""

import mpmath
import numpy as np
import pytest

from overparam.engines import as_gram
from overparam.spectrum import EigenvalueBounds, Inverse, Loss, quadrature
from overparam.spectrum.rules import gauss, lobatto, radau


def random_spectrum(rng: np.random.Generator, n: int) -> np.ndarray:
    """Clustered at the bottom, at the top, at both, decaying, near-singular, repeated."""
    kind = rng.integers(6)
    scale = 10 ** rng.uniform(-3, 4)
    if kind == 0:
        lam = 1e-3 + 1e-3 * rng.random(n) * 10 ** rng.uniform(-8, 0)
        lam[: max(1, n // 5)] = rng.random(max(1, n // 5)) + 0.5
    elif kind == 1:
        lam = 1 - rng.random(n) * 10 ** rng.uniform(-10, -1)
    elif kind == 2:
        lam = np.where(rng.random(n) < 0.5, 1 - 1e-6 * rng.random(n), 1e-5 * (1 + rng.random(n)))
    elif kind == 3:
        lam = (1.0 + np.arange(n)) ** -rng.uniform(0.5, 4)
    elif kind == 4:
        lam = 10 ** rng.uniform(-9, 0, n)
    else:
        lam = rng.choice(rng.random(max(1, n // 4)) + 1e-3, n)
    return np.sort(lam * scale)


def exact_forms(lam: np.ndarray, r: np.ndarray, steps: list[int], lr: float) -> tuple[list[mpmath.mpf], mpmath.mpf]:
    with mpmath.workdps(40):
        values = [mpmath.mpf(float(v)) for v in lam]
        weights = [mpmath.mpf(float(v)) ** 2 for v in r]
        eta = mpmath.mpf(lr)
        losses = [
            mpmath.fsum(w * (1 - eta * v) ** (2 * s) for w, v in zip(weights, values, strict=True)) / 2 for s in steps
        ]
        return losses, mpmath.fsum(w / v for w, v in zip(weights, values, strict=True))


def one_case(rng: np.random.Generator) -> None:
    n = int(rng.integers(2, 26))
    lam = random_spectrum(rng, n)
    r = rng.standard_normal(n) * 10 ** rng.uniform(-3, 3, n if rng.random() < 0.3 else 1)
    if rng.random() < 0.2:
        r[rng.integers(n)] = 0.0
    products = int(rng.integers(1, n + 1))
    slack = 1 + (0.0 if rng.random() < 0.3 else 10 ** rng.uniform(-6, -0.5))
    bounds = EigenvalueBounds(float(lam[0]) / slack, float(lam[-1]) * slack, "given", "given")
    lr = float(rng.choice([10 ** rng.uniform(-4, 0), rng.uniform(1, 2), 1.95, 2.0])) / float(lam[-1])
    steps = [0, *(int(s) for s in 10 ** rng.uniform(0, 6, 3)), products - 1]
    q = quadrature(as_gram(np.diag(lam)), r, max_products=products, tol=1e-15, bounds=bounds)
    losses, inverse = exact_forms(lam, r, steps, lr)

    found = q.bracket(Loss(steps, lr))
    for i, true in enumerate(losses):
        where = (n, products, steps[i], lr * lam[-1])
        assert mpmath.mpf(float(found.lower[i])) <= true, where
        if np.isfinite(found.upper[i]):
            assert true <= mpmath.mpf(float(found.upper[i])), where
        else:
            assert lr * q.bounds.upper > 2, where
        if steps[i] < q.lengths[0]:  # Gauss is exact: what is left is rounding
            assert abs(mpmath.mpf(float(found.value[i])) - true) <= 1e-10 * losses[0], where

    found = q.bracket(Inverse())
    assert np.isfinite(found.upper)
    assert mpmath.mpf(found.lower) <= inverse <= mpmath.mpf(found.upper), (n, products)


@pytest.mark.parametrize("cases", [400, pytest.param(10_000, marks=pytest.mark.slow)])
def test_many_random_cases(cases: int) -> None:
    rng = np.random.default_rng(2024)
    for _ in range(cases):
        one_case(rng)


def test_dense_matrices_with_their_own_rounding() -> None:
    """The same with H = QΛQᵀ in float64, whose exact eigenvalues come from 40-digit arithmetic."""
    rng = np.random.default_rng(5)
    for _ in range(15):
        n = int(rng.integers(3, 9))
        Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        H = Q @ np.diag(10 ** rng.uniform(-3, 1, n)) @ Q.T
        H = (H + H.T) / 2
        r = rng.standard_normal(n)
        with mpmath.workdps(40):
            lam, V = mpmath.eigsy(mpmath.matrix(H.tolist()))
            w = [mpmath.fsum(V[i, j] * mpmath.mpf(float(r[i])) for i in range(n)) ** 2 for j in range(n)]
            inverse = mpmath.fsum(w[j] / lam[j] for j in range(n))
        q = quadrature(H, r, max_products=int(rng.integers(1, n + 1)), tol=1e-15)
        found = q.bracket(Inverse())
        assert q.bounds.lower <= float(min(lam))
        assert q.bounds.upper >= float(max(lam))
        assert mpmath.mpf(found.lower) <= inverse <= mpmath.mpf(found.upper)


def test_brackets_are_tight() -> None:
    """They close as products are made: a bracket that is always wide would pass the tests above."""
    rng = np.random.default_rng(3)
    lam = np.sort(rng.random(200)) + 0.01
    r = rng.standard_normal(200)
    widths = []
    for products in (5, 10, 20, 40, 80):
        q = quadrature(np.diag(lam), r, max_products=products, tol=1e-15)
        found = q.bracket(Inverse())
        widths.append(found.width / found.value)
        loss = q.bracket(Loss([1000], 1 / lam[-1]))
        assert loss.upper[0] <= 0.5 * float(r @ r)
    assert np.all(np.diff(widths) < 0)
    assert widths[-1] < 1e-8


def test_radau_alone_fails_above_one_over_b_and_lobatto_does_not() -> None:
    """Why the case distinction is there: at 1.95/λ_max the Radau rule is often below the true loss."""
    rng = np.random.default_rng(4)
    failures = 0
    for _ in range(200):
        n = 12
        lam = np.sort(rng.random(n)) + 0.05
        r = rng.standard_normal(n)
        q = quadrature(np.diag(lam), r, max_products=3, tol=1e-15, bounds=EigenvalueBounds(lam[0], lam[-1], "", ""))
        run = q.alphas[0, :3], q.betas[0, :3], q.masses[0]
        integrand = Loss([4], 1.95 / lam[-1])
        true = float(integrand(lam)[0] @ r**2)
        rule = radau(*run, lam[0] * 0.999)
        failures += float(integrand(rule.nodes)[0] @ rule.weights) < true * (1 - 1e-9)
        rule = lobatto(*run, lam[0] * 0.999, lam[-1] * 1.001)
        assert float(integrand(rule.nodes)[0] @ rule.weights) >= true * (1 - 1e-9)
    assert failures > 50


def test_rules_put_their_nodes_where_asked() -> None:
    alphas, betas = np.array([1.0, 2.0, 1.5]), np.array([0.3, 0.4, 0.2])
    assert np.isclose(radau(alphas, betas, 1.0, 0.1).nodes, 0.1).any()
    nodes = lobatto(alphas, betas, 1.0, 0.1, 3.0).nodes
    assert np.isclose(nodes[0], 0.1)
    assert np.isclose(nodes[-1], 3.0)
    assert np.isclose(gauss(alphas, betas, 2.5).weights.sum(), 2.5)


def test_plain_callable_is_an_estimate_and_says_so() -> None:
    q = quadrature(np.diag([1.0, 2.0, 3.0]), [1.0, 1.0, 1.0])
    found = q.bracket(np.sqrt)
    assert not found.certified
    assert "not certified" in found.reason
    assert found.value == pytest.approx(1 + np.sqrt(2) + np.sqrt(3))


def test_unstable_rate_gives_no_nan() -> None:
    q = quadrature(np.diag([1.0, 2.0, 3.0, 4.0, 5.0]), np.ones(5), max_products=2, tol=1e-15)
    found = q.bracket(Loss([0, 10, 10**6], 1.0))
    assert not np.isnan(found.value).any()
    assert not found.certified[2]
    assert "above 2" in found.reason


def test_several_outputs_are_their_single_sweeps() -> None:
    rng = np.random.default_rng(6)
    A = rng.standard_normal((30, 30))
    H = A @ A.T + np.eye(30)
    Y = rng.standard_normal((30, 4))
    Y[:, 2] = 0.0
    q = quadrature(H, Y)
    each = q.bracket(Inverse([0.0, 1.0])).per_output
    assert each is not None
    for j in range(4):
        for i, ridge in enumerate((0.0, 1.0)):
            true = Y[:, j] @ np.linalg.solve(H + ridge * np.eye(30), Y[:, j])
            assert each.lower[j, i] <= true * (1 + 1e-12)
            assert true <= each.upper[j, i] * (1 + 1e-12) + 1e-300


def test_breakdown_is_exact() -> None:
    """Repeated eigenvalues end the recursion early; the value is then exact and the bracket rounding alone."""
    H = np.diag([2.0] * 10 + [1.0] * 10)
    q = quadrature(H, np.ones(20))
    assert q.products == 2
    found = q.bracket(Inverse())
    assert found.value == pytest.approx(15.0, rel=1e-13)
    assert found.width < 1e-11
