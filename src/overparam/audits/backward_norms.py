"""Lemma 7.4: what the output layer sees of a hidden layer, at random initialisation."""

from __future__ import annotations

from functools import partial
from math import log

import numpy as np

from overparam.audits.gains import largest_gains, largest_sparse_forms
from overparam.audits.law import Finding, Law, made
from overparam.audits.ranges import of_network, wide_for_products
from overparam.audits.subject import Subject
from overparam.core.assumptions import checked

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
        push, pull = partial(_push, few, start), partial(_pull, few, start)
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


def _push(subject: Subject, start: int, V: np.ndarray) -> np.ndarray:
    return subject.inside.push(subject.weights, start, V, subject.inside.count)


def _pull(subject: Subject, start: int, U: np.ndarray) -> np.ndarray:
    return subject.inside.pull(subject.weights, subject.inside.count, U, start)
