"""`op.analyze` of many rows on a CPU without drawing fewer of them: seconds of every part, planned and taken, memory, products, errors.

python benchmarks/large_analysis.py [ROWS, default 60000]
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

from record import processor, save

from overparam.analysis.data_analysis import prepare_analyze
from overparam.frame.job import Part


def main(rows: int = 60_000) -> None:
    start = time.perf_counter()
    job = prepare_analyze("mnist", max_rows=rows, device="cpu")
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
    save(f"large_analysis_{found.n}", processor(), [whole, *parts], "wall time, imports left out")


if __name__ == "__main__":
    main(*(int(value) for value in sys.argv[1:]))
