"""neural-tangents as it was archived, imported in an environment of its own and without TensorFlow.

TensorFlow is needed by its `experimental` part alone. Where it is not installed, an empty module takes the place of that
part, so that the rest imports as it is.
"""

from __future__ import annotations

import importlib.util
import sys
import types

if importlib.util.find_spec("tensorflow") is None:
    sys.modules["neural_tangents.experimental"] = types.ModuleType("neural_tangents.experimental")

import neural_tangents as nt
from neural_tangents import stax

VERSION = "0.6.5"  # the last one; the package has no version attribute that agrees with its release

__all__ = ["VERSION", "nt", "stax"]
