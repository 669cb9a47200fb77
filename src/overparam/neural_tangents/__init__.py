"""The archived library's public names over the house: `import overparam.neural_tangents as nt`."""

from overparam.neural_tangents import stax
from overparam.neural_tangents.batching import batch
from overparam.neural_tangents.kernel import Kernel

__all__ = ["Kernel", "batch", "stax"]
