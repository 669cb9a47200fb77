"""Lemma 7.3: products of consecutive layers at random initialisation lengthen no vector much, sparse ones least."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log
from typing import Any

import numpy as np

from overparam.audits.gains import column_lengths, largest_gains, largest_sparse_forms, largest_sparse_gains
from overparam.audits.law import LARGEST_CONSTANT, Finding, Law, made, not_measured
from overparam.audits.ranges import of_network, wide_for_products
from overparam.audits.subject import Subject
from overparam.core.assumptions import Assumption
from overparam.core.words import count_of

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
