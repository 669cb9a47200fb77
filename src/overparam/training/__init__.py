"""How networks are trained: the papers' algorithms, losses, and trajectories that record, save and resume."""

from overparam.training.algorithm import AbstractAlgorithm, Problem
from overparam.training.checkpoint import Interrupted
from overparam.training.choices import SmoothingChoices, smoothing_choices
from overparam.training.driver import train
from overparam.training.full_batch import GradientDescent, gradient_descent
from overparam.training.increments import OneSampleSGD, sgd_one_sample
from overparam.training.losses import (
    AbstractLoss,
    CrossEntropy,
    GivenLoss,
    Ramp,
    SmoothAbsolute,
    Squared,
)
from overparam.training.mini_batch import SGD, StepDecay, sgd
from overparam.training.smoothed import smoothed_sgd
from overparam.training.smoothed_run import SmoothedRun
from overparam.training.smoothed_step import SmoothedSGD
from overparam.training.sweeps import Sweep, side_by_side, sweep
from overparam.training.trajectory import Trajectory

__all__ = [
    "SGD",
    "AbstractAlgorithm",
    "AbstractLoss",
    "CrossEntropy",
    "GivenLoss",
    "GradientDescent",
    "Interrupted",
    "OneSampleSGD",
    "Problem",
    "Ramp",
    "SmoothAbsolute",
    "SmoothedRun",
    "SmoothedSGD",
    "SmoothingChoices",
    "Squared",
    "StepDecay",
    "Sweep",
    "Trajectory",
    "gradient_descent",
    "sgd",
    "sgd_one_sample",
    "side_by_side",
    "smoothed_sgd",
    "smoothing_choices",
    "sweep",
    "train",
]
