"""Exponents fitted to what was measured: powers of one or several variables, with standard errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PowerFit:
    """values ≈ factor · Π variable^exponent: by name the exponents and their standard errors.

    points: how many values were fitted; those that are not positive and finite have no logarithm and were left out.
    """

    exponents: Mapping[str, float]
    errors: Mapping[str, float | None]
    factor: float
    points: int


def fit_powers(variables: Mapping[str, np.ndarray], values: np.ndarray) -> PowerFit | None:
    """Least squares in logarithms; None where the points do not determine the exponents.

    Standard errors come from the scatter around the fit, so they need more points than exponents; else they are None.
    They take points as independent; points that share a network are not, and there they are too small.

    >>> m, L = np.array([1.0, 2.0, 1.0, 2.0, 4.0]), np.array([1.0, 1.0, 3.0, 3.0, 9.0])
    >>> fit = fit_powers({"m": m, "L": L}, 5 * m**0.5 * L**2)
    >>> round(fit.exponents["m"], 12), round(fit.exponents["L"], 12), round(fit.factor, 12)
    (0.5, 2.0, 5.0)
    """
    names = list(variables)
    columns = np.array([np.asarray(variables[name], float) for name in names]).reshape(len(names), -1)
    values = np.asarray(values, float)
    usable = np.isfinite(values) & (values > 0) & np.all(np.isfinite(columns) & (columns > 0), axis=0)
    y = np.log(values[usable])
    design = np.column_stack([np.log(columns[:, usable]).T, np.ones(len(y))])
    count = design.shape[1]
    if len(y) < count or np.linalg.matrix_rank(design) < count:
        return None
    found = np.linalg.lstsq(design, y, rcond=None)[0]
    errors: list[float | None] = [None] * len(names)
    if len(y) > count:
        rest = y - design @ found
        spread = float(rest @ rest) / (len(y) - count)
        errors = np.sqrt(spread * np.diag(np.linalg.inv(design.T @ design)))[:-1].tolist()
    exponents = {name: float(found[i]) for i, name in enumerate(names)}
    return PowerFit(exponents, dict(zip(names, errors, strict=True)), float(np.exp(found[-1])), len(y))


ROUNDING = 1e-12
"""A value that is this share of the largest one is rounding: no law here falls that far over the radii of one audit."""


def fit_exponent(x: np.ndarray, values: np.ndarray, least: int = 3) -> tuple[float | None, float | None]:
    """p with its standard error in values ≈ c · x^p; (None, None) for fewer than `least` values above rounding.

    >>> x = np.array([1.0, 10.0, 100.0])
    >>> exponent, error = fit_exponent(x, 3 * x**0.5)
    >>> round(exponent, 12), error < 1e-12
    (0.5, True)
    """
    x, values = np.asarray(x, float), np.asarray(values, float)
    usable = (x > 0) & (values > 0) & np.isfinite(values)
    usable &= values > ROUNDING * values[usable].max(initial=0.0)
    if np.count_nonzero(usable) < least:
        return None, None
    fit = fit_powers({"x": x[usable]}, values[usable])
    return (None, None) if fit is None else (fit.exponents["x"], fit.errors["x"])


def mean_exponent(exponents: np.ndarray) -> tuple[float | None, float | None]:
    """Mean of one exponent fitted once a seed, and the standard error of that mean: right however points within a seed hang together.

    >>> mean_exponent(np.array([0.9, 1.1]))
    (1.0, 0.1)
    """
    found = np.asarray(exponents, float)
    found = found[np.isfinite(found)]
    if not len(found):
        return None, None
    error = None if len(found) < 2 else round(float(found.std(ddof=1) / len(found) ** 0.5), 15)
    return float(found.mean()), error
