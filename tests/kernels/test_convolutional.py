"""Convolutional kernels: against the definition in 40 digits, neural-tangents, layer compositions, and their own rules."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from convolution_by_hand import CASES, check_against_hand

from overparam.engines import gram
from overparam.kernels.convolutional import Convolutional
from overparam.layers import Relu, standard
from overparam.layers.pooling import Flatten, GlobalPool
from overparam.networks import Sequence

REFERENCE = Path(__file__).parent / "reference"


def _named(case):
    """A case with its name; large pooled ones take up to a minute in 40 digits, and run with the slow tests."""
    rows, columns, channels, head = *case[:3], case[6]
    marks = (pytest.mark.slow,) if rows * columns * channels >= 9 and head == "pool" else ()
    return pytest.param(case, id="-".join(map(str, case[:7])), marks=marks)


@pytest.mark.parametrize("case", [_named(case) for case in CASES])
def test_equals_the_definition_in_40_digits(case):
    check_against_hand(case, None)


def reference_cases():
    found = []
    for case in json.loads((REFERENCE / "neural_tangents.json").read_text())["cases"]:
        layers = case["layers"]
        names, body = [name for name, _ in layers], [arguments for name, arguments in layers if name == "Conv"]
        heads = (["Flatten", "Dense"], ["GlobalAvgPool", "Dense"])
        if not body or names not in [["Conv", "Relu"] * len(body) + head for head in heads]:
            continue
        kinds = {(tuple(conv["filter_shape"]), tuple(conv["strides"]), conv["padding"]) for conv in body}
        (sides, strides, padding), *others = kinds
        if not others and strides == (1, 1) and len(sides) == 2 and sides[0] == sides[1]:
            stds = [tuple(a[name] or 0.0 for a in (*body, layers[-1][1])) for name in ("W_std", "b_std")]
            head = "flatten" if "Flatten" in names else "pool"
            kernel = Convolutional(len(body), sides[0], *stds, head, padding=padding)
            found.append(pytest.param(case["name"], case["inputs"], kernel, id=case["name"]))
    return found


@pytest.mark.parametrize(("name", "inputs", "kernel"), reference_cases())
def test_equals_neural_tangents(name, inputs, kernel):
    arrays = np.load(REFERENCE / "neural_tangents.npz")
    X, Z = arrays[f"inputs/{inputs}/X"], arrays[f"inputs/{inputs}/Z"]
    for get, want in zip(("nngp", "ntk"), arrays[name], strict=True):
        have = np.hstack([kernel(X, get=get), kernel(X, Z, get=get)])
        sizes = np.sqrt(np.outer(kernel.diagonal(X, get), np.concatenate([kernel.diagonal(V, get) for V in (X, Z)])))
        gap = np.abs(have - want) / np.where(sizes > 0, sizes, 1.0)
        # theirs takes the angle of parallel patches from a rounded cosine: 8 digits there, on the diagonal above all
        assert gap.max() < (2 * kernel.entry_rounding if get == "nngp" else 5e-9)
        assert np.median(gap) < 2 * kernel.entry_rounding


@pytest.mark.parametrize("padding", ["SAME", "CIRCULAR", "VALID"])
@pytest.mark.parametrize("head", ["pool", "flatten"])
def test_equals_the_composition_of_layers(padding, head):
    rng = np.random.default_rng(1)
    X, Z = rng.random((3, 6, 7, 2)), rng.random((2, 6, 7, 2))
    kernel = Convolutional(2, 3, 1.4, 0.2, head, padding=padding)
    conv = [standard.conv(8, 3, padding=padding, W_std=1.4, b_std=0.2), Relu()]
    net = Sequence([*conv, *conv, GlobalPool() if head == "pool" else Flatten(), standard.dense(1, 1.4, 0.2)])
    for get in ("ntk", "nngp"):
        np.testing.assert_allclose(kernel(X, Z, get), net.kernel()(X, Z, get), rtol=1e-13)
        np.testing.assert_allclose(kernel(X, get=get), net.kernel()(X, get=get), rtol=1e-13)


def test_ways_of_calling_agree():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((18, 4, 4, 3))  # more than one tile
    kernel = Convolutional(2, b_std=0.1)
    whole = kernel(X)
    assert np.array_equal(whole, whole.T)
    np.testing.assert_allclose(whole, kernel(X, X.copy()), rtol=1e-13)
    np.testing.assert_array_equal(whole.diagonal(), kernel.diagonal(X))
    for one, get in zip(kernel.both(X), ("ntk", "nngp"), strict=True):
        np.testing.assert_array_equal(one, kernel(X, get=get))
    assert kernel.evaluate(X[3], X[17]) == whole[3, 17]
    rows = np.moveaxis(X, -1, 1).reshape(18, -1)  # channel after channel
    np.testing.assert_array_equal(kernel(rows), whole)
    np.testing.assert_array_equal(Convolutional(2, b_std=0.1, image=(4, 4, 3))(rows), whole)
    np.testing.assert_array_equal(Convolutional(2, b_std=0.1, threads=1)(X), whole)
    assert np.linalg.eigvalsh(whole).min() > 0
    np.testing.assert_allclose(gram(kernel, X, "dense").dense(), whole, rtol=1e-13)


def test_the_diagonal_is_made_once(monkeypatch):
    made = []
    own = Convolutional._own
    monkeypatch.setattr(Convolutional, "_own", lambda kernel, X: made.append(len(X)) or own(kernel, X))
    X = np.random.default_rng(8).standard_normal((3, 3, 3, 1))
    whole = Convolutional(1)(X)
    assert made == [3]
    assert np.array_equal(gram(Convolutional(1), X, "dense").dense(), whole)
    assert sum(made) == 6


def test_one_by_one_patches_are_a_fully_connected_network_at_every_pixel():
    from overparam.kernels.fully_connected import FullyConnected

    rng = np.random.default_rng(3)
    X, Z = rng.standard_normal((2, 3, 3, 4)), rng.standard_normal((3, 3, 3, 4))
    dense = FullyConnected(3, 1.5, 0.2)(X.reshape(-1, 4), Z.reshape(-1, 4)).reshape(2, 9, 3, 9)
    pooled = Convolutional(3, 1, 1.5, 0.2)(X, Z)
    flat = Convolutional(3, 1, 1.5, 0.2, "flatten")(X, Z)
    np.testing.assert_allclose(pooled, dense.mean(axis=(1, 3)), rtol=1e-12)
    np.testing.assert_allclose(flat, np.einsum("iaja->ij", dense) / 9, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_size_of_inputs_does_not_matter(dtype):
    """Without biases K is homogeneous: powers of two change no digit, however small or large."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((3, 4, 4, 1))
    kernel = Convolutional(2, dtype=dtype)
    whole = kernel(X)
    for power in (-200, -66, 60, 200):
        np.testing.assert_array_equal(kernel(np.ldexp(X, power)), np.ldexp(whole, 2 * power))
    biased = Convolutional(2, b_std=0.5, dtype=dtype)
    np.testing.assert_allclose(biased(X * 1e-20), biased(X * 0), rtol=2 * biased.entry_rounding)


def test_many_layers_and_large_weights_stay_in_range_of_float32():
    X = np.random.default_rng(5).random((2, 5, 5, 1))
    full, short = (Convolutional(30, W_std=20.0, b_std=1.0, dtype=dtype)(X) for dtype in ("float64", "float32"))
    assert full.max() > 1e60
    np.testing.assert_allclose(short, full, rtol=1e-5)


def test_float32_keeps_six_digits_of_photographs():
    pytest.importorskip("PIL", reason="reads the photographs")
    from sklearn.datasets import load_sample_images

    photographs = load_sample_images().images
    X = np.stack(
        [image[i : i + 16 * 8 : 8, j : j + 16 * 8 : 8] for image in photographs for i, j in ((0, 0), (150, 300))]
    )
    full, short = (Convolutional(4, dtype=dtype) for dtype in ("float64", "float32"))
    sizes = np.sqrt(np.outer(full.diagonal(X), full.diagonal(X)))
    gap = np.abs(short(X) - full(X)) / sizes
    assert 0 < gap.max() <= 2 * short.entry_rounding
    assert np.median(gap) < 1e-6
    assert gap.diagonal().max() == 0  # float64 both


def test_without_numba(monkeypatch):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((3, 3, 3, 2))
    kernel = Convolutional(2)
    whole = kernel(X)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert kernel.way == "jax on cpu"
    np.testing.assert_allclose(kernel(X), whole, rtol=1e-12)
    with pytest.raises(ValueError, match=r"install overparam\[convolution\]"):
        Convolutional(2, device="cpu")(X)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"depth": 0}, "`depth` is 0; expected a whole number"),
        ({"depth": 2, "patch": 2.0}, "`patch` is 2.0"),
        ({"depth": 2, "W_std": 0.0}, "`W_std` is 0.0; expected finite numbers, more than 0"),
        ({"depth": 2, "b_std": (0.1, 0.2)}, "`b_std` has 2 numbers; a network of depth 2 has 3"),
        ({"depth": 2, "head": "mean"}, "`head` is 'mean'; expected 'pool' or 'flatten'"),
        ({"depth": 2, "activation": "erf"}, "op.networks.Sequence"),
        ({"depth": 1, "trained": "hidden"}, "`trained` is 'hidden'; expected 'all'"),
        ({"depth": 2, "trained": (4,)}, "numbers of layers from 1 to 3"),
        ({"depth": 2, "image": (3, 3)}, "`image` is"),
    ],
)
def test_settings_that_make_no_kernel(arguments, said):
    with pytest.raises(ValueError, match=said):
        Convolutional(**arguments)


def with_nan():
    X = np.ones((2, 4, 4, 1))
    X[1, 2, 3, 0] = np.nan
    return X


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (with_nan(), "`X` has 1 NaN"),
        (np.ones((4, 4, 1)), "expected images"),
        (np.ones((2, 50)), "no square image of one or three channels"),
        (np.ones((2, 2, 2, 1)), "need 3 or more each way"),
        (np.ones((0, 4, 4, 1)), "expected images"),
        (np.full((1, 4, 4, 1), 1e160), "too large"),
        (np.full((1, 4, 4, 1), 1e-160), "too small"),
    ],
)
def test_images_that_have_no_kernel(X, said):
    with pytest.raises(ValueError, match=said):
        Convolutional(2)(X)


def test_a_kernel_beyond_float64_is_an_error():
    with pytest.raises(ValueError, match="too large for float64"):
        Convolutional(20, W_std=1e10)(np.ones((1, 4, 4, 1)))


def test_integer_images_and_unequal_shapes():
    X = np.arange(2 * 16, dtype=np.uint8).reshape(2, 4, 4, 1)
    kernel = Convolutional(2)
    np.testing.assert_array_equal(kernel(X), kernel(X.astype(float)))
    with pytest.raises(ValueError, match="they need the same"):
        kernel(X, np.ones((1, 5, 5, 1)))
    with pytest.raises(ValueError, match="`get` is 'both'"):
        kernel(X, get="both")
