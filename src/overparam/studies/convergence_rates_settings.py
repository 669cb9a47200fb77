"""Settings of the study `convergence-rates`: networks, rows and how far to go, at three scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from overparam.networks import Convolutional, FullyConnected, Residual

NETWORKS = ("fully connected", "locally connected", "convolutional", "residual")
"""The networks of the theorems: 1, 2 and 6; 7, positions with weights of their own, and shared ones; 8."""
IMAGES = ("locally connected", "convolutional")
"""Those that see images, and so unit rows without the padding."""
LABELS = ("real", "random")
VARIABLES = ("n", "L", "m", "δ")

Cell = tuple[str, str, str]
"""Network, loss, algorithm."""
Point = tuple[int, int, int, float]
"""n, L, m, δ."""


@dataclass(frozen=True)
class Settings:
    """The four parts of the study. L is the number of trained layers, one less than that of ReLU layers."""

    data: str
    """"digits" or "mnist"."""
    pool: int
    """Images are averaged over squares of that side."""
    samples: int
    """n of the runs whose rates are fitted."""
    batch: int
    seeds: int
    """A seed draws the rows and the network."""
    layers: int
    width: int
    channels: int
    """m of the networks that see images."""
    cells: tuple[Cell, ...]
    """The runs whose rates and laws are measured."""
    decades: float
    """How far they go: as many steps as bring the slowest direction that far down."""
    most_steps: int
    """Of those runs."""
    base: Point
    """n, L, m, δ of the runs that count iterations, where they do not change."""
    n: tuple[int, ...]
    L: tuple[int, ...]
    m: tuple[int, ...]
    separations: tuple[float, ...]
    counted: tuple[str, ...]
    """The networks that count iterations."""
    counted_seeds: int
    class_samples: int
    class_batch: int
    class_steps: int
    class_cells: tuple[tuple[str, str], ...]
    """Network and algorithm of the runs with ten classes."""
    share: float = 1e-2
    """Iterations are counted until the loss is at that share of the first one."""
    dimension: int = 16
    """Of the drawn rows, without their last coordinate."""
    other_steps: tuple[tuple[str, int], ...] = ()
    """Networks with a number of their own in place of `class_steps`: the convolutional one needs few, and its steps are dear;
    the residual one, whose τ makes it slow, needs many."""

    @property
    def of_runs(self) -> tuple[Any, ...]:
        """What the runs whose rates are fitted depend on."""
        sizes = (self.samples, self.batch, self.seeds, self.layers, self.width, self.channels)
        return self.data, self.pool, sizes, self.decades, self.most_steps

    @property
    def of_counts(self) -> tuple[Any, ...]:
        """What the runs that count iterations depend on, beside n, L, m and δ."""
        return self.counted_seeds, self.share, self.dimension

    def steps_of(self, network: str) -> int:
        """Most steps of a run with ten classes."""
        return dict(self.other_steps).get(network, self.class_steps)

    def of_classes(self, network: str) -> tuple[Any, ...]:
        """What the runs of a network with ten classes depend on."""
        sizes = (self.class_samples, self.class_batch, self.steps_of(network), self.layers, self.width, self.channels)
        return self.data, self.pool, sizes

    def points(self, variable: str) -> list[Point]:
        """The base point with one of n, L, m, δ at each of its values."""
        place = VARIABLES.index(variable)
        values = (self.n, self.L, self.m, self.separations)[place]
        return [(*self.base[:place], value, *self.base[place + 1 :]) for value in values]  # type: ignore[misc]


def build(name: str, L: int, m: int, side: int = 0, outputs: int = 1) -> Any:
    """The network of that name with L trained layers, for images of `side` where it sees images.

    Ref: convergence, Sec. 2, App. B, App. C

    >>> build("residual", 2, 8).depth
    3
    """
    if name in IMAGES:
        shared = name == "convolutional"
        return Convolutional(m, L + 1, (side, side), outputs=outputs, shared=shared)
    return {"fully connected": FullyConnected, "residual": Residual}[name](m, L + 1, outputs=outputs)


def _cells(networks: tuple[str, ...], both: tuple[str, ...], others: tuple[str, ...]) -> tuple[Cell, ...]:
    """Every network with GD and SGD on the losses `both`, and with GD alone on the `others`."""
    return tuple(
        (network, loss, algorithm)
        for network in networks
        for loss in (*both, *others)
        for algorithm in (("GD", "SGD") if loss in both else ("GD",))
    )


SMOKE = Settings(
    data="digits", pool=1, samples=8, batch=4, seeds=2, layers=2, width=64, channels=2,
    cells=_cells(("fully connected",), ("squared",), ("rippled", "cross-entropy", "saturated")),
    decades=8, most_steps=1_500, base=(8, 2, 64, 0.3), n=(4, 8), L=(1, 2), m=(32, 64), separations=(0.15, 0.3),
    counted=("fully connected",), counted_seeds=2,
    class_samples=40, class_batch=10, class_steps=200, class_cells=(("fully connected", "GD"),), dimension=8,
)  # fmt: skip

SMALL = Settings(
    data="digits", pool=1, samples=16, batch=4, seeds=3, layers=2, width=256, channels=8,
    cells=_cells(NETWORKS, ("squared", "rippled", "cross-entropy"), ("saturated",)),
    decades=14, most_steps=6_000,
    base=(12, 2, 256, 0.2), n=(6, 12, 24, 48), L=(1, 2, 4, 8), m=(64, 128, 256, 512), separations=(0.05, 0.1, 0.2, 0.4),
    counted=("fully connected", "residual"), counted_seeds=3,
    class_samples=100, class_batch=25, class_steps=3_000,
    class_cells=tuple((network, algorithm) for network in NETWORKS for algorithm in ("GD", "SGD")),
)  # fmt: skip

FULL = Settings(
    data="mnist", pool=2, samples=32, batch=8, seeds=5, layers=3, width=1_024, channels=8,
    cells=_cells(NETWORKS, ("squared", "rippled", "cross-entropy"), ("saturated",)),
    decades=14, most_steps=40_000,
    base=(16, 2, 2_048, 0.2), n=(8, 16, 32, 64, 128), L=(1, 2, 4, 8, 16), m=(256, 512, 1_024, 2_048, 4_096, 8_192),
    separations=(0.025, 0.05, 0.1, 0.2, 0.4),
    counted=("fully connected", "residual"), counted_seeds=4,
    class_samples=500, class_batch=100, class_steps=80_000,
    other_steps=(("convolutional", 5_000), ("residual", 400_000)),
    class_cells=tuple((network, algorithm) for network in NETWORKS for algorithm in ("GD", "SGD")),
)  # fmt: skip
