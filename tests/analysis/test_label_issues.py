"""`find_label_issues`, its table, and decisions read back."""

import csv
import sys

import numpy as np
import pytest

import overparam as op
from overparam.analysis import apply_decisions, data_labels
from overparam.analysis.label_decisions import COLUMNS


@pytest.fixture(scope="module", autouse=True)
def small_forest():
    """Enough trees for rows this clear."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_labels, "TREES", 150)
        yield


@pytest.fixture(scope="module")
def blobs():
    """Two well separated classes, four labels changed; the names need quotes."""
    rng = np.random.default_rng(0)
    codes = np.arange(120) % 2
    X = rng.standard_normal((120, 3)) + 4 * codes[:, None]
    labels = np.array(['a "b", c', "d"])[codes]
    changed = [5, 20, 61, 94]
    labels[changed] = np.array(["d", 'a "b", c'])[codes[changed]]
    return X, labels, changed


@pytest.fixture(scope="module")
def found(blobs):
    return op.find_label_issues(blobs[0], blobs[1])


def lines(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path, rows, columns=("row", "given", "decision")):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerows([columns, *rows])
    return path


def test_changed_labels_come_first(found, blobs):
    assert sorted(found.scored.rows[:4]) == blobs[2]
    assert found.issues == 4
    assert found.scored.noise.kind == "rate"
    assert found.scored.noise.lower < 4 / 120 < found.scored.noise.upper
    assert found.verdict.tone == "warning"
    assert "labels.csv lists 4 rows" in found.verdict.sentences[1]


def test_the_table_as_frame_and_file(found, blobs, tmp_path):
    frame = found.to_frame()
    assert tuple(frame.columns) == COLUMNS
    assert len(frame) == 120
    read = lines(found.to_csv(tmp_path / "table.csv"))
    assert [int(line["row"]) for line in read] == frame["row"].tolist()
    assert [line["given"] for line in read] == frame["given"].tolist()
    assert all(line["given"] == blobs[1][int(line["row"])] for line in read)
    assert {line["decision"] for line in read} == {""}
    assert np.allclose([float(line["margin"]) for line in read], frame["margin"], rtol=1e-5)
    place = found.save(tmp_path / "out")
    assert (place / "labels.csv").read_bytes() == (tmp_path / "table.csv").read_bytes()
    assert (found.save(tmp_path / "quiet", samples=False) / "labels.csv").exists()


def test_without_pandas_there_is_a_line(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_csv"):
        found.to_frame()


def test_decisions_are_applied(found, blobs, tmp_path):
    X, labels, changed = blobs
    path = found.to_csv(tmp_path / "labels.csv")
    read = lines(path)
    for line in read[:3]:
        line["decision"] = line["suggested"]
    read[3]["decision"], read[4]["decision"] = "drop", "keep"
    write(path, [line.values() for line in read], COLUMNS)
    fixed = apply_decisions((X, labels), path)
    assert fixed.n == 119
    assert fixed.notes[-1] == "3 labels changed and 1 row dropped by labels.csv: 119 of 120 rows are left"
    expected = labels.copy()
    for line in read[:3]:
        expected[int(line["row"])] = line["suggested"]
    rows = np.delete(np.arange(120), int(read[3]["row"]))
    assert np.array_equal(fixed.labels, expected[rows])
    assert np.array_equal(fixed.X, X[rows])
    assert np.array_equal(fixed.y, np.where(fixed.labels == fixed.classes[0], 1.0, -1.0))
    assert set(fixed.rows) == set(range(120)) - {int(read[3]["row"])}
    assert sum(row in changed for row in fixed.rows) == 3


def test_a_spreadsheet_may_write_it_again(blobs, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_bytes("\ufeffrow;decision\r\n5;drop\r\n7; keep \r\n".encode())
    assert apply_decisions(blobs[:2], path).n == 119


def test_classes_that_are_numbers_and_new_ones(tmp_path):
    data = op.load((np.arange(8.0)[:, None], np.array([0, 1] * 4)), test=2)
    path = write(tmp_path / "labels.csv", [(int(data.rows[0]), str(data.labels[0]), "7")])
    with pytest.raises(ValueError, match="expected keep, drop or one of 0 and 1"):
        apply_decisions(data, path)
    fixed = apply_decisions(data, path, new_labels=True)
    assert fixed.classes == (0, 1, 7)
    assert fixed.labels[0] == 7
    assert fixed.test.classes == (0, 1, 7)
    write(path, [(int(data.rows[0]), str(data.labels[0]), "cat")])
    with pytest.raises(ValueError, match="the classes are numbers"):
        apply_decisions(data, path, new_labels=True)


def test_targets_of_a_regression(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (80, 2))
    y = X @ [1.0, 2.0] + 0.05 * rng.standard_normal(80)
    y[11] += 9.0
    found = op.find_label_issues(X, y)
    assert found.scored.rows[0] == 11
    assert found.scored.wrong[0] > 0.99
    assert f"{found.issues} target" in found.verdict.sentences[0]
    assert "with keep, drop or a number." in found.verdict.sentences[1]
    assert abs(found.scored.suggested[0] - (y[11] - 9.0)) < 1.0
    path = found.to_csv(tmp_path / "labels.csv")
    assert float(lines(path)[0]["given"]) == y[11]
    assert sum(float(line["wrong"]) > 0.5 for line in lines(path)) == found.issues
    write(path, [(11, repr(float(y[11])), "1.5")])
    assert apply_decisions((X, y), path).y[11] == 1.5
    write(path, [(11, repr(float(y[11])), "high")])
    with pytest.raises(ValueError, match="expected keep, drop or a number"):
        apply_decisions((X, y), path)


def test_rows_of_several_targets_are_kept_or_dropped(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (60, 2))
    y = X @ [[1.0, 3.0], [2.0, -1.0]] + 0.05 * rng.standard_normal((60, 2))
    y[11, 1] += 9.0
    found = op.find_label_issues(X, y)
    assert found.verdict.sentences[1].endswith("row 11 first: fill its column `decision` with keep or drop.")
    assert tuple(found.to_frame().columns) == ("row", "target", *COLUMNS[1:])
    assert found.sections()[1].blocks[0].rows[0][:2] == (11, "target 2")
    path = found.to_csv(tmp_path / "labels.csv")
    read = lines(path)
    assert (read[0]["row"], read[0]["target"], float(read[0]["given"])) == ("11", "target 2", y[11, 1])
    read[0]["decision"], read[1]["decision"] = "drop", "keep"
    write(path, [line.values() for line in read], read[0])
    fixed = apply_decisions((X, y), path)
    assert np.array_equal(fixed.y, np.delete(y, 11, axis=0))
    assert fixed.notes[-1] == "0 labels changed and 1 row dropped by labels.csv: 59 of 60 rows are left"
    for decision in ("1.5", "high"):
        write(path, [(11, read[0]["given"], decision)])
        with pytest.raises(
            ValueError, match=f"decides '{decision}' for row 11.*several targets.*expected keep or drop$"
        ):
            apply_decisions((X, y), path)
    write(path, [(11, "77", "drop")])
    with pytest.raises(ValueError, match="belongs to other data"):
        apply_decisions((X, y), path)


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        ([(5, "d", "drop"), (5, "d", "keep")], ("row", "given", "decision"), "names row 5 twice"),
        ([(500, "d", "drop")], ("row", "given", "decision"), "names row 500, which arrays does not have"),
        ([("x", "d", "drop")], ("row", "given", "decision"), "line 2: row is 'x'"),
        ([(0, "d", "drop")], ("row", "given", "decision"), "belongs to other data"),
        ([(5, 'a "b", c', "e")], ("row", "given", "decision"), "expected keep, drop or one of"),
        ([(5, "d")], ("row", "given"), "has no column 'decision'"),
        ([(i, "drop") for i in range(120)], ("row", "decision"), "drops every row"),
    ],
)
def test_what_cannot_be_applied_is_one_line(blobs, tmp_path, rows, columns, words):
    path = write(tmp_path / "labels.csv", rows, columns)
    with pytest.raises(ValueError, match=words) as error:
        apply_decisions(blobs[:2], path)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_one_line(blobs, tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        apply_decisions(blobs[:2], tmp_path / "none.csv")


def test_copies_do_not_answer_for_each_other():
    rng = np.random.default_rng(2)
    X, y = np.tile(rng.standard_normal((60, 4)), (2, 1)), np.tile(rng.integers(2, size=60), 2)
    found = op.find_label_issues(X, y)
    assert found.copies == 60
    assert found.scored.noise.kind == "at most"
    assert found.scored.noise.upper > 0.4
    assert found.verdict.sentences[-1] == "60 rows repeat others; copies did not answer for each other."


def test_groups_of_the_user_leave_together_too():
    rng = np.random.default_rng(3)
    people = np.repeat(np.arange(30), 4)
    X = rng.standard_normal((30, 3))[people] + 0.3 * rng.standard_normal((120, 3))
    labels = rng.integers(2, size=30)[people]  # each person's own: nobody else tells it
    data = op.load((X, labels)).replace(groups=people)
    assert op.find_label_issues(data).scored.noise.rate > 0.3
    assert op.find_label_issues(data.replace(groups=None)).scored.noise.rate < 0.25


def test_classes_called_keep_and_drop_are_told_from_what_is_done(tmp_path):
    X, y = np.arange(8.0)[:, None], np.array(["drop", "keep"] * 4)
    path = tmp_path / "labels.csv"
    path.write_text("row,decision\n0,label:keep\n1,row:drop\n2,row:keep\n3,label:drop\n")
    fixed = apply_decisions((X, y), path)
    assert fixed.labels.tolist() == ["keep", "drop", "drop", "drop", "keep", "drop", "keep"]
    assert fixed.column_notes[-1].words == "2 labels changed and 1 row dropped by labels.csv: 7 of 8 rows are left"
    path.write_text("row,decision\n0,drop\n")
    with pytest.raises(
        ValueError, match="which is a class of the data too; write label:drop for the class, or row:drop to"
    ):
        apply_decisions((X, y), path)
    path.write_text("row,decision\n0,row:drop\n1,label:b\n")
    assert apply_decisions((X, np.array(["a", "b"] * 4)), path).n == 7


def test_capitals_of_keep_and_drop_do_not_matter_unless_a_class_is_written_so(tmp_path):
    X, path = np.arange(8.0)[:, None], tmp_path / "labels.csv"
    path.write_text("row,decision\n0,Drop\n1,KEEP\n2,Row:Drop\n3,Label:a\n")
    assert apply_decisions((X, np.array(["a", "b"] * 4)), path).labels.tolist() == list("baabab")
    assert apply_decisions((X, np.array(["a", "Drop"] * 4)), path).labels.tolist()[:3] == ["Drop", "Drop", "a"]
    with pytest.raises(ValueError, match="'Drop' for row 0, which is a class of the data too; write label:drop"):
        apply_decisions((X, np.array(["a", "drop"] * 4)), path)
