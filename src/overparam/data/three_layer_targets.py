"""Ground truths with two smooth hidden layers, and samples of them in the form the theorems ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from overparam.core import checks
from overparam.data.dataset import Dataset
from overparam.data.keys import generator
from overparam.data.paddings import pad_beyond_two_layers

NAMED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "identity": lambda z: z,
    "one": np.ones_like,
    "square": np.square,
    "cube": lambda z: z**3,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "exp": np.exp,
    "sinh": np.sinh,
}
"""Smooth functions by name."""

DRAWS = 2**15
"""Points on which the variance of a target is measured where one is asked for."""


@final
@dataclass(frozen=True)
class SmoothFunction:
    """z ↦ f(s z): a function of `NAMED` with its argument stretched.

    >>> float(SmoothFunction("square", 3.0)(np.array(2.0)))
    36.0
    """

    name: str
    stretch: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in NAMED:
            raise ValueError(
                f"{self.name!r} is no smooth function of ours; expected one of {', '.join(NAMED)}, or your own"
            )

    def __call__(self, z: Any) -> np.ndarray:
        return NAMED[self.name](self.stretch * np.asarray(z))

    def __str__(self) -> str:
        return self.name if self.stretch == 1 else f"{self.name}({self.stretch:g}z)"


Smooth = str | Callable[[np.ndarray], np.ndarray]


@final
@dataclass(frozen=True, eq=False, repr=False)
class ThreeLayerTarget:
    """f_r(x) = s Σ_i a_{r,i} Φ_i(Σ_j V1_{ij} φ1_j(w1_j·x)) · (Σ_j V2_{ij} φ2_j(w2_j·x)), i ≤ p₁, j ≤ p₂, r ≤ k.

    Φ = identity gives the correlations of non-linear measurements that two layers are not known to learn; φ2 = "one"
    gives a plain three-layer network; φ1 = φ2 = cos(100z), p₁ = p₂ = 1 the example cos(100 w1·x) cos(100 w2·x).

    Ref: beyond_two_layers, Eq. (6), (7), (8), (19)

    Assumes: rows of W1, W2 (p₂, d) and of V1, V2 (p₁, p₂) of norm 1, |a| ≤ 1 for a of shape (k, p₁), checked here.

    Differs from the paper: s, 1 unless a variance was asked for; the theorems' |a| ≤ 1 is then about s·a. With
    φ2 = "one" and unit rows of V2 the second factor is a constant Σ_j V2_{ij} and not 1: it goes into a.

    Args:
        outer: Φ_i, one for all or p₁ of them: names of `NAMED`, `SmoothFunction`s or functions over NumPy arrays.
        first, second: φ1_j and φ2_j, one for all or p₂ of them.

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
    outer: Smooth | Sequence[Smooth] = "identity"
    first: Smooth | Sequence[Smooth] = "sin"
    second: Smooth | Sequence[Smooth] = "cos"
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("W1", "W2", "V1", "V2", "a"):
            object.__setattr__(self, name, checks.finite_matrix(getattr(self, name), name))
        (p2, d), p1 = self.W1.shape, self.a.shape[1]
        for name, shape in (("W2", (p2, d)), ("V1", (p1, p2)), ("V2", (p1, p2))):
            if getattr(self, name).shape != shape:
                raise ValueError(f"`{name}` has shape {getattr(self, name).shape}; expected {shape}")
        for name in ("W1", "W2", "V1", "V2"):
            if not np.allclose(checks.row_norms(getattr(self, name)), 1.0, rtol=0, atol=1e-6):
                raise ValueError(f"`{name}` has a row whose norm is not 1; divide each by its norm")
        if np.abs(self.a).max() > 1:
            raise ValueError(f"`a` has an entry of size {np.abs(self.a).max():g}; expected at most 1")
        for name, count in (("outer", p1), ("first", p2), ("second", p2)):
            object.__setattr__(self, name, _functions(getattr(self, name), count, name))

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
        key: Any = 0,
    ) -> ThreeLayerTarget:
        """A target with rows of W and V uniform on their spheres and a = ±1.

        Args:
            d: inputs, the two padded coordinates among them.
            p1, p2, outputs: p₁, p₂ and k.
            variance: s is chosen so that this is the variance, averaged over outputs, on `DRAWS` inputs of the law.
            key: an int or a JAX key.
        """
        for name, count, least in (("d", d, 3), ("p1", p1, 1), ("p2", p2, 1), ("outputs", outputs, 1)):
            if isinstance(count, bool) or int(count) != count or count < least:
                raise ValueError(f"`{name}` is {count!r}; expected a whole number ≥ {least}")
        rng = generator(key, 0)
        spheres = [rng.standard_normal(shape) for shape in ((p2, d), (p2, d), (p1, p2), (p1, p2))]
        W1, W2, V1, V2 = (rows / checks.row_norms(rows)[:, None] for rows in spheres)
        target = cls(W1, W2, V1, V2, rng.choice([-1.0, 1.0], size=(outputs, p1)), outer, first, second)
        if variance is None:
            return target
        if not 0 < variance < np.inf:
            raise ValueError(f"`variance` is {variance!r}; expected a number > 0")
        there = float(np.var(target(padded_inputs(DRAWS, d, key=rng.integers(2**62))), axis=0).mean())
        if there < 1e-24:
            raise ValueError(
                "the target is constant on the inputs and cannot be given a variance; change its functions"
            )
        return replace(target, scale=float(np.sqrt(variance / there)))

    @property
    def d(self) -> int:
        return self.W1.shape[1]

    @property
    def p1(self) -> int:
        return self.a.shape[1]

    @property
    def p2(self) -> int:
        return self.W1.shape[0]

    @property
    def outputs(self) -> int:
        return self.a.shape[0]

    def __call__(self, X: Any) -> np.ndarray:
        """Values at the rows of X: (n,), or (n, k) for k > 1."""
        X = checks.finite_matrix(X)
        if X.shape[1] != self.d:
            raise ValueError(f"`X` has {X.shape[1]} columns; the target takes {self.d}")
        inside = self._measured(self.first, X @ self.W1.T) @ self.V1.T
        factor = self._measured(self.second, X @ self.W2.T) @ self.V2.T
        values = self.scale * (self._measured(self.outer, inside) * factor) @ self.a.T
        return values[:, 0] if self.outputs == 1 else values

    @staticmethod
    def _measured(functions: Any, Z: np.ndarray) -> np.ndarray:
        return np.stack([f(Z[:, j]) for j, f in enumerate(functions)], axis=1)

    def sample(self, n: int, *, key: Any, noise: float = 0.0, test: int = 0) -> Dataset:
        """`n` inputs of `padded_inputs` with y = f(x) + noise · N(0, 1), and `test` more as the test rows, noise-free.

        >>> data = ThreeLayerTarget.draw(5, key=0).sample(4, key=1, test=3)
        >>> data.X.shape, data.y.shape, data.test.n, data.X[:, -1].tolist()
        ((4, 5), (4,), 3, [0.5, 0.5, 0.5, 0.5])
        """
        if self.outputs > 1:
            raise ValueError(f"a Dataset holds one real target a row and this one has {self.outputs}; use target(X)")
        if not 0 <= noise < np.inf:
            raise ValueError(f"`noise` is {noise!r}; expected a standard deviation ≥ 0")
        rng = generator(key, 1)
        inside, outside, errors = (int(word) for word in rng.integers(2**62, size=3))
        X = padded_inputs(n, self.d, key=inside)
        y = self(X)
        y = y + noise * generator(errors).standard_normal(y.shape)
        new = None if not test else self._dataset(padded_inputs(test, self.d, key=outside))
        return self._dataset(X, y, new)

    def _dataset(self, X: np.ndarray, y: np.ndarray | None = None, test: Dataset | None = None) -> Dataset:
        y = self(X) if y is None else y
        return Dataset(X, y, labels=y, task="regression", name=repr(self), test=test)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {_shown(getattr(self, name))}" for name in ("outer", "first", "second"))
        return f"ThreeLayerTarget(d={self.d}, p1={self.p1}, p2={self.p2}, outputs={self.outputs}, {shown})"


def padded_inputs(n: int, d: int, *, key: Any) -> np.ndarray:
    """`n` points uniform on all that the padding can give: ‖x‖ = 1, x_d = ½, x_{d−1} ≥ 0.

    They are the first d − 2 coordinates of a uniform point of the unit sphere in d − 1 dimensions, padded.

    Ref: beyond_two_layers, footnote 1

    >>> X = padded_inputs(3, 6, key=0)
    >>> np.allclose((X**2).sum(axis=1), 1), X[:, -1].tolist(), bool((X[:, -2] >= 0).all())
    (True, [0.5, 0.5, 0.5], True)
    """
    if isinstance(n, bool) or int(n) != n or n < 1:
        raise ValueError(f"`n` is {n!r}; expected a whole number ≥ 1")
    if d < 3:
        raise ValueError(f"`d` is {d!r}; expected at least 3: one coordinate of the data and the two padded ones")
    sphere = generator(key).standard_normal((int(n), d - 1))
    sphere /= checks.row_norms(sphere)[:, None]
    return pad_beyond_two_layers(sphere[:, : d - 2], longest=1.0)


def _functions(given: Any, count: int, name: str) -> tuple[Callable[[np.ndarray], np.ndarray], ...]:
    many = given if isinstance(given, list | tuple) else (given,) * count
    if len(many) != count:
        raise ValueError(f"`{name}` has {len(many)} functions; expected one, or {count}")
    found = tuple(SmoothFunction(f) if isinstance(f, str) else f for f in many)
    for f in found:
        if not callable(f):
            raise ValueError(f"`{name}` has {f!r}; expected a name out of {', '.join(NAMED)}, or a function")
    return found


def _shown(functions: Sequence[Any]) -> str:
    words = dict.fromkeys(
        str(f) if isinstance(f, SmoothFunction) else getattr(f, "__name__", "given") for f in functions
    )
    return "/".join(words)
