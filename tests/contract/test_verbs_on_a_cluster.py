"""Every question gives the same numbers with a cluster as without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_cases import VERBS, answer, rows
from test_verbs import same
from tests.clusters import two_workers

import overparam as op
from overparam.cli import run

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with two_workers() as connected:
        yield connected


QUICK = ("audit", "landscape")
"""What is no data is made again there, and travels there with arrays of JAX in it."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in VERBS]
)
def test_the_numbers_are_those_without_a_cluster(name: str, client: Any) -> None:
    told: list[str] = []
    job = VERBS[name].job(progress=lambda done, total, what: told.append(what)).on(client)
    assert job.plan.beside is not None
    same(job.run(), answer(name))
    there = [what.partition(" on http://")[0] for what in told if " on http://" in what]
    assert set(there) <= set(job.plan.beside.parts)
    assert there or name not in QUICK


def test_the_command_line_names_a_cluster(
    client: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    X, y = rows()
    np.savez("table.npz", X=X, y=y)
    network, *options = VERBS["audit"].command or ()
    question = ["audit", network, "table.npz", *options, "--cluster"]
    address = client.scheduler.address
    assert run([*question, address, "--plan"]) == 0
    assert f"cluster   2 workers with 2 threads at {address}" in capsys.readouterr().out
    assert run([*question, address, "--json"]) == 0
    assert capsys.readouterr().err == ""
    same(op.read(tmp_path / "overparam-out" / "audit-table"), answer("audit"))
    assert run([*question, "10.0.0.1"]) == 2
    assert "--cluster is '10.0.0.1'; expected the address" in capsys.readouterr().err
