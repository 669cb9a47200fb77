"""`overparam train [DATA]`: predict a run, train, and set the two side by side."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from overparam.cli import options as shared
from overparam.cli.architectures import SIZES, make_network
from overparam.cli.display import Display
from overparam.cli.driver import Stopped

if TYPE_CHECKING:
    from overparam.analysis import RunPlan
    from overparam.data import Dataset

UNFINISHED = "unfinished"
"""Folder under --out in which a run is kept while it goes."""
WITHOUT_KERNEL = ("residual", "three-layer-resnet")
"""Networks whose kernel at infinite width is not known in closed form, so that there is no rate for several outputs."""
SOME = 100
"""Rows on which a rate to begin with is estimated."""
HELD_OUT, FEW = 0.2, 20
"""The share of rows held out where the data has no test rows, and how few rows are left whole."""


def command(
    data: Annotated[str, typer.Argument(help="A name (`overparam datasets`), a file or a folder.")] = "breast-cancer",
    out: shared.Out = Path("overparam-out"),
    label: shared.Label = None,
    group: shared.Group = None,
    classes: shared.Classes = None,
    train: shared.Train = None,
    test: Annotated[
        str | None,
        typer.Option(
            "--test", help="Test rows: a count, a share below 1, 0 for none; a fifth where the data has none."
        ),
    ] = None,
    task: shared.Task = None,
    missing: shared.Missing = "error",
    preprocess: shared.Preprocess = "auto",
    network: Annotated[str, typer.Option("--network", help=f"{', '.join(SIZES)}.")] = "two-layer",
    width: Annotated[int | None, typer.Option("--width", help="Neurons of a layer; 4,000 for two layers.")] = None,
    depth: Annotated[int | None, typer.Option("--depth", help="ReLU layers of a deep network.")] = None,
    kappa: Annotated[
        float | None,
        typer.Option(
            "--kappa", help="Standard deviation of the initial weights of a two-layer network; 1 if not given."
        ),
    ] = None,
    paired: Annotated[
        bool | None,
        typer.Option(
            "--paired/--no-paired",
            help="Neurons in pairs of opposite sign, so that a two-layer network starts at 0; the default. The paper draws "
            "each by itself: what the network then says at the start enters the prediction.",
        ),
    ] = None,
    lr: Annotated[
        float | None,
        typer.Option(
            "--lr",
            help="Learning rate; half the largest stable one if not given, but residual and three-layer-resnet of "
            "several outputs need it.",
        ),
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=0, help="Steps of training.")] = 200,
    batch: Annotated[int | None, typer.Option("--batch", help="Rows a step; all if not given.")] = None,
    momentum: Annotated[float, typer.Option("--momentum", help="Of heavy ball, from 0 to below 1.")] = 0.0,
    weight_decay: Annotated[
        float, typer.Option("--weight-decay", help="Times the weights, added to the gradient.")
    ] = 0.0,
    objective: Annotated[
        str, typer.Option("--objective", help="squared, cross-entropy, ramp or smooth-absolute.")
    ] = "squared",
    loss: Annotated[str, typer.Option("--loss", help="sum or mean over rows: what the rate refers to.")] = "sum",
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", help="Folder in which the run is kept while it goes; under --out if not given."),
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option("--checkpoint-every", min=0, help="Seconds between two keepings.")
    ] = 60.0,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Go on with a run that was stopped, or start it again.")
    ] = True,
    weights: Annotated[
        bool, typer.Option("--weights/--no-weights", help="Whether arrays.npz holds the trained weights.")
    ] = True,
    keep_weights: Annotated[
        bool,
        typer.Option(
            "--keep-weights",
            help="Keep the weights of every recorded step too, for `overparam landscape --plane trajectory` and --at.",
        ),
    ] = False,
    json_only: shared.Json = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the initial weights, batches and held-out rows.")] = 0,
    device: shared.Device = None,
    dtype: Annotated[
        str, typer.Option("--dtype", help="float64, float32, or tf32 on NVIDIA GPUs; the prediction is float64.")
    ] = "float64",
    plan: shared.PlanOnly = False,
    no_samples: shared.NoSamples = False,
) -> None:
    """Train a network on DATA and compare the run with what theory predicted before its first step. Writes a page."""
    from overparam.analysis import plan_run
    from overparam.analysis.run_choices import NO_RATE

    display = Display(quiet=json_only)
    if keep_weights and not weights:
        raise ValueError("--keep-weights and --no-weights were both given; leave one out")
    loaded = shared.read_data(
        data,
        label=label,
        group=group,
        classes=classes,
        train=train,
        test=None if test == "0" else test,
        task=task,
        seed=seed,
        missing=missing,
    )
    loaded = with_test_rows(loaded, test, seed)
    net = make_network(network, loaded, width, depth, kappa, paired, "--network")
    shape: dict[str, Any] = {
        "lr": lr,
        "steps": steps,
        "batch": batch,
        "momentum": momentum,
        "weight_decay": weight_decay,
        "objective": objective,
        "loss": loss,
        "preprocess": preprocess,
        "dtype": dtype,
        "device": device,
    }
    if lr is None and network in WITHOUT_KERNEL and loaded.k > 1 and not plan:
        raise ValueError(_without_rate(net, loaded, preprocess, loss, seed))  # before a plan is shown
    planned = _with_weights(plan_run(loaded, net, **shape, timed=plan), keep_weights)
    if plan:
        typer.echo(json.dumps({**asdict(planned), "seconds": planned.seconds}) if json_only else str(planned))
        return
    planned.require_memory()
    shared.require_writable(out)
    if checkpoint is not None:
        shared.require_writable(checkpoint, "--checkpoint")
    if planned.seconds > shared.LONG:
        planned = _with_weights(plan_run(loaded, net, **shape), keep_weights)
        display.plain(str(planned))
    kept = out / UNFINISHED if checkpoint is None else checkpoint
    if not resume:
        _forget(kept)
    options = shape | {"key": seed, "keep_weights": keep_weights}
    try:
        result = _run(display, loaded, net, options, kept, checkpoint_every)
    except ValueError as error:
        if str(error) != NO_RATE:
            raise
        raise ValueError(_without_rate(net, loaded, preprocess, loss, seed)) from None
    where = result.save(out, weights=weights, samples=not no_samples)
    _forget(kept)
    if json_only:
        shared.print_result(where)
        return
    display.summary(result, where)


def _without_rate(net: Any, data: Dataset, preprocess: str, loss: str, seed: int) -> str:
    """What to do where no rate is computed: half of 2/λ_max of the network's own tangent kernel, estimated on some rows."""
    import jax
    import numpy as np

    from overparam.analysis.run_choices import prepare_run
    from overparam.kernels import Empirical

    ready = prepare_run(data, preprocess, net)
    X = np.asarray(ready.X, float)[:SOME]
    with jax.enable_x64(True):
        params = net.init(seed, ready.d)
        kernels = [Empirical(net, params, outputs=output)(X) for output in range(ready.k)]
    largest = max(float(np.linalg.eigvalsh(K)[-1]) for K in kernels) / len(X)
    known = np.isfinite(largest) and largest > 0
    rate = 1 / largest / (ready.n if loss == "sum" else 1) if known else 1e-4
    return (
        "--lr is not given, and there is no kernel of this network on these rows to compute a stable one from; begin with "
        f"--lr {rate:.1g}"
    )


def _with_weights(planned: RunPlan, keep: bool) -> RunPlan:
    """With the memory for the weights of every record, in float64, while they are collected and written."""
    return replace(planned, memory=planned.memory + 16 * planned.records * planned.weights) if keep else planned


def _forget(kept: Path) -> None:
    """Delete the run kept in a folder, and the folder where nothing else is in it."""
    from overparam.frame import State

    if kept.is_dir():
        State(kept, "training", "").forget()


def with_test_rows(data: Dataset, asked: str | None, seed: int) -> Dataset:
    """A fifth held out where the data has no test rows and none were asked for; 0 takes away those it has."""
    if asked == "0":
        return data if data.test is None else data.replace(test=None)
    if asked is not None or data.test is not None or data.n < FEW:
        return data
    from overparam.data import split

    return split(data, HELD_OUT, key=seed)


def _run(display: Display, data: Dataset, net: Any, options: dict[str, Any], kept: Path, every: float) -> Any:
    """The comparison; ctrl-C says how to go on, and a run of other settings in the same place how to start again."""
    from overparam.analysis import train_and_compare
    from overparam.frame import OtherWork
    from overparam.training import Interrupted

    try:
        with display.progress() as progress:
            return train_and_compare(data, net, **options, checkpoint=kept, checkpoint_seconds=every, progress=progress)
    except Interrupted as stop:
        raise Stopped(f"stopped at step {stop.step:,}; the same command goes on from there") from None
    except KeyboardInterrupt:
        raise Stopped("stopped before the first step; the same command starts again") from None
    except OtherWork as error:
        raise ValueError(f"{error}; --no-resume deletes it") from None
