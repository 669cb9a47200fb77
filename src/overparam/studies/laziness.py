"""How the error of the predicted loss grows with the laziness number, over widths and initial scales: when to trust it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from overparam.core import sections
from overparam.data import Dataset, corrupt_labels
from overparam.networks import TwoLayer
from overparam.studies.study import Findings, Study, Workplace
from overparam.studies.two_layer_runs import (
    DIGITS,
    MNIST,
    forecasts,
    image_pair,
    largest_error,
    log_steps,
    run_part,
    starting_gram,
)

LABELS = ("true", "random")


@dataclass(frozen=True)
class Settings:
    """The grid: every width with every κ, trained from the paired initialisation on true and on random labels."""

    data: str
    train: int
    steps: int
    lr: float
    widths: tuple[int, ...]
    kappas: tuple[float, ...]
    dtype: str
    extra: tuple[tuple[int, float], ...] = ()
    """More (width, κ), on true labels alone."""


def run(settings: Settings, workplace: Workplace) -> Findings:
    """Train the whole grid, predict once (u(0) = 0, so neither m nor κ enters), and compare."""
    data = image_pair(settings.data, settings.train, 1)
    labelled = {"true": data, "random": corrupt_labels(data, 1.0, key=workplace.seed).data}
    record = log_steps(settings.steps, max(1, settings.steps // 40), 25)
    steps = np.array(record)
    Y = np.stack([labelled[label].y for label in LABELS], axis=1)
    predicted = forecasts(workplace, "prediction", data, Y, steps, settings.lr)
    cells = [(m, kappa, label) for m in settings.widths for kappa in settings.kappas for label in LABELS]
    cells += [(m, kappa, "true") for m, kappa in settings.extra]
    rows: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {
        "steps": steps,
        "predicted": predicted["loss"],
        "predicted_movement": predicted["movement"],
    }
    starts = {m: _from_start(settings, workplace, data, Y, steps, m) for m in dict.fromkeys(cell[0] for cell in cells)}
    for m, kappa, label in cells:
        name = f"m = {m}, κ = {kappa:g}, {label} labels"
        done = run_part(
            workplace, name, labelled[label].replace(test=None), TwoLayer(m, kappa, paired=True),
            lr=settings.lr, steps=settings.steps, record=record, dtype=settings.dtype,
        )  # fmt: skip
        i = LABELS.index(label)
        loss, moved, count = done["loss"], done["movement"][:, 0], len(done["loss"])
        own = starts[m]
        arrays[f"{name}.loss"], arrays[f"{name}.movement"] = loss, moved
        rows.append(
            {
                "m": m, "kappa": kappa, "labels": label,
                "laziness": float(predicted["movement"][i][-1]) / (np.sqrt(m) * kappa),
                "observed_laziness": float(moved[-1]) / (np.sqrt(m) * kappa),
                "flips": float(done["flips"][-1, 0]),
                "loss_error": largest_error(loss, predicted["loss"][i][:count]),
                "movement_error": largest_error(moved, predicted["movement"][i][:count]),
                "loss_error_start": largest_error(loss, own["loss"][i][:count]),
                "movement_error_start": largest_error(moved, own["movement"][i][:count]),
                "kernel_drift": float(done["kernel_from_start"][-1]), "kernel_from_limit": float(done["kernel_from_limit"][0]),
                "ms_a_step": 1e3 * float(done["seconds_per_step"]),
            }
        )  # fmt: skip
    return Findings({"rows": rows}, arrays, _sections(settings, rows))


def _from_start(
    settings: Settings, workplace: Workplace, data: Dataset, Y: np.ndarray, steps: np.ndarray, m: int
) -> dict[str, np.ndarray]:
    """The prediction from H(0) instead of H∞; signs at the start do not depend on κ, so one a width is enough."""
    network = TwoLayer(m, 1.0, paired=True)
    name = f"prediction from H(0), m = {m}"
    return forecasts(workplace, name, data, Y, steps, settings.lr, lambda: starting_gram(workplace, data, network))


def _sections(settings: Settings, rows: list[dict[str, Any]]) -> tuple[sections.Section, ...]:
    text = sections.Text(
        f"{settings.data} 0/1, n = {settings.train}, η = {settings.lr:g}, {settings.steps} steps, paired initialisation (u(0) = 0). The laziness number "
        "‖W(s) − W(0)‖_F / (√m κ) is predicted before training; the error is the largest of |observed/predicted − 1| over all recorded steps."
    )
    table = sections.Table(
        ("m", "κ", "labels", "laziness, predicted", "laziness, observed", "signs flipped", "error of the predicted loss",
         "error of the movement", "loss error from H(0)", "movement error from H(0)", "kernel drift", "H(0) from H∞"),
        tuple((r["m"], r["kappa"], r["labels"], r["laziness"], r["observed_laziness"], r["flips"], r["loss_error"], r["movement_error"],
               r["loss_error_start"], r["movement_error_start"], r["kernel_drift"], r["kernel_from_limit"]) for r in rows),
    )  # fmt: skip
    roles: dict[str, sections.Role] = {"true": "true", "random": "random"}
    figures = []
    for key, title, words in (
        (
            "loss_error",
            "Error of the predicted loss",
            "Largest relative error of the predicted loss against the predicted laziness.",
        ),
        (
            "movement_error",
            "Error of the predicted movement",
            "Largest relative error of the predicted movement against the predicted laziness.",
        ),
        ("flips", "Signs flipped", "Share of ReLU signs flipped at the end against the predicted laziness."),
    ):
        drawn = tuple(
            sections.series(f"m = {m}, {label} labels", [r["laziness"] for r in own], [r[key] for r in own], mark="points", role=roles[label])
            for m in dict.fromkeys(r["m"] for r in rows)
            for label in LABELS
            if (own := sorted((r for r in rows if r["m"] == m and r["labels"] == label), key=lambda r: r["laziness"]))
        )  # fmt: skip
        figures.append(sections.Figure(title, words, "laziness", title.lower(), drawn, x_scale="log", y_scale="log"))
    return (
        sections.Section("When the prediction may be trusted", (*_remarks(rows), text)),
        sections.Section("Every run", (table, *figures)),
    )


def _remarks(rows: list[dict[str, Any]]) -> list[sections.Text]:
    """What the table says, in words, for each labelling."""
    found: list[sections.Text] = []
    for label in LABELS:
        lazy = [r for r in rows if r["labels"] == label and r["laziness"] < 0.3]
        if lazy:
            loss, move, own = (_most(lazy, key) for key in ("loss_error", "movement_error", "movement_error_start"))
            found.append(
                sections.Text(
                    f"With {label} labels and laziness below 0.3 the loss is predicted within {loss:.1%} and the movement within {move:.1%} "
                    f"({own:.1%} from the network's own H(0): that part is not the width's but the drift's).",
                    "good" if max(loss, move) < 0.1 else "warning",
                )
            )  # fmt: skip
    wild = [r for r in rows if r["laziness"] > 3]
    if wild:
        found.append(sections.Text(f"Beyond laziness 3 the error of the loss reaches {_most(wild, 'loss_error'):.0%}: not the regime of the theorem.", "warning"))  # fmt: skip
    return found


def _most(rows: list[dict[str, Any]], key: str) -> float:
    """The largest value; infinite where a run has none, because it diverged."""
    return max(float("inf") if row[key] is None else float(row[key]) for row in rows)


def _plan(settings: Settings) -> str:
    runs = len(settings.widths) * len(settings.kappas) * len(LABELS) + len(settings.extra)
    return f"{runs} runs of {settings.steps} steps, n = {settings.train}, m up to {max(settings.widths)}"


STUDY = Study(
    name="laziness",
    title="The error of the prediction against the laziness number",
    reference="fine_grained, Thm 4.1, Lemma C.2",
    settings={
        "smoke": Settings(DIGITS, 200, 60, 0.02, (64, 256), (0.03, 1.0), "float64"),
        "small": Settings(MNIST, 1_000, 300, 1e-2, (500, 2_000), (0.01, 0.1, 1.0), "float32"),
        "full": Settings(MNIST, 10_000, 1_000, 1e-3, (2_500, 10_000), (0.01, 0.03, 0.1, 1.0), "float32",
                         ((40_000, 0.1), (40_000, 1.0))),
    },
    plan=_plan,
    run=run,
)  # fmt: skip
