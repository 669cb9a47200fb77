"""What the site makes at build time: one API page a room of the package, and the front door.

Rooms are found, not listed: a new one has its page as soon as it exists. Files are parsed, not imported; only the
command line is asked for its own options.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "overparam"
TOP_DOWN = (
    "studies",
    "analysis",
    "estimators",
    "audits",
    "landscapes",
    "neural_tangents",
    "theory",
    "training",
    "spectrum",
    "engines",
    "kernels",
    "networks",
    "data",
    "adapters",
    "layers",
    "functions",
    "report",
    "core",
)
FRONT = "api/index.md"
COMMANDS = "commands.md"


def on_config(config: Any) -> Any:
    """Puts the pages of the rooms into the navigation."""
    pages: list[Any] = [{"Front door": FRONT}]
    pages += [{name: f"api/{name}.md"} for name in rooms()]
    for entry in config.nav:
        if "API" in entry:
            entry["API"] = pages
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds those pages."""
    files.append(File.generated(config, FRONT, content=front_page()))
    files.append(File.generated(config, COMMANDS, content=commands_page()))
    for name in rooms():
        files.append(File.generated(config, f"api/{name}.md", content=room_page(name)))
    return files


def rooms() -> list[str]:
    """The rooms that exist, top down, unknown ones last; the command line has a page of its own."""
    found = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py") if path.parent.name != "cli")
    return sorted(found, key=lambda name: TOP_DOWN.index(name) if name in TOP_DOWN else len(TOP_DOWN))


def room_page(name: str) -> str:
    """One room: what it exports, or its modules where it exports nothing."""
    tree = ast.parse((PACKAGE / name / "__init__.py").read_text(encoding="utf-8"))
    lines = [f"# overparam.{name}", "", ast.get_docstring(tree) or "", ""]
    exported = assigned(tree, "__all__")
    if exported:
        # functions first: they are what a reader looks for
        lines += [f"::: {home(tree, name, item)}\n" for item in sorted(exported, key=lambda item: item[0].isupper())]
    else:
        modules = sorted(path.stem for path in (PACKAGE / name).glob("*.py") if not path.stem.startswith("_"))
        lines += [f"::: overparam.{name}.{module}\n" for module in modules]
    return "\n".join(lines)


def home(tree: ast.Module, room: str, name: str) -> str:
    """The full path of what a room exports: a function may have the name of its module."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            return f"{node.module}.{name}"
    return f"overparam.{room}.{name}"


def front_page() -> str:
    """The names a user types after `import overparam as op`."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    names: dict[str, str] = assigned(tree, "_NAMES") or {}
    lines = [
        "# The front door",
        "",
        "Everything here is typed after `import overparam as op`. A name is imported when it is first used, so",
        "`import overparam` costs next to nothing and sets nothing global.",
        "",
        "| name | room | what it gives |",
        "|---|---|---|",
    ]
    for name, room in sorted(names.items(), key=lambda pair: pair[0].lower()):
        inside = ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8"))
        link = f"[`op.{name}`][{home(inside, room, name)}]"
        lines.append(f"| {link} | [{room}]({room}.md) | {summary(room, name)} |")
    lines += ["", "The rooms, from the top of the house down:", ""]
    for room in rooms():
        text = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8"))) or ""
        lines.append(f"- [`overparam.{room}`]({room}.md): {text.splitlines()[0] if text else ''}")
    return "\n".join(lines) + "\n"


def commands_page() -> str:
    """The command line, from the commands themselves."""
    from typer.main import get_command

    from overparam.cli.app import app

    lines = [
        "# Command line",
        "",
        "Every command exits with 0, with 2 and one line for input that cannot be used, and with 130 for ctrl-C.",
        "",
    ]
    for name, command in sorted(getattr(get_command(app), "commands").items()):  # noqa: B009
        arguments = [part for part in command.params if part.param_type_name == "argument"]
        options = [part for part in command.params if part.param_type_name == "option"]
        usage = " ".join(f"{part.name.upper()}" if part.required else f"[{part.name.upper()}]" for part in arguments)
        lines += [f"## overparam {name}", "", (command.help or "").strip(), ""]
        lines += ["```sh", f"overparam {name} {usage}".rstrip() + (" [OPTIONS]" if options else ""), "```", ""]
        lines += ["| option | what it does | default |", "|---|---|---|"]
        for part in [*arguments, *options]:
            shown = part.name.upper() if part in arguments else ", ".join(part.opts)
            default = "" if part.default is None or part.default is False or part.required else f"`{part.default}`"
            lines.append(f"| `{shown}` | {(part.help or '').replace('|', '/')} | {default} |")
        lines.append("")
    return "\n".join(lines)


def summary(room: str, name: str) -> str:
    """The first line of the docstring of a definition in a room."""
    for path in sorted((PACKAGE / room).glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
                text = ast.get_docstring(node) or ""
                return text.split("\n\n")[0].replace("\n", " ").replace("|", r"\|")
    return ""


def assigned(tree: ast.Module, name: str) -> Any:
    """The literal a module assigns to a name; None where it does not."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            try:
                return ast.literal_eval(node.value)
            except ValueError:
                return None
    return None
