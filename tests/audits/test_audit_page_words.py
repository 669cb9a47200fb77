"""What an audit's page says of modules in evaluation mode and of what it does not see, and how its text is set."""

import html
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import overparam as op
from overparam.audits.subject import evaluation_notes
from overparam.core.network import Unseen
from overparam.core.sections import Table, Text
from overparam.report import blocks, style

torch = pytest.importorskip("torch")
nn = torch.nn


def audited(*layers):
    torch.manual_seed(0)
    X = np.random.default_rng(0).standard_normal((6, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    module = nn.Sequential(nn.Linear(4, 8), *layers, nn.Linear(8, 1))
    return op.audit(op.from_torch(module, X[:1]), (X, np.sign(X[:, 0])), laws="forward norms", effort="quick")


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5)], "batch norm with its running averages, dropout off"),
        ([nn.ReLU(), nn.AlphaDropout(0.5)], "dropout off"),
        ([nn.BatchNorm1d(8), nn.ReLU()], "batch norm with its running averages"),
        ([nn.ReLU()], None),
    ],
)
def test_layers_that_do_otherwise_in_training_are_told(layers, words):
    found = audited(*layers)
    page = str(found.sections())
    if words is None:
        assert not any("evaluation mode" in note for note in found.notes)
        assert "evaluation mode" not in page
    else:
        note = f"the module in evaluation mode: {words}"
        assert found.notes[-1] == note
        assert note in page


def test_batch_norm_without_averages_is_not_said_to_use_them():
    module = op.from_torch(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, track_running_stats=False)), np.eye(2))
    (note,) = evaluation_notes(module)
    assert "running" not in note
    assert evaluation_notes(op.networks.FullyConnected(4, 2)) == ()


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (nn.GELU(), "gelu"),
        (nn.ReLU6(), "relu6"),
        (nn.ReLU6(inplace=True), "relu6"),
        (nn.Hardtanh(), "hardtanh"),
        (nn.Hardtanh(0.0, 1.0), "hardtanh"),
    ],
)
def test_what_is_not_seen_is_said_once_and_by_its_name(layer, name):
    found = audited(nn.ReLU(), layer)
    assert found.unseen == (f"{name} (not of the ReLU kind)",)
    told = [sentence for sentence in found.verdict.sentences if "ot seen" in sentence]
    assert len(told) == 1
    assert told[0].lower().count("not seen") == 1


def test_other_things_that_are_not_seen():
    assert [str(Unseen("maximum", ("max pooling",))), str(Unseen("other axis"))] == [
        "max pooling (linear in pieces): which of its inputs is the largest",
        "a ReLU whose first axis is not the samples",
    ]


def test_exponents_are_raised_and_everything_is_escaped():
    words = "‖D‖ ≤ O(m ω^{2/3} L^{9/2}), ω^−0.34 & ∇_{W_L}F < <b>1</b>"
    shown = blocks.text(Text(words))
    assert "ω<sup>2/3</sup> L<sup>9/2</sup>), ω<sup>−0.34</sup> &amp; ∇<sub>W_L</sub>F &lt; &lt;b&gt;1" in shown
    bare = re.sub(r"</?su[pb]>", "", shown)
    for kept in ("a^2", "x^", "^{}", "ω^x", "{2}"):  # columns of the data and the like
        assert html.unescape(blocks.shown(kept)) == kept
    assert "{" not in bare
    bad = blocks.shown("x^{<b onclick=y>}")
    assert "<b" not in bad
    assert set(re.findall(r"</?(\w+)", bad)) == {"sup"}
    cell = blocks.table(Table(("a", "b"), (("law", "ω ≤ C/(L^{9/2} log³ m)"),), "at ω^{1/3}"))
    assert cell.count("<sup>") == 2
    assert 'aria-label="at ω^{1/3}"' in cell, "no tags within an attribute"


def test_tables_of_many_columns_are_set_narrower():
    def made(columns):
        return blocks.table(Table(tuple("abcdefgh"[:columns]), (("x",) * columns,)))

    assert 'class="table broad"' in made(8)
    assert "broad" not in made(6)
    css = style.packaged("page.css")
    assert ".broad .state { white-space: normal; }" in css


def test_the_words_about_one_sample_and_one_output():
    from overparam.audits.page import _about

    about = SimpleNamespace(
        network="N", widths=(5,), width=5, depth=0, outputs=1, rows=1, inputs=1, data="d", notes=(), separation=0.0
    )
    assert _about(about) == "N: 1 ReLU layer (L = 0), width 5, 1 output, on 1 sample of d with 1 number each."  # pyright: ignore[reportArgumentType]


def test_examples_with_pytorch_say_the_same_every_time():
    folder = Path(__file__).parents[2] / "examples"
    found = [path.read_text() for path in folder.glob("*.py") if "import torch" in path.read_text()]
    assert len(found) >= 2
    for code in found:
        assert 0 < code.find("torch.manual_seed(") < code.find("nn.Sequential(")
