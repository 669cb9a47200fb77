"""`convergence-laws` on a machine with many cores: `python benchmarks/laws_in_shares.py OUT SCALE PROCESSES [SECONDS]`.

One audit spends most of its time on compiling and on numbers that go back and forth, so several processes share one
device well. Each audit is a part of the study, kept in OUT/parts; the study is then put together from them, as
`overparam reproduce convergence-laws` would. After SECONDS no new audit is begun: called again, it goes on.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from functools import partial
from pathlib import Path

from overparam.studies import SCALES, STUDIES, prepare_reproduce

STUDY = STUDIES["convergence-laws"]


def one(out: Path, scale: str, end: float, name: str) -> str:
    """One audit, in a process of its own."""
    if time.time() > end:
        return ""
    start = time.time()
    prepare_reproduce(STUDY, SCALES[SCALES.index(scale)], place=out).make(name)
    return f"{name}: {time.time() - start:.1f} s"


def main(out: Path, scale: str, processes: int, seconds: float = float("inf")) -> None:
    job = prepare_reproduce(STUDY, SCALES[SCALES.index(scale)], place=out)
    work = [part.name for part in sorted(job.parts, key=lambda part: -part.seconds)]
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the processes share one device
    begun, done = time.time(), 0
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for line in pool.imap_unordered(partial(one, out, scale, begun + seconds), work):
            done += bool(line)
            print(f"{time.time() - begun:7.1f} s  {done}/{len(work)}  {line}", flush=True)
    if done == len(work):
        job.run().save(out)
        print(f"{time.time() - begun:7.1f} s  done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *map(float, sys.argv[4:]))
