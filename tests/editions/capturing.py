"""Run a script and keep what its top-level statements give: python capturing.py SCRIPT KEPT.json [ARGUMENTS].

The value of every expression that stands alone is kept under its source, the value of every name when it is assigned
under that name, and what is printed line by line. Runs in a process of its own, in an empty folder.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import condensing  # beside this file, whose folder Python puts on its path


def names_of(target: ast.expr) -> list[str]:
    """The plain names that an assignment sets."""
    if isinstance(target, ast.Name):
        return [target.id]
    return [name for item in getattr(target, "elts", []) for name in names_of(item)]


def capture(path: Path) -> dict[str, Any]:
    """Values, arrays and printed lines of the script at `path`."""
    values: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    space: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    taken: set[str] = set()
    printed = io.StringIO()

    def keep(key: str, value: Any) -> None:
        key = key.replace(".", "·")
        number, plain = 1, key
        while key in taken:
            number += 1
            key = f"{plain} #{number}"
        taken.add(key)
        condensing.take_apart(value, key, values, arrays)

    with contextlib.redirect_stdout(printed):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.Expr):
                source = ast.unparse(statement)
                value = eval(compile(ast.Expression(statement.value), str(path), "eval"), space)
                if value is not None and "main(" not in source:
                    keep(source, value)
                continue
            exec(compile(ast.Module([statement], []), str(path), "exec"), space)
            if isinstance(statement, ast.Assign):
                for name in (name for target in statement.targets for name in names_of(target)):
                    keep(name, space[name])
    return {"values": values, "arrays": arrays, "printed": printed.getvalue().splitlines()}


if __name__ == "__main__":
    script, kept = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    sys.argv = [str(script), *sys.argv[3:]]
    sys.path[0] = str(script.parent)  # as if Python had been started with the script
    kept.write_text(json.dumps(capture(script)), encoding="utf-8")
