"""How long work tells what it is doing: a `Progress` is called with each step; `None` is silence.

Rooms below the command line never print. They take `progress: Progress | None` and call
it as `progress(done, total, what)`; `total` is None where the end is not known.
"""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[float, float | None, str], None]


def silent(done: float, total: float | None, what: str) -> None:
    """The progress that says nothing."""
