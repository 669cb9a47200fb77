"""`overparam analyze` and `overparam report` as people run them."""

import html
import json
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import overparam as op
from overparam.analysis import apply_decisions
from overparam.analysis.data_kinds import HAVE, SAID
from overparam.analysis.label_decisions import corrected_data
from overparam.cli import run
from overparam.core.bracketed import Interval
from overparam.core.words import as_sure_as, measured, number, percent


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
    noise = [s for s in document["values"]["verdict"]["sentences"] if "labels are wrong" in s or "of wrong labels" in s]
    assert all("taken over from suggestions agree" in sentence for sentence in noise)
    before, after = (path.read_text().splitlines() for path in (table, tmp_path / "out" / "corrected.csv"))
    assert after == [*before[:4], before[5].rpartition(",")[0] + ",dog", *before[6:]]
    (tmp_path / "labels.csv").write_text("row,decision\n3,bird\n")
    assert run(question) == 2
    assert " ".join(capsys.readouterr().err.split()).endswith("expected keep, drop or one of cat and dog")


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "iris").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run(["analyze", "iris", "--plan"]) == 0
    first = capsys.readouterr().err.splitlines()[0]
    assert (
        first
        == "overparam: 'iris' is the set of that name that comes with overparam, not the folder here: write ./iris for that"
    )


def test_corrected_data_are_written_in_a_form_of_their_own(table, tmp_path, capsys):
    frame = pd.read_csv(table)
    before = frame.to_dict("records")
    name = frame.columns[-1]
    frame.to_parquet(tmp_path / "t.parquet")
    X = np.random.default_rng(0).normal(size=(40, 3, 3))
    np.savez(tmp_path / "t.npz", X=X, y=frame[name].to_numpy(dtype=str)[:40])
    for i in range(12):
        folder = tmp_path / "pictures" / ("cat", "dog")[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(i).integers(255, size=(4, 4), dtype=np.uint8)).save(folder / f"{i}.png")
    (tmp_path / "labels.csv").write_text("row,decision\n3,drop\n4,dog\n")
    labels = tmp_path / "labels.csv"
    ask = ["analyze", str(tmp_path / "t.parquet"), "--labels", str(labels), "--no-kinds", "--out", str(tmp_path / "o")]
    assert run(ask) == 0
    out, err = capsys.readouterr()
    assert "corrected.parquet: the table, 59 of 60 rows" in " ".join(err.split())
    assert "1 row dropped by labels.csv: 59 of 60 rows are left" in " ".join(out.replace("│", " ").split())
    for source in ("t.npz", "pictures"):
        data = op.load(tmp_path / source)
        name_, content, _ = corrected_data(data, apply_decisions(data, labels), str(tmp_path / source))
        (tmp_path / f"{source}-{name_}").write_bytes(content)
    after = pd.read_parquet(tmp_path / "o" / "corrected.parquet").to_dict("records")
    assert after == [*before[:3], before[4] | {name: "dog"}, *before[5:]]
    again = op.load(tmp_path / "t.npz-corrected.npz")
    np.testing.assert_array_equal(again.X, np.delete(X, 3, axis=0).reshape(39, 9))
    assert again.labels[3] == "dog"
    listed = pd.read_csv(tmp_path / "pictures-corrected.csv")
    assert dict(zip(listed["file"], listed["label"], strict=True))["cat/6.png"] == "dog"
    assert len(listed) == 11


def _kinds_claim(kinds):
    """The leading kind and its error, as result.json has them."""
    one = next(one for one in kinds["tried"] if one["name"] == kinds["leading"])
    share = as_sure_as(one["error"]["upper"] - one["error"]["lower"])(one["error"]["value"])
    name, has = SAID[kinds["leading"]], HAVE.get(kinds["leading"], "has")
    if kinds["best"] == "none":
        return f"gets clearly fewer rows wrong than guessing; {name} {has} {share} wrong in five folds"
    if kinds["best"] == "cannot tell":
        return f"Best kind of model: cannot tell. In five folds {name} {has} {share} wrong"
    return f"Best kind of model: {SAID[kinds['best']]}, {share} wrong in five folds"


def _all_three(ask, out, capsys):
    """What the terminal says, the words of the page, its tables apart, and the values of result.json."""
    assert run(["analyze", *map(str, ask), "--out", str(out)]) == 0
    terminal = " ".join(re.sub(r"[│╭╮╰╯─•]", " ", capsys.readouterr().out).split())
    values = json.loads((out / "result.json").read_text())["values"]
    page = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", (out / "report.html").read_text(), flags=re.S)
    tables = " ".join(re.findall(r"<table.*?</table>", page, flags=re.S))
    plain = [
        " ".join(html.unescape(re.sub(r"<[^>]+>", " ", part)).replace("\u00a0", " ").split()) for part in (page, tables)
    ]
    return terminal, *plain, values


def _same(claims, terminal, page):
    for claim in claims:
        assert claim in terminal, claim
        assert claim in page, claim


def _said(found, **how):
    return measured(Interval(**{side: found[side] for side in ("value", "lower", "upper", "level")}), **how)


def test_terminal_page_and_result_say_the_same(table, tmp_path, capsys):
    out = tmp_path / "o"
    terminal, page, _, values = _all_three([table], out, capsys)
    error = values["error"]
    claims = [
        f"expect {_said(error, level=True)}",
        f"is wrong {percent(error['guess'])} of the time",
        _kinds_claim(values["kinds"]),
        f"{values['copies']} row is a copy of another",
        f"The column '{values['leak'][0]}' gives the target away",
    ]
    _same(claims, terminal, page)
    lines = (out / "labels.csv").read_text().splitlines()
    assert len(lines) == values["n"] + 1
    assert set(values["verdict"]["sentences"]) <= set(op.read(out).verdict.sentences)


def test_they_say_the_same_of_a_test_set_and_uneven_classes(tmp_path, capsys):
    random = np.random.default_rng(3)
    frame = pd.DataFrame(random.normal(size=(190, 3)), columns=["p", "q", "r"])
    frame["kind"] = np.array(["a", "b", "c"])[np.digitize(frame["p"] + 0.3 * random.normal(size=190), [0.0, 1.3])]
    frame[:120].to_csv(tmp_path / "train.csv", index=False)
    pd.concat([frame[120:], frame[:2]]).to_csv(tmp_path / "test.csv", index=False)
    ask = [tmp_path / "train.csv", "--test-file", tmp_path / "test.csv", "--no-kinds", "--rows", 100]
    terminal, page, tables, values = _all_three(ask, tmp_path / "o", capsys)
    error = values["error"]
    least = min(error["recalls"], key=lambda one: one["recall"]["value"])
    assert (error["leading"], error["rows"]) == ("the test set", values["error"]["test_rows"])
    claims = [
        f"expect {_said(error, level=True)} of new rows wrong, measured on {error['rows']} test rows",
        f"is wrong {percent(error['guess'])} of the time",
        f"On training rows left out {_said(error['left_out']['error'])} are wrong",
        f"A random forest gets {_said(error['rival']['error'])} wrong on the same test rows",
        f"with every class counted alike {_said(error['balanced'])} are wrong",
        f"the AUC is {_said(error['auc'], share=False)}",
        f"Least found is '{least['name']}': {_said(least['recall'])} of its {least['rows']} test rows",
        f"This is of {values['n']} of the {values['total']} rows, classes in proportion",
    ]
    _same(claims, terminal, page)
    now = as_sure_as(error["left_out"]["error"]["upper"] - error["left_out"]["error"]["lower"])
    assert f"the error on training rows left out, now {now(error['left_out']['error']['value'])}," in terminal
    digits = as_sure_as(error["upper"] - error["lower"])  # the table has those of the sentence
    row = " ".join(digits(error[side]) for side in ("value", "lower", "upper"))
    assert f"on {error['rows']} test rows {row} leads" in tables
    for name in ("balanced", "auc"):
        both = " ".join(_said(side[name], share=name == "balanced") for side in (error, error["left_out"]))
        assert both in tables
    for one in error["recalls"]:
        assert f"{one['name']} {one['rows']} {_said(one['recall'])}" in tables


def test_they_say_the_same_of_doubts_growth_and_wrong_labels(tmp_path, capsys):
    random = np.random.default_rng(5)
    who = random.permutation(np.repeat(np.arange(40), 6))
    frame = pd.DataFrame(
        random.normal(size=(40, 8))[who] + 0.5 * random.normal(size=(240, 8)), columns=list("abcdefgh")
    )
    frame["ill"] = np.where(random.integers(2, size=40)[who] == 0, "no", "yes")
    frame.to_csv(tmp_path / "t.csv", index=False)
    terminal, page, _, values = _all_three([tmp_path / "t.csv", "--no-kinds"], tmp_path / "o", capsys)
    (doubt,) = values["error"]["doubts"]
    twice = values["growth"]["at_twice"]
    said = as_sure_as(twice["upper"] - twice["lower"])
    sure = ("(", ")") if values["growth"]["verdict"] != "cannot tell" else ("may be ", ",")
    claims = [
        f"the rows nearest to each left out too {_said(doubt['error'])} are wrong",
        f"With the {doubt['rows']} rows nearest to each left out too",
        f"with twice as many rows ({2 * values['n']})",
        f"{sure[0]}{said(twice['lower'])} to {said(twice['upper'])}{sure[1]}",
        f"t most {percent(values['labels']['noise']['upper'])} of",
    ]
    _same(claims, terminal, page)
    assert (doubt["kind"], values["verdict"]["tone"]) == ("nearest", "warning")


def test_they_say_the_same_of_several_targets(tmp_path, capsys):
    random = np.random.default_rng(4)
    frame = pd.DataFrame(random.normal(size=(80, 2)), columns=["p", "q"])
    frame["price"], frame["age"] = 1000 * frame["p"] + 50 * random.normal(size=80), random.normal(size=80)
    frame.to_csv(tmp_path / "t.csv", index=False)
    ask = [tmp_path / "t.csv", "--label", "price,age", "--no-kinds"]
    terminal, page, tables, values = _all_three(ask, tmp_path / "o", capsys)
    error = values["error"]
    claims = [f"expect R² = {_said(error['explained'], share=False, level=True)}, the mean of 2 targets, on new rows"]
    for one in error["targets"]:
        r2, about = _said(one["explained"], share=False), number(one["residual"]["value"], 3)
        claims.append(f"'{one['name']}' has R² = {r2} and an error of about {about}")
        assert f"{one['name']} {r2} {about}" in tables
    _same(claims, terminal, page)


def test_they_say_the_same_of_what_they_rest_on(tmp_path, capsys):
    """That rows are independent, that classes do not overlap where labels are called wrong, that ranks tell where the error does not."""
    random = np.random.default_rng(8)
    frame = pd.DataFrame(random.normal(size=(300, 4)), columns=list("abcd"))
    frame["left"] = np.where(random.random(300) < 1 / (1 + np.exp(2.0 - 1.8 * frame["a"])), "yes", "no")
    frame.loc[np.argsort(-frame["a"])[:3], "left"] = "no"
    frame.to_csv(tmp_path / "t.csv", index=False)
    terminal, page, tables, values = _all_three([tmp_path / "t.csv", "--label", "left"], tmp_path / "o", capsys)
    assumed = "This takes rows to be independent: where several are of one person, machine or place, say which with "
    assert (assumed + "--group." in terminal, assumed + "group= ." in page) == (True, True)
    listed = pd.read_csv(tmp_path / "o" / "labels.csv")
    assert values["labels"]["noise"]["kind"] == "at most"
    count = int((listed["wrong"] > 0.5).sum())
    assert count > 1
    claims = [
        "Columns are taken to be made without these labels",
        f"labels.csv lists {count} rows that are rather wrong than right, unless classes overlap there; row {listed['row'][0]} first",
        f"t most {percent(values['labels']['noise']['upper'])} of the labels are wrong",
        _kinds_claim(values["kinds"]),
        f"the AUC is {_said(values['error']['auc'], share=False)}",
    ]
    _same(claims, terminal, page)
    assert f"{count} labels rather wrong than right, unless classes overlap there." in page
    assert "wrong, if no overlap" in tables
    error = values["error"]
    chance = error["lower"] < error["guess"] <= error["upper"]
    ranked = f"the difference may be chance, how rows are ranked is not: AUC {_said(error['auc'], share=False)}."
    assert (ranked in terminal, ranked in page) == (chance, chance)
