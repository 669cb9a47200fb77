"""`overparam foresee MODEL [DATA]`: what training a model of the user's own will do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from overparam.cli.driver import Given, MaxRows, question
from overparam.cli.model_files import model_from

if TYPE_CHECKING:
    from overparam.analysis import Forecast
    from overparam.frame import Job

Model = Annotated[
    str,
    typer.Argument(
        help="A function in a file, such as model.py:make, that gives the model: make() or make(data). The file is run."
    ),
]


@question("foresee", "breast-cancer", "forecast")
def command(
    given: Given,
    model: Model,
    objective: Annotated[str, typer.Option("--objective", help="squared or cross-entropy.")] = "squared",
    lr: Annotated[
        float | None, typer.Option("--lr", help="The rate to tell the curve for; half of what is safe if not given.")
    ] = None,
    momentum: Annotated[float, typer.Option("--momentum", help="Of SGD, from 0 to below 1.")] = 0.0,
    probe: Annotated[
        bool | None,
        typer.Option(
            "--probe/--no-probe",
            help="Train fifty steps (150 with momentum) at each of several rates, on a copy; for the squared loss alone if not given.",
        ),
    ] = None,
    preprocess: Annotated[
        str, typer.Option("--preprocess", help="none, standardise, unit, …: how rows are scaled before the model.")
    ] = "none",
    max_rows: MaxRows = None,
) -> Job[Forecast]:
    """Stable rates, the loss curve and until when to believe it, for a PyTorch, Flax or Equinox MODEL on DATA. Writes a page."""
    from overparam.analysis import prepare_foresee
    from overparam.analysis.model_forecast import rows_of_model

    data = given.read()
    seen, _ = rows_of_model(data, preprocess, max_rows, given.seed)  # has the columns that the model will get
    return prepare_foresee(
        model_from(model, seen, given.seed),
        data,
        objective=objective,
        lr=lr,
        momentum=momentum,
        probe=probe,
        preprocess=preprocess,
        max_rows=max_rows,
        **given.shared,
    )
