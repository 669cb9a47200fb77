"""How a kernel becomes a matrix: `dense` stores it in memory, `stored` on disk, `matrix_free` stores nothing of size n²."""

from typing import Any

from overparam.core.deprecated import new_name
from overparam.engines.choosing import gram
from overparam.engines.cross import cross_matrix
from overparam.engines.matrix import AbstractGram, Definiteness, as_gram
from overparam.engines.plan import EnginePlan
from overparam.engines.remembered import remember

__all__ = ["AbstractGram", "Definiteness", "EnginePlan", "as_gram", "cross_matrix", "gram", "remember"]


def __getattr__(name: str) -> Any:
    now = new_name("engines", name)
    if now is None:
        raise AttributeError(f"overparam.engines has no {name!r}; see dir(overparam.engines)")
    return globals()[now]
