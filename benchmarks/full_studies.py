"""The studies at full scale without the command line's parts: `python benchmarks/full_studies.py OUT NAME...`.

The same as `overparam reproduce NAME --scale full --out OUT/NAME`, for GPU machines that have neither typer nor plotly;
`overparam report OUT/NAME` draws the page elsewhere. Finished parts are kept in OUT/NAME/parts: a killed study goes on.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from overparam.studies import STUDIES, reproduce


class Teller:
    """Prints what a study is at, at each new piece of work and every half minute."""

    def __init__(self, name: str) -> None:
        self.name, self.start, self.last, self.said = name, time.perf_counter(), 0.0, ""

    def __call__(self, done: float, total: float | None, what: str) -> None:
        now = time.perf_counter() - self.start
        if what != self.said or now - self.last > 30:
            print(f"{now:7.1f} s  {self.name}: {what} {done:g}/{total}", flush=True)
            self.last, self.said = now, what


def main(out: Path, names: list[str]) -> None:
    for name in names:
        tell = Teller(name)
        reproduce(STUDIES[name], "full", place=out / name, progress=tell).save(out / name)
        tell(1, 1, "done")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
