"""`overparam datasets`: the names `analyze` knows, and where their files are or belong."""

from __future__ import annotations

import json

import typer

from overparam.cli import driver as shared


def command(json_only: shared.Json = False) -> None:
    """List the data sets that can be named."""
    from overparam.data import available, data_folders

    found = available()
    if json_only:
        typer.echo(json.dumps([{"name": x.name, "what": x.what, "where": str(x.where or "")} for x in found]))
        return
    width = max(len(x.name) for x in found)
    for listing in found:
        typer.echo(f"{listing.name:<{width}}  {listing.what}  {listing.where or 'not found'}")
    typer.echo("looked in: " + ", ".join(str(place) for place in data_folders()))
