"""The page on every theorem: what the other pages do not have, from the same committed results."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from filled.committed import Result, all_of, digits, fixed, only, percent, scientific, whole
from overparam.theory import (
    convergence_conditions,
    deep_conditions,
    generalization_conditions,
    trajectory_conditions,
)


def two_layers(result: Result) -> dict[str, str]:
    """What Theorems 3.1, 4.1 and 5.1 ask on the rows of Fig. 1, and how its runs stand to the first two."""
    cases, arrays, n = result.values["cases"], result.arrays, result.settings["train"]
    smallest = {name: float(arrays[f"{name}.eigenvalues"].min()) for name in ("mnist", "cifar10")}
    under: dict[bool, list[bool]] = {True: [], False: []}
    worst, away = [], {1.0: [], 0.01: []}
    for case in cases:
        law = (1 - case["lr"] * smallest[case["data"]] / 2) ** arrays[f"{case['case']}.steps"]
        for kind in case["labels"]:
            loss = arrays[f"{case['case']}.{kind}.observed"].astype(np.float64)
            held = bool(np.all(loss <= law * loss[0]))
            (worst if case["stable"] and kind == "worst case" else under[case["stable"]]).append(held)
            if case["stable"]:
                linear = arrays[f"{case['case']}.{kind}.predicted"].astype(np.float64)
                away[case["kappa"]].append(float(np.max(np.abs(np.sqrt(loss) - np.sqrt(linear))) / np.sqrt(loss[0])))
    lam = smallest["mnist"]
    first = convergence_conditions(n, lam, 1.0)
    kappa_4, kappa_5 = (f(n, lam, 1.0).needed("kappa") for f in (trajectory_conditions, generalization_conditions))
    fourth, fifth = (
        trajectory_conditions(n, lam, kappa_4),
        generalization_conditions(n, lam, kappa_5, lr=cases[0]["lr"]),
    )
    return {
        "lambda": digits(lam, 2),
        "width_31": scientific(first.needed("width"), 1),
        "rate_31": scientific(first.needed("lr"), 1),
        "kappa_41": scientific(kappa_4, 1),
        "width_41": scientific(fourth.needed("width"), 1),
        "kappa_51": scientific(kappa_5, 1),
        "width_51": scientific(fifth.needed("width"), 1),
        "steps_51": whole(float(f"{fifth.needed('steps'):.2g}")),
        "under": str(sum(under[True])),
        "under_of": str(len(under[True])),
        "worst": str(sum(worst)),
        "worst_of": str(len(worst)),
        "beyond": str(sum(under[False])),
        "beyond_of": str(len(under[False])),
        "away_least": percent(min(away[1.0])),
        "away_most": percent(max(away[1.0])),
        "away_paper": percent(max(away[0.01])),
    }


def two_layer_laws(result: Result) -> dict[str, str]:
    """Theorem 3.1 step by step, and the errors that Theorem 4.1 sums, over width and samples."""
    rows = result.values["rows"]
    fall, errors, movement = (
        only(rows, law=f"two layers: {law}")
        for law in ("fall of the loss", "sum of the errors of steps", "movement of all weights")
    )
    return {
        **_held("fall", fall),
        "fall_constant": fixed(fall["constant"], 1),
        "errors_m": fixed(errors["exponents"]["m"], 2),
        "errors_m_error": fixed(errors["errors"]["m"], 2),
        "errors_n": fixed(errors["exponents"]["n"], 2),
        "errors_n_error": fixed(errors["errors"]["n"], 2),
        **_held("movement", movement),
        "movement_constant": scientific(movement["constant"], 1),
    }


def noise(result: Result) -> dict[str, str]:
    """The leading term of Theorem 5.1 beside the loss and the error on new rows."""
    cases = result.values["cases"]
    runs = [
        run for c in cases for run in zip(c["complexity"], c["test_l1"], c["test_error"], c["share_left"], strict=True)
    ]
    return {
        "runs": str(len(runs)),
        "above": str(sum(bound >= loss for bound, loss, _, _ in runs)),
        "above_error": str(sum(bound >= error for bound, _, error, _ in runs)),
        "says": str(sum(bound < 1 for bound, *_ in runs)),
        "leading": digits(min(bound for bound, *_ in runs), 2),
        "loss": digits(max(loss for bound, loss, *_ in runs if bound < 1), 2),
        "error": percent(max(error for bound, _, error, _ in runs if bound < 1)),
        "leading_cifar": digits(cases[2]["complexity"][0], 2),
        "error_cifar": percent(cases[2]["test_error"][0]),
    }


def rates(result: Result) -> dict[str, str]:
    """Fitted rates over those of the kernel at the end, by network and algorithm, and powers of the iterations."""
    values, found = result.values, {}
    short = {
        "fully connected": "full",
        "locally connected": "local",
        "convolutional": "shared",
        "residual": "residual",
    }
    for network, name in short.items():
        for algorithm in ("GD", "SGD"):
            own = only(values["summaries"], network=network, algorithm=algorithm, loss="squared")
            found[f"{name}_{algorithm}"] = fixed(own["over_end"], 3)
            found[f"{name}_{algorithm}_error"] = fixed(own["over_end_error"], 3)
    for network in ("fully connected", "residual"):
        for variable, letter in (("n", "n"), ("L", "L"), ("δ", "delta")):
            own = only(values["iterations"], network=network, variable=variable)
            found[f"{short[network]}_{letter}"] = fixed(own["steps"], 2)
            found[f"{short[network]}_{letter}_error"] = fixed(own["steps_error"], 2)
    own = all_of(values["rates"], network="fully connected", loss="squared")
    rippled = [row for row in values["summaries"] if row["loss"] == "rippled"]
    above = [
        row
        for row in all_of(values["laws"], loss="cross-entropy")
        if row["exponent"] > row["theorem"] + 2 * row["exponent_error"]
    ]
    if {row["network"] for row in above} != {"residual"}:
        raise ValueError("expected the residual network alone above the law of convex losses; write the sentence anew")
    asked = values["width_asked"]
    sizes = (asked["n"], asked["L"], asked["separation"])
    return found | {
        "promised": whole(float(f"{min(row['constant'] for row in all_of(own, algorithm='GD')):.2g}")),
        "residual_promised": whole(
            float(f"{min(r['constant'] for r in values['rates'] if r['network'] == 'residual'):.2g}")
        ),
        "rippled_least": fixed(min(row["over_end"] for row in rippled), 2),
        "rippled_most": fixed(max(row["over_end"] for row in rippled), 2),
        "convex_above": fixed(max(row["exponent"] for row in above), 3),
        "convex_above_error": fixed(max(row["exponent_error"] for row in above), 3),
        "width_1": scientific(deep_conditions(*sizes).needed("width"), 1),
        "width_2": scientific(deep_conditions(*sizes, batch=result.settings["batch"]).needed("width"), 1),
        "delta": fixed(asked["separation"], 2),
    }


DEEP = {
    "upper": "gradient upper bound",
    "lower": "gradient lower bound",
    "smooth": "semi-smoothness",
    "gradient": "gradient drift",
    "kernel": "kernel drift",
    "linear": "linearisation",
}


def laws(result: Result) -> dict[str, str]:
    """Theorems 1 to 5 of `convergence` against adversaries and along runs: audits that hold, constants, powers."""
    rows = result.values["rows"]
    found: dict[str, str] = {}
    for name, law in DEEP.items():
        own = only(rows, law=law, moment="adversarial")
        found |= _held(name, own) | {f"{name}_constant": digits(own["constant"], 2)}
        for size in ("omega", "m", "L", "n"):
            if own["exponents"][size] is not None:
                found[f"{name}_{size}"] = fixed(own["exponents"][size], 2)
                found[f"{name}_{size}_error"] = fixed(own["errors"][size], 2)
    for name, law in (("gd", "linear convergence of gradient descent"), ("sgd", "linear convergence of SGD")):
        own = only(rows, law=law)
        found |= _held(name, own)
    powers = {name: only(rows, law=law, moment="adversarial")["exponents"] for name, law in DEEP.items()}
    in_layers = max(powers[name]["L"] for name in ("gradient", "kernel", "linear"))
    if powers["lower"]["n"] < 0 or powers["smooth"]["omega"] < 1.6 or in_layers > 2:
        raise ValueError("expected a gradient that grows with n, quadratic steps and loose powers of L; write it anew")
    return {name: text for name, text in found.items() if name in SHOWN}


SHOWN = (
    "upper", "upper_of", "upper_constant", "upper_L", "upper_L_error", "lower", "lower_of", "lower_constant", "lower_n",
    "lower_n_error", "smooth", "smooth_of", "smooth_constant", "smooth_omega", "smooth_omega_error", "smooth_L",
    "smooth_L_error", "smooth_n", "smooth_n_error", "gradient", "gradient_of", "gradient_omega", "gradient_omega_error",
    "gradient_L", "gradient_L_error", "kernel", "kernel_of", "kernel_omega", "kernel_omega_error", "kernel_L",
    "kernel_L_error", "linear", "linear_of", "linear_omega", "linear_omega_error", "linear_L", "linear_L_error", "gd", "gd_of",
    "sgd", "sgd_of",
)  # fmt: skip
"""Those of them that the page has."""


def _held(name: str, row: Any) -> dict[str, str]:
    return {name: str(row["holds"]), f"{name}_of": str(row["audits"])}


def widths(result: Result) -> dict[str, str]:
    """How many findings hold, by network."""
    found: dict[str, str] = {}
    for network, own in result.values["rows"].items():
        name = network.removeprefix("three-layer ").replace(" ", "_")
        found[f"{name}"] = str(sum(row["holds"] for row in own))
        found[f"{name}_of"] = str(sum(row["audits"] for row in own))
    return found


def hidden_products(result: Result) -> dict[str, str]:
    """Samples that Corollary 7.1 asks for, d/α⁸, beside those that were given."""
    settings = result.settings
    asked = [settings["alpha_dimension"] / alpha**8 for alpha in settings["alphas"]]
    enough = sum(samples <= settings["online_samples"] for samples in asked)
    alpha, dimensions = settings["alpha"], settings["dimensions"]
    squares = [only(result.values["curves"], d=d, N=d * d)["network"] for d in dimensions]
    return {
        "asked": scientific(max(asked), 1),
        "enough": str(enough),
        "alphas": str(len(asked)),
        "fourth": digits(alpha**4, 2),
        "below": str(sum(error <= alpha**4 for error in squares)),
        "below_of": str(len(squares)),
        "asked_least": whole(float(f"{min(dimensions) / alpha**8:.2g}")),
        "asked_most": whole(float(f"{max(dimensions) / alpha**8:.2g}")),
    }


def sgd_iterations(result: Result) -> dict[str, str]:
    """Powers of n, L, m, δ and b in the steps of SGD to 1% of the first loss, and how many runs got there."""
    rows = json.loads((result.folder / "sgd_iterations.json").read_text(encoding="utf-8"))["rows"]
    found = {}
    for row in (row for row in rows if "size" in row):
        found |= {row["size"]: fixed(row["power"], 2), f"{row['size']}_error": fixed(row["error"], 2)}
    counted = [row for row in rows if "seed" in row]
    return found | {
        "runs": str(len(counted)),
        "reached": str(sum(row["steps"] is not None for row in counted)),
        "least": whole(min(row["steps"] for row in counted if row["steps"])),
        "most": whole(max(row["steps"] for row in counted if row["steps"])),
    }
