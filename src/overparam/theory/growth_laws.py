"""A power law plus a floor through errors at several sizes: all such laws that they allow, and where these go with more rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, final

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from overparam.core import checks
from overparam.core.bracketed import Interval
from overparam.data import generator

GrowthVerdict = Literal["helps", "hardly helps", "cannot tell"]

POWERS = np.geomspace(0.05, 2.0, 33)
"""Powers tried."""
MIDDLE_POWER, SPREAD = 0.6, 0.7
"""How likely each is before anything is measured: normal in log(power), with this middle and standard deviation."""
FLOORS = np.linspace(0.0, 1.0, 31)
"""Floors tried, over the error at the last size."""
LOW_FLOORS = 2.0
"""How likely each is before anything is measured: e^(−2 floor)."""
LEVELS = np.linspace(-4.0, 4.0, 41)
"""Errors tried at the last size, in standard errors from the one measured; all alike."""
DEPARTS = 0.05
"""Standard deviation of an error from the best such law, over itself, for every halving or doubling from the last size."""
LAWS = 4_000
"""Drawn from those tried, in proportion to how likely they are."""
LEVEL = 0.95
HELPS, HARDLY, SURE = 0.95, 0.875, 0.9
"""Twice the rows help where the error falls below 0.95 of itself, and hardly help where it stays above 0.875, with this probability."""


@final
@dataclass(frozen=True, eq=False)
class GrowthLaw:
    """e(m) = a + b m^(−c): 4,000 laws, one as likely as the other given the errors measured.

    >>> law = growth_law([250, 500, 1000], [0.4, 0.3, 0.225], 1e-6 * np.eye(3), departs=0.0)
    >>> round(law.at(2_000).value, 2), law.verdict
    (0.17, 'helps')
    """

    size: float
    """n, the last size."""
    floor: np.ndarray
    """(4000,) a."""
    gain: np.ndarray
    """(4000,) b n^(−c), what is above the floor at n."""
    power: np.ndarray
    """(4000,) c."""
    departs: float
    """Standard deviation from any law, over the error, for every doubling from n."""

    def at(self, sizes: Any, level: float = LEVEL) -> Interval:
        """The error with so many rows, one size or several: the middle one of the laws, and the interval that holds the rest."""
        given = np.asarray(checks.as_numbers(sizes, "sizes"), dtype=np.float64)
        if not np.all((given > 0) & np.isfinite(given)):
            raise ValueError(f"`sizes` is {sizes!r}; expected numbers of rows above 0")
        times = given[..., None] / self.size
        return self._among(self.floor + self.gain * times**-self.power, times, level)

    def ratio(self, times: float, level: float = LEVEL) -> Interval:
        """The error with `times` as many rows over that with n: surer than either."""
        checks.positive(times, "times")
        share = self.floor / (self.floor + self.gain)
        return self._among(share + (1 - share) * times**-self.power, np.asarray([times]), level)

    @property
    def verdict(self) -> GrowthVerdict:
        """Whether twice the rows help.

        "helps": at least a twentieth of the error goes, with a probability of 90%; "hardly helps": less than an eighth of
        it goes, with a probability of 90%; "cannot tell" where neither is so.
        """
        twice = self.ratio(2, 2 * SURE - 1)
        if twice.upper < HELPS:
            return "helps"
        return "hardly helps" if twice.lower > HARDLY else "cannot tell"

    def _among(self, errors: np.ndarray, times: np.ndarray, level: float) -> Interval:
        """The median and the interval over the last axis, departures from the law among them."""
        tail = (1 - checks.share(level, "level")) / 2
        errors = errors * np.exp(self.departs * np.abs(np.log2(times)) * self._noise)
        lower, value, upper = (
            side if side.ndim else float(side) for side in np.quantile(errors, [tail, 0.5, 1 - tail], axis=-1)
        )
        return Interval(value, lower, upper, level)

    @cached_property
    def _noise(self) -> np.ndarray:
        """Standard normal quantiles, one a law, in an order that knows nothing of the laws."""
        count = len(self.floor)
        return generator(0, 43).permutation(ndtri((np.arange(count) + 0.5) / count))


def growth_law(sizes: Any, errors: Any, covariance: Any, *, departs: float = DEPARTS) -> GrowthLaw:
    """The laws a + b m^(−c), 0.05 ≤ c ≤ 2, 0 ≤ a ≤ e(n), that errors at several sizes allow.

    Each of some 40,000 laws is as likely as a normal error with the covariance given would have it, times what was likely
    before: powers around 0.6, low floors rather than high ones. No law is exact: to the covariance is added that an error
    departs from the best law by 5% of itself for every halving from the last size, so that small parts, where the law
    begins late, count less. These three numbers were chosen on 29 tables and pairs of image classes, and tried on others.

    Args:
        sizes: (J,) rows, rising, two sizes or more.
        errors: (J,) ≥ 0.
        covariance: (J, J) of the errors.
        departs: see above.

    >>> growth_law([100, 200, 400], [0.2, 0.2, 0.2], 1e-5 * np.eye(3)).verdict
    'hardly helps'
    """
    m = checks.targets(sizes, np.size(sizes), "sizes")
    e = checks.targets(errors, len(m), "errors")
    if m.ndim != 1 or len(m) < 2 or m[0] <= 0 or np.any(np.diff(m) <= 0):
        raise ValueError(f"`sizes` is {sizes!r}; expected two or more rising numbers of rows")
    if e.ndim != 1 or e.min() < 0:
        raise ValueError(f"`errors` is {errors!r}; expected one number ≥ 0 a size")
    own = checks.finite_matrix(covariance, "covariance")
    if own.shape != (len(m), len(m)):
        raise ValueError(f"`covariance` has shape {own.shape}; expected ({len(m)}, {len(m)}), that of the errors")
    departs = checks.positive(departs, "departs", zero=True)
    n, last = m[-1], e[-1]
    # A millionth of the error keeps a covariance of rank less than J, or of no errors at all, invertible.
    tiny = max(1e-12 * float(e.max()) ** 2, 1e-300)
    own = own + np.diag((departs * np.log2(n / m) * e) ** 2 + tiny)
    spread = np.sqrt(own[-1, -1])
    levels = np.maximum(last + spread * LEVELS, 1e-3 * spread)
    level, share, power = (grid.ravel() for grid in np.meshgrid(levels, FLOORS, POWERS, indexing="ij"))
    curves = level * (share + (1 - share) * (m[:, None] / n) ** -power)
    off = solve_triangular(np.linalg.cholesky(own), curves - e[:, None], lower=True)
    likely = -0.5 * np.sum(off**2, axis=0) - 0.5 * (np.log(power / MIDDLE_POWER) / SPREAD) ** 2 - LOW_FLOORS * share
    steps = np.cumsum(np.exp(likely - likely.max()))
    drawn = np.searchsorted(steps, steps[-1] * (np.arange(LAWS) + 0.5) / LAWS)
    floor, gain = level * share, level * (1 - share)
    return GrowthLaw(float(n), floor[drawn], gain[drawn], power[drawn], departs)
