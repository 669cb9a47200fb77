"""What a loss and a learning rate refer to: the papers' sum, its mean, or PyTorch's MSELoss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LossName = Literal["sum", "mean", "mse"]


@dataclass(frozen=True)
class Convention:
    """`value` times the summed loss is the loss meant; `rate` times the rate given is the rate for the sum."""

    name: str
    value: float
    rate: float


def convention(loss: str, n: int, outputs: int = 1) -> Convention:
    """The three losses, for residuals y − u of n samples and k outputs.

    - "sum": ½ Σ_{i,r} (y_ir − u_ir)², the papers' loss;
    - "mean": the same over n, so that a rate η acts like η/n on the sum;
    - "mse": Σ_{i,r} (y_ir − u_ir)² / (n k), PyTorch's `MSELoss()`, which has no ½ and averages over the
      outputs too: a rate η acts like 2η/(n k) on the sum.

    Ref: fine_grained, Eq. (2)

    >>> convention("mse", n=10, outputs=4)
    Convention(name='mse', value=0.05, rate=0.05)
    """
    if loss == "sum":
        return Convention("sum", 1.0, 1.0)
    if loss == "mean":
        return Convention("mean", 1 / n, 1 / n)
    if loss == "mse":
        return Convention("mse", 2 / (n * outputs), 2 / (n * outputs))
    raise ValueError(f"`loss` is {loss!r}; expected 'sum', 'mean' or 'mse'")
