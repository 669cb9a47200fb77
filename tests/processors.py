"""The suite as other processors would run it: `python -m tests.processors [PATHS] [--only NAME …] [-- PYTEST OPTIONS]`.

Sums are added in another order, products are fused or not, and elementary functions differ in their last digit from one
processor to the next, so that a tolerance found by trial on one may fail on another. Every row of `KINDS` holds the
compilers and libraries that overparam computes with to what one kind of processor has:

    own        this machine, as it is
    sse4_2     a processor of 2008: no AVX, no fused products, in XLA, numba, NumPy, OpenBLAS and PyTorch
    avx2       one of 2013, without AVX-512
    nehalem    OpenBLAS alone as on an old core
    haswell    OpenBLAS alone as on a core with AVX2
    skylakex   OpenBLAS alone as on a core with AVX-512, where this machine has it

Programs are optimised as a user's are, which the tests leave out otherwise (`tests/conftest.py`).

It runs from the root of a checkout, all kinds one after the other, and ends with a table; the exit status is 1 where a
test failed. `python -m tests.processors tests/kernels --only sse4_2 --only avx2 -- -x -n 2` runs two of them on one room.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np


def _numpy_has(*words: str) -> str:
    """What NumPy found beyond its baseline and whose name has one of the words."""
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])  # pyright: ignore
    return " ".join(name for name in found if any(word in name for word in words))


KINDS: dict[str, dict[str, str]] = {
    "own": {},
    "sse4_2": {
        "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2",
        "NUMBA_CPU_NAME": "nehalem",
        "NPY_DISABLE_CPU_FEATURES": _numpy_has(""),
        "OPENBLAS_CORETYPE": "Nehalem",
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    },
    "avx2": {
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
        "NUMBA_CPU_NAME": "haswell",
        "NPY_DISABLE_CPU_FEATURES": _numpy_has("512", "X86_V4"),
        "OPENBLAS_CORETYPE": "Haswell",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
    "nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
    "haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "skylakex": {"OPENBLAS_CORETYPE": "SkylakeX"},
}
"""Environment variables that make a process compute as a kind of processor does."""
NEEDS = {"avx2": "avx2", "haswell": "avx2", "skylakex": "avx512f"}
"""What this machine must have to run as a kind."""


def missing(kind: str) -> str:
    """The feature that this machine lacks for a kind; nothing where it has it, or does not say."""
    information = Path("/proc/cpuinfo")
    flags = information.read_text().split() if information.exists() else []
    need = NEEDS.get(kind, "")
    return need if flags and need and need not in flags else ""


def environment(kind: str) -> dict[str, str]:
    """That of this process with a kind's variables; flags of XLA that are set already stay."""
    changed = {name: value for name, value in KINDS[kind].items() if value}
    if "XLA_FLAGS" in changed:
        changed["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {changed['XLA_FLAGS']}".strip()
    return {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "0", **changed}


def main(arguments: list[str]) -> int:
    """Run the tests as every kind of processor; 1 where one of them failed."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(prog="python -m tests.processors", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="*", help="tests to run; all of them where none is named")
    parser.add_argument(
        "--only", action="append", choices=KINDS, help="a kind of processor; may be given several times"
    )
    given = parser.parse_args(arguments[:cut])
    rows: list[tuple[str, str, float]] = []
    for kind in given.only or KINDS:
        lacks = missing(kind)
        if lacks:
            rows.append((kind, f"left out: this machine has no {lacks}", 0.0))
            continue
        print(f"== {kind}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *given.paths, *arguments[cut + 1 :]]
        start = time.monotonic()
        status = subprocess.run(command, env=environment(kind), check=False).returncode
        rows.append((kind, "passed" if status == 0 else f"failed (status {status})", time.monotonic() - start))
    for kind, said, seconds in rows:
        print(f"{kind:10} {said}" + (f", {seconds:.0f} s" if seconds else ""))
    return int(any(said.startswith("failed") for _, said, _ in rows))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
