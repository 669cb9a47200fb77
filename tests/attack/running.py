"""Runs cases one after another in a process of their own, sees crashes and hangs, and keeps what was found: it goes on after a stop."""

from __future__ import annotations

import json
import math
import os
import selectors
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from overparam.core import files

ROOT = Path(__file__).parents[2]
KEEP = 4
"""Cases after which what was found is written down."""
SHOWN = 60
"""Failures that are kept in words."""


def attack(kind: str, count: int, seed: int, place: Path, patience: float, batch: int) -> dict[str, Any]:
    """The summary of cases 0 to `count` of a kind, those that an earlier run has done not made again.

    After `batch` cases the process is a fresh one, so that what one case leaves behind does not hide what the next does.
    """
    path = place / f"{kind}-{seed}.json"
    found = json.loads(path.read_text()) if path.exists() else _nothing(kind, seed)
    while found["done"] < count:
        _batch(found, min(found["done"] + batch, count), patience, place)
        _keep(found, place)
        print(f"{kind}: {found['done']:,} of {count:,}, {found['failures']:,} failed", file=sys.stderr, flush=True)
    return found


def _keep(found: dict[str, Any], place: Path) -> None:
    path = files.make_folder(place) / f"{found['kind']}-{found['seed']}.json"
    files.write_whole(path, json.dumps(found, indent=1, ensure_ascii=False).encode())


def again(kind: str, seed: int, place: Path, patience: float) -> dict[str, Any]:
    """The cases that failed, once more; those that hold by now are told apart."""
    path = place / f"{kind}-{seed}.json"
    found = json.loads(path.read_text())
    numbers = sorted({int(words.partition(":")[0].removeprefix("case ")) for words in found["failed"]})
    for number in numbers:
        once = {**_nothing(kind, seed), "done": number}
        _batch(once, number + 1, patience)
        if not once["failures"]:
            mine = [words for words in found["failed"] if words.startswith(f"case {number}:")]
            found["failed"] = [words for words in found["failed"] if words not in mine]
            found["failures"] -= len(mine)
            found["mended"] = [*found.get("mended", []), *mine]
    files.write_whole(path, json.dumps(found, indent=1, ensure_ascii=False).encode())
    return found


def _nothing(kind: str, seed: int) -> dict[str, Any]:
    return {
        "kind": kind,
        "seed": seed,
        "done": 0,
        "failures": 0,
        "peak_bytes": 0,
        "tally": {},
        "failed": [],
        "decades": {},
    }


def _batch(found: dict[str, Any], upto: int, patience: float, place: Path | None = None) -> None:
    """Cases up to a number in one child; where it dies or hangs the case it was at has failed, and a next child goes on."""
    words = [sys.executable, "-m", "tests.attack", "--child", "--kind", found["kind"], "--seed", str(found["seed"])]
    words += ["--from", str(found["done"]), "--count", str(upto)]
    with (
        tempfile.TemporaryFile() as errors,  # not a pipe, which fills where nobody reads it
        subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, env=_environment()) as child,
    ):
        assert child.stdout is not None
        with selectors.DefaultSelector() as lines:
            lines.register(child.stdout, selectors.EVENT_READ)
            while found["done"] < upto:
                if not lines.select(patience):
                    child.kill()
                    _add(found, {"failed": [f"hangs: no answer in {patience:g} s"]})
                    return
                line = child.stdout.readline()
                if not line:
                    code = child.wait()
                    errors.seek(0)
                    said = errors.read().decode(errors="replace").strip().splitlines()
                    _add(found, {"failed": [f"the process ended with {code}: {' / '.join(said[-3:])[-600:]}"]})
                    return
                _add(found, json.loads(line))
                if place is not None and found["done"] % KEEP == 0:
                    _keep(found, place)


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {
        **os.environ,
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "JAX_PLATFORMS": "cpu",
    }


def _add(found: dict[str, Any], row: dict[str, Any]) -> None:
    tally = Counter(found["tally"])
    tally.update(row.get("tally", ()))
    found["tally"] = dict(sorted(tally.items()))
    for name, value in row.get("measured", {}).items():
        decade = str(math.floor(math.log10(value))) if value > 0 else "-inf"
        found["decades"].setdefault(name, {})
        found["decades"][name][decade] = found["decades"][name].get(decade, 0) + 1
    failed = [f"case {found['done']}: {words}" for words in row.get("failed", ())]
    found["failures"] += len(failed)
    found["failed"] = [*found["failed"], *failed][:SHOWN]
    found["peak_bytes"] = max(found["peak_bytes"], row.get("peak", 0))
    found["done"] += 1
