"""Results on disk: what is written is read, what was there before survives a full disk, damage is one line."""

import errno
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from overparam.core import files, folder, sections
from overparam.core.folder import Parts
from overparam.core.provenance import Provenance, Stopwatch


def page() -> tuple[sections.Section, ...]:
    return (
        sections.Section(
            "First",
            (
                sections.Text("Words — with ‘quotes’, <tags> & Ω.", tone="warning"),
                sections.Table(("a", "b"), (("x", 1.5), (None, 2)), caption="A table", has_samples=True),
            ),
        ),
        sections.Section(
            "Second",
            (
                sections.Figure(
                    "Loss",
                    "What it shows.",
                    "steps",
                    "loss",
                    (
                        sections.series("true", [1, 10], [0.5, np.nan], lower=[0.4, 0.3], upper=[np.inf, 0.6]),
                        sections.series("bars", ["a", "b"], [1, 2], mark="bars", role="random", dashed=True),
                    ),
                    x_scale="log",
                    lines=(sections.Line("2/λ", x=3.0), sections.Line("0", y=0.0)),
                ),
            ),
        ),
    )


def parts(size: float = 1.0) -> Parts:
    return Parts(
        kind="analysis",
        title="Ünïcode",
        values={
            "size": size,
            "n": np.int64(3),
            "ok": np.bool_(True),
            "words": ("a", "b"),
            "none": None,
            "list": np.arange(3),
        },
        arrays={
            "X": np.arange(6.0).reshape(2, 3) * size,
            "labels": np.array(["cat", "dog"]),
            "flags": np.array([True]),
        },
        sections=page(),
        provenance=Provenance(configuration={"tol": 1e-6}, seed=3, seconds=1.5, peak_memory=100, machine="m"),
    )


def test_round_trip(tmp_path: Path) -> None:
    given = parts()
    path = folder.write(given, tmp_path / "deep" / "er")
    found = folder.read(path)
    assert (found.kind, found.title) == (given.kind, given.title)
    assert found.values == {"size": 1.0, "n": 3, "ok": True, "words": ["a", "b"], "none": None, "list": [0, 1, 2]}
    assert set(found.arrays) == set(given.arrays)
    for name, array in given.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array)
        assert found.arrays[name].dtype == array.dtype
    assert found.sections == page()
    assert found.provenance == given.provenance
    assert sorted(p.name for p in path.iterdir()) == ["arrays.npz", "result.json"]


def test_numbers_that_are_not_finite_become_null(tmp_path: Path) -> None:
    values = {"inf": np.inf, "nan": float("nan"), "deep": {"list": [1.0, -np.inf, np.array([np.nan, 2.0])]}}
    folder.write(Parts("k", "t", values, {"a": np.array([np.nan, np.inf])}, ()), tmp_path)
    text = (tmp_path / "result.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    found = folder.read(tmp_path)
    assert found.values == {"inf": None, "nan": None, "deep": {"list": [1.0, None, [None, 2.0]]}}
    np.testing.assert_array_equal(found.arrays["a"], [np.nan, np.inf])  # arrays keep theirs


def test_sections_survive_json() -> None:
    stored = json.loads(json.dumps(folder.plain(sections.to_json(page())), allow_nan=False))
    assert sections.from_json(stored) == page()
    assert sections.from_json(sections.to_json(page())) == page()
    with pytest.raises(ValueError, match="unknown kind 'video'; this result was written by a newer version"):
        sections.from_json([{"title": "t", "blocks": [{"kind": "video"}]}])


def test_series_takes_arrays_and_gaps() -> None:
    made = sections.series("s", np.arange(3), [1.0, None, np.inf], lower=np.zeros(3))
    assert made.y == (1.0, None, None)
    assert made.lower == (0.0, 0.0, 0.0)
    assert made.upper is None


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FullAfter:
    """A disk that takes so many files and no more."""

    def __init__(self, original: Callable[..., int], files: int) -> None:
        self.original, self.left = original, files

    def __call__(self, path: object, flags: int, *rest: object, **options: object) -> int:
        if flags & os.O_EXCL:
            if self.left == 0:
                full()
            self.left -= 1
        return self.original(path, flags, *rest, **options)


@pytest.mark.parametrize("how", ["replace", "fsync", "open first", "open second"])
def test_full_disk_leaves_the_old_result_whole(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write(parts(1.0), tmp_path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with monkeypatch.context() as patch:
        if how.startswith("open"):
            patch.setattr(os, "open", FullAfter(os.open, 0 if how == "open first" else 1))
        else:
            patch.setattr(os, how, full)
        with pytest.raises(ValueError, match="No space left on device") as caught:
            folder.write(parts(2.0), tmp_path)
    line = str(caught.value)
    assert "\n" not in line
    assert "unchanged" in line
    assert "Free some disk" in line
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before  # and no temporary file is left
    assert folder.read(tmp_path).values["size"] == 1.0


def test_a_result_whose_last_move_finds_the_disk_full_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words are in place, and its arrays wait beside them: who reads it moves them."""
    folder.write(parts(1.0), tmp_path)
    replace = os.replace

    def full_for_arrays(source: Path, target: Path) -> None:
        if target.name == folder.ARRAYS:
            full()
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full_for_arrays)
        folder.write(parts(2.0), tmp_path)
        assert folder.read(tmp_path).arrays["X"][1, 2] == 10.0
    assert folder.read(tmp_path).values["size"] == 2.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["arrays.npz", "result.json"]


def test_interrupted_write_leaves_the_old_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write(parts(1.0), tmp_path)

    def stopped(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", stopped)
        with pytest.raises(KeyboardInterrupt):
            folder.write(parts(2.0), tmp_path)
    assert folder.read(tmp_path).values["size"] == 1.0
    assert len(list(tmp_path.iterdir())) == 2


def test_a_result_that_is_replaced_while_it_is_read_is_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words are read, then another process puts a new result there: the arrays beside them are not its own."""
    folder.write(parts(1.0), tmp_path)
    arrays_of = folder._arrays_of

    def late(path: Path, checksum: str | None) -> dict[str, np.ndarray]:
        monkeypatch.setattr(folder, "_arrays_of", arrays_of)
        folder.write(parts(2.0), tmp_path)
        return arrays_of(path, checksum)

    monkeypatch.setattr(folder, "_arrays_of", late)
    found = folder.read(tmp_path)
    assert found.values["size"] == 2.0
    np.testing.assert_array_equal(found.arrays["X"], parts(2.0).arrays["X"])
    (tmp_path / "arrays.npz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"damaged, or not of the result\.json"):
        folder.read(tmp_path)


def test_a_reader_that_comes_late_does_not_undo_a_newer_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two results were killed between their moves, and the first is read while the second appears."""
    settle = folder._settle
    monkeypatch.setattr(folder, "_settle", lambda *_: None)
    folder.write(parts(1.0), tmp_path)
    sha256 = files.sha256

    def between(content: bytes) -> str:
        monkeypatch.setattr(files, "sha256", sha256)
        folder.write(parts(2.0), tmp_path)
        monkeypatch.setattr(folder, "_settle", settle)
        return sha256(content)

    document = json.loads((tmp_path / "result.json").read_text())
    monkeypatch.setattr(files, "sha256", between)
    first = folder._arrays_of(tmp_path, document["arrays_sha256"])
    np.testing.assert_array_equal(first["X"], parts(1.0).arrays["X"])
    assert folder.read(tmp_path).values["size"] == 2.0
    np.testing.assert_array_equal(folder.read(tmp_path).arrays["X"], parts(2.0).arrays["X"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["arrays.npz", "result.json"]


def test_places_that_cannot_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match="name a") as caught:
            folder.write(parts(), place)
        assert "\n" not in str(caught.value)
    assert (tmp_path / "file").read_text() == "x"


def flip(path: Path, at: float) -> None:
    content = bytearray(path.read_bytes())
    place = int(at * len(content))
    for i in range(place, min(place + 8, len(content))):
        content[i] ^= 0xFF
    path.write_bytes(bytes(content))


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def change(path: Path, **fields: object) -> None:
    document = json.loads(path.read_text())
    document.update({"sha256": ..., **fields})  # as a folder of an edition that wrote no checksum
    path.write_text(json.dumps({k: v for k, v in document.items() if v is not ...}))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "json cut": (lambda p: (p / "result.json").write_text((p / "result.json").read_text()[:50]), "cannot be read"),
    "json empty": (lambda p: (p / "result.json").write_text(""), "cannot be read"),
    "json binary": (lambda p: (p / "result.json").write_bytes(b"\xff\xfe\x00\x01"), "cannot be read"),
    "json a list": (lambda p: (p / "result.json").write_text("[]"), "no schema number"),
    "no schema": (lambda p: change(p / "result.json", schema=...), "no schema number"),
    "newer schema": (lambda p: change(p / "result.json", schema=99), "schema 99 and this version reads 1"),
    "no values": (lambda p: change(p / "result.json", values=...), "lacks what this version expects"),
    "sections null": (lambda p: change(p / "result.json", sections=None), "its sections is no list"),
    "a digit": (lambda p: change(p / "result.json", sha256="0" * 64), "checksum does not fit"),
    "a strange name": (lambda p: change(p / "result.json", sha257=1), "nothing of ours"),
    "deep": (lambda p: (p / "result.json").write_text("[" * 100_000), "nested too deep"),
    "no number": (lambda p: (p / "result.json").write_text('{"schema": NaN}'), "NaN is no number"),
    "npz cut": (lambda p: (p / "arrays.npz").write_bytes((p / "arrays.npz").read_bytes()[:-40]), "damaged"),
    "npz empty": (lambda p: (p / "arrays.npz").write_bytes(b""), "damaged"),
    "npz words": (lambda p: (p / "arrays.npz").write_text("not a zip file at all"), "damaged"),
    "an npy": (lambda p: (p / "arrays.npz").write_bytes(npy(np.ones(3))), "damaged"),
    "array lost": (lambda p: np.savez(p / "arrays.npz", X=np.ones(3)), "not of the result.json beside it"),
    "a pickle": (lambda p: np.savez(p / "arrays.npz", X=np.array([{}], dtype=object)), "damaged"),
}


@pytest.mark.parametrize("how", list(DAMAGE))
def test_damage_is_one_line(how: str, tmp_path: Path) -> None:
    folder.write(parts(), tmp_path)
    damage, words = DAMAGE[how]
    damage(tmp_path)
    with pytest.raises(ValueError, match=words) as caught:
        folder.read(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("at", np.linspace(0.02, 0.98, 25))
def test_flipped_bytes_never_escape_as_something_else(at: float, tmp_path: Path) -> None:
    folder.write(parts(), tmp_path)
    flip(tmp_path / "arrays.npz", at)
    line = ""
    try:
        found = folder.read(tmp_path)
    except ValueError as error:
        line = str(error)
    else:  # a byte nobody reads
        np.testing.assert_array_equal(found.arrays["X"], parts().arrays["X"])
    assert "\n" not in line


def test_missing_files_name_the_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no result\.json; name a folder written by `overparam`"):
        folder.read(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"holds no result\.json"):
        folder.read(tmp_path / "nowhere")
    folder.write(parts(), tmp_path)
    (tmp_path / "arrays.npz").unlink()
    with pytest.raises(FileNotFoundError, match=r"holds no arrays\.npz; make the result again"):
        folder.read(tmp_path)


def test_provenance_of_a_piece_of_work() -> None:
    watch = Stopwatch()
    made = watch.provenance({"a": 1}, seed=7, device="gpu")
    assert made.seconds > 0
    assert made.peak_memory is None or made.peak_memory > 1e6
    assert "core" in made.machine
    assert made.numpy == np.__version__
    assert Provenance.from_json(json.loads(json.dumps(made.to_json()))) == made
    assert Provenance.from_json({"seed": 4, "of a later version": 1}).seed == 4
    assert os.uname().nodename not in json.dumps(made.to_json())


def test_damaged_archives_are_one_line_whatever_is_damaged(tmp_path) -> None:
    """Every byte of a small archive changed in turn: it is read, or a ValueError of one line names the file."""
    path = tmp_path / "small.npz"
    np.savez_compressed(path, x=np.arange(5.0))
    whole = path.read_bytes()
    said: list[str] = []
    for place in range(0, len(whole), 2):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1 :])
        try:
            folder.read_arrays(path)
        except ValueError as error:
            said.append(str(error))
    assert len(said) > len(whole) // 8
    assert all(line.startswith(f"{path} is damaged") and "\n" not in line for line in said)


class Killed(BaseException):
    """What no handler of ours catches: the process is gone."""


def test_killed_at_any_write_the_folder_holds_one_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call that changes the folder is the last one in turn; the words and the numbers read are of one result."""
    seen = set()
    for last in range(20):
        place = tmp_path / str(last)
        folder.write(parts(1.0), place)
        calls = 0

        def killing(original: Callable[..., object], last: int = last) -> Callable[..., object]:
            def call(*words: object, **options: object) -> object:
                nonlocal calls
                if calls >= last:
                    raise Killed
                calls += 1
                return original(*words, **options)

            return call

        with monkeypatch.context() as patch:
            for name in ("open", "replace", "fsync", "unlink"):
                patch.setattr(os, name, killing(getattr(os, name)))
            try:
                folder.write(parts(2.0), place)
                finished = True
            except Killed:
                finished = False
        found = folder.read(place)
        assert found.arrays["X"][0, 1] == found.values["size"]
        seen.add(found.values["size"])
        again = folder.read(folder.write(parts(3.0), place))
        assert again.arrays["X"][0, 1] == again.values["size"] == 3.0
        assert {path.name for path in place.iterdir() if not path.name.endswith(".part")} == {
            "result.json",
            "arrays.npz",
        }
        if finished:
            break
    else:
        raise AssertionError("the write never finished")
    assert seen == {1.0, 2.0}


def test_arrays_of_another_result_are_refused(tmp_path: Path) -> None:
    folder.write(parts(1.0), tmp_path / "a")
    folder.write(parts(2.0), tmp_path / "b")
    os.replace(tmp_path / "b" / "arrays.npz", tmp_path / "a" / "arrays.npz")
    with pytest.raises(ValueError, match="not of the"):
        folder.read(tmp_path / "a")


def test_a_folder_of_schema_1_is_read(tmp_path: Path) -> None:
    folder.write(parts(1.0), tmp_path)
    document = json.loads((tmp_path / "result.json").read_text())
    document["schema"] = 1
    del document["arrays_sha256"], document["sha256"]
    (tmp_path / "result.json").write_text(json.dumps(document))
    found = folder.read(tmp_path)
    assert (found.schema, found.values["size"]) == (1, 1.0)


def test_the_home_folder_is_filled_in_wherever_a_path_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import overparam as op
    from overparam.cli import run
    from overparam.frame.keeping import Keeping, Kept, State
    from overparam.report import export_figures, write_page

    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir(), here.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.chdir(here)
    given = parts()
    folder.write(given, "~/x")
    assert folder.read("~/x").title == given.title
    write_page("~/x")
    export_figures(given, "~/x/figures", kind="svg")
    Keeping("~/y").keep("part", "mark", Kept({}))
    State("~/y", "name", "mark").save(Kept({}))
    op.gram(op.kernels.TwoLayer(), np.eye(3), "stored", place="~/z").dense()
    assert run(["report", "~/x"]) == 0
    assert run(["gram", "wine", "--rows", "20", "--out=~/w"]) == 0  # no shell fills that in
    assert sorted(path.name for path in home.iterdir()) == ["w", "x", "y", "z"]
    assert not list(here.iterdir())
    with pytest.raises(ValueError, match="a user who is not known here"):
        folder.write(given, "~nosuchuserhere/x")
