"""Models of other frameworks in the shape the house uses."""

from overparam.adapters.equinox_model import EquinoxNetwork, from_equinox
from overparam.adapters.flax_model import FlaxNetwork, from_flax
from overparam.adapters.torch_module import TorchModule, from_torch

__all__ = ["EquinoxNetwork", "FlaxNetwork", "TorchModule", "from_equinox", "from_flax", "from_torch"]
