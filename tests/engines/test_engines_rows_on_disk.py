"""Rows that stay on disk: memory maps, Zarr arrays and parquet give the numbers of rows in memory, and are never held whole."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernels_for_tests import Images

import overparam as op
from overparam.engines import gram, panels, rows_on_disk, stored
from overparam.engines.matrix_free import MatrixFreeGram
from overparam.engines.rows_on_disk import RowsOnDisk
from overparam.kernels import Convolutional, TwoLayer

N, D = 60, 4
rng = np.random.default_rng(0)
X = rng.standard_normal((N, D))
X[7], X[50] = X[40], X[3] * (1 + 1e-9)
V = rng.standard_normal((N, 3))
KINDS = ["memory map", "npy", "zarr", "zarr path", "parquet", "parquet folder"]


@pytest.fixture(autouse=True)
def _small_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_on_disk, "SPAN", 16)
    monkeypatch.setattr(rows_on_disk, "PANEL", 10 * D)
    monkeypatch.setattr(panels, "panel_height", lambda n: min(n, 13))
    monkeypatch.setattr(stored, "ROWS", 21)


def on_disk(kind: str, folder: Path, rows: np.ndarray = X) -> Any:
    """`rows` as one of the things that stay on disk."""
    if kind in ("memory map", "npy"):
        np.save(folder / "x.npy", rows)
        return np.load(folder / "x.npy", mmap_mode="r") if kind == "memory map" else folder / "x.npy"
    if kind.startswith("zarr"):
        zarr = pytest.importorskip("zarr")
        array = zarr.create_array(str(folder / "x"), shape=rows.shape, chunks=(17, *rows.shape[1:]), dtype=rows.dtype)
        array[:] = rows
        return array if kind == "zarr" else str(folder / "x")
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def write(part: np.ndarray, path: Path) -> None:
        columns = {f"x{j}": part[:, j] for j in range(part.shape[1])}
        parquet.write_table(pyarrow.table(columns), path, row_group_size=9)

    if kind == "parquet":
        write(rows, folder / "x.parquet")
        return folder / "x.parquet"
    (folder / "parts").mkdir()
    write(rows[:25], folder / "parts" / "0.parquet")
    write(rows[25:], folder / "parts" / "1.parquet")
    return folder / "parts"


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_are_those_of_rows_in_memory(tmp_path: Path, kind: str) -> None:
    held, H = (gram(TwoLayer(), rows, "matrix_free", device="cpu") for rows in (X, on_disk(kind, tmp_path)))
    assert isinstance(H.X, RowsOnDisk)
    allowed = 2 * (held.rounding + held.product_rounding) * np.linalg.norm(V, axis=0)
    assert (np.linalg.norm(H @ V - held @ V, axis=0) <= allowed).all()
    assert H.repaired == held.repaired == 2
    np.testing.assert_array_equal(H.diagonal(), held.diagonal())
    np.testing.assert_array_equal(H.X[5:20], X[5:20])
    np.testing.assert_array_equal(H.X[[9, 2, 9]], X[[9, 2, 9]])
    np.testing.assert_array_equal(H.X[-1], X[-1])
    np.testing.assert_array_equal(np.asarray(H.X), X)
    pairs, known = H.close_pairs(0.9, 1, 10**6), held.close_pairs(0.9, 1, 10**6)
    assert pairs is not None
    assert known is not None
    np.testing.assert_array_equal(pairs[0], known[0])
    np.testing.assert_allclose(pairs[3], known[3], rtol=1e-12)
    np.testing.assert_allclose(
        H.sampled_cosines(np.array([3, 50])), held.sampled_cosines(np.array([3, 50])), atol=1e-15
    )
    new = rng.standard_normal((3, D))
    np.testing.assert_allclose(H.cross_product(new, V), held.cross_product(new, V), atol=1e-12)
    np.testing.assert_allclose(op.cross_matrix(TwoLayer(), new, H.X), op.cross_matrix(TwoLayer(), new, X), atol=1e-13)
    np.testing.assert_allclose(H.block([1, 50], [3, 7]), held.block([1, 50], [3, 7]), atol=1e-14)
    assert op.eigenvalue_bounds(H).upper == pytest.approx(op.eigenvalue_bounds(held).upper, rel=1e-6)


@pytest.mark.parametrize("kind", ["memory map", "zarr", "parquet"])
def test_a_stored_matrix_of_them_is_that_of_rows_in_memory(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("zarr")
    first = gram(TwoLayer(), on_disk(kind, tmp_path), "stored", place=tmp_path / "matrix", threads=1)
    again = gram(TwoLayer(), X, "stored", place=tmp_path / "matrix", threads=1)  # the same matrix: nothing is refused
    np.testing.assert_array_equal(first.dense(), again.dense())
    scale = np.sqrt(np.outer(first.diagonal(), first.diagonal()))
    assert (np.abs(first.dense() - gram(TwoLayer(), X).dense()) <= 4e-14 * scale).all()


def test_what_is_asked_of_a_matrix_of_them_is_answered(tmp_path: Path) -> None:
    y = np.sign(V[:, 0])
    held, H = (gram(TwoLayer(), rows, "matrix_free", device="cpu") for rows in (X, on_disk("memory map", tmp_path)))
    one, two = (op.solve(K, y, ridge=1.0).bracket for K in (held, H))
    assert one.lower <= two.upper
    assert two.lower <= one.upper
    left_out = [op.leave_one_out(K, y, ridge=1.0).outputs for K in (held, H)]
    np.testing.assert_allclose(*left_out, rtol=1e-8)
    np.testing.assert_array_equal(op.remember(H, tmp_path / "products") @ V, H @ V)


def test_kernels_that_make_their_own_blocks_take_them_too(tmp_path: Path) -> None:
    images = rng.standard_normal((N, 2, 3))
    held, H = (gram(Images(), rows, "matrix_free") for rows in (images, on_disk("memory map", tmp_path, images)))
    np.testing.assert_allclose(H @ V, held @ V, rtol=1e-12)
    np.testing.assert_array_equal(
        gram(Images(), on_disk("npy", tmp_path, images)).dense(), gram(Images(), images).dense()
    )
    pixels = rng.standard_normal((6, 16))
    kernel = Convolutional(2, image=(4, 4, 1))
    assert RowsOnDisk(pixels, kernel).shape == (6, 4, 4, 1)


@pytest.mark.parametrize("engine", ["dense", "half"])
def test_engines_that_hold_the_matrix_read_all_rows(tmp_path: Path, engine: str) -> None:
    H = gram(TwoLayer(), on_disk("memory map", tmp_path), engine, device="cpu")  # type: ignore[arg-type]
    assert isinstance(H.X, np.ndarray)
    np.testing.assert_array_equal(H.dense(), gram(TwoLayer(), X, engine, device="cpu").dense())  # type: ignore[arg-type]


def test_bytes_become_numbers_a_panel_at_a_time(tmp_path: Path) -> None:
    bytes_ = rng.integers(1, 256, (N, D), dtype=np.uint8)
    H = gram(TwoLayer(), on_disk("memory map", tmp_path, bytes_), "matrix_free", device="cpu")
    assert H.X[:2].dtype == np.float64
    held = gram(TwoLayer(), bytes_.astype(np.float64), "matrix_free", device="cpu")
    np.testing.assert_allclose(H @ V, held @ V, rtol=1e-11)


PEAKS = """
import json, sys, tracemalloc
import numpy as np
from overparam.engines import gram, panels, rows_on_disk, stored
from overparam.kernels import TwoLayer

place, n, d = sys.argv[1], 300, 2000
rows_on_disk.SPAN, rows_on_disk.PANEL, stored.ROWS = 16, 10 * d, 21
panels.panel_height = lambda n: min(n, 13)
peaks = []
for engine in ("matrix_free", "stored"):
    for run in range(2):  # the first one imports
        X = np.load(f"{place}/x.npy", mmap_mode="r")
        other = {"place": f"{place}/tiles-{run}"} if engine == "stored" else {}
        tracemalloc.start()
        H = gram(TwoLayer(), X, engine, device="cpu", memory="2.5 MB", threads=1, **other)
        H @ np.ones(n)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert isinstance(H.X, rows_on_disk.RowsOnDisk)
print(json.dumps(peaks[1::2]))
"""


def test_rows_larger_than_memory_are_not_held(tmp_path: Path) -> None:
    """What is held is a fraction of the rows; asked for with as little memory, rows in memory are refused.

    Measured in a process of its own: what a process allocates is counted as a whole, whoever asks for it.
    """
    pytest.importorskip("zarr")
    rows = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float64, (300, 2000))
    rows[:] = np.random.default_rng(1).standard_normal((300, 2000))
    rows.flush()
    said = subprocess.run([sys.executable, "-c", PEAKS, str(tmp_path)], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert max(json.loads(said.stdout)) < rows.nbytes / 2
    with pytest.raises(ValueError, match=r"or give `X` as a memory map, whose rows stay on disk"):
        gram(TwoLayer(), np.asarray(rows)[:], "matrix_free", device="cpu", memory="2.5 MB")


def test_what_is_wrong_with_them_is_one_line(tmp_path: Path) -> None:
    wrong = X.copy()
    wrong[55, 2] = np.nan
    with pytest.raises(ValueError, match=r"`X` has 1 NaN \(first: row 5, column 2\).*counted from row 50 of 60"):
        gram(TwoLayer(), on_disk("memory map", tmp_path, wrong), "matrix_free", device="cpu")
    with pytest.raises(ValueError, match=r"nothing is there; give rows, or a .npy, parquet or Zarr path"):
        gram(TwoLayer(), tmp_path / "missing.npy")
    (tmp_path / "nonsense.npy").write_text("nonsense")
    with pytest.raises(ValueError, match=r"nonsense.npy is corrupt or cut short"):
        gram(TwoLayer(), tmp_path / "nonsense.npy")
    with pytest.raises(ValueError, match=r"has shape \(0, 4\)"):
        gram(TwoLayer(), on_disk("npy", tmp_path, X[:0]))
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    (tmp_path / "t.parquet").write_text("nonsense")
    with pytest.raises(ValueError, match="cannot be read as parquet"):
        gram(TwoLayer(), tmp_path / "t.parquet")
    parquet.write_table(pyarrow.table({"a": [1.0], "name": ["b"]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"column 'name' of .* is string; rows need numbers alone"):
        gram(TwoLayer(), tmp_path / "t.parquet")


def test_a_group_of_zarr_is_no_array(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.create_group(str(tmp_path / "group"))
    with pytest.raises(ValueError, match=r"is a Zarr group; give one of its arrays"):
        gram(TwoLayer(), tmp_path / "group")
    assert isinstance(gram(TwoLayer(), on_disk("zarr", tmp_path), "matrix_free", device="cpu"), MatrixFreeGram)
