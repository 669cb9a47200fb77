"""Ctrl-C in the middle of long work: one class for all rooms, with what was done so far."""

from __future__ import annotations

from typing import Any


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of a quadrature or a run: `partial` is what was done until then, None where nothing was.

    head: where it was. kept: whether the same work goes on from there.
    """

    def __init__(self, partial: Any, words: str, *, head: str = "stopped", kept: bool = False) -> None:
        super().__init__(words)
        self.partial, self.head, self.kept = partial, head, kept
