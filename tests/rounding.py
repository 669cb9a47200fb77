"""Tolerances from stated errors: what rounding may change in a result, by the operations it took.

k operations are off by at most γ_k = k u/(1 − k u), u half a unit in the last place, relative to the sum of the sizes of what
is added, in whatever order a processor adds and whether it fuses products or not (Higham, Accuracy and Stability of Numerical
Algorithms, ch. 3). So these tolerances hold on every processor, which one found by trial need not
(`python -m tests.processors`). Where terms cancel, the sum of their sizes over the result is a factor in front.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FUNCTION = 8
"""Operations that a sine, an exponential, an arc tangent, … counts for: libraries state at most 4 units in the last place."""


def rounding(operations: int, functions: int = 0, kind: Any = np.float64) -> float:
    """γ_k of operations and elementary functions one after the other.

    >>> round(rounding(4) / np.finfo(float).eps, 6)
    2.0
    """
    share = (operations + FUNCTION * functions) * float(np.finfo(kind).eps) / 2
    return share / (1 - share)
