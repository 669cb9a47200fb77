"""The dask engine: the matrix that matrix_free has, the same bits whoever computes, and numbers that outlive their workers."""

import logging
import os
import signal
import socket
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from rounding import rounding

import overparam as op
from overparam.core.kernel import AbstractKernel
from overparam.engines import AbstractGram, gram, remember
from overparam.engines.dask_gram import DaskGram
from overparam.frame import cluster as clusters
from overparam.frame.cluster import ClusterLost
from overparam.kernels import TwoLayer

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((700, 5))
X[7], X[600], X[650] = X[3], 2 * X[5], -X[9] * (1 + 1e-9)
V = RNG.standard_normal((700, 3))


def local(workers: int, processes: bool = False) -> Any:
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=processes,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with local(2) as started, distributed.Client(started, set_as_default=False) as connected:
        yield connected


@pytest.fixture(scope="module")
def H(client: Any) -> AbstractGram:
    return gram(TwoLayer(), X, engine="dask", cluster=client)


@pytest.fixture(scope="module")
def here() -> AbstractGram:
    return gram(TwoLayer(), X, engine="matrix_free", device="cpu")


def bound(H: AbstractGram, V: np.ndarray) -> np.ndarray:
    """What two computed products may differ by: each by its sums and by the rounding of its entries."""
    return 2 * (H.product_rounding + H.rounding) * np.linalg.norm(V, axis=0)


def squares_bound(kernel: AbstractKernel, square_sum: float) -> float:
    """The same of two sums of the squares of entries: of n² terms, of entries within twice `entry_rounding` of √(H_ii H_jj)."""
    entries = 4 * kernel.entry_rounding * float(kernel.diagonal(X).sum()) * square_sum**0.5
    return 2 * (rounding(len(X) ** 2 + 1) * square_sum + entries)


def cross_bound(kernel: AbstractKernel, new: np.ndarray, rows: np.ndarray, C: np.ndarray) -> np.ndarray:
    """The same of two products K(new, rows) C, by entry; |K_ij| ≤ √(K_ii K_jj)."""
    sizes = np.sqrt(np.outer(kernel.diagonal(new), kernel.diagonal(rows))) @ np.abs(C)
    return 2 * (rounding(len(rows)) + 2 * kernel.entry_rounding) * sizes


def test_products_are_those_of_matrix_free(H: AbstractGram, here: AbstractGram) -> None:
    told: list[float] = []
    found = H.product(V, lambda done, total, what: told.append(done))
    assert np.all(np.linalg.norm(found - here @ V, axis=0) <= bound(here, V))
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1.0)
    assert H.repaired == here.repaired == 3
    assert abs(H.square_sum() - here.square_sum()) <= squares_bound(TwoLayer(), here.square_sum())
    np.testing.assert_array_equal(H.diagonal(), here.diagonal())
    np.testing.assert_array_equal(H.dense(), here.dense())


def test_pairs_and_new_rows_are_those_of_matrix_free(H: AbstractGram, here: AbstractGram) -> None:
    found, true = H.close_pairs(0.9, 4, 10**6), here.close_pairs(0.9, 4, 10**6)
    assert found is not None
    assert true is not None
    assert set(zip(found[0], found[1], strict=True)) == set(zip(true[0], true[1], strict=True))
    n, d = X.shape  # sums of n terms ρ⁸, each ρ of d products of rows that were divided by their norms
    np.testing.assert_allclose(found[3], true[3], rtol=0, atol=2 * n * (8 * rounding(3 * d + 4) + rounding(n + 8)))
    assert H.close_pairs(0.1, 4, 10) is None
    new = X[:600] + 1
    off = np.abs(H.cross_product(new, V) - here.cross_product(new, V))
    assert np.all(off <= cross_bound(TwoLayer(), new, X, V))
    np.testing.assert_array_equal(H.sampled_cosines(np.array([3, 5])), here.sampled_cosines(np.array([3, 5])))


def test_one_worker_gives_the_same_bits(H: AbstractGram) -> None:
    with local(1) as started, distributed.Client(started, set_as_default=False) as alone:
        np.testing.assert_array_equal(gram(TwoLayer(), X, engine="dask", cluster=alone) @ V, H @ V)


def test_kernels_that_make_their_own_blocks(client: Any) -> None:
    kernel = TwoLayer() + op.kernels.Gaussian(2.0)
    few, v = X[:90], V[:90]
    found = gram(kernel, few, engine="dask", cluster=client)
    true = kernel(few) @ v
    allowed = cross_bound(kernel, few, few, v)
    assert np.all(np.abs(found @ v - true) <= allowed)
    assert np.all(np.abs(found.cross_product(few[:3], v) - true[:3]) <= allowed[:3])


def test_what_is_made_of_products_works(H: AbstractGram, here: AbstractGram) -> None:
    y = np.sign(X[:, 0])
    solved, true = (op.solve(G, y, ridge=0.5) for G in (H, here))
    for found, known in ((solved.bracket, true.bracket),):
        assert found is not None
        assert known is not None
        assert np.max(found.lower) <= np.max(known.upper)
        assert np.max(known.lower) <= np.max(found.upper)
    one, two = (op.label_complexity(op.quadrature(G, y, 12, ridge=0.5), ridge=0.5) for G in (H, here))
    assert one.lower <= two.upper
    assert two.lower <= one.upper


def test_the_plan_says_what_it_is_connected_to(H: AbstractGram) -> None:
    assert H.plan is not None
    words = str(H.plan)
    assert "dask engine on the cluster" in words
    assert "2 workers with 2 threads at inproc://" in words
    assert "dashboard http://" in words
    assert H.plan.gram_seconds == 0
    assert 0 < H.plan.product_seconds < 10


def test_nothing_global_changes(client: Any) -> None:
    import dask
    from threadpoolctl import threadpool_info

    before = dask.config.get("distributed.comm.timeouts"), [pool["num_threads"] for pool in threadpool_info()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gram(TwoLayer(), X[:50], engine="dask", cluster=client) @ V[:50]
    after = dask.config.get("distributed.comm.timeouts"), [pool["num_threads"] for pool in threadpool_info()]
    assert before == after
    with pytest.raises(ValueError, match="No client"):
        distributed.default_client()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"cluster": "10.0.0.1"}, "`cluster` is '10.0.0.1'; expected the address of a scheduler such as 'tcp://"),
        ({"cluster": 3}, "`cluster` is 3; expected the address"),
        ({"cluster": "local", "engine": "dense"}, "`cluster` is for engine='dask' and engine='dense' was asked for"),
        ({"engine": "dask", "place": "there"}, "use `op.remember(H, place)`"),
        ({"engine": "dask", "device": "gpu"}, "each worker of a cluster takes the best it has"),
    ],
)
def test_bad_input_in_one_line(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=r"cluster|place") as error:
        gram(TwoLayer(), X, **arguments)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_no_scheduler_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "SECONDS", 0.3)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ValueError, match="no scheduler answers at tcp://127") as error:
        gram(TwoLayer(), X, engine="dask", cluster=address)
    assert "\n" not in str(error.value)


def test_without_dask_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setattr(clusters.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'overparam\[dask\]'"):
        gram(TwoLayer(), X, engine="dask")


def test_workers_with_other_versions_are_refused(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = clusters.about_here()
    answers = iter([{**real, "numpy": "9.9"}])
    monkeypatch.setattr(clusters, "about_here", lambda: next(answers, real))
    with pytest.raises(ValueError, match=r"has numpy .* and here is 9\.9; install the same versions"):
        gram(TwoLayer(), X, engine="dask", cluster=client)


def test_killed_workers_cost_only_time(H: AbstractGram, tmp_path) -> None:
    """Two processes: one is killed within a product, then all there are, with all rows; those that come after make it."""
    true = H @ V
    with local(2, processes=True) as started, distributed.Client(started, set_as_default=False) as connected:
        there = gram(TwoLayer(), X, engine="dask", cluster=connected)
        for few in (True, False):
            living = list(connected.run(os.getpid).values())[: 1 if few else None]

            def kill(done: float, total: float | None, what: str, living: list[int] = living) -> None:
                while living:
                    os.kill(living.pop(), signal.SIGKILL)

            np.testing.assert_array_equal(there.product(V, kill), true)
        kept = remember(there, tmp_path)
        np.testing.assert_array_equal(kept @ V, true)
    assert isinstance(there, DaskGram)
    with pytest.raises(ValueError, match="connect to it again"):
        there @ (V + 1)  # the cluster is gone
    np.testing.assert_array_equal(kept @ V, true)  # what was made is kept


def test_rows_on_disk_are_sent_panel_by_panel(client: Any, H: AbstractGram, tmp_path, monkeypatch) -> None:
    from overparam.engines import dask_gram

    monkeypatch.setattr(dask_gram, "PANEL", 10_000)
    np.save(tmp_path / "rows.npy", X)
    there = gram(TwoLayer(), tmp_path / "rows.npy", engine="dask", cluster=client)
    assert np.all(np.linalg.norm(there @ V - H @ V, axis=0) <= bound(H, V))


def test_a_sweep_goes_on_after_its_cluster_is_lost(client: Any, H: AbstractGram, tmp_path) -> None:
    y = np.sign(X[:, 0])
    there = gram(TwoLayer(), X, cluster=client.scheduler.address)
    assert isinstance(there, DaskGram)

    def lose(done: float, total: float | None, what: str) -> None:
        if done >= 4:
            there.close()

    with pytest.raises(ClusterLost, match="ask the same"):
        op.quadrature(there, y, 9, bounds=None, place=tmp_path, progress=lose)
    told: list[float] = []
    again = op.quadrature(H, y, 9, bounds=None, place=tmp_path, progress=lambda done, total, what: told.append(done))
    assert min(told) > 3, "what was made is not made again"
    true = op.quadrature(H, y, 9, bounds=None)
    np.testing.assert_array_equal(again.alphas, true.alphas)
    np.testing.assert_array_equal(again.betas, true.betas)


def test_a_worker_without_the_package_is_named_in_one_line(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise ModuleNotFoundError("No module named 'overparam'")

    answers = iter([clusters.about_here])
    real = type(client).run
    monkeypatch.setattr(type(client), "run", lambda self, function, **how: real(self, next(answers) and absent, **how))
    with pytest.raises(ValueError, match=r"^the worker inproc\S+ has no overparam .*install it there$"):
        gram(TwoLayer(), X, cluster=client)


def test_a_worker_with_an_accelerator_gives_the_same_share() -> None:
    """On JAX's CPU device, which computes by the same program; rows of all norms, pairs in the square and beside it."""
    from overparam.engines.dask_on_device import tile_row_on_device
    from overparam.engines.dask_tasks import RowPanel, tile_row
    from overparam.engines.panels import UnitRows

    kernel, rows = TwoLayer(), UnitRows.of(X)
    diagonal = kernel.diagonal(X)
    panels = [RowPanel(start, rows.part(start, start + 400), diagonal[start : start + 400]) for start in (0, 400)]
    given = kernel, "ntk", 500, 700, V, *panels
    true, found = tile_row(*given), tile_row_on_device(*given)
    assert found.repaired == true.repaired == 2
    share = 2 * (rounding(len(X)) + 2 * kernel.entry_rounding)
    assert np.abs(found.values - true.values).max() <= share * diagonal.max() * np.abs(V).sum(axis=0).max()
    assert abs(found.squares - true.squares) <= squares_bound(kernel, true.squares)
