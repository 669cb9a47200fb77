"""The questions users ask: what will a wide network do with this data, did a run go as predicted, is a kernel enough?"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from overparam.analysis.data_analysis import Analysis, analyze, prepare_analyze

if TYPE_CHECKING:
    from overparam.analysis.comparison import Comparison, compare, prepare_compare
    from overparam.analysis.run_comparison import RunComparison, prepare_train_and_compare, train_and_compare

__all__ = [
    "Analysis",
    "Comparison",
    "RunComparison",
    "analyze",
    "compare",
    "prepare_analyze",
    "prepare_compare",
    "prepare_train_and_compare",
    "train_and_compare",
]

_RUNS = {
    "Comparison": "comparison",
    "compare": "comparison",
    "prepare_compare": "comparison",
    "RunComparison": "run_comparison",
    "prepare_train_and_compare": "run_comparison",
    "train_and_compare": "run_comparison",
}
"""Imported when first used: they need JAX, which an analysis on a CPU does without."""


def __getattr__(name: str) -> Any:
    if name in _RUNS:
        return getattr(importlib.import_module(f"overparam.analysis.{_RUNS[name]}"), name)
    raise AttributeError(f"overparam.analysis has no {name!r}")
