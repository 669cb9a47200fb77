"""`train`: any algorithm on any network. Compiled steps between records, progress, what a killed run goes on from, when to stop."""

from __future__ import annotations

import bisect
import contextlib
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core import checks, progress
from overparam.core.deprecated import accepts_old
from overparam.core.network import AbstractNetwork, Params, as_key
from overparam.core.progress import Progress, silent
from overparam.core.provenance import Provenance, Stopwatch
from overparam.core.spec import spec_of
from overparam.core.trees import as_numpy, is_key, layer_names, one_of_stacked, placed, stacked
from overparam.core.words import count_of
from overparam.data import Dataset, as_dataset
from overparam.frame.keeping import Kept, OtherWork, State, fingerprint
from overparam.training import arguments
from overparam.training.algorithm import AbstractAlgorithm, Problem, spec_of_algorithm
from overparam.training.arguments import Trainee
from overparam.training.measures import Recorder, Reference, prepare
from overparam.training.precision import DIGITS, checked_dtype, chosen_device, computing, device_name
from overparam.training.trajectory import Stop, Trajectory

KERNEL_ROWS = 1000
"""Rows on which the drift of the kernel is measured unless told."""

STRETCH = 1.0
"""Seconds of compiled steps between two looks at the clock, at ctrl-C and at the progress."""

SAME_BITS = {"xla_gpu_deterministic_ops": True}
"""Of the compiled programs alone. Without it a GPU's matrix products are chosen by timing, anew in every process, and a
run taken up again would round differently; the steps are as fast with it."""

LEAST_TOGETHER, MOST_TOGETHER = 50, 512
"""Steps whose draws are made together: at most so many, for they are kept until used; fewer would gain little."""

Many = Literal["", "same rows", "own rows"]
"""One run; or several side by side, which see the same rows or each its own."""

History = list[tuple[int, dict[str, np.ndarray]]]
"""The records of a run: (step, values by name), in the order of the steps."""


class Interrupted(progress.Interrupted):
    """Ctrl-C in the middle of a run: `partial` is the trajectory so far."""

    def __init__(self, partial: Any, step: int, where: str) -> None:
        super().__init__(partial, f"stopped at step {step}; {where}")
        self.step = step


@partial(jax.jit, static_argnames=("network", "many", "together"), compiler_options=SAME_BITS)
def _advance(
    network: AbstractNetwork,
    algorithm: Any,
    state: Any,
    problem: Problem,
    first: Any,
    last: Any,
    many: Many,
    together: int,
) -> Any:
    """Steps first … last − 1. The bounds are arguments, so that any stretch runs the same program.

    `together` divides both bounds. Beyond 1 that many steps draw at once and run as a loop of known length: a GPU then
    need not wait for its host in every step, which is most of the time of a small network.
    """

    def each(function: Any, state: Any, *more: Any) -> Any:
        if not many:
            return function(algorithm, state, problem, *more)
        axes = (0, 0, 0 if many == "own rows" else None, *(0 for _ in more))
        return jax.vmap(function, in_axes=axes)(algorithm, state, problem, *more)

    def alone(step: Any, state: Any) -> Any:
        return each(lambda algorithm, state, problem: algorithm.step(network, state, problem, step), state)

    def block(i: Any, state: Any) -> Any:
        begin = first + i * together
        state, drawn = each(lambda a, state, problem: a.draw(state, problem, begin, together), state)
        drawn = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 1, 0), drawn) if many else drawn

        def one(state: Any, now: Any) -> Any:
            step, own = now
            return each(
                lambda a, state, problem, own: a.drawn_step(network, state, problem, step, own), state, own
            ), None

        return jax.lax.scan(one, state, (begin + jnp.arange(together), drawn), length=together)[0]

    if together == 1:
        return jax.lax.fori_loop(first, last, alone, state)
    return jax.lax.fori_loop(0, (last - first) // together, block, state)


@partial(jax.jit, static_argnames=("network", "recorder", "many"), compiler_options=SAME_BITS)
def _measure(
    network: AbstractNetwork,
    recorder: Recorder,
    algorithm: Any,
    state: Any,
    reference: Reference,
    problem: Problem,
    many: Many,
) -> Any:
    def one(algorithm: Any, state: Any, reference: Reference, problem: Problem) -> Any:
        return recorder.measure(network, algorithm, state, reference, problem)

    if not many:
        return one(algorithm, state, reference, problem)
    # Where all runs see the same rows these and the limit kernel are shared; weights, signs and H(0) are each run's own.
    rows = 0 if many == "own rows" else None
    axes = Reference(0, 0, rows, 0, rows)  # type: ignore[arg-type]
    return jax.vmap(one, in_axes=(0, 0, axes, rows))(algorithm, state, reference, problem)


class Runner:
    """One call of `train`, or of `sweep` with `runs` at once: `run`, then take what it recorded.

    `data` is a data set, or a list of them, one a run, all of one shape.
    """

    def __init__(
        self,
        network: AbstractNetwork,
        algorithm: Any,
        data: Dataset | Sequence[Dataset],
        start: Params,
        key: Any,
        dtype: str,
        device: str | None,
        runs: int = 0,
    ) -> None:
        self.watch = Stopwatch()
        self.own_rows = not isinstance(data, Dataset)
        sets = [data] if isinstance(data, Dataset) else list(data)
        self.data = sets[0]
        self.network, self.algorithm, self.start, self.key = network, algorithm, start, key
        self.dtype, self.device, self.runs = dtype, device, runs
        self.many: Many = ("own rows" if self.own_rows else "same rows") if runs else ""
        kind = jnp.float64 if dtype == "float64" else jnp.float32
        made: dict[int, Problem] = {}  # runs may share a data set
        for one in sets:
            if id(one) not in made:
                arguments.require_classes(algorithm.objective, one.y)
                arrays = (one.X, one.y) if one.test is None else (one.X, one.y, one.test.X, one.test.y)
                made[id(one)] = Problem(*(placed(array, kind) for array in arrays))
        problems = [made[id(one)] for one in sets]
        self.problem = problems[0]
        rows = algorithm.rows_a_step(self.data.n)
        arguments.require_memory(network, self._start(0), self.problem.X, rows, max(1, runs), chosen_device(device))
        if self.own_rows:
            self.problem = stacked(*problems)
        self.at: list[int] = []
        self.together = 1
        self.recorder, self.reference = Recorder(()), Reference(())
        self.history: History = []
        self.seconds, self.timed = 0.0, 0
        self.ends: tuple[int, ...] = ()

    def _start(self, run: int) -> Params:
        """The first weights of one run."""
        return one_of_stacked(self.start, run) if self.many else self.start

    def _problem(self, run: int) -> Problem:
        """What one run fits."""
        return one_of_stacked(self.problem, run) if self.own_rows else self.problem

    def run(
        self,
        steps: int,
        *,
        record: int | Sequence[int] | None = None,
        measures: Sequence[str] | None = None,
        kernel_rows: int = KERNEL_ROWS,
        rows_at_once: int | None = None,
        stop_below: float | None = None,
        place: str | os.PathLike[str] | None = None,
        keep_every: float = 60.0,
        progress: Progress | None = None,
    ) -> tuple[Any, Stop]:
        """The last state and why it stopped there; ctrl-C keeps the state where there is a place for it. See `train`."""
        if stop_below is not None and not stop_below > 0:
            raise ValueError(f"`stop_below` is {stop_below!r}; expected a share > 0 of the first loss, such as 1e-3")
        tell = progress or silent
        self.at = arguments.record_steps(record, steps)
        self.together = steps_together(self.at)
        state, step = self._begin(), 0
        self._prepare(measures, kernel_rows, rows_at_once)
        kept = None
        if place is not None:
            kept = State(place, "training", self._fingerprint(state))
            self.ends = (steps,)
            state, step = self._taken_up(kept, state, steps)
            self.together = self.together if step % self.together == 0 else 1
        saved, stopped = time.monotonic(), Stop("done", steps)
        tell(step, steps, "steps")
        self._advance(state, step, step)  # a loop of no steps: compiles it, so that the clock below sees steps alone
        try:
            while True:
                if self._due(step):
                    self._record(state, step)
                reason = self._reason_to_stop(stop_below)
                if reason or step >= steps:
                    stopped = reason or stopped
                    break
                state, step = self._stretch(state, step, self.at[bisect.bisect_right(self.at, step)])
                tell(step, steps, "steps")
                if kept is not None and time.monotonic() - saved > keep_every:
                    self._keep(kept, state, step)
                    saved = time.monotonic()
        except KeyboardInterrupt:
            raise self._interrupted(kept, state, step) from None
        if kept is not None:
            self._keep(kept, state, step)
        return state, stopped

    def _prepare(self, measures: Sequence[str] | None, kernel_rows: int, rows_at_once: int | None) -> None:
        """Choose what is recorded, and make what states will be compared with."""
        runs = max(1, self.runs)
        chosen = arguments.checked_measures(measures, len(self.at), self.data, runs)
        kernel_rows = checks.whole_number(kernel_rows, "kernel_rows")
        rows_at_once = None if rows_at_once is None else checks.whole_number(rows_at_once, "rows_at_once", least=1)
        made: list[Reference] = []
        for run in range(runs):
            self.recorder, reference = prepare(
                self.network,
                self._start(run),
                self._problem(run),
                chosen,
                classes=self.data.task != "regression",
                kernel_rows=kernel_rows,
                runs=runs,
                rows_at_once=rows_at_once,
                limit=made[0].limit if made and not self.own_rows else None,
            )
            made.append(reference)
        self.reference = made[0]
        if self.many:
            every = jax.tree.map(lambda *leaves: jnp.stack(leaves), *made)
            shared = {} if self.own_rows else {"kernel_rows": made[0].kernel_rows, "limit": made[0].limit}
            self.reference = every._replace(**shared)

    def _keep(self, kept: State, state: Any, step: int) -> None:
        """Replace what a killed run goes on from: the state after `step` steps and the records until then."""
        arrays = {f"state.{i}": as_numpy(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
        arrays |= {f"record.{name}": values for name, values in self.stacked().items()}
        about = {"step": step, "recorded": self.recorded, "seconds": self.seconds, "timed": self.timed}
        kept.save(Kept(arrays, about | {"ends": self.ends}))

    def _taken_up(self, kept: State, state: Any, steps: int) -> tuple[Any, int]:
        """The state and step that were kept, with what was recorded until then; the given ones where nothing was."""
        found = kept.load()
        if found is None:
            return state, 0
        about, arrays = found.about, found.arrays
        step, recorded = about["step"], about["recorded"]
        if step > steps:
            raise ValueError(
                f"{kept.path} is at step {step} and the run asked for has {steps}; ask for at least {count_of(step, 'step')}, or "
                "name another folder"
            )
        self._require_record(kept, recorded, about["ends"], step)
        records = {name[7:]: array for name, array in arrays.items() if name.startswith("record.")}
        self.history = [(at, {name: array[i] for name, array in records.items()}) for i, at in enumerate(recorded)]
        self.seconds, self.timed = about["seconds"], about["timed"]
        self.ends = tuple(sorted({*about["ends"], steps}))
        leaves, tree = jax.tree.flatten(state)
        return jax.tree.unflatten(tree, [_like(arrays[f"state.{i}"], leaf) for i, leaf in enumerate(leaves)]), step

    def _require_record(self, kept: State, recorded: Sequence[int], ends: Sequence[int], step: int) -> None:
        """Raise unless the records are those asked for until now, the last steps of earlier calls aside.

        The default is not compared: it moves with `steps`, and a run that is given more of them goes on.
        """
        if self.at == arguments.record_steps(None, self.at[-1]):
            return
        missing = {at for at in self.at if at < step} - set(recorded)
        if other := missing | (set(recorded) - {*self.at, *ends}):
            what = "is not among its records" if min(other) in missing else "is recorded and not asked for"
            raise OtherWork(
                f"{kept.path} is of a run recorded at other steps (step {min(other)} {what}); name another folder or "
                "pass the same `record`"
            )

    def _due(self, step: int) -> bool:
        place = bisect.bisect_left(self.at, step)
        wanted = place < len(self.at) and self.at[place] == step
        return wanted and not (self.history and self.history[-1][0] >= step)

    def _begin(self) -> Any:
        if not self.many:
            return self.algorithm.begin(self.network, self.start, self.problem, self.key)
        axes = (0, 0, 0 if self.own_rows else None, 0)
        begin = jax.vmap(lambda a, start, problem, key: a.begin(self.network, start, problem, key), in_axes=axes)
        return begin(self.algorithm, self.start, self.problem, self.key)

    def _advance(self, state: Any, first: int, last: int) -> Any:
        state = _advance(self.network, self.algorithm, state, self.problem, first, last, self.many, self.together)
        return jax.block_until_ready(state)

    def _stretch(self, state: Any, step: int, until: int) -> tuple[Any, int]:
        """As many steps as take about `STRETCH` seconds, at most until `until`."""
        if not self.timed:
            until = min(until, step + self.together)
        else:
            blocks = int(STRETCH * self.timed / max(self.seconds, 1e-9)) // self.together
            until = min(until, step + max(1, blocks) * self.together)
        start = time.perf_counter()
        state = self._advance(state, step, until)
        self.seconds += time.perf_counter() - start
        self.timed += until - step
        return state, until

    def _record(self, state: Any, step: int) -> None:
        record = _measure(self.network, self.recorder, self.algorithm, state, self.reference, self.problem, self.many)
        # One append: ctrl-C finds the record whole or not there.
        self.history.append((step, {name: np.asarray(value, dtype=np.float64) for name, value in record.items()}))

    def _reason_to_stop(self, below: float | None) -> Stop | None:
        if not self.history:
            return None
        (step, record), first = self.history[-1], self.history[0][1]["loss"]
        if not np.isfinite(record["loss"]).any():
            return Stop("not finite", step)
        return Stop("below", step, below) if below is not None and np.all(record["loss"] <= below * first) else None

    def _interrupted(self, kept: State | None, state: Any, step: int) -> Interrupted:
        if kept is not None:
            self._keep(kept, state, step)
            where = f"nothing is lost: call again with place={os.fspath(kept.path.parent)!r}"
        else:
            where = "what was recorded is in `partial`; with a `place` the run could go on"
        partial = None if self.many or not self.history else self.trajectory(state, Stop("by hand", step))
        return Interrupted(partial, step, where)

    def _fingerprint(self, state: Any) -> str:
        """Of everything that decides the bits of the run: the program itself, its arrays, and where it runs."""
        program = _advance.lower(self.network, self.algorithm, state, self.problem, 0, 0, self.many, 1).as_text()
        place = chosen_device(self.device)
        words = (program, repr(self.recorder), self.dtype, place.platform, place.device_kind, jax.__version__)
        return fingerprint(*words, jax.tree.leaves((self.algorithm, self.start, self.key, self.problem)))

    def stacked(self) -> dict[str, np.ndarray]:
        """The records by name, steps first."""
        names = self.history[0][1] if self.history else {}
        return {name: np.stack([record[name] for _, record in self.history]) for name in names}

    @property
    def recorded(self) -> list[int]:
        """The steps recorded so far."""
        return [step for step, _ in self.history]

    def trajectory(self, state: Any, stopped: Stop) -> Trajectory:
        """What was recorded, with the parameters of `state`."""
        network, algorithm = spec_of(self.network), spec_of_algorithm(self.algorithm)
        about = {"steps": stopped.step, "algorithm": str(algorithm), "network": str(network)}
        return Trajectory(
            steps=np.array(self.recorded, dtype=np.int64),
            records=self.stacked(),
            layers=layer_names(self.start.trained),
            params=jax.tree.map(as_numpy, self.algorithm.current(state)),
            network=network,
            algorithm=algorithm,
            n=self.data.n,
            stopped=stopped,
            seconds_per_step=self.seconds / max(1, self.timed),
            digits=DIGITS[self.dtype],
            kernel_rows=self.recorder.kernel_rows,
            flip_rows=self.recorder.flip_rows,
            provenance=self.provenance(about),
        )

    def provenance(self, about: dict[str, Any]) -> Provenance:
        """What made the run: precision and device, seconds, peak memory (of the device where it says)."""
        place = chosen_device(self.device)
        stats = place.memory_stats() if place.platform != "cpu" else None
        if stats:
            about["device_peak_memory"] = stats.get("peak_bytes_in_use")
        device = device_name(self.device)
        seed = np.asarray(jax.random.key_data(self.key)).ravel()
        made = self.watch.provenance(about | {"jax": jax.__version__, "data": self.data.name}, device=device)
        return replace(made, dtype=self.dtype, seed=int(seed[-1]) if not self.many else None)


def steps_together(at: Sequence[int]) -> int:
    """The largest number of steps from `LEAST_TOGETHER` to `MOST_TOGETHER` that divides every recorded step, else 1.

    >>> steps_together([0, 400, 1000]), steps_together([0, 10, 20]), steps_together([0, 3000])
    (200, 1, 500)
    """
    common = math.gcd(*at)
    sizes = range(min(MOST_TOGETHER, common), LEAST_TOGETHER - 1, -1)
    return next((size for size in sizes if common % size == 0), 1)


def _like(array: np.ndarray, leaf: Any) -> Any:
    return (
        jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(leaf))
        if is_key(leaf)
        else jnp.asarray(array)
    )


@contextlib.contextmanager
def started(
    network: Trainee, data: Any, algorithm: AbstractAlgorithm, key: Any, params: Any, dtype: str, device: str | None
) -> Iterator[Runner]:
    """A run that is ready to go, in its precision and on its device."""
    checked_dtype(dtype, device)
    data = as_dataset(data)
    with computing(dtype, device) as kind:
        house, key = arguments.as_network(network, params), as_key(key)
        yield Runner(house, algorithm, data, arguments.initial(house, data, params, key, kind), key, dtype, device)


@accepts_old("training.train")
@arguments.options_of(Runner.run)
def train(
    network: Trainee,
    data: Any,
    algorithm: AbstractAlgorithm,
    steps: int,
    *,
    key: Any = 0,
    params: Any = None,
    dtype: str = "float64",
    device: str | None = None,
    **options: Any,
) -> Trajectory:
    """Train a network with an algorithm and record what happens on the way.

    The steps between two records run as one compiled loop. A run with a `place` that is killed goes on
    when called again and ends in the same bits (same machine, versions and device); with more `steps` it goes on too.

    Args:
        network: a network of the house, or any function `apply(params, x)` with `params=`.
        data: a `Dataset` or (X, y); its test rows are recorded too.
        algorithm: `GradientDescent`, `SGD`, ….
        steps: how many.
        key: an int or a JAX key: of the initialisation and of all draws of the algorithm.
        params: where to start: a `Params`, or the pytree of trained weights; fresh ones from `key` if None.
        record: the steps to record, or every how many; about 40, evenly in log(step), if None.
        measures: out of "outputs", "movement", "spectral", "flips", "kernel", "gradient"; all of them if None
            (outputs only while they stay below 128 MiB). Loss and accuracy are always recorded. "weights" is recorded
            where it is named: all trained weights as one row, for `op.landscape`.
        kernel_rows: the drift of the kernel is measured on that many rows.
        rows_at_once: a record sends that many rows through the network together; as many as fit if None.
        dtype: "float64", "float32", or "tf32" (float32 with products rounded to 3 digits, on NVIDIA GPUs).
        device: "cpu", "gpu" or None for the one JAX prefers.
        stop_below: stop at the first record whose loss is at most this share of the first one.
        place: a folder in which the run is kept while it goes.
        keep_every: seconds between two keepings.
        progress: called with the steps done.
    """
    steps = checks.whole_number(steps, "steps")
    with started(network, data, algorithm, key, params, dtype, device) as runner:
        state, stopped = runner.run(steps, **options)
        return runner.trajectory(state, stopped)
