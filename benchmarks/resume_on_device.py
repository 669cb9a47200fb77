"""A training run killed with SIGKILL and taken up again, against the same run left alone: are the weights the same bits?

Prints one line a precision; exits 1 where any differs. Runs on the device that JAX prefers.
"""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from record import save

from overparam.core.machine import has_accelerator


def train(folder: str | None, dtype: str, steps: int, n: int, m: int) -> Any:
    from training_step import problem

    from overparam.networks import TwoLayer
    from overparam.training import gradient_descent

    return gradient_descent(
        TwoLayer(m), problem(n, 784), lr=1e-3, steps=steps, key=0, dtype=dtype, place=folder, keep_every=0.0,
        record=max(1, steps // 40), kernel_rows=100,
    )  # fmt: skip


def digest(run: Any) -> str:
    whole = [run.params.trained["W"], *(run.records[name] for name in sorted(run.records))]
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in whole)).hexdigest()[:16]


def main(folder: Path | None) -> None:
    rows, same = [], True
    for dtype in ("float32", "tf32") if has_accelerator() else ("float32", "float64"):
        with tempfile.TemporaryDirectory() as place:
            # Processes one after the other: two at once would fight for a GPU's memory.
            alone = subprocess.run(
                [sys.executable, __file__, "run", dtype], stdout=subprocess.PIPE, text=True, check=True
            )
            child = subprocess.Popen([sys.executable, __file__, "run", dtype, place], stdout=subprocess.DEVNULL)
            while not (Path(place) / "training.npz").exists() and child.poll() is None:
                time.sleep(0.02)
            time.sleep(0.5)
            child.send_signal(signal.SIGKILL)
            child.wait()
            resumed = subprocess.run(
                [sys.executable, __file__, "run", dtype, place], stdout=subprocess.PIPE, text=True, check=True
            )
        machine, what, bits = alone.stdout.strip().split(" | ")
        equal = resumed.stdout == alone.stdout
        same = same and equal
        rows.append({"what": what, "killed": child.returncode == -signal.SIGKILL, "same bits": equal, "digest": bits})
    save("resume_gpu" if has_accelerator() else "resume_cpu", machine, rows, folder=folder)
    sys.exit(0 if same else 1)


def one(dtype: str, place: str | None) -> None:
    gpu = has_accelerator()
    n = m = 10_000 if gpu else 1_000
    steps = 800 if gpu else 400
    run = train(place, dtype, steps, n, m)
    print(
        f"{run.provenance.device}, jax {run.provenance.configuration['jax']} | n = m = {n:,}, {dtype}, {steps} steps | {digest(run)}"
    )


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "run":
        one(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
    else:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
