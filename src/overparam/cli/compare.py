"""`overparam compare [DATA]`: is a kernel enough, or is a trained network ahead?"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from overparam.cli import options as shared
from overparam.cli.display import Display
from overparam.cli.stopping import Stopped
from overparam.core.words import count_of


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
    sizes: Annotated[
        str | None,
        typer.Option("--sizes", help="Numbers of training rows, such as 500,1000,2000; n/8 to n if not given."),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Draws of training rows and initial weights.")] = 3,
    seconds: Annotated[
        float | None, typer.Option("--seconds", help="Time to fit, by fewer or more training steps; 420 if not given.")
    ] = None,
    width: Annotated[int | None, typer.Option("--width", help="Neurons of a hidden layer; 200 if time allows.")] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", help="Steps of training; what fits the time if not given.")
    ] = None,
    max_rows: Annotated[int | None, typer.Option("--max-rows", help="Most training rows; 4,000 if not given.")] = None,
    max_test: Annotated[int | None, typer.Option("--max-test", help="Most test rows; 2,000 if not given.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Go on with a comparison that was stopped, or start it again.")
    ] = True,
    json_only: shared.Json = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every draw.")] = 0,
    device: shared.Device = None,
    dtype: Annotated[
        str, typer.Option("--dtype", help="Of training: float32 or float64; kernels and results are float64.")
    ] = "float32",
    plan: shared.PlanOnly = False,
    no_samples: shared.NoSamples = False,
) -> None:
    """Tuned kernels against trained networks on growing parts of DATA, and a verdict: is a kernel enough? Writes a page."""
    from overparam.analysis import compare, plan_comparison
    from overparam.training.workplace import forget_parts

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
    shape: dict[str, Any] = {
        "sizes": _sizes(sizes),
        "seeds": seeds,
        "seconds": seconds,
        "width": width,
        "steps": steps,
        "preprocess": preprocess,
        "max_rows": max_rows,
        "max_test": max_test,
        "seed": seed,
        "dtype": dtype,
        "device": device,
    }
    if plan:
        planned = plan_comparison(loaded, **shape)
        typer.echo(json.dumps({**asdict(planned), "seconds": planned.seconds}) if json_only else str(planned))
        return
    shared.require_writable(out)
    if not resume:
        forget_parts(out)
    try:
        planned = plan_comparison(loaded, **shape, place=out, timed=width is None or steps is None)
        if planned.seconds > shared.LONG:
            display.plain(str(planned))
        with display.progress() as progress:
            result = compare(loaded, **shape, place=out, plan=planned, progress=progress)
    except KeyboardInterrupt:
        raise Stopped("stopped; finished parts are kept, and the same command goes on from there") from None
    where = result.save(out, samples=not no_samples)
    forget_parts(out)
    if json_only:
        shared.print_result(where)
        return
    done = f"n up to {result.sizes[-1]:,}, {count_of(result.seeds, 'seed')}, {count_of(result.test_rows, 'test row')}"
    display.summary(result.name, result.verdict, where, done, result.provenance)


def _sizes(text: str | None) -> tuple[int, ...] | None:
    """--sizes as numbers."""
    if text is None:
        return None
    words = [word.strip().replace("_", "") for word in text.split(",") if word.strip()]
    if not words or not all(word.isdigit() for word in words):
        raise ValueError(f"--sizes is {text!r}; expected numbers of training rows, such as 500,1000,2000")
    return tuple(int(word) for word in words)
