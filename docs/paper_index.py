"""Writes docs/paper_index.md: each statement of a paper, the functions that implement it, the tests that use them.

    python docs/paper_index.py            writes the page
    python docs/paper_index.py --check    exits 1 where the committed page is stale, a `Ref:` is wrong or a test is missing

Source files are parsed, not imported. `Ref:` lines of docstrings count, and so do the `reference` strings that
results carry. Tests are found by what they import.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests_by_import import DEFINED, Users, below, module_of

from overparam.core.references import KINDS, PAPERS, STATEMENTS, anchor, parse_reference

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "paper_index.md"
COMMAND = "python docs/paper_index.py"


@dataclass(frozen=True)
class Mention:
    """One statement named at one place of the source."""

    paper: str
    label: str
    name: str
    """The definition that names it, dotted from the package on; a module where that definition is private."""
    place: str
    documented: bool
    """Whether a `Ref:` line of its docstring names it, and not only a result it makes."""
    doctest: bool


@dataclass
class Found:
    """All mentions, and one line for each that cannot be read or is not in the registry."""

    mentions: list[Mention] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def unused(self) -> list[str]:
        """Statements of the registry that nothing names."""
        used = {(mention.paper, mention.label) for mention in self.mentions}
        return [f"{paper}, {label}" for paper, label in STATEMENTS if (paper, label) not in used]


def collect(root: Path = ROOT) -> Found:
    """What every file under src/overparam names."""
    found = Found()
    for path in sorted((root / "src" / "overparam").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if path.name == "references.py" or not any(word in source for word in ("Ref:", *PAPERS)):
            continue  # the registry itself, or nothing to find
        for name, doc, text, line in _references(ast.parse(source), module_of(path)):
            place = f"{path.relative_to(root).as_posix()}:{line}"
            _read(found, text, name, place, doc)
    return found


def _read(found: Found, text: str, name: str, place: str, doc: str) -> None:
    try:
        pairs = parse_reference(text)
    except ValueError as error:
        found.problems.append(f"{place}: {error}")
        return
    for paper, label in pairs:
        if (paper, label) not in STATEMENTS:
            found.problems.append(f"{place}: {label!r} of {paper} is not in core/references.py; add it there")
        found.mentions.append(Mention(paper, label, name, place, bool(doc), ">>>" in doc))


def _references(tree: ast.Module, module: str) -> Iterator[tuple[str, str, str, int]]:
    """(definition, its docstring, the reference, line) of every reference in a module.

    The docstring is empty for the `reference` strings of results.
    """

    def walk(node: ast.AST, trail: tuple[str, ...], name: str) -> Iterator[tuple[str, str, str, int]]:
        if isinstance(node, DEFINED):
            trail = (*trail, node.name)
            name = module if any(part.startswith("_") for part in trail) else ".".join((module, *trail))
        if isinstance(node, (ast.Module, *DEFINED)):
            doc = ast.get_docstring(node) or ""
            for match in re.finditer(r"^[ \t]*Ref:(.*)$", doc, re.MULTILINE):
                yield name, doc, match.group(1), node.body[0].lineno + doc[: match.start()].count("\n")
        if isinstance(node, ast.Constant) and re.match(rf"({'|'.join(PAPERS)}), ", str(node.value)):
            yield name, "", str(node.value), node.lineno
        for child in below(node):
            yield from walk(child, trail, name)

    return walk(tree, (), module)


def order(label: str) -> tuple[object, ...]:
    """Statements of the text before those of the appendix, each kind by number."""
    kind, _, rest = label.partition(" ")
    place = KINDS.index(kind) if kind in KINDS else len(KINDS)
    numbers = [(0, int(part)) if part.isdigit() else (1, ord(part[0])) for part in re.findall(r"[0-9]+|[A-Z]", rest)]
    return place, numbers


Rows = dict[tuple[str, str], dict[str, list[str]]]
"""By statement: the definitions that implement it, and where each is tested."""


def rows_of(found: Found, users: Users) -> Rows:
    """All rows of the page."""
    rows: Rows = {}
    for paper, label in {(mention.paper, mention.label) for mention in found.mentions}:
        here = [mention for mention in found.mentions if (mention.paper, mention.label) == (paper, label)]
        here = [mention for mention in here if mention.documented] or here
        examples = {mention.name for mention in here if mention.doctest}
        names = sorted({mention.name for mention in here})
        rows[paper, label] = {name: tested_in(name, name in examples, users) for name in names}
    return rows


def tested_in(name: str, doctest: bool, users: Users) -> list[str]:
    """Where a definition is tested, as the page says it; empty where it is nowhere."""
    found = ["doctest"] * doctest + [f"`{place}`" for place in users.tests_of(name)]
    return found or [
        f"through `{caller.removeprefix('overparam.')}`: {', '.join(f'`{place}`' for place in places)}"
        for caller, places in users.callers_of(name).items()
    ]


def untested(rows: Rows) -> list[str]:
    """A line for each definition without a test."""
    return [
        f"{name} ({paper}, {label}) has no test that imports it, and no caller that has one"
        for (paper, label), names in rows.items()
        for name, tests in names.items()
        if not tests
    ]


def render(rows: Rows) -> str:
    """The page."""
    lines = [
        "# Paper index",
        "",
        "Which function implements which statement, and which tests import and use that function. A *doctest* is an",
        "example in the function's own documentation that is executed; *through* names the function by whose tests it is",
        "tested, where it makes sense only inside that one. This page is generated from the `Ref:` lines of the docstrings",
        f"by `{COMMAND}`; a test fails when it is stale, or when a row has no test.",
        "",
    ]
    for key, paper in PAPERS.items():
        labels = sorted((label for of, label in rows if of == key), key=order)
        if not labels:
            continue
        lines += [f"## {key}", "", f"{paper.authors} ({paper.year}), *{paper.title}*, arXiv {paper.arxiv}.", ""]
        for label in labels:
            lines += [f"### {label} {{ #{anchor(key, label)} }}", "", STATEMENTS[key, label], ""]
            lines += ["| implemented by | tested in |", "|---|---|"]
            for name, tests in rows[key, label].items():
                lines.append(f"| `{name.removeprefix('overparam.')}` | {', '.join(tests) or 'no test yet'} |")
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def main(arguments: list[str]) -> int:
    found = collect()
    if found.problems:
        print(*found.problems, sep="\n", file=sys.stderr)
        return 1
    rows = rows_of(found, Users(ROOT))
    wrong = [f"core/references.py: nothing names {label}; take it out" for label in found.unused] + untested(rows)
    page = render(rows)
    if "--check" not in arguments:
        PAGE.write_text(page, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
        wrong.append(f"docs/paper_index.md is stale; run `{COMMAND}`")
    for line in wrong:
        print(line, file=sys.stderr)
    return int("--check" in arguments and bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
