"""Rows of the study `convergence-rates`: images by their labels, and drawn pairs at a chosen distance."""

from __future__ import annotations

import numpy as np

from overparam.data import Dataset, as_dataset, centre, corrupt_labels, generator, load, pad_convergence, unit_rows
from overparam.studies.convergence_rates_settings import IMAGES, Settings

PAIR = (3, 8)
"""The two classes of the runs with one output."""


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


def side_of(settings: Settings) -> int:
    """Of the images, after averaging."""
    return {"digits": 8, "mnist": 28}[settings.data] // settings.pool


def as_seen(network: str, data: Dataset) -> Dataset:
    """Rows as the theorem of a network wants them: centred; of norm 1; padded to last coordinate 1/√2 where it asks for it.

    Ref: convergence, footnote 5, App. B
    """
    data = centre(data)
    return unit_rows(data) if network in IMAGES else pad_convergence(data)


def image_pairs(settings: Settings, network: str, seed: int) -> list[Dataset]:
    """For every seed n other rows of two classes, labels ±1."""
    count = settings.samples * settings.seeds
    data = pooled(load(settings.data, classes=PAIR, train=count).replace(test=None), settings.pool)
    order = generator([seed, 0]).permutation(count).reshape(settings.seeds, settings.samples)
    return [as_seen(network, data.take(rows)) for rows in order]


def ten_classes(settings: Settings, network: str, seed: int) -> list[Dataset]:
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
