"""`overparam gram` as people run it: a plan, a matrix in a folder, a stop, what opens it, and one line for what is wrong."""

import json
from pathlib import Path

import numpy as np
import pytest

import overparam as op
from overparam.cli import run
from overparam.engines import stored
from overparam.engines.stored import StoredGram

pytest.importorskip("zarr", reason="tiles on disk need zarr")
SMALL = ["gram", "wine"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stored, "ROWS", 50)
    return tmp_path


def test_the_plan_says_what_the_disk_must_hold_and_leaves_no_trace(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*SMALL, "--plan"]) == 0
    words = capsys.readouterr().out
    assert "stored engine" in words
    assert "disk" in words
    assert run([*SMALL, "--plan", "--json", "--dtype", "float32"]) == 0
    assert json.loads(capsys.readouterr().out)["disk"] == 10 * (4 * 45**2 + 4)
    assert list(place.iterdir()) == []


def test_the_matrix_is_built_and_opened_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL, "--out", "o", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "gram"
    assert sorted(path.name for path in (place / "o").iterdir()) == [
        "arrays.npz",
        "matrix.zarr",
        "report.html",
        "result.json",
    ]
    built = op.read("o")
    assert (built.n, built.engine, built.dtype) == (178, "stored", "float64")
    H = built.open("o", "wine")
    assert isinstance(H, StoredGram)
    assert built.norm == np.sqrt(H.square_sum())
    data = op.data.preprocess(op.load("wine").in_source_order())
    again = op.gram(op.kernels.TwoLayer(), data.X, "stored", place="o")
    np.testing.assert_array_equal(again @ np.ones(178), H @ np.ones(178))
    assert built.mean_entry == pytest.approx(op.gram(op.kernels.TwoLayer(), data.X).dense().mean(), rel=1e-12)
    tile = place / "o" / "matrix.zarr" / "c" / "1" / "0"
    before = tile.stat().st_mtime_ns
    assert run([*SMALL, "--out", "o"]) == 0
    assert "Every tile was read back" in capsys.readouterr().out
    assert tile.stat().st_mtime_ns == before
    assert run([*SMALL, "--out", "o", "--no-resume"]) == 0
    assert tile.stat().st_mtime_ns > before


def test_stopped_it_goes_on(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    make, made = StoredGram._make, []

    def stopping(self, tile, workers):  # type: ignore[no-untyped-def]
        if len(made) == 5:
            raise KeyboardInterrupt
        made.append(tile)
        return make(self, tile, workers)

    monkeypatch.setattr(StoredGram, "_make", stopping)
    assert run([*SMALL, "--out", "o"]) == 130
    assert "finished parts are kept, and the same command goes on" in capsys.readouterr().err
    monkeypatch.setattr(StoredGram, "_make", make)
    assert len(list((place / "o" / "matrix.zarr").glob("c/*/*"))) == 5
    assert run([*SMALL, "--out", "o"]) == 0
    whole = op.read("o").open("o", "wine")
    data = op.data.preprocess(op.load("wine").in_source_order())
    np.testing.assert_allclose(whole.dense(), op.gram(op.kernels.TwoLayer(), data.X).dense(), atol=1e-13)


def test_rows_alone_may_be_larger_than_memory(place: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((120, 3))
    np.save("rows.npy", rows)
    command = ["gram", "rows.npy", "--rows-alone", "--kernel", "gaussian", "--bandwidth", "2", "--dtype", "float32"]
    assert run([*command, "--out", "o"]) == 0
    built = op.read("o")
    assert (built.dtype, str(built.kernel)) == ("float32", "Gaussian(bandwidth=2)")
    H = built.open("o", "rows.npy")
    assert np.abs(H.dense() - op.kernels.Gaussian(2.0)(rows)).max() <= 2.0**-24


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--kernel", "deep"], "--kernel is 'deep'"),
        (["--engine", "fast"], "--engine is 'fast'"),
        (["--depth", "2"], "--depth is of the fully-connected kernel"),
        (["--kernel", "laplace", "--bandwidth", "0"], "--bandwidth is 0"),
        (["--dtype", "half"], "--dtype is 'half'"),
        (["--device", "gpu"], "--device is 'gpu'"),
        (["--engine", "dense", "--dtype", "float32"], "--engine stored"),
    ],
)
def test_what_is_wrong_is_one_line(
    place: Path, capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    assert run([*SMALL, *words, "--out", "o"]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1
    assert not (place / "o").exists()


def test_the_folder_of_another_matrix_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL, "--out", "o"]) == 0
    assert run([*SMALL, "--out", "o", "--kernel", "fully-connected"]) == 2
    assert "holds another matrix (kernel" in capsys.readouterr().err
