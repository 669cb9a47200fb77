"""What a verdict may and may not say: radii of which a statement speaks, rows that were looked at, factors by which a law is loose."""

from dataclasses import replace

import numpy as np
import pytest
from away_cases import RADII, TINY, deep, subject_of, unit_rows

from overparam.audits import conditions, convergence_9_10_gradients, convergence_11_smoothness
from overparam.audits import convergence_12_13_descent as descents
from overparam.audits.convergence_7_initialisation import backward_norms, products_of_layers
from overparam.audits.convergence_8_forward import sign_changes
from overparam.audits.convergence_12_13_descent import Descent, descent, of_descent
from overparam.audits.laws import Law, made, not_measured
from overparam.audits.page import _laws, _missing, _range
from overparam.audits.perturbations import radius, spectral_norms
from overparam.core.assumptions import checked
from overparam.networks import FullyConnected

OMEGAS = np.array([1e-3, 1e-2, 1e-1, 1.0])
UPPER = Law("law", "convergence, Lemma 8.2", "≤ O(ω)", "upper", {"omega": 1.0})
LOWER = Law("law", "convergence, Thm 3", "≥ Ω(1)", "lower")


@pytest.mark.parametrize(("times", "verdict"), [([50, 1, 1, 1], "fails"), ([1, 1, 50, 50], "out of range")])
def test_a_law_that_breaks_where_its_statement_speaks_fails(times, verdict):
    asked = (conditions.within(OMEGAS, 0.05, "ω ≤ 0.05"),)
    found = made(UPPER, "random", OMEGAS, np.array(times) * OMEGAS, OMEGAS, asked, spoken=OMEGAS <= 0.05)
    assert found.verdict == verdict


def test_measurements_tell_at_which_radii_their_statements_speak():
    subject = subject_of(FullyConnected(width=8, depth=2), unit_rows(3, 3), omegas=(1e-3, 1.0))
    speaks = conditions.speaks(conditions.of_forward, subject)
    assert (speaks(1e-3), speaks(1.0)) == (True, False)  # the limit is 1/log³ 8 = 0.11


def test_one_unit_next_to_zero_is_no_violation():
    """mω^{2/3}L is far below 1 there, and the lemma's probability 1 − e^{−Ω(mω^{2/3}L)} is nothing."""
    subject = subject_of(FullyConnected(width=64, depth=2), unit_rows(1000, 5), omegas=(1e-6, 3e-6, 1e-5))
    worst = next(f for f in sign_changes(subject) if f.law.name == "sign changes" and f.moment == "adversarial")
    assert worst.values.max() >= 1
    assert worst.constant > 10
    assert worst.verdict == "out of range"


def test_conditions_count_the_rows_that_were_looked_at():
    subject = subject_of(FullyConnected(width=256, depth=3), unit_rows(200, 5), effort=replace(TINY, rows=8))
    for finding in (products_of_layers(subject)[0], backward_norms(subject)[1]):
        assert "8 of 200 rows" in finding.words
        (wide,) = [c for c in finding.range if "nL log(nL)" in c.statement]
        assert wide.status == "met"  # 8 · 2 · log 16 = 44


@pytest.mark.parametrize("seed", range(4))
def test_the_kernel_of_equal_rows_is_singular_whatever_rounding_says(seed):
    X = unit_rows(6, 5, seed)
    X[3] = X[1]
    found = descent(subject_of(FullyConnected(width=24, depth=3, outputs=2), X, key=seed))
    against = [f for f in found if "against the kernel" in f.law.name]
    assert len(against) == 2
    assert all("singular" in f.words for f in against)


def test_the_training_direction_is_the_displacement():
    subject = deep(n=6, width=32, depth=4)
    moved = subject.training_displacement
    again = subject.perturbation("training", radius(moved))
    for name in moved:
        np.testing.assert_allclose(again[name], moved[name], rtol=1e-9, atol=1e-14)
    norms = [spectral_norms(moved[name])[0] for name in moved]
    assert max(norms) > 1.05 * min(norms)  # or scaling layer by layer would do as well


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


def test_separations_beyond_one_over_L_count_as_that():
    subject = deep()
    L, m, n, k = 3, 8, 4, 2
    assert subject.separation > 1 / L
    lower = next(f for f in convergence_9_10_gradients.gradient_bounds(subject) if f.law.name == "gradient lower bound")
    np.testing.assert_allclose(lower.bounds, m / (L * k * n))
    steps = np.arange(5)
    run = Descent("gradient descent", n, steps, np.exp(-0.1 * steps), np.ones(5), 0.1, n, 0.5, 2.0)
    np.testing.assert_allclose(of_descent(subject, run)[0].bounds, m / (L * k * n**2))


def test_semi_smoothness_names_no_power_of_m():
    """√m in one term and m in the other: which counts depends on ω."""
    assert "m" not in convergence_11_smoothness.AT_START.exponents
    assert "m" not in convergence_11_smoothness.AWAY.exponents


def test_many_outputs_are_looked_at_on_fewer_rows(monkeypatch):
    monkeypatch.setattr(descents, "MOST", 12)
    found = descent(subject_of(FullyConnected(width=6, depth=2, outputs=4), unit_rows(9, 3)))
    measured = [f for f in found if f.verdict != "not measured"]
    assert measured
    assert all("On 3 of 9 rows." in f.words for f in measured)


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


def test_a_loose_law_says_by_how_much():
    found = made(LOWER, "start", [0.0], [814_321.0], [1.0])
    assert "loose by 814,000" in found.words
    assert "loose by 20" in made(UPPER, "random", OMEGAS, 0.05 * OMEGAS, OMEGAS).words
    assert "loose" not in made(UPPER, "random", OMEGAS, 2 * OMEGAS, OMEGAS).words
    (row,) = _laws({"law": [found]}).rows
    assert row[1].startswith("holds, loose by")


def test_a_statement_of_another_paper_keeps_its_name():
    law = Law("coupling", "beyond_two_layers, Lemma 5.5", "≤ O(1)", "upper")
    (row,) = _laws({"coupling": [made(law, "start", [0.0], [1.0], [1.0])]}).rows
    assert row[-1] == "beyond_two_layers, Lemma 5.5"


def test_words_of_what_is_missing_and_of_what_holds_out_of_range():
    one, two = (Law(name, "convergence, Thm 3", "≤ O(1)", "upper") for name in ("first", "second"))

    class Told:
        unseen = ()
        findings = (not_measured(one, "start", "there is one row"), not_measured(two, "start", "no layer is trained"))

    words = " ".join(_missing(Told()))
    assert "first: there is one row" in words
    assert "second: no layer is trained" in words
    unmet = (checked("rows of norm 1", False),)
    holds = [made(one, "start", [0.0], [1.0], [1.0], unmet) for _ in range(3)]
    broken = [made(two, "start", [0.0], [99.0], [1.0], unmet) for _ in range(3)]
    (sentence,) = _range(holds + broken)
    assert sentence.startswith("All of what holds")
    assert "rows of norm 1" in sentence


def test_no_critical_point_has_an_adversary_of_its_own():
    """Descent on ‖∇F‖²/F from the same starts finds no less than what is reported, but for a few percent."""
    subject = deep(n=6, width=16, depth=4, omegas=RADII)
    reported = next(
        f
        for f in convergence_9_10_gradients.gradient_bounds(subject)
        if f.law.name == "no critical point" and f.moment == "adversarial"
    )
    from overparam.audits.adversaries import Climb, Stated, findings

    own = findings(subject, [Stated(convergence_9_10_gradients.NO_CRITICAL, lambda omega: 1.0)], convergence_9_10_gradients.measured,
                   [Climb("no critical point", convergence_9_10_gradients.towards_large_gradient, value=convergence_9_10_gradients.gradient_ratio)])[-1]  # fmt: skip
    assert (reported.values <= 1.05 * own.values).all()


@pytest.mark.parametrize(("m", "depth", "samples"), [(16, 3, 40), (48, 3, 40), (48, 17, 40), (512, 5, 200)])
def test_norms_of_the_papers_own_network_break_their_limits_as_seldom_as_they_say(m, depth, samples):
    """‖h_ℓ‖²/‖h_{ℓ−1}‖² drawn as 2χ²/m of Binomial(m, ½) degrees, samples independent, which is the worst that they can be."""
    from overparam.audits.convergence_7_initialisation import FAILURE, allowed_logs

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


def test_the_adversary_of_the_kernel_climbs_on_the_kernel():
    """Ascent on K(x, x) of one sample finds several times what ascent on the drift of its gradient does."""
    from overparam.audits.adversaries import Climb, Stated, findings
    from overparam.audits.convergence_11_smoothness import KERNEL, Start, tangent_drift

    effort = replace(TINY, rows=16, ascent_steps=4, rank=4)
    subject = subject_of(FullyConnected(width=64, depth=5), unit_rows(16, 10), omegas=(0.1, 0.5), effort=effort)
    few, one = subject.on_rows(6), subject.on_rows(1)
    starts = {id(own): Start(own, 0) for own in (few, one)}

    def slope(own, weights):  # of K(x, x)/2, by a secant of our own
        now = starts[id(own)]._tangent(weights, 0)
        step = 1e-3 / np.sqrt(sum((G**2).sum() for G in now.values()))
        ahead = starts[id(own)]._tangent({name: weights[name] + step * now[name] for name in now}, 0)
        return {name: ahead[name] - now[name] for name in now}

    by_hand = findings(few, [Stated(KERNEL, lambda omega: 1.0)], lambda own, W, omega: {KERNEL.name: starts[id(own)].changes(W)[1]},
                       [Climb(KERNEL.name, slope)], few=one)[-1]  # fmt: skip
    worst = next(f for f in tangent_drift(subject) if f.law.name == KERNEL.name and f.moment == "adversarial")
    assert (worst.values >= 0.7 * by_hand.values).all()


def test_no_gradient_at_the_start_has_no_relative_change():
    from overparam.audits.convergence_11_smoothness import tangent_drift

    base = deep()
    params = replace(
        base.params, trained={name: -np.abs(W) if name == "W1" else W for name, W in base.params.trained.items()}
    )
    dead = replace(base, params=params, _kept={}, _shared={})
    assert {f.verdict for f in tangent_drift(dead)} == {"not measured"}


def test_the_study_of_n_looks_at_n_rows():
    from overparam.studies import STUDIES, prepare_reproduce
    from overparam.studies.convergence_laws import LawsSettings
    from overparam.studies.measured_laws import findings_of

    settings = LawsSettings("digits", (8, 2, 20), (8,), (2,), (20, 40), (1e-2, 1e-1), 1, "quick", ("gradient bounds",))
    job, bounds = prepare_reproduce(STUDIES["convergence-laws"], settings=settings), []
    audits = {cell.n: (name, cell) for name, (cell, _) in settings.audits().items() if "n" in cell.axes}
    for n in (20, 40):
        name, cell = audits[n]
        found = findings_of(job.make(name), cell, 0)
        upper = next(one for one in found if one.law == "gradient upper bound")
        assert upper.rows == n
        bounds.append(upper.bounds[0])
    assert bounds[1] == pytest.approx(2 * bounds[0])  # F · L n m/k
