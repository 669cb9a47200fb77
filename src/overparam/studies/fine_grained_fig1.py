"""Fig. 1 of `fine_grained`: true, random and worst-case labels, the loss as predicted and as it came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from overparam.core import sections
from overparam.data import Dataset
from overparam.engines import gram
from overparam.engines.matrix import AbstractGram
from overparam.frame import Part, Work
from overparam.kernels import TwoLayer as Kernel
from overparam.networks import TwoLayer
from overparam.studies import two_layer_runs
from overparam.studies.study import Arrays, Found, Study, Values, planned
from overparam.studies.two_layer_runs import ABSENT, CIFAR, DIGITS, MNIST

ROLES: dict[str, sections.Role] = {"true": "true", "random": "random", "worst case": "worst"}
"""The three labellings that the paper compares, and how each is drawn."""


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

    def run(self, label: str) -> str:
        """The name of its part."""
        return f"{self.name}, {label} labels"

    @property
    def prediction(self) -> str:
        """The name of its part."""
        return f"{self.name}, prediction"


@dataclass(frozen=True)
class ImageSettings:
    """Sizes and cases of both figures; the paper's are n = m = 10,000, η = 1e-3, κ = 1e-2 on MNIST and CIFAR-10."""

    train: int
    test: int
    width: int
    steps: int
    every: int
    cases: tuple[Case, ...]
    rates: tuple[float, ...] = ()
    """Shares of the labels that are redrawn, of Fig. 2."""
    precision_check: bool = False
    """Whether one run is made in tf32 and in float32, to measure what the precision does."""
    longer: tuple[tuple[int, float, int], ...] = ()
    """Runs that go on for longer: which case, its share of random labels, the steps."""

    def steps_of(self, case: Case, rate: float) -> int:
        """The most steps of a run."""
        own = {(self.cases[i], share): steps for i, share, steps in self.longer}
        return own.get((case, rate), self.steps)


def scaled(train: int, *cases: Case) -> tuple[Case, ...]:
    """Cases whose rates are those of n = 10,000 rows, scaled so that ηλ_max stays as it is there."""
    return tuple(replace(case, lr=case.lr * (10_000 / train)) for case in cases)


PAPER = (Case(MNIST, 1e-2, 1e-3), Case(CIFAR, 1e-2, 1e-3, dtype="tf32"))
LAZY = (
    Case(MNIST, 1.0, 1e-3, paired=True),
    Case(CIFAR, 1.0, 1e-3, paired=True, dtype="tf32"),
    Case(CIFAR, 1.0, 3e-4, paired=True, dtype="tf32"),
)
LAPTOP = (PAPER[0], LAZY[0], PAPER[1], LAZY[2])
SMOKE = (
    Case(DIGITS, 1e-2, 4e-4, dtype="float64"),
    Case(DIGITS, 1.0, 4e-4, True, "float64"),
)


def parts(settings: ImageSettings, key: int, device: str | None) -> list[Part]:
    """The spectrum of every data set; for every case a run on each labelling, and the prediction from its own y − u(0)."""
    pairs, absent = two_layer_runs.found_pairs([case.data for case in settings.cases], settings.train, settings.test)
    found = [absent]
    record = two_layer_runs.log_steps(settings.steps, settings.every)
    for name, data in pairs.items():
        seconds = planned(10.0 * data.n**3, 0, device)
        found.append(Part(f"spectrum of {name}", spectrum, (data, key), seconds=seconds))
        for case in settings.cases:
            if case.data != name:
                continue
            options = {"lr": case.lr, "steps": settings.steps, "record": record, "dtype": case.dtype}
            network, needs = TwoLayer(settings.width, case.kappa, case.paired), (f"spectrum of {name}",)
            seconds = two_layer_runs.run_seconds(data, settings.width, settings.steps, device)
            for label in ROLES:
                found.append(
                    Part(case.run(label), trained_on_labels, (data, label, network, key, options), needs, seconds)
                )
            of, needs = (data, key, np.array(record), case.lr), (*needs, *map(case.run, ROLES))
            found.append(Part(case.prediction, predicted_losses, of, needs, planned(300.0 * data.n**2, 0, device)))
    return found


def labelled(data: Dataset, label: str, key: int, worst: np.ndarray) -> Dataset:
    """One of the three labellings that the paper compares: true, redrawn at random, and the worst case.

    Ref: fine_grained, Fig. 1
    """
    if label == "worst case":
        return data.with_targets(worst, "worst-case labels")
    return data if label == "true" else two_layer_runs.with_random_labels(data, key)


def spectrum(work: Work, data: Dataset, key: int) -> dict[str, Any]:
    """All eigenvalues of H, |v_iᵀy| for the three labellings, largest eigenvalue first, and the worst-case labels."""
    values, vectors = _all_eigenpairs(gram(Kernel(), data.X, device=work.device))
    worst = vectors[:, 0] * np.sqrt(data.n)
    labels = [labelled(data, label, key, worst).y for label in ROLES]
    projections = np.stack([np.abs(vectors.T @ y)[::-1] for y in labels])
    return {"eigenvalues": values[::-1], "projections": projections, "worst": worst}


def _all_eigenpairs(H: AbstractGram) -> tuple[np.ndarray, np.ndarray]:
    """Every eigenvalue, smallest first, and its vector, where the matrix lies."""
    if H.xp is np:
        return scipy.linalg.eigh(H.dense())
    import jax

    with jax.enable_x64(True):
        values, vectors = H.xp.linalg.eigh(H.xp.asarray(H.dense()))
        return np.asarray(values), np.asarray(vectors)


def trained_on_labels(
    work: Work, data: Dataset, label: str, network: TwoLayer, key: int, options: Mapping[str, Any], found: Arrays
) -> dict[str, Any]:
    """A run on one of the labellings; the worst one comes from the spectrum."""
    return two_layer_runs.trained(work, labelled(data, label, key, found["worst"]), network, key, options)


def predicted_losses(
    work: Work, data: Dataset, key: int, steps: np.ndarray, lr: float, found: Arrays, *runs: Arrays
) -> dict[str, Any]:
    """The prediction for each labelling from H and the residual at the start of its run."""
    labels = [labelled(data, label, key, found["worst"]).y for label in ROLES]
    residuals = np.stack([y - run["initial_outputs"] for y, run in zip(labels, runs, strict=True)], axis=1)
    return two_layer_runs.forecasts(work, data, residuals, steps, lr)


def conclude(settings: ImageSettings, found: Found) -> tuple[Values, Arrays]:
    """Every case: what each run came to beside its prediction."""
    arrays: dict[str, np.ndarray] = {}
    cases: list[dict[str, Any]] = []
    for name in dict.fromkeys(case.data for case in settings.cases):
        if f"spectrum of {name}" not in found:
            continue
        own = found[f"spectrum of {name}"]
        arrays |= {f"{name}.{what}": value for what, value in own.items() if what != "worst"}
        for case in settings.cases:
            if case.data == name:
                facts, kept = _case(settings, case, found)
                cases.append(facts)
                arrays |= {f"{case.name}.{what}": value for what, value in kept.items()}
    return {"cases": cases, "absent": found[ABSENT]["lines"].tolist()}, arrays


def _case(settings: ImageSettings, case: Case, found: Found) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    predicted, steps = found[case.prediction], np.array(two_layer_runs.log_steps(settings.steps, settings.every))
    kept: dict[str, np.ndarray] = {"steps": steps}
    facts: dict[str, Any] = {"case": case.name, "data": case.data, "kappa": case.kappa, "lr": case.lr, "labels": {}}
    for i, label in enumerate(ROLES):
        run = found[case.run(label)]
        at = np.searchsorted(steps, run["steps"])
        observed, ahead = run["loss"], predicted["loss"][i][at]
        moves = two_layer_runs.largest_error(run["movement"][:, 0], predicted["movement"][i][at])
        lazy = float(run["movement"][-1, 0]) / (np.sqrt(settings.width) * case.kappa)
        own = {"observed": observed, "predicted": predicted["loss"][i]} | {
            w: predicted[w][i] for w in ("lower", "upper")
        }
        own |= {what: run[what] for what in ("steps", "movement", "flips", "kernel_from_start", "kernel_from_limit")}
        kept |= {f"{label}.{what}": value for what, value in own.items()}
        facts["labels"][label] = {
            "loss": float(observed[-1]), "share_left": float(observed[-1] / observed[0]),
            "largest_error": two_layer_runs.largest_error(observed, ahead), "movement_error": moves, "laziness": lazy,
            "flips": float(run["flips"][-1, 0]), "kernel_drift": float(run["kernel_from_start"][-1]),
            "stopped": str(run["stopped"]), "ms_a_step": 1e3 * float(run["seconds_per_step"]),
        }  # fmt: skip
    facts["order_holds"] = _falls_in_order(facts["labels"])
    facts["stable"] = str(predicted["stable"]) != "unstable"
    return facts | {"largest_stable_rate": float(predicted["limit"])}, kept


def _falls_in_order(labels: Mapping[str, Any]) -> bool:
    return labels["true"]["share_left"] < labels["random"]["share_left"] < labels["worst case"]["share_left"]


def page(settings: ImageSettings, values: Values, arrays: Arrays) -> tuple[sections.Section, ...]:
    """The claims, then the spectrum of every data set and its cases."""
    told = [_summary(settings, values, arrays)]
    for name in dict.fromkeys(fact["data"] for fact in values["cases"]):
        told.append(_spectrum_section(name, arrays))
        told += [_case_section(fact, arrays) for fact in values["cases"] if fact["data"] == name]
    return tuple(told)


def _case_section(fact: Mapping[str, Any], arrays: Arrays) -> sections.Section:
    series: list[sections.Series] = []
    rows: list[tuple[Any, ...]] = []
    name, stable = fact["case"], fact["stable"]
    for label, own in fact["labels"].items():
        rows.append((
            label, own["share_left"], own["largest_error"] if stable else None, own["movement_error"] if stable else None,
            own["laziness"], own["flips"], own["kernel_drift"], round(own["ms_a_step"], 2),
        ))  # fmt: skip
        role, kept = ROLES[label], {what: arrays[f"{name}.{label}.{what}"] for what in DRAWN}
        start = kept["observed"][0]
        if stable:
            series.append(
                sections.series(f"{label}, predicted", arrays[f"{name}.steps"], kept["predicted"] / start, role=role,
                                lower=kept["lower"] / start, upper=kept["upper"] / start)
            )  # fmt: skip
        mark: sections.Mark = "points" if stable else "line"
        series.append(
            sections.series(f"{label}, observed", kept["steps"], kept["observed"] / start, role=role, mark=mark)
        )
    figure = sections.Figure(
        f"Loss over steps: {name}",
        "Training loss over its start: observed, and predicted from H, y and u(0) alone, with its bracket.",
        "step", "loss / loss(0)", tuple(series), y_scale="log",
    )  # fmt: skip
    table = sections.Table(
        ("labels", "loss left", "error of the predicted loss", "error of the predicted movement", "laziness",
         "signs flipped", "kernel drift", "ms a step"),
        tuple(rows), "Errors are the largest over all recorded steps, relative to the prediction.",
    )  # fmt: skip
    words = sections.Text(_found(fact), "plain" if stable else "warning")
    return sections.Section(name, (words, figure, table))


DRAWN = ("steps", "observed", "predicted", "lower", "upper")


def _found(facts: Mapping[str, Any]) -> str:
    order = "True labels fall fastest, then random, then worst-case ones" if facts["order_holds"] else (
        "The losses do not end in the order true, random, worst case"
    )  # fmt: skip
    if not facts["stable"]:
        return (
            f"{order}. The rate {facts['lr']:g} is above 2/λ_max = {facts['largest_stable_rate']:.3g}: the linear dynamics diverge, "
            "so there is no prediction to compare with; the network itself is free to leave them."
        )
    true = facts["labels"]["true"]
    return (
        f"{order}. For true labels the predicted loss is off by at most {true['largest_error']:.1%}; "
        f"laziness {true['laziness']:.3g}, {true['flips']:.1%} of signs flipped."
    )


def _spectrum_section(name: str, arrays: Arrays) -> sections.Section:
    values, projections = arrays[f"{name}.eigenvalues"], arrays[f"{name}.projections"]
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


def claims(settings: ImageSettings, values: Values) -> list[sections.Text]:
    """What the paper says, what held, what was run, and which data sets were not there."""
    says = sections.Text(
        "The paper says: gradient descent fits true labels faster than random ones and those faster than the worst case, "
        "because true labels lie along the eigenvectors of large eigenvalues; and the loss follows the linear dynamics of H."
    )
    setup = sections.Text(
        f"Here: n = {settings.train}, m = {settings.width}, {settings.steps} steps of full-batch gradient descent on ½Σ(y − u)², "
        "unit rows, labels ±1; the random labels are drawn once; the worst case is the last eigenvector scaled to ‖y‖."
    )
    absent = [sections.Text(line, "warning") for line in values["absent"]]
    return [*_remarks(values["cases"]), says, setup, *absent]


def _summary(settings: ImageSettings, values: Values, arrays: Arrays) -> sections.Section:
    rows = []
    for fact in values["cases"]:
        true, random = fact["labels"]["true"], fact["labels"]["random"]
        errors = (
            (true["largest_error"], random["largest_error"], true["movement_error"]) if fact["stable"] else (None,) * 3
        )
        held, stable = ("yes" if fact[name] else "no" for name in ("order_holds", "stable"))
        rows.append((fact["case"], held, stable, true["laziness"], true["flips"], *errors))
    table = sections.Table(
        ("case", "order holds", "η below 2/λ_max", "laziness", "signs flipped", "error, true labels", "error, random labels",
         "movement error, true"), tuple(rows), "What agreed and what did not; true labels unless said.",
    )  # fmt: skip
    return sections.Section("What agreed and what did not", (*claims(settings, values), table))


def _remarks(found: Sequence[Mapping[str, Any]]) -> tuple[sections.Text, ...]:
    held = sum(fact["order_holds"] for fact in found)
    remarks = [sections.Text(f"The order of the three losses holds in {held} of {len(found)} cases.", "good" if held == len(found) else "warning")]  # fmt: skip
    for fact in found:
        true = fact["labels"]["true"]
        if fact["stable"] and true["laziness"] > 1:
            words = (
                f"{fact['case']}: a neuron moves {true['laziness']:.3g} times the size of its start, so this run is not in the "
                "regime of the theorem, and the linear prediction is only a guide."
            )
            remarks.append(sections.Text(words, "warning"))
    return tuple(remarks)


def outline(settings: ImageSettings) -> str:
    """The runs and their size, in words."""
    d = {MNIST: 784, CIFAR: 3072, DIGITS: 64}
    products = sum(12 * settings.train * settings.width * d[case.data] * settings.steps for case in settings.cases)
    return f"{3 * len(settings.cases)} runs of {settings.steps} steps, n = {settings.train}, m = {settings.width}: {products:.1e} operations"


STUDY = Study(
    name="fine-grained-fig1",
    title="Fig. 1 of Arora et al. 2019: true, random and worst-case labels",
    reference="fine_grained, Fig. 1",
    settings={
        "smoke": ImageSettings(200, 50, 256, 100, 10, scaled(200, *SMOKE)),
        "small": ImageSettings(600, 200, 1000, 500, 25, scaled(600, *(replace(case, dtype="float32") for case in LAPTOP))),
        "full": ImageSettings(10_000, 2_000, 10_000, 2_000, 50, (PAPER[0], LAZY[0], PAPER[1], LAZY[1], LAZY[2])),
    },
    outline=outline, parts=parts, conclude=conclude, claims=claims, page=page,
)  # fmt: skip
