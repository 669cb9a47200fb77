"""Matrices that outlive a kill: finished tiles are read back, damaged ones made again, those of others left alone."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kernels_for_tests import Images

import overparam as op
from overparam.core.progress import Interrupted
from overparam.engines import cross_matrix, gram, tiles
from overparam.engines.dense import DenseGram
from overparam.frame.keeping import PARTS
from overparam.kernels import TwoLayer

X = np.random.default_rng(0).standard_normal((32, 2, 3))
NEW = np.random.default_rng(1).standard_normal((12, 2, 3))
TRIED = 1
"""Blocks a start makes to tell whose tiles they are."""


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "SIZES", (8,))
    monkeypatch.setattr(tiles, "entry_seconds", lambda *_, **__: 1e-9)


def kept(folder: Path) -> list[Path]:
    return sorted((folder / PARTS).glob("tile-*"))


def test_stopped_and_run_again(tmp_path: Path) -> None:
    whole = gram(Images(), X).dense()
    with pytest.raises(Interrupted, match=r"40% of the matrix kept in .*run again") as stopped:
        gram(Images(most=4 + TRIED), X, place=tmp_path)
    assert isinstance(stopped.value, KeyboardInterrupt)
    assert len(kept(tmp_path)) == 4
    kernel, told = Images(), []
    H = gram(kernel, X, place=tmp_path, progress=lambda done, *_: told.append(done))
    assert isinstance(H, DenseGram)
    assert len(kernel.made) == 6 + TRIED  # of 10 tiles 4 were read
    np.testing.assert_array_equal(H.dense(), whole)
    assert told == pytest.approx(np.arange(1, 11) / 10)
    kernel.made.clear()
    np.testing.assert_array_equal(gram(kernel, X, place=tmp_path).dense(), whole)
    assert len(kernel.made) == TRIED
    assert not list((tmp_path / PARTS).glob(".*"))  # nothing half-written is left


def test_killed_without_a_word(tmp_path: Path) -> None:
    """A process that ends in the middle of its sixth tile leaves five."""
    code = f"""
import os, sys, numpy as np
sys.path.insert(0, {str(Path(__file__).parent)!r})
from kernels_for_tests import Images
from overparam.engines import gram, tiles
tiles.SIZES, tiles.entry_seconds = (8,), lambda *_, **__: 1e-9
class Killed(list):
    def append(self, item):
        if len(self) == {5 + TRIED}:
            os._exit(9)
        super().append(item)
X = np.random.default_rng(0).standard_normal((32, 2, 3))
gram(Images(made=Killed()), X, place={str(tmp_path)!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 9, done.stderr
    assert len(kept(tmp_path)) == 5
    kernel = Images()
    np.testing.assert_array_equal(gram(kernel, X, place=tmp_path).dense(), gram(Images(), X).dense())
    assert len(kernel.made) == 5 + TRIED


@pytest.mark.parametrize("damage", ["cut", "flipped", "swapped", "empty", "nonsense", "gone"])
def test_a_damaged_tile_is_made_again(tmp_path: Path, damage: str) -> None:
    whole = gram(Images(), X, place=tmp_path).dense()
    file = kept(tmp_path)[4]
    content = bytearray(file.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "flipped":
        content[300] ^= 64
    elif damage == "swapped":
        place = next(i for i in range(300, len(content)) if content[i] != content[i + 1])
        content[place], content[place + 1] = content[place + 1], content[place]
    elif damage == "empty":
        content.clear()
    elif damage == "nonsense":
        content = bytearray(os.urandom(500))
    file.write_bytes(content)
    if damage == "gone":
        file.unlink()
    kernel = Images()
    np.testing.assert_array_equal(gram(kernel, X, place=tmp_path).dense(), whole)
    assert len(kernel.made) == 1 + TRIED


def test_the_size_of_the_tiles_is_the_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine would choose other tiles; the kept ones still serve."""
    gram(Images(), X, place=tmp_path)
    monkeypatch.setattr(tiles, "SIZES", (16,))
    kernel = Images()
    gram(kernel, X, place=tmp_path)
    assert len(kernel.made) == TRIED


class Hidden(Images):
    """Says nothing of the weights it holds."""

    @property
    def digest(self) -> str:
        return "hidden"


def test_tiles_of_another_matrix_are_left_alone(tmp_path: Path) -> None:
    first = gram(Images(), X, place=tmp_path).dense()
    moved = X.copy()
    moved[31, 1, 2] += 1e-12
    for kernel, rows, get in (
        (Images(2.0), X, "ntk"),
        (Images(), moved, "ntk"),
        (Images(), X[:31], "ntk"),
        (Images(), X, "nngp"),
        (Hidden(), X, "ntk"),
        (Hidden(1.1), X, "ntk"),
    ):
        gram(kernel, rows, get=get, place=tmp_path)
        assert len(kernel.made) == 10 + TRIED
    kernel = Images()
    cross_matrix(kernel, X, X, place=tmp_path)
    assert len(kernel.made) == 16 + TRIED
    kernel = Images()
    np.testing.assert_array_equal(gram(kernel, X, place=tmp_path).dense(), first)
    assert len(kernel.made) == TRIED


def test_cross_matrices_go_on_too(tmp_path: Path) -> None:
    whole = cross_matrix(Images(), NEW, X)
    with pytest.raises(Interrupted):
        cross_matrix(Images(most=3 + TRIED), NEW, X, place=tmp_path)
    assert len(kept(tmp_path)) == 3
    kernel = Images()
    np.testing.assert_array_equal(cross_matrix(kernel, NEW, X, place=tmp_path), whole)
    assert len(kernel.made) == 8 - 3 + TRIED
    np.testing.assert_allclose(whole[3, 4], Images().evaluate(NEW[3], X[4]), rtol=1e-14)


def test_a_kernel_of_inner_products_can_be_kept_too(tmp_path: Path) -> None:
    rows = X.reshape(32, 6)
    H = gram(TwoLayer(), rows, place=tmp_path)
    np.testing.assert_allclose(H.dense(), TwoLayer()(rows), rtol=1e-14)
    assert len(kept(tmp_path)) == 10
    assert op.eigenvalue_bounds(H).lower_method.startswith("separation")  # its rows are known
    on_device = gram(TwoLayer(), rows, place=tmp_path, device="jax")
    np.testing.assert_allclose(on_device @ np.ones(32), H @ np.ones(32), rtol=1e-13)


def test_what_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"matrix_free.*`op\.remember"):
        gram(Images(), X, "matrix_free", place=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file or lies in one; name a folder"):
        gram(Images(), X, place=tmp_path / "file")

    class Little:
        free = 1000

    monkeypatch.setattr("shutil.disk_usage", lambda _: Little)
    with pytest.raises(ValueError, match=r"5\.12 kB and 1 kB of disk are free"):
        gram(Images(), X, place=tmp_path / "small")
