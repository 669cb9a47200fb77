"""Products as the operators that scipy's Krylov routines take."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import LinearOperator


def operator(n: int, product: Callable[[np.ndarray], np.ndarray]) -> LinearOperator:
    """The n × n operator v ↦ product(v)."""
    return LinearOperator((n, n), matvec=product, dtype=np.float64)  # pyright: ignore[reportCallIssue]
