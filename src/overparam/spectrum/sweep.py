"""`quadrature`: one Krylov sweep on (H, y) until the bracket of yᵀH⁻¹y is as tight as asked."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

import numpy as np

from overparam.core import checks
from overparam.core.bracketed import rounding_within
from overparam.core.deprecated import accepts_old
from overparam.core.progress import Progress, silent
from overparam.core.provenance import Stopwatch
from overparam.engines.matrix import AbstractGram, as_gram
from overparam.engines.plan import MADE_ANEW
from overparam.frame.cluster import ClusterLost
from overparam.spectrum.bounds import STEPS, EigenvalueBounds, largest_bound, smallest_bound, with_largest
from overparam.spectrum.brackets import Quadrature
from overparam.spectrum.integrands import Inverse
from overparam.spectrum.lanczos import Interrupted, Lanczos
from overparam.spectrum.rules import gauss, inverse_entries, radau_inverse_entries

FALLBACK_RIDGE = 1e-2
"""Times the mean diagonal: what stopping looks at where no positive bound on λ_min is known."""
SAVE_EVERY = 20.0


@accepts_old("quadrature")
def quadrature(
    H: Any,
    y: Any,
    max_products: int | None = None,
    tol: float = 1e-6,
    *,
    ridge: float = 0.0,
    bounds: EigenvalueBounds | str | None = "auto",
    place: str | os.PathLike[str] | None = None,
    resume: Lanczos | None = None,
    progress: Progress | None = None,
) -> Quadrature:
    """Nodes and weights of y under H, from which every loss curve and complexity follows with brackets.

    Stops when the bracket of y_rᵀ(H + ridge)⁻¹y_r has relative width `tol` for every output r, or after
    `max_products` products with H. The loss at step s < products is then exact for every rate.

    Ref: fine_grained, Thm 4.1, Eq. (10)

    Args:
        H: a Gram matrix from `op.gram`, or a symmetric positive semi-definite matrix of numbers.
        y: labels of shape (n,) or (n, k); pass y − u(0) where the network does not start at 0.
        max_products: most products with H; None for as many as `tol` needs.
        tol: relative width of the bracket.
        ridge: added to H in the form that decides when to stop.
        bounds: of the eigenvalues: "auto", "separation", "cholesky", an `EigenvalueBounds`, or None to skip
            them, which leaves upper bounds uncertified.
        place: a folder in which the sweep is kept, so that it goes on after a stop.
        resume: the `sweep` of an `Interrupted`.
        progress: called with the products done.

    >>> q = quadrature(np.diag([1.0, 2.0]), [1.0, 1.0])
    >>> from overparam.spectrum.integrands import Inverse
    >>> round(q.bracket(Inverse()).value, 12)
    1.5
    """
    watch = Stopwatch()
    H = as_gram(H)
    y = checks.targets(y, H.n)
    if max_products is not None and max_products < 1:
        raise ValueError(f"`max_products` is {max_products}; expected 1 or more, or None")
    tol, ridge = checks.share(tol, "tol"), checks.positive(ridge, "ridge", zero=True)
    size = float(np.abs(y).max())
    if size and not 1e-140 < size < 1e140:
        raise ValueError(f"`y` has entries up to {size:.1e}, whose squares pass float64; scale it to about 1 first")
    Y = y.reshape(H.n, -1)
    sweep = resume
    if sweep is None and place is not None:
        sweep = Lanczos.load(place, H, Y)
    if sweep is None:
        sweep = Lanczos(H, Y)
    elif sweep.fingerprint != Lanczos(H, Y).fingerprint:
        raise ValueError("`resume` is a sweep of another matrix or other labels; start without it")
    job = _Job(H, tol, ridge, max_products or H.n, watch)
    known = None
    try:
        known = _lower_bound(H, bounds)
        job.run(sweep, known, place, progress or silent)
        return job.result(sweep, known, True)
    except ClusterLost:
        if place is not None:
            sweep.save(place)
        raise
    except KeyboardInterrupt:
        if place is not None:
            sweep.save(place)
        where = (
            f"call again with place={os.fspath(place)!r}"
            if place is not None
            else "catch this as `error` and pass resume=error.sweep"
        )
        partial = job.result(sweep, known, False) if sweep.products else None
        raise Interrupted(partial, sweep, where) from None


def _after(done: int, progress: Progress) -> Progress:
    """Progress within one product, told as products in all."""
    return lambda share, total, what: progress(done + share, None, "products with H")


def _lower_bound(H: AbstractGram, bounds: EigenvalueBounds | str | None) -> EigenvalueBounds | None:
    if bounds is None or isinstance(bounds, EigenvalueBounds):
        return bounds
    return smallest_bound(H, bounds)  # the upper side is made after the sweep, from its Ritz values


class _Job:
    """One call of `quadrature`: when to stop, when to save, what to return."""

    def __init__(
        self,
        H: AbstractGram,
        tol: float,
        ridge: float,
        most: int,
        watch: Stopwatch,
    ) -> None:
        self.H, self.tol, self.ridge, self.watch = H, tol, ridge, watch
        self.most = min(most, H.n)
        self.mean_diagonal = float(H.diagonal().mean())
        self.converged = False
        self.notes: list[str] = []
        made_anew = H.plan is not None and H.plan.engine in MADE_ANEW
        self.every = 1 if made_anew else 4  # looks cost less than products that make the matrix again

    def run(
        self,
        sweep: Lanczos,
        known: EigenvalueBounds | None,
        place: str | os.PathLike[str] | None,
        progress: Progress,
    ) -> None:
        saved = time.monotonic()
        self.converged = self._tight(sweep, known)
        while sweep.products < self.most and not sweep.complete.all() and not self.converged:
            sweep.step(_after(sweep.products, progress))
            progress(sweep.products, None, "products with H")
            self.converged = self._tight(sweep, known)
            if place is not None and time.monotonic() - saved > SAVE_EVERY:
                sweep.save(place)
                saved = time.monotonic()
        if place is not None:
            sweep.save(place)
        self.converged = bool(self.converged or sweep.complete.all())

    def _tight(self, sweep: Lanczos, known: EigenvalueBounds | None) -> bool:
        """Whether every recursion that still runs has its bracket, by the O(q) recursions for 1/x.

        Looked at after the same products whether the sweep was stopped in between or not, so that it ends at the same one.
        """
        if sweep.products == 0 or sweep.products % self.every:
            return False
        live = np.flatnonzero(~sweep.complete)
        if not len(live):
            return True
        alphas, betas = sweep.alphas[live], sweep.betas[live]
        a = 0.0 if known is None else known.lower
        ridge = self.ridge
        if a == 0 and ridge == 0 and known is not None:
            ridge = FALLBACK_RIDGE * self.mean_diagonal
        with np.errstate(all="ignore"):
            lower = inverse_entries(alphas, betas, ridge)
            if known is None:  # nothing certified to stop on: the value has stopped moving
                before = sweep.products - 2 * self.every
                if before <= 0:
                    return False
                past = inverse_entries(alphas[:, :before], betas[:, :before], ridge)
                return bool(np.all(np.abs(lower - past) <= 0.1 * self.tol * np.abs(lower)))
            upper = radau_inverse_entries(alphas, betas, ridge, a)
            return bool(np.all((upper - lower <= 0.5 * self.tol * lower) & (lower > 0)))

    def result(self, sweep: Lanczos, known: EigenvalueBounds | None, whole: bool) -> Quadrature:
        ritz = [gauss(sweep.alphas[j, :q], sweep.betas[j, :q], 1.0).nodes for j, q in enumerate(sweep.lengths) if q > 0]
        least, most = (float(f([f(nodes) for nodes in ritz], initial=0.0)) for f in (np.min, np.max))
        # labels in the null space alone see no eigenvalue above rounding
        allowed = 1e-8 * max(most, self.mean_diagonal) + self.H.rounding + self.H.product_rounding
        if least < -allowed:
            raise ValueError(
                f"`H` has an eigenvalue of at most {least:.1e} beside one of at least {most:.1e}; "
                "expected a positive semi-definite matrix, as every kernel gives"
            )
        best = max(ritz, key=lambda nodes: float(np.sum(nodes[:-1] ** 2)), default=np.zeros(1))
        sharpen = whole and known is not None and known.upper_method != "given"
        # random vectors cost no more products than the labels did
        steps = max(8, sweep.products)
        most_upper = largest_bound(self.H, best, "auto" if sharpen else "norms", steps=min(STEPS, steps))
        notes = list(self.notes)
        unasked = known is None
        if known is None:
            known = with_largest(EigenvalueBounds(0.0, np.inf, "not asked for"), *most_upper)
        elif most_upper[0] < known.upper:
            known = with_largest(known, *most_upper)
        if known.lower == 0 and self.ridge == 0 and not sweep.complete.all():
            stopped = (
                "when its estimate had stopped moving"
                if unasked
                else f"on the bracket with ridge {FALLBACK_RIDGE:g} times the mean diagonal"
            )
            notes.append(
                "no positive lower bound on λ_min is known, so yᵀH⁻¹y has no finite upper bound"
                + (f"; the sweep was stopped {stopped}" if self.converged else "")
            )
        if whole and not self.converged:
            notes.append(f"stopped at {sweep.products} products before the width {self.tol:g} was reached")
        step_rounding = (
            4 * self.H.product_epsilon * known.upper * (16 + np.sqrt(self.H.n))
        )  # products, reorthogonalisation, nodes
        made = Quadrature(
            alphas=sweep.alphas.copy(),
            betas=sweep.betas.copy(),
            lengths=np.maximum(sweep.lengths, 1),
            complete=sweep.complete.copy(),
            masses=sweep.masses.copy(),
            bounds=known,
            perturbation=self.H.rounding + step_rounding,
            n=self.H.n,
            mean_diagonal=self.mean_diagonal,
            products=sweep.products,
            converged=self.converged,
            notes=tuple(notes),
            assumptions=rounding_within(self.H.rounding, step_rounding),
            provenance=self.watch.provenance(
                {"tol": self.tol, "ridge": self.ridge, "max_products": self.most}, device=self.H.device
            ),
        )
        return replace(made, notes=(*notes, *self._rounding_note(made))) if whole and self.converged else made

    def _rounding_note(self, made: Quadrature) -> tuple[str, ...]:
        """Said where the sweep came to its end and rounding, not products, keeps the bracket wider than asked."""
        found = made.bracket(Inverse(self.ridge)).per_output
        assert found is not None
        wide = found.certified & (found.upper - found.lower > self.tol * found.lower)
        if not wide.any():
            return ()
        with np.errstate(divide="ignore"):
            width = float(np.max((found.upper - found.lower)[wide] / found.lower[wide]))
        return (f"rounding leaves the bracket at relative width {width:.1g}; more products do not narrow it",)
