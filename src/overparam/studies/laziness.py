"""How the error of the predicted loss grows with the laziness number, over widths and initial scales: when to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overparam.core import sections
from overparam.data import Dataset
from overparam.frame import Part, Work
from overparam.networks import TwoLayer
from overparam.studies import two_layer_runs
from overparam.studies.study import Arrays, Found, Study, Values, planned
from overparam.studies.two_layer_runs import DIGITS, MNIST

LABELS = ("true", "random")


@dataclass(frozen=True)
class LazinessSettings:
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

    @property
    def record(self) -> list[int]:
        """The steps that are recorded."""
        return two_layer_runs.log_steps(self.steps, max(1, self.steps // 40), 25)

    @property
    def cells(self) -> dict[str, tuple[int, float, str]]:
        """Width, κ and labels of every run, by the name of its part."""
        cells = [(m, kappa, label) for m in self.widths for kappa in self.kappas for label in LABELS]
        cells += [(m, kappa, "true") for m, kappa in self.extra]
        return {f"m = {m}, κ = {kappa:g}, {label} labels": (m, kappa, label) for m, kappa, label in cells}


def parts(settings: LazinessSettings, key: int, device: str | None) -> list[Part]:
    """One prediction from H∞ (u(0) = 0, so neither m nor κ enters), one from H(0) a width, and every run."""
    data = two_layer_runs.image_pair(settings.data, settings.train, 1)
    labelled = {"true": data, "random": two_layer_runs.with_random_labels(data, key)}
    Y = np.stack([labelled[label].y for label in LABELS], axis=1)
    of = (data, Y, np.array(settings.record), settings.lr)
    options = {"lr": settings.lr, "steps": settings.steps, "record": settings.record, "dtype": settings.dtype}
    found = [Part("prediction", two_layer_runs.forecasts, of, seconds=planned(100.0 * data.n**2, 0, device))]
    for m in dict.fromkeys(m for m, _, _ in settings.cells.values()):
        seconds = planned(data.n**2 * (2.0 * m + data.d), 0, device)
        found.append(Part(_from_start(m), forecasts_from_start, (*of, m, key), seconds=seconds))
    for name, (m, kappa, label) in settings.cells.items():
        of = (labelled[label].replace(test=None), TwoLayer(m, kappa, paired=True), key, options)
        found.append(
            Part(name, two_layer_runs.trained, of, seconds=two_layer_runs.run_seconds(data, m, settings.steps, device))
        )
    return found


def _from_start(m: int) -> str:
    return f"prediction from H(0), m = {m}"


def forecasts_from_start(
    work: Work, data: Dataset, Y: np.ndarray, steps: np.ndarray, lr: float, m: int, key: int
) -> dict[str, Any]:
    """The prediction from H(0) instead of H∞; signs at the start do not depend on κ, so one a width is enough."""
    return two_layer_runs.forecasts(
        work, data, Y, steps, lr, two_layer_runs.starting_gram(work, data, TwoLayer(m, 1.0, paired=True), key)
    )


def conclude(settings: LazinessSettings, found: Found) -> tuple[Values, Arrays]:
    """Every run beside its predictions."""
    predicted = found["prediction"]
    rows: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {
        "steps": np.array(settings.record),
        "predicted": predicted["loss"],
        "predicted_movement": predicted["movement"],
    }
    for name, (m, kappa, label) in settings.cells.items():
        done, own, i = found[name], found[_from_start(m)], LABELS.index(label)
        loss, moved, count = done["loss"], done["movement"][:, 0], len(done["loss"])
        arrays[f"{name}.loss"], arrays[f"{name}.movement"] = loss, moved
        rows.append(
            {
                "m": m, "kappa": kappa, "labels": label,
                "laziness": float(predicted["movement"][i][-1]) / (np.sqrt(m) * kappa),
                "observed_laziness": float(moved[-1]) / (np.sqrt(m) * kappa),
                "flips": float(done["flips"][-1, 0]),
                "loss_error": two_layer_runs.largest_error(loss, predicted["loss"][i][:count]),
                "movement_error": two_layer_runs.largest_error(moved, predicted["movement"][i][:count]),
                "loss_error_start": two_layer_runs.largest_error(loss, own["loss"][i][:count]),
                "movement_error_start": two_layer_runs.largest_error(moved, own["movement"][i][:count]),
                "kernel_drift": float(done["kernel_from_start"][-1]), "kernel_from_limit": float(done["kernel_from_limit"][0]),
                "ms_a_step": 1e3 * float(done["seconds_per_step"]),
            }
        )  # fmt: skip
    return {"rows": rows}, arrays


def claims(settings: LazinessSettings, values: Values) -> list[sections.Text]:
    """What the errors say of each labelling, and what was run."""
    text = sections.Text(
        f"{settings.data} 0/1, n = {settings.train}, η = {settings.lr:g}, {settings.steps} steps, paired initialisation (u(0) = 0). The laziness number "
        "‖W(s) − W(0)‖_F / (√m κ) is predicted before training; the error is the largest of |observed/predicted − 1| over all recorded steps."
    )
    return [*_remarks(values["rows"]), text]


def page(settings: LazinessSettings, values: Values, arrays: Arrays) -> tuple[sections.Section, ...]:
    """The claims, every run in a table, and errors against laziness."""
    rows = values["rows"]
    columns = {
        "m": "m", "kappa": "κ", "labels": "labels", "laziness": "laziness, predicted", "observed_laziness": "laziness, observed",
        "flips": "signs flipped", "loss_error": "error of the predicted loss", "movement_error": "error of the movement",
        "loss_error_start": "loss error from H(0)", "movement_error_start": "movement error from H(0)",
        "kernel_drift": "kernel drift", "kernel_from_limit": "H(0) from H∞",
    }  # fmt: skip
    roles: dict[str, sections.Role] = {"true": "true", "random": "random"}
    figures = []
    for key, title, shown in (
        ("loss_error", "Error of the predicted loss", "Largest relative error of the predicted loss"),
        ("movement_error", "Error of the predicted movement", "Largest relative error of the predicted movement"),
        ("flips", "Signs flipped", "Share of ReLU signs flipped at the end"),
    ):
        words = f"{shown} against the predicted laziness."
        drawn = tuple(
            sections.series(f"m = {m}, {label} labels", [r["laziness"] for r in own], [r[key] for r in own], mark="points", role=roles[label])
            for m in dict.fromkeys(r["m"] for r in rows)
            for label in LABELS
            if (own := sorted((r for r in rows if r["m"] == m and r["labels"] == label), key=lambda r: r["laziness"]))
        )  # fmt: skip
        figures.append(sections.Figure(title, words, "laziness", title.lower(), drawn, x_scale="log", y_scale="log"))
    return (
        sections.Section("When the prediction may be trusted", tuple(claims(settings, values))),
        sections.Section("Every run", (sections.table(columns, rows), *figures)),
    )


def _remarks(rows: Sequence[Mapping[str, Any]]) -> list[sections.Text]:
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


def _most(rows: Sequence[Mapping[str, Any]], key: str) -> float:
    """The largest value; infinite where a run has none, because it diverged."""
    return max(float("inf") if row[key] is None else float(row[key]) for row in rows)


def outline(settings: LazinessSettings) -> str:
    """The runs, in words."""
    runs = len(settings.widths) * len(settings.kappas) * len(LABELS) + len(settings.extra)
    return f"{runs} runs of {settings.steps} steps, n = {settings.train}, m up to {max(settings.widths)}"


STUDY = Study(
    name="laziness",
    title="The error of the prediction against the laziness number",
    reference="fine_grained, Thm 4.1, Lemma C.2",
    settings={
        "smoke": LazinessSettings(DIGITS, 200, 60, 0.02, (64, 256), (0.03, 1.0), "float64"),
        "small": LazinessSettings(MNIST, 1_000, 300, 1e-2, (500, 2_000), (0.01, 0.1, 1.0), "float32"),
        "full": LazinessSettings(MNIST, 10_000, 1_000, 1e-3, (2_500, 10_000), (0.01, 0.03, 0.1, 1.0), "float32",
                         ((40_000, 0.1), (40_000, 1.0))),
    },
    outline=outline, parts=parts, conclude=conclude, claims=claims, page=page,
)  # fmt: skip
