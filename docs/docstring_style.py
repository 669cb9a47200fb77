"""How the project's docstrings become Markdown: doctests as code, references as links into the paper index."""

from __future__ import annotations

import re
from typing import Any

import griffe

from overparam.core.references import anchor, parse_reference

LABELS = ("Ref", "Assumes", "Differs from the paper")


class DocstringStyle(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = restyled(obj.docstring.value)


def restyled(text: str) -> str:
    """The docstring as Markdown.

    >>> print(restyled("Twice x.\\n\\n>>> 1 + 1\\n2"))
    Twice x.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    lines: list[str] = []
    inside = ""
    for line in text.splitlines():
        bare = line.lstrip()
        margin = line[: len(line) - len(bare)]
        if bare.startswith(">>>") and not inside:
            if lines and lines[-1].strip():
                lines.append("")
            lines.append(f"{margin}```pycon")
            inside = f"{margin}```"
        elif inside and not bare:
            lines += [inside, ""]
            inside = ""
            continue
        lines.append(line if inside else labelled(line))
    if inside:
        lines.append(inside)
    return "\n".join(lines)


def labelled(line: str) -> str:
    """A line that opens with one of the project's labels has it in bold; a reference is linked."""
    for label in LABELS:
        match = re.match(rf"(\s*){label}:\s*(.*)$", line)
        if match:
            margin, rest = match.groups()
            return f"{margin}**{label}:** {linked(rest) if label == 'Ref' else rest}"
    return re.sub(r"(: )>( )", r"\1\\>\2", line)  # "ridge: > 0." is no quotation


def linked(reference: str) -> str:
    """`fine_grained, Thm 4.1` with its label linked to the paper index."""
    try:
        pairs = parse_reference(reference)
    except ValueError:
        return reference
    places: dict[str, list[str]] = {}
    for paper, label in pairs:
        link = f"[{label}](../paper_index.md#{anchor(paper, label)})"
        places.setdefault(paper, []).append(link)
    return "; ".join(f"{paper}, {', '.join(links)}" for paper, links in places.items())
