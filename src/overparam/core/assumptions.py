"""What a theorem asks for, and whether the case at hand has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AssumptionStatus = Literal["met", "unmet", "not checked"]


@dataclass(frozen=True)
class Assumption:
    """One condition of a statement: what it says, whether it holds here, and the numbers behind that.

    >>> Assumption("λ_min > 0", "met", "λ_min ≥ 0.01").status
    'met'
    """

    statement: str
    status: AssumptionStatus
    detail: str = ""


def checked(statement: str, holds: bool | None, detail: str = "") -> Assumption:
    """An `Assumption` from True, False or None (not known).

    >>> checked("unit rows", None).status
    'not checked'
    """
    status: AssumptionStatus = "not checked" if holds is None else ("met" if holds else "unmet")
    return Assumption(statement, status, detail)


INFINITE_WIDTH = Assumption(
    "the network is so wide that it trains like its linearisation",
    "not checked",
    "`laziness` at your width and initialisation scale says how far that is true",
)
RESIDUAL = Assumption(
    "the quadrature is of y − u(0), u(0) the outputs before training",
    "not checked",
    "y itself where the network starts at 0",
)
