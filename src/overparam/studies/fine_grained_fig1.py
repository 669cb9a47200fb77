"""Fig. 1 of `fine_grained`: true, random and worst-case labels, the loss as predicted and as it came out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg

from overparam.core import sections
from overparam.data import Dataset
from overparam.engines import gram
from overparam.engines.matrix import AbstractGram
from overparam.kernels import TwoLayer as Kernel
from overparam.networks import TwoLayer
from overparam.studies.study import Findings, Study, Workplace
from overparam.studies.two_layer_runs import (
    CIFAR,
    DIGITS,
    MNIST,
    forecasts,
    found_pairs,
    labellings,
    largest_error,
    log_steps,
    run_part,
)

ROLES: dict[str, sections.Role] = {"true": "true", "random": "random", "worst case": "worst"}


@dataclass(frozen=True)
class Case:
    """One image pair trained at one scale of initialisation, rate and precision."""

    data: str
    kappa: float
    lr: float
    paired: bool = False
    dtype: str = "float32"

    @property
    def name(self) -> str:
        start = ", paired" if self.paired else ""
        return f"{self.data}, κ = {self.kappa:g}{start}, η = {self.lr:g}"


@dataclass(frozen=True)
class Settings:
    """Sizes and cases; the paper's are n = m = 10,000, η = 1e-3, κ = 1e-2 on MNIST and CIFAR-10."""

    train: int
    test: int
    width: int
    steps: int
    every: int
    cases: tuple[Case, ...] = field(default_factory=tuple)


def settings_at(train: int, test: int, width: int, steps: int, every: int, cases: tuple[Case, ...]) -> Settings:
    """Settings whose rates are those of n = 10,000 rows, scaled so that ηλ_max stays as it is there."""
    scale = 10_000 / train
    scaled = tuple(Case(c.data, c.kappa, c.lr * scale, c.paired, c.dtype) for c in cases)
    return Settings(train, test, width, steps, every, scaled)


PAPER = (Case(MNIST, 1e-2, 1e-3), Case(CIFAR, 1e-2, 1e-3, dtype="tf32"))
LAZY = (
    Case(MNIST, 1.0, 1e-3, paired=True),
    Case(CIFAR, 1.0, 1e-3, paired=True, dtype="tf32"),
    Case(CIFAR, 1.0, 3e-4, paired=True, dtype="tf32"),
)


def _on_a_laptop(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    return tuple(Case(c.data, c.kappa, c.lr, c.paired, "float32") for c in cases)


def run(settings: Settings, workplace: Workplace) -> Findings:
    """Every case: train on three labellings, predict each from H and its own y − u(0), and set them side by side."""
    names = tuple(dict.fromkeys(case.data for case in settings.cases))
    pairs, absent = found_pairs(names, settings.train, settings.test)
    arrays: dict[str, np.ndarray] = {}
    found: list[dict[str, Any]] = []
    pages: list[sections.Section] = []
    for name, data in pairs.items():
        spectrum = _spectrum(workplace, name, data)
        arrays |= {f"{name}.{key}": value for key, value in spectrum.items() if key != "worst"}
        pages.append(_spectrum_section(name, spectrum))
        for case in settings.cases:
            if case.data == name:
                facts, kept, section = _case(settings, workplace, case, data, spectrum)
                found.append(facts)
                arrays |= {f"{case.name}.{key}": value for key, value in kept.items()}
                pages.append(section)
    return Findings({"cases": found}, arrays, (_summary(settings, found, absent), *pages))


def _spectrum(workplace: Workplace, name: str, data: Dataset) -> dict[str, np.ndarray]:
    """All eigenvalues of H, |v_iᵀy| for the three labellings, largest eigenvalue first, and the worst-case labels."""

    def make(_: Path | None) -> dict[str, Any]:
        workplace.progress(0, None, f"{name}: eigenvalues")
        values, vectors = _all_eigenpairs(gram(Kernel(), data.X, device=workplace.device))
        worst = vectors[:, 0] * np.sqrt(data.n)
        labels = labellings(data, worst, workplace.seed)
        projections = np.stack([np.abs(vectors.T @ labelled.y)[::-1] for labelled in labels.values()])
        return {"eigenvalues": values[::-1], "projections": projections, "worst": worst}

    return workplace.part(f"spectrum of {name}", make)


def _all_eigenpairs(H: AbstractGram) -> tuple[np.ndarray, np.ndarray]:
    """Every eigenvalue, smallest first, and its vector, where the matrix lies."""
    if H.xp is np:
        return scipy.linalg.eigh(H.dense())
    import jax

    with jax.enable_x64(True):
        values, vectors = H.xp.linalg.eigh(H.xp.asarray(H.dense()))
        return np.asarray(values), np.asarray(vectors)


def _case(
    settings: Settings, workplace: Workplace, case: Case, data: Dataset, spectrum: dict[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray], sections.Section]:
    network = TwoLayer(settings.width, case.kappa, case.paired)
    record = log_steps(settings.steps, settings.every)
    labels = labellings(data, spectrum["worst"], workplace.seed)
    runs = {
        label: run_part(
            workplace, f"{case.name}, {label} labels", labelled, network,
            lr=case.lr, steps=settings.steps, record=record, dtype=case.dtype,
        )
        for label, labelled in labels.items()
    }  # fmt: skip
    residuals = np.stack([labelled.y - runs[label]["initial_outputs"] for label, labelled in labels.items()], axis=1)
    steps = np.array(record)
    predicted = forecasts(workplace, f"{case.name}, prediction", data, residuals, steps, case.lr)
    kept: dict[str, np.ndarray] = {"steps": steps}
    series: list[sections.Series] = []
    rows: list[tuple[Any, ...]] = []
    facts: dict[str, Any] = {"case": case.name, "data": case.data, "kappa": case.kappa, "lr": case.lr, "labels": {}}
    stable = str(predicted["stable"]) != "unstable"
    for i, (label, run) in enumerate(runs.items()):
        at = np.searchsorted(steps, run["steps"])
        observed, ahead = run["loss"], predicted["loss"][i][at]
        moves = largest_error(run["movement"][:, 0], predicted["movement"][i][at])
        lazy = float(run["movement"][-1, 0]) / (np.sqrt(settings.width) * case.kappa)
        kept |= {f"{label}.observed": observed, f"{label}.predicted": predicted["loss"][i]}
        kept |= {f"{label}.{key}": run[key] for key in ("movement", "flips", "kernel_from_start", "kernel_from_limit")}
        facts["labels"][label] = {
            "loss": float(observed[-1]), "share_left": float(observed[-1] / observed[0]),
            "largest_error": largest_error(observed, ahead), "movement_error": moves, "laziness": lazy,
            "flips": float(run["flips"][-1, 0]), "kernel_drift": float(run["kernel_from_start"][-1]),
            "stopped": str(run["stopped"]), "ms_a_step": 1e3 * float(run["seconds_per_step"]),
        }  # fmt: skip
        fact = facts["labels"][label]
        rows.append((
            label, fact["share_left"], fact["largest_error"] if stable else None, fact["movement_error"] if stable else None,
            lazy, fact["flips"], fact["kernel_drift"], round(fact["ms_a_step"], 2),
        ))  # fmt: skip
        role = ROLES[label]
        start = observed[0]
        if stable:
            series.append(
                sections.series(f"{label}, predicted", steps, predicted["loss"][i] / start, role=role,
                                lower=predicted["lower"][i] / start, upper=predicted["upper"][i] / start)
            )  # fmt: skip
        mark: sections.Mark = "points" if stable else "line"
        series.append(sections.series(f"{label}, observed", run["steps"], observed / start, role=role, mark=mark))
    facts["order_holds"] = _falls_in_order(facts["labels"])
    facts["stable"] = stable
    figure = sections.Figure(
        f"Loss over steps: {case.name}",
        "Training loss over its start: observed, and predicted from H, y and u(0) alone, with its bracket.",
        "step", "loss / loss(0)", tuple(series), y_scale="log",
    )  # fmt: skip
    table = sections.Table(
        ("labels", "loss left", "error of the predicted loss", "error of the predicted movement", "laziness",
         "signs flipped", "kernel drift", "ms a step"),
        tuple(rows), "Errors are the largest over all recorded steps, relative to the prediction.",
    )  # fmt: skip
    words = [sections.Text(_found(case, facts, float(predicted["limit"])), "plain" if stable else "warning")]
    return facts, kept, sections.Section(case.name, (*words, figure, table))


def _falls_in_order(labels: dict[str, Any]) -> bool:
    return labels["true"]["share_left"] < labels["random"]["share_left"] < labels["worst case"]["share_left"]


def _found(case: Case, facts: dict[str, Any], limit: float) -> str:
    order = "True labels fall fastest, then random, then worst-case ones" if facts["order_holds"] else (
        "The losses do not end in the order true, random, worst case"
    )  # fmt: skip
    if not facts["stable"]:
        return (
            f"{order}. The rate {case.lr:g} is above 2/λ_max = {limit:.3g}: the linear dynamics diverge, "
            "so there is no prediction to compare with; the network itself is free to leave them."
        )
    true = facts["labels"]["true"]
    return (
        f"{order}. For true labels the predicted loss is off by at most {true['largest_error']:.1%}; "
        f"laziness {true['laziness']:.3g}, {true['flips']:.1%} of signs flipped."
    )


def _spectrum_section(name: str, spectrum: dict[str, np.ndarray]) -> sections.Section:
    values, projections = spectrum["eigenvalues"], spectrum["projections"]
    index = np.unique(np.geomspace(1, len(values), 400).round().astype(int))
    shares = np.cumsum(projections**2, axis=1) / np.sum(projections**2, axis=1, keepdims=True)
    eigenvalues = sections.Figure(
        f"Eigenvalues of H: {name}", "All eigenvalues, largest first.", "index", "eigenvalue",
        (sections.series("eigenvalue", index, values[index - 1]),), x_scale="log", y_scale="log",
    )  # fmt: skip
    mass = sections.Figure(
        f"Where the labels lie: {name}",
        "Share of ‖y‖² in the span of the top eigenvectors: true labels lie where learning is fast.",
        "top eigenvectors", "share of ‖y‖²",
        tuple(
            sections.series(label, index, shares[i][index - 1], role=ROLES[label]) for i, label in enumerate(ROLES)
        ),
        x_scale="log",
    )  # fmt: skip
    points = sections.Figure(
        f"Projections on eigenvectors: {name}", "|v_iᵀy| against the index of the eigenvalue, largest first. The worst case lies wholly on the last eigenvector.",
        "index", "|vᵀy|",
        tuple(
            sections.series(label, index, projections[i][index - 1], role=ROLES[label], mark="points")
            for i, label in enumerate(("true", "random"))
        ),
        x_scale="log", y_scale="log",
    )  # fmt: skip
    return sections.Section(f"Spectrum and labels: {name}", (eigenvalues, mass, points))


def _summary(settings: Settings, found: list[dict[str, Any]], absent: list[sections.Text]) -> sections.Section:
    says = sections.Text(
        "The paper says: gradient descent fits true labels faster than random ones and those faster than the worst case, "
        "because true labels lie along the eigenvectors of large eigenvalues; and the loss follows the linear dynamics of H."
    )
    setup = sections.Text(
        f"Here: n = {settings.train}, m = {settings.width}, {settings.steps} steps of full-batch gradient descent on ½Σ(y − u)², "
        "unit rows, labels ±1; the random labels are drawn once; the worst case is the last eigenvector scaled to ‖y‖."
    )
    rows = tuple(
        (fact["case"], "yes" if fact["order_holds"] else "no", "yes" if fact["stable"] else "no",
         fact["labels"]["true"]["laziness"], fact["labels"]["true"]["flips"],
         fact["labels"]["true"]["largest_error"] if fact["stable"] else None,
         fact["labels"]["random"]["largest_error"] if fact["stable"] else None,
         fact["labels"]["true"]["movement_error"] if fact["stable"] else None)
        for fact in found
    )  # fmt: skip
    table = sections.Table(
        ("case", "order holds", "η below 2/λ_max", "laziness", "signs flipped", "error, true labels", "error, random labels",
         "movement error, true"), rows, "What agreed and what did not; true labels unless said.",
    )  # fmt: skip
    return sections.Section("What agreed and what did not", (*_remarks(found), says, setup, *absent, table))


def _remarks(found: list[dict[str, Any]]) -> tuple[sections.Text, ...]:
    held = sum(fact["order_holds"] for fact in found)
    remarks = [sections.Text(f"The order of the three losses holds in {held} of {len(found)} cases.", "good" if held == len(found) else "warning")]  # fmt: skip
    for fact in found:
        true = fact["labels"]["true"]
        if fact["stable"] and true["laziness"] > 1:
            remarks.append(
                sections.Text(
                    f"{fact['case']}: a neuron moves {true['laziness']:.3g} times the size of its start, so this run is not in the "
                    "regime of the theorem, and the linear prediction is only a guide.", "warning",
                )
            )  # fmt: skip
    return tuple(remarks)


def _plan(settings: Settings) -> str:
    d = {MNIST: 784, CIFAR: 3072, DIGITS: 64}
    products = sum(12 * settings.train * settings.width * d[case.data] * settings.steps for case in settings.cases)
    return f"{3 * len(settings.cases)} runs of {settings.steps} steps, n = {settings.train}, m = {settings.width}: {products:.1e} operations"


STUDY = Study(
    name="fine-grained-fig1",
    title="Fig. 1 of Arora et al. 2019: true, random and worst-case labels",
    reference="fine_grained, Fig. 1",
    settings={
        "smoke": settings_at(
            200, 50, 256, 100, 10, (Case(DIGITS, 1e-2, 4e-4, dtype="float64"), Case(DIGITS, 1.0, 4e-4, True, "float64"))
        ),
        "small": settings_at(600, 200, 1000, 500, 25, _on_a_laptop((PAPER[0], LAZY[0], PAPER[1], LAZY[2]))),
        "full": Settings(10_000, 2_000, 10_000, 2_000, 50, (PAPER[0], LAZY[0], PAPER[1], LAZY[1], LAZY[2])),
    },
    plan=_plan,
    run=run,
)
