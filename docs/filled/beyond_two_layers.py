"""The sections on `beyond_two_layers`: Algorithm 2 on a three-layer target, and the lemmas inside the theorems."""

from __future__ import annotations

from typing import Any

from filled.committed import Result, all_of, digits, fixed, only, percent, spread, table, whole

LEARNERS = ("L1", "L2", "SGD", "two layers")


def three_layers(result: Result) -> dict[str, str]:
    """Errors against width and against samples."""
    values, settings = result.values, result.settings
    widths, samples = values["widths"], values["samples"]

    def at(learner: str, m: int) -> dict[str, float]:
        return only(widths, learner=learner, m=m)

    lines = []
    for m in settings["widths"]:
        errors = [at(learner, m) for learner in LEARNERS]
        places = [3 if own["standard_error"] is None or own["standard_error"] >= 0.003 else 4 for own in errors]
        cells = [spread(own["error"], own["standard_error"], p) for own, p in zip(errors, places, strict=True)]
        lines.append([f"m = {whole(m)}", *cells])
    N = settings["curve_samples"]
    curves = [
        [f"{name}, m = {whole(m)}", *(fixed(only(samples, learner=learner, m=m, N=n)["error"], 3) for n in N)]
        for m in settings["curve_widths"]
        for learner, name in (("L1", "L₁"), ("L2", "L₂"))
    ]
    names = ["Algorithm 2, L₁", "Algorithm 2, L₂", "plain SGD, same budget", "two layers, Algorithm 1"]
    wide, pairs = settings["widths"][-1], [(row["m"], row["N"]) for row in all_of(samples, learner="L1")]
    both = [[only(samples, learner=learner, m=m, N=n) for learner in ("L1", "L2")] for m, n in pairs]
    reached = {f"{name}_{row['m']}_{int(1 / row['share'])}": row for row in values["reached"] for name in ("L1", "L2")}
    found = {
        "widths": table([f"N = {settings['samples']}", *names], lines),
        "samples": table(["N =", *map(whole, N)], curves),
        "constant": fixed(values["best_constant"], 3),
        "gap_smaller": str(sum(second["gap"] < first["gap"] for first, second in both)),
        "fit_larger": str(sum(second["fit"] > first["fit"] for first, second in both)),
        "pairs": str(len(pairs)),
        "never": fixed(only(values["reached"], m=1_000, share=0.125)["L2_range"][0], 0),
    }
    for learner in ("L1", "L2", "two layers"):
        for end, m in (("first", settings["widths"][0]), ("last", wide)):
            found[f"{end}_{learner.replace(' ', '_')}"] = fixed(at(learner, m)["error"], 3)
    for learner in ("L1", "L2"):
        trend = values["trends"][learner]
        found[f"slope_{learner}"] = fixed(trend["slope"], 2)
        found[f"slope_error_{learner}"] = fixed(trend["slope_error"], 2)
    for name, row in reached.items():
        steps = row[name[:2]]
        if steps is not None:
            found[name] = whole(steps)
    return found


def alike(result: Result) -> dict[str, str]:
    """Every learner at its best rate, which it chose at every m from one list."""
    tries = result.values["tries"]
    widths = sorted({one["m"] for one in tries})
    lines, best = [], {}
    for m in widths:
        for learner in LEARNERS:
            own = all_of(tries, learner=learner, m=m)
            best[learner, m] = min(own, key=lambda one: one["risk"])
        cells = [f"{fixed(best[v, m]['risk'], 3)} ({best[v, m]['rate']:g})" for v in LEARNERS]
        lines.append([f"m = {whole(m)}", *cells])
    names = ["Algorithm 2, L₁", "Algorithm 2, L₂", "plain SGD", "two layers, Algorithm 1"]
    return {
        "best": table(["loss on noisy validation rows (m·η)", *names], lines),
        "noise": fixed(result.values["label_noise_loss"], 3),
    }


COUNTED = ("constant", "holds", "of")
LEMMAS = {
    "Rademacher complexity of the two-layer learner": ("two", COUNTED),
    "Rademacher complexity of the bilinear part": ("bilinear", COUNTED[:1]),
    "Rademacher complexity of three layers, W′": ("three", COUNTED),
    "convergence of two layers: one step": ("step", COUNTED[1:]),
    "convergence of two layers: all steps": ("all", COUNTED),
    "convergence of two layers: gradients apart": ("apart", COUNTED),
    "convergence of three layers: the chain of bounds": ("chain", COUNTED[1:]),
    "convergence of three layers: terms of the chain": ("terms", COUNTED),
    "convergence of three layers: the regularisers": ("regularisers", COUNTED[:1]),
}
"""The laws of the table: how the names of their numbers open, and which of these the pages tell."""


def lemmas(result: Result) -> dict[str, str]:
    """What was built and measured of the lemmas, over widths."""
    values, settings = result.values, result.settings
    gaps, m1 = values["intervals"], settings["carriers"][-1]
    across, tilted = (only(values["information"], m1=m1, direction=name) for name in ("across", "tilted"))
    wide, small = (only(values["existence"], tau=tau) for tau in (0.5, 0.01))
    m = settings["built"][-1]
    built, fitted = (only(values["runs"], m=m, comparator=name) for name in ("built", "fitted"))
    laws = {row["law"]: row for rows in values["rows"].values() for row in rows}
    lines, found = [], {}
    for name, (key, told) in LEMMAS.items():
        row = laws[name]
        powers = [
            ""
            if row["exponents"][axis] is None
            else f"{spread(row['exponents'][axis], row['errors'][axis], 2)}{_stated(row, axis)}"
            for axis in ("omega", "m", "n")
        ]
        where = row["reference"].removeprefix("beyond_two_layers, ").split(", Eq")[0]
        lines.append([name, where, *powers, digits(row["constant"], 2), f"{row['holds']} of {row['audits']}"])
        texts = {"constant": digits(row["constant"], 2), "holds": str(row["holds"]), "of": str(row["audits"])}
        found |= {f"{key}_{what}": texts[what] for what in told}
    chain, terms = values["chain"], laws["convergence of three layers: terms of the chain"]
    widest = chain[-1]
    return found | {
        "laws": table(["quantity", "statement", "τ_w", "m", "n", "constant", "holds"], lines),
        "minutes": fixed(result.minutes, 0),
        "piece": fixed(gaps["longest"], 2),
        "moves": fixed(gaps["slope"], 1),
        "span": fixed(gaps["span"], 2),
        "printed": fixed(gaps["printed"], 3),
        "constant": fixed(across["constant"], 1),
        "left_m": fixed(values["remainder"]["across"][0], 2),
        "left_m_error": fixed(values["remainder"]["across"][1], 2),
        "left": fixed(across["R"], 2),
        "tilted_m": fixed(values["remainder"]["tilted"][0], 2),
        "tilted_m_error": fixed(values["remainder"]["tilted"][1], 2),
        "tilted": fixed(tilted["R"], 1),
        "variance": fixed(across["z2"], 2),
        "variance_error": fixed(across["z2_error"], 2),
        "fourth": fixed(across["z4"], 2),
        "fourth_error": fixed(across["z4_error"], 2),
        "with_rest": fixed(across["zB"], 3),
        "with_rest_error": fixed(across["zB_error"], 3),
        "beyond": whole(float(f"{(across['R'] / across['deviation']) ** 2:.2g}")),
        "error_m": fixed(wide["slope"], 2),
        "error_m_error": fixed(wide["slope_error"], 2),
        "error": fixed(wide["rows"][-1]["error"], 2),
        "noisy": fixed(wide["rows"][-1]["noisy"], 2),
        "size": fixed(wide["size"], 2),
        "needed": _power_of_ten(wide["needed"]),
        "needed_square": _power_of_ten(wide["needed_square"]),
        "stretch": fixed(wide["stretch"], 0),
        "small_m": fixed(small["slope"], 2),
        "small_m_error": fixed(small["slope_error"], 2),
        "fell": str(sum(row["fell"] for row in chain)),
        "fell_of": str(sum(row["of"] for row in chain)),
        "fall_step": fixed(widest["fall by the signed step"], 2),
        "fall_scale": fixed(widest["fall by a smaller λ"], 2),
        "share": percent(widest["coupling"] / (widest["coupling"] + widest["cross terms"] + widest["bend"]), 0),
        "terms_m": fixed(terms["exponents"]["m"], 2),
        "terms_m_error": fixed(terms["errors"]["m"], 2),
        "small_needed": _power_of_ten(small["needed"]),
        "W_row": fixed(wide["rows"][-1]["W_row"], 1),
        "V_row": whole(float(f"{wide['rows'][-1]['V_row']:.2g}")),
        "V_row_first": whole(float(f"{wide['rows'][0]['V_row']:.2g}")),
        "mean_held": digits(built["L_G"], 2),
        "built_W": digits(built["W̃"], 2),
        "built_coupling": digits(built["coupling"], 2),
        "built_distance": digits(built["distance"], 2),
        "built_gradients": digits(built["gradients"], 2),
        "fitted_coupling": digits(fitted["coupling"], 2),
        "fitted_distance": digits(fitted["distance"], 2),
        "coupling_m": fixed(values["run_powers"]["built, coupling"], 2),
    }


def _stated(row: Any, axis: str) -> str:
    stated = row["stated"].get(axis)
    if axis == "m" and row["moment"] == "adversarial" and row["stated"]["omega"] is None:
        return ""  # radii change with m, and without a power of theirs the bound's cannot be told at one radius
    return "" if stated is None else f" ({round(stated, 2):g})".replace("-", "−")


def _power_of_ten(value: float) -> str:
    return f"{value:.1e}".replace("e+0", "e").replace("e+", "e")
