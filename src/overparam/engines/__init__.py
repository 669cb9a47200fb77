"""How a kernel becomes a matrix: `dense` stores it, `matrix_free` stores nothing of size n²."""

from overparam.engines.cross import cross_matrix
from overparam.engines.matrix import AbstractGram, Definiteness, as_gram, gram
from overparam.engines.plan import EnginePlan
from overparam.engines.remembered import remember

__all__ = ["AbstractGram", "Definiteness", "EnginePlan", "as_gram", "cross_matrix", "gram", "remember"]
