"""Fig. 1, 2 and 4 to 7: the objective of VGG-19 and ResNet-32 along its gradient and its most negative curvature.

The page says what the numbers of every landscape say of the paper's observation.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np

from overparam.core import sections
from overparam.core.network import AbstractNetwork, Params
from overparam.data import Dataset, corrupt_labels, load
from overparam.data.named import find_named
from overparam.frame import Keeping, Kept, Part, Work
from overparam.landscapes import decrease_along, negative_curvature, objective_of, surface
from overparam.networks import ImageResNet, Vgg
from overparam.studies.study import Arrays, Found, Scale, Study, Values, planned
from overparam.training import StepDecay, Trajectory, sgd

PAPER_EPOCHS, PAPER_SHOWN, PAPER_FALLS = 160, (5, 40, 90, 120, 130, 160), (81, 122)
"""Epochs of the paper's runs, those it shows, and those at which the rate falls to a tenth."""
RATE, MOMENTUM, BATCH, DECAY = 0.1, 0.9, 128, 5e-4
"""The paper's first rate and momentum; batch and weight decay are not in its text: the usual ones."""
NOISE = 0.2


RECORDS = ("steps", "loss", "accuracy", "test_accuracy")
AT_ONCE = 1000
"""Most rows that go through a network together for a record."""
STAY = np.array([[1.0, 0.0, 0.0]])
"""A step of `walk` that goes nowhere and tells vᵀHv, by a program that Oja's method has compiled."""
NUMBERS = (
    "here", "weights", "gradient_norm", "gradient_curvature", "gradient_least", "gradient_distance", "curvature",
    "curvature_error", "curvature_here", "largest", "curvature_least", "curvature_distance", "smoothing", "cosine",
)  # fmt: skip
ARRAYS = ("history", "distances", "along_gradient", "along_curvature", "x", "y", "surface")
Row = Mapping[str, Any]
ROLES: tuple[sections.Role, ...] = ("true", "random", "worst", "observed")


Task = tuple[str, float]
"""What is learnt: a data set by name, and the share of its training labels that are redrawn."""


def words_of(task: Task) -> str:
    """What is learnt, in a few words.

    >>> words_of(("cifar10", 0.2))
    'CIFAR-10, 20% random labels'
    """
    source, noise = task
    name = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}.get(source, source)
    return f"{name}, {noise:.0%} random labels" if noise else name


@dataclass(frozen=True)
class LandscapeSettings:
    """Sizes. Epochs are the paper's times `epochs`/160."""

    networks: tuple[str, ...]
    source: str
    more: tuple[str, ...]
    """Other data sets, where the user has them."""
    train: int
    test: int
    epochs: int
    shown: tuple[int, ...]
    """Of the paper's epochs."""
    vgg: tuple[tuple[int, int], ...]
    resnet: tuple[int, tuple[int, int, int]]
    """Depth and channels."""
    rows: int
    """The first so many training rows make the objective of the landscape."""
    chunk: int
    """Rows whose own averages a batch norm takes, about a batch of the training."""
    points: int
    line: int
    """Distances each way along a direction."""
    oja: int
    """Steps of Oja's method."""
    oja_batch: int
    smoothing: float = 0.01
    """‖noise‖ as a share of the norm of the weights."""
    dtype: str = "float32"
    """Of the training; the landscape is computed in float32."""
    batch: int = BATCH

    @property
    def batches(self) -> int:
        """Steps an epoch."""
        return max(1, self.train // self.batch)

    def scaled(self, epoch: int) -> int:
        """An epoch of the paper in this run.

        >>> [SETTINGS["full"].scaled(epoch) for epoch in PAPER_SHOWN]
        [5, 40, 90, 120, 130, 160]
        """
        return max(1, round(epoch * self.epochs / PAPER_EPOCHS))

    @property
    def record(self) -> int:
        """Every how many epochs loss and accuracy are recorded."""
        return gcd(*(self.scaled(epoch) for epoch in self.shown))

    def rate(self, epoch: int) -> float:
        """At the end of an epoch of this run."""
        return RATE * 0.1 ** sum(epoch > self.scaled(fall) for fall in PAPER_FALLS)

    def tasks(self, present: bool = True) -> tuple[Task, ...]:
        """Clean and noisy labels, and other data sets: those that are there, or all."""
        more = tuple((name, 0.0) for name in self.more if not present or find_named(name) is not None)
        return ((self.source, 0.0), (self.source, NOISE), *more)

    def network(self, name: str, data: Dataset) -> AbstractNetwork:
        """One of `networks`, for such images."""
        image, outputs = image_of(data), data.y.shape[1]
        if name.startswith("VGG"):
            return Vgg(outputs, self.vgg, image)
        depth, channels = self.resnet
        return ImageResNet(depth, outputs, channels, image)


def image_of(data: Dataset) -> tuple[int, int, int]:
    """(rows, columns, channels)."""
    shape = data.image_shape
    if shape is None or len(shape) not in (2, 3):
        raise ValueError(f"{data.name} has no images; expected a data set of images, such as 'cifar10'")
    rows, columns = shape[-2:]
    return rows, columns, shape[0] if len(shape) == 3 else 1


def data_of(settings: LandscapeSettings, task: Task, seed: int) -> Dataset:
    """The rows, each colour with mean 0 and variance 1 over the training images, in float32; test labels stay clean."""
    source, noise = task
    data = load(source, train=settings.train, test=settings.test)
    channels = image_of(data)[2]
    pixels = data.X.reshape(data.n, channels, -1)
    mean, deviation = pixels.mean(axis=(0, 2)), pixels.std(axis=(0, 2))

    def scaled(X: np.ndarray) -> np.ndarray:
        images = X.reshape(len(X), channels, -1)
        return ((images - mean[:, None]) / deviation[:, None]).reshape(X.shape).astype(np.float32)

    test = None if data.test is None else replace(data.test, X=scaled(data.test.X))
    data = data.replace(X=scaled(data.X), test=test)
    return corrupt_labels(data, noise, key=seed, test=False).data if noise else data


def parts(settings: LandscapeSettings, key: int, device: str | None) -> list[Part]:
    """Every network on every task."""
    found = []
    own = replace(settings, networks=(), more=())  # which other runs there are changes nothing
    data = {task: data_of(settings, task, key) for task in settings.tasks()}
    for name in settings.networks:
        for task, rows in data.items():
            seconds = _seconds(settings, rows, device)
            found.append(Part(f"{name}, {words_of(task)}", shown_epochs, (own, name, rows, key), seconds=seconds))
    return found


def _seconds(settings: LandscapeSettings, data: Dataset, device: str | None) -> float:
    """Of one run and its landscapes: three products an image and layer forwards and back, of the larger network."""
    rows, columns, channels = image_of(data)
    forward, before = 0.0, channels
    for place, (width, count) in enumerate(settings.vgg):
        pixels = max(1.0, rows * columns / 4**place)
        forward += 18 * pixels * width * (before + (count - 1) * width)
        before = width
    steps = settings.epochs * settings.batches
    seen = len(settings.shown) * settings.rows * (settings.points**2 + 2 * settings.line)
    seen += len(settings.shown) * 4 * settings.oja * settings.oja_batch
    return 5 + planned(forward * (3 * steps * settings.batch + seen), steps, device)  # many programs to compile


def shown_epochs(work: Work, settings: LandscapeSettings, name: str, data: Dataset, key: int) -> dict[str, Any]:
    """A network trained on a task: the landscape at every shown epoch, under the paper's number of it, and the records.

    The training goes on from one shown epoch to the next. Its state and the landscapes that are finished are kept until
    the last of them is done, so that a killed run goes on.
    """
    net, keeping, found = settings.network(name, data), Keeping(work.place), {}
    with _folder(work) as folder:
        for epoch in settings.shown:
            kept = keeping.find(f"epoch {epoch}", "landscape")
            if kept is None:
                run = trained(settings, work, net, data, epoch, folder, key)
                records = {name: np.asarray(run.records[name]) for name in RECORDS if name in run.records}
                records |= {"steps": run.steps, "seconds_per_step": run.seconds_per_step}
                seen = landscape(settings, work, net, data, run.params, key)
                kept = Kept({name: np.asarray(value) for name, value in (records | seen).items()})
                keeping.keep(f"epoch {epoch}", "landscape", kept)
            found[epoch] = kept.arrays
    last = found[max(found)]
    records = {name: last[name] for name in (*RECORDS, "seconds_per_step") if name in last}
    return records | {f"{epoch}/{name}": own[name] for epoch, own in found.items() for name in (*NUMBERS, *ARRAYS)}


@contextlib.contextmanager
def _folder(work: Work) -> Iterator[Path]:
    """A folder for the state of a training, which goes on from one epoch to the next even where nothing is kept."""
    if work.place is not None:
        yield work.place
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def trained(
    settings: LandscapeSettings, work: Work, net: AbstractNetwork, data: Dataset, epoch: int, folder: Path, key: int
) -> Trajectory:
    """From where the folder is to the end of a shown epoch."""
    batches = settings.batches
    steps, whole = settings.scaled(epoch) * batches, settings.epochs * batches
    falls = tuple(settings.scaled(fall) * batches for fall in PAPER_FALLS)
    return sgd(
        net, data, RATE, steps, batch=min(settings.batch, data.n), momentum=MOMENTUM, weight_decay=DECAY,
        schedule=StepDecay(falls), objective="cross-entropy", loss="mean", key=key, measures=(),
        record=range(0, steps + 1, settings.record * batches), rows_at_once=AT_ONCE, dtype=settings.dtype,
        device=work.device, place=folder, keep_every=60.0,
        progress=lambda done, total, what: work.progress(done, whole, f"training to epoch {settings.scaled(epoch)}"),
    )  # fmt: skip


def landscape(
    settings: LandscapeSettings, work: Work, net: AbstractNetwork, data: Dataset, params: Params, key: int
) -> dict[str, Any]:
    """The objective around the weights: on the plane, and as far as it falls along each of its two directions.

    The plane is spanned by d = −∇F/‖∇F‖ and v, the unit direction of most negative curvature of the smoothed Hessian.
    Its extent is twice the distance at which F is least along d.
    """
    objective = objective_of(
        net, data.take(slice(settings.rows)).replace(test=None), params, objective="cross-entropy", mode="train",
        chunk=settings.chunk, dtype="float32", device=work.device,
    )  # fmt: skip
    w = objective.start
    size = objective.norm(w)
    gradient = objective.gradient(w)
    down = objective.unit(objective.combine((-1.0, gradient)))
    curved = negative_curvature(
        objective, smoothing=settings.smoothing * size / objective.size**0.5, steps=settings.oja,
        batch=settings.oja_batch if settings.oja_batch < settings.rows else None, key=key,
    )  # fmt: skip
    along = decrease_along(objective, None, down, points=settings.line)
    across = decrease_along(objective, None, curved.direction, points=settings.line)
    extent = 2 * abs(along.distance) or 0.01 * size
    plane = surface(objective, None, (down, curved.direction), extent=extent, points=settings.points)
    return {
        "here": along.here, "weights": size, "gradient_norm": objective.norm(gradient),
        "gradient_curvature": float(objective.walk(w, down, STAY, smoothing=0.0, batch=None, key=key)[1][0]),
        "gradient_least": along.least, "gradient_distance": along.distance,
        "curvature": curved.curvature, "curvature_error": curved.error, "curvature_here": curved.at_point,
        "largest": curved.largest, "curvature_least": across.least, "curvature_distance": across.distance,
        "smoothing": curved.smoothing, "history": curved.history,
        "cosine": objective.dot(down, curved.direction),
        "distances": along.distances, "along_gradient": along.values, "along_curvature": across.values,
        "x": plane.x, "y": plane.y, "surface": plane.values,
    }  # fmt: skip


def conclude(settings: LandscapeSettings, found: Found) -> tuple[Values, Arrays]:
    """The numbers of every landscape, how each training ended, and the paper's observation."""
    rows: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {}
    tasks = [task for task in settings.tasks(present=False) if f"{settings.networks[0]}, {words_of(task)}" in found]
    for name in settings.networks:
        for task in tasks:
            place = f"{name}, {words_of(task)}"
            own = found[place]
            rows += [_landscape(settings, name, task, epoch, own) for epoch in settings.shown]
            ends.append(_end(settings, name, task, own))
            arrays |= {f"{place}/{what}": own[what] for what in RECORDS if what in own}
            for epoch in settings.shown:
                arrays |= {f"{place}, epoch {settings.scaled(epoch)}/{what}": own[f"{epoch}/{what}"] for what in ARRAYS}
    there = {source for source, _ in tasks}
    missing = [name for name in settings.more if name not in there]
    return {"landscapes": rows, "runs": ends, "observation": observation(rows), "missing": missing}, arrays


def _landscape(settings: LandscapeSettings, name: str, task: Task, epoch: int, own: Arrays) -> dict[str, Any]:
    """The numbers of one landscape; shares are of F at the point."""
    numbers = {what: float(own[f"{epoch}/{what}"]) for what in NUMBERS}
    here = numbers["here"]
    return {
        "network": name, "task": words_of(task), "paper_epoch": epoch, "epoch": settings.scaled(epoch),
        "rate": settings.rate(settings.scaled(epoch)), **numbers,
        "gradient_share": (here - numbers["gradient_least"]) / here if here > 0 else 0.0,
        "curvature_share": (here - numbers["curvature_least"]) / here if here > 0 else 0.0,
    }  # fmt: skip


def _end(settings: LandscapeSettings, name: str, task: Task, own: Arrays) -> dict[str, Any]:
    """How a training ended."""
    return {
        "network": name, "task": words_of(task), "epochs": settings.scaled(max(settings.shown)), "loss": float(own["loss"][-1]),
        "accuracy": float(own["accuracy"][-1]),
        "test_accuracy": float(own["test_accuracy"][-1]) if "test_accuracy" in own else None,
        "milliseconds": 1e3 * float(own["seconds_per_step"]),
    }  # fmt: skip


def observation(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The paper's observation as numbers: how much F falls along −∇F and along ±v, and which of them is ahead."""
    gradient, curvature = (np.array([row[f"{which}_share"] for row in rows]) for which in ("gradient", "curvature"))
    negative = np.array([row["curvature"] + 2 * row["curvature_error"] < 0 for row in rows])
    ratios = np.array([-row["curvature"] / row["largest"] if row["largest"] else 0.0 for row in rows])
    return {
        "landscapes": len(rows),
        "gradient_falls": int(np.sum(gradient > 0)),
        "gradient_ahead": int(np.sum(gradient > curvature)),
        "gradient_share": _spread(gradient),
        "curvature_share": _spread(curvature),
        "negative": int(negative.sum()),
        "where_negative": {
            "gradient_ahead": int(np.sum(gradient[negative] > curvature[negative])),
            "gradient_share": _spread(gradient[negative]),
            "curvature_share": _spread(curvature[negative]),
            "curvature_ratio": _spread(ratios[negative]),
        },
    }


def _spread(values: np.ndarray) -> dict[str, float] | None:
    """The least, the median and the largest value; None where there is none."""
    if not len(values):
        return None
    return {"least": float(values.min()), "median": float(np.median(values)), "largest": float(values.max())}


def outline(settings: LandscapeSettings) -> str:
    """The runs and the landscapes, in words."""
    runs, steps = len(settings.networks) * len(settings.tasks()), settings.epochs * settings.batches
    return (
        f"{runs} runs of {settings.epochs} epochs ({steps:,} steps of {settings.batch} images), each with "
        f"{len(settings.shown)} landscapes: {settings.oja} steps of Oja's method, {settings.points} × {settings.points} "
        f"points on {settings.rows:,} images"
    )


SETTINGS: dict[Scale, LandscapeSettings] = {
    "smoke": LandscapeSettings(
        networks=("VGG-2",), source="digits", more=(), train=256, test=100, epochs=16, shown=(40, 160),
        vgg=((6, 1),), resnet=(8, (4, 8, 8)), rows=128, chunk=64, points=5, line=10, oja=20, oja_batch=128,
        batch=64,
    ),
    "small": LandscapeSettings(
        networks=("VGG-19 (an eighth as wide)", "ResNet-14"), source="cifar10", more=(), train=1_024, test=500, epochs=32,
        shown=PAPER_SHOWN, vgg=((8, 2), (16, 2), (32, 4), (64, 4), (64, 4)), resnet=(14, (8, 16, 32)), rows=256,
        chunk=128, points=11, line=15, oja=40, oja_batch=128,
    ),
    "full": LandscapeSettings(
        networks=("VGG-19", "ResNet-32"), source="cifar10", more=("cifar100",), train=10_000, test=2_000, epochs=160,
        shown=PAPER_SHOWN, vgg=((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)), resnet=(32, (16, 32, 64)),
        rows=1_000, chunk=125, points=21, line=25, oja=150, oja_batch=250, dtype="tf32",
    ),
}  # fmt: skip


def page(settings: LandscapeSettings, values: Values, arrays: Arrays) -> tuple[sections.Section, ...]:
    """The page of the study: what the paper says and what was found, then what it rests on."""
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
        words = (
            f"{words_of((name, 0.0))} is not here. To add it, put train.bin and test.bin of its binary version into "
        )
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
