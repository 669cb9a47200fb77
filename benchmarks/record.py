"""What every benchmark shares: timing, the machine in words, and where results are kept (benchmarks/results)."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def median_seconds(work: Callable[[], Any], repeats: int = 5, warm: int = 1) -> float:
    """The median of several runs after warming up."""
    for _ in range(warm):
        work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def interleaved_seconds(works: dict[str, Callable[[], Any]], repeats: int = 7) -> dict[str, float]:
    """Medians of several pieces of work run in turn, so that a busy moment hits all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(repeats):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def processor() -> str:
    """The CPU's name and cores."""
    from overparam.core.provenance import usable_cores

    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        name = names[0] if names else name
    return f"{name}, {usable_cores()} cores, Python {platform.python_version()}"


def save(name: str, machine: str, rows: list[dict[str, Any]], note: str = "", folder: Path | None = None) -> None:
    """Write benchmarks/results/NAME.json and print its rows."""
    where = folder or RESULTS
    where.mkdir(parents=True, exist_ok=True)
    document = {"machine": machine, "note": note, "rows": rows}
    (where / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    for row in rows:
        print("  ".join(f"{key}: {value}" for key, value in row.items()))


def peak_megabytes(code: str) -> tuple[float, float]:
    """Resident MiB before `work()` and at its peak, in a fresh process (Linux); `code` defines `prepare()` and `work(p)`."""
    program = f"""
def resident(field):
    line = next(line for line in open("/proc/self/status") if line.startswith(field))
    return int(line.split()[1]) / 1024
{code}
prepared = prepare()
open("/proc/self/clear_refs", "w").write("5")  # the peak is counted from here on
before = resident("VmRSS")
kept = work(prepared)
print(before, resident("VmHWM"))
"""
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    before, peak = output.split()[-2:]
    return float(before), float(peak)
