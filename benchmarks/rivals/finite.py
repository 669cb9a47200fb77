"""Finite networks of the archived neural-tangents: weights, outputs and empirical tangent kernels.

Run in the environment of README.md: `python benchmarks/rivals/finite.py`. It writes tests/kernels/reference/
neural_tangents_finite.json (the networks, as in neural_tangents.json, with widths) and .npz. Of network NAME, `NAME/X` is
the input, `NAME/i.W` and `NAME/i.b` the weights of layer i in their layout (dense: inputs × units; convolutions: rows ×
columns × channels × units), `NAME/outputs` (n, k), `NAME/full` (n, n, k, k) and `NAME/trace` (n, n) the tangent kernel.
"""

from __future__ import annotations

import json

from reference import FLATTEN, FOLDER, GLOBAL, RELU, build, conv, dense, pool  # sets float64 before JAX is imported

import jax  # isort: skip
import numpy as np  # isort: skip
from archived import nt, stax  # isort: skip


def main() -> None:
    """Three small networks."""
    networks = {
        "dense": ((3,), [dense(1.5, 0.3, out_dim=7), ["Erf", {}], dense(1.2, out_dim=6), RELU, dense(0.9, 0.2, out_dim=2)]),
        "conv_flatten": ((5, 4, 2), [wide(conv("SAME", stride=2), 5), RELU, FLATTEN, dense(1.1, 0.1, out_dim=3)]),
        "conv_gap": ((6, 6, 2), [wide(conv("CIRCULAR"), 4), RELU, pool(), wide(conv("VALID", (2, 2)), 5), ["Gelu", {}],
                                 GLOBAL, dense(1.1, out_dim=1)]),
    }  # fmt: skip
    arrays: dict[str, np.ndarray] = {}
    for name, (shape, layers) in networks.items():
        X = np.random.default_rng(3).standard_normal((4, *shape))
        init_fn, apply_fn, _ = stax.serial(*[build(*layer) for layer in layers])
        params = init_fn(jax.random.PRNGKey(1), X.shape)[1]
        for place, weights in enumerate(params):
            for letter, array in zip("Wb", weights, strict=False):
                if array is not None:
                    arrays[f"{name}/{place}.{letter}"] = np.asarray(array)
        method = nt.NtkImplementation.JACOBIAN_CONTRACTION
        full, trace = (nt.empirical_ntk_fn(apply_fn, trace_axes=axes, implementation=method) for axes in ((), (-1,)))
        arrays |= {f"{name}/X": X, f"{name}/outputs": np.asarray(apply_fn(params, X))}
        arrays |= {
            f"{name}/full": np.asarray(full(X, None, params)),
            f"{name}/trace": np.asarray(trace(X, None, params)),
        }
    np.savez_compressed(FOLDER / "neural_tangents_finite.npz", **arrays)
    described = {name: layers for name, (_, layers) in networks.items()}
    lines = ",\n".join(f' "{name}": {json.dumps(layers)}' for name, layers in described.items())
    (FOLDER / "neural_tangents_finite.json").write_text(f"{{\n{lines}\n}}\n")
    print({name: (array.shape, str(array.dtype)) for name, array in arrays.items()})


def wide(layer: list, channels: int) -> list:
    """A convolution with its number of channels."""
    return [layer[0], {**layer[1], "out_chan": channels}]


if __name__ == "__main__":
    main()
