"""Whether a computed matrix is positive semi-definite up to the rounding it states, proved by a Cholesky factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from scipy.linalg.lapack import dpotrf  # pyright: ignore[reportAttributeAccessIssue]

from overparam.core.machine import available_memory
from overparam.core.words import byte_size

if TYPE_CHECKING:
    from overparam.engines.matrix import AbstractGram


@final
@dataclass(frozen=True)
class Definiteness:
    """Whether λ_min ≥ −rounding, as it must be where the kernel is positive semi-definite and `rounding` is right.

    `holds` is True where proved up to the rounding of the proof, False where refuted, None where not checked.
    """

    holds: bool | None
    lower: float
    """A certified bound, lower ≤ λ_min of the computed matrix; −∞ where there is none."""
    shift: float
    """What was added to the diagonal: the stated rounding, and that of the factorisation."""
    reason: str


def definiteness(H: AbstractGram) -> Definiteness:
    """By a Cholesky factorisation of H + shift, which takes n³/3 operations.

    With c = 2 (n + 2) ε tr(H + shift) the rounding of the factorisation (Rump 2006) and shift = rounding + c: one that
    runs to its end proves λ_min ≥ −shift − c, and one that breaks down proves λ_min < −rounding.
    """
    n = H.n
    need, free = 16 * n * n, available_memory()
    if need > 0.9 * free:
        words = f"a factor of {n:,} rows takes {byte_size(need)} and {byte_size(free)} is free"
        return Definiteness(None, -np.inf, 0.0, words)
    epsilon = 2 * (n + 2) * float(np.finfo(float).eps)
    trace = float(np.abs(H.diagonal()).sum())
    shift = max(H.rounding + 2 * epsilon * trace, 1e-290)  # a matrix of zeros has no trace
    slack = epsilon * (trace + n * shift)
    A = np.array(H.dense().T, order="F", copy=True)  # the transpose of a symmetric matrix is itself
    A.ravel(order="K")[:: n + 1] += shift
    _, info = dpotrf(A, lower=1, clean=0, overwrite_a=1)
    if info:
        words = f"H + {shift:.1e} has no Cholesky factor: an eigenvalue lies below −{H.rounding:.1e}"
        return Definiteness(False, -np.inf, shift, words)
    return Definiteness(True, -shift - slack, shift, f"H + {shift:.1e} has a Cholesky factor")
