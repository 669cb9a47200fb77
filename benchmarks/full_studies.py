"""The studies without the command line's parts: `python benchmarks/full_studies.py OUT NAME... [--workers 8]`.

The same as `overparam reproduce NAME --scale full --out OUT/NAME`, for GPU machines that have neither typer nor plotly;
`overparam report OUT/NAME` draws the page elsewhere. Finished parts are kept in OUT/NAME/parts: a killed study goes on,
there or on another machine. With --workers the parts are made by so many processes side by side, those that the plan
calls longest first; --only takes parts whose names match a regular expression, and leaves the end to a later call.
--set changes a setting of the scale, as in `--set "depths=(2, 4, 8)"`.
"""

from __future__ import annotations

import argparse
import ast
import functools
import re
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from overparam.frame import Job
from overparam.studies import STUDIES, StudyResult
from overparam.studies.study import SCALES, Scale, prepare_reproduce


class Teller:
    """Prints what a study is at, at each new piece of work and every half minute."""

    def __init__(self, name: str) -> None:
        self.name, self.start, self.last, self.said = name, time.perf_counter(), 0.0, ""

    def __call__(self, done: float, total: float | None, what: str) -> None:
        now = time.perf_counter() - self.start
        if what != self.said or now - self.last > 30:
            print(f"{now:7.1f} s  {self.name}: {what} {done:g}/{total}", flush=True)
            self.last, self.said = now, what


@functools.cache
def job_of(name: str, scale: Scale, changed: tuple[str, ...], place: Path) -> Job[StudyResult]:
    """The Job of a study, prepared once a process."""
    own = {key: ast.literal_eval(value) for key, _, value in (one.partition("=") for one in changed)}
    settings = replace(STUDIES[name].settings[scale], **own)
    return prepare_reproduce(STUDIES[name], scale, settings=settings, place=place, progress=Teller(name))


def make(name: str, scale: Scale, changed: tuple[str, ...], place: Path, part: str) -> None:
    """One part, kept in the place."""
    start = time.perf_counter()
    job_of(name, scale, changed, place).make(part)
    print(f"  made {name}: {part} in {time.perf_counter() - start:.1f} s", flush=True)


def make_all(name: str, scale: Scale, changed: tuple[str, ...], place: Path, only: str, workers: int) -> None:
    """Every part whose name matches, those that others need first."""
    job = job_of(name, scale, changed, place)
    left = {part.name: part for part in job.parts if re.search(only, part.name)}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        while left:
            ready = [part for part in left.values() if not left.keys() & set(part.needs)]
            dearest = sorted(ready, key=lambda part: -part.seconds)
            waiting = [pool.submit(make, name, scale, changed, place, part.name) for part in dearest]
            for one in waiting:
                one.result()
            left = {key: part for key, part in left.items() if part not in ready}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="+", choices=list(STUDIES), metavar="NAME")
    parser.add_argument("--scale", choices=SCALES, default="full")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--only", default="", help="a regular expression")
    parser.add_argument("--set", action="append", default=[], metavar="SETTING=VALUE")
    asked = parser.parse_args(arguments)
    changed = tuple(asked.set)
    for name in asked.names:
        if asked.workers or asked.only:
            make_all(name, asked.scale, changed, asked.out / name, asked.only, max(1, asked.workers))
        if not asked.only:
            job_of(name, asked.scale, changed, asked.out / name).run().save(asked.out / name)
            print(f"{name} is done", flush=True)


if __name__ == "__main__":
    main()
