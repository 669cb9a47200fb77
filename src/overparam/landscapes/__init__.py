"""What the training objective looks like around the weights: curvature, directions, surfaces."""

from overparam.landscapes.curvature import NegativeCurvature, negative_curvature
from overparam.landscapes.directions import (
    TrajectoryPlane,
    filter_normalised,
    gradient_direction,
    trajectory_plane,
)
from overparam.landscapes.extremes import Extremes, LayerCurvature, hessian_extremes, layer_curvatures
from overparam.landscapes.objectives import objective_of
from overparam.landscapes.surfaces import Decrease, PlaneValues, decrease_along, surface
from overparam.landscapes.surveying import Landscape, landscape, prepare_landscape
from overparam.landscapes.views import View

__all__ = [
    "Decrease",
    "Extremes",
    "Landscape",
    "LayerCurvature",
    "NegativeCurvature",
    "PlaneValues",
    "TrajectoryPlane",
    "View",
    "decrease_along",
    "filter_normalised",
    "gradient_direction",
    "hessian_extremes",
    "landscape",
    "layer_curvatures",
    "negative_curvature",
    "objective_of",
    "prepare_landscape",
    "surface",
    "trajectory_plane",
]
