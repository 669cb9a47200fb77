"""How networks are trained: the papers' algorithms, losses, and trajectories that record, save and resume."""

from overparam.training.algorithm import AbstractAlgorithm, Problem
from overparam.training.descent import GradientDescent, OneSampleSGD, gradient_descent, sgd_one_sample
from overparam.training.loop import Interrupted, train
from overparam.training.losses import (
    AbstractLoss,
    CrossEntropy,
    GivenLoss,
    Ramp,
    SmoothAbsolute,
    Squared,
)
from overparam.training.mini_batch import SGD, StepDecay, sgd
from overparam.training.smoothed import SmoothedRun, smoothed_sgd
from overparam.training.smoothing import SmoothedSGD, SmoothingChoices, smoothing_choices
from overparam.training.sweeps import Sweep, side_by_side, sweep
from overparam.training.trajectory import Stop, Trajectory

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
    "Stop",
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
