"""Models of other frameworks in the shape the house uses."""

from overparam.adapters.jax_models import EquinoxNetwork, FlaxNetwork, from_equinox, from_flax
from overparam.adapters.torch_module import TorchModule, from_torch

__all__ = ["EquinoxNetwork", "FlaxNetwork", "TorchModule", "from_equinox", "from_flax", "from_torch"]
