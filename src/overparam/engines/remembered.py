"""Products that outlive a stop: each is kept in a place, and an algorithm run again gets back those it made before."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any, final

import numpy as np

from overparam.core.deprecated import accepts_old
from overparam.core.progress import Progress
from overparam.engines.matrix import AbstractGram
from overparam.frame.keeping import Keeping, Kept, fingerprint


@final
class RememberedGram(AbstractGram):
    """H whose products are kept (`remember` makes one); everything else is H's own."""

    def __init__(self, H: AbstractGram, place: str | os.PathLike[str]) -> None:
        self._gram, self._keeping = H, Keeping(place)
        self.n, self.plan, self.kernel, self.X, self.get = H.n, H.plan, H.kernel, H.X, H.get
        self.repaired = H.repaired
        # the diagonal tells kernels apart that differ in what their functions reach by global names
        self._matrix = fingerprint(H.described, H.diagonal())

    @property
    def xp(self) -> ModuleType:
        return self._gram.xp

    @property
    def device(self) -> str:
        return self._gram.device

    @property
    def rounding(self) -> float:
        return self._gram.rounding

    @property
    def product_epsilon(self) -> float:
        return self._gram.product_epsilon

    @property
    def product_rounding(self) -> float:
        return self._gram.product_rounding

    def device_block(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        return self._gram.device_block(rows, columns)

    def to_device(self, V: np.ndarray) -> Any:
        return self._gram.to_device(V)

    def product(self, V: Any, progress: Progress | None = None) -> Any:
        mark = fingerprint(self._matrix, self.to_host(V))
        kept = self._keeping.find("product", mark)
        if kept is not None:
            return self.to_device(kept.arrays["product"])
        made = self._gram.product(V, progress)
        self._keeping.keep("product", mark, Kept({"product": self.to_host(made)}))
        return made

    def diagonal(self) -> np.ndarray:
        return self._gram.diagonal()

    def dense(self) -> np.ndarray:
        return self._gram.dense()

    def block(self, rows: Any, columns: Any) -> np.ndarray:
        return self._gram.block(rows, columns)

    def square_sum(self) -> float:
        return self._gram.square_sum()

    def close_pairs(
        self, threshold: float, moment: int, most: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        return self._gram.close_pairs(threshold, moment, most)

    def sampled_cosines(self, rows: np.ndarray) -> np.ndarray:
        return self._gram.sampled_cosines(rows)

    def cross_product(self, X_new: np.ndarray, C: np.ndarray) -> np.ndarray:
        return self._gram.cross_product(X_new, C)


@accepts_old("remember")
def remember(H: AbstractGram, place: str | os.PathLike[str]) -> AbstractGram:
    """H with its products kept in the folder `place`, so that long work on it goes on after ctrl-C, a kill or a crash.

    Everything made of products (`eigenpairs`, `power_iteration`, `predict`, `quadrature`) asks for the same ones in the
    same order when it is run again with the same arguments; those that were finished are read instead of made. Worth it
    where a product takes seconds: each is stored, n numbers a vector. Delete the folder when done.

    >>> import tempfile
    >>> from overparam.engines.matrix import as_gram
    >>> with tempfile.TemporaryDirectory() as place:
    ...     remember(as_gram(np.diag([1.0, 2.0])), place) @ [1.0, 1.0]
    array([1., 2.])
    """
    return RememberedGram(H, place)
