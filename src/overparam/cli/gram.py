"""`overparam gram [DATA]`: the kernel matrix of a data set, built into a folder."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Annotated

import typer

from overparam.cli.driver import Given, MaxRows, Preprocess, question

if TYPE_CHECKING:
    from overparam.analysis.matrix_building import BuiltGram
    from overparam.frame import Job


@question("gram", "digits", "gram")
def command(
    given: Given,
    kernel: Annotated[
        str, typer.Option("--kernel", help="two-layer, fully-connected, laplace or gaussian.")
    ] = "two-layer",
    depth: Annotated[
        int | None, typer.Option("--depth", help="ReLU layers of fully-connected; 3 if not given.")
    ] = None,
    bandwidth: Annotated[
        float | None,
        typer.Option("--bandwidth", help="Of laplace and gaussian; the median distance of rows if not given."),
    ] = None,
    get: Annotated[str, typer.Option("--get", help="ntk or nngp.")] = "ntk",
    engine: Annotated[
        str,
        typer.Option("--engine", help="stored writes tiles into --out; auto, dense, half and matrix_free write none."),
    ] = "stored",
    preprocess: Preprocess = "auto",
    max_rows: MaxRows = None,
    rows_alone: Annotated[
        bool,
        typer.Option(
            "--rows-alone",
            help="DATA is rows without labels, used as they are: a .npy, parquet or Zarr, which may be larger than memory.",
        ),
    ] = False,
) -> Job[BuiltGram]:
    """Build the kernel matrix of DATA into a folder, in tiles that Zarr reads; killed, the same command goes on. Writes a page."""
    from overparam.analysis.matrix_building import prepare_build_gram
    from overparam.engines.tile_folder import NAME

    if not given.resume and not given.plan:
        shutil.rmtree(given.out / NAME, ignore_errors=True)
    given.asked.update(rows_alone=rows_alone or None)
    data = given.data if rows_alone else given.read()
    return prepare_build_gram(
        data,
        kernel=kernel,
        depth=depth,
        bandwidth=bandwidth,
        get=get,
        engine=engine,
        preprocess=preprocess,
        max_rows=max_rows,
        rows_alone=rows_alone,
        **{**given.shared, "place": given.out},
    )
