"""Tiny networks for the laws away from the start, and the same networks written out in NumPy."""

import jax
import numpy as np

from overparam.audits.subject import Effort, Subject
from overparam.networks import FullyConnected

TINY = Effort("quick", 99, 20, 8, 2, 8, 2, 3, 100)
RADII = (0.01, 0.1, 0.5)


def unit_rows(n, d, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def subject_of(net, X, omegas=RADII, effort=TINY, y=None, key=0):
    """A subject whose weights NumPy drew with the network's own variances: JAX would compile a program a shape."""
    shapes = jax.eval_shape(lambda: net.init(0, X.shape[1]))
    rng = np.random.default_rng(key + 10)
    params = jax.tree.map(lambda leaf: rng.standard_normal(leaf.shape), shapes)
    scaled = dict.fromkeys(("A", *(f"W{l}" for l in range(1, 20))), (2 / net.width) ** 0.5)
    scaled["B"] = getattr(net, "outputs", 1) ** -0.5
    params = jax.tree_util.tree_map_with_path(
        lambda path, leaf: leaf * scaled.get(jax.tree_util.keystr(path[-1:], simple=True), 1.0), params
    )
    if y is None:
        y = np.random.default_rng(3).standard_normal((len(X), getattr(net, "outputs", 1)))
    return Subject(net, params, X, y, tuple(omegas), effort=effort)


def deep(n=4, width=8, depth=4, outputs=2, **more):
    return subject_of(FullyConnected(width=width, depth=depth, outputs=outputs), unit_rows(n, 3), **more)


def by_hand(subject, weights, x):
    """g_0 … g_L, h_0 … h_L, the D_ℓ and the output of one sample, and the matrices A, W_1 … W_L, B."""
    A, B = (np.asarray(subject.params.fixed[name]) for name in "AB")
    W = [weights[f"W{l}"] for l in range(1, subject.depth + 1)]
    g, h = [A @ x], [np.maximum(A @ x, 0)]
    for matrix in W:
        g.append(matrix @ h[-1])
        h.append(np.maximum(g[-1], 0))
    return g, h, [np.diag((v >= 0) * 1.0) for v in g], B @ h[-1], (A, W, B)


def moved(subject, omega, seed=5):
    """Weights at a random perturbation drawn here."""
    rng = np.random.default_rng(seed)
    change = {name: rng.standard_normal(W.shape) for name, W in subject.weights.items()}
    return {name: W + omega * change[name] / np.linalg.norm(change[name], 2) for name, W in subject.weights.items()}


def outputs_of(subject, jnp):
    """The outputs (n, k) as a function of the trained weights, in JAX written out by hand."""
    A, B = (np.asarray(subject.params.fixed[name]) for name in "AB")

    def value(weights):
        h = jnp.maximum(jnp.asarray(subject.X) @ A.T, 0)
        for l in range(1, subject.depth + 1):
            h = jnp.maximum(h @ weights[f"W{l}"].T, 0)
        return h @ B.T

    return value


def jacobian(subject, weights):
    """(n, k) of dicts as one array (n, k, all weights), by JAX on the network written out."""
    import jax.numpy as jnp

    with jax.enable_x64(True):
        found = jax.jit(jax.jacrev(outputs_of(subject, jnp)))(dict(weights))
        parts = [np.asarray(found[name]).reshape(subject.samples, subject.outputs, -1) for name in subject.weights]
    return np.concatenate(parts, axis=2)


def flat(weights, subject):
    return np.concatenate([np.ravel(weights[name]) for name in subject.weights])
