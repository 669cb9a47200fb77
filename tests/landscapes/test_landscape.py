"""`op.landscape` as users call it: planes, moments of a run, folders, pages, the same digits twice."""

from dataclasses import replace

import numpy as np
import pytest
from landscape_cases import NET, rows, weights

import overparam as op
from overparam.core import folder
from overparam.landscapes import Landscape, landscape, prepare_landscape
from overparam.landscapes.page import give_words

OPTIONS = {"points": 5, "oja_steps": 10, "layer_steps": 4}


@pytest.fixture(scope="module")
def run():
    X, labels = rows()
    return op.training.sgd(
        NET, (X, labels), 0.1, 40, batch=8, objective="cross-entropy", loss="mean", params=weights(),
        measures=("weights",), record=[0, 5, 20, 40],
    )  # fmt: skip


@pytest.fixture(scope="module")
def found(run):
    return landscape(NET, rows(), run=run, at=[0, 40], **OPTIONS)


def test_weights_are_recorded_only_where_they_are_named(run):
    X, labels = rows()
    assert run.records["weights"].shape == (4, 90)
    np.testing.assert_array_equal(
        run.records["weights"][-1], np.concatenate([np.ravel(v) for v in run.params.trained.values()])
    )
    plain = op.training.sgd(NET, (X, labels), 0.1, 0, params=weights())
    assert "weights" not in plain.records


def test_the_same_arguments_give_the_same_digits(run, found):
    again = landscape(NET, rows(), run=run, at=[0, 40], **OPTIONS)
    for one, other in zip(found.views, again.views, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.lines, other.lines)
        assert one.smoothed == other.smoothed
    assert found.layers == again.layers
    said = found.provenance.configuration  # and from what result.json says
    names = (
        "plane",
        "points",
        "extent",
        "loss",
        "mode",
        "chunk",
        "smoothing",
        "oja_steps",
        "batch",
        "layer_steps",
        "filter_axis",
    )
    from_said = landscape(
        NET,
        rows(),
        run=run,
        at=said["steps"],
        key=found.provenance.seed,
        max_rows=said["rows"],
        **{n: said[n] for n in names},
    )
    np.testing.assert_array_equal(from_said.last.values, found.last.values)
    assert from_said.last.smoothed == found.last.smoothed
    assert from_said.provenance.configuration == said
    X, labels = rows()
    moved = landscape(NET, (X + 1e-9, labels), run=run, points=3, oja_steps=1, layer_steps=0).provenance.configuration
    assert moved["rows_seen"] != said["rows_seen"]
    other = landscape(NET, rows(), run=run, at=[0, 40], key=1, **OPTIONS)
    assert other.last.smoothed != found.last.smoothed


def test_views_say_what_the_run_did(run, found):
    assert [view.step for view in found.views] == [0, 40]
    for view in found.views:
        assert view.here == pytest.approx(run.at(view.step)["loss"], rel=1e-10)  # what training recorded
        assert view.values[2, 2] == pytest.approx(view.here, rel=1e-12)
        assert view.least[0] <= view.lines[0].min() + 1e-15
        assert (view.decreases <= 1).all()
        assert view.least[1] <= view.here
    assert found.rows == 24
    assert [layer.name for layer in found.layers] == ["W0", "W1", "W2", "b0"]


def test_a_folder_gives_the_result_back(found, tmp_path):
    pytest.importorskip("plotly")
    where = found.save(tmp_path / "out")
    back = Landscape.from_parts(folder.read(where))
    np.testing.assert_array_equal(back.last.values, found.last.values)
    np.testing.assert_array_equal(back.last.history, found.last.history)
    assert back.verdict == found.verdict
    assert back.sections() == found.sections()
    page = (where / "report.html").read_text()
    assert 'data-surface="1"' in page
    assert "Oja" in page
    assert "first 24 rows" in page
    assert "Seed 0" in page


def test_the_verdict_is_about_the_numbers(found):
    gradient, curved = found.last.decreases
    first = found.verdict.sentences[0]
    ahead = [view.decreases[0] >= view.decreases[1] for view in found.views]
    assert first.startswith("The gradient is enough") == all(ahead)
    assert f"({gradient:.0%} gone)" in first or f"({gradient:.2%} gone)" in first
    assert f"({curved:.0%})" in first or f"({curved:.2%})" in first


@pytest.mark.parametrize(("curvature", "is_negative"), [(9e-7, False), (-0.5, True)])
@pytest.mark.parametrize("falls", [(0.5, 0.1), (0.1, 0.5)])
def test_negative_is_said_of_what_is(found, curvature, is_negative, falls):
    """Of a curvature of 9e-7 nothing on the page says that it is negative, whichever direction falls further."""
    views = tuple(
        replace(view, smoothed=curvature, smoothed_error=1e-8, least=view.here * (1 - np.array(falls)))
        for view in found.views
    )
    told = replace(found, views=views)
    told = replace(told, verdict=give_words(told))
    assert ("negative curvature" in str(told.sections()).lower()) == is_negative
    assert ("least curvature" in told.verdict.sentences[0]) != is_negative


def test_random_and_trajectory_planes(run):
    random = landscape(NET, rows(), run=run, plane="random", filter_axis=-1, **OPTIONS)
    assert random.last.x[-1] == 1
    assert random.last.smoothed is None
    assert "Random directions" in random.sections()[-1].blocks[0].body
    path = landscape(NET, rows(), run=run, plane="trajectory", **OPTIONS)
    assert path.last.path.shape == (4, 2)
    assert 0.5 < path.last.shares.sum() <= 1 + 1e-12
    assert np.abs(path.last.path).max(axis=0).tolist() <= [path.last.x[-1], path.last.y[-1]]
    same = landscape(NET, rows(), params=run.params, objective="cross-entropy", plane="trajectory",
                     run=list(run.records["weights"]), **OPTIONS)  # fmt: skip
    np.testing.assert_array_equal(same.last.values, path.last.values)


def test_neighbouring_seeds_share_no_direction(run):
    """The first direction of one was the second of the other."""
    one, other = (landscape(NET, rows(), run=run, plane="random", key=key, **OPTIONS).last for key in (0, 1))
    assert other.curvatures[0] != pytest.approx(one.curvatures[1], rel=1e-6)


def test_holes_in_the_plane_are_said():
    X, _ = rows()
    steep = landscape(
        lambda w, x: np.e ** (x @ w),
        (X, X[:, 0] + 0.5),
        params=np.full(5, 0.1),
        plane="random",
        extent=5e3,
        layer_steps=0,
        points=6,
    )
    assert not np.isfinite(steep.last.values).all()
    assert "no finite number" in steep.verdict.sentences[-1]
    assert "its maximum ∞" in steep.verdict.sentences[0]
    assert all(
        None in row or np.isfinite(row).all() for row in steep.sections()[1].blocks[0].z
    )  # holes, not infinite heights


def test_a_plan_counts_what_will_be_done(run):
    plan = prepare_landscape(NET, rows(), run=run, at=[0, 40], **OPTIONS).plan
    told = plan.to_json()
    assert told["surfaces"] == 2
    assert told["values"] == 2 * (25 + 102)
    assert told["products"] == 2 * (20 + 10 + 8 + 1) + 4 * 4
    assert plan.seconds > 0
    assert "2 surfaces" in str(plan)


def test_running_averages_of_earlier_steps_are_not_made_up():
    data = op.load("digits", train=30)
    net = op.networks.Sequence(
        (op.layers.Dense("W", 4, op.layers.Normal(0.2), trained=True), op.layers.BatchNorm("bn"), op.layers.Relu(),
         op.layers.Dense("a", 10, op.layers.Normal(0.3), trained=True))
    )  # fmt: skip
    run = op.training.sgd(net, data, 0.01, 2, batch=10, loss="mean", measures=("weights",), record=[0, 1, 2])
    with pytest.raises(ValueError, match="running averages of batch norm were not recorded"):
        landscape(net, data, run=run, at=[1, 2], **OPTIONS)
    found = landscape(net, data, run=run, at=[1, 2], mode="train", points=3, oja_steps=2, layer_steps=0)
    assert [view.step for view in found.views] == [1, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"plane": "hill"}, "`plane` is 'hill'; expected 'gradient-curvature'"),
        ({"plane": "trajectory", "run": None}, "needs weights along a run"),
        ({"plane": "trajectory", "at": [5]}, "has its middle at the end"),
        ({"at": [3]}, "step 3 was not recorded"),
        ({"at": []}, "`at` names no step"),
        ({"run": 3}, "`run` is a int"),
        ({"run": None, "at": [0]}, "`at` names steps of a run"),
        ({"points": 2}, "`points` is 2"),
        ({"oja_steps": 0}, "`oja_steps` is 0"),
        ({"mode": "both"}, "`mode` is 'both'"),
    ],
)
def test_bad_input_is_one_line(run, options, words):
    with pytest.raises(ValueError, match=words):
        landscape(NET, rows(), params=weights(), **({"run": run} | OPTIONS | options))


def test_a_stopped_landscape_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    from overparam.core.progress import Interrupted
    from overparam.landscapes import surveying

    net = op.networks.FullyConnected(4, 2, outputs=3)
    run = op.training.gradient_descent(net, rows(), lr=1e-3, steps=40, measures=("weights",), record=[0, 40])
    found = landscape(net, rows(), run=run, at=[0, 40], **OPTIONS)

    look = surveying.look
    looked = []

    def once(*args, **options):
        if looked and options["step"] == 40 and len(looked) == 1:
            looked.append("stopped")
            raise KeyboardInterrupt
        looked.append(options["step"])
        return look(*args, **options)

    monkeypatch.setattr(surveying, "look", once)
    with pytest.raises(Interrupted, match="finished parts are kept"):
        landscape(net, rows(), run=run, at=[0, 40], place=tmp_path, **OPTIONS)
    again = landscape(net, rows(), run=run, at=[0, 40], place=tmp_path, **OPTIONS)
    assert looked == [0, "stopped", 40]
    for one, other in zip(found.views, again.views, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
        assert one.smoothed == other.smoothed
    assert again.layers == found.layers


def test_weights_in_the_third_place_are_still_taken():
    with pytest.warns(FutureWarning, match="`params=`") as caught:
        found = landscape(lambda w, x: x @ w, ([[1.0], [1.0]], [0.5, -0.5]), np.array([10.0]), points=3, extent=10)
    assert found.last.values[1].tolist() == [0.125, 50.125, 200.125]
    assert caught[0].filename == __file__
