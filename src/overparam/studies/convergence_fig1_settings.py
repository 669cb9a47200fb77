"""What the study `convergence-fig1` runs: networks, data, labels, epochs, and how closely the landscape is looked at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

import numpy as np

from overparam.core.network import AbstractNetwork
from overparam.data import Dataset, corrupt_labels, load
from overparam.data.named import find_named
from overparam.networks import ImageResNet, Vgg

PAPER_EPOCHS, PAPER_SHOWN, PAPER_FALLS = 160, (5, 40, 90, 120, 130, 160), (81, 122)
"""Epochs of the paper's runs, those it shows, and those at which the rate falls to a tenth."""
RATE, MOMENTUM, BATCH, DECAY = 0.1, 0.9, 128, 5e-4
"""The paper's first rate and momentum; batch and weight decay are not in its text: the usual ones."""
NOISE = 0.2


@dataclass(frozen=True)
class Task:
    """What is learnt: a data set by name, and the share of its training labels that are redrawn."""

    source: str
    noise: float = 0.0

    @property
    def words(self) -> str:
        """In a few words.

        >>> Task("cifar10", 0.2).words
        'CIFAR-10, 20% random labels'
        """
        name = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}.get(self.source, self.source)
        return f"{name}, {self.noise:.0%} random labels" if self.noise else name


@dataclass(frozen=True)
class Settings:
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

        >>> from overparam.studies.convergence_fig1 import STUDY
        >>> [STUDY.settings["full"].scaled(epoch) for epoch in PAPER_SHOWN]
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

    def tasks(self) -> tuple[Task, ...]:
        """Clean and noisy labels, and other data sets that are there."""
        more = tuple(Task(name) for name in self.more if find_named(name) is not None)
        return (Task(self.source), Task(self.source, NOISE), *more)

    def missing(self) -> tuple[str, ...]:
        """Other data sets that are not there."""
        return tuple(name for name in self.more if find_named(name) is None)

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


def data_of(settings: Settings, task: Task, seed: int) -> Dataset:
    """The rows, each colour with mean 0 and variance 1 over the training images, in float32; test labels stay clean."""
    data = load(task.source, train=settings.train, test=settings.test)
    channels = image_of(data)[2]
    pixels = data.X.reshape(data.n, channels, -1)
    mean, deviation = pixels.mean(axis=(0, 2)), pixels.std(axis=(0, 2))

    def scaled(X: np.ndarray) -> np.ndarray:
        images = X.reshape(len(X), channels, -1)
        return ((images - mean[:, None]) / deviation[:, None]).reshape(X.shape).astype(np.float32)

    test = None if data.test is None else replace(data.test, X=scaled(data.test.X))
    data = data.replace(X=scaled(data.X), test=test)
    return corrupt_labels(data, task.noise, key=seed, test=False).data if task.noise else data
