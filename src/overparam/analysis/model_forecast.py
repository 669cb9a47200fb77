"""`foresee`: what full-batch training will do with the user's own model, from its tangent kernel on the user's rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from overparam.analysis.data_doubts import scale_ratio
from overparam.analysis.model_forecast_page import give_forecast_words, make_forecast_sections
from overparam.analysis.model_law import (
    DENSE,
    HORIZON,
    TOP_PRODUCTS,
    Curvature,
    Followed,
    LinearDescent,
    curvature_of,
    follow,
)
from overparam.analysis.model_runs import RUN_STEPS, DivergenceRange, ShortRuns, make_runs, range_told, stable_rate
from overparam.analysis.model_subject import Criterion, Subject, squashed_by, subject_of, within_memory
from overparam.core.bracketed import Bracketed, rounding_within
from overparam.core.checks import one_of, positive, share, whole_number
from overparam.core.machine import available_memory
from overparam.core.progress import Progress, silent
from overparam.core.provenance import Provenance
from overparam.core.sections import Section, Verdict
from overparam.core.spec import Spec
from overparam.core.words import count_of
from overparam.data import Dataset, as_dataset, preprocess
from overparam.data.scaling import standardise_targets
from overparam.frame import AbstractAnswer, Job, Part, Plan, Work, verb
from overparam.theory.rates import loss_scale
from overparam.training import SGD, GradientDescent

MOST_ROWS = 1_000
"""Rows that are used where nobody says how many."""
OBJECTIVES = ("squared", "cross_entropy")
OTHERWISE = ("weight_decay", "nesterov", "dampening", "maximize", "batch", "schedule")
"""Settings of an optimiser that the law does not know."""
TARGETS = (0.5, 0.1, 0.01)
"""Shares of the first loss whose steps are told."""
LAW, RUNS, DESCENT = "tangent kernel", "short runs", "the model's own steps"
"""The parts of the work."""


@final
@dataclass(frozen=True)
class StepsToShare:
    """The first step at which the law's loss is at most this share of the first one; None beyond ten million."""

    share: float
    loss: float
    steps: int | None
    believed: bool | None
    """Whether that is before the step until which the law is to be believed."""


@final
@dataclass(frozen=True, eq=False)
class Forecast(AbstractAnswer):
    """What full-batch training of a model will do, as far as its tangent kernel at the start tells.

    model, framework, weights: whose forecast. rows, source_rows, features, outputs: used, there were, a row. objective,
    loss, targets: what is minimised, in words; every rate is for that loss. rate: the one the curve is for; rate_by: how
    it was chosen, empty where it was given. limit: 2/λ_max, with momentum μ 2(1 + μ)/λ_max: the largest rate at which the
    linear law does not grow. diverges: where the model itself begins to diverge; None where nothing is known.
    spectrum, masses: λ_j and a_j²/nk of the law; curve_steps, curve: its loss; reached: steps to some losses; followed: the model's own steps beside it; all
    None or empty where there is no law. runs: None where none were made. products: with Jacobians, 0 where the matrix of
    rows and outputs was made. training: whether the model came in training mode. precision: of its weights. squashed:
    "softmax" or "sigmoid" where its outputs look as if they went through one, else empty. scales: of a table, how many
    times as much its widest column varies as its narrowest.
    """

    kind: ClassVar[str] = "forecast"

    model: Spec
    framework: str
    weights: int
    data: str
    rows: int
    source_rows: int
    features: int
    outputs: int
    objective: str
    loss: str
    targets: str
    momentum: float
    rate: float
    rate_by: str
    limit: Bracketed
    lambda_max: float
    products: int
    batch_norm: bool
    dropout: bool | None
    training: bool
    precision: str
    squashed: str
    diverges: DivergenceRange | None
    first_loss: float
    spectrum: np.ndarray
    masses: np.ndarray
    curve_steps: np.ndarray
    curve: np.ndarray
    reached: tuple[StepsToShare, ...]
    followed: Followed | None
    runs: ShortRuns | None
    notes: tuple[str, ...]
    verdict: Verdict
    provenance: Provenance
    scales: float | None = None

    @property
    def title(self) -> str:
        return f"{self.data}: what training {self.model} will do"

    @property
    def believe_until(self) -> int | None:
        """The step until which the curve is within a tenth of the model's own loss, 0 where the first step leaves it.

        None where there is no curve.
        """
        return None if self.followed is None else self.followed.until

    @property
    def safe_rate(self) -> float:
        """Half of what neither the law nor, where they were made, the runs call unstable."""
        return min(self.limit.value, self.limit.value if self.diverges is None else self.diverges.lower) / 2

    def loss_at(self, steps: Any, lr: float | None = None) -> np.ndarray:
        """The law's loss after each number of steps, at any rate; that of the curve if None.

        It is not to be believed beyond `believe_until`, which is for the rate of the curve.
        """
        if not len(self.masses):
            raise ValueError("this forecast has no law: it is of the cross-entropy, or of a model with batch norm")
        rate = self.rate if lr is None else positive(lr, "lr")
        return LinearDescent(self.spectrum, self.masses, rate, self.momentum).loss(steps)

    @property
    def done(self) -> str:
        return f"{count_of(self.rows, 'row')}, {count_of(self.weights, 'weight')}, {self.framework}"

    def sections(self) -> tuple[Section, ...]:
        """The page as plain data."""
        return make_forecast_sections(self)

    def __repr__(self) -> str:
        return f"Forecast({self.model} on {self.data}: {self.verdict.sentences[0]})"


def prepare_foresee(
    model: Any,
    data: Any,
    y: Any = None,
    *,
    objective: str = "squared",
    optimizer: Any = "sgd",
    lr: float | None = None,
    momentum: float | None = None,
    probe: bool | None = None,
    params: Any = None,
    preprocess: str = "none",
    max_rows: int | None = None,
    key: int = 0,
    dtype: str = "float64",
    device: str | None = None,
    place: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **reading: Any,
) -> Job[Forecast]:
    """What full-batch training will do with this very model: stable rates, the curve, and until when to believe it.

        loss(s) = (1/nk) Σ_j a_j² (1 − ηλ_j)^{2s},  λ_j of (2/nk) Θ,  Θ the model's own tangent kernel on the rows

    Squared loss, averaged over rows and outputs as `torch.nn.MSELoss()` does: the largest rate that is stable without
    leaving the start, the range in which training begins to diverge, the curve, steps to some losses, and the step until
    which the curve is within a tenth of the loss of the model itself, whose steps are followed. Cross-entropy: the
    curvature at the start says little about divergence; `probe=True` measures it.

    The model is taken in evaluation mode, so that dropout is off and batch norm uses its running averages; in short runs
    of a PyTorch module batch norm averages over the batch. Nothing of the user's is changed: neither the model nor its
    mode, nor the random state.

    Ref: fine_grained, Thm 4.1, Eq. (8)

    Assumes: full batches; no weight decay, no schedule.

    Differs from the paper: any model, by its own kernel at its start instead of that of infinite width.

    Args:
        model: a `torch.nn.Module`, an Equinox model, an `nnx.Module`, what `op.from_torch`, `op.from_flax`, `op.from_equinox`
            give, a network of the house, or a function of (params, x) with `params=`.
        data, y: a `Dataset`, (X, y), X and y, a frame, a file or a name; rows as the model is trained on them. Two classes
            are targets ±1, or two outputs; more are one-hot less 1/k.
        objective: "squared" or "cross_entropy".
        optimizer: "sgd", or an optimiser that has its rate and momentum: `torch.optim.SGD`, `op.training.SGD` or
            `GradientDescent`, whose rate for a sum or for ½ the square is turned into one for the loss here. It is read,
            never stepped.
        lr: the rate of the curve, for the mean loss named above; half of what is safe if None.
        momentum: of heavy ball, as PyTorch's SGD has it; 0 if None.
        probe: whether short runs over a grid of rates are made, on a copy: fifty steps each, with momentum 150; None makes
            them for the squared loss alone.
        params: weights of a network of the house or of a function; fresh ones from `key` if None.
        preprocess: how rows are scaled first, as in `op.analyze`; regression targets are then scaled too.
        max_rows: most rows to use; 1,000 if None.
        key: of fresh weights, and of the order of a table.
        dtype: "float64": derivatives are computed in it whatever the model has; short runs are in the model's own.
        device: where JAX computes; a PyTorch module stays where it is.
        place: a folder in which finished parts are kept; nothing is kept if None.
        progress: called on the way.
        reading: label, group, classes, train, test, task, missing: as in `op.load`.

    A line through two points of slope 1, started at 0: λ of (2/n) Σ x² is 2, so that rates up to 1 are stable.

    >>> found = foresee(lambda w, x: x[:, 0] * w, ([[1.0], [-1.0]], [1.0, -1.0]), params=np.array(0.0), lr=0.25)
    >>> round(found.limit.value, 9), found.first_loss, [round(float(v), 9) for v in found.curve[:3]]
    (1.0, 1.0, [1.0, 0.25, 0.0625])
    """
    (progress or silent)(0.0, None, "reading")
    objective = one_of(str(objective).replace("-", "_"), "objective", OBJECTIVES)
    one_of(dtype, "dtype", ("float64",), "derivatives are computed in float64 only")
    lr, momentum, convention = _from_optimizer(optimizer, lr, momentum)
    key = whole_number(key, "key")
    rows, whole = rows_of_model(as_dataset(data, y, key=key, **reading), preprocess, max_rows, key)
    with within_memory(rows.n):
        subject = subject_of(model, rows, params, key, device)
        subject.outputs  # noqa: B018  computed once, here, where there may be too little memory
    criterion, targets = criterion_of(rows, subject.outputs.shape[1], objective, str(subject.spec))
    lr = lr if lr is None else lr * _as_mean(convention, objective, criterion.targets)
    squared, law = objective == "squared", objective == "squared" and not subject.batch_norm
    linear = (
        law and subject.linear
    )  # then the stable rate is the one at which training diverges: nothing is left to measure
    tries = (squared and not linear) if probe is None else bool(probe)
    gradient, (entries, k) = _seconds(subject), (subject.outputs.size, subject.outputs.shape[1])
    of_law = gradient * (3 * k if entries <= DENSE else 500)
    parts = [Part(LAW, _law, (subject, criterion, key), (), of_law, Curvature)]
    if tries:
        of_runs = 12 * RUN_STEPS[momentum > 0] * gradient
        parts.append(Part(RUNS, make_runs, (subject, criterion, objective, momentum), (LAW,), of_runs, ShortRuns))
    if law:
        needs = (LAW, RUNS) if tries else (LAW,)
        given = (subject, criterion, lr, momentum)
        parts.append(Part(DESCENT, _followed, given, needs, 200 * gradient, Followed))
    about = {
        "data": rows.name, "network": str(subject.spec), "framework": subject.framework, "objective": objective,
        "lr": lr, "momentum": momentum, "probe": tries, "rows": rows.n, "preprocess": preprocess, "notes": list(rows.notes),
    }  # fmt: skip
    plan = Plan(
        f"a forecast of {subject.spec} on {count_of(rows.n, 'row')} of {rows.name}, {count_of(subject.weights, 'weight')}",
        memory=_memory(subject),
        free_memory=int(available_memory()),
        device=device or "cpu",
        details={"framework": subject.framework, "entries": entries, "short runs": tries},
    )

    def conclude(found: Mapping[str, Any], provenance: Provenance) -> Forecast:
        curvature, runs, followed = found[LAW], found.get(RUNS), found.get(DESCENT)
        limit = _limit(curvature, momentum)
        diverges = None
        if squared and not (subject.batch_norm and runs is None):
            diverges = _diverges(subject, limit, momentum, runs)
        rate, rate_by = _chosen_rate(lr, subject, limit, momentum, runs)
        steps, values, masses, reached = np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), ()
        if law:
            descent = _descent(subject, criterion, curvature, rate, momentum)
            steps = np.unique(np.concatenate([[0], np.geomspace(1, HORIZON, 120).round()])).astype(np.int64)
            values, masses, reached = descent.loss(steps), descent.masses, _reached(descent, followed)
        answer = Forecast(
            model=subject.spec, framework=subject.framework, weights=subject.weights, data=rows.name, rows=rows.n,
            source_rows=whole, features=rows.d, outputs=k, objective=objective, loss=criterion.words,
            targets=targets, momentum=momentum, rate=rate, rate_by=rate_by, limit=limit, lambda_max=curvature.largest,
            products=curvature.products, batch_norm=subject.batch_norm, dropout=subject.dropout, training=subject.training,
            precision=subject.precision, squashed=squashed_by(subject.outputs) if rows.classes else "", diverges=diverges,
            first_loss=criterion.value(subject.outputs), spectrum=curvature.values, masses=masses, curve_steps=steps, curve=values, reached=reached,
            followed=followed, runs=runs, notes=rows.notes, verdict=Verdict("good", ()), provenance=provenance,
            scales=scale_ratio(np.asarray(rows.X, dtype=np.float64)) if rows.kind == "table" else None,
        )  # fmt: skip
        return replace(answer, verdict=give_forecast_words(answer))

    return Job(
        "foresee", parts, conclude, plan=plan, provenance=Provenance(about, seed=key, device=device or "cpu"),
        device=device, place=place, progress=progress,
    )  # fmt: skip


foresee = verb(prepare_foresee)


def _from_optimizer(optimizer: Any, lr: Any, momentum: Any) -> tuple[float | None, float, str]:
    """Rate, momentum and the convention of the rate ("" for the losses here), from the optimiser where it has them.

    One line for an optimiser that is not plain descent or heavy ball on full batches.
    """
    found: dict[str, Any] = {}
    if isinstance(optimizer, SGD | GradientDescent):
        found = {name: getattr(optimizer, name, None) for name in ("lr", "momentum", "loss", *OTHERWISE)}
    elif type(optimizer).__name__ == "SGD" and hasattr(optimizer, "param_groups"):
        if len(optimizer.param_groups) != 1:
            raise ValueError("`optimizer` has several groups of weights with settings of their own; expected one")
        found = dict(optimizer.param_groups[0])
    elif not isinstance(optimizer, str) or optimizer.lower() not in ("sgd", "plain"):
        name = repr(optimizer) if isinstance(optimizer, str) else f"a {type(optimizer).__name__}"
        raise ValueError(
            f"`optimizer` is {name}; expected 'sgd' (with `momentum=`), a torch.optim.SGD, or an SGD of op.training: what "
            "others do is not known from the curvature"
        )
    odd = [name for name in OTHERWISE if found.get(name)]
    if odd:
        raise ValueError(
            f"`optimizer` has {odd[0]}; the law is that of plain descent and of heavy ball on full batches: leave it out"
        )
    convention = found.get("loss", "") if lr is None else ""
    lr = found.get("lr") if lr is None else lr
    momentum = (found.get("momentum") or 0.0) if momentum is None else momentum
    return None if lr is None else positive(lr, "lr"), share(momentum, "momentum", zero=True), convention


def _as_mean(convention: str, objective: str, targets: np.ndarray) -> float:
    """What turns a rate of the house's convention into one for the mean loss."""
    if not convention:
        return 1.0
    n, k = targets.shape
    return loss_scale(convention, n) / loss_scale("mse" if objective == "squared" else "mean", n, k)


def rows_of_model(data: Dataset, how: str, max_rows: int | None, key: int) -> tuple[Dataset, int]:
    """The rows as the model sees them, constant columns gone where they are scaled, and how many there were."""
    whole = data.n
    most = MOST_ROWS if max_rows is None else whole_number(max_rows, "max_rows", least=1)
    if whole > most:
        which = "the first in file order" if data.kind == "image" else "classes in proportion"
        note = f"{most:,} of {whole:,} rows were used, {which}; `max_rows` sets how many"
        data = data.subset(most, key=key).replace(note=note)
    data = data.replace(test=None)
    return (data if how == "none" else standardise_targets(preprocess(data, how))), whole


def criterion_of(data: Dataset, k: int, objective: str, name: str) -> tuple[Criterion, str]:
    """What a model of k outputs minimises on these labels, and its targets in words; one line where they do not fit."""
    wanted = (1, 2) if data.task == "binary" else (data.k,)
    if k not in wanted:
        what = count_of(len(data.classes), "class", "classes") if data.classes else count_of(data.k, "target")
        raise ValueError(
            f"{name} gives {count_of(k, 'number')} a row and {data.name} has {what}; expected "
            f"{' or '.join(map(str, wanted))}: change its last layer, or the labels"
        )
    if objective == "cross_entropy":
        if not data.classes:
            raise ValueError(
                f"`objective` is 'cross_entropy' and {data.name} has no classes; expected labels, or 'squared'"
            )
        return Criterion(np.zeros((data.n, k)), data.codes), "class numbers"
    if data.task == "binary" and k == 2:
        return Criterion(np.eye(2)[data.codes] - 0.5), "one-hot less ½"
    words = {"binary": f"+1 for {data.classes[0]}, −1 for {data.classes[1]}" if data.classes else ""}
    words |= {"multiclass": f"one-hot less 1/{k}", "regression": "as given"}
    return Criterion(np.asarray(data.y, np.float64).reshape(data.n, k)), words[data.task]


def _seconds(subject: Subject) -> float:
    """Of a gradient, guessed low from the weights and rows."""
    return 1e-3 + 6.0 * subject.weights * len(subject.samples) / 2e10


def _memory(subject: Subject) -> int:
    """The matrix of rows and outputs with its copies, or the vectors of a sweep; a few copies of the weights."""
    entries = subject.outputs.size
    matrix = 40 * entries**2 if entries <= DENSE else 16 * entries * 200
    return int(matrix + 64 * subject.weights)


def _law(work: Work, subject: Subject, criterion: Criterion, key: int) -> Curvature:
    with within_memory(len(subject.samples)):
        found = curvature_of(subject, criterion, key, work.progress)
    if not found.largest > 0:
        raise ValueError(
            f"no weight of {subject.spec} moves the outputs on these rows: its tangent kernel is 0; look at its start"
        )
    return found


def _followed(
    work: Work,
    subject: Subject,
    criterion: Criterion,
    lr: float | None,
    momentum: float,
    curvature: Curvature,
    runs: ShortRuns | None = None,
) -> Followed:
    rate, _ = _chosen_rate(lr, subject, _limit(curvature, momentum), momentum, runs)
    descent = _descent(subject, criterion, curvature, rate, momentum)
    with within_memory(len(subject.samples)):
        return follow(subject, criterion, descent, curvature.vectors, work.progress)


def _descent(
    subject: Subject, criterion: Criterion, curvature: Curvature, rate: float, momentum: float
) -> LinearDescent:
    residual = (criterion.targets - subject.outputs).ravel()
    return LinearDescent(curvature.values, (curvature.vectors.T @ residual) ** 2 / residual.size, rate, momentum)


def _limit(curvature: Curvature, momentum: float) -> Bracketed:
    """The stable rate with its sides."""
    value, reach = stable_rate(curvature, momentum), 2 * (1 + momentum)
    if curvature.error is None:
        why = f"λ_max is an estimate from below, by {count_of(curvature.products, 'product')} with Jacobians"
        return Bracketed(value, None, value, "none", why, reference="fine_grained, Thm 4.1")
    lower, upper = (reach / max(curvature.largest + sign * curvature.error, 1e-300) for sign in (1, -1))
    taken = rounding_within(curvature.error)
    return Bracketed(value, lower, upper, "rounding included", reference="fine_grained, Thm 4.1", assumptions=taken)


def _diverges(subject: Subject, limit: Bracketed, momentum: float, runs: ShortRuns | None) -> DivergenceRange:
    """Where training begins to diverge: of a model that is linear in its weights at the stable rate, to its own error."""
    if subject.batch_norm or not subject.linear:
        return range_told(runs, limit.value, momentum)
    lower = limit.lower
    if (
        lower is None
    ):  # the mean error of the largest Ritz value from a random start is no more (Kuczyński and Woźniakowski)
        lower = limit.value * max(0.5, 1 - 2.575 * (np.log(subject.outputs.size) / (TOP_PRODUCTS - 1)) ** 2)
    return DivergenceRange(float(lower), float(limit.upper), measured=False, exact=True)


def _chosen_rate(
    lr: float | None, subject: Subject, limit: Bracketed, momentum: float, runs: ShortRuns | None
) -> tuple[float, str]:
    """The rate of the curve: the one given, else half of what neither the law nor the runs call unstable."""
    if lr is not None:
        return lr, ""
    told = _diverges(subject, limit, momentum, runs)
    if told.lower < limit.value and not told.exact:
        return told.lower / 2, "half the lower end of the range in which training begins to diverge"
    return limit.value / 2, "half the largest stable one"


def _reached(descent: LinearDescent, followed: Followed | None) -> tuple[StepsToShare, ...]:
    first, found = float(descent.loss(0)), []
    for target in TARGETS:
        steps = descent.first_below(target * first)
        believed = None if followed is None or steps is None else steps <= followed.until
        found.append(StepsToShare(target, target * first, steps, believed))
    return tuple(found)
