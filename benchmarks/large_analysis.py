"""`op.analyze` of many rows without drawing fewer of them: seconds of every part, planned and taken, memory, errors.

python benchmarks/large_analysis.py                   all 60,000 rows of MNIST on a CPU
python benchmarks/large_analysis.py 60000 gpu         on a GPU, and once more when everything is compiled
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

from record import processor, save

from overparam.analysis.data_analysis import prepare_analyze
from overparam.frame.job import Part


def main(rows: int = 60_000, device: str = "cpu") -> None:
    made = [analysed(rows, device) for _ in range(1 if device == "cpu" else 2)]
    if device == "cpu":
        name, machine = f"large_analysis_{rows}", processor()
    else:
        import jax

        name, machine = f"large_analysis_{rows}_{device}", f"{jax.devices()[0].device_kind}, {processor()}"
        made = [[{"run": run, **row} for row in rows_] for run, rows_ in zip(("first", "second"), made, strict=True)]
    save(name, machine, [row for rows_ in made for row in rows_], "wall time, imports left out")


def analysed(rows: int, device: str) -> list[dict[str, Any]]:
    """The whole of one analysis, then its longest parts."""
    start = time.perf_counter()
    job = prepare_analyze("mnist", max_rows=rows, device=device)
    planned = dict(job.plan.seconds_by)
    taken: dict[str, float] = {}

    def timed(part: Part) -> Any:
        make = part.make

        def made(*args: Any, **options: Any) -> Any:
            before = time.perf_counter()
            given = make(*args, **options)
            taken[part.name] = time.perf_counter() - before
            print(f"{part.name}: {taken[part.name]:.1f} s, planned {planned.get(part.name, 0.0):.1f}", flush=True)
            return given

        return made

    for part in job.parts:
        object.__setattr__(part, "make", timed(part))
    print(job.plan, flush=True)
    found = job.run()
    seconds = time.perf_counter() - start
    inside = found.error.left_out.error if found.error.left_out is not None else found.error.interval
    whole = {
        "what": f"mnist, {found.n:,} of {found.total:,} rows",
        "seconds": round(seconds, 1),
        "planned": round(job.plan.seconds, 1),
        "peak GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "kernel": found.error.kernel,
        "ridge": found.error.ridge,
        "notes": list(found.error.notes),
        "error in five folds": [inside.value, inside.lower, inside.upper],
        "test error": None if found.error.test is None else found.error.test.value,
        "labels scored": len(found.labels.rows),
        "rows of the theory": found.rows_of_theory,
    }
    parts = [
        {"what": name, "seconds": round(value, 1), "planned": round(planned.get(name, 0.0), 1)}
        for name, value in taken.items()
        if value > 0.5
    ]
    return [whole, *parts]


if __name__ == "__main__":
    main(*(int(value) for value in sys.argv[1:2]), *sys.argv[2:3])
