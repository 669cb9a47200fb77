"""The words at the ticks of an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

from overparam.core.words import number, power_of_ten

LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "−0123456789")


def tick_words(values: Sequence[float], log: bool) -> list[tuple[float, str]]:
    """Ticks with their words; a log axis that needs a power of ten writes all of them so.

    >>> [words for _, words in tick_words([1e-4, 1e-2, 1.0], log=True)]
    ['10⁻⁴', '10⁻²', '1']
    """
    powers = [round(math.log10(value)) if log and value > 0 else 0 for value in values]
    exact = all(math.isclose(value, 10.0**power, rel_tol=1e-9) for value, power in zip(values, powers, strict=True))
    if log and exact and any(not -3 < power < 5 for power in powers):
        words = ["1" if p == 0 else "10" if p == 1 else power_of_ten(p) for p in powers]
    else:
        words = [number(value) for value in values]
    return list(zip(values, words, strict=True))
