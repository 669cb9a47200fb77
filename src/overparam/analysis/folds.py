"""Folds of rows for whatever is fitted again on part of them: classes in proportion, rows that belong together in one fold."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Folds = Sequence[tuple[np.ndarray, np.ndarray]]
"""(rows to fit, rows held out) of each fold."""
FOLDS = 5


def folds_of(strata: np.ndarray, groups: np.ndarray | None, seed: int, *, classes: bool) -> Folds:
    """Five of them; a class of fewer rows than folds is not kept in proportion.

    Args:
        strata: (n,) class numbers; anything for a regression.
        groups: (n,) rows of one group are in one fold, where there are groups enough.
        seed: of the order.
        classes: whether `strata` are classes.

    >>> folds = folds_of(np.array([0, 1] * 10), np.arange(20) // 2, 0, classes=True)
    >>> [len(held) for _, held in folds]
    [4, 4, 4, 4, 4]
    """
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    even = classes and np.bincount(strata)[np.unique(strata)].min() >= FOLDS
    mixed: dict[str, Any] = {"n_splits": FOLDS, "shuffle": True, "random_state": seed % 2**32}
    if groups is not None and len(np.unique(groups)) >= FOLDS:
        split = StratifiedGroupKFold(**mixed) if even else GroupKFold(**mixed)
    else:
        split = StratifiedKFold(**mixed) if even else KFold(**mixed)
    return list(split.split(np.zeros(len(strata)), strata, groups))


@contextlib.contextmanager
def quiet_fits() -> Iterator[None]:
    """Without what scikit-learn warns of at every tree and fit: classes of few rows, which the analysis says once itself, and
    a solver that stopped early, whose answer is worth what rows held out say."""
    with warnings.catch_warnings():
        for message in ("The number of unique classes", "lbfgs failed to converge"):
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        yield
