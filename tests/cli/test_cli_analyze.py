"""`overparam analyze` and `overparam report` as people run them."""

import html
import json
import re

import numpy as np
import pytest

import overparam as op
from overparam.analysis.data_kinds import SAID
from overparam.cli import run
from overparam.core.bracketed import Interval
from overparam.core.words import as_sure_as, measured, percent


@pytest.fixture
def table(tmp_path):
    """60 rows, three features, a text label; two equal rows."""
    random = np.random.default_rng(4)
    X = random.normal(size=(60, 3))
    X[41] = X[7]
    lines = ["a,b,c,kind"]
    lines += [",".join(f"{v:.9g}" for v in row) + (",cat" if row[0] > 0 else ",dog") for row in X]
    file = tmp_path / "pets.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_digits_when_nothing_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["analyze", "--max-rows", "200"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    words = " ".join(out.split())
    assert "digits" in words
    assert "These labels can be learned" in words
    assert "200 of 1,797 rows" in words
    assert "overparam-out/analyze-digits/report.html" in words
    assert sorted(p.name for p in (tmp_path / "overparam-out" / "analyze-digits").iterdir()) == [
        "arrays.npz",
        "labels.csv",
        "report.html",
        "result.json",
    ]
    saved = op.read(tmp_path / "overparam-out" / "analyze-digits")
    assert saved.n == 200
    assert any("200 of 1,797 rows were used, the first in file order" in note for note in saved.notes)


def test_json_is_json_and_nothing_else(table, tmp_path, capsys):
    assert run(["analyze", str(table), "--json", "--out", str(tmp_path / "o"), "--seed", "7"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    document = json.loads(out)
    stored = json.loads((tmp_path / "o" / "result.json").read_text())
    assert document == stored
    assert document["provenance"]["seed"] == 7
    assert document["values"]["classes"] == ["cat", "dog"]


def test_the_plan_is_shown_and_nothing_is_done(table, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["analyze", str(table), "--plan"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "60 rows of 3 features" in out
    assert re.search(r"about [\d.]+ m?s in all", out)
    assert not (tmp_path / "overparam-out").exists()
    assert run(["analyze", str(table), "--plan", "--json", "--max-rows", "30"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 30


def test_classes_train_and_test(tmp_path, capsys):
    words = ["analyze", "digits", "--classes", "1,0", "--train", "120", "--test", "40", "--json"]
    assert run([*words, "--out", str(tmp_path / "o")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["values"]["n"], document["values"]["classes"]) == (120, ["1", "0"])
    assert document["values"]["new_data"]["test_rows"] == 40
    assert document["values"]["learnability"]["left_out_error"] < 0.05
    assert document["values"]["verdict"]["tone"] == "good"


def test_options_reach_the_analysis(table, tmp_path, capsys):
    words = ["analyze", str(table), "--label", "a", "--task", "regression", "--preprocess", "standardise", "--json"]
    assert run([*words, "--threads", "1", "--test", "0.25", "--out", str(tmp_path / "o")]) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert values["task"] == "regression"
    assert values["new_data"]["test_rows"] == 15
    assert "constant feature 1 appended" not in values["notes"]


def test_report_draws_the_same_page_again(table, tmp_path, capsys):
    out = tmp_path / "o"
    assert run(["analyze", str(table), "--out", str(out)]) == 0
    page = (out / "report.html").read_bytes()
    (out / "report.html").write_text("")
    capsys.readouterr()
    assert run(["report", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out / "report.html")
    assert (out / "report.html").read_bytes() == page
    assert b"cat" in page
    assert b"7 = 41" in page or b"41 = 7" in page


def test_no_samples_in_both_commands(table, tmp_path, capsys):
    out = tmp_path / "o"
    assert run(["analyze", str(table), "--out", str(out), "--no-samples"]) == 0
    page = (out / "report.html").read_text()
    shown = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.S)
    assert not re.search(r"\b(cat|dog)\b", shown)
    assert run(["report", str(out), "--no-samples"]) == 0
    assert (out / "report.html").read_text() == page
    assert run(["report", str(out)]) == 0
    assert re.search(
        r"\bcat\b", re.sub(r"<(script|style)[^>]*>.*?</\1>", "", (out / "report.html").read_text(), flags=re.S)
    )


def test_figures_as_files(table, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out = tmp_path / "o"
    assert run(["analyze", str(table), "--out", str(out)]) == 0
    capsys.readouterr()
    assert run(["report", str(out), "--figures", "svg"]) == 0
    lines = capsys.readouterr().out.split()
    assert len(lines) >= 7
    assert all((tmp_path / line).exists() for line in lines)


@pytest.mark.parametrize("command", [["--help"], ["analyze", "--help"], ["report", "--help"], ["--version"]])
def test_help_and_version(command, capsys):
    assert run(command) == 0
    out, err = capsys.readouterr()
    assert out
    assert err == ""


def test_no_command_shows_the_help(capsys):
    assert run([]) == 2
    out, err = capsys.readouterr()
    assert "analyze" in out
    assert err == ""


@pytest.mark.parametrize("command", ["datasets", "doctor"])
def test_the_small_commands(command, capsys):
    assert run([command]) == 0
    assert "digits" in capsys.readouterr().out or command == "doctor"
    assert run([command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_a_team_can_make_a_check_of_it(table, tmp_path, capsys):
    ask = ["analyze", str(table), "--json", "--out", str(tmp_path / "o"), "--fail-if"]
    assert run([*ask, "n<10,learnability.left_out_error>0.9"]) == 0
    assert capsys.readouterr().err == ""
    assert run([*ask, "n>10,kinds.difference.lower>0.9,kinds.best==nobody"]) == 3
    out, err = capsys.readouterr()
    assert json.loads(out)["values"]["n"] == 60
    assert err == "overparam: --fail-if: n>10 (n is 60)\n"
    assert run([*ask, "nonsense>10"]) == 2
    assert "which the result does not have" in capsys.readouterr().err


def test_decisions_on_labels_are_applied_before_the_analysis(table, tmp_path, capsys):
    (tmp_path / "labels.csv").write_text("row,decision\n3,drop\n4,dog\n")
    question = ["analyze", str(table), "--labels", str(tmp_path / "labels.csv"), "--out", str(tmp_path / "out")]
    assert run([*question, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["values"]["n"] == 59
    assert document["provenance"]["configuration"]["labels"].endswith("labels.csv")
    assert any("1 row dropped by labels.csv" in note for note in document["values"]["notes"])
    before, after = (path.read_text().splitlines() for path in (table, tmp_path / "out" / "corrected.csv"))
    assert after == [*before[:4], before[5].rpartition(",")[0] + ",dog", *before[6:]]
    (tmp_path / "labels.csv").write_text("row,decision\n3,bird\n")
    assert run(question) == 2
    assert "expected keep, drop or one of cat and dog" in " ".join(capsys.readouterr().err.split())


def _kinds_claim(kinds):
    """The leading kind and its error, as result.json has them."""
    one = next(one for one in kinds["tried"] if one["name"] == kinds["leading"])
    share = as_sure_as(one["error"]["upper"] - one["error"]["lower"])(one["error"]["value"])
    if kinds["best"] == "none":
        return f"does clearly better than guessing; {SAID[kinds['leading']]} has {share} wrong in five folds"
    if kinds["best"] == "cannot tell":
        return f"Best kind of model: cannot tell. In five folds {SAID[kinds['leading']]} has {share} wrong"
    return f"Best kind of model: {SAID[kinds['best']]}, {share} wrong in five folds"


def test_terminal_page_and_result_say_the_same(table, tmp_path, capsys):
    out = tmp_path / "o"
    assert run(["analyze", str(table), "--out", str(out)]) == 0
    terminal = " ".join(re.sub(r"[│╭╮╰╯─•]", " ", capsys.readouterr().out).split())
    values = json.loads((out / "result.json").read_text())["values"]
    page = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", (out / "report.html").read_text(), flags=re.S)
    page = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).replace("\u00a0", " ").split())
    error = values["error"]
    claims = [
        f"expect {measured(Interval(error['value'], error['lower'], error['upper'], error['level']), level=True)}",
        f"is wrong {percent(error['guess'])} of the time",
        _kinds_claim(values["kinds"]),
        f"{values['copies']} row is a copy of another",
        f"gives the target away: '{values['leak'][0]}'",
    ]
    for claim in claims:
        assert claim in terminal, claim
        assert claim in page, claim
    lines = (out / "labels.csv").read_text().splitlines()
    assert len(lines) == values["n"] + 1
    assert set(values["verdict"]["sentences"]) <= set(op.read(out).verdict.sentences)
