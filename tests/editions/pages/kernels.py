# ruff: noqa
# The Python blocks of docs/kernels.md, as the first edition had them.
import numpy as np
import overparam as op

data = op.load("digits", classes=(3, 8), train=60)
X, y, Z = data.X, data.y, data.X[:5]
kernel = op.kernels.FullyConnected(depth=3)
K = kernel(X, Z)  # a plain matrix, float64
H = op.gram(kernel, X)  # panels, near-parallel rows repaired, on the CPU or an accelerator
op.leave_one_out(H, y, ridge="auto")  # works with every kernel below

from overparam.layers import Relu
from overparam.layers.standard import avg_pool, conv, dense, global_avg_pool, sum_of

block = sum_of([], [Relu(), conv(64, 3, padding="SAME")])  # h + conv(relu(h))
net = op.networks.Sequence(
    [conv(64, 3, padding="SAME"), block, avg_pool(2, strides=2), Relu(), conv(64, 3), global_avg_pool(), dense(10)],
    image=(8, 8, 1),
)
net.kernel()(X, get="nngp")  # infinite width, position by position, exact
params = net.init(0, inputs=64)
net.apply(params, X)  # and 64 channels

import jax.numpy as jnp

frozen, last = np.ones((64, 16)) / 8, np.ones(16)
kernel = op.kernels.Empirical(lambda last, x: jnp.tanh(x @ frozen) @ last, last)  # the last layer alone
kernel(X[:3])

k = 0.5 * op.kernels.TwoLayer() + op.kernels.Laplace(2.0) * op.kernels.Polynomial(2, constant=1.0)
k = (op.kernels.Gaussian(1.0) + 0.1) ** 2  # a number adds a constant feature
k = op.kernels.normalised(op.kernels.TwoLayer())  # k(x, z)/√(k(x, x) k(z, z))

s = op.kernels.spectrum_on_sphere(op.kernels.TwoLayer(), dimension=10, degrees=20)
s.eigenvalues  # λ_0 … λ_20 for x uniform on the unit sphere
s.multiplicities  # how many harmonics a degree has, exact
s.shares  # N_l λ_l / k(x, x): they sum to 1
s.left_out  # what is in higher degrees; s.largest_left_out bounds their eigenvalues
c = op.kernels.spectrum_on_cube(op.kernels.Gaussian(1.0), dimension=64)  # all 65 degrees
s = op.kernels.spectrum_on_sphere(np.exp, dimension=64)  # or a function of the cosine
