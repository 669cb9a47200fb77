"""Which class reads which kind of result folder: by name, so that reading one result imports no other room."""

from __future__ import annotations

import importlib
from typing import Any

KINDS = {
    "analysis": "overparam.analysis.whole.Analysis",
    "audit": "overparam.audits.whole.Audit",
    "landscape": "overparam.landscapes.whole.Landscape",
    "comparison": "overparam.analysis.compare_whole.Comparison",
    "run-comparison": "overparam.analysis.prediction_and_run.RunComparison",
    "trajectory": "overparam.training.trajectory.Trajectory",
    "sweep": "overparam.training.sweeps.Sweep",
    "smoothed-run": "overparam.training.smoothed_run.SmoothedRun",
    "study": "overparam.studies.study.StudyResult",
}
"""The `kind` in result.json to the class that has `from_parts`; a new kind of result is one row here."""


def class_of(kind: str) -> Any:
    """The class of a kind, or one line.

    >>> class_of("analysis").kind
    'analysis'
    """
    if kind not in KINDS:
        raise ValueError(f"a result of kind {kind!r}; this version reads {', '.join(KINDS)}")
    module, _, name = KINDS[kind].rpartition(".")
    return getattr(importlib.import_module(module), name)
