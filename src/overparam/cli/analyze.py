"""`overparam analyze [DATA]`: the main job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from overparam.cli import options as shared
from overparam.cli.display import Display


def command(
    data: Annotated[str, typer.Argument(help="A name (`overparam datasets`), a file or a folder.")] = "digits",
    out: shared.Out = Path("overparam-out"),
    label: shared.Label = None,
    group: shared.Group = None,
    classes: shared.Classes = None,
    train: shared.Train = None,
    test: shared.Test = None,
    task: shared.Task = None,
    missing: shared.Missing = "error",
    preprocess: shared.Preprocess = "auto",
    max_rows: Annotated[
        int | None, typer.Option("--max-rows", help="Most rows to analyse; more are subsampled.")
    ] = None,
    threads: Annotated[int | None, typer.Option("--threads", help="BLAS threads.")] = None,
    json_only: shared.Json = False,
    seed: shared.Seed = 0,
    device: shared.Device = None,
    dtype: shared.Dtype = "float64",
    plan: shared.PlanOnly = False,
    no_samples: shared.NoSamples = False,
) -> None:
    """Tell what a wide network will do with DATA, and why to believe it. Writes a page."""
    shared.require_float64(dtype)
    from overparam.analysis import analyze, plan_analysis

    display = Display(quiet=json_only)
    loaded = shared.read_data(
        data,
        label=label,
        group=group,
        classes=classes,
        train=train,
        test=test,
        task=task,
        seed=seed,
        missing=missing,
    )
    planned, seconds, words = plan_analysis(loaded, max_rows=max_rows, device=device)
    if plan:
        typer.echo(json.dumps({"rows": planned.n, "seconds": seconds, "plan": words}) if json_only else words)
        return
    shared.require_writable(out)
    if seconds > shared.LONG:
        display.plain(words)
    with display.progress() as progress:
        result = analyze(
            loaded,
            preprocess=preprocess,
            max_rows=max_rows,
            seed=seed,
            device=device,
            threads=threads,
            progress=progress,
        )
    where = result.save(out, samples=not no_samples)
    if json_only:
        shared.print_result(where)
        return
    display.summary(result, where)
