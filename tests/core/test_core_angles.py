"""Angles from cosines: the ratio that stands for arccos, against mpmath, and that it is taken where NumPy has no vectors."""

from __future__ import annotations

import mpmath
import numpy as np

from overparam.core import angles
from overparam.kernels import TwoLayer

U = 2.0**-53
WORST = (12 + 11 + 4) * U
"""Roundings of both polynomials, whose coefficients are positive, of their ratio, the root, what is under it, and the product."""


def test_the_ratio_is_right_to_its_roundings() -> None:
    near = 1 - np.geomspace(1e-15, 0.1, 60)
    x = np.concatenate([np.linspace(-1, 1, 401), near, -near, [np.nextafter(0, 1), -0.0]])
    found = angles.arc_cosine_by_ratio(x)
    exact = [mpmath.acos(mpmath.mpf(float(one))) for one in x]
    for one, angle, value in zip(x, exact, found, strict=True):
        # beyond a right angle the ratio is that of the angle's rest to π, and π has a rounding too
        bound = WORST * float(mpmath.acos(abs(mpmath.mpf(float(one))))) + (4 * U if one < 0 else 0.0)
        assert abs(float(value - angle)) <= bound + U * float(angle), one


def test_kernels_take_it_where_arccos_is_slow(monkeypatch) -> None:
    rows = np.random.default_rng(0).standard_normal((40, 5))
    fast = TwoLayer()(rows, rows[:7])
    taken = []
    by_ratio = angles.arc_cosine_by_ratio
    monkeypatch.setattr(angles, "_in_vectors", lambda: False)
    monkeypatch.setattr(angles, "arc_cosine_by_ratio", lambda cosine: taken.append(cosine.size) or by_ratio(cosine))
    slow = TwoLayer()(rows, rows[:7])
    assert sum(taken) == slow.size
    norms = np.linalg.norm(rows, axis=1)
    assert np.all(np.abs(slow - fast) <= 2 * TwoLayer().entry_rounding * np.outer(norms, norms[:7]))


def test_other_numbers_keep_their_own_arccos() -> None:
    assert angles.arc_cosine(np, np.float32(0.5)).dtype == np.float32
    assert isinstance(angles.arc_cosine(np, 0.5), float)
