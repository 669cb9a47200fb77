"""Parities and hierarchical targets: exact means over the whole cube, concepts by hand, samples, refusals."""

import itertools
import math
import re
from dataclasses import asdict
from decimal import Decimal

import numpy as np
import pytest

from overparam import load
from overparam.data import (
    GeneralSum,
    HierarchicalTarget,
    ParityTarget,
    SmoothFunction,
    SmoothSum,
    ThreeLayerTarget,
    TwoLayerTarget,
    coordinatewise,
    cube_inputs,
    gaussian_inputs,
    general_sum,
    padded_inputs,
    sphere_inputs,
    sum_of_products,
    whole_cube,
)
from overparam.data.targets.layered import LayerComplexity, with_second_layer
from overparam.functions import series, three_layer_scales

HALF = math.sqrt(0.5)


def test_fig_2_by_hand():
    x = np.ones(30)
    x[[0, 4, 5, 9, 20]] = -1  # F = (−, +, +(−·−), +, −, +, +, +)
    F = np.array([-1, 1, 1, 1, -1, 1, 1, 1.0])
    G = np.array([-1.0] * 8)
    target = ParityTarget(beta=0.5)
    assert np.array_equal(target.base(x[None])[0], F)
    assert np.array_equal(target.composite(x[None])[0], G)
    np.testing.assert_allclose(target(x[None])[0], 0.5 * F + 0.3 * G)
    assert (target.d, target.outputs, target.hidden) == (30, 8, tuple(range(16)))


@pytest.mark.parametrize(
    "target",
    [
        ParityTarget.pairs(10, outputs=4, group=4, alpha=0.3, beta=0.7),
        ParityTarget.pairs(8, outputs=4, group=2, alpha=-1.2),
        ParityTarget.theorem2(9, 4, alpha=0.4, key=1),
        ParityTarget.theorem2(8, 3, alpha=1.0, key=2),
        ParityTarget.product(10, key=3),
        ParityTarget(6, 0.5, 1.0, sets=((0, 1), (1, 2), (0, 2)), groups=((0, 1), (0, 1, 2), (2,))),
    ],
    ids=repr,
)
def test_variances_and_errors_are_means_over_the_whole_cube(target):
    X = whole_cube(target.d, size=target.size)
    H, F, G = target.values(X), target.base(X), target.composite(X)
    np.testing.assert_allclose(H, target.beta * F + (target.alpha * G if target.groups else 0))
    assert target.variance == pytest.approx(H.var(axis=0).sum())
    assert target.base_error == pytest.approx(((H - target.beta * F) ** 2).sum(axis=1).mean())
    # the parities and their coefficients are those of a Fourier transform over the cube
    signs = X / target.size
    sets = [S for q in range(target.d + 1) for S in itertools.combinations(range(target.d), q)]
    characters = np.stack([signs[:, S].prod(axis=1) for S in sets])
    for r, found in enumerate(target.parities):
        fourier = characters @ H[:, r] / len(X)
        wanted = np.array([found.get(S, 0.0) for S in sets])
        np.testing.assert_allclose(fourier, wanted, atol=1e-12)
    for degree in (0, 1, 2, 4, target.d):
        high = np.array([len(S) > degree for S in sets])
        lost = ((characters[high] @ H / len(X)) ** 2).sum()
        assert target.error_beyond_degree(degree) == pytest.approx(lost, abs=1e-12)


def test_theorem_2_draws_its_coordinates_uniformly():
    hits = np.zeros(10)
    for key in range(400):
        target = ParityTarget.theorem2(10, 4, key=key)
        assert len(target.hidden) == 4
        hits[list(target.hidden)] += 1
    assert np.abs(hits - 160).max() < 4 * math.sqrt(400 * 0.4 * 0.6)
    target = ParityTarget.theorem2(10, 4, alpha=0.3, key=7)
    X = target.inputs(20, key=0)
    np.testing.assert_allclose((X**2).sum(axis=1), 1)
    F = np.sqrt(10) * X[:, [S[0] for S in target.sets]]
    np.testing.assert_allclose(target(X), F + 0.3 * F.prod(axis=1, keepdims=True))


def test_one_product_is_a_sign_and_flips_are_counted():
    target = ParityTarget.product(40, key=1)
    data = target.sample(6000, key=2, flips=0.2, test=50)
    wanted = 40**3 * data.X[:, target.hidden].prod(axis=1)
    assert data.y.shape == (6000,)
    share = (data.y * wanted < 0).mean()
    assert abs(share - 0.2) < 3 * math.sqrt(0.16 / 6000)
    assert np.array_equal(np.abs(data.y), np.ones(6000))
    assert target.opt(flips=0.2) == pytest.approx(((data.y - wanted) ** 2).mean() / 2 * 0.2 / share)
    np.testing.assert_allclose(data.test.y, 40**3 * data.test.X[:, target.hidden].prod(axis=1))


def test_samples_follow_the_key_are_nested_and_test_rows_are_other_draws():
    target = ParityTarget()
    few, many = target.sample(10, key=3, noise=0.5), target.sample(3000, key=3, noise=0.5, test=500)
    assert np.array_equal(few.X, many.X[:10])
    assert np.array_equal(few.y, many.y[:10])
    assert np.array_equal(target.sample(10, key=3).X, few.X)
    assert not np.array_equal(target.sample(10, key=4).X, few.X)
    seen = {row.tobytes() for row in many.X}
    assert not any(row.tobytes() in seen for row in many.test.X)
    assert np.array_equal(many.test.y, target(many.test.X))
    squares = ((many.y - target(many.X)) ** 2).sum(axis=1)
    assert abs(squares.mean() / 2 - target.opt(noise=0.5)) < 3 * squares.std() / 2 / math.sqrt(3000)
    assert "OPT = 1" in many.notes[0]
    assert not target.sample(3, key=0).notes


def test_laws_of_inputs_have_the_moments_they_should():
    n, d = 20_000, 5
    for X, fourth in (
        (cube_inputs(n, d, key=0, size=d**-0.5), 1 / d**2),
        (sphere_inputs(n, d, key=0), 3 / (d * (d + 2))),
    ):
        np.testing.assert_allclose((X**2).sum(axis=1), 1)
        assert np.abs(X.mean(axis=0)).max() < 4 / math.sqrt(n * d)
        spread = (X**4).std(axis=0).max() / math.sqrt(n)
        assert np.abs((X**4).mean(axis=0) - fourth).max() <= 4 * spread + 1e-13
    X = gaussian_inputs(n, d, key=1)
    assert abs((X**2).mean() - 1 / d) < 4 / d * math.sqrt(2 / (n * d))
    assert len(np.unique(whole_cube(7), axis=0)) == 128


def test_hierarchical_targets_take_plain_functions():
    target = HierarchicalTarget(
        lambda X: np.stack([X[:, 0] * X[:, 1], X[:, 2]], axis=1), lambda h: h[:, ::-1] ** 2, 0.5, 2.0, "cube", d=4
    )
    X = whole_cube(4)
    F = np.stack([X[:, 0] * X[:, 1], X[:, 2]], axis=1)
    np.testing.assert_allclose(target(X), 2 * F + 0.5)
    assert (target.outputs, target.concept) == (2, None)
    found = target.measure_base_error(500)
    assert (found.value, found.standard_error) == (0.5, 0.0)
    found = target.measure_variance(4000)
    assert abs(found.value - 8.0) < 4 * found.standard_error + 1e-2
    with pytest.raises(ValueError, match="`complexity` needs F and G as sums"):
        target.complexity()


def _drawn_sum(rng, k, p, d, functions):
    W = rng.standard_normal((k, p, d))
    W *= HALF / np.linalg.norm(W, axis=2, keepdims=True)
    return SmoothSum(rng.uniform(-1, 1, (k, p)), W, functions)


def test_smooth_sums_written_out_with_loops():
    rng = np.random.default_rng(0)
    phi = [["sin", np.exp], [np.cos, SmoothFunction("cube", 2.0)], ["tanh", "one"]]
    F = _drawn_sum(rng, 3, 2, 4, phi)
    plain = [[np.sin, np.exp], [np.cos, lambda z: 8 * z**3], [np.tanh, np.ones_like]]
    X = rng.standard_normal((5, 4))
    for n, x in enumerate(X):
        for r in range(3):
            total = sum(F.a[r, i] * plain[r][i](F.W[r, i] @ x) for i in range(2))
            assert F(X)[n, r] == pytest.approx(total)
    rows = rng.standard_normal((2, 3, 2, 5))
    W1, W2 = rows / np.linalg.norm(rows, axis=3, keepdims=True)
    general = GeneralSum(F.a, W1, W2, ["sin", lambda z: 1 + z**3])
    for n, x in enumerate(X):
        z = np.append(x, 1.0)
        for r in range(3):
            total = sum(
                F.a[r, i] * (np.sin, lambda t: 1 + t**3)[i](W1[r, i] @ z / np.linalg.norm(z)) * (W2[r, i] @ z)
                for i in range(2)
            )
            assert general(X)[n, r] == pytest.approx(total)


@pytest.mark.parametrize("q", [1, 2, 3, 4, 6])
def test_products_are_sums_of_powers(q):
    rng = np.random.default_rng(q)
    sets = [tuple(rng.choice(7, size=q, replace=False)) for _ in range(3)]
    X = rng.standard_normal((6, 7))
    found = sum_of_products(sets, 7, [1.0, -2.0, 0.0])
    assert found.p == 2 ** (q - 1)
    wanted = np.stack([c * X[:, S].prod(axis=1) for c, S in zip((1.0, -2.0, 0.0), sets, strict=True)], axis=1)
    np.testing.assert_allclose(found(X), wanted, atol=1e-12 * np.abs(wanted).max())


@pytest.mark.parametrize(
    "functions", ["exp", ["cos", "sinh"], ["sin", lambda z: 1 / (2 - z)], [SmoothFunction("cos", 3.0), "square"]]
)
def test_concept_1_is_concept_2_on_unit_vectors(functions):
    rng = np.random.default_rng(1)
    F = _drawn_sum(rng, 3, 2, 4, functions)
    X = sphere_inputs(50, 4, key=0)
    general = general_sum(F)
    assert general.p == 2 * F.p
    np.testing.assert_allclose(general(X), F(X), rtol=1e-12, atol=1e-13)
    assert np.abs(general(2 * X) - F(2 * X)).max() > 1e-3  # the lemma is about unit vectors, and needs them


def test_parities_are_members_of_concept_1_and_so_of_concept_2():
    for target in (ParityTarget(beta=0.5), ParityTarget.theorem2(12, 4, alpha=0.4, key=0), ParityTarget.product(8)):
        concept = target.concept()
        assert concept.concept == 1
        X = target.inputs(40, key=1)
        unit = X / (target.size * math.sqrt(target.d))
        wanted = target.values(X) / (target.beta * math.sqrt(target.outputs))
        np.testing.assert_allclose(concept.values(unit), wanted, atol=1e-10)
        assert concept.norms(200) == pytest.approx((1.0, 1.0))
        np.testing.assert_allclose(concept.general().values(unit), wanted, atol=1e-9)


def test_complexities_by_hand():
    found = ParityTarget.theorem2(50, 4, alpha=0.1, key=0).complexity(C=10.0)
    # F_r = √(d/k) x_i = √(2d/k) (e_i/√2)·x: C_s = C · 2 √(2d/k), and C_ε = (C + C √log(1/ε)) √(2d/k)
    size = math.sqrt(2 * 50 / 4)
    assert found.F.p == 1
    assert math.exp(found.F.log_s) == pytest.approx(10 * 2 * size)
    assert math.exp(found.F.log_epsilon) == pytest.approx(size * 10 * (1 + math.sqrt(math.log(10))))
    # G_r = k^{3/2} z₁z₂z₃z₄ = Σ of eight fourth powers with coefficient 8 · 8²/(4! · 8)
    assert found.G.p == 8
    assert math.exp(found.G.log_s) == pytest.approx(10 * 5 * 8 * 64 / (24 * 8))
    assert (found.bound_F, found.bound_GF, found.outputs) == (1.0, 1.0, 4)
    exact = ParityTarget().complexity(C=1.0)
    # x₁x₂ = ¼((x₁ + x₂)² − (x₁ − x₂)²): two squares with coefficient (30/√8) · 4/(2! · 2)
    assert (exact.F.p, exact.G.p) == (2, 8)
    assert math.exp(exact.F.log_s) == pytest.approx(3 * 30 / math.sqrt(8))


def test_concept_2_costs_no_more_than_twice_the_terms():
    target = HierarchicalTarget("exp", SmoothFunction("cos", 2.0), 0.1, d=3)
    one, two = target.complexity(C=10.0), target.general().complexity(C=10.0)
    for before, after in ((one.F, two.F), (one.G, two.G)):
        assert after.p == 2 * before.p
        assert after.log_s <= before.log_s
        assert after.log_epsilon <= before.log_epsilon
    # e^{√2 z} has C_s = C Σ (i + 1) √2^i/i! = C (1 + √2) e^√2; its part without even powers has less
    assert math.exp(one.F.log_s) == pytest.approx(10 * (1 + math.sqrt(2)) * math.exp(math.sqrt(2)))
    assert two.F.log_s < one.F.log_s - 0.1


def test_complexities_of_ground_truths_by_hand():
    two = TwoLayerTarget.draw(5, p=3, functions=("exp", "sin", "square"), key=0).complexity(epsilon=0.01, C=10.0)
    radius = math.sqrt(math.log(300))
    assert (two.p, two.radius) == (3, pytest.approx(radius))
    assert two.log_first == pytest.approx(10 * radius)  # exp: Σ (CR)^i/i! = e^{CR}
    fast = ThreeLayerTarget.cosines(np.eye(4)[0], np.eye(4)[1]).complexity(epsilon=0.01)
    wanted = 100 * 1e4 * math.sqrt(math.log(100)) - math.log(2)  # ln cosh, far beyond what a float can hold
    assert fast.log_first == pytest.approx(wanted, rel=1e-12)
    R = math.sqrt(math.log(100))
    assert fast.log_second == pytest.approx(wanted + math.log(1e4 * R), rel=1e-12)  # identity: C R₂ = C C(φ, R) R
    deep = ThreeLayerTarget.draw(5, p1=1, p2=4, outer="square", first="identity", second="one", key=0)
    found = deep.complexity(epsilon=math.exp(-4.0), C=10.0)  # φ: C·2 = 20; R₂ = √4·20·2 = 80; Φ: (C·80)²
    assert (math.exp(found.log_first), math.exp(found.log_second)) == pytest.approx((20.0, 640_000.0))
    assert math.isinf(ThreeLayerTarget.draw(5, first="tanh", key=0).complexity().log_first)  # 10⁴ is beyond π/2
    with pytest.raises(ValueError, match="`epsilon` is 2; expected a number between 0 and 1"):
        deep.complexity(epsilon=2)
    assert "e^" in str(found)
    huge = ThreeLayerTarget.draw(5, outer="exp", key=0).complexity()  # finite, though its logarithm leaves float64
    assert isinstance(huge.log_second, Decimal)
    assert "inf" not in str(huge)
    assert "C(Φ, e^21460.1) = infinite" in str(ThreeLayerTarget.draw(5, outer="tanh", key=0).complexity())


def test_the_second_layer_has_the_radius_that_the_first_gives():
    """φ(z) = z³ and Φ(z) = z²: C(φ, R) = (CR)³, R₂ = √p₂ (CR)³ R, C(Φ, R₂) = (CR₂)²."""
    cube, square, epsilon, C, p2 = series("cube"), series("square"), 0.1, 3.0, 5
    found = with_second_layer([cube, cube], [square] * 4, p2, epsilon, C)
    R = math.sqrt(math.log(1 / epsilon))
    first = 3 * math.log(C * R)
    radius = 0.5 * math.log(p2) + first + math.log(R)
    second = 2 * (math.log(C) + radius)
    wanted = LayerComplexity(4, first, R, epsilon, C, second, radius)
    assert asdict(found) == pytest.approx(asdict(wanted), rel=1e-12)


@pytest.mark.parametrize("outer", ["identity", "square", "sin"])
def test_both_rooms_take_the_radius_of_lemma_5_3(outer):
    target = ThreeLayerTarget.draw(5, p1=2, p2=3, outer=outer, first="sin", second="cos", key=0)
    mine = target.complexity(epsilon=0.01, C=2.0)
    _, theorem = three_layer_scales(series(outer), [series("sin"), series("cos")], 0.01, p1=2, p2=3, C=2.0)
    parts = dict(theorem.of("M").parts)
    assert mine.log_first == pytest.approx(parts["C(φ, √log(1/ε))"], rel=1e-14)
    assert mine.log_second == pytest.approx(parts["C(Φ, R₂)"], rel=1e-14)


def test_a_bound_that_is_infinite_is_said_so():
    found = HierarchicalTarget("tanh", "exp", 0.1, d=3, law="cube").complexity()  # √2·√3/√2 is beyond π/2
    assert (found.bound_F, found.lipschitz_G, found.bound_GF) == (math.inf, math.inf, math.inf)


def test_bounds_hold_on_points_and_are_not_loose():
    rng = np.random.default_rng(2)
    F = _drawn_sum(rng, 3, 2, 3, ["exp", "sin"])
    for target in (F, general_sum(F)):
        X, Z = sphere_inputs(2000, 3, key=0), sphere_inputs(2000, 3, key=1)
        sizes = np.linalg.norm(target(X), axis=1)
        assert sizes.max() <= target.bound(1.0)
        slopes = np.linalg.norm(target(X) - target(Z), axis=1) / np.linalg.norm(X - Z, axis=1)
        assert slopes.max() <= target.lipschitz(1.0)
    one = coordinatewise("exp", 1)  # the largest value and slope of e^z on [−1, 1]
    assert (one.bound(1.0), one.lipschitz(1.0)) == pytest.approx((math.e, math.e))


def test_drawn_sets_by_name():
    data = load("parity", train=300, test=200, key=4)
    assert (data.n, data.d, data.k, data.test.n, data.task) == (300, 30, 8, 200, "regression")
    np.testing.assert_array_equal(data.y, ParityTarget()(data.X))
    again, other = load("parity", train=300, key=4), load("Parity", train=300, key=5)
    assert np.array_equal(data.X, again.X)
    assert not np.array_equal(data.X, other.X)
    data = load("sparse-parity", train=300, test=200)
    assert (data.task, data.classes, data.d) == ("binary", (1, -1), 40)
    np.testing.assert_allclose(data.y, 40**3 * data.X[:, :6].prod(axis=1))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ParityTarget(d=10), "`sets` has (10, 11) at 5; expected different coordinates from 0 to 9"),
        (lambda: ParityTarget(d=0), "`d` is 0; expected a whole number ≥ 1"),
        (lambda: ParityTarget(alpha=math.nan), "`alpha` is nan; expected a finite number"),
        (lambda: ParityTarget(size=0.0), "`size` is 0.0; expected a finite number > 0"),
        (lambda: ParityTarget(sets=()), "`sets` is empty"),
        (lambda: ParityTarget(sets=3), "`sets` is 3; expected sets of coordinates"),
        (lambda: ParityTarget(sets=((0, 0),), groups=()), "`sets` has (0, 0) at 0"),
        (lambda: ParityTarget(groups=((0,),)), "`groups` has 1 sets; expected 8, one an output, or none"),
        (lambda: ParityTarget.pairs(10), "`d` is 10; 8 outputs need 16 coordinates, two each"),
        (lambda: ParityTarget.pairs(outputs=6), "`outputs` is 6; expected a multiple of `group`, 4"),
        (lambda: ParityTarget.theorem2(3, 4, key=0), "`k` is 4; there are 3 coordinates"),
        (lambda: ParityTarget.product(5), "`degree` is 6; there are 5 coordinates"),
        (lambda: ParityTarget()(np.ones((2, 29))), "`X` has 29 columns; the target takes 30"),
        (lambda: ParityTarget().sample(0, key=0), "`n` is 0; expected a whole number ≥ 1"),
        (lambda: ParityTarget().sample(5, key=0, flips=0.1), "`flips` is for targets with values ±1; this one gives"),
        (lambda: ParityTarget().sample(5, key=0, flips=2), "`flips` is 2"),
        (lambda: ParityTarget().sample(5, key=0, noise=math.inf), "`noise` is inf"),
        (lambda: ParityTarget(beta=0.0).concept(), "`beta` is 0; Concept 1 is about F + αG(F)"),
        (lambda: TwoLayerTarget.draw(5).complexity(0), "`epsilon` is 0; expected a number between 0 and 1"),
        (lambda: padded_inputs(2, 3.5, key=0), "`d` is 3.5; expected a whole number ≥ 1"),
        (lambda: SmoothSum([[1.0]], [[HALF]], "sin")(np.ones((2, 3))), "`X` has 3 columns; SmoothSum(d=1"),
        (lambda: HierarchicalTarget(SmoothSum([[1.0]], [[HALF]], "sin"), "sin", 0.1, d=4), "`d` is 4 and `F` takes 1"),
        (
            lambda: TwoLayerTarget([[1.0]], [[1.0]], [[1.0]], "sin", math.nan),
            "`scale` is nan; expected a finite number",
        ),
        (lambda: whole_cube(30), "`d` is 30; 2^30 points are too many"),
        (lambda: HierarchicalTarget("sin", "cos", 0.1), "`d` is not given and `F` does not know it"),
        (lambda: HierarchicalTarget("sin", "cos", 0.1, law="torus", d=2), "`law` is 'torus'"),
        (lambda: HierarchicalTarget("sin", 3, 0.1, d=2), "`G` is 3; expected a function"),
        (lambda: HierarchicalTarget("sin", lambda h: h[:, :1], 0.1, d=2), "`G` gave shape (2, 1) for (2, 2)"),
        (lambda: HierarchicalTarget(lambda X: X * np.nan, "sin", 0.1, d=2), "`F` gave a value that is not finite"),
        (lambda: HierarchicalTarget(np.sin, "sin", 0.1, d=2).general(), "`general` is for Concept 1"),
        (
            lambda: HierarchicalTarget("sin", "cos", 2.0, d=2).complexity(),
            "`epsilon` is 2.0; expected a number between",
        ),
        (lambda: SmoothSum([[2.0]], [[HALF]], "sin"), "`a` has an entry of size 2; expected at most 1"),
        (lambda: SmoothSum([[1.0]], [[1.0]], "sin"), "`W` has a vector whose norm is not 1/√2"),
        (lambda: SmoothSum([[1.0]], [[HALF], [HALF]], "sin"), "`W` has shape (1, 2, 1); expected (1, 1, d)"),
        (lambda: SmoothSum([[1.0]], [[HALF]], [["sin"], ["cos"]]), "`functions` has 2 rows of functions; expected 1"),
        (lambda: SmoothSum([[1.0]], [[HALF]], np.sin).complexity(0.1), "needs the power series of its functions"),
        (lambda: GeneralSum([[1.0]], [[0.6, 0.8]], [[1.0, 0.0]], "exp"), "`functions` has exp with even powers"),
        (lambda: load("parity", test=0.5), "`test` is 0.5"),
        (lambda: load("parity", label="y"), "`label` is 'y' but data set 'parity' has no named columns"),
    ],
)
def test_bad_arguments_are_one_line(make, said):
    with pytest.raises(ValueError, match=re.escape(said)) as raised:
        make()
    assert "\n" not in str(raised.value)
