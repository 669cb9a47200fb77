"""`overparam compare [DATA]`: is a kernel enough, or is a trained network ahead?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from overparam.cli.driver import Given, MaxRows, Preprocess, numbers_in, question

if TYPE_CHECKING:
    from overparam.analysis import Comparison
    from overparam.frame import Job


@question("compare", "digits", "comparison")
def command(
    given: Given,
    preprocess: Preprocess = "auto",
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
    max_rows: MaxRows = None,
    max_test: Annotated[int | None, typer.Option("--max-test", help="Most test rows; 2,000 if not given.")] = None,
) -> Job[Comparison]:
    """Tuned kernels against trained networks on growing parts of DATA, and a verdict: is a kernel enough? Writes a page."""
    from overparam.analysis import prepare_compare

    return prepare_compare(
        given.read(),
        preprocess=preprocess,
        sizes=numbers_in(sizes, "--sizes", "numbers of training rows, such as 500,1000,2000", int),
        seeds=seeds,
        seconds=seconds,
        width=width,
        steps=steps,
        max_rows=max_rows,
        max_test=max_test,
        **given.shared,
    )
