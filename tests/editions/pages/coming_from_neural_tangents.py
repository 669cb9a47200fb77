# ruff: noqa
# The Python blocks of docs/coming_from_neural_tangents.md, as the first edition had them.
import numpy as np
import overparam as op
from overparam.layers import Erf
from overparam.layers.standard import dense

x = np.linspace(-2, 2, 12).reshape(6, 2)
X = np.hstack([x, np.sin(3 * x)])
y = np.cos(X[:, 0])
X_new = X[:2] + 0.1

net = op.networks.Sequence(
    [
        dense(512, W_std=1.5, b_std=0.05),
        Erf(),
        dense(512, W_std=1.5, b_std=0.05),
        Erf(),
        dense(1, W_std=1.5, b_std=0.05),
    ]
)
kernel = net.kernel()
H = op.gram(kernel, X)  # half of the pairs; op.gram(kernel, X, "matrix_free") stores nothing of size n²
K = kernel(X_new, X)

ridge = 1e-4 * H.diagonal().mean()
op.predict(H, y, K, ridge=ridge).values  # [-0.38618564, 0.29475979]
op.predict(H, y, K, steps=200, lr=0.01, ridge=ridge, loss="mean").values  # [-0.2779, 0.0915], 200 real steps
op.max_learning_rate(H, loss="mean").value  # 0.7775370827

params = net.init(0, inputs=4)
op.kernels.Empirical(net, params)(X)  # other random weights, so other numbers, by 1/√512

quick = op.kernels.FullyConnected(depth=2, W_std=1.5, b_std=0.05, activation="erf")
assert np.allclose(quick(X), H.dense(), rtol=1e-12)
