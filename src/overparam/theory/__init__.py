"""What the papers imply for a data set: curves, rates, complexity, movement, bounds. Sees spectra, never a network."""

from overparam.core.bracketed import Assumption, AssumptionStatus, Bracketed
from overparam.theory.complexity import (
    Alignment,
    EffectiveDimension,
    RandomComplexity,
    effective_dimension,
    kernel_target_alignment,
    label_complexity,
    random_label_complexity,
    worst_case_labels,
)
from overparam.theory.cube_subsets import SubsetCost, SubsetSpectrum, subset_cost, subset_spectrum
from overparam.theory.descent_laws import AccuracyLaw, DescentLaw, iterations_needed
from overparam.theory.dynamics import LossCurve, StepsToLoss, predict_loss, predict_loss_flow, steps_to_loss
from overparam.theory.ensembles import Posterior, posterior
from overparam.theory.error_intervals import RowScores, error_interval, scores_left_out, scores_of_new_rows
from overparam.theory.generalization import Certificate, GeneralizationBound, Term, certificate, generalization_bound
from overparam.theory.growth_curves import GrowthCurve, growth_curve
from overparam.theory.growth_laws import GrowthLaw, GrowthVerdict, growth_law
from overparam.theory.integrands import Flow
from overparam.theory.iteration_laws import IterationLaw, LinearRate, iteration_law, linear_rate
from overparam.theory.kernel_certificates import (
    DimensionCertificate,
    PrintedRange,
    SpectralCertificate,
    dimension_certificate,
    printed_range,
    spectral_certificate,
)
from overparam.theory.label_noise import redrawn_labels
from overparam.theory.lazy_regime import (
    Flips,
    Laziness,
    expected_flips,
    kappa_for_laziness,
    laziness,
    sample_flips,
    width_for_laziness,
)
from overparam.theory.learning_curves import ExactError, LearningCurve, exact_error, learning_curve
from overparam.theory.left_out_folds import FoldsLeftOut, leave_folds_out
from overparam.theory.left_out_probes import LeftOutByProbes, leave_one_out_by_probes
from overparam.theory.loss_flows import LossFlow, predict_flow
from overparam.theory.marginal_likelihood import Evidence, FittedEvidence, evidence, fit_evidence
from overparam.theory.movement import (
    MovementBounds,
    MovementCurve,
    movement_bounds,
    movement_limit,
    predict_movement,
)
from overparam.theory.predictions import Coefficients, Prediction, dual_coefficients, predict
from overparam.theory.rates import best_learning_rate, max_learning_rate
from overparam.theory.regression import (
    BestRegression,
    TunedRegression,
    best_regression,
    coupled_regression,
    linear_regression,
    tuned_regression,
)
from overparam.theory.subset_certificates import subset_certificate
from overparam.theory.tuned_rows import Setting
from overparam.theory.tuning import TunedFit, default_candidates, tuned_fit
from overparam.theory.width import (
    Conditions,
    Requirement,
    convergence_conditions,
    deep_conditions,
    generalization_conditions,
    residual_conditions,
    trajectory_conditions,
)

__all__ = [
    "AccuracyLaw",
    "Alignment",
    "Assumption",
    "AssumptionStatus",
    "BestRegression",
    "Bracketed",
    "Certificate",
    "Coefficients",
    "Conditions",
    "DescentLaw",
    "DimensionCertificate",
    "EffectiveDimension",
    "Evidence",
    "ExactError",
    "FittedEvidence",
    "Flips",
    "Flow",
    "FoldsLeftOut",
    "GeneralizationBound",
    "GrowthCurve",
    "GrowthLaw",
    "GrowthVerdict",
    "IterationLaw",
    "Laziness",
    "LearningCurve",
    "LeftOutByProbes",
    "LinearRate",
    "LossCurve",
    "LossFlow",
    "MovementBounds",
    "MovementCurve",
    "Posterior",
    "Prediction",
    "PrintedRange",
    "RandomComplexity",
    "Requirement",
    "RowScores",
    "Setting",
    "SpectralCertificate",
    "StepsToLoss",
    "SubsetCost",
    "SubsetSpectrum",
    "Term",
    "TunedFit",
    "TunedRegression",
    "best_learning_rate",
    "best_regression",
    "certificate",
    "convergence_conditions",
    "coupled_regression",
    "deep_conditions",
    "default_candidates",
    "dimension_certificate",
    "dual_coefficients",
    "effective_dimension",
    "error_interval",
    "evidence",
    "exact_error",
    "expected_flips",
    "fit_evidence",
    "generalization_bound",
    "generalization_conditions",
    "growth_curve",
    "growth_law",
    "iteration_law",
    "iterations_needed",
    "kappa_for_laziness",
    "kernel_target_alignment",
    "label_complexity",
    "laziness",
    "learning_curve",
    "leave_folds_out",
    "leave_one_out_by_probes",
    "linear_rate",
    "linear_regression",
    "max_learning_rate",
    "movement_bounds",
    "movement_limit",
    "posterior",
    "predict",
    "predict_flow",
    "predict_loss",
    "predict_loss_flow",
    "predict_movement",
    "printed_range",
    "random_label_complexity",
    "redrawn_labels",
    "residual_conditions",
    "sample_flips",
    "scores_left_out",
    "scores_of_new_rows",
    "spectral_certificate",
    "steps_to_loss",
    "subset_certificate",
    "subset_cost",
    "subset_spectrum",
    "trajectory_conditions",
    "tuned_fit",
    "tuned_regression",
    "width_for_laziness",
    "worst_case_labels",
]
