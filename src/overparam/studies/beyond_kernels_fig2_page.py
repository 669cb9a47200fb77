"""The page of `beyond-kernels-fig2`: what the paper says, and beside it what was found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overparam.core import sections
from overparam.studies.beyond_kernels_fig2_figures import (
    WORDS,
    Row,
    against_beta,
    against_samples,
    below,
    number,
    settings_used,
    shown,
)
from overparam.studies.beyond_kernels_fig2_numbers import Runs, all_values
from overparam.studies.beyond_kernels_fig2_settings import NETWORKS, Settings
from overparam.studies.study import Findings


def findings(settings: Settings, runs: Runs) -> Findings:
    """Values, arrays and sections from all parts."""
    values = all_values(settings, runs)
    arrays = {
        f"{kind}/{' '.join(str(part) for part in np.atleast_1d(np.array(cell, dtype=object)))}/{key}": np.asarray(array)
        for kind, tables in (
            ("search", runs.search), ("seeds", runs.seeds), ("kernels", runs.kernels), ("beta", runs.beta),
            ("beta kernels", runs.beta_kernels), ("layer by layer", runs.layer_wise),
        )
        for cell, table in tables.items()
        for key, array in table.items()
    }  # fmt: skip
    told = (
        _claims(settings, values),
        against_samples(settings, values),
        against_beta(settings, values),
        _layer_by_layer(values),
        _how(settings, values),
    )
    return Findings(values, arrays, told)


def _claims(settings: Settings, values: Row) -> sections.Section:
    about = sections.Text(
        f"x uniform on {{±1}}³⁰, F(x) = (x₁x₂, x₃x₄, …, x₁₅x₁₆), G(y) = y₁y₂y₃y₄ on outputs 1 to 4 and y₅y₆y₇y₈ on 5 to "
        f"8, H = βF + αG(F) with α = {settings.alpha:g}, β = 1 unless said. The error is E‖H − out‖², summed over the 8 "
        f"outputs, on new points: {values['plateau']:.2f} is that of learning F alone, "
        f"{settings.target().variance:.2f} that of learning nothing."
    )
    blocks = (
        _headline(settings, values),
        about,
        *(_at(settings, values, m, samples) for m, samples in zip(settings.widths, settings.samples, strict=True)),
        *_three_layers(values),
        _layer_wise_claim(values),
        sections.Text(
            "The paper shows the run with the best test error among all rates and decays, and so do the curves here: the "
            "search keeps those of least validation error, and of these the one with the least mean test error is shown. "
            "Choosing by validation error alone is in the table beside it. Width and N are not in the paper's text, and "
            "neither is what panel (b) shows: it is left out. Panel (c) is said to be over β; its N is our choice.",
            "warning",
        ),
    )
    return sections.Section("What the paper says and what we found", blocks)


def _headline(settings: Settings, values: Row) -> sections.Text:
    """In a sentence: who learns G at N = 1,000 and the first width."""
    N, own = _near(settings, values, settings.widths[0], settings.samples[0])
    under = [WORDS.get(name, name) for name, row in own.items() if below(row, values["plateau"])]
    who = "nobody" if not under else f"the {under[0]} alone" if len(under) == 1 else ", ".join(under)
    return sections.Text(
        f"With {N} rows and width {settings.widths[0]}, {who} learns what lies beyond F: the error of the ResNet is "
        f"{shown(own['3resnet'])}, and {values['plateau']:.2f} is that of F alone.",
        "good" if list(under) == [WORDS["3resnet"]] else "warning",
    )


def _near(settings: Settings, values: Row, m: int, samples: Sequence[int]) -> tuple[int, dict[str, Row]]:
    """N = 1,000 or the nearest, and every method's errors there."""
    N = min(samples, key=lambda own: abs(own - 1_000))
    return N, {row["method"]: row for row in values["errors"] if row["N"] == N and row["m"] in (m, None)}


def _at(settings: Settings, values: Row, m: int, samples: Sequence[int]) -> sections.Text:
    """The claim of Fig. 2(a), at N = 1,000 or the nearest."""
    N, own = _near(settings, values, m, samples)
    plateau = values["plateau"]
    under = [name for name, row in own.items() if below(row, plateau)]
    kernels = {name: row for name, row in own.items() if name not in NETWORKS}
    least = min(kernels, key=lambda name: number(kernels[name]))
    nets = ", ".join(f"{WORDS[name]} {shown(own[name])}" for name in NETWORKS)
    only = under == ["3resnet"]
    said = (
        "Only the ResNet is below it, as the paper says"
        if only
        else f"Below it by two standard errors: {', '.join(under) or 'none'}. The paper has the ResNet alone there"
    )
    return sections.Text(
        f"Fig. 2(a) says that the ResNet learns G(F), so that its error falls below {plateau:.2f}, where other networks and "
        f"kernels stay above. We found at m = {m}, N = {N}: {nets}; the best of {len(kernels)} kernels, {least}, "
        f"{shown(kernels[least])}. {said}.",
        "good" if only else "bad",
    )


def _three_layers(values: Row) -> list[sections.Text]:
    """The paper's other claim, that three plain layers do not learn G at all; said where they do at some N."""
    learnt = [row for row in values["first"] if row["method"] != "3resnet" and row["some"] is not None]
    if not learnt:
        return [
            sections.Text(
                "No network but the ResNet and no kernel gets two standard errors below the error of F alone at any N "
                "tried, as the paper says.",
                "good",
            )
        ]
    words = "; ".join(
        row["method"]
        + ("" if row["m"] is None else f" at m = {row['m']}")
        + f" from N = {row['some']} on (at N = {row['most']}: {number(row, 'last'):.3g})"
        for row in learnt
    )
    return [
        sections.Text(
            "The paper says that plain networks and kernels can fail to learn G to any accuracy. With more rows some do "
            f"get below the error of F alone here: {words}.",
            "warning",
        )
    ]


def _layer_wise_claim(values: Row) -> sections.Text:
    parts, verdicts = [], set()
    joint = {(row["m"], row["N"]): row for row in values["errors"] if row["method"] == "3resnet"}
    m = min(m for m, _ in joint)
    for row in values["layer_wise"]:
        both = joint.get((m, row["N"]))
        parts.append(
            f"N = {row['N']}: out₁ alone {shown(row, 'first_')}, then with V {shown(row)}"
            + ("" if both is None else f"; both at once {shown(both)}")
        )
        if both is not None:
            bar = 2 * np.hypot(row["standard_error"] or 0.0, both["standard_error"] or 0.0)
            gap = number(row) - number(both)
            verdicts.add("worse" if gap > bar else "better" if gap < -bar else "alike")
    said = {
        "worse": "Layer by layer does worse, as the paper says",
        "better": "Layer by layer does better here: the paper's warning is not borne out at this size",
        "alike": "The two do alike here: the paper's warning is not borne out at this size",
    }.get(verdicts.pop() if len(verdicts) == 1 else "", "The order depends on N")
    learnt = [row["N"] for row in values["layer_wise"] if below(row, values["plateau"])]
    if learnt:
        said += f". It gets below the error of F alone all the same, at N = {', '.join(map(str, learnt))}"
    worse = said.endswith("paper says")
    return sections.Text(
        "Sec. 2.1 says that training layer by layer cannot give the result: the first layer alone is left with an error of "
        f"order α that the second can hardly undo. We found, W first and then V with W fixed: {'. '.join(parts)}. {said}.",
        "good" if worse else "warning",
    )


def _layer_by_layer(values: Row) -> sections.Section:
    heads = ("N", "out₁ alone", "± one s.e.", "then V", "± one s.e.", "chosen by validation", "rate of V", "decay of V")
    keys = ("N", "first_error", "first_standard_error", "error", "standard_error", "by_validation", "lr", "decay")
    rows = tuple(tuple("—" if row[key] is None else row[key] for key in keys) for row in values["layer_wise"])
    text = sections.Text(
        "W is trained first, out₁ alone against H, with the best rate and decay of two layers; then V, with W fixed, at "
        "half of the ResNet's grid. Each gets all epochs."
    )
    return sections.Section("Layer by layer", (text, sections.Table(heads, rows)))


def _how(settings: Settings, values: Row) -> sections.Section:
    coupled = "; ".join(
        f"{name} {whole:.3g} with the whole kernel, {shared:.3g} with the shared one (the blocks of different outputs hold "
        f"{share:.0%} of its norm)"
        for name, (whole, shared, share) in values["coupling"].items()
    )
    m = settings.widths[0]
    texts = (
        f"SGD as the paper prints it: momentum 0.9, batches of 50, {settings.epochs} epochs and {settings.epochs} more at a "
        "tenth of the rate; rates and decays out of {1, 2, 5}·10^j; float32"
        f"{', products of three plain layers in TF32' if settings.three_layer_dtype == 'tf32' else ''}. The loss is "
        "½‖H − out‖², averaged over the batch. Rows "
        "are repeated to the largest N, so that an epoch is one of the repeated rows: each row is seen as often as in the "
        "paper's epochs, but not once in every N draws.",
        f"The search has one seed at m = {m} and N = {', '.join(map(str, settings.searched))}; the best {settings.best} by "
        f"{settings.validation} validation rows, not all of one rate, get {settings.seeds} other seeds. Other N take the settings of the nearest "
        "searched N below. At other widths the settings are kept; of three plain layers, whose tangent kernel grows like "
        "m, the rate is divided and the decay multiplied by the ratio of widths. The grids were laid after 124 settings at N = "
        "1,000 on other rows (72 of the ResNet, 25 of two and 27 of three layers) and a first run of the small scale with "
        "seed 0, so that this scale with that seed is not a fresh test.",
        f"The tangent kernel of 8 outputs is 8 × 8 blocks. The ridge regression uses one kernel for all outputs, the mean "
        f"of the diagonal blocks. Compared with the whole at m = {m}, N = {settings.coupled_samples}: {coupled}.",
    )
    return sections.Section("How it was run", (*(sections.Text(text) for text in texts), *settings_used(values)))
