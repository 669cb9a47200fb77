"""Matrices on disk: the numbers of `dense`, whatever happened to the disk, the process or a tile on the way."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kernels_for_tests import Images

import overparam as op
from overparam.core import files
from overparam.core.progress import Interrupted
from overparam.engines import AbstractGram, gram, stored, tiles
from overparam.engines.matrix_free import MatrixFreeGram
from overparam.engines.stored import StoredGram
from overparam.engines.tile_folder import NAME
from overparam.kernels import FullyConnected, TwoLayer

zarr = pytest.importorskip("zarr", reason="tiles on disk need zarr")

N, D = 150, 5
rng = np.random.default_rng(0)
X = rng.standard_normal((N, D))
X[7], X[140], X[9] = X[100], X[3] * (1 + 1e-9), -2 * X[10]  # near-parallel pairs, two of them in tiles off the diagonal
V = rng.standard_normal((N, 3))
EPS = float(np.finfo(float).eps)


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """149 would be a prime; 150 rows by at most 44 are 4 tiles of 38, the last of 36: a chunk longer than its rows."""
    monkeypatch.setattr(stored, "ROWS", 44)
    monkeypatch.setattr(tiles, "even_size", lambda n, size: -(-n // -(-n // size)))
    monkeypatch.setattr(stored, "even_size", tiles.even_size)


def stored_gram(place: Path, rows: object = X, **other: object) -> StoredGram:
    H = gram(TwoLayer(), rows, "stored", place=place, **other)  # type: ignore[arg-type]
    assert isinstance(H, StoredGram)
    return H


def tile_files(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("kernel", [TwoLayer(), FullyConnected(3), op.kernels.Gaussian(2.0)])
def test_it_is_the_dense_matrix(tmp_path: Path, kernel: op.kernels.TwoLayer) -> None:
    dense, H = gram(kernel, X, "dense", device="cpu"), gram(kernel, X, "stored", place=tmp_path)
    scale = np.sqrt(np.outer(dense.diagonal(), dense.diagonal()))
    assert (np.abs(H.dense() - dense.dense()) <= 4 * kernel.entry_rounding * scale).all()
    np.testing.assert_array_equal(H.dense(), H.dense().T)
    np.testing.assert_array_equal(H.diagonal(), dense.diagonal())
    np.testing.assert_array_equal(H.dense().diagonal(), dense.diagonal())
    assert H.repaired == dense.repaired == 3
    allowed = (H.rounding + dense.rounding + H.product_rounding + dense.product_rounding) * np.linalg.norm(V, axis=0)
    assert (np.linalg.norm(H @ V - dense @ V, axis=0) <= allowed).all()
    assert H.square_sum() == pytest.approx(dense.square_sum(), rel=1e-12)
    assert len(list((tmp_path / NAME / "c").glob("*/*"))) == 10


def test_zarr_reads_the_same_numbers(tmp_path: Path) -> None:
    H = stored_gram(tmp_path)
    array = zarr.open(tmp_path / NAME, mode="r")
    lower = np.tril_indices(N)
    np.testing.assert_array_equal(array[:][lower], H.dense()[lower])
    assert array.chunks == (38, 38)
    assert np.isnan(array[0, N - 1])  # what is not stored is no number
    assert array.attrs["overparam"]["kernel"]["name"] == "TwoLayer"


def test_opened_again_it_makes_nothing(tmp_path: Path) -> None:
    images = rng.standard_normal((32, 2, 3))
    kernel = Images()
    first = gram(kernel, images, "stored", place=tmp_path)
    assert len(kernel.made) > 10
    kernel.made.clear()
    again = gram(kernel, images, "stored", place=tmp_path)
    assert len(kernel.made) <= 1  # a few entries that tell whose matrix it is
    np.testing.assert_array_equal(again.dense(), first.dense())
    np.testing.assert_allclose(again.dense(), gram(Images(), images).dense(), rtol=4 * EPS)
    rows, columns = np.array([31, 0, 17]), np.array([3, 30, 17, 16])
    np.testing.assert_array_equal(again.block(rows, columns), first.dense()[np.ix_(rows, columns)])
    assert again.square_sum() == first.square_sum()


@pytest.fixture(autouse=True)
def _dear_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "tile_size", lambda *_: 8)


def test_stopped_and_run_again(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    images = rng.standard_normal((32, 2, 3))
    gram(Images(), images, "stored", place=whole)
    with pytest.raises(Interrupted, match=r"stopped with .0% of the matrix in .*; run again to go on"):
        gram(Images(most=5), images, "stored", place=tmp_path / "stopped")
    kernel = Images()
    H = gram(kernel, images, "stored", place=tmp_path / "stopped")
    assert len(kernel.made) == 6 + 1
    assert H.repaired is None
    about = {name: content for name, content in tile_files(tmp_path / "stopped").items() if "/c/" in name}
    assert about == {name: content for name, content in tile_files(whole).items() if "/c/" in name}


KILLS = """
import os, sys, hashlib
from pathlib import Path
import numpy as np
from overparam.core import files
from overparam.engines import gram, stored
from overparam.kernels import TwoLayer
stored.ROWS = 16
place, X = Path(sys.argv[1]), np.random.default_rng(0).standard_normal((40, 4))
build = lambda where: gram(TwoLayer(), X, "stored", place=where, threads=1)
def content(where):
    return {str(p.relative_to(where)): p.read_bytes() for p in sorted(where.rglob("*")) if p.is_file()}
writes = [0]
write_new, replace = files._write_new, os.replace
def die(at, moment):
    def new(path, content):
        writes[0] += 1
        if writes[0] == at and moment == "before":
            os._exit(9)
        write_new(path, content[: len(content) // 2] if writes[0] == at and moment == "half" else content)
        if writes[0] == at and moment in ("half", "written"):
            os._exit(9)
    def moved(source, target):
        replace(source, target)
        if writes[0] == at and moment == "moved":
            os._exit(9)
    files._write_new, os.replace = new, moved
v = np.arange(40.0)
product = build(place / "whole") @ v
whole, at = content(place / "whole"), 0
while True:
    at += 1
    ends = []
    for moment in ("before", "half", "written", "moved"):
        where = place / f"{at}-{moment}"
        child = os.fork()
        if not child:
            die(at, moment)
            build(where)
            os._exit(0)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        assert np.array_equal(build(where) @ v, product), (at, moment)
        found = content(where)
        for name in found:
            if not name.endswith("summary.state.kept"):  # it says whether pairs were counted
                assert found[name] == whole[name], (at, moment, name)
        assert found.keys() == whole.keys(), (at, moment)  # and nothing half-written is left
    if ends == [0] * 4:
        break
    assert ends == [9] * 4, ends
print(at - 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks a process for each kill")
def test_killed_at_every_moment_of_every_write_it_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    words = [sys.executable, "-c", KILLS, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 1 + 6 + 1  # what the matrix is, its tiles, and that they are all there


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "flipped":
        content[len(content) // 2] ^= 4
    elif how == "checksum":
        content[-1] ^= 1
    elif how == "nonsense":
        content = bytearray(os.urandom(len(content)))
    else:
        content = content[: {"cut": len(content) // 2, "short": len(content) - 1, "empty": 0}.get(how, 0)]
    path.write_bytes(bytes(content))
    if how == "gone":
        path.unlink()


@pytest.mark.parametrize("how", ["flipped", "checksum", "nonsense", "cut", "short", "empty", "gone"])
@pytest.mark.parametrize("finished", [True, False])
def test_a_damaged_tile_is_found_and_made_again(tmp_path: Path, how: str, finished: bool) -> None:
    H = stored_gram(tmp_path, threads=1)
    product, whole = H @ V, tile_files(tmp_path)
    damage(tmp_path / NAME / "c" / "2" / "1", how)
    damage(tmp_path / NAME / "c" / "3" / "3", how)
    if not finished:
        (tmp_path / NAME / "summary.state.kept").unlink()
        H = stored_gram(tmp_path, threads=1)
    np.testing.assert_array_equal(H @ V, product)
    found = tile_files(tmp_path)
    assert {name: content for name, content in found.items() if "summary" not in name} == {
        name: content for name, content in whole.items() if "summary" not in name
    }


@pytest.mark.parametrize("at", [1, 3, 9, 12])
def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    whole = stored_gram(tmp_path / "whole", threads=1)
    write, count = files._write_new, [0]

    def full(path: Path, content: bytes) -> None:
        count[0] += 1
        if count[0] >= at:
            path.write_bytes(content[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, content)

    monkeypatch.setattr(files, "_write_new", full)
    with pytest.raises(ValueError, match=r"cannot write .*No space left.*Free some disk") as refused:
        stored_gram(tmp_path / "full", threads=1)
    assert "\n" not in str(refused.value)
    monkeypatch.setattr(files, "_write_new", write)
    there = list((tmp_path / "full" / NAME).glob("c/*/*"))
    assert len(there) == min(10, max(0, at - 2))
    before = {path: path.stat().st_mtime_ns for path in there}
    H = stored_gram(tmp_path / "full", threads=1)
    np.testing.assert_array_equal(H @ V, whole @ V)
    assert {path: path.stat().st_mtime_ns for path in there} == before
    assert not list((tmp_path / "full").rglob(".*"))


def test_the_folder_of_another_matrix_is_refused(tmp_path: Path) -> None:
    whole = stored_gram(tmp_path) @ V
    moved = X.copy()
    moved[N - 1, D - 1] += 1e-12
    for words, change in (
        ("rows differs", {"rows": moved}),
        ("rows", {"rows": X[:-1]}),
        ("`get`", {"get": "nngp"}),
        ("`dtype` differs", {"dtype": "float32"}),
    ):
        with pytest.raises(ValueError, match=rf"holds another matrix \(.*{words}.*\); name another `place`, or delete"):
            stored_gram(tmp_path, **change)
    with pytest.raises(ValueError, match="kernel"):
        gram(FullyConnected(2), X, "stored", place=tmp_path)
    np.testing.assert_array_equal(stored_gram(tmp_path) @ V, whole)
    head = tmp_path / NAME / "zarr.json"
    head.write_text(head.read_text().replace("TwoLayer", "ThreeLayer"))
    with pytest.raises(ValueError, match="is damaged, or no manifest of ours; delete"):
        stored_gram(tmp_path)
    head.unlink()
    with pytest.raises(ValueError, match=r"has tiles and no zarr.json"):
        stored_gram(tmp_path)


@pytest.mark.parametrize(("dtype", "share"), [("float32", 2.0**-24), ("int32", 2.0**-32)])
def test_small_tiles_state_their_rounding(tmp_path: Path, dtype: str, share: float) -> None:
    """‖H₃₂ − H‖ is below what is stated beyond float64, and not by more than n: the bound has no other factor."""
    dense, H = gram(TwoLayer(), X, "dense", device="cpu"), stored_gram(tmp_path, dtype=dtype)
    off = float(np.linalg.norm(H.dense() - dense.dense(), 2))
    assert off <= H.rounding <= N * off
    assert share * np.abs(dense.dense()).max() / 4 < np.abs(H.dense() - dense.dense()).max()
    allowed = (H.rounding + H.product_rounding + dense.product_rounding) * np.linalg.norm(V, axis=0)
    assert (np.linalg.norm(H @ V - dense @ V, axis=0) <= allowed).all()
    assert (np.linalg.norm(H @ V - H.dense() @ V, axis=0) <= 2 * H.product_rounding * np.linalg.norm(V, axis=0)).all()
    assert H.square_sum() == pytest.approx(np.sum(H.dense() ** 2), rel=1e-12)
    np.testing.assert_array_equal(H.diagonal(), dense.diagonal())
    assert sum(path.stat().st_size for path in (tmp_path / NAME).glob("c/*/*")) == 10 * (4 * 38**2 + 4)
    y = np.sign(V[:, 0])
    exact, rough = (op.label_complexity(op.quadrature(K, y), ridge=0.5) for K in (dense, H))
    assert rough.lower <= exact.value <= rough.upper
    assert rough.upper - rough.lower < 1e5 * share * exact.value + 2 * (exact.upper - exact.lower)


def test_steps_of_int32_are_those_of_each_pair(tmp_path: Path) -> None:
    """Rows of norms from 1e-30 to 1e30 and one of 0: each entry is off by half a step of its own pair."""
    rows = X * 10.0 ** np.linspace(-30, 30, N)[:, None]
    rows[5] = 0
    kernel = FullyConnected(2)
    exact, H = kernel(rows), gram(kernel, rows, "stored", place=tmp_path, dtype="int32")
    scale = np.sqrt(np.outer(exact.diagonal(), exact.diagonal()))
    assert (np.abs(H.dense() - exact) <= 1.001 * 2.0**-32 * scale).all()
    assert (H.dense()[5] == 0).all()
    assert ((H @ np.eye(N))[5] == 0).all()


def test_large_entries_have_no_float32(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"above 3\.4e38.*use dtype='float64'"):
        gram(TwoLayer(), 1e20 * X, "stored", place=tmp_path, dtype="float32")


def test_what_is_asked_of_a_matrix_is_answered_as_by_dense(tmp_path: Path) -> None:
    ridge, y = 1.0, np.sign(V[:, 0])
    dense, H = gram(TwoLayer(), X, "dense", device="cpu"), stored_gram(tmp_path)
    new = rng.standard_normal((4, D))
    one, two = (op.solve(K, y, ridge=ridge) for K in (dense, H))
    assert one.bracket.lower <= two.bracket.upper
    assert two.bracket.lower <= one.bracket.upper
    predicted = [op.predict(K, y, TwoLayer()(new, X), ridge=ridge) for K in (dense, H)]
    np.testing.assert_allclose(*[p.outputs if hasattr(p, "outputs") else p for p in predicted], rtol=1e-8)
    left_out = [op.leave_one_out(K, y, ridge=ridge).outputs for K in (dense, H)]
    np.testing.assert_allclose(*left_out, rtol=1e-8)
    np.testing.assert_allclose(H.cross_product(new, V), dense.cross_product(new, V), rtol=1e-12)
    assert op.eigenvalue_bounds(H).lower_method == op.eigenvalue_bounds(dense).lower_method


PEAKS = """
import json, sys, tracemalloc
import numpy as np
from overparam.engines import gram, stored
from overparam.kernels import TwoLayer

stored.ROWS = 64
peaks = []
for n in (64, 256, 1024):  # the first one imports
    rows = np.random.default_rng(1).standard_normal((n, 4))
    tracemalloc.start()
    gram(TwoLayer(), rows, "stored", device="cpu", place=f"{sys.argv[1]}/{n}", threads=1) @ np.ones(n)
    peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
print(json.dumps(peaks[1:]))
"""


def test_memory_does_not_grow_as_the_matrix_does(tmp_path: Path) -> None:
    """Between 256 and 1,024 rows the matrix grows 16 times; what is held may grow by 4^1.1. In a process of its own."""
    said = subprocess.run([sys.executable, "-c", PEAKS, str(tmp_path)], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    peaks = json.loads(said.stdout)
    assert peaks[1] / peaks[0] <= 4**1.1
    assert peaks[1] < 8 * 1024**2 / 4


class Little:
    free = 200_000


def test_the_plan_says_what_the_disk_must_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = stored_gram(tmp_path / "first").plan
    assert plan is not None
    assert plan.disk is not None
    assert plan.disk.whole == plan.disk.missing == 10 * (8 * 38**2 + 4)
    assert "disk     116 kB of float64" in str(plan)
    assert "of it there already" in str(stored_gram(tmp_path / "first").plan)
    assert stored_gram(tmp_path / "first").plan.gram_seconds == 0  # type: ignore[union-attr]
    assert plan.gram_seconds > 0
    assert plan.product_seconds > 0
    monkeypatch.setattr("shutil.disk_usage", lambda _: Little)
    assert stored_gram(tmp_path / "second").plan is not None
    monkeypatch.setattr(Little, "free", 100_000)
    with pytest.raises(
        ValueError, match=r"116 kB and 100 kB of disk are free.*use dtype='int32' \(57\.8 kB\), a `place`"
    ):
        stored_gram(tmp_path / "third")
    assert not (tmp_path / "third").exists()
    stored_gram(tmp_path / "third", dtype="float32")


def test_auto_takes_the_disk_where_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(1).standard_normal((1200, 3))
    monkeypatch.setattr(stored, "ROWS", 300)

    def taken(**other: object) -> AbstractGram:
        return gram(TwoLayer(), rows, device="cpu", memory="8 MB", **other)  # type: ignore[arg-type]

    assert isinstance(taken(), MatrixFreeGram)
    H = taken(place=tmp_path)
    assert isinstance(H, StoredGram)
    assert H.plan is not None
    assert "11.5 MB, more than the 8 MB to use, and 7.2 MB on disk" in H.plan.reason
    monkeypatch.setattr("shutil.disk_usage", lambda _: Little)
    other = taken(place=tmp_path / "other")
    assert isinstance(other, MatrixFreeGram)
    assert other.plan is not None
    assert "on disk it takes 7.2 MB, and 200 kB are free" in other.plan.reason
    assert not isinstance(gram(TwoLayer(), X, place=tmp_path / "dense"), StoredGram)
    with pytest.raises(ValueError, match="use engine='matrix_free' or engine='stored' with a `place` on disk"):
        taken(engine="dense")


def test_what_does_not_go_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"engine='stored' needs `place`"):
        gram(TwoLayer(), X, "stored")
    with pytest.raises(ValueError, match=r"dtype='float32' is of half a matrix"):
        gram(TwoLayer(), X, dtype="float32")
    with pytest.raises(ValueError, match=r"`dtype` is 'half'; expected 'float64', 'float32' or 'int32'"):
        gram(TwoLayer(), X, "stored", place=tmp_path, dtype="half")
    with pytest.raises(ValueError, match=r"multiplies on the CPU and `device` is 'gpu'"):
        gram(TwoLayer(), X, "stored", place=tmp_path, device="gpu")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file or lies in one; name a folder"):
        stored_gram(tmp_path / "file")
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ImportError, match=r"tiles on disk need zarr: install overparam\[stored\]"):
        stored_gram(tmp_path)
