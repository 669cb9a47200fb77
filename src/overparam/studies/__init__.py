"""The papers' figures and claims, run again: `STUDIES` names them, `reproduce` runs one at a chosen scale."""

from importlib import import_module

from overparam.studies.study import SCALES, Study, StudyResult, prepare_reproduce, reproduce

MODULES = (
    "fine_grained_fig1",
    "fine_grained_fig2",
    "fine_grained_laws",
    "laziness",
    "beyond_two_layers_page",
    "beyond_two_layers_lemmas",
    "beyond_kernels_fig2_page",
    "beyond_kernels_fig3_page",
    "beyond_kernels_theorem1",
    "beyond_kernels_descent",
    "beyond_kernels_theorem2_page",
    "convergence_fig1",
    "convergence_laws",
    "laws_by_width",
    "convergence_rates_page",
)
"""Each has a `STUDY`; they are listed in this order."""
STUDIES: dict[str, Study] = {
    study.name: study for study in (import_module(f"overparam.studies.{name}").STUDY for name in MODULES)
}

__all__ = ["SCALES", "STUDIES", "Study", "StudyResult", "prepare_reproduce", "reproduce"]
