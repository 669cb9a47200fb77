"""`overparam analyze [DATA]`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overparam.cli.driver import Given, MaxRows, Preprocess, question, require_writable
from overparam.core.files import make_folder, write_whole
from overparam.core.words import count_of

if TYPE_CHECKING:
    from overparam.analysis import Analysis
    from overparam.frame import Job


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
            help="labels.csv with its column `decision` filled: keep, drop or a label, of several targets keep or drop. What is left is written beside the result.",
        ),
    ] = None,
) -> Job[Analysis]:
    """Tell what a wide network will do with DATA, and why to believe it. Writes a page."""
    from overparam.analysis import prepare_analyze

    data = given.read()
    if labels is not None:
        from overparam.analysis import apply_decisions
        from overparam.analysis.label_decisions import corrected_data

        before, data = data, apply_decisions(data, labels)
        given.asked["labels"] = str(labels)
        if not given.plan:
            name, content, what = corrected_data(before, data, given.data, given.reading["label"])
            require_writable(given.out)
            write_whole(make_folder(given.out) / name, content)
            if not given.json_only:
                typer.echo(f"{given.out / name}: {what}, {data.n:,} of {count_of(before.n, 'row')}", err=True)
    return prepare_analyze(data, preprocess=preprocess, max_rows=max_rows, kinds=kinds, threads=threads, **given.shared)
