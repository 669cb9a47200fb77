"""Small functions of (params, x) of every kind the tangent kernel has to take, and its definition by a whole Jacobian."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree


def by_jacobian(apply: Callable[[Any, Any], Any], params: Any, X: np.ndarray) -> np.ndarray:
    """(n, n, k, k) from ∂f/∂(all weights) of the batch, with `jax.jacrev` alone."""
    with jax.enable_x64(True):
        flat, back = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), params))

        J = jax.jit(jax.jacrev(lambda w: apply(back(w), jnp.asarray(X))))(flat)
        J = np.asarray(J).reshape(len(X), -1, flat.size)
    return np.einsum("iap,jbp->ijab", J, J)


def draw(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) / np.sqrt(shape[0] if len(shape) > 1 else 1.0) for shape in shapes]


def mlp(params, x):
    (W1, b1), (W2, b2), (W3, b3) = params
    x = jax.nn.relu(x @ W1 + b1)
    x = jnp.tanh(x @ W2 + b2)
    return x @ W3 + b3


def scaled(params, x):
    """Fan-in scaling as in the NTK parameterisation, weights transposed, one output without an axis."""
    W, b, v = params
    h = jax.nn.gelu(x @ W.T * (1.5 / x.shape[-1] ** 0.5) + 0.1 * b)
    return (h @ (v / 2.0)) * 0.25


def convolution(x, W, strides, padding, **more):
    return jax.lax.conv_general_dilated(
        x, W, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest", **more
    )


def cnn(params, x):
    W1, b1, W2, W3, b3 = params
    x = jax.nn.relu(convolution(x, W1, (1, 1), "SAME") + b1)
    x = jax.nn.relu(convolution(x, W2, (2, 2), "SAME", rhs_dilation=(1, 2)))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.reshape(len(x), -1) @ W3 + b3


def grouped(params, x):
    """Depthwise, then pointwise, channels first, transposed by a gap in the input, pooled."""
    W1, b1, W2, W3 = params
    kinds = ("NCHW", "OIHW", "NCHW")
    x = jax.lax.conv_general_dilated(x, W1, (1, 1), "VALID", dimension_numbers=kinds, feature_group_count=2)
    x = jnp.tanh(x + b1[:, None, None])
    x = jax.lax.conv_general_dilated(x, W2, (1, 1), ((1, 0), (0, 1)), lhs_dilation=(2, 1), dimension_numbers=kinds)
    return jnp.tanh(x).mean(axis=(2, 3)) @ W3


def tied(params, x):
    """One matrix and one bias twice, another as it is and transposed, one inside and outside of a norm."""
    W, b, V, u = params
    x = jnp.tanh(x @ W + b)
    x = jnp.tanh(x @ W + b)
    h = jnp.tanh(x @ V)
    return jnp.tanh(h @ V.T) @ u / jnp.sqrt(1 + jnp.sum(u**2))


def embedding(params, tokens):
    table, W, b = params
    x = jnp.take(table, tokens, axis=0)
    return jnp.tanh(x @ W + b).sum(axis=1)


def embedding_by_index(params, tokens):
    table, W, b = params
    x = jax.vmap(jax.vmap(lambda token: table[token]))(tokens)
    return jnp.tanh(x @ W + b).sum(axis=1)


def batch_norm(params, x):
    W, scale, shift, V = params
    mean, variance = jnp.array([0.1, -0.2, 0.3, 0.0, 0.2]), jnp.array([1.0, 2.0, 0.5, 1.5, 1.0])
    h = (x @ W - mean) / jnp.sqrt(variance + 1e-5) * scale + shift
    return jax.nn.relu(h) @ V


def layer_norm(params, x):
    W, scale, shift, V = params
    h = x @ W
    h = (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-6)
    return jax.nn.relu(h * scale + shift) @ V


def residual(params, x):
    A, W1, W2, B = params
    h = jax.nn.relu(x @ A)
    h = h + 0.3 * jax.nn.relu(h @ W1)
    h = h + jax.checkpoint(lambda h: jax.nn.relu(h @ W2))(h)
    return h @ B


def scanned(params, x):
    """A recurrent network: its weights go through a scan."""
    W, U, v = params

    def step(h, token):
        return jnp.tanh(h @ W + token[:, None] * U), None

    h, _ = jax.lax.scan(step, jnp.zeros((len(x), len(U))), x.T)
    return h @ v


def attention(params, x):
    """Two heads over positions; weights with three axes, and products that group."""
    Q, K, V, out = params
    q, k, v = (jnp.einsum("npd,dhe->nphe", x, W) for W in (Q, K, V))
    weights = jax.nn.softmax(jnp.einsum("nphe,nqhe->nhpq", q, k), axis=-1)
    mixed = jnp.einsum("nhpq,nqhe->nphe", weights, v)
    return jnp.einsum("nphe,heo->no", mixed, out)


def local(params, x):
    """Every position its own weights, and one number added to all units of a position: no bias of the units."""
    W, b, v = params
    h = jnp.einsum("npd,pdu->npu", x, W) + b[:, None]
    return jnp.tanh(h).sum(axis=1) @ v


def shared_bias(params, x):
    """A bias whose layer is also used without it, one added to two layers, and one for half the units."""
    W, V, b, c, u = params
    g = x @ W
    h = jnp.tanh(g + b) * g
    h = jnp.tanh(h @ V + b)
    return jnp.tanh(h @ V + jnp.concatenate([c, c])) @ u


def sharing(params, x):
    """Sums, products, powers and slices of weights."""
    W, V, g = params
    return jnp.tanh(x @ (W @ V[:, :-1])) @ V[:3, -1] * jnp.exp(g) + (x**2).sum(1) * g


@dataclass(frozen=True)
class Case:
    apply: Callable[[Any, Any], Any]
    params: Any
    X: np.ndarray
    Z: np.ndarray
    kinds: tuple[str, ...]
    """How its weight arrays are to be used, bias after the plus; "whole" where gradients are taken."""


def cases() -> dict[str, Case]:
    rng = np.random.default_rng(0)
    rows, other = rng.standard_normal((5, 4)), rng.standard_normal((5, 4))
    square, square_other = rng.standard_normal((5, 5)), rng.standard_normal((5, 5))
    images, image_other = rng.standard_normal((4, 6, 5, 2)), rng.standard_normal((4, 6, 5, 2))
    channels, channel_other = images.transpose(0, 3, 1, 2).copy(), image_other.transpose(0, 3, 1, 2).copy()
    words, more_words = rng.integers(0, 6, (5, 4)), rng.integers(0, 6, (5, 4))
    places, more_places = rng.standard_normal((4, 3, 4)), rng.standard_normal((4, 3, 4))
    pairs = [tuple(draw(i, shape, shape[1:])) for i, shape in enumerate([(4, 6), (6, 5), (5, 3)])]
    text = draw(7, (6, 3), (3, 4), (4,))
    dense, both = "dense", "dense+bias"
    return {
        "mlp": Case(mlp, pairs, rows, other, (both, both, both)),
        "scaled": Case(scaled, draw(1, (6, 4), (6,), (6,)), rows, other, (both, dense)),
        "jitted": Case(jax.jit(mlp), pairs, rows, other, (both, both, both)),
        "cnn": Case(
            cnn,
            draw(2, (3, 2, 2, 3), (3,), (2, 2, 3, 4), (4, 3), (3,)),
            images,
            image_other,
            ("convolution+bias", "convolution", both),
        ),
        "grouped": Case(
            grouped,
            draw(3, (4, 1, 2, 3), (4,), (3, 4, 2, 2), (3, 2)),
            channels,
            channel_other,
            ("convolution+bias", "convolution", dense),
        ),
        "tied": Case(tied, draw(4, (5, 5), (5,), (5, 3), (5,)), square, square_other, ("dense+bias", "whole", "whole")),
        "embedding": Case(embedding, text, words, more_words, ("lookup", both)),
        "embedding by index": Case(embedding_by_index, text, words, more_words, ("lookup", both)),
        "batch norm": Case(
            batch_norm, draw(5, (4, 5), (5,), (5,), (5, 2)), rows, other, (dense, dense, "whole", "whole")
        ),
        "layer norm": Case(
            layer_norm, draw(6, (4, 5), (5,), (5,), (5, 2)), rows, other, (dense, dense, "whole", "whole")
        ),
        "residual": Case(residual, draw(8, (4, 5), (5, 5), (5, 5), (5, 2)), rows, other, (dense,) * 4),
        "scan": Case(scanned, draw(9, (3, 3), (3,), (3, 2)), rows, other, (dense, "whole", "whole")),
        "attention": Case(
            attention, draw(10, (4, 2, 3), (4, 2, 3), (4, 2, 3), (2, 3, 2)), places, more_places, (dense,) * 4
        ),
        "local": Case(local, draw(11, (3, 4, 2), (3,), (2, 2)), places, more_places, (dense, dense, "whole")),
        "shared bias": Case(
            shared_bias,
            draw(12, (4, 4), (4, 4), (4,), (2,), (4, 2)),
            rows,
            other,
            (dense, dense, dense, "whole", "whole"),
        ),
        "sharing": Case(sharing, [*draw(13, (4, 3), (3, 4)), np.array(0.3)], rows, other, ("whole",) * 3),
    }


CASES = cases()
