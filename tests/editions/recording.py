"""Run every case in a process of its own, the same way on any machine, and put what came out into one file.

The bits of a result depend on the number of threads and on the instructions that a processor has, so both are
fixed: one core, one thread of every library, and no instruction newer than AVX2 (`ENVIRONMENT`). `seconds` are those of
the clock, other work on the machine included; `cpu` those of the processor.
"""

from __future__ import annotations

import json
import lzma
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import metadata, util
from pathlib import Path
from typing import Any

import numpy as np

from . import condensing
from .cases import CASES, Case, table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARIES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "jax",
    "jaxlib",
    "optax",
    "equinox",
    "numba",
    "torch",
    "pandas",
)
MISSING = "left out: {} is not here"
ENVIRONMENT = {
    **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "0",  # as users run it, also where a test asks
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false --xla_cpu_max_isa=AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "AVX2",
    "JAX_PLATFORMS": "cpu",
    "PYTHONHASHSEED": "0",
    "COLUMNS": "120",
    "TERM": "dumb",
}


def record(work: Path, only: Sequence[str] = ()) -> dict[str, Any]:
    """Run the cases (those whose names begin with one of `only`) in the folder `work` and give the record.

    Cases that `work` has finished already are not run again.
    """
    work.mkdir(parents=True, exist_ok=True)
    (work / "table.csv").write_text(table(), encoding="utf-8")
    chosen = [case for case in CASES if not only or case.name.startswith(tuple(only))]
    found: dict[str, Any] = {}
    for case in chosen:
        lacking = missing(case)
        if lacking:
            found[case.name] = {"line": case.line, "failed": MISSING.format(lacking)}
        else:
            found[case.name] = gather(case, work, run(case, work))
        print(f"{case.name:40} {found[case.name].get('failed') or str(found[case.name]['seconds']) + ' s'}", flush=True)
    return {"record": 1, "made_with": made_with(), "environment": ENVIRONMENT, "cases": found}


def made_with() -> dict[str, Any]:
    """Versions and the kind of machine, in words that name no machine."""
    processor = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), processor)
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {processor}, one core used",
        "versions": {"overparam": version()}
        | {
            name: metadata.version(name)
            for name in LIBRARIES
            if util.find_spec(name.replace("scikit-learn", "sklearn"))
        },
    }


def version() -> str:
    """The version of the package that the cases run, which need not be the installed one (PYTHONPATH)."""
    command = [sys.executable, "-c", "import overparam; print(overparam.__version__)"]
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, cwd=HERE.parent, check=True
    ).stdout.strip()


def missing(case: Case) -> str:
    """The first thing that the case needs and that is not here, or nothing."""
    folder = Path(os.environ.get("OVERPARAM_DATA", "/nonexistent"))
    for name in case.needs:
        if not (folder / name).exists() and not util.find_spec(name):
            return name
    return ""


def run(case: Case, work: Path) -> dict[str, Any]:
    """Run one case, or take it from `work` where it has finished there: seconds, exit status, what it printed."""
    note = work / f"{case.name}.ran.json"
    if note.exists() and (ran := json.loads(note.read_text()))["status"] == 0:
        return ran
    out = (work / case.name).resolve()
    words = shlex.split(case.line.format(out=out))
    if case.is_script:
        folder = work / f"{case.name}.folder"
        folder.mkdir(exist_ok=True)
        script = HERE / words[0] if words[0].startswith("pages/") else ROOT / words[0]
        kept = (work / f"{case.name}.kept.json").resolve()
        command = [sys.executable, str(HERE / "capturing.py"), str(script), str(kept), *words[1:]]
    else:
        folder = work
        named = "--list" in words or "--plan" in words or words[0] == "report"
        command = [sys.executable, "-m", "overparam", *words, *([] if named else ["--out", case.name])]
    start, used = time.perf_counter(), cpu_of_children()
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, preexec_fn=one_core)
    ran = {
        "seconds": round(time.perf_counter() - start, 1),
        "cpu": round(cpu_of_children() - used, 1),
        "status": done.returncode,
        "printed": done.stdout.splitlines(),
        "errors": done.stderr[-2000:],
    }
    note.write_text(json.dumps(ran), encoding="utf-8")
    return ran


def cpu_of_children() -> float:
    """Seconds of computing by the processes that have ended so far: other work on the machine hardly changes them."""
    spent = os.times()
    return spent.children_user + spent.children_system


def environment() -> dict[str, str]:
    """The variables of a case: the user's, with threads and instructions fixed and paths made absolute."""
    given = {**os.environ, **ENVIRONMENT}
    if "PYTHONPATH" in given:
        given["PYTHONPATH"] = os.pathsep.join(
            str(Path(p).resolve()) for p in given["PYTHONPATH"].split(os.pathsep) if p
        )
    return given


def one_core() -> None:
    """Keep the process on one core, so that XLA has one thread too."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[os.getppid() % len(cores)]})  # two recordings need not share one


def gather(case: Case, work: Path, ran: dict[str, Any]) -> dict[str, Any]:
    """What a case gave: values, arrays, sections and printed words, condensed."""
    kept: dict[str, Any] = {"line": case.line, "source": case.source, "seconds": ran["seconds"], "cpu": ran.get("cpu")}
    if case.reduced:
        kept["reduced"] = case.reduced
    if ran["status"]:
        return kept | {"failed": f"exit {ran['status']}: " + (ran["errors"].strip().splitlines() or [""])[-1]}
    values: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    captured = work / f"{case.name}.kept.json"
    if captured.exists():
        given = json.loads(captured.read_text(encoding="utf-8"))
        values, arrays, printed = given["values"], given["arrays"], given["printed"]
    else:
        printed = ran["printed"]
    if case.words or case.is_script:
        kept["printed"] = [line.rstrip() for line in printed]
    result = work / case.name / "result.json"
    if result.exists():
        document = json.loads(result.read_text(encoding="utf-8"))
        kept["sections"] = condensing.sections(document.pop("sections", []))
        document.pop("arrays", None)
        condensing.take_apart(document, "", values, arrays)
    stored = work / case.name / "arrays.npz"
    if stored.exists():
        with np.load(stored, allow_pickle=False) as opened:
            arrays |= {name: condensing.array(opened[name]) for name in opened.files}
    return kept | {"values": values, "arrays": arrays}


def write(found: dict[str, Any], path: Path) -> None:
    """One compressed JSON file; floats keep all their digits."""
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def read(path: Path) -> dict[str, Any]:
    """The record written by `write`."""
    return json.loads(lzma.decompress(path.read_bytes()))


def chosen(path: Path, only: Sequence[str]) -> dict[str, Any]:
    """A record with the cases whose names begin with one of `only`, or all."""
    found = read(path)
    if only:
        found["cases"] = {name: case for name, case in found["cases"].items() if name.startswith(tuple(only))}
    return found
