"""Where the curve of the best kernel and that of the best network meet, with how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

DRAWS = 400
"""Bootstrap draws, of seeds and of test rows."""
FAR = 100.0
"""A crossing further than this many times the largest size is not believed."""
INNER = (0.1, 0.9)
"""Quantiles of the draws that are reported."""

Kind = Literal["seen", "ahead", "none"]


@dataclass(frozen=True)
class Crossing:
    """The n at which the curves meet, and who is ahead beyond it.

    kind: "seen" between two of the sizes, "ahead" beyond the largest one, by straight lines in log n and log error, or
    "none". n, lower, upper: the estimate and the 10% and 90% quantiles of the draws that agree in kind; None where there
    is none. agree: the share of draws that agree in kind and in who is ahead beyond. leader: who that is.
    kernel_slope, network_slope: b of error ≈ a n^−b with its standard deviation over the draws; None for one size.
    """

    kind: Kind
    n: float | None
    lower: float | None
    upper: float | None
    agree: float
    leader: Literal["kernel", "network"]
    kernel_slope: tuple[float, float] | None
    network_slope: tuple[float, float] | None


def find_crossing(
    sizes: Sequence[int], kernel: np.ndarray, network: np.ndarray, *, seed: int = 0, draws: int = DRAWS
) -> Crossing:
    """The crossing of two curves, resampled over seeds and test rows.

    Between sizes, the logarithm of the ratio of the errors is taken as linear in log n; the last change of its sign
    counts. Beyond the largest size the least-squares line through all sizes is followed, up to 100 times as far.

    Args:
        sizes: rising.
        kernel, network: losses, (sizes, seeds, test rows), of the same rows.
        seed: of the draws.

    Errors 0.4 and 0.1 for the kernel, 0.8 and 0.05 for the network: log₂ of the ratio goes from 1 to −1.

    >>> flat = np.ones((2, 1, 100))
    >>> found = find_crossing([100, 400], flat * [[[0.4]], [[0.1]]], flat * [[[0.8]], [[0.05]]])
    >>> found.kind, round(found.n), found.leader
    ('seen', 200, 'network')
    """
    rng = np.random.default_rng(seed)
    least = 0.5 / kernel.shape[2]
    kind, n, leader = _meet(sizes, kernel.mean(axis=(1, 2)), network.mean(axis=(1, 2)), least)
    seeds, rows = kernel.shape[1:]
    meetings: list[float] = []
    agree = 0
    slopes = []
    for _ in range(draws):
        chosen = rng.integers(seeds, size=seeds)
        weight = rng.multinomial(rows, np.full(rows, 1 / rows)) / rows
        k, w = ((losses[:, chosen] @ weight).mean(axis=1) for losses in (kernel, network))
        slopes.append((_slope(sizes, k, least), _slope(sizes, w, least)))
        other, place, ahead = _meet(sizes, k, w, least)
        if other == kind and ahead == leader:
            agree += 1
            if place is not None:
                meetings.append(place)
    ends = np.quantile(meetings, INNER) if meetings and n is not None else (None, None)
    spread = np.std(slopes, axis=0) if len(sizes) > 1 else (np.nan, np.nan)
    own = [_slope(sizes, losses.mean(axis=(1, 2)), least) for losses in (kernel, network)]
    kernel_slope, network_slope = (
        (float(b), float(s)) if len(sizes) > 1 else None for b, s in zip(own, spread, strict=True)
    )
    return Crossing(
        kind=kind,
        n=n,
        lower=None if ends[0] is None else float(ends[0]),
        upper=None if ends[1] is None else float(ends[1]),
        agree=agree / draws if draws else 0.0,
        leader=leader,
        kernel_slope=kernel_slope,
        network_slope=network_slope,
    )


def _meet(
    sizes: Sequence[int], kernel: np.ndarray, network: np.ndarray, least: float
) -> tuple[Kind, float | None, Literal["kernel", "network"]]:
    """Kind, place and who is ahead beyond it, of two curves without noise."""
    x = np.log(np.asarray(sizes, dtype=np.float64))
    ratio = np.log(np.maximum(network, least)) - np.log(np.maximum(kernel, least))
    now = "network" if ratio[-1] < 0 else "kernel"
    other = np.flatnonzero((ratio < 0) != (ratio[-1] < 0))
    if len(other):
        i = int(other[-1])
        share = ratio[i] / (ratio[i] - ratio[i + 1])
        return "seen", float(np.exp(x[i] + share * (x[i + 1] - x[i]))), now
    if len(sizes) > 1:
        slope, level = np.polyfit(x, ratio, 1)
        meets = -level / slope if slope else -np.inf
        if x[-1] < meets < x[-1] + np.log(FAR):
            return "ahead", float(np.exp(meets)), "kernel" if now == "network" else "network"
    return "none", None, now


def _slope(sizes: Sequence[int], errors: np.ndarray, least: float) -> float:
    """b of the line log error = log a − b log n."""
    if len(sizes) < 2:
        return np.nan
    return -float(np.polyfit(np.log(np.asarray(sizes, dtype=np.float64)), np.log(np.maximum(errors, least)), 1)[0])
