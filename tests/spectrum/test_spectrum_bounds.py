"""Bounds of the spectrum against numpy's eigenvalues: never on the wrong side, and tight where that is claimed."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from sklearn.datasets import load_digits

from overparam.engines import as_gram, gram
from overparam.kernels import TwoLayer
from overparam.spectrum import EigenvalueBounds, Inverse, eigenvalue_bounds, quadrature
from overparam.spectrum.bounds import MISSED, _christoffel, cholesky_bound, random_bound
from overparam.spectrum.lanczos import Lanczos
from overparam.spectrum.separation import separation_bound
from overparam.theory import max_learning_rate, predict_loss


def digits(n: int = 600) -> np.ndarray:
    X = load_digits().data[:n]
    return X / np.linalg.norm(X, axis=1)[:, None]


def random_rows(rng: np.random.Generator) -> np.ndarray:
    """Spheres, tables with a constant, sparse counts, clusters, norms of many sizes."""
    n, d = int(rng.integers(2, 70)), int(rng.choice([2, 3, 5, 20, 80]))
    kind = rng.integers(5)
    if kind == 0:
        X = rng.standard_normal((n, d))
    elif kind == 1:
        X = np.column_stack([rng.standard_normal((n, d)) / np.sqrt(d), np.ones(n)])
    elif kind == 2:
        X = rng.poisson(0.7, (n, d)) + 0.0
        X[X.sum(axis=1) == 0, 0] = 1.0
    elif kind == 3:
        X = rng.standard_normal((3, d))[rng.integers(3, size=n)] + 10 ** rng.uniform(-6, 0) * rng.standard_normal(
            (n, d)
        )
    else:
        X = rng.standard_normal((n, d)) * 10 ** rng.uniform(-4, 4, (n, 1))
    return X


def test_separation_on_digits_is_positive_and_half_of_the_truth() -> None:
    H = gram(TwoLayer(), digits(), engine="dense", device="cpu")
    true = float(np.linalg.eigvalsh(H.dense())[0])
    found = separation_bound(H)
    assert 0.5 * true <= found.lower <= true  # SCIENCE 1.1 has .56 of the truth on digits
    U = digits()
    rho = np.abs(np.tril(U @ U.T, -1))
    assert found.closest is not None
    assert rho[found.closest[::-1]] == pytest.approx(rho.max(), abs=1e-14)
    assert abs(found.closest_cosine) == pytest.approx(rho.max(), abs=1e-14)


@pytest.mark.data
def test_separation_on_image_pairs(real_data: object) -> None:
    import overparam as op

    for name, least in (("mnist", 0.4), ("fashion-mnist", 0.4), ("cifar10", 0.4)):
        try:
            X = op.load(name, classes=[0, 1], train=500, test=10).X
        except (TypeError, ValueError, FileNotFoundError) as error:
            pytest.skip(f"{name}: {error}")
        X = X / np.linalg.norm(X, axis=1)[:, None]
        H = gram(TwoLayer(), X, engine="dense", device="cpu")
        eigenvalues = np.linalg.eigvalsh(H.dense())
        bounds = eigenvalue_bounds(H, "separation")
        assert least * eigenvalues[0] <= bounds.lower <= eigenvalues[0], name
        assert eigenvalues[-1] <= bounds.upper <= 1.01 * eigenvalues[-1], name


def test_random_spheres_are_bounded_away_from_zero() -> None:
    rng = np.random.default_rng(0)
    for n, d in ((50, 10), (100, 30), (200, 60), (300, 784)):
        H = gram(TwoLayer(), rng.standard_normal((n, d)), engine="dense", device="cpu")
        true = float(np.linalg.eigvalsh(H.dense())[0])
        assert 0 < separation_bound(H).lower <= true
    # rows are almost orthogonal, λ_min is near ½‖x‖²; the bound keeps the even terms from ρ⁴ on, at most .18 of it
    assert separation_bound(H).lower > 0.25 * true


@pytest.mark.parametrize("cases", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_random_cases_are_on_the_right_side(cases: int) -> None:
    rng = np.random.default_rng(1)
    ratios = []
    for case in range(cases):
        X = random_rows(rng)
        get = "ntk" if case % 4 else "nngp"
        H = gram(TwoLayer(), X, engine="dense" if case % 2 else "matrix_free", device="cpu", get=get)
        values = H.dense()
        eigenvalues = np.linalg.eigvalsh(values)
        slack = H.rounding + 4e-16 * len(X) * eigenvalues[-1]
        bounds = eigenvalue_bounds(H, "separation")
        assert 0 <= bounds.lower <= eigenvalues[0] + slack, (case, X.shape)
        assert bounds.upper >= eigenvalues[-1] * (1 - 4e-16 * len(X)), (case, X.shape)
        proved = eigenvalue_bounds(H, "cholesky")
        assert 0 <= proved.lower <= eigenvalues[0] + slack, (case, X.shape)
        if bounds.lower > 0:
            ratios.append(bounds.lower / eigenvalues[0])
    assert len(ratios) > cases // 5  # the bound says something often enough to have been tested
    assert max(ratios) > 0.2


def test_separation_on_the_jax_device_is_that_of_the_cpu() -> None:
    X = digits(300)
    cpu = separation_bound(gram(TwoLayer(), X, engine="dense", device="cpu"))
    for engine in ("dense", "matrix_free"):
        jax = separation_bound(gram(TwoLayer(), X, engine=engine, device="jax"))
        assert jax.lower == pytest.approx(cpu.lower, rel=1e-9)
        assert jax.closest == cpu.closest


def test_two_rows_in_forty_digits() -> None:
    """n = 2: λ_min = ‖x‖‖z‖-free closed form ½ − |k(θ)|, so the bound is checked against arithmetic alone."""
    for theta in (0.3, 1.0, np.pi / 2, 2.5):
        X = np.array([[1.0, 0.0], [np.cos(theta), np.sin(theta)]])
        with mpmath.workdps(40):
            t = mpmath.mpf(float(theta))
            true = mpmath.mpf(1) / 2 - abs(mpmath.cos(t) * (mpmath.pi - t) / (2 * mpmath.pi))
        H = gram(TwoLayer(), X, device="cpu")
        assert 0 < separation_bound(H).lower <= true
        proved = cholesky_bound(H)
        assert 0.95 * float(true) <= proved <= true


@pytest.mark.parametrize("change", ["repeated", "scaled", "opposite"])
def test_parallel_rows_give_no_positive_bound(change: str) -> None:
    X = digits(60).copy()
    X[40] = {"repeated": X[11], "scaled": X[11], "opposite": -X[11]}[change]
    if change == "scaled":
        X[40] *= 3.0
    for device in ("cpu", "jax"):
        H = gram(TwoLayer(), X, engine="dense", device=device)
        found = separation_bound(H)
        assert found.lower == 0
        assert found.closest == (11, 40)
        assert found.closest_cosine == pytest.approx(-1.0 if change == "opposite" else 1.0, abs=1e-14)
    true = float(np.linalg.eigvalsh(H.dense())[0])
    H = gram(TwoLayer(), X, engine="dense", device="cpu")
    bounds = eigenvalue_bounds(H)  # auto falls back to Cholesky
    assert "Cholesky" in bounds.lower_method
    if change == "opposite":  # the odd term ρ/4 keeps opposite rows apart: H is not singular
        assert 0.9 * true <= bounds.lower <= true
    else:
        assert bounds.lower == 0


def test_orthogonal_rows_and_one_row() -> None:
    for device in ("cpu", "jax"):
        bounds = eigenvalue_bounds(gram(TwoLayer(), np.eye(6), device=device), "separation")
        assert 0 < bounds.lower <= 0.5
        assert bounds.upper >= 0.5
        bounds = eigenvalue_bounds(gram(TwoLayer(), [[3.0, 4.0]], device=device))
        assert bounds.lower <= 12.5 <= bounds.upper
        assert bounds.lower == pytest.approx(12.5, rel=1e-9)


def test_cholesky_is_within_five_percent() -> None:
    rng = np.random.default_rng(3)
    for X in (digits(400), rng.standard_normal((150, 6)), rng.standard_normal((1, 3)), rng.standard_normal((2, 3))):
        H = gram(TwoLayer(), X, engine="dense", device="cpu")
        true = float(np.linalg.eigvalsh(H.dense())[0])
        assert 0.95 * true <= cholesky_bound(H) <= true
    for lam in (np.ones(30), np.geomspace(1e-9, 1, 40), np.r_[np.full(20, 1e-6), 1.0]):
        Q = np.linalg.qr(rng.standard_normal((len(lam), len(lam))))[0]
        A = (Q * lam) @ Q.T
        A = (A + A.T) / 2
        bounds = eigenvalue_bounds(A, "cholesky")
        smallest = float(np.linalg.eigvalsh(A)[0])
        assert bounds.lower <= smallest + 1e-15
        assert bounds.lower >= 0.95 * smallest - 1e-13


def test_upper_bound_holds_and_is_within_a_percent_on_images() -> None:
    X = digits(300)
    for rows, most in ((X, 1.01), (5 * X, 1.01), (X - X.mean(axis=0), 1.35)):
        H = gram(TwoLayer(), rows, engine="dense", device="cpu")
        true = float(np.linalg.eigvalsh(H.dense())[-1])
        for method in ("auto", "none"):
            assert true <= eigenvalue_bounds(H, method).upper
        assert eigenvalue_bounds(H).upper <= most * true
        assert eigenvalue_bounds(gram(TwoLayer(), rows, engine="matrix_free", device="cpu")).upper >= true


def test_upper_bound_of_flat_spectra_and_of_given_ritz_values() -> None:
    rng = np.random.default_rng(4)
    for _ in range(40):
        n = int(rng.integers(1, 50))
        Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        lam = np.abs(rng.standard_normal(n)) if rng.random() < 0.5 else 1 + 1e-3 * rng.random(n)
        A = (Q * lam) @ Q.T
        A = (A + A.T) / 2
        true = float(np.linalg.eigvalsh(A)[-1])
        assert eigenvalue_bounds(A).upper >= true * (1 - 1e-14)
        assert eigenvalue_bounds(A, ritz=np.zeros(1)).upper >= true * (1 - 1e-14)
        assert eigenvalue_bounds(A).upper <= 1.35 * true  # Cholesky proves it where Frobenius is loose


def test_random_vectors_bound_flat_spectra_with_a_probability() -> None:
    """Tighter than norms, above λ_max in every draw."""
    rng = np.random.default_rng(5)
    for draw in range(30):
        n = int(rng.integers(60, 120))
        lam = rng.random(n) if draw % 2 else np.r_[np.ones(n - 1), 1.0 + 1e-3 * draw]
        Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        A = (Q * lam) @ Q.T
        H, true = (A + A.T) / 2, float(lam.max())
        found = eigenvalue_bounds(H, "none", upper="random", key=draw)
        assert found.probability == 1 - MISSED
        assert true <= found.upper <= 1.25 * true < eigenvalue_bounds(H, "none").upper
    assert eigenvalue_bounds(np.eye(1)).upper == pytest.approx(1.0)
    for exact in (np.eye(9), np.ones((9, 9)), np.zeros((3, 3))):
        top = float(np.linalg.eigvalsh(exact)[-1])
        assert top <= random_bound(as_gram(exact)) <= 1.01 * top + 1e-12


def test_christoffel_s_sum_is_that_of_the_orthonormal_polynomials() -> None:
    """Against the whole spectrum: 1/Σ p_j(x)² is the least Σ μ_i p(λ_i)² of polynomials with p(x) = 1, a least-squares problem."""
    rng = np.random.default_rng(6)
    lam, v = np.sort(rng.random(12)), rng.standard_normal(12)
    v /= np.linalg.norm(v)
    sweep = Lanczos(as_gram(np.diag(lam)), v[:, None])
    for _ in range(5):
        sweep.step()
    for reach in (1e2, 1e5, 1e9):
        x, top = _christoffel(sweep.alphas[0], sweep.betas[0], reach)
        P = np.polynomial.chebyshev.chebvander(2 * lam - 1, 5)
        at = np.polynomial.chebyshev.chebvander(2 * np.array([x]) - 1, 5)[0]
        G = P.T @ (v[:, None] ** 2 * P)
        assert at @ np.linalg.solve(G, at) == pytest.approx(reach, rel=1e-5)
        assert x > top


@pytest.mark.parametrize("device", ["cpu", "jax"])
def test_a_factor_bounds_flat_spectra_where_the_matrix_is_stored(device: str) -> None:
    X = np.random.default_rng(7).standard_normal((70, 60))
    H = gram(TwoLayer(), X - X.mean(axis=0), engine="dense", device=device)
    flat = as_gram(H.dense() - 0.98 * H.dense().mean()) if device == "cpu" else H
    true = float(np.linalg.eigvalsh(flat.dense())[-1])
    found = eigenvalue_bounds(flat, "none", upper="cholesky")
    assert (found.upper_method, found.probability) == ("Cholesky of b I − H", None)
    assert true <= found.upper <= 1.07 * true


def test_brackets_say_with_which_probability_they_hold() -> None:
    H = gram(TwoLayer(), np.random.default_rng(8).standard_normal((50, 40)), engine="dense", device="cpu")
    bounds = eigenvalue_bounds(H, upper="random")
    q = quadrature(
        H, np.ones(50), bounds=replace(bounds, upper=min(bounds.upper, np.linalg.eigvalsh(H.dense())[-1] * 1.0001))
    )
    found = q.bracket(Inverse())
    assert (found.sense, found.probability, found.certified) == ("with probability p", 1 - MISSED, True)
    assert found.assumptions[0].detail.startswith("statistical")
    assert predict_loss(q, 3, 0.01).bracketed.probability == max_learning_rate(q).probability == 1 - MISSED


def test_methods_are_named_and_checked() -> None:
    A = np.diag([1.0, 2.0])
    assert isinstance(eigenvalue_bounds(A), EigenvalueBounds)
    assert eigenvalue_bounds(A, "none").lower == 0
    with pytest.raises(ValueError, match="expected 'auto', 'separation', 'cholesky' or 'none'"):
        eigenvalue_bounds(A, "guess")
    with pytest.raises(ValueError, match="needs the rows"):
        eigenvalue_bounds(A, "separation")
