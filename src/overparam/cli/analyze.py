"""`overparam analyze [DATA]`: the main job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from overparam.cli.driver import Given, MaxRows, Preprocess, question

if TYPE_CHECKING:
    from overparam.analysis import Analysis
    from overparam.frame import Job


@question("analyze", "digits", "analysis")
def command(
    given: Given,
    preprocess: Preprocess = "auto",
    max_rows: MaxRows = None,
    threads: Annotated[int | None, typer.Option("--threads", help="BLAS threads.")] = None,
) -> Job[Analysis]:
    """Tell what a wide network will do with DATA, and why to believe it. Writes a page."""
    from overparam.analysis import prepare_analyze

    return prepare_analyze(given.read(), preprocess=preprocess, max_rows=max_rows, threads=threads, **given.shared)
