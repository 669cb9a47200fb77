"""Which widths and initialisation scales keep a run where its prediction may be trusted.

    python examples/which_width_is_lazy.py

Laziness is how far a neuron moves over the standard deviation of its pre-activation. Up to about 0.1 the network
stays near its linearisation; from about 1 on it does not, and the predicted curve is no longer that of the network.
"""

import overparam as op

TARGET = 0.1


def main() -> None:
    data = op.data.preprocess(op.load("digits", classes=[0, 1]), "unit")
    q = op.quadrature(op.gram(op.kernels.TwoLayer(), data.X), data.y)
    lr, steps = op.max_learning_rate(q).lower / 2, 1000
    print(f"after {steps} steps at rate {lr:.3g}:")
    print("  width   kappa   laziness   signs flipped   regime")
    for width in (1_000, 10_000, 100_000):
        for kappa in (0.01, 0.1, 1.0):
            run = op.laziness(q, steps, lr, width=width, kappa=kappa)
            print(f"{width:7,d}  {kappa:6g}  {run.value:9.3f}  {100 * run.flips:13.2f}%   {run.regime}")
    needed = op.width_for_laziness(q, steps, lr, kappa=1.0, target=TARGET)
    print(f"a laziness of {TARGET:g} at kappa = 1 needs width {needed.value:,}")
    assert op.laziness(q, steps, lr, width=int(needed.value), kappa=1.0).regime == "lazy"


if __name__ == "__main__":
    main()
