"""What an audit says in words follows from its numbers: powers, radii, lengths, and when a law is not held to ω → 0."""

from types import SimpleNamespace

import numpy as np
import pytest
from away_cases import deep, unit_rows

from overparam.audits.adversaries import Stated, findings
from overparam.audits.conditions import drawn_as_stated
from overparam.audits.laws import Law, fit_exponent, made, not_measured
from overparam.audits.page import _laws, _missing, _range, give_words
from overparam.audits.subject import Subject
from overparam.core.bracketed import checked
from overparam.core.words import listed

RADII = np.array([1e-3, 1e-2, 1e-1, 1.0])
NOISE = np.array([1.0, 0.05, 30.0, 1.0])


def said(*found):
    audit = SimpleNamespace(findings=found, unseen=())
    return " ".join(give_words(audit).sentences)


def measured(name, values, power=1.0, moment="adversarial", **more):
    law = Law(name, "convergence, Lemma 8.2", "≤ O(ω)", "upper", {"omega": power})
    return made(law, moment, RADII[: len(values)], values, RADII[: len(values)] ** power, **more)


def test_powers_are_the_laws_faster_slower_or_not_told():
    text = said(
        measured("as stated", 0.3 * RADII),
        measured("faster", 0.3 * RADII**2),
        measured("slower", 1e-3 * RADII**0.5),
        measured("rough", 1e-2 * RADII * NOISE),
    )
    assert "is what an adversary reaches: as stated." in text
    assert "fall faster as ω shrinks than the law has it: faster (ω^2.00, the law has ω^1.00)." in text
    assert (
        "slower as ω shrinks than the law has it, so its constant grows: slower (ω^0.50, the law has ω^1.00)." in text
    )
    assert "to tell the power of ω: rough." in text


def test_values_at_rounding_are_not_fitted():
    x = np.array([1e-3, 1e-2, 1e-1, 1.0])
    assert fit_exponent(x, np.array([2e-17, 1e-3, 1e-2, 1e-1]))[0] == pytest.approx(1.0)
    assert fit_exponent(x, np.array([2e-17, 1e-17, 1e-2, 1e-1])) == (None, None)


def test_a_kernel_that_has_changed_at_the_smallest_radius_is_said_to_have():
    early = [measured("kernel drift", [0.2, 0.5, 0.9, 1.0], 1 / 3, moment) for moment in ("training", "adversarial")]
    assert "at ω = 0.001 already, the smallest radius looked at, along the direction of training and" in said(*early)
    late = [measured("kernel drift", [0.001, 0.01, 0.1, 1.0], 1 / 3, moment) for moment in ("training", "adversarial")]
    assert "A tenth of the tangent kernel has changed by ω = 0.1 along the direction of training" in said(*late)


@pytest.mark.parametrize(
    ("drift", "words"),
    [
        (
            [0.001, 0.01, 0.1, 1.0],
            "until training has moved its weight matrices by about 0.1 in spectral norm; after that",
        ),
        ([0.2, 0.5, 0.9, 1.0], "almost at once, before its weight matrices have moved by 0.001 in spectral norm"),
        (
            [0.001, 0.002, 0.01, 0.05],
            "as far as was looked, until training has moved its weight matrices by 1 in spectral norm.",
        ),
    ],
)
def test_it_opens_with_what_it_means_for_training(drift, words):
    moment = measured("kernel drift", drift, 1 / 3, "training")
    first, second, *_ = give_words(SimpleNamespace(findings=(moment,), unseen=())).sentences
    assert first.startswith("The theory of wide networks describes this network")
    assert words in second
    holds = measured("as stated", 0.3 * RADII)
    fails = measured("far off", 1e3 * RADII)
    assert fails.verdict == "fails"
    assert said(holds, fails).startswith("Do not count on the theory of wide networks here")
    beyond = measured("far off", 1e3 * RADII, range=(checked("m is large", False),))
    assert said(holds, beyond).startswith("The theory of wide networks is a rough guide to this network only")
    assert said() == "No law could be measured on this network."


def test_a_length_is_called_kept_only_where_it_is():
    def norms(low, high):
        law = Law("forward norms", "convergence, Lemma 7.1", "‖h‖", "upper", {}, explicit=1.0)
        detail = {"smallest norm by layer": [low], "largest norm by layer": [high]}
        detail |= {"smallest allowed by layer": [0.1], "largest allowed by layer": [3.0]}
        return made(law, "start", [0.0], [0.5], [1.0], detail={name: np.array(v) for name, v in detail.items()})

    assert "keeps the length of every sample, within 0.91 to 1.10 times" in said(norms(0.91, 1.1))
    assert "samples are 0.37 to 0.73 times as long in the layers as they came in" in said(norms(0.37, 0.73))
    assert "allow 0.1 to 3." in said(norms(0.37, 0.73))


@pytest.mark.parametrize("bounded", [False, True])
def test_a_law_that_asks_for_a_radius_not_too_small_is_not_held_to_smaller_ones(bounded):
    """Signs change one by one, so the quantity has a floor: the constant grows as ω falls, from 1 on."""
    subject = deep(omegas=tuple(RADII))
    law = Law("floor", "convergence, Lemma 8.7", "≤ O(ω)", "upper", {"omega": 1.0})

    def measure(own, weights, omega):
        return {"floor": np.array([2.0 * omega**0.5])}

    small = findings(subject, [Stated(law, lambda omega: 30 * omega, bounded=bounded)], measure)[0]
    assert small.verdict == ("holds with constant" if bounded else "fails")
    if not bounded:
        assert "It holds up to" not in small.words
        assert "as ω falls" in said(small)
        assert "beyond ω" not in said(small)


@pytest.mark.parametrize(("scale", "bias", "status"), [(1.0, 0.0, "met"), (0.4, 0.0, "unmet"), (1.0, 0.1, "unmet")])
def test_how_a_model_was_drawn(scale, bias, status):
    torch = pytest.importorskip("torch")
    import overparam as op

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(5, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)
    ).double()
    with torch.no_grad():
        for layer in (model[0], model[2]):
            layer.weight.normal_(0, scale * (2 / 64) ** 0.5)
            layer.bias.fill_(bias)
    X = unit_rows(4, 5)
    module = op.from_torch(model, torch.tensor(X[:1]))
    subject = Subject(module, None, X, np.ones((4, 2)), (0.1,))
    told = drawn_as_stated(subject)
    assert told.status == status
    assert ("0.16" in told.detail) == (scale == 0.4)


def test_names_with_commas_are_told_apart():
    told = listed(["backward stability", "backward stability, any few signs", "x"])
    assert told == "backward stability; backward stability, any few signs and x"


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
