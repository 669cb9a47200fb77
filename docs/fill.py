"""Fills the measured numbers of docs/studies.md, audit.md, compare.md, foresee.md, growth.md, theorems.md, error_estimates.md and label_issues.md from committed results.

    python docs/fill.py            writes what is stale
    python docs/fill.py --check    exits 1 where a page is stale, or a measured number is bound to nothing

A measured number is followed by a comment that names it, as in `3.2%<!--laziness.loss-->`, and a measured table stands
between `<!--table laziness.runs-->` and `<!--/table-->`. What the names mean is computed in docs/filled, one function a
section, from a committed folder of results. A number that was chosen has a colon in its name: `<!--laziness:steps-->` is
a setting of the run that the section is filled from (`seed` its seed), `<!--overparam.audits.laws:LARGEST_CONSTANT-->` a
constant of the package; parts of one follow after dots (`widths.0`, `epochs.sum`), and it is written in the style that stands there. `<!--paper-->` marks
a number that a paper prints, `<!--set-->`, on pages of other kinds, one that is compared with nothing; there sizes such as m = 128 are free too. Which other numbers may stand
without a comment is in `FREE`.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from typing import Any

from filled import SECTIONS
from filled.committed import ROOT, Result, percent, scientific, whole

PAGES = (
    "studies.md",
    "audit.md",
    "compare.md",
    "foresee.md",
    "growth.md",
    "theorems.md",
    "error_estimates.md",
    "estimators.md",
    "label_issues.md",
    "scaling.md",
    "promises.md",
)
COMMAND = "python docs/fill.py"
UNMEASURED = ("paper", "set")
COMPARED = ("studies.md", "audit.md", "compare.md")
"""Where a number that was chosen must be bound too."""
NUMBER = r"[+−]?\d[\d,.]*(?:e-?\d+)?%?"
BOUND = re.compile(
    r"<!--table (?P<table>[\w.-]+)-->\n.*?<!--/table-->" + rf"|(?P<number>{NUMBER})<!--(?P<name>[\w.:-]+)-->",
    re.DOTALL,
)
WORDS = re.compile(
    r"\b(?:(?:thir|four|fif|six|seven|eigh|nine)teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundred|thousand|million)\b",
    re.IGNORECASE,
)
"""A number too large to be a count of what a sentence names: on pages that are compared it stands in digits, and is bound."""
COUNT = r"\d(?:[\d,.e-]*\d)?"
LABEL = r"(?:[A-Z]\.)?\d[\d.]*[a-z]?"
SIZES = re.compile(rf"(?<!\w)[nmdNLkbκηδεωαβ₂p]+ [=≤≥] {COUNT}(?:(?:, | and | to ){COUNT})*")
"""m = 128 to 4,096: free on pages of other kinds."""
FREE = re.compile(
    "|".join(
        (
            r"```.*?```",  # commands
            r"`[^`]*`",
            r"!?\[[^\]]*\]\([^)]*\)",  # links and figures
            r"^#+ [^\n]*",  # headings
            rf"\b(?:Figs?|Theorems?|Thm|Lemmas?|Claims?|Fact|App|Remark|Algorithm|Cor|Table)\b\.? {LABEL}(?:(?:, | and | to ){LABEL})*",
            r"\((?:[A-Z]\.)?\d{1,2}\)",  # equations
            r"(?:CIFAR-|VGG-|ResNet-|MNIST |H|float|tf|TF|ℓ)\d+(?:/\d)?",  # names
            r"\d+(?=/)|(?<=[/_])\d+|\d+(?=[mz]\b)|10(?=[⁻⁰-⁹])|\d+ × \d+|\{±1\}",  # parts of formulas
        )
    ),
    re.DOTALL | re.MULTILINE,
)


def known() -> dict[str, str]:
    """Every name with its text, from the committed results."""
    found: dict[str, str] = {}
    for section, (folder, numbers) in SECTIONS.items():
        found |= {f"{section}.{name}": text for name, text in numbers(Result(ROOT / folder)).items()}
    return found


def chosen(name: str, like: str) -> str:
    """The setting or constant of a name with a colon, as a percentage, a power of ten or a number, whichever `like` is.

    Raises:
        ValueError: for a name that leads to no number.
    """
    head, path = name.split(":", 1)
    try:
        found: Any = _settings(head) if head in SECTIONS else vars(importlib.import_module(head))
        for part in path.split("."):
            if part == "sum" and isinstance(found, list | tuple):
                found = sum(found)
            elif isinstance(found, Mapping):
                found = found[part]
            else:
                found = found[int(part)] if part.isdigit() else getattr(found, part)
    except (ImportError, LookupError, AttributeError) as error:
        raise ValueError(
            f"<!--{name}-->: expected a setting of a section or a constant of a module, got {error!r}"
        ) from error
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ValueError(f"<!--{name}-->: expected one number, got {found!r}; name the part of it that stands there")
    if like.endswith("%"):
        return percent(found, 0 if round(100 * found) == round(100 * found, 9) else 1)
    if "e" in like:
        return scientific(found)
    return whole(found) if found == round(found) else f"{found:g}"


def _settings(section: str) -> dict[str, Any]:
    result = Result(ROOT / SECTIONS[section][0])
    return {**result.settings, "seed": result.seed}


def filled(text: str, names: Mapping[str, str]) -> str:
    """A page with the text of every name in its place.

    Raises:
        ValueError: for a name that no section has, or a text that is no number where a number stands.
    """

    def said(match: re.Match[str]) -> str:
        name = match["table"] or match["name"]
        if name in UNMEASURED:
            return match[0]
        if ":" in name:
            return f"{chosen(name, match['number'])}<!--{name}-->"
        if name not in names:
            raise ValueError(
                f"<!--{name}-->: expected a name that docs/filled computes, got none; add it to its section"
            )
        if match["table"]:
            return f"<!--table {name}-->\n\n{names[name]}\n\n<!--/table-->"
        if not re.fullmatch(NUMBER, names[name]):
            raise ValueError(f"<!--{name}-->: expected one number, got {names[name]!r}; bind each number of it")
        return f"{names[name]}<!--{name}-->"

    return BOUND.sub(said, text)


def used(text: str) -> set[str]:
    """The names a page binds."""
    names = {match["table"] or match["name"] for match in BOUND.finditer(text)}
    return {name for name in names if name not in UNMEASURED and ":" not in name}


def unbound(text: str, page: str = "") -> list[str]:
    """Every line of a page with a number that is neither bound nor free, with what is left of it."""
    if page in COMPARED:
        text = text.replace("<!--set-->", "")
    bare = FREE.sub(_blank, BOUND.sub(_blank, text))
    if page not in COMPARED:
        bare = SIZES.sub(_blank, bare)
    found = []
    for i, (line, left) in enumerate(zip(text.splitlines(), bare.splitlines(), strict=True), 1):
        worded = WORDS.findall(left) if page in COMPARED else []
        if worded or re.search(r"\d", left):
            found.append(f"{i}: {re.findall(NUMBER, left) + worded} in {line.strip()}")
    return found


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n") or " "


def main(arguments: list[str]) -> int:
    names, problems, bound = known(), [], set()
    for page in PAGES:
        path = ROOT / "docs" / page
        text = path.read_text(encoding="utf-8")
        new = filled(text, names)
        problems += [f"docs/{page}:{line}: bind it or mark it" for line in unbound(new, page)]
        bound |= used(new)
        if new != text and "--check" in arguments:
            problems.append(f"docs/{page} is stale; run `{COMMAND}`")
        elif new != text:
            path.write_text(new, encoding="utf-8")
    problems += [f"docs/filled computes {name}, which no page has; take it out" for name in sorted(set(names) - bound)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
