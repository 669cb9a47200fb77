"""`overparam audit [NETWORK] [DATA]`: what the papers' lemmas say of a network, measured on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from overparam.cli import options as shared
from overparam.cli.architectures import SIZES, make_network
from overparam.cli.display import Display
from overparam.cli.driver import Stopped
from overparam.cli.kept_runs import kept_run


def command(
    network: Annotated[str, typer.Argument(help=f"{', '.join(SIZES)}.")] = "fully-connected",
    data: Annotated[str, typer.Argument(help="A name (`overparam datasets`), a file or a folder.")] = "digits",
    out: shared.Out = Path("overparam-out"),
    run: Annotated[
        Path | None,
        typer.Option(
            "--run",
            help="Folder of `overparam train` on the same data: the audit begins at its first weights, takes its way as the "
            "direction of training, and looks at its last weights too. Fresh weights if not given.",
        ),
    ] = None,
    width: Annotated[int | None, typer.Option("--width", help="Neurons of a layer.")] = None,
    depth: Annotated[int | None, typer.Option("--depth", help="ReLU layers of a deep network.")] = None,
    label: shared.Label = None,
    classes: shared.Classes = None,
    group: shared.Group = None,
    train: Annotated[
        int | None, typer.Option("--train", help="Most rows to read; with --run those it was trained on.")
    ] = None,
    test: Annotated[
        str | None, typer.Option("--test", help="Test rows that are left out, as `overparam train` has it (--run).")
    ] = None,
    rows: Annotated[int | None, typer.Option("--rows", help="Most rows to use; 1,000 if not given.")] = None,
    task: shared.Task = None,
    missing: shared.Missing = "error",
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
    prepare: Annotated[
        str, typer.Option("--prepare", help="auto or paper scale and pad rows as the papers want them; none does not.")
    ] = "auto",
    json_only: shared.Json = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the weights and of every draw.")] = 0,
    device: shared.Device = None,
    dtype: Annotated[
        str, typer.Option("--dtype", help="In which the network computes: float64 or float32.")
    ] = "float64",
    plan: shared.PlanOnly = False,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Go on with an audit that was stopped, or start it again.")
    ] = True,
) -> None:
    """Measure on a network of the papers, on DATA, what their lemmas say of it: exponents, constants, verdicts. Writes a page."""
    from overparam.audits import prepare_audit
    from overparam.audits.preparation import require_dtype

    if network not in SIZES:
        raise ValueError(f"NETWORK is {network!r}; expected one of {', '.join(SIZES)}")
    require_dtype(dtype)
    display = Display(quiet=json_only)
    kept = kept_run(run)
    given = {"label": label, "group": group, "classes": classes, "train": train, "task": task, "missing": missing}
    if kept.run is None:
        if test is not None:
            raise ValueError("--test is for --run: without a run no rows are left out")
        loaded = shared.read_data(data, test=None, seed=seed, **given)
        net = make_network(network, loaded, width, depth, None, None)
    else:
        net, loaded = kept.network_and_rows(network, kept.read_data(data, test=test, seed=seed, **given), width, depth)
    shape: dict[str, Any] = {
        "key": seed,
        "omegas": _numbers(omegas),
        "max_rows": rows if rows is not None else train,
        "run": kept.run,
        "laws": _names(laws),
        "effort": effort,
        "preprocess": prepare,
        "dtype": dtype,
        "device": device,
    }
    try:
        with display.progress() as progress:
            job = prepare_audit(net, loaded, **shape, place=out, progress=progress)
            if not plan:
                shared.require_writable(out)
                if not resume:
                    job.forget()
                if job.plan.seconds > shared.LONG:
                    display.plain(str(job.plan))
                result = job.run()
    except KeyboardInterrupt:
        raise Stopped(
            "stopped; finished measurements are kept, and the same command goes on from there. --effort quick, or fewer "
            "--laws, takes less time"
        ) from None
    if plan:
        typer.echo(json.dumps(job.plan.to_json()) if json_only else str(job.plan))
        return
    where = result.save(out)
    job.forget()
    if json_only:
        shared.print_result(where)
        return
    display.summary(result, where)


def _numbers(text: str | None) -> tuple[float, ...] | None:
    """--omegas as numbers."""
    if text is None:
        return None
    try:
        return tuple(float(word) for word in text.split(",") if word.strip())
    except ValueError:
        raise ValueError(f"--omegas is {text!r}; expected radii such as 0.001,0.01,0.1") from None


def _names(text: str | None) -> tuple[str, ...] | None:
    """--laws as names."""
    if text is None:
        return None
    names = tuple(word.strip() for word in text.split(",") if word.strip())
    if not names:
        raise ValueError(
            f"--laws is {text!r}, which names none; name some, such as 'forward norms,separation', or leave it out for all"
        )
    return names
