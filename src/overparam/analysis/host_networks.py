"""Two-layer networks trained on folds of the rows with several settings side by side, by NumPy alone: nothing is compiled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from overparam.analysis.folds import Folds
from overparam.core.progress import Progress, silent
from overparam.data import generator

RATES = (2.0, 0.7, 0.2)
"""Rates tried, over the largest curvature of the mean loss at the start."""
DECAYS = (1e-3, 1e-2)
"""Weight decays tried."""
BATCH, MOMENTUM = 50, 0.9
CURVATURE_ROWS, CURVATURE_STEPS = 300, 12
"""Rows and power iterations of the largest curvature: a few percent are enough for a grid of rates."""
LENGTHS = 5
"""Lengths of training among which is chosen; the rate falls to a tenth after half the steps."""


def train_on_folds(
    X: np.ndarray,
    y: np.ndarray,
    folds: Folds,
    *,
    width: int,
    steps: int,
    decays: tuple[float, ...] = DECAYS,
    key: int = 0,
    progress: Progress = silent,
) -> np.ndarray:
    """What A σ(W(x, 1)), W trained by heavy-ball SGD on the mean squared loss, says of the rows it was not trained on.

    (settings, n, k): rates, decays and lengths of training, every row by the network of its fold; NaN where it diverged.
    In single precision, all folds and settings at once, from the same W ~ N(0, 1/d) and A ~ N(0, 1/width).

    Args:
        X: (n, d) rows, entries of mean square about 1.
        y: (n,) or (n, k) targets.
        folds: (rows to fit, rows held out), each row held out once.
        width: neurons.
        steps: batches of 50 rows, drawn with return.
        decays: weight decays tried.
        key: of the start and the batches.
        progress: called with the steps done.

    Labels linear in the row:

    >>> X = np.linspace(-2, 2, 40)[:, None]
    >>> folds = [(np.arange(40)[np.arange(40) % 2 != side], np.arange(40)[np.arange(40) % 2 == side]) for side in (0, 1)]
    >>> found = train_on_folds(X, X[:, 0], folds, width=20, steps=300)
    >>> found.shape, bool(np.nanmin(np.mean((found[..., 0] - X[:, 0]) ** 2, axis=1)) < 0.02)
    ((30, 40, 1), True)
    """
    n, d = X.shape
    rows = np.hstack([X, np.ones((n, 1))]).astype(np.float32)
    Y = y.reshape(n, -1).astype(np.float32)
    random = generator(key, 41)
    W = random.standard_normal((d + 1, width), dtype=np.float32) / np.float32(np.sqrt(d))
    A = random.standard_normal((width, Y.shape[1]), dtype=np.float32) / np.float32(np.sqrt(width))
    curvature = largest_curvature(rows[:: max(1, n // CURVATURE_ROWS)][:CURVATURE_ROWS], W, A, random)
    settings = [(share / curvature, decay) for share in RATES for decay in decays]
    marks = [round(steps * (i + 1) / LENGTHS) for i in range(LENGTHS)]
    size = min(BATCH, *(len(fit) for fit, _ in folds))
    batches = (np.stack([fit[random.integers(len(fit), size=size)] for fit, _ in folds]) for _ in range(steps))
    found = np.empty((len(marks), len(settings), n, Y.shape[1]), dtype=np.float32)
    with np.errstate(all="ignore"):
        for step, now in enumerate(descend(rows, Y, W, A, settings, batches, falls=steps // 2), start=1):
            if step in marks:
                progress(float(step), float(steps), "networks")
                for place, (_, held) in enumerate(folds):
                    seen = np.maximum(rows[held] @ now[place], 0.0).reshape(len(held), len(settings), width)
                    found[marks.index(step), :, held] = seen @ A
    found[~np.isfinite(found)] = np.nan
    return found.swapaxes(0, 1).reshape(-1, n, Y.shape[1]).astype(np.float64)


def descend(
    rows: np.ndarray,
    Y: np.ndarray,
    W: np.ndarray,
    A: np.ndarray,
    settings: list[tuple[float, float]],
    batches: Iterator[np.ndarray],
    falls: int,
) -> Iterator[np.ndarray]:
    """The weights (folds, inputs, settings × width) after every step; the same array, changed in place.

    rows, Y: (n, inputs) and (n, k). W, A: where all start, (inputs, width) and (width, k). settings: (rate, decay).
    batches: (folds, batch) positions of rows. falls: the step after which rates are a tenth.
    """
    m, count = W.shape[1], len(settings)
    rate, decay = (np.repeat(np.array(side, dtype=np.float32), m) for side in zip(*settings, strict=True))
    now = velocity = np.empty(0)
    for step, picked in enumerate(batches):
        if not step:
            now = np.tile(W, (len(picked), 1, count))
            velocity = np.zeros_like(now)
        B = rows[picked]
        G = B @ now
        on = G > 0
        G *= on
        residuals = (G.reshape(-1, m) @ A).reshape(*picked.shape, count, -1) - Y[picked][:, :, None]
        back = (residuals.reshape(-1, A.shape[1]) @ A.T).reshape(G.shape)
        back *= on
        velocity *= np.float32(MOMENTUM)
        velocity += B.transpose(0, 2, 1) @ back / np.float32(picked.shape[1])
        velocity += decay * now
        now -= (rate if step < falls else rate / 10) * velocity
        yield now


def largest_curvature(rows: np.ndarray, W: np.ndarray, A: np.ndarray, random: np.random.Generator) -> float:
    """The largest eigenvalue of JᵀJ/n, J the derivative of the outputs in W, to some percent."""
    on = rows @ W > 0
    v = random.standard_normal((len(rows), A.shape[1]), dtype=np.float32)
    for _ in range(CURVATURE_STEPS):
        gradient = rows.T @ ((v / np.linalg.norm(v)) @ A.T * on)
        v = ((rows @ gradient) * on) @ A / np.float32(len(rows))
    return float(np.linalg.norm(v))
