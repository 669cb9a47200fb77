"""Findings kept on disk as soon as a measurement is done, so that a stopped audit goes on where it was."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np

from overparam._version import __version__
from overparam.audits.ground import Ground
from overparam.audits.law import Finding
from overparam.audits.setting import Effort
from overparam.core.records import put_together, take_apart
from overparam.training.workplace import Workplace

VALUES = "values as text"
"""The name under which a part keeps what is no array."""


@final
@dataclass(frozen=True, eq=False)
class Measured:
    """What one measurement found, and the seconds it took."""

    findings: tuple[Finding, ...]
    seconds: float


def mark_of(ground: Ground, radii: tuple[float, ...], effort: Effort) -> str:
    """What findings depend on: network, weights, rows, radii, effort, seed, digits and version. The weights and the
    rows by a digest of their bytes, so that another draw or another run is not taken for this one."""
    digest = hashlib.sha256()
    arrays = [ground.X, ground.y, *ground.inside.weights.values(), *jax.tree.leaves(ground.params)]
    if ground.run is not None:
        arrays += jax.tree.leaves(ground.run.params)
    for array in map(np.asarray, arrays):
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return f"{ground.words} {digest.hexdigest()} {radii} {effort!r} {ground.key} {ground.dtype} {__version__}"


def keep(workplace: Workplace, name: str, measure: Callable[[], list[Finding]]) -> Measured:
    """The findings of a measurement: read back where it was done before, else made and kept."""

    def make(_: Any) -> Mapping[str, Any]:
        start = time.perf_counter()
        found = measure()
        values, arrays = take_apart(Measured(tuple(found), time.perf_counter() - start))
        return {**arrays, VALUES: np.array(json.dumps(values))}

    part = workplace.part(name, make)
    values = json.loads(str(part[VALUES]))
    return put_together(Measured, values, {name: array for name, array in part.items() if name != VALUES})
