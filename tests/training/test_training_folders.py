"""Saved, read again: runs and sweeps through a folder, weights of every shape of tree, clean JSON, kinds that are not known."""

import json
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import NET, SIGNS, SMOOTHED, THREE, N, X, binary, in_order

import overparam as op
from overparam.core import folder
from overparam.core.trees import layer_names, put_tree_together, take_tree_apart
from overparam.frame.answer import KINDS, class_of
from overparam.training import SmoothedRun, Stop, Sweep, Trajectory, gradient_descent, smoothed_sgd, sweep

DATA = in_order(X, SIGNS)


class Pair(NamedTuple):
    left: np.ndarray
    right: np.ndarray


def refuse(word):
    raise AssertionError(f"{word} in result.json")


def same(found, wanted):
    assert type(found) is type(wanted)
    for name in wanted.__dataclass_fields__:
        a, b = getattr(found, name), getattr(wanted, name)
        if name == "records":
            assert set(a) == set(b)
            for key in b:
                np.testing.assert_array_equal(a[key], b[key], err_msg=key)
                assert a[key].dtype == np.float64
        elif isinstance(b, np.ndarray):
            np.testing.assert_array_equal(a, b, err_msg=name)
        elif name != "params":
            assert a == b, name


def test_a_trajectory_comes_back(tmp_path):
    run = gradient_descent(NET, binary(), lr=0.1, steps=5)
    place = run.save(tmp_path / "run")
    found = op.read(place)
    assert isinstance(found, Trajectory)
    same(found, run)
    np.testing.assert_array_equal(found.params.trained["W"], run.params.trained["W"])
    np.testing.assert_array_equal(found.params.fixed["a"], run.params.fixed["a"])
    assert found.params.state == ()
    document = json.loads((place / "result.json").read_text(), parse_constant=refuse)
    assert document["kind"] == "trajectory"
    assert sorted(document["arrays"]) == sorted(folder.read(place).arrays)
    assert {"params.trained.W", "params.fixed.a"} <= set(document["arrays"])
    assert [s.title for s in found.sections()] == ["The run"]
    assert found.provenance.seed == 0
    # what was read goes on
    again = gradient_descent(NET, binary(), lr=0.1, steps=5, params=found.params)
    whole = gradient_descent(NET, binary(), lr=0.1, steps=10)
    np.testing.assert_array_equal(again.params.trained["W"], whole.params.trained["W"])


def test_without_weights(tmp_path):
    run = gradient_descent(NET, DATA, lr=0.1, steps=2, measures=())
    place = run.save(tmp_path, weights=False)
    found = op.read(place)
    same(found, run)
    assert (found.params.trained, found.params.fixed) == ((), ())
    assert not [name for name in folder.read(place).arrays if name.startswith("params")]


def test_a_sweep_comes_back(tmp_path):
    found = sweep(NET, binary(), [0.05, 0.1], steps=3, keys=[0, 1])
    again = op.read(found.save(tmp_path))
    assert isinstance(again, Sweep)
    same(again, found)
    assert again.best() == found.best()
    json.loads((tmp_path / "result.json").read_text(), parse_constant=refuse)


@pytest.mark.parametrize(("variant", "dtype"), [("L1", "float64"), ("L2", "float32")])
def test_a_smoothed_run_comes_back_and_predicts(variant, dtype, tmp_path):
    from overparam.report import write_page

    run = smoothed_sgd(THREE, DATA, **SMOOTHED, draws=4, variant=variant, dtype=dtype)
    found = op.read(run.save(tmp_path))
    json.loads((tmp_path / "result.json").read_text(), parse_constant=refuse)
    assert isinstance(found, SmoothedRun)
    same(found.trajectory, run.trajectory)
    for name in ("network", "scale", "variant", "draw", "training_loss"):
        assert getattr(found, name) == getattr(run, name), name
    np.testing.assert_array_equal(found.draw_losses, run.draw_losses)
    np.testing.assert_array_equal(found.predict(X), run.predict(X))
    for own, read in ((run.params, found.params), (run.trajectory.params, found.trajectory.params)):
        for a, b in zip(jax.tree.leaves(own), jax.tree.leaves(read), strict=True):
            np.testing.assert_array_equal(a, b)
    if variant == "L1":
        assert (run.signs, found.signs) == (None, None)
    else:
        np.testing.assert_array_equal(found.signs, run.signs)
        assert set(np.abs(found.signs)) == {1.0}
    assert "Noises tried" in write_page(tmp_path).read_text(encoding="utf-8")
    bare = op.read(run.save(tmp_path / "bare", weights=False))
    with pytest.raises(ValueError, match="saved without its weights and cannot predict"):
        bare.predict(X)


def test_a_diverged_run_and_sweep_save(tmp_path):
    """Infinities and NaN lie in arrays.npz; JSON has none."""
    run = gradient_descent(NET, binary(), lr=1e4, steps=400)
    assert run.stopped == Stop("not finite", int(run.steps[-1]))
    assert "the rate is too large" in str(run.stopped)
    assert not np.isfinite(run.loss[-1])
    assert run.steps[-1] < 400
    json.loads((run.save(tmp_path / "a") / "result.json").read_text(), parse_constant=refuse)
    same(op.read(tmp_path / "a"), run)
    found = sweep(NET, binary(), [1e4, 1e5, 1e4, 1e5], steps=400)
    assert found.stopped.reason == "not finite"
    json.loads((found.save(tmp_path / "b") / "result.json").read_text(), parse_constant=refuse)
    same(op.read(tmp_path / "b"), found)


def test_pages_are_drawn(tmp_path):
    from overparam.report import write_page

    for result in (
        gradient_descent(NET, binary(), lr=0.1, steps=5),
        sweep(NET, binary(), [0.05, 0.1], steps=3, keys=[0, 1]),
        gradient_descent(NET, binary(), lr=1e4, steps=400),
    ):
        place = result.save(tmp_path / result.kind)
        text = write_page(place).read_text(encoding="utf-8")
        assert "TwoLayer(width=16)" in text


TREES = [
    {"W": np.ones((2, 3)), "b": np.zeros(2)},
    (np.ones(2), [np.zeros(1), np.ones(())]),
    {"a/b": np.ones(1), "a.b": np.zeros(2), "a_b": np.ones(3), "": np.ones(4), "ü ∕ %2F": np.ones(5)},
    {"a": {"b": np.ones(1)}, "a.b": np.zeros(2)},
    {0: np.ones(1), 1: (np.ones(2), {"0": np.ones(3)})},
    np.float64(3.0),
    {"kept": None, "empty": (), "none": {}, "list": []},
    [np.ones(1)] * 12,
]


@pytest.mark.parametrize("tree", TREES)
def test_trees_come_back_from_json(tree):
    outline, arrays = take_tree_apart(tree, "params.trained")
    outline = json.loads(json.dumps(folder.plain(outline)))
    found = put_tree_together(outline, arrays)

    def equal(a, b):
        if isinstance(b, dict):
            assert a.keys() == b.keys()
            for key in b:
                equal(a[key], b[key])
        elif isinstance(b, tuple | list):
            assert type(a) is type(b)
            assert len(a) == len(b)
            for one, other in zip(a, b, strict=True):
                equal(one, other)
        elif b is None:
            assert a is None
        else:
            np.testing.assert_array_equal(a, b)

    equal(found, tree)
    assert all(name.startswith("params.trained") for name in arrays)


def test_other_objects_come_back_as_dicts():
    outline, arrays = take_tree_apart(Pair(np.ones(1), np.zeros(2)), "w")
    assert outline == {"dict": [["left", "w.left"], ["right", "w.right"]]}
    assert put_tree_together(outline, arrays)["right"].shape == (2,)
    assert layer_names(Pair(np.ones(1), np.zeros(2))) == ("left", "right")
    assert layer_names(np.ones(2)) == ("weights",)


def test_weights_with_strange_names_through_a_folder(tmp_path):
    params = {"layer/0.W": jnp.ones((4, 3)), "deep": (jnp.ones(3), {"τ": jnp.ones(())})}

    def apply(w, x):
        return jnp.tanh(x @ w["layer/0.W"]) @ w["deep"][0] * w["deep"][1]["τ"]

    run = gradient_descent(apply, DATA, lr=0.01, steps=3, params=params, measures=("movement",))
    assert run.layers == ("deep.0", "deep.1.τ", "layer/0.W")
    found = op.read(run.save(tmp_path)).params.trained
    assert found.keys() == params.keys()
    for a, b in (
        (found["layer/0.W"], run.params.trained["layer/0.W"]),
        (found["deep"][1]["τ"], run.params.trained["deep"][1]["τ"]),
    ):
        np.testing.assert_array_equal(a, b)


def test_every_kind_has_a_class_that_says_the_same():
    for kind in KINDS:
        found = class_of(kind)
        assert found.kind == kind
        assert callable(found.from_parts)


def test_a_kind_that_is_not_known_and_a_folder_of_another_version(tmp_path):
    place = gradient_descent(NET, DATA, lr=0.1, steps=1, measures=()).save(tmp_path)
    document = json.loads((place / "result.json").read_text())
    del document["sha256"]  # as older versions wrote it: what follows is changed by hand
    (place / "result.json").write_text(json.dumps(document | {"kind": "audit-of-something"}))
    with pytest.raises(ValueError, match=r"holds a result of kind 'audit-of-something'; this version reads analysis, "):
        op.read(place)
    del document["values"]["stopped"]
    (place / "result.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="another version") as caught:
        op.read(place)
    assert "\n" not in str(caught.value)


def test_records_are_float64_whatever_the_precision():
    run = gradient_descent(NET, binary(), lr=0.1, steps=2, dtype="float32")
    assert {values.dtype for values in run.records.values()} == {np.dtype(np.float64)}
    assert run.steps.dtype == np.int64
    assert run.n == N
