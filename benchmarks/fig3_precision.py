"""What tf32 does to the errors of Fig. 3's networks: `python benchmarks/fig3_precision.py OUT [EPOCHS]`.

Widths 200 and 2,000 at d = 100, N = 50,000, the same rates, decays, starts and batches in float32 and in tf32, which
the wide networks are trained in. The errors and norms at the end go to OUT, benchmarks/results/fig3_precision.json.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from overparam.frame import Work
from overparam.studies.beyond_kernels_fig3 import CIFAR, Cell, trained
from overparam.training.precision import device_name

WIDTHS, RATES, DECAYS, TEST = (200, 2_000), (5.0, 10.0), (2e-5, 5e-5), 10_000


def compared(m: int, epochs: int) -> dict[str, Any]:
    """Both precisions of one width: errors and norms of every run, and how far they are apart."""
    cell = Cell(m, (epochs * 5 // 8, epochs - epochs * 5 // 8), RATES, DECAYS, **CIFAR)
    found: dict[str, Any] = {"m": m, "epochs": epochs, "runs": cell.runs}
    ends = {}
    for dtype in ("float32", "tf32"):
        made = trained(Work(), replace(cell, dtype=dtype), TEST, 0)
        ends[dtype] = {"train": made["train"][:, -1], "test": made["test"][:, -1], "norm": made["norm"]}
        found[dtype] = {name: np.asarray(own).tolist() for name, own in ends[dtype].items()}
        found[f"milliseconds, {dtype}"] = 1e3 * float(made["seconds_per_step"])
    for name, own in ends["float32"].items():
        found[f"apart, {name}"] = float(np.abs(ends["tf32"][name] - own).max())
    return found


if __name__ == "__main__":
    out, epochs = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 96
    rows = [compared(m, epochs) for m in WIDTHS]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(
        json.dumps({"machine": device_name(None), "note": f"{epochs} epochs", "rows": rows}, indent=1) + "\n"
    )
    for row in rows:
        print({name: value for name, value in row.items() if name[:5] in ("m", "apart", "milli")}, flush=True)
