"""The certified complexity of the labels of your own table, beside that of random labels.

    python examples/complexity_of_a_table.py [TABLE.csv]

Without a table it writes one of scikit-learn's (breast cancer) to a temporary folder and reads that. The label is
the last column; `op.load(..., label="name")` takes another.
"""

import sys
import tempfile
from pathlib import Path

import overparam as op


def a_table(folder: str) -> Path:
    """scikit-learn's breast cancer table as a .csv file."""
    from sklearn.datasets import load_breast_cancer

    source = load_breast_cancer()
    path = Path(folder) / "breast_cancer.csv"
    lines = [",".join([*(name.replace(" ", "_") for name in source.feature_names), "label"])]
    for row, label in zip(source.data, source.target_names[source.target], strict=True):
        lines.append(",".join([*(f"{value:.17g}" for value in row), label]))
    path.write_text("\n".join(lines) + "\n")
    return path


def main(path: Path) -> tuple[float, float]:
    data = op.data.preprocess(op.load(path))  # standardised, divided by √d, a constant appended
    print(data)
    H = op.gram(op.kernels.TwoLayer(), data.X)
    q = op.quadrature(H, data.y)
    raw = op.label_complexity(q)
    ridged = op.label_complexity(q, ridge=0.1 * q.mean_diagonal)
    random = op.random_label_complexity(H, 10, key=0, like=data.y, bounds=q.bounds)
    left_out = op.leave_one_out(H, data.y)
    print(f"complexity         {raw.value:.6f}, surely between {raw.lower:.6f} and {raw.upper:.6f}")
    print(f"with a ridge       {ridged.value:.6f}")
    print(f"of random labels   {random.mean:.3f} ± {random.spread:.3f} over 10 draws")
    if left_out.error is not None:
        print(f"leave-one-out      {100 * left_out.error:.2f}% wrong (ridge {left_out.ridge:.3g})")
    return raw.value, random.mean


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        own, other = main(Path(sys.argv[1]) if len(sys.argv) > 1 else a_table(folder))
    assert 0 < own < other
