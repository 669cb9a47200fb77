"""Finite networks of the layers whose kernels are limits, at three widths: is the limit the kernel?

python benchmarks/layer_limits.py                 every network, ten minutes of one core; a finished one is not run again
python benchmarks/layer_limits.py --only attention

Networks are drawn until the mean tangent kernel has a standard error of at most 1% of the diagonal. Its deviation from the kernel is
fitted by a + c/width, each width by its standard error; "limit" is how far a is from 0 in its standard errors: at most 4 where the
kernel is right.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import jax
import numpy as np
from record import RESULTS, processor, save

import overparam as op
from overparam.layers import Elementwise, Flatten, Gabor, Gaussian, LayerNorm, RectifiedMonomial, Relu, Sign
from overparam.layers.composition import Composition
from overparam.layers.standard import attention, concatenated, conv, dense, dropout, global_avg_pool, sliced

WIDTHS = (32, 64, 128)
HEAD = (Relu(), global_avg_pool(), dense(1, 1.3))


def _conv(width: int, patch: Any = 1, strides: Any = 1, **options: Any) -> Any:
    return conv(width, patch, strides, options.pop("padding", "SAME"), 1.3, 0.4, **options)


def networks() -> dict[str, Any]:
    """name: (layers of a width, whether in training, whether masked)."""
    return {
        "transposed, SAME": (lambda w: [_conv(w, 3, 2, transposed=True), Relu(), _conv(w, 2), *HEAD], False, False),
        "transposed, CIRCULAR": (
            lambda w: [_conv(w, 3, 2, transposed=True, padding="CIRCULAR"), Relu(), _conv(w, 2), *HEAD],
            False,
            False,
        ),
        "slice": (lambda w: [_conv(w, 2), Relu(), sliced(slice(None, None, 2)), _conv(w, 2), *HEAD], False, False),
        "positions side by side": (
            lambda w: [concatenated([_conv(w, 2)], [_conv(w, 3)], axis=0), Relu(), _conv(w, 2), *HEAD],
            False,
            False,
        ),
        "dropout in training": (lambda w: [_conv(w, 2), Relu(), dropout(0.6), _conv(w, 2), *HEAD], True, False),
        "masks and a layer norm": (lambda w: [_conv(w, 3), LayerNorm((0,)), Relu(), _conv(w, 2), *HEAD], False, True),
        "masks, flattened": (
            lambda w: [_conv(w, 3), Relu(), _conv(w, 2), Relu(), Flatten(), dense(1, 1.3)],
            False,
            True,
        ),
        "attention, softmax, embeddings added": (
            lambda w: [_conv(w), attention(w, w, 4, w, 0.4, position="sum", decay=lambda d: 1 / (1 + d)), *HEAD],
            False,
            True,
        ),
        "attention, softmax, embeddings beside, values too": (
            lambda w: [_conv(w), attention(w, w, 4, w, 0.4, position="concatenate", position_in_values=True), *HEAD],
            False,
            True,
        ),
        "attention, ReLU": (lambda w: [_conv(w), attention(w, w, 4, w, 0.4, mechanism="relu"), *HEAD], False, True),
        "attention, products over a root": (
            lambda w: [_conv(w), attention(w, w, 4, w, 0.4, scaling="root", mechanism="identity"), *HEAD],
            False,
            True,
        ),
        "3-D, CIRCULAR": (lambda w: [_conv(w, 2, padding="CIRCULAR"), Relu(), _conv(w, 2, 2), *HEAD], False, False),
        **{
            name: (lambda w, each=each: [_conv(w, 2), each, _conv(w, 2), *HEAD], False, False)
            for name, each in (
                ("Gaussian", Gaussian()),
                ("Gabor", Gabor()),
                ("Sign", Sign()),
                ("RectifiedMonomial, 2", RectifiedMonomial(2)),
                ("Elementwise, tanh", Elementwise(jax.numpy.tanh)),
                ("Elementwise, the second Hermite polynomial", Elementwise(lambda x: (x**2 - 1) / 2**0.5, 4)),
            )
        },
    }


def inputs(masked: bool, positions: tuple[int, ...]) -> np.ndarray:
    """Two samples of two channels; where masked, the end of one and a single number of the other."""
    X = np.random.default_rng(0).standard_normal((2, *positions, 2)).astype(np.float32)
    if masked:
        X[0, 3], X[1, 1, 0] = 9.0, 9.0
    return X


def sampled(layers: list[Any], X: np.ndarray, training: bool, masked: bool, draws: int, seed: int) -> np.ndarray:
    """⟨∇f(x), ∇f(z)⟩ of many draws, (draws, n, n)."""
    composition: Composition = op.networks.Sequence(layers, masked=9.0 if masked else None).composition_of(X.shape[1:])

    def one(key: Any) -> Any:
        trained, fixed, running = composition.draw(key)

        def f(weights: Any) -> Any:
            every = {**weights, **fixed, **running}
            return composition.apply_train(every, X)[0] if training else composition.apply(every, X)

        rows = [each.reshape(len(X), -1) for each in jax.tree.leaves(jax.jacrev(f)(trained))]
        return sum(J @ J.T for J in rows)

    keys = jax.random.split(jax.random.PRNGKey(seed), draws)
    return np.asarray(jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=10))(keys), np.float64)


def row(name: str, make: Any, training: bool, masked: bool) -> dict[str, Any]:
    """Means at every width, and what they say of an infinite one."""
    X = inputs(masked, (2, 2, 3) if name.startswith("3-D") else (4,))
    kernel = op.kernels.Composed(make(1), masked=9.0 if masked else None)(X)
    scale = np.sqrt(np.outer(np.diag(kernel), np.diag(kernel)))
    means, errors, draws = [], [], []
    for width in WIDTHS:
        values = sampled(make(width), X, training, masked, 400, width)
        while len(values) < 20000:
            error = values.std(axis=0, ddof=1) / len(values) ** 0.5
            if np.all(error <= 0.01 * scale):
                break
            values = np.concatenate([values, sampled(make(width), X, training, masked, 400, width + len(values))])
        means.append(values.mean(axis=0) - kernel)
        errors.append(values.std(axis=0, ddof=1) / len(values) ** 0.5)
        draws.append(len(values))
    design = np.stack([np.ones(len(WIDTHS)), 1 / np.array(WIDTHS)], axis=1)
    limits, slopes, sizes = (np.empty(kernel.shape) for _ in range(3))
    for place in np.ndindex(*kernel.shape):
        weights = 1 / np.array([error[place] for error in errors])
        covariance = np.linalg.inv((design * weights[:, None]).T @ (design * weights[:, None]))
        solution = covariance @ (design * (weights**2)[:, None]).T @ np.array([mean[place] for mean in means])
        limits[place], slopes[place], sizes[place] = solution[0], solution[1], covariance[0, 0] ** 0.5
    return {
        "network": name,
        "widths": WIDTHS,
        "draws": draws,
        "standard errors": [round(float(np.max(error / scale)), 4) for error in errors],
        "deviations": [round(float(np.max(np.abs(mean) / scale)), 4) for mean in means],
        "bias times width": round(float(np.max(np.abs(slopes / scale))), 2),
        "limit": round(float(np.max(np.abs(limits) / sizes)), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of a name")
    given = parser.parse_args()
    where = RESULTS / "layer_limits.json"

    def known() -> list[dict[str, Any]]:
        return json.loads(where.read_text(encoding="utf-8"))["rows"] if where.exists() else []

    for name, (make, training, masked) in networks().items():
        if given.only in name and not any(one["network"] == name for one in known()):
            found = row(name, make, training, masked)
            rows = [*known(), found]  # others may have been found meanwhile
            save("layer_limits", processor(), rows, "Tangent kernels; see benchmarks/layer_limits.py.")


if __name__ == "__main__":
    main()
