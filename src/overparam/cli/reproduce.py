"""`overparam reproduce [STUDY]`: a figure or claim of a paper, run again at a chosen scale."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from overparam.cli.driver import Given, question

if TYPE_CHECKING:
    from overparam.frame import Job
    from overparam.studies import Study, StudyResult


@question("reproduce", None, "study", folder="{study}-{scale}", keeps=True)
def command(
    given: Given,
    study: Annotated[str | None, typer.Argument(help="Its name; without one they are listed.")] = None,
    scale: Annotated[
        str, typer.Option("--scale", help="smoke (seconds), small (minutes) or full (the largest, on a GPU).")
    ] = "smoke",
    list_only: Annotated[bool, typer.Option("--list", help="Name the studies, a line each.")] = False,
) -> Job[StudyResult] | None:
    """Run a figure or claim of a paper again and say what agreed. Finished parts are kept, so that it can be stopped."""
    from overparam.studies import STUDIES, prepare_reproduce

    if study is None or list_only:
        _list(STUDIES, given.json_only)
        return None
    if study not in STUDIES:
        raise ValueError(f"there is no study {study!r}; expected one of {', '.join(STUDIES)}")
    if given.dtype is not None:
        raise ValueError("--dtype is named by the settings of a study; leave it out")
    return prepare_reproduce(STUDIES[study], scale, **given.shared)  # pyright: ignore[reportArgumentType]


def _list(studies: dict[str, Study], json_only: bool) -> None:
    if json_only:
        rows = [{"name": s.name, "title": s.title, "reference": s.reference} for s in studies.values()]
        typer.echo(json.dumps(rows, ensure_ascii=False))
        return
    width = max((len(name) for name in studies), default=0)
    for name, study in studies.items():
        typer.echo(f"{name:<{width}}  {study.title}")
