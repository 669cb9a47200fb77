"""Any function of one variable as an activation: its kernel by Gauss–Hermite quadrature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from overparam.core.checks import require_count
from overparam.core.traced import smooth
from overparam.layers.activation import AbstractActivation, activated, require_gaussian
from overparam.layers.kernel_pairs import Pairs, corrected
from overparam.layers.powers import AbstractByGaps
from overparam.layers.relu import gap_roots


@final
@dataclass(frozen=True)
class Elementwise(AbstractActivation):
    """φ(x), any smooth function written in JAX.

    Kernel: with u = √xx (c s + d t) and v = √zz (c s − d t), s, t ~ N(0, 1), c² = (1 + ρ)/2 and d² = (1 − ρ)/2, the new gap 1 − ρ is
    ½ E[(φ(u)/a − φ(v)/b)²], a² = E[φ(u)²], b² = E[φ(v)²]: no digits are lost where x and z are nearly parallel. Means are sums
    over `nodes` nodes a variable, exact for polynomials of a degree below `nodes`; `error` says what is left for others. A kink takes
    many nodes: such functions are better written as a sum of `LeakyRelu` and a smooth one.

    Args:
        formula: φ, of JAX arrays.
        nodes: of the quadrature, a variable.

    x³ has E[u⁶] = 15 and slopes 9 E[u⁴] = 27 at variance 1:

    >>> cube = Elementwise(lambda x: x**3, 4)
    >>> [round(float(value), 4) for value in cube.dual(np, np.array(1.0), np.array(1.0), np.array(1.0))]
    [15.0, 27.0]
    """

    homogeneous = False
    formula: Callable[[Any], Any]
    nodes: int = 40

    def __post_init__(self) -> None:
        if not callable(self.formula):
            raise ValueError(f"`formula` is {self.formula!r}; expected a function of JAX arrays, such as `jnp.tanh`")
        require_count(self.nodes, "nodes")

    def function(self, x: Any) -> Any:
        """φ(x)."""
        return self.formula(x)

    def square(self, xp: ModuleType, xx: Any) -> Any:
        """E[φ(u)²]."""
        return _made(xp, self._square, xx)

    def dual(self, xp: ModuleType, q: Any, xx: Any, zz: Any) -> tuple[Any, Any]:
        """By the gaps of q."""
        size = xp.sqrt(xx) * xp.sqrt(zz)
        ratio = q / xp.where(size > 0, size, 1.0)
        rho = corrected(xp, ratio, xp.clip(ratio, -1.0, 1.0))
        aa, bb, apart, together, slope = _made(xp, self._moments, xx, zz, 1 - rho, 1 + rho)
        return xp.sqrt(aa) * xp.sqrt(bb) * ((together - apart) / 2), slope

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """The gaps of the class, by means of squares."""
        require_gaussian(pairs, "this function")
        return activated(xp, pairs, *_made(xp, self._moments, pairs.xx, pairs.zz, pairs.apart, pairs.together))

    def error(self, variance: float = 1.0) -> float:
        """How far E[φ²] and E[φ′²] at a variance move, relative to them, when the nodes are doubled: an estimate, not a bound.

        >>> Elementwise(jnp.tanh, 40).error() < 1e-4 < Elementwise(jnp.tanh, 3).error()
        True
        """
        xx = np.array(float(variance))
        few, many = (Elementwise(self.formula, nodes).dual(np, xx, xx, xx) for nodes in (self.nodes, 2 * self.nodes))
        return max(float(abs(one - two) / max(abs(two), 1e-300)) for one, two in zip(few, many, strict=True))

    def _square(self, xx: Any) -> Any:
        nodes, weights = _gauss_hermite(self.nodes)
        return sum(w * jnp.square(self.formula(smooth.sqrt(xx) * s)) for s, w in zip(nodes, weights, strict=True))

    def _moments(self, xx: Any, zz: Any, apart: Any, together: Any) -> tuple[Any, ...]:
        """New second moments, gaps and slope."""
        aa, bb = self._square(xx), self._square(zz)
        a, b = (smooth.sqrt(jnp.where(each > 0, each, 1)) for each in (aa, bb))
        x, z = smooth.sqrt(xx), smooth.sqrt(zz)
        d, c = (root * 0.5**0.5 for root in gap_roots(smooth, apart, together))
        nodes, weights = _gauss_hermite(self.nodes)

        def step(sums: Any, node: Any) -> tuple[Any, None]:
            s, t, w = node
            (u, du), (v, dv) = (
                jax.jvp(self.formula, (each,), (jnp.ones_like(each),))
                for each in (x * (c * s + d * t), z * (c * s - d * t))
            )
            one, two = u / a, v / b
            terms = jnp.square(one - two) / 2, jnp.square(one + two) / 2, du * dv
            return tuple(total + w * term for total, term in zip(sums, terms, strict=True)), None

        shape = jnp.broadcast_shapes(x.shape, z.shape, c.shape)
        dtype = jnp.result_type(x, c)
        grid = [np.repeat(nodes, len(nodes)), np.tile(nodes, len(nodes)), np.outer(weights, weights).ravel()]
        kept = grid[2] > 1e-40  # further out nothing is left of a weight
        sums, _ = jax.lax.scan(
            step, (jnp.zeros(shape, dtype),) * 3, tuple(jnp.asarray(each[kept], dtype) for each in grid)
        )
        return aa, bb, *sums


@final
@dataclass(frozen=True)
class KernelFormula(AbstractByGaps):
    """An activation known by its second moments alone: E[φφ] = f(q, xx, zz); E[φ′φ′] is the derivative of f by q.

    Near-parallel units have half of the digits, since their angle comes from f.

    Args:
        formula: f, of JAX arrays.

    The kernel q²/2 of (u² − 1)/2, for units of variance 1, has the slope q:

    >>> square = KernelFormula(lambda q, xx, zz: q**2 / 2)
    >>> [round(float(value[0]), 12) for value in square.dual(np, np.array([0.5]), np.ones(1), np.ones(1))]
    [0.125, 0.5]
    """

    homogeneous = False
    formula: Callable[[Any, Any, Any], Any]

    def __post_init__(self) -> None:
        if not callable(self.formula):
            raise ValueError(f"`formula` is {self.formula!r}; expected a function f(q, xx, zz) of JAX arrays")

    def function(self, x: Any) -> Any:
        """There is none."""
        raise ValueError("a kernel's formula has no finite layer; give the function itself to `Elementwise`")

    def kernel(self, xp: ModuleType, pairs: Pairs) -> Pairs:
        """By the formula and JAX's derivative of it."""
        require_gaussian(pairs, "this kernel")
        return activated(xp, pairs, *_made(xp, self._moments, pairs.second_moment(xp), pairs.xx, pairs.zz))

    def _moments(self, q: Any, xx: Any, zz: Any) -> tuple[Any, ...]:
        xx, zz = (jnp.broadcast_to(each, jnp.broadcast_shapes(q.shape, each.shape)) for each in (xx, zz))
        moment, slope = jax.jvp(lambda q: self.formula(q, xx, zz), (q,), (jnp.ones_like(q),))
        aa, bb = self.formula(xx, xx, xx), self.formula(zz, zz, zz)
        size = smooth.sqrt(aa) * smooth.sqrt(bb)
        rho = moment / jnp.where(size > 0, size, 1)
        rho = corrected(smooth, rho, jnp.clip(rho, -1, 1))
        return aa, bb, 1 - rho, 1 + rho, slope


def _gauss_hermite(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of N(0, 1), as Python's own floats where they are looped over."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()


def _made(xp: ModuleType, function: Any, *arrays: Any) -> Any:
    """By JAX; of NumPy arrays in float64 and back."""
    if xp is not np:
        return function(*arrays)
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, function(*(jnp.asarray(array, jnp.float64) for array in arrays)))
