"""The questions users ask: what will a wide network do with this data, did a run go as predicted, is a kernel enough?"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from overparam.analysis.data_analysis import Analysis, analyze, prepare_analyze

if TYPE_CHECKING:
    from overparam.analysis.comparison import Comparison, compare, prepare_compare
    from overparam.analysis.data_difference import Difference, diff, prepare_diff
    from overparam.analysis.label_decisions import apply_decisions
    from overparam.analysis.label_issues import LabelIssues, find_label_issues, prepare_find_label_issues
    from overparam.analysis.matrix_building import BuiltGram, build_gram, prepare_build_gram
    from overparam.analysis.model_forecast import Forecast, foresee, prepare_foresee
    from overparam.analysis.run_comparison import RunComparison, prepare_train_and_compare, train_and_compare

__all__ = [
    "Analysis",
    "BuiltGram",
    "Comparison",
    "Difference",
    "Forecast",
    "LabelIssues",
    "RunComparison",
    "analyze",
    "apply_decisions",
    "build_gram",
    "compare",
    "diff",
    "find_label_issues",
    "foresee",
    "prepare_analyze",
    "prepare_build_gram",
    "prepare_compare",
    "prepare_diff",
    "prepare_find_label_issues",
    "prepare_foresee",
    "prepare_train_and_compare",
    "train_and_compare",
]

_RUNS = {
    "Comparison": "comparison",
    "compare": "comparison",
    "prepare_compare": "comparison",
    "LabelIssues": "label_issues",
    "apply_decisions": "label_decisions",
    "find_label_issues": "label_issues",
    "prepare_find_label_issues": "label_issues",
    "BuiltGram": "matrix_building",
    "build_gram": "matrix_building",
    "prepare_build_gram": "matrix_building",
    "Forecast": "model_forecast",
    "foresee": "model_forecast",
    "prepare_foresee": "model_forecast",
    "Difference": "data_difference",
    "diff": "data_difference",
    "prepare_diff": "data_difference",
    "RunComparison": "run_comparison",
    "prepare_train_and_compare": "run_comparison",
    "train_and_compare": "run_comparison",
}
"""Imported when first used: they need JAX or what else takes time, which an analysis on a CPU does without."""


def __getattr__(name: str) -> Any:
    if name in _RUNS:
        return getattr(importlib.import_module(f"overparam.analysis.{_RUNS[name]}"), name)
    raise AttributeError(f"overparam.analysis has no {name!r}")
