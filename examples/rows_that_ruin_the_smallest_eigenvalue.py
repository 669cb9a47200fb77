"""Find the rows that hold the smallest eigenvalue down, and see what leaving them out does.

    python examples/rows_that_ruin_the_smallest_eigenvalue.py

Two rows that point in nearly the same (or opposite) direction make H nearly singular: the complexity grows, and
every statement that asks for λ_min > 0 weakens. The bound from separation names the closest pair.
"""

import numpy as np

import overparam as op


def main() -> tuple[float, float]:
    data = op.data.preprocess(op.load("digits", train=600), "unit")
    X = np.vstack([data.X, data.X[17] + 1e-4 * np.random.default_rng(0).standard_normal(data.d)])
    kept = np.arange(len(X))
    bounds = []
    print(" rows   λ_min ≥      closest pair     cosine")
    for _ in range(4):
        found = op.eigenvalue_bounds(op.gram(op.kernels.TwoLayer(), X[kept]), "separation")
        bounds.append(found.lower)
        if found.closest is None or found.closest_cosine is None:
            break
        i, j = (int(kept[place]) for place in found.closest)
        print(f"{len(kept):5d}  {found.lower:9.6f}  rows {i:4d}, {j:4d}  {found.closest_cosine:9.6f}")
        kept = kept[kept != max(i, j)]  # the later one of the two goes
    return bounds[0], max(bounds)


if __name__ == "__main__":
    first, best = main()
    assert first < best
