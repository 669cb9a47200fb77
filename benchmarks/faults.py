"""Seeded faults: work that is killed, cut short or damaged ends in the numbers of work that was left alone.

    python benchmarks/faults.py            all kinds, ten seeds each
    python benchmarks/faults.py --seeds 3 --kinds "flipped bit,full disk"

A kind of fault is a row of `KINDS`: a function of a seed and an empty folder that does the work, disturbs it, takes it up
again, and gives what it ended in, with the same function left alone to compare with. `faults_dask.py`, where it is there,
has the kinds of a cluster.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import importlib.util
import os
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from record import processor, save

from overparam.core import files
from overparam.engines import gram, stored
from overparam.kernels import TwoLayer

N, D, ROWS = 900, 20, 128
SEEDS = 10


@dataclass(frozen=True)
class Kind:
    """alone: what undisturbed work ends in. disturbed: (seed, folder) to what disturbed work ends in, and what it had to do
    again, in words. Both are compared as bytes or text: equal to the last bit, or a fault was not survived."""

    alone: Callable[[Path], Any]
    disturbed: Callable[[int, Path], tuple[Any, str]]


def build(place: Path) -> Any:
    """A stored matrix of 45 tiles."""
    X = np.random.default_rng(7).standard_normal((N, D))
    return gram(TwoLayer(), X, "stored", place=place, threads=1)


def ends_in(place: Path) -> str:
    """A hash of every tile as it is on disk, of a product, and of ‖H‖_F²."""
    H = build(place)
    found = hashlib.sha256(np.ascontiguousarray(H @ np.arange(float(N))).tobytes())
    found.update(repr(H.square_sum()).encode())
    for tile in tiles(place):
        found.update(f"{tile.parent.name} {tile.name}".encode() + tile.read_bytes())
    left = [path for path in place.rglob("*") if path.name.startswith(".")]
    return found.hexdigest() + (f" and {len(left)} files half-written" if left else "")


def tiles(place: Path) -> list[Path]:
    return sorted(path for path in place.glob("matrix.zarr/c/*/*") if not path.name.startswith("."))


def killed(seed: int, place: Path) -> tuple[str, str]:
    """SIGKILL at a random moment of the build, once to three times."""
    rng = np.random.default_rng(seed)
    counts = []
    for _ in range(int(rng.integers(1, 4))):
        child = os.fork()
        if not child:
            build(place)
            os._exit(0)
        time.sleep(0.8 * float(rng.random()) * _seconds())
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        counts.append(len(tiles(place)))
    return ends_in(place), f"killed with {', '.join(map(str, counts))} tiles there"


def cut(seed: int, place: Path) -> tuple[str, str]:
    """A tile loses its end, while the matrix is in use."""
    H, rng = build(place), np.random.default_rng(seed)
    tile = tiles(place)[int(rng.integers(len(tiles(place))))]
    os.truncate(tile, int(rng.integers(tile.stat().st_size)))
    H @ np.ones(N)
    return ends_in(place), f"tile {tile.parent.name}/{tile.name}"


def flipped(seed: int, place: Path) -> tuple[str, str]:
    """One bit of a tile is another, before the matrix is opened again."""
    build(place)
    rng = np.random.default_rng(seed)
    tile = tiles(place)[int(rng.integers(len(tiles(place))))]
    content = bytearray(tile.read_bytes())
    at = int(rng.integers(len(content)))
    content[at] ^= 1 << int(rng.integers(8))
    tile.write_bytes(bytes(content))
    return ends_in(place), f"byte {at:,} of tile {tile.parent.name}/{tile.name}"


def full_disk(seed: int, place: Path) -> tuple[str, str]:
    """The disk is full from a random write on, until it has room again."""
    rng = np.random.default_rng(seed)
    write, last, count = files._write_new, int(rng.integers(1, 48)), [0]

    def full(path: Path, content: Any) -> None:
        count[0] += 1
        if count[0] >= last:
            write(path, bytes(content)[: int(rng.integers(1, 100))])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, content)

    files._write_new = full
    try:
        build(place)
        words = "no fault"
    except ValueError as error:
        words = f"one line after {len(tiles(place))} tiles" if "\n" not in str(error) else "more than a line"
    finally:
        files._write_new = write
    return ends_in(place), words


def _seconds() -> float:
    """A build takes about so long."""
    if not hasattr(_seconds, "known"):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            build(Path(folder))
            _seconds.known = time.perf_counter() - start  # type: ignore[attr-defined]
    return _seconds.known  # type: ignore[attr-defined]


KINDS: dict[str, Kind] = {
    "stored build killed": Kind(ends_in, killed),
    "truncated tile": Kind(ends_in, cut),
    "flipped bit": Kind(ends_in, flipped),
    "full disk": Kind(ends_in, full_disk),
}


def every_kind() -> dict[str, Kind]:
    """Those here, and those of a cluster where they are."""
    if importlib.util.find_spec("faults_dask") is None:
        return KINDS
    import faults_dask  # type: ignore[import-not-found]

    return {**KINDS, **faults_dask.KINDS}


def main() -> None:
    parser = argparse.ArgumentParser(description="Seeded faults, and whether the numbers are those of work left alone.")
    parser.add_argument("--kinds", help="names parted by commas; all if not given")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    asked = parser.parse_args()
    stored.ROWS = ROWS
    kinds = every_kind()
    names = list(kinds) if asked.kinds is None else [name.strip() for name in asked.kinds.split(",")]
    rows = []
    for name in names:
        equal, start, words = 0, time.perf_counter(), ""
        with tempfile.TemporaryDirectory() as folder:
            alone = kinds[name].alone(Path(folder))
        for seed in range(asked.seeds):
            with tempfile.TemporaryDirectory() as folder:
                found, words = kinds[name].disturbed(seed, Path(folder))
            equal += found == alone
            print(f"{name}, seed {seed}: {'equal' if found == alone else 'OTHER NUMBERS'}; {words}", flush=True)
        rows.append(
            {"fault": name, "times": asked.seeds, "equal": equal, "seconds": round(time.perf_counter() - start, 1)}
        )
    total = {"fault": "all", "times": sum(row["times"] for row in rows), "equal": sum(row["equal"] for row in rows)}
    rows.append({**total, "seconds": round(sum(row["seconds"] for row in rows), 1)})
    if asked.kinds is None:
        save(
            "faults",
            processor(),
            rows,
            "Equal: every byte of what is kept and every number are those of work left alone.",
        )


if __name__ == "__main__":
    main()
