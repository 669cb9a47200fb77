"""Kernels that came as covariances in the midst of a JAX transformation: linear layers and one nonlinearity by the textbook's formulas.

Angles were rounded before they came, so that nothing is lost; and a program of a fifth of the size is compiled, as in phase diagrams, where
a map of covariances is differentiated inside of loops.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp

from overparam.core.traced import smooth
from overparam.layers import Bias, Dense, Identity
from overparam.layers.activation import AbstractActivation
from overparam.layers.layer import Chain


@dataclass(frozen=True, eq=False)
class Covariances:
    """Of Gaussian units or, once `bent`, of what a nonlinearity made of them; xx (n, 1) and zz (1, p) of each input with itself."""

    q: Any
    ntk: Any
    xx: Any
    zz: Any
    equal: Any
    units: int
    gaussian: bool
    bent: bool = False

    def passed(self, chain: Chain) -> Covariances | None:
        """After those layers; None where one of them needs angles, a second nonlinearity among them."""
        now = self
        for layer in chain:
            if isinstance(layer, Dense):
                gain = layer.scale**2 * now.units
                ntk = now.ntk
                if ntk is not None:
                    ntk = gain * layer.law.variance * ntk + (gain * now.q if layer.trained else 0.0)
                q, xx, zz = (gain * layer.law.variance * each for each in (now.q, now.xx, now.zz))
                now = replace(now, q=q, xx=xx, zz=zz, ntk=ntk, units=layer.units or 1, gaussian=True)
            elif isinstance(layer, Bias) and len(layer.law.cases) == 1:
                level = layer.scale**2 * layer.law.variance
                ntk = now.ntk if now.ntk is None or not layer.trained else now.ntk + layer.scale**2
                now = replace(now, q=now.q + level, xx=now.xx + level, zz=now.zz + level, ntk=ntk)
            elif isinstance(layer, AbstractActivation) and now.gaussian and not now.bent:
                if not isinstance(layer, Identity):
                    now = now._bent(layer)
            else:
                return None
        return now

    def _bent(self, layer: AbstractActivation) -> Covariances:
        size = smooth.sqrt(self.xx) * smooth.sqrt(self.zz)
        q, slope = layer.dual(smooth, jnp.where(self.equal, size, self.q), self.xx, self.zz)
        xx, zz = layer.square(smooth, self.xx), layer.square(smooth, self.zz)
        ntk = None if self.ntk is None else self.ntk * slope
        return replace(self, q=q, ntk=ntk, xx=xx, zz=zz, gaussian=False, bent=True)

    def read(self, name: str) -> Any:
        """As a `Kernel` names them."""
        if name in ("cov1", "cov2"):
            return self.xx[:, 0] if name == "cov1" else self.zz[0]
        return self.q if name == "nngp" else jnp.broadcast_to(self.ntk, self.q.shape)
