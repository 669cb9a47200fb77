"""`convergence`, Section 7: the laws at random initialisation.

Lemma 7.1: every layer keeps the norm of every sample. Lemma 7.3: products of consecutive layers lengthen no vector much,
sparse ones least. Lemma 7.4: what the output layer sees of a hidden layer. Lemma 7.5: samples that are apart stay apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from math import log
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import binom

from overparam.audits.conditions import of_network, wide_for_products
from overparam.audits.laws import LARGEST_CONSTANT, Finding, Law, made, not_measured
from overparam.audits.product_norms import column_lengths, largest_gains, largest_sparse_forms, largest_sparse_gains
from overparam.audits.subject import Subject
from overparam.core.bracketed import Assumption, checked
from overparam.core.words import count_of

FAILURE = 0.01
"""The chance that the lemma is allowed to be wrong at random initialisation, over all samples and layers."""

FORWARD_NORMS = Law(
    name="forward norms",
    reference="convergence, Lemma 7.1",
    statement="‖h_ℓ‖ ∈ [1 − ε, 1 + ε] for every sample and layer, ε of order √(L log(nL)/m)",
    side="upper",
    exponents={"m": -0.5, "L": 0.5},
    explicit=1.0,
    quantity="|log ‖h‖|",
)


def forward_norms(subject: Subject) -> list[Finding]:
    """The largest |log(‖h_{i,ℓ}‖/‖x_i‖)| over its ε, at W⁰.

    Ref: convergence, Lemma 7.1

    ‖h_ℓ‖²/‖h_{ℓ−1}‖² is 2/m times a χ² of Binomial(m, ½) degrees, so that log ‖h_ℓ‖ has standard deviation
    √(5(ℓ + 1)/(4m)), or √(Σ_{j≤ℓ} 5/(4m_j)) for layers of several widths. ε_ℓ is what Chernoff's bound gives from the
    moments of that ratio, about √(2 log(2n(L + 1)/0.01)) standard deviations where m is large, more below than above where
    it is not: the lemma with its constants, which holds with probability 0.99 at random initialisation. Rows of other norms are
    divided by theirs.

    Differs from the paper: it has ‖h‖ ∈ [1 − ε, 1 + ε]; its proof is about log ‖h‖, which is the same for small ε and
    sees norms that vanish as well as norms that explode.
    """
    h = subject.start.activations
    norms = np.array([np.linalg.norm(layer, axis=1) / np.where(subject.norms > 0, subject.norms, 1) for layer in h])
    spread = np.sqrt(np.cumsum([5 / (4 * width) for width in subject.inside.widths]))
    lower, upper = allowed_logs(subject.inside.widths, subject.samples)
    logs = np.log(np.maximum(norms, np.finfo(float).tiny))
    down, up = -logs.min(axis=1), logs.max(axis=1)
    below = down / lower > up / upper
    away, allowed = np.where(below, down, np.abs(up)), np.where(below, lower, upper)
    worst = int(np.argmax(away / allowed))
    detail = {
        "smallest norm by layer": norms.min(axis=1),
        "largest norm by layer": norms.max(axis=1),
        "smallest allowed by layer": np.exp(-lower),
        "largest allowed by layer": np.exp(upper),
        "one standard deviation by layer": spread,
    }
    lowest, highest = float(norms.min()), float(norms.max())
    note = f"Norms lie between {lowest:.3g} and {highest:.3g}; the worst for its depth is ReLU layer {worst + 1}."
    at = np.full(len(away), subject.at)  # one value a layer, each with its own ε
    return [made(FORWARD_NORMS, subject.moment, at, away, allowed, of_network(subject), detail, note=note)]


@cache
def allowed_logs(widths: tuple[int, ...], samples: int, failure: float = FAILURE) -> tuple[np.ndarray, np.ndarray]:
    """How far log ‖h_ℓ‖ may go below and above 0, layer by layer, with `failure` for all samples and layers together.

    P(log ‖h‖² ≥ 2a) ≤ e^{−2ta} Π E[Δ^t], Δ = 2χ²_ω/m, E[Δ^t | ω] = (4/m)^t Γ(ω/2 + t)/Γ(ω/2), ω ~ Binomial(m, ½). Numbers ω of
    active units that are too few to occur are left out below; where that leaves out none, the norm may vanish.

    >>> low, high = allowed_logs((100_000,), 10)
    >>> float(((2 * log(2 * 10 / FAILURE)) * 5 / 4e5) ** 0.5).__round__(4), float(low[0]).__round__(4), float(high[0]).__round__(4)
    (0.0138, 0.0139, 0.0137)
    """
    cases = samples * len(widths)
    each, t = log(2 * cases / failure), np.geomspace(1e-2, 1e5, 500)
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for width in set(widths):
        counts = np.arange(1, width + 1)
        chances = binom.logpmf(counts, width, 0.5)
        rare = binom.cdf(counts, width, 0.5) <= failure / (100 * cases)
        near = np.abs(counts - width / 2) <= 20 * width**0.5  # beyond, chances are below 1e-300
        rise = [_log_moment(power, counts[near], chances[near], width) for power in t]
        kept = near & ~rare
        dead = width * log(0.5) > log(failure / (100 * cases))
        fall = [
            np.inf if dead or counts[kept][0] <= 2 * power else _log_moment(-power, counts[kept], chances[kept], width)
            for power in t
        ]
        found[width] = np.array(fall), np.array(rise)
    with np.errstate(over="ignore"):
        sums = np.cumsum([found[width] for width in widths], axis=0)
    limits = np.minimum(((sums + each) / (2 * t)).min(axis=2), -log(np.finfo(float).tiny))  # of a norm that vanished
    return limits[:, 0], limits[:, 1]


def _log_moment(power: float, counts: np.ndarray, chances: np.ndarray, width: int) -> float:
    """log E[(2χ²_ω/m)^power] over these ω."""
    terms = chances + power * log(4 / width) + gammaln(counts / 2 + power) - gammaln(counts / 2)
    found: Any = logsumexp(terms)
    return float(found)


WHOLE = Law(
    name="products of layers",
    reference="convergence, Lemma 7.3",
    statement="(a) ‖W_b D_{b−1} ⋯ D_a W_a‖₂ ≤ O(√L) for all 1 ≤ a ≤ b ≤ L",
    side="upper",
    exponents={"L": 0.5, "m": 0.0},
    quantity="‖W_b ⋯ W_a‖₂",
)
SPARSE_IN = Law(
    name="products on sparse vectors",
    reference="convergence, Lemma 7.3",
    statement="(b) ‖W_b D_{b−1} ⋯ W_a v‖ ≤ 2‖v‖ for v of at most O(m/(L log m)) entries",
    side="upper",
    exponents={"L": 0.0, "m": 0.0},
    explicit=2.0,
    quantity="‖W_b ⋯ W_a v‖/‖v‖",
)
SPARSE_OUT = Law(
    name="products seen by sparse vectors",
    reference="convergence, Lemma 7.3",
    statement="(c) ‖uᵀ W_b D_{b−1} ⋯ W_a‖ ≤ O(1)‖u‖ for u of at most O(m/(L log m)) entries",
    side="upper",
    exponents={"L": 0.0, "m": 0.0},
    quantity="‖uᵀ W_b ⋯ W_a‖/‖u‖",
)
SPARSE_BOTH = Law(
    name="products between sparse vectors",
    reference="convergence, Lemma 7.3",
    statement="(d) |uᵀ W_b D_{b−1} ⋯ W_a v| ≤ O(√(s log m/m)) ‖u‖‖v‖ for u and v of at most s entries",
    side="upper",
    exponents={"s": 0.5, "m": -0.5, "L": 0.0},
    quantity="|uᵀ W_b ⋯ W_a v|",
)
PAIRS = 15
"""Most pairs (a, b) looked at; all of them up to L = 5."""
SPARSE_PAIRS = 3
"""The same for sparse vectors, which cost more."""
PROBES = 6
"""Random products from which the longest columns are guessed."""


def products_of_layers(subject: Subject, sparsity: float = 1.0) -> list[Finding]:
    """Lemma 7.3 a to d at W⁰: the largest found by Lanczos and by ascent over sparse vectors, products never formed.

    Ref: convergence, Lemma 7.3

    Args:
        sparsity: the constant c in s = c · m/(L log m), the most entries of a sparse vector.

    The worst sparse vector is hard to find: numbers for sparse vectors are lower bounds, found by ascent from the best
    dense vector and from the columns that look longest.
    """
    few = subject.on_rows(subject.effort.rows)
    inside, L = few.inside, subject.depth
    laws = (WHOLE, SPARSE_IN, SPARSE_OUT, SPARSE_BOTH)
    conditions = (*of_network(few), wide_for_products(few))  # of the rows that are looked at
    if L < 1:
        return [
            not_measured(law, subject.moment, "the network has one ReLU layer, and so no product", ()) for law in laws
        ]
    m = subject.width
    s = max(1, int(sparsity * m / (L * max(log(m), 1.0))))
    tenth = max(1, int(s / LARGEST_CONSTANT))  # the fewest that a constant of order 1 leaves
    sizes = np.unique([tenth, *np.geomspace(1, s, 4 if subject.effort.name != "thorough" else 8).astype(int)])
    pairs = chosen_pairs(L)
    sparse_pairs = chosen_pairs(L, SPARSE_PAIRS)
    whole, gains_in, gains_out, forms = np.zeros(len(pairs)), *np.zeros((3, len(sparse_pairs), len(sizes)))
    for index, (a, b) in enumerate(pairs):
        push: Callable[[np.ndarray], np.ndarray] = partial(_push, few, a - 1, b)
        pull: Callable[[np.ndarray], np.ndarray] = partial(_pull, few, a - 1, b)
        rng = subject.rng(2, a, b)
        gains, v = largest_gains(push, pull, inside.samples, inside.widths[a - 1], subject.effort.power_steps, rng)
        whole[index] = gains.max()
        if (a, b) not in sparse_pairs:
            continue
        place, u = sparse_pairs.index((a, b)), push(v)
        climbs, n = max(4, subject.effort.ascent_steps // 2), inside.samples
        longest_columns = column_lengths(pull, n, inside.widths[b], PROBES, rng)
        longest_rows = column_lengths(push, n, inside.widths[a - 1], PROBES, rng)
        for size, entries in enumerate(sizes.tolist()):
            gains_in[place, size] = _best(largest_sparse_gains, push, pull, (v, longest_columns), entries, climbs)
            gains_out[place, size] = _best(largest_sparse_gains, pull, push, (u, longest_rows), entries, climbs)
            search = partial(largest_sparse_forms, left_sparsity=entries)
            forms[place, size] = _best(search, push, pull, (v, longest_columns), entries, climbs)
    rows = f"{inside.samples} of {subject.samples} rows" if inside.samples < subject.samples else "all rows"
    note = f"On {rows}, {count_of(len(pairs), 'pair')} of layers."
    note_sparse = f"On {rows}, {count_of(len(sparse_pairs), 'pair')} of layers, vectors of 1 to {s} entries."
    by_pair = _by_pair(pairs) | {"by pair": whole}
    by_sparse = _by_pair(sparse_pairs) | {"sparsity": sizes.astype(float)}
    scale = np.sqrt(sizes * log(max(m, 3)) / m)
    inner, outer, between = gains_in.max(axis=0), gains_out.max(axis=0), forms.max(axis=0)
    zeros, ones = np.full(len(sizes), subject.at), np.ones(len(sizes))
    return [
        made(
            WHOLE,
            subject.moment,
            [subject.at],
            [whole.max()],
            [L**0.5],
            conditions,
            by_pair,
            note=note,
            rows=inside.samples,
        ),
        _sparse_in(
            subject, inner, sizes, conditions, by_sparse | {"by pair": gains_in[:, -1]}, note_sparse, inside.samples
        ),
        made(
            SPARSE_OUT,
            subject.moment,
            zeros,
            outer,
            ones,
            conditions,
            by_sparse | {"by pair": gains_out[:, -1]},
            note=note_sparse,
            rows=inside.samples,
        ),
        made(
            SPARSE_BOTH,
            subject.moment,
            zeros,
            between,
            scale,
            conditions,
            by_sparse | {"by pair": forms[:, -1]},
            note=note_sparse,
            rows=inside.samples,
        ),
    ]


def _sparse_in(
    subject: Subject,
    gains: np.ndarray,
    sizes: np.ndarray,
    conditions: tuple[Assumption, ...],
    detail: dict[str, np.ndarray],
    note: str,
    rows: int,
) -> Finding:
    """Lemma 7.3b hides its constant in how sparse: it holds for vectors of as many entries as are found to meet the 2."""
    met = int(np.count_nonzero(np.maximum.accumulate(gains) <= 2.0))
    if met and sizes[met - 1] < int(sizes[-1] / LARGEST_CONSTANT):
        met = 0  # the constant in how sparse would be below 1/10
    if 0 < met < len(sizes):
        note += f" The 2 holds up to {sizes[met - 1]} entries; with {sizes[-1]} it is {gains[-1]:.3g}."
    kept = gains[:met] if met else gains
    at, ones = np.full(len(kept), subject.at), np.ones(len(kept))
    return made(
        SPARSE_IN, subject.moment, at, kept, ones, conditions, detail | {"all sizes": gains}, note=note, rows=rows
    )


def _by_pair(pairs: list[tuple[int, int]]) -> dict[str, np.ndarray]:
    return {"a": np.array([a for a, _ in pairs]), "b": np.array([b for _, b in pairs])}


def chosen_pairs(L: int, most: int = PAIRS) -> list[tuple[int, int]]:
    """Pairs 1 ≤ a ≤ b ≤ L: all where they are few, else those that begin at 1 or end at L, thinned.

    >>> chosen_pairs(2)
    [(1, 1), (1, 2), (2, 2)]
    >>> len(chosen_pairs(16)), (1, 16) in chosen_pairs(16)
    (15, True)
    """
    pairs = [(a, b) for a in range(1, L + 1) for b in range(a, L + 1)]
    if len(pairs) <= most:
        return pairs
    edge = [(1, L), *((1, b) for b in range(1, L)), *((a, L) for a in range(2, L + 1))]
    places = np.unique(np.linspace(0, len(edge) - 1, most).astype(int))
    return sorted(edge[place] for place in places)


def _push(subject: Subject, start: int, end: int, V: np.ndarray) -> np.ndarray:
    return subject.inside.push(subject.weights, start, V, end)


def _pull(subject: Subject, start: int, end: int, U: np.ndarray) -> np.ndarray:
    return subject.inside.pull(subject.weights, end, U, start)


def _best(search: Any, push: Any, pull: Any, starts: tuple[np.ndarray, ...], s: int, steps: int) -> float:
    """The largest that a sparse search finds from these starts."""
    return max(float(search(push, pull, start, s, steps)[0].max()) for start in starts)


SPARSE_BACKWARD = Law(
    name="backward norms on sparse vectors",
    reference="convergence, Lemma 7.4",
    statement="(a) |vᵀ B D_L W_L ⋯ D_a W_a u| ≤ O(√(s log m/k)) ‖v‖‖u‖ for u of at most s entries, a = 1 … L + 1",
    side="upper",
    exponents={"s": 0.5, "m": 0.0, "L": 0.0},
    quantity="‖B D_L ⋯ W_a u‖/‖u‖",
)
BACKWARD = Law(
    name="backward norms",
    reference="convergence, Lemma 7.4",
    statement="(b) ‖B D_L W_L ⋯ D_a W_a‖₂ ≤ O(√(m/k)) for a = 1 … L",
    side="upper",
    exponents={"m": 0.5, "L": 0.0},
    quantity="‖B D_L ⋯ W_a‖₂",
)


def backward_norms(subject: Subject, sparsity: float = 1.0) -> list[Finding]:
    """Lemma 7.4 a and b at W⁰.

    Ref: convergence, Lemma 7.4

    The matrix has k rows, so that k products give its norm exactly. Sparse vectors: by ascent; exact for one output,
    where the largest entries of the only row are the answer.

    Args:
        sparsity: the constant c in s = c · m/(L log m), the most entries of a sparse vector.
    """
    few = subject.on_rows(subject.effort.rows)
    inside, L, k, m = few.inside, subject.depth, subject.outputs, subject.width
    weights, count = subject.weights, inside.count
    s = max(1, int(sparsity * m / (max(L, 1) * max(log(m), 1.0))))
    sizes = np.unique(np.geomspace(1, s, 5).astype(int))
    whole, sparse = np.zeros(count), np.zeros((count, len(sizes)))
    for start in range(count):
        push, pull = partial(_push, few, start, count), partial(_pull, few, start, count)
        steps = min(k, max(subject.effort.power_steps, 10))
        gains, v = largest_gains(pull, push, inside.samples, k, steps, subject.rng(3, start))
        whole[start] = gains.max()
        u = inside.pull(weights, count, v, start)
        for place, size in enumerate(sizes):
            steps = 1 if k == 1 else max(4, subject.effort.ascent_steps // 2)
            sparse[start, place] = largest_sparse_forms(push, pull, u, int(size), steps)[0].max()
    at = np.arange(1, count + 1)
    general = (*of_network(few), wide_for_products(few))
    few_outputs = checked("k ≤ m/(L log m)", k <= s, f"k = {k}, {s} allowed")
    enough = checked("s ≥ k/log m", bool(sizes[-1] * log(max(m, 3)) >= k), f"s = {sizes[-1]}, k = {k}")
    rows = f"{inside.samples} of {subject.samples} rows" if inside.samples < subject.samples else "all rows"
    asked = np.maximum(sizes, k / log(max(m, 3)))  # fewer entries are at most as many
    inner = whole[:-1] if count > 1 else whole  # a = 1 … L; B alone is a = L + 1
    return [
        made(SPARSE_BACKWARD, subject.moment, np.full(len(sizes), subject.at), sparse.max(axis=0), np.sqrt(asked * log(max(m, 3)) / k),
             (*general, enough), {"a": at, "by layer": sparse[:, -1], "sparsity": sizes.astype(float)},
             note=f"On {rows}, vectors of 1 to {s} entries.", rows=inside.samples),
        made(BACKWARD, subject.moment, [subject.at], [inner.max()], [(m / k) ** 0.5], (*general, few_outputs),
             {"a": at, "by layer": whole}, note=f"On {rows}.", rows=inside.samples),
    ]  # fmt: skip


SEPARATION = Law(
    name="separation in every layer",
    reference="convergence, Lemma 7.5",
    statement="‖(I − h_i h_iᵀ/‖h_i‖²) h_j‖ ≥ δ/2 for all pairs and layers, where ‖x_i − x_j‖ ≥ δ and δ ≤ 1/(CL)",
    side="lower",
    exponents={"m": 0.0},
    explicit=1.0,
    quantity="smallest part of h_j across h_i",
)


def separation_in_layers(subject: Subject, C: float = 1.0) -> list[Finding]:
    """The smallest part of one sample's layer across another's, over δ/2, all pairs of samples, at W⁰.

    Ref: convergence, Lemma 7.5

    Data that are further apart than 1/(CL) are also 1/(CL) apart: δ is the smaller of the two.

    Args:
        C: the constant in δ ≤ 1/(CL).
    """
    if subject.samples < 2:
        return [not_measured(SEPARATION, subject.moment, "there is one sample, and so no pair")]
    if not subject.separation > 0:
        return [not_measured(SEPARATION, subject.moment, "two samples are equal, so δ = 0; drop one of them")]
    L = max(subject.depth, 1)
    delta = min(subject.separation, 1 / (C * L))
    smallest = np.array([smallest_across(h) for h in subject.start.activations])
    worst = int(np.argmin(smallest))
    needed = L * log(max(subject.samples * L, 2)) / delta**6
    conditions = (
        *of_network(subject),
        checked("m ≥ L log(nL)/δ⁶", subject.width >= needed, f"m = {subject.width:,}, {needed:.2g} needed"),
    )
    note = f"δ = {delta:.3g}; the smallest, {smallest[worst]:.3g}, is in ReLU layer {worst + 1}."
    return [
        made(
            SEPARATION,
            subject.moment,
            [subject.at],
            [smallest[worst]],
            [delta / 2],
            conditions,
            {"by layer": smallest},
            note=note,
        )
    ]


def smallest_across(H: np.ndarray) -> float:
    """min over i ≠ j of ‖(I − h_i h_iᵀ/‖h_i‖²) h_j‖, in row panels.

    >>> smallest_across(np.array([[2.0, 0.0], [3.0, 4.0]]))  # of (2, 0) across (3, 4): 8/5, and 4 the other way
    1.6
    """
    squares = np.einsum("ij,ij->i", H, H)
    safe = np.where(squares > 0, squares, 1.0)
    best = np.inf
    for first in range(0, len(H), 250):
        last = min(first + 250, len(H))
        products = H[first:last] @ H.T
        rest = squares[None, :] - products**2 / safe[first:last, None]
        rest[np.arange(last - first), np.arange(first, last)] = np.inf
        close = rest < 1e-6 * squares  # the difference of squares has few digits left there
        for i in np.flatnonzero(close.any(axis=1)):
            near = np.flatnonzero(close[i])
            across = H[near] - np.outer(products[i, near] / safe[first + i], H[first + i])
            rest[i, near] = np.einsum("ij,ij->i", across, across)
        best = min(best, float(rest.min()))
    return float(np.sqrt(max(best, 0.0)))
