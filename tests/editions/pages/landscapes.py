# ruff: noqa
# The Python blocks of docs/landscapes.md, as the first edition had them.
import overparam as op

data = op.load("digits", train=60)
found = op.landscape(op.networks.FullyConnected(width=32, depth=2, outputs=10), data, points=5, oja_steps=20)
print(found.verdict.sentences[0])
