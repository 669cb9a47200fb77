"""Train the same network from two initialisation scales, and see which run could be predicted.

    python examples/train_and_compare.py

Every prediction is made before the first step. The run from large weights is lazy and follows it; the run from small
weights leaves the regime of the theory, which the laziness number says beforehand.
"""

import overparam as op

WIDTH, STEPS = 1000, 100


def main() -> tuple[float, float]:
    data = op.data.split(op.load("breast-cancer"), 0.2, key=0)
    errors = []
    for kappa in (1.0, 0.01):
        network = op.networks.TwoLayer(WIDTH, kappa, paired=True)
        found = op.train_and_compare(network, data, steps=STEPS)
        seen = found.numbers
        print(f"initial weights of standard deviation {kappa:g}")
        print(f"  laziness       predicted {seen.predicted_laziness:8.3f}   observed {seen.laziness:8.3f}")
        print(f"  signs flipped  predicted {seen.predicted_flips:8.2%}   observed {seen.flips:8.2%}")
        print(f"  last loss      predicted {seen.predicted_last_loss:8.3f}   observed {seen.last_loss:8.3f}")
        print(f"  test error     predicted {seen.predicted_test_error:8.2%}   observed {seen.test_error:8.2%}")
        print(f"  largest error of the predicted loss: {seen.largest_error:+.1%}")
        print(f"  {found.verdict.sentences[0]}")
        errors.append(abs(seen.largest_error))
    return errors[0], errors[1]


if __name__ == "__main__":
    lazy, not_lazy = main()
    assert lazy < 0.1 < not_lazy
