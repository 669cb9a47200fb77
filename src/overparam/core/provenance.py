"""What made a result: version, configuration, seed, precision, device, time and peak memory."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from overparam._version import __version__
from overparam.core.words import count_of


@dataclass(frozen=True)
class Provenance:
    """Kept in every result; `configuration` is what the user asked for, as plain JSON."""

    configuration: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    dtype: str = "float64"
    device: str = "cpu"
    seconds: float = 0.0
    peak_memory: int | None = None
    version: str = __version__
    python: str = platform.python_version()
    numpy: str = np.__version__
    machine: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Provenance:
        known = {key: fields[key] for key in cls.__dataclass_fields__ if key in fields}
        return cls(**known)


class Stopwatch:
    """Times a piece of work and makes its `Provenance`."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._start

    def provenance(
        self, configuration: Mapping[str, Any], *, seed: int | None = None, device: str = "cpu"
    ) -> Provenance:
        return Provenance(
            configuration=dict(configuration),
            seed=seed,
            device=device,
            seconds=self.seconds,
            peak_memory=peak_memory(),
            machine=machine(),
        )


def peak_memory() -> int | None:
    """The largest resident size of this process so far, in bytes; None where the system does not say."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def machine() -> str:
    """The machine in a few words, without its name."""
    return f"{platform.system()} {platform.machine()}, {count_of(usable_cores(), 'core')}"


def usable_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
