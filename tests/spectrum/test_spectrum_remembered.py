"""Work on a remembered matrix goes on after ctrl-C without making a product twice."""

from pathlib import Path

import numpy as np
import pytest

import overparam as op
from overparam.engines.matrix_free import MatrixFreeGram
from overparam.frame.keeping import PARTS

X = np.random.default_rng(0).standard_normal((450, 6))
Y = np.sign(X[:, 0])
JOBS = {
    "eigenpairs": lambda H: op.eigenpairs(H, 3).values,
    "power_iteration": lambda H: np.array([op.power_iteration(H, steps=25, tol=1e-15)[0]]),
    "predict": lambda H: op.predict(H, Y, np.eye(450)[:2], steps=50, lr=1e-3).values,
    "quadrature": lambda H: op.quadrature(H, Y, max_products=20, bounds=None).nodes,
}


@pytest.mark.parametrize("job", JOBS)
def test_no_product_is_made_twice(job: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = 0
    stop_at: int | None = 9
    honest = MatrixFreeGram.product

    def counted(self, V, progress=None):
        nonlocal made
        if stop_at is not None and made == stop_at:
            raise KeyboardInterrupt
        made += 1
        return honest(self, V, progress)

    fresh = lambda: op.gram(op.kernels.TwoLayer(), X, engine="matrix_free", device="cpu")  # noqa: E731
    plain = JOBS[job](fresh())
    monkeypatch.setattr(MatrixFreeGram, "product", counted)
    with pytest.raises(KeyboardInterrupt):
        JOBS[job](op.remember(fresh(), tmp_path))
    assert made == 9
    stop_at = None
    found = JOBS[job](op.remember(fresh(), tmp_path))
    after = made
    np.testing.assert_allclose(found, plain, rtol=1e-12)
    JOBS[job](op.remember(fresh(), tmp_path))
    assert made - after <= 1  # all are read; ‖H‖_F² alone may take a pass of its own


@pytest.mark.parametrize("swapped", [True, False])
def test_a_damaged_product_is_made_again(swapped: bool, tmp_path: Path) -> None:
    H = op.remember(op.gram(op.kernels.TwoLayer(), X[:20]), tmp_path)
    first = H @ np.ones(20)
    (kept,) = (tmp_path / PARTS).iterdir()
    content = bytearray(kept.read_bytes())
    place = next(i for i in range(300, len(content)) if content[i] != content[i + 1])
    content[place], content[place + 1] = content[place + 1], content[place]
    kept.write_bytes(content if swapped else b"broken")
    np.testing.assert_array_equal(H @ np.ones(20), first)


def test_another_matrix_does_not_read_it(tmp_path: Path) -> None:
    one = op.remember(op.gram(op.kernels.TwoLayer(), X[:20]), tmp_path) @ np.ones(20)
    other = op.remember(op.gram(op.kernels.TwoLayer(), X[20:40]), tmp_path) @ np.ones(20)
    assert np.abs(one - other).max() > 1e-3
