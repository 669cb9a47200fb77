"""How long work tells what it is doing, and how it ends by ctrl-C: a `Progress` is called with each step; `None` is silence.

Rooms below the command line never print. They take `progress: Progress | None` and call
it as `progress(done, total, what)`; `total` is None where the end is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Progress = Callable[[float, float | None, str], None]


def silent(done: float, total: float | None, what: str) -> None:
    """The progress that says nothing."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of a quadrature or a run: `partial` is what was done until then, None where nothing was.

    head: where it was. kept: whether the same work goes on from there.
    """

    def __init__(self, partial: Any, words: str, *, head: str = "stopped", kept: bool = False) -> None:
        super().__init__(words)
        self.partial, self.head, self.kept = partial, head, kept
