"""`quadrature`: when it stops, what it says, and what it makes of odd input."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overparam.engines import as_gram, gram
from overparam.kernels import TwoLayer
from overparam.spectrum import EigenvalueBounds, Inverse, Loss, quadrature
from overparam.spectrum.sweep import FALLBACK_RIDGE

ENGINES = [("dense", "cpu"), ("half", "cpu"), ("matrix_free", "cpu"), ("dense", "jax"), ("matrix_free", "jax")]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((160, 12))
Y = np.eye(3)[RNG.integers(3, size=160)] - 1 / 3


@pytest.fixture(scope="module")
def H():
    return gram(TwoLayer(), X, engine="dense", device="cpu")


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6, 1e-8])
def test_width_asked_for_is_reached(H, tol: float) -> None:
    q = quadrature(H, Y, tol=tol)
    assert q.converged
    assert not q.notes
    each = q.bracket(Inverse()).per_output
    assert np.all(each.certified)
    assert np.all(each.upper - each.lower <= tol * each.lower)
    true = np.einsum("ij,ij->j", Y, np.linalg.solve(H.dense(), Y))
    assert np.all((each.lower <= true * (1 + 1e-12)) & (true * (1 - 1e-12) <= each.upper))


def test_fewer_products_for_less(H) -> None:
    products = [quadrature(H, Y, tol=tol).products for tol in (1e-1, 1e-3, 1e-6)]
    assert products == sorted(products)
    assert products[0] < products[2] < 160
    assert quadrature(H, Y, tol=1e-6, ridge=1.0).products < products[2]


@pytest.mark.parametrize(("engine", "device"), ENGINES)
def test_engines_give_the_same_numbers(H, engine: str, device: str) -> None:
    q = quadrature(gram(TwoLayer(), X, engine=engine, device=device), Y, max_products=20, tol=1e-9)
    cpu = quadrature(H, Y, max_products=20, tol=1e-9, bounds="separation")
    np.testing.assert_allclose(q.alphas, cpu.alphas, rtol=1e-9)
    np.testing.assert_allclose(q.nodes, cpu.nodes, rtol=1e-9)
    np.testing.assert_allclose(q.bracket(Loss([0, 5, 100], 0.01)).value, cpu.bracket(Loss([0, 5, 100], 0.01)).value)


def test_max_products_is_kept_and_said(H) -> None:
    q = quadrature(H, Y, max_products=7)
    assert q.products == 7
    assert not q.converged
    assert "stopped at 7 products before the width 1e-06" in q.notes[0]
    assert q.alphas.shape == (3, 7)


def test_width_below_rounding_is_said(H) -> None:
    q = quadrature(H, Y, tol=1e-14)
    each = q.bracket(Inverse()).per_output
    width = float(((each.upper - each.lower) / each.lower).max())
    assert width > 1e-14  # float64 has no such bracket of this matrix
    assert any(f"relative width {width:.1g}" in note for note in q.notes)


def test_ridge_decides_when_to_stop(H) -> None:
    q = quadrature(H, Y, tol=1e-7, ridge=0.5)
    found = q.bracket(Inverse(0.5))
    true = np.sum(Y * np.linalg.solve(H.dense() + 0.5 * np.eye(160), Y))
    assert found.lower <= true <= found.upper
    assert found.width <= 1e-7 * true


def test_no_bounds_means_not_certified(H) -> None:
    q = quadrature(H, Y[:, 0], bounds=None)
    found = q.bracket(Inverse())
    assert not found.certified
    assert found.upper == np.inf
    assert "no positive lower bound on λ_min" in found.reason
    assert found.value == pytest.approx(Y[:, 0] @ np.linalg.solve(H.dense(), Y[:, 0]), rel=1e-5)
    assert q.bounds.lower == 0
    assert any("estimate had stopped moving" in note for note in q.notes)
    ridged = q.bracket(Inverse([0.0, 1.0]))
    assert ridged.certified.tolist() == [False, True]  # a ridge needs no bound on λ_min
    loss = q.bracket(Loss([0, 3, 500], 1 / q.bounds.upper))
    assert loss.certified.all()


def test_repeated_rows_stop_on_the_ridged_bracket_and_say_so() -> None:
    """Two equal rows with different labels: yᵀH⁻¹y is infinite, and no finite number may be certified for it."""
    rows = np.vstack([X[:80], X[:3]])
    y = np.sign(RNG.standard_normal(83))
    y[80:] = -y[:3]
    H = gram(TwoLayer(), rows, engine="dense", device="cpu")
    q = quadrature(H, y, tol=1e-5)
    assert q.bounds.lower == 0
    assert q.bounds.closest is not None
    assert q.bounds.closest[1] >= 80
    assert any("ridge 0.01 times the mean diagonal" in note for note in q.notes)
    for products in (3, 10, 30, 60):
        found = quadrature(H, y, max_products=products, tol=1e-12).bracket(Inverse())
        assert found.upper == np.inf
        assert not found.certified
        assert 0 <= found.lower < np.inf
        assert not np.isnan(found.value)
    ridge = FALLBACK_RIDGE * q.mean_diagonal
    found = q.bracket(Inverse(ridge))
    true = y @ np.linalg.solve(H.dense() + ridge * np.eye(83), y)
    assert found.lower <= true <= found.upper
    assert found.width <= 1e-5 * true


def test_near_singular_spectra_are_certified_only_above_rounding() -> None:
    """λ_min/λ_max from 1e-6 to 1e-18: whatever is called certified holds, and what rounding reaches is not."""
    rng = np.random.default_rng(7)
    certified, refused = 0, 0
    for _ in range(400):
        n = int(rng.integers(2, 14))
        lam = np.sort(np.r_[10 ** rng.uniform(-18, -6), 10 ** rng.uniform(-8, 0, n - 2), 1.0])
        r = rng.standard_normal(n)
        bounds = EigenvalueBounds(float(lam[0]) * rng.uniform(0.5, 1), 1.0, "given", "given")
        q = quadrature(as_gram(np.diag(lam)), r, max_products=int(rng.integers(1, n + 1)), tol=1e-15, bounds=bounds)
        found = q.bracket(Inverse([0.0, 1e-3]))
        with mpmath.workdps(40):
            for i, ridge in enumerate((0.0, 1e-3)):
                true = mpmath.fsum(
                    mpmath.mpf(float(w)) ** 2 / (mpmath.mpf(float(v)) + ridge) for v, w in zip(lam, r, strict=True)
                )
                assert mpmath.mpf(float(found.lower[i])) <= true
                assert np.isfinite(found.upper[i]) == found.certified[i]
                if found.certified[i]:
                    assert true <= mpmath.mpf(float(found.upper[i])), (lam, r)
        certified += bool(found.certified[0])
        refused += not found.certified[0]
        assert found.certified[1]
    assert certified > 50
    assert refused > 50


def test_singular_matrix_found_whole_has_no_nan() -> None:
    q = quadrature(np.ones((2, 2)), [1.0, -1.0])
    found = q.bracket(Inverse([0.0, 1.0]))
    assert found.lower[0] == 0
    assert found.upper[0] == np.inf
    assert not found.certified[0]
    assert found.value[1] == pytest.approx(2.0)
    assert found.certified[1]
    assert quadrature(np.ones((2, 2)), [1.0, 1.0]).bracket(Inverse()).value == pytest.approx(1.0)
    zero = quadrature(np.zeros((3, 3)), [1.0, 2.0, 2.0]).bracket(Inverse(0.5))
    assert zero.value == pytest.approx(18.0)


def test_zero_column_among_outputs(H) -> None:
    for device in ("cpu", "jax"):
        gram_ = H if device == "cpu" else gram(TwoLayer(), X, engine="dense", device="jax")
        labels = Y.copy()
        labels[:, 1] = 0.0
        q = quadrature(gram_, labels)
        each = q.bracket(Inverse()).per_output
        assert (each.value[1], each.lower[1], each.upper[1]) == (0, 0, 0)
        true = Y[:, 2] @ np.linalg.solve(H.dense(), Y[:, 2])
        assert each.lower[2] <= true <= each.upper[2]
        assert not q.weights[1].any()
    nothing = quadrature(H, np.zeros(160))
    assert nothing.bracket(Inverse()).value == 0
    assert nothing.bracket(Loss([0, 10], 0.1)).upper.tolist() == [0, 0]


def test_one_row() -> None:
    for engine, device in ENGINES:
        q = quadrature(gram(TwoLayer(), [[3.0, 4.0]], engine=engine, device=device), [2.0])
        assert q.products == 1
        found = q.bracket(Inverse())
        assert found.lower <= 4 / 12.5 <= found.upper
        assert found.value == pytest.approx(4 / 12.5, rel=1e-13)
        loss = q.bracket(Loss([0, 1, 2], 0.04))
        np.testing.assert_allclose(loss.value, 2 * np.array([1.0, 0.25, 0.0625]), rtol=1e-12)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.ones(159), "(159,)"),
        (np.ones((3, 160)), "(3, 160)"),
        (np.ones((160, 2, 2)), "(160, 2, 2)"),
        (np.where(np.arange(160) == 17, np.nan, 1.0), "1 NaN (first: row 17)"),
        (
            np.where(np.arange(160)[:, None] == 5, np.inf, np.ones((160, 2))),
            "2 infinite values (first: row 5, column 0)",
        ),
        (["cat"] * 160, "text where a number belongs: 'cat'"),
        (np.full(160, 1e200), "scale it"),
        (np.full(160, 1e-200), "scale it"),
    ],
)
def test_wrong_labels_get_one_line(H, y: object, words: str) -> None:
    with pytest.raises(ValueError, match="`y`") as caught:
        quadrature(H, y)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tol": 0.0}, "`tol` is 0.0"),
        ({"tol": 1.0}, "`tol` is 1.0"),
        ({"max_products": 0}, "`max_products` is 0"),
        ({"ridge": -1.0}, "`ridge` is -1.0"),
        ({"ridge": np.nan}, "`ridge` is nan"),
        ({"bounds": "best"}, "`method` is 'best'"),
    ],
)
def test_wrong_options_get_one_line(options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        quadrature(np.eye(3), np.ones(3), **options)
    assert words in str(caught.value)


def test_wrong_matrices_get_one_line() -> None:
    for A, words in (
        (np.ones((3, 2)), "square"),
        (np.triu(np.ones((3, 3))), "not symmetric"),
        (np.diag([1.0, -1.0, 2.0]), "positive semi-definite"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            quadrature(A, np.ones(len(A)))
        assert "\n" not in str(caught.value)


def test_integrands_check_their_numbers() -> None:
    for make in (lambda: Loss([1.5], 0.1), lambda: Loss([-1], 0.1), lambda: Loss([1], 0.0), lambda: Inverse(-1.0)):
        with pytest.raises(ValueError, match="expected"):
            make()


def test_labels_are_not_modified(H) -> None:
    before = Y.copy()
    quadrature(H, Y)
    np.testing.assert_array_equal(Y, before)


def test_progress_counts_products_on_every_engine() -> None:
    for engine, device in ENGINES:
        told: list[float] = []
        H = gram(TwoLayer(), X, engine=engine, device=device)
        q = quadrature(H, Y[:, 0], tol=1e-3, progress=lambda done, total, what, told=told: told.append(done))
        assert told == sorted(told)
        assert told[-1] == q.products


def test_provenance_says_what_was_asked(H) -> None:
    q = quadrature(H, Y, tol=1e-3, ridge=0.25)
    assert q.provenance.configuration["tol"] == 1e-3
    assert q.provenance.configuration["ridge"] == 0.25
    assert q.provenance.seconds > 0
    assert q.provenance.device == "cpu"
    assert "products" in repr(q)


@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
    st.floats(-3, 3),
    st.floats(0.01, 1.99),
)
@settings(max_examples=80, deadline=None)
def test_gauss_mass_start_of_the_loss_and_scaling(n: int, products: int, seed: int, size: float, share: float) -> None:
    """Σ w = ‖y‖²; loss(0) = ½‖y‖²; c²H with rate η/c² has the loss of H with rate η; yᵀ(c²H)⁻¹y = yᵀH⁻¹y/c²."""
    rng = np.random.default_rng(seed)
    rows, y = rng.standard_normal((n, 4)), rng.standard_normal((n, 2)) * 10**size
    c = 2.0 ** rng.integers(-8, 8)
    H, larger = gram(TwoLayer(), rows, device="cpu"), gram(TwoLayer(), c * rows, device="cpu")
    one, other = (quadrature(G, y, max_products=products, tol=1e-12) for G in (H, larger))
    mass = (y**2).sum(axis=0)
    np.testing.assert_allclose(one.weights.sum(axis=1), mass, rtol=1e-12)
    start = one.bracket(Loss([0], 0.1))
    assert start.lower[0] <= 0.5 * mass.sum() * (1 + 1e-15)
    assert 0.5 * mass.sum() * (1 - 1e-15) <= start.upper[0]
    assert start.width[0] <= 1e-13 * mass.sum()
    lr = share / one.bounds.upper
    steps = [1, 7, 300]
    a, b = one.bracket(Loss(steps, lr)), other.bracket(Loss(steps, lr / c**2))
    # the two are brackets of one number: they overlap, and their ends agree to rounding
    assert np.all(a.lower <= b.upper)
    assert np.all(b.lower <= a.upper)
    np.testing.assert_allclose(a.lower, b.lower, rtol=1e-6, atol=1e-10 * mass.sum())
    a, b = one.bracket(Inverse()), other.bracket(Inverse())
    assert a.lower <= c**2 * b.upper
    assert c**2 * b.lower <= a.upper
