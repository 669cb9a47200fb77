"""Singular values and vectors of a matrix, also where LAPACK's quick way to them gives up."""

from __future__ import annotations

import numpy as np
import scipy.linalg


def thin_svd(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U, s, Vᵀ with s falling and as many of each as the shorter side.

    By divide and conquer, which does not converge on a few matrices of low rank whose smallest singular values are far
    below rounding; there by the slower QR steps, which do.

    >>> thin_svd(np.diag([3.0, 4.0]))[1].tolist()
    [4.0, 3.0]
    """
    try:
        return np.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError:
        return scipy.linalg.svd(matrix, full_matrices=False, lapack_driver="gesvd")
