"""The decomposition gives back the matrix, also where LAPACK's divide and conquer does not converge."""

import numpy as np
import pytest

from overparam.core.svd import thin_svd


@pytest.mark.parametrize("gives_up", [False, True])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
def test_the_matrix_comes_back(shape: tuple[int, int], gives_up: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.random.default_rng(0).standard_normal(shape)
    if gives_up:

        def never(*_: object, **__: object) -> None:
            raise np.linalg.LinAlgError("SVD did not converge")

        monkeypatch.setattr(np.linalg, "svd", never)
    U, s, Vt = thin_svd(matrix)
    assert (U.shape, s.shape, Vt.shape) == ((shape[0], 3), (3,), (3, shape[1]))
    np.testing.assert_allclose(U * s @ Vt, matrix, atol=1e-12)
    np.testing.assert_allclose(U.T @ U, np.eye(3), atol=1e-12)
    assert (np.diff(s) <= 0).all()
