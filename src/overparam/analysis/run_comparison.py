"""`train_and_compare`: predict a training run, train the network, and set the two side by side."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from overparam.analysis import run_forecast as forecast
from overparam.analysis.run_answers import Predicted, RunNumbers, RunSetting, measure_run, relative_error
from overparam.analysis.run_choices import (
    RunCost,
    at_rate,
    choose_rate,
    chosen_network,
    describe_run,
    draw_start,
    network_words,
    prepare_run,
    require_outputs,
    seed_of,
    without_law,
)
from overparam.analysis.run_forecast import RunStart, begin
from overparam.analysis.run_page import law_kind, make_run_sections
from overparam.analysis.run_verdict import give_run_verdict
from overparam.core.checks import positive, whole_number
from overparam.core.deprecated import accepts_old
from overparam.core.network import AbstractNetwork
from overparam.core.progress import Progress
from overparam.core.provenance import Provenance
from overparam.core.sections import Section, Verdict
from overparam.core.spec import spec_of
from overparam.core.words import count_of
from overparam.data import Dataset, as_dataset
from overparam.frame import AbstractAnswer, Job, Part, Plan, Work, verb
from overparam.networks import TwoLayer
from overparam.theory.iteration_laws import rounding_floor
from overparam.training import SGD, Trajectory, train
from overparam.training.arguments import record_steps, require_classes
from overparam.training.mini_batch import make_sgd
from overparam.training.precision import checked_dtype, computing, device_name

MEASURES = ("movement", "flips", "kernel", "gradient")
"""What is recorded for the comparison; outputs would fill the folder and nothing here needs them."""
KERNEL_ROWS, DEEP_KERNEL_ROWS = 200, 24
"""Rows on which the drift of the kernel is measured: of two layers from counts of signs, else from all derivatives."""


@final
@dataclass(frozen=True, eq=False)
class RunComparison(AbstractAnswer):
    """A run beside its prediction: `verdict`, `predicted`, `run`, `relative_error`, …; `save(folder)`, `op.read`.

    predicted: what was known before the first step, or None, and `reason` says why. run: the whole `Trajectory`, with
    the weights at the end. numbers: the comparison in single numbers. Arrays are at `steps`.
    """

    kind: ClassVar[str] = "run-comparison"

    setting: RunSetting
    predicted: Predicted | None
    reason: str
    numbers: RunNumbers
    verdict: Verdict
    run: Trajectory
    provenance: Provenance

    @property
    def title(self) -> str:
        return f"{self.setting.data}: a training run and its prediction"

    @property
    def steps(self) -> np.ndarray:
        """Steps at which the run was recorded, and predicted where there is a prediction."""
        return self.run.steps if self.predicted is None else self.predicted.steps

    def observed(self, name: str) -> np.ndarray | None:
        """A record of the run at `steps`, summed over layers where it has them; None where it was not recorded."""
        if name not in self.run.records:
            return None
        values = self.run.records[name][np.isin(self.run.steps, self.steps)]
        if name == "movement":
            return np.sqrt((values**2).sum(axis=1))
        return values.mean(axis=1) if values.ndim > 1 else values

    @property
    def loss(self) -> np.ndarray:
        """The training loss that was observed."""
        found = self.observed("loss")
        assert found is not None
        return found

    @property
    def relative_error(self) -> np.ndarray | None:
        """observed/predicted − 1 at `steps`: relative to the prediction, NaN where it is not finite or below rounding."""
        return None if self.predicted is None else relative_error(self.loss, self.predicted.values, self.floor)

    @property
    def floor(self) -> float:
        """Losses at or below this are rounding."""
        return rounding_floor(self.run, self.run.loss[0])

    @property
    def laziness(self) -> np.ndarray | None:
        """‖W(s) − W(0)‖_F/(√m κ), observed; without a trained output layer."""
        if "movement" not in self.run.records or self.setting.lazy_scale is None:
            return None
        return self.setting.neurons_moved(self.run)[np.isin(self.run.steps, self.steps)] / self.setting.lazy_scale

    @property
    def test_error(self) -> np.ndarray | None:
        """The share of test rows got wrong; for regression the mean square of their residuals."""
        if self.setting.task == "regression":
            squares = self.observed("test_loss")
            return None if squares is None else 2 * squares
        right = self.observed("test_accuracy")
        return None if right is None else 1 - right

    @property
    def done(self) -> str:
        steps = count_of(self.numbers.last_step, "step")
        return f"{count_of(self.setting.n, 'row')}, {steps} of {self.numbers.milliseconds_a_step:.3g} ms"

    def sections(self) -> tuple[Section, ...]:
        """The page as plain data."""
        return make_run_sections(self)

    def without_weights(self) -> RunComparison:
        """The comparison without the weights of its run."""
        return replace(self, run=self.run.without_weights())

    def __repr__(self) -> str:
        return f"RunComparison({self.setting.data!r}, {self.setting.network}: {self.verdict.sentences[0]})"


def prepare_train_and_compare(
    network: Any = None,
    data: Any = None,
    y: Any = None,
    *,
    lr: float | None = None,
    steps: int = 200,
    batch: int | None = None,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    objective: Any = "squared",
    loss: str = "sum",
    preprocess: str = "auto",
    key: Any = 0,
    params: Any = None,
    record: int | Sequence[int] | None = None,
    stop_below: float | None = None,
    keep_weights: bool = False,
    dtype: str = "float64",
    device: str | None = None,
    place: str | os.PathLike[str] | None = None,
    keep_every: float = 60.0,
    progress: Progress | None = None,
    **reading: Any,
) -> Job[RunComparison]:
    """Predict a run from the kernel of infinite width, then train, and compare at every recorded step.

        predicted loss(s) = ½ r0ᵀ (I − ηH)^{2s} r0,  r0 = y − u(0), u(0) the drawn network's outputs

    The prediction is made before the first step: the loss with its bracket, how far the weights will move, how lazy the
    run will be, and the error on test rows. Heavy ball has its own law. A network without a kernel of infinite width is
    predicted by its own kernel at its drawn weights, where that can be made. Mini-batches, weight decay and other
    objectives have no law; the run is then shown by itself.

    Ref: fine_grained, Thm 4.1, Eq. (8), Lemma 5.3

    Assumes: infinite width; the laziness of the run, predicted and observed, says how nearly that is so.

    Differs from the paper: u(0) ≠ 0 is allowed; any network whose kernel is known; momentum.

    Args:
        network: one of `op.networks`, or a function `apply(params, x)` with `params`; None takes a paired two-layer
            network of width 4,000, which starts at 0.
        data, y: a name or path that `op.load` knows, a `Dataset`, `X` and `y`, `(X, y)`, or a frame; test rows are
            compared too.
        lr: the rate, of the loss named by `loss`; None takes half the largest stable one, or a guess (ramp).
        steps: how many.
        batch: rows a step; None for all.
        momentum: β of heavy ball.
        weight_decay: added to the gradient as decay·W.
        objective: "squared", "cross-entropy", "ramp", "smooth-absolute" or an `AbstractLoss`.
        loss: "sum" (the papers') or "mean": what the rate refers to and what is recorded.
        preprocess: as `op.data.preprocess`, but "auto" leaves the rows of a function as they are; regression targets
            are centred and scaled to variance 1.
        key: an int or a JAX key, of the initialisation and the batches.
        params: where to start; fresh weights from `key` if None.
        keep_weights: record all trained weights at every recorded step, for `op.landscape` and the plane of the run.
        place: a folder in which finished parts are kept, and the run every `keep_every` seconds, so that a stopped one goes on.
        record, stop_below, dtype, device, keep_every, progress: see `op.training.train`.
        reading: label, group, classes, train, test, task, missing: as in `op.load`.

    Two orthogonal unit rows have H = ½ I, so that a step at rate 1 halves the residual:

    >>> found = train_and_compare(None, ([[1.0, 0.0], [0.0, 1.0]], [1, -1]), lr=1.0, steps=2, preprocess="none")
    >>> found.predicted.values.round(9).tolist(), bool(abs(found.numbers.largest_error) < 0.2)
    ([1.0, 0.25, 0.0625], True)
    """
    if data is None:  # one argument is the data
        network, data = None, network
    checked_dtype(dtype, device)
    how = make_sgd(1.0, batch=batch, momentum=momentum, weight_decay=weight_decay, objective=objective, loss=loss)
    chosen, seed = record_steps(record, whole_number(steps, "steps")), seed_of(key)
    house = chosen_network(network, params)
    ready = prepare_run(as_dataset(data, y, key=seed, **reading), preprocess, house)
    require_outputs(house, ready)
    require_classes(how.objective, ready.y)
    if lr is not None:
        positive(lr, "lr")
    elif isinstance(house, TwoLayer) and house.kappa == 0:
        raise ValueError("`lr` is missing, and a network that starts at 0 everywhere has no kernel to compute one from")
    cost = RunCost(house, ready, how, lr, params, steps, len(chosen), keep_weights, dtype, device)
    words = network_words(house, str(spec_of(house)))
    measures = (*MEASURES, "weights") if keep_weights else MEASURES
    trained = (house, how, dtype, steps, key, tuple(chosen), measures, stop_below)
    parts = [
        Part("start", _start, (house, ready, dtype, params, key), kept=False),
        Part(
            "prediction", _foretell, (how, dtype, lr, tuple(chosen), seed), ("start",), cost.prediction_guess, Foretold
        ),
        Part(
            "run", _run, trained, ("start", "prediction"), cost.run_guess, Trajectory, beside={"keep_every": keep_every}
        ),
    ]
    about = {"data": ready.name, "network": words, "steps": steps, "loss": loss, "preprocess": preprocess}
    return Job(
        "train_and_compare",
        parts,
        _conclude,
        plan=Plan(
            f"{words} on {ready.name}: {count_of(ready.n, 'row')} of {count_of(ready.d, 'feature')}",
            memory=cost.memory,
            free_memory=cost.free_memory,
            device=device_name(device),
            dtype=dtype,
            details={"weights": cost.weights, "steps": steps, "records": len(chosen)},
            fix="take fewer rows, a narrower network or float32",
        ),
        provenance=Provenance(about, seed=seed, dtype=dtype, device=device_name(device)),
        timed=cost.measured,
        device=device,
        place=place,
        progress=progress,
    )


def _is_old_order(first: Any, second: Any) -> bool:
    """Whether the data came before the network."""
    return second is None or isinstance(second, AbstractNetwork) or (callable(second) and not hasattr(second, "X"))


train_and_compare = accepts_old("train_and_compare", _is_old_order)(verb(prepare_train_and_compare))


@final
@dataclass(frozen=True, eq=False)
class Foretold:
    """What was known before the first step: the setting with its rate, the prediction or why there is none, and from which width
    and κ the same run would be lazy."""

    setting: RunSetting
    predicted: Predicted | None
    reason: str
    lazy_width: float | None
    lazy_kappa: float | None


def _start(work: Work, house: AbstractNetwork, data: Dataset, dtype: str, params: Any, key: Any) -> RunStart:
    with computing(dtype, work.device) as kind:
        weights = draw_start(house, data, params, key, kind)
    return begin(house, data, weights, dtype, work.device)


def _foretell(
    work: Work, how: SGD, dtype: str, lr: float | None, chosen: tuple[int, ...], seed: int, start: RunStart
) -> Foretold:
    """The law of the run, its rate, and what it says at every recorded step."""
    reason = without_law(how, start.data.n)
    law, missing = forecast.limit_law(start, work.progress) if not reason or lr is None else (None, "")
    own = forecast.own_law(start, work.progress) if not reason or (lr is None and law is None) else None
    law = law or own
    rate, limit, rate_by = choose_rate(lr, law, how, start)
    predicted, lazy = None, (None, None)
    if not reason and law is not None:
        predicted = forecast.foretell(start, law, own, list(chosen), rate, how, key=seed, progress=work.progress)
        lazy = forecast.lazy_choices(start, law, predicted, rate, how)
    setting = describe_run(start, how, dtype, rate, limit, rate_by)
    return Foretold(setting, predicted, reason or missing, *lazy)


def _run(
    work: Work, house: AbstractNetwork, how: SGD, dtype: str, steps: int, key: Any, chosen: tuple[int, ...],
    measures: tuple[str, ...], stop_below: float | None, start: RunStart, foretold: Foretold, *, keep_every: float,
) -> Trajectory:  # fmt: skip
    return train(
        house, start.data, at_rate(how, foretold.setting.lr, start.data.n), steps, key=key, params=start.params,
        record=list(chosen), measures=measures, kernel_rows=KERNEL_ROWS if isinstance(house, TwoLayer) else DEEP_KERNEL_ROWS,
        dtype=dtype, device=work.device, stop_below=stop_below, place=work.place, keep_every=keep_every, progress=work.progress,
    )  # fmt: skip


def _conclude(found: Mapping[str, Any], made: Provenance) -> RunComparison:
    run, foretold = found["run"], found["prediction"]
    setting = foretold.setting
    predicted = None if foretold.predicted is None else foretold.predicted.at(run.steps)
    numbers = measure_run(setting, predicted, run, (foretold.lazy_width, foretold.lazy_kappa))
    about = {**made.configuration, "algorithm": str(run.algorithm)}
    peak = run.provenance.configuration.get("device_peak_memory")
    if peak is not None:
        about["device_peak_memory"] = peak
    verdict = give_run_verdict(setting, predicted, numbers, foretold.reason, str(run.stopped), law_kind(run))
    made = replace(made, configuration=about)
    return RunComparison(setting, predicted, foretold.reason, numbers, verdict, run, made)
