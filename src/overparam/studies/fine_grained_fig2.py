"""Fig. 2 of `fine_grained`: test loss, test error and the complexity of the labels as ever more of them are random."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from overparam.core import sections
from overparam.data import Dataset, corrupt_labels
from overparam.engines import gram
from overparam.kernels import TwoLayer as Kernel
from overparam.networks import TwoLayer
from overparam.spectrum import quadrature
from overparam.studies.fine_grained_fig1 import Case, settings_at
from overparam.studies.study import Findings, Study, Workplace
from overparam.studies.two_layer_runs import CIFAR, DIGITS, MNIST, found_pairs, log_steps, run_part
from overparam.theory import label_complexity, predict

ENOUGH = 0.01
"""A run ends when its training loss is at most this share of its start."""


@dataclass(frozen=True)
class Settings:
    """Sizes, noise levels and cases; the paper trains until the loss has converged."""

    train: int
    test: int
    width: int
    steps: int
    every: int
    rates: tuple[float, ...]
    cases: tuple[Case, ...] = field(default_factory=tuple)
    precision_check: bool = False
    """Whether one run is made in tf32 and in float32, to measure what the precision does."""


def run(settings: Settings, workplace: Workplace) -> Findings:
    """Every case at every noise level: train to the end, and put the complexity beside what came out."""
    names = tuple(dict.fromkeys(case.data for case in settings.cases))
    pairs, absent = found_pairs(names, settings.train, settings.test)
    found: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {}
    pages: list[sections.Section] = []
    for name, data in pairs.items():
        noisy = {rate: corrupt_labels(data, rate, key=workplace.seed).data for rate in settings.rates}
        theory = _theory(workplace, name, data, noisy)
        for case in settings.cases:
            if case.data != name:
                continue
            facts = _case(settings, workplace, case, noisy, theory)
            found.append(facts)
            arrays |= {f"{case.name}.{key}": np.array(facts[key]) for key in COLUMNS}
            arrays |= {f"{case.name}.loss at {rate:g}": run for rate, run in facts.pop("losses").items()}
            pages.append(_section(case, facts))
    check = _precision(settings, workplace, pairs) if settings.precision_check else None
    blocks = [] if check is None else [_precision_text(check)]
    values = {"cases": found, "precision": check}
    return Findings(values, arrays, (_summary(settings, found, absent, blocks), *pages))


COLUMNS = (
    "rate",
    "complexity",
    "test_l1",
    "test_error",
    "kernel_l1",
    "kernel_error",
    "steps",
    "share_left",
    "flips",
    "laziness",
)


def _theory(workplace: Workplace, name: str, data: Dataset, noisy: dict[float, Dataset]) -> dict[str, np.ndarray]:
    """Per noise level: the complexity of the labels with its bracket, and H⁻¹y's predictions on the test rows."""

    def make(_: Path | None) -> dict[str, Any]:
        workplace.progress(0, None, f"{name}: complexity")
        H = gram(Kernel(), data.X, device=workplace.device)
        Y = np.stack([labelled.y for labelled in noisy.values()], axis=1)
        q = quadrature(H, Y)
        brackets = label_complexity(q).per_output
        assert data.test is not None
        outputs = np.asarray(predict(H, Y, Kernel()(data.test.X, data.X)))
        return {"complexity": brackets.value, "lower": brackets.lower, "upper": brackets.upper, "outputs": outputs.T}

    return workplace.part(f"{name}, complexity at {', '.join(f'{rate:g}' for rate in noisy)}", make)


def _case(
    settings: Settings, workplace: Workplace, case: Case, noisy: dict[float, Dataset], theory: dict[str, np.ndarray]
) -> dict[str, Any]:
    network = TwoLayer(settings.width, case.kappa, case.paired)
    facts: dict[str, Any] = {
        "case": case.name,
        "data": case.data,
        "kappa": case.kappa,
        "lr": case.lr,
        "stopped": [],
        "losses": {},
    }
    facts |= {key: [] for key in COLUMNS}
    for i, (rate, data) in enumerate(noisy.items()):
        run = run_part(
            workplace, f"{case.name}, {rate:g} of labels random", data, network, lr=case.lr, steps=settings.steps,
            record=log_steps(settings.steps, settings.every, 20), dtype=case.dtype, stop_below=ENOUGH,
        )  # fmt: skip
        assert data.test is not None
        y, outputs, kernel = data.test.y, run["last_test_outputs"], theory["outputs"][i]
        moved = float(run["movement"][-1, 0]) / (np.sqrt(settings.width) * case.kappa)
        row = (
            rate, float(theory["complexity"][i]), *errors(outputs, y), *errors(kernel, y), int(run["steps"][-1]),
            float(run["loss"][-1] / run["loss"][0]), float(run["flips"][-1, 0]), moved,
        )  # fmt: skip
        for key, value in zip(COLUMNS, row, strict=True):
            facts[key].append(value)
        facts["stopped"].append(str(run["stopped"]))
        facts["losses"][rate] = np.stack([run["steps"], run["loss"]])
    for measure in ("test_l1", "test_error"):
        facts[f"rank_{measure}"] = float(spearmanr(facts["complexity"], facts[measure])[0])  # pyright: ignore[reportArgumentType]
    return facts


def errors(outputs: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Mean |y − u|, and the share of wrong signs.

    >>> errors(np.array([0.5, -1.0]), np.array([1.0, 1.0]))
    (1.25, 0.5)
    """
    return float(np.mean(np.abs(y - outputs))), float(np.mean(y * outputs <= 0))


def _precision(settings: Settings, workplace: Workplace, pairs: dict[str, Dataset]) -> dict[str, Any] | None:
    """The first tf32 case at the middle noise level, once more in both precisions for a quarter of the steps."""
    case = next((c for c in settings.cases if c.dtype == "tf32" and c.data in pairs), None)
    if case is None:
        return None
    rate = settings.rates[len(settings.rates) // 2]
    data = corrupt_labels(pairs[case.data], rate, key=workplace.seed).data
    network = TwoLayer(settings.width, case.kappa, case.paired)
    steps = settings.steps // 4
    options: dict[str, Any] = {"lr": case.lr, "steps": steps, "record": log_steps(steps, settings.every, 20)}
    fast = run_part(workplace, f"{case.name}, precision, tf32", data, network, dtype="tf32", **options)
    exact = run_part(workplace, f"{case.name}, precision, float32", data, network, dtype="float32", **options)
    assert data.test is not None
    return {
        "case": case.name,
        "rate": rate,
        "steps": steps,
        "largest_loss_difference": float(np.max(np.abs(fast["loss"] / exact["loss"] - 1))),
        "test_tf32": errors(fast["last_test_outputs"], data.test.y),
        "test_float32": errors(exact["last_test_outputs"], data.test.y),
        "ms_tf32": 1e3 * float(fast["seconds_per_step"]),
        "ms_float32": 1e3 * float(exact["seconds_per_step"]),
    }


def _precision_text(check: dict[str, Any]) -> sections.Text:
    fast, exact = check["test_tf32"], check["test_float32"]
    return sections.Text(
        f"What tf32 does, on {check['case']} with {check['rate']:g} of the labels random, {check['steps']} steps: the training loss differs from float32's by at most "
        f"{check['largest_loss_difference']:.2%} at any recorded step; test ℓ1 {fast[0]:.4f} against {exact[0]:.4f}, test error "
        f"{fast[1]:.2%} against {exact[1]:.2%}; {check['ms_tf32']:.2f} against {check['ms_float32']:.2f} ms a step."
    )


def _section(case: Case, facts: dict[str, Any]) -> sections.Section:
    x = facts["rate"]
    figure = sections.Figure(
        f"Noise and generalisation: {case.name}",
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
         "laziness", "ended because"), rows,
    )  # fmt: skip
    words = (
        f"The complexity ranks the noise levels as the test ℓ1 loss does with Spearman correlation {facts['rank_test_l1']:.2f}, "
        f"as the test error does with {facts['rank_test_error']:.2f}. {_early(facts)}"
    )
    return sections.Section(case.name, (sections.Text(words), figure, table))


def _early(facts: dict[str, Any]) -> str:
    early = [f"{rate:g} (step {steps})" for rate, steps, left in zip(facts["rate"], facts["steps"], facts["share_left"], strict=True) if left <= ENOUGH]  # fmt: skip
    late = [f"{rate:g} ({left:.1%} of the loss left)" for rate, left in zip(facts["rate"], facts["share_left"], strict=True) if left > ENOUGH]  # fmt: skip
    first = (
        f"Ended early with under {ENOUGH:.0%} of the loss left: {', '.join(early)}." if early else "No run ended early."
    )
    second = f" Ran all steps: {', '.join(late)}." if late else ""
    return first + second


def _summary(
    settings: Settings, found: list[dict[str, Any]], absent: list[sections.Text], more: list[sections.Text]
) -> sections.Section:
    says = sections.Text(
        "The paper says: as a growing share of the labels is redrawn at random, test loss, test error and the complexity "
        "√(2yᵀH⁻¹y/n) grow together, so that the complexity, known before training, tells how well the network will generalise."
    )
    setup = sections.Text(
        f"Here: n = {settings.train}, {settings.test} test rows with labels redrawn alike, m = {settings.width}; each run ends after {settings.steps} "
        f"steps or when under {ENOUGH:.0%} of its training loss is left."
    )
    rows = tuple(
        (fact["case"], fact["complexity"][0], fact["complexity"][-1], fact["test_l1"][0], fact["test_l1"][-1], fact["test_error"][0],
         fact["test_error"][-1], fact["rank_test_l1"], fact["rank_test_error"])
        for fact in found
    )  # fmt: skip
    table = sections.Table(
        ("case", "complexity, least noise", "most noise", "test ℓ1, least noise", "most noise", "test error, least noise", "most noise",
         "rank correlation, ℓ1", "rank correlation, error"), rows,
    )  # fmt: skip
    agreed = [fact["case"] for fact in found if fact["rank_test_l1"] > 0.9]
    verdict = sections.Text(
        f"The complexity orders the noise levels as the test ℓ1 loss does (Spearman above 0.9) in {len(agreed)} of {len(found)} cases.",
        "good" if len(agreed) == len(found) else "warning",
    )
    return sections.Section("What agreed and what did not", (verdict, says, setup, *absent, table, *more))


def _plan(settings: Settings) -> str:
    runs = len(settings.rates) * len(settings.cases) + settings.precision_check
    return f"{runs} runs of at most {settings.steps} steps, n = {settings.train}, m = {settings.width}"


RATES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def _settings(
    train: int,
    test: int,
    width: int,
    steps: int,
    every: int,
    rates: tuple[float, ...],
    cases: tuple[Case, ...],
    check: bool = False,
) -> Settings:
    scaled = settings_at(train, test, width, steps, every, cases)
    return Settings(train, test, width, steps, every, rates, scaled.cases, check)


STUDY = Study(
    name="fine-grained-fig2",
    title="Fig. 2 of Arora et al. 2019: generalisation and the complexity of noisy labels",
    reference="fine_grained, Fig. 2",
    settings={
        "smoke": _settings(200, 100, 256, 150, 25, (0.0, 0.5, 1.0), (Case(DIGITS, 1e-2, 4e-4, dtype="float64"), Case(DIGITS, 1.0, 4e-4, True, "float64"))),
        "small": _settings(600, 300, 1000, 1000, 50, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0), (Case(MNIST, 1e-2, 1e-3), Case(MNIST, 1.0, 1e-3, True))),
        "full": _settings(10_000, 2_000, 10_000, 10_000, 100, RATES, (
            Case(MNIST, 1e-2, 1e-3, dtype="tf32"), Case(MNIST, 1.0, 1e-3, True, "tf32"), Case(CIFAR, 1e-2, 1e-3, dtype="tf32"),
            Case(CIFAR, 1.0, 3e-4, True, "tf32"),
        ), True),
    },
    plan=_plan,
    run=run,
)  # fmt: skip
