"""Every network and kernel of the house is its name and plain fields, and is made again from them."""

import json

import pytest

from overparam import kernels as K
from overparam import layers, networks
from overparam.core.spec import TABLE, Spec, spec_of
from overparam.layers import Erf, Flatten, Gabor, LayerNorm, Relu, standard

LAYERS = [
    standard.conv(4, 3, padding="SAME", b_std=0.1),
    Relu(),
    standard.sum_of([], [Relu(), standard.conv(4, (3, 3), padding="SAME")]),
    LayerNorm(),
    standard.avg_pool(2),
    Flatten(),
    standard.dense(1),
]
THINGS = [
    networks.TwoLayer(8, kappa=0.5, paired=True),
    networks.BiasedTwoLayer(8, outputs=2),
    networks.ThreeLayer(8, second_width=4),
    networks.ThreeLayerResNet(8, scaling="theory", sigma_w=0.3),
    networks.Plain(8, depth=2),
    networks.FullyConnected(8, 3, trained="all"),
    networks.Residual(8, 4),
    networks.Convolutional(4, 3, positions=(4, 4), shared=True),
    networks.Vgg(2, stages=((4, 1),), image=(4, 4, 1)),
    networks.ImageResNet(8, 2, channels=(2, 2, 4), image=(8, 8, 1)),
    networks.Sequence(LAYERS, image=(6, 6, 2)),
    networks.Frozen(networks.ThreeLayer(8), ("W",)),
    networks.FullyConnected(8, 3).kernel(),
    K.TwoLayer(),
    K.ArcCosine(2),
    K.Arcsine(1.5, 0.5),
    K.Gaussian(2.0),
    K.Laplace(0.5),
    K.ProductLaplace(0.5),
    K.Polynomial(3, 1.0),
    K.Recursive(3, "exponential"),
    K.RandomFeatures(K.Gaussian(), 50, key=3),
    K.FullyConnected(2, (1.0, 1.2, 1.4), 0.1, activation=Erf(1.0, 0.5), trained=(1, 3)),
    K.Convolutional(2, b_std=(0.1, 0.0, 0.2), image=(4, 4, 1)),
    K.Composed(LAYERS, image=(6, 6, 2)),
    K.Residual(3, activation=Erf()),
    K.ResidualConvolutional(2, image=(8, 8, 1)),
    K.Myrtle(7, b_std=0.1, image=(8, 8, 1)),
    K.Composed(
        [
            standard.conv(2, 2, 2, transposed=True),
            standard.attention(2, 2, 2, 2, 0.1),
            standard.sliced(slice(0, 2)),
            standard.dropout(0.5),
            standard.concatenated([standard.conv(2, 1)], [standard.conv(2, 1)], axis=0),
            Gabor(),
            standard.global_avg_pool(),
            standard.dense(1),
        ],
        masked=7.0,
    ),
    2 * K.TwoLayer() + K.TwoLayer(),
    K.TwoLayer() * K.Gaussian() + 1.0,
    K.Composed([standard.dense(1)]) * K.Gaussian(),
    K.normalised(K.TwoLayer()),
    K.normalised(K.Composed([standard.dense(1)])),
]


@pytest.mark.parametrize(
    "thing", THINGS, ids=lambda thing: f"{type(thing).__module__.split('.')[1]} {type(thing).__name__}"
)
def test_a_thing_is_made_again_from_its_spec(thing):
    spec = spec_of(thing)
    assert spec.house
    again = Spec.from_json(json.loads(json.dumps(spec.to_json()))).make()
    assert type(again) is type(thing)
    assert again == thing


def test_all_that_a_spec_can_make_of_these_rooms_is_tried():
    made = {(spec_of(thing).room, spec_of(thing).name) for thing in THINGS}
    for room in ("networks", "kernels", "core"):
        assert {name for name in TABLE[room] if (room, name) not in made} <= {"Given", "PowerProduct", "WeightedSum"}
    assert all(hasattr(layers, name) for name in TABLE["layers"])


def test_what_holds_functions_or_weights_is_foreign_where_it_does():
    given = networks.Given(lambda w, x: x @ w, [1.0])
    assert not spec_of(given).house
    assert not spec_of(K.Empirical(given)).house
    assert spec_of(K.Recursive(2, lambda k: k * k)).fields["function"]["room"] == "foreign"
    assert spec_of(K.RandomFeatures(abs)).fields["kernel"]["room"] == "foreign"
