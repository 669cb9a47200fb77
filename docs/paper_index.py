"""Writes docs/paper_index.md: each statement of a paper, the functions that implement it, the tests that use them.

    python docs/paper_index.py            writes the page
    python docs/paper_index.py --check    exits 1 where the committed page is stale or a `Ref:` is wrong

Source files are parsed, not imported. `Ref:` lines of docstrings count, and so do the `reference` strings that
results carry.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

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
        if path.name == "references.py":
            continue  # the registry itself
        parts = path.relative_to(root / "src").with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name, doc, text, line in _references(tree, module):
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
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

    def walk(node: ast.AST, trail: tuple[str, ...]) -> Iterator[tuple[str, str, str, int]]:
        private = any(part.startswith("_") for part in trail)
        name = module if private else ".".join((module, *trail))
        if isinstance(node, (ast.Module, *defined)):
            doc = ast.get_docstring(node) or ""
            for match in re.finditer(r"^[ \t]*Ref:(.*)$", doc, re.MULTILINE):
                yield name, doc, match.group(1), node.body[0].lineno + doc[: match.start()].count("\n")
        if isinstance(node, ast.Constant) and re.match(rf"({'|'.join(PAPERS)}), ", str(node.value)):
            yield name, "", str(node.value), node.lineno
        for child in ast.iter_child_nodes(node):
            yield from walk(child, (*trail, child.name) if isinstance(child, defined) else trail)

    return walk(tree, ())


def users_by_name(root: Path = ROOT) -> dict[str, set[str]]:
    """Which test files use a name: as a variable, an attribute or an import."""
    users: dict[str, set[str]] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        place = path.relative_to(root / "tests").as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [node.id]
                if isinstance(node, ast.Name)
                else [node.attr]
                if isinstance(node, ast.Attribute)
                else [alias.name for alias in node.names]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for name in names:
                users.setdefault(name, set()).add(place)
    return users


def order(label: str) -> tuple[object, ...]:
    """Statements of the text before those of the appendix, each kind by number."""
    kind, _, rest = label.partition(" ")
    place = KINDS.index(kind) if kind in KINDS else len(KINDS)
    numbers = [(0, int(part)) if part.isdigit() else (1, ord(part[0])) for part in re.findall(r"[0-9]+|[A-Z]", rest)]
    return place, numbers


def render(found: Found, users: dict[str, set[str]]) -> str:
    """The page."""
    lines = [
        "# Paper index",
        "",
        "Which function implements which statement, and which tests use that function. A *doctest* is an example in",
        "the function's own documentation that is executed. This page is generated from the `Ref:` lines of the",
        f"docstrings by `{COMMAND}`; a test fails when it is stale.",
        "",
    ]
    for key, paper in PAPERS.items():
        here = [mention for mention in found.mentions if mention.paper == key]
        if not here:
            continue
        lines += [f"## {key}", "", f"{paper.authors} ({paper.year}), *{paper.title}*, arXiv {paper.arxiv}.", ""]
        for label in sorted({mention.label for mention in here}, key=order):
            lines += [f"### {label} {{ #{anchor(key, label)} }}", "", STATEMENTS[key, label], ""]
            lines += _table([mention for mention in here if mention.label == label], users)
    empty = [key for key in PAPERS if not any(mention.paper == key for mention in found.mentions)]
    if empty:
        lines += ["## Not implemented yet", ""]
        lines += [f"- `{key}`: {PAPERS[key].title}, arXiv {PAPERS[key].arxiv}." for key in empty]
    return "\n".join(lines).rstrip("\n") + "\n"


def _table(mentions: list[Mention], users: dict[str, set[str]]) -> list[str]:
    shown = [mention for mention in mentions if mention.documented] or mentions
    lines = ["| implemented by | tested in |", "|---|---|"]
    for name in sorted({mention.name for mention in shown}):
        tests = [f"`{place}`" for place in sorted(users.get(name.rpartition(".")[2], ()))]
        if any(mention.doctest for mention in shown if mention.name == name):
            tests.insert(0, "doctest")
        lines.append(f"| `{name.removeprefix('overparam.')}` | {', '.join(tests) or 'no test yet'} |")
    return [*lines, ""]


def main(arguments: list[str]) -> int:
    found = collect()
    for problem in found.problems:
        print(problem, file=sys.stderr)
    for label in found.unused:
        print(f"core/references.py: nothing names {label}; take it out", file=sys.stderr)
    if found.problems:
        return 1
    page = render(found, users_by_name())
    if "--check" in arguments:
        stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page
        if stale:
            print(f"docs/paper_index.md is stale; run `{COMMAND}`", file=sys.stderr)
        return int(stale or bool(found.unused))
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
