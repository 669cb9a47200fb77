"""What the training objective looks like around the weights: curvature, directions, surfaces."""

from overparam.landscapes.curvature import (
    Extremes,
    LayerCurvature,
    NegativeCurvature,
    hessian_extremes,
    layer_curvatures,
    negative_curvature,
)
from overparam.landscapes.objectives import objective_of
from overparam.landscapes.planes import (
    Decrease,
    PlaneValues,
    TrajectoryPlane,
    View,
    decrease_along,
    filter_normalised,
    gradient_direction,
    surface,
    trajectory_plane,
)
from overparam.landscapes.surveying import Landscape, landscape, prepare_landscape

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
