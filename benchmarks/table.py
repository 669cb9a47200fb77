"""Write docs/performance.md from benchmarks/results: one table a benchmark, with the machine it ran on."""

from __future__ import annotations

import json
from pathlib import Path

from record import RESULTS

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
SECTIONS = {
    "gram_cpu": (
        "The Gram matrix on the CPU",
        "Against `X @ X.T` of numpy in the same run, and what it adds to memory. `python benchmarks/gram_cpu.py`",
    ),
    "stored": (
        "Matrices on disk",
        "Cost and memory against n of the engines on the CPU, in one run, each in a process of its own; and what a product from "
        "disk costs against reading the tiles alone. `python benchmarks/stored.py`",
    ),
    "dask_engine": (
        "Products on a cluster",
        "Workers of one thread each on this machine; a product made anew each time. `python benchmarks/dask_engine.py`",
    ),
    "plans": (
        "Plans",
        "What plans foretell against what happens. `python benchmarks/plans.py`",
    ),
    "faults": (
        "Faults",
        "Work that is killed, cut short or damaged at seeded moments, against work left alone. `python benchmarks/faults.py`",
    ),
    "gram_deep_cpu": (
        "Deep Gram matrices on the CPU",
        "Tangent kernels of fully connected ReLU networks against `X @ X.T` of numpy in the same run. `python benchmarks/gram_deep.py`",
    ),
    "gram_deep_gpu": (
        "Deep Gram matrices on one GPU",
        "Float64, against the matrix product in the same run. `python benchmarks/gram_deep.py --device gpu`",
    ),
    "convolutional_cpu": (
        "Convolutional tangent kernels on the CPU",
        "32 × 32 images of 3 channels, 3 × 3 patches. `python benchmarks/convolutional_cpu.py`",
    ),
    "convolutional_gpu": (
        "Convolutional tangent kernels on one GPU",
        "32 × 32 images of 3 channels, 3 × 3 patches. `python benchmarks/convolutional_gpu.py`",
    ),
    "convolutional_cifar": (
        "CIFAR-10 with kernels: pooled, flattened, fully connected",
        "The first 1,000 training and 1,000 test images of the ten classes at hand, 21 layers, kernel ridge regression; the "
        "build is kept tile by tile. `python benchmarks/convolutional_gpu.py --cifar FOLDER`",
    ),
    "empirical_ntk_cpu": (
        "Tangent kernels of finite JAX networks on the CPU",
        "`op.kernels.Empirical`. `python benchmarks/empirical_ntk.py`",
    ),
    "empirical_ntk_torch_cpu": (
        "Tangent kernels of PyTorch modules on the CPU",
        "`op.from_torch` against torch.func. `python benchmarks/empirical_ntk_torch.py`",
    ),
    "neural_tangents": (
        "The archived library, for comparison",
        "neural-tangents in an environment of its own; recipe in `benchmarks/rivals`. `python benchmarks/rivals/speed.py`",
    ),
    "eigendecomposition": (
        "One Krylov sweep against all eigenpairs",
        "The same complexity and loss curve (n = 5,000, d = 784, float64). `python benchmarks/eigendecomposition.py`",
    ),
    "image_pairs": (
        "Certified complexity of three image pairs",
        "First 10,000 training rows of two classes, unit rows. `python benchmarks/image_pairs.py`",
    ),
    "accelerator": (
        "On one GPU",
        "Float64 throughout. `python benchmarks/accelerator.py`",
    ),
    "analysis": (
        "The main job",
        "`op.analyze`, from files to the result. `python benchmarks/analysis.py`",
    ),
    "training_step_gpu": (
        "A step of gradient descent on one GPU",
        "The two-layer network, everything recorded, against the same step as plain JAX. `python benchmarks/training_step.py`",
    ),
    "training_step_cpu": (
        "A step of gradient descent on the CPU",
        "The two-layer network against PyTorch. `python benchmarks/training_step.py`",
    ),
    "resume_gpu": (
        "Killed and taken up again, on one GPU",
        "A run killed with SIGKILL and resumed, against one left alone, each in a process of its own. `python benchmarks/resume_on_device.py`",
    ),
    "resume_cpu": (
        "Killed and taken up again",
        "A run killed with SIGKILL and resumed, against one left alone: weights and records. `python benchmarks/resume_on_device.py`",
    ),
    "fine_grained_fig2": (
        "Labels and noise on image pairs, from the kernel limit",
        "10,000 training and 2,000 test rows, unit rows. `python benchmarks/fine_grained_fig2.py`",
    ),
    "landscapes_cpu": (
        "Hessian products and surfaces of PyTorch models",
        "Against PyHessian and loss-landscapes on the same model, in turn. On one batch of the MLP eight large matrix products bound both, and little is left to gain: runs gave 1.01 and 1.05. `python benchmarks/landscapes.py`",
    ),
}


def main() -> None:
    lines = [
        "# Performance",
        "",
        "Written by `python benchmarks/table.py` from `benchmarks/results`; not edited by hand.",
        "",
    ]
    for name, (title, how) in SECTIONS.items():
        path = RESULTS / f"{name}.json"
        if not path.exists():
            continue
        document = json.loads(path.read_text())
        lines += [f"## {title}", "", how, "", f"Machine: {document['machine']}.", ""]
        lines += _tables(document["rows"])
        if document["note"]:
            lines += [document["note"], ""]
    PAGE.write_text("\n".join(lines).rstrip() + "\n")


def _tables(rows: list[dict[str, object]]) -> list[str]:
    """Rows with the same columns share a table."""
    lines: list[str] = []
    columns: list[str] = []
    for row in rows:
        if list(row) != columns:
            columns = list(row)
            lines += [""] if lines else []
            lines += ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
        lines.append("| " + " | ".join(_cell(value) for value in row.values()) + " |")
    return [*lines, ""]


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|")


if __name__ == "__main__":
    main()
