"""`overparam report DIR`: draw the page of a result folder again, computing nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from overparam.cli import driver as shared


def command(
    folder: Annotated[Path, typer.Argument(help="A folder with result.json and arrays.npz.")],
    no_samples: shared.NoSamples = False,
    figures: Annotated[
        str | None, typer.Option("--figures", help="Also write every figure as png, svg or pdf.")
    ] = None,
) -> None:
    """Render report.html from a result folder."""
    from overparam.core import folder as folders
    from overparam.core.reading import place_of
    from overparam.report import export_figures, write_page

    folder = place_of(folder)
    typer.echo(str(write_page(folder, samples=not no_samples)))
    if figures is not None:
        for path in export_figures(folders.read(folder), folder / "figures", kind=figures):
            typer.echo(str(path))
