"""The cost of an audit before it is paid."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from overparam.audits.ground import (
    COPIES,
    Ground,
    checked_effort,
    checked_omegas,
    make_ground,
    require_dtype,
)
from overparam.audits.measurements import Measurement, chosen
from overparam.audits.setting import Effort
from overparam.core.checks import require_memory
from overparam.core.machine import available_memory
from overparam.core.words import byte_size, duration
from overparam.training.precision import computing, device_name

STARTING = 1.5
"""Seconds to compile the programs of one measurement."""


@final
@dataclass(frozen=True)
class AuditPlan:
    """What an audit will do and cost; `print(plan)` shows it. seconds_by: of each measurement, from the time one pass
    forward took here."""

    network: str
    data: str
    rows: int
    width: int
    depth: int
    omegas: tuple[float, ...]
    effort: str
    measurements: tuple[str, ...]
    seconds_by: tuple[float, ...]
    memory: int
    free_memory: int
    device: str
    dtype: str

    @property
    def seconds(self) -> float:
        """In all."""
        return sum(self.seconds_by)

    def __str__(self) -> str:
        return (
            f"{self.network} on {self.data}, {self.rows:,} rows, {len(self.omegas)} radii, {self.effort} effort, "
            f"{self.dtype} on the {self.device}\n"
            f"  {len(self.measurements)} measurements: {', '.join(self.measurements)}\n"
            f"  memory    {byte_size(self.memory)} of {byte_size(self.free_memory)} free\n"
            f"  about {duration(self.seconds, rough=True)} in all"
        )

    def require_memory(self) -> None:
        """Raise where it would not fit."""
        require_memory(self.memory, self.free_memory, "the audit", "take fewer `rows` or a smaller width")


def plan_audit(
    network: Any,
    data: Any,
    *,
    params: Any = None,
    key: int = 0,
    omegas: Sequence[float] | None = None,
    rows: int | None = None,
    run: Any = None,
    laws: Sequence[str] | str | None = None,
    effort: str | Effort = "usual",
    prepare: str = "auto",
    dtype: str = "float64",
    device: str | None = None,
) -> AuditPlan:
    """What `audit` with these arguments will cost; takes a few passes forward to know.

    >>> from overparam.networks import FullyConnected
    >>> X = np.random.default_rng(0).standard_normal((8, 3))
    >>> plan_audit(FullyConnected(16, 3), (X, np.sign(X[:, 0])), laws="forward norms").measurements
    ('forward norms',)
    """
    require_dtype(dtype)
    spent = checked_effort(effort)
    with computing(dtype, device):
        ground = make_ground(network, data, params=params, key=key, rows=rows, run=run, prepare=prepare, dtype=dtype)
        radii = checked_omegas(omegas, spent, ground)
        return settle(ground, radii, spent, chosen(laws, ground.architecture), device)


def settle(
    ground: Ground, omegas: tuple[float, ...], effort: Effort, rows: Mapping[str, Measurement], device: str | None
) -> AuditPlan:
    """The plan for what was settled, from two timed passes."""
    whole, few = _pass_seconds(ground, len(ground.X)), _pass_seconds(ground, effort.rows)
    inside = ground.inside
    size = sum(int(np.prod(shape)) for shape in inside.shapes.values())
    units = inside.inputs + inside.outputs + 2 * sum(inside.widths)
    return AuditPlan(
        network=ground.words,
        data=ground.data.name,
        rows=len(ground.X),
        width=min(inside.widths),
        depth=inside.count,
        omegas=omegas,
        effort=effort.name,
        measurements=tuple(rows),
        seconds_by=tuple(_cost(row, whole, few, effort, len(omegas), inside.count) for row in rows.values()),
        memory=8 * COPIES * (len(ground.X) * units + size),
        free_memory=available_memory(),
        device=device_name(device),
        dtype=ground.dtype,
    )


def _pass_seconds(ground: Ground, rows: int) -> float:
    inside = ground.inside if rows >= len(ground.X) else ground.remade(rows)
    weights = inside.weights
    inside.trace(weights)
    start = time.perf_counter()
    inside.trace(weights)
    return time.perf_counter() - start


def _cost(row: Measurement, whole: float, few: float, effort: Effort, radii: int, count: int) -> float:
    more = effort.power_steps / 16 if row.at_end else radii / 5 * effort.ascent_steps / 8
    return STARTING + (row.passes[0] * whole + row.passes[1] * few) * more
