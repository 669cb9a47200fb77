"""A result in plain words, with a tone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tone = Literal["good", "warning", "bad"]


@dataclass(frozen=True)
class Verdict:
    """What was found in plain words; the first sentence answers what was asked."""

    tone: Tone
    sentences: tuple[str, ...]
