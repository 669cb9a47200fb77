"""What the papers imply for a data set: curves, rates, complexity, movement, bounds. Sees spectra, never a network."""

from overparam.theory.accuracy_laws import AccuracyLaw
from overparam.theory.after_training import Certificate, certificate
from overparam.theory.assumptions import Assumption, AssumptionStatus
from overparam.theory.capacity import (
    Alignment,
    EffectiveDimension,
    effective_dimension,
    kernel_target_alignment,
)
from overparam.theory.complexity import (
    Complexity,
    RandomComplexity,
    label_complexity,
    random_label_complexity,
    worst_case_labels,
)
from overparam.theory.descent_laws import DescentLaw, iterations_needed
from overparam.theory.dynamics import LossCurve, predict_loss, predict_loss_flow
from overparam.theory.generalization import GeneralizationBound, Term, generalization_bound
from overparam.theory.integrands import Flow
from overparam.theory.iteration_laws import IterationLaw, iteration_law
from overparam.theory.lazy_regime import (
    Flips,
    Laziness,
    LazyChoice,
    expected_flips,
    kappa_for_laziness,
    laziness,
    sample_flips,
    width_for_laziness,
)
from overparam.theory.linear_rates import LinearRate, linear_rate
from overparam.theory.movement import (
    MovementBounds,
    MovementCurve,
    movement_bounds,
    movement_limit,
    predict_movement,
)
from overparam.theory.predictions import Coefficients, Prediction, dual_coefficients, predict
from overparam.theory.rates import LearningRate, best_learning_rate, max_learning_rate
from overparam.theory.targets import StepsToLoss, steps_to_loss
from overparam.theory.width import (
    Conditions,
    Requirement,
    convergence_conditions,
    generalization_conditions,
    trajectory_conditions,
)

__all__ = [
    "AccuracyLaw",
    "Alignment",
    "Assumption",
    "AssumptionStatus",
    "Certificate",
    "Coefficients",
    "Complexity",
    "Conditions",
    "DescentLaw",
    "EffectiveDimension",
    "Flips",
    "Flow",
    "GeneralizationBound",
    "IterationLaw",
    "Laziness",
    "LazyChoice",
    "LearningRate",
    "LinearRate",
    "LossCurve",
    "MovementBounds",
    "MovementCurve",
    "Prediction",
    "RandomComplexity",
    "Requirement",
    "StepsToLoss",
    "Term",
    "best_learning_rate",
    "certificate",
    "convergence_conditions",
    "dual_coefficients",
    "effective_dimension",
    "expected_flips",
    "generalization_bound",
    "generalization_conditions",
    "iteration_law",
    "iterations_needed",
    "kappa_for_laziness",
    "kernel_target_alignment",
    "label_complexity",
    "laziness",
    "linear_rate",
    "max_learning_rate",
    "movement_bounds",
    "movement_limit",
    "predict",
    "predict_loss",
    "predict_loss_flow",
    "predict_movement",
    "random_label_complexity",
    "sample_flips",
    "steps_to_loss",
    "trajectory_conditions",
    "width_for_laziness",
    "worst_case_labels",
]
