"""`overparam landscape NETWORK [DATA]`: the training objective around the weights of a network."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from overparam.cli import options as shared
from overparam.cli.architectures import SIZES
from overparam.cli.display import Display
from overparam.cli.kept_runs import kept_run


def command(
    network: Annotated[str, typer.Argument(help=f"{', '.join(SIZES)}.")],
    data: Annotated[str, typer.Argument(help="A name (`overparam datasets`), a file or a folder.")] = "breast-cancer",
    out: shared.Out = Path("overparam-out"),
    run: Annotated[
        Path | None,
        typer.Option(
            "--run",
            help="Folder of `overparam train` on the same data: its last weights, its objective, its scaling of rows and "
            "the sizes of its network are taken. Fresh weights if not given.",
        ),
    ] = None,
    plane: Annotated[
        str,
        typer.Option("--plane", help="gradient-curvature, random, or trajectory (--run of a `train --keep-weights`)."),
    ] = "gradient-curvature",
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            help="Recorded steps of the run, such as 0,10,200, one surface each (--run of a `train --keep-weights`); its "
            "end if not given.",
        ),
    ] = None,
    points: Annotated[int, typer.Option("--points", help="Points of each axis.")] = 21,
    extent: Annotated[
        float | None,
        typer.Option(
            "--extent", help="How far each axis reaches; past the lowest point along the gradient if not given."
        ),
    ] = None,
    mode: Annotated[str, typer.Option("--mode", help="eval or train: how batch norm averages.")] = "eval",
    objective: Annotated[
        str | None,
        typer.Option("--objective", help="squared, cross-entropy, ramp or smooth-absolute; the run's if not given."),
    ] = None,
    smoothing: Annotated[
        float | None,
        typer.Option("--smoothing", help="Noise of each weight; a hundredth of their root mean square if not given."),
    ] = None,
    oja_steps: Annotated[int, typer.Option("--oja-steps", help="Steps of Oja's method.")] = 100,
    batch: Annotated[int | None, typer.Option("--batch", help="Rows a step of Oja's method; all if not given.")] = None,
    rows: Annotated[int | None, typer.Option("--rows", help="The first so many rows; all if not given.")] = None,
    label: shared.Label = None,
    group: shared.Group = None,
    classes: shared.Classes = None,
    train: shared.Train = None,
    test: Annotated[
        str | None, typer.Option("--test", help="Test rows that are left out, as `overparam train` has it.")
    ] = None,
    task: shared.Task = None,
    missing: shared.Missing = "error",
    preprocess: Annotated[
        str | None, typer.Option("--preprocess", help="auto, none, unit, …; the run's if not given.")
    ] = None,
    width: Annotated[int | None, typer.Option("--width", help="Neurons of a layer.")] = None,
    depth: Annotated[int | None, typer.Option("--depth", help="ReLU layers of a deep network.")] = None,
    json_only: shared.Json = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of fresh weights, held-out rows and all draws.")] = 0,
    device: shared.Device = None,
    dtype: Annotated[str, typer.Option("--dtype", help="float64, float32, or tf32 on NVIDIA GPUs.")] = "float64",
    plan: shared.PlanOnly = False,
    no_samples: shared.NoSamples = False,
) -> None:
    """Show the objective of NETWORK on DATA around its weights: a surface, how far it falls, how it curves. Writes a page."""
    from overparam.landscapes import prepare_landscape

    display = Display(quiet=json_only)
    steps = _steps(at)
    kept = kept_run(run)
    if (plane == "trajectory" or steps is not None) and (kept.run is None or "weights" not in kept.run.records):
        asked = "--at names steps of a run and" if steps is not None else "--plane trajectory"
        raise ValueError(f"{asked} needs weights along a run: `overparam train … --keep-weights`, and --run its folder")
    loaded = kept.read_data(
        data, label=label, group=group, classes=classes, train=train, test=test, task=task, seed=seed, missing=missing
    )
    net, ready = kept.network_and_rows(network, loaded, width, depth, preprocess)
    shape: dict[str, Any] = {
        "plane": plane,
        "run": kept.run,
        "at": steps,
        "objective": objective,
        "mode": mode,
        "points": points,
        "smoothing": smoothing,
        "oja_steps": oja_steps,
        "batch": batch,
        "max_rows": rows,
        "key": seed,
        "dtype": dtype,
        "device": device,
    }
    with display.progress() as progress:
        job = prepare_landscape(net, ready, extent=extent, progress=progress, place=out, **shape)
        if not plan:
            shared.require_writable(out)
            if job.plan.seconds > shared.LONG:
                display.plain(str(job.plan))
            result = job.run()
    if plan:
        typer.echo(json.dumps(job.plan.to_json()) if json_only else str(job.plan))
        return
    asked = {"run": None if run is None else str(run), "preprocess": preprocess or kept.preprocess or "auto", "train": train, "test": test,
             "classes": classes, "label": label, "group": group, "task": task, "missing": missing,
             "data_seed": seed if kept.seed is None else kept.seed}  # fmt: skip
    configuration = {**result.provenance.configuration, **{k: v for k, v in asked.items() if v is not None}}
    result = replace(result, provenance=replace(result.provenance, configuration=configuration))
    where = result.save(out, samples=not no_samples)
    job.forget()
    if json_only:
        shared.print_result(where)
        return
    display.summary(result, where)


def _steps(text: str | None) -> list[int] | None:
    """--at as steps."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isdigit() for word in words):
        raise ValueError(f"--at is {text!r}; expected recorded steps such as 0,10,200")
    return [int(word) for word in words]
