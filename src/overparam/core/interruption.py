"""Ctrl-C in the middle of long work: one class for all rooms, with what was done so far."""

from __future__ import annotations

from typing import Any


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of a quadrature or a run: `partial` is what was done until then, None where nothing was."""

    def __init__(self, partial: Any, words: str) -> None:
        super().__init__(words)
        self.partial = partial
