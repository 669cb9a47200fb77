"""What tables of text take: a small multiple of their files; and what takes more is one line."""

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import overparam as op
from overparam.data.readers import delimited, encoding
from overparam.data.readers.tables import unique_names

PROGRAM = """
import sys
import overparam as op
op.load(sys.argv[2])
def peak():  # getrusage would tell that of whoever started us, where it is more
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
before = peak()
op.load(sys.argv[1])
print(peak() - before)
"""
KINDS = {
    "two digits a row": (lambda i: f"{i % 7},{i % 2}", 164),
    "words": (lambda i: f"w{i % 5},v{i % 3},{'yes' if i % 2 else 'no'}", 340),
    "names": (lambda i: f"{i % 9},name number {i},{i % 2}", 370),
    "dates": (lambda i: f"{i % 9},20{10 + i % 10}-0{1 + i % 9}-{10 + i % 18},{i % 2}", 200),
    "numbers": (lambda i: ",".join(repr((i * j) ** 0.5) for j in range(12)) + f",{i % 2}", 1000),
}
"""A row of each, and the bytes it may take: when every field was a Python string it took 168, 435, 411, 643 and 2,123."""


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for its peak")
@pytest.mark.parametrize("kind", KINDS)
def test_reading_takes_a_small_multiple_of_the_file(kind: str, tmp_path: Path) -> None:
    row, most = KINDS[kind]
    n = 100_000 if most < 500 else 20_000
    for name, lines in (("few.csv", 1000), ("many.csv", n)):
        first = ",".join("abcdefghijklm"[: row(0).count(",")]) + ",y\n"
        (tmp_path / name).write_text(first + "\n".join(map(row, range(lines))))
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "many.csv"), str(tmp_path / "few.csv")]
    took = float(subprocess.run(words, capture_output=True, text=True, check=True, timeout=300).stdout)
    assert took < most * n


def test_blocks_of_rows_make_the_same_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"{i},{'' if i % 3 else 'ä' * (i % 5)},{'x' * (900 if i == 7 else 1)},{i % 2}" for i in range(40)]
    (tmp_path / "a.csv").write_text("n,b,c,y\n" + "\n".join(rows), encoding="utf-8")
    whole = delimited.delimited_table(tmp_path / "a.csv")
    monkeypatch.setattr(delimited, "CELLS", 1)
    monkeypatch.setattr(delimited, "ROWS", 3)
    parts = delimited.delimited_table(tmp_path / "a.csv")
    for one, other in zip(whole.columns, parts.columns, strict=True):
        assert one.values.dtype == other.values.dtype
        assert one.values.tolist() == other.values.tolist()
        assert one.missing.tolist() == other.missing.tolist()
    assert whole.places.tolist() == parts.places.tolist() == list(range(2, 42))


def test_a_sparse_table_is_read_however_small_it_is_packed(tmp_path: Path) -> None:
    X = (np.random.default_rng(0).random((900, 5000)) < 0.002).astype(int)
    text = "\n".join(",".join(map(str, row)) for row in X.tolist()).encode()
    packed = gzip.compress(text)
    assert len(text) > max(2**23, 200 * len(packed))
    (tmp_path / "a.csv.gz").write_bytes(packed)
    assert np.array_equal(op.load(tmp_path / "a.csv.gz", task="regression").in_source_order().X, X[:, :-1])


def test_many_rows_in_a_small_packed_file_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,y\n" + b"1,0\n2,1\n" * 2_500_000))
    with pytest.raises(ValueError, match=r"unpack to .* as no data do"):
        op.load(tmp_path / "a.csv.gz")


def test_a_column_of_many_words_is_refused_before_it_is_unfolded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"{i},w{i % 400},{i % 2}" for i in range(1000)]
    (tmp_path / "a.csv").write_text("a,b,y\n" + "\n".join(rows))
    assert op.load(tmp_path / "a.csv").d == 400  # one-hot; a counts
    monkeypatch.setattr(encoding, "available_memory", lambda: 2**20)
    with pytest.raises(ValueError, match=r"400 features, 400 features of them of column 'b'.* needs .* is free"):
        op.load(tmp_path / "a.csv")


def test_names_of_columns_are_all_different() -> None:
    names, notes = unique_names(["a (column 3)", "a", "a", "a"])
    assert len(set(names)) == len(names) == 4
    assert len(notes) == 1
    assert len(unique_names([f"c{i}" for i in range(100_000)])[0]) == 100_000  # in a moment
