"""A fitted estimator as an Answer: saved with its page and read back without pickle."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, final

import numpy as np

from overparam.core.bracketed import Interval
from overparam.core.kernel import AbstractKernel
from overparam.core.provenance import Provenance
from overparam.core.sections import Figure, Section, Text, Verdict, series, table
from overparam.core.spec import Spec, spec_of
from overparam.core.words import count_of, measured, number
from overparam.data.prepared_columns import PreparedColumns
from overparam.frame.answer import AbstractAnswer
from overparam.theory.tuning import TunedFit

SHOWN = 10
"""Settings on the page."""


@final
@dataclass(frozen=True, eq=False)
class FittedModel(AbstractAnswer):
    """`estimator` is the scikit-learn object that was saved: it predicts the same bits."""

    kind: ClassVar[str] = "fitted-model"

    model: str
    """The name of its class."""
    parameters: Mapping[str, Any]
    classes: np.ndarray | None
    """None of a regression; moments as whole numbers."""
    features: int
    names: tuple[str, ...] | None
    columns: PreparedColumns
    fit: TunedFit
    rows: np.ndarray
    """Those fitted, prepared."""
    coefficients: np.ndarray
    kernel: Spec
    get: str
    left_out: np.ndarray
    counted: np.ndarray
    """(rows,) how many equal rows each was."""
    seed: int
    words: tuple[str, ...]
    error: Interval
    provenance: Provenance
    learned: Mapping[str, float] = field(default_factory=dict)
    """Of a network: its width, rate, steps and laziness."""
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Of its networks, by output and name."""
    moments: str = ""
    """The dtype of classes that are dates."""

    def without_weights(self) -> FittedModel:
        return replace(self, weights={})

    @property
    def title(self) -> str:
        return f"{self.model}: {count_of(len(self.left_out), 'row')}"

    @property
    def done(self) -> str:
        return f"{self.model} fitted to {count_of(len(self.left_out), 'row')}"

    @property
    def verdict(self) -> Verdict:
        best = self.fit.settings[0]
        stop = f"stopped after {count_of(best.steps, 'step')}" if best.steps else f"ridge {number(best.ridge, 3)}"
        if self.classes is None and self.error.upper in (None, np.inf):
            first = (
                f"The mean square of two rows left out is {number(self.error.value, 3)}; more cannot be told from two."
            )
        elif self.classes is None:
            first = f"The mean square error on new rows is {measured(self.error, share=False)}, by rows left out."
        else:
            first = f"{measured(self.error)} of new rows are put into a wrong class, by rows left out."
        return Verdict("good", (first, f"Chosen of {count_of(len(self.fit.tried), 'setting')}: {best.name}, {stop}."))

    def sections(self) -> tuple[Section, ...]:
        heads = {"kernel": "kernel", "ridge": "ridge", "mean_square": "mean square", "error": "wrong", "rows": "rows"}
        best = [
            {
                "kernel": one.name,
                "ridge": one.ridge,
                "mean_square": one.mean_square,
                "error": one.error,
                "rows": one.rows,
            }
            for one in self.fit.settings[:SHOWN]
        ]
        tried = [one for one in self.fit.tried if one.rows == len(self.fit.y)]
        curves = [
            series(name, [one.ridge for one in own], [one.mean_square for one in own])
            for name in dict.fromkeys(one.name for one in self.fit.settings)
            if len(own := [one for one in tried if one.name == name]) > 1
        ]
        chart = Figure(
            "Mean square of rows left out by ridge", "Each kernel has one curve; the least point is the one chosen.",
            "ridge", "mean square", tuple(curves[:SHOWN]), x_scale="log",
        )  # fmt: skip
        notes = (*self.words, *self.fit.notes)
        return (
            self.verdict.section,
            Section("Settings", (table(heads, best, "The best settings by rows left out.", missing="–"), *((chart,) if curves else ()))),
            *((Section("Notes", tuple(Text(f"{note[0].upper()}{note[1:]}.") for note in notes)),) if notes else ()),
        )  # fmt: skip

    @property
    def estimator(self) -> Any:
        """The scikit-learn object."""
        kind = getattr(importlib.import_module("overparam.estimators"), self.model)
        found = kind(**{name: _made(value) for name, value in self.parameters.items()})
        found.n_features_in_ = self.features
        if self.names is not None:
            found.feature_names_in_ = np.array(self.names, dtype=object)
        if self.classes is not None:
            found.classes_ = self.classes.view(_moments(self.moments)) if self.moments else self.classes
        found.columns_, found._left_out, found._counted = self.columns, self.left_out, self.counted
        found._seed, found._notes, found._provenance = self.seed, list(self.words), self.provenance
        if self.learned:
            found.take_weights(self.learned, self.weights)
        found.fit_ = self.fit.put_back(self.rows, self.kernel.make(), self.get, self.coefficients)
        return found


def fitted_model(estimator: Any) -> FittedModel:
    """The Answer of a fitted estimator."""
    fit: TunedFit = estimator.fit_
    kernel = spec_of(fit.kernel)
    if not kernel.house:
        raise ValueError(
            f"{kernel} is not a kernel of overparam and cannot be made from its record; keep the estimator by pickle"
        )
    parameters = {name: _plain(value, name) for name, value in estimator.get_params(deep=False).items()}
    classes, moments = _stored(getattr(estimator, "classes_", None))
    names = getattr(estimator, "feature_names_in_", None)
    return FittedModel(
        model=type(estimator).__name__,
        parameters=parameters,
        classes=classes,
        moments=moments,
        features=estimator.n_features_in_,
        names=None if names is None else tuple(map(str, names)),
        columns=estimator.columns_,
        fit=fit,
        rows=fit.rows,
        coefficients=fit.coefficients,
        kernel=kernel,
        get=fit.get,
        left_out=estimator._left_out,
        counted=estimator._counted,
        seed=estimator._seed,
        words=tuple(estimator._notes),
        error=estimator.loo_error_,
        learned=getattr(estimator, "learned_", {}),
        weights=estimator.weights_ if hasattr(estimator, "weights_") else {},
        provenance=replace(estimator._provenance, configuration={"model": type(estimator).__name__, **parameters}),
    )


def _stored(classes: np.ndarray | None) -> tuple[np.ndarray | None, str]:
    """Classes as an array that is read back without pickle, and the dtype of those that are dates."""
    if classes is None or classes.dtype.kind in "biufU":
        return classes, ""
    if classes.dtype.kind in "mM":
        return classes.view(np.int64), classes.dtype.str
    if all(isinstance(value, str) for value in classes.tolist()):  # as pandas has them
        return classes.astype(str), ""
    kind = type(classes[0]).__name__
    raise ValueError(
        f"the classes are of the kind {kind}, which a folder does not hold; fit to text, or keep the estimator by pickle"
    )


def _moments(dtype: str) -> np.dtype[Any]:
    found = np.dtype(dtype)
    if found.kind not in "mM":
        raise ValueError(f"the classes were stored as {dtype!r}, which are no dates; make the result again")
    return found


def _plain(value: Any, name: str) -> Any:
    """A parameter as JSON: kernels as their Specs, weights of classes as pairs."""
    if isinstance(value, AbstractKernel):
        return {"kernel": spec_of(value).to_json()}
    if isinstance(value, Mapping):
        return {"pairs": [[_plain(key, name), _plain(item, name)] for key, item in value.items()]}
    if isinstance(value, np.generic) and value.dtype.kind in "biufU":
        return value.item()
    if isinstance(value, tuple | list | range | np.ndarray):
        return [_plain(item, name) for item in value]
    if isinstance(value, np.random.RandomState):
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    raise ValueError(f"`{name}` holds a {type(value).__name__}, which a folder does not; keep the estimator by pickle")


def _made(value: Any) -> Any:
    if isinstance(value, Mapping):
        if "kernel" in value:
            return Spec.from_json(value["kernel"]).make()
        return {_made(key): _made(item) for key, item in value["pairs"]}
    return tuple(map(_made, value)) if isinstance(value, list) else value
