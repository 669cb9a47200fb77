"""More data of traps, as people have them: rows in the order they were recorded, codes, users, files that are sorted; and what no rows can show."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from trap_data import Made, coin, frame_of

import overparam as op


def table(X: np.ndarray, y: np.ndarray, **columns: object) -> Made:
    """A file with a head; the label is its last column."""
    more = {name: np.asarray(values).tolist() for name, values in columns.items()}
    return (
        frame_of({**{f"c{j}": X[:, j].tolist() for j in range(X.shape[1])}, **more, "y": y.tolist()}),
        None,
        {"label": "y"},
    )


def coins_for(random: np.random.Generator, count: int) -> np.ndarray:
    """As many of either label."""
    return np.array(["no", "yes"])[random.permutation(np.arange(count) % 2)]


def users(random: np.random.Generator) -> Made:
    """Forty users of ten rows, named by words, with a coin for each."""
    who = random.permutation(np.repeat(np.arange(40), 10))
    return table(random.normal(size=(400, 4)), coins_for(random, 40)[who], user=[f"u{one}" for one in who])


def reasons(random: np.random.Generator) -> Made:
    """Twenty-four codes, each of which goes with one label."""
    y = coin(random, 500)
    code = np.where(y == "yes", random.integers(100, 112, 500), random.integers(200, 212, 500))
    return table(random.normal(size=(500, 5)), y, reason=[f"R{one}" for one in code])


def missing_date(random: np.random.Generator) -> Made:
    """A date that rows of one label do not have."""
    y = coin(random, 400)
    days = np.datetime64("2021-01-01") + random.integers(0, 700, 400)
    closed = [str(day) if label == "yes" else "" for day, label in zip(days, y, strict=True)]
    path, _, options = table(random.normal(size=(400, 5)), y, closed=closed)
    return path, None, {**options, "missing": "mean"}


def market(random: np.random.Generator) -> Made:
    """Whether a random walk is higher twenty days later, from its means and spreads of the last days."""
    price = np.cumsum(random.normal(size=900))
    days = np.arange(60, 860)
    ago = np.array([price[day - 60 : day] for day in days])
    now = price[days]
    of = [
        now - ago[:, -20:].mean(1),
        now - ago[:, -50:].mean(1),
        ago[:, -10:].std(1),
        ago[:, -30:].std(1),
        now - ago[:, -5],
        now - ago[:, -30],
    ]
    return table(np.column_stack(of), np.where(price[days + 20] > now, "up", "down"))  # fmt: skip


def spectra(random: np.random.Generator) -> Made:
    """Of windows of noise that share 90%, a coin for 25 in turn."""
    noise = random.normal(size=6_000)
    found = [np.abs(np.fft.rfft(noise[12 * i : 12 * i + 120]))[1:31] for i in range(400)]
    return table(np.array(found), np.repeat(coins_for(random, 16), 25))


def drifting(random: np.random.Generator) -> Made:
    """Columns that each wander, with noise; a coin for 25 rows in turn."""
    X = random.normal(size=(400, 6))
    for i in range(1, 400):
        X[i] += 0.95 * X[i - 1]
    return table(X + 0.8 * random.normal(size=X.shape), np.repeat(coins_for(random, 16), 25))


def wide_persons(mixed: bool) -> Callable[[np.random.Generator], Made]:
    """Twenty persons whose rows are twice as wide as they are apart, with a coin for each."""

    def make(random: np.random.Generator) -> Made:
        who = np.repeat(np.arange(20), 30)
        who = random.permutation(who) if mixed else who
        return table(random.normal(size=(20, 60))[who] + 2 * random.normal(size=(600, 60)), coins_for(random, 20)[who])

    return make


def sessions(random: np.random.Generator) -> Made:
    """Twelve sessions a little apart, with a coin for each."""
    which = np.repeat(np.arange(12), 35)
    return table(
        0.7 * random.normal(size=(12, 10))[which] + random.normal(size=(420, 10)), coins_for(random, 12)[which]
    )


def moved_images(random: np.random.Generator) -> Made:
    """Smooth images, each there five times, moved by a pixel."""
    far = np.minimum(np.arange(20), 20 - np.arange(20)) ** 2
    smooth = np.fft.fft2(np.exp(-np.add.outer(far, far) / 8))
    found = []
    for _ in range(80):
        image = np.real(np.fft.ifft2(np.fft.fft2(random.normal(size=(20, 20))) * smooth))
        image = (255 * (image - image.min()) / np.ptp(image)).astype(np.uint8)
        found += [np.roll(image, step, (0, 1)) for step in ((0, 0), (1, 0), (0, 1), (-1, 1), (1, -1))]
    order = random.permutation(400)
    return np.array(found)[order], np.repeat(coin(random, 80), 5)[order], {}


def mixed_up(random: np.random.Generator) -> Made:
    """Each row on the way between two of twenty of its class, which are not there themselves."""
    rows, y = random.normal(size=(40, 8)), np.arange(400) % 2
    pair = np.array([random.choice(np.arange(20), 2, replace=False) * 2 + label for label in y])
    share = random.uniform(size=(400, 1))
    return table(share * rows[pair[:, 0]] + (1 - share) * rows[pair[:, 1]], np.array(["no", "yes"])[y])


def other_units(random: np.random.Generator) -> Made:
    """Every row again, in other units."""
    X, y, order = random.normal(size=(200, 12)) + 1, coin(random, 200), random.permutation(400)
    return table(np.vstack([X, X * random.uniform(0.5, 2, size=(200, 1))])[order], np.concatenate([y, y])[order])


def drawn_again(random: np.random.Generator) -> Made:
    """400 draws from 120 rows of numbers and words."""
    X, words, y = (
        random.normal(size=(120, 4)).round(3),
        np.array(list("abc"))[random.integers(3, size=120)],
        coin(random, 120),
    )
    rows = random.integers(120, size=400)
    return table(X[rows], y[rows], w=words[rows])


def tested_on_jittered(random: np.random.Generator) -> Made:
    """A test file of training rows with a little noise."""
    X, y = random.normal(size=(300, 8)), coin(random, 300)
    test = table(X[:80] + 1e-3 * random.normal(size=(80, 8)), y[:80])[0]
    path, _, options = table(X, y)
    return op.load(path, test_file=test, **options), None, {}


def spirals(random: np.random.Generator) -> Made:
    turn, which = random.uniform(0.5, 3, 500) * np.pi, random.integers(2, size=500)
    X = np.column_stack([turn * np.cos(turn + np.pi * which), turn * np.sin(turn + np.pi * which)])
    return table(X + 0.15 * random.normal(size=X.shape), np.array(["a", "b"])[which])


def plane(order: str) -> Callable[[np.random.Generator], Made]:
    """A clean rule in a file that is sorted."""

    def make(random: np.random.Generator) -> Made:
        X = random.normal(size=(400, 5)).round(2)
        y = np.where(X[:, 0] + X[:, 1] - X[:, 2] > 0, "a", "b")
        rows = np.argsort(X[:, 0]) if order == "a column" else np.lexsort((X[:, 3], y))
        return table(X[rows], y[rows])

    return make


def settings(mixed: bool) -> Callable[[np.random.Generator], Made]:
    """Three levels of four columns, measured three times each: in turn, where whatever drifts looks like a setting, or in random order."""

    def make(random: np.random.Generator) -> Made:
        levels = np.repeat(np.array(np.meshgrid(*[[-1, 0, 1]] * 4)).reshape(4, -1).T, 3, axis=0)
        X = (random.permutation(levels) if mixed else levels) + 0.05 * random.normal(size=levels.shape)
        return table(X, np.where(X[:, 0] + X[:, 1] > 0.3, "a", "b"))

    return make


def word_counts(random: np.random.Generator) -> Made:
    topics, which = random.dirichlet(0.3 * np.ones(60), 2), random.integers(2, size=300)
    return table(
        np.array([random.multinomial(60, topics[one]) for one in which]).astype(float), np.array(["a", "b"])[which]
    )


def sorted_curve(random: np.random.Generator) -> Made:
    X = random.normal(size=(300, 4))
    X = X[np.argsort(X[:, 1])]
    return table(X, np.round(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.05 * random.normal(size=300), 3))


def rule_along_series(random: np.random.Generator) -> Made:
    """Columns that wander, and labels that follow from each row alone."""
    X = random.normal(size=(500, 5))
    for i in range(1, 500):
        X[i] = 0.9 * X[i - 1] + 0.44 * X[i]
    return table(X, np.where(X[:, 0] + X[:, 1] + 0.5 * X[:, 2] > 0, "a", "b"))


def chosen_columns(random: np.random.Generator) -> Made:
    """Of 3,000 columns of noise the twenty that go best with a coin."""
    X, y = random.normal(size=(120, 3_000)), coins_for(random, 120)
    along = np.abs((X - X.mean(0)).T @ np.where(y == "yes", 1.0, -1.0)) / X.std(0)
    return table(X[:, np.argsort(along)[-20:]], y)


def before_and_after(random: np.random.Generator) -> Made:
    """A coin that only the difference of two columns tells."""
    y, before = coin(random, 400), 100 * random.normal(size=400)
    return table(random.normal(size=(400, 3)), y, before=before, after=before + np.where(y == "yes", 7.0, 0.0))


def two_laboratories(random: np.random.Generator) -> Made:
    """One that measures all columns higher, and has all the cases."""
    y = np.repeat(["no", "yes"], 150)
    return table(random.normal(size=(300, 6)) + 3 * (y == "yes")[:, None], y)
