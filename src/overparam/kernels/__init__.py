"""Kernels of infinitely wide networks, one file a family."""

from overparam.kernels.two_layer import TwoLayer

__all__ = ["TwoLayer"]
