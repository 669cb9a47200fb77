"""`op.audit` on networks of the house, Equinox and PyTorch: saved, read, on a page, and one line for what is wrong."""

import importlib
import pkgutil

import jax
import numpy as np
import pytest

import overparam as op
import overparam.audits
from overparam.audits import MEASUREMENTS, Law, audit, prepare_audit
from overparam.audits.auditing import SUBJECT
from overparam.core import folder
from overparam.core.references import STATEMENTS, parse_reference
from overparam.networks import Convolutional, FullyConnected, Residual
from overparam.report import render_page

RNG = np.random.default_rng(0)
X = RNG.standard_normal((24, 5))
Y = np.sign(X[:, 0])
NET = FullyConnected(width=32, depth=3)
START = ["forward norms", "separation"]
SMALL = {"effort": "quick", "omegas": [1e-3, 1e-2, 1e-1]}


@pytest.fixture(scope="module")
def found():
    told = []
    result = audit(NET, (X, Y), laws=[*START, "forward stability", "linearisation"], **SMALL,
                   progress=lambda *now: told.append(now))  # fmt: skip
    return result, told


def test_what_an_audit_holds(found):
    result, told = found
    assert (result.rows, result.inputs, result.outputs, result.depth, result.width) == (24, 7, 1, 2, 32)
    assert any("padded" in note for note in result.notes)
    assert result.measurements == (*START, "forward stability", "linearisation")
    moments = {f.moment for f in result.find("linearisation")}
    assert moments == {"random", "training", "adversarial"}
    assert [name for _, _, name in told] == ["reading", SUBJECT, *result.measurements, "done"]
    assert told[-1][0] == told[-1][1]
    assert result.find("forward norms")[0].verdict == "holds"
    assert result.verdict.sentences[0].startswith("The theory of wide networks")
    assert "laws that were measured hold" in result.verdict.sentences[1]
    with pytest.raises(ValueError, match="no finding of 'nothing'"):
        result.find("nothing")


def test_an_adversary_finds_at_least_what_random_perturbations_do(found):
    for name in ("forward stability", "linearisation"):
        random, adversarial = (found[0].find(name, moment)[0] for moment in ("random", "adversarial"))
        assert np.all(adversarial.values >= random.values * (1 - 1e-12))


def test_saved_read_and_the_same(found, tmp_path):
    result, _ = found
    result.save(tmp_path / "a")
    again = folder.read(tmp_path / "a")
    back = type(result).from_parts(again)
    assert back.to_rows() == result.to_rows()
    assert back.verdict == result.verdict
    for one, other in zip(result.findings, back.findings, strict=True):
        assert one.law == other.law
        assert one.range == other.range
        assert one.words == other.words
        assert np.array_equal(one.values, other.values)
        assert set(one.detail) == set(other.detail)
        assert all(np.array_equal(one.detail[name], other.detail[name]) for name in one.detail)
    assert [s.title for s in back.sections()] == [s.title for s in again.sections]


def test_the_page_has_a_row_a_law_and_small_figures(found):
    result, _ = found
    titles = [section.title for section in result.sections()]
    assert titles[0] == "What it means for this network"
    page = render_page(result.parts())
    assert page.count('class="chart small"') >= 4
    assert 'class="small-figures"' in page
    for law in {f.law.name for f in result.findings}:
        assert law in page
    assert "the law, ω^1.33" in page
    assert "<table" in result._repr_html_()


def test_the_same_key_gives_the_same_numbers():
    one, two = (audit(NET, (X, Y), laws=START, key=3, **SMALL) for _ in range(2))
    assert one.to_rows() == two.to_rows()
    other = audit(NET, (X, Y), laws=START, key=4, **SMALL)
    assert other.to_rows() != one.to_rows()


def test_rows_as_they_are_where_asked_and_where_weights_say_so():
    assert audit(NET, (X, Y), laws=START, preprocess="none", **SMALL).inputs == 5
    with jax.enable_x64(True):
        own, padded = NET.init(0, 5), NET.init(0, 7)
    assert audit(NET, (X, Y), params=own, laws=START, **SMALL).inputs == 5
    assert audit(NET, (X, Y), params=padded, laws=START, **SMALL).inputs == 7


def test_a_run_is_audited_at_its_end_and_its_radius_is_among_the_radii():
    run = op.training.gradient_descent(NET, (X, Y), lr=1e-3, steps=20, key=5)
    result = audit(NET, (X, Y), run=run, laws=["forward norms", "linearisation"], **SMALL)
    with jax.enable_x64(True):
        start = NET.init(5, 5)
    moved = max(
        np.linalg.norm(np.asarray(run.params.trained[name]) - np.asarray(W), 2) for name, W in start.trained.items()
    )
    assert any(omega == pytest.approx(moved, rel=1e-9) for omega in result.omegas)
    end = result.find("forward norms", "trajectory")[0]
    assert set(end.omegas.tolist()) == {20.0}
    with jax.enable_x64(True):
        ends = np.linalg.norm(np.asarray(NET.trace(run.params, X).activations[-1]), axis=1) / np.linalg.norm(X, axis=1)
        other = NET.init(6, 5)
    assert end.detail["largest norm by layer"][-1] == pytest.approx(ends.max())
    with pytest.raises(ValueError, match="pass `params`, the weights it began with"):
        audit(NET, (X, Y), run=run, params=other, laws=START, **SMALL)


@pytest.mark.parametrize(
    ("network", "laws"),
    [
        (Residual(width=16, depth=3), "residual network"),
        (Convolutional(width=8, depth=2, positions=5), "convolutional network"),
    ],
)
def test_other_architectures_have_their_laws(network, laws):
    result = audit(network, (X, Y), laws=laws, **SMALL)
    assert any(finding.verdict != "not measured" for finding in result.findings)
    with pytest.raises(ValueError, match="is about networks that are fully connected"):
        audit(network, (X, Y), laws="forward norms", **SMALL)


def test_every_law_names_a_registered_statement():
    for law in {id(law): law for law in _laws()}.values():
        for pair in parse_reference(law.reference):
            assert pair in STATEMENTS, law.reference
        assert law.name
        assert law.statement
        assert "\n" not in law.statement


def _laws():
    """Every `Law` that a module of the room holds by name."""
    for module in pkgutil.iter_modules(overparam.audits.__path__):
        held = vars(importlib.import_module(f"overparam.audits.{module.name}")).values()
        yield from (law for law in held if isinstance(law, Law))


def test_an_equinox_model_and_whole_number_images():
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(16, 1, 20, 2, key=jax.random.key(0))
    images = RNG.integers(0, 256, (12, 4, 4), dtype=np.uint8)
    result = audit(op.from_equinox(model), (images, np.arange(12) % 2), laws=START, **SMALL)
    assert (result.inputs, result.widths) == (16, (20, 20))
    assert result.find("forward norms")[0].range[1].status == "unmet"  # rows are as they came


def test_a_torch_module_with_two_outputs_for_two_classes():
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(5, 300), torch.nn.ReLU(), torch.nn.Linear(300, 200), torch.nn.ReLU(),
                                 torch.nn.Linear(200, 2))  # fmt: skip
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    result = audit(op.from_torch(module, torch.zeros(1, 5)), (X, Y), laws=[*START, "gradients at the start"], **SMALL)
    assert (str(result.network), result.outputs, result.widths) == ("Sequential", 2, (300, 200))
    assert "two outputs: targets ½ and −½" in result.notes
    assert result.find("forward norms")[0].verdict in ("fails", "out of range")  # PyTorch draws smaller weights
    assert all(torch.equal(weight, before[name]) for name, weight in module.state_dict().items())


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"effort": "much"}, "`effort` is 'much'; expected one of quick, usual, thorough"),
        ({"laws": "nothing"}, "`laws` has 'nothing'; expected names out of forward norms"),
        ({"omegas": [0.1, -1.0]}, "`omegas` has -1.0; expected positive numbers"),
        ({"omegas": []}, "`omegas` has no radius"),
        ({"omegas": ["a"]}, "expected radii such as"),
        ({"max_rows": 0}, "`max_rows` is 0; expected a whole number ≥ 1"),
        ({"key": -1}, "`key` is -1; expected a whole number"),
        ({"preprocess": "some"}, "`preprocess` is 'some'; expected 'auto', 'paper' or 'none'"),
        ({"params": {"W1": np.zeros((2, 2))}}, "`params` is a dict; expected those of `net.init"),
        ({"run": 3}, "`run` is a int; expected the `Trajectory`"),
        ({"dtype": "float16"}, "`dtype` is 'float16'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(given, line):
    with pytest.raises(ValueError, match=r".") as error:
        audit(NET, (X, Y), **{"laws": START, "effort": "quick", **given})
    assert line in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("network", "data", "line"),
    [
        ("a net", (X, Y), "`network` is a str; expected one of op.networks, or what `op.from_torch`"),
        (FullyConnected(8, 2, outputs=3), (X, Y), "the network has 3 outputs and the data 1 targets a row"),
        (NET, (np.where(X > 9, X, np.nan), Y), "NaN"),
        (NET, (X[:, 0], Y), "one axis"),
        (NET, (X[:1], Y[:1]), "arrays has 1 row; it needs at least two"),
        (Convolutional(2, 2, 4), (X, Y), "set `positions`"),
    ],
)
def test_networks_and_data_that_do_not_fit(network, data, line):
    with pytest.raises(ValueError, match=r".") as error:
        audit(network, data, laws="separation", effort="quick")
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_one_row_and_equal_rows_are_measured_as_far_as_they_go():
    one = audit(NET, (X, Y), max_rows=1, laws=START, **SMALL)
    assert one.find("separation in every layer")[0].verdict == "not measured"
    assert "Not measured" in " ".join(one.verdict.sentences)
    equal = audit(NET, (np.vstack([X, X[:1]]), np.append(Y, Y[0])), laws=START, **SMALL)
    assert equal.separation == 0


def test_a_network_of_twice_the_weights_is_told_so():
    net = FullyConnected(width=200, depth=3)
    with jax.enable_x64(True):
        start = net.init(0, 7)
        twice = type(start)({name: 2 * W for name, W in start.trained.items()}, start.fixed, start.state)
    result = audit(net, (X, Y), params=twice, laws="forward norms", **SMALL)
    assert result.verdict.tone == "bad"
    words = " ".join(result.verdict.sentences)
    assert "the length of samples grows on the way through the layers" in words


def test_a_plan_is_made_before_anything_is_measured(monkeypatch):
    plan = prepare_audit(NET, (X, Y), effort="quick").plan
    named = [name for name, row in MEASUREMENTS.items() if "fully connected" in row.architectures]
    assert list(plan.seconds_by)[1:] == named
    assert min(plan.seconds_by[name] for name in named) >= 1.5
    assert "FullyConnected(width=32, depth=3)" in str(plan)
    monkeypatch.setattr("overparam.audits.auditing.available_memory", lambda: 1000)
    with pytest.raises(ValueError, match=r"fewer rows \(`max_rows`\) or a smaller width"):
        audit(NET, (X, Y), laws=START, effort="quick")
