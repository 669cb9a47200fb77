"""Functions of the inputs that theory speaks of: which are learnable, how complex they are, and constructions for them."""

from overparam.functions.complexity import Complexity, complexity_eps, complexity_of, complexity_s, largest
from overparam.functions.examples import (
    constant,
    cosine,
    linear,
    not_so_smooth,
    polynomial_network,
    quadratic,
)
from overparam.functions.existence import (
    ExistenceCurve,
    ExistingNetwork,
    SmoothTarget,
    existence_error_against_width,
    existence_weights,
)
from overparam.functions.hermite import half_line_coefficients, hermite_table
from overparam.functions.indicator import (
    IndicatorFunction,
    indicator_average,
    indicator_error,
    indicator_function,
    indicator_sampled,
)
from overparam.functions.learnable import (
    LearnableFunction,
    PowerTerm,
    SamplesNeeded,
    kernel_coefficient,
    samples_needed,
)
from overparam.functions.power_series import PowerSeries, polynomial, power, series
from overparam.functions.sample_scales import (
    Scale,
    TheoremScales,
    hidden_product_scales,
    resnet_scales,
    three_layer_scales,
    two_layer_scales,
)

__all__ = [
    "Complexity",
    "ExistenceCurve",
    "ExistingNetwork",
    "IndicatorFunction",
    "LearnableFunction",
    "PowerSeries",
    "PowerTerm",
    "SamplesNeeded",
    "Scale",
    "SmoothTarget",
    "TheoremScales",
    "complexity_eps",
    "complexity_of",
    "complexity_s",
    "constant",
    "cosine",
    "existence_error_against_width",
    "existence_weights",
    "half_line_coefficients",
    "hermite_table",
    "hidden_product_scales",
    "indicator_average",
    "indicator_error",
    "indicator_function",
    "indicator_sampled",
    "kernel_coefficient",
    "largest",
    "linear",
    "not_so_smooth",
    "polynomial",
    "polynomial_network",
    "power",
    "quadratic",
    "resnet_scales",
    "samples_needed",
    "series",
    "three_layer_scales",
    "two_layer_scales",
]
