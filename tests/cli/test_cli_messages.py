"""What the command line says of its own options: names that exist, values to begin with, numbers and nouns that agree."""

import ast
import os
import re
from pathlib import Path

import pytest

import overparam as op
from overparam.cli import analyze, compare, diff, foresee, run
from overparam.cli.driver import _data_options, _parameters, _shared_options, in_options, option_names, require_writable

SOURCE = Path(op.__file__).parent
OPTIONS = [{each.name: each for each in _parameters(signature)} for signature in (_data_options, _shared_options)]
OPTIONS += [
    {name: each for name, each in room.command.__signature__.parameters.items() if name != "key"}
    for room in (analyze, compare, diff, foresee)
]

HOLES = "a,b,y\n1,,x\n2,3,y\n3,4,x\n5,1,y\n"
QUICK = ["--width", "8", "--train", "20", "--effort", "quick"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(words, capsys):
    """The one line of a command that cannot be done."""
    assert run(words) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    return line


@pytest.mark.parametrize("command", ["audit", "landscape"])
def test_commands_whose_network_is_an_argument_name_no_option_for_it(place, capsys, command):
    line = said([command, "two-layer", "digits"], capsys)
    assert "--network" not in line
    assert "--classes, or as NETWORK take fully-connected or biased-two-layer" in line
    line = said([command, "recurrent", "digits"], capsys)
    assert line.startswith("overparam: NETWORK is 'recurrent'")


def test_train_names_its_option(place, capsys):
    assert "as --network take fully-connected or biased-two-layer" in said(["train", "digits"], capsys)
    for name in ("fully-connected", "biased-two-layer"):  # what is named does take many outputs
        assert run(["train", "digits", "--train", "30", "--network", name, "--width", "8", "--plan"]) == 0


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--target", "zz"], "no label column 'zz'"),
        ([], "pass --missing mean to fill them, --missing drop to drop those rows"),
        (["--missing", "fill"], "--missing is 'fill'; expected 'error', 'mean' or 'drop'"),
        (["--missing", "drop", "--task", "sorting"], "--task is 'sorting'"),
        (["--missing", "drop", "--test", "90"], "--test"),
        (["--missing", "mean", "--classes", "x,z"], "--classes names 'z'"),
        (["--missing", "mean", "--preprocess", "whiten"], "--preprocess has the step 'whiten'"),
    ],
)
def test_data_options_are_named_as_they_are_typed(place, capsys, more, expected):
    (place / "holes.csv").write_text(HOLES)
    line = said(["analyze", "holes.csv", *more], capsys)
    assert expected in line
    assert "`" not in line
    assert not re.search(r"\w='", line)


def test_python_still_hears_of_its_argument(place):
    (place / "holes.csv").write_text(HOLES)
    with pytest.raises(ValueError, match="missing='mean'"):
        op.load("holes.csv")


def test_what_is_no_option_stays_as_it_is():
    for line in ("the test rows have 3 features", "`X` has NaN", "--width is 0", "subtask='x'"):
        assert in_options(line, {"test": "--test", "task": "--task"}) == line


def messages():
    """Every text of the rooms a command goes through, as a template with x for what is put in."""
    for room in ("analysis", "data", "core", "frame", "engines", "theory", "training", "networks", "cli"):
        for path in sorted((SOURCE / room).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
            for node in ast.walk(tree):
                if id(node) in prose | inner:
                    continue
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield path.name, node.value
                elif isinstance(node, ast.JoinedStr):
                    yield path.name, "".join(_part(each) for each in node.values)


def _part(each):
    if isinstance(each, ast.Constant):
        return each.value
    return "'x'" if each.conversion == ord("r") else "x"


def test_no_message_of_data_or_of_an_answer_speaks_python():
    names = option_names({name: each for option in OPTIONS for name, each in option.items()})
    python = re.compile(rf"\b({'|'.join(names)})=(?!\()|`--|`({'|'.join(names)})`")
    seen = [(file, text) for file, text in messages() if python.search(text) and " " in text]
    assert len(seen) > 50, "the walk finds them"
    assert {(file, in_options(text, names)) for file, text in seen if python.search(in_options(text, names))} == set()


def test_the_verdict_in_the_terminal_names_options(place, capsys):
    rows = "\n".join(f"{100 + i},{(7 * i) % 11},{'ab'[i % 2]}" for i in range(30))
    (place / "t.csv").write_text(f"id,a,kind\n{rows}\n")
    assert run(["analyze", "t.csv", "--no-kinds", "--rows", "20"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert "--ids keep keeps it" in shown
    assert "--max-rows takes more" in shown
    assert "ids='keep' keeps it" in str(op.read("overparam-out/analyze-t").verdict), "Python hears of its arguments"


def test_no_data_named(capsys):
    assert "DATA is empty; expected a name, a file or a folder" in said(["analyze", ""], capsys)


def test_a_rate_to_begin_with_is_one_that_trains(place, capsys):
    words = ["train", "wine", "--network", "residual", "--width", "16", "--steps", "20"]
    rates = []
    for loss in ("sum", "mean"):
        line = said([*words, "--loss", loss], capsys)
        assert "--lr is missing" in line
        rates.append(float(line.split("begin with --lr ")[1]))
    rate, rows = rates[0], 178 * 4 // 5
    assert rates[1] / rate == pytest.approx(rows, rel=0.35), "each has one digit"
    assert list(place.iterdir()) == []
    losses = {}
    for factor in (1, 8):  # half the largest stable rate, and four times that
        assert run([*words, "--lr", str(factor * rate), "--out", f"x{factor}"]) == 0
        losses[factor] = op.read(f"x{factor}").run.loss
    assert losses[1][-1] < 0.8 * losses[1][0]
    assert (losses[1][1:] <= losses[1][:-1]).all()
    assert not (losses[8][1:] <= losses[8][:-1]).all(), "not smaller than it needs to be"


def test_a_rate_is_still_found_where_the_kernel_at_the_start_gives_one(place, capsys):
    words = ["train", "wine", "--classes", "0,1", "--network", "residual", "--width", "8", "--steps", "2"]
    assert run(words) == 0


@pytest.mark.parametrize("laws", ["", " , "])
def test_no_law_named(place, capsys, laws):
    line = said(["audit", "fully-connected", "wine", *QUICK, "--laws", laws], capsys)
    assert f"--laws is {laws!r}" in line
    with pytest.raises(ValueError, match="`laws` names none"):
        op.audit(op.networks.FullyConnected(8, 2, outputs=3), op.load("wine", train=9), laws=[])


@pytest.mark.parametrize("dtype", ["float16", "tf32"])
def test_precisions_an_audit_does_not_take_are_not_offered(place, capsys, dtype):
    line = said(["audit", "fully-connected", "wine", *QUICK, "--dtype", dtype], capsys)
    assert line.endswith("; audits take 'float64' or 'float32'\n")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="a folder in which nobody can write")
@pytest.mark.parametrize(
    "words",
    [
        ["audit", "fully-connected", "wine", *QUICK, "--laws", "separation"],
        ["landscape", "fully-connected", "wine", "--width", "8", "--train", "20", "--points", "3"],
        ["train", "wine", "--classes", "0,1", "--width", "8", "--steps", "1"],
        ["analyze", "wine"],
        ["reproduce", "fine-grained-fig1"],
    ],
    ids=lambda words: words[0],
)
def test_a_folder_that_cannot_be_written(place, capsys, words):
    line = said([*words, "--out", "/proc/x/y"], capsys)
    assert "the folder /proc/x/y cannot be written (" in line
    assert line.endswith("); choose another --out\n")
    assert "Errno" not in line
    assert list(place.iterdir()) == []


def test_looking_whether_a_folder_can_be_written_leaves_no_trace(place):
    (place / "there").mkdir()
    for name in ("there", "new", "new/deep/er", "."):
        require_writable(place / name)
    assert [path.name for path in place.rglob("*")] == ["there"]
    (place / "file").write_text("")
    for name in ("file", "file/deeper"):
        with pytest.raises(ValueError, match="is a file"):
            require_writable(place / name)


def test_one_of_a_thing_is_not_several(place, capsys):
    words = ["audit", "fully-connected", "wine", *QUICK, "--laws", "separation", "--omegas", "0.1", "--out", "o"]
    assert run(words) == 0
    assert "20 rows, 1 measurement, 1 radius, " in capsys.readouterr().out
    page = str(op.read("o").parts().sections[1:])
    assert not re.search(r"\b1 \w+s\b|\b1 ReLU layers|Radii ω = 0.1:", page)
    assert "Radius ω = 0.1:" in page
    assert run(["train", "wine", "--classes", "0,1", "--width", "8", "--steps", "1", "--out", "t"]) == 0
    assert "1 step of " in capsys.readouterr().out
