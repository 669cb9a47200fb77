"""Data that mislead, each with the verdict it must get, and labels by coin toss that must never look learnable; writes docs/traps.md.

    OVERPARAM_DATA=… python benchmarks/traps.py             the traps
    OVERPARAM_DATA=… python benchmarks/traps.py --coins 1000    and so many draws of labels by coin toss over ten shapes of data

The two traps made of real tables are left out where `OVERPARAM_DATA` names no folder.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from record import processor, save
from trap_data import (
    Made,
    all_equal,
    antipodal,
    clusters,
    coin,
    constant_columns,
    contradictory,
    copied_target,
    copies_of_signal,
    dated,
    dense_column,
    discrete,
    encoded,
    flat_target,
    frames,
    grey_noise,
    heaps,
    heavy_tails,
    jittered_minority,
    leaked,
    made_up,
    many_classes,
    nearly_leaked,
    noise_target,
    noisy,
    normal_rows,
    one_column,
    one_column_of_many,
    one_row_ten_times,
    oversampled,
    parity,
    persons,
    persons_target,
    rare,
    real_table,
    recordings,
    short_windows,
    sorted_id,
    straight_target,
    subjects,
    tested_on_itself,
    three_uneven,
    tied_groups,
    tiny,
    twice,
    two_rows,
    unique_words,
    walks,
    wide_noise,
    widely_jittered,
    wild_scales,
    windows,
    written_again,
    written_twice,
)
from trap_files import (
    before_and_after,
    chosen_columns,
    drawn_again,
    drifting,
    market,
    missing_date,
    mixed_up,
    moved_images,
    other_units,
    plane,
    reasons,
    rule_along_series,
    sessions,
    settings,
    sorted_curve,
    spectra,
    spirals,
    tested_on_jittered,
    two_laboratories,
    users,
    wide_persons,
    word_counts,
)

import overparam as op
from overparam.analysis import Analysis
from overparam.analysis.data_estimate import error_estimate
from overparam.analysis.data_fit import fit_rows
from overparam.analysis.data_held import held_rows
from overparam.analysis.data_rows import prepare_rows
from overparam.analysis.data_verdict import opening
from overparam.frame import Work

PAGE = Path(__file__).parent.parent / "docs" / "traps.md"
Check = Callable[[Analysis], str]
"""What is wrong with a verdict, or nothing."""


@dataclass(frozen=True)
class Trap:
    """Data that mislead."""

    name: str
    make: Callable[[np.random.Generator], Made]
    must: str
    check: Check
    real: bool = False


def not_green(a: Analysis) -> str:
    return "the verdict is green" if a.verdict.tone == "good" else ""


def green(a: Analysis) -> str:
    return "" if a.verdict.tone == "good" else f"the verdict is {a.verdict.tone}"


def has_copies(a: Analysis) -> str:
    return "" if a.copies > 0 else "no copies were found"


def no_copies(a: Analysis) -> str:
    return f"{a.copies} copies were found" if a.copies else ""


def has_windows(a: Analysis) -> str:
    return "" if a.copy_groups.verdict == "windows" else "no windows were found"


def names_leak(column: str) -> Check:
    return lambda a: "" if any(column in name for name in a.leak) else f"{column} is not named as a leak"


def tells(kind: str) -> Check:
    return lambda a: "" if any(note.kind == kind for note in a.columns) else f"no column is told of as {kind!r}"


def says(*words: str) -> Check:
    def check(a: Analysis) -> str:
        told = " ".join(a.verdict.sentences)
        return "" if any(word in told for word in words) else f"the verdict does not say {' or '.join(words)!r}"

    return check


def between(low: float, high: float) -> Check:
    return lambda a: "" if low <= a.error.value <= high else f"the error is {a.error.value:.3f}, not in {low} to {high}"


def judged_by_balance(a: Analysis) -> str:
    return "" if a.error.balanced is not None and a.error.auc is not None else "balanced error or AUC is missing"


def doubts(kind: Any) -> Check:
    return lambda a: "" if a.error.doubt(kind) is not None else f"there is no doubt of the kind {kind!r}"


def both(*checks: Check) -> Check:
    return lambda a: "; ".join(filter(None, (check(a) for check in checks)))


TRAPS = (
    Trap("coin labels, every row written twice", twice(0.0), "not green; copies found", both(not_green, has_copies)),
    *(
        Trap(f"coin labels, copies jittered by {jitter:g}", twice(jitter), "not green; copies found", both(not_green, has_copies))
        for jitter in (1e-6, 1e-4, 1e-3, 1e-2)
    ),
    Trap("coin labels, copies that differ in one column", one_column, "not green; copies found", both(not_green, has_copies)),
    Trap("coin labels, minority oversampled five times", oversampled, "not green; copies found", both(not_green, has_copies)),
    Trap("a real rule, every row written twice", copies_of_signal, "the error of new rows", both(has_copies, between(0.15, 0.45))),
    Trap("few discrete columns, equal rows by chance", discrete, "no copies", no_copies),
    Trap("titanic", real_table("titanic"), "no copies; 20 to 24% wrong", both(no_copies, between(0.2, 0.24)), real=True),
    Trap("led7digit", real_table("led7digit"), "no copies; 25 to 33% wrong", both(no_copies, between(0.25, 0.33)), real=True),
    Trap("a column that is the label", leaked, "the column named; not green", both(names_leak("status"), not_green)),
    Trap("an id sorted by class", sorted_id, "the id and the order named; not green", both(tells("id"), tells("order"), not_green)),
    Trap("dates", dated, "the column of dates told of", tells("date")),
    Trap("1% positives, coin labels", rare(0.01), "not green; judged by balance", both(not_green, judged_by_balance)),
    Trap("9% positives, coin labels", rare(0.09), "not green; judged by balance", both(not_green, judged_by_balance)),
    Trap("a class of two rows", two_rows, "the small class told of", says("2 rows")),
    Trap("60% of labels redrawn", noisy, "not green", not_green),
    Trap("coin labels, 5 rows of 100 jittered copies", heaps(5, 100, 1e-2), "not green; copies found", both(not_green, has_copies)),
    Trap("coin labels, 20 rows of 30 jittered copies", heaps(20, 30, 1e-3), "not green; copies found", both(not_green, has_copies)),
    Trap("coin labels, 8 clusters of 40 rows", heaps(8, 40, 0.05), "not green", not_green),
    Trap("coin labels, minority with 25 jittered copies", jittered_minority, "not green; copies found", both(not_green, has_copies)),
    *(
        Trap(f"coin labels, every row again with another {kind}", written_again(kind), "not green; copies found", both(not_green, has_copies))
        for kind in ("date", "word", "number")
    ),
    Trap("windows that share 90%, a coin for 25 in turn", windows(2), "not green; windows named", both(not_green, has_windows, says("group="))),
    Trap("windows that share 50%, a coin for 25 in turn", windows(10), "not green; windows named", both(not_green, has_windows)),
    Trap("windows that share 75%, in random order", windows(5, mixed=True), "not green; windows named", both(not_green, has_windows)),
    Trap("windows of forty recordings, groups given", recordings, "green", green),
    Trap("a constant regression target", flat_target, "not green", not_green),
    Trap("ten copies of one row, mixed labels", one_row_ten_times, "not green", not_green),
    Trap("the parity of ten signs", parity, "not green", not_green),
    Trap("all rows equal", all_equal, "not green", not_green),
    Trap("fifty classes of two rows, coin labels", many_classes, "not green", not_green),
    Trap("Cauchy columns, coin labels", heavy_tails, "not green", not_green),
    Trap("every row twice, once with either label", contradictory, "not green", not_green),
    Trap("a rule in one column of 500, 100 rows", one_column_of_many, "not green", not_green),
    Trap("tested on training rows, coin labels", tested_on_itself, "not green; test rows named", both(not_green, says("test row"))),
    Trap("a column of unique words", unique_words, "told of as an id; not green", both(tells("id"), not_green)),
    Trap("98%, 1% and 1%, coin labels", three_uneven, "not green; judged by balance", both(not_green, judged_by_balance)),
    Trap("one dense column", dense_column, "no copies", no_copies),
    Trap("two clusters far apart", clusters, "green", green),
    Trap("every row and its opposite, coin labels", antipodal, "not green", not_green),
    Trap("grey noise as 8-bit images, coin labels", grey_noise, "not green", not_green),
    Trap("columns from 1e-9 to 1e9, a clean rule", wild_scales, "under 15% wrong", between(0.0, 0.15)),
    Trap("forty subjects of six rows, a coin for each, groups given", subjects, "not green", not_green),
    Trap("a target of pure noise", noise_target, "not green", not_green),
    Trap("a straight line", straight_target, "green", green),
    Trap("a target of noise, every row twice", copied_target, "not green; copies found", both(not_green, has_copies)),
    Trap("five constant columns and a rule in the sixth", constant_columns, "under 10% wrong", between(0.0, 0.1)),
    Trap("eight rows, labels in turn", tiny, "not green", not_green),
    Trap("a coin for each of 40 persons, rows in order", persons(False), "not green", not_green),
    Trap("a coin for each of 40 persons, rows in any order", persons(True), "not green", not_green),
    Trap("a coin for each of 40 persons, far from alike, rows in order", persons(False, 0.5), "not green; said", both(not_green, doubts("in order"))),
    Trap("a coin for each of 12 recordings, frames in any order", frames, "not green", not_green),
    *(
        Trap(f"coin labels, {columns} columns, copies jittered by {jitter:g}", widely_jittered(jitter, columns), "not green", not_green)
        for jitter, columns in ((0.15, 10), (0.3, 10), (0.3, 30))
    ),
    Trap("coin labels, rare rows made up between others", made_up, "not green; said", both(not_green, doubts("made up"))),
    Trap("a column that is the label in 97% of rows", nearly_leaked(1), "the column named; not green", both(names_leak("status"), not_green)),
    Trap("two columns that are the label in 97% of rows", nearly_leaked(2), "both named; not green", both(names_leak("status"), names_leak("closed"), not_green)),
    Trap("noise in windows of four columns, a coin for 20 in turn", short_windows, "not green; windows found", both(not_green, has_windows)),
    Trap("a coin for each of 40 persons, as wide as all rows, in any order", persons(True, 0.5), "not green; said", both(not_green, doubts("nearest"))),
    Trap("two equal classes of 30 rows, 400 columns of noise", wide_noise, "not green; 35 to 70% wrong", both(not_green, between(0.35, 0.7))),
    Trap("a random walk to predict from five others, in order", walks(False), "not green", not_green),
    Trap("a random walk to predict from five others, in any order", walks(True), "not green", not_green),
    Trap("a number for each of 40 persons, rows in any order", persons_target, "not green; 70% wrong or more", both(not_green, between(0.7, 2.0))),
    Trap("coin labels, four categories encoded by them", encoded, "all four named; not green", both(not_green, *(names_leak(f"shop{j}") for j in range(4)))),
    Trap("coin labels, copies in other groups of the user's", tied_groups, "not green; copies found", both(not_green, has_copies, between(0.35, 0.65))),
    Trap("forty users named by words, a coin for each", users, "not green; the column named", both(not_green, names_leak("user"))),
    Trap("a code of 24 values, each of one label", reasons, "not green; the column named", both(not_green, names_leak("reason"))),
    Trap("a date that rows of one label do not have", missing_date, "the column named; not green", both(not_green, names_leak("closed"))),
    Trap("a random walk twenty days later, from its indicators, in order", market, "not green; said", both(not_green, doubts("in order"))),
    Trap("spectra of windows that share 90%, a coin for 25 in turn", spectra, "not green; said", both(not_green, doubts("in order"))),
    Trap("columns that wander, with noise, a coin for 25 rows in turn", drifting, "not green; said", both(not_green, doubts("in order"))),
    Trap("a coin for each of 20 persons among each other's rows, in order", wide_persons(False), "not green; said", both(not_green, doubts("in order"))),
    Trap("a coin for each of 12 sessions a little apart, in order", sessions, "not green; said", both(not_green, doubts("in order"))),
    Trap("coin labels, images moved by a pixel", moved_images, "not green", not_green),
    Trap("coin labels, each row between two that are not there", mixed_up, "not green", not_green),
    Trap("coin labels, every row again in other units", other_units, "not green", not_green),
    Trap("coin labels, 400 draws from 120 rows", drawn_again, "not green; copies found", both(not_green, has_copies)),
    Trap("tested on training rows with a little noise, coin labels", tested_on_jittered, "not green; test rows named", both(not_green, says("test row"))),
    Trap("two spirals", spirals, "green", green),
    Trap("a clean rule, sorted by a column", plane("a column"), "green", green),
    Trap("a clean rule, sorted by class and another column", plane("class"), "green", green),
    Trap("a clean rule of 81 settings, each three times, in random order", settings(True), "green", green),
    Trap("the same settings one after the other", settings(False), "not green; said", both(not_green, doubts("in order"))),
    Trap("counts of words on two topics", word_counts, "green", green),
    Trap("a clean curve, sorted by a column", sorted_curve, "green", green),
    Trap("columns that wander, and a rule of each row alone", rule_along_series, "green", green),
    Trap("a coin for each of 20 persons among each other's rows, in any order", wide_persons(True), "cannot be seen: what it rests on said", says("takes rows to be independent")),
    Trap("coin labels, the 20 of 3,000 columns that go best with them", chosen_columns, "cannot be seen: what it rests on said", says("chosen, encoded or computed")),
    Trap("a coin that the difference of two columns tells", before_and_after, "cannot be seen: what it rests on said", says("chosen, encoded or computed")),
    Trap("two laboratories, one with all the cases", two_laboratories, "cannot be seen: runs of labels said", tells("order")),
)  # fmt: skip


def shapes(random: np.random.Generator) -> dict[str, np.ndarray]:
    """Ten shapes of data for labels by coin toss."""
    n = int(random.integers(40, 161))
    centres = random.normal(size=(4, 5)) * 5
    return {
        "normal, 5 columns": normal_rows(random, n),
        "normal, 60 columns": normal_rows(random, n, 60),
        "one column": normal_rows(random, n, 1),
        "two columns": random.uniform(size=(n, 2)),
        "discrete": random.integers(3, size=(n, 4)).astype(float),
        "signs": random.choice([-1.0, 1.0], size=(n, 8)),
        "clusters": centres[random.integers(4, size=n)] + random.normal(size=(n, 5)),
        "heavy tails": random.standard_t(1.5, size=(n, 6)),
        "a curve": np.stack([f(np.linspace(0, 6, n) + 0.1 * random.normal(size=n)) for f in (np.sin, np.cos, np.tanh)], axis=1),
        "8-bit noise": random.integers(256, size=(n, 36)).astype(float),
    }  # fmt: skip


def toss(draw: int) -> tuple[str, str, str, str]:
    """One draw of labels by coin toss: shape, how rows are copied, and the tone and words of the verdict's first sentence."""
    random = np.random.default_rng([draw, 77])
    name, X = list(shapes(random).items())[draw % 10]
    y = coin(random, len(X), float(random.choice([0.5, 0.5, 0.2])))
    how = ("alone", "twice", "jittered", "some three times", "heaps", "but for a column", "windows")[(draw // 10) % 7]
    if how in ("twice", "jittered"):
        X, y = written_twice(X, y, 0.0 if how == "twice" else 1e-3 * float(X.std()), random)
    elif how == "some three times":
        some = np.concatenate([np.arange(len(X)), np.repeat(random.permutation(len(X))[: len(X) // 3], 2)])
        X, y = X[some], y[some]
    elif how == "heaps":
        some = np.repeat(random.permutation(len(X))[:8], 25)
        X, y = X[some] + 1e-3 * float(X.std()) * random.normal(size=(200, X.shape[1])), y[some]
        y[:2] = ("yes", "no")
    elif how == "but for a column":
        again = np.column_stack([X, random.permutation(len(X)) / 7])
        X, y = np.vstack([np.column_stack([X, -np.arange(len(X)) / 7]), again]), np.concatenate([y, y])
    elif how == "windows":  # of one column as a series, a coin for ten windows in turn
        n = len(X) - 9
        X = np.lib.stride_tricks.sliding_window_view(X[:, 0], 10).copy()
        y = np.repeat(coin(random, n // 10 + 1), 10)[:n]
    rows, work = prepare_rows(op.load((X, y)), "auto", len(X), draw), Work()
    fitted = fit_rows(work, rows)
    held = held_rows(work, rows, fitted)
    tone, words = opening(rows, error_estimate(work, rows, fitted, held, None, None))
    return name, how, tone, words


def run_traps(chosen: Sequence[str] = ()) -> list[dict[str, Any]]:
    rows = []
    for place, trap in enumerate(TRAPS):
        if trap.real and not os.environ.get("OVERPARAM_DATA"):
            continue
        if chosen and not any(word in trap.name for word in chosen):
            continue
        X, y, options = trap.make(np.random.default_rng([place, 5]))
        start = time.perf_counter()
        try:
            found = op.analyze(X, y, kinds=False, **options)
            wrong = trap.check(found)
            row = {"tone": found.verdict.tone, "error": found.error.value, "copies": found.copies}
            row["verdict"] = found.verdict.sentences[0]
        except ValueError as error:  # one clear line is an answer too, and never a green one
            refused = trap.must.startswith("not green") and ";" not in trap.must
            wrong = "" if refused else f"refused: {error}"
            row = {"tone": "refused", "error": None, "copies": None, "verdict": str(error)}
        rows.append(
            {"trap": trap.name, "must": trap.must, "wrong": wrong, **row, "seconds": time.perf_counter() - start}
        )
        sys.stderr.write(f"{'ok ' if not wrong else 'BAD'} {trap.name}: {wrong or row['verdict']}\n")
    return rows


def run_coins(count: int) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], list[str]] = {}
    for draw in range(count):
        name, how, tone, words = toss(draw)
        found.setdefault((name, how), []).append(tone)
        if tone == "good":
            sys.stderr.write(f"GREEN draw {draw}, {name}, {how}: {words}\n")
    return [
        {"shape": name, "rows": how, "draws": len(tones), "green": tones.count("good")}
        for (name, how), tones in sorted(found.items())
    ]


def page(traps: list[dict[str, Any]], coins: list[dict[str, Any]]) -> str:
    good = sum(not row["wrong"] for row in traps)
    unseen = sum(row["must"].startswith("cannot be seen") for row in traps)
    lines = [
        "# Traps", "",
        "Data that mislead, and what `op.analyze` says of them. `python benchmarks/traps.py --coins 1000` writes this page "
        "(with `OVERPARAM_DATA` set, for the two real tables among them).", "",
        f"{good} of {len(traps)} traps get the verdict they must get. {unseen} of them no rule can see, since rows that mislead and rows that do not look the "
        "same there: of these the verdict has to say what it rests on, and its tone may be green.", "",
        "| data | must be | tone | error on new rows | copies | what it says first |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in traps:
        error = "–" if row["error"] is None else f"{row['error']:.1%}"
        copies = "–" if row["copies"] is None else f"{row['copies']:,}"
        mark = "" if not row["wrong"] else f" **({row['wrong']})**"
        told = str(row["verdict"]).replace("|", "\\|")
        lines.append(f"| {row['trap']} | {row['must']}{mark} | {row['tone']} | {error} | {copies} | {told} |")
    if coins:
        draws, greens = (sum(row[name] for row in coins) for name in ("draws", "green"))
        lines += [
            "", "## Labels by coin toss", "",
            f"{greens} of {draws:,} draws of labels by coin toss got a green verdict: ten shapes of data of 40 to 160 rows, each "
            "row alone, written twice, copied with a jitter of 1e-3, or a third of them three times; eight rows of 25 jittered copies "
            "each; every row twice with another number in one more column; overlapping windows of one column.", "",
            "| shape | rows | draws | green |", "|---|---|---|---|",
            *(f"| {row['shape']} | {row['rows']} | {row['draws']} | {row['green']} |" for row in coins),
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--coins", type=int, default=0, help="draws of labels by coin toss")
    parser.add_argument("--only", nargs="*", default=(), help="words of the traps to run; writes nothing")
    asked = parser.parse_args()
    traps = run_traps(asked.only)
    if asked.only:
        return
    coins = run_coins(asked.coins)
    save("traps", processor(), traps + coins)
    PAGE.write_text(page(traps, coins), encoding="utf-8")


if __name__ == "__main__":
    main()
