"""`overparam train [DATA]`: predict a run, train, and set the two side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from overparam.cli.driver import Given, Preprocess, question
from overparam.cli.networks import SIZES, Depth, Width, make_network, with_test_rows

if TYPE_CHECKING:
    from overparam.analysis import RunComparison
    from overparam.frame import Job


@question("train", "breast-cancer", "run-comparison")
def command(
    given: Given,
    preprocess: Preprocess = "auto",
    network: Annotated[str, typer.Option("--network", help=f"{', '.join(SIZES)}.")] = "two-layer",
    width: Width = None,
    depth: Depth = None,
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
    keep_every: Annotated[
        float,
        typer.Option("--keep-every", "--checkpoint-every", min=0, help="Seconds between two keepings of the run."),
    ] = 60.0,
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
) -> Job[RunComparison]:
    """Train a network on DATA and compare the run with what theory predicted before its first step. Writes a page."""
    from overparam.analysis import prepare_train_and_compare

    if keep_weights and not weights:
        raise ValueError("--keep-weights and --no-weights were both given; leave one out")
    data = with_test_rows(given.read(), given.reading["test"], given.seed)
    return prepare_train_and_compare(
        make_network(network, data, width, depth, kappa, paired, "--network"),
        data,
        lr=lr,
        steps=steps,
        batch=batch,
        momentum=momentum,
        weight_decay=weight_decay,
        objective=objective,
        loss=loss,
        preprocess=preprocess,
        keep_weights=keep_weights,
        keep_every=keep_every,
        **given.shared,
    )
