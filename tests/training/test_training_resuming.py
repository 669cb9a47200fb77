"""A run killed and taken up again ends in the same bits; ctrl-C keeps what there is; folders that do not belong say so."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import NET, SIGNS, STEPS, X, go, in_order, same_bits

import overparam as op
from overparam.frame import Kept, OtherWork
from overparam.networks import Given, TwoLayer
from overparam.training import Interrupted, StepDecay, Stop, gradient_descent, loop, sgd

HERE = Path(__file__).parent
FILE = "training.state.kept"
CHILD = """
import sys, time
from overparam.training import loop
from training_cases import go
loop.STRETCH = 0.0
def tell(done, total, what):
    print("done", done, flush=True)
    time.sleep(0.05)
go(sys.argv[1], place=sys.argv[2], keep_every=0, progress=tell)
"""


@pytest.fixture(scope="module")
def whole():
    """The runs without a stop."""
    return {mode: go(mode) for mode in ("descent", "momentum", "sweep")}


@pytest.mark.parametrize("mode", ["descent", "momentum", "sweep"])
def test_a_killed_run_ends_in_the_same_bits(mode, whole, tmp_path):
    place = tmp_path / "kept"
    command = [sys.executable, "-c", CHILD, mode, str(place)]
    child = subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if int(line.split()[1]) >= 23:
            break
    child.kill()
    _, errors = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGKILL, errors
    begun = []
    found = go(mode, place=place, progress=lambda done, total, what: begun.append(done))
    assert 21 <= begun[0] < STEPS  # it went on, it did not start again
    same_bits(found, whole[mode])
    again = go(mode, place=place, progress=lambda done, total, what: begun.append(done))
    assert begun[-1] == STEPS
    assert again.seconds_per_step > 0  # of the run, though this call made no step
    same_bits(again, whole[mode])


@pytest.mark.parametrize("stretch", [0.0, 1e-4, 1e9])
def test_the_length_of_a_stretch_changes_no_bit(stretch, whole, monkeypatch):
    monkeypatch.setattr(loop, "STRETCH", stretch)
    same_bits(go("momentum"), whole["momentum"])


class StopAt:
    """A progress that is stopped by hand at a step."""

    def __init__(self, step, how=KeyboardInterrupt):
        self.step, self.how, self.seen = step, how, []

    def __call__(self, done, total, what):
        self.seen.append(done)
        if self.step is not None and done >= self.step:
            self.step = None
            raise self.how


@pytest.mark.parametrize("mode", ["descent", "momentum"])
def test_ctrl_c_keeps_the_state_and_the_partial_trajectory(mode, whole, monkeypatch, tmp_path):
    monkeypatch.setattr(loop, "STRETCH", 0.0)
    with pytest.raises(Interrupted, match=r"stopped at step 17; nothing is lost: call again with place=") as caught:
        go(mode, place=tmp_path, keep_every=1e9, progress=StopAt(17))
    assert isinstance(caught.value, KeyboardInterrupt)
    assert caught.value.step == 17
    partial = caught.value.partial
    assert partial.steps.tolist() == [0, 10]
    assert partial.stopped == Stop("by hand", 17)
    np.testing.assert_array_equal(partial.loss, whole[mode].loss[:2])
    np.testing.assert_array_equal(partial.params.trained["W"], go(mode, steps=17).params.trained["W"])
    progress = StopAt(None)
    same_bits(go(mode, place=tmp_path, progress=progress), whole[mode])
    assert progress.seen[0] == 17


def test_ctrl_c_without_a_folder(monkeypatch):
    monkeypatch.setattr(loop, "STRETCH", 0.0)
    with pytest.raises(Interrupted, match="with a `place` the run could go on") as caught:
        go("descent", progress=StopAt(12))
    assert caught.value.partial.steps.tolist() == [0, 10]
    with pytest.raises(Interrupted) as caught:
        go("sweep", progress=StopAt(12))
    assert caught.value.partial is None


def test_killed_again_and_again(whole, monkeypatch, tmp_path):
    """Stopped without a chance to save, at every few steps: only what was saved before counts."""
    monkeypatch.setattr(loop, "STRETCH", 0.0)
    begun = []
    for at in (3, 20, 31, 59):
        progress = StopAt(at, SystemExit)
        with pytest.raises(SystemExit):
            go("momentum", place=tmp_path, keep_every=0, progress=progress)
        begun.append(progress.seen[0])
    assert begun == [0, 2, 19, 30]
    same_bits(go("momentum", place=tmp_path), whole["momentum"])


@pytest.mark.parametrize("mode", ["descent", "momentum", "sweep"])
def test_more_steps_go_on_with_the_same_run(mode, whole, tmp_path):
    go(mode, steps=35, place=tmp_path)
    progress = StopAt(None)
    longer = go(mode, place=tmp_path, progress=progress)
    assert progress.seen[0] == 35
    assert longer.steps.tolist() == [0, 10, 20, 30, 35, 40, 50, 60]
    np.testing.assert_array_equal(longer.params.trained["W"], whole[mode].params.trained["W"])
    loss = longer.records["loss"]
    np.testing.assert_array_equal(np.delete(loss, 4, axis=-1), whole[mode].records["loss"])
    with pytest.raises(ValueError, match="is at step 60 and the run asked for has 35; ask for at least 60 steps"):
        go(mode, steps=35, place=tmp_path)


def test_a_run_that_stopped_early_stays_stopped_and_can_go_on(whole, tmp_path):
    stopped = go("descent", place=tmp_path, stop_below=0.5)
    assert stopped.stopped == Stop("below", int(stopped.steps[-1]), 0.5)
    last = int(stopped.steps[-1])
    assert 0 < last < STEPS
    assert stopped.loss[-1] <= 0.5 * stopped.loss[0] < stopped.loss[-2]
    same_bits(go("descent", place=tmp_path, stop_below=0.5), stopped)
    same_bits(go("descent", place=tmp_path), whole["descent"])


@pytest.mark.parametrize("mode", ["descent", "sweep"])
def test_other_records_of_a_kept_run_are_refused(mode, tmp_path):
    for steps in (15, 25, 40):  # the last steps of earlier calls are no other records
        first = go(mode, steps=steps, record=[5, 10], place=tmp_path)
    assert first.steps.tolist() == [0, 5, 10, 15, 25, 40]
    same_bits(go(mode, steps=40, record=[5, 10], place=tmp_path), first)
    for record, said in (
        ([5, 7, 10], "step 7 is not among its records"),
        ([10], "step 5 is recorded and not asked for"),
    ):
        with pytest.raises(
            OtherWork, match=rf"recorded at other steps \({said}\); name another folder or pass the same"
        ):
            go(mode, steps=40, record=record, place=tmp_path)
    assert go(mode, steps=60, record=None, place=tmp_path).steps[:6].tolist() == first.steps.tolist()
    assert go(mode, steps=62, record=range(10, 21, 10), place=tmp_path / "b").steps.tolist() == [0, 10, 20, 62]


def test_one_class_catches_ctrl_c_in_every_room():
    assert issubclass(Interrupted, op.Interrupted)
    assert issubclass(op.spectrum.Interrupted, op.Interrupted)
    assert issubclass(op.Interrupted, KeyboardInterrupt)
    with pytest.raises(op.Interrupted) as caught:
        go("descent", progress=StopAt(2))
    assert caught.value.partial.steps.tolist() == [0]


DATA = in_order(X, SIGNS)


def other_runs():
    base = {"lr": 0.02, "steps": 20, "batch": 5, "momentum": 0.9, "key": 5, "measures": ("movement",)}
    flipped = SIGNS.copy()
    flipped[0] *= -1
    moved = X.copy()
    moved[2] = moved[2][::-1]
    return {
        "the same": (NET, DATA, base),
        "rate": (NET, DATA, base | {"lr": 0.021}),
        "decay": (NET, DATA, base | {"weight_decay": 1e-3}),
        "momentum": (NET, DATA, base | {"momentum": 0.8}),
        "batch": (NET, DATA, base | {"batch": 4}),
        "sampling": (NET, DATA, base | {"sampling": "independent"}),
        "schedule": (NET, DATA, base | {"schedule": StepDecay((3,))}),
        "objective": (NET, DATA, base | {"objective": "cross-entropy"}),
        "convention": (NET, DATA, base | {"loss": "mean"}),
        "key": (NET, DATA, base | {"key": 6}),
        "width": (TwoLayer(18), DATA, base),
        "scale": (TwoLayer(16, kappa=0.5), DATA, base),
        "a label": (NET, in_order(X, flipped), base),
        "a row": (NET, in_order(moved, SIGNS), base),
        "precision": (NET, DATA, base | {"dtype": "float32"}),
        "measures": (NET, DATA, base | {"measures": ("movement", "flips")}),
    }


def test_the_state_of_another_run_is_refused(tmp_path):
    runs = other_runs()
    first = sgd(*runs["the same"][:2], place=tmp_path, **runs["the same"][2])
    same_bits(sgd(*runs["the same"][:2], place=tmp_path, **runs["the same"][2]), first)
    for what in [name for name in runs if name != "the same"]:
        net, data, options = runs[what]
        with pytest.raises(OtherWork, match=r"is of other work .* name another `place`, or delete it") as caught:
            sgd(net, data, place=tmp_path, **options)
        assert "\n" not in str(caught.value), what
        assert str(tmp_path) in str(caught.value)


def test_functions_are_told_apart_by_what_they_compute(tmp_path):
    """Not by where they lie in memory: a function made anew goes on, one with another constant in its closure does not."""

    def make(slope, inner):
        matrix = jnp.asarray(inner)
        return lambda w, x: slope * jnp.tanh(x @ matrix) @ w

    rng = np.random.default_rng(0)
    inner = rng.standard_normal((4, 3))
    options = {"lr": 0.01, "steps": 4, "params": np.ones(3), "measures": ()}
    first = gradient_descent(make(2.0, inner), DATA, place=tmp_path, **options)
    same_bits(gradient_descent(make(2.0, inner.copy()), DATA, place=tmp_path, **options), first)
    for slope, matrix in ((2.5, inner), (2.0, inner + np.eye(4, 3) * 1e-3)):
        with pytest.raises(OtherWork):
            gradient_descent(make(slope, matrix), DATA, place=tmp_path, **options)


DAMAGE = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-200]),
    "empty": lambda path: path.write_bytes(b""),
    "other arrays": lambda path: np.savez(path.open("wb"), a=np.ones(2)),
    "a bit": lambda path: path.write_bytes(bytes(b ^ (i == 300) for i, b in enumerate(path.read_bytes()))),
}


def test_a_damaged_state_is_one_line(tmp_path):
    first = go("descent", steps=3, place=tmp_path)
    sound = (tmp_path / FILE).read_bytes()
    for how, damage in DAMAGE.items():
        (tmp_path / FILE).write_bytes(sound)
        damage(tmp_path / FILE)
        with pytest.raises(ValueError, match=r"is damaged: .*; delete it to start again") as caught:
            go("descent", steps=3, place=tmp_path)
        assert "\n" not in str(caught.value), how
        assert str(tmp_path / FILE) in str(caught.value)
    (tmp_path / FILE).unlink()
    same_bits(go("descent", steps=3, place=tmp_path), first)


def test_the_old_names_of_the_place_warn(tmp_path):
    first = go("descent", steps=3, place=tmp_path)
    with pytest.warns(FutureWarning, match="`checkpoint` of overparam.training.gradient_descent is now `place`"):
        same_bits(go("descent", steps=3, checkpoint=tmp_path), first)


def test_a_full_disk_is_one_line_and_leaves_the_one_before(whole, monkeypatch, tmp_path):
    go("descent", steps=20, place=tmp_path)

    def full(source, target):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(ValueError, match="No space left on device") as caught:
            go("descent", place=tmp_path)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob(".*.part"))
    progress = StopAt(None)
    found = go("descent", place=tmp_path, progress=progress)
    assert progress.seen[0] == 20
    np.testing.assert_array_equal(found.params.trained["W"], whole["descent"].params.trained["W"])


def test_a_place_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match="is a file or lies in one; name a folder for what is kept"):
            go("descent", steps=1, place=place)


def test_a_real_ctrl_c(tmp_path):
    """SIGINT from outside, in the middle of compiled steps."""
    command = [sys.executable, "-c", CHILD.replace("0.05", "0.02"), "descent", str(tmp_path)]
    child = subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if int(line.split()[1]) >= 5:
            break
    time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode != 0
    assert "Interrupted: stopped at step" in errors
    assert "call again with place=" in errors


def test_many_records_cost_little_to_keep(tmp_path, monkeypatch):
    """One array a record name, not one a step: the file of a run recorded at every step opens at once."""
    monkeypatch.setattr(loop, "STRETCH", 0.0)
    go("descent", steps=60, record=1, place=tmp_path)
    stored = Kept.from_bytes((tmp_path / FILE).read_bytes(), tmp_path / FILE).arrays
    assert len(stored) < 12
    assert stored["record.loss"].shape == (61,)


def test_given_networks_in_a_folder(tmp_path):
    net = Given(lambda w, x: x @ w, np.zeros(4))
    first = gradient_descent(net, DATA, lr=0.01, steps=5, place=tmp_path, measures=())
    other = Given(lambda w, x: x @ w, np.zeros(4))
    same_bits(gradient_descent(other, DATA, lr=0.01, steps=5, place=tmp_path, measures=()), first)
