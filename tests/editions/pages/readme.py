# ruff: noqa
# The Python blocks of README.md, as the first edition had them.
import overparam as op

data = op.data.unit_rows(op.load("digits"))
H = op.gram(op.kernels.TwoLayer(), data.X)  # dense or matrix-free, CPU or GPU, whichever fits
q = op.quadrature(H, data.y)  # one Krylov sweep
op.label_complexity(q)  # √(2yᵀH⁻¹y/n) with lower and upper
op.predict_loss(q, steps=[0, 10, 1000], lr=1e-3)  # the training loss, before training
op.max_learning_rate(H)  # 2/λ_max
op.leave_one_out(H, data.y)  # exact, in closed form

result = op.analyze("wine")  # all of it
print(result.verdict.sentences[0])

import overparam as op
from overparam.layers import Flatten, Relu
from overparam.layers.standard import conv, dense

X = op.load("digits").X[:20]
op.kernels.FullyConnected(depth=3, b_std=0.1, activation="gelu")(X)  # infinitely wide, float64
op.kernels.Convolutional(depth=3, head="pool", image=(8, 8, 1))(X)
layers = [conv(64, 3, padding="SAME"), Relu(), Flatten(), dense(1)]
net = op.networks.Sequence(layers, image=(8, 8, 1))
net.kernel()(X)  # its kernel of infinite width
op.kernels.Empirical(net, net.init(0, 64))(X)  # and of this draw: one set of layers gives both
