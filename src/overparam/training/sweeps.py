"""Many runs as one program: rates, decays and seeds are an axis of the arrays, one compilation for one width."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core import checks, sections
from overparam.core.deprecated import accepts_old
from overparam.core.network import Params, as_key
from overparam.core.provenance import Provenance
from overparam.core.sections import Verdict
from overparam.core.spec import Spec, spec_of
from overparam.core.trees import as_numpy, stacked
from overparam.core.words import count_of
from overparam.data import Dataset, as_dataset
from overparam.frame import AbstractAnswer
from overparam.training.algorithm import spec_of_algorithm
from overparam.training.arguments import Trainee, as_network, initial, options_of, taken
from overparam.training.loop import Runner
from overparam.training.mini_batch import make_sgd
from overparam.training.precision import checked_dtype, computing
from overparam.training.trajectory import Stop, mean_over_steps


@final
@dataclass(frozen=True, eq=False)
class Sweep(AbstractAnswer):
    """The records of many runs; every record has the run as its first axis and the step as its second.

    lr, weight_decay, seed: (runs,) what each run had. algorithm: what they share. params: the weights at the end, runs first, or None.
    layers: where each layer had its own rate, the layers' names; `lr` is then (runs, layers), a column a layer.
    """

    lr: np.ndarray
    weight_decay: np.ndarray
    seed: np.ndarray
    steps: np.ndarray
    records: Mapping[str, np.ndarray]
    network: Spec
    algorithm: Spec
    stopped: Stop
    seconds_per_step: float
    params: Params | None = field(default=None, metadata={"stored": False})
    layers: tuple[str, ...] = ()
    provenance: Provenance = field(default_factory=Provenance)

    kind: ClassVar[str] = "sweep"

    def __repr__(self) -> str:
        return f"Sweep({self.network}, {self.algorithm}: {count_of(self.runs, 'run')} of {count_of(int(self.steps[-1]), 'step')})"

    @property
    def runs(self) -> int:
        return len(self.lr)

    def final(self, name: str = "loss") -> np.ndarray:
        """The last value of a record, (runs, …)."""
        return self._record(name)[:, -1]

    def averaged(self, name: str = "loss") -> np.ndarray:
        """The mean of a record over the iterates 0 … T − 1, (runs, …), as theorems on SGD state it."""
        return mean_over_steps(self.steps, np.moveaxis(self._record(name), 1, 0))

    def _record(self, name: str) -> np.ndarray:
        if name not in self.records:
            raise ValueError(f"this sweep has no {name!r}; it recorded {', '.join(self.records)}")
        return self.records[name]

    def best(self, name: str | None = None) -> int:
        """The run whose last value of `name` is smallest (largest for accuracies); runs that diverged do not count.

        `name` is "test_loss" where there are test rows, else "loss", if None.
        """
        name = name or self._judged_by
        values = self.final(name)
        if values.ndim != 1:
            raise ValueError(f"{name!r} is not one number a run; choose by a loss or an accuracy")
        values = -values if "accuracy" in name else values
        values = np.where(self.diverged, np.nan, values)
        if not np.isfinite(values).any():
            raise ValueError("every run diverged; sweep smaller rates")
        return int(np.nanargmin(np.where(np.isfinite(values), values, np.nan)))

    @property
    def diverged(self) -> np.ndarray:
        """(runs,) whether a run ended with a loss that is not finite or above its first one."""
        return ~(self.records["loss"][:, -1] <= self.records["loss"][:, 0])

    @property
    def _judged_by(self) -> str:
        return "test_loss" if "test_loss" in self.records else "loss"

    def over_seeds(self, name: str | None = None) -> list[tuple[Any, float, float, float]]:
        """(lr, decay, mean, standard error) of the last value over the seeds, a setting a row; NaN for one seed.

        lr is a number, or a tuple with the rate of each of `layers`.
        """
        values, rows = self.final(name or self._judged_by), []
        settings = [(_plain(lr), decay) for lr, decay in zip(self.lr.tolist(), self.weight_decay.tolist(), strict=True)]
        for setting in dict.fromkeys(settings):
            own = values[[one == setting for one in settings]]
            finite = len(own) > 1 and bool(np.isfinite(own).all())
            with np.errstate(over="ignore"):
                spread = float(own.std(ddof=1) / np.sqrt(len(own))) if finite else float("nan")
                rows.append((*setting, float(own.mean()), spread))
        return rows

    def _rate(self, lr: Any) -> str:
        """A rate, or those of the layers, in words."""
        if not self.layers:
            return f"{lr:g}"
        return ", ".join(f"{layer} {rate:g}" for layer, rate in zip(self.layers, lr, strict=True))

    @property
    def title(self) -> str:
        return f"Sweep of {self.network}"

    @property
    def verdict(self) -> Verdict:
        """The best run, in a sentence."""
        lost = int(self.diverged.sum())
        if lost == self.runs:
            return Verdict("bad", (f"All of {count_of(self.runs, 'run')} diverged; sweep smaller rates.",))
        best, name = self.best(), self._judged_by
        setting = f"rate {self._rate(self.lr[best])}, decay {self.weight_decay[best]:g}, seed {int(self.seed[best])}"
        told = f"The least {name.replace('_', ' ')} of {count_of(self.runs, 'run')} is {self.final(name)[best]:.4g}, at {setting}."
        return Verdict("good", (told, *([f"{count_of(lost, 'run')} diverged."] if lost else [])))

    def sections(self) -> tuple[sections.Section, ...]:
        """The verdict, one table of settings and one figure of the losses."""
        name = self._judged_by
        rows = tuple((self._rate(lr) if self.layers else lr, *rest) for lr, *rest in self.over_seeds(name))
        words = name.replace("_", " ")
        table = sections.Table(("rate", "decay", f"last {words}", "standard error"), rows)
        drawn = tuple(
            sections.series(f"rate {self._rate(lr)}, decay {decay:g}, seed {seed}", self.steps, values)
            for lr, decay, seed, values in zip(self.lr, self.weight_decay, self.seed, self.records[name], strict=True)
        )
        figure = sections.Figure(f"{words} of every run", f"{words} by step.", "step", words, drawn[:12], y_scale="log")
        text = f"{self.network}, {self.algorithm}: {count_of(self.runs, 'run')} as one program; {self.stopped}."
        blocks = (*self.verdict.section.blocks, sections.Text(text), table, figure)
        return (sections.Section("The sweep", blocks),)


@accepts_old("training.side_by_side")
@options_of(make_sgd, Runner.run)
def side_by_side(
    network: Trainee,
    data: Any,
    settings: Sequence[tuple[float | Mapping[str, float], float, int]],
    steps: int,
    *,
    params: Any = None,
    measures: Sequence[str] = ("movement",),
    kernel_rows: int = 0,
    dtype: str = "float64",
    device: str | None = None,
    keep_params: bool = False,
    **options: Any,
) -> Sweep:
    """Runs of any settings, each on rows of its own where asked, trained as one vectorised program.

    Where the recorded steps have a large common divisor (`record=200`), steps go in blocks of known length whose
    batches are drawn at once: on a GPU a step of a small network then takes a fraction of the time.

    Args:
        network: a network of the house, or any function `apply(params, x)` with `params=`.
        data: one data set; or a list of them, one a run, all of one shape. Rows may be repeated to get there: a mean
            over them, and an epoch, are then those of the rows repeated.
        settings: (lr, weight_decay, key) of every run; lr a number, or in every run a rate for each layer by name.
        steps: how many, the same for all.
        params: where all start, or a list of `Params`, one a run; fresh weights from each key if None.
        measures, kernel_rows, dtype, device: see `train`.
        keep_params: keep all final weights.
        options: of SGD, batch (None, all rows, if not given), momentum, nesterov, schedule, sampling, objective, loss;
            and of `train`, record, rows_at_once, stop_below, place, keep_every, progress. It stops when every run is
            below, or none is finite.

    A linear neuron on x = ±1, y = x; at rate ½ it is there after one step:

    >>> found = side_by_side(lambda w, x: x[:, 0] * w, ([[1.0], [-1.0]], [1.0, -1.0]),
    ...                      [(0.25, 0.0, 0), (0.5, 0.0, 7)], steps=1, params=0.0)
    >>> found.final("loss").tolist(), found.seed.tolist()
    ([0.25, 0.0], [0, 7])
    """
    checked_dtype(dtype, device)
    steps, settings = checks.whole_number(steps, "steps"), _checked(settings)
    runs = len(settings)
    sets = _sets(data, runs)
    given = _starts(params, runs, "the settings") or [params] * runs
    of_sgd = taken(options, make_sgd)
    algorithms = [make_sgd(rate, weight_decay=decay, **of_sgd) for rate, decay, _ in settings]
    layers = _named(settings)
    with computing(dtype, device) as kind:
        house = as_network(network, given[0])
        first = sets if isinstance(sets, Dataset) else sets[0]
        drawn: dict[Any, Params] = {}  # one draw for all runs of a key
        for start, (_, _, seed) in zip(given, settings, strict=True):
            if (id(start), seed) not in drawn:
                drawn[id(start), seed] = initial(house, first, start, seed, kind)
        starts = [drawn[id(start), seed] for start, (_, _, seed) in zip(given, settings, strict=True)]
        start = stacked(*starts)
        algorithm = jax.tree.map(partial(_stacked, kind), *algorithms)
        stacked_keys = jnp.stack([as_key(seed) for _, _, seed in settings])
        runner = Runner(house, algorithm, sets, start, stacked_keys, dtype, device, runs=runs)
        state, stopped = runner.run(steps, measures=measures, kernel_rows=kernel_rows, **options)
        records = {name: np.moveaxis(values, 0, 1) for name, values in runner.stacked().items()}
        last = jax.tree.map(as_numpy, jax.vmap(lambda a, s: a.current(s))(algorithm, state)) if keep_params else None
        shared = spec_of_algorithm(algorithms[0])
        shared = replace(shared, fields={n: v for n, v in shared.fields.items() if n not in ("lr", "weight_decay")})
        return Sweep(
            lr=np.array([[s[0][name] for name in layers] if layers else s[0] for s in settings], dtype=np.float64),
            weight_decay=np.array([s[1] for s in settings], dtype=np.float64),
            seed=np.array([s[2] for s in settings], dtype=np.int64),
            steps=np.array(runner.recorded, dtype=np.int64),
            records=records,
            network=spec_of(house),
            algorithm=shared,
            stopped=stopped,
            seconds_per_step=runner.seconds / max(1, runner.timed),
            params=last,
            layers=layers,
            provenance=runner.provenance({"steps": stopped.step, "runs": runs, "algorithm": str(shared)}),
        )


@accepts_old("training.sweep")
@options_of(side_by_side)
def sweep(
    network: Trainee,
    data: Any,
    lr: float | Mapping[str, float] | Sequence[float] | Sequence[Mapping[str, float]],
    steps: int,
    *,
    weight_decay: float | Sequence[float] = 0.0,
    keys: int | Sequence[int] = 0,
    params: Any = None,
    **options: Any,
) -> Sweep:
    """Every rate with every decay with every seed, trained side by side as one vectorised program.

    A run of it is the run that `sgd` makes with that rate, decay and key, up to rounding.

    Args:
        network: a network of the house, or any function `apply(params, x)` with `params=`.
        data: a `Dataset` or (X, y).
        lr, weight_decay, keys: what to combine; a rate is a number or a dictionary of one for each layer by name, a key an
            int, of the initialisation and the batches of its runs.
        steps: how many, the same for all.
        params: where all start, or a list with one `Params` for each key (such as initial weights of several sizes);
            fresh weights from each key if None.
        options: see `side_by_side`.

    A linear neuron on x = ±1, y = x; at rate ½ it is there after one step:

    >>> found = sweep(lambda w, x: x[:, 0] * w, ([[1.0], [-1.0]], [1.0, -1.0]), [0.25, 0.5], steps=1, params=0.0)
    >>> found.final("loss").tolist(), found.best()
    ([0.25, 0.0], 1)
    """
    seeds = [checks.whole_number(seed, "keys") for seed in _several(keys)]
    starts = _starts(params, len(seeds), "`keys`")
    combined = list(itertools.product(_several(lr), _several(weight_decay), range(len(seeds))))
    if not combined:
        raise ValueError("`lr`, `weight_decay` and `keys` need at least one value each")
    settings = [(rate, decay, seeds[place]) for rate, decay, place in combined]
    params = params if starts is None else [starts[place] for _, _, place in combined]
    return side_by_side(network, as_dataset(data), settings, steps, params=params, **options)


def _starts(params: Any, count: int, of: str) -> list[Params] | None:
    """A list of starts, checked for their number; None where `params` is one start, or none, for all."""
    if not (isinstance(params, list | tuple) and params and all(isinstance(one, Params) for one in params)):
        return None
    if len(params) != count:
        raise ValueError(
            f"`params` has {count_of(len(params), 'start')} and {of} {count}; give as many, or one for all"
        )
    return list(params)


def _stacked(kind: Any, *leaves: Any) -> Any:
    """Numbers of all runs as one array; steps stay whole numbers."""
    return jnp.asarray(leaves) if all(isinstance(leaf, int) for leaf in leaves) else jnp.asarray(leaves, kind)


def _named(settings: Sequence[tuple[Any, float, int]]) -> tuple[str, ...]:
    """The layers that have rates of their own, the same in every run; none where each run has one rate."""
    every = [tuple(sorted(map(str, lr))) if isinstance(lr, Mapping) else () for lr, _, _ in settings]
    other = next((names for names in every if names != every[0]), None)
    if other is not None:
        said = " and ".join(", ".join(names) or "one for all" for names in (every[0], other))
        raise ValueError(f"`lr` has rates of different layers in different runs ({said}); name the same ones in each")
    return every[0]


def _checked(settings: Sequence[tuple[Any, float, int]]) -> list[tuple[Any, float, int]]:
    settings = [] if settings is None else list(settings)
    if not settings:
        raise ValueError("`settings` is empty; expected (lr, weight_decay, key) of at least one run")
    wrong = [s for s in settings if not isinstance(s, list | tuple | np.ndarray) or len(s) != 3 or any(map(np.ndim, s))]
    if wrong:
        raise ValueError(f"`settings` has {wrong[0]!r}; expected (lr, weight_decay, key) of a run")
    return [(rate, decay, checks.whole_number(key, "keys")) for rate, decay, key in settings]


def _sets(data: Any, runs: int) -> Dataset | list[Dataset]:
    """One data set for all, or one a run, all of one shape."""
    if not (isinstance(data, list) and data and all(isinstance(one, Dataset) for one in data)):
        return as_dataset(data)
    if len(data) != runs:
        raise ValueError(
            f"`data` has {len(data)} data sets and there are {count_of(runs, 'run')}; give one a run, or one for all"
        )
    shapes = [(d.X.shape, d.y.shape, None if d.test is None else (d.test.X.shape, d.test.y.shape)) for d in data]
    other = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), None)
    if other is not None:
        raise ValueError(
            f"data set {other} has rows of another shape or number than the first one; repeat rows to the largest number"
        )
    return data


def _plain(lr: Any) -> Any:
    return tuple(lr) if isinstance(lr, list) else lr


def _several(values: Any) -> list[Any]:
    """One value or several, as a list."""
    return [values] if np.ndim(values) == 0 else list(values)
