"""A hundred images from which kernel regression learns digits, found by gradients through the kernel.

python examples/distilled_digits.py [mnist [STEPS]]: of scikit-learn's digits, or of MNIST. It starts from ten images a class.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

import overparam as op

name = sys.argv[1] if len(sys.argv) > 1 else "digits"
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 100
data = op.load(name, train=1400 if name == "digits" else 10_000, test=300 if name == "digits" else 2_000)
X, y, Z = (jnp.asarray(part, jnp.float32) for part in (data.X, data.y, data.test.X))
scale = jnp.sqrt(jnp.mean(jnp.sum(X * X, axis=1)))
X, Z = X / scale, Z / scale
kernel = op.kernels.FullyConnected(depth=1, b_std=0.1)

first = np.concatenate([np.flatnonzero(np.argmax(np.asarray(y), axis=1) == digit)[:10] for digit in range(10)])
images, targets = X[first], y[first]


def predicted(images, Z):
    K = kernel.jax(images)
    ridge = 1e-3 * jnp.trace(K) / len(K)
    return kernel.jax(Z, images) @ jnp.linalg.solve(K + ridge * jnp.eye(len(K)), targets)


def right(images):
    found = jnp.argmax(jax.jit(predicted)(images, Z), axis=1)
    return float(jnp.mean(found == jnp.argmax(jnp.asarray(data.test.y), axis=1)))


optimizer = optax.adam(5e-3)


@jax.jit
def step(images, state, rows):
    error = jax.grad(lambda images: jnp.mean((predicted(images, X[rows]) - y[rows]) ** 2))(images)
    updates, state = optimizer.update(error, state)
    return optax.apply_updates(images, updates), state


print(f"{len(images)} images as they are: {right(images):.1%} of {len(Z)} new digits right")
state, draws = optimizer.init(images), np.random.default_rng(0)
for _ in range(steps):
    images, state = step(images, state, draws.choice(len(X), 500, replace=False))
print(f"{len(images)} images after {steps} steps: {right(images):.1%}")
