"""A day in miniature: analyses one after another in one process, whose memory and open files must not grow."""

from __future__ import annotations

import gc
import os
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import overparam as op

WARM = 200
"""Runs after which nothing may grow: imports, caches of limited size and the allocator have what they need."""
EVERY = 50
MOST = 64e6
"""Bytes by which memory may move about after that: what the allocator keeps differs from run to run, tables are of many sizes."""
_first: dict[str, float] = {}


def case(seed: int, index: int) -> dict[str, Any]:
    """One small table analysed; every fiftieth time, what the process holds."""
    from overparam.analysis import data_labels, data_rival

    rng = np.random.default_rng([seed, index, 23])
    n, d = int(rng.integers(24, 48)), int(rng.integers(2, 6))
    X = rng.standard_normal((n, d))
    classes = int(rng.choice([0, 2, 2, 3]))
    y = X[:, 0] + 0.3 * rng.standard_normal(n) if not classes else np.argsort(np.argsort(X[:, 0])) * classes // n
    # scikit-learn's trees are most of the time, and not what is watched; other tests in this process get their own back
    few = mock.patch.object(data_rival, "TREES", 4), mock.patch.object(data_labels, "TREES", 4)
    with few[0], few[1], warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = op.analyze(X, y, kinds=False, key=index)
        assert found.verdict.sentences
        found._repr_html_()
    row: dict[str, Any] = {"tally": ["analyses"]}
    if index % EVERY == 0:
        gc.collect()
        held = {"memory": _resident(), "open files": float(len(os.listdir("/proc/self/fd")))}
        row["measured"] = {f"{name} after {index}": value for name, value in held.items()} if index % 500 == 0 else {}
        if index >= WARM and not _first:
            _first.update(held)
        if _first:
            grown = held["memory"] - _first["memory"]
            row["failed"] = [f"{grown / 1e6:.0f} MB more than after {WARM} runs"] if grown > MOST else []
            more = held["open files"] - _first["open files"]
            row["failed"] += [f"{more:g} more open files than after {WARM} runs"] if more > 0 else []
    return row


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
