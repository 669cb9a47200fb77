"""Images, residual networks and layer norm against numbers of the archived neural-tangents, in float64.

How they are stored: tests/kernels/reference/neural_tangents.json. Of parallel and opposite inputs, and of images with
black regions, its tangent kernels have 7 to 8 digits where there is a ReLU: those are held to 1e-7, all else to 1e-10.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from overparam.kernels.composed import Composed
from overparam.layers import Erf, Flatten, Gelu, Identity, LayerNorm, LeakyRelu, Relu, standard

FOLDER = Path(__file__).parents[1] / "kernels" / "reference"
STORED = json.loads((FOLDER / "neural_tangents.json").read_text())
JOINS = {"Sum": standard.sum_of, "Product": standard.product_of, "Concatenate": standard.concatenated}
PLAIN = {
    "Relu": Relu,
    "Gelu": Gelu,
    "Erf": Erf,
    "Identity": Identity,
    "Flatten": Flatten,
    "GlobalAvgPool": standard.global_avg_pool,
    "GlobalSumPool": standard.global_sum_pool,
}
MINE = {"Conv", "ConvLocal", "LayerNorm", "Flatten", *JOINS}
CASES = {
    case["name"]: case for case in STORED["cases"] if case["inputs"] != "rows" or {n for n, _ in case["layers"]} & MINE
}


def written(name, arguments):
    """A layer of the library from neural-tangents' names."""
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()}
    if name in JOINS:
        return JOINS[name](*[[written(*layer) for layer in branch] for branch in arguments["branches"]])
    if name == "Dense":
        return standard.dense(given.get("out_dim", 7), given["W_std"], given["b_std"])
    if name in ("Conv", "ConvLocal"):
        where = given["filter_shape"], given["strides"], given["padding"]
        return standard.conv(7, *where, given["W_std"], given["b_std"], shared=name == "Conv")
    if name in ("AvgPool", "SumPool"):
        where = given["window_shape"], given["strides"], given["padding"]
        if name == "SumPool":
            return standard.sum_pool(*where)
        return standard.avg_pool(*where, normalise_edges=given.get("normalize_edges", False))
    if name == "LayerNorm":
        return LayerNorm(tuple(axis - 1 for axis in given["axis"] if axis not in (-1, 3)), given.get("eps", 1e-12))
    return LeakyRelu(given["alpha"]) if name == "LeakyRelu" else PLAIN[name]()


def blurred(kind, n, p):
    """Entries of parallel inputs, and of images with black regions."""
    odd = np.zeros((n, n + p), dtype=bool)
    np.fill_diagonal(odd, True)
    if kind == "rows":
        odd[0, 2] = odd[2, 0] = True
    elif kind in ("images", "sequences"):
        odd[2:4], odd[:, 2:4] = True, True
    if kind != "oblong_images":
        odd[1, n + 1] = True
    return odd


def test_there_are_enough_cases():
    assert len(CASES) >= 110


@pytest.mark.parametrize("name", sorted(CASES))
def test_numbers_of_neural_tangents(name):
    case = CASES[name]
    with np.load(FOLDER / "neural_tangents.npz") as stored:
        X, Z = (stored[f"inputs/{case['inputs']}/{side}"] for side in "XZ")
        known = stored[name]
    kernel = Composed([written(*layer) for layer in case["layers"]])
    odd = blurred(case["inputs"], len(X), len(Z))
    for square, cross, expected, get in zip(
        kernel.both(X), kernel.both(X, Z), known[::-1], ("ntk", "nngp"), strict=True
    ):
        size = np.sqrt(np.outer(kernel.diagonal(X, get), np.concatenate([kernel.diagonal(A, get) for A in (X, Z)])))
        error = np.abs(np.hstack([square, cross]) - expected) / np.where(size > 0, size, 1.0)
        tolerance = np.where(odd & case["kinked"] & (get == "ntk"), 1e-7, 1e-10)
        assert np.all(error <= tolerance), (get, error.max())
