"""Products that outlive a stop: each is kept in a folder, and an algorithm run again gets back those it made before."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from types import ModuleType
from typing import Any, final

import numpy as np

from overparam.core.files import write_whole
from overparam.core.progress import Progress
from overparam.engines.matrix import AbstractGram


@final
class RememberedGram(AbstractGram):
    """H whose products are written to a folder (`remember` makes one); everything else is H's own."""

    def __init__(self, H: AbstractGram, folder: str | os.PathLike[str]) -> None:
        self._gram, self._folder = H, Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self.n, self.plan, self.kernel, self.X, self.get = H.n, H.plan, H.kernel, H.X, H.get
        self.repaired = H.repaired
        known = H.kernel is not None and H.X is not None
        about = H.kernel.settings if known and H.kernel is not None else "numbers"
        identity = hashlib.blake2b(repr((H.n, about, H.get)).encode(), digest_size=16)
        # the diagonal tells kernels apart whose weights show in no text
        for array in (H.diagonal(), H.X if known and H.X is not None else H.dense()):
            for start in range(0, len(array), 1024):
                identity.update(np.ascontiguousarray(array[start : start + 1024]).tobytes())
        self._identity = identity.digest()

    @property
    def xp(self) -> ModuleType:
        return self._gram.xp

    @property
    def device(self) -> str:
        return self._gram.device

    @property
    def rounding(self) -> float:
        return self._gram.rounding

    def to_device(self, V: np.ndarray) -> Any:
        return self._gram.to_device(V)

    def product(self, V: Any, progress: Progress | None = None) -> Any:
        host = np.ascontiguousarray(self.to_host(V))
        name = hashlib.blake2b(self._identity + str(host.shape).encode() + host.tobytes(), digest_size=16).hexdigest()
        path = self._folder / f"product-{name}.npy"
        if path.exists():
            try:
                return self.to_device(np.load(path, allow_pickle=False))
            except (OSError, ValueError, EOFError):
                path.unlink()  # damaged: made again below
        made = self._gram.product(V, progress)
        buffer = io.BytesIO()
        np.save(buffer, self.to_host(made), allow_pickle=False)
        write_whole(path, buffer.getvalue())
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


def remember(H: AbstractGram, folder: str | os.PathLike[str]) -> AbstractGram:
    """H with its products kept in `folder`, so that long work on it goes on after ctrl-C, a kill or a crash.

    Everything made of products (`eigenpairs`, `power_iteration`, `predict`, `quadrature`) asks for the same ones in the
    same order when it is run again with the same arguments; those that were finished are read instead of made. Worth it
    where a product takes seconds: each is stored, n numbers a vector. Delete the folder when done.

    >>> import tempfile
    >>> from overparam.engines.matrix import as_gram
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     remember(as_gram(np.diag([1.0, 2.0])), folder) @ [1.0, 1.0]
    array([1., 2.])
    """
    return RememberedGram(H, folder)
