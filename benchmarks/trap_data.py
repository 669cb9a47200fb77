"""The data of traps: tables, series and images that mislead, each made from a seed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import overparam as op

Made = tuple[Any, Any, dict[str, Any]]
"""X, y and options of `analyze`."""


def coin(random: np.random.Generator, n: int, share: float = 0.5) -> np.ndarray:
    """Labels that no row tells anything of."""
    y = np.where(random.uniform(size=n) < share, "yes", "no")
    y[:2] = ("yes", "no")
    return y


def signal(X: np.ndarray, random: np.random.Generator, noise: float = 0.3, quantile: float = 0.5) -> np.ndarray:
    """Labels from a smooth rule of the first three columns."""
    score = X[:, 0] + np.sin(X[:, 1]) + 0.5 * X[:, 2] + noise * random.normal(size=len(X))
    return np.where(score > np.quantile(score, quantile), "yes", "no")


def written_twice(
    X: np.ndarray, y: np.ndarray, jitter: float, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    both = np.vstack([X, X + jitter * random.normal(size=X.shape)])
    order = random.permutation(len(both))
    return both[order], np.concatenate([y, y])[order]


def frame_of(columns: dict[str, Sequence[Any]]) -> str:
    """A table as people have it: a file."""
    place = Path(tempfile.mkdtemp()) / "table.csv"
    rows = zip(*columns.values(), strict=True)
    place.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return str(place)


def normal_rows(random: np.random.Generator, n: int = 240, d: int = 5) -> np.ndarray:
    return random.normal(size=(n, d))


def twice(jitter: float) -> Callable[[np.random.Generator], Made]:
    def make(random: np.random.Generator) -> Made:
        return (*written_twice(normal_rows(random, 200), coin(random, 200), jitter, random), {})

    return make


def one_column(random: np.random.Generator) -> Made:
    X, y = normal_rows(random, 250), coin(random, 250)
    moved = X.copy()
    moved[:, 0] += 1e-3 * random.normal(size=250)
    return np.vstack([X, moved]), np.concatenate([y, y]), {}


def oversampled(random: np.random.Generator) -> Made:
    X = normal_rows(random, 300)
    y = coin(random, 300, 0.12)
    few = np.flatnonzero(y == "yes")
    rows = np.concatenate([np.arange(300), np.repeat(few, 5)])
    return X[rows], y[rows], {}


def heaps(rows: int, times: int, jitter: float) -> Callable[[np.random.Generator], Made]:
    """Every row many times, with jitter."""

    def make(random: np.random.Generator) -> Made:
        X, y = np.repeat(normal_rows(random, rows), times, axis=0), np.repeat(coin(random, rows), times)
        order = random.permutation(len(X))
        return (X + jitter * random.normal(size=X.shape))[order], y[order], {}

    return make


def jittered_minority(random: np.random.Generator) -> Made:
    X, y = normal_rows(random, 200), coin(random, 200, 0.06)
    few = np.repeat(np.flatnonzero(y == "yes"), 25)
    return np.vstack([X, X[few] + 1e-3 * random.normal(size=(len(few), 5))]), np.concatenate([y, y[few]]), {}


def written_again(kind: str) -> Callable[[np.random.Generator], Made]:
    """A table of which every row is there twice, with another date, word or number of the row."""

    def make(random: np.random.Generator) -> Made:
        X, y = np.tile(normal_rows(random, 120, 4), (2, 1)), np.tile(coin(random, 120), 2)
        days = np.datetime64("2024-01-01") + random.integers(700, size=240)
        own = {
            "date": days.astype(str),
            "word": random.choice(["red", "green", "blue", "grey"], size=240),
            "number": random.permutation(240) * 7 + 3,
        }[kind]
        table = {f"x{j}": X[:, j].tolist() for j in range(4)} | {kind: own, "label": y}
        return frame_of(table), None, {"label": "label"}

    return make


def sliding(random: np.random.Generator, n: int, width: int = 20, shift: int = 2) -> np.ndarray:
    """Windows of a random walk."""
    walk = np.cumsum(random.normal(size=width + shift * (n - 1)))
    return np.lib.stride_tricks.sliding_window_view(walk, width)[::shift].copy()


def windows(shift: int, mixed: bool = False) -> Callable[[np.random.Generator], Made]:
    """Overlapping windows, with a coin for every 25 of them in turn."""

    def make(random: np.random.Generator) -> Made:
        X, y = sliding(random, 250, shift=shift), np.repeat(coin(random, 10), 25)
        order = random.permutation(250) if mixed else np.arange(250)
        return X[order], y[order], {}

    return make


def recordings(random: np.random.Generator) -> Made:
    """Windows of forty recordings, which the user names, of two kinds."""
    kinds = np.arange(40) % 2
    X = np.vstack([(1 + 4 * kind) * np.diff(sliding(random, 6, 21)) for kind in kinds])
    who, label = np.repeat(np.arange(40), 6), np.where(np.repeat(kinds, 6) == 0, "calm", "wild")
    table = {f"t{j}": X[:, j].tolist() for j in range(20)} | {"who": [f"r{i}" for i in who], "label": label}
    return frame_of(table), None, {"label": "label", "group": "who"}


def discrete(random: np.random.Generator) -> Made:
    X = random.integers(3, size=(300, 3)).astype(float)
    chance = 1 / (1 + np.exp(-(X.sum(axis=1) - 3)))
    return X, np.where(random.uniform(size=300) < chance, "yes", "no"), {}


def leaked(random: np.random.Generator) -> Made:
    X, y = normal_rows(random, 200, 3), coin(random, 200)
    table = {f"x{j}": X[:, j].tolist() for j in range(3)} | {"status": np.where(y == "yes", 1, 0), "label": y}
    return frame_of(table), None, {"label": "label"}


def sorted_id(random: np.random.Generator) -> Made:
    y = np.sort(coin(random, 200))
    X = normal_rows(random, 200, 3)
    table = {"id": np.arange(1000, 1200)} | {f"x{j}": X[:, j].tolist() for j in range(3)} | {"label": y}
    return frame_of(table), None, {"label": "label"}


def dated(random: np.random.Generator) -> Made:
    X = normal_rows(random, 200, 3)
    days = np.datetime64("2024-01-01") + random.integers(700, size=200)
    table = {"when": days.astype(str)} | {f"x{j}": X[:, j].tolist() for j in range(3)} | {"label": signal(X, random)}
    return frame_of(table), None, {"label": "label"}


def rare(share: float) -> Callable[[np.random.Generator], Made]:
    def make(random: np.random.Generator) -> Made:
        return normal_rows(random, 600), coin(random, 600, share), {}

    return make


def two_rows(random: np.random.Generator) -> Made:
    X = normal_rows(random, 120)
    y = signal(X, random).astype("<U5")
    y[:2] = "other"
    return X, y, {}


def noisy(random: np.random.Generator) -> Made:
    X = normal_rows(random)
    y = signal(X, random, 0.0)
    return X, np.where(random.uniform(size=len(y)) < 0.6, coin(random, len(y)), y), {}


def one_row_ten_times(random: np.random.Generator) -> Made:
    X = normal_rows(random, 150)
    X[:10] = X[0]
    y = coin(random, 150)
    y[:10] = ["yes", "no"] * 5
    return X, y, {}


def parity(random: np.random.Generator) -> Made:
    X = random.choice([-1.0, 1.0], size=(240, 10))
    return X, np.where(X.prod(axis=1) > 0, "yes", "no"), {}


def all_equal(random: np.random.Generator) -> Made:
    return np.ones((40, 3)), coin(random, 40), {}


def many_classes(random: np.random.Generator) -> Made:
    return normal_rows(random, 100), random.permutation(np.repeat(np.arange(50), 2)).astype(str), {}


def heavy_tails(random: np.random.Generator) -> Made:
    return random.standard_cauchy(size=(240, 5)), coin(random, 240), {}


def contradictory(random: np.random.Generator) -> Made:
    X = np.repeat(normal_rows(random, 100), 2, axis=0)
    return X, np.tile(["yes", "no"], 100), {}


def one_column_of_many(random: np.random.Generator) -> Made:
    X = normal_rows(random, 100, 500)
    return X, np.where(X[:, 0] > 0, "yes", "no"), {}


def tested_on_itself(random: np.random.Generator) -> Made:
    X, y = normal_rows(random, 150), coin(random, 150)
    data = op.load((X, y), task="classes")
    return data.replace(test=data.take(slice(0, 60)).replace(test=None)), None, {}


def unique_words(random: np.random.Generator) -> Made:
    table = {
        "name": [f"u{i:04d}" for i in range(120)],
        "x": random.normal(size=120).tolist(),
        "label": coin(random, 120),
    }
    return frame_of(table), None, {"label": "label"}


def three_uneven(random: np.random.Generator) -> Made:
    y = random.choice(["a", "b", "c"], size=400, p=[0.98, 0.01, 0.01])
    y[:6] = ["a", "b", "c"] * 2
    return normal_rows(random, 400), y, {}


def dense_column(random: np.random.Generator) -> Made:
    x = np.sort(random.uniform(size=400))
    return x[:, None], np.where(random.uniform(size=400) < x, "yes", "no"), {}


def clusters(random: np.random.Generator) -> Made:
    y = np.repeat(["yes", "no"], 100)
    return normal_rows(random, 200) + 6.0 * (y == "yes")[:, None], y, {}


def antipodal(random: np.random.Generator) -> Made:
    X = normal_rows(random, 120)
    y = coin(random, 120)
    return np.vstack([X, -X]), np.concatenate([y, y]), {}


def grey_noise(random: np.random.Generator) -> Made:
    return random.integers(256, size=(150, 64)).astype(np.uint8), coin(random, 150), {}


def wide_noise(random: np.random.Generator) -> Made:
    """Nothing to learn: of the class of a row that is left out there are fewer, which names the other one for every row."""
    return normal_rows(random, 60, 400), random.permutation(np.repeat(["yes", "no"], 30)), {}


def wild_scales(random: np.random.Generator) -> Made:
    X = normal_rows(random)
    return X * 10.0 ** np.array([-9, 9, 0, 5, -3]), signal(X, random, 0.0), {}


def subjects(random: np.random.Generator) -> Made:
    who = np.repeat(np.arange(40), 6)
    centre, y = 3 * random.normal(size=(40, 5)), coin(random, 40)
    return frame_of(
        {f"x{j}": (centre[who, j] + 0.5 * random.normal(size=240)).tolist() for j in range(5)}
        | {"subject": [f"s{i}" for i in who], "label": y[who]}
    ), None, {"label": "label", "group": "subject"}  # fmt: skip


def flat_target(random: np.random.Generator) -> Made:
    return normal_rows(random, 60), np.full(60, 2.5), {"task": "regression"}


def noise_target(random: np.random.Generator) -> Made:
    return normal_rows(random), random.normal(size=240), {"task": "regression"}


def straight_target(random: np.random.Generator) -> Made:
    X = normal_rows(random)
    return X, 100 + 7 * X[:, 0] - 3 * X[:, 1], {"task": "regression"}


def copied_target(random: np.random.Generator) -> Made:
    X, y = normal_rows(random, 120), random.normal(size=120)
    return np.vstack([X, X]), np.concatenate([y, y]), {"task": "regression"}


def constant_columns(random: np.random.Generator) -> Made:
    X = np.ones((200, 6))
    X[:, 2] = random.normal(size=200)
    return X, np.where(X[:, 2] > 0, "yes", "no"), {}


def tiny(random: np.random.Generator) -> Made:
    return normal_rows(random, 8, 3), np.array(["yes", "no"] * 4), {}


def copies_of_signal(random: np.random.Generator) -> Made:
    X = normal_rows(random, 200)
    return (*written_twice(X, signal(X, random, 1.0), 0.0, random), {})


def persons(mixed: bool, wide: float = 0.2) -> Callable[[np.random.Generator], Made]:
    """Six rows of each of forty persons, with a coin for each, and no column that says who."""

    def make(random: np.random.Generator) -> Made:
        who = np.repeat(np.arange(40), 6)
        X, y = random.normal(size=(40, 8))[who] + wide * random.normal(size=(240, 8)), coin(random, 40)[who]
        order = random.permutation(240) if mixed else np.arange(240)
        return X[order], y[order], {}

    return make


def frames(random: np.random.Generator) -> Made:
    """Thirty frames of each of twelve recordings that wander, with a coin for each, in any order."""
    X = np.vstack(
        [2 * random.normal(size=20) + np.cumsum(0.3 * random.normal(size=(30, 20)), axis=0) for _ in range(12)]
    )
    order = random.permutation(360)
    return X[order], np.repeat(coin(random, 12), 30)[order], {}


def widely_jittered(jitter: float, columns: int) -> Callable[[np.random.Generator], Made]:
    def make(random: np.random.Generator) -> Made:
        return (*written_twice(normal_rows(random, 150, columns), coin(random, 150), jitter, random), {})

    return make


def made_up(random: np.random.Generator) -> Made:
    """More rows of the rare class, each between one of them and one of its five nearest."""
    X, y = normal_rows(random, 300, 6), coin(random, 300, 0.12)
    few = X[y == "yes"]
    near = np.argsort(np.linalg.norm(few[:, None] - few, axis=2), axis=1)[:, 1:6]
    one = random.integers(len(few), size=230)
    other = near[one, random.integers(5, size=230)]
    made = few[one] + random.uniform(size=(230, 1)) * (few[other] - few[one])
    return np.vstack([X, made]), np.concatenate([y, np.full(230, "yes")]), {}


def nearly_leaked(count: int) -> Callable[[np.random.Generator], Made]:
    """Columns that are the label but for three rows in a hundred."""

    def make(random: np.random.Generator) -> Made:
        X, y = normal_rows(random, 1_000, 3), coin(random, 1_000)
        table = {f"x{j}": X[:, j].tolist() for j in range(3)}
        for column in ("status", "closed")[:count]:
            table[column] = np.where((y == "yes") != (random.uniform(size=1_000) < 0.03), 1, 0).tolist()
        return frame_of(table | {"label": y.tolist()}), None, {"label": "label"}

    return make


def walks(mixed: bool) -> Callable[[np.random.Generator], Made]:
    """A random walk to predict from five others that have nothing to do with it."""

    def make(random: np.random.Generator) -> Made:
        found = np.cumsum(random.normal(size=(300, 6)), axis=0)
        order = random.permutation(300) if mixed else np.arange(300)
        return found[order, :5], found[order, 5], {"task": "regression"}

    return make


def persons_target(random: np.random.Generator) -> Made:
    """A number drawn for each of forty persons, with a little noise: no two rows have the same."""
    who = random.permutation(np.repeat(np.arange(40), 6))
    X, y = random.normal(size=(40, 8))[who] + 0.2 * random.normal(size=(240, 8)), random.normal(size=40)[who]
    return X, y + 0.1 * random.normal(size=240), {"task": "regression"}


def encoded(random: np.random.Generator) -> Made:
    """Four categories, each encoded by the share of its rows that are "yes"."""
    y, columns = coin(random, 400), {}
    for j in range(4):
        which = random.integers(130, size=400)
        share = np.bincount(which, y == "yes", 130) / np.maximum(np.bincount(which, minlength=130), 1)
        columns[f"shop{j}"] = share[which].tolist()
    return frame_of(columns | {"x": random.normal(size=400).tolist(), "label": y}), None, {"label": "label"}


def tied_groups(random: np.random.Generator) -> Made:
    """Jittered copies in other groups of the user's than what they are copies of."""
    X, y = written_twice(normal_rows(random, 150), coin(random, 150), 1e-3, random)
    table = {f"x{j}": X[:, j].tolist() for j in range(5)} | {"site": [f"s{i}" for i in random.integers(15, size=300)]}
    return frame_of(table | {"label": y}), None, {"label": "label", "group": "site"}


def short_windows(random: np.random.Generator) -> Made:
    X = np.lib.stride_tricks.sliding_window_view(random.normal(size=243), 4).copy()
    return X, np.repeat(coin(random, 12), 20), {}


def real_table(name: str) -> Callable[[np.random.Generator], Made]:
    return lambda random: (f"uci/{name}", None, {})
