"""What redrawing a share of the labels does to every number of a quadrature, on average and without drawing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overparam.core import checks
from overparam.core.words import count_of
from overparam.spectrum.brackets import Quadrature


def redrawn_labels(labels: Quadrature, random: Quadrature, share: float) -> Quadrature:
    """The quadrature of labels of which each is drawn anew, uniformly, with probability p = `share`.

        E zᵀf(H)z = (1 − p)² yᵀf(H)y + (1 − (1 − p)²) (‖y‖²/n) tr f(H)

    since E z_i = (1 − p) y_i, draws of different rows are independent, and ‖z_i‖² = ‖y_i‖² (signs, or classes as
    one-hot rows less 1/k). The trace is taken from the quadrature of random signs, tr f(H) = E rᵀf(H)r: with one draw of
    them it is an estimate, with the n unit vectors as outputs it is exact. Curves, steps, movement and laziness follow from
    the result as from any other, loss "sum" or "mean" ("mse" would count the draw as a further output).

    Ref: fine_grained, Fig. 2

    Assumes: labels of classes; for numbers of variance v drawn anew from each other, that f(H)_ii and y_i² do not go together.

    Differs from the paper: the mean over draws, where Fig. 2 draws once for each share.

    Args:
        labels: the quadrature of the labels, every output.
        random: of random signs under the same matrix.
        share: p, between 0 and 1.

    >>> from overparam.spectrum import quadrature
    >>> H = np.diag([1.0, 3.0])
    >>> mixed = redrawn_labels(quadrature(H, [1.0, 0.0]), quadrature(H, np.eye(2)), 0.5)
    >>> round(mixed.bracket(lambda x: x).value, 9)  # ¼ · 1 + ¾ · ½ · 4
    1.75
    """
    share = checks.share(share, "share", zero=True, one=True)
    if labels.n != random.n:
        raise ValueError(
            f"the random signs have {count_of(random.n, 'row')}, the labels {labels.n}; expected the same matrix"
        )
    kept = (1 - share) ** 2
    # the sizes of outputs go into the masses alone: the coefficients of a sweep are of its direction
    anew = (1 - kept) * float(labels.masses.sum()) / float(random.masses.sum())
    width = max(labels.alphas.shape[1], random.alphas.shape[1])
    return replace(
        labels,
        alphas=_stacked(labels.alphas, random.alphas, width),
        betas=_stacked(labels.betas, random.betas, width),
        lengths=np.concatenate([labels.lengths, random.lengths]),
        complete=np.concatenate([labels.complete, random.complete]),
        masses=np.concatenate([kept * labels.masses, anew * random.masses]),
        perturbation=max(labels.perturbation, random.perturbation),
    )


def _stacked(above: np.ndarray, below: np.ndarray, width: int) -> np.ndarray:
    """Rows of two sweeps, the shorter filled up with zeros."""
    table = np.zeros((len(above) + len(below), width))
    table[: len(above), : above.shape[1]] = above
    table[len(above) :, : below.shape[1]] = below
    return table
