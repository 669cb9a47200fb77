"""Finite networks with their papers' initialisations, one file an architecture."""

from overparam.networks.composed import CompositionKernel, Frozen, Given, Sequence
from overparam.networks.convolutional import Convolutional, ImageResNet, Vgg
from overparam.networks.fully_connected import FullyConnected, Residual
from overparam.networks.three_layer import Plain, ThreeLayer, ThreeLayerResNet
from overparam.networks.two_layer import BiasedTwoLayer, TwoLayer

__all__ = [
    "BiasedTwoLayer",
    "CompositionKernel",
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
