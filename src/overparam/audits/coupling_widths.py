"""How the laws of one architecture scale with its size: exponents in the radius and in the width, over networks of many sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from overparam.audits.fits import fit_powers, mean_exponent
from overparam.audits.ground import checked_effort, make_ground
from overparam.audits.law import Finding, Law
from overparam.audits.setting import Setting
from overparam.core.progress import Progress, silent


@final
@dataclass(frozen=True, eq=False)
class SizeExponents:
    """One law's values ≈ c · ω^p · size^q, fitted for each start and averaged; errors are over starts, None for one.

    omega, size: p and q with their standard errors. stated: the law's own exponents. constant: the largest of value over
    bound at any size. sizes, constants: that by size, the largest over starts.
    """

    law: Law
    moment: str
    omega: float | None
    omega_error: float | None
    size: float | None
    size_error: float | None
    constant: float
    sizes: np.ndarray
    constants: np.ndarray

    @property
    def stated(self) -> dict[str, float]:
        """The law's exponents in ω and m, where it has them."""
        return {name: self.law.exponents[name] for name in ("omega", "m") if name in self.law.exponents}


def exponents_in_size(
    network: Any,
    data: Any,
    measure: Callable[[Setting], list[Finding]],
    sizes: Sequence[int],
    *,
    vary: str = "width",
    keys: Sequence[int] = (0, 1, 2),
    omegas: Sequence[float] = (0.01, 0.03, 0.1, 0.3, 1.0),
    effort: str = "quick",
    progress: Progress = silent,
) -> list[SizeExponents]:
    """Every law of a measurement on networks of several sizes and starts, with fitted exponents in ω and in the size.

    Args:
        network: of the house; its attribute `vary` takes the sizes.
        data: a `Dataset` or (X, y), or a function of the size that gives one, where the samples have to fit.
        measure: such as `coupling_of_two_layers`.
        sizes: at least two.
        vary: "width", or "positions" of a convolutional network.
        keys: of the starts, one network each.
        omegas: radii, for measurements that take them from the setting.
        effort: "quick", "usual" or "thorough".

    Several radii or one, a fit in the size is made; where radii depend on the size, both exponents are still told apart,
    as long as they are not in one proportion.
    """
    counts = sorted({int(size) for size in sizes})
    if len(counts) < 2 or counts[0] < 1:
        raise ValueError(f"`sizes` is {list(sizes)!r}; expected at least two whole numbers, such as [128, 256, 512]")
    if not hasattr(network, vary):
        raise ValueError(f"`vary` is {vary!r}, which {type(network).__name__} does not have; try 'width'")
    if not keys:
        raise ValueError("`keys` is empty; expected one seed or more, such as [0, 1, 2]")
    spent, total = checked_effort(effort), len(counts) * len(keys)
    seen: dict[tuple[str, str], list[list[tuple[int, Finding]]]] = {}
    for place, key in enumerate(keys):
        for step, size in enumerate(counts):
            progress(place * len(counts) + step, total, f"{vary} {size}, start {key}")
            rows = data(size) if callable(data) else data
            ground = make_ground(replace(network, **{vary: size}), rows, key=int(key))
            for finding in measure(ground.setting(tuple(omegas), spent, silent)):
                by_key = seen.setdefault((finding.law.name, finding.moment), [[] for _ in keys])
                by_key[place].append((size, finding))
    progress(total, total, "done")
    return [_fitted(by_key, counts) for by_key in seen.values()]


def _fitted(by_key: list[list[tuple[int, Finding]]], counts: list[int]) -> SizeExponents:
    first = by_key[0][0][1]
    fits = [_one_start(found) for found in by_key]
    # "trajectory" has steps in place of radii, whose exponent is no law's.
    omega, omega_error = mean_exponent(np.array([p if first.moment != "trajectory" else np.nan for p, _ in fits]))
    size, size_error = mean_exponent(np.array([q for _, q in fits]))
    pick = min if first.law.side == "lower" else max
    constants = np.array(
        [pick(f.constant for found in by_key for at, f in found if at == count and f.verdict != "not measured")
         if any(at == count and f.verdict != "not measured" for found in by_key for at, f in found) else np.nan
         for count in counts]
    )  # fmt: skip
    usable = constants[np.isfinite(constants)]
    overall = float(usable.min() if first.law.side == "lower" else usable.max()) if len(usable) else float("nan")
    return SizeExponents(
        first.law, first.moment, omega, omega_error, size, size_error, overall, np.array(counts), constants
    )


def _one_start(found: list[tuple[int, Finding]]) -> tuple[float, float]:
    """Exponents in ω and in the size of one start; NaN where the points do not determine them."""
    omegas = np.concatenate([f.omegas for _, f in found])
    values = np.concatenate([f.values for _, f in found])
    sizes = np.concatenate([np.full(len(f.omegas), float(size)) for size, f in found])
    both = fit_powers({"omega": omegas, "size": sizes}, values) if (omegas > 0).all() and len(set(omegas)) > 1 else None
    if both is not None:
        return both.exponents["omega"], both.exponents["size"]
    alone = fit_powers({"size": sizes}, values)
    return float("nan"), float("nan") if alone is None else alone.exponents["size"]
