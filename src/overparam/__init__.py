"""overparam: what gradient descent on a wide network will do with a data set, known before training.

Everything a user types is here by name and imported when first used, so that
`import overparam` costs nothing and sets nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

from overparam._version import __version__

_ROOMS = ("data", "engines", "kernels", "spectrum")
_NAMES = {
    "Dataset": "data",
    "load": "data",
    "gram": "engines",
    "Interrupted": "spectrum",
    "Inverse": "spectrum",
    "Loss": "spectrum",
    "eigenpairs": "spectrum",
    "eigenvalue_bounds": "spectrum",
    "factor": "spectrum",
    "leave_one_out": "spectrum",
    "power_iteration": "spectrum",
    "quadrature": "spectrum",
}

__all__ = ["__version__", *_ROOMS, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"overparam.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"overparam.{_NAMES[name]}"), name)
    raise AttributeError(f"overparam has no {name!r}; see dir(overparam)")


def __dir__() -> list[str]:
    return sorted(__all__)
