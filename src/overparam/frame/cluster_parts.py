"""Parts of a Job on a cluster: those that need data alone are made side by side there, the others here meanwhile.

A part travels as the function of a module, data and Specs, and its result comes back into the keeping: what is kept, told,
stopped and raised is what it would be without a cluster. What is no data (a matrix, a network's inside) does not travel: a
worker makes it again where that is planned to take no longer than the part itself, and otherwise the part is made here.
"""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from overparam.core.progress import Interrupted
from overparam.frame.cluster import Cluster, ClusterLost, losses

LARGE = 2**20
"""Bytes from which data are sent once and shared by the parts that need them."""
ATTEMPTS = 3
"""How often a part is asked for again where all workers that held its data are gone."""


@final
@dataclass(frozen=True, eq=False)
class Errand:
    """A part as it travels: what to call and with what. mark: of what is no data, by which a worker knows what it has made."""

    name: str
    mark: str
    make: Callable[..., Any]
    of: tuple[Any, ...]
    needs: tuple[str, ...]
    beside: Mapping[str, Any]


@final
@dataclass(frozen=True)
class Elsewhere:
    """Stands for data that were sent by themselves."""

    index: int


@final
@dataclass(frozen=True, eq=False)
class Parcel:
    """All that a worker needs for one part: errands in order, of which the last is the part, and results they need."""

    within: Callable[[], contextlib.AbstractContextManager[Any]]
    errands: tuple[Errand, ...]
    found: Mapping[str, Any]
    work: Any


@final
@dataclass(frozen=True, eq=False)
class Delivered:
    """What comes back, or what was raised instead."""

    given: Any = None
    seconds: float = 0.0
    raised: BaseException | None = None


_ONE_AT_A_TIME = threading.Lock()
"""A part has its process to itself, as it has without a cluster."""
_passing: dict[str, Any] = {}
"""What is no data, by its mark, for the parts that come to this worker."""


def deliver(parcel: bytes, *large: bytes) -> Delivered:
    """Make a part on a worker."""
    with _ONE_AT_A_TIME:
        opened, *inside = _unpacked(parcel, *large)
        found, start = {name: _whole(value, inside) for name, value in opened.found.items()}, time.perf_counter()
        *before, last = opened.errands
        try:
            with opened.within():
                for errand in before:
                    if errand.mark not in _passing:
                        _passing[errand.mark] = _run(errand, opened.work, found, inside)
                    found[errand.name] = _passing[errand.mark]
                start = time.perf_counter()
                given = _run(last, opened.work, found, inside)
                if isinstance(given, Mapping):  # arrays of a device become the host's while its precision holds
                    given = {key: np.asarray(value) for key, value in given.items()}
        except KeyboardInterrupt as stop:  # it would end the worker
            return Delivered(raised=Interrupted(getattr(stop, "partial", None), str(stop)))
        return Delivered(given, time.perf_counter() - start)


def _unpacked(*packed: bytes) -> list[Any]:
    """What was packed; arrays of JAX keep all their digits, which they lose outside of float64."""
    import jax

    with jax.enable_x64(True):
        return [pickle.loads(one) for one in packed]


def let_go() -> None:
    """Forget what is no data: the Job is done."""
    _passing.clear()


def _run(errand: Errand, work: Any, found: Mapping[str, Any], inside: Sequence[Any]) -> Any:
    of = [_whole(value, inside) for value in errand.of]
    beside = {name: _whole(value, inside) for name, value in errand.beside.items()}
    return errand.make(work, *of, *(found[name] for name in errand.needs), **beside)


def _whole(value: Any, inside: Sequence[Any]) -> Any:
    return inside[value.index] if isinstance(value, Elsewhere) else value


@final
class Errands:
    """The parts of one run of a Job that are on their way."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._sent: dict[
            int, tuple[Any, Any]
        ] = {}  # large data by id: the object, so that its id stays its own, and where it lies
        self._asked: dict[str, tuple[Any, Parcel, int]] = {}

    def __len__(self) -> int:
        return len(self._asked)

    def ask(self, name: str, parcel: Parcel, attempt: int = 1) -> bool:
        """Send a part on its way; False where it holds what cannot travel."""
        import cloudpickle

        large: list[Any] = []

        def apart(value: Any) -> Any:
            """The value, or where it lies if it is large: it is sent once for all parts."""
            if id(value) not in self._sent:
                packed = cloudpickle.dumps(value)
                if len(packed) < LARGE:
                    return value
                with self._cluster.lost():
                    self._sent[id(value)] = value, self._cluster.scatter(packed)
            large.append(self._sent[id(value)][1])
            return Elsewhere(len(large) - 1)

        try:
            errands = tuple(
                replace(
                    one,
                    of=tuple(apart(value) for value in one.of),
                    beside={key: apart(value) for key, value in one.beside.items()},
                )
                for one in parcel.errands
            )
            found = {key: apart(value) for key, value in parcel.found.items()}
            packed = cloudpickle.dumps(replace(parcel, errands=errands, found=found))
        except ClusterLost:
            raise
        except (TypeError, ValueError, AttributeError, pickle.PicklingError):
            return False
        with self._cluster.lost():
            future = self._cluster.client.submit(deliver, packed, *large, key=f"{name}-{uuid.uuid4().hex}")
        self._asked[name] = future, parcel, attempt
        return True

    def collect(self, wait: bool) -> list[tuple[str, Delivered]]:
        """Parts that came back, failed ones last; where none did and `wait` is said, the next one is waited for."""
        from distributed import KilledWorker, as_completed

        futures = {name: future for name, (future, _, _) in self._asked.items()}
        back = []
        with self._cluster.lost():
            if wait and futures and not any(future.done() for future in futures.values()):
                next(as_completed(list(futures.values()), loop=self._cluster.client.loop))
            for name, future in futures.items():
                if not future.done():
                    continue
                _, parcel, attempt = self._asked.pop(name)
                error = future.exception() if future.status == "error" else None
                try:
                    if error is None or isinstance(error, KilledWorker):
                        back.append((name, future.result()))
                    else:
                        back.append((name, Delivered(raised=error)))
                except losses():
                    if attempt == ATTEMPTS or not self._cluster.is_back():
                        raise
                    self._sent.clear()  # it may have gone with the workers
                    self.ask(name, parcel, attempt + 1)
        return sorted(back, key=lambda one: one[1].raised is not None)

    def end(self) -> None:
        """Take back what is on its way, and have the workers forget what is no data."""
        with contextlib.suppress(*losses(), AttributeError, RuntimeError):  # the cluster may be gone
            self._cluster.client.cancel([future for future, _, _ in self._asked.values()], force=True)
            self._cluster.client.run(let_go, on_error="ignore")


def make_side_by_side(made: Any, names: Sequence[str], cluster: Cluster) -> None:
    """Make the named parts: those that travel on the cluster as soon as what they need is there, the others here, in order."""
    errands, waiting, staying = Errands(cluster), list(names), set[str]()
    try:
        while waiting or len(errands):
            for name in tuple(waiting):
                if made.is_kept(name):
                    made.result(name)
                elif name in staying or not made.is_ready(name):
                    continue
                elif not made.travels(name) or not errands.ask(name, made.parcel(name)):
                    staying.add(name)
                    continue
                waiting.remove(name)
            here = next((name for name in waiting if name in staying), None)
            if here is not None:
                made.result(here)
                waiting.remove(here)
            for name, delivered in errands.collect(wait=here is None):
                if delivered.raised is not None:
                    raise delivered.raised
                made.take_in(name, delivered.given, delivered.seconds, cluster.short)
    finally:
        errands.end()
    made.found = {name: made.found[name] for name in names if name in made.found}  # in the order of the parts
