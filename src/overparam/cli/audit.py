"""`overparam audit [NETWORK] [DATA]`: what the papers' lemmas say of a network, measured on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from overparam.cli.driver import Given, MaxRows, names_in, numbers_in, question
from overparam.cli.networks import Depth, Network, Run, Width, known, make_network, resumed

if TYPE_CHECKING:
    from overparam.audits import Audit
    from overparam.frame import Job


@question("audit", "digits", "audit")
def command(
    given: Given,
    network: Network = "fully-connected",
    run: Run = None,
    width: Width = None,
    depth: Depth = None,
    max_rows: MaxRows = None,
    omegas: Annotated[
        str | None,
        typer.Option(
            "--omegas", help="Spectral radii of the perturbations, such as 0.001,0.01,0.1; up to 1 if not given."
        ),
    ] = None,
    laws: Annotated[
        str | None,
        typer.Option("--laws", help="Names of measurements, such as 'forward norms,separation'; all if not given."),
    ] = None,
    effort: Annotated[str, typer.Option("--effort", help="quick, usual or thorough.")] = "usual",
    preprocess: Annotated[
        str,
        typer.Option(
            "--preprocess", "--prepare", help="auto or paper scale and pad rows as the papers want them; none does not."
        ),
    ] = "auto",
) -> Job[Audit]:
    """Measure on a network of the papers, on DATA, what their lemmas say of it: exponents, constants, verdicts. Writes a page."""
    from overparam.audits import prepare_audit

    known(network)
    kept = resumed(run)
    if kept is None:
        if given.reading["test"] is not None:
            raise ValueError("--test is for --run: without a run no rows are left out")
        data = given.read()
        net = make_network(network, data, width, depth)
    else:
        data = kept.read(given)
        net = kept.network(network, data, width, depth)
        data = kept.rows(data)
    return prepare_audit(
        net,
        data,
        omegas=numbers_in(omegas, "--omegas", "radii such as 0.001,0.01,0.1"),
        max_rows=max_rows if max_rows is not None else given.reading["train"],
        run=None if kept is None else kept.run,
        laws=names_in(laws, "--laws", "names such as 'forward norms,separation', or leave it out for all"),
        effort=effort,
        preprocess=preprocess,
        **given.shared,
    )
