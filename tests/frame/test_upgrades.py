"""Result folders of the first edition are read and shown."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import overparam as op
from overparam import networks, training
from overparam.core import folder
from overparam.core.bracketed import Bracketed
from overparam.core.network import Params
from overparam.core.records import put_together, take_apart
from overparam.core.spec import spec_of
from overparam.frame import Stored
from overparam.frame.upgrades import upgraded
from overparam.report import render_page
from overparam.theory import StepsToLoss

FIRST = Path(__file__).parent / "schema1"
"""A folder of every kind as version 0.1 wrote it; the contract tests read them all."""
STUDIES = sorted((Path(__file__).parents[2] / "docs" / "studies").glob("*/arrays.npz"))


@pytest.mark.parametrize("certified", [True, False])
def test_bracketed_numbers_of_schema_1(certified: bool) -> None:
    old = {"deep": [{"value": 1.0, "lower": 0.5, "upper": 2.0, "certified": certified}]}
    (number,) = upgraded(folder.Parts("study", "", old, {}, (), schema=1)).values["deep"]
    back = put_together(Bracketed, number, {})
    assert (back.value, back.lower, back.upper, back.certified) == (1.0, 0.5, 2.0, certified)


def test_steps_to_a_target_of_schema_1() -> None:
    targets = [
        {"target": 0.1, "labels": "true", "value": 7, "lower": 6, "upper": 8, "status": "reached"},
        {"target": 0.1, "labels": "random", "value": None, "lower": 6, "upper": None, "status": "open"},
    ]
    old = folder.Parts("analysis", "", {"speed": {"rate": 0.5, "targets": targets}}, {}, (), schema=1)
    reached, still_open = (put_together(StepsToLoss, each, {}) for each in upgraded(old).values["speed"]["targets"])
    assert (reached.value, reached.lower, reached.upper, reached.certified) == (7, 6, 8, True)
    assert (reached.relative_target, reached.labels, reached.lr) == (0.1, "true", 0.5)
    assert (still_open.value, still_open.lower, still_open.upper, still_open.certified) == (None, 6, None, False)


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_studies_of_the_documentation_are_read_and_shown(path: Path) -> None:
    found = op.read(path.parent)
    assert found.kind == "study"
    assert found.verdict.sentences
    assert f"<h1>{found.title.split('&')[0][:10]}" in render_page(found.parts())


WORDS = {  # as the first edition wrote them
    "TwoLayer(width=8, paired=True)": networks.TwoLayer(8, paired=True),
    "FullyConnected(width=8, depth=3, outputs=2)": networks.FullyConnected(8, 3, outputs=2),
    "GradientDescent(lr=10000)": training.GradientDescent(1e4),
    "GradientDescent(lr=0.05, cross-entropy, loss=mean)": training.GradientDescent(0.05, training.CrossEntropy(), "mean"),
    "SGD(lr=0.02, weight_decay=0.01, batch=5, momentum=0.9, nesterov=True, schedule=StepDecay(at=(8,), factor=0.5), "
    "sampling=independent)": training.SGD(
        0.02, 0.01, 5, 0.9, True, training.StepDecay((8,), 0.5), "independent"
    ),
}  # fmt: skip
STOPS = {
    "all 20 steps done": training.Stop("done", 20),
    "the loss is at most 0.5 of its start at step 10": training.Stop("below", 10, 0.5),
    "the loss is not finite at step 40: the rate is too large": training.Stop("not finite", 40),
    "stopped by hand at step 17": training.Stop("by hand", 17),
}


def old_run(**changed: object) -> folder.Parts:
    """A trajectory as the first edition wrote it."""
    params, arrays = take_apart(Params({"w": np.ones(2)}), "params.")
    values = {
        "layers": ["w"], "params": params, "network": "TwoLayer(width=8, paired=True)", "algorithm": "GradientDescent(lr=0.1)",
        "loss_convention": "sum", "n": 3, "stopped": "all 1 steps done", "seconds_per_step": 0.1, "digits": 15,
        "objective": "squared", "objective_kind": "gradient-dominant", "dominance": 1.0, "kernel_rows": 0, "flip_rows": 0,
    }  # fmt: skip
    arrays |= {"steps": np.arange(2), "records.loss": np.array([2.0, 1.0])}
    return folder.Parts("trajectory", "", values | changed, arrays, (), schema=1)


@pytest.mark.parametrize(
    "words", [words for words, thing in WORDS.items() if isinstance(thing, training.AbstractAlgorithm)]
)
def test_algorithms_of_schema_1_are_read_from_their_words(words: str) -> None:
    thing = WORDS[words]
    about = {"objective": thing.objective.name, "objective_kind": thing.objective.kind, "loss_convention": thing.loss}
    run = training.Trajectory.from_parts(old_run(algorithm=words, dominance=thing.objective.dominance, **about))
    assert run.algorithm == spec_of(thing)
    assert run.algorithm.make() == thing
    assert str(run.algorithm) == words
    assert (run.objective, run.loss_convention) == (thing.objective.name, thing.loss)


@pytest.mark.parametrize("words", [words for words in WORDS if words.startswith(("TwoLayer", "FullyConnected"))])
def test_networks_of_schema_1_are_read_from_their_words(words: str) -> None:
    run = training.Trajectory.from_parts(old_run(network=words))
    assert run.network == spec_of(WORDS[words])
    assert str(run.network) == words


@pytest.mark.parametrize("words", STOPS)
def test_why_a_run_of_schema_1_stopped(words: str) -> None:
    run = training.Trajectory.from_parts(old_run(stopped=words))
    assert run.stopped == STOPS[words]
    assert str(run.stopped) == words


def test_functions_and_losses_of_users_in_schema_1() -> None:
    about = {"objective": "fourth", "objective_kind": "gradient-dominant", "dominance": 2.0}
    words = {"network": "Given(function=<lambda>, draw=_has_no_draw)", "algorithm": "GradientDescent(lr=0.01, fourth)"}
    run = training.Trajectory.from_parts(old_run(**words, **about))
    assert (str(run.network), str(run.algorithm)) == (words["network"], words["algorithm"])
    assert (run.objective, run.objective_kind, run.dominance) == tuple(about.values())
    assert (
        training.Trajectory.from_parts(old_run(network="EquinoxNetwork(params=Params())")).network.name
        == "EquinoxNetwork"
    )


def test_what_has_no_fields_any_more_is_shown_saved_and_read_again(tmp_path: Path) -> None:
    parts = folder.read(FIRST / "analysis")
    strange = replace(parts, kind="trajectory", values={"verdict": {"tone": "good", "sentences": ["It went well."]}})
    found = op.read(folder.write(strange, tmp_path / "a"))
    assert isinstance(found, Stored)
    again = op.read(found.save(tmp_path / "b"))
    assert isinstance(again, Stored)
    assert (again.of, again.verdict.sentences, again.sections()) == ("trajectory", ("It went well.",), found.sections())
