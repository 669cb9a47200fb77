"""A cluster of `dask.distributed`: by address, by client, or started here; one line where it is missing or does not fit."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import platform
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np

from overparam._version import __version__
from overparam.core.machine import has_accelerator
from overparam.core.provenance import usable_cores
from overparam.core.words import count_of, duration

LOCAL = "local"
SECONDS = 10.0
"""How long a scheduler may take to answer."""
WAIT = 600.0
"""How long a cluster without workers may take to have one."""
FORMS = "expected the address of a scheduler such as 'tcp://10.0.0.1:8786', a dask Client, or 'local'"


class ClusterLost(ValueError):
    """The scheduler is gone, or no worker is left: work that was kept goes on when the same is asked again."""


@final
class Cluster:
    """Workers that are connected to; `close` leaves them, and ends those that were started here.

    Args:
        named: "tcp://host:port", a `dask.distributed.Client` (which stays open), or "local" for one worker a core here.
    """

    def __init__(self, named: Any) -> None:
        distributed = require_dask()
        self._started: Any = None
        self._own = not isinstance(named, distributed.Client)
        if not self._own:
            self.client = named
        elif not isinstance(named, str) or (named != LOCAL and "://" not in named):
            raise ValueError(f"`cluster` is {named!r}; {FORMS}")
        elif named == LOCAL:
            self._started = _local_cluster(distributed)
            self.client = distributed.Client(self._started, set_as_default=False)
        else:
            self.client = _connected(distributed, named)
        self._end = weakref.finalize(self, _close, self.client if self._own else None, self._started)
        try:
            self._found = self._require_alike()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *stop: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; a second time changes nothing."""
        self._end()

    @property
    def address(self) -> str:
        """Of the scheduler."""
        return str(self.client.scheduler.address) if self.client.scheduler is not None else "a scheduler that is gone"

    @property
    def threads(self) -> int:
        """Of all workers there are now, which take a task each at a time; 0 where there are none yet."""
        return int(sum(self.client.nthreads().values()))

    @property
    def count(self) -> int:
        """Of workers there are now."""
        return len(self.client.nthreads())

    @property
    def accelerators(self) -> bool:
        """Whether all workers have an accelerator that JAX sees; of one that came later nothing is known."""
        return bool(self._found) and all(one["accelerator"] for one in self._found.values())

    @property
    def worker_memory(self) -> int | None:
        """Bytes that the worker with the least may use; None where no worker states a limit."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        limits = [int(one["memory_limit"]) for one in workers if one.get("memory_limit")]
        return min(limits, default=None)

    @property
    def dashboard(self) -> str | None:
        """The address of the page that shows the workers at work, where there is one."""
        if self._started is not None and importlib.util.find_spec("bokeh") is None:
            return None  # the page is made by bokeh
        try:
            if "dashboard" not in self.client.scheduler_info(n_workers=0).get("services", {}):
                return None
            return str(self.client.dashboard_link)
        except (OSError, KeyError, AttributeError):
            return None

    @property
    def words(self) -> str:
        """Where it is, who is there, and where to watch it."""
        workers = self.client.nthreads()
        there = (
            f"{count_of(len(workers), 'worker')} with {count_of(sum(workers.values()), 'thread')}"
            if workers
            else "no workers yet"
        )
        return f"{there} at {self.address}" + (f", dashboard {self.dashboard}" if self.dashboard else "")

    @property
    def short(self) -> str:
        """Where to watch it, or where it is: for a line of progress."""
        return self.dashboard or self.address

    def require_worker(self) -> None:
        """Wait for a worker, which an adaptive cluster starts when it has work; one line where none comes."""
        if self.client.status in ("closing", "closed"):
            raise ClusterLost("the cluster was left or is lost; connect to it again and ask the same")
        if self.client.nthreads():
            return
        try:
            self.client.submit(int, pure=False).result(timeout=WAIT)
        except TimeoutError:
            raise ValueError(
                f"no worker came to the scheduler at {self.address} in {duration(WAIT)}; start some: `dask worker {self.address}`"
            ) from None

    def scatter(self, thing: Any) -> Any:
        """Send data to every worker there is; one that comes later gets them from another."""
        try:
            (where,) = self.client.scatter([thing], broadcast=True, hash=False)
        except (ValueError, KeyError) as error:  # how dask says that a worker left while it was being sent to
            raise ConnectionError(f"workers left: {error}") from error
        return where

    def is_back(self) -> bool:
        """Whether the scheduler answers, which a client that lost it waits for a little."""
        until = time.monotonic() + 2 * SECONDS
        while self.client.status == "connecting" and time.monotonic() < until:
            time.sleep(0.1)
        return self.client.status == "running"

    def is_loss(self, error: BaseException) -> bool:
        """Whether an error says that workers or the scheduler are gone; a client that is closed raises what comes first."""
        closed = self.client.status not in ("running", "connecting")
        return isinstance(error, losses()) or (closed and isinstance(error, RuntimeError | AttributeError))

    @contextlib.contextmanager
    def lost(self) -> Iterator[None]:
        """What dask raises when scheduler or workers are gone, in one line."""
        try:
            yield
        except Exception as error:
            if not self.is_loss(error):
                raise
            raise ClusterLost(
                f"the cluster at {self.address} is lost ({_line(error)}); start it "
                "again and ask the same: what was kept in `place` goes on"
            ) from None

    def _require_alike(self) -> Mapping[str, Mapping[str, Any]]:
        """What is installed on each worker; one line where it is not what is installed here."""
        here = about_here()
        with self.lost():
            found = self.client.run(about_here, on_error="return")
        found = {
            address: there for address, there in found.items() if not isinstance(there, OSError)
        }  # it has just left
        for address, there in found.items():
            if isinstance(there, BaseException):
                why = _line(there)
                raise ValueError(f"the worker {address} has no overparam {__version__} ({why}); install it there")
            for name, version in here.items():
                if name != "accelerator" and there[name] != version:
                    raise ValueError(
                        f"the worker {address} has {name} {there[name]} and here is {version}; install the same versions"
                    )
        return found


def as_cluster(named: Any) -> Cluster:
    """`named` where it is one already, else the cluster that it names."""
    return named if isinstance(named, Cluster) else Cluster(named)


def about_here() -> dict[str, Any]:
    """What must be the same on every worker, so that it gives the same bits; and whether there is an accelerator.

    >>> about_here()["overparam"] == __version__
    True
    """
    from importlib.metadata import version

    python = ".".join(platform.python_version_tuple()[:2])
    versions = {"overparam": __version__, "python": python, "numpy": np.__version__, "dask": version("distributed")}
    return {**versions, "accelerator": has_device()}


@functools.cache
def has_device() -> bool:
    """Whether JAX computes on an accelerator in this process."""
    if not has_accelerator():
        return False
    import jax

    try:
        return jax.default_backend() != "cpu"
    except RuntimeError:
        return False


def require_dask() -> Any:
    """The package `dask.distributed`, or one line that names the extra."""
    if importlib.util.find_spec("distributed") is None:
        raise ValueError("a cluster needs dask.distributed; install it: pip install 'overparam[dask]'")
    import distributed

    return distributed


def losses() -> tuple[type[BaseException], ...]:
    """What dask raises where workers or the scheduler are gone."""
    import concurrent.futures

    from distributed import CancelledError, KilledWorker, client

    closed = getattr(
        client, "ClosedClientError", KilledWorker
    )  # of newer versions: the scheduler went while it was told
    return CancelledError, concurrent.futures.CancelledError, KilledWorker, closed, OSError


def _connected(distributed: Any, address: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of versions that differ: said in one line after this
        try:
            return distributed.Client(address, timeout=SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            why = _line(error)
            raise ValueError(
                f"no scheduler answers at {address} ({why}); start one with `dask scheduler`, or use 'local'"
            ) from None


def _local_cluster(distributed: Any) -> Any:
    """One worker of one thread a core. It ends with this process, however that ends."""
    import logging

    try:
        return distributed.LocalCluster(
            n_workers=usable_cores(),
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        )
    except RuntimeError as error:
        why = _line(error)
        raise ValueError(
            f'the local cluster did not start ({why}); in a script the call belongs under `if __name__ == "__main__":`'
        ) from None


def _close(client: Any, started: Any) -> None:
    for one in (client, started):
        if one is not None:
            with contextlib.suppress(Exception):  # it may be gone already
                one.close(timeout=SECONDS)


def _line(error: BaseException) -> str:
    """An error of others as a part of one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:150]
