"""The engine on a cluster: rows are sent once, every product is tasks over tile rows whose shares a tree adds up."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.core.kernel import AbstractInnerProductKernel, AbstractKernel
from overparam.core.machine import available_memory
from overparam.core.progress import Progress, silent
from overparam.core.words import byte_size
from overparam.engines.cross import require_alike
from overparam.engines.dask_tasks import (
    COLUMNS,
    ROWS,
    RowPanel,
    add_pairs,
    add_shares,
    cross_rows,
    pairs_of_tile_row,
    tile_row,
)
from overparam.engines.matrix_free import AbstractRemadeGram, MatrixFreeGram, RecomputedGram
from overparam.engines.panels import UnitRows
from overparam.engines.plan import EnginePlan, Rates, block_rates, cpu_rates
from overparam.engines.rows_on_disk import RowsOnDisk, UnitRowsOnDisk
from overparam.frame.cluster import LOCAL, Cluster

PANEL = 2**25
"""Bytes of rows that travel together, at least; there are at most `PANELS` of them."""
PANELS = 32
TREE = 8
"""Shares that one task adds."""
ATTEMPTS = 6
"""How often work is begun again where no worker is left that holds its rows."""
RETRIES = 3
"""How often a task that fails is tried again, on another worker where there is one."""
NEW = 512
"""New rows of a task."""


@final
@dataclass(frozen=True, eq=False)
class Sent:
    """What the workers hold: the kernel and the rows, panel by panel, as futures."""

    kernel: Any
    panels: tuple[Any, ...]
    height: int
    """Rows of a panel."""

    def up_to(self, stop: int) -> tuple[Any, ...]:
        """The panels that hold rows 0:stop."""
        return self.panels[: -(-stop // self.height)]


@final
class DaskGram(AbstractRemadeGram):
    """H known through its products, which the workers of a cluster make; `close()` leaves the cluster."""

    def __init__(
        self, kernel: AbstractKernel, X: np.ndarray | RowsOnDisk, get: str, cluster: Cluster, plan: EnginePlan
    ) -> None:
        self.kernel, self.X, self.get, self.plan, self.cluster = kernel, X, get, plan, cluster
        self.n = len(X)
        self.repaired = None
        self._kernel = kernel
        self._samples: Any = X
        self._rows: UnitRows | UnitRowsOnDisk | None = None
        if isinstance(kernel, AbstractInnerProductKernel):
            self._here = MatrixFreeGram(kernel, X, get, plan, None)
            self._rows = self._here.rows
        else:
            self._here = RecomputedGram(kernel, X, get, plan, None)
        self._tile, self._panel = row_heights(X, self._rows is None, cluster.accelerators)
        self._sent: Sent | None = None

    def close(self) -> None:
        """Leave the cluster; one that was started for this matrix ends."""
        self._sent = None
        self.cluster.close()

    def product(self, V: np.ndarray, progress: Progress | None = None) -> np.ndarray:
        V = np.ascontiguousarray(V, dtype=np.float64)

        def ask(sent: Sent) -> Any:
            vectors = self.cluster.scatter(V)
            return self._tile_rows(tile_row, (sent.kernel, self.get), (vectors,), sent, add_shares, progress or silent)

        made = self._asked(ask)
        self._square_sum, self.repaired = made.squares, made.repaired
        return made.values

    def diagonal(self) -> np.ndarray:
        return self._here.diagonal()

    def dense(self) -> np.ndarray:
        return self._here.dense()

    def sampled_cosines(self, rows: np.ndarray) -> np.ndarray:
        return self._here.sampled_cosines(rows)

    def close_pairs(
        self, threshold: float, moment: int, most: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        if self._rows is None:
            raise self._no_cosines()

        def ask(sent: Sent) -> Any:
            return self._tile_rows(pairs_of_tile_row, (threshold, moment, most), (), sent, add_pairs, silent)

        made = self._asked(ask)
        if made is None or len(made.rows) > most:
            return None
        return made.rows, made.columns, made.cosines, made.moments

    def cross_product(self, X_new: np.ndarray, C: np.ndarray) -> np.ndarray:
        X_new = self._kernel.inputs(X_new, "X_new")
        require_alike(X_new, self._samples, "X_new")
        new: list[Any] = [X_new[start : start + NEW] for start in range(0, len(X_new), NEW)]
        if isinstance(self._kernel, AbstractInnerProductKernel):
            new = [UnitRows.of(part, zero=self._kernel.zero_rows) for part in new]

        def ask(sent: Sent) -> Any:
            weights = self.cluster.scatter(np.ascontiguousarray(C, dtype=np.float64))
            asked = [self._submit(cross_rows, sent.kernel, self.get, part, weights, *sent.panels) for part in new]
            try:
                return self.cluster.client.gather(asked)
            except BaseException:
                self._take_back(asked)
                raise

        return np.concatenate(self._asked(ask))

    def _asked(self, ask: Callable[[Sent], Any]) -> Any:
        """What `ask` gives, begun again where the rows are gone with the workers that held them."""
        for attempt in range(ATTEMPTS):
            try:
                self.cluster.require_worker()
                if self._sent is None:
                    self._sent = self._send()
                return ask(self._sent)
            except Exception as error:
                if not self.cluster.is_loss(error):
                    raise
                self._sent = None
                if attempt == ATTEMPTS - 1 or not self.cluster.is_back():
                    with self.cluster.lost():
                        raise
        raise AssertionError("every attempt gives a result or raises")

    def _send(self) -> Sent:
        """The kernel and the rows to every worker; one that comes later gets them from another."""
        diagonal, panels = self._here.diagonal(), []
        for start in range(0, self.n, self._panel):
            stop = min(start + self._panel, self.n)
            rows = self._samples[start:stop] if self._rows is None else self._rows.part(start, stop)
            panels.append(self.cluster.scatter(RowPanel(start, rows, diagonal[start:stop])))
        return Sent(self.cluster.scatter(self._kernel), tuple(panels), self._panel)

    def _submit(self, task: Callable[..., Any], *given: Any, priority: int = 0) -> Any:
        return self.cluster.client.submit(task, *given, pure=False, retries=RETRIES, priority=priority)

    def _tile_rows(
        self,
        task: Callable[..., Any],
        first: tuple[Any, ...],
        then: tuple[Any, ...],
        sent: Sent,
        add: Callable[..., Any],
        progress: Progress,
    ) -> Any:
        """`task(*first, start, stop, *then, *panels)` of all tile rows, longest first, added up by a tree in a fixed order."""
        ends = {start: min(start + self._tile, self.n) for start in range(0, self.n, self._tile)}
        leaves = {
            start: self._submit(task, *first, start, ends[start], *then, *sent.up_to(ends[start]))
            for start in reversed(ends)
        }
        areas = {leaves[start].key: (stop / self.n) ** 2 - (start / self.n) ** 2 for start, stop in ends.items()}
        level = [leaves[start] for start in ends]
        while len(level) > 1:  # sums go before tile rows: a share that is added takes no more memory
            groups = [level[i : i + TREE] for i in range(0, len(level), TREE)]
            level = [self._submit(add, *group, priority=1) if len(group) > 1 else group[0] for group in groups]
        try:
            done = 0.0
            for leaf in self._finished(leaves):
                done += areas[leaf.key]
                progress(min(done, 1.0), 1.0, f"product on {self.cluster.short}")
            return level[0].result()
        except BaseException:
            self._take_back(level)
            raise

    def _finished(self, leaves: dict[int, Any]) -> Iterator[Any]:
        """Tile rows as they are finished; each is let go of then, so that its share is freed once it is added."""
        from distributed import as_completed

        waiting = as_completed(list(leaves.values()), loop=self.cluster.client.loop)
        leaves.clear()
        yield from waiting

    def _take_back(self, asked: Sequence[Any]) -> None:
        """Cancel what was asked for: after ctrl-C or a loss nobody waits for it."""
        with contextlib.suppress(Exception):  # the cluster may be gone, and what is told of is why it was taken back
            self.cluster.client.cancel(list(asked), force=True)


def row_heights(X: Any, blocks: bool, accelerators: bool = False) -> tuple[int, int]:
    """Rows of a tile row, which is a task, and of a panel, which is what travels: by the shape of the rows alone.

    >>> row_heights(np.empty((10_000, 784)), False), row_heights(np.empty((1000, 4)), True)
    ((256, 10240), (32, 1024))
    """
    n = len(X)
    tile = max(32, min(ROWS, n // 64)) if blocks else max(256, min(2 * ROWS, n // 64), n // 2048)
    if accelerators and not blocks:
        tile = max(
            tile, min(COLUMNS, n // 16)
        )  # fewer and larger: an accelerator is done before its share has travelled
    tile = min(tile, n)
    count = min(PANELS, max(1, X.nbytes // PANEL))
    panel = -(-n // count)
    return tile, -(-panel // tile) * tile


def make_dask_gram(
    kernel: AbstractKernel, X: np.ndarray | RowsOnDisk, get: str, cluster: Any, memory: int | float | str | None
) -> DaskGram:
    """Connect, plan and send nothing yet."""
    own = not isinstance(cluster, Cluster)
    connected = Cluster(LOCAL if cluster is None else cluster) if own else cluster
    try:
        if isinstance(kernel, AbstractInnerProductKernel):
            kernel = kernel.for_features(X.shape[1])
        return DaskGram(kernel, X, get, connected, make_plan(kernel, X, get, connected, memory))
    except BaseException:
        if own:
            connected.close()
        raise


def make_plan(
    kernel: AbstractKernel, X: np.ndarray | RowsOnDisk, get: str, cluster: Cluster, memory: int | float | str | None
) -> EnginePlan:
    """Time by the threads of the workers, each as fast as one here; memory of this process; one line where a worker's is too little."""
    n, d = len(X), int(X[0].size)
    free = available_memory()
    limit = min(free, checks.byte_count(memory)) if memory is not None else int(0.8 * free)
    need = 8 * ((2 * n * d if isinstance(X, np.ndarray) else 2 * d * row_heights(X, False)[1]) + 64 * n)
    there = 8 * (n * d + 2 * ROWS * COLUMNS + 64 * n)
    room = cluster.worker_memory
    if need > limit:
        raise ValueError(
            f"the dask engine needs {byte_size(need)} here for {n:,} rows of {d:,} features and {byte_size(limit)} can be "
            "used; use fewer rows or a machine with more memory"
        )
    if room is not None and there > 0.7 * room:
        raise ValueError(
            f"every worker holds all rows, which takes {byte_size(there)}, and one has {byte_size(room)}; use fewer rows or "
            "workers with more memory"
        )

    def measure() -> Rates:
        if isinstance(kernel, AbstractInnerProductKernel):
            one = cpu_rates(kernel.for_features(d), get, 1)
        else:
            one = block_rates(kernel, X, get, 1)
        threads = max(1, cluster.threads)
        return replace(one, flops=threads * one.flops, entries=threads * one.entries)

    return EnginePlan(
        engine="dask",
        n=n,
        d=d,
        device="cluster",
        memory=need,
        free_memory=free,
        reason=f"{cluster.words}; {byte_size(there)} on each",
        multiplied=d if isinstance(kernel, AbstractInnerProductKernel) else 0,
        measure=functools.cache(measure),
    )
