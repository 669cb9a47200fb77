"""Support-vector machines on the kernels of a comparison, weighed against ridge regression over folds."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from overparam.analysis.comparison_data import SplitRows
from overparam.analysis.folds import Folds
from overparam.spectrum import factor

COSTS = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""C tried, over the mean diagonal of the kernel: what one row may pull with."""
INSENSITIVE = 0.1
"""ε of regression, in standard deviations of the targets."""
ITERATIONS = 200_000
"""Of the solver, at which it gives up on separating rows that overlap."""


def ridge_error(ground: SplitRows, K: np.ndarray, y: np.ndarray, ridge: float, folds: Folds) -> float:
    """The error of kernel ridge regression over the folds, one factor each; infinite where there is none to rounding."""
    wrong = 0.0
    for fit, held in folds:
        try:
            c = factor(K[np.ix_(fit, fit)], ridge).solve(y[fit])
        except ValueError:  # not positive definite
            return np.inf
        wrong += float(ground.losses_on(y[held], K[np.ix_(held, fit)] @ c).sum())
    return wrong / len(y)


def best_machine(
    ground: SplitRows,
    K: np.ndarray,
    y: np.ndarray,
    strata: np.ndarray,
    folds: Folds,
    costs: Sequence[float] = COSTS,
) -> tuple[float, float]:
    """(error over the folds, C) of the best support-vector machine."""
    return min((_machine_error(ground, K, y, strata, cost, folds), cost) for cost in costs)


def _machine_error(
    ground: SplitRows,
    K: np.ndarray,
    y: np.ndarray,
    strata: np.ndarray,
    cost: float,
    folds: Folds,
) -> float:
    wrong = 0.0
    for fit, held in folds:
        outputs = machine_outputs(ground, K[np.ix_(fit, fit)], y[fit], strata[fit], K[np.ix_(held, fit)], cost)
        wrong += float(ground.losses_on(y[held], outputs).sum())
    return wrong / len(y)


def machine_outputs(
    ground: SplitRows, K: np.ndarray, y: np.ndarray, strata: np.ndarray, K_new: np.ndarray, cost: float
) -> np.ndarray:
    """What a machine fitted to these rows says of new ones, in the shape of y: classes as the targets that stand for them."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import SVC, SVR

    mean = float(K.diagonal().mean())  # so that C is in units of the kernel
    solver: dict[str, Any] = {"kernel": "precomputed", "C": cost, "max_iter": ITERATIONS, "cache_size": 500}
    with warnings.catch_warnings():
        # the folds say what the answer of a solver that gave up is worth
        warnings.simplefilter("ignore", ConvergenceWarning)
        if ground.task == "regression":
            columns = y.reshape(len(y), -1).T
            fits = [SVR(epsilon=INSENSITIVE, **solver).fit(K / mean, column) for column in columns]
            return np.column_stack([fit.predict(K_new / mean) for fit in fits]).reshape(len(K_new), *y.shape[1:])
        kinds, first = np.unique(strata, return_index=True)
        if len(kinds) == 1:
            return np.broadcast_to(y[0], (len(K_new), *y.shape[1:])).copy()
        said = SVC(**solver).fit(K / mean, strata).predict(K_new / mean)
    return y[first][np.searchsorted(kinds, said)]
