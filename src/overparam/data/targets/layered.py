"""Ground truths with one or two smooth hidden layers, samples of them as the theorems ask, and their complexity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.core.checks import finite_number, whole_number
from overparam.core.words import power_of_e
from overparam.data.draws import generator
from overparam.data.targets.smooth import Smooth, SmoothFunction, as_functions, series_of, shown
from overparam.data.targets.target import AbstractTarget, padded_inputs, scale_for_variance
from overparam.functions.complexity import second_layer


@final
@dataclass(frozen=True)
class LayerComplexity:
    """ln C(φ, R) of the first layer, and of the second, ln C(Φ, R₂), where there is one.

    The radius is R = √log(p/ε) of two layers and √log(1/ε) of three; R₂ = √p₂ C(φ, R) R, given by its logarithm.
    `log_second` is a Decimal where it leaves float64.

    Ref: beyond_two_layers, Eq. (17), (18), Lemma 5.3
    """

    p: int
    log_first: float
    radius: float
    epsilon: float
    C: float
    log_second: float | Decimal | None = None
    log_second_radius: float | None = None

    def __str__(self) -> str:
        words = f"C(φ, {self.radius:.4g}) = {power_of_e(self.log_first)}"
        if self.log_second is not None:
            words += f", C(Φ, e^{self.log_second_radius:.6g}) = {power_of_e(self.log_second)}"
        return f"{words} (p = {self.p}, ε = {self.epsilon:g}, C = {self.C:g})"


def largest_at(found: Sequence[Any], ratio: float, epsilon: float, C: float) -> LayerComplexity:
    """The largest ln C(φ, √log(ratio/ε)) over functions."""
    if not 0 < epsilon < 1:
        raise ValueError(f"`epsilon` is {epsilon!r}; expected a number between 0 and 1")
    radius = math.sqrt(math.log(ratio / epsilon))
    log = max(float(series_of(f).log_complexity(radius, C=C)) for f in {id(f): f for f in found}.values())
    return LayerComplexity(len(found), log, radius, float(epsilon), float(C))


def with_second_layer(
    first: Sequence[Any], second: Sequence[Any], p2: int, epsilon: float, C: float
) -> LayerComplexity:
    """ln C(φ, √log(1/ε)), and ln C(Φ, R₂) at R₂ = √p₂ C(φ, √log(1/ε)) √log(1/ε), as `functions.three_layer_scales`.

    Ref: beyond_two_layers, Lemma 5.3
    """
    found = largest_at(first, 1.0, epsilon, C)
    outer = [series_of(f) for f in {id(f): f for f in second}.values()]
    log_radius, log_second = second_layer(found.log_first, outer, p2=p2, epsilon=epsilon, C=C)
    leaves = log_second.is_finite() and math.isinf(float(log_second))
    return replace(
        found,
        p=len(second),
        log_second=log_second if leaves else float(log_second),
        log_second_radius=log_radius,
    )


class AbstractLayered(AbstractTarget):
    """What both targets share: inputs of norm 1 with last coordinate ½, unit rows, |a| ≤ 1 of shape (k, p), and a scale s."""

    W1: np.ndarray
    a: np.ndarray
    scale: float

    @property
    def d(self) -> int:
        return self.W1.shape[1]

    @property
    def outputs(self) -> int:
        return self.a.shape[0]

    def inputs(self, n: int, *, key: Any) -> np.ndarray:
        """`n` points of `padded_inputs`."""
        return padded_inputs(n, self.d, key=key)

    def _check(self, shapes: Mapping[str, Any], **functions: int) -> None:
        """What the theorems assume: matrices of these shapes with rows of norm 1, |a| ≤ 1; and so many functions of each name."""
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"`{name}` has shape {getattr(self, name).shape}; expected {shape}")
        for name in shapes:
            if not np.allclose(checks.row_norms(getattr(self, name)), 1.0, rtol=0, atol=1e-6):
                raise ValueError(f"`{name}` has a row whose norm is not 1; divide each by its norm")
        if np.abs(self.a).max() > 1:
            raise ValueError(f"`a` has an entry of size {np.abs(self.a).max():g}; expected at most 1")
        for name, count in functions.items():
            object.__setattr__(self, name, as_functions(getattr(self, name), count, name))

    def _set_matrices(self, *names: str) -> None:
        for name in (*names, "a"):
            object.__setattr__(self, name, checks.finite_matrix(getattr(self, name), name))
        object.__setattr__(self, "scale", finite_number(self.scale, "scale"))

    def _with_variance(self, variance: float | None, rng: np.random.Generator) -> Any:
        if variance is None:
            return self
        return replace(self, scale=scale_for_variance(self, variance, key=rng.integers(2**62)))  # pyright: ignore[reportArgumentType]


def _on_spheres(*matrices: np.ndarray) -> list[np.ndarray]:
    return [rows / checks.row_norms(rows)[:, None] for rows in matrices]


def _each(functions: Any, Z: np.ndarray) -> np.ndarray:
    """Function j of column j."""
    return np.stack([f(Z[:, j]) for j, f in enumerate(functions)], axis=1)


@final
@dataclass(frozen=True, eq=False, repr=False)
class TwoLayerTarget(AbstractLayered):
    """f_r(x) = s Σ_{i≤p} a_{r,i} φ_i(w1_i·x) (w2_i·x), r ≤ k, on inputs with ‖x‖ = 1 and x_d = ½.

    w2_i = (0, …, 0, 1) gives half a plain two-layer network, Σ a φ_i(w1_i·x)/2, since x_d = ½.

    Ref: beyond_two_layers, Eq. (3), (4)

    Assumes: rows of W1 and W2 (p, d) of norm 1, |a| ≤ 1 for a of shape (k, p), checked here.

    Differs from the paper: s, 1 unless a variance was asked for; the theorem's |a| ≤ 1 is then about s·a.

    Args:
        functions: φ_i, one for all or p of them: names of smooth functions, power series, functions over arrays.

    At x = (1, 0) with w1 = w2 = (1, 0): exp(1) · 1.

    >>> e = np.eye(2)
    >>> target = TwoLayerTarget(e[:1], e[:1], [[1.0]], "exp")
    >>> bool(np.isclose(target([[1.0, 0.0]])[0], np.e))
    True
    """

    W1: np.ndarray
    W2: np.ndarray
    a: np.ndarray
    functions: Any = "sin"
    scale: float = 1.0

    def __post_init__(self) -> None:
        self._set_matrices("W1", "W2")
        self._check(dict.fromkeys(("W1", "W2"), (self.p, self.d)), functions=self.p)

    @classmethod
    def draw(
        cls,
        d: int,
        *,
        p: int = 2,
        outputs: int = 1,
        functions: Smooth | Sequence[Smooth] = "sin",
        variance: float | None = None,
        key: Any = 0,
    ) -> TwoLayerTarget:
        """A target with rows of W1 and W2 uniform on the sphere and a = ±1.

        Args:
            d: inputs, the two padded coordinates among them.
            p, outputs: p and k.
            variance: s is chosen so that this is the variance, averaged over outputs, on drawn inputs of the law.
            key: an int or a JAX key.
        """
        d, p, outputs = whole_number(d, "d", 3), whole_number(p, "p", 1), whole_number(outputs, "outputs", 1)
        rng = generator(key, 0)
        W1, W2 = _on_spheres(*rng.standard_normal((2, p, d)))
        target = cls(W1, W2, rng.choice([-1.0, 1.0], size=(outputs, p)), functions)
        return target._with_variance(variance, rng)

    @property
    def p(self) -> int:
        return self.a.shape[1]

    def values(self, X: np.ndarray) -> np.ndarray:
        """f, (n, k)."""
        return self.scale * (_each(self.functions, X @ self.W1.T) * (X @ self.W2.T)) @ self.a.T

    def complexity(self, epsilon: float = 0.01, C: float = 1e4) -> LayerComplexity:
        """ln C(φ, √log(p/ε)), the largest over the functions: what the width and the samples of Thm 4.1 depend on.

        Ref: beyond_two_layers, Eq. (17), (18), Thm 4.1
        """
        return largest_at(self.functions, float(self.p), epsilon, C)

    def __repr__(self) -> str:
        return f"TwoLayerTarget(d={self.d}, p={self.p}, outputs={self.outputs}, functions {shown(self.functions)})"


@final
@dataclass(frozen=True, eq=False, repr=False)
class ThreeLayerTarget(AbstractLayered):
    """f_r(x) = s Σ_i a_{r,i} Φ_i(Σ_j V1_{ij} φ1_j(w1_j·x)) · (Σ_j V2_{ij} φ2_j(w2_j·x)), i ≤ p₁, j ≤ p₂, r ≤ k.

    With W3 and W4 it is the general form: φ1_j(w1_j·x) is multiplied by w3_j·x, and φ2_j(w2_j·x) by w4_j·x.

    Φ = identity gives the correlations of non-linear measurements that two layers are not known to learn; φ2 = "one"
    gives a plain three-layer network; φ1 = φ2 = cos(100z), p₁ = p₂ = 1 the example cos(100 w1·x) cos(100 w2·x).

    Ref: beyond_two_layers, Eq. (6), (7), (8), (9), (19)

    Assumes: rows of W1, W2 (W3, W4) (p₂, d) and of V1, V2 (p₁, p₂) of norm 1, |a| ≤ 1 for a of shape (k, p₁), checked here.

    Differs from the paper: s, 1 unless a variance was asked for; the theorems' |a| ≤ 1 is then about s·a. With
    φ2 = "one" and unit rows of V2 the second factor is a constant Σ_j V2_{ij} and not 1: it goes into a.

    Args:
        outer: Φ_i, one for all or p₁ of them: names of smooth functions, power series or functions over arrays.
        first, second: φ1_j and φ2_j, one for all or p₂ of them.
        W3, W4: both or none.

    At x = (1, 0) this one is sin(1)·cos(0):

    >>> e, unit = np.eye(2), np.ones((1, 1))
    >>> target = ThreeLayerTarget(e[:1], e[1:], unit, unit, unit, "identity", "sin", "cos")
    >>> bool(np.isclose(target(np.array([[1.0, 0.0]]))[0], np.sin(1.0)))
    True
    """

    W1: np.ndarray
    W2: np.ndarray
    V1: np.ndarray
    V2: np.ndarray
    a: np.ndarray
    outer: Any = "identity"
    first: Any = "sin"
    second: Any = "cos"
    scale: float = 1.0
    W3: np.ndarray | None = None
    W4: np.ndarray | None = None

    def __post_init__(self) -> None:
        if (self.W3 is None) != (self.W4 is None):
            raise ValueError("`W3` and `W4` go together: give both, or none")
        inner = ("W1", "W2") if self.W3 is None else ("W1", "W2", "W3", "W4")
        self._set_matrices(*inner, "V1", "V2")
        shapes = {**dict.fromkeys(inner, self.W1.shape), **dict.fromkeys(("V1", "V2"), (self.p1, self.p2))}
        self._check(shapes, outer=self.p1, first=self.p2, second=self.p2)

    @classmethod
    def draw(
        cls,
        d: int,
        *,
        p1: int = 2,
        p2: int = 2,
        outputs: int = 1,
        outer: Smooth | Sequence[Smooth] = "identity",
        first: Smooth | Sequence[Smooth] = "sin",
        second: Smooth | Sequence[Smooth] = "cos",
        variance: float | None = None,
        general: bool = False,
        key: Any = 0,
    ) -> ThreeLayerTarget:
        """A target with rows of W and V uniform on their spheres and a = ±1.

        Args:
            d: inputs, the two padded coordinates among them.
            p1, p2, outputs: p₁, p₂ and k.
            variance: s is chosen so that this is the variance, averaged over outputs, on drawn inputs of the law.
            general: draw W3 and W4 too.
            key: an int or a JAX key.
        """
        for name, count, least in (("d", d, 3), ("p1", p1, 1), ("p2", p2, 1), ("outputs", outputs, 1)):
            whole_number(count, name, least)
        rng = generator(key, 0)
        W1, W2, V1, V2 = _on_spheres(*(rng.standard_normal(shape) for shape in ((p2, d), (p2, d), (p1, p2), (p1, p2))))
        a = rng.choice([-1.0, 1.0], size=(outputs, p1))
        W3, W4 = _on_spheres(*rng.standard_normal((2, p2, d))) if general else (None, None)
        target = cls(W1, W2, V1, V2, a, outer, first, second, W3=W3, W4=W4)
        return target._with_variance(variance, rng)

    @classmethod
    def cosines(cls, w1: Any, w2: Any, frequency: float = 100.0) -> ThreeLayerTarget:
        """cos(100 w1·x) · cos(100 w2·x), which three layers learn and two are not known to; w1, w2 of norm 1.

        Ref: beyond_two_layers, Eq. (19)

        >>> target = ThreeLayerTarget.cosines([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
        >>> bool(np.isclose(target([[0.6, 0.8, 0.0]])[0], np.cos(60) * np.cos(80)))
        True
        """
        fast, unit = SmoothFunction("cos", float(frequency)), np.ones((1, 1))
        return cls(np.atleast_2d(w1), np.atleast_2d(w2), unit, unit, unit, "identity", fast, fast)

    @property
    def p1(self) -> int:
        return self.a.shape[1]

    @property
    def p2(self) -> int:
        return self.W1.shape[0]

    def values(self, X: np.ndarray) -> np.ndarray:
        """f, (n, k)."""
        first, second = _each(self.first, X @ self.W1.T), _each(self.second, X @ self.W2.T)
        if self.W3 is not None and self.W4 is not None:
            first, second = first * (X @ self.W3.T), second * (X @ self.W4.T)
        inside, factor = first @ self.V1.T, second @ self.V2.T
        return self.scale * (_each(self.outer, inside) * factor) @ self.a.T

    def complexity(self, epsilon: float = 0.01, C: float = 1e4) -> LayerComplexity:
        """ln C(φ, R) with R = √log(1/ε), and ln C(Φ, √p₂ C(φ, R) R), the largest over the functions of each layer.

        Ref: beyond_two_layers, Eq. (17), (18), Lemma 5.3

        Differs from the paper: Thm 4.2 as printed leaves out the last R, which Lemma 5.3 has.
        """
        return with_second_layer((*self.first, *self.second), self.outer, self.p2, epsilon, C)

    def __repr__(self) -> str:
        words = ", ".join(f"{name} {shown(getattr(self, name))}" for name in ("outer", "first", "second"))
        return f"ThreeLayerTarget(d={self.d}, p1={self.p1}, p2={self.p2}, outputs={self.outputs}, {words})"
