"""What the machine has: memory within its limits, BLAS threads given back, angles to all digits."""

import os
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from overparam.core import machine, provenance, references
from overparam.core.angles import exact_gaps, gaps_of_pairs, near_parallel


def test_memory_is_what_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine.available_memory()
    assert 0 < found <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(machine, "_meminfo", lambda: 1000)
    monkeypatch.setattr(machine, "_control_group", lambda: 300)
    assert machine.available_memory() == 300
    monkeypatch.setattr(machine, "_control_group", lambda: -5)  # a container past its limit
    assert machine.available_memory() == 1
    monkeypatch.setattr(machine, "_meminfo", lambda: None)
    monkeypatch.setattr(machine, "_control_group", lambda: None)
    assert machine.available_memory() > 2**20


def test_control_group_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = machine.Path
    monkeypatch.setattr(machine, "Path", lambda place: tmp_path if place == "/sys/fs/cgroup" else original(place))
    assert machine._control_group() is None
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("5000\n")
    (tmp_path / "memory.stat").write_text("anon 10\ninactive_file 700\n")
    assert machine._control_group() is None  # no limit
    (tmp_path / "memory.max").write_text("9000\n")
    assert machine._control_group() == 9000 - 5000 + 700


def test_threads_are_given_back() -> None:
    def count() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    np.ones((2, 2)) @ np.ones((2, 2))
    before = count()
    with machine.blas_threads(1):
        assert set(count()) == {1}
        with machine.blas_threads(None):
            assert set(count()) == {1}
    assert count() == before
    with pytest.raises(RuntimeError, match="inside"), machine.blas_threads(1):
        raise RuntimeError("inside")
    assert count() == before
    with pytest.raises(ValueError, match="`threads` is 0; expected 1 or more"), machine.blas_threads(0):
        pass


def test_libraries_with_threads_are_looked_for_again_where_modules_were_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = machine.thread_pools()
    assert machine.thread_pools() is found
    monkeypatch.setitem(sys.modules, "one that was not there", sys)
    assert machine.thread_pools() is not found


def test_cores_and_papers() -> None:
    assert 1 <= provenance.usable_cores() <= (os.cpu_count() or 1)
    assert set(references.PAPERS) == {"fine_grained", "convergence", "beyond_two_layers", "beyond_kernels"}
    assert all(paper.key == key for key, paper in references.PAPERS.items())


def test_gaps_against_forty_digits() -> None:
    rng = np.random.default_rng(0)
    for gap in 10.0 ** np.arange(-15, 1):
        u = rng.standard_normal(6)
        v = u + gap * rng.standard_normal(6)
        u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
        for w in (v, -v):
            apart, together = exact_gaps(u[None], w[None])
            with mpmath.workdps(40):
                a, b = [mpmath.mpf(float(t)) for t in u], [mpmath.mpf(float(t)) for t in w]
                less = mpmath.fsum((s - t) ** 2 for s, t in zip(a, b, strict=True)) / 2
                more = mpmath.fsum((s + t) ** 2 for s, t in zip(a, b, strict=True)) / 2
            assert float(abs(apart[0] - less) / less) < 4e-15
            assert float(abs(together[0] - more) / more) < 4e-15


def test_near_pairs_are_found_and_their_gaps_made_in_pieces() -> None:
    rng = np.random.default_rng(1)
    U = rng.standard_normal((30, 3))
    U /= np.linalg.norm(U, axis=1)[:, None]
    rho = np.clip(U @ U.T, -1, 1)
    rows, columns = near_parallel(rho)
    assert {(i, i) for i in range(30)} <= set(zip(rows.tolist(), columns.tolist(), strict=True))
    assert np.all(np.abs(rho[rows, columns]) > 0.999)
    whole = gaps_of_pairs(U, U, rows, columns)
    np.testing.assert_allclose(1 - whole[0], rho[rows, columns], rtol=1e-15)
    np.testing.assert_array_equal(whole, gaps_of_pairs(U, U, rows, columns, piece=7))
    assert [len(part) for part in near_parallel(np.zeros((3, 3)))] == [0, 0]
    assert [len(part) for part in near_parallel(np.zeros((0, 3)))] == [0, 0]
