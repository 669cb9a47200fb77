# ruff: noqa
# The Python blocks of docs/training.md, as the first edition had them.
import overparam as op

data = op.data.split(op.load("breast-cancer"), 0.2, seed=0)
found = op.train_and_compare(data, op.networks.TwoLayer(1000, kappa=1.0, paired=True), steps=50)
print(found)  # the verdict
print(found.numbers.largest_error, found.numbers.regime)
found.predicted.values, found.predicted.lower, found.predicted.upper  # known before the first step
found.loss, found.relative_error, found.laziness  # observed at found.steps
found.run.params  # the trained weights
found.save("compared")
assert op.read("compared").numbers == found.numbers

import jax.numpy as jnp
import numpy as np

random = np.random.default_rng(0)
params = {"a": random.normal(size=(30, 20)) / 30**0.5, "b": random.normal(size=20)}
own = op.train_and_compare(
    op.data.standardise(data), lambda w, x: jnp.tanh(x @ w["a"]) @ w["b"], params=params, steps=20, preprocess="none"
)
print(own.verdict.sentences[0])

net = op.networks.TwoLayer(500, paired=True)
ready = op.data.preprocess(data)
run = op.training.gradient_descent(net, ready, lr=1e-3, steps=100, key=0, record=20)
print(run.steps, run.loss, run.total_movement)
assert run.loss[-1] < run.loss[0]

swept = op.training.sweep(net, ready, lr=[1e-4, 1e-3], steps=50, keys=[0, 1])
for rate, decay, mean, error in swept.over_seeds("test_loss"):
    print(f"rate {rate:g}: test loss {mean:.4f} ± {error:.4f}")
