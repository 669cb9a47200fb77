"""What may differ between two editions, and why: names that moved, values of time, and differences with their reason."""

from __future__ import annotations

from dataclasses import dataclass

FIRST, NEW = "first", "new"


@dataclass(frozen=True)
class Explained:
    """Differences with one reason: patterns (fnmatch) of the case and of the place, and how large they may be.

    `within` bounds the relative difference of numbers; without it any difference, words and missing things too, is meant.
    """

    case: str
    place: str
    reason: str
    within: float | None = None


IGNORED: tuple[tuple[str, str], ...] = (
    ("value *seconds*", "time"),
    ("value *ms_a_step", "time"),
    ("array *seconds*", "time"),
    ("value *plan.timed", "time"),
    ("section * column seconds", "time"),
    ("section * planned and used *", "time"),
    ("section * time a step *", "time"),
    ("section * column ms a step", "time"),
    ("printed   about * s in all", "time"),
    ("printed   matrix * ms", "time"),
    ("printed   product * ms each; *", "time"),
    ("printed   memory * GB free", "memory"),
    ("value *peak_memory", "memory"),
    ("value *plan.memory", "memory"),
    ("value *plan.free_memory", "memory"),
    ("value *provenance.version", "the edition"),
    ("value schema", "the edition"),
    ("value *provenance.python", "the machine"),
    ("value *provenance.numpy", "the machine"),
    ("value *provenance.machine", "the machine"),
    ("value *provenance.device", "the machine"),
)
"""Places (fnmatch) that are not compared: times, memory, versions."""

RENAMED: tuple[tuple[str, str], ...] = ((r"^values\.", ""),)
"""Paths of values and names of arrays as the first edition had them (regular expressions), and how they are called now.

Both records are read through this table, so that a name that did not change is not touched by it. A number that has
moved elsewhere with all its digits is found without an entry."""

EXPLAINED: tuple[Explained, ...] = (
    Explained(
        "train*", "value *params.*.dict.*", "result.json says which array holds the weights, and arrays are named anew"
    ),
    Explained("*", "value *.certified", "a bracket says in which sense it holds, of which certified follows"),
    Explained(
        "analyze*", "value speed.targets.*", "a target is the loss itself, as in op.steps_to_loss, not its share"
    ),
    Explained("train*", "value run.loss_convention", "it is a field of the algorithm's Spec"),
    Explained("train*", "value run.stopped", "why a run ended is data: a reason and a step"),
    Explained("audit-plan", "printed *", "plans of all questions are said in one way"),
    Explained("landscape*", "section Verdict / text *", "shares are said with a decimal"),
    Explained("landscape*", "value verdict.sentences.*", "shares are said with a decimal"),
    Explained("page-landscapes", "* gradient is enough*", "shares are said with a decimal"),
    Explained("page-*", "value found.verdict.sentences.*", "shares are said with a decimal"),
    Explained("page-*", "array *certified", "a bracket says in which sense it holds, of which certified follows"),
    Explained(
        "page-*", "* *complexity*.form.*", "a complexity is one bracket; the form it is the root of is not beside it"
    ),
    Explained("page-*", "value *.formula", "a rate has no fields that repeat what was asked"),
    Explained("page-*", "value *.momentum", "a rate has no fields that repeat what was asked"),
    Explained("page-*", "value *speed.targets.*", "a target is the loss itself, as in op.steps_to_loss, not its share"),
    Explained("page-*", "value *loss_convention", "it is a field of the algorithm's Spec"),
    Explained("page-*", "value *stopped", "why a run ended is data: a reason and a step"),
    Explained("page-start", "printed Range(*", "one type of bracket, which prints as Bracketed"),
    Explained(
        "audit-run", "* findings.*", "the rate of the run itself; it was read from words, to six digits", within=2e-6
    ),
    Explained(
        "study-convergence-rates", "section *", "a number and its error stay on one line, by spaces that do not break"
    ),
    Explained("study-*law*", "section * / text *", "names that hold a comma are parted by semicolons"),
)
