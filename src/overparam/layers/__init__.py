"""Layers: each with its weights, its forward map and its kernel map, and their composition."""

from overparam.layers import standard
from overparam.layers.activation import AbstractActivation
from overparam.layers.append_constant import AppendConstant
from overparam.layers.batch_norm import BatchNorm
from overparam.layers.bias import Bias
from overparam.layers.composition import Composition
from overparam.layers.concatenate import Concatenate
from overparam.layers.convolution import Convolution
from overparam.layers.dense import Dense
from overparam.layers.erf import Erf
from overparam.layers.exponential import Exponential
from overparam.layers.flatten import Flatten
from overparam.layers.gelu import Gelu
from overparam.layers.identity import Identity
from overparam.layers.laws import AbstractLaw, Constant, Normal, Signs, Twinned, ZeroOrNormal
from overparam.layers.layer import AbstractLayer, Weight
from overparam.layers.layer_norm import LayerNorm
from overparam.layers.leaky_relu import LeakyRelu
from overparam.layers.locally_connected import LocallyConnected
from overparam.layers.max_pool import MaxPool
from overparam.layers.one_output import OneOutput
from overparam.layers.padded_skip import PaddedSkip
from overparam.layers.pairs import Pairs
from overparam.layers.pooling import GlobalPool, Pool
from overparam.layers.product_of import Product
from overparam.layers.relu import Relu
from overparam.layers.sine import Sine
from overparam.layers.skip import Skip
from overparam.layers.sum_of import Sum

__all__ = [
    "AbstractActivation",
    "AbstractLaw",
    "AbstractLayer",
    "AppendConstant",
    "BatchNorm",
    "Bias",
    "Composition",
    "Concatenate",
    "Constant",
    "Convolution",
    "Dense",
    "Erf",
    "Exponential",
    "Flatten",
    "Gelu",
    "GlobalPool",
    "Identity",
    "LayerNorm",
    "LeakyRelu",
    "LocallyConnected",
    "MaxPool",
    "Normal",
    "OneOutput",
    "PaddedSkip",
    "Pairs",
    "Pool",
    "Product",
    "Relu",
    "Signs",
    "Sine",
    "Skip",
    "Sum",
    "Twinned",
    "Weight",
    "ZeroOrNormal",
    "standard",
]
