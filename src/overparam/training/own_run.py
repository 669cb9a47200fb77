"""Whether a run is one of the network and the rows it is given with: each failure one line."""

from __future__ import annotations

from math import isfinite, sqrt
from typing import Any

import numpy as np

from overparam.core.network import AbstractNetwork
from overparam.core.words import count_of

CLOSE = 1e-3
"""How far the loss may be from the recorded one, as a share of it."""
LOST = 10.0
"""Times the digits that one product keeps: what the outputs of a deep network lose."""


def require_network_of(run: Any, network: Any) -> None:
    """Raise where the run trained a network of another class.

    Args:
        run: a `Trajectory`, whose `network` begins with the name of the class.
        network: what is looked at; a function is trained as `Given`.
    """
    house = isinstance(network, AbstractNetwork) or not callable(network)
    own = type(network).__name__ if house else "Given"
    if run.network.split("(")[0] != own:
        raise ValueError(f"the run trained a {run.network} and `network` is a {own}; pass the one it trained")


def require_rows_of(run: Any, n: int, name: str) -> None:
    """Raise where the run had another number of rows."""
    if n != run.n:
        raise ValueError(
            f"the run was trained on {count_of(run.n, 'row')} and {name} has {n:,}; pass the rows it had, and `rows` to "
            "look at fewer of them"
        )


def compares(run: Any) -> bool:
    """Whether the last recorded loss is the plain one at the last weights."""
    by_hand = run.stopped.startswith("stopped by hand")  # after the last record
    scaled = run.algorithm.startswith("SmoothedSGD")  # outputs are multiplied on the way
    return len(run.steps) > 0 and not by_hand and not scaled and isfinite(run.records["loss"][-1])


def require_loss_of(run: Any, mean: float, y: np.ndarray, digits: int) -> None:
    """Raise where the loss at the run's last weights is not what the run recorded last.

    Args:
        run: a `Trajectory`.
        mean: the loss of the run's objective on the rows given, their mean.
        y: their targets.
        digits: decimal digits that one product kept here.
    """
    told = float(run.records["loss"][-1]) / (run.n if run.loss_convention == "sum" else 1)
    lost = LOST * 10.0 ** -min(digits, run.digits) * sqrt(float(np.mean(np.square(y).reshape(len(y), -1).sum(axis=1))))
    if abs(mean - told) <= CLOSE * abs(told) + sqrt(2 * abs(told)) * lost + lost**2:
        return
    raise ValueError(
        f"the run ended at a mean loss of {told:.6g} and its last weights have {mean:.6g} on these rows: the data are not "
        "those of the run; pass its rows as it had them: `train_and_compare` scales them by `op.data.preprocess(data)`"
    )
