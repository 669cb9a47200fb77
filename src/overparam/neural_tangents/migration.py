"""A script of the archived library's, changed to run on this package: imports, names that moved, and what is not offered.

The script is read, never executed, but by `outputs`.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overparam.core.reading import content_of, one_line, place_of
from overparam.neural_tangents.batching import SEVERAL_DEVICES
from overparam.neural_tangents.layer import NotOffered

OLD, NEW = "neural_tangents", "overparam.neural_tangents"
MOVED = {
    OLD: NEW,
    f"{OLD}.empirical_direct_ntk_fn": f"{NEW}.empirical_ntk_fn",
    f"{OLD}.empirical_implicit_ntk_fn": f"{NEW}.empirical_ntk_fn",
    "jax.config.config": "jax.config",
    "jax.experimental.optimizers": "jax.example_libraries.optimizers",
    "jax.experimental.stax": "jax.example_libraries.stax",
    "jax.tree_flatten": "jax.tree.flatten",
    "jax.tree_leaves": "jax.tree.leaves",
    "jax.tree_map": "jax.tree.map",
    "jax.tree_multimap": "jax.tree.map",
    "jax.tree_structure": "jax.tree.structure",
    "jax.tree_unflatten": "jax.tree.unflatten",
    "jax.tree_util.tree_multimap": "jax.tree.map",
}
"""Names by their whole path, of the archived library and of the JAX of its time."""
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Migration:
    """The script before and after, and what has to be looked at: (line, words)."""

    name: str
    before: str
    after: str
    notes: tuple[tuple[int, str], ...]

    @property
    def diff(self) -> str:
        """What changes, as a patch; empty where nothing does."""
        lines = difflib.unified_diff(
            self.before.splitlines(keepends=True),
            self.after.splitlines(keepends=True),
            self.name,
            f"{self.name} (migrated)",
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def migrate_file(path: str | os.PathLike[str]) -> Migration:
    """What changes in a script; it is not executed."""
    place = place_of(path)
    content = content_of(place)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{place} is not text in UTF-8 ({one_line(error)}); expected a Python script") from None
    return migrate(text, place.name)


def migrate(text: str, name: str = "script.py") -> Migration:
    """The same of the text of a script.

    >>> found = migrate("import neural_tangents as nt\\nfrom neural_tangents import stax\\nk = stax.Aggregate()\\n")
    >>> print(found.after.splitlines()[0])
    import overparam.neural_tangents as nt
    >>> found.notes[0][0]
    3
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        raise ValueError(f"{name} is no Python of this version{where}: {one_line(error)[:120]}") from None
    content = text.encode("utf-8")
    starts = [0]
    for line in content.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(line: int, column: int) -> int:
        return starts[line - 1] + column

    bound: dict[str, str] = {}
    edits: list[tuple[int, int, str]] = []
    notes: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= dict(_bound(node))
            start, stop = place(node.lineno, node.col_offset), place(node.end_lineno or 0, node.end_col_offset or 0)
            alone = not content[starts[node.lineno - 1] : start].strip()
            new = _import(node, content[start:stop].decode("utf-8"), "\n" + " " * node.col_offset if alone else "; ")
            if new is not None:
                edits.append((start, stop, new))
            notes += [(node.lineno, words) for full in _imported(node) if (words := _lacking(_moved(full)))]
        for given in node.keywords if isinstance(node, ast.Call) else ():
            value = given.value.value if isinstance(given.value, ast.Constant) else 0
            if given.arg == "device_count" and isinstance(value, int) and value > 1 and OLD in text:
                notes.append((given.value.lineno, f"`device_count={value}` is not offered; {SEVERAL_DEVICES}"))
    for node, first, rest in _chains(tree):
        if first not in bound:
            continue
        new, base = _moved(".".join((bound[first], *rest))), _moved(bound[first])
        if rest and (words := _lacking(new)):
            notes.append((node.lineno, words))
        written = ".".join((first, *rest))
        if new == ".".join((base, *rest)):
            continue
        if new.startswith(f"{base}."):
            start, stop = place(node.lineno, node.col_offset), place(node.end_lineno or 0, node.end_col_offset or 0)
            if content[start:stop].decode("utf-8") == written:
                edits.append((start, stop, first + new[len(base) :]))
                continue
        notes.append((node.lineno, f"`{written}` is `{new}` now; import it from there"))
    for start, stop, new in sorted(edits, reverse=True):
        content = content[:start] + new.encode("utf-8") + content[stop:]
    return Migration(name, text, content.decode("utf-8"), tuple(sorted(set(notes))))


def _moved(full: str) -> str:
    """The path of a name today."""
    parts = full.split(".")
    for count in range(len(parts), 0, -1):
        head = ".".join(parts[:count])
        if head in MOVED:
            return ".".join((MOVED[head], *parts[count:]))
    return full


def _bound(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Names that an import binds, and what they are."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name
        else:
            yield (top := alias.name.split(".")[0]), top


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{node.module}.{alias.name}" for alias in node.names if alias.name != "*"] if not node.level else []


def _import(node: ast.Import | ast.ImportFrom, written: str, between: str) -> str | None:
    """The statement today, in one or several; None where it stays."""
    moved = [(_moved(full), full) for full in _imported(node)]
    module = "" if isinstance(node, ast.Import) or node.level else node.module or ""
    if all(new == old for new, old in moved) and _moved(module) == module:
        return None
    if isinstance(node, ast.ImportFrom):
        if all(new == f"{_moved(module)}.{old.removeprefix(f'{module}.')}" for new, old in moved):
            return written.replace(module, _moved(module), 1)
        lines: dict[str, list[str]] = {}
        for alias, (new, _) in zip(node.names, moved, strict=True):
            room, _, name = new.rpartition(".")
            own = alias.asname or alias.name
            lines.setdefault(room, []).append(name if name == own else f"{name} as {own}")
        return between.join(f"from {room} import {', '.join(names)}" for room, names in lines.items())
    lines_ = []
    for alias, (new, old) in zip(node.names, moved, strict=True):
        if alias.asname:
            lines_.append(f"import {new} as {alias.asname}")
        elif new == old:
            lines_.append(f"import {old}")
        elif old.split(".")[0] == OLD:  # binds the first part of its path
            lines_.append(f"import {NEW} as {OLD}")
        else:
            lines_.append(f"import {new}")
    return between.join(dict.fromkeys(lines_))


def _chains(tree: ast.AST) -> Iterator[tuple[ast.expr, str, tuple[str, ...]]]:
    """Names with all that follows them after dots, each once."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        parts, inner = [], node
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and isinstance(node, ast.Attribute | ast.Name):
            yield node, inner.id, tuple(reversed(parts))
        else:
            waiting.extend(ast.iter_child_nodes(node))


def _lacking(full: str) -> str | None:
    """What to do about a name that is not offered; None where it is, or is none of ours."""
    if full != NEW and not full.startswith(f"{NEW}."):
        return None
    thing: Any = importlib.import_module(NEW)
    told = "nt"
    for name in full.removeprefix(NEW).split(".")[1:]:
        told = f"{told}.{name}"
        if not hasattr(thing, "__all__"):
            return None
        try:
            thing = getattr(thing, name)
        except NotOffered as error:
            return one_line(error)
        except AttributeError:
            private = name.startswith("_")
            return f"`{told}` is {'private: take the public name' if private else 'no name that is offered'}"
    return None


def outputs(
    path: str | os.PathLike[str], migration: Migration, before: str = sys.executable, seconds: float = 3600
) -> str:
    """What the script says before, run by the interpreter `before`, and after, by this one: in words.

    Lines are compared with their numbers taken out, and the numbers by themselves.
    """
    place = place_of(path).resolve()
    with tempfile.TemporaryDirectory() as folder:
        after = Path(folder) / place.name
        after.write_text(migration.after, encoding="utf-8")
        ended = [
            _ended(python, script, place.parent, seconds)
            for python, script in ((before, place), (sys.executable, after))
        ]
    for when, (code, _, complaint) in zip(("before", "after"), ended, strict=True):
        if code:
            last = (complaint.strip().splitlines() or ["nothing was said"])[-1]
            return f"{when}: it failed with exit code {code}: {last[:200]}"
    first, second = (said.splitlines() for _, said, _ in ended)
    if [NUMBER.sub("#", line) for line in first] != [NUMBER.sub("#", line) for line in second]:
        return f"both run; they say different words ({len(first)} lines before, {len(second)} after)"
    pairs = [
        pair
        for one, two in zip(first, second, strict=True)
        for pair in zip(NUMBER.findall(one), NUMBER.findall(two), strict=True)
    ]
    worst = max((abs(float(a) - float(b)) / max(abs(float(a)), abs(float(b)), 1e-300) for a, b in pairs), default=0.0)
    return f"both run and say the same words in {len(first)} lines; their {len(pairs)} numbers differ by at most {worst:.2g} of themselves"


def _ended(python: str, script: Path, folder: Path, seconds: float) -> tuple[int, str, str]:
    """Exit code and what was said, run in the folder of the script, whose modules it finds."""
    code = "import runpy, sys; sys.path.insert(0, sys.argv[2]); sys.argv = sys.argv[1:2]; runpy.run_path(sys.argv[0], run_name='__main__')"
    try:
        done = subprocess.run(
            [python, "-c", code, str(script), str(folder)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, "", f"it ran past {seconds:g} seconds"
    except OSError as error:
        raise ValueError(f"{python!r} cannot be run ({one_line(error)}); expected a Python interpreter") from None
    return done.returncode, done.stdout, done.stderr
