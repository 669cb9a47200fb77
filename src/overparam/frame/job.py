"""A question as a Job: named parts that are planned, made, kept and taken up again in one way; its Plan, and what it concludes in."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, final

import numpy as np

from overparam.core import checks
from overparam.core.machine import available_memory
from overparam.core.progress import Interrupted, Progress, silent
from overparam.core.provenance import Provenance, Stopwatch
from overparam.core.records import put_together, take_apart
from overparam.core.words import byte_size, duration
from overparam.frame.keeping import Keeping, Kept, OtherWork, fingerprint

NOTHING = object()
"""What stands for a kept None until it is on its shelf: None there means that a part was not found."""
A = TypeVar("A")
P = ParamSpec("P")


@final
@dataclass(frozen=True)
class Elsewhere:
    """What a Plan has on a cluster. cluster: what it is connected to. parts: their names. workers: that make them."""

    cluster: str
    parts: tuple[str, ...]
    workers: int


@final
@dataclass(frozen=True)
class Plan:
    """What a Job will do and cost, in numbers; `str(plan)` is the words.

    what: the question in a line. seconds_by: of each part, in order. kept: names of the parts that `place` holds
    already, which cost nothing. memory, free_memory, disk: bytes. engine, device, dtype: how and where. details: other
    numbers and words of this kind of question, by name. fix: what to do where the memory is not enough. beside: what a
    cluster takes over.
    """

    what: str
    seconds_by: Mapping[str, float] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    memory: int = 0
    free_memory: int = field(default_factory=available_memory)
    disk: int = 0
    engine: str = ""
    device: str = "cpu"
    dtype: str = "float64"
    details: Mapping[str, Any] = field(default_factory=dict)
    fix: str = "use fewer rows (`max_rows`) or a machine with more"
    beside: Elsewhere | None = None

    @property
    def seconds(self) -> float:
        """Of all parts that are still to be made; those on a cluster take as long as its busiest worker, at best."""
        left = {name: seconds for name, seconds in self.seconds_by.items() if name not in self.kept}
        if self.beside is None:
            return sum(left.values())
        away = [left.pop(name) for name in self.beside.parts if name in left]
        return max(sum(left.values()), sum(away) / self.beside.workers, max(away, default=0.0))

    def require_memory(self) -> None:
        """Raise where it would not fit."""
        checks.require_memory(self.memory, self.free_memory, self.what, self.fix)

    def to_json(self) -> dict[str, Any]:
        """The plan as `--plan --json` prints it."""
        return {
            "what": self.what,
            "seconds": self.seconds,
            "seconds_by": dict(self.seconds_by),
            "kept": list(self.kept),
            "memory": self.memory,
            "free_memory": self.free_memory,
            "disk": self.disk,
            "engine": self.engine,
            "device": self.device,
            "dtype": self.dtype,
            **({} if self.beside is None else {"cluster": self.beside.cluster, "on_cluster": list(self.beside.parts)}),
            **self.details,
        }

    def __str__(self) -> str:
        place = ", ".join(word for word in (self.engine and f"{self.engine} engine", self.dtype, self.device) if word)
        lines = [self.what, f"  runs on   {place}"]
        if self.beside is not None:
            lines.append(f"  cluster   {self.beside.cluster}; {len(self.beside.parts)} of {len(self.seconds_by)} parts")
        lines += [f"  {name.replace('_', ' '):<9} {_said(value)}" for name, value in self.details.items()]
        if self.memory:
            lines.append(f"  memory    {byte_size(self.memory)} of {byte_size(self.free_memory)} free")
        if self.disk:
            lines.append(f"  disk      {byte_size(self.disk)}")
        if self.kept:
            lines.append(f"  kept      {len(self.kept)} of {len(self.seconds_by)} parts are finished already")
        lines.append(f"  about {duration(self.seconds, rough=True)} in all")
        return "\n".join(lines)


def _said(value: Any) -> str:
    """A detail as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_said(item) for item in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


@final
@dataclass(frozen=True, eq=False)
class Work:
    """What a part may use while it is made: whom to tell, where, and a folder for what it has not finished.

    place: the part's own folder (None where nothing is kept), which nested work may take as its `place`; it is deleted
    when the part is finished. cluster: the one the Job was given, for parts that are made here and have tasks of their
    own, such as products; None on its workers.
    """

    progress: Progress = silent
    place: Path | None = None
    device: str | None = None
    cluster: Any = None


@final
@dataclass(frozen=True, eq=False)
class Part:
    """A named piece of a Job's work.

    name: unique in the Job; people read it. make: a function of a module, called as `make(work, *of, *needed)`.
    of: data and Specs, all that it depends on beside other parts: they name the file that keeps it. needs: names of the
    parts whose results it takes. seconds: planned. gives: the dataclass it gives (or None instead); None for a mapping
    of arrays.
    kept: False where what it gives is no data (a matrix on a device, a network's inside): it is then made only for parts
    that need it and still have to be made, is let go after the last of them, and `conclude` does not see it.
    """

    name: str
    make: Callable[..., Any]
    of: tuple[Any, ...] = ()
    needs: tuple[str, ...] = ()
    seconds: float = 0.0
    gives: type | None = None
    kept: bool = True
    beside: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments that change no number, and so no name."""


@final
class Job(Generic[A]):
    """A question that is ready to be asked: `job.plan` says what it costs, `job.run()` gives the Answer.

    Args:
        verb: the name of the question; part of the name of every kept part.
        parts: in the order in which they are made; a part comes after those it needs.
        conclude: (results by name, provenance) to the Answer.
        plan: the cost, without the seconds of the parts, which have them.
        provenance: configuration, seed, precision, device; time and memory are filled in.
        timed: seconds by part, measured; called only when the plan is asked for, since measuring takes time.
        within: enters the precision and device of the work; no float64 JAX array leaves it.
        device: as the user named it, for the parts.
        place: the folder under which finished parts are kept.
        progress: called with the planned seconds that are done.
        also: name, mark and content of what else is kept from the start of the run until it is forgotten.
    """

    def __init__(
        self,
        verb: str,
        parts: Sequence[Part],
        conclude: Callable[[Mapping[str, Any], Provenance], A],
        *,
        plan: Plan,
        provenance: Provenance,
        timed: Callable[[], Mapping[str, float]] | None = None,
        within: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
        device: str | None = None,
        place: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
        also: Sequence[tuple[str, str, Kept]] = (),
    ) -> None:
        self.verb, self.parts = verb, tuple(parts)
        self._by_name = _in_order(self.parts)
        self._conclude, self._plan, self._provenance, self._timed = conclude, plan, provenance, timed
        self._within, self._device, self._also = within, device, tuple(also)
        self._progress = progress or silent
        self._cluster: Any = None
        self.keeping = Keeping(place)

    @property
    def about(self) -> Mapping[str, Any]:
        """What was asked for, as it goes into the provenance of the answer."""
        return self._provenance.configuration

    @functools.cached_property
    def marks(self) -> Mapping[str, str]:
        """What each part depends on, as a fingerprint: the verb, `of`, and the parts it needs; `Keeping` adds the version."""
        found: dict[str, str] = {}
        for part in self.parts:
            needed = [found[need] for need in part.needs]
            found[part.name] = fingerprint(self.verb, part.make.__qualname__, part.of, needed)
        return found

    @functools.cached_property
    def plan(self) -> Plan:
        """What it costs, parts that are finished left out."""
        with self._within():
            measured = dict(self._timed()) if self._timed is not None else {}
        kept = set() if self.keeping.place is None else {p.name for p in self.parts if self._is_kept(p)}
        needless = {p.name for p in self.parts if not p.kept and self._users(p.name) and self._users(p.name) <= kept}
        seconds = {part.name: measured.get(part.name, part.seconds) for part in self.parts}
        plan = replace(self._plan, seconds_by=seconds, kept=tuple(n for n in seconds if n in kept | needless))
        if self._cluster is None:
            return plan
        elsewhere = {name for name in seconds if travels(self._by_name, name, seconds)}
        beside = Elsewhere(self._cluster.words, tuple(sorted(elsewhere)), max(1, self._cluster.count))
        return replace(plan, beside=beside)

    def on(self, cluster: Any) -> Job[A]:
        """The same question with a cluster: parts that need data alone are made there, side by side, to the same numbers.

        Args:
            cluster: the address of a scheduler such as "tcp://10.0.0.1:8786", a `dask.distributed.Client`, or "local"
                for a worker a core of this machine. It is connected to at once, and left when `run` ends.
        """
        from overparam.frame.cluster import as_cluster

        other = copy.copy(self)
        other.__dict__.pop("plan", None)
        other._cluster = as_cluster(cluster)
        return other

    def run(self) -> A:
        """Do the work, part by part, and conclude; what is kept is taken up again."""
        try:
            return self._run()
        finally:
            if self._cluster is not None:
                self._cluster.close()

    def _run(self) -> A:
        self._plan.require_memory()
        for name, mark, kept in self._also:
            self.keeping.keep(name, mark, kept)
        watch, made = Stopwatch(), _Made(self)
        try:
            with self._within():
                names = [part.name for part in self.parts if part.kept or not self._users(part.name)]
                if self._cluster is not None:
                    from overparam.frame.cluster_parts import make_side_by_side

                    make_side_by_side(made, names, self._cluster)
                for name in names:
                    made.result(name)
                provenance = watch.provenance(self._provenance.configuration, seed=self._provenance.seed)
                devices = ", ".join(made.devices) or self._provenance.device
                provenance = replace(
                    provenance, dtype=self._provenance.dtype, device=devices, seconds=provenance.seconds + made.before
                )
                answer = self._conclude(made.found, provenance)
        except KeyboardInterrupt as stop:
            raise self._interrupted(stop, made) from None
        total = sum(made.seconds.values())
        self._progress(total, total, "done")
        return answer

    def make(self, name: str) -> Any:
        """One part, with those it needs, kept in the place: several processes may share the parts of a Job."""
        with self._within():
            return _Made(self).result(name)

    def forget(self) -> None:
        """Delete what this Job kept: the Answer is saved, or all is to be made again."""
        own = [(part.name, self.marks[part.name]) for part in self.parts] if self.keeping.place is not None else []
        self.keeping.forget([*own, *((name, mark) for name, mark, _ in self._also)])

    def _is_kept(self, part: Part) -> bool:
        return part.kept and self.keeping.holds(part.name, self.marks[part.name])

    def _users(self, name: str) -> set[str]:
        return {part.name for part in self.parts if name in part.needs}

    def _interrupted(self, stop: KeyboardInterrupt, made: _Made) -> Interrupted:
        """What a stopped part had so far is handed on; the words say what goes on from where."""
        step = getattr(stop, "step", None)
        own = step is not None or getattr(stop, "kept", False)  # the part itself goes on from where it was
        kept = self.keeping.place is not None and (bool(made.found) or own)
        head = "stopped" if step is None else f"stopped at step {step:,}"
        if kept:
            words = f"{head}; finished parts are kept, and the same question goes on from there"
        elif self.keeping.place is None:
            words = f"{head}; nothing was kept: with `place` finished parts are"
        else:
            words = f"{head}; nothing was finished yet, and the same question starts again"
        return Interrupted(getattr(stop, "partial", None), words, head=head, kept=kept)


class _Made:
    """The results of a Job while it runs."""

    def __init__(self, job: Job[Any]) -> None:
        self.job = job
        self.found: dict[str, Any] = {}
        self.passing: dict[str, Any] = {}
        self.finished: set[str] = set()
        self.devices: dict[str, None] = {}
        self.before = self.told = 0.0
        planned = job.__dict__.get("plan")  # with measured times, where the plan was asked for
        self.seconds = {part.name: part.seconds for part in job.parts} if planned is None else dict(planned.seconds_by)

    def result(self, name: str) -> Any:
        """The result of a part: in hand, kept before, or made now."""
        part = self.job._by_name[name]
        shelf = self.found if part.kept else self.passing
        if name not in shelf:
            kept = self._taken_up(part) if part.kept else None
            shelf[name] = self._made(part) if kept is None else None if kept is NOTHING else kept
            self.finished.add(name)
            self._let_go()
        return shelf[name]

    def _taken_up(self, part: Part) -> Any:
        kept = self.job.keeping.find(part.name, self.job.marks[part.name]) if self.job.keeping.place else None
        if kept is None:
            return None
        self.before += float(kept.about["seconds"])
        self.devices[str(kept.about["device"])] = None
        if part.gives is None:
            return dict(kept.arrays)
        values = kept.about["values"]
        return NOTHING if values is None else put_together(part.gives, values, kept.arrays)

    def _made(self, part: Part) -> Any:
        job, keeping = self.job, self.job.keeping
        needed = [self.result(name) for name in part.needs]
        done = sum(seconds for name, seconds in self.seconds.items() if name in self.finished)
        total = sum(self.seconds.values())

        def tell(inner: float, of: float | None, what: str) -> None:
            share = min(1.0, inner / of) if of else 0.0
            self.told = min(total, max(self.told, done + share * self.seconds[part.name]))  # it never falls
            job._progress(self.told, total, what or part.name)

        tell(0.0, None, part.name)

        mark = job.marks[part.name] if keeping.place is not None else ""
        place = keeping.unfinished(part.name, mark) if part.kept and keeping.place is not None else None
        start = time.perf_counter()
        work = Work(tell, place, job._device, job._cluster)
        try:
            given = part.make(work, *part.of, *needed, **part.beside)
        except OtherWork:
            if place is None or not place.exists():
                raise
            keeping.discard(
                part.name, mark
            )  # the folder is this part's alone: what other versions left there is of no use
            given = part.make(work, *part.of, *needed, **part.beside)
        return self._kept(part, given, time.perf_counter() - start) if part.kept else given

    def _kept(self, part: Part, given: Any, seconds: float) -> Any:
        """A result that was made just now, in the form that is kept, and in the keeping."""
        keeping, device = self.job.keeping, self.job._provenance.device
        self.devices[device] = None
        if part.gives is None:
            given = {key: np.asarray(value) for key, value in given.items()}
        if keeping.place is not None:
            mark = self.job.marks[part.name]
            values, arrays = ({}, given) if part.gives is None else (None, {}) if given is None else take_apart(given)
            keeping.keep(part.name, mark, Kept(arrays, {"values": values, "seconds": seconds, "device": device}))
            keeping.discard(part.name, mark)
        return given

    def is_kept(self, name: str) -> bool:
        """Whether a part is in hand, or finished before and in the keeping."""
        return name in self.found or (self.job.keeping.place is not None and self.job._is_kept(self.job._by_name[name]))

    def is_ready(self, name: str) -> bool:
        """Whether all data that a part needs are in hand."""
        return all(need in self.found for need in _data_needed(self.job._by_name, name))

    def travels(self, name: str) -> bool:
        """Whether a part is worth sending to a cluster."""
        return travels(self.job._by_name, name, self.seconds)

    def parcel(self, name: str) -> Any:
        """A part with what it needs, for a worker."""
        from overparam.frame.cluster_parts import Errand, Parcel

        known, job = self.job._by_name, self.job
        chain = [known[need] for need in (*_no_data_needed(known, name), name)]
        errands = tuple(Errand(p.name, job.marks[p.name], p.make, p.of, p.needs, p.beside) for p in chain)
        found = {need: self.found[need] for need in _data_needed(known, name)}
        return Parcel(job._within, errands, found, Work(device=job._device))

    def take_in(self, name: str, given: Any, seconds: float, where: str) -> None:
        """The result of a part that was made on a cluster."""
        self.found[name] = self._kept(self.job._by_name[name], given, seconds)
        self.finished.add(name)
        self._let_go()
        total = sum(self.seconds.values())
        done = sum(seconds for name, seconds in self.seconds.items() if name in self.finished)
        self.told = min(total, max(self.told, done))
        self.job._progress(self.told, total, f"{name} on {where}")

    def _let_go(self) -> None:
        for name in list(self.passing):
            if self.job._users(name) <= self.finished:
                del self.passing[name]


def travels(parts: Mapping[str, Part], name: str, seconds: Mapping[str, float]) -> bool:
    """Whether a part is worth sending to a cluster: it takes time, and what is no data is made again there in less."""
    again = sum(seconds[need] for need in _no_data_needed(parts, name))
    return parts[name].kept and seconds[name] > 0 and again <= seconds[name]


def _no_data_needed(parts: Mapping[str, Part], name: str) -> list[str]:
    """Parts that give no data and that a part needs, directly or for each other; in the order they are made."""
    found: set[str] = set()
    ahead = list(parts[name].needs)
    while ahead:
        need = ahead.pop()
        if not parts[need].kept and need not in found:
            found.add(need)
            ahead += parts[need].needs
    return [other for other in parts if other in found]


def _data_needed(parts: Mapping[str, Part], name: str) -> list[str]:
    """Parts whose results, which are data, a part needs, also through those that give none."""
    among = [name, *_no_data_needed(parts, name)]
    return list(dict.fromkeys(need for one in among for need in parts[one].needs if parts[need].kept))


def _in_order(parts: Sequence[Part]) -> dict[str, Part]:
    found: dict[str, Part] = {}
    for part in parts:
        if part.name in found:
            raise ValueError(f"two parts are called {part.name!r}; each needs a name of its own")
        if missing := [need for need in part.needs if need not in found]:
            raise ValueError(f"the part {part.name!r} needs {missing[0]!r}, which does not come before it")
        found[part.name] = part
    return found


def verb(prepare: Callable[P, Job[A]]) -> Callable[P, A]:
    """The question that a `prepare_x` prepares, asked at once: one signature and one docstring, written once."""

    @functools.wraps(prepare)
    def ask(*args: P.args, **kwargs: P.kwargs) -> A:
        return prepare(*args, **kwargs).run()

    name = prepare.__name__.removeprefix("prepare_")
    ask.__name__ = ask.__qualname__ = name
    prepare.__doc__ = f"The `Job` of `{name}`, with the same arguments: `.plan` says what it costs, `.run()` does it."
    return ask
