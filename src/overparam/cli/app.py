"""The commands and the options they share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from overparam._version import __version__

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="What gradient descent on a wide network will do with a data set, known before training.",
)

Out = Annotated[Path, typer.Option("--out", help="Folder for result.json, arrays.npz and report.html.")]
Json = Annotated[bool, typer.Option("--json", help="Print result.json and nothing else.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of subsampling, random labels and held-out rows.")]
Device = Annotated[str | None, typer.Option("--device", help="cpu, gpu or jax; the best there is if not given.")]
Dtype = Annotated[str, typer.Option("--dtype", help="float64; results are never less.")]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Show what it will cost and stop.")]
NoSamples = Annotated[bool, typer.Option("--no-samples", help="Keep the data's own rows and labels out of the page.")]


def require_float64(dtype: str) -> None:
    """Refuse other precisions in one line."""
    if dtype != "float64":
        raise ValueError(f"--dtype is {dtype}; this command computes in float64 only")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"overparam {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Know before you train."""


from overparam.cli import analyze, datasets, doctor, report  # noqa: E402

app.command("analyze")(analyze.command)
app.command("report")(report.command)
app.command("datasets")(datasets.command)
app.command("doctor")(doctor.command)
