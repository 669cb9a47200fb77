"""Theorems 1, 2, 6, 7 and 8 of `convergence` as measured: rates, iterations, every label right, and the laws by loss."""

from __future__ import annotations

from overparam.studies.convergence_rates_numbers import all_values
from overparam.studies.convergence_rates_page import page
from overparam.studies.convergence_rates_runs import count_iterations, kernels, run_cell, run_classes
from overparam.studies.convergence_rates_settings import FULL, NETWORKS, SMALL, SMOKE, VARIABLES, Settings
from overparam.studies.study import Findings, Study, Workplace


def run(settings: Settings, workplace: Workplace) -> Findings:
    """Fit rates beside λ_min, count iterations over n, L, m, δ, train ten classes, and set the claims beside it all."""
    starts = {name: kernels(settings, workplace, name) for name in dict.fromkeys(cell[0] for cell in settings.cells)}
    runs = {cell: run_cell(settings, workplace, cell, starts[cell[0]]) for cell in settings.cells}
    wanted = dict.fromkeys((name, p) for name in settings.counted for v in VARIABLES for p in settings.points(v))
    counts = {key: count_iterations(settings, workplace, *key) for key in wanted}
    classes = {cell: run_classes(settings, workplace, *cell) for cell in settings.class_cells}
    values = all_values(settings, starts, runs, counts, classes)
    arrays = {f"{name}/{key}": start[key] for name, start in starts.items() for key in ("H", "limit") if key in start}
    for cell, found in runs.items():
        arrays |= {f"{', '.join(cell)}/{key}": found[key] for key in ("steps", "loss", "output_gradient_norm")}
    for cell, found in classes.items():
        arrays |= {f"ten classes, {', '.join(cell)}/{key}": found[key] for key in ("steps", "loss", "accuracy")}
    return Findings(values, arrays, page(settings, values, runs, classes))


def _plan(settings: Settings) -> str:
    points = len({p for v in VARIABLES for p in settings.points(v)})
    return (
        f"{len(settings.cells) * settings.seeds} runs for rates (n = {settings.samples}, m = {settings.width}, at most "
        f"{settings.most_steps} steps), {points * len(settings.counted) * settings.counted_seeds} for iterations "
        f"(n up to {max(settings.n)}, m up to {max(settings.m)}), {2 * len(settings.class_cells)} with ten classes "
        f"(n = {settings.class_samples}, at most {max(map(settings.steps_of, NETWORKS)):,} steps), all in float64"
    )


STUDY = Study(
    name="convergence-rates",
    title="Convergence as measured: linear rates, iterations, and every label right",
    reference="convergence, Thm 1, Thm 2, Thm 6, Thm 7, Thm 8",
    settings={"smoke": SMOKE, "small": SMALL, "full": FULL},
    plan=_plan,
    run=run,
)
