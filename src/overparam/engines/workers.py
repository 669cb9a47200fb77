"""Elementwise work on a few threads: NumPy computes without holding the interpreter, but on one core a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import TracebackType
from typing import Any, final

from overparam.core.machine import thread_pools
from overparam.core.provenance import usable_cores

MOST = 16
"""More threads than this wait for the interpreter more than they compute."""
ENOUGH = 2**17
"""Entries below which starting threads takes longer than they save."""
SHARES = 4
"""Parts a thread gets: a thread that is held up leaves some of them to the others."""


def worker_count(threads: int | None, entries: int) -> int:
    """`threads` where given, else as many as BLAS uses (one setting, the user's own, serves both); 1 for little work.

    >>> worker_count(1, 10**9), worker_count(None, 100)
    (1, 1)
    """
    if entries < ENOUGH:
        return 1
    if threads is None:
        pools: list[int] = [pool["num_threads"] for pool in thread_pools().info() if pool["user_api"] == "blas"]
        threads = min(max(pools, default=MOST), usable_cores())
    return max(1, min(threads, MOST))


@final
class Workers:
    """A pool of threads for the time of one matrix; with one thread the work is done by the caller.

    >>> with Workers(2) as workers:
    ...     sorted(workers.ranges(lambda start, stop: stop - start, 16))
    [2, 2, 2, 2, 2, 2, 2, 2]
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        if self.count > 1:
            self._pool = ThreadPoolExecutor(self.count, "overparam")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)  # after ctrl-C only parts that have begun are finished
            self._pool = None

    def ranges(self, work: Callable[[int, int], Any], size: int) -> list[Any]:
        """`work(start, stop)` on ranges that make up 0:size, and what each gave."""
        if self._pool is None:
            return [work(0, size)]
        parts = [self._pool.submit(work, *part) for part in _split(size, self.count * SHARES)]
        return [part.result() for part in parts]


def _split(size: int, parts: int) -> Iterator[tuple[int, int]]:
    edges = [size * i // parts for i in range(parts + 1)]
    return ((start, stop) for start, stop in pairwise(edges) if stop > start)
