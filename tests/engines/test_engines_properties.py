"""Properties of every Gram matrix, for whatever finite rows hypothesis finds."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from overparam.engines import gram
from overparam.kernels import TwoLayer

entries = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False, allow_subnormal=False)


@st.composite
def rows(draw: st.DrawFn) -> np.ndarray:
    """Rows of any size from 1e-50 to 1e50; zero rows get a one."""
    shape = draw(st.tuples(st.integers(1, 9), st.integers(1, 5)))
    X = draw(hnp.arrays(np.float64, shape, elements=entries))
    X[np.abs(X).max(axis=1) < 1e-3, 0] = 1.0
    scales = draw(hnp.arrays(np.float64, (shape[0], 1), elements=st.integers(-40, 40).map(float)))
    return X * 10**scales


@given(rows(), st.sampled_from(["ntk", "nngp"]))
@settings(max_examples=120, deadline=None)
def test_symmetric_and_positive_semi_definite_within_the_stated_rounding(X: np.ndarray, get: str) -> None:
    H = gram(TwoLayer(), X, engine="dense", device="cpu", get=get)
    values = H.dense()
    np.testing.assert_array_equal(values, values.T)
    scaled = values / np.sqrt(np.outer(values.diagonal(), values.diagonal()))  # of norm-free size, and PSD too
    assert np.linalg.eigvalsh(scaled)[0] >= -2e-14 * len(X)
    assert np.linalg.eigvalsh(values)[0] >= -H.rounding - 1e-15 * len(X) * np.abs(values).max()
    assert np.all(np.abs(scaled) <= 1 + 1e-14)


@given(rows(), st.floats(1e-3, 1e3))
@settings(max_examples=100, deadline=None)
def test_scaling_the_rows_scales_the_matrix_by_the_square(X: np.ndarray, c: float) -> None:
    for get in ("ntk", "nngp"):
        H = gram(TwoLayer(), X, engine="dense", device="cpu", get=get).dense()
        scaled = gram(TwoLayer(), c * X, engine="dense", device="cpu", get=get).dense()
        norms = np.linalg.norm(X, axis=1)
        assert np.all(np.abs(scaled - c**2 * H) <= 2.5e-14 * c**2 * np.outer(norms, norms))


@given(rows(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_engines_multiply_alike(X: np.ndarray, seed: int) -> None:
    V = np.random.default_rng(seed).standard_normal((len(X), 3))
    dense = gram(TwoLayer(), X, engine="dense", device="cpu") @ V
    free = gram(TwoLayer(), X, engine="matrix_free", device="cpu") @ V
    norms = np.linalg.norm(X, axis=1)
    assert np.all(np.abs(dense - free) <= 4e-14 * np.outer(norms, norms) @ np.abs(V))
