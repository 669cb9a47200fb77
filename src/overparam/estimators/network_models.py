"""Finite networks trained as the papers train them, as scikit-learn estimators: width, rate and steps are those of the theory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, final

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state

from overparam.core import checks
from overparam.core.provenance import Stopwatch
from overparam.data import Dataset
from overparam.data.draws import split_rows
from overparam.data.labels import encode_codes
from overparam.data.prepared_columns import prepare_columns
from overparam.estimators.kernel_models import AbstractTuned, checked_labels, checked_numbers, equal_rows
from overparam.estimators.rows import as_numbers
from overparam.theory.tuning import tuned_fit

STEPS = (1, 3, 10, 30, 100, 300, 1_000, 3_000)
"""Numbers of steps among which training is stopped."""
LAZY = 0.1
"""The laziness number up to which a width is looked for: a neuron then moves by a tenth of its start."""
LEAST_WIDTH, MOST_WIDTH = 256, 4_096
HELD_OUT = 0.2
NEW_ROWS = 4_096
"""New rows at once."""


class AbstractWideNet(AbstractTuned):
    """What both networks share. Args: as in `WideNetClassifier`."""

    def __init__(
        self,
        *,
        width: int | str = "auto",
        kappa: float = 1.0,
        lr: float | str = "auto",
        steps: int | str = "theory",
        preprocess: str = "auto",
        random_state: Any = 0,
        dtype: str = "float64",
        device: str | None = None,
    ) -> None:
        self.width, self.kappa, self.lr, self.steps = width, kappa, lr, steps
        self.preprocess, self.random_state, self.dtype, self.device = preprocess, random_state, dtype, device

    def _fit(self, X: Any, targets: Callable[[int], np.ndarray], task: Literal["classes", "regression"]) -> None:
        from overparam.kernels import TwoLayer as Limit

        watch = Stopwatch()
        checks.positive(self.kappa, "kappa")
        named = isinstance(self.steps, str) and checks.one_of(
            self.steps, "steps", ("theory", "held-out"), "or a number"
        )
        counts: Any = STEPS if named else checks.whole_number(self.steps, "steps", least=1)
        given = isinstance(self.lr, str) and checks.one_of(self.lr, "lr", ("auto",), "or a number")
        lr = None if given else checks.positive(self.lr, "lr", fix="or 'auto'")
        A, encoders, self._notes = as_numbers(self, X)
        y = targets(len(A))
        self.columns_ = prepare_columns(A, None, self.preprocess, encoders, codes=task == "classes")
        rows = self.columns_.rows(A)
        key = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        same = (
            equal_rows(A) if task == "regression" else np.arange(len(A))
        )  # replicates differ by noise, and leave together
        groups = same if 0 < same.max() < len(A) - 1 else None
        self.fit_ = tuned_fit(
            rows, y, groups=groups, candidates={"two layers": Limit()}, steps=counts, lr=lr, task=task, key=key
        )
        self._seed, self._counted, self._left_out = key, np.ones(len(y)), self.fit_.outputs
        best = self.fit_.settings[0]
        self.lr_, self.steps_ = float(best.lr or 0.0), int(best.steps or 0)
        shift, units = self._scale()
        scaled = (y.reshape(len(y), -1) - shift) / units
        self.width_ = self._width()
        if self.steps == "held-out":
            self.steps_ = self._by_held_rows(rows, scaled, y, task, key)
        self._params = [
            self._trained(rows, column, self.steps_, key + place)[0] for place, column in enumerate(scaled.T)
        ]
        self._provenance = watch.provenance({}, seed=key)

    def _width(self) -> int:
        """The one given; else that at which the theory has neurons move by a tenth of their start, 256 to 4,096.

        ‖W(s) − W(0)‖² ≈ cᵀ H c, c the coefficients after s steps, and laziness is its root over √m κ.
        """
        H, c = self.fit_.kernel(self.fit_.distinct), self.fit_.coefficients
        moved = float(np.sqrt(np.max(np.sum(c * (H @ c), axis=0), initial=0.0)))
        if isinstance(self.width, str):
            checks.one_of(self.width, "width", ("auto",), "or a number")
            wanted = (moved / (LAZY * self.kappa)) ** 2
            width = 2 * int(np.ceil(np.clip(wanted, LEAST_WIDTH, MOST_WIDTH) / 2))
        else:
            width = checks.whole_number(self.width, "width", least=2)
        self.laziness_ = moved / (np.sqrt(width) * self.kappa)
        return width

    def _by_held_rows(self, rows: np.ndarray, scaled: np.ndarray, y: np.ndarray, task: Any, key: int) -> int:
        """The number of steps after which networks trained on four fifths of the rows have the least loss on the others."""
        codes = (
            np.zeros(len(y), dtype=int)
            if task == "regression"
            else (y > 0).astype(int)
            if y.ndim == 1
            else y.argmax(axis=1)
        )
        kept, held = split_rows(
            len(rows), max(1, round(HELD_OUT * len(rows))), np.random.default_rng([key, 3]), strata=codes
        )
        losses = [
            self._trained(rows[kept], column[kept], max(STEPS), key + place, rows[held], column[held])[1]
            for place, column in enumerate(scaled.T)
        ]
        return STEPS[int(np.sum(losses, axis=0).argmin())]

    def _trained(
        self, X: np.ndarray, y: np.ndarray, steps: int, key: int, Z: Any = None, told: Any = None
    ) -> tuple[Any, np.ndarray]:
        """One network of one output after so many steps, and its loss on other rows after each number of `STEPS`."""
        from overparam.training import gradient_descent

        test = None if Z is None else Dataset(Z, told, labels=told, task="regression")
        data = Dataset(X, y, labels=y, task="regression", test=test)
        record = [0, steps] if Z is None else [0, *STEPS]
        run = gradient_descent(
            self._network(),
            data,
            self.lr_,
            steps,
            key=key,
            record=record,
            measures=(),
            dtype=self.dtype,
            device=self.device,
        )
        if not np.isfinite(run.loss[-1]):
            raise ValueError(
                f"training left the finite numbers at the rate {self.lr_:g}; use a smaller `lr`, or lr='auto'"
            )
        return run.params, np.zeros(1) if Z is None else run.records["test_loss"][1:]

    def _scale(self) -> tuple[Any, Any]:
        """What is taken from targets, and what they are then divided by."""
        fit = self.fit_
        return (fit.y.reshape(len(fit.y), -1).mean(axis=0), fit.units) if fit.task == "regression" else (0.0, 1.0)

    @property
    def learned_(self) -> dict[str, float]:
        """Width, rate, steps and laziness."""
        return {"width": self.width_, "lr": self.lr_, "steps": self.steps_, "laziness": self.laziness_}

    @property
    def weights_(self) -> dict[str, np.ndarray]:
        """Of every network, by its output and their name."""
        layers = ((place, {**params.trained, **params.fixed}) for place, params in enumerate(self._params))
        return {f"{place}.{name}": np.asarray(array) for place, own in layers for name, array in own.items()}

    def take_weights(self, learned: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> None:
        """What `learned_` and `weights_` gave, as a folder gives it back."""
        from overparam.core.network import Params  # it brings JAX

        self.width_, self.steps_ = int(learned["width"]), int(learned["steps"])
        self.lr_, self.laziness_ = float(learned["lr"]), float(learned["laziness"])
        count = 1 + max((int(name.partition(".")[0]) for name in weights), default=-1)
        self._params = [Params({"W": weights[f"{place}.W"]}, {"a": weights[f"{place}.a"]}) for place in range(count)]

    def _network(self) -> Any:
        from overparam.networks import TwoLayer

        return TwoLayer(self.width_, self.kappa, paired=self.width_ % 2 == 0)

    def _outputs(self, X: Any) -> np.ndarray:
        from overparam.training.precision import computing

        rows, network = self._rows(X), self._network()
        found = np.empty((len(rows), len(self._params)))
        with computing(self.dtype, self.device) as kind:
            for start in range(0, len(rows), NEW_ROWS):
                piece = np.asarray(rows[start : start + NEW_ROWS], dtype=kind)
                for place, params in enumerate(self._params):
                    found[start : start + NEW_ROWS, place] = np.asarray(network.apply(params, piece), dtype=np.float64)
        shift, units = self._scale()
        found = found * units + shift
        return found if self.fit_.y.ndim == 2 else found[:, 0]


@final
class WideNetClassifier(ClassifierMixin, AbstractWideNet):
    """A wide two-layer network of which the first layer is trained, by full-batch gradient descent on the squares.

    f(x) = (1/√m) Σ_r a_r max(w_r·x, 0), w_r ~ N(0, κ²) in pairs that cancel at the start; of more than two classes one network a class.
    The rate is 1/λ_max of the tangent kernel; the steps are those after which the kernel's gradient descent predicts rows left
    out best, by exact fits to folds, before any network is trained; the width is the one from which the theory trusts itself
    (`laziness_` ≤ 0.1), 256 to 4,096.

    Ref: fine_grained, Eq. (1), (2), Thm 4.1

    Args:
        width: m, or "auto".
        kappa: κ.
        lr: the rate for the sum of squares, or "auto".
        steps: "theory"; "held-out", by a fifth of the rows, after which all rows are trained on; or how many.
        preprocess: as in `NTKClassifier`.
        random_state: of the weights.
        dtype, device: as in `op.training.gradient_descent`.
    """

    def fit(self, X: Any, y: Any) -> WideNetClassifier:
        """Fit to rows, as in `NTKClassifier`, and their classes."""

        def targets(n: int) -> np.ndarray:
            self.classes_, codes = checked_labels(y, n, np.arange(n))
            return 2.0 * codes - 1.0 if len(self.classes_) == 2 else encode_codes(codes, len(self.classes_))

        self._fit(X, targets, "classes")
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """The outputs, (n,) of two classes, positive for the second; (n, classes) of more."""
        return self._outputs(X)

    def predict(self, X: Any) -> np.ndarray:
        """The class of the largest output."""
        outputs = self._outputs(X)
        return self.classes_[(outputs > 0).astype(int) if outputs.ndim == 1 else outputs.argmax(axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, classes) probabilities, calibrated by the kernel's predictions for rows left out."""
        outputs = self._outputs(X)
        return self.fit_.probabilities(outputs)


@final
class WideNetRegressor(RegressorMixin, AbstractWideNet):
    """As `WideNetClassifier`, of one target or several, each centred and scaled by its deviation, one network a target."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> WideNetRegressor:
        """Fit to rows and their targets, (n,) or (n, targets)."""
        self._fit(X, lambda n: checked_numbers(y, n, np.arange(n)), "regression")
        return self

    def predict(self, X: Any) -> np.ndarray:
        """In the shape of the targets."""
        return self._outputs(X)
