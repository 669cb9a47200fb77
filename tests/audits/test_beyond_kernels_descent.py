"""Appendix D of beyond_kernels along Algorithm 1: every quantity against loops and gradients, W* and V*, and what breaks the laws."""

from dataclasses import replace

import numpy as np
import pytest

from overparam.audits.beyond_kernels import ResNetCase
from overparam.audits.beyond_kernels_d_descent import (
    ERR,
    FIRST,
    HEART,
    REGION_V,
    REGRET,
    RUN_LAWS,
    STAR_LAWS,
    radii_of,
    regret_sides,
    run_laws,
    small_alpha,
    star_laws,
)
from overparam.audits.beyond_kernels_run import (
    Comparator,
    algorithm_1,
    as_smooth_target,
    built,
    fitted,
    least_norm,
    looked_at,
    truth_on,
)
from overparam.data import ParityTarget, whole_cube
from overparam.functions import existence_weights

D, K, M, ALPHA = 3, 2, 12, 0.5
EPS = np.finfo(float).eps
CUBE = whole_cube(D, size=D**-0.5)


@pytest.fixture(scope="module")
def target():
    return ParityTarget.theorem2(D, K, alpha=ALPHA, key=5).concept().general()


@pytest.fixture(scope="module")
def case():
    return case_of(M)


def case_of(m):
    """Table 1's weights: σ_w = m^{−1/8}, σ_v = 2."""
    rng, x1 = np.random.default_rng(m), np.column_stack([CUBE, np.ones(len(CUBE))])
    W, V, A = (rng.standard_normal(shape) for shape in ((m, D + 1), (m, K + 1), (K, m)))
    return ResNetCase(x1, m**-0.125 * W, 2.0 * m**-0.5 * V, m**-0.5 * A, m**-0.125, 2.0)


def moved(case, seed, size=0.3):
    rng = np.random.default_rng(seed)
    return size * rng.standard_normal(case.W.shape), size * rng.standard_normal(case.V.shape)


def star_of(case, seed):
    return Comparator("any", *moved(case, seed))


STEP = 1e-5
CLOSE = 1e-7
"""Central differences with that step err by its square times a third derivative, and by rounding over it: some 1e-10 each."""


def objective(case, W, V, x1, y):
    first = case.A @ np.maximum((case.W + W) @ x1, 0)
    out = first + case.A @ np.maximum((case.V + V) @ np.append(first, 1.0), 0)
    return 0.5 * np.sum((y - out) ** 2)


def gradient(case, W, V, x1, y):
    """∇ of ½‖y − out‖² in W and V, by central differences."""
    found = []
    for place, of in enumerate((W, V)):
        slopes = np.empty(of.shape)
        for index in np.ndindex(of.shape):
            ends = []
            for sign in (1, -1):
                moves = [W.copy(), V.copy()]
                moves[place][index] += sign * STEP
                ends.append(objective(case, *moves, x1, y))
            slopes[index] = (ends[0] - ends[1]) / (2 * STEP)
        found.append(slopes)
    return found


def by_hand(case, truth, W, V, star):
    """Neuron by neuron, row by row, from the definitions."""
    A, m, k = case.A, len(case.W), len(case.A)
    found = {name: [] for name in ("first", "second", "rest", "club", "err", "spade", "diamond", "gap", "r", "matrix")}
    for x, F, GF in zip(case.X1, truth.F, truth.GF, strict=True):
        g0, g = case.W @ x, (case.W + W) @ x
        out1 = sum((A[:, i] * max(g[i], 0) for i in range(m)), np.zeros(k))
        z = np.append(out1, 1.0)
        h0, h = case.V @ z, (case.V + V) @ z
        out = out1 + sum(A[:, i] * max(h[i], 0) for i in range(m))
        H = F + truth.alpha * GF

        def f(change, g=g, h=h, x=x):
            inner = sum(A[:, i] * (change[i] @ x) for i in range(m) if g[i] >= 0)
            outer = sum(A[:, i] * ((case.V + V)[i] @ np.append(inner, 0.0)) for i in range(m) if h[i] >= 0)
            return outer, inner

        def second(change, signs, z=z):
            return sum((A[:, i] * (change[i] @ z) for i in range(m) if signs[i] >= 0), np.zeros(k))

        club, way = f(star.W - W)
        found["first"].append(sum(A[:, i] * (star.W[i] @ x) for i in range(m) if g0[i] >= 0) - F)
        found["second"].append(
            (second(star.V, h0) - truth.alpha * truth.G(out1[None])[0]) / np.linalg.norm(z),
        )
        found["rest"].append(way - (F - out1))
        found["club"].append(club)
        found["spade"].append(f(star.W)[1] + second(star.V, h) - H)
        found["diamond"].append(f(W)[1] + second(V, h) - out)
        found["err"].append(club + way + second(star.V - V, h) - (H - out))
        found["gap"].append(out1 - F)
        found["r"].append(H - out)
        matrix = sum(np.outer(A[:, i], case.V[i]) for i in range(m) if h[i] >= 0)
        found["matrix"].append(np.linalg.norm(matrix, 2))
    return {name: np.array(rows) for name, rows in found.items()}


def test_every_quantity_is_that_of_its_definition(case, target):
    truth, (W, V), star = truth_on(target, CUBE), moved(case, 0), star_of(case, 1)
    seen, hand = looked_at(case, truth, W, V, star), by_hand(case, truth, W, V, star)
    squares = {name: (rows**2).sum(axis=-1) for name, rows in hand.items()}
    same = {"first": "first", "rest": "rest", "clubs": "club", "spades": "spade", "diamonds": "diamond", "err": "err"}
    same |= {"base_gap": "gap", "error": "r"}
    for name, own in same.items():
        assert seen[name] == pytest.approx(squares[own].mean(), rel=1e-10), name
    assert seen["second_most"] == pytest.approx(np.sqrt(squares["second"].max()), rel=1e-10)
    assert seen["err_most"] == pytest.approx(np.sqrt(squares["err"].max()), rel=1e-10)
    assert seen["matrix_most"] == pytest.approx(hand["matrix"].max(), rel=1e-10)
    excess = np.sqrt(squares["gap"]) - 2 * np.sqrt(squares["r"])
    assert seen["excess_most"] == pytest.approx(max(excess.max(), 0), abs=1e-12)
    np.testing.assert_allclose(hand["err"], hand["club"] + hand["spade"] - hand["diamond"], rtol=1e-9, atol=1e-12)


def test_signs_of_the_run_and_of_the_start_part(case, target):
    """Without movement nothing is turned; with it, what turned is the difference of the two sums."""
    truth, star = truth_on(target, CUBE), star_of(case, 1)
    still = looked_at(case, truth, np.zeros_like(case.W), np.zeros_like(case.V), star)
    assert still["first_turned"] == still["second_turned_most"] == 0
    assert still["first"] == still["first_now"]
    W, V = moved(case, 0, 2.0)
    seen, x1 = looked_at(case, truth, W, V, star), case.X1
    on0, on = x1 @ case.W.T >= 0, x1 @ (case.W + W).T >= 0
    turned = [(case.A[:, a != b] * np.where(b, 1, -1)[a != b]) @ (star.W[a != b] @ x) for a, b, x in zip(on0, on, x1, strict=True)]  # fmt: skip
    assert seen["first_turned"] == pytest.approx(np.mean(np.sum(np.square(turned), axis=1)), rel=1e-10)


def test_gradients_are_those_of_differences(case, target):
    """Claim D.5's norms, over all rows."""
    truth, (W, V) = truth_on(target, CUBE), moved(case, 2)
    seen, hand = looked_at(case, truth, W, V, star_of(case, 1)), by_hand(case, truth, W, V, star_of(case, 1))
    sizes = [gradient(case, W, V, x, y) for x, y in zip(case.X1, truth.H, strict=True)]
    for name, place in (("gradient_w_most", 0), ("gradient_v_most", 1)):
        shares = [np.linalg.norm(one[place]) / np.linalg.norm(r) for one, r in zip(sizes, hand["r"], strict=True)]
        assert seen[name] == pytest.approx(max(shares), rel=CLOSE)


def test_a_run_is_algorithm_1_by_differences(case, target):
    """Fact D.4 at every step: the product with the way to W* and V* is that of the gradient; ♡ too, and where the run ends."""
    star, rates, steps = star_of(case, 4), {"W": 0.2, "V": 0.05}, 6
    X = target.inputs(steps, key=7)
    run = algorithm_1(case, target, X, rates, [star])
    W, V = np.zeros_like(case.W), np.zeros_like(case.V)
    for t, (x, y) in enumerate(zip(X, target(X), strict=True)):
        dW, dV = gradient(case, W, V, np.append(x, 1.0), y)
        product = (dW * (W - star.W)).sum() + (dV * (V - star.V)).sum()
        assert run.products["any"][t] == pytest.approx(product, abs=CLOSE)
        heart = 0.5 * (rates["W"] * (dW**2).sum() + rates["V"] * (dV**2).sum())
        assert run.hearts[t] == pytest.approx(heart, rel=10 * CLOSE)
        W, V = W - rates["W"] * dW, V - rates["V"] * dV
    assert run.steps.tolist() == list(range(steps + 1))
    assert (run.moved_w[-1], run.moved_v[-1]) == pytest.approx((np.linalg.norm(W), np.linalg.norm(V)), rel=10 * CLOSE)
    last = looked_at(case, truth_on(target, CUBE), W, V, star)
    assert run.seen["any"]["err"][-1] == pytest.approx(last["err"], rel=10 * CLOSE)


@pytest.fixture(scope="module")
def run(case, target):
    stars = (built(case, target), fitted(case, truth_on(target, CUBE)))
    return algorithm_1(case, target, target.inputs(60, key=8), {"W": 0.05, "V": 0.02}, stars)


def test_the_telescoped_identity_holds_to_rounding(run):
    """Every Ξ and ♡ is a sum of at most m (d + k + 2) products, and the totals add T of them."""
    allowed = (60 + 2 * M * (D + K + 2)) * EPS
    for star in ("built", "fitted"):
        assert run.defect(star).max() < allowed
    wrong = replace(run, rates={"W": 0.06, "V": 0.02})
    assert wrong.defect("built")[-1] > 1e4 * allowed  # rates that were not those of the run


def test_the_sum_must_hold_where_steps_are_small_and_not_where_they_are_large(case, target):
    """Ξ ≥ ½‖r‖² − ½‖Err‖² whatever W* and V* are, so that ♡ ≤ ¼‖r‖² is enough."""
    complexity = target.complexity(C=1.0)
    X = target.inputs(40, key=9)
    for seed in range(5):
        small = algorithm_1(case, target, X, {"W": 0.02, "V": 0.01}, [star_of(case, seed)])
        assert (small.hearts <= 0.25 * small.squares).all()
        left, right = regret_sides(small, small.stars[0])
        assert (left.sum(axis=1) <= right.sum(axis=1) * (1 + 1e-12)).all()
    # W* = W_T and V* = V_T of a run with steps that are far too large: the error of its steps is not paid for
    start = Comparator("start", np.zeros_like(case.W), np.zeros_like(case.V))
    large = algorithm_1(case, target, X[:1], {"W": 30.0, "V": 10.0}, [start])
    (found,) = [one for one in star_laws(large, start, complexity) if one.law.reference == REGRET.reference]
    assert found.verdict == "out of range"
    assert found.range[0].status == "unmet"


def test_what_is_built_has_the_target_as_its_mean(case, target):
    """A D_W⁰ W*(x, 1) and A D_V⁰ V*(z, 1), the mean over draws of all weights within five standard errors."""
    draws, z = 400, np.column_stack([truth_on(target, CUBE).F, np.ones(len(CUBE))])
    parts = ((target.F, 1.0, case.X1, target.F(CUBE)), (target.G, ALPHA, z, ALPHA * target.G(z[:, :-1])))
    rng = np.random.default_rng(0)
    for of, factor, rows, wanted in parts:
        smooth = as_smooth_target(of, factor)
        np.testing.assert_allclose(smooth(rows), wanted, atol=1e-9)
        found = []
        for _ in range(draws):
            W0, A = rng.standard_normal((16, rows.shape[1])), rng.standard_normal((K, 16)) / 4
            found.append(existence_weights(smooth, W0, A, weight_scale=1.0, output_scale=0.25).increment(rows))
        error = np.std(found, axis=0, ddof=1) / draws**0.5
        assert (np.abs(np.mean(found, axis=0) - wanted) < 5 * error).all()
        assert error.max() < 0.5


def test_what_is_built_is_the_construction_at_the_weights_of_the_case(case, target):
    star = built(case, target)
    first = existence_weights(
        as_smooth_target(target.F), case.W, case.A, weight_scale=case.sigma_w, output_scale=M**-0.5
    )
    np.testing.assert_array_equal(star.W, first.W)
    truth = truth_on(target, CUBE)
    seen = looked_at(case, truth, np.zeros_like(case.W), np.zeros_like(case.V), star)
    assert seen["first"] == pytest.approx(K * first.error(case.X1) ** 2, rel=1e-10)


def test_the_least_norm_is_that_of_least_squares():
    rng = np.random.default_rng(3)
    A, on, rows, values = rng.standard_normal((2, 7)), rng.random((4, 7)) < 0.6, rng.standard_normal((4, 3)), rng.standard_normal((4, 2))  # fmt: skip
    design = np.array([np.kron(A[r] * on[i], rows[i]) for i in range(4) for r in range(2)])
    wanted = np.linalg.lstsq(design, values.ravel(), rcond=None)[0].reshape(7, 3)
    condition = np.linalg.cond(design) ** 2
    np.testing.assert_allclose(least_norm(A, on, rows, values), wanted, atol=100 * EPS * condition)
    twice = [np.concatenate([array, array[:1]]) for array in (on, rows, values)]  # a row that is there twice
    np.testing.assert_allclose(least_norm(A, *twice), wanted, atol=100 * EPS * condition)


def test_what_is_fitted_is_the_target_by_the_first_signs(target):
    case = case_of(200)
    truth = truth_on(target, CUBE)
    star = fitted(case, truth)
    z = np.column_stack([truth.F, np.ones(len(CUBE))])
    for rows, start, own, wanted in ((case.X1, case.W, star.W, truth.F), (z, case.V, star.V, ALPHA * truth.GF)):
        on = rows @ start.T >= 0
        design = np.array([np.kron(case.A[r] * signs, x) for x, signs in zip(rows, on, strict=True) for r in range(K)])
        sizes = np.linalg.svd(design, compute_uv=False)
        kept = sizes[sizes > 1e-6 * sizes[0]]  # rows that F makes equal are one
        allowed = 100 * len(design) * EPS * (kept[0] / kept[-1]) ** 2
        np.testing.assert_allclose((on * (rows @ own.T)) @ case.A.T, wanted, atol=allowed)
    other = built(case, target)
    assert np.linalg.norm(star.W) < np.linalg.norm(other.W)


def test_the_small_alpha_is_that_of_the_coefficients():
    """C* = 1: F_r is √(2d/k) z, so C_s(F) = 2√(2d/k), p_F = 2; G_r is 8 powers 8/3 z⁴ in the form z · z³: C_s(G) = 4 · 8/3, p_G = 16."""
    own = ParityTarget.theorem2(6, 4, alpha=0.3, key=0).concept().general().complexity(C=1.0)
    assert small_alpha(own) == pytest.approx(0.3 / (4 * (2 * 2 * 3**0.5 + 16 * 4 * 8 / 3)), rel=1e-12)


def test_radii_hold_the_run_and_what_it_is_compared_with(run):
    own = radii_of(run)
    assert (own.tau_w, own.tau_v) == (run.moved_w.max(), run.moved_v.max())
    star = run.stars[0]
    both = radii_of(run, star)
    assert both.tau_v == max(own.tau_v, np.linalg.norm(star.V)) > own.tau_v
    assert both.small == pytest.approx(both.tau_v ** (4 / 3) / 2.0 ** (1 / 3))
    assert [one.status for one in both.conditions()][2] == "unmet"  # τ_v above 1


def test_every_law_is_found_and_a_planted_violation_breaks_it(run, target):
    complexity = target.complexity(C=1.0)
    star = run.stars[1]
    found = {one.law.name: one for one in star_laws(run, star, complexity)}
    assert len(found) == len(STAR_LAWS)
    assert len(run_laws(run)) == len(RUN_LAWS)
    for name, law in ((f"{law.name}, W* and V* fitted", law) for law in (FIRST, ERR, REGION_V)):
        assert found[name].law.statement == law.statement
    seen = {name: dict(own) for name, own in run.seen.items()}
    seen["fitted"]["err"] = 1e9 * seen["fitted"]["err"]
    broken = replace(run, seen=seen, moved_v=100 * run.moved_v, hearts=1e3 * run.hearts)
    bad = {one.law.name: one for one in [*star_laws(broken, star, complexity), *run_laws(broken)]}
    assert bad[f"{REGION_V.name}, W* and V* fitted"].verdict == "fails"
    assert not bad[f"{ERR.name}, W* and V* fitted"].verdict.startswith("holds")
    assert not bad[HEART.name].verdict.startswith("holds")
    tight = replace(star, V=0 * star.V)
    region = [one for one in star_laws(run, tight, complexity) if one.law.reference == REGION_V.reference]
    assert region[1].verdict == "fails"  # V moved and V* did not


def test_a_target_of_concept_1_is_refused():
    concept = ParityTarget.theorem2(D, K, alpha=ALPHA, key=5).concept()
    with pytest.raises(ValueError, match="expected Concept 2 with beta 1"):
        truth_on(concept, CUBE)
