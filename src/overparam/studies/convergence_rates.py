"""Theorems 1, 2, 6, 7 and 8 of `convergence`: settings, rows, losses and runs of the study `convergence-rates`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overparam.data import Dataset, as_dataset, centre, corrupt_labels, generator, load, pad_convergence, unit_rows
from overparam.data.duplicates import smallest_distance
from overparam.frame import Part, Work
from overparam.networks import Convolutional, FullyConnected, Residual
from overparam.studies.study import Arrays, Scale, planned
from overparam.training import CrossEntropy, GivenLoss, Squared, side_by_side
from overparam.training.losses import AbstractLoss
from overparam.training.measures import finite_gram, limit_gram
from overparam.training.precision import computing

NETWORKS = ("fully connected", "locally connected", "convolutional", "residual")
"""The networks of the theorems: 1, 2 and 6; 7, positions with weights of their own, and shared ones; 8."""
IMAGES = ("locally connected", "convolutional")
"""Those that see images, and so unit rows without the padding."""
LABELS = ("real", "random")
VARIABLES = ("n", "L", "m", "δ")

PAIR = (3, 8)
"""The two classes of the runs with one output."""
RECORDS = 200
BLOCK = 50
"""Records that many steps apart, or a multiple of it, let steps run in blocks, which a GPU is faster at."""
MOST = 8
"""Iterations are counted up to that many times what the kernel at the start says."""
RATE_ROWS = 64
"""Rows of ten classes from which the largest entry of the kernel, and with it the rate, is taken."""

Cell = tuple[str, str, str]
"""Network, loss, algorithm."""
Point = tuple[int, int, int, float]
"""n, L, m, δ."""


@dataclass(frozen=True)
class RatesSettings:
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
    """No run whose rate is fitted takes more."""
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

    def steps_of(self, network: str) -> int:
        """Most steps of a run with ten classes."""
        return dict(self.other_steps).get(network, self.class_steps)

    def points(self, variable: str) -> list[Point]:
        """The base point with one of n, L, m, δ at each of its values."""
        place = VARIABLES.index(variable)
        values = (self.n, self.L, self.m, self.separations)[place]
        return [(*self.base[:place], value, *self.base[place + 1 :]) for value in values]  # type: ignore[misc]

    @property
    def counts(self) -> dict[str, tuple[str, Point]]:
        """Network and n, L, m, δ of the runs that count iterations, by the name of their part."""
        wanted = dict.fromkeys((name, point) for name in self.counted for v in VARIABLES for point in self.points(v))
        return {count_name(*one): one for one in wanted}


def count_name(network: str, point: Point) -> str:
    """Of the part that counts iterations."""
    n, L, m, separation = point
    return f"iterations, {network}, n = {n}, L = {L}, m = {m}, δ = {separation:g}"


def class_name(network: str, algorithm: str) -> str:
    """Of the part with ten classes."""
    return f"ten classes, {network}, {algorithm}"


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


def pooled(data: Dataset, side: int) -> Dataset:
    """Images averaged over squares of `side`.

    >>> images = as_dataset((np.arange(32.0).reshape(2, 16), [1.0, -1.0])).replace(image_shape=(4, 4))
    >>> pooled(images, 2).X[0].tolist()
    [2.5, 4.5, 10.5, 12.5]
    """
    rows, columns = data.image_shape or (0, 0)
    if not rows or rows % side or columns % side:
        raise ValueError(f"images of shape {data.image_shape} cannot be averaged over squares of side {side}")
    if side == 1:
        return data.replace(X=np.asarray(data.X, dtype=np.float64))
    X = np.asarray(data.X, dtype=np.float64).reshape(data.n, rows // side, side, columns // side, side)
    return data.replace(X=X.mean(axis=(2, 4)).reshape(data.n, -1), features=None, image_shape=(rows // side,) * 2)


def side_of(settings: RatesSettings) -> int:
    """Of the images, after averaging."""
    return {"digits": 8, "mnist": 28}[settings.data] // settings.pool


def as_seen(network: str, data: Dataset) -> Dataset:
    """Rows as the theorem of a network wants them: centred; of norm 1; padded to last coordinate 1/√2 where it asks for it.

    Ref: convergence, footnote 5, App. B
    """
    data = centre(data)
    return unit_rows(data) if network in IMAGES else pad_convergence(data)


def image_pairs(settings: RatesSettings, network: str, seed: int) -> list[Dataset]:
    """For every seed n other rows of two classes, labels ±1."""
    count = settings.samples * settings.seeds
    data = pooled(load(settings.data, classes=PAIR, train=count).replace(test=None), settings.pool)
    order = generator([seed, 0]).permutation(count).reshape(settings.seeds, settings.samples)
    return [as_seen(network, data.take(rows)) for rows in order]


def ten_classes(settings: RatesSettings, network: str, seed: int) -> list[Dataset]:
    """n rows of ten classes with their own labels, and with labels drawn at random."""
    data = pooled(load(settings.data, train=settings.class_samples).replace(test=None), settings.pool)
    data = as_seen(network, data)
    return [data, corrupt_labels(data, 1.0, key=[seed, 1]).data]


def close_pairs(n: int, separation: float, dimension: int, key: list[int]) -> Dataset:
    """n/2 directions drawn uniformly, each twice, `separation` apart and with opposite labels: rows (z/√2, 1/√2), ‖z‖ = 1.

    Drawn rows are farther from one another than a small δ, so that n and δ can be changed one at a time. Of the labels
    of two near rows opposite ones are the hardest.

    >>> X = close_pairs(4, 0.1, 8, [0]).X
    >>> round(float(np.linalg.norm(X[0] - X[1])), 12), round(float(np.linalg.norm(X[0])), 12)
    (0.1, 1.0)
    """
    if n < 2 or n % 2:
        raise ValueError(f"n is {n}; rows come in pairs: expected an even number")
    rng = generator(key)
    z, v = rng.standard_normal((2, n // 2, dimension))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    v -= np.sum(v * z, axis=1, keepdims=True) * z
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    angle = 2 * np.arcsin(separation / np.sqrt(2))  # ‖z − z′‖ = √2 δ
    both = np.stack([z, np.cos(angle) * z + np.sin(angle) * v], axis=1).reshape(n, dimension)
    signs = np.where(rng.random(n // 2) < 0.5, -1.0, 1.0)
    X = np.column_stack([both, np.ones(n)]) / np.sqrt(2)
    return as_dataset((X, np.stack([signs, -signs], axis=1).ravel()))


def rippled(u: Any, y: Any) -> Any:
    """Σ over outputs of (r² + 2 sin² r)/6, r = u − y: not convex, 1-smooth, gradient-dominant with σ = 0.058.

    f′ = (r + sin 2r)/3 and f″ = (1 + 2 cos 2r)/3, which lies in [−1/3, 1], is 1 at the minimum and below 0 for |r| from
    π/3 to 2π/3. Of σ in f′² ≥ 2σf, for r > 0:
    up to π/2, sin 2r ≥ 0, so f′ ≥ r/3, and f ≤ r²/2, so that f′²/(2f) ≥ 1/9;
    beyond, sin z ≥ −0.2173 z for every z > 0, so f′ ≥ 0.5654 r/3, and f ≤ (r² + 2)/6 ≤ (1 + 8/π²) r²/6, so that
    f′²/(2f) ≥ 0.0588. Of several outputs both sides are sums.

    Ref: convergence, Thm 6, App. A

    >>> round(float(rippled(jnp.array(1.0), jnp.array(0.0))), 4)  # (1 + 2 sin² 1)/6
    0.4027
    """
    r = u - y
    return jnp.sum(r**2 + 2 * jnp.sin(r) ** 2) / 6


def saturated(u: Any, y: Any) -> Any:
    """Σ over outputs of r²/(2 + 2r²), r = u − y: bounded by ½ an output, 1-smooth, not convex, with f″(0) = 1.

    Its gradient vanishes far from the target as well, so that it is not gradient-dominant.

    Ref: convergence, Thm 6, App. A

    >>> float(saturated(jnp.array(1.0), jnp.array(0.0)))
    0.25
    """
    squares = (u - y) ** 2
    return jnp.sum(squares / (2 + 2 * squares))


SIGMA = 0.058
"""Of `rippled`, proved in its docstring; the largest one is 0.0841, by a scan."""

LOSSES: dict[str, AbstractLoss] = {
    "squared": Squared(),
    "rippled": GivenLoss(rippled, "gradient-dominant", dominance=SIGMA, smoothness=1.0, name="rippled"),
    "cross-entropy": CrossEntropy(),
    "saturated": GivenLoss(saturated, "bounded non-convex", smoothness=1.0, name="saturated"),
}
"""What is minimised, by name. All have f″ ≤ 1; the first two have f″ = 1 at their minimum, and so one rate at the end."""

_gram = jax.jit(finite_gram, static_argnums=0)
_trace = jax.jit(lambda network, params, X: network.trace(params, X), static_argnums=0)


def parts(settings: RatesSettings, key: int, device: str | None) -> list[Part]:
    """Kernels at the start, the runs whose rates are fitted, those that count iterations, and those with ten classes."""
    found, keys = [], keys_of(key, settings.seeds)
    pairs = {name: image_pairs(settings, name, key) for name in dict.fromkeys(cell[0] for cell in settings.cells)}
    for name, sets in pairs.items():
        found.append(
            Part(f"kernels, {name}", kernels, (_network(settings, name), sets, keys), seconds=planned(0, 0, device))
        )
    for cell in settings.cells:
        name, loss, algorithm = cell
        network, batch = _network(settings, name), None if algorithm == "GD" else settings.batch
        of = (network, pairs[name], keys, loss, batch, settings.decades, settings.most_steps)
        seconds = _seconds(settings, name, settings.samples * settings.seeds, settings.most_steps, device)
        found.append(Part(", ".join(cell), run_cell, of, (f"kernels, {name}",), seconds))
    keys = keys_of(key, settings.counted_seeds)
    for words, (name, (n, L, m, separation)) in settings.counts.items():
        sets = [
            close_pairs(n, separation, settings.dimension, [key, 2, seed]) for seed in range(settings.counted_seeds)
        ]
        steps = round(50 * n / separation)  # a guess
        seconds = planned(6.0 * steps * n * settings.counted_seeds * L * m**2, steps, device)
        found.append(Part(words, count_iterations, (build(name, L, m), sets, keys, settings.share), seconds=seconds))
    for name, algorithm in settings.class_cells:
        sets, batch = ten_classes(settings, name, key), None if algorithm == "GD" else settings.class_batch
        network, steps = _network(settings, name, outputs=len(sets[0].classes)), settings.steps_of(name)
        rows = 2 * (settings.class_samples if batch is None else batch)
        seconds = _seconds(settings, name, rows, steps, device)
        of = (network, sets, keys_of(key, 1)[0], batch, steps)
        found.append(Part(class_name(name, algorithm), run_classes, of, seconds=seconds))
    return found


def _network(settings: RatesSettings, name: str, outputs: int = 1) -> Any:
    m = settings.channels if name in IMAGES else settings.width
    return build(name, settings.layers, m, side_of(settings), outputs)


def _seconds(settings: RatesSettings, name: str, rows: int, steps: int, device: str | None) -> float:
    """Of a run: three products of every weight with every row a step."""
    m, places = (settings.channels, 9 * side_of(settings) ** 2) if name in IMAGES else (settings.width, 1)
    return planned(6.0 * steps * rows * settings.layers * m**2 * places, steps, device)


def keys_of(key: int, seeds: int) -> list[int]:
    """Of the networks, one a seed."""
    return [1000 * key + seed for seed in range(seeds)]


def recorded(steps: float) -> tuple[int, int]:
    """How many steps, at least `steps`, and every how many a record is taken: about `RECORDS` of them.

    >>> recorded(1_999), recorded(20_001)
    ((2000, 10), (20100, 100))
    """
    steps = max(1, ceil(steps))
    every = ceil(steps / RECORDS)
    if every >= BLOCK:
        every = BLOCK * round(every / BLOCK)
    return every * ceil(steps / every), every


def at_start(network: Any, sets: Sequence[Dataset], keys: Sequence[int], device: str | None) -> dict[str, np.ndarray]:
    """H(0) and u(0) of the very networks that a run with these keys starts from, an entry a seed."""
    grams, outputs = [], []
    with computing("float64", device) as kind:
        for data, key in zip(sets, keys, strict=True):
            params, X = network.init(key, data.d), jnp.asarray(data.X, kind)
            grams.append(np.asarray(_gram(network, params, X)))
            outputs.append(np.asarray(_trace(network, params, X).output))
    return {"H": np.stack(grams), "u": np.stack(outputs)}


def kernels(work: Work, network: Any, sets: Sequence[Dataset], keys: Sequence[int]) -> dict[str, Any]:
    """Of one network on the rows of every seed: H(0), the kernel of infinite width where there is one, and δ."""
    found: dict[str, Any] = at_start(network, sets, keys, work.device)
    limits = [limit_gram(network, data.X) for data in sets]
    if not any(isinstance(limit, tuple) for limit in limits):
        found["limit"] = np.stack(limits)
    return found | {"separation": [smallest_distance(data.X) for data in sets]}


def rates_of(H: np.ndarray, algorithm: str, smoothness: float) -> np.ndarray:
    """η of every seed: 1/λ_max of H(0) for GD, 1/(n max H_ii) for SGD, stable for every batch; over the loss's smoothness."""
    if algorithm == "GD":
        largest = np.linalg.eigvalsh(H)[:, -1]
    else:
        largest = H.shape[1] * np.diagonal(H, axis1=1, axis2=2).max(axis=1)
    return 1 / (smoothness * largest)


def run_cell(
    work: Work,
    network: Any,
    sets: Sequence[Dataset],
    keys: Sequence[int],
    loss: str,
    batch: int | None,
    decades: float,
    most_steps: int,
    start: Arrays,
) -> dict[str, Any]:
    """One network, loss and algorithm, all seeds side by side: the losses on the way and the kernel at the end.

    Ref: convergence, Thm 1, Thm 2, Thm 6, Thm 7, Thm 8
    """
    objective, algorithm = LOSSES[loss], "GD" if batch is None else "SGD"
    lr = rates_of(start["H"], algorithm, objective.smoothness or 1.0)
    slowest = rates_of(start["H"], algorithm, 1.0) * np.linalg.eigvalsh(start["H"])[:, 0]
    steps, every = recorded(min(most_steps, decades * log(10) / (2 * float(slowest.min()))))
    done = side_by_side(
        network, list(sets), [(float(rate), 0.0, key) for rate, key in zip(lr, keys, strict=True)], steps, record=every,
        measures=("movement", "gradient"), batch=batch, sampling="independent", objective=objective, device=work.device,
        place=work.place, keep_params=True, progress=work.progress,
    )  # fmt: skip
    kept_records = {key: done.records[key] for key in ("loss", "output_gradient_norm", "pl_ratio", "accuracy")}
    moved = np.linalg.norm(done.records["movement"][:, -1], axis=-1)
    about = {"steps": done.steps, "lr": lr, "movement": moved, "seconds_per_step": done.seconds_per_step}
    return kept_records | about | _at_end(network, done.params, sets, work.device)


def _at_end(network: Any, params: Any, sets: Sequence[Dataset], device: str | None) -> dict[str, np.ndarray]:
    """H at the last weights of every seed, and how near to 0 the nearest pre-activation behind a trained layer is."""
    grams, nearest = [], []
    with computing("float64", device) as kind:
        for seed, data in enumerate(sets):
            own = jax.tree.map(lambda leaf, seed=seed: jnp.asarray(leaf[seed], kind), params)
            X = jnp.asarray(data.X, kind)
            grams.append(np.asarray(_gram(network, own, X)))
            nearest.append(min(float(jnp.abs(g).min()) for g in _trace(network, own, X).pre_activations[1:]))
    return {"H_end": np.stack(grams), "nearest_kink": np.array(nearest)}


def linear_steps(H: np.ndarray, residual: np.ndarray, lr: float, share: float) -> float:
    """Steps after which GD on ½‖r‖² with a fixed kernel has brought the loss to `share` of the first; inf where it never does.

    >>> linear_steps(np.eye(2), np.array([1.0, 2.0]), 0.5, 1 / 16)
    2.0
    """
    values, vectors = np.linalg.eigh(H)
    weights = (vectors.T @ residual) ** 2
    logs = 2 * np.log(np.maximum(np.abs(1 - lr * values), 1e-300))
    goal = share * weights.sum()
    if weights[logs >= 0].sum() > goal:
        return float("inf")

    def left(steps: float) -> float:
        return float(weights @ np.exp(np.minimum(steps * logs, 0)))

    low, high = 0.0, 1.0
    while left(high) > goal:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if left(middle) > goal else (low, middle)
    return round(high, 6)


def count_iterations(
    work: Work, network: Any, sets: Sequence[Dataset], keys: Sequence[int], share: float
) -> dict[str, Any]:
    """GD on ½‖r‖² at η = 1/λ_max until the loss is at the share asked for, all seeds side by side.

    Ref: convergence, Thm 1, Thm 8
    """
    start = at_start(network, sets, keys, work.device)
    lr = rates_of(start["H"], "GD", 1.0)
    expected = [
        linear_steps(H, data.y - u, float(rate), share)
        for H, u, data, rate in zip(start["H"], start["u"], sets, lr, strict=True)
    ]
    steps, every = recorded(MOST * max(expected) + 10)
    done = side_by_side(
        network, list(sets), [(float(rate), 0.0, key) for rate, key in zip(lr, keys, strict=True)], steps, record=every,
        measures=(), batch=None, device=work.device, place=work.place, stop_below=share, progress=work.progress,
    )  # fmt: skip
    values = np.linalg.eigvalsh(start["H"])
    return {
        "steps": done.steps, "loss": done.records["loss"], "lr": lr, "expected": expected,
        "smallest": values[:, 0], "largest": values[:, -1],
        "separation": [smallest_distance(data.X) for data in sets],
    }  # fmt: skip


def run_classes(
    work: Work, network: Any, sets: Sequence[Dataset], key: int, batch: int | None, most_steps: int
) -> dict[str, Any]:
    """Ten classes under cross-entropy until its sum is well below ¼, real and random labels side by side.

    Ref: convergence, Thm 6, footnote 16
    """
    n = sets[0].n
    few = sets[0].take(np.arange(min(RATE_ROWS, n)))
    H = at_start(network, [few], [key], work.device)["H"]
    objective = LOSSES["cross-entropy"]
    lr = float(2 / ((objective.smoothness or 1.0) * n * H[0].diagonal().max()))
    steps, every = recorded(most_steps)
    done = side_by_side(
        network, list(sets), [(lr, 0.0, key)] * 2, steps, record=every, measures=("movement",), batch=batch,
        sampling="independent", objective=objective, device=work.device, place=work.place,
        stop_below=0.1 / (n * log(10)), progress=work.progress,
    )  # fmt: skip
    delta = smallest_distance(sets[0].X)
    about = {"steps": done.steps, "lr": lr, "separation": delta, "seconds_per_step": done.seconds_per_step}
    return {"loss": done.records["loss"], "accuracy": done.records["accuracy"]} | about


def outline(settings: RatesSettings) -> str:
    """The runs of each kind and their size, in words."""
    points = len({point for _, point in settings.counts.values()})
    return (
        f"{len(settings.cells) * settings.seeds} runs for rates (n = {settings.samples}, m = {settings.width}, at most "
        f"{settings.most_steps} steps), {points * len(settings.counted) * settings.counted_seeds} for iterations "
        f"(n up to {max(settings.n)}, m up to {max(settings.m)}), {2 * len(settings.class_cells)} with ten classes "
        f"(n = {settings.class_samples}, at most {max(map(settings.steps_of, NETWORKS)):,} steps), all in float64"
    )


def _cells(networks: tuple[str, ...], both: tuple[str, ...], others: tuple[str, ...]) -> tuple[Cell, ...]:
    """Every network with GD and SGD on the losses `both`, and with GD alone on the `others`."""
    return tuple(
        (network, loss, algorithm)
        for network in networks
        for loss in (*both, *others)
        for algorithm in (("GD", "SGD") if loss in both else ("GD",))
    )


SMOKE = RatesSettings(
    data="digits", pool=1, samples=8, batch=4, seeds=2, layers=2, width=64, channels=2,
    cells=_cells(("fully connected",), ("squared",), ("rippled", "cross-entropy", "saturated")),
    decades=8, most_steps=1_500, base=(8, 2, 64, 0.3), n=(4, 8), L=(1, 2), m=(32, 64), separations=(0.15, 0.3),
    counted=("fully connected",), counted_seeds=2,
    class_samples=40, class_batch=10, class_steps=200, class_cells=(("fully connected", "GD"),), dimension=8,
)  # fmt: skip

SMALL = RatesSettings(
    data="digits", pool=1, samples=16, batch=4, seeds=3, layers=2, width=256, channels=8,
    cells=_cells(NETWORKS, ("squared", "rippled", "cross-entropy"), ("saturated",)),
    decades=14, most_steps=6_000,
    base=(12, 2, 256, 0.2), n=(6, 12, 24, 48), L=(1, 2, 4, 8), m=(64, 128, 256, 512), separations=(0.05, 0.1, 0.2, 0.4),
    counted=("fully connected", "residual"), counted_seeds=3,
    class_samples=100, class_batch=25, class_steps=3_000,
    class_cells=tuple((network, algorithm) for network in NETWORKS for algorithm in ("GD", "SGD")),
)  # fmt: skip

FULL = RatesSettings(
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

SETTINGS: dict[Scale, RatesSettings] = {"smoke": SMOKE, "small": SMALL, "full": FULL}
