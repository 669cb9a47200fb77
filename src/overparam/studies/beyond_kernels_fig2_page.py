"""What the runs of `beyond-kernels-fig2` add up to, errors with their spread, and the page: the paper, and beside it what we found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from overparam.core import sections
from overparam.studies import beyond_kernels_fig2 as study
from overparam.studies.beyond_kernels_fig2 import ParitySettings, parts
from overparam.studies.study import Arrays, Found, Study, Values, mean_and_error, or_none

ROLES: dict[str, sections.Role] = {"3resnet": "true", "3layer": "random", "2layer": "observed"}
WORDS = {"3resnet": "three-layer ResNet", "3layer": "three layers", "2layer": "two layers"}
Row = Mapping[str, Any]


def conclude(settings: ParitySettings, found: Found) -> tuple[Values, Arrays]:
    """Every number of the page, plain enough for JSON, and the tables of all parts."""
    search = {(name, N): found[study.search_name(name, N)] for name in study.NETWORKS for N in settings.searched}
    sizes = [(m, N) for m, samples in zip(settings.widths, settings.samples, strict=True) for N in samples]
    seeds = {(name, m, N): found[study.seeds_name(name, m, N)] for name in study.NETWORKS for m, N in sizes}
    kernels = {cell: found[study.kernels_name(*cell)] for cell in settings.kernel_cells()}
    beta = {name: found[study.beta_name(name)] for name in study.NETWORKS}
    wide, N = settings.widths[0], settings.beta_samples
    beta_kernels = {one: found[study.kernels_name(wide, N, one)] for one in settings.betas}
    layers = {N: found[study.layers_name(N)] for N in settings.layer_wise_samples}
    errors = [
        {"m": m, "N": N, "method": name} | summary(seeds[name, m, N]) for m, N in sizes for name in study.NETWORKS
    ]
    for (m, N), own in kernels.items():
        errors += [{"m": m, "N": N, "method": name} | spread(one) for name, one in own.items()]
    values = {
        "plateau": settings.plateau,
        "errors": errors,
        "first": first_learnt(settings, errors),
        "beta": _betas(settings, beta, beta_kernels),
        "layer_wise": [{"N": N} | _layer_wise(table) for N, table in layers.items()],
        "coupling": {name: [float(v) for v in own] for name, own in found[study.COUPLING].items()},
        "search": [{"method": name, "N": N} | _chosen(table) for (name, N), table in search.items()],
        "milliseconds": {
            f"{name}, m = {m}": 1e3 * float(np.mean([seeds[name, m, N]["seconds_per_step"] for N in samples]))
            for m, samples in zip(settings.widths, settings.samples, strict=True)
            for name in study.NETWORKS
        },
    }
    kept: Mapping[str, Mapping[Any, Arrays]] = {
        "search": search, "seeds": seeds, "kernels": kernels, "beta": beta, "beta kernels": beta_kernels,
        "layer by layer": layers,
    }  # fmt: skip
    arrays = {
        f"{kind}/{' '.join(map(str, cell)) if isinstance(cell, tuple) else cell}/{key}": np.asarray(array)
        for kind, tables in kept.items()
        for cell, table in tables.items()
        for key, array in table.items()
    }
    return values, arrays


def spread(values: np.ndarray) -> dict[str, Any]:
    """Mean and standard error over seeds; None where they are not finite or there is one seed.

    >>> spread(np.array([1.0, 3.0]))
    {'error': 2.0, 'standard_error': 1.0, 'seeds': 2}
    """
    error, bar = mean_and_error(values)
    return {"error": or_none(error), "standard_error": bar, "seeds": len(values)}


def summary(table: Arrays, beta: float = 1.0) -> dict[str, Any]:
    """Of the settings that got all seeds: the one of least mean test error, as the paper shows it, and beside it
    `by_validation`, the test error of the one of least mean validation error; `lost`: how many runs diverged in all."""
    pairs = dict.fromkeys(zip(table["lr"].tolist(), table["decay"].tolist(), table["beta"].tolist(), strict=True))
    found = []
    for lr, decay, own_beta in pairs:
        if own_beta == beta:
            own = (table["lr"] == lr) & (table["decay"] == decay) & (table["beta"] == beta)
            row = spread(table["test"][own]) | {"lr": lr, "decay": decay, "fit": spread(table["fit"][own])["error"]}
            found.append((_number(row), float(table["validation"][own].mean()), row))
    shown = min(found, key=lambda one: one[0])[2]
    honest = min(found, key=lambda one: one[1])[2]
    lost = int(np.sum(~np.isfinite(table["test"][table["beta"] == beta])))
    return shown | {"by_validation": honest["error"], "by_validation_error": honest["standard_error"], "lost": lost}


def first_learnt(settings: ParitySettings, errors: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For every method: the least N with an error two standard errors below 8α² (G is being learnt), and below half."""
    found = []
    for m, method in dict.fromkeys((row["m"], row["method"]) for row in errors):
        own = sorted((row for row in errors if (row["m"], row["method"]) == (m, method)), key=lambda row: row["N"])
        found.append(
            {
                "m": m, "method": method, "most": own[-1]["N"], "last": own[-1]["error"],
                "some": _first(own, settings.plateau), "half": _first(own, settings.plateau / 2),
            }
        )  # fmt: skip
    return found


def _first(rows: Sequence[Mapping[str, Any]], level: float) -> int | None:
    """The first N whose error is two standard errors below a level, one error bar being known at least.

    >>> _first([{"N": 5, "error": 0.9, "standard_error": 0.1}, {"N": 9, "error": 0.7, "standard_error": 0.1}], 1.0)
    9
    """
    bars = [row["standard_error"] for row in rows if row["standard_error"] is not None]
    for row in rows:
        bar = row["standard_error"] if row["standard_error"] is not None else max(bars, default=0.0)
        if row["error"] is not None and row["error"] + 2 * bar < level:
            return row["N"]
    return None


def _betas(
    settings: ParitySettings, trained: Mapping[str, Arrays], kernels: Mapping[float, Arrays]
) -> list[dict[str, Any]]:
    rows = [
        {"beta": beta, "method": name} | summary(table, beta)
        for name, table in trained.items()
        for beta in settings.betas
    ]
    for beta, found in kernels.items():
        rows += [{"beta": beta, "method": name} | spread(own) for name, own in found.items()]
    return rows


def _layer_wise(table: Arrays) -> dict[str, Any]:
    first = spread(table["first_test"][: len(np.unique(table["seed"]))])
    return summary(table) | {"first_error": first["error"], "first_standard_error": first["standard_error"]}


def _chosen(table: Arrays) -> dict[str, Any]:
    """The best of a search, by validation; how many diverged; whether it sits at an end of the grid."""
    score = np.where(np.isfinite(table["validation"]), table["validation"], np.inf)
    i = int(np.argmin(score))
    lr, decay = float(table["lr"][i]), float(table["decay"][i])
    ends = [
        word
        for word, value, grid in (("rate", lr, table["lr"]), ("decay", decay, table["decay"]))
        if value in (grid.min(), grid.max())
    ]
    return {"lr": lr, "decay": decay, "test": float(table["test"][i]), "at_end": ends, "runs": len(score)}


def page(settings: ParitySettings, values: Values, arrays: Arrays) -> tuple[sections.Section, ...]:
    """The page of the study: what the paper says and what was found, then what it rests on."""
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
    kernels = {name: row for name, row in own.items() if name not in study.NETWORKS}
    least = min(kernels, key=lambda name: _number(kernels[name]))
    nets = ", ".join(f"{WORDS[name]} {_shown(own[name])}" for name in study.NETWORKS)
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
    columns = {
        "N": "N", "first_error": "out₁ alone", "first_standard_error": "± one s.e.", "error": "then V",
        "standard_error": "± one s.e.", "by_validation": "chosen by validation", "lr": "rate of V", "decay": "decay of V",
    }  # fmt: skip
    text = sections.Text(
        "W is trained first, out₁ alone against H, with the best rate and decay of two layers; then V, with W fixed, at "
        "half of the ResNet's grid. Each gets all epochs."
    )
    return sections.Section("Layer by layer", (text, sections.table(columns, values["layer_wise"], missing="—")))


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
        drawn = _curves(rows, "N", "", " (NTK)", " (last)")
        house = [row for row in values["errors"] if row["m"] is None and row["N"] in samples]
        tried = sorted({row["N"] for row in house})
        best = [min((row for row in house if row["N"] == N), key=_number) | {"method": "best"} for N in tried]
        drawn.append(_curve("best other kernel", best, "best", "N", role="muted"))
        words = (
            "Lines: hidden layers trained by SGD, bands of one standard error over seeds. Dashed: the tangent kernel "
            "of the finite network. Points: its last layer alone. Both by exact ridge regression."
        )
        blocks.append(_figure(values, f"Panel (a): error against N, width {m}", words, "N", drawn))
        blocks.append(_errors(values, m, samples))
    blocks.append(_first_table(values))
    return sections.Section("Error against samples", tuple(blocks))


def _figure(values: Values, title: str, words: str, axis: str, drawn: Sequence[sections.Series]) -> sections.Figure:
    """Errors on logarithmic axes, and the error of learning F alone."""
    alone = sections.Line("F alone", y=values["plateau"])
    return sections.Figure(title, words, axis, "E‖H − out‖²", tuple(drawn), "log", "log", (alone,))


def _first_table(values: Values) -> sections.Table:
    columns = {"method": "method", "m": "m"}
    columns |= {"some": "first N two s.e. below F alone", "half": "first N two s.e. below half of that"}
    rows = [
        row | {k: f"not by {row['most']}" if row[k] is None else row[k] for k in ("some", "half")}
        for row in values["first"]
    ]
    words = "The number of rows at which each method first learns some of G, and half of it."
    return sections.table(columns, rows, words, missing="—")


def _errors(values: Values, m: int, samples: Sequence[int]) -> sections.Table:
    """Errors of all methods at a width, a column for each N."""
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
    columns = {
        "method": "method", "N": "N", "lr": "rate", "decay": "decay", "test": "test error", "runs": "runs",
        "at_end": "at an end of the grid",
    }  # fmt: skip
    rows = [row | {"at_end": ", ".join(row["at_end"]) or "no"} for row in values["search"]]
    search = sections.table(columns, rows, "The best of each search, by validation error.")
    columns = {
        "method": "method", "m": "m", "N": "N", "lr": "rate", "decay": "decay", "error": "error",
        "by_validation": "chosen by validation", "fit": "training error", "seeds": "seeds", "lost": "diverged",
    }  # fmt: skip
    trained, said = [row for row in values["errors"] if "lr" in row], "What the curves show. Diverged: runs of all "
    return search, sections.table(columns, trained, f"{said}settings that got all seeds.", missing="—")


def _against_beta(settings: ParitySettings, values: Values) -> sections.Section:
    """Panel (c)."""
    rows, m = values["beta"], settings.widths[0]
    words = f"H = βF + αG(F), N = {settings.beta_samples}, width {m}; rates and decays searched for every β."
    figure = _figure(values, "Panel (c): error against β", words, "β", _curves(rows, "beta", "", " (NTK)"))
    told, under = [], []
    for beta in settings.betas:
        own = {row["method"]: row for row in rows if row["beta"] == beta}
        nets = ", ".join(f"{WORDS[name]} {_shown(own[name])}" for name in study.NETWORKS)
        least = min(_number(row) for name, row in own.items() if name not in study.NETWORKS)
        told.append(f"β = {beta:g}: {nets}, best kernel {least:.3g}")
        under += [f"{beta:g}"] if _below(own["3resnet"], values["plateau"]) else []
    said = f"below F alone at β = {', '.join(under)}" if under else "not below F alone at any β"
    text = sections.Text(f"{'; '.join(told)}. The ResNet is {said}.{_twice(settings, values)}")
    return sections.Section("Panel (c): how strong F is", (figure, text))


def _twice(settings: ParitySettings, values: Values) -> str:
    """Why panels (a) and (c) have two numbers for one cell, where they share one."""
    m, N = settings.widths[0], settings.beta_samples
    a = [row for row in values["errors"] if (row["m"], row["N"], row["method"]) == (m, N, "3resnet")]
    c = [row for row in values["beta"] if (row["beta"], row["method"]) == (1.0, "3resnet")]
    if not a or not c:
        return ""
    return (
        f" At β = 1 panel (a) has {_shown(a[0])} for the ResNet at the same width and N: rows, steps and grid are the same, but (a) "
        f"repeats its rows to {max(settings.samples[0])} and (c) does not, so that batches come in another order, and each "
        f"panel keeps what its own search with one seed found best: rate {a[0]['lr']:g} and decay {a[0]['decay']:g} in (a), "
        f"{c[0]['lr']:g} and {c[0]['decay']:g} in (c)."
    )


def _curves(rows: Sequence[Row], axis: str, *kinds: str) -> list[sections.Series]:
    """Of every network: SGD on its hidden layers (""), its tangent kernel " (NTK)", its last layer alone " (last)"."""
    return [
        _curve(f"{WORDS[name]}{kind}", rows, f"{name}{kind}", axis, role=ROLES[name], dashed=kind == " (NTK)",
               mark="points" if kind == " (last)" else "line")
        for kind in kinds for name in study.NETWORKS
    ]  # fmt: skip


def _curve(
    label: str, rows: Sequence[Row], method: str, axis: str, *, role: sections.Role, mark: sections.Mark = "line",
    dashed: bool = False,
) -> sections.Series:  # fmt: skip
    own = sorted((row for row in rows if row["method"] == method), key=lambda row: row[axis])
    x, spread = [row[axis] for row in own], [row["standard_error"] or 0.0 for row in own]
    return sections.series(label, x, list(map(_number, own)), spread=spread, mark=mark, role=role, dashed=dashed)


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
    "beyond-kernels-fig2", "Parities of parities: a three-layer ResNet, plain networks and kernels",
    "beyond_kernels, Fig. 2, App. A", study.SETTINGS, study.outline, parts, conclude, claims, page,
)  # fmt: skip
