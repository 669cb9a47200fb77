"""Assumptions that many statements share."""

from __future__ import annotations

from overparam.core.assumptions import Assumption, AssumptionStatus, checked

__all__ = ["INFINITE_WIDTH", "RESIDUAL", "Assumption", "AssumptionStatus", "checked"]

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
