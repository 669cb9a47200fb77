"""overparam: what gradient descent on a wide network will do with a data set, known before training.

Everything a user types is here by name and imported when first used, so that
`import overparam` costs nothing and sets nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

from overparam._version import __version__

_ROOMS = (
    "adapters",
    "analysis",
    "audits",
    "data",
    "engines",
    "estimators",
    "functions",
    "kernels",
    "landscapes",
    "layers",
    "networks",
    "neural_tangents",
    "report",
    "spectrum",
    "studies",
    "theory",
    "training",
)
_NAMES = {
    "Analysis": "analysis",
    "Comparison": "analysis",
    "LabelIssues": "analysis",
    "RunComparison": "analysis",
    "analyze": "analysis",
    "BuiltGram": "analysis",
    "build_gram": "analysis",
    "compare": "analysis",
    "find_label_issues": "analysis",
    "Forecast": "analysis",
    "foresee": "analysis",
    "Difference": "analysis",
    "diff": "analysis",
    "read": "frame",
    "train_and_compare": "analysis",
    "Audit": "audits",
    "audit": "audits",
    "Landscape": "landscapes",
    "landscape": "landscapes",
    "from_equinox": "adapters",
    "from_flax": "adapters",
    "from_torch": "adapters",
    "Dataset": "data",
    "load": "data",
    "cross_matrix": "engines",
    "gram": "engines",
    "remember": "engines",
    "NTKClassifier": "estimators",
    "NTKRegressor": "estimators",
    "WideNetClassifier": "estimators",
    "WideNetRegressor": "estimators",
    "Interrupted": "core",
    "Inverse": "spectrum",
    "Loss": "spectrum",
    "eigenpairs": "spectrum",
    "eigenvalue_bounds": "spectrum",
    "factor": "spectrum",
    "leave_one_out": "spectrum",
    "power_iteration": "spectrum",
    "quadrature": "spectrum",
    "solve": "spectrum",
    "best_learning_rate": "theory",
    "certificate": "theory",
    "effective_dimension": "theory",
    "evidence": "theory",
    "fit_evidence": "theory",
    "generalization_bound": "theory",
    "kernel_target_alignment": "theory",
    "label_complexity": "theory",
    "laziness": "theory",
    "max_learning_rate": "theory",
    "posterior": "theory",
    "predict": "theory",
    "predict_flow": "theory",
    "predict_loss": "theory",
    "predict_movement": "theory",
    "random_label_complexity": "theory",
    "steps_to_loss": "theory",
    "width_for_laziness": "theory",
    "worst_case_labels": "theory",
}

__all__ = ["__version__", *_ROOMS, *_NAMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"overparam.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"overparam.{_NAMES[name]}"), name)
    raise AttributeError(f"overparam has no {name!r}; see dir(overparam)")


def __dir__() -> list[str]:
    return sorted(__all__)
