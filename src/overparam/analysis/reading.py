"""`read`: a result folder back into the object that was saved."""

from __future__ import annotations

import os
from typing import Any

from overparam.core import folder as folders
from overparam.core.kinds import class_of


def read(folder: str | os.PathLike[str]) -> Any:
    """The result saved in `folder`: an `Analysis`, a `Trajectory`, a `Sweep`, a `StudyResult`, …"""
    parts = folders.read(folder)
    try:
        kind = class_of(parts.kind)
    except ValueError as error:
        raise ValueError(f"{os.fspath(folder)} holds {error}") from None
    try:
        return kind.from_parts(parts)
    except (TypeError, KeyError) as error:
        raise ValueError(
            f"{os.fspath(folder)} was written by another version ({error}); make the result again"
        ) from None
