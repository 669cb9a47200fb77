"""Predict the loss curve of a wide network, then train the network with NumPy and compare.

    python examples/predict_a_curve.py

The data are the digits 0 and 1 of scikit-learn. The network is f(x) = (1/√m) Σ_r a_r relu(w_r·x) with the a_r
fixed at ±1. Each neuron is drawn twice with opposite a_r, so the network starts at 0 on every row.
"""

import numpy as np

import overparam as op

WIDTH, KAPPA, STEPS = 4000, 1.0, 100


def train(X: np.ndarray, y: np.ndarray, lr: float, steps: int, seed: int = 0) -> np.ndarray:
    """The summed loss ½ Σ (y − f)² before every step and after the last one, by plain gradient descent."""
    random = np.random.default_rng(seed)
    half = KAPPA * random.standard_normal((WIDTH // 2, X.shape[1]))
    W = np.vstack([half, half])
    a = np.repeat([1.0, -1.0], WIDTH // 2) / np.sqrt(WIDTH)
    losses = []
    for _ in range(steps + 1):
        before = X @ W.T
        residual = y - np.maximum(before, 0) @ a
        losses.append(0.5 * float(residual @ residual))
        W += lr * ((before > 0) * a * residual[:, None]).T @ X
    return np.array(losses)


def main() -> float:
    data = op.data.preprocess(op.load("digits", classes=[0, 1]), "unit")
    H = op.gram(op.kernels.TwoLayer(), data.X)
    q = op.quadrature(H, data.y)
    lr = op.max_learning_rate(q).lower / 4
    shown = np.array([0, 1, 2, 5, 10, 20, 50, STEPS])

    curve = op.predict_loss(q, shown, lr)
    observed = train(data.X, data.y, lr, STEPS)[shown]
    print(f"{data.n} rows, rate {lr:.3g}, width {WIDTH}, {q.products} products with H")
    print(f"laziness at the end of the curve: {op.laziness(q, STEPS, lr, width=WIDTH, kappa=KAPPA).value:.3f}")
    print(" step   predicted    bracket width    observed")
    for step, value, low, high, seen in zip(shown, curve.values, curve.lower, curve.upper, observed, strict=True):
        print(f"{step:5d}  {value:10.5f}  {high - low:15.1e}  {seen:10.5f}")
    error = float(np.max(np.abs(curve.values - observed)) / curve.initial)
    print(f"largest difference: {100 * error:.2f}% of the first loss")
    return error


if __name__ == "__main__":
    assert main() < 0.03
