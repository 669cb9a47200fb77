"""The part of a run's page on its loss's class: the law of convergence, the gradient, the PL ratio."""

from __future__ import annotations

from typing import Any

import numpy as np

from overparam.core.sections import Block, Figure, Section, series
from overparam.theory.iteration_laws import IterationLaw, iteration_law
from overparam.training import Trajectory


def law_of_run(run: Trajectory) -> IterationLaw | None:
    """The law of convergence of the objective's class beside the run; None where the run is too short to fit one."""
    try:
        return iteration_law(run)
    except ValueError:
        return None


def law_kind(run: Trajectory) -> str:
    """The class of the loss whose law the page shows; empty where it shows none."""
    law = law_of_run(run)
    return "" if law is None else law.kind


def law_sections(run: Trajectory, shown: np.ndarray) -> tuple[Section, ...]:
    """The law and the gradient, at the records of the run where `shown`."""
    law, blocks = law_of_run(run), _gradient(run, shown)
    if law is None:
        return (Section("How large was the gradient?", blocks),) if blocks else ()
    first, *others = law.sections()
    return (Section(first.title, (*first.blocks, *blocks)), *others)


def _gradient(run: Trajectory, shown: np.ndarray) -> tuple[Block, ...]:
    return tuple(
        Figure(
            title,
            words,
            "step",
            label,
            (series("observed", run.steps, _positive(run.records[name], shown), mark="points", role="observed"),),
            x_scale="log" if run.steps[-1] > 30 else "linear",
            y_scale="log",
        )
        for name, title, label, words in (
            ("gradient_norm", "Size of the gradient", "‖∇L‖", "‖∇L‖ of the training loss in all trained weights."),
            (
                "pl_ratio",
                "PL ratio",
                "‖∇L‖²/(2L)",
                "‖∇L‖²/(2L): while it stays above μ, a step at a small rate η takes off about a share 2ημ of the loss or more.",
            ),
        )
        if name in run.records
    )


def _positive(values: Any, shown: np.ndarray) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    return np.where(shown & (values > 0), values, np.nan)
