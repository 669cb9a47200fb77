"""The kernel side of a comparison: families of kernels, every ridge and every member chosen by exact leave-one-out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from overparam.analysis.comparison_data import Choice, SplitRows
from overparam.core.progress import Progress
from overparam.frame import Work
from overparam.kernels import FullyConnected, Gaussian, Laplace, median_distance
from overparam.theory import tuned_regression

FAMILIES = ("NTK", "conjugate", "Laplace", "Gaussian")
DEPTHS = {"NTK": (1, 2, 3), "conjugate": (1, 2)}
WIDTHS = (0.5, 1.0, 2.0, 4.0)
"""Bandwidths tried, times the median distance of two rows."""
ALL_MEMBERS = 1_500
"""Rows up to which every member of a family is tried; above, the one that was best on the size below."""
AROUND = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Ridges tried there, times the best of the size below."""
DISTANCE_ROWS = 1_000


@dataclass(frozen=True)
class Fit:
    """The best member of a family on some rows: its name, its ridge, what leave-one-out gave, seconds for the family.

    least_ridge: the smallest that makes sense; below it rounding decides.
    """

    member: str
    ridge: float
    least_ridge: float
    left_out: float
    left_out_error: float | None
    seconds: float

    @property
    def score(self) -> tuple[float, float]:
        """What members are chosen by: the share of wrong classes, then the mean square; for regression the latter."""
        return (0.0 if self.left_out_error is None else self.left_out_error, self.left_out)


def make_families(X: np.ndarray) -> dict[str, dict[str, tuple[Any, str]]]:
    """family → member → (kernel, which of its kernels)."""
    distinct = np.unique(X[:: max(1, len(X) // DISTANCE_ROWS)], axis=0)
    median = median_distance(distinct, rows=DISTANCE_ROWS) if len(distinct) > 1 else 1.0
    families: dict[str, dict[str, tuple[Any, str]]] = {}
    for family, get in (("NTK", "ntk"), ("conjugate", "nngp")):
        families[family] = {f"depth {depth}": (FullyConnected(depth), get) for depth in DEPTHS[family]}
    for family, kind in (("Laplace", Laplace), ("Gaussian", Gaussian)):
        families[family] = {
            f"bandwidth {share * median:.3g}, {share:g} × the median distance": (kind(share * median), "ntk")
            for share in WIDTHS
        }
    return families


def fit_families(
    ground: SplitRows,
    families: Mapping[str, Mapping[str, tuple[Any, str]]],
    rows: np.ndarray,
    below: Mapping[str, Fit] | None,
    *,
    device: str | None,
    progress: Progress,
) -> tuple[dict[str, Fit], np.ndarray]:
    """The best member of every family on these rows, and its losses on the test rows, (families, rows).

    below: what was best on the next smaller size, if there was one.
    """
    fits: dict[str, Fit] = {}
    losses = []
    X, y = ground.X[rows], ground.y[rows]
    for place, (family, members) in enumerate(families.items()):
        progress(place, len(families), f"{family}, {len(rows):,} rows")
        start = time.perf_counter()
        few = below is not None and len(rows) > ALL_MEMBERS
        names = [below[family].member] if few and below is not None else list(members)
        best: tuple[Fit, np.ndarray] | None = None
        for name in names:
            near = below[family] if few and below is not None else None
            found = _tuned(members[name], X, y, ground.Z, near, device)
            floor = found.tried[0][0] if near is None else near.least_ridge
            fit = Fit(name, found.ridge, floor, found.left_out, found.left_out_error, 0.0)
            if best is None or fit.score < best[0].score:
                best = fit, found.outputs
        assert best is not None
        fit, outputs = best
        seconds = time.perf_counter() - start
        fits[family] = replace(fit, seconds=seconds)
        losses.append(ground.losses(outputs))
    progress(len(families), len(families), "kernels")
    return fits, np.stack(losses)


def best_family(fits: Mapping[str, Fit]) -> str:
    """The family with the least leave-one-out error."""
    return min(fits, key=lambda family: fits[family].score)


def _tuned(
    kernel: tuple[Any, str], X: np.ndarray, y: np.ndarray, Z: np.ndarray, near: Fit | None, device: str | None
) -> Any:
    """Over the whole grid of ridges, or over a few around what was best on fewer rows."""
    ridges = None if near is None else sorted({max(near.ridge * share, near.least_ridge) for share in AROUND})
    return tuned_regression(kernel[0], X, y, Z, get=kernel[1], ridges=ridges, device=device)


NUMBERS = ("ridge", "least_ridge", "left_out", "left_out_error", "seconds")


def kernels_part(
    work: Work, ground: SplitRows, sizes: tuple[int, ...], key: int, size: int, draw: int, below: Any = None
) -> dict[str, Any]:
    """The kernels of one size and seed as a part: the fit of every family, and its losses on the test rows."""
    rows = ground.subsets(sizes, key, draw)[size]
    near = None if below is None else fits_of(below)
    fits, losses = fit_families(ground, make_families(ground.X), rows, near, device=work.device, progress=work.progress)
    columns: dict[str, Any] = {
        name: np.array([getattr(fits[family], name) for family in FAMILIES], dtype=np.float64) for name in NUMBERS
    }
    return columns | {"member": [fits[family].member for family in FAMILIES], "losses": losses}


def fits_of(part: Mapping[str, np.ndarray]) -> dict[str, Fit]:
    """The fits that a part holds."""
    found = {}
    for i, family in enumerate(FAMILIES):
        numbers = {name: float(part[name][i]) for name in NUMBERS}
        error = None if np.isnan(numbers["left_out_error"]) else numbers["left_out_error"]
        found[family] = Fit(str(part["member"][i]), **(numbers | {"left_out_error": error}))  # pyright: ignore[reportArgumentType]
    return found


def kernel_choice(family: str, size: int, fits: Sequence[Fit], outputs: int) -> Choice:
    """What a family chose at one size over the seeds."""
    members = [fit.member for fit in fits]
    common = max(dict.fromkeys(members), key=members.count)
    ridge = float(np.exp(np.mean([np.log(fit.ridge) for fit in fits if fit.ridge > 0] or [0.0])))
    words = f"{common}, ridge {ridge:.2g}"
    if len(set(members)) > 1:
        words += f" (so for {members.count(common)} of {len(members)} seeds)"
    scores = [fit.left_out / outputs if fit.left_out_error is None else fit.left_out_error for fit in fits]
    return Choice(family, size, words, float(np.mean(scores)), sum(fit.seconds for fit in fits))
