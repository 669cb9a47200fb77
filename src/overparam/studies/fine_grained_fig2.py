"""Fig. 2 of `fine_grained`: test loss, test error and the complexity of the labels as ever more of them are random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from overparam.core import sections
from overparam.data import Dataset
from overparam.engines import gram
from overparam.frame import Part, Work
from overparam.kernels import TwoLayer as Kernel
from overparam.networks import TwoLayer
from overparam.spectrum import quadrature
from overparam.studies import two_layer_runs
from overparam.studies.fine_grained_fig1 import SMOKE, Case, ImageSettings, scaled
from overparam.studies.study import Arrays, Found, Study, Values, planned
from overparam.studies.two_layer_runs import ABSENT, CIFAR, MNIST
from overparam.theory import label_complexity, max_learning_rate, predict, steps_to_loss

ENOUGH = 0.01
"""A run ends when its training loss is at most this share of its start."""
COLUMNS = (
    "rate", "complexity", "test_l1", "test_error", "kernel_l1", "kernel_error", "steps", "share_left", "flips", "laziness",
    "theory_steps", "theory_l1", "theory_error",
)  # fmt: skip


def parts(settings: ImageSettings, key: int, device: str | None) -> list[Part]:
    """The complexities of every data set, a run of every case at every noise level, and the check of the precision."""
    pairs, absent = two_layer_runs.found_pairs([case.data for case in settings.cases], settings.train, settings.test)
    found = [absent]
    for name, data in pairs.items():
        seconds = planned(100.0 * data.n**2 + data.n**3, 0, device)
        found.append(Part(_complexity(name), complexities, (data, settings.rates, key), seconds=seconds))
        for case in settings.cases:
            for rate in settings.rates if case.data == name else ():
                steps = settings.steps_of(case, rate)
                options = _options(settings, case, steps) | {"dtype": case.dtype, "stop_below": ENOUGH}
                seconds = two_layer_runs.run_seconds(data, settings.width, steps, device)
                of = (data, rate, TwoLayer(settings.width, case.kappa, case.paired), key, options)
                found.append(Part(_noisy(case, rate), trained_on_noise, of, seconds=seconds))
        for lr in dict.fromkeys(case.lr for case in settings.cases if case.data == name):
            seconds = planned(1000.0 * len(settings.rates) * data.n**2, 0, device)
            found.append(Part(_theory(name, lr), to_the_end, (data, settings.rates, lr, key), seconds=seconds))
    case = next((c for c in settings.cases if c.dtype == "tf32" and c.data in pairs), None)
    if settings.precision_check and case is not None:
        steps, data = settings.steps // 4, pairs[case.data]
        for dtype in ("tf32", "float32"):
            options = _options(settings, case, steps) | {"dtype": dtype}
            seconds = two_layer_runs.run_seconds(data, settings.width, steps, device)
            of = (data, _middle(settings), TwoLayer(settings.width, case.kappa, case.paired), key, options)
            found.append(Part(_precise(case, dtype), trained_on_noise, of, seconds=seconds))
    return found


def _options(settings: ImageSettings, case: Case, steps: int) -> dict[str, Any]:
    return {"lr": case.lr, "steps": steps, "record": two_layer_runs.log_steps(steps, settings.every, 20)}


def _middle(settings: ImageSettings) -> float:
    """The noise level at which precisions are compared."""
    return settings.rates[len(settings.rates) // 2]


def _complexity(name: str) -> str:
    return f"{name}, complexity"


def _theory(name: str, lr: float) -> str:
    return f"{name}, η = {lr:g}, linear theory"


def _noisy(case: Case, rate: float) -> str:
    return f"{case.name}, {rate:g} of labels random"


def _precise(case: Case, dtype: str) -> str:
    return f"{case.name}, precision, {dtype}"


def complexities(work: Work, data: Dataset, rates: Sequence[float], key: int) -> dict[str, Any]:
    """Per noise level: the complexity of the labels with its bracket, H⁻¹y's predictions on the test rows, their labels."""
    noisy = [two_layer_runs.with_random_labels(data, key, rate) for rate in rates]
    H = gram(Kernel(), data.X, device=work.device)
    Y = np.stack([labelled.y for labelled in noisy], axis=1)
    q = quadrature(H, Y)
    brackets = label_complexity(q).per_output
    assert brackets is not None
    assert data.test is not None
    outputs = np.asarray(predict(H, Y, Kernel()(data.test.X, data.X)))
    targets = np.stack([labelled.test.y for labelled in noisy if labelled.test is not None])
    return {
        "complexity": brackets.value, "lower": brackets.lower, "upper": brackets.upper, "outputs": outputs.T,
        "targets": targets,
    }  # fmt: skip


def to_the_end(work: Work, data: Dataset, rates: Sequence[float], lr: float, key: int) -> dict[str, Any]:
    """What gradient descent on the infinitely wide network does until `ENOUGH` of the loss is left, per noise level.

    `steps`: how many it takes; `outputs`: its outputs on the test rows then. NaN where the rate is not stable.
    """
    assert data.test is not None
    H = gram(Kernel(), data.X, device=work.device)
    K = Kernel()(data.test.X, data.X)
    steps, outputs = np.full(len(rates), np.nan), np.full((len(rates), data.test.n), np.nan)
    for i, rate in enumerate(rates):
        y = two_layer_runs.with_random_labels(data, key, rate).y
        q = quadrature(H, y)
        if lr >= max_learning_rate(q).lower:
            break  # whatever the labels
        needed = steps_to_loss(q, ENOUGH, lr).value
        if needed is not None:
            steps[i], outputs[i] = needed, predict(H, y, K, int(needed), lr).values
        work.progress(i + 1, len(rates), "")
    return {"steps": steps, "outputs": outputs}


def trained_on_noise(
    work: Work, data: Dataset, rate: float, network: TwoLayer, key: int, options: Mapping[str, Any]
) -> dict[str, Any]:
    """A run with that share of the labels redrawn."""
    return two_layer_runs.trained(work, two_layer_runs.with_random_labels(data, key, rate), network, key, options)


def conclude(settings: ImageSettings, found: Found) -> tuple[Values, Arrays]:
    """Every case at every noise level: the complexity beside what came out."""
    cases: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {}
    for name in dict.fromkeys(case.data for case in settings.cases):
        for case in settings.cases if _complexity(name) in found else ():
            if case.data != name:
                continue
            facts = _case(settings, case, found)
            cases.append(facts)
            arrays |= {f"{case.name}.{key}": np.array(facts[key], dtype=float) for key in COLUMNS}
            for rate in settings.rates:
                run = found[_noisy(case, rate)]
                arrays[f"{case.name}.loss at {rate:g}"] = np.stack([run["steps"], run["loss"]])
    values = {
        "cases": cases,
        "precision": _precision(settings, found),
        "absent": found[ABSENT]["lines"].tolist(),
    }
    return values, arrays


def _case(settings: ImageSettings, case: Case, found: Found) -> dict[str, Any]:
    theory, end = found[_complexity(case.data)], found[_theory(case.data, case.lr)]
    facts: dict[str, Any] = {"case": case.name, "data": case.data, "kappa": case.kappa, "lr": case.lr, "stopped": []}
    facts |= {key: [] for key in COLUMNS}
    for i, rate in enumerate(settings.rates):
        run, y = found[_noisy(case, rate)], theory["targets"][i]
        moved = float(run["movement"][-1, 0]) / (np.sqrt(settings.width) * case.kappa)
        row = (
            rate, float(theory["complexity"][i]), *errors(run["last_test_outputs"], y), *errors(theory["outputs"][i], y),
            int(run["steps"][-1]), float(run["loss"][-1] / run["loss"][0]), float(run["flips"][-1, 0]), moved,
            *((int(end["steps"][i]), *errors(end["outputs"][i], y)) if np.isfinite(end["steps"][i]) else (None,) * 3),
        )  # fmt: skip
        for key, value in zip(COLUMNS, row, strict=True):
            facts[key].append(value)
        facts["stopped"].append(str(run["stopped"]))
    for measure in ("test_l1", "test_error"):
        facts[f"rank_{measure}"] = float(spearmanr(facts["complexity"], facts[measure])[0])  # pyright: ignore[reportArgumentType]
    return facts


def errors(outputs: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Mean |y − u|, and the share of wrong signs.

    >>> errors(np.array([0.5, -1.0]), np.array([1.0, 1.0]))
    (1.25, 0.5)
    """
    return float(np.mean(np.abs(y - outputs))), float(np.mean(y * outputs <= 0))


def _precision(settings: ImageSettings, found: Found) -> dict[str, Any] | None:
    """The first tf32 case at the middle noise level, once more in both precisions for a quarter of the steps."""
    case = next((c for c in settings.cases if _precise(c, "tf32") in found), None)
    if case is None:
        return None
    fast, exact = (found[_precise(case, dtype)] for dtype in ("tf32", "float32"))
    rate = _middle(settings)
    y = found[_complexity(case.data)]["targets"][settings.rates.index(rate)]
    return {
        "case": case.name,
        "rate": rate,
        "steps": settings.steps // 4,
        "largest_loss_difference": float(np.max(np.abs(fast["loss"] / exact["loss"] - 1))),
        "test_tf32": errors(fast["last_test_outputs"], y),
        "test_float32": errors(exact["last_test_outputs"], y),
        "ms_tf32": 1e3 * float(fast["seconds_per_step"]),
        "ms_float32": 1e3 * float(exact["seconds_per_step"]),
    }


def page(settings: ImageSettings, values: Values, arrays: Arrays) -> tuple[sections.Section, ...]:
    """The claims, and a section a case."""
    blocks = (*_opening(settings, values), _table(values["cases"]), *_check(values))
    return (sections.Section("What agreed and what did not", blocks), *map(_section, values["cases"]))


def _check(values: Values) -> list[sections.Text]:
    check = values["precision"]
    if check is None:
        return []
    fast, exact = check["test_tf32"], check["test_float32"]
    words = (
        f"What tf32 does, on {check['case']} with {check['rate']:g} of the labels random, {check['steps']} steps: the training loss differs from float32's by at most "
        f"{check['largest_loss_difference']:.2%} at any recorded step; test ℓ1 {fast[0]:.4f} against {exact[0]:.4f}, test error "
        f"{fast[1]:.2%} against {exact[1]:.2%}; {check['ms_tf32']:.2f} against {check['ms_float32']:.2f} ms a step."
    )
    return [sections.Text(words)]


def _section(facts: Mapping[str, Any]) -> sections.Section:
    x = facts["rate"]
    figure = sections.Figure(
        f"Noise and generalisation: {facts['case']}",
        "As labels are redrawn: test ℓ1 loss and test error of the trained network, and the complexity √(2yᵀH⁻¹y/n), which knows neither "
        "the network nor the test rows.",
        "share of labels redrawn", "value",
        (
            sections.series("test ℓ1 loss", x, facts["test_l1"], role="observed"),
            sections.series("test error", x, facts["test_error"], role="random"),
            sections.series("complexity", x, facts["complexity"], role="true"),
            sections.series("test ℓ1 loss of the kernel limit", x, facts["kernel_l1"], role="muted", dashed=True),
        ),
    )  # fmt: skip
    rows = tuple(zip(*(facts[key] for key in COLUMNS), facts["stopped"], strict=True))
    table = sections.Table(
        ("share redrawn", "complexity", "test ℓ1", "test error", "kernel ℓ1", "kernel error", "steps", "loss left", "signs flipped",
         "laziness", f"steps of the linear theory to {ENOUGH:.0%}", "its test ℓ1 then", "its test error then", "ended because"), rows,
    )  # fmt: skip
    words = (
        f"The complexity ranks the noise levels as the test ℓ1 loss does with Spearman correlation {facts['rank_test_l1']:.2f}, "
        f"as the test error does with {facts['rank_test_error']:.2f}. {_early(facts)} {_to_the_end(facts)}"
    )
    return sections.Section(facts["case"], (sections.Text(words), figure, table))


def _to_the_end(facts: Mapping[str, Any]) -> str:
    """How long the runs would have to be, by the exact linear theory."""
    known = [steps for steps in facts["theory_steps"] if steps is not None]
    if not known:
        return "At this rate, which is not below 2/λ_max, there is no linear theory to say how long the runs would have to be."
    return (
        f"To go on until {ENOUGH:.0%} of the loss is left takes {min(known):,.0f} to {max(known):,.0f} steps by the exact linear theory; "
        "what it predicts on the test rows then stands in the table."
    )


def _early(facts: Mapping[str, Any]) -> str:
    early = [f"{rate:g} (step {steps})" for rate, steps, left in zip(facts["rate"], facts["steps"], facts["share_left"], strict=True) if left <= ENOUGH]  # fmt: skip
    late = [f"{rate:g} ({left:.1%} of the loss left)" for rate, left in zip(facts["rate"], facts["share_left"], strict=True) if left > ENOUGH]  # fmt: skip
    first = (
        f"Ended early with under {ENOUGH:.0%} of the loss left: {', '.join(early)}." if early else "No run ended early."
    )
    second = f" Ran all steps: {', '.join(late)}." if late else ""
    return first + second


def claims(settings: ImageSettings, values: Values) -> list[sections.Text]:
    """How many cases agree, what the paper says, what was run, what was not there, and what the precision does."""
    return [*_opening(settings, values), *_check(values)]


def _opening(settings: ImageSettings, values: Values) -> list[sections.Text]:
    found = values["cases"]
    agreed = [fact["case"] for fact in found if fact["rank_test_l1"] > 0.9]
    verdict = sections.Text(
        f"The complexity orders the noise levels as the test ℓ1 loss does (Spearman above 0.9) in {len(agreed)} of {len(found)} cases.",
        "good" if len(agreed) == len(found) else "warning",
    )
    says = sections.Text(
        "The paper says: as a growing share of the labels is redrawn at random, test loss, test error and the complexity "
        "√(2yᵀH⁻¹y/n) grow together, so that the complexity, known before training, tells how well the network will generalise."
    )
    setup = sections.Text(
        f"Here: n = {settings.train}, {settings.test} test rows with labels redrawn alike, m = {settings.width}; each run ends after {settings.steps} "
        f"steps{_longer(settings)} or when under {ENOUGH:.0%} of its training loss is left."
    )
    absent = [sections.Text(line, "warning") for line in values["absent"]]
    return [verdict, says, setup, *absent]


def _longer(settings: ImageSettings) -> str:
    told = [f"{settings.cases[i].name} with {share:g} random: {steps}" for i, share, steps in settings.longer]
    return f" ({'; '.join(told)})" if told else ""


def _table(found: Sequence[Mapping[str, Any]]) -> sections.Table:
    rows = tuple(
        (fact["case"], fact["complexity"][0], fact["complexity"][-1], fact["test_l1"][0], fact["test_l1"][-1], fact["test_error"][0],
         fact["test_error"][-1], fact["rank_test_l1"], fact["rank_test_error"])
        for fact in found
    )  # fmt: skip
    return sections.Table(
        ("case", "complexity, least noise", "most noise", "test ℓ1, least noise", "most noise", "test error, least noise", "most noise",
         "rank correlation, ℓ1", "rank correlation, error"), rows,
    )  # fmt: skip


def outline(settings: ImageSettings) -> str:
    """The runs and their size, in words."""
    runs = len(settings.rates) * len(settings.cases) + settings.precision_check
    return f"{runs} runs of at most {settings.steps} steps, n = {settings.train}, m = {settings.width}"


RATES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


STUDY = Study(
    name="fine-grained-fig2",
    title="Fig. 2 of Arora et al. 2019: generalisation and the complexity of noisy labels",
    reference="fine_grained, Fig. 2",
    settings={
        "smoke": ImageSettings(200, 100, 256, 150, 25, scaled(200, *SMOKE), (0.0, 0.5, 1.0)),
        "small": ImageSettings(600, 300, 1000, 1000, 50, scaled(600, Case(MNIST, 1e-2, 1e-3), Case(MNIST, 1.0, 1e-3, True)), RATES),
        "full": ImageSettings(10_000, 2_000, 10_000, 10_000, 100, (
            Case(MNIST, 1e-2, 1e-3, dtype="tf32"), Case(MNIST, 1.0, 1e-3, True, "tf32"), Case(CIFAR, 1e-2, 1e-3, dtype="tf32"),
            Case(CIFAR, 1.0, 3e-4, True, "tf32"),
        ), RATES, True, ((1, 0.2, 70_000),)),
    },
    outline=outline, parts=parts, conclude=conclude, claims=claims, page=page,
)  # fmt: skip
