"""Inputs no reader should have to bear, for every reader and every file that is read back: one line, or the very same values.

Of a valid source whose values are known a case breaks a copy: bytes flipped, cut, repeated or replaced, headers that lie, text that is
none, nests, bombs, numbers no float64 holds. What is read all the same must be what an independent reader of the broken copy
says, or the values that were written; a change that nobody tells is a failure, and so are tracebacks, warnings and hangs.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import os
import struct
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import overparam as op
from overparam.core import folder, sections
from overparam.frame import Keeping, Kept, State
from overparam.report import write_page

EXPECTED = (ValueError, FileNotFoundError, ImportError)
"""What a reader may raise: one line of ours."""


def case(seed: int, index: int) -> dict[str, Any]:
    """One broken source, and what was said of it."""
    rng = np.random.default_rng([seed, index, 7])
    name = str(rng.choice(list(SOURCES), p=WEIGHTS))
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            said = SOURCES[name](rng, Path(place))
        except EXPECTED as error:
            words = str(error)
            if "\n" in words or not words.strip():
                return {"tally": [f"{name} | not one line"], "failed": [f"{name}: not one line: {words[:300]!r}"]}
            return {"tally": [f"{name} | refused"]}
    if said is None:
        return {"tally": [f"{name} | read, the same values"]}
    return {"tally": [f"{name} | {said}"], "failed": [f"{name}: {said}"]}


def _table(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    n, d = int(rng.integers(4, 12)), int(rng.integers(1, 5))
    X = np.round(rng.standard_normal((n, d)) * 10.0 ** rng.integers(-3, 4), 6)
    labels = np.resize([0, 1], n)
    return X, labels


def _broken(rng: np.random.Generator, content: bytes) -> bytes:
    """Bytes with one to four things done to them."""
    made = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(0, len(made) + 1))
        what = int(rng.integers(0, 8))
        if what == 0 and at < len(made):
            made[at] ^= 1 << int(rng.integers(0, 8))
        elif what == 1:
            del made[at:]
        elif what == 2:
            made[at:at] = rng.integers(0, 256, int(rng.integers(1, 40)), dtype=np.uint8).tobytes()
        elif what == 3:
            del made[at : at + int(rng.integers(1, 40))]
        elif what == 4:
            made[at : at + 4] = rng.choice(
                [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"9999", b"\xff\xff\xff\x7f"]
            )
        elif what == 5:
            made += made[at : at + 2000]
        elif what == 6:
            made[at:at] = rng.choice(
                [b"\0", b"\n", b'"', b",", b"\xff\xfe", "é".encode(), b"\r", b"nan", b"1e999", b"-", b"9" * 400]
            )
        elif what == 7 and len(made) > 8:
            start = int(rng.integers(0, 8))
            made[start : start + 1] = rng.integers(0, 256, 1, dtype=np.uint8).tobytes()
    return bytes(made)


def _same(data: Any, X: np.ndarray, labels: np.ndarray) -> str | None:
    """None where the rows read are these, in whatever order tables are shuffled to."""
    if data.X.shape != X.shape:
        return f"SILENT: read as {data.X.shape}, there are {X.shape}"
    order = np.arange(len(X)) if data.rows is None else data.rows
    if not np.array_equal(np.asarray(data.X), X[order]):
        return "SILENT: other features than an independent reader's"
    return None if [str(x) for x in data.labels] == [str(x) for x in labels[order]] else "SILENT: other labels"


def _npy_header(rng: np.random.Generator, size: int) -> bytes:
    odd = [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2, ", "  {'descr'\n  x\n y", "(" * 3000 + ")" * 3000, "-" * 9000 + "1",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (N, 2), }".replace("N", str(10 ** int(rng.integers(3, 30)))),
        "{'descr': '<f8', 'fortran_order': False, 'shape': (True, 2), }", "{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2), }", "{'descr': '<U0', 'fortran_order': False, 'shape': (9999999999, 2), }",
        "{'descr': ('<f8', (100000, 100000)), 'fortran_order': False, 'shape': (1, 2), }", "{'descr': '<f8', 'shape': (2, 2), }",
        "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (2, 2), }", "{'descr': '<c16', 'fortran_order': False, 'shape': (2, 2), }",
        "__import__('os').system('touch executed')", "{'descr': '<f2', 'fortran_order': True, 'shape': (4, 4), }",
        "{'descr': '|V8', 'fortran_order': False, 'shape': (4, 2), }", "[" * 200 + "]" * 200, "{'descr': '<f16', 'fortran_order': False, 'shape': (2, 2), }",
    ]  # fmt: skip
    text = str(rng.choice(odd)).encode("latin1")
    version = int(rng.choice([1, 1, 1, 2, 3, 9]))
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + bytes(size)


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npy(rng: np.random.Generator, place: Path) -> str | None:
    X, labels = _table(rng)
    content = _npy_header(rng, 64) if rng.random() < 0.4 else _broken(rng, _npy(X))
    (place / "X.npy").write_bytes(content)
    (place / "y.npy").write_bytes(_npy(labels))
    data = op.load(place / "X.npy")
    return _same(data, np.load(place / "X.npy", allow_pickle=False).astype(np.float64), labels)


def npz(rng: np.random.Generator, place: Path) -> str | None:
    X, labels = _table(rng)
    path, how = place / "a.npz", int(rng.integers(0, 5))
    method = int(rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2]))
    with zipfile.ZipFile(path, "w", method) as archive:
        body = _npy_header(rng, 64) if how == 0 else _npy(X)
        if how == 1:
            body = _npy(X)[:128].replace(str(X.shape).encode(), b"(99999999, 99)") + bytes(int(rng.integers(0, 10**6)))
        archive.writestr("X.npy", body)
        archive.writestr("y.npy", _npy(labels))
    content = bytearray(path.read_bytes())
    if how == 2:  # encrypted, or packed by what nobody knows
        for mark, flags, kind in ((b"PK\3\4", 6, 8), (b"PK\1\2", 8, 10)):
            at = content.find(mark)
            while at >= 0:
                content[at + (flags if rng.random() < 0.5 else kind)] = int(rng.choice([1, 97, 99, 255]))
                at = content.find(mark, at + 4)
    path.write_bytes(_broken(rng, bytes(content)) if how == 3 else content)
    data = op.load(path)
    return _same(data, X, labels)


def text(rng: np.random.Generator, place: Path) -> str | None:
    X, labels = _table(rng)
    rows = [
        [*(f"c{i}" for i in range(X.shape[1])), "y"],
        *([*map(repr, x.tolist()), str(label)] for x, label in zip(X, labels, strict=True)),
    ]
    plain = "\n".join(",".join(row) for row in rows).encode()
    path = place / ("a.csv" + str(rng.choice(["", "", ".gz", ".xz"])))
    broken = _broken(rng, plain) if rng.random() < 0.7 else plain
    packed = (
        gzip.compress(broken) if path.suffix == ".gz" else lzma.compress(broken) if path.suffix == ".xz" else broken
    )
    if path.suffix != ".csv" and rng.random() < 0.5:
        packed = _broken(rng, packed)
    path.write_bytes(packed)
    data = op.load(path, missing=str(rng.choice(["error", "mean", "drop"])))
    whole = packed if path.suffix == ".csv" else (gzip if path.suffix == ".gz" else lzma).decompress(packed)
    return None if whole != plain else _same(data, X, labels)


def odd_text(rng: np.random.Generator, place: Path) -> str | None:
    """Tables of odd words; whole numbers that float64 does not hold must come back as they are written."""
    odd = ["9" * 400, "9007199254740993", "1e999", "-inf", "nan", "", "1_000", "0x10", "é" * 50, '"', "1,5", "2020-13-45", "\t", "true", "x" * 5000, "１２", "1e-400", "= 1 + 1", "12:99", "$1"]  # fmt: skip
    n = int(rng.integers(3, 9))
    cells = [[str(rng.choice([*odd, "1", "2", "a"])) for _ in range(3)] for _ in range(n)]
    with (place / "a.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["a", "b", "y"], *cells])
    data = op.load(place / "a.csv", missing="drop")
    order = data.rows if data.rows is not None else np.arange(n)
    for label, row in zip(data.labels, order, strict=True):
        written = cells[row][2].strip()
        if (
            written.isascii()
            and written.isdigit()
            and len(written) < 30
            and str(label) != written
            and float(label) != int(written)
        ):
            return f"SILENT: label {written} became {label}"
    return None


def wide_text(rng: np.random.Generator, place: Path) -> str | None:
    long, n = int(rng.integers(1_000, 131_000)), int(rng.integers(500, 4_000))
    rows = [f"{i % 7},{'x' * long if i == n // 2 else f'w{i % 3}'},{i % 2}" for i in range(n)]
    (place / "a.csv").write_text("a,b,y\n" + "\n".join(rows))
    op.load(place / "a.csv", label=str(rng.choice(["y", "b"])))
    return None


def bomb(rng: np.random.Generator, place: Path) -> str | None:
    size, unit = int(rng.integers(10**7, 3 * 10**8)), bytes(10**6)
    which = str(rng.choice(["gz", "xz", "npz", "idx", "png"]))
    if which in ("gz", "xz"):
        opened = gzip.open if which == "gz" else lzma.open
        unit = bytes(rng.choice([b"1,1\n", b"\n", b"0", b"a,b\n"])) * 250_000
        with opened(place / f"a.csv.{which}", "wb") as file:
            for _ in range(size // 10**6 // (10 if which == "xz" else 1)):
                file.write(unit)
        op.load(place / f"a.csv.{which}")
    elif which == "npz":
        with zipfile.ZipFile(place / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            with archive.open("X.npy", "w") as file:
                file.write(_npy(np.zeros((2, 100)))[:128].replace(b"(2, 100)", b"(%d, 100)" % (size // 800)))
                for _ in range(size // 10**6):
                    file.write(unit)
            archive.writestr("y.npy", _npy(np.resize([0, 1], size // 800)))
        op.load(place / "a.npz")
    elif which == "png":
        side = int(rng.integers(3_000, 30_000))
        for kind in ("a", "b"):
            (place / kind).mkdir()
            content = sections.png_bytes(np.zeros((8, 8), np.uint8))
            (place / kind / "1.png").write_bytes(
                content.replace(struct.pack(">II", 8, 8), struct.pack(">II", side, side))
            )
        op.load(place)
    else:
        return idx(rng, place)
    return None


def idx(rng: np.random.Generator, place: Path) -> str | None:
    n = int(rng.integers(2, 9))
    pixels, labels = rng.integers(0, 256, (n, 2, 2), dtype=np.uint8), np.resize([0, 1], n)
    images = struct.pack(">HBBIII", 0, 8, 3, n, 2, 2) + pixels.tobytes()
    named = struct.pack(">HBBI", 0, 0x0D, 1, n) + labels.astype(">f4").tobytes()
    how = int(rng.integers(0, 4))
    if how == 0:
        images = struct.pack(">HBBIII", 0, 8, 3, 10**9, 28, 28) + images[16:]
    elif how == 1:
        images = _broken(rng, images)
    elif how == 2:
        named = _broken(rng, named)
    else:
        values = labels.astype(">f4")
        values[0] = float(rng.choice([1.9, np.nan, np.inf, 1e30, -0.5]))
        named = named[:8] + values.tobytes()
    (place / "train-images-idx3-ubyte").write_bytes(images)
    (place / "train-labels-idx1-ubyte").write_bytes(named)
    data = op.load(place)
    there = np.frombuffer((place / "train-labels-idx1-ubyte").read_bytes()[8:], ">f4")
    if (
        how in (2, 3)
        and named[:8] == struct.pack(">HBBI", 0, 0x0D, 1, n)
        and not np.array_equal(data.labels, there[: data.n])
    ):
        return f"SILENT: labels {there.tolist()} became {data.labels.tolist()}"
    return None


def cifar(rng: np.random.Generator, place: Path) -> str | None:
    n = int(rng.integers(2, 5))
    content = b"".join(bytes([i % 2]) + rng.integers(0, 256, 3072, dtype=np.uint8).tobytes() for i in range(n))
    (place / "a.bin").write_bytes(_broken(rng, content))
    op.load(place / "a.bin")
    return None


def parquet(rng: np.random.Generator, place: Path) -> str | None:
    import pandas as pd

    X, labels = _table(rng)
    pd.DataFrame({**{f"c{i}": x for i, x in enumerate(X.T)}, "y": labels}).to_parquet(place / "a.parquet")
    content = (place / "a.parquet").read_bytes()
    (place / "a.parquet").write_bytes(_broken(rng, content))
    data = op.load(place / "a.parquet")
    there = pd.read_parquet(place / "a.parquet")
    return (
        None
        if there.shape[0] != data.n or "y" not in there
        else _same(data, there.drop(columns="y").to_numpy(float), there["y"].to_numpy())
    )


def images(rng: np.random.Generator, place: Path) -> str | None:
    for kind in ("a", "b"):
        (place / kind).mkdir()
        for i in range(2):
            content = sections.png_bytes(rng.integers(0, 256, (6, 6), dtype=np.uint8))
            (place / kind / f"{i}.png").write_bytes(_broken(rng, content) if rng.random() < 0.5 else content)
    op.load(place, image_size=None if rng.random() < 0.7 else int(rng.integers(1, 40)))
    return None


def frame(rng: np.random.Generator, place: Path) -> str | None:
    """Frames of odd types: whole numbers of 64 and 128 bits, decimals, lists, categories, dates far away."""
    import datetime
    import decimal

    import pandas as pd
    import polars as pl

    n = 6
    columns: list[Callable[[], Any]] = [
        lambda: [2**63 + i for i in range(n)], lambda: [10**400] * n, lambda: [decimal.Decimal("1e-9")] * n, lambda: [None] * n, lambda: [[1]] * n,
        lambda: pd.array([1, None] * 3, dtype="Int64"), lambda: pd.Categorical(list("ababab")), lambda: [1, "a"] * 3, lambda: [b"x"] * n,
        lambda: pd.to_datetime(["1700-01-01"] * n), lambda: [datetime.date(1, 1, 1)] * n, lambda: [1 + 2j] * n, lambda: [{"a": 1}] * n,
        lambda: pd.array([2**53 + 1] * n, dtype="UInt64"), lambda: [float("inf")] * n, lambda: [object()] * n, lambda: pd.interval_range(0, n),
    ]  # fmt: skip
    labels = [2**53 + int(i % 2) for i in range(n)] if rng.random() < 0.3 else [0, 1] * 3
    source: Any = {"a": columns[int(rng.integers(0, len(columns)))](), "b": np.arange(n) ** 2 * 0.5, "y": labels}
    made = pd.DataFrame(source)
    if rng.random() < 0.3:
        try:
            made = pl.DataFrame(
                {"a": pl.Series([2**100 + i for i in range(n)], dtype=pl.Int128), "b": source["b"], "y": labels}
            )
        except Exception:
            return None
    data = op.load(made, missing="mean")
    if labels[0] > 1 and len({str(x) for x in data.labels}) != 2:
        return "SILENT: two labels beyond 2^53 became one"
    return None


def arrays(rng: np.random.Generator, place: Path) -> str | None:
    n = 6
    X: Any = rng.standard_normal((n, 2))
    y: Any = np.resize([0, 1], n)
    how = int(rng.integers(0, 9))
    if how == 0:
        y = np.array([2**64 - 1, 1] * 3, dtype=np.uint64)
    elif how == 1:
        y = np.ma.array(y, mask=[1, 0, 0, 0, 0, 0])
    elif how == 2:
        X = np.ma.array(X, mask=X[0, 0] == X)
    elif how == 3:
        X = rng.integers(2**53, 2**63 - 1, (n, 2))
    elif how == 4:
        X = [[10**400, 1]] * n
    elif how == 5:
        X = np.empty((n, 2), dtype="V8")
    elif how == 6:
        X = X.astype(complex)
    elif how == 7:
        y = [10**400, 1] * 3
    else:
        X = np.where(rng.random((n, 2)) < 0.2, rng.choice([np.nan, np.inf, 1e308, 5e-324]), X)
    data = op.load((X, y))
    if how < 4:
        return "SILENT: masked, wrapped or rounded"
    return None if data.n == n else "SILENT: rows are gone"


def names(rng: np.random.Generator, place: Path) -> str | None:
    os.mkfifo(place / "pipe.csv")
    (place / "empty").mkdir()
    odd = ["~nosuchuser/a.csv", "a\0b.csv", "a" * 5000, "", " ", "/dev/zero", "/dev/null", str(place / "pipe.csv"), "/proc/self/mem", str(place / "empty"), "\n", "ab\udcff.csv", str(place / "pipe.csv") + "/x"]  # fmt: skip
    op.load(str(rng.choice(odd)))
    return "SILENT: a name that is none was read"


SAVED = sorted(Path(__file__).parents[1].glob("frame/schema[12]/*/" + folder.RESULT))
"""A result of every kind, of both schemas."""


def result(rng: np.random.Generator, place: Path) -> str | None:
    """A folder of a result: bytes broken, or a value of the document replaced; with its checksum taken out, too."""
    source = SAVED[int(rng.integers(len(SAVED)))]
    document, arrays_ = source.read_bytes(), source.with_name(folder.ARRAYS).read_bytes()
    saved = document, arrays_
    how = int(rng.integers(0, 4))
    if how == 0:
        document = _broken(rng, document)
    elif how == 1:
        arrays_ = _broken(rng, arrays_)
    elif how == 2:
        document = bytes(
            rng.choice(
                [
                    b"[" * 100_000,
                    b'{"schema": ' + b"9" * 5000 + b"}",
                    b"",
                    b"null",
                    b'{"schema": 2}',
                    b'{"schema": 1e999}',
                    b"\xff",
                ]
            )
        )
    else:
        changed = json.loads(document)
        at, key = changed, ""
        for _ in range(int(rng.integers(1, 7))):
            if not isinstance(at, dict | list) or not at:
                break
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            key = keys[int(rng.integers(0, len(keys)))]
            parent, at = at, at[key]
        parent[key] = [None, True, -1, 10**300, "x", [], {}, [[]], {"a": 1}, "<script>"][int(rng.integers(0, 10))]
        if rng.random() < 0.7:
            changed.pop("sha256", None)
        document = json.dumps(changed).encode()
    (place / folder.RESULT).write_bytes(document)
    (place / folder.ARRAYS).write_bytes(arrays_)
    str(op.read(place))
    write_page(place)
    if how == 3 or (document, arrays_) == saved or "arrays_sha256" not in json.loads(saved[0]):  # 0.1 kept no checksums
        return None
    same = how == 0 and json.loads(document) == json.loads(saved[0])
    return None if same else "SILENT: a damaged result was read"


def kept(rng: np.random.Generator, place: Path) -> str | None:
    value = Kept({"x": np.arange(5.0)}, {"n": 3})
    if rng.random() < 0.5:
        Keeping(place).keep("part", "mark", value)
        (path,) = (place / "parts").iterdir()
        load: Callable[[], Any] = lambda: Keeping(place).find("part", "mark")  # noqa: E731
    else:
        State(place, "work", "mark").save(value)
        (path,) = place.glob("*.kept")
        load = State(place, "work", "mark").load
    whole = path.read_bytes()
    broken = _broken(rng, whole)
    path.write_bytes(broken)
    found = load()
    return None if found is None or broken == whole else "SILENT: a damaged part was used"


def tiles(rng: np.random.Generator, place: Path) -> str | None:
    """A stored matrix with a byte of a tile, or of its manifest, changed."""
    X = np.random.default_rng(1).standard_normal((12, 3))
    whole = op.gram(op.kernels.TwoLayer(), X, "stored", place=place).dense()
    paths = sorted(path for path in place.rglob("*") if path.is_file())
    path = paths[int(rng.integers(0, len(paths)))]
    content = path.read_bytes()
    path.write_bytes(_broken(rng, content))
    found = op.gram(op.kernels.TwoLayer(), X, "stored", place=place).dense()
    return None if np.array_equal(found, whole) else "SILENT: a damaged tile was used"


def sweep(rng: np.random.Generator, place: Path) -> str | None:
    """A kept sweep and remembered products, a file of them broken: refused, or made again."""
    H, y = np.diag(np.arange(1.0, 9.0)), np.ones(8)
    if rng.random() < 0.5:
        ask: Callable[[], Any] = lambda: op.quadrature(H, y, max_products=4, place=place).alphas  # noqa: E731
    else:
        ask = lambda: op.remember(op.engines.as_gram(H), place) @ y  # noqa: E731
    whole = ask()
    paths = sorted(path for path in place.rglob("*") if path.is_file())
    path = paths[int(rng.integers(0, len(paths)))]
    path.write_bytes(_broken(rng, path.read_bytes()))
    return None if np.array_equal(ask(), whole) else "SILENT: a damaged sweep was used"


SOURCES: dict[str, Callable[[np.random.Generator, Path], str | None]] = {
    source.__name__.replace("_", " "): source
    for source in (
        npy,
        npz,
        text,
        odd_text,
        wide_text,
        bomb,
        idx,
        cifar,
        parquet,
        images,
        frame,
        arrays,
        names,
        result,
        kept,
        tiles,
        sweep,
    )
}

RARE = {"bomb": 0.05, "wide text": 0.1, "tiles": 0.1}
"""Sources that take long, drawn less often."""
WEIGHTS = np.array([RARE.get(name, 1.0) for name in SOURCES])
WEIGHTS /= WEIGHTS.sum()
