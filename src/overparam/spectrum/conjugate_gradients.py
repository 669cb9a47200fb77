"""Preconditioned conjugate gradients on H + ridge: one recursion a right-hand side, all of them sharing their products."""

from __future__ import annotations

import os
import time
from typing import Any, final

import numpy as np

from overparam.core.progress import Interrupted, Progress
from overparam.data.draws import generator
from overparam.engines.matrix import AbstractGram
from overparam.frame.keeping import Kept, State, fingerprint
from overparam.spectrum.cholesky import not_definite
from overparam.spectrum.preconditioner import Preconditioner

SAVE_EVERY = 20.0
LOST = 1e16
"""A residual this many times as large as the right-hand side: no digit is left, as of a singular matrix without a ridge."""


@final
class ConjugateGradients:
    """The state of k recursions: solutions Z, residuals R, directions P, and R·M⁻¹R; they lie where the products are made.

    The residuals of the recursion drift from the true ones by rounding. So at the end R is made anew by a product, which is what
    the certificate is read from, and where it is larger than asked the recursions start again from it.

    With `kept`, (n, f) of 0 and 1, the systems are m H m + ridge, m the rows kept, f of them side by side in the columns: Y has
    those of every system, 0 in rows that it does not keep. `image` is H Z, rows that are not kept included; None where a
    finished solve was read.

    `rough` is a matrix near H with cheaper products, where the same arrays lie: steps are made with it, while residuals, and so
    what is certified, stay those of H.
    """

    def __init__(
        self,
        H: AbstractGram,
        Y: np.ndarray,
        ridge: float,
        columns: int,
        key: Any,
        place: str | os.PathLike[str] | None,
        progress: Progress,
        kept: np.ndarray | None = None,
        rough: AbstractGram | None = None,
    ) -> None:
        self._rough = H if rough is None else rough
        self._gram, self._ridge, self._tell = H, ridge, progress
        self.products, self._last = 0, np.inf
        self.image: Any = None
        self._state = None
        if place is not None:
            few = H.diagonal()[np.unique(np.linspace(0, H.n - 1, 3).astype(int))]
            mark = fingerprint(H.described, Y, ridge, columns, str(key), kept, [f"{value:.6e}" for value in few])
            self._state = State(place, "solve", mark)
        state = None if self._state is None else self._state.load()
        chosen = np.sort(generator(key).choice(H.n, size=columns, replace=False))
        with H.arithmetic():
            self.near = Preconditioner(H, ridge, chosen, progress, kept)
            self._kept = None if kept is None else H.to_device(np.repeat(kept, Y.shape[1] // kept.shape[1], axis=1))
            self._Y = H.to_device(Y)
            self._sizes = np.linalg.norm(Y, axis=0)
            if state is None:
                self.Z = self._gram.xp.zeros_like(self._Y)
                self._begin(self._Y, exact=False)
            else:
                self.Z, self.R, self._P = (H.to_device(state.arrays[name]) for name in ("Z", "R", "P"))
                self._steep = state.arrays["steep"]
                self.products = self._counted = int(state.about["products"])
                self._last, self._exact = float(state.about["last"] or np.inf), bool(state.about["exact"])
        self._saved = time.monotonic()

    def run(self, least: float, tol: float, gap: float | None, most: int) -> str:
        """Steps until every ‖r‖ ≤ tol ‖y‖, or the bracket is as tight as `gap`, R made anew; why not, where they end before.

        `least` is a bound below the eigenvalues of H + ridge, 0 where none is known.
        """
        try:
            return self._run(least, tol, gap, most)
        except KeyboardInterrupt:
            self.save()
            where = "call again with the same `place`" if self._state is not None else "name a `place` to go on from"
            words = f"stopped after {self.products} products: {where}"
            raise Interrupted(None, words, kept=self._state is not None) from None

    def _run(self, least: float, tol: float, gap: float | None, most: int) -> str:
        with self._gram.arithmetic():
            while not (self._exact and self._done(least, tol, gap)):
                before = self.products
                while not self._done(least, tol, gap) and self.products < most - 1:
                    self._step(tol)
                    if time.monotonic() - self._saved > SAVE_EVERY:
                        self.save()
                stepped = self.products > before
                made = self._times(self.Z, self._gram)
                self.image = made
                self._begin(self._Y - self._of(made, self.Z), exact=True)
                worst = float(np.max(self._relative(), initial=0.0))
                if not self._done(least, tol, gap):
                    if self.products >= most:
                        return f"stopped at {self.products} products with a residual of {worst:.1g}"
                    if not stepped or not worst <= 0.5 * self._last:
                        return ""
                self._last = worst
            self.save()
            return ""

    def save(self) -> None:
        """Keep the state, where there is a place for it."""
        if self._state is None:
            return
        arrays = {name: self._gram.to_host(part) for name, part in (("Z", self.Z), ("R", self.R), ("P", self._P))}
        last = self._last if np.isfinite(self._last) else None
        about = {"products": self._counted, "last": last, "exact": self._exact}
        self._state.save(Kept({**arrays, "steep": self._steep}, about))
        self._saved = time.monotonic()

    def _begin(self, R: Any, *, exact: bool) -> None:
        """Start again from a residual, one made by a product where it is `exact`."""
        P = self._led(R)
        self.R, self._P, self._steep = R, P, self._dots(R, P)
        self._exact, self._counted = exact, self.products

    def _step(self, tol: float) -> None:
        AP = self._of(self._times(self._P, self._rough), self._P)
        curved = self._dots(self._P, AP)
        left = self._relative()
        live = (left > tol) & (self._steep > 0)
        if not np.all(left < LOST):
            raise not_definite(self._gram, self._ridge)
        if np.any(live & ~(curved > 0)):
            raise ValueError(
                f"`H` + {self._ridge:g} is not positive definite: conjugate gradients met a direction of curvature "
                f"{float(np.min(curved[live])):.1e}; use a larger ridge, or drop repeated and near-parallel rows"
            )
        put = self._gram.to_device
        length = put(np.where(live, self._steep, 0.0) / np.where(live, curved, 1.0))
        Z, R = self.Z + self._P * length, self.R - AP * length
        S = self._led(R)
        steep = self._dots(R, S)
        P = S + self._P * put(np.where(live, steep, 0.0) / np.where(live, self._steep, 1.0))
        self.Z, self.R, self._P, self._steep = Z, R, P, np.where(live, steep, self._steep)
        self._exact, self._counted = False, self.products  # what a stop in the next product goes on from

    def _times(self, V: Any, H: AbstractGram) -> Any:
        """H V, counted."""
        done = self.products
        made = H.product(V, lambda share, total, what: self._tell(done + share, None, "products with H"))
        self.products += 1
        self._tell(self.products, None, "products with H")
        return made

    def _of(self, made: Any, V: Any) -> Any:
        """The system's own product from H V."""
        return (made if self._kept is None else self._kept * made) + self._ridge * V

    def _led(self, R: Any) -> Any:
        """What the preconditioner makes of residuals."""
        solved = self.near.solve(R)
        return solved if self._kept is None else self._kept * solved

    def _done(self, least: float, tol: float, gap: float | None) -> bool:
        if np.all(self._relative() <= tol):
            return True
        if gap is None or not least > 0:
            return False
        lower = float(np.sum(self._dots(self._Y, self.Z) + self._dots(self.Z, self.R)))
        return float(np.sum(self._dots(self.R, self.R))) / least <= 0.9 * gap * lower  # rounding is to come on top

    def _relative(self) -> np.ndarray:
        return np.sqrt(self._dots(self.R, self.R)) / np.where(self._sizes > 0, self._sizes, 1.0)

    def _dots(self, A: Any, B: Any) -> np.ndarray:
        """Of every column, on the host."""
        return self._gram.to_host(self._gram.xp.einsum("ij,ij->j", A, B))
