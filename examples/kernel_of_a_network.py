"""How far is a finite network from its infinitely wide limit? One set of layers gives both kernels.

Prints, for growing widths, the distance of the tangent kernel at random weights from the kernel of infinite width, which
falls like 1/√width. Then leave-one-out errors of several kernels on the same rows.
"""

import numpy as np

import overparam as op
from overparam.layers import Relu
from overparam.layers.standard import dense

data = op.load("digits", classes=(3, 8), train=60)
X = data.X / np.linalg.norm(data.X, axis=1, keepdims=True)

print("width   distance of the finite kernel, relative, over 4 draws")
for width in (16, 64, 256):
    net = op.networks.Sequence([dense(width, 2**0.5), Relu(), dense(width, 2**0.5), Relu(), dense(1)])
    limit = net.kernel()(X)
    draws = (op.kernels.Empirical(net, net.init(key, X.shape[1]))(X) for key in range(4))
    square = np.mean([np.linalg.norm(finite - limit) ** 2 for finite in draws])
    print(f"{width:5d}   {np.sqrt(square) / np.linalg.norm(limit):.1%}")

print("\nkernel                leave-one-out error")
for name, kernel in (
    ("two layers", op.kernels.TwoLayer()),
    ("five ReLU layers", op.kernels.FullyConnected(depth=5)),
    ("convolutional, pooled", op.kernels.Convolutional(depth=2, image=(8, 8, 1))),
    ("Laplace", op.kernels.Laplace(op.kernels.median_distance(X))),
):
    print(f"{name:21s} {op.leave_one_out(op.gram(kernel, X), data.y, ridge='auto').error:.1%}")
