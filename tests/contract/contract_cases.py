"""One table of verbs and one of kinds of results: what each is asked in the contract tests, as small as it can be."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import overparam as op
from overparam.frame import AbstractAnswer, Job


def rows(n: int = 16, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose label is the sign of their first entry."""
    X = np.random.default_rng(0).standard_normal((n, d))
    return X, np.where(X[:, 0] > 0, 1, -1)


@dataclass(frozen=True)
class Verb:
    """A question: how it is prepared, with what, and what is wrong with it in other words."""

    prepare: Callable[..., Job[Any]]
    before: tuple[Any, ...] = ()
    """Arguments before the data: a network."""
    data: tuple[Any, Any] | None = field(default_factory=rows)
    """None where the question has no data of its own."""
    options: Mapping[str, Any] = field(default_factory=dict)
    wrong: Mapping[str, tuple[Mapping[str, Any], str]] = field(default_factory=dict)
    """By name: options that cannot be, and what the line says."""
    command: tuple[str, ...] | None = ()
    """The same question on the command line, without data; None where only Python asks it."""
    kind: str = ""
    """Of its answer, where that is not the name of the verb."""

    def job(self, **more: Any) -> Job[Any]:
        given = () if self.data is None else (self.data,)
        return self.prepare(*self.before, *given, **{**self.options, **more})


def _verbs() -> dict[str, Verb]:
    from overparam.analysis import (
        prepare_analyze,
        prepare_build_gram,
        prepare_compare,
        prepare_diff,
        prepare_find_label_issues,
        prepare_foresee,
        prepare_train_and_compare,
    )
    from overparam.audits import prepare_audit
    from overparam.landscapes import prepare_landscape
    from overparam.studies import STUDIES, prepare_reproduce

    two, deep = op.networks.TwoLayer(8, paired=True), op.networks.FullyConnected(8, 2)
    return {
        "train": Verb(
            prepare_train_and_compare,
            before=(two,),
            options={"steps": 3},
            wrong={"no such loss": ({"loss": "total"}, "`loss`"), "no steps": ({"steps": -1}, "`steps`")},
            command=("--width", "8", "--steps", "3", "--test", "0"),
            kind="run-comparison",
        ),
        "audit": Verb(
            prepare_audit,
            before=(deep,),
            options={"laws": ["forward norms", "sign changes"], "effort": "quick"},
            wrong={"no such effort": ({"effort": "much"}, "`effort`"), "no rows": ({"max_rows": 0}, "`max_rows`")},
            command=("fully-connected", "--width", "8", "--laws", "forward norms,sign changes", "--effort", "quick"),
        ),
        "landscape": Verb(
            prepare_landscape,
            before=(deep,),
            options={"points": 3, "oja_steps": 4},
            wrong={"no such plane": ({"plane": "flat"}, "`plane`"), "no points": ({"points": 0}, "`points`")},
            command=(
                *("fully-connected", "--width", "8", "--points", "3", "--oja-steps", "4"),
                *("--preprocess", "none", "--test", "0"),
            ),
        ),
        "foresee": Verb(
            prepare_foresee,
            before=(deep,),
            wrong={
                "no such objective": ({"objective": "hinge"}, "`objective`"),
                "no such optimiser": ({"optimizer": "adam"}, "`optimizer`"),
            },
            command=(f"{Path(__file__).with_name('contract_model.py')}:make",),
            kind="forecast",
        ),
        "reproduce": Verb(
            prepare_reproduce,
            before=(STUDIES["laziness"],),
            data=None,
            options={"settings": replace(STUDIES["laziness"].settings["smoke"], widths=(64,), kappas=(1.0,))},
            wrong={"no such scale": ({"scale": "huge"}, "`scale`")},
            kind="study",
        ),
        "analyze": Verb(
            prepare_analyze,
            wrong={"few rows": ({"max_rows": 2}, "`max_rows`"), "few digits": ({"dtype": "float32"}, "`dtype`")},
            kind="analysis",
        ),
        "gram": Verb(
            prepare_build_gram,
            options={"engine": "dense"},
            wrong={
                "no such kernel": ({"kernel": "deep"}, "`kernel`"),
                "few rows": ({"max_rows": 1}, "`max_rows`"),
                "no place": ({"engine": "stored"}, "`place`"),
                "few digits": ({"dtype": "float32"}, "`dtype`"),
            },
            command=("--engine", "dense"),
        ),
        "find_label_issues": Verb(
            prepare_find_label_issues,
            wrong={"few rows": ({"max_rows": 2}, "`max_rows`"), "few digits": ({"dtype": "float32"}, "`dtype`")},
            command=None,
            kind="label-issues",
        ),
        "diff": Verb(
            prepare_diff,
            before=(rows(24), rows(32)),
            data=None,
            wrong={"few rows": ({"max_rows": 2}, "`max_rows`"), "no such column": ({"by": "id"}, "id")},
            command=None,
            kind="difference",
        ),
        "compare": Verb(
            prepare_compare,
            data=rows(64, 2),
            options={"seeds": 1, "width": 4, "steps": 20, "sizes": (48,)},
            wrong={"no seeds": ({"seeds": 0}, "`seeds`"), "no such digits": ({"dtype": "half"}, "`dtype`")},
            command=("--seeds", "1", "--width", "4", "--steps", "20", "--sizes", "48"),
            kind="comparison",
        ),
    }


VERBS = _verbs()


Step = tuple[float, float | None, str]
"""What progress is told: done, of how much, what."""


@functools.cache
def asked(verb: str) -> tuple[AbstractAnswer, tuple[Step, ...]]:
    """The answer of a verb's case and what its progress was told, made once for all tests."""
    told: list[Step] = []
    found = VERBS[verb].job(progress=lambda *step: told.append(step)).run()
    return found, tuple(told)


def answer(verb: str) -> AbstractAnswer:
    """The answer of a verb's case."""
    return asked(verb)[0]


@functools.cache
def result(kind: str) -> AbstractAnswer:
    """One result of a kind: of a run, a sweep or a smoothed run, or the answer of a verb."""
    net, three, data = op.networks.TwoLayer(8, paired=True), op.networks.ThreeLayer(4), rows()
    if kind == "trajectory":
        return op.training.gradient_descent(net, data, lr=0.1, steps=3, measures=("outputs", "weights"))
    if kind == "fitted-model":
        from overparam.estimators.fitted_model import fitted_model

        return fitted_model(op.NTKClassifier(kernel="laplace").fit(*data))
    if kind == "sweep":
        return op.training.sweep(net, data, lr=[0.1, 0.2], steps=3)
    if kind == "smoothed-run":
        smoothing = {"sigma_w": 0.01, "sigma_v": 0.01, "lambda_w": 0.1, "lambda_v": 0.1, "draws": 2}
        return op.training.smoothed_sgd(three, data, lr=0.01, steps=3, **smoothing)
    return answer(next(name for name, verb in VERBS.items() if (verb.kind or name) == kind))
