"""The sections on `convergence`: its figure 1, its laws, and convergence as measured."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from filled.committed import Result, all_of, digits, fixed, only, percent, spread, table, whole


def landscape(result: Result) -> dict[str, str]:
    """The objective along its gradient and its most negative curvature."""
    values, settings = result.values, result.settings
    points, observed = values["landscapes"], values["observation"]
    lines = []
    for run in values["runs"]:
        name = run["network"] + (", 20% random" if "random" in run["task"] else "")
        cells = []
        for epoch in (5, 40, 90, 160):
            own = only(points, network=run["network"], task=run["task"], paper_epoch=epoch)
            places = 3 if own["here"] > 0.1 else 4 if own["here"] > 0.01 else 5
            here, gradient, curvature = (
                fixed(own[part], places) for part in ("here", "gradient_least", "curvature_least")
            )
            cells.append(f"{here} → {gradient}, {curvature}")
        lines.append([name, *cells])
    early = [point for point in points if point["rate"] == 0.1]
    late = [point for point in points if point["rate"] != 0.1]
    negative, where = observed["where_negative"], _beyond(early)
    vgg = only(points, network="VGG-19", task="CIFAR-10", paper_epoch=5)
    tests = [
        [run["test_accuracy"] for run in values["runs"] if ("random" in run["task"]) == noisy]
        for noisy in (False, True)
    ]
    return {
        "points": table(["F now, → least along −∇F, → least along ±v", "epoch 5", "40", "90", "160"], lines),
        "falls": str(observed["gradient_falls"]),
        "ahead": str(observed["gradient_ahead"]),
        "of": str(observed["landscapes"]),
        "least": percent(observed["gradient_share"]["least"]),
        "median": percent(observed["gradient_share"]["median"], 0),
        "largest": percent(observed["gradient_share"]["largest"], 0),
        "curvature_least": fixed(min(point["curvature"] for point in early), 2),
        "curvature_most": fixed(max(point["curvature"] for point in early), 2),
        "negative": str(where),
        "early": str(len(early)),
        "ratio": fixed(negative["curvature_ratio"]["largest"], 2),
        "negative_gradient": percent(negative["gradient_share"]["median"], 0),
        "negative_curvature": percent(negative["curvature_share"]["median"]),
        "negative_most": percent(negative["curvature_share"]["largest"], 0),
        "vgg_gradient": percent(vgg["gradient_share"], 2),
        "vgg_curvature": percent(vgg["curvature_share"], 2),
        "late_negative": str(_beyond(late)),
        "late": str(len(late)),
        "fitted": percent(min(run["accuracy"] for run in values["runs"]), 0),
        "clean_vgg": percent(tests[0][0]),
        "clean_resnet": percent(tests[0][1]),
        "noisy_vgg": percent(tests[1][0]),
        "noisy_resnet": percent(tests[1][1]),
        "images": whole(settings["train"]),
        "epoch_steps": str(settings["train"] // settings["batch"]),
        "minutes": fixed(result.minutes, 0),
    }


def _beyond(points: list[Any]) -> int:
    """Points with negative curvature beyond two standard errors."""
    return sum(point["curvature"] + 2 * point["curvature_error"] < 0 for point in points)


SHOWN = (
    "sign changes", "signal of changed units", "forward stability", "intermediate stability", "backward stability",
    "gradient upper bound", "gradient lower bound", "no critical point", "semi-smoothness", "gradient drift",
    "kernel drift", "linearisation",
)  # fmt: skip


def _power(row: Any, of: str) -> str:
    """The fitted power with its error, the law's in brackets."""
    stated = row["stated"][of]
    brackets = "" if stated is None else f" ({_plain(stated)})"
    if row["exponents"][of] is None:
        return f"–{brackets}"
    return spread(row["exponents"][of], row["errors"][of], 2) + brackets


def _plain(value: float) -> str:
    """Two places at most."""
    return f"{round(value, 2):g}".replace("-", "−")


def adversaries(result: Result) -> dict[str, str]:
    """What newer adversaries find beyond older ones, and the powers of the laws against them."""
    gains = json.loads((result.folder.parents[2] / "benchmarks/results/adversaries.json").read_text(encoding="utf-8"))
    against = {row["law"]: row for row in all_of(result.values["rows"], moment="adversarial")}
    lines = []
    for own in gains["convergence-laws"]:
        row = against[own["law"][0].lower() + own["law"][1:]]
        powers = [_power(row, of) for of in ("omega", "m", "L", "n")]
        lines.append([row["law"], fixed(own["gain"], 2), *powers, digits(row["constant"], 2)])
    rows = result.values["rows"]
    others = {own["law"]: fixed(own["gain"], 1) for own in gains["laws-by-width"]}
    return {
        "laws": table(["law", "found, over before", "ω", "m", "L", "n", "constant"], lines),
        "holds": whole(sum(row["holds"] for row in rows)),
        "audits": whole(sum(row["audits"] for row in rows)),
        "lower": digits(against["gradient lower bound"]["constant"], 2),
        "widths_signs": others["Convolutional sign changes"],
        "widths_backward": others["Residual backward stability"],
        "widths_residual": others["Residual sign changes"],
        "widths_others": fixed(sorted(own["gain"] for own in gains["laws-by-width"])[-4], 1),
    }


JOINT = ("Sign changes", "Forward stability")


def joint(result: Result) -> dict[str, str]:
    """What adversaries find that move all layers for one, beside those before them: one seed here, means of three there, network by network."""
    studies = result.folder.parent
    names = (result.folder.name, "convergence-laws-adversaries", "convergence-laws")
    now, newer, first = (_found(Result(studies / name)) for name in names)
    settings = result.settings
    m0, (_, L0, _) = settings["base"][0], settings["base_of_widths"]
    networks = [("m", m, m, L0) for m in settings["widths"]] + [("L", L, m0, L) for L in settings["depths"] if L != L0]
    lines, signs = [], {"newer": [], "first": []}
    for axis, size, m, L in networks:
        cells = [whole(m), str(L)]
        for law in JOINT:
            here = (law, axis, size)
            over = [now[here] / before[here] if here in before else None for before in (newer, first)]
            cells += [digits(now[here], 3), *(fixed(ratio, 2) for ratio in over)]
            if law == JOINT[0]:
                for name, ratio in zip(signs, over, strict=True):
                    signs[name] += [] if ratio is None else [ratio]
        lines.append(cells)
    against = {row["law"]: row for row in all_of(result.values["rows"], moment="adversarial")}
    named = {"signs": "sign changes", "forward": "forward stability"}
    axes = ("omega", "m", "L")
    powers = {f"{key}_{axis}": fixed(against[law]["exponents"][axis], 2) for key, law in named.items() for axis in axes}
    errors = {
        f"{key}_{axis}_error": fixed(against[law]["errors"][axis], 2) for key, law in named.items() for axis in axes[1:]
    }
    header = ["m", "L", "signs", "over newer", "over first", "movement", "over newer", "over first"]
    return {
        "found": table(header, lines),
        "holds": whole(sum(row["holds"] for row in result.values["rows"])),
        "audits": whole(sum(row["audits"] for row in result.values["rows"])),
        "signs_least": fixed(min(signs["newer"]), 2),
        "signs_most": fixed(max(signs["newer"]), 2),
        "signs_first_least": fixed(min(signs["first"]), 2),
        "signs_first_most": fixed(max(signs["first"]), 2),
        **powers,
        **errors,
    }


def _found(result: Result) -> dict[tuple[str, str, float], float]:
    """By law, axis and size: what the adversary found at one radius, from the figures of the study's page."""
    found = {}
    for figure in (block for section in result.sections for block in section["blocks"] if block["kind"] == "figure"):
        law, _, axis = figure["title"].partition(" against ")
        for one in figure["series"]:
            if one["name"] == "adversarial":
                found |= {(law, axis, size): value for size, value in zip(one["x"], one["y"], strict=True)}
    return found


def laws(result: Result) -> dict[str, str]:
    """The laws of fully connected networks, exponent by exponent."""
    rows = result.values["rows"]
    against = {row["law"]: row for row in all_of(rows, moment="adversarial")}
    lines = []
    for name in SHOWN:
        row = against[name]
        powers = [_power(row, of) for of in ("omega", "m", "L", "n")]
        lines.append([name, row["reference"].removeprefix("convergence, "), *powers, digits(row["constant"], 2)])
    loose = (
        "sign changes",
        "backward stability",
        "gradient drift",
        "linearisation",
        "forward stability",
        "kernel drift",
    )
    in_layers = [against[name]["exponents"]["L"] for name in loose]
    quiet = ("forward stability", "backward stability", "gradient drift", "kernel drift")
    gains, smooth = (
        [against[name]["gain"] for name in quiet],
        [against[name]["gain"] for name in against if "semi" in name],
    )
    above = [row for row in rows if row["side"] == "upper" and row["constant"] > 10]
    failing = [row for row in rows if row["holds"] < row["audits"]]
    lower = against["gradient lower bound"]
    sparse = only(rows, law="products on sparse vectors")

    def power(name: str, of: str, places: int) -> str:
        return fixed(against[name]["exponents"][of], places)

    return {
        "exponents": table(["law", "statement", "ω", "m", "L", "n", "constant"], lines),
        "layers_least": fixed(min(in_layers), 1),
        "layers_most": fixed(max(in_layers), 1),
        "linear_m": power("linearisation", "m", 2),
        "backward_m": power("backward stability", "m", 2),
        "smooth_omega": power("semi-smoothness", "omega", 1),
        "lower": digits(lower["constant"], 2),
        "sign_omega": power("sign changes", "omega", 2),
        "backward_omega": power("backward stability", "omega", 2),
        "linear_omega": power("linearisation", "omega", 2),
        "middle_layers": power("intermediate stability", "L", 2),
        "gradient_layers": power("gradient upper bound", "L", 1),
        "sample_layers": power("gradient upper bound by sample", "L", 1),
        "lower_omega": power("gradient lower bound", "omega", 1),
        "lower_m": power("gradient lower bound", "m", 1),
        "above": str(len(above)),
        "above_of": str(len(rows)),
        "above_most": digits(max(row["constant"] for row in above), 3),
        "above_deep": str(sum("L = 16" in row["where"] for row in above)),
        "sparse": str(sparse["audits"] - sparse["holds"]),
        "sparse_of": str(sparse["audits"]),
        "failing": str(len(failing)),
        "smooth_least": digits(min(smooth), 2),
        "smooth_most": digits(max(smooth), 2),
        "linear_gain": digits(against["linearisation"]["gain"], 2),
        "gain_least": digits(min(gains), 1),
        "gain_most": digits(max(gains), 1),
        "holds": whole(sum(row["holds"] for row in rows)),
        "audits": whole(sum(row["audits"] for row in rows)),
        "minutes": fixed(result.minutes, 0),
    }


WIDTHS = (
    ("residual", "residual sign changes", "sign changes"),
    ("residual", "residual forward stability of the last layer", "forward stability of the last layer"),
    ("residual", "residual backward stability", "backward stability"),
    ("convolutional", "convolutional sign changes", "sign changes"),
    ("convolutional", "convolutional forward stability", "forward stability"),
    ("convolutional", "convolutional backward stability", "backward stability"),
    ("two layers", "coupling of two layers: signs that turn", "signs that turn"),
    ("two layers", "coupling of two layers: network less pseudo network", "network less pseudo network"),
    ("two layers", "coupling of two layers: gradients", "gradients"),
    ("three layers", "coupling of three layers: signs of the first layer", "signs of the first layer"),
    ("three layers", "coupling of three layers: signs of the second layer by V′", "signs of the second layer by V′"),
    ("three layers", "coupling of three layers: cross term of W″", "cross term of W″"),
    ("three layers", "smoothed pseudo network", "smoothed pseudo network"),
    ("three-layer ResNet", "ResNet coupling (a): signs of the first layer", "(a): signs of the first layer"),
    ("three-layer ResNet", "ResNet coupling (c): out₁", "(c): out₁"),
    ("three-layer ResNet", "ResNet coupling (d): signs of the second layer", "(d): signs of the second layer"),
    ("three-layer ResNet", "ResNet coupling (f): the matrix of turned neurons", "(f): the matrix of turned neurons"),
    ("three-layer ResNet", "ResNet coupling (g): the second layer's output", "(g): the second layer's output"),
)


def widths(result: Result) -> dict[str, str]:
    """The laws of the other networks, over widths."""
    rows = result.values["rows"]

    def against(network: str, law: str) -> Any:
        return only(rows[network], law=law, moment="adversarial")

    lines = []
    for network, law, name in WIDTHS:
        row = against(network, law)
        lines.append([network, name, _power(row, "omega"), _power(row, "m"), digits(row["constant"], 2)])
    every = [row for own in rows.values() for row in own]
    matrix = against("three-layer ResNet", "ResNet coupling (f): the matrix of turned neurons")
    ours = [row for row in rows["three-layer ResNet"] if row["law"].startswith("ResNet coupling (f, ours)")]
    norms = only(rows["residual"], law="residual forward norms from above", moment="start")
    signs = [against(network, law) for network, law, name in WIDTHS if "sign" in name and network != "two layers"]
    coupled = against("two layers", "coupling of two layers: network less pseudo network")
    backward = [against(n, f"{n} backward stability")["exponents"]["m"] for n in ("residual", "convolutional")]
    slow = [against(network, law)["exponents"]["omega"] for network, law, name in WIDTHS if "signs" in name]
    steeper = [
        row for row in every if row["moment"] == "adversarial" and row["side"] == "upper"
        and row["exponents"]["m"] is not None and row["stated"]["m"] is not None
        and row["exponents"]["m"] > row["stated"]["m"] + max(0.25, 2 * row["errors"]["m"])
    ]  # fmt: skip
    return {
        "exponents": table(["network", "law", "ω", "m", "constant"], lines),
        "laws": str(len({(network, row["law"]) for network, own in rows.items() for row in own})),
        "holds": whole(sum(row["holds"] for row in every)),
        "audits": whole(sum(row["audits"] for row in every)),
        "matrix": str(matrix["holds"]),
        "matrix_of": str(matrix["audits"]),
        "ours": str(sum(row["holds"] for row in ours)),
        "ours_of": str(sum(row["audits"] for row in ours)),
        "norms": str(norms["audits"] - norms["holds"]),
        "norms_of": str(norms["audits"]),
        "steeper": str(len(steeper)),
        "signs": fixed(max(abs(row["exponents"]["m"] - row["stated"]["m"]) for row in signs), 2),
        "coupled": fixed(coupled["exponents"]["m"], 2),
        "backward_least": fixed(min(backward), 2),
        "backward_most": fixed(max(backward), 2),
        "slow_least": fixed(min(slow), 1),
        "slow_most": fixed(max(slow), 1),
        "minutes": fixed(result.minutes, 0),
    }


def rates(result: Result) -> dict[str, str]:
    """Rates, iterations, and every label right."""
    values = result.values
    runs, iterations, classes = values["rates"], values["iterations"], values["classes"]
    lines = []
    for name, part in (
        ("the network at the end", "end"),
        ("the network at the start", "start"),
        ("infinite width", "limit"),
    ):
        cells = []
        for algorithm in ("GD", "SGD"):
            over = [
                run["rate"] / run[f"from_{part}"] for run in all_of(runs, algorithm=algorithm) if run[f"from_{part}"]
            ]
            cells.append(f"{fixed(float(np.median(over)))} ({fixed(min(over))} to {fixed(max(over))})")
        lines.append([name, *cells])
    away = np.array([abs(run["rate"] / run["from_end"] - 1) for run in runs])
    powers = []
    for variable in ("n", "L", "m", "δ"):
        own = [only(iterations, network=network, variable=variable) for network in ("fully connected", "residual")]
        cells = [spread(row["steps"], row["steps_error"], 2) for row in own]
        powers.append([variable, _plain(own[0]["steps_theorem"]), *cells])
    apart, narrow = (only(iterations, network="fully connected", variable=name) for name in ("δ", "m"))
    near = [point for row in all_of(iterations, variable="δ") for point in row["points"] if point["x"] < 0.1]
    others = [point for row in all_of(iterations, variable="δ") for point in row["points"] if point["x"] >= 0.1]
    real, random = ([row["all_right"] for row in all_of(classes, labels=kind)] for kind in ("real", "random"))
    losses = [row["loss_there"] for row in classes]
    slow = {(row["network"], row["algorithm"]): row["all_right"] for row in all_of(classes, labels="random")}
    convex = [row["exponent"] for row in all_of(values["laws"], loss="cross-entropy")]
    bounded = [row["exponent"] for row in all_of(values["laws"], loss="saturated")]
    return {
        "over": table(["kernel of", "GD", "SGD"], lines),
        "powers": table(["power of", "theorem", "fully connected", "residual"], powers),
        "runs": str(len(runs)),
        "half": percent(float(np.median(away)), 0),
        "all": percent(away.max(), 0),
        "near": str(len(near)),
        "near_reached": str(sum(point["steps"] is not None for point in near)),
        "others_missing": str(sum(point["steps"] is None for point in others)),
        "expected": fixed(apart["expected"], 1),
        "slower": fixed(narrow["slower"][0], 1),
        "slower_wide": fixed(narrow["slower"][-1], 1),
        "right": str(sum(row["holds"] for row in classes)),
        "classes": str(len(classes)),
        "real_least": whole(min(real)),
        "real_most": whole(max(real)),
        "random_least": whole(min(random)),
        "random_most": whole(max(random)),
        "slow_least": whole(min(slow["residual", a] / slow["convolutional", a] for a in ("GD", "SGD"))),
        "slow_most": whole(max(slow["residual", a] / slow["convolutional", a] for a in ("GD", "SGD"))),
        "loss_least": whole(min(losses)),
        "loss_most": whole(max(losses)),
        "convex_least": fixed(min(convex)),
        "convex_most": fixed(max(convex)),
        "bounded_least": fixed(min(bounded)),
        "bounded_most": fixed(max(bounded)),
        "minutes": fixed(result.minutes, 0),
    }


def rates_small(result: Result) -> dict[str, str]:
    """Every label right at small scale."""
    classes = result.values["classes"]
    return {"right": str(sum(row["holds"] for row in classes)), "classes": str(len(classes))}
