"""`overparam reproduce [STUDY]`: a figure or claim of a paper, run again at a chosen scale."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from overparam.cli import options as shared
from overparam.cli.display import Display
from overparam.cli.driver import Stopped

if TYPE_CHECKING:
    from overparam.studies import Study


def command(
    study: Annotated[str | None, typer.Argument(help="Its name; without one they are listed.")] = None,
    scale: Annotated[
        str, typer.Option("--scale", help="smoke (seconds), small (minutes) or full (the paper's size, on a GPU).")
    ] = "smoke",
    list_only: Annotated[bool, typer.Option("--list", help="Name the studies, a line each.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder for the result, its page and figures; overparam-out/STUDY-SCALE if not given."
        ),
    ] = None,
    json_only: shared.Json = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every draw.")] = 0,
    device: shared.Device = None,
    plan: shared.PlanOnly = False,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Use the parts that are finished, or make all of them again.")
    ] = True,
) -> None:
    """Run a figure or claim of a paper again and say what agreed. Finished parts are kept, so that it can be stopped."""
    from overparam.studies import SCALES, STUDIES

    if study is None or list_only:
        _list(STUDIES, json_only)
        return
    chosen = _named(STUDIES, study)
    if scale not in SCALES:
        raise ValueError(f"--scale is {scale!r}; expected one of {', '.join(SCALES)}")
    if plan:
        from overparam.studies import prepare_reproduce

        told = prepare_reproduce(chosen, scale, key=seed, device=device, place=out).plan  # pyright: ignore[reportArgumentType]
        typer.echo(json.dumps(told.to_json(), ensure_ascii=False) if json_only else str(told))
        return
    place = Path("overparam-out") / f"{chosen.name}-{scale}" if out is None else out
    shared.require_writable(place)
    display = Display(quiet=json_only)
    result = _run(display, chosen, scale, place, device, seed, resume)
    _write(result, place)
    if json_only:
        shared.print_result(place)
    else:
        display.summary(result, place)


def _list(studies: dict[str, Study], json_only: bool) -> None:
    if json_only:
        rows = [{"name": s.name, "title": s.title, "reference": s.reference} for s in studies.values()]
        typer.echo(json.dumps(rows, ensure_ascii=False))
        return
    width = max((len(name) for name in studies), default=0)
    for name, study in studies.items():
        typer.echo(f"{name:<{width}}  {study.title}")


def _named(studies: dict[str, Study], name: str) -> Study:
    if name not in studies:
        raise ValueError(f"there is no study {name!r}; expected one of {', '.join(studies)}")
    return studies[name]


def _run(display: Display, study: Study, scale: Any, place: Path, device: str | None, seed: int, resume: bool) -> Any:
    from overparam.studies import prepare_reproduce

    try:
        with display.progress() as progress:
            job = prepare_reproduce(study, scale, key=seed, device=device, place=place, progress=progress)
            if not resume:
                job.forget()
            if scale != "smoke":
                display.plain(str(job.plan))
            return job.run()
    except KeyboardInterrupt:
        raise Stopped("stopped; finished parts are kept, and the same command goes on from there") from None


def _write(result: Any, place: Path) -> None:
    """The folder, its page, and every figure as SVG and PNG where matplotlib is there."""
    from overparam.report import export_figures

    parts = result.parts()
    result.save(place)
    if importlib.util.find_spec("matplotlib") is not None:
        for kind in ("svg", "png"):
            export_figures(parts, place / "figures", kind=kind)
