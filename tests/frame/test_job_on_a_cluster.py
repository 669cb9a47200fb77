"""Parts of a Job on a cluster: the same numbers, kept, stopped and raised as without one."""

import logging
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.clusters import two_workers

from overparam.core.progress import Interrupted
from overparam.core.provenance import Provenance
from overparam.frame import Job, Part, Plan, Work
from overparam.frame.cluster_parts import LARGE

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")

HERE, THERE = "here", "there"
MADE: list[tuple[str, str]] = []


def at(name: str) -> str:
    where = HERE if threading.current_thread() is threading.main_thread() else THERE
    MADE.append((name, where))
    return where


def matrix(work: Work, n: int) -> np.ndarray:
    at("matrix")
    return np.arange(float(n))


def powers(work: Work, power: int, large: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    at(f"power {power}")
    assert work.cluster is None
    return {"sum": (rows**power).sum() + large[0]}


def quick(work: Work, rows: np.ndarray) -> dict[str, Any]:
    at("quick")
    return {"length": len(rows)}


def total(work: Work, how: str, lock: Any, *found: Mapping[str, np.ndarray]) -> dict[str, Any]:
    at("total")
    if how == "stop":
        raise KeyboardInterrupt
    if how == "fail":
        raise OSError("the part has no file")
    return {"total": sum(float(one["sum"]) for one in found)}


def job(how: str = "", place: Path | None = None, lock: Any = None, told: list[Any] | None = None) -> Job[Any]:
    large = np.ones(LARGE // 8 + 1)
    powers_of = [Part(f"power {p}", powers, (p, large), ("matrix",), seconds=2.0) for p in (1, 2, 3)]
    parts = (
        Part("matrix", matrix, (5,), seconds=1.0, kept=False),
        *powers_of,
        Part("quick", quick, (), ("matrix",)),
        Part("total", total, (how, lock), tuple(part.name for part in powers_of), seconds=1.0),
    )

    def conclude(found: Mapping[str, Any], made: Provenance) -> Any:
        return list(found), float(found["total"]["total"])

    progress = None if told is None else lambda *step: told.append(step)
    return Job("t", parts, conclude, plan=Plan("t"), provenance=Provenance({}, seed=0), place=place, progress=progress)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with two_workers() as connected:
        yield connected


@pytest.fixture(autouse=True)
def _fresh() -> None:
    MADE.clear()


def test_the_numbers_are_those_without_a_cluster(client: Any) -> None:
    alone = job().run()
    MADE.clear()
    told: list[Any] = []
    assert job(told=told).on(client).run() == alone
    where = dict(MADE)
    assert where["quick"] == HERE, "what takes no time does not travel"
    assert {where[name] for name in ("power 1", "power 2", "power 3", "total")} == {THERE}
    assert [name for name, _ in MADE].count("matrix") == 2, "once here, once for all parts of the worker process"
    assert told[-1][0] == told[-1][1]
    assert any("on http://" in what for _, _, what in told)
    shares = [done for done, _, _ in told]
    assert shares == sorted(shares)


def test_the_plan_tells_of_the_cluster(client: Any) -> None:
    plan = job().on(client).plan
    assert plan.beside is not None
    assert plan.beside.parts == ("power 1", "power 2", "power 3", "total")
    assert plan.seconds == 3.5, "seven seconds on two workers"
    assert job().plan.seconds == 8.0
    assert "cluster   2 workers with 2 threads at inproc://" in str(plan)
    assert "4 of 6 parts" in str(plan)
    assert plan.to_json()["on_cluster"] == list(plan.beside.parts)


def test_what_is_kept_is_taken_up_again(client: Any, tmp_path: Path) -> None:
    with pytest.raises(Interrupted, match="finished parts are kept"):
        job("stop", tmp_path).on(client).run()
    MADE.clear()
    assert job("", tmp_path).on(client).run() == job().run()
    assert MADE[0] == ("total", THERE), "of the parts it needs each is kept"
    MADE.clear()
    job("", tmp_path).run()
    assert MADE == []


def test_a_part_that_fails_raises_as_it_does_here(client: Any, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"^the part has no file$"):
        job("fail", tmp_path).on(client).run()
    assert set(job("fail", tmp_path).plan.kept) == {"matrix", "power 1", "power 2", "power 3", "quick"}


def test_what_cannot_travel_is_made_here(client: Any) -> None:
    assert job(lock=threading.Lock()).on(client).run() == job().run()
    assert ("total", HERE) in MADE


def test_a_part_outlives_its_worker(tmp_path: Path) -> None:
    """The one worker is killed while it makes a part; the nanny starts another, and the part is made again."""
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as started,
        distributed.Client(started, set_as_default=False) as client,
    ):
        parts = (Part("dies", dies_once, (str(tmp_path / "died"), np.ones(LARGE)), seconds=1.0),)
        asked = Job(
            "t", parts, lambda found, made: float(found["dies"]["x"]), plan=Plan("t"), provenance=Provenance({}, seed=0)
        )
        assert asked.on(client).run() == LARGE


def dies_once(work: Work, mark: str, large: np.ndarray) -> dict[str, Any]:
    import os
    import signal

    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"x": large.sum()}
