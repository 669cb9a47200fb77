"""`overparam migrate script.py`: what changes in a script of neural-tangents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def command(
    script: Annotated[Path, typer.Argument(help="A Python script that imports neural_tangents.")],
    out: Annotated[Path | None, typer.Option("--out", help="Write the changed script here.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Where there is such a file already.")] = False,
    run: Annotated[bool, typer.Option("--run", help="Execute it, before and after, and compare what it says.")] = False,
    before: Annotated[
        str, typer.Option("--before", help="With --run: the interpreter that has neural-tangents.", show_default=False)
    ] = sys.executable,
) -> None:
    """Show what changes in a script of neural-tangents; it is not executed but with --run."""
    from overparam.core.files import write_whole
    from overparam.core.reading import place_of
    from overparam.neural_tangents import migration

    out = None if out is None else place_of(out)  # no shell fills in the ~ of --out=~/script.py
    found = migration.migrate_file(script)
    if out is not None and out.exists() and not overwrite:
        raise ValueError(f"{out} is there already; pass --overwrite, or another --out")
    typer.echo(found.diff or "nothing changes", nl=not found.diff)
    for line, words in found.notes:
        typer.echo(f"line {line}: {words}")
    if out is not None:
        write_whole(out, found.after.encode("utf-8"))
    if run:
        typer.echo(migration.outputs(script, found, before))
