"""What users touch: `H @ v`, blocks, plans, memory, progress, kinds of input, and nothing global changed."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from overparam.engines import as_gram, gram
from overparam.engines.plan import EnginePlan
from overparam.kernels import TwoLayer

ENGINES = [("dense", "cpu"), ("half", "cpu"), ("matrix_free", "cpu"), ("dense", "jax"), ("matrix_free", "jax")]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 4))
TRUE = np.array([[TwoLayer().evaluate(x, z) for z in X] for x in X])


@pytest.fixture(scope="module", params=ENGINES, ids=lambda e: f"{e[0]}-{e[1]}")
def H(request: pytest.FixtureRequest):
    engine, device = request.param
    return gram(TwoLayer(), X, engine=engine, device=device)


def test_matmul_takes_vectors_matrices_lists_and_integers(H) -> None:
    v = np.arange(30)
    for given, true in (
        (v, TRUE @ v),
        (v.tolist(), TRUE @ v),
        (v.astype(np.float32), TRUE @ v),
        (v.astype(np.uint8), TRUE @ v),
        (v > 3, TRUE @ (v > 3)),
        (v[:, None], (TRUE @ v)[:, None]),
        (np.stack([v, v**2], axis=1), TRUE @ np.stack([v, v**2], axis=1)),
        (np.asfortranarray(RNG.standard_normal((30, 7))), None),
        (np.ones((60, 3))[::2], TRUE @ np.ones((30, 3))),
    ):
        true = TRUE @ given if true is None else true
        found = H @ given
        assert isinstance(found, np.ndarray)
        assert found.dtype == np.float64
        assert found.shape == true.shape
        np.testing.assert_allclose(found, true, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("v", "words"),
    [
        (np.ones(29), "(29,)"),
        (np.ones((4, 30)), "(4, 30)"),
        (np.ones((30, 0)), "(30, 0)"),
        (np.ones((30, 1, 1)), "(30, 1, 1)"),
        (3.0, "()"),
        (np.full(30, np.nan), "NaN"),
        (["a"] * 30, "text where a number belongs"),
    ],
)
def test_wrong_vectors_get_one_line(v: object, words: str) -> None:
    H = gram(TwoLayer(), X)
    with pytest.raises(ValueError, match="`v`") as caught:
        H @ v
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (slice(None), slice(None)),
        (slice(3, 9), slice(None, None, -4)),
        (np.array([5, 2, 2, 29]), slice(0, 2)),
        (np.array([-1, -30]), [0, 7]),
        (4, -2),
        (slice(2, 3), np.arange(30) % 7 == 0),
        (slice(5, 5), slice(None)),
    ],
)
def test_blocks(H, rows: object, columns: object) -> None:
    i, j = np.atleast_1d(np.arange(30)[rows]), np.atleast_1d(np.arange(30)[columns])
    block = H.block(rows, columns)
    assert block.shape == (len(i), len(j))
    np.testing.assert_allclose(block, TRUE[np.ix_(i, j)], atol=1e-14 * 25)


def test_shape_and_repr(H) -> None:
    assert H.shape == (30, 30)
    assert "TwoLayer" in repr(H)
    assert "n=30" in repr(H)


def test_one_thread_gives_the_same() -> None:
    for engine in ("dense", "matrix_free"):
        H = gram(TwoLayer(), X, engine=engine, device="cpu", threads=1)
        np.testing.assert_allclose(H @ np.ones(30), TRUE @ np.ones(30), rtol=1e-13)
    with pytest.raises(ValueError, match="`threads` is 0"):
        gram(TwoLayer(), X, threads=0)


def test_too_little_memory() -> None:
    big = np.random.default_rng(1).standard_normal((300, 10))
    with pytest.raises(ValueError, match="dense engine needs") as caught:
        gram(TwoLayer(), big, engine="dense", device="cpu", memory="1 MB")
    line = str(caught.value)
    assert "\n" not in line
    assert "1 MB can be used" in line
    assert "use engine='matrix_free'" in line
    H = gram(TwoLayer(), big, engine="auto", device="cpu", memory="1 MB")
    assert H.plan is not None
    assert H.plan.engine == "matrix_free"
    assert "more than the 1 MB" in H.plan.reason
    with pytest.raises(ValueError, match="use fewer rows"):
        gram(TwoLayer(), big, engine="auto", device="cpu", memory="1 kB")
    assert gram(TwoLayer(), big, engine="auto", device="cpu").plan.engine == "dense"


def test_half_the_matrix_where_it_fits_and_the_whole_does_not() -> None:
    big = np.random.default_rng(1).standard_normal((1_500, 10))
    H = gram(TwoLayer(), big, device="cpu", memory="22 MB")
    assert H.plan is not None
    assert H.plan.engine == "half"
    assert "half of it" in H.plan.reason
    assert H.plan.gram_seconds > 0
    with pytest.raises(ValueError, match=r"22 MB can be used; use engine='half' or engine='matrix_free'"):
        gram(TwoLayer(), big, "dense", device="cpu", memory="22 MB")
    with pytest.raises(ValueError, match="on the CPU"):
        gram(TwoLayer(), big, "half", device="jax")


def test_half_in_single_precision_is_within_what_it_says() -> None:
    H = gram(TwoLayer(), X, "half", dtype="float32", device="cpu")
    V = np.random.default_rng(2).standard_normal((30, 3))
    away = np.linalg.norm(H @ V - TRUE @ V, axis=0)
    assert np.all(away <= (H.rounding + H.product_rounding) * np.linalg.norm(V, axis=0))
    assert away.max() > 1e-9  # it is single precision
    assert np.linalg.norm(H.dense() - TRUE, 2) <= H.rounding
    assert abs(H.square_sum() - np.sum(TRUE**2)) <= 1e-6 * np.sum(TRUE**2)


@pytest.mark.parametrize("power", [-60, 0, 60])
def test_half_in_single_precision_takes_rows_and_vectors_of_any_size(power: int) -> None:
    """Scaled by powers of two, the numbers are the same to the last bit."""
    X, V = np.random.default_rng(0).standard_normal((2, 12, 3))
    plain, H = (gram(TwoLayer(), rows, "half", dtype="float32", device="cpu") for rows in (X, X * 2.0**power))
    scales = 2.0 ** np.array([-400.0, 0.0, 300.0])
    np.testing.assert_array_equal(H @ (V * scales), (plain @ V) * scales * 4.0**power)
    np.testing.assert_array_equal(H.dense(), plain.dense() * 4.0**power)
    assert H.square_sum() == plain.square_sum() * 16.0**power


def test_unknown_choices() -> None:
    with pytest.raises(ValueError, match=r"expected 'auto', 'dense', 'half', 'stored' or 'matrix_free'"):
        gram(TwoLayer(), X, engine="fast")
    with pytest.raises(ValueError, match=r"expected 'cpu', 'gpu', 'jax', 'all' or None"):
        gram(TwoLayer(), X, device="abacus")
    with pytest.raises(ValueError, match="expected a kernel such as"):
        gram("rbf", X)
    for engine, device in ENGINES:
        with pytest.raises(ValueError, match="'ntk' or 'nngp'"):
            gram(TwoLayer(), X, engine=engine, device=device, get="cnn")
        with pytest.raises(ValueError, match=r"`X` has 1 row of norm 0 \(first: row 2\)"):
            gram(TwoLayer(), np.vstack([X[:2], np.zeros(4)]), engine=engine, device=device)


def test_plan_prints_and_adds_up(H) -> None:
    plan = H.plan
    assert isinstance(plan, EnginePlan)
    text = str(plan)
    assert all(word in text for word in (plan.engine, "30 rows of 4 features", "memory", "matrix", "product", "sweep"))
    assert plan.seconds(100) == pytest.approx(plan.gram_seconds + 100 * plan.product_seconds)
    assert plan.product_seconds > 0
    assert plan.memory >= 8 * 30 * 4 + (8 * 900 if plan.engine == "dense" else 0)


def test_progress_rises_to_one() -> None:
    rows = np.random.default_rng(3).standard_normal((1500, 4))
    told: list[tuple[float, float | None, str]] = []
    gram(TwoLayer(), rows, engine="dense", device="cpu", progress=lambda *a: told.append(a))
    shares = [done for done, _, _ in told]
    assert len(shares) >= 3
    assert shares == sorted(shares)
    assert shares[0] > 0
    assert told[-1][:2] == (1.0, 1.0)
    for device, some in (("cpu", rows), ("jax", rows[:30])):
        told.clear()
        H = gram(TwoLayer(), some, engine="matrix_free", device=device)
        H.product(H.to_device(np.ones((len(some), 1))), lambda *a: told.append(a))
        shares = [done for done, _, _ in told]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0


def test_users_arrays_are_left_alone() -> None:
    mine = RNG.standard_normal((30, 4)) * 5
    unit = mine / np.linalg.norm(mine, axis=1)[:, None]
    v = RNG.standard_normal((30, 2))
    H0 = TwoLayer()(mine)
    for rows in (mine, unit):
        before, v_before, H_before = rows.copy(), v.copy(), H0.copy()
        for engine, device in ENGINES:
            H = gram(TwoLayer(), rows, engine=engine, device=device)
            H @ v
            H.dense()
            H.close_pairs(0.5, 2, 1000)
            H.square_sum()
        as_gram(H0) @ v
        np.testing.assert_array_equal(rows, before)
        np.testing.assert_array_equal(v, v_before)
        np.testing.assert_array_equal(H0, H_before)


@pytest.mark.parametrize(("engine", "device"), ENGINES)
def test_layouts_and_types_of_input(engine: str, device: str, tmp_path: Path) -> None:
    ints = np.random.default_rng(2).integers(1, 255, size=(30, 4)).astype(np.uint8)
    true = gram(TwoLayer(), ints.astype(np.float64), engine="dense", device="cpu").dense()
    path = tmp_path / "rows.npy"
    np.save(path, ints.astype(np.float64))
    wide = np.zeros((60, 8))
    wide[::2, ::2] = ints
    for given in (
        ints,
        ints.astype(np.float32),
        np.asfortranarray(ints, dtype=np.float64),
        wide[::2, ::2],
        ints.astype(np.float64)[::-1][::-1],
        np.load(path, mmap_mode="r"),
        ints.tolist(),
        ints.astype(object),
    ):
        H = gram(TwoLayer(), given, engine=engine, device=device)
        np.testing.assert_allclose(H @ np.eye(30), true, rtol=1e-13, atol=1e-13 * true.max())


@pytest.mark.parametrize(
    ("H", "words"),
    [
        (np.ones((2, 3)), "square"),
        (np.array([[1.0, 0.5], [0.4, 1.0]]), "entries (0, 1) and (1, 0) differ by 1.0e-01"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "NaN"),
        (np.ones(3), "one axis"),
        ("matrix", "text where a number belongs"),
        (1e200 * np.eye(2), "scale it"),
        (1e-200 * np.eye(2), "scale it"),
    ],
)
def test_matrices_of_numbers_are_checked(H: object, words: str) -> None:
    with pytest.raises(ValueError, match="`H`") as caught:
        as_gram(H)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_given_numbers_have_no_rows() -> None:
    H = as_gram(TRUE)
    assert as_gram(H) is H
    assert H.rounding == 0.0
    np.testing.assert_array_equal(H.block(slice(0, 3), 2), TRUE[:3, 2:3])
    for call in (lambda: H.close_pairs(0.5, 2, 10), lambda: H.sampled_cosines(np.array([0]))):
        with pytest.raises(ValueError, match="given as numbers"):
            call()


def test_asymmetry_of_rounding_is_averaged_out() -> None:
    """BLAS reads one triangle for one vector and both for many: they must see the same matrix."""
    rng = np.random.default_rng(6)
    S = TRUE + 1e-12 * rng.standard_normal(TRUE.shape)
    H = as_gram(S)
    V = rng.standard_normal((30, 5))
    np.testing.assert_allclose(np.column_stack([H @ v for v in V.T]), H @ V, atol=1e-14 * 100)
    np.testing.assert_allclose(H.dense(), (S + S.T) / 2, rtol=1e-15, atol=0)
    S = (S + S.T) / 2
    assert as_gram(S).dense() is S or np.shares_memory(as_gram(S).dense(), S)  # exactly symmetric: no copy


def test_nothing_global_changes() -> None:
    import jax

    from overparam.spectrum import eigenpairs, eigenvalue_bounds, factor, leave_one_out, quadrature

    def state() -> tuple[object, ...]:
        return (
            jax.config.jax_enable_x64,
            jax.config.jax_default_matmul_precision,
            jax.numpy.ones(1).dtype,
            np.geterr(),
            np.random.get_state()[1].tobytes(),  # noqa: NPY002
            [(p["internal_api"], p["num_threads"]) for p in threadpool_info()],
            list(warnings.filters),
            os.getcwd(),
            dict(os.environ),
        )

    y = np.sign(RNG.standard_normal(30))
    gram(TwoLayer(), X, device="jax")  # loads what it needs: thread pools appear once
    quadrature(gram(TwoLayer(), X), y)
    before = state()
    for engine, device in ENGINES:
        H = gram(TwoLayer(), X, engine=engine, device=device, threads=1)
        H @ y
        eigenvalue_bounds(H)
        quadrature(H, y)
        eigenpairs(H)
        if (engine, device) != ("matrix_free", "jax"):  # which stores nothing to factor
            factor(H, 0.1).inverse_diagonal()
            leave_one_out(H, y)
    assert state() == before


def test_cpu_work_never_imports_jax() -> None:
    code = (
        "import sys, numpy as np, overparam as op\n"
        "H = op.gram(op.kernels.TwoLayer(), np.random.default_rng(0).standard_normal((20, 3)), device='cpu')\n"
        "op.quadrature(H, np.ones(20)); op.leave_one_out(H, np.ones(20))\n"
        "assert 'jax' not in sys.modules, 'jax'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_gpu_asked_for_and_absent_is_one_line() -> None:
    import jax

    if jax.default_backend() != "cpu":
        pytest.skip("there is an accelerator here")
    with pytest.raises(ValueError, match="JAX sees no accelerator") as caught:
        gram(TwoLayer(), X, device="gpu")
    assert "\n" not in str(caught.value)
