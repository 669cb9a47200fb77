"""Two-layer networks trained on folds of the rows with several settings side by side, by NumPy alone: nothing is compiled."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from overparam.analysis.folds import Folds
from overparam.core.machine import blas_threads
from overparam.core.progress import Progress, silent
from overparam.core.provenance import usable_cores
from overparam.data import generator

RATES = (2.0, 0.5)
"""Rates tried, over the largest curvature of the mean loss at the start."""
FORMS = ((False, 1e-3), (False, 1e-2), (False, 0.1), (True, 0.1), (True, 0.3))
"""What is tried: whether a linear path goes beside the neurons, and the weight decay. With the path the decays are large: what is
linear needs no neurons then, and these are held back."""
FEW_FORMS = ((False, 1e-2), (True, 0.1))
"""The same where there are many features."""
BATCH, MOMENTUM = 50, 0.9
CURVATURE_ROWS, CURVATURE_STEPS = 300, 12
"""Rows and power iterations of the largest curvature: a few percent are enough for a grid of rates."""
LENGTHS = 5
"""Lengths of training among which is chosen; the rate falls to a tenth after half the steps."""
APART = 400_000
"""Weights of all networks from which on every fold has a thread; with fewer, threads would wait for one another."""

Forms = tuple[tuple[bool, float], ...]


def train_on_folds(
    X: np.ndarray,
    y: np.ndarray,
    folds: Folds,
    *,
    width: int,
    steps: int,
    forms: Forms = FORMS,
    key: int = 0,
    progress: Progress = silent,
) -> np.ndarray:
    """What A σ(W(x, 1)) + V(x, 1), trained by heavy-ball SGD on the mean squared loss, says of the rows it was not trained on.

    (settings, n, k): rates, forms and lengths of training, every row by the network of its fold; NaN where it diverged.
    In single precision, all settings at once and every fold of large networks in a thread, from the same W ~ N(0, 1/d), A ~ N(0, 1/width) and V = 0; V stays
    there where the form has no linear path, and has no decay where it has.

    Args:
        X: (n, d) rows, entries of mean square about 1.
        y: (n,) or (n, k) targets.
        folds: (rows to fit, rows held out), each row held out once.
        width: neurons.
        steps: batches of 50 rows, drawn with return.
        forms: (whether V is trained, weight decay of W and A) tried.
        key: of the start and the batches.
        progress: called with the folds done.

    Labels linear in the row:

    >>> X = np.linspace(-2, 2, 40)[:, None]
    >>> folds = [(np.arange(40)[np.arange(40) % 2 != side], np.arange(40)[np.arange(40) % 2 == side]) for side in (0, 1)]
    >>> found = train_on_folds(X, X[:, 0], folds, width=20, steps=300)
    >>> found.shape, bool(np.nanmin(np.mean((found[..., 0] - X[:, 0]) ** 2, axis=1)) < 0.02)
    ((50, 40, 1), True)
    """
    n, d = X.shape
    rows = np.hstack([X, np.ones((n, 1))]).astype(np.float32)
    Y = y.reshape(n, -1).astype(np.float32)
    random = generator(key, 41)
    W = random.standard_normal((d + 1, width), dtype=np.float32) / np.float32(np.sqrt(d))
    A = random.standard_normal((width, Y.shape[1]), dtype=np.float32) / np.float32(np.sqrt(width))
    curvature = largest_curvature(rows[:: max(1, n // CURVATURE_ROWS)][:CURVATURE_ROWS], W, A, random)
    settings = [(share / curvature, decay, path) for share in RATES for path, decay in forms]
    marks = [round(steps * (i + 1) / LENGTHS) for i in range(LENGTHS)]
    size = min(BATCH, *(len(fit) for fit, _ in folds))
    batches = np.stack([[fit[random.integers(len(fit), size=size)] for fit, _ in folds] for _ in range(steps)])
    found = np.empty((len(marks), len(settings), n, Y.shape[1]), dtype=np.float32)
    stopped = threading.Event()

    def train(places: Sequence[int]) -> None:
        descending = descend(rows, Y, W, A, settings, batches[:, places], falls=steps // 2)
        with np.errstate(all="ignore"):
            for step, now in enumerate(descending, start=1):
                if stopped.is_set():
                    return
                if step not in marks:
                    continue
                for own, place in enumerate(places):
                    held = folds[place][1]
                    first, second, straight = (weights[own] for weights in now)
                    outputs = np.maximum(rows[held] @ first, 0.0) @ second + rows[held] @ straight
                    found[marks.index(step)][:, held] = outputs

    apart = len(folds) * len(settings) * W.size >= APART
    together = [[place] for place in range(len(folds))] if apart else [list(range(len(folds)))]
    with blas_threads(1), ThreadPoolExecutor(min(len(together), usable_cores())) as pool:
        try:
            for done, _ in enumerate(pool.map(train, together), start=1):
                progress(float(done), float(len(together)), "networks")
        except BaseException:  # such as ctrl-C: threads end at their next step
            stopped.set()
            raise
    found[~np.isfinite(found)] = np.nan
    return found.swapaxes(0, 1).reshape(-1, n, Y.shape[1]).astype(np.float64)


def descend(
    rows: np.ndarray,
    Y: np.ndarray,
    W: np.ndarray,
    A: np.ndarray,
    settings: list[tuple[float, float, bool]],
    batches: Iterable[np.ndarray],
    falls: int,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """W, A and V after every step, (folds, settings, …) each; the same arrays, changed in place.

    rows, Y: (n, inputs) and (n, k). W, A: where all start, (inputs, width) and (width, k). settings: (rate, decay, whether V is
    trained). batches: (folds, batch) positions of rows. falls: the step after which rates are a tenth.
    """
    rate, decay, path = (
        np.array(side, dtype=np.float32)[:, None, None] for side in zip(*settings, strict=True)
    )  # one a setting
    first = second = straight = np.empty(0)
    velocity: list[np.ndarray] = []
    for step, picked in enumerate(batches):
        if not step:
            nothing = np.zeros((len(W), Y.shape[1]), dtype=W.dtype)
            first, second, straight = (np.tile(start, (len(picked), len(settings), 1, 1)) for start in (W, A, nothing))
            velocity = [np.zeros_like(weights) for weights in (first, second, straight)]
        B = rows[picked][:, None]
        G = B @ first
        on = G > 0
        G *= on
        residuals = (G @ second + B @ straight - Y[picked][:, None]) / np.float32(picked.shape[1])
        back = residuals @ second.swapaxes(2, 3)
        back *= on
        across = B.swapaxes(2, 3)
        slopes = (
            across @ back + decay * first,
            G.swapaxes(2, 3) @ residuals + decay * second,
            path * (across @ residuals),
        )
        fast = rate if step < falls else rate / 10
        for weights, speed, slope in zip((first, second, straight), velocity, slopes, strict=True):
            speed *= np.float32(MOMENTUM)
            speed += slope
            weights -= fast * speed
        yield first, second, straight


def largest_curvature(rows: np.ndarray, W: np.ndarray, A: np.ndarray, random: np.random.Generator) -> float:
    """The largest eigenvalue of JᵀJ/n, J the derivative of the outputs in W, A and V, to some percent."""
    before = rows @ W
    on, neurons = before > 0, np.maximum(before, 0.0)
    v = random.standard_normal((len(rows), A.shape[1]), dtype=np.float32)
    for _ in range(CURVATURE_STEPS):
        v /= np.linalg.norm(v)
        through = ((rows @ (rows.T @ ((v @ A.T) * on))) * on) @ A
        v = (through + neurons @ (neurons.T @ v) + rows @ (rows.T @ v)) / np.float32(len(rows))
    return float(np.linalg.norm(v))
