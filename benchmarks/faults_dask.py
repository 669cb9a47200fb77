"""Seeded faults of a cluster, for `faults.py`: workers, the client or the scheduler are killed within a sweep of products."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from faults import Kind

from overparam.engines import gram, remember
from overparam.frame.cluster import ClusterLost
from overparam.kernels import TwoLayer
from overparam.spectrum import quadrature

N, D, PRODUCTS = 900, 20, 6
_running: dict[str, Any] = {}


def sweep(cluster: Any, place: Path, progress: Callable[[float, float | None, str], None] | None = None) -> str:
    """A hash of what a sweep on a cluster ends in; each product is kept."""
    rng = np.random.default_rng(7)
    X, y = rng.standard_normal((N, D)), rng.standard_normal((N, 2))
    there = gram(TwoLayer(), X, cluster=cluster)
    try:
        found = quadrature(remember(there, place), y, PRODUCTS, bounds=None, progress=progress)
    finally:
        there.close()
    return hashlib.sha256(found.alphas.tobytes() + found.betas.tobytes()).hexdigest()


def alone(place: Path) -> str:
    """On workers that live."""
    return sweep(_address(), place)


def worker(seed: int, place: Path) -> tuple[str, str]:
    """One or both of two workers are killed within a product, up to three times."""
    rng = np.random.default_rng(seed)
    deaths = sorted(rng.uniform(0, PRODUCTS, int(rng.integers(1, 4))))
    said: list[str] = []
    with _cluster() as cluster:

        def kill(done: float, total: float | None, what: str) -> None:
            while deaths and done >= deaths[0]:
                deaths.pop(0)
                living = [nanny.pid for nanny in cluster.workers.values() if nanny.pid is not None]
                dead = living[: int(rng.integers(1, 3))]
                for pid in dead:
                    with contextlib.suppress(ProcessLookupError):  # dead already
                        os.kill(pid, signal.SIGKILL)
                said.append(f"{len(dead)} at product {done:.1f}")

        return sweep(cluster.scheduler_address, place, kill), "killed " + ", ".join(said)


def client(seed: int, place: Path) -> tuple[str, str]:
    """The process that asks is killed, once or twice; another asks the same."""
    rng, address = np.random.default_rng(seed), _address()
    kept = []
    for _ in range(int(rng.integers(1, 3))):
        last = float(rng.uniform(0, PRODUCTS))
        subprocess.run([sys.executable, __file__, address, str(place), str(last)], check=False)
        kept.append(len(list(place.rglob("*.kept"))))
    return sweep(address, place), f"killed with {', '.join(map(str, kept))} products kept"


def scheduler(seed: int, place: Path) -> tuple[str, str]:
    """The scheduler is killed within a product, and with it its workers go; another is started."""
    last = float(np.random.default_rng(seed).uniform(0, PRODUCTS))
    address, processes = _scheduler_and_worker(place)

    def kill(done: float, total: float | None, what: str) -> None:
        if done >= last:
            processes[0].kill()

    try:
        sweep(address, place, kill)
        words = "no fault"
    except ClusterLost as error:
        words = f"one line at product {last:.1f}" if "\n" not in str(error) else "more than a line"
    _end(processes)
    address, processes = _scheduler_and_worker(place)
    found = sweep(address, place)
    _end(processes)
    return found, words


def _cluster() -> Any:
    """Two processes of one thread; nannies replace those that are killed."""
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
    )


def _address() -> str:
    """Of a cluster that lives as long as this process."""
    if not _running:
        _running["cluster"] = _cluster()
        atexit.register(_running["cluster"].close)
    return _running["cluster"].scheduler_address


def _scheduler_and_worker(place: Path) -> tuple[str, list[subprocess.Popen[bytes]]]:
    """As `dask scheduler` and `dask worker` start them; the address of the first."""
    where = place / f"scheduler-{time.monotonic_ns()}.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-m", "dask"]
    first = [*command, "scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0"]
    processes = [subprocess.Popen([*first, "--scheduler-file", str(where)], **quiet)]
    second = [*command, "worker", "--scheduler-file", str(where), "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    processes.append(subprocess.Popen([*second, "--local-directory", str(place)], **quiet))
    import json

    until = time.monotonic() + 60
    while time.monotonic() < until:
        if where.exists() and where.read_text().strip():
            return json.loads(where.read_text())["address"], processes
        time.sleep(0.05)
    raise RuntimeError("the scheduler did not start")


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.kill()
        process.wait()


KINDS = {
    "worker killed": Kind(alone, worker),
    "client killed": Kind(alone, client),
    "scheduler killed": Kind(alone, scheduler),
}


def _die(address: str, place: str, last: float) -> None:
    """What a client does that is killed at a product."""

    def kill(done: float, total: float | None, what: str) -> None:
        if done >= last:
            os.kill(os.getpid(), signal.SIGKILL)

    sweep(address, Path(place), kill)


if __name__ == "__main__":
    _die(sys.argv[1], sys.argv[2], float(sys.argv[3]))
