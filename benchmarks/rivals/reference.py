"""Reference numbers of the archived neural-tangents, for tests/kernels/test_reference_numbers.py.

Run in the environment of README.md: `python benchmarks/rivals/reference.py`. It writes tests/kernels/reference/
neural_tangents.json (what was computed) and neural_tangents.npz (the numbers), all in float64.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from archived import VERSION, nt, stax

FOLDER = Path(__file__).parents[2] / "tests" / "kernels" / "reference"

FORMAT = [
    "`inputs` names sets of inputs; the arrays `inputs/NAME/X` and `inputs/NAME/Z` are in the .npz. Rows are (n, d), "
    "sequences (n, positions, channels), images (n, rows, columns, channels): channels last.",
    "A case has a `name`, its `inputs`, and `layers`, one after the other: [name, {arguments}] as in "
    "neural_tangents.stax, without the width, which the kernel does not depend on.",
    "['Sum', {'branches': [layers, layers, ...]}] is serial(FanOut(k), parallel(*branches), FanInSum()); an empty list "
    "of layers is Identity(). 'Product' has FanInProd, 'Concatenate' FanInConcat(axis=-1) in its place.",
    "Where `parameterization` is 'standard' the width matters: `out_dim` says it (of every other layer it is 1).",
    "The array `NAME` is (2, n, n + p): the kernel of the network (nngp), then the tangent kernel (ntk); the first n "
    "columns are X against itself (one argument), the other p X against Z.",
    "A NaN is an entry on which neural-tangents gives none; such cases say so in `not_finite`.",
    "`predictions` are of nt.predict: arrays `predictions/...`: X, Z, y (two outputs), H and K (tangent kernel of X, and "
    "of Z against X), gradient_descent_mse at the times t (flow_train, flow_new) and at its limit (limit_new), "
    "gp_inference with diag_reg (ridge_nngp, ridge_ntk), and max_learning_rate.",
    "`kinked` cases have a ReLU or one of its kind. neural-tangents takes its angle from a rounded cosine: on parallel "
    "and opposite inputs (the diagonal among them) their tangent kernels have 7 to 8 right digits, elsewhere 15.",
]

KINKED = {"Relu", "LeakyRelu", "ABRelu", "Abs", "Sign", "RectifiedMonomial"}

Layers = list[list[Any]]


def main() -> None:
    """Every case, checked and stored."""
    inputs = make_inputs()
    arrays = {f"inputs/{name}/{side}": array for name, pair in inputs.items() for side, array in pair.items()}
    cases = []
    for name, kind, layers in make_cases():
        if name in arrays:
            raise ValueError(f"two cases have the name {name}")
        X, Z = inputs[kind]["X"], inputs[kind]["Z"]
        numbers = both(layers, X, Z)
        if numbers.dtype != np.float64 or numbers.ndim != 3:
            raise ValueError(f"{name}: {numbers.dtype} of shape {numbers.shape}, not two float64 matrices")
        missing = int((~np.isfinite(numbers)).sum())
        case = {"name": name, "inputs": kind, "layers": layers, "kinked": has_kink(layers)}
        cases.append(case | ({"not_finite": missing} if missing else {}))
        arrays[name] = np.where(np.isfinite(numbers), numbers, np.nan)
        print(f"{name:40s} {missing or ''}")
    predictions, numbers = make_predictions()
    arrays |= numbers
    FOLDER.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(FOLDER / "neural_tangents.npz", **arrays)
    about = {"neural-tangents": VERSION, "jax": jax.__version__, "numpy": np.__version__, "precision": "float64, CPU"}
    shapes = {name: {side: list(array.shape) for side, array in pair.items()} for name, pair in inputs.items()}
    parts = [
        *(f'"{key}": {json.dumps(value)}' for key, value in {"made_with": about, "inputs": shapes}.items()),
        f'"predictions": {json.dumps(predictions)}',
    ]
    lines = {"format": FORMAT, "cases": cases}
    parts += [f'"{key}": [\n' + ",\n".join(f"  {json.dumps(each)}" for each in lines[key]) + "\n ]" for key in lines]
    (FOLDER / "neural_tangents.json").write_text("{\n " + ",\n ".join(parts) + "\n}\n")
    print(f"{len(cases)} cases, {(FOLDER / 'neural_tangents.npz').stat().st_size / 1e3:.0f} kB")


def both(layers: Layers, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """(2, n, n + p): nngp and ntk of X against itself and against Z."""
    kernel_fn = stax.serial(*[build(*layer) for layer in layers])[2]
    own = jax.jit(lambda x: tuple(kernel_fn(x, None, get=("nngp", "ntk"))))(X)
    cross = jax.jit(lambda x, z: tuple(kernel_fn(x, z, get=("nngp", "ntk"))))(X, Z)
    return np.stack([np.hstack(pair) for pair in zip(own, cross, strict=True)])


def make_inputs() -> dict[str, dict[str, np.ndarray]]:
    """Small inputs with what breaks kernels: zeros, parallel and opposite ones, several sizes, black regions."""
    draw = np.random.default_rng(20240229).standard_normal
    rows, more_rows = draw((5, 4)), draw((4, 4))
    rows[2], rows[3], rows[4] = -2 * rows[0], 0.0, 3 * rows[4]
    more_rows[1] = rows[1] / 2
    images, more_images = draw((4, 6, 6, 2)), draw((2, 6, 6, 2))
    images[2, :3, :3], images[3], more_images[1] = 0.0, 0.0, images[1] / 2
    sequences, more_sequences = draw((4, 9, 2)), draw((2, 9, 2))
    sequences[2, :4], sequences[3], more_sequences[1] = 0.0, 0.0, sequences[1] / 2
    return {
        "rows": {"X": rows, "Z": more_rows},
        "images": {"X": images, "Z": more_images},
        "oblong_images": {"X": draw((2, 5, 7, 3)), "Z": draw((2, 5, 7, 3))},
        "sequences": {"X": sequences, "Z": more_sequences},
    }


def make_predictions() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `nt.predict` makes of one kernel, 12 rows and two outputs."""
    rng = np.random.default_rng(7)
    X, Z, y = rng.standard_normal((12, 3)), rng.standard_normal((5, 3)), rng.standard_normal((12, 2))
    layers = [dense(1.5, 0.3), RELU, dense(1.2, 0.1), ["Erf", {}], dense(1.0, 0.2)]
    kernel_fn = stax.serial(*[build(*layer) for layer in layers])[2]
    H, K = kernel_fn(X, None, get="ntk"), kernel_fn(Z, X, get="ntk")
    settings: dict[str, Any] = {"layers": layers, "diag_reg": 0.05, "learning_rate": 0.3, "t": [1.0, 20.0, 400.0]}
    flow = nt.predict.gradient_descent_mse(H, y, settings["learning_rate"])
    trained, new = flow(np.array(settings["t"]), 0.0, 0.0, K)
    limit = flow(None, 0.0, 0.0, K)[1]
    both, both_new = kernel_fn(X, None, get=("nngp", "ntk")), kernel_fn(Z, X, get=("nngp", "ntk"))
    posterior = nt.predict.gp_inference(both, y, diag_reg=settings["diag_reg"])
    means = posterior(get=("nngp", "ntk"), k_test_train=both_new)
    settings["max_learning_rate"] = float(nt.predict.max_learning_rate(H, y_train_size=y.size))
    arrays = {"X": X, "Z": Z, "y": y, "H": H, "K": K, "flow_train": trained, "flow_new": new, "limit_new": limit}
    arrays |= {"ridge_nngp": means.nngp, "ridge_ntk": means.ntk}
    return settings, {f"predictions/{key}": np.asarray(array) for key, array in arrays.items()}


def build(name: str, arguments: dict[str, Any]) -> Any:
    """A layer of neural-tangents from its plain description."""
    joins = {"Sum": stax.FanInSum, "Product": stax.FanInProd, "Concatenate": stax.FanInConcat}
    if name in joins:
        branches = [
            stax.serial(*[build(*layer) for layer in way]) if way else stax.Identity() for way in arguments["branches"]
        ]
        return stax.serial(stax.FanOut(len(branches)), stax.parallel(*branches), joins[name]())
    arguments = {key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()}
    if name in ("Dense", "Conv", "ConvLocal"):
        return getattr(stax, name)(**({"out_dim" if name == "Dense" else "out_chan": 1} | arguments))
    return getattr(stax, name)(**arguments)


def has_kink(layers: Layers) -> bool:
    """Whether an angle is taken anywhere."""
    return any(
        name in KINKED or any(has_kink(way) for way in arguments.get("branches", [])) for name, arguments in layers
    )


def dense(W_std: float = 1.0, b_std: float | None = None, **more: Any) -> list[Any]:
    return ["Dense", {"W_std": W_std, "b_std": b_std, **more}]


def conv(
    padding: str = "SAME",
    shape: tuple[int, ...] = (3, 3),
    stride: int = 1,
    W_std: float = 1.3,
    b_std: float | None = 0.2,
    local: bool = False,
) -> list[Any]:
    settings = {
        "filter_shape": list(shape),
        "strides": [stride] * len(shape),
        "padding": padding,
        "W_std": W_std,
        "b_std": b_std,
    }
    return ["ConvLocal" if local else "Conv", settings]


def pool(
    kind: str = "AvgPool", padding: str = "VALID", shape: tuple[int, ...] = (2, 2), stride: int = 2, **more: Any
) -> list[Any]:
    return [kind, {"window_shape": list(shape), "strides": [stride] * len(shape), "padding": padding, **more}]


RELU: list[Any] = ["Relu", {}]
FLATTEN: list[Any] = ["Flatten", {}]
GLOBAL: list[Any] = ["GlobalAvgPool", {}]
NORM: list[Any] = ["LayerNorm", {"axis": [-1]}]


def make_cases() -> list[tuple[str, str, Layers]]:
    """Names, inputs and layers."""
    return [*rows_cases(), *activation_cases(), *image_cases(), *residual_cases(), *norm_cases()]


def rows_cases() -> list[tuple[str, str, Layers]]:
    """Fully connected networks."""
    found: list[tuple[str, str, Layers]] = [
        ("linear", "rows", [dense(1.3)]),
        ("linear_bias", "rows", [dense(1.3, 0.4)]),
        ("linear_deep", "rows", [dense(1.3, 0.4), dense(0.7, 0.1), ["Identity", {}], dense(2.0, None)]),
    ]
    for depth in range(1, 7):
        found.append((f"relu_depth{depth}", "rows", [dense(2**0.5), RELU] * depth + [dense(2**0.5)]))
        found.append((f"relu_bias_depth{depth}", "rows", [dense(1.5, 0.3), RELU] * depth + [dense(1.5, 0.3)]))
    found.append(("relu_unequal", "rows", [dense(1.1, 0.5), RELU, dense(1.9), RELU, dense(0.6, 0.05)]))
    found.append(("relu_output_only_scaled", "rows", [dense(1.0), RELU, dense(3.0, 0.7)]))
    for bias in (None, 0.3):
        standard = {"parameterization": "standard"}
        layers = [
            dense(1.4, bias, out_dim=16, **standard),
            RELU,
            dense(1.4, bias, out_dim=8, **standard),
            RELU,
            dense(1.0, bias, out_dim=1, **standard),
        ]
        found.append((f"standard_{'bias' if bias else 'plain'}", "rows", layers))
    return found


def activation_cases() -> list[tuple[str, str, Layers]]:
    """Every nonlinearity after dense layers, at depth 1, 2 and 3."""
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "leaky": ("LeakyRelu", {"alpha": 0.1}),
        "leaky_steep": ("LeakyRelu", {"alpha": -0.5}),
        "abrelu": ("ABRelu", {"a": 0.3, "b": 1.7}),
        "abs": ("Abs", {}),
        "erf": ("Erf", {}),
        "erf_abc": ("Erf", {"a": 1.2, "b": 0.7, "c": 0.3}),
        "sigmoid_like": ("Sigmoid_like", {}),
        "gelu": ("Gelu", {}),
        "sin": ("Sin", {}),
        "sin_abc": ("Sin", {"a": 1.2, "b": 0.7, "c": 0.3}),
        "cos": ("Cos", {}),
        "cos_abc": ("Cos", {"a": 1.2, "b": 0.7, "c": 0.3}),
        "rbf": ("Rbf", {"gamma": 0.6}),
        "exp": ("Exp", {"a": 0.8, "b": 0.5}),
        "gaussian": ("Gaussian", {"a": 1.1, "b": -0.6}),
        "gabor": ("Gabor", {}),
        "expnormalized": ("ExpNormalized", {"gamma": 0.7}),
        "sign": ("Sign", {}),
        "rectified0": ("RectifiedMonomial", {"degree": 0}),
        "rectified1": ("RectifiedMonomial", {"degree": 1}),
        "rectified2": ("RectifiedMonomial", {"degree": 2}),
        "monomial2": ("Monomial", {"degree": 2}),
        "monomial3": ("Monomial", {"degree": 3}),
        "polynomial": ("Polynomial", {"coef": [0.3, 0.5, -0.2, 0.1]}),
        "hermite2": ("Hermite", {"degree": 2}),
        "hermite3": ("Hermite", {"degree": 3}),
    }
    found: list[tuple[str, str, Layers]] = []
    for name, (kind, arguments) in kinds.items():
        W_std = 0.6 if kind in ("Exp", "Monomial", "Polynomial", "RectifiedMonomial", "Hermite") else 1.3
        for depth in (1,) if kind == "RectifiedMonomial" else (1, 2, 3):  # deeper it gives NaN alone
            layers = [dense(W_std, 0.2), [kind, arguments]] * depth + [dense(1.1, 0.1)]
            found.append((f"{name}_depth{depth}", "rows", layers))
        found.append((f"{name}_plain", "rows", [dense(W_std), [kind, arguments], dense(1.0)]))
    mixed = [dense(1.2, 0.1), ["Erf", {}], dense(1.3, 0.2), RELU, dense(0.9, 0.1), ["Sin", {}], dense(1.0)]
    return [*found, ("mixed_activations", "rows", mixed)]


def image_cases() -> list[tuple[str, str, Layers]]:
    """Convolutions, shared and local, poolings and heads, on images, oblong images and sequences."""
    found: list[tuple[str, str, Layers]] = []
    heads = {"flatten": [FLATTEN, dense(1.2, 0.1)], "gap": [GLOBAL, dense(1.2, 0.1)]}
    for padding in ("SAME", "VALID", "CIRCULAR"):
        for stride in (1, 2):
            for shape in ((3, 3), (2, 2)):
                for head, last in heads.items():
                    name = f"conv_{padding.lower()}_{shape[0]}x{shape[1]}_stride{stride}_{head}"
                    found.append((name, "images", [conv(padding, shape, stride), RELU, conv("SAME"), RELU, *last]))
    for padding in ("SAME", "VALID", "CIRCULAR"):
        for head, last in heads.items():
            name = f"conv_oblong_{padding.lower()}_{head}"
            found.append((name, "oblong_images", [conv(padding, (3, 2), 2), RELU, conv("SAME", (2, 3)), RELU, *last]))
            for stride in (1, 2):
                name = f"conv1d_{padding.lower()}_stride{stride}_{head}"
                first = conv(padding, (3,), stride)
                found.append((name, "sequences", [first, RELU, conv(padding, (2,)), RELU, *last]))
            name = f"local_{padding.lower()}_{head}"
            found.append(
                (name, "images", [conv(padding, local=True), RELU, conv("SAME", (2, 2), 2, local=True), RELU, *last])
            )
        for shape in ((3, 3), (2, 2)):
            layers = [conv(padding, shape, W_std=1.4, b_std=0.1), RELU] * 2
            for head, last in heads.items():
                name = f"conv_uniform_{padding.lower()}_{shape[0]}x{shape[1]}_{head}"
                found.append((name, "images", [*layers, last[0], dense(1.4, 0.1)]))
    for depth in (1, 3):
        for head, last in heads.items():
            layers = [conv("SAME", W_std=2**0.5, b_std=None), RELU] * depth
            found.append((f"conv_no_bias_depth{depth}_{head}", "images", [*layers, *last[:-1], dense(1.0)]))
    found += [
        ("local_then_shared_gap", "images", [conv(local=True), RELU, conv(), RELU, *heads["gap"]]),
        ("shared_then_local_gap", "images", [conv(), RELU, conv(local=True), RELU, *heads["gap"]]),
        ("conv_erf_gap", "images", [conv(), ["Erf", {}], conv("VALID"), ["Erf", {}], *heads["gap"]]),
        ("conv_gelu_gap", "images", [conv(), ["Gelu", {}], conv("VALID"), ["Gelu", {}], *heads["gap"]]),
        (
            "conv_leaky_flatten",
            "images",
            [conv(), ["LeakyRelu", {"alpha": 0.2}], conv("CIRCULAR"), RELU, *heads["flatten"]],
        ),
        ("conv_linear_gap", "images", [conv(), conv("VALID"), *heads["gap"]]),
        ("flatten_first", "images", [FLATTEN, dense(1.3, 0.2), RELU, dense(1.0, 0.1)]),
        ("flatten_then_deep", "images", [conv(), RELU, FLATTEN, dense(1.3, 0.2), RELU, dense(1.0, 0.1)]),
        ("gap_then_deep", "images", [conv(), RELU, GLOBAL, dense(1.3, 0.2), RELU, dense(1.0, 0.1)]),
        ("gap_first", "images", [GLOBAL, dense(1.3, 0.2), RELU, dense(1.0, 0.1)]),
        ("gap_last", "images", [conv(), RELU, conv(), GLOBAL]),
        ("flatten_last", "images", [conv(), RELU, conv(), FLATTEN]),
        ("dense_at_positions_gap", "images", [conv(), RELU, dense(1.3, 0.2), RELU, *heads["gap"]]),
        ("global_sum", "images", [conv(), RELU, ["GlobalSumPool", {}], dense(0.3, 0.1)]),
        ("global_sum_first", "images", [["GlobalSumPool", {}], dense(0.3, 0.1)]),
    ]
    for padding in ("SAME", "VALID", "CIRCULAR"):
        for stride in (1, 2):
            for head, last in heads.items():
                name = f"avgpool_{padding.lower()}_stride{stride}_{head}"
                found.append(
                    (name, "images", [conv(), RELU, pool("AvgPool", padding, stride=stride), conv(), RELU, *last])
                )
        found.append(
            (
                f"avgpool_3x3_{padding.lower()}_edges_flatten",
                "images",
                [conv(), RELU, pool("AvgPool", padding, (3, 3), normalize_edges=True), conv(), RELU, *heads["flatten"]],
            )
        )
        found.append(
            (
                f"avgpool_3x3_{padding.lower()}_flatten",
                "images",
                [conv(), RELU, pool("AvgPool", padding, (3, 3)), conv(), RELU, *heads["flatten"]],
            )
        )
        found.append(
            (
                f"sumpool_{padding.lower()}_gap",
                "images",
                [conv(), RELU, pool("SumPool", padding, (3, 3)), conv(W_std=0.3), RELU, *heads["gap"]],
            )
        )
        found.append(
            (
                f"avgpool1d_{padding.lower()}_gap",
                "sequences",
                [conv(padding, (3,)), RELU, pool("AvgPool", padding, (2,)), conv("SAME", (2,)), RELU, *heads["gap"]],
            )
        )
    found += [
        (
            "avgpool_same_edges_gap",
            "images",
            [conv(), RELU, pool("AvgPool", "SAME", (3, 3), normalize_edges=True), *heads["gap"]],
        ),
        ("avgpool_first_gap", "images", [pool(), conv(), RELU, *heads["gap"]]),
        (
            "avgpool_oblong_gap",
            "oblong_images",
            [conv(), RELU, pool("AvgPool", "SAME", (2, 3)), conv(), RELU, *heads["gap"]],
        ),
        ("avgpool_after_local", "images", [conv(local=True), RELU, pool(), conv(), RELU, *heads["gap"]]),
    ]
    return found


def residual_cases() -> list[tuple[str, str, Layers]]:
    """Sums, products and joins of branches, residual networks of rows and of images."""

    def add(*branches: Layers) -> list[Any]:
        return ["Sum", {"branches": list(branches)}]

    def wide(stride: int = 1, same: bool = True) -> list[Any]:
        way = [RELU, conv(stride=stride, W_std=2**0.5, b_std=0.1), RELU, conv(W_std=2**0.5, b_std=0.1)]
        return add(way, [] if same else [conv(stride=stride, W_std=2**0.5, b_std=0.1)])

    def same(stride: int = 1) -> list[Any]:
        return conv(stride=stride, W_std=1.4, b_std=0.1)

    # every linear layer alike, as kernels.Residual and kernels.ResidualConvolutional have it
    ends = dense(1.4, 0.1)
    first_block, strided_block = (add([same(by)], [RELU, same(by), RELU, same()]) for by in (1, 2))
    plain_block = add([], [RELU, same(), RELU, same()])
    block = add([], [RELU, dense(1.4, 0.2), RELU, dense(1.1, 0.1)])
    one = add([RELU, dense(1.4, 0.2)], [])
    return [
        ("residual_uniform_block1", "rows", [ends, *[add([], [RELU, ends])] * 2, RELU, ends]),
        ("residual_uniform_block2", "rows", [ends, *[add([], [RELU, ends] * 2)] * 2, RELU, ends]),
        (
            "wide_resnet_uniform_gap",
            "images",
            [same(), first_block, plain_block, strided_block, plain_block, RELU, GLOBAL, ends],
        ),
        ("residual_one_layer", "rows", [dense(1.2, 0.1), one, one, one, RELU, dense(1.0, 0.1)]),
        ("residual_blocks", "rows", [dense(1.2, 0.1), block, block, RELU, dense(1.0, 0.1)]),
        ("residual_projected", "rows", [dense(1.2), add([dense(0.8, 0.3)], [RELU, dense(1.5)]), RELU, dense(1.0)]),
        (
            "three_branches",
            "rows",
            [dense(1.2, 0.1), add([], [RELU, dense(1.4)], [["Erf", {}], dense(0.9, 0.2)]), RELU, dense(1.0)],
        ),
        ("residual_linear_skip_of_input", "rows", [dense(1.0), add([], [RELU, dense(1.4)]), dense(1.0, 0.2)]),
        (
            "product",
            "rows",
            [
                [
                    "Product",
                    {"branches": [[dense(1.2, 0.1), RELU, dense(1.1)], [dense(0.9, 0.3), ["Erf", {}], dense(1.0)]]},
                ]
            ],
        ),
        (
            "product_then_dense",
            "rows",
            [["Product", {"branches": [[dense(1.2, 0.1)], [dense(0.9, 0.3)]]}], dense(1.0, 0.2)],
        ),
        (
            "concatenate",
            "rows",
            [
                [
                    "Concatenate",
                    {"branches": [[dense(1.2, 0.1, out_dim=3), RELU], [dense(0.9, 0.3, out_dim=5), ["Erf", {}]]]},
                ],
                dense(1.0, 0.2),
            ],
        ),
        ("conv_residual_gap", "images", [conv(), add([], [RELU, conv()]), RELU, GLOBAL, dense(1.0)]),
        (
            "conv_residual_flatten",
            "images",
            [conv("CIRCULAR"), add([], [RELU, conv("CIRCULAR")]), RELU, FLATTEN, dense(1.0)],
        ),
        (
            "wide_resnet_gap",
            "images",
            [conv(), wide(same=False), wide(), wide(2, same=False), RELU, GLOBAL, dense(1.0)],
        ),
        (
            "wide_resnet_pool_flatten",
            "images",
            [conv(), wide(same=False), wide(2, same=False), pool("AvgPool", "VALID", (3, 3), 3), FLATTEN, dense(1.0)],
        ),
    ]


def norm_cases() -> list[tuple[str, str, Layers]]:
    """Layer norm over channels, and over positions and channels."""
    over_all: list[Any] = ["LayerNorm", {"axis": [1, 2, 3]}]
    loud: list[Any] = ["LayerNorm", {"axis": [-1], "eps": 0.1}]
    return [
        ("norm_dense", "rows", [dense(1.3, 0.2), NORM, RELU, dense(1.1, 0.1), NORM, RELU, dense(1.0, 0.1)]),
        ("norm_dense_no_bias", "rows", [dense(1.3), NORM, RELU, dense(1.1), NORM, RELU, dense(1.0)]),
        ("norm_dense_eps", "rows", [dense(1.3), loud, ["Erf", {}], dense(1.1, 0.3), loud, RELU, dense(1.0)]),
        (
            "norm_residual",
            "rows",
            [dense(1.2, 0.1), ["Sum", {"branches": [[], [NORM, RELU, dense(1.4, 0.2)]]}], NORM, RELU, dense(1.0)],
        ),
        ("norm_conv_channels_flatten", "images", [conv(), NORM, RELU, conv(), NORM, RELU, FLATTEN, dense(1.0)]),
        ("norm_conv_channels_gap", "images", [conv(), NORM, RELU, conv(), NORM, RELU, GLOBAL, dense(1.0)]),
        ("norm_conv_all_flatten", "images", [conv(), over_all, RELU, conv(), over_all, RELU, FLATTEN, dense(1.0)]),
        (
            "norm_conv_all_gap",
            "images",
            [conv("VALID"), over_all, RELU, conv("CIRCULAR"), over_all, RELU, GLOBAL, dense(1.0)],
        ),
        ("norm_conv_rows_gap", "images", [conv(), ["LayerNorm", {"axis": [1, 3]}], RELU, GLOBAL, dense(1.0)]),
    ]


if __name__ == "__main__":
    main()
