"""`overparam landscape NETWORK [DATA]`: the training objective around the weights of a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from overparam.cli.driver import Given, MaxRows, numbers_in, question
from overparam.cli.networks import Depth, Network, Run, Width, as_trained, known, make_network, resumed, with_test_rows

if TYPE_CHECKING:
    from overparam.frame import Job
    from overparam.landscapes import Landscape


@question("landscape", "breast-cancer", "landscape")
def command(
    given: Given,
    network: Network,
    run: Run = None,
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
    max_rows: MaxRows = None,
    preprocess: Annotated[
        str | None, typer.Option("--preprocess", help="auto, none, unit, …; the run's if not given.")
    ] = None,
    width: Width = None,
    depth: Depth = None,
) -> Job[Landscape]:
    """Show the objective of NETWORK on DATA around its weights: a surface, how far it falls, how it curves. Writes a page."""
    from overparam.landscapes import prepare_landscape

    known(network)
    steps = numbers_in(at, "--at", "recorded steps such as 0,10,200", int)
    kept = resumed(run)
    if (plane == "trajectory" or steps is not None) and (kept is None or "weights" not in kept.run.records):
        asked = "--at names steps of a run and" if steps is not None else "--plane trajectory"
        raise ValueError(f"{asked} needs weights along a run: `overparam train … --keep-weights`, and --run its folder")
    if kept is None:
        data = with_test_rows(given.read(), given.reading["test"], given.seed)
        net = make_network(network, data, width, depth)
        ready = as_trained(data, preprocess or "auto")
    else:
        data = kept.read(given)
        net = kept.network(network, data, width, depth)
        ready = kept.rows(data, preprocess)
        preprocess = preprocess or kept.preprocess
    given.asked.update(
        run=None if run is None else str(run),
        preprocess=preprocess or "auto",
        data_seed=given.seed if kept is None else kept.seed,
    )
    return prepare_landscape(
        net,
        ready,
        plane=plane,  # pyright: ignore[reportArgumentType]
        run=None if kept is None else kept.run,
        at=steps,
        objective=objective,
        mode=mode,  # pyright: ignore[reportArgumentType]
        points=points,
        extent=extent,
        smoothing=smoothing,
        oja_steps=oja_steps,
        batch=batch,
        max_rows=max_rows,
        **given.shared,
    )
