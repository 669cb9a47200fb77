"""`overparam analyze [DATA]`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overparam.cli.driver import Given, MaxRows, Preprocess, question, require_writable
from overparam.core.files import make_folder, write_whole

if TYPE_CHECKING:
    from overparam.analysis import Analysis
    from overparam.frame import Job


CORRECTED = "corrected.csv"
"""The table with what was decided in labels.csv, in the folder of the result."""


@question("analyze", "digits", "analysis")
def command(
    given: Given,
    preprocess: Preprocess = "auto",
    max_rows: MaxRows = None,
    kinds: Annotated[
        bool, typer.Option("--kinds/--no-kinds", help="Compare a kernel, a network, trees and a linear model.")
    ] = True,
    threads: Annotated[int | None, typer.Option("--threads", help="BLAS threads.")] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            help="labels.csv with its column `decision` filled: keep, drop or a label. A table is written again as corrected.csv.",
        ),
    ] = None,
) -> Job[Analysis]:
    """Tell what a wide network will do with DATA, and why to believe it. Writes a page."""
    from overparam.analysis import prepare_analyze

    data = given.read()
    if labels is not None:
        from overparam.analysis import apply_decisions
        from overparam.analysis.label_decisions import corrected_file

        data = apply_decisions(data, labels)
        given.asked["labels"] = str(labels)
        content = corrected_file(data, given.data, given.reading["label"])
        if content is not None and not given.plan:
            require_writable(given.out)
            write_whole(make_folder(given.out) / CORRECTED, content)
    return prepare_analyze(data, preprocess=preprocess, max_rows=max_rows, kinds=kinds, threads=threads, **given.shared)
