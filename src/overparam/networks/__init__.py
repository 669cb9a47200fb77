"""Finite networks with their papers' initialisations, one file an architecture."""

from overparam.networks.biased_two_layer import BiasedTwoLayer
from overparam.networks.convolutional import Convolutional
from overparam.networks.frozen import Frozen
from overparam.networks.fully_connected import FullyConnected
from overparam.networks.given import Given
from overparam.networks.image_resnet import ImageResNet
from overparam.networks.plain import Plain
from overparam.networks.residual import Residual
from overparam.networks.sequence import Sequence
from overparam.networks.three_layer import ThreeLayer
from overparam.networks.three_layer_resnet import ThreeLayerResNet
from overparam.networks.two_layer import TwoLayer
from overparam.networks.vgg import Vgg

__all__ = [
    "BiasedTwoLayer",
    "Convolutional",
    "Frozen",
    "FullyConnected",
    "Given",
    "ImageResNet",
    "Plain",
    "Residual",
    "Sequence",
    "ThreeLayer",
    "ThreeLayerResNet",
    "TwoLayer",
    "Vgg",
]
