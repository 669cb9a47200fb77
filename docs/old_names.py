"""Writes the list of old names that are still taken, from `core/deprecated.py`, into CHANGELOG.md."""

from __future__ import annotations

from pathlib import Path

from overparam.core.deprecated import TABLE

CHANGELOG = Path(__file__).resolve().parents[1] / "CHANGELOG.md"
COMMAND = "python docs/old_names.py"
BEGIN, END = "<!-- old names: begin -->\n", "<!-- old names: end -->\n"


def listed() -> str:
    """A line for each change, with every place where it is taken."""
    places: dict[tuple[str, str], list[str]] = {}
    for row in TABLE:
        places.setdefault((row.old, row.new), []).append(row.where)
    lines = []
    for (old, new), where in places.items():
        names = ", ".join(f"`op.{name}`" if name else "`op`" for name in where)
        change = f"({new}, …) for ({old}, …)" if ", " in old else f"`{new}` for `{old}`"
        lines.append(f"- {change}: {names}\n")
    return "".join(lines)


def rendered(text: str) -> str:
    """The changelog with the list of today."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + listed() + END + rest.split(END)[1]


if __name__ == "__main__":
    CHANGELOG.write_text(rendered(CHANGELOG.read_text(encoding="utf-8")), encoding="utf-8")
