"""H(0) of every network of the house, through the door that takes any function."""

import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from empirical_cases import by_jacobian

from overparam.core.network import Params
from overparam.kernels.empirical import Empirical
from overparam.kernels.empirical_rows import tangent_gram

sys.path.append(str(Path(__file__).parents[1] / "networks"))
from networks_cases import CASES

EVERY_WAY = (
    "two_layer", "biased", "three_layer", "2layer", "3layer, all", "3resnet, all", "fully_connected, all", "residual, all",
    "convolutional", "convolutional, image, shared, all",
)  # fmt: skip
"""Every architecture with as many of its weights trained as it can have: other initialisations have the same programs."""


@pytest.mark.parametrize("name", EVERY_WAY)
def test_kernel_at_the_start(name):
    case = CASES[name]
    X = np.random.default_rng(0).standard_normal((5, case.inputs))
    with jax.enable_x64(True):
        params = case.net.init(0, case.inputs)

    def apply(trained, x):
        return case.net.apply(Params(trained, params.fixed), x)

    wanted = by_jacobian(apply, params.trained, X)
    size = np.abs(wanted).max()
    np.testing.assert_allclose(Empirical(case.net, params).full(X), wanted, rtol=0, atol=1e-12 * size)
    if name in ("3resnet, all", "fully_connected, all", "convolutional, image, shared, all"):
        with jax.enable_x64(True):
            inside = jax.jit(tangent_gram, static_argnums=0)(case.net, params, X)
        trace = np.einsum("ijaa->ij", wanted) / wanted.shape[-1]
        np.testing.assert_allclose(np.asarray(inside), trace, rtol=0, atol=1e-12 * size)
