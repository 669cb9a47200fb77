"""Algorithm 1 of `beyond_kernels` with all that Appendix D speaks of recorded along it.

W and V are what was added to the initial weights; W* and V* are weights near them that are the target, which the proof
compares the run with. Expectations are over rows that are given: over a whole cube they are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from overparam.audits.beyond_kernels import ResNetCase
from overparam.core import checks
from overparam.data import GeneralSum, HierarchicalTarget
from overparam.functions import SmoothTarget, existence_weights

RECORDS = 24


@final
@dataclass(frozen=True, eq=False)
class Comparator:
    """W* and V*, by the name of how they were made."""

    name: str
    W: np.ndarray
    V: np.ndarray


@final
@dataclass(frozen=True, eq=False)
class Truth:
    """H = F + αG(F) on the rows of a case, (n, k) each, and G itself."""

    F: np.ndarray
    GF: np.ndarray
    G: Callable[[np.ndarray], np.ndarray]
    alpha: float

    @property
    def H(self) -> np.ndarray:
        """F + αG(F)."""
        return self.F + self.alpha * self.GF


def truth_on(target: HierarchicalTarget, X: np.ndarray) -> Truth:
    """The parts of a target of Concept 2 with β = 1 on rows."""
    if target.concept != 2 or target.beta != 1:
        raise ValueError(f"`target` is {target!r}; expected Concept 2 with beta 1: `general()` of one of Concept 1")
    F = target.base(X)
    return Truth(F, np.asarray(target.G(F), float), target.G, target.alpha)


def as_smooth_target(F: GeneralSum, factor: float = 1.0) -> SmoothTarget:
    """A sum of Def. B.1, times a factor of at most 1, as the function of (x, 1) that `existence_weights` takes.

    Ref: beyond_kernels, Def. B.1

    >>> F = GeneralSum([[1.0]], [[1.0, 0.0]], [[0.0, 1.0]], "sin")
    >>> bool(np.isclose(as_smooth_target(F, 0.5)([[3.0, 1.0]]), 0.5 * F([[3.0]])))
    True
    """
    places = np.argwhere(F.a).tolist()
    a = np.zeros((F.outputs, len(places)))
    for column, (r, i) in enumerate(places):
        a[r, column] = factor * F.a[r, i]
    functions = [getattr(F.functions[r][i], "series", F.functions[r][i]) for r, i in places]
    W1, W2 = (np.array([W[r, i] for r, i in places]) for W in (F.W1, F.W2))
    return SmoothTarget(functions, W1, W2, a)


def built(case: ResNetCase, target: HierarchicalTarget) -> Comparator:
    """W* and V* of Lemma D.2, by the construction of Lemma F.1: W* is F on (x, 1), V* is αG on (z, 1) for every z.

    Ref: beyond_kernels, Lemma D.2, Lemma F.1
    """
    m = len(case.W)
    parts = ((target.F, 1.0, case.W, case.sigma_w), (target.G, target.alpha, case.V, case.sigma_v * m**-0.5))
    W, V = (
        existence_weights(as_smooth_target(of, factor), start, case.A, weight_scale=scale, output_scale=m**-0.5).W
        for of, factor, start, scale in parts
    )
    return Comparator("built", W, V)


def fitted(case: ResNetCase, truth: Truth) -> Comparator:
    """The W* and V* of least Frobenius norm with A D_W⁰ W*(x, 1) = F(x) and A D_V⁰ V*(F(x), 1) = αG(F(x)) on all rows.

    The lemma asks for the second at every out₁(x); this one has it where out₁ = F.
    """
    z = np.column_stack([truth.F, np.ones(len(truth.F))])
    W = least_norm(case.A, case.X1 @ case.W.T >= 0, case.X1, truth.F)
    V = least_norm(case.A, z @ case.V.T >= 0, z, truth.alpha * truth.GF)
    return Comparator("fitted", W, V)


def least_norm(A: np.ndarray, on: np.ndarray, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The U of least Frobenius norm among those with the least Σ_i ‖A D_i U x_i − y_i‖².

    The map is U ↦ A D_i U x_i, its Gram matrix has (A D_i D_j Aᵀ) ⟨x_i, x_j⟩ as blocks, and equal rows are one.

    >>> U = least_norm(np.array([[2.0, 1.0]]), np.array([[True, False]]), np.array([[3.0]]), np.array([[12.0]]))
    >>> U.round(12).tolist()  # 2 · u · 3 = 12
    [[2.0], [0.0]]
    """
    _, first = np.unique(rows.round(9), axis=0, return_index=True)
    on, rows, values = on[first].astype(float), rows[first], values[first]
    n, k = values.shape
    pairs = (A[:, None] * A[None]).reshape(k * k, -1)
    gram = np.empty((n, k, n, k))
    for i in range(n):
        blocks = (on * on[i]) @ pairs.T
        gram[i] = (blocks * (rows @ rows[i])[:, None]).reshape(n, k, k).transpose(1, 0, 2)
    values_of, vectors = np.linalg.eigh(gram.reshape(n * k, n * k))
    kept = values_of > n * k * np.finfo(float).eps * values_of[-1]
    weights = (vectors[:, kept] / values_of[kept]) @ (vectors[:, kept].T @ values.ravel())
    return ((weights.reshape(n, k) @ A) * on).T @ rows


def looked_at(case: ResNetCase, truth: Truth, W: np.ndarray, V: np.ndarray, star: Comparator) -> dict[str, float]:
    """Every quantity of Lemma D.2 to Claim D.7 at one W and V, over the rows of a case.

    Means are those of squares unless the name ends with `most`, which is the largest over rows.

    Ref: beyond_kernels, Lemma D.2, Lemma D.3, Claim D.5, Claim D.6, Claim D.7
    """
    A, k = case.A, len(case.A)
    g0, g, z = case.first(W)
    h0 = z @ case.V.T
    h = h0 + z @ V.T
    out1, lengths = z[:, :-1], np.linalg.norm(z, axis=1)
    out = out1 + np.maximum(h, 0) @ A.T
    r = truth.H - out

    def through(on: np.ndarray, moved: np.ndarray) -> np.ndarray:
        return (on * moved) @ A.T

    Wx, Vz = case.X1 @ star.W.T, z @ star.V.T
    first0, first, own = through(g0 >= 0, Wx), through(g >= 0, Wx), through(g >= 0, case.X1 @ W.T)
    second0, second, other = through(h0 >= 0, Vz), through(h >= 0, Vz), through(h >= 0, z @ V.T)
    composed = truth.alpha * np.asarray(truth.G(out1), float)
    # J = A D_{V,W} (V⁰ + V) without its last column: how out moves with out₁
    columns = (case.V + V)[:, :-1]
    J = ((h >= 0) @ (A[:, None] * columns.T[None]).reshape(k * k, -1).T).reshape(-1, k, k)
    clubs = np.einsum("nij,nj->ni", J, first - own)
    err = clubs + (first - own) + (second - other) - r
    back = r @ A * (h >= 0)
    gradient_w = ((r + back @ columns) @ A) * (g >= 0)
    sizes, gap = _norm(r), _norm(out1 - truth.F)
    steep = _norm(np.asarray(truth.G(out1), float) - truth.GF) / np.maximum(gap, np.finfo(float).tiny)
    return {
        "first": _mean_square(first0 - truth.F),
        "second_most": float((_norm(second0 - composed) / lengths).max()),
        "first_turned": _mean_square(first - first0),
        "first_now": _mean_square(first - truth.F),
        "second_turned_most": float((_norm(second - second0) / lengths).max()),
        "second_now_most": float((_norm(second - composed) / lengths).max()),
        "rest": _mean_square(first - own - (truth.F - out1)),
        "gradient_w_most": _most_ratio(_norm(gradient_w) * _norm(case.X1), sizes),
        "gradient_v_most": _most_ratio(_norm(back) * lengths, sizes),
        "clubs": _mean_square(clubs),
        "spades": _mean_square(first + second - truth.H),
        "diamonds": _mean_square(own + other - out),
        "err": _mean_square(err),
        "err_most": float(_norm(err).max()),
        "base_gap": _mean_square(out1 - truth.F),
        "error": _mean_square(r),
        "excess_most": float(np.maximum(gap - 2 * sizes, 0).max()),
        "slope_most": float(steep.max()),
        "size": float(((_norm(out1) + 1) ** 2).mean()),
        "matrix_most": float(np.linalg.norm(_first_matrix(case, h), ord=2, axis=(1, 2)).max()),
    }


def _first_matrix(case: ResNetCase, h: np.ndarray) -> np.ndarray:
    """A D_{V,W} V⁰ for every row."""
    k, width = len(case.A), case.V.shape[1]
    return ((h >= 0) @ (case.A[:, None] * case.V.T[None]).reshape(k * width, -1).T).reshape(-1, k, width)


def _norm(rows: np.ndarray) -> np.ndarray:
    return np.linalg.norm(rows, axis=1)


def _mean_square(rows: np.ndarray) -> float:
    return float((rows**2).sum(axis=1).mean())


def _most_ratio(sizes: np.ndarray, of: np.ndarray) -> float:
    return float((sizes / np.maximum(of, np.finfo(float).tiny)).max())


@final
@dataclass(frozen=True, eq=False)
class ResNetRun:
    """Algorithm 1, and what was recorded.

    moved_w, moved_v: ‖W_t‖_F and ‖V_t‖_F at the p recorded `steps`. At every step: squares: ‖H(x_t) − out(x_t)‖². hearts: ♡_t.
    By the name of a comparator: seen, what `looked_at` gives, (p,) each; products: Ξ_t at every step; errs: ‖Err_t‖²
    at every step; distances: (p, 2), ‖W_t − W*‖_F² and ‖V_t − V*‖_F².
    """

    case: ResNetCase
    truth: Truth
    rates: Mapping[str, float]
    stars: tuple[Comparator, ...]
    steps: np.ndarray
    moved_w: np.ndarray
    moved_v: np.ndarray
    squares: np.ndarray
    hearts: np.ndarray
    seen: Mapping[str, Mapping[str, np.ndarray]]
    products: Mapping[str, np.ndarray]
    errs: Mapping[str, np.ndarray]
    distances: Mapping[str, np.ndarray]

    @property
    def m(self) -> int:
        """Width."""
        return len(self.case.W)

    def defect(self, star: str) -> np.ndarray:
        """How far the telescoped identity of the proof is from holding at the recorded steps, as a share of its terms: rounding.

        Σ_{t<T} Ξ_t = Σ_{t<T} ♡_t + (‖W*‖² − ‖W_T − W*‖²)/(2η_w) + (‖V*‖² − ‖V_T − V*‖²)/(2η_v)
        """
        halves = 0.5 / np.array([self.rates["W"], self.rates["V"]])
        left = np.concatenate([[0.0], np.cumsum(self.products[star])])[self.steps]
        hearts = np.concatenate([[0.0], np.cumsum(self.hearts)])[self.steps]
        far = self.distances[star] * halves
        terms = np.abs(left) + hearts + far.sum(axis=1) + far[0].sum()
        return np.abs(left - hearts - (far[0] - far).sum(axis=1)) / np.maximum(terms, np.finfo(float).tiny)


def algorithm_1(
    case: ResNetCase, target: HierarchicalTarget, samples: np.ndarray, rates: Mapping[str, float], stars: Sequence[Comparator]
) -> ResNetRun:  # fmt: skip
    """One step of SGD on ½‖H(x_t) − out(x_t)‖² for every sample, in order, from W = V = 0.

    Ref: beyond_kernels, Alg. 1, Fact D.4, Eq. (D.4)

    Args:
        case: the initial weights, and the rows over which expectations are taken.
        target: of Concept 2 with β = 1; OPT = 0.
        samples: (T, d), each used once.
        rates: η_w and η_v, by "W" and "V".
        stars: what the run is compared with.
    """
    X1 = np.column_stack([checks.finite_matrix(samples, "samples"), np.ones(len(samples))])
    truth, y = truth_on(target, case.X1[:, :-1]), target(samples)
    T, A = len(X1), case.A
    eta_w, eta_v = (checks.positive(rates[name], f"rates[{name!r}]") for name in "WV")
    at = sorted({0, T, *np.geomspace(1, T, RECORDS).round().astype(int).tolist()})
    W, V = case.W.copy(), case.V.copy()
    ends = [(case.W + star.W, case.V + star.V) for star in stars]
    squares, hearts = np.empty(T), np.empty(T)
    products, errs = ({star.name: np.empty(T) for star in stars} for _ in "pe")
    seen: dict[str, list[dict[str, float]]] = {star.name: [] for star in stars}
    moved, distances = [], {star.name: [] for star in stars}
    for t in range(T + 1):
        if t == at[len(moved)]:
            dW, dV = W - case.W, V - case.V
            moved.append((np.linalg.norm(dW), np.linalg.norm(dV)))
            for star in stars:
                seen[star.name].append(looked_at(case, truth, dW, dV, star))
                distances[star.name].append([((dW - star.W) ** 2).sum(), ((dV - star.V) ** 2).sum()])
            if t == T:
                break
        x = X1[t]
        g = W @ x
        on = g >= 0
        z = np.append(A @ (g * on), 1.0)
        h = V @ z
        active = h >= 0
        r = y[t] - z[:-1] - A @ (h * active)
        back = (r @ A) * active
        slope = ((r + back @ V[:, :-1]) @ A) * on
        squares[t] = r @ r
        hearts[t] = 0.5 * (eta_w * (slope @ slope) * (x @ x) + eta_v * (back @ back) * (z @ z))
        for star, (end_w, end_v) in zip(stars, ends, strict=True):
            u = A @ (on * (end_w @ x - g))  # A D_W (W* − W)(x, 1)
            err = u + A @ (active * (V[:, :-1] @ u + end_v @ z - h)) - r
            products[star.name][t], errs[star.name][t] = r @ (r + err), err @ err
        W += np.outer(eta_w * slope, x)
        V += np.outer(eta_v * back, z)
    moved_w, moved_v = np.array(moved).T
    return ResNetRun(
        case, truth, dict(rates), tuple(stars), np.array(at), moved_w, moved_v, squares, hearts,
        {name: {what: np.array([one[what] for one in every]) for what in every[0]} for name, every in seen.items()},
        products, errs, {name: np.array(every) for name, every in distances.items()},
    )  # fmt: skip
