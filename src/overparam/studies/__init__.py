"""The papers' figures and claims, run again: `STUDIES` names them, `reproduce` runs one at a chosen scale."""

from overparam.studies import (
    beyond_kernels_fig2,
    beyond_kernels_fig3,
    beyond_kernels_theorem2,
    beyond_two_layers,
    convergence_fig1,
    convergence_laws,
    convergence_rates,
    fine_grained_fig1,
    fine_grained_fig2,
    laws_by_width,
    laziness,
)
from overparam.studies.study import SCALES, Findings, Study, StudyResult, Workplace, reproduce

STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY
    for module in (
        fine_grained_fig1,
        fine_grained_fig2,
        laziness,
        beyond_two_layers,
        beyond_kernels_fig2,
        beyond_kernels_fig3,
        beyond_kernels_theorem2,
        convergence_fig1,
        convergence_laws,
        laws_by_width,
        convergence_rates,
    )
}

__all__ = ["SCALES", "STUDIES", "Findings", "Study", "StudyResult", "Workplace", "reproduce"]
