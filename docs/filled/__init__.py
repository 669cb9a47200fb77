"""What the names in the pages mean: one function a section, which makes texts of the numbers of one folder."""

from collections.abc import Callable

from filled import (
    benchmarks,
    beyond_kernels,
    beyond_two_layers,
    convergence,
    estimators,
    fine_grained,
    growth,
    label_issues,
    pages,
    promises,
    scaling,
    theorems,
)
from filled.committed import Result

SECTIONS: dict[str, tuple[str, Callable[[Result], dict[str, str]]]] = {
    "laziness": ("docs/studies/laziness", fine_grained.laziness),
    "labels": ("docs/studies/fine-grained-fig1", fine_grained.labels),
    "noise": ("docs/studies/fine-grained-fig2", fine_grained.noise),
    "measured": ("docs/studies/fine-grained-laws", fine_grained.measured),
    "three": ("docs/studies/beyond-two-layers", beyond_two_layers.three_layers),
    "alike": ("docs/studies/beyond-two-layers", beyond_two_layers.alike),
    "lemmas": ("docs/studies/beyond-two-layers-lemmas", beyond_two_layers.lemmas),
    "theorem1": ("docs/studies/beyond-kernels-theorem1", beyond_kernels.theorem1),
    "descent": ("docs/studies/beyond-kernels-descent", beyond_kernels.descent),
    "theorem2": ("docs/studies/beyond-kernels-theorem2", beyond_kernels.theorem2),
    "norms": ("docs/studies/beyond-kernels-fig3", beyond_kernels.norms),
    "parities": ("docs/studies/beyond-kernels-fig2", beyond_kernels.parities),
    "landscape": ("docs/studies/convergence-fig1", convergence.landscape),
    "laws": ("docs/studies/convergence-laws", convergence.laws),
    "adversaries": ("docs/studies/convergence-laws-adversaries", convergence.adversaries),
    "widths": ("docs/studies/laws-by-width", convergence.widths),
    "rates": ("docs/studies/convergence-rates", convergence.rates),
    "rates-small": ("docs/studies/convergence-rates-small", convergence.rates_small),
    "audit": ("docs/audits/fully-connected-digits", pages.audit),
    "shares": ("benchmarks/results", pages.shares),
    "compare": ("docs/comparisons", pages.compare),
    "foresee": ("benchmarks/results", pages.foresee),
    "growth": ("docs/growth", growth.growth),
    "errors": ("benchmarks/results", benchmarks.error_estimates),
    "estimators": ("benchmarks/results", estimators.estimators),
    "scaling": ("benchmarks/results", scaling.scaling),
    "promises": ("docs/attack", promises.promises),
    "issues": ("benchmarks/results", label_issues.label_issues),
    "thm-two-layers": ("docs/studies/fine-grained-fig1", theorems.two_layers),
    "thm-two-layer-laws": ("docs/studies/fine-grained-laws", theorems.two_layer_laws),
    "thm-noise": ("docs/studies/fine-grained-fig2", theorems.noise),
    "thm-rates": ("docs/studies/convergence-rates", theorems.rates),
    "thm-sgd": ("benchmarks/results", theorems.sgd_iterations),
    "thm-laws": ("docs/studies/convergence-laws", theorems.laws),
    "thm-widths": ("docs/studies/laws-by-width", theorems.widths),
    "thm-products": ("docs/studies/beyond-kernels-theorem2", theorems.hidden_products),
}
"""The first part of a name: the folder it is filled from, and the function that does."""
