"""Layers: each with its weights, its forward map and its kernel map, and their composition."""

from overparam.layers.append_constant import AppendConstant
from overparam.layers.bias import Bias
from overparam.layers.composition import Composition
from overparam.layers.convolution import Convolution
from overparam.layers.dense import Dense
from overparam.layers.flatten import Flatten
from overparam.layers.laws import AbstractLaw, Normal, Signs, Twinned, ZeroOrNormal
from overparam.layers.layer import AbstractLayer, Weight
from overparam.layers.locally_connected import LocallyConnected
from overparam.layers.one_output import OneOutput
from overparam.layers.pairs import Pairs
from overparam.layers.relu import Relu
from overparam.layers.skip import Skip

__all__ = [
    "AbstractLaw",
    "AbstractLayer",
    "AppendConstant",
    "Bias",
    "Composition",
    "Convolution",
    "Dense",
    "Flatten",
    "LocallyConnected",
    "Normal",
    "OneOutput",
    "Pairs",
    "Relu",
    "Signs",
    "Skip",
    "Twinned",
    "Weight",
    "ZeroOrNormal",
]
