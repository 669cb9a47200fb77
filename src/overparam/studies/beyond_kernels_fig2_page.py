"""The page of `beyond-kernels-fig2`: what the paper says, and beside it what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from overparam.core import sections
from overparam.studies.beyond_kernels_fig2 import NETWORKS, SETTINGS, ParitySettings, outline, parts
from overparam.studies.beyond_kernels_fig2_numbers import conclude
from overparam.studies.study import Arrays, Study, Values

ROLES: dict[str, sections.Role] = {"3resnet": "true", "3layer": "random", "2layer": "observed"}
WORDS = {"3resnet": "three-layer ResNet", "3layer": "three layers", "2layer": "two layers"}
Row = Mapping[str, Any]


def page(settings: ParitySettings, values: Values, arrays: Arrays) -> tuple[sections.Section, ...]:
    """All sections."""
    return (
        sections.Section("What the paper says and what we found", claims(settings, values)),
        _against_samples(settings, values),
        _against_beta(settings, values),
        _layer_by_layer(values),
        _how(settings, values),
    )


def claims(settings: ParitySettings, values: Values) -> tuple[sections.Text, ...]:
    """What the paper says of each figure, and what the errors say of it."""
    about = sections.Text(
        f"x uniform on {{±1}}³⁰, F(x) = (x₁x₂, x₃x₄, …, x₁₅x₁₆), G(y) = y₁y₂y₃y₄ on outputs 1 to 4 and y₅y₆y₇y₈ on 5 to "
        f"8, H = βF + αG(F) with α = {settings.alpha:g}, β = 1 unless said. The error is E‖H − out‖², summed over the 8 "
        f"outputs, on new points: {values['plateau']:.2f} is that of learning F alone, "
        f"{settings.target().variance:.2f} that of learning nothing."
    )
    return (
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


def _headline(settings: ParitySettings, values: Values) -> sections.Text:
    """In a sentence: who learns G at N = 1,000 and the first width."""
    N, own = _near(settings, values, settings.widths[0], settings.samples[0])
    under = [WORDS.get(name, name) for name, row in own.items() if _below(row, values["plateau"])]
    who = "nobody" if not under else f"the {under[0]} alone" if len(under) == 1 else ", ".join(under)
    return sections.Text(
        f"With {N} rows and width {settings.widths[0]}, {who} learns what lies beyond F: the error of the ResNet is "
        f"{_shown(own['3resnet'])}, and {values['plateau']:.2f} is that of F alone.",
        "good" if list(under) == [WORDS["3resnet"]] else "warning",
    )


def _near(settings: ParitySettings, values: Values, m: int, samples: Sequence[int]) -> tuple[int, dict[str, Row]]:
    """N = 1,000 or the nearest, and every method's errors there."""
    N = min(samples, key=lambda own: abs(own - 1_000))
    return N, {row["method"]: row for row in values["errors"] if row["N"] == N and row["m"] in (m, None)}


def _at(settings: ParitySettings, values: Values, m: int, samples: Sequence[int]) -> sections.Text:
    """The claim of Fig. 2(a), at N = 1,000 or the nearest."""
    N, own = _near(settings, values, m, samples)
    plateau = values["plateau"]
    under = [name for name, row in own.items() if _below(row, plateau)]
    kernels = {name: row for name, row in own.items() if name not in NETWORKS}
    least = min(kernels, key=lambda name: _number(kernels[name]))
    nets = ", ".join(f"{WORDS[name]} {_shown(own[name])}" for name in NETWORKS)
    only = under == ["3resnet"]
    said = (
        "Only the ResNet is below it, as the paper says"
        if only
        else f"Below it by two standard errors: {', '.join(under) or 'none'}. The paper has the ResNet alone there"
    )
    return sections.Text(
        f"Fig. 2(a) says that the ResNet learns G(F), so that its error falls below {plateau:.2f}, where other networks and "
        f"kernels stay above. We found at m = {m}, N = {N}: {nets}; the best of {len(kernels)} kernels, {least}, "
        f"{_shown(kernels[least])}. {said}.",
        "good" if only else "bad",
    )


def _three_layers(values: Values) -> list[sections.Text]:
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
        + f" from N = {row['some']} on (at N = {row['most']}: {_number(row, 'last'):.3g})"
        for row in learnt
    )
    return [
        sections.Text(
            "The paper says that plain networks and kernels can fail to learn G to any accuracy. With more rows some do "
            f"get below the error of F alone here: {words}.",
            "warning",
        )
    ]


def _layer_wise_claim(values: Values) -> sections.Text:
    parts, verdicts = [], set()
    joint = {(row["m"], row["N"]): row for row in values["errors"] if row["method"] == "3resnet"}
    m = min(m for m, _ in joint)
    for row in values["layer_wise"]:
        both = joint.get((m, row["N"]))
        parts.append(
            f"N = {row['N']}: out₁ alone {_shown(row, 'first_')}, then with V {_shown(row)}"
            + ("" if both is None else f"; both at once {_shown(both)}")
        )
        if both is not None:
            bar = 2 * np.hypot(row["standard_error"] or 0.0, both["standard_error"] or 0.0)
            gap = _number(row) - _number(both)
            verdicts.add("worse" if gap > bar else "better" if gap < -bar else "alike")
    said = {
        "worse": "Layer by layer does worse, as the paper says",
        "better": "Layer by layer does better here: the paper's warning is not borne out at this size",
        "alike": "The two do alike here: the paper's warning is not borne out at this size",
    }.get(verdicts.pop() if len(verdicts) == 1 else "", "The order depends on N")
    learnt = [row["N"] for row in values["layer_wise"] if _below(row, values["plateau"])]
    if learnt:
        said += f". It gets below the error of F alone all the same, at N = {', '.join(map(str, learnt))}"
    worse = said.endswith("paper says")
    return sections.Text(
        "Sec. 2.1 says that training layer by layer cannot give the result: the first layer alone is left with an error of "
        f"order α that the second can hardly undo. We found, W first and then V with W fixed: {'. '.join(parts)}. {said}.",
        "good" if worse else "warning",
    )


def _layer_by_layer(values: Values) -> sections.Section:
    heads = ("N", "out₁ alone", "± one s.e.", "then V", "± one s.e.", "chosen by validation", "rate of V", "decay of V")
    keys = ("N", "first_error", "first_standard_error", "error", "standard_error", "by_validation", "lr", "decay")
    rows = tuple(tuple("—" if row[key] is None else row[key] for key in keys) for row in values["layer_wise"])
    text = sections.Text(
        "W is trained first, out₁ alone against H, with the best rate and decay of two layers; then V, with W fixed, at "
        "half of the ResNet's grid. Each gets all epochs."
    )
    return sections.Section("Layer by layer", (text, sections.Table(heads, rows)))


def _how(settings: ParitySettings, values: Values) -> sections.Section:
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
    return sections.Section("How it was run", (*(sections.Text(text) for text in texts), *_settings_used(values)))


def _against_samples(settings: ParitySettings, values: Values) -> sections.Section:
    """Panel (a), and its tables."""
    blocks: list[sections.Block] = []
    for m, samples in zip(settings.widths, settings.samples, strict=True):
        rows = [row for row in values["errors"] if row["m"] == m]
        drawn = []
        for name in NETWORKS:
            drawn.append(_curve(WORDS[name], rows, name, "N", role=ROLES[name]))
        for name in NETWORKS:
            drawn.append(_curve(f"{WORDS[name]} (NTK)", rows, f"{name} (NTK)", "N", role=ROLES[name], dashed=True))
        for name in NETWORKS:
            last = f"{name} (last)"
            drawn.append(_curve(f"{WORDS[name]} (last)", rows, last, "N", role=ROLES[name], mark="points"))
        house = [row for row in values["errors"] if row["m"] is None and row["N"] in samples]
        tried = sorted({row["N"] for row in house})
        best = [min((row for row in house if row["N"] == N), key=_number) | {"method": "best"} for N in tried]
        drawn.append(_curve("best other kernel", best, "best", "N", role="muted"))
        blocks.append(
            sections.Figure(
                f"Panel (a): error against N, width {m}",
                "Lines: hidden layers trained by SGD, bands of one standard error over seeds. Dashed: the tangent kernel "
                "of the finite network. Points: its last layer alone. Both by exact ridge regression.",
                "N",
                "E‖H − out‖²",
                tuple(drawn),
                x_scale="log",
                y_scale="log",
                lines=(sections.Line("F alone", y=values["plateau"]),),
            )
        )
        blocks.append(_errors(values, m, samples))
    blocks.append(_first_table(values))
    return sections.Section("Error against samples", tuple(blocks))


def _first_table(values: Values) -> sections.Table:
    rows = tuple(
        (
            row["method"],
            row["m"] or "—",
            *(f"not by {row['most']}" if row[k] is None else row[k] for k in ("some", "half")),
        )
        for row in values["first"]
    )
    heads = ("method", "m", "first N two s.e. below F alone", "first N two s.e. below half of that")
    return sections.Table(
        heads, rows, "The number of rows at which each method first learns some of G, and half of it."
    )


def _errors(values: Values, m: int, samples: Sequence[int]) -> sections.Table:
    """Methods by N."""
    own = {(row["method"], row["N"]): row for row in values["errors"] if row["m"] in (m, None)}
    methods = [name for name in dict.fromkeys(name for name, _ in own) if any((name, N) in own for N in samples)]
    rows = tuple((name, *(_shown(own[name, N]) if (name, N) in own else "—" for N in samples)) for name in methods)
    return sections.Table(
        ("method", *(f"N = {N:,}" for N in samples)),
        rows,
        f"Errors at width {m}, ± one standard error over seeds. Kernels choose their ridge by leave-one-out.",
    )


def _settings_used(values: Values) -> tuple[sections.Table, sections.Table]:
    """What the search found, and what the curves show."""
    heads = ("method", "N", "rate", "decay", "test error", "runs", "at an end of the grid")
    rows = tuple(
        (r["method"], r["N"], r["lr"], r["decay"], r["test"], r["runs"], ", ".join(r["at_end"]) or "no")
        for r in values["search"]
    )
    search = sections.Table(heads, rows, "The best of each search, by validation error.")
    keys = ("method", "m", "N", "lr", "decay", "error", "by_validation", "fit", "seeds", "lost")
    heads = (
        "method",
        "m",
        "N",
        "rate",
        "decay",
        "error",
        "chosen by validation",
        "training error",
        "seeds",
        "diverged",
    )
    trained = (row for row in values["errors"] if "lr" in row)
    rows = tuple(tuple("—" if row[key] is None else row[key] for key in keys) for row in trained)
    return search, sections.Table(
        heads, rows, "What the curves show. Diverged: runs of all settings that got all seeds."
    )


def _against_beta(settings: ParitySettings, values: Values) -> sections.Section:
    """Panel (c)."""
    rows, m = values["beta"], settings.widths[0]
    drawn = [_curve(WORDS[name], rows, name, "beta", role=ROLES[name]) for name in NETWORKS]
    for name in NETWORKS:
        drawn.append(_curve(f"{WORDS[name]} (NTK)", rows, f"{name} (NTK)", "beta", role=ROLES[name], dashed=True))
    figure = sections.Figure(
        "Panel (c): error against β",
        f"H = βF + αG(F), N = {settings.beta_samples}, width {m}; rates and decays searched for every β.",
        "β",
        "E‖H − out‖²",
        tuple(drawn),
        x_scale="log",
        y_scale="log",
        lines=(sections.Line("F alone", y=values["plateau"]),),
    )
    text = "; ".join(
        f"β = {beta:g}: {', '.join(_best_of(rows, beta, name) for name in ('3resnet', '3layer', '2layer'))}, best kernel "
        f"{min(_number(row) for row in rows if row['beta'] == beta and row['method'] not in NETWORKS):.3g}"
        for beta in settings.betas
    )
    under = [
        beta
        for beta in settings.betas
        if any(_below(r, values["plateau"]) for r in rows if r["beta"] == beta and r["method"] == "3resnet")
    ]
    said = f"The ResNet is below F alone at β = {', '.join(f'{b:g}' for b in under)}" if under else (
        "The ResNet is not below F alone at any β"
    )  # fmt: skip
    return sections.Section("Panel (c): how strong F is", (figure, sections.Text(f"{text}. {said}.")))


def _best_of(rows: Sequence[Row], beta: float, name: str) -> str:
    row = next(row for row in rows if row["beta"] == beta and row["method"] == name)
    return f"{WORDS[name]} {_shown(row)}"


def _curve(
    label: str, rows: Sequence[Row], method: str, axis: str, *, role: sections.Role, mark: sections.Mark = "line",
    dashed: bool = False,
) -> sections.Series:  # fmt: skip
    own = sorted((row for row in rows if row["method"] == method), key=lambda row: row[axis])
    mean = np.array([_number(row) for row in own])
    bar = np.array([row["standard_error"] or 0.0 for row in own])
    x = [row[axis] for row in own]
    return sections.series(label, x, mean, lower=mean - bar, upper=mean + bar, mark=mark, role=role, dashed=dashed)


def _below(row: Row, level: float) -> bool:
    """Whether an error is two standard errors below a level."""
    return _number(row) + 2 * (row["standard_error"] or 0.0) < level


def _number(row: Row, key: str = "error") -> float:
    """An error, infinite where it is not known."""
    return float("inf") if row[key] is None else float(row[key])


def _shown(row: Row, prefix: str = "") -> str:
    """An error with its bar, in words."""
    error, bar = row[f"{prefix}error"], row[f"{prefix}standard_error"]
    if error is None:
        return "diverged"
    return f"{error:.3g}" + ("" if bar is None else f" ± {bar:.2g}")


STUDY = Study(
    name="beyond-kernels-fig2",
    title="Parities of parities: a three-layer ResNet, plain networks and kernels",
    reference="beyond_kernels, Fig. 2, App. A",
    settings=SETTINGS,
    outline=outline,
    parts=parts,
    conclude=conclude,
    claims=claims,
    page=page,
)
