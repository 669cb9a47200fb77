"""What an analysis works on: the prepared rows and labels, their Gram matrix, and rows to predict on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from overparam.core.kernel import AbstractKernel
from overparam.core.progress import Progress
from overparam.data import Dataset
from overparam.engines import AbstractGram, as_gram

HELD_OUT = 0.2


@dataclass(frozen=True, eq=False)
class Setting:
    """Prepared data, targets as the theory takes them, the matrix, and what was done to get there."""

    source: Dataset
    """As loaded (after subsampling), before preprocessing: what duplicates and scales are looked for in."""
    data: Dataset
    y: np.ndarray
    """(n,) or (n, k); regression targets centred and scaled to variance 1."""
    y_test: np.ndarray | None
    kernel: AbstractKernel
    H: AbstractGram
    seed: int
    notes: tuple[str, ...]
    progress: Progress

    @property
    def n(self) -> int:
        return self.H.n

    @property
    def classes(self) -> bool:
        return self.data.task != "regression"

    def label(self, code: int) -> str:
        return str(self.data.classes[code])

    def error(self, y: np.ndarray, outputs: np.ndarray) -> float:
        """Share of rows got wrong; for regression the mean squared error over the variance of the targets."""
        if not self.classes:
            return float(np.mean((y - outputs) ** 2))
        if y.ndim == 1:
            return float(np.mean(np.sign(outputs) != y))
        return float(np.mean(outputs.argmax(axis=1) != y.argmax(axis=1)))


@dataclass(frozen=True, eq=False)
class Trial:
    """Rows to fit and rows to predict: the test set, or a fifth of the rows held out."""

    H: AbstractGram
    y: np.ndarray
    y_new: np.ndarray
    new_rows: np.ndarray | None
    fitted_rows: np.ndarray | None
    what: str
    setting: Setting

    def predict(self, coefficients: np.ndarray) -> np.ndarray:
        """K(x, X) c on the new rows."""
        s = self.setting
        if self.new_rows is not None:
            return s.H.block(self.new_rows, self.fitted_rows) @ coefficients
        assert s.data.test is not None
        return s.H.cross_product(np.asarray(s.data.test.X, dtype=np.float64), coefficients)


def make_trial(setting: Setting) -> Trial | None:
    """The test set where there is one; else a fifth of the rows; None where there are too few of them."""
    if setting.data.test is not None and setting.y_test is not None:
        count = setting.data.test.n
        return Trial(setting.H, setting.y, setting.y_test, None, None, f"the {count:,} test rows", setting)
    if setting.n < 10 or setting.H.xp is not np:
        return None
    order = np.random.default_rng([setting.seed, 5]).permutation(setting.n)
    held = np.sort(order[: max(2, round(HELD_OUT * setting.n))])
    fitted = np.sort(order[len(held) :])
    H = as_gram(_symmetric(setting.H.block(fitted, fitted)))
    what = f"{len(held):,} rows held out"
    return Trial(H, setting.y[fitted], setting.y[held], held, fitted, what, setting)


def _symmetric(block: np.ndarray) -> np.ndarray:
    return (block + block.T) / 2


def columns(y: np.ndarray) -> np.ndarray:
    """(n, k), also for one output."""
    return y.reshape(len(y), -1)


def standardised_targets(y: np.ndarray, like: np.ndarray) -> Any:
    """Targets centred and scaled as the training targets `like` are."""
    top = float(np.abs(like).max()) or 1.0  # first to size 1, so that squares neither over- nor underflow
    spread = float((like / top).std())
    return (y / top - float((like / top).mean())) / (spread if spread > 0 else 1.0)
