"""`overparam analyze [DATA]`: the main job."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from overparam.cli import options as shared
from overparam.cli.display import Display

LONG = 10.0
"""Seconds from which the plan is shown before the work starts."""


def command(
    data: Annotated[str, typer.Argument(help="A name (`overparam datasets`), a file or a folder.")] = "digits",
    out: shared.Out = Path("overparam-out"),
    label: Annotated[
        str | None, typer.Option("--label", help="The label column of a table; the last if not given.")
    ] = None,
    group: Annotated[str | None, typer.Option("--group", help="A column whose groups are never split.")] = None,
    classes: Annotated[
        str | None, typer.Option("--classes", help="Classes to keep, such as 0,1; the first is +1.")
    ] = None,
    train: Annotated[int | None, typer.Option("--train", help="Most training rows to read.")] = None,
    test: Annotated[str | None, typer.Option("--test", help="Test rows: a count, or a share below 1.")] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="classes or regression, where the labels do not tell.")
    ] = None,
    missing: Annotated[
        str, typer.Option("--missing", help="error, mean or drop: what to do with missing values.")
    ] = "error",
    preprocess: Annotated[str, typer.Option("--preprocess", help="auto, none, unit, standardise, …")] = "auto",
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
    from overparam.core import folder
    from overparam.data import load

    display = Display(quiet=json_only)
    loaded = load(
        data,
        label=label,
        group=group,
        classes=_classes(classes),
        train=train,
        test=_count_or_share(test),
        task=task,
        seed=seed,
        missing=missing,
    )
    planned, seconds, words = plan_analysis(loaded, max_rows=max_rows, device=device)
    if plan:
        typer.echo(json.dumps({"rows": planned.n, "seconds": seconds, "plan": words}) if json_only else words)
        return
    if seconds > LONG:
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
        json.dump(folder.to_document(result.parts()), sys.stdout, allow_nan=False, ensure_ascii=False)
        sys.stdout.write("\n")
        return
    display.summary(result, where)


def _classes(text: str | None) -> tuple[int | str, ...] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(names) < 2:
        raise ValueError(f"--classes is {text!r}; name at least two, such as 0,1")
    return tuple(int(name) if name.lstrip("-").isdigit() else name for name in names)


def _count_or_share(text: str | None) -> int | float | None:
    if text is None:
        return None
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise ValueError(f"--test is {text!r}; expected a count such as 2000 or a share such as 0.2") from None
