"""Two versions of a data set: rows matched, labels changed, columns drifted, the error before and after."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

import overparam as op
from overparam.analysis.data_difference_page import _in_points
from overparam.analysis.data_matching import column_drift, feature_changes, label_changes, match_rows
from overparam.cli import run
from overparam.core.bracketed import Interval


def table(n=120, seed=0, shift=0.0):
    """Rows whose label is the sign of the first column."""
    X = np.random.default_rng(seed).normal(size=(n, 3)) + np.array([0.0, shift, 0.0])
    return X, np.where(X[:, 0] > 0, "yes", "no")


def read(X, y, **more):
    return op.load((X, y), **more)


def test_rows_are_matched_whatever_their_order_and_labels_told():
    X, y = table()
    order = np.random.default_rng(1).permutation(120)[:100]
    changed = y[order].copy()
    changed[[3, 40]] = np.where(changed[[3, 40]] == "yes", "no", "yes")
    before, after = read(X, y), read(np.vstack([X[order], X[:1] + 9]), np.append(changed, "no"))
    found = match_rows(before, after, None)
    np.testing.assert_array_equal(before.X[found.before], after.X[found.after])
    assert (len(found.before), len(found.gone), len(found.added)) == (100, 20, 1)
    told = label_changes(before, after, found)
    assert sorted(change.row_after for change in told) == [3, 40]
    for change in told:
        assert (change.before, change.after) == (y[change.row_before], changed[change.row_after])


def test_equal_rows_are_matched_with_their_own_label_first():
    X = np.tile([1.0, 2.0], (4, 1))
    before = read(X, ["a", "b", "a", "b"])
    after = read(X, ["b", "b", "b", "a"])
    found = match_rows(before, after, None)
    assert len(found.before) == 4
    assert len(label_changes(before, after, found)) == 1


def test_drift_is_found_in_the_column_that_drifts_and_seldom_elsewhere():
    X, y = table(400)
    before = read(X, y)
    drifting = match_and_drift(before, 1.0)
    assert {each.column for each in drifting if each.q <= 0.05} == {"column 1"}
    alarms = sum(any(each.q <= 0.05 for each in match_and_drift(before, 0.0, seed)) for seed in range(1, 101))
    assert alarms <= 13  # one table in twenty: 5 expected of 100, 13 are 3.7 standard deviations more


def match_and_drift(before, shift, seed=7):
    X, y = table(150, seed, shift)
    after = read(np.vstack([before.X, X]), np.concatenate([before.labels, y]))
    return column_drift(before, after, match_rows(before, after, None))


def keyed(X, y, keys=None):
    return op.load((X, y)).replace(groups=np.arange(len(X)) if keys is None else keys)


def write(path, X, y):
    rows = [",".join([str(100 + i), *map(repr, row.tolist()), y[i]]) for i, row in enumerate(X)]
    path.write_text("\n".join(["id,a,b,c,kind", *rows]) + "\n")
    return str(path)


def test_a_column_that_changed_in_every_kept_row_is_drifted(tmp_path, capsys):
    X, y = table()
    one = write(tmp_path / "one.csv", X, y)
    moved = write(tmp_path / "two.csv", X * [1, 1000, -1] + [1, 0, 0], y)
    out = ["--key", "id", "--out", str(tmp_path / "o")]
    assert run(["diff", one, moved, *out, "--fail-if", "drifted>0"]) != 0
    said = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert "120 of the 120 kept rows have other features now: 'a' in 120, 'b' in 120 and 'c' in 120 of them." in said
    found = op.read(tmp_path / "o")
    assert set(found.drifted) == {"a", "b", "c"}  # the third has the same distribution as before
    assert found.rows.changed == 120
    assert {each.column: each.rows for each in found.column_changes} == {"a": 120, "b": 120, "c": 120}
    by_hand = ks_2samp(X[:, 0], X[:, 0] + 1, method="asymp")[1]
    assert next(each.p for each in found.drift if each.column == "a") == pytest.approx(by_hand, rel=1e-9)
    before, after = keyed(X, y), keyed(np.round(X, 5), y)
    rows, columns = feature_changes(before, after, match_rows(before, after, "id"))
    assert rows == 120
    assert not any(each.rewritten for each in columns)
    assert run(["diff", one, moved, "--key", "nope"]) == 2
    assert "one.csv has no key column 'nope'" in capsys.readouterr().err


def test_values_drawn_anew_from_one_distribution_are_seldom_told_apart():
    X, y = table(200)
    before = keyed(X, y)
    alarms = 0
    for seed in range(1, 101):
        after = keyed(table(200, seed)[0], y)
        alarms += any(each.q <= 0.05 for each in column_drift(before, after, match_rows(before, after, "id")))
    assert alarms <= 13  # one table in twenty: 5 expected of 100, 13 are 3.7 standard deviations more


@pytest.mark.parametrize("as_file", [True, False])
def test_a_value_that_is_missing_in_both_is_no_change(tmp_path, as_file):
    X, y = table(200)
    X[::7, 1] = np.nan
    X[3, 2] = 5.0
    parts = [(X[:150], y[:150]), (X, y)]
    if as_file:  # the mean that stands for it is another one in either file
        parts = [with_gaps(tmp_path / f"{len(rows)}.csv", rows, labels) for rows, labels in parts]
    found = op.diff(*parts, missing="mean")
    assert (found.rows.kept, found.rows.gone, found.rows.added, found.rows.changed) == (150, 0, 50, 0)
    assert found.drifted == ()
    before, after = (op.load(part, missing="mean") for part in parts)
    assert before.X[:, 1].mean() != after.X[:, 1].mean()


def with_gaps(path, X, y):
    lines = [
        ",".join(["" if np.isnan(value) else repr(float(value)) for value in row] + [label])
        for row, label in zip(X, y, strict=True)
    ]
    path.write_text("a,b,c,label\n" + "\n".join(lines) + "\n")
    return str(path)


def test_added_rows_that_are_copies_are_told():
    X, y = table(60)
    X, y = np.vstack([X, X[:4], X[4:5] + 1]), np.append(y, [*y[:4], "no"])
    y[63] = "no" if y[63] == "yes" else "yes"  # the same features with another label: no copy
    found = op.diff(keyed(X[:60], y[:60]), keyed(X, y), by="id")
    assert (found.rows.added, found.rows.copies, found.rows.changed) == (5, 3, 0)
    assert any(told.startswith("3 of the 5 new rows are copies") for told in found.verdict.sentences)


def test_by_a_key_and_its_mistakes(tmp_path):
    X, y = table(60)
    lines = ["id,a,b,c,kind", *(f"r{i},{','.join(map(repr, row.tolist()))},{y[i]}" for i, row in enumerate(X))]
    (tmp_path / "one.csv").write_text("\n".join(lines) + "\n")
    other = [lines[0], *lines[11:], lines[1].replace("r0,", "r99,")]
    other[1] = other[1].replace("yes", "no") if "yes" in other[1] else other[1].replace("no", "yes")
    (tmp_path / "two.csv").write_text("\n".join(other) + "\n")
    found = op.diff(tmp_path / "one.csv", tmp_path / "two.csv", by="id")
    assert (found.rows.kept, found.rows.gone, found.rows.added) == (50, 10, 1)
    assert [change.key for change in found.label_changes] == ["r10"]
    assert found.matched_by == "the column 'id'"
    (tmp_path / "two.csv").write_text("\n".join([*other, other[1]]) + "\n")
    with pytest.raises(ValueError, match=r"has id = 'r10' in row \d+ and in row \d+"):
        op.diff(tmp_path / "one.csv", tmp_path / "two.csv", by="id")


def test_an_error_that_rises_is_told_with_its_interval():
    X, y = table(300)
    flip = np.random.default_rng(5).uniform(size=300) < 0.3
    noisy = np.where(flip, np.where(y == "yes", "no", "yes"), y)
    found = op.diff((X, y), (X, noisy))
    assert found.error_change.lower > 0.15
    assert found.verdict.tone == "bad"
    assert "rose from" in found.verdict.sentences[0]
    assert found.labels_changed == flip.sum()
    same = op.diff((X, y), (X, y))
    assert (same.error_change.value, same.error_change.lower, same.error_change.upper) == (0, 0, 0)
    assert same.verdict.tone == "good"


def test_on_the_command_line(tmp_path, capsys):
    X, y = table(60)
    for name, rows in (("before", slice(0, 50)), ("after", slice(0, 60))):
        lines = [
            "a,b,c,kind",
            *(",".join([*map(repr, row.tolist()), kind]) for row, kind in zip(X[rows], y[rows], strict=True)),
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    out = ["--out", str(tmp_path / "o")]
    files = [str(tmp_path / "before.csv"), str(tmp_path / "after.csv")]
    assert run(["diff", *files, *out, "--fail-if", "labels_changed>0,rows.gone>0"]) == 0
    assert "Of 50 rows 50 are kept and 0 gone; 10 are new" in " ".join(capsys.readouterr().out.split())
    assert op.read(tmp_path / "o").rows.added == 10
    assert run(["diff", files[0], *out]) == 2
    assert "pass both" in capsys.readouterr().err


def test_a_key_on_the_command_line_and_errors_that_do_not_compare(tmp_path, capsys):
    X, y = table(40)
    for name, labels in (("before", y), ("after", y), ("numbers", X[:, 1].tolist())):
        rows = [",".join([str(100 + i), *map(repr, row.tolist()), str(labels[i])]) for i, row in enumerate(X)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,a,b,c,label", *rows]) + "\n")
    out = ["--key", "id", "--out", str(tmp_path / "o")]
    assert run(["diff", str(tmp_path / "before.csv"), str(tmp_path / "after.csv"), *out]) == 0
    assert "Of 40 rows 40 are kept" in " ".join(capsys.readouterr().out.split())
    found = op.diff(tmp_path / "before.csv", tmp_path / "numbers.csv")
    assert found.error_change is None
    assert "their errors do not compare" in " ".join(found.verdict.sentences)


def test_written_twice_the_error_does_not_fall():
    X, y = table(120)
    noisy = np.where(np.random.default_rng(3).uniform(size=120) < 0.3, y[::-1], y)
    found = op.diff((X, noisy), (np.vstack([X, X]), np.concatenate([noisy, noisy])))
    assert found.error_change.lower <= 0 <= found.error_change.upper


def sides(found):
    return found.value, found.lower, found.upper


def test_errors_are_those_that_analyze_tells(tmp_path):
    X, y = table(90)
    noisy = np.where(np.random.default_rng(3).uniform(size=90) < 0.2, y[::-1], y)
    alone = op.analyze((X, noisy), kinds=False)
    both = op.diff((X[:70], noisy[:70]), (X, noisy))
    assert sides(both.error_after) == sides(alone.error.interval)
    place = op.analyze((X[:70], noisy[:70]), kinds=False).save(tmp_path)
    mixed = op.diff(place, (X, noisy))
    assert sides(mixed.error_before) == sides(both.error_before)
    assert sides(mixed.error_after) == sides(both.error_after)
    assert mixed.error_change.value == both.error_change.value
    assert "70 rows before and 90 after." in mixed.verdict.sentences
    assert op.diff(place, alone).error_change.value == both.error_change.value
    with pytest.raises(ValueError, match="have nothing to compare; name the `task`"):
        op.diff(place, (X, X[:, 0]))


def test_a_change_that_is_clear_does_not_read_as_none():
    assert _in_points(Interval(0.031, 0.0012, 0.071, 0.95)) == ("3.1", "0.1", "7.1")
    assert _in_points(Interval(0.031, -0.02, 0.071, 0.95)) == ("3", "−2", "7")


def test_a_change_that_a_few_rows_decide_cannot_be_told():
    X = table(120)[0]
    found = op.diff((X, X[:, 0]), (X, np.where(np.arange(120) == 7, 1e6, X[:, 0])))
    assert found.verdict.sentences[0].startswith("Whether the share of the variance unexplained changed cannot be told")
    assert "after, half of the variance of the target is that of row 7 of 120" in found.cannot_tell
    assert found.verdict.tone == "warning"
