"""Convolutional kernels in JAX, plain and fused, run on the CPU: against the definition and against each other."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from convolution_by_hand import CASES, check_against_hand
from rounding import rounding

from overparam.kernels.convolution_device import OnDevice, fused_works, pairs_in_batches, side_of
from overparam.kernels.convolution_fused import fused_pairs
from overparam.kernels.convolution_images import Images, Patches
from overparam.kernels.convolutional import Convolutional


@pytest.mark.parametrize("case", CASES[2:6], ids=lambda case: "-".join(map(str, case[:7])))
def test_on_a_device_too(case):
    check_against_hand(case, "jax")


def test_size_of_inputs_does_not_matter():
    X = np.random.default_rng(4).standard_normal((2, 4, 4, 1))
    kernel = Convolutional(2, dtype="float32", device="jax")
    whole = kernel(X)
    for power in (-200, 200):
        np.testing.assert_array_equal(kernel(np.ldexp(X, power)), np.ldexp(whole, 2 * power))


@pytest.mark.parametrize(
    "patches",
    [
        Patches(3, "SAME", 3, 4, 5),
        Patches(2, "SAME", 1, 5, 4),
        Patches(3, "CIRCULAR", 2, 5, 4),
        Patches(2, "VALID", 2, 5, 4),
    ],
    ids=str,
)
def test_the_fused_launch_gives_the_numbers_of_the_plain_way(patches):
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((2, 2, patches.rows, patches.columns, 2))
    X[1, :2] = 0.0  # black patches
    stds = (1.4,) * (patches.depth + 1), (0.3 if patches.side == 2 else 0.0,) * (patches.depth + 1)
    x, z = (side_of(Images.of(images, patches, *stds, 1e-15), "float32") for images in (X, Z))
    taught = np.arange(patches.depth, dtype=np.float32) % 2  # some layers trained, some not
    every = np.arange(2)
    plain = pairs_in_batches(x, z, every, every, taught, patches=patches, pooled=True, batch=2)
    fused = fused_pairs(x, z, taught, patches, interpret=True)
    # two numbers of 8 bits hold 16, in two products a layer; the rest is float32
    off = 4 * patches.depth * 2.0**-17 + rounding(200, kind=np.float32)
    np.testing.assert_allclose(fused, plain, rtol=off, atol=off * float(np.max(plain)))


def test_the_fused_launch_lowers_for_a_gpu():
    patches = Patches(3, "SAME", 2, 32, 32)
    side = side_of(Images.of(np.ones((1, 32, 32, 3)), patches, (1.4,) * 3, (0.0,) * 3, 1e-15), "float32")
    whole = jax.jit(fused_pairs, static_argnames="patches").trace(side, side, np.ones(2, np.float32), patches=patches)
    try:
        lowered = whole.lower(lowering_platforms=("cuda",))
    except RuntimeError as error:
        if "No supported GPU" not in str(error):
            raise
        pytest.skip("this JAX lowers for a GPU only where it sees one")
    assert "triton" in lowered.as_text()


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="an accelerator is there")
def test_without_a_gpu():
    assert not fused_works(Patches(3, "SAME", 2, 8, 8))  # Triton does not compile for a CPU: the plain way is taken
    with pytest.raises(ValueError, match="`device` is 'gpu' and jax finds none"):
        Convolutional(2, device="gpu")(np.ones((1, 4, 4, 1)))


def test_pairs_in_any_number_are_the_same():
    """Their number is padded to few lengths, in batches."""
    rng = np.random.default_rng(1)
    patches = Patches(3, "SAME", 2, 4, 4)
    images = Images.of(rng.random((5, 4, 4, 1)), patches, (1.4,) * 3, (0.1,) * 3, 1e-15)
    device = OnDevice(images, images, "float32", "cpu")
    i, j = np.nonzero(np.ones((5, 5)))
    whole = device.sums(i, j, patches, True, np.ones(2))
    some = device.sums(i[3:10], j[3:10], patches, True, np.ones(2))
    own = np.sqrt(whole[i == j])
    off = 4 * Convolutional(2, dtype="float32").entry_rounding  # each is within twice what the kernel states
    assert np.all(np.abs(some - whole[3:10]) <= off * (own[i] * own[j])[3:10])
