"""The page of `convergence-fig1`: what the numbers of every landscape say of the paper's observation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from overparam.core import sections
from overparam.studies.convergence_fig1 import (
    BATCH,
    DECAY,
    MOMENTUM,
    PAPER_EPOCHS,
    PAPER_FALLS,
    RATE,
    SETTINGS,
    LandscapeSettings,
    Task,
    conclude,
    outline,
    parts,
)
from overparam.studies.study import Arrays, Study, Values

Row = Mapping[str, Any]
ROLES: tuple[sections.Role, ...] = ("true", "random", "worst", "observed")


def page(settings: LandscapeSettings, values: Values, arrays: Arrays) -> tuple[sections.Section, ...]:
    """All sections."""
    rows = values["landscapes"]
    return (
        sections.Section("What the paper shows, and what was found", tuple(claims(settings, values))),
        sections.Section("How far the objective falls", (_falls_table(rows), *_falls_figures(rows))),
        sections.Section("The training", (_ends_table(values["runs"]), *_curves(settings, values["runs"], arrays))),
        *(_surfaces(end["network"], end["task"], rows, arrays) for end in values["runs"]),
    )


def claims(settings: LandscapeSettings, values: Values) -> tuple[sections.Text, ...]:
    """What the paper draws and says, what was seen, and how it was run."""
    return (*_verdict(values), *_setting(settings, values))


def _verdict(values: Mapping[str, Any]) -> tuple[sections.Text, ...]:
    seen = values["observation"]
    count, falls, ahead = seen["landscapes"], seen["gradient_falls"], seen["gradient_ahead"]
    g, c = seen["gradient_share"], seen["curvature_share"]
    agrees = falls == count and ahead == count
    words = (
        f"The negative gradient lowers the objective at {falls} of {count} points: by {g['least']:.1%} to {g['largest']:.1%} of "
        f"its value, {g['median']:.1%} at the median. Along ± the most negative curvature it falls by {c['least']:.1%} to "
        f"{c['largest']:.1%}, {c['median']:.1%} at the median. The gradient is ahead at {ahead} of {count} points."
    )
    if agrees:
        words += " So at no point looked at is negative curvature needed to go down: as the paper says."
    elif falls == count:
        words += " So the gradient always suffices to go down, as the paper says; it is not always the direction that falls furthest."
    else:
        words += " So the paper's observation does not hold at all of these points."
    return (
        sections.Text(
            "The paper draws the training objective F on the plane of its gradient and the most negatively curved direction of "
            "the smoothed Hessian, at six epochs of SGD. It observes that the gradient is large and that going against it "
            "decreases the objective enough; negative curvature is not needed."
        ),
        sections.Text(words, "good" if agrees else "warning"),
        sections.Text(_where_negative(seen)),
    )


def _where_negative(seen: Mapping[str, Any]) -> str:
    """The comparison at the points where there is negative curvature to compare with; elsewhere it says little."""
    negative, count, there = seen["negative"], seen["landscapes"], seen["where_negative"]
    words = f"Along v the smoothed Hessian has negative curvature beyond two standard errors at {negative} of {count} points"
    if negative:
        g, c, r = there["gradient_share"], there["curvature_share"], there["curvature_ratio"]
        words += (
            f": {r['least']:.2g} to {r['largest']:.2g} of the largest curvature seen. The comparison is with these: there the "
            f"gradient lowers F by {g['least']:.1%} to {g['largest']:.1%}, {g['median']:.1%} at the median, and v by "
            f"{c['least']:.1%} to {c['largest']:.1%}, {c['median']:.1%} at the median; the gradient is ahead at "
            f"{there['gradient_ahead']} of {negative}"
        )
    words += "."
    if negative < count:
        words += (
            " At the other points the steps of Oja's method found none beyond the error, which does not prove that there is "
            "none: v is then the least curved direction they found."
        )
    return (
        words + " The gradient is exact on these rows; v is an estimate by noisy steps, so its falls may be too small."
    )


def _setting(settings: LandscapeSettings, values: Mapping[str, Any]) -> tuple[sections.Text, ...]:
    scaled = ", ".join(str(settings.scaled(epoch)) for epoch in settings.shown)
    data = f"{settings.train:,} training images" + (
        " of CIFAR-10, the balanced ones at hand, not all 50,000"
        if settings.source == "cifar10"
        else f" of {settings.source}"
    )
    texts = [
        sections.Text(
            f"{data}; each colour standardised, no augmentation, so that F is one fixed function. SGD with momentum {MOMENTUM}, rate "
            f"{RATE}, a tenth of it from epoch {settings.scaled(PAPER_FALLS[0])} and again from {settings.scaled(PAPER_FALLS[1])}, "
            f"{settings.epochs} epochs (the paper has {PAPER_EPOCHS}), shown after {scaled}. The paper's text does not give batch and "
            f"weight decay: {settings.batch} and {DECAY:g} here. {'' if settings.batch == BATCH else 'A smaller batch than usual, for few rows. '}"
            "He's initialisation. Random labels are drawn from all classes, so a tenth of them stay right."
        ),
        sections.Text(
            f"F is the mean cross-entropy, without weight decay, of the first {settings.rows:,} training rows with their training "
            f"labels, batch norm by the averages of {settings.chunk} rows as in training, in float32 (about 6 digits). "
            f"Smoothing: Gaussian noise of norm {settings.smoothing:.0%} of that of the weights; {settings.oja} steps of Oja's method "
            f"on {settings.oja_batch} rows each. Both directions have norm 1; distances are searched from 1e-5 to 1 times the "
            "norm of the weights, both ways. A plane reaches twice the distance at which F is least along −∇F, on both axes."
        ),
    ]
    for name in values["missing"]:
        words = f"{Task(name).words} is not here. To add it, put train.bin and test.bin of its binary version into "
        texts.append(sections.Text(f"{words}$OVERPARAM_DATA/{name} and run the study again.", "warning"))
    return tuple(texts)


def _falls_table(rows: Sequence[Row]) -> sections.Table:
    columns = {
        "network": "network", "task": "labels", "epoch": "epoch", "rate": "rate", "here": "F now", "gradient_norm": "‖∇F‖",
        "gradient_least": "least along −∇F", "gradient_distance": "at distance", "gradient_share": "falls by",
        "curvature_least": "least along ±v", "curvature_distance": "at distance", "curvature_share": "falls by",
        "curvature": "vᵀHv smoothed", "curvature_error": "± error", "curvature_here": "vᵀHv here", "largest": "largest",
        "gradient_curvature": "dᵀHd",
    }  # fmt: skip
    words = (
        "v: unit direction of most negative curvature. H: the Hessian. largest: the largest |curvature| power iteration saw. "
        "d: minus the gradient at norm 1."
    )
    shares = ("gradient_share", "curvature_share")
    return sections.table(columns, ({**row} | {name: f"{row[name]:.1%}" for name in shares} for row in rows), words)


def _falls_figures(rows: Sequence[Row]) -> tuple[sections.Figure, ...]:
    figures = []
    for name in dict.fromkeys(row["network"] for row in rows):
        curves = []
        for place, task in enumerate(dict.fromkeys(row["task"] for row in rows)):
            own = [row for row in rows if (row["network"], row["task"]) == (name, task)]
            epochs, role = [row["epoch"] for row in own], ROLES[place % len(ROLES)]
            for which, words in (("gradient", "−∇F"), ("curvature", "±v")):
                left, dashed = [1 - row[f"{which}_share"] for row in own], which == "curvature"
                curves.append(sections.series(f"{task}, along {words}", epochs, left, role=role, dashed=dashed))
        said = "The least value of F along each line through the point, over F at the point."
        figures.append(sections.Figure(f"{name}: what is left of F", said, "epoch", "least F / F now", tuple(curves)))
    return tuple(figures)


def _ends_table(ends: Sequence[Row]) -> sections.Table:
    columns = {
        "network": "network", "task": "labels", "epochs": "epochs", "loss": "training loss", "accuracy": "training accuracy",
        "test_accuracy": "test accuracy", "milliseconds": "ms a step",
    }  # fmt: skip
    return sections.table(
        columns, ends, "At the end, batch norm by its running averages. Test labels are the true ones."
    )


def _curves(settings: LandscapeSettings, ends: Sequence[Row], arrays: Arrays) -> tuple[sections.Figure, ...]:
    loss, accuracy = [], []
    for place, end in enumerate(ends):
        words, role = f"{end['network']}, {end['task']}", ROLES[place % len(ROLES)]
        epochs = arrays[f"{words}/steps"] / settings.batches
        loss.append(sections.series(words, epochs, arrays[f"{words}/loss"], role=role))
        accuracy.append(sections.series(f"{words}: training", epochs, arrays[f"{words}/accuracy"], role=role))
        if f"{words}/test_accuracy" in arrays:
            test = arrays[f"{words}/test_accuracy"]
            accuracy.append(sections.series(f"{words}: test", epochs, test, role=role, dashed=True))
    losses, both = (
        "Mean cross-entropy on all training rows.",
        "On training rows with their training labels, and on test rows.",
    )
    return (
        sections.Figure("Training loss", losses, "epoch", "loss", tuple(loss), y_scale="log"),
        sections.Figure("Accuracy", both, "epoch", "accuracy", tuple(accuracy)),
    )


def _surfaces(network: str, task: str, rows: Sequence[Row], arrays: Arrays) -> sections.Section:
    own = [_surface(row, arrays) for row in rows if (row["network"], row["task"]) == (network, task)]
    return sections.Section(f"Surfaces: {network}, {task}", tuple(own))


def _surface(row: Row, arrays: Arrays) -> sections.Surface:
    name = f"{row['network']}, {row['task']}, epoch {row['epoch']}"
    return sections.surface(
        name, "F on the plane of −∇F and the most negative curvature v; the point is where SGD was.",
        *(arrays[f"{name}/{what}"] for what in ("x", "y", "surface")), x_label="distance along −∇F", y_label="distance along v",
        z_label="F", marked=(0.0, 0.0, row["here"]),
    )  # fmt: skip


STUDY = Study(
    "convergence-fig1", "Landscapes near the trajectory of SGD: the gradient and the most negative curvature",
    "convergence, Fig. 1", SETTINGS, outline, parts, conclude, claims, page,
)  # fmt: skip
