"""Layers: each with its weights, its forward map and its kernel map, and their composition."""

from overparam.layers import standard
from overparam.layers.activation import AbstractActivation
from overparam.layers.attention import SelfAttention
from overparam.layers.branches import Concatenate, PaddedSkip, Product, Skip, Sum
from overparam.layers.composition import Composition
from overparam.layers.convolution import Convolution, LocallyConnected
from overparam.layers.distributions import AbstractLaw, Constant, Normal, Signs, Twinned, ZeroOrNormal
from overparam.layers.dropout import Dropout
from overparam.layers.elementwise import Elementwise, KernelFormula
from overparam.layers.erf import Erf, Gelu
from overparam.layers.gabor import Gabor
from overparam.layers.kernel_pairs import Pairs
from overparam.layers.layer import AbstractLayer, Weight
from overparam.layers.linear import AppendConstant, Bias, Dense, OneOutput
from overparam.layers.normalisation import BatchNorm, LayerNorm
from overparam.layers.pooling import Flatten, GlobalPool, MaxPool, Pool
from overparam.layers.powers import ExpNormalized, RectifiedMonomial, Sign
from overparam.layers.relu import Identity, LeakyRelu, Relu
from overparam.layers.sine import Exponential, Gaussian, Sine
from overparam.layers.slicing import Slice
from overparam.layers.standard import Joined, Linear, Placed

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
    "Dropout",
    "Elementwise",
    "Erf",
    "ExpNormalized",
    "Exponential",
    "Flatten",
    "Gabor",
    "Gaussian",
    "Gelu",
    "GlobalPool",
    "Identity",
    "Joined",
    "KernelFormula",
    "LayerNorm",
    "LeakyRelu",
    "Linear",
    "LocallyConnected",
    "MaxPool",
    "Normal",
    "OneOutput",
    "PaddedSkip",
    "Pairs",
    "Placed",
    "Pool",
    "Product",
    "RectifiedMonomial",
    "Relu",
    "SelfAttention",
    "Sign",
    "Signs",
    "Sine",
    "Skip",
    "Slice",
    "Sum",
    "Twinned",
    "Weight",
    "ZeroOrNormal",
    "standard",
]
