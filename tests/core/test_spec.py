"""Specs make again what they were made of, from a closed table, and name what is not ours."""

import dataclasses
import importlib
import inspect
import json

import jax.numpy as jnp
import pytest

from overparam import kernels, networks, training
from overparam.core.spec import TABLE, Spec, spec_of

OBJECTS = [
    networks.TwoLayer(8, 0.5, paired=True),
    networks.FullyConnected(16, 3, outputs=2),
    networks.Convolutional(4, 2, (6, 6), outputs=3),
    networks.ThreeLayerResNet(6, outputs=2),
    kernels.TwoLayer(),
    kernels.FullyConnected(depth=3, b_std=0.1, activation="gelu"),
    kernels.Gaussian(2.0),
    training.GradientDescent(0.1, loss="mean"),
    training.GradientDescent(0.1, training.CrossEntropy()),
    training.SGD(0.1, batch=5, schedule=training.StepDecay((3, 6))),
]


@pytest.mark.parametrize("thing", OBJECTS, ids=str)
def test_a_spec_makes_its_object_again_through_json(thing: object) -> None:
    spec = spec_of(thing)
    assert spec.house
    back = Spec.from_json(json.loads(json.dumps(spec.to_json()))).make()
    assert type(back) is type(thing)
    assert spec_of(back) == spec


def test_the_table_has_every_class_of_the_house_that_is_data() -> None:
    for room, names in TABLE.items():
        module = importlib.import_module(f"overparam.{room}")
        for name in names:
            assert dataclasses.is_dataclass(getattr(module, name)), (room, name)
        exported = {
            name
            for name in module.__all__
            if inspect.isclass(kind := getattr(module, name))
            and dataclasses.is_dataclass(kind)
            and not inspect.isabstract(kind)
        }
        holds_others = {
            "core": set(),
            "kernels": {"Empirical", "DegreeSpectrum", "SampledKernel"},
            "networks": set(),
            "training": {"SmoothedRun", "SmoothingChoices", "Stop", "Sweep", "Trajectory"},
            "layers": {"Pairs", "Weight"},
        }
        assert exported - set(names) == holds_others[room], room


def test_what_is_not_ours_is_named_with_its_weights_and_cannot_be_made() -> None:
    given = networks.Given(lambda params, x: x @ params["w"], {"w": jnp.ones(3)})
    spec = spec_of(given)
    assert not spec.house
    assert str(spec) == "Given(function=<lambda>)"
    assert spec["params"]["w"]["fields"]["shapes"] == [[3]]
    other = networks.Given(given.function, {"w": jnp.zeros(3)})
    assert spec["function"] == spec_of(other)["function"]
    assert spec["params"] != spec_of(other)["params"]
    with pytest.raises(ValueError, match="pass the object"):
        spec.make()


def test_a_loss_is_said_by_its_name() -> None:
    odd = training.GivenLoss(lambda u, y: (u - y) ** 4, name="fourth")
    for algorithm, words in (
        (training.GradientDescent(0.1, training.CrossEntropy(), "mean"), "lr=0.1, cross-entropy, loss=mean"),
        (training.GradientDescent(0.1, odd), "lr=0.1, fourth"),
    ):
        assert str(spec_of(algorithm)) == f"GradientDescent({words})"
    assert spec_of(training.GradientDescent(0.1, odd))["objective"]["kind"] == "convex"


def test_nothing_outside_the_table_is_made() -> None:
    for room, name in (("networks", "AbstractComposed"), ("core", "os"), ("training", "train")):
        with pytest.raises(ValueError, match="nothing this version can make"):
            Spec(room, name, {}).make()
    with pytest.raises(ValueError, match="cannot be made of these fields"):
        Spec("networks", "TwoLayer", {"breadth": 3}).make()
