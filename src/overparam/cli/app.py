"""The commands by name."""

from __future__ import annotations

from typing import Annotated

import typer

from overparam._version import __version__
from overparam.cli import (
    analyze,
    audit,
    compare,
    datasets,
    diff,
    doctor,
    foresee,
    gram,
    landscape,
    migrate,
    report,
    reproduce,
    train,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="What gradient descent on a wide network will do with a data set, known before training.",
)


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


app.command("analyze")(analyze.command)
app.command("compare")(compare.command)
app.command("diff")(diff.command)
app.command("gram")(gram.command)
app.command("train")(train.command)
app.command("foresee")(foresee.command)
app.command("landscape")(landscape.command)
app.command("audit")(audit.command)
app.command("reproduce")(reproduce.command)
app.command("report")(report.command)
app.command("migrate")(migrate.command)
app.command("datasets")(datasets.command)
app.command("doctor")(doctor.command)
