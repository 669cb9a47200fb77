"""What the runs of `beyond-kernels-theorem2` add up to: curves, certificates kept and how tight, exponents in α."""

from __future__ import annotations

from collections.abc import Mapping
from math import comb
from typing import Any

import numpy as np

from overparam.studies.beyond_kernels_theorem2 import (
    CASES,
    ONE_PASS,
    OVER_ALPHA,
    SPANS,
    Cell,
    SeparationSettings,
    network_name,
)
from overparam.studies.study import Arrays, Found, Values, mean_and_error
from overparam.theory.kernel_certificates import dimension_certificate, printed_range

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
OF_KERNELS = (
    "kernel", "kernel_error", "kernel_spread", "spectral", "predicted", "missed", "least_kernel", "most_kernel"
)  # fmt: skip
"""What a row of `curve` says of kernels."""
Kernels = Mapping[tuple[int, int, int], Arrays]
"""(d, N, seed) to one number a kernel."""


def conclude(settings: SeparationSettings, found: Found) -> tuple[Values, Arrays]:
    """What the study reports, as plain numbers, and all that was run."""
    kernels = {cell: found[name] for name, cell in settings.regressions.items()}
    over = {cell: found[name] for name, cell in settings.alpha_regressions.items()}
    networks = {d: found[network_name(d)] for d in settings.dimensions}
    by_alpha = alpha_errors(settings, over, found[OVER_ALPHA], found[ONE_PASS])
    values = {
        "curves": [row for d in settings.dimensions for row in curve(settings, kernels, networks[d], d)],
        "kernels": kernel_rows(settings, kernels),
        "certificates": certificates(kernels, found[CASES]),
        "spans": spans(settings, found[SPANS]),
        "sampling": sampling(kernels),
        "exponents": exponents(settings, by_alpha),
        "over_alpha": over_alpha(settings, by_alpha),
        "printed_range": _printed(settings),
        "milliseconds": 1e3 * float(max(run["seconds_per_step"] for run in networks.values())),
    }
    named = {f"kernels d={d} N={N} seed={seed}": run for (d, N, seed), run in kernels.items()}
    named |= {f"kernels alpha={alpha:g} N={N} seed={seed}": run for (N, alpha, seed), run in over.items()}
    named |= {"cases": found[CASES], "spans": found[SPANS], "networks over alpha": found[OVER_ALPHA]}
    named |= {"one pass": found[ONE_PASS]} | {f"networks d={d}": run for d, run in networks.items()}
    return values, {f"{name}/{what}": value for name, run in named.items() for what, value in run.items()}


def chosen(run: Arrays) -> dict[str, np.ndarray]:
    """For every cell: what the held-out rows choose, and what the new rows themselves would (`least`, flattered).

    Settings that diverged do not count; a cell where all did has infinite errors.
    """
    cells = len(run["held"])
    flat = {what: run[what].reshape(cells, -1) for what in ("held", "error", "spread", "fit")}
    held = np.where(np.isfinite(flat["held"]), flat["held"], np.inf)
    best, place = held.argmin(axis=1), np.arange(cells)
    error = np.where(np.isfinite(flat["error"]), flat["error"], np.inf)
    found = {what: flat[what][place, best] for what in ("spread", "fit", "held")}
    decays = run["held"].shape[2]
    return found | {
        "error": error[place, best],
        "least": error.min(axis=1),
        "rate": best // decays,
        "decay": best % decays,
    }


def curve(settings: SeparationSettings, kernels: Kernels, network: Arrays, d: int) -> list[dict[str, Any]]:
    """At one d, N by N: the kernel that leave-one-out chooses, the range of all kernels, bounds, and the ResNet."""
    result, picked = [], chosen(network)
    cells = settings.cells(d)
    for N in settings.samples[settings.dimensions.index(d)]:
        own = np.array([place for place, cell in enumerate(cells) if cell[0] == N])
        error, spread = mean_and_error(picked["error"][own])
        result.append({"d": d, "N": N} | _of_kernels(settings, kernels, d, N) | {
            "network": error, "network_spread": spread,
            "network_least": picked["least"][own].mean(), "fit": picked["fit"][own].mean(),
            "rate": float(np.quantile([settings.rates[i] for i in picked["rate"][own]], 0.5, method="lower")),
            "decay": float(np.quantile([settings.decays[i] for i in picked["decay"][own]], 0.5, method="lower")),
        })  # fmt: skip
    return result


def _of_kernels(settings: SeparationSettings, kernels: Kernels, d: int, N: int) -> dict[str, Any]:
    """The kernels' part of a row of `curve`; None where N is too many for them, but for certificate (ii), a formula."""
    one, all_of_them = (
        dimension_certificate(d, settings.k, N, settings.alpha, kernels=J) for J in (1, len(settings.kernels))
    )
    counted = {"dimension": one.mean, "probability": one.probability, "dimension_chosen": all_of_them.mean}
    runs = [kernels[d, N, seed] for seed in range(settings.seeds_of.get((d, N), 0))]
    if not runs:
        return dict.fromkeys(OF_KERNELS) | counted
    best = [int(run["left_out"].argmin()) for run in runs]
    of_best = {
        what: mean_and_error([run[what][i] for run, i in zip(runs, best, strict=True)])
        for what in ("error", "spectral", "predicted", "missed")
    }
    least, most = min(run["error"].min() for run in runs), max(run["error"].max() for run in runs)
    row = (
        settings.kernels[best[0]], *of_best["error"], of_best["spectral"][0], of_best["predicted"][0], of_best["missed"][0],
        float(least), float(most),
    )  # fmt: skip
    return dict(zip(OF_KERNELS, row, strict=True)) | counted


def kernel_rows(settings: SeparationSettings, kernels: Kernels) -> list[dict[str, Any]]:
    """Every kernel at the largest N up to d^{k/2}, for each d, over seeds."""
    result = []
    for d, of_d in zip(settings.dimensions, settings.samples, strict=True):
        tried = [N for N in of_d if (d, N) in settings.seeds_of]
        if not tried:
            continue
        N = max((N for N in tried if settings.d_power(d) >= N), default=tried[0])
        runs = [kernels[d, N, seed] for seed in range(settings.seeds_of[d, N])]
        for i, name in enumerate(settings.kernels):
            means = {
                what: float(np.mean([run[what][i] for run in runs]))
                for what in ("error", "missed", "spectral", "of_degree", "predicted")
            }
            result.append({"d": d, "N": N, "kernel": name} | means | {"dimension": float(runs[0]["dimension"])})
    return result


def certificates(kernels: Kernels, cases: Arrays) -> dict[str, Any]:
    """Whether certificate (i) was ever above an exact error, in the random cases and on the curves, and how tight it is."""
    bound, error, slack = cases["spectral"], cases["error"], cases["rounding"]
    grid = [(run["spectral"], run["error"], run["rounding"]) for run in kernels.values()]
    on_curves, of_curves, slack_curves = (np.concatenate([one[i] for one in grid]) for i in range(3))
    return {
        "cases": len(bound),
        "violated": int(np.sum(np.maximum(bound, cases["every_ridge"]) > error + slack)),
        "curve_cases": len(on_curves),
        "curve_violated": int(np.sum(on_curves > of_curves + slack_curves)),
        "curve_ratio": quantiles(on_curves / of_curves),
        "ratio": quantiles(bound / error),
        "ratio_of_degree": quantiles(cases["of_degree"] / error),
        "ratio_every_ridge": quantiles(cases["every_ridge"] / error),
        "ratio_dimension": quantiles(cases["dimension"] / error),
        "vacuous": int(np.sum(bound <= 0)),
        "separates": int(np.sum(bound > cases["alpha"] ** 2 / 4)),
    }


def spans(settings: SeparationSettings, found: Arrays) -> list[dict[str, Any]]:
    """Certificate (ii) where all S were tried: the mean of the least errors, and how many are below kα²/4."""
    d, k, alpha = settings.span_dimension, settings.k, settings.alpha
    result = []
    for least, name, N in zip(found["least"], found["kernel"], found["N"], strict=True):
        bound = dimension_certificate(d, k, int(N), alpha)
        below = int(np.sum(least < bound.level))
        result.append({
            "kernel": str(name), "N": int(N), "subsets": bound.subsets, "mean": float(least.mean()), "bound": bound.mean,
            "below": below, "allowed": 4 * int(N) / 3,
            "kept": bool(least.mean() >= bound.mean * (1 - 1e-9) and below < 4 * N / 3),
        })  # fmt: skip
    return result


def sampling(kernels: Kernels) -> dict[str, Any]:
    """The exact errors against those on new rows, in standard errors of the latter.

    Regressions that learn H to rounding are counted and not compared: their standard errors over rows are below it.
    """
    runs = list(kernels.values())
    seen = [run["sampled_error"] > run["rounding"] for run in runs]
    each = [((run["sampled"] - run["error"]) / run["sampled_error"])[own] for run, own in zip(runs, seen, strict=True)]
    away = np.concatenate(each)
    ratio = np.concatenate([run["predicted"] / run["error"] for run in runs])
    # kernels of one (d, N, seed) share their new rows, so their distances do not count as independent
    independent = np.array([own.mean() for own in each if len(own)])
    return {
        "compared": len(away),
        "rounded": sum(len(own) - int(own.sum()) for own in seen),
        "draws": len(runs),
        "largest": float(np.abs(away).max()),
        "root_mean_square": float(np.sqrt(np.mean(independent**2))),
        "predicted_ratio": quantiles(ratio),
    }


def exponent(alphas: Any, errors: Any) -> tuple[float, float | None, float]:
    """Slope of log error in log α, its standard error and the error at α = 1 on the fitted line.

    A line is fitted for each row of `errors` (seeds, α); the slopes' mean and its standard error over seeds are given. One
    row gives the standard error of its own residuals.

    >>> slope, spread, at_one = exponent([0.1, 1.0], [[0.03, 3.0], [0.05, 5.0]])
    >>> round(slope, 9), round(spread, 9), round(at_one, 6)
    (2.0, 0.0, 3.872983)
    """
    x, y = np.log(np.asarray(alphas, dtype=float)), np.log(np.atleast_2d(np.asarray(errors, dtype=float)))
    centred = x - x.mean()
    slopes = y @ centred / (centred @ centred)
    at_one = float(np.exp(np.mean(y.mean(axis=1) - slopes * x.mean())))
    if len(slopes) > 1:
        return float(slopes.mean()), float(slopes.std(ddof=1) / np.sqrt(len(slopes))), at_one
    left = y[0] - y[0].mean() - slopes[0] * centred
    spread = float(np.sqrt(left @ left / (len(x) - 2) / (centred @ centred))) if len(x) > 2 else None
    return float(slopes[0]), spread, at_one


def alpha_errors(
    settings: SeparationSettings, kernels: Mapping[Cell, Arrays], networks: Arrays, online: Arrays
) -> dict[tuple[str, int], np.ndarray]:
    """(learner, N) → errors of (seeds, α): the best kernel by leave-one-out, the ResNet, and the ResNet in one pass."""
    shape = (len(settings.alphas), settings.alpha_seeds)
    result: dict[tuple[str, int], np.ndarray] = {}
    picked = chosen(networks)["error"].reshape(len(settings.alpha_samples), *shape)
    for i, N in enumerate(settings.alpha_samples):
        best = np.empty(shape)
        for place, (alpha, seed) in enumerate((a, s) for a in settings.alphas for s in range(settings.alpha_seeds)):
            run = kernels[N, alpha, seed]
            best.flat[place] = run["error"][run["left_out"].argmin()]
        result["kernel", N], result["network", N] = best.T, picked[i].T
    result["one pass", settings.online_samples] = chosen(online)["error"].reshape(shape).T
    return result


def exponents(settings: SeparationSettings, by_alpha: Mapping[tuple[str, int], np.ndarray]) -> list[dict[str, Any]]:
    """The fitted exponent of each learner at each N, and how its errors lie to α⁴ and α²/4."""
    result = []
    alphas = np.array(settings.alphas)
    for (learner, N), errors in by_alpha.items():
        finite = bool(np.isfinite(errors).all())
        slope, spread, at_one = exponent(alphas, errors) if finite else (None, None, None)
        mean = errors.mean(axis=0)
        result.append({
            "learner": learner, "N": N, "slope": slope, "spread": spread, "at_one": at_one,
            "below_fourth": int(np.sum(mean <= alphas**4)), "below_quarter": int(np.sum(mean <= alphas**2 / 4)),
            "of": len(alphas), "least_ratio": np.min(mean / alphas**4),
            "most_ratio": np.max(mean / alphas**4),
        })  # fmt: skip
    return result


def over_alpha(settings: SeparationSettings, by_alpha: Mapping[tuple[str, int], np.ndarray]) -> list[dict[str, Any]]:
    """The errors behind the exponents, α by α."""
    result = []
    for (learner, N), errors in by_alpha.items():
        for i, alpha in enumerate(settings.alphas):
            mean, spread = mean_and_error(errors[:, i])
            result.append({"learner": learner, "N": N, "alpha": alpha, "error": mean, "spread": spread})
    return result


def quantiles(values: Any) -> dict[str, float]:
    """5%, 25%, 50%, 75% and 95%, and the ends.

    >>> quantiles([1.0, 2.0, 3.0])["50%"]
    2.0
    """
    values = np.asarray(values, dtype=float)
    named = {f"{q:.0%}": float(np.quantile(values, q)) for q in QUANTILES}
    return {"least": float(values.min())} | named | {"most": float(values.max())}


def _printed(settings: SeparationSettings) -> dict[str, Any]:
    found = printed_range(max(settings.dimensions), settings.k)
    subsets = {str(d): comb(d, settings.k) for d in settings.dimensions}
    return {
        "d": found.dimension,
        "largest": found.largest_samples,
        "first": found.smallest_dimension,
        "subsets": subsets,
    }
