"""A model as a user's file has it, for the command `foresee`: the same network as the case of the verb."""

from __future__ import annotations

import overparam as op


def make() -> op.networks.FullyConnected:
    return op.networks.FullyConnected(8, 2)
