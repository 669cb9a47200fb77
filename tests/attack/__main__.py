"""`python -m tests.attack --count N --seed S [--kind K]`: seeded attacks on every promise of docs/promises.md.

Every kind is a function of a seed and a number, which gives what it saw: words to count, failures in words, numbers measured.
Cases run in processes of their own; what was found is kept in --out, so that the same command goes on after a stop. The exit
code is 1 where anything failed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import sys
import traceback
from pathlib import Path

from tests.attack.running import again, attack

KINDS = {
    "containment": ("containment", "case", 1000),
    "malformed": ("malformed", "case", 500),
    "guided": ("guided", "case", 5000),
    "kills": ("disturbed", "kills", 300),
    "stops": ("disturbed", "stops", 300),
    "two": ("disturbed", "two", 300),
    "full_disk": ("writes", "full_disk", 2000),
    "killed_writes": ("writes", "killed_writes", 2000),
    "pages": ("pages", "case", 100),
    "soak": ("soak", "case", 1_000_000),
}
"""Every kind to its module and function, and to the cases after which the process is a fresh one."""
PATIENCE = 600.0
"""Seconds after which a case is taken to hang."""


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    options.add_argument("--count", type=int, default=200, help="cases of each kind")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--kind", choices=KINDS, help="one kind; all if not given")
    options.add_argument("--out", type=Path, default=Path("attack-out"), help="where what was found is kept")
    options.add_argument("--again", action="store_true", help="run the cases that failed once more")
    options.add_argument("--from", type=int, default=0, dest="start", help=argparse.SUPPRESS)
    options.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.child:
        _child(asked.kind, asked.seed, asked.start, asked.count)
        return 0
    kinds = [asked.kind] if asked.kind else list(KINDS)
    if asked.again:
        found = [again(kind, asked.seed, asked.out, PATIENCE) for kind in kinds]
    else:
        found = [attack(kind, asked.count, asked.seed, asked.out, PATIENCE, KINDS[kind][2]) for kind in kinds]
    for each in found:
        print(
            json.dumps(
                {name: each[name] for name in ("kind", "done", "failures", "peak_bytes", "failed")},
                indent=1,
                ensure_ascii=False,
            )
        )
    return int(any(each["failures"] for each in found))


def _child(kind: str, seed: int, start: int, stop: int) -> None:
    """One line of JSON a case, on the standard output this process began with."""
    module, function, _ = KINDS[kind]
    case = getattr(importlib.import_module(f"tests.attack.{module}"), function)
    for index in range(start, stop):
        try:
            row = case(seed, index)
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(at.filename).name}:{at.lineno}"
            row = {"failed": [f"escaped: {type(error).__name__}: {' '.join(str(error).split())[:300]} at {where}"]}
        row["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
