"""No product is lost: ctrl-C, a real SIGINT, a SIGKILL, a save cut short, and folders that do not belong."""

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overparam.core import files
from overparam.engines import AbstractGram, gram
from overparam.engines.dense import DenseGram
from overparam.engines.matrix_free import MatrixFreeGram
from overparam.engines.on_device import DeviceDenseGram
from overparam.frame.keeping import PARTS, Kept
from overparam.kernels import TwoLayer
from overparam.spectrum import Interrupted, Inverse, Loss, Quadrature, quadrature, sweep
from overparam.spectrum.lanczos import CHUNK, Lanczos

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 9))
X /= np.linalg.norm(X, axis=1)[:, None]  # the diagonal is ½ everywhere: it tells no two matrices apart
Y = np.column_stack([np.sign(RNG.standard_normal(150)), RNG.standard_normal(150)])
STATE = "sweep.state.kept"
ALL = {"max_products": 40, "tol": 1e-15}  # a count, so that no clock decides when the bracket is looked at


class Counter:
    """Counts products and raises KeyboardInterrupt in the middle of the chosen one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cls: type[AbstractGram]) -> None:
        self.made, self.stop_at = 0, None
        original = cls.product

        def product(gram_: AbstractGram, V: Any, progress: Any = None) -> Any:
            if self.stop_at is not None and self.made == self.stop_at:
                self.stop_at = None
                raise KeyboardInterrupt
            found = original(gram_, V, progress)
            self.made += 1
            return found

        monkeypatch.setattr(cls, "product", product)


def make(kind: str) -> AbstractGram:
    engine = "matrix_free" if kind == "matrix_free" else "dense"
    return gram(TwoLayer(), X, engine=engine, device="jax" if kind == "jax" else "cpu")


def products_kept(place: Path) -> int:
    file = place / STATE
    return Kept.from_bytes(file.read_bytes(), file).arrays["alphas"].shape[1] if file.exists() else 0


CLASSES = {"dense": DenseGram, "matrix_free": MatrixFreeGram, "jax": DeviceDenseGram}


def same(found: Quadrature, whole: Quadrature) -> None:
    assert found.products == whole.products
    np.testing.assert_allclose(found.alphas, whole.alphas, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(found.betas, whole.betas, rtol=1e-11, atol=1e-13)
    for integrand in (Inverse([0.0, 0.1]), Loss([0, 1, 50, 4000], 0.02)):
        a, b = found.bracket(integrand), whole.bracket(integrand)
        for part in ("value", "lower", "upper"):
            np.testing.assert_allclose(getattr(a, part), getattr(b, part), rtol=1e-12)


@functools.cache
def whole_of(kind: str) -> Quadrature:
    """The sweep that nothing stops."""
    return quadrature(make(kind), Y, **ALL)


@pytest.fixture(scope="module")
def whole() -> Quadrature:
    return whole_of("dense")


LAM, VECTORS = np.linalg.eigh(TwoLayer()(X))
WEIGHTS = ((VECTORS.T @ Y) ** 2).sum(axis=1)


@pytest.mark.parametrize("kind", ["dense", "matrix_free", "jax"])
@pytest.mark.parametrize("at", [0, 1, 17, CHUNK, CHUNK + 1])
def test_interrupted_in_memory_goes_on(kind: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, H = whole_of(kind), make(kind)
    assert whole.products == 40 > CHUNK + 1
    counter = Counter(monkeypatch, CLASSES[kind])
    counter.stop_at = at
    with pytest.raises(Interrupted, match=f"stopped after {at} products; none is lost") as caught:
        quadrature(H, Y, **ALL)
    assert isinstance(caught.value, KeyboardInterrupt)
    assert "resume=error.sweep" in str(caught.value)
    assert caught.value.sweep.products == at
    partial = caught.value.partial
    if at == 0:
        assert partial is None
    else:
        assert partial.products == at
        assert not partial.converged
        found = partial.bracket(Inverse())
        assert found.lower <= float(np.sum(WEIGHTS / LAM)) <= found.upper
        assert found.certified  # the bound on λ_min was known before the interruption
        loss = partial.bracket(Loss([0, 1, 1000], 0.5 / partial.bounds.upper))
        for i, s in enumerate((0, 1, 1000)):
            true = 0.5 * WEIGHTS @ (1 - 0.5 / partial.bounds.upper * LAM) ** (2 * s)
            assert loss.lower[i] <= true * (1 + 1e-13)
            assert true * (1 - 1e-13) <= loss.upper[i]
    found = quadrature(H, Y, **ALL, resume=caught.value.sweep)
    assert counter.made == whole.products  # each product once
    same(found, whole)


@pytest.mark.parametrize("asked", [{}, {"bounds": None}], ids=["bracket", "no bounds"])
def test_a_stopped_sweep_ends_where_the_one_nobody_stops_does(asked: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    H = make("dense")
    whole = quadrature(H, Y, tol=1e-4, **asked)
    assert whole.products > 12
    assert whole.converged
    for at in range(whole.products - 9, whole.products):
        counter = Counter(monkeypatch, DenseGram)
        counter.stop_at = at
        with pytest.raises(Interrupted) as caught:
            quadrature(H, Y, tol=1e-4, **asked)
        same(quadrature(H, Y, tol=1e-4, **asked, resume=caught.value.sweep), whole)


def test_interrupted_three_times(whole: Quadrature, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    H = make("dense")
    counter = Counter(monkeypatch, DenseGram)
    resume = None
    for at in (0, CHUNK, 36):
        counter.stop_at = at
        with pytest.raises(Interrupted) as caught:
            quadrature(H, Y, **ALL, resume=resume, place=tmp_path / "kept")
        resume = caught.value.sweep
    assert "place=" in str(caught.value)
    stored = Lanczos.load(tmp_path / "kept", H, Y)  # what lies on disk is what is in memory
    for kept, made in zip(stored._basis, resume._basis, strict=True):
        np.testing.assert_array_equal(kept[:, : 36 % CHUNK], made[:, : 36 % CHUNK])
    same(quadrature(H, Y, **ALL, resume=resume), whole)
    same(quadrature(H, Y, **ALL, place=tmp_path / "kept"), whole)
    assert counter.made == 40 + (40 - 36)


@pytest.mark.parametrize("kind", ["dense", "matrix_free", "jax"])
def test_a_kept_sweep_goes_on_in_another_call(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = whole_of(kind)
    counter = Counter(monkeypatch, CLASSES[kind])
    counter.stop_at = 35
    with pytest.raises(Interrupted, match="call again with place="):
        quadrature(make(kind), Y, **ALL, place=tmp_path)
    found = quadrature(make(kind), Y, **ALL, place=tmp_path)
    assert counter.made == whole.products  # ‖H‖_F² is gathered on the way
    same(found, whole)
    again = quadrature(make(kind), Y, **ALL, place=tmp_path)
    # a finished sweep is read, not made again; without the matrix ‖H‖_F² then takes one pass of its own
    extra = int(kind == "matrix_free")
    assert counter.made == whole.products + extra
    same(again, found)
    more = quadrature(make(kind), Y, max_products=44, tol=1e-15, place=tmp_path)
    assert more.products == 44
    assert counter.made == 44 + extra


def test_engines_may_change_between_calls(whole: Quadrature, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    counter = Counter(monkeypatch, DenseGram)
    counter.stop_at = 20
    with pytest.raises(Interrupted):
        quadrature(make("dense"), Y, **ALL, place=tmp_path)
    found = quadrature(make("matrix_free"), Y, **ALL, place=tmp_path)
    np.testing.assert_allclose(found.bracket(Inverse()).value, whole.bracket(Inverse()).value, rtol=1e-9)


def other_inputs() -> list[tuple[str, Any, Any]]:
    H = make("dense")
    moved = X.copy()
    moved[77] = moved[77][::-1]  # one row, same norm
    labels = Y.copy()
    labels[3, 0] *= -1
    return [
        ("one row moved", gram(TwoLayer(), moved, device="cpu"), Y),
        ("other kernel", gram(TwoLayer(), X, device="cpu", get="nngp"), Y),
        ("one label flipped", H, labels),
        ("one output", H, Y[:, 0]),
        ("fewer rows", gram(TwoLayer(), X[:-1], device="cpu"), Y[:-1]),
        ("numbers", TwoLayer()(X), Y),
    ]


@pytest.mark.parametrize("case", range(6))
def test_a_sweep_of_something_else_is_refused(case: int, tmp_path: Path) -> None:
    quadrature(make("dense"), Y, max_products=5, place=tmp_path)
    kept = Lanczos(make("dense"), Y)
    what, H, y = other_inputs()[case]
    with pytest.raises(ValueError, match=r"is of other work.*name another `place`") as caught:
        quadrature(H, y, place=tmp_path)
    assert "\n" not in str(caught.value), what
    with pytest.raises(ValueError, match="another matrix or other labels"):
        quadrature(H, y, resume=kept)


def damage(file: Path, how: str) -> None:
    content = bytearray(file.read_bytes())
    if how == "cut":
        content = content[:-100]
    elif how == "empty":
        content.clear()
    elif how == "two bytes swapped":
        middle = next(i for i in range(len(content) // 2, len(content)) if content[i] != content[i + 1])
        content[middle], content[middle + 1] = content[middle + 1], content[middle]
    elif how == "not ours":
        content = bytearray(b"[1, 2]")
    file.write_bytes(content)
    if how == "gone":
        file.unlink()


@pytest.mark.parametrize(
    ("file", "how"),
    [
        *(("vector", how) for how in ("cut", "empty", "two bytes swapped", "not ours", "gone")),
        *(("state", how) for how in ("cut", "empty", "two bytes swapped", "not ours")),
    ],
)
def test_a_damaged_sweep_is_one_line(file: str, how: str, tmp_path: Path) -> None:
    quadrature(make("dense"), Y, max_products=5, place=tmp_path)
    damage(next((tmp_path / PARTS).glob("vector-00002*")) if file == "vector" else tmp_path / STATE, how)
    with pytest.raises(ValueError, match=r"damaged.*delete (the folder|it) to start again") as caught:
        quadrature(make("dense"), Y, place=tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_save_cut_short_leaves_the_one_before(
    whole: Quadrature, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A kill at any write of a later save: the folder still holds the earlier sweep, vectors and all."""
    H = make("dense")
    job = Lanczos(H, Y)
    for _ in range(10):
        job.step()
    job.save(tmp_path)
    for _ in range(4):
        job.step()
    original, writes, allowed = files.write_whole, [], [0]

    def killed(path: Path, content: bytes) -> None:
        if len(writes) == allowed[0]:
            raise SystemExit  # stands for SIGKILL: nothing after it runs
        writes.append(path)
        original(path, content)

    monkeypatch.setattr(files, "write_whole", killed)
    for limit in range(5):  # 4 vectors, the state
        writes.clear()
        allowed[0] = limit
        with pytest.raises(SystemExit):
            job.save(tmp_path)
        stored = Lanczos.load(tmp_path, H, Y)
        assert stored.products == 10
        fresh = Lanczos(H, Y)
        for _ in range(11):
            fresh.step()
        stored.step()
        np.testing.assert_allclose(stored.alphas, fresh.alphas, rtol=1e-12)
        np.testing.assert_allclose(stored.betas, fresh.betas, rtol=1e-12)
    monkeypatch.setattr(files, "write_whole", original)
    job.save(tmp_path)
    assert Lanczos.load(tmp_path, H, Y).products == 14
    same(quadrature(H, Y, **ALL, place=tmp_path), whole)


def test_full_disk_while_saving_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    H = make("dense")
    quadrature(H, Y, max_products=6, place=tmp_path)

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(ValueError, match="No space left on device") as caught:
            quadrature(H, Y, place=tmp_path)
    assert "\n" not in str(caught.value)
    assert Lanczos.load(tmp_path, H, Y).products == 6
    assert not [*tmp_path.glob(".*.part"), *(tmp_path / PARTS).glob(".*.part")]


def test_saves_happen_during_a_long_sweep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sweep, "SAVE_EVERY", 0.0)
    kept: list[int] = []

    def watch(done: float, total: float | None, what: str) -> None:
        kept.append(products_kept(tmp_path))

    quadrature(make("dense"), Y, **ALL, place=tmp_path, progress=watch)
    assert kept[0] == 0
    assert kept[-1] >= len(kept) - 1


CHILD = """
import sys, time, numpy as np, overparam as op
from overparam.engines.matrix_free import MatrixFreeGram
from overparam.spectrum import sweep
sweep.SAVE_EVERY = float(sys.argv[2])
original = MatrixFreeGram.product
def slow(self, V, progress=None):
    time.sleep(float(sys.argv[3]))
    return original(self, V, progress)
MatrixFreeGram.product = slow
rng = np.random.default_rng(1)
X, y = rng.standard_normal((300, 6)), np.sign(rng.standard_normal(300))
H = op.gram(op.kernels.TwoLayer(), X, engine="matrix_free", device="cpu", threads=1)
print("ready", flush=True)
said = []
def tell(done, total, what):
    if done == int(done) and done not in said:
        said.append(done)
        print("done", int(done), flush=True)
q = op.quadrature(H, y, tol=1e-6, place=sys.argv[1], progress=tell)
print("value", repr(q.bracket(op.Inverse()).value), q.products, flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_real_signal_leaves_a_folder_to_go_on_from(how: signal.Signals, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    save = "0" if how == signal.SIGKILL else "1000"  # after SIGINT nothing but the handler saves
    command = [sys.executable, "-c", CHILD, str(folder), save]
    child = subprocess.Popen([*command, "0.03"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    deadline = time.monotonic() + 60
    for line in child.stdout:
        assert time.monotonic() < deadline
        if line.startswith("done 1") and int(line.split()[1]) >= 12:
            break
    child.send_signal(how)
    _, errors = child.communicate(timeout=60)
    assert child.returncode != 0
    if how == signal.SIGINT:
        assert "Interrupted: stopped after" in errors
        assert "call again with place=" in errors
    kept = products_kept(folder)
    assert kept >= 11
    done = subprocess.run([*command, "0"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    first = next(line for line in done.stdout.splitlines() if line.startswith("done"))
    assert int(first.split()[1]) in (kept, kept + 1)  # the sweep went on, it did not start again
    value, products = done.stdout.split("value ")[1].split()
    rng = np.random.default_rng(1)
    rows, y = rng.standard_normal((300, 6)), np.sign(rng.standard_normal(300))
    true = y @ np.linalg.solve(TwoLayer()(rows), y)
    assert float(value) == pytest.approx(true, rel=1e-6)
    assert int(products) > kept
