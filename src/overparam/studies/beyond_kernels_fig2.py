"""Fig. 2 (a) and (c): parities of parities, learnt by a three-layer ResNet, by plain networks and by kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core.kernel import AbstractKernel
from overparam.core.network import AbstractNetwork, Params
from overparam.data import Dataset, ParityTarget
from overparam.frame import Part, Work
from overparam.kernels import Arcsine, Empirical, FullyConnected, Gaussian, Laplace, Polynomial, Recursive
from overparam.networks import Frozen, Plain, ThreeLayerResNet
from overparam.studies.study import Arrays, Scale, planned
from overparam.theory import coupled_regression, linear_regression, tuned_regression
from overparam.training import StepDecay, side_by_side
from overparam.training.precision import computing

NETWORKS = ("3resnet", "3layer", "2layer")
BATCH, MOMENTUM, OUTPUTS = 50, 0.9, 8
SMALL = 2_500
"""N up to which every seed has its kernels."""
COUPLING = "kernels of 8 outputs"

Cell = tuple[float, float, float, int]
"""β, rate, decay and seed of a run. Seed 0 is the search's."""
Table = dict[str, np.ndarray]
"""Of all runs of a part: beta, lr, decay, seed, validation and test error, fit (the error on the training rows)."""


@dataclass(frozen=True)
class ParitySettings:
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

    def searched_for(self, N: int) -> int:
        """The N whose search is used at N: the nearest below, or above, where there is none below."""
        below = [own for own in self.searched if own <= N]
        return max(below) if below else min(self.searched)

    def kernel_cells(self) -> list[tuple[int | None, int]]:
        """Width (None: the house's own kernels) and N of every comparison with kernels."""
        widths = zip((*self.widths, None), (*self.samples, self.samples[0]), strict=True)
        return [(m, N) for m, samples in widths for N in samples]

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


def judges(settings: ParitySettings, base: int) -> np.ndarray:
    """Inputs that no training set has seen: first the validation rows, then the test rows; the same for all seeds."""
    return settings.target().inputs(settings.validation + settings.test, key=[base, 0, 1])


def mean_square(outputs: np.ndarray, truth: np.ndarray) -> float:
    """The mean of ‖H − out‖² over rows; infinite where an output is not finite.

    >>> mean_square(np.zeros((2, 2)), np.array([[1.0, 1.0], [2.0, 0.0]]))
    3.0
    """
    squares = np.sum((truth - np.asarray(outputs, dtype=np.float64)) ** 2, axis=1)
    return float(np.where(np.isfinite(squares), squares, np.inf).mean())


def search_name(network: str, N: int) -> str:
    """Of the part that searches rates and decays at the first width."""
    return f"search, {network}, N = {N}"


def seeds_name(network: str, m: int, N: int) -> str:
    """Of the part with all seeds at the best settings."""
    return f"seeds, {network}, m = {m}, N = {N}"


def beta_name(network: str) -> str:
    """Of the part with all seeds at every β."""
    return f"panel (c), seeds, {network}"


def layers_name(N: int) -> str:
    """Of the part that trains one layer after the other."""
    return f"layer by layer, N = {N}"


def kernels_name(m: int | None, N: int, beta: float = 1.0) -> str:
    """Of the part with the errors of kernels."""
    return f"kernels, {'the house' if m is None else f'm = {m}'}, N = {N}, β = {beta:g}"


def parts(settings: ParitySettings, key: int, device: str | None) -> list[Part]:
    """The search, then seeds at the best settings, at every N and width; panel (c); layer by layer; then kernels."""
    found: dict[str, Part] = {}

    def add(name: str, make: Any, of: tuple[Any, ...], seconds: float, *needs: str) -> None:
        found.setdefault(name, Part(name, make, (settings, *of, key), needs, seconds))

    def runs(name: str, m: int, N: int, count: int) -> float:
        weights = 31 * m if name == "2layer" else m * (m + 31)
        return planned(6.0 * settings.steps(N) * BATCH * count * weights, settings.steps(N), device)

    def regressions(m: int | None, N: int) -> float:
        rows = N * (N + settings.test)
        return settings.kernel_seeds[N > SMALL] * planned(16.0 * rows * (m or 100) + 10.0 * N**3, 0, device)

    first, ones = settings.widths[0], (1.0,)
    for place, name in enumerate(NETWORKS):
        grid = len(settings.grid(name))
        for N in settings.searched:
            of = (name, N, max(settings.samples[0]), ones)
            add(search_name(name, N), searched, of, runs(name, first, N, grid))
        for m, samples in zip(settings.widths, settings.samples, strict=True):
            count = settings.best if m == first else settings.best_when_wide[place]
            for N in samples:
                of, seconds = (name, m, N, max(samples), ones, count), runs(name, m, N, count * settings.seeds)
                add(seeds_name(name, m, N), repeated, of, seconds, search_name(name, settings.searched_for(N)))
    for name in NETWORKS:
        N, betas = settings.beta_samples, settings.betas
        grid, best = len(settings.grid(name)) * len(betas), settings.best * settings.seeds * len(betas)
        add(f"panel (c), search, {name}", searched, (name, N, N, betas), runs(name, first, N, grid))
        of = (name, first, N, N, betas, settings.best)
        add(beta_name(name), repeated, of, runs(name, first, N, best), f"panel (c), search, {name}")
    for N in settings.layer_wise_samples:
        seconds = runs("3layer", first, N, settings.seeds * len(settings.grid("3resnet")[::2]))
        add(layers_name(N), layer_wise, (N,), seconds, search_name("2layer", settings.searched_for(N)))
    for beta in settings.betas:
        N = settings.beta_samples
        add(kernels_name(first, N, beta), kernel_errors, (N, first, beta), regressions(first, N))
    N = settings.coupled_samples
    add(COUPLING, coupling, (), planned(len(settings.coupled) * 10.0 * (8 * N) ** 3, 0, device))
    for m, N in settings.kernel_cells():
        add(kernels_name(m, N), kernel_errors, (N, m, 1.0), regressions(m, N))
    return list(found.values())


def trained(
    settings: ParitySettings,
    work: Work,
    net: AbstractNetwork,
    N: int,
    most: int,
    cells: Sequence[Cell],
    key: int,
    starts: list[Params] | None = None,
) -> tuple[Table, Params]:
    """Every cell trained on its N rows, all as one program, and what each gives on new rows; the weights too."""
    steps = settings.steps(N)
    drawn = dict.fromkeys((beta, seed) for beta, _, _, seed in cells)
    sets = {(beta, seed): rows(settings.target(beta), N, most, [key, seed + 1]) for beta, seed in drawn}
    found = side_by_side(
        net, [sets[beta, seed] for beta, _, _, seed in cells], [(lr, decay, 1000 * key + seed) for _, lr, decay, seed in cells], steps, params=starts,
        batch=BATCH, momentum=MOMENTUM, loss="mean", schedule=StepDecay((steps // 2,)), record=[steps // 2],
        measures=(), dtype=settings.dtype_of(net), device=work.device, keep_params=True,
        progress=work.progress,
    )  # fmt: skip
    assert found.params is not None
    X = judges(settings, key)
    truths = {beta: settings.target(beta)(X) for beta in dict.fromkeys(cell[0] for cell in cells)}
    judged, cut = [], settings.validation
    with computing("float32", work.device) as kind:
        for i, cell in enumerate(cells):
            own = jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), found.params)
            outputs = np.asarray(_outputs(net, own, jnp.asarray(X, kind)))
            truth = truths[cell[0]]
            judged.append((mean_square(outputs[:cut], truth[:cut]), mean_square(outputs[cut:], truth[cut:])))
    table = {name: np.array([cell[i] for cell in cells]) for i, name in enumerate(("beta", "lr", "decay", "seed"))}
    fit = np.where(np.isfinite(found.final("loss")), 2 * found.final("loss"), np.inf)
    table |= {"validation": np.array([v for v, _ in judged]), "test": np.array([t for _, t in judged]), "fit": fit}
    return table | {"seconds_per_step": np.array(found.seconds_per_step)}, found.params


@partial(jax.jit, static_argnums=0)
def _outputs(net: AbstractNetwork, params: Params, X: Any) -> Any:
    return net.apply(params, X)


def searched(
    work: Work, settings: ParitySettings, name: str, N: int, most: int, betas: Sequence[float], key: int
) -> Table:
    """Every rate with every decay, one seed, at the first width."""
    cells = [(beta, lr, decay, 0) for beta in betas for lr, decay in settings.grid(name)]
    return trained(settings, work, network(name, settings.widths[0]), N, most, cells, key)[0]


def best_settings(found: Arrays, beta: float, count: int) -> list[tuple[float, float]]:
    """The (rate, decay) with the least validation error in a search, best first, not all of one rate if several.

    A rate at the edge of stability may do best with the search's seed and kill the network with another one.
    """
    own = np.flatnonzero((found["beta"] == beta) & np.isfinite(found["validation"]))
    order = [int(i) for i in own[np.argsort(found["validation"][own], kind="stable")]]
    if not order:
        raise ValueError(f"every run of the search at β = {beta:g} diverged; search smaller rates")
    best = order[:count]
    if count > 1 and len({float(found["lr"][i]) for i in best}) == 1:
        best[count - 1 :] = [i for i in order[count:] if found["lr"][i] != found["lr"][best[0]]][:1] or best[
            count - 1 :
        ]
    return [(float(found["lr"][i]), float(found["decay"][i])) for i in best]


def repeated(
    work: Work,
    settings: ParitySettings,
    name: str,
    m: int,
    N: int,
    most: int,
    betas: Sequence[float],
    count: int,
    key: int,
    search: Arrays,
) -> Table:
    """The `count` best settings of the search at each β, each with every seed, at a width."""
    ratio = m / settings.widths[0]
    cells = [
        (beta, *at_width(name, lr, decay, ratio), seed)
        for beta in betas
        for lr, decay in best_settings(search, beta, count)
        for seed in range(1, settings.seeds + 1)
    ]
    return trained(settings, work, network(name, m), N, most, cells, key)[0]


def layer_wise(work: Work, settings: ParitySettings, N: int, key: int, search: Arrays) -> Table:
    """The ResNet one layer after the other: W, with out₁ alone against H, then V with W held fixed.

    W is trained with the best rate and decay of `2layer`, which out₁ is; for V half of the ResNet's grid is tried. Each
    layer gets all epochs. Gives the runs of V, and `first_test`, the error of out₁ of the same seed.
    """
    m, most = settings.widths[0], max(settings.layer_wise_samples)
    first, both = best_settings(search, 1.0, 1)[0], settings.grid("3resnet")[::2]
    whole, seeds = network("3resnet", m), range(1, settings.seeds + 1)
    second = Frozen(whole, ("W",))
    with computing("float64", work.device):
        drawn = [jax.tree.map(np.asarray, whole.init(1000 * key + seed, 30)) for seed in seeds]
    starts = [Params({"W": own.trained["W"]}, own.fixed) for own in drawn]
    cells = [(1.0, *first, seed) for seed in seeds]
    inner, ends = trained(settings, work, Plain(m, outputs=OUTPUTS), N, most, cells, key, starts)
    halfway = [
        second.freeze(Params({**own.trained, "W": ends.trained["W"][i]}, own.fixed)) for i, own in enumerate(drawn)
    ]
    cells = [(1.0, lr, decay, seed) for lr, decay in both for seed in seeds]
    starts = [halfway[cell[3] - 1] for cell in cells]
    outer = trained(settings, work, second, N, most, cells, key, starts)[0]
    return outer | {"first_test": inner["test"][[cell[3] - 1 for cell in cells]]}


def finite_kernels(m: int, key: int, X: np.ndarray) -> Iterator[tuple[str, AbstractKernel, Any]]:
    """(name, kernel, map of inputs) of every network at its first weights: (last) and (NTK).

    (last) trains A alone on fixed features: σ(W(x, 1)) of `2layer`, the second layer's of `3layer`, and of `3resnet` the
    sum of both layers', with the A inside V(out₁, 1) kept as it was. (NTK) is the mean of the tangent kernels of the 8
    outputs, in W and V.
    """
    for name in NETWORKS:
        net = network(name, m)
        with jax.enable_x64(True):
            params = jax.tree.map(np.asarray, net.init(key, X.shape[1]))
        yield f"{name} (last)", Polynomial(1), lambda Z, net=net, params=params: features(net, params, Z)
        yield f"{name} (NTK)", Empirical(net, params), np.asarray


def features(net: AbstractNetwork, params: Params, X: np.ndarray) -> np.ndarray:
    """What A multiplies: the sum of both layers' activations with a skip, else the last layer's."""
    with jax.enable_x64(True):
        layers = net.trace(params, X).activations
        return np.asarray(layers[-1] if isinstance(net, Plain) else sum(layers))


def house_kernels() -> dict[str, list[AbstractKernel]]:
    """Kernels of infinite width, on x, and classical ones, on x/√d; of several, leave-one-out chooses."""
    return {
        "Gaussian": [Gaussian(1.4), Gaussian(2.8)],
        "Laplace": [Laplace(2.8)],
        "arcsine": [Arcsine()],
        "recursive": [Recursive(1)],
        "polynomial": [Polynomial(2, constant=1.0)],
        "NTK of 2 layers": [Plain(1).kernel()],
        "NTK of 3 layers": [FullyConnected(depth=2), FullyConnected(depth=3)],
    }


def kernel_errors(
    work: Work, settings: ParitySettings, N: int, m: int | None, beta: float, key: int
) -> dict[str, np.ndarray]:
    """Test errors by kernel, (seeds,); of the finite networks of width m, or of the house where m is None."""
    seeds = range(1, settings.kernel_seeds[N > SMALL] + 1)
    found: dict[str, list[float]] = {}
    target, new = settings.target(beta), judges(settings, key)[settings.validation :]
    for seed in seeds:
        data = rows(target, N, N, [key, seed + 1])
        for name, kernel, mapped in _kernels(m, 1000 * key + seed, data.X):
            work.progress(seed - 1, len(seeds), f"{kernels_name(m, N, beta)}: {name}")
            error, left_out = _error(kernel, mapped, data, new, target(new), work.device)
            best = found.setdefault(name, [])
            if len(best) < 2 * seed:
                best += [error, left_out]
            elif left_out < best[-1]:
                best[-2:] = [error, left_out]
    return {name: np.array(values[::2]) for name, values in found.items()}


def _kernels(m: int | None, key: int, X: np.ndarray) -> Iterator[tuple[str, AbstractKernel, Any]]:
    if m is not None:
        yield from finite_kernels(m, key, X)
        return
    for name, several in house_kernels().items():
        for kernel in several:
            yield name, kernel, np.asarray if name.startswith("NTK") else _unit_rows


def _unit_rows(X: np.ndarray) -> np.ndarray:
    return X / np.sqrt(X.shape[1])


def _error(
    kernel: AbstractKernel, mapped: Any, data: Any, new: np.ndarray, truth: np.ndarray, device: str | None
) -> tuple[float, float]:
    """Mean of ‖H − f‖² on new rows, and left out, of the ridge that leave-one-out chose."""
    X, Z = mapped(data.X), mapped(new)
    if kernel == Polynomial(1) and X.shape[1] < data.n:
        found = linear_regression(X, data.y, Z)  # the same numbers for less
    else:
        found = tuned_regression(kernel, X, data.y, Z, device=device)
    return mean_square(found.outputs, truth), found.left_out


def coupling(work: Work, settings: ParitySettings, key: int) -> dict[str, np.ndarray]:
    """(NTK) with the whole kernel of 8 outputs beside the shared one: errors, and how large the other blocks are."""
    m, N = settings.widths[0], settings.coupled_samples
    target, new = settings.target(), judges(settings, key)[settings.validation :]
    data = rows(target, N, N, [key, 2])
    made: dict[str, np.ndarray] = {}
    for name, kernel, _ in finite_kernels(m, 1000 * key + 1, data.X):
        if isinstance(kernel, Empirical) and name.split()[0] in settings.coupled:
            work.progress(len(made), len(settings.coupled), f"{COUPLING}: {name}")
            whole = coupled_regression(kernel, data.X, data.y, new)
            shared = tuned_regression(kernel, data.X, data.y, new, device=work.device)
            errors = [mean_square(one.outputs, target(new)) for one in (whole, shared)]
            blocks = kernel.full(data.X[:50])
            off = blocks * (1 - np.eye(blocks.shape[2]))
            made[name] = np.array([*errors, np.sqrt((off**2).sum() / (blocks**2).sum())])
    return made


def outline(settings: ParitySettings) -> str:
    """The runs and their steps, in words."""
    searched_runs = sum(len(settings.grid(name)) for name in NETWORKS) * len(settings.searched)
    most = max(N for own in settings.samples for N in own)
    return (
        f"{searched_runs} runs of the search, then {settings.seeds} seeds at the best {settings.best}, N up to {most} "
        f"({settings.steps(most)} steps), widths {', '.join(map(str, settings.widths))}, {len(settings.betas)} β, kernels"
    )


SETTINGS: dict[Scale, ParitySettings] = {
    "smoke": ParitySettings(  # every part has two runs on 100 rows: one program a network
        widths=(20,), samples=((100,),), searched=(100,), rates=((0.1, 0.5), (0.02, 0.05), (0.1, 0.5)),
        decays=((1e-3,), (1e-3,), (1e-3,)), epochs=10, seeds=2, best=1, best_when_wide=(1, 1, 1),
        betas=(0.5,), beta_samples=100, layer_wise_samples=(100,), kernel_seeds=(2, 1), coupled_samples=50, coupled=("2layer",),
        validation=100, test=200,
    ),
    "small": ParitySettings(
        widths=(200,), samples=((250, 500, 1_000),), searched=(500, 1_000),
        rates=((0.5, 1.0), (0.1, 0.2), (0.5, 1.0)), decays=((2e-4, 5e-4, 1e-3), (0.01, 0.02), (1e-3, 2e-3)),
        epochs=150, seeds=3, best=2, best_when_wide=(1, 1, 1), betas=(0.5, 1.0, 2.0), beta_samples=500,
        layer_wise_samples=(1_000,), kernel_seeds=(2, 1), coupled_samples=150, coupled=NETWORKS, validation=1_000, test=2_000,
    ),
    "full": ParitySettings(
        widths=(500, 2_000), samples=((250, 500, 1_000, 2_000, 5_000, 10_000), (250, 500, 1_000, 2_500, 5_000)),
        searched=(250, 500, 1_000, 2_000, 5_000),
        rates=((0.1, 0.2, 0.5, 1.0), (0.02, 0.05, 0.1, 0.2, 0.5), (0.1, 0.2, 0.5, 1.0, 2.0)),
        decays=(
            (2e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3),
            (1e-3, 5e-3, 0.01, 0.02, 0.05, 0.1),
            (1e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01),
        ),
        epochs=400, seeds=5, best=3, best_when_wide=(3, 1, 3), betas=(0.1, 0.2, 0.5, 1.0, 2.0),
        beta_samples=1_000, layer_wise_samples=(1_000, 5_000), kernel_seeds=(3, 1), coupled_samples=400, coupled=NETWORKS,
        validation=2_000, test=4_000, three_layer_dtype="tf32",
    ),
}  # fmt: skip
