"""`read`: a result folder back into the object that was saved."""

from __future__ import annotations

import os

from overparam.analysis.whole import Analysis
from overparam.core import folder as folders

KINDS = {Analysis.kind: Analysis}


def read(folder: str | os.PathLike[str]) -> Analysis:
    """The result saved in `folder`."""
    parts = folders.read(folder)
    if parts.kind not in KINDS:
        raise ValueError(
            f"{os.fspath(folder)} holds a result of kind {parts.kind!r}; this version reads {', '.join(KINDS)}"
        )
    try:
        return KINDS[parts.kind].from_parts(parts)
    except (TypeError, KeyError) as error:
        raise ValueError(
            f"{os.fspath(folder)} was written by another version ({error}); make the result again"
        ) from None
