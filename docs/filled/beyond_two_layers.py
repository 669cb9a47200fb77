"""The section on `beyond_two_layers`: Algorithm 2 on a three-layer target."""

from __future__ import annotations

from filled.committed import Result, all_of, fixed, only, spread, table, whole

LEARNERS = ("L1", "L2", "SGD", "two layers")


def three_layers(result: Result) -> dict[str, str]:
    """Errors against width and against samples, and the rates they were run with."""
    values, settings = result.values, result.settings
    widths, samples = values["widths"], values["samples"]

    def at(learner: str, m: int) -> dict[str, float]:
        return only(widths, learner=learner, m=m)

    lines, rates = [], []
    for m in settings["widths"]:
        errors = [at(learner, m) for learner in LEARNERS]
        places = [3 if own["standard_error"] is None or own["standard_error"] >= 0.003 else 4 for own in errors]
        cells = [spread(own["error"], own["standard_error"], p) for own, p in zip(errors, places, strict=True)]
        lines.append([f"m = {whole(m)}", *cells])
        rates.append([f"m = {whole(m)}", *(_rate(own["lr"]) for own in errors)])
    N = settings["curve_samples"]
    curves = [
        [f"{name}, m = {whole(m)}", *(fixed(only(samples, learner=learner, m=m, N=n)["error"], 3) for n in N)]
        for m in settings["curve_widths"]
        for learner, name in (("L1", "L₁"), ("L2", "L₂"))
    ]
    names = ["Algorithm 2, L₁", "Algorithm 2, L₂", "plain SGD, same budget", "two layers, Algorithm 1"]
    wide, pairs = settings["widths"][-1], [(row["m"], row["N"]) for row in all_of(samples, learner="L1")]
    smaller = sum(
        only(samples, learner="L2", m=m, N=n)["gap"] < only(samples, learner="L1", m=m, N=n)["gap"] for m, n in pairs
    )
    reached = {f"{name}_{row['m']}_{int(1 / row['share'])}": row for row in values["reached"] for name in ("L1", "L2")}
    found = {
        "widths": table([f"N = {settings['samples']}", *names], lines),
        "rates": table(["rate", *names], rates),
        "samples": table(["N =", *map(whole, N)], curves),
        "constant": fixed(values["best_constant"], 3),
        "ratio": fixed(at("L2", wide)["lr"] / at("L1", wide)["lr"], 0),
        "ratio_narrow": fixed(at("L2", 100)["lr"] / at("L1", 100)["lr"], 0),
        "fit_L1": fixed(at("L1", wide)["fit"], 3),
        "fit_L2": fixed(at("L2", wide)["fit"], 3),
        "fit_SGD": fixed(at("SGD", wide)["fit"], 3),
        "fit_L1_1000": fixed(at("L1", 1_000)["fit"], 3),
        "fit_SGD_1000": fixed(at("SGD", 1_000)["fit"], 3),
        "gap_smaller": str(smaller),
        "pairs": str(len(pairs)),
        "never": fixed(only(values["reached"], m=1_000, share=0.125)["L2_range"][0], 0),
    }
    for learner in ("L1", "L2", "two layers"):
        for end, m in (("first", settings["widths"][0]), ("last", wide)):
            found[f"{end}_{learner.replace(' ', '_')}"] = fixed(at(learner, m)["error"], 3)
    for name, row in reached.items():
        steps = row[name[:2]]
        if steps is not None:
            found[name] = whole(steps)
    return found


def _rate(rate: float) -> str:
    return f"{rate:.2g}"
