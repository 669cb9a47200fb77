"""What the study `beyond-kernels-fig2` runs: widths, numbers of rows, rates and decays searched, and rows to judge by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overparam.core.network import AbstractNetwork
from overparam.data import Dataset, ParityTarget
from overparam.networks import Plain, ThreeLayerResNet

NETWORKS = ("3resnet", "3layer", "2layer")
BATCH, MOMENTUM, OUTPUTS = 50, 0.9, 8


@dataclass(frozen=True)
class Settings:
    """Sizes and grids.

    How the grids and the rule of choice came about: 124 settings were tried at N = 1,000, width 200 or 500, on rows drawn
    apart (72 of the ResNet, whose rate of 2 killed every neuron; 25 of two and 27 of three
    layers). A first run of the small scale with seed 0 then moved the grids of the plain networks, and showed that the
    ResNet's best rate can kill another seed, hence "not all of one rate" in `best_settings`. The small scale with seed 0
    is therefore not a fresh test; run the full scale with another seed.
    """

    widths: tuple[int, ...]
    """The first is the one at which rates and decays are searched."""
    samples: tuple[tuple[int, ...], ...]
    """N, for each width; each divides the largest of its width."""
    searched: tuple[int, ...]
    """N at which the search is done; other N take the settings of the nearest one below."""
    rates: tuple[tuple[float, ...], ...]
    decays: tuple[tuple[float, ...], ...]
    """Of each of `NETWORKS`, at the first width."""
    epochs: int
    """At the first rate, and again as many at a tenth of it."""
    seeds: int
    """For the error bars; the search has one more of its own."""
    best: int
    """How many settings get all seeds."""
    best_when_wide: tuple[int, int, int]
    """The same at the other widths, for each of `NETWORKS`."""
    betas: tuple[float, ...]
    beta_samples: int
    """N of panel (c)."""
    layer_wise_samples: tuple[int, ...]
    kernel_seeds: tuple[int, int]
    """Seeds of the kernels for N up to 2,500, and above."""
    coupled_samples: int
    """N at which the whole tangent kernels of 8 outputs are compared with the shared one."""
    coupled: tuple[str, ...]
    """Of which networks."""
    validation: int
    test: int
    three_layer_dtype: str = "float32"
    """"tf32" on a GPU, where products with V are most of the time: a rounding of 5e-4 is far below the noise of a batch,
    and seeds differ by 1e-2. Errors are always taken in float32."""
    alpha: float = 0.3

    def __post_init__(self) -> None:
        for own in (*self.samples, (self.beta_samples,), self.layer_wise_samples):
            for N in own:
                if max(own) % N or N % BATCH:
                    raise ValueError(f"N = {N}: expected multiples of {BATCH} that divide the largest, {max(own)}")

    def grid(self, name: str) -> list[tuple[float, float]]:
        """Every rate with every decay."""
        place = NETWORKS.index(name)
        return [(rate, decay) for rate in self.rates[place] for decay in self.decays[place]]

    def steps(self, N: int) -> int:
        """Batches in all epochs of N rows."""
        return 2 * self.epochs * N // BATCH

    def dtype_of(self, net: AbstractNetwork) -> str:
        """In which precision a network is trained."""
        return self.three_layer_dtype if isinstance(net, Plain) and net.depth == 2 else "float32"

    def target(self, beta: float = 1.0) -> ParityTarget:
        """H = βF + αG(F)."""
        return ParityTarget(alpha=self.alpha, beta=beta)

    @property
    def plateau(self) -> float:
        """8α², the error of learning F alone."""
        return self.target().base_error


def network(name: str, m: int) -> AbstractNetwork:
    """One of `NETWORKS` of width m with 8 outputs.

    >>> network("3layer", 7)
    Plain(width=7, depth=2, outputs=8, trained='hidden')
    """
    if name == "3resnet":
        return ThreeLayerResNet(m, outputs=OUTPUTS)
    return Plain(m, depth=2 if name == "3layer" else 1, outputs=OUTPUTS)


def at_width(name: str, rate: float, decay: float, ratio: float) -> tuple[float, float]:
    """A setting carried to `ratio` times the width, on the grid {1, 2, 5}·10^j.

    The tangent kernels of `2layer` and `3resnet` do not grow with m, so the setting stays. That of `3layer` grows like m
    (V sees m activations of order 1): its rate is divided by the ratio, and its decay multiplied by it.

    >>> at_width("3layer", 0.2, 0.02, 4.0), at_width("2layer", 0.2, 0.02, 4.0)
    ((0.05, 0.1), (0.2, 0.02))
    """
    return (on_grid(rate / ratio), on_grid(decay * ratio)) if name == "3layer" else (rate, decay)


def on_grid(value: float) -> float:
    """The nearest of {1, 2, 5}·10^j, by ratio."""
    power = int(np.floor(np.log10(value)))
    grid = [float(f"{head}e{power + up}") for up in (0, 1) for head in (1, 2, 5)]
    return min(grid, key=lambda one: abs(np.log(one / value)))


def rows(target: ParityTarget, N: int, repeated: int, key: list[int]) -> Dataset:
    """N rows, the first N of one endless list a key, repeated to a number of rows.

    A mean over the repeated rows is that over the N; an epoch of them sees each of the N equally often. One compiled
    program then serves every N.
    """
    X = target.inputs(N, key=key)
    X = X[np.tile(np.arange(N), repeated // N)]
    y = target(X)
    return Dataset(X, y, labels=y, task="regression", name="parities")


def judges(settings: Settings, base: int) -> np.ndarray:
    """Inputs that no training set has seen: first the validation rows, then the test rows; the same for all seeds."""
    return settings.target().inputs(settings.validation + settings.test, key=[base, 0, 1])


def mean_square(outputs: np.ndarray, truth: np.ndarray) -> float:
    """The mean of ‖H − out‖² over rows; infinite where an output is not finite.

    >>> mean_square(np.zeros((2, 2)), np.array([[1.0, 1.0], [2.0, 0.0]]))
    3.0
    """
    squares = np.sum((truth - np.asarray(outputs, dtype=np.float64)) ** 2, axis=1)
    return float(np.where(np.isfinite(squares), squares, np.inf).mean())
