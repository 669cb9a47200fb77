"""The cost of a question before it is paid: seconds of every part, memory, disk, where it runs, what is done already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from overparam.core import checks
from overparam.core.machine import available_memory
from overparam.core.words import byte_size, duration


@final
@dataclass(frozen=True)
class Plan:
    """What a Job will do and cost, in numbers; `str(plan)` is the words.

    what: the question in a line. seconds_by: of each part, in order. kept: names of the parts that `place` holds
    already, which cost nothing. memory, free_memory, disk: bytes. engine, device, dtype: how and where. details: other
    numbers and words of this kind of question, by name. fix: what to do where the memory is not enough.
    """

    what: str
    seconds_by: Mapping[str, float] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    memory: int = 0
    free_memory: int = field(default_factory=available_memory)
    disk: int = 0
    engine: str = ""
    device: str = "cpu"
    dtype: str = "float64"
    details: Mapping[str, Any] = field(default_factory=dict)
    fix: str = "use fewer rows (`max_rows`) or a machine with more"

    @property
    def seconds(self) -> float:
        """Of all parts that are still to be made."""
        return sum(seconds for name, seconds in self.seconds_by.items() if name not in self.kept)

    def require_memory(self) -> None:
        """Raise where it would not fit."""
        checks.require_memory(self.memory, self.free_memory, self.what, self.fix)

    def to_json(self) -> dict[str, Any]:
        """The plan as `--plan --json` prints it."""
        return {
            "what": self.what,
            "seconds": self.seconds,
            "seconds_by": dict(self.seconds_by),
            "kept": list(self.kept),
            "memory": self.memory,
            "free_memory": self.free_memory,
            "disk": self.disk,
            "engine": self.engine,
            "device": self.device,
            "dtype": self.dtype,
            **self.details,
        }

    def __str__(self) -> str:
        place = ", ".join(word for word in (self.engine and f"{self.engine} engine", self.dtype, self.device) if word)
        lines = [self.what, f"  runs on   {place}"]
        lines += [f"  {name.replace('_', ' '):<9} {_said(value)}" for name, value in self.details.items()]
        if self.memory:
            lines.append(f"  memory    {byte_size(self.memory)} of {byte_size(self.free_memory)} free")
        if self.disk:
            lines.append(f"  disk      {byte_size(self.disk)}")
        if self.kept:
            lines.append(f"  kept      {len(self.kept)} of {len(self.seconds_by)} parts are finished already")
        lines.append(f"  about {duration(self.seconds, rough=True)} in all")
        return "\n".join(lines)


def _said(value: Any) -> str:
    """A detail as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_said(item) for item in value)
    return f"{value:,}" if isinstance(value, int) else str(value)
