"""The verdict of `op.analyze` on twenty real tables beside a random forest's cross-validated error; writes docs/verdicts.md.

    OVERPARAM_DATA=… python benchmarks/verdicts.py

The remarks under the table were written by hand after looking at each set; `--check` fails where a set
needs one (verdict and forest more than five points apart, or read differently) and has none.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import overparam as op

PAGE = Path(__file__).parent.parent / "docs" / "verdicts.md"
APART = 0.05

SETS: dict[str, str] = {
    "banknote-authentication": "easy, four smooth features, repeated rows",
    "breast-cancer-wisc-diag": "easy, well known",
    "synthetic-control": "easy, time series, six classes",
    "zoo": "easy and tiny, seven classes, the smallest of 4 rows",
    "tic-tac-toe": "discrete: every end position of the game",
    "chess-krvkp": "discrete: a rule of nested conditions",
    "monks-2": "discrete: 'exactly two of six attributes have their first value'",
    "flags": "many irrelevant and discrete features, eight classes",
    "titanic": "three discrete features: few different rows, most of them contradictory",
    "led7digit": "noisy by construction (each of seven bits flipped with probability 10%), repeated rows",
    "waveform": "noisy by construction (Bayes error about 14%), 5,000 rows",
    "wine-quality-red": "graded by people, neighbouring grades overlap, repeated rows",
    "planning": "hard: perhaps nothing to learn",
    "fertility": "hard, 12 rows in the smaller class",
    "post-operative": "hard, tiny, a class of one row",
    "seismic-bumps": "imbalanced, 6.6% in the smaller class",
    "hypothyroid": "imbalanced, decided by thresholds on single features",
    "leaf": "30 classes of about 11 rows",
    "primary-tumor": "21 classes, some of one row, repeated rows",
    "hill-valley": "the label is the sign of a bump on a noisy line; wild scales",
}
"""Chosen from the index of the tables, before any was analysed: easy, hard, noisy, imbalanced, many classes, tiny,
repeated rows. The rules of the verdict were then revised on what they showed."""

FRESH = (
    "horse-colic",
    "ilpd-indian-liver",
    "image-segmentation",
    "monks-3",
    "pittsburg-bridges-type",
    "qsar-biodegradation",
    "robot-failure-lp4",
    "robot-failure-lp5",
    "spect",
    "teaching",
    "yeast",
)
"""Tables whose verdicts nobody had seen when the rules were fixed; looked at once."""

REMARKS: dict[str, str] = {
    "monks-2": "Both fail, and for one reason. The label says whether exactly two of six attributes have their first value, so "
    "the nearest rows (one attribute changed) have different labels 66% of the time, where random pairs do 44%: fits that trust "
    "near rows are worse than guessing (the limit trained to the end 80% wrong, the forest 52%), and the best ridge ends at "
    "guessing. A support vector machine with a quadratic kernel gets every row right in cross-validation. The verdict says that the labels are not "
    "random and that another kind of model may learn them.",
    "flags": "48 features for 194 rows in eight classes, two of them of 4 rows; the landmass, the language and the area say most, "
    "and the colours of the flag little. The forest chooses among features, the kernel weighs all alike: on the ten features that "
    "a forest finds important (chosen within each fold) its error falls from 51% to 41%. 'In part' is true of both.",
    "hypothyroid": "Both beat guessing, but the label was made by thresholds on a few hormones: a single tree of depth 4 is 0.8% "
    "wrong. A smooth function of 33 standardised features, most of them yes or no, cannot cut so sharply; ranks in place "
    "of the skewed values help it little (3.6%). 'In part' is true of a wide network; for tables of this kind, use trees.",
    "primary-tumor": "Both learn it in part, within two standard errors of each other (2.7 points each). Part of the difference "
    "is that five folds fit on a fifth fewer rows, in 21 classes of which eight have fewer than 7 rows: with the forest's own folds the limit is 52.5% "
    "wrong instead of 50.1%.",
    "wine-quality-red": "They agree, and both are flattered: 460 of the rows repeat another. On the rows that no other equals the "
    "limit is 41.9% wrong; with equal rows kept in one fold the forest is 38.7% wrong instead of 30.3%. The verdict opens with "
    "the honest number.",
    "robot-failure-lp5": "Forces and torques over time, with tails so heavy (median kurtosis 29) that standardising leaves most rows in one heap; with signed logarithms of the values the limit is 29.9% wrong instead of 45.7%, beside the forest's 26.8%. 'In part' is true of both.",
    "spect": "Two readings of one thing: 15.7% and 19.1%, with a standard error of two points each, beside 20.6% for guessing. With the forest's own folds the limit is 16.9% wrong; other seeds move the forest from 18.0% to 19.1%.",
    "teaching": "Both numbers are the same and both are flattered: 86 of 151 rows repeat another. On the 65 that do not the limit is 70.8% wrong, worse than guessing, and the verdict says so.",
    "hill-valley": "The rows are curves at levels from 1 to 100,000, and the label is the sign of a small bump on them. A tree "
    "splits on one raw value, which tells the level alone; a smooth function of all hundred values can take differences. Each row "
    "divided by its mean, the forest is 1.2% wrong: the set asks for scaled rows, and neither number is the last word. The "
    "verdict adds that the limit's low error comes after more steps than anyone takes.",
}


def forest_error(data: Any) -> float:
    """Five folds, stratified where the classes allow it; 500 trees, seed 0."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

    codes = np.asarray(data.codes)
    enough = np.bincount(codes).min() >= 5
    folds = (StratifiedKFold if enough else KFold)(5, shuffle=True, random_state=0)
    forest = RandomForestClassifier(500, n_jobs=2, random_state=0)
    return float(np.mean(cross_val_predict(forest, np.asarray(data.X), codes, cv=folds) != codes))


def reading(error: float, guess: float) -> str:
    """What an error says beside guessing, in the verdict's own words."""
    share = error / guess
    return "learned" if share < 0.35 else "in part" if share < 0.85 else "little"


def look(name: str) -> dict[str, Any]:
    data = op.load(f"uci/{name}")
    result = op.analyze(data)
    learn = result.learnability
    row = {
        "set": name,
        "n": result.n,
        "d": result.d,
        "classes": len(result.classes),
        "guess": learn.baseline_error,
        "left_out": learn.left_out_error,
        "end": learn.left_out_error_end,
        "unrepeated": result.problems.left_out_error_unrepeated,
        "alone": result.problems.counts["unrepeated_rows"],
        "forest": forest_error(data),
        "ratio": learn.simpler_than_shuffled,
        "tone": result.verdict.tone,
        "verdict": result.verdict.sentences,
    }
    row["apart"] = abs(row["left_out"] - row["forest"]) > APART or reading(row["left_out"], row["guess"]) != reading(
        row["forest"], row["guess"]
    )
    return row


def table(rows: list[dict[str, Any]]) -> list[str]:
    head = (
        "set",
        "n",
        "d",
        "classes",
        "guessing",
        "leave-one-out",
        "forest",
        "simpler than shuffled",
        "tone",
        "verdict",
    )
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for r in rows:
        repeats = "" if r["unrepeated"] is None else f" ({r['unrepeated']:.1%} on {r['alone']:,})"
        cells = (
            r["set"],
            f"{r['n']:,}",
            r["d"],
            r["classes"],
            f"{r['guess']:.1%}",
            f"{r['left_out']:.1%}{repeats}",
            f"{r['forest']:.1%}" + (" *" if r["apart"] else ""),
            f"{r['ratio']:.2f}",
            r["tone"],
            r["verdict"][0].split(":")[0],
        )
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return lines


def counted(rows: list[dict[str, Any]]) -> str:
    kernel = sum(r["left_out"] < r["forest"] - 0.005 for r in rows)
    forest = sum(r["forest"] < r["left_out"] - 0.005 for r in rows)
    both = np.corrcoef([r["left_out"] for r in rows], [r["forest"] for r in rows])[0, 1]
    return (
        f"The network's limit is better by half a point or more on {kernel} of {len(rows)} sets, the forest on {forest}; "
        f"over the sets the two errors correlate at {both:.2f}."
    )


def page(rows: list[dict[str, Any]], fresh: list[dict[str, Any]]) -> str:
    lines = [
        "# Twenty verdicts",
        "",
        "`op.analyze` on twenty real tables, and beside it the five-fold cross-validated error of a random forest "
        "(scikit-learn, 500 trees), a model of another kind that no theory here knows of. Guessing is the error of always "
        "naming the commonest class. Leave-one-out is the error the verdict is built on; in brackets, where rows repeat, the "
        "same on the rows that no other equals. The ratio is the complexity of the same labels shuffled over that of the "
        "labels. `python benchmarks/verdicts.py` writes this page.",
        "",
        "The twenty were chosen from the index of the tables before any was analysed. The rules and words of the verdict were "
        "then revised on what these and some thirty other tables showed, so this page shows that the verdicts read true "
        "here; it is no independent test. The second table is: its sets were looked at once, with the rules fixed.",
        "",
        *table(rows),
        "",
        f"An asterisk marks sets where the two are more than {APART:.0%} apart or read differently (error over guessing below "
        f"35%, below 85%, or more). {counted(rows)}",
        "",
        "## Where they disagree",
        "",
    ]
    noted = [r for r in rows if r["apart"] or r["set"] in REMARKS]
    lines += [f"- **{r['set']}**. {REMARKS.get(r['set'], 'Not explained yet.')}" for r in noted]
    lines += [
        "",
        f"## {len(fresh)} more, looked at once",
        "",
        *table(fresh),
        "",
        counted(fresh),
        "",
    ]
    noted = [r for r in fresh if r["apart"] or r["set"] in REMARKS]
    lines += [f"- **{r['set']}**. {REMARKS.get(r['set'], 'Not explained yet.')}" for r in noted]
    lines += ["", "## Which sets, and why", ""]
    lines += [f"- {name}: {why}" for name, why in SETS.items()]
    lines += ["", "## The verdicts in full", ""]
    for r in (*rows, *fresh):
        lines += [f"**{r['set']}** ({r['tone']})", "", " ".join(r["verdict"]), ""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a disagreement has no remark")
    parser.add_argument("--only", nargs="*", help="these sets; the page is not written")
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in asked.only or (*SETS, *FRESH):
        rows.append(look(name))
        r = rows[-1]
        print(
            f"{name:26s} n={r['n']:5d} guess {r['guess']:.3f} left out {r['left_out']:.3f} (end {r['end']:.3f}) "
            f"forest {r['forest']:.3f} ratio {r['ratio']:.2f} {r['tone']}{' APART' if r['apart'] else ''}",
            flush=True,
        )
    if not asked.only:
        PAGE.write_text(page(rows[: len(SETS)], rows[len(SETS) :]), encoding="utf-8")
    missing = [r["set"] for r in rows if r["apart"] and r["set"] not in REMARKS]
    if missing:
        print("no remark yet: " + ", ".join(missing))
    return 1 if asked.check and missing else 0


if __name__ == "__main__":
    sys.exit(main())
